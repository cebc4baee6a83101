// SPDX-License-Identifier: Apache-2.0
// Parameters without brackets: their dims come from the first bracketed use in the body, or from
// the parameter of the def that they are handed on to (grammar/language.md 3.3).
//
//     def Concise(X, M, P):                          X[n, d]: from einsum(X[n, d], ...)
//         Y[n, d] = einsum(X[n, d], P[d, e], ...)
//         return Attend(Y, M)                        M[m, d]: from `def Attend(X[n, d], M[m, d])`
#include "ast/resolve/resolve.h"

// ---- a bracketed use ----------------------------------------------------------------------------

// The numbers of the loops around a place.
typedef struct Loop Loop;
struct Loop {
    Name variable;
    const Loop *outer;
};

// A number in the brackets does not say which dim it takes.
static bool names_all_dims(const Expr *ref, const Loop *loops) {
    for (; loops; loops = loops->outer)
        if (idents_find(&ref->dims, loops->variable))
            return false;
    return !ref->args.count;
}

// The dims in brackets, those that scans run over in the places of their variables. NULL when one
// would stand there twice: M[n, t] in `scan t in n:` does not say which dims M has.
static const IdentList *whole_brackets(Arena *arena, const IdentList *dims, const StepList *steps) {
    if (!steps->count)
        return dims;
    IdentList *whole = arena_new_of(arena, IdentList);
    *whole = steps_whole(arena, dims, steps);
    for (uint32_t i = 1; i < whole->count; i++)
        if (idents_find(whole, whole->at[i].name) != &whole->at[i])
            return NULL;
    return whole;
}

static const IdentList *brackets_in_expr(Arena *arena, const Expr *expr, Name name,
                                         const Loop *loops) {
    const IdentList *own = NULL;
    if (expr->kind == EXPR_REF && expr->name.name == name && names_all_dims(expr, loops))
        own = whole_brackets(arena, &expr->dims, &expr->steps);
    if (own)
        return own;
    for (uint32_t i = 0; i < expr->args.count; i++) {
        const IdentList *found = brackets_in_expr(arena, expr->args.at[i], name, loops);
        if (found)
            return found;
    }
    return NULL;
}

static const IdentList *brackets_in_body(Arena *arena, const StmtList *body, Name name,
                                         const Loop *loops) {
    const IdentList *found = NULL;
    for (uint32_t i = 0; i < body->count && !found; i++) {
        const Stmt *stmt = body->at[i];
        if (stmt->garbled)
            continue;
        if (stmt->kind == STMT_ASSIGN && stmt->target.name.name == name && stmt->target.has_dims)
            found = whole_brackets(arena, &stmt->target.dims, &stmt->target.steps);
        else if (stmt->kind == STMT_ASSIGN && stmt->value)
            found = brackets_in_expr(arena, stmt->value, name, loops);
        else if (stmt->kind == STMT_FOR)
            found = brackets_in_body(arena, &stmt->body, name, &(Loop){stmt->loop_var.name, loops});
        else if (stmt->kind == STMT_SCAN)
            found = brackets_in_body(arena, &stmt->body, name, loops);
        else if (stmt->kind == STMT_RETURN)
            for (uint32_t k = 0; k < stmt->results.count && !found; k++)
                found = brackets_in_expr(arena, stmt->results.at[k], name, loops);
    }
    return found;
}

// ---- a call that it is handed on to -------------------------------------------------------------

static const Expr *call_in_expr(const Expr *expr, Name name) {
    bool call = expr->kind == EXPR_CALL && builtin_find(expr->name.name) == BUILTIN_NONE;
    for (uint32_t i = 0; i < expr->args.count; i++) {
        const Expr *arg = expr->args.at[i];
        if (call && arg->kind == EXPR_NAME && arg->name.name == name)
            return expr;
        const Expr *found = call_in_expr(arg, name);
        if (found)
            return found;
    }
    return NULL;
}

static const Expr *call_in_body(const StmtList *body, Name name) {
    const Expr *found = NULL;
    for (uint32_t i = 0; i < body->count && !found; i++) {
        const Stmt *stmt = body->at[i];
        if (stmt->garbled)
            continue;
        if (stmt->kind == STMT_ASSIGN && stmt->value)
            found = call_in_expr(stmt->value, name);
        else if (stmt->kind == STMT_FOR || stmt->kind == STMT_SCAN)
            found = call_in_body(&stmt->body, name);
        else if (stmt->kind == STMT_RETURN)
            for (uint32_t k = 0; k < stmt->results.count && !found; k++)
                found = call_in_expr(stmt->results.at[k], name);
    }
    return found;
}

// The dims that an assignment states for a name.
static const IdentList *stated_dims(Arena *arena, const StmtList *body, Name name) {
    const IdentList *found = NULL;
    for (uint32_t i = 0; i < body->count && !found; i++) {
        const Stmt *stmt = body->at[i];
        bool declares = stmt->kind == STMT_ASSIGN || stmt->kind == STMT_PARAM;
        if (declares && stmt->target.name.name == name && stmt->target.has_dims &&
            !stmt->target.garbled)
            found = whole_brackets(arena, &stmt->target.dims, &stmt->target.steps);
        else if (stmt->kind == STMT_FOR || stmt->kind == STMT_SCAN)
            found = stated_dims(arena, &stmt->body, name);
    }
    return found;
}

// Dims that an argument is known to have before its def is checked.
static bool known_dims(Scope *scope, const Expr *arg, NameList *out) {
    Arena *arena = scope->resolver->arena;
    const Symbol *symbol = arg->kind == EXPR_NAME ? scope_find(scope, arg->name.name) : NULL;
    const IdentList *stated = NULL;
    if (arg->kind == EXPR_NAME && !symbol)
        stated = stated_dims(arena, &scope->def->body, arg->name.name);
    if (symbol && symbol->ok)
        *out = symbol->dims;
    else if (arg->kind == EXPR_REF)
        *out = steps_left(arena, &arg->dims, &arg->steps);
    else if (stated)
        *out = dimlist_of(arena, stated);
    else
        return false;
    return true;
}

static HandDims hands_of(Arena *arena, const Expr *call) {
    HandDims hands = {0};
    for (uint32_t i = 0; i < call->keys.count; i++)
        if (call->keys.at[i].value->kind == EXPR_NAME)
            vec_push(arena, &hands,
                     (HandDim){call->keys.at[i].key.name, call->keys.at[i].value->name});
    return hands;
}

// What a dim of the callee is called here, by hand or by the call's arguments with known dims.
static Name name_here(Scope *scope, const Def *callee, const Expr *call, Name formal) {
    Arena *arena = scope->resolver->arena;
    HandDims hands = hands_of(arena, call);
    for (uint32_t i = 0; i < hands.count; i++)
        if (hands.at[i].formal == formal)
            return hands.at[i].actual.name;
    for (uint32_t i = 0; i < callee->params.count && i < call->args.count; i++) {
        const NameList *formals = &callee->params.at[i].result;
        const Expr *arg = call->args.at[i];
        NameList actuals;
        if (!namelist_has(formals, formal) || !known_dims(scope, arg, &actuals))
            continue;
        ArgumentDims dims = bind_argument(arena, scope->resolver->program, formals, &actuals,
                                          expr_has_brackets(arg), &hands);
        for (uint32_t k = 0; dims.problem == BIND_FINE && k < formals->count; k++)
            if (formals->at[k] == formal)
                return dims.actuals.at[k];
    }
    return formal;
}

static bool infer_from_call(Scope *scope, Symbol *symbol) {
    Resolver *r = scope->resolver;
    const Expr *call = call_in_body(&scope->def->body, symbol->name.name);
    if (!call)
        return false;
    const Def *callee = program_find_callee(r->program, scope->def, call->name.name);
    if (!callee || callee->visit != VISIT_DONE)
        return true; // the call is told of
    for (uint32_t i = 0; i < callee->params.count && i < call->args.count; i++) {
        const Expr *arg = call->args.at[i];
        if (arg->kind != EXPR_NAME || arg->name.name != symbol->name.name)
            continue;
        const Tensor *param = &callee->params.at[i];
        for (uint32_t k = 0; param->ok && k < param->result.count; k++)
            dimlist_add(r->arena, &symbol->dims,
                        name_here(scope, callee, call, param->result.at[k]));
        symbol->ok = param->ok;
        break;
    }
    return true;
}

// ---- all of them --------------------------------------------------------------------------------

static void report_unknown_dims(Scope *scope, Symbol *symbol) {
    symbol->used = true;
    if (scope_incomplete(scope) || scope->def->garbled)
        return;
    Diag *diag = diag_error(scope->resolver->diags, symbol->name.span,
                            "nothing in '%s' says which dims '%s' has", scope->def->name.name,
                            symbol->name.name);
    diag_hint(diag, "write them here, '%s[...]', or '%s[]' for a number", symbol->name.name,
              symbol->name.name);
}

// Requires: a symbol for every parameter, those with brackets complete.
void scope_infer_arguments(Scope *scope) {
    for (uint32_t i = 0; i < scope->symbols.count; i++) {
        Symbol *symbol = scope->symbols.at[i];
        if (symbol->kind != SYMBOL_ARGUMENT || symbol->ok || symbol->doubtful)
            continue;
        symbol->brackets =
            brackets_in_body(scope->resolver->arena, &scope->def->body, symbol->name.name, NULL);
        if (symbol->brackets) {
            symbol->dims = dimlist_of(scope->resolver->arena, symbol->brackets);
            symbol->ok = true;
        } else if (!infer_from_call(scope, symbol)) {
            report_unknown_dims(scope, symbol);
        }
    }
}
