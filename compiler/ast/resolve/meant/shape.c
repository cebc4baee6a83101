// SPDX-License-Identifier: Apache-2.0
// The meaning of functions that regroup positions, and of those that make constants; see meant.h.
//
//     X.view(n, h, k), X.view(-1, h, k)    split(X, d -> h k)
//     X.view(n, 4, 16)                     split(X, d -> d_part d_part2), with two dims declared
//     X.reshape(n, -1)                     merge(X, h k -> h_all)
//     rearrange(X, "n (h k) -> n h k")     split(X, d -> h k)
//     cat([X, Y], dim=1)                   concat(X, Y, dim=d_all -> [n, d_all])
//     torch.zeros(n, d)                    zeros[n, d]
#include "ast/resolve/meant/meant.h"

#include <string.h>

static const char *dims_words(const Meaning *m, const NameList *dims) {
    Text text = {.arena = m->arena};
    for (uint32_t i = 0; i < dims->count; i++)
        text_printf(&text, "%s%s", i ? " " : "", dims->at[i]);
    return text.at;
}

// One dim as several, or several as one.
static Meant regrouped(Meaning *m, const Meant *of, const NameList *from, const NameList *into,
                       NameList dims) {
    const char *function = from->count == 1 ? "split" : "merge";
    for (uint32_t i = 0; i < into->count && from->count == 1; i++)
        if (namelist_has(&of->dims, into->at[i])) // which is another dim here
            return (Meant){0};
    const char *text = arena_printf(m->arena, "%s(%s, %s -> %s)", function, of->text,
                                    dims_words(m, from), dims_words(m, into));
    Meant result = meant_with_dims(text, HOLDS_ALL, dims);
    result.turned = of->turned || from->count > 1;
    return result;
}

// ---- view(x, n, h, k)

// A name that nothing has yet, which a regrouping may give to a dim.
static bool is_free(const Meaning *m, const Expr *expr) {
    return expr->kind == EXPR_NAME && !scope_find(m->scope, expr->name.name);
}

// b * n
static bool is_product_of_dims(Meaning *m, const Expr *expr, NameList *out) {
    if (expr->kind == EXPR_BINARY && expr->oper == OPER_MUL)
        return is_product_of_dims(m, expr->args.at[0], out) &&
               is_product_of_dims(m, expr->args.at[1], out);
    Meant extent = meant(m, expr);
    Name dim = extent.text ? names_find(m->scope->resolver->session->names, extent.text) : NULL;
    if (!dim || !scope_knows_dim(m->scope, dim) || namelist_has(out, dim))
        return false;
    vec_push(m->arena, out, dim);
    return true;
}

static bool is_times(const Expr *expr) {
    return expr->kind == EXPR_BINARY && expr->oper == OPER_MUL;
}

// The dims that are asked for; NULL stands for -1, a number and a product of dims.
static bool view_dims(Meaning *m, const Expr *const *args, uint32_t n, NameList *out) {
    for (uint32_t i = 0; i < n; i++) {
        const Expr *arg = args[i];
        NameList factors = {0};
        bool open = expr_unsigned(arg) != arg || expr_is_count(arg) ||
                    (is_times(arg) && is_product_of_dims(m, arg, &factors));
        Meant extent = open ? (Meant){0} : meant(m, arg); // n, X.shape[0]
        Name named =
            extent.text ? names_find(m->scope->resolver->session->names, extent.text) : NULL;
        if (!open && !(named && scope_knows_dim(m->scope, named)))
            named = is_free(m, arg) ? arg->name.name : NULL;
        if (named ? namelist_has(out, named) : !open)
            return false;
        vec_push(m->arena, out, named);
    }
    return n > 0;
}

static NameList part_of(Meaning *m, const NameList *list, uint32_t from, uint32_t to) {
    NameList part = {0};
    for (uint32_t i = from; i < to; i++)
        vec_push(m->arena, &part, list->at[i]);
    return part;
}

// A dim that is split, or several that are merged, between dims that stay.
static bool find_regrouped(Meaning *m, const NameList *have, const NameList *wanted, NameList *from,
                           NameList *into, uint32_t *first) {
    uint32_t n = wanted->count, last = 0;
    *first = 0;
    while (*first < have->count && *first < n && have->at[*first] == wanted->at[*first])
        ++*first;
    while (*first + last < have->count && *first + last < n &&
           have->at[have->count - 1 - last] == wanted->at[n - 1 - last])
        last++;
    *from = part_of(m, have, *first, have->count - last);
    *into = part_of(m, wanted, *first, n - last);
    return (from->count == 1 && into->count > 1) || (from->count > 1 && into->count == 1);
}

// Whether numbers alone make the extent of the dim, as far as it is known.
static bool is_product(Meaning *m, Name dim, const Expr *const *parts, uint32_t n) {
    int64_t extent = program_extent(m->scope->resolver->session, m->program, dim);
    double product = 1;
    for (uint32_t i = 0; i < n; i++) {
        if (!expr_is_count(parts[i]))
            return !is_times(parts[i]);
        product *= parts[i]->number;
    }
    return extent < 0 || product == (double)extent;
}

// -1 or a number at either end as the dim that is there: view(-1, h, k) of [n, d] is
// view(n, h, k).
static bool keep_open_end(Meaning *m, const NameList *have, const Expr *const *args,
                          NameList *wanted) {
    uint32_t last = wanted->count - 1;
    bool at_first = !wanted->at[0] && !is_times(args[0]);
    if (!have->count || (!at_first && (wanted->at[last] || is_times(args[last]))))
        return false;
    uint32_t end = at_first ? 0 : last;
    wanted->at[end] = have->at[at_first ? 0 : have->count - 1];
    return is_product(m, wanted->at[end], args + end, 1);
}

// Names for what -1 and numbers stand for; the numbers are declared.
static void name_parts(Meaning *m, Name of, const Expr *const *parts, NameList *into) {
    uint32_t named = 0;
    for (uint32_t i = 0; i < into->count; i++) {
        if (into->at[i])
            continue;
        const char *suffix = named++ ? arena_printf(m->arena, "part%u", named) : "part";
        bool counted = expr_is_count(parts[i]);
        Made made = {.of = of, .suffix = suffix, .extent = "", .beside = counted};
        if (counted) {
            made.known = (int64_t)parts[i]->number;
            made.extent = arena_printf(m->arena, "%lld", (long long)made.known);
        }
        into->at[i] = meant_made(m, &made);
    }
}

// Whether the dims stay as they are, where -1 and a number stand for one of them.
static bool is_same(Meaning *m, const NameList *have, const Expr *const *args,
                    const NameList *wanted) {
    bool same = have->count == wanted->count;
    for (uint32_t i = 0; i < wanted->count && same; i++)
        same =
            wanted->at[i] ? wanted->at[i] == have->at[i] : is_product(m, have->at[i], args + i, 1);
    return same;
}

static Meant view_of(Meaning *m, const Meant *of, const Expr *const *args, uint32_t n) {
    NameList wanted = {0}, from, into;
    uint32_t first;
    if (!view_dims(m, args, n, &wanted))
        return (Meant){0};
    if (is_same(m, &of->dims, args, &wanted))
        return *of;
    if (!find_regrouped(m, &of->dims, &wanted, &from, &into, &first) &&
        !(keep_open_end(m, &of->dims, args, &wanted) &&
          find_regrouped(m, &of->dims, &wanted, &from, &into, &first)))
        return (Meant){0};
    bool splits = from.count == 1;
    NameList factors = {0};
    if (splits && !is_product(m, from.at[0], args + first, into.count))
        return (Meant){0};
    if (!splits && is_times(args[first]) &&
        !(is_product_of_dims(m, args[first], &factors) && dimlist_equal(&factors, &from)))
        return (Meant){0};
    if (splits)
        name_parts(m, from.at[0], args + first, &into);
    else if (!into.at[0])
        into.at[0] = meant_fresh(m, from.at[0], "all");
    for (uint32_t i = 0; i < into.count; i++)
        wanted.at[first + i] = into.at[i];
    return regrouped(m, of, &from, &into, wanted);
}

// A place of one position is none here: view(g, -1, 1) is g.
Meant meant_view(Meaning *m, const Expr *x, const Expr *const *args, uint32_t n) {
    Meant of = meant(m, x);
    NameList places = {0}; // any name where there are more positions
    VEC(const Expr *) others = {0};
    if (n == 1 && given_list(args[0])) {
        n = args[0]->args.count;
        args = (const Expr *const *)args[0]->args.at;
    }
    for (uint32_t i = 0; i < n; i++) {
        bool one = expr_is_count(args[i]) && args[i]->number == 1;
        vec_push(m->arena, &places, one ? NULL : "");
        if (!one)
            vec_push(m->arena, &others, args[i]);
    }
    if (!of.text || !of.has_dims || of.moved || !others.count)
        return (Meant){0};
    Meant result = view_of(m, &of, others.at, others.count);
    if (others.count < n)
        meant_spread(m, &result, &places);
    return result;
}

// ---- flatten(x), flatten(x, 1), unflatten(x, 1, (h, k))

// The places of the first and the last one of the dims, as other languages say them.
static bool flat_places(const Given *given, uint32_t n_dims, uint32_t *first, uint32_t *last) {
    static const char *const keys[] = {"start_dim", "end_dim"};
    int64_t found[] = {0, (int64_t)n_dims - 1};
    for (uint32_t i = 0; i < 2; i++) {
        const Expr *at =
            given->args->count > i + 1 ? given->args->at[i + 1] : given_key(given, keys[i]);
        if (at && !expr_whole(at, &found[i]))
            return false;
        found[i] += found[i] < 0 ? n_dims : 0;
    }
    if (found[0] < 0 || found[0] >= found[1] || found[1] >= n_dims)
        return false;
    *first = (uint32_t)found[0];
    *last = (uint32_t)found[1];
    return true;
}

Meant meant_flatten(Meaning *m, const Given *given) {
    Meant of = meant(m, given->args->at[0]);
    uint32_t first, last;
    if (!of.text || !of.has_dims || of.moved || !flat_places(given, of.dims.count, &first, &last))
        return (Meant){0};
    NameList from = part_of(m, &of.dims, first, last + 1), into = {0};
    NameList dims = part_of(m, &of.dims, 0, first);
    vec_push(m->arena, &into, meant_fresh(m, from.at[0], "all"));
    vec_push(m->arena, &dims, into.at[0]);
    for (uint32_t i = last + 1; i < of.dims.count; i++)
        vec_push(m->arena, &dims, of.dims.at[i]);
    return regrouped(m, &of, &from, &into, dims);
}

Meant meant_unflatten(Meaning *m, const Given *given) {
    const ExprList *args = given->args;
    bool fine = args->count == 3 && !given->keys->count && given_list(args->at[2]);
    Meant of = fine ? meant(m, args->at[0]) : (Meant){0};
    Name dim = of.text && of.has_dims && !of.moved ? dim_given(&of, args->at[1]) : NULL;
    NameList from = {0}, into = {0}, dims = {0};
    const Expr *const *parts = fine ? (const Expr *const *)args->at[2]->args.at : NULL;
    uint32_t n = fine ? args->at[2]->args.count : 0;
    if (!dim || !view_dims(m, parts, n, &into) || !is_product(m, dim, parts, n))
        return (Meant){0};
    name_parts(m, dim, parts, &into);
    vec_push(m->arena, &from, dim);
    for (uint32_t i = 0; i < of.dims.count; i++) {
        if (of.dims.at[i] != dim)
            vec_push(m->arena, &dims, of.dims.at[i]);
        for (uint32_t k = 0; of.dims.at[i] == dim && k < into.count; k++)
            vec_push(m->arena, &dims, into.at[k]);
    }
    return into.count > 1 ? regrouped(m, &of, &from, &into, dims) : (Meant){0};
}

// ---- rearrange(x, "n (h k) -> n h k")

enum { MOST_TERMS = 16 };
typedef struct {
    NameList terms; // a group is NULL here
    NameList group; // what is in the only one
    uint32_t n_groups;
} Side;

static const char *read_side(Meaning *m, const char *at, Side *side) {
    bool inside = false;
    while (*at && strncmp(at, "->", 2) != 0) {
        size_t length =
            strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        if (length) {
            Name name = names_intern(m->scope->resolver->session->names, at, length);
            vec_push(m->arena, inside ? &side->group : &side->terms, name);
        } else if (*at == '(') {
            side->n_groups += !inside;
            inside = true;
            vec_push(m->arena, &side->terms, NULL);
        } else if (*at == ')') {
            inside = false;
        } else if (*at != ' ') {
            return NULL;
        }
        at += length ? length : 1;
    }
    return at;
}

static Name term_dim(const Side *left, const Meant *of, Name term) {
    for (uint32_t i = 0; i < left->terms.count; i++)
        if (left->terms.at[i] == term)
            return of->dims.at[i];
    return term;
}

// h=4: the text wants a dim of that extent.
static bool declare_sizes(Meaning *m, const KeyList *sizes, const NameList *into) {
    for (uint32_t i = 0; i < sizes->count; i++) {
        Name dim = sizes->at[i].key.name;
        const Expr *value = sizes->at[i].value;
        bool same = value->kind == EXPR_NAME && value->name.name == dim;
        if (!namelist_has(into, dim) || (!same && !expr_is_count(value)))
            return false;
        if (!same && !scope_knows_dim(m->scope, dim))
            meant_declare(m, dim, arena_printf(m->arena, "%.0f", value->number));
    }
    return true;
}

// "n d -> d n"
static Meant reordered(Meaning *m, const Meant *of, const Side *left, const Side *right) {
    NameList dims = {0};
    if (!dimlist_equal(&left->terms, &right->terms))
        return (Meant){0};
    for (uint32_t i = 0; i < right->terms.count; i++)
        vec_push(m->arena, &dims, term_dim(left, of, right->terms.at[i]));
    return meant_reordered(m, *of, &dims);
}

Meant meant_rearrange(Meaning *m, const Expr *x, const char *pattern, const KeyList *sizes) {
    Side left = {0}, right = {0};
    const char *arrow = read_side(m, pattern, &left);
    Meant of = meant(m, x);
    bool fine = arrow && *arrow && read_side(m, arrow + 2, &right);
    if (!fine || !of.text || !of.has_dims || of.moved || of.dims.count != left.terms.count)
        return (Meant){0};
    if (!left.n_groups && !right.n_groups)
        return reordered(m, &of, &left, &right);
    if (left.n_groups + right.n_groups != 1)
        return (Meant){0};
    NameList from = {0}, into = {0}, dims = {0};
    Name all = NULL;
    if (left.n_groups) {
        into = left.group;
        vec_push(m->arena, &from, term_dim(&left, &of, NULL));
    } else {
        for (uint32_t i = 0; i < right.group.count; i++)
            vec_push(m->arena, &from, term_dim(&left, &of, right.group.at[i]));
        all = from.count ? meant_fresh(m, from.at[0], "all") : NULL;
        vec_push(m->arena, &into, all);
    }
    if (from.count + into.count < 3 || !declare_sizes(m, sizes, &into))
        return (Meant){0};
    for (uint32_t i = 0; i < right.terms.count; i++)
        vec_push(m->arena, &dims,
                 right.terms.at[i] ? term_dim(&left, &of, right.terms.at[i]) : all);
    return regrouped(m, &of, &from, &into, dims);
}

// ---- reduce(x, "n d -> n", "mean")

Meant meant_pattern_reduced(Meaning *m, const Given *given) {
    const ExprList *args = given->args;
    bool strings = args->count == 3 && !given->keys->count &&
                   expr_is_foreign(args->at[1], FOREIGN_STRING) &&
                   expr_is_foreign(args->at[2], FOREIGN_STRING);
    Side left = {0}, right = {0};
    const char *arrow = strings ? read_side(m, args->at[1]->name.name, &left) : NULL;
    bool fine = arrow && *arrow && read_side(m, arrow + 2, &right);
    Meant of = fine ? meant(m, args->at[0]) : (Meant){0};
    if (!of.text || !of.has_dims || of.moved || of.dims.count != left.terms.count ||
        left.n_groups || right.n_groups || !dimlist_within(&right.terms, &left.terms))
        return (Meant){0};
    Builtin builtin = builtin_find(args->at[2]->name.name);
    NameList lost = dimlist_minus(m->arena, &left.terms, &right.terms), over = {0}, kept = {0};
    if (!lost.count ||
        (builtin != BUILTIN_MEAN && builtin != BUILTIN_SUM && builtin != BUILTIN_MAX &&
         builtin != BUILTIN_MIN && builtin != BUILTIN_PROD))
        return (Meant){0};
    for (uint32_t i = 0; i < lost.count; i++)
        vec_push(m->arena, &over, term_dim(&left, &of, lost.at[i]));
    for (uint32_t i = 0; i < right.terms.count; i++)
        vec_push(m->arena, &kept, term_dim(&left, &of, right.terms.at[i]));
    const char *dims = dimlist_text(m->arena, &over);
    return meant_with_dims(
        arena_printf(m->arena,
                     over.count > 1 ? "%s(%s, reduced_dim=(%.*s))" : "%s(%s, reduced_dim=%.*s)",
                     builtin_name(builtin), of.text, (int)strlen(dims) - 2, dims + 1),
        HOLDS_ALL, kept);
}

// ---- full((n, d), 0.5)

Meant meant_full(Meaning *m, const Given *given) {
    NameList dims = {0};
    bool fine = given->args->count == 2 && !given->keys->count && given_list(given->args->at[0]);
    const ExprList *list = fine ? &given->args->at[0]->args : NULL;
    fine = fine && view_dims(m, (const Expr *const *)list->at, list->count, &dims);
    Meant value = fine ? meant(m, given->args->at[1]) : (Meant){0};
    for (uint32_t i = 0; i < dims.count; i++)
        fine = fine && dims.at[i];
    if (!fine || !value.text)
        return (Meant){0};
    return meant_with_dims(
        arena_printf(m->arena, "full(%s -> %s)", value.text, dimlist_text(m->arena, &dims)),
        HOLDS_ALL, dims);
}

// ---- cat([x, y], dim=1), concat([x, y], dim=t)

// The dim of the first part that the others lack; of parts over the same dims the first, or, where
// a name says what the whole is over and so nothing of the parts, the only one.
static Name concat_own(const Meant *first, const NameList *kept, bool named) {
    uint32_t lost = 0, own = 0;
    for (uint32_t i = 0; i < first->dims.count; i++)
        if (!namelist_has(kept, first->dims.at[i])) {
            own = i;
            lost++;
        }
    if (lost == 1)
        return first->dims.at[own];
    return named && first->dims.count > 1 ? NULL : first->dims.at[0];
}

Meant meant_concat(Meaning *m, const Given *given) {
    ExprList parts = *given->args;
    if (parts.count && given_list(parts.at[0]))
        parts = parts.at[0]->args;
    const Expr *where = given_where(given);
    const Expr *last = given->args->count > 1 ? given->args->at[given->args->count - 1] : NULL;
    if (!where && last && (last->kind == EXPR_NUMBER || last->kind == EXPR_UNARY)) {
        where = last;
        parts.count -= parts.at == given->args->at;
    }
    Text text = {.arena = m->arena};
    Meant first = {0};
    NameList kept = {0}, used = {0};
    bool apart = m->apart;
    for (uint32_t i = 0; i < parts.count; i++) {
        m->apart = true;
        Meant part = meant(m, parts.at[i]);
        m->apart = apart;
        if (!part.text || !part.has_dims || part.moved)
            return (Meant){0};
        text_printf(&text, "%s%s", i ? ", " : "", part.text);
        first = i ? first : part;
        NameList gone = dimlist_minus(m->arena, &first.dims, &part.dims);
        kept = dimlist_minus(m->arena, i ? &kept : &first.dims, &gone);
        used = dimlist_union(m->arena, &used, &part.dims);
    }
    bool named = where && where->kind == EXPR_NAME && !namelist_has(&used, where->name.name);
    Name own = !first.text || !first.dims.count ? NULL
               : where && !named                ? dim_given(&first, where)
                                                : concat_own(&first, &kept, named);
    if (!own)
        return (Meant){0};
    Name all = named ? where->name.name : meant_fresh(m, own, "all");
    NameList dims = dimlist_replaced(m->arena, &first.dims, own, all);
    const char *list = dimlist_text(m->arena, &dims);
    Meant result = meant_with_dims(
        arena_printf(m->arena, "concat(%s, dim=%s -> %s)", text.at, all, list), HOLDS_ALL, dims);
    return result;
}

// ---- zeros(n, d), full((n, d), x)

// Names of dims, or nothing.
static bool constant_dims(Meaning *m, const Expr *const *args, uint32_t n, NameList *out) {
    for (uint32_t i = 0; i < n; i++) {
        if (!names_dim(m, args[i]))
            return false;
        vec_push(m->arena, out, meant_primed(m, args[i]->name.name, out, out));
    }
    return n > 0;
}

Meant meant_constant(Meaning *m, const char *name, const Expr *const *args, uint32_t n) {
    NameList dims = {0};
    bool list = n == 1 && given_list(args[0]);
    const Expr *const *names = list ? (const Expr *const *)args[0]->args.at : args;
    if (!constant_dims(m, names, list ? args[0]->args.count : n, &dims))
        return (Meant){0};
    const char *text = arena_printf(m->arena, "%s%s", name, dimlist_text(m->arena, &dims));
    return meant_with_dims(text, HOLDS_ALL, dims);
}

// zeros_like(x)
Meant meant_constant_like(Meaning *m, const char *name, const Expr *x) {
    Meant of = meant(m, x);
    if (!of.text || !of.has_dims || !of.dims.count)
        return (Meant){0};
    const char *text = arena_printf(m->arena, "%s%s", name, dimlist_text(m->arena, &of.dims));
    return meant_with_dims(text, HOLDS_ALL, of.dims);
}
