// SPDX-License-Identifier: Apache-2.0
// Whole attention layers as tile programs made by hand: the tile interpreter against a direct
// computation in double, the CPU target against the interpreter.
#include "support.h"

#include <math.h>
#include <stdlib.h>

#include "cpu_fixture.h"
#include "hand_fixture.h"

static int64_t extent_of(int64_t extent, bool dynamic) {
    return dynamic ? EXTENT_DYNAMIC : extent;
}

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
    hand_contract(k, into, TILE_DIMS(x->n, x->m, x->d), access_plain(k, s), access_plain(k, x->q),
                  access_plain(k, x->keys), (HandBlocks){x->n, x->m, 12, 32});
    if (masked) {
        Stage *mask = node_compute(k, into, nm, x->m);
        int32_t i = stage_index(k, mask, x->n), j = stage_index(k, mask, x->m);
        int32_t seen = stage_op(k, mask, OP_LE, ELEM_BOOL, j, i, -1);
        int32_t none = stage_const(k, mask, -INFINITY, ELEM_F32), logit = hand_load(k, mask, s);
        hand_sink(k, mask, SINK_SET, s, stage_op(k, mask, OP_SELECT, ELEM_F32, seen, logit, none));
    }
    hand_store(k, into, rows, x->n, SINK_SET, was, x->top);
    hand_store(k, into, nm, x->m, SINK_MAX, x->top, s);
    Stage *factor = node_compute(k, into, rows, x->n);
    int32_t moved =
        hand_op(k, factor, OP_SUB, hand_load(k, factor, was), hand_load(k, factor, x->top));
    hand_sink(k, factor, SINK_SET, c, hand_op(k, factor, OP_EXP, moved, -1));
    Stage *rescale = node_compute(k, into, rows, x->n);
    hand_sink(k, rescale, SINK_SET, x->z,
              hand_op(k, rescale, OP_MUL, hand_load(k, rescale, x->z), hand_load(k, rescale, c)));
    rescale = node_compute(k, into, nv, x->v);
    hand_sink(k, rescale, SINK_PROD, x->o, hand_load(k, rescale, c));
    Stage *power = node_compute(k, into, nm, x->m);
    int32_t below = hand_op(k, power, OP_SUB, hand_load(k, power, s), hand_load(k, power, x->top));
    int32_t e = hand_op(k, power, OP_EXP, below, -1);
    hand_sink(k, power, SINK_SET, s, e);
    hand_sink(k, power, SINK_SUM, x->z, e);
    hand_contract(k, into, TILE_DIMS(x->n, x->v, x->m), access_plain(k, x->o), access_plain(k, s),
                  access_plain(k, x->values), (HandBlocks){x->n, x->v, 6, 64});
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
    NodeList *task = hand_tasks(k, x.n, l->rows);
    x.top = hand_scratch(k, task, "top", TILE_DIMS(x.n), -INFINITY);
    x.z = hand_scratch(k, task, "z", TILE_DIMS(x.n), 0);
    x.o = hand_scratch(k, task, "O", TILE_DIMS(x.n, x.v), 0);
    Node *interior = node_range(k, task, x.m);
    Bound round = {.kind = BOUND_ROUND, .number = 32};
    round.args[0] = hand_edge(k, interior, BOUND_LO, x.n, 1);
    interior->hi = range_bound(k, interior, round);
    stream_block(&x, hand_loop(k, &interior->body, x.m, l->block), false);
    Node *diagonal = node_range(k, task, x.m);
    round.args[0] = hand_edge(k, diagonal, BOUND_LO, x.n, 1);
    diagonal->lo = range_bound(k, diagonal, round);
    diagonal->hi = hand_edge(k, diagonal, BOUND_HI, x.n, 0);
    diagonal->align = 32;
    stream_block(&x, hand_loop(k, &diagonal->body, x.m, l->block), true);
    Stage *end = node_compute(k, task, TILE_DIMS(x.n, x.v), x.v);
    hand_sink(k, end, SINK_SET, x.y,
              hand_op(k, end, OP_DIV, hand_load(k, end, x.o), hand_load(k, end, x.z)));
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
    NodeList *task = hand_tasks(k, n, l->rows);
    TileBuffer like = scratch_plain("J", ELEM_F32, TILE_DIMS(n, h, m));
    like.gap = 16;
    uint16_t j = node_scratch_with(k, task, like);
    hand_contract(k, task, TILE_DIMS(h, n, m, d), access_plain(k, j), access_plain(k, q),
                  access_plain(k, keys), (HandBlocks){n, m, 12, 32});
    like.name = "U";
    like.takes = j;
    like.dims[1] = e;
    uint16_t u = node_scratch_with(k, task, like);
    NodeList *row = hand_loop(k, task, n, 1);
    uint16_t s = node_scratch(k, row, "L", ELEM_F32, TILE_DIMS(n, g, m));
    uint16_t top = node_scratch(k, row, "top", ELEM_F32, TILE_DIMS(n, g));
    uint16_t z = node_scratch(k, row, "z", ELEM_F32, TILE_DIMS(n, g));
    uint16_t x = node_scratch(k, row, "X", ELEM_F32, TILE_DIMS(n, g, e));
    hand_contract(k, row, TILE_DIMS(n, g, m, h), access_plain(k, s), access_plain(k, pl),
                  access_plain(k, j), (HandBlocks){g, m, 12, 32});
    hand_store(k, row, TILE_DIMS(n, g, m), m, SINK_MAX, top, s);
    Stage *power = node_compute(k, row, TILE_DIMS(n, g, m), m);
    int32_t below = hand_op(k, power, OP_SUB, hand_load(k, power, s), hand_load(k, power, top));
    int32_t weight = hand_op(k, power, OP_EXP, below, -1);
    hand_sink(k, power, SINK_SET, s, weight);
    hand_sink(k, power, SINK_SUM, z, weight);
    Stage *mix = node_compute(k, row, TILE_DIMS(n, g, e), e);
    hand_sink(k, mix, SINK_SET, x,
              hand_op(k, mix, OP_DIV, hand_load(k, mix, pw), hand_load(k, mix, z)));
    hand_contract(k, row, TILE_DIMS(n, e, m, g), access_plain(k, u), access_plain(k, x),
                  access_plain(k, s), (HandBlocks){e, m, 12, 32});
    hand_contract(k, task, TILE_DIMS(e, n, v, m), access_plain(k, y), access_plain(k, u),
                  access_plain(k, values), (HandBlocks){n, v, 6, 64});
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
        cmocka_unit_test(test_online_softmax),
        cmocka_unit_test(test_talking_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
