// SPDX-License-Identifier: Apache-2.0
// What attc tune checks of winners before they are kept.
//
// At the extents that were tuned for the results with all winners are compared with those of the
// default schedules, call by call: they may differ by rounding alone. The oracle judges at small
// extents, where it takes no time, and with the schedules of the small spaces that are nearest to
// the winners.
#include <math.h>
#include <string.h>

#include "driver/tune/tuning.h"

// Chosen: what the oracle may take, and extents between which it computes what is checked.
static const double ORACLE_SECONDS = 3;
enum { SMALL_MOST = 48, SMALL_LEAST = 6 };

typedef enum { RESULTS_SAME, RESULTS_DIFFERENT, RESULTS_NONE } Results; // NONE: it cannot run

// ---- the same results as by default -------------------------------------------------------------

// Whatever a call does not write is what it was.
static Results compare_call(const Tuner *tuner, const Candidate *candidate, uint32_t call,
                            Arena *arena) {
    const Tensors *tensors = &tuner->calls.tensors;
    const Graph *graph = tensors->graph;
    const double **before = arena_array(arena, const double *, graph->outputs.count + 1);
    bool fine = calls_run(tuner->options, &tuner->calls, &tuner->reference.loaded, call, NULL);
    Options options = candidate_options(tuner, candidate);
    double largest = 0;
    for (uint32_t i = 0; i < graph->outputs.count && fine; i++) {
        before[i] = tensor_to_doubles(&tensors->outputs[i], arena);
        if (elem_is_float(graph->outputs.at[i].value->elem))
            largest =
                fmax(largest, tolerance_largest(before[i], tensor_count(&tensors->outputs[i])));
    }
    if (!fine || !calls_run(&options, &tuner->calls, &candidate->loaded, call, NULL))
        return RESULTS_NONE;
    for (uint32_t i = 0; i < graph->outputs.count && fine; i++)
        fine = tolerance_alike(graph->outputs.at[i].value->elem, before[i],
                               tensor_to_doubles(&tensors->outputs[i], arena),
                               tensor_count(&tensors->outputs[i]), largest);
    return fine ? RESULTS_SAME : RESULTS_DIFFERENT;
}

// tell: why it cannot run.
static Results compare_with_default(const Tuner *tuner, const Schedule *const *picks, bool tell) {
    Candidate candidate;
    candidate_open(tuner, picks, &candidate);
    Results results = candidate.made ? RESULTS_SAME : RESULTS_NONE;
    for (uint32_t c = 0; c < tuner->calls.count && results == RESULTS_SAME; c++) {
        Arena *arena = arena_new();
        results = compare_call(tuner, &candidate, c, arena);
        arena_free(arena);
    }
    if (tell)
        session_join(tuner->options->session, candidate.session);
    candidate_free(&candidate);
    return results;
}

// ---- what the oracle says -----------------------------------------------------------------------

typedef struct {
    ScheduleSite site;
    uint32_t tuned; // the site that it stands for; their count: for none
} SmallSite;
typedef struct {
    const Tuner *tuner;
    const Schedule *const *picks;
    bool *met; // by site: its kind of kernel is in the small program
    Arena *arena;
    VEC(SmallSite) small;
} SmallChoice;

// Of several sites of one group, which differ in extents alone, each takes its turn: those with
// winners before the others, and these before those that had theirs.
typedef enum { TURN_NONE, TURN_AGAIN, TURN_OF_DEFAULT, TURN_OF_WINNER } Turn;

static Turn turn_of(const SmallChoice *choice, uint32_t site) {
    const TuneSpace *space = &choice->tuner->spaces.at.at[site];
    if (choice->met[site])
        return TURN_AGAIN;
    return schedule_same(choice->picks[site], &space->numbers.at[TUNE_DEFAULT]) ? TURN_OF_DEFAULT
                                                                                : TURN_OF_WINNER;
}

static uint32_t next_of_group(const SmallChoice *choice, uint64_t group) {
    const TuneSpaces *spaces = &choice->tuner->spaces;
    uint32_t found = spaces->at.count;
    Turn best = TURN_NONE;
    for (uint32_t i = 0; i < spaces->at.count; i++) {
        Turn turn = spaces->at.at[i].site.group == group ? turn_of(choice, i) : TURN_NONE;
        if (turn > best) {
            best = turn;
            found = i;
        }
    }
    return found;
}

// A site is asked for several times, for its numbers, for the blocks of each place and for
// prefetch.
static uint32_t site_for(SmallChoice *choice, const ScheduleSite *site) {
    for (uint32_t i = 0; i < choice->small.count; i++) {
        const SmallSite *small = &choice->small.at[i];
        if (schedule_same_site(&small->site, site))
            return small->tuned;
    }
    uint32_t found = next_of_group(choice, site->group);
    SmallSite small = {{site->group, arena_printf(choice->arena, "%s", site->extents)}, found};
    vec_push(choice->arena, &choice->small, small);
    if (found < choice->tuner->spaces.at.count)
        choice->met[found] = true;
    return found;
}

static uint32_t choose_near(void *of_choice, const ScheduleSite *site, const ScheduleList *space) {
    SmallChoice *choice = of_choice;
    uint32_t found = site_for(choice, site);
    return found < choice->tuner->spaces.at.count ? tune_nearest(space, choice->picks[found]) : 0;
}

// None of the extents of -D above `most`; of_file: and none that the file gives as a number.
typedef struct {
    int64_t most;
    bool of_file;
} Smaller;

// Extents that the file gives as numbers, and -D does not.
static DimExtents extents_of_file(const Tuner *tuner, Arena *arena) {
    const Program *program = tuner->calls.at[0].compiled.program;
    DimExtents found = {0};
    for (uint32_t i = 0; i < program->dims.count; i++) {
        const DimDecl *decl = program->dims.at[i];
        Name dim = decl->name.name;
        if (decl->extent && decl->extent->kind == EXPR_NUMBER &&
            !program_given(program, &tuner->options->session->overrides, dim))
            vec_push(arena, &found, ((DimExtent){dim, decl->value}));
    }
    return found;
}

static bool has_above(const DimExtents *extents, int64_t most) {
    for (uint32_t i = 0; i < extents->count; i++)
        if (extents->at[i].extent > most)
            return true;
    return false;
}

// Odd ones leave remainders everywhere.
static void add_below(Session *session, const DimExtents *extents, int64_t most) {
    for (uint32_t i = 0; i < extents->count; i++) {
        DimExtent extent = extents->at[i];
        extent.extent = extent.extent > most ? most - 1 : extent.extent;
        vec_push(session->arena, &session->overrides, extent);
    }
}

// Of the small program, in a session of its own, which the caller frees.
static Options small_options(const Tuner *tuner, Smaller smaller) {
    const Session *from = tuner->options->session;
    Options options = *tuner->options;
    options.session = session_fork(from);
    options.inputs.count = 0;
    options.weights = NULL;
    options.session->overrides = (DimExtents){0};
    add_below(options.session, &from->overrides, smaller.most);
    if (smaller.of_file) {
        DimExtents of_file = extents_of_file(tuner, options.session->arena);
        add_below(options.session, &of_file, smaller.most);
    }
    return options;
}

static Verdict judge_small(const Tuner *tuner, const Schedule *const *picks, Smaller smaller,
                           bool *met) {
    Options options = small_options(tuner, smaller);
    SmallChoice choice = {tuner, picks, met, options.session->arena, {0}};
    Compilation compiled;
    if (!tuner->of_programs)
        options.wish = (ScheduleWish){.choose = choose_near, .self = &choice};
    Verdict verdict = VERDICT_NONE;
    if (calls_compile_whole(&options, tuner->target, &compiled))
        verdict = verify_quickly(&options, &compiled, ORACLE_SECONDS);
    session_free(options.session);
    return verdict;
}

// Does the choice of its options make another program than the default at such extents?
static bool makes_another(const Tuner *tuner, Smaller smaller) {
    static const ProgramSchedule by_default = {0};
    Options options = small_options(tuner, smaller);
    Compilation chosen, plain;
    bool fine = calls_compile_whole(&options, tuner->target, &chosen);
    options.choice = &by_default;
    bool another = fine && calls_compile_whole(&options, tuner->target, &plain) &&
                   !programs_same_kernels(chosen.tile, plain.tile);
    session_free(options.session);
    return another;
}

// The whole with the choice of each call in turn: what is chosen for a part can be for the whole.
static Verdict judge_choices(const Tuner *tuner, const Schedule *const *picks, Smaller smaller,
                             bool *met) {
    Verdict verdict = VERDICT_NONE;
    for (uint32_t i = 0; i < tuner->spaces.at.count && verdict != VERDICT_WRONG; i++) {
        Tuner with = *tuner;
        Options options = *tuner->options;
        options.choice = &picks[i]->program;
        with.options = &options;
        if (schedule_same(picks[i], &tuner->spaces.at.at[i].numbers.at[TUNE_DEFAULT]))
            continue;
        verdict = judge_small(&with, picks, smaller, met);
        met[i] = verdict != VERDICT_NONE && makes_another(&with, smaller);
        if (verdict == VERDICT_NONE)
            return verdict;
    }
    return verdict;
}

// Is it another program than with the larger ones before?
static bool makes_smaller(const Tuner *tuner, Smaller smaller) {
    Arena *arena = arena_new();
    DimExtents of_file = extents_of_file(tuner, arena);
    bool changes =
        has_above(smaller.of_file ? &of_file : &tuner->options->session->overrides, smaller.most);
    arena_free(arena);
    return changes || (!smaller.of_file && smaller.most == SMALL_MOST);
}

// At the largest extents at which the oracle is quick, the file's own where that can be; NONE: at
// none. met: by site.
static Verdict ask_oracle(const Tuner *tuner, const Schedule *const *picks, bool *met) {
    Verdict verdict = VERDICT_NONE;
    if (!strcmp(tuner->options->file, "-"))
        return verdict;
    for (int of_file = 0; of_file < 2; of_file++)
        for (int64_t most = SMALL_MOST; most >= SMALL_LEAST; most /= 2) {
            Smaller smaller = {most, of_file};
            if (verdict != VERDICT_NONE || !makes_smaller(tuner, smaller))
                continue;
            memset(met, 0, tuner->spaces.at.count * sizeof *met);
            verdict = tuner->of_programs ? judge_choices(tuner, picks, smaller, met)
                                         : judge_small(tuner, picks, smaller, met);
        }
    return verdict;
}

// ---- winners ------------------------------------------------------------------------------------

const Schedule **picks_of_winners(const Tuner *tuner, Arena *arena, uint32_t *count) {
    const Schedule **picks = arena_array(arena, const Schedule *, tuner->spaces.at.count + 1);
    *count = 0;
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++) {
        uint32_t winner = tuner->results[i].winner;
        picks[i] = &tune_search_site(tuner->search, i)->trials.at[winner].schedule;
        *count += winner != TUNE_DEFAULT;
    }
    return picks;
}

void tuner_drop(Tuner *tuner, uint32_t site) {
    TuneResult *result = &tuner->results[site];
    *result = (TuneResult){.seconds = result->of_default,
                           .of_default = result->of_default,
                           .refuted = result->refuted};
}

// by_oracle: by site, set: was its kind of kernel compared with the oracle?
static Results judge(const Tuner *tuner, const Schedule *const *picks, bool *by_oracle, bool tell) {
    uint32_t n = tuner->spaces.at.count;
    memset(by_oracle, 0, n * sizeof *by_oracle);
    Results results = compare_with_default(tuner, picks, tell);
    if (results != RESULTS_SAME)
        return results;
    Verdict verdict = ask_oracle(tuner, picks, by_oracle);
    for (uint32_t i = 0; i < n; i++)
        by_oracle[i] &= verdict == VERDICT_FINE;
    return verdict == VERDICT_WRONG ? RESULTS_DIFFERENT : RESULTS_SAME;
}

static const char *const what_it_does[] = {[RESULTS_DIFFERENT] = "computes something else",
                                           [RESULTS_NONE] = "could not be compiled or run"};

// Where all together are wrong each is looked at alone, and what is left once more.
static void drop_wrong_ones(Tuner *tuner, bool *by_oracle, Arena *arena) {
    uint32_t left;
    const Schedule **winners = picks_of_winners(tuner, arena, &left);
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++) {
        const Schedule **picks = picks_default(tuner, arena);
        picks[i] = winners[i];
        if (tuner->results[i].winner == TUNE_DEFAULT)
            continue;
        if (tuner_is_ended(tuner))
            return;
        Results results = judge(tuner, picks, by_oracle, true);
        if (results == RESULTS_SAME)
            continue;
        problem(tuner->options, "%s: the schedule %s %s; it is not kept",
                tuner->spaces.at.at[i].name, schedule_to_json(arena, winners[i]),
                what_it_does[results]);
        if (results == RESULTS_DIFFERENT)
            tuner->results[i].refuted = tuner->results[i].winner;
        tuner_drop(tuner, i);
    }
    winners = picks_of_winners(tuner, arena, &left);
    Results results = left ? judge(tuner, winners, by_oracle, true) : RESULTS_SAME;
    if (results == RESULTS_SAME)
        return;
    problem(tuner->options, "a library with all schedules %s; none is kept", what_it_does[results]);
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
        tuner_drop(tuner, i);
}

static void tell_unjudged(const Tuner *tuner, Arena *arena) {
    Text names = {.arena = arena};
    uint32_t count = 0;
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
        if (tuner->results[i].winner != TUNE_DEFAULT && !tuner->results[i].by_oracle)
            text_list(&names, count++, tuner->spaces.at.at[i].name);
    if (count)
        diag_remark(tuner->options->session->diags, (Span){0},
                    "not compared with the oracle, but with the default alone: %s; %s", names.at,
                    strcmp(tuner->options->file, "-")
                        ? "with smaller extents there is no such kernel, or the oracle takes "
                          "long"
                        : "standard input cannot be read a second time");
}

void tuner_check(Tuner *tuner) {
    Arena *arena = arena_new();
    uint32_t winners, n = tuner->spaces.at.count;
    const Schedule **picks = picks_of_winners(tuner, arena, &winners);
    bool *by_oracle = arena_array(arena, bool, n + 1);
    if (winners && !tuner_is_ended(tuner) && judge(tuner, picks, by_oracle, false) != RESULTS_SAME)
        drop_wrong_ones(tuner, by_oracle, arena);
    for (uint32_t i = 0; i < n; i++)
        tuner->results[i].by_oracle = by_oracle[i];
    if (!tuner_is_ended(tuner))
        tell_unjudged(tuner, arena);
    arena_free(arena);
}
