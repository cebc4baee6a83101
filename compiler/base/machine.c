// SPDX-License-Identifier: Apache-2.0
// What follows from the facts of a machine.
#include "base/machine.h"

int machine_lanes(const Machine *machine, size_t elem_bytes) {
    int lanes = machine->vector_bytes / (int)elem_bytes;
    return lanes < 1 ? 1 : lanes;
}

double machine_cycle(const Machine *machine) {
    return 4 * machine_lanes(machine, sizeof(float)) / machine->flops_per_second;
}
