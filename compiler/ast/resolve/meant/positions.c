// SPDX-License-Identifier: Apache-2.0
// The meaning of functions that take positions, or compare them; see meant.h.
//
//     X.index_select(0, ids)     gather(X, ids, dim=n)
//     flip(X, 0)                 gather(X, n - 1 - index(n), dim=n)
//     trace(S)                   sum(where(index(n) == index(m), S, 0), reduced_dim=(n, m))
#include "ast/resolve/meant/meant.h"

#include <string.h>

static bool starts_with(const char *text, const char *start) {
    return !strncmp(text, start, strlen(start));
}

// ---- gather(x, dim, ids), take(x, ids, axis)

typedef struct {
    const Expr *where, *ids; // NULL: not given
    bool by_name;            // the dim, as here
} GatherArguments;

static bool find_gather_arguments(Meaning *m, const char *name, const Given *given,
                                  GatherArguments *out) {
    const ExprList *args = given->args;
    bool dim_first = !starts_with(name, "take");
    for (uint32_t i = 0; i < given->keys->count; i++) {
        const char *key = given->keys->at[i].key.name;
        Expr *value = given->keys->at[i].value;
        if (key_says_dim(key))
            out->where = value;
        else if (words_have("index indices", key))
            out->ids = value;
        else
            return false;
    }
    uint32_t n_given = (out->where != NULL) + (out->ids != NULL);
    if (args->count + n_given != 3)
        return false;
    const Expr *first = args->count > 1 ? args->at[1] : NULL;
    const Expr *second = args->count > 2 ? args->at[2] : NULL;
    if (second) {
        out->where = dim_first ? first : second;
        out->ids = dim_first ? second : first;
    } else if (first) {
        *(out->where ? &out->ids : &out->where) = first;
    }
    out->by_name = names_dim(m, out->where);
    return true;
}

Meant meant_gathered(const Meant *of, Name dim, Meant result) {
    result.turned = of->turned || of->dims.at[0] != dim;
    return result;
}

// A dim that both have is one index here. In other languages it is so where positions stand beside
// each element of x; else every position meets every element.
static bool same_indices(const Meant *of, const Meant *ids, Name dim, bool beside) {
    for (uint32_t i = 0; i < ids->dims.count; i++) {
        Name own = ids->dims.at[i];
        if (beside ? of->dims.at[i] != dim && of->dims.at[i] != own
                   : own != dim && namelist_has(&of->dims, own))
            return false;
    }
    return true;
}

Meant meant_gather(Meaning *m, const char *name, const Given *given) {
    GatherArguments found = {0};
    if (given->args->count < 1 || !find_gather_arguments(m, name, given, &found))
        return (Meant){0};
    Meant of = meant(m, given->args->at[0]), ids = meant(m, found.ids);
    if (!of.text || !ids.text || !of.has_dims || !ids.has_dims || of.moved || ids.moved ||
        !ids.dims.count)
        return (Meant){0};
    Name dim = dim_given(&of, found.where);
    bool beside = ids.dims.count == of.dims.count && ids.dims.count > 1 &&
                  (!strcmp(name, "gather") || starts_with(name, "take_"));
    if (!dim || (!found.by_name && !same_indices(&of, &ids, dim, beside)))
        return (Meant){0};
    NameList dims = {0};
    for (uint32_t i = 0; i < of.dims.count; i++) {
        bool taken = of.dims.at[i] == dim;
        if (!taken)
            dimlist_add(m->arena, &dims, of.dims.at[i]);
        for (uint32_t k = 0; taken && k < ids.dims.count; k++)
            if (!beside || k == i)
                dimlist_add(m->arena, &dims, ids.dims.at[k]);
    }
    const char *text = arena_printf(m->arena, "gather(%s, %s, dim=%s)", of.text, ids.text, dim);
    return meant_gathered(&of, dim, meant_with_dims(text, HOLDS_ALL, dims));
}

// ---- trace(x), diagonal(x), eye(n)

Meant meant_diagonal(Meaning *m, const char *name, const Given *given) {
    Meant of = meant(m, given->args->at[0]);
    bool matrix = of.text && of.has_dims && !of.moved && of.dims.count == 2;
    if (!matrix || given->args->count > 1 || given->keys->count)
        return (Meant){0};
    Name n = of.dims.at[0], other = of.dims.at[1];
    bool all = !strcmp(name, "trace");
    NameList kept = {0};
    if (!all)
        vec_push(m->arena, &kept, n);
    const char *reduced = all ? arena_printf(m->arena, "(%s, %s)", n, other) : other;
    const char *text = arena_printf(m->arena,
                                    "sum(where(index(%s) == index(%s), %s, 0), "
                                    "reduced_dim=%s)",
                                    n, other, of.text, reduced);
    return meant_with_dims(text, HOLDS_ALL, kept);
}

Meant meant_eye(Meaning *m, const Given *given) {
    const Expr *dim = given->args->at[0];
    bool known = given->args->count == 1 && !given->keys->count && names_dim(m, dim);
    if (!known)
        return (Meant){0};
    NameList dims = {0}, none = {0};
    vec_push(m->arena, &dims, dim->name.name);
    Name other = meant_primed(m, dim->name.name, &dims, &none);
    vec_push(m->arena, &dims, other);
    return meant_with_dims(
        arena_printf(m->arena, "where(index(%s) == index(%s), 1.0, 0.0)", dim->name.name, other),
        HOLDS_ALL, dims);
}

// ---- flip(x, dim), roll(x, by, dim)

Meant meant_turned(Meaning *m, const Meant *of, Name dim) {
    const char *text =
        arena_printf(m->arena, "gather(%s, %s - 1 - index(%s), dim=%s)", of->text, dim, dim, dim);
    return meant_gathered(of, dim, meant_with_dims(text, HOLDS_ALL, of->dims));
}

Meant meant_moved(Meaning *m, const char *name, const Given *given) {
    bool rolls = !strcmp(name, "roll");
    const Expr *where = given_where(given);
    uint32_t n = given->args->count, place = rolls ? 2 : 1;
    Meant of = meant(m, given->args->at[0]);
    if (given->keys->count != (where != NULL) || n != place + !where || !of.text || !of.has_dims)
        return (Meant){0};
    Name dim = dim_given(&of, where ? where : given->args->at[place]);
    Meant by = rolls ? meant(m, given->args->at[1]) : (Meant){.text = ""};
    if (!dim || !by.text || by.dims.count)
        return (Meant){0};
    if (!rolls)
        return meant_turned(m, &of, dim);
    const char *by_text = meant_within(m, &by, HOLDS_PRODUCT);
    const char *text = arena_printf(m->arena, "gather(%s, (index(%s) - %s) %% %s, dim=%s)", of.text,
                                    dim, by_text, dim, dim);
    return meant_gathered(&of, dim, meant_with_dims(text, HOLDS_ALL, of.dims));
}

// ---- tril(x), arange(n)

Meant meant_mask(Meaning *m, const Given *given, const char *comparison) {
    Meant of = meant(m, given->args->at[0]);
    uint32_t n = of.dims.count;
    if (!of.text || !of.has_dims || of.moved || n < 2 || given->args->count != 1)
        return (Meant){0};
    const char *text = arena_printf(m->arena, "where(index(%s) %s index(%s), %s, 0)",
                                    of.dims.at[n - 1], comparison, of.dims.at[n - 2], of.text);
    return meant_placed_as(text, HOLDS_ALL, &of);
}

// one_hot(ids, 5)
Meant meant_one_hot(Meaning *m, const Given *given) {
    if (given->args->count != 2 || given->keys->count)
        return (Meant){0};
    Meant ids = meant(m, given->args->at[0]), count = meant(m, given->args->at[1]);
    const Expr *dim = given->args->at[1];
    bool named = names_dim(m, dim);
    if (!ids.text || !count.text || (dim->kind == EXPR_NAME && !named))
        return (Meant){0};
    Name ids_name = names_find(m->scope->resolver->session->names, "ids");
    Made made = {.of = ids_name, .suffix = "hot", .extent = count.text, .beside = true};
    Name over = named ? dim->name.name : meant_made(m, &made);
    if (!over)
        return (Meant){0};
    NameList dims = ids.dims;
    dimlist_add(m->arena, &dims, over);
    Meant result =
        meant_with_dims(arena_printf(m->arena, "one_hot(%s, %s)", ids.text, over), HOLDS_ALL, dims);
    result.has_dims = ids.has_dims;
    return result;
}

Meant meant_range(Meaning *m, const Given *given) {
    const Expr *dim = given->args->at[0];
    bool known = given->args->count == 1 && names_dim(m, dim);
    NameList dims = {0};
    if (!known)
        return (Meant){0};
    vec_push(m->arena, &dims, dim->name.name);
    return meant_with_dims(arena_printf(m->arena, "index(%s)", dim->name.name), HOLDS_ALL, dims);
}
