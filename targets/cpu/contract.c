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
// full blocks and one of all rows that are left. Lanes that are missing are masked.
#include "cpu/contract.h"

#include <string.h>

// ---- blocks ----

static void enter(Contract *c, TileDimId dim, LLVMValueRef at) {
    c->k->at[dim] = at;
    cpu_access_enter(c->k, &c->a, dim);
    cpu_access_enter(c->k, &c->b, dim);
    cpu_access_enter(c->k, &c->c, dim);
}

typedef struct {
    LLVMValueRef a, b, c, next_b;
} Offsets;

static Offsets save(const Contract *c) {
    return (Offsets){c->a.offset, c->b.offset, c->c.offset, c->next_b};
}

static void restore(Contract *c, Offsets saved) {
    c->a.offset = saved.a;
    c->b.offset = saved.b;
    c->c.offset = saved.c;
    c->next_b = saved.next_b;
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
    if (shape.ahead)
        call.ahead = contract_ahead_of_rows(c, &shape, row);
    cpu_call_microkernel(c->k, &shape, &call);
    restore(c, saved);
}

// Blocks of `size` rows from `from` up to (not beyond) `to`.
static void emit_blocks(Contract *c, CpuMicroShape shape, int size, LLVMValueRef from,
                        LLVMValueRef to, bool nonempty) {
    EmitLoop loop;
    shape.rows = size;
    contract_choose_ahead(c, &shape);
    emit_loop_open(c->m, &loop, from, to, index_const(c->m, size), nonempty, NULL, 0);
    emit_block_at(c, shape, loop.at);
    emit_loop_close(c->m, &loop, NULL, NULL);
}

static void limit_rows(const Contract *c, CpuMicroShape *shape, int most) {
    int rows = most < 1 ? 1 : most < shape->rows ? most : shape->rows;
    while (c->rows_fixed && shape->rows % rows)
        rows--;
    shape->rows = rows;
}

static void emit_known_rows(Contract *c, CpuMicroShape shape, int64_t len) {
    EmitModule *m = c->m;
    const Machine *machine = &m->target->machine;
    int64_t size =
        c->rows_fixed ? shape.rows : stage_even_rows(machine, len, shape.rows, shape.vectors);
    int64_t n_blocks = ceil_div(len, size);
    int64_t small = c->rows_fixed ? len % size : len / n_blocks;
    int64_t large = c->rows_fixed ? size : small + 1;
    int64_t middle = c->rows_fixed ? len - small : len % n_blocks * large;
    if (middle)
        emit_blocks(c, shape, (int)large, index_const(m, 0), index_const(m, middle), true);
    if (middle < len)
        emit_blocks(c, shape, (int)small, index_const(m, middle), index_const(m, len), true);
}

// Full blocks, then one of all rows that are left: each block reads all of b.
static void emit_unknown_rows(Contract *c, CpuMicroShape shape, LLVMValueRef len) {
    EmitModule *m = c->m;
    LLVMValueRef rest = index_rem(m, len, shape.rows), full = index_sub(m, len, rest);
    emit_blocks(c, shape, shape.rows, index_const(m, 0), full, false);
    for (int size = shape.rows - 1; size > 0; size--) {
        LLVMValueRef is_size = LLVMBuildICmp(m->builder, LLVMIntEQ, rest, index_const(m, size), "");
        emit_blocks(c, shape, size, full, LLVMBuildSelect(m->builder, is_size, len, full, ""),
                    false);
    }
}

static void emit_rows(Contract *c, CpuMicroShape shape) {
    LLVMValueRef len = contract_length(c, c->stage->rows);
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
    contract_ahead_of_lanes(c, loop.at, block);
    enter(c, lanes, index_add(m, c->k->range[lanes].lo, loop.at));
    c->call.lanes = index_min(m, index_sub(m, to, loop.at), block);
    emit_rows(c, shape);
    restore(c, saved);
    emit_loop_close(m, &loop, NULL, NULL);
}

// Masks in vector registers take the place of sums: fewer rows then.
static void make_room_for_masks(const Contract *c, CpuMicroShape *shape) {
    if (shape->b_masked)
        limit_rows(c, shape, machine_block_rows(&c->m->target->machine, shape->vectors, true));
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

// Where a last block begins that has lanes for half the vectors at most; `len`: there is none. Of
// short lengths it is a good part: 68 lanes are five vectors of sixteen, and six in blocks of two.
static LLVMValueRef half_block(const Contract *c, const CpuMicroShape *shape, LLVMValueRef len) {
    EmitModule *m = c->m;
    int64_t half = (int64_t)(shape->vectors / 2) * shape->width;
    LLVMValueRef rest = index_rem(m, len, (int64_t)shape->vectors * shape->width);
    LLVMValueRef fits = LLVMBuildICmp(m->builder, LLVMIntULE, rest, index_const(m, half), "");
    return LLVMBuildSelect(m->builder, fits, index_sub(m, len, rest), len, "");
}

static void emit_half_block(Contract *c, CpuMicroShape shape, LLVMValueRef from, LLVMValueRef len) {
    shape.vectors /= 2;
    limit_rows(c, &shape, (int)stage_busy_rows(shape.vectors));
    emit_lane_blocks(c, shape, from, len, false);
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
        limit_rows(c, &shape, (int)stage_busy_rows(shape.vectors));
    }
    make_room_for_masks(c, &shape);
    if (shape.vectors < 2) {
        emit_lane_blocks(c, shape, from, len, false);
        return;
    }
    LLVMValueRef half = half_block(c, &shape, len);
    emit_lane_blocks(c, shape, from, half, false);
    emit_half_block(c, shape, half, len);
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
    LLVMValueRef len = contract_length(c, c->stage->lanes);
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
    contract_ahead_of_turn(c, i, loop.at);
    enter(c, dim, index_add(m, range->lo, loop.at));
    emit_loops(c, i + 1);
    restore(c, saved);
    emit_loop_close(m, &loop, NULL, NULL);
}

void cpu_emit_contract(CpuKernel *k, const Stage *stage) {
    Contract c = {.k = k, .m = k->module, .stage = stage};
    cpu_access_open(k, &c.a, &stage->a, TILE_DIM_NONE, 1, NULL);
    cpu_access_open(k, &c.b, &stage->b, TILE_DIM_NONE, 1, NULL);
    cpu_access_open(k, &c.c, &stage->c, TILE_DIM_NONE, 1, NULL);
    contract_classify(&c);
    contract_choose_shape(&c);
    for (uint32_t d = 0; d < k->kernel->dims.count; d++)
        if (!stage_has_dim(stage, (TileDimId)d)) // stands at the start of its range
            enter(&c, (TileDimId)d, k->range[d].lo);
    for (int i = 0; i < c.n_flat; i++)
        enter(&c, c.flat[i], k->range[c.flat[i]].lo);
    contract_ahead_begin(&c);
    emit_loops(&c, 0);
}
