// SPDX-License-Identifier: Apache-2.0
// graph_partition: a graph with its gradient as two, which a library calls one after the other.
//
//     before    Q, K = einsum(X, P_q), ...;  top, z, W = softmax(einsum(Q, K));  O = einsum(W, V)
//               Y = einsum(O, P_o);  dO = einsum(dY, P_o);  dV = einsum(W, dO);  ...
//                                                                         returned: Y, dX, dP_q,
//                                                                         ...
//     forward   Q, K, V, top, z, W, O, Y                   returned: Y, saved_Q, .., saved_O
//     backward  with arguments X, P_q, .., saved_Q, .., dY: W = exp(einsum(Q, K) - top) / z again,
//               dO, dV, ...                                               returned: dX, dP_q, ...
//
// What is saved is as few bytes as possible from which the backward part can go on: a minimum cut
// between values that are not computed twice (einsums, reductions, what scans leave) and those that
// it reads. Pointwise values and moves are computed again, and so are the wide values of fuse.h,
// whatever they are made by: nothing quadratic is saved unless it is a result, which costs nothing,
// as the caller has it. Where two cuts are equal, the one that leaves less to compute again.
//
// Requires: graph_expand. Ensures: both parts are as graph_expand leaves them, over the same dims.
//
// Source: minimum-cut rematerialisation as in PyTorch's AOTAutograd; saved row statistics in place
// of weights: Dao et al. 2022.
#include "graph/fuse/fuse.h"

#include <math.h>

struct Partition {
    const Graph *graph;
    const int64_t *extents;
    Arena *arena;      // of the graph
    const bool *after; // by value id: of the backward part, see graph_backward
    bool *again;       // by value id: computed again in any case
    uint32_t *result;  // by value id: 1 + the place among the outputs; 0: it is no result
    bool *kept;        // by value id: what backward begins with, saved or a result
};

// ---- which values are computed again in any case -----------------------------------------------

static bool has_parameters(const Graph *graph) {
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.at[i]->role == ROLE_PARAM)
            return true;
    return false;
}

// Is it larger than what it is made of, with the pair?
static bool expands(const Partition *p, const FusePair *pair, const Value *value) {
    return fuse_makes_pair(value, pair->x, pair->y) &&
           dims_volume(&value->dims, p->extents) >
               dims_volume(&value->args[0]->dims, p->extents) +
                   dims_volume(&value->args[1]->dims, p->extents);
}

// Is it the sum of a softmax over one dim of the pair?
static bool normalises(const FusePair *pair, const Value *value) {
    const Value *power = value->op == OP_SUM ? value->args[0] : NULL;
    return power && (power->op == OP_EXP || power->op == OP_EXP2) &&
           dims_has(&power->dims, pair->x) && dims_has(&power->dims, pair->y) &&
           dims_has(&value->dims, pair->x) != dims_has(&value->dims, pair->y);
}

// Where nothing tells parameters from data, any product of an argument with a matrix makes a pair.
static bool is_of_positions(const Partition *p, const FusePair *pair) {
    for (uint32_t i = 0; i < p->graph->values.count; i++)
        if (expands(p, pair, p->graph->values.at[i]) || normalises(pair, p->graph->values.at[i]))
            return true;
    return has_parameters(p->graph);
}

static bool keeps_all(const Value *value) {
    return op_kind(value->op) == KIND_MAP || value->op == OP_RENAME || op_regroups(value->op) ||
           value->op == OP_SLICE || value->op == OP_CONCAT || value->op == OP_SHIFT;
}

static void mark_wide(Partition *p, const bool *live) {
    const Graph *graph = p->graph;
    Fuser fuser = {.arena = p->arena, .graph = (Graph *)graph, .extents = p->extents, .live = live};
    fuser.learned = fuse_learned_dims(graph, p->arena);
    fuser.data = fuse_depends_on(graph, ROLE_DATA, p->arena);
    FusePairs pairs = fuse_find_pairs(&fuser);
    const FusePair **by = arena_array(p->arena, const FusePair *, graph->values.count + 1);
    for (uint32_t k = 0; k < pairs.count && pairs.at[k].positions; k++) {
        if (!is_of_positions(p, &pairs.at[k]))
            continue;
        bool *wide = fuse_claim_wide(graph, &pairs.at[k], live, by, p->arena);
        for (uint32_t i = 0; wide && i < graph->values.count; i++)
            p->again[i] = p->again[i] || wide[i];
    }
}

static bool is_of_step(const Graph *graph, const Value *value) {
    for (uint32_t i = 0; i < value->dims.count; i++)
        if (graph->dims.at[value->dims.at[i]].scan)
            return true;
    return false;
}

// Wide values under other names, and those of single steps of a scan.
static void mark_again(Partition *p, const bool *live) {
    mark_wide(p, live);
    for (uint32_t i = 0; i < p->graph->values.count; i++) {
        const Value *value = p->graph->values.at[i];
        for (uint32_t k = 0; keeps_all(value) && k < value->n_args; k++)
            p->again[i] = p->again[i] || p->again[value->args[k]->id];
        p->again[i] = p->again[i] || is_of_step(p->graph, value);
    }
}

// ---- the cut -----------------------------------------------------------------------------------

// Is it computed from its arguments where it is needed, unless it is kept?
static bool is_cheap(const Partition *p, const Value *value) {
    OpKind kind = op_kind(value->op);
    bool moves = kind == KIND_MOVE && value->op != OP_ORDER && value->op != OP_SCATTER_ADD;
    return p->again[value->id] || kind == KIND_MAP || moves;
}

// A copy that only moves would have to be made before it could be kept: the least of differences.
static double cost_of_keeping(const Partition *p, const Value *value) {
    if (p->result[value->id])
        return 0;
    if (p->again[value->id])
        return INFINITY;
    double bytes = (double)dims_volume(&value->dims, p->extents) * (double)elem_bytes(value->elem);
    return 2 * bytes + (op_kind(value->op) == KIND_MOVE);
}

// Needed by a gradient, directly or not.
static bool *mark_needed(const Partition *p, TensorUse use) {
    const Graph *graph = p->graph;
    bool *needed = arena_array(p->arena, bool, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        if (graph->outputs.at[i].use == use)
            needed[graph->outputs.at[i].value->id] = true;
    return needed;
}

// Two nodes for each value, that it is computed and that it is there; what keeping it costs is the
// edge between them.
static void find_kept(Partition *p) {
    const Graph *graph = p->graph;
    uint32_t count = graph->values.count, source = 2 * count, sink = source + 1;
    Network *network = network_new(p->arena, 2 * count + 2);
    bool *needed = mark_needed(p, USE_GRADIENT);
    for (uint32_t i = count; i-- > 0;) {
        const Value *value = graph->values.at[i];
        bool before = !p->after[i] && !fuse_is_free(value);
        if (before && needed[i])
            network_edge(network, 2 * i + 1, sink, INFINITY);
        if (before)
            network_edge(network, 2 * i, 2 * i + 1, cost_of_keeping(p, value));
        if (before && !is_cheap(p, value))
            network_edge(network, source, 2 * i, INFINITY);
        for (uint32_t k = 0; k < value->n_args; k++) {
            uint32_t arg = value->args[k]->id;
            needed[arg] = needed[arg] || (p->after[i] && needed[i]);
            if (before && is_cheap(p, value))
                network_edge(network, 2 * arg + 1, 2 * i, INFINITY);
        }
    }
    const bool *side = network_cut(network, source, sink);
    if (!side)
        ice("partition: the backward part needs a value that cannot be kept");
    p->kept = arena_array(p->arena, bool, count + 1);
    for (uint32_t i = 0; i < count; i++)
        p->kept[i] =
            !p->after[i] && side[2 * i + 1] && !side[2 * i] && !fuse_is_free(graph->values.at[i]);
}

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

// The first value that is made of this one and has a name; NULL: none has.
static const Value *named_user(const Partition *p, const Value *value) {
    for (uint32_t i = value->id + 1; i < p->graph->values.count; i++) {
        const Value *user = p->graph->values.at[i];
        for (uint32_t k = 0; !p->after[i] && k < user->n_args; k++)
            if (user->args[k] == value)
                return user->hint ? user : named_user(p, user);
    }
    return NULL;
}

static bool is_taken(const Graph *graph, Name name) {
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.at[i]->name == name)
            return true;
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        if (graph->outputs.at[i].name == name)
            return true;
    return false;
}

// forward: has what was named so far.
static Name saved_name(const Partition *p, const Graph *forward, const Value *value) {
    Names *names = p->graph->session->names;
    const Value *named = value->hint ? value : named_user(p, value);
    const char *path = named && named->path ? named->path : "";
    const char *base = arena_printf(p->arena, "saved_%s%s", path, named ? named->hint : "value");
    if (named != value)
        base = arena_printf(p->arena, "%s_%s", base, part_name(value));
    Name name = names_find(names, base);
    for (int number = 2; is_taken(p->graph, name) || is_taken(forward, name); number++)
        name = names_find(names, arena_printf(p->arena, "%s_%d", base, number));
    return name;
}

// ---- the parts ---------------------------------------------------------------------------------

// Marks what the marked values are made of, down to what is kept: only backward begins with that.
static void mark_args(const Partition *p, bool *needed, bool backward) {
    for (uint32_t i = p->graph->values.count; i-- > 0;) {
        const Value *value = p->graph->values.at[i];
        for (uint32_t k = 0; needed[i] && !(backward && p->kept[i]) && k < value->n_args; k++)
            needed[value->args[k]->id] = true;
    }
}

static Value *copy_value(const Partition *p, Graph *to, Value *const *now, const Value *value) {
    Value **args = arena_array(p->arena, Value *, value->n_args + 1);
    for (uint32_t k = 0; k < value->n_args; k++)
        args[k] = now[value->args[k]->id];
    Value *copy = graph_rebuild(to, value, args);
    if (!copy->hint && value->hint) {
        copy->hint = value->hint;
        copy->path = value->path;
    }
    if (!copy->origin.file)
        copy->origin = value->origin;
    return copy;
}

// Inputs are there.
static void copy_needed(const Partition *p, Graph *to, Value **now, const bool *needed) {
    for (uint32_t i = 0; i < p->graph->values.count; i++)
        if (needed[i] && !now[i])
            now[i] = copy_value(p, to, now, p->graph->values.at[i]);
}

static void copy_inputs(const Partition *p, Graph *to, Value **now, TensorUse use,
                        const bool *needed) {
    for (uint32_t i = 0; i < p->graph->inputs.count; i++) {
        const Value *input = p->graph->inputs.at[i];
        if (input->use == use && (!needed || needed[input->id]))
            now[input->id] = copy_value(p, to, now, input);
    }
}

Graph *partition_forward(const Partition *p) {
    const Graph *graph = p->graph;
    Graph *to = graph_new_like(graph, graph->arena);
    to->again = true;
    Value **now = arena_array(p->arena, Value *, graph->values.count + 1);
    bool *needed = mark_needed(p, USE_PLAIN);
    for (uint32_t i = 0; i < graph->values.count; i++)
        needed[i] = needed[i] || p->kept[i];
    mark_args(p, needed, false);
    copy_inputs(p, to, now, USE_PLAIN, NULL);
    copy_needed(p, to, now, needed);
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        if (graph->outputs.at[i].use == USE_PLAIN)
            graph_output_like(to, &graph->outputs.at[i], now[graph->outputs.at[i].value->id]);
    for (uint32_t i = 0; i < graph->values.count; i++)
        if (p->kept[i] && !p->result[i]) {
            Output saved = {.name = saved_name(p, to, graph->values.at[i]), .use = USE_SAVED};
            graph_output_like(to, &saved, now[i]);
        }
    return to;
}

// An argument that holds an output of the forward part.
static Value *kept_input(const Partition *p, Graph *to, const Output *output, const Value *value,
                         bool data) {
    Name name = output->name;
    for (uint32_t i = 0; i < p->graph->inputs.count; i++)
        if (p->graph->inputs.at[i]->name == name)
            name = names_find(p->graph->session->names, arena_printf(p->arena, "%s_out", name));
    Value *input = graph_input(to, name, value->elem, output->order, data ? ROLE_DATA : ROLE_PARAM);
    input->use = output->use == USE_SAVED ? USE_SAVED : USE_RESULT;
    return input;
}

// The saved tensors, or the results, that backward begins with.
static void copy_kept(const Partition *p, Graph *to, Value **now, const Graph *forward,
                      bool results) {
    const bool *data = fuse_depends_on(p->graph, ROLE_DATA, p->arena);
    uint32_t saved = 0;
    while (saved < forward->outputs.count && forward->outputs.at[saved].use == USE_PLAIN)
        saved++;
    for (uint32_t i = 0; i < p->graph->values.count; i++) {
        if (!p->kept[i] || (p->result[i] != 0) != results)
            continue;
        uint32_t place = results ? p->result[i] - 1 : saved++;
        now[i] = kept_input(p, to, &forward->outputs.at[place], p->graph->values.at[i], data[i]);
    }
}

Graph *partition_backward(const Partition *p, const Graph *forward) {
    const Graph *graph = p->graph;
    Graph *to = graph_new_like(graph, graph->arena);
    to->again = true;
    Value **now = arena_array(p->arena, Value *, graph->values.count + 1);
    bool *needed = mark_needed(p, USE_GRADIENT);
    mark_args(p, needed, true);
    copy_inputs(p, to, now, USE_PLAIN, needed);
    copy_kept(p, to, now, forward, true);
    copy_kept(p, to, now, forward, false);
    copy_inputs(p, to, now, USE_COTANGENT, NULL);
    copy_needed(p, to, now, needed);
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        if (graph->outputs.at[i].use == USE_GRADIENT)
            graph_output_like(to, &graph->outputs.at[i], now[graph->outputs.at[i].value->id]);
    return to;
}

const Partition *graph_partition(const Graph *graph, const int64_t *extents) {
    Arena *arena = graph->arena;
    uint32_t count = graph->values.count + 1;
    Partition *p = arena_new_of(arena, Partition);
    p->graph = graph;
    p->extents = extents;
    p->arena = arena;
    p->after = graph_backward(graph, arena);
    p->again = arena_array(arena, bool, count);
    p->result = arena_array(arena, uint32_t, count);
    for (uint32_t i = graph->outputs.count; i-- > 0;)
        if (graph->outputs.at[i].use == USE_PLAIN)
            p->result[graph->outputs.at[i].value->id] = i + 1;
    mark_again(p, graph_live(graph, arena));
    find_kept(p);
    return p;
}
