// SPDX-License-Identifier: Apache-2.0
// CPU compute stages that move data, against the tile interpreter, at both x86-64 levels:
// transposes, computed indices, panels, loads across the lanes.
#include "support.h"

#include <math.h>

#include "cpu_grid.h"

// Transposed reading and writing, a diagonal, lanes on the outer dim.
static void build_transposes(Grid *g) {
    Kernel *k = g->k;
    TileDimList nd = TILE_DIMS(g->n, g->d), dn = TILE_DIMS(g->d, g->n);
    uint16_t x = in(g, "X", ELEM_F32, nd), square = in(g, "Q", ELEM_F64, TILE_DIMS(g->d, g->d));
    uint16_t y = out(g, "Y", ELEM_F32, dn), z = out(g, "Z", ELEM_F32, dn);
    uint16_t diagonal = out(g, "D", ELEM_F64, TILE_DIMS(g->d)), i = in(g, "I", ELEM_BOOL, nd);
    (void)i;
    Stage *read = node_compute(k, &k->body, dn, g->n);
    set(g, read, y, load(g, read, x));
    Stage *write = node_compute(k, &k->body, nd, g->d);
    set(g, write, z, load(g, write, x));
    Stage *pick = node_compute(k, &k->body, TILE_DIMS(g->d), g->d);
    set(g, pick, diagonal, load(g, pick, square));
}

// shift and slice with fill, reversed order by a term, gather of rows and along lanes.
static void build_indexing(Grid *g) {
    Kernel *k = g->k;
    TileDimList nd = TILE_DIMS(g->n, g->d);
    uint16_t x = in(g, "X", ELEM_F32, nd), ids = in(g, "ids", ELEM_I32, TILE_DIMS(g->n));
    uint16_t at = in(g, "at", ELEM_I64, TILE_DIMS(g->d));
    uint16_t y = out(g, "Y", ELEM_F32, nd), z = out(g, "Z", ELEM_F32, nd),
             w = out(g, "W", ELEM_F32, nd);
    NodeList *into = &node_loop(k, &k->body, LOOP_PARALLEL, g->n, 5)->body;
    Stage *stage = node_compute(k, into, nd, g->d);
    Access shifted = access_plain(k, x);
    shifted.index[0].offset = -1;
    shifted.index[1].offset = 3;
    shifted.checked = true;
    shifted.fill = 7;
    set(g, stage, y, stage_load(k, stage, shifted));
    Access row = access_plain(k, x); // x[ids[n], d], NaN outside
    row.index[0] = (Index){TILE_DIM_NONE, 0, load(g, stage, ids)};
    row.checked = true;
    row.fill = NAN;
    set(g, stage, z, stage_load(k, stage, row));
    Access spread = access_plain(k, x); // x[n, d + 2 - at[d]], zero outside
    int32_t zero = stage_const(k, stage, 0, ELEM_I64);
    int32_t minus = stage_op(k, stage, OP_SUB, ELEM_I64, zero, load(g, stage, at), -1);
    spread.index[1] = (Index){g->d, 2, minus};
    spread.checked = true;
    set(g, stage, w, stage_load(k, stage, spread));
}

static void test_indexing(void **state) {
    (void)state;
    compare_grid(build_indexing, 0, 1);
}

// Running sums along the rows with lanes across, and along d without lanes.
static void build_cumsum(Grid *g) {
    Kernel *k = g->k;
    TileDimList nd = TILE_DIMS(g->n, g->d);
    uint16_t x = in(g, "X", ELEM_F32, nd), y = out(g, "Y", ELEM_F32, nd),
             z = out(g, "Z", ELEM_F32, nd);
    for (int i = 0; i < 2; i++) {
        Stage *stage = node_compute(k, &k->body, nd, i ? TILE_DIM_NONE : g->d);
        Access before = access_plain(k, i ? z : y);
        before.index[i].offset = -1;
        before.checked = true;
        int32_t old = stage_load(k, stage, before);
        set(g, stage, i ? z : y, stage_op(k, stage, OP_ADD, ELEM_F32, old, load(g, stage, x), -1));
    }
}

static void test_cumsum(void **state) {
    (void)state;
    compare_grid(build_cumsum, 1e-5, 1);
}

static void test_transposes(void **state) {
    (void)state;
    compare_grid(build_transposes, 0, 1);
}

// Panels along lanes whose pieces do not line up with them, read back by compute stages.
static void build_panels(Grid *g) {
    Kernel *k = g->k;
    TileDimList nd = TILE_DIMS(g->n, g->d);
    uint16_t x = in(g, "X", ELEM_F32, nd), y = out(g, "Y", ELEM_F32, nd);
    NodeList *into = &node_loop(k, &k->body, LOOP_SEQUENTIAL, g->d, 50)->body;
    uint16_t wide = node_scratch_panel(k, into, "P", ELEM_F32, nd, g->d, 32);
    uint16_t narrow = node_scratch_panel(k, into, "R", ELEM_F32, TILE_DIMS(g->d, g->n), g->d, 6);
    Stage *fill = node_compute(k, into, nd, g->d);
    set(g, fill, wide, load(g, fill, x));
    fill->pad = true;
    NodeList *pieces = &node_loop(k, into, LOOP_SEQUENTIAL, g->d, 9)->body;
    Stage *copy = node_compute(k, pieces, nd, g->d);
    set(g, copy, narrow, load(g, copy, wide));
    copy->pad = true;
    Stage *back = node_compute(k, pieces, TILE_DIMS(g->d, g->n), g->n);
    set(g, back, y, load(g, back, narrow));
}

static void test_panels(void **state) {
    (void)state;
    compare_grid(build_panels, 0, 1);
}

// Panels along lanes, narrower and wider than a vector and no multiple of one, of scratch and of
// results; several are filled side by side, and some are left.
static void build_odd_panels(Grid *g) {
    static const int widths[] = {6, 12, 14, 24, 40};
    enum { N = sizeof widths / sizeof *widths };
    Kernel *k = g->k;
    TileDimList nd = TILE_DIMS(g->n, g->d);
    uint16_t x = in(g, "X", ELEM_F32, nd), y[N], z[N];
    for (int i = 0; i < N; i++) {
        y[i] = out(g, "Y", ELEM_F32, nd);
        z[i] = kernel_add_argument_panel(k, "Z", ELEM_F32, PLACE_OUT, nd, g->d, widths[i]);
    }
    for (int i = 0; i < N; i++) {
        NodeList *into = &node_loop(k, &k->body, LOOP_SEQUENTIAL, g->d, 7 * widths[i])->body;
        uint16_t p = node_scratch_panel(k, into, "P", ELEM_F32, nd, g->d, widths[i]);
        Stage *fill = node_compute(k, into, nd, g->d);
        set(g, fill, p, load(g, fill, x));
        fill->pad = true;
        Stage *back = node_compute(k, into, nd, g->d);
        set(g, back, y[i], load(g, back, p));
        Stage *result = node_compute(k, into, nd, g->d);
        set(g, result, z[i], load(g, result, x));
        result->pad = true;
    }
}

static void test_odd_panels(void **state) {
    (void)state;
    compare_grid(build_odd_panels, 0, 2);
}

// Loads across the lanes: of all widths, in pieces, beside loads that do not cross them and a mask
// that changes within a block.
static void build_crossed(Grid *g) {
    static const Elem elems[] = {ELEM_F32, ELEM_F16, ELEM_BF16, ELEM_I32};
    enum { N = sizeof elems / sizeof *elems };
    Kernel *k = g->k;
    TileDimList nd = TILE_DIMS(g->n, g->d), dn = TILE_DIMS(g->d, g->n);
    uint16_t row = in(g, "R", ELEM_F32, TILE_DIMS(g->n)), x[N], y[N];
    uint16_t own = in(g, "O", ELEM_F32, dn), col = in(g, "C", ELEM_F32, TILE_DIMS(g->d));
    for (int i = 0; i < N; i++)
        x[i] = in(g, "X", elems[i], nd);
    for (int i = 0; i < N; i++)
        y[i] = out(g, "Y", ELEM_F32, dn);
    NodeList *into = &node_loop(k, &k->body, LOOP_PARALLEL, g->d, 50)->body;
    into = &node_loop(k, into, LOOP_SEQUENTIAL, g->n, 70)->body;
    for (int i = 0; i < N; i++) {
        Stage *stage = node_compute(k, into, dn, g->n);
        int32_t value = load(g, stage, x[i]);
        assert_true(stage_crosses(k, stage, &stage->terms.at[value].load));
        value = stage_op(k, stage, OP_CAST, ELEM_F32, value, -1, -1);
        value = stage_op(k, stage, OP_MUL, ELEM_F32, value, load(g, stage, row), -1);
        value = stage_op(k, stage, OP_ADD, ELEM_F32, value, load(g, stage, col), -1);
        int32_t causal = stage_op(k, stage, OP_LE, ELEM_BOOL, stage_index(k, stage, g->n),
                                  stage_index(k, stage, g->d), -1);
        value = stage_op(k, stage, OP_SELECT, ELEM_F32, causal, value, load(g, stage, own));
        set(g, stage, y[i], value);
    }
}

// Extents of whole blocks, of less than one and of several vectors at a time.
static void compare_crossed(Build build) {
    static const int64_t pairs[][2] = {{16, 64}, {64, 16}, {80, 144}, {130, 200},
                                       {15, 17}, {1, 8},   {200, 9},  {128, 48}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int dynamic = 0; dynamic < 2; dynamic++) {
            Grid grid = {.arena = arena_new(), .extents = {pairs[i][0], pairs[i][1]}};
            grid.k = kernel_new(grid.arena, "grid");
            grid.n = kernel_add_dim(grid.k, "n", extent_of(pairs[i][0], dynamic));
            grid.d = kernel_add_dim(grid.k, "d", extent_of(pairs[i][1], dynamic));
            build(&grid);
            cpu_compare(grid.k, grid.extents, 0);
            arena_free(grid.arena);
        }
}

// Two of them and a load along the lanes in one stage that is not cut.
static void build_crossed_pair(Grid *g) {
    Kernel *k = g->k;
    TileDimList nd = TILE_DIMS(g->n, g->d), dn = TILE_DIMS(g->d, g->n);
    uint16_t x = in(g, "X", ELEM_F32, nd), z = in(g, "Z", ELEM_F32, nd);
    uint16_t own = in(g, "O", ELEM_F32, dn);
    uint16_t y = out(g, "Y", ELEM_F32, dn), s = out(g, "S", ELEM_F32, dn);
    Stage *stage = node_compute(k, &k->body, dn, g->n);
    int32_t both = stage_op(k, stage, OP_SUB, ELEM_F32, load(g, stage, x), load(g, stage, z), -1);
    set(g, stage, y, both);
    set(g, stage, s, stage_op(k, stage, OP_MUL, ELEM_F32, both, load(g, stage, own), -1));
}

static void test_crossed(void **state) {
    (void)state;
    compare_crossed(build_crossed);
    compare_crossed(build_crossed_pair);
    compare_crossed(build_transposes);
}

// Panels that are filled across the lanes, with zeros behind their end.
static void build_crossed_panels(Grid *g) {
    static const int widths[] = {6, 24, 32, 40};
    enum { N = sizeof widths / sizeof *widths };
    Kernel *k = g->k;
    TileDimList nd = TILE_DIMS(g->n, g->d), dn = TILE_DIMS(g->d, g->n);
    uint16_t x = in(g, "X", ELEM_F32, nd), y[N];
    for (int i = 0; i < N; i++)
        y[i] = kernel_add_argument_panel(k, "Y", ELEM_F32, PLACE_OUT, dn, g->n, widths[i]);
    for (int i = 0; i < N; i++) {
        NodeList *into = &node_loop(k, &k->body, LOOP_SEQUENTIAL, g->n, 2 * widths[i])->body;
        into = &node_loop(k, into, LOOP_SEQUENTIAL, g->d, 50)->body;
        Stage *fill = node_compute(k, into, dn, g->n);
        set(g, fill, y[i], load(g, fill, x));
        fill->pad = true;
    }
}

static void test_crossed_panels(void **state) {
    (void)state;
    compare_crossed(build_crossed_panels);
}

// What stays as it was: sums, what is read again, other elements, lanes that are not innermost.
static void test_what_crosses(void **state) {
    (void)state;
    Grid g = {.arena = arena_new()};
    g.k = kernel_new(g.arena, "grid");
    g.n = kernel_add_dim(g.k, "n", 40);
    g.d = kernel_add_dim(g.k, "d", 50);
    TileDimList nd = TILE_DIMS(g.n, g.d), dn = TILE_DIMS(g.d, g.n);
    uint16_t x = in(&g, "X", ELEM_F32, nd), wide = in(&g, "W", ELEM_F64, nd);
    uint16_t y = out(&g, "Y", ELEM_F32, dn), sum = out(&g, "S", ELEM_F32, TILE_DIMS(g.n));
    Access across = access_plain(g.k, x);

    Stage *stage = node_compute(g.k, &g.k->body, dn, g.n);
    set(&g, stage, y, load(&g, stage, x));
    assert_true(stage_crosses(g.k, stage, &across));
    Access other = access_plain(g.k, wide), own = access_plain(g.k, y), shifted = across;
    assert_false(stage_crosses(g.k, stage, &other));
    assert_false(stage_crosses(g.k, stage, &own)); // along the lanes
    shifted.checked = true;
    assert_false(stage_crosses(g.k, stage, &shifted));

    Stage *sums = node_compute(g.k, &g.k->body, dn, g.n);
    stage_sink(g.k, sums, SINK_SUM, access_plain(g.k, sum), load(&g, sums, x));
    assert_false(stage_crosses(g.k, sums, &across));

    Stage *again = node_compute(g.k, &g.k->body, dn, g.n);
    int32_t old = load(&g, again, y);
    set(&g, again, y, stage_op(g.k, again, OP_ADD, ELEM_F32, old, load(&g, again, x), -1));
    assert_false(stage_crosses(g.k, again, &across));

    Stage *outside = node_compute(g.k, &g.k->body, nd, g.n);
    set(&g, outside, y, load(&g, outside, x));
    assert_false(stage_crosses(g.k, outside, &across));
    arena_free(g.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_indexing),       cmocka_unit_test(test_cumsum),
        cmocka_unit_test(test_transposes),     cmocka_unit_test(test_panels),
        cmocka_unit_test(test_odd_panels),     cmocka_unit_test(test_crossed),
        cmocka_unit_test(test_crossed_panels), cmocka_unit_test(test_what_crosses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
