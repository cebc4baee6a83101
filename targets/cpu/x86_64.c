// SPDX-License-Identifier: Apache-2.0
// x86-64 as facts: the levels v3 (AVX2, FMA) and v4 (AVX-512 F BW CD DQ VL) of the psABI.
//
// Sizes and rates are those of a common server core and serve the cost model; a kernel is correct
// whatever they are. Most rows of a microkernel are those that were fastest, of a packed and of an
// unpacked operand.
#include "cpu/cpu.h"

const Target x86_64_v3 = {
    .name = "x86-64-v3",
    .triple = "x86_64-unknown-linux-gnu",
    .cpu = "x86-64-v3",
    .features = "",
    .level = ATT_LEVEL_X86_64_V3,
    .machine =
        {
            .name = "x86-64-v3",
            .vector_bytes = 32,
            .vector_registers = 16,
            .has_masks = false,
            .rows_unpacked = 6,
            .rows_packed = 6,
            .l1_bytes = 32 << 10,
            .l2_bytes = 1 << 20,
            .l3_bytes = 4 << 20,
            .flops_per_second = 80e9,
            .splats_per_second = 5e9,
            .l1_bytes_per_second = 150e9,
            .l2_bytes_per_second = 80e9,
            .l3_bytes_per_second = 30e9,
            .memory_bytes_per_second = 15e9,
            .l2_write_cost = 2,
            .l3_write_cost = 2,
            .memory_write_cost = 2,
            .threads = 8,
            .task_seconds = 0.5e-6,
            .launch_seconds = 5e-6,
        },
    .measure = cpu_measure,
    .emit_kernel = cpu_emit_kernel,
};

const Target x86_64_v4 = {
    .name = "x86-64-v4",
    .triple = "x86_64-unknown-linux-gnu",
    .cpu = "x86-64-v4",
    .features = "",
    .level = ATT_LEVEL_X86_64_V4,
    .machine =
        {
            .name = "x86-64-v4",
            .vector_bytes = 64,
            .vector_registers = 32,
            .has_masks = true,
            .rows_unpacked = 12,
            .rows_packed = 14,
            .l1_bytes = 48 << 10,
            .l2_bytes = 1 << 20,
            .l3_bytes = 4 << 20,
            .flops_per_second = 180e9,
            .splats_per_second = 5.6e9,
            .l1_bytes_per_second = 200e9,
            .l2_bytes_per_second = 120e9,
            .l3_bytes_per_second = 30e9,
            .memory_bytes_per_second = 18e9,
            .l2_write_cost = 2,
            .l3_write_cost = 2,
            .memory_write_cost = 2,
            .threads = 8,
            .task_seconds = 0.5e-6,
            .launch_seconds = 5e-6,
        },
    .measure = cpu_measure,
    .emit_kernel = cpu_emit_kernel,
};
