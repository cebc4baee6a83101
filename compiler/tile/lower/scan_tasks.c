// SPDX-License-Identifier: Apache-2.0
// Which dims of a recurrence are cut into tasks, and which one lies across the lanes of vectors.
//
//     S[h, d] = S * g[t, h] + X[t, h, d]       tasks h (no step mixes heads), lanes d
//
// Tasks are cut along dims that every result has and that no step mixes.
#include "tile/lower/scan.h"

#include "tile/lower/nest.h"

#include <math.h>

DimSet scan_dims(const Lowering *lower) {
    return lower_dim_set(lower, &lower->group->reduced);
}

// Dims along which a member's elements depend on others.
static DimSet mixed_dims(const Lowering *lower, const Value *value) {
    DimSet own = lower_dim_set(lower, &value->dims), mixed = 0;
    bool sums = value_reduces(value) || value->op == OP_SCATTER_ADD;
    for (uint32_t k = 0; sums && k < value->n_args; k++)
        mixed |= lower_dim_set(lower, &value->args[k]->dims) & ~own;
    if (op_kind(value->op) == KIND_ROW || op_kind(value->op) == KIND_MOVE) {
        if (value->dim != DIM_NONE && lower->dim_of[value->dim] != TILE_DIM_NONE)
            mixed |= set_of(lower->dim_of[value->dim]);
        if (value->dim2 != DIM_NONE)
            mixed |= set_of(lower->dim_of[value->dim2]);
    }
    for (uint32_t k = 0; value->cats && k < value->n_args; k++)
        mixed |= set_of(lower->dim_of[value->cats[k]]);
    bool renames = value->renames && lower->is_member[value->args[0]->id];
    for (uint32_t k = 0; renames && k < value->renames->count; k++)
        mixed |= set_of(lower->dim_of[value->renames->from[k]]) |
                 set_of(lower->dim_of[value->renames->to[k]]);
    return mixed;
}

static DimSet independent_dims(const Lowering *lower) {
    DimSet dims = ~(DimSet)0;
    for (uint32_t i = 0; i < lower->group->outputs.count; i++)
        dims &= lower_buffer_set(lower, lower_argument_of(lower, i));
    for (uint32_t i = 0; i < lower->group->members.count; i++)
        dims &= ~mixed_dims(lower, lower->group->members.at[i]);
    return dims & ~scan_dims(lower);
}

// Share of the elements in arguments that lie side by side along the dim.
static double contiguous_share(const Lowering *lower, TileDimId dim) {
    double all = 1, along = 1e-3;
    for (uint32_t b = 0; b < lower->kernel->n_args; b++) {
        TileDimList dims = lower_buffer_dims(lower, (uint16_t)b);
        double volume = (double)lower_volume(lower, lower_buffer_set(lower, (uint16_t)b));
        all += volume;
        along += dims_last_of(&dims) == dim ? volume : 0;
    }
    return along / all;
}

// How much better it is when sums keep their lanes than when they end across them.
static const double KEPT_BY_SUMS = 4;

static bool is_summed(const Lowering *lower, TileDimId dim) {
    for (uint32_t i = 0; i < lower->group->members.count; i++)
        if (set_has(mixed_dims(lower, lower->group->members.at[i]), dim))
            return true;
    return false;
}

// The dim that most of the work keeps and that most arguments have side by side; one that is long
// enough for vectors, if there is one.
static TileDimId choose_lanes(const Lowering *lower) {
    TileDimId best = TILE_DIM_NONE;
    double most = 0;
    for (TileDimId d = 0; d < lower->kernel->dims.count; d++) {
        if (set_has(scan_dims(lower), d))
            continue;
        double weight = 0;
        for (uint32_t i = 0; i < lower->group->members.count; i++) {
            const Value *value = lower->group->members.at[i];
            DimSet own = lower_dim_set(lower, &value->dims), box = own;
            for (uint32_t k = 0; value_reduces(value) && k < value->n_args; k++)
                box |= lower_dim_set(lower, &value->args[k]->dims);
            if (set_has(own, d) && op_kind(value->op) != KIND_SCAN)
                weight += (double)lower_volume(lower, box);
        }
        weight *= contiguous_share(lower, d) * (is_summed(lower, d) ? 1 : KEPT_BY_SUMS);
        weight *= fmin(1, (double)lower->typical.at[d] / (2 * machine_lanes(lower->machine, 4)));
        if (weight > most) {
            most = weight;
            best = d;
        }
    }
    return best;
}

// Scans, what is cut into tasks, the rest, and the lanes.
static void choose_order(ScanLowering *s) {
    const Lowering *lower = s->lower;
    uint32_t count = lower->kernel->dims.count;
    DimSet all = lower_all_dims(lower);
    DimSet lanes = s->lanes == TILE_DIM_NONE ? 0 : set_of(s->lanes), scans = scan_dims(lower);
    const DimSet parts[] = {scans, s->tasks & ~lanes, all & ~scans & ~s->tasks & ~lanes, lanes};
    for (int p = 0; p < 4; p++)
        for (TileDimId d = 0; d < count; d++)
            if (set_has(parts[p], d) && s->order.count < TILE_RANK_MAX)
                s->order.at[s->order.count++] = d;
}

enum { LANE_VECTORS = 2 }; // that a task has at least

static int64_t step_points(const Lowering *lower) {
    int64_t most = 1;
    for (uint32_t i = 0; i < lower->group->members.count; i++) {
        const Value *value = lower->group->members.at[i];
        DimSet dims = lower_dim_set(lower, &value->dims) & ~scan_dims(lower);
        int64_t volume = lower_volume(lower, dims);
        most = op_kind(value->op) != KIND_SCAN && volume > most ? volume : most;
    }
    return most;
}

NodeList *scan_open_tasks(const ScanLowering *s) {
    Lowering *lower = s->lower;
    const Machine *machine = lower->machine;
    int64_t left = step_points(lower), tasks = 1;
    TaskSchedule wanted = lower_tasks(lower, &(TaskShape){.steps = true});
    NodeList *into = &lower->kernel->body;
    for (int i = 0; i < s->order.count; i++) {
        TileDimId d = s->order.at[i];
        int64_t extent = lower->typical.at[d], step = 1;
        if (!set_has(s->tasks, d) || (left / extent < wanted.step_points && tasks >= wanted.tasks))
            continue;
        if (d == s->lanes) {
            int64_t least = LANE_VECTORS * machine->vector_bytes / (int64_t)sizeof(float);
            int64_t pieces = ceil_div(wanted.tasks, tasks);
            step = round_up(ceil_div(extent, pieces), least);
            if (step >= extent)
                continue;
        }
        tasks *= ceil_div(extent, step);
        left = left / ceil_div(extent, step) + 1;
        into = &node_loop(lower->kernel, into, LOOP_PARALLEL, d, step)->body;
    }
    return into;
}

ScanLowering scan_choose(Lowering *lower) {
    ScanLowering s = {.lower = lower, .lanes = choose_lanes(lower)};
    s.tasks = independent_dims(lower);
    choose_order(&s);
    return s;
}
