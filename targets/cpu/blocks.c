// SPDX-License-Identifier: Apache-2.0
// Loops around blocks of vectors of sums; see blocks.h.
#include "cpu/blocks.h"

void blocks_enter(Blocks *b, TileDimId dim, LLVMValueRef at) {
    b->k->at[dim] = at;
    cpu_access_enter(b->k, &b->a, dim);
    cpu_access_enter(b->k, &b->b, dim);
    cpu_access_enter(b->k, &b->c, dim);
}

BlockOffsets blocks_save(const Blocks *b) {
    return (BlockOffsets){b->a.offset, b->b.offset, b->c.offset};
}

void blocks_restore(Blocks *b, BlockOffsets saved) {
    b->a.offset = saved.a;
    b->b.offset = saved.b;
    b->c.offset = saved.c;
}

void blocks_open(Blocks *b, CpuKernel *k, const Stage *stage, TileDimId lanes) {
    *b = (Blocks){.k = k, .m = k->module, .stage = stage, .vectors = 1};
    b->elem = k->kernel->buffers.at[stage->c.buffer].elem;
    b->width = machine_lanes(&b->m->target->machine, elem_bytes(b->elem));
    cpu_access_open(k, &b->a, &stage->a, lanes, b->width, NULL);
    cpu_access_open(k, &b->b, &stage->b, lanes, b->width, NULL);
    cpu_access_open(k, &b->c, &stage->c, lanes, b->width, NULL);
    for (int i = 0; i < stage->n_dims; i++) {
        TileDimId dim = stage->dims[i];
        if (dim == stage->lanes || dim == stage->rows || dim == stage->cols)
            continue;
        if (access_has_dim(&stage->c, dim))
            b->batch[b->n_batch++] = dim;
        else
            b->summed[b->n_summed++] = dim;
    }
    for (uint32_t dim = 0; dim < k->kernel->dims.count; dim++)
        if (!stage_has_dim(stage, (TileDimId)dim)) // stands at the start of its range
            blocks_enter(b, (TileDimId)dim, k->range[dim].lo);
}

// ---- the sums ----------------------------------------------------------------------------------

uint32_t blocks_sums(const Blocks *b) {
    return (uint32_t)(b->sets * b->rows * b->cols);
}

void blocks_multiply(Blocks *b, const EmitValue *rows, const EmitValue *cols, LLVMValueRef *sum) {
    for (int i = 0; i < b->rows; i++)
        for (int j = 0; j < b->cols; j++, sum++)
            *sum =
                emit_multiply_add(b->m, rows[i], cols[j], (EmitValue){*sum, b->elem, b->width}).ref;
}

static void emit_summed(Blocks *b, int i) {
    if (i == b->n_summed) {
        b->innermost(b);
        return;
    }
    EmitModule *m = b->m;
    TileDimId dim = b->summed[i];
    const CpuRange *range = &b->k->range[dim];
    EmitLoop loop;
    emit_loop_open(m, &loop, index_const(m, 0), range->len, index_const(m, 1), true, b->sum,
                   blocks_sums(b));
    for (uint32_t s = 0; s < blocks_sums(b); s++)
        b->sum[s] = loop.carried[s];
    BlockOffsets saved = blocks_save(b);
    blocks_enter(b, dim, index_add(m, range->lo, loop.at));
    emit_summed(b, i + 1);
    blocks_restore(b, saved);
    emit_loop_close(m, &loop, b->sum, b->sum);
}

void blocks_emit_summed(Blocks *b) {
    EmitValue zero = emit_number(b->m, b->elem, 0, b->width);
    for (uint32_t i = 0; i < blocks_sums(b); i++)
        b->sum[i] = zero.ref;
    emit_summed(b, 0);
}

// ---- loops around ------------------------------------------------------------------------------

typedef void Sized(Blocks *b, int size);

static void emit_pieces(Blocks *b, TileDimId dim, int size, LLVMValueRef from, LLVMValueRef to,
                        Sized *body) {
    EmitModule *m = b->m;
    EmitLoop loop;
    emit_loop_open(m, &loop, from, to, index_const(m, size), false, NULL, 0);
    BlockOffsets saved = blocks_save(b);
    blocks_enter(b, dim, index_add(m, b->k->range[dim].lo, loop.at));
    body(b, size);
    blocks_restore(b, saved);
    emit_loop_close(m, &loop, NULL, NULL);
}

// Cuts a dim into blocks of at least one position: about equal ones if its length is known,
// otherwise full ones and single positions.
static void emit_blocks(Blocks *b, TileDimId dim, int room, Sized *body) {
    EmitModule *m = b->m;
    int most = room < 1 ? 1 : room;
    int64_t known;
    if (dim == TILE_DIM_NONE) {
        body(b, 1);
        return;
    }
    LLVMValueRef len = b->k->range[dim].len, zero = index_const(m, 0);
    if (!index_known(len, &known)) {
        LLVMValueRef full = index_sub(m, len, index_rem(m, len, most));
        emit_pieces(b, dim, most, zero, full, body);
        if (most > 1)
            emit_pieces(b, dim, 1, full, len, body);
        return;
    }
    int64_t blocks = ceil_div(known, most), small = known / blocks;
    LLVMValueRef middle = index_const(m, known % blocks * (small + 1));
    if (known % blocks)
        emit_pieces(b, dim, (int)small + 1, zero, middle, body);
    emit_pieces(b, dim, (int)small, middle, len, body);
}

static int smaller(int a, int b) {
    return a < b ? a : b;
}

static int sums_most(const Blocks *b) {
    return b->m->target->machine.vector_registers - 2; // one holds a row
}

static void cols_body(Blocks *b, int size) {
    b->cols = size;
    b->block(b);
}

static void rows_body(Blocks *b, int size) {
    int most = smaller(b->stage->col_block, sums_most(b) / (size * b->vectors + 1));
    b->rows = size;
    emit_blocks(b, b->stage->cols, most, cols_body);
}

void blocks_over_rows(Blocks *b) {
    int most = sums_most(b) / (b->vectors + 1);
    emit_blocks(b, b->stage->rows, smaller(b->stage->row_block, most), rows_body);
}

static void emit_batch(Blocks *b, int i, BlockBody *body) {
    if (i == b->n_batch) {
        body(b);
        return;
    }
    EmitModule *m = b->m;
    TileDimId dim = b->batch[i];
    const CpuRange *range = &b->k->range[dim];
    EmitLoop loop;
    emit_loop_open(m, &loop, index_const(m, 0), range->len, index_const(m, 1), true, NULL, 0);
    BlockOffsets saved = blocks_save(b);
    blocks_enter(b, dim, index_add(m, range->lo, loop.at));
    emit_batch(b, i + 1, body);
    blocks_restore(b, saved);
    emit_loop_close(m, &loop, NULL, NULL);
}

void blocks_over_batch(Blocks *b, BlockBody *body) {
    emit_batch(b, 0, body);
}
