// SPDX-License-Identifier: Apache-2.0
// What is asked of a whole kernel: what combining nothing gives, how many tasks it has, and the
// scratch of a task.
#include <math.h>
#include <string.h>

#include "tile/tile.h"

// ---- what combining nothing gives ----

// Infinities of whole numbers are the largest and the smallest, of truth values true and false.
static double combined_nothing(SinkMode mode) {
    if (mode == SINK_SUM || mode == SINK_PROD)
        return mode == SINK_PROD;
    return mode == SINK_MIN ? INFINITY : -INFINITY;
}

// Adds the dims of unknown extent that the stage has and `to` lacks.
static void add_combined(const Kernel *kernel, const Stage *stage, const Access *to,
                         TileDimList *over) {
    for (int i = 0; i < stage->n_dims; i++)
        if (kernel->dims.at[stage->dims[i]].extent == EXTENT_DYNAMIC &&
            !access_has_dim(to, stage->dims[i]) && over->count < TILE_RANK_MAX)
            over->at[over->count++] = stage->dims[i];
}

static void find_combined(const Kernel *kernel, const NodeList *body, uint16_t buffer,
                          TileDimList *over, SinkMode *mode) {
    for (uint32_t i = 0; i < body->count; i++) {
        const Stage *stage = body->at[i]->stage;
        if (body->at[i]->kind != NODE_STAGE) {
            find_combined(kernel, &body->at[i]->body, buffer, over, mode);
            continue;
        }
        if (stage->kind == STAGE_CONTRACT && stage->c.buffer == buffer)
            add_combined(kernel, stage, &stage->c, over);
        for (uint32_t s = 0; s < stage->sinks.count; s++) {
            const Sink *sink = &stage->sinks.at[s];
            if (sink->mode == SINK_SET || sink->to.buffer != buffer)
                continue;
            add_combined(kernel, stage, &sink->to, over);
            *mode = sink->mode;
        }
    }
}

bool kernel_combines(const Kernel *kernel, uint16_t buffer, TileDimList *over, double *nothing) {
    const TileBuffer *at = &kernel->buffers.at[buffer];
    SinkMode mode = SINK_SUM;
    *over = (TileDimList){0};
    if (at->has_initial || at->place == PLACE_IN || at->place == PLACE_BOTH)
        return false;
    find_combined(kernel, &kernel->body, buffer, over, &mode);
    *nothing = combined_nothing(mode);
    return over->count > 0;
}

// ---- tasks ----

const Node *nodes_parallel(const NodeList *body) {
    bool is_one =
        body->count == 1 && body->at[0]->kind == NODE_LOOP && body->at[0]->loop == LOOP_PARALLEL;
    return is_one ? body->at[0] : NULL;
}

const Node *kernel_innermost_parallel(const Kernel *kernel) {
    const Node *last = NULL;
    for (const Node *loop = nodes_parallel(&kernel->body); loop; loop = nodes_parallel(&loop->body))
        last = loop;
    return last;
}

static uint32_t count_ordered(const NodeList *body) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < body->count; i++) {
        const Node *node = body->at[i];
        count += node->kind == NODE_LOOP && node->loop == LOOP_ORDERED;
        if (node->kind == NODE_LOOP || node->kind == NODE_RANGE)
            count += count_ordered(&node->body);
    }
    return count;
}

uint32_t kernel_ordered(const Kernel *kernel) {
    return count_ordered(&kernel->body);
}

bool kernel_adds_in_turn(const Kernel *kernel, uint16_t argument) {
    const TileBuffer *buffer = &kernel->buffers.at[argument];
    const Node *chain = kernel_innermost_parallel(kernel);
    bool has = buffer->place == PLACE_IN || buffer->place == PLACE_SCRATCH || !chain;
    for (int i = 0; i < buffer->rank && !has; i++)
        has = buffer->dims[i] == chain->dim;
    return !has && kernel_ordered(kernel);
}

int64_t kernel_tasks(const Kernel *kernel, const int64_t *extents) {
    const Node *chain = kernel_ordered(kernel) ? kernel_innermost_parallel(kernel) : NULL;
    int64_t tasks = 1;
    const Node *loop = nodes_parallel(&kernel->body);
    for (; loop; loop = nodes_parallel(&loop->body)) {
        int64_t pieces = ceil_div(extents[loop->dim], loop->step);
        tasks = mul_capped(tasks, loop == chain && !pieces ? 1 : pieces);
    }
    return tasks;
}

bool launch_runs(const Launch *launch, const int64_t *extents) {
    if (launch->alternative)
        return false;
    if (!launch->most)
        return true;
    return launch->least <= extents[launch->guard] && extents[launch->guard] < launch->most;
}

int64_t *launch_extents(const Launch *launch, const Kernel *kernel, const int64_t *extents,
                        Arena *arena) {
    int64_t *out = arena_array(arena, int64_t, kernel->dims.count + 1);
    for (uint32_t d = 0; d < kernel->dims.count; d++) {
        out[d] = 1;
        for (uint32_t k = 0; k < launch->dims[d].count; k++)
            out[d] = mul_capped(out[d], extents[launch->dims[d].at[k]]);
    }
    return out;
}

// ---- scratch: buffers of bodies that follow each other share memory ----
static int64_t room_bytes(const TileBuffer *buffer, const int64_t *rooms) {
    int64_t bytes = (int64_t)elem_bytes(buffer->elem);
    for (int i = 0; i < buffer->rank; i++) {
        int64_t room = rooms[buffer->dims[i]];
        if (buffer->dims[i] == buffer->panel_dim)
            room = (room + buffer->panel_width - 1) / buffer->panel_width * buffer->panel_width;
        bytes = mul_capped(bytes, room + (i == buffer->rank - 1 ? buffer->gap : 0));
    }
    return bytes;
}

static int64_t nodes_bytes(const Kernel *kernel, const NodeList *body, int64_t *rooms,
                           int64_t *each) {
    int64_t held = 0, most = 0;
    for (uint32_t i = 0; i < body->count; i++) {
        const Node *node = body->at[i];
        int64_t inside = 0;
        if (node->kind == NODE_SCRATCH) {
            int64_t bytes = room_bytes(&kernel->buffers.at[node->buffer], rooms);
            if (kernel->buffers.at[node->buffer].takes < 0)
                held = add_capped(held, bytes);
            if (each)
                each[node->buffer] = bytes;
        }
        if (node->kind == NODE_LOOP || node->kind == NODE_RANGE) {
            int64_t outer = rooms[node->dim];
            if (node->kind == NODE_LOOP && node->step < outer)
                rooms[node->dim] = node->step;
            inside = nodes_bytes(kernel, &node->body, rooms, each);
            rooms[node->dim] = outer;
        }
        int64_t here = add_capped(held, inside);
        most = here > most ? here : most;
    }
    return most;
}

int64_t kernel_scratch_bytes(const Kernel *kernel, const int64_t *extents, int64_t *each) {
    int64_t rooms[TILE_DIM_NONE]; // a kernel has fewer dims
    memcpy(rooms, extents, kernel->dims.count * sizeof *rooms);
    return nodes_bytes(kernel, &kernel->body, rooms, each);
}
