// SPDX-License-Identifier: Apache-2.0
// Entries in and out of the database. Each change is one transaction: all of it is in the file, or
// nothing.
#include "tune/db.h"

#include <string.h>

// ---- reading ------------------------------------------------------------------------------------

// The row of a key and of this version; *there: is there one?
static bool find_row(TuneDb *db, Arena *arena, const TuneKey *key, DbRow *row, bool *there,
                     const char **why) {
    *there = false;
    if (!db->find)
        db->find = db_prepare(db, "SELECT " DB_COLUMNS " FROM schedules" DB_OF_KEY, why);
    if (!db->find)
        return false;
    db_bind_key(db->find, 1, key);
    sqlite3_bind_int(db->find, 1 + DB_KEY_COLUMNS, SCHEDULE_VERSION);
    int status = sqlite3_step(db->find);
    *there = status == SQLITE_ROW;
    if (*there)
        *row = db_row_read(db->find, arena);
    bool ok = *there || status == SQLITE_DONE || db_failed(db, why);
    sqlite3_reset(db->find);
    return ok;
}

bool tune_db_find(TuneDb *db, Arena *arena, const TuneKey *key, TuneEntry *out, bool *found,
                  const char **why) {
    DbRow row;
    bool there;
    *found = false;
    *why = NULL;
    if (!find_row(db, arena, key, &row, &there, why))
        return false;
    // An index that is broken leads to the row of another key.
    if (there && !row.wrong && tune_key_compare(&row.entry.key, key))
        row.wrong = "it is that of another key";
    *found = there && !row.wrong;
    if (*found)
        *out = row.entry;
    else if (there)
        *why = arena_printf(db->arena, "has a damaged entry: %s", row.wrong);
    return true;
}

bool tune_db_list(TuneDb *db, Arena *arena, TuneEntries *out, TuneLeftOut *left_out,
                  const char **why) {
    TuneLeftOut others = {0};
    *out = (TuneEntries){0};
    *why = NULL;
    sqlite3_stmt *select =
        db_prepare(db,
                   "SELECT " DB_COLUMNS " FROM schedules "
                   "ORDER BY group_id, extents, target, machine, threads, version",
                   why);
    while (db_row(db, select, why)) {
        DbRow row = db_row_read(select, arena);
        if (row.version != SCHEDULE_VERSION)
            others.other_versions++;
        else if (row.wrong)
            others.damaged++;
        else
            vec_push(arena, out, row.entry);
    }
    if (left_out)
        *left_out = others;
    return !*why;
}

// ---- changes ------------------------------------------------------------------------------------

static sqlite3_stmt *prepare_insert(TuneDb *db, const char **why) {
    return db_prepare(db,
                      "INSERT OR REPLACE INTO schedules (group_id, extents, target, machine, "
                      "threads, version, name, schedule, seconds, default_seconds, confidence, "
                      "date, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                      why);
}

static bool insert(TuneDb *db, sqlite3_stmt *statement, const TuneEntry *entry, const char **why) {
    int at = 1 + DB_KEY_COLUMNS;
    db_bind_key(statement, 1, &entry->key);
    sqlite3_bind_int(statement, at++, SCHEDULE_VERSION);
    sqlite3_bind_text(statement, at++, entry->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, at++, entry->schedule, -1, SQLITE_STATIC);
    sqlite3_bind_double(statement, at++, entry->seconds);
    sqlite3_bind_double(statement, at++, entry->default_seconds);
    sqlite3_bind_double(statement, at++, entry->confidence);
    sqlite3_bind_text(statement, at++, entry->date, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, at++, db_row_checksum(SCHEDULE_VERSION, entry));
    return db_done(db, statement, why);
}

static bool is_fine(TuneDb *db, const TuneEntry *entry, const char **why) {
    Arena *scratch = arena_new();
    const char *problem = tune_entry_problem(scratch, entry);
    if (problem)
        *why = arena_printf(db->arena, "cannot take an entry: %s", problem);
    arena_free(scratch);
    return !problem;
}

// Is what is there for the entry's key at least as fast? What is damaged never is.
static bool is_beaten(TuneDb *db, const TuneEntry *entry, bool *beaten, const char **why) {
    Arena *scratch = arena_new();
    TuneEntry other;
    const char *damage = NULL;
    bool found, ok = tune_db_find(db, scratch, &entry->key, &other, &found, &damage);
    *why = ok ? *why : damage;
    *beaten = ok && found && other.seconds <= entry->seconds;
    arena_free(scratch);
    return ok;
}

static bool put_entries(TuneDb *db, const TuneEntries *entries, bool only_faster, uint32_t *kept,
                        const char **why) {
    sqlite3_stmt *statement = prepare_insert(db, why);
    bool ok = statement != NULL, beaten = false;
    for (uint32_t i = 0; i < entries->count && ok; i++) {
        const TuneEntry *entry = &entries->at[i];
        ok = is_fine(db, entry, why) && (!only_faster || is_beaten(db, entry, &beaten, why));
        if (ok && !beaten) {
            ok = insert(db, statement, entry, why);
            ++*kept;
        }
    }
    sqlite3_finalize(statement);
    return ok;
}

bool tune_db_put_all(TuneDb *db, const TuneEntries *entries, const char **why) {
    uint32_t kept = 0;
    return db_begin(db, why) && db_end(db, put_entries(db, entries, false, &kept, why), why);
}

bool tune_db_merge(TuneDb *db, const TuneEntries *entries, uint32_t *kept, const char **why) {
    *kept = 0;
    return db_begin(db, why) && db_end(db, put_entries(db, entries, true, kept, why), why);
}

static bool remove_same(TuneDb *db, const TuneKey *key, const char *schedule, const char **why) {
    sqlite3_stmt *statement =
        db_prepare(db, "DELETE FROM schedules" DB_OF_KEY " AND schedule = ?", why);
    if (!statement)
        return false;
    db_bind_key(statement, 1, key);
    sqlite3_bind_int(statement, 1 + DB_KEY_COLUMNS, SCHEDULE_VERSION);
    sqlite3_bind_text(statement, 2 + DB_KEY_COLUMNS, schedule, -1, SQLITE_STATIC);
    bool ok = db_done(db, statement, why);
    sqlite3_finalize(statement);
    return ok;
}

bool tune_db_remove(TuneDb *db, const TuneKey *key, const char *schedule, const char **why) {
    return db_begin(db, why) && db_end(db, remove_same(db, key, schedule, why), why);
}
