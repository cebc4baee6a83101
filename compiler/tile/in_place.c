// SPDX-License-Identifier: Apache-2.0
// Whether kernels may run where a result lies in the memory of an argument (USE_REPLACED).
//
//     parallel r:16
//       compute s += W * W     over r c                  reads W before
//       compute W_1 = W / s    over r c                  and where it writes: W_1 may lie in W
//
// What reads an argument runs before what writes over it: in an earlier kernel; in the same kernel
// in an earlier stage; or in the same stage, which visits each element once and loads it before it
// stores it. Loops around a load and a store, those of tasks too, have an element each to
// themselves: they run along a dim that both are indexed by, in the same place.
#include "tile/tile.h"

enum { AROUND_MAX = 64 };

// A load or a store, and the loops around it.
typedef struct {
    const Access *access;
    const Stage *stage; // NULL: a bound of a range
    const Node *around[AROUND_MAX];
    uint32_t n_around;
} Touch;

typedef struct {
    const Kernel *kernel;
    const bool *reads, *writes; // by argument: it is the memory in question
    Arena *arena;
    const Node *around[AROUND_MAX];
    uint32_t n_around;
    VEC(Touch) loads, stores;
    bool fine; // no load comes after a store
} Walk;

// ---- what a kernel does, in its order -----------------------------------------------------------

static Touch touch_here(const Walk *walk, const Access *access, const Stage *stage) {
    Touch touch = {access, stage, {0}, walk->n_around};
    for (uint32_t i = 0; i < walk->n_around; i++)
        touch.around[i] = walk->around[i];
    return touch;
}

static bool is_argument(const Walk *walk, const Access *access, const bool *which) {
    return access->buffer < walk->kernel->n_args && which[access->buffer];
}

static void note_load(Walk *walk, const Access *access, const Stage *stage) {
    if (!is_argument(walk, access, walk->reads))
        return;
    walk->fine = walk->fine && !walk->stores.count;
    vec_push(walk->arena, &walk->loads, touch_here(walk, access, stage));
}

static void note_store(Walk *walk, const Access *access, const Stage *stage) {
    if (is_argument(walk, access, walk->writes))
        vec_push(walk->arena, &walk->stores, touch_here(walk, access, stage));
}

static void walk_stage(Walk *walk, const Stage *stage) {
    if (stage->kind != STAGE_COMPUTE)
        note_load(walk, &stage->a, stage);
    if (stage->kind == STAGE_CONTRACT)
        note_load(walk, &stage->b, stage);
    for (uint32_t i = 0; i < stage->terms.count; i++)
        if (stage->terms.at[i].kind == TERM_LOAD)
            note_load(walk, &stage->terms.at[i].load, stage);
    if (stage->kind != STAGE_COMPUTE)
        note_store(walk, &stage->c, stage);
    for (uint32_t i = 0; i < stage->sinks.count; i++)
        note_store(walk, &stage->sinks.at[i].to, stage);
}

static void walk_nodes(Walk *walk, const NodeList *body) {
    for (uint32_t i = 0; i < body->count; i++) {
        const Node *node = body->at[i];
        for (uint32_t b = 0; b < node->bounds.count; b++)
            if (node->bounds.at[b].kind == BOUND_LOAD)
                note_load(walk, &node->bounds.at[b].load, NULL);
        if (node->kind == NODE_STAGE)
            walk_stage(walk, node->stage);
        if (node->kind != NODE_LOOP && node->kind != NODE_RANGE)
            continue;
        if (walk->n_around == AROUND_MAX) {
            walk->fine = false;
            return;
        }
        walk->around[walk->n_around++] = node;
        walk_nodes(walk, &node->body);
        walk->n_around--;
    }
}

// ---- a load and a store -------------------------------------------------------------------------

static bool is_at(const Access *access, int place, TileDimId dim) {
    const Index *index = &access->index[place];
    return index->dim == dim && index->offset == 0 && index->term < 0;
}

// Do both run along the dim in one place?
static bool share_dim(const Access *a, const Access *b, TileDimId dim) {
    for (int i = 0; i < a->rank && i < b->rank; i++)
        if (is_at(a, i, dim) && is_at(b, i, dim))
            return true;
    return false;
}

// Each point of the stage has an element to itself, loads it and sets it.
static bool is_pointwise(const Stage *stage, const Access *load, const Access *store) {
    if (stage->kind != STAGE_COMPUTE || load->rank != store->rank)
        return false;
    for (int i = 0; i < stage->n_dims; i++)
        if (!share_dim(load, store, stage->dims[i]))
            return false;
    for (int i = 0; i < load->rank; i++)
        if (load->index[i].dim == TILE_DIM_NONE || !is_at(load, i, store->index[i].dim) ||
            !is_at(store, i, store->index[i].dim))
            return false;
    for (uint32_t i = 0; i < stage->sinks.count; i++)
        if (&stage->sinks.at[i].to == store && stage->sinks.at[i].mode != SINK_SET)
            return false;
    return true;
}

// Do they lie alike? Views of a tensor have other dims.
static bool lie_alike(const Kernel *kernel, const Access *load, const Access *store) {
    const TileBuffer *a = &kernel->buffers.at[load->buffer],
                     *b = &kernel->buffers.at[store->buffer];
    bool alike = a->rank == b->rank && a->panel_dim == TILE_DIM_NONE &&
                 b->panel_dim == TILE_DIM_NONE && !b->has_initial;
    for (int i = 0; alike && i < a->rank; i++)
        alike = a->dims[i] == b->dims[i];
    return alike;
}

static bool are_in_order(const Kernel *kernel, const Touch *load, const Touch *store) {
    if (!lie_alike(kernel, load->access, store->access))
        return false;
    for (uint32_t i = 0; i < load->n_around && i < store->n_around; i++) {
        const Node *node = load->around[i];
        if (node != store->around[i])
            break;
        if (node->kind == NODE_LOOP && !share_dim(load->access, store->access, node->dim))
            return false;
    }
    return load->stage != store->stage || is_pointwise(load->stage, load->access, store->access);
}

static bool kernel_may(const Kernel *kernel, const bool *reads, const bool *writes) {
    Arena *arena = arena_new();
    Walk walk = {.kernel = kernel, .reads = reads, .writes = writes, .arena = arena, .fine = true};
    walk_nodes(&walk, &kernel->body);
    bool fine = walk.fine;
    for (uint32_t i = 0; i < walk.loads.count; i++)
        for (uint32_t k = 0; fine && k < walk.stores.count; k++)
            fine = are_in_order(kernel, &walk.loads.at[i], &walk.stores.at[k]);
    arena_free(arena);
    return fine;
}

// ---- all kernels --------------------------------------------------------------------------------

// Which arguments of a launch are in the memory of a buffer; stored: those that it stores to.
static bool find_arguments(const TileProgram *program, const Launch *launch, uint32_t buffer,
                           bool stored, bool *which) {
    const Kernel *kernel = program->kernels.at[launch->kernel];
    bool any = false;
    for (uint32_t i = 0; i < kernel->n_args; i++) {
        uint32_t own = launch->buffers[i];
        const Buffer *bound = &program->plan->buffers.at[own];
        own = bound->role == BUFFER_VIEW ? bound->of : own;
        which[i] = own == buffer && (!stored || kernel->buffers.at[i].place != PLACE_IN);
        any = any || which[i];
    }
    return any;
}

static bool launches_may(const TileProgram *program, uint32_t argument, uint32_t result) {
    Arena *arena = arena_new();
    const Group *writer = NULL; // launches of one group are for other extents each
    bool fine = true;
    for (uint32_t i = 0; i < program->launches.count && fine; i++) {
        const Launch *launch = &program->launches.at[i];
        const Kernel *kernel = program->kernels.at[launch->kernel];
        bool *reads = arena_array(arena, bool, kernel->n_args + 1);
        bool *writes = arena_array(arena, bool, kernel->n_args + 1);
        bool reading = find_arguments(program, launch, argument, false, reads);
        bool writing = find_arguments(program, launch, result, true, writes);
        fine = !reading || !writer || writer == launch->group;
        fine = fine && (!reading || !writing || kernel_may(kernel, reads, writes));
        writer = writing ? launch->group : writer;
    }
    arena_free(arena);
    return fine;
}

const Value *tile_in_place_problem(const TileProgram *program) {
    const Plan *plan = program->plan;
    const Graph *graph = plan->fusion->graph;
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *input = graph->inputs.at[i];
        if (input->use != USE_REPLACED)
            continue;
        const Buffer *argument = plan_buffer(plan, input);
        const Buffer *result = plan_buffer(plan, graph->outputs.at[input->output].value);
        if (!launches_may(program, (uint32_t)(argument - plan->buffers.at),
                          (uint32_t)(result - plan->buffers.at)))
            return input;
    }
    return NULL;
}
