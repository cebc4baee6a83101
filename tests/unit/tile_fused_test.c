// SPDX-License-Identifier: Apache-2.0
// What fused kernels need of the tile level: ranges, initial values, sums per piece, panels of
// arguments, scratch in the memory of other scratch, as the interpreter computes it.
#include "support.h"

#include <math.h>
#include <stdbool.h>

#include "hand_fixture.h"

static Stage *store(Kernel *k, NodeList *into, TileDimList dims, SinkMode mode, uint16_t to,
                    uint16_t from) {
    return hand_store(k, into, dims, TILE_DIM_NONE, mode, to, from);
}

// ---- initial values and sums ----

static void test_sinks_combine_with_initial_values(void **state) {
    (void)state;
    enum { N = 5, M = 3 };
    Arena *arena = arena_new();
    Kernel *k = kernel_new(arena, "initial");
    TileDimId n = kernel_add_dim(k, "n", N), m = kernel_add_dim(k, "m", M);
    uint16_t x = kernel_add_argument(k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(n, m));
    uint16_t y = kernel_add_argument(k, "y", ELEM_F32, PLACE_OUT, TILE_DIMS(n));
    uint16_t most = kernel_add_argument(k, "most", ELEM_F32, PLACE_OUT, TILE_DIMS(n));
    buffer_begin_with(k, y, 100);
    NodeList *task = &node_loop(k, &k->body, LOOP_PARALLEL, n, 2)->body;
    TileBuffer like = scratch_plain("top", ELEM_F32, TILE_DIMS(n));
    like.has_initial = true;
    like.initial = 4;
    uint16_t top = node_scratch_with(k, task, like);
    store(k, task, TILE_DIMS(n, m), SINK_SUM, y, x);
    store(k, task, TILE_DIMS(n, m), SINK_MAX, top, x);
    store(k, task, TILE_DIMS(n), SINK_SET, most, top);
    kernel_verify(k, "test");
    float in[N * M], out[N], largest[N];
    for (int i = 0; i < N * M; i++)
        in[i] = (float)i;
    kernel_interpret(k, (int64_t[]){N, M}, (void *[]){in, out, largest});
    for (int i = 0; i < N; i++) {
        assert_float_equal(out[i], 100 + 9 * i + 3, 0);
        assert_float_equal(largest[i], 3 * i + 2 > 4 ? 3 * i + 2 : 4, 0);
    }
    arena_free(arena);
}

// A sum made anew for each piece, and the pieces' sums added to what the caller gave.
static void test_sums_per_piece(void **state) {
    (void)state;
    enum { N = 2, M = 7 };
    Arena *arena = arena_new();
    Kernel *k = kernel_new(arena, "pieces");
    TileDimId n = kernel_add_dim(k, "n", N), m = kernel_add_dim(k, "m", M);
    uint16_t x = kernel_add_argument(k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(n, m));
    uint16_t y = kernel_add_argument(k, "y", ELEM_F32, PLACE_BOTH, TILE_DIMS(n));
    uint16_t most = kernel_add_argument(k, "most", ELEM_F32, PLACE_OUT, TILE_DIMS(n));
    NodeList *piece = &node_loop(k, &k->body, LOOP_SEQUENTIAL, m, 3)->body;
    uint16_t part = node_scratch(k, piece, "part", ELEM_F32, TILE_DIMS(n));
    store(k, piece, TILE_DIMS(n, m), SINK_SUM, part, x);
    store(k, piece, TILE_DIMS(n), SINK_SUM, y, part);
    store(k, piece, TILE_DIMS(n), SINK_MAX, most, part); // the loop alone combines
    kernel_verify(k, "test");
    float in[N * M] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    float out[N] = {1000, 2000}, largest[N] = {NAN, NAN};
    kernel_interpret(k, (int64_t[]){N, M}, (void *[]){in, out, largest});
    assert_float_equal(out[0], 1028, 0);
    assert_float_equal(out[1], 2077, 0);
    assert_float_equal(largest[0], 15, 0);
    assert_float_equal(largest[1], 36, 0);
    arena_free(arena);
}

// ---- ranges ----

enum { TASKS = 11, POSITIONS = 13 };

typedef struct {
    int from, to; // added to the first and to one past the last of n; beyond 100: no bound
    int align, piece;
    int round; // of the last, 0: not
} Window;

// seen[n m] = how often a stage visits the position; around[n]: how often one that lacks m runs.
static void count_window(const Window *w, int64_t *seen, int64_t *around) {
    Arena *arena = arena_new();
    Kernel *k = kernel_new(arena, "window");
    TileDimId n = kernel_add_dim(k, "n", TASKS), m = kernel_add_dim(k, "m", POSITIONS);
    uint16_t to = kernel_add_argument(k, "seen", ELEM_I64, PLACE_OUT, TILE_DIMS(n, m));
    uint16_t runs = kernel_add_argument(k, "around", ELEM_I64, PLACE_OUT, TILE_DIMS(n));
    buffer_begin_with(k, to, 0);
    buffer_begin_with(k, runs, 0);
    NodeList *task = &node_loop(k, &k->body, LOOP_PARALLEL, n, 2)->body;
    Node *range = node_range(k, task, m);
    if (w->from < 100)
        range->lo = range_bound(k, range, (Bound){.kind = BOUND_LO, .dim = n, .number = w->from});
    if (w->to < 100)
        range->hi = range_bound(k, range, (Bound){.kind = BOUND_HI, .dim = n, .number = w->to});
    if (w->round)
        range->hi = range_bound(
            k, range, (Bound){.kind = BOUND_ROUND, .number = w->round, .args = {range->hi}});
    range->align = w->align;
    NodeList *piece = &node_loop(k, &range->body, LOOP_SEQUENTIAL, m, w->piece)->body;
    Stage *s = node_compute(k, piece, TILE_DIMS(n, m), TILE_DIM_NONE);
    stage_sink(k, s, SINK_SUM, access_plain(k, to), stage_const(k, s, 1, ELEM_I64));
    s = node_compute(k, &range->body, TILE_DIMS(n), TILE_DIM_NONE);
    stage_sink(k, s, SINK_SUM, access_plain(k, runs), stage_const(k, s, 1, ELEM_I64));
    kernel_verify(k, "test");
    kernel_interpret(k, (int64_t[]){TASKS, POSITIONS}, (void *[]){seen, around});
    arena_free(arena);
}

static void test_ranges_are_what_their_bounds_say(void **state) {
    (void)state;
    static const Window windows[] = {{.from = 1000, .to = 0, .align = 1, .piece = 5},
                                     {.from = -3, .to = 0, .align = 1, .piece = 2},
                                     {.from = -3, .to = 1, .align = 4, .piece = 3},
                                     {.from = 2, .to = 1000, .align = 1, .piece = 4},
                                     {.from = 3, .to = 2, .align = 1, .piece = 1},
                                     {.from = 50, .to = 1000, .align = 1, .piece = 4},
                                     {.from = 1000, .to = -50, .align = 1, .piece = 4},
                                     {.from = 1, .to = 60, .align = 8, .piece = 100},
                                     {.from = 4, .to = 2, .align = 8, .piece = 3},
                                     {.from = 1000, .to = 1, .align = 1, .piece = 5, .round = 4},
                                     {.from = -5, .to = -9, .align = 3, .piece = 2, .round = 5}};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        const Window *w = &windows[i];
        int64_t seen[TASKS * POSITIONS], around[TASKS];
        count_window(w, seen, around);
        for (int n = 0; n < TASKS; n++) {
            assert_int_equal(around[n], 1);
            int start = n / 2 * 2, end = start + 2 < TASKS ? start + 2 : TASKS;
            int lo = w->from < 100 && start + w->from > 0 ? start + w->from : 0;
            int hi = w->to < 100 ? end + w->to : POSITIONS;
            while (w->round && hi % w->round)
                hi--;
            for (int m = 0; m < POSITIONS; m++)
                assert_int_equal(seen[n * POSITIONS + m], m >= lo / w->align * w->align && m < hi);
        }
    }
}

// Sequences of several lengths in one: their ends are read from an argument and computed.
static const Machine machine = {.vector_bytes = 32,
                                .l1_bytes = 1 << 15,
                                .l2_bytes = 1 << 20,
                                .l3_bytes = 1 << 25,
                                .flops_per_second = 80e9,
                                .splats_per_second = 5e9,
                                .l1_bytes_per_second = 150e9,
                                .l2_bytes_per_second = 80e9,
                                .l3_bytes_per_second = 30e9,
                                .memory_bytes_per_second = 15e9,
                                .l2_write_cost = 2,
                                .l3_write_cost = 2,
                                .memory_write_cost = 2};

// A range counts as long as its bounds say on average, and costs less than all of it.
static void test_cost_of_ranges(void **state) {
    (void)state;
    Arena *arena = arena_new();
    double flops[3], seconds[3];
    for (int i = 0; i < 3; i++) {
        Kernel *k = kernel_new(arena, "cost");
        TileDimId n = kernel_add_dim(k, "n", 64), m = kernel_add_dim(k, "m", 64);
        uint16_t x = kernel_add_argument(k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(n, m));
        uint16_t y = kernel_add_argument(k, "y", ELEM_F32, PLACE_OUT, TILE_DIMS(n));
        buffer_begin_with(k, y, 0);
        NodeList *into = hand_tasks(k, n, 16);
        Node *range = node_range(k, into, m);
        if (i == 1) // 16, 32, 48 and 64 positions
            range->hi = hand_edge(k, range, BOUND_HI, n, 0);
        if (i == 2)
            range->hi = hand_edge(k, range, BOUND_NUMBER, 0, -5);
        store(k, hand_loop(k, &range->body, m, 8), TILE_DIMS(n, m), SINK_SUM, y, x);
        kernel_verify(k, "test");
        TileCost cost = tile_cost(NULL, k, (int64_t[]){64, 64}, &machine);
        flops[i] = cost.flops;
        seconds[i] = cost.seconds;
    }
    assert_float_equal(flops[0], 64 * 64, 1e-9);
    assert_float_equal(flops[1], 64 * 40, 1e-9);
    assert_float_equal(flops[2], 0, 0);
    assert_true(seconds[0] > seconds[1] && seconds[1] > seconds[2] && seconds[2] > 0);
    arena_free(arena);
}

static void test_bounds_are_loaded(void **state) {
    (void)state;
    enum { B = 4, T = 12 };
    Arena *arena = arena_new();
    Kernel *k = kernel_new(arena, "ragged");
    TileDimId b = kernel_add_dim(k, "b", B), e = kernel_add_dim(k, "e", B + 1);
    TileDimId t = kernel_add_dim(k, "t", T);
    uint16_t ends = kernel_add_argument(k, "ends", ELEM_I32, PLACE_IN, TILE_DIMS(e));
    uint16_t x = kernel_add_argument(k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(t));
    uint16_t y = kernel_add_argument(k, "y", ELEM_F32, PLACE_OUT, TILE_DIMS(b));
    buffer_begin_with(k, y, 0);
    NodeList *task = &node_loop(k, &k->body, LOOP_PARALLEL, b, 1)->body;
    uint16_t last = node_scratch(k, task, "last", ELEM_I64, TILE_DIMS(b));
    Stage *s = node_compute(k, task, TILE_DIMS(b), TILE_DIM_NONE);
    Access at = access_at(ends, TILE_DIMS(b));
    int32_t end = stage_op(k, s, OP_CAST, ELEM_I64, stage_load(k, s, at), -1, -1);
    stage_sink(k, s, SINK_SET, access_plain(k, last), end);
    Node *range = node_range(k, task, t);
    range->lo = range_bound(
        k, range, (Bound){.kind = BOUND_LOAD, .load = access_plain(k, last), .number = 1});
    at.index[0].offset = 1;
    range->hi = range_bound(k, range, (Bound){.kind = BOUND_LOAD, .load = at});
    store(k, &range->body, TILE_DIMS(b, t), SINK_SUM, y, x);
    kernel_verify(k, "test");
    float in[T], out[B];
    for (int i = 0; i < T; i++)
        in[i] = (float)(1 << i);
    int32_t at_ends[B + 1] = {-1, 3, 3, 8, 100};
    kernel_interpret(k, (int64_t[]){B, B + 1, T}, (void *[]){at_ends, in, out});
    assert_float_equal(out[0], 1 + 2 + 4, 0);
    assert_float_equal(out[1], 0, 0);
    assert_float_equal(out[2], 16 + 32 + 64 + 128, 0);
    assert_float_equal(out[3], 512 + 1024 + 2048, 0);
    arena_free(arena);
}

// ---- memory ----

// y = transposed x, both in panels; what lies behind the last position of x is not read.
static void test_panels_of_arguments(void **state) {
    (void)state;
    enum { N = 3, M = 5 };
    for (int pad = 0; pad < 2; pad++) {
        Arena *arena = arena_new();
        Kernel *k = kernel_new(arena, "panels");
        TileDimId n = kernel_add_dim(k, "n", N), m = kernel_add_dim(k, "m", M);
        uint16_t x = kernel_add_argument_panel(k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(n, m), m, 4);
        uint16_t y = kernel_add_argument_panel(k, "y", ELEM_F32, PLACE_OUT, TILE_DIMS(m, n), n, 2);
        NodeList *task = &node_loop(k, &k->body, LOOP_PARALLEL, n, 2)->body;
        store(k, task, TILE_DIMS(m, n), SINK_SET, y, x)->pad = pad;
        kernel_verify(k, "test");
        float in[2 * N * 4], out[2 * M * 2];
        for (int i = 0; i < 2 * N * 4; i++)
            in[i] = i / 4 < N || i % 4 == 0 ? (float)i : NAN;
        for (int i = 0; i < 2 * M * 2; i++)
            out[i] = -7;
        kernel_interpret(k, (int64_t[]){N, M}, (void *[]){in, out});
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < M; j++)
                assert_float_equal(out[(i / 2 * M + j) * 2 + i % 2],
                                   i < N ? (float)((j / 4 * N + i) * 4 + j % 4)
                                   : pad ? 0
                                         : -7,
                                   0);
        arena_free(arena);
    }
}

// u[g] = sum over h of w[g h] l[h], row by row in the memory of j, which is read for the rows that
// follow.
static Kernel *taking(Arena *arena, bool reads_late) {
    Kernel *k = kernel_new(arena, "taking");
    TileDimId n = kernel_add_dim(k, "n", 3), h = kernel_add_dim(k, "h", 4);
    TileDimId g = kernel_add_dim(k, "g", 4);
    uint16_t x = kernel_add_argument(k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(n, h));
    uint16_t w = kernel_add_argument(k, "w", ELEM_F32, PLACE_IN, TILE_DIMS(g, h));
    uint16_t y = kernel_add_argument(k, "y", ELEM_F32, PLACE_OUT, TILE_DIMS(n, g));
    TileBuffer like = scratch_plain("j", ELEM_F32, TILE_DIMS(n, h));
    like.gap = 3;
    uint16_t j = node_scratch_with(k, &k->body, like);
    like.takes = j;
    like.name = "u";
    like.dims[1] = g;
    uint16_t u = node_scratch_with(k, &k->body, like);
    store(k, &k->body, TILE_DIMS(n, h), SINK_SET, j, x);
    NodeList *row = &node_loop(k, &k->body, LOOP_SEQUENTIAL, n, 1)->body;
    uint16_t l = node_scratch(k, row, "l", ELEM_F32, TILE_DIMS(n, h));
    store(k, row, TILE_DIMS(n, h), SINK_SET, l, j);
    Stage *mix = node_compute(k, row, TILE_DIMS(n, g, h), TILE_DIM_NONE);
    int32_t product =
        stage_op(k, mix, OP_MUL, ELEM_F32, hand_load(k, mix, w), hand_load(k, mix, l), -1);
    stage_sink(k, mix, SINK_SUM, access_plain(k, u), product);
    TileDimList last = reads_late ? TILE_DIMS(n, h) : TILE_DIMS(n, g);
    Stage *end = node_compute(k, &k->body, last, TILE_DIM_NONE);
    int32_t out = stage_load(k, end, access_at(reads_late ? j : u, last));
    stage_sink(k, end, SINK_SET, access_at(y, last), out);
    return k;
}

static void test_scratch_in_the_memory_of_other_scratch(void **state) {
    (void)state;
    Arena *arena = arena_new();
    float x[12], w[16], y[12];
    for (int i = 0; i < 12; i++)
        x[i] = (float)(i + 1);
    for (int i = 0; i < 16; i++)
        w[i] = (float)(i % 5 - 2);
    Kernel *k = taking(arena, false);
    kernel_verify(k, "test");
    kernel_interpret(k, (int64_t[]){3, 4, 4}, (void *[]){x, w, y});
    for (int i = 0; i < 12; i++) {
        float sum = 0;
        for (int h = 0; h < 4; h++)
            sum += w[i % 4 * 4 + h] * x[i / 4 * 4 + h];
        assert_float_equal(y[i], sum, 0);
    }
    k = taking(arena, true); // what was taken is gone
    kernel_interpret(k, (int64_t[]){3, 4, 4}, (void *[]){x, w, y});
    for (int i = 0; i < 12; i++)
        assert_true(isnan(y[i]));
    arena_free(arena);
}

// ---- tasks ----

static void test_tasks_do_not_meet(void **state) {
    (void)state;
    Arena *arena = arena_new();
    float x[4] = {1, 2, 3, 4}, y[4];
    for (int kind = 0; kind < 3; kind++) {
        Kernel *k = kernel_new(arena, "meet");
        TileDimId n = kernel_add_dim(k, "n", 4);
        uint16_t in = kernel_add_argument(k, "x", ELEM_F32, PLACE_BOTH, TILE_DIMS(n));
        uint16_t out = kernel_add_argument(k, "y", ELEM_F32, PLACE_OUT, TILE_DIMS(n));
        NodeList *task = &node_loop(k, &k->body, LOOP_PARALLEL, n, 1)->body;
        Stage *s = store(k, task, TILE_DIMS(n), SINK_SET, out, in);
        if (kind == 0) { // all tasks write y[0]
            s->sinks.at[0].to.index[0].dim = TILE_DIM_NONE;
            expect_ice("two tasks write one element of y",
                       kernel_interpret(k, (int64_t[]){4}, (void *[]){x, y}));
            continue;
        }
        // x[n] changes while another task reads it
        Access *moved = &s->terms.at[0].load;
        moved->index[0].offset = kind == 1 ? 1 : -1;
        moved->checked = true;
        stage_sink(k, s, SINK_SET, access_plain(k, in), stage_const(k, s, 5, ELEM_F32));
        expect_ice("another", kernel_interpret(k, (int64_t[]){4}, (void *[]){x, y}));
    }
    arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sinks_combine_with_initial_values),
        cmocka_unit_test(test_sums_per_piece),
        cmocka_unit_test(test_ranges_are_what_their_bounds_say),
        cmocka_unit_test(test_cost_of_ranges),
        cmocka_unit_test(test_bounds_are_loaded),
        cmocka_unit_test(test_panels_of_arguments),
        cmocka_unit_test(test_scratch_in_the_memory_of_other_scratch),
        cmocka_unit_test(test_tasks_do_not_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
