// SPDX-License-Identifier: Apache-2.0
// Einsums that project what is over other positions are cut, so that the projection is kept.
//
//     before  L[n, m, h] = einsum(X[n, d], X[m, d'], P_q[d, k, h], P_k[d', k, h])
//     after   K[m, k, h] = einsum(X[m, d'], P_k[d', k, h])
//             L[n, m, h] = einsum(X[n, d], K[m, k, h], P_q[d, k, h])
//
// Each step of a sequence reads all that is kept. It does less with K, k * h multiplies for each
// position, than with X, d * h. A bilinear form, P[d, d', h] in place of both matrices, stays: d *
// h is no less.
//
// Requires: nothing. Ensures: every value is what it was, sums in another order.
#include "graph/decode/decode.h"
#include "graph/rewrite/rewrite.h"

typedef struct {
    DimId n;
    int64_t *extents;
} Project;

// Dims of one of the arguments alone, or of these two, that are summed.
static DimList private_dims(const Value *einsum, Value *const *args, uint32_t n_args, uint32_t a,
                            uint32_t b) {
    DimList common = dims_intersect(&args[a]->dims, &args[b]->dims);
    common = dims_minus(&common, &einsum->dims);
    for (uint32_t k = 0; k < n_args; k++)
        if (k != a && k != b)
            common = dims_minus(&common, &args[k]->dims);
    return common;
}

static DimList of_sequence(const Graph *graph, const DimList *dims, DimId n) {
    DimList found = {0};
    for (uint32_t i = 0; i < dims->count; i++)
        if (graph_dims_alike(graph, dims->at[i], n))
            dims_add(&found, dims->at[i]);
    return found;
}

// What the einsum multiplies for one position if argument a stays as it is.
static int64_t work_without(const Project *project, const Graph *graph, const Value *einsum,
                            Value *const *args, uint32_t n_args, uint32_t a, DimId m) {
    DimList with = {0};
    if (dims_has(&einsum->dims, m))
        with = einsum->dims;
    else
        for (uint32_t k = 0; k < n_args; k++)
            if (k != a && dims_has(&args[k]->dims, m))
                with = dims_union(&with, &args[k]->dims);
    with = dims_union(&args[a]->dims, &with);
    DimList positions = of_sequence(graph, &with, project->n), rest = dims_minus(&with, &positions);
    return dims_volume(&rest, project->extents);
}

// Makes one of two arguments where that is less work; false: it is not.
static bool project_pair(Rewrite *rewrite, const Value *einsum, Value **args, uint32_t n_args,
                         uint32_t a, uint32_t b) {
    const Project *project = rewrite->data;
    DimList sequence = of_sequence(rewrite->to, &args[a]->dims, project->n);
    bool matrix = !of_sequence(rewrite->to, &args[b]->dims, project->n).count;
    DimList summed = private_dims(einsum, args, n_args, a, b);
    if (sequence.count != 1 || sequence.at[0] == project->n || !matrix || !summed.count)
        return false;
    DimList made = dims_minus(&args[b]->dims, &summed), left = dims_minus(&args[a]->dims, &summed);
    if (left.count + made.count > DIMS_MAX)
        return false;
    made = dims_union(&left, &made);
    DimList row = dims_minus(&made, &sequence);
    int64_t without = work_without(project, rewrite->to, einsum, args, n_args, a, sequence.at[0]);
    if (dims_volume(&row, project->extents) >= without)
        return false;
    args[a] = graph_einsum(rewrite->to, 1, (Value *[]){args[a], args[b]}, 2, made);
    args[b] = args[n_args - 1];
    return true;
}

static bool project_any(Rewrite *rewrite, const Value *einsum, Value **args, uint32_t n_args) {
    for (uint32_t a = 0; a < n_args; a++)
        for (uint32_t b = 0; b < n_args; b++)
            if (a != b && project_pair(rewrite, einsum, args, n_args, a, b))
                return true;
    return false;
}

static Value *project(Rewrite *rewrite, const Value *value, Value **args) {
    uint32_t n_args = value->n_args;
    if (value->op != OP_CONTRACT)
        return graph_rebuild(rewrite->to, value, args);
    while (n_args > 2 && project_any(rewrite, value, args, n_args))
        n_args--;
    return n_args == value->n_args
               ? graph_rebuild(rewrite->to, value, args)
               : graph_einsum(rewrite->to, value->number, args, n_args, value->dims);
}

Graph *decode_project(const Graph *graph, DimId n) {
    Arena *arena = arena_new();
    Project how = {n, graph_typical_extents(graph, arena)};
    return rewrite_graph("decode", graph, graph->arena, arena, project, &how);
}
