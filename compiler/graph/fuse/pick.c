// SPDX-License-Identifier: Apache-2.0
// graph_pick: one position of a streamed dim as a sum over all of them, so that what it is picked
// from need not be stored. In the loss of a language model:
//
//     L[t, v] = einsum(X[t, d], E[v, d]);  z[t]: log of a sum over v
//     picked[t] = gather(L - z, label[t], dim=v)
// ->
//     picked[t] = sum over v of where(label[t] == index(v), L - z, 0)       NaN outside of v
//
// and its gradient, a number where index(v) is the label, is summed over v without looking:
//
//     sum over v of where(label[t] == index(v), c, 0)  ->  where(label[t] is in v, c, 0)
//
// Sums at positions that are computed go the same way (hits.c).
//
// Requires: graph_expand. Ensures: the same values; a sum of zeros and one element is the element.
#include "graph/fuse/fuse.h"
#include "graph/rewrite/rewrite.h"

#include <math.h>

// ---- values that are worked off along a dim ----------------------------------------------------

static bool is_reduced(const Graph *graph, const bool *live, const bool *wide, DimId y) {
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        for (uint32_t k = 0; live[i] && value_is_reduction(value) && k < value->n_args; k++)
            if (wide[value->args[k]->id] && !dims_has(&value->dims, y))
                return true;
    }
    return false;
}

// By value id: the dim along which the pair of a wide value is reduced; DIM_NONE: there is none.
static DimId *find_streamed(const Graph *graph, const int64_t *extents, FusePairs *found,
                            Arena *arena) {
    DimId *streamed = arena_array(arena, DimId, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++)
        streamed[i] = DIM_NONE;
    PairSearch search = fuse_search_pairs(graph, extents, arena);
    const bool *live = search.fuser.live;
    for (uint32_t p = 0; p < search.pairs.count; p++) {
        const FusePair *pair = &search.pairs.at[p];
        bool *wide = fuse_claim_wide(&search, pair);
        bool reduced = wide && pair->positions && is_reduced(graph, live, wide, pair->y);
        if (reduced)
            vec_push(arena, found, *pair);
        for (uint32_t i = 0; reduced && i < graph->values.count; i++)
            if (wide[i] && streamed[i] == DIM_NONE)
                streamed[i] = pair->y;
    }
    return streamed;
}

typedef struct {
    const DimId *streamed;
    FusePairs pairs; // that are streamed
    StreamCosts costs;
    bool *stored;           // by value id: what this SCATTER_ADD sums is stored
    VEC(uint32_t) scatters; // the others,
    VEC(ValueList) sums;    // and what each of them has become
} Pick;

// ---- one position ------------------------------------------------------------------------------

// value where the i64 position is one of the dim, otherwise `other`.
static Value *where_inside(Graph *graph, Value *position, DimId dim, Value *value, Value *other) {
    Value *above = graph_map2(graph, OP_LE, graph_const(graph, 0, ELEM_I64), position);
    Value *below = graph_map2(graph, OP_LT, position, graph_extent(graph, dim));
    return graph_select(graph, graph_map2(graph, OP_AND, above, below), value, other);
}

static Value *sum_of_one(Rewrite *rewrite, const Value *gather, Value **args) {
    Graph *graph = rewrite->to;
    Value *position = graph_cast(graph, args[1], ELEM_I64), *from = args[0];
    from = graph_cast(graph, from, elem_work(from->elem));
    Value *zero = graph_const(graph, 0, from->elem), *nan = graph_const(graph, NAN, from->elem);
    Value *hit = graph_map2(graph, OP_EQ, position, graph_index(graph, gather->dim));
    Value *only = graph_select(graph, hit, from, zero);
    Value *sum = graph_reduce(graph, OP_SUM, only, gather->dims);
    return graph_cast(graph, where_inside(graph, position, gather->dim, sum, nan), gather->elem);
}

static Value *pick_position(Rewrite *rewrite, const Value *gather, Value **args) {
    const Pick *pick = rewrite->data;
    DimId dim = gather->dim;
    bool picks =
        pick->streamed[gather->args[0]->id] == dim && !dims_has(&gather->args[1]->dims, dim);
    return picks && elem_is_float(gather->elem) ? sum_of_one(rewrite, gather, args) : NULL;
}

// ---- sums of a number at one position ----------------------------------------------------------

// The position that a condition compares with those of the dim; NULL: it is no such condition.
static const Value *compared(const Value *condition, DimId dim) {
    if (condition->op != OP_EQ || condition->args[0]->elem != ELEM_I64)
        return NULL;
    for (int k = 0; k < 2; k++) {
        const Value *index = condition->args[k], *position = condition->args[1 - k];
        if (index->op == OP_INDEX && index->dim == dim && !dims_has(&position->dims, dim))
            return position;
    }
    return NULL;
}

static Value *sum_at_one(Rewrite *rewrite, const Value *sum) {
    Graph *graph = rewrite->to;
    const Value *select = sum->args[0];
    if (value_in_parts(sum) || select->op != OP_SELECT || !value_is_zero(select->args[2]))
        return NULL;
    DimList over = dims_minus(&select->dims, &sum->dims);
    for (uint32_t d = 0; d < over.count; d++) {
        const Value *position = compared(select->args[0], over.at[d]);
        if (!position || dims_has(&select->args[1]->dims, over.at[d]))
            continue;
        Value *other = rewrite->now[select->args[2]->id];
        Value *one = where_inside(graph, rewrite->now[position->id], over.at[d],
                                  rewrite->now[select->args[1]->id], other);
        return graph_reduce(graph, OP_SUM, one, sum->dims);
    }
    return NULL;
}

// ---- the pass ----------------------------------------------------------------------------------

// A bias over a pair, from a table over neither.
static Value *gather_bias(Rewrite *rewrite, const Value *gather, Value **args) {
    const Pick *pick = rewrite->data;
    Value *bias = NULL;
    for (uint32_t p = 0; p < pick->pairs.count && !bias; p++)
        bias = fuse_gather_by_distance(rewrite, gather, args[0], pick->pairs.at[p].x,
                                       pick->pairs.at[p].y);
    return bias;
}

static Value *add_at_positions(Rewrite *rewrite, const Value *scatter, Value **args) {
    Pick *pick = rewrite->data;
    DimId streamed = pick->streamed[scatter->args[0]->id];
    if (streamed == DIM_NONE || pick->stored[scatter->id])
        return NULL;
    ValueList made = {0};
    Value *sums = fuse_sums_at(rewrite, scatter, args, streamed, &pick->costs, &made);
    if (!sums)
        return NULL;
    vec_push(rewrite->arena, &pick->scatters, scatter->id);
    vec_push(rewrite->arena, &pick->sums, made);
    return sums;
}

static Value *pick_value(Rewrite *rewrite, const Value *value, Value **args) {
    Value *out = NULL;
    if (value->op == OP_SCATTER_ADD)
        out = add_at_positions(rewrite, value, args);
    else if (value->op == OP_GATHER)
        out = pick_position(rewrite, value, args);
    else if (value->op == OP_SUM)
        out = sum_at_one(rewrite, value);
    if (!out && value->op == OP_GATHER)
        out = gather_bias(rewrite, value, args);
    return out ? out : rewrite_keep(rewrite, value, args);
}

static bool may_pick(const Value *value) {
    return value->op == OP_GATHER || value->op == OP_SCATTER_ADD ||
           (value->op == OP_SUM && value->args[0]->op == OP_SELECT);
}

// Which sums at positions no sweep adds up after all?
static bool takes_back(Pick *pick, const Graph *picked) {
    bool any = false;
    for (uint32_t i = 0; i < pick->scatters.count; i++) {
        bool added = fuse_adds_in_sweeps(picked, &pick->sums.at[i], pick->costs.machine);
        pick->stored[pick->scatters.at[i]] = !added;
        any = any || !added;
    }
    return any;
}

// Whether sweeps will hold what is picked is seen when it is there.
static Graph *pick_all(const Graph *graph, Pick *pick, Arena *arena) {
    Rewrite rewrite = rewrite_begin("pick", graph, graph->arena, arena);
    rewrite.data = pick;
    pick->scatters.count = pick->sums.count = 0;
    rewrite_values(&rewrite, pick_value);
    rewrite_outputs(&rewrite);
    return takes_back(pick, rewrite.to) ? NULL : rewrite.to;
}

Graph *graph_pick(const Graph *graph, const int64_t *extents, const Machine *machine,
                  double wide_price) {
    bool any = false;
    for (uint32_t i = 0; i < graph->values.count && !any; i++)
        any = may_pick(graph->values.at[i]);
    if (!any)
        return NULL;
    Arena *arena = arena_new();
    Pick pick = {.costs = {extents, machine, wide_price}};
    pick.streamed = find_streamed(graph, extents, &pick.pairs, arena);
    pick.stored = arena_array(arena, bool, graph->values.count + 1);
    Graph *picked = NULL;
    while (!picked)
        picked = pick_all(graph, &pick, arena);
    arena_free(arena);
    return picked;
}
