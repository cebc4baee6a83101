// SPDX-License-Identifier: Apache-2.0
// Scans as values: a recurrence along a dim.
//
//     S[d] = first                        C[t, d]   carry: S before each step
//     scan t in n:                        U[t, d]   update = C * G + X
//         S[d] = S * G[t, d] + X[t, d]    Y[n]      stack of sum(U) with t as n, (C, first, U)
//         Y[t] = sum(S[d], d)             L[d]      last (C, first, U)
//
// A body is no graph of its own: its values are over a dim t of the scan, which is like n, and
// everything that works position by position works along t as along any other dim. Only a CARRY
// makes its dependents wait for the step before: at the first step it is `first`, then the update
// of the step before. What depends on no carry of t is no part of the loop. Where t is reversed,
// the first step is at the last position.
#include "graph/cons.h"

// ---- which carries are needed -------------------------------------------------------------------

typedef struct {
    Arena *arena;
    DimId dim;
    Map *seen; // value id + 1
    ValueList open;
} Search;

static void search_push(Search *search, Value *value) {
    uint64_t key = (uint64_t)value->id + 1;
    if (!dims_has(&value->dims, search->dim) || map_get(search->seen, key))
        return;
    map_put(search->seen, key, value);
    vec_push(search->arena, &search->open, value);
}

static Value *search_pop(Search *search) {
    Value *value = search->open.at[--search->open.count];
    for (uint32_t i = 0; i < value->n_args; i++)
        search_push(search, value->args[i]);
    return value;
}

// Those that the values which the search begins with depend on, through updates as well, in their
// order. What a scan inside leaves behind is of the step that its loop is in: it needs all of them.
static ScanCarries needed_carries(Search *search, const ScanCarries *all) {
    bool *needed = arena_array(search->arena, bool, all->count + 1);
    while (search->open.count) {
        const Value *value = search_pop(search);
        for (uint32_t i = 0; op_kind(value->op) == KIND_SCAN && i < all->count; i++) {
            needed[i] = true;
            search_push(search, all->at[i].update);
        }
        for (uint32_t i = 0; i < all->count; i++)
            if (all->at[i].carry == value) {
                needed[i] = true;
                search_push(search, all->at[i].update);
            }
    }
    ScanCarries carries = {0};
    for (uint32_t i = 0; i < all->count; i++)
        if (needed[i])
            vec_push(search->arena, &carries, all->at[i]);
    return carries;
}

static void push_carry(Arena *arena, ValueList *args, const ScanCarry *carry) {
    vec_push(arena, args, carry->carry);
    vec_push(arena, args, carry->first);
    vec_push(arena, args, carry->update);
}

ValueList graph_stack_args(Graph *graph, Value *value, DimId dim, const ScanCarries *all) {
    Arena *arena = graph->arena;
    Search search = {.arena = arena, .dim = dim, .seen = map_new(arena)};
    search_push(&search, value);
    ScanCarries carries = needed_carries(&search, all);
    ValueList args = {0};
    vec_push(arena, &args, value);
    for (uint32_t i = 0; i < carries.count; i++)
        push_carry(arena, &args, &carries.at[i]);
    return args;
}

ValueList graph_last_args(Graph *graph, uint32_t which, DimId dim, const ScanCarries *all) {
    Arena *arena = graph->arena;
    Search search = {.arena = arena, .dim = dim, .seen = map_new(arena)};
    search_push(&search, all->at[which].carry);
    search_push(&search, all->at[which].update);
    ScanCarries carries = needed_carries(&search, all);
    ValueList args = {0};
    push_carry(arena, &args, &all->at[which]);
    for (uint32_t i = 0; i < carries.count; i++)
        if (carries.at[i].carry != all->at[which].carry)
            push_carry(arena, &args, &carries.at[i]);
    return args;
}

// ---- what is what -------------------------------------------------------------------------------

ScanCarry graph_scan_carry(const Value *end, uint32_t i) {
    Value **args = end->args + (end->op == OP_STACK) + (size_t)3 * i;
    return (ScanCarry){args[0], args[1], args[2]};
}

uint32_t graph_scan_carries(const Value *end) {
    return (end->n_args - (end->op == OP_STACK)) / 3;
}
