// SPDX-License-Identifier: Apache-2.0
// Rows of the database. SQLite finds pages that are broken; a number that has been changed in a
// sound file is found by the checksum that each row has over all of its columns.
#include "tune/db.h"

#include <string.h>

uint64_t db_hash_double(uint64_t seed, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return hash_u64(seed, bits);
}

uint64_t db_hash_key(uint64_t seed, const TuneKey *key) {
    uint64_t hash = hash_text(seed, key->group);
    hash = hash_text(hash, key->extents);
    hash = hash_text(hash, key->target);
    hash = hash_text(hash, key->machine);
    return hash_u64(hash, (uint64_t)key->threads);
}

int64_t db_row_checksum(int64_t version, const TuneEntry *entry) {
    uint64_t hash = hash_u64(0, (uint64_t)version);
    hash = db_hash_key(hash, &entry->key);
    hash = hash_text(hash, entry->name);
    hash = hash_text(hash, entry->schedule);
    hash = db_hash_double(hash, entry->seconds);
    hash = db_hash_double(hash, entry->default_seconds);
    hash = db_hash_double(hash, entry->confidence);
    return (int64_t)hash_text(hash, entry->date);
}

// ---- reading ------------------------------------------------------------------------------------

const char *db_next_text(DbColumns *c) {
    int column = c->column++;
    c->typed &= sqlite3_column_type(c->select, column) == SQLITE_TEXT;
    const char *text = (const char *)sqlite3_column_text(c->select, column);
    size_t length = text ? (size_t)sqlite3_column_bytes(c->select, column) : 0;
    c->typed &= text && strlen(text) == length;
    return arena_strndup(c->arena, text ? text : "", length);
}

int64_t db_next_whole(DbColumns *c, int64_t most) {
    int column = c->column++;
    int64_t value = sqlite3_column_int64(c->select, column);
    bool typed =
        sqlite3_column_type(c->select, column) == SQLITE_INTEGER && value <= most && value >= -most;
    c->typed &= typed;
    return typed ? value : 0;
}

double db_next_double(DbColumns *c) {
    int column = c->column++;
    c->typed &= sqlite3_column_type(c->select, column) == SQLITE_FLOAT;
    return sqlite3_column_double(c->select, column);
}

TuneKey db_next_key(DbColumns *c) {
    TuneKey key = {.group = db_next_text(c)};
    key.extents = db_next_text(c);
    key.target = db_next_text(c);
    key.machine = db_next_text(c);
    key.threads = (int)db_next_whole(c, INT32_MAX);
    return key;
}

const char *db_columns_problem(const DbColumns *c, int64_t checksum) {
    if (!c->typed)
        return "a column has a value of another type";
    return checksum != sqlite3_column_int64(c->select, c->column) ? "its checksum is another"
                                                                  : NULL;
}

static TuneEntry next_entry(DbColumns *c) {
    TuneEntry entry = {.key = db_next_key(c)};
    entry.name = db_next_text(c);
    entry.schedule = db_next_text(c);
    entry.seconds = db_next_double(c);
    entry.default_seconds = db_next_double(c);
    entry.confidence = db_next_double(c);
    entry.date = db_next_text(c);
    return entry;
}

DbRow db_row_read(sqlite3_stmt *select, Arena *arena) {
    DbColumns c = {select, arena, 0, true};
    DbRow row = {.id = db_next_whole(&c, INT64_MAX)};
    row.version = db_next_whole(&c, INT32_MAX);
    row.entry = next_entry(&c);
    row.wrong = db_columns_problem(&c, db_row_checksum(row.version, &row.entry));
    if (!row.wrong && row.version == SCHEDULE_VERSION)
        row.wrong = tune_entry_problem(arena, &row.entry);
    return row;
}

void db_bind_key(sqlite3_stmt *statement, int first, const TuneKey *key) {
    sqlite3_bind_text(statement, first, key->group, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, first + 1, key->extents, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, first + 2, key->target, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, first + 3, key->machine, -1, SQLITE_STATIC);
    sqlite3_bind_int(statement, first + 4, key->threads);
}
