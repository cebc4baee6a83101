// SPDX-License-Identifier: Apache-2.0
// The meaning of brackets behind a tensor; see meant.h.
//
//     X[:, 0:3] * 2       slice(X, d, 0, 3 -> [n, d_part]) * 2
//     X[::2]              gather(X, 2 * index(n_step), dim=n), with `dim n_step = (n + 1) // 2`
//     X[ids, :]           gather(X, ids, dim=n)
//     X.shape[1]          d
#include "ast/resolve/meant/meant.h"

#include <string.h>

static bool is_none_name(Name name) {
    return words_have("None newaxis", name);
}

static bool is_none(const Expr *expr) {
    return expr->kind == EXPR_NAME && is_none_name(expr->name.name);
}

// A dim that is cut, and what is taken of it.
typedef struct {
    Name dim;
    enum { CUT_PART, CUT_STEP, CUT_TURN, CUT_TAKE } kind;
    const char *from, *to; // of a part; of TAKE: the positions
    NameList over;         // of TAKE: their dims
    int64_t first, step;
    const char *count;  // of the positions of a step
    const char *shared; // that, where other steps have as many
    int64_t known;      // how many positions, 0: not known
} Cut;

typedef struct {
    Meaning *m;
    const Meant *of;
    uint32_t place; // next dim of it
    Text brackets;  // of the tensor, with the positions that are taken
    bool takes;     // a position
    VEC(Cut) cuts;
    NameList left;   // dims of the result
    NameList places; // and where they are
    bool fine;
} Taken;

static void take_keep(Taken *t, Name dim) {
    text_printf(&t->brackets, "%s%s", t->brackets.length ? ", " : "", dim);
    vec_push(t->m->arena, &t->left, dim);
    vec_push(t->m->arena, &t->places, dim);
}

// X[3:1], X[-1:-3], X[:0]
static bool is_empty(const Expr *from, const Expr *to) {
    int64_t a = 0, b;
    bool known = expr_is_foreign(from, FOREIGN_NOTHING) || expr_whole(from, &a);
    return known && expr_whole(to, &b) && (a < 0) == (b < 0) && a >= b;
}

// Where a part begins, or where it ends; -1: not known.
static int64_t known_bound(const Meaning *m, const Expr *bound, Name dim, bool end) {
    int64_t number, extent = meant_extent(m, dim);
    if (expr_is_foreign(bound, FOREIGN_NOTHING))
        return !end ? 0 : extent ? extent : -1;
    if (!expr_whole(bound, &number))
        return -1;
    return number >= 0 ? number : extent ? extent + number : -1;
}

static int64_t known_count(const Meaning *m, const Expr *from, const Expr *to, Name dim,
                           int64_t step) {
    int64_t first = known_bound(m, from, dim, false), end = known_bound(m, to, dim, true);
    return first < 0 || end <= first ? 0 : (end - first + step - 1) / step;
}

// A bound, or NOTHING for one beyond its end of the dim, where other languages cut it.
static const Expr *cut_bound(Taken *t, const Expr *bound, Name dim, bool end) {
    static const Expr nothing = {.kind = EXPR_FOREIGN, .foreign = FOREIGN_NOTHING};
    int64_t at, extent = meant_extent(t->m, dim);
    if (!extent || !expr_whole(bound, &at))
        return bound;
    t->fine = t->fine && (end ? at > -extent : at < extent); // some positions are left
    if (end ? at < extent : at > -extent)
        return bound;
    if ((end ? at > extent : at < -extent) && !t->m->remark)
        t->m->remark = arena_printf(t->m->arena, "'%s' has %lld position%s", dim, (long long)extent,
                                    extent == 1 ? "" : "s");
    return &nothing;
}

static void take_slice(Taken *t, const Expr *slice, Name dim) {
    const Expr *from = cut_bound(t, slice->args.at[0], dim, false);
    const Expr *to = cut_bound(t, slice->args.at[1], dim, true);
    int64_t first;
    bool begins =
        expr_is_foreign(from, FOREIGN_NOTHING) || (expr_whole(from, &first) && first == 0);
    bool ends =
        expr_is_foreign(to, FOREIGN_NOTHING) || (to->kind == EXPR_NAME && to->name.name == dim);
    take_keep(t, dim);
    if (begins && ends)
        return;
    Cut cut = {.dim = dim,
               .known = known_count(t->m, from, to, dim, 1),
               .from = begins ? "0" : meant_number(t->m, from, dim),
               .to = ends ? dim : meant_number(t->m, to, dim)};
    t->fine = t->fine && cut.from && cut.to && !is_empty(from, to);
    vec_push(t->m->arena, &t->cuts, cut);
}

// How many positions there are from `from` to `to`, by `step`; NULL: none, or it cannot be told.
static const char *step_count(Taken *t, int64_t from, const Expr *to, Name dim, int64_t step) {
    int64_t ahead = step - 1 - from, last;
    if (expr_whole(to, &last) && last >= 0) {
        int64_t count = (last + ahead) / step;
        return count > 0 ? arena_printf(t->m->arena, "%lld", (long long)count) : NULL;
    }
    const char *end = expr_is_foreign(to, FOREIGN_NOTHING) ? dim : meant_number(t->m, to, dim);
    if (!end || !ahead)
        return end ? arena_printf(t->m->arena, end == dim ? "%s // %lld" : "(%s) // %lld", end,
                                  (long long)step)
                   : NULL;
    return arena_printf(t->m->arena, "(%s %c %lld) // %lld", end, ahead < 0 ? '-' : '+',
                        (long long)(ahead < 0 ? -ahead : ahead), (long long)step);
}

// X[::2], X[1::2], X[::-1]
static void take_step(Taken *t, const Expr *form, Name dim) {
    const Expr *slice = form->args.at[0], *step = form->args.at[1];
    const Expr *from = cut_bound(t, slice->args.at[0], dim, false);
    const Expr *to = cut_bound(t, slice->args.at[1], dim, true);
    bool begins = expr_is_foreign(from, FOREIGN_NOTHING),
         ends = expr_is_foreign(to, FOREIGN_NOTHING);
    int64_t first = 0, by = 0;
    bool fine = expr_whole(step, &by) && (begins || expr_whole(from, &first)) && first >= 0;
    take_keep(t, dim);
    if (by < 0) {
        t->fine = fine && by == -1 && begins && ends;
        vec_push(t->m->arena, &t->cuts, ((Cut){.dim = dim, .kind = CUT_TURN}));
        return;
    }
    Cut cut = {.dim = dim, .kind = CUT_STEP, .first = first, .step = by};
    if (fine && by > 1) {
        cut.count = step_count(t, cut.first, to, dim, cut.step);
        cut.known = known_count(t->m, from, to, dim, cut.step);
        if (expr_is_foreign(to, FOREIGN_NOTHING) && cut.first < cut.step)
            cut.shared = arena_printf(t->m->arena, "%s / %lld", dim, (long long)cut.step);
    }
    t->fine = t->fine && cut.count;
    vec_push(t->m->arena, &t->cuts, cut);
}

// X[ids, :]: of one tensor, since several are read in pairs in other languages, and without a dim
// that x has too, which would be one index with that.
static bool take_ids(Taken *t, const Expr *item, const Meant *ids, Name dim) {
    const Symbol *symbol = expr_is_tensor(item) ? scope_find(t->m->scope, item->name.name) : NULL;
    if (!symbol || !elem_is_int(symbol->elem) || !ids->text || !ids->has_dims || !ids->dims.count)
        return false;
    for (uint32_t i = 0; i < ids->dims.count; i++) {
        Name own = ids->dims.at[i];
        t->fine = t->fine && (own == dim || !namelist_has(&t->of->dims, own));
    }
    for (uint32_t i = 0; i < t->cuts.count; i++)
        t->fine = t->fine && t->cuts.at[i].kind != CUT_TAKE;
    take_keep(t, dim);
    vec_push(t->m->arena, &t->cuts,
             ((Cut){.dim = dim, .kind = CUT_TAKE, .from = ids->text, .over = ids->dims}));
    return true;
}

static void take_item(Taken *t, const Expr *item, uint32_t n_items) {
    const NameList *dims = &t->of->dims;
    if (is_none(item)) {
        vec_push(t->m->arena, &t->places, NULL);
        return;
    }
    if (expr_is_foreign(item, FOREIGN_DOTS)) {
        for (uint32_t n = n_items - 1; n < dims->count && t->place < dims->count; n++)
            take_keep(t, dims->at[t->place++]);
        return;
    }
    Name dim = t->place < dims->count ? dims->at[t->place++] : NULL;
    t->fine = t->fine && dim;
    if (!t->fine)
        return;
    if (expr_is_foreign(item, FOREIGN_SLICE)) {
        take_slice(t, item, dim);
    } else if (expr_is_foreign(item, FOREIGN_STEP)) {
        take_step(t, item, dim);
    } else if (item->kind == EXPR_NAME && item->name.name == dim) {
        take_keep(t, dim);
    } else {
        Meant value = meant(t->m, expr_unsigned(item));
        if (take_ids(t, item, &value, dim))
            return;
        const char *text = meant_position(t->m, item, &value, dim);
        t->fine = text && value.has_dims && !value.dims.count;
        text_printf(&t->brackets, "%s%s", t->brackets.length ? ", " : "", text);
        t->takes = true;
    }
}

Meant meant_part(Meaning *m, const Meant *of, Name dim, const char *from, const char *to,
                 const char *suffix, int64_t known) {
    const char *open = arena_printf(m->arena, "slice(%s, %s, %s, %s", of->text, dim, from, to);
    const char *extent = arena_printf(m->arena, "%s - %s", to, from);
    Name part =
        meant_made(m, &(Made){.of = dim, .suffix = suffix, .extent = extent, .known = known});
    NameList dims = dimlist_replaced(m->arena, &of->dims, dim, part);
    Meant result = meant_with_dims(
        arena_printf(m->arena, "%s -> %s)", open, dimlist_text(m->arena, &dims)), HOLDS_ALL, dims);
    result.open = arena_printf(m->arena, "%s)", open);
    result.fresh = part;
    return result;
}

static Meant take_text(Meaning *m, const Meant *of, const Cut *cut) {
    NameList dims = {0};
    for (uint32_t i = 0; i < of->dims.count; i++) {
        if (of->dims.at[i] != cut->dim)
            vec_push(m->arena, &dims, of->dims.at[i]);
        for (uint32_t k = 0; of->dims.at[i] == cut->dim && k < cut->over.count; k++)
            vec_push(m->arena, &dims, cut->over.at[k]);
    }
    return meant_gathered(of, cut->dim,
                          meant_with_dims(arena_printf(m->arena, "gather(%s, %s, dim=%s)", of->text,
                                                       cut->from, cut->dim),
                                          HOLDS_ALL, dims));
}

static Meant gather_text(Meaning *m, const Meant *of, const Cut *cut) {
    if (cut->kind == CUT_TURN)
        return meant_turned(m, of, cut->dim);
    if (cut->kind == CUT_TAKE)
        return take_text(m, of, cut);
    Name some = meant_made(m, &(Made){.of = cut->dim,
                                      .suffix = "step",
                                      .extent = cut->count,
                                      .shared = cut->shared,
                                      .known = cut->known,
                                      .beside = true});
    if (!some)
        return (Meant){0};
    const char *first = cut->first ? arena_printf(m->arena, "%lld + ", (long long)cut->first) : "";
    const char *text = arena_printf(m->arena, "gather(%s, %s%lld * index(%s), dim=%s)", of->text,
                                    first, (long long)cut->step, some, cut->dim);
    return meant_gathered(
        of, cut->dim,
        meant_with_dims(text, HOLDS_ALL, dimlist_replaced(m->arena, &of->dims, cut->dim, some)));
}

static Meant cut_text(Meaning *m, Taken *t) {
    const char *base = t->takes ? arena_printf(m->arena, "%s[%s]", t->of->tensor, t->brackets.at)
                                : meant_within(m, t->of, HOLDS_ALL);
    Meant result = meant_with_dims(base, HOLDS_ALL, t->left);
    result.tensor = t->takes ? NULL : t->of->tensor;
    for (uint32_t i = 0; i < t->cuts.count && result.text; i++) {
        const Cut *cut = &t->cuts.at[i];
        result = cut->kind == CUT_PART
                     ? meant_part(m, &result, cut->dim, cut->from, cut->to, "part", cut->known)
                     : gather_text(m, &result, cut);
    }
    if (t->places.count > t->left.count)
        meant_spread(m, &result, &t->places);
    return result;
}

static bool is_colon(const Expr *item) {
    return expr_is_foreign(item, FOREIGN_SLICE) &&
           expr_is_foreign(item->args.at[0], FOREIGN_NOTHING) &&
           expr_is_foreign(item->args.at[1], FOREIGN_NOTHING);
}

// X[:, None]: all positions, at other places.
static bool are_whole(const Expr *const *items, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (!is_colon(items[i]) && !is_none(items[i]))
            return false;
    return true;
}

static Meant items_of(Meaning *m, const Meant *of, const Expr *const *items, uint32_t n) {
    bool known = of->text && of->has_dims && !of->moved && !of->swapped;
    if (!known || (!of->tensor && !are_whole(items, n)))
        return (Meant){0};
    Taken t = {.m = m, .of = of, .brackets = {.arena = m->arena}, .fine = true};
    uint32_t n_real = 0;
    for (uint32_t i = 0; i < n; i++)
        n_real += !is_none(items[i]);
    for (uint32_t i = 0; i < n && t.fine; i++)
        take_item(&t, items[i], n_real);
    while (t.fine && t.place < of->dims.count)
        take_keep(&t, of->dims.at[t.place++]);
    return t.fine ? cut_text(m, &t) : (Meant){0};
}

// The number of a position, also of none that is known; NULL: it is none.
static const char *position_text(Meaning *m, const Expr *item, Name dim, bool unknown) {
    if (is_colon(item))
        return dim;
    if (unknown)
        return item->name.name;
    Meant value = meant(m, expr_unsigned(item));
    return value.has_dims && !value.dims.count ? meant_position(m, item, &value, dim) : NULL;
}

const char *meant_unknown_place(Meaning *m, const Expr *expr) {
    Meant of = {0};
    if (expr_is_foreign(expr, FOREIGN_ITEMS))
        of = meant(m, expr->args.at[0]);
    for (uint32_t i = 1; expr_is_foreign(expr, FOREIGN_ITEMS) && i < expr->args.count; i++)
        if (is_none(expr->args.at[i]))
            return "a tensor meets others by the names of its dims: of x[n], 'x - x[n']' has every "
                   "pair of positions";
    if (!of.tensor || !of.has_dims || of.moved || of.swapped ||
        expr->args.count > of.dims.count + 1)
        return NULL;
    Text text = {.arena = m->arena};
    Name unknown = NULL, dim = NULL;
    for (uint32_t i = 0; i < of.dims.count; i++) {
        Name own = of.dims.at[i];
        const Expr *item = i + 1 < expr->args.count ? expr->args.at[i + 1] : NULL;
        bool open = item && item->kind == EXPR_NAME && !meant_name(m, item).text && !is_none(item);
        const char *place = item ? position_text(m, item, own, open) : own;
        if (!place || (open && unknown))
            return NULL;
        unknown = open ? item->name.name : unknown;
        dim = open ? own : dim;
        text_printf(&text, "%s%s", i ? ", " : "", place);
    }
    return unknown
               ? arena_printf(m->arena,
                              "nothing is named '%s': where it is a number, '%s[%s]' is one "
                              "position; 'gather(%s, %s, dim=%s)' takes those that a tensor says",
                              unknown, of.tensor, text.at, of.tensor, unknown, dim)
               : NULL;
}

// X.max(dim=-1)[0], X.chunk(2, dim=-1)[1]: one of several values. false: it is no such form.
static bool meant_piece(Meaning *m, const Expr *call, const Expr *items, Meant *out) {
    int64_t which, n;
    if (!expr_is_foreign(call, FOREIGN_METHOD) || items->args.count != 2 ||
        !expr_whole(items->args.at[1], &which) || which < 0)
        return false;
    Given given = {&call->args, &call->keys};
    uint32_t own = meant_is_module(m, call->args.at[0]) ? 2 : 1; // up to the tensor
    const Expr *count = call->args.count > own ? call->args.at[own] : NULL;
    bool chunk = !strcmp(call->name.name, "chunk") && count && expr_whole(count, &n) && which < n;
    // With `axis` it is the first position of one value.
    bool pair = which < 2 && words_have("max min sort", call->name.name) &&
                (count || given_key(&given, "dim"));
    if (chunk || pair)
        *out = meant_of_several(m, call, (uint32_t)which, pair ? 2 : (uint32_t)n);
    return chunk || pair;
}

// X.shape[1]
static Meant meant_shape_item(Meaning *m, const Expr *of, const Expr *item) {
    Meant tensor = meant(m, of);
    Name dim = tensor.has_dims ? dim_at(&tensor, item) : NULL;
    return dim ? meant_with_dims(dim, HOLDS_ALL, (NameList){0}) : (Meant){0};
}

Meant meant_items(Meaning *m, const Expr *expr) {
    const Expr *of = expr->args.at[0];
    if (expr_is_foreign(of, FOREIGN_MEMBER) && !strcmp(of->name.name, "shape"))
        return expr->args.count == 2 ? meant_shape_item(m, of->args.at[0], expr->args.at[1])
                                     : (Meant){0};
    Meant tensor;
    if (meant_piece(m, of, expr, &tensor))
        return tensor;
    tensor = meant(m, of);
    return items_of(m, &tensor, (const Expr *const *)expr->args.at + 1, expr->args.count - 1);
}

// A reference of the language itself, or X[-1] and X[ids], which are short of dims.
Meant meant_reference(Meaning *m, const Expr *ref) {
    Expr name = {.kind = EXPR_NAME, .name = ref->name};
    Meant tensor = meant_name(m, &name);
    bool is_short = tensor.has_dims && ref->dims.count && ref->dims.count < tensor.dims.count;
    for (uint32_t i = 0; i < ref->dims.count; i++)
        is_short = is_short || is_none_name(ref->dims.at[i].name);
    if (!ref->args.count && !is_short) {
        NameList dims = dimlist_of(m->arena, &ref->dims);
        if (!tensor.text && name_is_same(ref->name.name))
            return meant_with_dims(
                arena_printf(m->arena, "%s%s", ref->name.name, dimlist_text(m->arena, &dims)),
                HOLDS_ALL, dims);
        tensor.text = arena_printf(m->arena, "%s%s", ref->name.name, dimlist_text(m->arena, &dims));
        tensor.has_dims = tensor.has_dims && dims.count == tensor.dims.count;
        tensor.dims = steps_left(m->arena, &ref->dims, &ref->steps);
        tensor.tensor = tensor.has_dims ? ref->name.name : NULL;
        return tensor;
    }
    enum { MOST_PLACES = 16 };
    const Expr *items[MOST_PLACES];
    uint32_t n = ref->dims.count + ref->args.count, position = 0;
    if (n > MOST_PLACES)
        return (Meant){0};
    for (uint32_t i = 0; i < n; i++) {
        bool number = position < ref->args.count && ref->places.at[position] == i;
        Expr *item = number ? ref->args.at[position++] : arena_new_of(m->arena, Expr);
        if (!number) {
            item->kind = EXPR_NAME;
            item->name = ref->dims.at[i - position];
        }
        items[i] = item;
    }
    return items_of(m, &tensor, items, n);
}
