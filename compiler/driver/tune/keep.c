// SPDX-License-Identifier: Apache-2.0
// What attc tune keeps: winners go into the database, and what was measured to be none goes out of
// it.
#include <time.h>

#include "driver/tune/tuning.h"

bool tuner_open_db(Tuner *tuner) {
    tuner->db = database_open_whole(tuner->options, tuner->path);
    return tuner->db;
}

// ---- winners ------------------------------------------------------------------------------------

// Of the site, and of the other sizes that its kernel serves.
static uint32_t count_keys(const TuneSpace *space) {
    return 1 + space->others.count;
}

static TuneKey key_of(const Tuner *tuner, const TuneSpace *space, uint32_t number) {
    const ScheduleSite *site = number ? &space->others.at[number - 1] : &space->site;
    return schedules_key(tuner->options->session->arena, site, tuner->target, &tuner->machine);
}

static void add_winner(const Tuner *tuner, uint32_t site, TuneEntries *out) {
    Arena *arena = tuner->options->session->arena;
    const TuneSpace *space = &tuner->spaces.at.at[site];
    const TuneResult *result = &tuner->results[site];
    for (uint32_t i = 0; i < count_keys(space); i++) {
        TuneEntry entry = {
            .key = key_of(tuner, space, i),
            .name = space->name,
            .schedule = schedule_to_json(arena, &result->schedule),
            .seconds = result->seconds,
            .default_seconds = result->of_default,
            .confidence = result->confidence,
            .date = tune_date(arena, time(NULL)),
        };
        vec_push(arena, out, entry);
    }
}

static TuneEntries winners_of(const Tuner *tuner) {
    TuneEntries entries = {0};
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
        if (tuner->results[i].winner != TUNE_DEFAULT)
            add_winner(tuner, i, &entries);
    return entries;
}

// All of them or none.
static bool put_winners(Tuner *tuner, const TuneEntries *winners, const char **why) {
    if (!tune_db_put_all(tuner->db, winners, why))
        return false;
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
        tuner->results[i].kept = tuner->results[i].winner != TUNE_DEFAULT;
    return true;
}

// ---- losers -------------------------------------------------------------------------------------

// Of the last trials by their median, of others by each of several runs.
static bool is_slower(const TuneTrial *trial) {
    uint32_t count = trial->ratios.count;
    bool judged = trial->last && count > trial->judged_from;
    return judged ? trial->ratio > ATT_WORTH
                  : count > 1 && tune_quantile(trial->ratios.at, count, 0) > 1;
}

// Is it no faster, or was it none with all winners? What nobody can tell has not lost.
static bool has_lost(const Tuner *tuner, uint32_t site, const Schedule *schedule) {
    const TuneSite *searched = tune_search_site(tuner->search, site);
    for (uint32_t i = 1; i < searched->trials.count; i++) {
        const TuneTrial *trial = &searched->trials.at[i];
        if (schedule_same(&trial->schedule, schedule))
            return is_slower(trial) || tuner->results[site].refuted == i;
    }
    return false;
}

// What the database has for the key may be of another search than what was tried for it.
static bool remove_loser(Tuner *tuner, uint32_t site, const TuneKey *key, const char **why) {
    Arena *arena = tuner->options->session->arena;
    TuneEntry entry;
    Schedule schedule;
    const char *wrong;
    bool found;
    if (!tune_db_find(tuner->db, arena, key, &entry, &found, why))
        return false;
    return !found || !schedule_from_json(arena, entry.schedule, &schedule, &wrong) ||
           !has_lost(tuner, site, &schedule) || tune_db_remove(tuner->db, key, entry.schedule, why);
}

static bool remove_losers(Tuner *tuner, const char **why) {
    bool fine = true;
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++) {
        const TuneSpace *space = &tuner->spaces.at.at[i];
        uint32_t keys = tuner->results[i].winner == TUNE_DEFAULT ? count_keys(space) : 0;
        for (uint32_t k = 0; k < keys && fine; k++) {
            TuneKey key = key_of(tuner, space, k);
            fine = remove_loser(tuner, i, &key, why);
        }
    }
    return fine;
}

// A search may have taken half an hour, and the file be another's meanwhile.
static void tell_winners(Tuner *tuner, const TuneEntries *winners) {
    fputs(tune_entries_to_text(tuner->options->session->arena, winners), stderr);
    problem(tuner->options, "what was found is not kept, but written to standard error, as a text "
                            "for 'attc db import'");
}

bool tuner_keep(Tuner *tuner) {
    const char *why = NULL;
    TuneEntries winners = winners_of(tuner);
    bool kept = put_winners(tuner, &winners, &why), fine = kept && remove_losers(tuner, &why);
    if (!fine)
        database_problem(tuner->options, tuner->path, why);
    if (!kept && winners.count)
        tell_winners(tuner, &winners);
    return fine;
}
