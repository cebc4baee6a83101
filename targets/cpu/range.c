// SPDX-License-Identifier: Apache-2.0
// The current range of every dim, and what the code may rely on because of it: that a box has
// points, that positions line up with panels, that a sum has its first term.
#include "cpu/cpu.h"

// ---- pieces ----

static void push_step(CpuRange *range, int64_t step) {
    if (range->depth == CPU_NEST_MAX)
        ice("cpu kernel: more than %d loops and ranges over one dim", CPU_NEST_MAX);
    range->step[range->depth++] = step;
}

static LLVMValueRef piece_length(EmitModule *m, const CpuRange *outer, LLVMValueRef lo,
                                 int64_t step) {
    int64_t len;
    bool known = index_known(outer->len, &len);
    if (step == 1 || (known && len % step == 0))
        return index_const(m, step);
    LLVMValueRef left = index_sub(m, index_add(m, outer->lo, outer->len), lo);
    return index_min(m, left, index_const(m, step));
}

CpuRange cpu_range_piece(EmitModule *m, const CpuRange *outer, LLVMValueRef lo, int64_t step) {
    CpuRange piece = *outer;
    int64_t len;
    if (index_known(outer->len, &len) && len <= step)
        return piece; // the whole range
    piece.lo = lo;
    piece.len = piece_length(m, outer, lo, step);
    piece.nonempty = true;
    push_step(&piece, step);
    return piece;
}

CpuRange cpu_range_between(EmitModule *m, const CpuRange *outer, LLVMValueRef lo, LLVMValueRef hi,
                           int64_t align) {
    CpuRange range = *outer;
    LLVMValueRef end = index_add(m, outer->lo, outer->len);
    if (lo) {
        LLVMValueRef after = index_sub(m, index_max(m, lo, outer->lo), outer->lo);
        LLVMValueRef steps = index_div(m, after, align);
        range.lo = index_add(m, outer->lo, index_mul(m, steps, index_const(m, align)));
    }
    if (hi)
        end = index_min(m, hi, end);
    range.len = index_sub(m, index_max(m, end, range.lo), range.lo);
    int64_t len;
    range.nonempty = index_known(range.len, &len) && len > 0;
    push_step(&range, lo ? align : 0); // from where it began: 0 divides all
    range.narrowed = range.depth;
    return range;
}

bool cpu_aligned(const CpuKernel *k, uint16_t buffer, uint8_t slot, TileDimId dim, int64_t unit) {
    const CpuRange *range = &k->range[dim];
    for (uint8_t i = k->buffer[buffer].depth[slot]; i < range->depth; i++)
        if (range->step[i] % unit)
            return false;
    return true;
}

// ---- boxes ----

LLVMBasicBlockRef cpu_where_open(EmitModule *m, LLVMValueRef condition) {
    LLVMBasicBlockRef there = emit_block(m, "there"), after = emit_block(m, "after");
    LLVMBuildCondBr(m->builder, condition, there, after);
    LLVMPositionBuilderAtEnd(m->builder, there);
    return after;
}

void cpu_where_close(EmitModule *m, LLVMBasicBlockRef after) {
    if (!after)
        return;
    LLVMBuildBr(m->builder, after);
    LLVMMoveBasicBlockAfter(after, LLVMGetInsertBlock(m->builder));
    LLVMPositionBuilderAtEnd(m->builder, after);
}

bool cpu_box_open(CpuKernel *k, const Stage *stage, LLVMBasicBlockRef *after) {
    EmitModule *m = k->module;
    LLVMValueRef any = NULL;
    *after = NULL;
    for (int i = 0; i < stage->n_dims; i++) {
        const CpuRange *range = &k->range[stage->dims[i]];
        int64_t len;
        if (index_known(range->len, &len) && len <= 0)
            return false;
        if (range->nonempty)
            continue;
        LLVMValueRef some =
            LLVMBuildICmp(m->builder, LLVMIntSGT, range->len, index_const(m, 0), "");
        any = any ? LLVMBuildAnd(m->builder, any, some, "") : some;
    }
    if (!any)
        return true;
    *after = cpu_where_open(m, any);
    return true;
}

void cpu_box_close(CpuKernel *k, LLVMBasicBlockRef after) {
    cpu_where_close(k->module, after);
}

// ---- first terms ----

bool cpu_never(LLVMValueRef first) {
    return first && LLVMIsAConstantInt(first);
}

static bool is_entered(const TileDimList *entered, TileDimId dim) {
    for (int i = 0; i < entered->count; i++)
        if (entered->at[i] == dim)
            return true;
    return false;
}

LLVMValueRef cpu_first(CpuKernel *k, const Access *to, const TileDimList *entered) {
    EmitModule *m = k->module;
    const TileBuffer *buffer = &k->kernel->buffers.at[to->buffer];
    LLVMValueRef never = LLVMConstInt(LLVMInt1TypeInContext(m->context), 0, 0), all = NULL;
    if (buffer->has_initial || buffer->place == PLACE_BOTH)
        return never;
    for (uint32_t d = 0; d < k->kernel->dims.count; d++) {
        LLVMValueRef begin = k->buffer[to->buffer].begin[d];
        LLVMValueRef at = is_entered(entered, (TileDimId)d) ? k->at[d] : k->range[d].lo;
        int64_t x, y;
        if (access_has_dim(to, (TileDimId)d) || at == begin)
            continue;
        if (index_known(at, &x) && index_known(begin, &y))
            return never; // constants are unique: these differ
        LLVMValueRef here = LLVMBuildICmp(m->builder, LLVMIntEQ, at, begin, "");
        all = all ? LLVMBuildAnd(m->builder, all, here, "") : here;
    }
    return all;
}
