// SPDX-License-Identifier: Apache-2.0
// Contraction stages: loops around microkernels.
//
//     batch dims            loops
//       k dims but one      loops; c is added to from the second turn on
//         lanes             blocks of vectors; the vectors of b for one block stay in L1
//           rows            blocks of rows, against the same vectors of b
//             microkernel   over the last k dim, with those dims before it that continue it in a
//             and b
//
// Remainders: known row counts are cut into equal blocks (two sizes at most), unknown ones into
// full blocks and one of each power of two below. Lanes that are missing are masked.
#include "cpu/cpu.h"

#include <string.h>

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
    bool rows_fixed; // blocks of rows must start at multiples of the full block (panels)
    bool b_whole;    // vectors of b may be read beyond the last lane
} Contract;

static bool access_has(const Access *access, TileDimId dim) {
    for (int i = 0; i < access->rank; i++)
        if (access->index[i].dim == dim)
            return true;
    return false;
}

static int slot_of(const Access *access, TileDimId dim) {
    for (int i = 0; i < access->rank; i++)
        if (access->index[i].dim == dim)
            return i;
    return -1;
}

static const TileBuffer *buffer_of(const Contract *c, const Access *access) {
    return &c->k->kernel->buffers.at[access->buffer];
}

static bool is_panel_dim(const Contract *c, const Access *access, TileDimId dim) {
    return dim != TILE_DIM_NONE && access_panel_dim(c->k->kernel, access) == dim;
}

// ---- k dims ----

// Is stepping `outer` by one the same as stepping `inner` past its whole range?
static bool continues(const Contract *c, const Access *access, TileDimId outer, TileDimId inner) {
    const TileBuffer *buffer = buffer_of(c, access);
    const CpuBuffer *memory = &c->k->buffer[access->buffer];
    int from = slot_of(access, outer), to = slot_of(access, inner);
    if (from < 0 || to < 0 || from >= to || is_panel_dim(c, access, outer) ||
        is_panel_dim(c, access, inner))
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

static void classify(Contract *c) {
    const Stage *stage = c->stage;
    TileDimId ks[TILE_RANK_MAX];
    int n_ks = 0;
    for (int i = 0; i < stage->n_dims; i++) {
        TileDimId dim = stage->dims[i];
        if (!access_has(&stage->c, dim))
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
    return !is_panel_dim(c, access, dim) ||
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

static LLVMValueRef length_of(const Contract *c, TileDimId dim) {
    return dim == TILE_DIM_NONE ? index_const(c->m, 1) : c->k->range[dim].len;
}

static void choose_block(Contract *c) {
    const Stage *stage = c->stage;
    CpuMicroShape *shape = &c->shape;
    int64_t known;
    int vectors = stage->lane_block / shape->width;
    int registers = c->m->target->machine.vector_registers - 1;  // one holds the splat
    vectors = smaller(vectors < 1 ? 1 : vectors, registers / 2); // leaves one row at least
    if (index_known(length_of(c, stage->lanes), &known) && known < vectors * shape->width)
        vectors = (int)((known + shape->width - 1) / shape->width);
    vectors = fit_panels(c, &stage->b, &stage->c, stage->lanes, vectors, shape->width);
    int rows =
        smaller(stage->row_block < 1 ? 1 : stage->row_block, (registers - vectors) / vectors);
    if (index_known(length_of(c, stage->rows), &known) && known < rows)
        rows = is_panel_dim(c, &stage->a, stage->rows) ? rows : (int)known;
    if (stage->rows != TILE_DIM_NONE)
        rows = fit_panels(c, &stage->a, &stage->a, stage->rows, rows, 1);
    shape->vectors = vectors;
    shape->rows = rows;
}

static LLVMValueRef stride_of(const Contract *c, const Access *access, TileDimId dim) {
    if (dim == TILE_DIM_NONE)
        return index_const(c->m, 0);
    if (is_panel_dim(c, access, dim))
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
    c->b_whole = is_panel_dim(c, &stage->b, stage->lanes);
    c->rows_fixed = stage->rows != TILE_DIM_NONE && is_panel_dim(c, &stage->a, stage->rows);
}

static void choose_shape(Contract *c) {
    const Stage *stage = c->stage;
    memset(&c->shape, 0, sizeof c->shape);
    c->shape.elem = buffer_of(c, &stage->c)->elem;
    c->shape.width = c->shape.elem == ELEM_F64 ? c->m->lanes / 2 : c->m->lanes;
    choose_block(c);
    choose_strides(c);
}

// ---- blocks ----

static void enter(Contract *c, TileDimId dim, LLVMValueRef at) {
    c->k->at[dim] = at;
    cpu_access_enter(c->k, &c->a, dim);
    cpu_access_enter(c->k, &c->b, dim);
    cpu_access_enter(c->k, &c->c, dim);
}

typedef struct {
    LLVMValueRef a, b, c;
} Offsets;

static Offsets save(const Contract *c) {
    return (Offsets){c->a.offset, c->b.offset, c->c.offset};
}

static void restore(Contract *c, Offsets saved) {
    c->a.offset = saved.a;
    c->b.offset = saved.b;
    c->c.offset = saved.c;
}

static LLVMValueRef pointer_of(Contract *c, const CpuAccess *access) {
    return emit_element(c->m, access->buffer->elem, access->memory->base, access->offset);
}

// One block at `row` (counted from the start of the range).
static void emit_block_at(Contract *c, CpuMicroShape shape, LLVMValueRef row) {
    TileDimId rows = c->stage->rows;
    Offsets saved = save(c);
    if (rows != TILE_DIM_NONE)
        enter(c, rows, index_add(c->m, c->k->range[rows].lo, row));
    CpuMicroCall call = c->call;
    call.a = pointer_of(c, &c->a);
    call.b = pointer_of(c, &c->b);
    call.c = pointer_of(c, &c->c);
    cpu_call_microkernel(c->k, &shape, &call);
    restore(c, saved);
}

// Blocks of `size` rows from `from` up to (not beyond) `to`.
static void emit_blocks(Contract *c, CpuMicroShape shape, int size, LLVMValueRef from,
                        LLVMValueRef to, bool nonempty) {
    EmitLoop loop;
    shape.rows = size;
    emit_loop_open(c->m, &loop, from, to, index_const(c->m, size), nonempty, NULL, 0);
    emit_block_at(c, shape, loop.at);
    emit_loop_close(c->m, &loop, NULL, NULL);
}

// Rows that keep the multiply-add units busy; more only save loads.
static int busy_rows(const CpuMicroShape *shape) {
    return (CPU_LATENCY_SUMS + shape->vectors - 1) / shape->vectors;
}

static void limit_rows(const Contract *c, CpuMicroShape *shape, int most) {
    int rows = most < 1 ? 1 : smaller(shape->rows, most);
    while (c->rows_fixed && shape->rows % rows)
        rows--;
    shape->rows = rows;
}

// The block size for a known number of rows: somewhat smaller blocks of one size are better than
// two sizes, since each is a function to compile. But a step of k reads vector_bytes of b per
// rows / 2 cycles, and 16 bytes a cycle are what L2 can be expected to deliver.
static int64_t even_size(const Contract *c, const CpuMicroShape *shape, int64_t len) {
    int64_t size = shape->rows, least = size * 2 / 3, fed = c->m->target->machine.vector_bytes / 8;
    if (least < busy_rows(shape))
        least = busy_rows(shape);
    if (least < fed)
        least = fed;
    for (int64_t even = size; even >= least; even--)
        if (len % even == 0)
            return even;
    return size;
}

static void emit_known_rows(Contract *c, CpuMicroShape shape, int64_t len) {
    EmitModule *m = c->m;
    int64_t size = c->rows_fixed ? shape.rows : even_size(c, &shape, len);
    int64_t n_blocks = (len + size - 1) / size;
    int64_t small = c->rows_fixed ? len % size : len / n_blocks;
    int64_t large = c->rows_fixed ? size : small + 1;
    int64_t middle = c->rows_fixed ? len - small : len % n_blocks * large;
    if (middle)
        emit_blocks(c, shape, (int)large, index_const(m, 0), index_const(m, middle), true);
    if (middle < len)
        emit_blocks(c, shape, (int)small, index_const(m, middle), index_const(m, len), true);
}

// Full blocks, then the smallest ones that run at full speed, then single rows.
static void emit_unknown_rows(Contract *c, CpuMicroShape shape, LLVMValueRef len) {
    EmitModule *m = c->m;
    int sizes[] = {shape.rows, busy_rows(&shape), 1};
    LLVMValueRef from = index_const(m, 0);
    int before = 0;
    for (int i = 0; i < 3 && before != 1; i++) {
        int size = sizes[i];
        if (i && size >= before)
            continue;
        LLVMValueRef to = index_sub(m, len, index_rem(m, index_sub(m, len, from), size));
        emit_blocks(c, shape, size, from, to, false);
        from = to;
        before = size;
    }
}

static void emit_rows(Contract *c, CpuMicroShape shape) {
    LLVMValueRef len = length_of(c, c->stage->rows);
    int64_t known;
    if (index_known(len, &known))
        emit_known_rows(c, shape, known);
    else
        emit_unknown_rows(c, shape, len);
}

// Blocks of lanes from `from` to `to`, `step` lanes apart; shape.masked: the last one may be
// shorter.
static void emit_lane_blocks(Contract *c, CpuMicroShape shape, LLVMValueRef from, LLVMValueRef to,
                             bool nonempty) {
    TileDimId lanes = c->stage->lanes;
    EmitModule *m = c->m;
    EmitLoop loop;
    LLVMValueRef block = index_const(m, (int64_t)shape.vectors * shape.width);
    emit_loop_open(m, &loop, from, to, block, nonempty, NULL, 0);
    Offsets saved = save(c);
    if (lanes != TILE_DIM_NONE)
        enter(c, lanes, index_add(m, c->k->range[lanes].lo, loop.at));
    c->call.lanes = index_min(m, index_sub(m, to, loop.at), block);
    emit_rows(c, shape);
    restore(c, saved);
    emit_loop_close(m, &loop, NULL, NULL);
}

// Masks in vector registers take the place of sums: fewer rows then.
static void make_room_for_masks(const Contract *c, CpuMicroShape *shape) {
    int registers = c->m->target->machine.vector_registers - 1;
    if (shape->b_masked && !c->m->target->machine.has_masks)
        limit_rows(c, shape, (registers - 2 * shape->vectors) / shape->vectors);
}

static void emit_known_lanes(Contract *c, int64_t len) {
    EmitModule *m = c->m;
    CpuMicroShape shape = c->shape;
    int64_t block = (int64_t)shape.vectors * shape.width, whole = len - len % block;
    if (whole)
        emit_lane_blocks(c, shape, index_const(m, 0), index_const(m, whole), true);
    if (whole == len)
        return;
    shape.vectors = (int)((len % block + shape.width - 1) / shape.width);
    shape.masked = len % shape.width != 0;
    shape.b_masked = shape.masked && !c->b_whole;
    make_room_for_masks(c, &shape);
    emit_lane_blocks(c, shape, index_const(m, whole), index_const(m, len), true);
}

// Where b must not be read too far, only the last block reads it under masks: masked loads are as
// fast as others in L1, but not from further away. One block is worth few row sizes.
static void emit_unknown_lanes(Contract *c, LLVMValueRef len) {
    EmitModule *m = c->m;
    CpuMicroShape shape = c->shape;
    LLVMValueRef from = index_const(m, 0);
    shape.masked = true;
    shape.b_masked = !c->b_whole;
    if (shape.b_masked) {
        int64_t block = (int64_t)shape.vectors * shape.width;
        LLVMValueRef whole = index_sub(m, len, index_rem(m, len, block));
        emit_lane_blocks(c, c->shape, from, whole, false);
        from = whole;
        limit_rows(c, &shape, busy_rows(&shape));
    }
    make_room_for_masks(c, &shape);
    emit_lane_blocks(c, shape, from, len, false);
}

// ---- loops around ----

static void choose_mode(Contract *c) {
    TileDimList entered = {.count = (uint8_t)c->n_loops};
    memcpy(entered.at, c->loops, sizeof entered.at);
    LLVMValueRef first = cpu_first(c->k, &c->stage->c, &entered);
    c->shape.mode = !first ? CPU_SET : cpu_never(first) ? CPU_ADD : CPU_SET_OR_ADD;
    if (c->shape.mode == CPU_SET_OR_ADD)
        c->call.add = LLVMBuildNot(c->m->builder, first, "");
}

static void emit_all_blocks(Contract *c) {
    int64_t known;
    choose_mode(c);
    LLVMValueRef len = length_of(c, c->stage->lanes);
    if (index_known(len, &known))
        emit_known_lanes(c, known);
    else
        emit_unknown_lanes(c, len);
}

static void emit_loops(Contract *c, int i) {
    if (i == c->n_loops) {
        emit_all_blocks(c);
        return;
    }
    EmitModule *m = c->m;
    TileDimId dim = c->loops[i];
    CpuRange *range = &c->k->range[dim];
    EmitLoop loop;
    emit_loop_open(m, &loop, index_const(m, 0), range->len, index_const(m, 1), true, NULL, 0);
    Offsets saved = save(c);
    enter(c, dim, index_add(m, range->lo, loop.at));
    emit_loops(c, i + 1);
    restore(c, saved);
    emit_loop_close(m, &loop, NULL, NULL);
}

static bool in_box(const Stage *stage, TileDimId dim) {
    for (int i = 0; i < stage->n_dims; i++)
        if (stage->dims[i] == dim)
            return true;
    return false;
}

void cpu_emit_contract(CpuKernel *k, const Stage *stage) {
    Contract c = {.k = k, .m = k->module, .stage = stage};
    cpu_access_open(k, &c.a, &stage->a, TILE_DIM_NONE, 1, NULL);
    cpu_access_open(k, &c.b, &stage->b, TILE_DIM_NONE, 1, NULL);
    cpu_access_open(k, &c.c, &stage->c, TILE_DIM_NONE, 1, NULL);
    classify(&c);
    choose_shape(&c);
    for (uint32_t d = 0; d < k->kernel->dims.count; d++)
        if (!in_box(stage, (TileDimId)d)) // stands at the start of its range
            enter(&c, (TileDimId)d, k->range[d].lo);
    for (int i = 0; i < c.n_flat; i++)
        enter(&c, c.flat[i], k->range[c.flat[i]].lo);
    emit_loops(&c, 0);
}
