// SPDX-License-Identifier: Apache-2.0
// A contraction of what another one contracts, too, is a sum of that one, if it keeps more dims:
//
//     before  dR[n, h, g] = einsum(A[n, m, h], B[n, m, g]),  dP[h, g] = einsum(A, B)
//     after   dR[n, h, g] = einsum(A, B),                    dP[h, g] = sum over n of dR
//
// Gradients of what is a constant plus something for each position are so (dynamic projections).
//
// Requires: graph_contract. Ensures: the same values, in sums of another order.
#include "graph/rewrite/rewrite.h"

typedef struct {
    Map *same;              // by hash of the arguments: the last contraction that has it
    const Value **previous; // by value id: another contraction of that hash
    const int64_t *extents;
    const Machine *machine;
} Totals;

static uint64_t args_hash(const Value *value) {
    uint32_t a = value->args[0]->id, b = value->args[1]->id;
    return hash_u64(a < b ? a : b, a < b ? b : a);
}

static bool contracts_same(const Value *a, const Value *b) {
    bool straight = a->args[0] == b->args[0] && a->args[1] == b->args[1];
    bool crossed = a->args[0] == b->args[1] && a->args[1] == b->args[0];
    return (straight || crossed) && a->number == b->number && a->elem == b->elem;
}

static bool is_pair(const Value *value) {
    return value->op == OP_CONTRACT && value->n_args == 2 && !value_in_parts(value) &&
           elem_is_float(value->elem) && value->elem == elem_work(value->elem);
}

static void note_contractions(Totals *totals, const Graph *graph, Arena *arena) {
    const bool *live = graph_live(graph, arena);
    totals->same = map_new(arena);
    totals->previous = arena_array(arena, const Value *, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        if (!live[i] || !is_pair(value))
            continue;
        uint64_t hash = args_hash(value);
        totals->previous[i] = map_get(totals->same, hash);
        map_put(totals->same, hash, (void *)value);
    }
}

// Multiply-adds in the time that it takes to read an element of the last cache, to sum it up.
static double cost_of_element(const Machine *machine, Elem elem) {
    return (double)elem_bytes(elem) / machine->l3_bytes_per_second * machine->flops_per_second / 2;
}

// The smallest contraction that the value is a sum of; NULL: there is none that is worth it.
static const Value *find_parts(const Totals *totals, const Value *value) {
    DimList space;
    if (!is_pair(value) || !value_args_dims(value, &space))
        return NULL;
    const Value *best = NULL;
    double least = (double)dims_volume(&space, totals->extents) /
                   cost_of_element(totals->machine, value->elem);
    const Value *other = map_get(totals->same, args_hash(value));
    for (; other; other = totals->previous[other->id]) {
        double volume = (double)dims_volume(&other->dims, totals->extents);
        bool sums =
            dims_subset(&value->dims, &other->dims) && other->dims.count > value->dims.count;
        if (!sums || !contracts_same(value, other) || volume >= least)
            continue;
        least = volume;
        best = other;
    }
    return best;
}

static Value *total(Rewrite *rewrite, const Value *value, Value **args) {
    const Value *parts = find_parts(rewrite->data, value);
    if (!parts)
        return rewrite_keep(rewrite, value, args);
    Value *now[] = {rewrite->now[parts->args[0]->id], rewrite->now[parts->args[1]->id]};
    // Of what the parts are a sum themselves: they are made of that where they are met.
    return graph_reduce(rewrite->to, OP_SUM, total(rewrite, parts, now), value->dims);
}

Graph *graph_totals(const Graph *graph, const int64_t *extents, const Machine *machine) {
    Arena *arena = arena_new();
    Totals totals = {.extents = extents, .machine = machine};
    note_contractions(&totals, graph, arena);
    bool any = false;
    for (uint32_t i = 0; i < graph->values.count && !any; i++)
        any = find_parts(&totals, graph->values.at[i]) != NULL;
    if (!any) {
        arena_free(arena);
        return NULL;
    }
    return rewrite_graph("totals", graph, graph->arena, arena, total, &totals);
}
