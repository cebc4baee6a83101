// SPDX-License-Identifier: Apache-2.0
// CPU compute stages against the tile interpreter, at both x86-64 levels: pointwise ops and
// reductions.
#include "support.h"

#include <math.h>

#include "cpu_grid.h"

// ---- pointwise ----

// Every op of one or two floats that needs no vector math, each with an output of its own.
static void build_float_ops(Grid *g) {
    static const Op ops[] = {OP_NEG, OP_ABS,      OP_FLOOR, OP_ADD, OP_SUB, OP_MUL,
                             OP_DIV, OP_FLOORDIV, OP_MOD,   OP_MIN, OP_MAX, OP_COPY};
    enum { N = sizeof ops / sizeof *ops };
    TileDimList nd = TILE_DIMS(g->n, g->d);
    uint16_t x = in(g, "X", ELEM_F32, nd), y = in(g, "Y", ELEM_F32, TILE_DIMS(g->d)), to[N];
    for (int i = 0; i < N; i++)
        to[i] = out(g, op_name(ops[i]), ELEM_F32, nd);
    NodeList *into = &node_loop(g->k, &g->k->body, LOOP_PARALLEL, g->n, 2)->body;
    Stage *stage = node_compute(g->k, into, nd, g->d);
    int32_t a = load(g, stage, x), b = load(g, stage, y);
    for (int i = 0; i < N; i++) {
        int32_t second = op_arity(ops[i]) == 2 ? b : -1;
        set(g, stage, to[i], stage_op(g->k, stage, ops[i], ELEM_F32, a, second, -1));
    }
}

static void test_float_ops(void **state) {
    (void)state;
    compare_grid(build_float_ops, 1e-5, 3);
}

static void build_int_ops(Grid *g) {
    static const Op ops[] = {OP_NEG,      OP_ABS, OP_ADD, OP_SUB, OP_MUL,
                             OP_FLOORDIV, OP_MOD, OP_MIN, OP_MAX};
    enum { N = sizeof ops / sizeof *ops };
    TileDimList nd = TILE_DIMS(g->n, g->d);
    for (int wide = 0; wide < 2; wide++) {
        Elem elem = wide ? ELEM_I64 : ELEM_I32;
        in(g, "X", elem, nd);
        in(g, "Y", elem, TILE_DIMS(g->d));
        for (int i = 0; i < N; i++)
            out(g, op_name(ops[i]), elem, nd);
    }
    for (int wide = 0; wide < 2; wide++) {
        Elem elem = wide ? ELEM_I64 : ELEM_I32;
        uint16_t first = (uint16_t)(wide * (N + 2));
        Stage *stage = node_compute(g->k, &g->k->body, nd, g->d);
        // Values from -3 to 3, so that both signs and division by zero occur.
        int32_t three = stage_const(g->k, stage, 2, elem), a = load(g, stage, first);
        a = stage_op(g->k, stage, OP_SUB, elem, a, three, -1);
        int32_t b = load(g, stage, (uint16_t)(first + 1));
        b = stage_op(g->k, stage, OP_SUB, elem, b, three, -1);
        a = stage_op(g->k, stage, OP_MUL, elem, a, three, -1);
        for (int i = 0; i < N; i++) {
            int32_t second = op_arity(ops[i]) == 2 ? b : -1;
            int32_t r = stage_op(g->k, stage, ops[i], elem, a, second, -1);
            set(g, stage, (uint16_t)(first + 2 + i), r);
        }
    }
}

static void test_int_ops(void **state) {
    (void)state;
    compare_grid(build_int_ops, 0, 4);
}

// A causal mask with a bias per row, and the booleans stored as they are.
static void build_mask(Grid *g) {
    TileDimList nd = TILE_DIMS(g->n, g->d);
    uint16_t x = in(g, "X", ELEM_F32, nd), keep = in(g, "keep", ELEM_BOOL, TILE_DIMS(g->d));
    uint16_t y = out(g, "Y", ELEM_F32, nd), b = out(g, "B", ELEM_BOOL, nd);
    NodeList *into = &node_loop(g->k, &g->k->body, LOOP_PARALLEL, g->n, 3)->body;
    into = &node_loop(g->k, into, LOOP_SEQUENTIAL, g->d, 20)->body;
    Stage *stage = node_compute(g->k, into, nd, g->d);
    int32_t i = stage_index(g->k, stage, g->n), j = stage_index(g->k, stage, g->d);
    int32_t causal = stage_op(g->k, stage, OP_LE, ELEM_BOOL, j, i, -1);
    int32_t kept = load(g, stage, keep);
    int32_t both = stage_op(g->k, stage, OP_AND, ELEM_BOOL, causal, kept, -1);
    int32_t odd = stage_op(g->k, stage, OP_NE, ELEM_BOOL, i, j, -1);
    int32_t low = stage_const(g->k, stage, -INFINITY, ELEM_F32);
    int32_t last = stage_extent(g->k, stage, g->d);
    int32_t scale = stage_op(g->k, stage, OP_CAST, ELEM_F32, last, -1, -1);
    int32_t value = stage_op(g->k, stage, OP_MUL, ELEM_F32, load(g, stage, x), scale, -1);
    set(g, stage, y, stage_op(g->k, stage, OP_SELECT, ELEM_F32, both, value, low));
    int32_t either = stage_op(g->k, stage, OP_OR, ELEM_BOOL, both, odd, -1);
    set(g, stage, b, stage_op(g->k, stage, OP_NOT, ELEM_BOOL, either, -1, -1));
}

static void test_masks(void **state) {
    (void)state;
    compare_grid(build_mask, 1e-6, 1);
}

// Masks along the lanes: conditions that settle whole vectors and ones that do not, each in a
// select of either order and in a sum. Positions, a limit per row, an offset that may be anything.
static void build_settled_masks(Grid *g) {
    Kernel *k = g->k;
    TileDimList nd = TILE_DIMS(g->n, g->d), n = TILE_DIMS(g->n);
    uint16_t x = in(g, "X", ELEM_F32, nd), limit = in(g, "limit", ELEM_I64, n);
    enum { N_CONDITIONS = 9 };
    uint16_t to[N_CONDITIONS], sum[N_CONDITIONS];
    for (int i = 0; i < N_CONDITIONS; i++) {
        to[i] = out(g, "Y", ELEM_F32, nd);
        sum[i] = out(g, "Z", ELEM_F32, n);
    }
    NodeList *into = &node_loop(k, &k->body, LOOP_PARALLEL, g->n, 1)->body;
    for (int i = 0; i < N_CONDITIONS; i++) {
        Stage *s = node_compute(k, into, nd, g->d);
        int32_t at = stage_index(k, s, g->d), row = stage_index(k, s, g->n), value = load(g, s, x);
        int32_t seven =
            stage_op(k, s, OP_MUL, ELEM_I64, load(g, s, limit), stage_const(k, s, 7, ELEM_I64), -1);
        int32_t narrow = stage_op(k, s, OP_CAST, ELEM_I32, at, -1, -1);
        int32_t behind = stage_op(k, s, OP_SUB, ELEM_I64, row, at, -1);
        int32_t causal = stage_op(k, s, OP_LE, ELEM_BOOL, at, row, -1);
        int32_t until = stage_op(k, s, OP_LT, ELEM_BOOL, at, seven, -1);
        int32_t window =
            stage_op(k, s, OP_LT, ELEM_BOOL, behind, stage_const(k, s, 5, ELEM_I64), -1);
        int32_t from =
            stage_op(k, s, OP_LE, ELEM_BOOL, stage_const(k, s, 17, ELEM_I32), narrow, -1);
        int32_t conditions[N_CONDITIONS] = {
            causal,
            until,
            window,
            from,
            stage_op(k, s, OP_AND, ELEM_BOOL, causal, window, -1),
            stage_op(k, s, OP_OR, ELEM_BOOL, causal, until, -1),
            stage_op(k, s, OP_NOT, ELEM_BOOL, causal, -1, -1),
            stage_op(k, s, OP_LT, ELEM_BOOL, value, stage_const(k, s, 0, ELEM_F32), -1),
            stage_op(k, s, OP_EQ, ELEM_BOOL, at, row, -1),
        };
        int32_t other = stage_const(k, s, -2, ELEM_F32);
        bool swapped = i % 2;
        int32_t chosen = stage_op(k, s, OP_SELECT, ELEM_F32, conditions[i], swapped ? other : value,
                                  swapped ? value : other);
        set(g, s, to[i], chosen);
        stage_sink(k, s, SINK_SUM, access_plain(k, sum[i]), chosen);
    }
}

static void test_settled_masks(void **state) {
    (void)state;
    compare_grid(build_settled_masks, 1e-5, 1);
}

// Every elem to every other.
static void build_casts(Grid *g) {
    for (int from = 0; from < N_ELEM; from++) {
        in(g, elem_name((Elem)from), (Elem)from, TILE_DIMS(g->d));
        for (int to = 0; to < N_ELEM; to++)
            out(g, elem_name((Elem)to), (Elem)to, TILE_DIMS(g->d));
    }
    for (int from = 0; from < N_ELEM; from++) {
        uint16_t first = (uint16_t)(from * (N_ELEM + 1));
        Stage *stage = node_compute(g->k, &g->k->body, TILE_DIMS(g->d), g->d);
        int32_t a = load(g, stage, first);
        if (elem_is_float((Elem)from)) { // beyond -1 .. 1, or the integers would all be 0
            int32_t big = stage_const(g->k, stage, 1000, (Elem)from);
            a = stage_op(g->k, stage, OP_MUL, (Elem)from, a, big, -1);
        }
        for (int to = 0; to < N_ELEM; to++) {
            int32_t cast = stage_op(g->k, stage, OP_CAST, (Elem)to, a, -1, -1);
            set(g, stage, (uint16_t)(first + 1 + to), cast);
        }
    }
}

static void test_casts(void **state) {
    (void)state;
    compare_grid(build_casts, 1e-6, 6);
}

// ---- reductions ----

// All modes over the lanes, over the rows and over both, in one piece and in pieces of pieces.
static void build_reductions(Grid *g) {
    static const SinkMode modes[] = {SINK_SUM, SINK_PROD, SINK_MAX, SINK_MIN};
    TileDimList nd = TILE_DIMS(g->n, g->d);
    uint16_t x = in(g, "X", ELEM_F32, nd);
    uint16_t to[4][3];
    for (int i = 0; i < 4; i++) {
        to[i][0] = out(g, "over_d", ELEM_F32, TILE_DIMS(g->n));
        to[i][1] = out(g, "over_n", ELEM_F32, TILE_DIMS(g->d));
        to[i][2] = out(g, "over_both", ELEM_F32, TILE_DIMS());
    }
    for (int i = 0; i < 4; i++) {
        NodeList *into = &g->k->body;
        if (i & 1) {
            into = &node_loop(g->k, into, LOOP_SEQUENTIAL, g->d, 40)->body;
            into = &node_loop(g->k, into, LOOP_SEQUENTIAL, g->d, 24)->body;
            into = &node_loop(g->k, into, LOOP_SEQUENTIAL, g->n, 4)->body;
        }
        for (int j = 0; j < 3; j++) {
            TileDimList order = j == 1 ? TILE_DIMS(g->d, g->n) : nd;
            Stage *stage = node_compute(g->k, into, order, g->d);
            stage_sink(g->k, stage, modes[i], access_plain(g->k, to[i][j]), load(g, stage, x));
        }
    }
}

static void test_reductions(void **state) {
    (void)state;
    compare_grid(build_reductions, 2e-5, 2);
}

// NaN in every row and column, and rows of nothing else: MAX gives NaN for them, TOP does not.
static void build_reductions_of_nan(Grid *g) {
    static const SinkMode modes[] = {SINK_TOP, SINK_MAX};
    TileDimList nd = TILE_DIMS(g->n, g->d);
    uint16_t x = in(g, "X", ELEM_F32, nd), y = in(g, "Y", ELEM_F64, nd), to[2][4];
    for (int i = 0; i < 2; i++) {
        to[i][0] = out(g, "over_d", ELEM_F32, TILE_DIMS(g->n));
        to[i][1] = out(g, "over_n", ELEM_F32, TILE_DIMS(g->d));
        to[i][2] = out(g, "over_n_outside", ELEM_F32, TILE_DIMS(g->d));
        to[i][3] = out(g, "doubles", ELEM_F64, TILE_DIMS(g->n));
    }
    for (int i = 0; i < 2; i++) {
        NodeList *into = &node_loop(g->k, &g->k->body, LOOP_SEQUENTIAL, g->d, 40)->body;
        for (int j = 0; j < 4; j++) {
            Elem elem = j == 3 ? ELEM_F64 : ELEM_F32;
            Stage *stage = node_compute(g->k, into, j == 1 ? TILE_DIMS(g->d, g->n) : nd, g->d);
            int32_t value = load(g, stage, j == 3 ? y : x);
            int32_t limit = stage_const(g->k, stage, -0.9, elem);
            int32_t small = stage_op(g->k, stage, OP_LT, ELEM_BOOL, value, limit, -1);
            int32_t row = stage_index(g->k, stage, g->n),
                    two = stage_const(g->k, stage, 2, ELEM_I64);
            int32_t second = stage_op(g->k, stage, OP_EQ, ELEM_BOOL, row, two, -1);
            int32_t none = stage_op(g->k, stage, OP_OR, ELEM_BOOL, small, second, -1);
            int32_t nan = stage_const(g->k, stage, NAN, elem);
            value = stage_op(g->k, stage, OP_SELECT, elem, none, nan, value);
            stage_sink(g->k, stage, modes[i], access_plain(g->k, to[i][j]), value);
        }
    }
}

static void test_reductions_of_nan(void **state) {
    (void)state;
    compare_grid(build_reductions_of_nan, 0, 2);
}

// Sums over rows kept through memory: the reduced dim is the outer one. Also of integers and
// booleans.
static void build_outer_reductions(Grid *g) {
    TileDimList nd = TILE_DIMS(g->n, g->d);
    uint16_t x = in(g, "X", ELEM_F32, nd), i = in(g, "I", ELEM_I32, nd),
             b = in(g, "B", ELEM_BOOL, nd);
    uint16_t s = out(g, "S", ELEM_F32, TILE_DIMS(g->d)),
             most = out(g, "most", ELEM_I32, TILE_DIMS(g->n));
    uint16_t any = out(g, "any", ELEM_BOOL, TILE_DIMS(g->d)),
             all = out(g, "all", ELEM_BOOL, TILE_DIMS(g->n));
    uint16_t count = out(g, "count", ELEM_F32, TILE_DIMS(g->n));
    Stage *stage = node_compute(g->k, &g->k->body, nd, g->d);
    stage_sink(g->k, stage, SINK_SUM, access_plain(g->k, s), load(g, stage, x));
    stage_sink(g->k, stage, SINK_MAX, access_plain(g->k, most), load(g, stage, i));
    stage_sink(g->k, stage, SINK_MAX, access_plain(g->k, any), load(g, stage, b));
    stage_sink(g->k, stage, SINK_MIN, access_plain(g->k, all), load(g, stage, b));
    int32_t one = stage_const(g->k, stage, 1, ELEM_F32);
    stage_sink(g->k, stage, SINK_SUM, access_plain(g->k, count), one);
}

static void test_outer_reductions(void **state) {
    (void)state;
    compare_grid(build_outer_reductions, 2e-5, 2);
}

// softmax over d of each row, a row at a time, in scratch.
static void build_softmax(Grid *g) {
    Kernel *k = g->k;
    TileDimList nd = TILE_DIMS(g->n, g->d), rows = TILE_DIMS(g->n);
    uint16_t x = in(g, "X", ELEM_F32, nd), y = out(g, "Y", ELEM_F32, nd);
    NodeList *task = &node_loop(k, &k->body, LOOP_PARALLEL, g->n, 4)->body;
    NodeList *row = &node_loop(k, task, LOOP_SEQUENTIAL, g->n, 1)->body;
    uint16_t most = node_scratch(k, row, "most", ELEM_F32, rows);
    uint16_t sum = node_scratch(k, row, "sum", ELEM_F32, rows);
    uint16_t e = node_scratch(k, row, "E", ELEM_F32, nd);
    Stage *first = node_compute(k, row, nd, g->d);
    stage_sink(k, first, SINK_TOP, access_plain(k, most), load(g, first, x));
    Stage *second = node_compute(k, row, nd, g->d);
    int32_t less =
        stage_op(k, second, OP_SUB, ELEM_F32, load(g, second, x), load(g, second, most), -1);
    int32_t power = stage_op(k, second, OP_EXP, ELEM_F32, less, -1, -1);
    set(g, second, e, power);
    stage_sink(k, second, SINK_SUM, access_plain(k, sum), power);
    Stage *third = node_compute(k, row, nd, g->d);
    int32_t one = stage_const(k, third, 1, ELEM_F32);
    int32_t inverse = stage_op(k, third, OP_DIV, ELEM_F32, one, load(g, third, sum), -1);
    set(g, third, y, stage_op(k, third, OP_MUL, ELEM_F32, load(g, third, e), inverse, -1));
}

static void test_softmax(void **state) {
    (void)state;
    compare_grid(build_softmax, 1e-6, 1);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float_ops),
        cmocka_unit_test(test_int_ops),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_settled_masks),
        cmocka_unit_test(test_casts),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_reductions_of_nan),
        cmocka_unit_test(test_outer_reductions),
        cmocka_unit_test(test_softmax),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
