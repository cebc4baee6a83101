// SPDX-License-Identifier: Apache-2.0
// The oracle: every op against numbers worked out by hand; moves are in eval_moves_test.c.
#include "support.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "eval_fixture.h"

// ---- leaves ------------------------------------------------------------------------------------

static void test_leaves(void **state) {
    World *world = world_new(state);
    DimId n = world_dim(world, "n", 3), dynamic = world_dim(world, "m", EXTENT_DYNAMIC);
    Value *x = world_input(world, "X", ELEM_F32, DIMS(n), NUMBERS(1.5, -2, 4));
    expect(world, x, 1.5, -2, 4);
    expect(world, graph_const(world->graph, 0.1, ELEM_F32), 0.1);
    expect(world, graph_index(world->graph, n), 0, 1, 2);
    expect(world, graph_extent(world->graph, dynamic), 3);
    expect(world, graph_extent(world->graph, n), 3);
    world_free(world);
}

static void test_output_order(void **state) {
    World *world = world_new(state);
    DimId n = world_dim(world, "n", 2), d = world_dim(world, "d", 3);
    Value *x = world_input(world, "X", ELEM_F32, DIMS(n, d), NUMBERS(1, 2, 3, 4, 5, 6));
    Value *y = graph_map1(world->graph, OP_NEG, x);
    graph_output(world->graph, world_name(world, "Y"), y, DIMS(d, n));
    graph_output(world->graph, world_name(world, "X"), x, DIMS(n, d));
    EvalRun run = {.extents = (int64_t[]){2, 3}, .inputs = world->inputs};
    graph_eval(world->graph, EVAL_F64, &run, world->session->arena);
    const double transposed[] = {-1, -4, -2, -5, -3, -6};
    for (int i = 0; i < 6; i++) {
        world_expect_number(run.outputs[0][i], transposed[i]);
        world_expect_number(run.outputs[1][i], i + 1);
    }
    world_free(world);
}

// ---- map ---------------------------------------------------------------------------------------

typedef struct {
    Op op;
    double args[3];
    double want;
} MapCase;

static const MapCase float_cases[] = {
    {OP_COPY, {2.5}, 2.5},
    {OP_STOP_GRADIENT, {2.5}, 2.5},
    {OP_NEG, {2.5}, -2.5},
    {OP_ABS, {-2.5}, 2.5},
    {OP_EXP, {1}, 2.718281828459045},
    {OP_EXP, {-INFINITY}, 0},
    {OP_EXP2, {-1.5}, 0.35355339059327379},
    {OP_EXP2, {1024}, INFINITY},
    {OP_LOG, {0.5}, -0.6931471805599453},
    {OP_LOG, {0}, -INFINITY},
    {OP_SQRT, {2}, 1.4142135623730951},
    {OP_RSQRT, {16}, 0.25},
    {OP_TANH, {0.5}, 0.46211715726000979},
    {OP_SIGMOID, {1}, 0.73105857863000490},
    {OP_SIGMOID, {-1000}, 0},
    {OP_ERF, {0.5}, 0.52049987781304652},
    {OP_SIN, {1}, 0.8414709848078965},
    {OP_COS, {1}, 0.54030230586813977},
    {OP_FLOOR, {-1.5}, -2},
    {OP_ADD, {1.5, 2}, 3.5},
    {OP_SUB, {1.5, 2}, -0.5},
    {OP_MUL, {1.5, -2}, -3},
    {OP_DIV, {1, -4}, -0.25},
    {OP_DIV, {1, 0}, INFINITY},
    {OP_FLOORDIV, {-7, 2}, -4},
    {OP_FLOORDIV, {7.5, 2}, 3},
    {OP_MOD, {-7, 3}, 2},
    {OP_MOD, {7.5, -2}, -0.5},
    {OP_POW, {2, 0.5}, 1.4142135623730951},
    {OP_POW, {2, -1}, 0.5},
    {OP_MIN, {1, -2}, -2},
    {OP_MAX, {1, -2}, 1},
    {OP_MAX, {1, NAN}, NAN},
    {OP_EQ, {1, 1}, 1},
    {OP_EQ, {1, 2}, 0},
    {OP_NE, {1, 2}, 1},
    {OP_NE, {2, 2}, 0},
    {OP_LT, {1, 2}, 1},
    {OP_LT, {2, 2}, 0},
    {OP_LE, {2, 2}, 1},
    {OP_LE, {3, 2}, 0},
};

static const MapCase int_cases[] = {
    {OP_ADD, {2147483647, 1}, -2147483648.0}, // wraps
    {OP_MUL, {65536, 65536}, 0},
    {OP_NEG, {7}, -7},
    {OP_ABS, {-7}, 7},
    {OP_FLOORDIV, {-7, 2}, -4},
    {OP_FLOORDIV, {7, -2}, -4},
    {OP_FLOORDIV, {-6, 2}, -3},
    {OP_FLOORDIV, {7, 0}, 0},
    {OP_MOD, {-7, 3}, 2},
    {OP_MOD, {7, -3}, -2},
    {OP_MOD, {7, 0}, 7},
    {OP_MIN, {3, -1}, -1},
    {OP_MAX, {3, -1}, 3},
    {OP_LT, {-1, 3}, 1},
};

static const MapCase bool_cases[] = {
    {OP_NOT, {1}, 0},   {OP_NOT, {0}, 1},   {OP_AND, {1, 1}, 1}, {OP_AND, {1, 0}, 0},
    {OP_OR, {0, 1}, 1}, {OP_OR, {0, 0}, 0}, {OP_EQ, {1, 0}, 0},  {OP_NE, {1, 0}, 1},
};

// The first block of key 0 (kat_vectors of Random123).
static const MapCase random_cases[] = {
    {OP_RANDOM, {0, 0, 0}, 0x6627E8p-24},
    {OP_RANDOM, {0, 0, 1}, 0xE169C5p-24},
    {OP_RANDOM, {0, 0, 2}, 0xBC57ACp-24},
    {OP_RANDOM, {0, 0, 3}, 0x9B00DBp-24},
};

static void check_map(void **state, const MapCase *map, Elem elem) {
    World *world = world_new(state);
    static const char *const names[] = {"A", "B", "C"};
    Value *args[3];
    double numbers[3];
    int n = op_arity(map->op);
    for (int i = 0; i < n; i++) {
        numbers[i] = map->args[i];
        args[i] = world_input(world, names[i], elem, (DimList){0}, &numbers[i]);
    }
    Value *value = n == 1   ? graph_map1(world->graph, map->op, args[0])
                   : n == 2 ? graph_map2(world->graph, map->op, args[0], args[1])
                            : graph_map(world->graph, map->op, ELEM_F32, args, 3);
    const double *have = world_evaluate(world, value, EVAL_F64);
    double bound = isinf(map->want) ? 0 : 1e-15 * fabs(map->want);
    bool alike = have[0] == map->want || (isnan(have[0]) && isnan(map->want)) ||
                 fabs(have[0] - map->want) <= bound;
    if (!alike)
        fail_msg("%s(%g, %g) gave %.17g, expected %.17g", op_name(map->op), map->args[0],
                 map->args[1], have[0], map->want);
    world_free(world);
}

#define check_maps(cases, elem)                                                                    \
    for (size_t i = 0; i < sizeof(cases) / sizeof *(cases); i++)                                   \
    check_map(state, &(cases)[i], elem)

static void test_maps(void **state) {
    check_maps(float_cases, ELEM_F32);
    check_maps(int_cases, ELEM_I32);
    check_maps(bool_cases, ELEM_BOOL);
    check_maps(random_cases, ELEM_I64);
}

static void test_map_broadcasts_by_name(void **state) {
    World *world = world_new(state);
    DimId n = world_dim(world, "n", 2), m = world_dim(world, "m", 3);
    Value *a = world_input(world, "A", ELEM_F32, DIMS(n), NUMBERS(10, 20));
    Value *b = world_input(world, "B", ELEM_F32, DIMS(m, n), NUMBERS(1, 2, 3, 4, 5, 6));
    Value *sum = graph_map2(world->graph, OP_ADD, a, b); // over [n, m]
    expect(world, sum, 11, 13, 15, 22, 24, 26);
    Value *mask = graph_map2(world->graph, OP_LT, graph_index(world->graph, m),
                             graph_const(world->graph, 1, ELEM_I64));
    Value *where = graph_map(world->graph, OP_SELECT, ELEM_F32, (Value *[]){mask, b, a}, 3);
    expect(world, where, 1, 2, 10, 20, 10, 20); // over [m, n]
    world_free(world);
}

typedef struct {
    Elem from, to;
    double number, want;
} CastCase;

static const CastCase casts[] = {
    {ELEM_F32, ELEM_I32, 2.9, 2},
    {ELEM_F32, ELEM_I32, -2.9, -2},
    {ELEM_F32, ELEM_I32, 1e20, 2147483647},
    {ELEM_F32, ELEM_I32, -INFINITY, -2147483648.0},
    {ELEM_F32, ELEM_I32, NAN, 0},
    {ELEM_F32, ELEM_I64, 1e30, 0x1p63},
    {ELEM_F32, ELEM_BOOL, 0.5, 1},
    {ELEM_F32, ELEM_BOOL, 0, 0},
    {ELEM_BOOL, ELEM_F32, 1, 1},
    {ELEM_I32, ELEM_F32, -5, -5},
    {ELEM_I32, ELEM_I64, -5, -5},
    {ELEM_I64, ELEM_I32, 4294967299, 3},          // wraps
    {ELEM_F64, ELEM_I32, 4294967299, 2147483647}, // saturates
    {ELEM_F64, ELEM_F16, 0.1, 0.1},               // exact numbers in EVAL_F64
};

static void test_casts(void **state) {
    for (size_t i = 0; i < sizeof casts / sizeof *casts; i++) {
        World *world = world_new(state);
        Value *x = world_input(world, "X", casts[i].from, (DimList){0}, NUMBERS(casts[i].number));
        expect(world, graph_cast(world->graph, x, casts[i].to), casts[i].want);
        world_free(world);
    }
}

// ---- rounding ----------------------------------------------------------------------------------

static const CastCase roundings[] = {
    {ELEM_F64, ELEM_F32, 0.1, (double)0.1F},
    {ELEM_F64, ELEM_F32, 1e39, INFINITY},
    {ELEM_F64, ELEM_F16, 0.1, 0.0999755859375},
    {ELEM_F64, ELEM_F16, 2049, 2048}, // a tie goes to even
    {ELEM_F64, ELEM_F16, 2051, 2052},
    {ELEM_F64, ELEM_F16, 65504, 65504},
    {ELEM_F64, ELEM_F16, 65519, 65504},
    {ELEM_F64, ELEM_F16, 65520, INFINITY},
    {ELEM_F64, ELEM_F16, 0x1p-24, 0x1p-24}, // the smallest denormal
    {ELEM_F64, ELEM_F16, 0x1p-25, 0},
    {ELEM_F64, ELEM_F16, -0x1.8p-25, -0x1p-24},
    {ELEM_F64, ELEM_BF16, 0.1, 0.10009765625},
    {ELEM_F64, ELEM_BF16, 257, 256},
    {ELEM_F64, ELEM_BF16, 0x1.fep127, 0x1.fep127},
    {ELEM_F64, ELEM_BF16, 0x1.ffp127, INFINITY},
    {ELEM_F64, ELEM_BF16, 0x1p-133, 0x1p-133},
    {ELEM_F64, ELEM_BF16, NAN, NAN},
};

static void test_f32_mode_rounds_each_op(void **state) {
    for (size_t i = 0; i < sizeof roundings / sizeof *roundings; i++) {
        World *world = world_new(state);
        Value *x = world_input(world, "X", ELEM_F64, (DimList){0}, NUMBERS(roundings[i].number));
        expect_f32(world, graph_cast(world->graph, x, roundings[i].to), roundings[i].want);
        world_free(world);
    }
    World *world = world_new(state);
    DimId n = world_dim(world, "n", 3);
    Value *x = world_input(world, "X", ELEM_F32, DIMS(n), NUMBERS(16777216, 1, 1));
    Value *one = world_input(world, "W", ELEM_F32, DIMS(n), NUMBERS(1, 1, 1));
    Value *sum = graph_reduce(world->graph, OP_SUM, x, (DimList){0});
    Value *dot = graph_einsum(world->graph, 1, (Value *[]){x, one}, 2, (DimList){0});
    expect(world, sum, 16777218);
    expect_f32(world, sum, 16777216); // each 1 is lost
    expect(world, dot, 16777218);
    expect_f32(world, dot, 16777216);
    world_expect(world, sum, EVAL_F32_BACKWARD, NUMBERS(16777218), 1); // the ones come first
    world_expect(world, dot, EVAL_F32_BACKWARD, NUMBERS(16777218), 1);
    world_free(world);
}

// ---- reduce ------------------------------------------------------------------------------------

static void test_reductions(void **state) {
    World *world = world_new(state);
    DimId n = world_dim(world, "n", 2), m = world_dim(world, "m", 3);
    Value *x = world_input(world, "X", ELEM_F32, DIMS(n, m), NUMBERS(1, 2, -3, 4, 0.5, 6));
    Graph *graph = world->graph;
    expect(world, graph_reduce(graph, OP_SUM, x, DIMS(n)), 0, 10.5);
    expect(world, graph_reduce(graph, OP_SUM, x, DIMS(m)), 5, 2.5, 3);
    expect(world, graph_reduce(graph, OP_SUM, x, (DimList){0}), 10.5);
    expect(world, graph_reduce(graph, OP_PROD, x, DIMS(n)), -6, 12);
    expect(world, graph_reduce(graph, OP_REDUCE_MAX, x, DIMS(n)), 2, 6);
    expect(world, graph_reduce(graph, OP_REDUCE_MIN, x, DIMS(m)), 1, 0.5, -3);
    expect(world, graph_row(graph, OP_ARGMAX, x, m), 1, 2);
    expect(world, graph_row(graph, OP_ARGMAX, x, n), 1, 0, 1);
    world_free(world);
}

static void test_top_leaves_nan_out(void **state) {
    World *world = world_new(state);
    DimId n = world_dim(world, "n", 2), m = world_dim(world, "m", 3);
    Value *x = world_input(world, "X", ELEM_F32, DIMS(n, m), NUMBERS(NAN, 2, -3, NAN, NAN, NAN));
    expect(world, graph_reduce(world->graph, OP_REDUCE_TOP, x, DIMS(n)), 2, -INFINITY);
    expect(world, graph_reduce(world->graph, OP_REDUCE_MAX, x, DIMS(n)), NAN, NAN);
    world_free(world);
}

static void test_argmax_takes_the_first(void **state) {
    World *world = world_new(state);
    DimId n = world_dim(world, "n", 4);
    Value *x = world_input(world, "X", ELEM_F32, DIMS(n), NUMBERS(1, 7, 7, 2));
    expect(world, graph_row(world->graph, OP_ARGMAX, x, n), 1);
    Value *y = world_input(world, "Y", ELEM_F32, DIMS(n), NUMBERS(1, INFINITY, NAN, NAN));
    expect(world, graph_row(world->graph, OP_ARGMAX, y, n), 2);
    world_free(world);
}

// ---- contract ----------------------------------------------------------------------------------

static void test_products_of_integers_wrap(void **state) {
    World *world = world_new(state);
    DimId n = world_dim(world, "n", 2);
    Value *x = world_input(world, "X", ELEM_I32, DIMS(n), NUMBERS(2147483647, 3));
    expect(world, graph_map2(world->graph, OP_MUL, x, x), 1, 9);
    expect(world, graph_einsum(world->graph, 1, (Value *[]){x, x}, 2, (DimList){0}), 10);
    world_free(world);
}

static void test_einsum(void **state) {
    World *world = world_new(state);
    Graph *graph = world->graph;
    DimId n = world_dim(world, "n", 2), d = world_dim(world, "d", 3), e = world_dim(world, "e", 2);
    Value *x = world_input(world, "X", ELEM_F32, DIMS(n, d), NUMBERS(1, 2, 3, 4, 5, 6));
    Value *w = world_input(world, "W", ELEM_F32, DIMS(e, d), NUMBERS(1, 0, -1, 2, 1, 0));
    Value *s = world_input(world, "s", ELEM_F32, (DimList){0}, NUMBERS(10));
    Value *v = world_input(world, "v", ELEM_F32, DIMS(e), NUMBERS(1, 2));
    expect(world, graph_einsum(graph, 1, (Value *[]){x, w}, 2, DIMS(n, e)), -2, 4, -2, 13);
    expect(world, graph_einsum(graph, 0.5, (Value *[]){x, w}, 2, DIMS(n, e)), -1, 2, -1, 6.5);
    expect(world, graph_einsum(graph, 1, (Value *[]){x, w, v}, 3, DIMS(n)), 6, 24);
    expect(world, graph_einsum(graph, 1, (Value *[]){v, x, s, w}, 4, DIMS(n)), 60, 240);
    expect(world, graph_einsum(graph, 1, (Value *[]){x, x}, 2, DIMS(n)), 14, 77);
    expect(world, graph_einsum(graph, 1, (Value *[]){x, v}, 2, DIMS(d)), 15, 21, 27);
    expect(world, graph_einsum(graph, 1, (Value *[]){v, s}, 2, DIMS(e)), 10, 20);
    expect(world, graph_einsum(graph, 2, (Value *[]){x}, 1, DIMS(d)), 10, 14, 18);
    expect(world, graph_einsum(graph, 1, (Value *[]){x}, 1, (DimList){0}), 21);
    world_free(world);
}

// Against the definition, dim by dim, with every kind of dim: batch, kept, summed, extent 1.
static void test_einsum_four_operands(void **state) {
    World *world = world_new(state);
    enum { N = 3, M = 4, D = 5, H = 2, K = 1 };
    DimId n = world_dim(world, "n", N), m = world_dim(world, "m", M), d = world_dim(world, "d", D);
    DimId h = world_dim(world, "h", H), k = world_dim(world, "k", K);
    double x[N * D], y[M * D], p[D * K * H], q[H * K];
    for (int i = 0; i < N * D; i++)
        x[i] = i % 7 - 3;
    for (int i = 0; i < M * D; i++)
        y[i] = i % 5 - 2;
    for (int i = 0; i < D * K * H; i++)
        p[i] = i % 3 - 1;
    q[0] = 2;
    q[1] = -3;
    Value *args[] = {world_input(world, "X", ELEM_F32, DIMS(n, d), x),
                     world_input(world, "P", ELEM_F32, DIMS(d, k, h), p),
                     world_input(world, "Q", ELEM_F32, DIMS(h, k), q),
                     world_input(world, "Y", ELEM_F32, DIMS(m, d), y)};
    Value *value = graph_einsum(world->graph, 1, args, 4, DIMS(n, h, m));
    for (EvalMode mode = EVAL_F64; mode <= EVAL_F32_BACKWARD; mode++) {
        const double *have = world_evaluate(world, value, mode);
        for (int in = 0; in < N; in++)
            for (int ih = 0; ih < H; ih++)
                for (int im = 0; im < M; im++) {
                    double want = 0;
                    for (int id = 0; id < D; id++)
                        want += x[in * D + id] * p[id * H + ih] * q[ih] * y[im * D + id];
                    world_expect_number(have[(in * H + ih) * M + im], want);
                }
    }
    world_free(world);
}

// ---- rows --------------------------------------------------------------------------------------

static void test_softmax(void **state) {
    World *world = world_new(state);
    DimId n = world_dim(world, "n", 3), m = world_dim(world, "m", 2);
    double inf = INFINITY, log3 = 1.0986122886681098;
    Value *x =
        world_input(world, "X", ELEM_F32, DIMS(n, m), NUMBERS(0, log3, -inf, 1005, -inf, -inf));
    expect(world, graph_row(world->graph, OP_SOFTMAX, x, m), 0.25, 0.75, 0, 1, 0, 0);
    const double *y =
        world_evaluate(world, graph_row(world->graph, OP_LOG_SOFTMAX, x, m), EVAL_F64);
    assert_true(fabs(y[0] - log(0.25)) < 1e-12 && fabs(y[1] - log(0.75)) < 1e-12);
    assert_true(y[2] == -inf && y[3] == 0 && y[4] == -inf && y[5] == -inf);
    Value *z = world_input(world, "Z", ELEM_F32, DIMS(n, m), NUMBERS(1, 2, 3, 4, 5, 6));
    expect(world, graph_row(world->graph, OP_CUMSUM, z, m), 1, 3, 3, 7, 5, 11);
    expect(world, graph_row(world->graph, OP_CUMSUM, z, n), 1, 2, 4, 6, 9, 12);
    world_free(world);
}

static void test_reductions_in_parts(void **state) {
    World *world = world_new(state);
    Graph *graph = world->graph;
    DimId n = world_dim(world, "n", 5), m = world_dim(world, "m", 2), p = world_dim(world, "p", 3);
    DimId q = world_dim(world, "q", 8);
    Value *x =
        world_input(world, "X", ELEM_F32, DIMS(n, m), NUMBERS(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
    expect(world, graph_reduce_parts(graph, OP_SUM, x, DIMS(m), n, p), 4, 6, 12, 14, 9, 10);
    expect(world, graph_reduce_parts(graph, OP_SUM, x, (DimList){0}, n, p), 10, 26, 19);
    double inf = INFINITY; // more parts than positions
    Value *most = graph_reduce_parts(graph, OP_REDUCE_MAX, x, (DimList){0}, n, q);
    expect(world, most, 2, 4, -inf, 6, 8, -inf, 10, -inf);
    Value *y = world_input(world, "Y", ELEM_F32, DIMS(n), NUMBERS(1, 2, 3, 4, 5));
    Value *pair[] = {x, y};
    expect(world, graph_einsum_parts(graph, pair, DIMS(m), n, p), 7, 10, 43, 50, 45, 50);
    expect(world, graph_einsum_parts(graph, pair, (DimList){0}, n, p), 17, 93, 95);
    expect(world, graph_einsum_parts(graph, pair, (DimList){0}, n, q), 3, 14, 0, 33, 60, 0, 95, 0);
    world_free(world);
}

// ---- what it takes -----------------------------------------------------------------------------
// An einsum of three operands: the first two make J[n, m], and the graph's only other values are
// the operands and the result.
static void test_needs(void **state) {
    World *world = world_new(state);
    DimId n = world_dim(world, "n", 100), d = world_dim(world, "d", 10);
    DimId m = world_dim(world, "m", 1000), e = world_dim(world, "e", 20);
    Value *args[] = {world_input(world, "X", ELEM_F32, DIMS(n, d), NULL),
                     world_input(world, "Y", ELEM_F32, DIMS(d, m), NULL),
                     world_input(world, "Z", ELEM_F32, DIMS(m, e), NULL)};
    Value *value = graph_einsum(world->graph, 1, args, 3, DIMS(n, e));
    graph_output(world->graph, world_name(world, "out"), value, value->dims);
    int64_t extents[] = {100, 10, 1000, 20};
    EvalNeeds exact = graph_eval_needs(world->graph, EVAL_F64, extents);
    EvalNeeds rounded = graph_eval_needs(world->graph, EVAL_F32, extents);
    double elements = 100 * 10 + 10 * 1000 + 1000 * 20 + 100 * 20 + 100 * 1000;
    assert_true(exact.bytes == 8 * elements && rounded.bytes == exact.bytes);
    double points = 100.0 * 10 * 1000 + 100.0 * 1000 * 20; // about a nanosecond each
    assert_true(exact.seconds > 0.5e-9 * points && exact.seconds < 5e-9 * points);
    assert_true(rounded.seconds > exact.seconds);
    extents[0] = extents[2] = INT64_MAX / 8;
    assert_true(graph_eval_needs(world->graph, EVAL_F64, extents).bytes > 1e36);
    world_free(world);
}

static void test_every_op_was_evaluated(void **state) {
    world_expect_seen(state, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaves),
        cmocka_unit_test(test_output_order),
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_map_broadcasts_by_name),
        cmocka_unit_test(test_casts),
        cmocka_unit_test(test_f32_mode_rounds_each_op),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_top_leaves_nan_out),
        cmocka_unit_test(test_argmax_takes_the_first),
        cmocka_unit_test(test_products_of_integers_wrap),
        cmocka_unit_test(test_einsum),
        cmocka_unit_test(test_einsum_four_operands),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_reductions_in_parts),
        cmocka_unit_test(test_needs),
        cmocka_unit_test(test_every_op_was_evaluated),
    };
    return cmocka_run_group_tests(tests, world_prepare, world_clean_up);
}
