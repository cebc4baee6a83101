// SPDX-License-Identifier: Apache-2.0
// What attc tune keeps: winners are compared before they are put into the database.
//
// At the extents that were tuned for the results with all winners are compared with those of the
// default schedules, call by call: they may differ by rounding alone. The oracle judges at small
// extents, where it takes no time, and with the schedules of the small spaces that are nearest to
// the winners.
#include <math.h>
#include <string.h>
#include <time.h>

#include "driver/tune/tuning.h"

// Results of other schedules differ by so many units in the last place of what is computed with, of
// the largest value, and two of what is stored: sums in another order do, by a few.
static const double UNITS_COMPUTED = 1024, UNITS_STORED = 2;
static const double ORACLE_SECONDS = 3;
enum { SMALL_MOST = 48, SMALL_LEAST = 6 };

static double unit_of(Elem elem) {
    switch (elem) {
    case ELEM_F32:
        return 0x1p-23;
    case ELEM_F64:
        return 0x1p-52;
    case ELEM_F16:
        return 0x1p-10;
    case ELEM_BF16:
        return 0x1p-7;
    default:
        return 0;
    }
}

// ---- the same results as by default -------------------------------------------------------------

static bool is_alike(double a, double b, double limit) {
    return fabs(a - b) <= limit || (isnan(a) && isnan(b)) || a == b;
}

static bool same_output(const AttTensorData *tensor, const double *before, Elem elem,
                        Arena *arena) {
    const double *now = tensor_to_doubles(tensor, arena);
    int64_t count = tensor_count(tensor);
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(before[i]))
            largest = fmax(largest, fabs(before[i]));
    double limit =
        largest * (UNITS_COMPUTED * unit_of(elem_work(elem)) + UNITS_STORED * unit_of(elem));
    for (int64_t i = 0; i < count; i++)
        if (!is_alike(before[i], now[i], limit))
            return false;
    return true;
}

// Whatever a call does not write is what it was.
static bool same_call(const Tuner *tuner, const Candidate *candidate, uint32_t call, Arena *arena) {
    const Tensors *tensors = &tuner->calls.tensors;
    const Graph *graph = tensors->graph;
    const double **before = arena_array(arena, const double *, graph->outputs.count + 1);
    bool fine = calls_run(tuner->options, &tuner->calls, &tuner->reference.loaded, call, NULL);
    for (uint32_t i = 0; i < graph->outputs.count && fine; i++)
        before[i] = tensor_to_doubles(&tensors->outputs[i], arena);
    fine = fine && calls_run(tuner->options, &tuner->calls, &candidate->loaded, call, NULL);
    for (uint32_t i = 0; i < graph->outputs.count && fine; i++)
        fine =
            same_output(&tensors->outputs[i], before[i], graph->outputs.at[i].value->elem, arena);
    return fine;
}

static bool computes_the_same(const Tuner *tuner, const Schedule *const *picks) {
    Candidate candidate;
    candidate_open(tuner, picks, &candidate);
    bool fine = candidate.made;
    for (uint32_t c = 0; c < tuner->calls.count && fine; c++) {
        Arena *arena = arena_new();
        fine = same_call(tuner, &candidate, c, arena);
        arena_free(arena);
    }
    candidate_free(&candidate);
    return fine;
}

// ---- what the oracle says -----------------------------------------------------------------------

typedef struct {
    const Tuner *tuner;
    const Schedule *const *picks;
    bool *met; // by site: its kind of kernel is in the small program
} SmallChoice;

// Of several sites of one group, which differ in extents alone, each takes its turn.
static uint32_t choose_near(void *of_choice, const ScheduleSite *site, const ScheduleList *space) {
    SmallChoice *choice = of_choice;
    const TuneSpaces *spaces = &choice->tuner->spaces;
    uint32_t found = spaces->at.count;
    for (uint32_t i = spaces->at.count; i-- > 0;)
        if (spaces->at.at[i].site.group == site->group &&
            (found == spaces->at.count || !choice->met[i]))
            found = i;
    if (found == spaces->at.count)
        return 0;
    choice->met[found] = true;
    return tune_nearest(space, choice->picks[found]);
}

// The extents of -D, none above `most`. Odd ones leave remainders everywhere.
static void shrink(const Tuner *tuner, Session *session, int64_t most) {
    const Session *from = tuner->options->session;
    session->overrides = (DimExtents){0};
    for (uint32_t i = 0; i < from->overrides.count; i++) {
        DimExtent extent = from->overrides.at[i];
        extent.extent = extent.extent > most ? most - 1 : extent.extent;
        vec_push(session->arena, &session->overrides, extent);
    }
}

static Verdict judge_small(const Tuner *tuner, const Schedule *const *picks, int64_t most,
                           bool *met) {
    Options options = *tuner->options;
    Session *session = session_fork(tuner->options->session);
    SmallChoice choice = {tuner, picks, met};
    Compilation compiled;
    shrink(tuner, session, most);
    options.session = session;
    options.inputs.count = 0;
    options.weights = NULL;
    options.wish = (ScheduleWish){.choose = choose_near, .self = &choice};
    Verdict verdict = VERDICT_NONE;
    if (calls_compile_whole(&options, tuner->target, &compiled))
        verdict = verify_quickly(&options, &compiled, ORACLE_SECONDS);
    session_free(session);
    return verdict;
}

// At the largest extents at which the oracle is quick; NONE: at none. met: by site.
static Verdict ask_oracle(const Tuner *tuner, const Schedule *const *picks, bool *met) {
    Verdict verdict = VERDICT_NONE;
    if (!strcmp(tuner->options->file, "-"))
        return verdict;
    for (int64_t most = SMALL_MOST; most >= SMALL_LEAST && verdict == VERDICT_NONE; most /= 2) {
        memset(met, 0, tuner->spaces.at.count * sizeof *met);
        verdict = judge_small(tuner, picks, most, met);
    }
    return verdict;
}

// ---- keeping ------------------------------------------------------------------------------------

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
        problem(tuner->options, "%s %s", tuner->path, why);
    return result->kept;
}

bool tuner_open_db(Tuner *tuner) {
    Options *options = tuner->options;
    Arena *arena = options->session->arena;
    const char *why = NULL;
    tuner->path = options->db ? options->db : tune_db_path(arena);
    if (!tuner->path) {
        problem(options, "there is no home for a database of schedules: give --db FILE");
        return false;
    }
    tuner->db = tune_db_open(arena, tuner->path, TUNE_DB_WRITE, &why);
    if (!tuner->db)
        problem(options, "%s %s", tuner->path, why);
    return tuner->db;
}

// ---- checking -----------------------------------------------------------------------------------

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

static void drop(Tuner *tuner, uint32_t site) {
    TuneResult *result = &tuner->results[site];
    *result = (TuneResult){.seconds = result->of_default, .of_default = result->of_default};
}

static bool is_right(const Tuner *tuner, const Schedule *const *picks, Arena *arena) {
    bool *met = arena_array(arena, bool, tuner->spaces.at.count + 1);
    return computes_the_same(tuner, picks) && ask_oracle(tuner, picks, met) != VERDICT_WRONG;
}

// Where all together are wrong each is looked at alone, and what is left once more.
static void drop_wrong_ones(Tuner *tuner, Arena *arena) {
    uint32_t left;
    const Schedule **winners = picks_of_winners(tuner, arena, &left);
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++) {
        const Schedule **picks = picks_default(tuner, arena);
        picks[i] = winners[i];
        if (tuner->results[i].winner == TUNE_DEFAULT || is_right(tuner, picks, arena))
            continue;
        problem(tuner->options, "%s: the schedule %s computes something else; it is not kept",
                tuner->spaces.at.at[i].name, schedule_to_json(arena, winners[i]));
        drop(tuner, i);
    }
    winners = picks_of_winners(tuner, arena, &left);
    if (!left || is_right(tuner, winners, arena))
        return;
    problem(tuner->options, "all schedules together compute something else; none is kept");
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
        drop(tuner, i);
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
                        ? "with smaller extents of -D there is no such kernel, or the oracle "
                          "takes long"
                        : "standard input cannot be read a second time");
}

void tuner_check(Tuner *tuner) {
    Arena *arena = arena_new();
    uint32_t winners;
    const Schedule **picks = picks_of_winners(tuner, arena, &winners);
    bool *met = arena_array(arena, bool, tuner->spaces.at.count + 1);
    if (winners) {
        Verdict verdict = ask_oracle(tuner, picks, met);
        for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
            tuner->results[i].by_oracle = met[i] && verdict == VERDICT_FINE;
        if (!computes_the_same(tuner, picks) || verdict == VERDICT_WRONG)
            drop_wrong_ones(tuner, arena);
        tell_unjudged(tuner, arena);
    }
    arena_free(arena);
}

// ---- the database -------------------------------------------------------------------------------

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
    problem(tuner->options, "%s %s", tuner->path, why);
    return false;
}

bool tuner_keep(Tuner *tuner) {
    bool fine = true;
    for (uint32_t i = 0; i < tuner->spaces.at.count && fine; i++)
        fine = keep(tuner, i);
    return fine;
}
