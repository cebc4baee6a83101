// SPDX-License-Identifier: Apache-2.0
// Compute stages: a nest of loops over the box, the lanes dim in vectors, a scalar program at each
// point.
//
// Every term is evaluated in the outermost loop it depends on. The lanes loop has a main part of
// several vectors at a time and a tail of single vectors under a mask. A sink that reduces keeps
// its sum in registers over the innermost loops that it reduces (its suffix) and goes through
// memory for the others; the vectors of the main part are separate sums, added in a fixed order at
// the end.
//
// When the lanes dim is that of a panel buffer, the loop over panels becomes the outermost one (if
// points may be visited in another order), so that each panel is filled from front to back.
#include "cpu/cpu.h"
#include "cpu/vmath.h"

#include <math.h>

enum { UNROLL_MAX = 8, SUMS_MAX = 128 };
typedef enum { LEVEL_SCALAR, LEVEL_LANES, LEVEL_PANELS } LevelKind;
typedef struct {
    LevelKind kind;
    TileDimId dim;
} Level;
typedef struct {
    int depth; // loops that must be open: 0 is outside of all
    bool varies;
    EmitValue value[UNROLL_MAX];
    CpuAccess access;
} TermState;
typedef struct {
    int suffix; // first level of the innermost loops that are all reduced; n_levels: none
    bool reduces_lanes;
    bool varies; // sums are vectors
    CpuAccess to;
    EmitValue sum[UNROLL_MAX]; // while inside the suffix
} SinkState;
typedef struct {
    CpuKernel *k;
    EmitModule *m;
    const Stage *stage;
    Level level[TILE_RANK_MAX + 1];
    int n_levels, lanes_level;
    int width;         // lanes of a vector; 1 without lanes
    int unroll;        // vectors alive in the main part
    int panel_width;   // with LEVEL_PANELS
    int vectors;       // now: `unroll`, or 1 outside of the lanes loop's main part
    LLVMValueRef mask; // now: lanes that exist; NULL: all
    bool store_all;    // now: masked lanes are stored as zeros (padding)
    CpuRange lanes;    // range of the lanes dim, or of it within the panel
    bool partial;      // now: in the last panel, which is not full
    TermState *terms;
    SinkState *sinks;
    bool *varies;      // per term
    EmitValue *values; // per term, for the vector at hand
} Compute;

static void emit_level(Compute *c, int level);
static void enter(Compute *c, TileDimId dim, LLVMValueRef at);

// ---- preparation ----

static int level_of(const Compute *c, TileDimId dim) {
    int found = -1;
    for (int i = 0; i < c->n_levels; i++)
        if (c->level[i].dim == dim)
            found = i;
    return found;
}

static int depth_of_dim(const Compute *c, TileDimId dim) {
    return dim == TILE_DIM_NONE ? 0 : level_of(c, dim) + 1;
}

static bool stage_writes(const Stage *stage, uint16_t buffer) {
    for (uint32_t i = 0; i < stage->sinks.count; i++)
        if (stage->sinks.at[i].to.buffer == buffer)
            return true;
    return false;
}

static bool reads_own(const Stage *stage) {
    for (uint32_t i = 0; i < stage->terms.count; i++)
        if (stage->terms.at[i].kind == TERM_LOAD &&
            stage_writes(stage, stage->terms.at[i].load.buffer))
            return true;
    return false;
}

static bool access_has(const Access *access, TileDimId dim) {
    for (int i = 0; i < access->rank; i++)
        if (access->index[i].dim == dim)
            return true;
    return false;
}

static int larger(int a, int b) {
    return a > b ? a : b;
}

static void analyse_load(Compute *c, TermState *state, const Access *access) {
    for (int i = 0; i < access->rank; i++) {
        const Index *index = &access->index[i];
        state->depth = larger(state->depth, depth_of_dim(c, index->dim));
        state->varies |= c->width > 1 && index->dim == c->stage->lanes;
        if (index->term >= 0) {
            state->depth = larger(state->depth, c->terms[index->term].depth);
            state->varies |= c->varies[index->term];
        }
    }
    if (stage_writes(c->stage, access->buffer))
        state->depth = c->n_levels;
}

static int op_args(const Term *term) {
    int n = op_arity(term->op);
    return n < 0 ? 2 : n;
}

static void analyse_term(Compute *c, uint32_t t) {
    const Term *term = &c->stage->terms.at[t];
    TermState *state = &c->terms[t];
    if (term->kind == TERM_LOAD)
        analyse_load(c, state, &term->load);
    if (term->kind == TERM_INDEX) {
        state->depth = depth_of_dim(c, term->dim);
        state->varies = c->width > 1 && term->dim == c->stage->lanes;
    }
    for (int i = 0; term->kind == TERM_OP && i < op_args(term); i++) {
        state->depth = larger(state->depth, c->terms[term->args[i]].depth);
        state->varies |= c->varies[term->args[i]];
    }
    c->varies[t] = state->varies;
}

static void analyse_sink(Compute *c, uint32_t s) {
    const Sink *sink = &c->stage->sinks.at[s];
    SinkState *state = &c->sinks[s];
    state->suffix = c->n_levels;
    while (sink->mode != SINK_SET && state->suffix > 0 &&
           !access_has(&sink->to, c->level[state->suffix - 1].dim))
        state->suffix--;
    bool has_lanes = c->lanes_level >= 0;
    bool keeps_lanes = access_has(&sink->to, c->stage->lanes);
    state->reduces_lanes = has_lanes && sink->mode != SINK_SET && !keeps_lanes;
    state->varies = has_lanes && (state->reduces_lanes || keeps_lanes);
    cpu_access_open(c->k, &state->to, &sink->to, c->stage->lanes, c->width, NULL);
}

// The panel buffer whose panels run along the lanes, when the panels may be the outermost loop.
static const TileBuffer *panel_sink(const Compute *c) {
    const Stage *stage = c->stage;
    const Kernel *kernel = c->k->kernel;
    if (stage->sinks.count != 1 || stage->sinks.at[0].mode != SINK_SET || reads_own(stage))
        return NULL;
    const Access *to = &stage->sinks.at[0].to;
    const TileBuffer *buffer = &kernel->buffers.at[to->buffer];
    if (buffer->place != PLACE_SCRATCH || buffer->panel_dim != stage->lanes || c->width == 1 ||
        stage->lanes == TILE_DIM_NONE || buffer->panel_width % c->width)
        return NULL;
    for (uint8_t i = 0; i < to->rank; i++)
        if (buffer->dims[i] == stage->lanes &&
            (to->index[i].dim != stage->lanes || to->index[i].offset != 0 ||
             !cpu_aligned(c->k, to->buffer, i, stage->lanes, buffer->panel_width)))
            return NULL;
    return buffer;
}

// Reading along the lanes what the stage writes, at another position, makes lanes depend on each
// other.
static bool lanes_depend(const Stage *stage) {
    for (uint32_t i = 0; i < stage->terms.count; i++) {
        const Term *term = &stage->terms.at[i];
        if (term->kind != TERM_LOAD || !stage_writes(stage, term->load.buffer))
            continue;
        for (int j = 0; j < term->load.rank; j++) {
            const Index *index = &term->load.index[j];
            if (index->term >= 0 || (index->dim == stage->lanes && index->offset != 0))
                return true;
        }
    }
    return false;
}

static bool is_heavy(const Stage *stage) {
    uint32_t weight = stage->terms.count;
    for (uint32_t i = 0; i < stage->terms.count; i++)
        if (stage->terms.at[i].kind == TERM_OP && vmath_has(stage->terms.at[i].op))
            weight += 12;
    return weight > 14;
}

static void choose_lanes(Compute *c) {
    const Stage *stage = c->stage;
    bool vectors = stage->lanes != TILE_DIM_NONE && !lanes_depend(stage);
    c->width = vectors ? c->m->lanes : 1;
    const TileBuffer *panel = panel_sink(c);
    if (panel) {
        c->panel_width = panel->panel_width;
        c->level[c->n_levels++] = (Level){LEVEL_PANELS, stage->lanes};
    }
    for (uint8_t i = 0; i < stage->n_dims; i++) {
        bool lanes = vectors && stage->dims[i] == stage->lanes;
        if (lanes)
            c->lanes_level = c->n_levels;
        c->level[c->n_levels++] = (Level){lanes ? LEVEL_LANES : LEVEL_SCALAR, stage->dims[i]};
    }
    c->unroll = !vectors ? 1 : is_heavy(stage) ? 2 : 4;
    int per_panel = panel ? c->panel_width / c->width : 0;
    if (panel)
        c->unroll = per_panel <= UNROLL_MAX ? per_panel : 1;
}

// Dims that accesses name and the box lacks stand at the start of their range.
static void enter_other_dims(Compute *c) {
    CpuKernel *k = c->k;
    for (uint32_t d = 0; d < k->kernel->dims.count; d++)
        if (level_of(c, (TileDimId)d) < 0)
            enter(c, (TileDimId)d, k->range[d].lo);
}

static void prepare(Compute *c, CpuKernel *k, const Stage *stage) {
    Arena *arena = k->module->arena;
    *c = (Compute){.k = k, .m = k->module, .stage = stage, .lanes_level = -1, .vectors = 1};
    c->terms = arena_array(arena, TermState, stage->terms.count);
    c->sinks = arena_array(arena, SinkState, stage->sinks.count);
    c->varies = arena_array(arena, bool, stage->terms.count);
    c->values = arena_array(arena, EmitValue, stage->terms.count);
    choose_lanes(c);
    if (stage->lanes != TILE_DIM_NONE)
        c->lanes = k->range[stage->lanes];
    for (uint32_t t = 0; t < stage->terms.count; t++)
        analyse_term(c, t);
    for (uint32_t t = 0; t < stage->terms.count; t++)
        if (stage->terms.at[t].kind == TERM_LOAD)
            cpu_access_open(k, &c->terms[t].access, &stage->terms.at[t].load, stage->lanes,
                            c->width, c->varies);
    for (uint32_t s = 0; s < stage->sinks.count; s++)
        analyse_sink(c, s);
}

// ---- terms ----

// The value of a term for vector u, as wide as the term that wants it.
static EmitValue term_value(Compute *c, int32_t t, int u, bool wide) {
    const TermState *state = &c->terms[t];
    EmitValue value = state->value[state->varies ? u : 0];
    return wide ? emit_splat(c->m, value, c->width) : value;
}

static EmitValue emit_index(Compute *c, const Term *term, const TermState *state, int u) {
    LLVMValueRef at = c->k->at[term->dim];
    EmitValue value = {at, ELEM_I64, 1};
    if (!state->varies)
        return emit_cast(c->m, value, term->elem);
    value.ref = index_add(c->m, at, index_const(c->m, (int64_t)u * c->width));
    bool narrow = term->elem == ELEM_I32;
    EmitValue first = narrow ? emit_cast(c->m, value, ELEM_I32) : value;
    EmitValue steps = emit_iota(c->m, first.elem, c->width);
    return emit_cast(c->m, emit_add(c->m, emit_splat(c->m, first, c->width), steps), term->elem);
}

static EmitValue emit_op(Compute *c, const Term *term, const TermState *state, int u) {
    EmitValue args[3];
    int n = op_args(term);
    for (int i = 0; i < n; i++)
        args[i] = term_value(c, term->args[i], u, state->varies);
    if (vmath_has(term->op))
        return vmath_call(c->m, term->op, args, (uint32_t)n);
    return emit_map(c->m, term->op, term->elem, args, (uint32_t)n);
}

static EmitValue emit_load_term(Compute *c, const Term *term, TermState *state, int u) {
    for (int i = 0; i < term->load.rank; i++) {
        int32_t t = term->load.index[i].term;
        if (t >= 0)
            c->values[t] = term_value(c, t, u, false);
    }
    int width = state->varies ? c->width : 1;
    LLVMValueRef mask = state->varies ? c->mask : NULL;
    EmitValue value = cpu_access_load(c->k, &state->access, width, u * c->width, mask, c->values);
    value.elem = term->elem; // an f16 may be loaded as f32: both are f32 in registers
    return value;
}

static EmitValue emit_term(Compute *c, const Term *term, TermState *state, int u) {
    switch (term->kind) {
    case TERM_LOAD:
        return emit_load_term(c, term, state, u);
    case TERM_CONST:
        return emit_number(c->m, term->elem, term->number, 1);
    case TERM_INDEX:
        return emit_index(c, term, state, u);
    case TERM_EXTENT: {
        EmitValue extent = {c->k->extent[term->dim], ELEM_I64, 1};
        return emit_cast(c->m, extent, term->elem);
    }
    default:
        return emit_op(c, term, state, u);
    }
}

static void emit_terms(Compute *c, int depth) {
    for (uint32_t t = 0; t < c->stage->terms.count; t++) {
        TermState *state = &c->terms[t];
        if (state->depth != depth)
            continue;
        for (int u = 0; u < (state->varies ? c->vectors : 1); u++)
            state->value[u] = emit_term(c, &c->stage->terms.at[t], state, u);
    }
}

// ---- sinks ----

static EmitValue combine(EmitModule *m, SinkMode mode, EmitValue a, EmitValue b) {
    EmitValue args[] = {a, b};
    if (mode == SINK_SUM)
        return emit_add(m, a, b);
    if (mode == SINK_PROD)
        return emit_mul(m, a, b);
    if (a.elem == ELEM_BOOL)
        return emit_map(m, mode == SINK_MAX ? OP_OR : OP_AND, ELEM_BOOL, args, 2);
    return mode == SINK_MAX ? emit_max(m, a, b) : emit_min(m, a, b);
}

static EmitValue identity(EmitModule *m, SinkMode mode, Elem elem, int lanes) {
    if (mode == SINK_SUM || mode == SINK_PROD)
        return emit_number(m, elem, mode == SINK_PROD, lanes);
    bool largest = mode == SINK_MIN;
    if (elem_is_float(elem))
        return emit_number(m, elem, largest ? INFINITY : -INFINITY, lanes);
    if (elem == ELEM_BOOL)
        return emit_number(m, elem, largest, lanes);
    LLVMTypeRef type = emit_type(m, elem, 1);
    uint64_t top = 1ULL << (elem_bytes(elem) * 8 - 1);
    EmitValue value = {LLVMConstInt(type, largest ? top - 1 : top, 0), elem, 1};
    return emit_splat(m, value, lanes);
}

// Halves a vector until one lane is left: a fixed order of combining.
static EmitValue across_lanes(EmitModule *m, SinkMode mode, EmitValue value) {
    while (value.lanes > 1) {
        int half = value.lanes / 2;
        LLVMValueRef low[64], high[64];
        LLVMTypeRef i32 = LLVMInt32TypeInContext(m->context);
        for (int i = 0; i < half; i++) {
            low[i] = LLVMConstInt(i32, (unsigned)i, 0);
            high[i] = LLVMConstInt(i32, (unsigned)(i + half), 0);
        }
        LLVMValueRef poison = LLVMGetPoison(LLVMTypeOf(value.ref));
        EmitValue a = value, b = value;
        a.lanes = b.lanes = half;
        a.ref = LLVMBuildShuffleVector(m->builder, value.ref, poison,
                                       LLVMConstVector(low, (unsigned)half), "");
        b.ref = LLVMBuildShuffleVector(m->builder, value.ref, poison,
                                       LLVMConstVector(high, (unsigned)half), "");
        if (half == 1) { // one-lane vectors become scalars
            LLVMValueRef zero = LLVMConstNull(i32);
            a.ref = LLVMBuildExtractElement(m->builder, a.ref, zero, "");
            b.ref = LLVMBuildExtractElement(m->builder, b.ref, zero, "");
        }
        value = combine(m, mode, a, b);
    }
    return value;
}

static int n_sums(const Compute *c, const SinkState *state, int level) {
    if (!state->varies)
        return 1;
    // Reduced lanes: the sums of the main part live across the lanes loop.
    if (state->reduces_lanes && state->suffix <= c->lanes_level)
        return level > c->lanes_level ? c->vectors : c->unroll;
    return c->vectors;
}

// i1: nothing has been combined into the sink's element so far. NULL: certainly so.
static LLVMValueRef first_time(Compute *c, const Sink *sink, const SinkState *state) {
    LLVMValueRef all = NULL;
    for (int i = 0; i < c->n_levels; i++) {
        TileDimId dim = c->level[i].dim;
        if (access_has(&sink->to, dim) || c->level[i].kind == LEVEL_PANELS)
            continue;
        LLVMValueRef at = i < state->suffix ? c->k->at[dim] : c->k->range[dim].lo;
        LLVMValueRef zero = cpu_starts_at_zero(c->m, at);
        if (LLVMIsAConstantInt(zero) && LLVMConstIntGetZExtValue(zero))
            continue;
        all = all ? LLVMBuildAnd(c->m->builder, all, zero, "") : zero;
    }
    return all;
}

// Combines `value` with what the element holds and stores it.
static void put(Compute *c, const Sink *sink, SinkState *state, EmitValue value, int u,
                LLVMValueRef first) {
    LLVMValueRef mask = value.lanes > 1 ? c->mask : NULL;
    if (first) {
        EmitValue old = cpu_access_load(c->k, &state->to, value.lanes, u * c->width, mask, NULL);
        old.elem = value.elem;
        value = emit_select(c->m, first, value, combine(c->m, sink->mode, old, value));
    }
    if (mask && c->store_all) {
        value = emit_select(c->m, mask, value, emit_number(c->m, value.elem, 0, value.lanes));
        mask = NULL;
    }
    cpu_access_store(c->k, &state->to, value, u * c->width, mask);
}

// The vectors' values as one scalar, lanes that do not exist left out.
static EmitValue fold(Compute *c, SinkMode mode, EmitValue *values, int n, bool masked) {
    for (int u = 0; masked && c->mask && u < n; u++)
        values[u] = emit_select(c->m, c->mask, values[u],
                                identity(c->m, mode, values[u].elem, values[u].lanes));
    for (int step = 1; step < n; step *= 2)
        for (int u = 0; u + step < n; u += 2 * step)
            values[u] = combine(c->m, mode, values[u], values[u + step]);
    return across_lanes(c->m, mode, values[0]);
}

static void begin_sums(Compute *c, int level) {
    for (uint32_t s = 0; s < c->stage->sinks.count; s++) {
        const Sink *sink = &c->stage->sinks.at[s];
        SinkState *state = &c->sinks[s];
        if (state->suffix != level || level == c->n_levels)
            continue;
        Elem elem = c->stage->terms.at[sink->term].elem;
        for (int u = 0; u < n_sums(c, state, level); u++)
            state->sum[u] = identity(c->m, sink->mode, elem, state->varies ? c->width : 1);
    }
}

static void end_sums(Compute *c, int level) {
    for (uint32_t s = 0; s < c->stage->sinks.count; s++) {
        const Sink *sink = &c->stage->sinks.at[s];
        SinkState *state = &c->sinks[s];
        if (state->suffix != level || level == c->n_levels)
            continue;
        LLVMValueRef first = first_time(c, sink, state);
        int n = n_sums(c, state, level);
        if (state->varies && state->reduces_lanes) {
            bool masked = state->suffix > c->lanes_level;
            EmitValue total = fold(c, sink->mode, state->sum, n, masked);
            put(c, sink, state, total, 0, first);
            continue;
        }
        for (int u = 0; u < n; u++)
            put(c, sink, state, state->sum[u], u, first);
    }
}

// A point of the innermost loop: sums in registers grow, everything else goes to memory.
static void emit_point_sink(Compute *c, const Sink *sink, SinkState *state) {
    bool in_registers = state->suffix < c->n_levels;
    if (in_registers) {
        bool lanes_inside = state->reduces_lanes && state->suffix <= c->lanes_level;
        int n = state->varies ? c->vectors : 1;
        for (int u = 0; u < n; u++) {
            EmitValue value = term_value(c, sink->term, u, state->varies);
            if (lanes_inside && c->mask)
                value = emit_select(c->m, c->mask, value,
                                    identity(c->m, sink->mode, value.elem, value.lanes));
            state->sum[u] = combine(c->m, sink->mode, state->sum[u], value);
        }
        return;
    }
    LLVMValueRef first = sink->mode == SINK_SET ? NULL : first_time(c, sink, state);
    if (state->reduces_lanes && state->varies) {
        EmitValue values[UNROLL_MAX];
        for (int u = 0; u < c->vectors; u++)
            values[u] = term_value(c, sink->term, u, true);
        put(c, sink, state, fold(c, sink->mode, values, c->vectors, true), 0, first);
        return;
    }
    for (int u = 0; u < (state->varies ? c->vectors : 1); u++)
        put(c, sink, state, term_value(c, sink->term, u, state->varies), u, first);
}

// ---- loops ----

typedef struct {
    LLVMValueRef base, low, high;
    int64_t step;
    bool nonempty;
} Bounds;

// All sums that a loop at `level` carries, in a fixed order. With `set`, takes them from refs
// instead.
static uint32_t carried(Compute *c, int level, LLVMValueRef *refs, bool set) {
    uint32_t n = 0;
    for (uint32_t s = 0; s < c->stage->sinks.count; s++) {
        SinkState *state = &c->sinks[s];
        if (state->suffix > level || state->suffix == c->n_levels)
            continue;
        for (int u = 0; u < n_sums(c, state, level); u++, n++) {
            if (n == SUMS_MAX)
                ice("cpu compute: more than %d sums", SUMS_MAX);
            if (set)
                state->sum[u].ref = refs[n];
            else
                refs[n] = state->sum[u].ref;
        }
    }
    return n;
}

// The accesses' offsets before a loop, to come back to after it.
static LLVMValueRef *save_offsets(Compute *c) {
    uint32_t n_terms = c->stage->terms.count, n_sinks = c->stage->sinks.count;
    LLVMValueRef *saved = arena_array(c->m->arena, LLVMValueRef, n_terms + n_sinks);
    for (uint32_t i = 0; i < n_terms; i++)
        saved[i] = c->terms[i].access.offset;
    for (uint32_t i = 0; i < n_sinks; i++)
        saved[n_terms + i] = c->sinks[i].to.offset;
    return saved;
}

static void restore_offsets(Compute *c, LLVMValueRef *saved) {
    uint32_t n_terms = c->stage->terms.count, n_sinks = c->stage->sinks.count;
    for (uint32_t i = 0; i < n_terms; i++)
        c->terms[i].access.offset = saved[i];
    for (uint32_t i = 0; i < n_sinks; i++)
        c->sinks[i].to.offset = saved[n_terms + i];
}

static void enter(Compute *c, TileDimId dim, LLVMValueRef at) {
    c->k->at[dim] = at;
    for (uint32_t i = 0; i < c->stage->terms.count; i++)
        if (c->stage->terms.at[i].kind == TERM_LOAD)
            cpu_access_enter(c->k, &c->terms[i].access, dim);
    for (uint32_t i = 0; i < c->stage->sinks.count; i++)
        cpu_access_enter(c->k, &c->sinks[i].to, dim);
}

static LLVMValueRef tail_mask(Compute *c, LLVMValueRef left) {
    EmitModule *m = c->m;
    int64_t known;
    if (index_known(left, &known) && known >= c->width)
        return NULL;
    LLVMValueRef capped = index_min(m, left, index_const(m, c->width));
    EmitValue n = emit_cast(m, (EmitValue){capped, ELEM_I64, 1}, ELEM_I32);
    n = emit_splat(m, n, c->width);
    EmitValue iota = emit_iota(m, ELEM_I32, c->width);
    return LLVMBuildICmp(m->builder, LLVMIntSLT, iota.ref, n.ref, "");
}

// Runs body at base + low, base + low + step, ... below base + high. The counter starts from a
// number so that a loop of one turn is seen to be one.
static void loop_over(Compute *c, int level, const Bounds *bounds,
                      void (*body)(Compute *c, int level, LLVMValueRef at)) {
    LLVMValueRef refs[SUMS_MAX];
    CpuLoop loop;
    uint32_t n = carried(c, level, refs, false);
    cpu_loop_open(c->m, &loop, bounds->low, bounds->high, index_const(c->m, bounds->step),
                  bounds->nonempty, refs, n);
    carried(c, level, loop.carried, true);
    LLVMValueRef *saved = save_offsets(c);
    body(c, level, index_add(c->m, bounds->base, loop.at));
    restore_offsets(c, saved);
    carried(c, level, refs, false);
    cpu_loop_close(c->m, &loop, refs, refs);
    carried(c, level, refs, true);
}

static void scalar_body(Compute *c, int level, LLVMValueRef at) {
    enter(c, c->level[level].dim, at);
    emit_terms(c, level + 1);
    emit_level(c, level + 1);
}

static void tail_body(Compute *c, int level, LLVMValueRef at) {
    LLVMValueRef end = index_add(c->m, c->lanes.lo, c->lanes.len);
    c->mask = tail_mask(c, index_sub(c->m, end, at));
    scalar_body(c, level, at);
    c->mask = NULL;
}

static void emit_lanes(Compute *c, int level) {
    EmitModule *m = c->m;
    LLVMValueRef len = c->lanes.len;
    int64_t chunk = (int64_t)c->unroll * c->width, known;
    bool is_known = index_known(len, &known);
    Bounds bounds = {c->lanes.lo, index_const(m, 0), NULL, chunk, is_known};
    if (!c->partial && (!is_known || known >= chunk)) {
        bounds.high = index_mul(m, index_div(m, len, chunk), index_const(m, chunk));
        c->vectors = c->unroll;
        loop_over(c, level, &bounds, scalar_body);
        c->vectors = 1;
        if (is_known && known % chunk == 0)
            return;
        bounds.low = bounds.high;
    }
    bounds.high = c->partial && c->store_all ? index_const(m, c->panel_width) : len;
    bounds.step = c->width;
    bounds.nonempty = is_known || c->partial;
    loop_over(c, level, &bounds, tail_body);
}

static void panel_body(Compute *c, int level, LLVMValueRef at) {
    c->lanes.lo = at;
    emit_level(c, level + 1);
}

static void emit_panels(Compute *c, int level) {
    EmitModule *m = c->m;
    CpuRange whole = c->lanes;
    int64_t known, width = c->panel_width;
    bool is_known = index_known(whole.len, &known);
    LLVMValueRef full = index_mul(m, index_div(m, whole.len, width), index_const(m, width));
    Bounds bounds = {whole.lo, index_const(m, 0), full, width, is_known};
    c->lanes.len = index_const(m, width);
    if (!is_known || known >= width) {
        loop_over(c, level, &bounds, panel_body);
        bounds.low = full;
    }
    if (!is_known || known % width) {
        bounds.high = whole.len;
        c->partial = true;
        c->store_all = c->stage->pad;
        c->lanes.len = index_sub(m, whole.len, full);
        loop_over(c, level, &bounds, panel_body);
        c->partial = c->store_all = false;
    }
    c->lanes = whole;
}

static void emit_level(Compute *c, int level) {
    if (level == c->n_levels) {
        for (uint32_t s = 0; s < c->stage->sinks.count; s++)
            emit_point_sink(c, &c->stage->sinks.at[s], &c->sinks[s]);
        return;
    }
    begin_sums(c, level);
    const Level *now = &c->level[level];
    if (now->kind == LEVEL_PANELS) {
        emit_panels(c, level);
    } else if (now->kind == LEVEL_LANES) {
        emit_lanes(c, level);
    } else {
        const CpuRange *range = &c->k->range[now->dim];
        Bounds bounds = {range->lo, index_const(c->m, 0), range->len, 1, true};
        loop_over(c, level, &bounds, scalar_body);
    }
    end_sums(c, level);
}

void cpu_emit_compute(CpuKernel *k, const Stage *stage) {
    Compute c;
    prepare(&c, k, stage);
    enter_other_dims(&c);
    emit_terms(&c, 0);
    emit_level(&c, 0);
}
