// SPDX-License-Identifier: Apache-2.0
// What people look after the database with: what is wrong with it, and taking away what is of no
// use.
#include "tune/db.h"

#include <string.h>

static const char all_rows[] = "SELECT " DB_COLUMNS " FROM schedules ORDER BY id";

// ---- check --------------------------------------------------------------------------------------

static void add_line(Text *lines, const char *line) {
    text_printf(lines, "%s%s", lines->length ? "\n" : "", line);
}

// SQLite's own check: of pages, of the index against the table.
static void check_pages(TuneDb *db, Text *lines) {
    const char *why = NULL;
    sqlite3_stmt *check = db_prepare(db, "PRAGMA integrity_check(20)", &why);
    int status = check ? sqlite3_step(check) : SQLITE_DONE;
    for (; status == SQLITE_ROW; status = sqlite3_step(check)) {
        const char *line = (const char *)sqlite3_column_text(check, 0);
        if (line && strcmp(line, "ok") != 0)
            add_line(lines, arena_printf(db->arena, "is damaged: %s", line));
    }
    if (check && status != SQLITE_DONE)
        db_failed(db, &why);
    if (why)
        add_line(lines, why);
    sqlite3_finalize(check);
}

static void check_rows(TuneDb *db, Text *lines) {
    const char *why = NULL;
    sqlite3_stmt *select = db_prepare(db, all_rows, &why);
    int status = select ? sqlite3_step(select) : SQLITE_DONE;
    for (; status == SQLITE_ROW; status = sqlite3_step(select)) {
        DbRow row = db_row_read(select, db->arena);
        if (row.wrong)
            add_line(lines, arena_printf(db->arena, "has a damaged entry, number %lld: %s",
                                         (long long)row.id, row.wrong));
    }
    if (select && status != SQLITE_DONE)
        db_failed(db, &why);
    if (why)
        add_line(lines, why);
    sqlite3_finalize(select);
}

char *tune_db_check(TuneDb *db, Arena *arena) {
    Text lines = {.arena = arena};
    check_pages(db, &lines);
    check_rows(db, &lines);
    return lines.at;
}

// ---- prune --------------------------------------------------------------------------------------

// The count that a row goes with, or that of those that stay.
static uint32_t *fate(const DbRow *row, const TunePrune *prune, TunePruned *counts) {
    if (row->version != SCHEDULE_VERSION)
        return &counts->unusable.other_versions;
    if (row->wrong)
        return &counts->unusable.damaged;
    if (tune_gain(&row->entry) < prune->least_gain)
        return &counts->slow;
    if (prune->oldest && strcmp(row->entry.date, prune->oldest) < 0)
        return &counts->old;
    return &counts->left;
}

typedef VEC(int64_t) Ids;

static bool choose(TuneDb *db, Arena *arena, const TunePrune *prune, TunePruned *counts, Ids *out,
                   const char **why) {
    sqlite3_stmt *select = db_prepare(db, all_rows, why);
    if (!select)
        return false;
    int status;
    while ((status = sqlite3_step(select)) == SQLITE_ROW) {
        DbRow row = db_row_read(select, arena);
        uint32_t *count = fate(&row, prune, counts);
        ++*count;
        if (count != &counts->left)
            vec_push(arena, out, row.id);
    }
    bool ok = status == SQLITE_DONE || db_failed(db, why);
    sqlite3_finalize(select);
    return ok;
}

static bool remove_rows(TuneDb *db, const Ids *ids, const char **why) {
    sqlite3_stmt *statement = db_prepare(db, "DELETE FROM schedules WHERE id = ?", why);
    bool ok = statement != NULL;
    for (uint32_t i = 0; i < ids->count && ok; i++) {
        sqlite3_bind_int64(statement, 1, ids->at[i]);
        ok = sqlite3_step(statement) == SQLITE_DONE || db_failed(db, why);
        sqlite3_reset(statement);
    }
    sqlite3_finalize(statement);
    return ok;
}

bool tune_db_prune(TuneDb *db, const TunePrune *prune, TunePruned *out, const char **why) {
    Arena *scratch = arena_new();
    Ids ids = {0};
    *out = (TunePruned){0};
    *why = NULL;
    bool ok =
        db_begin(db, why) &&
        db_end(db, choose(db, scratch, prune, out, &ids, why) && remove_rows(db, &ids, why), why);
    arena_free(scratch);
    return ok;
}
