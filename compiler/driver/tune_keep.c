// SPDX-License-Identifier: Apache-2.0
// What attc tune keeps: winners are compared before they are put into the database.
//
// At the extents that were tuned for the results with all winners are compared with those of the
// default schedules: they may differ by rounding alone. The oracle judges at small extents, where
// it takes no time, and with the schedules of the small spaces that are nearest to the winners.
#include <math.h>
#include <string.h>
#include <time.h>

#include "driver/tuning.h"

// Results of other schedules differ by so many units in the last place of the largest at most: sums
// in another order do, by a few.
static const double UNITS_APART = 1024;
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
    double limit = UNITS_APART * unit_of(elem) * largest;
    for (int64_t i = 0; i < count; i++)
        if (!is_alike(before[i], now[i], limit))
            return false;
    return true;
}

static bool run_once(const Tuner *tuner, const Candidate *candidate, Arena *arena) {
    return candidate_run(tuner, candidate, arena_array(arena, double, tuner->spaces.at.count + 1));
}

// Results of the last call are those of the whole.
static bool computes_the_same(const Tuner *tuner, const Schedule *const *picks) {
    Arena *arena = arena_new();
    const Tensors *tensors = &tuner->calls.tensors;
    const Graph *graph = tensors->graph;
    const double **before = arena_array(arena, const double *, graph->outputs.count + 1);
    Candidate candidate;
    candidate_make(tuner, picks, &candidate);
    bool fine = candidate_bind(tuner, &candidate) && run_once(tuner, &tuner->reference, arena);
    for (uint32_t i = 0; i < graph->outputs.count && fine; i++)
        before[i] = tensor_to_doubles(&tensors->outputs[i], arena);
    fine = fine && run_once(tuner, &candidate, arena);
    for (uint32_t i = 0; i < graph->outputs.count && fine; i++)
        fine =
            same_output(&tensors->outputs[i], before[i], graph->outputs.at[i].value->elem, arena);
    candidate_free(&candidate);
    arena_free(arena);
    return fine;
}

// ---- what the oracle says -----------------------------------------------------------------------

typedef struct {
    const Tuner *tuner;
    const Schedule *const *picks;
    uint32_t met; // sites that are among those of the tuner
} SmallChoice;

static uint32_t choose_near(void *of_choice, const ScheduleSite *site, const ScheduleList *space) {
    SmallChoice *choice = of_choice;
    const TuneSpaces *spaces = &choice->tuner->spaces;
    for (uint32_t i = 0; i < spaces->at.count; i++)
        if (spaces->at.at[i].site.group == site->group) {
            choice->met++;
            return tune_nearest(space, choice->picks[i]);
        }
    return 0;
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

static Verdict judge_small(const Tuner *tuner, const Schedule *const *picks, int64_t most) {
    Options options = *tuner->options;
    Session *session = session_fork(tuner->options->session);
    SmallChoice choice = {tuner, picks, 0};
    Compilation compiled;
    shrink(tuner, session, most);
    options.session = session;
    options.inputs.count = 0;
    options.weights = NULL;
    options.wish = (ScheduleWish){.choose = choose_near, .self = &choice};
    Verdict verdict = VERDICT_NONE;
    if (driver_compile(&options, tuner->target, AFTER_TILE, &compiled) && choice.met)
        verdict = verify_quickly(&options, &compiled, ORACLE_SECONDS);
    session_free(session);
    return verdict;
}

// At the largest extents at which the oracle is quick; NONE: at none.
static Verdict ask_oracle(const Tuner *tuner, const Schedule *const *picks) {
    Verdict verdict = VERDICT_NONE;
    if (!strcmp(tuner->options->file, "-"))
        return verdict;
    for (int64_t most = SMALL_MOST; most >= SMALL_LEAST && verdict == VERDICT_NONE; most /= 2)
        verdict = judge_small(tuner, picks, most);
    return verdict;
}

// ---- keeping ------------------------------------------------------------------------------------

const char *tuner_date(Arena *arena) {
    time_t now = time(NULL);
    struct tm parts;
    char text[32];
    gmtime_r(&now, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return arena_printf(arena, "%s", text);
}

static bool put(Tuner *tuner, uint32_t site) {
    Arena *arena = tuner->options->session->arena;
    const TuneSpace *space = &tuner->spaces.at.at[site];
    TuneResult *result = &tuner->results[site];
    const TuneTrial *trial = &tune_search_site(tuner->search, site)->trials.at[result->winner];
    TuneEntry entry = {
        .key = schedules_key(arena, &space->site, tuner->target, &tuner->machine),
        .name = space->name,
        .schedule = schedule_to_json(arena, &trial->schedule),
        .seconds = result->seconds,
        .default_seconds = result->of_default,
        .confidence = result->confidence,
        .date = tuner_date(arena),
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

// Picks of the winners; how many there are.
static uint32_t pick_winners(const Tuner *tuner, const Schedule **picks) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++) {
        uint32_t winner = tuner->results[i].winner;
        picks[i] = &tune_search_site(tuner->search, i)->trials.at[winner].schedule;
        count += winner != TUNE_DEFAULT;
    }
    return count;
}

// The winner of one site alone is what is looked at, when all together are wrong.
static void drop_wrong_ones(Tuner *tuner, const Schedule *const *winners, Arena *arena) {
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++) {
        if (tuner->results[i].winner == TUNE_DEFAULT)
            continue;
        const Schedule **picks = picks_default(tuner, arena);
        picks[i] = winners[i];
        if (computes_the_same(tuner, picks) && ask_oracle(tuner, picks) != VERDICT_WRONG)
            continue;
        problem(tuner->options, "%s: the schedule %s computes something else; it was not kept",
                tuner->spaces.at.at[i].name, schedule_to_json(arena, winners[i]));
        tuner->results[i].winner = TUNE_DEFAULT;
    }
}

bool tuner_keep(Tuner *tuner) {
    Options *options = tuner->options;
    Arena *arena = options->session->arena;
    const Schedule **picks = arena_array(arena, const Schedule *, tuner->spaces.at.count + 1);
    if (!pick_winners(tuner, picks))
        return true;
    Verdict verdict = ask_oracle(tuner, picks);
    if (!computes_the_same(tuner, picks) || verdict == VERDICT_WRONG)
        drop_wrong_ones(tuner, picks, arena);
    if (verdict == VERDICT_NONE)
        diag_remark(
            options->session->diags, (Span){0},
            "the oracle was not asked: with smaller extents of -D there is no such program, "
            "or it takes long");
    bool fine = true;
    for (uint32_t i = 0; i < tuner->spaces.at.count && fine; i++)
        if (tuner->results[i].winner != TUNE_DEFAULT)
            fine = put(tuner, i);
    return fine;
}
