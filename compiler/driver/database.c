// SPDX-License-Identifier: Apache-2.0
// Where schedules are read from: the database that the command line means, and texts that were
// exported from one.
#include "driver/driver.h"

#include <string.h>

const char *database_path(Options *options) {
    const char *path = options->db ? options->db : tune_db_path(options->session->arena);
    if (!path)
        problem(options, "there is no home for a database of schedules: give --db FILE");
    return path;
}

int database_problem(Options *options, const char *path, const char *why) {
    return problem(options, "database %s %s", path, why ? why : "does not exist, or is empty");
}

TuneDb *database_open(Options *options, const char *path, TuneDbMode mode) {
    const char *why = NULL;
    TuneDb *db = tune_db_open(options->session->arena, path, mode, &why);
    if (!db)
        database_problem(options, path, why);
    return db;
}

TuneDb *database_open_whole(Options *options, const char *path) {
    const char *why = NULL;
    TuneDb *db = database_open(options, path, TUNE_DB_WRITE);
    if (!db || tune_db_is_whole(db, &why))
        return db;
    database_problem(options, path, why);
    tune_db_close(db);
    return NULL;
}

// Not among the session's sources: an import of the file is no second one.
bool database_read_text(Options *options, const char *path, TuneEntries *out) {
    Arena *arena = options->session->arena;
    Sources *sources = sources_new(arena);
    const char *why = NULL;
    uint32_t line, file = sources_read(sources, path, &why);
    if (!file) {
        problem(options, "%s", why);
        return false;
    }
    const Source *text = sources_get(sources, file);
    if (!strncmp(text->text, "SQLite format 3", 15)) {
        diag_hint(diag_error(options->session->diags, (Span){0},
                             "%s is a database, and no text of schedules", path),
                  "attc db merge takes databases, --db uses one");
        return false;
    }
    if (tune_entries_from_text(arena, text->text, text->length, out, &line, &why))
        return true;
    problem(options, "%s:%u: %s", text->path, line, why);
    return false;
}
