// SPDX-License-Identifier: Apache-2.0
// The sweeps that graph_simplify is made of; shared by its rules only.
//
// A sweep copies the live part of a graph into a new one, value by value; a rule may put something
// better in the place of each. Rules decide on the old graph, where uses are counted, and build
// from the new values of its arguments.
#ifndef ATTC_GRAPH_SIMPLIFY_H
#define ATTC_GRAPH_SIMPLIFY_H

#include "graph/graph.h"

typedef VEC(int64_t) ExtentList; // by DimId; grows with the aliases that rules add
typedef VEC(DimId) DimIds;

typedef struct {
    Arena *arena; // of the sweep alone
    const Graph *from;
    Graph *to;
    Value **now;        // by id in from: its value in to, for every value before the current one
    uint32_t *uses;     // by id in from: by live users, outputs count too
    const Value **user; // by id in from: one of its live users, NULL when only outputs use it
    ExtentList *extents;
    const Machine *machine;
} Sweep;

typedef Value *(*SweepRule)(Sweep *sweep, const Value *value, Value **args);

// fold.c: constants, exact identities of single values.
Value *simplify_fold(Sweep *sweep, const Value *value, Value **args);
// flatten.c: nested einsums, products, scales and renames become one n-ary einsum.
Value *simplify_flatten(Sweep *sweep, const Value *value, Value **args);
// factor.c: common operands in sums of einsums.
Value *simplify_factor(Sweep *sweep, const Value *value, Value **args);

// simplify.c: the value as it is, with other arguments; dims of maps follow the arguments.
Value *sweep_rebuild(Sweep *sweep, const Value *value, Value **args);
// A dim like `dim` that is not in `taken`: an earlier alias, or a new dim of the new graph.
DimId sweep_alias(Sweep *sweep, DimId dim, const DimIds *taken);
bool dimids_has(const DimIds *set, DimId dim);

#endif
