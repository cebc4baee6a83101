// SPDX-License-Identifier: Apache-2.0
// The heads of attention as something to be measured and removed.
//
//     heads.c   graph_head_masks: a factor for each head
//     groups.c  graph_head_groups: what is removed with a head
#ifndef ATTC_GRAPH_HEADS_H
#define ATTC_GRAPH_HEADS_H

#include "graph/rewrite/rewrite.h"

// ---- heads.c -----------------------------------------------------------------------------------
typedef struct {
    const Value *input; // of the masked graph: f32 over the heads
    Name of;            // the value that it masks, with its path: layer.0.attend.W
} HeadMask;
typedef struct {
    Graph *graph; // the same results, with the masks as the last inputs
    VEC(HeadMask) masks;
} HeadMasks;
HeadMasks graph_head_masks(const Graph *graph);

#endif
