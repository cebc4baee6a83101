// SPDX-License-Identifier: Apache-2.0
// Opening the database of schedules.
//
// It is one file with a table of schedules, one of measurements, and one of what rates of machines
// were fitted to these. A rollback journal, not a write-ahead log: a log wants to make
// files beside the database even to read it, and shared memory, so that neither a folder that can
// only be read nor one on a network would do; writers are rare here, and each has the file for
// itself for a few milliseconds. synchronous=EXTRA: what was reported stays after a loss of power.
// The journal of a writer that was killed is rolled back by whoever opens the file next, readers
// too, which is why they open it for writing where they may; they change nothing else.
#include "tune/db.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Raised when a table is another.
enum { LAYOUT_VERSION = 2, APPLICATION_ID = 0x61747463 }; // "attc"
enum { READ_PATIENCE_MS = 5000, WRITE_PATIENCE_MS = 30000, LONGEST_VALUE = 1 << 20 };

#define OF_A_SCHEDULE                                                                              \
    "  id INTEGER PRIMARY KEY,\n"                                                                  \
    "  version INTEGER NOT NULL,\n"                                                                \
    "  group_id TEXT NOT NULL,\n"                                                                  \
    "  extents TEXT NOT NULL,\n"                                                                   \
    "  target TEXT NOT NULL,\n"                                                                    \
    "  machine TEXT NOT NULL,\n"                                                                   \
    "  threads INTEGER NOT NULL,\n"                                                                \
    "  name TEXT NOT NULL,\n"                                                                      \
    "  schedule TEXT NOT NULL,\n"
static const struct {
    const char *name, *sql;
} tables[] = {
    {"schedules", "CREATE TABLE schedules (\n" OF_A_SCHEDULE "  seconds REAL NOT NULL,\n"
                  "  default_seconds REAL NOT NULL,\n"
                  "  confidence REAL NOT NULL,\n"
                  "  date TEXT NOT NULL,\n"
                  "  checksum INTEGER NOT NULL,\n"
                  "  UNIQUE (group_id, extents, target, machine, threads, version)\n"
                  ")"},
    {"measurements", "CREATE TABLE measurements (\n" OF_A_SCHEDULE "  counts TEXT NOT NULL,\n"
                     "  seconds REAL NOT NULL,\n"
                     "  date TEXT NOT NULL,\n"
                     "  checksum INTEGER NOT NULL,\n"
                     "  UNIQUE (group_id, extents, target, machine, threads, version, schedule)\n"
                     ")"},
    {"rates", "CREATE TABLE rates (\n"
              "  id INTEGER PRIMARY KEY,\n"
              "  version INTEGER NOT NULL,\n"
              "  target TEXT NOT NULL,\n"
              "  machine TEXT NOT NULL,\n"
              "  threads INTEGER NOT NULL,\n"
              "  flops REAL NOT NULL,\n"
              "  l2 REAL NOT NULL,\n"
              "  l3 REAL NOT NULL,\n"
              "  memory REAL NOT NULL,\n"
              "  date TEXT NOT NULL,\n"
              "  checksum INTEGER NOT NULL,\n"
              "  UNIQUE (target, machine, threads, version)\n"
              ")"},
};
enum { N_TABLES = sizeof tables / sizeof *tables };

char *tune_db_path(Arena *arena) {
    const char *own = getenv("ATTC_DB"), *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (own && *own)
        return arena_printf(arena, "%s", own);
    if (xdg && *xdg == '/')
        return arena_printf(arena, "%s/attc/schedules.db", xdg);
    return home && *home ? arena_printf(arena, "%s/.local/share/attc/schedules.db", home) : NULL;
}

// ---- what has failed ----------------------------------------------------------------------------

static const char *errno_reason(Arena *arena, int error) {
    char buffer[128];
    return arena_printf(arena, "%s", strerror_r(error, buffer, sizeof buffer));
}

static const char *readonly_reason(int status) {
    switch (status) {
    case SQLITE_READONLY_ROLLBACK:
    case SQLITE_READONLY_CANTLOCK:
    case SQLITE_READONLY_RECOVERY:
        return "was left in the middle of a change, and mending it wants leave to write";
    case SQLITE_READONLY_DBMOVED:
        return "was moved or removed while it was in use";
    case SQLITE_READONLY_DIRECTORY:
        return "cannot be written: its folder can only be read";
    default:
        return "cannot be written: it can only be read";
    }
}

static const char NO_DATABASE[] = "is no database of schedules, or its beginning is damaged";

static const char *reason_of(Arena *arena, sqlite3 *handle, int status) {
    const char *message = handle ? sqlite3_errmsg(handle) : sqlite3_errstr(status);
    int error = handle ? sqlite3_system_errno(handle) : 0;
    switch (status & 0xff) { // the kind of an extended code
    case SQLITE_NOTADB:
        return NO_DATABASE;
    case SQLITE_CORRUPT:
    case SQLITE_TOOBIG:
    case SQLITE_SCHEMA:
    case SQLITE_CONSTRAINT: // what is put has none of its own: two rows of one key were there
        return arena_printf(arena, "is damaged: %s", message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return "is in use by another process that does not come to an end";
    case SQLITE_FULL:
        return "cannot be written: the disk is full";
    case SQLITE_READONLY:
        return readonly_reason(status);
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        return arena_printf(arena, "cannot be used: %s%s%s", message, error ? ": " : "",
                            error ? errno_reason(arena, error) : "");
    default:
        return arena_printf(arena, "cannot be used: %s", message);
    }
}

// ---- statements ---------------------------------------------------------------------------------

bool db_failed(TuneDb *db, const char **why) {
    *why = reason_of(db->arena, db->handle, sqlite3_extended_errcode(db->handle));
    return false;
}

bool db_run(TuneDb *db, const char *sql, const char **why) {
    return sqlite3_exec(db->handle, sql, NULL, NULL, NULL) == SQLITE_OK || db_failed(db, why);
}

sqlite3_stmt *db_prepare(TuneDb *db, const char *sql, const char **why) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL) != SQLITE_OK)
        db_failed(db, why);
    return statement;
}

bool db_done(TuneDb *db, sqlite3_stmt *change, const char **why) {
    bool ok = sqlite3_step(change) == SQLITE_DONE || db_failed(db, why);
    sqlite3_reset(change);
    return ok;
}

bool db_row(TuneDb *db, sqlite3_stmt *select, const char **why) {
    int status = select ? sqlite3_step(select) : SQLITE_DONE;
    if (status == SQLITE_ROW)
        return true;
    if (status != SQLITE_DONE)
        db_failed(db, why);
    sqlite3_finalize(select);
    return false;
}

bool db_begin(TuneDb *db, const char **why) {
    *why = NULL;
    return db_run(db, "BEGIN IMMEDIATE", why);
}

bool db_end(TuneDb *db, bool ok, const char **why) {
    ok = ok && db_run(db, "COMMIT", why);
    if (!ok)
        sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    return ok;
}

// The one number that a query has.
static bool ask_number(TuneDb *db, const char *sql, const char *parameter, int64_t *out,
                       const char **why) {
    sqlite3_stmt *query = db_prepare(db, sql, why);
    if (!query)
        return false;
    if (parameter)
        sqlite3_bind_text(query, 1, parameter, -1, SQLITE_STATIC);
    int status = sqlite3_step(query);
    *out = sqlite3_column_int64(query, 0);
    if (status != SQLITE_ROW)
        db_failed(db, why);
    sqlite3_finalize(query);
    return status == SQLITE_ROW;
}

// ---- the file -----------------------------------------------------------------------------------

static bool make_folders(Arena *arena, const char *path, const char **why) {
    char *folder = arena_printf(arena, "%s", path);
    char *slash = strchr(folder + (*folder == '/'), '/');
    for (; slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(folder, 0777) && errno != EEXIST) {
            *why = arena_printf(arena, "cannot be made: no folder %s: %s", folder,
                                errno_reason(arena, errno));
            return false;
        }
        *slash = '/';
    }
    slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    if (access(slash ? folder : ".", W_OK | X_OK)) {
        *why = arena_printf(arena, "cannot be made: its folder cannot be written: %s",
                            errno_reason(arena, errno));
        return false;
    }
    return true;
}

// Is there something to open? Nothing but a regular file is.
static bool look_at(Arena *arena, const char *path, bool *is_there, const char **why) {
    struct stat about;
    bool missing = stat(path, &about) != 0;
    if (missing && errno != ENOENT)
        *why = arena_printf(arena, "cannot be read: %s", errno_reason(arena, errno));
    else if (!missing && !S_ISREG(about.st_mode))
        *why = S_ISDIR(about.st_mode) ? "is a folder, and no database of schedules"
                                      : "is no regular file";
    *is_there = !missing && about.st_size > 0;
    return !*why;
}

// What may come from anyone is not trusted to have a sound schema or sizes.
static bool configure(TuneDb *db, TuneDbMode mode, const char **why) {
    sqlite3_extended_result_codes(db->handle, 1);
    sqlite3_busy_timeout(db->handle, mode == TUNE_DB_READ ? READ_PATIENCE_MS : WRITE_PATIENCE_MS);
    sqlite3_limit(db->handle, SQLITE_LIMIT_LENGTH, LONGEST_VALUE);
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    return db_run(db,
                  mode == TUNE_DB_READ ? "PRAGMA trusted_schema = OFF; PRAGMA query_only = ON"
                                       : "PRAGMA trusted_schema = OFF; PRAGMA synchronous = EXTRA",
                  why);
}

static bool connect(TuneDb *db, const char *path, TuneDbMode mode, const char **why) {
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    flags |= mode == TUNE_DB_WRITE ? SQLITE_OPEN_CREATE : 0;
    // No name is one of those that mean something to SQLite, as ":memory:" does.
    const char *name = *path == '/' ? path : arena_printf(db->arena, "./%s", path);
    int status = sqlite3_open_v2(name, &db->handle, flags, NULL);
    if (status != SQLITE_OK) {
        *why = reason_of(db->arena, db->handle, status);
        return false;
    }
    if (mode == TUNE_DB_WRITE && sqlite3_db_readonly(db->handle, "main") == 1) {
        *why = readonly_reason(SQLITE_READONLY);
        return false;
    }
    return configure(db, mode, why);
}

// Another process may have done it meanwhile.
static bool make_layout(TuneDb *db, const char **why) {
    int64_t there;
    if (!db_begin(db, why))
        return false;
    bool ok = ask_number(db, "SELECT count(*) FROM sqlite_schema", NULL, &there, why);
    if (ok && !there) {
        const char *numbers =
            arena_printf(db->arena, "PRAGMA application_id = %d; PRAGMA user_version = %d",
                         APPLICATION_ID, LAYOUT_VERSION);
        for (int i = 0; i < N_TABLES && ok; i++)
            ok = db_run(db, tables[i].sql, why);
        ok = ok && db_run(db, numbers, why);
    }
    return db_end(db, ok, why);
}

static void check_tables(TuneDb *db, const char **why) {
    int64_t same = 1, others = 0;
    for (int i = 0; i < N_TABLES && same == 1 && !*why; i++) {
        const char *sql = arena_printf(db->arena,
                                       "SELECT count(*) FROM sqlite_schema WHERE name = '%s' "
                                       "AND type = 'table' AND sql = ?",
                                       tables[i].name);
        if (ask_number(db, sql, tables[i].sql, &same, why) && same != 1)
            *why =
                arena_printf(db->arena, "is damaged: its table of %s is another", tables[i].name);
    }
    if (!*why &&
        ask_number(db, "SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view')", NULL,
                   &others, why) &&
        others)
        *why = "is damaged: there is more in it than tables";
}

static bool is_ours(TuneDb *db, const char **why) {
    int64_t application, version;
    if (!ask_number(db, "PRAGMA application_id", NULL, &application, why) ||
        !ask_number(db, "PRAGMA user_version", NULL, &version, why))
        return false;
    if (application != APPLICATION_ID)
        *why = "is an SQLite database, but none of schedules";
    else if (version != LAYOUT_VERSION)
        *why = arena_printf(db->arena,
                            "is a database of schedules in form %lld; this attc reads "
                            "and writes form %d",
                            (long long)version, LAYOUT_VERSION);
    else
        check_tables(db, why);
    return !*why;
}

// A file of a few bytes has no pages to SQLite, but is none that it may write over. Asked again:
// another process may have put the first ones before the look at the file.
static bool count_pages(TuneDb *db, const char *path, int64_t *pages, const char **why) {
    bool is_there;
    if (!ask_number(db, "PRAGMA page_count", NULL, pages, why))
        return false;
    if (*pages)
        return true;
    if (!look_at(db->arena, path, &is_there, why))
        return false;
    if (is_there && !ask_number(db, "PRAGMA page_count", NULL, pages, why))
        return false;
    if (is_there && !*pages)
        *why = NO_DATABASE;
    return !*why;
}

// *empty: a file without pages, as it is before the first entry is put.
static bool prepare(TuneDb *db, const char *path, TuneDbMode mode, bool *empty, const char **why) {
    int64_t pages;
    if (!count_pages(db, path, &pages, why))
        return false;
    *empty = !pages;
    if (*empty && mode == TUNE_DB_READ)
        return true;
    if (*empty && !make_layout(db, why))
        return false;
    return is_ours(db, why);
}

TuneDb *tune_db_open(Arena *arena, const char *path, TuneDbMode mode, const char **why) {
    bool is_there, empty = false;
    *why = NULL;
    if (!look_at(arena, path, &is_there, why) || (mode == TUNE_DB_READ && !is_there))
        return NULL;
    if (mode == TUNE_DB_WRITE && !is_there && !make_folders(arena, path, why))
        return NULL;
    TuneDb *db = arena_new_of(arena, TuneDb);
    db->arena = arena;
    bool ok = connect(db, path, mode, why) && prepare(db, path, mode, &empty, why);
    if (ok && !(empty && mode == TUNE_DB_READ))
        return db;
    tune_db_close(db);
    return NULL;
}

void tune_db_close(TuneDb *db) {
    if (!db)
        return;
    sqlite3_finalize(db->find);
    sqlite3_close(db->handle);
}
