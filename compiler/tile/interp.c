// SPDX-License-Identifier: Apache-2.0
// Runs kernels by plain loops, exactly as tile.h says: every dim has a current range, loops and
// ranges refine it, stages visit the points of their box.
//
// What a kernel may not rely on is made to show. Scratch starts as NaN, the padding of panels too,
// and so does an element read whose memory another buffer took. Tasks run in a shuffled order, and
// it is an ice() when two of them write one element or one reads what another writes, unless they
// do so in turn. So is an index outside a buffer that the kernel did not declare checked.
#include <math.h>

#include "tile/scalar.h"
#include "tile/tile.h"

typedef struct {
    int64_t lo, hi;
} Range;
typedef struct {
    char *data;
    int64_t capacity;          // of scratch: elements that there is memory for
    Range room[TILE_RANK_MAX]; // per dim of the buffer
    // Per element.
    bool *combined;   // buffers without initial value: something was combined into it since made
    uint16_t *holder; // scratch that others take: the buffer that stored to it last
    uint32_t *writer; // arguments that one task stores to: which, counted from 1
    uint32_t *reader; // and the task that read it, or SEVERAL
} Storage;
enum { SEVERAL = UINT32_MAX };
typedef struct {
    const Kernel *kernel;
    const int64_t *extents;
    Range *ranges;    // per dim of the kernel
    int64_t *points;  // per dim of the kernel: the point being worked on
    Storage *buffers; // per buffer
    Scalar *terms;    // of the current point
    uint32_t task;    // counted from 1
} Interpreter;

// Positions of a dim and what is left free behind them.
static int64_t run_length(const TileBuffer *buffer, const Storage *storage, int slot) {
    int64_t gap = slot == buffer->rank - 1 ? buffer->gap : 0;
    return storage->room[slot].hi - storage->room[slot].lo + gap;
}

static int64_t buffer_offset(const TileBuffer *buffer, const Storage *storage,
                             const int64_t *index) {
    int64_t offset = 0, panel = 0;
    for (int i = 0; i < buffer->rank; i++) {
        int64_t at = index[i] - storage->room[i].lo;
        if (buffer->dims[i] == buffer->panel_dim)
            panel = at;
        else
            offset = offset * run_length(buffer, storage, i) + at;
    }
    if (buffer->panel_dim == TILE_DIM_NONE)
        return offset;
    int64_t plane = 1;
    for (int i = 0; i < buffer->rank; i++)
        if (buffer->dims[i] != buffer->panel_dim)
            plane *= run_length(buffer, storage, i);
    int64_t width = buffer->panel_width;
    return (panel / width * plane + offset) * width + panel % width;
}

static int64_t storage_size(const TileBuffer *buffer, const Storage *storage) {
    int64_t size = 1;
    for (int i = 0; i < buffer->rank; i++) {
        int64_t room = run_length(buffer, storage, i);
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

static void note_read(const Interpreter *m, uint16_t buffer, int64_t at) {
    const Storage *storage = &m->buffers[buffer];
    if (!storage->writer)
        return;
    if (storage->writer[at] && storage->writer[at] != m->task)
        ice("tile interp: kernel %s: a task reads what another wrote to %s", m->kernel->name,
            m->kernel->buffers.at[buffer].name);
    uint32_t *reader = &storage->reader[at];
    *reader = !*reader || *reader == m->task ? m->task : SEVERAL;
}

static void note_write(const Interpreter *m, uint16_t buffer, int64_t at) {
    const Storage *storage = &m->buffers[buffer];
    if (m->buffers[buffer_memory(m->kernel, buffer)].holder)
        m->buffers[buffer_memory(m->kernel, buffer)].holder[at] = buffer;
    if (!storage->writer)
        return;
    const char *name = m->kernel->buffers.at[buffer].name;
    if (storage->writer[at] && storage->writer[at] != m->task)
        ice("tile interp: kernel %s: two tasks write one element of %s", m->kernel->name, name);
    if (storage->reader[at] && storage->reader[at] != m->task)
        ice("tile interp: kernel %s: a task writes to %s what another read", m->kernel->name, name);
    storage->writer[at] = m->task;
}

static Scalar element_load(const Interpreter *m, uint16_t buffer, int64_t at) {
    Elem elem = m->kernel->buffers.at[buffer].elem;
    const uint16_t *holder = m->buffers[buffer_memory(m->kernel, buffer)].holder;
    if (holder && holder[at] != buffer) {
        double poison; // as wide as any elem
        scalar_poison(elem, &poison, 1);
        return scalar_load(elem, &poison, 0);
    }
    note_read(m, buffer, at);
    return scalar_load(elem, m->buffers[buffer].data, at);
}

static void element_store(const Interpreter *m, uint16_t buffer, int64_t at, Scalar value) {
    note_write(m, buffer, at);
    scalar_store(m->kernel->buffers.at[buffer].elem, m->buffers[buffer].data, at, value);
}

static Scalar access_load(const Interpreter *m, const Access *access) {
    int64_t at = access_offset(m, access);
    if (at < 0)
        return scalar_of(access->fill, m->kernel->buffers.at[access->buffer].elem);
    return element_load(m, access->buffer, at);
}

// Does a combining store set the element, the first one since the buffer was made?
static bool sets_element(const Interpreter *m, uint16_t buffer, int64_t at) {
    bool *combined = m->buffers[buffer].combined;
    if (!combined || combined[at])
        return false;
    combined[at] = true;
    return true;
}

static void store_sink(const Interpreter *m, const Sink *sink) {
    static const Op combine[] = {
        [SINK_SUM] = OP_ADD, [SINK_PROD] = OP_MUL, [SINK_MAX] = OP_MAX, [SINK_MIN] = OP_MIN};
    Elem elem = m->kernel->buffers.at[sink->to.buffer].elem;
    int64_t at = access_offset(m, &sink->to);
    if (at < 0)
        ice("tile interp: kernel %s stores outside a buffer", m->kernel->name);
    Scalar value = m->terms[sink->term];
    if (sink->mode == SINK_TOP) {
        double top = sets_element(m, sink->to.buffer, at) ? -INFINITY
                                                          : element_load(m, sink->to.buffer, at).f;
        value.f = value.f > top ? value.f : top;
    } else if (sink->mode != SINK_SET && !sets_element(m, sink->to.buffer, at)) {
        Scalar args[3] = {element_load(m, sink->to.buffer, at), value};
        value = scalar_op(combine[sink->mode], elem, elem, args);
    }
    element_store(m, sink->to.buffer, at, value);
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
        store_sink(m, &stage->sinks.at[i]);
}

static void run_contract_point(const Interpreter *m, const Stage *stage) {
    Elem elem = m->kernel->buffers.at[stage->c.buffer].elem;
    Scalar factors[3] = {access_load(m, &stage->a), access_load(m, &stage->b)};
    Scalar sum[3] = {scalar_op(OP_MUL, elem, elem, factors)};
    int64_t at = access_offset(m, &stage->c);
    if (!sets_element(m, stage->c.buffer, at)) {
        sum[1] = element_load(m, stage->c.buffer, at);
        sum[0] = scalar_op(OP_ADD, elem, elem, sum);
    }
    element_store(m, stage->c.buffer, at, sum[0]);
}

// Does the element at position x come before the one at y > x, or after it?
static bool comes_first(const Stage *stage, Elem elem, Scalar x, Scalar y) {
    if (!elem_is_float(elem))
        return stage->descending ? x.i >= y.i : x.i <= y.i;
    if (isnan(x.f) || isnan(y.f))
        return stage->descending ? isnan(x.f) : isnan(y.f);
    return stage->descending ? x.f >= y.f : x.f <= y.f;
}

// How many elements of the row come before that at position `at`.
static int64_t order_rank(const Interpreter *m, const Stage *stage, int64_t at) {
    Elem elem = m->kernel->buffers.at[stage->a.buffer].elem;
    int64_t *point = &m->points[stage->along], rank = 0;
    *point = at;
    Scalar own = access_load(m, &stage->a);
    for (*point = 0; *point < m->extents[stage->along]; ++*point) {
        Scalar other = access_load(m, &stage->a);
        if (*point != at)
            rank += *point < at ? comes_first(stage, elem, other, own)
                                : !comes_first(stage, elem, own, other);
    }
    return rank;
}

static void run_order_row(const Interpreter *m, const Stage *stage) {
    for (int64_t i = 0; i < m->extents[stage->along]; i++) {
        int64_t rank = order_rank(m, stage, i);
        if (rank >= m->extents[stage->places])
            continue;
        m->points[stage->places] = rank;
        element_store(m, stage->c.buffer, access_offset(m, &stage->c), (Scalar){.i = i});
    }
}

static bool is_in_row(const Stage *stage, TileDimId dim) {
    return stage->kind == STAGE_ORDER && (dim == stage->along || dim == stage->places);
}

static void run_points(const Interpreter *m, const Stage *stage, int depth) {
    if (depth == stage->n_dims) {
        if (stage->kind == STAGE_CONTRACT)
            run_contract_point(m, stage);
        else if (stage->kind == STAGE_ORDER)
            run_order_row(m, stage);
        else
            run_compute_point(m, stage);
        return;
    }
    TileDimId dim = stage->dims[depth];
    if (is_in_row(stage, dim)) {
        run_points(m, stage, depth + 1);
        return;
    }
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

static bool is_empty(const Interpreter *m, const Stage *stage) {
    for (int i = 0; i < stage->n_dims; i++)
        if (m->ranges[stage->dims[i]].hi == m->ranges[stage->dims[i]].lo)
            return true;
    return false;
}

static void run_stage(Interpreter *m, const Stage *stage) {
    run_points(m, stage, 0);
    if (!stage->pad || is_empty(m, stage))
        return;
    int64_t index[TILE_RANK_MAX];
    for (uint32_t i = 0; i < stage->sinks.count; i++) {
        const Access *to = &stage->sinks.at[i].to;
        if (m->kernel->buffers.at[to->buffer].panel_dim != TILE_DIM_NONE)
            pad_panel(m, to, 0, index);
    }
}

// Sets the elements of a buffer in the box of the current ranges.
static void fill_box(const Interpreter *m, uint16_t at, double with, int depth, int64_t *index) {
    const TileBuffer *buffer = &m->kernel->buffers.at[at];
    if (depth == buffer->rank) {
        int64_t element = buffer_offset(buffer, &m->buffers[at], index);
        element_store(m, at, element, scalar_of(with, buffer->elem));
        return;
    }
    Range range = m->ranges[buffer->dims[depth]];
    for (index[depth] = range.lo; index[depth] < range.hi; index[depth]++)
        fill_box(m, at, with, depth + 1, index);
}

// Did an earlier task begin the argument, or the caller?
static bool is_begun(const Interpreter *m, uint16_t at) {
    const TileBuffer *buffer = &m->kernel->buffers.at[at];
    const Node *tasks = kernel_innermost_parallel(m->kernel);
    if (kernel_adds_in_turn(m->kernel, at) && m->ranges[tasks->dim].lo > 0)
        return true;
    return buffer->kept_by >= 0 && *(const int64_t *)m->buffers[buffer->kept_by].data;
}

static void begin(const Interpreter *m, uint16_t at) {
    const TileBuffer *buffer = &m->kernel->buffers.at[at];
    int64_t index[TILE_RANK_MAX];
    TileDimList over;
    double nothing;
    if (is_begun(m, at))
        return;
    if (buffer->has_initial)
        fill_box(m, at, buffer->initial, 0, index);
    else if (kernel_combines(m->kernel, at, &over, &nothing))
        for (int i = 0; i < over.count; i++)
            if (m->extents[over.at[i]] == 0)
                fill_box(m, at, nothing, 0, index);
}

static bool is_taken(const Kernel *kernel, uint16_t at) {
    for (uint32_t i = kernel->n_args; i < kernel->buffers.count; i++)
        if (kernel->buffers.at[i].takes >= 0 && buffer_memory(kernel, (uint16_t)i) == at)
            return true;
    return false;
}

// Memory of its own, or that of the buffer that it takes.
static void find_memory(Interpreter *m, uint16_t at, int64_t size) {
    const TileBuffer *buffer = &m->kernel->buffers.at[at];
    Storage *storage = &m->buffers[at];
    if (size > storage->capacity) {
        Arena *arena = m->kernel->arena;
        storage->capacity = size;
        storage->combined = buffer->has_initial ? NULL : arena_array(arena, bool, size);
        if (buffer->takes < 0)
            storage->data = arena_alloc(arena, (size_t)size * elem_bytes(buffer->elem));
        if (is_taken(m->kernel, at))
            storage->holder = arena_array(arena, uint16_t, size);
    }
    for (int64_t i = 0; i < size && storage->combined; i++)
        storage->combined[i] = false;
    for (int64_t i = 0; i < size && storage->holder; i++)
        storage->holder[i] = at;
}

static void open_scratch(Interpreter *m, uint16_t at) {
    const TileBuffer *buffer = &m->kernel->buffers.at[at];
    Storage *storage = &m->buffers[at];
    for (int i = 0; i < buffer->rank; i++)
        storage->room[i] = m->ranges[buffer->dims[i]];
    int64_t size = storage_size(buffer, storage);
    find_memory(m, at, size);
    if (buffer->takes >= 0)
        storage->data = m->buffers[buffer->takes].data;
    else
        scalar_poison(buffer->elem, storage->data, size);
    begin(m, at);
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
    case BOUND_PART:
        return part_begin(m->ranges[bound->dim].lo + bound->number, m->extents[bound->dim],
                          m->extents[range->dim]);
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
    case BOUND_ROUND:
        a = bound_position(m, range, bound->args[0]);
        b = a % bound->number;
        return sum_of(a, b < 0 ? -b - bound->number : -b);
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
        int64_t last = ceil_div(whole.hi - whole.lo, node->step) - 1;
        for (int64_t turn = 0; turn <= last; turn++) {
            int64_t piece = node->loop == LOOP_BACKWARD ? last - turn : turn;
            int64_t at = whole.lo + piece * node->step;
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

static void open_argument(Interpreter *m, uint32_t at, void *data) {
    const TileBuffer *buffer = &m->kernel->buffers.at[at];
    Storage *storage = &m->buffers[at];
    storage->data = data;
    for (int d = 0; d < buffer->rank; d++)
        storage->room[d] = (Range){0, m->extents[buffer->dims[d]]};
    if (buffer->place == PLACE_IN || kernel_adds_in_turn(m->kernel, (uint16_t)at))
        return;
    int64_t size = storage_size(buffer, storage);
    storage->writer = arena_array(m->kernel->arena, uint32_t, size + 1);
    storage->reader = arena_array(m->kernel->arena, uint32_t, size + 1);
    if (buffer->place == PLACE_OUT && !buffer->has_initial)
        storage->combined = arena_array(m->kernel->arena, bool, size + 1);
}

// The numbers 0 .. count in an order that is always the same.
static int64_t *shuffled(Arena *arena, int64_t count) {
    int64_t *order = arena_array(arena, int64_t, count + 1);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = (int64_t)(hash_u64(1, (uint64_t)i) % (uint64_t)(i + 1));
        order[i] = order[at];
        order[at] = i;
    }
    return order;
}

// Takes the task's number apart from the innermost parallel loop outwards, as a target does.
static void run_task(Interpreter *m, int64_t task) {
    const Node *parallel[TILE_RANK_MAX];
    const NodeList *body = &m->kernel->body;
    int n = 0;
    for (const Node *loop; (loop = nodes_parallel(body)); body = &loop->body)
        parallel[n++] = loop;
    m->task = (uint32_t)task + 1;
    while (n-- > 0) {
        int64_t step = parallel[n]->step, extent = m->extents[parallel[n]->dim];
        int64_t pieces = ceil_div(extent, step), lo = pieces ? task % pieces * step : 0;
        task /= pieces ? pieces : 1;
        m->ranges[parallel[n]->dim] = (Range){lo, lo + step < extent ? lo + step : extent};
    }
    for (uint32_t i = 0; i < m->kernel->n_args; i++)
        begin(m, (uint16_t)i);
    run_nodes(m, body);
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
    for (uint32_t i = 0; i < kernel->n_args; i++)
        open_argument(&m, i, buffers[i]);
    int64_t tasks = kernel_tasks(kernel, extents);
    const int64_t *order = kernel_ordered(kernel) ? NULL : shuffled(arena, tasks);
    for (int64_t i = 0; i < tasks; i++)
        run_task(&m, order ? order[i] : i);
}

// ---- whole programs ----

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
        if (data[b] || buffer->role == BUFFER_VIEW)
            continue;
        int64_t count = buffer_elements(buffer, extents);
        data[b] = arena_alloc(arena, (size_t)count * elem_bytes(buffer->value->elem) + 1);
        scalar_poison(buffer->value->elem, data[b], count);
    }
    for (uint32_t b = 0; b < plan->buffers.count; b++)
        if (plan->buffers.at[b].role == BUFFER_VIEW)
            data[b] = data[plan->buffers.at[b].of];
    return data;
}

void tile_interpret(const TileProgram *program, const int64_t *extents, void *const *inputs,
                    void *const *outputs) {
    Arena *arena = arena_new();
    char **data = bind_buffers(program, extents, inputs, outputs, arena);
    for (uint32_t l = 0; l < program->launches.count; l++) {
        const Launch *launch = &program->launches.at[l];
        if (!launch_runs(launch, extents))
            continue;
        const Kernel *kernel = program->kernels.at[launch->kernel];
        void **arguments = arena_array(arena, void *, kernel->n_args + 1);
        for (uint32_t a = 0; a < kernel->n_args; a++)
            arguments[a] = data[launch->buffers[a]];
        kernel_interpret(kernel, launch_extents(launch, kernel, extents, arena), arguments);
    }
    arena_free(arena);
}
