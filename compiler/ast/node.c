// SPDX-License-Identifier: Apache-2.0
// Constructors of the syntax tree.
#include "ast/ast.h"

#include <string.h>

Program *program_new(Arena *arena) {
    return arena_new_of(arena, Program);
}

static Expr *expr_new(Arena *arena, ExprKind kind, Span span) {
    Expr *expr = arena_new_of(arena, Expr);
    expr->kind = kind;
    expr->span = span;
    expr->builtin = BUILTIN_NONE;
    return expr;
}

static uint16_t depth_over(uint16_t depth, const Expr *below) {
    if (below->depth < depth)
        return depth;
    return below->depth < UINT16_MAX ? below->depth + 1 : UINT16_MAX;
}

Expr *expr_number(Arena *arena, Span span, double value, bool is_integer) {
    Expr *expr = expr_new(arena, EXPR_NUMBER, span);
    expr->number = value;
    expr->is_integer = is_integer;
    return expr;
}

Expr *expr_name(Arena *arena, Ident name) {
    Expr *expr = expr_new(arena, EXPR_NAME, name.span);
    expr->name = name;
    return expr;
}

Expr *expr_ref(Arena *arena, Span span, Ident name, ExprList items) {
    Expr *expr = expr_new(arena, EXPR_REF, span);
    expr->name = name;
    for (uint32_t i = 0; i < items.count; i++) {
        Expr *item = items.at[i];
        if (item->kind == EXPR_NAME) {
            vec_push(arena, &expr->dims, item->name);
            continue;
        }
        vec_push(arena, &expr->args, item);
        vec_push(arena, &expr->places, i);
        expr->depth = depth_over(expr->depth, item);
    }
    return expr;
}

Expr *expr_unary(Arena *arena, Span span, Oper oper, Expr *a) {
    Expr *expr = expr_new(arena, EXPR_UNARY, span);
    expr->oper = oper;
    expr->args = expr_list(arena, a);
    expr->depth = depth_over(1, a);
    return expr;
}

Expr *expr_binary(Arena *arena, Span span, Oper oper, Expr *a, Expr *b) {
    Expr *expr = expr_new(arena, EXPR_BINARY, span);
    expr->oper = oper;
    expr->args = expr_list(arena, a);
    vec_push(arena, &expr->args, b);
    expr->depth = depth_over(depth_over(1, a), b);
    return expr;
}

Expr *expr_call(Arena *arena, Span span, Ident name) {
    Expr *expr = expr_new(arena, EXPR_CALL, span);
    expr->name = name;
    expr->depth = 1;
    return expr;
}

static Expr *expr_items(Arena *arena, ExprKind kind, Span span, ExprList items) {
    Expr *expr = expr_new(arena, kind, span);
    expr->args = items;
    expr->depth = 1;
    for (uint32_t i = 0; i < items.count; i++)
        expr->depth = depth_over(expr->depth, items.at[i]);
    return expr;
}

Expr *expr_tuple(Arena *arena, Span span, ExprList items) {
    return expr_items(arena, EXPR_TUPLE, span, items);
}

Expr *expr_array(Arena *arena, Span span, ExprList items) {
    return expr_items(arena, EXPR_ARRAY, span, items);
}

Expr *expr_result(Arena *arena, Expr *call, uint32_t which, uint32_t n_results) {
    Expr *expr = expr_new(arena, EXPR_RESULT, call->span);
    expr->call = call;
    expr->which = which;
    expr->n_results = n_results;
    if (which == 0)
        expr->args = expr_list(arena, call);
    expr->depth = depth_over(1, call);
    return expr;
}

Expr *expr_error(Arena *arena, Span span) {
    return expr_new(arena, EXPR_ERROR, span);
}

Expr *expr_foreign(Arena *arena, Span span, Foreign foreign, ExprList args) {
    Expr *expr = expr_tuple(arena, span, args);
    expr->kind = EXPR_FOREIGN;
    expr->foreign = foreign;
    return expr;
}

void expr_set_args(Expr *call, ExprList args, KeyList keys) {
    call->args = args;
    call->keys = keys;
    for (uint32_t i = 0; i < args.count; i++)
        call->depth = depth_over(call->depth, args.at[i]);
    for (uint32_t i = 0; i < keys.count; i++)
        call->depth = depth_over(call->depth, keys.at[i].value);
}

ExprList expr_list(Arena *arena, Expr *only) {
    ExprList list = {0};
    vec_push(arena, &list, only);
    return list;
}

bool expr_is_foreign(const Expr *expr, Foreign form) {
    return expr->kind == EXPR_FOREIGN && expr->foreign == form;
}

const Expr *expr_unsigned(const Expr *expr) {
    return expr->kind == EXPR_UNARY && expr->oper == OPER_NEG ? expr->args.at[0] : expr;
}

bool expr_whole(const Expr *expr, int64_t *out) {
    const Expr *number = expr_unsigned(expr);
    if (number->kind != EXPR_NUMBER || !number->is_integer || number->number >= 0x1p53)
        return false;
    *out = number == expr ? (int64_t)number->number : -(int64_t)number->number;
    return true;
}

bool expr_is_count(const Expr *expr) {
    int64_t number;
    return expr_whole(expr, &number) && number >= 1;
}

const char *oper_text(Oper oper) {
    static const char *const text[N_OPER] = {
        [OPER_NEG] = "-",  [OPER_NOT] = "not", [OPER_ADD] = "+",       [OPER_SUB] = "-",
        [OPER_MUL] = "*",  [OPER_DIV] = "/",   [OPER_FLOORDIV] = "//", [OPER_MOD] = "%",
        [OPER_POW] = "**", [OPER_EQ] = "==",   [OPER_NE] = "!=",       [OPER_LT] = "<",
        [OPER_LE] = "<=",  [OPER_GT] = ">",    [OPER_GE] = ">=",       [OPER_AND] = "and",
        [OPER_OR] = "or",
    };
    return text[oper];
}

KeyArg *call_key(const Expr *call, const char *key) {
    for (uint32_t i = 0; i < call->keys.count; i++)
        if (!strcmp(call->keys.at[i].key.name, key))
            return &call->keys.at[i];
    return NULL;
}
