// SPDX-License-Identifier: Apache-2.0
// Which dims of an argument stand for the dims of a parameter (grammar/language.md 7.1).
//
//     def Rotate(x[n, d])
//
//     Rotate(Q[n, k, h], d=k)   d = k by hand, n = n by name; h is left over: mapped
//
//     Rotate(K[m, k, h], d=k)   with `dim m like n`, n = m by kind; h: mapped
//
//     Rotate(Q[h, n, k])        n = n by name, d = k by place from the right, which has n = n too
//
//     Rotate(Q[t, k])           d = k, n = t by place; as many dims as the parameter has
//
//     Rotate(Q[n, k, h])        n = n and d = h, or n = k and d = h? Two readings
//
//     Rotate(Q[b, t, k])        d = k, n = t by place; b: mapped. No name says so: a warning, also
//                               with d=k by hand, and for a parameter of one dim where Q is over
//                               [b, t, k] in this order
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
        if (hand && !namelist_has(actuals, hand)) {
            dims->problem = BIND_HAND_ABSENT;
            dims->formal = i;
            return false;
        }
    }
    for (uint32_t i = 0; i < formals->count; i++) {
        Name formal = formals->at[i];
        if (!dims->actuals.at[i] && namelist_has(actuals, formal) &&
            !namelist_has(&dims->actuals, formal)) {
            dims->actuals.at[i] = formal;
            dims->n_named++;
        }
    }
    return true;
}

// ---- by kind ------------------------------------------------------------------------------------

static uint32_t place_of(const NameList *dims, Name dim) {
    uint32_t place = 0;
    while (dims->at[place] != dim)
        place++;
    return place;
}

// The one dim of `dims` that is alike and not in `taken`; NULL: there is none, or more than one.
static Name only_alike(const Program *program, const NameList *dims, Name dim,
                       const NameList *taken) {
    Name found = NULL;
    for (uint32_t i = 0; i < dims->count; i++) {
        if (namelist_has(taken, dims->at[i]) || !program_dims_alike(program, dims->at[i], dim))
            continue;
        if (found)
            return NULL;
        found = dims->at[i];
    }
    return found;
}

// Dims of one kind stand in one order in the parameter and in the argument.
static bool keeps_order(const Program *program, const ArgumentDims *dims, const NameList *formals,
                        const NameList *actuals, const HandDims *hands, uint32_t which,
                        Name actual) {
    uint32_t here = place_of(actuals, actual);
    for (uint32_t i = 0; i < formals->count; i++) {
        Name other = dims->actuals.at[i];
        if (!other || hand_of(hands, formals->at[i]) ||
            !program_dims_alike(program, formals->at[i], formals->at[which]))
            continue;
        if ((i < which) != (place_of(actuals, other) < here))
            return false;
    }
    return true;
}

// A dim of the parameter that is alone of its kind among those that are left is the argument's one.
static void bind_kinds(ArgumentDims *dims, const Program *program, const NameList *formals,
                       const NameList *actuals, const HandDims *hands, Arena *arena) {
    NameList bound = {0};
    for (uint32_t i = 0; i < formals->count; i++)
        if (dims->actuals.at[i])
            vec_push(arena, &bound, formals->at[i]);
    for (uint32_t i = 0; i < formals->count; i++) {
        Name formal = formals->at[i];
        if (dims->actuals.at[i] || only_alike(program, formals, formal, &bound) != formal)
            continue;
        Name actual = only_alike(program, actuals, formal, &dims->actuals);
        if (!actual || !keeps_order(program, dims, formals, actuals, hands, i, actual))
            continue;
        dims->actuals.at[i] = actual;
        dims->n_named++;
    }
}

// ---- by place -----------------------------------------------------------------------------------

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

// ---- the whole ----------------------------------------------------------------------------------

// Requires: open dims of the parameter are bound by place. Does something say that this is so?
static BindProblem judge_places(const ArgumentDims *dims, bool brackets) {
    if (dims->left.count > dims->open.count && !brackets)
        return BIND_SEVERAL;
    for (uint32_t i = 0; dims->n_named && i < dims->actuals.count; i++)
        if (dims->placed.at[i] != dims->actuals.at[i])
            return BIND_TWO_READINGS;
    return BIND_FINE;
}

ArgumentDims bind_argument(Arena *arena, const Program *program, const NameList *formals,
                           const NameList *actuals, bool brackets, const HandDims *hands) {
    ArgumentDims dims = {.problem = BIND_FINE};
    if (!bind_named(&dims, formals, actuals, hands, arena))
        return dims;
    bind_kinds(&dims, program, formals, actuals, hands, arena);
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
    if (dims.open.count)
        dims.problem = judge_places(&dims, brackets);
    dims.last_of_more = dims.problem == BIND_FINE && dims.open.count > 0 && dims.n_named == 0 &&
                        left.count > dims.open.count;
    return dims;
}
