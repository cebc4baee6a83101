// SPDX-License-Identifier: Apache-2.0
// The places at which other languages have the dims, where operands meet by these; see meant.h.
//
//     X[:, None] - X[None, :]          X - X[n']
//     S / S.sum(-1, keepdim=True)      S / sum(S, reduced_dim=m)
//     X.unsqueeze(0).expand(b, n, d)   X
#include "ast/resolve/meant/meant.h"

#include <string.h>

Meant meant_placed_as(const char *text, Holds holds, const Meant *as) {
    Meant result = meant_with_dims(text, holds, as->dims);
    result.product = as->product;
    result.has_dims = as->has_dims;
    result.moved = as->moved;
    result.paired = as->paired;
    result.turned = as->turned;
    result.places = as->places;
    return result;
}

bool meant_places(const Meant *of, NameList *out) {
    *out = of->moved ? of->places : of->dims;
    return of->has_dims && (!of->moved || of->places.count);
}

static void set_places(Meaning *m, Meant *of, NameList places) {
    of->dims = (NameList){0};
    for (uint32_t i = 0; i < places.count; i++)
        if (places.at[i])
            vec_push(m->arena, &of->dims, places.at[i]);
    of->moved = places.count > of->dims.count;
    of->places = places;
}

void meant_spread(Meaning *m, Meant *of, const NameList *places) {
    NameList own = {0};
    uint32_t next = 0, n_dims = 0;
    for (uint32_t i = 0; i < places->count; i++)
        n_dims += places->at[i] != NULL;
    for (uint32_t i = 0; i < places->count && n_dims == of->dims.count; i++)
        vec_push(m->arena, &own, places->at[i] ? of->dims.at[next++] : NULL);
    of->moved = true; // places that are not known if the dims are not as many
    of->places = own;
}

void meant_without(Meaning *m, Meant *of, const NameList *dims, const Expr *kept) {
    NameList places, left = {0};
    bool named = kept && kept->kind == EXPR_NAME;
    bool stays = named && word_says(kept->name.name, true);
    bool goes = !kept || (named && word_says(kept->name.name, false));
    bool known = meant_places(of, &places) && (stays || goes);
    for (uint32_t i = 0; i < places.count; i++) {
        bool reduced = places.at[i] && namelist_has(dims, places.at[i]);
        if (!reduced || stays)
            vec_push(m->arena, &left, reduced ? NULL : places.at[i]);
    }
    of->dims = dimlist_minus(m->arena, &of->dims, dims);
    if (known) {
        set_places(m, of, left);
        return;
    }
    of->moved = true;
    of->places = (NameList){0};
}

// ---- operands that meet

static Name place_from_end(const NameList *places, uint32_t back) {
    return back <= places->count ? places->at[places->count - back] : NULL;
}

// Another name for the dims that both have at other places: every position meets every other one.
static bool set_apart(Meaning *m, const Meant *all, const NameList *places, Meant *part,
                      NameList *own) {
    NameList apart = {0};
    for (uint32_t i = 1; i <= own->count; i++) {
        Name dim = place_from_end(own, i);
        if (dim && dim != place_from_end(places, i) && namelist_has(&all->dims, dim))
            vec_push(m->arena, &apart, dim);
    }
    for (uint32_t i = 0; i < apart.count; i++) {
        Name primed = meant_primed(m, apart.at[i], &all->dims, &part->dims);
        NameList dims = dimlist_replaced(m->arena, &part->dims, apart.at[i], primed);
        part->text = part->swapped ? NULL : meant_over(m, part, &dims);
        if (!part->text)
            return false;
        for (uint32_t k = 0; k < own->count; k++)
            own->at[k] = own->at[k] == apart.at[i] ? primed : own->at[k];
        part->dims = dims;
        part->paired = true;
    }
    return true;
}

// Whether one index of the other language would be two dims here: x + h @ W with h[d] and
// W[d, d'], which is over both.
static bool one_is_two(const Meaning *m, const NameList *a, const NameList *b, bool any) {
    for (uint32_t i = 1; i <= a->count && i <= b->count; i++) {
        Name one = place_from_end(a, i), other = place_from_end(b, i);
        if (one && other && one != other && (any || program_dims_alike(m->program, one, other)))
            return true;
    }
    return false;
}

// In the order of the one that has all of them, if there is one.
static NameList dims_of_both(Meaning *m, const Meant *a, const Meant *b) {
    NameList both = dimlist_union(m->arena, &a->dims, &b->dims);
    return both.count == b->dims.count && both.count > a->dims.count ? b->dims : both;
}

bool meant_meet(Meaning *m, Meant *all, Meant *part) {
    NameList places, own;
    bool moved = all->moved || part->moved, paired = all->paired || part->paired;
    bool known = meant_places(all, &places) && meant_places(part, &own);
    if (known && moved) {
        NameList copy = {0};
        own = dimlist_minus(m->arena, &own, &copy);
    }
    if (moved && !known && all->has_dims && part->has_dims &&
        dimlist_meets(&all->dims, &part->dims))
        return false;
    if (known && moved && !set_apart(m, all, &places, part, &own))
        return false;
    all->product = all->product || part->product;
    if (known && (moved || paired || all->product) && one_is_two(m, &places, &own, moved))
        return false;
    all->paired = paired || part->paired;
    all->has_dims = all->has_dims && part->has_dims;
    all->turned = all->turned || part->turned || part->paired;
    all->dims = dims_of_both(m, all, part);
    all->moved = moved;
    all->places = (NameList){0};
    if (known && moved) {
        NameList joint = {0};
        for (uint32_t i = places.count > own.count ? places.count : own.count; i > 0; i--) {
            Name one = place_from_end(&places, i), other = place_from_end(&own, i);
            vec_push(m->arena, &joint, one ? one : other);
        }
        set_places(m, all, joint);
    }
    return true;
}

// ---- places that are moved

Meant meant_argument(Meaning *m, const Given *given, bool squeezed) {
    Meant of = meant(m, given->args->at[0]);
    NameList places;
    bool known = !squeezed && meant_places(&of, &places);
    of.moved = true;
    of.places = known ? places : (NameList){0};
    return of;
}

// unsqueeze(x, 0): from the end of the result if it is negative.
Meant meant_unsqueezed(Meaning *m, const Given *given) {
    Meant of = meant(m, given->args->at[0]);
    const Expr *at = given->args->count > 1 ? given->args->at[1] : given_where(given);
    NameList places, spread = {0};
    int64_t first = 0;
    bool known = meant_places(&of, &places) && at && expr_whole(at, &first);
    first += first < 0 ? places.count + 1 : 0;
    known = known && first >= 0 && first <= places.count;
    for (uint32_t i = 0; i <= places.count && known; i++) {
        if (i == first)
            vec_push(m->arena, &spread, NULL);
        if (i < places.count)
            vec_push(m->arena, &spread, places.at[i]);
    }
    of.moved = true;
    of.places = spread;
    return of;
}

// expand(x, n, d), expand_as(x, y): the places before its own have one position.
Meant meant_repeated(Meaning *m, const Given *given) {
    Meant of = meant(m, given->args->at[0]), as = {0};
    uint32_t n = given->args->count - 1;
    const Expr *first = n == 1 ? given->args->at[1] : NULL;
    NameList places, like, spread = {0};
    if (first && given_list(first))
        n = first->args.count;
    else if (first)
        as = meant(m, first);
    if (as.text && meant_places(&as, &like) && like.count)
        n = like.count;
    bool known = meant_places(&of, &places) && n >= places.count;
    for (uint32_t i = 0; i < n && known; i++)
        vec_push(m->arena, &spread, i + places.count < n ? NULL : places.at[i + places.count - n]);
    of.moved = true;
    of.places = spread;
    return of;
}

// Two dims change places.
static Meant exchanged(Meaning *m, Meant of, Name a, Name b) {
    uint32_t n = of.dims.count, i = 0;
    while (of.dims.at[i] != a && of.dims.at[i] != b)
        i++;
    b = of.dims.at[i] == a ? b : a;
    a = of.dims.at[i];
    if (program_dims_alike(m->program, a, b)) {
        bool last = a == of.dims.at[n - 2] && b == of.dims.at[n - 1];
        Name tensor = last && !of.swapped ? of.tensor : NULL;
        const char *text = arena_printf(m->arena, "swap(%s, %s, %s)", of.text, a, b);
        of = meant_placed_as(text, HOLDS_ALL, &of);
        of.tensor = tensor;
        of.swapped = tensor != NULL;
        if (!tensor)
            return of;
    }
    NameList dims = {0};
    for (i = 0; i < n; i++)
        vec_push(m->arena, &dims, of.dims.at[i] == a ? b : of.dims.at[i] == b ? a : of.dims.at[i]);
    of.turned = !of.swapped;
    of.dims = dims;
    return of;
}

Meant meant_reordered(Meaning *m, Meant of, const NameList *order) {
    NameList apart = {0};
    for (uint32_t i = 0; i < order->count; i++)
        if (order->at[i] != of.dims.at[i])
            vec_push(m->arena, &apart, order->at[i]);
    if (apart.count == 2)
        return exchanged(m, of, apart.at[1], apart.at[0]);
    for (uint32_t i = 0; i < apart.count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (program_dims_alike(m->program, apart.at[i], apart.at[k]))
                return (Meant){0};
    of.turned = true;
    of.dims = *order;
    return of.swapped ? (Meant){0} : of;
}

// What the dims are called in the order that is asked for: all of them, or two that change places.
static bool read_order(Meaning *m, const Given *given, const Meant *of, NameList *order,
                       bool *all) {
    const Expr *const *args = (const Expr *const *)given->args->at + 1;
    const Expr *list = given_where(given);
    uint32_t n = given->args->count - 1;
    if (given->keys->count != (list != NULL) || (list && n))
        return false;
    list = n == 1 ? args[0] : list;
    if (list && !given_list(list))
        return false;
    args = list ? (const Expr *const *)list->args.at : args;
    n = list ? list->args.count : n;
    for (uint32_t i = 0; i < n; i++) {
        Name dim = dim_given(of, args[i]);
        if (!dim || namelist_has(order, dim))
            return false;
        vec_push(m->arena, order, dim);
    }
    *all = list || n > 2;
    return *all ? n == of->dims.count : n == 0 || n == 2;
}

// transpose(x, 0, 1), permute(x, 1, 0), permute(x, (1, 0)), x.T; of mT the last two dims.
Meant meant_transpose(Meaning *m, const Given *given, bool last) {
    Meant of = meant(m, given->args->at[0]);
    NameList order = {0};
    uint32_t n = of.dims.count;
    bool all;
    if (!of.text || !of.has_dims || of.moved || n < 2 || !read_order(m, given, &of, &order, &all))
        return (Meant){0};
    if (!order.count && (n == 2 || last))
        return exchanged(m, of, of.dims.at[n - 2], of.dims.at[n - 1]);
    if (order.count && !all)
        return exchanged(m, of, order.at[0], order.at[1]);
    return order.count ? meant_reordered(m, of, &order) : (Meant){0};
}
