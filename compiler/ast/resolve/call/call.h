// SPDX-License-Identifier: Apache-2.0
// A call of a def while its dims are bound. Private to this folder.
#ifndef ATTC_RESOLVE_CALL_H
#define ATTC_RESOLVE_CALL_H

#include "ast/resolve/resolve.h"

enum { BY_HAND = UINT32_MAX };

typedef struct {
    Name formal, actual;
    Span place;     // where the actual was written
    uint32_t param; // whose argument says so, or BY_HAND
} Bound;

typedef struct {
    Scope *scope;
    Resolver *resolver;
    Expr *call;
    const Def *callee;
    HandDims hands;
    VEC(Bound) bound;
    VEC(NameList) extras; // by parameter: dims of its argument that the call is mapped over
    uint32_t mapped_by;   // the argument with the most of them
    bool fine;
} Binder;

static inline Name param_name(const Binder *b, uint32_t param) {
    return b->callee->params.at[param].name.name;
}
static inline Name callee_name(const Binder *b) {
    return b->callee->name.name;
}
static inline const Bound *find_formal(const Binder *b, Name formal) {
    for (uint32_t i = 0; i < b->bound.count; i++)
        if (b->bound.at[i].formal == formal)
            return &b->bound.at[i];
    return NULL;
}
static inline const Bound *find_actual(const Binder *b, Name actual) {
    for (uint32_t i = 0; i < b->bound.count; i++)
        if (b->bound.at[i].actual == actual)
            return &b->bound.at[i];
    return NULL;
}

// ---- arguments.c: dims that arguments and hands bind ----
Diag *binder_error(Binder *b, Span at, const char *message);
const char *say(const Binder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void note_param(const Binder *b, Diag *diag, uint32_t param);
Span actual_place(const Expr *arg, Name dim);
void check_hands(Binder *b); // they name dims of the callee
void bind_hands(Binder *b);
void bind_param(Binder *b, uint32_t param); // dims and element type of one argument
// Whether dims that the callee knows to be alike are bound to dims that are, as it has to be.
bool keeps_kinds(const Binder *b, const NameList *formals, const NameList *actuals);
// Whether an argument that is bound well is so by place alone, which may be another one than meant.
bool takes_last_of_more(const Binder *b, uint32_t param, const ArgumentDims *dims);
void warn_last_of_more(const Binder *b); // once in a call. Requires: it is bound

// ---- written.c: the whole call as it may be written; NULL: none that would be bound well ----
// `n=k, d=h`
const char *hands_text(const Binder *b, const NameList *formals, const NameList *actuals);
// The formals of a parameter are these dims of its argument, of which `by_hand` are to be said.
// first: what is open in others are the first of the dims that are left, not the last ones.
const char *call_with(const Binder *b, uint32_t param, const NameList *actuals,
                      const NameList *by_hand, bool first);
// What is open in a parameter is said to be the last of the dims that are left; and to be others of
// them, in their order: each where one is open, else the first that would be bound well.
const char *last_choice_text(const Binder *b, uint32_t param, const ArgumentDims *dims);
const char *other_choices_text(const Binder *b, uint32_t param, const ArgumentDims *dims);
const char *choices_text(const Binder *b, uint32_t param, const ArgumentDims *dims); // all of these
// Whatever dims are said of all arguments at once; *none: all were tried, and none would do.
const char *any_choice_text(const Binder *b, bool *none);
// To read arguments so that dims of the callee that would be one are apart.
bool hint_apart(const Binder *b, uint32_t param, Diag *diag); // false: there is no such hint

// ---- own.c: dims that the call is mapped over, and dims of the callee's own ----
void bind_mapped(Binder *b);
void bind_own_dims(Binder *b);
void check_alike(Binder *b);

#endif
