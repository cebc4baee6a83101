// SPDX-License-Identifier: Apache-2.0
// The nodes of a nest: scratch, loops over rows, stages.
//
//     scratch J[n h m], U[n h m] (in J's memory)
//     contract J += Q * K                     # a run of its own: all rows of the task
//     loop n:1                                # a run of stages that work row by row
//       scratch L[n g m], M[n g] ...
//       contract L += P_l * J
//       compute M max= L; compute L = exp(L - M), Z += L; ...
//       contract U += X * L
//     contract O += U * V
//
// What only one run touches lies inside its loop. A value takes the place of one that is dead by
// then: the same scratch for a pointwise value of the same dims (it may replace what its own stage
// reads, point by point), the memory of it for a contraction.
#include <math.h>

#include "tile/lower/nest.h"

typedef struct {
    Member *member;
    uint16_t buffer;
    NodeList *in;
} Home;

typedef struct {
    Nest *nest;
    NodeList *into;
    VEC(Home) homes; // in scratch, made by this nest and not taken over
    uint32_t position;
    VEC(Value *) running;   // what shifts depend on,
    VEC(uint16_t) previous; // and where its value before this piece lies
} Emission;

// ---- homes -------------------------------------------------------------------------------------

TileDimList nest_scratch_dims(const Nest *nest, const Member *m) {
    DimSet dims = lower_dim_set(nest->lower, &m->value->dims);
    DimSet last = m->last == TILE_DIM_NONE ? 0 : set_of(m->last), outer = m->outer & ~last;
    TileDimList order = lower_order(outer, &nest->order);
    TileDimList others = lower_order(dims & ~outer & ~last, &nest->order);
    for (int i = 0; i < others.count; i++)
        order.at[order.count++] = others.at[i];
    if (last)
        order.at[order.count++] = m->last;
    return order;
}

static bool lists_equal(const TileDimList *a, const TileDimList *b) {
    for (int i = 0; i < a->count && a->count == b->count; i++)
        if (a->at[i] != b->at[i])
            return false;
    return a->count == b->count;
}

// Position by position the same dim, or dims of one constant extent that nothing cuts.
static bool lists_alike(const Nest *nest, const TileDimList *a, const TileDimList *b) {
    const Kernel *kernel = nest->lower->kernel;
    DimSet cut = nest->rows | nest->streamed;
    for (int i = 0; i < a->count && a->count == b->count; i++) {
        TileDimId x = a->at[i], y = b->at[i];
        bool alike = x == y || (!set_has(cut, x) && !set_has(cut, y) &&
                                kernel->dims.at[x].extent != EXTENT_DYNAMIC &&
                                kernel->dims.at[x].extent == kernel->dims.at[y].extent);
        if (!alike)
            return false;
    }
    return a->count == b->count;
}

// A scratch in the same place whose value nobody reads any more when `m` is stored.
static Home *find_dead(Emission *e, const Member *m, const TileDimList *dims, int32_t gap,
                       NodeList *in) {
    const Nest *nest = e->nest;
    for (uint32_t i = 0; i < e->homes.count; i++) {
        Home *home = &e->homes.at[i];
        if (!home->member || home->member->wanted || home->in != in ||
            elem_work(home->member->value->elem) != elem_work(m->value->elem))
            continue;
        uint32_t last = home->member->last_stage;
        bool dead = last < e->position || (last == e->position && !m->reduces);
        TileDimList other = lower_buffer_dims(nest->lower, home->buffer);
        bool fits = m->contracts ? lists_alike(nest, dims, &other) : lists_equal(dims, &other);
        fits = fits && nest->lower->kernel->buffers.at[home->buffer].gap == gap;
        if (dead && fits && (m->contracts || !m->reduces))
            return home;
    }
    return NULL;
}

double nest_neutral(Op op) {
    switch (op) {
    case OP_REDUCE_MAX:
    case OP_REDUCE_TOP:
        return -INFINITY;
    case OP_REDUCE_MIN:
        return INFINITY;
    case OP_PROD:
        return 1;
    default:
        return 0;
    }
}

bool nest_shares_rows(const Nest *nest, uint16_t buffer) {
    TileDimId cut = lower_cut_dim(nest->lower);
    return cut != TILE_DIM_NONE && buffer < nest->lower->kernel->n_args &&
           set_has(lower_buffer_set(nest->lower, buffer), cut);
}

// A reduction over a range that may be empty.
static bool needs_initial(const Nest *nest, const Member *m) {
    DimSet own = lower_dim_set(nest->lower, &m->value->dims);
    return m->shifted || value_in_turn(m->value) ||
           (m->reduces && m->value->op != OP_CUMSUM && (m->box & ~own & nest->narrowed));
}

// Rows that are read down are a line apart from a multiple of a page, whose lines share few sets of
// a cache.
static int32_t run_gap(const Nest *nest, const TileDimList *dims, Elem elem) {
    bool wide = dims->count > 1 && dims_last_of(dims) == nest->lanes &&
                nest->lower->group->kind == GROUP_STREAM;
    return wide ? MACHINE_LINE / (int32_t)elem_bytes(elem) : 0;
}

static uint16_t make_scratch(Emission *e, Member *m, NodeList *in) {
    Lowering *lower = e->nest->lower;
    TileDimList dims = nest_scratch_dims(e->nest, m);
    TileBuffer buffer =
        scratch_plain(lower_label(lower, m->value), elem_work(m->value->elem), dims);
    bool initial = needs_initial(e->nest, m);
    buffer.gap = run_gap(e->nest, &dims, buffer.elem);
    Home *dead = initial ? NULL : find_dead(e, m, &dims, buffer.gap, in);
    buffer.has_initial = initial;
    buffer.initial = initial ? nest_neutral(m->value->op) : 0;
    uint16_t made;
    if (dead && !m->contracts) {
        made = dead->buffer;
    } else {
        buffer.takes = dead ? buffer_memory(lower->kernel, dead->buffer) : -1;
        made = node_scratch_with(lower->kernel, in, buffer);
    }
    if (dead)
        dead->member = NULL;
    vec_push(lower->arena, &e->homes, (Home){m, made, in});
    return made;
}

// Can the value be stored where it is wanted, or must it be copied there?
static bool fits_designated(const Nest *nest, const Member *m, uint16_t designated) {
    const TileBuffer *buffer = &nest->lower->kernel->buffers.at[designated];
    bool exact = buffer->elem == elem_work(m->value->elem);
    if (needs_initial(nest, m) && nest_shares_rows(nest, designated))
        return false; // the argument would begin with it in every task
    if (!exact)
        return !m->reduces && m->needed_by == NO_STAGE;
    TileDimList scratch = nest_scratch_dims(nest, m),
                dims = lower_buffer_dims(nest->lower, designated);
    if (m->is_operand && dims_last_of(&scratch) != dims_last_of(&dims))
        return false; // contractions read it along other lanes
    if (!m->contracts)
        return true;
    if (buffer->panel_dim != TILE_DIM_NONE)
        return buffer->panel_dim == m->last && buffer->panel_width % m->blocks.lanes == 0;
    if (roles_sum_lanes(&m->roles))
        return true; // sums go to any place, one by one
    return buffer->rank && buffer->dims[buffer->rank - 1] == m->last;
}

static uint16_t make_home(Emission *e, Member *m, NodeList *run_into) {
    Nest *nest = e->nest;
    int designated = lower_designated(nest->lower, m->value);
    if (m->home != NO_BUFFER)
        return (uint16_t)m->home;
    if (designated != NO_BUFFER && fits_designated(nest, m, (uint16_t)designated)) {
        TileBuffer *buffer = &nest->lower->kernel->buffers.at[designated];
        if (needs_initial(nest, m) && !buffer->has_initial)
            buffer_begin_with(nest->lower->kernel, (uint16_t)designated,
                              nest_neutral(m->value->op));
        return (uint16_t)designated;
    }
    if (value_in_turn(m->value) && lower_chain_dim(nest->lower) != TILE_DIM_NONE)
        ice("tile lower: what tasks add to in turn, value %u, has no memory", m->value->id);
    return make_scratch(e, m, run_into);
}

bool nest_is_ahead(const Nest *nest, const NestStage *stage) {
    bool of_arguments = stage->kind == NEST_COMPUTE && !stage->level; // of no sum over rows
    DimSet by_row = stage->box & nest->rows;
    for (TileDimId d = 0; d < nest->lower->kernel->dims.count && of_arguments; d++)
        if (set_has(by_row, d) && nest->steps[d] == 1)
            by_row &= ~set_of(d);
    return !by_row;
}

// Is it of use in its run alone? What is wanted is, when nothing follows the nest and the run
// copies it to where it is wanted.
static bool ends_with_run(const Nest *nest, const Member *m) {
    int designated = lower_designated(nest->lower, m->value);
    bool copied =
        nest->plain && designated != NO_BUFFER && !fits_designated(nest, m, (uint16_t)designated);
    return m->first_run == m->last_run && (!m->wanted || copied);
}

// What several runs touch is made before the loop of the run that stores it.
static void make_shared_homes(Emission *e, uint32_t begin, uint32_t end) {
    Nest *nest = e->nest;
    for (uint32_t i = begin; i < end; i++)
        for (uint32_t k = 0; k < nest->members.count; k++) {
            Member *m = &nest->members.at[k];
            if (nest_is_ahead(nest, &nest->stages.at[nest->sequence[i]]))
                continue;
            if (!m->stored || m->stage != nest->sequence[i] || ends_with_run(nest, m))
                continue;
            e->position = i;
            m->home = make_home(e, m, e->into);
        }
}

// ---- compute stages ----------------------------------------------------------------------------

static void store_cumsum(const Nest *nest, TermBuilder *terms, const Value *value, uint16_t home) {
    Kernel *kernel = nest->lower->kernel;
    TileDimId along = nest->lower->dim_of[value->dim];
    Access before = access_plain(kernel, home);
    before.checked = true;
    for (int i = 0; i < before.rank; i++)
        if (before.index[i].dim == along)
            before.index[i].offset = -1;
    int32_t sum = stage_load(kernel, terms->stage, before);
    int32_t one = terms_value(terms, value->args[0]);
    sum = stage_op(kernel, terms->stage, OP_ADD, terms->stage->terms.at[one].elem, sum, one, -1);
    terms_store(terms, SINK_SET, home, sum);
}

static bool is_carried(const Nest *nest, const Value *value, uint16_t *buffer) {
    for (uint32_t i = 0; i < nest->carries.count; i++)
        if (nest->carries.at[i].value == value) {
            *buffer = nest->carries.at[i].buffer;
            return true;
        }
    return false;
}

// Is the factor of a sum of products applied to the sum, once it is whole?
static bool is_scaled_after(const Nest *nest, const Member *m) {
    uint16_t buffer;
    return m->value->op == OP_CONTRACT && m->value->number != 1 &&
           !is_carried(nest, m->value, &buffer);
}

// A contraction as a sum of products.
static void store_products(const Nest *nest, TermBuilder *terms, const Value *value,
                           uint16_t home) {
    Kernel *kernel = nest->lower->kernel;
    Elem elem = elem_work(value->elem);
    int32_t product = terms_value(terms, value->args[0]);
    for (uint32_t i = 1; i < value->n_args; i++)
        product = stage_op(kernel, terms->stage, OP_MUL, elem, product,
                           terms_value(terms, value->args[i]), -1);
    if (value->number != 1 && !is_scaled_after(nest, nest_member(nest, value)))
        product = stage_op(kernel, terms->stage, OP_MUL, elem, product,
                           stage_const(kernel, terms->stage, value->number, elem), -1);
    DimSet own = lower_dim_set(nest->lower, &value->dims);
    bool sums = nest_member(nest, value)->box != own;
    terms_store(terms, sums ? SINK_SUM : SINK_SET, home, product);
}

static void store_value(const Nest *nest, TermBuilder *terms, const Value *value, uint16_t home) {
    switch (value->op) {
    case OP_SUM:
        terms_store(terms, SINK_SUM, home, terms_value(terms, value->args[0]));
        break;
    case OP_PROD:
        terms_store(terms, SINK_PROD, home, terms_value(terms, value->args[0]));
        break;
    case OP_REDUCE_MAX:
        terms_store(terms, SINK_MAX, home, terms_value(terms, value->args[0]));
        break;
    case OP_REDUCE_TOP:
        terms_store(terms, SINK_TOP, home, terms_value(terms, value->args[0]));
        break;
    case OP_REDUCE_MIN:
        terms_store(terms, SINK_MIN, home, terms_value(terms, value->args[0]));
        break;
    case OP_CUMSUM:
        store_cumsum(nest, terms, value, home);
        break;
    case OP_CONTRACT:
        store_products(nest, terms, value, home);
        break;
    default:
        terms_store(terms, SINK_SET, home, terms_value(terms, value));
    }
}

// The dims with those that are summed behind all others, also behind the lanes.
static TileDimList reduced_last(const TileDimList *dims, DimSet reduced) {
    TileDimList out = {0};
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < dims->count; i++)
            if (set_has(reduced, dims->at[i]) == (pass == 1))
                out.at[out.count++] = dims->at[i];
    return out;
}

// The last dim of the first home that all homes have: a state lacks the dim of its scan.
static TileDimId last_of_homes(const Nest *nest, uint32_t stage, const int *homes) {
    TileDimList dims = {0};
    DimSet common = ~(DimSet)0;
    for (uint32_t i = nest->members.count; i-- > 0;) {
        const Member *m = &nest->members.at[i];
        if (!m->stored || m->stage != stage)
            continue;
        dims = lower_buffer_dims(nest->lower, (uint16_t)homes[i]);
        common &= lower_buffer_set(nest->lower, (uint16_t)homes[i]);
    }
    while (dims.count && !set_has(common, dims_last_of(&dims)))
        dims.count--;
    return dims_last_of(&dims);
}

// Lanes along the nest's lanes; without those, or where all of the stage's values have a last dim
// of their own, along what lies side by side in the first of its homes. A running sum cannot have
// its dim in vectors. Reductions keep their sums in registers when the reduced dims are innermost;
// stages that only store walk memory in order.
static Stage *open_compute(const Nest *nest, uint32_t stage, const int *homes, NodeList *into) {
    const Lowering *lower = nest->lower;
    const NestStage *at = &nest->stages.at[stage];
    TileDimId lanes = nest->lanes, cumsum = TILE_DIM_NONE;
    bool reduces = false, placed = true;
    DimSet kept = 0; // of the box, by some value
    for (uint32_t i = 0; i < nest->members.count; i++) {
        const Member *m = &nest->members.at[i];
        if (!m->stored || m->stage != stage)
            continue;
        kept |= lower_dim_set(lower, &m->value->dims);
        placed = placed && m->last != TILE_DIM_NONE;
        if (m->value->op == OP_CUMSUM)
            cumsum = lower->dim_of[m->value->dim];
        else
            reduces = reduces || m->reduces;
    }
    TileDimList dims = lower_order(at->box, &nest->order);
    if (lanes == TILE_DIM_NONE || !set_has(at->box, lanes) || placed) {
        TileDimId last = reduces ? TILE_DIM_NONE : last_of_homes(nest, stage, homes);
        lanes = last == TILE_DIM_NONE ? dims_last_of(&dims) : last;
        if (lanes != TILE_DIM_NONE && !reduces) {
            dims = lower_order(at->box & ~set_of(lanes), &nest->order);
            dims.at[dims.count++] = lanes;
        }
    }
    if (lanes == cumsum)
        lanes = TILE_DIM_NONE;
    if (reduces && lanes != TILE_DIM_NONE && set_has(nest->rows, lanes)) {
        TileDimList first = lower_order(at->box & nest->rows, &nest->order);
        dims = lower_order(at->box, &first);
    }
    if (lanes != TILE_DIM_NONE && set_has(kept, lanes) && (at->box & ~kept))
        dims = reduced_last(&dims, at->box & ~kept);
    return node_compute(lower->kernel, into, dims, lanes);
}

// Copies a value that could not be stored where it is wanted.
static void copy_to_designated(Emission *e, const Member *m, NodeList *into) {
    Lowering *lower = e->nest->lower;
    int designated = lower_designated(lower, m->value);
    if (designated == NO_BUFFER || designated == lower_buffer_of(lower, m->value))
        return;
    TileDimList dims = lower_buffer_dims(lower, (uint16_t)designated);
    Stage *stage = node_compute(lower->kernel, into, dims, dims_last_of(&dims));
    TermBuilder terms = terms_open(lower, stage);
    terms_store(&terms, SINK_SET, (uint16_t)designated, terms_value(&terms, m->value));
    stage->pad = lower->kernel->buffers.at[designated].panel_dim != TILE_DIM_NONE;
}

// What the stage stores, by one stage for all points.
static void store_members(const Nest *nest, uint32_t index, const int *homes, NodeList *into) {
    Stage *stage = NULL;
    TermBuilder terms;
    for (uint32_t i = 0; i < nest->members.count; i++) {
        const Member *m = &nest->members.at[i];
        if (!m->stored || m->stage != index)
            continue;
        if (m->shifted) {
            shifted_emit(nest, m, (uint16_t)homes[i], into);
            return;
        }
        if (!stage) {
            stage = open_compute(nest, index, homes, into);
            terms = terms_open(nest->lower, stage);
        }
        store_value(nest, &terms, m->value, (uint16_t)homes[i]);
    }
}

static void emit_compute(Emission *e, uint32_t index, NodeList *into) {
    Nest *nest = e->nest;
    uint32_t n = nest->members.count;
    int *homes = arena_array(nest->lower->arena, int, n + 1);
    for (uint32_t i = 0; i < n; i++)
        if (nest->members.at[i].stored && nest->members.at[i].stage == index)
            homes[i] = make_home(e, &nest->members.at[i], into);
    store_members(nest, index, homes, into);
    for (uint32_t i = 0; i < n; i++) {
        const Member *m = &nest->members.at[i];
        if (!m->stored || m->stage != index)
            continue;
        if (is_scaled_after(nest, m))
            terms_scale_sum(nest->lower, m->value, (uint16_t)homes[i], into);
        lower_set_home(nest->lower, m->value, homes[i]);
    }
    for (uint32_t i = 0; i < n; i++)
        if (nest->members.at[i].stored && nest->members.at[i].stage == index)
            copy_to_designated(e, &nest->members.at[i], into);
}

static void emit_contraction(Emission *e, Member *m, NodeList *into) {
    uint16_t home = make_home(e, m, into);
    roles_emit(e->nest, m, home, into);
    if (is_scaled_after(e->nest, m))
        terms_scale_sum(e->nest->lower, m->value, home, into);
    lower_set_home(e->nest->lower, m->value, home);
    copy_to_designated(e, m, into);
}

// ---- rescaling ---------------------------------------------------------------------------------

// Keeps what a running value was before this piece.
static void save_before(Emission *e, Value *value, uint16_t buffer) {
    Lowering *lower = e->nest->lower;
    TileDimList dims = lower_buffer_dims(lower, buffer);
    Name name = arena_printf(lower->kernel->arena, "%s_before", lower_label(lower, value));
    uint16_t before = node_scratch(lower->kernel, e->into, name, elem_work(value->elem), dims);
    Stage *stage = node_compute(lower->kernel, e->into, dims, dims_last_of(&dims));
    TermBuilder terms = terms_open(lower, stage);
    int32_t now = stage_load(lower->kernel, stage, access_plain(lower->kernel, buffer));
    terms_store(&terms, SINK_SET, before, now);
    vec_push(lower->arena, &e->running, value);
    vec_push(lower->arena, &e->previous, before);
}

// Those that the shifts of the carries depend on, each once.
static void save_running(Emission *e) {
    Nest *nest = e->nest;
    Arena *arena = nest->lower->arena;
    Map *seen = map_new(arena);
    ValueList open = {0};
    for (uint32_t i = nest->carries.count; i-- > 0;)
        if (nest->carries.at[i].shift)
            vec_push(arena, &open, nest->carries.at[i].shift);
    while (open.count) {
        Value *value = open.at[--open.count];
        uint16_t buffer;
        if (map_get(seen, (uint64_t)value->id + 1))
            continue;
        map_put(seen, (uint64_t)value->id + 1, value);
        if (is_carried(nest, value, &buffer)) {
            save_before(e, value, buffer);
            continue;
        }
        for (uint32_t a = value->n_args; a-- > 0;)
            if (nest_member(nest, value->args[a]))
                vec_push(arena, &open, value->args[a]);
    }
}

// The shift's term from the running values as they lie in these homes.
static int32_t shift_term(Emission *e, Stage *stage, const Value *shift, bool before) {
    Lowering *lower = e->nest->lower;
    int own = lower_buffer_of(lower, shift);
    int *kept = arena_array(lower->arena, int, e->running.count + 1);
    if (before)
        lower_set_home(lower, shift, NO_BUFFER);
    for (uint32_t i = 0; i < e->running.count; i++) {
        kept[i] = e->running.at[i] == shift ? own : lower_buffer_of(lower, e->running.at[i]);
        if (before)
            lower_set_home(lower, e->running.at[i], e->previous.at[i]);
    }
    TermBuilder terms = terms_open(lower, stage);
    int32_t term = terms_value(&terms, shift);
    for (uint32_t i = 0; i < e->running.count; i++)
        lower_set_home(lower, e->running.at[i], kept[i]);
    lower_set_home(lower, shift, own);
    return term;
}

static void rescale_carry(Emission *e, const Carry *carry, uint16_t factor, NodeList *into) {
    Lowering *lower = e->nest->lower;
    Kernel *kernel = lower->kernel;
    TileDimList dims = lower_buffer_dims(lower, carry->buffer);
    Stage *stage = node_compute(kernel, into, dims, dims_last_of(&dims));
    int32_t old = stage_load(kernel, stage, access_plain(kernel, carry->buffer));
    int32_t by = stage_load(kernel, stage, access_plain(kernel, factor));
    int32_t now =
        stage_op(kernel, stage, OP_MUL, kernel->buffers.at[carry->buffer].elem, old, by, -1);
    stage_sink(kernel, stage, SINK_SET, access_plain(kernel, carry->buffer), now);
}

static void emit_rescaling(Emission *e, const Value *shift, NodeList *into) {
    Nest *nest = e->nest;
    Lowering *lower = nest->lower;
    Kernel *kernel = lower->kernel;
    TileDimList dims = lower_order(lower_dim_set(lower, &shift->dims), &nest->order);
    Elem elem = elem_work(shift->elem);
    uint16_t factor = node_scratch(kernel, into, "rescale", elem, dims);
    Stage *stage = node_compute(kernel, into, dims, dims_last_of(&dims));
    int32_t before = shift_term(e, stage, shift, true), now = shift_term(e, stage, shift, false);
    int32_t moved = stage_op(kernel, stage, OP_SUB, elem, before, now, -1);
    Op power = OP_EXP;
    for (uint32_t i = 0; i < nest->carries.count; i++)
        if (nest->carries.at[i].shift == shift)
            power = nest->carries.at[i].power;
    stage_sink(kernel, stage, SINK_SET, access_plain(kernel, factor),
               stage_op(kernel, stage, power, elem, moved, -1, -1));
    for (uint32_t i = 0; i < nest->carries.count; i++)
        if (nest->carries.at[i].shift == shift)
            rescale_carry(e, &nest->carries.at[i], factor, into);
}

// ---- runs --------------------------------------------------------------------------------------

static NodeList *open_rows(Emission *e, uint32_t run, NodeList *into) {
    Nest *nest = e->nest;
    TileDimList rows = lower_order(nest->rows, &nest->order);
    int64_t block = nest->block ? nest->block : nest_block(nest, run);
    for (int i = 0; i < rows.count; i++) {
        TileDimId d = rows.at[i];
        int64_t by = d == nest->block_dim ? block : 1;
        if (by < nest->steps[d])
            into = &node_loop(nest->lower->kernel, into, LOOP_SEQUENTIAL, d, by)->body;
    }
    return into;
}

static void emit_stage(Emission *e, uint32_t index, NodeList *into) {
    const NestStage *stage = &e->nest->stages.at[index];
    if (stage->kind == NEST_COMPUTE)
        emit_compute(e, index, into);
    else if (stage->kind == NEST_CONTRACT)
        emit_contraction(e, stage->contraction, into);
    else
        emit_rescaling(e, stage->shift, into);
}

static void emit_run(Emission *e, uint32_t begin, uint32_t end) {
    Nest *nest = e->nest;
    const NestStage *first = &nest->stages.at[nest->sequence[begin]];
    make_shared_homes(e, begin, end);
    NodeList *into = NULL;
    for (uint32_t i = begin; i < end; i++) {
        e->position = i;
        if (nest_is_ahead(nest, &nest->stages.at[nest->sequence[i]]))
            continue; // was computed ahead of all rows
        if (!into)
            into = first->by_rows ? open_rows(e, first->run, e->into) : e->into;
        emit_stage(e, nest->sequence[i], into);
    }
}

NodeList *nest_open_part(Nest *nest, NodeList *into) {
    Lowering *lower = nest->lower;
    TileDimId part = lower->dim_of[lower->group->parts];
    nest->steps[part] = 1;
    Node *task = node_loop(lower->kernel, into, LOOP_PARALLEL, part, 1);
    Node *range = node_range(lower->kernel, &task->body, lower_cut_dim(lower));
    Bound bound = {.kind = BOUND_PART, .dim = part};
    range->lo = range_bound(lower->kernel, range, bound);
    bound.number = 1;
    range->hi = range_bound(lower->kernel, range, bound);
    return &range->body;
}

void nest_emit(Nest *nest, NodeList *into) {
    Emission e = {.nest = nest, .into = into};
    nest_choose_blocks(nest);
    save_running(&e);
    for (uint32_t i = 0; i < nest->stages.count; i++) {
        e.position = i;
        if (nest_is_ahead(nest, &nest->stages.at[nest->sequence[i]]))
            emit_stage(&e, nest->sequence[i], into);
    }
    for (uint32_t i = 0; i < nest->stages.count;) {
        uint32_t end = i, run = nest->stages.at[nest->sequence[i]].run;
        while (end < nest->stages.count && nest->stages.at[nest->sequence[end]].run == run)
            end++;
        emit_run(&e, i, end);
        i = end;
    }
}
