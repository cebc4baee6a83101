// SPDX-License-Identifier: Apache-2.0
// What values are made with, compared and found by; between the files that do so (graph.c, cons.c,
// scan.c, outputs.c and verify.c) only.
#ifndef ATTC_GRAPH_CONS_H
#define ATTC_GRAPH_CONS_H

#include "graph/graph.h"

// ---- cons.c: what values mean ----
uint64_t graph_dims_hash(const Graph *graph, const DimList *dims, bool ordered);
uint64_t graph_value_hash(const Graph *graph, const Value *value); // what value->hash must be
bool graph_value_same(const Value *a, const Value *b);             // of one graph

// ---- graph.c ----
const Value *graph_input_written(const Graph *graph, Name written); // NULL: none

// ---- scan.c: arguments of a STACK or LAST, with those carries alone that it depends on ----
ValueList graph_stack_args(Graph *graph, Value *value, DimId dim, const ScanCarries *carries);
ValueList graph_last_args(Graph *graph, uint32_t which, DimId dim, const ScanCarries *carries);

#endif
