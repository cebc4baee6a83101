// SPDX-License-Identifier: Apache-2.0
// What people look after the database with: what is wrong with it, and taking away what is of no
// use.
#include "tune/db.h"

#include <string.h>

// What is asked of a row, whatever it holds.
typedef struct {
    int64_t id, version;
    const char *wrong, *date;
    bool slow;
} Facts;

static Facts facts_of_schedule(sqlite3_stmt *select, Arena *arena) {
    DbRow row = db_row_read(select, arena);
    bool slow = !row.wrong && !tune_is_worth(row.entry.seconds, row.entry.default_seconds);
    return (Facts){row.id, row.version, row.wrong, row.entry.date, slow};
}

static Facts facts_of_measurement(sqlite3_stmt *select, Arena *arena) {
    DbMeasuredRow row = db_measured_read(select, arena);
    return (Facts){row.id, row.version, row.wrong, row.measurement.date, false};
}

static Facts facts_of_rates(sqlite3_stmt *select, Arena *arena) {
    DbRatesRow row = db_rates_read(select, arena);
    return (Facts){row.id, row.version, row.wrong, row.rates.date, false};
}

typedef struct {
    const char *row; // what one is called
    Facts (*read)(sqlite3_stmt *select, Arena *arena);
    const char *all, *removal;
    int version; // of rows that are found
} DbTable;
enum { SCHEDULES, MEASUREMENTS, RATES, N_TABLES };
static const DbTable tables[N_TABLES] = {
    [SCHEDULES] = {"entry", facts_of_schedule, "SELECT " DB_COLUMNS " FROM schedules ORDER BY id",
                   "DELETE FROM schedules WHERE id = ?", SCHEDULE_VERSION},
    [MEASUREMENTS] = {"measurement", facts_of_measurement,
                      "SELECT " DB_MEASURED_COLUMNS " FROM measurements ORDER BY id",
                      "DELETE FROM measurements WHERE id = ?", COUNTS_VERSION},
    [RATES] = {"row of rates", facts_of_rates, "SELECT " DB_RATES_COLUMNS " FROM rates ORDER BY id",
               "DELETE FROM rates WHERE id = ?", COUNTS_VERSION},
};

// ---- check --------------------------------------------------------------------------------------

static void add_line(Text *lines, const char *line) {
    text_printf(lines, "%s%s", lines->length ? "\n" : "", line);
}

// A row of SQLite's check may be several lines, the first of which only tells where they belong.
static void add_damage(TuneDb *db, Text *lines, const char *row) {
    char *rest = arena_printf(db->arena, "%s", row);
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
        if (*line && strncmp(line, "***", 3) != 0)
            add_line(lines, arena_printf(db->arena, "is damaged: %s", line));
}

// SQLite's own check: of pages, of the index against the table.
static void check_pages(TuneDb *db, Text *lines) {
    const char *why = NULL;
    sqlite3_stmt *check = db_prepare(db, "PRAGMA integrity_check(20)", &why);
    while (db_row(db, check, &why)) {
        const char *row = (const char *)sqlite3_column_text(check, 0);
        if (row && strcmp(row, "ok") != 0)
            add_damage(db, lines, row);
    }
    if (why)
        add_line(lines, why);
}

bool tune_db_is_whole(TuneDb *db, const char **why) {
    Text lines = {.arena = db->arena};
    check_pages(db, &lines);
    *why = strsep(&lines.at, "\n");
    return !*why;
}

static void check_rows(TuneDb *db, const DbTable *table, Text *lines) {
    const char *why = NULL;
    sqlite3_stmt *select = db_prepare(db, table->all, &why);
    while (db_row(db, select, &why)) {
        Facts row = table->read(select, db->arena);
        if (row.wrong)
            add_line(lines, arena_printf(db->arena, "has a damaged %s, number %lld: %s", table->row,
                                         (long long)row.id, row.wrong));
    }
    if (why)
        add_line(lines, why);
}

char *tune_db_check(TuneDb *db, Arena *arena) {
    Text lines = {.arena = arena};
    check_pages(db, &lines);
    for (int i = 0; i < N_TABLES; i++)
        check_rows(db, &tables[i], &lines);
    return lines.at;
}

// ---- prune --------------------------------------------------------------------------------------

// The count that a row goes with, or that of those that stay.
static uint32_t *fate(const DbTable *table, const Facts *row, const char *oldest,
                      TunePruned *counts) {
    if (row->version != table->version)
        return &counts->unusable.other_versions;
    if (row->wrong)
        return &counts->unusable.damaged;
    if (row->slow)
        return &counts->slow;
    if (oldest && strcmp(row->date, oldest) < 0)
        return &counts->old;
    return &counts->left;
}

typedef VEC(int64_t) Ids;

static bool choose(TuneDb *db, const DbTable *table, Arena *arena, const char *oldest,
                   TunePruned *counts, Ids *out, const char **why) {
    sqlite3_stmt *select = db_prepare(db, table->all, why);
    while (db_row(db, select, why)) {
        Facts row = table->read(select, arena);
        uint32_t *count = fate(table, &row, oldest, counts);
        ++*count;
        if (count != &counts->left)
            vec_push(arena, out, row.id);
    }
    return !*why;
}

static bool remove_rows(TuneDb *db, const DbTable *table, const Ids *ids, const char **why) {
    sqlite3_stmt *statement = db_prepare(db, table->removal, why);
    bool ok = statement != NULL;
    for (uint32_t i = 0; i < ids->count && ok; i++) {
        sqlite3_bind_int64(statement, 1, ids->at[i]);
        ok = db_done(db, statement, why);
    }
    sqlite3_finalize(statement);
    return ok;
}

// *rows: how many went, and stay; *counts: for what reasons.
static bool prune_table(TuneDb *db, const DbTable *table, const char *oldest, TunePruned *counts,
                        TuneRows *rows, const char **why) {
    Arena *scratch = arena_new();
    Ids ids = {0};
    *counts = (TunePruned){0};
    bool ok =
        choose(db, table, scratch, oldest, counts, &ids, why) && remove_rows(db, table, &ids, why);
    *rows = (TuneRows){ids.count, counts->left};
    arena_free(scratch);
    return ok;
}

static bool prune_tables(TuneDb *db, const char *oldest, TunePruned *out, const char **why) {
    TunePruned others;
    TuneRows schedules;
    return prune_table(db, &tables[SCHEDULES], oldest, out, &schedules, why) &&
           prune_table(db, &tables[MEASUREMENTS], oldest, &others, &out->measurements, why) &&
           prune_table(db, &tables[RATES], NULL, &others, &out->rates, why);
}

bool tune_db_prune(TuneDb *db, const char *oldest, TunePruned *out, const char **why) {
    *out = (TunePruned){0};
    *why = NULL;
    return db_begin(db, why) &&
           db_end(db, db_run(db, "REINDEX", why) && prune_tables(db, oldest, out, why), why);
}
