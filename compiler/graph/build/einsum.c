// SPDX-License-Identifier: Apache-2.0
// einsum: its operands, and whether they can be multiplied two at a time within the dims of a
// value.
#include "graph/build/build.h"

#include <string.h>

// What stays of parts i and j when they are multiplied, or of one alone.
static DimBits kept_of(const DimBits *parts, uint32_t n, uint32_t i, uint32_t j, DimBits result) {
    DimBits needed = result;
    for (uint32_t k = 0; k < n; k++)
        needed |= k == i || k == j ? 0 : parts[k];
    return (parts[i] | parts[j]) & needed;
}

// Multiplies the two with the fewest dims together. false: all have more than a value may.
static bool join_narrowest(DimBits *parts, uint32_t n, DimBits result) {
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

// Sums what only one operand has, then multiplies two at a time.
static bool has_narrow_order(Arena *arena, const DimBits *operands, uint32_t n, DimBits result) {
    DimBits *parts = arena_array(arena, DimBits, n);
    for (uint32_t i = 0; i < n; i++)
        parts[i] = kept_of(operands, n, i, i, result);
    for (; n > 1; n--)
        if (!join_narrowest(parts, n, result))
            return false;
    return true;
}

static bool has_few_dims(Arena *arena, Value *const *args, uint32_t n, const DimList *result,
                         int *most) {
    DimTable table = {0};
    DimBits kept, *operands = arena_array(arena, DimBits, n);
    bool few = dims_bits(&table, result, &kept);
    for (uint32_t i = 0; i < n && few; i++)
        few = dims_bits(&table, &args[i]->dims, &operands[i]);
    *most = few ? DIMS_MAX : DIM_BITS;
    return few && has_narrow_order(arena, operands, n, kept);
}

static bool has_room(const Frame *frame, Value *const *args, uint32_t n, const DimList *result,
                     Span at) {
    int most;
    if (has_few_dims(frame->build->arena, args, n, result, &most))
        return true;
    Diag *diag = diag_error(
        frame->build->session->diags, at,
        most == DIMS_MAX ? "an einsum that multiplies two operands over more than %d dims, "
                           "counting those that it sums and those that calls are mapped over"
                         : "an einsum over more than %d dims, counting those that it sums and "
                           "those that calls are mapped over",
        most);
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
