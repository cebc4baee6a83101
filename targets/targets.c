// SPDX-License-Identifier: Apache-2.0
// The list of targets, and which of them this machine is.
#include "target.h"

#include <string.h>

#include "module.h"

const Target *const *targets_all(void) {
    static const Target *const all[] = {&x86_64_v3, &x86_64_v4, NULL}; // better ones later
    return all;
}

const Target *target_find(const char *name) {
    for (const Target *const *at = targets_all(); *at; at++)
        if (strcmp((*at)->name, name) == 0)
            return *at;
    return NULL;
}

const Target *target_host(const char **why) {
    const Target *best = NULL;
    const char *missing = NULL;
    for (const Target *const *at = targets_all(); *at; at++) {
        const char *lacks = NULL;
        if (att_level_runs((*at)->level, &lacks))
            best = *at;
        else if (!missing)
            missing = lacks; // of the lowest level
    }
    if (!best)
        *why = missing;
    return best;
}
