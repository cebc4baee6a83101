// SPDX-License-Identifier: Apache-2.0
// Contraction stages, shared by the files that emit them: what loops run and what one block is.
#ifndef ATTC_CPU_CONTRACT_H
#define ATTC_CPU_CONTRACT_H

#include "cpu/cpu.h"

typedef struct {
    CpuKernel *k;
    EmitModule *m;
    const Stage *stage;
    CpuAccess a, b, c;
    TileDimId loops[TILE_RANK_MAX]; // batch dims, then k dims that are looped over
    int n_loops;
    TileDimId flat[TILE_RANK_MAX]; // k dims of the microkernel, innermost first
    int n_flat;
    CpuMicroShape shape; // of a full block
    CpuMicroCall call;
    bool rows_fixed;     // blocks of rows must start at multiples of the full block (panels)
    bool b_whole;        // vectors of b may be read beyond the last lane
    LLVMValueRef next_b; // elements: where b is read after the current turn or block of lanes
} Contract;

// ---- contract_shape.c: loops and k dims, the microkernel of a full block ----
void contract_classify(Contract *contract);
void contract_choose_shape(Contract *contract);
LLVMValueRef contract_length(const Contract *contract, TileDimId dim); // of no dim: 1
bool contract_is_panel_dim(const Contract *contract, const Access *access, TileDimId dim);

// ---- contract_ahead.c: asking for what is read after a block of b ----
// Sets ahead, asks_rows and asks_b of the shape, for blocks of shape->rows rows.
void contract_choose_ahead(const Contract *contract, CpuMicroShape *shape);
// These set next_b: before the loops; in a turn of loop `i`, at `at` from the start of the range,
// and in a block of lanes at `at`, before their dims are entered.
void contract_ahead_begin(Contract *contract);
void contract_ahead_of_turn(Contract *contract, int i, LLVMValueRef at);
void contract_ahead_of_lanes(Contract *contract, LLVMValueRef at, LLVMValueRef block);
// What the row block at `row` asks for: a pointer.
LLVMValueRef contract_ahead_of_rows(const Contract *contract, const CpuMicroShape *shape,
                                    LLVMValueRef row);

#endif
