// SPDX-License-Identifier: Apache-2.0
// The rules of the tile level, checked on the tree alone (no extents). What they exclude: reads of
// scratch that does not exist yet, two tasks or two points writing one element, carried sums whose
// scratch dies between two blocks, contract stages that no microkernel can run.
#include <stdarg.h>

#include "tile/tile.h"

typedef struct {
    const Kernel *kernel;
    Text *why;
    // Loops around the current node, outermost first.
    const Node *loops[64];
    uint32_t n_loops;
    // Per buffer: how many loops were around its NODE_SCRATCH; -1 when not in scope.
    int *scope;
} Checker;

__attribute__((format(printf, 2, 3))) static bool broken(Checker *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    text_printf(c->why, "kernel %s: ", c->kernel->name);
    text_vprintf(c->why, format, args);
    va_end(args);
    return false;
}

static const char *dim_name(const Checker *c, TileDimId dim) {
    return dim < c->kernel->dims.count ? c->kernel->dims.at[dim].name : "(no dim)";
}

static const TileBuffer *buffer_of(const Checker *c, const Access *access) {
    return &c->kernel->buffers.at[access->buffer];
}

// ---- buffers ----

static bool check_buffer(Checker *c, uint32_t at) {
    const TileBuffer *buffer = &c->kernel->buffers.at[at];
    if ((buffer->place == PLACE_SCRATCH) != (at >= c->kernel->n_args))
        return broken(c, "%s: arguments come first, then scratch", buffer->name);
    if (buffer->rank > TILE_RANK_MAX)
        return broken(c, "%s has too many dims", buffer->name);
    bool has_panel = buffer->panel_dim == TILE_DIM_NONE;
    for (int i = 0; i < buffer->rank; i++) {
        if (buffer->dims[i] >= c->kernel->dims.count)
            return broken(c, "%s has a dim that the kernel lacks", buffer->name);
        for (int k = 0; k < i && buffer->place == PLACE_SCRATCH; k++)
            if (buffer->dims[k] == buffer->dims[i])
                return broken(c, "scratch %s has dim %s twice", buffer->name,
                              dim_name(c, buffer->dims[i]));
        has_panel = has_panel || buffer->dims[i] == buffer->panel_dim;
    }
    if (!has_panel || (buffer->panel_dim != TILE_DIM_NONE && buffer->panel_width < 1))
        return broken(c, "%s: a panel needs a dim of the buffer and a width", buffer->name);
    return true;
}

// ---- accesses ----

static bool check_index(Checker *c, const Stage *stage, const Access *access, int at,
                        uint32_t n_terms) {
    const Index *index = &access->index[at];
    const TileBuffer *buffer = buffer_of(c, access);
    if (index->dim != TILE_DIM_NONE && !stage_has_dim(stage, index->dim))
        return broken(c, "the stage lacks dim %s of an access of %s", dim_name(c, index->dim),
                      buffer->name);
    if (index->term >= 0) {
        if ((uint32_t)index->term >= n_terms)
            return broken(c, "an index of %s uses a later term", buffer->name);
        if (!elem_is_int(stage->terms.at[index->term].elem))
            return broken(c, "an index of %s is no integer", buffer->name);
    }
    if (buffer->place != PLACE_SCRATCH)
        return true;
    if (index->dim != buffer->dims[at] || index->term >= 0)
        return broken(c, "scratch %s is not indexed by its own dims", buffer->name);
    if (index->offset && (!access->checked || buffer->panel_dim != TILE_DIM_NONE))
        return broken(c, "an offset in scratch %s is not checked", buffer->name);
    return true;
}

static bool check_access(Checker *c, const Stage *stage, const Access *access, uint32_t n_terms) {
    if (access->buffer >= c->kernel->buffers.count)
        return broken(c, "an access has no buffer");
    const TileBuffer *buffer = buffer_of(c, access);
    if (access->rank != buffer->rank)
        return broken(c, "an access of %s has %d indexes for %d dims", buffer->name, access->rank,
                      buffer->rank);
    if (buffer->place == PLACE_SCRATCH && c->scope[access->buffer] < 0)
        return broken(c, "scratch %s is used outside its scope", buffer->name);
    for (int i = 0; i < access->rank; i++)
        if (!check_index(c, stage, access, i, n_terms))
            return false;
    return true;
}

// What is stored to an argument must not meet what another task stores or loads.
static bool check_races(Checker *c, const Access *access) {
    const TileBuffer *buffer = buffer_of(c, access);
    if (buffer->place != PLACE_OUT && buffer->place != PLACE_BOTH)
        return true;
    for (uint32_t l = 0; l < c->n_loops && c->loops[l]->loop == LOOP_PARALLEL; l++) {
        bool has = false;
        for (int i = 0; i < access->rank; i++)
            has = has || (access->index[i].dim == c->loops[l]->dim &&
                          buffer->dims[i] == c->loops[l]->dim && !access->index[i].offset &&
                          access->index[i].term < 0);
        if (!has)
            return broken(c, "tasks along %s would meet in %s", dim_name(c, c->loops[l]->dim),
                          buffer->name);
    }
    return true;
}

// A combined element lives from the first to the last block of the dims it lacks.
static bool check_carried(Checker *c, const Stage *stage, const Access *to) {
    const TileBuffer *buffer = buffer_of(c, to);
    int scope = buffer->place == PLACE_SCRATCH ? c->scope[to->buffer] : 0;
    for (int l = 0; l < scope; l++) {
        TileDimId dim = c->loops[l]->dim;
        if (stage_has_dim(stage, dim) && !access_has_dim(to, dim))
            return broken(c, "%s is combined over %s but made anew for each block of it",
                          buffer->name, dim_name(c, dim));
    }
    return true;
}

static bool check_store(Checker *c, const Stage *stage, const Access *to) {
    const TileBuffer *buffer = buffer_of(c, to);
    if (buffer->place == PLACE_IN)
        return broken(c, "%s is an input and stored to", buffer->name);
    if (to->checked)
        return broken(c, "a store to %s is checked", buffer->name);
    for (int i = 0; i < to->rank; i++) {
        if (to->index[i].term >= 0)
            return broken(c, "a store to %s has a computed index", buffer->name);
        for (int k = 0; k < i; k++)
            if (to->index[k].dim == to->index[i].dim && to->index[i].dim != TILE_DIM_NONE)
                return broken(c, "a store to %s has dim %s twice", buffer->name,
                              dim_name(c, to->index[i].dim));
    }
    (void)stage;
    return check_races(c, to);
}

// ---- stages ----

static bool check_dims(Checker *c, const Stage *stage) {
    if (stage->n_dims > TILE_RANK_MAX)
        return broken(c, "a stage has too many dims");
    for (int i = 0; i < stage->n_dims; i++) {
        if (stage->dims[i] >= c->kernel->dims.count)
            return broken(c, "a stage has a dim that the kernel lacks");
        for (int k = 0; k < i; k++)
            if (stage->dims[k] == stage->dims[i])
                return broken(c, "a stage has dim %s twice", dim_name(c, stage->dims[i]));
    }
    if (stage->lanes != TILE_DIM_NONE && !stage_has_dim(stage, stage->lanes))
        return broken(c, "lanes %s is no dim of its stage", dim_name(c, stage->lanes));
    return true;
}

static bool check_op(Checker *c, const Stage *stage, uint32_t at) {
    const Term *term = &stage->terms.at[at];
    if (op_kind(term->op) != KIND_MAP)
        return broken(c, "%s is no pointwise operation", op_name(term->op));
    for (int i = 0; i < 3; i++) {
        if (i >= op_arity(term->op)) {
            if (term->args[i] >= 0)
                return broken(c, "%s has too many arguments", op_name(term->op));
            continue;
        }
        if (term->args[i] < 0 || (uint32_t)term->args[i] >= at)
            return broken(c, "argument %d of %s is no earlier term", i, op_name(term->op));
    }
    if (term->op == OP_CAST)
        return true;
    // Both sides of a comparison, both values of a select, and operands and result of arithmetic.
    int first = term->op == OP_SELECT ? 1 : 0;
    Elem elem = stage->terms.at[term->args[first]].elem;
    for (int i = first + 1; i < op_arity(term->op); i++)
        if (stage->terms.at[term->args[i]].elem != elem)
            return broken(c, "the arguments of %s differ in elem", op_name(term->op));
    bool compares =
        term->op == OP_EQ || term->op == OP_NE || term->op == OP_LT || term->op == OP_LE;
    if (term->elem != (compares ? ELEM_BOOL : elem))
        return broken(c, "%s cannot give %s", op_name(term->op), elem_name(term->elem));
    if (term->op == OP_SELECT && stage->terms.at[term->args[0]].elem != ELEM_BOOL)
        return broken(c, "the condition of a select is no bool");
    return true;
}

static bool check_term(Checker *c, const Stage *stage, uint32_t at) {
    const Term *term = &stage->terms.at[at];
    switch (term->kind) {
    case TERM_LOAD:
        if (!check_access(c, stage, &term->load, at))
            return false;
        if (term->elem != buffer_of(c, &term->load)->elem)
            return broken(c, "a load of %s has another elem", buffer_of(c, &term->load)->name);
        return check_races(c, &term->load);
    case TERM_CONST:
        return true;
    case TERM_INDEX:
        return stage_has_dim(stage, term->dim) ||
               broken(c, "index(%s) in a stage that lacks it", dim_name(c, term->dim));
    case TERM_EXTENT:
        return term->dim < c->kernel->dims.count || broken(c, "extent of no dim");
    case TERM_OP:
        return check_op(c, stage, at);
    }
    return broken(c, "a term of no kind");
}

// By term and stage dim: does the term's value depend on the point along the dim?
static bool term_depends(const Stage *stage, int32_t at, TileDimId dim) {
    const Term *term = &stage->terms.at[at];
    if (term->kind == TERM_INDEX)
        return term->dim == dim;
    if (term->kind == TERM_LOAD) {
        for (int i = 0; i < term->load.rank; i++) {
            const Index *index = &term->load.index[i];
            if (index->dim == dim || (index->term >= 0 && term_depends(stage, index->term, dim)))
                return true;
        }
        return false;
    }
    for (int i = 0; i < 3 && term->kind == TERM_OP; i++)
        if (term->args[i] >= 0 && term_depends(stage, term->args[i], dim))
            return true;
    return false;
}

// A dim of which only one position is current: its extent is 1, or a loop goes by ones.
static bool is_single(const Checker *c, TileDimId dim) {
    if (c->kernel->dims.at[dim].extent == 1)
        return true;
    for (uint32_t l = 0; l < c->n_loops; l++)
        if (c->loops[l]->dim == dim && c->loops[l]->step == 1)
            return true;
    return false;
}

static bool check_sink(Checker *c, const Stage *stage, const Sink *sink) {
    if (sink->term < 0 || (uint32_t)sink->term >= stage->terms.count)
        return broken(c, "a sink has no term");
    if (!check_access(c, stage, &sink->to, 0) || !check_store(c, stage, &sink->to))
        return false;
    const TileBuffer *buffer = buffer_of(c, &sink->to);
    if (stage->terms.at[sink->term].elem != buffer->elem)
        return broken(c, "%s is stored to %s: cast it", elem_name(stage->terms.at[sink->term].elem),
                      buffer->name);
    if (sink->mode != SINK_SET)
        return check_carried(c, stage, &sink->to);
    for (int i = 0; i < stage->n_dims; i++)
        if (!access_has_dim(&sink->to, stage->dims[i]) && !is_single(c, stage->dims[i]) &&
            term_depends(stage, sink->term, stage->dims[i]))
            return broken(c, "points along %s write one element of %s", dim_name(c, stage->dims[i]),
                          buffer->name);
    return true;
}

// A load at another point of a buffer that the stage stores to depends on the order of points,
// which vectors along that dim would break.
static bool check_feedback(Checker *c, const Stage *stage) {
    for (uint32_t t = 0; t < stage->terms.count; t++) {
        const Term *term = &stage->terms.at[t];
        for (uint32_t s = 0; s < stage->sinks.count && term->kind == TERM_LOAD; s++) {
            const Access *to = &stage->sinks.at[s].to;
            if (to->buffer != term->load.buffer)
                continue;
            for (int i = 0; i < to->rank; i++) {
                const Index *x = &to->index[i], *y = &term->load.index[i];
                bool same = x->dim == y->dim && x->offset == y->offset && y->term < 0;
                if (!same && (x->dim == stage->lanes || x->dim != y->dim || y->term >= 0))
                    return broken(c, "%s is loaded at another lane than it is stored to",
                                  buffer_of(c, to)->name);
            }
        }
    }
    return true;
}

static bool check_compute(Checker *c, const Stage *stage) {
    if (!stage->sinks.count)
        return broken(c, "a compute stage stores nothing");
    for (uint32_t i = 0; i < stage->terms.count; i++)
        if (!check_term(c, stage, i))
            return false;
    bool has_panel = false;
    for (uint32_t i = 0; i < stage->sinks.count; i++) {
        if (!check_sink(c, stage, &stage->sinks.at[i]))
            return false;
        has_panel = has_panel || buffer_of(c, &stage->sinks.at[i].to)->panel_dim != TILE_DIM_NONE;
    }
    if (stage->pad && !has_panel)
        return broken(c, "a stage pads but stores to no panel");
    return check_feedback(c, stage);
}

static bool is_contiguous(const Checker *c, const Access *access, TileDimId dim) {
    const TileBuffer *buffer = buffer_of(c, access);
    return buffer->panel_dim == TILE_DIM_NONE && access->rank &&
           access->index[access->rank - 1].dim == dim;
}

static bool check_panels(Checker *c, const Stage *stage) {
    const TileBuffer *a = buffer_of(c, &stage->a), *b = buffer_of(c, &stage->b);
    if (!is_contiguous(c, &stage->c, stage->lanes))
        return broken(c, "contract: %s is not contiguous along the lanes",
                      buffer_of(c, &stage->c)->name);
    if (!is_contiguous(c, &stage->b, stage->lanes) && b->panel_dim != stage->lanes)
        return broken(c, "contract: %s is not contiguous along the lanes", b->name);
    if (b->panel_dim != TILE_DIM_NONE && b->panel_width != stage->lane_block)
        return broken(c, "contract: panels of %s are not one lane block wide", b->name);
    if (a->panel_dim != TILE_DIM_NONE &&
        (a->panel_dim != stage->rows || a->panel_width != stage->row_block))
        return broken(c, "contract: panels of %s are not one row block wide", a->name);
    return true;
}

static bool check_contract(Checker *c, const Stage *stage) {
    const Access *accesses[] = {&stage->a, &stage->b, &stage->c};
    for (int i = 0; i < 3; i++) {
        if (!check_access(c, stage, accesses[i], 0))
            return false;
        if (!access_is_plain(accesses[i]))
            return broken(c, "contract: an index of %s is no plain dim",
                          buffer_of(c, accesses[i])->name);
        if (buffer_of(c, accesses[i])->elem != buffer_of(c, &stage->c)->elem)
            return broken(c, "contract: operands differ in elem");
        if (!check_races(c, accesses[i]))
            return false;
    }
    if (buffer_of(c, &stage->c)->elem != ELEM_F32 && buffer_of(c, &stage->c)->elem != ELEM_F64)
        return broken(c, "contract of %s", elem_name(buffer_of(c, &stage->c)->elem));
    TileDimId lanes = stage->lanes, rows = stage->rows;
    if (lanes == TILE_DIM_NONE || access_has_dim(&stage->a, lanes))
        return broken(c, "contract: the lanes must be a dim that the row operand lacks");
    if (rows != TILE_DIM_NONE &&
        (!stage_has_dim(stage, rows) || !access_has_dim(&stage->a, rows) ||
         access_has_dim(&stage->b, rows) || !access_has_dim(&stage->c, rows)))
        return broken(c, "contract: rows %s is no dim of row operand and result alone",
                      dim_name(c, rows));
    for (int i = 0; i < stage->n_dims; i++)
        if (!access_has_dim(&stage->a, stage->dims[i]) &&
            !access_has_dim(&stage->b, stage->dims[i]) && !is_single(c, stage->dims[i]))
            return broken(c, "contract: no operand has dim %s", dim_name(c, stage->dims[i]));
    if (stage->lane_block < 1 || stage->row_block < 1)
        return broken(c, "contract: blocks must be at least 1");
    return check_store(c, stage, &stage->c) && check_carried(c, stage, &stage->c) &&
           check_panels(c, stage);
}

// ---- the tree ----

static bool check_nodes(Checker *c, const NodeList *body);

static bool check_loop(Checker *c, const NodeList *body, const Node *node) {
    if (node->dim >= c->kernel->dims.count)
        return broken(c, "a loop over no dim");
    if (node->step < 1)
        return broken(c, "loop %s has step %ld", dim_name(c, node->dim), (long)node->step);
    if (c->n_loops == sizeof c->loops / sizeof c->loops[0])
        return broken(c, "loops are nested too deep");
    if (node->loop == LOOP_PARALLEL) {
        for (uint32_t l = 0; l < c->n_loops; l++) {
            if (c->loops[l]->loop != LOOP_PARALLEL)
                return broken(c, "parallel %s inside another loop", dim_name(c, node->dim));
            if (c->loops[l]->dim == node->dim)
                return broken(c, "parallel %s twice", dim_name(c, node->dim));
        }
        if (body->count != 1)
            return broken(c, "parallel %s does not hold all else", dim_name(c, node->dim));
    }
    c->loops[c->n_loops++] = node;
    bool fine = check_nodes(c, &node->body);
    c->n_loops--;
    return fine;
}

static bool check_range(Checker *c, const Node *node) {
    if (node->dim >= c->kernel->dims.count)
        return broken(c, "a range of no dim");
    if (node->align < 1)
        return broken(c, "range %s has align %ld", dim_name(c, node->dim), (long)node->align);
    return check_nodes(c, &node->body);
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
            if (node->buffer < c->kernel->n_args || node->buffer >= c->kernel->buffers.count)
                return broken(c, "a scratch node without scratch");
            if (c->scope[node->buffer] != -1)
                return broken(c, "scratch %s twice", c->kernel->buffers.at[node->buffer].name);
            c->scope[node->buffer] = (int)c->n_loops;
            break;
        case NODE_STAGE:
            fine = check_dims(c, node->stage) &&
                   (node->stage->kind == STAGE_CONTRACT ? check_contract(c, node->stage)
                                                        : check_compute(c, node->stage));
            break;
        }
    }
    // What was declared here ends here.
    for (uint32_t i = 0; i < body->count; i++)
        if (body->at[i]->kind == NODE_SCRATCH && body->at[i]->buffer < c->kernel->buffers.count)
            c->scope[body->at[i]->buffer] = -2;
    return fine;
}

bool kernel_check(const Kernel *kernel, Text *why) {
    Checker c = {.kernel = kernel, .why = why};
    c.scope = arena_array(why->arena, int, kernel->buffers.count + 1);
    for (uint32_t i = 0; i < kernel->buffers.count; i++)
        c.scope[i] = -1;
    for (uint32_t i = 0; i < kernel->dims.count; i++)
        if (kernel->dims.at[i].extent < 1 && kernel->dims.at[i].extent != EXTENT_DYNAMIC)
            return broken(&c, "dim %s has extent %ld", kernel->dims.at[i].name,
                          (long)kernel->dims.at[i].extent);
    for (uint32_t i = 0; i < kernel->buffers.count; i++)
        if (!check_buffer(&c, i))
            return false;
    return check_nodes(&c, &kernel->body);
}

void kernel_verify(const Kernel *kernel, const char *after) {
    Text why = {.arena = kernel->arena};
    if (!kernel_check(kernel, &why))
        ice("tile: after %s: %s", after, why.at);
}
