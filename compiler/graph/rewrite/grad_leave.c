// SPDX-License-Identifier: Apache-2.0
// What the body of a scan contributes to a value outside of it leaves the reversed scan: read
// position by position it becomes rows, read by all steps it is a sum over them.
//
//     X[t, d]                  dX: rows of the adjoint
//     einsum(s[d], W[d, e])    dW = einsum of rows of s and rows of the adjoint
//     S[d, e] * g[d]           dg: dS * S of each step added up in a further carry over d e, and
//                              summed over e in the end
//
// Such a sum is a product of rows where these are smaller than its terms, or else it is added up,
// over the dims that all carries have as well: tasks may be cut along these.
#include "graph/rewrite/grad.h"

// ---- which scans are left ----------------------------------------------------------------------

DimMap gradient_rows(const Gradient *gradient, const DimList *exits) {
    DimMap rows = {0};
    for (uint32_t i = 0; i < exits->count; i++)
        dimmap_add(&rows, exits->at[i], gradient_reversed(gradient, exits->at[i])->rows);
    return rows;
}

// A value may be of the same scan and not of one around it: its positions are kept.
Leaving gradient_leaving(Gradient *gradient, const Value *value, const Value *to, Value *part) {
    Leaving leaving = {.to = to, .part = part, .dim = DIM_NONE};
    DimList home = gradient_home(gradient, &value->dims), own = gradient_dims(gradient, &to->dims);
    uint32_t count = home.count;
    for (home.count = 1; home.count <= count; home.count++) {
        const GradientScan *scan = gradient_scan(gradient, &home);
        DimId dim = home.at[home.count - 1];
        if (dims_has(&own, scan->back))
            continue;
        dims_add(&leaving.exits, scan->back);
        if (!dims_has(&to->dims, dim))
            continue;
        dimmap_add(&leaving.kept, scan->back, scan->rows);
        dimmap_add(&leaving.after, scan->rows, gradient_dim(gradient, &to->dims, dim));
    }
    return leaving;
}

// ---- sums --------------------------------------------------------------------------------------

// A sum of a product is one einsum, which may be worked off in any order.
Value *gradient_summed(Gradient *gradient, Value *part, const DimList *kept) {
    Graph *graph = gradient->rewrite.to;
    if (dims_subset(&part->dims, kept))
        return part;
    DimList left = dims_intersect(&part->dims, kept);
    if (part->op == OP_MUL)
        return graph_einsum(graph, 1, part->args, 2, left);
    return graph_reduce(graph, OP_SUM, part, left);
}

// ---- sums over steps ---------------------------------------------------------------------------

static double volume(const Graph *graph, const DimList *dims) {
    double product = 1;
    for (uint32_t i = 0; i < dims->count; i++)
        product *= (double)dim_planned(&graph->dims.at[dims->at[i]]);
    return product;
}

typedef struct {
    Value **rows; // of the factors
    uint32_t count;
    double number, volume; // of those that wait for a step: what is kept of each
} Factors;

static Factors factors_of(Gradient *gradient, const GradientScan *scan, Value *part) {
    Graph *graph = gradient->rewrite.to;
    bool product = part->op == OP_MUL || part->op == OP_CONTRACT;
    Factors f = {.count = product ? part->n_args : 1,
                 .number = part->op == OP_CONTRACT ? part->number : 1};
    f.rows = arena_array(gradient->rewrite.arena, Value *, f.count);
    for (uint32_t i = 0; i < f.count; i++) {
        Value *factor = product ? part->args[i] : part;
        f.rows[i] = factor;
        if (!dims_has(&factor->dims, scan->back))
            continue;
        f.rows[i] = graph_stack(graph, factor, scan->back, scan->rows, &scan->carries);
        DimList step = dims_minus(&factor->dims, &(DimList){1, {scan->back}});
        f.volume += f.rows[i]->op == OP_STACK ? volume(graph, &step) : 0;
    }
    return f;
}

// Adds a carry to the reversed scan.
static Value *added_up(Gradient *gradient, GradientScan *scan, Value *part) {
    Graph *graph = gradient->rewrite.to;
    Value *sum = graph_carry(graph, scan->carries.count, part->elem, part->dims, scan->back);
    DimList rest = dims_minus(&part->dims, &(DimList){1, {scan->back}});
    Value *zeros = graph_over(graph, graph_const(graph, 0, part->elem), &rest);
    ScanCarry carry = {sum, zeros, graph_map2(graph, OP_ADD, sum, part)};
    vec_push(gradient->rewrite.arena, &scan->carries, carry);
    return graph_last(graph, scan->carries.count - 1, scan->back, &scan->carries);
}

// Over the steps of a scan that is done. kept: dims that are wanted after the last exit.
static Value *total(Gradient *gradient, GradientScan *scan, Value *part, const DimList *kept) {
    Graph *graph = gradient->rewrite.to;
    DimList step = dims_minus(&part->dims, &(DimList){1, {scan->back}});
    Factors f = factors_of(gradient, scan, part);
    if (f.volume >= volume(graph, &step))
        return added_up(gradient, scan, part);
    DimList result = dims_intersect(&step, kept);
    if (f.count == 1 && f.number == 1)
        return graph_reduce(graph, OP_SUM, f.rows[0], result);
    return graph_einsum(graph, f.number, f.rows, f.count, result);
}

// ---- leaving -----------------------------------------------------------------------------------

static void arrive(Gradient *gradient, const Leaving *leaving) {
    Graph *graph = gradient->rewrite.to;
    Value *part = leaving->part, **adjoint = &gradient->adjoint[leaving->to->id];
    DimList own = gradient_dims(gradient, &leaving->to->dims), kept = {0};
    for (uint32_t i = 0; i < own.count; i++) { // under the names that they have before
        DimId before = own.at[i];
        for (uint32_t k = 0; k < leaving->after.count; k++)
            before = leaving->after.to[k] == own.at[i] ? leaving->after.from[k] : before;
        dims_add(&kept, before);
    }
    if (leaving->ids) {
        part = graph_over(graph, part, &leaving->ids->dims);
        part = graph_scatter_add(graph, part, leaving->ids, leaving->dim, kept);
    }
    part = gradient_summed(gradient, part, &kept);
    part = graph_rename_all(graph, part, &leaving->after);
    part = graph_cast(graph, part, elem_work(leaving->to->elem));
    *adjoint = *adjoint ? graph_map2(graph, OP_ADD, *adjoint, part) : part;
}

void gradient_leave(Gradient *gradient, Leaving leaving) {
    if (!leaving.exits.count) {
        arrive(gradient, &leaving);
        return;
    }
    DimId innermost = leaving.exits.at[leaving.exits.count - 1];
    if (dims_has(&leaving.part->dims, innermost)) {
        vec_push(gradient->rewrite.arena, &gradient_reversed(gradient, innermost)->leaving,
                 leaving);
        return;
    }
    leaving.exits.count--; // the same at all positions
    gradient_leave(gradient, leaving);
}

// Dims that a part goes on with.
static DimList dims_after(Gradient *gradient, const Leaving *leaving) {
    DimList dims = gradient_dims(gradient, &leaving->to->dims);
    dims = dims_union(&dims, &leaving->exits);
    for (uint32_t i = 0; i < leaving->kept.count; i++)
        dims_add(&dims, leaving->kept.to[i]);
    for (uint32_t i = 0; leaving->exits.count && i < leaving->part->dims.count; i++)
        dims_add(&dims, leaving->part->dims.at[i]);
    return dims;
}

void gradient_leave_scan(Gradient *gradient, GradientScan *scan) {
    for (uint32_t i = 0; i < scan->leaving.count; i++) {
        Leaving leaving = scan->leaving.at[i];
        DimId as = dimmap_get(&leaving.kept, scan->back);
        leaving.exits.count--;
        DimList kept = dims_after(gradient, &leaving);
        leaving.part = as == scan->back ? total(gradient, scan, leaving.part, &kept)
                                        : graph_stack(gradient->rewrite.to, leaving.part,
                                                      scan->back, as, &scan->carries);
        gradient_leave(gradient, leaving);
    }
}
