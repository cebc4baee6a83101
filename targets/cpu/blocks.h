// SPDX-License-Identifier: Apache-2.0
// Contraction stages in blocks of rows x cols of vectors of sums, which stay in registers: what
// those with summed lanes (dots.c) and those with lanes in all three (lanewise.c) have in common.
//
//     batch dims            loops
//       rows, cols          blocks of rows x cols
//         summed dims       loops; the products of a block's vectors are added to its sums
#ifndef ATTC_TARGETS_CPU_BLOCKS_H
#define ATTC_TARGETS_CPU_BLOCKS_H

#include "cpu/cpu.h"

enum { BLOCK_MAX = 32, SUMS_MAX = 64 };

typedef struct Blocks Blocks;
typedef void BlockBody(Blocks *b);

struct Blocks {
    CpuKernel *k;
    EmitModule *m;
    const Stage *stage;
    CpuAccess a, b, c;
    TileDimId batch[TILE_RANK_MAX], summed[TILE_RANK_MAX]; // but the lanes
    int n_batch, n_summed;
    Elem elem;          // of the sums
    int width, vectors; // of lanes, and how many of them a block has that are not summed
    int rows, cols;     // of the block at hand
    int sets; // of sums, [set][row][col]: parts of the sums, or those of each vector of lanes
    LLVMValueRef sum[SUMS_MAX]; // vectors
    LLVMValueRef mask;          // of the lanes; NULL: all of them
    BlockBody *block;           // emits one
    BlockBody *innermost;       // adds the products at one point of the summed dims
};

typedef struct {
    LLVMValueRef a, b, c;
} BlockOffsets;

// lanes: those of the accesses' vectors, or TILE_DIM_NONE: addresses are those of single elements.
void blocks_open(Blocks *b, CpuKernel *k, const Stage *stage, TileDimId lanes);
void blocks_enter(Blocks *b, TileDimId dim, LLVMValueRef at);
BlockOffsets blocks_save(const Blocks *b);
void blocks_restore(Blocks *b, BlockOffsets saved);

void blocks_over_batch(Blocks *b, BlockBody *body); // at each point of the batch dims
void blocks_over_rows(Blocks *b);                   // b->block for all blocks at such a point
uint32_t blocks_sums(const Blocks *b);              // of a block
// b->innermost at all points of the summed dims; afterwards the sums are whole.
void blocks_emit_summed(Blocks *b);
// The products of one set: of the rows' vectors with the columns', added to its sums.
void blocks_multiply(Blocks *b, const EmitValue *rows, const EmitValue *cols, LLVMValueRef *sum);

#endif
