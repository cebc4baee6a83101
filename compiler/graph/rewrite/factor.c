// SPDX-License-Identifier: Apache-2.0
// Common operands of einsums that are added up.
//
//     before  L[n, m, h] = einsum(J[n, m, h_k], P_l[h_k, h])          # static
//                        + einsum(J[n, m, h_k], R_n[n, h_k, h])       # dynamic, from the queries
//                        + einsum(J[n, m, h_k], R_m[m, h_k, h])       # dynamic, from the memory
//     after   L[n, m, h] = einsum(J[n, m, h_k], P_l[h_k, h] + R_n[n, h_k, h])
//                        + einsum(J[n, m, h_k], R_m[m, h_k, h])
//
// Terms are joined while that makes the sum cheaper, best pair of blocks first; the cost counts the
// contractions in their best order, the additions of the rests with their bytes, and one sweep over
// the result for every further term. Above, R_m stays alone, since P_l + R_n + R_m would have the
// dims n, m, h_k and h. Where several operands are common to all terms (the multi-way form of the
// same layer) they are first contracted to one shared value, if that is cheaper.
//
// Requires: simplify_flatten. Ensures: nothing; what is not cheaper stays.
#include "graph/rewrite/order.h"
#include "graph/rewrite/simplify.h"

#include <math.h>

enum { TERMS_MAX = 12 };

// One einsum of the sum, or several that share operands: factor * einsum(operands, rest).
typedef struct {
    double factor;
    ValueList operands;
    uint32_t group; // index of the block it is in
} SumTerm;

typedef struct {
    Rewrite *rewrite;
    const SimplifyFacts *facts;
    const Value *root;
    VEC(SumTerm) terms;     // einsums
    ValueList plain, minus; // what else is added and subtracted
} Sum;

// ---- taking a sum apart ------------------------------------------------------------------------

static bool is_sum_node(const Value *value) {
    return value->op == OP_ADD || value->op == OP_SUB;
}

static bool is_inner(const Rewrite *rewrite, const Value *value, const Value *root) {
    return rewrite->uses[value->id] == 1 && dims_equal(&value->dims, &root->dims);
}

// A part of the sum that is still to be taken apart.
typedef struct {
    const Value *value;
    double sign;
} Addend;

static void sum_take_term(Sum *sum, const Value *value, double sign) {
    Rewrite *rewrite = sum->rewrite;
    SumTerm term = {.factor = sign * value->number, .group = sum->terms.count};
    for (uint32_t i = 0; i < value->n_args; i++)
        vec_push(rewrite->arena, &term.operands, rewrite->now[value->args[i]->id]);
    vec_push(rewrite->arena, &sum->terms, term);
}

// From left to right, however deep the sum is nested.
static void sum_collect(Sum *sum) {
    Rewrite *rewrite = sum->rewrite;
    VEC(Addend) left = {0};
    vec_push(rewrite->arena, &left, (Addend){sum->root, 1});
    while (left.count) {
        const Value *value = left.at[left.count - 1].value;
        double sign = left.at[--left.count].sign;
        bool inner = value == sum->root || is_inner(rewrite, value, sum->root);
        if (inner && is_sum_node(value)) {
            double second = value->op == OP_SUB ? -sign : sign;
            vec_push(rewrite->arena, &left, (Addend){value->args[1], second});
            vec_push(rewrite->arena, &left, (Addend){value->args[0], sign});
        } else if (inner && value->op == OP_CONTRACT) {
            sum_take_term(sum, value, sign);
        } else if (sign > 0) {
            vec_push(rewrite->arena, &sum->plain, rewrite->now[value->id]);
        } else {
            vec_push(rewrite->arena, &sum->minus, rewrite->now[value->id]);
        }
    }
}

// ---- operand lists as multisets ----------------------------------------------------------------

static uint32_t list_find(const ValueList *list, const Value *value) {
    for (uint32_t i = 0; i < list->count; i++)
        if (list->at[i] == value)
            return i;
    return list->count;
}

static ValueList list_minus(Arena *arena, const ValueList *a, const ValueList *b) {
    ValueList out = {0}, left = {0};
    for (uint32_t i = 0; i < b->count; i++)
        vec_push(arena, &left, b->at[i]);
    for (uint32_t i = 0; i < a->count; i++) {
        uint32_t k = list_find(&left, a->at[i]);
        if (k < left.count)
            left.at[k] = left.at[--left.count];
        else
            vec_push(arena, &out, a->at[i]);
    }
    return out;
}

static ValueList list_common(Arena *arena, const ValueList *a, const ValueList *b) {
    ValueList rest = list_minus(arena, a, b);
    return list_minus(arena, a, &rest);
}

// false when there are more than fit a DimList.
static bool list_dims(const ValueList *list, DimList *dims) {
    for (uint32_t i = 0; i < list->count; i++)
        for (uint32_t k = 0; k < list->at[i]->dims.count; k++) {
            if (!dims_has(dims, list->at[i]->dims.at[k]) && dims->count == DIMS_MAX)
                return false;
            dims_add(dims, list->at[i]->dims.at[k]);
        }
    return true;
}

// ---- blocks of terms ---------------------------------------------------------------------------

// What the terms of a block have in common, and the dims that each rest keeps.
typedef struct {
    ValueList common;
    DimList needed; // by the common operands or the result
    uint32_t count;
    bool legal;
} Block;

static Block block_of(const Sum *sum, uint32_t group) {
    Arena *arena = sum->rewrite->arena;
    Block block = {.legal = true};
    for (uint32_t i = 0; i < sum->terms.count; i++)
        if (sum->terms.at[i].group == group) {
            const ValueList *operands = &sum->terms.at[i].operands;
            block.common = block.count++ ? list_common(arena, &block.common, operands) : *operands;
        }
    if (block.count < 2)
        return block;
    block.needed = sum->root->dims;
    block.legal = block.common.count > 0 && list_dims(&block.common, &block.needed);
    for (uint32_t i = 0; i < sum->terms.count; i++) {
        const ValueList *operands = &sum->terms.at[i].operands;
        block.legal &= sum->terms.at[i].group != group || operands->count > block.common.count;
    }
    return block;
}

static DimList rest_dims(const ValueList *rest, const DimList *needed) {
    DimList dims = {0};
    for (uint32_t i = 0; i < rest->count; i++) {
        DimList kept = dims_intersect(&rest->at[i]->dims, needed);
        dims = dims_union(&dims, &kept);
    }
    return dims;
}

static double order_seconds(const Sum *sum, const DimList *operands, uint32_t n,
                            const DimList *result) {
    Arena *arena = arena_new();
    double seconds =
        order_find(arena, operands, n, result, sum->facts->extents.at, sum->facts->machine)
            ->seconds;
    arena_free(arena);
    return seconds;
}

static double list_seconds(const Sum *sum, const ValueList *list, const DimList *result) {
    DimList dims[ORDER_MAX];
    if (list->count > ORDER_MAX)
        return INFINITY;
    for (uint32_t i = 0; i < list->count; i++)
        dims[i] = list->at[i]->dims;
    return order_seconds(sum, dims, list->count, result);
}

// Reading or writing values of these sizes, and one operation for each of `flops` elements.
static double sweep_seconds(const Sum *sum, double flops, double elements) {
    return machine_seconds(sum->facts->machine, 2 * flops, 4 * elements);
}

static double block_seconds(const Sum *sum, uint32_t group) {
    const int64_t *extents = sum->facts->extents.at;
    Arena *arena = sum->rewrite->arena;
    Block block = block_of(sum, group);
    DimList dims[ORDER_MAX], rests = {0};
    double seconds = 0, elements = 0;
    if (!block.legal || block.common.count >= ORDER_MAX)
        return INFINITY;
    for (uint32_t i = 0; i < sum->terms.count; i++) {
        const SumTerm *term = &sum->terms.at[i];
        if (term->group != group)
            continue;
        if (block.count == 1)
            return list_seconds(sum, &term->operands, &sum->root->dims);
        ValueList rest = list_minus(arena, &term->operands, &block.common);
        DimList kept = rest_dims(&rest, &block.needed);
        seconds += list_seconds(sum, &rest, &kept);
        elements += (double)dims_volume(&kept, extents);
        rests = dims_union(&rests, &kept);
    }
    double volume = (double)dims_volume(&rests, extents);
    seconds += sweep_seconds(sum, (block.count - 1) * volume, elements + volume);
    for (uint32_t i = 0; i < block.common.count; i++)
        dims[i] = block.common.at[i]->dims;
    dims[block.common.count] = rests;
    return seconds + order_seconds(sum, dims, block.common.count + 1, &sum->root->dims);
}

// Joining block b into block a: what it saves, the sweep over the result included.
static double join_gain(Sum *sum, uint32_t a, uint32_t b) {
    double volume = (double)dims_volume(&sum->root->dims, sum->facts->extents.at);
    double apart =
        block_seconds(sum, a) + block_seconds(sum, b) + sweep_seconds(sum, volume, 2 * volume);
    uint32_t groups[TERMS_MAX];
    for (uint32_t i = 0; i < sum->terms.count; i++) {
        groups[i] = sum->terms.at[i].group;
        if (groups[i] == b)
            sum->terms.at[i].group = a;
    }
    double joined = block_seconds(sum, a);
    for (uint32_t i = 0; i < sum->terms.count; i++)
        sum->terms.at[i].group = groups[i];
    return apart - joined;
}

static bool join_best_pair(Sum *sum) {
    double best = 0;
    uint32_t best_a = 0, best_b = 0;
    for (uint32_t a = 0; a < sum->terms.count; a++)
        for (uint32_t b = a + 1; b < sum->terms.count; b++) {
            if (sum->terms.at[a].group != a || sum->terms.at[b].group != b)
                continue; // a block is named by its first term
            double gain = join_gain(sum, a, b);
            if (gain > best * (1 + 1e-9)) {
                best = gain;
                best_a = a;
                best_b = b;
            }
        }
    for (uint32_t i = 0; best > 0 && i < sum->terms.count; i++)
        if (sum->terms.at[i].group == best_b)
            sum->terms.at[i].group = best_a;
    return best > 0;
}

static double sum_seconds(const Sum *sum) {
    double volume = (double)dims_volume(&sum->root->dims, sum->facts->extents.at), seconds = 0;
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < sum->terms.count; i++)
        if (sum->terms.at[i].group == i) {
            seconds += block_seconds(sum, i);
            blocks++;
        }
    return seconds + (blocks - 1) * sweep_seconds(sum, volume, 2 * volume);
}

// ---- what several terms share ------------------------------------------------------------------

// A copy of the sum in which the operands common to all terms are one value; false when there are
// not at least two of them.
static bool sum_share_common(const Sum *sum, Sum *shared, double *seconds) {
    Arena *arena = sum->rewrite->arena;
    ValueList common = sum->terms.at[0].operands;
    for (uint32_t i = 1; i < sum->terms.count; i++)
        common = list_common(arena, &common, &sum->terms.at[i].operands);
    if (common.count < 2)
        return false;
    DimList needed = sum->root->dims, dims = {0};
    for (uint32_t i = 0; i < sum->terms.count; i++) {
        ValueList rest = list_minus(arena, &sum->terms.at[i].operands, &common);
        if (rest.count == 0 || !list_dims(&rest, &needed))
            return false;
    }
    if (!list_dims(&common, &dims))
        return false;
    dims = dims_intersect(&dims, &needed);
    *seconds = list_seconds(sum, &common, &dims);
    Value *value = graph_einsum(sum->rewrite->to, 1, common.at, common.count, dims);
    *shared = *sum;
    shared->terms.at = NULL;
    shared->terms.count = shared->terms.room = 0;
    for (uint32_t i = 0; i < sum->terms.count; i++) {
        const SumTerm *old = &sum->terms.at[i];
        SumTerm term = {.factor = old->factor, .group = i};
        vec_push(arena, &term.operands, value);
        ValueList rest = list_minus(arena, &old->operands, &common);
        for (uint32_t k = 0; k < rest.count; k++)
            vec_push(arena, &term.operands, rest.at[k]);
        vec_push(arena, &shared->terms, term);
    }
    return true;
}

// ---- putting it together again -----------------------------------------------------------------

static Value *emit_add(Graph *graph, Value *sum, Value *term) {
    return sum ? graph_map2(graph, OP_ADD, sum, term) : term;
}

static Value *emit_block(const Sum *sum, uint32_t group) {
    Graph *graph = sum->rewrite->to;
    Arena *arena = sum->rewrite->arena;
    Block block = block_of(sum, group);
    const SumTerm *first = &sum->terms.at[group];
    Value *rests = NULL;
    if (block.count == 1)
        return graph_einsum(graph, first->factor, first->operands.at, first->operands.count,
                            sum->root->dims);
    for (uint32_t i = 0; i < sum->terms.count; i++) {
        const SumTerm *term = &sum->terms.at[i];
        if (term->group != group)
            continue;
        ValueList rest = list_minus(arena, &term->operands, &block.common);
        DimList kept = rest_dims(&rest, &block.needed);
        double factor = term->factor / first->factor;
        Value *value = graph_einsum(graph, factor, rest.at, rest.count, kept);
        rests = emit_add(graph, rests, value);
    }
    vec_push(arena, &block.common, rests);
    return graph_einsum(graph, first->factor, block.common.at, block.common.count, sum->root->dims);
}

static Value *emit_sum(const Sum *sum) {
    Graph *graph = sum->rewrite->to;
    Value *out = NULL;
    for (uint32_t i = 0; i < sum->terms.count; i++)
        if (sum->terms.at[i].group == i)
            out = emit_add(graph, out, emit_block(sum, i));
    for (uint32_t i = 0; i < sum->plain.count; i++)
        out = emit_add(graph, out, sum->plain.at[i]);
    for (uint32_t i = 0; i < sum->minus.count; i++)
        out = graph_map2(graph, OP_SUB, out, sum->minus.at[i]);
    return out;
}

static double sum_join_blocks(Sum *sum) {
    while (join_best_pair(sum))
        ;
    return sum_seconds(sum);
}

static bool terms_usable(const Sum *sum) {
    for (uint32_t i = 0; i < sum->terms.count; i++)
        if (sum->terms.at[i].factor == 0 || !isfinite(sum->terms.at[i].factor))
            return false;
    return sum->terms.count >= 2 && sum->terms.count <= TERMS_MAX;
}

Value *simplify_factor(Rewrite *rewrite, const Value *value, Value **args) {
    const Value *user = rewrite->user[value->id];
    bool top = is_sum_node(value) && elem_is_float(value->elem) &&
               !(user && is_sum_node(user) && is_inner(rewrite, value, user));
    Sum sum = {rewrite, simplify_facts(rewrite), .root = value}, shared;
    if (top)
        sum_collect(&sum);
    if (!top || !terms_usable(&sum))
        return rewrite_rebuild(rewrite, value, args);
    double before = sum_seconds(&sum), common;
    double best = sum_join_blocks(&sum);
    if (sum_share_common(&sum, &shared, &common) &&
        common + sum_join_blocks(&shared) < best * (1 - 1e-9))
        return emit_sum(&shared);
    return best < before * (1 - 1e-9) ? emit_sum(&sum) : rewrite_rebuild(rewrite, value, args);
}
