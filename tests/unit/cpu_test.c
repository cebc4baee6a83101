// SPDX-License-Identifier: Apache-2.0
// CPU code against the tile interpreter, at both x86-64 levels: hand-made kernels over a grid of
// extents, known when compiling and read at run time.
#include "support.h"

#include "cpu_fixture.h"

static const int64_t sizes[] = {1, 2, 3, 5, 7, 13, 17, 31, 33, 64, 65, 127};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

// ---- contractions ----------------------------------------------------------------------------------

static void compare_gemm(GemmPlan plan, int64_t n, int64_t f, int64_t d, bool dynamic) {
    Arena *arena = arena_new();
    plan.rows = dynamic ? EXTENT_DYNAMIC : n;
    plan.lanes = dynamic ? EXTENT_DYNAMIC : f;
    plan.k = dynamic ? EXTENT_DYNAMIC : d;
    cpu_compare(cpu_gemm(arena, &plan), (int64_t[]){n, f, d}, 2e-5);
    arena_free(arena);
}

static void test_gemm(void **state) {
    (void)state;
    static const GemmPlan plans[] = {
        {.task_rows = 128, .task_lanes = 128, .row_block = 6, .lane_block = 64},
        {.task_rows = 32, .task_lanes = 48, .block_k = 20, .row_block = 14, .lane_block = 32,
         .pack_b = true},
        {.task_rows = 64, .task_lanes = 64, .block_k = 32, .block_rows = 28, .row_block = 14,
         .lane_block = 32, .pack_a = true, .pack_b = true},
        {.task_rows = 16, .task_lanes = 127, .row_block = 1, .lane_block = 16},
    };
    for (size_t p = 0; p < sizeof plans / sizeof *plans; p++)
        for (int i = 0; i < N_SIZES; i++)
            for (int dynamic = 0; dynamic < 2; dynamic++) {
                int64_t f = sizes[(i * 5 + 3) % N_SIZES], d = sizes[(i * 7 + 1) % N_SIZES];
                compare_gemm(plans[p], sizes[i], f, d, dynamic);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
