// SPDX-License-Identifier: Apache-2.0
// A contraction on its way to nodes: what contract.c found out and contract_nodes.c
// builds.
#ifndef ATTC_TILE_LOWER_CONTRACT_H
#define ATTC_TILE_LOWER_CONTRACT_H

#include "tile/lower/lower.h"

typedef struct {
    Lowering *lower;
    const Value *c, *a, *b;
    DimSet batch, rows_all, lanes_all, summed;
    TileDimId rows, lanes;
    TileDimList k; // summed dims, outermost first
    Elem elem;
    Access a_access, b_access, c_access;
    bool a_in_place, b_in_place;    // as far as values go; the schedule decides
    TileDimList a_source, b_source; // memory order of what is read
    int result;                     // argument that the sums are kept in, or NO_BUFFER: scratch
    TileDimList result_order;
    ContractSchedule schedule;
    int64_t steps[64]; // of parallel loops, per kernel dim
    // An operand whose contiguous dim is a batch dim is packed for all batches of the task at once,
    // so that its lines are used up.
    bool a_early, b_early;
    bool a_crossing; // likewise of another dim of rows, for all of those of the task
    bool scaled;     // the factor is already in an operand
} Contract;
// Requires: schedule and steps are settled, no node was made yet.
void contract_emit(Contract *x);

#endif
