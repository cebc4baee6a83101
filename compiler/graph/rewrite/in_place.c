// SPDX-License-Identifier: Apache-2.0
// graph_in_place: results that take the place of arguments.
//
//     before  m_1[i] = decay * m[i] + dW[i]                        arguments: W dW m decay rate
//             W_1[i] = W[i] - rate * m_1[i]                        returned: W_1, m_1
//     after   m_1[i] = decay * m[i] + scale * dW[i]                arguments: dW decay rate scale
//             W_1[i] = W[i] - rate * m_1[i]                        returned: W, m
//
// W and m are read from the memory that the results are written to (USE_REPLACED), so callers see
// one tensor of each. The gradient is multiplied by a new argument, which clipping and accumulated
// batches need, where it is read: it costs nothing.
//
// Requires: a result and the argument that it replaces have the same dims. Ensures: in this graph
// nothing else; tile_in_place_problem says of a tile program whether all that is read of an
// argument is read before it is written over.
#include "graph/model.h"
#include "graph/rewrite/rewrite.h"

Graph *graph_in_place(const Graph *graph, uint32_t gradient, const uint32_t *replaced) {
    Arena *arena = arena_new();
    Rewrite rewrite = rewrite_begin("in_place", graph, graph->arena, arena);
    Value **scaled = &rewrite.now[graph->inputs.at[gradient]->id];
    Value *scale = graph_input(rewrite.to, graph_new_name(rewrite.to, "scale"), (*scaled)->elem,
                               (DimList){0}, ROLE_DATA);
    *scaled = graph_map2(rewrite.to, OP_MUL, scale, *scaled);
    rewrite_values(&rewrite, rewrite_keep);
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        Value *before = rewrite.to->inputs.at[replaced[i]];
        before->use = USE_REPLACED;
        before->output = i;
        graph_output(rewrite.to, before->name, rewrite.now[graph->outputs.at[i].value->id],
                     before->dims);
    }
    arena_free(arena);
    return rewrite.to;
}
