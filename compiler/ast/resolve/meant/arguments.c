// SPDX-License-Identifier: Apache-2.0
// The meaning of functions that have their arguments in another order, or other ones; see meant.h.
//
//     masked_fill(S, mask, -inf)     where(mask, -inf, S)
//     clamp(X, min=0)                max(X, 0)
//     dropout(X, 0.1, seed=s)        dropout(X, rate=0.1, seed=s)
//     X.size(1)                      d
#include "ast/resolve/meant/meant.h"

#include <string.h>

// ---- dropout

static const char drops_nothing[] =
    "it drops nothing without 'seed=s', for an argument 's[]: i64': language 5.7";

typedef struct {
    const Expr *rate, *seed, *training;
    bool strange; // there is more, which says something else
} Dropout;

// What can only be a seed: a whole number, written out or a tensor without dims.
static bool is_seed(const Meaning *m, const Expr *expr) {
    int64_t number;
    const Symbol *symbol = expr->kind == EXPR_NAME || expr->kind == EXPR_REF
                               ? scope_find(m->scope, expr->name.name)
                               : NULL;
    return expr_whole(expr, &number) ||
           (symbol && symbol->ok && !symbol->dims.count && elem_is_int(symbol->elem));
}

static bool says(const Expr *expr, bool value) {
    return expr->kind == EXPR_NAME && word_says(expr->name.name, value);
}

// Behind x, in the order of other languages: the rate, whether it trains. A seed may be there, too.
static Dropout dropout_given(const Meaning *m, const Given *given) {
    Dropout found = {0};
    for (uint32_t i = 0; i < given->keys->count; i++) {
        const KeyArg *key = &given->keys->at[i];
        if (words_have("p rate", key->key.name))
            found.rate = key->value;
        else if (!strcmp(key->key.name, "seed"))
            found.seed = key->value;
        else if (!strcmp(key->key.name, "training"))
            found.training = key->value;
        else
            found.strange = found.strange || strcmp(key->key.name, "inplace") != 0;
    }
    for (uint32_t i = 1; i < given->args->count; i++) {
        const Expr *arg = given->args->at[i];
        if (!found.rate)
            found.rate = arg;
        else if (!found.seed && is_seed(m, arg))
            found.seed = arg;
        else if (!found.training && (says(arg, true) || says(arg, false)))
            found.training = arg;
        else
            found.strange = true;
    }
    return found;
}

Meant meant_dropout(Meaning *m, const Given *given) {
    Dropout found = dropout_given(m, given);
    if (!given->args->count || !found.rate || found.strange)
        return (Meant){0};
    Meant of = meant(m, given->args->at[0]), rate = meant(m, found.rate), seed = {0};
    if (found.seed)
        seed = meant(m, found.seed);
    if (!of.text || !rate.text || (found.seed && !seed.text))
        return (Meant){0};
    bool off = found.training && says(found.training, false);
    if (!found.seed && !off)
        meant_remark(m, drops_nothing);
    const char *text =
        arena_printf(m->arena, "dropout(%s, rate=%s%s%s)", of.text, rate.text,
                     found.seed && !off ? ", seed=" : "", found.seed && !off ? seed.text : "");
    return meant_placed_as(text, HOLDS_ALL, &of);
}

// ---- conditions, bounds, extents

Meant meant_condition(Meaning *m, const Expr *expr) {
    Meant of = meant(m, expr);
    const Symbol *symbol = of.tensor ? scope_find(m->scope, of.tensor) : NULL;
    bool made = of.holds >= HOLDS_OR && of.holds <= HOLDS_COMPARISON;
    if (!of.text || made || !strncmp(of.text, "bool(", 5) || (symbol && symbol->elem == ELEM_BOOL))
        return of;
    return meant_placed_as(arena_printf(m->arena, "bool(%s)", of.text), HOLDS_ALL, &of);
}

Meant meant_fill(Meaning *m, const Given *given) {
    if (given->args->count != 3 || given->keys->count)
        return (Meant){0};
    Meant of = meant(m, given->args->at[0]), mask = meant_condition(m, given->args->at[1]);
    Meant value = meant(m, given->args->at[2]);
    return meant_where(m, &mask, &value, &of);
}

Meant meant_clip(Meaning *m, const Given *given) {
    const ExprList *args = given->args;
    const Expr *low = args->count > 1 ? args->at[1] : given_key(given, "min");
    const Expr *high = args->count > 2 ? args->at[2] : given_key(given, "max");
    Meant result = meant(m, args->at[0]);
    for (uint32_t i = 0; i < 2 && result.text; i++) {
        if (!(i ? high : low))
            continue;
        Meant all = result, bound = meant(m, i ? high : low);
        if (!bound.text || !meant_meet(m, &all, &bound))
            return (Meant){0};
        const char *text =
            arena_printf(m->arena, "%s(%s, %s)", i ? "min" : "max", result.text, bound.text);
        result = meant_placed_as(text, HOLDS_ALL, &all);
    }
    return low || high ? result : (Meant){0};
}

Meant meant_size(Meaning *m, const Given *given) {
    Meant of = meant(m, given->args->at[0]);
    bool has_place = given->args->count == 2;
    if (!has_place && of.text && !of.dims.count && names_dim(m, given->args->at[0]))
        return of; // a dim is its extent
    Name dim = !of.has_dims || of.moved || !of.dims.count ? NULL
               : has_place                                ? dim_given(&of, given->args->at[1])
                                                          : of.dims.at[0];
    return dim ? meant_with_dims(dim, HOLDS_ALL, (NameList){0}) : (Meant){0};
}
