// SPDX-License-Identifier: Apache-2.0
// The parts that calls and loops have in the names of trained tensors (`layer.0.attend.P_q`).
//
//     for i in layers:          i           the names are i.0.norm.gain, i.1.norm.gain,
//         X = norm(X)               norm    i_1.0.first.gain, i_1.0.norm.gain, ...
//     for i in layers:          i_1
//         X = norm(X) as first      first
//         X = norm(X)               norm
//
// A block (the body of a def or of a loop) is a scope of parts: labels are as they are written,
// everything else is called after its def or its variable, with a number where that is taken. What
// has no trained tensors takes no part in this.
#include "ast/resolve/resolve.h"

typedef struct {
    Name own;           // label, def or variable
    const Ident *label; // NULL: not written, a number may follow
    Name *path;
} Part;

typedef struct {
    const Ident *label; // that it is, or NULL
    uint32_t number;    // the last one tried behind it
} Taken;

typedef struct {
    Resolver *resolver;
    VEC(Part) parts; // in the order in which they are run
    Map *taken;      // Name -> Taken
} Block;

static void number_block(Resolver *r, const StmtList *body);

// ---- what is in a block -------------------------------------------------------------------------

static bool call_owns(const Expr *expr) {
    return expr->kind == EXPR_CALL && expr->callee && expr->callee->owns_params;
}

static bool expr_owns(const Expr *expr) {
    for (uint32_t i = 0; i < expr->args.count; i++)
        if (expr_owns(expr->args.at[i]))
            return true;
    return call_owns(expr);
}

static bool body_owns(const StmtList *body) {
    for (uint32_t i = 0; i < body->count; i++) {
        const Stmt *stmt = body->at[i];
        if (stmt->kind == STMT_PARAM || (stmt->value && expr_owns(stmt->value)) ||
            body_owns(&stmt->body))
            return true;
    }
    return false;
}

static void add_calls(Block *block, Expr *expr) {
    for (uint32_t i = 0; i < expr->args.count; i++)
        add_calls(block, expr->args.at[i]);
    if (!call_owns(expr))
        return;
    const Ident *label = expr->label.name ? &expr->label : NULL;
    Name own = label ? label->name : expr->callee->name.name;
    vec_push(block->resolver->arena, &block->parts, (Part){own, label, &expr->path});
}

static void add_parts(Block *block, const StmtList *body) {
    for (uint32_t i = 0; i < body->count; i++) {
        Stmt *stmt = body->at[i];
        if (stmt->value)
            add_calls(block, stmt->value);
        for (uint32_t k = 0; k < stmt->results.count; k++)
            add_calls(block, stmt->results.at[k]);
        if (!body_owns(&stmt->body))
            continue;
        vec_push(block->resolver->arena, &block->parts,
                 (Part){stmt->loop_var.name, NULL, &stmt->path});
        number_block(block->resolver, &stmt->body);
    }
}

// ---- who has which name -------------------------------------------------------------------------

static Taken *find_taken(const Block *block, Name name) {
    return map_get(block->taken, (uint64_t)(uintptr_t)name);
}

static void take(Block *block, const Part *part, Name name) {
    Taken *taken = arena_new_of(block->resolver->arena, Taken);
    taken->label = part->label;
    map_put(block->taken, (uint64_t)(uintptr_t)name, taken);
    *part->path = name;
}

static void take_label(Block *block, const Part *part) {
    const Taken *before = find_taken(block, part->own);
    if (!before) {
        take(block, part, part->own);
        return;
    }
    *part->path = part->own;
    Diag *diag = diag_error(block->resolver->diags, part->label->span,
                            "two calls are named '%s': their parameters would be one", part->own);
    diag_note(diag, before->label->span, "the first is here");
    diag_hint(diag, "give this one another name");
}

static void take_number(Block *block, const Part *part) {
    Session *session = block->resolver->session;
    Taken *own = find_taken(block, part->own);
    Name name;
    do {
        const char *text = arena_printf(session->arena, "%s_%u", part->own, ++own->number);
        name = names_find(session->names, text);
    } while (find_taken(block, name));
    take(block, part, name);
}

// Labels first; then the first of every def and variable has its name, unless that is a label.
static void number_block(Resolver *r, const StmtList *body) {
    Block block = {.resolver = r, .taken = map_new(r->arena)};
    add_parts(&block, body);
    for (uint32_t i = 0; i < block.parts.count; i++)
        if (block.parts.at[i].label)
            take_label(&block, &block.parts.at[i]);
    for (uint32_t i = 0; i < block.parts.count; i++)
        if (!find_taken(&block, block.parts.at[i].own))
            take(&block, &block.parts.at[i], block.parts.at[i].own);
    for (uint32_t i = 0; i < block.parts.count; i++)
        if (!*block.parts.at[i].path)
            take_number(&block, &block.parts.at[i]);
}

void resolve_paths(Resolver *r, const Def *def) {
    number_block(r, &def->body);
}
