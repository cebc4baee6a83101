// SPDX-License-Identifier: Apache-2.0
// Pairs of dims that wide values may be worked off by: rows (x) against what is streamed (y), as
// queries against memory, or tokens against a vocabulary.
#include "graph/fuse/fuse.h"

#include <math.h>
#include <stdlib.h>

// A dim whose extent nobody tells may be much shorter than what it is planned for; chosen.
static const double MAY_BE_SHORTER = 16;

static double volume_of_pair(const Fuser *fuser, DimId x, DimId y) {
    double volume = 0;
    for (uint32_t i = 0; i < fuser->graph->values.count; i++) {
        const Value *value = fuser->graph->values.at[i];
        if (fuser->live[i] && !fuse_is_free(value) && dims_has(&value->dims, x) &&
            dims_has(&value->dims, y))
            volume += (double)dims_volume(&value->dims, fuser->extents);
    }
    return volume;
}

static bool is_of_positions(const Fuser *fuser, DimId dim) {
    return !fuser->learned[dim] || fuser->table[dim];
}

// The first dim that comes from the operand of a contraction that x comes from, and not from the
// other one.
static DimId side_of(const Value *value, DimId x) {
    bool second = !dims_has(&value->args[0]->dims, x);
    DimId first = x;
    for (uint32_t i = 0; i < value->dims.count; i++) {
        DimId dim = value->dims.at[i];
        if (dim < first && dims_has(&value->args[second]->dims, dim) &&
            !dims_has(&value->args[!second]->dims, dim))
            first = dim;
    }
    return first;
}

// Positions of x that can be relied on.
static double rows_of(const Fuser *fuser, DimId x) {
    const Dim *dim = &fuser->graph->dims.at[x];
    bool told = dim->extent != EXTENT_DYNAMIC || dim->planned;
    return (double)fuser->extents[x] / (told ? 1 : MAY_BE_SHORTER);
}

static void add_pair(const Fuser *fuser, FusePairs *pairs, const Value *value, DimId x, DimId y) {
    double made = (double)dims_volume(&value->dims, fuser->extents);
    for (uint32_t i = 0; i < pairs->count; i++)
        if (pairs->at[i].x == x && pairs->at[i].y == y) {
            pairs->at[i].made = fmax(made, pairs->at[i].made);
            return;
        }
    FusePair pair = {.x = x,
                     .y = y,
                     .positions = is_of_positions(fuser, x) && is_of_positions(fuser, y),
                     .made = made,
                     .volume = volume_of_pair(fuser, x, y),
                     .side = side_of(value, x),
                     .rows = rows_of(fuser, x)};
    vec_push(fuser->arena, pairs, pair);
}

bool fuse_makes_pair(const Value *value, DimId x, DimId y) {
    if (value->op != OP_CONTRACT || value->n_args != 2 || !dims_has(&value->dims, x) ||
        !dims_has(&value->dims, y))
        return false;
    const DimList *a = &value->args[0]->dims, *b = &value->args[1]->dims;
    bool one_way = dims_has(a, x) && !dims_has(b, x) && dims_has(b, y) && !dims_has(a, y);
    bool other_way = dims_has(b, x) && !dims_has(a, x) && dims_has(a, y) && !dims_has(b, y);
    return one_way || other_way;
}

// What is multiplied by parameters, and the gradients of these, are done better by kernels of their
// own, unless they are a table. A dim of parameters may still be one that an argument made of data
// has (the memory of keys that a parameter shortens, too). given: see given_dims.
static bool is_streamable(const Fuser *fuser, const bool *given, const Value *value, DimId dim) {
    return !fuser->learned[dim] || fuser->table[dim] ||
           (given[dim] && fuser->data[value->args[0]->id] && fuser->data[value->args[1]->id]);
}

// By DimId: does an argument of data have the dim?
static bool *given_dims(const Fuser *fuser) {
    const Graph *graph = fuser->graph;
    bool *given = arena_array(fuser->arena, bool, graph->dims.count + 1);
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *input = graph->inputs.at[i];
        for (uint32_t d = 0; d < input->dims.count && input->role == ROLE_DATA; d++)
            given[input->dims.at[d]] = true;
    }
    return given;
}

static void collect_pairs(const Fuser *fuser, const bool *given, const Value *value,
                          FusePairs *pairs) {
    for (uint32_t i = 0; i < value->dims.count; i++)
        for (uint32_t k = 0; k < value->dims.count; k++)
            if (fuser->extents[value->dims.at[i]] >= FUSE_FEW_ROWS &&
                fuse_makes_pair(value, value->dims.at[i], value->dims.at[k]) &&
                is_streamable(fuser, given, value, value->dims.at[i]) &&
                is_streamable(fuser, given, value, value->dims.at[k]))
                add_pair(fuser, pairs, value, value->dims.at[i], value->dims.at[k]);
}

// First positions against positions (queries against memory, and not heads against memory). Of dims
// that the same operand has, as a batch of sequences against a vocabulary, the longest is the rows,
// and of equal ones the inner one.
static int better_first(const void *a, const void *b) {
    const FusePair *p = a, *q = b;
    if (p->positions != q->positions)
        return p->positions ? -1 : 1;
    if (p->made != q->made)
        return p->made < q->made ? 1 : -1;
    if (p->volume != q->volume)
        return p->volume < q->volume ? 1 : -1;
    if (p->side != q->side)
        return p->side - q->side;
    if (p->rows != q->rows)
        return p->rows < q->rows ? 1 : -1;
    return p->x != q->x ? q->x - p->x : p->y - q->y;
}

void fuse_note_dims(Fuser *fuser) {
    fuser->live = graph_live(fuser->graph, fuser->arena);
    fuser->learned = fuse_learned_dims(fuser->graph, fuser->arena);
    fuser->table = fuse_table_dims(fuser->graph, fuser->extents, fuser->arena);
    fuser->data = fuse_depends_on(fuser->graph, ROLE_DATA, fuser->arena);
}

FusePairs fuse_find_pairs(const Fuser *fuser) {
    const Graph *graph = fuser->graph;
    FusePairs pairs = {0};
    const bool *given = given_dims(fuser);
    for (uint32_t i = 0; i < graph->values.count; i++)
        if (fuser->live[i] && graph->values.at[i]->op == OP_CONTRACT)
            collect_pairs(fuser, given, graph->values.at[i], &pairs);
    if (pairs.count)
        qsort(pairs.at, pairs.count, sizeof *pairs.at, better_first);
    return pairs;
}

// ---- wide values of a pair ---------------------------------------------------------------------

PairSearch fuse_search_pairs(const Graph *graph, const int64_t *extents, Arena *arena) {
    PairSearch search = {.fuser = {.arena = arena, .graph = (Graph *)graph, .extents = extents}};
    fuse_note_dims(&search.fuser);
    search.pairs = fuse_find_pairs(&search.fuser);
    search.by = arena_array(arena, const FusePair *, graph->values.count + 1);
    return search;
}

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

bool *fuse_claim_wide(PairSearch *search, const FusePair *pair) {
    const Graph *graph = search->fuser.graph;
    bool *wide = find_wide(graph, pair, search->fuser.live, search->fuser.arena);
    for (uint32_t i = 0; i < graph->values.count; i++)
        if (wide[i] && search->by[i] && !same_dims(search->by[i], pair))
            return NULL;
    for (uint32_t i = 0; i < graph->values.count; i++)
        if (wide[i])
            search->by[i] = pair;
    return wide;
}
