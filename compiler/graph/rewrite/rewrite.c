// SPDX-License-Identifier: Apache-2.0
// Copies the live part of a graph into a new one, value by value; a rule may put something better
// in the place of each.
//
//     from    a = X + Y;  b = a * 1;  c = b;  d = exp(a)      returned: c
//     to      a = X + Y                                       now: a b c -> a; d was not live
//
// Requires: a graph that passes graph_verify. Ensures: inputs, dims and outputs are the same, every
// value has the elem and dims of the one that it replaces, and what is new has its place in the
// source and its purpose.
#include "graph/rewrite/rewrite.h"

static void count_uses(Rewrite *rewrite, const bool *live) {
    const Graph *from = rewrite->from;
    for (uint32_t i = 0; i < from->values.count; i++) {
        const Value *value = from->values.at[i];
        for (uint32_t k = 0; live[i] && k < value->n_args; k++) {
            uint32_t arg = value->args[k]->id;
            const Value *other = rewrite->user[arg];
            bool takes = value->op == OP_TAKE && (!other || other->dim == value->dim);
            rewrite->uses[arg]++;
            rewrite->taken[arg] += takes;
            rewrite->user[arg] = value;
        }
    }
    for (uint32_t i = 0; i < from->outputs.count; i++)
        rewrite->uses[from->outputs.at[i].value->id]++;
}

Rewrite rewrite_begin(const char *pass, const Graph *from, Arena *to_arena, Arena *arena) {
    uint32_t count = from->values.count;
    Rewrite rewrite = {
        .pass = pass,
        .arena = arena,
        .from = from,
        .to = graph_new_like(from, to_arena),
        .now = arena_array(arena, Value *, count),
        .uses = arena_array(arena, uint32_t, count),
        .user = arena_array(arena, const Value *, count),
        .taken = arena_array(arena, uint32_t, count),
    };
    for (uint32_t i = 0; i < from->inputs.count; i++)
        rewrite.now[from->inputs.at[i]->id] = graph_rebuild(rewrite.to, from->inputs.at[i], NULL);
    return rewrite;
}

static Value *replace(Rewrite *rewrite, RewriteRule *rule, const Value *value) {
    Value **args = arena_array(rewrite->arena, Value *, value->n_args);
    for (uint32_t k = 0; k < value->n_args; k++)
        args[k] = rewrite->now[value->args[k]->id];
    uint32_t before = rewrite->to->values.count;
    rewrite->to->made_for = value->made_for;
    Value *now = rule(rewrite, value, args);
    rewrite->to->made_for = (MadeFor){0};
    for (uint32_t i = before; i < rewrite->to->values.count; i++)
        if (!rewrite->to->values.at[i]->origin.file)
            rewrite->to->values.at[i]->origin = value->origin;
    if (now->elem != value->elem || !dims_equal(&now->dims, &value->dims))
        ice("%s: a rule changed the type of value %u (%s)", rewrite->pass, value->id,
            op_name(value->op));
    if (!now->hint && value->hint) {
        now->hint = value->hint;
        now->path = value->path;
        now->origin = value->origin;
    }
    return now;
}

void rewrite_values(Rewrite *rewrite, RewriteRule *rule) {
    const Graph *from = rewrite->from;
    const bool *live = graph_live(from, rewrite->arena);
    count_uses(rewrite, live);
    for (uint32_t i = 0; i < from->values.count; i++)
        if (live[i] && !rewrite->now[i])
            rewrite->now[i] = replace(rewrite, rule, from->values.at[i]);
}

void rewrite_outputs(Rewrite *rewrite) {
    for (uint32_t i = 0; i < rewrite->from->outputs.count; i++) {
        const Output *output = &rewrite->from->outputs.at[i];
        graph_output_like(rewrite->to, output, rewrite->now[output->value->id]);
    }
}

Graph *rewrite_graph(const char *pass, const Graph *from, Arena *to_arena, Arena *arena,
                     RewriteRule *rule, void *data) {
    Rewrite rewrite = rewrite_begin(pass, from, to_arena, arena);
    rewrite.data = data;
    rewrite_values(&rewrite, rule);
    rewrite_outputs(&rewrite);
    arena_free(arena);
    return rewrite.to;
}

Value *rewrite_keep(Rewrite *rewrite, const Value *value, Value **args) {
    return graph_rebuild(rewrite->to, value, args);
}

Value *rewrite_rebuild(Rewrite *rewrite, const Value *value, Value **args) {
    if (op_kind(value->op) != KIND_MAP)
        return graph_rebuild(rewrite->to, value, args);
    return graph_map(rewrite->to, value->op, value->elem, args, value->n_args);
}

Value *rewrite_times_extents(Graph *graph, Value *a, const DimList *dims) {
    for (uint32_t i = 0; i < dims->count; i++) {
        Value *extent = graph_extent(graph, dims->at[i]);
        extent = extent->op == OP_CONST ? graph_const(graph, extent->number, a->elem)
                                        : graph_cast(graph, extent, a->elem);
        a = graph_map2(graph, OP_MUL, a, extent);
    }
    return a;
}
