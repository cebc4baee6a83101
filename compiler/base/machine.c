// SPDX-License-Identifier: Apache-2.0
// What follows from the facts of a machine.
#include "base/machine.h"

#include <math.h>

int machine_lanes(const Machine *machine, size_t elem_bytes) {
    int lanes = machine->vector_bytes / (int)elem_bytes;
    return lanes < 1 ? 1 : lanes;
}

int machine_panel_lanes(const Machine *machine, size_t elem_bytes) {
    return 2 * machine_lanes(machine, elem_bytes);
}

int machine_block_rows(const Machine *machine, int vectors, bool masks) {
    int others = 1 + vectors * (masks && !machine->has_masks ? 2 : 1);
    return (machine->vector_registers - others) / vectors;
}

Machine machine_with_threads(const Machine *machine, int threads) {
    Machine out = *machine;
    out.threads = threads;
    out.l3_bytes = machine->l3_bytes * machine->threads / threads;
    return out;
}

static int smaller(int a, int b) {
    return a < b ? a : b;
}

Machine machine_within(Machine facts, const Machine *limits) {
    Machine out = facts;
    out.vector_bytes = smaller(facts.vector_bytes, limits->vector_bytes);
    out.vector_registers = smaller(facts.vector_registers, limits->vector_registers);
    out.has_masks = facts.has_masks && limits->has_masks;
    out.rows_unpacked = smaller(facts.rows_unpacked, limits->rows_unpacked);
    out.rows_packed = smaller(facts.rows_packed, limits->rows_packed);
    double part = (double)out.vector_bytes / facts.vector_bytes;
    out.flops_per_second *= part;
    out.l1_bytes_per_second *= part;
    return out;
}

double machine_cycle(const Machine *machine) {
    return 4 * machine_lanes(machine, sizeof(float)) / machine->flops_per_second;
}

double machine_bandwidth(const Machine *machine, double working_set) {
    if (working_set <= (double)machine->l1_bytes)
        return machine->l1_bytes_per_second;
    if (working_set <= (double)machine->l2_bytes)
        return machine->l2_bytes_per_second;
    if (working_set <= (double)machine->l3_bytes * machine->threads)
        return machine->l3_bytes_per_second;
    return machine->memory_bytes_per_second;
}

double machine_seconds(const Machine *machine, double flops, double bytes) {
    return flops / machine->flops_per_second + bytes / machine_bandwidth(machine, bytes);
}
