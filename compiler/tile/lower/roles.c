// SPDX-License-Identifier: Apache-2.0
// Contraction stages inside a nest: which dims are batch, rows, lanes and summed, and the blocks of
// the microkernel.
//
//     J[n h m] += Q[n h d] * K[m h d]      batch h   rows n   lanes m (K in panels)   summed d
//     L[n g m] += P[h g] * J[n h m]        batch -   rows g   lanes m, n in loops     summed h
//     O[n h e] += W[n h m] * V[m h e]      batch h   rows n   lanes e                 summed m
//     R[g h]   += dL[n g m] * J[n h m]     batch -   rows g   cols h   lanes m        summed n, m
//     L[n g m] += P[h g m] * J[n h m]      batch m   rows g   cols n   lanes m        summed h
//
// The lanes are a dim of one operand that is contiguous there (or has panels) and can be contiguous
// in the result. Values in scratch lie as the nest orders them, with the streamed dim last.
//
// The block of rows x vectors is the one whose calls take the fewest cycles: two multiply-adds or
// two loads a cycle, and a fixed cost for each call and each vector of the result.
#include <math.h>

#include "tile/lower/nest.h"

// ---- where the lanes can run -------------------------------------------------------------------

static bool is_last(const TileDimList *dims, TileDimId dim) {
    return dims_last_of(dims) == dim;
}

static bool has_dim_twice(const Access *access) {
    for (int i = 0; i < access->rank; i++)
        for (int k = 0; k < i; k++)
            if (access->index[i].dim == access->index[k].dim)
                return true;
    return false;
}

// Can the operand be read as it is, or as it will lie in scratch?
static bool is_readable(const Nest *nest, const Value *operand, Elem elem) {
    Access access;
    if (terms_plain_access(nest->lower, operand, &access))
        return nest->lower->kernel->buffers.at[access.buffer].elem == elem &&
               !has_dim_twice(&access);
    return nest_member(nest, operand) != NULL;
}

static bool operand_runs_along(const Nest *nest, const Value *operand, TileDimId lanes) {
    Access access;
    if (terms_plain_access(nest->lower, operand, &access))
        return access_runs_along(nest->lower->kernel, &access, lanes);
    const Member *member = nest_member(nest, operand);
    if (member->last != TILE_DIM_NONE)
        return member->last == lanes;
    TileDimList dims = lower_order(lower_dim_set(nest->lower, &operand->dims), &nest->order);
    return is_last(&dims, lanes);
}

// Panels are for the lanes.
static bool has_panels(const Nest *nest, const Value *operand) {
    Access access;
    return terms_plain_access(nest->lower, operand, &access) &&
           access_panel_dim(nest->lower->kernel, &access) != TILE_DIM_NONE;
}

static void split_dims(const Lowering *lower, const Value *c, ContractRoles *r) {
    DimSet in_a = lower_dim_set(lower, &r->a->dims), in_b = lower_dim_set(lower, &r->b->dims);
    DimSet in_c = lower_dim_set(lower, &c->dims);
    r->batch = in_c & ~(in_a ^ in_b); // the number of a part is there, too
    r->own_a = in_a & ~in_b;
    r->own_b = in_b & ~in_a;
    r->summed = in_a & in_b & ~in_c;
}

// Operand order is free: a has the rows, b the lanes.
static void take_lanes(const Nest *nest, const Value *c, TileDimId lanes, ContractRoles *r) {
    int at = set_has(lower_dim_set(nest->lower, &c->args[1]->dims), lanes);
    r->b = c->args[at];
    r->a = c->args[1 - at];
    split_dims(nest->lower, c, r);
    r->cols = TILE_DIM_NONE;
    r->lanes = lanes;
}

static double lanes_worth(const Nest *nest, const Value *c, TileDimId dim) {
    int designated = lower_designated(nest->lower, c);
    double length = (double)nest_length(nest, dim), worth = fmin(length, 64) / 64;
    if ((set_has(nest->streamed, dim) || dim == nest->lanes) && !value_in_parts(c))
        worth += 4;
    if (designated != NO_BUFFER) {
        TileDimList order = lower_buffer_dims(nest->lower, (uint16_t)designated);
        worth += is_last(&order, dim) ? 2 : 0;
    }
    return worth;
}

// What tasks add to in parts goes where it is wanted, block of rows after block.
static bool may_be_lanes(const Nest *nest, const Value *c, TileDimId dim) {
    int designated = lower_designated(nest->lower, c);
    if (!value_in_parts(c) || designated == NO_BUFFER)
        return !value_in_parts(c);
    TileDimList order = lower_buffer_dims(nest->lower, (uint16_t)designated);
    return is_last(&order, dim);
}

static bool choose_lanes(const Nest *nest, const Value *c, ContractRoles *r) {
    const Lowering *lower = nest->lower;
    DimSet in[2] = {lower_dim_set(lower, &c->args[0]->dims),
                    lower_dim_set(lower, &c->args[1]->dims)};
    DimSet possible = (in[0] ^ in[1]) & lower_dim_set(lower, &c->dims);
    double most = 0;
    for (TileDimId d = 0; d < lower->kernel->dims.count; d++) {
        if (!set_has(possible, d) || !may_be_lanes(nest, c, d) ||
            !operand_runs_along(nest, c->args[set_has(in[1], d)], d) ||
            has_panels(nest, c->args[!set_has(in[1], d)]))
            continue;
        double worth = lanes_worth(nest, c, d);
        if (worth > most) {
            most = worth;
            take_lanes(nest, c, d, r);
        }
    }
    return most > 0;
}

static TileDimId longest_of(const Nest *nest, DimSet dims) {
    TileDimId best = TILE_DIM_NONE;
    for (TileDimId d = 0; d < nest->lower->kernel->dims.count; d++)
        if (set_has(dims, d) &&
            (best == TILE_DIM_NONE || nest_length(nest, d) > nest_length(nest, best)))
            best = d;
    return best;
}

static TileDimId choose_rows(const Nest *nest, const ContractRoles *r) {
    bool blocks = nest->block_dim != TILE_DIM_NONE && set_has(r->own_a, nest->block_dim);
    return blocks ? nest->block_dim : longest_of(nest, r->own_a);
}

// The nest's lanes are those of both operands, where these run along them and each has a dim of the
// result of its own: summed (gradients of what mixes heads), or the result's, too (what mixes heads
// for each position).
static bool choose_common_lanes(const Nest *nest, const Value *c, ContractRoles *r) {
    *r = (ContractRoles){.a = c->args[0], .b = c->args[1], .lanes = nest->lanes};
    split_dims(nest->lower, c, r);
    if (nest->lanes == TILE_DIM_NONE || !set_has(r->summed | r->batch, nest->lanes))
        return false;
    bool summed = roles_sum_lanes(r);
    DimSet single = summed ? nest->rows : 0;
    if (!(r->own_a & ~single) || !(r->own_b & ~single) ||
        (!summed && value_in_parts(c) && !may_be_lanes(nest, c, nest->lanes)))
        return false;
    for (int k = 0; k < 2; k++)
        if (!operand_runs_along(nest, c->args[k], nest->lanes) ||
            (summed && has_panels(nest, c->args[k])))
            return false;
    r->rows = longest_of(nest, r->own_a);
    r->cols = longest_of(nest, r->own_b);
    return summed || nest_length(nest, r->rows) * nest_length(nest, r->cols) > 1;
}

// ---- blocks ------------------------------------------------------------------------------------

static int64_t volume_of(const Nest *nest, DimSet dims) {
    int64_t volume = 1;
    for (TileDimId d = 0; d < nest->lower->kernel->dims.count; d++)
        volume *= set_has(dims, d) ? nest_length(nest, d) : 1;
    return volume;
}

static double block_cycles(const Nest *nest, const ContractRoles *r, int64_t rows, int64_t vectors,
                           int width) {
    int64_t all = r->rows == TILE_DIM_NONE ? 1 : nest_length(nest, r->rows);
    double k = (double)volume_of(nest, r->summed);
    double lane_blocks = (double)ceil_div(nest_length(nest, r->lanes), vectors * width), cycles = 0;
    for (int64_t left = all; left > 0; left -= rows) {
        double now = (double)(left < rows ? left : rows), n = (double)vectors;
        double step = fmax(fmax(now * n, now + n) / 2, 4 * fmin(1, 8 / (now * n)));
        cycles += k * step + now * n + 20;
    }
    return cycles * lane_blocks;
}

static int panel_width_of(const Nest *nest, const Value *operand) {
    Access access;
    if (!terms_plain_access(nest->lower, operand, &access) ||
        access_panel_dim(nest->lower->kernel, &access) == TILE_DIM_NONE)
        return 0;
    return nest->lower->kernel->buffers.at[access.buffer].panel_width;
}

static void choose_blocks(const Nest *nest, ContractRoles *r, Elem elem) {
    const Machine *machine = nest->lower->machine;
    int width = machine_lanes(machine, elem_bytes(elem)), panel = panel_width_of(nest, r->b);
    int64_t rows = r->rows == TILE_DIM_NONE ? 1 : nest_length(nest, r->rows);
    double best = 0;
    for (int vectors = 1; vectors <= 4; vectors++) {
        if (panel ? panel % (vectors * width)
                  : (vectors - 1) * width >= nest_length(nest, r->lanes))
            continue;
        int most = (machine->vector_registers - 2 - vectors) / vectors;
        most = most > machine->rows_unpacked ? machine->rows_unpacked : most < 1 ? 1 : most;
        int64_t block = ceil_div(rows, ceil_div(rows, most));
        double cycles = block_cycles(nest, r, block, vectors, width);
        if (best == 0 || cycles < best) {
            best = cycles;
            r->row_block = (int32_t)block;
            r->lane_block = vectors * width;
        }
    }
    if (best == 0)
        ice("tile lower: panels of %d fit no block of the microkernel", panel);
}

// Vectors of shared lanes that a block of so many sums wants, as panels allow.
static int choose_vectors(const Nest *nest, const ContractRoles *r, int sums, int width) {
    int vectors = 1, panel_a = panel_width_of(nest, r->a), panel_b = panel_width_of(nest, r->b);
    while (sums * vectors < SUMS_IN_FLIGHT && panel_a % (2 * vectors * width) == 0 &&
           panel_b % (2 * vectors * width) == 0)
        vectors *= 2;
    return vectors;
}

// Blocks of rows x cols sums that stay in registers, with as few loads for each as may be.
static void choose_common_blocks(const Nest *nest, ContractRoles *r, Elem elem) {
    int width = machine_lanes(nest->lower->machine, elem_bytes(elem));
    int most = nest->lower->machine->vector_registers;
    int64_t rows = nest_length(nest, r->rows), cols = nest_length(nest, r->cols);
    double best = 0;
    for (int64_t i = 1; i <= rows && i < most; i++)
        for (int64_t k = 1; k <= cols && i * k + k + 1 < most; k++) {
            double blocks = (double)(ceil_div(rows, i) * ceil_div(cols, k));
            double cycles = blocks * (double)(i * k + i + k);
            if (best > 0 && cycles >= best)
                continue;
            best = cycles;
            r->row_block = (int32_t)i;
            r->col_block = (int32_t)k;
        }
    if (roles_share_lanes(r))
        r->lane_block = width * choose_vectors(nest, r, r->row_block * r->col_block, width);
}

bool roles_find(const Nest *nest, const Value *c, ContractRoles *roles) {
    const Lowering *lower = nest->lower;
    Elem elem = elem_work(c->elem);
    if (c->n_args != 2 || !elem_is_float(elem) || c->number != 1)
        return false;
    DimSet in_a = lower_dim_set(lower, &c->args[0]->dims);
    DimSet in_b = lower_dim_set(lower, &c->args[1]->dims), in_c = lower_dim_set(lower, &c->dims);
    bool fits = (in_a & in_b & ~in_c) && !((in_a ^ in_b) & ~in_c);
    if (!fits || !is_readable(nest, c->args[0], elem) || !is_readable(nest, c->args[1], elem))
        return false;
    if (!choose_lanes(nest, c, roles)) {
        if (!choose_common_lanes(nest, c, roles))
            return false;
        choose_common_blocks(nest, roles, elem);
        return true;
    }
    roles->rows = choose_rows(nest, roles);
    choose_blocks(nest, roles, elem);
    return true;
}

// ---- the stage ---------------------------------------------------------------------------------

static Access operand_access(const Nest *nest, const Value *operand) {
    Access access;
    if (!terms_plain_access(nest->lower, operand, &access))
        ice("tile lower: an operand of a contraction, value %u, is not stored", operand->id);
    return access;
}

// A long sum goes in pieces whose block of b may stay in cache for all blocks of rows, as long as
// what it is summed into stays in L1 meanwhile.
static NodeList *open_pieces(const Nest *nest, const ContractRoles *r, Elem c, NodeList *into) {
    int64_t elem = (int64_t)elem_bytes(c);
    int64_t width = machine_lanes(nest->lower->machine, elem_bytes(c));
    int64_t block = elem * r->lane_block * volume_of(nest, r->summed);
    int64_t result = elem * volume_of(nest, r->own_a | r->own_b);
    if (block <= ASKED_BYTES_MAX || result > nest->lower->machine->l1_bytes / 2)
        return into;
    TileDimList batch = lower_order(r->batch & ~nest->rows, &nest->order);
    TileDimList k = lower_order(r->summed, &nest->order);
    TileDimId longest = k.at[0];
    for (int i = 1; i < k.count; i++)
        if (nest_length(nest, k.at[i]) > nest_length(nest, longest))
            longest = k.at[i];
    int64_t pieces = ceil_div(block, ASKED_BYTES_MAX), length = nest_length(nest, longest);
    if (pieces * width > length)
        return into;
    for (int i = 0; i < batch.count; i++)
        into = &node_loop(nest->lower->kernel, into, LOOP_SEQUENTIAL, batch.at[i], 1)->body;
    return &node_loop(nest->lower->kernel, into, LOOP_SEQUENTIAL, longest,
                      round_up(ceil_div(length, pieces), width))
                ->body;
}

// The box, outermost first: rows innermost of what is kept, then what is summed.
static TileDimList stage_dims(const Nest *nest, const ContractRoles *r) {
    TileDimId inner = set_has(r->own_b, r->lanes) ? r->lanes : r->cols;
    TileDimList dims = lower_order(r->batch | (r->own_b & ~set_of(inner)), &nest->order);
    dims_append(&dims, &TILE_DIMS(inner));
    DimSet rows = r->rows == TILE_DIM_NONE ? 0 : set_of(r->rows);
    TileDimList others = lower_order(r->own_a & ~rows, &nest->order);
    TileDimList k = lower_order(r->summed, &nest->order);
    dims_append(&dims, &others);
    if (rows)
        dims_append(&dims, &TILE_DIMS(r->rows));
    dims_append(&dims, &k);
    return dims;
}

void roles_emit(const Nest *nest, const Member *member, uint16_t buffer, NodeList *into) {
    const ContractRoles *r = &member->roles;
    Kernel *kernel = nest->lower->kernel;
    TileDimList dims = stage_dims(nest, r);
    if (set_has(r->own_b, r->lanes))
        into = open_pieces(nest, r, kernel->buffers.at[buffer].elem, into);
    Stage *stage = node_contract(kernel, into, dims, access_plain(kernel, buffer),
                                 operand_access(nest, r->a), operand_access(nest, r->b));
    stage->lanes = r->lanes;
    stage->rows = r->rows;
    stage->cols = r->cols;
    stage->row_block = r->row_block;
    stage->col_block = r->col_block;
    stage->lane_block = r->lane_block;
    stage->in_order = member->value->made_for.twice;
}
