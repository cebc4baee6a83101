// SPDX-License-Identifier: Apache-2.0
// What graph_layout and graph_plan are made of: layout.c chooses orders, layout_lanes.c says what
// contractions cost, view.c which splits and merges of dims are the memory of what they read.
#ifndef ATTC_GRAPH_LAYOUT_H
#define ATTC_GRAPH_LAYOUT_H

#include "graph/plan.h"

// Cycles of an access to an element: vector load and store; contiguous in the rows of an operand; a
// line of memory for each element.
static const double COPY = 0.1, ROWS_LAST = 0.5, STRIDED = 3;

// A member of a group that has the value as this argument.
typedef struct {
    uint32_t group;
    const Value *user;
    uint32_t arg;
} Read;
typedef VEC(Read) ReadList;

typedef struct {
    const Fusion *fusion;
    const int64_t *extents;
    ReadList *reads;     // by value id: in the order of groups and their members
    Map *feeds;          // see find_feeds
    DimList *orders;     // empty: not chosen yet
    MemoryOrder *memory; // the result
    Arena *arena;
    const Machine *machine;
    const ProgramSchedule *chosen;
    VEC(uint64_t) paneled; // kinds of values that would lie in panels, so far
    double lanes;          // of a vector of f32, the usual element
} Layout;

// The dims of a contraction by role, seen from one operand x: shared with the result, own, summed.
typedef struct {
    DimList batch, own, k;
} Roles;

static inline DimId dims_last(const DimList *dims) {
    return dims->count ? dims->at[dims->count - 1] : DIM_NONE;
}

static inline double volume(const Layout *layout, const DimList *dims) {
    return (double)dims_volume(dims, layout->extents);
}

Roles layout_roles(const Value *contraction, int operand);
// What reading an operand costs for an element when `last` is contiguous in it (DIM_NONE: nothing
// yet) and `lane` in the result.
double layout_operand_cost(const Value *contraction, int operand, DimId last, DimId lane);
// Own dims of an operand that end the result's order: they run through as one where the operand has
// them last, too.
DimList layout_run(const DimList *own, const DimList *result);
// Cycles of a contraction that are lost on vectors that `lane`, or the run that the operand has
// when it has `last` contiguous, does not fill.
double layout_lost_lanes(const Layout *layout, const Value *contraction, int operand, DimId last,
                         DimId lane, const DimList *result);
// Cycles of a contraction whose result has `last` contiguous; *lane: the dim that runs in vectors.
double layout_contraction_cost(const Layout *layout, const Value *contraction, DimId last,
                               DimId *lane);

// ---- view.c: SPLIT and MERGE in memory ---------------------------------------------------------
DimId regroup_last(const Value *regroup); // the fastest of the parts
// The order of the value's dims in the memory of its argument, and the other way round; false:
// there is none.
bool regroup_order(const Value *regroup, const DimList *of_argument, DimList *out);
bool regroup_argument_order(const Value *regroup, const DimList *own, DimList *out);
DimList regroup_glued(const Value *merge, const DimList *order); // the parts where the last one is

#endif
