// SPDX-License-Identifier: Apache-2.0
// Dims of an inlined def: which dim of the graph each name stands for.
//
// A dim that a call binds is the caller's. Any other name of the def gets the dim of that name,
// unless this would mix it up with something else; then a new one is made, `n_1` and so on:
//
//     dim m like n
//     def SelfAttend(X[n, d]):         called as SelfAttend(T[m, d]): n stands for m of the caller,
//         M[m, d] = X[m, d]            so m is a new dim m_1, alike m and as long as it
#include "graph/build.h"

Frame *frame_new(Build *build, const Def *def) {
    Frame *frame = arena_new_of(build->arena, Frame);
    frame->build = build;
    frame->def = def;
    return frame;
}

static const DimSlot *frame_slot(const Frame *frame, Name dim) {
    for (uint32_t i = 0; i < frame->dims.count; i++)
        if (frame->dims.at[i].name == dim)
            return &frame->dims.at[i];
    return NULL;
}

static bool frame_uses(const Frame *frame, DimId id) {
    if (dims_has(&frame->hidden, id))
        return true;
    for (uint32_t i = 0; i < frame->dims.count; i++)
        if (frame->dims.at[i].id == id)
            return true;
    return false;
}

// What a new dim has to be: as long as and alike the others of its class.
typedef struct {
    int64_t extent;
    DimId leader; // DIM_NONE: the first of its class
} Kind;

// The kind of the frame's dims of the same class.
static bool kind_in_frame(const Frame *frame, Name dim, Kind *kind) {
    const Build *build = frame->build;
    for (uint32_t i = 0; i < frame->dims.count; i++)
        if (program_dims_alike(build->program, frame->dims.at[i].name, dim)) {
            const Dim *like = &build->graph->dims.at[frame->dims.at[i].id];
            *kind = (Kind){like->extent, like->like};
            return true;
        }
    return false;
}

static Kind kind_of(const Frame *frame, Name dim) {
    const Build *build = frame->build;
    const Graph *graph = build->graph;
    Kind kind;
    if (kind_in_frame(frame, dim, &kind))
        return kind;
    for (uint32_t i = 0; i < build->classes.count; i++)
        if (program_dims_alike(build->program, build->classes.at[i].root, dim)) {
            DimId leader = build->classes.at[i].leader;
            return (Kind){graph->dims.at[leader].extent, leader};
        }
    return (Kind){program_extent(build->session, build->program, dim), DIM_NONE};
}

int64_t frame_extent(const Frame *frame, Name dim) {
    const DimSlot *slot = frame_slot(frame, dim);
    return slot ? frame->build->graph->dims.at[slot->id].extent : kind_of(frame, dim).extent;
}

// The place of a dim of this name in the graph; its number of dims if there is none.
static uint32_t graph_place(const Graph *graph, Name name) {
    uint32_t i = 0;
    while (i < graph->dims.count && graph->dims.at[i].name != name)
        i++;
    return i;
}

// A dim of this kind that the frame does not use yet, called `name` or numbered.
static DimId fresh_dim(Frame *frame, Name name, Kind kind) {
    Build *build = frame->build;
    Graph *graph = build->graph;
    Name candidate = name;
    for (uint32_t number = 1;; number++) {
        uint32_t i = graph_place(graph, candidate);
        if (i == graph->dims.count) {
            DimId id = graph_dim(graph, candidate, kind.extent);
            if (kind.leader != DIM_NONE)
                graph->dims.at[id].like = kind.leader;
            return id;
        }
        const Dim *dim = &graph->dims.at[i];
        DimId leader = kind.leader == DIM_NONE ? (DimId)i : kind.leader;
        if (!frame_uses(frame, (DimId)i) && dim->extent == kind.extent && dim->like == leader)
            return (DimId)i;
        candidate =
            names_find(build->session->names, arena_printf(build->arena, "%s_%u", name, number));
    }
}

static DimId frame_add(Frame *frame, Name dim, DimId id) {
    vec_push(frame->build->arena, &frame->dims, (DimSlot){dim, id});
    return id;
}

DimId frame_dim(Frame *frame, Name dim) {
    Build *build = frame->build;
    const DimSlot *slot = frame_slot(frame, dim);
    if (slot)
        return slot->id;
    Kind kind = kind_of(frame, dim);
    DimId id = fresh_dim(frame, dim, kind);
    if (kind.leader == DIM_NONE)
        vec_push(build->arena, &build->classes, (DimClass){dim, build->graph->dims.at[id].like});
    return frame_add(frame, dim, id);
}

DimId frame_dim_sized(Frame *frame, Name dim, int64_t extent) {
    Kind kind;
    bool free = !frame_slot(frame, dim) && !kind_in_frame(frame, dim, &kind) &&
                program_extent(frame->build->session, frame->build->program, dim) < 0;
    if (!free || extent == EXTENT_DYNAMIC)
        return frame_dim(frame, dim);
    return frame_add(frame, dim, fresh_dim(frame, dim, (Kind){extent, DIM_NONE}));
}

bool frame_has_room(const Frame *frame, uint32_t count, Span at) {
    if (count + frame->hidden.count <= DIMS_MAX)
        return true;
    diag_error(frame->build->session->diags, at,
               "more than %d dims, counting those that calls are mapped over", DIMS_MAX);
    return false;
}

DimList frame_dims(Frame *frame, const NameList *names, Span at) {
    DimList dims = {0};
    bool room = frame_has_room(frame, names->count, at);
    for (uint32_t i = 0; i < names->count && room; i++)
        dims_add(&dims, frame_dim(frame, names->at[i]));
    return dims;
}

DimId frame_bind(Frame *frame, Name dim, DimId actual) {
    const Dim *like = &frame->build->graph->dims.at[actual];
    const DimSlot *slot = frame_slot(frame, dim);
    if (slot)
        return slot->id;
    if (!frame_uses(frame, actual))
        return frame_add(frame, dim, actual);
    return frame_add(frame, dim, fresh_dim(frame, dim, (Kind){like->extent, like->like}));
}

Value *frame_rename(Frame *frame, Value *value, DimId from, DimId to, Span at) {
    Graph *graph = frame->build->graph;
    if (from == to)
        return value;
    const char *a = graph->dims.at[from].name, *b = graph->dims.at[to].name;
    if (!graph_dims_alike(graph, from, to)) {
        Diag *diag = diag_error(frame->build->session->diags, at,
                                "dim '%s' is read over '%s' here, which is not alike", a, b);
        if (frame->def)
            diag_note(diag, frame->def->name.span, "the dims are those of a call of '%s'",
                      frame->def->name.name);
        return value;
    }
    if (dims_has(&value->dims, to)) {
        diag_error(frame->build->session->diags, at,
                   "dim '%s' is read over '%s' here, which the tensor has already", a, b);
        return value;
    }
    return graph_rename(graph, value, from, to);
}
