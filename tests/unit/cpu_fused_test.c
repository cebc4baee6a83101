// SPDX-License-Identifier: Apache-2.0
// What fused kernels need of the CPU target, against the tile interpreter at both x86-64 levels:
// ranges, initial values, sums per piece, panels of arguments, scratch in the memory of other
// scratch. At the end whole attention layers as tile programs, against a direct computation too.
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_fixture.h"

static int64_t extent_of(int64_t extent, bool dynamic) {
    return dynamic ? EXTENT_DYNAMIC : extent;
}

static int32_t load(Kernel *k, Stage *stage, uint16_t buffer) {
    return stage_load(k, stage, access_plain(k, buffer));
}

static void sink(Kernel *k, Stage *stage, SinkMode mode, uint16_t buffer, int32_t term) {
    stage_sink(k, stage, mode, access_plain(k, buffer), term);
}

static int32_t op(Kernel *k, Stage *stage, Op operation, int32_t a, int32_t b) {
    return stage_op(k, stage, operation, ELEM_F32, a, b, -1);
}

static Stage *store(Kernel *k, NodeList *into, TileDimList dims, TileDimId lanes, SinkMode mode,
                    uint16_t to, uint16_t from) {
    Stage *stage = node_compute(k, into, dims, lanes);
    sink(k, stage, mode, to, load(k, stage, from));
    return stage;
}

typedef struct {
    TileDimId rows, lanes;
    int row_block, lane_block;
} Blocks;

static Stage *contract(Kernel *k, NodeList *into, TileDimList dims, Access c, Access a, Access b,
                       Blocks blocks) {
    Stage *stage = node_contract(k, into, dims, c, a, b);
    stage->rows = blocks.rows;
    stage->lanes = blocks.lanes;
    stage->row_block = blocks.row_block;
    stage->lane_block = blocks.lane_block;
    return stage;
}

static uint16_t scratch_from(Kernel *k, NodeList *into, Name name, TileDimList dims,
                             double initial) {
    uint16_t buffer = node_scratch(k, into, name, ELEM_F32, dims);
    buffer_begin_with(k, buffer, initial);
    return buffer;
}

static NodeList *loop(Kernel *k, NodeList *into, TileDimId dim, int64_t step) {
    return &node_loop(k, into, LOOP_SEQUENTIAL, dim, step)->body;
}

static NodeList *tasks(Kernel *k, TileDimId dim, int64_t step) {
    return &node_loop(k, &k->body, LOOP_PARALLEL, dim, step)->body;
}

static int32_t edge_of(Kernel *k, Node *range, BoundKind kind, TileDimId dim, int64_t number) {
    return range_bound(k, range, (Bound){.kind = kind, .dim = dim, .number = number});
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
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
        for (int dynamic = 0; dynamic < 2; dynamic++) {
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
    NodeList *task = tasks(k, g->n, 5);
    uint16_t top = scratch_from(k, task, "top", TILE_DIMS(g->n), -INFINITY);
    uint16_t low = scratch_from(k, task, "low", TILE_DIMS(g->m), 0.25);
    NodeList *piece = loop(k, task, g->m, 24);
    store(k, piece, TILE_DIMS(g->n, g->m), g->m, SINK_SUM, y, x);
    store(k, piece, TILE_DIMS(g->n, g->m), g->m, SINK_MAX, top, x);
    store(k, piece, TILE_DIMS(g->n, g->m), g->m, SINK_MIN, low, x);
    store(k, task, TILE_DIMS(g->n), g->n, SINK_MAX, most, count);
    Stage *end = node_compute(k, task, TILE_DIMS(g->n, g->m), g->m);
    sink(k, end, SINK_SET, z, op(k, end, OP_SUB, load(k, end, low), load(k, end, top)));
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
    NodeList *piece = loop(k, tasks(k, g->n, 9), g->m, 20);
    uint16_t part = node_scratch(k, piece, "part", ELEM_F32, TILE_DIMS(g->n, g->d));
    uint16_t sums = node_scratch(k, piece, "sums", ELEM_F32, TILE_DIMS(g->n));
    Blocks blocks = {g->n, g->d, 6, 16};
    NodeList *inner = loop(k, piece, g->m, 7);
    contract(k, inner, TILE_DIMS(g->n, g->d, g->m), access_plain(k, part), access_plain(k, a),
             access_plain(k, b), blocks);
    store(k, inner, TILE_DIMS(g->n, g->m), g->m, SINK_SUM, sums, a);
    contract(k, piece, TILE_DIMS(g->n, g->d, g->m), access_plain(k, e), access_plain(k, a),
             access_plain(k, b), blocks);
    store(k, piece, TILE_DIMS(g->n, g->d), g->d, SINK_SUM, c, part);
    store(k, piece, TILE_DIMS(g->n), g->n, SINK_SUM, rows, sums);
    Stage *twice = node_compute(k, piece, TILE_DIMS(g->n), g->n);
    int32_t row = load(k, twice, rows);
    sink(k, twice, SINK_SET, rows, op(k, twice, OP_ADD, row, row));
}

static void test_sums_per_piece(void **state) {
    (void)state;
    compare_grid(build_pieces, 2e-5);
}

// ---- ranges ----

// from, to: added to the first of n and to one past its last; beyond 1000: no bound.
static Node *window(Grid *g, NodeList *into, int64_t from, int64_t to, int64_t align) {
    Node *range = node_range(g->k, into, g->m);
    if (from < 1000)
        range->lo = edge_of(g->k, range, BOUND_LO, g->n, from);
    if (to < 1000)
        range->hi = edge_of(g->k, range, BOUND_HI, g->n, to);
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
    NodeList *task = tasks(k, g->n, 12);
    NodeList *range = &window(g, task, w[0], w[1], w[2])->body;
    Blocks rows = {g->n, g->m, 6, 32}, row = {g->n, g->d, 4, 16};
    contract(k, range, TILE_DIMS(g->n, g->m, g->d), access_plain(k, s), access_plain(k, q),
             access_plain(k, keys), rows);
    store(k, range, TILE_DIMS(g->n, g->m), g->m, SINK_MAX, top, x);
    NodeList *piece = loop(k, range, g->m, 20);
    contract(k, piece, TILE_DIMS(g->n, g->d, g->m), access_plain(k, o), access_plain(k, x),
             access_plain(k, v), row);
    Stage *each = node_compute(k, piece, TILE_DIMS(g->m, g->n), g->m);
    int32_t sum = op(k, each, OP_ADD, load(k, each, x), load(k, each, y));
    sink(k, each, SINK_SET, y, sum);
    Stage *count = node_compute(k, piece, TILE_DIMS(g->n), TILE_DIM_NONE);
    sink(k, count, SINK_SUM, turns, stage_const(k, count, 1, ELEM_I64));
    count = node_compute(k, range, TILE_DIMS(g->n), TILE_DIM_NONE); // runs however short the range
    sink(k, count, SINK_SUM, turns, stage_const(k, count, 100, ELEM_I64));
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
        range->lo = edge_of(k, range, BOUND_NUMBER, 0, ends[i][0]);
        range->hi = edge_of(k, range, BOUND_NUMBER, 0, ends[i][1]);
        NodeList *into = i & 1 ? loop(k, &range->body, g->m, 9) : &range->body;
        store(k, into, TILE_DIMS(g->n, g->m), g->m, SINK_SUM, y[i], x);
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
    int32_t half = edge_of(k, outer, BOUND_EXTENT, g->m, -9);
    int32_t length = edge_of(k, outer, BOUND_HI, g->n, 0);
    int32_t sum = range_bound(k, outer, (Bound){.kind = BOUND_ADD, .args = {half, length}});
    outer->hi = range_bound(k, outer, (Bound){.kind = BOUND_ROUND, .number = 8, .args = {sum}});
    NodeList *piece = loop(k, &outer->body, g->m, 64);
    Node *inner = node_range(k, piece, g->m);
    int32_t start = edge_of(k, inner, BOUND_LO, g->m, 1),
            five = edge_of(k, inner, BOUND_NUMBER, 0, 5);
    inner->lo = range_bound(k, inner, (Bound){.kind = BOUND_MAX, .args = {start, five}});
    int32_t last = edge_of(k, inner, BOUND_HI, g->m, -2),
            end = edge_of(k, inner, BOUND_EXTENT, g->n, 40);
    inner->hi = range_bound(k, inner, (Bound){.kind = BOUND_MIN, .args = {last, end}});
    inner->align = 32;
    uint16_t p =
        node_scratch_panel(k, &inner->body, "P", ELEM_F32, TILE_DIMS(g->n, g->m), g->m, 32);
    store(k, &inner->body, TILE_DIMS(g->n, g->m), g->m, SINK_SET, p, x)->pad = true;
    NodeList *rest = &window(g, &inner->body, 8, 2000, 32)->body;
    Blocks blocks = {g->d, g->m, 6, 32};
    contract(k, rest, TILE_DIMS(g->d, g->m, g->n), access_plain(k, y), access_plain(k, w),
             access_plain(k, p), blocks);
    store(k, rest, TILE_DIMS(g->n, g->m), g->m, SINK_SUM, z, p);
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
    NodeList *row = loop(k, tasks(k, g->n, 4), g->n, 1);
    uint16_t ends = node_scratch(k, row, "ends", ELEM_I64, TILE_DIMS(g->n));
    Stage *s = node_compute(k, row, TILE_DIMS(g->n), TILE_DIM_NONE);
    int32_t seven = stage_const(k, s, 7, ELEM_I64);
    int32_t end = stage_op(k, s, OP_MUL, ELEM_I64, load(k, s, wide), seven, -1);
    sink(k, s, SINK_SET, ends, end);
    Node *range = node_range(k, row, g->m);
    range->lo = range_bound(
        k, range, (Bound){.kind = BOUND_LOAD, .load = access_plain(k, narrow), .number = -1});
    range->hi = range_bound(k, range, (Bound){.kind = BOUND_LOAD, .load = access_plain(k, ends)});
    store(k, &range->body, TILE_DIMS(g->n, g->m), g->m, SINK_SUM, y, x);
    // numbers that no position has
    Node *wild = node_range(k, row, g->m);
    int64_t huge = INT64_MAX - 1;
    Bound far = {.kind = BOUND_LOAD, .load = access_plain(k, wide), .number = huge};
    wild->lo = range_bound(k, wild, far);
    store(k, loop(k, &wild->body, g->m, 8), TILE_DIMS(g->n, g->m), g->m, SINK_SUM, y, x);
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
    NodeList *task = &node_loop(k, tasks(k, g->n, 24), LOOP_PARALLEL, g->m, 64)->body;
    Blocks blocks = {g->n, g->m, 6, 32};
    contract(k, task, TILE_DIMS(g->n, g->m, g->d), access_plain(k, c), access_plain(k, a),
             access_plain(k, b), blocks);
    Stage *s = store(k, task, TILE_DIMS(g->n, g->m), g->m, SINK_SUM, e, c);
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
    contract(k, tasks(k, g->n, 24), TILE_DIMS(g->n, g->m, g->d), access_plain(k, c),
             access_plain(k, a), access_plain(k, b), (Blocks){g->n, g->m, 1, 64});
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
        range->hi = edge_of(k, range, BOUND_EXTENT, g->m, ends[i]);
        store(k, &range->body, TILE_DIMS(g->n, g->m), g->m, SINK_SET, to[i], x)->pad = true;
    }
    NodeList *piece = loop(k, &k->body, g->m, 10); // does not line up
    store(k, piece, TILE_DIMS(g->n, g->m), g->m, SINK_SET, to[3], x)->pad = true;
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
    NodeList *task = tasks(k, g->n, 6);
    TileBuffer like = scratch_plain("J", ELEM_F32, TILE_DIMS(g->n, h, g->m));
    like.gap = 16;
    uint16_t j = node_scratch_with(k, task, like);
    like.name = "U";
    like.takes = j;
    like.dims[1] = e;
    uint16_t u = node_scratch_with(k, task, like);
    store(k, task, TILE_DIMS(g->n, h, g->m), g->m, SINK_SET, j, x);
    NodeList *row = loop(k, task, g->n, 1);
    TileBuffer one = scratch_plain("L", ELEM_F32, TILE_DIMS(g->n, h, g->m));
    one.gap = 3;
    uint16_t l = node_scratch_with(k, row, one);
    store(k, row, TILE_DIMS(g->n, h, g->m), g->m, SINK_SET, l, j);
    Blocks blocks = {e, g->m, 5, 32};
    contract(k, row, TILE_DIMS(g->n, e, g->m, h), access_plain(k, u), access_plain(k, w),
             access_plain(k, l), blocks);
    store(k, task, TILE_DIMS(g->n, e, g->m), g->m, SINK_SET, y, u);
    store(k, task, TILE_DIMS(g->n, e, g->m), g->m, SINK_SUM, z, u);
    blocks = (Blocks){g->n, g->d, 6, 16}; // e and m do not follow one another in u
    contract(k, task, TILE_DIMS(g->n, g->d, e, g->m), access_plain(k, o), access_plain(k, u),
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
    NodeList *task = tasks(k, g->n, 6);
    uint16_t j = node_scratch(k, task, "J", ELEM_F32, TILE_DIMS(g->n, g->m));
    TileBuffer like = scratch_plain("U", ELEM_F32, TILE_DIMS(g->n, g->m));
    like.takes = j;
    uint16_t u = node_scratch_with(k, task, like);
    store(k, task, TILE_DIMS(g->n, g->m), g->m, SINK_SET, j, x);
    Stage *s = node_compute(k, task, TILE_DIMS(g->n, g->m), g->m);
    int32_t term = load(k, s, j);
    sink(k, s, SINK_SET, u, op(k, s, OP_MUL, term, term));
    store(k, task, TILE_DIMS(g->n, g->m), g->m, SINK_SET, y, u);
}

static void test_in_place(void **state) {
    (void)state;
    compare_grid(build_in_place, 0);
}

// ---- attention ----

typedef struct {
    int64_t n, m, d, v, h;
    int64_t rows, block; // of a task, of m
} Layer;

static double at(const void *buffer, int64_t i) {
    return (double)((const float *)buffer)[i];
}

// K[m d] in panels of 32 positions.
static double key(const void *k, int64_t m, int64_t d, int64_t n_d) {
    return at(k, (m / 32 * n_d + d) * 32 + m % 32);
}

static void close_to(double got, double expected, int64_t n, int64_t v) {
    if (fabs(got - expected) > 2e-5)
        fail_msg("[%ld %ld] is %.9g, expected %.9g", (long)n, (long)v, got, expected);
}

// Y = softmax over m <= n of Q K, times V.
static void expect_causal(const int64_t *x, void *const *buffers) {
    int64_t M = x[1], D = x[2], V = x[3];
    double *logits = calloc((size_t)M + 1, sizeof *logits);
    for (int64_t n = 0; n < x[0]; n++) {
        double top = -INFINITY, z = 0;
        for (int64_t m = 0; m < M && m <= n; m++) {
            logits[m] = 0;
            for (int64_t d = 0; d < D; d++)
                logits[m] += at(buffers[0], n * D + d) * key(buffers[1], m, d, D);
            top = fmax(top, logits[m]);
        }
        for (int64_t m = 0; m < M && m <= n; m++)
            z += logits[m] = exp(logits[m] - top);
        for (int64_t v = 0; v < V; v++) {
            double sum = 0;
            for (int64_t m = 0; m < M && m <= n; m++)
                sum += logits[m] / z * at(buffers[2], m * V + v);
            close_to(at(buffers[3], n * V + v), sum, n, v);
        }
    }
    free(logits);
}

typedef struct {
    Kernel *k;
    TileDimId n, m, d, v;
    uint16_t q, keys, values, y, top, z, o;
} Stream;

// One block of positions: logits, the new maximum, what has been summed so far rescaled to it.
static void stream_block(Stream *x, NodeList *into, bool masked) {
    Kernel *k = x->k;
    TileDimList nm = TILE_DIMS(x->n, x->m), rows = TILE_DIMS(x->n), nv = TILE_DIMS(x->n, x->v);
    uint16_t s = node_scratch(k, into, "S", ELEM_F32, nm);
    uint16_t was = node_scratch(k, into, "was", ELEM_F32, rows);
    uint16_t c = node_scratch(k, into, "c", ELEM_F32, rows);
    contract(k, into, TILE_DIMS(x->n, x->m, x->d), access_plain(k, s), access_plain(k, x->q),
             access_plain(k, x->keys), (Blocks){x->n, x->m, 12, 32});
    if (masked) {
        Stage *mask = node_compute(k, into, nm, x->m);
        int32_t i = stage_index(k, mask, x->n), j = stage_index(k, mask, x->m);
        int32_t seen = stage_op(k, mask, OP_LE, ELEM_BOOL, j, i, -1);
        int32_t none = stage_const(k, mask, -INFINITY, ELEM_F32), logit = load(k, mask, s);
        sink(k, mask, SINK_SET, s, stage_op(k, mask, OP_SELECT, ELEM_F32, seen, logit, none));
    }
    store(k, into, rows, x->n, SINK_SET, was, x->top);
    store(k, into, nm, x->m, SINK_MAX, x->top, s);
    Stage *factor = node_compute(k, into, rows, x->n);
    int32_t moved = op(k, factor, OP_SUB, load(k, factor, was), load(k, factor, x->top));
    sink(k, factor, SINK_SET, c, op(k, factor, OP_EXP, moved, -1));
    Stage *rescale = node_compute(k, into, rows, x->n);
    sink(k, rescale, SINK_SET, x->z,
         op(k, rescale, OP_MUL, load(k, rescale, x->z), load(k, rescale, c)));
    rescale = node_compute(k, into, nv, x->v);
    sink(k, rescale, SINK_PROD, x->o, load(k, rescale, c));
    Stage *power = node_compute(k, into, nm, x->m);
    int32_t below = op(k, power, OP_SUB, load(k, power, s), load(k, power, x->top));
    int32_t e = op(k, power, OP_EXP, below, -1);
    sink(k, power, SINK_SET, s, e);
    sink(k, power, SINK_SUM, x->z, e);
    contract(k, into, TILE_DIMS(x->n, x->v, x->m), access_plain(k, x->o), access_plain(k, s),
             access_plain(k, x->values), (Blocks){x->n, x->v, 6, 64});
}

// Interior blocks without a mask, then those on the diagonal with one.
static Kernel *streamed(Arena *arena, const Layer *l, bool dynamic) {
    Stream x = {.k = kernel_new(arena, "streamed")};
    Kernel *k = x.k;
    x.n = kernel_add_dim(k, "n", extent_of(l->n, dynamic));
    x.m = kernel_add_dim(k, "m", extent_of(l->m, dynamic));
    x.d = kernel_add_dim(k, "d", extent_of(l->d, dynamic));
    x.v = kernel_add_dim(k, "v", extent_of(l->v, dynamic));
    x.q = kernel_add_argument(k, "Q", ELEM_F32, PLACE_IN, TILE_DIMS(x.n, x.d));
    x.keys = kernel_add_argument_panel(k, "K", ELEM_F32, PLACE_IN, TILE_DIMS(x.m, x.d), x.m, 32);
    x.values = kernel_add_argument(k, "V", ELEM_F32, PLACE_IN, TILE_DIMS(x.m, x.v));
    x.y = kernel_add_argument(k, "Y", ELEM_F32, PLACE_OUT, TILE_DIMS(x.n, x.v));
    NodeList *task = tasks(k, x.n, l->rows);
    x.top = scratch_from(k, task, "top", TILE_DIMS(x.n), -INFINITY);
    x.z = scratch_from(k, task, "z", TILE_DIMS(x.n), 0);
    x.o = scratch_from(k, task, "O", TILE_DIMS(x.n, x.v), 0);
    Node *interior = node_range(k, task, x.m);
    Bound round = {.kind = BOUND_ROUND, .number = 32};
    round.args[0] = edge_of(k, interior, BOUND_LO, x.n, 1);
    interior->hi = range_bound(k, interior, round);
    stream_block(&x, loop(k, &interior->body, x.m, l->block), false);
    Node *diagonal = node_range(k, task, x.m);
    round.args[0] = edge_of(k, diagonal, BOUND_LO, x.n, 1);
    diagonal->lo = range_bound(k, diagonal, round);
    diagonal->hi = edge_of(k, diagonal, BOUND_HI, x.n, 0);
    diagonal->align = 32;
    stream_block(&x, loop(k, &diagonal->body, x.m, l->block), true);
    Stage *end = node_compute(k, task, TILE_DIMS(x.n, x.v), x.v);
    sink(k, end, SINK_SET, x.y, op(k, end, OP_DIV, load(k, end, x.o), load(k, end, x.z)));
    return k;
}

static void test_online_softmax(void **state) {
    (void)state;
    static const Layer layers[] = {{.n = 1, .m = 1, .d = 1, .v = 1, .rows = 8, .block = 32},
                                   {.n = 40, .m = 40, .d = 9, .v = 17, .rows = 8, .block = 32},
                                   {.n = 100, .m = 100, .d = 8, .v = 64, .rows = 24, .block = 64},
                                   {.n = 70, .m = 33, .d = 5, .v = 33, .rows = 64, .block = 32},
                                   {.n = 96, .m = 200, .d = 16, .v = 70, .rows = 96, .block = 64}};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (int dynamic = 0; dynamic < 2; dynamic++) {
            const Layer *l = &layers[i];
            Arena *arena = arena_new();
            int64_t extents[] = {l->n, l->m, l->d, l->v};
            cpu_compare_and(streamed(arena, l, dynamic), extents, 2e-5, expect_causal);
            arena_free(arena);
        }
}

// Y[n e v] = sum over m g of P_w[g e] softmax over m of (sum over h of P_l[g h] Q K) times V.
static void expect_talking_heads(const int64_t *x, void *const *buffers) {
    int64_t N = x[0], M = x[1], D = x[2], V = x[3], H = x[4];
    double *w = calloc((size_t)(H * M) + 1, sizeof *w);
    for (int64_t n = 0; n < N; n++) {
        for (int64_t g = 0; g < H; g++) {
            double top = -INFINITY, z = 0;
            for (int64_t m = 0; m < M; m++) {
                double logit = 0;
                for (int64_t h = 0; h < H; h++)
                    for (int64_t d = 0; d < D; d++)
                        logit += at(buffers[3], g * H + h) * at(buffers[0], (n * H + h) * D + d) *
                                 at(buffers[1], ((m / 32 * H + h) * D + d) * 32 + m % 32);
                w[g * M + m] = logit;
                top = fmax(top, logit);
            }
            for (int64_t m = 0; m < M; m++)
                z += w[g * M + m] = exp(w[g * M + m] - top);
            for (int64_t m = 0; m < M; m++)
                w[g * M + m] /= z;
        }
        for (int64_t e = 0; e < H; e++)
            for (int64_t v = 0; v < V; v++) {
                double sum = 0;
                for (int64_t m = 0; m < M; m++)
                    for (int64_t g = 0; g < H; g++)
                        sum += at(buffers[4], g * H + e) * w[g * M + m] *
                               at(buffers[2], (m * H + e) * V + v);
                close_to(at(buffers[5], (n * H + e) * V + v), sum, n, e * V + v);
            }
    }
    free(w);
}

// All heads and positions of a few rows at a time; the mixed weights take the memory of the logits.
static Kernel *resident(Arena *arena, const Layer *l, bool dynamic) {
    Kernel *k = kernel_new(arena, "resident");
    TileDimId n = kernel_add_dim(k, "n", extent_of(l->n, dynamic));
    TileDimId m = kernel_add_dim(k, "m", extent_of(l->m, dynamic));
    TileDimId d = kernel_add_dim(k, "d", extent_of(l->d, dynamic));
    TileDimId v = kernel_add_dim(k, "v", extent_of(l->v, dynamic));
    TileDimId h = kernel_add_dim(k, "h", l->h), g = kernel_add_dim(k, "g", l->h);
    TileDimId e = kernel_add_dim(k, "e", l->h);
    uint16_t q = kernel_add_argument(k, "Q", ELEM_F32, PLACE_IN, TILE_DIMS(n, h, d));
    uint16_t keys =
        kernel_add_argument_panel(k, "K", ELEM_F32, PLACE_IN, TILE_DIMS(h, m, d), m, 32);
    uint16_t values = kernel_add_argument(k, "V", ELEM_F32, PLACE_IN, TILE_DIMS(m, e, v));
    uint16_t pl = kernel_add_argument(k, "P_l", ELEM_F32, PLACE_IN, TILE_DIMS(g, h));
    uint16_t pw = kernel_add_argument(k, "P_w", ELEM_F32, PLACE_IN, TILE_DIMS(g, e));
    uint16_t y = kernel_add_argument(k, "Y", ELEM_F32, PLACE_OUT, TILE_DIMS(n, e, v));
    NodeList *task = tasks(k, n, l->rows);
    TileBuffer like = scratch_plain("J", ELEM_F32, TILE_DIMS(n, h, m));
    like.gap = 16;
    uint16_t j = node_scratch_with(k, task, like);
    contract(k, task, TILE_DIMS(h, n, m, d), access_plain(k, j), access_plain(k, q),
             access_plain(k, keys), (Blocks){n, m, 12, 32});
    like.name = "U";
    like.takes = j;
    like.dims[1] = e;
    uint16_t u = node_scratch_with(k, task, like);
    NodeList *row = loop(k, task, n, 1);
    uint16_t s = node_scratch(k, row, "L", ELEM_F32, TILE_DIMS(n, g, m));
    uint16_t top = node_scratch(k, row, "top", ELEM_F32, TILE_DIMS(n, g));
    uint16_t z = node_scratch(k, row, "z", ELEM_F32, TILE_DIMS(n, g));
    uint16_t x = node_scratch(k, row, "X", ELEM_F32, TILE_DIMS(n, g, e));
    contract(k, row, TILE_DIMS(n, g, m, h), access_plain(k, s), access_plain(k, pl),
             access_plain(k, j), (Blocks){g, m, 12, 32});
    store(k, row, TILE_DIMS(n, g, m), m, SINK_MAX, top, s);
    Stage *power = node_compute(k, row, TILE_DIMS(n, g, m), m);
    int32_t below = op(k, power, OP_SUB, load(k, power, s), load(k, power, top));
    int32_t weight = op(k, power, OP_EXP, below, -1);
    sink(k, power, SINK_SET, s, weight);
    sink(k, power, SINK_SUM, z, weight);
    Stage *mix = node_compute(k, row, TILE_DIMS(n, g, e), e);
    sink(k, mix, SINK_SET, x, op(k, mix, OP_DIV, load(k, mix, pw), load(k, mix, z)));
    contract(k, row, TILE_DIMS(n, e, m, g), access_plain(k, u), access_plain(k, x),
             access_plain(k, s), (Blocks){e, m, 12, 32});
    contract(k, task, TILE_DIMS(e, n, v, m), access_plain(k, y), access_plain(k, u),
             access_plain(k, values), (Blocks){n, v, 6, 64});
    return k;
}

static void test_talking_heads(void **state) {
    (void)state;
    static const Layer layers[] = {{.n = 1, .m = 1, .d = 1, .v = 1, .h = 1, .rows = 24},
                                   {.n = 5, .m = 33, .d = 4, .v = 9, .h = 3, .rows = 4},
                                   {.n = 26, .m = 64, .d = 8, .v = 16, .h = 12, .rows = 24},
                                   {.n = 13, .m = 100, .d = 5, .v = 70, .h = 4, .rows = 12}};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (int dynamic = 0; dynamic < 2; dynamic++) {
            const Layer *l = &layers[i];
            Arena *arena = arena_new();
            int64_t extents[] = {l->n, l->m, l->d, l->v, l->h, l->h, l->h};
            cpu_compare_and(resident(arena, l, dynamic), extents, 2e-5, expect_talking_heads);
            arena_free(arena);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_initial_values),
        cmocka_unit_test(test_sums_per_piece),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_constant_bounds),
        cmocka_unit_test(test_nested_ranges),
        cmocka_unit_test(test_loaded_bounds),
        cmocka_unit_test(test_panels_of_arguments),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_gaps_and_shared_memory),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_online_softmax),
        cmocka_unit_test(test_talking_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
