// SPDX-License-Identifier: Apache-2.0
// How a contraction stage is cut: which dims are loops, which run as the k of the microkernel, and
// how large a full block is.
#include "cpu/contract.h"

#include <string.h>

static int slot_of(const Access *access, TileDimId dim) {
    for (int i = 0; i < access->rank; i++)
        if (access->index[i].dim == dim)
            return i;
    return -1;
}

static const TileBuffer *buffer_of(const Contract *c, const Access *access) {
    return &c->k->kernel->buffers.at[access->buffer];
}

bool contract_is_panel_dim(const Contract *c, const Access *access, TileDimId dim) {
    return dim != TILE_DIM_NONE && access_panel_dim(c->k->kernel, access) == dim;
}

// ---- k dims ----

// Is stepping `outer` by one the same as stepping `inner` past its whole range?
static bool continues(const Contract *c, const Access *access, TileDimId outer, TileDimId inner) {
    const TileBuffer *buffer = buffer_of(c, access);
    const CpuBuffer *memory = &c->k->buffer[access->buffer];
    int from = slot_of(access, outer), to = slot_of(access, inner);
    if (from < 0 || to < 0 || from >= to || contract_is_panel_dim(c, access, outer) ||
        contract_is_panel_dim(c, access, inner))
        return false;
    for (int i = from + 1; i < to; i++)
        if (buffer->dims[i] != buffer->panel_dim)
            return false;
    if (buffer->gap && to == buffer->rank - 1)
        return false;
    return memory->room[to] == c->k->range[inner].len;
}

static bool flattened(const TileDimId *flat, int n, TileDimId dim) {
    for (int i = 0; i < n; i++)
        if (flat[i] == dim)
            return true;
    return false;
}

// The k dims that run as one loop when `inner` is the innermost of them.
static int flatten(const Contract *c, const TileDimId *ks, int n_ks, TileDimId inner,
                   TileDimId *flat) {
    int n = 0;
    flat[n++] = inner;
    for (bool grown = true; grown;) {
        grown = false;
        for (int i = 0; i < n_ks && !grown; i++) {
            if (flattened(flat, n, ks[i]) || !continues(c, &c->stage->a, ks[i], flat[n - 1]) ||
                !continues(c, &c->stage->b, ks[i], flat[n - 1]))
                continue;
            flat[n++] = ks[i];
            grown = true;
        }
    }
    return n;
}

static int64_t typical_length(const Contract *c, const TileDimId *flat, int n) {
    int64_t product = 1, len;
    for (int i = 0; i < n; i++)
        product *= index_known(c->k->range[flat[i]].len, &len) ? len : 512;
    return product;
}

void contract_classify(Contract *c) {
    const Stage *stage = c->stage;
    TileDimId ks[TILE_RANK_MAX];
    int n_ks = 0;
    for (int i = 0; i < stage->n_dims; i++) {
        TileDimId dim = stage->dims[i];
        if (!access_has_dim(&stage->c, dim))
            ks[n_ks++] = dim;
        else if (dim != stage->rows && dim != stage->lanes)
            c->loops[c->n_loops++] = dim;
    }
    int64_t best = 0;
    for (int i = 0; i < n_ks; i++) {
        TileDimId flat[TILE_RANK_MAX];
        int n = flatten(c, ks, n_ks, ks[i], flat);
        int64_t length = typical_length(c, flat, n);
        if (length < best)
            continue;
        best = length;
        c->n_flat = n;
        memcpy(c->flat, flat, sizeof flat);
    }
    for (int i = 0; i < n_ks; i++)
        if (!flattened(c->flat, c->n_flat, ks[i]))
            c->loops[c->n_loops++] = ks[i];
}

// ---- the full block ----

static int64_t known_or(LLVMValueRef value) {
    int64_t known;
    return index_known(value, &known) ? known : CPU_UNKNOWN;
}

// Do blocks of `size` divide the panels of `access` along `dim`, given where they can start?
static bool divides_panel(const Contract *c, const Access *access, TileDimId dim, int size) {
    return !contract_is_panel_dim(c, access, dim) ||
           (buffer_of(c, access)->panel_width % size == 0 &&
            cpu_aligned(c->k, access->buffer, (uint8_t)slot_of(access, dim), dim, size));
}

// Largest number <= `wanted` of `unit`s that divides the panels of both.
static int fit_panels(const Contract *c, const Access *a, const Access *b, TileDimId dim,
                      int wanted, int unit) {
    for (int n = wanted; n >= 1; n--)
        if (divides_panel(c, a, dim, n * unit) && divides_panel(c, b, dim, n * unit))
            return n;
    ice("cpu contract: panels along dim %d do not line up with blocks of %d", dim, unit);
}

static int smaller(int a, int b) {
    return a < b ? a : b;
}

LLVMValueRef contract_length(const Contract *c, TileDimId dim) {
    return dim == TILE_DIM_NONE ? index_const(c->m, 1) : c->k->range[dim].len;
}

static void choose_block(Contract *c) {
    const Stage *stage = c->stage;
    CpuMicroShape *shape = &c->shape;
    int64_t known;
    int vectors = stage->lane_block / shape->width;
    const Machine *machine = &c->m->target->machine;
    vectors = vectors < 1 ? 1 : vectors;
    while (vectors > 1 && machine_block_rows(machine, vectors, false) < 1)
        vectors--;
    if (index_known(contract_length(c, stage->lanes), &known) && known < vectors * shape->width)
        vectors = (int)((known + shape->width - 1) / shape->width);
    vectors = fit_panels(c, &stage->b, &stage->c, stage->lanes, vectors, shape->width);
    int rows = smaller(stage->row_block < 1 ? 1 : stage->row_block,
                       machine_block_rows(machine, vectors, false));
    if (index_known(contract_length(c, stage->rows), &known) && known < rows)
        rows = contract_is_panel_dim(c, &stage->a, stage->rows) ? rows : (int)known;
    if (stage->rows != TILE_DIM_NONE)
        rows = fit_panels(c, &stage->a, &stage->a, stage->rows, rows, 1);
    shape->vectors = vectors;
    shape->rows = rows;
}

static LLVMValueRef stride_of(const Contract *c, const Access *access, TileDimId dim) {
    if (dim == TILE_DIM_NONE)
        return index_const(c->m, 0);
    if (contract_is_panel_dim(c, access, dim))
        return index_const(c->m, 1);
    return cpu_access_stride(c->k, access, dim);
}

static void choose_strides(Contract *c) {
    const Stage *stage = c->stage;
    TileDimId inner = c->n_flat ? c->flat[0] : TILE_DIM_NONE;
    c->call.a_row = stride_of(c, &stage->a, stage->rows);
    c->call.c_row = stride_of(c, &stage->c, stage->rows);
    c->call.a_k = stride_of(c, &stage->a, inner);
    c->call.b_k = stride_of(c, &stage->b, inner);
    c->shape.a_row = known_or(c->call.a_row);
    c->shape.a_k = known_or(c->call.a_k);
    c->shape.b_k = known_or(c->call.b_k);
    c->shape.c_row = known_or(c->call.c_row);
    c->call.k = index_const(c->m, 1);
    for (int i = 0; i < c->n_flat; i++)
        c->call.k = index_mul(c->m, c->call.k, c->k->range[c->flat[i]].len);
    c->b_whole = contract_is_panel_dim(c, &stage->b, stage->lanes);
    c->rows_fixed =
        stage->rows != TILE_DIM_NONE && contract_is_panel_dim(c, &stage->a, stage->rows);
}

void contract_choose_shape(Contract *c) {
    const Stage *stage = c->stage;
    memset(&c->shape, 0, sizeof c->shape);
    c->shape.elem = buffer_of(c, &stage->c)->elem;
    c->shape.a_elem = buffer_of(c, &stage->a)->elem;
    c->shape.b_elem = buffer_of(c, &stage->b)->elem;
    c->shape.in_order = stage->in_order;
    c->shape.width = c->shape.elem == ELEM_F64 ? c->m->lanes / 2 : c->m->lanes;
    choose_block(c);
    choose_strides(c);
}
