// SPDX-License-Identifier: Apache-2.0
// Softmaxes that are written out, in graph_expand. A power relative to what is never below the
// largest of its row is one relative to that alone, with a row factor, which sums and einsums pass
// on:
//
//     exp(x - t), t >= top = max x                ->  exp(x - finite(top)) * exp(finite(top) - t)
//     sum(e * f, m), f such a factor              ->  sum(e, m) * f
//     -(e * f), e * f * y, e * f / y              ->  -e * f, e * y * f, e / y * f
//
// So it is known in one pass over m whatever t is: of a part of the row t may be no number at all
// (t = z + softplus(s - z), z = logsumexp x: -inf + inf before the first). A choice stays as it is:
// it may be there for rows whose factor is no number.
#include "graph/rewrite/expand.h"

// Does it lack some of the dims of the other?
static bool is_narrow(const Value *value, const Value *wide) {
    return !dims_subset(&wide->dims, &value->dims);
}

const Scaled *expand_scaled(const Rewrite *rewrite, const Value *value) {
    const Expand *expand = rewrite->data;
    return map_get(expand->scaled, (uint64_t)value->id + 1);
}

static Value *make_scaled(Rewrite *rewrite, Value *elements, Value *factor) {
    Expand *expand = rewrite->data;
    Scaled scaled = {elements, factor};
    Value *product = graph_map2(rewrite->to, OP_MUL, elements, factor);
    map_put(expand->scaled, (uint64_t)product->id + 1,
            arena_copy(expand->arena, &scaled, sizeof scaled));
    return product;
}

// ---- which of them ------------------------------------------------------------------------------

Users *expand_users(const Graph *graph, Arena *arena) {
    Users *users = arena_array(arena, Users, graph->values.count + 1);
    const bool *live = graph_live(graph, arena);
    for (uint32_t i = 0; i < graph->values.count; i++)
        for (uint32_t k = 0; live[i] && k < graph->values.at[i]->n_args; k++)
            vec_push(arena, &users[graph->values.at[i]->args[k]->id], graph->values.at[i]);
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        vec_push(arena, &users[graph->outputs.at[i].value->id], NULL);
    return users;
}

// What uses the elements of rows along these dims. Sums: each row alone.
typedef enum { USES_OTHERWISE, USES_LINEARLY, SUMS } RowUse;

static RowUse row_use(const Value *user, const Value *value, const DimList *along,
                      const DimList *rows) {
    if (!user)
        return USES_OTHERWISE;
    switch (user->op) {
    case OP_SUM:
    case OP_CONTRACT:
        return !dims_intersect(&user->dims, along).count && dims_subset(rows, &user->dims) &&
                       user->n_args <= 2
                   ? SUMS
                   : USES_OTHERWISE;
    case OP_NEG:
    case OP_MUL:
        return USES_LINEARLY;
    case OP_DIV:
        return user->args[1] == value ? USES_OTHERWISE : USES_LINEARLY;
    default:
        return USES_OTHERWISE;
    }
}

// Is all that comes of the power summed along its rows, and linear in it until then? Gradients have
// other uses for it, which need not wait for the whole of a row.
static bool is_only_summed(const Expand *expand, const Value *power) {
    enum { OPEN_MAX = 32 };
    const Value *open[OPEN_MAX] = {power}, *by = power->args[0];
    DimList along = dims_minus(&by->args[0]->dims, &by->args[1]->dims);
    uint32_t n = 1;
    for (uint32_t i = 0; i < n; i++) {
        const Users *users = &expand->users[open[i]->id];
        for (uint32_t u = 0; u < users->count; u++) {
            RowUse use = row_use(users->at[u], open[i], &along, &by->args[1]->dims);
            if (use == USES_OTHERWISE || n == OPEN_MAX)
                return false;
            if (use == USES_LINEARLY)
                open[n++] = users->at[u];
        }
    }
    return true;
}

// ---- what they are relative to -----------------------------------------------------------------

static bool is_power(const Value *value) {
    return value->op == OP_EXP || value->op == OP_EXP2;
}

// The sum of powers relative to their largest: one of them is 1.
static bool is_sum_of_relative(const Value *value) {
    const Value *by =
        value->op == OP_SUM && is_power(value->args[0]) ? value->args[0]->args[0] : NULL;
    return by && by->op == OP_SUB && value_as_largest(by->args[1], by->args[0]);
}

// Never below 1, but for rounding.
static bool is_one_or_more(const Value *value) {
    if (value->op == OP_CONST)
        return value->number >= 1;
    if (is_sum_of_relative(value))
        return true;
    for (uint32_t k = 0; value->op == OP_ADD && k < 2; k++) {
        const Value *one = value->args[k];
        bool large = is_sum_of_relative(one) || (one->op == OP_CONST && one->number >= 1);
        if (large && (is_power(value->args[1 - k]) || is_sum_of_relative(value->args[1 - k])))
            return true;
    }
    return false;
}

// Never below 0.
static bool is_positive(const Value *value) {
    switch (value->op) {
    case OP_CONST:
        return value->number >= 0;
    case OP_LOG:
        return is_one_or_more(value->args[0]);
    case OP_MAX:
        return (value->args[0]->op == OP_CONST && value->args[0]->number >= 0) ||
               (value->args[1]->op == OP_CONST && value->args[1]->number >= 0);
    default:
        return is_power(value);
    }
}

static bool is_sum_of_positive(const Value *value) {
    return is_positive(value) ||
           (value->op == OP_ADD && is_positive(value->args[0]) && is_positive(value->args[1]));
}

// The largest of x, if t is never below it: the same, a maximum with it, or more than that, as a
// logsumexp is, and with softplus of anything. No power relative to t is above 1 then, and what is
// too small to count relative to the largest is so relative to t. NULL: t may be below.
static Value *find_largest(const Value *x, Value *t) {
    enum { STEPS_MAX = 16 };
    for (int i = 0; t && i < STEPS_MAX; i++) {
        Value *largest = value_as_largest(t, x), *next = NULL;
        for (uint32_t k = 0; k < t->n_args && t->op == OP_MAX && !largest; k++)
            largest = value_as_largest(t->args[k], x);
        if (largest)
            return largest;
        for (uint32_t k = 0; k < t->n_args && t->op == OP_ADD; k++)
            if (is_sum_of_positive(t->args[1 - k]))
                next = t->args[k];
        t = next;
    }
    return NULL;
}

// 0 where a row has no elements, so that the sum of nothing stays one.
static Value *of_elements(Graph *graph, Value *factor, const DimList *along) {
    for (uint32_t i = 0; i < along->count; i++) {
        if (graph->dims.at[along->at[i]].extent != EXTENT_DYNAMIC)
            continue;
        Value *none = graph_map2(graph, OP_EQ, graph_extent(graph, along->at[i]),
                                 graph_const(graph, 0, ELEM_I64));
        factor = graph_select(graph, none, graph_number(graph, 0, factor), factor);
    }
    return factor;
}

// Is it a power of numbers that are not rounded, relative to what has fewer dims?
static bool is_relative(const Value *power, const Value *by) {
    return power->elem == elem_work(power->elem) && by->op == OP_SUB &&
           is_narrow(by->args[1], by->args[0]);
}

Value *expand_power(Rewrite *rewrite, const Value *value, Value **args) {
    Graph *graph = rewrite->to;
    Value *by = args[0], *largest = NULL;
    if (is_relative(value, value->args[0]) && is_relative(value, by) &&
        is_only_summed(rewrite->data, value))
        largest = find_largest(by->args[0], by->args[1]);
    if (!largest || !dims_equal(&by->args[1]->dims, &largest->dims) ||
        value_made_finite(by->args[1]) == largest)
        return rewrite_keep(rewrite, value, args);
    Value *x = by->args[0], *t = by->args[1], *top = graph_finite(graph, largest);
    DimList along = dims_minus(&x->dims, &largest->dims);
    Value *factor = graph_map1(graph, value->op, graph_map2(graph, OP_SUB, top, t));
    return make_scaled(rewrite, graph_map1(graph, value->op, graph_map2(graph, OP_SUB, x, top)),
                       of_elements(graph, factor, &along));
}

// op: a product, or a quotient by `by`.
static Value *scale_further(Rewrite *rewrite, const Scaled *scaled, Op op, Value *by) {
    Graph *graph = rewrite->to;
    DimList rows = dims_union(&by->dims, &scaled->factor->dims);
    if (!dims_subset(&scaled->elements->dims, &rows))
        return make_scaled(rewrite, scaled->elements, graph_map2(graph, op, scaled->factor, by));
    return make_scaled(rewrite, graph_map2(graph, op, scaled->elements, by), scaled->factor);
}

// What is linear in one argument.
Value *expand_linear(Rewrite *rewrite, const Value *value, Value **args) {
    Graph *graph = rewrite->to;
    for (uint32_t k = 0; k < value->n_args; k++) {
        const Scaled *scaled = expand_scaled(rewrite, args[k]);
        if (!scaled || value->elem != args[k]->elem)
            continue;
        if (value->op == OP_NEG)
            return make_scaled(rewrite, graph_map1(graph, OP_NEG, scaled->elements),
                               scaled->factor);
        if (value->op == OP_MUL || !k)
            return scale_further(rewrite, scaled, value->op, args[1 - k]);
    }
    return rewrite_keep(rewrite, value, args);
}

Value *expand_sum(Rewrite *rewrite, const Value *value, Value **args) {
    Graph *graph = rewrite->to;
    const Scaled *scaled = expand_scaled(rewrite, args[0]);
    if (!scaled || !dims_subset(&scaled->factor->dims, &value->dims))
        return rewrite_keep(rewrite, value, args);
    Value *sum = graph_reduce(graph, OP_SUM, scaled->elements, value->dims);
    return graph_map2(graph, OP_MUL, sum, scaled->factor);
}
