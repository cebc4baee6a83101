// SPDX-License-Identifier: Apache-2.0
// References `T[dims]`: which dim of the tensor each written one reads.
//
//     dim m like n, k like n
//     X[d, n]       of X[n, d]: any order, names say what is what
//     X[m, d]       n is read over m
//     W[m, k]       of W[n, m]: dims that are alike are read in the tensor's order, n over m and m
//                   over k
//     S[m, n]       of S[n, m]: n and m in another order: an error, that asks for swap(S, n, m)
//
// A variable of a scan takes part like a dim that is like the scanned one, and then takes the
// position of what it is paired with: M[n, t] in `scan t in n:` is M[n, m] at t of m, M[t, n] at t
// of n.
//
// In `return` the order of the brackets is the order in memory, and names alone say what is what:
// of an entry, since a call has no memory.
#include "ast/resolve/resolve.h"

#include <string.h>

// ---- pairing ------------------------------------------------------------------------------------

// May the tensor's dim be read as the written one?
static bool reads_as(Scope *scope, const Expr *ref, Name own, Name written) {
    const Step *step = steps_find(&ref->steps, written);
    return program_dims_alike(scope->resolver->program, own, step ? step->dim : written);
}

static bool has_own(const Expr *ref, const Symbol *symbol, Name written) {
    return namelist_has(&symbol->dims, written) && !steps_find(&ref->steps, written);
}

static NameList without(Arena *arena, const NameList *list, Name dim) {
    NameList one = {0};
    vec_push(arena, &one, dim);
    return dimlist_minus(arena, list, &one);
}

// n_steps counts those that were paired.
static void pair(Resolver *r, Expr *ref, Name own, Name written, uint32_t *n_steps) {
    if (steps_find(&ref->steps, written))
        ref->steps.at[(*n_steps)++].own = own;
    else if (own != written)
        vec_push(r->arena, &ref->binding, (DimBinding){own, written});
}

// Pairs the written dims that the tensor lacks with tensor dims that are not written, class by
// class and in order. What is left over goes to `lacking` (not of the tensor) and `unwritten`.
static void pair_by_name(Scope *scope, Expr *ref, const Symbol *symbol, NameList *lacking,
                         NameList *unwritten) {
    Resolver *r = scope->resolver;
    uint32_t n_steps = 0;
    NameList written = steps_left(r->arena, &ref->dims, &ref->steps);
    *unwritten = dimlist_minus(r->arena, &symbol->dims, &written);
    for (uint32_t i = 0; i < ref->dims.count; i++) {
        Name dim = ref->dims.at[i].name, own = NULL;
        if (has_own(ref, symbol, dim))
            continue;
        for (uint32_t k = 0; k < unwritten->count && !own; k++)
            if (reads_as(scope, ref, unwritten->at[k], dim))
                own = unwritten->at[k];
        if (!own) {
            dimlist_add(r->arena, lacking, dim);
            continue;
        }
        *unwritten = without(r->arena, unwritten, own);
        pair(r, ref, own, dim, &n_steps);
    }
}

// The written dims in their places, but those that the tensor has and that are alike in the order
// in which it has them.
static NameList own_order(Scope *scope, const Expr *ref, const Symbol *symbol) {
    Resolver *r = scope->resolver;
    NameList written = dimlist_of(r->arena, &ref->dims), taken = {0};
    NameList ordered = dimlist_of(r->arena, &ref->dims);
    for (uint32_t i = 0; i < ordered.count; i++) {
        if (!has_own(ref, symbol, ordered.at[i]))
            continue;
        Name next = NULL;
        for (uint32_t k = 0; k < symbol->dims.count && !next; k++) {
            Name own = symbol->dims.at[k];
            if (namelist_has(&written, own) && !namelist_has(&taken, own) &&
                program_dims_alike(r->program, own, ordered.at[i]))
                next = own;
        }
        vec_push(r->arena, &taken, next);
        ordered.at[i] = next;
    }
    return ordered;
}

// Pairs the dims of each class in order. Requires: as many are written as the tensor has.
static void pair_in_order(Scope *scope, Expr *ref, const Symbol *symbol) {
    Arena *arena = scope->resolver->arena;
    NameList left = symbol->dims;
    uint32_t n_steps = 0;
    ref->binding.count = 0;
    for (uint32_t i = 0; i < ref->dims.count; i++) {
        Name dim = ref->dims.at[i].name, own = NULL;
        for (uint32_t k = 0; k < left.count && !own; k++)
            if (reads_as(scope, ref, left.at[k], dim))
                own = left.at[k];
        left = without(arena, &left, own);
        pair(scope->resolver, ref, own, dim, &n_steps);
    }
}

// ---- messages -----------------------------------------------------------------------------------

void scope_note_dims(Scope *scope, Diag *diag, const Symbol *symbol) {
    const char *dims = dimlist_text(scope->resolver->arena, &symbol->dims);
    Span place = symbol->name.span;
    if (symbol->kind == SYMBOL_ARGUMENT && symbol->brackets && symbol->brackets->count &&
        symbol->brackets->at[0].span.begin > symbol->name.span.end + 8)
        place = span_join(symbol->brackets->at[0].span,
                          symbol->brackets->at[symbol->brackets->count - 1].span);
    diag_note(diag, place, "'%s' is over %s from here", symbol->name.name, dims);
}

// X[ids], X[n, ids]: the tensor's dim there, which is not written.
static Name dim_in_place_of(const Expr *ref, const Symbol *symbol, Name written,
                            const NameList *unwritten) {
    for (uint32_t i = 0; i < ref->dims.count && i < symbol->dims.count; i++)
        if (ref->dims.at[i].name == written && namelist_has(unwritten, symbol->dims.at[i]))
            return symbol->dims.at[i];
    return unwritten->count == 1 ? unwritten->at[0] : NULL;
}

static void hint_reference(Scope *scope, Diag *diag, const Expr *ref, const Symbol *symbol,
                           const NameList *lacking, const NameList *unwritten) {
    Arena *arena = scope->resolver->arena;
    if (lacking->count && !strcmp(lacking->at[0], "None")) {
        diag_hint(diag, "leave out 'None': a tensor meets others by the names of its dims");
        return;
    }
    Name taken = lacking->count == 1 && scope_find(scope, lacking->at[0])
                     ? dim_in_place_of(ref, symbol, lacking->at[0], unwritten)
                     : NULL;
    if (taken) {
        diag_hint(diag, "'gather(%s, %s, dim=%s)' takes the positions that '%s' says",
                  symbol->name.name, lacking->at[0], taken, lacking->at[0]);
        return;
    }
    if (!lacking->count) {
        NameList whole = symbol->dims; // G[t, h, k] for G[t]
        for (uint32_t i = 0; i < ref->binding.count; i++)
            whole = dimlist_replaced(arena, &whole, ref->binding.at[i].formal,
                                     ref->binding.at[i].actual);
        for (uint32_t i = 0; i < ref->steps.count; i++)
            whole =
                dimlist_replaced(arena, &whole, ref->steps.at[i].own, ref->steps.at[i].variable);
        const char *all = dimlist_text(arena, &whole);
        NameList one = scan_positions(scope, &whole, unwritten);
        if (dimlist_same(&one, &whole))
            diag_hint(diag, "write '%s%s', in any order", symbol->name.name, all);
        else
            diag_hint(diag, "write '%s%s' for one position, '%s%s' for all", symbol->name.name,
                      dimlist_text(arena, &one), symbol->name.name, all);
        return;
    }
    if (!unwritten->count) {
        diag_hint(diag, "leave out %s", quoted_text(arena, lacking));
        return;
    }
    Near near = near_to(lacking->at[0]);
    near_offer_list(&near, unwritten);
    Name meant = unwritten->count == 1 ? unwritten->at[0] : near.best;
    if (meant && meant != near.best && ref->dims.count == symbol->dims.count &&
        !name_primes(lacking->at[0]))
        diag_hint(diag, "did you mean '%s'? 'dim %s like %s' would let '%s' be read over '%s'",
                  meant, lacking->at[0], meant, symbol->name.name, lacking->at[0]);
    else if (meant)
        diag_hint(diag, "did you mean '%s'?", meant);
    else
        diag_hint(diag, "%s of '%s' %s not written", quoted_text(arena, unwritten),
                  symbol->name.name, unwritten->count == 1 ? "is" : "are");
}

static void report_reference(Scope *scope, Expr *ref, const Symbol *symbol, const NameList *lacking,
                             const NameList *unwritten) {
    Resolver *r = scope->resolver;
    Diag *diag;
    for (uint32_t i = 0; i < lacking->count; i++)
        if (namelist_has(&r->program->lost, lacking->at[i]))
            return; // its `dim` may have said that it is like one of the tensor's
    if (lacking->count)
        diag = diag_error(r->diags, idents_find(&ref->dims, lacking->at[0])->span,
                          "'%s' has no dim%s %s", symbol->name.name, lacking->count > 1 ? "s" : "",
                          quoted_text(r->arena, lacking));
    else
        diag = diag_error(r->diags, ref->span, "%s of '%s' %s missing here",
                          quoted_text(r->arena, unwritten), symbol->name.name,
                          unwritten->count == 1 ? "is" : "are");
    scope_note_dims(scope, diag, symbol);
    hint_reference(scope, diag, ref, symbol, lacking, unwritten);
}

// The tensor over the dims that are written, in its own order.
static const char *plain_text(Scope *scope, const Expr *ref, const Symbol *symbol) {
    Arena *arena = scope->resolver->arena;
    NameList ordered = own_order(scope, ref, symbol);
    return arena_printf(arena, "%s%s", symbol->name.name, dimlist_text(arena, &ordered));
}

// The swaps that make the written reading of that: swap(S, n, m) for S[m, n].
static const char *exchanged_text(Scope *scope, const Expr *ref, const Symbol *symbol) {
    Resolver *r = scope->resolver;
    NameList now = own_order(scope, ref, symbol);
    const char *text =
        dimlist_equal(&now, &symbol->dims) ? symbol->name.name : plain_text(scope, ref, symbol);
    for (uint32_t i = 0; i < now.count; i++) {
        Name from = now.at[i], to = ref->dims.at[i].name;
        if (from == to)
            continue;
        text = arena_printf(r->arena, "swap(%s, %s, %s)", text, from, to);
        for (uint32_t k = i; k < now.count; k++)
            now.at[k] = now.at[k] == from ? to : now.at[k] == to ? from : now.at[k];
    }
    return text;
}

static void report_exchanged(Scope *scope, const Expr *ref, const Symbol *symbol) {
    Resolver *r = scope->resolver;
    Name name = symbol->name.name;
    NameList written = dimlist_of(r->arena, &ref->dims);
    Diag *diag =
        diag_error(r->diags, ref->span, "'%s' is read over %s, its alike dims in another order",
                   name, dimlist_text(r->arena, &written));
    scope_note_dims(scope, diag, symbol);
    diag_hint(diag, "'%s' exchanges them, '%s' is '%s' as it is",
              exchanged_text(scope, ref, symbol), plain_text(scope, ref, symbol), name);
}

// `A[n, n]` of a matrix from n to n'.
static bool is_diagonal(const Scope *scope, const Expr *ref, const Symbol *symbol) {
    return symbol && symbol->ok && symbol->dims.count == 2 && ref->dims.count == 2 &&
           !ref->steps.count && ref->dims.at[0].name == ref->dims.at[1].name &&
           program_dims_alike(scope->resolver->program, symbol->dims.at[0], symbol->dims.at[1]);
}

static bool report_diagonal(Scope *scope, const Expr *ref, const Symbol *symbol) {
    Name a = symbol->dims.at[0], b = symbol->dims.at[1];
    Diag *diag = diag_error(scope->resolver->diags, ref->dims.at[1].span,
                            "dim '%s' stands here twice", ref->dims.at[1].name);
    diag_note(diag, ref->dims.at[0].span, "first here");
    diag_hint(diag,
              "'%s[%s, %s]' is the matrix, 'sum(where(index(%s) == index(%s), %s, 0), "
              "reduced_dim=%s)' its diagonal",
              symbol->name.name, a, b, a, b, symbol->name.name, b);
    return false;
}

// ---- the whole ----------------------------------------------------------------------------------

void resolve_reference(Scope *scope, Expr *ref, bool returned) {
    Resolver *r = scope->resolver;
    if (name_is_same(ref->name.name) && !scope_find(scope, ref->name.name)) {
        resolve_same(scope, ref);
        return;
    }
    expr_poison(ref);
    Symbol *symbol = scope_use(scope, ref->name, false);
    if (symbol && symbol->ok)
        take_loop_numbers(scope, ref, symbol);
    bool fine =
        (symbol && symbol->doubtful) ||
        (is_diagonal(scope, ref, symbol) ? report_diagonal(scope, ref, symbol)
                                         : scope_check_brackets(scope, &ref->dims, &ref->steps));
    if (!symbol)
        return;
    if (symbol->kind == SYMBOL_LOOP || symbol->kind == SYMBOL_STEP) {
        Diag *diag = diag_error(r->diags, ref->span, "'%s' is a %s, it has no dims", ref->name.name,
                                symbol->kind == SYMBOL_STEP ? "scan's position" : "loop's number");
        diag_note(diag, symbol->name.span, "declared here");
        return;
    }
    if (!symbol->ok || !fine)
        return;
    if (!symbol->doubtful && !scan_check_over(scope, ref, symbol))
        return;
    NameList lacking = {0}, unwritten = {0};
    pair_by_name(scope, ref, symbol, &lacking, &unwritten);
    if (lacking.count || (unwritten.count && !ref->args.count)) {
        if (!symbol->doubtful)
            report_reference(scope, ref, symbol, &lacking, &unwritten);
        return;
    }
    if (ref->args.count && (symbol->doubtful || !take_positions(scope, ref, symbol)))
        return;
    Symbol left = *symbol; // by the numbers
    left.dims = dimlist_minus(r->arena, &symbol->dims, &ref->reduced);
    NameList written = dimlist_of(r->arena, &ref->dims), ordered = own_order(scope, ref, &left);
    bool in_order = dimlist_same(&written, &ordered);
    if (in_order) {
        pair_in_order(scope, ref, &left);
    } else if (!returned || ref->args.count) {
        if (!symbol->doubtful)
            report_exchanged(scope, ref, &left);
        return;
    } else if (!scope->def->reordered) {
        scope->def->reordered = ref;
        scope->def->exchanged = exchanged_text(scope, ref, &left);
    }
    if (!scan_check_steps(scope, ref, symbol) && !symbol->doubtful)
        return;
    ref->name_kind = NAME_TENSOR;
    expr_set(ref, steps_left(r->arena, &ref->dims, &ref->steps), symbol->elem);
    scope_add_dims(scope, &ref->result);
}
