// SPDX-License-Identifier: Apache-2.0
// Softmaxes that are written out, in graph_expand. A power relative to what depends on the largest
// of its row is one relative to that alone, with a row factor, which sums and einsums pass on:
//
//     exp(x - t), t of max x                      ->  exp(x - finite(top)) * exp(finite(top) - t)
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
    for (uint32_t i = 0; i < graph->values.count; i++)
        for (uint32_t k = 0; k < graph->values.at[i]->n_args; k++)
            vec_push(arena, &users[graph->values.at[i]->args[k]->id], graph->values.at[i]);
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        vec_push(arena, &users[graph->outputs.at[i].value->id], NULL);
    return users;
}

// What uses the elements of rows along these dims.
typedef enum { USES_OTHERWISE, USES_LINEARLY, SUMS } RowUse;

static RowUse row_use(const Value *user, const Value *value, const DimList *along) {
    if (!user)
        return USES_OTHERWISE;
    switch (user->op) {
    case OP_SUM:
    case OP_CONTRACT:
        return dims_intersect(&user->dims, along).count || user->n_args > 2 ? USES_OTHERWISE : SUMS;
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
            RowUse use = row_use(users->at[u], open[i], &along);
            if (use == USES_OTHERWISE || n == OPEN_MAX)
                return false;
            if (use == USES_LINEARLY)
                open[n++] = users->at[u];
        }
    }
    return true;
}

static bool is_largest_of(const Value *value, const Value *x) {
    return (value->op == OP_REDUCE_TOP || value->op == OP_REDUCE_MAX) && value->args[0] == x;
}

// What t depends on that is the largest of x; NULL: nothing near.
static Value *find_largest(const Value *x, Value *t) {
    enum { SEARCHED_MAX = 64 };
    Value *open[SEARCHED_MAX] = {t};
    uint32_t n = 1;
    for (uint32_t i = 0; i < n; i++) {
        if (is_largest_of(open[i], x))
            return open[i];
        for (uint32_t k = 0; k < open[i]->n_args && n < SEARCHED_MAX; k++) {
            Value *arg = open[i]->args[k];
            bool known = !is_narrow(arg, x);
            for (uint32_t o = 0; o < n && !known; o++)
                known = open[o] == arg;
            if (!known)
                open[n++] = arg;
        }
    }
    return NULL;
}

Value *expand_power(Rewrite *rewrite, const Value *value, Value **args) {
    Graph *graph = rewrite->to;
    Value *power = rewrite_keep(rewrite, value, args), *by = args[0];
    if (power->elem != elem_work(power->elem) || by->op != OP_SUB ||
        !is_narrow(by->args[1], by->args[0]) || value->args[0]->op != OP_SUB ||
        !is_only_summed(rewrite->data, value))
        return power;
    Value *x = by->args[0], *t = by->args[1];
    Value *largest = find_largest(x, t);
    DimList rows = largest ? dims_union(&largest->dims, &t->dims) : x->dims;
    if (dims_subset(&x->dims, &rows))
        return power;
    Value *top = graph_finite(graph, largest);
    if (top == t)
        return power;
    return make_scaled(rewrite, graph_map1(graph, power->op, graph_map2(graph, OP_SUB, x, top)),
                       graph_map1(graph, power->op, graph_map2(graph, OP_SUB, top, t)));
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
