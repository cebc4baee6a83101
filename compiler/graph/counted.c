// SPDX-License-Identifier: Apache-2.0
// Dims whose extents the source uses as numbers: what depends on how many positions there are.
#include "graph/graph.h"

void graph_note_counted(Graph *graph, Name dim) {
    Name plain = name_unprimed(graph->session->names, dim);
    if (!namelist_has(&graph->counted, plain))
        vec_push(graph->arena, &graph->counted, plain);
}

bool graph_is_counted(const Graph *graph, DimId dim) {
    for (uint32_t i = 0; i < graph->counted.count; i++) {
        DimId counted = graph_find_dim(graph, graph->counted.at[i]);
        if (counted != DIM_NONE && graph_dims_alike(graph, counted, dim))
            return true;
    }
    return false;
}
