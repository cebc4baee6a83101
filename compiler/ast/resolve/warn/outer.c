// SPDX-License-Identifier: Apache-2.0
// Warning outer: a call's result, or a vector, that meets a tensor over a dim that is only like its
// own.
//
//     dim e like d
//     def F(X[n, d], W[d, e]): return einsum(X, W -> [n, e])
//     Y = X + F(X, W)                 Y[n, d, e]: every d with every e, where Y[n, d] is meant
//
//     X + b                           of X[n, d] and b[d'], where b[d] is meant
//
//     Y = einsum(W[n, n'], X[n, d] -> [n', d])
//     X + Y                           Y is mixed from positions n and is over n' alone: its
//                                     positions are those of X, [n, d, n'] has every pair
//
// Where positions are to meet in pairs their dims are in the text of the operands or of the result,
// so that only what is inferred from a call, and is not in its arguments, counts; and of tensors
// the bare name of a vector that is given, beside what has more dims than one. Positions are
// compared in pairs on purpose, and vectors of two kinds are added in pairs (additive attention):
// only a sum of two tensors that differ in this dim alone counts, where what the name stands for
// was computed from something over the other's dim and has lost it.
#include "ast/resolve/resolve.h"

// The call that a value is the result of: through names that state no dims, and products with
// numbers.
static const Expr *called(Scope *scope, const Expr *expr) {
    for (uint32_t steps = 0; steps < 16; steps++) {
        if (expr->kind == EXPR_CALL)
            return expr->callee ? expr : NULL;
        if (expr->kind == EXPR_UNARY || expr->kind == EXPR_BINARY) {
            uint32_t last = expr->args.count - 1;
            if (last && expr->args.at[0]->result.count && expr->args.at[1]->result.count)
                return NULL;
            expr = expr->args.at[expr->args.at[0]->result.count ? 0 : last];
            continue;
        }
        const Symbol *symbol = expr->kind == EXPR_NAME ? scope_find(scope, expr->name.name) : NULL;
        if (!symbol || symbol->kind != SYMBOL_LOCAL || symbol->brackets || !symbol->value)
            return NULL;
        expr = symbol->value;
    }
    return NULL;
}

static bool is_argument_dim(const Expr *call, Name dim) {
    for (uint32_t i = 0; i < call->args.count; i++)
        if (namelist_has(&call->args.at[i]->result, dim))
            return true;
    return false;
}

// A dim of `other` alone that is like `own`, a dim of `result` alone.
static Name alike_of(const Program *program, const NameList *result, Name own,
                     const NameList *other) {
    for (uint32_t i = 0; i < other->count; i++)
        if (!namelist_has(result, other->at[i]) && program_dims_alike(program, own, other->at[i]))
            return other->at[i];
    return NULL;
}

static void warn(Scope *scope, Name bringer, const Expr *operand, Name own, const Expr *other,
                 Name like) {
    Resolver *r = scope->resolver;
    Diag *diag =
        diag_warning(r->diags, "outer", operand->span,
                     "the result is over '%s' and '%s': '%s' brings '%s', which is only like '%s'",
                     like, own, bringer, own, like);
    diag_note(diag, expr_dim_place(other, like), "'%s' comes from here", like);
    NameList read = dimlist_replaced(r->arena, &operand->result, own, like);
    const char *brackets = dimlist_text(r->arena, &read);
    if (operand->kind == EXPR_NAME)
        diag_hint(diag, "read it as '%s%s', or state the dims of the result if both are meant",
                  operand->name.name, brackets);
    else
        diag_hint(diag,
                  "give the call a name and read 'name%s', or state the dims of the result if both "
                  "are meant",
                  brackets);
}

static bool warn_operand(Scope *scope, const Expr *operand, const Expr *other) {
    const Expr *call = called(scope, operand);
    for (uint32_t i = 0; call && i < operand->result.count; i++) {
        Name own = operand->result.at[i];
        if (namelist_has(&other->result, own) || is_argument_dim(call, own))
            continue;
        Name like = alike_of(scope->resolver->program, &operand->result, own, &other->result);
        if (like) {
            warn(scope, call->name.name, operand, own, other, like);
            return true;
        }
    }
    return false;
}

// A parameter or trained tensor over one dim, which is not in the text.
static bool is_given_vector(Scope *scope, const Expr *expr) {
    const Symbol *symbol = expr->kind == EXPR_NAME ? scope_find(scope, expr->name.name) : NULL;
    bool given = symbol && (symbol->kind == SYMBOL_ARGUMENT || symbol->kind == SYMBOL_TRAINED ||
                            symbol->kind == SYMBOL_GLOBAL);
    return given && expr->result.count == 1;
}

static bool warn_vector(Scope *scope, const Expr *operand, const Expr *other) {
    if (other->result.count < 2 || !is_given_vector(scope, operand))
        return false;
    Name own = operand->result.at[0];
    Name like = namelist_has(&other->result, own)
                    ? NULL
                    : alike_of(scope->resolver->program, &operand->result, own, &other->result);
    if (like)
        warn(scope, operand->name.name, operand, own, other, like);
    return like != NULL;
}

static bool is_over(const Expr *expr, const void *dim) {
    return namelist_has(&expr->result, dim);
}

static bool warn_mixed(Scope *scope, const Expr *operand, const Expr *other) {
    Resolver *r = scope->resolver;
    NameList owns = dimlist_minus(r->arena, &operand->result, &other->result);
    NameList likes = dimlist_minus(r->arena, &other->result, &operand->result);
    if (operand->kind != EXPR_NAME || operand->result.count < 2 || owns.count != 1 ||
        likes.count != 1 || !program_dims_alike(r->program, owns.at[0], likes.at[0]) ||
        !scope_made_of(scope, operand, is_over, likes.at[0]))
        return false;
    warn(scope, operand->name.name, operand, owns.at[0], other, likes.at[0]);
    return true;
}

void resolve_warn_outer(Scope *scope, const Expr *binary) {
    const Expr *a = binary->args.at[0], *b = binary->args.at[1];
    if (scope->stated || !a->ok || !b->ok || scope_in_prelude(scope))
        return;
    if (warn_operand(scope, b, a) || warn_operand(scope, a, b) || !elem_is_float(binary->elem))
        return;
    if (warn_vector(scope, b, a) || warn_vector(scope, a, b))
        return;
    if ((binary->oper == OPER_ADD || binary->oper == OPER_SUB) && !warn_mixed(scope, b, a))
        warn_mixed(scope, a, b);
}
