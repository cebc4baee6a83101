// SPDX-License-Identifier: Apache-2.0
// Calls of defs: the callee's dims are bound to the caller's, by hand, by name and by place.
//
//     def Attend(X[n, d], M[m, d], P[d, h]):  ...  return Y[n, h]
//     Attend(A[b, t, e], B[b, s, e], P[e, h])       n = t, d = e, m = s, h = h; mapped over [b]
//     Attend(A[b, t, e], B[s, e], P[e, h])          the same B for every b
#include "ast/resolve/call/call.h"

// ---- the form of a call -------------------------------------------------------------------------

static void check_form(Binder *b) {
    const Expr *call = b->call;
    check_hands(b);
    if (call->has_arrow) {
        Diag *diag = binder_error(b, call->span, say(b, "'%s' takes no '->'", callee_name(b)));
        diag_hint(diag, "its dims are those of what it returns");
    }
    uint32_t have = call->args.count, want = b->callee->params.count;
    if (have == want || !b->fine)
        return;
    Span at = have > want ? call->args.at[want]->span : call->span;
    Diag *diag = binder_error(b, at,
                              say(b, "'%s' takes %u argument%s, not %u", callee_name(b), want,
                                  want == 1 ? "" : "s", have));
    NameList missing = {0};
    for (uint32_t i = have; i < want; i++)
        vec_push(b->resolver->arena, &missing, param_name(b, i));
    diag_note(diag, b->callee->name.span, "'%s' is here", callee_name(b));
    if (missing.count)
        diag_hint(diag, "%s %s missing", quoted_text(b->resolver->arena, &missing),
                  missing.count == 1 ? "is" : "are");
}

enum { NOTES_MAX = 8 }; // calls of a recursion that are shown

// Requires: the callee is open.
static void report_recursion(Scope *scope, const Expr *call, const Def *callee) {
    Resolver *r = scope->resolver;
    uint32_t from = 0;
    while (from < r->open.count && r->open.at[from].def != callee)
        from++;
    if (from == r->open.count)
        ice("resolve: '%s' is called before it is resolved", callee->name.name);
    NameList path = {0};
    for (uint32_t i = from; i < r->open.count; i++)
        vec_push(r->arena, &path, r->open.at[i].def->name.name);
    Diag *diag = diag_error(r->diags, call->name.span, "'%s' calls itself: %s", callee->name.name,
                            cycle_text(r->arena, &path));
    for (uint32_t i = 1; i < path.count && i <= NOTES_MAX; i++)
        diag_note(diag, r->open.at[from + i].call, "'%s' is called here", path.at[i]);
    diag_hint(diag, "calls are put in place of what they call; repeat with 'for'");
}

// ---- the whole ----------------------------------------------------------------------------------

static void bind_arguments(Binder *b) {
    for (uint32_t i = 0; i < b->callee->params.count; i++)
        b->fine = b->fine && b->callee->params.at[i].ok && b->call->args.at[i]->ok;
    if (b->fine)
        bind_hands(b);
    for (uint32_t i = 0; b->fine && i < b->callee->params.count; i++)
        bind_param(b, i);
    if (!b->fine)
        return;
    if (b->callee->params.count)
        bind_mapped(b);
    if (b->fine)
        check_alike(b);
    if (b->fine)
        bind_own_dims(b);
    if (b->fine)
        warn_last_of_more(b);
}

static Name actual_of(const Binder *b, Name dim) {
    const Bound *bound = find_formal(b, dim);
    return bound ? bound->actual : dim;
}

// Dims of one of the callee's results here.
static NameList result_dims(const Binder *b, uint32_t which) {
    Arena *arena = b->resolver->arena;
    NameList dims = {0};
    for (uint32_t i = 0; i < b->call->mapped.count; i++)
        vec_push(arena, &dims, b->call->mapped.at[i]);
    const NameList *result = &b->callee->result_dims.at[which];
    for (uint32_t i = 0; i < result->count; i++)
        vec_push(arena, &dims, actual_of(b, result->at[i]));
    return dims;
}

// A call gives as many values as are asked for: one in an expression, n to n names.
static bool check_results(Binder *b, uint32_t n_wanted) {
    uint32_t n = b->callee->result_dims.count;
    if (n == n_wanted)
        return true;
    const char *what =
        n_wanted == 1 ? "an expression is one" : say(b, "%u names stand on the left", n_wanted);
    Diag *diag = binder_error(
        b, b->call->span,
        say(b, "'%s' returns %u value%s, %s", callee_name(b), n, n == 1 ? "" : "s", what));
    diag_note(diag, b->callee->name.span, "'%s' is here", callee_name(b));
    if (n == 1) {
        diag_hint(diag, "write one name");
        return false;
    }
    Text names = {.arena = b->resolver->arena};
    for (uint32_t i = 0; i < n; i++) {
        Name name = scope_free_name(b->scope, b->callee->result_names.at[i], &(NameList){0});
        text_printf(&names, "%s%s", i ? ", " : "", name);
    }
    diag_hint(diag, "give each a name, on a line of its own: '%s = %s(...)'", names.at,
              callee_name(b));
    return false;
}

// `return S[m, n]` of S[n, m] is an order in memory, which a call has none of: where it is called
// it would be S as it is.
static bool check_reordered(Binder *b) {
    const Def *callee = b->callee;
    if (!callee->reordered)
        return true;
    NameList dims = callee->reordered->result;
    Diag *diag = binder_error(
        b, b->call->span,
        say(b, "'%s' cannot be called: its 'return' orders alike dims in memory", callee_name(b)));
    diag_note(diag, callee->reordered->span, "%s is the order of a file, and exchanges nothing",
              dimlist_text(b->resolver->arena, &dims));
    diag_hint(diag, "'return %s' exchanges them, 'return %s' does not", callee->exchanged,
              callee->reordered->name.name);
    return false;
}

static void set_results(Binder *b, uint32_t n_wanted) {
    Arena *arena = b->resolver->arena;
    Expr *call = b->call;
    if (b->callee->result_dims.count == 0 || !check_results(b, n_wanted) || !check_reordered(b))
        return;
    for (uint32_t i = 0; i < b->bound.count; i++)
        vec_push(arena, &call->binding, (DimBinding){b->bound.at[i].formal, b->bound.at[i].actual});
    for (uint32_t i = 0; i < n_wanted; i++) {
        vec_push(arena, &call->results, result_dims(b, i));
        vec_push(arena, &call->elems, b->callee->result_elems.at[i]);
    }
    expr_set(call, call->results.at[0], call->elems.at[0]);
}

static void resolve_call_for(Scope *scope, Expr *call, uint32_t n_wanted) {
    expr_poison(call);
    call->builtin = BUILTIN_NONE;
    Def *callee = program_find_callee(scope->resolver->program, scope->def, call->name.name);
    bool known = callee && callee->visit == VISIT_DONE;
    Wanted lost = {.silent = true};
    if (!callee && foreign_call_hint(scope, call)) { // which says what to do with the arguments
        report_unknown_def(scope, call);
        return;
    }
    for (uint32_t i = 0; i < call->args.count; i++)
        if (callee || call->args.at[i]->kind != EXPR_TUPLE) // of dims, which the function may take
            resolve_expr(scope, call->args.at[i], known && !callee->incomplete ? NULL : &lost);
    if (!callee)
        report_unknown_def(scope, call);
    else if (!known)
        report_recursion(scope, call, callee);
    if (!known)
        return;
    if (callee->is_optimizer) {
        report_called_optimizer(scope, call, callee);
        return;
    }
    call->callee = callee;
    if (callee->incomplete || !check_no_regroup(scope, call))
        return;
    if (scope->def && callee->owns_params)
        scope->def->owns_params = true;
    Binder binder = {
        .scope = scope, .resolver = scope->resolver, .call = call, .callee = callee, .fine = true};
    check_form(&binder);
    if (binder.fine)
        bind_arguments(&binder);
    if (binder.fine)
        set_results(&binder, n_wanted);
}

void resolve_call(Scope *scope, Expr *call) {
    resolve_call_for(scope, call, 1);
}

static void report_one_value(Scope *scope, const Expr *value, uint32_t n_wanted) {
    Diag *diag = diag_error(scope->resolver->diags, value->span,
                            "this is one value, %u names stand on the left", n_wanted);
    diag_hint(diag, "only 'topk' and a call of a def that returns several values give one to each");
}

void resolve_result(Scope *scope, Expr *result) {
    Expr *call = result->call;
    Builtin builtin = call->kind == EXPR_CALL ? builtin_find(call->name.name) : BUILTIN_NONE;
    expr_poison(result);
    if (result->which == 0 && call->kind == EXPR_CALL && builtin == BUILTIN_NONE) {
        resolve_call_for(scope, call, result->n_results);
    } else if (result->which == 0 && builtin_gives_several(builtin)) {
        resolve_builtin_for(scope, call, result->n_results);
    } else if (result->which == 0) {
        resolve_expr(scope, call, NULL);
        if (call->ok)
            report_one_value(scope, call, result->n_results);
        call->ok = false;
    }
    if (call->ok)
        expr_set(result, call->results.at[result->which], call->elems.at[result->which]);
}
