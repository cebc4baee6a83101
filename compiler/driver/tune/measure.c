// SPDX-License-Identifier: Apache-2.0
// Times of candidates on a machine that others use too.
//
// A candidate and the reference, which has the default schedules, run in turns, and what counts is
// the ratio of two runs next to each other: what slows the machine down for a while slows both. A
// kernel of each site is tried at one time, so a run decides on all of them. How many pairs of runs
// there are is the search's to say (tune/pairs.c); between rounds a loop on registers tells whether
// the machine is itself: where it is much slower than usual, a round is measured again. At the end
// all winners together run in turns with the default: what does not hold up there is none.
#include <math.h>
#include <string.h>

#include "driver/tune/tuning.h"
#include "train/peak.h"

enum { AGAIN_MAX = 2, RUNS_OF_DEFAULT = 3 };
static const double DISTURBED = 0.85; // of the usual peak

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
    for (int i = 0; i < RUNS_OF_DEFAULT && fine; i++) {
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
    Arena *arena;
    TunePairs pairs;
    double *seconds, *of_default; // by site and pair
    double *ours, *theirs;        // by site, of the last pair
    double *once;                 // by site, of one run
    uint32_t rounds;              // last ones that share the time left, at most
    uint32_t runs;                // in a row, which count as one
} Contest;

// What several runs in a row take on average.
static bool run_in_a_row(Contest *c, const Candidate *candidate, double *seconds) {
    uint32_t sites = c->tuner->spaces.at.count;
    memset(seconds, 0, sites * sizeof *seconds);
    for (uint32_t run = 0; run < c->runs; run++) {
        if (!candidate_run(c->tuner, candidate, c->once))
            return false;
        for (uint32_t i = 0; i < sites; i++)
            seconds[i] += c->once[i] / c->runs;
    }
    return true;
}

static bool run_pair(Contest *c) {
    Tuner *tuner = c->tuner;
    bool first = c->pairs.count % 2;
    bool fine = (first || run_in_a_row(c, &tuner->reference, c->theirs)) &&
                run_in_a_row(c, c->candidate, c->ours) &&
                (!first || run_in_a_row(c, &tuner->reference, c->theirs));
    if (!fine)
        return false;
    note_default(tuner, c->theirs);
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++) {
        uint32_t at = i * ATT_PAIRS_MOST + c->pairs.count;
        c->seconds[at] = c->ours[i];
        c->of_default[at] = c->theirs[i];
    }
    tune_pairs_add(&c->pairs, c->ours, c->theirs);
    return true;
}

static double budget_left(const Tuner *tuner) {
    double budget = tuner->budget;
    return budget ? fmax(budget - tuner_seconds(tuner), 0) : INFINITY;
}

// An interrupt leaves less time from then on.
static bool run_contest(Contest *c) {
    Tuner *tuner = c->tuner;
    uint32_t heard = tuner->signals;
    c->pairs = tune_pairs(tuner->search, c->round, tuner->spaces.at.count, c->arena);
    c->runs = 1;
    if (!run_in_a_row(c, c->candidate, c->ours)) // pages and caches are as later
        return false;
    while (tune_pairs_go_on(&c->pairs)) {
        if (c->round->last ? tuner_is_ended(tuner) : att_signals_came(&tuner->held))
            break;
        double start = pipeline_seconds();
        if (!run_pair(c))
            return false;
        if (c->pairs.count > 1 && tuner->signals == heard)
            continue;
        double seconds_of_pair = fmax(pipeline_seconds() - start, 1e-9);
        if (c->pairs.count == 1) {
            c->runs = tune_pairs_runs(&c->pairs, seconds_of_pair);
            seconds_of_pair *= c->runs;
        }
        heard = tuner->signals;
        tune_pairs_plan(&c->pairs, seconds_of_pair, budget_left(tuner) / c->rounds);
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
        if (fmin(before, after) >= DISTURBED * usual || budget_left(tuner) <= 0)
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

static Contest contest_open(Tuner *tuner, const Candidate *candidate, const TuneRound *round,
                            Arena *arena) {
    uint32_t n = tuner->spaces.at.count;
    Contest c = {.tuner = tuner, .candidate = candidate, .round = round, .arena = arena};
    c.seconds = arena_array(arena, double, n *ATT_PAIRS_MOST + 1);
    c.of_default = arena_array(arena, double, n *ATT_PAIRS_MOST + 1);
    c.ours = arena_array(arena, double, n + 1);
    c.theirs = arena_array(arena, double, n + 1);
    c.once = arena_array(arena, double, n + 1);
    return c;
}

bool tuner_measure(Tuner *tuner, const Candidate *candidate, const TuneRound *round) {
    Arena *arena = arena_new();
    Contest c = contest_open(tuner, candidate, round, arena);
    c.rounds = tune_search_last(tuner->search) + 1; // and all winners
    bool fine = candidate->made && run_steadily(&c);
    if (!fine)
        c.pairs.count = 0;
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
        if (round->trials[i] != TUNE_NO_TRIAL)
            tune_search_note(tuner->search, i, round->trials[i], tune_pairs_ratios(&c.pairs, i),
                             c.pairs.count);
    tuner->tried += c.pairs.count > 0;
    note_point(tuner);
    arena_free(arena);
    return fine;
}

// ---- all winners together -----------------------------------------------------------------------

static double speed_of(const Contest *c, Arena *arena) {
    double *speeds = arena_array(arena, double, ATT_PAIRS_MOST);
    for (uint32_t p = 0; p < c->pairs.count; p++) {
        double ours = 0, theirs = 0;
        for (uint32_t i = 0; i < c->tuner->spaces.at.count; i++) {
            ours += c->seconds[i * ATT_PAIRS_MOST + p];
            theirs += c->of_default[i * ATT_PAIRS_MOST + p];
        }
        speeds[p] = theirs / ours;
    }
    return tune_median(speeds, c->pairs.count);
}

// What counts is the ratio of runs next to each other. true: some of the winners are no faster
// here.
static bool take_times(const Contest *c) {
    bool dropped = false;
    for (uint32_t i = 0; i < c->tuner->spaces.at.count; i++) {
        TuneResult *result = &c->tuner->results[i];
        double launches = fmax(c->tuner->launches[i], 1);
        if (result->winner == TUNE_DEFAULT)
            continue;
        result->of_default =
            tune_median(c->of_default + i * ATT_PAIRS_MOST, c->pairs.count) / launches;
        result->seconds =
            result->of_default * tune_median(tune_pairs_ratios(&c->pairs, i), c->pairs.count);
        if (tune_is_worth(result->seconds, result->of_default))
            continue;
        result->refuted = result->winner;
        tuner_drop(c->tuner, i);
        dropped = true;
    }
    return dropped;
}

// As they were lowered, of what runs: of another size there may be one that takes its default.
static void take_schedules(const Contest *c) {
    Arena *arena = c->tuner->options->session->arena;
    for (uint32_t k = 0; k < c->tuner->calls.count; k++) {
        const TileProgram *program = c->candidate->programs[k];
        const int64_t *extents = tuner_extents(c->tuner, k, arena);
        for (uint32_t i = 0; i < program->launches.count; i++) {
            if (!launch_runs(&program->launches.at[i], extents))
                continue;
            const Kernel *kernel = program->kernels.at[program->launches.at[i].kernel];
            TuneResult *result = &c->tuner->results[c->candidate->sites[k][i]];
            result->schedule = schedule_copy(arena, &kernel->schedule);
        }
    }
}

static void take_choices(Tuner *tuner, const Schedule *const *picks) {
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
        tuner->results[i].schedule = *picks[i];
}

// One run of all winners; *dropped: some of them are none, and times are those with these.
static bool confirm(Tuner *tuner, const Schedule *const *picks, bool *dropped, Arena *arena) {
    TuneRound round = {arena_array(arena, uint32_t, tuner->spaces.at.count + 1), true};
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++) {
        uint32_t winner = tuner->results[i].winner;
        round.trials[i] = winner == TUNE_DEFAULT ? TUNE_NO_TRIAL : winner;
    }
    Candidate candidate;
    candidate_open(tuner, picks, &candidate);
    Contest c = contest_open(tuner, &candidate, &round, arena);
    c.rounds = 1;
    bool fine = candidate.made && run_steadily(&c);
    if (fine && !tuner_is_ended(tuner)) {
        *dropped = take_times(&c);
        if (tuner->of_programs)
            take_choices(tuner, picks);
        else
            take_schedules(&c);
        tuner->speed = *dropped ? 1 : speed_of(&c, arena);
    }
    session_join(tuner->options->session, candidate.session);
    candidate_free(&candidate);
    return fine;
}

static void drop_all(Tuner *tuner) {
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
        tuner_drop(tuner, i);
}

// What is not confirmed is told of as little as it is kept.
static void drop_unconfirmed(Tuner *tuner, bool measured) {
    if (!measured)
        problem(tuner->options, "a library with all schedules could not be measured; none is kept");
    else
        diag_remark(tuner->options->session->diags, (Span){0},
                    "interrupted before all schedules were compared with the default once more; "
                    "none is kept");
    drop_all(tuner);
}

// Does any trial look faster than the default?
static bool looks_faster(const Tuner *tuner) {
    bool any = false;
    for (uint32_t i = 0; i < tuner->spaces.at.count && !any; i++)
        any = tune_search_site(tuner->search, i)->best != TUNE_DEFAULT;
    return any;
}

bool tuner_confirm(Tuner *tuner) {
    Arena *arena = arena_new();
    bool fine = true, again = true;
    uint32_t winners = 0;
    tuner->speed = 1;
    while (again && fine) {
        const Schedule **picks = picks_of_winners(tuner, arena, &winners);
        again = false;
        fine = !winners || tuner_is_ended(tuner) || confirm(tuner, picks, &again, arena);
    }
    if (!fine || (tuner_is_ended(tuner) && (winners || looks_faster(tuner))))
        drop_unconfirmed(tuner, fine);
    arena_free(arena);
    return fine;
}
