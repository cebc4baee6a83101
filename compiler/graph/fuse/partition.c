// SPDX-License-Identifier: Apache-2.0
// graph_partition: a graph with its gradient as two, which a library calls one after the other.
//
//     before    Q, K = einsum(X, P_q), ...;  top, z, W = softmax(einsum(Q, K));  O = einsum(W, V)
//               Y = einsum(O, P_o);  dO = einsum(dY, P_o);  dV = einsum(W, dO);  ...
//                                                            returned: Y, dX, dP_q, ...
//     forward   Q, K, V, top, z, W, O, Y                     returned: Y, saved_Q, .., saved_O
//     backward  with arguments X, P_q, .., saved_Q, .., dY: W = exp(einsum(Q, K) - top) / z again,
//               dO, dV, ...                                  returned: dX, dP_q, ...
//
// What is saved is what fuse_keep keeps; what is computed again is computed when it is needed
// (again.c). Nothing quadratic is saved unless it is a result, which costs nothing, as the caller
// has it.
//
// Requires: graph_expand. Ensures: both parts are as graph_expand leaves them, over the same dims.
#include "graph/fuse/fuse.h"

struct Partition {
    const Graph *graph;
    Arena *arena; // of the graph
    Kept keeps;
    const bool *table; // by DimId, see fuse_table_dims: the backward part has no softmax any more
};

// ---- names -------------------------------------------------------------------------------------

// What a value is of the one that it is a step to: the largest of its row, say.
static const char *part_name(const Value *value) {
    while (op_kind(value->op) == KIND_MAP || op_is_reading(value->op)) {
        uint32_t k = 0;
        while (k + 1 < value->n_args && fuse_is_free(value->args[k]))
            k++;
        if (!value->n_args || fuse_is_free(value->args[k]))
            break;
        value = value->args[k];
    }
    switch (value->op) {
    case OP_REDUCE_TOP:
    case OP_REDUCE_MAX:
        return "max";
    case OP_REDUCE_MIN:
        return "min";
    default:
        return op_name(value->op);
    }
}

typedef struct {
    const Partition *p;
    const Value **named; // by value id: the first that is made of it and has a name; NULL: none
    Map *taken;          // names
    Map *numbers;        // name -> the last number that was tried with it
} SavedNames;

static uint64_t name_key(Name name) {
    return (uint64_t)(uintptr_t)name;
}

static void take_name(SavedNames *names, Name name) {
    map_put(names->taken, name_key(name), (void *)name);
}

static void take_output(SavedNames *names, const Graph *graph, uint32_t output) {
    take_name(names, graph->outputs.at[output].name);
    take_name(names, graph_output_source_name(graph, output));
}

static void take_names(SavedNames *names, const Graph *graph) {
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        take_name(names, graph->inputs.at[i]->name);
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        take_output(names, graph, i);
}

static const Value **find_named(const Partition *p) {
    uint32_t count = p->graph->values.count;
    const Value **named = arena_array(p->arena, const Value *, count + 1);
    for (uint32_t i = count; i-- > 0;) {
        const Value *user = p->graph->values.at[i];
        for (uint32_t k = 0; !p->keeps.after[i] && k < user->n_args; k++)
            named[user->args[k]->id] = user->hint ? user : named[i];
    }
    return named;
}

static SavedNames open_names(const Partition *p, const Graph *forward) {
    SavedNames names = {
        .p = p, .named = find_named(p), .taken = map_new(p->arena), .numbers = map_new(p->arena)};
    take_names(&names, p->graph);
    take_names(&names, forward);
    return names;
}

static Name free_name(SavedNames *names, const char *base) {
    const Partition *p = names->p;
    Name name = names_find(p->graph->session->names, base);
    unsigned *number = map_get(names->numbers, name_key(name));
    if (!number) {
        number = arena_copy(p->arena, &(unsigned){1}, sizeof *number);
        map_put(names->numbers, name_key(name), number);
    }
    while (map_get(names->taken, name_key(name)))
        name =
            names_find(p->graph->session->names, arena_printf(p->arena, "%s_%u", base, ++*number));
    return name;
}

static Name saved_name(SavedNames *names, const Value *value) {
    Arena *arena = names->p->arena;
    const Value *named = value->hint ? value : names->named[value->id];
    const char *path = named && named->path ? named->path : "";
    const char *base = arena_printf(arena, "saved_%s%s", path, named ? named->hint : "value");
    if (named != value)
        base = arena_printf(arena, "%s_%s", base, part_name(value));
    return free_name(names, base);
}

// ---- the parts ---------------------------------------------------------------------------------

// Inputs are there.
static void copy_needed(const Partition *p, Graph *to, Value **now, const bool *needed) {
    for (uint32_t i = 0; i < p->graph->values.count; i++)
        if (needed[i] && !now[i])
            now[i] =
                fuse_copy_value(to, p->graph->values.at[i], now,
                                fuse_made_forward(&p->keeps, p->graph->values.at[i]), p->arena);
}

static void copy_inputs(const Partition *p, Graph *to, Value **now, TensorUse use,
                        const bool *needed) {
    for (uint32_t i = 0; i < p->graph->inputs.count; i++) {
        const Value *input = p->graph->inputs.at[i];
        if (input->use == use && (!needed || needed[input->id]))
            now[input->id] = fuse_copy_value(to, input, now, input->made_for, p->arena);
    }
}

static Graph *build_forward(const Partition *p, Value **now) {
    const Graph *graph = p->graph;
    Graph *to = graph_new_like(graph, graph->arena);
    copy_inputs(p, to, now, USE_PLAIN, NULL);
    copy_needed(p, to, now, fuse_find_forward(&p->keeps, p->arena));
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        if (graph->outputs.at[i].use == USE_PLAIN)
            graph_output_like(to, &graph->outputs.at[i], now[graph->outputs.at[i].value->id]);
    SavedNames names = open_names(p, to);
    for (uint32_t i = 0; i < graph->values.count; i++)
        if (p->keeps.kept[i] && !p->keeps.result[i]) {
            Output saved = {.name = saved_name(&names, graph->values.at[i]), .use = USE_SAVED};
            graph_output_like(to, &saved, now[i]);
            take_output(&names, to, to->outputs.count - 1);
        }
    return to;
}

// now: arguments and kept values.
static void build_backward(const Partition *p, Graph *to, Value **now) {
    const Graph *graph = p->graph;
    copy_inputs(p, to, now, USE_COTANGENT, NULL);
    fuse_build_backward(&p->keeps, to, now, p->arena);
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        if (graph->outputs.at[i].use == USE_GRADIENT)
            graph_output_like(to, &graph->outputs.at[i], now[graph->outputs.at[i].value->id]);
}

Graph *partition_forward(const Partition *p) {
    return build_forward(p, arena_array(p->arena, Value *, p->graph->values.count + 1));
}

Graph *partition_joined(const Partition *p) {
    Value **now = arena_array(p->arena, Value *, p->graph->values.count + 1);
    Graph *to = build_forward(p, now);
    for (uint32_t i = 0; i < p->graph->values.count; i++)
        if (!p->keeps.kept[i] && p->graph->values.at[i]->op != OP_INPUT)
            now[i] = NULL;
    build_backward(p, to, now);
    return to;
}

// An argument that holds an output of the forward part: a result, beside all arguments and
// cotangents, or what is saved.
static Value *kept_input(const Partition *p, Graph *to, const Graph *forward, uint32_t place,
                         bool learned) {
    const Output *output = &forward->outputs.at[place];
    bool saved = output->use == USE_SAVED;
    Name name = saved ? output->name : graph_output_source_name(p->graph, place);
    Value *input =
        graph_input(to, name, output->value->elem, output->order, learned ? ROLE_PARAM : ROLE_DATA);
    input->use = saved ? USE_SAVED : USE_RESULT;
    input->output = place;
    return input;
}

// The saved tensors, or the results, that backward begins with. What is made of positions alone
// (the angles of a rotation) is not learned, nor are its dims.
static void copy_kept(const Partition *p, Graph *to, Value **now, const Graph *forward,
                      bool results) {
    const bool *data = fuse_depends_on(p->graph, ROLE_DATA, p->arena);
    const bool *param = fuse_depends_on(p->graph, ROLE_PARAM, p->arena);
    uint32_t saved = 0;
    while (saved < forward->outputs.count && forward->outputs.at[saved].use == USE_PLAIN)
        saved++;
    for (uint32_t i = 0; i < p->graph->values.count; i++) {
        if (!p->keeps.kept[i] || (p->keeps.result[i] != 0) != results)
            continue;
        uint32_t place = results ? p->keeps.result[i] - 1 : saved++;
        now[i] = kept_input(p, to, forward, place, param[i] && !data[i]);
    }
}

Graph *partition_backward(const Partition *p, const Graph *forward) {
    const Graph *graph = p->graph;
    Graph *to = graph_new_like(graph, graph->arena);
    for (uint32_t d = 0; d < graph->dims.count; d++)
        to->dims.at[d].table = p->table[d];
    Value **now = arena_array(p->arena, Value *, graph->values.count + 1);
    copy_inputs(p, to, now, USE_PLAIN, p->keeps.needed);
    copy_kept(p, to, now, forward, true);
    copy_kept(p, to, now, forward, false);
    build_backward(p, to, now);
    return to;
}

const Partition *graph_partition(const Graph *graph, const int64_t *extents, const Machine *machine,
                                 Saving saving) {
    Partition *p = arena_new_of(graph->arena, Partition);
    p->graph = graph;
    p->arena = graph->arena;
    p->keeps = fuse_keep(graph, extents, machine, saving);
    p->table = fuse_table_dims(graph, extents, p->arena);
    return p;
}
