// SPDX-License-Identifier: Apache-2.0
// Between the files of the database: an open one, and its rows as they are in the file.
#ifndef ATTC_TUNE_DB_H
#define ATTC_TUNE_DB_H

#include <sqlite3.h>

#include "tune/tune.h"

struct TuneDb {
    Arena *arena; // of what is wrong
    sqlite3 *handle;
    sqlite3_stmt *find; // kept from one lookup to the next; NULL before the first
};

// ---- db_open.c ----
bool db_failed(TuneDb *db, const char **why); // false; why the last call of SQLite failed
bool db_run(TuneDb *db, const char *sql, const char **why); // statements without results
sqlite3_stmt *db_prepare(TuneDb *db, const char *sql, const char **why); // NULL with *why
bool db_begin(TuneDb *db, const char **why);        // a transaction; resets *why
bool db_end(TuneDb *db, bool ok, const char **why); // as it was fine so far, or none of it

// ---- db_row.c ----
typedef struct {
    int64_t id;
    int64_t version; // of schedules
    TuneEntry entry;
    const char *wrong; // NULL: the entry is what was put; of another version: the row is
} DbRow;
// Columns of a row and its checksum, in the order of a SELECT.
#define DB_COLUMNS                                                                                 \
    "id, version, group_id, extents, target, machine, threads, name, schedule, seconds, "          \
    "default_seconds, confidence, date, checksum"
// Texts are copied. Nothing of a row that is wrong is to be trusted but id and version.
DbRow db_row_read(sqlite3_stmt *select, Arena *arena);
int64_t db_row_checksum(int64_t version, const TuneEntry *entry);
// Parameters from number `first` on. The key outlives the statement's use.
void db_bind_key(sqlite3_stmt *statement, int first, const TuneKey *key);

#endif
