// SPDX-License-Identifier: Apache-2.0
// Splits and merges of dims that are only other names for the same memory.
//
//     S[n, h, k] = split(T[n, e], e -> h k)     T in memory: n e      S: the same elements as n h k
//     M[n, e] = merge(O[n, h, k], h k -> e)     O in memory: n h k    M: the same elements as n e
//                                               O in memory: h n k    M: a copy
//
// What a split reads is written as its writer likes best, and read under the names of the split:
// that is a view in any order. A merge is one where its parts follow each other, which
// graph_layout sees to for what is computed, and an input has or has not. A result of the entry
// that is a view of something computed gives it its own memory: O is written straight into M. So
// does a gradient that is added to what is there (graph_accumulate), if tasks add to it in turn.
#include "graph/fuse/fuse.h"
#include "graph/fuse/layout.h"

DimId regroup_last(const Value *regroup) {
    return regroup->digits->at[regroup->digits->count - 1];
}

// With the parts in the place of dim.
static bool order_apart(const DimList *order, DimId dim, const DimList *parts, DimList *out) {
    *out = (DimList){0};
    if (order->count - 1 + parts->count > DIMS_MAX)
        return false;
    for (uint32_t i = 0; i < order->count; i++)
        for (uint32_t k = 0; k < (order->at[i] == dim ? parts->count : 1); k++)
            out->at[out->count++] = order->at[i] == dim ? parts->at[k] : order->at[i];
    return true;
}

// With dim in the place of the parts, which follow each other.
static bool order_together(const DimList *order, DimId dim, const DimList *parts, DimList *out) {
    *out = (DimList){0};
    uint32_t met = 0;
    for (uint32_t i = 0; i < order->count; i++) {
        bool part = dims_has(parts, order->at[i]), last = met + 1 == parts->count;
        if (part ? order->at[i] != parts->at[met] : met > 0 && met < parts->count)
            return false;
        met += part;
        if (!part || last)
            out->at[out->count++] = part ? dim : order->at[i];
    }
    return true;
}

bool regroup_order(const Value *regroup, const DimList *of_argument, DimList *out) {
    return (regroup->op == OP_SPLIT ? order_apart : order_together)(of_argument, regroup->dim,
                                                                    regroup->digits, out);
}

bool regroup_argument_order(const Value *regroup, const DimList *own, DimList *out) {
    return (regroup->op == OP_SPLIT ? order_together : order_apart)(own, regroup->dim,
                                                                    regroup->digits, out);
}

DimList regroup_glued(const Value *merge, const DimList *order) {
    DimList glued = {0};
    for (uint32_t i = 0; i < order->count; i++)
        if (order->at[i] == regroup_last(merge))
            for (uint32_t k = 0; k < merge->digits->count; k++)
                dims_add(&glued, merge->digits->at[k]);
        else if (!dims_has(merge->digits, order->at[i]))
            dims_add(&glued, order->at[i]);
    return glued;
}

// ---- which of them are views -------------------------------------------------------------------

static bool is_computed(const Value *value) {
    return value->op != OP_INPUT && !op_is_immediate(value->op) && !op_may_be_view(value->op);
}

// The ways to read a value lead to memory; a merge whose parts lie elsewhere in it is computed, by
// readers that do no more than read it.
static bool merge_is_view(const Fuser *fuser, const Value *merge) {
    const Value *arg = merge->args[0];
    DimList order;
    if (arg->op == OP_INPUT)
        return regroup_order(merge, &arg->dims, &order);
    for (const Value **user = fuser->users[merge->id]; *user; user++)
        if (op_may_be_view((*user)->op) || fuser->owner[(*user)->id] < CLUSTER_INLINE)
            return false;
    return is_computed(arg);
}

bool fuse_view_is_certain(const Value *view) {
    return view->op == OP_SPLIT || view->args[0]->op == OP_INPUT;
}

bool fuse_is_result_view(const Fuser *fuser, const Value *value) {
    Accumulated accumulated;
    if (value_is_accumulated(value, &accumulated))
        return fuser->lies_in[accumulated.sum->id] == value;
    return op_regroups(value->op) && fuser->lies_in[value->args[0]->id] == value;
}

bool fuse_is_view(const Fuser *fuser, const Value *value) {
    if (fuse_is_result_view(fuser, value))
        return true;
    if (!op_regroups(value->op) || fuser->result[value->id])
        return false;
    return value->op == OP_SPLIT || merge_is_view(fuser, value);
}

// What tasks add to in turn may begin with what is in the memory of the result: then nothing else
// adds that.
static bool add_to_result(Fuser *fuser, const Value *value) {
    Accumulated accumulated;
    if (!value_is_accumulated(value, &accumulated) || !value_in_turn(accumulated.sum) ||
        fuser->owner[accumulated.sum->id] >= CLUSTER_INLINE || fuser->result[accumulated.sum->id] ||
        fuser->clusters.at[fuser->owner[accumulated.sum->id]].kind != GROUP_STREAM)
        return false;
    for (const Value **user = fuser->users[accumulated.sum->id]; *user; user++)
        if (*user != value && *user != value->args[1])
            return false;
    const Value **user = fuser->users[value->args[1]->id];
    if (user[0] != value || user[1] || fuser->users[value->id][0])
        return false;
    fuser->lies_in[accumulated.sum->id] = value;
    fuser->owner[value->id] = fuser->owner[value->args[1]->id] = CLUSTER_INLINE;
    return true;
}

void fuse_forget_result_view(Fuser *fuser, const Value *sum) {
    const Value *result = fuser->lies_in[sum->id];
    Accumulated accumulated;
    if (!result || !value_is_accumulated(result, &accumulated))
        return;
    fuser->lies_in[sum->id] = NULL;
    fuser->owner[result->id] = fuser->owner[result->args[1]->id] = CLUSTER_NONE;
}

void fuse_find_result_views(Fuser *fuser) {
    const Graph *graph = fuser->graph;
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const Output *output = &graph->outputs.at[i];
        if (add_to_result(fuser, output->value))
            continue;
        const Value *value = output->value, *arg = op_regroups(value->op) ? value->args[0] : NULL;
        DimList order;
        if (output->order.count < value->dims.count)
            continue; // what is saved gets its order later
        if (!arg || !is_computed(arg) || fuser->result[arg->id] || fuser->lies_in[arg->id] ||
            fuser->owner[value->id] != CLUSTER_NONE ||
            !regroup_argument_order(value, &output->order, &order))
            continue;
        fuser->lies_in[arg->id] = value;
    }
}
