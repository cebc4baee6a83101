// SPDX-License-Identifier: Apache-2.0
// Scans: what their variable means in brackets, what they carry and what they write.
//
//     S[d, e] = zeros                       carried: from outside, assigned in the body
//     scan t in n:
//         S[d, e] = S + einsum(K[t, d], V[t, e])     K[n, d] at position t of n
//         Y[t, e] = einsum(Q[t, d], S[d, e])         stacked: outside Y is over [n, e]
//
// Before anything else is resolved the variable gives way to its dim in all brackets, so that
// everything below reads `K[n, d]`, and a Step beside it says that this is one position of n.
#include "ast/resolve/resolve.h"

// ---- the variable in brackets -------------------------------------------------------------------

typedef struct OpenVariable OpenVariable;
struct OpenVariable {
    const Stmt *scan;
    const OpenVariable *outer;
};

static void mark_idents(Arena *arena, IdentList *idents, StepList *steps,
                        const OpenVariable *open) {
    for (; open; open = open->outer)
        for (uint32_t i = 0; i < idents->count; i++) {
            Name variable = open->scan->loop_var.name, dim = open->scan->loop_dim.name;
            if (idents->at[i].name != variable || variable == dim)
                continue;
            idents->at[i].name = dim;
            vec_push(arena, steps, (Step){.dim = dim, .variable = variable});
        }
}

static void mark_expr(Arena *arena, Expr *expr, const OpenVariable *open) {
    if (expr->kind == EXPR_REF)
        mark_idents(arena, &expr->dims, &expr->steps, open);
    for (uint32_t i = 0; i < expr->args.count; i++)
        mark_expr(arena, expr->args.at[i], open);
}

static void mark_body(Arena *arena, const StmtList *body, const OpenVariable *open) {
    for (uint32_t i = 0; i < body->count; i++) {
        Stmt *stmt = body->at[i];
        if (stmt->kind == STMT_ASSIGN)
            mark_idents(arena, &stmt->target.dims, &stmt->target.steps, open);
        if (stmt->value)
            mark_expr(arena, stmt->value, open);
        bool scans = stmt->kind == STMT_SCAN;
        mark_body(arena, &stmt->body, scans ? &(OpenVariable){stmt, open} : open);
    }
}

void scan_mark_steps(Arena *arena, const Program *program) {
    for (uint32_t i = 0; i < program->defs.count; i++)
        mark_body(arena, &program->defs.at[i]->body, NULL);
}

static const Step *find_step(const StepList *steps, Name variable) {
    for (uint32_t i = 0; i < steps->count; i++)
        if (steps->at[i].variable == variable)
            return &steps->at[i];
    return NULL;
}

NameList steps_left(Arena *arena, const NameList *dims, const StepList *steps) {
    NameList left = *dims;
    for (uint32_t i = 0; i < steps->count; i++) {
        NameList one = {0};
        vec_push(arena, &one, steps->at[i].dim);
        left = dimlist_minus(arena, &left, &one);
    }
    return left;
}

// ---- reading ------------------------------------------------------------------------------------

// What a scan writes is there for the present position alone.
static bool reads_now(const Symbol *symbol, StepList *steps) {
    for (uint32_t i = 0; i < symbol->writing.count; i++)
        if (!steps || !find_step(steps, symbol->writing.at[i].variable))
            return false;
    for (uint32_t i = 0; steps && i < steps->count; i++)
        steps->at[i].now = find_step(&symbol->writing, steps->at[i].variable) != NULL;
    return true;
}

bool scan_check_whole(Scope *scope, const Expr *expr, const Symbol *symbol, StepList *steps) {
    if (reads_now(symbol, steps))
        return true;
    const StepList *writing = &symbol->writing;
    Name variable = writing->at[writing->count - 1].variable;
    Diag *diag = diag_error(scope->resolver->diags, expr->span,
                            "'%s' is written position by position in this scan", expr->name.name);
    diag_note(diag, symbol->name.span, "it is written here");
    diag_hint(diag, "in the scan it can be read at '%s' alone; carry what later positions need",
              variable);
    return false;
}

static bool has_alike(const Scope *scope, const Symbol *symbol, Name dim) {
    for (uint32_t i = 0; i < symbol->dims.count; i++)
        if (program_dims_alike(scope->resolver->program, symbol->dims.at[i], dim))
            return true;
    return false;
}

bool scan_check_steps(Scope *scope, Expr *ref, const Symbol *symbol) {
    if (!scan_check_whole(scope, ref, symbol, &ref->steps))
        return false;
    for (uint32_t i = 0; i < ref->steps.count; i++) {
        const Step *step = &ref->steps.at[i];
        if (has_alike(scope, symbol, step->dim))
            continue;
        Diag *diag = diag_error(scope->resolver->diags, idents_find(&ref->dims, step->dim)->span,
                                "'%s' is not over '%s' and has no position '%s'", ref->name.name,
                                step->dim, step->variable);
        scope_note_dims(scope, diag, symbol);
        diag_hint(diag, "leave out '%s'", step->variable);
        return false;
    }
    return true;
}

// ---- writing ------------------------------------------------------------------------------------

// The outermost scan at whose positions the target is written. NULL after a diagnostic.
static const OpenScan *written_from(Scope *scope, const Tensor *target) {
    const OpenScan *first = NULL;
    bool inside = false, gap = false;
    for (uint32_t i = scope->scans.count; i-- > 0;) {
        const OpenScan *open = &scope->scans.at[i];
        bool at = find_step(&target->steps, open->stmt->loop_var.name) != NULL;
        gap = gap || (at && !inside && i + 1 < scope->scans.count);
        inside = at;
        first = at ? open : first;
    }
    const OpenScan *last = &scope->scans.at[scope->scans.count - 1];
    if (!gap && last->depth == scope->depth)
        return first;
    Diag *diag = diag_error(scope->resolver->diags, target->name.span,
                            "'%s' is not written once at each position", target->name.name);
    diag_note(diag, gap ? last->stmt->loop_var.span : last->stmt->span,
              gap ? "a position of this scan is missing in the brackets"
                  : "a loop inside of this scan repeats it");
    diag_hint(diag, "assign it in the body of the scan itself");
    return NULL;
}

bool scan_write(Scope *scope, Symbol *symbol, const Tensor *target) {
    Resolver *r = scope->resolver;
    const OpenScan *first = written_from(scope, target);
    if (!first)
        return false;
    symbol->depth = first->depth - 1;
    for (const OpenScan *open = first; open < scope->scans.at + scope->scans.count; open++) {
        vec_push(r->arena, &symbol->writing,
                 (Step){.dim = open->stmt->loop_dim.name, .variable = open->stmt->loop_var.name});
        dimlist_add(r->arena, &open->stmt->stacked, symbol->name.name);
    }
    return true;
}

void scan_carry(Scope *scope, const Symbol *symbol) {
    for (uint32_t i = 0; i < scope->scans.count; i++)
        if (symbol->depth < scope->scans.at[i].depth)
            dimlist_add(scope->resolver->arena, &scope->scans.at[i].stmt->carried,
                        symbol->name.name);
}

void scan_open(Scope *scope, Stmt *stmt) {
    vec_push(scope->resolver->arena, &scope->scans, (OpenScan){stmt, scope->depth});
}

void scan_close(Scope *scope) {
    Name variable = scope->scans.at[--scope->scans.count].stmt->loop_var.name;
    for (uint32_t i = 0; i < scope->symbols.count; i++) {
        StepList *writing = &scope->symbols.at[i]->writing;
        if (writing->count && writing->at[writing->count - 1].variable == variable)
            writing->count--;
    }
}
