// SPDX-License-Identifier: Apache-2.0
// Dims of a call that no formal dim is bound to: those that it is mapped over, and those of the
// callee's own.
//
// Dims of the callee that no parameter has keep their names. One that is declared like a bound dim
// follows it: bound to t, `dim m like n` inside the callee becomes m_t, like t. The callee's n' is
// t' then, or where the call has a t' already the next one that is free.
#include "ast/resolve/call/call.h"

// ---- mapped dims --------------------------------------------------------------------------------

// Every argument's extra dims are among those of the argument with the most, and none is bound.
void bind_mapped(Binder *b) {
    Arena *arena = b->resolver->arena;
    NameList mapped = b->extras.at[b->mapped_by], told = {0};
    for (uint32_t param = 0; param < b->callee->params.count; param++) {
        NameList extra = b->extras.at[param];
        if (dimlist_within(&extra, &mapped))
            continue;
        NameList foreign = dimlist_minus(arena, &extra, &mapped);
        if (dimlist_within(&foreign, &told))
            continue;
        told = dimlist_union(arena, &told, &foreign);
        const Expr *arg = b->call->args.at[param];
        Diag *diag =
            binder_error(b, actual_place(arg, foreign.at[0]),
                         say(b, "'%s' maps '%s' over %s, but '%s' maps it over %s",
                             param_name(b, param), callee_name(b), dimlist_text(arena, &extra),
                             param_name(b, b->mapped_by), dimlist_text(arena, &mapped)));
        diag_note(diag, b->call->args.at[b->mapped_by]->span, "this one");
        note_param(b, diag, param);
        diag_hint(
            diag,
            "the dims that a parameter does not have are mapped and must agree (language 7.2)");
    }
    for (uint32_t i = 0; b->fine && i < mapped.count; i++) {
        const Bound *bound = find_actual(b, mapped.at[i]);
        if (!bound)
            continue;
        Diag *diag = binder_error(b, bound->place,
                                  say(b, "'%s' is '%s' of '%s' here, but '%s' is mapped over '%s'",
                                      bound->actual, bound->formal, callee_name(b),
                                      param_name(b, b->mapped_by), bound->actual));
        diag_note(diag, actual_place(b->call->args.at[b->mapped_by], bound->actual),
                  "mapped over here");
        if (bound->param == BY_HAND)
            continue;
        note_param(b, diag, bound->param);
        if (!b->extras.at[bound->param].count)
            diag_hint(diag, "does '%s' lack a dim for '%s'?", param_name(b, bound->param),
                      bound->formal);
    }
    b->call->mapped = mapped;
}

// ---- dims of the callee's own -------------------------------------------------------------------

void check_alike(Binder *b) {
    const Program *program = b->resolver->program;
    for (uint32_t i = 0; i < b->bound.count; i++)
        for (uint32_t k = 0; k < i; k++) {
            const Bound *first = &b->bound.at[k], *second = &b->bound.at[i];
            if (!program_dims_alike(program, first->formal, second->formal) ||
                program_dims_alike(program, first->actual, second->actual))
                continue;
            Diag *diag = binder_error(b, second->place,
                                      say(b,
                                          "'%s' and '%s' of '%s' have one extent, '%s' and '%s' "
                                          "need not",
                                          first->formal, second->formal, callee_name(b),
                                          first->actual, second->actual));
            diag_note(diag, first->place, "'%s' is '%s' from here", first->formal, first->actual);
            Names *names = b->resolver->session->names;
            diag_hint(diag, "declare 'dim %s like %s'", name_unprimed(names, second->actual),
                      name_unprimed(names, first->actual));
            break; // the same for others of the kind
        }
}

// A dim of the caller for `own`, which the callee declares like a dim that is bound to `actual`.
static Name like_dim(Binder *b, Name own, Name actual) {
    Resolver *r = b->resolver;
    Text text = {.arena = r->arena};
    text_printf(&text, "%s_%s", own, actual);
    for (;; text_add(&text, "_")) {
        Name name = names_find(r->session->names, text.at);
        const DimDecl *known = program_find_dim(r->program, name);
        if (known && program_dims_alike(r->program, name, actual))
            return name;
        if (known)
            continue;
        DimDecl *decl = arena_new_of(r->arena, DimDecl);
        decl->name.name = name;
        decl->like.name = actual;
        decl->like_root = program_like_root(r->program, actual);
        decl->value = program_extent(r->session, r->program, actual);
        program_add_dim(r, decl);
        return name;
    }
}

static void report_collision(Binder *b, Name own, Span place, const char *as) {
    Diag *diag = binder_error(b, place,
                              say(b,
                                  "'%s' has a dim '%s' of its own, which is not the '%s' that it "
                                  "is given as %s",
                                  callee_name(b), own, own, as));
    diag_note(diag, b->callee->name.span, "'%s' is here", callee_name(b));
    diag_hint(diag,
              "rename one of the two, or give it another dim: '%s(..., %s=...)' (language 7.3)",
              callee_name(b), own);
}

// What a dim without primes, bound or of the callee's own, is here. n_bound: dims that arguments
// and hands bind.
static Name plain_here(Binder *b, Name own, uint32_t n_bound) {
    const Program *program = b->resolver->program;
    const Bound *bound = find_formal(b, own);
    for (uint32_t k = 0; k < n_bound && !bound; k++)
        if (program_dims_alike(program, own, b->bound.at[k].formal) &&
            !program_dims_alike(program, own, b->bound.at[k].actual))
            return like_dim(b, own, b->bound.at[k].actual);
    return bound ? bound->actual : own;
}

static bool is_own_before(const Binder *b, Name dim, uint32_t before) {
    for (uint32_t i = 0; i < before; i++)
        if (b->callee->dims.at[i] == dim && !find_formal(b, dim))
            return true;
    return false;
}

// own: number `which` of the callee's dims, with primes.
static Name primed_here(Binder *b, uint32_t which, uint32_t n_bound) {
    Names *names = b->resolver->session->names;
    Name own = b->callee->dims.at[which];
    Name here = plain_here(b, name_unprimed(names, own), n_bound);
    here = name_primed(names, here, name_primes(own));
    while (find_actual(b, here) || namelist_has(&b->call->mapped, here) ||
           is_own_before(b, here, which))
        here = name_primed(names, here, 1);
    return here;
}

void bind_own_dims(Binder *b) {
    Arena *arena = b->resolver->arena;
    uint32_t n_bound = b->bound.count;
    for (uint32_t i = 0; i < b->callee->dims.count; i++) {
        Name own = b->callee->dims.at[i];
        if (find_formal(b, own))
            continue;
        Name here = name_primes(own) ? primed_here(b, i, n_bound) : plain_here(b, own, n_bound);
        const Bound *taken = find_actual(b, here);
        if (taken)
            report_collision(b, own, taken->place, say(b, "'%s'", taken->formal));
        else if (namelist_has(&b->call->mapped, here))
            report_collision(b, own, actual_place(b->call->args.at[b->mapped_by], here),
                             "a mapped dim");
        else if (here != own)
            vec_push(arena, &b->bound, (Bound){own, here, b->call->span, 0});
        NameList one = {0};
        vec_push(arena, &one, here);
        scope_add_dims(b->scope, &one);
    }
}
