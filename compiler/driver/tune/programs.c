// SPDX-License-Identifier: Apache-2.0
// attc tune, before kernels: which program is searched for schedules.
//
// The choices for the program of a call are to it what schedules are to a kernel, so they are
// looked for in the same way: a search whose sites are calls, with the default schedules of all
// kernels, each choice in turns with the default. What is far slower, as an attention that stores
// its weights often is, is left after two pairs of runs.
#include "driver/tune/tuning.h"

static const double BUDGET_OF_PROGRAMS = 0.25;

static const char *name_of(const Tuner *tuner, const Call *call) {
    const char *entry = call->compiled.built->entry;
    return call->name ? arena_printf(tuner->options->session->arena, "%s_%s", entry, call->name)
                      : entry;
}

// Is there a choice for any of the calls?
static bool find_spaces(Tuner *programs) {
    bool any = false;
    programs->spaces = (TuneSpaces){.arena = programs->options->session->arena};
    for (uint32_t i = 0; i < programs->calls.count; i++) {
        const Call *call = &programs->calls.at[i];
        TuneSpace space = {.site = call->compiled.site, .name = name_of(programs, call)};
        space.numbers = call_space(programs->options, call, &programs->calls.tensors);
        any = any || space.numbers.count > 1;
        vec_push(programs->spaces.arena, &programs->spaces.at, space);
    }
    return any;
}

// What is told and counted of both searches together.
static void go_on(Tuner *tuner, const Tuner *programs) {
    tuner->programs = programs;
    tuner->told = programs->told;
    tuner->signals = programs->signals;
    tuner->tried = programs->tried;
    tuner->failed = programs->failed;
}

// What is found goes into the database.
static bool search_programs(Tuner *tuner) {
    Arena *arena = tuner->options->session->arena;
    Tuner *programs = arena_copy(arena, tuner, sizeof *tuner);
    Options *options = arena_copy(arena, tuner->options, sizeof *options);
    options->budget *= BUDGET_OF_PROGRAMS;
    programs->options = options;
    programs->of_programs = true;
    if (!find_spaces(programs))
        return true;
    bool fine = tuner_begin(programs) && tuner_find(programs);
    tuner_end(programs);
    go_on(tuner, programs);
    return fine;
}

// ---- what is known -----------------------------------------------------------------------------

static bool lower_known(Tuner *tuner, Call *call, const TuneEntry *entry) {
    Session *session = tuner->options->session;
    Schedule known;
    const char *why;
    Compilation compiled;
    if (!schedule_from_json(session->arena, entry->schedule, &known, &why) ||
        !pipeline_may_choose(&call->passes, &known))
        return true;
    if (!call_lower(session, call, &known.program, &compiled))
        return false;
    call->compiled = compiled;
    return true;
}

// The programs of all calls as other commands have them from now on.
static bool take_known(Tuner *tuner) {
    Arena *arena = tuner->options->session->arena;
    const char *path = database_path(tuner->options), *why = NULL;
    TuneDb *db = path ? tune_db_open(arena, path, TUNE_DB_READ, &why) : NULL;
    bool fine = path;
    for (uint32_t i = 0; i < tuner->calls.count && db && fine; i++) {
        Call *call = &tuner->calls.at[i];
        TuneKey key = schedules_key(arena, &call->compiled.site, tuner->target, &tuner->machine);
        TuneEntry entry;
        bool found;
        if (tune_db_find(db, arena, &key, &entry, &found, &why) && found)
            fine = lower_known(tuner, call, &entry);
    }
    tune_db_close(db);
    return fine;
}

bool tuner_choose_programs(Tuner *tuner) {
    Options *options = tuner->options;
    if (options->memory_limit)
        return true;
    bool searches = options->effort != EFFORT_QUICK && !options->kernels.count;
    if ((searches && !search_programs(tuner)) || !take_known(tuner))
        return false;
    // At small extents, where the oracle judges, it is another program, of which nothing is known.
    options->choice = &tuner->calls.at[tuner->calls.count - 1].compiled.choice.program;
    return true;
}
