// SPDX-License-Identifier: Apache-2.0
// Asking for what is read after a block of b, or after rows of a, while the multiply-adds of these
// run.
//
// The row blocks that share a block of b each ask for a part of the next one: of the next block of
// lanes, or of the first after a step of the loops around. Without that the first row block waits
// for all of a block that comes from afar, since what the hardware fetches by itself ends with the
// page. For blocks that are one piece of memory, so that they are asked for in its order, which the
// hardware takes up, and of arguments: scratch was written just now.
//
// Where b has a row for each step, each step asks for the lanes of its row that follow: the
// hardware follows few rows at a time. If all steps together ask for more than would stay in L2
// until then, they ask for the same lanes of later rows.
#include "cpu/contract.h"

// The length of a dim's range, or what it is likely to be.
static int64_t likely_length(const Contract *c, TileDimId dim) {
    if (dim == TILE_DIM_NONE)
        return 1;
    const CpuRange *range = &c->k->range[dim];
    int64_t known, step = range->depth ? range->step[range->depth - 1] : 0;
    return index_known(range->len, &known) ? known : step ? step : 512;
}

static int64_t step_bytes(const CpuMicroShape *shape) {
    return (int64_t)shape->vectors * shape->width * (int64_t)elem_bytes(shape->b_elem);
}

// Rows that are neighbours in a share lines, and where each step reads another page, no hardware
// follows: the first block that reads a line would wait for it in every step.
static bool asks_rows(const CpuMicroShape *shape, int64_t blocks) {
    return shape->a_row == 1 && blocks > 1 &&
           (shape->a_k == CPU_UNKNOWN ||
            shape->a_k * (int64_t)elem_bytes(shape->a_elem) >= ASKED_STRIDE_MIN);
}

// Nothing where b stays in L1. All row blocks ask for the same: rows that are pages apart meet in
// few sets of L1, so that a later block finds little of what an earlier one asked for (64 rows
// times 768 x 3072: 11% faster than without; 512 rows times 768 x 768: 0 to 2%). Code is for every
// machine of a level: what stays in the caches of the smallest.
static CpuMicroAsks asks_of_rows_of_b(const Contract *c, const CpuMicroShape *shape,
                                      int64_t steps) {
    enum { STAYS_IN_L1 = 16 << 10, STAYS_IN_L2 = 512 << 10 };
    int64_t row = mul_capped(likely_length(c, c->stage->lanes), (int64_t)elem_bytes(shape->b_elem));
    if (mul_capped(steps, row) <= STAYS_IN_L1)
        return CPU_ASKS_NOTHING;
    bool stay = step_bytes(shape) < row && mul_capped(steps, step_bytes(shape)) <= STAYS_IN_L2;
    return stay ? CPU_ASKS_LANES : CPU_ASKS_STEPS;
}

// A shape that asks for nothing is as it was.
void contract_choose_ahead(const Contract *c, CpuMicroShape *shape) {
    if (c->k->kernel->schedule.prefetch == PREFETCH_NONE)
        return;
    int64_t steps = 1;
    for (int i = 0; i < c->n_flat; i++)
        steps = mul_capped(steps, likely_length(c, c->flat[i]));
    int64_t blocks = (likely_length(c, c->stage->rows) + shape->rows - 1) / shape->rows;
    int64_t bytes = step_bytes(shape);
    bool one_piece = shape->b_k == (int64_t)shape->vectors * shape->width;
    bool asks = one_piece && c->b.buffer->place != PLACE_SCRATCH &&
                stage_asks_ahead((double)blocks, (double)steps, (double)mul_capped(steps, bytes));
    shape->asks_rows = asks_rows(shape, blocks);
    shape->asks_b = one_piece ? CPU_ASKS_NOTHING : asks_of_rows_of_b(c, shape, steps);
    shape->ahead = asks ? (int)((bytes + blocks * MACHINE_LINE - 1) / (blocks * MACHINE_LINE)) : 0;
}

// Where b is once the loops from `first` on are at their starts and the lanes at `lanes`.
static LLVMValueRef offset_of(const Contract *c, LLVMValueRef offset, int first,
                              LLVMValueRef lanes) {
    EmitModule *m = c->m;
    for (int i = first; i < c->n_loops; i++) {
        TileDimId dim = c->loops[i];
        offset = index_add(m, offset, cpu_access_part(c->k, &c->b, dim, c->k->range[dim].lo));
    }
    return index_add(m, offset, cpu_access_part(c->k, &c->b, c->stage->lanes, lanes));
}

// From where the range of the dim begins to where it ends, if a loop around cuts it.
static LLVMValueRef one_range(const Contract *c, TileDimId dim) {
    const CpuRange *range = &c->k->range[dim];
    return range->depth ? cpu_access_part(c->k, &c->b, dim, range->len) : index_const(c->m, 0);
}

// After the last turn: the next piece where a loop cuts the lanes or the sum, or this one again.
void contract_ahead_begin(Contract *c) {
    EmitModule *m = c->m;
    LLVMValueRef begin = offset_of(c, c->b.offset, 0, c->k->range[c->stage->lanes].lo);
    LLVMValueRef by = one_range(c, c->stage->lanes);
    for (int i = 0; i < c->n_flat; i++)
        by = index_add(m, by, one_range(c, c->flat[i]));
    c->next_b = index_add(m, begin, by);
}

static void choose_next(Contract *c, LLVMValueRef at, LLVMValueRef end, LLVMValueRef offset) {
    LLVMValueRef more = LLVMBuildICmp(c->m->builder, LLVMIntSLT, at, end, "");
    c->next_b = LLVMBuildSelect(c->m->builder, more, offset, c->next_b, "");
}

void contract_ahead_of_turn(Contract *c, int i, LLVMValueRef at) {
    EmitModule *m = c->m;
    TileDimId dim = c->loops[i];
    const CpuRange *range = &c->k->range[dim];
    LLVMValueRef next = index_add(m, at, index_const(m, 1));
    LLVMValueRef part = cpu_access_part(c->k, &c->b, dim, index_add(m, range->lo, next));
    LLVMValueRef offset = index_add(m, c->b.offset, part);
    choose_next(c, next, range->len, offset_of(c, offset, i + 1, c->k->range[c->stage->lanes].lo));
}

void contract_ahead_of_lanes(Contract *c, LLVMValueRef at, LLVMValueRef block) {
    EmitModule *m = c->m;
    const CpuRange *range = &c->k->range[c->stage->lanes];
    LLVMValueRef next = index_add(m, at, block);
    LLVMValueRef part =
        cpu_access_part(c->k, &c->b, c->stage->lanes, index_add(m, range->lo, next));
    choose_next(c, next, range->len, index_add(m, c->b.offset, part));
}

LLVMValueRef contract_ahead_of_rows(const Contract *c, const CpuMicroShape *shape,
                                    LLVMValueRef row) {
    EmitModule *m = c->m;
    int64_t share = (int64_t)shape->ahead * MACHINE_LINE; // bytes of a step
    int64_t parts = ceil_div(step_bytes(shape), share);
    LLVMValueRef part = index_rem(m, index_div(m, row, shape->rows), parts);
    LLVMValueRef steps = index_mul(m, part, c->call.k);
    LLVMValueRef by =
        index_mul(m, steps, index_const(m, share / (int64_t)elem_bytes(shape->b_elem)));
    return emit_element(m, shape->b_elem, c->b.memory->base, index_add(m, c->next_b, by));
}
