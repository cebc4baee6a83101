// SPDX-License-Identifier: Apache-2.0
// Building kernels node by node, and what every user of a kernel asks for: how many tasks it has,
// what it multiplies, and the scratch of a task.
#include <math.h>
#include <string.h>

#include "tile/tile.h"

Kernel *kernel_new(Arena *arena, Name name) {
    Kernel *kernel = arena_new_of(arena, Kernel);
    kernel->arena = arena;
    kernel->name = name;
    return kernel;
}

TileDimId kernel_add_dim(Kernel *kernel, Name name, int64_t extent) {
    if (kernel->dims.count >= TILE_DIM_NONE)
        ice("tile: too many dims in kernel %s", kernel->name);
    TileDim dim = {.name = name, .extent = extent};
    vec_push(kernel->arena, &kernel->dims, dim);
    return (TileDimId)(kernel->dims.count - 1);
}

// ---- buffers ----

static uint16_t kernel_add_buffer(Kernel *kernel, TileBuffer buffer) {
    if (kernel->buffers.count >= UINT16_MAX)
        ice("tile: too many buffers in kernel %s", kernel->name);
    vec_push(kernel->arena, &kernel->buffers, buffer);
    return (uint16_t)(kernel->buffers.count - 1);
}

TileBuffer scratch_plain(Name name, Elem elem, TileDimList dims) {
    TileBuffer buffer = {.name = name,
                         .elem = elem,
                         .place = PLACE_SCRATCH,
                         .rank = dims.count,
                         .panel_dim = TILE_DIM_NONE,
                         .kept_by = -1,
                         .takes = -1};
    memcpy(buffer.dims, dims.at, sizeof buffer.dims);
    return buffer;
}

uint16_t kernel_add_argument_panel(Kernel *kernel, Name name, Elem elem, Place place,
                                   TileDimList dims, TileDimId panel_dim, int32_t panel_width) {
    if (kernel->n_args != kernel->buffers.count)
        ice("tile: argument %s of kernel %s comes after scratch", name, kernel->name);
    kernel->n_args++;
    TileBuffer buffer = scratch_plain(name, elem, dims);
    buffer.place = place;
    buffer.panel_dim = panel_dim;
    buffer.panel_width = panel_width;
    return kernel_add_buffer(kernel, buffer);
}

uint16_t kernel_add_argument(Kernel *kernel, Name name, Elem elem, Place place, TileDimList dims) {
    return kernel_add_argument_panel(kernel, name, elem, place, dims, TILE_DIM_NONE, 0);
}

void buffer_begin_with(Kernel *kernel, uint16_t buffer, double initial) {
    kernel->buffers.at[buffer].has_initial = true;
    kernel->buffers.at[buffer].initial = initial;
}

uint16_t buffer_memory(const Kernel *kernel, uint16_t buffer) {
    while (kernel->buffers.at[buffer].takes >= 0)
        buffer = (uint16_t)kernel->buffers.at[buffer].takes;
    return buffer;
}

// ---- nodes ----

static Node *node_new(Kernel *kernel, NodeList *into, NodeKind kind) {
    Node *node = arena_new_of(kernel->arena, Node);
    node->kind = kind;
    node->dim = TILE_DIM_NONE;
    vec_push(kernel->arena, into, node);
    return node;
}

Node *node_loop(Kernel *kernel, NodeList *into, LoopKind kind, TileDimId dim, int64_t step) {
    Node *node = node_new(kernel, into, NODE_LOOP);
    node->loop = kind;
    node->dim = dim;
    node->step = step;
    return node;
}

Node *node_range(Kernel *kernel, NodeList *into, TileDimId dim) {
    Node *node = node_new(kernel, into, NODE_RANGE);
    node->dim = dim;
    node->lo = node->hi = -1;
    node->align = 1;
    return node;
}

uint16_t node_scratch_with(Kernel *kernel, NodeList *into, TileBuffer like) {
    like.place = PLACE_SCRATCH;
    Node *node = node_new(kernel, into, NODE_SCRATCH);
    node->buffer = kernel_add_buffer(kernel, like);
    return node->buffer;
}

uint16_t node_scratch_panel(Kernel *kernel, NodeList *into, Name name, Elem elem, TileDimList dims,
                            TileDimId panel_dim, int32_t panel_width) {
    TileBuffer buffer = scratch_plain(name, elem, dims);
    buffer.panel_dim = panel_dim;
    buffer.panel_width = panel_width;
    return node_scratch_with(kernel, into, buffer);
}

uint16_t node_scratch(Kernel *kernel, NodeList *into, Name name, Elem elem, TileDimList dims) {
    return node_scratch_with(kernel, into, scratch_plain(name, elem, dims));
}

static Stage *node_stage(Kernel *kernel, NodeList *into, StageKind kind, TileDimList dims) {
    Stage *stage = arena_new_of(kernel->arena, Stage);
    stage->kind = kind;
    stage->n_dims = dims.count;
    memcpy(stage->dims, dims.at, sizeof stage->dims);
    stage->lanes = stage->rows = stage->cols = TILE_DIM_NONE;
    node_new(kernel, into, NODE_STAGE)->stage = stage;
    return stage;
}

Stage *node_compute(Kernel *kernel, NodeList *into, TileDimList dims, TileDimId lanes) {
    Stage *stage = node_stage(kernel, into, STAGE_COMPUTE, dims);
    stage->lanes = lanes;
    return stage;
}

Stage *node_contract(Kernel *kernel, NodeList *into, TileDimList dims, Access c, Access a,
                     Access b) {
    Stage *stage = node_stage(kernel, into, STAGE_CONTRACT, dims);
    stage->a = a;
    stage->b = b;
    stage->c = c;
    return stage;
}

Stage *node_order(Kernel *kernel, NodeList *into, Access c, Access a, TileDimId along,
                  TileDimId places) {
    static const char *const names[ORDER_WORK] = {"items", "sorted"};
    TileDimList dims = {0};
    uint16_t work[ORDER_WORK];
    for (int i = 0; i < ORDER_WORK; i++)
        work[i] = node_scratch(kernel, into, names[i], ELEM_I64, TILE_DIMS(along));
    for (int i = 0; i < c.rank; i++)
        dims.at[dims.count++] = c.index[i].dim;
    if (along != places)
        dims.at[dims.count++] = along;
    Stage *stage = node_stage(kernel, into, STAGE_ORDER, dims);
    stage->a = a;
    stage->c = c;
    stage->along = along;
    stage->places = places;
    memcpy(stage->work, work, sizeof work);
    return stage;
}

Access access_at(uint16_t buffer, TileDimList dims) {
    Access access = {.buffer = buffer, .rank = dims.count};
    for (int i = 0; i < dims.count; i++)
        access.index[i] = (Index){.dim = dims.at[i], .term = -1};
    return access;
}

Access access_plain(const Kernel *kernel, uint16_t buffer) {
    const TileBuffer *b = &kernel->buffers.at[buffer];
    TileDimList dims = {.count = b->rank};
    memcpy(dims.at, b->dims, sizeof dims.at);
    return access_at(buffer, dims);
}

static bool access_equal(const Access *a, const Access *b) {
    if (a->buffer != b->buffer || a->rank != b->rank || a->checked != b->checked)
        return false;
    if (a->checked && memcmp(&a->fill, &b->fill, sizeof a->fill))
        return false;
    for (int i = 0; i < a->rank; i++) {
        const Index *x = &a->index[i], *y = &b->index[i];
        if (x->dim != y->dim || x->offset != y->offset || x->term != y->term)
            return false;
    }
    return true;
}

static bool bound_equal(const Bound *a, const Bound *b) {
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case BOUND_NUMBER:
        return a->number == b->number;
    case BOUND_LO:
    case BOUND_HI:
    case BOUND_EXTENT:
    case BOUND_PART:
        return a->dim == b->dim && a->number == b->number;
    case BOUND_LOAD:
        return access_equal(&a->load, &b->load) && a->number == b->number;
    case BOUND_MIN:
    case BOUND_MAX:
    case BOUND_ADD:
        return !memcmp(a->args, b->args, sizeof a->args);
    case BOUND_ROUND:
        return a->args[0] == b->args[0] && a->number == b->number;
    }
    return false;
}

int32_t range_bound(Kernel *kernel, Node *range, Bound bound) {
    for (uint32_t i = 0; i < range->bounds.count; i++)
        if (bound_equal(&range->bounds.at[i], &bound))
            return (int32_t)i;
    vec_push(kernel->arena, &range->bounds, bound);
    return (int32_t)range->bounds.count - 1;
}

static bool term_equal(const Term *a, const Term *b) {
    if (a->kind != b->kind || a->elem != b->elem)
        return false;
    switch (a->kind) {
    case TERM_LOAD:
        return access_equal(&a->load, &b->load);
    case TERM_CONST:
        return !memcmp(&a->number, &b->number, sizeof a->number);
    case TERM_INDEX:
    case TERM_EXTENT:
        return a->dim == b->dim;
    case TERM_OP:
        return a->op == b->op && !memcmp(a->args, b->args, sizeof a->args);
    }
    return false;
}

// Of what term_equal compares.
static uint64_t term_hash(const Term *term) {
    uint64_t hash = hash_u64(hash_u64(0, term->kind), term->elem);
    switch (term->kind) {
    case TERM_LOAD:
        hash = hash_u64(hash, term->load.buffer);
        for (int i = 0; i < term->load.rank; i++) {
            hash = hash_u64(hash, term->load.index[i].dim);
            hash = hash_u64(hash, (uint64_t)term->load.index[i].offset);
            hash = hash_u64(hash, (uint64_t)term->load.index[i].term);
        }
        return hash;
    case TERM_CONST:
        return hash_bytes(hash, &term->number, sizeof term->number);
    case TERM_INDEX:
    case TERM_EXTENT:
        return hash_u64(hash, term->dim);
    case TERM_OP:
        return hash_bytes(hash_u64(hash, term->op), term->args, sizeof term->args);
    }
    return hash;
}

static int32_t stage_term(Kernel *kernel, Stage *stage, Term term) {
    if (!stage->term_at)
        stage->term_at = map_new(kernel->arena);
    uint64_t key = term_hash(&term);
    for (uintptr_t at; (at = (uintptr_t)map_get(stage->term_at, key)); key = hash_u64(key, 1))
        if (term_equal(&stage->terms.at[at - 1], &term))
            return (int32_t)at - 1;
    vec_push(kernel->arena, &stage->terms, term);
    map_put(stage->term_at, key, (void *)(uintptr_t)stage->terms.count);
    return (int32_t)stage->terms.count - 1;
}

int32_t stage_load(Kernel *kernel, Stage *stage, Access access) {
    Elem elem = kernel->buffers.at[access.buffer].elem;
    return stage_term(
        kernel, stage,
        (Term){.kind = TERM_LOAD, .elem = elem, .args = {-1, -1, -1}, .load = access});
}

int32_t stage_const(Kernel *kernel, Stage *stage, double number, Elem elem) {
    return stage_term(
        kernel, stage,
        (Term){.kind = TERM_CONST, .elem = elem, .args = {-1, -1, -1}, .number = number});
}

int32_t stage_index(Kernel *kernel, Stage *stage, TileDimId dim) {
    return stage_term(
        kernel, stage,
        (Term){.kind = TERM_INDEX, .elem = ELEM_I64, .args = {-1, -1, -1}, .dim = dim});
}

int32_t stage_extent(Kernel *kernel, Stage *stage, TileDimId dim) {
    return stage_term(
        kernel, stage,
        (Term){.kind = TERM_EXTENT, .elem = ELEM_I64, .args = {-1, -1, -1}, .dim = dim});
}

int32_t stage_op(Kernel *kernel, Stage *stage, Op op, Elem elem, int32_t a, int32_t b, int32_t c) {
    return stage_term(kernel, stage,
                      (Term){.kind = TERM_OP, .elem = elem, .op = op, .args = {a, b, c}});
}

void stage_sink(Kernel *kernel, Stage *stage, SinkMode mode, Access to, int32_t term) {
    Sink sink = {.mode = mode, .to = to, .term = term};
    vec_push(kernel->arena, &stage->sinks, sink);
}

// ---- what combining nothing gives --------------------------------------------------------------

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

static const Node *parallel_loop(const NodeList *body) {
    bool is_one =
        body->count == 1 && body->at[0]->kind == NODE_LOOP && body->at[0]->loop == LOOP_PARALLEL;
    return is_one ? body->at[0] : NULL;
}

const Node *kernel_innermost_parallel(const Kernel *kernel) {
    const Node *last = NULL;
    for (const Node *loop = parallel_loop(&kernel->body); loop; loop = parallel_loop(&loop->body))
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
    for (const Node *loop = parallel_loop(&kernel->body); loop; loop = parallel_loop(&loop->body)) {
        int64_t pieces = ceil_div(extents[loop->dim], loop->step);
        tasks *= loop == chain && !pieces ? 1 : pieces;
    }
    return tasks;
}

bool launch_runs(const Launch *launch, const int64_t *extents) {
    if (!launch->most)
        return true;
    return launch->least <= extents[launch->guard] && extents[launch->guard] < launch->most;
}

// ---- counts ----
// Sums of products over a dim of the box, one multiply a point each.
static int stage_sums(const Stage *stage) {
    int sums = stage->kind == STAGE_CONTRACT;
    for (uint32_t i = 0; i < stage->sinks.count; i++) {
        const Sink *sink = &stage->sinks.at[i];
        const Term *term = &stage->terms.at[sink->term];
        sums += sink->mode == SINK_SUM && sink->to.rank < stage->n_dims && term->kind == TERM_OP &&
                term->op == OP_MUL;
    }
    return sums;
}

// Dims whose positions number the parts of another dim, of the ranges around a stage.
typedef struct PartDims {
    const struct PartDims *outer;
    uint16_t dim;
} PartDims;

static bool is_part(const PartDims *parts, uint16_t dim) {
    while (parts && parts->dim != dim)
        parts = parts->outer;
    return parts != NULL;
}

// Loops and ranges over a dim cover it once, however it is cut, and all parts of one do together.
static double stage_multiplies(const Stage *stage, const PartDims *parts, const int64_t *extents) {
    double points = stage_sums(stage);
    for (int i = 0; i < stage->n_dims; i++)
        if (!is_part(parts, stage->dims[i]))
            points *= (double)extents[stage->dims[i]];
    return points;
}

static double nodes_multiplies(const NodeList *body, const PartDims *parts,
                               const int64_t *extents) {
    double sum = 0;
    for (uint32_t i = 0; i < body->count; i++) {
        const Node *node = body->at[i];
        PartDims inner = {parts, TILE_DIM_NONE};
        if (node->kind == NODE_RANGE && node->lo >= 0 &&
            node->bounds.at[node->lo].kind == BOUND_PART)
            inner.dim = node->bounds.at[node->lo].dim;
        sum += node->kind == NODE_STAGE ? stage_multiplies(node->stage, parts, extents)
                                        : nodes_multiplies(&node->body, &inner, extents);
    }
    return sum;
}

double kernel_multiplies(const Kernel *kernel, const int64_t *extents) {
    return nodes_multiplies(&kernel->body, NULL, extents);
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
            held += kernel->buffers.at[node->buffer].takes < 0 ? bytes : 0;
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
        most = held + inside > most ? held + inside : most;
    }
    return most;
}

int64_t kernel_scratch_bytes(const Kernel *kernel, const int64_t *extents, int64_t *each) {
    int64_t *rooms = arena_array(kernel->arena, int64_t, kernel->dims.count + 1);
    memcpy(rooms, extents, kernel->dims.count * sizeof *rooms);
    return nodes_bytes(kernel, &kernel->body, rooms, each);
}
