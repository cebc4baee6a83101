// SPDX-License-Identifier: Apache-2.0
// What diag.c keeps and diag_print.c shows. Private to the two.
#ifndef ATTC_DIAG_H
#define ATTC_DIAG_H

#include "base/base.h"

typedef struct {
    Span at;
    const char *message;
} Note;

struct Diag {
    Diags *owner;
    Severity severity;
    const char *group; // NULL for errors
    Span at;
    const char *message;
    const char *hint; // NULL if none
    VEC(Note) notes;
    uint32_t number; // in order of reporting
};

typedef struct {
    const char *name;
    bool on;
} WarningGroup;

enum { N_WARNING_GROUPS = 8 };

struct Diags {
    Arena *arena;
    Sources *sources;
    VEC(Diag *) list;
    uint32_t n_errors;
    WarningGroup groups[N_WARNING_GROUPS];
    bool warnings_are_errors, no_warnings;
};

#endif
