// SPDX-License-Identifier: Apache-2.0
// Warning extent: a dim as a number, which is its extent, where its positions are likely meant.
//
//     max(X, d)                    the larger of each element and the number d;
//                                  max(X, reduced_dim=d) is the largest along d
//     where(m <= n, L, -inf)       compares two extents, once for all elements;
//                                  where(index(m) <= index(n), L, -inf) compares positions
//     L - slope * abs(n - m)       subtracts one number everywhere, that of the positions that one
//                                  dim has more than the other;
//                                  L - slope * abs(index(n) - index(m)) subtracts distances
//
// A difference of two extents is a number that programs have a use for: as a divisor or under a
// root it counts, and beside whole numbers over dims it moves positions, index(m) - (m - n). What
// is left is one that meets a float tensor by any other operator, or is compared for a where, while
// a tensor of the def is over both dims.
//
// Of dims that are alike the difference is 0 and a comparison holds always or never, so that nobody
// has a use for them, wherever they stand: only beside whole numbers over dims (and as a number of
// a shift or an argument) they may be of code that serves dims that are not alike as well.
//
//     L / sqrt(k)                  of k[m, k]: the root of a tensor, where that of an extent is
//                                  likely meant. A bare name under a root, or in a divisor whose
//                                  dividend lacks some of its dims
//
// Only dims that the tensor beside them is over count. A number of whole numbers that the def
// itself has made is no such tensor: min(index(n) + 1, n) keeps positions within n. A cast is an
// answer.
#include "ast/resolve/resolve.h"

#include <string.h>

static bool is_extent(const Expr *expr) {
    return expr->kind == EXPR_NAME && expr->name_kind == NAME_EXTENT;
}

static bool is_extent_of(const Expr *expr, const NameList *dims) {
    return is_extent(expr) && namelist_has(dims, expr->name.name);
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

// ---- n - m --------------------------------------------------------------------------------------

// Of the extents of two dims.
static bool are_two(const Expr *binary) {
    const ExprList *args = &binary->args;
    return is_extent(args->at[0]) && is_extent(args->at[1]) &&
           args->at[0]->name.name != args->at[1]->name.name;
}

static bool are_alike(const Scope *scope, const Expr *binary) {
    const ExprList *args = &binary->args;
    return program_dims_alike(scope->resolver->program, args->at[0]->name.name,
                              args->at[1]->name.name);
}

static bool is_difference(const Expr *expr) {
    return expr->kind == EXPR_BINARY && expr->oper == OPER_SUB && are_two(expr);
}

static bool divides(Oper oper) {
    return oper == OPER_DIV || oper == OPER_FLOORDIV || oper == OPER_MOD || oper == OPER_POW;
}

// The difference that a number is made with; NULL where it is counted with, cast, or there is none.
static const Expr *find_difference(const Expr *number) {
    if (number->result.count)
        return NULL;
    if (is_difference(number))
        return number;
    bool inner = number->kind == EXPR_UNARY || number->kind == EXPR_BINARY ||
                 (number->kind == EXPR_CALL && number->builtin == BUILTIN_ABS);
    uint32_t n = inner ? number->args.count : 0;
    if (number->kind == EXPR_BINARY && divides(number->oper))
        n = 1;
    const Expr *found = NULL;
    for (uint32_t i = 0; i < n && !found; i++)
        found = find_difference(number->args.at[i]);
    return found;
}

static void warn_difference(Scope *scope, const Expr *difference) {
    Name a = difference->args.at[0]->name.name, b = difference->args.at[1]->name.name;
    const char *are = are_alike(scope, difference) ? "which are equal: it is 0" : "two numbers";
    Diag *diag = diag_warning(scope->resolver->diags, "extent", difference->span,
                              "this subtracts the extents of '%s' and '%s', %s", a, b, are);
    diag_hint(diag,
              "'index(%s) - index(%s)' is the distance of positions; where the numbers are meant, "
              "write 'i64(%s) - %s'",
              a, b, a, b);
}

static bool are_both(const NameList *dims, const Expr *difference) {
    return dims && namelist_has(dims, difference->args.at[0]->name.name) &&
           namelist_has(dims, difference->args.at[1]->name.name);
}

// Is something of the def over both dims?
static bool meet_in_def(const Scope *scope, const Expr *difference) {
    for (uint32_t i = 0; i < scope->symbols.count; i++)
        if (scope->symbols.at[i]->ok && are_both(&scope->symbols.at[i]->dims, difference))
            return true;
    return are_both(scope->stated, difference);
}

static bool is_index(const Expr *expr, const void *unused) {
    (void)unused;
    return expr->kind == EXPR_CALL && expr->builtin == BUILTIN_INDEX;
}

static bool check_difference(Scope *scope, const Expr *number, const Expr *of) {
    const Expr *difference = number->is_literal ? find_difference(number) : NULL;
    if (!difference || of->is_literal || !elem_is_float(of->elem) ||
        scope_made_of(scope, of, is_index, NULL) ||
        !(are_both(&of->result, difference) || meet_in_def(scope, difference)))
        return false;
    warn_difference(scope, difference);
    return true;
}

// Requires: an operator with two operands that are resolved.
void resolve_warn_difference(Scope *scope, const Expr *binary) {
    const Expr *a = binary->args.at[0], *b = binary->args.at[1];
    if (!scope_in_prelude(scope) && !check_difference(scope, a, b) && !divides(binary->oper))
        check_difference(scope, b, a);
}

// ---- where(m <= n, L, -inf) ---------------------------------------------------------------------

static const Expr *find_comparison(const Expr *condition, const NameList *dims) {
    if (condition->kind != EXPR_UNARY && condition->kind != EXPR_BINARY)
        return NULL;
    const ExprList *args = &condition->args;
    if (args->count == 2 && oper_compares(condition->oper) && !condition->result.count) {
        bool extents = is_extent_of(args->at[0], dims) && is_extent_of(args->at[1], dims);
        const Expr *difference = find_difference(condition);
        return extents ? condition : difference && are_both(dims, difference) ? difference : NULL;
    }
    const Expr *found = find_comparison(args->at[0], dims);
    return found || args->count == 1 ? found : find_comparison(args->at[1], dims);
}

static void warn_comparison(Scope *scope, const Expr *comparison) {
    Resolver *r = scope->resolver;
    Name a = comparison->args.at[0]->name.name, b = comparison->args.at[1]->name.name;
    Oper oper = comparison->oper;
    bool holds = oper == OPER_EQ || oper == OPER_LE || oper == OPER_GE;
    const char *are = !are_alike(scope, comparison) ? "two numbers"
                      : holds                       ? "which are equal: it always holds"
                                                    : "which are equal: it never holds";
    Diag *diag = diag_warning(r->diags, "extent", comparison->span,
                              "this compares the extents of '%s' and '%s', %s", a, b, are);
    diag_hint(diag,
              "'index(%s) %s index(%s)' compares positions; where the numbers are meant, write "
              "'i64(%s) %s %s'",
              a, oper_text(oper), b, a, oper_text(oper), b);
}

static void check_condition(Scope *scope, const Expr *call) {
    const Expr *comparison = find_comparison(call->args.at[0], &call->result);
    if (!comparison || are_alike(scope, comparison))
        return;
    if (is_difference(comparison))
        warn_difference(scope, comparison);
    else
        warn_comparison(scope, comparison);
}

// ---- of dims that are alike ---------------------------------------------------------------------

// index(m) - (m - n), index(n) - index(m) < m - n, shift(X, n, n - m), F(X, m - n): the argument is
// a number that moves positions.
static bool moves_positions(const Expr *expr, uint32_t which) {
    const Expr *number = expr->args.at[which];
    if (!number->is_literal || number->result.count)
        return false;
    if (expr->kind == EXPR_CALL)
        return expr->callee || expr->builtin == BUILTIN_SHIFT || expr->builtin == BUILTIN_SLICE;
    if (expr->kind != EXPR_BINARY)
        return false;
    const Expr *other = expr->args.at[!which];
    bool sums = expr->oper == OPER_ADD || expr->oper == OPER_SUB;
    return (sums || oper_compares(expr->oper)) && other->result.count && elem_is_int(other->elem);
}

static bool check_alike(Scope *scope, const Expr *binary) {
    bool compares = oper_compares(binary->oper);
    if ((!compares && binary->oper != OPER_SUB) || !are_two(binary) || !are_alike(scope, binary))
        return false;
    if (compares)
        warn_comparison(scope, binary);
    else
        warn_difference(scope, binary);
    return true;
}

// ---- sqrt(k), of k[m, k] ------------------------------------------------------------------------

static bool hides_dim(const Scope *scope, const Expr *expr) {
    return expr->kind == EXPR_NAME && expr->name_kind == NAME_TENSOR && expr->result.count &&
           scope_knows_dim(scope, expr->name.name);
}

static void warn_hidden(Scope *scope, const Expr *name) {
    Resolver *r = scope->resolver;
    Name hidden = name->name.name;
    Diag *diag =
        diag_warning(r->diags, "extent", name->span,
                     "'%s' is the tensor here, not the extent of dim '%s'", hidden, hidden);
    diag_note(diag, scope_find(scope, hidden)->name.span, "declared here");
    diag_hint(diag, "give the tensor another name; where the tensor is meant, write '%s%s'", hidden,
              dimlist_text(r->arena, &name->result));
}

// sqrt(k), k ** -0.5
static bool is_root(const Expr *expr) {
    if (expr->kind == EXPR_BINARY && expr->oper == OPER_POW)
        return expr->args.at[1]->is_literal && elem_is_float(expr->args.at[1]->elem);
    return expr->kind == EXPR_CALL &&
           (expr->builtin == BUILTIN_SQRT || expr->builtin == BUILTIN_RSQRT);
}

// Names in a divisor; those in a divisor in it, or under a root, are its own.
static void check_divisor(Scope *scope, const Expr *divisor, const Expr *dividend) {
    if (hides_dim(scope, divisor) && !dimlist_within(&divisor->result, &dividend->result))
        warn_hidden(scope, divisor);
    bool inner = divisor->kind == EXPR_UNARY || divisor->kind == EXPR_BINARY ||
                 (divisor->kind == EXPR_CALL && call_is_pointwise(divisor));
    uint32_t n = inner && !is_root(divisor) ? divisor->args.count : 0;
    if (divisor->kind == EXPR_BINARY && divides(divisor->oper))
        n = n ? 1 : 0;
    for (uint32_t i = 0; i < n; i++)
        check_divisor(scope, divisor->args.at[i], dividend);
}

static void check_hidden(Scope *scope, const Expr *expr) {
    if (is_root(expr) && hides_dim(scope, expr->args.at[0]))
        warn_hidden(scope, expr->args.at[0]);
    if (expr->kind == EXPR_BINARY && divides(expr->oper) && expr->oper != OPER_POW)
        check_divisor(scope, expr->args.at[1], expr->args.at[0]);
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

static void check_numbers(Scope *scope, const Expr *expr) {
    if (!expr->ok || expr->kind == EXPR_REF ||
        (expr->kind == EXPR_BINARY && check_alike(scope, expr)))
        return;
    check_hidden(scope, expr);
    for (uint32_t i = 0; i < expr->args.count; i++)
        if (!moves_positions(expr, i))
            check_numbers(scope, expr->args.at[i]);
}

// Requires: the value of a statement that is resolved.
void resolve_warn_numbers(Scope *scope, const Expr *value) {
    if (!scope_in_prelude(scope))
        check_numbers(scope, value);
}
