// SPDX-License-Identifier: Apache-2.0
// Contraction stages whose lanes a, b and c have, a product of matrices of its own for each lane:
//
//     c[row, col, lane] += sum over the summed dims of a[row, lane] * b[col, lane]
//
// The lanes are the innermost of the batch dims, a few vectors at a time, so that all blocks of
// rows x cols of these read what is in L1. A set of sums is that of one vector. What is missing of
// the last vector is masked.
#include "cpu/blocks.h"

static void load_vectors(Blocks *b, const CpuAccess *from, TileDimId along, int count, int set,
                         EmitValue *vectors) {
    LLVMValueRef by = index_const(b->m, 0);
    if (along != TILE_DIM_NONE)
        by = cpu_access_stride(b->k, from->access, along);
    for (int i = 0; i < count; i++) {
        CpuAccess at = *from;
        at.offset = index_add(b->m, at.offset, index_mul(b->m, by, index_const(b->m, i)));
        vectors[i] = cpu_access_load(b->k, &at, b->width, set * b->width, b->mask, NULL);
        vectors[i].elem = b->elem; // a half is an f32 in registers
    }
}

static void multiply(Blocks *b) {
    EmitValue rows[BLOCK_MAX], cols[BLOCK_MAX];
    for (int set = 0; set < b->vectors; set++) {
        load_vectors(b, &b->b, b->stage->cols, b->cols, set, cols);
        load_vectors(b, &b->a, b->stage->rows, b->rows, set, rows);
        blocks_multiply(b, rows, cols, b->sum + set * b->rows * b->cols);
    }
}

static LLVMValueRef step_along(Blocks *b, TileDimId dim, int steps) {
    return dim == TILE_DIM_NONE ? index_const(b->m, 0)
                                : index_mul(b->m, cpu_access_stride(b->k, b->c.access, dim),
                                            index_const(b->m, steps));
}

static void store_sum(Blocks *b, int set, int row, int col, LLVMValueRef first) {
    EmitValue sum = {b->sum[(set * b->rows + row) * b->cols + col], b->elem, b->width};
    CpuAccess at = b->c;
    at.offset = index_add(b->m, at.offset, step_along(b, b->stage->rows, row));
    at.offset = index_add(b->m, at.offset, step_along(b, b->stage->cols, col));
    if (first) {
        EmitValue before = cpu_access_load(b->k, &at, b->width, set * b->width, b->mask, NULL);
        EmitValue both = emit_add(b->m, before, sum);
        sum = cpu_never(first) ? both : emit_select(b->m, first, sum, both);
    }
    cpu_access_store(b->k, &at, sum, set * b->width, b->mask);
}

static void emit_one_block(Blocks *b) {
    blocks_emit_summed(b);
    TileDimList entered = {0};
    LLVMValueRef first = cpu_first(b->k, &b->stage->c, &entered);
    for (int set = 0; set < b->vectors; set++)
        for (int row = 0; row < b->rows; row++)
            for (int col = 0; col < b->cols; col++)
                store_sum(b, set, row, col, first);
}

// ---- the lanes ---------------------------------------------------------------------------------

static void emit_vectors(Blocks *b, LLVMValueRef from, LLVMValueRef to, int vectors, bool masked) {
    EmitModule *m = b->m;
    EmitLoop loop;
    TileDimId lanes = b->stage->lanes;
    b->vectors = b->sets = vectors;
    emit_loop_open(m, &loop, from, to, index_const(m, (int64_t)vectors * b->width), false, NULL, 0);
    if (masked)
        b->mask = emit_first_lanes(m, index_sub(m, to, loop.at), b->width);
    BlockOffsets saved = blocks_save(b);
    blocks_enter(b, lanes, index_add(m, b->k->range[lanes].lo, loop.at));
    blocks_over_rows(b);
    blocks_restore(b, saved);
    b->mask = NULL;
    emit_loop_close(m, &loop, NULL, NULL);
}

static void emit_lanes(Blocks *b) {
    EmitModule *m = b->m;
    LLVMValueRef len = b->k->range[b->stage->lanes].len;
    int vectors = b->stage->lane_block / b->width;
    vectors = vectors < 1 ? 1 : vectors;
    int64_t length, chunk = (int64_t)vectors * b->width;
    LLVMValueRef whole = index_sub(m, len, index_rem(m, len, chunk));
    bool known = index_known(len, &length);
    if (!known || length >= chunk)
        emit_vectors(b, index_const(m, 0), whole, vectors, false);
    if (!known || length % chunk)
        emit_vectors(b, whole, len, 1, true);
}

void cpu_emit_lanewise(CpuKernel *k, const Stage *stage) {
    Blocks b;
    blocks_open(&b, k, stage, stage->lanes);
    if (b.a.kind != LANES_UNIT || b.b.kind != LANES_UNIT || b.c.kind != LANES_UNIT)
        ice("cpu lanewise: vectors of lanes are not contiguous");
    b.block = emit_one_block;
    b.innermost = multiply;
    blocks_over_batch(&b, emit_lanes);
}
