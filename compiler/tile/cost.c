// SPDX-License-Identifier: Apache-2.0
// What a kernel costs: a walk over the tree that counts how often each stage runs and on how large
// a box.
//
// A stage takes the longer of its arithmetic and its memory traffic. Traffic is the footprint of
// each access over the box, at the bandwidth of the level that holds the buffer: scratch by its own
// size, arguments by theirs. A range is as long as its bounds say at the average position of the
// pieces around it; what is loaded is taken to be the middle.
#include "tile/tile.h"

#include <math.h>

typedef struct {
    const Kernel *kernel;
    const int64_t *extents;
    const Machine *machine;
    double *low;    // per dim: where the current range begins, on average
    double *length; // and how many positions it has
    double *bytes;  // per buffer: size
    double times;   // how often the current place is reached
    double flops, seconds;
} Walk;

static double box_points(const Walk *w, const Stage *stage) {
    double points = 1;
    for (int i = 0; i < stage->n_dims; i++)
        points *= w->length[stage->dims[i]];
    return points;
}

static double stage_flops(const Walk *w, const Stage *stage) {
    if (stage->kind == STAGE_CONTRACT)
        return 2 * box_points(w, stage);
    double operations = 0;
    for (uint32_t i = 0; i < stage->terms.count; i++) {
        const Term *term = &stage->terms.at[i];
        bool counts = term->kind == TERM_OP && elem_is_float(term->elem) && term->op != OP_CAST &&
                      term->op != OP_COPY;
        operations += counts;
    }
    for (uint32_t i = 0; i < stage->sinks.count; i++)
        operations += stage->sinks.at[i].mode != SINK_SET;
    return operations * box_points(w, stage);
}

static double term_cycles(const Term *term) {
    return term->kind == TERM_LOAD ? op_weight(OP_INPUT)
           : term->kind == TERM_OP ? op_weight(term->op)
                                   : 0;
}

static double compute_seconds(const Walk *w, const Stage *stage) {
    double lanes = w->machine->vector_bytes / 4.0;
    double cycle = 4 * lanes / w->machine->flops_per_second, cycles = 1;
    for (uint32_t i = 0; i < stage->terms.count; i++)
        cycles += term_cycles(&stage->terms.at[i]);
    cycles += 0.5 * (double)stage->sinks.count;
    double points = box_points(w, stage);
    if (stage->lanes == TILE_DIM_NONE)
        return points * cycles * cycle;
    double length = w->length[stage->lanes];
    return points / length * ceil(length / lanes) * cycles * cycle;
}

static double contract_seconds(const Walk *w, const Stage *stage) {
    double lanes = w->length[stage->lanes];
    double waste = ceil(lanes / stage->lane_block) * stage->lane_block / lanes;
    return 2 * box_points(w, stage) * fmin(waste, 16) / w->machine->flops_per_second;
}

// Moving `bytes` of a buffer that has `size`.
static double traffic_seconds(const Machine *machine, double size, double bytes) {
    if (size <= (double)machine->l1_bytes / 2)
        return bytes / machine->l1_bytes_per_second;
    if (size <= (double)machine->l2_bytes)
        return bytes / machine->l2_bytes_per_second;
    if (size <= (double)machine->l3_bytes)
        return bytes / machine->l3_bytes_per_second;
    return bytes / machine->memory_bytes_per_second;
}

static double access_seconds(const Walk *w, const Access *access) {
    const TileBuffer *buffer = &w->kernel->buffers.at[access->buffer];
    double bytes = (double)elem_bytes(buffer->elem);
    for (int i = 0; i < access->rank; i++)
        bytes *= access->index[i].dim == TILE_DIM_NONE ? 1 : w->length[access->index[i].dim];
    return traffic_seconds(w->machine, w->bytes[access->buffer], bytes);
}

static double stage_seconds(const Walk *w, const Stage *stage) {
    double memory = 0;
    if (stage->kind == STAGE_CONTRACT) {
        memory = access_seconds(w, &stage->a) + access_seconds(w, &stage->b) +
                 2 * access_seconds(w, &stage->c);
        return fmax(contract_seconds(w, stage), memory);
    }
    for (uint32_t i = 0; i < stage->terms.count; i++)
        if (stage->terms.at[i].kind == TERM_LOAD)
            memory += access_seconds(w, &stage->terms.at[i].load);
    for (uint32_t i = 0; i < stage->sinks.count; i++)
        memory += access_seconds(w, &stage->sinks.at[i].to);
    return fmax(compute_seconds(w, stage), memory);
}

static double buffer_bytes(const Walk *w, const TileBuffer *buffer) {
    double bytes = (double)elem_bytes(buffer->elem);
    for (int i = 0; i < buffer->rank; i++)
        bytes *= w->length[buffer->dims[i]];
    return bytes;
}

static void make_buffer(Walk *w, uint32_t at) {
    const TileBuffer *buffer = &w->kernel->buffers.at[at];
    w->bytes[at] = buffer_bytes(w, buffer);
    if (w->machine && buffer->has_initial)
        w->seconds += w->times * traffic_seconds(w->machine, w->bytes[at], w->bytes[at]);
}

static double bound_position(const Walk *w, const Node *range, int32_t at) {
    const Bound *bound = &range->bounds.at[at];
    double number = (double)bound->number, a, b;
    switch (bound->kind) {
    case BOUND_NUMBER:
        return number;
    case BOUND_LO:
        return w->low[bound->dim] + number;
    case BOUND_HI:
        return w->low[bound->dim] + w->length[bound->dim] + number;
    case BOUND_EXTENT:
        return (double)w->extents[bound->dim] + number;
    case BOUND_LOAD:
        return w->low[range->dim] + w->length[range->dim] / 2 + number;
    case BOUND_MIN:
    case BOUND_MAX:
    case BOUND_ADD:
        a = bound_position(w, range, bound->args[0]);
        b = bound_position(w, range, bound->args[1]);
        return bound->kind == BOUND_MIN   ? fmin(a, b)
               : bound->kind == BOUND_MAX ? fmax(a, b)
                                          : a + b;
    case BOUND_ROUND: // on average half a multiple further down
        return bound_position(w, range, bound->args[0]) - (number - 1) / 2;
    }
    return 0;
}

static void walk_nodes(Walk *w, const NodeList *body);

static void walk_range(Walk *w, const Node *node) {
    double low = w->low[node->dim], length = w->length[node->dim];
    double from = low, to = low + length;
    if (node->lo >= 0)
        from = fmax(from, bound_position(w, node, node->lo));
    if (node->hi >= 0)
        to = fmin(to, bound_position(w, node, node->hi));
    w->low[node->dim] = from;
    w->length[node->dim] = fmax(to - from, 0);
    walk_nodes(w, &node->body);
    w->low[node->dim] = low;
    w->length[node->dim] = length;
}

static void walk_loop(Walk *w, const Node *node) {
    double low = w->low[node->dim], length = w->length[node->dim], times = w->times;
    double pieces = ceil(length / (double)node->step);
    if (pieces < 1)
        return;
    w->length[node->dim] = length / pieces;
    w->low[node->dim] = low + (length - length / pieces) / 2;
    w->times *= pieces;
    walk_nodes(w, &node->body);
    w->low[node->dim] = low;
    w->length[node->dim] = length;
    w->times = times;
}

static void walk_nodes(Walk *w, const NodeList *body) {
    for (uint32_t i = 0; i < body->count; i++) {
        const Node *node = body->at[i];
        switch (node->kind) {
        case NODE_LOOP:
            walk_loop(w, node);
            break;
        case NODE_RANGE:
            walk_range(w, node);
            break;
        case NODE_SCRATCH:
            make_buffer(w, node->buffer);
            break;
        case NODE_STAGE:
            if (box_points(w, node->stage) <= 0)
                break;
            w->flops += w->times * stage_flops(w, node->stage);
            if (w->machine)
                w->seconds += w->times * stage_seconds(w, node->stage);
            break;
        }
    }
}

static Walk walk_kernel(const Kernel *kernel, const int64_t *extents, const Machine *machine) {
    Walk w = {.kernel = kernel, .extents = extents, .machine = machine, .times = 1};
    w.length = arena_array(kernel->arena, double, kernel->dims.count + 1);
    w.low = arena_array(kernel->arena, double, kernel->dims.count + 1);
    w.bytes = arena_array(kernel->arena, double, kernel->buffers.count + 1);
    for (uint32_t i = 0; i < kernel->dims.count; i++)
        w.length[i] = (double)extents[i];
    for (uint32_t i = 0; i < kernel->n_args; i++)
        make_buffer(&w, i);
    walk_nodes(&w, &kernel->body);
    return w;
}

double tile_flops(const Kernel *kernel, const int64_t *extents) {
    return walk_kernel(kernel, extents, NULL).flops;
}

double tile_cost(const Kernel *kernel, const int64_t *extents, const Machine *machine) {
    return walk_kernel(kernel, extents, machine).seconds;
}
