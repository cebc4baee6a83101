// SPDX-License-Identifier: Apache-2.0
// A machine as plain facts: what every choice of the compiler that is about speed is made from.
//
// Nothing here changes what a program computes, only how it is cut and ordered. All levels read the
// same record, so that what one level plans is what the next one expects. A target has the facts of
// a common machine of its kind.
#ifndef ATTC_MACHINE_H
#define ATTC_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *name;
    // vectors
    int vector_bytes; // width of the vectors that kernels use
    int vector_registers;
    bool has_masks; // masked loads and stores cost the same as plain ones
    // microkernels: most rows when the operand of the rows lies in place, and when it is packed
    int rows_unpacked, rows_packed;
    // caches: what one core can count on, of a shared one its part
    int64_t l1_bytes, l2_bytes, l3_bytes;
    // rates of one core
    double flops_per_second;  // f32, a fused multiply-add counts two
    double splats_per_second; // loads of one element from L1 into all lanes of a vector
    double l1_bytes_per_second, l2_bytes_per_second, l3_bytes_per_second, memory_bytes_per_second;
    // of a byte that is written and goes back there some time: the bytes that are read meanwhile
    double l2_write_cost, l3_write_cost, memory_write_cost;
    // of what microkernels ask for line by line in rows apart, the part that they wait for beside
    // their arithmetic, at the rates above; what else is waited for is told in times of it
    double scattered_exposed;
    // the same of lines that meet in one set of L1, from L2 and from further away; less where they
    // meet in more sets
    double one_set_exposed, one_set_far_exposed;
    // threads
    int threads;           // cores that work is planned for
    double task_seconds;   // starting one task
    double launch_seconds; // sharing a kernel's tasks out to threads and waiting for the last
} Machine;

// Bytes, on all machines that there is code for.
enum { MACHINE_LINE = 64, MACHINE_PAGE = 4096 };

// Lanes of a vector of elements of this size, at least one.
int machine_lanes(const Machine *machine, size_t elem_bytes);
// Columns of a panel that a microkernel reads: two vectors.
int machine_panel_lanes(const Machine *machine, size_t elem_bytes);
// Most rows of a microkernel with so many vectors a row: its sums, the vectors of b, as many of
// masks where those take registers, and a splat of a are in registers. May be below 1.
int machine_block_rows(const Machine *machine, int vectors, bool masks);
// The same machine with another number of threads: what its last cache holds in all stays.
Machine machine_with_threads(const Machine *machine, int threads);
// The facts as far as code for `limits` can use them: its vectors, registers and microkernels at
// most. Narrower vectors have lower rates, but for splats.
Machine machine_within(Machine facts, const Machine *limits);
// Seconds of one cycle: a core issues two fused multiply-adds of whole vectors in it.
double machine_cycle(const Machine *machine);
// Bytes per second of one core from the smallest level that holds a working set that all threads
// have in common.
double machine_bandwidth(const Machine *machine, double working_set);
// What well-shaped work takes that has these flops and touches these bytes once: its arithmetic and
// its traffic one after the other. Where they overlap this is at most twice too much, and of two
// orders that wait for the same memory the one with less arithmetic is never the slower.
double machine_seconds(const Machine *machine, double flops, double bytes);
#endif
