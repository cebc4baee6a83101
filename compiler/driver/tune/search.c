// SPDX-License-Identifier: Apache-2.0
// One search of attc tune: for schedules of kernels, or before that for choices of their programs.
//
// All sites are searched at one time, with the whole entry as the benchmark, so that each is
// measured where it will run: behind the kernels before it and in the state that these leave caches
// in. Everything about which schedule comes next is compiler/tune/search.c.
#include <math.h>
#include <string.h>

#include "driver/tune/tuning.h"

// Chosen. Of all the time of an entry: kernels below it are not worth a search.
static const double LITTLE[N_EFFORTS] = {
    [EFFORT_QUICK] = 0.03, [EFFORT_NORMAL] = 0.005, [EFFORT_EXHAUSTIVE] = 0};
static const double BUDGET_OF_SEARCH = 0.6; // the rest is for the last trials

// ---- the beginning ------------------------------------------------------------------------------

static void list_blocks(void *of_tuner, const Schedule *const *picks, ScheduleList *lists,
                        Arena *arena) {
    const Tuner *tuner = of_tuner;
    for (uint32_t i = 0; i < tuner->calls.count; i++) {
        const Compilation *compiled = &tuner->calls.at[i].compiled;
        ScheduleList *own = arena_array(arena, ScheduleList, tuner->spaces.at.count + 1);
        tune_spaces_blocks(&tuner->spaces, compiled->plan, &tuner->machine, compiled->typical,
                           picks, own, arena);
        for (uint32_t s = 0; s < tuner->spaces.at.count; s++)
            if (!lists[s].count)
                lists[s] = own[s];
    }
}

// Of choices for programs: what differs from them in one decision.
static void list_neighbours(void *of_programs, const Schedule *const *picks, ScheduleList *lists,
                            Arena *arena) {
    const Tuner *programs = of_programs;
    for (uint32_t i = 0; i < programs->calls.count; i++) {
        ScheduleList all = {0};
        if (picks[i])
            all = call_space(programs->options, &programs->calls.at[i], &programs->calls.tensors,
                             &picks[i]->program);
        for (uint32_t k = 0; k < all.count; k++)
            vec_push(arena, &lists[i], all.at[k]);
    }
}

static bool make_reference(Tuner *tuner) {
    Arena *arena = tuner->options->session->arena;
    candidate_open(tuner, picks_default(tuner, arena), &tuner->reference);
    bool fine = tuner->reference.made && tuner_measure_default(tuner);
    session_join(tuner->options->session, tuner->reference.session);
    return fine;
}

static double default_seconds(const Tuner *tuner, uint32_t site) {
    return tune_median(tuner->of_default[site].at, tuner->of_default[site].count);
}

static bool is_wanted(const Tuner *tuner, uint32_t site) {
    const NameList *kernels = &tuner->options->kernels;
    for (uint32_t i = 0; i < kernels->count; i++)
        if (!strcmp(kernels->at[i], tuner->spaces.at.at[site].name))
            return true;
    return !kernels->count;
}

// Of several shapes some may have no kernel of a name that is asked for, or not run it: it is told,
// and the search goes on. false after a message where there is one shape.
static bool leave_out(const Tuner *tuner, const char *why) {
    if (!tuner->options->shapes) {
        problem(tuner->options, "--kernels: %s", why);
        return false;
    }
    diag_remark(tuner->options->session->diags, (Span){0}, "--kernels: %s", why);
    return true;
}

static bool check_kernels(const Tuner *tuner) {
    const NameList *kernels = &tuner->options->kernels;
    for (uint32_t k = 0; k < kernels->count; k++) {
        bool there = false;
        Text names = {.arena = tuner->options->session->arena};
        for (uint32_t i = 0; i < tuner->spaces.at.count; i++) {
            there |= !strcmp(kernels->at[k], tuner->spaces.at.at[i].name);
            text_list(&names, i, tuner->spaces.at.at[i].name);
        }
        if (!there && !leave_out(tuner, arena_printf(names.arena, "there is no kernel %s, but %s",
                                                     kernels->at[k], names.at)))
            return false;
    }
    return true;
}

// Of a program there is one.
static void count_launches(Tuner *tuner) {
    Arena *arena = tuner->options->session->arena;
    tuner->launches = arena_array(arena, uint32_t, tuner->spaces.at.count + 1);
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
        tuner->launches[i] = tuner->of_programs;
    for (uint32_t c = 0; c < tuner->calls.count && !tuner->of_programs; c++) {
        const TileProgram *program = tuner->reference.programs[c];
        const int64_t *extents = tuner_extents(tuner, c, arena);
        for (uint32_t i = 0; i < program->launches.count; i++)
            tuner->launches[tuner->reference.sites[c][i]] +=
                launch_runs(&program->launches.at[i], extents);
    }
}

static bool check_that_they_run(const Tuner *tuner) {
    Arena *arena = tuner->options->session->arena;
    for (uint32_t i = 0; i < tuner->spaces.at.count && tuner->options->kernels.count; i++)
        if (is_wanted(tuner, i) && !tuner->launches[i] &&
            !leave_out(tuner, arena_printf(arena, "%s does not run at these extents",
                                           tuner->spaces.at.at[i].name)))
            return false;
    return true;
}

// Those that take little time, or do not run at these extents, keep their default.
static void skip_little(Tuner *tuner) {
    double all = 0;
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
        all += default_seconds(tuner, i);
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++) {
        double seconds = default_seconds(tuner, i);
        bool little = seconds <= LITTLE[tuner->options->effort] * all;
        const TuneSpace *space = &tuner->spaces.at.at[i];
        bool alone = space->numbers.count == 1 && !space->asks &&
                     !space->numbers.at[TUNE_DEFAULT].blocks.count;
        bool asked = is_wanted(tuner, i) && tuner->options->kernels.count;
        if (!is_wanted(tuner, i) || !tuner->launches[i] || (little && !asked) || alone)
            tune_search_skip(tuner->search, i);
    }
}

// own: of this machine, or of others.
static void suggest(Tuner *tuner, const TuneEntries *entries, uint32_t site, bool own) {
    Arena *arena = tuner->options->session->arena;
    TuneKey key =
        schedules_key(arena, &tuner->spaces.at.at[site].site, tuner->target, &tuner->machine);
    for (uint32_t i = 0; i < entries->count; i++) {
        TuneKey other = entries->at[i].key;
        bool of_own = !strcmp(other.machine, key.machine);
        Schedule schedule;
        const char *why;
        other.machine = key.machine;
        if (of_own == own && !tune_key_compare(&other, &key) &&
            schedule_from_json(arena, entries->at[i].schedule, &schedule, &why))
            tune_search_suggest(tuner->search, site, &schedule);
    }
}

// Schedules that are known for the sites, on this machine or on others, are where the search
// begins.
static bool suggest_known(Tuner *tuner) {
    TuneEntries entries = {0};
    const char *why = NULL;
    if (!tune_db_list(tuner->db, tuner->options->session->arena, &entries, NULL, &why)) {
        database_problem(tuner->options, tuner->path, why);
        return false;
    }
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++) {
        suggest(tuner, &entries, i, true);
        suggest(tuner, &entries, i, false);
    }
    return true;
}

// All choices for a program are tried, which are few.
static TuneSearchOptions search_options(Tuner *tuner) {
    const Options *options = tuner->options;
    return (TuneSearchOptions){.effort = tuner->of_programs ? EFFORT_EXHAUSTIVE : options->effort,
                               .seed = options->seed,
                               .only_faster = tuner->of_programs,
                               .blocks = tuner->of_programs ? list_neighbours : list_blocks,
                               .self = tuner};
}

bool tuner_begin(Tuner *tuner) {
    Arena *arena = tuner->options->session->arena;
    tuner->of_default =
        arena_alloc(arena, (tuner->spaces.at.count + 1) * sizeof *tuner->of_default);
    tuner->counted = arena_alloc(arena, (tuner->spaces.at.count + 1) * sizeof *tuner->counted);
    tuner->results = arena_array(arena, TuneResult, tuner->spaces.at.count + 1);
    if (!check_kernels(tuner) || !make_reference(tuner))
        return false;
    count_launches(tuner);
    if (!check_that_they_run(tuner))
        return false;
    TuneSearchOptions how = search_options(tuner);
    tuner->search = tune_search_new(arena, &tuner->spaces, &how);
    skip_little(tuner);
    tuner_count(tuner, &tuner->reference, NULL);
    return tuner_open_db(tuner) && suggest_known(tuner);
}

void tuner_end(Tuner *tuner) {
    if (tuner->reference.session)
        candidate_free(&tuner->reference);
    tune_db_close(tuner->db);
    tuner->db = NULL;
}

// ---- the search ---------------------------------------------------------------------------------

static const Schedule **picks_of_round(const Tuner *tuner, const TuneRound *round) {
    const Schedule **picks = picks_default(tuner, tuner->options->session->arena);
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
        if (round->trials[i] != TUNE_NO_TRIAL)
            picks[i] = &tune_search_site(tuner->search, i)->trials.at[round->trials[i]].schedule;
    return picks;
}

// One candidate, from its round to what was measured.
typedef struct {
    TuneRound round;
    Candidate candidate;
    Maker *maker;
    bool there;
} Lane;

static void begin_lane(Tuner *tuner, Lane *lane) {
    lane->there = tune_search_next(tuner->search, &lane->round);
    if (lane->there)
        lane->maker = maker_start(tuner->options->session->arena, tuner,
                                  picks_of_round(tuner, &lane->round), &lane->candidate);
}

// It is a schedule that the verifier accepts: why it has no code, or cannot run, is worth to be
// known.
static void note_failure(Tuner *tuner, const Candidate *candidate) {
    const char *why = diags_first_error(candidate->session->diags);
    if (!tuner->failure && why)
        tuner->failure = arena_printf(tuner->options->session->arena, "%s", why);
    tuner->failed++;
}

static void end_lane(Tuner *tuner, Lane *lane) {
    if (!tuner_measure(tuner, &lane->candidate, &lane->round))
        note_failure(tuner, &lane->candidate);
    if (lane->candidate.made)
        tuner_count(tuner, &lane->candidate, &lane->round);
    candidate_free(&lane->candidate);
    tuner_progress(tuner);
}

static bool is_late(const Tuner *tuner) {
    return tuner->budget && tuner_seconds(tuner) > BUDGET_OF_SEARCH * tuner->budget;
}

static void look_at_the_time(Tuner *tuner) {
    tuner_look_at_signals(tuner);
    if (tuner->signals || is_late(tuner))
        tune_search_hurry(tuner->search);
}

// While one candidate is measured the next one is compiled.
static void search(Tuner *tuner) {
    Lane lanes[2];
    uint32_t at = 0;
    look_at_the_time(tuner);
    begin_lane(tuner, &lanes[at]);
    while (lanes[at].there) {
        maker_finish(lanes[at].maker);
        lanes[!at].there = false;
        if (!tuner_is_ended(tuner))
            begin_lane(tuner, &lanes[!at]);
        end_lane(tuner, &lanes[at]);
        look_at_the_time(tuner);
        at = !at;
        if (!lanes[at].there && !tuner_is_ended(tuner)) // what was noted since may lead on
            begin_lane(tuner, &lanes[at]);
    }
}

static void take_results(Tuner *tuner) {
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++) {
        const TuneSite *site = tune_search_site(tuner->search, i);
        TuneResult *result = &tuner->results[i];
        result->winner = tune_search_winner(tuner->search, i);
        result->confidence = tune_trial_confidence(&site->trials.at[result->winner]);
        result->seconds = result->of_default =
            default_seconds(tuner, i) / fmax(tuner->launches[i], 1);
    }
}

// A budget that the default alone took is told of. before: candidates of the programs' search.
static void tell_of_short_budget(const Tuner *tuner, uint32_t before) {
    bool any = tuner->tried + tuner->failed > before || tuner->signals || tuner->of_programs;
    if (!any && is_late(tuner))
        diag_remark(tuner->options->session->diags, (Span){0},
                    "--budget: no schedule was tried, since compiling and measuring the default "
                    "took %.1f s",
                    tuner_seconds(tuner));
}

bool tuner_find(Tuner *tuner) {
    uint32_t before = tuner->tried + tuner->failed;
    search(tuner);
    tell_of_short_budget(tuner, before);
    take_results(tuner);
    tuner_check(tuner);
    bool fine = tuner_confirm(tuner);
    tuner_end_progress(tuner);
    return tuner_keep(tuner) && fine;
}
