// SPDX-License-Identifier: Apache-2.0
// Hints for forms of other languages: the statement, or the part of it, as it is written here.
//
//     Y[n, k] = X @ W        hint: write 'Y[n, k] = einsum(X[n, d], W[d, k])'
//     Y += X                 hint: write 'Y_1 = Y + X' and go on with 'Y_1'
#include "ast/resolve/meant/meant.h"

#include <string.h>

static bool fits(const char *text) {
    return text && strlen(text) <= LONGEST_HINT;
}

// `, with 'dim d_top = 3' at the top of the file (halves go up)`
static const char *beside_text(const Meaning *m) {
    Text dims = {.arena = m->arena};
    for (uint32_t i = 0; i < m->made.count; i++)
        if (m->made.at[i].beside)
            text_printf(&dims, "%s%s = %s", dims.length ? ", " : "dim ", m->made.at[i].dim,
                        m->made.at[i].extent);
    const char *beside =
        dims.length ? arena_printf(m->arena, ", with '%s' at the top of the file", dims.at) : "";
    return m->remark ? arena_printf(m->arena, "%s (%s)", beside, m->remark) : beside;
}

// ---- assignments

// As it was written.
static const char *target_text(Scope *scope, const Tensor *target) {
    Arena *arena = scope->resolver->arena;
    NameList dims = dimlist_of(arena, &target->dims);
    return arena_printf(
        arena, "%s%s%s%s", target->name.name, target->has_dims ? dimlist_text(arena, &dims) : "",
        target->has_elem ? ": " : "", target->has_elem ? elem_name(target->elem) : "");
}

// The value for this target, NULL when the target says other dims. A dim that the text made a name
// for has the name that the target says.
static const char *value_for(Scope *scope, const Tensor *target, const Meant *value) {
    if (!target->has_dims || !value->has_dims)
        return value->text;
    Arena *arena = scope->resolver->arena;
    NameList stated = steps_left(arena, &target->dims, &target->steps);
    NameList lacking = dimlist_minus(arena, &stated, &value->dims);
    NameList extra = dimlist_minus(arena, &value->dims, &stated);
    if (!lacking.count && !extra.count)
        return value->open ? value->open : value->text;
    bool named = lacking.count == 1 && extra.count == 1 && extra.at[0] == value->fresh;
    return named ? value->open : NULL;
}

static void hint_update(Scope *scope, const Stmt *stmt) {
    Meaning m = meaning_in(scope);
    Arena *arena = m.arena;
    const Expr *update = stmt->value;
    Name name = stmt->target.name.name;
    Meant value = meant(&m, update->args.at[0]);
    Holds holds = update->name.name[0] == '+' ? HOLDS_SUM : HOLDS_ALL;
    const char *right = meant_within(&m, &value, holds);
    const char *text =
        right ? arena_printf(arena, "%s %s %s", name, update->name.name, right) : NULL;
    bool known = scope_find(scope, name) != NULL, carried = scope->depth && known;
    if (!known && fits(value.text) && !strcmp(update->name.name, "+"))
        diag_hint(stmt->foreign, "'%s' has no value before: write '%s = %s'", name, name,
                  value.text);
    else if (!known)
        diag_hint(stmt->foreign, "'%s' has no value before", name);
    if (!known || !fits(text) || strchr("@&|^", update->name.name[0]))
        return;
    Name fresh = meant_fresh(&m, name, NULL);
    if (carried)
        diag_hint(stmt->foreign, "write '%s = %s'%s", name, text, beside_text(&m));
    else
        diag_hint(stmt->foreign, "write '%s = %s' and go on with '%s'%s", fresh, text, fresh,
                  beside_text(&m));
}

// What there is to say of the first function in it.
static bool hint_part(Meaning *m, Diag *diag, const Expr *expr) {
    bool member = expr->kind == EXPR_FOREIGN &&
                  (expr->foreign == FOREIGN_METHOD || expr->foreign == FOREIGN_MEMBER);
    const char *hint = meant_unknown_place(m, expr);
    if (member || expr->kind == EXPR_CALL)
        meant_function(m, expr, &expr->args, &hint);
    bool unknown = member && meant_is_module(m, expr->args.at[0]) &&
                   !meant_knows(m, expr->name.name) && !scope_find(m->scope, expr->name.name);
    if (unknown && !hint) {
        diag_hint(diag, "there is no '%s' here either: language 5 and 9.2 have all functions",
                  expr->name.name);
        return true;
    }
    if (hint)
        diag_hint(diag, "%s", hint);
    for (uint32_t i = 0; i < expr->args.count && !hint; i++)
        if (hint_part(m, diag, expr->args.at[i]))
            return true;
    return hint != NULL;
}

// The assignment that one of a call's values goes to.
static const Stmt *assignment_of(const StmtList *body, const Expr *call, uint32_t which) {
    const Stmt *found = NULL;
    for (uint32_t i = 0; i < body->count && !found; i++) {
        const Stmt *stmt = body->at[i];
        const Expr *value = stmt->kind == STMT_ASSIGN ? stmt->value : NULL;
        bool own = value && value->kind == EXPR_RESULT && value->call == call;
        found = own && value->which == which ? stmt : assignment_of(&stmt->body, call, which);
    }
    return found;
}

// `V, I = X.max(-1)`: a line for each name on the left; NULL where they cannot be told.
// first: the assignment to the first of them.
static const char *several_text(Scope *scope, const Stmt *first) {
    enum { MOST_LINES = 4 };
    Meaning m = meaning_in(scope);
    Text lines = {.arena = m.arena};
    const char *line = NULL; // the last one
    const Expr *call = first->value->call;
    uint32_t n = first->value->n_results;
    for (uint32_t i = 0; i < n && n <= MOST_LINES; i++) {
        const Stmt *part = assignment_of(&scope->def->body, call, i);
        Meant value = meant_of_several(&m, call, i, n);
        const char *text = value.text ? value_for(scope, &part->target, &value) : NULL;
        if (!fits(text))
            return NULL;
        if (!strcmp(part->target.name.name, "_"))
            continue;
        if (line)
            text_printf(&lines, "%s'%s'", lines.length ? ", " : "", line);
        line = arena_printf(m.arena, "%s = %s", target_text(scope, &part->target), text);
    }
    if (line)
        text_printf(&lines, "%s'%s'", lines.length ? " and " : "", line);
    return lines.at;
}

// That a transpose is none here, and what it is for results.
static const char *order_text(Scope *scope, const Tensor *target, const Meant *value) {
    Arena *arena = scope->resolver->arena;
    if (target->has_dims || !value->turned || !value->has_dims)
        return ": dims are read by name";
    return arena_printf(arena, ": dims are read by name ('%s%s = %s' for 'return', in that order)",
                        target->name.name, dimlist_text(arena, &value->dims), value->text);
}

static void hint_assign(Scope *scope, const Stmt *stmt) {
    Meaning m = meaning_in(scope);
    bool several = stmt->value->kind == EXPR_RESULT;
    const char *lines = several ? several_text(scope, stmt) : NULL;
    if (lines) {
        diag_hint(stmt->foreign, "write %s", lines);
        return;
    }
    Meant value = meant(&m, several ? stmt->value->call : stmt->value);
    const char *text = value.text && !several ? value_for(scope, &stmt->target, &value) : NULL;
    bool turned = stmt->value->kind == EXPR_FOREIGN && stmt->value->args.count &&
                  stmt->value->args.at[0]->name.name == value.text;
    turned = turned || (value.turned && value.text == value.tensor);
    const char *names = turned && value.text ? order_text(scope, &stmt->target, &value) : "";
    if (fits(text) && value.pair && !stmt->target.has_dims)
        diag_hint(stmt->foreign, "write '%s, _ = %s'%s: the second value is where they are",
                  target_text(scope, &stmt->target), text, beside_text(&m));
    else if (fits(text))
        diag_hint(stmt->foreign, "write '%s = %s'%s%s", target_text(scope, &stmt->target), text,
                  beside_text(&m), names);
    else if (fits(value.text))
        diag_hint(stmt->foreign, "write '%s'%s%s", value.text, beside_text(&m), names);
    else
        hint_part(&m, stmt->foreign, stmt->value);
}

static void hint_return(Scope *scope, const Stmt *stmt) {
    Meaning m = meaning_in(scope);
    Text text = {.arena = m.arena};
    const ExprList *results = &stmt->results;
    const Expr *only = results->count == 1 ? results->at[0] : NULL;
    if (only && expr_is_foreign(only, FOREIGN_LIST))
        results = &only->args;
    for (uint32_t i = 0; i < results->count; i++) {
        Meant value = meant(&m, results->at[i]);
        const char *dims = dimlist_text(m.arena, &value.dims);
        bool turned = value.turned && value.has_dims;
        if (turned && value.tensor) {
            value.text = arena_printf(m.arena, "%s%s", value.tensor, dims);
        } else if (turned && results->count == 1 && fits(value.text)) {
            Name result = meant_fresh(&m, scope->def->name.name, "result");
            diag_hint(stmt->foreign, "write '%s%s = %s' and 'return %s'%s", result, dims,
                      value.text, result, beside_text(&m));
            return;
        }
        if (!value.text || value.pair || (turned && !value.tensor)) {
            hint_part(&m, stmt->foreign, results->at[i]);
            return;
        }
        text_printf(&text, "%s%s", i ? ", " : "", value.text);
    }
    if (fits(text.at))
        diag_hint(stmt->foreign, "write 'return %s'%s", text.at, beside_text(&m));
}

void foreign_hint_statement(Scope *scope, const Stmt *stmt) {
    if (stmt->kind == STMT_RETURN)
        hint_return(scope, stmt);
    else if (expr_is_foreign(stmt->value, FOREIGN_UPDATE))
        hint_update(scope, stmt);
    else
        hint_assign(scope, stmt);
}

// ---- calls

const char *foreign_call_hint(Scope *scope, const Expr *call) {
    Meaning m = meaning_in(scope);
    const char *hint;
    if (call->label.name || call->has_arrow)
        return NULL;
    const Stmt *several = assignment_of(&scope->def->body, call, 0);
    const char *lines = several ? several_text(scope, several) : NULL;
    if (lines)
        return arena_printf(m.arena, "write %s", lines);
    Meant value = meant_function(&m, call, &call->args, &hint);
    bool turned = value.turned && value.text == value.tensor;
    return fits(value.text) ? arena_printf(m.arena, "write '%s'%s%s", value.text, beside_text(&m),
                                           turned ? ": dims are read by name" : "")
                            : hint;
}

// ---- parts of other hints

const char *foreign_text(Scope *scope, const Expr *expr) {
    Meaning m = meaning_in(scope);
    return meant(&m, expr).text;
}

const char *foreign_position(Scope *scope, const Expr *position, Name dim) {
    Meaning m = meaning_in(scope);
    return meant_number(&m, position, dim);
}
