// SPDX-License-Identifier: Apache-2.0
// No vector leaves its register inside a contraction loop: every microkernel shape that the
// schedules of both x86-64 levels may ask for is compiled, disassembled and searched.
#include "support.h"

#include "cpu_fixture.h"
#include "spills.h"

static void check_plan(const Target *target, GemmPlan plan) {
    Arena *arena = arena_new();
    CpuCode *code = cpu_code_new(arena, cpu_gemm(arena, &plan), target);
    Spills found = spills_find(cpu_code_object(code));
    if (found.spills)
        fail_msg("%s, %d x %d%s: %d spills in %d loops, the first one %s", target->name,
                 plan.row_block, plan.lane_block, plan.pack_a ? " packed" : "", found.spills,
                 found.loops, found.first);
    int sums = plan.row_block * plan.lane_block / (target->machine.vector_bytes / 4);
    if (found.multiply_adds < sums / 2) // the search itself must have found the loops
        fail_msg("%s, %d x %d: only %d multiply-adds found", target->name, plan.row_block,
                 plan.lane_block, found.multiply_adds);
    cpu_code_free(code);
    arena_free(arena);
}

// Known extents, unknown ones, and known ones with remainders in all directions.
static void check_shape(const Target *target, int rows, int vectors, bool pack_a, bool pack_b) {
    static const int64_t extents[][3] = {{256, 768, 768},
                                         {EXTENT_DYNAMIC, EXTENT_DYNAMIC, EXTENT_DYNAMIC},
                                         {101, 203, 64},
                                         {EXTENT_DYNAMIC, 768, 768}};
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
        check_plan(target, (GemmPlan){.rows = extents[i][0],
                                      .lanes = extents[i][1],
                                      .k = extents[i][2],
                                      .task_rows = 128,
                                      .task_lanes = 384,
                                      .block_k = 256,
                                      .row_block = rows,
                                      .lane_block = vectors * target->machine.vector_bytes / 4,
                                      .pack_a = pack_a,
                                      .pack_b = pack_b});
}

static void test_v4(void **state) {
    (void)state;
    static const int shapes[][2] = {{6, 4}, {8, 3}, {9, 3}, {12, 2}, {13, 2}, {14, 2},
                                    {4, 2}, {1, 4}, {2, 8}, {16, 1}, {28, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int packs = 0; packs < 4; packs++)
            check_shape(&x86_64_v4, shapes[i][0], shapes[i][1], packs & 1, packs & 2);
}

static void test_v3(void **state) {
    (void)state;
    static const int shapes[][2] = {{6, 2}, {4, 3}, {5, 2}, {4, 2}, {1, 4}, {12, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int packs = 0; packs < 4; packs++)
            check_shape(&x86_64_v3, shapes[i][0], shapes[i][1], packs & 1, packs & 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_v4), cmocka_unit_test(test_v3)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
