// SPDX-License-Identifier: Apache-2.0
// Before a compute stage is emitted: the order of its loops, the loops each term depends on, which
// loops at the end of the nest a sum is kept in registers for, how many vectors are alive.
#include "cpu/compute.h"
#include "emit/vmath.h"

int compute_level_of(const Compute *c, TileDimId dim) {
    int found = -1;
    for (int i = 0; i < c->n_levels; i++)
        if (c->level[i].dim == dim)
            found = i;
    return found;
}

static int depth_of_dim(const Compute *c, TileDimId dim) {
    return dim == TILE_DIM_NONE ? 0 : compute_level_of(c, dim) + 1;
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
    if (stage_writes(c->k->kernel, c->stage, access->buffer))
        state->depth = c->n_levels;
}

// Which loads cross the lanes: then the loop over the dim outside of them is one over blocks.
static void find_crossing(Compute *c) {
    bool any = false;
    for (uint32_t t = 0; t < c->stage->terms.count; t++) {
        bool crosses =
            c->stage->terms.at[t].kind == TERM_LOAD && compute_crosses(c, &c->terms[t].access);
        c->terms[t].crosses = crosses;
        any = any || crosses;
    }
    if (any) {
        c->crossed = c->level[c->n_levels - 2].dim;
        c->level[c->n_levels - 2].kind = LEVEL_BLOCKS;
    }
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
    for (int i = 0; term->kind == TERM_OP && i < op_arity(term->op); i++) {
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
           !access_has_dim(&sink->to, c->level[state->suffix - 1].dim))
        state->suffix--;
    bool has_lanes = c->lanes_level >= 0;
    bool keeps_lanes = access_has_dim(&sink->to, c->stage->lanes);
    state->reduces_lanes = has_lanes && sink->mode != SINK_SET && !keeps_lanes;
    state->varies = has_lanes && (state->reduces_lanes || keeps_lanes);
    cpu_access_open(c->k, &state->to, &sink->to, c->stage->lanes, c->width, NULL);
    if (c->panel_width) { // the lanes loop stays inside one panel
        state->to.kind = LANES_UNIT;
        state->to.panels = false;
    }
}

// The panel buffer whose panels run along the lanes, when the panels may be the outermost loop.
static const TileBuffer *panel_sink(const Compute *c) {
    const Stage *stage = c->stage;
    const Kernel *kernel = c->k->kernel;
    if (stage->sinks.count != 1 || stage->sinks.at[0].mode != SINK_SET ||
        stage_reads_own(kernel, stage))
        return NULL;
    const Access *to = &stage->sinks.at[0].to;
    const TileBuffer *buffer = &kernel->buffers.at[to->buffer];
    if (access_panel_dim(kernel, to) != stage->lanes || c->width == 1 ||
        stage->lanes == TILE_DIM_NONE)
        return NULL;
    for (uint8_t i = 0; i < to->rank; i++)
        if (buffer->dims[i] == buffer->panel_dim &&
            !cpu_aligned(c->k, to->buffer, i, stage->lanes, buffer->panel_width))
            return NULL;
    return buffer;
}

// Is the lanes' range narrowed since the one sink's buffer was made? Then a panel that is not full
// need not be the last one.
static bool is_narrowed(const Compute *c) {
    const Access *to = &c->stage->sinks.at[0].to;
    uint8_t depth = 0;
    for (int i = 0; i < to->rank; i++)
        if (to->index[i].dim == c->stage->lanes)
            depth = c->k->buffer[to->buffer].depth[i];
    return c->k->range[c->stage->lanes].narrowed > depth;
}

// Reading along the lanes what the stage writes, at another position, makes lanes depend on each
// other.
static bool lanes_depend(const Compute *c) {
    const Stage *stage = c->stage;
    for (uint32_t i = 0; i < stage->terms.count; i++) {
        const Term *term = &stage->terms.at[i];
        if (term->kind != TERM_LOAD || !stage_writes(c->k->kernel, stage, term->load.buffer))
            continue;
        for (int j = 0; j < term->load.rank; j++) {
            const Index *index = &term->load.index[j];
            if (index->term >= 0 || (index->dim == stage->lanes && index->offset != 0))
                return true;
        }
    }
    return false;
}

// Enough work at one point that few vectors of them keep the units busy, and fill the registers.
static bool is_heavy(const Stage *stage) {
    double weight = 0;
    for (uint32_t i = 0; i < stage->terms.count; i++)
        if (stage->terms.at[i].kind == TERM_OP)
            weight += op_weight(stage->terms.at[i].op);
        else if (stage->terms.at[i].kind == TERM_LOAD)
            weight += op_weight(OP_INPUT);
    return weight > 6;
}

// Vectors that are copied into panels before the next row is read: with fewer each row of a page is
// read in parts of lines, with more too many panels are written to at a time. Measured: 14 of 3072
// lanes 4.9 ns a vector one by one, 1.7 four at a time, 2.0 eight at a time; 32 lanes 2.3 and 1.6.
enum { VECTORS_AT_ONCE = 4 };

static bool reads_along_lanes(const Compute *c) {
    for (uint32_t t = 0; t < c->stage->terms.count; t++)
        if (c->stage->terms.at[t].kind == TERM_LOAD && c->varies[t] &&
            c->terms[t].access.kind != LANES_UNIT)
            return false;
    return true;
}

// What is read across the lanes is a row of its own for each.
static void choose_panels_at_once(Compute *c) {
    bool several = c->panel_width && reads_along_lanes(c);
    int64_t vectors = several ? ceil_div(c->panel_width, c->width) : VECTORS_AT_ONCE;
    c->panels_at_once = (int)ceil_div(VECTORS_AT_ONCE, vectors);
}

static void choose_lanes(Compute *c) {
    const Stage *stage = c->stage;
    bool vectors = stage->lanes != TILE_DIM_NONE && !lanes_depend(c);
    c->width = vectors ? c->m->lanes : 1;
    const TileBuffer *panel = panel_sink(c);
    if (panel) {
        c->panel_width = panel->panel_width;
        c->pads = stage->pad && !is_narrowed(c);
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
        c->unroll = per_panel < 1 || per_panel > UNROLL_MAX ? 1 : per_panel;
}

void compute_prepare(Compute *c, CpuKernel *k, const Stage *stage) {
    Arena *arena = k->module->arena;
    *c = (Compute){.k = k,
                   .m = k->module,
                   .stage = stage,
                   .lanes_level = -1,
                   .vectors = 1,
                   .crossed = TILE_DIM_NONE};
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
    find_crossing(c);
    choose_panels_at_once(c);
    for (uint32_t s = 0; s < stage->sinks.count; s++)
        analyse_sink(c, s);
    compute_find_long(c);
    if (c->crossed == TILE_DIM_NONE) // masks may depend on the position in a block
        compute_find_settled(c);
}
