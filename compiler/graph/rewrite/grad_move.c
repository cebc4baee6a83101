// SPDX-License-Identifier: Apache-2.0
// Gradients of ops that move positions: each position hands its adjoint back to where it came from.
//
//     rename d -> e          rename e -> d
//     gather(E, ids, v)      scatter_add(dy, ids, v): sums over the positions of ids
//     scatter_add(x, ids, v) gather(dy, ids, v), 0 outside
//     x[3]                   where(index == 3, dy, 0)
//     slice from 3           dy from position 3 on, 0 before and behind
//     concat                 a slice of dy for each part
//     shift by 3             shift by -3
//     split d -> h k         merge h k -> d, and the other way round
//     stack of the rows t    row t
#include "graph/rewrite/grad.h"

// index(dim) + offset
static Value *position(Gradient *gradient, DimId dim, int64_t offset) {
    Graph *graph = gradient->rewrite.to;
    Value *index = graph_index(graph, dim);
    return offset ? graph_map2(graph, OP_ADD, index, graph_const(graph, (double)offset, ELEM_I64))
                  : index;
}

// X[t, d], what a scan reads, gets its positions back one by one.
void gradient_of_rename(Gradient *gradient, const Value *value, Value *dy) {
    const Value *arg = value->args[0];
    Leaving leaving = gradient_leaving(gradient, value, arg, NULL);
    DimMap back = {0};
    for (uint32_t i = 0; i < value->renames->count; i++) {
        DimId to = gradient_dim(gradient, &value->dims, value->renames->to[i]);
        DimId from = gradient_dim(gradient, &arg->dims, value->renames->from[i]);
        dimmap_add(dims_has(&leaving.exits, to) ? &leaving.kept : &back, to, from);
    }
    leaving.part = graph_rename_all(gradient->rewrite.to, dy, &back);
    gradient_leave(gradient, leaving);
}

// The table is read under a name of its own where the positions are over its dim as well. What all
// steps of a scan read is summed after them.
void gradient_of_gather(Gradient *gradient, const Value *value, Value *dy) {
    if (!gradient_wants(gradient, value, 0))
        return;
    Graph *graph = gradient->rewrite.to;
    Leaving leaving = gradient_leaving(gradient, value, value->args[0], dy);
    leaving.dim = value->dim;
    if (dims_has(&value->dims, value->dim)) {
        Name base = name_unprimed(graph->session->names, graph->dims.at[value->dim].name);
        const char *text = arena_printf(gradient->rewrite.arena, "%s_", base);
        leaving.dim = graph_new_dim_like(graph, text, 2, value->dim);
        dimmap_add(&leaving.after, leaving.dim, value->dim);
    }
    DimMap rows = gradient_rows(gradient, &leaving.exits);
    for (uint32_t i = 0; i < rows.count; i++)
        if (dimmap_get(&leaving.kept, rows.from[i]) == rows.from[i])
            dimmap_add(&leaving.kept, rows.from[i], rows.to[i]);
    leaving.ids = graph_rename_all(graph, gradient_copy(gradient, value->args[1]), &rows);
    gradient_leave(gradient, leaving);
}

void gradient_of_scatter(Gradient *gradient, const Value *value, Value *dy) {
    Graph *graph = gradient->rewrite.to;
    Value *ids = graph_cast(graph, gradient_copy(gradient, value->args[1]), ELEM_I64);
    Value *ended = graph_map2(graph, OP_LT, ids, graph_extent(graph, value->dim));
    Value *begun = graph_map2(graph, OP_LE, graph_const(graph, 0, ELEM_I64), ids);
    Value *inside = graph_map2(graph, OP_AND, begun, ended);
    if (dims_has(&dy->dims, value->dim))
        dy = graph_gather(graph, dy, ids, value->dim);
    DimList all = dims_union(&value->args[0]->dims, &value->args[1]->dims);
    gradient_add(gradient, value, 0, graph_or_zero(graph, inside, dy), &all);
}

void gradient_of_take(Gradient *gradient, const Value *value, Value *dy) {
    Graph *graph = gradient->rewrite.to;
    Value *taken = graph_const(graph, (double)value->offset, ELEM_I64);
    Value *here = graph_map2(graph, OP_EQ, graph_index(graph, value->dim), taken);
    gradient_add(gradient, value, 0, graph_or_zero(graph, here, dy), &value->args[0]->dims);
}

void gradient_of_slice(Gradient *gradient, const Value *value, Value *dy) {
    Graph *graph = gradient->rewrite.to;
    Value *at = position(gradient, value->dim, -value->offset);
    Value *inside = graph_map2(graph, OP_LT, at, graph_extent(graph, value->dim2));
    if (value->offset)
        inside = graph_map2(graph, OP_AND, inside,
                            graph_map2(graph, OP_LE, graph_const(graph, 0, ELEM_I64), at));
    if (dims_has(&dy->dims, value->dim2))
        dy = graph_gather(graph, dy, at, value->dim2);
    gradient_add(gradient, value, 0, graph_or_zero(graph, inside, dy), &value->args[0]->dims);
}

// Part k of dy, which begins `before` positions, and the extents of dynamic parts, from its start.
static Value *part_of_concat(Gradient *gradient, const Value *value, Value *dy, uint32_t k) {
    Graph *graph = gradient->rewrite.to;
    int64_t known = 0;
    Value *dynamic = NULL;
    for (uint32_t i = 0; i < k; i++) {
        int64_t extent = graph->dims.at[value->cats[i]].extent;
        if (extent != EXTENT_DYNAMIC) {
            known += extent;
            continue;
        }
        Value *more = graph_extent(graph, value->cats[i]);
        dynamic = dynamic ? graph_map2(graph, OP_ADD, dynamic, more) : more;
    }
    if (!dynamic)
        return graph_slice(graph, dy, value->dim2, value->cats[k], known);
    Value *at = graph_map2(graph, OP_ADD, position(gradient, value->cats[k], known), dynamic);
    return graph_gather(graph, dy, at, value->dim2);
}

void gradient_of_concat(Gradient *gradient, const Value *value, Value *dy) {
    bool uniform = !dims_has(&dy->dims, value->dim2);
    for (uint32_t k = 0; k < value->n_args; k++) {
        if (!gradient_wants(gradient, value, k))
            continue;
        Value *part = uniform ? dy : part_of_concat(gradient, value, dy, k);
        DimList over = dims_renamed(&value->dims, &(DimMap){1, {value->dim2}, {value->cats[k]}});
        gradient_add(gradient, value, k, part, &over);
    }
}

void gradient_of_shift(Gradient *gradient, const Value *value, Value *dy) {
    Graph *graph = gradient->rewrite.to;
    dy = graph_over(graph, dy, &(DimList){1, {value->dim}});
    Value *part = graph_shift(graph, dy, value->dim, -value->offset);
    gradient_add(gradient, value, 0, part, &value->dims);
}

void gradient_of_regroup(Gradient *gradient, const Value *value, Value *dy) {
    Graph *graph = gradient->rewrite.to;
    DimList dims = gradient_dims(gradient, &value->dims);
    dy = graph_over(graph, dy, &dims);
    Value *part = value->op == OP_SPLIT ? graph_merge(graph, dy, value->digits, value->dim)
                                        : graph_split(graph, dy, value->dim, value->digits);
    gradient_add(gradient, value, 0, part, &value->args[0]->dims);
}

void gradient_of_stack(Gradient *gradient, const Value *value, Value *dy) {
    const Value *row = value->args[0];
    DimId step = gradient_dim(gradient, &row->dims, value->dim);
    Value *part = graph_rename(gradient->rewrite.to, dy, value->dim2, step);
    gradient_leave(gradient, (Leaving){.to = row, .part = part, .dim = DIM_NONE});
}

void gradient_of_last(Gradient *gradient, const Value *value, Value *dy) {
    gradient->last[graph_scan_carry(value, 0).carry->id] = dy;
}
