// SPDX-License-Identifier: Apache-2.0
// The database of schedules: one SQLite file.
#include "tune/tune.h"

#include <stdlib.h>

char *tune_db_path(Arena *arena) {
    const char *own = getenv("ATTC_DB"), *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (own && *own)
        return arena_printf(arena, "%s", own);
    if (xdg && *xdg == '/')
        return arena_printf(arena, "%s/attc/schedules.db", xdg);
    return home && *home ? arena_printf(arena, "%s/.local/share/attc/schedules.db", home) : NULL;
}
