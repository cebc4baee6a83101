// SPDX-License-Identifier: Apache-2.0
// Rows of the database. SQLite finds pages that are broken; a number that has been changed in a
// sound file is found by the checksum that each row has over all of its columns.
#include "tune/db.h"

#include <string.h>

enum { COLUMN_ID, COLUMN_VERSION, COLUMN_GROUP, COLUMN_CHECKSUM = COLUMN_GROUP + 11 };

static uint64_t hash_double(uint64_t seed, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return hash_u64(seed, bits);
}

int64_t db_row_checksum(int64_t version, const TuneEntry *entry) {
    uint64_t hash = hash_u64(0, (uint64_t)version);
    hash = hash_text(hash, entry->key.group);
    hash = hash_text(hash, entry->key.extents);
    hash = hash_text(hash, entry->key.target);
    hash = hash_text(hash, entry->key.machine);
    hash = hash_u64(hash, (uint64_t)entry->key.threads);
    hash = hash_text(hash, entry->name);
    hash = hash_text(hash, entry->schedule);
    hash = hash_double(hash, entry->seconds);
    hash = hash_double(hash, entry->default_seconds);
    hash = hash_double(hash, entry->confidence);
    return (int64_t)hash_text(hash, entry->date);
}

// ---- reading ------------------------------------------------------------------------------------

typedef struct {
    sqlite3_stmt *select;
    Arena *arena;
    int column; // the next
    bool typed; // all had the types of their columns
} Columns;

static const char *next_text(Columns *c) {
    int column = c->column++;
    c->typed &= sqlite3_column_type(c->select, column) == SQLITE_TEXT;
    const char *text = (const char *)sqlite3_column_text(c->select, column);
    size_t length = text ? (size_t)sqlite3_column_bytes(c->select, column) : 0;
    c->typed &= text && strlen(text) == length;
    return arena_strndup(c->arena, text ? text : "", length);
}

static int64_t next_whole(Columns *c, int64_t most) {
    int column = c->column++;
    int64_t value = sqlite3_column_int64(c->select, column);
    bool typed =
        sqlite3_column_type(c->select, column) == SQLITE_INTEGER && value <= most && value >= -most;
    c->typed &= typed;
    return typed ? value : 0;
}

static double next_double(Columns *c) {
    int column = c->column++;
    c->typed &= sqlite3_column_type(c->select, column) == SQLITE_FLOAT;
    return sqlite3_column_double(c->select, column);
}

static TuneEntry next_entry(Columns *c) {
    TuneEntry entry = {0};
    entry.key.group = next_text(c);
    entry.key.extents = next_text(c);
    entry.key.target = next_text(c);
    entry.key.machine = next_text(c);
    entry.key.threads = (int)next_whole(c, INT32_MAX);
    entry.name = next_text(c);
    entry.schedule = next_text(c);
    entry.seconds = next_double(c);
    entry.default_seconds = next_double(c);
    entry.confidence = next_double(c);
    entry.date = next_text(c);
    return entry;
}

DbRow db_row_read(sqlite3_stmt *select, Arena *arena) {
    Columns c = {select, arena, COLUMN_ID, true};
    DbRow row = {.id = next_whole(&c, INT64_MAX)};
    row.version = next_whole(&c, INT32_MAX);
    row.entry = next_entry(&c);
    int64_t checksum = sqlite3_column_int64(select, COLUMN_CHECKSUM);
    if (!c.typed)
        row.wrong = "a column has a value of another type";
    else if (checksum != db_row_checksum(row.version, &row.entry))
        row.wrong = "its checksum is another";
    else if (row.version == SCHEDULE_VERSION)
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
