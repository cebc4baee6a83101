// SPDX-License-Identifier: Apache-2.0
// Between the files of graph_decode: decode.c, which makes the graph of a step, project.c, which
// cuts einsums so that little is kept, and check.c, which sees to it that no step reads what later
// ones write.
#ifndef ATTC_GRAPH_DECODE_H
#define ATTC_GRAPH_DECODE_H

#include "graph/model.h"

// project.c
// The same graph, with what einsums project of other positions computed before them.
Graph *decode_project(const Graph *graph, DimId n);

// check.c
// Why a result or cache of the step depends on positions of caches after the one of the step; NULL:
// none does. n: the dim that stands for the sequence in messages. *origin: where.
const char *decode_problem(const Decoding *decoding, DimId n, Span *origin);

#endif
