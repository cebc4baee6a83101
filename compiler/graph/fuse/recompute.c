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
// What needs the end of a sweep for more than its own row is of a later phase, which is a sweep of
// its own. Below another layer dO is made of O:
//
//     D[n, h] = sum over m of W * dW[n, m, h]        dW = einsum(dO, V)      phase 1
// ->
//     D[n, h] = D'[n as n'', h], D'[n'', h] = sum over m of W' * dW'         both over n'', m
//
// Requires: graph_expand. Ensures: the same values, in sums of another order; dims are added at the
// end, each `like` one that was there.
#include "graph/fuse/fuse.h"
#include "graph/rewrite/rewrite.h"

// What is made of wide values over other dims: sums over x, or what keeps the rows.
typedef enum { SUMS, ROWS } Sweep;

// The wide values over other dims: as_x is new, as_y is y or what a sum calls it.
typedef struct {
    Sweep sweep;
    uint32_t phase;
    DimId as_x, as_y;
    Map *again; // value id + 1 -> the value over these dims, in the new graph
} RecomputeNames;

// x: rows; y: streamed.
typedef struct {
    DimId x, y;
    bool *wide;      // by value id: over both, and made of a contraction that is
    uint32_t *set;   // by value id: the first of the wide values that it leads to or comes from
    uint32_t *end;   // by set: behind its members and the last value that reads one
    bool *twice;     // by set: its values are needed for more than what is reduced over y
    int64_t *parts;  // by set: sums over x are in so many parts of it, 0: in another sweep
    uint32_t *phase; // by value id, of what is computed in a sweep: how many come before it
    VEC(RecomputeNames *) names;
} RecomputePair;

typedef struct {
    VEC(RecomputePair) pairs;
    VEC(DimId) parts; // dims of parts so far
    bool *simple;     // by value id: pointwise of inputs and positions
    bool *result;     // by value id: an output of the entry
} Recompute;

static bool over_both(const DimList *dims, const RecomputePair *pair) {
    return dims_has(dims, pair->x) && dims_has(dims, pair->y);
}

// ---- which pairs -------------------------------------------------------------------------------

static bool *find_wide(const Graph *graph, const FusePair *pair, const bool *live, Arena *arena) {
    bool *wide = arena_array(arena, bool, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        if (!live[i] || !dims_has(&value->dims, pair->x) || !dims_has(&value->dims, pair->y))
            continue;
        wide[i] = fuse_makes_pair(value, pair->x, pair->y);
        for (uint32_t k = 0; k < value->n_args; k++)
            wide[i] = wide[i] || wide[value->args[k]->id];
    }
    return wide;
}

static bool same_dims(const FusePair *a, const FusePair *b) {
    return (a->x == b->x && a->y == b->y) || (a->x == b->y && a->y == b->x);
}

bool *fuse_claim_wide(const Graph *graph, const FusePair *pair, const bool *live,
                      const FusePair **by, Arena *arena) {
    bool *wide = find_wide(graph, pair, live, arena);
    for (uint32_t i = 0; i < graph->values.count; i++)
        if (wide[i] && by[i] && !same_dims(by[i], pair))
            return NULL;
    for (uint32_t i = 0; i < graph->values.count; i++)
        if (wide[i])
            by[i] = pair;
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

static uint32_t *find_ends(const Graph *graph, const RecomputePair *pair, Arena *arena) {
    uint32_t *end = arena_array(arena, uint32_t, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        if (pair->wide[i])
            end[pair->set[i]] = i + 1;
        for (uint32_t k = 0; k < value->n_args; k++) {
            WideRead read = wide_read(pair, value->args[k]);
            if (read.value)
                end[pair->set[read.value->id]] = i + 1;
        }
    }
    return end;
}

static WideRead reads_set(const RecomputePair *pair, const Value *value, uint32_t set) {
    for (uint32_t k = 0; k < value->n_args; k++) {
        WideRead read = wide_read(pair, value->args[k]);
        if (read.value && pair->set[read.value->id] == set)
            return read;
    }
    return (WideRead){NULL, DIM_NONE, DIM_NONE};
}

// Is the value one of the set's wide values, or reduced from them?
static bool is_of_set(const RecomputePair *pair, const Value *value, uint32_t set) {
    bool member = pair->wide[value->id] && pair->set[value->id] == set;
    return member || (value_is_reduction(value) && reads_set(pair, value, set).value);
}

// How far the set's wide values have to be before a value can be computed: twice the phases that
// are over, and 1 more inside of a phase; 0 is before all. What is pointwise of a row's results is
// computed inside, everything else after the phase.
static uint32_t level_of(const RecomputePair *pair, const Value *value, uint32_t set,
                         const uint32_t *level) {
    uint32_t most = 0;
    for (uint32_t k = 0; k < value->n_args; k++)
        if (value->args[k]->id >= set && level[value->args[k]->id] > most)
            most = level[value->args[k]->id];
    if (is_of_set(pair, value, set))
        return most | 1;
    return op_kind(value->op) == KIND_MAP ? most : (most + 1) & ~1u;
}

// Are the wide values of the set reduced over y and needed again over both: is something summed
// over x, which none of them needs, or has it several phases?
static bool is_worth_it(const Graph *graph, const RecomputePair *pair, uint32_t set,
                        const bool *live, const uint32_t *level, bool *after) {
    bool rows = false, others = false;
    for (uint32_t i = set; i < pair->end[set]; i++) {
        const Value *value = graph->values.at[i];
        after[i] = false;
        if (!live[i])
            continue;
        for (uint32_t k = 0; k < value->n_args; k++)
            after[i] = after[i] || (value->args[k]->id >= set && after[value->args[k]->id]);
        if (pair->wide[i] && pair->set[i] == set) {
            if (after[i])
                return false;
            others = others || level[i] > 1;
            continue;
        }
        WideRead read = reads_set(pair, value, set);
        if (!read.value || value->op == OP_RENAME)
            continue;
        if (!value_is_reduction(value))
            return false; // it reads them from memory
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

// Finds the set's phases; pair->twice: whether they are computed more than once.
static void weigh_set(const Graph *graph, RecomputePair *pair, uint32_t set, const bool *live,
                      uint32_t *level, bool *after) {
    for (uint32_t i = set; i < pair->end[set]; i++)
        level[i] = live[i] ? level_of(pair, graph->values.at[i], set, level) : 0;
    pair->twice[set] = is_worth_it(graph, pair, set, live, level, after);
    for (uint32_t i = set; pair->twice[set] && i < pair->end[set]; i++)
        if (level[i] % 2)
            pair->phase[i] = level[i] / 2;
}

// ---- sums over the rows of a sweep in parts of them --------------------------------------------

// Tasks that a sweep should have at least, rows that a part has at least, and the most that sums in
// parts may take.
enum { TASKS = 4, ROWS_OF_PART = 64 };
static const double PARTS_BYTES = 256 << 20, FEW_PARTS_BYTES = 64 << 20;

// Is it a sum over x of what has it on both sides, which a sweep over x can add to?
static bool can_be_in_parts(const RecomputePair *pair, const Value *value, WideRead read) {
    if (read.x != pair->x || read.y != pair->y || !is_sum(value) || !elem_is_float(value->elem) ||
        value->dims.count == DIMS_MAX)
        return false;
    for (uint32_t k = 0; k < value->n_args; k++)
        if (!dims_has(&value->args[k]->dims, read.x))
            return false;
    return value->op == OP_SUM || value->n_args == 2;
}

// In how many parts the sums over x are that keep y; 0: there are none, or they would take too much
// memory. The number depends on extents alone, so results do not depend on the number of threads.
static int64_t parts_of_set(const Graph *graph, const RecomputePair *pair, uint32_t set,
                            const bool *live, const int64_t *extents) {
    double bytes = 0;
    DimList batch = graph->values.at[set]->dims, own = {2, {pair->x, pair->y}};
    for (uint32_t i = set; i < pair->end[set]; i++) {
        const Value *value = graph->values.at[i];
        if (pair->wide[i] && pair->set[i] == set)
            batch = dims_intersect(&batch, &value->dims);
        WideRead read = live[i] && !pair->wide[i] ? reads_set(pair, value, set) : (WideRead){0};
        if (!read.value || !value_is_reduction(value) || dims_has(&value->dims, read.x))
            continue;
        if (dims_has(&value->dims, read.y) && !can_be_in_parts(pair, value, read))
            return 0;
        bytes += (double)dims_volume(&value->dims, extents) * sizeof(float);
    }
    batch = dims_minus(&batch, &own);
    int64_t tasks = dims_volume(&batch, extents);
    int64_t parts = ceil_div(TASKS, tasks > 1 ? tasks : 1);
    int64_t most = extents[pair->x] / ROWS_OF_PART;
    parts = parts < most ? parts : most > 1 ? most : 1;
    while (parts > 2 && (double)parts * bytes > FEW_PARTS_BYTES)
        parts--;
    return bytes > 0 && (double)parts * bytes <= PARTS_BYTES ? parts : 0;
}

static void find_pairs(Recompute *r, const Graph *graph, const int64_t *extents, Arena *arena) {
    Fuser fuser = {.arena = arena, .graph = (Graph *)graph, .extents = extents};
    fuse_note_dims(&fuser);
    FusePairs pairs = fuse_find_pairs(&fuser);
    const FusePair **by = arena_array(arena, const FusePair *, graph->values.count + 1);
    bool *after = arena_array(arena, bool, graph->values.count + 1);
    uint32_t *level = arena_array(arena, uint32_t, graph->values.count + 1);
    for (uint32_t p = 0; p < pairs.count; p++) {
        RecomputePair pair = {.x = pairs.at[p].x, .y = pairs.at[p].y};
        bool any = false;
        pair.wide = fuse_claim_wide(graph, &pairs.at[p], fuser.live, by, arena);
        if (!pair.wide)
            continue;
        pair.set = find_sets(graph, &pair, arena);
        pair.end = find_ends(graph, &pair, arena);
        pair.twice = arena_array(arena, bool, graph->values.count + 1);
        pair.phase = arena_array(arena, uint32_t, graph->values.count + 1);
        pair.parts = arena_array(arena, int64_t, graph->values.count + 1);
        for (uint32_t i = 0; pairs.at[p].positions && i < graph->values.count; i++)
            if (pair.wide[i] && pair.set[i] == i) {
                weigh_set(graph, &pair, i, fuser.live, level, after);
                any = any || pair.twice[i];
                if (pair.twice[i])
                    pair.parts[i] = parts_of_set(graph, &pair, i, fuser.live, extents);
            }
        if (any)
            vec_push(arena, &r->pairs, pair);
    }
}

static bool *find_simple(const Graph *graph, Arena *arena) {
    bool *simple = arena_array(arena, bool, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        simple[i] =
            fuse_is_free(value) || fuse_is_of_input(value) || op_kind(value->op) == KIND_MAP;
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
    return op_kind(value->op) == KIND_MAP || value_is_reduction(value);
}

typedef struct {
    const RecomputePair *pair;
    const RecomputeNames *names;
    DimMap map; // of the pair's dims
} Again;

static Value *again(Rewrite *rewrite, const Again *a, const Value *value);

// The arguments of a value over other dims. map: of the dims of a value that reads wide ones,
// perhaps under other names. NULL: they cannot be.
static Value **args_again(Rewrite *rewrite, const Again *a, const Value *value, const DimMap *map) {
    Value **args = arena_array(rewrite->arena, Value *, value->n_args);
    for (uint32_t k = 0; k < value->n_args; k++) {
        WideRead read = wide_read(a->pair, value->args[k]);
        bool inside = read.value || map == &a->map;
        args[k] = inside ? again(rewrite, a, read.value ? read.value : value->args[k])
                         : graph_rename_all(rewrite->to, rewrite->now[value->args[k]->id], map);
        if (!args[k])
            return NULL;
    }
    return args;
}

// The value over other dims; see args_again.
static Value *again_of_args(Rewrite *rewrite, const Again *a, const Value *value, DimList dims,
                            const DimMap *map) {
    Graph *graph = rewrite->to;
    Value **args = args_again(rewrite, a, value, map);
    if (!args)
        return NULL;
    if (value_is_reduction(value))
        return graph_reduce_like(graph, value, args, dims);
    return graph_map(graph, value->op, value->elem, args, value->n_args);
}

// Does the value belong to the phase that a sweep over rows computes?
static bool is_of_sweep(const Again *a, const Value *value) {
    return a->names->sweep == ROWS && a->pair->phase[value->id] == a->names->phase;
}

static Value *make_again(Rewrite *rewrite, const Again *a, const Value *value) {
    const Recompute *r = rewrite->data;
    const RecomputePair *pair = a->pair;
    Value *now = rewrite->now[value->id];
    if (!dims_has(&value->dims, pair->x) && !dims_has(&value->dims, pair->y))
        return now;
    if (value->op == OP_INDEX)
        return graph_index(rewrite->to, dimmap_get(&a->map, value->dim));
    bool input = fuse_is_of_input(value);
    bool computes =
        pair->wide[value->id] || (r->simple[value->id] && !input) || is_of_sweep(a, value);
    if (!computes && over_both(&value->dims, pair) && !input)
        return NULL;
    if (!computes)
        return graph_rename_all(rewrite->to, now, &a->map);
    DimList dims = dims_renamed(&value->dims, &a->map);
    return can_be_again(value) ? again_of_args(rewrite, a, value, dims, &a->map) : NULL;
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

static Again again_for(Rewrite *rewrite, RecomputePair *pair, Sweep sweep, DimId as_y,
                       uint32_t phase) {
    const RecomputeNames *found = NULL;
    for (uint32_t i = 0; i < pair->names.count && !found; i++) {
        const RecomputeNames *names = pair->names.at[i];
        if (names->sweep == sweep && names->as_y == as_y && names->phase == phase)
            found = names;
    }
    if (!found) {
        RecomputeNames names = {sweep, phase, new_dim(rewrite->to, pair->x), as_y,
                                map_new(rewrite->arena)};
        RecomputeNames *kept = arena_copy(rewrite->arena, &names, sizeof names);
        vec_push(rewrite->arena, &pair->names, kept);
        found = kept;
        rewrite->to->again = true;
    }
    return (Again){pair, found, {2, {pair->x, pair->y}, {found->as_x, found->as_y}}};
}

static bool reads_result(const Recompute *r, const RecomputePair *pair, const Value *value) {
    for (uint32_t k = 0; k < value->n_args; k++) {
        WideRead read = wide_read(pair, value->args[k]);
        if (read.value && r->result[read.value->id])
            return true;
    }
    return false;
}

// ---- what is made of wide values ---------------------------------------------------------------

// A sum over what is called read.x in it, of wide values and of what has that dim besides.
static Value *sum_again(Rewrite *rewrite, RecomputePair *pair, const Value *value, WideRead read) {
    Again a = again_for(rewrite, pair, SUMS, read.y, pair->phase[value->id]);
    DimMap own = {1, {read.x}, {a.names->as_x}};
    return again_of_args(rewrite, &a, value, value->dims, &own);
}

static DimId parts_dim(Rewrite *rewrite, int64_t count) {
    Recompute *r = rewrite->data;
    Graph *graph = rewrite->to;
    for (uint32_t i = 0; i < r->parts.count; i++)
        if (graph->dims.at[r->parts.at[i]].extent == count)
            return r->parts.at[i];
    DimId dim = graph_new_dim(graph, "part_", 2, count);
    graph->dims.at[dim].made = true;
    vec_push(rewrite->arena, &r->parts, dim);
    return dim;
}

// A sum over x in the sweep that computes its rows, in parts of them. NULL: it cannot be.
static Value *sum_in_parts(Rewrite *rewrite, RecomputePair *pair, const Value *value, Value **args,
                           WideRead read) {
    Graph *graph = rewrite->to;
    uint32_t phase = pair->phase[value->id];
    Again a = phase ? again_for(rewrite, pair, ROWS, pair->y, phase) : (Again){0};
    Value **rows = phase ? args_again(rewrite, &a, value, &a.map) : args;
    if (!rows)
        return NULL;
    for (uint32_t k = 0; k < value->n_args; k++)
        rows[k] = graph_cast(graph, rows[k], elem_work(value->elem));
    DimId x = phase ? a.names->as_x : pair->x;
    DimId parts = parts_dim(rewrite, pair->parts[pair->set[read.value->id]]);
    Value *sum = value->op == OP_CONTRACT
                     ? graph_einsum_parts(graph, rows, value->dims, x, parts)
                     : graph_reduce_parts(graph, OP_SUM, rows[0], value->dims, x, parts);
    sum = graph_reduce(graph, OP_SUM, sum, value->dims);
    if (value->op == OP_CONTRACT && value->number != 1)
        sum = graph_map2(graph, OP_MUL, sum, graph_const(graph, value->number, sum->elem));
    return graph_cast(graph, sum, value->elem);
}

// The dims of what a sum over both dims is made of for each row: x and what all of the wide values
// that it reads have besides y, as tasks do.
static DimList dims_of_rows(const RecomputePair *pair, const Value *value) {
    DimList rows = {0}, y = {1, {pair->y}};
    bool first = true;
    for (uint32_t k = 0; k < value->n_args; k++)
        if (wide_read(pair, value->args[k]).value) {
            const DimList *dims = &value->args[k]->dims;
            rows = first ? *dims : dims_intersect(&rows, dims);
            first = false;
        }
    rows = dims_minus(&rows, &y);
    rows = dims_minus(&rows, &value->dims);
    return rows;
}

// A sum over both dims, row by row first.
static Value *sum_for_each_row(Rewrite *rewrite, RecomputePair *pair, const Value *value,
                               Value **args) {
    Graph *graph = rewrite->to;
    uint32_t phase = pair->phase[value->id];
    Again a = phase ? again_for(rewrite, pair, ROWS, pair->y, phase) : (Again){0};
    DimList rows = dims_of_rows(pair, value);
    if (value->dims.count + rows.count > DIMS_MAX)
        return NULL;
    rows = dims_renamed(&rows, &a.map);
    DimList kept = dims_union(&value->dims, &rows);
    Value *sums = phase ? again_of_args(rewrite, &a, value, kept, &a.map)
                        : graph_reduce_like(graph, value, args, kept);
    return sums ? graph_reduce(graph, OP_SUM, sums, value->dims) : NULL;
}

// What a later phase has of each row: computed over the dim of its sweep, and called x again.
static Value *row_again(Rewrite *rewrite, RecomputePair *pair, const Value *value) {
    if (!pair->phase[value->id])
        return NULL;
    Again a = again_for(rewrite, pair, ROWS, pair->y, pair->phase[value->id]);
    DimMap back = {1, {a.names->as_x}, {pair->x}};
    Value *rows = again(rewrite, &a, value);
    return rows ? graph_rename_all(rewrite->to, rows, &back) : NULL;
}

// NULL: as it is.
static Value *value_again(Rewrite *rewrite, RecomputePair *pair, const Value *value, Value **args) {
    WideRead read = reads_twice(pair, value);
    if (!read.value || !value_is_reduction(value) || reads_result(rewrite->data, pair, value))
        return NULL;
    bool own_names = read.x == pair->x && read.y == pair->y;
    if (dims_has(&value->dims, read.x))
        return own_names && !dims_has(&value->dims, read.y) ? row_again(rewrite, pair, value)
                                                            : NULL;
    if (!is_sum(value))
        return NULL;
    if (pair->parts[pair->set[read.value->id]] && can_be_in_parts(pair, value, read))
        return sum_in_parts(rewrite, pair, value, args, read);
    if (dims_has(&value->dims, read.y))
        return sum_again(rewrite, pair, value, read);
    return own_names ? sum_for_each_row(rewrite, pair, value, args) : NULL;
}

static Value *recompute_value(Rewrite *rewrite, const Value *value, Value **args) {
    Recompute *r = rewrite->data;
    for (uint32_t i = 0; i < r->pairs.count; i++) {
        Value *out = value_again(rewrite, &r->pairs.at[i], value, args);
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
