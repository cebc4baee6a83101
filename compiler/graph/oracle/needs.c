// SPDX-License-Identifier: Apache-2.0
// What an evaluation takes, found by going through it without the numbers.
#include <math.h>
#include <stdlib.h>

#include "graph/oracle/eval.h"

// Nanoseconds for a step of the innermost loop, on one core of 2023; of leaves and outputs, which
// are copied, with the room for them.
static const double STEP_EXACT = 1.2, STEP_F32 = 1.4, STEP_ROUNDED = 40, STEP_MAP = 12,
                    STEP_REDUCE = 5, STEP_ROW = 20, STEP_MOVE = 5, STEP_COPY = 10;

typedef struct {
    const int64_t *extents;
    EvalMode mode;
    double now, most; // bytes
    double nanoseconds;
} Count;

static double volume_of(const Axes *axes, const int64_t *extents) {
    double volume = 1;
    for (uint32_t i = 0; i < axes->count; i++)
        volume *= (double)extents[axes->at[i]];
    return volume;
}

static double volume_of_dims(const DimList *dims, const int64_t *extents) {
    Axes axes = axes_of(dims);
    return volume_of(&axes, extents);
}

static void hold(Count *count, double elements) {
    count->now += elements * sizeof(double);
    count->most = fmax(count->most, count->now);
}

static double contract_step(const Count *count, const Value *value) {
    if (!elem_is_float(value->elem) || value->n_args == 1)
        return STEP_ROUNDED;
    if (count->mode == EVAL_F64 || value->elem == ELEM_F64)
        return STEP_EXACT;
    return value->elem == ELEM_F32 ? STEP_F32 : STEP_ROUNDED;
}

// The result's room is held already; those of running products are let go again.
static void count_contract(Count *count, const Value *value) {
    uint32_t n = eval_n_pairs(value);
    Pair *pairs = eval_pairs(value, count->extents);
    double owned = 0;
    for (uint32_t i = 0; i < n; i++) {
        double next = i + 1 < n ? volume_of(&pairs[i].out, count->extents) : 0;
        double points = volume_of(&pairs[i].running, count->extents);
        for (uint32_t k = 0; k < pairs[i].axes.count; k++)
            if (!axes_has(&pairs[i].running, pairs[i].axes.at[k]))
                points *= (double)count->extents[pairs[i].axes.at[k]];
        count->nanoseconds += points * contract_step(count, value);
        hold(count, next);
        hold(count, -owned);
        owned = next;
    }
    free(pairs);
}

static double step_of(const Value *value) {
    switch (op_kind(value->op)) {
    case KIND_MAP:
        return STEP_MAP;
    case KIND_REDUCE:
        return STEP_REDUCE;
    case KIND_ROW:
        return STEP_ROW;
    case KIND_LEAF:
        return STEP_COPY;
    default:
        return STEP_MOVE;
    }
}

// Without the dims of scans, whose steps follow each other.
static double held_volume(const Graph *graph, const DimList *dims, const int64_t *extents) {
    Axes held = {0};
    for (uint32_t i = 0; i < dims->count; i++)
        if (!graph->dims.at[dims->at[i]].scan)
            held.at[held.count++] = dims->at[i];
    return volume_of(&held, extents);
}

static void count_value(Count *count, const Graph *graph, const Value *value) {
    double points = volume_of_dims(&value->dims, count->extents);
    hold(count, held_volume(graph, &value->dims, count->extents));
    if (value->op == OP_CONTRACT) {
        count_contract(count, value);
        return;
    }
    if (value->op == OP_ORDER)
        points *= (double)count->extents[value->dim];
    if (op_kind(value->op) == KIND_REDUCE)
        points = volume_of_dims(&value->args[0]->dims, count->extents);
    if (value->op == OP_SCATTER_ADD) {
        DimList all = dims_union(&value->args[0]->dims, &value->args[1]->dims);
        points = volume_of_dims(&all, count->extents);
    }
    count->nanoseconds += points * step_of(value);
}

EvalNeeds graph_eval_needs(const Graph *graph, EvalMode mode, const int64_t *extents) {
    Count count = {.extents = extents, .mode = mode};
    Arena *scratch = arena_new();
    const bool *live = graph_live(graph, scratch);
    uint32_t *uses = graph_count_uses(graph, scratch);
    for (uint32_t v = 0; v < graph->values.count; v++) {
        const Value *value = graph->values.at[v];
        if (live[v])
            count_value(&count, graph, value);
        for (uint32_t k = 0; k < value->n_args; k++) {
            const Value *arg = value->args[k];
            if (--uses[arg->id] == 0 && live[arg->id])
                hold(&count, -held_volume(graph, &arg->dims, extents));
        }
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        double elements = volume_of_dims(&graph->outputs.at[i].order, extents);
        hold(&count, elements);
        count.nanoseconds += elements * STEP_COPY;
    }
    arena_free(scratch);
    return (EvalNeeds){count.most, count.nanoseconds * 1e-9};
}

// Each value is held with its slope, and slopes are found argument by argument: of an op of two
// they take as long as two of its values.
EvalNeeds graph_slope_needs(const Graph *graph, const int64_t *extents) {
    EvalNeeds needs = graph_eval_needs(graph, EVAL_F64, extents);
    return (EvalNeeds){2 * needs.bytes, 3 * needs.seconds};
}
