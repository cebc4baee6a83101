// SPDX-License-Identifier: Apache-2.0
// Kernels written by hand for tests, a line per node.
#include "hand_fixture.h"

int32_t hand_load(Kernel *k, Stage *stage, uint16_t buffer) {
    return stage_load(k, stage, access_plain(k, buffer));
}

void hand_sink(Kernel *k, Stage *stage, SinkMode mode, uint16_t buffer, int32_t term) {
    stage_sink(k, stage, mode, access_plain(k, buffer), term);
}

int32_t hand_op(Kernel *k, Stage *stage, Op op, int32_t a, int32_t b) {
    return stage_op(k, stage, op, ELEM_F32, a, b, -1);
}

Stage *hand_store(Kernel *k, NodeList *into, TileDimList dims, TileDimId lanes, SinkMode mode,
                  uint16_t to, uint16_t from) {
    Stage *stage = node_compute(k, into, dims, lanes);
    hand_sink(k, stage, mode, to, hand_load(k, stage, from));
    return stage;
}

Stage *hand_contract(Kernel *k, NodeList *into, TileDimList dims, Access c, Access a, Access b,
                     HandBlocks blocks) {
    Stage *stage = node_contract(k, into, dims, c, a, b);
    stage->rows = blocks.rows;
    stage->lanes = blocks.lanes;
    stage->row_block = blocks.row_block;
    stage->lane_block = blocks.lane_block;
    return stage;
}

uint16_t hand_scratch(Kernel *k, NodeList *into, Name name, TileDimList dims, double initial) {
    uint16_t buffer = node_scratch(k, into, name, ELEM_F32, dims);
    buffer_begin_with(k, buffer, initial);
    return buffer;
}

NodeList *hand_loop(Kernel *k, NodeList *into, TileDimId dim, int64_t step) {
    return &node_loop(k, into, LOOP_SEQUENTIAL, dim, step)->body;
}

NodeList *hand_tasks(Kernel *k, TileDimId dim, int64_t step) {
    return &node_loop(k, &k->body, LOOP_PARALLEL, dim, step)->body;
}

int32_t hand_edge(Kernel *k, Node *range, BoundKind kind, TileDimId dim, int64_t number) {
    return range_bound(k, range, (Bound){.kind = kind, .dim = dim, .number = number});
}
