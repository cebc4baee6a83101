// SPDX-License-Identifier: Apache-2.0
// Constants over dims: zeros, ones, full, and arrays in the text.
//
//     S[k, v] = zeros[k, v]                      one number everywhere; f32, or what it meets
//     b[n, h] = full(slope[h] -> [n, h])         a value, repeated over the dims that it lacks
//     C[n] = einsum(X[n, t], [0.25, 0.5, 0.25] -> [t])        rows of rows for more dims
//
// The extents of an array's dims are known where it is written: they are what its rows are checked
// against.
#include "ast/resolve/resolve.h"

#include <string.h>

// An array becomes a choice for each number (graph/build/constant.c).
enum { ARRAY_MAX = 1024 };

// ---- zeros[n, h], ones[n, h] --------------------------------------------------------------------

bool name_is_same(Name name) {
    return !strcmp(name, "zeros") || !strcmp(name, "ones");
}

static bool check_same_dims(Scope *scope, const Expr *ref) {
    bool fine = true;
    if (ref->args.count) {
        Diag *diag = diag_error(scope->resolver->diags, ref->args.at[0]->span,
                                "the brackets of '%s' have dims alone", ref->name.name);
        diag_hint(diag, "it is one number over them: '%s[n, d]'", ref->name.name);
        fine = false;
    }
    for (uint32_t i = 0; i < ref->dims.count; i++)
        if (!steps_find(&ref->steps, ref->dims.at[i].name))
            fine = scope_check_dim(scope, ref->dims.at[i]) && fine;
    return scope_check_brackets(scope, &ref->dims, &ref->steps) && fine;
}

void resolve_same(Scope *scope, Expr *ref) {
    expr_poison(ref);
    if (!check_same_dims(scope, ref))
        return;
    ref->name_kind = NAME_SAME;
    ref->number = !strcmp(ref->name.name, "ones");
    ref->is_literal = ref->is_whole = true;
    expr_set(ref, steps_left(scope->resolver->arena, &ref->dims, &ref->steps), ELEM_F32);
    scope_add_dims(scope, &ref->result);
}

// ---- full ---------------------------------------------------------------------------------------

static const Ident *wanted_ident(const Wanted *wanted, Name dim) {
    return wanted->brackets ? idents_find(wanted->brackets, dim) : NULL;
}

// The dims of a constant are dims of some tensor, or declared.
static bool check_named(Scope *scope, const Wanted *wanted) {
    bool fine = true;
    for (uint32_t i = 0; i < wanted->dims.count; i++) {
        const Ident *ident = wanted_ident(wanted, wanted->dims.at[i]);
        fine = (!ident || scope_check_dim(scope, *ident)) && fine;
    }
    return fine;
}

void resolve_full(Scope *scope, Expr *call, const Wanted *wanted) {
    Arena *arena = scope->resolver->arena;
    Expr *value = call->args.at[0];
    Wanted arrow;
    resolve_expr(scope, value, NULL);
    const char *dims =
        value->ok && value->result.count ? dimlist_text(arena, &value->result) : "[...]";
    wanted = call_wanted(scope, call, wanted, &arrow, arena_printf(arena, "'-> %s'", dims));
    if (!value->ok || !wanted || wanted->silent || !check_named(scope, wanted))
        return;
    NameList lost = dimlist_minus(arena, &value->result, &wanted->dims);
    if (lost.count) {
        Diag *diag = diag_error(scope->resolver->diags, expr_dim_place(value, lost.at[0]),
                                "'full' repeats what it is given, and its result has no dim '%s'",
                                lost.at[0]);
        diag_note(diag, wanted->span, "its result is to be over %s",
                  dimlist_text(arena, &wanted->dims));
        diag_hint(diag, "add '%s' to the result, or reduce it: sum(..., reduced_dim=%s)",
                  lost.at[0], lost.at[0]);
        scope->doubt = scope->doubt || !call->has_arrow;
        return;
    }
    call->is_literal = value->is_literal;
    call->is_whole = value->is_whole;
    expr_set(call, wanted->dims, value->elem);
}

// ---- arrays: rows of one length -----------------------------------------------------------------

typedef VEC(const Expr *) FirstRows; // an array, its first row, the first row of that, ...

static FirstRows first_rows(Arena *arena, const Expr *array) {
    FirstRows firsts = {0};
    while (array && array->kind == EXPR_ARRAY) {
        vec_push(arena, &firsts, array);
        array = array->args.count ? array->args.at[0] : NULL;
    }
    return firsts;
}

static void report_row(Scope *scope, const Expr *item, const Expr *first, bool innermost) {
    Diags *diags = scope->resolver->diags;
    uint32_t n = item->args.count;
    Diag *diag;
    if (item->has_arrow) {
        diag = diag_error(diags, item->span, "a row of an array has dims of its own");
        diag_hint(diag, "write the dims once, behind the outermost brackets");
        return;
    }
    diag = diag_error(diags, item->span, "this row has %u %s%s, the first one has %u", n,
                      innermost ? "number" : "row", n == 1 ? "" : "s", first->args.count);
    diag_note(diag, first->span, "the first one is here");
}

static bool check_mixed(Scope *scope, const Expr *item, const Expr *first, bool rows) {
    if (rows == (item->kind == EXPR_ARRAY))
        return true;
    Diag *diag =
        diag_error(scope->resolver->diags, item->span, "numbers and rows stand side by side");
    diag_note(diag, first->span, "%s is here", rows ? "a row" : "a number");
    return false;
}

// The items of an array at a level of brackets: rows like the first of their level, or numbers.
static bool check_items(Scope *scope, Expr *array, const FirstRows *firsts, uint32_t level) {
    bool rows = level + 1 < firsts->count, fine = true;
    for (uint32_t i = 0; i < array->args.count; i++) {
        Expr *item = array->args.at[i];
        const Expr *first = rows ? firsts->at[level + 1] : firsts->at[level]->args.at[0];
        if (!check_mixed(scope, item, first, rows))
            return false;
        if (!rows) {
            resolve_number(scope, item, "a number of an array");
            fine = item->ok && fine;
        } else if (item->has_arrow || item->args.count != first->args.count) {
            report_row(scope, item, first, level + 2 == firsts->count);
            return false;
        } else {
            fine = check_items(scope, item, firsts, level + 1) && fine;
        }
    }
    return fine;
}

static bool check_array(Scope *scope, Expr *array, const FirstRows *firsts) {
    double count = 1;
    for (uint32_t i = 0; i < firsts->count; i++)
        count *= firsts->at[i]->args.count;
    if (count == 0) {
        diag_error(scope->resolver->diags, array->span, "an array has at least one number");
        return false;
    }
    if (count > ARRAY_MAX) {
        Diag *diag = diag_error(scope->resolver->diags, array->span,
                                "an array in the text has at most %d numbers", ARRAY_MAX);
        diag_hint(diag, "make it a parameter");
        return false;
    }
    return check_items(scope, array, firsts, 0);
}

// ---- arrays: their dims -------------------------------------------------------------------------

static bool check_rank(Scope *scope, const Expr *array, const Wanted *wanted, uint32_t depth) {
    if (depth == wanted->dims.count)
        return true;
    Resolver *r = scope->resolver;
    Diag *diag = diag_error(r->diags, array->span, "the brackets of this array are %u deep, %s %s",
                            depth, dimlist_text(r->arena, &wanted->dims),
                            wanted->dims.count == 1
                                ? "is one dim"
                                : arena_printf(r->arena, "are %u dims", wanted->dims.count));
    diag_note(diag, wanted->span, "its dims are stated here");
    if (wanted->in_sum)
        diag_hint(diag, "a term with fewer dims writes them behind it: '[...] -> [...]'");
    scope->doubt = scope->doubt || !array->has_arrow;
    return false;
}

static bool check_extent(Scope *scope, const Expr *array, Name dim, const Wanted *wanted) {
    Resolver *r = scope->resolver;
    int64_t extent = program_extent(r->session, r->program, dim);
    if (extent == array->args.count)
        return true;
    Name plain = name_unprimed(r->session->names, dim);
    if (extent < 0) {
        const Ident *ident = wanted_ident(wanted, dim);
        Diag *diag = diag_error(r->diags, ident ? ident->span : wanted->span,
                                "an array is over dims of known extent, '%s' has none", dim);
        diag_note(diag, array->span, "this has %u position%s", array->args.count,
                  array->args.count == 1 ? "" : "s");
        diag_hint(diag, "'dim %s = %u' declares it", plain, array->args.count);
        return false;
    }
    Diag *diag =
        diag_error(r->diags, array->span, "this array has %u position%s, '%s' has %lld",
                   array->args.count, array->args.count == 1 ? "" : "s", dim, (long long)extent);
    resolve_note_extent(r, diag, dim);
    return false;
}

static Elem array_elem(const Expr *array) {
    Elem elem = ELEM_I64;
    for (uint32_t i = 0; i < array->args.count; i++) {
        const Expr *item = array->args.at[i];
        Elem own = item->kind == EXPR_ARRAY ? array_elem(item) : item->elem;
        if (elem_is_float(own))
            elem = ELEM_F32;
    }
    return elem;
}

void resolve_array(Scope *scope, Expr *array, const Wanted *wanted) {
    Wanted arrow;
    expr_poison(array);
    FirstRows firsts = first_rows(scope->resolver->arena, array);
    bool fine = check_array(scope, array, &firsts);
    wanted = call_wanted(scope, array, wanted, &arrow, "'-> [...]'");
    if (!fine || !wanted || wanted->silent || !check_rank(scope, array, wanted, firsts.count))
        return;
    for (uint32_t i = 0; i < firsts.count; i++)
        fine = check_extent(scope, firsts.at[i], wanted->dims.at[i], wanted) && fine;
    if (!fine)
        return;
    array->is_literal = true;
    expr_set(array, wanted->dims, array_elem(array));
}
