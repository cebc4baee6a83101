// SPDX-License-Identifier: Apache-2.0
// The cost model: cases that can be counted by hand, more work that is never cheaper, and orders
// that were measured: blocks of matrix products and rows per task of fused talking heads.
#include "cpu_fixture.h"
#include "support.h"

#include <math.h>
#include <stdbool.h>

#include "tune/tune.h"

// One cycle is a nanosecond, L2 and beyond deliver 64, 32 and 16 bytes in it.
static const Machine plain = {
    .name = "plain",
    .vector_bytes = 64,
    .vector_registers = 32,
    .has_masks = true,
    .rows_unpacked = 12,
    .rows_packed = 14,
    .l1_bytes = 48 << 10,
    .l2_bytes = 1 << 20,
    .l3_bytes = 8 << 20,
    .flops_per_second = 64e9,
    .l1_bytes_per_second = 128e9,
    .l2_bytes_per_second = 64e9,
    .l3_bytes_per_second = 32e9,
    .memory_bytes_per_second = 16e9,
    .threads = 4,
    .task_seconds = 1e-6,
    .launch_seconds = 1e-5,
};

static void assert_near(double value, double wanted, double part) {
    if (!(fabs(value - wanted) <= part * wanted))
        fail_msg("%g is not within %g%% of %g", value, 100 * part, wanted);
}

// ---- by hand -----------------------------------------------------------------------------------

static Kernel *gemm(Arena *arena, int64_t rows, int64_t lanes, int64_t k) {
    GemmPlan plan = {rows, lanes, k, rows, lanes, k, 0, 12, 32, false, false};
    return cpu_gemm(arena, &plan);
}

static TileCost gemm_cost(Arena *arena, int64_t rows, int64_t lanes, int64_t k) {
    return tile_cost(arena, gemm(arena, rows, lanes, k), (int64_t[]){rows, lanes, k}, &plain);
}

static void test_a_contraction_is_its_multiply_adds(void **state) {
    (void)state;
    Arena *arena = arena_new();
    // 24 sums: 12 cycles a step; a call has some of its own.
    TileCost cost = gemm_cost(arena, 12, 32, 256);
    assert_int_equal(cost.stages.count, 1);
    assert_near(cost.stages.at[0].cycles, 12 * 256, 0.02);
    assert_near(cost.flops, 2.0 * 12 * 32 * 256, 0);
    // 8 calls of 8 x 32 against the same panel: 8 cycles a step.
    assert_near(gemm_cost(arena, 64, 32, 256).stages.at[0].cycles, 64 / 2 * 2 * 256, 0.05);
    // One row: two vectors of b and a splat are three loads, a cycle and a half a step.
    assert_near(gemm_cost(arena, 1, 32, 1024).stages.at[0].cycles, 1.5 * 1024, 0.05);
    // 20 lanes fill two vectors.
    double some = gemm_cost(arena, 12, 20, 256).stages.at[0].cycles;
    assert_near(some, gemm_cost(arena, 12, 32, 256).stages.at[0].cycles, 0.2);
    arena_free(arena);
}

static void test_halves_are_widened_every_time(void **state) {
    (void)state;
    Arena *arena = arena_new();
    static const Elem pairs[][2] = {
        {ELEM_BF16, ELEM_F32}, {ELEM_F16, ELEM_F32}, {ELEM_F32, ELEM_BF16}};
    // 24 sums a step, and an instruction or two for each of 12 rows or 2 vectors.
    static const double cycles[] = {18, 24, 14};
    for (int i = 0; i < 3; i++) {
        Kernel *k = gemm(arena, 12, 32, 256);
        k->buffers.at[0].elem = pairs[i][0];
        k->buffers.at[1].elem = pairs[i][1];
        TileCost cost = tile_cost(arena, k, (int64_t[]){12, 32, 256}, &plain);
        assert_near(cost.stages.at[0].cycles, cycles[i] * 256, 0.02);
    }
    arena_free(arena);
}

// Blocks of 6 rows h and 4 columns g, the lanes along m.
static void set_blocks(Stage *stage, TileDimId h, TileDimId g, TileDimId m) {
    stage->lanes = m;
    stage->rows = h;
    stage->cols = g;
    stage->row_block = 6;
    stage->col_block = 4;
}

// c[h g] = sum over m of a[h m] b[g m].
static Kernel *dots(Arena *arena, int64_t rows, int64_t cols, int64_t lanes) {
    Kernel *k = kernel_new(arena, "dots");
    TileDimId h = kernel_add_dim(k, "h", rows), g = kernel_add_dim(k, "g", cols);
    TileDimId m = kernel_add_dim(k, "m", lanes);
    uint16_t a = kernel_add_argument(k, "a", ELEM_F32, PLACE_IN, TILE_DIMS(h, m));
    uint16_t b = kernel_add_argument(k, "b", ELEM_F32, PLACE_IN, TILE_DIMS(g, m));
    uint16_t c = kernel_add_argument(k, "c", ELEM_F32, PLACE_OUT, TILE_DIMS(h, g));
    set_blocks(node_contract(k, &k->body, TILE_DIMS(h, g, m), access_plain(k, c),
                             access_plain(k, a), access_plain(k, b)),
               h, g, m);
    return k;
}

// c[h g m] = sum over i of a[i h m] b[i g m].
static double lanewise_cycles(Arena *arena, int64_t rows, int64_t cols, int64_t lanes, int64_t k) {
    Kernel *kernel = kernel_new(arena, "lanewise");
    TileDimId h = kernel_add_dim(kernel, "h", rows), g = kernel_add_dim(kernel, "g", cols);
    TileDimId m = kernel_add_dim(kernel, "m", lanes), i = kernel_add_dim(kernel, "i", k);
    uint16_t a = kernel_add_argument(kernel, "a", ELEM_F32, PLACE_IN, TILE_DIMS(i, h, m));
    uint16_t b = kernel_add_argument(kernel, "b", ELEM_F32, PLACE_IN, TILE_DIMS(i, g, m));
    uint16_t c = kernel_add_argument(kernel, "c", ELEM_F32, PLACE_OUT, TILE_DIMS(h, g, m));
    Stage *stage =
        node_contract(kernel, &kernel->body, TILE_DIMS(m, g, h, i), access_plain(kernel, c),
                      access_plain(kernel, a), access_plain(kernel, b));
    set_blocks(stage, h, g, m);
    stage->lane_block = 16;
    TileCost cost = tile_cost(arena, kernel, (int64_t[]){rows, cols, lanes, k}, &plain);
    assert_near(cost.flops, 2.0 * (double)(rows * cols * lanes * k), 0);
    return cost.stages.at[0].cycles;
}

static void test_shared_lanes_are_a_product_for_each_vector(void **state) {
    (void)state;
    Arena *arena = arena_new();
    // 32 vectors of 24 sums: 12 cycles for each of 64 steps, a call and what its sums take to
    // store.
    assert_near(lanewise_cycles(arena, 6, 4, 512, 64), 32 * (64 * 12 + 6 + 24 * 0.25), 0.02);
    // Six blocks for each of the vectors.
    assert_near(lanewise_cycles(arena, 12, 12, 512, 64), 6 * 32 * (64 * 12 + 6 + 24 * 0.25), 0.02);
    // One row and one column: a multiply-add waits for the one before.
    assert_near(lanewise_cycles(arena, 1, 1, 512, 64), 32 * (64 * 4 + 6 + 0.25), 0.02);
    arena_free(arena);
}

static TileCost dots_cost(Arena *arena, int64_t rows, int64_t cols, int64_t lanes) {
    return tile_cost(arena, dots(arena, rows, cols, lanes), (int64_t[]){rows, cols, lanes}, &plain);
}

static void test_summed_lanes_are_multiply_adds_and_sums_across(void **state) {
    (void)state;
    Arena *arena = arena_new();
    // 32 vectors of 24 sums each, and what it takes to add up the sums.
    TileCost cost = dots_cost(arena, 6, 4, 512);
    assert_near(cost.flops, 2.0 * 6 * 4 * 512, 0);
    assert_near(cost.stages.at[0].cycles, 32 * 12 + 24 * 1.5, 0.06);
    // Six such blocks, each reading its rows and columns.
    assert_near(dots_cost(arena, 12, 12, 512).stages.at[0].cycles, 6 * (32 * 12 + 24 * 1.5), 0.03);
    // One row and one column: two loads a vector.
    assert_near(dots_cost(arena, 1, 1, 8192).stages.at[0].cycles, 512, 0.06);
    arena_free(arena);
}

// y[n m] = exp(x[n m]), or a copy, cut into pieces of n.
static Kernel *pointwise(Arena *arena, bool has_exp, int64_t step) {
    Kernel *k = kernel_new(arena, "pointwise");
    TileDimId n = kernel_add_dim(k, "n", EXTENT_DYNAMIC), m = kernel_add_dim(k, "m", 1024);
    uint16_t x = kernel_add_argument(k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(n, m));
    uint16_t y = kernel_add_argument(k, "y", ELEM_F32, PLACE_OUT, TILE_DIMS(n, m));
    NodeList *task = &node_loop(k, &k->body, LOOP_PARALLEL, n, step)->body;
    Stage *stage = node_compute(k, task, TILE_DIMS(n, m), m);
    int32_t term = stage_load(k, stage, access_plain(k, x));
    if (has_exp)
        term = stage_op(k, stage, OP_EXP, ELEM_F32, term, -1, -1);
    stage_sink(k, stage, SINK_SET, access_plain(k, y), term);
    return k;
}

static void test_a_compute_stage_is_its_ops_or_its_traffic(void **state) {
    (void)state;
    Arena *arena = arena_new();
    int64_t extents[] = {16384, 1024};
    double elements = 16384.0 * 1024, vectors = elements / 16;
    TileCost copy = tile_cost(arena, pointwise(arena, false, 16384), extents, &plain);
    // 64 MiB are read, as much is fetched for writing and goes back.
    assert_near(copy.stages.at[0].bytes[FROM_MEMORY], 3 * 4 * elements, 0.25);
    assert_near(copy.seconds, 3 * 4 * elements / 16e9, 0.3);
    assert_near(copy.stages.at[0].cycles, vectors * 1.5, 0.35);
    TileCost exps = tile_cost(arena, pointwise(arena, true, 16384), extents, &plain);
    assert_near(exps.stages.at[0].cycles, vectors * op_weight(OP_EXP), 0.1);
    assert_true(exps.seconds > copy.seconds);
    arena_free(arena);
}

static void test_threads_share_the_tasks(void **state) {
    (void)state;
    Arena *arena = arena_new();
    int64_t extents[] = {4096, 1024};
    // 4 threads: of 4 tasks each takes one, of 5 one takes two, and one task is for one thread.
    TileCost one = tile_cost(NULL, pointwise(arena, true, 4096), extents, &plain);
    TileCost four = tile_cost(NULL, pointwise(arena, true, 1024), extents, &plain);
    TileCost five = tile_cost(NULL, pointwise(arena, true, 820), extents, &plain);
    assert_near(one.parallel_seconds, one.seconds, 1e-9);
    assert_near(four.parallel_seconds, four.seconds / 4 + plain.launch_seconds, 0.01);
    assert_near(five.parallel_seconds, five.seconds * 2 / 5 + plain.launch_seconds, 0.02);
    Machine alone = plain;
    alone.threads = 1;
    TileCost serial = tile_cost(NULL, pointwise(arena, true, 1024), extents, &alone);
    assert_near(serial.parallel_seconds, serial.seconds + plain.launch_seconds, 0.001);
    arena_free(arena);
}

// A causal row block sees half of the memory on average.
static void test_ranges_count_by_their_length(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Kernel *k = kernel_new(arena, "causal");
    TileDimId n = kernel_add_dim(k, "n", 512), m = kernel_add_dim(k, "m", 512);
    uint16_t x = kernel_add_argument(k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(n, m));
    uint16_t y = kernel_add_argument(k, "y", ELEM_F32, PLACE_OUT, TILE_DIMS(n));
    NodeList *task = &node_loop(k, &k->body, LOOP_PARALLEL, n, 16)->body;
    Node *range = node_range(k, task, m);
    range->hi = range_bound(k, range, (Bound){.kind = BOUND_HI, .dim = n});
    buffer_begin_with(k, y, 0);
    Stage *stage = node_compute(k, &range->body, TILE_DIMS(n, m), m);
    stage_sink(k, stage, SINK_SUM, access_plain(k, y), stage_load(k, stage, access_plain(k, x)));
    kernel_verify(k, "test");
    int64_t extents[] = {512, 512};
    assert_near(tile_cost(NULL, k, extents, &plain).flops, 512 * 512 / 2, 0.05);
    arena_free(arena);
}

// ---- monotone ----------------------------------------------------------------------------------

static GemmPlan random_plan(uint64_t seed) {
    static const int64_t tasks[] = {24, 48, 96, 384, 100000}, blocks[] = {64, 192, 256, 100000};
    static const int shapes[][2] = {{12, 32}, {8, 48}, {6, 64}, {4, 32}, {9, 16}};
    const int *shape = shapes[hash_u64(seed, 1) % 5];
    GemmPlan plan = {.rows = EXTENT_DYNAMIC, .lanes = EXTENT_DYNAMIC, .k = EXTENT_DYNAMIC};
    plan.task_rows = tasks[hash_u64(seed, 2) % 5];
    plan.task_lanes = (hash_u64(seed, 3) % 6 + 1) * (uint64_t)shape[1];
    plan.block_k = blocks[hash_u64(seed, 4) % 4];
    plan.block_rows = hash_u64(seed, 5) % 2 ? shape[0] * 8 : 0;
    plan.row_block = shape[0];
    plan.lane_block = shape[1];
    plan.pack_a = hash_u64(seed, 6) % 2;
    plan.pack_b = hash_u64(seed, 7) % 2;
    return plan;
}

// More rows, lanes or steps, a slower machine or smaller caches: none makes a kernel cheaper. (Rows
// are odd numbers of lines long: those a power of two apart meet in few sets of a cache.)
static void test_more_work_is_never_cheaper(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        Arena *arena = arena_new();
        int64_t extents[3], more[3];
        for (int i = 0; i < 3; i++)
            extents[i] = more[i] = 16 * (1 + 2 * (int64_t)(hash_u64(seed, 10 + (uint64_t)i) % 45));
        GemmPlan plan = random_plan(seed);
        Kernel *kernel = cpu_gemm(arena, &plan);
        TileCost cost = tile_cost(NULL, kernel, extents, &plain);
        assert_true(cost.seconds > 0 && cost.parallel_seconds > 0);
        for (int i = 0; i < 3; i++) {
            more[i] += 32 * (1 + (int64_t)(hash_u64(seed, 20) % 10));
            TileCost larger = tile_cost(NULL, kernel, more, &plain);
            if (larger.seconds < cost.seconds)
                fail_msg("seed %lu: %ld x %ld x %ld takes %g, less than %ld x %ld x %ld with %g",
                         (unsigned long)seed, (long)more[0], (long)more[1], (long)more[2],
                         larger.seconds, (long)extents[0], (long)extents[1], (long)extents[2],
                         cost.seconds);
            more[i] = extents[i];
        }
        Machine less = plain;
        double *const rates[] = {&less.flops_per_second, &less.l2_bytes_per_second,
                                 &less.l3_bytes_per_second, &less.memory_bytes_per_second};
        int64_t *const sizes[] = {&less.l1_bytes, &less.l2_bytes, &less.l3_bytes};
        for (int i = 0; i < 4; i++) {
            *rates[i] /= 2;
            assert_true(tile_cost(NULL, kernel, extents, &less).seconds >= cost.seconds * 0.999999);
            *rates[i] *= 2;
        }
        for (int i = 0; i < 3; i++) {
            *sizes[i] /= 2;
            assert_true(tile_cost(NULL, kernel, extents, &less).seconds >= cost.seconds * 0.999999);
            *sizes[i] *= 2;
        }
        arena_free(arena);
    }
}

// What a search leaves out by its floor would not have been the fastest.
static void test_floors_are_not_exceeded(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        Arena *arena = arena_new();
        int64_t extents[3];
        for (int i = 0; i < 3; i++)
            extents[i] = 1 + (int64_t)(hash_u64(seed, 10 + (uint64_t)i) % 1500);
        GemmPlan plan = random_plan(seed);
        Kernel *kernel = cpu_gemm(arena, &plan);
        Machine machine = plain;
        machine.threads = 1 + (int)(seed % 7);
        TileCost cost = tile_cost(NULL, kernel, extents, &machine);
        TileCost floor = tile_cost_floor(kernel, extents, &machine);
        assert_true(floor.seconds > cost.flops / machine.flops_per_second * 0.99);
        assert_true(floor.seconds <= cost.seconds);
        assert_true(floor.parallel_seconds <= cost.parallel_seconds);
        arena_free(arena);
    }
}

// ---- orders that were measured -----------------------------------------------------------------

// Cores with AVX-512 that the figures below were measured on. Two units of it:
static const Machine server = {
    .name = "server",
    .vector_bytes = 64,
    .vector_registers = 32,
    .has_masks = true,
    .rows_unpacked = 12,
    .rows_packed = 14,
    .l1_bytes = 48 << 10,
    .l2_bytes = 1 << 20,
    .l3_bytes = 32 << 20,
    .flops_per_second = 180e9,
    .l1_bytes_per_second = 200e9,
    .l2_bytes_per_second = 120e9,
    .l3_bytes_per_second = 30e9,
    .memory_bytes_per_second = 18e9,
    .threads = 1,
    .task_seconds = 5e-7,
    .launch_seconds = 5e-6,
};

// A core whose units take two cycles for such a vector, with smaller caches.
static Machine small_core(void) {
    Machine machine = server;
    machine.l1_bytes = 32 << 10;
    machine.l3_bytes = 8 << 20;
    machine.flops_per_second = 120e9;
    machine.l1_bytes_per_second = 220e9;
    machine.l3_bytes_per_second = 70e9;
    machine.memory_bytes_per_second = 35e9;
    return machine;
}

typedef struct {
    double measured; // share of the peak
    GemmPlan plan;
} MeasuredPlan;

// Plans that differ by more than a tenth in what was measured are told apart.
static void check_order(const Machine *machine, const MeasuredPlan *plans, int n) {
    Arena *arena = arena_new();
    double seconds[16];
    for (int i = 0; i < n; i++) {
        const GemmPlan *plan = &plans[i].plan;
        int64_t extents[] = {plan->rows, plan->lanes, plan->k};
        seconds[i] = tile_cost(NULL, cpu_gemm(arena, plan), extents, machine).seconds;
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (plans[i].measured > 1.1 * plans[j].measured && seconds[i] >= seconds[j])
                fail_msg("plan %d (%g%%) is predicted to take %g, plan %d (%g%%) %g", i,
                         plans[i].measured, seconds[i], j, plans[j].measured, seconds[j]);
    arena_free(arena);
}

static void test_order_of_blocks(void **state) {
    (void)state;
    static const MeasuredPlan wide[] = {
        {60.5, {512, 768, 768, 9, 384, 112, 0, 9, 48, true, true}},
        {74.0, {512, 768, 768, 48, 192, 160, 0, 12, 32, false, true}},
        {76.8, {512, 768, 768, 140, 64, 160, 0, 14, 32, true, true}},
        {78.7, {512, 768, 768, 36, 384, 112, 0, 9, 48, false, true}},
        {81.8, {512, 768, 768, 132, 384, 80, 0, 6, 64, true, true}},
        {87.5, {512, 768, 768, 90, 192, 80, 0, 6, 64, false, false}},
        {89.9, {512, 768, 768, 512, 96, 160, 0, 12, 32, false, true}},
        {91.5, {512, 768, 768, 132, 48, 256, 0, 12, 16, false, false}},
        {92.2, {512, 768, 768, 18, 432, 112, 0, 9, 48, false, false}},
    };
    Machine small = small_core();
    check_order(&small, wide, sizeof wide / sizeof wide[0]);
    static const MeasuredPlan narrow[] = {
        {84.2, {512, 64, 64, 512, 64, 64, 0, 12, 32, false, true}},
        {90.6, {512, 64, 64, 512, 64, 64, 0, 6, 64, false, false}},
        {83.2, {512, 64, 64, 66, 64, 64, 0, 12, 32, false, false}},
        {71.6, {512, 64, 64, 66, 64, 64, 0, 12, 32, false, true}},
    };
    check_order(&server, narrow, sizeof narrow / sizeof narrow[0]);
    static const MeasuredPlan square[] = {
        {74.1, {512, 512, 512, 512, 512, 256, 96, 12, 32, true, true}},
        {65.7, {512, 512, 512, 264, 192, 256, 96, 12, 32, true, true}},
        {57.2, {512, 512, 512, 512, 96, 256, 0, 12, 32, true, true}},
    };
    check_order(&server, square, sizeof square / sizeof square[0]);
}

// Talking heads with all heads and all of m of some query rows in one task.
typedef struct {
    Kernel *kernel;
    int64_t extents[6];
} Fused;

static Stage *contract(Kernel *k, NodeList *into, TileDimList dims, uint16_t c, uint16_t a,
                       uint16_t b) {
    return node_contract(k, into, dims, access_plain(k, c), access_plain(k, a), access_plain(k, b));
}

static void set_block(Stage *stage, TileDimId rows, int row_block, TileDimId lanes,
                      int lane_block) {
    stage->rows = rows;
    stage->row_block = row_block;
    stage->lanes = lanes;
    stage->lane_block = lane_block;
}

static void softmax_stages(Kernel *k, NodeList *row, TileDimList points, TileDimId lanes,
                           uint16_t logits, uint16_t top, uint16_t sum) {
    Stage *stage = node_compute(k, row, points, lanes);
    stage_sink(k, stage, SINK_MAX, access_plain(k, top),
               stage_load(k, stage, access_plain(k, logits)));
    stage = node_compute(k, row, points, lanes);
    int32_t x = stage_load(k, stage, access_plain(k, logits));
    int32_t t = stage_load(k, stage, access_plain(k, top));
    x = stage_op(k, stage, OP_SUB, ELEM_F32, x, t, -1);
    x = stage_op(k, stage, OP_EXP, ELEM_F32, x, -1, -1);
    stage_sink(k, stage, SINK_SET, access_plain(k, logits), x);
    stage_sink(k, stage, SINK_SUM, access_plain(k, sum), x);
}

enum { QUERY_KEY, MIX_LOGITS, TOP, EXP, WEIGHTS, MIX_WEIGHTS, VALUES };

static Fused talking_heads(Arena *arena, int64_t length, int64_t rows_per_task) {
    enum { HEADS = 12, WIDTH = 64 };
    Kernel *k = kernel_new(arena, "talking_heads");
    TileDimId n = kernel_add_dim(k, "n", length), g = kernel_add_dim(k, "g", HEADS);
    TileDimId h = kernel_add_dim(k, "h", HEADS), m = kernel_add_dim(k, "m", length);
    TileDimId d = kernel_add_dim(k, "d", WIDTH), e = kernel_add_dim(k, "e", WIDTH);
    uint16_t q = kernel_add_argument(k, "Q", ELEM_F32, PLACE_IN, TILE_DIMS(n, h, d));
    uint16_t keys =
        kernel_add_argument_panel(k, "K", ELEM_F32, PLACE_IN, TILE_DIMS(h, d, m), m, 32);
    uint16_t v = kernel_add_argument(k, "V", ELEM_F32, PLACE_IN, TILE_DIMS(m, h, e));
    uint16_t p_l = kernel_add_argument(k, "P_l", ELEM_F32, PLACE_IN, TILE_DIMS(h, g));
    uint16_t p_w = kernel_add_argument(k, "P_w", ELEM_F32, PLACE_IN, TILE_DIMS(g, h));
    uint16_t o = kernel_add_argument(k, "O", ELEM_F32, PLACE_OUT, TILE_DIMS(n, h, e));
    NodeList *task = &node_loop(k, &k->body, LOOP_PARALLEL, n, rows_per_task)->body;
    uint16_t j = node_scratch(k, task, "J", ELEM_F32, TILE_DIMS(n, h, m));
    set_block(contract(k, task, TILE_DIMS(h, m, n, d), j, q, keys), n, 12, m, 32);
    NodeList *row = &node_loop(k, task, LOOP_SEQUENTIAL, n, 1)->body;
    uint16_t l = node_scratch(k, row, "L", ELEM_F32, TILE_DIMS(n, g, m));
    uint16_t top = node_scratch(k, row, "top", ELEM_F32, TILE_DIMS(n, g));
    uint16_t sum = node_scratch(k, row, "sum", ELEM_F32, TILE_DIMS(n, g));
    uint16_t x = node_scratch(k, row, "X", ELEM_F32, TILE_DIMS(n, g, h));
    set_block(contract(k, row, TILE_DIMS(n, g, m, h), l, p_l, j), g, 12, m, 32);
    softmax_stages(k, row, TILE_DIMS(n, g, m), m, l, top, sum);
    Stage *weights = node_compute(k, row, TILE_DIMS(n, g, h), h);
    int32_t w = stage_load(k, weights, access_plain(k, p_w));
    int32_t z = stage_load(k, weights, access_plain(k, sum));
    stage_sink(k, weights, SINK_SET, access_plain(k, x),
               stage_op(k, weights, OP_DIV, ELEM_F32, w, z, -1));
    set_block(contract(k, row, TILE_DIMS(n, h, m, g), j, x, l), h, 12, m, 32);
    set_block(contract(k, task, TILE_DIMS(n, h, e, m), o, j, v), n, 6, e, 64);
    return (Fused){k, {length, HEADS, HEADS, length, WIDTH, WIDTH}};
}

// Another core of that kind: more bandwidth.
static Machine desktop(void) {
    Machine machine = server;
    machine.flops_per_second = 235e9;
    machine.l1_bytes_per_second = 400e9;
    machine.l2_bytes_per_second = 200e9;
    machine.l3_bytes_per_second = 80e9;
    machine.memory_bytes_per_second = 25e9;
    return machine;
}

static TileCost fused_cost(Arena *arena, int64_t length, int64_t rows_per_task) {
    Fused fused = talking_heads(arena, length, rows_per_task);
    Machine machine = desktop();
    return tile_cost(arena, fused.kernel, fused.extents, &machine);
}

// Measured, in cycles per 16 (n, m, h): QK 32.6, PV 32.4, mixing 6.5, the softmax 6 to 7.
static void test_stages_of_fused_heads(void **state) {
    (void)state;
    static const struct {
        int stage;
        double cycles, most;
    } measured[] = {{QUERY_KEY, 32.6, 1.2}, {MIX_LOGITS, 6.5, 1.25}, {TOP, 0.7, 2.5},
                    {EXP, 5.4, 1.3},        {WEIGHTS, 0.3, 3},       {MIX_WEIGHTS, 6.5, 1.25},
                    {VALUES, 32.4, 1.2}};
    Arena *arena = arena_new();
    Fused fused = talking_heads(arena, 480, 24);
    Machine machine = desktop();
    TileCost cost = tile_cost(arena, fused.kernel, fused.extents, &machine);
    double groups = 480.0 * 480 * 12 / 16;
    assert_int_equal(cost.stages.count, 7); // 24 divides 480
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        double cycles =
            cost.stages.at[measured[i].stage].seconds / machine_cycle(&machine) / groups;
        if (cycles > measured[i].cycles * measured[i].most ||
            cycles < measured[i].cycles / measured[i].most)
            fail_msg("stage %d: %g cycles are predicted, %g were measured", measured[i].stage,
                     cycles, measured[i].cycles);
    }
    arena_free(arena);
}

static void test_order_of_rows_per_task(void **state) {
    (void)state;
    Arena *arena = arena_new();
    double two = fused_cost(arena, 512, 2).seconds, eight = fused_cost(arena, 512, 8).seconds;
    double sixteen = fused_cost(arena, 512, 16).seconds;
    double most = fused_cost(arena, 512, 32).seconds, best = fused_cost(arena, 512, 24).seconds;
    assert_true(two > 1.5 * eight && eight > sixteen && sixteen > best);
    assert_near(most, best, 0.02);
    double useful = 4.0 * 512 * 512 * (12 * 64 + 12 * 12);
    double share = useful / desktop().flops_per_second / best; // 87% with prefetching
    assert_in_range((int)(100 * share), 70, 90);
    arena_free(arena);
}

// K and V are read once per block of rows: half of that with twice the rows. What is between the
// stages stays in L2 as long as it has room there.
static void test_where_the_data_of_fused_heads_is(void **state) {
    (void)state;
    Arena *arena = arena_new();
    double elements = 2048.0 * 2048 * 12, bytes[3];
    int64_t rows[] = {8, 16, 32};
    for (int i = 0; i < 3; i++) {
        StageCost stage = fused_cost(arena, 2048, rows[i]).stages.at[VALUES];
        bytes[i] = stage.bytes[FROM_L3] + stage.bytes[FROM_MEMORY];
        assert_true(bytes[i] >= 256.0 / (double)rows[i] * elements); // V alone
    }
    StageCost few = fused_cost(arena, 2048, 8).stages.at[QUERY_KEY];
    StageCost many = fused_cost(arena, 2048, 32).stages.at[QUERY_KEY];
    assert_near(few.bytes[FROM_L3] - many.bytes[FROM_L3] + many.bytes[FROM_L2] - few.bytes[FROM_L2],
                256.0 * (1.0 / 8 - 1.0 / 32) * elements, 0.35);
    StageCost small = fused_cost(arena, 512, 16).stages.at[MIX_LOGITS];
    StageCost large = fused_cost(arena, 512, 128).stages.at[MIX_LOGITS];
    assert_true(small.bytes[FROM_L3] < 0.1 * small.bytes[FROM_L2]);
    assert_true(large.bytes[FROM_L3] > 0.5 * large.bytes[FROM_L2]);
    arena_free(arena);
}

// What blocks of queries have in common is in L3 once; what each of them keeps is there for each.
static void test_threads_share_the_last_cache(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Fused fused = talking_heads(arena, 2048, 8);
    Machine one = desktop(), many = desktop();
    many.threads = 8;
    many.l3_bytes = one.l3_bytes / 8;
    TileCost alone = tile_cost(arena, fused.kernel, fused.extents, &one);
    TileCost shared = tile_cost(arena, fused.kernel, fused.extents, &many);
    StageCost keys = shared.stages.at[QUERY_KEY];
    assert_near(keys.bytes[FROM_L3], alone.stages.at[QUERY_KEY].bytes[FROM_L3], 0.1);
    assert_true(keys.bytes[FROM_MEMORY] < 0.1 * keys.bytes[FROM_L3]);
    fused = talking_heads(arena, 2048, 128); // 12 MiB between the stages of a task
    alone = tile_cost(arena, fused.kernel, fused.extents, &one);
    shared = tile_cost(arena, fused.kernel, fused.extents, &many);
    assert_true(alone.stages.at[MIX_LOGITS].bytes[FROM_MEMORY] <
                0.1 * alone.stages.at[MIX_LOGITS].bytes[FROM_L3]);
    assert_true(shared.stages.at[MIX_LOGITS].bytes[FROM_MEMORY] >
                shared.stages.at[MIX_LOGITS].bytes[FROM_L3]);
    arena_free(arena);
}

// ---- other rates -------------------------------------------------------------------------------

static double with_rate(const TileCost *cost, Machine machine, int level, double factor) {
    *tune_rate(&machine, level) *= factor;
    return tile_cost_rated(cost, &machine).seconds;
}

// What is due to each rate is what the seconds change by with it.
static void test_what_is_due_to_rates(void **state) {
    (void)state;
    Arena *arena = arena_new();
    for (int i = 0; i < 6; i++) {
        Machine machine = desktop();
        machine.threads = i % 2 ? 6 : 1;
        machine.memory_bytes_per_second /= 1 << i; // then memory is what is waited for
        Fused fused = talking_heads(arena, 500, 16 + 32 * (i / 2));
        TileCost cost = tile_cost(arena, fused.kernel, fused.extents, &machine);
        RatedCost rated = tile_cost_rated(&cost, &machine);
        assert_near(rated.seconds, cost.parallel_seconds, 1e-12);
        for (int level = 0; level < N_FROM; level++) {
            double slope = (with_rate(&cost, machine, level, 1 - 1e-5) -
                            with_rate(&cost, machine, level, 1 + 1e-5)) /
                           2e-5;
            if (fabs(slope - rated.due[level]) > 1e-4 * rated.seconds)
                fail_msg("level %d: %g is due, %g was found", level, rated.due[level], slope);
        }
    }
    arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_contraction_is_its_multiply_adds),
        cmocka_unit_test(test_halves_are_widened_every_time),
        cmocka_unit_test(test_summed_lanes_are_multiply_adds_and_sums_across),
        cmocka_unit_test(test_shared_lanes_are_a_product_for_each_vector),
        cmocka_unit_test(test_a_compute_stage_is_its_ops_or_its_traffic),
        cmocka_unit_test(test_threads_share_the_tasks),
        cmocka_unit_test(test_ranges_count_by_their_length),
        cmocka_unit_test(test_more_work_is_never_cheaper),
        cmocka_unit_test(test_floors_are_not_exceeded),
        cmocka_unit_test(test_order_of_blocks),
        cmocka_unit_test(test_stages_of_fused_heads),
        cmocka_unit_test(test_order_of_rows_per_task),
        cmocka_unit_test(test_where_the_data_of_fused_heads_is),
        cmocka_unit_test(test_threads_share_the_last_cache),
        cmocka_unit_test(test_what_is_due_to_rates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
