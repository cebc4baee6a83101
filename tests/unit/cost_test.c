// SPDX-License-Identifier: Apache-2.0
// The cost model: cases that can be counted by hand, and more work that is never cheaper. What was
// measured is in cost_measured_test.c.
#include "cpu_fixture.h"
#include "support.h"

#include <math.h>
#include <stdbool.h>

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
    .splats_per_second = 2e9,
    .l1_bytes_per_second = 128e9,
    .l2_bytes_per_second = 64e9,
    .l3_bytes_per_second = 32e9,
    .memory_bytes_per_second = 16e9,
    .l2_write_cost = 2,
    .l3_write_cost = 2,
    .memory_write_cost = 2,
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
    // One row: two vectors of b and a splat are three loads, a cycle and a half a step, and what a
    // step costs beside.
    assert_near(gemm_cost(arena, 1, 32, 1024).stages.at[0].cycles, 1.6 * 1024, 0.05);
    // 20 lanes fill two vectors.
    double some = gemm_cost(arena, 12, 20, 256).stages.at[0].cycles;
    assert_near(some, gemm_cost(arena, 12, 32, 256).stages.at[0].cycles, 0.2);
    arena_free(arena);
}

// Of microkernels one vector wide: rows of a are splats, and where these lie matters.
static double narrow_cycles(Arena *arena, const Machine *machine, int64_t rows, int64_t lanes,
                            int64_t k) {
    GemmPlan plan = {rows, lanes, k, rows, lanes, k, 0, (int)rows, 16, false, false};
    TileCost cost = tile_cost(arena, cpu_gemm(arena, &plan), (int64_t[]){rows, lanes, k}, machine);
    return cost.stages.at[0].cycles / ((double)lanes / 16 * (double)k);
}

static void test_rows_of_narrow_microkernels(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Machine twice = plain;
    twice.splats_per_second *= 2;
    // 12 sums take 6 cycles, 12 splats, a vector and a line ahead seven; or four.
    assert_near(narrow_cycles(arena, &plain, 12, 16, 1000), 7.1, 0.03);
    assert_near(narrow_cycles(arena, &twice, 12, 16, 1000), 6.1, 0.03);
    // Two vectors use each of 12 splats, with ports that have half of a cycle to spare.
    GemmPlan wide = {12, 32, 1000, 12, 32, 1000, 0, 12, 32, false, false};
    int64_t extents[] = {12, 32, 1000};
    TileCost of_plain = tile_cost(arena, cpu_gemm(arena, &wide), extents, &plain);
    TileCost of_twice = tile_cost(arena, cpu_gemm(arena, &wide), extents, &twice);
    assert_near(of_twice.stages.at[0].cycles - of_plain.stages.at[0].cycles, 0.18 * 1000, 0.01);
    // 16 rows a page apart meet in one set of L1, which has 12 ways; 12 fit.
    double apart = narrow_cycles(arena, &plain, 16, 16, 1000);
    assert_true(narrow_cycles(arena, &plain, 16, 16, 1024) > 1.1 * apart);
    assert_near(narrow_cycles(arena, &plain, 12, 16, 1024), 7.1, 0.03);
    // Each step's lanes in a page of their own, and several steps in one.
    assert_near(narrow_cycles(arena, &plain, 12, 1024, 500), 9.4, 0.03);
    assert_near(narrow_cycles(arena, &plain, 12, 512, 500), 7.1, 0.03);
    arena_free(arena);
}

// How much longer a step takes with rows of a that are a page apart than with others. 12 of them
// stay in L1.
static double page_apart(Arena *arena, int64_t rows, int64_t task_rows, int row_block) {
    double cycles[2];
    for (int i = 0; i < 2; i++) {
        int64_t k = i ? 1024 : 1000, extents[] = {rows, 16, k};
        GemmPlan plan = {rows, 16, k, task_rows, 16, k, 0, row_block, 16, false, false};
        TileCost cost = tile_cost(arena, cpu_gemm(arena, &plan), extents, &plain);
        cycles[i] = 0;
        for (uint32_t s = 0; s < cost.stages.count; s++)
            cycles[i] += cost.stages.at[s].cycles / (double)k;
    }
    return cycles[1] / cycles[0];
}

static void test_known_numbers_of_rows_are_cut_evenly(void **state) {
    (void)state;
    Arena *arena = arena_new();
    assert_int_equal(stage_even_rows(&plain, 512, 12, 1), 8);
    assert_int_equal(stage_even_rows(&plain, 513, 12, 1), 9);
    assert_int_equal(stage_even_rows(&plain, 511, 12, 1), 12);
    assert_int_equal(stage_even_rows(&plain, 21, 14, 2), 14); // 7 rows need more of b
    // 44 rows are four blocks of 11; of 66 in tasks of 44 nobody knows how many there are: 16, 16
    // and 12.
    assert_near(page_apart(arena, 44, 44, 16), 1, 0.01);
    assert_true(page_apart(arena, 66, 44, 16) > 1.1);
    assert_true(page_apart(arena, 48, 48, 16) > 1.1);
    arena_free(arena);
}

// y[m n] = x[n m], lanes along n: rows of blocks that are transposed stay in L1, or do not.
static double crossing_cycles(Arena *arena, int64_t m_extent) {
    Kernel *k = kernel_new(arena, "transposed");
    TileDimId n = kernel_add_dim(k, "n", 64), m = kernel_add_dim(k, "m", m_extent);
    uint16_t x = kernel_add_argument(k, "x", ELEM_F32, PLACE_IN, TILE_DIMS(n, m));
    uint16_t y = kernel_add_argument(k, "y", ELEM_F32, PLACE_OUT, TILE_DIMS(m, n));
    Stage *stage = node_compute(k, &k->body, TILE_DIMS(m, n), n);
    int32_t term = stage_load(k, stage, access_plain(k, x));
    stage_sink(k, stage, SINK_SET, access_plain(k, y), term);
    TileCost cost = tile_cost(arena, k, (int64_t[]){64, m_extent}, &plain);
    return cost.stages.at[0].cycles / (double)m_extent;
}

static void test_transposed_rows_a_page_apart_push_each_other_out(void **state) {
    (void)state;
    Arena *arena = arena_new();
    assert_true(crossing_cycles(arena, 1024) > 2 * crossing_cycles(arena, 1008));
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

// Results that go back to a level count as often as they are told to, whoever writes them; what is
// read counts once.
static void test_writing_costs_what_the_level_tells(void **state) {
    (void)state;
    Arena *arena = arena_new();
    static const struct {
        TrafficLevel level;
        int64_t rows; // of 4 KiB, in and out
    } cases[] = {{FROM_L2, 48}, {FROM_L3, 512}, {FROM_MEMORY, 16384}};
    Kernel *copy = pointwise(arena, false, 16384);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Machine machine = plain;
        double *const costs[] = {&machine.l2_write_cost, &machine.l3_write_cost,
                                 &machine.memory_write_cost};
        *costs[cases[i].level - FROM_L2] = 1.25;
        int64_t extents[] = {cases[i].rows, 1024};
        TileCost less = tile_cost(arena, copy, extents, &machine);
        TileCost more = tile_cost(arena, copy, extents, &plain);
        double bytes = less.stages.at[0].bytes[cases[i].level];
        assert_near(more.stages.at[0].bytes[cases[i].level] / bytes, 3 / 2.25, 0.03);
        assert_true(less.seconds < 0.9 * more.seconds);
    }
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
    assert_near(one.parallel_seconds, one.seconds + plain.task_seconds, 1e-4);
    assert_near(four.parallel_seconds, four.seconds / 4 + plain.launch_seconds, 0.01);
    assert_near(five.parallel_seconds, five.seconds * 2 / 5 + plain.launch_seconds, 0.02);
    Machine alone = plain;
    alone.threads = 1;
    TileCost serial = tile_cost(NULL, pointwise(arena, true, 1024), extents, &alone);
    assert_near(serial.parallel_seconds, serial.seconds, 0.001);
    arena_free(arena);
}

// The last task is shorter: it runs after the others where no thread is without work, and beside
// them else.
static void test_the_rest_of_the_tasks_takes_its_own_time(void **state) {
    (void)state;
    Arena *arena = arena_new();
    int64_t extents[] = {4096, 1024};
    Machine alone = plain, pair = plain;
    alone.threads = 1;
    pair.threads = 2;
    Kernel *thirds = pointwise(arena, true, 3072), *fifths = pointwise(arena, true, 1638);
    TileCost serial = tile_cost(NULL, thirds, extents, &alone);
    assert_near(serial.parallel_seconds, serial.seconds, 0.001);
    TileCost beside = tile_cost(NULL, thirds, extents, &pair);
    assert_near(beside.parallel_seconds, beside.seconds * 3 / 4 + plain.launch_seconds, 0.01);
    TileCost after = tile_cost(NULL, fifths, extents, &pair); // 2/5, 2/5 and 1/5
    assert_near(after.parallel_seconds, after.seconds * 3 / 5 + plain.launch_seconds, 0.01);
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
        double *const costs[] = {&less.l2_write_cost, &less.l3_write_cost, &less.memory_write_cost};
        int64_t *const sizes[] = {&less.l1_bytes, &less.l2_bytes, &less.l3_bytes};
        for (int i = 0; i < 4; i++) {
            *rates[i] /= 2;
            assert_true(tile_cost(NULL, kernel, extents, &less).seconds >= cost.seconds * 0.999999);
            *rates[i] *= 2;
        }
        for (int i = 2; i >= 0; i--) { // from near levels it would take longer than from far ones
            *costs[i] *= 2;
            assert_true(tile_cost(NULL, kernel, extents, &less).seconds >= cost.seconds * 0.999999);
        }
        less = plain;
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
        if (seed % 2) {
            plan.rows = extents[0];
            plan.lanes = extents[1];
            plan.k = extents[2];
        }
        Kernel *kernel = cpu_gemm(arena, &plan);
        Machine machine = plain;
        machine.threads = 1 + (int)(seed % 7);
        TileCost cost = tile_cost(NULL, kernel, extents, &machine);
        TileCost floor = tile_cost_floor(kernel, extents, &machine);
        assert_true(floor.seconds > cost.flops / machine.flops_per_second * 0.99);
        assert_true(floor.seconds <= cost.seconds);
        assert_true(floor.parallel_seconds <= cost.parallel_seconds);
        TileCost rough = tile_cost_rough(kernel, extents, &machine, false);
        floor = tile_cost_rough(kernel, extents, &machine, true);
        assert_true(floor.seconds <= rough.seconds);
        assert_true(floor.parallel_seconds <= rough.parallel_seconds);
        assert_near(rough.flops, cost.flops, 1e-9);
        arena_free(arena);
    }
}

// Where all loops divide their ranges there is nothing that a rough walk does not see, and it says
// so.
static void test_rough_walks_of_even_loops_are_exact(void **state) {
    (void)state;
    Arena *arena = arena_new();
    for (int packing = 0; packing < 4; packing++) {
        GemmPlan plan = {96, 256, 512, 48, 128, 256, 24, 12, 32, packing & 1, packing & 2};
        Kernel *kernel = cpu_gemm(arena, &plan);
        int64_t extents[] = {96, 256, 512};
        TileCost cost = tile_cost(NULL, kernel, extents, &plain);
        TileCost rough = tile_cost_rough(kernel, extents, &plain, false);
        assert_false(rough.is_rough);
        assert_true(rough.seconds == cost.seconds);
        assert_true(rough.parallel_seconds == cost.parallel_seconds);
        plan.rows = extents[0] = 97;
        kernel = cpu_gemm(arena, &plan);
        assert_true(tile_cost_rough(kernel, extents, &plain, false).is_rough);
        assert_false(tile_cost(NULL, kernel, extents, &plain).is_rough);
    }
    arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_contraction_is_its_multiply_adds),
        cmocka_unit_test(test_rows_of_narrow_microkernels),
        cmocka_unit_test(test_known_numbers_of_rows_are_cut_evenly),
        cmocka_unit_test(test_transposed_rows_a_page_apart_push_each_other_out),
        cmocka_unit_test(test_halves_are_widened_every_time),
        cmocka_unit_test(test_summed_lanes_are_multiply_adds_and_sums_across),
        cmocka_unit_test(test_shared_lanes_are_a_product_for_each_vector),
        cmocka_unit_test(test_a_compute_stage_is_its_ops_or_its_traffic),
        cmocka_unit_test(test_writing_costs_what_the_level_tells),
        cmocka_unit_test(test_threads_share_the_tasks),
        cmocka_unit_test(test_the_rest_of_the_tasks_takes_its_own_time),
        cmocka_unit_test(test_ranges_count_by_their_length),
        cmocka_unit_test(test_more_work_is_never_cheaper),
        cmocka_unit_test(test_floors_are_not_exceeded),
        cmocka_unit_test(test_rough_walks_of_even_loops_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
