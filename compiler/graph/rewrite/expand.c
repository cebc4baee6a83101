// SPDX-License-Identifier: Apache-2.0
// graph_expand: row functions in terms of pointwise values and reductions, so that what follows
// knows only these, and results that share a maximum or a sum share it by hash-consing.
//
//     softmax(x, m):  top = max_number x     over m      # a NaN reaches the row through e
//                     e = exp(x - finite(top))           # z: 0 of -inf only, infinite with +inf
//                     z = sum e              over m
//                     e * (z == 0 ? 0 : 1/z + (z - z))   # a row of -inf only gives zeros
//     log_softmax:    s = x - finite(top);  s - (z == 0 ? 0 : log z + (z - z))
//     cumsum:         f32(cumsum(f64(x)))  # so that differences of far sums are right
//     argmax:         min over m of (x == top or x != x ? index(m) : extent(m) - 1)
//
// Where x comes out of an einsum, perhaps through masks, log2(e) joins the einsum's factor and the
// powers are of two:
//
//     softmax(0.125 * einsum(Q, K), m)  ->  e = exp2(x - finite(top)), x = 0.1803 * einsum(Q, K)
//
// The row factor 1/z does not stay on the m x n elements when an einsum reads them: it goes to the
// result of a sum over m, and to the other operand where that is smaller (a matrix that mixes heads
// gets one copy for each row; Shazeer et al. 2020 mix heads after the softmax):
//
//     einsum(e[n, m, h] * s[n, h], V[m, h, d])    ->  einsum(e, V) * s
//     einsum(e[n, m, h] * s[n, h], P_w[h, h_v])   ->  einsum(e, P_w * s)
//
// What is written out likewise is computed likewise, see powers.c.
//
// An einsum of operands with the same dims (D[n, h] = einsum(W[n, m, h], dW[n, m, h]) of a
// softmax's gradient) is a sum of products.
//
// Requires: graph_contract. Ensures: no SOFTMAX, LOG_SOFTMAX, ARGMAX; CUMSUM of f64 and whole
// numbers only; einsums as graph_contract
// leaves them.
#include "graph/rewrite/expand.h"

#include <math.h>

static Value *widened(Rewrite *rewrite, Value *a) {
    return graph_cast(rewrite->to, a, elem_work(a->elem));
}

static DimList without(const DimList *dims, DimId dim) {
    return dims_minus(dims, &(DimList){1, {dim}});
}

// ---- powers of two -----------------------------------------------------------------------------

// Would multiplying by a constant cost nothing? `value` is one of the old graph, under so many
// selects.
static bool takes_factor(const Rewrite *rewrite, const Value *value, uint32_t depth) {
    enum { DEPTH_MAX = 100 };
    if (value->op == OP_CONST)
        return true;
    if (rewrite->uses[value->id] != 1 || value->elem != elem_work(value->elem))
        return false;
    if (value->op == OP_CONTRACT)
        return true;
    return value->op == OP_SELECT && depth < DEPTH_MAX &&
           takes_factor(rewrite, value->args[1], depth + 1) &&
           takes_factor(rewrite, value->args[2], depth + 1);
}

static Value *at_origin(Value *value, const Value *like) {
    if (!value->origin.file)
        value->origin = like->origin;
    return value;
}

// Requires takes_factor(value).
static Value *with_factor(Rewrite *rewrite, const Value *value, double factor) {
    Graph *graph = rewrite->to;
    const Value *now = rewrite->now[value->id];
    if (value->op == OP_CONST)
        return graph_number(graph, value->number * factor, value);
    if (value->op == OP_CONTRACT && now->op == OP_CONTRACT)
        return at_origin(
            graph_einsum(graph, now->number * factor, now->args, now->n_args, now->dims), value);
    if (value->op == OP_CONTRACT) // a row factor went to its result
        return at_origin(
            graph_map2(graph, OP_MUL, rewrite->now[value->id], graph_number(graph, factor, now)),
            value);
    Value *args[] = {rewrite->now[value->args[0]->id], with_factor(rewrite, value->args[1], factor),
                     with_factor(rewrite, value->args[2], factor)};
    return at_origin(graph_map(graph, OP_SELECT, value->elem, args, 3), value);
}

// ---- row functions -----------------------------------------------------------------------------

// x less the largest of its row.
static Value *shifted_row(Rewrite *rewrite, Value *x, DimId dim) {
    Graph *graph = rewrite->to;
    Value *top = graph_reduce(graph, OP_REDUCE_TOP, x, without(&x->dims, dim));
    return graph_map2(graph, OP_SUB, x, graph_finite(graph, top)); // as logsumexp has it
}

// other, or 0 where the sum z is 0, NaN where it is infinite.
static Value *of_sum(Rewrite *rewrite, Value *z, Value *other) {
    Graph *graph = rewrite->to;
    Value *zero = graph_number(rewrite->to, 0, z), *none = graph_map2(graph, OP_SUB, z, z);
    other = graph_map2(graph, OP_ADD, other, none);
    return graph_select(graph, graph_map2(graph, OP_EQ, z, zero), zero, other);
}

static Value *expand_softmax(Rewrite *rewrite, const Value *value, Value *x) {
    Graph *graph = rewrite->to;
    Op power = OP_EXP;
    if (takes_factor(rewrite, value->args[0], 0) && value->args[0]->op != OP_CONST) {
        power = OP_EXP2;
        x = with_factor(rewrite, value->args[0], M_LOG2E);
    }
    x = widened(rewrite, x);
    Value *e = graph_map1(graph, power, shifted_row(rewrite, x, value->dim));
    Value *z = graph_reduce(graph, OP_SUM, e, without(&e->dims, value->dim));
    Value *inverse = graph_map2(graph, OP_DIV, graph_number(rewrite->to, 1, z), z);
    Value *result = graph_map2(graph, OP_MUL, e, of_sum(rewrite, z, inverse));
    return graph_cast(graph, result, value->elem);
}

static Value *expand_log_softmax(Rewrite *rewrite, const Value *value, Value *x) {
    Graph *graph = rewrite->to;
    Value *shifted = shifted_row(rewrite, widened(rewrite, x), value->dim);
    Value *e = graph_map1(graph, OP_EXP, shifted);
    Value *z = graph_reduce(graph, OP_SUM, e, without(&e->dims, value->dim));
    Value *log = of_sum(rewrite, z, graph_map1(graph, OP_LOG, z));
    return graph_cast(graph, graph_map2(graph, OP_SUB, shifted, log), value->elem);
}

static Value *expand_cumsum(Rewrite *rewrite, const Value *value, Value *x) {
    Graph *graph = rewrite->to;
    if (!elem_is_float(x->elem))
        return rewrite_keep(rewrite, value, &x);
    Value *sums = graph_row(graph, OP_CUMSUM, graph_cast(graph, x, ELEM_F64), value->dim);
    return graph_cast(graph, sums, value->elem);
}

// Sums of halves are f32 until the end.
static Value *expand_scatter(Rewrite *rewrite, const Value *value, Value **args) {
    Value *a = widened(rewrite, args[0]);
    Value *sums = graph_scatter_add(rewrite->to, a, args[1], value->dim, value->dims);
    return graph_cast(rewrite->to, sums, value->elem);
}

static Value *expand_argmax(Rewrite *rewrite, const Value *value, Value *x) {
    Graph *graph = rewrite->to;
    Value *top = graph_reduce(graph, OP_REDUCE_MAX, x, without(&x->dims, value->dim));
    Value *here = graph_cast(graph, graph_index(graph, value->dim), ELEM_I32);
    Value *count = graph_cast(graph, graph_extent(graph, value->dim), ELEM_I32);
    Value *last = graph_map2(graph, OP_SUB, count, graph_const(graph, 1, ELEM_I32));
    Value *same = graph_map2(graph, OP_EQ, x, top);
    if (elem_is_float(x->elem)) // where top is NaN nothing equals it: the first NaN then
        same = graph_map2(graph, OP_OR, same, graph_map2(graph, OP_NE, x, x));
    Value *at = graph_select(graph, same, here, last);
    return graph_reduce(graph, OP_REDUCE_MIN, at, value->dims);
}

// ---- row factors -------------------------------------------------------------------------------

static double volume(const Rewrite *rewrite, const DimList *dims) {
    double product = 1;
    for (uint32_t i = 0; i < dims->count; i++)
        product *= (double)((const Expand *)rewrite->data)->extents[dims->at[i]];
    return product;
}

// A product with a factor of fewer dims, made for this einsum alone.
static bool has_row_factor(const Value *operand) {
    return operand->op == OP_MUL && !dims_equal(&operand->args[0]->dims, &operand->args[1]->dims) &&
           (dims_equal(&operand->args[0]->dims, &operand->dims) ||
            dims_equal(&operand->args[1]->dims, &operand->dims));
}

// Moves the row factor of operand k, a softmax or likewise, to where it is applied least often:
// where the softmax's own dim is summed, to the result, so that the sum need not wait for the
// factor. NULL: it stays.
static Value *move_row_factor(Rewrite *rewrite, const Value *value, Value **args, uint32_t k) {
    Graph *graph = rewrite->to;
    Value *product = args[k], *other = args[1 - k];
    uint32_t whole = dims_equal(&product->args[0]->dims, &product->dims) ? 0 : 1;
    Value *elements = product->args[whole], *factor = product->args[1 - whole];
    DimList in_other = dims_union(&other->dims, &factor->dims);
    double stays = volume(rewrite, &product->dims), beside = volume(rewrite, &in_other);
    DimList along = value->args[k]->op == OP_SOFTMAX ? (DimList){1, {value->args[k]->dim}}
                                                     : dims_minus(&elements->dims, &factor->dims);
    bool sums = !dims_intersect(&along, &value->dims).count;
    double after = sums ? 0 : volume(rewrite, &value->dims);
    if (dims_subset(&factor->dims, &value->dims) && after < stays && after <= beside) {
        Value *pair[2] = {k ? other : elements, k ? elements : other};
        Value *sum = graph_einsum(graph, value->number, pair, 2, value->dims);
        return graph_map2(graph, OP_MUL, sum, factor);
    }
    if (beside >= stays)
        return NULL;
    Value *scaled = graph_map2(graph, OP_MUL, other, factor);
    Value *pair[2] = {k ? scaled : elements, k ? elements : scaled};
    return graph_einsum(graph, value->number, pair, 2, value->dims);
}

// Operands with the same dims: products along rows, in which there is nothing to keep in registers.
static Value *sum_of_products(Rewrite *rewrite, const Value *value, Value **args) {
    Graph *graph = rewrite->to;
    Value *sum =
        graph_reduce(graph, OP_SUM, graph_map2(graph, OP_MUL, args[0], args[1]), value->dims);
    if (value->number == 1)
        return sum;
    return graph_map2(graph, OP_MUL, sum, graph_number(rewrite->to, value->number, value));
}

static Value *expand_contract(Rewrite *rewrite, const Value *value, Value **args) {
    if (value->n_args == 2 && value->elem == elem_work(value->elem) &&
        dims_equal(&args[0]->dims, &args[1]->dims))
        return sum_of_products(rewrite, value, args);
    for (uint32_t k = 0; k < 2 && value->n_args == 2; k++) {
        bool softmax = value->args[k]->op == OP_SOFTMAX && rewrite->uses[value->args[k]->id] == 1;
        if ((!softmax && !expand_scaled(rewrite, args[k])) || !has_row_factor(args[k]))
            continue;
        Value *moved = move_row_factor(rewrite, value, args, k);
        if (moved)
            return moved;
    }
    return rewrite_keep(rewrite, value, args);
}

static Value *expand_value(Rewrite *rewrite, const Value *value, Value **args) {
    switch (value->op) {
    case OP_SOFTMAX:
        return expand_softmax(rewrite, value, args[0]);
    case OP_LOG_SOFTMAX:
        return expand_log_softmax(rewrite, value, args[0]);
    case OP_CUMSUM:
        return expand_cumsum(rewrite, value, args[0]);
    case OP_ARGMAX:
        return expand_argmax(rewrite, value, args[0]);
    case OP_CONTRACT:
        return expand_contract(rewrite, value, args);
    case OP_EXP:
    case OP_EXP2:
        return expand_power(rewrite, value, args);
    case OP_NEG:
    case OP_MUL:
    case OP_DIV:
        return expand_linear(rewrite, value, args);
    case OP_SUM:
        return expand_sum(rewrite, value, args);
    case OP_SCATTER_ADD:
        return expand_scatter(rewrite, value, args);
    default:
        return rewrite_keep(rewrite, value, args);
    }
}

Graph *graph_expand(const Graph *graph, const int64_t *extents) {
    Arena *arena = arena_new();
    Expand expand = {extents, expand_users(graph, arena), map_new(arena), arena};
    return rewrite_graph("expand", graph, graph->arena, arena, expand_value, &expand);
}
