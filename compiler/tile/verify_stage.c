// SPDX-License-Identifier: Apache-2.0
// The rules for accesses and stages: what is read is there, points and tasks do not meet in one
// element, what begins without a number is combined from its first position on, in one place or in
// parts that follow each other, and a contraction is one that a microkernel can run.
#include "tile/verify.h"

static const TileBuffer *buffer_of(const Checker *c, const Access *access) {
    return &c->kernel->buffers.at[access->buffer];
}

// ---- accesses ----

// Does nothing around the place where a scratch buffer is made cut this dim of it?
static bool is_whole(const Checker *c, uint16_t buffer, int at) {
    TileDimId dim = c->kernel->buffers.at[buffer].dims[at];
    for (uint32_t l = 0; l < verify_made(c, buffer); l++)
        if (c->around[l]->dim == dim)
            return false;
    return true;
}

static bool is_bound_of(const Node *range, int32_t at, BoundKind end, TileDimId dim) {
    const Bound *bound = at < 0 ? NULL : &range->bounds.at[at];
    return bound && bound->kind == BOUND_ADD && range->bounds.at[bound->args[0]].kind == end &&
           range->bounds.at[bound->args[0]].dim == dim;
}

// Is dim here in a range that begins and ends as much before `like` does as some number says? (The
// interpreter sees that it is the number of the index.)
static bool moves_along(const Checker *c, TileDimId dim, TileDimId like) {
    for (uint32_t l = c->n_parallel; l < c->n_around; l++) {
        const Node *node = c->around[l];
        if (node->kind == NODE_RANGE && node->dim == dim && node->align == 1 &&
            is_bound_of(node, node->lo, BOUND_LO, like) &&
            is_bound_of(node, node->hi, BOUND_HI, like))
            return true;
    }
    return false;
}

static bool check_index(Checker *c, const Stage *stage, const Access *access, int at,
                        uint32_t n_terms) {
    const Index *index = &access->index[at];
    const TileBuffer *buffer = buffer_of(c, access);
    if (index->dim != TILE_DIM_NONE && !stage_has_dim(stage, index->dim))
        return verify_broken(c, "the stage lacks dim %s of an access of %s",
                             verify_dim_name(c, index->dim), buffer->name);
    if (index->term >= 0) {
        if ((uint32_t)index->term >= n_terms)
            return verify_broken(c, "an index of %s uses a later term", buffer->name);
        if (!elem_is_int(stage->terms.at[index->term].elem))
            return verify_broken(c, "an index of %s is no integer", buffer->name);
    }
    bool plain = index->dim != TILE_DIM_NONE && !index->offset && index->term < 0;
    if (!plain && buffer->dims[at] == buffer->panel_dim)
        return verify_broken(c, "an index along the panels of %s is no plain dim", buffer->name);
    if (buffer->place != PLACE_SCRATCH)
        return true;
    if (is_whole(c, access->buffer, at))
        return true;
    if (index->term >= 0 && !index->offset && moves_along(c, index->dim, buffer->dims[at]))
        return true;
    if (index->dim != buffer->dims[at] || index->term >= 0)
        return verify_broken(c, "scratch %s is not indexed by its own dims", buffer->name);
    if (index->offset && !access->checked)
        return verify_broken(c, "an offset in scratch %s is not checked", buffer->name);
    return true;
}

static bool check_access(Checker *c, const Stage *stage, const Access *access, uint32_t n_terms) {
    if (access->buffer >= c->kernel->buffers.count)
        return verify_broken(c, "an access has no buffer");
    const TileBuffer *buffer = buffer_of(c, access);
    if (access->rank != buffer->rank)
        return verify_broken(c, "an access of %s has %d indexes for %d dims", buffer->name,
                             access->rank, buffer->rank);
    if (buffer->place == PLACE_SCRATCH && c->scope[access->buffer] < 0)
        return verify_broken(c, "scratch %s is used outside its scope", buffer->name);
    for (int i = 0; i < access->rank; i++)
        if (!check_index(c, stage, access, i, n_terms))
            return false;
    return true;
}

bool verify_is_filled(Checker *c, const Access *access) {
    const TileBuffer *buffer = buffer_of(c, access);
    bool made_here = buffer->place == PLACE_SCRATCH || buffer->place == PLACE_OUT;
    if (!made_here || buffer->has_initial || c->stored[access->buffer])
        return true;
    return verify_broken(c, "%s is read before anything is stored to it", buffer->name);
}

// Do the elements that a combining store reaches in a range depend on the turn of a loop around it
// that it sums over?
static bool moves(const Checker *c, const Access *to, uint32_t made, uint32_t range) {
    for (uint32_t l = made; l < range; l++)
        if (c->around[l]->kind == NODE_LOOP && !access_has_dim(to, c->around[l]->dim))
            return true;
    return false;
}

// The end of a range as a number; `none` where it has none there, -1 where it is no number.
static int64_t fixed_end(const Node *range, int32_t at, int64_t none) {
    if (at < 0)
        return none;
    const Bound *bound = &range->bounds.at[at];
    return bound->kind == BOUND_NUMBER ? bound->number : -1;
}

// The only range around since the buffer of `to` was made, if it is one of what is combined over
// and from one known position to another; NULL: there is none, or more than that.
static const Node *fixed_part(const Checker *c, const Access *to) {
    const Node *part = NULL;
    for (uint32_t l = verify_made(c, to->buffer); l < c->n_around; l++) {
        if (c->around[l]->kind != NODE_RANGE)
            continue;
        if (part)
            return NULL;
        part = c->around[l];
    }
    int64_t extent = part ? c->kernel->dims.at[part->dim].extent : EXTENT_DYNAMIC;
    if (extent == EXTENT_DYNAMIC || access_has_dim(to, part->dim) || part->align != 1)
        return NULL;
    int64_t lo = fixed_end(part, part->lo, 0), hi = fixed_end(part, part->hi, extent);
    return lo >= 0 && lo < hi && hi <= extent ? part : NULL;
}

// Does it go on where what was combined before ended?
static bool goes_on(const Checker *c, const Access *to, SinkMode mode) {
    const Combined *before = &c->combined[to->buffer];
    const Node *part = fixed_part(c, to);
    return part && before->part && part->dim == before->part->dim && mode == before->mode &&
           fixed_end(part, part->lo, 0) == fixed_end(before->part, before->part->hi, -1);
}

// Without an initial value an element is set when all that is summed over stands where it began:
// there must be such a point, and it must come first.
static bool check_combining(Checker *c, const Stage *stage, const Access *to, SinkMode mode) {
    const TileBuffer *buffer = buffer_of(c, to);
    if (buffer->has_initial || buffer->place == PLACE_BOTH)
        return true;
    if (c->ordered[to->buffer])
        return verify_broken(c, "%s is added to in turn and has no initial value", buffer->name);
    if (goes_on(c, to, mode)) {
        c->combined[to->buffer].part = fixed_part(c, to);
        return true;
    }
    if (c->combined[to->buffer].any)
        return verify_broken(c, "%s is combined in two places and has no initial value",
                             buffer->name);
    if (c->stored[to->buffer])
        return verify_broken(c, "%s is stored to before it is combined and has no initial value",
                             buffer->name);
    const Node *part = fixed_part(c, to);
    bool begins = part && fixed_end(part, part->lo, 0) == 0;
    c->combined[to->buffer] = (Combined){true, mode, begins ? part : NULL};
    uint32_t made = verify_made(c, to->buffer);
    for (uint32_t l = made; l < c->n_around; l++) {
        TileDimId dim = c->around[l]->dim;
        if (c->around[l]->kind == NODE_LOOP && c->around[l]->loop == LOOP_BACKWARD &&
            !access_has_dim(to, dim))
            return verify_broken(c, "%s is combined backwards over %s and has no initial value",
                                 buffer->name, verify_dim_name(c, dim));
        if (c->around[l]->kind == NODE_RANGE &&
            ((!access_has_dim(to, dim) && !begins) || moves(c, to, made, l)))
            return verify_broken(c, "%s is combined in a range of %s and has no initial value",
                                 buffer->name, verify_dim_name(c, dim));
    }
    for (int i = 0; i < stage->n_dims; i++)
        if (!access_has_dim(to, stage->dims[i]) && !verify_nonempty(c, stage->dims[i]))
            return verify_broken(c,
                                 "%s is combined over %s, which may be empty, and has no "
                                 "initial value",
                                 buffer->name, verify_dim_name(c, stage->dims[i]));
    return true;
}

static bool check_store(Checker *c, const Access *to) {
    const TileBuffer *buffer = buffer_of(c, to);
    if (buffer->place == PLACE_IN)
        return verify_broken(c, "%s is an input and stored to", buffer->name);
    if (to->checked)
        return verify_broken(c, "a store to %s is checked", buffer->name);
    for (int i = 0; i < to->rank; i++) {
        if (to->index[i].term >= 0)
            return verify_broken(c, "a store to %s has a computed index", buffer->name);
        for (int k = 0; k < i; k++)
            if (to->index[k].dim == to->index[i].dim && to->index[i].dim != TILE_DIM_NONE)
                return verify_broken(c, "a store to %s has dim %s twice", buffer->name,
                                     verify_dim_name(c, to->index[i].dim));
    }
    return verify_races(c, to);
}

// ---- stages ----

static bool check_dims(Checker *c, const Stage *stage) {
    if (stage->n_dims > TILE_RANK_MAX)
        return verify_broken(c, "a stage has too many dims");
    for (int i = 0; i < stage->n_dims; i++) {
        if (stage->dims[i] >= c->kernel->dims.count)
            return verify_broken(c, "a stage has a dim that the kernel lacks");
        for (int k = 0; k < i; k++)
            if (stage->dims[k] == stage->dims[i])
                return verify_broken(c, "a stage has dim %s twice",
                                     verify_dim_name(c, stage->dims[i]));
    }
    if (stage->lanes != TILE_DIM_NONE && !stage_has_dim(stage, stage->lanes))
        return verify_broken(c, "lanes %s is no dim of its stage",
                             verify_dim_name(c, stage->lanes));
    return true;
}

static bool check_op(Checker *c, const Stage *stage, uint32_t at) {
    const Term *term = &stage->terms.at[at];
    if (op_kind(term->op) != KIND_MAP)
        return verify_broken(c, "%s is no pointwise operation", op_name(term->op));
    for (int i = 0; i < 3; i++) {
        if (i >= op_arity(term->op)) {
            if (term->args[i] >= 0)
                return verify_broken(c, "%s has too many arguments", op_name(term->op));
            continue;
        }
        if (term->args[i] < 0 || (uint32_t)term->args[i] >= at)
            return verify_broken(c, "argument %d of %s is no earlier term", i, op_name(term->op));
    }
    if (term->op == OP_CAST)
        return true;
    // Both sides of a comparison, both values of a select, and operands and result of arithmetic.
    int first = term->op == OP_SELECT ? 1 : 0;
    Elem elem = stage->terms.at[term->args[first]].elem;
    for (int i = first + 1; i < op_arity(term->op); i++)
        if (stage->terms.at[term->args[i]].elem != elem)
            return verify_broken(c, "the arguments of %s differ in elem", op_name(term->op));
    if (term->op == OP_RANDOM)
        return (elem == ELEM_I64 && term->elem == ELEM_F32) ||
               verify_broken(c, "%s makes f32 of i64", op_name(term->op));
    bool compares =
        term->op == OP_EQ || term->op == OP_NE || term->op == OP_LT || term->op == OP_LE;
    if (term->elem != (compares ? ELEM_BOOL : elem))
        return verify_broken(c, "%s cannot give %s", op_name(term->op), elem_name(term->elem));
    if (term->op == OP_SELECT && stage->terms.at[term->args[0]].elem != ELEM_BOOL)
        return verify_broken(c, "the condition of a select is no bool");
    return true;
}

// A load of what the stage itself stored at an earlier point.
static bool is_own_load(const Stage *stage, const Access *load) {
    for (uint32_t s = 0; s < stage->sinks.count; s++) {
        const Access *to = &stage->sinks.at[s].to;
        for (int i = 0; i < load->rank && to->buffer == load->buffer; i++)
            if (to->index[i].dim == load->index[i].dim &&
                to->index[i].offset != load->index[i].offset)
                return true;
    }
    return false;
}

static bool check_term(Checker *c, const Stage *stage, uint32_t at) {
    const Term *term = &stage->terms.at[at];
    switch (term->kind) {
    case TERM_LOAD:
        if (!check_access(c, stage, &term->load, at))
            return false;
        if (!is_own_load(stage, &term->load) && !verify_is_filled(c, &term->load))
            return false;
        if (term->elem != buffer_of(c, &term->load)->elem)
            return verify_broken(c, "a load of %s has another elem",
                                 buffer_of(c, &term->load)->name);
        return verify_races(c, &term->load);
    case TERM_CONST:
        return true;
    case TERM_INDEX:
        return stage_has_dim(stage, term->dim) ||
               verify_broken(c, "index(%s) in a stage that lacks it",
                             verify_dim_name(c, term->dim));
    case TERM_EXTENT:
        return term->dim < c->kernel->dims.count || verify_broken(c, "extent of no dim");
    case TERM_OP:
        return check_op(c, stage, at);
    }
    return verify_broken(c, "a term of no kind");
}

// By term up to `at`: does its value depend on the point along the dim, if only because what is
// stored to `own` is read again?
static void find_dependent(const Stage *stage, uint32_t at, TileDimId dim, uint16_t own,
                           bool *depends) {
    for (uint32_t i = 0; i <= at; i++) {
        const Term *term = &stage->terms.at[i];
        depends[i] = (term->kind == TERM_INDEX && term->dim == dim) ||
                     (term->kind == TERM_LOAD && term->load.buffer == own);
        for (int k = 0; term->kind == TERM_LOAD && k < term->load.rank; k++) {
            const Index *index = &term->load.index[k];
            depends[i] =
                depends[i] || index->dim == dim || (index->term >= 0 && depends[index->term]);
        }
        for (int k = 0; term->kind == TERM_OP && k < 3; k++)
            depends[i] = depends[i] || (term->args[k] >= 0 && depends[term->args[k]]);
    }
}

static bool term_depends(const Stage *stage, int32_t at, TileDimId dim, uint16_t own) {
    Arena *arena = arena_new();
    bool *depends = arena_array(arena, bool, at + 1);
    find_dependent(stage, (uint32_t)at, dim, own, depends);
    bool result = depends[at];
    arena_free(arena);
    return result;
}

// A dim of which only one position is current: its extent is 1, or a loop goes by ones.
static bool is_single(const Checker *c, TileDimId dim) {
    if (c->kernel->dims.at[dim].extent == 1)
        return true;
    for (uint32_t l = 0; l < c->n_around; l++)
        if (c->around[l]->kind == NODE_LOOP && c->around[l]->dim == dim && c->around[l]->step == 1)
            return true;
    return false;
}

static bool check_sink(Checker *c, const Stage *stage, const Sink *sink) {
    if (sink->term < 0 || (uint32_t)sink->term >= stage->terms.count)
        return verify_broken(c, "a sink has no term");
    if (!check_access(c, stage, &sink->to, 0) || !check_store(c, &sink->to))
        return false;
    const TileBuffer *buffer = buffer_of(c, &sink->to);
    if (stage->terms.at[sink->term].elem != buffer->elem)
        return verify_broken(c, "%s is stored to %s: cast it",
                             elem_name(stage->terms.at[sink->term].elem), buffer->name);
    if (sink->mode == SINK_TOP && !elem_is_float(buffer->elem))
        return verify_broken(c, "the top of %s, which is no float", buffer->name);
    if (sink->mode != SINK_SET)
        return check_combining(c, stage, &sink->to, sink->mode);
    for (int i = 0; i < stage->n_dims; i++)
        if (!access_has_dim(&sink->to, stage->dims[i]) && !is_single(c, stage->dims[i]) &&
            term_depends(stage, sink->term, stage->dims[i], sink->to.buffer))
            return verify_broken(c, "points along %s write one element of %s",
                                 verify_dim_name(c, stage->dims[i]), buffer->name);
    return true;
}

static bool shares_memory(const Checker *c, const Access *a, const Access *b) {
    return buffer_memory(c->kernel, a->buffer) == buffer_memory(c->kernel, b->buffer);
}

// A load at another point of a buffer that the stage stores to depends on the order of points,
// which vectors along that dim would break. Of a buffer that lies in the same memory, nothing but
// the point itself is still there.
static bool check_load_and_store(Checker *c, const Stage *stage, const Access *load,
                                 const Access *to) {
    for (int i = 0; i < to->rank; i++) {
        const Index *x = &to->index[i], *y = &load->index[i];
        bool same = x->dim == y->dim && x->offset == y->offset && y->term < 0;
        if (!same && to->buffer != load->buffer)
            return verify_broken(c, "%s is loaded where %s takes its memory",
                                 buffer_of(c, load)->name, buffer_of(c, to)->name);
        if (!same && (x->dim == stage->lanes || x->dim != y->dim || y->term >= 0))
            return verify_broken(c, "%s is loaded at another lane than it is stored to",
                                 buffer_of(c, to)->name);
    }
    return true;
}

static bool check_feedback(Checker *c, const Stage *stage) {
    for (uint32_t s = 0; s < stage->sinks.count; s++) {
        const Access *to = &stage->sinks.at[s].to;
        for (uint32_t t = 0; t < stage->terms.count; t++) {
            const Term *term = &stage->terms.at[t];
            if (term->kind == TERM_LOAD && shares_memory(c, &term->load, to) &&
                !check_load_and_store(c, stage, &term->load, to))
                return false;
        }
        for (uint32_t o = 0; o < s; o++)
            if (stage->sinks.at[o].to.buffer != to->buffer &&
                shares_memory(c, &stage->sinks.at[o].to, to))
                return verify_broken(c, "a stage stores to %s and to its memory",
                                     buffer_of(c, to)->name);
    }
    return true;
}

static bool check_compute(Checker *c, const Stage *stage) {
    if (!stage->sinks.count)
        return verify_broken(c, "a compute stage stores nothing");
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
        return verify_broken(c, "a stage pads but stores to no panel");
    return check_feedback(c, stage);
}

// Contiguous along dim, as a whole or in panels of whole blocks that pieces do not cut apart.
static bool check_blocks(Checker *c, const Access *access, TileDimId dim, int32_t block) {
    const TileBuffer *buffer = buffer_of(c, access);
    if (access_panel_dim(c->kernel, access) != dim || buffer->panel_width % block)
        return verify_broken(c, "contract: panels of %s are not of whole blocks along %s",
                             buffer->name, verify_dim_name(c, dim));
    uint32_t made = buffer->place == PLACE_SCRATCH ? verify_made(c, access->buffer) : 0;
    for (uint32_t l = made; l < c->n_around; l++) {
        const Node *node = c->around[l];
        int64_t step = node->kind == NODE_LOOP ? node->step : node->lo < 0 ? 0 : node->align;
        if (node->dim == dim && step % block)
            return verify_broken(c,
                                 "contract: pieces of %s begin inside blocks of the panels of %s",
                                 verify_dim_name(c, dim), buffer->name);
    }
    return true;
}

static bool check_lanes(Checker *c, const Stage *stage, const Access *access) {
    const TileBuffer *buffer = buffer_of(c, access);
    if (buffer->panel_dim != TILE_DIM_NONE)
        return check_blocks(c, access, stage->lanes, stage->lane_block);
    return (access->rank && access->index[access->rank - 1].dim == stage->lanes) ||
           verify_broken(c, "contract: %s is not contiguous along the lanes", buffer->name);
}

static bool check_summed_layouts(Checker *c, const Stage *stage) {
    const Access *accesses[] = {&stage->a, &stage->b, &stage->c};
    for (int i = 0; i < 3; i++) {
        const TileBuffer *buffer = buffer_of(c, accesses[i]);
        if (buffer->panel_dim != TILE_DIM_NONE)
            return verify_broken(c, "contract: lanes are summed, but %s has panels", buffer->name);
        if (i < 2 && !check_lanes(c, stage, accesses[i]))
            return false;
    }
    return true;
}

static bool check_layouts(Checker *c, const Stage *stage) {
    if (stage_sums_lanes(stage))
        return check_summed_layouts(c, stage);
    if (stage_shares_lanes(stage))
        return check_lanes(c, stage, &stage->a) && check_lanes(c, stage, &stage->b) &&
               check_lanes(c, stage, &stage->c);
    return check_lanes(c, stage, &stage->b) && check_lanes(c, stage, &stage->c) &&
           (buffer_of(c, &stage->a)->panel_dim == TILE_DIM_NONE ||
            check_blocks(c, &stage->a, stage->rows, stage->row_block));
}

// Both factors are there, and are not what is being computed.
static bool check_factors(Checker *c, const Stage *stage) {
    const Access *factors[] = {&stage->a, &stage->b};
    for (int i = 0; i < 2; i++) {
        if (!verify_is_filled(c, factors[i]))
            return false;
        if (shares_memory(c, factors[i], &stage->c))
            return verify_broken(c, "contract: %s is read and stored to",
                                 buffer_of(c, factors[i])->name);
    }
    return true;
}

// Is dim, or none, a dim of `operand` and the result alone?
static bool is_of_result_and(const Stage *stage, TileDimId dim, const Access *operand,
                             const Access *other) {
    return dim == TILE_DIM_NONE || (stage_has_dim(stage, dim) && access_has_dim(operand, dim) &&
                                    access_has_dim(&stage->c, dim) && !access_has_dim(other, dim));
}

static bool check_roles(Checker *c, const Stage *stage) {
    bool blocks = !stage_has_microkernel(stage);
    if (!blocks && (stage->lanes == TILE_DIM_NONE || access_has_dim(&stage->a, stage->lanes)))
        return verify_broken(c, "contract: the lanes must be a dim that the row operand lacks");
    if (!is_of_result_and(stage, stage->rows, &stage->a, &stage->b))
        return verify_broken(c, "contract: rows %s is no dim of row operand and result alone",
                             verify_dim_name(c, stage->rows));
    if (!is_of_result_and(stage, stage->cols, &stage->b, &stage->a))
        return verify_broken(c, "contract: cols %s is no dim of column operand and result alone",
                             verify_dim_name(c, stage->cols));
    return blocks || stage->cols == TILE_DIM_NONE ||
           verify_broken(c, "contract: cols %s, but b alone has the lanes",
                         verify_dim_name(c, stage->cols));
}

static bool check_contract(Checker *c, const Stage *stage) {
    const Access *accesses[] = {&stage->a, &stage->b, &stage->c};
    if (!check_access(c, stage, &stage->c, 0))
        return false;
    Elem sum = buffer_of(c, &stage->c)->elem;
    if (sum != ELEM_F32 && sum != ELEM_F64)
        return verify_broken(c, "contract: a sum of %s", elem_name(sum));
    for (int i = 0; i < 3; i++) {
        if (!check_access(c, stage, accesses[i], 0))
            return false;
        if (!access_is_plain(accesses[i]))
            return verify_broken(c, "contract: an index of %s is no plain dim",
                                 buffer_of(c, accesses[i])->name);
        Elem elem = buffer_of(c, accesses[i])->elem;
        bool widened = sum == ELEM_F32 && i < 2 && (elem == ELEM_F16 || elem == ELEM_BF16);
        if (elem != sum && !widened)
            return verify_broken(c, "contract: a sum of %s with an operand of %s", elem_name(sum),
                                 elem_name(elem));
        if (!verify_races(c, accesses[i]))
            return false;
    }
    if (!check_roles(c, stage))
        return false;
    for (int i = 0; i < stage->n_dims; i++)
        if (!access_has_dim(&stage->a, stage->dims[i]) &&
            !access_has_dim(&stage->b, stage->dims[i]) && !is_single(c, stage->dims[i]))
            return verify_broken(c, "contract: no operand has dim %s",
                                 verify_dim_name(c, stage->dims[i]));
    if ((!stage_sums_lanes(stage) && stage->lane_block < 1) || stage->row_block < 1 ||
        (stage->cols != TILE_DIM_NONE && stage->col_block < 1))
        return verify_broken(c, "contract: blocks must be at least 1");
    return check_factors(c, stage) && check_store(c, &stage->c) &&
           check_combining(c, stage, &stage->c, SINK_SUM) && check_layouts(c, stage);
}

// ---- orders ----

static bool check_whole(Checker *c, TileDimId dim) {
    for (uint32_t l = 0; l < c->n_around; l++)
        if (c->around[l]->dim == dim)
            return verify_broken(c, "order: %s is cut by what is around", verify_dim_name(c, dim));
    return true;
}

static bool check_work(Checker *c, const Stage *stage) {
    for (int i = 0; i < ORDER_WORK; i++) {
        uint16_t at = stage->work[i];
        const TileBuffer *buffer =
            at < c->kernel->buffers.count ? &c->kernel->buffers.at[at] : NULL;
        if (!buffer || buffer->place != PLACE_SCRATCH || c->scope[at] < 0 || buffer->rank != 1 ||
            buffer->dims[0] != stage->along || buffer->elem != ELEM_I64 ||
            buffer->panel_dim != TILE_DIM_NONE || buffer->has_initial)
            return verify_broken(c, "order: work %d is no scratch of its form", i);
        for (int k = 0; k < i; k++)
            if (buffer_memory(c->kernel, stage->work[k]) == buffer_memory(c->kernel, at))
                return verify_broken(c, "order: %s is there twice", buffer->name);
    }
    return true;
}

static bool check_order(Checker *c, const Stage *stage) {
    const Access *accesses[] = {&stage->a, &stage->c};
    for (int i = 0; i < 2; i++) {
        if (!check_access(c, stage, accesses[i], 0))
            return false;
        if (!access_is_plain(accesses[i]) || buffer_of(c, accesses[i])->panel_dim != TILE_DIM_NONE)
            return verify_broken(c, "order: an index of %s is no plain dim",
                                 buffer_of(c, accesses[i])->name);
    }
    for (int i = 0; i < stage->n_dims; i++) {
        TileDimId dim = stage->dims[i];
        bool kept = dim == stage->along || access_has_dim(&stage->a, dim) || dim == stage->places;
        bool stored = dim == stage->along || access_has_dim(&stage->c, dim);
        if (!kept || !stored)
            return verify_broken(c, "order: %s is no dim of argument and result",
                                 verify_dim_name(c, dim));
    }
    if (!stage->a.rank || stage->a.index[stage->a.rank - 1].dim != stage->along)
        return verify_broken(c, "order: %s is not contiguous along %s",
                             buffer_of(c, &stage->a)->name, verify_dim_name(c, stage->along));
    if (!access_has_dim(&stage->c, stage->places) || buffer_of(c, &stage->c)->elem != ELEM_I32 ||
        buffer_of(c, &stage->a)->elem == ELEM_BOOL)
        return verify_broken(c, "order: %s cannot hold positions", buffer_of(c, &stage->c)->name);
    if (shares_memory(c, &stage->a, &stage->c))
        return verify_broken(c, "order: %s is read and stored to", buffer_of(c, &stage->a)->name);
    return check_whole(c, stage->along) && check_whole(c, stage->places) &&
           verify_is_filled(c, &stage->a) && verify_races(c, &stage->a) &&
           check_store(c, &stage->c) && check_work(c, stage);
}

bool verify_stage(Checker *c, const Stage *stage) {
    if (!check_dims(c, stage))
        return false;
    if (stage->kind != STAGE_COMPUTE) {
        bool fine = (stage->kind == STAGE_ORDER ? check_order : check_contract)(c, stage);
        if (fine)
            c->stored[stage->c.buffer] = true;
        return fine;
    }
    bool fine = check_compute(c, stage);
    for (uint32_t i = 0; i < stage->sinks.count && fine; i++)
        c->stored[stage->sinks.at[i].to.buffer] = true;
    return fine;
}
