// SPDX-License-Identifier: Apache-2.0
// The tile level by hand-made kernels: what the interpreter computes, what the printer prints, what
// the verifier refuses, when two kernels are one.
#include "support.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "tile/tile.h"

// ---- kernels under test ----

typedef struct {
    Kernel *kernel;
    TileDimId n, d, f;
    uint16_t a, b, c, panel;
    Node *tasks, *blocks;
    Stage *pack, *contract, *epilogue;
} Gemm;

// C[n f] = max(A[n d] B[d f], 0) with packed panels of B, as in the header of tile.h.
static Gemm gemm_new(Arena *arena, int64_t f_extent) {
    Gemm g = {.kernel = kernel_new(arena, "gemm")};
    Kernel *k = g.kernel;
    g.n = kernel_add_dim(k, "n", EXTENT_DYNAMIC);
    g.d = kernel_add_dim(k, "d", EXTENT_DYNAMIC);
    g.f = kernel_add_dim(k, "f", f_extent);
    g.a = kernel_add_argument(k, "A", ELEM_F32, PLACE_IN, TILE_DIMS(g.n, g.d));
    g.b = kernel_add_argument(k, "B", ELEM_F32, PLACE_IN, TILE_DIMS(g.d, g.f));
    g.c = kernel_add_argument(k, "C", ELEM_F32, PLACE_OUT, TILE_DIMS(g.n, g.f));
    Node *rows = g.tasks = node_loop(k, &k->body, LOOP_PARALLEL, g.n, 3);
    Node *lanes = node_loop(k, &rows->body, LOOP_PARALLEL, g.f, 10);
    g.blocks = node_loop(k, &lanes->body, LOOP_SEQUENTIAL, g.d, 4);
    NodeList *inner = &g.blocks->body;
    g.panel = node_scratch_panel(k, inner, "P", ELEM_F32, TILE_DIMS(g.d, g.f), g.f, 8);
    g.pack = node_compute(k, inner, TILE_DIMS(g.d, g.f), g.f);
    int32_t load = stage_load(k, g.pack, access_plain(k, g.b));
    stage_sink(k, g.pack, SINK_SET, access_plain(k, g.panel), load);
    g.pack->pad = true;
    g.contract = node_contract(k, inner, TILE_DIMS(g.f, g.n, g.d), access_plain(k, g.c),
                               access_plain(k, g.a), access_plain(k, g.panel));
    g.contract->rows = g.n;
    g.contract->lanes = g.f;
    g.contract->row_block = 6;
    g.contract->lane_block = 8;
    g.epilogue = node_compute(k, &lanes->body, TILE_DIMS(g.n, g.f), g.f);
    int32_t c = stage_load(k, g.epilogue, access_plain(k, g.c));
    int32_t zero = stage_const(k, g.epilogue, 0, ELEM_F32);
    int32_t top = stage_op(k, g.epilogue, OP_MAX, ELEM_F32, c, zero, -1);
    stage_sink(k, g.epilogue, SINK_SET, access_plain(k, g.c), top);
    return g;
}

// ---- interpreter ----

static void test_gemm_equals_three_loops(void **state) {
    (void)state;
    enum { N = 7, D = 9, F = 21 };
    Arena *arena = arena_new();
    Gemm g = gemm_new(arena, EXTENT_DYNAMIC);
    kernel_verify(g.kernel, "test");
    float a[N * D], b[D * F], c[N * F];
    for (int i = 0; i < N * D; i++)
        a[i] = (float)((i * 7) % 11 - 5);
    for (int i = 0; i < D * F; i++)
        b[i] = (float)((i * 5) % 13 - 6);
    for (int i = 0; i < N * F; i++)
        c[i] = NAN;
    kernel_interpret(g.kernel, (int64_t[]){N, D, F}, (void *[]){a, b, c});
    for (int n = 0; n < N; n++) {
        for (int f = 0; f < F; f++) {
            float sum = 0;
            for (int d = 0; d < D; d++)
                sum += a[n * D + d] * b[d * F + f];
            assert_float_equal(c[n * F + f], sum > 0 ? sum : 0, 0);
        }
    }
    assert_int_equal(kernel_tasks(g.kernel, (int64_t[]){N, D, F}), 3 * 3);
    assert_int_equal(kernel_tasks(g.kernel, (int64_t[]){1, 1, 1}), 1);
    arena_free(arena);
}

// Row maximum, shifted exponentials and their sum, then the quotient: three stages on one row.
static void test_softmax_rows(void **state) {
    (void)state;
    enum { N = 3, M = 5 };
    Arena *arena = arena_new();
    Kernel *k = kernel_new(arena, "softmax");
    TileDimId n = kernel_add_dim(k, "n", EXTENT_DYNAMIC), m = kernel_add_dim(k, "m", M);
    uint16_t x = kernel_add_argument(k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(n, m));
    uint16_t y = kernel_add_argument(k, "y", ELEM_F32, PLACE_OUT, TILE_DIMS(n, m));
    NodeList *body = &node_loop(k, &k->body, LOOP_PARALLEL, n, 2)->body;
    uint16_t top = node_scratch(k, body, "top", ELEM_F32, TILE_DIMS(n));
    uint16_t sum = node_scratch(k, body, "sum", ELEM_F32, TILE_DIMS(n));
    Stage *s = node_compute(k, body, TILE_DIMS(n, m), m);
    stage_sink(k, s, SINK_MAX, access_plain(k, top), stage_load(k, s, access_plain(k, x)));
    s = node_compute(k, body, TILE_DIMS(n, m), m);
    int32_t shifted = stage_op(k, s, OP_SUB, ELEM_F32, stage_load(k, s, access_plain(k, x)),
                               stage_load(k, s, access_plain(k, top)), -1);
    int32_t e = stage_op(k, s, OP_EXP, ELEM_F32, shifted, -1, -1);
    stage_sink(k, s, SINK_SET, access_plain(k, y), e);
    stage_sink(k, s, SINK_SUM, access_plain(k, sum), e);
    s = node_compute(k, body, TILE_DIMS(n, m), m);
    int32_t q = stage_op(k, s, OP_DIV, ELEM_F32, stage_load(k, s, access_plain(k, y)),
                         stage_load(k, s, access_plain(k, sum)), -1);
    stage_sink(k, s, SINK_SET, access_plain(k, y), q);
    kernel_verify(k, "test");
    float in[N * M], out[N * M];
    for (int i = 0; i < N * M; i++)
        in[i] = (float)(i % 4);
    kernel_interpret(k, (int64_t[]){N, M}, (void *[]){in, out});
    for (int r = 0; r < N; r++) {
        double total = 0;
        for (int i = 0; i < M; i++)
            total += exp(in[r * M + i]);
        for (int i = 0; i < M; i++)
            assert_float_equal(out[r * M + i], exp(in[r * M + i]) / total, 1e-6);
    }
    arena_free(arena);
}

// Gather with an index outside the table, a shift with zero fill, and a running sum.
static void test_checked_and_carried_accesses(void **state) {
    (void)state;
    enum { N = 4, V = 3 };
    Arena *arena = arena_new();
    Kernel *k = kernel_new(arena, "moves");
    TileDimId n = kernel_add_dim(k, "n", N), v = kernel_add_dim(k, "v", V);
    uint16_t table = kernel_add_argument(k, "table", ELEM_F32, PLACE_IN, TILE_DIMS(v));
    uint16_t ids = kernel_add_argument(k, "ids", ELEM_I32, PLACE_IN, TILE_DIMS(n));
    uint16_t taken = kernel_add_argument(k, "taken", ELEM_F32, PLACE_OUT, TILE_DIMS(n));
    uint16_t moved = kernel_add_argument(k, "moved", ELEM_I32, PLACE_OUT, TILE_DIMS(n));
    uint16_t total = kernel_add_argument(k, "total", ELEM_I32, PLACE_OUT, TILE_DIMS(n));
    Stage *s = node_compute(k, &k->body, TILE_DIMS(n), TILE_DIM_NONE);
    int32_t id = stage_load(k, s, access_plain(k, ids));
    Access look = {.buffer = table, .rank = 1, .checked = true, .fill = NAN};
    look.index[0] = (Index){.dim = TILE_DIM_NONE, .term = id};
    stage_sink(k, s, SINK_SET, access_plain(k, taken), stage_load(k, s, look));
    Access back = access_plain(k, ids);
    back.checked = true;
    back.index[0].offset = -1;
    stage_sink(k, s, SINK_SET, access_plain(k, moved), stage_load(k, s, back));
    Access before = access_plain(k, total);
    before.checked = true;
    before.index[0].offset = -1;
    int32_t sum = stage_op(k, s, OP_ADD, ELEM_I32, stage_load(k, s, before), id, -1);
    stage_sink(k, s, SINK_SET, access_plain(k, total), sum);
    kernel_verify(k, "test");
    float t[V] = {10, 11, 12}, out[N];
    int32_t i[N] = {2, -1, 0, 3}, shifted[N], sums[N];
    kernel_interpret(k, (int64_t[]){N, V}, (void *[]){t, i, out, shifted, sums});
    assert_float_equal(out[0], 12, 0);
    assert_true(isnan(out[1]) && isnan(out[3]));
    assert_float_equal(out[2], 10, 0);
    assert_memory_equal(shifted, ((int32_t[]){0, 2, -1, 0}), sizeof shifted);
    assert_memory_equal(sums, ((int32_t[]){2, 1, 1, 4}), sizeof sums);
    arena_free(arena);
}

static void test_largest_and_smallest_keep_nan_and_top_does_not(void **state) {
    (void)state;
    static const SinkMode modes[] = {SINK_MAX, SINK_MIN, SINK_TOP};
    Arena *arena = arena_new();
    Kernel *k = kernel_new(arena, "extremes");
    TileDimId n = kernel_add_dim(k, "n", 3);
    uint16_t x = kernel_add_argument(k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(n)), to[3];
    for (int i = 0; i < 3; i++)
        to[i] = kernel_add_argument(k, "to", ELEM_F32, PLACE_OUT, (TileDimList){0});
    Stage *s = node_compute(k, &k->body, TILE_DIMS(n), n);
    int32_t load = stage_load(k, s, access_plain(k, x));
    for (int i = 0; i < 3; i++)
        stage_sink(k, s, modes[i], access_plain(k, to[i]), load);
    kernel_verify(k, "test");
    float out[3];
    void *buffers[] = {NULL, out, out + 1, out + 2};
    buffers[0] = (float[]){1, 3, 2};
    kernel_interpret(k, (int64_t[]){3}, buffers);
    assert_true(out[0] == 3 && out[1] == 1 && out[2] == 3);
    buffers[0] = (float[]){NAN, 1, 2};
    kernel_interpret(k, (int64_t[]){3}, buffers);
    assert_true(isnan(out[0]) && isnan(out[1]) && out[2] == 2);
    buffers[0] = (float[]){1, NAN, -2};
    kernel_interpret(k, (int64_t[]){3}, buffers);
    assert_true(isnan(out[0]) && isnan(out[1]) && out[2] == 1);
    buffers[0] = (float[]){NAN, NAN, NAN};
    kernel_interpret(k, (int64_t[]){3}, buffers);
    assert_true(out[2] == -INFINITY);
    arena_free(arena);
}

static void test_half_types_round_when_stored(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Kernel *k = kernel_new(arena, "round");
    TileDimId n = kernel_add_dim(k, "n", 3);
    uint16_t x = kernel_add_argument(k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(n));
    uint16_t h = kernel_add_argument(k, "h", ELEM_F16, PLACE_OUT, TILE_DIMS(n));
    uint16_t b = kernel_add_argument(k, "b", ELEM_BF16, PLACE_OUT, TILE_DIMS(n));
    Stage *s = node_compute(k, &k->body, TILE_DIMS(n), n);
    int32_t load = stage_load(k, s, access_plain(k, x));
    stage_sink(k, s, SINK_SET, access_plain(k, h), stage_op(k, s, OP_CAST, ELEM_F16, load, -1, -1));
    stage_sink(k, s, SINK_SET, access_plain(k, b),
               stage_op(k, s, OP_CAST, ELEM_BF16, load, -1, -1));
    kernel_verify(k, "test");
    float in[3] = {1.0009766f, 65536.0f, -0.3333333f};
    uint16_t half[3], brain[3];
    kernel_interpret(k, (int64_t[]){3}, (void *[]){in, half, brain});
    assert_memory_equal(half, ((uint16_t[]){0x3C01, 0x7C00, 0xB555}), sizeof half);
    assert_memory_equal(brain, ((uint16_t[]){0x3F80, 0x4780, 0xBEAB}), sizeof brain);
    arena_free(arena);
}

// Scratch that nobody wrote is NaN, and an index outside a buffer is an internal error.
static void test_interpreter_shows_mistakes(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Kernel *k = kernel_new(arena, "wrong");
    TileDimId n = kernel_add_dim(k, "n", 2);
    uint16_t x = kernel_add_argument(k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(n));
    uint16_t y = kernel_add_argument(k, "y", ELEM_F32, PLACE_OUT, TILE_DIMS(n));
    uint16_t t = node_scratch(k, &k->body, "t", ELEM_F32, TILE_DIMS(n));
    Stage *s = node_compute(k, &k->body, TILE_DIMS(n), n);
    stage_sink(k, s, SINK_SET, access_plain(k, y), stage_load(k, s, access_plain(k, t)));
    float in[2] = {1, 2}, out[2] = {0, 0};
    kernel_interpret(k, (int64_t[]){2}, (void *[]){in, out});
    assert_true(isnan(out[0]) && isnan(out[1]));
    Access beyond = access_plain(k, x);
    beyond.index[0].offset = 1;
    s->sinks.count = 0;
    stage_sink(k, s, SINK_SET, access_plain(k, y), stage_load(k, s, beyond));
    expect_ice("outside", kernel_interpret(k, (int64_t[]){2}, (void *[]){in, out}));
    arena_free(arena);
}

// ---- printer and hash ----

static void test_print(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Gemm g = gemm_new(arena, 3072);
    Text text = {.arena = arena};
    kernel_print(g.kernel, &text);
    assert_string_equal(text.at, "kernel gemm\n"
                                 "  dims n d f:3072\n"
                                 "  in A[n d], B[d f]  out C[n f]\n"
                                 "  parallel n:3 f:10\n"
                                 "    loop d:4\n"
                                 "      scratch P[d f%8]\n"
                                 "      compute P = B  over d f  lanes=f pad\n"
                                 "      contract C += A * P  over f n d  rows=n:6 lanes=f:8\n"
                                 "    compute C = max(C, 0)  over n f  lanes=f\n");
    arena_free(arena);
}

// A window of positions around each task's own, cut short by a length that is read, with every kind
// of buffer.
static Kernel *window(Arena *arena, int64_t align) {
    Kernel *k = kernel_new(arena, "window");
    TileDimId n = kernel_add_dim(k, "n", EXTENT_DYNAMIC), m = kernel_add_dim(k, "m", 64);
    uint16_t x = kernel_add_argument_panel(k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(n, m), m, 16);
    uint16_t ends = kernel_add_argument(k, "ends", ELEM_I64, PLACE_IN, TILE_DIMS(n));
    kernel_add_argument(k, "y", ELEM_F32, PLACE_BOTH, TILE_DIMS(n));
    uint16_t z = kernel_add_argument(k, "z", ELEM_F32, PLACE_OUT, TILE_DIMS(n));
    buffer_begin_with(k, z, -1.5);
    NodeList *task = &node_loop(k, &k->body, LOOP_PARALLEL, n, 1)->body;
    TileBuffer like = scratch_plain("a", ELEM_F32, TILE_DIMS(n, m));
    like.gap = 16;
    like.takes = node_scratch_with(k, task, like);
    like.name = "b";
    node_scratch_with(k, task, like);
    Node *range = node_range(k, task, m);
    int32_t zero = range_bound(k, range, (Bound){.kind = BOUND_NUMBER});
    int32_t from = range_bound(k, range, (Bound){.kind = BOUND_LO, .dim = n, .number = -3});
    range->lo = range_bound(k, range, (Bound){.kind = BOUND_MAX, .args = {zero, from}});
    int32_t to = range_bound(k, range, (Bound){.kind = BOUND_HI, .dim = n});
    to = range_bound(k, range, (Bound){.kind = BOUND_ROUND, .number = 8, .args = {to}});
    int32_t end = range_bound(
        k, range, (Bound){.kind = BOUND_LOAD, .load = access_plain(k, ends), .number = 1});
    int32_t half = range_bound(k, range, (Bound){.kind = BOUND_EXTENT, .dim = m, .number = -32});
    int32_t sum = range_bound(k, range, (Bound){.kind = BOUND_ADD, .args = {to, half}});
    range->hi = range_bound(k, range, (Bound){.kind = BOUND_MIN, .args = {sum, end}});
    assert_int_equal(range_bound(k, range, range->bounds.at[sum]), sum);
    range->align = align;
    Stage *s = node_compute(k, &range->body, TILE_DIMS(n, m), m);
    stage_sink(k, s, SINK_SUM, access_plain(k, z), stage_load(k, s, access_plain(k, x)));
    return k;
}

static void test_print_ranges_and_buffers(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Text text = {.arena = arena};
    kernel_print(window(arena, 16), &text);
    assert_string_equal(text.at, "kernel window\n"
                                 "  dims n m:64\n"
                                 "  in x[n m%16], ends[n]: i64  both y[n]  out z[n] = -1.5\n"
                                 "  parallel n:1\n"
                                 "    scratch a[n m]  gap 16\n"
                                 "    scratch b[n m]  gap 16  takes a\n"
                                 "    range max(0, start(n)-3) <= m < min((round(end(n), 8) + "
                                 "extent(m)-32), ends+1)  align 16\n"
                                 "      compute z += x  over n m  lanes=m\n");
    assert_true(kernel_canonical_hash(window(arena, 16)) ==
                kernel_canonical_hash(window(arena, 16)));
    assert_true(kernel_canonical_hash(window(arena, 16)) !=
                kernel_canonical_hash(window(arena, 8)));
    arena_free(arena);
}

// It is asked for each schedule that comes into question, of a kernel that stays.
static void test_scratch_bytes_take_no_memory_of_the_kernel(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Gemm g = gemm_new(arena, 64);
    const int64_t extents[] = {64, 64, 64};
    char *first = arena_alloc(g.kernel->arena, 1), *second = arena_alloc(g.kernel->arena, 1);
    assert_true(kernel_scratch_bytes(g.kernel, extents, NULL) > 0);
    char *third = arena_alloc(g.kernel->arena, 1);
    assert_int_equal(third - second, second - first);
    arena_free(arena);
}

static void test_hash_is_of_meaning(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Gemm a = gemm_new(arena, 64), b = gemm_new(arena, 64);
    b.kernel->name = "other";
    b.kernel->dims.at[b.n].name = "rows";
    b.kernel->buffers.at[b.a].name = "left";
    assert_true(kernel_canonical_hash(a.kernel) == kernel_canonical_hash(b.kernel));
    assert_true(kernel_canonical_hash(a.kernel) !=
                kernel_canonical_hash(gemm_new(arena, 65).kernel));
    b.blocks->step = 5;
    assert_true(kernel_canonical_hash(a.kernel) != kernel_canonical_hash(b.kernel));
    b.blocks->step = 4;
    b.epilogue->terms.at[1].number = 0.5;
    assert_true(kernel_canonical_hash(a.kernel) != kernel_canonical_hash(b.kernel));
    arena_free(arena);
}

static void test_a_table_keeps_one_place_for_each_form(void **state) {
    (void)state;
    Arena *arena = arena_new();
    FormTable *table = form_table_new(arena);
    KernelForm forms[40];
    for (int i = 0; i < 40; i++) {
        Gemm gemm = gemm_new(arena, 1 + i / 2); // two of each
        forms[i] = kernel_form(arena, gemm.kernel);
        void **kept = form_table_at(table, &forms[i]);
        assert_ptr_equal(*kept, i % 2 ? &forms[i - 1] : NULL);
        *kept = i % 2 ? *kept : &forms[i];
    }
    vec_push(arena, &forms[0], 0); // a longer form is another one
    assert_null(*form_table_at(table, &forms[0]));
    arena_free(arena);
}

// ---- verifier: one broken rule per case ----

static void break_step(Gemm *g) {
    g->blocks->step = 0;
}
static void break_dim(Gemm *g) {
    g->blocks->dim = 7;
}
static void break_parallel_inside(Gemm *g) {
    g->blocks->loop = LOOP_PARALLEL;
}
static void break_parallel_reduced(Gemm *g) {
    g->tasks->dim = g->d;
}
static void break_scope(Gemm *g) {
    Node *stage = g->blocks->body.at[1];
    g->blocks->body.at[1] = g->blocks->body.at[0];
    g->blocks->body.at[0] = stage;
}
static void break_stage_dims(Gemm *g) {
    g->pack->n_dims = 1;
}
static void break_lanes_in_a(Gemm *g) {
    g->contract->lanes = g->n;
}
static void break_summed_panels(Gemm *g) {
    g->contract->lanes = g->d;
}
static void break_summed_contiguity(Gemm *g) {
    g->kernel->buffers.at[g->panel].panel_dim = TILE_DIM_NONE;
    g->pack->pad = false;
    g->contract->lanes = g->d;
}
static void break_cols_of_lanes(Gemm *g) {
    g->contract->cols = g->f;
}
static void break_cols_in_a(Gemm *g) {
    g->contract->cols = g->d;
}
static void break_rows_in_b(Gemm *g) {
    g->contract->rows = g->d;
}
static void break_panel_width(Gemm *g) {
    g->kernel->buffers.at[g->panel].panel_width = 12;
}
static void break_contiguity(Gemm *g) {
    TileBuffer *c = &g->kernel->buffers.at[g->c];
    c->dims[0] = g->f;
    c->dims[1] = g->n;
    g->contract->c = access_plain(g->kernel, g->c);
    g->epilogue->terms.at[0].load = g->epilogue->sinks.at[0].to = g->contract->c;
}
static void break_elem(Gemm *g) {
    g->kernel->buffers.at[g->a].elem = ELEM_F64;
}
static void break_sum_elem(Gemm *g) {
    g->kernel->buffers.at[g->c].elem = ELEM_F16;
}
static void break_input_store(Gemm *g) {
    g->pack->sinks.at[0].to = access_plain(g->kernel, g->b);
}
static void break_points_meet(Gemm *g) {
    g->pack->sinks.at[0].to = access_at(g->c, TILE_DIMS(g->n, g->f));
    g->pack->n_dims = 3;
    g->pack->dims[2] = g->n;
}
static void break_sink_elem(Gemm *g) {
    g->kernel->buffers.at[g->panel].elem = ELEM_F64;
}
static void break_top_of_int(Gemm *g) {
    g->kernel->buffers.at[g->b].elem = g->kernel->buffers.at[g->panel].elem = ELEM_I32;
    g->pack->terms.at[0].elem = ELEM_I32;
    g->pack->sinks.at[0].mode = SINK_TOP;
}
static void break_term_order(Gemm *g) {
    g->epilogue->terms.at[2].args[0] = 2;
}
static void break_op(Gemm *g) {
    g->epilogue->terms.at[2].op = OP_SOFTMAX;
}
static void break_select(Gemm *g) {
    g->epilogue->terms.at[2].op = OP_SELECT;
    g->epilogue->terms.at[2].args[2] = 1;
}
static void break_scratch_index(Gemm *g) {
    g->contract->b.index[1].dim = g->n;
}
static void break_shifted_race(Gemm *g) {
    Access *load = &g->epilogue->terms.at[0].load;
    load->index[0].offset = -1;
    load->checked = true;
}
static void break_feedback(Gemm *g) {
    g->epilogue->terms.at[0].load.index[1].offset = -1;
    g->epilogue->terms.at[0].load.checked = true;
    g->kernel->body.at[0]->body.at[0]->loop = LOOP_SEQUENTIAL;
}
static void break_pad(Gemm *g) {
    g->epilogue->pad = true;
}
static void break_extent(Gemm *g) {
    g->kernel->dims.at[g->f].extent = 0;
}
static void break_checked_contract(Gemm *g) {
    g->contract->a.checked = true;
}
static void break_double_dim(Gemm *g) {
    g->contract->dims[1] = g->f;
}
static void test_verifier_refuses(void **state) {
    (void)state;
    static const struct {
        void (*spoil)(Gemm *g);
        const char *says;
    } cases[] = {
        {break_step, "step 0"},
        {break_dim, "loop over no dim"},
        {break_parallel_inside, "does not hold all else"},
        {break_parallel_reduced, "tasks along d would meet in C"},
        {break_scope, "outside its scope"},
        {break_stage_dims, "lanes f is no dim of its stage"},
        {break_lanes_in_a, "the row operand lacks"},
        {break_summed_panels, "lanes are summed, but P has panels"},
        {break_summed_contiguity, "P is not contiguous along the lanes"},
        {break_cols_of_lanes, "cols f, but b alone has the lanes"},
        {break_cols_in_a, "cols d is no dim of column operand"},
        {break_rows_in_b, "rows d is no dim"},
        {break_panel_width, "not of whole blocks along f"},
        {break_contiguity, "C is not contiguous along the lanes"},
        {break_elem, "a sum of f32 with an operand of f64"},
        {break_sum_elem, "a sum of f16"},
        {break_input_store, "is an input and stored to"},
        {break_points_meet, "points along d write one element of C"},
        {break_sink_elem, "cast it"},
        {break_top_of_int, "which is no float"},
        {break_term_order, "no earlier term"},
        {break_op, "no pointwise operation"},
        {break_select, "no bool"},
        {break_scratch_index, "not indexed by its own dims"},
        {break_shifted_race, "tasks along n would meet in C"},
        {break_feedback, "at another lane"},
        {break_pad, "stores to no panel"},
        {break_extent, "extent 0"},
        {break_checked_contract, "no plain dim"},
        {break_double_dim, "dim f twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Arena *arena = arena_new();
        Gemm g = gemm_new(arena, 64);
        Text why = {.arena = arena};
        assert_true(kernel_check(g.kernel, &why));
        cases[i].spoil(&g);
        if (kernel_check(g.kernel, &why))
            fail_msg("nothing found where \"%s\" was expected", cases[i].says);
        if (!strstr(why.at, cases[i].says))
            fail_msg("\"%s\" was expected, not \"%s\"", cases[i].says, why.at);
        arena_free(arena);
    }
}

static void test_verify_names_the_pass(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Gemm g = gemm_new(arena, 64);
    g.blocks->step = -1;
    expect_ice("after schedule: kernel gemm", kernel_verify(g.kernel, "schedule"));
    arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm_equals_three_loops),
        cmocka_unit_test(test_softmax_rows),
        cmocka_unit_test(test_checked_and_carried_accesses),
        cmocka_unit_test(test_largest_and_smallest_keep_nan_and_top_does_not),
        cmocka_unit_test(test_half_types_round_when_stored),
        cmocka_unit_test(test_interpreter_shows_mistakes),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_print_ranges_and_buffers),
        cmocka_unit_test(test_scratch_bytes_take_no_memory_of_the_kernel),
        cmocka_unit_test(test_hash_is_of_meaning),
        cmocka_unit_test(test_a_table_keeps_one_place_for_each_form),
        cmocka_unit_test(test_verifier_refuses),
        cmocka_unit_test(test_verify_names_the_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
