// SPDX-License-Identifier: Apache-2.0
// graph_cut: reductions of much to little in parts, so that there is a task for each part. A
// reduction of few results would be one task.
//
//     s = sum(X[n, d], reduced_dim=(n, d))     p[part, d] = sum of each part of n     32 tasks
//                                              s = sum(p, reduced_dim=(part, d))      1 task
//     einsum(x[n], y[n])                       as sum(x * y, reduced_dim=n)
//
// The number of parts is fixed: results do not depend on the number of threads, and what the parts
// are added up from is added in one order. Parts of halves are f32.
//
// Requires: graph_expand. Ensures: reductions in parts are over one dim, with REDUCTION_PARTS
// parts.
#include "graph/rewrite/rewrite.h"

// More results than these are tasks enough. With a dim that is known at run time only, which may be
// long: parts cost next to nothing where they are of one result or two.
static const double FEW = 64, FEW_DYNAMIC = 4;
static const double MUCH = 1 << 18; // elements that are worth it, 1 MiB of f32; all three chosen

typedef struct {
    const int64_t *extents;
    const bool *carries; // by DimId: of a scan that carries something, whose steps are not cut
    DimId parts;         // DIM_NONE: none was needed so far
} Cut;

static DimId parts_dim(Rewrite *rewrite) {
    Cut *cut = rewrite->data;
    Graph *graph = rewrite->to;
    if (cut->parts != DIM_NONE)
        return cut->parts;
    Name name = names_find(graph->session->names, "part");
    bool taken = graph_find_dim(graph, name) != DIM_NONE;
    cut->parts = taken ? graph_new_dim(graph, "part_", 2, REDUCTION_PARTS)
                       : graph_dim(graph, name, REDUCTION_PARTS);
    graph->dims.at[cut->parts].made = true;
    return cut->parts;
}

// The dim that is cut: a long one, the first of those, since tensors are worked off in their order.
// DIM_NONE: it is not worth it.
static DimId dim_to_cut(const Rewrite *rewrite, const DimList *all, const DimList *kept) {
    const Cut *cut = rewrite->data;
    const int64_t *extents = cut->extents;
    DimList over = dims_minus(all, kept);
    double results = (double)dims_volume(kept, extents);
    double elements = (double)dims_volume(all, extents);
    DimId best = DIM_NONE;
    bool dynamic = false, steps = false;
    for (uint32_t i = 0; i < all->count; i++)
        steps = steps || cut->carries[all->at[i]];
    for (uint32_t i = 0; i < over.count; i++) {
        bool open = rewrite->from->dims.at[over.at[i]].extent == EXTENT_DYNAMIC;
        if (best == DIM_NONE || (open && !dynamic) ||
            (open == dynamic && extents[over.at[i]] > extents[best]))
            best = over.at[i];
        dynamic = dynamic || open;
    }
    bool worth = elements >= MUCH ? results <= FEW : dynamic && results <= FEW_DYNAMIC;
    bool long_enough = dynamic || extents[best] >= REDUCTION_PARTS;
    return worth && long_enough && !steps ? best : DIM_NONE;
}

static Value *in_parts(Rewrite *rewrite, Op op, Value *x, DimId dim, const DimList *kept) {
    Graph *graph = rewrite->to;
    DimId parts = parts_dim(rewrite);
    Value *all = graph_reduce_parts(graph, op, x, *kept, dim, parts);
    return graph_reduce(graph, op, all, *kept);
}

static Value *cut_reduction(Rewrite *rewrite, const Value *value, Value **args) {
    DimId dim = dim_to_cut(rewrite, &value->args[0]->dims, &value->dims);
    if (dim == DIM_NONE)
        return rewrite_keep(rewrite, value, args);
    Value *x = graph_cast(rewrite->to, args[0], elem_work(value->elem));
    return graph_cast(rewrite->to, in_parts(rewrite, value->op, x, dim, &value->dims), value->elem);
}

// A contraction that reads each element of the larger operand once, where that is all there is.
static Value *cut_contraction(Rewrite *rewrite, const Value *value, Value **args) {
    Graph *graph = rewrite->to;
    const DimList *a = &value->args[0]->dims;
    bool once = value->n_args == 2 &&
                (dims_subset(a, &value->args[1]->dims) || dims_subset(&value->args[1]->dims, a));
    DimList all = once ? dims_union(a, &value->args[1]->dims) : value->dims;
    DimId dim = once ? dim_to_cut(rewrite, &all, &value->dims) : DIM_NONE;
    if (dim == DIM_NONE)
        return rewrite_keep(rewrite, value, args);
    Value *x[2];
    for (int k = 0; k < 2; k++)
        x[k] = graph_cast(graph, args[k], elem_work(value->elem));
    Value *products = graph_map2(graph, OP_MUL, x[0], x[1]);
    Value *sum = in_parts(rewrite, OP_SUM, products, dim, &value->dims);
    if (value->number != 1)
        sum = graph_map2(graph, OP_MUL, sum, graph_const(graph, value->number, sum->elem));
    return graph_cast(graph, sum, value->elem);
}

static Value *cut_value(Rewrite *rewrite, const Value *value, Value **args) {
    if (value_adds_rows(value))
        return rewrite_keep(rewrite, value, args);
    if (op_kind(value->op) == KIND_REDUCE)
        return cut_reduction(rewrite, value, args);
    if (value->op == OP_CONTRACT)
        return cut_contraction(rewrite, value, args);
    return rewrite_keep(rewrite, value, args);
}

Graph *graph_cut(const Graph *graph, const int64_t *extents) {
    Arena *arena = arena_new();
    bool *carries = arena_array(arena, bool, graph->dims.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++)
        if (graph->values.at[i]->op == OP_CARRY)
            carries[graph->values.at[i]->dim] = true;
    Cut cut = {.extents = extents, .carries = carries, .parts = DIM_NONE};
    return rewrite_graph("cut", graph, graph->arena, arena, cut_value, &cut);
}
