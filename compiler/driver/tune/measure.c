// SPDX-License-Identifier: Apache-2.0
// Times of candidates on a machine that others use too.
//
// A candidate and the reference, which has the default schedules, run in turns, and what counts is
// the ratio of two runs next to each other: what slows the machine down for a while slows both. A
// kernel of each site is tried at one time, so a run decides on all of them. Candidates that are
// far slower get two pairs of runs, the last ones of a search many, as far as there is time and
// more where nobody can tell, and between rounds a loop on registers tells whether the machine is
// itself: where it is much slower than usual, a round is measured again. At the end all winners
// together run in turns with the default: what does not hold up there is none.
#include <math.h>
#include <string.h>

#include "driver/tune/tuning.h"
#include "train/peak.h"

// All of these are chosen: a round of the search is to take little more than compiling the next
// candidate does, which is 0.1 to 0.3 s, and a last one is to be sure of 1% on a busy machine.
enum { PAIRS_LEAST = 3, AGAIN_MAX = 2 };
enum { PAIRS_LAST = 15 }; // what is usual in the last rounds
static const double SECONDS_OF_ROUND = 0.1, SECONDS_OF_LAST = 0.5; // for short programs
enum { RUNS_MOST = 100 };                                          // in a row, of the shortest
static const double HOPELESS = 1.2;                                // times of the best so far
static const double DISTURBED = 0.85;                              // of the usual peak

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
    double *ratios, *seconds, *of_default; // by site and pair
    double *ours, *theirs;                 // by site, of the last pair
    double *once;                          // by site, of one run
    uint32_t pairs, rounds;                // rounds: last ones that share the time left, at most
    uint32_t runs;                         // in a row, which count as one
} Contest;

static void note_pair(Contest *c, uint32_t site) {
    uint32_t at = site * ATT_PAIRS_MOST + c->pairs;
    c->seconds[at] = c->ours[site];
    c->of_default[at] = c->theirs[site];
    c->ratios[at] = c->theirs[site] > 0 ? c->ours[site] / c->theirs[site] : 1;
}

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
    bool first = c->pairs % 2;
    bool fine = (first || run_in_a_row(c, &tuner->reference, c->theirs)) &&
                run_in_a_row(c, c->candidate, c->ours) &&
                (!first || run_in_a_row(c, &tuner->reference, c->theirs));
    if (!fine)
        return false;
    note_default(tuner, c->theirs);
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
        note_pair(c, i);
    c->pairs++;
    return true;
}

// Has no trial of the round come near to the best?
static bool is_hopeless(const Contest *c) {
    for (uint32_t i = 0; i < c->tuner->spaces.at.count; i++) {
        const TuneSite *site = tune_search_site(c->tuner->search, i);
        double best = site->trials.at[site->best].ratio;
        for (uint32_t p = 0; p < c->pairs && c->round->trials[i] != TUNE_NO_TRIAL; p++)
            if (c->ratios[i * ATT_PAIRS_MOST + p] < HOPELESS * best)
                return false;
    }
    return !c->round->last;
}

static double budget_left(const Tuner *tuner) {
    double budget = tuner->budget;
    return budget ? fmax(budget - tuner_seconds(tuner), 0) : INFINITY;
}

// Usual and most pairs of a round.
typedef struct {
    uint32_t usual, most;
} PairsWanted;

static PairsWanted pairs_wanted(const Contest *c, double seconds_of_pair) {
    if (!c->round->last) {
        int64_t pairs =
            clamp((int64_t)(SECONDS_OF_ROUND / seconds_of_pair), PAIRS_LEAST, ATT_PAIRS_MOST);
        return (PairsWanted){(uint32_t)pairs, (uint32_t)pairs};
    }
    double least = (double)att_values_wanted(tune_search_last(c->tuner->search));
    double most = fmin(budget_left(c->tuner) / c->rounds / seconds_of_pair, ATT_PAIRS_MOST);
    double usual = fmax(SECONDS_OF_LAST / seconds_of_pair, PAIRS_LAST);
    return (PairsWanted){(uint32_t)fmax(fmin(usual, most), least), (uint32_t)fmax(most, least)};
}

// So that the most pairs of short programs fill a round's time.
static uint32_t runs_wanted(const Contest *c, double seconds_of_pair) {
    double seconds = c->round->last ? SECONDS_OF_LAST : SECONDS_OF_ROUND;
    return (uint32_t)clamp((int64_t)(seconds / ATT_PAIRS_MOST / seconds_of_pair), 1, RUNS_MOST);
}

// Does a trial of the last rounds look faster than the default, without being surely so?
static bool is_open(const Contest *c) {
    double sure = att_confidence_wanted(tune_search_last(c->tuner->search));
    for (uint32_t i = 0; i < c->tuner->spaces.at.count && c->round->last; i++) {
        const double *all = c->ratios + i * ATT_PAIRS_MOST;
        if (c->round->trials[i] == TUNE_NO_TRIAL ||
            att_confidence(all, c->pairs, ATT_WORTH) >= sure)
            continue;
        if (tune_median(all, c->pairs) <= ATT_WORTH)
            return true;
    }
    return false;
}

// What is still open after the usual number of pairs goes on to the most, and is looked at once
// more: to look after each pair, and to end when it happens to look sure, would make chance win. An
// interrupt leaves less time from then on.
static bool run_contest(Contest *c) {
    PairsWanted wanted = {1, 1};
    uint32_t heard = c->tuner->signals;
    c->pairs = 0;
    c->runs = 1;
    if (!run_in_a_row(c, c->candidate, c->ours)) // pages and caches are as later
        return false;
    for (uint32_t until = 1; c->pairs < until;) {
        if (c->round->last ? tuner_is_ended(c->tuner) : att_signals_came(&c->tuner->held))
            break;
        double start = pipeline_seconds();
        if (!run_pair(c))
            return false;
        if (c->pairs == 1 || c->tuner->signals > heard) {
            double seconds_of_pair = fmax(pipeline_seconds() - start, 1e-9);
            if (c->pairs == 1) {
                c->runs = runs_wanted(c, seconds_of_pair);
                seconds_of_pair *= c->runs;
            }
            heard = c->tuner->signals;
            wanted = pairs_wanted(c, seconds_of_pair);
            until = wanted.usual > c->pairs ? wanted.usual : c->pairs;
        }
        if (c->pairs == ATT_PAIRS_HOPELESS && is_hopeless(c))
            break;
        if (c->pairs == until && until == wanted.usual && is_open(c))
            until = wanted.most;
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
    Contest c = {.tuner = tuner, .candidate = candidate, .round = round};
    c.ratios = arena_array(arena, double, n *ATT_PAIRS_MOST + 1);
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
        c.pairs = 0;
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
        if (round->trials[i] != TUNE_NO_TRIAL)
            tune_search_note(tuner->search, i, round->trials[i], c.ratios + i * ATT_PAIRS_MOST,
                             c.pairs);
    tuner->tried += c.pairs > 0;
    note_point(tuner);
    arena_free(arena);
    return fine;
}

// ---- all winners together -----------------------------------------------------------------------

static double speed_of(const Contest *c, Arena *arena) {
    double *speeds = arena_array(arena, double, ATT_PAIRS_MOST);
    for (uint32_t p = 0; p < c->pairs; p++) {
        double ours = 0, theirs = 0;
        for (uint32_t i = 0; i < c->tuner->spaces.at.count; i++) {
            ours += c->seconds[i * ATT_PAIRS_MOST + p];
            theirs += c->of_default[i * ATT_PAIRS_MOST + p];
        }
        speeds[p] = theirs / ours;
    }
    return tune_median(speeds, c->pairs);
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
        result->of_default = tune_median(c->of_default + i * ATT_PAIRS_MOST, c->pairs) / launches;
        result->seconds =
            result->of_default * tune_median(c->ratios + i * ATT_PAIRS_MOST, c->pairs);
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
    if (winners && (!fine || tuner_is_ended(tuner)))
        drop_unconfirmed(tuner, fine);
    arena_free(arena);
    return fine;
}
