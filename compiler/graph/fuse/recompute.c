// SPDX-License-Identifier: Apache-2.0
// graph_recompute: what is summed over both dims of a pair is computed once for each of them, so
// that neither sum needs it in memory. In the backward pass of attention:
//
//     J[n, m, h] = einsum(Q[n, h, d], K[m, h, d])          e, 1/z: exp(J - top), 1 / sum(e) over m
//     W[n, m, h] = e * 1/z[n, h]
//     O[n, h, v] = einsum(W, V[m, h, v])                   over m, tasks along n
//     dV[m, h, v] = einsum(W, dO[n, h, v])                 over n
// ->
//     W'[n', m, h] = exp(einsum(Q', K) - top'[n', h]) * 1/z'[n', h]
//     dV[m, h, v] = einsum(W', dO'[n', h, v])              over n', tasks along m
//
// where n' is a new dim like n, and what has n and not m (Q, the row statistics) is read under its
// new name. That is the second sweep of Dao et al. 2022, without atomic sums. A sum over both dims
// is one over m for each n, and one over n afterwards:
//
//     dP[h, g] = einsum(W[n, m, h], dU[n, m, g])   ->   sum over n of einsum(W, dU -> [n, h, g])
//
// The rows of a pair are the dim over which nothing is summed that the other values need.
//
// Requires: graph_expand. Ensures: the same values, in sums of another order; dims are added at the
// end, each `like` one that was there.
#include "graph/fuse/fuse.h"
#include "graph/rewrite/rewrite.h"

// The wide values over other dims: as_x is new, as_y is y or what a sum calls it.
typedef struct {
    DimId as_x, as_y;
    Map *again; // value id + 1 -> the value over these dims, in the new graph
} RecomputeNames;

// x: rows; y: streamed.
typedef struct {
    DimId x, y;
    bool *wide;    // by value id: over both, and made of a contraction that is
    uint32_t *set; // by value id: the first of the wide values that it leads to or comes from
    bool *twice;   // by set: its sums over x are made of values that are computed again
    VEC(RecomputeNames *) names;
} RecomputePair;

typedef struct {
    VEC(RecomputePair) pairs;
    bool *simple; // by value id: pointwise of inputs and positions
    bool *result; // by value id: an output of the entry
} Recompute;

static bool over_both(const DimList *dims, const RecomputePair *pair) {
    return dims_has(dims, pair->x) && dims_has(dims, pair->y);
}

// ---- which pairs -------------------------------------------------------------------------------

static bool *find_wide(const Graph *graph, const RecomputePair *pair, const bool *live,
                       Arena *arena) {
    bool *wide = arena_array(arena, bool, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        if (!live[i] || !over_both(&value->dims, pair))
            continue;
        wide[i] = fuse_makes_pair(value, pair->x, pair->y);
        for (uint32_t k = 0; k < value->n_args; k++)
            wide[i] = wide[i] || wide[value->args[k]->id];
    }
    return wide;
}

// A wide value as it is read, itself or under other names.
typedef struct {
    const Value *value; // NULL: the argument is none
    DimId x, y;         // what the pair is called
} WideRead;

static WideRead wide_read(const RecomputePair *pair, const Value *arg) {
    if (pair->wide[arg->id])
        return (WideRead){arg, pair->x, pair->y};
    if (arg->op != OP_RENAME || !pair->wide[arg->args[0]->id])
        return (WideRead){NULL, DIM_NONE, DIM_NONE};
    return (WideRead){arg->args[0], dimmap_get(arg->renames, pair->x),
                      dimmap_get(arg->renames, pair->y)};
}

// What the wide values that a value reads are called, all of them; value NULL: none, in several
// ways, or of sets that are computed once.
static WideRead reads_twice(const RecomputePair *pair, const Value *value) {
    WideRead all = {NULL, DIM_NONE, DIM_NONE}, none = all;
    for (uint32_t k = 0; k < value->n_args; k++) {
        WideRead read = wide_read(pair, value->args[k]);
        if (!read.value)
            continue;
        if (!pair->twice[pair->set[read.value->id]] ||
            (all.value && (all.x != read.x || all.y != read.y)))
            return none;
        all = read;
    }
    return all;
}

static bool is_sum(const Value *value) {
    return value->op == OP_CONTRACT || (value->op == OP_SUM && !value_in_parts(value));
}

// Wide values that lead to each other are worked off together: their sets, by the least id.
static uint32_t *find_sets(const Graph *graph, const RecomputePair *pair, Arena *arena) {
    uint32_t *sets = sets_new(arena, graph->values.count);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        for (uint32_t k = 0; pair->wide[i] && k < value->n_args; k++)
            if (pair->wide[value->args[k]->id])
                sets_join(sets, i, value->args[k]->id);
    }
    for (uint32_t i = 0; i < graph->values.count; i++)
        sets[i] = sets_find(sets, i);
    return sets;
}

static WideRead reads_set(const RecomputePair *pair, const Value *value, uint32_t set) {
    for (uint32_t k = 0; k < value->n_args; k++) {
        WideRead read = wide_read(pair, value->args[k]);
        if (read.value && pair->set[read.value->id] == set)
            return read;
    }
    return (WideRead){NULL, DIM_NONE, DIM_NONE};
}

// Are the wide values of the set reduced over y and needed again over both, and is there something
// summed over x, which none of them needs?
static bool is_worth_it(const Graph *graph, const RecomputePair *pair, uint32_t set,
                        const bool *live, bool *after) {
    bool rows = false, others = false;
    for (uint32_t i = set; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        after[i] = false;
        if (!live[i])
            continue;
        for (uint32_t k = 0; k < value->n_args; k++)
            after[i] = after[i] || (value->args[k]->id >= set && after[value->args[k]->id]);
        if (pair->wide[i] && pair->set[i] == set) {
            if (after[i])
                return false;
            continue;
        }
        WideRead read = reads_set(pair, value, set);
        if (!read.value || value->op == OP_RENAME)
            continue;
        if (dims_has(&value->dims, read.x)) {
            rows = rows || (op_kind(value->op) == KIND_REDUCE && !dims_has(&value->dims, read.y));
            continue;
        }
        if (!is_sum(value))
            return false;
        after[i] = others = true;
    }
    return rows && others;
}

// Values of a better pair are not those of another: heads that are mixed are no rows.
static bool takes_claimed(const Graph *graph, const RecomputePair *pair,
                          const FusePair *const *by) {
    for (uint32_t i = 0; i < graph->values.count; i++)
        if (pair->wide[i] && by[i] && (by[i]->x != pair->x || by[i]->y != pair->y) &&
            (by[i]->x != pair->y || by[i]->y != pair->x))
            return true;
    return false;
}

static void find_pairs(Recompute *r, const Graph *graph, const int64_t *extents, Arena *arena) {
    Fuser fuser = {.arena = arena, .graph = (Graph *)graph, .extents = extents};
    fuser.live = graph_live(graph, arena);
    fuser.learned = fuse_learned_dims(graph, arena);
    fuser.data = fuse_depends_on(graph, ROLE_DATA, arena);
    FusePairs pairs = fuse_find_pairs(&fuser);
    const FusePair **by = arena_array(arena, const FusePair *, graph->values.count + 1);
    bool *after = arena_array(arena, bool, graph->values.count + 1);
    for (uint32_t p = 0; p < pairs.count; p++) {
        RecomputePair pair = {.x = pairs.at[p].x, .y = pairs.at[p].y};
        bool any = false;
        pair.wide = find_wide(graph, &pair, fuser.live, arena);
        if (takes_claimed(graph, &pair, by))
            continue;
        for (uint32_t i = 0; i < graph->values.count; i++)
            if (pair.wide[i])
                by[i] = &pairs.at[p];
        pair.set = find_sets(graph, &pair, arena);
        pair.twice = arena_array(arena, bool, graph->values.count + 1);
        for (uint32_t i = 0; pairs.at[p].positions && i < graph->values.count; i++)
            if (pair.wide[i] && pair.set[i] == i) {
                pair.twice[i] = is_worth_it(graph, &pair, i, fuser.live, after);
                any = any || pair.twice[i];
            }
        if (any)
            vec_push(arena, &r->pairs, pair);
    }
}

static bool *find_simple(const Graph *graph, Arena *arena) {
    bool *simple = arena_array(arena, bool, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        simple[i] = fuse_is_free(value) || op_kind(value->op) == KIND_MAP;
        for (uint32_t k = 0; k < value->n_args; k++)
            simple[i] = simple[i] && simple[value->args[k]->id];
    }
    return simple;
}

// ---- over the new dim --------------------------------------------------------------------------

static DimId new_dim(Graph *graph, DimId like) {
    DimId dim = graph_new_dim_like(graph, graph->dims.at[like].name, 2, like);
    graph->dims.at[dim].made = graph->dims.at[dim].again = true;
    return dim;
}

static bool can_be_again(const Value *value) {
    return op_kind(value->op) == KIND_MAP || is_sum(value);
}

typedef struct {
    const RecomputePair *pair;
    const RecomputeNames *names;
    DimMap map; // of the pair's dims
} Again;

static Value *again(Rewrite *rewrite, const Again *a, const Value *value);

// map: of the dims of a value that reads wide ones, perhaps under other names.
static Value *again_of_args(Rewrite *rewrite, const Again *a, const Value *value,
                            const DimMap *map) {
    Graph *graph = rewrite->to;
    DimList dims = dims_renamed(&value->dims, map);
    Value **args = arena_array(rewrite->arena, Value *, value->n_args);
    for (uint32_t k = 0; k < value->n_args; k++) {
        WideRead read = wide_read(a->pair, value->args[k]);
        bool inside = read.value || map == &a->map;
        args[k] = inside ? again(rewrite, a, read.value ? read.value : value->args[k])
                         : graph_rename_all(graph, rewrite->now[value->args[k]->id], map);
        if (!args[k])
            return NULL;
    }
    if (value->op == OP_CONTRACT)
        return graph_einsum(graph, value->number, args, value->n_args, dims);
    if (value->op == OP_SUM)
        return graph_reduce(graph, OP_SUM, args[0], dims);
    return graph_map(graph, value->op, value->elem, args, value->n_args);
}

static Value *make_again(Rewrite *rewrite, const Again *a, const Value *value) {
    const Recompute *r = rewrite->data;
    const RecomputePair *pair = a->pair;
    Value *now = rewrite->now[value->id];
    if (!dims_has(&value->dims, pair->x) && !dims_has(&value->dims, pair->y))
        return now;
    if (value->op == OP_INDEX)
        return graph_index(rewrite->to, dimmap_get(&a->map, value->dim));
    bool computes = pair->wide[value->id] || (r->simple[value->id] && value->op != OP_INPUT);
    if (!computes && over_both(&value->dims, pair) && value->op != OP_INPUT)
        return NULL;
    if (!computes)
        return graph_rename_all(rewrite->to, now, &a->map);
    return can_be_again(value) ? again_of_args(rewrite, a, value, &a->map) : NULL;
}

// The value, wide or not, over the other dims; NULL: it cannot be.
static Value *again(Rewrite *rewrite, const Again *a, const Value *value) {
    uint64_t key = (uint64_t)value->id + 1;
    Value *known = map_get(a->names->again, key);
    if (!known) {
        known = make_again(rewrite, a, value);
        if (known)
            map_put(a->names->again, key, known);
    }
    return known;
}

static const RecomputeNames *names_for(Rewrite *rewrite, RecomputePair *pair, DimId as_y) {
    for (uint32_t i = 0; i < pair->names.count; i++)
        if (pair->names.at[i]->as_y == as_y)
            return pair->names.at[i];
    RecomputeNames names = {new_dim(rewrite->to, pair->x), as_y, map_new(rewrite->arena)};
    RecomputeNames *kept = arena_copy(rewrite->arena, &names, sizeof names);
    vec_push(rewrite->arena, &pair->names, kept);
    return kept;
}

static bool reads_result(const Recompute *r, const RecomputePair *pair, const Value *value) {
    for (uint32_t k = 0; k < value->n_args; k++) {
        WideRead read = wide_read(pair, value->args[k]);
        if (read.value && r->result[read.value->id])
            return true;
    }
    return false;
}

// A sum over what is called read.x in it, of wide values and of what has that dim besides.
static Value *sum_again(Rewrite *rewrite, RecomputePair *pair, const Value *value, WideRead read) {
    const RecomputeNames *names = names_for(rewrite, pair, read.y);
    Again a = {pair, names, {2, {pair->x, pair->y}, {names->as_x, names->as_y}}};
    DimMap own = {1, {read.x}, {names->as_x}};
    return again_of_args(rewrite, &a, value, &own);
}

static Value *sum_for_each_row(Rewrite *rewrite, const RecomputePair *pair, const Value *value,
                               Value **args) {
    Graph *graph = rewrite->to;
    DimList one = {1, {pair->x}}, kept = dims_union(&value->dims, &one);
    if (value->dims.count == DIMS_MAX)
        return NULL;
    Value *rows = value->op == OP_CONTRACT
                      ? graph_einsum(graph, value->number, args, value->n_args, kept)
                      : graph_reduce(graph, OP_SUM, args[0], kept);
    return graph_reduce(graph, OP_SUM, rows, value->dims);
}

static Value *recompute_value(Rewrite *rewrite, const Value *value, Value **args) {
    Recompute *r = rewrite->data;
    for (uint32_t i = 0; i < r->pairs.count && is_sum(value); i++) {
        RecomputePair *pair = &r->pairs.at[i];
        WideRead read = reads_twice(pair, value);
        Value *out = NULL;
        if (!read.value || dims_has(&value->dims, read.x) || reads_result(r, pair, value))
            continue;
        if (dims_has(&value->dims, read.y))
            out = sum_again(rewrite, pair, value, read);
        else if (read.x == pair->x && read.y == pair->y)
            out = sum_for_each_row(rewrite, pair, value, args);
        if (out)
            return out;
    }
    return rewrite_keep(rewrite, value, args);
}

Graph *graph_recompute(const Graph *graph, const int64_t *extents) {
    Arena *arena = arena_new();
    Recompute r = {.simple = find_simple(graph, arena),
                   .result = arena_array(arena, bool, graph->values.count + 1)};
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        r.result[graph->outputs.at[i].value->id] = true;
    find_pairs(&r, graph, extents, arena);
    if (!r.pairs.count) {
        arena_free(arena);
        return NULL;
    }
    Rewrite rewrite = rewrite_begin("recompute", graph, graph->arena, arena);
    rewrite.data = &r;
    rewrite_values(&rewrite, recompute_value);
    rewrite_outputs(&rewrite);
    arena_free(arena);
    return rewrite.to;
}
