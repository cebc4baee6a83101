// SPDX-License-Identifier: Apache-2.0
// The meaning of topk, sort and argsort with the arguments of other languages; see meant.h.
//
//     topk(X, k=3, dim=-1)             topk(X, m_top, dim=m)     with 'dim m_top = 3'
//     X.argsort(descending=True)       argsort(X, dim=m, order=descending)
#include "ast/resolve/meant/meant.h"

#include <string.h>

// `, order=descending`, if a keyword says so; NULL: there are others, which have no meaning here.
static const char *order_of(const Given *given) {
    const char *order = "";
    for (uint32_t i = 0; i < given->keys->count; i++) {
        Name key = given->keys->at[i].key.name;
        const Expr *value = given->keys->at[i].value;
        Name word = value->kind == EXPR_NAME ? value->name.name : "";
        bool says = words_have("descending order", key);
        if (says && (word_says(word, true) || !strcmp(word, "descending")))
            order = ", order=descending";
        else if (!says && !key_says_dim(key) && !words_have("k stable sorted", key))
            return NULL;
    }
    return order;
}

Meant meant_order(Meaning *m, Builtin builtin, const Given *given) {
    bool top = builtin == BUILTIN_TOPK;
    uint32_t n = given->args->count;
    Meant of = n ? meant(m, given->args->at[0]) : (Meant){0}, result = {.holds = HOLDS_ALL};
    const char *order = order_of(given), *kept = "";
    if (!of.text || !of.has_dims || of.moved || !of.dims.count || !order)
        return result;
    const Expr *second = n > 1 ? given->args->at[1] : given_key(given, "k");
    const Expr *where = given_where(given);
    if (!where && n > (top ? 2 : 1))
        where = top ? given->args->at[2] : second;
    Name dim = where ? dim_given(&of, where) : of.dims.at[of.dims.count - 1];
    if (!dim || (top && !second))
        return result;
    if (second && second != where && second->kind == EXPR_NAME) {
        kept = arena_printf(m->arena, ", %s", second->name.name);
    } else if (second && second != where) {
        Meant count = meant(m, second);
        if (!count.text)
            return result;
        Name fresh = meant_made(
            m, &(Made){.of = dim, .suffix = "top", .extent = count.text, .beside = true});
        if (!fresh)
            return result;
        kept = arena_printf(m->arena, ", %s", fresh);
    }
    result.text = arena_printf(m->arena, "%s(%s%s, dim=%s%s)", builtin_name(builtin), of.text, kept,
                               dim, top ? "" : order); // of topk always so
    result.pair = top;
    result.has_dims = !*kept;
    result.dims = of.dims;
    return result;
}
