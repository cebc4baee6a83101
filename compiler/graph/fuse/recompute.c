// SPDX-License-Identifier: Apache-2.0
// graph_recompute: what is summed over both dims of a pair is computed where neither sum needs it
// in memory. In the backward pass of attention:
//
//     J[n, m, h] = einsum(Q[n, h, d], K[m, h, d])          e, 1/z: exp(J - top), 1 / sum(e) over m
//     W[n, m, h] = e * 1/z[n, h]
//     O[n, h, v] = einsum(W, V[m, h, v])                   over m, tasks along n
//     dV[m, h, v] = einsum(W, dO[n, h, v])                 over n
//
// Tasks have a part of the rows n each, and add up what is summed over them, for each part:
//
//     p[part, m, h, v] = sum over the part's n of W * dO,  dV = sum of p over the parts
//
// Where the parts would take too much memory, tasks add to dV itself, one after another (in turn; a
// doacross loop, Cytron 1986), which has the same bits for any number of threads.
// Beside sums that have to be in parts W is computed again, in a second sweep with tasks along m,
// that of Dao et al. 2022:
//
//     W'[n', m, h] = exp(einsum(Q', K) - top'[n', h]) * 1/z'[n', h]
//     dV[m, h, v] = einsum(W', dO'[n', h, v])              over n', tasks along m
//
// where n' is a new dim like n, and what has n and not m (Q, the row statistics) is read under its
// new name. A sum over both dims that is not in parts is one over m for each n, and one over n
// afterwards:
//
//     dP[h, g] = einsum(W[n, m, h], dU[n, m, g])   ->   sum over n of einsum(W, dU -> [n, h, g])
//
// The rows of a pair are the dim over which nothing is summed that the other values need.
//
// What needs the end of a sweep for more than its own row, or what is summed over the rows, is of a
// later phase, which is a sweep of its own. Below another layer dO is made of O:
//
//     D[n, h] = sum over m of W * dW[n, m, h]        dW = einsum(dO, V)      phase 1
// ->
//     D[n, h] = D'[n as n'', h], D'[n'', h] = sum over m of W' * dW'         both over n'', m
//
// What many phases would compute again is stored where that is cheaper (stored.c): the later ones
// read it under their name for x.
//
// Requires: graph_expand. Ensures: the same values, in sums of another order; dims are added at the
// end, each `like` one that was there.
#include "graph/fuse/sweeps.h"
#include "graph/rewrite/rewrite.h"

// What is made of wide values over other dims: sums over x, or what keeps the rows.
typedef enum { SUMS, ROWS } Sweep;

// The wide values over other dims: as_x is new, as_y is y or what a sum calls it.
typedef struct {
    const SweptPair *pair;
    Sweep kind;
    uint32_t phase;
    DimId as_x, as_y;
    DimMap map; // of the pair's dims
    Map *made;  // value id + 1 -> Made
} Resweep;

typedef struct {
    Value *value; // over these dims, in the new graph; NULL: it cannot be
} Made;

typedef struct {
    SweptPairs pairs;
    VEC(const Resweep *) resweeps;
    VEC(DimId) parts;  // dims of parts so far
    const bool *given; // by value id: pointwise of inputs and positions, or gathered
    bool *result;      // by value id: an output of the entry
} Recompute;

static bool over_both(const DimList *dims, const SweptPair *pair) {
    return dims_has(dims, pair->x) && dims_has(dims, pair->y);
}

// ---- over the new dim --------------------------------------------------------------------------

static DimId new_dim(Graph *graph, DimId like) {
    DimId dim = graph_new_dim_like(graph, graph->dims.at[like].name, 2, like);
    graph->dims.at[dim].made = graph->dims.at[dim].reswept = true;
    return dim;
}

static bool has_neither(const SweptPair *pair, const Value *value) {
    return !dims_has(&value->dims, pair->x) && !dims_has(&value->dims, pair->y);
}

// A table at positions.
static bool is_bias(const SweptPair *pair, const Value *value) {
    return value->op == OP_GATHER && has_neither(pair, value->args[0]);
}

static bool can_be_reswept(const SweptPair *pair, const Value *value) {
    return op_kind(value->op) == KIND_MAP || value_is_reduction(value) || is_bias(pair, value);
}

static Value *reswept(Rewrite *rewrite, const Resweep *sweep, const Value *value);

// What a reader calls the pair.
typedef struct {
    DimId x, y;
} PairNames;

// What the sweep computes for an argument: the wide value that it is under other names, if the
// reader calls the pair so. Otherwise it is the argument, as it lies in memory.
static const Value *read_by(const Resweep *sweep, const Value *arg, PairNames names) {
    WideRead read = sweeps_read(sweep->pair, arg);
    return read.value && read.x == names.x && read.y == names.y ? read.value : arg;
}

// What is computed for the argument, with its names of all dims but the pair's.
static Value *with_its_names(Rewrite *rewrite, const SweptPair *pair, const Value *arg,
                             Value *made) {
    DimMap others = {0};
    for (uint32_t i = 0; made && arg->op == OP_RENAME && i < arg->renames->count; i++)
        if (arg->renames->from[i] != pair->x && arg->renames->from[i] != pair->y)
            dimmap_add(&others, arg->renames->from[i], arg->renames->to[i]);
    return made ? graph_rename_all(rewrite->to, made, &others) : NULL;
}

// The arguments of a value over other dims. map: of the dims of a value that reads wide ones,
// perhaps under other names. NULL: they cannot be.
static Value **reswept_args(Rewrite *rewrite, const Resweep *sweep, const Value *value,
                            const DimMap *map) {
    bool inside = map == &sweep->map;
    PairNames names = {inside ? sweep->pair->x : map->from[0],
                       inside ? sweep->pair->y : sweep->as_y};
    Value **args = arena_array(rewrite->arena, Value *, value->n_args);
    for (uint32_t k = 0; k < value->n_args; k++) {
        const Value *arg = value->args[k], *read = read_by(sweep, arg, names);
        if (read != arg)
            args[k] = with_its_names(rewrite, sweep->pair, arg, reswept(rewrite, sweep, read));
        else if (inside || sweep->pair->wide[arg->id])
            args[k] = reswept(rewrite, sweep, arg);
        else
            args[k] = graph_rename_all(rewrite->to, rewrite->now[arg->id], map);
        if (!args[k])
            return NULL;
    }
    return args;
}

// The value over other dims; see reswept_args.
static Value *reswept_of_args(Rewrite *rewrite, const Resweep *sweep, const Value *value,
                              DimList dims, const DimMap *map) {
    Graph *graph = rewrite->to;
    Value **args = reswept_args(rewrite, sweep, value, map);
    if (!args)
        return NULL;
    if (value_is_reduction(value))
        return graph_reduce_like(graph, value, args, dims);
    if (value->op == OP_GATHER)
        return graph_gather(graph, args[0], args[1], value->dim);
    return graph_map(graph, value->op, value->elem, args, value->n_args);
}

// Does the value belong to the phase that a sweep over rows computes?
static bool is_of_sweep(const Resweep *sweep, const Value *value) {
    return sweep->kind == ROWS && sweep->pair->phase[value->id] == sweep->phase;
}

// Does the sweep read what its own phase or another one stored?
static bool is_read(const Resweep *sweep, const Value *value) {
    return sweep->pair->stored[value->id] && !is_of_sweep(sweep, value);
}

// Is it computed from its arguments over the new dims?
static bool is_computed(const Recompute *r, const Resweep *sweep, const Value *value) {
    const SweptPair *pair = sweep->pair;
    if (is_read(sweep, value))
        return false;
    bool given = (r->given[value->id] && op_kind(value->op) == KIND_MAP) ||
                 (is_bias(pair, value) && r->given[value->args[1]->id]);
    return !has_neither(pair, value) && can_be_reswept(pair, value) &&
           (pair->wide[value->id] || given || is_of_sweep(sweep, value));
}

// Would two dims have one name: that of y, and one that is called as y is called now?
static bool collides(const Resweep *sweep, const DimList *dims) {
    DimId y = sweep->pair->y;
    return sweep->as_y != y && dims_has(dims, y) && dims_has(dims, sweep->as_y);
}

static bool computed_collides(const Resweep *sweep, const Value *value) {
    DimList all;
    return !value_args_dims(value, &all) || collides(sweep, &all);
}

// Requires: done for the arguments of what is computed.
static Value *resweep_value(Rewrite *rewrite, const Resweep *sweep, const Value *value) {
    const Recompute *r = rewrite->data;
    const SweptPair *pair = sweep->pair;
    if (value->op == OP_INDEX)
        return graph_index(rewrite->to, dimmap_get(&sweep->map, value->dim));
    if (is_computed(r, sweep, value)) {
        if (computed_collides(sweep, value))
            return NULL;
        DimList dims = dims_renamed(&value->dims, &sweep->map);
        return reswept_of_args(rewrite, sweep, value, dims, &sweep->map);
    }
    bool known =
        is_read(sweep, value) || (!pair->wide[value->id] && !is_of_sweep(sweep, value) &&
                                  (fuse_is_of_input(value) || !over_both(&value->dims, pair)));
    return !collides(sweep, &value->dims) && (known || has_neither(pair, value))
               ? graph_rename_all(rewrite->to, rewrite->now[value->id], &sweep->map)
               : NULL;
}

static Made *note(Rewrite *rewrite, const Resweep *sweep, const Value *value, ValueList *open) {
    uint64_t key = (uint64_t)value->id + 1;
    Made *made = map_get(sweep->made, key);
    if (made)
        return made;
    made = arena_new_of(rewrite->arena, Made);
    map_put(sweep->made, key, made);
    vec_push(rewrite->arena, open, (Value *)value);
    return made;
}

// The value, wide or not, over the other dims; NULL: it cannot be.
static Value *reswept(Rewrite *rewrite, const Resweep *sweep, const Value *value) {
    ValueList open = {0};
    const Made *made = note(rewrite, sweep, value, &open);
    PairNames own = {sweep->pair->x, sweep->pair->y};
    for (uint32_t i = 0; i < open.count; i++)
        for (uint32_t k = 0; k < open.at[i]->n_args; k++)
            if (is_computed(rewrite->data, sweep, open.at[i]))
                note(rewrite, sweep, read_by(sweep, open.at[i]->args[k], own), &open);
    fuse_sort_values(&open);
    bool outer = rewrite->to->made_for.twice;
    rewrite->to->made_for.twice = true;
    for (uint32_t i = 0; i < open.count; i++)
        note(rewrite, sweep, open.at[i], NULL)->value = resweep_value(rewrite, sweep, open.at[i]);
    rewrite->to->made_for.twice = outer;
    return made->value;
}

static const Resweep *resweep_for(Rewrite *rewrite, const SweptPair *pair, Sweep kind, DimId as_y,
                                  uint32_t phase) {
    Recompute *r = rewrite->data;
    for (uint32_t i = 0; i < r->resweeps.count; i++) {
        const Resweep *made = r->resweeps.at[i];
        if (made->pair == pair && made->kind == kind && made->as_y == as_y && made->phase == phase)
            return made;
    }
    Resweep made = {.pair = pair, .kind = kind, .phase = phase, .as_y = as_y};
    made.as_x = new_dim(rewrite->to, pair->x);
    made.map = (DimMap){2, {pair->x, pair->y}, {made.as_x, as_y}};
    made.made = map_new(rewrite->arena);
    vec_push(rewrite->arena, &r->resweeps, arena_copy(rewrite->arena, &made, sizeof made));
    return r->resweeps.at[r->resweeps.count - 1];
}

static bool reads_result(const Recompute *r, const SweptPair *pair, const Value *value) {
    for (uint32_t k = 0; k < value->n_args; k++) {
        WideRead read = sweeps_read(pair, value->args[k]);
        if (read.value && r->result[read.value->id])
            return true;
    }
    return false;
}

// ---- what is made of wide values ---------------------------------------------------------------

// A sum over what is called read.x in it, of wide values and of what has that dim besides.
static Value *reswept_sum(Rewrite *rewrite, const SweptPair *pair, const Value *value,
                          WideRead read) {
    const Resweep *sweep = resweep_for(rewrite, pair, SUMS, read.y, pair->phase[value->id]);
    DimMap own = {1, {read.x}, {sweep->as_x}};
    return reswept_of_args(rewrite, sweep, value, value->dims, &own);
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

// The sum of these over x, in parts of it, each for the dims of tasks that are kept.
static Value *sum_in_parts(Rewrite *rewrite, const Value *value, Value **wide, DimId x,
                           const DimList *kept, int64_t count) {
    Graph *graph = rewrite->to;
    DimId parts = parts_dim(rewrite, count);
    DimList dims = dims_union(&value->dims, kept);
    Value *sum = value->op == OP_CONTRACT
                     ? graph_einsum_parts(graph, wide, dims, x, parts)
                     : graph_reduce_parts(graph, OP_SUM, wide[0], dims, x, parts);
    sum = graph_reduce(graph, OP_SUM, sum, value->dims);
    if (value->op == OP_CONTRACT && value->number != 1)
        sum = graph_map2(graph, OP_MUL, sum, graph_const(graph, value->number, sum->elem));
    return sum;
}

// In turn. A factor goes to what a task computes: the sum is large.
static Value *sum_in_turn(Rewrite *rewrite, const SweptPair *pair, const Value *value, Value **wide,
                          DimId x) {
    Graph *graph = rewrite->to;
    if (value->op != OP_CONTRACT)
        return graph_sum_in_turn(graph, wide[0], value->dims, x);
    int computed = sweeps_read(pair, value->args[0]).value ? 0 : 1;
    if (value->number != 1)
        wide[computed] = graph_map2(graph, OP_MUL, wide[computed],
                                    graph_const(graph, value->number, wide[computed]->elem));
    return graph_einsum_in_turn(graph, wide, value->dims, x);
}

// A sum over x in the sweep that computes its rows. NULL: it cannot be.
static Value *sum_over_rows(Rewrite *rewrite, const SweptPair *pair, const Value *value,
                            Value **args, WideRead read) {
    Graph *graph = rewrite->to;
    uint32_t phase = pair->phase[value->id];
    const Resweep *sweep = phase ? resweep_for(rewrite, pair, ROWS, pair->y, phase) : NULL;
    Value **rows = sweep ? reswept_args(rewrite, sweep, value, &sweep->map) : args;
    if (!rows)
        return NULL;
    Value **wide = arena_array(rewrite->arena, Value *, value->n_args);
    for (uint32_t k = 0; k < value->n_args; k++)
        wide[k] = graph_cast(graph, rows[k], elem_work(value->elem));
    DimId x = sweep ? sweep->as_x : pair->x;
    int64_t parts = sweeps_parts(pair, value, read);
    Value *sum = parts ? sum_in_parts(rewrite, value, wide, x, &pair->kept[value->id], parts)
                       : sum_in_turn(rewrite, pair, value, wide, x);
    return graph_cast(graph, sum, value->elem);
}

// The dims of what a sum over both dims is made of for each row: x and what all of the wide values
// that it reads have besides y, as tasks do.
static DimList dims_of_rows(const SweptPair *pair, const Value *value) {
    DimList rows = {0}, y = {1, {pair->y}};
    bool first = true;
    for (uint32_t k = 0; k < value->n_args; k++)
        if (sweeps_read(pair, value->args[k]).value) {
            const DimList *dims = &value->args[k]->dims;
            rows = first ? *dims : dims_intersect(&rows, dims);
            first = false;
        }
    rows = dims_minus(&rows, &y);
    rows = dims_minus(&rows, &value->dims);
    return rows;
}

// A sum over both dims, row by row first.
static Value *sum_for_each_row(Rewrite *rewrite, const SweptPair *pair, const Value *value,
                               Value **args) {
    Graph *graph = rewrite->to;
    uint32_t phase = pair->phase[value->id];
    const Resweep *sweep = phase ? resweep_for(rewrite, pair, ROWS, pair->y, phase) : NULL;
    DimList rows = dims_of_rows(pair, value);
    if (value->dims.count + rows.count > DIMS_MAX)
        return NULL;
    if (sweep)
        rows = dims_renamed(&rows, &sweep->map);
    DimList kept = dims_union(&value->dims, &rows);
    Value *sums = sweep ? reswept_of_args(rewrite, sweep, value, kept, &sweep->map)
                        : graph_reduce_like(graph, value, args, kept);
    return sums ? graph_reduce(graph, OP_SUM, sums, value->dims) : NULL;
}

// What a later phase has of each row: computed over the dim of its sweep, and called x again.
static Value *reswept_row(Rewrite *rewrite, const SweptPair *pair, const Value *value) {
    if (!pair->phase[value->id])
        return NULL;
    const Resweep *sweep = resweep_for(rewrite, pair, ROWS, pair->y, pair->phase[value->id]);
    DimMap back = {1, {sweep->as_x}, {pair->x}};
    Value *rows = reswept(rewrite, sweep, value);
    return rows ? graph_rename_all(rewrite->to, rows, &back) : NULL;
}

// NULL: as it is.
static Value *value_of_sweeps(Rewrite *rewrite, const SweptPair *pair, const Value *value,
                              Value **args) {
    WideRead read = sweeps_reads_twice(pair, value);
    if (!read.value || !value_is_reduction(value) || reads_result(rewrite->data, pair, value))
        return NULL;
    bool own_names = read.x == pair->x && read.y == pair->y;
    if (dims_has(&value->dims, read.x))
        return own_names && !dims_has(&value->dims, read.y) ? reswept_row(rewrite, pair, value)
                                                            : NULL;
    if (!sweeps_is_sum(value))
        return NULL;
    if (sweeps_parts(pair, value, read) || sweeps_in_turn(pair, value, read))
        return sum_over_rows(rewrite, pair, value, args, read);
    if (dims_has(&value->dims, read.y))
        return reswept_sum(rewrite, pair, value, read);
    return own_names ? sum_for_each_row(rewrite, pair, value, args) : NULL;
}

static Value *recompute_value(Rewrite *rewrite, const Value *value, Value **args) {
    Recompute *r = rewrite->data;
    for (uint32_t i = 0; i < r->pairs.count; i++) {
        const SweptPair *pair = &r->pairs.at[i];
        Value *out = pair->stored[value->id] ? reswept_row(rewrite, pair, value)
                                             : value_of_sweeps(rewrite, pair, value, args);
        if (out)
            return out;
        rewrite->to->made_for.twice |= pair->wide[value->id] && pair->twice[pair->set[value->id]];
    }
    return rewrite_keep(rewrite, value, args);
}

Graph *graph_recompute(const Graph *graph, const int64_t *extents, const Machine *machine,
                       double wide_price, bool saves) {
    Arena *arena = arena_new();
    Recompute r = {.given = fuse_find_given(graph, arena),
                   .result = arena_array(arena, bool, graph->values.count + 1)};
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        r.result[graph->outputs.at[i].value->id] = true;
    r.pairs = sweeps_find(graph, extents, machine, saves, arena);
    sweeps_choose_stored(&r.pairs, graph, extents, machine, wide_price, arena);
    if (!r.pairs.count) {
        arena_free(arena);
        return NULL;
    }
    return rewrite_graph("recompute", graph, graph->arena, arena, recompute_value, &r);
}
