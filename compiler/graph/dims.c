// SPDX-License-Identifier: Apache-2.0
// Lists of dims, used as sets that remember an order; and how large dims are.
#include "graph/graph.h"

bool dims_has(const DimList *dims, DimId dim) {
    for (uint32_t i = 0; i < dims->count; i++)
        if (dims->at[i] == dim)
            return true;
    return false;
}

bool dims_subset(const DimList *part, const DimList *whole) {
    for (uint32_t i = 0; i < part->count; i++)
        if (!dims_has(whole, part->at[i]))
            return false;
    return true;
}

// A list has each dim once, so equal counts and inclusion are enough.
bool dims_equal(const DimList *a, const DimList *b) {
    return a->count == b->count && dims_subset(a, b);
}

bool dims_same_order(const DimList *a, const DimList *b) {
    bool same = a->count == b->count;
    for (uint32_t i = 0; i < a->count && same; i++)
        same = a->at[i] == b->at[i];
    return same;
}

void dims_add(DimList *dims, DimId dim) {
    if (dims_has(dims, dim))
        return;
    if (dims->count == DIMS_MAX)
        ice("a value with more than %d dims", DIMS_MAX);
    dims->at[dims->count++] = dim;
}

DimList dims_union(const DimList *a, const DimList *b) {
    DimList out = *a;
    for (uint32_t i = 0; i < b->count; i++)
        dims_add(&out, b->at[i]);
    return out;
}

DimList dims_minus(const DimList *a, const DimList *b) {
    DimList out = {0};
    for (uint32_t i = 0; i < a->count; i++)
        if (!dims_has(b, a->at[i]))
            out.at[out.count++] = a->at[i];
    return out;
}

DimList dims_intersect(const DimList *a, const DimList *b) {
    DimList out = {0};
    for (uint32_t i = 0; i < a->count; i++)
        if (dims_has(b, a->at[i]))
            out.at[out.count++] = a->at[i];
    return out;
}

bool dims_bits(DimTable *table, const DimList *dims, DimBits *bits) {
    *bits = 0;
    for (uint32_t i = 0; i < dims->count; i++) {
        uint32_t k = 0;
        while (k < table->count && table->at[k] != dims->at[i])
            k++;
        if (k == DIM_BITS)
            return false;
        table->at[k] = dims->at[i];
        table->count += k == table->count;
        *bits |= (DimBits)1 << k;
    }
    return true;
}

DimId dimmap_get(const DimMap *map, DimId dim) {
    for (uint32_t i = 0; i < map->count; i++)
        if (map->from[i] == dim)
            return map->to[i];
    return dim;
}

void dimmap_add(DimMap *map, DimId from, DimId to) {
    if (map->count == DIMS_MAX)
        ice("more than %d dims are renamed", DIMS_MAX);
    map->from[map->count] = from;
    map->to[map->count++] = to;
}

DimList dims_renamed(const DimList *dims, const DimMap *map) {
    DimList out = *dims;
    for (uint32_t i = 0; i < out.count; i++)
        out.at[i] = dimmap_get(map, out.at[i]);
    return out;
}

DimId value_moved_dim(const Value *value, uint32_t arg, DimId dim) {
    if (value->op == OP_RENAME)
        return dimmap_get(value->renames, dim);
    if (value->op == OP_SLICE && dim == value->dim)
        return value->dim2;
    if (value->op == OP_CONCAT && dim == value->cats[arg])
        return value->dim2;
    return dim;
}

const DimPair dim_pair_none = {DIM_NONE, DIM_NONE};

DimPair value_kept_pair(const Value *value, uint32_t arg, DimPair pair) {
    if (pair.x == DIM_NONE)
        return pair;
    DimPair moved = {value_moved_dim(value, arg, pair.x), value_moved_dim(value, arg, pair.y)};
    bool kept = dims_has(&value->dims, moved.x) && dims_has(&value->dims, moved.y);
    return kept ? moved : dim_pair_none;
}

int64_t dims_volume(const DimList *dims, const int64_t *extents) {
    int64_t volume = 1;
    for (uint32_t i = 0; i < dims->count; i++)
        volume = mul_capped(volume, extents[dims->at[i]]);
    return volume;
}
