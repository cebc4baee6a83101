// SPDX-License-Identifier: Apache-2.0
// The sinks of a compute stage. A sum lives in registers over its suffix, the innermost loops that
// are all reduced, and is combined with its element in memory when the suffix ends; the first time
// the element's content is ignored. Vectors are folded into a scalar in a fixed order.
#include "cpu/compute.h"

#include <math.h>
#include <string.h>

static EmitValue combine(EmitModule *m, SinkMode mode, EmitValue a, EmitValue b) {
    EmitValue args[] = {a, b};
    if (mode == SINK_SUM)
        return emit_add(m, a, b);
    if (mode == SINK_PROD)
        return emit_mul(m, a, b);
    if (mode == SINK_TOP)
        return emit_larger(m, b, a);
    if (a.elem == ELEM_BOOL)
        return emit_map(m, mode == SINK_MAX ? OP_OR : OP_AND, ELEM_BOOL, args, 2);
    // The test for NaN is made on the first argument: not on the sum, which the next turn waits
    // for.
    return mode == SINK_MAX ? emit_max(m, b, a) : emit_min(m, b, a);
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
        int half = value.lanes / 2, low[LANES_MAX], high[LANES_MAX];
        for (int i = 0; i < half; i++) {
            low[i] = i;
            high[i] = i + half;
        }
        EmitValue a = emit_shuffle(m, value, value, low, half);
        EmitValue b = emit_shuffle(m, value, value, high, half);
        value = combine(m, mode, a, b);
    }
    return value;
}

int compute_n_sums(const Compute *c, const SinkState *state, int level) {
    if (!state->varies)
        return 1;
    // Reduced lanes: the sums of the main part live across the lanes loop.
    if (state->reduces_lanes && state->suffix <= c->lanes_level)
        return level > c->lanes_level ? c->vectors : c->unroll;
    return c->vectors;
}

static LLVMValueRef first_time(Compute *c, const Sink *sink, const SinkState *state) {
    TileDimList entered = {0};
    for (int i = 0; i < state->suffix && i < c->n_levels; i++)
        if (c->level[i].kind != LEVEL_PANELS)
            entered.at[entered.count++] = c->level[i].dim;
    return cpu_first(c->k, &sink->to, &entered);
}

// Combines `value` with what the element holds, unless that is the first time (see cpu_first), and
// stores it.
static void put(Compute *c, const Sink *sink, SinkState *state, EmitValue value, int u,
                LLVMValueRef first) {
    LLVMValueRef mask = value.lanes > 1 ? c->mask : NULL;
    if (first) {
        EmitValue old = cpu_access_load(c->k, &state->to, value.lanes, u * c->width, mask, NULL);
        old.elem = value.elem;
        EmitValue both = combine(c->m, sink->mode, old, value);
        value = cpu_never(first) ? both : emit_select(c->m, first, value, both);
    }
    if (mask && c->store_all) {
        value = emit_select(c->m, mask, value, emit_number(c->m, value.elem, 0, value.lanes));
        mask = c->room;
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

void compute_begin_sums(Compute *c, int level) {
    for (uint32_t s = 0; s < c->stage->sinks.count; s++) {
        const Sink *sink = &c->stage->sinks.at[s];
        SinkState *state = &c->sinks[s];
        if (state->suffix != level || level == c->n_levels)
            continue;
        Elem elem = c->stage->terms.at[sink->term].elem;
        int lanes = state->varies ? c->width : 1;
        for (int u = 0; u < compute_n_sums(c, state, level); u++)
            state->sum[u] = identity(c->m, sink->mode, elem, lanes);
        for (int u = 0; u < compute_n_totals(c, state, level); u++)
            state->total[u] = emit_number(c->m, ELEM_F64, 0, state->reduces_lanes ? 1 : lanes);
    }
    if (level == c->long_level)
        c->turns = index_const(c->m, 0);
}

EmitValue compute_fold_sums(Compute *c, uint32_t sink, int level, int u) {
    SinkState *state = &c->sinks[sink];
    if (!state->reduces_lanes)
        return state->sum[u];
    EmitValue sums[UNROLL_MAX]; // the fold works in place
    int n = compute_n_sums(c, state, level);
    memcpy(sums, state->sum, sizeof sums);
    return fold(c, c->stage->sinks.at[sink].mode, sums, n, state->suffix > c->lanes_level);
}

void compute_end_sums(Compute *c, int level) {
    for (uint32_t s = 0; s < c->stage->sinks.count; s++) {
        const Sink *sink = &c->stage->sinks.at[s];
        SinkState *state = &c->sinks[s];
        if (state->suffix != level || level == c->n_levels)
            continue;
        LLVMValueRef first = first_time(c, sink, state);
        int n = state->reduces_lanes ? 1 : compute_n_sums(c, state, level);
        for (int u = 0; u < n; u++)
            put(c, sink, state, compute_whole_sum(c, s, level, u), u, first);
    }
}

// What a point gives to a sink in memory: no NaN for a TOP, which combine() expects of what it has.
static EmitValue point_value(Compute *c, const Sink *sink, int u, bool wide) {
    EmitValue value = compute_term_value(c, sink->term, u, wide);
    if (sink->mode != SINK_TOP)
        return value;
    return combine(c->m, SINK_TOP, identity(c->m, SINK_TOP, value.elem, value.lanes), value);
}

// A point of the innermost loop: sums in registers grow, everything else goes to memory.
static void emit_point_sink(Compute *c, const Sink *sink, SinkState *state) {
    bool in_registers = state->suffix < c->n_levels;
    if (in_registers) {
        bool lanes_inside = state->reduces_lanes && state->suffix <= c->lanes_level;
        int n = state->varies ? c->vectors : 1;
        for (int u = 0; u < n; u++) {
            EmitValue value = compute_term_value(c, sink->term, u, state->varies);
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
            values[u] = point_value(c, sink, u, true);
        put(c, sink, state, fold(c, sink->mode, values, c->vectors, true), 0, first);
        return;
    }
    for (int u = 0; u < (state->varies ? c->vectors : 1); u++)
        put(c, sink, state, point_value(c, sink, u, state->varies), u, first);
}

static void carry(LLVMValueRef *value, LLVMValueRef *refs, uint32_t *n, bool set) {
    if (*n == COMPUTE_SUMS_MAX)
        ice("cpu compute: more than %d sums", COMPUTE_SUMS_MAX);
    if (set)
        *value = refs[*n];
    else
        refs[*n] = *value;
    ++*n;
}

uint32_t compute_carried(Compute *c, int level, LLVMValueRef *refs, bool set) {
    uint32_t n = 0;
    for (uint32_t s = 0; s < c->stage->sinks.count; s++) {
        SinkState *state = &c->sinks[s];
        if (state->suffix > level || state->suffix == c->n_levels)
            continue;
        for (int u = 0; u < compute_n_sums(c, state, level); u++)
            carry(&state->sum[u].ref, refs, &n, set);
        for (int u = 0; u < compute_n_totals(c, state, level); u++)
            carry(&state->total[u].ref, refs, &n, set);
    }
    if (c->long_level <= level)
        carry(&c->turns, refs, &n, set);
    return n;
}

void compute_point(Compute *c) {
    for (uint32_t s = 0; s < c->stage->sinks.count; s++)
        emit_point_sink(c, &c->stage->sinks.at[s], &c->sinks[s]);
}

// ---- padding ----

// Stores zeros at the positions [low, high) of the panels' dim, relative to where the buffer was
// made, for all points of the access's other dims.
static void zero_box(Compute *c, CpuAccess *to, int slot, LLVMValueRef low, LLVMValueRef high) {
    EmitModule *m = c->m;
    if (slot == to->access->rank) {
        cpu_access_store(c->k, to, emit_number(m, to->buffer->elem, 0, 1), 0, NULL);
        return;
    }
    TileDimId dim = to->access->index[slot].dim;
    if (dim == TILE_DIM_NONE) {
        zero_box(c, to, slot + 1, low, high);
        return;
    }
    bool along = dim == access_panel_dim(c->k->kernel, to->access);
    const CpuRange *range = &c->k->range[dim];
    LLVMValueRef from = along ? to->memory->origin[slot] : range->lo, before = to->offset;
    EmitLoop loop;
    emit_loop_open(m, &loop, along ? low : index_const(m, 0), along ? high : range->len,
                   index_const(m, 1), !along, NULL, 0);
    c->k->at[dim] = index_add(m, from, loop.at);
    cpu_access_enter(c->k, to, dim);
    zero_box(c, to, slot + 1, low, high);
    to->offset = before;
    emit_loop_close(m, &loop, NULL, NULL);
}

static void pad_panels(Compute *c, const Access *access) {
    EmitModule *m = c->m;
    CpuAccess to;
    cpu_access_open(c->k, &to, access, TILE_DIM_NONE, 1, NULL);
    int slot = 0;
    while (to.buffer->dims[slot] != to.buffer->panel_dim)
        slot++;
    const CpuRange *range = &c->k->range[access->index[slot].dim];
    LLVMValueRef made = to.memory->length[slot], origin = to.memory->origin[slot];
    LLVMValueRef reached = index_sub(m, index_add(m, range->lo, range->len), origin);
    LLVMValueRef whole = index_round_up(m, made, to.buffer->panel_width);
    LLVMValueRef is_end = LLVMBuildICmp(m->builder, LLVMIntEQ, reached, made, "");
    zero_box(c, &to, 0, made, LLVMBuildSelect(m->builder, is_end, whole, made, ""));
}

void compute_pad(Compute *c) {
    for (uint32_t s = 0; s < c->stage->sinks.count; s++) {
        const Access *to = &c->stage->sinks.at[s].to;
        if (c->k->kernel->buffers.at[to->buffer].panel_dim != TILE_DIM_NONE)
            pad_panels(c, to);
    }
}
