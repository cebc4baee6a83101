// SPDX-License-Identifier: Apache-2.0
// What is known of schedules: the entries of the database, or those of a text that was exported
// from one. They are read once, before anything is lowered, and only looked at from then on, by
// several threads. So are the rates of machines that were fitted to measurements.
//
// The database's are used on the machine that they were measured on alone. A text that is named on
// the command line is meant for what is built, wherever that is done: its entries are used for
// other machines too, if it has none for this one.
#include "driver/driver.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct KnownSchedules {
    Arena *arena;
    Map *by_key; // -> TuneEntry
    const char *from;
    bool any_machine;
    uint32_t count;
    atomic_uint *met;     // how often an entry was for what is compiled,
    atomic_uint *refused; // and how often it did not fit that
};

// What find_known is asked with.
typedef struct {
    const KnownSchedules *known;
    const Target *target;
    const Machine *machine;
} KnownFor;

static uint64_t hash_key(const TuneKey *key, bool any_machine) {
    uint64_t hash = hash_text(hash_text(hash_text(0, key->group), key->extents), key->target);
    hash = hash_u64(hash, (uint64_t)key->threads);
    return any_machine ? hash : hash_text(hash, key->machine);
}

static void add_entry(KnownSchedules *known, const TuneEntry *entry, bool any_machine) {
    uint64_t hash = hash_key(&entry->key, any_machine);
    if (!map_get(known->by_key, hash))
        map_put(known->by_key, hash, arena_copy(known->arena, entry, sizeof *entry));
}

static KnownSchedules *known_new(Arena *arena, const TuneEntries *entries, const char *from) {
    KnownSchedules *known = arena_new_of(arena, KnownSchedules);
    known->arena = arena;
    known->by_key = map_new(arena);
    known->from = from;
    known->count = entries->count;
    known->met = arena_new_of(arena, atomic_uint);
    known->refused = arena_new_of(arena, atomic_uint);
    for (uint32_t i = 0; i < entries->count; i++)
        add_entry(known, &entries->at[i], false);
    return known;
}

TuneKey schedules_key(Arena *arena, const ScheduleSite *site, const Target *target,
                      const Machine *machine) {
    return (TuneKey){
        .group = arena_printf(arena, "%016llx", (unsigned long long)site->group),
        .extents = site->extents,
        .target = target->name,
        .machine = machine->name,
        .threads = machine->threads,
    };
}

static const Schedule *find_known(const void *of_for, const ScheduleSite *site, Arena *arena) {
    const KnownFor *f = of_for;
    const KnownSchedules *known = f->known;
    TuneKey key = schedules_key(arena, site, f->target, f->machine);
    const TuneEntry *entry = map_get(known->by_key, hash_key(&key, false));
    if (!entry && known->any_machine)
        entry = map_get(known->by_key, hash_key(&key, true));
    Schedule *schedule = arena_new_of(arena, Schedule);
    const char *why;
    if (!entry || !schedule_from_json(arena, entry->schedule, schedule, &why))
        return NULL;
    schedule->found = known->from;
    atomic_fetch_add(known->met, 1);
    return schedule;
}

static void note_refused(const void *of_for) {
    const KnownFor *f = of_for;
    atomic_fetch_add(f->known->refused, 1);
}

ScheduleSource schedules_source(const Options *options, const Target *target,
                                const Machine *machine) {
    KnownFor f = {options->known, target, machine};
    return (ScheduleSource){find_known, note_refused,
                            arena_copy(options->session->arena, &f, sizeof f)};
}

void schedules_tell(const Options *options) {
    const KnownSchedules *known = options->known;
    if (!options->schedules || !known)
        return;
    Diags *diags = options->session->diags;
    unsigned met = atomic_load(known->met), refused = atomic_load(known->refused);
    if (!met)
        diag_remark(
            diags, (Span){0},
            "none of the %u schedules of %s is for what is compiled here: a kernel or "
            "program, its extents, the target and the threads have to be the same, and a plan "
            "or memory limit that is given takes none",
            known->count, options->schedules);
    else if (refused)
        diag_remark(diags, (Span){0},
                    refused == 1 ? "%s: the schedule of %u kernel or program is none that it can "
                                   "have, and is left alone"
                                 : "%s: schedules of %u kernels or programs are none that these "
                                   "can have, and are left alone",
                    options->schedules, refused);
}

// ---- reading ------------------------------------------------------------------------------------

static bool read_text(Options *options) {
    TuneEntries entries = {0};
    if (!database_read_text(options, options->schedules, &entries))
        return false;
    KnownSchedules *known = known_new(options->session->arena, &entries, "file");
    known->any_machine = true;
    for (uint32_t i = 0; i < entries.count; i++)
        add_entry(known, &entries.at[i], true);
    options->known = known;
    return true;
}

static void tell(const Options *options, const char *path, const char *what) {
    diag_hint(diag_remark(options->session->diags, (Span){0}, "%s %s", path, what),
              "attc db check tells more; --no-db leaves the database alone");
}

static void tell_damaged(const Options *options, const char *path, uint32_t count,
                         const char *what) {
    if (count)
        tell(options, path,
             arena_printf(options->session->arena, "has %u damaged %s%s; %s left out", count, what,
                          count == 1 ? "" : "s", count == 1 ? "it is" : "they are"));
}

// Tune finds its schedules anew.
static void read_database(Options *options) {
    Arena *arena = options->session->arena;
    const char *path = options->db ? options->db : tune_db_path(arena), *why = NULL;
    TuneEntries entries = {0};
    TuneLeftOut left_out = {0};
    uint32_t rates_damaged = 0;
    TuneDb *db = path ? tune_db_open(arena, path, TUNE_DB_READ, &why) : NULL;
    bool fine =
        db && tune_db_list_rates(db, arena, &options->rates, &rates_damaged, &why) &&
        (options->kind == COMMAND_TUNE || tune_db_list(db, arena, &entries, &left_out, &why));
    if (!fine)
        options->rates.count = 0;   // fitted rates alone would predict others than either
    if (!db && !why && options->db) // one that is not named may be
        why = "is not there, or empty";
    if (!fine && why && options->kind != COMMAND_TUNE) // which ends with it, or makes one
        tell(options, path, arena_printf(arena, "%s; all schedules are predicted", why));
    tell_damaged(options, path, left_out.damaged, "schedule");
    tell_damaged(options, path, rates_damaged, "rate");
    if (fine && entries.count)
        options->known = known_new(arena, &entries, "database");
    tune_db_close(db);
}

bool schedules_read(Options *options) {
    if (options->known || options->no_db)
        return true;
    if (options->schedules)
        return read_text(options);
    read_database(options);
    return true;
}
