// SPDX-License-Identifier: Apache-2.0
// A streamed group on its way to one kernel: its loops over the streamed dim (loops.c), and the
// nests inside and between them (stream.c).
#ifndef ATTC_TILE_LOWER_STREAM_H
#define ATTC_TILE_LOWER_STREAM_H

#include "tile/lower/nest.h"

// The power that a wide value is linear in, and the loop before which all else that plays a part in
// it is known.
typedef struct {
    const Value *power; // NULL: it is linear in none
    uint32_t others;
} Linear;

// Loops are counted from 1. A value without the streamed dim is known after some loop (0: before
// all); one with it can be computed in any loop from its first one on.
typedef struct {
    const Lowering *lower;
    DimId streamed;
    bool rescales; // may reductions run relative to a shift that is not yet known?
    uint32_t n_loops;
    uint32_t *first, *done; // by value id: with, without the streamed dim
    Linear *linear;         // by value id, of wide members
    const Value **power;    // by value id: a reduction is rescaled with this power's shift, or NULL
} StreamLoops;

StreamLoops *stream_loops(const Lowering *lower, bool rescales);
// Is it a reduction over the streamed dim that runs in this loop?
bool stream_reduces_in(const StreamLoops *loops, const Value *value, uint32_t loop);

// The first contraction that sums over dims that the maxima of its powers have (heads that are
// mixed after the softmax), and these dims; NULL: there is none.
const Value *stream_mixes(const StreamLoops *loops, DimList *mixed);

// ranges.c: narrows the streamed dim to what the group's masks leave of it for a task. Returns
// where nodes go from now on: `into` when there is nothing to gain.
NodeList *stream_open_range(Lowering *lower, const Nest *nest, TileDimId streamed, NodeList *into);

#endif
