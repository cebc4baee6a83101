// SPDX-License-Identifier: Apache-2.0
// CPU contractions against the tile interpreter, at both x86-64 levels: hand-made kernels over a
// grid of extents, known when compiling and read at run time.
#include "support.h"

#include "cpu_fixture.h"

static const int64_t sizes[] = {1, 2, 3, 5, 7, 13, 17, 31, 33, 64, 65, 127};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static int64_t extent_of(int64_t extent, bool dynamic) {
    return dynamic ? EXTENT_DYNAMIC : extent;
}

// ---- one matrix product ----

static void compare_gemm(GemmPlan plan, int64_t n, int64_t f, int64_t d, bool dynamic) {
    Arena *arena = arena_new();
    plan.rows = extent_of(n, dynamic);
    plan.lanes = extent_of(f, dynamic);
    plan.k = extent_of(d, dynamic);
    cpu_compare(cpu_gemm(arena, &plan), (int64_t[]){n, f, d}, 2e-5);
    arena_free(arena);
}

static void compare_gemm_sizes(GemmPlan plan) {
    for (int i = 0; i < N_SIZES; i++)
        for (int dynamic = 0; dynamic < 2; dynamic++) {
            int64_t f = sizes[(i * 5 + 3) % N_SIZES], d = sizes[(i * 7 + 1) % N_SIZES];
            compare_gemm(plan, sizes[i], f, d, dynamic);
        }
}

static void test_gemm_unpacked(void **state) {
    (void)state;
    compare_gemm_sizes(
        (GemmPlan){.task_rows = 128, .task_lanes = 128, .row_block = 6, .lane_block = 64});
    compare_gemm_sizes(
        (GemmPlan){.task_rows = 16, .task_lanes = 127, .row_block = 1, .lane_block = 16});
}

static void test_gemm_packed(void **state) {
    (void)state;
    compare_gemm_sizes((GemmPlan){.task_rows = 32,
                                  .task_lanes = 48,
                                  .block_k = 20,
                                  .row_block = 14,
                                  .lane_block = 32,
                                  .pack_b = true});
    compare_gemm_sizes((GemmPlan){.task_rows = 64,
                                  .task_lanes = 64,
                                  .block_k = 32,
                                  .block_rows = 28,
                                  .row_block = 14,
                                  .lane_block = 32,
                                  .pack_a = true,
                                  .pack_b = true});
    compare_gemm_sizes((GemmPlan){.task_rows = 60,
                                  .task_lanes = 100,
                                  .block_k = 7,
                                  .block_rows = 12,
                                  .row_block = 6,
                                  .lane_block = 16,
                                  .pack_a = true,
                                  .pack_b = true});
}

// ---- batches, several k dims, doubles ----

typedef struct {
    int64_t b, n, f, j, d;
    bool dynamic;
    Elem elem;
} Shape;

// c[b n f] = sum over j d of a[b n j d] * w[b j d f]: one flat k loop. With `apart`, a is [b j n d]
// and j is looped over.
static Kernel *batched(Arena *arena, const Shape *s, bool apart) {
    Kernel *k = kernel_new(arena, "batched");
    TileDimId b = kernel_add_dim(k, "b", extent_of(s->b, s->dynamic));
    TileDimId n = kernel_add_dim(k, "n", extent_of(s->n, s->dynamic));
    TileDimId f = kernel_add_dim(k, "f", extent_of(s->f, s->dynamic));
    TileDimId j = kernel_add_dim(k, "j", extent_of(s->j, s->dynamic));
    TileDimId d = kernel_add_dim(k, "d", extent_of(s->d, s->dynamic));
    TileDimList a_dims = apart ? TILE_DIMS(b, j, n, d) : TILE_DIMS(b, n, j, d);
    uint16_t a = kernel_add_argument(k, "A", s->elem, PLACE_IN, a_dims);
    uint16_t w = kernel_add_argument(k, "W", s->elem, PLACE_IN, TILE_DIMS(b, j, d, f));
    uint16_t c = kernel_add_argument(k, "C", s->elem, PLACE_OUT, TILE_DIMS(b, n, f));
    NodeList *into = &node_loop(k, &k->body, LOOP_PARALLEL, n, 24)->body;
    Stage *stage = node_contract(k, into, TILE_DIMS(b, n, f, j, d), access_plain(k, c),
                                 access_plain(k, a), access_plain(k, w));
    stage->rows = n;
    stage->lanes = f;
    stage->row_block = 6;
    stage->lane_block = 32;
    return k;
}

static void compare_batched(Shape shape, bool apart, double tolerance) {
    for (int dynamic = 0; dynamic < 2; dynamic++) {
        Arena *arena = arena_new();
        shape.dynamic = dynamic;
        int64_t extents[] = {shape.b, shape.n, shape.f, shape.j, shape.d};
        cpu_compare(batched(arena, &shape, apart), extents, tolerance);
        arena_free(arena);
    }
}

static void test_several_k_dims(void **state) {
    (void)state;
    for (int i = 0; i < N_SIZES; i++) {
        Shape shape = {.b = 2, .n = sizes[(i * 5 + 2) % N_SIZES], .f = sizes[i], .j = 3, .d = 5};
        compare_batched(shape, false, 1e-5);
        compare_batched(shape, true, 1e-5);
    }
}

static void test_doubles(void **state) {
    (void)state;
    Shape shape = {.b = 1, .n = 9, .f = 37, .j = 2, .d = 11, .elem = ELEM_F64};
    compare_batched(shape, false, 1e-14);
    compare_batched(shape, true, 1e-14);
}

// ---- matrix times vector: no rows dim ----

static void test_no_rows(void **state) {
    (void)state;
    for (int i = 0; i < N_SIZES; i++)
        for (int dynamic = 0; dynamic < 2; dynamic++) {
            Arena *arena = arena_new();
            int64_t extents[] = {sizes[i], sizes[(i * 5 + 1) % N_SIZES]};
            Kernel *k = kernel_new(arena, "vector");
            TileDimId f = kernel_add_dim(k, "f", extent_of(extents[0], dynamic));
            TileDimId d = kernel_add_dim(k, "d", extent_of(extents[1], dynamic));
            uint16_t a = kernel_add_argument(k, "A", ELEM_F32, PLACE_IN, TILE_DIMS(d));
            uint16_t w = kernel_add_argument(k, "W", ELEM_F32, PLACE_IN, TILE_DIMS(d, f));
            uint16_t c = kernel_add_argument(k, "C", ELEM_F32, PLACE_OUT, TILE_DIMS(f));
            NodeList *into = &node_loop(k, &k->body, LOOP_PARALLEL, f, 40)->body;
            Stage *stage = node_contract(k, into, TILE_DIMS(f, d), access_plain(k, c),
                                         access_plain(k, a), access_plain(k, w));
            stage->lanes = f;
            stage->row_block = 1;
            stage->lane_block = 32;
            cpu_compare(k, extents, 1e-5);
            arena_free(arena);
        }
}

// ---- head mixing: scratch in and out, a panel filled from transposed memory ----

// y[n g] = sum over m of mix(w)[n m g] with w[n h m] = q[n h d] k[h m d]: the kernel of a mixed
// layer without its softmax. k is packed as [h d m%32] from [h m d].
static Kernel *mixed(Arena *arena, const int64_t *x, bool dynamic) {
    Kernel *k = kernel_new(arena, "mixed");
    TileDimId n = kernel_add_dim(k, "n", extent_of(x[0], dynamic));
    TileDimId m = kernel_add_dim(k, "m", extent_of(x[1], dynamic));
    TileDimId h = kernel_add_dim(k, "h", extent_of(x[2], dynamic));
    TileDimId g = kernel_add_dim(k, "g", extent_of(x[3], dynamic));
    TileDimId d = kernel_add_dim(k, "d", extent_of(x[4], dynamic));
    uint16_t q = kernel_add_argument(k, "Q", ELEM_F32, PLACE_IN, TILE_DIMS(n, h, d));
    uint16_t keys = kernel_add_argument(k, "K", ELEM_F32, PLACE_IN, TILE_DIMS(h, m, d));
    uint16_t p = kernel_add_argument(k, "P", ELEM_F32, PLACE_IN, TILE_DIMS(g, h));
    uint16_t y = kernel_add_argument(k, "Y", ELEM_F32, PLACE_OUT, TILE_DIMS(n, g));
    NodeList *task = &node_loop(k, &k->body, LOOP_PARALLEL, n, 8)->body;
    uint16_t w = node_scratch(k, task, "W", ELEM_F32, TILE_DIMS(n, h, m));
    NodeList *blocks = &node_loop(k, task, LOOP_SEQUENTIAL, m, 64)->body;
    uint16_t t = node_scratch_panel(k, blocks, "T", ELEM_F32, TILE_DIMS(h, d, m), m, 32);
    Stage *pack = node_compute(k, blocks, TILE_DIMS(h, d, m), m);
    stage_sink(k, pack, SINK_SET, access_plain(k, t), stage_load(k, pack, access_plain(k, keys)));
    pack->pad = true;
    Stage *logits = node_contract(k, blocks, TILE_DIMS(h, n, m, d), access_plain(k, w),
                                  access_plain(k, q), access_plain(k, t));
    logits->rows = n;
    logits->lanes = m;
    logits->row_block = 12;
    logits->lane_block = 32;
    NodeList *row = &node_loop(k, task, LOOP_SEQUENTIAL, n, 1)->body;
    uint16_t u = node_scratch(k, row, "U", ELEM_F32, TILE_DIMS(n, g, m));
    Stage *mix = node_contract(k, row, TILE_DIMS(n, g, m, h), access_plain(k, u),
                               access_plain(k, p), access_plain(k, w));
    mix->rows = g;
    mix->lanes = m;
    mix->row_block = 12;
    mix->lane_block = 32;
    Stage *sum = node_compute(k, row, TILE_DIMS(n, g, m), m);
    stage_sink(k, sum, SINK_SUM, access_plain(k, y), stage_load(k, sum, access_plain(k, u)));
    return k;
}

static void test_head_mixing(void **state) {
    (void)state;
    static const int64_t extents[][5] = {{1, 1, 1, 1, 1},
                                         {3, 17, 2, 3, 5},
                                         {9, 64, 3, 4, 8},
                                         {17, 100, 5, 13, 7},
                                         {8, 127, 4, 2, 16}};
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
        for (int dynamic = 0; dynamic < 2; dynamic++) {
            Arena *arena = arena_new();
            cpu_compare(mixed(arena, extents[i], dynamic), extents[i], 1e-4);
            arena_free(arena);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm_unpacked),  cmocka_unit_test(test_gemm_packed),
        cmocka_unit_test(test_several_k_dims), cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_no_rows),        cmocka_unit_test(test_head_mixing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
