// SPDX-License-Identifier: Apache-2.0
// Names that mean nothing where they are written. Each is told of once in a def.
#include "ast/resolve/resolve.h"

#include <string.h>

bool scope_is_news(Scope *scope, Name name) {
    if (namelist_has(&scope->unknown, name) || namelist_has(&scope->resolver->program->lost, name))
        return false;
    vec_push(scope->resolver->arena, &scope->unknown, name);
    return true;
}

// What other languages call by these names.
static const char *constant_hint(Arena *arena, Name name) {
    const char *constant = word_constant(name);
    if (constant)
        return arena_printf(arena, "write '%s'", constant);
    return words_have("None null nil", name) ? "there is no empty value: leave it out" : NULL;
}

// X' of other languages: the transpose.
static bool hint_transpose(Scope *scope, Diag *diag, Name name) {
    Resolver *r = scope->resolver;
    Name plain = name_unprimed(r->session->names, name);
    const Symbol *symbol = plain == name ? NULL : scope_find(scope, plain);
    if (!symbol)
        return false;
    const NameList *dims = &symbol->dims;
    if (dims->count == 2 && program_dims_alike(r->program, dims->at[0], dims->at[1]))
        diag_hint(diag, "write 'swap(%s, %s, %s)' for the transpose", plain, dims->at[0],
                  dims->at[1]);
    else
        diag_hint(diag, "write '%s': dims have names, in any order, and only they have primes",
                  plain);
    return true;
}

// Beside a diagnostic about the name.
static void hint_near(Diag *diag, Name name, const Near *near) {
    if (name_is_same(name))
        diag_hint(diag, "a constant has its dims in brackets: '%s[n, d]'", name);
    else if (near->best)
        diag_hint(diag, "did you mean '%s'?", near->best);
}

// `s = s * g[d]` in a scan, and Y[t - 1, d] where Y[t, d] is written: what is to be carried.
static bool hint_carried(const Scope *scope, Diag *diag, Name name) {
    for (uint32_t i = scope->scans.count; i-- > 0;) {
        const Stmt *scan = scope->scans.at[i].stmt;
        for (uint32_t k = 0; k < scan->body.count; k++) {
            const Stmt *stmt = scan->body.at[k];
            if (stmt->kind != STMT_ASSIGN || stmt->target.name.name != name)
                continue;
            if (stmt->target.steps.count)
                diag_hint(diag, "what the step before left is carried under another name, which "
                                "has a first value before the scan");
            else
                diag_hint(diag, "give it a first value before the scan, which then carries it");
            return true;
        }
    }
    return false;
}

// ---- tensors and numbers ------------------------------------------------------------------------

static void report_past(Scope *scope, Ident name, const Symbol *past) {
    bool scans = past->scan || past->kind == SYMBOL_STEP;
    Diag *diag = diag_error(scope->resolver->diags, name.span, "'%s' lives only inside the %s",
                            name.name, scans ? "scan" : "loop");
    diag_note(diag, past->name.span, "declared here");
    if (past->kind == SYMBOL_LOCAL && past->scan) {
        NameList kept = {0};
        vec_push(scope->resolver->arena, &kept, past->scan->loop_var.name);
        kept = dimlist_union(scope->resolver->arena, &kept, &past->dims);
        diag_hint(diag,
                  "'%s%s = ' keeps what it is at each position; with a first value before the scan "
                  "it is carried",
                  name.name, dimlist_text(scope->resolver->arena, &kept));
    } else if (past->kind == SYMBOL_LOCAL)
        diag_hint(diag, "give it a first value before the loop, which then carries it");
}

static void report_function(Scope *scope, Ident name, const Def *def) {
    Diag *diag = diag_error(scope->resolver->diags, name.span, "'%s' is a function, not a tensor",
                            name.name);
    if (def && def->name.span.file)
        diag_note(diag, def->name.span, "defined here");
    diag_hint(diag, "write its arguments: %s(...)", name.name);
}

void report_unknown(Scope *scope, Ident name, bool bare) {
    Resolver *r = scope->resolver;
    if (scope_incomplete(scope) || !scope_is_news(scope, name.name))
        return;
    const Symbol *past = scope_find_past(scope, name.name);
    const Def *def = program_find_def(r->program, name.name);
    if (past) {
        report_past(scope, name, past);
        return;
    }
    if (def || builtin_find(name.name) != BUILTIN_NONE) {
        report_function(scope, name, def);
        return;
    }
    Near near = near_to(name.name);
    scope_offer_symbols(scope, &near);
    Diag *diag;
    if (scope_knows_dim(scope, name.name)) {
        diag = diag_error(r->diags, name.span, "'%s' is a dim, not a tensor", name.name);
    } else {
        diag = diag_error(r->diags, name.span, "no tensor %sis named '%s' here",
                          bare ? "or dim " : "", name.name);
        if (bare)
            scope_offer_dims(scope, &near);
    }
    const char *constant = constant_hint(r->arena, name.name);
    if (constant)
        diag_hint(diag, "%s", constant);
    else if (!hint_carried(scope, diag, name.name) && !hint_transpose(scope, diag, name.name))
        hint_near(diag, name.name, &near);
}

// ---- functions ----------------------------------------------------------------------------------

void report_unknown_def(Scope *scope, const Expr *call) {
    Resolver *r = scope->resolver;
    Ident name = call->name;
    if (r->program->incomplete || !scope_is_news(scope, name.name))
        return;
    const Symbol *symbol = scope_find(scope, name.name);
    if (symbol) {
        Diag *diag = diag_error(r->diags, name.span, "'%s' is a tensor, not a function", name.name);
        diag_note(diag, symbol->name.span, "declared here");
        diag_hint(diag, "dims are written in brackets: '%s[...]'", name.name);
        return;
    }
    Diag *diag =
        diag_error(r->diags, name.span, "no def or built-in function is named '%s'", name.name);
    const char *meant = foreign_call_hint(scope, call);
    if (meant) {
        diag_hint(diag, "%s", meant);
        return;
    }
    Near near = near_to(name.name);
    for (uint32_t i = 0; i < r->program->defs.count; i++)
        if (!r->program->defs.at[i]->is_optimizer)
            near_offer(&near, r->program->defs.at[i]->name.name);
    for (int i = 0; i < N_BUILTIN; i++)
        near_offer(&near, names_find(r->session->names, builtin_name((Builtin)i)));
    hint_near(diag, name.name, &near);
}

// ---- dims ---------------------------------------------------------------------------------------

bool scope_check_dim(Scope *scope, Ident dim) {
    Resolver *r = scope->resolver;
    if (scope_knows_dim(scope, dim.name)) {
        scope_add_counted(scope, dim.name);
        return true;
    }
    bool garbled = scope->def && scope->def->garbled; // what was lost may name it
    if (garbled || scope_incomplete(scope) || !scope_is_news(scope, dim.name))
        return false;
    Diag *diag = diag_error(r->diags, dim.span, "no dim is named '%s' here", dim.name);
    Near near = near_to(dim.name);
    scope_offer_dims(scope, &near);
    if (near.best)
        hint_near(diag, dim.name, &near);
    else if (scope->def && scope->def->dims.count)
        diag_hint(diag, "the dims of '%s' are %s", scope->def->name.name,
                  dimlist_text(r->arena, &scope->def->dims));
    return false;
}
