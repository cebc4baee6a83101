// SPDX-License-Identifier: Apache-2.0
// Constants, and identities that hold for every number, infinities and NaN included.
//
//     before  a = 2 * 3;  b = x * 1;  c = where(true, y, z);  e = -(-w)
//     after   a = 6;      b = x;      c = y;                  e = w
//
// Requires: nothing. Ensures: no map of constants alone, as far as its result is exact in a double.
// x * 0, x - x and x / x stay, since NaN and infinity make them something else than a constant; x +
// 0 becomes x although that keeps a negative zero.
#include "graph/rewrite/simplify.h"

#include <math.h>

static bool is_number(const Value *value, double number) {
    return value->op == OP_CONST && value->number == number;
}

// ---- maps of constants -------------------------------------------------------------------------

// floor(a / b) and what is left of a, on whole numbers that a double holds exactly.
static bool fold_whole_division(Op op, double a, double b, double *out) {
    if (b == 0)
        return false;
    double quotient = floor(a / b);
    *out = op == OP_FLOORDIV ? quotient : a - b * quotient;
    return true;
}

static bool whole_is_exact(double number, Elem elem) {
    double limit = elem == ELEM_I32 ? 2147483647.0 : 9007199254740992.0; // 2^31 - 1, 2^53
    return fabs(number) <= limit;
}

static bool fold_cast(double a, Elem elem, double *out) {
    *out = a;
    if (elem == ELEM_F16 || elem == ELEM_BF16)
        return false; // rounds
    if (elem == ELEM_BOOL)
        *out = a != 0;
    else if (elem_is_int(elem))
        *out = trunc(a);
    return isfinite(a);
}

static bool fold_number(const Value *value, Value **args, double *out) {
    double a = args[0]->number, b = value->n_args > 1 ? args[1]->number : 0;
    Elem elem = args[0]->elem;
    if (value->op == OP_CAST)
        return fold_cast(a, value->elem, out) &&
               (!elem_is_int(value->elem) || whole_is_exact(*out, value->elem));
    bool whole = elem_is_int(elem);
    if (whole && (!whole_is_exact(a, elem) || !whole_is_exact(b, elem)))
        return false;
    if (value->op == OP_FLOORDIV || value->op == OP_MOD) {
        if (!whole || !fold_whole_division(value->op, a, b, out))
            return false;
    } else if (value->n_args == 1) {
        *out = op_apply1(value->op, a);
    } else if (value->n_args == 2) {
        if (isnan(a) || isnan(b))
            return false;
        *out = op_apply2(value->op, a, b);
    } else {
        return false;
    }
    return !isnan(*out) && (!elem_is_int(value->elem) || whole_is_exact(*out, value->elem));
}

static Value *fold_constants(Rewrite *rewrite, const Value *value, Value **args) {
    for (uint32_t i = 0; i < value->n_args; i++)
        if (args[i]->op != OP_CONST)
            return NULL;
    double number;
    if (value->n_args == 0 || !fold_number(value, args, &number))
        return NULL;
    return graph_const(rewrite->to, number, value->elem);
}

// ---- identities --------------------------------------------------------------------------------

// Of floats: every number of `small` is one of `large`.
static bool elem_holds(Elem large, Elem small) {
    if (large == small)
        return true;
    return elem_is_float(large) && elem_is_float(small) &&
           (large == ELEM_F64 || (large == ELEM_F32 && small != ELEM_F64));
}

static Value *fold_map(const Value *value, Value **args) {
    switch (value->op) {
    case OP_ADD:
    case OP_OR:
        return is_number(args[1], 0) ? args[0] : is_number(args[0], 0) ? args[1] : NULL;
    case OP_SUB:
        return is_number(args[1], 0) ? args[0] : NULL;
    case OP_MUL:
    case OP_AND:
        return is_number(args[1], 1) ? args[0] : is_number(args[0], 1) ? args[1] : NULL;
    case OP_DIV:
    case OP_POW:
        return is_number(args[1], 1) ? args[0] : NULL;
    case OP_MIN:
    case OP_MAX:
        return args[0] == args[1] ? args[0] : NULL;
    case OP_NEG:
    case OP_NOT:
        return args[0]->op == value->op ? args[0]->args[0] : NULL;
    case OP_ABS:
        return args[0]->op == OP_ABS ? args[0] : NULL;
    case OP_COPY:
    case OP_STOP_GRADIENT:
        return args[0];
    case OP_SELECT:
        if (args[0]->op == OP_CONST)
            return args[0]->number != 0 ? args[1] : args[2];
        return args[1] == args[2] ? args[1] : NULL;
    case OP_CAST:
        if (args[0]->op == OP_CAST && args[0]->args[0]->elem == value->elem &&
            elem_holds(args[0]->elem, value->elem))
            return args[0]->args[0];
        return NULL;
    default:
        return NULL;
    }
}

// Squares and reciprocals are products and quotients; the rest of pow stays what it is.
static Value *fold_power(Rewrite *rewrite, const Value *value, Value **args) {
    if (value->op != OP_POW)
        return NULL;
    if (is_number(args[1], 2))
        return graph_map2(rewrite->to, OP_MUL, args[0], args[0]);
    if (is_number(args[1], -1))
        return graph_map2(rewrite->to, OP_DIV, graph_const(rewrite->to, 1, value->elem), args[0]);
    return NULL;
}

// x * sigmoid(y), made of 1 / z by now, as x / z.
static Value *fold_gate(Rewrite *rewrite, const Value *value, Value **args) {
    if (value->op != OP_MUL)
        return NULL;
    for (uint32_t k = 0; k < 2; k++)
        if (value->args[k]->op == OP_SIGMOID && args[k]->op == OP_DIV &&
            dims_subset(&args[1 - k]->dims, &args[k]->dims))
            return graph_map2(rewrite->to, OP_DIV, args[1 - k], args[k]->args[1]);
    return NULL;
}

// What only gradients need whole.
static Value *fold_sigmoid(Rewrite *rewrite, const Value *value, Value **args) {
    Graph *graph = rewrite->to;
    if (value->op != OP_SIGMOID)
        return NULL;
    Value *one = graph_const(graph, 1, value->elem);
    Value *e = graph_map1(graph, OP_EXP, graph_map1(graph, OP_NEG, args[0]));
    return graph_map2(graph, OP_DIV, one, graph_map2(graph, OP_ADD, one, e));
}

// Positions know their own dim.
static Value *fold_rename(Rewrite *rewrite, const Value *value, Value **args) {
    if (value->op != OP_RENAME || args[0]->op != OP_INDEX)
        return NULL;
    return graph_index(rewrite->to, value->dims.at[0]);
}

// What is computed for one of its users only is computed at the position alone.
static Value *take_of_arguments(Rewrite *rewrite, const Value *value, Value *from) {
    Graph *graph = rewrite->to;
    OpKind kind = op_kind(from->op);
    bool passes = kind == KIND_MAP || kind == KIND_CONTRACT || kind == KIND_REDUCE ||
                  (kind == KIND_ROW && from->dim != value->dim);
    if (!passes || from->op == OP_COPY || rewrite->uses[value->args[0]->id] != 1)
        return NULL;
    Value **args = arena_array(rewrite->arena, Value *, from->n_args);
    for (uint32_t i = 0; i < from->n_args; i++)
        args[i] = dims_has(&from->args[i]->dims, value->dim)
                      ? graph_take(graph, from->args[i], value->dim, value->offset)
                      : from->args[i];
    Value like = *from;
    like.dims = value->dims;
    return graph_rebuild(graph, &like, args);
}

// where(index(t) < 3, a, b)[2] is a[2]: what is chosen at the position.
static Value *take_of_choice(Rewrite *rewrite, const Value *value, Value *from) {
    const Value *is_below = from->op == OP_SELECT ? from->args[0] : NULL;
    bool choice = is_below && is_below->op == OP_LT && is_below->args[0]->op == OP_INDEX &&
                  is_below->args[0]->dim == value->dim && is_below->args[1]->op == OP_CONST;
    if (!choice || rewrite->to->dims.at[value->dim].extent == EXTENT_DYNAMIC)
        return NULL;
    Value *chosen = from->args[(double)value->offset < is_below->args[1]->number ? 1 : 2];
    if (!dims_has(&chosen->dims, value->dim))
        return chosen;
    return graph_take(rewrite->to, chosen, value->dim, value->offset);
}

// A position is taken before what is left is renamed.
static Value *fold_take(Rewrite *rewrite, const Value *value, Value **args) {
    Graph *graph = rewrite->to;
    if (value->op != OP_TAKE)
        return NULL;
    if (args[0]->op != OP_RENAME) {
        Value *chosen = take_of_choice(rewrite, value, args[0]);
        return chosen ? chosen : take_of_arguments(rewrite, value, args[0]);
    }
    const DimMap *names = args[0]->renames;
    DimId own = value->dim;
    for (uint32_t i = 0; i < names->count; i++)
        if (names->to[i] == value->dim)
            own = names->from[i];
    return graph_rename_all(graph, graph_take(graph, args[0]->args[0], own, value->offset), names);
}

static Value *fold_reduce(Rewrite *rewrite, const Value *value, Value **args) {
    if (op_kind(value->op) != KIND_REDUCE || value->op == OP_ARGMAX)
        return NULL;
    if (args[0]->op == value->op && rewrite->uses[value->args[0]->id] == 1)
        return graph_reduce(rewrite->to, value->op, args[0]->args[0], value->dims);
    return NULL;
}

Value *simplify_fold(Rewrite *rewrite, const Value *value, Value **args) {
    Value *out = NULL;
    if (op_kind(value->op) == KIND_MAP) {
        simplify_drop_repeats(rewrite, value, args);
        out = fold_constants(rewrite, value, args);
        if (!out)
            out = fold_map(value, args);
        if (!out)
            out = fold_power(rewrite, value, args);
        if (!out)
            out = fold_sigmoid(rewrite, value, args);
        if (!out)
            out = fold_gate(rewrite, value, args);
    }
    if (!out)
        out = simplify_repeats(rewrite, value, args);
    if (!out)
        out = fold_rename(rewrite, value, args);
    if (!out)
        out = fold_take(rewrite, value, args);
    if (!out)
        out = fold_reduce(rewrite, value, args);
    // Broadcasting by an argument that went away would be lost with it.
    if (out && dims_equal(&out->dims, &value->dims) && out->elem == value->elem)
        return out;
    return rewrite_rebuild(rewrite, value, args);
}
