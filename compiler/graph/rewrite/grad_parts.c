// SPDX-License-Identifier: Apache-2.0
// What gradient rules share: values of the forward pass, and adding up what they contribute.
#include "graph/rewrite/grad.h"

bool gradient_wants(const Gradient *gradient, const Value *value, uint32_t arg) {
    return gradient->wanted[value->args[arg]->id];
}

Value *gradient_now(Gradient *gradient, const Value *value) {
    Value *now = gradient->rewrite.now[value->id];
    return graph_cast(gradient->rewrite.to, now, elem_work(now->elem));
}

Value *gradient_number(Gradient *gradient, double number, const Value *like) {
    return graph_const(gradient->rewrite.to, number, like->elem);
}

// ---- sums ---------------------------------------------------------------------------------------

// A sum of a product is one einsum, which may be worked off in any order.
static Value *summed(Gradient *gradient, Value *part, const DimList *kept) {
    Graph *graph = gradient->rewrite.to;
    if (dims_subset(&part->dims, kept))
        return part;
    DimList left = dims_intersect(&part->dims, kept);
    if (part->op == OP_MUL)
        return graph_einsum(graph, 1, part->args, 2, left);
    return graph_reduce(graph, OP_SUM, part, left);
}

Value *gradient_total(Gradient *gradient, Value *part, DimId dim) {
    if (!dims_has(&part->dims, dim))
        return graph_times_extents(gradient->rewrite.to, part, &(DimList){1, {dim}});
    DimList kept = dims_minus(&part->dims, &(DimList){1, {dim}});
    return summed(gradient, part, &kept);
}

void gradient_add(Gradient *gradient, const Value *value, uint32_t arg, Value *part,
                  const DimList *over) {
    Graph *graph = gradient->rewrite.to;
    const Value *to = value->args[arg];
    Value **adjoint = &gradient->adjoint[to->id];
    DimList missing = dims_minus(over, &part->dims);
    missing = dims_minus(&missing, &to->dims);
    part = graph_times_extents(graph, summed(gradient, part, &to->dims), &missing);
    part = graph_cast(graph, part, elem_work(to->elem));
    *adjoint = *adjoint ? graph_map2(graph, OP_ADD, *adjoint, part) : part;
}
