// SPDX-License-Identifier: Apache-2.0
// What fused kernels need of the tile level: ranges, initial values, sums per piece, panels of
// arguments, scratch in the memory of other scratch. What the interpreter computes and what the
// verifier refuses.
#include "support.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "tile/tile.h"

static int32_t load(Kernel *k, Stage *stage, uint16_t buffer) {
    return stage_load(k, stage, access_plain(k, buffer));
}

static Stage *store(Kernel *k, NodeList *into, TileDimList dims, SinkMode mode, uint16_t to,
                    uint16_t from) {
    Stage *stage = node_compute(k, into, dims, TILE_DIM_NONE);
    stage_sink(k, stage, mode, access_plain(k, to), load(k, stage, from));
    return stage;
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
    int32_t product = stage_op(k, mix, OP_MUL, ELEM_F32, load(k, mix, w), load(k, mix, l), -1);
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

// ---- verifier ----

typedef struct {
    Kernel *k;
    TileDimId n, m, v, w;
    uint16_t x, values, ends, y, top, o, s, u;
    Node *task, *range, *loop, *make_u;
    Stage *copy, *most, *sum, *mix, *end;
} Fused;

// y = mixed softmax numerators of a ragged, causal row, without the rescaling.
static Fused fused_new(Arena *arena) {
    Fused f = {.k = kernel_new(arena, "fused")};
    Kernel *k = f.k;
    f.n = kernel_add_dim(k, "n", EXTENT_DYNAMIC);
    f.m = kernel_add_dim(k, "m", EXTENT_DYNAMIC);
    f.v = kernel_add_dim(k, "v", 8);
    f.w = kernel_add_dim(k, "w", 8);
    f.x = kernel_add_argument_panel(k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(f.n, f.m), f.m, 16);
    f.values = kernel_add_argument(k, "values", ELEM_F32, PLACE_IN, TILE_DIMS(f.m, f.v));
    f.ends = kernel_add_argument(k, "ends", ELEM_I64, PLACE_IN, TILE_DIMS(f.n));
    f.y = kernel_add_argument(k, "y", ELEM_F32, PLACE_OUT, TILE_DIMS(f.n, f.w));
    f.task = node_loop(k, &k->body, LOOP_PARALLEL, f.n, 4);
    NodeList *into = &f.task->body;
    f.top = node_scratch(k, into, "top", ELEM_F32, TILE_DIMS(f.n));
    buffer_begin_with(k, f.top, -INFINITY);
    f.o = node_scratch(k, into, "o", ELEM_F32, TILE_DIMS(f.n, f.v));
    buffer_begin_with(k, f.o, 0);
    f.range = node_range(k, into, f.m);
    f.range->hi = range_bound(k, f.range, (Bound){.kind = BOUND_HI, .dim = f.n});
    f.loop = node_loop(k, &f.range->body, LOOP_SEQUENTIAL, f.m, 16);
    f.s = node_scratch_panel(k, &f.loop->body, "s", ELEM_F32, TILE_DIMS(f.n, f.m), f.n, 4);
    f.copy = store(k, &f.loop->body, TILE_DIMS(f.n, f.m), SINK_SET, f.s, f.x);
    f.most = store(k, &f.loop->body, TILE_DIMS(f.n, f.m), SINK_MAX, f.top, f.s);
    f.sum = node_contract(k, &f.loop->body, TILE_DIMS(f.n, f.v, f.m), access_plain(k, f.o),
                          access_plain(k, f.s), access_plain(k, f.values));
    f.sum->rows = f.n;
    f.sum->lanes = f.v;
    f.sum->row_block = 4;
    f.sum->lane_block = 8;
    TileBuffer like = scratch_plain("u", ELEM_F32, TILE_DIMS(f.n, f.w));
    like.takes = f.o;
    f.u = node_scratch_with(k, into, like);
    f.make_u = into->at[into->count - 1];
    f.mix = node_compute(k, into, TILE_DIMS(f.n, f.w), f.w);
    stage_sink(k, f.mix, SINK_SET, access_plain(k, f.u), load(k, f.mix, f.top));
    f.end = store(k, into, TILE_DIMS(f.n, f.w), SINK_SET, f.y, f.u);
    return f;
}

static TileBuffer *buffer(Fused *f, uint16_t at) {
    return &f->k->buffers.at[at];
}
static Bound *bound(Fused *f) {
    return &f->range->bounds.at[f->range->hi];
}
static void set_bound(Fused *f, Bound of) {
    f->range->hi = range_bound(f->k, f->range, of);
}
static void swap(NodeList *body, uint32_t a, uint32_t b) {
    Node *node = body->at[a];
    body->at[a] = body->at[b];
    body->at[b] = node;
}

static void spoil_range_dim(Fused *f) {
    f->range->dim = 9;
}
static void spoil_align(Fused *f) {
    f->range->align = 0;
}
static void spoil_bound_dim(Fused *f) {
    bound(f)->dim = TILE_DIM_NONE;
}
static void spoil_end(Fused *f) {
    f->range->lo = 1;
}
static void spoil_bound_order(Fused *f) {
    set_bound(f, (Bound){.kind = BOUND_MIN, .args = {0, 1}});
}
static void spoil_bound_round(Fused *f) {
    set_bound(f, (Bound){.kind = BOUND_ROUND, .args = {0}});
}
static void spoil_bound_float(Fused *f) {
    set_bound(f, (Bound){.kind = BOUND_LOAD, .load = access_plain(f->k, f->top)});
}
static void spoil_bound_output(Fused *f) {
    buffer(f, f->y)->elem = ELEM_I64;
    set_bound(f, (Bound){.kind = BOUND_LOAD, .load = access_plain(f->k, f->y)});
}
static void spoil_bound_scope(Fused *f) {
    buffer(f, f->s)->elem = ELEM_I64;
    set_bound(f, (Bound){.kind = BOUND_LOAD, .load = access_plain(f->k, f->s)});
}
static void spoil_bound_unfilled(Fused *f) {
    uint16_t last = node_scratch(f->k, &f->task->body, "last", ELEM_I64, TILE_DIMS(f->n));
    swap(&f->task->body, 2, f->task->body.count - 1);
    set_bound(f, (Bound){.kind = BOUND_LOAD, .load = access_plain(f->k, last)});
    vec_push(f->k->arena, &f->task->body, f->range);
}
static void spoil_bound_access(Fused *f) {
    Access load = access_plain(f->k, f->ends);
    load.checked = true;
    set_bound(f, (Bound){.kind = BOUND_LOAD, .load = load});
}
static void spoil_bound_empty(Fused *f) {
    Node *inner = node_range(f->k, &f->range->body, f->n);
    Access load = access_at(f->ends, TILE_DIMS(f->m));
    inner->hi = range_bound(f->k, inner, (Bound){.kind = BOUND_LOAD, .load = load});
}
static void spoil_parallel_in_range(Fused *f) {
    f->range->body = f->k->body;
    f->k->body = (NodeList){0};
    vec_push(f->k->arena, &f->k->body, f->range);
    bound(f)->dim = f->m;
}
static void spoil_no_initial(Fused *f) {
    buffer(f, f->o)->has_initial = false;
}
static void spoil_moving_range(Fused *f) { // which elements are reached depends on the turn
    Kernel *k = f->k;
    Node *rows = node_loop(k, &f->task->body, LOOP_SEQUENTIAL, f->n, 1);
    Node *range = node_range(k, &rows->body, f->v);
    range->hi = range_bound(k, range, (Bound){.kind = BOUND_HI, .dim = f->n});
    uint16_t t = node_scratch(k, &f->task->body, "t", ELEM_F32, TILE_DIMS(f->v));
    swap(&f->task->body, f->task->body.count - 2, f->task->body.count - 1);
    store(k, &range->body, TILE_DIMS(f->n, f->v), SINK_SUM, t, f->top);
}
static void spoil_may_be_empty(Fused *f) {
    uint16_t t = node_scratch(f->k, &f->range->body, "t", ELEM_F32, TILE_DIMS(f->n));
    store(f->k, &f->range->body, TILE_DIMS(f->n, f->m), SINK_SUM, t, f->x);
}
static void spoil_two_places(Fused *f) {
    uint16_t t = node_scratch(f->k, &f->task->body, "t", ELEM_F32, TILE_DIMS(f->n));
    store(f->k, &f->task->body, TILE_DIMS(f->n, f->m), SINK_SUM, t, f->x);
    store(f->k, &f->task->body, TILE_DIMS(f->n, f->m), SINK_SUM, t, f->x);
}
static void spoil_stored_first(Fused *f) {
    uint16_t t = node_scratch(f->k, &f->task->body, "t", ELEM_F32, TILE_DIMS(f->n));
    store(f->k, &f->task->body, TILE_DIMS(f->n), SINK_SET, t, f->top);
    store(f->k, &f->task->body, TILE_DIMS(f->n, f->m), SINK_SUM, t, f->x);
}
static void spoil_read_first(Fused *f) {
    swap(&f->loop->body, 1, 2);
}
static void spoil_factor_unfilled(Fused *f) {
    swap(&f->loop->body, 1, 3);
}
static void spoil_given_initial(Fused *f) {
    buffer_begin_with(f->k, f->x, 0);
}
static void spoil_initial_meets(Fused *f) {
    buffer_begin_with(f->k, f->y, 0);
    f->task->dim = f->m;
    f->range->dim = f->n;
}
static void spoil_gap(Fused *f) {
    buffer(f, f->s)->gap = 16;
}
static void spoil_takes_initial(Fused *f) {
    buffer_begin_with(f->k, f->u, 0);
}
static void spoil_takes_body(Fused *f) {
    buffer(f, f->u)->takes = f->s;
}
static void spoil_takes_elem(Fused *f) {
    buffer(f, f->o)->elem = ELEM_F64;
    f->sum->sinks.count = 0;
    f->range->body.count = 0;
}
static void spoil_takes_extent(Fused *f) {
    f->k->dims.at[f->w].extent = 9;
}
static void spoil_takes_cut(Fused *f) {
    Node *loop = node_loop(f->k, &f->k->body, LOOP_SEQUENTIAL, f->w, 4);
    loop->body = f->task->body;
    f->task->body = (NodeList){0};
    f->k->body.count = 1;
    vec_push(f->k->arena, &f->task->body, loop);
}
static void spoil_takes_and_reads(Fused *f) { // another point of what lies there
    f->mix->n_dims = 3;
    f->mix->dims[2] = f->v;
    stage_load(f->k, f->mix, access_plain(f->k, f->o));
}
static void spoil_takes_and_sums(Fused *f) {
    Stage *s =
        node_contract(f->k, &f->task->body, TILE_DIMS(f->n, f->w, f->v), access_plain(f->k, f->u),
                      access_plain(f->k, f->o), access_at(f->values, TILE_DIMS(f->v, f->w)));
    s->lanes = f->w;
    s->row_block = 1;
    s->lane_block = 8;
}
static void spoil_takes_and_stores(Fused *f) {
    stage_sink(f->k, f->mix, SINK_SET, access_at(f->o, TILE_DIMS(f->n, f->w)), 0);
    buffer(f, f->o)->dims[1] = f->w;
    f->range->body.count = 0;
}
static void spoil_panel_index(Fused *f) {
    Access *at = &f->copy->terms.at[0].load;
    at->index[1].offset = 1;
    at->checked = true;
}
static void spoil_panel_blocks(Fused *f) {
    f->sum->row_block = 3;
}
static void spoil_panel_pieces(Fused *f) {
    Node *rows = node_loop(f->k, &f->loop->body, LOOP_SEQUENTIAL, f->n, 6);
    vec_push(f->k->arena, &rows->body, f->loop->body.at[3]);
    f->loop->body.at[3] = rows;
    f->loop->body.count--;
}
static void spoil_repeated_product(Fused *f) {
    Stage *s = node_compute(f->k, &f->task->body, TILE_DIMS(f->n, f->v), f->v);
    int32_t top = load(f->k, s, f->top);
    stage_sink(f->k, s, SINK_SET, access_plain(f->k, f->top),
               stage_op(f->k, s, OP_MUL, ELEM_F32, top, top, -1));
}

static void test_verifier_refuses(void **state) {
    (void)state;
    static const struct {
        void (*spoil)(Fused *f);
        const char *says;
    } cases[] = {
        {spoil_range_dim, "a range of no dim"},
        {spoil_align, "range m has align 0"},
        {spoil_bound_dim, "a bound of no dim"},
        {spoil_end, "range m ends at no bound"},
        {spoil_bound_order, "argument 1 of a bound is no earlier one"},
        {spoil_bound_round, "to no multiple"},
        {spoil_bound_float, "top, which is no integers"},
        {spoil_bound_output, "y, which is no integers that are given"},
        {spoil_bound_scope, "loads s outside its scope"},
        {spoil_bound_unfilled, "last is read before anything is stored"},
        {spoil_bound_access, "ends by an access of another kind"},
        {spoil_bound_empty, "loads ends where dim m may be empty"},
        {spoil_parallel_in_range, "inside another loop or a range"},
        {spoil_no_initial, "o is combined in a range of m"},
        {spoil_moving_range, "t is combined in a range of v"},
        {spoil_may_be_empty, "t is combined over m, which may be empty"},
        {spoil_two_places, "t is combined in two places"},
        {spoil_stored_first, "t is stored to before it is combined"},
        {spoil_read_first, "s is read before anything is stored"},
        {spoil_factor_unfilled, "s is read before anything is stored"},
        {spoil_given_initial, "x is given and has an initial value"},
        {spoil_initial_meets, "tasks along m would meet in y"},
        {spoil_gap, "s: a gap needs plain scratch"},
        {spoil_takes_initial, "u takes memory and has an initial value"},
        {spoil_takes_body, "not made before it in the same body"},
        {spoil_takes_elem, "the memory of o, which lies differently"},
        {spoil_takes_extent, "the memory of o, which lies differently"},
        {spoil_takes_cut, "the memory of o, which lies differently"},
        {spoil_takes_and_reads, "o is loaded where u takes its memory"},
        {spoil_takes_and_sums, "o is read and stored to"},
        {spoil_takes_and_stores, "a stage stores to o and to its memory"},
        {spoil_panel_index, "an index along the panels of x is no plain dim"},
        {spoil_panel_blocks, "panels of s are not of whole blocks along n"},
        {spoil_panel_pieces, "pieces of n begin inside blocks of the panels of s"},
        {spoil_repeated_product, "points along v write one element of top"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Arena *arena = arena_new();
        Fused f = fused_new(arena);
        Text why = {.arena = arena};
        if (!kernel_check(f.k, &why))
            fail_msg("%s", why.at);
        cases[i].spoil(&f);
        if (kernel_check(f.k, &why))
            fail_msg("nothing found where \"%s\" was expected", cases[i].says);
        if (!strstr(why.at, cases[i].says))
            fail_msg("\"%s\" was expected, not \"%s\"", cases[i].says, why.at);
        arena_free(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sinks_combine_with_initial_values),
        cmocka_unit_test(test_sums_per_piece),
        cmocka_unit_test(test_ranges_are_what_their_bounds_say),
        cmocka_unit_test(test_bounds_are_loaded),
        cmocka_unit_test(test_panels_of_arguments),
        cmocka_unit_test(test_scratch_in_the_memory_of_other_scratch),
        cmocka_unit_test(test_tasks_do_not_meet),
        cmocka_unit_test(test_verifier_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
