// SPDX-License-Identifier: Apache-2.0
// attc build: libraries, objects and programs, with code for every level of the architecture.
#include "driver/driver.h"

#include <string.h>

enum { LEVELS_MAX = 8 };

// The levels a product holds: the one asked for, or all that share the host's triple. 0 after a
// message.
static uint32_t product_targets(Options *options, const Target **out, uint32_t room) {
    const Target *first = driver_target(options);
    if (!first || options->target) {
        out[0] = first;
        return first != NULL;
    }
    uint32_t n = 0;
    for (const Target *const *t = targets_all(); *t && n < room; t++) {
        if (strcmp((*t)->triple, first->triple) != 0)
            continue;
        out[n] = driver_planned(options, *t);
        if (!out[n++])
            return 0;
    }
    return n;
}

// ---- one level ----

typedef struct {
    Session *session; // a fork
    PipelineOptions passes;
    Compilation compiled;
    bool ok;
} Level;

static void lower_level(void *levels, uint32_t i) {
    Level *level = (Level *)levels + i;
    level->ok = pipeline_lower(level->session, &level->passes, &level->compiled);
}

// ---- all levels ----

typedef struct {
    uint32_t n;
    const Target *targets[LEVELS_MAX];
    Level levels[LEVELS_MAX];
    TileProgram *programs[LEVELS_MAX];
} Levels;

// From the built graph on levels have nothing in common. With --time-passes they do not run beside
// each other.
static bool lower_built(Options *options, const Compilation *built, Levels *all) {
    for (uint32_t i = 0; i < all->n; i++) {
        PipelineOptions passes = driver_passes(options, all->targets[i], AFTER_TILE);
        passes.only_tile = true;
        all->levels[i] = (Level){session_fork(options->session), passes, *built, false};
    }
    if (options->time_passes)
        for (uint32_t i = 0; i < all->n; i++)
            lower_level(all->levels, i);
    else
        jobs_run(all->n, lower_level, all->levels);
    bool ok = true;
    for (uint32_t i = 0; i < all->n; i++) {
        session_join(options->session, all->levels[i].session);
        all->programs[i] = all->levels[i].compiled.tile;
        ok = ok && all->levels[i].ok;
    }
    return ok;
}

// A program for each target. The graph that they are made from is freed.
static bool lower_levels(Options *options, const Program *program, Levels *all) {
    Session early = *options->session;
    early.arena = arena_new();
    PipelineOptions passes = driver_passes(options, all->targets[0], AFTER_TILE);
    Compilation built;
    bool ok = pipeline_build(&early, program, &passes, &built) && lower_built(options, &built, all);
    arena_free(early.arena);
    return ok;
}

static void free_levels(Levels *all) {
    for (uint32_t i = 0; i < all->n; i++)
        session_free(all->levels[i].session);
}

int command_build(Options *options) {
    if (options->outputs.count != 1)
        return usage_error("%s: give one -o OUT", options->command);
    Levels all = {.n = 0};
    all.n = product_targets(options, all.targets, LEVELS_MAX);
    if (!all.n)
        return EXIT_PROBLEM;
    Program *program = pipeline_front(options->session, options->file);
    if (!program || !driver_may_write(options, options->outputs.at[0]))
        return EXIT_PROBLEM;
    ProductOptions about = {
        .kind = options->product,
        .output = options->outputs.at[0],
        .runtime_archive = ATTC_RUNTIME_ARCHIVE,
        .source = options->file,
    };
    const char *why = NULL;
    Product *product = NULL;
    bool lowered = lower_levels(options, program, &all);
    if (lowered)
        product = product_compile(options->session, all.programs, all.targets, all.n,
                                  &options->cache, &about, &why);
    free_levels(&all); // they take more memory than what is left to do
    if (!lowered)
        return EXIT_PROBLEM;
    if (!product || !product_write(product, &why))
        return problem(options, "%s", why);
    return EXIT_FINE;
}
