// SPDX-License-Identifier: Apache-2.0
// Runs kernels by plain loops, exactly as tile.h says: every dim has a current range, loops refine
// it, stages visit the points of their box. Scratch starts as NaN, so that a read of memory that
// nobody wrote is seen in the result; an index outside a buffer that the kernel did not declare
// checked is an ice().
#include "tile/scalar.h"
#include "tile/tile.h"

typedef struct {
    int64_t lo, hi;
} Range;
typedef struct {
    char *data;
    size_t bytes;              // of scratch memory
    Range room[TILE_RANK_MAX]; // per dim of the buffer
} Storage;
typedef struct {
    const Kernel *kernel;
    const int64_t *extents;
    Range *ranges;    // per dim of the kernel
    int64_t *points;  // per dim of the kernel: the point being worked on
    Storage *buffers; // per buffer
    Scalar *terms;    // of the current point
} Interpreter;

static int64_t buffer_offset(const TileBuffer *buffer, const Storage *storage,
                             const int64_t *index) {
    int64_t offset = 0, panel = 0;
    for (int i = 0; i < buffer->rank; i++) {
        int64_t at = index[i] - storage->room[i].lo;
        if (buffer->dims[i] == buffer->panel_dim)
            panel = at;
        else
            offset = offset * (storage->room[i].hi - storage->room[i].lo) + at;
    }
    if (buffer->panel_dim == TILE_DIM_NONE)
        return offset;
    int64_t plane = 1;
    for (int i = 0; i < buffer->rank; i++)
        if (buffer->dims[i] != buffer->panel_dim)
            plane *= storage->room[i].hi - storage->room[i].lo;
    int64_t width = buffer->panel_width;
    return (panel / width * plane + offset) * width + panel % width;
}

static int64_t storage_size(const TileBuffer *buffer, const Storage *storage) {
    int64_t size = 1;
    for (int i = 0; i < buffer->rank; i++) {
        int64_t room = storage->room[i].hi - storage->room[i].lo;
        if (buffer->dims[i] == buffer->panel_dim)
            room = (room + buffer->panel_width - 1) / buffer->panel_width * buffer->panel_width;
        size *= room;
    }
    return size;
}

// The element of an access at the current point; -1: outside, read the fill.
static int64_t access_offset(const Interpreter *m, const Access *access) {
    const TileBuffer *buffer = &m->kernel->buffers.at[access->buffer];
    const Storage *storage = &m->buffers[access->buffer];
    int64_t index[TILE_RANK_MAX];
    for (int i = 0; i < access->rank; i++) {
        const Index *x = &access->index[i];
        index[i] = x->offset + (x->dim == TILE_DIM_NONE ? 0 : m->points[x->dim]) +
                   (x->term < 0 ? 0 : m->terms[x->term].i);
        if (access->checked && (index[i] < 0 || index[i] >= m->extents[buffer->dims[i]]))
            return -1;
        if (index[i] < storage->room[i].lo || index[i] >= storage->room[i].hi)
            ice("tile interp: kernel %s reads or writes %s outside dim %d: %ld not in %ld..%ld",
                m->kernel->name, buffer->name, i, (long)index[i], (long)storage->room[i].lo,
                (long)storage->room[i].hi);
    }
    return buffer_offset(buffer, storage, index);
}

static Scalar access_load(const Interpreter *m, const Access *access) {
    Elem elem = m->kernel->buffers.at[access->buffer].elem;
    int64_t at = access_offset(m, access);
    if (at < 0)
        return scalar_of(access->fill, elem);
    return scalar_load(elem, m->buffers[access->buffer].data, at);
}

// Is this the first point that reaches the element? Then its old content is ignored.
static bool is_first(const Interpreter *m, const Stage *stage, const Access *to) {
    for (int i = 0; i < stage->n_dims; i++)
        if (!access_has_dim(to, stage->dims[i]) && m->points[stage->dims[i]] != 0)
            return false;
    return true;
}

static void store_sink(const Interpreter *m, const Stage *stage, const Sink *sink) {
    static const Op combine[] = {
        [SINK_SUM] = OP_ADD, [SINK_PROD] = OP_MUL, [SINK_MAX] = OP_MAX, [SINK_MIN] = OP_MIN};
    Elem elem = m->kernel->buffers.at[sink->to.buffer].elem;
    int64_t at = access_offset(m, &sink->to);
    if (at < 0)
        ice("tile interp: kernel %s stores outside a buffer", m->kernel->name);
    char *data = m->buffers[sink->to.buffer].data;
    Scalar value = m->terms[sink->term];
    if (sink->mode != SINK_SET && !is_first(m, stage, &sink->to)) {
        Scalar args[3] = {scalar_load(elem, data, at), value};
        value = scalar_op(combine[sink->mode], elem, elem, args);
    }
    scalar_store(elem, data, at, value);
}

static void run_term(const Interpreter *m, const Stage *stage, uint32_t at) {
    const Term *term = &stage->terms.at[at];
    Scalar args[3] = {0};
    switch (term->kind) {
    case TERM_LOAD:
        m->terms[at] = access_load(m, &term->load);
        return;
    case TERM_CONST:
        m->terms[at] = scalar_of(term->number, term->elem);
        return;
    case TERM_INDEX:
        m->terms[at] = (Scalar){.i = m->points[term->dim]};
        return;
    case TERM_EXTENT:
        m->terms[at] = (Scalar){.i = m->extents[term->dim]};
        return;
    case TERM_OP:
        for (int i = 0; i < 3 && term->args[i] >= 0; i++)
            args[i] = m->terms[term->args[i]];
        // The arguments of a comparison have an elem of their own; a SELECT's condition is bool.
        m->terms[at] = scalar_op(term->op, term->elem, stage->terms.at[term->args[0]].elem, args);
        return;
    }
}

static void run_compute_point(const Interpreter *m, const Stage *stage) {
    for (uint32_t i = 0; i < stage->terms.count; i++)
        run_term(m, stage, i);
    for (uint32_t i = 0; i < stage->sinks.count; i++)
        store_sink(m, stage, &stage->sinks.at[i]);
}

static void run_contract_point(const Interpreter *m, const Stage *stage) {
    Elem elem = m->kernel->buffers.at[stage->c.buffer].elem;
    Scalar factors[3] = {access_load(m, &stage->a), access_load(m, &stage->b)};
    Scalar sum[3] = {scalar_op(OP_MUL, elem, elem, factors)};
    char *data = m->buffers[stage->c.buffer].data;
    int64_t at = access_offset(m, &stage->c);
    if (!is_first(m, stage, &stage->c)) {
        sum[1] = scalar_load(elem, data, at);
        sum[0] = scalar_op(OP_ADD, elem, elem, sum);
    }
    scalar_store(elem, data, at, sum[0]);
}

static void run_points(const Interpreter *m, const Stage *stage, int depth) {
    if (depth == stage->n_dims) {
        if (stage->kind == STAGE_CONTRACT)
            run_contract_point(m, stage);
        else
            run_compute_point(m, stage);
        return;
    }
    TileDimId dim = stage->dims[depth];
    for (int64_t i = m->ranges[dim].lo; i < m->ranges[dim].hi; i++) {
        m->points[dim] = i;
        run_points(m, stage, depth + 1);
    }
}

// Zeros behind the end of the last panel, for the box of the stage's other dims.
static void pad_panel(const Interpreter *m, const Access *to, int depth, int64_t *index) {
    const TileBuffer *buffer = &m->kernel->buffers.at[to->buffer];
    const Storage *storage = &m->buffers[to->buffer];
    if (depth == buffer->rank) {
        int64_t at = buffer_offset(buffer, storage, index);
        scalar_store(buffer->elem, storage->data, at, (Scalar){0});
        return;
    }
    Range range = m->ranges[buffer->dims[depth]];
    if (buffer->dims[depth] == buffer->panel_dim) {
        Range room = storage->room[depth];
        int64_t panels = (room.hi - room.lo + buffer->panel_width - 1) / buffer->panel_width;
        bool reaches_end = range.hi == room.hi;
        range = (Range){room.hi, reaches_end ? room.lo + panels * buffer->panel_width : room.hi};
    }
    for (index[depth] = range.lo; index[depth] < range.hi; index[depth]++)
        pad_panel(m, to, depth + 1, index);
}

static void run_stage(Interpreter *m, const Stage *stage) {
    run_points(m, stage, 0);
    if (!stage->pad)
        return;
    int64_t index[TILE_RANK_MAX];
    for (uint32_t i = 0; i < stage->sinks.count; i++) {
        const Access *to = &stage->sinks.at[i].to;
        if (m->kernel->buffers.at[to->buffer].panel_dim != TILE_DIM_NONE)
            pad_panel(m, to, 0, index);
    }
}

static void open_scratch(Interpreter *m, uint16_t at) {
    const TileBuffer *buffer = &m->kernel->buffers.at[at];
    Storage *storage = &m->buffers[at];
    for (int i = 0; i < buffer->rank; i++)
        storage->room[i] = m->ranges[buffer->dims[i]];
    int64_t size = storage_size(buffer, storage);
    size_t bytes = (size_t)size * elem_bytes(buffer->elem) + 1;
    if (bytes > storage->bytes) {
        storage->data = arena_alloc(m->kernel->arena, bytes);
        storage->bytes = bytes;
    }
    scalar_poison(buffer->elem, storage->data, size);
}

// Positions wrap around like the numbers they are computed from.
static int64_t sum_of(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t bound_position(const Interpreter *m, const Node *range, int32_t at) {
    const Bound *bound = &range->bounds.at[at];
    int64_t a, b;
    switch (bound->kind) {
    case BOUND_NUMBER:
        return bound->number;
    case BOUND_LO:
        return sum_of(m->ranges[bound->dim].lo, bound->number);
    case BOUND_HI:
        return sum_of(m->ranges[bound->dim].hi, bound->number);
    case BOUND_EXTENT:
        return sum_of(m->extents[bound->dim], bound->number);
    case BOUND_LOAD:
        for (int i = 0; i < bound->load.rank; i++)
            if (bound->load.index[i].dim != TILE_DIM_NONE)
                m->points[bound->load.index[i].dim] = m->ranges[bound->load.index[i].dim].lo;
        return sum_of(access_load(m, &bound->load).i, bound->number);
    case BOUND_MIN:
    case BOUND_MAX:
    case BOUND_ADD:
        a = bound_position(m, range, bound->args[0]);
        b = bound_position(m, range, bound->args[1]);
        if (bound->kind == BOUND_ADD)
            return sum_of(a, b);
        return (bound->kind == BOUND_MIN) == (a < b) ? a : b;
    }
    return 0;
}

static Range narrowed(const Interpreter *m, const Node *node) {
    Range range = m->ranges[node->dim];
    int64_t lo = node->lo < 0 ? range.lo : bound_position(m, node, node->lo);
    int64_t hi = node->hi < 0 ? range.hi : bound_position(m, node, node->hi);
    if (lo > range.lo)
        range.lo += (lo - range.lo) / node->align * node->align;
    if (hi < range.hi)
        range.hi = hi;
    if (range.hi < range.lo)
        range.hi = range.lo;
    return range;
}

static void run_nodes(Interpreter *m, const NodeList *body) {
    for (uint32_t i = 0; i < body->count; i++) {
        const Node *node = body->at[i];
        if (node->kind == NODE_STAGE)
            run_stage(m, node->stage);
        if (node->kind == NODE_SCRATCH)
            open_scratch(m, node->buffer);
        if (node->kind != NODE_LOOP && node->kind != NODE_RANGE)
            continue;
        Range whole = m->ranges[node->dim];
        if (node->kind == NODE_RANGE) {
            m->ranges[node->dim] = narrowed(m, node);
            run_nodes(m, &node->body);
            m->ranges[node->dim] = whole;
            continue;
        }
        for (int64_t at = whole.lo; at < whole.hi; at += node->step) {
            int64_t end = at + node->step < whole.hi ? at + node->step : whole.hi;
            m->ranges[node->dim] = (Range){at, end};
            run_nodes(m, &node->body);
        }
        m->ranges[node->dim] = whole;
    }
}

static uint32_t most_terms(const NodeList *body) {
    uint32_t most = 1;
    for (uint32_t i = 0; i < body->count; i++) {
        const Node *node = body->at[i];
        uint32_t terms =
            node->kind == NODE_STAGE ? node->stage->terms.count : most_terms(&node->body);
        most = terms > most ? terms : most;
    }
    return most;
}

void kernel_interpret(const Kernel *kernel, const int64_t *extents, void *const *buffers) {
    Arena *arena = kernel->arena;
    Interpreter m = {.kernel = kernel,
                     .extents = extents,
                     .ranges = arena_array(arena, Range, kernel->dims.count + 1),
                     .terms = arena_array(arena, Scalar, most_terms(&kernel->body)),
                     .points = arena_array(arena, int64_t, kernel->dims.count + 1),
                     .buffers = arena_array(arena, Storage, kernel->buffers.count + 1)};
    for (uint32_t i = 0; i < kernel->dims.count; i++)
        m.ranges[i] = (Range){0, extents[i]};
    for (uint32_t i = 0; i < kernel->n_args; i++) {
        const TileBuffer *buffer = &kernel->buffers.at[i];
        m.buffers[i].data = buffers[i];
        for (int d = 0; d < buffer->rank; d++)
            m.buffers[i].room[d] = (Range){0, extents[buffer->dims[d]]};
    }
    run_nodes(&m, &kernel->body);
}

// ---- whole programs ----

static int64_t product_extent(const DimProduct *product, const int64_t *extents) {
    int64_t extent = 1;
    for (int i = 0; i < product->count; i++)
        extent *= extents[product->at[i]];
    return extent;
}

// Where each buffer of the plan lies: the caller's arrays, or memory of its own filled with NaN.
// Slots are not shared here, so that only the plan's own rules decide what a buffer holds.
static char **bind_buffers(const TileProgram *program, const int64_t *extents, void *const *inputs,
                           void *const *outputs, Arena *arena) {
    const Plan *plan = program->plan;
    const Graph *graph = plan->fusion->graph;
    char **data = arena_array(arena, char *, plan->buffers.count + 1);
    for (uint32_t b = 0; b < plan->buffers.count; b++) {
        const Buffer *buffer = &plan->buffers.at[b];
        for (uint32_t i = 0; i < graph->inputs.count && buffer->role == BUFFER_INPUT; i++)
            if (graph->inputs.at[i] == buffer->value)
                data[b] = inputs[i];
        for (uint32_t i = 0; i < graph->outputs.count && buffer->role == BUFFER_OUTPUT; i++)
            if (graph->outputs.at[i].value == buffer->value)
                data[b] = outputs[i];
        if (data[b])
            continue;
        int64_t count = dims_volume(&buffer->order, extents);
        data[b] = arena_alloc(arena, (size_t)count * elem_bytes(buffer->value->elem) + 1);
        scalar_poison(buffer->value->elem, data[b], count);
    }
    return data;
}

void tile_interpret(const TileProgram *program, const int64_t *extents, void *const *inputs,
                    void *const *outputs) {
    Arena *arena = arena_new();
    char **data = bind_buffers(program, extents, inputs, outputs, arena);
    for (uint32_t l = 0; l < program->launches.count; l++) {
        const Launch *launch = &program->launches.at[l];
        const Kernel *kernel = program->kernels.at[launch->kernel];
        int64_t *kernel_extents = arena_array(arena, int64_t, kernel->dims.count + 1);
        for (uint32_t d = 0; d < kernel->dims.count; d++)
            kernel_extents[d] = product_extent(&launch->dims[d], extents);
        void **arguments = arena_array(arena, void *, kernel->n_args + 1);
        for (uint32_t a = 0; a < kernel->n_args; a++)
            arguments[a] = data[launch->buffers[a]];
        kernel_interpret(kernel, kernel_extents, arguments);
    }
    arena_free(arena);
}
