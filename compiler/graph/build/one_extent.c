// SPDX-License-Identifier: Apache-2.0
// A computed dim is one dim for all calls (grammar/language.md 7.3): none computes it from other
// dims than another one or, where the file makes a number of it, than the file.
//
//     dim h = n / 2
//     def Half(X[n, d]): ... over h ...
//
//     Half(X[a, d]) + Half(Y[b, d])     h = a / 2 and h = b / 2: an error at the second call
//     Half(X[a, d]), with `dim n = 8`   h = a / 2 and h = 4: an error
//     Half(Y[b, d], h=h_b)              fine
#include "graph/build/build.h"

#include <string.h>

// Formulas of more places than this are too long to tell, and count as different: what chains of
// declarations make may be longer than anyone can count. Text of more bytes is not shown.
enum { PLACES_MOST = 500, LONGEST_TEXT = 80 };

// ---- where two calls differ ---------------------------------------------------------------------

// The outermost frame of `frame`'s that is none of `other`'s: the call that led to it alone. NULL:
// `other` is inside of `frame`.
static Frame *parting(Frame *frame, const Frame *other) {
    Frame *apart = NULL;
    for (; frame; frame = frame->caller) {
        const Frame *shared = other;
        while (shared && shared != frame)
            shared = shared->caller;
        if (shared)
            return apart;
        apart = frame;
    }
    return apart;
}

// What the def of a frame calls the dims of a class, or NULL.
static Name name_in(const Frame *frame, DimId class) {
    for (uint32_t i = 0; i < frame->def->dims.count; i++) {
        const Dim *dim = frame_class(frame, frame->def->dims.at[i]);
        if (dim && dim == &frame->build->graph->dims.at[class])
            return frame->def->dims.at[i];
    }
    return NULL;
}

// A formula with the names that the def of a frame has for its dims; NULL: it is too long.
static const char *text_in(const Frame *frame, const Formula *formula) {
    Build *build = frame->build;
    if (!formula)
        return NULL;
    Graph named = *build->graph;
    named.dims.at = arena_array(build->arena, Dim, named.dims.count);
    for (uint32_t i = 0; i < named.dims.count; i++) {
        Name name = name_in(frame, build->graph->dims.at[i].like);
        named.dims.at[i] = build->graph->dims.at[i];
        named.dims.at[i].name = name ? name : named.dims.at[i].name;
    }
    const char *text = formula_text(&named, formula, build->arena);
    return strlen(text) <= LONGEST_TEXT ? text : NULL;
}

// A name like `dim` for another one, which neither the file nor the graph has.
static Name free_name(const Frame *frame, Name dim) {
    Build *build = frame->build;
    Names *names = build->session->names;
    for (unsigned number = 2;; number++) {
        const char *text = arena_printf(build->arena, "%s_%u", name_unprimed(names, dim), number);
        Name name = names_find(names, text);
        if (!program_find_dim(build->program, name) && !frame_class(build->top, name))
            return name;
    }
}

// One of two ways to compute a dim, and the frame that has it.
typedef struct {
    Frame *frame;
    const Formula *formula; // NULL: it is too long
    Span at;                // in the frame's def
} Computed;

static bool is_alike(Build *build, const Computed *a, const Computed *b) {
    return a->formula && b->formula && formula_alike(build->arena, a->formula, b->formula);
}

// `dim` of `callee` is computed in two ways. other: a free name. here, there: NULL, too long.
static Diag *tell_ways(Build *build, const Frame *apart, Span elsewhere, Name dim, const char *here,
                       const char *there) {
    Diags *diags = build->session->diags;
    Name callee = apart->def->name.name, other = free_name(apart, dim);
    bool shown = here && there;
    Diag *diag = shown ? diag_error(diags, apart->call->span,
                                    "'%s' of '%s' is %s here, but %s elsewhere: it is one dim for "
                                    "all calls",
                                    dim, callee, here, there)
                       : diag_error(diags, apart->call->span,
                                    "'%s' of '%s' is computed from other dims here than "
                                    "elsewhere: it is one dim for all calls",
                                    dim, callee);
    diag_note(diag, elsewhere, shown ? "it is %s from here" : "elsewhere is here", there);
    diag_hint(diag,
              "give this call a dim of its own: 'dim %s = %s' and '%s(..., %s=%s)' (language 7.3)",
              other, here ? here : "...", callee, dim, other);
    return diag;
}

// Tells of a dim of the callee's own that is `second` in one call and `first` elsewhere. False
// after the diagnostic; true where they agree, no call is to blame, or it binds the dim.
static bool check_calls(Build *build, DimId class, Computed first, Computed second) {
    if (is_alike(build, &first, &second))
        return true;
    if (!parting(second.frame, first.frame)) { // the caller itself came second
        Computed caller = second;
        second = first;
        first = caller;
    }
    const Frame *apart = parting(second.frame, first.frame),
                *before = parting(first.frame, second.frame);
    if (!apart || !apart->call || frame_binds(apart, class))
        return true;
    Name dim = name_in(apart, class);
    if (!dim)
        return true;
    Diag *diag =
        tell_ways(build, apart, before ? before->call->span : first.at, dim,
                  text_in(apart->caller, second.formula), text_in(apart->caller, first.formula));
    frame_note_calls(apart->caller, diag);
    return false;
}

// Of two claims on one dim those of one call are left to run time.
static bool check_claims(Build *build, const Claim *first, const Claim *claim) {
    return check_calls(build, claim->rule.dim,
                       (Computed){first->frame, first->rule.formula, first->rule.origin},
                       (Computed){claim->frame, claim->rule.formula, claim->rule.origin});
}

static uint64_t key_of(const Claim *claim) {
    uint64_t key = hash_u64(claim->rule.dim, claim->rule.origin.file);
    return hash_u64(hash_u64(key, claim->rule.origin.begin), claim->rule.origin.end);
}

bool build_claim_repeats(Build *build, const Claim *claim) {
    uint64_t key = key_of(claim);
    Claim *newest = map_get(build->said, key), *known = newest;
    while (known && (known->rule.dim != claim->rule.dim ||
                     !span_same(known->rule.origin, claim->rule.origin)))
        known = known->before;
    Claim last = known ? *known : *claim;
    if (!known) {
        known = arena_new_of(build->arena, Claim);
        map_put(build->said, key, known);
        last.before = newest;
    }
    *known = *claim;
    known->before = last.before;
    return check_claims(build, &last, claim);
}

bool build_claim_agrees(Build *build, const Claim *claim) {
    if (claim->rule.dim >= build->of_dim.count)
        return true;
    const ClaimList *others = &build->of_dim.at[claim->rule.dim];
    for (uint32_t i = 0; i < others->count; i++)
        if (!check_claims(build, others->at[i], claim))
            return false;
    return true;
}

// ---- one formula for all calls ------------------------------------------------------------------

// Of two frames. A list takes the place of recursion: chains of declarations are as long as a file.
typedef struct {
    const Frame *a, *b;
    Map *seen; // declarations
    VEC(const Expr *) open;
} Comparison;

static bool is_same_dim(Comparison *c, Name name) {
    Build *build = c->a->build;
    int64_t extent = frame_extent(c->a, name);
    if (extent != EXTENT_DYNAMIC || frame_extent(c->b, name) != EXTENT_DYNAMIC)
        return extent == frame_extent(c->b, name);
    const Dim *class = frame_class(c->a, name);
    if (class != frame_class(c->b, name))
        return false;
    const DimDecl *decl = program_extent_origin(build->session, build->program, name);
    bool bound = class && !program_dims_alike(build->program, class->name, name);
    if (!decl || bound || map_get(c->seen, (uint64_t)(uintptr_t)decl))
        return true;
    map_put(c->seen, (uint64_t)(uintptr_t)decl, decl->extent);
    vec_push(build->arena, &c->open, decl->extent);
    return true;
}

static bool is_same_expr(Comparison *c, const Expr *expr) {
    if (expr->kind == EXPR_NAME)
        return is_same_dim(c, expr->name.name);
    for (uint32_t i = 0; i < expr->args.count; i++)
        if (!is_same_expr(c, expr->args.at[i]))
            return false;
    return true;
}

// Do the dims of an expression stand for the same ones, and those that they are computed from?
static bool is_same_in(const Frame *a, const Frame *b, const Expr *expr) {
    Comparison c = {.a = a, .b = b, .seen = map_new(a->build->arena)};
    bool same = is_same_expr(&c, expr);
    while (same && c.open.count)
        same = is_same_expr(&c, c.open.at[--c.open.count]);
    return same;
}

static const DimDecl *use_origin(const Build *build, const ComputedUse *use) {
    return program_extent_origin(build->session, build->program, use->name);
}

// The last use before of the same dim by the same declaration. whole: by use, those that have all
// that they are computed from.
static const ComputedUse *use_before(const Build *build, uint32_t which, const bool *whole) {
    const ComputedUse *uses = build->computed.at, *use = &uses[which];
    for (uint32_t i = which; i-- > 0;)
        if (whole[i] && uses[i].dim == use->dim &&
            use_origin(build, &uses[i]) == use_origin(build, use))
            return &uses[i];
    return NULL;
}

// A formula with what the file says of its dims in their place: where these are no arguments of
// calls, they are one dim for all calls as well, and hide what differs. NULL: it has more places
// than `room`, which is made less by them.
static const Formula *spelled_out(Frame *frame, const Formula *formula, uint32_t *room) {
    Build *build = frame->build;
    if (!*room)
        return NULL;
    --*room;
    if (formula->op == FORMULA_NUMBER)
        return formula;
    if (formula->op != FORMULA_DIM) {
        const Formula *a = spelled_out(frame, formula->a, room);
        const Formula *b = a ? spelled_out(frame, formula->b, room) : NULL;
        return b ? formula_of(build->arena, formula->op, a, b) : NULL;
    }
    const Dim *dim = &build->graph->dims.at[formula->dim];
    Name name = dim->name;
    const DimDecl *decl = program_extent_origin(build->session, build->program, name);
    if (!decl || frame_class(frame, name) != dim)
        return formula;
    const Formula *extent = build_formula(frame, decl->extent);
    return extent ? spelled_out(frame, extent, room) : formula;
}

// Requires: the frame has all that the extent needs. False: it is no formula.
static bool computed_in(Frame *frame, const Expr *extent, Computed *out) {
    const Formula *formula = build_formula(frame, extent);
    uint32_t room = PLACES_MOST;
    if (formula)
        *out = (Computed){frame, spelled_out(frame, formula, &room), frame->def->name.span};
    return formula != NULL;
}

// Against the number that the file makes of the extent, where its dims have extents there.
static bool check_number(Build *build, const ComputedUse *use) {
    const DimDecl *decl = use_origin(build, use);
    int64_t extent = program_extent(build->session, build->program, use->name);
    Frame *frame = use->frame;
    if (extent == EXTENT_DYNAMIC || frame_is_given(frame, use->name))
        return true;
    while (!is_same_in(build->top, frame, decl->extent))
        frame = frame->caller;
    if (frame == use->frame)
        return true;
    Computed file = {frame, formula_number(build->arena, extent), decl->name.span}, here;
    return !computed_in(use->frame, decl->extent, &here) ||
           check_calls(build, use->dim, file, here);
}

void build_check_computed(Build *build) {
    bool *whole = arena_array(build->arena, bool, build->computed.count + 1);
    for (uint32_t i = 0; i < build->computed.count; i++) {
        const ComputedUse *use = &build->computed.at[i];
        const Expr *extent = use_origin(build, use)->extent;
        whole[i] = frame_can_compute(use->frame, extent);
        if (whole[i] && !check_number(build, use))
            return;
        const ComputedUse *first = whole[i] ? use_before(build, i, whole) : NULL;
        if (!first || is_same_in(first->frame, use->frame, extent))
            continue;
        Computed before, here;
        if (computed_in(first->frame, extent, &before) && computed_in(use->frame, extent, &here) &&
            !check_calls(build, use->dim, before, here))
            return;
    }
}
