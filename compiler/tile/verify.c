// SPDX-License-Identifier: Apache-2.0
// The rules of the tile level, checked on the tree alone (no extents): buffers, and the tree of
// loops, ranges and scratch; verify_stage.c has those of stages. What they exclude: reads of memory
// that does not exist or that nothing was stored to, two tasks or two points writing one element,
// sums whose first term cannot be told, contract stages that no microkernel can run.
#include "tile/verify.h"

// ---- buffers ----

// What the caller gave is kept or not for all of an argument.
static bool check_kept(Checker *c, const TileBuffer *buffer) {
    if (buffer->kept_by < 0)
        return true;
    if (buffer->place != PLACE_OUT || !buffer->has_initial)
        return verify_broken(c, "%s is kept and has no initial value", buffer->name);
    if ((uint32_t)buffer->kept_by >= c->kernel->n_args)
        return verify_broken(c, "%s is kept by no argument", buffer->name);
    const TileBuffer *flag = &c->kernel->buffers.at[buffer->kept_by];
    return (flag->place == PLACE_IN && flag->elem == ELEM_I64 && !flag->rank) ||
           verify_broken(c, "%s is kept by %s, which is no number of i64", buffer->name,
                         flag->name);
}

// An initial value belongs to what is made here, and all of a task's elements are its own, unless
// tasks add to it in turn.
static bool check_initial(Checker *c, const TileBuffer *buffer) {
    if (!check_kept(c, buffer))
        return false;
    if (!buffer->has_initial)
        return true;
    if (buffer->place == PLACE_IN || buffer->place == PLACE_BOTH)
        return verify_broken(c, "%s is given and has an initial value", buffer->name);
    if (buffer->takes >= 0)
        return verify_broken(c, "%s takes memory and has an initial value", buffer->name);
    const Node *chain = kernel_innermost_parallel(c->kernel);
    const Node *loop = buffer->place == PLACE_OUT ? nodes_parallel(&c->kernel->body) : NULL;
    for (; loop; loop = nodes_parallel(&loop->body)) {
        bool has = loop == chain; // see check_turns
        for (int i = 0; i < buffer->rank; i++)
            has = has || buffer->dims[i] == loop->dim;
        if (!has)
            return verify_broken(c, "tasks along %s would meet in %s",
                                 verify_dim_name(c, loop->dim), buffer->name);
    }
    return true;
}

static bool check_buffer(Checker *c, uint32_t at) {
    const TileBuffer *buffer = &c->kernel->buffers.at[at];
    if ((buffer->place == PLACE_SCRATCH) != (at >= c->kernel->n_args))
        return verify_broken(c, "%s: arguments come first, then scratch", buffer->name);
    if (buffer->rank > TILE_RANK_MAX)
        return verify_broken(c, "%s has too many dims", buffer->name);
    bool distinct =
        buffer->place == PLACE_SCRATCH || buffer->has_initial || buffer->panel_dim != TILE_DIM_NONE;
    bool has_panel = buffer->panel_dim == TILE_DIM_NONE;
    for (int i = 0; i < buffer->rank; i++) {
        if (buffer->dims[i] >= c->kernel->dims.count)
            return verify_broken(c, "%s has a dim that the kernel lacks", buffer->name);
        for (int k = 0; k < i && distinct; k++)
            if (buffer->dims[k] == buffer->dims[i])
                return verify_broken(c, "%s has dim %s twice", buffer->name,
                                     verify_dim_name(c, buffer->dims[i]));
        has_panel = has_panel || buffer->dims[i] == buffer->panel_dim;
    }
    if (!has_panel || (buffer->panel_dim != TILE_DIM_NONE && buffer->panel_width < 1))
        return verify_broken(c, "%s: a panel needs a dim of the buffer and a width", buffer->name);
    bool plain = buffer->place == PLACE_SCRATCH && buffer->panel_dim == TILE_DIM_NONE;
    if (buffer->gap < 0 || (buffer->gap && (!plain || !buffer->rank)))
        return verify_broken(c, "%s: a gap needs plain scratch with dims", buffer->name);
    if (buffer->takes >= 0 && buffer->place != PLACE_SCRATCH)
        return verify_broken(c, "%s is an argument and takes memory", buffer->name);
    return check_initial(c, buffer);
}

// ---- the tree ----

static bool check_nodes(Checker *c, const NodeList *body);

static bool check_inside(Checker *c, const Node *node) {
    if (c->n_around == AROUND_MAX)
        return verify_broken(c, "loops are nested too deep");
    c->around[c->n_around++] = node;
    bool fine = check_nodes(c, &node->body);
    c->n_around--;
    return fine;
}

// Each task has it once, and knows which one is before.
static bool check_ordered(Checker *c, const Node *node) {
    if (!c->n_parallel)
        return verify_broken(c, "ordered %s without tasks", verify_dim_name(c, node->dim));
    if (c->around[c->n_parallel - 1]->dim == node->dim)
        return verify_broken(c, "ordered %s over the dim of the tasks",
                             verify_dim_name(c, node->dim));
    for (uint32_t l = c->n_parallel; l < c->n_around; l++)
        if (c->around[l]->kind == NODE_LOOP)
            return verify_broken(c, "ordered %s inside another loop",
                                 verify_dim_name(c, node->dim));
    return ++c->n_ordered <= ORDERED_MAX ||
           verify_broken(c, "more than %d ordered loops", ORDERED_MAX);
}

static bool check_loop(Checker *c, const NodeList *body, const Node *node) {
    if (node->dim >= c->kernel->dims.count)
        return verify_broken(c, "a loop over no dim");
    if (node->step < 1)
        return verify_broken(c, "loop %s has step %ld", verify_dim_name(c, node->dim),
                             (long)node->step);
    if (node->loop == LOOP_PARALLEL) {
        if (c->n_around != c->n_parallel)
            return verify_broken(c, "parallel %s inside another loop or a range",
                                 verify_dim_name(c, node->dim));
        for (uint32_t l = 0; l < c->n_around; l++)
            if (c->around[l]->dim == node->dim)
                return verify_broken(c, "parallel %s twice", verify_dim_name(c, node->dim));
        if (body->count != 1)
            return verify_broken(c, "parallel %s does not hold all else",
                                 verify_dim_name(c, node->dim));
        c->n_parallel++;
    }
    if (node->loop == LOOP_ORDERED && !check_ordered(c, node))
        return false;
    return check_inside(c, node);
}

// ---- ranges ----

static bool check_bound_load(Checker *c, const Access *load) {
    if (load->buffer >= c->kernel->buffers.count)
        return verify_broken(c, "a bound loads from no buffer");
    const TileBuffer *buffer = &c->kernel->buffers.at[load->buffer];
    if (c->scope[load->buffer] < 0 && buffer->place == PLACE_SCRATCH)
        return verify_broken(c, "a bound loads %s outside its scope", buffer->name);
    if (!elem_is_int(buffer->elem) || (buffer->place != PLACE_IN && buffer->place != PLACE_SCRATCH))
        return verify_broken(c, "a bound loads %s, which is no integers that are given or scratch",
                             buffer->name);
    if (load->rank != buffer->rank || load->checked)
        return verify_broken(c, "a bound loads %s by an access of another kind", buffer->name);
    for (int i = 0; i < load->rank; i++) {
        const Index *index = &load->index[i];
        bool own = index->dim == buffer->dims[i] && !index->offset;
        if (index->term >= 0 || (buffer->place == PLACE_SCRATCH && !own))
            return verify_broken(c, "a bound loads %s by an access of another kind", buffer->name);
        if (index->dim == TILE_DIM_NONE)
            continue;
        if (index->dim >= c->kernel->dims.count || !verify_nonempty(c, index->dim))
            return verify_broken(c, "a bound loads %s where dim %s may be empty", buffer->name,
                                 verify_dim_name(c, index->dim));
    }
    return verify_is_filled(c, load);
}

static bool check_bound(Checker *c, const Node *range, uint32_t at) {
    const Bound *bound = &range->bounds.at[at];
    switch (bound->kind) {
    case BOUND_NUMBER:
        return true;
    case BOUND_LO:
    case BOUND_HI:
    case BOUND_EXTENT:
    case BOUND_PART:
        if (bound->dim >= c->kernel->dims.count)
            return verify_broken(c, "a bound of no dim");
        return bound->kind != BOUND_PART || c->kernel->dims.at[bound->dim].extent >= 1 ||
               verify_broken(c, "parts of %s, whose number is not known",
                             verify_dim_name(c, bound->dim));
    case BOUND_LOAD:
        return check_bound_load(c, &bound->load);
    case BOUND_MIN:
    case BOUND_MAX:
    case BOUND_ADD:
        for (int i = 0; i < 2; i++)
            if (bound->args[i] < 0 || (uint32_t)bound->args[i] >= at)
                return verify_broken(c, "argument %d of a bound is no earlier one", i);
        return true;
    case BOUND_ROUND:
        if (bound->args[0] < 0 || (uint32_t)bound->args[0] >= at || bound->number < 1)
            return verify_broken(c, "a bound is rounded from no earlier one or to no multiple");
        return true;
    }
    return verify_broken(c, "a bound of no kind");
}

static bool check_range(Checker *c, const Node *node) {
    if (node->dim >= c->kernel->dims.count)
        return verify_broken(c, "a range of no dim");
    if (node->align < 1)
        return verify_broken(c, "range %s has align %ld", verify_dim_name(c, node->dim),
                             (long)node->align);
    for (uint32_t i = 0; i < node->bounds.count; i++)
        if (!check_bound(c, node, i))
            return false;
    int32_t ends[] = {node->lo, node->hi};
    for (int i = 0; i < 2; i++)
        if (ends[i] < -1 || (ends[i] >= 0 && (uint32_t)ends[i] >= node->bounds.count))
            return verify_broken(c, "range %s ends at no bound", verify_dim_name(c, node->dim));
    return check_inside(c, node);
}

// ---- scratch ----

static bool is_cut(const Checker *c, TileDimId dim) {
    for (uint32_t l = 0; l < c->n_around; l++)
        if (c->around[l]->dim == dim)
            return true;
    return false;
}

// Lies element [i j k] of one in the memory of element [i j k] of the other?
static bool check_takes(Checker *c, const TileBuffer *buffer) {
    if (buffer->takes < 0)
        return true;
    if ((uint32_t)buffer->takes >= c->kernel->buffers.count ||
        c->scope[buffer->takes] != (int)c->n_around)
        return verify_broken(c, "%s takes memory that is not made before it in the same body",
                             buffer->name);
    const TileBuffer *from = &c->kernel->buffers.at[buffer->takes];
    bool same = from->place == PLACE_SCRATCH && from->elem == buffer->elem &&
                from->rank == buffer->rank && from->gap == buffer->gap &&
                from->panel_width == buffer->panel_width;
    for (int i = 0; i < buffer->rank && same; i++) {
        TileDimId x = buffer->dims[i], y = from->dims[i];
        int64_t extent = c->kernel->dims.at[x].extent;
        same = (x == buffer->panel_dim) == (y == from->panel_dim) &&
               (x == y || (extent != EXTENT_DYNAMIC && extent == c->kernel->dims.at[y].extent &&
                           !is_cut(c, x) && !is_cut(c, y)));
    }
    return same || verify_broken(c, "%s takes the memory of %s, which lies differently",
                                 buffer->name, from->name);
}

static bool check_scratch(Checker *c, const Node *node) {
    if (node->buffer < c->kernel->n_args || node->buffer >= c->kernel->buffers.count)
        return verify_broken(c, "a scratch node without scratch");
    const TileBuffer *buffer = &c->kernel->buffers.at[node->buffer];
    if (c->scope[node->buffer] != -1)
        return verify_broken(c, "scratch %s twice", buffer->name);
    if (!check_takes(c, buffer))
        return false;
    c->scope[node->buffer] = (int)c->n_around;
    return true;
}

static bool check_nodes(Checker *c, const NodeList *body) {
    bool fine = true;
    for (uint32_t i = 0; i < body->count && fine; i++) {
        const Node *node = body->at[i];
        switch (node->kind) {
        case NODE_LOOP:
            fine = check_loop(c, body, node);
            break;
        case NODE_RANGE:
            fine = check_range(c, node);
            break;
        case NODE_SCRATCH:
            fine = check_scratch(c, node);
            break;
        case NODE_STAGE:
            fine = verify_stage(c, node->stage);
            break;
        }
    }
    // What was declared here ends here.
    for (uint32_t i = 0; i < body->count; i++)
        if (body->at[i]->kind == NODE_SCRATCH && body->at[i]->buffer < c->kernel->buffers.count)
            c->scope[body->at[i]->buffer] = -2;
    return fine;
}

// What all tasks would begin is begun by the first of those that take turns, which is there without
// positions, too.
static bool check_turns(Checker *c) {
    const Node *chain = kernel_innermost_parallel(c->kernel);
    if (c->n_ordered)
        return !c->counts_on_rows ||
               verify_broken(c, "the first task of an ordered loop may have no positions of %s",
                             verify_dim_name(c, chain->dim));
    for (uint32_t b = 0; b < c->kernel->n_args && chain; b++) {
        const TileBuffer *buffer = &c->kernel->buffers.at[b];
        bool has = !buffer->has_initial;
        for (int i = 0; i < buffer->rank; i++)
            has = has || buffer->dims[i] == chain->dim;
        if (!has)
            return verify_broken(c, "tasks along %s would meet in %s",
                                 verify_dim_name(c, chain->dim), buffer->name);
    }
    return true;
}

bool kernel_check(const Kernel *kernel, Text *why) {
    Checker c = {.kernel = kernel, .why = why};
    c.scope = arena_array(why->arena, int, kernel->buffers.count + 1);
    c.stored = arena_array(why->arena, bool, kernel->buffers.count + 1);
    c.combined = arena_array(why->arena, Combined, kernel->buffers.count + 1);
    c.ordered = arena_array(why->arena, const Node *, kernel->buffers.count + 1);
    for (uint32_t i = 0; i < kernel->buffers.count; i++)
        c.scope[i] = -1;
    for (uint32_t i = 0; i < kernel->dims.count; i++)
        if (kernel->dims.at[i].extent < 1 && kernel->dims.at[i].extent != EXTENT_DYNAMIC)
            return verify_broken(&c, "dim %s has extent %ld", kernel->dims.at[i].name,
                                 (long)kernel->dims.at[i].extent);
    for (uint32_t i = 0; i < kernel->buffers.count; i++)
        if (!check_buffer(&c, i))
            return false;
    return check_nodes(&c, &kernel->body) && check_turns(&c);
}

void kernel_verify(const Kernel *kernel, const char *after) {
    Text why = {.arena = kernel->arena};
    if (!kernel_check(kernel, &why))
        ice("tile: after %s: %s", after, why.at);
}
