// SPDX-License-Identifier: Apache-2.0
// Which dims of an argument stand for the dims of a parameter (grammar/language.md 7.1).
//
//     def Rotate(x[n, d])
//
//     Rotate(Q[n, k, h], d=k)   d = k by hand, n = n by name; h is left over: mapped
//
//     Rotate(Q[b, t, k])        nothing by name: d = k, n = t by place from the right; b: mapped
//
//     Rotate(Q[n, k, h])        n = n and d = h, or n = k and d = h? Two readings
//
//     Rotate(Q)                 Q over [b, t, k]: three dims for two, no brackets that say which
#include "ast/resolve/resolve.h"

bool expr_has_brackets(const Expr *arg) {
    return arg->kind == EXPR_REF || arg->has_arrow;
}

static Name hand_of(const HandDims *hands, Name formal) {
    for (uint32_t i = 0; i < hands->count; i++)
        if (hands->at[i].formal == formal)
            return hands->at[i].actual.name;
    return NULL;
}

// Binds by hand, then by name. false: a dim that was bound by hand is not there.
static bool bind_named(ArgumentDims *dims, const NameList *formals, const NameList *actuals,
                       const HandDims *hands, Arena *arena) {
    for (uint32_t i = 0; i < formals->count; i++) {
        Name hand = hand_of(hands, formals->at[i]);
        vec_push(arena, &dims->actuals, hand);
        if (hand && !dimlist_has(actuals, hand)) {
            dims->problem = BIND_HAND_ABSENT;
            dims->formal = i;
            return false;
        }
    }
    for (uint32_t i = 0; i < formals->count; i++) {
        Name formal = formals->at[i];
        if (!dims->actuals.at[i] && dimlist_has(actuals, formal) &&
            !dimlist_has(&dims->actuals, formal)) {
            dims->actuals.at[i] = formal;
            dims->n_named++;
        }
    }
    return true;
}

// The dims that are bound by neither hand nor name, by place from the right.
static void bind_placed(ArgumentDims *dims, const NameList *left) {
    uint32_t next = left->count;
    for (uint32_t i = dims->actuals.count; i-- > 0;)
        if (!dims->actuals.at[i])
            dims->actuals.at[i] = left->at[--next];
}

// What place alone would make of the dims that are not bound by hand.
static NameList bind_by_place(const NameList *formals, const NameList *actuals,
                              const HandDims *hands, Arena *arena) {
    NameList bound = {0}, free = {0};
    for (uint32_t i = 0; i < formals->count; i++) {
        Name hand = hand_of(hands, formals->at[i]);
        vec_push(arena, &bound, hand);
    }
    free = dimlist_minus(arena, actuals, &bound);
    uint32_t next = free.count;
    for (uint32_t i = formals->count; i-- > 0;)
        if (!bound.at[i])
            bound.at[i] = free.at[--next];
    return bound;
}

ArgumentDims bind_argument(Arena *arena, const NameList *formals, const NameList *actuals,
                           bool brackets, const HandDims *hands) {
    ArgumentDims dims = {.problem = BIND_FINE};
    if (!bind_named(&dims, formals, actuals, hands, arena))
        return dims;
    for (uint32_t i = 0; i < formals->count; i++)
        if (!dims.actuals.at[i])
            vec_push(arena, &dims.open, formals->at[i]);
    NameList left = dimlist_minus(arena, actuals, &dims.actuals);
    if (left.count < dims.open.count) {
        dims.problem = BIND_FEW;
        return dims;
    }
    dims.left = left;
    bind_placed(&dims, &left);
    dims.extra = dimlist_minus(arena, actuals, &dims.actuals);
    dims.placed = bind_by_place(formals, actuals, hands, arena);
    if (dims.open.count && !brackets && left.count > dims.open.count)
        dims.problem = BIND_SEVERAL;
    else if (dims.open.count && dims.n_named)
        for (uint32_t i = 0; i < formals->count; i++)
            if (dims.placed.at[i] != dims.actuals.at[i])
                dims.problem = BIND_TWO_READINGS;
    return dims;
}
