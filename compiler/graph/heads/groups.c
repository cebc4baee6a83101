// SPDX-License-Identifier: Apache-2.0
// graph_head_groups: what is removed together with a head, and whether a head can be removed.
//
//     Q[n, d_k, h] = einsum(X[n, d], P_q[d, d_k, h])        one group: h of W, of P_q and of P_o
//     W[n, m, h] = softmax(einsum(Q, K[m, d_k]), reduced_dim=m)
//     Y[n, d] = einsum(W[n, m, h], V[m, d_v], P_o[d, d_v, h])
//
// A node is a dim of a value. Nodes that are the same position of the same head are one group:
// those of operands and results of one name, and of operands that a sum goes over. Taking a
// position out of all of a group leaves the results as they are with a mask of 0 there, if whatever
// sums over the heads multiplies with something that is then 0, nothing looks at a head's number or
// at how many there are, and nothing moves along the dim. What is 0 follows from masks by the rules
// of the ops.
//
// Requires: what graph_head_masks makes. Ensures: a group of every dim of each mask, and the
// parameters that have it.
#include "graph/model.h"

typedef struct {
    const Graph *graph;
    uint32_t *first;    // by value id: the number of its first node, one for each dim
    uint32_t *same;     // by node: sets
    bool *zero;         // by node: it is 0 at a position where a mask is
    bool *numbered;     // by node: it depends on the position's number
    const char **fault; // by node: why its group keeps all positions; NULL: no reason known
    Arena *arena;       // of the result
} Search;

static uint32_t node_of(const Search *s, const Value *value, DimId dim) {
    uint32_t i = 0;
    while (value->dims.at[i] != dim)
        i++;
    return s->first[value->id] + i;
}

static const char *title(const Search *s, const Value *value) {
    const char *path = value->path ? value->path : "";
    return value->hint ? arena_printf(s->arena, "'%s%s'", path, value->hint)
                       : arena_printf(s->arena, "a value (%s)", op_name(value->op));
}

static void blame(Search *s, uint32_t node, const char *why) {
    if (!s->fault[node])
        s->fault[node] = why;
}

// ---- what is 0 ---------------------------------------------------------------------------------

// An argument at a position of `dim`, as the value calls it.
static bool arg_is_zero(const Search *s, const Value *value, uint32_t k, DimId dim) {
    const Value *arg = value->args[k];
    for (uint32_t i = 0; i < arg->dims.count; i++)
        if (value_moved_dim(value, k, arg->dims.at[i]) == dim)
            return s->zero[s->first[arg->id] + i];
    return value_is_zero(arg);
}

static bool is_zero(const Search *s, const Value *value, DimId dim) {
    switch (value->op) {
    case OP_MUL:
    case OP_CONTRACT:
        for (uint32_t k = 0; k < value->n_args; k++)
            if (arg_is_zero(s, value, k, dim))
                return true;
        return false;
    case OP_ADD:
    case OP_SUB:
    case OP_MIN:
    case OP_MAX:
        return arg_is_zero(s, value, 0, dim) && arg_is_zero(s, value, 1, dim);
    case OP_SELECT:
        return arg_is_zero(s, value, 1, dim) && arg_is_zero(s, value, 2, dim);
    case OP_COPY:
    case OP_STOP_GRADIENT:
    case OP_CAST:
    case OP_NEG:
    case OP_ABS:
    case OP_SQRT:
    case OP_TANH:
    case OP_ERF:
    case OP_SIN:
    case OP_FLOOR:
    case OP_DIV:
    case OP_SUM:
    case OP_PROD:
    case OP_REDUCE_MAX:
    case OP_REDUCE_MIN:
    case OP_REDUCE_TOP:
    case OP_CUMSUM:
    case OP_RENAME:
    case OP_SLICE:
    case OP_SHIFT:
        return arg_is_zero(s, value, 0, dim);
    default:
        return false;
    }
}

// ---- groups ------------------------------------------------------------------------------------

static bool is_same_twice(const Value *value) { // see graph_over
    return value->op == OP_EQ && value->args[0] == value->args[1];
}

// Does it do more along the dim of an argument than to read each position by itself?
static bool works_along(const Value *value, uint32_t arg, DimId dim) {
    switch (value->op) {
    case OP_SOFTMAX:
    case OP_LOG_SOFTMAX:
    case OP_CUMSUM:
    case OP_ARGMAX:
    case OP_TAKE:
    case OP_SLICE:
    case OP_SHIFT:
    case OP_ORDER:
    case OP_SPLIT:
        return dim == value->dim;
    case OP_CONCAT:
        return dim == value->cats[arg];
    case OP_MERGE:
        return dims_has(value->digits, dim);
    case OP_GATHER:
    case OP_SCATTER_ADD:
        return arg == 0 && dim == value->dim;
    default:
        return op_kind(value->op) == KIND_SCAN;
    }
}

// An argument's dim that the value lacks: the operands have it in common, and one has to be 0.
static void leave(Search *s, const Value *value, uint32_t arg, DimId dim) {
    uint32_t node = node_of(s, value->args[arg], dim);
    bool sums = value->op == OP_CONTRACT || value->op == OP_SUM;
    for (uint32_t k = 0; k < value->n_args; k++)
        if (k != arg && dims_has(&value->args[k]->dims, dim))
            sets_join(s->same, node, node_of(s, value->args[k], dim));
    if (!sums)
        blame(s, node, arena_printf(s->arena, "%s is over all of them", title(s, value)));
    else if (!is_zero(s, value, dim))
        blame(s, node,
              arena_printf(s->arena, "%s adds up what is not 0 without the head's weights",
                           title(s, value)));
}

static void pass_on(Search *s, const Value *value, uint32_t arg, DimId dim) {
    uint32_t node = node_of(s, value->args[arg], dim);
    DimId moved = value_moved_dim(value, arg, dim);
    if (works_along(value, arg, dim)) {
        const char *why = arena_printf(s->arena, "%s works along them", title(s, value));
        blame(s, node, why);
        if (dims_has(&value->dims, moved))
            blame(s, node_of(s, value, moved), why);
        return;
    }
    if (!dims_has(&value->dims, moved)) {
        leave(s, value, arg, dim);
        return;
    }
    uint32_t to = node_of(s, value, moved);
    sets_join(s->same, node, to);
    if (s->numbered[node] && value->op != OP_RANDOM && !is_same_twice(value))
        s->numbered[to] = true;
}

// A dim of a value that no argument has.
static bool is_new(const Value *value, DimId dim) {
    for (uint32_t k = 0; k < value->n_args; k++)
        for (uint32_t i = 0; i < value->args[k]->dims.count; i++)
            if (value_moved_dim(value, k, value->args[k]->dims.at[i]) == dim)
                return false;
    return true;
}

static bool is_mask(const HeadMasks *masks, const Value *value) {
    for (uint32_t i = 0; i < masks->masks.count; i++)
        if (masks->masks.at[i].input == value)
            return true;
    return false;
}

static void begin(Search *s, const HeadMasks *masks, const Value *value, DimId dim) {
    uint32_t node = node_of(s, value, dim);
    s->zero[node] = value->op == OP_INPUT && is_mask(masks, value);
    s->numbered[node] = value->op == OP_INDEX;
    if (value->op == OP_INPUT && value->role == ROLE_DATA && !s->zero[node])
        blame(s, node, arena_printf(s->arena, "%s is data", title(s, value)));
    else if (value->op != OP_INPUT && value->op != OP_INDEX)
        blame(s, node, arena_printf(s->arena, "%s makes them", title(s, value)));
}

static void visit(Search *s, const HeadMasks *masks, const Value *value) {
    for (uint32_t i = 0; i < value->dims.count; i++)
        if (is_new(value, value->dims.at[i]))
            begin(s, masks, value, value->dims.at[i]);
    for (uint32_t k = 0; k < value->n_args; k++)
        for (uint32_t i = 0; i < value->args[k]->dims.count; i++)
            pass_on(s, value, k, value->args[k]->dims.at[i]);
    for (uint32_t i = 0; i < value->dims.count && value->n_args; i++) {
        uint32_t node = s->first[value->id] + i;
        s->zero[node] = is_zero(s, value, value->dims.at[i]);
        if (s->numbered[node] && elem_is_float(value->elem))
            blame(s, node, arena_printf(s->arena, "%s depends on their numbers", title(s, value)));
    }
}

static void find_nodes(Search *s, const HeadMasks *masks, Arena *arena) {
    const Graph *graph = s->graph;
    const bool *live = graph_live(graph, arena);
    uint32_t count = 0;
    s->first = arena_array(arena, uint32_t, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        s->first[i] = count;
        count += graph->values.at[i]->dims.count;
    }
    s->same = sets_new(arena, count + 1);
    s->zero = arena_array(arena, bool, count + 1);
    s->numbered = arena_array(arena, bool, count + 1);
    s->fault = arena_array(arena, const char *, count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++)
        if (live[i])
            visit(s, masks, graph->values.at[i]);
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        for (uint32_t d = 0; d < graph->outputs.at[i].value->dims.count; d++)
            blame(s, s->first[graph->outputs.at[i].value->id] + d, "a result is over them");
    for (uint32_t node = 0; node < count; node++)
        if (s->fault[node])
            blame(s, sets_find(s->same, node), s->fault[node]);
}

// ---- the result --------------------------------------------------------------------------------

static DimId class_of(const Graph *graph, DimId dim) {
    return graph->dims.at[dim].like;
}

static HeadGroup *group_of(Search *s, HeadGroups *groups, uint32_t set, DimId dim) {
    for (uint32_t i = 0; i < groups->count; i++)
        if (groups->at[i].number == set)
            return &groups->at[i];
    HeadGroup made = {.number = set, .dim = class_of(s->graph, dim), .fault = s->fault[set]};
    made.name = name_unprimed(s->graph->session->names, s->graph->dims.at[made.dim].name);
    if (!made.fault && graph_is_counted(s->graph, made.dim))
        made.fault = "their number is used as a number";
    vec_push(s->arena, groups, made);
    return &groups->at[groups->count - 1];
}

static void add_masks(Search *s, const HeadMasks *masks, HeadGroups *groups) {
    for (uint32_t i = 0; i < masks->masks.count; i++) {
        const Value *input = masks->masks.at[i].input;
        for (uint32_t d = 0; d < input->dims.count; d++) {
            DimId dim = input->dims.at[d];
            uint32_t set = sets_find(s->same, node_of(s, input, dim));
            HeadAxis axis = {i, d};
            HeadGroup *group = group_of(s, groups, set, dim);
            vec_push(s->arena, &group->masks, axis);
            if (input->dims.count > 1 && !group->fault)
                group->fault = arena_printf(s->arena, "the heads of %s are over several dims",
                                            masks->masks.at[i].of);
        }
    }
}

static bool is_head_dim(const Search *s, const HeadGroups *groups, uint32_t count, DimId dim) {
    for (uint32_t i = 0; i < count; i++)
        if (groups->at[i].dim == class_of(s->graph, dim))
            return true;
    return false;
}

// One text has one extent for each dim: what has a head dim and no mask would keep all of it.
static void add_params(Search *s, HeadGroups *groups) {
    uint32_t masked = groups->count;
    for (uint32_t i = 0; i < s->graph->inputs.count; i++) {
        const Value *input = s->graph->inputs.at[i];
        for (uint32_t d = 0; d < input->dims.count && input->role == ROLE_PARAM; d++) {
            DimId dim = input->dims.at[d];
            if (!is_head_dim(s, groups, masked, dim))
                continue;
            uint32_t set = sets_find(s->same, node_of(s, input, dim));
            HeadGroup *group = group_of(s, groups, set, dim);
            HeadAxis axis = {i, d};
            vec_push(s->arena, &group->params, axis);
            if (!group->masks.count && !group->fault)
                group->fault =
                    arena_printf(s->arena, "%s has them outside of attention", title(s, input));
        }
    }
}

HeadGroups graph_head_groups(const HeadMasks *masks, Arena *arena) {
    Arena *own = arena_new();
    Search s = {.graph = masks->graph, .arena = arena};
    HeadGroups groups = {0};
    find_nodes(&s, masks, own);
    add_masks(&s, masks, &groups);
    add_params(&s, &groups);
    arena_free(own);
    return groups;
}
