// SPDX-License-Identifier: Apache-2.0
// Element types: what operands meet in, what may go where without a cast.
//
// There are three kinds: floats, ints and bool, and no conversion from or to bool without a word.
// Literals (numbers, extents, loop variables) take the type of what they meet, except that a number
// with a fraction makes an int tensor f32.
#include "ast/resolve/resolve.h"

// Order in which types of one kind are wider.
static int elem_rank(Elem elem) {
    switch (elem) {
    case ELEM_F64:
        return 3;
    case ELEM_F32:
    case ELEM_I64:
        return 2;
    default:
        return 1;
    }
}

Elem elem_promote(Elem a, Elem b) {
    if (a == b)
        return a;
    if (a == ELEM_LOST || b == ELEM_LOST)
        return ELEM_LOST;
    if (a == ELEM_BOOL || b == ELEM_BOOL) // told of by the caller
        return ELEM_BOOL;
    if (elem_is_float(a) != elem_is_float(b))
        return elem_is_float(a) ? a : b;
    if (elem_rank(a) == elem_rank(b)) // f16 and bf16 hold different numbers
        return ELEM_F32;
    return elem_rank(a) > elem_rank(b) ? a : b;
}

// zeros and ones are f32 by themselves and whole numbers where they meet some.
static bool literal_is_whole(const Expr *literal) {
    return elem_is_int(literal->elem) || literal->is_whole;
}

Elem expr_common_elem(const Expr *a, const Expr *b) {
    if (a->is_literal == b->is_literal)
        return elem_promote(a->elem, b->elem);
    const Expr *literal = a->is_literal ? a : b;
    Elem tensor = a->is_literal ? b->elem : a->elem;
    if (tensor == ELEM_LOST)
        return tensor;
    return !literal_is_whole(literal) && elem_is_int(tensor) ? ELEM_F32 : tensor;
}

void elem_meet(Expr *result, const Expr *operand, bool first) {
    result->is_whole = literal_is_whole(operand) && (first || literal_is_whole(result));
    result->elem = first ? operand->elem : expr_common_elem(result, operand);
    result->is_literal = operand->is_literal && (first || result->is_literal);
}

bool elem_accepts(Elem to, const Expr *from) {
    if (to == from->elem || from->elem == ELEM_LOST || to == ELEM_LOST)
        return true;
    if (to == ELEM_BOOL || from->elem == ELEM_BOOL)
        return false;
    if (from->is_literal)
        return elem_is_float(to) || literal_is_whole(from);
    return elem_is_float(to) == elem_is_float(from->elem) && elem_rank(to) > elem_rank(from->elem);
}

// told: what was told of another operand already, or NULL.
static bool expect(Scope *scope, const Expr *expr, bool is_bool, const char *where, Diag **told) {
    bool wrong = expr->ok && expr->elem != ELEM_LOST && (expr->elem == ELEM_BOOL) != is_bool;
    if (!wrong)
        return expr->ok;
    if (*told) {
        diag_note(*told, expr->span, "and this is %s", elem_name(expr->elem));
        return false;
    }
    *told = diag_error(scope->resolver->diags, expr->span, "%s takes %s, this is %s", where,
                       is_bool ? "bool" : "numbers", elem_name(expr->elem));
    diag_hint(*told, is_bool ? "compare it with something, or write bool(...) for 'not zero'"
                             : "f32(...) makes true 1 and false 0; where(condition, a, b) chooses");
    return false;
}

bool resolve_expect_bool(Scope *scope, const Expr *expr, const char *where) {
    return expect(scope, expr, true, where, &(Diag *){NULL});
}

bool resolve_expect_number(Scope *scope, const Expr *expr, const char *where) {
    return expect(scope, expr, false, where, &(Diag *){NULL});
}

static bool expect_all(Scope *scope, const ExprList *list, bool is_bool, const char *where) {
    Diag *told = NULL;
    bool fine = true;
    for (uint32_t i = 0; i < list->count; i++)
        fine = expect(scope, list->at[i], is_bool, where, &told) && fine;
    return fine;
}

bool resolve_expect_bools(Scope *scope, const ExprList *list, const char *where) {
    return expect_all(scope, list, true, where);
}

bool resolve_expect_numbers(Scope *scope, const ExprList *list, const char *where) {
    return expect_all(scope, list, false, where);
}

bool resolve_expect_int(Scope *scope, const Expr *expr, const char *where) {
    if (!expr->ok || expr->elem == ELEM_LOST || elem_is_int(expr->elem))
        return expr->ok;
    Diag *diag = diag_error(scope->resolver->diags, expr->span,
                            "%s takes whole numbers, this is %s", where, elem_name(expr->elem));
    if (expr->kind == EXPR_NAME || expr->kind == EXPR_REF)
        diag_hint(diag, "declare it as '%s[...]: i32', or write i32(...)", expr->name.name);
    else
        diag_hint(diag, "i32(...) or i64(...) makes it whole");
    return false;
}

bool elem_is_mixed(const Expr *a, const Expr *b) {
    if (a->elem == ELEM_LOST || b->elem == ELEM_LOST)
        return false;
    return (a->elem == ELEM_BOOL) != (b->elem == ELEM_BOOL);
}

Elem elem_made_float(Elem elem) {
    return elem != ELEM_LOST && elem_is_float(elem) ? elem : ELEM_F32;
}

Elem elem_of_float_function(const Expr *arg) {
    return elem_made_float(arg->elem);
}
