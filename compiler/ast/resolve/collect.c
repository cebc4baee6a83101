// SPDX-License-Identifier: Apache-2.0
// Which dims a program names, before anything is checked: so that `index(m)` may stand before the
// first tensor over m, and so that a -D or an extent of a dim nobody names can be told.
#include "ast/resolve/resolve.h"

static void collect_idents(Arena *arena, const IdentList *idents, NameList *out) {
    for (uint32_t i = 0; i < idents->count; i++)
        dimlist_add(arena, out, idents->at[i].name);
}

// The dims in whose places variables of scans stand are named by the scans.
static void collect_brackets(Arena *arena, const IdentList *idents, const StepList *steps,
                             NameList *out) {
    IdentList whole = steps_whole(arena, idents, steps);
    collect_idents(arena, &whole, out);
}

static void collect_expr(Arena *arena, const Expr *expr, bool references, NameList *out) {
    if (expr->kind == EXPR_CALL || references)
        collect_brackets(arena, &expr->dims, &expr->steps, out);
    collect_idents(arena, &expr->into, out);
    for (uint32_t i = 0; i < expr->args.count; i++)
        collect_expr(arena, expr->args.at[i], references, out);
}

static void collect_body(Arena *arena, const StmtList *body, bool references, NameList *out) {
    for (uint32_t i = 0; i < body->count; i++) {
        const Stmt *stmt = body->at[i];
        collect_brackets(arena, &stmt->target.dims, &stmt->target.steps, out);
        if (stmt->value)
            collect_expr(arena, stmt->value, references, out);
        for (uint32_t k = 0; k < stmt->results.count; k++)
            collect_expr(arena, stmt->results.at[k], references, out);
        if (stmt->loop_dim.name && references)
            dimlist_add(arena, out, stmt->loop_dim.name);
        collect_body(arena, &stmt->body, references, out);
    }
}

void collect_def_dims(Arena *arena, const Def *def, NameList *out) {
    for (uint32_t i = 0; i < def->params.count; i++)
        collect_idents(arena, &def->params.at[i].dims, out);
    collect_body(arena, &def->body, false, out);
}

// Where n' is named, n is a dim.
static void add_unprimed(Arena *arena, const Program *program, NameList *out) {
    for (uint32_t i = 0; i < out->count; i++)
        dimlist_add(arena, out, name_unprimed(program->names, out->at[i]));
}

void collect_program_dims(Arena *arena, const Program *program, NameList *out) {
    for (uint32_t i = 0; i < program->dims.count; i++) {
        dimlist_add(arena, out, program->dims.at[i]->name.name);
        if (program->dims.at[i]->like.name)
            dimlist_add(arena, out, program->dims.at[i]->like.name);
    }
    for (uint32_t i = 0; i < program->params.count; i++)
        collect_idents(arena, &program->params.at[i]->dims, out);
    for (uint32_t i = 0; i < program->defs.count; i++) {
        const Def *def = program->defs.at[i];
        if (def->from_prelude)
            continue;
        collect_def_dims(arena, def, out);
        collect_body(arena, &def->body, true, out);
    }
    add_unprimed(arena, program, out);
}
