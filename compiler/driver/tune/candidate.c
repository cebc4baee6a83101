// SPDX-License-Identifier: Apache-2.0
// Candidates of attc tune: all calls compiled with one schedule for each site.
//
// A candidate is made in a session of its own, which is freed with it, and in another thread while
// the one before it is measured: on other cores, if one thread is planned for. With more threads
// the two take turns, since they would want the same cores.
#include <pthread.h>
#include <string.h>

#include "cores.h"
#include "driver/tune/tuning.h"

const Schedule **picks_default(const Tuner *tuner, Arena *arena) {
    uint32_t n = tuner->spaces.at.count;
    const Schedule **picks = arena_array(arena, const Schedule *, n + 1);
    for (uint32_t i = 0; i < n; i++)
        picks[i] = &tuner->spaces.at.at[i].numbers.at[TUNE_DEFAULT];
    return picks;
}

int64_t *tuner_extents(const Tuner *tuner, uint32_t call, Arena *arena) {
    return tensors_extents(&tuner->calls.tensors, tuner->calls.at[call].compiled.fusion->graph,
                           arena);
}

static uint32_t next_running(const TileProgram *program, const int64_t *extents, uint32_t at) {
    while (at < program->launches.count && !launch_runs(&program->launches.at[at], extents))
        at++;
    return at;
}

// Of the kernels for several sizes of a run-time extent one runs. Where a schedule makes that of
// one size the same as another's, its launch has the site of the other: what runs stands for the
// site that runs by default in its place.
static uint32_t *sites_of(const Tuner *tuner, uint32_t call, const TileProgram *program,
                          Arena *arena) {
    const Candidate *reference = &tuner->reference;
    uint32_t *sites = arena_array(arena, uint32_t, program->launches.count + 1);
    for (uint32_t i = 0; i < program->launches.count; i++)
        sites[i] = tuner->of_programs
                       ? call
                       : tune_spaces_find(&tuner->spaces, &program->launches.at[i].site);
    if (tuner->of_programs || !reference->sites[call]) // it is being made
        return sites;
    const int64_t *extents = tuner_extents(tuner, call, arena);
    const TileProgram *by_default = reference->programs[call];
    for (uint32_t i = next_running(program, extents, 0), k = 0; i < program->launches.count;
         i = next_running(program, extents, i + 1), k++) {
        k = next_running(by_default, extents, k);
        if (k == by_default->launches.count)
            ice("tune: a candidate has more launches than the default");
        sites[i] = reference->sites[call][k];
    }
    return sites;
}

// Compiled kernels are looked up in the user's cache, and not added to it: they are many.
Options candidate_options(const Tuner *tuner, const Candidate *candidate) {
    Options options = *tuner->options;
    options.session = candidate->session;
    options.cache.only_read = true;
    return options;
}

static TileProgram *lower_kernels(const Tuner *tuner, uint32_t call, const ScheduleWish *wish,
                                  Arena *arena) {
    const Compilation *compiled = &tuner->calls.at[call].compiled;
    Plan *plan = plan_in_arena(compiled->plan, arena);
    return tile_lower(plan, &tuner->machine, compiled->typical, wish);
}

// With the default schedules of its kernels. NULL after diagnostics.
static TileProgram *lower_program(const Tuner *tuner, uint32_t call, const Schedule *pick,
                                  Session *session) {
    Compilation compiled;
    if (schedule_same(pick, &tuner->spaces.at.at[call].numbers.at[TUNE_DEFAULT]))
        return lower_kernels(tuner, call, &(ScheduleWish){0}, session->arena);
    return call_lower(session, &tuner->calls.at[call], &pick->program, &compiled) ? compiled.tile
                                                                                  : NULL;
}

// Requires: its session is there.
static void compile(const Tuner *tuner, const Schedule *const *picks, Candidate *out) {
    Arena *arena = out->session->arena;
    Options options = candidate_options(tuner, out);
    TunePicks known = {&tuner->spaces, picks};
    ScheduleWish wish = {.source = tune_picks_source(&known)};
    const char *why = NULL;
    for (uint32_t i = 0; i < tuner->calls.count; i++) {
        out->programs[i] = tuner->of_programs ? lower_program(tuner, i, picks[i], out->session)
                                              : lower_kernels(tuner, i, &wish, arena);
        if (!out->programs[i])
            return;
        out->sites[i] = sites_of(tuner, i, out->programs[i], arena);
    }
    out->made =
        calls_compile(out->session, &options, &tuner->calls, out->programs, &out->loaded, &why);
    if (!out->made)
        problem(&options, "%s", why);
}

static void bind(const Tuner *tuner, Candidate *out) {
    Options options = candidate_options(tuner, out);
    out->made = out->made && calls_bind(&options, &tuner->calls, out->programs, &out->loaded);
}

void candidate_open(const Tuner *tuner, const Schedule *const *picks, Candidate *out) {
    *out = (Candidate){.session = session_fork(tuner->options->session)};
    compile(tuner, picks, out);
    bind(tuner, out);
}

void candidate_free(Candidate *candidate) {
    calls_unload(&candidate->loaded);
    session_free(candidate->session);
    *candidate = (Candidate){0};
}

bool candidate_run(const Tuner *tuner, const Candidate *candidate, double *seconds) {
    bool fine = true;
    Arena *arena = arena_new();
    Options options = candidate_options(tuner, candidate);
    memset(seconds, 0, tuner->spaces.at.count * sizeof *seconds);
    for (uint32_t c = 0; c < tuner->calls.count && fine; c++) {
        uint32_t n = candidate->programs[c]->launches.count;
        double *of_launch = arena_array(arena, double, n + 1);
        fine = calls_run(&options, &tuner->calls, &candidate->loaded, c, of_launch);
        for (uint32_t i = 0; i < n && fine; i++)
            seconds[candidate->sites[c][i]] += of_launch[i];
    }
    arena_free(arena);
    return fine;
}

// ---- in another thread --------------------------------------------------------------------------

struct Maker {
    const Tuner *tuner;
    const Schedule *const *picks;
    Candidate *out;
    pthread_t thread;
    bool started;
};

// One hardware thread of the last core that this process may use is for measuring, the other cores
// are for compiling.
static void choose_cores(CoreSets *sets) {
    int last = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &sets->all))
            last = cpu;
    CPU_ZERO(&sets->measure);
    CPU_SET(last, &sets->measure);
    CPU_ZERO(&sets->make);
    int core = att_core_leader(last);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &sets->all) && att_core_leader(cpu) != core)
            CPU_SET(cpu, &sets->make);
}

// There have to be two cores, and one thread that is planned for.
void tuner_pin(Tuner *tuner) {
    CoreSets *sets = &tuner->cores;
    if (tuner->machine.threads > 1 || sched_getaffinity(0, sizeof sets->all, &sets->all))
        return;
    choose_cores(sets);
    sets->apart =
        CPU_COUNT(&sets->make) > 0 && !sched_setaffinity(0, sizeof sets->measure, &sets->measure);
}

void tuner_unpin(const Tuner *tuner) {
    if (tuner->cores.apart)
        sched_setaffinity(0, sizeof tuner->cores.all, &tuner->cores.all);
}

static void *make(void *of_maker) {
    Maker *maker = of_maker;
    compile(maker->tuner, maker->picks, maker->out);
    return NULL;
}

static bool start(Maker *maker) {
    pthread_attr_t attributes;
    const CoreSets *sets = &maker->tuner->cores;
    if (!sets->apart || pthread_attr_init(&attributes))
        return false;
    bool ok = !pthread_attr_setaffinity_np(&attributes, sizeof sets->make, &sets->make) &&
              !pthread_create(&maker->thread, &attributes, make, maker);
    pthread_attr_destroy(&attributes);
    return ok;
}

Maker *maker_start(Arena *arena, const Tuner *tuner, const Schedule *const *picks, Candidate *out) {
    Maker *maker = arena_new_of(arena, Maker);
    *maker = (Maker){.tuner = tuner, .picks = picks, .out = out};
    *out = (Candidate){.session = session_fork(tuner->options->session)};
    maker->started = start(maker);
    return maker;
}

void maker_finish(Maker *maker) {
    if (maker->started)
        pthread_join(maker->thread, NULL);
    else
        make(maker);
    bind(maker->tuner, maker->out);
}
