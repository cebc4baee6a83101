// SPDX-License-Identifier: Apache-2.0
// What serves every tensor, whatever its shape: the update of an optimizer, the sum of squares.
//
//     optimizer sgd(W[i], dW[i], m[i], ..)       i is of run time, whatever the file and -D say
#include "graph/build/build.h"
#include "graph/model.h"

// Tensors are mostly large: a row of a million elements, a matrix of a thousand rows.
static void plan_for_tensors(Graph *graph) {
    int64_t *extents = arena_array(graph->arena, int64_t, graph->dims.count + 1);
    const DimList *dims = &graph->inputs.at[0]->dims;
    for (uint32_t i = 0; i < dims->count; i++)
        extents[dims->at[i]] = dims->count == 1 ? 1 << 20 : 1 << 10;
    graph_plan_for(graph, extents);
}

static Graph *build_for_tensors(Session *session, const Program *program, const Def *def) {
    const NameList *dims = &def->params.at[0].result;
    if (dims->count == 2 && program_dims_alike(program, dims->at[0], dims->at[1])) {
        diag_error(session->diags, def->name.span,
                   "the rows and columns of tensors are not alike, as '%s' and '%s' are",
                   dims->at[0], dims->at[1]);
        return NULL;
    }
    EntryOptions entry = {.def = def};
    Session *open = program_untold(session, program, dims);
    open->dynamic = *dims;
    Graph *graph = graph_build(open, program, &entry);
    if (graph)
        plan_for_tensors(graph);
    return graph;
}

Graph *graph_build_update(Session *session, const Program *program, const Def *optimizer,
                          const uint32_t **replaced) {
    Graph *graph = build_for_tensors(session, program, optimizer);
    if (!graph)
        return NULL;
    uint32_t *places = arena_array(graph->arena, uint32_t, graph->outputs.count + 1);
    for (uint32_t i = 2, next = 1; i < graph->inputs.count; i++) // behind the tensor and dW
        if (graph->inputs.at[i]->dims.count)
            places[next++] = i;
    *replaced = places;
    return graph;
}

Graph *graph_build_squares(Session *session, const Program *program) {
    Name name = names_find(session->names, "sum_of_squares");
    for (uint32_t i = 0; i < program->defs.count; i++) {
        const Def *def = program->defs.at[i];
        if (def->from_prelude && def->name.name == name)
            return build_for_tensors(session, program, def);
    }
    ice("graph_build_squares: the prelude has no %s", name);
}
