// SPDX-License-Identifier: Apache-2.0
// The rule of each op, and those of einsums, reductions and rows.
//
//     einsum(A, B)                  dA = einsum(dy, B), dB = einsum(dy, A)
//     sum(x)                        dx = dy
//     prod(x)                       dx = dy * (the product of the others)
//     max(x), min, max_number       dx = dy at the first position that has it, else 0
//     softmax(x)                    dx = y * (dy - sum(y * dy))
//     log_softmax(x)                dx = dy - exp(y) * sum(dy)
//     cumsum(x)                     dx = cumsum of dy from the other end
#include "graph/rewrite/grad.h"

#include <math.h>

void no_gradient(Gradient *gradient, const Value *value, Value *dy) {
    (void)gradient, (void)value, (void)dy;
}

// ---- einsum ------------------------------------------------------------------------------------

static void gradient_of_contract(Gradient *gradient, const Value *value, Value *dy) {
    Value **operands = arena_array(gradient->rewrite.arena, Value *, value->n_args);
    for (uint32_t k = 0; k < value->n_args; k++) {
        if (!gradient_wants(gradient, value, k))
            continue;
        DimList wanted = gradient_wanted_dims(gradient, value, k);
        DimList result = dims_intersect(&dy->dims, &wanted);
        uint32_t count = 0;
        operands[count++] = dy;
        for (uint32_t i = 0; i < value->n_args; i++) {
            if (i == k)
                continue;
            operands[count] = gradient_now(gradient, value->args[i]);
            DimList own = dims_intersect(&operands[count++]->dims, &wanted);
            result = dims_union(&result, &own);
        }
        Value *part = graph_einsum(gradient->rewrite.to, value->number, operands, count, result);
        gradient_add(gradient, value, k, part, &result);
    }
}

// ---- reductions --------------------------------------------------------------------------------

static void gradient_of_sum(Gradient *gradient, const Value *value, Value *dy) {
    gradient_add(gradient, value, 0, dy, &value->args[0]->dims);
}

// With one zero only its own derivative is not zero, with two none.
static void gradient_of_prod(Gradient *gradient, const Value *value, Value *dy) {
    Graph *graph = gradient->rewrite.to;
    Value *x = gradient_now(gradient, value->args[0]), *y = gradient_now(gradient, value);
    Value *zero = graph_number(graph, 0, x), *one = graph_number(graph, 1, x);
    DimList rows = gradient_dims(gradient, &value->dims);
    Value *is_zero = graph_map2(graph, OP_EQ, x, zero);
    Value *zeros = graph_reduce(graph, OP_SUM, graph_cast(graph, is_zero, x->elem), rows);
    Value *others = graph_reduce(graph, OP_PROD, graph_select(graph, is_zero, one, x), rows);
    Value *alone = graph_map2(graph, OP_AND, is_zero, graph_map2(graph, OP_EQ, zeros, one));
    Value *some = graph_select(graph, alone, others, zero);
    Value *none = graph_map2(graph, OP_DIV, y, x);
    Value *part = graph_select(graph, graph_map2(graph, OP_EQ, zeros, zero), none, some);
    gradient_add(gradient, value, 0, graph_map2(graph, OP_MUL, dy, part), &value->args[0]->dims);
}

// What argmax finds in place of the extremum: the largest of this.
static Value *sought(Graph *graph, Op op, Value *x) {
    if (op == OP_REDUCE_MIN)
        return graph_map1(graph, OP_NEG, x);
    if (op == OP_REDUCE_MAX)
        return x;
    Value *least = graph_number(graph, -INFINITY, x);
    return graph_select(graph, graph_map2(graph, OP_NE, x, x), least, x);
}

// One dim after the other: along each the first position that has the extremum of what is left.
static void gradient_of_extremum(Gradient *gradient, const Value *value, Value *dy) {
    Graph *graph = gradient->rewrite.to;
    Value *rest = gradient_copy(gradient, value->args[0]), *chosen = NULL;
    DimList over = dims_minus(&value->args[0]->dims, &value->dims);
    for (uint32_t i = 0; i < over.count; i++) {
        DimId dim = over.at[i];
        Value *at = graph_row(graph, OP_ARGMAX, sought(graph, value->op, rest), dim);
        at = graph_cast(graph, at, ELEM_I64);
        Value *here = graph_map2(graph, OP_EQ, graph_index(graph, dim), at);
        chosen = chosen ? graph_map2(graph, OP_AND, chosen, here) : here;
        DimList kept = dims_minus(&rest->dims, &(DimList){1, {dim}});
        rest = graph_reduce(graph, value->op, rest, kept);
    }
    Value *part = chosen ? graph_select(graph, chosen, dy, graph_number(graph, 0, dy)) : dy;
    gradient_add(gradient, value, 0, part, &value->args[0]->dims);
}

// ---- rows --------------------------------------------------------------------------------------

static void gradient_of_softmax(Gradient *gradient, const Value *value, Value *dy) {
    Graph *graph = gradient->rewrite.to;
    Value *y = gradient_now(gradient, value);
    Value *row = gradient_total(gradient, graph_map2(graph, OP_MUL, y, dy), value->dim);
    Value *part = graph_map2(graph, OP_MUL, y, graph_map2(graph, OP_SUB, dy, row));
    gradient_add(gradient, value, 0, part, &value->dims);
}

static void gradient_of_log_softmax(Gradient *gradient, const Value *value, Value *dy) {
    Graph *graph = gradient->rewrite.to;
    Value *weight = graph_map1(graph, OP_EXP, gradient_now(gradient, value));
    Value *row = gradient_total(gradient, dy, value->dim);
    Value *part = graph_map2(graph, OP_SUB, dy, graph_map2(graph, OP_MUL, weight, row));
    gradient_add(gradient, value, 0, part, &value->dims);
}

static Value *reversed(Gradient *gradient, Value *x, DimId dim) {
    Graph *graph = gradient->rewrite.to;
    Value *one = graph_const(graph, 1, ELEM_I64);
    Value *last = graph_map2(graph, OP_SUB, graph_extent(graph, dim), one);
    return graph_gather(graph, x, graph_map2(graph, OP_SUB, last, graph_index(graph, dim)), dim);
}

static void gradient_of_cumsum(Gradient *gradient, const Value *value, Value *dy) {
    Graph *graph = gradient->rewrite.to;
    dy = graph_over(graph, dy, &(DimList){1, {value->dim}});
    Value *from_end = graph_row(graph, OP_CUMSUM, reversed(gradient, dy, value->dim), value->dim);
    gradient_add(gradient, value, 0, reversed(gradient, from_end, value->dim), &value->dims);
}

// ---- the table ---------------------------------------------------------------------------------

static GradientRule *const rules[N_OP] = {
    [OP_INPUT] = no_gradient,
    [OP_CONST] = no_gradient,
    [OP_INDEX] = no_gradient,
    [OP_EXTENT] = no_gradient,
    [OP_CARRY] = no_gradient, // carried on by the reversed scan
    [OP_COPY] = gradient_of_map,
    [OP_STOP_GRADIENT] = no_gradient,
    [OP_CAST] = gradient_of_map,
    [OP_NEG] = gradient_of_map,
    [OP_ABS] = gradient_of_map,
    [OP_EXP] = gradient_of_map,
    [OP_EXP2] = gradient_of_map,
    [OP_LOG] = gradient_of_map,
    [OP_SQRT] = gradient_of_map,
    [OP_RSQRT] = gradient_of_map,
    [OP_TANH] = gradient_of_map,
    [OP_SIGMOID] = gradient_of_map,
    [OP_ERF] = gradient_of_map,
    [OP_SIN] = gradient_of_map,
    [OP_COS] = gradient_of_map,
    [OP_FLOOR] = no_gradient,
    [OP_NOT] = no_gradient,
    [OP_ADD] = gradient_of_map,
    [OP_SUB] = gradient_of_map,
    [OP_MUL] = gradient_of_map,
    [OP_DIV] = gradient_of_map,
    [OP_FLOORDIV] = no_gradient,
    [OP_MOD] = gradient_of_map,
    [OP_POW] = gradient_of_map,
    [OP_MIN] = gradient_of_map,
    [OP_MAX] = gradient_of_map,
    [OP_EQ] = no_gradient,
    [OP_NE] = no_gradient,
    [OP_LT] = no_gradient,
    [OP_LE] = no_gradient,
    [OP_AND] = no_gradient,
    [OP_OR] = no_gradient,
    [OP_SELECT] = gradient_of_map,
    [OP_RANDOM] = no_gradient,
    [OP_SUM] = gradient_of_sum,
    [OP_PROD] = gradient_of_prod,
    [OP_REDUCE_MAX] = gradient_of_extremum,
    [OP_REDUCE_MIN] = gradient_of_extremum,
    [OP_REDUCE_TOP] = gradient_of_extremum,
    [OP_ARGMAX] = no_gradient,
    [OP_CONTRACT] = gradient_of_contract,
    [OP_SOFTMAX] = gradient_of_softmax,
    [OP_LOG_SOFTMAX] = gradient_of_log_softmax,
    [OP_CUMSUM] = gradient_of_cumsum,
    [OP_RENAME] = gradient_of_rename,
    [OP_GATHER] = gradient_of_gather,
    [OP_SCATTER_ADD] = gradient_of_scatter,
    [OP_TAKE] = gradient_of_take,
    [OP_SLICE] = gradient_of_slice,
    [OP_CONCAT] = gradient_of_concat,
    [OP_ORDER] = no_gradient,
    [OP_SHIFT] = gradient_of_shift,
    [OP_STACK] = gradient_of_stack,
    [OP_LAST] = gradient_of_last,
    [OP_SPLIT] = gradient_of_regroup,
    [OP_MERGE] = gradient_of_regroup,
};

GradientRule *gradient_rule(Op op) {
    return rules[op];
}
