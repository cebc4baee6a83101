// SPDX-License-Identifier: Apache-2.0
// Short ways to write kernels by hand: every access is of the buffer's own dims, all is f32.
#ifndef ATTC_TESTS_HAND_FIXTURE_H
#define ATTC_TESTS_HAND_FIXTURE_H

#include "tile/tile.h"

// ---- nodes ----
NodeList *hand_tasks(Kernel *k, TileDimId dim, int64_t step); // the body of a parallel loop
NodeList *hand_loop(Kernel *k, NodeList *into, TileDimId dim, int64_t step);
uint16_t hand_scratch(Kernel *k, NodeList *into, Name name, TileDimList dims, double initial);
// LO, HI, EXTENT or NUMBER, for an end of the range.
int32_t hand_edge(Kernel *k, Node *range, BoundKind kind, TileDimId dim, int64_t number);

// ---- stages ----
int32_t hand_load(Kernel *k, Stage *stage, uint16_t buffer);
void hand_sink(Kernel *k, Stage *stage, SinkMode mode, uint16_t buffer, int32_t term);
int32_t hand_op(Kernel *k, Stage *stage, Op op, int32_t a, int32_t b);
// `to` mode= `from`
Stage *hand_store(Kernel *k, NodeList *into, TileDimList dims, TileDimId lanes, SinkMode mode,
                  uint16_t to, uint16_t from);
typedef struct {
    TileDimId rows, lanes;
    int row_block, lane_block;
} HandBlocks;
// c += a * b
Stage *hand_contract(Kernel *k, NodeList *into, TileDimList dims, Access c, Access a, Access b,
                     HandBlocks blocks);

#endif
