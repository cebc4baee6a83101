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

typedef struct {
    TuneEntry entry;
    atomic_bool refused; // it did not fit what it is for
} KnownSchedule;

struct KnownSchedules {
    VEC(KnownSchedule *) all;
    Map *by_key;      // -> KnownSchedule
    const char *from; // "database"
    const char *path;
    bool any_machine;
    atomic_uint *met; // how often one was for what is compiled
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

static void add_key(KnownSchedules *known, KnownSchedule *one, bool any_machine) {
    uint64_t hash = hash_key(&one->entry.key, any_machine);
    if (!map_get(known->by_key, hash))
        map_put(known->by_key, hash, one);
}

static KnownSchedules *known_new(Arena *arena, const TuneEntries *entries, const char *from,
                                 const char *path) {
    KnownSchedules *known = arena_new_of(arena, KnownSchedules);
    known->by_key = map_new(arena);
    known->from = from;
    known->path = path;
    known->met = arena_new_of(arena, atomic_uint);
    for (uint32_t i = 0; i < entries->count; i++) {
        KnownSchedule *one = arena_new_of(arena, KnownSchedule);
        one->entry = entries->at[i];
        vec_push(arena, &known->all, one);
        add_key(known, one, false);
    }
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

// NULL: there is none.
static KnownSchedule *known_for(const KnownFor *f, const ScheduleSite *site, Arena *arena) {
    TuneKey key = schedules_key(arena, site, f->target, f->machine);
    KnownSchedule *one = map_get(f->known->by_key, hash_key(&key, false));
    return one || !f->known->any_machine ? one : map_get(f->known->by_key, hash_key(&key, true));
}

static const Schedule *find_known(const void *of_for, const ScheduleSite *site, Arena *arena) {
    const KnownFor *f = of_for;
    const KnownSchedule *one = known_for(f, site, arena);
    Schedule *schedule = arena_new_of(arena, Schedule);
    const char *why;
    if (!one || !schedule_from_json(arena, one->entry.schedule, schedule, &why))
        return NULL;
    schedule->found = f->known->from;
    atomic_fetch_add(f->known->met, 1);
    return schedule;
}

static void note_refused(const void *of_for, const ScheduleSite *site) {
    Arena *arena = arena_new();
    KnownSchedule *one = known_for(of_for, site, arena);
    if (one)
        atomic_store(&one->refused, true);
    arena_free(arena);
}

ScheduleSource schedules_source(const Options *options, const Target *target,
                                const Machine *machine) {
    KnownFor f = {options->known, target, machine};
    return (ScheduleSource){find_known, note_refused,
                            arena_copy(options->session->arena, &f, sizeof f)};
}

// By name, as far as there are few.
static void tell_refused(const KnownSchedules *known, Diags *diags) {
    enum { SHOWN = 8 };
    uint32_t refused = 0;
    for (uint32_t i = 0; i < known->all.count; i++) {
        const TuneEntry *entry = &known->all.at[i]->entry;
        if (!atomic_load(&known->all.at[i]->refused) || refused++ >= SHOWN)
            continue;
        diag_remark(diags, (Span){0},
                    "%s: the schedule of %s (group %s, extents %s) is none that it can have, and "
                    "is left alone",
                    known->path, entry->name, entry->key.group, entry->key.extents);
    }
    if (refused > SHOWN)
        diag_remark(diags, (Span){0}, "%s: so are %u more", known->path, refused - SHOWN);
}

void schedules_tell(const Options *options) {
    const KnownSchedules *known = options->known;
    Diags *diags = options->session->diags;
    if (!known)
        return;
    if (options->schedules && !atomic_load(known->met))
        diag_remark(
            diags, (Span){0},
            "none of the %u schedules of %s is for what is compiled here: a kernel or "
            "program, its extents, the target and the threads have to be the same, and a plan "
            "or memory limit that is given takes none",
            known->all.count, options->schedules);
    tell_refused(known, diags);
}

// ---- reading ------------------------------------------------------------------------------------

static bool read_text(Options *options) {
    TuneEntries entries = {0};
    if (!database_read_text(options, options->schedules, &entries))
        return false;
    KnownSchedules *known =
        known_new(options->session->arena, &entries, "file", options->schedules);
    known->any_machine = true;
    for (uint32_t i = 0; i < known->all.count; i++)
        add_key(known, known->all.at[i], true);
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
        options->known = known_new(arena, &entries, "database", path);
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
