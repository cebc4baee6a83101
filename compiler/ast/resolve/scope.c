// SPDX-License-Identifier: Apache-2.0
// The symbols of one def: what a name means at a place, what was never used, which dims are known.
#include "ast/resolve/resolve.h"

enum { DEPTH_PAST = UINT32_MAX };

static Symbol *find_with(const Scope *scope, Name name, bool past) {
    for (uint32_t i = scope->symbols.count; i-- > 0;) {
        Symbol *symbol = scope->symbols.at[i];
        if (symbol->name.name == name && (symbol->depth == DEPTH_PAST) == past)
            return symbol;
    }
    return NULL;
}

// Top-level params are symbols of a def from where it first looks for them: it has its own, since
// what is wrong with its uses is its own too. The prelude's see none: their names are theirs alone.
Symbol *scope_find(Scope *scope, Name name) {
    Symbol *symbol = find_with(scope, name, false);
    bool sees = scope->def && !scope_in_prelude(scope);
    const Tensor *global = sees ? map_get(scope->resolver->globals, (uintptr_t)name) : NULL;
    if (symbol || !global)
        return symbol;
    symbol = scope_add(scope, SYMBOL_GLOBAL, global->name);
    symbol->depth = 0;
    symbol->brackets = &global->dims;
    symbol->dims = global->result;
    symbol->elem = global->elem;
    symbol->ok = global->ok;
    return symbol;
}

Symbol *scope_find_past(const Scope *scope, Name name) {
    return find_with(scope, name, true);
}

bool scope_made_of(Scope *scope, const Expr *expr, ExprTest *is, const void *of) {
    Arena *arena = arena_new();
    Map *seen = map_new(arena); // by symbol
    VEC(const Expr *) parts = {0};
    bool found = false;
    for (vec_push(arena, &parts, expr); parts.count && !found;) {
        const Expr *part = parts.at[--parts.count];
        found = is(part, of);
        const Symbol *symbol = expr_is_tensor(part) ? scope_find(scope, part->name.name) : NULL;
        if (symbol && symbol->kind == SYMBOL_LOCAL && symbol->value &&
            !map_get(seen, (uintptr_t)symbol)) {
            map_put(seen, (uintptr_t)symbol, (void *)symbol);
            vec_push(arena, &parts, symbol->value);
        }
        for (uint32_t i = 0; i < part->args.count; i++)
            vec_push(arena, &parts, part->args.at[i]);
    }
    arena_free(arena);
    return found;
}

bool scope_in_scan(const Scope *scope) {
    return scope->scans.count && scope->scans.at[scope->scans.count - 1].depth == scope->depth;
}

Symbol *scope_add(Scope *scope, SymbolKind kind, Ident name) {
    Symbol *symbol = arena_new_of(scope->resolver->arena, Symbol);
    symbol->kind = kind;
    symbol->name = name;
    symbol->depth = scope->depth;
    symbol->scan = scope_in_scan(scope) ? scope->scans.at[scope->scans.count - 1].stmt : NULL;
    vec_push(scope->resolver->arena, &scope->symbols, symbol);
    return symbol;
}

bool scope_in_prelude(const Scope *scope) {
    return scope->def && scope->def->from_prelude;
}

bool scope_incomplete(const Scope *scope) {
    return scope->def && scope->def->incomplete;
}

// ---- names --------------------------------------------------------------------------------------

void scope_offer_symbols(const Scope *scope, Near *near) {
    const Program *program = scope->resolver->program;
    for (uint32_t i = 0; scope->def && i < program->params.count; i++)
        near_offer(near, program->params.at[i]->name.name);
    for (uint32_t i = 0; i < scope->symbols.count; i++)
        if (scope->symbols.at[i]->depth != DEPTH_PAST)
            near_offer(near, scope->symbols.at[i]->name.name);
}

void scope_offer_dims(const Scope *scope, Near *near) {
    const Program *program = scope->resolver->program;
    if (scope->def)
        near_offer_list(near, &scope->def->dims);
    for (uint32_t i = 0; i < program->dims.count; i++)
        near_offer(near, program->dims.at[i]->name.name);
}

Symbol *scope_use(Scope *scope, Ident name, bool bare) {
    Symbol *symbol = scope_find(scope, name.name);
    if (!symbol) {
        report_unknown(scope, name, bare);
        return NULL;
    }
    symbol->used = true;
    if (symbol->kind == SYMBOL_GLOBAL)
        dimlist_add(scope->resolver->arena, &scope->resolver->used_params, name.name);
    return symbol;
}

// ---- the end of a scope -------------------------------------------------------------------------

void scope_end_loop(Scope *scope) {
    for (uint32_t i = 0; i < scope->symbols.count; i++) {
        Symbol *symbol = scope->symbols.at[i];
        if (symbol->depth != DEPTH_PAST && symbol->depth >= scope->depth)
            symbol->depth = DEPTH_PAST;
    }
    scope->depth--;
}

void scope_warn_unused(Scope *scope) {
    static const char *const what[] = {"parameter", "tensor", "trained tensor"};
    if (scope->def->from_prelude)
        return;
    for (uint32_t i = 0; i < scope->symbols.count; i++) {
        const Symbol *symbol = scope->symbols.at[i];
        if (symbol->used || symbol->kind > SYMBOL_TRAINED || symbol->name.name[0] == '_')
            continue;
        Diag *diag =
            diag_warning(scope->resolver->diags, "unused", symbol->name.span,
                         "%s '%s' never takes part", what[symbol->kind], symbol->name.name);
        diag_hint(diag, "use it, remove it, or call it '_%s'", symbol->name.name);
    }
}

// ---- dims ---------------------------------------------------------------------------------------

void scope_add_dims(Scope *scope, const NameList *dims) {
    if (!scope->def)
        return;
    for (uint32_t i = 0; i < dims->count; i++)
        dimlist_add(scope->resolver->arena, &scope->def->dims, dims->at[i]);
}

void scope_add_alike(Scope *scope, Name dim) {
    NameList one = {0};
    vec_push(scope->resolver->arena, &one, dim);
    bool alone = program_like_root(scope->resolver->program, dim) == dim;
    if (!alone)
        scope_add_dims(scope, &one);
}

void scope_add_counted(Scope *scope, Name dim) {
    Resolver *r = scope->resolver;
    if (!scope_in_prelude(scope))
        dimlist_add(r->arena, &r->counted, name_unprimed(r->session->names, dim));
}

bool scope_knows_dim(const Scope *scope, Name dim) {
    const Resolver *r = scope->resolver;
    Name plain = name_unprimed(r->session->names, dim);
    bool named = scope->def &&
                 (namelist_has(&scope->def->dims, dim) || namelist_has(&scope->def->dims, plain));
    return named || program_find_dim(r->program, plain) ||
           program_given(r->program, &r->session->overrides, plain);
}

typedef struct {
    Scope *scope;
    const NameList *names;
} Taken;

static bool is_taken(const void *of, const char *text) {
    const Taken *taken = of;
    Name name = names_find(taken->scope->resolver->session->names, text);
    return scope_knows_dim(taken->scope, name) || scope_find(taken->scope, name) ||
           namelist_has(taken->names, name);
}

Name scope_free_name(Scope *scope, const char *name, const NameList *taken) {
    Resolver *r = scope->resolver;
    const Taken all = {scope, taken};
    if (is_taken(&all, name))
        name = text_numbered(r->arena, name, is_taken, &all);
    return names_find(r->session->names, name);
}

bool scope_check_brackets(Scope *scope, const IdentList *dims, const StepList *steps) {
    bool fine = true;
    for (uint32_t i = 1; i < dims->count; i++) {
        const Ident *first = idents_find(dims, dims->at[i].name);
        if (first == &dims->at[i] || (steps && steps_find(steps, first->name)))
            continue;
        Diag *diag = diag_error(scope->resolver->diags, dims->at[i].span,
                                "dim '%s' stands here twice", dims->at[i].name);
        diag_note(diag, first->span, "first here");
        Name other = first->name;
        while (idents_find(dims, other))
            other = name_primed(scope->resolver->session->names, other, 1);
        diag_hint(diag, "a matrix from '%s' to '%s' needs two names: '%s' is a dim like '%s'",
                  first->name, first->name, other, first->name);
        fine = false;
    }
    return fine;
}
