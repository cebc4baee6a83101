// SPDX-License-Identifier: Apache-2.0
// graph_accumulate: gradients that can be added to what is there.
//
//     before  dP[d, k] = einsum(X[n, d], dY[n, k])                               returned: dP
//     after   g[d, k] = einsum(X[n, d], dY[n, k])
//             dP[d, k] = where(accumulate_dP != 0, before_dP[d, k] + g[d, k], g[d, k])
//
// `before_dP` is the memory that dP is written to (USE_BEFORE): each element is read where it is
// written, by what writes it, so that a sum over batches needs no second tensor. With the flag at 0
// what is read counts for nothing.
//
// Requires: nothing. Ensures: the same gradients where the flags are 0.
#include "graph/rewrite/rewrite.h"

static Name new_name(const Graph *graph, const char *what, Name of) {
    return graph_new_name(graph, arena_printf(graph->arena, "%s_%s", what, of));
}

static Value *added(Graph *graph, const Output *output, uint32_t number, Value *gradient) {
    Value *before = graph_input(graph, new_name(graph, "before", output->name), gradient->elem,
                                output->order, ROLE_DATA);
    before->use = USE_BEFORE;
    before->output = number;
    Value *flag = graph_input(graph, new_name(graph, "accumulate", output->name), ELEM_I64,
                              (DimList){0}, ROLE_DATA);
    flag->use = USE_FLAG;
    Value *asked = graph_map2(graph, OP_NE, flag, graph_const(graph, 0, ELEM_I64));
    Value *sum = graph_map2(graph, OP_ADD, before, gradient);
    return graph_select(graph, asked, sum, gradient);
}

bool value_is_accumulated(const Value *value, Accumulated *out) {
    const Value *asked = value->op == OP_SELECT ? value->args[0] : NULL;
    const Value *added = value->op == OP_SELECT ? value->args[1] : NULL;
    if (!asked || asked->op != OP_NE || added->op != OP_ADD || added->args[1] != value->args[2])
        return false;
    *out = (Accumulated){value->args[2], added->args[0], asked->args[0]};
    return out->before->use == USE_BEFORE && out->flag->use == USE_FLAG;
}

Graph *graph_accumulate(const Graph *graph) {
    Arena *arena = arena_new();
    Rewrite rewrite = rewrite_begin("accumulate", graph, graph->arena, arena);
    rewrite_values(&rewrite, rewrite_keep);
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const Output *output = &graph->outputs.at[i];
        Value *value = rewrite.now[output->value->id];
        if (output->use == USE_GRADIENT)
            value = added(rewrite.to, output, i, value);
        graph_output_like(rewrite.to, output, value);
    }
    arena_free(arena);
    return rewrite.to;
}
