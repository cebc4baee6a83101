// SPDX-License-Identifier: Apache-2.0
// Which loads stall on stores. A processor forwards a store to a load of the same bytes; a vector
// of numbers that were stored one by one, such as sums across the lanes, waits until all of them
// are in the cache, behind all stores before them.
//
//     compute t += x       over n m  lanes=m         # stores t one number at a time
//     compute t = t / 768  over n    lanes=n         # stalls
//
// For a walk over the stages in the order in which they run.
// Source: store forwarding in the Intel 64 and IA-32 Architectures Optimization Reference Manual.
#ifndef ATTC_TILE_FORWARDING_H
#define ATTC_TILE_FORWARDING_H

#include "tile/tile.h"

// Cycles that a stage waits for. Measured on an Intel Xeon (6.167.1): norms, softmax and sums of 64
// to 4096 numbers in blocks of 1 to 16 rows.
enum { FORWARDING_STALL = 100 };

typedef struct {
    const Kernel *kernel;
    bool *single; // by memory: stored one number at a time, when it was written last
} Forwarding;

Forwarding forwarding_new(Arena *arena, const Kernel *kernel);
// Does the compute stage load vectors of such numbers?
bool forwarding_stalls(const Forwarding *forwarding, const Stage *stage);
void forwarding_note(Forwarding *forwarding, const Stage *stage); // after the stage

#endif
