// SPDX-License-Identifier: Apache-2.0
// When two values are the same.
//
// The hash is of the meaning: dims enter by name and extent and as a set, arguments of a commuting
// op as a multiset (both by adding up their hashes), so that neither ids nor the order of creation
// matter. A hash only finds candidates; whether two values are the same is decided by comparing
// them.
#include <string.h>

#include "graph/cons.h"

// ---- hashing ------------------------------------------------------------------------------------

static uint64_t double_bits(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static uint64_t dim_hash(const Graph *graph, DimId dim) {
    if (dim == DIM_NONE)
        return 0;
    const Dim *d = &graph->dims.at[dim];
    if (d->scan) // what it is called depends on the order of creation
        return hash_text(d->reversed ? 5 : 2, graph->dims.at[d->like].name);
    return d->hash;
}

uint64_t graph_dims_hash(const Graph *graph, const DimList *dims, bool ordered) {
    uint64_t hash = dims->count;
    for (uint32_t i = 0; i < dims->count; i++) {
        uint64_t one = dim_hash(graph, dims->at[i]);
        hash = ordered ? hash_u64(hash, one) : hash + one;
    }
    return hash;
}

static uint64_t args_hash(const Graph *graph, const Value *value) {
    uint64_t hash = value->n_args;
    for (uint32_t i = 0; i < value->n_args; i++) {
        uint64_t one = value->args[i]->hash;
        if (value->op == OP_CONCAT)
            one = hash_u64(one, dim_hash(graph, value->cats[i]));
        hash = op_commutes(value->op) ? hash + one : hash_u64(hash, one);
    }
    return hash;
}

static uint64_t renames_hash(const Graph *graph, const Value *value) {
    uint64_t hash = 0;
    for (uint32_t i = 0; value->renames && i < value->renames->count; i++)
        hash += hash_u64(dim_hash(graph, value->renames->from[i]),
                         dim_hash(graph, value->renames->to[i]));
    return hash;
}

uint64_t graph_value_hash(const Graph *graph, const Value *value) {
    if (value->op == OP_COPY)
        return value->args[0]->hash;
    uint64_t words[] = {
        value->op,
        value->elem,
        graph_dims_hash(graph, &value->dims, value->op == OP_INPUT),
        args_hash(graph, value),
        double_bits(value->number),
        dim_hash(graph, value->dim),
        dim_hash(graph, value->dim2),
        renames_hash(graph, value),
        value->digits ? graph_dims_hash(graph, value->digits, true) : 0,
        value->op == OP_CARRY ? 0 : (uint64_t)value->offset,
        value->made_for.turn,
    };
    uint64_t hash = hash_bytes(3, words, sizeof words);
    if (value->op == OP_INPUT) {
        hash = hash_text(hash, value->written);
        hash = hash_u64(hash, value->role);
    }
    return hash;
}

// ---- equality -----------------------------------------------------------------------------------

static uint32_t args_count_of(const Value *value, const Value *arg) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < value->n_args; i++)
        count += value->args[i] == arg;
    return count;
}

static bool args_same(const Value *a, const Value *b) {
    if (a->n_args != b->n_args)
        return false;
    for (uint32_t i = 0; i < a->n_args; i++) {
        if (op_commutes(a->op)) {
            if (args_count_of(a, a->args[i]) != args_count_of(b, a->args[i]))
                return false;
        } else if (a->args[i] != b->args[i] || (a->op == OP_CONCAT && a->cats[i] != b->cats[i])) {
            return false;
        }
    }
    return true;
}

static bool renames_same(const DimMap *a, const DimMap *b) {
    if (!a || !b)
        return a == b;
    bool same = a->count == b->count;
    for (uint32_t i = 0; i < a->count && same; i++)
        same = dimmap_get(b, a->from[i]) == a->to[i];
    return same;
}

static bool digits_same(const DimList *a, const DimList *b) {
    if (!a || !b)
        return a == b;
    return dims_same_order(a, b);
}

bool graph_value_same(const Value *a, const Value *b) {
    if (a->op != b->op || a->elem != b->elem || !dims_equal(&a->dims, &b->dims))
        return false;
    if (double_bits(a->number) != double_bits(b->number) || a->dim != b->dim ||
        a->dim2 != b->dim2 || a->offset != b->offset || a->made_for.turn != b->made_for.turn ||
        !renames_same(a->renames, b->renames) || !digits_same(a->digits, b->digits))
        return false;
    if (a->op == OP_INPUT)
        return a->name == b->name && a->role == b->role && dims_same_order(&a->dims, &b->dims);
    return args_same(a, b);
}
