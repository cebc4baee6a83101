// SPDX-License-Identifier: Apache-2.0
// What programs that train hold besides the entry and its gradient: how training begins, updates in
// place, the heads of attention, and the step of a sequence (language.md 14). All of it is made of
// graphs as graph_build makes them.
#ifndef ATTC_MODEL_H
#define ATTC_MODEL_H

#include "graph/graph.h"

// ---- training.c: whether an entry trains, first values, ids ------------------------------------
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
NameList graph_trained(const Graph *graph, Arena *arena); // the names of what it learns
// Of what trains on sequences, the dim of examples: the first of data with dims. DIM_NONE: examples
// are single vectors or numbers, or meet each other (a dim is like theirs), or nothing is trained.
DimId graph_batch(const Graph *graph);

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

// ---- build/optimizer.c --------------------------------------------------------------------------
// The update of an optimizer for tensors of run-time extents. replaced: by result, the number of
// the argument that it takes the place of; the gradient is argument 1. NULL after a diagnostic.
Graph *graph_build_update(Session *session, const Program *program, const Def *optimizer,
                          const uint32_t **replaced);
Graph *graph_build_squares(Session *session, const Program *program); // an f64, of x[i]

// ---- rewrite/in_place.c ------------------------------------------------------------------------
// The same graph whose results take the place of arguments, of the same dims, and have their names:
// result i that of input replaced[i]. Input `gradient` is multiplied by a new argument, the last.
Graph *graph_in_place(const Graph *graph, uint32_t gradient, const uint32_t *replaced);

// ---- heads/: the heads of attention -------------------------------------------------------------
typedef struct {
    const Value *input; // of the masked graph: f32 over the heads
    Name of;            // the value that it masks, with its path: layer.0.attend.W
} HeadMask;
typedef struct {
    Graph *graph; // the same results, with the masks as the last inputs
    VEC(HeadMask) masks;
} HeadMasks;
// A factor for each head of each attention. Requires: what graph_build makes.
HeadMasks graph_head_masks(const Graph *graph);
// In the place of the results, what the softmaxes of attention are of, before positions are masked:
// over batches, heads, queries and memory. They are called after the softmaxes.
Graph *graph_head_logits(const Graph *graph);
typedef struct {
    uint32_t of, dim; // place among the masks or the graph's inputs; place among its dims
} HeadAxis;
// Heads that are removed together, each with its position of all of these.
typedef struct {
    Name name;       // of the dim in the source, without primes
    uint32_t number; // that of no other group
    DimId dim;       // the first of its class
    VEC(HeadAxis) masks;
    VEC(HeadAxis) params;
    const char *fault; // why none can be removed, the end of a sentence; NULL: they can
} HeadGroup;
typedef VEC(HeadGroup) HeadGroups;
HeadGroups graph_head_groups(const HeadMasks *masks, Arena *arena);

// ---- decode/: one position at a time ------------------------------------------------------------
// The graph of one step of a sequence: its results at one position along a dim, from what earlier
// positions left in caches.
typedef struct {
    uint32_t input, output; // of the step: the cache, and what the step adds to it
    DimId dim;              // the position's among the cache's dims. DIM_NONE: all of it is new
} DecodeCache;
typedef struct {
    Graph *graph;      // NULL: there is no such step
    const char *why;   // it is NULL
    Span origin;       // of what is to blame
    uint32_t position; // number of the input that tells the position
    VEC(DecodeCache) caches;
} Decoding;
// n: the dim of the sequence. Inputs of the step: those of the graph in their order, of data
// without n; the position; caches. Its outputs: those of the graph without n; what is added to the
// caches. Requires: what graph_build makes.
Decoding graph_decode(const Graph *graph, DimId n);

#endif
