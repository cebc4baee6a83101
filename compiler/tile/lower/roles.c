// SPDX-License-Identifier: Apache-2.0
// Contraction stages inside a nest: which dims are batch, rows, lanes and summed.
//
//     J[n h m] += Q[n h d] * K[m h d]      batch h   rows n   lanes m (K in panels)   summed d
//     L[n g m] += P[h g] * J[n h m]        batch -   rows g   lanes m, n in loops     summed h
//     O[n h e] += W[n h m] * V[m h e]      batch h   rows n   lanes e                 summed m
//     R[g h]   += dL[n g m] * J[n h m]     batch -   rows g   cols h   lanes m        summed n, m
//     L[n g m] += P[h g m] * J[n h m]      batch m   rows g   cols n   lanes m        summed h
//
// The lanes are a dim of one operand that is contiguous there (or has panels) and can be contiguous
// in the result. Values in scratch lie as the nest orders them, with the streamed dim last.
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
    if ((set_has(nest->streamed, dim) || dim == nest->lanes) && !value_adds_rows(c))
        worth += 4;
    if (designated != NO_BUFFER) {
        TileDimList order = lower_buffer_dims(nest->lower, (uint16_t)designated);
        worth += is_last(&order, dim) ? 2 : 0;
    }
    return worth;
}

// What tasks add to in parts or in turn goes where it is wanted, block of rows after block.
static bool may_be_lanes(const Nest *nest, const Value *c, TileDimId dim) {
    int designated = lower_designated(nest->lower, c);
    if (!value_adds_rows(c) || designated == NO_BUFFER)
        return !value_adds_rows(c);
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
        (!summed && value_adds_rows(c) && !may_be_lanes(nest, c, nest->lanes)))
        return false;
    for (int k = 0; k < 2; k++)
        if (!operand_runs_along(nest, c->args[k], nest->lanes) ||
            (summed && has_panels(nest, c->args[k])))
            return false;
    r->rows = longest_of(nest, r->own_a);
    r->cols = longest_of(nest, r->own_b);
    return summed || nest_length(nest, r->rows) > 1 || nest_length(nest, r->cols) > 1;
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
    if (!choose_lanes(nest, c, roles))
        return choose_common_lanes(nest, c, roles);
    roles->rows = choose_rows(nest, roles);
    return true;
}

// Is it an argument that lies along these lanes?
static bool lies_along(const Nest *nest, const Value *operand, TileDimId lanes) {
    Access access;
    return terms_plain_access(nest->lower, operand, &access) &&
           operand_runs_along(nest, operand, lanes) && !has_panels(nest, operand);
}

bool roles_find_dots(const Nest *nest, const Value *c, ContractRoles *r) {
    Elem elem = elem_work(c->elem);
    if (c->n_args != 2 || !elem_is_float(elem) || value_in_parts(c) || c->made_for.twice)
        return false;
    *r = (ContractRoles){.a = c->args[0], .b = c->args[1], .lanes = nest->lanes};
    split_dims(nest->lower, c, r);
    if (!r->own_a) {
        *r = (ContractRoles){.a = c->args[1], .b = c->args[0], .lanes = nest->lanes};
        split_dims(nest->lower, c, r);
    }
    DimSet of_c = lower_dim_set(nest->lower, &c->dims);
    bool fits = r->own_a && !r->own_b && !(r->own_a & ~of_c) && nest->lanes != TILE_DIM_NONE &&
                set_has(r->summed, nest->lanes);
    r->rows = longest_of(nest, r->own_a);
    r->cols = TILE_DIM_NONE;
    return fits && is_readable(nest, r->a, elem) && is_readable(nest, r->b, elem) &&
           lies_along(nest, r->a, nest->lanes) && lies_along(nest, r->b, nest->lanes);
}

// ---- the stage ---------------------------------------------------------------------------------

static Access operand_access(const Nest *nest, const Value *operand) {
    Access access;
    if (!terms_plain_access(nest->lower, operand, &access))
        ice("tile lower: an operand of a contraction, value %u, is not stored", operand->id);
    return access;
}

TileDimId roles_longest_sum(const Nest *nest, const ContractRoles *roles) {
    TileDimList k = lower_order(roles->summed, &nest->order);
    TileDimId longest = k.at[0];
    for (int i = 1; i < k.count; i++)
        if (nest_length(nest, k.at[i]) > nest_length(nest, longest))
            longest = k.at[i];
    return longest;
}

// Rows of dot products go in blocks, all batches of a block one after the other: where they lie
// side by side, as heads do, memory is read once from its beginning to its end.
static NodeList *open_dot_rows(const Nest *nest, const Member *member, NodeList *into) {
    const ContractRoles *r = &member->roles;
    if (!r->batch || nest_length(nest, r->rows) <= member->blocks.rows)
        return into;
    return &node_loop(nest->lower->kernel, into, LOOP_SEQUENTIAL, r->rows, member->blocks.rows)
                ->body;
}

// A long sum goes in pieces, all batches one after the other.
static NodeList *open_pieces(const Nest *nest, const Member *member, NodeList *into) {
    if (!member->blocks.sum)
        return into;
    TileDimList batch = lower_order(member->roles.batch & ~nest->rows, &nest->order);
    for (int i = 0; i < batch.count; i++)
        into = &node_loop(nest->lower->kernel, into, LOOP_SEQUENTIAL, batch.at[i], 1)->body;
    return &node_loop(nest->lower->kernel, into, LOOP_SEQUENTIAL,
                      roles_longest_sum(nest, &member->roles), member->blocks.sum)
                ->body;
}

// The box, outermost first: rows innermost of what is kept, then what is summed.
static TileDimList stage_dims(const Nest *nest, const ContractRoles *r) {
    TileDimId inner = set_has(r->own_b, r->lanes) ? r->lanes : r->cols;
    DimSet inners = inner == TILE_DIM_NONE ? 0 : set_of(inner);
    TileDimList dims = lower_order(r->batch | (r->own_b & ~inners), &nest->order);
    if (inners)
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
    into = roles_are_dots(r) ? open_dot_rows(nest, member, into) : open_pieces(nest, member, into);
    Stage *stage = node_contract(kernel, into, dims, access_plain(kernel, buffer),
                                 operand_access(nest, r->a), operand_access(nest, r->b));
    stage->lanes = r->lanes;
    stage->rows = r->rows;
    stage->cols = r->cols;
    stage->row_block = member->blocks.rows;
    stage->col_block = member->blocks.cols;
    stage->lane_block = member->blocks.lanes;
    stage->in_order = member->value->made_for.twice;
}
