// SPDX-License-Identifier: Apache-2.0
// The meaning of names, operators and forms of other languages; see meant.h.
//
//     True                bool(1)
//     a if n > 3 else b   where(n > 3, a, b)
#include "ast/resolve/meant/meant.h"

#include <string.h>

// Of what is read for one hint; what is left then has no meaning.
enum { DEEPEST = 60, MOST_STEPS = 2000 };

Meaning meaning_in(Scope *scope) {
    Resolver *r = scope->resolver;
    return (Meaning){.scope = scope, .arena = r->arena, .program = r->program};
}

void meant_remark(Meaning *m, const char *remark) {
    if (!m->remark)
        m->remark = remark;
    else if (!strstr(m->remark, remark))
        m->remark = arena_printf(m->arena, "%s, %s", m->remark, remark);
}

// ---- texts

Meant meant_with_dims(const char *text, Holds holds, NameList dims) {
    return (Meant){.text = text, .holds = holds, .has_dims = text != NULL, .dims = dims};
}

const char *meant_within(const Meaning *m, const Meant *part, Holds outer) {
    if (!part->text || part->holds >= outer)
        return part->text;
    return arena_printf(m->arena, "(%s)", part->text);
}

static bool is_made(const Meaning *m, Name name) {
    for (uint32_t i = 0; i < m->made.count; i++)
        if (m->made.at[i].dim == name)
            return true;
    return false;
}

Name meant_fresh(const Meaning *m, Name of, const char *suffix) {
    NameList made = {0};
    for (uint32_t i = 0; i < m->made.count; i++)
        vec_push(m->arena, &made, m->made.at[i].dim);
    const char *stem = name_unprimed(m->scope->resolver->session->names, of);
    const char *name = suffix ? arena_printf(m->arena, "%s_%s", stem, suffix) : stem;
    return scope_free_name(m->scope, name, &made);
}

int64_t meant_extent(const Meaning *m, Name dim) {
    const Session *session = m->scope->resolver->session;
    bool given = program_extent_given(session, m->program, dim);
    int64_t extent = given ? 0 : program_extent(session, m->program, dim);
    return extent > 0 ? extent : 0;
}

void meant_declare(Meaning *m, Name dim, const char *extent) {
    if (!is_made(m, dim))
        vec_push(m->arena, &m->made, ((Made){.dim = dim, .extent = extent, .beside = true}));
}

Name meant_made(Meaning *m, const Made *made) {
    for (uint32_t i = 0; i < m->made.count; i++) {
        Made *before = &m->made.at[i];
        if (before->of != made->of || strcmp(before->suffix, made->suffix) != 0)
            continue;
        bool both = made->known && before->known;
        if (!strcmp(before->extent, made->extent) || (both && made->known == before->known))
            return before->dim;
        if (both || m->apart)
            continue;
        if (before->beside && !(before->shared && made->shared))
            return NULL;
        before->extent = before->beside ? before->shared : before->extent;
        return before->dim;
    }
    Made own = *made;
    own.dim = meant_fresh(m, made->of, made->suffix);
    vec_push(m->arena, &m->made, own);
    return own.dim;
}

const char *meant_over(const Meaning *m, const Meant *of, const NameList *dims) {
    NameList own = {0};
    if (of->swapped) {
        own = dimlist_minus(m->arena, dims, &own);
        own.at[own.count - 1] = dims->at[own.count - 2];
        own.at[own.count - 2] = dims->at[own.count - 1];
        dims = &own;
    }
    if (of->tensor)
        return arena_printf(m->arena, "%s%s", of->tensor, dimlist_text(m->arena, dims));
    return dimlist_equal(&of->dims, dims) ? of->text : NULL;
}

// ---- names and numbers

Meant meant_name(Meaning *m, const Expr *expr) {
    Name name = expr->name.name;
    Symbol *symbol = scope_find(m->scope, name);
    if (symbol) {
        symbol->used = true;
        Meant found = meant_with_dims(name, HOLDS_ALL, symbol->dims);
        found.has_dims = symbol->ok && !symbol->doubtful;
        found.tensor = symbol->kind == SYMBOL_LOOP ? NULL : name;
        return found;
    }
    if (scope_knows_dim(m->scope, name))
        return meant_with_dims(name, HOLDS_ALL, (NameList){0});
    const char *constant = word_constant(name);
    if (!constant)
        return (Meant){0};
    Holds holds = strchr(constant, ' ') ? HOLDS_SUM : HOLDS_ALL; // inf - inf
    return meant_with_dims(constant, holds, (NameList){0});
}

const char *meant_position(const Meaning *m, const Expr *position, const Meant *value, Name dim) {
    const Expr *number = expr_unsigned(position);
    int64_t whole;
    if (expr_whole(position, &whole))
        return whole < 0 ? arena_printf(m->arena, "%s - %lld", dim, -(long long)whole)
                         : arena_printf(m->arena, "%lld", (long long)whole);
    if (number->kind == EXPR_NUMBER || !value->text)
        return NULL;
    return number == position
               ? value->text
               : arena_printf(m->arena, "%s - %s", dim, meant_within(m, value, HOLDS_PRODUCT));
}

const char *meant_number(Meaning *m, const Expr *position, Name dim) {
    Meant number = meant(m, expr_unsigned(position));
    return meant_position(m, position, &number, dim);
}

// ---- operators

static const Holds oper_holds[N_OPER] = {
    [OPER_NEG] = HOLDS_SIGN,         [OPER_NOT] = HOLDS_NOT,       [OPER_ADD] = HOLDS_SUM,
    [OPER_SUB] = HOLDS_SUM,          [OPER_MUL] = HOLDS_PRODUCT,   [OPER_DIV] = HOLDS_PRODUCT,
    [OPER_FLOORDIV] = HOLDS_PRODUCT, [OPER_MOD] = HOLDS_PRODUCT,   [OPER_POW] = HOLDS_POWER,
    [OPER_EQ] = HOLDS_COMPARISON,    [OPER_NE] = HOLDS_COMPARISON, [OPER_LT] = HOLDS_COMPARISON,
    [OPER_LE] = HOLDS_COMPARISON,    [OPER_GT] = HOLDS_COMPARISON, [OPER_GE] = HOLDS_COMPARISON,
    [OPER_AND] = HOLDS_AND,          [OPER_OR] = HOLDS_OR,
};

Meant meant_binary(Meaning *m, Oper oper, const Meant *a, const Meant *b) {
    Holds own = oper_holds[oper], left = own, right = own + 1;
    if (own == HOLDS_COMPARISON)
        left = own + 1;
    if (own == HOLDS_POWER)
        left = HOLDS_ALL, right = HOLDS_SIGN;
    if (!a->text || !b->text)
        return (Meant){0};
    Meant result = *a, second = *b;
    if (!meant_meet(m, &result, &second))
        return (Meant){0};
    const char *text = arena_printf(m->arena, "%s %s %s", meant_within(m, a, left), oper_text(oper),
                                    meant_within(m, &second, right));
    return meant_placed_as(text, own, &result);
}

static Meant meant_unary(Meaning *m, const Expr *expr) {
    Meant a = meant(m, expr->args.at[0]);
    Holds own = oper_holds[expr->oper];
    const char *inner = meant_within(m, &a, own);
    if (!inner)
        return (Meant){0};
    const char *space = expr->oper == OPER_NOT ? " " : "";
    const char *text = arena_printf(m->arena, "%s%s%s", oper_text(expr->oper), space, inner);
    return meant_placed_as(text, own, &a);
}

Meant meant_where(Meaning *m, const Meant *condition, const Meant *a, const Meant *b) {
    if (!condition->text || !a->text || !b->text)
        return (Meant){0};
    Meant all = *condition, first = *a, second = *b;
    if (!meant_meet(m, &all, &first) || !meant_meet(m, &all, &second))
        return (Meant){0};
    const char *text =
        arena_printf(m->arena, "where(%s, %s, %s)", condition->text, first.text, second.text);
    return meant_placed_as(text, HOLDS_ALL, &all);
}

static Meant meant_choice(Meaning *m, const Expr *expr) {
    Meant condition = meant_condition(m, expr->args.at[0]), a = meant(m, expr->args.at[1]);
    Meant b = meant(m, expr->args.at[2]);
    return meant_where(m, &condition, &a, &b);
}

// f(a, b -> [dims]), where something in the arguments is of another language.
static Meant meant_arrow(Meaning *m, const Expr *call) {
    Text text = {.arena = m->arena};
    bool einsum = builtin_find(call->name.name) == BUILTIN_EINSUM, known = true, moved = false;
    NameList read = {0}; // by the arguments
    text_printf(&text, "%s(", call->name.name);
    for (uint32_t i = 0; i < call->args.count; i++) {
        Meant arg = meant(m, call->args.at[i]);
        if (!arg.text)
            return arg;
        known = known && arg.has_dims;
        moved = moved || arg.moved;
        read = dimlist_union(m->arena, &read, &arg.dims);
        text_printf(&text, "%s%s", i ? ", " : "", arg.text);
    }
    NameList dims = dimlist_of(m->arena, &call->dims);
    NameList lacking = dimlist_minus(m->arena, &dims, &read);
    text_printf(&text, " -> %s)", dimlist_text(m->arena, &dims));
    bool fine = !call->keys.count && !moved && dims.count == call->dims.count &&
                (!einsum || !known || !lacking.count);
    return !fine ? (Meant){0} : meant_with_dims(text.at, HOLDS_ALL, dims);
}

// ---- members

bool meant_is_module(const Meaning *m, const Expr *expr) {
    while (expr_is_foreign(expr, FOREIGN_MEMBER))
        expr = expr->args.at[0];
    bool module = expr->kind == EXPR_NAME && word_is_module(expr->name.name);
    return module && !scope_find(m->scope, expr->name.name);
}

static Meant meant_member(Meaning *m, const Expr *expr) {
    const Expr *of = expr->args.at[0];
    bool self = of->kind == EXPR_NAME && !strcmp(of->name.name, "self");
    if (self || meant_is_module(m, of)) {
        Expr name = {.kind = EXPR_NAME, .name = expr->name};
        return meant_name(m, &name);
    }
    const char *hint;
    return meant_function(m, expr, &expr->args, &hint);
}

static Meant meant_method(Meaning *m, const Expr *expr) {
    ExprList args = expr->args;
    const char *hint;
    if (meant_is_module(m, args.at[0])) {
        args.at++;
        args.count--;
    }
    return meant_function(m, expr, &args, &hint);
}

static Meant meant_foreign(Meaning *m, const Expr *expr) {
    switch (expr->foreign) {
    case FOREIGN_MATMUL: {
        Meant a = meant(m, expr->args.at[0]), b = meant(m, expr->args.at[1]);
        return meant_product(m, &a, &b);
    }
    case FOREIGN_MEMBER:
        return meant_member(m, expr);
    case FOREIGN_METHOD:
        return meant_method(m, expr);
    case FOREIGN_ITEMS:
        return meant_items(m, expr);
    case FOREIGN_CHOICE:
        return meant_choice(m, expr);
    default:
        return (Meant){0};
    }
}

Meant meant(Meaning *m, const Expr *expr) {
    Meant found = {0};
    const char *hint;
    if (m->depth == DEEPEST || m->steps++ >= MOST_STEPS)
        return found;
    m->depth++;
    switch (expr->kind) {
    case EXPR_NUMBER:
        found =
            meant_with_dims(span_text(m->scope->resolver->session->sources, expr->span, m->arena),
                            HOLDS_ALL, (NameList){0});
        break;
    case EXPR_NAME:
        found = meant_name(m, expr);
        break;
    case EXPR_REF:
        found = meant_reference(m, expr);
        break;
    case EXPR_UNARY:
        found = meant_unary(m, expr);
        break;
    case EXPR_BINARY: {
        Meant a = meant(m, expr->args.at[0]), b = meant(m, expr->args.at[1]);
        found = meant_binary(m, expr->oper, &a, &b);
        break;
    }
    case EXPR_CALL:
        if (expr->into.count)
            break;
        if (expr->has_arrow)
            found = meant_arrow(m, expr);
        else if (!expr->label.name)
            found = meant_function(m, expr, &expr->args, &hint);
        break;
    case EXPR_FOREIGN:
        found = meant_foreign(m, expr);
        break;
    default:
        break;
    }
    m->depth--;
    if (found.pair && m->depth)
        return (Meant){0};
    return found.text && strlen(found.text) > LONGEST_HINT ? (Meant){0} : found;
}
