// SPDX-License-Identifier: Apache-2.0
// References that take one position of a dim: the result lacks it.
//
//     X[0, d]        X[n, d] at its first position          X[n - 1, d]    at its last
//     w[i]           in `for i in layers:`, w[layers]
//
// Everything stands in the place of its dim, or the names are the tensor's own, in any order, and
// one number takes the dim that is left.
#include "ast/resolve/resolve.h"

#include <math.h>

// ---- a loop's number among the names ------------------------------------------------------------

static uint32_t place_of_name(const Expr *ref, uint32_t name) {
    uint32_t place = name;
    for (uint32_t i = 0; i < ref->places.count && ref->places.at[i] <= place; i++)
        place++;
    return place;
}

// Makes a position of a name among the dims, which keeps its place.
static void name_to_position(Arena *arena, Expr *ref, uint32_t name) {
    uint32_t place = place_of_name(ref, name), at = ref->args.count;
    vec_push(arena, &ref->args, NULL);
    vec_push(arena, &ref->places, 0);
    for (; at > 0 && ref->places.at[at - 1] > place; at--) {
        ref->args.at[at] = ref->args.at[at - 1];
        ref->places.at[at] = ref->places.at[at - 1];
    }
    ref->args.at[at] = expr_name(arena, ref->dims.at[name]);
    ref->places.at[at] = place;
    for (uint32_t i = name + 1; i < ref->dims.count; i++)
        ref->dims.at[i - 1] = ref->dims.at[i];
    ref->dims.count--;
}

void take_loop_numbers(Scope *scope, Expr *ref, const Symbol *tensor) {
    for (uint32_t i = ref->dims.count; i-- > 0;) {
        Name name = ref->dims.at[i].name;
        const Symbol *symbol = scope_find(scope, name);
        if (symbol && symbol->kind == SYMBOL_LOOP && !namelist_has(&tensor->dims, name))
            name_to_position(scope->resolver->arena, ref, i);
    }
}

// ---- which dim a number takes -------------------------------------------------------------------

// G[0, b, e] for G[0] of G[four, b, e]: the numbers take the first of the dims that are not named.
static void hint_all_places(Scope *scope, Diag *diag, const Expr *ref, const Symbol *tensor) {
    Text text = {.arena = scope->resolver->arena};
    uint32_t next = 0;
    for (uint32_t i = 0; i < tensor->dims.count; i++) {
        Name dim = tensor->dims.at[i];
        bool takes = next < ref->args.count && !idents_find(&ref->dims, dim);
        const char *place = takes ? foreign_position(scope, ref->args.at[next++], dim) : dim;
        text_printf(&text, "%s%s", i ? ", " : "", place ? place : "..");
    }
    diag_hint(diag, "the other dims are written as well: '%s[%s]'", tensor->name.name, text.at);
}

// X[X > 0]: how many there are is known from values alone.
static bool hint_condition(Scope *scope, Diag *diag, const Expr *position, const Symbol *tensor) {
    if (position->kind != EXPR_BINARY || !oper_compares(position->oper))
        return false;
    const char *condition = foreign_text(scope, position);
    diag_hint(diag, "positions are not chosen by a condition: 'where(%s, %s, 0)' has 0 elsewhere",
              condition ? condition : "..", tensor->name.name);
    return true;
}

static bool check_count(Scope *scope, const Expr *ref, const Symbol *tensor) {
    uint32_t places = ref->dims.count + ref->args.count;
    if (places == tensor->dims.count)
        return true;
    Diag *diag = diag_error(scope->resolver->diags, ref->span,
                            "'%s' has %u dim%s, but %u stand%s in these brackets",
                            tensor->name.name, tensor->dims.count,
                            tensor->dims.count == 1 ? "" : "s", places, places == 1 ? "s" : "");
    scope_note_dims(scope, diag, tensor);
    for (uint32_t i = 0; i < ref->args.count; i++)
        if (hint_condition(scope, diag, ref->args.at[i], tensor))
            return false;
    if (places < tensor->dims.count)
        hint_all_places(scope, diag, ref, tensor);
    else
        diag_hint(diag, "a number in the place of a dim takes one position of it");
    return false;
}

// Does every name stand where its dim stands in the tensor, or a dim that is like it?
static bool in_places(const Scope *scope, const Expr *ref, const Symbol *tensor) {
    for (uint32_t i = 0; i < ref->dims.count; i++) {
        Name there = tensor->dims.at[place_of_name(ref, i)], name = ref->dims.at[i].name;
        const Step *step = steps_find(&ref->steps, name);
        name = step ? step->dim : name;
        if (name != there && !program_dims_alike(scope->resolver->program, name, there))
            return false;
    }
    return true;
}

static bool find_taken(Scope *scope, Expr *ref, const Symbol *tensor) {
    Arena *arena = scope->resolver->arena;
    IdentList whole = steps_whole(arena, &ref->dims, &ref->steps);
    NameList written = dimlist_of(arena, &whole);
    ref->reduced = dimlist_minus(arena, &tensor->dims, &written);
    if (in_places(scope, ref, tensor)) {
        ref->reduced = (NameList){0};
        for (uint32_t i = 0; i < ref->args.count; i++)
            vec_push(arena, &ref->reduced, tensor->dims.at[ref->places.at[i]]);
        return true;
    }
    if (ref->args.count == 1 && ref->reduced.count == 1)
        return true;
    Diag *diag =
        diag_error(scope->resolver->diags, ref->span,
                   "it is not clear here which dims of '%s' the numbers take", tensor->name.name);
    scope_note_dims(scope, diag, tensor);
    diag_hint(diag, "write them in the order %s", dimlist_text(arena, &tensor->dims));
    return false;
}

// ---- the number ---------------------------------------------------------------------------------

static bool is_known_number(Scope *scope, Expr *position, const Symbol *tensor, Name dim) {
    bool number = expr_may_be_number(position);
    if (number)
        resolve_expr(scope, position, NULL);
    if (number && (!position->ok || (position->is_literal && position->elem != ELEM_BOOL)))
        return position->ok;
    Diag *diag = diag_error(scope->resolver->diags, position->span,
                            "a position is a number known before the tensors are");
    if (!hint_condition(scope, diag, position, tensor))
        diag_hint(diag, "'gather(%s, ids, dim=%s)' takes those that a tensor says",
                  tensor->name.name, dim);
    return false;
}

static bool check_position(Scope *scope, Expr *position, const Symbol *tensor, Name dim) {
    Resolver *r = scope->resolver;
    double value;
    if (!is_known_number(scope, position, tensor, dim))
        return false;
    if (scope_in_prelude(scope) ||
        !expr_evaluate(r->session, r->program, position, NULL, 0, &value))
        return true;
    int64_t extent = program_extent(r->session, r->program, dim);
    Diag *diag;
    if (value != floor(value)) {
        diag =
            diag_error(r->diags, position->span, "a position is a whole number, this is %g", value);
        diag_hint(diag, "'//' divides and rounds down");
    } else if (value < 0) {
        diag = diag_error(r->diags, position->span, "positions count from 0, this is %g", value);
        diag_hint(diag, "'%s - %g' counts from the end", dim, -value);
    } else if (extent > 0 && value >= (double)extent) {
        diag = diag_error(r->diags, position->span, "position %g is beyond the end of '%s'", value,
                          dim);
        resolve_note_extent(r, diag, dim);
    } else {
        return true;
    }
    return false;
}

bool take_positions(Scope *scope, Expr *ref, const Symbol *tensor) {
    bool fine = check_count(scope, ref, tensor) && find_taken(scope, ref, tensor);
    for (uint32_t i = 0; fine && i < ref->args.count; i++)
        fine = check_position(scope, ref->args.at[i], tensor, ref->reduced.at[i]);
    return fine;
}
