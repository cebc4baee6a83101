// SPDX-License-Identifier: Apache-2.0
// Kinds of contraction stages on the CPU, against the tile interpreter at both x86-64 levels:
// blocks, rows and lanes that ask for the next ones, operands in halves, summed lanes.
#include "support.h"

#include <math.h>
#include <string.h>

#include "cpu_fixture.h"

static int64_t extent_of(int64_t extent, bool dynamic) {
    return dynamic ? EXTENT_DYNAMIC : extent;
}

// ---- asking for what is read next ----

// The logits of attention: c[n h m] = sum over d of a[n h d] b[h m d], b in panels of m.
typedef struct {
    int64_t n, h, m, d;
    int64_t task_rows, piece; // a loop over m around the stage, 0: none
    bool dynamic, scratch;    // b is packed first
} Logits;

static Kernel *logits_kernel(Arena *arena, const Logits *s) {
    Kernel *k = kernel_new(arena, "logits");
    TileDimId n = kernel_add_dim(k, "n", extent_of(s->n, s->dynamic));
    TileDimId h = kernel_add_dim(k, "h", extent_of(s->h, s->dynamic));
    TileDimId m = kernel_add_dim(k, "m", extent_of(s->m, s->dynamic));
    TileDimId d = kernel_add_dim(k, "d", s->d);
    TileDimList hmd = TILE_DIMS(h, m, d);
    uint16_t a = kernel_add_argument(k, "A", ELEM_F32, PLACE_IN, TILE_DIMS(n, h, d));
    uint16_t b = kernel_add_argument_panel(k, "B", ELEM_F32, PLACE_IN, hmd, m, 32);
    uint16_t c = kernel_add_argument(k, "C", ELEM_F32, PLACE_OUT, TILE_DIMS(n, h, m));
    NodeList *into = &node_loop(k, &k->body, LOOP_PARALLEL, n, s->task_rows)->body;
    if (s->piece)
        into = &node_loop(k, into, LOOP_SEQUENTIAL, m, s->piece)->body;
    if (s->scratch) {
        uint16_t packed = node_scratch_panel(k, into, "T", ELEM_F32, hmd, m, 32);
        Stage *pack = node_compute(k, into, TILE_DIMS(h, d, m), m);
        int32_t load = stage_load(k, pack, access_plain(k, b));
        stage_sink(k, pack, SINK_SET, access_plain(k, packed), load);
        pack->pad = true;
        b = packed;
    }
    Stage *stage = node_contract(k, into, TILE_DIMS(n, h, m, d), access_plain(k, c),
                                 access_plain(k, a), access_plain(k, b));
    stage->rows = n;
    stage->lanes = m;
    stage->row_block = 12;
    stage->lane_block = 32;
    return k;
}

static bool kernel_asks(Arena *arena, const Kernel *kernel) {
    EmitModule *module = emit_module_new(arena, "kernel", &x86_64_v4);
    x86_64_v4.emit_kernel(module, kernel, &x86_64_v4, "K");
    Blob text;
    const char *why = NULL;
    if (!emit_compile(module, EMIT_ASSEMBLY, &text, &why))
        fail_msg("%s", why);
    bool found = memmem(text.bytes, text.length, "prefetcht0", strlen("prefetcht0")) != NULL;
    emit_module_free(module);
    return found;
}

static bool asks(const Logits *s) {
    Arena *arena = arena_new();
    bool found = kernel_asks(arena, logits_kernel(arena, s));
    arena_free(arena);
    return found;
}

static void test_who_asks_for_the_next_block(void **state) {
    (void)state;
    Logits usual = {.n = 512, .h = 12, .m = 512, .d = 64, .task_rows = 24};
    Logits unknown = usual, few_steps = usual, many_rows = usual, large = usual, packed = usual;
    unknown.dynamic = true;
    few_steps.d = 16;
    many_rows.task_rows = 512;
    large.d = 1024;
    packed.scratch = true;
    assert_true(asks(&usual));
    assert_true(asks(&unknown));
    assert_false(asks(&few_steps));
    assert_false(asks(&many_rows));
    assert_false(asks(&large));
    assert_false(asks(&packed));
}

static void test_blocks_that_ask(void **state) {
    (void)state;
    static const Logits cases[] = {
        {.n = 1, .h = 1, .m = 1, .d = 64, .task_rows = 24},
        {.n = 25, .h = 3, .m = 100, .d = 33, .task_rows = 24},
        {.n = 70, .h = 2, .m = 64, .d = 40, .task_rows = 70},
        {.n = 30, .h = 2, .m = 130, .d = 32, .task_rows = 24, .piece = 32},
        {.n = 13, .h = 2, .m = 161, .d = 32, .task_rows = 8, .piece = 64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int dynamic = 0; dynamic < 2; dynamic++) {
            Arena *arena = arena_new();
            Logits s = cases[i];
            s.dynamic = dynamic;
            int64_t extents[] = {s.n, s.h, s.m, s.d};
            cpu_compare(logits_kernel(arena, &s), extents, 2e-5);
            arena_free(arena);
        }
}

// The gradient of values: c[m e] = sum over n of a[n m] b[n e], whose rows are neighbours in a.
static Kernel *values_kernel(Arena *arena, int64_t n_rows, int64_t n_steps, bool dynamic) {
    Kernel *k = kernel_new(arena, "values");
    TileDimId n = kernel_add_dim(k, "n", extent_of(n_steps, dynamic));
    TileDimId m = kernel_add_dim(k, "m", extent_of(n_rows, dynamic));
    TileDimId e = kernel_add_dim(k, "e", 64);
    uint16_t a = kernel_add_argument(k, "A", ELEM_F32, PLACE_IN, TILE_DIMS(n, m));
    uint16_t b = kernel_add_argument(k, "B", ELEM_F32, PLACE_IN, TILE_DIMS(n, e));
    uint16_t c = kernel_add_argument(k, "C", ELEM_F32, PLACE_OUT, TILE_DIMS(m, e));
    Stage *stage = node_contract(k, &k->body, TILE_DIMS(m, e, n), access_plain(k, c),
                                 access_plain(k, a), access_plain(k, b));
    stage->rows = m;
    stage->lanes = e;
    stage->row_block = 12;
    stage->lane_block = 32;
    return k;
}

static void test_who_asks_for_the_next_rows(void **state) {
    (void)state;
    Arena *arena = arena_new();
    assert_true(kernel_asks(arena, values_kernel(arena, 2048, 48, false)));
    assert_true(kernel_asks(arena, values_kernel(arena, 2048, 48, true)));
    assert_false(kernel_asks(arena, values_kernel(arena, 1000, 48, false))); // steps are near
    assert_false(kernel_asks(arena, values_kernel(arena, 12, 48, false)));   // no next rows
    arena_free(arena);
}

static void test_rows_that_ask(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{1, 1}, {13, 5}, {1025, 3}, {2048, 7}, {1100, 48}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int dynamic = 0; dynamic < 2; dynamic++) {
            Arena *arena = arena_new();
            int64_t extents[] = {shapes[i][1], shapes[i][0], 64};
            cpu_compare(values_kernel(arena, shapes[i][0], shapes[i][1], dynamic), extents, 2e-5);
            arena_free(arena);
        }
}

// Mixing of heads: c[g m] = sum over h of a[g h] b[h m], a row of b for each step.
static Kernel *mixing_kernel(Arena *arena, int64_t n_rows, int64_t n_steps, int64_t n_lanes,
                             bool dynamic) {
    Kernel *k = kernel_new(arena, "mixing");
    TileDimId g = kernel_add_dim(k, "g", n_rows), h = kernel_add_dim(k, "h", n_steps);
    TileDimId m = kernel_add_dim(k, "m", extent_of(n_lanes, dynamic));
    uint16_t a = kernel_add_argument(k, "A", ELEM_F32, PLACE_IN, TILE_DIMS(g, h));
    uint16_t b = kernel_add_argument(k, "B", ELEM_F32, PLACE_IN, TILE_DIMS(h, m));
    uint16_t c = kernel_add_argument(k, "C", ELEM_F32, PLACE_OUT, TILE_DIMS(g, m));
    Stage *stage = node_contract(k, &k->body, TILE_DIMS(g, m, h), access_plain(k, c),
                                 access_plain(k, a), access_plain(k, b));
    stage->rows = g;
    stage->lanes = m;
    stage->row_block = 12;
    stage->lane_block = 32;
    return k;
}

static void test_who_asks_for_the_next_lanes(void **state) {
    (void)state;
    Arena *arena = arena_new();
    assert_true(kernel_asks(arena, mixing_kernel(arena, 12, 12, 512, false)));
    assert_true(kernel_asks(arena, mixing_kernel(arena, 12, 12, 512, true)));
    assert_true(kernel_asks(arena, mixing_kernel(arena, 1, 3072, 768, false))); // in later steps
    assert_true(kernel_asks(arena, mixing_kernel(arena, 96, 96, 1024, false))); // in each block
    assert_false(kernel_asks(arena, mixing_kernel(arena, 12, 12, 256, false))); // they fit L1
    arena_free(arena);
}

static void test_lanes_that_ask(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 5000},   {12, 12, 512}, {24, 24, 321}, {13, 5, 1000},
                                        {1, 1500, 100}, {4, 600, 32},  {48, 48, 130}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int dynamic = 0; dynamic < 2; dynamic++) {
            Arena *arena = arena_new();
            const int64_t *s = shapes[i];
            cpu_compare(mixing_kernel(arena, s[0], s[1], s[2], dynamic), s, 2e-5);
            arena_free(arena);
        }
}

// ---- halves, widened as they are loaded ----

static const int64_t sizes[] = {1, 2, 3, 5, 7, 13, 17, 31, 33, 64, 65, 127};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

typedef struct {
    int64_t n, f, d;
    bool dynamic, panels;
    Elem a, b;
} Halves;

// c[n f] = sum over d of a[n d] b[d f]
static Kernel *halves_kernel(Arena *arena, const Halves *s) {
    Kernel *k = kernel_new(arena, "halves");
    TileDimId n = kernel_add_dim(k, "n", extent_of(s->n, s->dynamic));
    TileDimId f = kernel_add_dim(k, "f", extent_of(s->f, s->dynamic));
    TileDimId d = kernel_add_dim(k, "d", extent_of(s->d, s->dynamic));
    uint16_t a = kernel_add_argument(k, "A", s->a, PLACE_IN, TILE_DIMS(n, d));
    uint16_t b = s->panels
                     ? kernel_add_argument_panel(k, "B", s->b, PLACE_IN, TILE_DIMS(d, f), f, 32)
                     : kernel_add_argument(k, "B", s->b, PLACE_IN, TILE_DIMS(d, f));
    uint16_t c = kernel_add_argument(k, "C", ELEM_F32, PLACE_OUT, TILE_DIMS(n, f));
    NodeList *into = &node_loop(k, &k->body, LOOP_PARALLEL, n, 24)->body;
    Stage *stage = node_contract(k, into, TILE_DIMS(n, f, d), access_plain(k, c),
                                 access_plain(k, a), access_plain(k, b));
    stage->rows = n;
    stage->lanes = f;
    stage->row_block = 6;
    stage->lane_block = 32;
    return k;
}

static void test_halves(void **state) {
    (void)state;
    static const Elem pairs[][2] = {{ELEM_BF16, ELEM_F32},
                                    {ELEM_F32, ELEM_BF16},
                                    {ELEM_BF16, ELEM_BF16},
                                    {ELEM_F16, ELEM_F16},
                                    {ELEM_F16, ELEM_BF16}};
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++)
        for (int i = 0; i < N_SIZES; i += 2)
            for (int variant = 0; variant < 4; variant++) {
                Arena *arena = arena_new();
                Halves s = {.n = sizes[(i * 5 + 2) % N_SIZES], .f = sizes[i], .d = 37};
                s.a = pairs[p][0];
                s.b = pairs[p][1];
                s.dynamic = variant & 1;
                s.panels = variant & 2;
                cpu_compare(halves_kernel(arena, &s), (int64_t[]){s.n, s.f, s.d}, 2e-5);
                arena_free(arena);
            }
}

// ---- lanes of both operands ----

typedef struct {
    int64_t b, h, g, i, m;
    bool dynamic, pieces;
    bool transposed, panels; // c is [b g h]; y along m
    int rows, cols;          // blocks; 0: no such dim
    int lanes;               // the block of m where c has it; 0: m is summed
    Elem elem, a;            // of the sum, of x
} Block;

static TileDimList result_dims(const Block *s, TileDimId b, TileDimId h, TileDimId g) {
    if (!s->rows)
        return TILE_DIMS(b, g);
    if (!s->cols)
        return TILE_DIMS(b, h);
    return s->transposed ? TILE_DIMS(b, g, h) : TILE_DIMS(b, h, g);
}

// c[b h g (m)] = sum over i (m) of x[b i h m] y[b i g m]
static Kernel *block_kernel(Arena *arena, const Block *s) {
    Kernel *k = kernel_new(arena, "block");
    TileDimId b = kernel_add_dim(k, "b", extent_of(s->b, s->dynamic));
    TileDimId h = kernel_add_dim(k, "h", extent_of(s->h, s->dynamic));
    TileDimId g = kernel_add_dim(k, "g", extent_of(s->g, s->dynamic));
    TileDimId i = kernel_add_dim(k, "i", extent_of(s->i, s->dynamic));
    TileDimId m = kernel_add_dim(k, "m", extent_of(s->m, s->dynamic));
    TileDimList rows = s->rows ? TILE_DIMS(b, i, h, m) : TILE_DIMS(b, i, m);
    TileDimList cols = s->cols ? TILE_DIMS(b, i, g, m) : TILE_DIMS(b, i, m);
    TileDimList to = result_dims(s, b, h, g);
    TileDimList all = to;
    all.at[all.count++] = i;
    all.at[all.count++] = m;
    if (s->lanes)
        to.at[to.count++] = m;
    uint16_t x = kernel_add_argument(k, "X", s->a, PLACE_IN, rows);
    uint16_t y = s->panels ? kernel_add_argument_panel(k, "Y", s->elem, PLACE_IN, cols, m, 32)
                           : kernel_add_argument(k, "Y", s->elem, PLACE_IN, cols);
    uint16_t c = kernel_add_argument(k, "C", s->elem, PLACE_OUT, to);
    NodeList *into = &node_loop(k, &k->body, LOOP_PARALLEL, b, 1)->body;
    if (s->pieces) {
        into = &node_loop(k, into, LOOP_SEQUENTIAL, m, s->lanes ? 64 : 40)->body;
        into = &node_loop(k, into, LOOP_SEQUENTIAL, i, 2)->body;
    }
    Stage *stage =
        node_contract(k, into, all, access_plain(k, c), access_plain(k, x), access_plain(k, y));
    stage->lanes = m;
    stage->lane_block = s->lanes;
    stage->row_block = s->rows ? s->rows : 1;
    stage->col_block = s->cols;
    if (s->rows)
        stage->rows = h;
    if (s->cols)
        stage->cols = g;
    return k;
}

static void compare_block(Block s, double tolerance) {
    for (int variant = 0; variant < (s.lanes ? 8 : 4); variant++) {
        Arena *arena = arena_new();
        s.dynamic = variant & 1;
        s.pieces = variant & 2;
        s.panels = variant & 4;
        cpu_compare(block_kernel(arena, &s), (int64_t[]){s.b, s.h, s.g, s.i, s.m}, tolerance);
        arena_free(arena);
    }
}

static void expect_print(Block s, const char *line) {
    Arena *arena = arena_new();
    Text text = {.arena = arena};
    kernel_print(block_kernel(arena, &s), &text);
    if (!strstr(text.at, line))
        fail_msg("%s", text.at);
    arena_free(arena);
}

static void test_print(void **state) {
    (void)state;
    Block s = {.b = 2, .h = 12, .g = 8, .i = 3, .m = 64, .rows = 6, .cols = 4};
    expect_print(s, "contract C += X * Y  over b h g i m  rows=h:6 cols=g:4 lanes=m\n");
    s.lanes = 16;
    expect_print(s, "contract C += X * Y  over b h g i m  rows=h:6 cols=g:4 lanes=m:16\n");
}

static void test_summed_lanes(void **state) {
    (void)state;
    for (int i = 0; i < N_SIZES; i++) {
        Block s = {.b = 2,
                   .h = 1 + i % 13,
                   .g = 1 + i * 5 % 9,
                   .i = 3,
                   .m = sizes[i],
                   .rows = 6,
                   .cols = 4};
        s.transposed = i & 1;
        compare_block(s, 2e-5);
    }
    compare_block((Block){.b = 1, .h = 12, .g = 12, .i = 1, .m = 200, .rows = 6, .cols = 4}, 2e-5);
    compare_block((Block){.b = 1, .h = 9, .g = 7, .i = 2, .m = 77, .rows = 8, .cols = 3}, 2e-5);
    compare_block((Block){.b = 1, .h = 5, .g = 40, .i = 2, .m = 50, .rows = 1, .cols = 16}, 2e-5);
    compare_block((Block){.b = 1, .h = 30, .g = 2, .i = 2, .m = 50, .rows = 28, .cols = 1}, 2e-5);
}

static void test_summed_lanes_without_rows_or_columns(void **state) {
    (void)state;
    compare_block((Block){.b = 2, .h = 11, .g = 1, .i = 2, .m = 90, .rows = 6}, 2e-5);
    compare_block((Block){.b = 2, .h = 1, .g = 7, .i = 2, .m = 90, .cols = 4}, 2e-5);
}

static void test_summed_lanes_of_other_elems(void **state) {
    (void)state;
    Block s = {.b = 1, .h = 5, .g = 6, .i = 2, .m = 45, .rows = 3, .cols = 4};
    s.elem = s.a = ELEM_F64;
    compare_block(s, 1e-13);
    s.elem = ELEM_F32;
    s.a = ELEM_BF16;
    compare_block(s, 2e-5);
}

static void test_shared_lanes(void **state) {
    (void)state;
    for (int i = 0; i < N_SIZES; i++) {
        Block s = {.b = 2,
                   .h = 1 + i % 13,
                   .g = 1 + i * 5 % 9,
                   .i = 3,
                   .m = sizes[i],
                   .rows = 1 + i % 6,
                   .cols = 4};
        s.lanes = i % 2 ? 16 : 32;
        compare_block(s, 2e-5);
    }
    compare_block(
        (Block){.b = 1, .h = 40, .g = 2, .i = 2, .m = 50, .rows = 28, .cols = 1, .lanes = 32},
        2e-5);
}

static void test_shared_lanes_without_rows_or_columns(void **state) {
    (void)state;
    compare_block((Block){.b = 2, .h = 11, .g = 1, .i = 2, .m = 90, .rows = 6, .lanes = 32}, 2e-5);
    compare_block((Block){.b = 2, .h = 1, .g = 7, .i = 2, .m = 90, .cols = 4, .lanes = 16}, 2e-5);
}

static void test_shared_lanes_of_other_elems(void **state) {
    (void)state;
    Block s = {.b = 1, .h = 5, .g = 6, .i = 2, .m = 45, .rows = 3, .cols = 4, .lanes = 16};
    s.elem = s.a = ELEM_F64;
    compare_block(s, 1e-13);
    s.elem = ELEM_F32;
    s.a = ELEM_BF16;
    compare_block(s, 2e-5);
}

// ---- the order of a sum ------------------------------------------------------------------------

enum { ORDER_ROWS = 5, ORDER_LANES = 33, ORDER_K = 61 };

static void check_chains(const Target *target, int row_block, int lane_block) {
    Arena *arena = arena_new();
    GemmPlan plan = {.rows = ORDER_ROWS,
                     .lanes = ORDER_LANES,
                     .k = ORDER_K,
                     .task_rows = ORDER_ROWS,
                     .task_lanes = ORDER_LANES,
                     .row_block = row_block,
                     .lane_block = lane_block};
    Kernel *kernel = cpu_gemm(arena, &plan);
    kernel->body.at[0]->body.at[0]->body.at[0]->stage->in_order = true;
    static float a[ORDER_ROWS][ORDER_K], b[ORDER_K][ORDER_LANES], c[ORDER_ROWS][ORDER_LANES];
    int64_t extents[] = {ORDER_ROWS, ORDER_LANES, ORDER_K};
    cpu_fill(&kernel->buffers.at[0], extents, a, 1);
    cpu_fill(&kernel->buffers.at[1], extents, b, 2);
    CpuCode *code = cpu_code_new(arena, kernel, target);
    cpu_code_run(code, extents, (void *[]){a, b, c});
    for (int n = 0; n < ORDER_ROWS; n++)
        for (int f = 0; f < ORDER_LANES; f++) {
            float sum = 0;
            for (int d = 0; d < ORDER_K; d++)
                sum = fmaf(a[n][d], b[d][f], sum);
            if (sum != c[n][f])
                fail_msg("[%d, %d] is %a, not %a, in blocks of %d x %d on %s", n, f,
                         (double)c[n][f], (double)sum, row_block, lane_block, target->name);
        }
    cpu_code_free(code);
    arena_free(arena);
}

static void test_sums_in_order_are_one_chain(void **state) {
    (void)state;
    for (const Target *const *at = targets_all(); *at; at++)
        for (int rows = 1; cpu_level_runs(*at) && rows <= 4; rows++)
            for (int lanes = 16; lanes <= 32; lanes += 16)
                check_chains(*at, rows, lanes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_asks_for_the_next_block),
        cmocka_unit_test(test_blocks_that_ask),
        cmocka_unit_test(test_who_asks_for_the_next_rows),
        cmocka_unit_test(test_rows_that_ask),
        cmocka_unit_test(test_who_asks_for_the_next_lanes),
        cmocka_unit_test(test_lanes_that_ask),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_sums_in_order_are_one_chain),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_summed_lanes),
        cmocka_unit_test(test_summed_lanes_without_rows_or_columns),
        cmocka_unit_test(test_summed_lanes_of_other_elems),
        cmocka_unit_test(test_shared_lanes),
        cmocka_unit_test(test_shared_lanes_without_rows_or_columns),
        cmocka_unit_test(test_shared_lanes_of_other_elems),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
