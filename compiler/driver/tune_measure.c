// SPDX-License-Identifier: Apache-2.0
// Times of candidates on a machine that others use too.
//
// A candidate and the reference, which has the default schedules, run in turns, and what counts is
// the ratio of two runs next to each other: what slows the machine down for a while slows both. A
// kernel of each site is tried at one time, so a run decides on all of them. Candidates that are
// far slower get two pairs of runs, the last ones of a search many, and between rounds a loop on
// registers tells whether the machine is itself: where it is much slower than usual, a round is
// measured again.
#include <math.h>

#include "driver/tuning.h"
#include "train/loop/peak.h"

enum { PAIRS_MAX = 41, PAIRS_LEAST = 3, PAIRS_FINAL = 11, PAIRS_HOPELESS = 2, AGAIN_MAX = 2 };
static const double SECONDS_OF_ROUND = 0.1, SECONDS_OF_FINAL = 0.5; // for short programs
static const double HOPELESS = 1.2;                                 // times of the best so far
static const double DISTURBED = 0.85;                               // of the usual peak

double tuner_seconds(const Tuner *tuner) {
    return pipeline_seconds() - tuner->begun;
}

static void note_default(Tuner *tuner, const double *seconds) {
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
        vec_push(tuner->options->session->arena, &tuner->of_default[i], seconds[i]);
}

static double measure_peak(Tuner *tuner) {
    double flops = att_peak_flops(tuner->calls.tensors.context, tuner->machine.vector_bytes);
    vec_push(tuner->options->session->arena, &tuner->peaks, flops);
    return flops;
}

bool tuner_measure_default(Tuner *tuner) {
    Arena *arena = arena_new();
    double *seconds = arena_array(arena, double, tuner->spaces.at.count + 1);
    bool fine = candidate_run(tuner, &tuner->reference, seconds);
    for (int i = 0; i < PAIRS_LEAST && fine; i++) {
        measure_peak(tuner);
        fine = candidate_run(tuner, &tuner->reference, seconds);
        if (fine)
            note_default(tuner, seconds);
    }
    arena_free(arena);
    return fine;
}

// ---- one round ----------------------------------------------------------------------------------

typedef struct {
    Tuner *tuner;
    const Candidate *candidate;
    const TuneRound *round;
    double *ratios; // by site and pair
    double *ours, *theirs;
    uint32_t pairs;
} Contest;

static bool run_pair(Contest *c) {
    Tuner *tuner = c->tuner;
    bool first = c->pairs % 2;
    bool fine = (first || candidate_run(tuner, &tuner->reference, c->theirs)) &&
                candidate_run(tuner, c->candidate, c->ours) &&
                (!first || candidate_run(tuner, &tuner->reference, c->theirs));
    if (!fine)
        return false;
    note_default(tuner, c->theirs);
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
        c->ratios[i * PAIRS_MAX + c->pairs] = c->theirs[i] > 0 ? c->ours[i] / c->theirs[i] : NAN;
    c->pairs++;
    return true;
}

// Has no trial of the round come near to the best?
static bool is_hopeless(const Contest *c) {
    for (uint32_t i = 0; i < c->tuner->spaces.at.count; i++) {
        const TuneSite *site = tune_search_site(c->tuner->search, i);
        double best = site->trials.at[site->best].ratio;
        for (uint32_t p = 0; p < c->pairs && c->round->trials[i] != TUNE_NO_TRIAL; p++)
            if (c->ratios[i * PAIRS_MAX + p] < HOPELESS * best)
                return false;
    }
    return true;
}

static uint32_t pairs_wanted(const Contest *c, double seconds_of_pair) {
    bool final = c->round->final;
    double wanted = (final ? SECONDS_OF_FINAL : SECONDS_OF_ROUND) / seconds_of_pair;
    return (uint32_t)fmin(fmax(wanted, final ? PAIRS_FINAL : PAIRS_LEAST), PAIRS_MAX);
}

static bool run_contest(Contest *c) {
    c->pairs = 0;
    if (!candidate_run(c->tuner, c->candidate, c->ours)) // pages and caches are as later
        return false;
    for (uint32_t wanted = 1; c->pairs < wanted && !att_signals_came(&c->tuner->held);) {
        double start = pipeline_seconds();
        if (!run_pair(c))
            return false;
        if (c->pairs == 1)
            wanted = pairs_wanted(c, pipeline_seconds() - start);
        if (c->pairs == PAIRS_HOPELESS && is_hopeless(c))
            break;
    }
    return true;
}

// A round in which the machine is disturbed is measured again.
static bool run_steadily(Contest *c) {
    Tuner *tuner = c->tuner;
    for (int again = 0; again <= AGAIN_MAX; again++) {
        double before = measure_peak(tuner);
        if (!run_contest(c))
            return false;
        double after = measure_peak(tuner),
               usual = tune_median(tuner->peaks.at, tuner->peaks.count);
        if (fmin(before, after) > DISTURBED * usual)
            break;
    }
    return true;
}

static void note_point(Tuner *tuner) {
    double of_default = 0, best = 0;
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++) {
        const TuneSite *site = tune_search_site(tuner->search, i);
        double seconds = tune_median(tuner->of_default[i].at, tuner->of_default[i].count);
        of_default += seconds;
        best += seconds * fmin(site->trials.at[site->best].ratio, 1);
    }
    TunePoint point = {tuner_seconds(tuner), of_default / best};
    vec_push(tuner->options->session->arena, &tuner->points, point);
}

void tuner_measure(Tuner *tuner, const Candidate *candidate, const TuneRound *round) {
    Arena *arena = arena_new();
    uint32_t n = tuner->spaces.at.count;
    Contest c = {.tuner = tuner, .candidate = candidate, .round = round};
    c.ratios = arena_array(arena, double, n *PAIRS_MAX + 1);
    c.ours = arena_array(arena, double, n + 1);
    c.theirs = arena_array(arena, double, n + 1);
    if (candidate->made && !run_steadily(&c))
        c.pairs = 0;
    for (uint32_t i = 0; i < n; i++)
        if (round->trials[i] != TUNE_NO_TRIAL)
            tune_search_note(tuner->search, i, round->trials[i], c.ratios + i * PAIRS_MAX, c.pairs);
    tuner->tried++;
    note_point(tuner);
    arena_free(arena);
}
