// SPDX-License-Identifier: Apache-2.0
// What is the same for every position of a dim, where(t, y, y), is computed once, and repeated as
// late as can be: where something else has the dim it is not repeated at all.
//
//     before  f[n, d] = w[n, d] * where(t[n], y[d], y[d])      o[m, h] = where(t[m], 1, 1), over h
//             g[n, d] = exp(where(t[n], y[d], y[d]))           s[n] = einsum(W[n, m, h], o[m, h])
//             z[h] = sum(o[m, h], reduced_dim=m)
//     after   f[n, d] = w[n, d] * y[d]                         s[n] = einsum(W[n, m, h])
//             g[n, d] = where(t[n], exp(y[d]), exp(y[d]))
//             z[h] = where(t[h], m, m)
//
// Requires: nothing. Ensures: the same values. A sum over a dim of no position is 0 and an extremum
// -inf, so over dynamic dims only sums of finite numbers become products.
#include "graph/rewrite/simplify.h"

#include <math.h>

typedef struct {
    Value *once;
    DimList over; // dims that it is repeated over; none: it is no repeat
} Repeat;

static Repeat repeat_of(Value *value) {
    Repeat repeat = {.once = value};
    while (value_is_repeat(repeat.once))
        repeat.once = repeat.once->args[1];
    repeat.over = dims_minus(&value->dims, &repeat.once->dims);
    return repeat;
}

// ---- maps --------------------------------------------------------------------------------------

// Of the dims that argument i is repeated over those that no other argument has.
static DimList dims_alone(const Value *value, Value **args, uint32_t i, DimList over) {
    for (uint32_t k = 0; k < value->n_args; k++)
        if (k != i)
            over = dims_minus(&over, &args[k]->dims);
    return over;
}

void simplify_drop_repeats(Rewrite *rewrite, const Value *value, Value **args) {
    for (uint32_t i = 0; i < value->n_args && !value_is_repeat(value); i++) {
        Repeat repeat = repeat_of(args[i]);
        DimList alone = dims_alone(value, args, i, repeat.over);
        if (alone.count < repeat.over.count)
            args[i] = graph_over(rewrite->to, repeat.once, &alone);
    }
}

// f(x, where(t, y, y)) is where(t, f(x, y), f(x, y)).
static Value *map_of_repeats(Rewrite *rewrite, const Value *value, Value **args) {
    if (value_is_repeat(value) || value->op == OP_COPY)
        return NULL;
    bool any = false;
    Value **once = arena_array(rewrite->arena, Value *, value->n_args);
    for (uint32_t i = 0; i < value->n_args; i++) {
        once[i] = args[i];
        Repeat repeat = repeat_of(args[i]);
        if (!repeat.over.count || dims_alone(value, args, i, repeat.over).count == 0)
            continue;
        once[i] = repeat.once;
        any = true;
    }
    if (!any)
        return NULL;
    return graph_over(rewrite->to, rewrite_rebuild(rewrite, value, once), &value->dims);
}

// ---- sums --------------------------------------------------------------------------------------

static bool is_dynamic(const Rewrite *rewrite, DimId dim) {
    return rewrite->to->dims.at[dim].extent == EXTENT_DYNAMIC;
}

// May a value be multiplied by the extents of these dims in place of a sum over them?
static bool counts(const Rewrite *rewrite, const Value *once, const DimList *dims) {
    bool finite = once->op == OP_CONST && isfinite(once->number);
    double known = 1;
    for (uint32_t i = 0; i < dims->count; i++) {
        if (is_dynamic(rewrite, dims->at[i]) && !finite)
            return false;
        if (!is_dynamic(rewrite, dims->at[i]))
            known *= (double)rewrite->to->dims.at[dims->at[i]].extent;
    }
    bool exact = once->elem == ELEM_F32 || once->elem == ELEM_F64 || once->elem == ELEM_I64;
    return dims->count == 0 || (exact ? known < 0x1p53 : once->elem == ELEM_I32 && known < 0x1p31);
}

static bool any_dynamic(const Rewrite *rewrite, const DimList *dims) {
    for (uint32_t i = 0; i < dims->count; i++)
        if (is_dynamic(rewrite, dims->at[i]))
            return true;
    return false;
}

static Value *reduce_of_repeat(Rewrite *rewrite, const Value *value, Value *arg) {
    Repeat repeat = repeat_of(arg);
    if (!repeat.over.count || value->op == OP_ARGMAX)
        return NULL;
    DimList gone = dims_minus(&repeat.over, &value->dims);
    bool extremum = value->op == OP_REDUCE_MAX || value->op == OP_REDUCE_MIN;
    bool fits = extremum              ? !any_dynamic(rewrite, &gone)
                : value->op == OP_SUM ? counts(rewrite, repeat.once, &gone)
                                      : gone.count == 0;
    if (!fits)
        return NULL;
    Value *once = graph_reduce(rewrite->to, value->op, repeat.once, value->dims);
    if (!extremum)
        once = rewrite_times_extents(rewrite->to, once, &gone);
    return graph_over(rewrite->to, once, &value->dims);
}

// Operands without the dims that they are repeated over, which others have, are counted, or come
// back around the whole.
static Value *einsum_of_repeat(Rewrite *rewrite, const Value *value, Value **args) {
    Graph *graph = rewrite->to;
    Value **now = arena_array(rewrite->arena, Value *, value->n_args);
    bool any = false;
    for (uint32_t i = 0; i < value->n_args; i++)
        now[i] = args[i];
    for (uint32_t i = 0; i < value->n_args; i++) {
        Repeat repeat = repeat_of(now[i]);
        DimList alone = dims_alone(value, now, i, repeat.over);
        DimList summed = dims_minus(&alone, &value->dims);
        if (!repeat.over.count || !counts(rewrite, repeat.once, &summed))
            continue;
        now[i] = rewrite_times_extents(rewrite->to, repeat.once, &summed);
        any = true;
    }
    if (!any)
        return NULL;
    DimList kept = {0};
    for (uint32_t i = 0; i < value->n_args; i++)
        kept = dims_union(&kept, &now[i]->dims);
    kept = dims_intersect(&value->dims, &kept);
    Value *once = graph_einsum(graph, value->number, now, value->n_args, kept);
    return graph_over(graph, once, &value->dims);
}

// ---- moves -------------------------------------------------------------------------------------

// Another way to read a value that is the same everywhere: for the dims that it has.
static Value *move_of_repeat(Rewrite *rewrite, const Value *value, Value *arg) {
    Graph *graph = rewrite->to;
    Repeat repeat = repeat_of(arg);
    if (!repeat.over.count)
        return NULL;
    Value *once = repeat.once;
    if (value->op == OP_RENAME)
        once = graph_rename_all(graph, once, value->renames);
    else if (dims_has(&once->dims, value->dim))
        once = value->op == OP_TAKE
                   ? graph_take(graph, once, value->dim, value->offset)
                   : graph_slice(graph, once, value->dim, value->dim2, value->offset);
    else if (is_dynamic(rewrite, value->dim))
        return NULL; // the position may not be there
    return graph_over(graph, once, &value->dims);
}

Value *simplify_repeats(Rewrite *rewrite, const Value *value, Value **args) {
    switch (op_kind(value->op)) {
    case KIND_MAP:
        return map_of_repeats(rewrite, value, args);
    case KIND_REDUCE:
        return reduce_of_repeat(rewrite, value, args[0]);
    case KIND_CONTRACT:
        return einsum_of_repeat(rewrite, value, args);
    case KIND_MOVE:
        if (value->op == OP_RENAME || value->op == OP_TAKE || value->op == OP_SLICE)
            return move_of_repeat(rewrite, value, args[0]);
        return NULL;
    default:
        return NULL;
    }
}
