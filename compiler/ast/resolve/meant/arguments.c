// SPDX-License-Identifier: Apache-2.0
// The meaning of functions that have their arguments in another order, or other ones; see meant.h.
//
//     masked_fill(S, mask, -inf)     where(mask, -inf, S)
//     clamp(X, min=0)                max(X, 0)
//     dropout(X, 0.1)                dropout(X, rate=0.1)
//     X.size(1)                      d
#include "ast/resolve/meant/meant.h"

#include <string.h>

Meant meant_dropout(Meaning *m, const Given *given) {
    const Expr *p = given->args->count == 2 ? given->args->at[1] : given_key(given, "p");
    if (!p || given->args->count + given->keys->count != 2)
        return (Meant){0};
    Meant of = meant(m, given->args->at[0]), rate = meant(m, p);
    if (!of.text || !rate.text)
        return (Meant){0};
    const char *text = arena_printf(m->arena, "dropout(%s, rate=%s)", of.text, rate.text);
    return meant_placed_as(text, HOLDS_ALL, &of);
}

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
    Name dim = !of.has_dims || of.moved || !of.dims.count ? NULL
               : has_place                                ? dim_given(&of, given->args->at[1])
                                                          : of.dims.at[0];
    return dim ? meant_with_dims(dim, HOLDS_ALL, (NameList){0}) : (Meant){0};
}
