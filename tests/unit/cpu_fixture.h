// SPDX-License-Identifier: Apache-2.0
// Kernels made by hand, compiled for a CPU level and run next to the tile interpreter.
#ifndef ATTC_TESTS_CPU_FIXTURE_H
#define ATTC_TESTS_CPU_FIXTURE_H

#include "emit/emit.h"

// ---- a compiled kernel ----
typedef struct CpuCode CpuCode;
CpuCode *cpu_code_new(Arena *arena, const Kernel *kernel, const Target *target);
void cpu_code_free(CpuCode *code);
// All tasks, one after the other, in scratch memory that starts as NaN and has guards around it.
// Those that take turns all at once.
void cpu_code_run(CpuCode *code, const int64_t *extents, void *const *buffers);
// Seconds that LLVM took; next to none for a kernel that has just been compiled.
double cpu_code_seconds(const CpuCode *code);
Blob cpu_code_object(const CpuCode *code);
bool cpu_level_runs(const Target *target); // on this machine

// ---- against the interpreter ----
// Random inputs (floats in [-1, 1), integers 0..3, bools; NaN and infinity behind the end of
// panels), outputs filled with NaN and guarded. Fails the test unless every element agrees with
// kernel_interpret() to `tolerance` (relative above 1, absolute below; integers exactly; NaN equals
// NaN).
void cpu_compare(const Kernel *kernel, const int64_t *extents, double tolerance);
// With a look at what the interpreter computed, by argument.
typedef void (*CpuExpect)(const int64_t *extents, void *const *buffers);
void cpu_compare_and(const Kernel *kernel, const int64_t *extents, double tolerance,
                     CpuExpect expect);
void cpu_fill(const TileBuffer *buffer, const int64_t *extents, void *data, uint64_t seed);

// ---- a contraction kernel as the schedule makes them ----
typedef struct {
    int64_t rows, lanes, k;        // EXTENT_DYNAMIC: read at run time
    int64_t task_rows, task_lanes; // parallel pieces
    int64_t block_k, block_rows;   // cache blocks (0: none)
    int row_block, lane_block;     // microkernel
    bool pack_a, pack_b;
} GemmPlan;
// c[n f] = a[n d] b[d f]. Dims in this order: n f d.
Kernel *cpu_gemm(Arena *arena, const GemmPlan *plan);
// With a[d n], as gradients of weights are: the rows lie side by side.
Kernel *cpu_gemm_beside(Arena *arena, const GemmPlan *plan);

#endif
