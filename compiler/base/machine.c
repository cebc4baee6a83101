// SPDX-License-Identifier: Apache-2.0
// What follows from the facts of a machine.
#include "base/machine.h"

#include <math.h>

int machine_lanes(const Machine *machine, size_t elem_bytes) {
    int lanes = machine->vector_bytes / (int)elem_bytes;
    return lanes < 1 ? 1 : lanes;
}

double machine_cycle(const Machine *machine) {
    return 4 * machine_lanes(machine, sizeof(float)) / machine->flops_per_second;
}

double machine_bandwidth(const Machine *machine, double working_set) {
    if (working_set <= (double)machine->l1_bytes)
        return machine->l1_bytes_per_second;
    if (working_set <= (double)machine->l2_bytes)
        return machine->l2_bytes_per_second;
    if (working_set <= (double)machine->l3_bytes)
        return machine->l3_bytes_per_second;
    return machine->memory_bytes_per_second;
}

double machine_seconds(const Machine *machine, double flops, double bytes) {
    return fmax(flops / machine->flops_per_second, bytes / machine_bandwidth(machine, bytes));
}
