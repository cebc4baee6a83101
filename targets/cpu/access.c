// SPDX-License-Identifier: Apache-2.0
// Addresses: an access at a point of a stage's box as base + offset, with the lanes told apart.
//
// The offset is a sum with one part per dim, and a part is added when the loop over its dim is
// entered, so that the innermost loop adds the lanes' part only. A panel's dim contributes (i /
// width) * panel + i % width, which is no multiple of i but depends on one dim all the same.
#include "cpu/cpu.h"

static bool is_panel(const TileBuffer *buffer, int slot) {
    return buffer->panel_dim != TILE_DIM_NONE && buffer->dims[slot] == buffer->panel_dim;
}

static LLVMValueRef relative(CpuKernel *k, const CpuAccess *a, int slot, LLVMValueRef position) {
    EmitModule *m = k->module;
    LLVMValueRef moved = index_add(m, position, index_const(m, a->access->index[slot].offset));
    return index_sub(m, moved, a->memory->origin[slot]);
}

static LLVMValueRef slot_part(CpuKernel *k, const CpuAccess *a, int slot, LLVMValueRef position) {
    EmitModule *m = k->module;
    LLVMValueRef i = relative(k, a, slot, position);
    if (!is_panel(a->buffer, slot))
        return index_mul(m, i, a->memory->stride[slot]);
    int64_t width = a->buffer->panel_width;
    LLVMValueRef panel = index_mul(m, index_div(m, i, width), a->memory->stride[slot]);
    return index_add(m, panel, index_rem(m, i, width));
}

LLVMValueRef cpu_access_part(CpuKernel *k, const CpuAccess *a, TileDimId dim, LLVMValueRef at) {
    LLVMValueRef sum = index_const(k->module, 0);
    for (int i = 0; i < a->access->rank; i++)
        if (a->access->index[i].dim == dim)
            sum = index_add(k->module, sum, slot_part(k, a, i, at));
    return sum;
}

LLVMValueRef cpu_access_stride(CpuKernel *k, const Access *access, TileDimId dim) {
    LLVMValueRef sum = index_const(k->module, 0);
    for (int i = 0; i < access->rank; i++)
        if (access->index[i].dim == dim)
            sum = index_add(k->module, sum, k->buffer[access->buffer].stride[i]);
    return sum;
}

// Does a vector of `width` lanes along a panel's dim stay inside a panel?
static bool panel_lines_up(CpuKernel *k, const CpuAccess *a, int slot, int width) {
    const Index *index = &a->access->index[slot];
    return a->buffer->panel_width % width == 0 && index->offset == 0 &&
           cpu_aligned(k, a->access->buffer, (uint8_t)slot, a->lanes, width);
}

static CpuLanes lanes_of_slot(CpuKernel *k, CpuAccess *a, int slot, int width) {
    if (is_panel(a->buffer, slot)) {
        a->panels = true;
        return panel_lines_up(k, a, slot, width) ? LANES_UNIT : LANES_SPREAD;
    }
    int64_t stride;
    a->stride = a->memory->stride[slot];
    return index_known(a->stride, &stride) && stride == 1 ? LANES_UNIT : LANES_STRIDED;
}

void cpu_access_open(CpuKernel *k, CpuAccess *to, const Access *access, TileDimId lanes, int width,
                     const bool *varies) {
    *to = (CpuAccess){.access = access,
                      .buffer = &k->kernel->buffers.at[access->buffer],
                      .memory = &k->buffer[access->buffer],
                      .lanes = lanes,
                      .offset = index_const(k->module, 0)};
    for (int i = 0; i < access->rank; i++) {
        const Index *index = &access->index[i];
        if (index->term >= 0 && is_panel(to->buffer, i))
            ice("cpu access: a term in the index of a panel");
        if (index->term >= 0 && varies && varies[index->term])
            to->kind = LANES_SPREAD;
        else if (index->dim == TILE_DIM_NONE)
            to->offset =
                index_add(k->module, to->offset, slot_part(k, to, i, index_const(k->module, 0)));
        if (width > 1 && index->dim != TILE_DIM_NONE && index->dim == lanes)
            to->kind = to->kind == LANES_SAME ? lanes_of_slot(k, to, i, width) : LANES_SPREAD;
    }
}

void cpu_access_enter(CpuKernel *k, CpuAccess *a, TileDimId dim) {
    LLVMValueRef part = cpu_access_part(k, a, dim, k->at[dim]);
    a->offset = index_add(k->module, a->offset, part);
}

// ---- lanes ----

static EmitValue as_i64(CpuKernel *k, EmitValue value, int width) {
    return emit_splat(k->module, emit_cast(k->module, value, ELEM_I64), width);
}

static EmitValue splat_index(CpuKernel *k, LLVMValueRef index, int width) {
    return emit_splat(k->module, (EmitValue){index, ELEM_I64, 1}, width);
}

// Position along a slot's dim for every lane, the index's offset and term included.
static EmitValue lane_positions(CpuKernel *k, const CpuAccess *a, int slot, int width, int ahead,
                                const EmitValue *terms) {
    EmitModule *m = k->module;
    const Index *index = &a->access->index[slot];
    EmitValue sum = emit_number(m, ELEM_I64, (double)index->offset, width);
    if (index->dim != TILE_DIM_NONE) {
        LLVMValueRef at = k->at[index->dim];
        bool lanes = index->dim == a->lanes;
        if (lanes)
            at = index_add(m, at, index_const(m, ahead));
        sum = emit_add(m, sum, splat_index(k, at, width));
        if (lanes && width > 1)
            sum = emit_add(m, sum, emit_iota(m, ELEM_I64, width));
    }
    if (index->term >= 0)
        sum = emit_add(m, sum, as_i64(k, terms[index->term], width));
    return sum;
}

static EmitValue lane_part(CpuKernel *k, const CpuAccess *a, int slot, EmitValue position) {
    EmitModule *m = k->module;
    int width = position.lanes;
    LLVMValueRef minus = index_sub(m, index_const(m, 0), a->memory->origin[slot]);
    EmitValue i = emit_add(m, position, splat_index(k, minus, width));
    EmitValue stride = splat_index(k, a->memory->stride[slot], width);
    if (!is_panel(a->buffer, slot))
        return emit_mul(m, i, stride);
    EmitValue panel = emit_number(m, ELEM_I64, a->buffer->panel_width, width);
    EmitValue q = {LLVMBuildUDiv(m->builder, i.ref, panel.ref, ""), ELEM_I64, width};
    EmitValue r = {LLVMBuildURem(m->builder, i.ref, panel.ref, ""), ELEM_I64, width};
    return emit_add(m, emit_mul(m, q, stride), r);
}

// Offsets of all lanes of a SPREAD access: the slots that vary in full, the others by the scalar
// offset.
static LLVMValueRef spread_offsets(CpuKernel *k, const CpuAccess *a, int width, int ahead,
                                   LLVMValueRef valid, const EmitValue *terms) {
    EmitModule *m = k->module;
    EmitValue sum = emit_number(m, ELEM_I64, 0, width);
    for (int i = 0; i < a->access->rank; i++) {
        EmitValue position = lane_positions(k, a, i, width, ahead, terms);
        sum = emit_add(m, sum, lane_part(k, a, i, position));
    }
    if (valid) // no wild addresses, even under a mask
        sum = emit_select(m, valid, sum, emit_number(m, ELEM_I64, 0, width));
    return sum.ref;
}

static bool slot_checked(const CpuAccess *a, int slot) {
    const Index *index = &a->access->index[slot];
    return index->offset != 0 || index->term >= 0 || index->dim != a->buffer->dims[slot];
}

// i1 per lane: are all indexes inside their dims? NULL: certainly.
static LLVMValueRef inside(CpuKernel *k, const CpuAccess *a, int width, int ahead,
                           const EmitValue *terms) {
    EmitModule *m = k->module;
    LLVMValueRef all = NULL;
    for (int i = 0; a->access->checked && i < a->access->rank; i++) {
        if (!slot_checked(a, i))
            continue;
        EmitValue position = lane_positions(k, a, i, width, ahead, terms);
        EmitValue extent = splat_index(k, k->extent[a->buffer->dims[i]], width);
        LLVMValueRef in = LLVMBuildICmp(m->builder, LLVMIntULT, position.ref, extent.ref, "");
        all = all ? LLVMBuildAnd(m->builder, all, in, "") : in;
    }
    return all;
}

// Offset of the first lane; scalar terms included.
static LLVMValueRef first_offset(CpuKernel *k, const CpuAccess *a, int ahead,
                                 const EmitValue *terms) {
    EmitModule *m = k->module;
    LLVMValueRef offset = a->offset;
    for (int i = 0; i < a->access->rank; i++) {
        const Index *index = &a->access->index[i];
        if (index->term < 0)
            continue;
        LLVMValueRef value = emit_cast(m, terms[index->term], ELEM_I64).ref;
        value = index_mul(m, value, a->memory->stride[i]);
        offset = index_add(m, offset, value);
    }
    if (ahead && a->kind == LANES_STRIDED)
        offset = index_add(m, offset, index_mul(m, a->stride, index_const(m, ahead)));
    return offset;
}

static LLVMValueRef first_element(CpuKernel *k, const CpuAccess *a, int ahead,
                                  const EmitValue *terms) {
    EmitModule *m = k->module;
    LLVMValueRef offset = first_offset(k, a, ahead, terms);
    if (ahead && a->panels) {
        LLVMValueRef at = k->at[a->lanes], next = index_add(m, at, index_const(m, ahead));
        offset = index_sub(m, offset, cpu_access_part(k, a, a->lanes, at));
        offset = index_add(m, offset, cpu_access_part(k, a, a->lanes, next));
        ahead = 0;
    }
    LLVMValueRef at = emit_element(m, a->buffer->elem, a->memory->base, offset);
    if (ahead && a->kind == LANES_UNIT)
        at = emit_element(m, a->buffer->elem, at, index_const(m, ahead));
    return at;
}

// Lane offsets of a STRIDED access, relative to its first element: 32 bits are enough when the
// stride is known and small, and half as much work as 64.
static LLVMValueRef strided_offsets(CpuKernel *k, const CpuAccess *a, int width) {
    EmitModule *m = k->module;
    int64_t stride;
    if (index_known(a->stride, &stride) && stride < (1 << 20)) {
        EmitValue by = emit_number(m, ELEM_I32, (double)stride, width);
        return emit_mul(m, emit_iota(m, ELEM_I32, width), by).ref;
    }
    return emit_mul(m, emit_iota(m, ELEM_I64, width), splat_index(k, a->stride, width)).ref;
}

static LLVMValueRef both(EmitModule *m, LLVMValueRef a, LLVMValueRef b) {
    if (!a || !b)
        return a ? a : b;
    return LLVMBuildAnd(m->builder, a, b, "");
}

static EmitValue filled(CpuKernel *k, EmitValue value, LLVMValueRef valid, double fill) {
    EmitValue other = emit_number(k->module, value.elem, fill, value.lanes);
    return emit_select(k->module, valid, value, other);
}

// A scalar load; when the index is outside, element 0 is read instead and thrown away.
static EmitValue load_same(CpuKernel *k, const CpuAccess *a, const EmitValue *terms) {
    EmitModule *m = k->module;
    LLVMValueRef valid = inside(k, a, 1, 0, terms);
    LLVMValueRef offset = first_offset(k, a, 0, terms);
    if (valid)
        offset = LLVMBuildSelect(m->builder, valid, offset, index_const(m, 0), "");
    LLVMValueRef at = emit_element(m, a->buffer->elem, a->memory->base, offset);
    EmitValue value = emit_load(m, a->buffer->elem, 1, at);
    return valid ? filled(k, value, valid, a->access->fill) : value;
}

EmitValue cpu_access_load(CpuKernel *k, const CpuAccess *a, int width, int ahead, LLVMValueRef mask,
                          const EmitValue *terms) {
    EmitModule *m = k->module;
    Elem elem = a->buffer->elem;
    if (width == 1 || a->kind == LANES_SAME)
        return load_same(k, a, terms);
    LLVMValueRef valid = inside(k, a, width, ahead, terms);
    LLVMValueRef on = both(m, mask, valid);
    double fill = valid ? a->access->fill : 0;
    if (a->kind == LANES_UNIT)
        return emit_load_masked(m, elem, width, first_element(k, a, ahead, terms), on, fill);
    if (a->kind == LANES_STRIDED)
        return emit_gather(m, elem, first_element(k, a, ahead, terms), strided_offsets(k, a, width),
                           on, fill);
    LLVMValueRef offsets = spread_offsets(k, a, width, ahead, on, terms);
    return emit_gather(m, elem, a->memory->base, offsets, on, fill);
}

// f16 and bf16 are f32 in registers, and the store rounds.
static EmitValue for_memory(EmitModule *m, EmitValue value, Elem elem) {
    bool narrow = elem == ELEM_F16 || elem == ELEM_BF16;
    if (narrow && value.elem != ELEM_F64 && elem_is_float(value.elem))
        value.elem = elem;
    return emit_cast(m, value, elem);
}

void cpu_access_store(CpuKernel *k, const CpuAccess *a, EmitValue value, int ahead,
                      LLVMValueRef mask) {
    EmitModule *m = k->module;
    value = for_memory(m, value, a->buffer->elem);
    if (value.lanes == 1)
        emit_store(m, value, first_element(k, a, 0, NULL));
    else if (a->kind == LANES_UNIT)
        // A dim without a known extent leaves a part of a vector in many places.
        emit_store_first(m, value, first_element(k, a, ahead, NULL), mask,
                         k->kernel->dims.at[a->lanes].extent == EXTENT_DYNAMIC);
    else if (a->kind == LANES_STRIDED)
        emit_scatter(m, value, first_element(k, a, ahead, NULL), strided_offsets(k, a, value.lanes),
                     mask);
    else if (a->kind == LANES_SPREAD)
        emit_scatter(m, value, a->memory->base,
                     spread_offsets(k, a, value.lanes, ahead, mask, NULL), mask);
    else
        ice("cpu access: a vector stored to one element");
}
