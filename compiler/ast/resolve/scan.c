// SPDX-License-Identifier: Apache-2.0
// Scans: what their variable means in brackets, what they carry and what they write.
//
//     S[d, e] = zeros                       carried: from outside, assigned in the body
//     scan t in n:
//         S[d, e] = S + einsum(K[t, d], V[t, e])     K[n, d] at position t of n
//         Y[t, e] = einsum(Q[t, d], S[d, e])         stacked: outside Y is over [n, e]
//
// Before anything else is resolved every variable in brackets is marked by a Step beside them,
// which says that it stands in the place of a dim like n; which dim of the tensor that is tells the
// pairing of references (reference.c).
#include "ast/resolve/resolve.h"

// ---- the variable in brackets -------------------------------------------------------------------

typedef struct OpenVariable OpenVariable;
struct OpenVariable {
    const Stmt *scan;
    const OpenVariable *outer;
};

static const OpenVariable *find_open(const OpenVariable *open, Name name) {
    while (open && open->scan->loop_var.name != name)
        open = open->outer;
    bool means_dim = open && name == open->scan->loop_dim.name; // `scan n in n:` is told of
    return means_dim ? NULL : open;
}

static void mark_idents(Arena *arena, const IdentList *idents, StepList *steps,
                        const OpenVariable *open) {
    for (uint32_t i = 0; i < idents->count; i++) {
        const OpenVariable *own = find_open(open, idents->at[i].name);
        if (own)
            vec_push(arena, steps,
                     (Step){.dim = own->scan->loop_dim.name, .variable = idents->at[i].name});
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

// ---- a `for` that is meant to be a scan ---------------------------------------------------------

// The assignment that writes at the positions that the variable counts, `Y[t, d] = ...`, or NULL.
static const Tensor *written_at(const StmtList *body, Name variable) {
    const Tensor *found = NULL;
    for (uint32_t i = 0; i < body->count && !found; i++) {
        const Stmt *stmt = body->at[i];
        bool assigns = stmt->kind == STMT_ASSIGN && idents_find(&stmt->target.dims, variable);
        found = assigns ? &stmt->target : written_at(&stmt->body, variable);
    }
    return found;
}

static bool is_dim_of_parameter(const Def *def, Name name) {
    bool is_dim = false;
    for (uint32_t i = 0; i < def->params.count; i++)
        is_dim = is_dim || idents_find(&def->params.at[i].dims, name);
    return is_dim;
}

static void report_meant_scan(Resolver *r, const Stmt *loop, const Tensor *target) {
    Name variable = loop->loop_var.name;
    Diag *diag = diag_error(r->diags, idents_find(&target->dims, variable)->span,
                            "a 'for' writes out its rounds, '%s' is no dim of '%s'", variable,
                            target->name.name);
    diag_note(diag, loop->span, "it counts them here");
    diag_hint(diag, "'scan %s in %s:' writes '%s' position by position", variable,
              loop->loop_dim.name, target->name.name);
}

// told: the mistake is one with that of a loop around.
static void find_meant_scans(Resolver *r, const Def *def, const StmtList *body, bool told) {
    for (uint32_t i = 0; i < body->count; i++) {
        Stmt *stmt = body->at[i];
        bool plain = stmt->kind == STMT_FOR && !stmt->garbled &&
                     !is_dim_of_parameter(def, stmt->loop_var.name);
        const Tensor *target = plain ? written_at(&stmt->body, stmt->loop_var.name) : NULL;
        if (target && !told)
            report_meant_scan(r, stmt, target);
        stmt->kind = target ? STMT_SCAN : stmt->kind;
        stmt->shared = stmt->shared || target;
        find_meant_scans(r, def, &stmt->body, told || target);
    }
}

void scan_mark_steps(Resolver *r) {
    for (uint32_t i = 0; i < r->program->defs.count; i++) {
        const Def *def = r->program->defs.at[i];
        find_meant_scans(r, def, &def->body, false);
        mark_body(r->arena, &def->body, NULL);
    }
}

// ---- steps in brackets --------------------------------------------------------------------------

Step *steps_find(const StepList *steps, Name variable) {
    for (uint32_t i = 0; i < steps->count; i++)
        if (steps->at[i].variable == variable)
            return &steps->at[i];
    return NULL;
}

NameList steps_left(Arena *arena, const IdentList *idents, const StepList *steps) {
    NameList left = {0};
    for (uint32_t i = 0; i < idents->count; i++)
        if (!steps_find(steps, idents->at[i].name))
            dimlist_add(arena, &left, idents->at[i].name);
    return left;
}

IdentList steps_whole(Arena *arena, const IdentList *idents, const StepList *steps) {
    IdentList whole = {0};
    for (uint32_t i = 0; i < idents->count; i++) {
        const Step *step = steps_find(steps, idents->at[i].name);
        vec_push(arena, &whole, (Ident){step ? step->dim : idents->at[i].name, idents->at[i].span});
    }
    return whole;
}

// ---- reading ------------------------------------------------------------------------------------

NameList scan_positions(const Scope *scope, const NameList *dims, const NameList *which) {
    NameList positions = *dims;
    for (uint32_t i = 0; i < scope->scans.count; i++) {
        const Stmt *scan = scope->scans.at[i].stmt;
        if (namelist_has(which, scan->loop_dim.name))
            positions = dimlist_replaced(scope->resolver->arena, &positions, scan->loop_dim.name,
                                         scan->loop_var.name);
    }
    return positions;
}

static bool reads_now(const Step *step, const Symbol *symbol) {
    const Step *writing = steps_find(&symbol->writing, step->variable);
    return writing && writing->own == step->own;
}

bool scan_check_whole(Scope *scope, const Expr *expr, const Symbol *symbol, const StepList *steps) {
    const StepList *writing = &symbol->writing;
    uint32_t n_now = 0;
    for (uint32_t i = 0; steps && i < steps->count; i++)
        n_now += reads_now(&steps->at[i], symbol);
    if (n_now == writing->count)
        return true;
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

// X[t, d] where X is over [p, d]: the scan may be meant to run over p.
static void hint_not_over(const Scope *scope, Diag *diag, const Expr *ref, const Symbol *symbol,
                          const Step *step) {
    NameList written = dimlist_of(scope->resolver->arena, &ref->dims);
    NameList left = dimlist_minus(scope->resolver->arena, &symbol->dims, &written);
    if (left.count == 1)
        diag_hint(diag,
                  "'scan %s in %s:' runs over its positions, and 'dim %s like %s' would let "
                  "it be read at those of '%s'",
                  step->variable, left.at[0], step->dim, left.at[0], step->dim);
    else
        diag_hint(diag, "leave out '%s'", step->variable);
}

bool scan_check_over(Scope *scope, const Expr *ref, const Symbol *symbol) {
    for (uint32_t i = 0; i < ref->steps.count; i++) {
        const Step *step = &ref->steps.at[i];
        if (has_alike(scope, symbol, step->dim))
            continue;
        if (!scope_knows_dim(scope, step->dim)) // told of at the scan
            return false;
        Diag *diag =
            diag_error(scope->resolver->diags, idents_find(&ref->dims, step->variable)->span,
                       "'%s' is not over '%s' and has no position '%s'", ref->name.name, step->dim,
                       step->variable);
        scope_note_dims(scope, diag, symbol);
        hint_not_over(scope, diag, ref, symbol, step);
        return false;
    }
    return true;
}

bool scan_check_steps(Scope *scope, Expr *ref, const Symbol *symbol) {
    for (uint32_t i = 0; i < ref->steps.count; i++)
        ref->steps.at[i].now = reads_now(&ref->steps.at[i], symbol);
    return scan_check_whole(scope, ref, symbol, &ref->steps);
}

// ---- writing ------------------------------------------------------------------------------------

// The outermost scan at whose positions the target is written. NULL after a diagnostic.
static const OpenScan *written_from(Scope *scope, const Tensor *target) {
    const OpenScan *first = NULL;
    bool inside = false, gap = false;
    for (uint32_t i = scope->scans.count; i-- > 0;) {
        const OpenScan *open = &scope->scans.at[i];
        bool at = steps_find(&target->steps, open->stmt->loop_var.name) != NULL;
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

// Y[n, t] in `scan t in n:` would be over n twice.
static bool check_written_dims(Scope *scope, const Tensor *target) {
    Resolver *r = scope->resolver;
    IdentList whole = steps_whole(r->arena, &target->dims, &target->steps);
    for (uint32_t i = 1; i < whole.count; i++) {
        const Ident *first = idents_find(&whole, whole.at[i].name);
        if (first == &whole.at[i])
            continue;
        const Ident *second = &target->dims.at[i];
        const Step *step = steps_find(&target->steps, second->name);
        step = step ? step : steps_find(&target->steps, target->dims.at[first - whole.at].name);
        if (!step)
            return false; // one dim written twice, which was told
        Diag *diag =
            diag_error(r->diags, second->span, "'%s' would be over '%s' twice after the scan",
                       target->name.name, first->name);
        diag_note(diag, first->span, "first here");
        Name other = first->name;
        while (idents_find(&whole, other))
            other = name_primed(r->session->names, other, 1);
        if (idents_find(&target->dims, second->name) == second)
            diag_hint(diag, "'scan %s in %s:' runs over the same positions and writes '%s'",
                      step->variable, other, other);
        else
            diag_hint(diag, "write '%s' once", step->variable);
        return false;
    }
    return true;
}

bool scan_write(Scope *scope, Symbol *symbol, const Tensor *target) {
    Resolver *r = scope->resolver;
    const OpenScan *first = written_from(scope, target);
    if (!first || !check_written_dims(scope, target))
        return false;
    symbol->depth = first->depth - 1;
    for (const OpenScan *open = first; open < scope->scans.at + scope->scans.count; open++) {
        Name dim = open->stmt->loop_dim.name;
        vec_push(r->arena, &symbol->writing,
                 (Step){.dim = dim, .variable = open->stmt->loop_var.name, .own = dim});
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
