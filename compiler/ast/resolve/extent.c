// SPDX-License-Identifier: Apache-2.0
// Warning extent: a dim as a number, which is its extent, where its positions are likely meant.
//
//     max(X, d)                    the larger of each element and the number d;
//                                  max(X, reduced_dim=d) is the largest along d
//     where(m <= n, L, -inf)       compares two extents, once for all elements;
//                                  where(index(m) <= index(n), L, -inf) compares positions
//
// Only dims that the tensor beside them is over count. A number of whole numbers that the def
// itself has made is no such tensor: min(index(n) + 1, n) keeps positions within n. A cast is an
// answer.
#include "ast/resolve/resolve.h"

#include <string.h>

static bool is_extent_of(const Expr *expr, const NameList *dims) {
    return expr->kind == EXPR_NAME && expr->name_kind == NAME_EXTENT &&
           dimlist_has(dims, expr->name.name);
}

// ---- max(X, d) ----------------------------------------------------------------------------------

static bool is_data(Scope *scope, const Expr *expr) {
    const Symbol *symbol = expr_is_tensor(expr) ? scope_find(scope, expr->name.name) : NULL;
    return elem_is_float(expr->elem) || (symbol && symbol->kind == SYMBOL_ARGUMENT);
}

// Requires: min or max of several arguments.
static void warn_extremum(Scope *scope, const Expr *call, const Expr *of, const Expr *extent) {
    Resolver *r = scope->resolver;
    const char *function = builtin_name(call->builtin);
    Name dim = extent->name.name;
    Diag *diag = diag_warning(r->diags, "extent", extent->span,
                              "'%s' is a number here, the extent of '%s'", dim, dim);
    diag_hint(diag,
              "'%s(%s, reduced_dim=%s)' is the %s along '%s'; where the number is meant, write "
              "'%s(%s)'",
              function, span_text(r->session->sources, of->span, r->arena), dim,
              call->builtin == BUILTIN_MAX ? "largest" : "smallest", dim, elem_name(of->elem), dim);
}

static void check_extremum(Scope *scope, const Expr *call) {
    for (uint32_t i = 0; i < call->args.count; i++)
        for (uint32_t k = 0; k < call->args.count; k++) {
            const Expr *of = call->args.at[i], *extent = call->args.at[k];
            if (is_extent_of(extent, &of->result) && is_data(scope, of)) {
                warn_extremum(scope, call, of, extent);
                return;
            }
        }
}

// ---- where(m <= n, L, -inf) ---------------------------------------------------------------------

static const Expr *find_comparison(const Expr *condition, const NameList *dims) {
    if (condition->kind != EXPR_UNARY && condition->kind != EXPR_BINARY)
        return NULL;
    const ExprList *args = &condition->args;
    if (args->count == 2 && is_extent_of(args->at[0], dims) && is_extent_of(args->at[1], dims))
        return oper_compares(condition->oper) ? condition : NULL;
    const Expr *found = find_comparison(args->at[0], dims);
    return found || args->count == 1 ? found : find_comparison(args->at[1], dims);
}

static void check_condition(Scope *scope, const Expr *call) {
    Resolver *r = scope->resolver;
    const Expr *comparison = find_comparison(call->args.at[0], &call->result);
    if (!comparison)
        return;
    Name a = comparison->args.at[0]->name.name, b = comparison->args.at[1]->name.name;
    const char *oper = oper_text(comparison->oper);
    Diag *diag = diag_warning(r->diags, "extent", comparison->span,
                              "this compares the extents of '%s' and '%s', two numbers", a, b);
    diag_hint(diag,
              "'index(%s) %s index(%s)' compares positions; where the numbers are meant, write "
              "'i64(%s) %s %s'",
              a, oper, b, a, oper, b);
}

// ---- the whole ----------------------------------------------------------------------------------

// Requires: a pointwise function that is resolved.
void resolve_warn_extent(Scope *scope, const Expr *call) {
    if (scope_in_prelude(scope))
        return;
    if (call->builtin == BUILTIN_MIN || call->builtin == BUILTIN_MAX)
        check_extremum(scope, call);
    else if (call->builtin == BUILTIN_WHERE)
        check_condition(scope, call);
}
