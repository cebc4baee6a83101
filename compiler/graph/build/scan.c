// SPDX-License-Identifier: Apache-2.0
// Scans: the body is built once, for all positions at the same time.
//
//     scan t in n:                         t.0: a dim like n, hidden from the def like those that
//         S[d] = S + X[t, d]               a call is mapped over;  X[t, d]: X with t.0 for n
//
// A body may make what it carries depend on more dims than its first value does (those that the def
// is mapped over, positions of scans around): then it is built again with a carry over these, too.
#include "graph/build/build.h"

static Ident ident_of(Name name, const Stmt *stmt) {
    return (Ident){name, stmt->span};
}

// The first values of what is carried, and carries over the dims of these.
static ScanCarries open_carries(Frame *frame, const Stmt *stmt, DimId dim) {
    Build *build = frame->build;
    ScanCarries carries = {0};
    for (uint32_t i = 0; i < stmt->carried.count; i++) {
        Value *first = frame_find(frame, ident_of(stmt->carried.at[i], stmt));
        DimList dims = {1, {dim}};
        Value *carry =
            graph_carry(build->graph, i, first->elem, dims_union(&dims, &first->dims), dim);
        vec_push(build->arena, &carries, (ScanCarry){carry, first, NULL});
    }
    return carries;
}

static void build_carried(Frame *frame, const Stmt *stmt, ScanCarries *carries) {
    for (uint32_t i = 0; i < carries->count; i++) {
        Value *carry = carries->at[i].carry;
        build_name_value(frame, carry, stmt->carried.at[i], stmt->span);
        frame_assign(frame, stmt->carried.at[i], carry);
    }
    build_body(frame, &stmt->body);
    for (uint32_t i = 0; i < carries->count; i++)
        carries->at[i].update = frame_find(frame, ident_of(stmt->carried.at[i], stmt));
}

static void add_scans(const Graph *graph, DimList *scans, const DimList *dims) {
    for (uint32_t i = 0; i < dims->count; i++)
        if (graph->dims.at[dims->at[i]].scan)
            dims_add(scans, dims->at[i]);
}

// The scans around this one that what it leaves behind is in the body of.
static DimList scans_around(Frame *frame, const Stmt *stmt, const ScanCarries *carries) {
    DimList scans = {0};
    for (uint32_t i = 0; i < carries->count; i++)
        add_scans(frame->build->graph, &scans, &carries->at[i].update->dims);
    for (uint32_t i = 0; i < stmt->stacked.count; i++)
        add_scans(frame->build->graph, &scans,
                  &frame_find(frame, ident_of(stmt->stacked.at[i], stmt))->dims);
    return scans;
}

// Gives carries the dims that their updates have, and all of them the same scans around. false:
// they had them.
static bool widen_carries(Frame *frame, const Stmt *stmt, ScanCarries *carries, DimId dim) {
    bool widened = false;
    DimList around = scans_around(frame, stmt, carries);
    for (uint32_t i = 0; i < carries->count; i++) {
        ScanCarry *c = &carries->at[i];
        DimList steps = {1, {dim}}, dims = dims_union(&c->carry->dims, &c->update->dims);
        dims = dims_union(&dims, &around);
        if (dims.count == c->carry->dims.count)
            continue;
        widened = true;
        DimList rest = dims_minus(&dims, &steps);
        c->first = graph_over(frame->build->graph, c->first, &rest);
        dims = dims_union(&steps, &c->first->dims); // the order that the text of the graph says
        c->carry = graph_carry(frame->build->graph, i, c->carry->elem, dims, dim);
    }
    return widened;
}

static void close_scan(Frame *frame, const Stmt *stmt, DimId dim, DimId over,
                       ScanCarries *carries) {
    Graph *graph = frame->build->graph;
    DimList steps = {1, {dim}};
    for (uint32_t i = 0; i < carries->count; i++) {
        ScanCarry *c = &carries->at[i];
        DimList rest = dims_minus(&c->carry->dims, &steps);
        c->first = graph_over(graph, c->first, &rest);
        c->update = graph_over(graph, c->update, &c->carry->dims);
    }
    // All of the body comes before what is left of it.
    Value **rows = arena_array(frame->build->arena, Value *, stmt->stacked.count + 1);
    for (uint32_t i = 0; i < stmt->stacked.count; i++)
        rows[i] = graph_over(graph, frame_find(frame, ident_of(stmt->stacked.at[i], stmt)), &steps);
    for (uint32_t i = 0; i < stmt->stacked.count; i++) {
        Name name = stmt->stacked.at[i];
        Value *value = graph_stack(graph, rows[i], dim, over, carries);
        frame_assign(frame, name, value);
        build_name_value(frame, value, name, stmt->span);
    }
    for (uint32_t i = 0; i < carries->count; i++) {
        Value *last = graph_last(graph, i, dim, carries);
        frame_assign(frame, stmt->carried.at[i], last);
        build_name_value(frame, last, stmt->carried.at[i], stmt->span);
    }
}

void build_scan(Frame *frame, const Stmt *stmt) {
    Build *build = frame->build;
    uint32_t errors = diags_errors(build->session->diags);
    const char *outside = frame->path, *place = frame->place;
    DimList hidden = frame->hidden;
    DimId over = frame_dim(frame, stmt->loop_dim.name);
    if (!frame_has_room(frame, 1, stmt->span))
        return;
    DimId dim = graph_scan_dim(build->graph, stmt->loop_var.name, over, stmt->reversed);
    while (build->first_frames.count <= dim)
        vec_push(build->arena, &build->first_frames, frame);
    frame->place =
        arena_printf(build->arena, "%s%s.", place, stmt->path ? stmt->path : stmt->loop_var.name);
    if (stmt->path)
        frame->path = arena_printf(build->arena, "%s%s.", outside, stmt->path);
    frame->hidden = dims_union(&(DimList){1, {dim}}, &hidden); // first, as in a def without hidden
    vec_push(build->arena, &frame->steps, (DimSlot){stmt->loop_var.name, dim});
    ScanCarries carries = open_carries(frame, stmt, dim);
    do
        build_carried(frame, stmt, &carries);
    while (diags_errors(build->session->diags) == errors && !build->stopped &&
           widen_carries(frame, stmt, &carries, dim));
    frame->steps.count--;
    frame->hidden = hidden;
    frame->path = outside;
    frame->place = place;
    if (diags_errors(build->session->diags) == errors && !build->stopped)
        close_scan(frame, stmt, dim, over, &carries);
}

DimId frame_step(const Frame *frame, Name variable) {
    for (uint32_t i = frame->steps.count; i-- > 0;)
        if (frame->steps.at[i].name == variable)
            return frame->steps.at[i].id;
    ice("build: no scan has the variable '%s'", variable);
}
