// SPDX-License-Identifier: Apache-2.0
// Sums of many floats, so that no rounding error grows with how many they are.
//
//     sums = 0; total = 0 (in double)
//     for each block of LONG_TURNS turns:   total += sums, folded; sums = 0    # not before the
//     first
//         for each turn:                    sums += x
//     z = total + sums
//
// A sum grows for LONG_TURNS turns, and rounds as often: what the error of pairwise summation is in
// practice, whose depth is a logarithm (Higham 1993, "The accuracy of floating point summation").
// Where several loops are summed over, turns of the innermost one count, through the others.
#include "cpu/compute.h"

// Sums of no more turns have no totals.
enum { FEW_TURNS = 2 * LONG_TURNS };

// At most so many positions in the current range of the dim; INT64_MAX: not known.
static int64_t most_positions(const Compute *c, const Level *level) {
    const CpuRange *range = &c->k->range[level->dim];
    int64_t known;
    if (index_known(range->len, &known))
        return known;
    bool loop_inside = range->depth && range->narrowed < range->depth;
    return loop_inside ? range->step[range->depth - 1] : INT64_MAX;
}

static int64_t most_turns(const Compute *c, const SinkState *state) {
    int64_t turns = 1;
    for (int i = state->suffix; i < c->n_levels; i++) {
        int64_t positions = most_positions(c, &c->level[i]);
        if (positions == INT64_MAX)
            return INT64_MAX;
        int64_t at_once = c->level[i].kind == LEVEL_LANES ? (int64_t)c->unroll * c->width : 1;
        turns = mul_capped(turns, ceil_div(positions, at_once));
    }
    return turns;
}

void compute_find_long(Compute *c) {
    c->long_level = c->n_levels;
    for (uint32_t s = 0; s < c->stage->sinks.count; s++) {
        const Sink *sink = &c->stage->sinks.at[s];
        SinkState *state = &c->sinks[s];
        Elem elem = c->stage->terms.at[sink->term].elem;
        bool floats = elem == ELEM_F32 || elem == ELEM_F64;
        bool whole = !state->reduces_lanes || state->suffix <= c->lanes_level;
        state->is_long = sink->mode == SINK_SUM && floats && whole && state->suffix < c->n_levels &&
                         most_turns(c, state) > FEW_TURNS;
        if (state->is_long && state->suffix < c->long_level)
            c->long_level = state->suffix;
    }
}

int compute_n_totals(const Compute *c, const SinkState *state, int level) {
    if (!state->is_long)
        return 0;
    return state->reduces_lanes ? 1 : compute_n_sums(c, state, level);
}

// The total is rounded, not the sum widened: short sums wait for the sum alone, and stay what they
// were.
EmitValue compute_whole_sum(Compute *c, uint32_t sink, int level, int u) {
    EmitValue sum = compute_fold_sums(c, sink, level, u);
    if (!c->sinks[sink].is_long)
        return sum;
    return emit_add(c->m, emit_cast(c->m, c->sinks[sink].total[u], sum.elem), sum);
}

static void move_all(Compute *c, int level) {
    for (uint32_t s = 0; s < c->stage->sinks.count; s++) {
        SinkState *state = &c->sinks[s];
        int n = compute_n_totals(c, state, level);
        for (int u = 0; u < n; u++) {
            EmitValue sum = emit_cast(c->m, compute_fold_sums(c, s, level, u), ELEM_F64);
            state->total[u] = emit_add(c->m, state->total[u], sum);
        }
        for (int u = 0; n && u < compute_n_sums(c, state, level); u++)
            state->sum[u] = emit_number(c->m, state->sum[u].elem, 0, state->sum[u].lanes);
    }
    c->turns = index_const(c->m, 0);
}

void compute_move_sums(Compute *c, int level) {
    EmitModule *m = c->m;
    LLVMValueRef grown[COMPUTE_SUMS_MAX], moved[COMPUTE_SUMS_MAX];
    LLVMBasicBlockRef before = LLVMGetInsertBlock(m->builder);
    LLVMBasicBlockRef move = emit_block(m, "totals"), after = emit_block(m, "sums");
    LLVMValueRef many =
        LLVMBuildICmp(m->builder, LLVMIntSGE, c->turns, index_const(m, LONG_TURNS), "");
    LLVMBuildCondBr(m->builder, many, move, after);
    uint32_t n = compute_carried(c, level, grown, false);
    LLVMPositionBuilderAtEnd(m->builder, move);
    move_all(c, level);
    compute_carried(c, level, moved, false);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(m->builder);
    LLVMBuildBr(m->builder, after);
    LLVMPositionBuilderAtEnd(m->builder, after);
    for (uint32_t i = 0; i < n; i++) {
        LLVMValueRef phi = LLVMBuildPhi(m->builder, LLVMTypeOf(grown[i]), "");
        LLVMAddIncoming(phi, (LLVMValueRef[]){grown[i], moved[i]},
                        (LLVMBasicBlockRef[]){before, from}, 2);
        grown[i] = phi;
    }
    compute_carried(c, level, grown, true);
}

void compute_count_turns(Compute *c, int level, int64_t turns) {
    if (level == c->n_levels - 1 && c->long_level <= level)
        c->turns = index_add(c->m, c->turns, index_const(c->m, turns));
}
