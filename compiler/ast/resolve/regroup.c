// SPDX-License-Identifier: Apache-2.0
// split and merge: one dim as several, row-major, the first the slowest.
//
//     T[n, three, h, k] = split(einsum(X[n, d], W[d, f]), f -> three h k)     f = (three, h, k)
//     Y[n, d] = merge(O[n, h, k], h k -> d)                                   d = (h, k)
//
// The extents of the parts make that of the whole; one that is not known follows from the others.
#include "ast/resolve/resolve.h"

bool check_no_regroup(Scope *scope, const Expr *call) {
    if (!call->into.count)
        return true;
    Span at = span_join(call->from.at[0].span, call->into.at[call->into.count - 1].span);
    Diag *diag =
        diag_error(scope->resolver->diags, at, "'%s' takes no dims around '->'", call->name.name);
    diag_hint(diag, "'split(x, d -> h k)' and 'merge(x, h k -> d)' do; dims of a result are in "
                    "brackets: '-> [h, k]'");
    return false;
}

// ---- form ---------------------------------------------------------------------------------------

static bool check_form(Scope *scope, const Expr *call) {
    bool splits = call->builtin == BUILTIN_SPLIT;
    const char *form = splits ? "split(x, d -> h k)" : "merge(x, h k -> d)";
    const IdentList *one = splits ? &call->from : &call->into;
    Diag *diag = NULL;
    if (!call->into.count || call->args.count > 1)
        diag = diag_error(scope->resolver->diags, call->span, "'%s' needs dims around '->'",
                          call->name.name);
    else if (one->count > 1)
        diag = diag_error(scope->resolver->diags,
                          span_join(one->at[0].span, one->at[one->count - 1].span),
                          "'%s' has one dim on this side of '->'", call->name.name);
    if (diag)
        diag_hint(diag, "it is written '%s'", form);
    return !diag;
}

static bool report_lacking(Scope *scope, const Expr *call, const Ident *dim, const Expr *arg) {
    Resolver *r = scope->resolver;
    Diag *diag = diag_error(r->diags, dim->span, "the argument of '%s' has no dim '%s'",
                            call->name.name, dim->name);
    diag_note(diag, arg->span, "it is over %s", dimlist_text(r->arena, &arg->result));
    Near near = near_to(dim->name);
    near_offer_list(&near, &arg->result);
    if (near.best)
        diag_hint(diag, "did you mean '%s'?", near.best);
    return false;
}

// Dims of the argument that are regrouped, and new ones that it does not keep.
static bool check_dims(Scope *scope, const Expr *call, const Expr *arg, const NameList *kept) {
    for (uint32_t i = 0; i < call->from.count; i++)
        if (!namelist_has(&arg->result, call->from.at[i].name))
            return report_lacking(scope, call, &call->from.at[i], arg);
    for (uint32_t i = 0; i < call->into.count; i++) {
        const Ident *dim = &call->into.at[i];
        bool kept_too = namelist_has(kept, dim->name);
        if (!kept_too && !idents_find(&call->from, dim->name))
            continue;
        Diag *diag = diag_error(scope->resolver->diags, dim->span,
                                "'%s' makes dim '%s', but the argument has it already",
                                call->name.name, dim->name);
        diag_note(diag, expr_dim_place(arg, dim->name), "'%s' is here", dim->name);
        diag_hint(diag, "give the new one another name");
        return false;
    }
    return true;
}

// ---- extents ------------------------------------------------------------------------------------

static bool report_product(Scope *scope, const Expr *call, Name whole, int64_t extent,
                           const char *product, int64_t value) {
    Resolver *r = scope->resolver;
    Diag *diag = diag_error(r->diags, call->span, "'%s' has %lld positions, %s is %lld", whole,
                            (long long)extent, product, (long long)value);
    for (uint32_t i = 0; i < call->reduced.count; i++)
        if (program_extent(r->session, r->program, call->reduced.at[i]) > 0)
            resolve_note_extent(r, diag, call->reduced.at[i]);
    return false;
}

// What is known of the extents already: all of them, or all but one part.
static bool check_extents(Scope *scope, const Expr *call) {
    Resolver *r = scope->resolver;
    Name whole = call->reduced.at[0], open = NULL;
    int64_t extent = program_extent(r->session, r->program, whole), product = 1;
    Text text = {.arena = r->arena};
    for (uint32_t i = 1; i < call->reduced.count; i++) {
        int64_t part = program_extent(r->session, r->program, call->reduced.at[i]);
        if ((part < 1 && open) || program_extent_wrong(r->program, call->reduced.at[i]))
            return true;
        if (part < 1)
            open = call->reduced.at[i];
        else if (!mul_i64(product, part, &product))
            product = INT64_MAX;
        if (part >= 1)
            text_printf(&text, "%s%s", text.length ? " * " : "", call->reduced.at[i]);
    }
    if (extent < 1 || scope_in_prelude(scope) || (open && extent % product == 0) ||
        (!open && extent == product) || program_extent_wrong(r->program, whole) ||
        resolve_disagreed(r, &call->reduced))
        return true;
    if (!open)
        return report_product(scope, call, whole, extent, text.at, product);
    Diag *diag = diag_error(r->diags, call->span,
                            "'%s' has %lld positions, they are no multiple of %s = %lld", whole,
                            (long long)extent, text.at, (long long)product);
    diag_hint(diag, "so there is no extent for '%s'", open);
    return false;
}

// ---- the whole ----------------------------------------------------------------------------------

static NameList regrouped(Scope *scope, const Expr *call, const NameList *dims) {
    Arena *arena = scope->resolver->arena;
    NameList out = {0};
    for (uint32_t i = 0; i < dims->count; i++) {
        if (dims->at[i] == call->from.at[0].name)
            for (uint32_t k = 0; k < call->into.count; k++)
                vec_push(arena, &out, call->into.at[k].name);
        else if (!idents_find(&call->from, dims->at[i]))
            vec_push(arena, &out, dims->at[i]);
    }
    return out;
}

void resolve_regroup(Scope *scope, Expr *call) {
    Arena *arena = scope->resolver->arena;
    Expr *arg = call->args.at[0];
    resolve_expr(scope, arg, NULL);
    if (!check_form(scope, call) || !scope_check_brackets(scope, &call->from, NULL) ||
        !scope_check_brackets(scope, &call->into, NULL) || !arg->ok)
        return;
    NameList from = dimlist_of(arena, &call->from), into = dimlist_of(arena, &call->into);
    NameList kept = dimlist_minus(arena, &arg->result, &from);
    if (!check_dims(scope, call, arg, &kept))
        return;
    bool splits = call->builtin == BUILTIN_SPLIT;
    const NameList *parts = splits ? &into : &from;
    vec_push(arena, &call->reduced, (splits ? &from : &into)->at[0]);
    for (uint32_t i = 0; i < parts->count; i++)
        vec_push(arena, &call->reduced, parts->at[i]);
    if (!check_extents(scope, call))
        return;
    scope_add_dims(scope, &into);
    expr_set(call, regrouped(scope, call, &arg->result), arg->elem);
}
