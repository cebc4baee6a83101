// SPDX-License-Identifier: Apache-2.0
// Contractions and reductions that are equal but for the names of their dims become one value,
// under other names where these are read.
//
//     before  A[m, e] = einsum(W[n, m], X[n, e])          n' and m' like n and m
//             B[m', e] = einsum(W[n as n', m as m'], X[n as n', e])
//     after   A[m, e] = einsum(W[n, m], X[n, e])
//             B[m', e] = A[m as m', e]
//
// The two arms of self-attention are so: what one text calls positions of queries and of memory.
// What is over pairs of alike positions is read under its own names, and what is made of it
// renamed:
//
//     before  C[n, e] = einsum(W[n as n', m as n], X[n', e])
//     after   C[n, e] = D[m as n, e], D[m, e] = einsum(W[n, m], X[n, e])
//
// Requires: graph_contract. Ensures: the same values.
#include "graph/rewrite/rewrite.h"

#include <string.h>

// What is to know of a value but the names of its dims: op, factor, what its arguments are called
// before they are renamed, the place of each of their dims, and which of them it keeps.
enum { KEY_MAX = 3 + 2 * (1 + DIMS_MAX) };
typedef struct {
    uint64_t words[KEY_MAX];
    uint32_t n_words;
    VEC(DimId) dims; // by place: what the value calls them
} Key;

typedef struct Known Known;
struct Known {
    Value *value;
    Key key;
    Known *next; // of the same hash
};

typedef struct {
    Map *known;    // by hash of the key
    bool *carried; // by value id: made of what a scan carries, and stays in its step
} Unify;

static bool *find_carried(const Graph *graph, Arena *arena) {
    bool *carried = arena_array(arena, bool, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        carried[i] = value->op == OP_CARRY;
        for (uint32_t k = 0; k < value->n_args; k++)
            carried[i] = carried[i] || carried[value->args[k]->id];
    }
    return carried;
}

static bool has_key(const Graph *graph, const Value *value) {
    if (!value_is_reduction(value) || value->n_args > 2)
        return false;
    for (uint32_t k = 0; k < value->n_args; k++)
        for (uint32_t i = 0; i < value->args[k]->dims.count; i++)
            if (graph->dims.at[value->args[k]->dims.at[i]].scan)
                return false;
    return true;
}

static uint64_t place_of(Arena *arena, Key *key, DimId dim) {
    for (uint32_t i = 0; i < key->dims.count; i++)
        if (key->dims.at[i] == dim)
            return i;
    vec_push(arena, &key->dims, dim);
    return key->dims.count - 1;
}

static void add_arg(Arena *arena, Key *key, const Value *arg) {
    const Value *source = value_unrenamed(arg);
    key->words[key->n_words++] = source->id;
    for (uint32_t i = 0; i < source->dims.count; i++) {
        DimId own = source->dims.at[i];
        DimId here = arg == source ? own : dimmap_get(arg->renames, own);
        key->words[key->n_words++] = place_of(arena, key, here);
    }
}

static Key key_of(const Value *value, Value **args, Arena *arena) {
    Key key = {.n_words = 2};
    bool swaps = value->n_args == 2 && value_unrenamed(args[0])->id > value_unrenamed(args[1])->id;
    key.words[0] = (uint64_t)value->op << 32 | value->elem;
    memcpy(&key.words[1], &value->number, sizeof value->number);
    for (uint32_t k = 0; k < value->n_args; k++)
        add_arg(arena, &key, args[swaps ? 1 - k : k]);
    uint64_t kept = 0;
    for (uint32_t i = 0; i < key.dims.count; i++)
        kept |= (uint64_t)dims_has(&value->dims, key.dims.at[i]) << i;
    key.words[key.n_words++] = kept;
    return key;
}

// Is the one the other when its dims are called otherwise?
static bool is_same(const Graph *graph, const Key *a, const Key *b) {
    if (a->n_words != b->n_words || a->dims.count != b->dims.count ||
        memcmp(a->words, b->words, a->n_words * sizeof a->words[0]) != 0)
        return false;
    for (uint32_t i = 0; i < a->dims.count; i++)
        if (!graph_dims_alike(graph, a->dims.at[i], b->dims.at[i]))
            return false;
    return true;
}

static Value *under_names(Graph *graph, Known *known, const Key *key) {
    DimMap map = {0};
    for (uint32_t i = 0; i < key->dims.count; i++) {
        DimId from = known->key.dims.at[i], to = key->dims.at[i];
        if (from != to && dims_has(&known->value->dims, from))
            dimmap_add(&map, from, to);
    }
    return map.count ? graph_rename_all(graph, known->value, &map) : known->value;
}

static bool has_alike_dims(const Graph *graph, const Value *value) {
    for (uint32_t i = 0; i < value->dims.count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (graph_dims_alike(graph, value->dims.at[i], value->dims.at[k]))
                return true;
    return false;
}

// Gives each dim its name in what the first argument over pairs is before it is renamed. false:
// there is none, or two dims would have one name.
static bool own_names(const Graph *graph, Value **args, uint32_t n_args, const Key *key,
                      DimMap *back) {
    const Value *pairs = NULL;
    for (uint32_t k = 0; k < n_args && !pairs; k++)
        if (args[k]->op == OP_RENAME && has_alike_dims(graph, args[k]))
            pairs = args[k];
    if (!pairs)
        return false;
    for (uint32_t i = 0; i < pairs->renames->count; i++)
        dimmap_add(back, pairs->renames->to[i], pairs->renames->from[i]);
    for (uint32_t i = 0; i < key->dims.count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (dimmap_get(back, key->dims.at[i]) == dimmap_get(back, key->dims.at[k]))
                return false;
    return true;
}

// The value, made under the names of what is over pairs.
static Value *compute(Rewrite *rewrite, const Value *value, Value **args, const Key *key) {
    Graph *graph = rewrite->to;
    DimMap back = {0}, again = {0};
    if (!own_names(graph, args, value->n_args, key, &back))
        return rewrite_keep(rewrite, value, args);
    Value *under[2];
    for (uint32_t k = 0; k < value->n_args; k++)
        under[k] = graph_rename_all(graph, args[k], &back);
    DimList dims = dims_renamed(&value->dims, &back);
    for (uint32_t i = 0; i < value->dims.count; i++)
        if (dims.at[i] != value->dims.at[i])
            dimmap_add(&again, dims.at[i], value->dims.at[i]);
    Value *sum = graph_reduce_like(graph, value, under, dims);
    return again.count ? graph_rename_all(graph, sum, &again) : sum;
}

static Value *unify_value(Rewrite *rewrite, const Value *value, Value **args) {
    Unify *unify = rewrite->data;
    if (unify->carried[value->id] || !has_key(rewrite->from, value))
        return rewrite_keep(rewrite, value, args);
    Key key = key_of(value, args, rewrite->arena);
    uint64_t hash = hash_bytes(0, key.words, key.n_words * sizeof key.words[0]);
    Known *first = map_get(unify->known, hash);
    for (Known *known = first; known; known = known->next)
        if (is_same(rewrite->to, &known->key, &key))
            return under_names(rewrite->to, known, &key);
    Known *known = arena_new_of(rewrite->arena, Known);
    *known = (Known){compute(rewrite, value, args, &key), key, first};
    map_put(unify->known, hash, known);
    return known->value;
}

Graph *graph_unify(const Graph *graph) {
    Arena *arena = arena_new();
    Unify unify = {map_new(arena), find_carried(graph, arena)};
    return rewrite_graph("unify", graph, graph->arena, arena, unify_value, &unify);
}
