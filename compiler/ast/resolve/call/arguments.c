// SPDX-License-Identifier: Apache-2.0
// Calls of defs: what each argument says of the callee's dims, and where arguments disagree.
#include "ast/resolve/call/call.h"

#include <stdarg.h>
#include <string.h>

Diag *binder_error(Binder *b, Span at, const char *message) {
    b->fine = false;
    return diag_error(b->resolver->diags, at, "%s", message);
}

const char *say(const Binder *b, const char *format, ...) {
    Text text = {.arena = b->resolver->arena};
    va_list args;
    va_start(args, format);
    text_vprintf(&text, format, args);
    va_end(args);
    return text.at;
}

void note_param(const Binder *b, Diag *diag, uint32_t param) {
    const Tensor *tensor = &b->callee->params.at[param];
    diag_note(diag, tensor->name.span, "parameter '%s' of '%s' is over %s", tensor->name.name,
              callee_name(b), dimlist_text(b->resolver->arena, &tensor->result));
}

Span actual_place(const Expr *arg, Name dim) {
    return arg->kind == EXPR_REF ? expr_dim_place(arg, dim) : arg->span;
}

// ---- by hand ------------------------------------------------------------------------------------

static bool callee_has_param(const Binder *b, Name name) {
    for (uint32_t i = 0; i < b->callee->params.count; i++)
        if (param_name(b, i) == name)
            return true;
    return false;
}

static void report_no_formal(Binder *b, const Ident *key) {
    const NameList *dims = &b->callee->dims;
    if (callee_has_param(b, key->name)) {
        Diag *diag = binder_error(
            b, key->span,
            say(b, "'%s' takes its arguments by position, not by name", callee_name(b)));
        diag_hint(diag, "leave out '%s='; only dims are bound by name", key->name);
        return;
    }
    Diag *diag =
        binder_error(b, key->span, say(b, "'%s' has no dim '%s'", callee_name(b), key->name));
    diag_note(diag, b->callee->name.span, "'%s' is here", callee_name(b));
    Near near = near_to(key->name);
    near_offer_list(&near, dims);
    if (near.best)
        diag_hint(diag, "did you mean '%s='?", near.best);
    else if (dims->count)
        diag_hint(diag, "its dims are %s", dimlist_text(b->resolver->arena, dims));
    else
        diag_hint(diag, "leave out '%s='", key->name);
}

// The dim of the caller that a hand names, or NULL after a diagnostic.
static const Ident *hand_actual(Binder *b, const KeyArg *key) {
    const char *what = say(b, "the value of '%s='", key->key.name);
    const Ident *actual = expr_as_dim(b->scope, key->value, what);
    if (!actual || !scope_check_dim(b->scope, *actual)) {
        b->fine = false;
        return NULL;
    }
    return actual;
}

static void bind_hand(Binder *b, const KeyArg *key) {
    Name formal = key->key.name;
    const Ident *actual = hand_actual(b, key);
    if (!actual)
        return;
    const Bound *same = find_formal(b, formal), *taken = find_actual(b, actual->name);
    if (same) {
        Diag *diag = binder_error(b, key->key.span, say(b, "'%s=' is given twice", formal));
        diag_note(diag, same->place, "first here");
        return;
    }
    if (taken) {
        Diag *diag = binder_error(b, actual->span,
                                  say(b, "dims '%s' and '%s' of '%s' would both be '%s'",
                                      taken->formal, formal, callee_name(b), actual->name));
        diag_note(diag, taken->place, "'%s' is '%s' from here", taken->formal, taken->actual);
        return;
    }
    NameList named = {0}; // here, so that calls of this def can say what it is
    vec_push(b->resolver->arena, &named, actual->name);
    scope_add_dims(b->scope, &named);
    vec_push(b->resolver->arena, &b->hands, (HandDim){formal, *actual});
    vec_push(b->resolver->arena, &b->bound, (Bound){formal, actual->name, actual->span, BY_HAND});
}

void check_hands(Binder *b) {
    for (uint32_t i = 0; i < b->call->keys.count; i++)
        if (!namelist_has(&b->callee->dims, b->call->keys.at[i].key.name))
            report_no_formal(b, &b->call->keys.at[i].key);
}

// Requires: check_hands found nothing.
void bind_hands(Binder *b) {
    for (uint32_t i = 0; i < b->call->keys.count; i++)
        bind_hand(b, &b->call->keys.at[i]);
}

static ArgumentDims bind_call_argument(const Binder *b, uint32_t param, const HandDims *hands) {
    const Expr *arg = b->call->args.at[param];
    return bind_argument(b->resolver->arena, b->resolver->program,
                         &b->callee->params.at[param].result, &arg->result, expr_has_brackets(arg),
                         hands);
}

// ---- one argument alone -------------------------------------------------------------------------

static const char *arg_text(const Binder *b, const Expr *arg) {
    bool named = arg->kind == EXPR_REF || arg->kind == EXPR_NAME;
    return named ? say(b, "'%s'", arg->name.name) : "this";
}

static void report_few(Binder *b, uint32_t param) {
    const Expr *arg = b->call->args.at[param];
    Arena *arena = b->resolver->arena;
    const NameList *formals = &b->callee->params.at[param].result;
    Diag *diag = binder_error(b, arg->span,
                              say(b, "'%s' of '%s' is over %s, this has fewer dims: %s",
                                  param_name(b, param), callee_name(b),
                                  dimlist_text(arena, formals), dimlist_text(arena, &arg->result)));
    note_param(b, diag, param);
}

static void report_hand_absent(Binder *b, uint32_t param, Name formal) {
    const Expr *arg = b->call->args.at[param];
    const Bound *hand = find_formal(b, formal);
    Diag *diag =
        binder_error(b, arg->span,
                     say(b, "'%s' of '%s' needs '%s', which is '%s' by hand: this is over %s",
                         param_name(b, param), callee_name(b), formal, hand->actual,
                         dimlist_text(b->resolver->arena, &arg->result)));
    diag_note(diag, hand->place, "'%s' is '%s' from here", formal, hand->actual);
    note_param(b, diag, param);
}

// choices: those that say one argument's dims alone; NULL: there are none.
static void hint_choices(const Binder *b, Diag *diag, const char *say_what, const char *choices) {
    bool none = false;
    if (!choices)
        choices = any_choice_text(b, &none);
    if (choices)
        diag_hint(diag, "%s: %s", say_what, choices);
    else if (none)
        diag_hint(diag, "whichever is said by hand, it does not fit the other arguments");
}

static void report_several(Binder *b, uint32_t param, const ArgumentDims *dims) {
    const Expr *arg = b->call->args.at[param];
    Arena *arena = b->resolver->arena;
    const char *are = dims->open.count == 1 ? "is" : "are";
    Diag *diag = binder_error(b, arg->span,
                              say(b, "which of the dims %s of %s %s %s of '%s'?",
                                  quoted_text(arena, &dims->left), arg_text(b, arg), are,
                                  quoted_text(arena, &dims->open), callee_name(b)));
    note_param(b, diag, param);
    hint_choices(b, diag, "say it by hand", choices_text(b, param, dims));
}

static void report_two_readings(Binder *b, uint32_t param, const ArgumentDims *dims) {
    const Expr *arg = b->call->args.at[param];
    const NameList *formals = &b->callee->params.at[param].result;
    const char *by_name = hands_text(b, formals, &dims->actuals);
    const char *by_place = hands_text(b, formals, &dims->placed);
    Diag *diag =
        binder_error(b, arg->span,
                     say(b, "'%s' of '%s' can be read in two ways: by name %s, by place %s",
                         param_name(b, param), callee_name(b), by_name, by_place));
    note_param(b, diag, param);
    const char *names = choices_text(b, param, dims);
    const char *places = call_with(b, param, &dims->placed, formals, true);
    hint_choices(b, diag, "say which",
                 names && places ? say(b, "%s or %s", names, places)
                 : names         ? names
                                 : places);
}

bool keeps_kinds(const Binder *b, const NameList *formals, const NameList *actuals) {
    const Program *program = b->resolver->program;
    for (uint32_t i = 0; i < formals->count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (program_dims_alike(program, formals->at[i], formals->at[k]) &&
                !program_dims_alike(program, actuals->at[i], actuals->at[k]))
                return false;
    return true;
}

// Does a reference bring the dims that are left into another order than the tensor has them in?
// Then the last one was chosen.
static bool is_reordered(const Binder *b, const Expr *arg, const NameList *left) {
    const Symbol *tensor = arg->kind == EXPR_REF ? scope_find(b->scope, arg->name.name) : NULL;
    uint32_t same = 0;
    for (uint32_t i = 0; tensor && i < tensor->dims.count && same < left->count; i++)
        same += program_dims_alike(b->resolver->program, left->at[same], tensor->dims.at[i]);
    return tensor && same < left->count;
}

bool takes_last_of_more(const Binder *b, uint32_t param, const ArgumentDims *dims) {
    return dims->last_of_more &&
           keeps_kinds(b, &b->callee->params.at[param].result, &dims->actuals) &&
           !(dims->open.count == 1 && is_reordered(b, b->call->args.at[param], &dims->left));
}

// Fine, but causal(L[q, k, h]) may mean its first two dims, and unit(Q[n, k, h]) the one before. No
// question where the call can be bound in one way alone.
static void warn_of_param(const Binder *b, uint32_t param, const ArgumentDims *dims) {
    const char *others = other_choices_text(b, param, dims);
    if (!others)
        return;
    const NameList *formals = &b->callee->params.at[param].result;
    bool one = dims->open.count == 1, all = dims->open.count == formals->count;
    NameList taken = {0};
    for (uint32_t i = 0; i < formals->count; i++)
        if (namelist_has(&dims->open, formals->at[i]))
            vec_push(b->resolver->arena, &taken, dims->actuals.at[i]);
    Diag *diag = diag_warning(b->resolver->diags, "by-place", b->call->args.at[param]->span,
                              "'%s' of '%s' takes the last dim%s%s: %s", param_name(b, param),
                              callee_name(b), one ? "" : "s", all ? "" : " left",
                              hands_text(b, &dims->open, &taken));
    note_param(b, diag, param);
    const char *last = last_choice_text(b, param, dims);
    if (one || !last)
        diag_hint(diag, "say which is meant: %s", choices_text(b, param, dims));
    else
        diag_hint(diag, "say so: %s, or otherwise: %s", last, others);
}

void warn_last_of_more(const Binder *b) {
    for (uint32_t i = 0; i < b->callee->params.count; i++) {
        ArgumentDims dims = bind_call_argument(b, i, &b->hands);
        if (takes_last_of_more(b, i, &dims)) {
            warn_of_param(b, i, &dims); // whose hint is for those after it as well
            return;
        }
    }
}

static void report_problem(Binder *b, uint32_t param, const ArgumentDims *dims) {
    switch (dims->problem) {
    case BIND_FINE:
        return;
    case BIND_FEW:
        report_few(b, param);
        return;
    case BIND_HAND_ABSENT:
        report_hand_absent(b, param, b->callee->params.at[param].result.at[dims->formal]);
        return;
    case BIND_SEVERAL:
        report_several(b, param, dims);
        return;
    case BIND_TWO_READINGS:
        report_two_readings(b, param, dims);
        return;
    }
}

// ---- an argument against those before it --------------------------------------------------------

// The argument with its dims in the order that fits what is bound already, if that is another one.
static const char *reordered(const Binder *b, uint32_t param) {
    Arena *arena = b->resolver->arena;
    const Expr *arg = b->call->args.at[param];
    const NameList *formals = &b->callee->params.at[param].result;
    bool named = arg->kind == EXPR_REF || arg->kind == EXPR_NAME;
    if (!named || arg->result.count != formals->count)
        return NULL;
    NameList known = {0}, order = {0};
    for (uint32_t i = 0; i < formals->count; i++) {
        const Bound *bound = find_formal(b, formals->at[i]);
        if (bound && !namelist_has(&arg->result, bound->actual))
            return NULL;
        if (bound)
            dimlist_add(arena, &known, bound->actual);
    }
    NameList rest = dimlist_minus(arena, &arg->result, &known);
    for (uint32_t i = 0, next = 0; i < formals->count; i++) {
        const Bound *bound = find_formal(b, formals->at[i]);
        vec_push(arena, &order, bound ? bound->actual : rest.at[next++]);
    }
    return say(b, "%s%s", arg->name.name, dimlist_text(arena, &order));
}

static void report_two_actuals(Binder *b, const Bound *first, Name actual, uint32_t param) {
    Diag *diag = binder_error(b, actual_place(b->call->args.at[param], actual),
                              say(b, "dim '%s' of '%s' is '%s' by '%s', but '%s' by '%s'",
                                  first->formal, callee_name(b), actual, param_name(b, param),
                                  first->actual, param_name(b, first->param)));
    diag_note(diag, first->place, "it is '%s' from here", first->actual);
    note_param(b, diag, param);
    const char *order = reordered(b, param);
    if (order)
        diag_hint(diag,
                  "dims match by name, then from the right (language 7.1): did you mean '%s'?",
                  order);
    else if (!hint_apart(b, param, diag) &&
             program_dims_alike(b->resolver->program, actual, first->actual))
        diag_hint(diag, "read it over '%s'", first->actual);
}

// What the caller should pass as `formal` in place of `actual`: the formal's own name if that is
// alike, or a prime more than the argument has.
static Name own_name(const Binder *b, Name formal, Name actual, const NameList *over) {
    if (formal != actual && program_dims_alike(b->resolver->program, formal, actual))
        return formal;
    Name own = actual;
    while (namelist_has(over, own))
        own = name_primed(b->resolver->session->names, own, 1);
    return own;
}

// Two dims of the callee cannot be one dim of the caller: each pair needs a dim that is alike.
static void report_two_formals(Binder *b, uint32_t param, const NameList *actuals) {
    Arena *arena = b->resolver->arena;
    const Expr *arg = b->call->args.at[param];
    const NameList *formals = &b->callee->params.at[param].result;
    NameList over = arg->result;
    Diag *diag = NULL;
    for (uint32_t i = 0; i < formals->count; i++) {
        Name formal = formals->at[i], actual = actuals->at[i];
        const Bound *first = find_actual(b, actual);
        if (!first || first->formal == formal)
            continue;
        if (!diag)
            diag = binder_error(b, actual_place(arg, actual),
                                say(b, "dims '%s' and '%s' of '%s' would both be '%s'",
                                    first->formal, formal, callee_name(b), actual));
        diag_note(diag, first->place, "'%s' is '%s' from here", first->formal, actual);
        over = dimlist_replaced(arena, &over, actual, own_name(b, formal, actual, &over));
    }
    if (hint_apart(b, param, diag))
        return;
    const char *dims = dimlist_text(arena, &over);
    if (arg->kind == EXPR_REF || arg->kind == EXPR_NAME)
        diag_hint(diag, "pass '%s%s'", arg->name.name, dims);
    else
        diag_hint(diag, "pass it over %s", dims);
}

// Binds the dims of one argument. One message tells all that is wrong with it.
static void bind_dims(Binder *b, uint32_t param, const NameList *actuals) {
    const Expr *arg = b->call->args.at[param];
    const NameList *formals = &b->callee->params.at[param].result;
    bool clash = false;
    for (uint32_t i = formals->count; i-- > 0;) {
        const Bound *bound = find_formal(b, formals->at[i]);
        Name actual = actuals->at[i];
        if (bound && bound->actual != actual) {
            report_two_actuals(b, bound, actual, param);
            return;
        }
        clash = clash || (!bound && find_actual(b, actual));
    }
    if (clash) {
        report_two_formals(b, param, actuals);
        return;
    }
    for (uint32_t i = 0; i < formals->count; i++) {
        Name actual = actuals->at[i];
        if (!find_formal(b, formals->at[i]))
            vec_push(b->resolver->arena, &b->bound,
                     (Bound){formals->at[i], actual, actual_place(arg, actual), param});
    }
}

// ---- one argument -------------------------------------------------------------------------------

static void check_elem(Binder *b, uint32_t param) {
    const Tensor *tensor = &b->callee->params.at[param];
    const Expr *arg = b->call->args.at[param];
    if (elem_accepts(tensor->elem, arg))
        return;
    Diag *diag = binder_error(b, arg->span,
                              say(b, "'%s' of '%s' takes %s, this is %s", tensor->name.name,
                                  callee_name(b), elem_name(tensor->elem), elem_name(arg->elem)));
    note_param(b, diag, param);
    diag_hint(diag, "write '%s(...)' around it", elem_name(tensor->elem));
}

void bind_param(Binder *b, uint32_t param) {
    Arena *arena = b->resolver->arena;
    check_elem(b, param);
    ArgumentDims dims = bind_call_argument(b, param, &b->hands);
    report_problem(b, param, &dims);
    vec_push(arena, &b->extras, dims.extra);
    if (dims.problem != BIND_FINE)
        return;
    bind_dims(b, param, &dims.actuals);
    if (dims.extra.count > b->extras.at[b->mapped_by].count)
        b->mapped_by = param;
}
