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
bool db_done(TuneDb *db, sqlite3_stmt *change, const char **why); // makes the change, and resets it
// To the next row. false after the last one, or with *why; the statement is no more then. NULL has
// no rows.
bool db_row(TuneDb *db, sqlite3_stmt *select, const char **why);
bool db_begin(TuneDb *db, const char **why);        // a transaction; resets *why
bool db_end(TuneDb *db, bool ok, const char **why); // as it was fine so far, or none of it

// ---- db_row.c: rows of schedules, and what rows of all tables are read with ----
typedef struct {
    sqlite3_stmt *select;
    Arena *arena; // texts are copied
    int column;   // the next
    bool typed;   // all had the types of their columns
} DbColumns;
const char *db_next_text(DbColumns *columns);
int64_t db_next_whole(DbColumns *columns, int64_t most);
double db_next_double(DbColumns *columns);
TuneKey db_next_key(DbColumns *columns);
// The last column: is the checksum this one? NULL, or what is wrong with the row.
const char *db_columns_problem(const DbColumns *columns, int64_t checksum);
uint64_t db_hash_key(uint64_t seed, const TuneKey *key);
uint64_t db_hash_double(uint64_t seed, double value);
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
// The row of a key and of a version: parameters from db_bind_key, then the version.
#define DB_OF_KEY                                                                                  \
    " WHERE group_id = ? AND extents = ? AND target = ? AND machine = ? AND threads = ? "          \
    "AND version = ?"
enum { DB_KEY_COLUMNS = 5 };
// Nothing of a row that is wrong is to be trusted but id and version.
DbRow db_row_read(sqlite3_stmt *select, Arena *arena);
int64_t db_row_checksum(int64_t version, const TuneEntry *entry);
// Parameters from number `first` on. The key outlives the statement's use.
void db_bind_key(sqlite3_stmt *statement, int first, const TuneKey *key);

// ---- db_measured.c: rows of measurements and of rates ----
#define DB_MEASURED_COLUMNS                                                                        \
    "id, version, group_id, extents, target, machine, threads, name, schedule, counts, seconds, "  \
    "date, checksum"
#define DB_RATES_COLUMNS                                                                           \
    "id, version, target, machine, threads, flops, l2, l3, memory, date, checksum"
typedef struct {
    int64_t id, version;
    TuneMeasurement measurement;
    const char *wrong;
} DbMeasuredRow;
typedef struct {
    int64_t id, version;
    TuneRates rates;
    const char *wrong;
} DbRatesRow;
DbMeasuredRow db_measured_read(sqlite3_stmt *select, Arena *arena);
DbRatesRow db_rates_read(sqlite3_stmt *select, Arena *arena);

#endif
