// SPDX-License-Identifier: Apache-2.0
// Running modules: calls, workspaces, what is refused, levels, extents.
#include "support.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "module_fixture.h"

// ---- modules -----------------------------------------------------------------------------------
static void calls(void **state) {
    for (int64_t n = 1; n <= 64; n += n < 5 ? 1 : 13)
        for (int64_t h = 1; h <= 8; h += 3) {
            Case *c = module_case_new(n, h);
            Args args = module_case_args(c);
            assert_int_equal(att_module_call(*state, &module_scores, &args), ATT_OK);
            module_case_check(c);
            free(c);
        }
}

static void runs_with_times(void **state) {
    Case *c = module_case_new(7, 4);
    int64_t extents[] = {7, D, 4, 7};
    void *pointers[] = {c->x, c->p, c->mask, c->y, c->t};
    double seconds[3] = {0};
    AttRun run = {.extents = extents, .tensors = pointers, .seconds = seconds};
    assert_int_equal(att_module_run(*state, &module_scores, &run), ATT_OK);
    module_case_check(c);
    for (int i = 0; i < 3; i++)
        assert_true(seconds[i] > 0 && seconds[i] < 10);
    free(c);
}

// Of two ways to make Y the chosen one runs; without choices the first.
static void choices(void **state) {
    Case *c = module_case_new(7, 4);
    int64_t extents[] = {7, D, 4, 7}, n_alternatives[] = {2}, chosen[] = {1};
    void *pointers[] = {c->x, c->p, c->mask, c->y, c->t};
    AttLaunch launches[4];
    AttModule module = module_scores;
    for (int i = 0; i < 4; i++)
        launches[i] = module_scores.launches[0][i < 2 ? i : i - 1];
    launches[1].choice = launches[2].choice = 0;
    launches[2].alternative = 1;
    for (int level = 0; level < ATT_N_LEVELS; level++) {
        module.n_launches[level] = 4;
        module.launches[level] = launches;
        module.n_choices[level] = 1;
        module.n_alternatives[level] = n_alternatives;
    }
    for (int way = 0; way < 3; way++) {
        double seconds[4] = {0};
        AttRun run = {.extents = extents, .tensors = pointers, .seconds = seconds};
        chosen[0] = way == 1;
        run.choices = way == 2 ? NULL : chosen;
        memset(c->y, 0, 7 * sizeof *c->y);
        assert_int_equal(att_module_run(*state, &module, &run), ATT_OK);
        module_case_check(c);
        assert_true((seconds[1] > 0) == (way != 1));
        assert_true((seconds[2] > 0) == (way == 1));
    }
    free(c);
}

// ---- one context, several calls ----
enum { CALLS = 16 };
typedef struct {
    AttContext *ctx;
    Case *cases[CALLS];
    AttStatus status[CALLS];
} Calls;

static void make_calls(Calls *list, AttContext *ctx) {
    list->ctx = ctx;
    for (int i = 0; i < CALLS; i++)
        list->cases[i] = module_case_new(40 + i, 1 + i % 8);
}

// Calls that ran are right, those that were refused did nothing.
static void check_calls(Calls *list, int *ran) {
    for (int i = 0; i < CALLS; i++) {
        Case *c = list->cases[i];
        if (list->status[i] == ATT_OK) {
            module_case_check(c);
            ++*ran;
        } else {
            assert_int_equal(list->status[i], ATT_BUSY);
            assert_true(c->t[0] == 0 && c->y[1] == 0);
        }
        free(c);
    }
}

static void call_task(void *arg, void *scratch, int64_t task) {
    Calls *list = arg;
    Args args = module_case_args(list->cases[task]);
    (void)scratch;
    list->status[task] = att_module_call(list->ctx, &module_scores, &args);
}

static void calls_within_tasks(void **state) {
    Calls list;
    int ran = 0;
    make_calls(&list, *state);
    assert_int_equal(att_parallel(*state, call_task, &list, CALLS, 0), ATT_OK);
    check_calls(&list, &ran);
    assert_int_equal(ran, CALLS);
}

static void *call_all(void *arg) {
    for (int i = 0; i < CALLS; i++)
        call_task(arg, NULL, i);
    return NULL;
}

static void calls_of_two_threads(void **state) {
    Calls mine, other;
    pthread_t host;
    int ran = 0;
    make_calls(&mine, *state);
    make_calls(&other, *state);
    assert_int_equal(pthread_create(&host, NULL, call_all, &other), 0);
    call_all(&mine);
    assert_int_equal(pthread_join(host, NULL), 0);
    check_calls(&mine, &ran);
    check_calls(&other, &ran);
    assert_true(ran > 0);
}

static void workspaces(void **state) {
    int64_t extents[] = {7, D, 4, 7}, huge[] = {INT64_C(1) << 61, D, 4, INT64_C(1) << 61};
    _Alignas(64) char memory[192];
    Case *c = module_case_new(7, 4);
    Args args = module_case_args(c);
    assert_int_equal(att_module_workspace(&module_scores, extents), 128); // 7 * 4 * 4, whole lines
    assert_int_equal(att_module_workspace(&module_scores, huge), -1);
    args.workspace = memory;
    args.workspace_bytes = 127;
    assert_int_equal(att_module_call(*state, &module_scores, &args), ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "workspace has 127 bytes and needs 128");
    args.workspace_bytes = 128;
    memset(memory, 'x', sizeof memory);
    assert_int_equal(att_module_call(*state, &module_scores, &args), ATT_OK);
    module_case_check(c);
    for (int i = 128; i < 192; i++)
        assert_int_equal(memory[i], 'x');
    args.workspace = memory + 4;
    assert_int_equal(att_module_call(*state, &module_scores, &args), ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "workspace is not aligned to 64 bytes");
    free(c);
}

static void refuse(AttContext *ctx, const Args *args, const char *message) {
    assert_int_equal(att_module_call(ctx, &module_scores, args), ATT_ARGUMENT);
    if (!strstr(att_message(ctx), message))
        fail_msg("expected \"%s\", got \"%s\"", message, att_message(ctx));
}

static void bad_arguments(void **state) {
    Case *c = module_case_new(7, 4);
    const Args good = module_case_args(c);
    Args args = good;
    args.struct_size = 8;
    refuse(*state, &args, "struct_size is 8 where Scores expects 88");
    refuse(*state, NULL, "the arguments of Scores are NULL");
    assert_int_equal(att_module_call(NULL, &module_scores, &good), ATT_ARGUMENT);
    args = good;
    args.n = -1;
    refuse(*state, &args, "n must be at least 0, not -1");
    args = good;
    args.h = -5;
    refuse(*state, &args, "h must be at least 0, not -5");
    args = good;
    args.m = 8;
    refuse(*state, &args, "m must equal n: they are 8 and 7");
    args = good;
    args.X = NULL;
    refuse(*state, &args, "X is NULL");
    args = good;
    args.T = NULL;
    refuse(*state, &args, "T is NULL");
    args = good;
    args.P = (const float *)((const char *)c->p + 2);
    refuse(*state, &args, "P is not aligned to its elements of 4 bytes");
    args = good;
    args.Y = c->x + 7 * D - 1;
    refuse(*state, &args, "Y overlaps X");
    args = good;
    args.T = c->y;
    refuse(*state, &args, "Y overlaps T");
    args = good;
    args.n = args.m = INT64_C(1) << 40;
    refuse(*state, &args, "T has more bytes than memory can hold");
    args = good;
    args.h = INT64_C(1) << 62;
    refuse(*state, &args, "more bytes than memory can hold");
    assert_int_equal(att_module_call(*state, &module_scores, &good), ATT_OK);
    module_case_check(c);
    free(c);
}

// The module twice over, for n < 5 and for n >= 5 and h < 7, each with a workspace of its own.
typedef struct {
    AttGuard small, large[2];
    AttTensor tensors[7];
    int64_t arguments[3][3];
    AttLaunch launches[6];
    AttModule module;
} Guarded;

static void guard(Guarded *g) {
    g->small = (AttGuard){DIM_N, 0, 5};
    g->large[0] = (AttGuard){DIM_N, 5, INT64_MAX};
    g->large[1] = (AttGuard){DIM_H, 0, 7};
    memcpy(g->tensors, module_scores.tensors, 6 * sizeof *g->tensors);
    g->tensors[6] = g->tensors[5];
    g->tensors[5].n_guards = 1;
    g->tensors[5].guards = &g->small;
    g->tensors[6].n_guards = 2;
    g->tensors[6].guards = g->large;
    g->tensors[6].slot = 1;
    for (int i = 0; i < 3; i++) {
        const AttLaunch *launch = &module_scores.launches[0][i];
        g->launches[i] = g->launches[3 + i] = *launch;
        for (int64_t k = 0; k < module_scores.kernels[launch->kernel].n_args; k++)
            g->arguments[i][k] = launch->tensors[k] == 5 ? 6 : launch->tensors[k];
        g->launches[i].n_guards = 1;
        g->launches[i].guards = &g->small;
        g->launches[3 + i].tensors = g->arguments[i];
        g->launches[3 + i].n_guards = 2;
        g->launches[3 + i].guards = g->large;
    }
    g->module = module_scores;
    g->module.n_tensors = 7;
    g->module.tensors = g->tensors;
    g->module.n_slots = 2;
    for (int level = 0; level < ATT_N_LEVELS; level++) {
        g->module.n_launches[level] = 6;
        g->module.launches[level] = g->launches;
    }
}

static void guards_choose_launches_and_workspace(void **state) {
    Guarded g;
    guard(&g);
    for (int64_t n = 4; n <= 6; n++)
        for (int64_t h = 6; h <= 7; h++) {
            Case *c = module_case_new(n, h);
            Args args = module_case_args(c);
            int64_t extents[] = {n, D, h, n};
            bool runs = n < 5 || h < 7;
            c->y[0] = 777;
            assert_int_equal(att_module_call(*state, &g.module, &args), ATT_OK);
            if (runs)
                module_case_check(c);
            else
                assert_true(c->y[0] == 777);
            assert_int_equal(att_module_workspace(&g.module, extents),
                             runs ? att_module_workspace(&module_scores, extents) : 0);
            free(c);
        }
}

static void bad_modules(void **state) {
    Case *c = module_case_new(7, 4);
    Args args = module_case_args(c);
    AttModule other = module_scores;
    other.abi = ATT_MODULE_ABI + 1;
    assert_int_equal(att_module_call(*state, &other, &args), ATT_UNSUPPORTED);
    assert_non_null(strstr(att_message(*state), "another version of the runtime"));
    other = module_scores;
    memset(other.n_launches, 0, sizeof other.n_launches);
    assert_int_equal(att_module_call(*state, &other, &args), ATT_UNSUPPORTED);
    assert_string_equal(att_message(*state), "Scores has no code");
    int64_t wrong[] = {7, D + 1, 4, 7};
    void *pointers[] = {c->x, c->p, c->mask, c->y, c->t};
    AttRun run = {.extents = wrong, .tensors = pointers};
    assert_int_equal(att_module_run(*state, &module_scores, &run), ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "d must be 3, not 4");
    free(c);
}

#if defined(__x86_64__)
// The best level wins, the cap lowers it, and a machine without any level is told what it lacks.
static void levels(void **state) {
    AttKernel own[3];
    AttModule other = module_scores;
    AttContext *ctx = *state;
    memcpy(own, module_scores.kernels, sizeof own);
    other.kernels = own;
    other.n_launches[ATT_LEVEL_AARCH64] = 0;
    int best =
        att_level_runs(ATT_LEVEL_X86_64_V4, NULL) ? ATT_LEVEL_X86_64_V4 : ATT_LEVEL_X86_64_V3;
    assert_int_equal(att_module_level(ctx, &other), best);
    own[1].fn[ATT_LEVEL_X86_64_V4] = NULL; // one kernel without code: the level has none
    assert_int_equal(att_module_level(ctx, &other), ATT_LEVEL_X86_64_V3);
    own[1].fn[ATT_LEVEL_X86_64_V4] = module_scores.kernels[1].fn[ATT_LEVEL_X86_64_V4];
    setenv("ATTC_LEVEL", "v3", 1);
    ctx = att_context_new(1);
    assert_non_null(ctx);
    assert_int_equal(att_module_level(ctx, &other), ATT_LEVEL_X86_64_V3);
    other.n_launches[ATT_LEVEL_X86_64_V3] = 0;
    assert_int_equal(att_module_level(ctx, &other), -1);
    assert_non_null(strstr(att_message(ctx), "Scores needs a machine with"));
    setenv("ATTC_LEVEL", "v9", 1);
    assert_int_equal(att_module_level(ctx, &other), -1);
    assert_string_equal(att_message(ctx), "ATTC_LEVEL is 'v9'; it can be v3 or v4");
    unsetenv("ATTC_LEVEL");
    att_context_free(ctx);
}
#endif

static void extents_from_shapes(void **state) {
    AttTensorData x = {ATT_F32, 2, {5, D}, NULL}, p = {ATT_F32, 2, {D, 4}, NULL},
                  mask = {ATT_BOOL, 1, {5}, NULL};
    const AttTensorData *inputs[] = {&x, NULL, NULL};
    int64_t extents[N_DIMS], known[N_DIMS] = {-1, -1, -1, -1};
    assert_int_equal(att_module_extents(*state, &module_scores, inputs, NULL, extents), ATT_OK);
    assert_int_equal(extents[DIM_N], 5);
    assert_int_equal(extents[DIM_D], 3);
    assert_int_equal(extents[DIM_H], ATT_EXTENT_UNKNOWN);
    assert_int_equal(extents[DIM_M], 5);
    known[DIM_H] = 9;
    assert_int_equal(att_module_extents(*state, &module_scores, inputs, known, extents), ATT_OK);
    assert_int_equal(extents[DIM_H], 9);
    inputs[1] = &p;
    assert_int_equal(att_module_extents(*state, &module_scores, inputs, known, extents),
                     ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "h is 4 in P but must be 9");
    inputs[2] = &mask;
    mask.shape[0] = 6;
    assert_int_equal(att_module_extents(*state, &module_scores, inputs, NULL, extents),
                     ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "n is 6 in mask but 5 in X");
    mask.shape[0] = 0;
    assert_int_equal(att_module_extents(*state, &module_scores, inputs, NULL, extents),
                     ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "n is 0 in mask but 5 in X");
    mask.shape[0] = 5;
    p.shape[0] = 4;
    assert_int_equal(att_module_extents(*state, &module_scores, inputs, NULL, extents),
                     ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "d is 4 in P but must be 3");
    p.rank = 1;
    assert_int_equal(att_module_extents(*state, &module_scores, inputs, NULL, extents),
                     ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "P must have 2 dims, [d, h], but has 1");
    p.elem = ATT_F64;
    assert_int_equal(att_module_extents(*state, &module_scores, inputs, NULL, extents),
                     ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "P holds f64 where f32 is needed");
    inputs[1] = NULL;
    known[DIM_M] = 6;
    assert_int_equal(att_module_extents(*state, &module_scores, inputs, known, extents),
                     ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "n is 5 in X but must be 6");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls),
        cmocka_unit_test(runs_with_times),
        cmocka_unit_test(choices),
        cmocka_unit_test(calls_within_tasks),
        cmocka_unit_test(calls_of_two_threads),
        cmocka_unit_test(workspaces),
        cmocka_unit_test(bad_arguments),
        cmocka_unit_test(guards_choose_launches_and_workspace),
        cmocka_unit_test(bad_modules),
#if defined(__x86_64__)
        cmocka_unit_test(levels),
#endif
        cmocka_unit_test(extents_from_shapes),
    };
    return cmocka_run_group_tests(tests, module_prepare, module_clean_up);
}
