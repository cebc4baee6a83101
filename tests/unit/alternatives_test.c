// SPDX-License-Identifier: Apache-2.0
// Alternatives of launches: which there are, and that each computes what the program does.
#include "passes_fixture.h"

#include <math.h>

#include "tune/tune.h"

enum { MOST = 3 };

static const char *const layers =
    "dim n = 96, d = 32, h = 4, k = 8, layers = 2\n"
    "def Layer(X[n, d]):\n"
    "    param P[d, h, k], K[d, h, k], V[d, h, k], O[h, k, d]\n"
    "    L[n, n', h] = einsum(X[n, d], P[d, h, k], X[n', d], K[d, h, k])\n"
    "    W[n, n', h] = softmax(L, reduced_dim=n')\n"
    "    return X + einsum(W[n, n', h], X[n', d], V[d, h, k], O[h, k, d] -> [n, d])\n"
    "def F(X[n, d]):\n"
    "    for layer in layers:\n"
    "        X = Layer(X)\n"
    "    return X, sum(X * X, reduced_dim=d)\n";

typedef struct {
    Session *session;
    TileProgram *program;
    const int64_t *extents;
    uint32_t launches, kernels; // before there were alternatives
} World;

static World world_open(const char *text) {
    World w = {.session = session_new()};
    Plan *plan = passes_plan(w.session, text);
    ScheduleWish wish = {0};
    w.extents = graph_typical_extents(plan->fusion->graph, w.session->arena);
    w.program = tile_lower(plan, &passes_machine, w.extents, &wish);
    w.launches = w.program->launches.count;
    w.kernels = w.program->kernels.count;
    tune_add_alternatives(w.program, &passes_machine, w.extents, &wish, MOST);
    return w;
}

static uint32_t most_alternatives(const TileProgram *program) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < program->alternatives.count; i++)
        most = program->alternatives.at[i] > most ? program->alternatives.at[i] : most;
    return most;
}

// The program that runs where alternative k is chosen, of choices that have fewer the first.
static TileProgram with_choice(const World *w, uint32_t k) {
    TileProgram program = *w->program;
    program.launches.count = program.launches.room = 0;
    program.launches.at = NULL;
    for (uint32_t i = 0; i < w->program->launches.count; i++) {
        Launch launch = w->program->launches.at[i];
        uint32_t has = launch.choice ? w->program->alternatives.at[launch.choice - 1] : 1;
        if (launch.alternative != (k < has ? k : 0))
            continue;
        launch.choice = launch.alternative = 0;
        vec_push(w->session->arena, &program.launches, launch);
    }
    return program;
}

static float **results_of(const World *w, const TileProgram *program) {
    Arena *arena = w->session->arena;
    const Graph *graph = program->plan->fusion->graph;
    void **inputs = arena_array(arena, void *, graph->inputs.count);
    float **outputs = arena_array(arena, float *, graph->outputs.count);
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        int64_t count = dims_volume(&graph->inputs.at[i]->dims, w->extents);
        float *x = arena_array(arena, float, count);
        for (int64_t k = 0; k < count; k++)
            x[k] = (float)((double)(hash_u64(i, (uint64_t)k) >> 11) * 0x1p-53 - 0.5);
        inputs[i] = x;
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        outputs[i] =
            arena_array(arena, float, dims_volume(&graph->outputs.at[i].order, w->extents));
    tile_interpret(program, w->extents, inputs, (void *const *)outputs);
    return outputs;
}

static void test_each_computes_the_same(void **state) {
    (void)state;
    World w = world_open(layers);
    const Graph *graph = w.program->plan->fusion->graph;
    uint32_t most = most_alternatives(w.program);
    assert_int_equal(most, MOST + 1);
    float **want = results_of(&w, w.program);
    for (uint32_t k = 1; k < most; k++) {
        TileProgram program = with_choice(&w, k);
        float **got = results_of(&w, &program);
        for (uint32_t o = 0; o < graph->outputs.count; o++)
            for (int64_t i = 0; i < dims_volume(&graph->outputs.at[o].order, w.extents); i++)
                assert_true(fabsf(got[o][i] - want[o][i]) <= 1e-5f * (1 + fabsf(want[o][i])));
    }
    session_free(w.session);
}

// Without choices the program is what it was, and each alternative has another kernel.
static void test_what_is_added(void **state) {
    (void)state;
    World w = world_open(layers);
    assert_int_equal(with_choice(&w, 0).launches.count, w.launches);
    assert_true(w.program->kernels.count > w.kernels);
    for (uint32_t i = 0; i < w.program->kernels.count; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(w.program->kernels.at[i]->name, w.program->kernels.at[k]->name);
    for (uint32_t i = 0; i < w.program->launches.count; i++) {
        const Launch *launch = &w.program->launches.at[i];
        assert_int_equal(launch_runs(launch, w.extents), launch->alternative == 0);
        assert_true(launch->alternative ? launch->kernel >= w.kernels : launch->kernel < w.kernels);
        assert_true(launch->choice <= w.program->alternatives.count);
    }
    session_free(w.session);
}

// What equal layers launch is one choice.
static void test_equal_layers_choose_once(void **state) {
    (void)state;
    World w = world_open(layers);
    uint32_t shared = 0;
    for (uint32_t c = 1; c <= w.program->alternatives.count; c++) {
        uint32_t launches = 0;
        for (uint32_t i = 0; i < w.program->launches.count; i++)
            launches +=
                w.program->launches.at[i].choice == c && w.program->launches.at[i].alternative == 0;
        shared += launches > 1;
    }
    assert_true(shared > 1);
    session_free(w.session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_computes_the_same),
        cmocka_unit_test(test_what_is_added),
        cmocka_unit_test(test_equal_layers_choose_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
