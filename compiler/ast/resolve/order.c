// SPDX-License-Identifier: Apache-2.0
// The order in which defs are resolved: what a def calls goes before it, wherever it stands.
//
//     def Main(X[n]): return Layer(X)         opened: Main, Layer, Attend
//     def Layer(X[n]): return Attend(X)       resolved: Attend, Layer, Main
//     def Attend(X[n]): ...
//
// A list of what is open takes the place of recursion, so that calls may nest as deep as a program
// has defs. A def that is still open while another one that calls it is resolved is a recursion,
// and the list says by which calls.
#include "ast/resolve/resolve.h"

// ---- what a def calls ---------------------------------------------------------------------------

static void collect_calls(Resolver *r, const Expr *expr, OpenDef *open) {
    if (expr->kind == EXPR_CALL && builtin_find(expr->name.name) == BUILTIN_NONE)
        vec_push(r->arena, &open->calls, expr);
    for (uint32_t i = 0; i < expr->args.count; i++)
        collect_calls(r, expr->args.at[i], open);
    for (uint32_t i = 0; i < expr->keys.count; i++)
        collect_calls(r, expr->keys.at[i].value, open);
}

// Those that take part: nothing behind a return does.
static void collect_body(Resolver *r, const StmtList *body, OpenDef *open) {
    for (uint32_t i = 0; i < body->count; i++) {
        const Stmt *stmt = body->at[i];
        if (stmt->value)
            collect_calls(r, stmt->value, open);
        for (uint32_t k = 0; k < stmt->results.count; k++)
            collect_calls(r, stmt->results.at[k], open);
        collect_body(r, &stmt->body, open);
        if (stmt->kind == STMT_RETURN)
            return;
    }
}

// ---- callees first ------------------------------------------------------------------------------

static void open_def(Resolver *r, Def *def, Span call) {
    OpenDef open = {.def = def, .call = call};
    collect_body(r, &def->body, &open);
    def->visit = VISIT_OPEN;
    vec_push(r->arena, &r->open, open);
}

static void resolve_after_callees(Resolver *r, Def *def) {
    open_def(r, def, def->name.span);
    while (r->open.count) {
        OpenDef *last = &r->open.at[r->open.count - 1];
        if (last->n_seen < last->calls.count) {
            const Expr *call = last->calls.at[last->n_seen++];
            Def *callee = program_find_callee(r->program, last->def, call->name.name);
            if (callee && callee->visit == VISIT_NEW)
                open_def(r, callee, call->span);
        } else {
            resolve_def(r, last->def);
            last->def->visit = VISIT_DONE;
            r->open.count--;
        }
    }
}

void resolve_defs(Resolver *r) {
    for (uint32_t i = 0; i < r->program->defs.count; i++)
        if (r->program->defs.at[i]->visit == VISIT_NEW)
            resolve_after_callees(r, r->program->defs.at[i]);
}
