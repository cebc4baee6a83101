// SPDX-License-Identifier: Apache-2.0
// topk, sort and argsort: positions along a dim in the order of their values.
//
//     V[n, t], I[n, t] = topk(S[n, m], t, dim=m)     the t largest of each row, and where they are
//     Y[n, m] = sort(S, dim=m)                       all, the smallest first
//     J[n, t] = argsort(S, t, dim=m, order=descending)
//
// The second argument is the dim that stands in the place of the one that is put in order, and its
// extent is how many of the first there are.
#include "ast/resolve/resolve.h"

#include <string.h>

static bool is_number(const Expr *expr) {
    return expr->kind == EXPR_NUMBER ||
           (expr->kind == EXPR_UNARY && expr->args.at[0]->kind == EXPR_NUMBER);
}

// The dim of the second argument; NULL after a diagnostic.
static const Ident *kept_dim(Scope *scope, const Expr *call, Expr *value) {
    Resolver *r = scope->resolver;
    Name function = call->name.name;
    if (is_number(value)) {
        Diag *diag = diag_error(r->diags, value->span,
                                "the second argument of '%s' is the name of a dim", function);
        const char *meant = foreign_call_hint(scope, call);
        if (meant)
            diag_hint(diag, "%s", meant);
        else if (value->kind == EXPR_NUMBER)
            diag_hint(diag, "'dim t = %g' declares one: %s(..., t, dim=...)", value->number,
                      function);
        return NULL;
    }
    const char *what = arena_printf(r->arena, "the second argument of '%s'", function);
    const Ident *dim = expr_as_dim(scope, value, what);
    if (!dim || !scope_check_dim(scope, *dim))
        return NULL;
    const Expr *arg = call->args.at[0];
    if (!arg->ok || !namelist_has(&arg->result, dim->name))
        return dim;
    Diag *diag = diag_error(r->diags, dim->span, "'%s' adds dim '%s', but its argument has it",
                            function, dim->name);
    diag_note(diag, expr_dim_place(arg, dim->name), "'%s' is here", dim->name);
    diag_hint(diag, "name the positions of the order by a dim of their own");
    return NULL;
}

static bool check_kept_extent(Scope *scope, Name dim, const Ident *kept) {
    Resolver *r = scope->resolver;
    int64_t all = program_extent(r->session, r->program, dim);
    int64_t part = program_extent(r->session, r->program, kept->name);
    if (scope_in_prelude(scope) || all < 0 || part <= all)
        return true;
    Diag *diag = diag_error(r->diags, kept->span, "the first %lld of '%s', which has %lld",
                            (long long)part, dim, (long long)all);
    resolve_note_extent(r, diag, kept->name);
    resolve_note_extent(r, diag, dim);
    return false;
}

// `order=`: what topk says by its name.
static bool resolve_direction(Scope *scope, Expr *call) {
    KeyArg *key = call_key(call, "order");
    call->descending = call->builtin == BUILTIN_TOPK;
    if (!key)
        return true;
    Expr *value = key->value;
    expr_set(value, (NameList){0}, ELEM_I64);
    value->is_literal = true;
    bool named = value->kind == EXPR_NAME;
    call->descending = named && !strcmp(value->name.name, "descending");
    if (call->descending || (named && !strcmp(value->name.name, "ascending")))
        return true;
    diag_error(scope->resolver->diags, value->span, "'order=' is ascending or descending");
    return false;
}

// What `-> [..]` says, if it does, must be what follows from the arguments.
static bool check_arrow(Scope *scope, const Expr *call, const NameList *dims) {
    Wanted arrow;
    if (!call->has_arrow)
        return true;
    call_wanted(scope, call, NULL, &arrow, NULL);
    if (arrow.silent || dimlist_equal(&arrow.dims, dims))
        return !arrow.silent;
    diag_error(scope->resolver->diags, arrow.span, "'%s' is over %s here", call->name.name,
               dimlist_text(scope->resolver->arena, dims));
    return false;
}

static bool check_n_wanted(Scope *scope, const Expr *call, uint32_t n_wanted) {
    if (!builtin_gives_several(call->builtin) || n_wanted == 2)
        return true;
    Resolver *r = scope->resolver;
    const char *what = n_wanted == 1
                           ? "an expression is one"
                           : arena_printf(r->arena, "%u names stand on the left", n_wanted);
    Diag *diag = diag_error(r->diags, call->span, "'%s' gives 2 values, %s", call->name.name, what);
    diag_hint(diag, "write 'values, positions = %s(...)', and '_' for what is not wanted",
              call->name.name);
    return false;
}

void resolve_order(Scope *scope, Expr *call, uint32_t n_wanted) {
    Arena *arena = scope->resolver->arena;
    Expr *arg = call->args.at[0];
    const char *where = arena_printf(arena, "'%s'", call->name.name);
    bool several = call->args.count > 1;
    resolve_expr(scope, arg, NULL);
    bool fine = resolve_expect_number(scope, arg, where);
    const Ident *kept = several ? kept_dim(scope, call, call->args.at[1]) : NULL;
    if (several && !kept && is_number(call->args.at[1]))
        return; // the hint has the whole call
    const Ident *dim = call_dim_key(scope, call, arg);
    fine = resolve_direction(scope, call) && fine && dim && (kept || !several);
    fine = check_n_wanted(scope, call, n_wanted) && fine;
    if (!fine || (kept && !check_kept_extent(scope, dim->name, kept)))
        return;
    Name to = kept ? kept->name : dim->name;
    NameList dims = dimlist_replaced(arena, &arg->result, dim->name, to);
    if (!check_arrow(scope, call, &dims))
        return;
    vec_push(arena, &call->reduced, dim->name);
    vec_push(arena, &call->reduced, to);
    scope_add_dims(scope, &call->reduced);
    Elem elem = call->builtin == BUILTIN_ARGSORT ? ELEM_I32 : arg->elem;
    vec_push(arena, &call->results, dims);
    vec_push(arena, &call->elems, elem);
    vec_push(arena, &call->results, dims);
    vec_push(arena, &call->elems, ELEM_I32);
    expr_set(call, dims, elem);
}
