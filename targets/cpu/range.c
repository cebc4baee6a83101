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

bool cpu_aligned(const CpuKernel *k, uint16_t buffer, uint8_t slot, TileDimId dim, int64_t unit) {
    const CpuRange *range = &k->range[dim];
    for (uint8_t i = k->buffer[buffer].depth[slot]; i < range->depth; i++)
        if (range->step[i] % unit)
            return false;
    return true;
}

// ---- bounds ----

// An element where the access's dims begin.
static LLVMValueRef load_bound(CpuKernel *k, const Access *load) {
    CpuAccess access;
    cpu_access_open(k, &access, load, TILE_DIM_NONE, 1, NULL);
    for (uint32_t d = 0; d < k->kernel->dims.count; d++) {
        k->at[d] = k->range[d].lo;
        cpu_access_enter(k, &access, (TileDimId)d);
    }
    EmitValue value = cpu_access_load(k, &access, 1, 0, NULL, NULL);
    return emit_cast(k->module, value, ELEM_I64).ref;
}

// What is loaded may be any number, so sums may wrap around, as in the interpreter.
static LLVMValueRef wrapping_add(EmitModule *m, LLVMValueRef a, LLVMValueRef b) {
    int64_t known;
    return index_known(b, &known) && known == 0 ? a : LLVMBuildAdd(m->builder, a, b, "");
}

static LLVMValueRef round_down(EmitModule *m, LLVMValueRef a, LLVMValueRef to) {
    LLVMValueRef zero = index_const(m, 0), rest = LLVMBuildSRem(m->builder, a, to, "");
    LLVMValueRef below = LLVMBuildICmp(m->builder, LLVMIntSLT, rest, zero, "");
    LLVMValueRef more = LLVMBuildSelect(m->builder, below, to, zero, "");
    return LLVMBuildSub(m->builder, LLVMBuildSub(m->builder, a, rest, ""), more, "");
}

static LLVMValueRef bound_value(CpuKernel *k, const Bound *bound, LLVMValueRef *values) {
    EmitModule *m = k->module;
    LLVMValueRef number = index_const(m, bound->number), a, b;
    switch (bound->kind) {
    case BOUND_NUMBER:
        return number;
    case BOUND_LO:
        return wrapping_add(m, k->range[bound->dim].lo, number);
    case BOUND_HI:
        a = index_add(m, k->range[bound->dim].lo, k->range[bound->dim].len);
        return wrapping_add(m, a, number);
    case BOUND_EXTENT:
        return wrapping_add(m, k->extent[bound->dim], number);
    case BOUND_LOAD:
        return wrapping_add(m, load_bound(k, &bound->load), number);
    case BOUND_MIN:
    case BOUND_MAX:
    case BOUND_ADD:
        a = values[bound->args[0]];
        b = values[bound->args[1]];
        return bound->kind == BOUND_MIN   ? index_min(m, a, b)
               : bound->kind == BOUND_MAX ? index_max(m, a, b)
                                          : wrapping_add(m, a, b);
    case BOUND_ROUND:
        return round_down(m, values[bound->args[0]], number);
    }
    return NULL;
}

CpuRange cpu_range_narrowed(CpuKernel *k, const Node *node) {
    EmitModule *m = k->module;
    const CpuRange *outer = &k->range[node->dim];
    CpuRange range = *outer;
    LLVMValueRef *values = arena_array(m->arena, LLVMValueRef, node->bounds.count);
    for (uint32_t i = 0; i < node->bounds.count; i++)
        values[i] = bound_value(k, &node->bounds.at[i], values);
    LLVMValueRef hi = index_add(m, outer->lo, outer->len);
    if (node->lo >= 0) {
        LLVMValueRef lo = index_max(m, values[node->lo], outer->lo);
        LLVMValueRef steps = index_div(m, index_sub(m, lo, outer->lo), node->align);
        range.lo = index_add(m, outer->lo, index_mul(m, steps, index_const(m, node->align)));
    }
    if (node->hi >= 0)
        hi = index_min(m, values[node->hi], hi);
    range.len = index_sub(m, index_max(m, hi, range.lo), range.lo);
    int64_t len;
    range.nonempty = index_known(range.len, &len) && len > 0;
    push_step(&range, node->lo >= 0 ? node->align : 0); // from where it began: 0 divides all
    range.narrowed = range.depth;
    return range;
}

// ---- boxes ----

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
    LLVMBasicBlockRef box = emit_block(m, "box");
    *after = emit_block(m, "after_box");
    LLVMBuildCondBr(m->builder, any, box, *after);
    LLVMPositionBuilderAtEnd(m->builder, box);
    return true;
}

void cpu_box_close(CpuKernel *k, LLVMBasicBlockRef after) {
    EmitModule *m = k->module;
    if (!after)
        return;
    LLVMBuildBr(m->builder, after);
    LLVMMoveBasicBlockAfter(after, LLVMGetInsertBlock(m->builder));
    LLVMPositionBuilderAtEnd(m->builder, after);
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
