// SPDX-License-Identifier: Apache-2.0
// Sums at positions that data says, one source after the other in the order of positions:
//
//     G[v d] = scatter_add(X[n d], ids[n])     parallel v:4096
//                                                loop n:1
//                                                  range v from ids[n] to ids[n] + 1
//                                                    compute G += X  over n v d  lanes=d
//
// A task owns some positions of the result and goes over all sources, so that the order in which
// an element's sources are added depends on nothing else.
#include "tile/lower/lower.h"
#include "tile/schedule/schedule.h"

#include <math.h>

// Of one source: to find out whether it is the task's, and to add a vector.
static const double CYCLES_ASKED = 4, CYCLES_ADDED = 2;

typedef struct {
    Lowering *lower;
    const Value *value;
    DimSet ids, all; // dims of the positions; of both arguments
    TileDimId along;
} Sums;

static Sums sums_of(Lowering *lower, const Value *value) {
    DimSet ids = lower_dim_set(lower, &value->args[1]->dims);
    return (Sums){.lower = lower,
                  .value = value,
                  .ids = ids,
                  .all = ids | lower_dim_set(lower, &value->args[0]->dims),
                  .along = lower->dim_of[value->dim]};
}

// ---- the sums -----------------------------------------------------------------------------------

// The position of a source as memory that a range can begin at.
static Access position_access(const Sums *sums, NodeList *into) {
    Lowering *lower = sums->lower;
    const Value *ids = sums->value->args[1];
    Access access;
    if (terms_plain_access(lower, ids, &access) && !access.checked)
        return access;
    TileDimList dims = lower_order(sums->ids, &(TileDimList){0});
    uint16_t own = node_scratch(lower->kernel, into, "at", ELEM_I64, dims);
    Stage *stage = node_compute(lower->kernel, into, dims, dims_last_of(&dims));
    TermBuilder terms = terms_open(lower, stage);
    terms_store(&terms, SINK_SET, own, terms_value(&terms, ids));
    return access_plain(lower->kernel, own);
}

// What lies side by side in the result, or else in memory of the sources, and is the same position.
static TileDimId choose_lanes(const Sums *sums, uint16_t buffer) {
    const Lowering *lower = sums->lower;
    TileDimList result = lower_buffer_dims(lower, buffer);
    DimSet free = sums->all & ~sums->ids;
    int home = lower_buffer_of(lower, sums->value->args[0]);
    TileDimList source = home == NO_BUFFER ? result : lower_buffer_dims(lower, (uint16_t)home);
    TileDimId last[] = {dims_last_of(&result), dims_last_of(&source)};
    for (int i = 0; i < 2; i++)
        if (last[i] != TILE_DIM_NONE && set_has(free, last[i]))
            return last[i];
    return TILE_DIM_NONE;
}

void lower_sums_at(Lowering *lower, const Value *value, uint16_t buffer, NodeList *into) {
    Kernel *kernel = lower->kernel;
    Sums sums = sums_of(lower, value);
    Access at = position_access(&sums, into);
    TileDimList outer = lower_order(sums.ids, &(TileDimList){0});
    for (int i = 0; i < outer.count; i++)
        into = &node_loop(kernel, into, LOOP_SEQUENTIAL, outer.at[i], 1)->body;
    Node *range = node_range(kernel, into, sums.along);
    range->lo = range_bound(kernel, range, (Bound){.kind = BOUND_LOAD, .load = at});
    range->hi = range_bound(kernel, range, (Bound){.kind = BOUND_LOAD, .load = at, .number = 1});
    TileDimId lanes = choose_lanes(&sums, buffer);
    DimSet last = lanes == TILE_DIM_NONE ? 0 : set_of(lanes);
    TileDimList dims = lower_order((sums.all | set_of(sums.along)) & ~last, &outer);
    if (last)
        dims.at[dims.count++] = lanes;
    Stage *stage = node_compute(kernel, &range->body, dims, lanes);
    TermBuilder terms = terms_open(lower, stage);
    terms_store(&terms, SINK_SUM, buffer, terms_value(&terms, value->args[0]));
}

// ---- tasks --------------------------------------------------------------------------------------

// Every task asks for the position of every source.
static int64_t pieces_at_most(const Sums *sums) {
    const Lowering *lower = sums->lower;
    double vectors = (double)lower_volume(lower, sums->all & ~sums->ids) /
                     machine_lanes(lower->machine, sizeof(float));
    return 1 + (int64_t)(ceil(vectors) * CYCLES_ADDED / CYCLES_ASKED);
}

static double sums_seconds(const Sums *sums, DimSet result) {
    const Lowering *lower = sums->lower;
    double vectors = (double)lower_volume(lower, sums->all & ~sums->ids) /
                     machine_lanes(lower->machine, sizeof(float));
    double sources = (double)lower_volume(lower, sums->ids);
    double bytes =
        (double)lower_volume(lower, result) * (double)elem_bytes(elem_work(sums->value->elem));
    return sources * (CYCLES_ASKED + ceil(vectors) * CYCLES_ADDED) * machine_cycle(lower->machine) +
           bytes / lower->machine->l3_bytes_per_second;
}

void lower_scatter(Lowering *lower) {
    Kernel *kernel = lower->kernel;
    const Value *value = lower->group->outputs.at[0];
    Sums sums = sums_of(lower, value);
    uint16_t out = lower_argument_of(lower, 0);
    TileDimList dims = lower_buffer_dims(lower, out);
    DimSet result = lower_buffer_set(lower, out);
    int64_t steps[TILE_RANK_MAX];
    TaskSchedule tasks = lower_tasks(lower, &(TaskShape){.seconds = sums_seconds(&sums, result)});
    schedule_pieces(&dims, lower->typical.at, lower_volume(lower, result), &tasks, steps);
    NodeList *into = &kernel->body;
    for (int i = 0; i < dims.count; i++) {
        TileDimId dim = dims.at[i];
        int64_t least = ceil_div(lower->typical.at[dim], pieces_at_most(&sums));
        if (dim == sums.along && steps[i] < least)
            steps[i] = least;
        if (steps[i] != kernel->dims.at[dim].extent)
            into = &node_loop(kernel, into, LOOP_PARALLEL, dim, steps[i])->body;
    }
    buffer_begin_with(kernel, out, 0);
    lower_sums_at(lower, value, out, into);
}
