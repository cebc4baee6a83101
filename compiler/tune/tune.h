// SPDX-License-Identifier: Apache-2.0
// Level tune: schedules found by measurement, and the database that keeps them.
#ifndef ATTC_TUNE_H
#define ATTC_TUNE_H

#include "tile/tile.h"

// ---- entry.c: schedules that were measured ------------------------------------------------------
// What a schedule is for. All of it has to be equal for an entry to be used, and the version of
// schedules besides (SCHEDULE_VERSION).
typedef struct {
    const char *group;   // 16 hex digits: what is computed, whatever it is called; without extents
    const char *extents; // "512 64 12": of the group's dims; "~1024": of run time, planned for that
    const char *target;  // "x86-64-v4"
    const char *machine; // model of the processor
    int threads;         // that it is planned for
} TuneKey;
typedef struct {
    TuneKey key;
    const char *name;     // of the kernel that it was found for: for people alone
    const char *schedule; // of schedule_to_json
    double seconds;       // median, and that of the default schedule in the same run
    double default_seconds;
    double confidence; // that it is the faster of both, from 0 to 1
    const char *date;  // "2026-11-24T19:00:00Z"
} TuneEntry;
typedef VEC(TuneEntry) TuneEntries;

int tune_key_compare(const TuneKey *a, const TuneKey *b); // their order in lists and texts
double tune_gain(const TuneEntry *entry);                 // 0.25: a quarter more calls in a second
// What is wrong with it, "threads: expected ..."; NULL: nothing. Names and the like are texts of
// one line.
const char *tune_entry_problem(Arena *arena, const TuneEntry *entry);

// ---- db*.c: the entries in one SQLite file ------------------------------------------------------
// One thread at a time uses a TuneDb; any number of processes, and of TuneDbs, may use one file.
typedef struct TuneDb TuneDb;
// Where it is without --db: $ATTC_DB, else $XDG_DATA_HOME/attc/schedules.db, else
// ~/.local/share/attc/schedules.db. NULL: there is no home.
char *tune_db_path(Arena *arena);
typedef enum { TUNE_DB_READ, TUNE_DB_WRITE } TuneDbMode;
// To write, a file (and its folders) that is not there is made. To read, one that is not there, or
// has nothing in it yet, is NULL without *why. NULL with *why, the end of a sentence that begins
// with the path: it is no database of schedules, damaged, of another version, not readable.
TuneDb *tune_db_open(Arena *arena, const char *path, TuneDbMode mode, const char **why);
void tune_db_close(TuneDb *db); // may be NULL
// All of these return false with *why, the end of such a sentence, where the file cannot be read or
// written: then nothing of what was asked for is done. What was put is there whatever happens to
// the process afterwards.
//
// *found: there is such an entry; out lies in the arena. Where there is one that is damaged it is
// not found, and *why says what is wrong with it; otherwise *why is NULL.
bool tune_db_find(TuneDb *db, Arena *arena, const TuneKey *key, TuneEntry *out, bool *found,
                  const char **why);
// The entries take the places of others of their keys. One with a problem is not put.
bool tune_db_put(TuneDb *db, const TuneEntry *entry, const char **why);
bool tune_db_put_all(TuneDb *db, const TuneEntries *entries, const char **why);
// The same but for those whose place has one that is at least as fast. *kept: how many were put.
bool tune_db_merge(TuneDb *db, const TuneEntries *entries, uint32_t *kept, const char **why);
// Entries that are in the file and are never found.
typedef struct {
    uint32_t other_versions, damaged; // damaged: of this version
} TuneLeftOut;
// All that can be found, by key. left_out: NULL, or how many others there are.
bool tune_db_list(TuneDb *db, Arena *arena, TuneEntries *out, TuneLeftOut *left_out,
                  const char **why);
bool tune_db_remove(TuneDb *db, const TuneKey *key, const char **why);
typedef struct {
    double least_gain;  // those with less go
    const char *oldest; // those of earlier dates go; NULL: no date is too early
} TunePrune;
typedef struct {
    TuneLeftOut unusable; // removed, each for the first reason that there is
    uint32_t slow, old;
    uint32_t left; // that stay
} TunePruned;
// Removes what is never found as well.
bool tune_db_prune(TuneDb *db, const TunePrune *prune, TunePruned *out, const char **why);
// Everything that is wrong with the file and its entries, a line each; NULL: nothing.
char *tune_db_check(TuneDb *db, Arena *arena);

// ---- exchange.c: entries as text ----------------------------------------------------------------
// One JSON object a line, sorted by key, after a first line that says what the file is.
char *tune_entries_to_text(Arena *arena, const TuneEntries *entries);
// false with *why and *line: nothing of a text that has a mistake is taken.
bool tune_entries_from_text(Arena *arena, const char *text, size_t length, TuneEntries *out,
                            uint32_t *line, const char **why);
char *tune_entry_to_text(Arena *arena, const TuneEntry *entry); // such an object

#endif
