// SPDX-License-Identifier: Apache-2.0
// Positions in the order of their values, one row after the other:
//
//     I[n t] = argsort(X[n m], t, dim=m)       parallel n:64
//                                                scratch key[m] ...
//                                                order I[n t] = X[n m]  over n t m  along=m
//
// Rows that do not lie in one piece are copied first, as many as a line of memory has elements of
// (X[m n]):
//
//     parallel n:64
//       loop n:16
//         scratch row[n m], key[m] ...
//         compute row = X                      over m n  lanes=n
//         order I[n t] = row[n m]              over n t m  along=m
//
// Requires: a group of one ORDER value, whose argument lies in memory.
#include "tile/lower/lower.h"
#include "tile/schedule/schedule.h"

enum { LINE_ELEMENTS = 16 };
static const double CYCLES = 8; // of an element, for the cut into tasks

typedef struct {
    Lowering *lower;
    uint16_t in, out;
    TileDimId along, places;
    TileDimList rows;
} Argsort;

// Tasks of some rows each.
static NodeList *open_tasks(const Argsort *a) {
    Lowering *lower = a->lower;
    DimSet all = lower_buffer_set(lower, a->in);
    double points = (double)lower_volume(lower, all);
    TileDimList dims = a->rows;
    dims.at[dims.count++] = a->along; // which no task cuts
    int64_t steps[TILE_RANK_MAX];
    TaskShape shape = {.seconds = points * CYCLES * machine_cycle(lower->machine)};
    TaskSchedule tasks = lower_tasks(lower, &shape);
    schedule_pieces(&dims, lower->typical.at, lower_volume(lower, all), &tasks, steps);
    NodeList *into = &lower->kernel->body;
    for (int i = 0; i < a->rows.count; i++)
        if (steps[i] != lower->kernel->dims.at[a->rows.at[i]].extent)
            into = &node_loop(lower->kernel, into, LOOP_PARALLEL, a->rows.at[i], steps[i])->body;
    return into;
}

// The rows of some of the argument's lines, in one piece each.
static uint16_t copy_rows(const Argsort *a, NodeList **into) {
    Kernel *kernel = a->lower->kernel;
    TileDimList source = lower_buffer_dims(a->lower, a->in), box = {0}, own = {0};
    TileDimId last = dims_last_of(&source);
    for (int i = 0; i < a->rows.count; i++) {
        TileDimId dim = a->rows.at[i];
        int64_t step = dim == last ? LINE_ELEMENTS : 1;
        *into = &node_loop(kernel, *into, LOOP_SEQUENTIAL, dim, step)->body;
        own.at[own.count++] = dim;
        if (dim != last)
            box.at[box.count++] = dim;
    }
    own.at[own.count++] = a->along;
    box.at[box.count++] = a->along;
    box.at[box.count++] = last;
    uint16_t row = node_scratch(kernel, *into, "row", kernel->buffers.at[a->in].elem, own);
    Stage *stage = node_compute(kernel, *into, box, last);
    int32_t element = stage_load(kernel, stage, access_plain(kernel, a->in));
    stage_sink(kernel, stage, SINK_SET, access_plain(kernel, row), element);
    return row;
}

void lower_argsort(Lowering *lower) {
    const Value *value = lower->group->outputs.at[0];
    Argsort a = {.lower = lower,
                 .in = (uint16_t)lower_buffer_of(lower, value->args[0]),
                 .out = lower_argument_of(lower, 0),
                 .along = lower->dim_of[value->dim],
                 .places = lower->dim_of[value->dim2]};
    TileDimList dims = lower_buffer_dims(lower, a.out), source = lower_buffer_dims(lower, a.in);
    a.rows = lower_order(lower_buffer_set(lower, a.out) & ~set_of(a.places), &dims);
    NodeList *into = open_tasks(&a);
    bool in_place = dims_last_of(&source) == a.along &&
                    lower->kernel->buffers.at[a.in].panel_dim == TILE_DIM_NONE;
    uint16_t from = in_place ? a.in : copy_rows(&a, &into);
    Stage *stage = node_order(lower->kernel, into, access_plain(lower->kernel, a.out),
                              access_plain(lower->kernel, from), a.along, a.places);
    stage->descending = value->offset != 0;
}
