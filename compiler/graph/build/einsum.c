// SPDX-License-Identifier: Apache-2.0
// einsum: its operands, and whether they can be multiplied two at a time within the dims of a
// value.
#include "graph/build/build.h"

#include <string.h>

// The dims of one einsum by bits.
typedef struct {
    DimId dims[64];
    uint32_t count;
    bool full;
} DimTable;

static uint64_t bits_of(DimTable *table, const DimList *dims) {
    uint64_t bits = 0;
    for (uint32_t i = 0; i < dims->count; i++) {
        uint32_t k = 0;
        while (k < table->count && table->dims[k] != dims->at[i])
            k++;
        if (k == sizeof table->dims / sizeof *table->dims) {
            table->full = true;
            return bits;
        }
        table->dims[k] = dims->at[i];
        table->count += k == table->count;
        bits |= (uint64_t)1 << k;
    }
    return bits;
}

// What stays of parts i and j when they are multiplied: i == j: of one alone.
static uint64_t kept_of(const uint64_t *parts, uint32_t n, uint32_t i, uint32_t j,
                        uint64_t result) {
    uint64_t needed = result;
    for (uint32_t k = 0; k < n; k++)
        needed |= k == i || k == j ? 0 : parts[k];
    return (parts[i] | parts[j]) & needed;
}

// Multiplies the two with the fewest dims together. false: all have more than a value may.
static bool join_narrowest(uint64_t *parts, uint32_t n, uint64_t result) {
    uint32_t left = 0, right = 0;
    int least = DIMS_MAX + 1;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = i + 1; j < n; j++)
            if (__builtin_popcountll(parts[i] | parts[j]) < least) {
                least = __builtin_popcountll(parts[i] | parts[j]);
                left = i;
                right = j;
            }
    if (right == 0)
        return false;
    parts[left] = kept_of(parts, n, left, right, result);
    memmove(parts + right, parts + right + 1, (n - right - 1) * sizeof *parts);
    return true;
}

static bool has_narrow_order(Arena *arena, Value *const *args, uint32_t n, const DimList *result) {
    DimTable table = {0};
    uint64_t *all = arena_array(arena, uint64_t, n + 1),
             *parts = arena_array(arena, uint64_t, n + 1);
    uint64_t kept = bits_of(&table, result);
    for (uint32_t i = 0; i < n; i++)
        all[i] = bits_of(&table, &args[i]->dims);
    for (uint32_t i = 0; i < n; i++) // what only one has is summed first
        parts[i] = kept_of(all, n, i, i, kept);
    for (; n > 1 && !table.full; n--)
        if (!join_narrowest(parts, n, kept))
            return false;
    return !table.full;
}

static bool has_room(const Frame *frame, Value *const *args, uint32_t n, const DimList *result,
                     Span at) {
    if (has_narrow_order(frame->build->arena, args, n, result))
        return true;
    Diag *diag = diag_error(frame->build->session->diags, at,
                            "an einsum that multiplies two operands over more than %d dims, "
                            "counting those that it sums and those that calls are mapped over",
                            DIMS_MAX);
    diag_hint(diag, "merge dims that stay together, or take it in steps that have fewer each");
    frame_note_calls(frame, diag);
    return false;
}

Value *build_einsum(Frame *frame, const Expr *call, double factor) {
    uint32_t n = call->args.count;
    Value **args = arena_array(frame->build->arena, Value *, n);
    DimList dims = {0}, result = frame_dims(frame, &call->result, call->span);
    for (uint32_t i = 0; i < n; i++) {
        args[i] = build_expr_as(frame, call->args.at[i], call->elem);
        DimList mapped = dims_intersect(&frame->hidden, &args[i]->dims);
        dims = dims_union(&dims, &mapped);
    }
    dims = dims_union(&dims, &result);
    if (!has_room(frame, args, n, &dims, call->span))
        return graph_const(frame->build->graph, 0, call->elem);
    return graph_einsum(frame->build->graph, factor, args, n, dims);
}
