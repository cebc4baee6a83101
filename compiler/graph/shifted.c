// SPDX-License-Identifier: Apache-2.0
// Forms in which positions are moved by a number that does not depend on them, so that what lies
// side by side still does:
//
//     gather(B[r], index(m) + rest[n], dim=r)
//     sum over m of where(index(m) == index(r) + rest[n], X[n, m], 0)
//
// fuse/distances.c and fuse/hits.c write them, the tile level has accesses for them.
#include "graph/graph.h"

bool value_is_moved_index(const Value *value, DimId *dim, const Value **rest) {
    for (int k = 0; value->op == OP_ADD && value->elem == ELEM_I64 && k < 2; k++) {
        const Value *index = value->args[k];
        *rest = value->args[1 - k];
        *dim = index->dim;
        if (index->op == OP_INDEX && !dims_has(&(*rest)->dims, *dim))
            return true;
    }
    return false;
}

// The arguments of a commutative value, one of which is index(dim) of a dim that the other lacks.
static bool splits_index(const Value *value, int k, const Value **index, const Value **other) {
    *index = value->args[k];
    *other = value->args[1 - k];
    return (*index)->op == OP_INDEX && !dims_has(&(*other)->dims, (*index)->dim);
}

// index(from) == index(to) + rest, with `of` over from and not over to; NULL: over whatever.
static bool is_shift(const Value *value, const Value *of, ShiftedSum *out) {
    const Value *from, *place, *to, *rest;
    for (int k = 0; value->op == OP_EQ && value->args[0]->elem == ELEM_I64 && k < 4; k++) {
        if (!splits_index(value, k / 2, &from, &place) || place->op != OP_ADD ||
            !splits_index(place, k % 2, &to, &rest))
            continue;
        *out = (ShiftedSum){of, rest, from->dim, to->dim};
        if (!of || (dims_has(&of->dims, from->dim) && !dims_has(&of->dims, to->dim)))
            return true;
    }
    return false;
}

static bool selects_shift(const Value *value, ShiftedSum *out) {
    return value->op == OP_SELECT && value_is_zero(value->args[2]) &&
           is_shift(value->args[0], value->args[1], out);
}

bool value_is_shift(const Value *value) {
    ShiftedSum shifted;
    return is_shift(value, NULL, &shifted) || selects_shift(value, &shifted);
}

bool value_is_shifted_sum(const Value *value, ShiftedSum *out) {
    return value->op == OP_SUM && selects_shift(value->args[0], out) &&
           dims_has(&value->dims, out->to) && !dims_has(&value->dims, out->from);
}
