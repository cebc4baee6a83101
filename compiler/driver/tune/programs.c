// SPDX-License-Identifier: Apache-2.0
// attc tune, before kernels: which program is searched for schedules.
//
// The choices for the program of a call are to it what schedules are to a kernel, so they are
// looked for in the same way: a search whose sites are calls, with the default schedules of all
// kernels, each choice in turns with the default. What is far slower for all calls, as an attention
// that stores its weights often is, is left after two pairs of runs. To those that are faster other
// decisions are added, so that two that pay together are found.
#include "driver/tune/tuning.h"

static const double BUDGET_OF_PROGRAMS = 0.25; // chosen: kernels gain more, mostly

// ---- what is known -----------------------------------------------------------------------------

// NULL: there is none, or none that can be read; what is wrong is told by tuner_open_db.
static TuneDb *open_known(const Tuner *tuner) {
    const char *why = NULL;
    return tune_db_open(tuner->options->session->arena, tuner->path, TUNE_DB_READ, &why);
}

// For the program of a call; NULL: nothing that it can have. db: NULL, there is none.
static const Schedule *find_known(const Tuner *tuner, TuneDb *db, const Call *call) {
    Arena *arena = tuner->options->session->arena;
    TuneKey key = schedules_key(arena, &call->compiled.site, tuner->target, &tuner->machine);
    Schedule *known = arena_new_of(arena, Schedule);
    TuneEntry entry;
    const char *why = NULL;
    bool there = false;
    bool found = db && tune_db_find(db, arena, &key, &entry, &there, &why) && there &&
                 schedule_from_json(arena, entry.schedule, known, &why);
    if (why)
        diag_remark(tuner->options->session->diags, (Span){0}, "%s %s", tuner->path, why);
    return found && pipeline_may_choose(&call->passes, known) ? known : NULL;
}

// The programs of all calls as other commands have them from now on.
static bool take_known(Tuner *tuner) {
    TuneDb *db = open_known(tuner);
    bool fine = true;
    for (uint32_t i = 0; i < tuner->calls.count && fine; i++) {
        Call *call = &tuner->calls.at[i];
        const Schedule *known = find_known(tuner, db, call);
        Compilation compiled;
        if (!known)
            continue;
        fine = call_lower(tuner->options->session, call, &known->program, &compiled);
        if (fine)
            call->compiled = compiled;
    }
    tune_db_close(db);
    return fine;
}

// ---- the search --------------------------------------------------------------------------------

static const char *name_of(const Tuner *tuner, const Call *call) {
    const char *entry = call->compiled.built->entry;
    return call->name ? arena_printf(tuner->options->session->arena, "%s_%s", entry, call->name)
                      : entry;
}

// Is there a choice for any of the calls?
static bool find_spaces(Tuner *programs) {
    bool any = false;
    TuneDb *db = open_known(programs);
    programs->spaces = (TuneSpaces){.arena = programs->options->session->arena};
    for (uint32_t i = 0; i < programs->calls.count; i++) {
        const Call *call = &programs->calls.at[i];
        const Schedule *known = find_known(programs, db, call);
        TuneSpace space = {.site = call->compiled.site, .name = name_of(programs, call)};
        space.numbers = call_space(programs->options, call, &programs->calls.tensors,
                                   known ? &known->program : NULL);
        any = any || space.numbers.count > 1;
        vec_push(programs->spaces.arena, &programs->spaces.at, space);
    }
    tune_db_close(db);
    return any;
}

// What is told and counted of both searches together.
static void go_on(Tuner *tuner, const Tuner *programs) {
    tuner->programs = programs;
    tuner->told = programs->told;
    tuner->signals = programs->signals;
    if (tuner->signals)
        tuner->budget = programs->budget;
    tuner->peaks = programs->peaks;
    tuner->tried = programs->tried;
    tuner->failed = programs->failed;
    tuner->failure = programs->failure;
}

// What is found goes into the database.
static bool search_programs(Tuner *tuner) {
    Tuner *programs = arena_copy(tuner->options->session->arena, tuner, sizeof *tuner);
    programs->budget *= BUDGET_OF_PROGRAMS;
    programs->of_programs = true;
    if (!find_spaces(programs))
        return true;
    bool fine = tuner_begin(programs) && tuner_find(programs);
    tuner_end(programs);
    go_on(tuner, programs);
    return fine;
}

bool tuner_choose_programs(Tuner *tuner) {
    Options *options = tuner->options;
    if (options->memory_limit)
        return true;
    bool searches = options->effort != EFFORT_QUICK && !options->kernels.count;
    if (searches && !search_programs(tuner))
        return false;
    if (tuner_is_ended(tuner))
        return true;
    if (!take_known(tuner))
        return false;
    // At small extents, where the oracle judges, it is another program, of which nothing is known.
    options->choice = &tuner->calls.at[tuner->calls.count - 1].compiled.choice.program;
    return true;
}
