// SPDX-License-Identifier: Apache-2.0
// Expressions: names and operators. Fills ok, elem, is_literal and result of every node.
//
// What is wanted of an expression (the dims of its assignment's target) goes down through whatever
// keeps dims: signs, sums, products and quotients with scalars, pointwise functions, softmax. It
// stops everywhere else, so an einsum there has to write `-> [..]`.
#include "ast/resolve/resolve.h"

// ---- nodes --------------------------------------------------------------------------------------

void expr_poison(Expr *expr) {
    expr->ok = false;
}

void expr_set(Expr *expr, NameList dims, Elem elem) {
    expr->ok = true;
    expr->result = dims;
    expr->elem = elem;
}

bool expr_is_tensor(const Expr *expr) {
    return expr->kind == EXPR_NAME || (expr->kind == EXPR_REF && !expr->args.count);
}

Span expr_dim_place(const Expr *expr, Name dim) {
    if (expr->kind == EXPR_REF) {
        const Ident *ident = idents_find(&expr->dims, dim);
        return ident ? ident->span : expr->span;
    }
    for (uint32_t i = 0; i < expr->args.count; i++)
        if (namelist_has(&expr->args.at[i]->result, dim))
            return expr_dim_place(expr->args.at[i], dim);
    return expr->span;
}

const char *expr_dims_over(Arena *arena, const Expr *expr, Name from, Name to) {
    NameList dims = expr->steps.count ? dimlist_of(arena, &expr->dims) : expr->result;
    dims = dimlist_replaced(arena, &dims, from, to);
    return dimlist_text(arena, &dims);
}

// ---- names --------------------------------------------------------------------------------------

static void set_literal(Expr *expr, NameKind kind, Elem elem) {
    expr->name_kind = kind;
    expr->is_literal = true;
    expr_set(expr, (NameList){0}, elem);
}

static void resolve_name(Scope *scope, Expr *expr) {
    Name name = expr->name.name;
    const Symbol *symbol = scope_find(scope, name);
    if (!symbol && !scope_find_past(scope, name) && scope_knows_dim(scope, name)) {
        set_literal(expr, NAME_EXTENT, ELEM_I64);
        scope_add_alike(scope, name);
        scope_add_counted(scope, name);
        return;
    }
    symbol = scope_use(scope, expr->name, true);
    if (!symbol) {
        expr_poison(expr);
    } else if (symbol->kind == SYMBOL_LOOP) {
        set_literal(expr, NAME_LOOP, ELEM_I64);
    } else if (symbol->kind == SYMBOL_STEP) {
        expr->name_kind = NAME_STEP;
        expr_set(expr, (NameList){0}, ELEM_I64);
    } else if (!scan_check_whole(scope, expr, symbol, NULL)) {
        expr_poison(expr);
    } else {
        expr->name_kind = NAME_TENSOR;
        expr_set(expr, symbol->dims, symbol->elem);
        expr->ok = symbol->ok && !symbol->doubtful;
    }
}

// ---- operators ----------------------------------------------------------------------------------

bool oper_compares(Oper oper) {
    return oper >= OPER_EQ && oper <= OPER_GE;
}

static bool is_sum(Oper oper) {
    return oper == OPER_ADD || oper == OPER_SUB;
}

static bool expr_needs_dims(const Expr *expr) {
    static const bool reads_wanted[N_BUILTIN + 1] = {[BUILTIN_EINSUM] = true,
                                                     [BUILTIN_SLICE] = true,
                                                     [BUILTIN_CONCAT] = true,
                                                     [BUILTIN_FULL] = true};
    if (expr->kind == EXPR_UNARY || expr->kind == EXPR_BINARY) {
        for (uint32_t i = 0; i < expr->args.count; i++)
            if (expr_needs_dims(expr->args.at[i]))
                return true;
        return false;
    }
    if (expr->has_arrow || (expr->kind != EXPR_CALL && expr->kind != EXPR_ARRAY))
        return false;
    if (expr->kind == EXPR_ARRAY || reads_wanted[builtin_find(expr->name.name)])
        return true;
    if (!call_passes_wanted(expr))
        return false;
    for (uint32_t i = 0; i < expr->args.count; i++)
        if (expr_needs_dims(expr->args.at[i]))
            return true;
    return false;
}

static void resolve_unary(Scope *scope, Expr *expr, const Wanted *wanted) {
    Expr *a = expr->args.at[0];
    resolve_expr(scope, a, wanted);
    bool fine = expr->oper == OPER_NOT ? resolve_expect_bool(scope, a, "'not'")
                                       : resolve_expect_number(scope, a, "'-'");
    if (!fine) {
        expr_poison(expr);
        return;
    }
    expr->is_literal = a->is_literal && !a->result.count;
    expr_set(expr, a->result, a->elem);
}

// What is wanted of a product is wanted of a factor when the other one is a scalar; see
// call_wanted. A term of a sum of which nothing is wanted is told of beside the other one.
static void resolve_beside(Scope *scope, Expr *a, Expr *b, const Wanted *wanted, bool in_sum) {
    bool a_needs = expr_needs_dims(a), b_needs = expr_needs_dims(b);
    if (a_needs == b_needs) {
        resolve_expr(scope, a, NULL);
        resolve_expr(scope, b, NULL);
        return;
    }
    Expr *needy = a_needs ? a : b, *other = a_needs ? b : a;
    Wanted own = wanted ? *wanted : (Wanted){.in_sum = in_sum};
    resolve_expr(scope, other, NULL);
    own.silent = own.silent || !other->ok;
    own.beside = other->ok && other->result.count ? other : own.beside;
    resolve_expr(scope, needy, wanted || own.silent || own.beside ? &own : NULL);
}

// Numbers alone, without an extent.
static bool is_written_out(const Expr *expr) {
    bool written = expr->ok && expr->is_literal && expr->kind != EXPR_NAME;
    for (uint32_t i = 0; i < expr->args.count && written; i++)
        written = is_written_out(expr->args.at[i]);
    return written;
}

// 2 ** 24, and not 2 ** -1.
static bool is_whole_power(const Scope *scope, const Expr *expr, const Expr *a, const Expr *b) {
    double exponent;
    return expr->oper == OPER_POW && is_written_out(a) && is_written_out(b) &&
           expr_evaluate(scope->resolver->session, NULL, b, NULL, 0, &exponent) && exponent >= 0;
}

static Elem binary_elem(const Scope *scope, const Expr *expr, const Expr *a, const Expr *b) {
    if (oper_compares(expr->oper) || expr->oper == OPER_AND || expr->oper == OPER_OR)
        return ELEM_BOOL;
    Elem elem = expr_common_elem(a, b);
    bool float_result = expr->oper == OPER_DIV ||
                        (expr->oper == OPER_POW && !is_whole_power(scope, expr, a, b));
    return float_result ? elem_made_float(elem) : elem;
}

static bool check_operands(Scope *scope, const Expr *expr, const Expr *a, const Expr *b) {
    const char *where = arena_printf(scope->resolver->arena, "'%s'", oper_text(expr->oper));
    if (expr->oper == OPER_AND || expr->oper == OPER_OR)
        return resolve_expect_bools(scope, &expr->args, where);
    bool equality = expr->oper == OPER_EQ || expr->oper == OPER_NE;
    if (equality && a->ok && b->ok && a->elem == ELEM_BOOL && b->elem == ELEM_BOOL)
        return true;
    return resolve_expect_numbers(scope, &expr->args, where);
}

static void resolve_binary(Scope *scope, Expr *expr, const Wanted *wanted) {
    Expr *a = expr->args.at[0], *b = expr->args.at[1];
    bool product = !is_sum(expr->oper) && !oper_compares(expr->oper) && expr->oper != OPER_AND &&
                   expr->oper != OPER_OR;
    bool sums = is_sum(expr->oper) && !wanted;
    if (product || sums) {
        resolve_beside(scope, a, b, wanted, sums);
    } else {
        Wanted term = wanted ? *wanted : (Wanted){0};
        term.in_sum = true;
        resolve_expr(scope, a, wanted ? &term : NULL);
        resolve_expr(scope, b, wanted ? &term : NULL);
    }
    if (!check_operands(scope, expr, a, b)) {
        expr_poison(expr);
        return;
    }
    expr->is_literal = a->is_literal && b->is_literal && !a->result.count && !b->result.count;
    expr_set(expr, dimlist_union(scope->resolver->arena, &a->result, &b->result),
             binary_elem(scope, expr, a, b));
    resolve_warn_outer(scope, expr);
    resolve_warn_difference(scope, expr);
}

// ---- dispatch -----------------------------------------------------------------------------------

static void resolve_tuple(Scope *scope, Expr *expr) {
    Diag *diag =
        diag_error(scope->resolver->diags, expr->span, "a list does not stand for a value");
    diag_hint(diag, "lists are for dims, as in reduced_dim=(n, m)");
    expr_poison(expr);
}

void resolve_expr(Scope *scope, Expr *expr, const Wanted *wanted) {
    switch (expr->kind) {
    case EXPR_NUMBER:
        expr->is_literal = true;
        expr_set(expr, (NameList){0}, expr->is_integer ? ELEM_I64 : ELEM_F32);
        break;
    case EXPR_NAME:
        resolve_name(scope, expr);
        break;
    case EXPR_REF:
        resolve_reference(scope, expr, false);
        break;
    case EXPR_UNARY:
        resolve_unary(scope, expr, wanted);
        break;
    case EXPR_BINARY:
        resolve_binary(scope, expr, wanted);
        break;
    case EXPR_CALL:
        if (builtin_find(expr->name.name) != BUILTIN_NONE)
            resolve_builtin(scope, expr, wanted);
        else
            resolve_call(scope, expr);
        break;
    case EXPR_TUPLE:
        resolve_tuple(scope, expr);
        break;
    case EXPR_ARRAY:
        resolve_array(scope, expr, wanted);
        break;
    case EXPR_RESULT:
        resolve_result(scope, expr);
        break;
    case EXPR_ERROR:
    case EXPR_FOREIGN:
        expr_poison(expr);
        break;
    }
}

bool expr_may_be_number(const Expr *expr) {
    bool inner = expr->kind == EXPR_UNARY || expr->kind == EXPR_BINARY ||
                 (expr->kind == EXPR_CALL && call_is_pointwise(expr));
    for (uint32_t i = 0; inner && i < expr->args.count; i++)
        if (!expr_may_be_number(expr->args.at[i]))
            return false;
    return inner || expr->kind == EXPR_NUMBER || expr->kind == EXPR_NAME;
}

void resolve_number(Scope *scope, Expr *expr, const char *what) {
    bool number = expr_may_be_number(expr);
    if (number)
        resolve_expr(scope, expr, NULL);
    if (number && (!expr->ok || (expr->is_literal && expr->elem != ELEM_BOOL)))
        return;
    Diag *diag = diag_error(scope->resolver->diags, expr->span,
                            "%s must be a number known before the tensors are", what);
    diag_hint(diag, "it may be made of numbers, dims and loop variables");
    expr_poison(expr);
}
