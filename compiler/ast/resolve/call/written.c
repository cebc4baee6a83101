// SPDX-License-Identifier: Apache-2.0
// What to write in place of a call whose arguments do not say which dims are which, or say that two
// of the callee's are one: the whole call, which is bound as it would be before it is said.
//
//     def Attend(Q[n, k], K[m, k], V[m, v])
//     Attend(X, X, X)        Attend(X, X[t', d], X[t', d'])
//     Attend(B, B, B)        Attend(B, B[b, t', d], B[b, t', d'], n=t, k=d, m=t', v=d')
#include "ast/resolve/call/call.h"

#include <string.h>

typedef struct {
    const Binder *b;
    VEC(NameList) readings; // by parameter: the dims of its argument, as they are to be read
    HandDims hands;         // of the user, then those that are added
    NameList formals, actuals;
    VEC(Bound) bound;
    bool first; // where places are to say it: the first dims that are left, not the last ones
} Plan;

// ---- texts --------------------------------------------------------------------------------------

const char *hands_text(const Binder *b, const NameList *formals, const NameList *actuals) {
    Text text = {.arena = b->resolver->arena};
    text_add(&text, "");
    for (uint32_t i = 0; i < formals->count; i++)
        text_printf(&text, "%s%s=%s", i ? ", " : "", formals->at[i], actuals->at[i]);
    return text.at;
}

static const char *source_of(const Binder *b) {
    return sources_get(b->resolver->session->sources, b->call->span.file)->text;
}

// Copies what is written from *at up to a place, and goes on behind it.
static void copy_until(Text *text, const char *source, uint32_t *at, Span place) {
    text_printf(text, "%.*s", (int)(place.begin - *at), source + *at);
    *at = place.end;
}

// An argument over other dims: those that are renamed, in its brackets, or all of them behind it.
static void read_over(Text *text, const char *source, uint32_t *at, const Expr *arg,
                      const NameList *reading) {
    if (arg->kind != EXPR_REF) {
        copy_until(text, source, at, (Span){arg->span.file, arg->span.end, arg->span.end});
        text_add(text, dimlist_text(text->arena, reading));
        return;
    }
    for (uint32_t i = 0; i < arg->dims.count; i++) {
        uint32_t which = 0;
        while (which < reading->count && arg->result.at[which] != arg->dims.at[i].name)
            which++;
        if (which == reading->count || reading->at[which] == arg->dims.at[i].name)
            continue;
        copy_until(text, source, at, arg->dims.at[i].span);
        text_add(text, reading->at[which]);
    }
}

// The call as it is written up to its last parenthesis, its arguments as the plan reads them. NULL:
// it is on several lines.
static const char *planned_text(const Plan *p) {
    const Binder *b = p->b;
    const Expr *call = b->call;
    const char *source = source_of(b);
    uint32_t at = call->name.span.begin, end = call->span.end;
    if (call->label.name)
        end = call->label.span.begin;
    while (end > at && source[end - 1] != ')')
        end--;
    if (memchr(source + at, '\n', end - at))
        return NULL;
    Text text = {.arena = b->resolver->arena};
    for (uint32_t i = 0; i < call->args.count; i++)
        if (!dimlist_equal(&p->readings.at[i], &call->args.at[i]->result))
            read_over(&text, source, &at, call->args.at[i], &p->readings.at[i]);
    copy_until(&text, source, &at, (Span){call->span.file, end - 1, end});
    return text.at;
}

// `'Rotate(Q, d=k)'`
static const char *call_text(const Plan *p) {
    const char *written = planned_text(p);
    if (!written && p->formals.count)
        written = say(p->b, "%s(...", callee_name(p->b));
    if (!written)
        return NULL;
    return say(p->b, "'%s%s%s)'", written, p->formals.count ? ", " : "",
               hands_text(p->b, &p->formals, &p->actuals));
}

// ---- what the arguments are to be ---------------------------------------------------------------

static Name bound_to(const Plan *p, Name formal) {
    for (uint32_t i = 0; i < p->bound.count; i++)
        if (p->bound.at[i].formal == formal)
            return p->bound.at[i].actual;
    return NULL;
}

static bool is_taken(const Plan *p, Name actual) {
    for (uint32_t i = 0; i < p->bound.count; i++)
        if (p->bound.at[i].actual == actual)
            return true;
    return false;
}

static void add_hand(Plan *p, Name formal, Name actual) {
    Arena *arena = p->b->resolver->arena;
    vec_push(arena, &p->hands, ((HandDim){formal, {.name = actual}}));
    vec_push(arena, &p->formals, formal);
    vec_push(arena, &p->actuals, actual);
}

static bool has_hand(const Plan *p, Name formal) {
    for (uint32_t i = 0; i < p->hands.count; i++)
        if (p->hands.at[i].formal == formal)
            return true;
    return false;
}

// The hands whose dims the argument has, and with `bound` what is bound in the same way.
static HandDims hands_of(const Plan *p, const NameList *reading, bool bound) {
    Arena *arena = p->b->resolver->arena;
    HandDims out = {0};
    for (uint32_t i = 0; i < p->hands.count; i++)
        if (namelist_has(reading, p->hands.at[i].actual.name))
            vec_push(arena, &out, p->hands.at[i]);
    for (uint32_t i = 0; bound && i < p->bound.count; i++) {
        const Bound *one = &p->bound.at[i];
        if (!has_hand(p, one->formal) && namelist_has(reading, one->actual))
            vec_push(arena, &out, ((HandDim){one->formal, {.name = one->actual}}));
    }
    return out;
}

static ArgumentDims bind_reading(const Plan *p, uint32_t param, const NameList *reading,
                                 const HandDims *hands) {
    const Binder *b = p->b;
    const Expr *arg = b->call->args.at[param];
    bool again = !dimlist_equal(reading, &arg->result);
    return bind_argument(b->resolver->arena, b->resolver->program,
                         &b->callee->params.at[param].result, reading,
                         again || expr_has_brackets(arg), hands);
}

// Another dim than `actual`, which is another formal's: the formal's own name if it is alike, or a
// prime more.
static Name own_name(const Plan *p, Name formal, Name actual, const NameList *over) {
    const Resolver *r = p->b->resolver;
    if (program_dims_alike(r->program, formal, actual) && !is_taken(p, formal) &&
        !namelist_has(over, formal))
        return formal;
    Name own = actual;
    while (namelist_has(over, own) || is_taken(p, own))
        own = name_primed(r->session->names, own, 1);
    return own;
}

// Binds the formals of one argument to these dims of it, or to others that it can be read over.
static bool plan_dims(Plan *p, uint32_t param, const NameList *actuals, const NameList *by_hand) {
    const Binder *b = p->b;
    Arena *arena = b->resolver->arena;
    const Expr *arg = b->call->args.at[param];
    const NameList *formals = &b->callee->params.at[param].result;
    NameList reading = arg->result;
    bool named = arg->kind == EXPR_REF || arg->kind == EXPR_NAME;
    for (uint32_t i = 0; i < formals->count; i++) {
        Name formal = formals->at[i], actual = actuals->at[i], before = bound_to(p, formal);
        Name own = before                ? before
                   : is_taken(p, actual) ? own_name(p, formal, actual, &reading)
                                         : actual;
        if (own != actual) {
            if (!named || namelist_has(&reading, own) ||
                !program_dims_alike(b->resolver->program, own, actual))
                return false;
            reading = dimlist_replaced(arena, &reading, actual, own);
        }
        if (!before)
            vec_push(arena, &p->bound, ((Bound){formal, own, arg->span, param}));
        if (namelist_has(by_hand, formal) && !has_hand(p, formal))
            add_hand(p, formal, own);
    }
    vec_push(arena, &p->readings, reading);
    return true;
}

static bool plan_argument(Plan *p, uint32_t param) {
    const NameList *formals = &p->b->callee->params.at[param].result;
    const NameList *reading = &p->b->call->args.at[param]->result;
    HandDims hands = hands_of(p, reading, false);
    ArgumentDims dims = bind_reading(p, param, reading, &hands);
    NameList none = {0};
    if (dims.problem == BIND_FINE && !takes_last_of_more(p->b, param, &dims))
        return plan_dims(p, param, &dims.actuals, &none);
    if (dims.problem != BIND_FINE && dims.problem != BIND_SEVERAL)
        return false;
    NameList by_hand = dims.open;
    hands = hands_of(p, reading, true);
    dims = bind_reading(p, param, reading, &hands);
    if (dims.problem == BIND_FEW || dims.problem == BIND_HAND_ABSENT)
        return false;
    uint32_t next = p->first ? 0 : dims.left.count - dims.open.count;
    for (uint32_t i = 0; i < formals->count; i++)
        if (namelist_has(&dims.open, formals->at[i]))
            dims.actuals.at[i] = dims.left.at[next++];
    return plan_dims(p, param, &dims.actuals, &by_hand);
}

// ---- the plan as the call that it gives ---------------------------------------------------------

static bool is_mapped_well(const Plan *p, const NameList *extras) {
    uint32_t most = 0, count = p->readings.count;
    for (uint32_t i = 0; i < count; i++)
        most = extras[i].count > extras[most].count ? i : most;
    for (uint32_t i = 0; i < count; i++)
        if (!dimlist_within(&extras[i], &extras[most]))
            return false;
    for (uint32_t i = 0; count && i < extras[most].count; i++)
        if (is_taken(p, extras[most].at[i]))
            return false;
    return true;
}

static bool keeps_kinds_of(const Plan *p) {
    NameList formals = {0}, actuals = {0};
    for (uint32_t i = 0; i < p->bound.count; i++) {
        vec_push(p->b->resolver->arena, &formals, p->bound.at[i].formal);
        vec_push(p->b->resolver->arena, &actuals, p->bound.at[i].actual);
    }
    return keeps_kinds(p->b, &formals, &actuals);
}

// Whether the call is bound to the dims of the plan, were it written so.
static bool is_bound_so(const Plan *p) {
    Arena *arena = p->b->resolver->arena;
    VEC(NameList) extras = {0};
    for (uint32_t i = 0; i < p->readings.count; i++) {
        const NameList *formals = &p->b->callee->params.at[i].result;
        ArgumentDims dims = bind_reading(p, i, &p->readings.at[i], &p->hands);
        if (dims.problem != BIND_FINE)
            return false;
        for (uint32_t k = 0; k < formals->count; k++)
            if (dims.actuals.at[k] != bound_to(p, formals->at[k]))
                return false;
        vec_push(arena, &extras, dims.extra);
    }
    return is_mapped_well(p, extras.at) && keeps_kinds_of(p);
}

// actuals: of argument `param`, of which `by_hand` are to be said; NULL: as it is bound.
static bool plan_call(Plan *p, uint32_t param, const NameList *actuals, const NameList *by_hand) {
    const Binder *b = p->b;
    Arena *arena = b->resolver->arena;
    for (uint32_t i = 0; i < b->hands.count; i++) {
        const HandDim *hand = &b->hands.at[i];
        vec_push(arena, &p->hands, *hand);
        vec_push(arena, &p->bound,
                 ((Bound){hand->formal, hand->actual.name, hand->actual.span, BY_HAND}));
    }
    for (uint32_t i = 0; i < b->callee->params.count; i++) {
        bool fine = actuals && i == param ? plan_dims(p, i, actuals, by_hand) : plan_argument(p, i);
        if (!fine)
            return false;
    }
    return is_bound_so(p);
}

// ---- hints --------------------------------------------------------------------------------------

const char *call_with(const Binder *b, uint32_t param, const NameList *actuals,
                      const NameList *by_hand, bool first) {
    Plan plan = {.b = b, .first = first};
    return plan_call(&plan, param, actuals, by_hand) ? call_text(&plan) : NULL;
}

// Which of the dims that are left an open dim is: numbers that rise.
typedef VEC(uint32_t) Choice;

static const char *choice_text(const Binder *b, uint32_t param, const ArgumentDims *dims,
                               const Choice *choice, bool first) {
    const NameList *formals = &b->callee->params.at[param].result;
    NameList actuals = {0};
    for (uint32_t i = 0, next = 0; i < formals->count; i++) {
        bool open = namelist_has(&dims->open, formals->at[i]);
        vec_push(b->resolver->arena, &actuals,
                 open ? dims->left.at[choice->at[next++]] : dims->actuals.at[i]);
    }
    return call_with(b, param, &actuals, &dims->open, first);
}

static Choice choice_from(const Binder *b, const ArgumentDims *dims, uint32_t from) {
    Choice choice = {0};
    for (uint32_t i = 0; i < dims->open.count; i++)
        vec_push(b->resolver->arena, &choice, from + i);
    return choice;
}

// In lexical order. Requires: it is not the last one.
static void to_next(Choice *choice, uint32_t n_left) {
    uint32_t n = choice->count, i = n;
    while (choice->at[i - 1] == n_left - n + i - 1)
        i--;
    choice->at[i - 1]++;
    for (; i < n; i++)
        choice->at[i] = choice->at[i - 1] + 1;
}

static bool is_last(const Choice *choice, uint32_t n_left) {
    return !choice->count || choice->at[0] == n_left - choice->count;
}

const char *last_choice_text(const Binder *b, uint32_t param, const ArgumentDims *dims) {
    Choice last = choice_from(b, dims, dims->left.count - dims->open.count);
    return choice_text(b, param, dims, &last, dims->open.count == 1);
}

const char *other_choices_text(const Binder *b, uint32_t param, const ArgumentDims *dims) {
    Text text = {.arena = b->resolver->arena};
    Choice choice = choice_from(b, dims, 0);
    while (!is_last(&choice, dims->left.count) && !(text.at && dims->open.count > 1)) {
        const char *said = choice_text(b, param, dims, &choice, true);
        if (said)
            text_printf(&text, "%s%s", text.at ? " or " : "", said);
        to_next(&choice, dims->left.count);
    }
    return text.at;
}

const char *choices_text(const Binder *b, uint32_t param, const ArgumentDims *dims) {
    const char *others = other_choices_text(b, param, dims);
    const char *last = last_choice_text(b, param, dims);
    return others && last ? say(b, "%s or %s", others, last) : others ? others : last;
}

// ---- every way to say it by hand ---------------------------------------------------------------

// Two dims or more may have to be said at once, of several arguments.
typedef struct {
    const Binder *b;
    NameList formals, actuals; // of all parameters, and what the first of them are
    bool names;                // dims that have the name of the formal are it
    uint32_t tried, found;
    Text text;
} Search;

enum { MOST_TRIED = 2000, MOST_FOUND = 3 };

// all: names, too, which say themselves mostly.
static bool is_call_so(Search *s, bool all) {
    const Binder *b = s->b;
    Arena *arena = b->resolver->arena;
    Plan plan = {.b = b};
    for (uint32_t i = 0; i < b->hands.count; i++)
        vec_push(arena, &plan.hands, b->hands.at[i]);
    for (uint32_t i = 0; i < s->formals.count; i++) {
        Name formal = s->formals.at[i], actual = s->actuals.at[i];
        vec_push(arena, &plan.bound, ((Bound){formal, actual, b->call->span, BY_HAND}));
        if ((all || formal != actual) && !has_hand(&plan, formal))
            add_hand(&plan, formal, actual);
    }
    for (uint32_t i = 0; i < b->call->args.count; i++)
        vec_push(arena, &plan.readings, b->call->args.at[i]->result);
    const char *text = is_bound_so(&plan) ? call_text(&plan) : NULL;
    if (text)
        text_printf(&s->text, "%s%s", s->found++ ? " or " : "", text);
    return text != NULL;
}

// Whether the dim can be that formal's: by the user's hand, or in all arguments that have it.
static bool may_be(const Search *s, Name formal, Name dim) {
    const Binder *b = s->b;
    if (namelist_has(&s->actuals, dim))
        return false;
    for (uint32_t i = 0; i < b->hands.count; i++)
        if ((b->hands.at[i].formal == formal) != (b->hands.at[i].actual.name == dim))
            return false;
    for (uint32_t i = 0; i < b->call->args.count; i++)
        if (namelist_has(&b->callee->params.at[i].result, formal) &&
            !namelist_has(&b->call->args.at[i]->result, dim))
            return false;
    return true;
}

static void try_all(Search *s) {
    uint32_t next = s->actuals.count;
    if (s->tried > MOST_TRIED || s->found == MOST_FOUND)
        return;
    s->tried++;
    if (next == s->formals.count) {
        if (!is_call_so(s, false))
            is_call_so(s, true);
        return;
    }
    Name formal = s->formals.at[next];
    NameList dims = {0};
    bool named = s->names && may_be(s, formal, formal);
    for (uint32_t i = 0; i < s->b->call->args.count && !named; i++)
        for (uint32_t k = 0; k < s->b->call->args.at[i]->result.count; k++)
            dimlist_add(s->b->resolver->arena, &dims, s->b->call->args.at[i]->result.at[k]);
    if (named)
        vec_push(s->b->resolver->arena, &dims, formal);
    for (uint32_t i = dims.count; i-- > 0;) { // the last ones first, as places are read
        if (!may_be(s, formal, dims.at[i]))
            continue;
        vec_push(s->b->resolver->arena, &s->actuals, dims.at[i]);
        try_all(s);
        s->actuals.count--;
    }
}

const char *any_choice_text(const Binder *b, bool *none) {
    Arena *arena = b->resolver->arena;
    Search s = {.b = b, .names = true, .text = {.arena = arena}};
    for (uint32_t i = 0; i < b->callee->params.count; i++)
        s.formals = dimlist_union(arena, &s.formals, &b->callee->params.at[i].result);
    try_all(&s);
    s.names = false;
    if (!s.found)
        try_all(&s);
    *none = !s.found && s.tried <= MOST_TRIED;
    return s.text.at;
}

bool hint_apart(const Binder *b, uint32_t param, Diag *diag) {
    Plan plan = {.b = b};
    if (!plan_call(&plan, 0, NULL, NULL))
        return false;
    bool others = plan.formals.count > 0;
    for (uint32_t i = 0; i < plan.readings.count && !others; i++)
        others = i != param && !dimlist_equal(&plan.readings.at[i], &b->call->args.at[i]->result);
    const char *text = others ? call_text(&plan) : NULL;
    const Expr *arg = b->call->args.at[param];
    const NameList *reading = &plan.readings.at[param];
    if (text) {
        diag_hint(diag, "write %s", text);
    } else if (!dimlist_equal(reading, &arg->result)) {
        Text own = {.arena = b->resolver->arena};
        uint32_t at = arg->span.begin;
        read_over(&own, source_of(b), &at, arg, reading);
        copy_until(&own, source_of(b), &at, (Span){arg->span.file, arg->span.end, arg->span.end});
        diag_hint(diag, "pass '%s'", own.at);
    }
    return text || !dimlist_equal(reading, &arg->result);
}
