// SPDX-License-Identifier: Apache-2.0
// Pointwise values of one shape: one stage in the memory order of the first result.
//
//     Y[n d] = X[n d] + B[d]       parallel n:64
//                                    compute Y = X + B  over n d  lanes=d
//
// An argument whose contiguous dim is another one than the result's (a transpose) is read in
// strips: its contiguous dim directly outside the lanes, and the lanes in blocks, so that each line
// of it is used up while it is in L1.
//
// Requires: all outputs have the same dims.
#include "tile/lower/lower.h"

#include <string.h>

#include "tile/schedule/schedule.h"

enum { STRIP_LANES = 64 };
// A stage of pointwise values takes about twice its weight: waiting for loads.
static const double STALLS = 2;

typedef struct {
    const TileDimList *dims; // of the result
    TileDimId lanes;
    TileDimId best; // TILE_DIM_NONE: none so far
    int64_t most;
} Crossing;

// An argument that is read under these dims.
static void crossing_offer(const Lowering *lower, Crossing *crossing, const TileDimList *read) {
    TileDimId last = dims_last_of(read);
    DimSet set = 0;
    bool in_result = false;
    for (int i = 0; i < read->count; i++)
        set |= set_of(read->at[i]);
    for (int i = 0; i < crossing->dims->count; i++)
        in_result = in_result || crossing->dims->at[i] == last;
    int64_t volume = lower_volume(lower, set);
    if (!in_result || last == crossing->lanes || !set_has(set, crossing->lanes) ||
        volume <= crossing->most)
        return;
    crossing->most = volume;
    crossing->best = last;
}

// The contiguous dim of an argument that the result walks across; TILE_DIM_NONE: none.
static TileDimId crossing_dim(const Lowering *lower, const TileDimList *dims, TileDimId lanes) {
    const Kernel *kernel = lower->kernel;
    Crossing crossing = {.dims = dims, .lanes = lanes, .best = TILE_DIM_NONE};
    for (uint32_t b = 0; b < kernel->n_args; b++) {
        if (kernel->buffers.at[b].place != PLACE_IN || !kernel->buffers.at[b].rank)
            continue;
        TileDimList read = lower_buffer_dims(lower, (uint16_t)b);
        crossing_offer(lower, &crossing, &read);
    }
    for (uint32_t i = 0; i < lower->group->members.count; i++) {
        Access access;
        if (lower->group->members.at[i]->op != OP_RENAME ||
            !terms_plain_access(lower, lower->group->members.at[i], &access))
            continue;
        TileDimList read = {.count = access.rank};
        for (int k = 0; k < access.rank; k++)
            read.at[k] = access.index[k].dim;
        crossing_offer(lower, &crossing, &read);
    }
    return crossing.best;
}

static double map_seconds(const Lowering *lower, DimSet box) {
    const Machine *machine = lower->machine;
    double cost = 0, bytes = 0;
    for (uint32_t i = 0; i < lower->group->outputs.count; i++)
        cost += terms_cost(lower, lower->group->outputs.at[i]) + 0.5;
    for (uint32_t b = 0; b < lower->kernel->n_args; b++)
        bytes += (double)lower_volume(lower, lower_buffer_set(lower, (uint16_t)b) & box) *
                 (double)elem_bytes(lower->kernel->buffers.at[b].elem);
    double vectors = (double)lower_volume(lower, box) / machine_lanes(machine, sizeof(float));
    return vectors * (STALLS * cost) * machine_cycle(machine) +
           bytes / machine->l3_bytes_per_second;
}

// Tasks are cut between panels.
static int64_t widest_panel(const Kernel *kernel) {
    int64_t width = 1;
    for (uint32_t b = 0; b < kernel->n_args; b++)
        if (kernel->buffers.at[b].place == PLACE_OUT && kernel->buffers.at[b].panel_width > width)
            width = kernel->buffers.at[b].panel_width;
    return width;
}

// Loops over tasks. *of_lanes: positions of the last dim in one.
//
// What is transposed into panels is cut along the panels first, each of which holds all of the
// other dims: a task reads whole rows of the argument, and writes what lies side by side.
static NodeList *map_tasks(Lowering *lower, uint16_t result, bool crosses, int64_t *of_lanes) {
    Kernel *kernel = lower->kernel;
    TileDimList order = lower_buffer_dims(lower, result);
    TileDimId lanes = order.count ? dims_last_of(&order) : TILE_DIM_NONE;
    DimSet box = lower_buffer_set(lower, result);
    int64_t panel = widest_panel(kernel), unit = crosses ? panel : 1;
    int64_t counts[TILE_DIM_NONE], steps[TILE_RANK_MAX], points = 1;
    for (uint32_t d = 0; d < lower->typical.count; d++)
        counts[d] = lower->typical.at[d];
    if (unit > 1) {
        memmove(order.at + 1, order.at, (size_t)(order.count - 1) * sizeof *order.at);
        order.at[0] = lanes;
        counts[lanes] = ceil_div(counts[lanes], unit);
    }
    for (int i = 0; i < order.count; i++)
        points = mul_capped(points, counts[order.at[i]]);
    TaskSchedule tasks = lower_tasks(lower, &(TaskShape){.seconds = map_seconds(lower, box)});
    schedule_pieces(&order, counts, points, &tasks, steps);
    NodeList *into = &kernel->body;
    for (int i = 0; i < order.count; i++) {
        TileDimId dim = order.at[i];
        int64_t step = dim == lanes ? *of_lanes = round_up(steps[i] * unit, panel) : steps[i];
        if (step != kernel->dims.at[dim].extent)
            into = &node_loop(kernel, into, LOOP_PARALLEL, dim, step)->body;
    }
    return into;
}

void lower_map(Lowering *lower) {
    Kernel *kernel = lower->kernel;
    uint32_t n_outputs = lower->group->outputs.count;
    uint16_t first = (uint16_t)(kernel->n_args - n_outputs);
    TileDimList dims = lower_buffer_dims(lower, first);
    TileDimId lanes = dims.count ? dims.at[dims.count - 1] : TILE_DIM_NONE;
    TileDimId crossing = crossing_dim(lower, &dims, lanes);
    int64_t of_lanes = 1;
    NodeList *into = map_tasks(lower, first, crossing != TILE_DIM_NONE, &of_lanes);
    if (crossing != TILE_DIM_NONE) {
        if (of_lanes > STRIP_LANES)
            into = &node_loop(kernel, into, LOOP_SEQUENTIAL, lanes, STRIP_LANES)->body;
        DimSet others = lower_buffer_set(lower, first) & ~set_of(lanes) & ~set_of(crossing);
        dims = lower_order(others, &dims);
        dims.at[dims.count++] = crossing;
        dims.at[dims.count++] = lanes;
    }
    Stage *stage = node_compute(kernel, into, dims, lanes);
    stage->pad = widest_panel(kernel) > 1;
    TermBuilder terms = terms_open(lower, stage);
    for (uint32_t i = 0; i < n_outputs; i++)
        terms_store(&terms, SINK_SET, (uint16_t)(first + i),
                    terms_value(&terms, lower->group->outputs.at[i]));
}
