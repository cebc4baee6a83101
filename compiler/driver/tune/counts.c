// SPDX-License-Identifier: Apache-2.0
// What attc tune notes for the cost model: of each schedule that was tried what the model counts,
// beside the time that it took.
//
// Trials with other blocks than the default ones, or another prefetch, are left out: they are far
// more than the others, and most differ from them in arithmetic alone. So are kernels that were not
// searched, which take little time: what they show is noise.
#include <math.h>
#include <stdlib.h>

#include "driver/tune/tuning.h"

// ---- counting -----------------------------------------------------------------------------------

// It has the default blocks, and its counts are not there yet.
static bool is_uncounted(const Tuner *tuner, uint32_t site, uint32_t trial) {
    for (uint32_t i = 0; i < tuner->counted[site].count; i++)
        if (tuner->counted[site].at[i].trial == trial)
            return false;
    return tune_search_site(tuner->search, site)->trials.at[trial].default_blocks;
}

static void count_launch(Tuner *tuner, const TileProgram *program, const Launch *launch,
                         const int64_t *extents, uint32_t site, uint32_t trial) {
    Arena *scratch = arena_new();
    const Kernel *kernel = program->kernels.at[launch->kernel];
    const int64_t *own = launch_extents(launch, kernel, extents, scratch);
    TileCost cost = tile_cost(scratch, kernel, own, &tuner->machine);
    Arena *arena = tuner->options->session->arena;
    CountedTrial counted = {trial, tune_counts_to_text(arena, &cost)};
    vec_push(arena, &tuner->counted[site], counted);
    arena_free(scratch);
}

void tuner_count(Tuner *tuner, const Candidate *candidate, const TuneRound *round) {
    Arena *scratch = arena_new();
    for (uint32_t c = 0; c < tuner->calls.count && !tuner->of_programs; c++) {
        const TileProgram *program = candidate->programs[c];
        const int64_t *extents = tuner_extents(tuner, c, scratch);
        for (uint32_t i = 0; i < program->launches.count; i++) {
            const Launch *launch = &program->launches.at[i];
            uint32_t site = candidate->sites[c][i];
            uint32_t trial = round ? round->trials[site] : TUNE_DEFAULT;
            if (trial != TUNE_NO_TRIAL && launch_runs(launch, extents) &&
                is_uncounted(tuner, site, trial))
                count_launch(tuner, program, launch, extents, site, trial);
        }
    }
    arena_free(scratch);
}

// ---- keeping ------------------------------------------------------------------------------------

// What others do at the same time makes runs longer, never shorter; ratios do not tell of it.
static double least_of_default(const Tuner *tuner, uint32_t site) {
    double least = INFINITY;
    for (uint32_t i = 0; i < tuner->of_default[site].count; i++)
        least = fmin(least, tuner->of_default[site].at[i]);
    return least;
}

static void add_trial(const Tuner *tuner, uint32_t at, const CountedTrial *counted,
                      TuneMeasurements *out) {
    Arena *arena = tuner->options->session->arena;
    const TuneSite *site = tune_search_site(tuner->search, at);
    const TuneTrial *trial = &site->trials.at[counted->trial];
    TuneMeasurement measurement = {
        .key = schedules_key(arena, &site->space->site, tuner->target, &tuner->machine),
        .name = site->space->name,
        .schedule = schedule_to_json(arena, &trial->schedule),
        .counts = counted->counts,
        .seconds = tune_trial_median(trial) * least_of_default(tuner, at) / tuner->launches[at],
        .date = tune_date(arena, time(NULL)),
    };
    vec_push(arena, out, measurement);
}

typedef struct {
    const CountedTrial *counted;
    double predicted;
} Sample;

static int compare_samples(const void *a, const void *b) {
    const Sample *x = a, *y = b;
    if (x->predicted != y->predicted)
        return x->predicted < y->predicted ? -1 : 1;
    return (x->counted->trial > y->counted->trial) - (x->counted->trial < y->counted->trial);
}

// All of a site but for the default, in the order of their predicted times.
static Sample *list_samples(const Tuner *tuner, uint32_t at, uint32_t *count, Arena *arena) {
    const TuneSite *site = tune_search_site(tuner->search, at);
    Sample *samples = arena_array(arena, Sample, tuner->counted[at].count + 1);
    *count = 0;
    for (uint32_t i = 0; i < tuner->counted[at].count; i++) {
        const CountedTrial *counted = &tuner->counted[at].at[i];
        const TuneTrial *trial = &site->trials.at[counted->trial];
        if (counted->trial != TUNE_DEFAULT && isfinite(tune_trial_median(trial)))
            samples[(*count)++] = (Sample){counted, trial->schedule.seconds};
    }
    qsort(samples, *count, sizeof *samples, compare_samples);
    return samples;
}

// The default, and of the others as many as stay, from the first to the last at even distances: the
// database would keep the last ones alone.
static void add_site(const Tuner *tuner, uint32_t at, TuneMeasurements *out) {
    Arena *scratch = arena_new();
    uint32_t count;
    const Sample *samples = list_samples(tuner, at, &count, scratch);
    uint32_t kept = count < TUNE_MEASURED_MOST ? count : TUNE_MEASURED_MOST - 1;
    for (uint32_t i = 0; i < tuner->counted[at].count; i++)
        if (tuner->counted[at].at[i].trial == TUNE_DEFAULT)
            add_trial(tuner, at, &tuner->counted[at].at[i], out);
    for (uint32_t i = 0; i < kept; i++)
        add_trial(tuner, at, samples[kept == count ? i : i * (count - 1) / (kept - 1)].counted,
                  out);
    arena_free(scratch);
}

// Of a site that was not searched the default's time alone tells nothing.
static bool is_worth_keeping(const Tuner *tuner, uint32_t site) {
    double of_default = least_of_default(tuner, site);
    return tune_site_is_measured(tune_search_site(tuner->search, site)) && of_default > 0 &&
           isfinite(of_default);
}

bool tuner_keep_measurements(Tuner *tuner) {
    TuneMeasurements all = {0};
    const char *why = NULL;
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
        if (is_worth_keeping(tuner, i))
            add_site(tuner, i, &all);
    bool fine = tune_db_put_measurements(tuner->db, &all, &why);
    if (!fine)
        database_problem(tuner->options, tuner->path, why);
    return fine;
}
