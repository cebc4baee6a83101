// SPDX-License-Identifier: Apache-2.0
// Ranges whose ends are computed: from other ranges, extents and elements of small tensors.
#include "cpu/cpu.h"

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

static LLVMValueRef begin_of_part(CpuKernel *k, const Bound *bound, TileDimId dim) {
    EmitModule *m = k->module;
    LLVMValueRef part = index_add(m, k->range[bound->dim].lo, index_const(m, bound->number));
    int64_t parts = k->kernel->dims.at[bound->dim].extent;
    LLVMValueRef product = index_mul(m, part, k->extent[dim]);
    return index_div(m, index_add(m, product, index_const(m, parts - 1)), parts);
}

static LLVMValueRef bound_value(CpuKernel *k, const Node *range, const Bound *bound,
                                LLVMValueRef *values) {
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
    case BOUND_PART:
        return begin_of_part(k, bound, range->dim);
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
    LLVMValueRef *values = arena_array(m->arena, LLVMValueRef, node->bounds.count);
    for (uint32_t i = 0; i < node->bounds.count; i++)
        values[i] = bound_value(k, node, &node->bounds.at[i], values);
    LLVMValueRef lo = node->lo < 0 ? NULL : values[node->lo];
    LLVMValueRef hi = node->hi < 0 ? NULL : values[node->hi];
    return cpu_range_between(m, &k->range[node->dim], lo, hi, node->align);
}
