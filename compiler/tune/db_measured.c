// SPDX-License-Identifier: Apache-2.0
// Measurements and fitted rates in and out of the database. What is damaged, or of another version,
// is as good as not there.
#include "tune/db.h"

// ---- rows ---------------------------------------------------------------------------------------

static int64_t measured_checksum(int64_t version, const TuneMeasurement *m) {
    uint64_t hash = db_hash_key(hash_u64(0, (uint64_t)version), &m->key);
    hash = hash_text(hash, m->name);
    hash = hash_text(hash, m->schedule);
    hash = hash_text(hash, m->counts);
    hash = db_hash_double(hash, m->seconds);
    return (int64_t)hash_text(hash, m->date);
}

DbMeasuredRow db_measured_read(sqlite3_stmt *select, Arena *arena) {
    DbColumns c = {select, arena, 0, true};
    DbMeasuredRow row = {.id = db_next_whole(&c, INT64_MAX)};
    row.version = db_next_whole(&c, INT32_MAX);
    TuneMeasurement *m = &row.measurement;
    m->key = db_next_key(&c);
    m->name = db_next_text(&c);
    m->schedule = db_next_text(&c);
    m->counts = db_next_text(&c);
    m->seconds = db_next_double(&c);
    m->date = db_next_text(&c);
    row.wrong = db_columns_problem(&c, measured_checksum(row.version, m));
    if (!row.wrong && row.version == COUNTS_VERSION)
        row.wrong = tune_measurement_problem(arena, m);
    return row;
}

static int64_t rates_checksum(int64_t version, const TuneRates *rates) {
    uint64_t hash = hash_text(hash_u64(0, (uint64_t)version), rates->target);
    hash = hash_u64(hash_text(hash, rates->machine), (uint64_t)rates->threads);
    for (int level = 0; level < N_FROM; level++)
        hash = db_hash_double(hash, rates->at[level]);
    return (int64_t)hash_text(hash, rates->date);
}

DbRatesRow db_rates_read(sqlite3_stmt *select, Arena *arena) {
    DbColumns c = {select, arena, 0, true};
    DbRatesRow row = {.id = db_next_whole(&c, INT64_MAX)};
    row.version = db_next_whole(&c, INT32_MAX);
    TuneRates *rates = &row.rates;
    rates->target = db_next_text(&c);
    rates->machine = db_next_text(&c);
    rates->threads = (int)db_next_whole(&c, INT32_MAX);
    for (int level = 0; level < N_FROM; level++)
        rates->at[level] = db_next_double(&c);
    rates->date = db_next_text(&c);
    row.wrong = db_columns_problem(&c, rates_checksum(row.version, rates));
    if (!row.wrong && row.version == COUNTS_VERSION)
        row.wrong = tune_rates_problem(arena, rates);
    return row;
}

// ---- measurements -------------------------------------------------------------------------------

bool tune_db_list_measurements(TuneDb *db, Arena *arena, TuneMeasurements *out, const char **why) {
    *out = (TuneMeasurements){0};
    *why = NULL;
    sqlite3_stmt *select =
        db_prepare(db, "SELECT " DB_MEASURED_COLUMNS " FROM measurements ORDER BY id", why);
    while (db_row(db, select, why)) {
        DbMeasuredRow row = db_measured_read(select, arena);
        if (!row.wrong && row.version == COUNTS_VERSION)
            vec_push(arena, out, row.measurement);
    }
    return !*why;
}

static bool insert(TuneDb *db, sqlite3_stmt *statement, const TuneMeasurement *m,
                   const char **why) {
    int at = 1 + DB_KEY_COLUMNS;
    db_bind_key(statement, 1, &m->key);
    sqlite3_bind_int(statement, at++, COUNTS_VERSION);
    sqlite3_bind_text(statement, at++, m->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, at++, m->schedule, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, at++, m->counts, -1, SQLITE_STATIC);
    sqlite3_bind_double(statement, at++, m->seconds);
    sqlite3_bind_text(statement, at++, m->date, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, at++, measured_checksum(COUNTS_VERSION, m));
    return db_done(db, statement, why);
}

static bool is_last_of_key(const TuneMeasurements *all, uint32_t i) {
    return i + 1 == all->count || tune_key_compare(&all->at[i].key, &all->at[i + 1].key);
}

// Of the measurement's key the oldest that are too many go: what is put last has the largest id.
static bool trim(TuneDb *db, sqlite3_stmt *statement, const TuneMeasurement *m, const char **why) {
    for (int copy = 0; copy < 2; copy++) {
        db_bind_key(statement, 1 + copy * (DB_KEY_COLUMNS + 1), &m->key);
        sqlite3_bind_int(statement, (copy + 1) * (DB_KEY_COLUMNS + 1), COUNTS_VERSION);
    }
    return db_done(db, statement, why);
}

static bool is_fine(TuneDb *db, const char *what, const char *problem, const char **why) {
    if (problem)
        *why = arena_printf(db->arena, "cannot take %s: %s", what, problem);
    return !problem;
}

static bool put_measurements(TuneDb *db, const TuneMeasurements *measurements, const char **why) {
    const char *trimming =
        arena_printf(db->arena,
                     "DELETE FROM measurements" DB_OF_KEY " AND id NOT IN (SELECT id "
                     "FROM measurements" DB_OF_KEY " ORDER BY id DESC LIMIT %d)",
                     TUNE_MEASURED_MOST);
    sqlite3_stmt *insertion = db_prepare(
        db,
        "INSERT OR REPLACE INTO measurements (group_id, extents, target, machine, threads, "
        "version, name, schedule, counts, seconds, date, checksum) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        why);
    sqlite3_stmt *deletion = insertion ? db_prepare(db, trimming, why) : NULL;
    Arena *scratch = arena_new();
    bool ok = deletion;
    for (uint32_t i = 0; i < measurements->count && ok; i++) {
        const TuneMeasurement *m = &measurements->at[i];
        ok = is_fine(db, "a measurement", tune_measurement_problem(scratch, m), why) &&
             insert(db, insertion, m, why) &&
             (!is_last_of_key(measurements, i) || trim(db, deletion, m, why));
    }
    arena_free(scratch);
    sqlite3_finalize(deletion);
    sqlite3_finalize(insertion);
    return ok;
}

bool tune_db_put_measurements(TuneDb *db, const TuneMeasurements *measurements, const char **why) {
    return db_begin(db, why) && db_end(db, put_measurements(db, measurements, why), why);
}

// ---- rates --------------------------------------------------------------------------------------

bool tune_db_list_rates(TuneDb *db, Arena *arena, TuneRatesList *out, uint32_t *damaged,
                        const char **why) {
    *damaged = 0;
    *out = (TuneRatesList){0};
    *why = NULL;
    sqlite3_stmt *select =
        db_prepare(db, "SELECT " DB_RATES_COLUMNS " FROM rates ORDER BY id", why);
    while (db_row(db, select, why)) {
        DbRatesRow row = db_rates_read(select, arena);
        if (!row.wrong && row.version == COUNTS_VERSION)
            vec_push(arena, out, row.rates);
        *damaged += row.wrong != NULL;
    }
    return !*why;
}

static bool put_rates(TuneDb *db, const TuneRates *rates, const char **why) {
    sqlite3_stmt *statement =
        db_prepare(db,
                   "INSERT OR REPLACE INTO rates (target, machine, threads, version, flops, l2, "
                   "l3, memory, date, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                   why);
    if (!statement)
        return false;
    int at = 1;
    sqlite3_bind_text(statement, at++, rates->target, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, at++, rates->machine, -1, SQLITE_STATIC);
    sqlite3_bind_int(statement, at++, rates->threads);
    sqlite3_bind_int(statement, at++, COUNTS_VERSION);
    for (int level = 0; level < N_FROM; level++)
        sqlite3_bind_double(statement, at++, rates->at[level]);
    sqlite3_bind_text(statement, at++, rates->date, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, at++, rates_checksum(COUNTS_VERSION, rates));
    bool ok = db_done(db, statement, why);
    sqlite3_finalize(statement);
    return ok;
}

bool tune_db_put_rates(TuneDb *db, const TuneRates *rates, const char **why) {
    Arena *scratch = arena_new();
    *why = NULL;
    bool ok = is_fine(db, "rates", tune_rates_problem(scratch, rates), why) && db_begin(db, why) &&
              db_end(db, put_rates(db, rates, why), why);
    arena_free(scratch);
    return ok;
}
