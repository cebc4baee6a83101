// SPDX-License-Identifier: Apache-2.0
// Outputs of a graph, and names: of outputs in source text, where inputs and outputs are one space,
// and of any value.
#include "graph/cons.h"

const char *value_label(Arena *arena, const Value *value) {
    if (value->op == OP_INPUT && value->name)
        return value->name;
    return value->hint ? value->hint : arena_printf(arena, "t%u", value->id);
}

void graph_output(Graph *graph, Name name, Value *value, DimList order) {
    vec_push(graph->arena, &graph->outputs, (Output){name, value, order, USE_PLAIN});
}

void graph_output_like(Graph *graph, const Output *like, Value *value) {
    Output output = *like;
    output.value = value;
    vec_push(graph->arena, &graph->outputs, output);
}

bool graph_returns(const Graph *graph, const Value *value) {
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        if (graph->outputs.at[i].value == value)
            return true;
    return false;
}

static bool name_of_other_input(const Graph *graph, Name name, const Value *value) {
    const Value *input = graph_input_written(graph, name);
    return input && input != value;
}

static bool name_of_any(const Graph *graph, Name name) {
    bool any = graph_input_written(graph, name) != NULL;
    for (uint32_t i = 0; i < graph->outputs.count && !any; i++)
        any = graph->outputs.at[i].name == name;
    return any;
}

// X_out, X_out_2, ...: no two outputs come to one of these.
Name graph_output_source_name(const Graph *graph, uint32_t output) {
    Names *names = graph->session->names;
    Name own = graph_source_name(graph, graph->outputs.at[output].name);
    if (!name_of_other_input(graph, own, graph->outputs.at[output].value))
        return own;
    Name name = names_find(names, arena_printf(graph->arena, "%s_out", own));
    for (int number = 2; name_of_any(graph, name); number++)
        name = names_find(names, arena_printf(graph->arena, "%s_out_%d", own, number));
    return name;
}

uint64_t graph_hash(const Graph *graph) {
    uint64_t hash = hash_u64(4, graph->outputs.count);
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const Output *out = &graph->outputs.at[i];
        hash = hash_text(hash, graph_output_source_name(graph, i));
        hash = hash_u64(hash, graph_dims_hash(graph, &out->order, true));
        hash = hash_u64(hash, out->value->hash);
    }
    return hash;
}
