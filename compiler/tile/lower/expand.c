// SPDX-License-Identifier: Apache-2.0
// Row functions in terms of pointwise values and reductions, so that rows.c knows only those
// two (and CUMSUM, which is a loop).
//
//     softmax(x, m):  top = reduce_top x     over m      # a NaN reaches the row through e
//                     e = exp(x - (top == -inf ? 0 : top))
//                     z = sum e              over m
//                     e * (z == 0 ? 0 : 1/z)             # a row of -inf only gives zeros
//     log_softmax:    s = x - (top == -inf ? 0 : top);  s - (z == 0 ? 0 : log z)
//     argmax:         min over m of (x == top or x != x ? index(m) : extent(m) - 1)
//     einsum:         sum of factor * a * b
//
// Requires: members in order of id. Ensures: values in an order in which they can be computed; ids
// of new values are beyond those of the graph. The graph stays as it is.
#include "tile/lower/lower.h"

#include <math.h>

typedef struct {
    Lowering *lower;
    Expansion *out;
    Map *now; // id + 1 of a member -> the value that stands for it
    uint32_t next_id;
} Expander;

static Value *expand_new(Expander *x, Op op, Elem elem, DimList dims) {
    Value *value = arena_new_of(x->lower->arena, Value);
    *value = (Value){.id = x->next_id++,
                     .op = op,
                     .elem = elem,
                     .dims = dims,
                     .dim = DIM_NONE,
                     .dim2 = DIM_NONE};
    vec_push(x->lower->arena, &x->out->values, value);
    return value;
}

static void set_args(Expander *x, Value *value, Value *const *args, uint32_t n) {
    value->n_args = n;
    value->args = arena_copy(x->lower->arena, args, n * sizeof *args);
}

static Value *expand_map(Expander *x, Op op, Elem elem, Value *a, Value *b, Value *c) {
    Value *args[3] = {a, b, c};
    uint32_t n = c ? 3 : b ? 2 : 1;
    DimList dims = {0};
    for (uint32_t i = 0; i < n; i++)
        dims = dims_union(&dims, &args[i]->dims);
    Value *value = expand_new(x, op, elem, dims);
    set_args(x, value, args, n);
    return value;
}

static Value *expand_const(Expander *x, double number, Elem elem) {
    Value *value = expand_new(x, OP_CONST, elem, (DimList){0});
    value->number = number;
    return value;
}

static Value *expand_reduce(Expander *x, Op op, Value *a, DimList kept) {
    Value *value = expand_new(x, op, a->elem, kept);
    set_args(x, value, &a, 1);
    return value;
}

static Value *expand_select_equal(Expander *x, Value *a, double number, Value *then, Value *other) {
    Value *same = expand_map(x, OP_EQ, ELEM_BOOL, a, expand_const(x, number, a->elem), NULL);
    return expand_map(x, OP_SELECT, other->elem, same, then, other);
}

static DimList without(const DimList *dims, DimId dim) {
    return dims_minus(dims, &(DimList){1, {dim}});
}

static Value *widened(Expander *x, Value *a) {
    Elem elem = terms_work_elem(a->elem);
    return elem == a->elem ? a : expand_map(x, OP_CAST, elem, a, NULL, NULL);
}

static Value *expand_softmax(Expander *x, const Value *member, Value *a, bool is_log) {
    a = widened(x, a);
    DimList kept = without(&a->dims, member->dim);
    Value *top = expand_reduce(x, OP_REDUCE_TOP, a, kept);
    Value *safe = expand_select_equal(x, top, -INFINITY, expand_const(x, 0, a->elem), top);
    Value *shifted = expand_map(x, OP_SUB, a->elem, a, safe, NULL);
    Value *e = expand_map(x, OP_EXP, a->elem, shifted, NULL, NULL);
    Value *z = expand_reduce(x, OP_SUM, e, kept);
    Value *zero = expand_const(x, 0, a->elem);
    Value *result;
    if (is_log) {
        Value *log = expand_map(x, OP_LOG, a->elem, z, NULL, NULL);
        result =
            expand_map(x, OP_SUB, a->elem, shifted, expand_select_equal(x, z, 0, zero, log), NULL);
    } else {
        Value *one = expand_const(x, 1, a->elem);
        Value *inverse = expand_map(x, OP_DIV, a->elem, one, z, NULL);
        result =
            expand_map(x, OP_MUL, a->elem, e, expand_select_equal(x, z, 0, zero, inverse), NULL);
    }
    if (result->elem == member->elem)
        return result;
    return expand_map(x, OP_CAST, member->elem, result, NULL, NULL);
}

static Value *expand_argmax(Expander *x, const Value *member, Value *a) {
    DimList kept = without(&a->dims, member->dim);
    Value *top = expand_reduce(x, OP_REDUCE_MAX, a, kept);
    Value *index = expand_new(x, OP_INDEX, ELEM_I64, (DimList){1, {member->dim}});
    index->dim = member->dim;
    Value *extent = expand_new(x, OP_EXTENT, ELEM_I64, (DimList){0});
    extent->dim = member->dim;
    Value *here = expand_map(x, OP_CAST, ELEM_I32, index, NULL, NULL);
    Value *count = expand_map(x, OP_CAST, ELEM_I32, extent, NULL, NULL);
    Value *last = expand_map(x, OP_SUB, ELEM_I32, count, expand_const(x, 1, ELEM_I32), NULL);
    Value *same = expand_map(x, OP_EQ, ELEM_BOOL, a, top, NULL);
    if (elem_is_float(a->elem)) { // where top is NaN nothing equals it: the first NaN then
        Value *is_nan = expand_map(x, OP_NE, ELEM_BOOL, a, a, NULL);
        same = expand_map(x, OP_OR, ELEM_BOOL, same, is_nan, NULL);
    }
    Value *at = expand_map(x, OP_SELECT, ELEM_I32, same, here, last);
    return expand_reduce(x, OP_REDUCE_MIN, at, kept);
}

static Value *expand_contract(Expander *x, const Value *member, Value *const *args) {
    Elem elem = terms_work_elem(member->elem);
    Value *product = widened(x, args[0]);
    for (uint32_t i = 1; i < member->n_args; i++)
        product = expand_map(x, OP_MUL, elem, product, widened(x, args[i]), NULL);
    Value *sum = product;
    if (!dims_equal(&product->dims, &member->dims))
        sum = expand_reduce(x, OP_SUM, product, member->dims);
    if (member->number != 1)
        sum = expand_map(x, OP_MUL, elem, sum, expand_const(x, member->number, elem), NULL);
    if (sum == args[0] || terms_work_elem(member->elem) != member->elem)
        sum = expand_map(x, OP_CAST, member->elem, sum, NULL, NULL);
    return sum;
}

static Value *expand_copy(Expander *x, const Value *member, Value *const *args) {
    Value *value = expand_new(x, member->op, member->elem, member->dims);
    uint32_t id = value->id;
    *value = *member;
    value->id = id;
    set_args(x, value, args, member->n_args);
    return value;
}

static Value *expand_member(Expander *x, const Value *member) {
    Value **args = arena_array(x->lower->arena, Value *, member->n_args + 1);
    for (uint32_t i = 0; i < member->n_args; i++) {
        Value *now = map_get(x->now, (uint64_t)member->args[i]->id + 1);
        args[i] = now ? now : member->args[i];
    }
    switch (member->op) {
    case OP_SOFTMAX:
        return expand_softmax(x, member, args[0], false);
    case OP_LOG_SOFTMAX:
        return expand_softmax(x, member, args[0], true);
    case OP_ARGMAX:
        return expand_argmax(x, member, args[0]);
    case OP_CONTRACT:
        return expand_contract(x, member, args);
    default:
        return expand_copy(x, member, args);
    }
}

Expansion *lower_expand(Lowering *lower) {
    Expander x = {.lower = lower,
                  .out = arena_new_of(lower->arena, Expansion),
                  .now = map_new(lower->arena),
                  .next_id = lower->graph->values.count};
    const Group *group = lower->group;
    for (uint32_t i = 0; i < group->members.count; i++) {
        const Value *member = group->members.at[i];
        map_put(x.now, (uint64_t)member->id + 1, expand_member(&x, member));
    }
    x.out->outputs = arena_array(lower->arena, Value *, group->outputs.count + 1);
    for (uint32_t i = 0; i < group->outputs.count; i++)
        x.out->outputs[i] = map_get(x.now, (uint64_t)group->outputs.at[i]->id + 1);
    return x.out;
}
