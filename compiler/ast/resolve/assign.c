// SPDX-License-Identifier: Apache-2.0
// Assignments: `Y[n, d] = expr` states the dims of expr, `Y = expr` takes them. A name has one
// value, except in a loop, where it is carried from one round to the next and keeps its dims and
// type.
#include "ast/resolve/resolve.h"

#include <string.h>

// ---- may this name be assigned here? ------------------------------------------------------------

// `u[ids] = y` where `ids` is a tensor of positions; NULL: there is none.
static Name positions_among(Scope *scope, const IdentList *brackets) {
    for (uint32_t i = 0; i < brackets->count; i++) {
        const Symbol *symbol = scope_find(scope, brackets->at[i].name);
        if (symbol && symbol->kind != SYMBOL_LOOP && symbol->kind != SYMBOL_STEP &&
            elem_is_int(symbol->elem))
            return brackets->at[i].name;
    }
    return NULL;
}

static void report_fixed(Scope *scope, const Tensor *target, const Symbol *first) {
    Diags *diags = scope->resolver->diags;
    Name name = target->name.name;
    Diag *diag;
    if (first->kind == SYMBOL_LOOP || first->kind == SYMBOL_STEP)
        diag = diag_error(diags, target->name.span, "'%s' is the %s and cannot be assigned", name,
                          first->kind == SYMBOL_STEP ? "scan's position" : "loop's number");
    else if (first->kind == SYMBOL_TRAINED || first->kind == SYMBOL_GLOBAL)
        diag = diag_error(diags, target->name.span,
                          "'%s' is a trained tensor and cannot be assigned", name);
    else
        diag = diag_error(diags, target->name.span, "'%s' is assigned twice", name);
    bool argument = first->kind == SYMBOL_ARGUMENT;
    bool local = first->kind == SYMBOL_LOCAL;
    diag_note(diag, first->name.span,
              argument ? "it is a parameter"
              : local  ? "the first is here"
                       : "declared here");
    Name ids = positions_among(scope, &target->dims);
    if (ids)
        diag_hint(diag,
                  "positions are not assigned: 'scatter_add(x, %s, dim=n, reduced_dim=m)' adds the "
                  "positions 'm' of 'x' at those of 'n' that '%s' says",
                  ids, ids);
    else
        diag_hint(diag, "give this one another name");
}

// The symbol that the assignment changes, or NULL for a new one. *fine: false after a diagnostic.
static Symbol *assigned_symbol(Scope *scope, const Stmt *stmt, bool *fine) {
    const Tensor *target = &stmt->target;
    Symbol *symbol = scope_find(scope, target->name.name);
    if (!symbol)
        return NULL;
    bool variable = symbol->kind == SYMBOL_ARGUMENT || symbol->kind == SYMBOL_LOCAL;
    if (variable && scope->depth && !target->steps.count && !symbol->writing.count)
        return symbol;
    if (!stmt->garbled) // what it says waits until it can be read
        report_fixed(scope, target, symbol);
    symbol->doubtful = true;
    *fine = false;
    return symbol;
}

// ---- do the dims of the value fit? --------------------------------------------------------------

// The tensor in the value that has the dim.
static const Expr *find_tensor(const Expr *value, Name dim) {
    if (expr_is_tensor(value))
        return value->ok && namelist_has(&value->result, dim) ? value : NULL;
    const Expr *found = NULL;
    for (uint32_t i = 0; i < value->args.count && !found; i++)
        if (value->kind == EXPR_BINARY || value->kind == EXPR_UNARY)
            found = find_tensor(value->args.at[i], dim);
    return found;
}

// `H[n, d] = X + b` with b[d']: b[d].
static bool hint_read_as(Scope *scope, Diag *diag, const Tensor *target, const Expr *value,
                         Name dim) {
    Resolver *r = scope->resolver;
    const Expr *tensor = find_tensor(value, dim);
    for (uint32_t i = 0; tensor && i < target->dims.count; i++) {
        Name wanted = target->dims.at[i].name;
        if (!program_dims_alike(r->program, wanted, dim) || namelist_has(&tensor->result, wanted))
            continue;
        NameList over = dimlist_replaced(r->arena, &tensor->result, dim, wanted);
        diag_hint(diag, "write '%s%s' to read it over '%s'", tensor->name.name,
                  dimlist_text(r->arena, &over), wanted);
        return true;
    }
    return false;
}

// Y[n, k] = X[n, d] * W[d, k]: what both factors have, and the target lacks, is for an einsum.
static bool hint_contracted(Scope *scope, Diag *diag, const Tensor *target, const Expr *value,
                            const NameList *extra) {
    Resolver *r = scope->resolver;
    if (value->kind != EXPR_BINARY || value->oper != OPER_MUL)
        return false;
    const Expr *a = value->args.at[0], *b = value->args.at[1];
    if (!dimlist_within(extra, &a->result) || !dimlist_within(extra, &b->result))
        return false;
    NameList dims = dimlist_of(r->arena, &target->dims);
    diag_hint(diag, "write '%s%s = einsum(%s, %s)' to sum over %s", target->name.name,
              dimlist_text(r->arena, &dims), span_text(r->session->sources, a->span, r->arena),
              span_text(r->session->sources, b->span, r->arena), quoted_text(r->arena, extra));
    return true;
}

static void hint_assigned(Scope *scope, Diag *diag, const Tensor *target, const Expr *value,
                          const NameList *lacking, const NameList *extra) {
    Resolver *r = scope->resolver;
    bool named = expr_is_tensor(value);
    if (lacking->count == 1 && extra->count == 1) {
        Name want = lacking->at[0], have = extra->at[0];
        bool alike = program_dims_alike(r->program, want, have);
        NameList over = dimlist_replaced(r->arena, &value->result, have, want);
        if (alike && named)
            diag_hint(diag, "write '%s%s' to read it over '%s'", value->name.name,
                      dimlist_text(r->arena, &over), want);
        else if (alike)
            diag_hint(diag,
                      "did you mean '%s' in place of '%s'? A value that has a name can be read "
                      "over '%s': 'name%s'",
                      have, want, want, dimlist_text(r->arena, &over));
        else if (named && !name_primes(want))
            diag_hint(diag, "did you mean '%s'? 'dim %s like %s' would let '%s' be read over '%s'",
                      have, want, have, value->name.name, want);
        else
            diag_hint(diag, "did you mean '%s' in place of '%s'?", have, want);
    } else if (lacking->count == 0 && hint_read_as(scope, diag, target, value, extra->at[0])) {
        return;
    } else if (lacking->count == 0 && hint_contracted(scope, diag, target, value, extra)) {
        return;
    } else if (lacking->count == 0) {
        diag_hint(diag, "add %s to '%s', or reduce it: sum(..., reduced_dim=%s)",
                  quoted_text(r->arena, extra), target->name.name, extra->at[0]);
    } else if (extra->count == 0 && value->kind == EXPR_NUMBER && lacking->count) {
        const char *dims = dimlist_text(r->arena, lacking);
        if (value->number == 0)
            diag_hint(diag, "write '%s%s = zeros%s'", target->name.name, dims, dims);
        else
            diag_hint(diag, "write '%s%s = full(%g -> %s)'", target->name.name, dims, value->number,
                      dims);
    } else if (extra->count == 0) {
        diag_hint(diag, "leave %s out of '%s'", quoted_text(r->arena, lacking), target->name.name);
    }
}

static void report_assigned(Scope *scope, const Tensor *target, const Wanted *wanted,
                            const Expr *value) {
    Resolver *r = scope->resolver;
    NameList lacking = dimlist_minus(r->arena, &wanted->dims, &value->result);
    NameList extra = dimlist_minus(r->arena, &value->result, &wanted->dims);
    Name name = target->name.name;
    Diag *diag;
    if (lacking.count) {
        const Ident *place = idents_find(wanted->brackets, lacking.at[0]);
        diag = diag_error(r->diags, place ? place->span : target->name.span,
                          "the value of '%s' has no dim%s %s", name, lacking.count > 1 ? "s" : "",
                          quoted_text(r->arena, &lacking));
        diag_note(diag, value->span, "it is over %s", dimlist_text(r->arena, &value->result));
    } else {
        diag = diag_error(r->diags, target->name.span, "the value has dim%s %s, which '%s' lacks",
                          extra.count > 1 ? "s" : "", quoted_text(r->arena, &extra), name);
        diag_note(diag, expr_dim_place(value, extra.at[0]), "'%s' comes from here", extra.at[0]);
    }
    hint_assigned(scope, diag, target, value, &lacking, &extra);
}

// The dim in the list that is like this one, or NULL.
static Name alike_of(const Program *program, const NameList *dims, Name dim) {
    for (uint32_t i = 0; i < dims->count; i++)
        if (program_dims_alike(program, dims->at[i], dim))
            return dims->at[i];
    return NULL;
}

// The operand that alone has the dim, and not the other one; NULL: there is none.
static const Expr *brings(const Expr *value, Name dim, Name other) {
    if (!value->ok || value->kind != EXPR_BINARY)
        return NULL;
    bool first = namelist_has(&value->args.at[0]->result, dim);
    bool second = namelist_has(&value->args.at[1]->result, dim);
    const Expr *brought = first == second ? NULL : value->args.at[second];
    return brought && !namelist_has(&brought->result, other) ? brought : NULL;
}

// A carried tensor keeps the dims that it has when the loop begins.
static bool check_carried(Scope *scope, const Tensor *target, Symbol *symbol, const Expr *value,
                          const NameList *dims) {
    Resolver *r = scope->resolver;
    if (!symbol->ok || symbol->doubtful || dimlist_equal(&symbol->dims, dims))
        return true;
    bool scans = scope_in_scan(scope);
    NameList lacking = dimlist_minus(r->arena, &symbol->dims, dims);
    NameList extra = dimlist_minus(r->arena, dims, &symbol->dims);
    const char *step = scans ? "step of the scan" : "round of the loop";
    const char *had = dimlist_text(r->arena, &symbol->dims);
    Diag *diag = diag_error(r->diags, target->name.span,
                            "'%s' is over %s in this %s and over %s in the next", target->name.name,
                            had, step, dimlist_text(r->arena, dims));
    diag_note(diag, symbol->name.span, "it is over %s from here", had);
    Name name = target->name.name;
    Name alike = extra.count == 1 ? alike_of(r->program, &symbol->dims, extra.at[0]) : NULL;
    const Expr *brought = alike && !lacking.count ? brings(value, extra.at[0], alike) : NULL;
    if (alike && lacking.count == 1 && alike == lacking.at[0])
        diag_hint(diag, "call this one '%s_1', and carry it over '%s': '%s = %s_1%s'", name, alike,
                  name, name, had);
    else if (brought && expr_is_tensor(brought))
        diag_hint(diag, "'%s' is like '%s': read '%s%s'", extra.at[0], alike, brought->name.name,
                  expr_dims_over(r->arena, brought, extra.at[0], alike));
    else if (brought)
        diag_hint(diag, "call what brings '%s' '%s_1', and read it over '%s': '%s_1%s'",
                  extra.at[0], name, alike, name,
                  expr_dims_over(r->arena, brought, extra.at[0], alike));
    else
        diag_hint(diag,
                  "a %s keeps the dims of what it carries (language %s); give this one another "
                  "name",
                  scans ? "scan" : "loop", scans ? "6.5" : "6.4");
    symbol->doubtful = true;
    return false;
}

// ---- element types ------------------------------------------------------------------------------

// A first value that is a number of the text can be one of the type that the loop makes of it.
static void hint_first_value(Scope *scope, Diag *diag, const Symbol *first, Elem elem) {
    const Expr *value = first->value;
    const char *dims = first->brackets ? dimlist_text(scope->resolver->arena, &first->dims) : "";
    if (value->kind == EXPR_NUMBER && elem == ELEM_F32)
        diag_hint(diag, "'%s = %.0f.0' begins with a float", first->name.name, value->number);
    else
        diag_hint(diag, "'%s%s: %s = ' gives the first value this type", first->name.name, dims,
                  elem_name(elem));
}

static bool check_elem(Scope *scope, const Tensor *target, const Symbol *symbol,
                       const Expr *value) {
    Diags *diags = scope->resolver->diags;
    bool carried = symbol && !target->has_elem;
    Elem elem = carried ? symbol->elem : target->elem;
    if ((!symbol && !target->has_elem) || elem_accepts(elem, value))
        return true;
    Diag *diag = diag_error(diags, value->span, "'%s' is %s, its value is %s", target->name.name,
                            elem_name(elem), elem_name(value->elem));
    if (carried)
        diag_note(diag, symbol->name.span, "it is %s from here", elem_name(elem));
    if (carried && symbol->value && symbol->value->is_literal && elem_is_float(value->elem))
        hint_first_value(scope, diag, symbol, value->elem);
    else
        diag_hint(diag, "write '%s(...)' around the value", elem_name(elem));
    return false;
}

// ---- the whole ----------------------------------------------------------------------------------

static const Wanted *target_wanted(Scope *scope, const Tensor *target, const Symbol *symbol,
                                   Wanted *wanted) {
    *wanted = (Wanted){.span = target->name.span};
    if (target->has_dims && !target->garbled) {
        wanted->brackets = &target->dims;
        wanted->dims = steps_left(scope->resolver->arena, &target->dims, &target->steps);
        wanted->silent = !scope_check_brackets(scope, &target->dims, &target->steps);
        return wanted;
    }
    if (!symbol)
        return NULL;
    wanted->dims = symbol->dims;
    wanted->silent = !symbol->ok || symbol->doubtful;
    return wanted;
}

static void define_symbol(Scope *scope, Tensor *target, const Wanted *wanted, const Expr *value,
                          bool fits) {
    Symbol *symbol = scope_add(scope, SYMBOL_LOCAL, target->name);
    symbol->brackets = wanted ? wanted->brackets : NULL;
    symbol->dims = wanted ? wanted->dims : value->result;
    symbol->ok = wanted ? !wanted->silent : value->ok;
    symbol->doubtful = !fits;
    symbol->elem = target->has_elem ? target->elem : value->ok ? value->elem : ELEM_LOST;
    symbol->value = value;
    if (!target->steps.count)
        return;
    IdentList whole = steps_whole(scope->resolver->arena, &target->dims, &target->steps);
    symbol->dims = dimlist_of(scope->resolver->arena, &whole);
    if (scan_write(scope, symbol, target))
        return;
    symbol->ok = false;
    symbol->depth = 0; // what it would be after the scan is told of
}

// `Y, _ = F(X)`: a result that nobody wants has no name.
static bool is_dropped(const Stmt *stmt) {
    return stmt->value->kind == EXPR_RESULT && !strcmp(stmt->target.name.name, "_");
}

// `Y += X`: told of, and Y is what it was.
static bool is_update(const Stmt *stmt) {
    return expr_is_foreign(stmt->value, FOREIGN_UPDATE);
}

void resolve_assign(Scope *scope, Stmt *stmt) {
    Tensor *target = &stmt->target;
    if (is_dropped(stmt)) {
        if (!stmt->garbled)
            resolve_expr(scope, stmt->value, NULL);
        resolve_warn_numbers(scope, stmt->value);
        return;
    }
    if (stmt->foreign)
        foreign_hint_statement(scope, stmt);
    if (is_update(stmt) && scope_find(scope, target->name.name))
        return;
    Wanted space;
    bool fine = true;
    Symbol *symbol = assigned_symbol(scope, stmt, &fine);
    const Wanted *wanted = target_wanted(scope, target, fine ? symbol : NULL, &space);
    scope->doubt = false;
    scope->stated = wanted ? &wanted->dims : NULL;
    if (stmt->garbled)
        expr_poison(stmt->value);
    else
        resolve_expr(scope, stmt->value, wanted);
    scope->stated = NULL;
    resolve_warn_numbers(scope, stmt->value);
    const Expr *value = stmt->value;
    bool fits = value->ok;
    if (value->ok && wanted && !wanted->silent && fine) {
        bool stated = target->has_dims || !symbol;
        fits = dimlist_equal(&wanted->dims, &value->result);
        if (!fits && stated)
            report_assigned(scope, target, wanted, value);
    }
    if (fine && symbol && (value->ok || target->has_dims)) {
        const NameList *dims = target->has_dims ? &wanted->dims : &value->result;
        fits = (wanted->silent || check_carried(scope, target, symbol, value, dims)) && fits;
    }
    if (fine && value->ok)
        fits = check_elem(scope, target, symbol, value) && fits;
    target->ok = fits;
    if (!symbol)
        define_symbol(scope, target, wanted, value, value->ok ? fits : !scope->doubt);
    else if (fine) {
        symbol->value = NULL;
        scan_carry(scope, symbol);
    }
    target->result = wanted ? wanted->dims : value->result;
    if (!target->has_elem)
        target->elem = symbol && fine ? symbol->elem : value->elem;
    scope_add_dims(scope, &target->result);
}
