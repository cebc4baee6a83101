// SPDX-License-Identifier: Apache-2.0
// The scalar program of a compute stage: a value per vector for terms that vary along the lanes,
// one scalar for all others.
#include "cpu/compute.h"
#include "emit/vmath.h"

EmitValue compute_term_value(Compute *c, int32_t t, int u, bool wide) {
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
    int n = op_arity(term->op);
    for (int i = 0; i < n; i++)
        args[i] = compute_term_value(c, term->args[i], u, state->varies);
    if (vmath_has(term->op))
        return vmath_call(c->m, term->op, args, (uint32_t)n);
    return emit_map(c->m, term->op, term->elem, args, (uint32_t)n);
}

static EmitValue emit_load_term(Compute *c, const Term *term, TermState *state, int u) {
    if (state->crosses)
        return compute_from_block(c, term, state, u);
    for (int i = 0; i < term->load.rank; i++) {
        int32_t t = term->load.index[i].term;
        if (t >= 0)
            c->values[t] = compute_term_value(c, t, u, false);
    }
    int width = state->varies ? c->width : 1;
    LLVMValueRef mask = state->varies ? c->mask : NULL;
    EmitValue value = cpu_access_load(c->k, &state->access, width, u * c->width, mask, c->values);
    value.elem = term->elem; // an f16 may be loaded as f32: both are f32 in registers
    return value;
}

static EmitValue emit_term(Compute *c, const Term *term, TermState *state, int u) {
    if (c->settled && state->settles != SETTLES_NOT)
        return emit_number(c->m, term->elem, state->settles == SETTLES_TRUE, c->width);
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

void compute_terms(Compute *c, int depth) {
    for (uint32_t t = 0; t < c->stage->terms.count; t++) {
        TermState *state = &c->terms[t];
        if (state->depth != depth)
            continue;
        for (int u = 0; u < (state->varies ? c->vectors : 1); u++)
            state->value[u] = emit_term(c, &c->stage->terms.at[t], state, u);
    }
}
