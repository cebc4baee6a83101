// SPDX-License-Identifier: Apache-2.0
// The cost model against what was measured: blocks of matrix products, stages and rows per task of
// fused talking heads; and what is due to each of the rates.
#include "cpu_fixture.h"
#include "support.h"

#include <math.h>

#include "tune/tune.h"

static void assert_near(double value, double wanted, double part) {
    if (!(fabs(value - wanted) <= part * wanted))
        fail_msg("%g is not within %g%% of %g", value, 100 * part, wanted);
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
    .splats_per_second = 5.6e9,
    .l1_bytes_per_second = 200e9,
    .l2_bytes_per_second = 120e9,
    .l3_bytes_per_second = 30e9,
    .memory_bytes_per_second = 18e9,
    .l2_write_cost = 2,
    .l3_write_cost = 2,
    .memory_write_cost = 2,
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
    machine.splats_per_second = 6.7e9;
    machine.l1_bytes_per_second = 220e9;
    machine.l3_bytes_per_second = 70e9;
    machine.memory_bytes_per_second = 35e9;
    return machine;
}

// A core that waits longer for rows that lie apart, with larger caches and a slow L3
// (Intel 6.167.1).
static Machine waiting_core(void) {
    Machine machine = server;
    machine.l2_bytes = 2 << 20;
    machine.flops_per_second = 210e9;
    machine.splats_per_second = 6.9e9;
    machine.l1_bytes_per_second = 370e9;
    machine.l2_bytes_per_second = 180e9;
    machine.l3_bytes_per_second = 33e9;
    machine.memory_bytes_per_second = 15e9;
    machine.scattered_exposed = 0.4;
    return machine;
}

// A core without masks that waits for lines which meet in few sets of its caches (AMD 25.1.1).
static Machine meeting_core(void) {
    return (Machine){
        .name = "meeting lines",
        .vector_bytes = 32,
        .vector_registers = 16,
        .rows_unpacked = 6,
        .rows_packed = 6,
        .l1_bytes = 32 << 10,
        .l2_bytes = 512 << 10,
        .l3_bytes = 8 << 20,
        .flops_per_second = 100e9,
        .splats_per_second = 6.3e9,
        .l1_bytes_per_second = 180e9,
        .l2_bytes_per_second = 100e9,
        .l3_bytes_per_second = 56e9,
        .memory_bytes_per_second = 27e9,
        .l2_write_cost = 2,
        .l3_write_cost = 2,
        .memory_write_cost = 2,
        .one_set_exposed = 0.6,
        .one_set_far_exposed = 0.9,
        .threads = 1,
        .task_seconds = 5e-7,
        .launch_seconds = 5e-6,
    };
}

typedef struct {
    double measured; // share of the peak
    GemmPlan plan;
} MeasuredPlan;

typedef Kernel *MakeGemm(Arena *arena, const GemmPlan *plan);

// Plans that differ by more than a tenth in what was measured are told apart.
static void check_order(const Machine *machine, MakeGemm *make, const MeasuredPlan *plans, int n) {
    Arena *arena = arena_new();
    double seconds[16];
    for (int i = 0; i < n; i++) {
        const GemmPlan *plan = &plans[i].plan;
        int64_t extents[] = {plan->rows, plan->lanes, plan->k};
        seconds[i] = tile_cost(NULL, make(arena, plan), extents, machine).seconds;
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
    check_order(&small, cpu_gemm, wide, sizeof wide / sizeof wide[0]);
    static const MeasuredPlan narrow[] = {
        {84.2, {512, 64, 64, 512, 64, 64, 0, 12, 32, false, true}},
        {90.6, {512, 64, 64, 512, 64, 64, 0, 6, 64, false, false}},
        {83.2, {512, 64, 64, 66, 64, 64, 0, 12, 32, false, false}},
        {71.6, {512, 64, 64, 66, 64, 64, 0, 12, 32, false, true}},
    };
    check_order(&server, cpu_gemm, narrow, sizeof narrow / sizeof narrow[0]);
    static const MeasuredPlan square[] = {
        {74.1, {512, 512, 512, 512, 512, 256, 96, 12, 32, true, true}},
        {65.7, {512, 512, 512, 264, 192, 256, 96, 12, 32, true, true}},
        {57.2, {512, 512, 512, 512, 96, 256, 0, 12, 32, true, true}},
    };
    check_order(&server, cpu_gemm, square, sizeof square / sizeof square[0]);
}

static void test_order_where_rows_apart_are_waited_for(void **state) {
    (void)state;
    static const MeasuredPlan forward[] = {
        {82.8, {1024, 1024, 1024, 342, 512, 128, 0, 6, 64, true, true}},
        {77.9, {1024, 1024, 1024, 132, 512, 256, 0, 12, 32, false, true}},
        {71.2, {1024, 1024, 1024, 174, 1024, 128, 0, 6, 64, false, false}},
        {64.1, {1024, 1024, 1024, 1024, 64, 256, 0, 12, 32, false, true}},
        {52.2, {1024, 1024, 1024, 1024, 192, 256, 0, 12, 32, false, false}},
    };
    Machine machine = waiting_core();
    check_order(&machine, cpu_gemm, forward, sizeof forward / sizeof forward[0]);
    static const MeasuredPlan of_weights[] = {
        {82.1, {1024, 256, 2048, 518, 256, 256, 0, 14, 32, true, false}},
        {74.2, {1024, 256, 2048, 171, 256, 160, 0, 9, 48, true, true}},
        {66.6, {1024, 256, 2048, 1024, 128, 128, 0, 6, 64, true, false}},
        {59.1, {1024, 256, 2048, 1024, 128, 256, 0, 12, 32, false, true}},
        {54.3, {1024, 256, 2048, 348, 64, 256, 0, 12, 32, false, false}},
    };
    check_order(&machine, cpu_gemm_beside, of_weights, sizeof of_weights / sizeof of_weights[0]);
}

static void test_order_where_lines_meet_in_few_sets(void **state) {
    (void)state;
    static const MeasuredPlan near[] = {
        {90.4, {1024, 256, 1024, 1024, 128, 256, 6, 6, 16, false, true}},
        {76.3, {1024, 256, 1024, 258, 96, 208, 258, 4, 24, false, false}},
        {74.9, {1024, 256, 1024, 66, 128, 256, 66, 6, 16, false, false}},
        {74.0, {1024, 256, 1024, 36, 128, 256, 36, 6, 16, true, false}},
    };
    Machine machine = meeting_core();
    check_order(&machine, cpu_gemm, near, sizeof near / sizeof near[0]);
    static const MeasuredPlan far[] = {
        {87.2, {512, 1024, 1024, 512, 128, 256, 6, 6, 16, false, true}},
        {64.8, {512, 1024, 1024, 36, 128, 256, 36, 6, 16, true, false}},
        {54.1, {512, 1024, 1024, 128, 96, 208, 128, 4, 24, false, false}},
    };
    check_order(&machine, cpu_gemm, far, sizeof far / sizeof far[0]);
    static const MeasuredPlan beside[] = {
        {80.0, {1024, 256, 1024, 1024, 128, 256, 258, 6, 16, true, true}},
        {67.9, {1024, 256, 1024, 1024, 128, 256, 6, 6, 16, false, true}},
        {52.0, {1024, 256, 1024, 66, 128, 256, 66, 6, 16, false, false}},
    };
    check_order(&machine, cpu_gemm_beside, beside, sizeof beside / sizeof beside[0]);
}

static void test_order_where_vectors_meet_in_few_sets(void **state) {
    (void)state;
    static const MeasuredPlan near[] = {
        {80.8, {512, 768, 768, 512, 96, 256, 6, 6, 16, false, true}},
        {70.9, {512, 768, 768, 512, 96, 160, 2, 2, 32, false, true}},
        {68.3, {512, 768, 768, 512, 192, 256, 258, 6, 16, false, false}},
        {57.8, {512, 768, 768, 512, 96, 192, 256, 4, 24, false, false}},
    };
    Machine machine = meeting_core();
    check_order(&machine, cpu_gemm, near, sizeof near / sizeof near[0]);
    static const MeasuredPlan far[] = {
        {73.0, {64, 3072, 768, 64, 96, 192, 4, 4, 24, true, true}},
        {57.9, {64, 3072, 768, 24, 384, 256, 24, 6, 16, false, false}},
        {43.7, {64, 3072, 768, 64, 80, 384, 64, 6, 8, false, true}},
        {29.6, {64, 3072, 768, 24, 384, 384, 24, 6, 8, false, false}},
    };
    check_order(&machine, cpu_gemm, far, sizeof far / sizeof far[0]);
}

// Copies of what lies side by side into panels, each element: bytes from L2 and further away, and
// cycles.
typedef struct {
    double bytes, cycles;
} Copying;

static Copying copying(Arena *arena, const Machine *machine, int64_t rows, int row_block) {
    GemmPlan plan = {rows, 64, 384, rows, 64, 384, 0, row_block, 8, true, false};
    int64_t extents[] = {plan.rows, plan.lanes, plan.k};
    TileCost cost = tile_cost(arena, cpu_gemm_beside(arena, &plan), extents, machine);
    double elements = (double)(plan.rows * plan.k);
    Copying out = {0};
    for (uint32_t i = 0; i < cost.stages.count; i++) {
        const StageCost *stage = &cost.stages.at[i];
        if (stage->stage->kind != STAGE_COMPUTE)
            continue;
        for (int level = FROM_L2; level < N_FROM; level++)
            out.bytes += stage->bytes[level] / elements;
        out.cycles += stage->cycles / elements;
    }
    return out;
}

// Of panels of 6 elements, 144 lines apart, L1 keeps 32; a row fills 24 bytes of a line, the rest
// of which (on average 40 and what is shared) is there and back again with each of many rows.
static void test_lines_of_many_panels_are_come_back_to(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Machine machine = meeting_core();
    double few = copying(arena, &machine, 96, 6).bytes,
           many = copying(arena, &machine, 1536, 6).bytes;
    assert_true(many >= few + 2 * 40.0 / 6);
    assert_near(copying(arena, &machine, 1536, 16).bytes, copying(arena, &machine, 96, 16).bytes,
                0.2);
    arena_free(arena);
}

// Without masks 6 elements of a vector of 8 are two stores; 4 of 8 are one with and without.
static void test_parts_of_vectors_are_several_stores(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Machine parts = meeting_core(), masks = parts;
    masks.has_masks = true;
    double more = copying(arena, &parts, 96, 6).cycles - copying(arena, &masks, 96, 6).cycles;
    assert_near(more, 1 / 6.0, 0.01);
    more = copying(arena, &parts, 96, 4).cycles - copying(arena, &masks, 96, 4).cycles;
    assert_near(1 + more, 1, 1e-9);
    arena_free(arena);
}

// Rows side by side whose lines lie in one page are followed, however few sets they meet; others
// are waited for.
static void test_lines_of_one_page_are_followed(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Machine waits = meeting_core(), follows = waits;
    follows.one_set_exposed = follows.one_set_far_exposed = 0;
    static const int64_t rows[] = {768, 3072}; // lines 3072 and 12288 bytes apart
    for (int i = 0; i < 2; i++) {
        GemmPlan plan = {rows[i], 64, 768, rows[i], 64, 256, 12, 6, 16, false, true};
        int64_t extents[] = {plan.rows, plan.lanes, plan.k};
        Kernel *kernel = cpu_gemm_beside(arena, &plan);
        double with = tile_cost(NULL, kernel, extents, &waits).seconds;
        double without = tile_cost(NULL, kernel, extents, &follows).seconds;
        if (i)
            assert_true(with > 1.1 * without);
        else
            assert_near(with, without, 1e-9);
    }
    arena_free(arena);
}

// Pieces of rows that meet in 4 sets are waited for, from L2 and from L3 by a fact of its own;
// where rows lie a line more apart, the sets keep them all.
static void test_few_sets_are_waited_for_by_level(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Machine waits = meeting_core(), follows = waits, near = waits;
    follows.one_set_exposed = follows.one_set_far_exposed = near.one_set_far_exposed = 0;
    for (int apart = 0; apart < 2; apart++) {
        int64_t lanes = apart ? 272 : 256;
        GemmPlan plan = {1056, lanes, 4096, 66, lanes, 256, 66, 6, 16, false, false};
        int64_t extents[] = {plan.rows, plan.lanes, plan.k};
        Kernel *kernel = cpu_gemm(arena, &plan);
        double exposed[3][N_FROM] = {{0}};
        const Machine *machines[] = {&waits, &near, &follows};
        for (int m = 0; m < 3; m++) {
            TileCost cost = tile_cost(arena, kernel, extents, machines[m]);
            for (uint32_t i = 0; i < cost.stages.count; i++)
                for (int level = 0; level < N_FROM; level++)
                    exposed[m][level] += cost.stages.at[i].exposed[level];
        }
        double more = apart ? 1 : 1.2;
        assert_true(exposed[0][FROM_L2] >= more * exposed[2][FROM_L2]);
        assert_true(exposed[0][FROM_L3] >= more * exposed[1][FROM_L3]);
        assert_near(exposed[0][FROM_L2], exposed[1][FROM_L2], 1e-9);
        assert_near(exposed[1][FROM_L3], exposed[2][FROM_L3], 1e-9);
        if (apart)
            assert_near(exposed[0][FROM_L3] + exposed[0][FROM_L2],
                        exposed[2][FROM_L3] + exposed[2][FROM_L2], 1e-9);
    }
    arena_free(arena);
}

// Rows side by side, each step's in a page of its own: all of its splats wait for that page.
static void test_splats_wait_for_pages(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Machine waits = waiting_core(), follows = waits;
    follows.scattered_exposed = 0;
    for (int far = 0; far < 2; far++) {
        GemmPlan plan = {far ? 3072 : 96, 64, 384, 3072, 64, 384, 0, 12, 16, false, true};
        int64_t extents[] = {plan.rows, plan.lanes, plan.k};
        Kernel *kernel = cpu_gemm_beside(arena, &plan);
        double steps = (double)(plan.rows / 12 * (plan.lanes / 16) * plan.k), cycles = 0;
        TileCost cost = tile_cost(arena, kernel, extents, &waits);
        TileCost less = tile_cost(arena, kernel, extents, &follows);
        for (uint32_t i = 0; i < cost.stages.count; i++)
            cycles += cost.stages.at[i].cycles - less.stages.at[i].cycles;
        assert_near(cycles, far ? waits.scattered_exposed * 12 * steps : 0, 0.01);
    }
    arena_free(arena);
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
    machine.splats_per_second = 7.3e9;
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
    StageCost small = fused_cost(arena, 384, 16).stages.at[MIX_LOGITS];
    StageCost large = fused_cost(arena, 512, 128).stages.at[MIX_LOGITS];
    assert_true(small.bytes[FROM_L3] < 0.1 * small.bytes[FROM_L2]);
    assert_true(large.bytes[FROM_L3] > 0.5 * large.bytes[FROM_L2]);
    arena_free(arena);
}

// Panels of K are waited for the more, the fewer rows have to do with each line, and less where row
// blocks ask for them; a machine that looks far ahead waits for none.
static void test_panels_of_arguments(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Machine waits = waiting_core(), follows = waits;
    follows.scattered_exposed = 0;
    double share[2];
    int64_t rows[] = {2, 12};
    for (int i = 0; i < 2; i++) {
        Fused fused = talking_heads(arena, 192, rows[i]);
        StageCost of = tile_cost(arena, fused.kernel, fused.extents, &waits).stages.at[QUERY_KEY];
        share[i] = of.exposed[FROM_L2] / of.bytes[FROM_L2];
        of = tile_cost(arena, fused.kernel, fused.extents, &follows).stages.at[QUERY_KEY];
        assert_true(of.exposed[FROM_L2] < 0.15 * of.bytes[FROM_L2]);
    }
    assert_true(share[0] > 0.9 && share[1] < 0.4);
    Fused asks = talking_heads(arena, 192, 24);
    StageCost asked = tile_cost(arena, asks.kernel, asks.extents, &waits).stages.at[QUERY_KEY];
    asks.kernel->schedule.prefetch = PREFETCH_NONE;
    StageCost alone = tile_cost(arena, asks.kernel, asks.extents, &waits).stages.at[QUERY_KEY];
    assert_near(asked.bytes[FROM_L2], alone.bytes[FROM_L2], 1e-9);
    assert_true(asked.exposed[FROM_L2] < 0.9 * alone.exposed[FROM_L2]);
    Fused far = talking_heads(arena, 1008, 12);
    StageCost all = tile_cost(arena, far.kernel, far.extents, &waits).stages.at[QUERY_KEY];
    assert_true(all.bytes[FROM_L3] > all.bytes[FROM_L2]);
    assert_true(all.exposed[FROM_L3] < 0.5 * all.bytes[FROM_L3]);
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
        cmocka_unit_test(test_order_of_blocks),
        cmocka_unit_test(test_order_where_rows_apart_are_waited_for),
        cmocka_unit_test(test_order_where_lines_meet_in_few_sets),
        cmocka_unit_test(test_order_where_vectors_meet_in_few_sets),
        cmocka_unit_test(test_lines_of_many_panels_are_come_back_to),
        cmocka_unit_test(test_parts_of_vectors_are_several_stores),
        cmocka_unit_test(test_lines_of_one_page_are_followed),
        cmocka_unit_test(test_few_sets_are_waited_for_by_level),
        cmocka_unit_test(test_splats_wait_for_pages),
        cmocka_unit_test(test_stages_of_fused_heads),
        cmocka_unit_test(test_order_of_rows_per_task),
        cmocka_unit_test(test_where_the_data_of_fused_heads_is),
        cmocka_unit_test(test_panels_of_arguments),
        cmocka_unit_test(test_threads_share_the_last_cache),
        cmocka_unit_test(test_what_is_due_to_rates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
