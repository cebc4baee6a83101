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
// Where a load crosses the lanes, the positions of the dim outside of them come in blocks, with the
// lanes between the blocks and the positions of one: see compute_crossed.c. What depends on that
// dim alone is evaluated inside the lanes then, and no mask is settled along many of them.
//
// When the lanes dim is that of a panel buffer, the loop over panels becomes the outermost one (if
// points may be visited in another order), so that each panel is filled from front to back; of
// narrow panels a few side by side, so that a line that is read is read whole.
#include "cpu/compute.h"

static void emit_level(Compute *c, int level);

typedef void LoopBody(Compute *c, int level, LLVMValueRef at);
typedef struct {
    LLVMValueRef base, low, high;
    int64_t step;
    bool nonempty;
} Bounds;

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
    return emit_first_lanes(m, index_min(m, left, index_const(m, c->width)), c->width);
}

// Runs body at base + low, base + low + step, ... below base + high. The counter starts from a
// number so that a loop of one turn is seen to be one.
static void loop_over(Compute *c, int level, const Bounds *bounds, LoopBody *body) {
    LLVMValueRef refs[COMPUTE_SUMS_MAX];
    EmitLoop loop;
    uint32_t n = compute_carried(c, level, refs, false);
    emit_loop_open(c->m, &loop, bounds->low, bounds->high, index_const(c->m, bounds->step),
                   bounds->nonempty, refs, n);
    compute_carried(c, level, loop.carried, true);
    LLVMValueRef *saved = save_offsets(c);
    body(c, level, index_add(c->m, bounds->base, loop.at));
    restore_offsets(c, saved);
    compute_carried(c, level, refs, false);
    emit_loop_close(c->m, &loop, refs, refs);
    compute_carried(c, level, refs, true);
}

// The same for the innermost loop, in blocks with long sums: before each they go into the totals.
static void loop_in_blocks(Compute *c, int level, const Bounds *bounds, LoopBody *body) {
    EmitModule *m = c->m;
    int64_t low, high, size = LONG_TURNS * bounds->step;
    bool few =
        index_known(bounds->low, &low) && index_known(bounds->high, &high) && high - low <= size;
    if (level < c->n_levels - 1 || c->long_level > level || few) {
        loop_over(c, level, bounds, body);
        compute_count_turns(c, level, LONG_TURNS);
        return;
    }
    LLVMValueRef refs[COMPUTE_SUMS_MAX];
    EmitLoop blocks;
    uint32_t n = compute_carried(c, level, refs, false);
    emit_loop_open(m, &blocks, bounds->low, bounds->high, index_const(m, size), bounds->nonempty,
                   refs, n);
    compute_carried(c, level, blocks.carried, true);
    compute_move_sums(c, level);
    Bounds block = *bounds;
    block.low = blocks.at;
    block.high = index_min(m, index_add(m, blocks.at, index_const(m, size)), bounds->high);
    block.nonempty = true;
    loop_over(c, level, &block, body);
    compute_count_turns(c, level, LONG_TURNS);
    compute_carried(c, level, refs, false);
    emit_loop_close(m, &blocks, refs, refs);
    compute_carried(c, level, refs, true);
}

static void scalar_body(Compute *c, int level, LLVMValueRef at) {
    enter(c, c->level[level].dim, at);
    compute_terms(c, level + 1);
    emit_level(c, level + 1);
}

// A position of a block. level: that of the lanes.
static void position_body(Compute *c, int level, LLVMValueRef at) {
    enter(c, c->crossed, at);
    compute_terms(c, level);
    compute_terms(c, level + 1);
    compute_point(c);
}

// Vectors of the lanes, with all positions of the block.
static void crossed_body(Compute *c, int level, LLVMValueRef at) {
    EmitModule *m = c->m;
    enter(c, c->level[level].dim, at);
    compute_fill_blocks(c);
    loop_over(c, level, &(Bounds){c->positions.lo, index_const(m, 0), c->positions.len, 1, true},
              position_body);
}

static LoopBody *vectors_body(const Compute *c) {
    return c->crossed == TILE_DIM_NONE ? scalar_body : crossed_body;
}

static void tail_body(Compute *c, int level, LLVMValueRef at) {
    LLVMValueRef end = index_add(c->m, c->lanes.lo, c->lanes.len);
    c->left = index_sub(c->m, end, at);
    c->mask = tail_mask(c, c->left);
    if (c->store_all) {
        end = index_add(c->m, c->lanes.lo, index_const(c->m, c->panel_width));
        c->room = c->panel_width % c->width ? tail_mask(c, index_sub(c->m, end, at)) : NULL;
    }
    vectors_body(c)(c, level, at);
    c->mask = c->left = NULL;
}

// `at` as a multiple of the step, counted from the base: rounded up with `round` = step - 1, down
// with 0; not beyond the ends.
static LLVMValueRef part_end(Compute *c, const Bounds *bounds, LLVMValueRef at, int64_t round) {
    EmitModule *m = c->m;
    LLVMValueRef from = index_sub(m, at, bounds->base);
    from = index_min(m, index_max(m, from, bounds->low), bounds->high);
    from = index_div(m, index_add(m, from, index_const(m, round)), bounds->step);
    return index_mul(m, from, index_const(m, bounds->step));
}

// The main part of the lanes loop: before, inside and behind of where masks are settled.
static void emit_whole_vectors(Compute *c, int level, Bounds bounds) {
    if (!c->splits) {
        loop_in_blocks(c, level, &bounds, vectors_body(c));
        return;
    }
    LLVMValueRef high = bounds.high, first = c->lanes.lo;
    LLVMValueRef end = index_add(c->m, c->lanes.lo, c->lanes.len);
    compute_settled_part(c, &first, &end);
    first = part_end(c, &bounds, first, bounds.step - 1);
    end = index_max(c->m, part_end(c, &bounds, end, 0), first);
    bounds.nonempty = false;
    LLVMValueRef ends[] = {first, end, high};
    for (int part = 0; part < 3; part++) {
        bounds.high = ends[part];
        c->settled = part == 1;
        loop_in_blocks(c, level, &bounds, vectors_body(c));
        bounds.low = bounds.high;
    }
    c->settled = false;
}

// So many vectors at a time from bounds->low on, which moves on to what is left. Is that known to
// be nothing?
static bool emit_vectors_at_once(Compute *c, int level, Bounds *bounds, int vectors) {
    EmitModule *m = c->m;
    int64_t low, known, step = (int64_t)vectors * c->width;
    bool is_known = index_known(c->lanes.len, &known);
    if (is_known && index_known(bounds->low, &low) && known - low < step)
        return false;
    bounds->high = index_mul(m, index_div(m, c->lanes.len, step), index_const(m, step));
    bounds->step = step;
    c->vectors = vectors;
    emit_whole_vectors(c, level, *bounds);
    c->vectors = 1;
    bounds->low = bounds->high;
    return is_known && known % step == 0;
}

// Of one panel, with LEVEL_PANELS.
static void emit_vectors(Compute *c, int level) {
    EmitModule *m = c->m;
    LLVMValueRef len = c->lanes.len;
    int64_t known;
    bool is_known = index_known(len, &known);
    Bounds bounds = {c->lanes.lo, index_const(m, 0), NULL, 0, is_known};
    if (!c->partial && emit_vectors_at_once(c, level, &bounds, c->unroll))
        return;
    // Of a length that is known all other vectors but the last one are whole, too. Where masks are
    // settled that would be the code of three loops more.
    if (!c->partial && is_known && !c->splits && emit_vectors_at_once(c, level, &bounds, 1))
        return;
    bounds.high = c->partial && c->store_all ? index_const(m, c->panel_width) : len;
    bounds.step = c->width;
    bounds.nonempty = is_known || c->partial;
    loop_over(c, level, &bounds, tail_body);
    compute_count_turns(c, level, c->unroll);
}

static void vectors_of_panel(Compute *c, int level, LLVMValueRef at) {
    c->lanes.lo = at;
    emit_vectors(c, level);
}

static void emit_lanes(Compute *c, int level) {
    if (c->panels_at_once <= 1 || c->partial) {
        emit_vectors(c, level);
        return;
    }
    if (!c->panels_even) {
        Bounds bounds = {c->panels.lo, index_const(c->m, 0), c->panels.len, c->panel_width, true};
        loop_over(c, level, &bounds, vectors_of_panel);
        return;
    }
    for (int p = 0; p < c->panels_at_once; p++) {
        LLVMValueRef *saved = save_offsets(c);
        LLVMValueRef skipped = index_const(c->m, (int64_t)p * c->panel_width);
        vectors_of_panel(c, level, index_add(c->m, c->panels.lo, skipped));
        restore_offsets(c, saved);
    }
}

static void panel_body(Compute *c, int level, LLVMValueRef at) {
    c->lanes.lo = at;
    emit_level(c, level + 1);
}

static void panels_body(Compute *c, int level, LLVMValueRef at) {
    EmitModule *m = c->m;
    LLVMValueRef all = index_const(m, (int64_t)c->panels_at_once * c->panel_width);
    c->panels.lo = at;
    c->panels.len = c->panels_even ? all : index_min(m, index_sub(m, c->panels_end, at), all);
    panel_body(c, level, at);
}

static void emit_panels(Compute *c, int level) {
    EmitModule *m = c->m;
    CpuRange whole = c->lanes;
    int64_t known, width = c->panel_width;
    bool is_known = index_known(whole.len, &known);
    LLVMValueRef full = index_mul(m, index_div(m, whole.len, width), index_const(m, width));
    Bounds bounds = {whole.lo, index_const(m, 0), full, width * c->panels_at_once, is_known};
    c->lanes.len = index_const(m, width);
    if (!is_known || known >= width) {
        c->panels_end = index_add(m, whole.lo, full);
        c->panels_even = is_known && known / width % c->panels_at_once == 0;
        loop_over(c, level, &bounds, c->panels_at_once > 1 ? panels_body : panel_body);
        bounds.low = full;
    }
    bounds.step = width;
    if (!is_known || known % width) {
        bounds.high = whole.len;
        c->partial = true;
        c->store_all = c->pads;
        c->lanes.len = index_sub(m, whole.len, full);
        loop_over(c, level, &bounds, panel_body);
        c->partial = c->store_all = false;
    }
    c->lanes = whole;
}

static void block_body(Compute *c, int level, LLVMValueRef at) {
    EmitModule *m = c->m;
    const CpuRange *range = &c->k->range[c->crossed];
    LLVMValueRef left = index_sub(m, index_add(m, range->lo, range->len), at);
    int64_t known;
    bool whole = index_known(range->len, &known) && known % c->width == 0;
    c->positions.lo = at;
    c->positions.len = index_const(m, c->width);
    if (!whole)
        c->positions.len = index_min(m, left, c->positions.len);
    emit_level(c, level + 1);
}

static void emit_blocks(Compute *c, int level) {
    const CpuRange *range = &c->k->range[c->crossed];
    Bounds bounds = {range->lo, index_const(c->m, 0), range->len, c->width, true};
    loop_over(c, level, &bounds, block_body);
}

static void emit_level(Compute *c, int level) {
    if (level == c->n_levels) {
        compute_point(c);
        return;
    }
    compute_begin_sums(c, level);
    if (level == c->n_levels - 1 && c->long_level < level)
        compute_move_sums(c, level);
    const Level *now = &c->level[level];
    if (now->kind == LEVEL_PANELS) {
        emit_panels(c, level);
    } else if (now->kind == LEVEL_BLOCKS) {
        emit_blocks(c, level);
    } else if (now->kind == LEVEL_LANES) {
        emit_lanes(c, level);
    } else {
        const CpuRange *range = &c->k->range[now->dim];
        Bounds bounds = {range->lo, index_const(c->m, 0), range->len, 1, true};
        loop_in_blocks(c, level, &bounds, scalar_body);
    }
    compute_end_sums(c, level);
}

// Dims that accesses name and the box lacks stand at the start of their range.
static void enter_other_dims(Compute *c) {
    CpuKernel *k = c->k;
    for (uint32_t d = 0; d < k->kernel->dims.count; d++)
        if (compute_level_of(c, (TileDimId)d) < 0)
            enter(c, (TileDimId)d, k->range[d].lo);
}

void cpu_emit_compute(CpuKernel *k, const Stage *stage) {
    Compute c;
    compute_prepare(&c, k, stage);
    enter_other_dims(&c);
    compute_terms(&c, 0);
    emit_level(&c, 0);
    if (stage->pad && !c.pads)
        compute_pad(&c);
}
