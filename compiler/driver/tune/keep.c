// SPDX-License-Identifier: Apache-2.0
// What attc tune keeps: winners go into the database, and what was found to be none goes out of it.
#include <time.h>

#include "driver/tune/tuning.h"

bool tuner_open_db(Tuner *tuner) {
    tuner->path = database_path(tuner->options);
    tuner->db = tuner->path ? database_open(tuner->options, tuner->path, TUNE_DB_WRITE) : NULL;
    return tuner->db;
}

// ---- sites --------------------------------------------------------------------------------------

static bool put(Tuner *tuner, uint32_t site) {
    Arena *arena = tuner->options->session->arena;
    const TuneSpace *space = &tuner->spaces.at.at[site];
    TuneResult *result = &tuner->results[site];
    TuneEntry entry = {
        .key = schedules_key(arena, &space->site, tuner->target, &tuner->machine),
        .name = space->name,
        .schedule = schedule_to_json(arena, &result->schedule),
        .seconds = result->seconds,
        .default_seconds = result->of_default,
        .confidence = result->confidence,
        .date = tune_date(arena, time(NULL)),
    };
    const char *why = NULL;
    result->kept = tune_db_put(tuner->db, &entry, &why);
    if (!result->kept)
        database_problem(tuner->options, tuner->path, why);
    return result->kept;
}

// Was a schedule that is known among the last trials, and lost?
static bool lost_known(const Tuner *tuner, uint32_t site) {
    const TuneSite *searched = tune_search_site(tuner->search, site);
    for (uint32_t i = 1; i < searched->trials.count; i++) {
        const TuneTrial *trial = &searched->trials.at[i];
        if (trial->known && trial->last && trial->ratios.count > trial->judged_from)
            return true;
    }
    return false;
}

static bool keep(Tuner *tuner, uint32_t site) {
    Arena *arena = tuner->options->session->arena;
    const char *why = NULL;
    if (tuner->results[site].winner != TUNE_DEFAULT)
        return put(tuner, site);
    TuneKey key =
        schedules_key(arena, &tuner->spaces.at.at[site].site, tuner->target, &tuner->machine);
    if (!lost_known(tuner, site) || tune_db_remove(tuner->db, &key, &why))
        return true;
    database_problem(tuner->options, tuner->path, why);
    return false;
}

bool tuner_keep(Tuner *tuner) {
    bool fine = true;
    for (uint32_t i = 0; i < tuner->spaces.at.count && fine; i++)
        fine = keep(tuner, i);
    return fine;
}
