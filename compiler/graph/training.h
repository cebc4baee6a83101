// SPDX-License-Identifier: Apache-2.0
// What training needs to know of an entry, as graph_build makes it (language.md 8.2, 14.1).
#ifndef ATTC_TRAINING_H
#define ATTC_TRAINING_H

#include "graph/graph.h"

typedef enum {
    TRAINS,     // its results of floats have no dims, the first of them is the loss
    TRAINS_NOT, // it is no loss, or learns nothing
    TRAINS_BUT, // it would, if it were not for what `why` says
} TrainsKind;
typedef struct {
    TrainsKind kind;
    const char *why, *hint; // BUT; the hint may be NULL
    Span at;
} Trains;
Trains graph_trains(const Graph *graph);

// What a trained tensor begins with: VALUE, NORMAL, UNIFORM or TRUNCATED_NORMAL with its numbers.
typedef struct {
    InitKind kind;
    double a, b;
} FirstValue;
// Requires: the extents of its dims are known.
FirstValue graph_first_value(const Graph *graph, const Value *param);

// The fewest positions of a table that the whole numbers of an input are looked up in, or of a dim
// that they are compared with; 0: there is none whose extent is known.
int64_t graph_ids_below(const Graph *graph, const Value *input);

#endif
