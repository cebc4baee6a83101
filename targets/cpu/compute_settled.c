// SPDX-License-Identifier: Apache-2.0
// Where along the lanes a mask has one value, so that the vectors there are computed without it.
//
//     select(index(m) <= index(n), L, -inf)      # a causal mask, lanes along m, one row n
//
//     m in [0, n + 1)     whole vectors of L, no comparison
//     the rest            the comparison settles each lane
//
// Comparisons of whole numbers settle when they are linear in the position along the lanes, with a
// factor of 1 or -1, and all else in them is known before the lanes loop. What they are in the
// inner part is what lets a select through: of its two values the one that is not a number.
//
// Whole numbers wrap around, and a comparison that wraps is not linear. So a side with the position
// in it is a sum of numbers that are small whatever is loaded: index(m) + X[n] <= 7 settles for an
// i32 X, not for an i64 one. A side without it may be any one number: index(m) <= index(n) + X[n].
#include "cpu/compute.h"

#include <math.h>

enum { STEPS_MAX = 100 }; // terms looked at for one mask: conditions that a person writes are short
static const int64_t SMALL = INT64_C(1) << 50; // no loop runs this far,
static const int64_t REACH = INT64_C(1) << 58; // and no sum of STEPS_MAX small numbers comes here

typedef struct {
    int lanes;        // how often the position along the lanes is in it, with its sign
    LLVMValueRef sum; // of everything else; NULL when only the first is asked for
    bool fits;
    int steps;
} Linear;

// ---- sums of positions and whole numbers -------------------------------------------------------

static bool is_known_before(const Compute *c, int32_t t) {
    return !c->varies[t] && c->terms[t].depth <= c->lanes_level;
}

// Below STEPS_MAX * SMALL, whatever is loaded.
static bool is_small(const Compute *c, int32_t t, int *steps) {
    const Term *term = &c->stage->terms.at[t];
    if (++*steps > STEPS_MAX)
        return false;
    if (term->elem == ELEM_I32 || term->elem == ELEM_BOOL || term->kind == TERM_INDEX ||
        term->kind == TERM_EXTENT)
        return true;
    if (term->kind == TERM_CONST)
        return fabs(term->number) <= (double)SMALL;
    bool sum =
        term->kind == TERM_OP && term->elem == ELEM_I64 &&
        (term->op == OP_ADD || term->op == OP_SUB || term->op == OP_NEG || term->op == OP_CAST);
    for (int i = 0; sum && i < op_arity(term->op); i++)
        sum = !elem_is_float(c->stage->terms.at[term->args[i]].elem) &&
              is_small(c, term->args[i], steps);
    return sum;
}

static void add_known(Compute *c, Linear *l, int32_t t, int sign, bool small) {
    l->fits = l->fits && is_known_before(c, t);
    if (!l->fits || !l->sum)
        return;
    LLVMValueRef at = emit_cast(c->m, compute_term_value(c, t, 0, false), ELEM_I64).ref;
    if (!small) // beyond all that it is compared with, which the comparison tells as well
        at = index_min(c->m, index_max(c->m, at, index_const(c->m, -REACH)),
                       index_const(c->m, REACH));
    l->sum = sign > 0 ? index_add(c->m, l->sum, at) : index_sub(c->m, l->sum, at);
}

// A part of a side with the position in it.
static void add_linear(Compute *c, Linear *l, int32_t t, int sign) {
    const Term *term = &c->stage->terms.at[t];
    l->fits = l->fits && ++l->steps < STEPS_MAX;
    if (!l->fits)
        return;
    bool op = term->kind == TERM_OP && c->varies[t] && term->elem == ELEM_I64;
    if (term->kind == TERM_INDEX && c->varies[t]) {
        l->lanes += sign;
    } else if (op && (term->op == OP_ADD || term->op == OP_SUB)) {
        add_linear(c, l, term->args[0], sign);
        add_linear(c, l, term->args[1], term->op == OP_ADD ? sign : -sign);
    } else if (op && term->op == OP_NEG) {
        add_linear(c, l, term->args[0], -sign);
    } else {
        l->fits = is_small(c, t, &l->steps);
        add_known(c, l, t, sign, true);
    }
}

static void add_side(Compute *c, Linear *l, int32_t t, int sign) {
    if (!c->varies[t])
        add_known(c, l, t, sign, false);
    else
        add_linear(c, l, t, sign);
}

// large - small of a comparison small <= large, or less 1 for small < large: 0 or more where it
// holds.
static Linear slack_of(Compute *c, const Term *term, LLVMValueRef zero) {
    Linear l = {.sum = zero, .fits = true};
    add_side(c, &l, term->args[1], 1);
    add_side(c, &l, term->args[0], -1);
    l.fits = l.fits && (l.lanes == 1 || l.lanes == -1);
    if (l.fits && l.sum && term->op == OP_LT)
        l.sum = index_sub(c->m, l.sum, index_const(c->m, 1));
    return l;
}

// ---- which terms settle ------------------------------------------------------------------------

static bool is_number(const Compute *c, int32_t t) {
    return c->stage->terms.at[t].kind == TERM_CONST;
}

static void want(Compute *c, int32_t t, bool value, int *steps) {
    const Term *term = &c->stage->terms.at[t];
    if (term->kind != TERM_OP || !c->varies[t] || ++*steps > STEPS_MAX)
        return;
    if (term->op == OP_AND || term->op == OP_OR || term->op == OP_NOT) {
        for (int i = 0; i < op_arity(term->op); i++)
            want(c, term->args[i], term->op == OP_NOT ? !value : value, steps);
    } else if ((term->op == OP_LE || term->op == OP_LT) && slack_of(c, term, NULL).fits) {
        c->terms[t].settles = value ? SETTLES_TRUE : SETTLES_FALSE;
        c->splits = true;
    }
}

void compute_find_settled(Compute *c) {
    for (uint32_t t = 0; t < c->stage->terms.count && c->width > 1 && !c->panel_width; t++) {
        const Term *term = &c->stage->terms.at[t];
        int steps = 0;
        if (term->kind == TERM_OP && term->op == OP_SELECT)
            want(c, term->args[0], !is_number(c, term->args[1]) || is_number(c, term->args[2]),
                 &steps);
    }
}

void compute_settled_part(Compute *c, LLVMValueRef *first, LLVMValueRef *end) {
    EmitModule *m = c->m;
    for (uint32_t t = 0; t < c->stage->terms.count; t++) {
        Settles settles = c->terms[t].settles;
        if (settles == SETTLES_NOT)
            continue;
        Linear l = slack_of(c, &c->stage->terms.at[t], index_const(m, 0));
        // It holds from -sum on, or up to sum.
        bool from = (l.lanes > 0) == (settles == SETTLES_TRUE);
        LLVMValueRef at = l.lanes > 0 ? index_sub(m, index_const(m, 0), l.sum)
                                      : index_add(m, l.sum, index_const(m, 1));
        if (from)
            *first = index_max(m, *first, at);
        else
            *end = index_min(m, *end, at);
    }
}
