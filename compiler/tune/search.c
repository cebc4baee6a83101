// SPDX-License-Identifier: Apache-2.0
// Which schedules to measure next. All sites of a program are searched at one time: a round tries
// one schedule of each.
//
// A site goes from phase to phase, and a phase asks for trials:
//
//     numbers   those that are predicted to be the fastest, the fastest first
//     again     the best quarter once more: a round of successive halving (Karnin, Koren, Somekh,
//               "Almost optimal exploration in multi-armed bandits", 2013); `last` is the second
//     blocks    of the best, other blocks of one place at a time and prefetch, then the good ones
//               together; of programs other decisions
//     moves     neighbours of the best that were not tried, some drawn at random, as long as they
//               find something
//     last      the best few against the default, with many pairs of runs
//
// How much each phase asks for is the effort. Which trial is asked for depends on the space, the
// seed and the measurements alone.
#include <math.h>
#include <stdlib.h>

#include "tune/tune.h"

typedef enum {
    PHASE_NUMBERS,
    PHASE_AGAIN,
    PHASE_BLOCKS,
    PHASE_TOGETHER,
    PHASE_MOVES,
    PHASE_LAST,
    PHASE_DONE
} Phase;

typedef struct {
    uint32_t numbers;    // trials at most
    double near;         // predicted times up to so many times the best
    uint32_t blocks;     // trials for each of the best numbers
    uint32_t block_runs; // of how many numbers blocks are tried
    uint32_t moves;      // trials of a generation
    uint32_t generations;
} Effort;
// Chosen: quick is for seconds a kernel, normal for a minute or two a layer.
static const Effort efforts[N_EFFORTS] = {
    [EFFORT_QUICK] = {8, 1.3, 6, 1, 0, 0},
    [EFFORT_NORMAL] = {32, 2, 16, 1, 6, 3},
    [EFFORT_EXHAUSTIVE] = {UINT32_MAX, INFINITY, UINT32_MAX, 3, 0, 0},
};
enum { AGAIN = 8 };      // of the best, at most
enum { DRAWN_FROM = 3 }; // times the trials of a generation: the nearest that these are drawn from

typedef VEC(uint32_t) TrialNumbers;
typedef struct {
    TuneSite shown; // to others
    Phase phase;
    TrialNumbers queue; // of this phase
    uint32_t asked;     // of the queue
    uint32_t waits;     // trials that are asked for and not noted
    uint32_t base;      // trial whose blocks are tried
    TrialNumbers bases; // of all runs
    uint32_t generations;
    double before; // the best ratio when the generation began
} Site;

struct TuneSearch {
    Arena *arena;
    const TuneSpaces *spaces;
    TuneSearchOptions options;
    Effort effort;
    Site *sites;
    uint64_t draws;
    bool hurry;
};

// ---- trials -------------------------------------------------------------------------------------

static uint32_t add_trial(TuneSearch *s, Site *site, const Schedule *schedule,
                          bool default_blocks) {
    TuneTrial trial = {.schedule = *schedule, .ratio = INFINITY, .default_blocks = default_blocks};
    vec_push(s->arena, &site->shown.trials, trial);
    return site->shown.trials.count - 1;
}

// Its number among the trials; their count: it is none yet.
static uint32_t find_trial(const Site *site, const Schedule *schedule) {
    uint32_t i = 0;
    while (i < site->shown.trials.count &&
           !schedule_same(&site->shown.trials.at[i].schedule, schedule))
        i++;
    return i;
}

static void ask(TuneSearch *s, Site *site, uint32_t trial) {
    vec_push(s->arena, &site->queue, trial);
}

static bool ask_new(TuneSearch *s, Site *site, const Schedule *schedule, bool default_blocks) {
    if (find_trial(site, schedule) < site->shown.trials.count)
        return false;
    ask(s, site, add_trial(s, site, schedule, default_blocks));
    return true;
}

typedef struct {
    double key;
    uint32_t number;
} Ranked;

static int compare_ranked(const void *a, const void *b) {
    const Ranked *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

// Those that are measured but for the default, the fastest first.
static Ranked *ranked_trials(const TuneSearch *s, const Site *site, uint32_t *count) {
    Ranked *all = arena_array(s->arena, Ranked, site->shown.trials.count + 1);
    *count = 0;
    for (uint32_t i = 1; i < site->shown.trials.count; i++)
        if (isfinite(site->shown.trials.at[i].ratio))
            all[(*count)++] = (Ranked){site->shown.trials.at[i].ratio, i};
    qsort(all, *count, sizeof *all, compare_ranked);
    return all;
}

static void ask_best(TuneSearch *s, Site *site, uint32_t most) {
    uint32_t count;
    Ranked *all = ranked_trials(s, site, &count);
    for (uint32_t i = 0; i < count && i < most; i++)
        ask(s, site, all[i].number);
}

static const TuneTrial *best_trial(const Site *site) {
    return &site->shown.trials.at[site->shown.best];
}

// ---- the phases: each asks for its trials, or for none ------------------------------------------

static void begin_numbers(TuneSearch *s, Site *site) {
    const ScheduleList *list = &site->shown.space->numbers;
    Ranked *all = arena_array(s->arena, Ranked, list->count);
    for (uint32_t i = 0; i < list->count; i++)
        all[i] = (Ranked){list->at[i].seconds, i};
    qsort(all, list->count, sizeof *all, compare_ranked);
    for (uint32_t i = 0; i < list->count && i < s->effort.numbers; i++)
        if (all[i].key <= s->effort.near * all[0].key)
            ask_new(s, site, &list->at[all[i].number], true);
}

static void begin_again(TuneSearch *s, Site *site) {
    uint32_t quarter = (site->shown.trials.count + 3) / 4;
    ask_best(s, site, quarter < AGAIN ? quarter : AGAIN);
}

static bool was_base(const Site *site, uint32_t trial) {
    uint32_t i = 0;
    while (i < site->bases.count && site->bases.at[i] != trial)
        i++;
    return i < site->bases.count;
}

// The best of all; after that the best with the default blocks, the default among them, whose
// blocks were not tried yet.
static uint32_t next_base(const Site *site) {
    uint32_t best = site->shown.best;
    if (!site->bases.count)
        return best;
    double least = INFINITY;
    for (uint32_t i = 0; i < site->shown.trials.count; i++) {
        const TuneTrial *trial = &site->shown.trials.at[i];
        if (trial->default_blocks && trial->ratio < least && !was_base(site, i)) {
            least = trial->ratio;
            best = i;
        }
    }
    return best;
}

// Of the best numbers whose blocks were not tried yet.
static void begin_blocks(TuneSearch *s, Site *site) {
    const Schedule **picks = arena_array(s->arena, const Schedule *, s->spaces->at.count + 1);
    ScheduleList *lists = arena_array(s->arena, ScheduleList, s->spaces->at.count + 1);
    uint32_t number = (uint32_t)(site - s->sites);
    site->base = next_base(site);
    vec_push(s->arena, &site->bases, site->base);
    if (s->options.only_faster && site->shown.trials.at[site->base].ratio > ATT_WORTH)
        return;
    picks[number] = &site->shown.trials.at[site->base].schedule;
    s->options.blocks(s->options.self, picks, lists, s->arena);
    Ranked *near = arena_array(s->arena, Ranked, lists[number].count + 1);
    for (uint32_t i = 0; i < lists[number].count; i++)
        near[i] = (Ranked){lists[number].at[i].seconds, i};
    qsort(near, lists[number].count, sizeof *near, compare_ranked);
    for (uint32_t i = 0; i < lists[number].count && i < s->effort.blocks; i++)
        ask_new(s, site, &lists[number].at[near[i].number], false);
}

// The place in which a trial differs from the base, prefetch behind the last; NO_PLACE: in none
// or several.
enum { NO_PLACE = UINT32_MAX };
static uint32_t place_of_change(const Schedule *base, const Schedule *other) {
    uint32_t changed = 0, place = NO_PLACE, places = base->blocks.count;
    if (!schedule_same_numbers(base, other) || other->blocks.count != places)
        return place;
    for (uint32_t i = 0; i <= places; i++)
        if (i < places ? !schedule_same_blocks(&base->blocks.at[i], &other->blocks.at[i])
                       : base->prefetch != other->prefetch) {
            changed++;
            place = i;
        }
    return changed == 1 ? place : NO_PLACE;
}

// Of each place the best blocks, where they are faster.
static void begin_together(TuneSearch *s, Site *site) {
    const TuneTrial *base = &site->shown.trials.at[site->base];
    Schedule together = schedule_copy(s->arena, &base->schedule);
    together.seconds = 0;
    uint32_t places = together.blocks.count;
    double *best = arena_array(s->arena, double, places + 1);
    for (uint32_t p = 0; p <= places; p++)
        best[p] = base->ratio;
    for (uint32_t i = 0; i < site->shown.trials.count; i++) {
        const TuneTrial *trial = &site->shown.trials.at[i];
        uint32_t place = place_of_change(&base->schedule, &trial->schedule);
        if (place == NO_PLACE || trial->ratio >= best[place])
            continue;
        best[place] = trial->ratio;
        if (place < places)
            together.blocks.at[place] = trial->schedule.blocks.at[place];
        else
            together.prefetch = trial->schedule.prefetch;
    }
    ask_new(s, site, &together, false);
}

static uint64_t draw(TuneSearch *s) {
    return hash_u64(s->options.seed, s->draws++);
}

// Some of the nearest to the best that were not tried, with the default blocks.
static void begin_moves(TuneSearch *s, Site *site) {
    const ScheduleList *list = &site->shown.space->numbers;
    Ranked *all = arena_array(s->arena, Ranked, list->count);
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++)
        if (find_trial(site, &list->at[i]) == site->shown.trials.count)
            all[count++] =
                (Ranked){schedule_distance(&list->at[i], &best_trial(site)->schedule), i};
    qsort(all, count, sizeof *all, compare_ranked);
    uint32_t near = DRAWN_FROM * s->effort.moves, pool = near < count ? near : count;
    for (uint32_t i = 0; i < s->effort.moves && i < pool; i++) {
        uint32_t other = i + (uint32_t)(draw(s) % (pool - i));
        Ranked drawn = all[other];
        all[other] = all[i];
        ask_new(s, site, &list->at[drawn.number], true);
    }
    site->generations++;
    site->before = best_trial(site)->ratio;
}

// What is no faster is worth no last comparison, but for what was suggested, unless in a hurry.
static void drop_hopeless(const TuneSearch *s, Site *site) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < site->queue.count; i++) {
        const TuneTrial *trial = &site->shown.trials.at[site->queue.at[i]];
        if (tune_trial_median(trial) < 1 || (trial->suggested && !s->hurry))
            site->queue.at[kept++] = site->queue.at[i];
    }
    site->queue.count = kept;
}

// The best, and what was suggested.
static void begin_last(TuneSearch *s, Site *site) {
    ask_best(s, site, TUNE_LAST);
    for (uint32_t i = 1; i < site->shown.trials.count; i++) {
        bool asked = false;
        for (uint32_t k = 0; k < site->queue.count; k++)
            asked |= site->queue.at[k] == i;
        if (site->shown.trials.at[i].suggested && !asked)
            ask(s, site, i);
    }
    if (s->hurry || s->options.only_faster)
        drop_hopeless(s, site);
    for (uint32_t i = 0; i < site->queue.count; i++) {
        TuneTrial *trial = &site->shown.trials.at[site->queue.at[i]];
        trial->last = true;
        trial->judged_from = trial->ratios.count;
    }
}

static Phase next_phase(const TuneSearch *s, const Site *site) {
    bool found = best_trial(site)->ratio < site->before;
    if (s->hurry && site->phase < PHASE_LAST)
        return PHASE_LAST;
    switch (site->phase) {
    case PHASE_TOGETHER:
        return site->bases.count < s->effort.block_runs ? PHASE_BLOCKS : PHASE_MOVES;
    case PHASE_MOVES:
        return found && site->generations < s->effort.generations ? PHASE_MOVES : PHASE_LAST;
    default:
        return site->phase + 1;
    }
}

static void begin_phase(TuneSearch *s, Site *site, Phase phase) {
    site->phase = phase;
    site->queue.count = site->asked = 0;
    switch (phase) {
    case PHASE_NUMBERS:
        begin_numbers(s, site);
        break;
    case PHASE_AGAIN:
        begin_again(s, site);
        break;
    case PHASE_BLOCKS:
        begin_blocks(s, site);
        break;
    case PHASE_TOGETHER:
        begin_together(s, site);
        break;
    case PHASE_MOVES:
        begin_moves(s, site);
        break;
    case PHASE_LAST:
        begin_last(s, site);
        break;
    case PHASE_DONE:
        break;
    }
}

// On to a phase that asks for something.
static void advance(TuneSearch *s, Site *site) {
    while (site->phase != PHASE_DONE && !site->waits && site->asked == site->queue.count)
        begin_phase(s, site, next_phase(s, site));
}

// ---- the search ---------------------------------------------------------------------------------

TuneSearch *tune_search_new(Arena *arena, const TuneSpaces *spaces,
                            const TuneSearchOptions *options) {
    TuneSearch *s = arena_new_of(arena, TuneSearch);
    s->arena = arena;
    s->spaces = spaces;
    s->options = *options;
    s->effort = efforts[options->effort];
    s->sites = arena_array(arena, Site, spaces->at.count + 1);
    for (uint32_t i = 0; i < spaces->at.count; i++) {
        Site *site = &s->sites[i];
        site->shown.space = &spaces->at.at[i];
        site->before = 1;
        add_trial(s, site, &site->shown.space->numbers.at[TUNE_DEFAULT], true);
        site->shown.trials.at[TUNE_DEFAULT].ratio = 1;
        begin_phase(s, site, PHASE_NUMBERS);
    }
    return s;
}

void tune_search_skip(TuneSearch *s, uint32_t site) {
    s->sites[site].phase = PHASE_DONE;
}

static uint32_t count_suggested(const Site *site) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < site->shown.trials.count; i++)
        count += site->shown.trials.at[i].suggested;
    return count;
}

void tune_search_suggest(TuneSearch *s, uint32_t number, const Schedule *schedule) {
    Site *site = &s->sites[number];
    const ScheduleList *list = &site->shown.space->numbers;
    uint32_t i = 0;
    while (i < list->count && !schedule_same_numbers(&list->at[i], schedule))
        i++;
    bool fits = i < list->count && list->at[i].blocks.count == schedule->blocks.count;
    if (!fits || site->phase != PHASE_NUMBERS || count_suggested(site) == TUNE_SUGGESTED)
        return;
    Schedule known = *schedule;
    bool default_blocks = schedule_same(&known, &list->at[i]);
    known.seconds = default_blocks ? list->at[i].seconds : 0;
    known.found = NULL;
    uint32_t trial = find_trial(site, &known);
    if (trial == TUNE_DEFAULT)
        return;
    if (trial == site->shown.trials.count)
        add_trial(s, site, &known, default_blocks);
    site->shown.trials.at[trial].suggested = true;
    TrialNumbers before = site->queue;
    uint32_t first = count_suggested(site) - 1;
    site->queue = (TrialNumbers){0};
    for (uint32_t k = 0; k < before.count; k++) {
        if (k == first)
            ask(s, site, trial);
        if (before.at[k] != trial)
            ask(s, site, before.at[k]);
    }
    if (first >= before.count)
        ask(s, site, trial);
}

// Other blocks are not known before the phase that asks for them, where all are tried.
static uint32_t trials_left(const TuneSearch *s, const Site *site) {
    const Effort *effort = &s->effort;
    const uint32_t of_phase[PHASE_DONE] = {
        [PHASE_AGAIN] = AGAIN,
        [PHASE_BLOCKS] = effort->blocks == UINT32_MAX ? 0 : effort->blocks,
        [PHASE_TOGETHER] = 1,
        [PHASE_MOVES] = effort->moves * effort->generations,
        [PHASE_LAST] = TUNE_LAST + count_suggested(site),
    };
    uint32_t left = site->queue.count - site->asked;
    for (Phase phase = site->phase + 1; phase < PHASE_DONE; phase++)
        left += of_phase[phase];
    return left;
}

uint32_t tune_search_left(const TuneSearch *s) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < s->spaces->at.count; i++) {
        const Site *site = &s->sites[i];
        uint32_t left = site->phase == PHASE_DONE ? 0 : trials_left(s, site);
        most = left > most ? left : most;
    }
    return most;
}

const TuneSite *tune_search_site(const TuneSearch *s, uint32_t site) {
    return &s->sites[site].shown;
}

bool tune_search_next(TuneSearch *s, TuneRound *round) {
    bool any = false;
    *round = (TuneRound){arena_array(s->arena, uint32_t, s->spaces->at.count + 1), false};
    for (uint32_t i = 0; i < s->spaces->at.count; i++) {
        Site *site = &s->sites[i];
        advance(s, site);
        round->trials[i] = TUNE_NO_TRIAL;
        if (site->phase == PHASE_DONE || site->asked == site->queue.count)
            continue;
        round->trials[i] = site->queue.at[site->asked++];
        round->last |= site->phase == PHASE_LAST;
        site->waits++;
        any = true;
    }
    return any;
}

void tune_search_hurry(TuneSearch *s) {
    s->hurry = true;
    for (uint32_t i = 0; i < s->spaces->at.count; i++)
        if (s->sites[i].phase < PHASE_LAST)
            s->sites[i].queue.count = s->sites[i].asked;
}

void tune_search_note(TuneSearch *s, uint32_t number, uint32_t trial, const double *ratios,
                      uint32_t count) {
    Site *site = &s->sites[number];
    TuneTrial *t = &site->shown.trials.at[trial];
    for (uint32_t i = 0; i < count; i++)
        vec_push(s->arena, &t->ratios, ratios[i]);
    uint32_t judging = t->ratios.count - t->judged_from;
    const double *judged = judging ? t->ratios.at + t->judged_from : NULL;
    if (judging)
        t->ratio = t->last ? tune_median(judged, judging) : tune_quantile(judged, judging, 0.75);
    site->waits--;
    site->shown.best = TUNE_DEFAULT;
    for (uint32_t i = 1; i < site->shown.trials.count; i++)
        if (site->shown.trials.at[i].ratio < best_trial(site)->ratio)
            site->shown.best = i;
}

double tune_trial_confidence(const TuneTrial *trial) {
    uint32_t judging = trial->ratios.count - trial->judged_from;
    return judging ? att_confidence(trial->ratios.at + trial->judged_from, judging, ATT_WORTH) : 0;
}

double tune_trial_median(const TuneTrial *trial) {
    return trial->ratios.count ? tune_median(trial->ratios.at, trial->ratios.count) : trial->ratio;
}

bool tune_site_is_measured(const TuneSite *site) {
    uint32_t i = 1;
    while (i < site->trials.count && !site->trials.at[i].ratios.count)
        i++;
    return i < site->trials.count;
}

static uint32_t last_of(const TuneSite *site) {
    uint32_t last = 0;
    for (uint32_t i = 1; i < site->trials.count; i++)
        last += site->trials.at[i].last;
    return last > TUNE_LAST ? last : TUNE_LAST;
}

uint32_t tune_search_last(const TuneSearch *s) {
    uint32_t most = TUNE_LAST;
    for (uint32_t i = 0; i < s->spaces->at.count; i++) {
        uint32_t last = last_of(&s->sites[i].shown);
        most = last > most ? last : most;
    }
    return most;
}

uint32_t tune_search_winner(const TuneSearch *s, uint32_t number) {
    const TuneSite *site = &s->sites[number].shown;
    double sure = att_confidence_wanted(last_of(site));
    uint32_t winner = TUNE_DEFAULT;
    for (uint32_t i = 1; i < site->trials.count; i++) {
        const TuneTrial *trial = &site->trials.at[i];
        if (trial->last && trial->ratio <= ATT_WORTH && tune_trial_confidence(trial) >= sure &&
            trial->ratio < site->trials.at[winner].ratio)
            winner = i;
    }
    return winner;
}

double tune_search_correlation(const TuneSearch *s, uint32_t number) {
    const TuneSite *site = &s->sites[number].shown;
    Arena *arena = arena_new();
    double *predicted = arena_array(arena, double, site->trials.count);
    double *measured = arena_array(arena, double, site->trials.count);
    uint32_t count = 0;
    for (uint32_t i = 0; i < site->trials.count; i++)
        if (site->trials.at[i].default_blocks && isfinite(site->trials.at[i].ratio)) {
            predicted[count] = site->trials.at[i].schedule.seconds;
            measured[count++] = tune_trial_median(&site->trials.at[i]);
        }
    double correlation = tune_rank_correlation(predicted, measured, count);
    arena_free(arena);
    return correlation;
}
