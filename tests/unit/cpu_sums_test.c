// SPDX-License-Identifier: Apache-2.0
// Sums of many floats on the CPU: they agree with the tile interpreter, and no rounding error grows
// with how many they are.
#include "cpu_fixture.h"
#include "support.h"

#include <math.h>

typedef struct {
    Kernel *k;
    TileDimId n, d;
    uint16_t x;
    int64_t extents[2];
} Grid;

static Grid grid_new(Arena *arena, int64_t n, int64_t d, Elem elem, bool dynamic) {
    Grid g = {.k = kernel_new(arena, "sums"), .extents = {n, d}};
    g.n = kernel_add_dim(g.k, "n", dynamic ? EXTENT_DYNAMIC : n);
    g.d = kernel_add_dim(g.k, "d", dynamic ? EXTENT_DYNAMIC : d);
    g.x = kernel_add_argument(g.k, "X", elem, PLACE_IN, TILE_DIMS(g.n, g.d));
    return g;
}

// X summed over d, over n (in columns side by side), and over both, each to a result of its own.
static void add_sums(Grid *g, bool masked) {
    TileDimList kept[] = {TILE_DIMS(g->n), TILE_DIMS(g->d), TILE_DIMS()}, orders[3];
    Elem elem = g->k->buffers.at[g->x].elem;
    uint16_t to[3];
    for (int i = 0; i < 3; i++) {
        orders[i] = i == 1 ? TILE_DIMS(g->d, g->n) : TILE_DIMS(g->n, g->d);
        to[i] = kernel_add_argument(g->k, "S", elem, PLACE_OUT, kept[i]);
    }
    for (int i = 0; i < 3; i++) {
        Stage *stage = node_compute(g->k, &g->k->body, orders[i], g->d);
        int32_t term = stage_load(g->k, stage, access_plain(g->k, g->x));
        if (masked) {
            int32_t row = stage_index(g->k, stage, g->n), column = stage_index(g->k, stage, g->d);
            int32_t seen = stage_op(g->k, stage, OP_LE, ELEM_BOOL, column, row, -1);
            int32_t zero = stage_const(g->k, stage, 0, elem);
            term = stage_op(g->k, stage, OP_SELECT, elem, seen, term, zero);
        }
        stage_sink(g->k, stage, SINK_SUM, access_plain(g->k, to[i]), term);
    }
}

static void test_long_sums_agree_with_the_interpreter(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{70, 3000}, {3000, 70}, {900, 20}, {1, 9000}, {9000, 1}};
    static const Elem elems[] = {ELEM_F32, ELEM_F64, ELEM_I32};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int way = 0; way < 4; way++) {
            Arena *arena = arena_new();
            Grid g = grid_new(arena, shapes[i][0], shapes[i][1], elems[i % 3], way & 1);
            add_sums(&g, way & 2);
            cpu_compare(g.k, g.extents, 1e-4);
            arena_free(arena);
        }
}

// All elements are the same number, so that every addition rounds to the same side.
static void check_error(const Target *target, Elem elem, int64_t n, int64_t d) {
    Arena *arena = arena_new();
    Grid g = grid_new(arena, n, d, elem, true);
    add_sums(&g, false);
    double number = elem == ELEM_F32 ? (double)0.1f : 0.1, counts[] = {d, n, n * d};
    int64_t lengths[] = {n, d, 1};
    void *buffers[4] = {arena_alloc(arena, (size_t)(n * d) * elem_bytes(elem))};
    for (int64_t i = 0; i < n * d; i++)
        if (elem == ELEM_F32)
            ((float *)buffers[0])[i] = 0.1f;
        else
            ((double *)buffers[0])[i] = 0.1;
    for (int i = 0; i < 3; i++)
        buffers[i + 1] = arena_alloc(arena, (size_t)lengths[i] * elem_bytes(elem));
    CpuCode *code = cpu_code_new(arena, g.k, target);
    cpu_code_run(code, g.extents, buffers);
    for (int i = 0; i < 3; i++)
        for (int64_t k = 0; k < lengths[i]; k++) {
            double sum = elem == ELEM_F32 ? (double)((float *)buffers[i + 1])[k]
                                          : ((double *)buffers[i + 1])[k];
            double error = fabs(sum / (number * counts[i]) - 1);
            if (error > (elem == ELEM_F32 ? 1e-6 : 1e-12))
                fail_msg("the sum of %g numbers is wrong by %g on %s", counts[i], error,
                         target->name);
        }
    cpu_code_free(code);
    arena_free(arena);
}

static void test_errors_do_not_grow(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{1000, 1500}, {100000, 20}, {3, 700000}, {1, 2000000}};
    for (const Target *const *at = targets_all(); *at; at++)
        for (size_t i = 0; cpu_level_runs(*at) && i < sizeof shapes / sizeof *shapes; i++)
            for (int wide = 0; wide < 2; wide++)
                check_error(*at, wide ? ELEM_F64 : ELEM_F32, shapes[i][0], shapes[i][1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_sums_agree_with_the_interpreter),
        cmocka_unit_test(test_errors_do_not_grow),
    };
    return cmocka_run_group_tests_name("sums", tests, NULL, NULL);
}
