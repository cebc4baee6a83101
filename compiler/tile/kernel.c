// SPDX-License-Identifier: Apache-2.0
// Building kernels node by node.
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

bool bound_of_two(const Bound *bound) {
    return bound->kind == BOUND_MIN || bound->kind == BOUND_MAX || bound->kind == BOUND_ADD;
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
