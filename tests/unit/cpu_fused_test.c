// SPDX-License-Identifier: Apache-2.0
// What fused kernels need of the CPU target, against the tile interpreter at both x86-64 levels:
// ranges, initial values, sums per piece, panels of arguments, scratch in the memory of other
// scratch.
#include "support.h"

#include <math.h>
#include <string.h>

#include "cpu_fixture.h"
#include "hand_fixture.h"

static int64_t extent_of(int64_t extent, bool dynamic) {
    return dynamic ? EXTENT_DYNAMIC : extent;
}

// ---- kernels over n and m, at several extents ----

typedef struct {
    Kernel *k;
    TileDimId n, m, d;
    int64_t extents[3];
} Grid;
typedef void (*Build)(Grid *grid);

static void compare_grid(Build build, double tolerance) {
    static const int64_t extents[][3] = {{1, 1, 1},   {2, 33, 5},  {7, 5, 3},   {13, 17, 8},
                                         {31, 64, 7}, {33, 31, 2}, {64, 65, 9}, {65, 127, 4}};
    // Of the known extents some where each access to memory is checked.
    const size_t count = sizeof extents / sizeof *extents;
    for (int dynamic = 0; dynamic < 2; dynamic++)
        for (size_t i = 0; i < count; i += INSTRUMENTED && !dynamic ? 3 : 1) {
            Arena *arena = arena_new();
            Grid g = {.k = kernel_new(arena, "grid")};
            memcpy(g.extents, extents[i], sizeof g.extents);
            g.n = kernel_add_dim(g.k, "n", extent_of(g.extents[0], dynamic));
            g.m = kernel_add_dim(g.k, "m", extent_of(g.extents[1], dynamic));
            g.d = kernel_add_dim(g.k, "d", extent_of(g.extents[2], dynamic));
            build(&g);
            cpu_compare(g.k, g.extents, tolerance);
            arena_free(arena);
        }
}

static uint16_t in(Grid *g, Name name, TileDimList dims) {
    return kernel_add_argument(g->k, name, ELEM_F32, PLACE_IN, dims);
}

static uint16_t out(Grid *g, Name name, TileDimList dims) {
    return kernel_add_argument(g->k, name, ELEM_F32, PLACE_OUT, dims);
}

// ---- initial values ----

static void build_initial(Grid *g) {
    Kernel *k = g->k;
    uint16_t x = in(g, "X", TILE_DIMS(g->n, g->m));
    uint16_t count = kernel_add_argument(k, "I", ELEM_I32, PLACE_IN, TILE_DIMS(g->n));
    uint16_t y = out(g, "Y", TILE_DIMS(g->n)), z = out(g, "Z", TILE_DIMS(g->n, g->m));
    uint16_t p =
        kernel_add_argument_panel(k, "P", ELEM_F32, PLACE_OUT, TILE_DIMS(g->n, g->m), g->m, 32);
    uint16_t most = kernel_add_argument(k, "most", ELEM_I32, PLACE_OUT, TILE_DIMS(g->n));
    uint16_t half = kernel_add_argument(k, "H", ELEM_BF16, PLACE_OUT, TILE_DIMS(g->n, g->m));
    buffer_begin_with(k, y, 3);
    buffer_begin_with(k, p, -2);
    buffer_begin_with(k, most, 1);
    buffer_begin_with(k, half, 0.5);
    NodeList *task = hand_tasks(k, g->n, 5);
    uint16_t top = hand_scratch(k, task, "top", TILE_DIMS(g->n), -INFINITY);
    uint16_t low = hand_scratch(k, task, "low", TILE_DIMS(g->m), 0.25);
    NodeList *piece = hand_loop(k, task, g->m, 24);
    hand_store(k, piece, TILE_DIMS(g->n, g->m), g->m, SINK_SUM, y, x);
    hand_store(k, piece, TILE_DIMS(g->n, g->m), g->m, SINK_MAX, top, x);
    hand_store(k, piece, TILE_DIMS(g->n, g->m), g->m, SINK_MIN, low, x);
    hand_store(k, task, TILE_DIMS(g->n), g->n, SINK_MAX, most, count);
    Stage *end = node_compute(k, task, TILE_DIMS(g->n, g->m), g->m);
    hand_sink(k, end, SINK_SET, z,
              hand_op(k, end, OP_SUB, hand_load(k, end, low), hand_load(k, end, top)));
}

static void test_initial_values(void **state) {
    (void)state;
    compare_grid(build_initial, 1e-5);
}

// Sums over m per piece, made anew in each, then added up; in place in what the caller gave, too.
static void build_pieces(Grid *g) {
    Kernel *k = g->k;
    uint16_t a = in(g, "A", TILE_DIMS(g->n, g->m)), b = in(g, "B", TILE_DIMS(g->m, g->d));
    uint16_t c = out(g, "C", TILE_DIMS(g->n, g->d));
    uint16_t e = kernel_add_argument(k, "E", ELEM_F32, PLACE_BOTH, TILE_DIMS(g->n, g->d));
    uint16_t rows = kernel_add_argument(k, "R", ELEM_F32, PLACE_BOTH, TILE_DIMS(g->n));
    buffer_begin_with(k, c, 0);
    NodeList *piece = hand_loop(k, hand_tasks(k, g->n, 9), g->m, 20);
    uint16_t part = node_scratch(k, piece, "part", ELEM_F32, TILE_DIMS(g->n, g->d));
    uint16_t sums = node_scratch(k, piece, "sums", ELEM_F32, TILE_DIMS(g->n));
    HandBlocks blocks = {g->n, g->d, 6, 16};
    NodeList *inner = hand_loop(k, piece, g->m, 7);
    hand_contract(k, inner, TILE_DIMS(g->n, g->d, g->m), access_plain(k, part), access_plain(k, a),
                  access_plain(k, b), blocks);
    hand_store(k, inner, TILE_DIMS(g->n, g->m), g->m, SINK_SUM, sums, a);
    hand_contract(k, piece, TILE_DIMS(g->n, g->d, g->m), access_plain(k, e), access_plain(k, a),
                  access_plain(k, b), blocks);
    hand_store(k, piece, TILE_DIMS(g->n, g->d), g->d, SINK_SUM, c, part);
    hand_store(k, piece, TILE_DIMS(g->n), g->n, SINK_SUM, rows, sums);
    Stage *twice = node_compute(k, piece, TILE_DIMS(g->n), g->n);
    int32_t row = hand_load(k, twice, rows);
    hand_sink(k, twice, SINK_SET, rows, hand_op(k, twice, OP_ADD, row, row));
}

static void test_sums_per_piece(void **state) {
    (void)state;
    compare_grid(build_pieces, 2e-5);
}

// ---- sums of all tasks ----

// Sums over n, which tasks add to in turn: of products and of loads, of what is in a range of the
// task's rows alone, from zeros, from what the caller gave, and from either.
static void build_in_turn(Grid *g) {
    Kernel *k = g->k;
    uint16_t a = in(g, "A", TILE_DIMS(g->n, g->m)), b = in(g, "B", TILE_DIMS(g->n, g->d));
    uint16_t keep = kernel_add_argument(k, "keep", ELEM_I64, PLACE_IN, (TileDimList){0});
    uint16_t c = out(g, "C", TILE_DIMS(g->m, g->d)), sums = out(g, "S", TILE_DIMS(g->m));
    uint16_t most = out(g, "M", TILE_DIMS(g->m));
    uint16_t given = kernel_add_argument(k, "G", ELEM_F32, PLACE_BOTH, TILE_DIMS(g->m));
    uint16_t rows = out(g, "R", TILE_DIMS(g->n));
    buffer_begin_with(k, c, 0);
    buffer_begin_with(k, sums, 0.5);
    buffer_begin_with(k, most, -INFINITY);
    k->buffers.at[sums].kept_by = keep;
    NodeList *task = hand_tasks(k, g->n, 6);
    hand_store(k, task, TILE_DIMS(g->n, g->m), g->m, SINK_SUM, rows, a);
    NodeList *first = &node_loop(k, task, LOOP_ORDERED, g->m, 32)->body;
    HandBlocks blocks = {g->m, g->d, 6, 16};
    hand_contract(k, first, TILE_DIMS(g->m, g->d, g->n), access_plain(k, c), access_plain(k, a),
                  access_plain(k, b), blocks);
    hand_store(k, first, TILE_DIMS(g->n, g->m), g->m, SINK_SUM, sums, a);
    Node *range = node_range(k, task, g->m);
    range->lo = hand_edge(k, range, BOUND_LO, g->n, -3);
    range->hi = hand_edge(k, range, BOUND_HI, g->n, 2);
    NodeList *second = &node_loop(k, &range->body, LOOP_ORDERED, g->m, 8)->body;
    hand_store(k, second, TILE_DIMS(g->n, g->m), g->m, SINK_MAX, most, a);
    hand_store(k, second, TILE_DIMS(g->n, g->m), g->m, SINK_SUM, given, a);
}

static void test_sums_in_turn(void **state) {
    (void)state;
    compare_grid(build_in_turn, 2e-5);
}

// Without rows what is summed over them is a sum of nothing.
static void test_no_rows_in_turn(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Grid g = {.k = kernel_new(arena, "grid"), .extents = {0, 40, 9}};
    g.n = kernel_add_dim(g.k, "n", EXTENT_DYNAMIC);
    g.m = kernel_add_dim(g.k, "m", EXTENT_DYNAMIC);
    g.d = kernel_add_dim(g.k, "d", 9);
    build_in_turn(&g);
    assert_int_equal(kernel_tasks(g.k, g.extents), 1);
    cpu_compare(g.k, g.extents, 0);
    arena_free(arena);
}

// ---- ranges ----

// from, to: added to the first of n and to one past its last; beyond 1000: no bound.
static Node *window(Grid *g, NodeList *into, int64_t from, int64_t to, int64_t align) {
    Node *range = node_range(g->k, into, g->m);
    if (from < 1000)
        range->lo = hand_edge(g->k, range, BOUND_LO, g->n, from);
    if (to < 1000)
        range->hi = hand_edge(g->k, range, BOUND_HI, g->n, to);
    range->align = align;
    return range;
}

static const int64_t windows[][3] = {{2000, 0, 1},  {-15, 0, 1}, {-15, 3, 32},  {1, 2000, 16},
                                     {20, 2000, 1}, {5, -5, 1},  {2000, -40, 1}};

// Products with summed and with lane positions in a range, with loops inside and without; sums,
// maxima and stores of compute stages.
static void build_window(Grid *g, const int64_t *w) {
    Kernel *k = g->k;
    uint16_t q = in(g, "Q", TILE_DIMS(g->n, g->d)), keys = in(g, "K", TILE_DIMS(g->d, g->m));
    uint16_t v = in(g, "V", TILE_DIMS(g->m, g->d)), x = in(g, "X", TILE_DIMS(g->n, g->m));
    uint16_t s = out(g, "S", TILE_DIMS(g->n, g->m)), o = out(g, "O", TILE_DIMS(g->n, g->d));
    uint16_t top = out(g, "top", TILE_DIMS(g->n)), y = out(g, "Y", TILE_DIMS(g->n, g->m));
    uint16_t turns = kernel_add_argument(k, "turns", ELEM_I64, PLACE_OUT, TILE_DIMS(g->n));
    buffer_begin_with(k, s, 0);
    buffer_begin_with(k, o, 0);
    buffer_begin_with(k, top, -7);
    buffer_begin_with(k, y, 0.5);
    buffer_begin_with(k, turns, 0);
    NodeList *task = hand_tasks(k, g->n, 12);
    NodeList *range = &window(g, task, w[0], w[1], w[2])->body;
    HandBlocks rows = {g->n, g->m, 6, 32}, row = {g->n, g->d, 4, 16};
    hand_contract(k, range, TILE_DIMS(g->n, g->m, g->d), access_plain(k, s), access_plain(k, q),
                  access_plain(k, keys), rows);
    hand_store(k, range, TILE_DIMS(g->n, g->m), g->m, SINK_MAX, top, x);
    NodeList *piece = hand_loop(k, range, g->m, 20);
    hand_contract(k, piece, TILE_DIMS(g->n, g->d, g->m), access_plain(k, o), access_plain(k, x),
                  access_plain(k, v), row);
    Stage *each = node_compute(k, piece, TILE_DIMS(g->m, g->n), g->m);
    int32_t sum = hand_op(k, each, OP_ADD, hand_load(k, each, x), hand_load(k, each, y));
    hand_sink(k, each, SINK_SET, y, sum);
    Stage *count = node_compute(k, piece, TILE_DIMS(g->n), TILE_DIM_NONE);
    hand_sink(k, count, SINK_SUM, turns, stage_const(k, count, 1, ELEM_I64));
    count = node_compute(k, range, TILE_DIMS(g->n), TILE_DIM_NONE); // runs however short the range
    hand_sink(k, count, SINK_SUM, turns, stage_const(k, count, 100, ELEM_I64));
}

static void build_causal(Grid *g) {
    build_window(g, windows[0]);
}
static void build_band(Grid *g) {
    build_window(g, windows[1]);
}
static void build_aligned_band(Grid *g) {
    build_window(g, windows[2]);
}
static void build_after(Grid *g) {
    build_window(g, windows[3]);
}
static void build_far_after(Grid *g) {
    build_window(g, windows[4]);
}
static void build_narrow(Grid *g) {
    build_window(g, windows[5]);
}
static void build_nothing(Grid *g) {
    build_window(g, windows[6]);
}

static void test_ranges(void **state) {
    (void)state;
    Build builds[] = {build_causal,    build_band,   build_aligned_band, build_after,
                      build_far_after, build_narrow, build_nothing};
    for (size_t i = 0; i < sizeof builds / sizeof *builds; i++)
        compare_grid(builds[i], 2e-5);
}

// Bounds that are numbers: known to be empty, whole, or in between.
static void build_numbers(Grid *g) {
    static const int64_t ends[][2] = {{0, 0}, {3, 3}, {-5, 9}, {4, 30}, {1000, 2000}, {0, 5000}};
    Kernel *k = g->k;
    uint16_t x = in(g, "X", TILE_DIMS(g->n, g->m)), y[6];
    for (int i = 0; i < 6; i++) {
        y[i] = out(g, "Y", TILE_DIMS(g->n));
        buffer_begin_with(k, y[i], 1);
    }
    for (int i = 0; i < 6; i++) {
        Node *range = node_range(k, &k->body, g->m);
        range->lo = hand_edge(k, range, BOUND_NUMBER, 0, ends[i][0]);
        range->hi = hand_edge(k, range, BOUND_NUMBER, 0, ends[i][1]);
        NodeList *into = i & 1 ? hand_loop(k, &range->body, g->m, 9) : &range->body;
        hand_store(k, into, TILE_DIMS(g->n, g->m), g->m, SINK_SUM, y[i], x);
    }
}

static void test_constant_bounds(void **state) {
    (void)state;
    compare_grid(build_numbers, 1e-5);
}

// Ranges in ranges, every kind of bound, scratch made below them and panels that line up.
static void build_nested(Grid *g) {
    Kernel *k = g->k;
    uint16_t x = in(g, "X", TILE_DIMS(g->n, g->m)), w = in(g, "W", TILE_DIMS(g->d, g->n));
    uint16_t y = out(g, "Y", TILE_DIMS(g->d, g->m)), z = out(g, "Z", TILE_DIMS(g->m));
    buffer_begin_with(k, y, 0);
    buffer_begin_with(k, z, 0);
    Node *outer = node_range(k, &k->body, g->m);
    int32_t half = hand_edge(k, outer, BOUND_EXTENT, g->m, -9);
    int32_t length = hand_edge(k, outer, BOUND_HI, g->n, 0);
    int32_t sum = range_bound(k, outer, (Bound){.kind = BOUND_ADD, .args = {half, length}});
    outer->hi = range_bound(k, outer, (Bound){.kind = BOUND_ROUND, .number = 8, .args = {sum}});
    NodeList *piece = hand_loop(k, &outer->body, g->m, 64);
    Node *inner = node_range(k, piece, g->m);
    int32_t start = hand_edge(k, inner, BOUND_LO, g->m, 1),
            five = hand_edge(k, inner, BOUND_NUMBER, 0, 5);
    inner->lo = range_bound(k, inner, (Bound){.kind = BOUND_MAX, .args = {start, five}});
    int32_t last = hand_edge(k, inner, BOUND_HI, g->m, -2),
            end = hand_edge(k, inner, BOUND_EXTENT, g->n, 40);
    inner->hi = range_bound(k, inner, (Bound){.kind = BOUND_MIN, .args = {last, end}});
    inner->align = 32;
    uint16_t p =
        node_scratch_panel(k, &inner->body, "P", ELEM_F32, TILE_DIMS(g->n, g->m), g->m, 32);
    hand_store(k, &inner->body, TILE_DIMS(g->n, g->m), g->m, SINK_SET, p, x)->pad = true;
    NodeList *rest = &window(g, &inner->body, 8, 2000, 32)->body;
    HandBlocks blocks = {g->d, g->m, 6, 32};
    hand_contract(k, rest, TILE_DIMS(g->d, g->m, g->n), access_plain(k, y), access_plain(k, w),
                  access_plain(k, p), blocks);
    hand_store(k, rest, TILE_DIMS(g->n, g->m), g->m, SINK_SUM, z, p);
}

static void test_nested_ranges(void **state) {
    (void)state;
    compare_grid(build_nested, 2e-5);
}

// Bounds that are read: from an argument, of two integer types, and as a stage computed them.
static void build_loaded(Grid *g) {
    Kernel *k = g->k;
    uint16_t wide = kernel_add_argument(k, "wide", ELEM_I64, PLACE_IN, TILE_DIMS(g->n));
    uint16_t narrow = kernel_add_argument(k, "narrow", ELEM_I32, PLACE_IN, TILE_DIMS(g->n));
    uint16_t x = in(g, "X", TILE_DIMS(g->n, g->m)), y = out(g, "Y", TILE_DIMS(g->n));
    buffer_begin_with(k, y, 0);
    NodeList *row = hand_loop(k, hand_tasks(k, g->n, 4), g->n, 1);
    uint16_t ends = node_scratch(k, row, "ends", ELEM_I64, TILE_DIMS(g->n));
    Stage *s = node_compute(k, row, TILE_DIMS(g->n), TILE_DIM_NONE);
    int32_t seven = stage_const(k, s, 7, ELEM_I64);
    int32_t end = stage_op(k, s, OP_MUL, ELEM_I64, hand_load(k, s, wide), seven, -1);
    hand_sink(k, s, SINK_SET, ends, end);
    Node *range = node_range(k, row, g->m);
    range->lo = range_bound(
        k, range, (Bound){.kind = BOUND_LOAD, .load = access_plain(k, narrow), .number = -1});
    range->hi = range_bound(k, range, (Bound){.kind = BOUND_LOAD, .load = access_plain(k, ends)});
    hand_store(k, &range->body, TILE_DIMS(g->n, g->m), g->m, SINK_SUM, y, x);
    // numbers that no position has
    Node *wild = node_range(k, row, g->m);
    int64_t huge = INT64_MAX - 1;
    Bound far = {.kind = BOUND_LOAD, .load = access_plain(k, wide), .number = huge};
    wild->lo = range_bound(k, wild, far);
    hand_store(k, hand_loop(k, &wild->body, g->m, 8), TILE_DIMS(g->n, g->m), g->m, SINK_SUM, y, x);
}

static void test_loaded_bounds(void **state) {
    (void)state;
    compare_grid(build_loaded, 1e-5);
}

// ---- panels of arguments ----

// c = a b, with panels of rows in a, of lanes in b, and wider ones of lanes in c.
static void build_panels(Grid *g) {
    Kernel *k = g->k;
    uint16_t a =
        kernel_add_argument_panel(k, "A", ELEM_F32, PLACE_IN, TILE_DIMS(g->d, g->n), g->n, 12);
    uint16_t b =
        kernel_add_argument_panel(k, "B", ELEM_F32, PLACE_IN, TILE_DIMS(g->m, g->d), g->m, 32);
    uint16_t c =
        kernel_add_argument_panel(k, "C", ELEM_F32, PLACE_OUT, TILE_DIMS(g->n, g->m), g->m, 64);
    uint16_t e =
        kernel_add_argument_panel(k, "E", ELEM_F32, PLACE_OUT, TILE_DIMS(g->m, g->n), g->m, 48);
    buffer_begin_with(k, e, 0);
    NodeList *task = &node_loop(k, hand_tasks(k, g->n, 24), LOOP_PARALLEL, g->m, 64)->body;
    HandBlocks blocks = {g->n, g->m, 6, 32};
    hand_contract(k, task, TILE_DIMS(g->n, g->m, g->d), access_plain(k, c), access_plain(k, a),
                  access_plain(k, b), blocks);
    Stage *s = hand_store(k, task, TILE_DIMS(g->n, g->m), g->m, SINK_SUM, e, c);
    s->pad = true;
}

// Seven vectors would fit the panels of b, and what the registers hold, but not the panels of c.
static void build_unequal_panels(Grid *g) {
    Kernel *k = g->k;
    uint16_t a = in(g, "A", TILE_DIMS(g->n, g->d));
    uint16_t b =
        kernel_add_argument_panel(k, "B", ELEM_F32, PLACE_IN, TILE_DIMS(g->d, g->m), g->m, 448);
    uint16_t c =
        kernel_add_argument_panel(k, "C", ELEM_F32, PLACE_OUT, TILE_DIMS(g->n, g->m), g->m, 64);
    hand_contract(k, hand_tasks(k, g->n, 24), TILE_DIMS(g->n, g->m, g->d), access_plain(k, c),
                  access_plain(k, a), access_plain(k, b), (HandBlocks){g->n, g->m, 1, 64});
}

static void test_panels_of_arguments(void **state) {
    (void)state;
    compare_grid(build_panels, 2e-5);
    compare_grid(build_unequal_panels, 2e-5);
}

// A panel that is stored to up to the end of a range has zeros behind it if that is the end of all.
static void build_padding(Grid *g) {
    static const int64_t ends[] = {-1, 0, 1000};
    Kernel *k = g->k;
    uint16_t x = in(g, "X", TILE_DIMS(g->n, g->m)), to[4];
    for (int i = 0; i < 4; i++)
        to[i] = kernel_add_argument_panel(k, "P", ELEM_F32, PLACE_OUT, TILE_DIMS(g->n, g->m), g->m,
                                          i == 3 ? 6 : 16);
    for (int i = 0; i < 3; i++) {
        Node *range = node_range(k, &k->body, g->m);
        range->hi = hand_edge(k, range, BOUND_EXTENT, g->m, ends[i]);
        hand_store(k, &range->body, TILE_DIMS(g->n, g->m), g->m, SINK_SET, to[i], x)->pad = true;
    }
    NodeList *piece = hand_loop(k, &k->body, g->m, 10); // does not line up
    hand_store(k, piece, TILE_DIMS(g->n, g->m), g->m, SINK_SET, to[3], x)->pad = true;
}

static void test_padding(void **state) {
    (void)state;
    compare_grid(build_padding, 0);
}

// ---- scratch ----

// Rows with gaps, and a second buffer in the same memory under another dim of the same extent.
static void build_memory(Grid *g) {
    Kernel *k = g->k;
    TileDimId h = kernel_add_dim(k, "h", 5), e = kernel_add_dim(k, "e", 5);
    uint16_t x = in(g, "X", TILE_DIMS(g->n, h, g->m)), w = in(g, "W", TILE_DIMS(e, h));
    uint16_t v = in(g, "V", TILE_DIMS(e, g->m, g->d)), o = out(g, "O", TILE_DIMS(g->n, g->d));
    uint16_t y = out(g, "Y", TILE_DIMS(g->n, e, g->m)), z = out(g, "Z", TILE_DIMS(g->n, e));
    NodeList *task = hand_tasks(k, g->n, 6);
    TileBuffer like = scratch_plain("J", ELEM_F32, TILE_DIMS(g->n, h, g->m));
    like.gap = 16;
    uint16_t j = node_scratch_with(k, task, like);
    like.name = "U";
    like.takes = j;
    like.dims[1] = e;
    uint16_t u = node_scratch_with(k, task, like);
    hand_store(k, task, TILE_DIMS(g->n, h, g->m), g->m, SINK_SET, j, x);
    NodeList *row = hand_loop(k, task, g->n, 1);
    TileBuffer one = scratch_plain("L", ELEM_F32, TILE_DIMS(g->n, h, g->m));
    one.gap = 3;
    uint16_t l = node_scratch_with(k, row, one);
    hand_store(k, row, TILE_DIMS(g->n, h, g->m), g->m, SINK_SET, l, j);
    HandBlocks blocks = {e, g->m, 5, 32};
    hand_contract(k, row, TILE_DIMS(g->n, e, g->m, h), access_plain(k, u), access_plain(k, w),
                  access_plain(k, l), blocks);
    hand_store(k, task, TILE_DIMS(g->n, e, g->m), g->m, SINK_SET, y, u);
    hand_store(k, task, TILE_DIMS(g->n, e, g->m), g->m, SINK_SUM, z, u);
    blocks = (HandBlocks){g->n, g->d, 6, 16}; // e and m do not follow one another in u
    hand_contract(k, task, TILE_DIMS(g->n, g->d, e, g->m), access_plain(k, o), access_plain(k, u),
                  access_plain(k, v), blocks);
}

static void test_gaps_and_shared_memory(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++)
        for (int dynamic = 0; dynamic < 2; dynamic++) {
            static const int64_t ms[] = {1, 5, 16, 17, 32, 33, 64, 100};
            Arena *arena = arena_new();
            Grid g = {.k = kernel_new(arena, "memory")};
            int64_t extents[] = {1 + 3 * i, ms[i], 3 + i, 5, 5};
            g.n = kernel_add_dim(g.k, "n", extent_of(extents[0], dynamic));
            g.m = kernel_add_dim(g.k, "m", extent_of(extents[1], dynamic));
            g.d = kernel_add_dim(g.k, "d", extent_of(extents[2], dynamic));
            build_memory(&g);
            cpu_compare(g.k, extents, 1e-5);
            arena_free(arena);
        }
}

// A stage that reads what lies where it stores: each point before it is overwritten.
static void build_in_place(Grid *g) {
    Kernel *k = g->k;
    uint16_t x = in(g, "X", TILE_DIMS(g->n, g->m)), y = out(g, "Y", TILE_DIMS(g->n, g->m));
    NodeList *task = hand_tasks(k, g->n, 6);
    uint16_t j = node_scratch(k, task, "J", ELEM_F32, TILE_DIMS(g->n, g->m));
    TileBuffer like = scratch_plain("U", ELEM_F32, TILE_DIMS(g->n, g->m));
    like.takes = j;
    uint16_t u = node_scratch_with(k, task, like);
    hand_store(k, task, TILE_DIMS(g->n, g->m), g->m, SINK_SET, j, x);
    Stage *s = node_compute(k, task, TILE_DIMS(g->n, g->m), g->m);
    int32_t term = hand_load(k, s, j);
    hand_sink(k, s, SINK_SET, u, hand_op(k, s, OP_MUL, term, term));
    hand_store(k, task, TILE_DIMS(g->n, g->m), g->m, SINK_SET, y, u);
}

static void test_in_place(void **state) {
    (void)state;
    compare_grid(build_in_place, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_initial_values),
        cmocka_unit_test(test_sums_per_piece),
        cmocka_unit_test(test_sums_in_turn),
        cmocka_unit_test(test_no_rows_in_turn),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_constant_bounds),
        cmocka_unit_test(test_nested_ranges),
        cmocka_unit_test(test_loaded_bounds),
        cmocka_unit_test(test_panels_of_arguments),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_gaps_and_shared_memory),
        cmocka_unit_test(test_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
