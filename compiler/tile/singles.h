// SPDX-License-Identifier: Apache-2.0
// What a kernel stores one number at a time, such as sums across the lanes. A processor hands a
// store on to a load of the same bytes; a vector of several stores waits until all of them are in
// the cache, behind all stores before them.
//
//     compute t += x       over n m  lanes=m         # t: one number at a time
//     compute t = t / 768  over n    lanes=n         # gathers them
//
// For a walk over the stages in the order in which they run.
#ifndef ATTC_TILE_SINGLES_H
#define ATTC_TILE_SINGLES_H

#include "tile/tile.h"

typedef struct {
    const Kernel *kernel;
    bool *stored; // by memory: one number at a time, when it was written last
} Singles;

Singles singles_new(Arena *arena, const Kernel *kernel);
// Does the compute stage load vectors of such numbers?
bool singles_gathered(const Singles *singles, const Stage *stage);
void singles_note(Singles *singles, const Stage *stage); // after the stage

#endif
