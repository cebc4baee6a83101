// SPDX-License-Identifier: Apache-2.0
// Running modules and programs, with a module made by hand whose kernels are C functions.
//
//     def Scores(X[n, d], param P[d, h], mask[n]: bool):   d = 3, n and h dynamic, m like n
//         W[n, h] = einsum(X, P)                            workspace
//         Y[n] = mask ? sum(W, h) : 0
//         T[m, n, h] = W[m, h] + n

#include "support.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "module.h"

enum { D = 3 };
enum { DIM_N, DIM_D, DIM_H, DIM_M, N_DIMS };

// Kernel dims: rows, columns, k. Two rows and one column a task.
static void product(void *const *buffers, const int64_t *extents, void *scratch, int64_t task) {
    const float *x = buffers[0], *p = buffers[1];
    float *w = buffers[2], *row = scratch;
    int64_t column = task % extents[1], first = task / extents[1] * 2;
    for (int64_t n = first; n < first + 2 && n < extents[0]; n++) {
        memcpy(row, x + n * extents[2], (size_t)extents[2] * sizeof *row);
        float sum = 0;
        for (int64_t k = 0; k < extents[2]; k++)
            sum += row[k] * p[k * extents[1] + column];
        w[n * extents[1] + column] = sum;
    }
}

static int64_t product_scratch(const int64_t *extents) {
    return extents[2] * (int64_t)sizeof(float);
}

// Kernel dims: n, h. One row a task.
static void row_sum(void *const *buffers, const int64_t *extents, void *scratch, int64_t task) {
    const float *w = buffers[0];
    const uint8_t *mask = buffers[1];
    float sum = 0;
    (void)scratch;
    for (int64_t h = 0; h < extents[1]; h++)
        sum += w[task * extents[1] + h];
    ((float *)buffers[2])[task] = mask[task] ? sum : 0;
}

// Kernel dims: m, n * h together, h. No parallel dims: one task.
static void spread(void *const *buffers, const int64_t *extents, void *scratch, int64_t task) {
    const float *w = buffers[0];
    float *t = buffers[1];
    (void)scratch;
    (void)task;
    for (int64_t m = 0; m < extents[0]; m++)
        for (int64_t nh = 0; nh < extents[1]; nh++)
            t[m * extents[1] + nh] = w[m * extents[2] + nh % extents[2]] + (float)(nh / extents[2]);
}

static const AttDim dims[N_DIMS] = {
    {"n", -1, DIM_N, 0, 0}, {"d", D, DIM_D, 0, 0}, {"h", -1, DIM_H, 0, 0}, {"m", -1, DIM_N, 0, 0}};
static const int64_t dims_x[] = {DIM_N, DIM_D}, dims_p[] = {DIM_D, DIM_H},
                     dims_w[] = {DIM_N, DIM_H}, dims_t[] = {DIM_M, DIM_N, DIM_H};
static const AttTensor tensors[] = {
    {"X", ATT_F32, ATT_INPUT, 0, 2, dims_x, 0, 0, 0},
    {"P", ATT_F32, ATT_INPUT, 0, 2, dims_p, 1, 0, 0},
    {"mask", ATT_BOOL, ATT_INPUT, 0, 1, dims_x, 0, 0, 0},
    {"Y", ATT_F32, ATT_OUTPUT, 0, 1, dims_x, 0, 0, 0},
    {"T", ATT_F32, ATT_OUTPUT, 0, 3, dims_t, 0, 0, 0},
    {"W", ATT_F32, ATT_WORK, 0, 2, dims_w, 0, 0, 0},
};
static const int64_t parallel_product[] = {0, 1}, steps_product[] = {2, 1}, parallel_row[] = {0},
                     steps_row[] = {1};
#define EVERY_LEVEL(value) {value, value, value}
static const AttKernel kernels[] = {
    {"product", EVERY_LEVEL(product), EVERY_LEVEL(product_scratch), 2, parallel_product,
     EVERY_LEVEL(steps_product), 3, 3},
    {"row_sum", EVERY_LEVEL(row_sum), EVERY_LEVEL(NULL), 1, parallel_row, EVERY_LEVEL(steps_row), 3,
     2},
    {"spread", EVERY_LEVEL(spread), EVERY_LEVEL(NULL), 0, NULL, EVERY_LEVEL(NULL), 2, 3},
};
static const int64_t args_product[] = {0, 1, 5}, args_row[] = {5, 2, 3}, args_spread[] = {5, 4};
static const int64_t factors_product[] = {1, DIM_N, 1, DIM_H, 1, DIM_D},
                     factors_row[] = {1, DIM_N, 1, DIM_H},
                     factors_spread[] = {1, DIM_M, 2, DIM_N, DIM_H, 1, DIM_H};
static const AttLaunch launches[] = {{0, args_product, factors_product, 0, 0, 0},
                                     {1, args_row, factors_row, 0, 0, 0},
                                     {2, args_spread, factors_spread, 0, 0, 0}};
static const AttModule module = {
    .abi = ATT_MODULE_ABI,
    .entry = "Scores",
    .manifest = "{\"entry\": \"Scores\"}",
    .n_dims = N_DIMS,
    .dims = dims,
    .n_tensors = 6,
    .tensors = tensors,
    .n_slots = 1,
    .n_kernels = 3,
    .kernels = kernels,
    .n_launches = EVERY_LEVEL(3),
    .launches = EVERY_LEVEL(launches),
};

// What a generated header declares for this entry.
typedef struct {
    size_t struct_size;
    int64_t n, h, m;
    const float *X, *P;
    const uint8_t *mask;
    float *Y, *T;
    void *workspace;
    size_t workspace_bytes;
} Args;

// Input and output of one call, with room behind each that must stay as it is.
typedef struct {
    int64_t n, h;
    float x[64 * D], p[D * 8], y[65], t[64 * 64 * 8 + 1];
    uint8_t mask[64];
} Case;

static Case *make_case(int64_t n, int64_t h) {
    Case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->n = n;
    c->h = h;
    for (int64_t i = 0; i < n * D; i++)
        c->x[i] = (float)(i % 17 - 8);
    for (int64_t i = 0; i < D * h; i++)
        c->p[i] = (float)(i % 5 - 2);
    for (int64_t i = 0; i < n; i++)
        c->mask[i] = i % 3 != 0;
    c->y[n] = c->t[n * n * h] = 12345;
    return c;
}

static void check_case(const Case *c) {
    for (int64_t n = 0; n < c->n; n++) {
        float sum = 0;
        for (int64_t h = 0; h < c->h; h++) {
            float w = 0;
            for (int64_t d = 0; d < D; d++)
                w += c->x[n * D + d] * c->p[d * c->h + h];
            sum += w;
            for (int64_t k = 0; k < c->n; k++)
                assert_true(c->t[(n * c->n + k) * c->h + h] == w + (float)k);
        }
        assert_true(c->y[n] == (c->mask[n] ? sum : 0));
    }
    assert_true(c->y[c->n] == 12345 && c->t[c->n * c->n * c->h] == 12345);
}

static Args args_of(Case *c) {
    return (Args){sizeof(Args), c->n, c->h, c->n, c->x, c->p, c->mask, c->y, c->t, NULL, 0};
}

static int make_context(void **state) {
    *state = att_context_new(3);
    return *state ? 0 : -1;
}

static int free_context(void **state) {
    att_context_free(*state);
    return 0;
}

// ---- modules -----------------------------------------------------------------------------------
static void calls(void **state) {
    for (int64_t n = 1; n <= 64; n += n < 5 ? 1 : 13)
        for (int64_t h = 1; h <= 8; h += 3) {
            Case *c = make_case(n, h);
            Args args = args_of(c);
            assert_int_equal(att_module_call(*state, &module, &args), ATT_OK);
            check_case(c);
            free(c);
        }
}

static void runs_with_times(void **state) {
    Case *c = make_case(7, 4);
    int64_t extents[] = {7, D, 4, 7};
    void *pointers[] = {c->x, c->p, c->mask, c->y, c->t};
    double seconds[3] = {0};
    assert_int_equal(att_module_run(*state, &module, extents, pointers, NULL, seconds), ATT_OK);
    check_case(c);
    for (int i = 0; i < 3; i++)
        assert_true(seconds[i] > 0 && seconds[i] < 10);
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
        list->cases[i] = make_case(40 + i, 1 + i % 8);
}

// Calls that ran are right, those that were refused did nothing.
static void check_calls(Calls *list, int *ran) {
    for (int i = 0; i < CALLS; i++) {
        Case *c = list->cases[i];
        if (list->status[i] == ATT_OK) {
            check_case(c);
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
    Args args = args_of(list->cases[task]);
    (void)scratch;
    list->status[task] = att_module_call(list->ctx, &module, &args);
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
    Case *c = make_case(7, 4);
    Args args = args_of(c);
    assert_int_equal(att_module_workspace(&module, extents), 128); // 7 * 4 * 4, whole lines
    assert_int_equal(att_module_workspace(&module, huge), -1);
    args.workspace = memory;
    args.workspace_bytes = 127;
    assert_int_equal(att_module_call(*state, &module, &args), ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "workspace has 127 bytes and needs 128");
    args.workspace_bytes = 128;
    memset(memory, 'x', sizeof memory);
    assert_int_equal(att_module_call(*state, &module, &args), ATT_OK);
    check_case(c);
    for (int i = 128; i < 192; i++)
        assert_int_equal(memory[i], 'x');
    args.workspace = memory + 4;
    assert_int_equal(att_module_call(*state, &module, &args), ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "workspace is not aligned to 64 bytes");
    free(c);
}

static void refuse(AttContext *ctx, const Args *args, const char *message) {
    assert_int_equal(att_module_call(ctx, &module, args), ATT_ARGUMENT);
    if (!strstr(att_message(ctx), message))
        fail_msg("expected \"%s\", got \"%s\"", message, att_message(ctx));
}

static void bad_arguments(void **state) {
    Case *c = make_case(7, 4);
    const Args good = args_of(c);
    Args args = good;
    args.struct_size = 8;
    refuse(*state, &args, "struct_size is 8 where Scores expects 88");
    refuse(*state, NULL, "the arguments of Scores are NULL");
    assert_int_equal(att_module_call(NULL, &module, &good), ATT_ARGUMENT);
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
    assert_int_equal(att_module_call(*state, &module, &good), ATT_OK);
    check_case(c);
    free(c);
}

static void bad_modules(void **state) {
    Case *c = make_case(7, 4);
    Args args = args_of(c);
    AttModule other = module;
    other.abi = ATT_MODULE_ABI + 1;
    assert_int_equal(att_module_call(*state, &other, &args), ATT_UNSUPPORTED);
    assert_non_null(strstr(att_message(*state), "another version of the runtime"));
    other = module;
    memset(other.n_launches, 0, sizeof other.n_launches);
    assert_int_equal(att_module_call(*state, &other, &args), ATT_UNSUPPORTED);
    assert_string_equal(att_message(*state), "Scores has no code");
    int64_t wrong[] = {7, D + 1, 4, 7};
    void *pointers[] = {c->x, c->p, c->mask, c->y, c->t};
    assert_int_equal(att_module_run(*state, &module, wrong, pointers, NULL, NULL), ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "d must be 3, not 4");
    free(c);
}

#if defined(__x86_64__)
// The best level wins, the cap lowers it, and a machine without any level is told what it lacks.
static void levels(void **state) {
    AttKernel own[3];
    AttModule other = module;
    AttContext *ctx = *state;
    memcpy(own, kernels, sizeof own);
    other.kernels = own;
    other.n_launches[ATT_LEVEL_AARCH64] = 0;
    int best =
        att_level_runs(ATT_LEVEL_X86_64_V4, NULL) ? ATT_LEVEL_X86_64_V4 : ATT_LEVEL_X86_64_V3;
    assert_int_equal(att_module_level(ctx, &other), best);
    own[1].fn[ATT_LEVEL_X86_64_V4] = NULL; // one kernel without code: the level has none
    assert_int_equal(att_module_level(ctx, &other), ATT_LEVEL_X86_64_V3);
    own[1].fn[ATT_LEVEL_X86_64_V4] = row_sum;
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
    assert_int_equal(att_module_extents(*state, &module, inputs, NULL, extents), ATT_OK);
    assert_int_equal(extents[DIM_N], 5);
    assert_int_equal(extents[DIM_D], 3);
    assert_int_equal(extents[DIM_H], ATT_EXTENT_UNKNOWN);
    assert_int_equal(extents[DIM_M], 5);
    known[DIM_H] = 9;
    assert_int_equal(att_module_extents(*state, &module, inputs, known, extents), ATT_OK);
    assert_int_equal(extents[DIM_H], 9);
    inputs[1] = &p;
    assert_int_equal(att_module_extents(*state, &module, inputs, known, extents), ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "h is 4 in P but must be 9");
    inputs[2] = &mask;
    mask.shape[0] = 6;
    assert_int_equal(att_module_extents(*state, &module, inputs, NULL, extents), ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "n is 6 in mask but 5 in X");
    mask.shape[0] = 0;
    assert_int_equal(att_module_extents(*state, &module, inputs, NULL, extents), ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "n is 0 in mask but 5 in X");
    mask.shape[0] = 5;
    p.shape[0] = 4;
    assert_int_equal(att_module_extents(*state, &module, inputs, NULL, extents), ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "d is 4 in P but must be 3");
    p.rank = 1;
    assert_int_equal(att_module_extents(*state, &module, inputs, NULL, extents), ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "P must have 2 dims, [d, h], but has 1");
    p.elem = ATT_F64;
    assert_int_equal(att_module_extents(*state, &module, inputs, NULL, extents), ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "P holds f64 where f32 is needed");
    inputs[1] = NULL;
    known[DIM_M] = 6;
    assert_int_equal(att_module_extents(*state, &module, inputs, known, extents), ATT_ARGUMENT);
    assert_string_equal(att_message(*state), "n is 5 in X but must be 6");
}

// ---- programs ----------------------------------------------------------------------------------
typedef struct {
    char directory[32];
    char text[5000]; // what the last run printed, both streams
} Place;

// Runs the program in a process of its own, in the directory, and collects what it prints.
static int run_program(Place *place, const char *line) {
    char copy[1000], *argv[40] = {"/bin/scores"};
    int argc = 1, ends[2], status;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        _exit(chdir(place->directory) ? 99 : att_program_main(&module, argc, argv));
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t got;
    while ((got = read(ends[0], place->text + length, sizeof place->text - 1 - length)) > 0)
        length += (size_t)got;
    place->text[length] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void expect_run(Place *place, const char *line, int status, const char *text) {
    int got = run_program(place, line);
    if (got != status || !strstr(place->text, text))
        fail_msg("scores %s\n  gave %d, expected %d: %s\n  in: %s", line, got, status, text,
                 place->text);
}

static void write_input(AttContext *ctx, const Place *place, const char *name, AttElem elem,
                        int rank, int64_t a, int64_t b, void *data) {
    char path[100];
    AttTensorData tensor = {elem, rank, {a, b}, data};
    snprintf(path, sizeof path, "%s/%s", place->directory, name);
    assert_int_equal(att_npy_write(ctx, path, &tensor), ATT_OK);
}

static Place *make_place(AttContext *ctx, Case *c) {
    Place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    strcpy(place->directory, "/tmp/module_test_XXXXXX");
    assert_non_null(mkdtemp(place->directory));
    write_input(ctx, place, "x.npy", ATT_F32, 2, c->n, D, c->x);
    write_input(ctx, place, "p.npy", ATT_F32, 2, D, c->h, c->p);
    write_input(ctx, place, "mask.npy", ATT_BOOL, 1, c->n, 0, c->mask);
    write_input(ctx, place, "short.npy", ATT_BOOL, 1, c->n - 1, 0, c->mask);
    write_input(ctx, place, "ints.npy", ATT_I32, 2, D, c->h, c->p);
    return place;
}

static void remove_place(Place *place) {
    char command[100];
    snprintf(command, sizeof command, "rm -r '%s'", place->directory);
    assert_int_equal(system(command), 0);
    free(place);
}

static void read_output(AttContext *ctx, const Place *place, const char *name, int64_t count,
                        float *out) {
    char path[100];
    AttTensorData tensor;
    snprintf(path, sizeof path, "%s/%s", place->directory, name);
    assert_int_equal(att_npy_read(ctx, path, ATT_F32, &tensor), ATT_OK);
    memcpy(out, tensor.data, (size_t)count * sizeof *out);
    att_tensor_free(&tensor);
}

static void programs(void **state) {
    Case *c = make_case(7, 4);
    Place *place = make_place(*state, c);
    expect_run(place, "X=x.npy P=p.npy mask=mask.npy -o Y=y.npy -oT=t.npy --threads 2", 0, "");
    assert_string_equal(place->text, "");
    read_output(*state, place, "y.npy", 7, c->y);
    read_output(*state, place, "t.npy", 7 * 7 * 4, c->t);
    check_case(c);
    expect_run(place, "--time X=x.npy P=p.npy mask=mask.npy", 0, "scores: 0.0");
    expect_run(place, "-o Y=- X=x.npy P=p.npy mask=mask.npy", 0, "NUMPY");
    remove_place(place);
    free(c);
}

// The seed draws what is not given, the same for any number of threads.
static void drawn_inputs(void **state) {
    Case *c = make_case(7, 4);
    Place *place = make_place(*state, c);
    float a[12], b[12];
    expect_run(place, "--seed 5 -D n=12 -Dh=2 -o Y=a.npy --threads 1", 0, "");
    expect_run(place, "--seed=5 -D n=12 -Dh=2 -o Y=b.npy --threads 3", 0, "");
    read_output(*state, place, "a.npy", 12, a);
    read_output(*state, place, "b.npy", 12, b);
    assert_memory_equal(a, b, sizeof a);
    expect_run(place, "--seed 6 -D n=12 -Dh=2 -o Y=b.npy", 0, "");
    read_output(*state, place, "b.npy", 12, b);
    assert_memory_not_equal(a, b, sizeof a);
    expect_run(place, "--seed 5 X=x.npy -o Y=a.npy", 1, "h is not known: no given input has it");
    remove_place(place);
    free(c);
}

static void wrong_command_lines(void **state) {
    static const struct {
        const char *line, *text;
        int status;
    } table[] = {
        {"", "scores: error: inputs are missing", 2},
        {"X=x.npy P=p.npy -o Y=y.npy", "  mask[n]: bool\n", 2},
        {"X=x.npy P=p.npy mask=mask.npy", "no output is asked for", 2},
        {"X=x.npy Z=z.npy", "there is no input named Z; the inputs are:\n  X[n, d=3]: f32\n", 2},
        {"X=x.npy -o X=x.npy", "there is no output named X; the outputs are:\n  Y[n]: f32", 2},
        {"X=x.npy X=x.npy", "X is given twice", 2},
        {"-o Y=a -o Y=b", "Y is given twice", 2},
        {"x.npy", "'x.npy': expected NAME=FILE.npy", 2},
        {"X=", "'X=': expected NAME=FILE.npy", 2},
        {"=x.npy", "expected NAME=FILE.npy", 2},
        {"W=w.npy", "there is no input named W", 2},
        {"--sead 5", "unknown option '--sead'", 2},
        {"-q", "unknown option '-q'", 2},
        {"--seed", "--seed: expected a value", 2},
        {"-o", "-o: expected a value", 2},
        {"--seed x", "--seed x: expected a whole number", 2},
        {"--threads -1", "--threads -1: expected a whole number from 0 to 4096", 2},
        {"--threads 2x", "--threads 2x: expected a whole number", 2},
        {"-D n=-1", "-D n=-1: the extent must be a whole number from 0", 2},
        {"-D q=5", "-D q=5 changes nothing: no dim is named 'q'", 2},
        {"-D n=99999999999999999999", "the extent must be a whole number from 0", 2},
        {"-o y.npy", "Scores has 2 results; say which, as in -o Y=y.npy", 2},
        {"-o Y=y.npy -o T=./y.npy", "Y and T are both written to ./y.npy", 2},
        {"X=none.npy P=p.npy mask=mask.npy -o Y=y.npy",
         "scores: error: none.npy: No such file or directory", 1},
        {"X=x.npy P=x.npy mask=mask.npy -o Y=y.npy", "d is 7 in P but must be 3", 1},
        {"X=x.npy P=p.npy mask=short.npy -o Y=y.npy", "n is 6 in mask but 7 in X", 1},
        {"X=mask.npy P=p.npy mask=mask.npy -o Y=y.npy", "X must have 2 dims, [n, d], but has 1", 1},
        {"X=x.npy P=ints.npy mask=x.npy -o Y=y.npy", "holds float32 where bool is needed", 1},
        {"X=x.npy P=p.npy mask=mask.npy -D n=8 -o Y=y.npy", "n is 7 in X but must be 8", 1},
        {"X=x.npy P=p.npy mask=mask.npy -D d=4 -o Y=y.npy", "d is set to 4 but must be 3", 1},
        {"X=x.npy P=p.npy mask=mask.npy -o Y=/nowhere/y.npy", "/nowhere/y.npy: No such file", 1},
        {"--help", "  P[d=3, h]: f32\n", 0},
        {"-h X=", "expected NAME=FILE.npy", 2},
        {"--help --manifest", "Usage: scores [OPTION]...", 0},
        {"--manifest", "{\"entry\": \"Scores\"}\n", 0},
    };
    Case *c = make_case(7, 4);
    Place *place = make_place(*state, c);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        expect_run(place, table[i].line, table[i].status, table[i].text);
    assert_int_equal(access("y.npy", F_OK), -1);
    remove_place(place);
    free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls),
        cmocka_unit_test(runs_with_times),
        cmocka_unit_test(calls_within_tasks),
        cmocka_unit_test(calls_of_two_threads),
        cmocka_unit_test(workspaces),
        cmocka_unit_test(bad_arguments),
        cmocka_unit_test(bad_modules),
#if defined(__x86_64__)
        cmocka_unit_test(levels),
#endif
        cmocka_unit_test(extents_from_shapes),
        cmocka_unit_test(programs),
        cmocka_unit_test(drawn_inputs),
        cmocka_unit_test(wrong_command_lines),
    };
    return cmocka_run_group_tests(tests, make_context, free_context);
}
