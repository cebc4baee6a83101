// SPDX-License-Identifier: Apache-2.0
// Splits of dims and positions taken go from results of einsums to their operands, where they cost
// nothing: an input under other dims is the same memory.
//
//     before  T[n, e] = einsum(X[n, d], W[d, e])
//             S[n, c, h, k] = split(T, e -> c h k) + b[c, h, k]
//             Q[n, h, k] = S[n, 0, h, k];  K[n, h, k] = S[n, 1, h, k]
//     after   Q[n, h, k] = einsum(X[n, d], split(W, e -> c h k)[d, 0, h, k]) + b[0, h, k]
//             K[n, h, k] = einsum(X[n, d], split(W, e -> c h k)[d, 1, h, k]) + b[1, h, k]
//
//     before  Y[n, f] = einsum(merge(O[n, h, k], h k -> d), P[d, f])
//     after   Y[n, f] = einsum(O[n, h, k], split(P, d -> h k)[h, k, f])
//
// They pass what is pointwise as well, when nothing else reads it and all that they come to are
// inputs, einsums and other ways to read these: never into the middle of what one kernel computes.
// Positions are taken from the operands of an einsum when all of its readers take one, so that the
// parts are no more work than the whole, and each is work enough for a kernel.
//
// Requires: simplify_fold. Ensures: every value is what it was, sums in another order.
#include "graph/rewrite/simplify.h"

// What a matrix product has to have for a kernel of its own.
static const double PART_MULTIPLIES = 1e5;
enum { DEPTH_MAX = 64 }; // of pointwise values on the way

typedef struct {
    Op op; // SPLIT or TAKE
    DimId dim;
    const DimList *digits;
    int64_t position;
} Move;

static bool has_digit(const Move *move, const DimList *dims) {
    for (uint32_t i = 0; move->op == OP_SPLIT && i < move->digits->count; i++)
        if (dims_has(dims, move->digits->at[i]))
            return true;
    return false;
}

static DimList dims_moved(const Move *move, const DimList *dims) {
    DimList one = {1, {move->dim}}, rest = dims_minus(dims, &one);
    if (move->op == OP_TAKE || rest.count == dims->count)
        return rest;
    return dims_union(&rest, move->digits);
}

static bool digits_fit(const Move *move, const DimList *dims) {
    return move->op == OP_TAKE || dims->count - 1 + move->digits->count <= DIMS_MAX;
}

static Value *moved(Rewrite *rewrite, const Move *move, Value *value) {
    if (!dims_has(&value->dims, move->dim))
        return value;
    return move->op == OP_TAKE ? graph_take(rewrite->to, value, move->dim, move->position)
                               : graph_split(rewrite->to, value, move->dim, move->digits);
}

static Value *move_into(Rewrite *rewrite, const Move *move, const Value *value, uint32_t depth);

// ---- one step down -----------------------------------------------------------------------------

static Value *into_map(Rewrite *rewrite, const Move *move, const Value *value, uint32_t depth) {
    Value **args = arena_array(rewrite->arena, Value *, value->n_args);
    for (uint32_t i = 0; i < value->n_args; i++) {
        args[i] = move_into(rewrite, move, value->args[i], depth + 1);
        if (!args[i])
            return NULL;
    }
    return graph_map(rewrite->to, value->op, value->elem, args, value->n_args);
}

static Value *into_rename(Rewrite *rewrite, const Move *move, const Value *value, uint32_t depth) {
    DimMap others = {0};
    Move below = *move;
    for (uint32_t i = 0; i < value->renames->count; i++)
        if (value->renames->to[i] == move->dim)
            below.dim = value->renames->from[i];
        else
            dimmap_add(&others, value->renames->from[i], value->renames->to[i]);
    if (has_digit(move, &value->args[0]->dims))
        return NULL;
    Value *arg = move_into(rewrite, &below, value->args[0], depth + 1);
    return arg ? graph_rename_all(rewrite->to, arg, &others) : NULL;
}

static Value *into_take(Rewrite *rewrite, const Move *move, const Value *value, uint32_t depth) {
    if (has_digit(move, &value->args[0]->dims))
        return NULL;
    Value *arg = move_into(rewrite, move, value->args[0], depth + 1);
    return arg ? graph_take(rewrite->to, arg, value->dim, value->offset) : NULL;
}

// A part of a split that is there stays for the split to go on first.
static Value *into_regroup(Rewrite *rewrite, const Move *move, const Value *value, uint32_t depth) {
    const Value *arg = value->args[0];
    if (value->op == OP_MERGE && value->dim == move->dim) {
        bool undone = move->op == OP_SPLIT && dims_same_order(value->digits, move->digits);
        return undone ? rewrite->now[arg->id] : NULL;
    }
    if (value->op == OP_SPLIT && dims_has(value->digits, move->dim))
        return arg->op == OP_INPUT ? moved(rewrite, move, rewrite->now[value->id]) : NULL;
    if (has_digit(move, &arg->dims))
        return NULL;
    Value *below = move_into(rewrite, move, arg, depth + 1);
    if (!below)
        return NULL;
    return value->op == OP_SPLIT ? graph_split(rewrite->to, below, value->dim, value->digits)
                                 : graph_merge(rewrite->to, below, value->digits, value->dim);
}

// space: of an einsum.
static double part_multiplies(const Rewrite *rewrite, const Move *move, const DimList *space) {
    double product = 1;
    for (uint32_t i = 0; i < space->count; i++)
        if (space->at[i] != move->dim)
            product *= (double)simplify_facts(rewrite)->extents.at[space->at[i]];
    return product;
}

// Operands are in memory whatever they are, but for what is pointwise and may be computed on the
// way.
static Value *into_operand(Rewrite *rewrite, const Move *move, const Value *operand,
                           uint32_t depth) {
    Value *below = move_into(rewrite, move, operand, depth + 1);
    if (below || op_kind(operand->op) == KIND_MAP)
        return below;
    return moved(rewrite, move, rewrite->now[operand->id]);
}

// dims: of the result, where the einsum keeps the dim; of an einsum that sums it they are its own.
static Value *into_operands(Rewrite *rewrite, const Move *move, const Value *einsum, DimList dims,
                            uint32_t depth) {
    uint32_t more = move->op == OP_SPLIT ? move->digits->count - 1 : 0;
    DimList space;
    if (!value_args_dims(einsum, &space) || space.count + more > DIMS_MAX ||
        !dims_has(&space, move->dim) || has_digit(move, &space)) // a summed dim that is a part, too
        return NULL;
    Value **args = arena_array(rewrite->arena, Value *, einsum->n_args);
    for (uint32_t i = 0; i < einsum->n_args; i++) {
        args[i] = into_operand(rewrite, move, einsum->args[i], depth);
        if (!args[i])
            return NULL;
    }
    return graph_einsum(rewrite->to, einsum->number, args, einsum->n_args, dims);
}

static Value *into_einsum(Rewrite *rewrite, const Move *move, const Value *einsum, uint32_t depth) {
    DimList space;
    if (!value_args_dims(einsum, &space) ||
        (move->op == OP_TAKE && part_multiplies(rewrite, move, &space) < PART_MULTIPLIES))
        return NULL;
    return into_operands(rewrite, move, einsum, dims_moved(move, &einsum->dims), depth);
}

// The value with the move done at its arguments, where nothing else reads it; NULL: it would not be
// for nothing.
static Value *step_into(Rewrite *rewrite, const Move *move, const Value *value, uint32_t depth) {
    if (depth > DEPTH_MAX || !digits_fit(move, &value->dims))
        return NULL;
    if (value->op == OP_RENAME)
        return into_rename(rewrite, move, value, depth);
    if (value->op == OP_TAKE)
        return into_take(rewrite, move, value, depth);
    if (op_regroups(value->op))
        return into_regroup(rewrite, move, value, depth);
    if (value->op == OP_CONTRACT)
        return into_einsum(rewrite, move, value, depth);
    return op_kind(value->op) == KIND_MAP ? into_map(rewrite, move, value, depth) : NULL;
}

// A part of what had a name has it too.
static Value *named_like(Value *part, const Value *whole) {
    if (part && !part->hint && part->op != OP_INPUT) {
        part->hint = whole->hint;
        part->path = whole->path;
        part->origin = whole->origin;
    }
    return part;
}

static Value *move_into(Rewrite *rewrite, const Move *move, const Value *value, uint32_t depth) {
    Value *now = rewrite->now[value->id];
    if (!dims_has(&value->dims, move->dim))
        return now;
    if (value->op == OP_INPUT)
        return digits_fit(move, &value->dims) ? moved(rewrite, move, now) : NULL;
    bool reads = op_may_be_view(value->op); // as often as one likes
    if (!reads && rewrite->uses[value->id] != 1)
        return NULL;
    return named_like(step_into(rewrite, move, value, depth), value);
}

// ---- rules -------------------------------------------------------------------------------------

static Value *move_split(Rewrite *rewrite, const Value *value) {
    const Value *arg = value->args[0];
    Move move = {OP_SPLIT, value->dim, value->digits, 0};
    return arg->op == OP_INPUT ? NULL : move_into(rewrite, &move, arg, 0);
}

// Does every reader of the value take a position along the dim, another one each?
static bool is_taken_apart(const Rewrite *rewrite, const Value *value, DimId dim) {
    uint32_t uses = rewrite->uses[value->id];
    return rewrite->taken[value->id] == uses && rewrite->user[value->id]->dim == dim;
}

static Value *move_take(Rewrite *rewrite, const Value *value) {
    const Value *arg = value->args[0];
    Move move = {OP_TAKE, value->dim, NULL, value->offset};
    if (arg->op == OP_INPUT || op_may_be_view(arg->op) || !is_taken_apart(rewrite, arg, value->dim))
        return NULL;
    return named_like(step_into(rewrite, &move, arg, 0), arg);
}

// A merge over the dim that the value leads to, through pointwise values that it alone needs.
static const Value *merge_below(const Rewrite *rewrite, const Value *value, DimId dim,
                                uint32_t depth) {
    if (value->op == OP_MERGE && value->dim == dim)
        return value;
    if (op_kind(value->op) != KIND_MAP || rewrite->uses[value->id] != 1 || depth > DEPTH_MAX)
        return NULL;
    for (uint32_t i = 0; i < value->n_args; i++) {
        const Value *merge = merge_below(rewrite, value->args[i], dim, depth + 1);
        if (merge)
            return merge;
    }
    return NULL;
}

// What is summed over a dim that was merged is summed over its parts.
static Value *move_summed(Rewrite *rewrite, const Value *einsum) {
    for (uint32_t i = 0; i < einsum->n_args; i++) {
        DimList summed = dims_minus(&einsum->args[i]->dims, &einsum->dims);
        for (uint32_t d = 0; d < summed.count; d++) {
            const Value *merge = merge_below(rewrite, einsum->args[i], summed.at[d], 0);
            if (!merge)
                continue;
            Move move = {OP_SPLIT, summed.at[d], merge->digits, 0};
            Value *apart = into_operands(rewrite, &move, einsum, einsum->dims, 0);
            if (apart)
                return apart;
        }
    }
    return NULL;
}

Value *simplify_move(Rewrite *rewrite, const Value *value) {
    if (value->op == OP_SPLIT)
        return move_split(rewrite, value);
    if (value->op == OP_TAKE)
        return move_take(rewrite, value);
    return value->op == OP_CONTRACT ? move_summed(rewrite, value) : NULL;
}
