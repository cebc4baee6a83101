// SPDX-License-Identifier: Apache-2.0
// The body of a scan as its reversed scan reads it, all of its positions at once.
//
//     scan t in n:                         C[back] = rows of C before each step
//         u = einsum(C, K[t])              u[back] = rows of u
//         C = tanh(u + X[t])               tanh(u[back] + X[back])
//
// A value is over other dims in the reversed scan: `back` stands for t there. What is carried,
// summed or moved is kept of each step, as rows of the scan; what is pointwise is computed again,
// and what depends on no step is only read under the other dim. Nothing of this waits for the
// reversed scan.
//
// An inner scan whose carries lack the dim of the scan around it is reversed outside of that one,
// so the dim that stands for that of a scan depends on the scans around: a `home` is a list of
// these.
#include "graph/rewrite/grad.h"

#include <string.h>

// ---- homes -------------------------------------------------------------------------------------

DimList gradient_home(const Gradient *gradient, const DimList *dims) {
    const Graph *from = gradient->rewrite.from;
    DimList home = {0};
    for (uint32_t i = 0; i < dims->count; i++) {
        DimId dim = dims->at[i];
        if (dim >= from->dims.count || !from->dims.at[dim].scan)
            continue;
        uint32_t at = home.count++; // outer scans have the smaller ids
        for (; at > 0 && home.at[at - 1] > dim; at--)
            home.at[at] = home.at[at - 1];
        home.at[at] = dim;
    }
    return home;
}

static uint64_t dim_key(DimId dim) {
    return (uint64_t)dim + 1;
}

static GradientScan *new_scan(Gradient *gradient, const DimList *home) {
    Graph *graph = gradient->rewrite.to;
    DimId dim = home->at[home->count - 1];
    Name name = graph->dims.at[dim].name;
    name = names_intern(graph->session->names, name, strcspn(name, "."));
    GradientScan *scan = arena_new_of(gradient->rewrite.arena, GradientScan);
    scan->home = *home;
    scan->back = graph_scan_dim(graph, name, dim, !graph->dims.at[dim].reversed);
    const char *base = arena_printf(graph->arena, "%s_", name);
    scan->rows = graph_new_dim_like(graph, base, 1, dim);
    graph->dims.at[scan->rows].made = true;
    scan->next = map_get(gradient->scans, dim_key(dim));
    map_put(gradient->scans, dim_key(dim), scan);
    map_put(gradient->reversed, dim_key(scan->back), scan);
    return scan;
}

GradientScan *gradient_known_scan(const Gradient *gradient, const DimList *home) {
    if (!home->count)
        return NULL;
    GradientScan *scan = map_get(gradient->scans, dim_key(home->at[home->count - 1]));
    while (scan && !dims_equal(&scan->home, home))
        scan = scan->next;
    return scan;
}

GradientScan *gradient_reversed(const Gradient *gradient, DimId back) {
    return map_get(gradient->reversed, dim_key(back));
}

GradientScan *gradient_scan(Gradient *gradient, const DimList *home) {
    GradientScan *known = gradient_known_scan(gradient, home);
    if (known)
        return known;
    DimList around = *home;
    if (--around.count) // outer scans have the smaller ids here, too
        gradient_scan(gradient, &around);
    return new_scan(gradient, home);
}

DimId gradient_dim(Gradient *gradient, const DimList *dims, DimId dim) {
    DimList home = gradient_home(gradient, dims);
    uint32_t at = 0;
    while (at < home.count && home.at[at] != dim)
        at++;
    if (at == home.count)
        return dim;
    home.count = (uint8_t)(at + 1);
    return gradient_scan(gradient, &home)->back;
}

DimList gradient_dims(Gradient *gradient, const DimList *dims) {
    DimList home = gradient_home(gradient, dims), now = *dims;
    uint32_t count = home.count;
    for (home.count = 1; home.count <= count; home.count++)
        for (uint32_t i = 0; i < now.count; i++)
            if (dims->at[i] == home.at[home.count - 1])
                now.at[i] = gradient_scan(gradient, &home)->back;
    return now;
}

// ---- carries -----------------------------------------------------------------------------------

static bool is_end(const Value *value) {
    return op_kind(value->op) == KIND_SCAN;
}

static void find_carries(Gradient *gradient) {
    const Rewrite *rewrite = &gradient->rewrite;
    const Graph *from = rewrite->from;
    bool *met = arena_array(rewrite->arena, bool, from->values.count);
    gradient->carries = arena_array(rewrite->arena, ScanCarries, from->dims.count);
    gradient->begun = arena_array(rewrite->arena, ScanCarries, from->values.count);
    for (uint32_t i = 0; i < from->values.count; i++) {
        const Value *end = from->values.at[i];
        for (uint32_t k = 0; rewrite->now[i] && is_end(end) && k < graph_scan_carries(end); k++) {
            ScanCarry c = graph_scan_carry(end, k);
            if (met[c.carry->id])
                continue;
            met[c.carry->id] = true;
            vec_push(rewrite->arena, &gradient->carries[c.carry->dim], c);
            vec_push(rewrite->arena, &gradient->begun[c.first->id], c);
        }
    }
}

// ---- copies ------------------------------------------------------------------------------------

// What is of an inner scan alone is read under the dim that this one has where it is read.
Value *gradient_copy(Gradient *gradient, const Value *value) {
    Value *copy = gradient->copy[value->id];
    if (!copy)
        return gradient->rewrite.now[value->id];
    DimMap names = {0};
    for (uint32_t i = 0; i < value->dims.count; i++) {
        DimId own = gradient_dim(gradient, &value->dims, value->dims.at[i]);
        DimId here = gradient_dim(gradient, &gradient->home, value->dims.at[i]);
        if (own != here && dims_has(&gradient->home, value->dims.at[i]))
            dimmap_add(&names, own, here);
    }
    return graph_rename_all(gradient->rewrite.to, copy, &names);
}

Value *gradient_now(Gradient *gradient, const Value *value) {
    Value *now = gradient_copy(gradient, value);
    return graph_cast(gradient->rewrite.to, now, elem_work(now->elem));
}

static ScanCarries carries_now(const Gradient *gradient, DimId dim) {
    const Rewrite *rewrite = &gradient->rewrite;
    const ScanCarries *old = &gradient->carries[dim];
    ScanCarries now = {0};
    for (uint32_t i = 0; i < old->count; i++) {
        const ScanCarry *c = &old->at[i];
        ScanCarry copy = {rewrite->now[c->carry->id], rewrite->now[c->first->id],
                          rewrite->now[c->update->id]};
        vec_push(rewrite->arena, &now, copy);
    }
    return now;
}

// Rows of the value, the innermost scan first, read over the dims of the reversed scans.
static Value *kept_value(Gradient *gradient, const Value *value, DimList home) {
    Graph *to = gradient->rewrite.to;
    Value *kept = gradient->rewrite.now[value->id];
    DimMap back = {0};
    for (; home.count; home.count--) {
        const GradientScan *scan = gradient_scan(gradient, &home);
        DimId dim = home.at[home.count - 1];
        ScanCarries carries = carries_now(gradient, dim);
        to->made_for.backward = false;
        kept = graph_stack(to, kept, dim, scan->rows, &carries);
        to->made_for.backward = true;
        dimmap_add(&back, scan->rows, scan->back);
    }
    return graph_rename_all(to, kept, &back);
}

// Another way to read what has a copy.
static Value *read_again(Gradient *gradient, const Value *value) {
    Graph *graph = gradient->rewrite.to;
    const Value *arg = value->args[0];
    DimMap names = {0};
    if (value->op == OP_TAKE)
        return graph_take(graph, gradient_copy(gradient, arg), value->dim, value->offset);
    for (uint32_t i = 0; i < value->renames->count; i++) {
        DimId to = gradient_dim(gradient, &value->dims, value->renames->to[i]);
        dimmap_add(&names, gradient_dim(gradient, &arg->dims, value->renames->from[i]), to);
    }
    return graph_rename_all(graph, gradient_copy(gradient, arg), &names);
}

// A product that sums nothing may be larger than what it is made of.
static bool is_outer(const Value *value) {
    DimList all;
    return value->op == OP_CONTRACT && value_args_dims(value, &all) &&
           dims_equal(&all, &value->dims);
}

static Value *copy_of(Gradient *gradient, const Value *value, const DimList *home, bool waits) {
    Graph *graph = gradient->rewrite.to;
    if (value->op == OP_INDEX)
        return graph_index(graph, gradient_scan(gradient, home)->back);
    bool again = op_kind(value->op) == KIND_MAP || op_is_reading(value->op) || is_outer(value);
    if (!waits || !again)
        return kept_value(gradient, value, *home);
    if (op_is_reading(value->op))
        return read_again(gradient, value);
    Value **args = arena_array(gradient->rewrite.arena, Value *, value->n_args);
    for (uint32_t k = 0; k < value->n_args; k++)
        args[k] = gradient_copy(gradient, value->args[k]);
    if (value->op == OP_CONTRACT)
        return graph_einsum(graph, value->number, args, value->n_args,
                            gradient_dims(gradient, &value->dims));
    return graph_map(graph, value->op, value->elem, args, value->n_args);
}

static void note_inside(Gradient *gradient, Value *value, DimList home) {
    for (; home.count; home.count--)
        vec_push(gradient->rewrite.arena, &gradient_scan(gradient, &home)->inside, value);
}

void gradient_copy_bodies(Gradient *gradient) {
    const Graph *from = gradient->rewrite.from;
    find_carries(gradient);
    bool *waits = arena_array(gradient->rewrite.arena, bool, from->values.count); // for a step
    for (uint32_t i = 0; i < from->values.count; i++) {
        Value *value = from->values.at[i];
        DimList home = gradient_home(gradient, &value->dims);
        if (!home.count || !gradient->rewrite.now[i])
            continue;
        waits[i] = value->op == OP_CARRY || is_end(value);
        for (uint32_t k = 0; k < value->n_args; k++)
            waits[i] = waits[i] || waits[value->args[k]->id];
        gradient->home = home;
        gradient->copy[i] = copy_of(gradient, value, &home, waits[i]);
        note_inside(gradient, value, home);
    }
}
