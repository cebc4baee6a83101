// SPDX-License-Identifier: Apache-2.0
// Diagnostics as they are reported: kept in order, with their notes and hints. A warning that is
// switched off gives a Diag like any other, which is then not in the list.
#include "base/diag.h"

#include <string.h>

// grammar/language.md 10 says what each finds; -Wname and -Wno-name change whether it is on.
static const WarningGroup warning_groups[N_WARNING_GROUPS] = {
    {"summed-dim", true}, // einsum sums over a dim of one operand only
    {"lost-head", true},  // a mixing matrix that is contracted away
    {"by-place", true},   // dims of a call that no name confirms
    {"joint-sum", true},  // one index in an einsum where two are meant
    {"outer", true},      // every position with every other where a sum of vectors is meant
    {"extent", true},     // the extent of a dim where its positions are likely meant
    {"unused", true},     // a tensor that never takes part
    {"rank", false},      // a head size below the number of memory positions
};

Diags *diags_new(Arena *arena, Sources *sources) {
    Diags *diags = arena_new_of(arena, Diags);
    diags->arena = arena;
    diags->sources = sources;
    memcpy(diags->groups, warning_groups, sizeof warning_groups);
    return diags;
}

Diags *diags_fork(const Diags *diags, Arena *arena) {
    Diags *fork = arena_copy(arena, diags, sizeof *diags);
    fork->arena = arena;
    memset(&fork->list, 0, sizeof fork->list);
    fork->n_errors = 0;
    return fork;
}

static const char *format_text(Arena *arena, const char *format, va_list args) {
    Text text = {.arena = arena};
    text_vprintf(&text, format, args);
    return text.at;
}

static Diag *diag_new(Diags *diags, Severity severity, Span at, const char *message) {
    Diag *diag = arena_new_of(diags->arena, Diag);
    diag->owner = diags;
    diag->severity = severity;
    diag->at = at;
    diag->message = message;
    return diag;
}

static void diags_keep(Diags *diags, Diag *diag) {
    diag->number = diags->list.count;
    diags->n_errors += diag->severity == DIAG_ERROR;
    vec_push(diags->arena, &diags->list, diag);
}

static const char *copy_text(Diags *diags, const char *text) {
    return text ? arena_strndup(diags->arena, text, strlen(text)) : NULL;
}

void diags_join(Diags *diags, const Diags *fork) {
    for (uint32_t i = 0; i < fork->list.count; i++) {
        const Diag *from = fork->list.at[i];
        Diag *diag = diag_new(diags, from->severity, from->at, copy_text(diags, from->message));
        diag->group = from->group;
        diag->hint = copy_text(diags, from->hint);
        for (uint32_t k = 0; k < from->notes.count; k++)
            diag_note(diag, from->notes.at[k].at, "%s", from->notes.at[k].message);
        diags_keep(diags, diag);
    }
}

Diag *diag_error(Diags *diags, Span at, const char *format, ...) {
    va_list args;
    va_start(args, format);
    Diag *diag = diag_new(diags, DIAG_ERROR, at, format_text(diags->arena, format, args));
    va_end(args);
    diags_keep(diags, diag);
    return diag;
}

Diag *diag_remark(Diags *diags, Span at, const char *format, ...) {
    va_list args;
    va_start(args, format);
    Diag *diag = diag_new(diags, DIAG_REMARK, at, format_text(diags->arena, format, args));
    va_end(args);
    if (!diags->no_warnings)
        diags_keep(diags, diag);
    return diag;
}

static WarningGroup *diags_group(Diags *diags, const char *name) {
    for (uint32_t i = 0; i < N_WARNING_GROUPS; i++)
        if (!strcmp(diags->groups[i].name, name))
            return &diags->groups[i];
    return NULL;
}

Diag *diag_warning(Diags *diags, const char *group, Span at, const char *format, ...) {
    const WarningGroup *known = diags_group(diags, group);
    if (!known)
        ice("no warning group '%s'", group);
    va_list args;
    va_start(args, format);
    Severity severity = diags->warnings_are_errors ? DIAG_ERROR : DIAG_WARNING;
    Diag *diag = diag_new(diags, severity, at, format_text(diags->arena, format, args));
    va_end(args);
    diag->group = known->name;
    if (known->on && !diags->no_warnings)
        diags_keep(diags, diag);
    return diag;
}

Diag *diag_note(Diag *diag, Span at, const char *format, ...) {
    va_list args;
    va_start(args, format);
    Note note = {.at = at, .message = format_text(diag->owner->arena, format, args)};
    va_end(args);
    vec_push(diag->owner->arena, &diag->notes, note);
    return diag;
}

Diag *diag_hint(Diag *diag, const char *format, ...) {
    va_list args;
    va_start(args, format);
    diag->hint = format_text(diag->owner->arena, format, args);
    va_end(args);
    return diag;
}

uint32_t diags_errors(const Diags *diags) {
    return diags->n_errors;
}

const char *diags_first_error(const Diags *diags) {
    for (uint32_t i = 0; i < diags->list.count; i++)
        if (diags->list.at[i]->severity == DIAG_ERROR)
            return diags->list.at[i]->message;
    return NULL;
}

bool diags_warning_option(Diags *diags, const char *option) {
    if (!strcmp(option, "w") || !strcmp(option, "-w")) {
        diags->no_warnings = true;
        return true;
    }
    bool on = strncmp(option, "no-", 3) != 0;
    const char *name = on ? option : option + 3;
    if (!strcmp(name, "error")) {
        diags->warnings_are_errors = on;
        return true;
    }
    if (!strcmp(name, "all")) {
        for (uint32_t i = 0; i < N_WARNING_GROUPS; i++)
            diags->groups[i].on = on;
        return true;
    }
    WarningGroup *group = diags_group(diags, name);
    if (!group)
        return false;
    group->on = on;
    return true;
}
