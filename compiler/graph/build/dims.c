// SPDX-License-Identifier: Apache-2.0
// Dims of an inlined def: which dim of the graph each name stands for.
//
// A dim that the call binds is the caller's dim. Any other name means what it means to the caller,
// and so on up to the entry, where a name is the graph's dim of that name. The resolver saw to it
// that two names of one def never come to stand for one dim.
#include "graph/build/build.h"

Frame *frame_new(Build *build, const Def *def, Frame *caller) {
    Frame *frame = arena_new_of(build->arena, Frame);
    frame->build = build;
    frame->def = def;
    frame->caller = caller;
    frame->path = caller ? caller->path : "";
    frame->place = caller ? caller->place : "";
    frame->locals = map_new(build->arena);
    frame->computable = map_new(build->arena);
    return frame;
}

void frame_note_calls(const Frame *frame, Diag *diag) {
    for (; frame->call; frame = frame->caller)
        diag_note(diag, frame->call->span, "in this call of '%s'", frame->def->name.name);
}

static const DimSlot *frame_slot(const Frame *frame, Name dim) {
    for (uint32_t i = 0; i < frame->dims.count; i++)
        if (frame->dims.at[i].name == dim)
            return &frame->dims.at[i];
    return NULL;
}

// ---- at the top: names are dims ----------------------------------------------------------------

static const Dim *top_find(const Build *build, Name name) {
    for (uint32_t i = 0; i < build->graph->dims.count; i++)
        if (build->graph->dims.at[i].name == name)
            return &build->graph->dims.at[i];
    return NULL;
}

static int64_t top_extent(const Build *build, Name name) {
    const Dim *dim = top_find(build, name);
    return dim ? dim->extent : program_extent(build->session, build->program, name);
}

// The first dim of the name's class, or NULL.
static const Dim *top_find_alike(Build *build, Name name) {
    const Graph *graph = build->graph;
    for (; build->n_classed < graph->dims.count; build->n_classed++) {
        Name root = program_like_root(build->program, graph->dims.at[build->n_classed].name);
        if (!map_get(build->classes, (uint64_t)(uintptr_t)root))
            map_put(build->classes, (uint64_t)(uintptr_t)root,
                    arena_copy(build->arena, &build->n_classed, sizeof build->n_classed));
    }
    const uint32_t *first =
        map_get(build->classes, (uint64_t)(uintptr_t)program_like_root(build->program, name));
    return first ? &graph->dims.at[*first] : NULL;
}

// A new dim of the graph, which remembers where it was needed.
static DimId add_dim(Frame *frame, Name name, int64_t extent) {
    Build *build = frame->build;
    DimId id = graph_dim(build->graph, name, extent);
    while (build->first_frames.count <= id)
        vec_push(build->arena, &build->first_frames, frame);
    return id;
}

static DimId top_dim(Frame *frame, Name name, int64_t size) {
    Build *build = frame->build;
    Graph *graph = build->graph;
    const Dim *dim = top_find(build, name), *alike = top_find_alike(build, name);
    if (dim)
        return (DimId)(dim - graph->dims.at);
    if (alike) {
        DimId leader = alike->like;
        DimId id = add_dim(frame, name, alike->extent);
        graph->dims.at[id].like = leader;
        return id;
    }
    int64_t extent = program_extent(build->session, build->program, name);
    return add_dim(frame, name, extent == EXTENT_DYNAMIC ? size : extent);
}

// ---- through the frames ------------------------------------------------------------------------

// What calls bind a name to; NULL: it is one of the graph's.
static const DimSlot *bound_slot(const Frame *frame, Name dim) {
    const DimSlot *slot = NULL;
    for (; frame->caller && !slot; frame = frame->caller)
        slot = frame_slot(frame, dim);
    return slot;
}

bool frame_is_given(const Frame *frame, Name dim) {
    return bound_slot(frame, dim);
}

int64_t frame_extent(const Frame *frame, Name dim) {
    const DimSlot *slot = bound_slot(frame, dim);
    return slot ? frame->build->graph->dims.at[slot->id].extent : top_extent(frame->build, dim);
}

void frame_note_counted(Frame *frame, Name dim) {
    Graph *graph = frame->build->graph;
    const DimSlot *slot = bound_slot(frame, dim);
    graph_note_counted(graph, slot ? graph->dims.at[slot->id].name : dim);
}

bool frame_extent_given(const Frame *frame, Name dim) {
    const DimSlot *slot = bound_slot(frame, dim);
    return program_extent_given(frame->build->session, frame->build->program,
                                slot ? frame->build->graph->dims.at[slot->id].name : dim);
}

static void note_computed(Frame *frame, Name name, DimId dim) {
    Build *build = frame->build;
    if (!frame->def || frame_slot(frame, name) ||
        !program_extent_origin(build->session, build->program, name))
        return;
    for (uint32_t i = 0; i < frame->computed.count; i++)
        if (frame->computed.at[i] == name)
            return;
    vec_push(build->arena, &frame->computed, name);
    vec_push(build->arena, &build->computed,
             (ComputedUse){name, build->graph->dims.at[dim].like, frame});
}

DimId frame_dim_sized(Frame *frame, Name dim, int64_t extent) {
    const DimSlot *slot = bound_slot(frame, dim);
    DimId id = slot ? slot->id : top_dim(frame, dim, extent);
    note_computed(frame, dim, id);
    return id;
}

const Dim *frame_class(const Frame *frame, Name dim) {
    const Graph *graph = frame->build->graph;
    const DimSlot *slot = bound_slot(frame, dim);
    const Dim *known = slot ? &graph->dims.at[slot->id] : top_find_alike(frame->build, dim);
    return known ? &graph->dims.at[known->like] : NULL;
}

bool frame_binds(const Frame *frame, DimId class) {
    for (uint32_t i = 0; i < frame->dims.count; i++)
        if (frame->build->graph->dims.at[frame->dims.at[i].id].like == class)
            return true;
    return false;
}

bool frame_has_dim(const Frame *frame, Name dim) {
    return bound_slot(frame, dim) || top_find(frame->build, dim) ||
           top_find_alike(frame->build, dim);
}

DimId frame_dim(Frame *frame, Name dim) {
    return frame_dim_sized(frame, dim, EXTENT_DYNAMIC);
}

bool frame_has_room(const Frame *frame, uint32_t count, Span at) {
    if (count + frame->hidden.count <= DIMS_MAX)
        return true;
    Diag *diag =
        diag_error(frame->build->session->diags, at,
                   "more than %d dims, counting those that calls are mapped over", DIMS_MAX);
    frame_note_calls(frame, diag);
    return false;
}

DimList frame_dims(Frame *frame, const NameList *names, Span at) {
    DimList dims = {0};
    bool room = frame_has_room(frame, names->count, at);
    for (uint32_t i = 0; i < names->count && room; i++)
        dims_add(&dims, frame_dim(frame, names->at[i]));
    return dims;
}

void frame_bind(Frame *frame, Name dim, DimId actual) {
    if (!frame_slot(frame, dim))
        vec_push(frame->build->arena, &frame->dims, (DimSlot){dim, actual});
}

// Is the new name of a dim alike, and not one that the value has already and keeps?
static bool can_be_called(const Graph *graph, const Value *value, DimId dim, const DimMap *names) {
    DimId to = dimmap_get(names, dim);
    bool kept = dims_has(&value->dims, to) && dimmap_get(names, to) == to;
    return to == dim || (graph_dims_alike(graph, dim, to) && !kept);
}

Value *frame_rename(Frame *frame, Value *value, const DimMap *names, Span at) {
    Graph *graph = frame->build->graph;
    for (uint32_t i = 0; i < value->dims.count; i++) {
        DimId dim = value->dims.at[i];
        if (can_be_called(graph, value, dim, names))
            continue;
        Diag *diag =
            diag_error(frame->build->session->diags, at, "dim '%s' cannot be read over '%s' here",
                       graph->dims.at[dim].name, graph->dims.at[dimmap_get(names, dim)].name);
        frame_note_calls(frame, diag);
        return value;
    }
    return graph_rename_all(graph, value, names);
}
