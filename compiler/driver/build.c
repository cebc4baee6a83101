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
        out[n] = driver_with_machine(options, *t);
        if (!out[n++])
            return 0;
    }
    return n;
}

// ---- one program ----

// One part of a function for one level.
typedef struct {
    Session *session; // a fork
    PipelineOptions passes;
    const GradientGraphs *graphs; // NULL: of the entry
    const Graph *part;
    Compilation compiled;
    bool ok;
} Lowering;

static void lower_one(void *lowerings, uint32_t i) {
    Lowering *l = (Lowering *)lowerings + i;
    l->ok = l->graphs
                ? pipeline_lower_part(l->session, l->graphs, l->part, &l->passes, &l->compiled)
                : pipeline_lower(l->session, &l->passes, &l->compiled);
}

// ---- all of them ----

enum { ENTRY, FORWARD, BACKWARD, BOTH, PROGRAMS_MAX };

typedef struct {
    Options *options;
    const Program *program;
    uint32_t n_targets;
    const Target *targets[LEVELS_MAX];
    uint32_t n_programs; // for each level: the entry, with its gradient in parts, or all
    Lowering lowerings[LEVELS_MAX * PROGRAMS_MAX]; // the entry's for all levels, forward's, ...
    TileProgram *programs[PROGRAMS_MAX][LEVELS_MAX];
    ProductFunction functions[PROGRAMS_MAX]; // of the programs
} Build;

// From the built graphs on programs have nothing in common. With --time-passes they do not run
// beside each other. entry, parts: what either saves.
static bool lower_built(Build *build, const Compilation *built, const GradientGraphs *graphs,
                        Saving entry, Saving parts) {
    Options *options = build->options;
    uint32_t count = build->n_programs * build->n_targets;
    const Graph *of[] = {NULL, graphs->forward, graphs->backward, graphs->both};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t program = i / build->n_targets;
        Lowering *lowering = &build->lowerings[i];
        lowering->session = session_fork(options->session);
        lowering->passes = driver_passes(options, build->targets[i % build->n_targets], AFTER_TILE);
        lowering->passes.only_tile = true;
        lowering->passes.saving = program == ENTRY ? entry : parts;
        lowering->compiled = *built;
        lowering->graphs = program == ENTRY ? NULL : graphs;
        lowering->part = of[program];
    }
    if (options->time_passes)
        for (uint32_t i = 0; i < count; i++)
            lower_one(build->lowerings, i);
    else
        jobs_run(count, lower_one, build->lowerings);
    bool ok = true;
    for (uint32_t i = 0; i < count; i++) {
        session_join(options->session, build->lowerings[i].session);
        ok = ok && build->lowerings[i].ok;
        build->programs[i / build->n_targets][i % build->n_targets] =
            build->lowerings[i].compiled.tile;
    }
    return ok;
}

static void add_functions(Build *build) {
    static const char *const suffixes[] = {"", "_forward", "_backward", "_gradient"};
    for (uint32_t i = 0; i < build->n_programs; i++)
        build->functions[i] = (ProductFunction){suffixes[i], build->programs[i], 1};
}

// Programs of all functions for each target. The graphs that they are made from are freed. What
// --exe makes of a gradient computes all in one call.
static bool lower_all(Build *build) {
    Options *options = build->options;
    Session early = *options->session;
    early.arena = arena_new();
    bool parts = options->grad && options->product != PRODUCT_EXE;
    PipelineOptions passes = driver_passes(options, build->targets[0], AFTER_TILE), plain = passes;
    GradientGraphs graphs = {0};
    Compilation built;
    MemoryTrials trials = {0};
    if (parts)
        plain.gradient = NULL;
    bool ok =
        pipeline_build(&early, build->program, &plain, &built) &&
        (!parts || driver_partition(options, &early, build->program, build->targets,
                                    build->n_targets, &passes, &graphs)) &&
        memory_fit(options, &built, build->targets, build->n_targets, &plain.saving, &trials);
    build->n_programs = graphs.both ? PROGRAMS_MAX : parts ? BOTH : 1;
    ok = ok && lower_built(build, &built, &graphs, plain.saving, passes.saving);
    if (ok)
        add_functions(build);
    arena_free(early.arena);
    return ok;
}

static void free_lowerings(Build *build) {
    for (uint32_t i = 0; i < build->n_programs * build->n_targets; i++)
        session_free(build->lowerings[i].session);
}

int command_build(Options *options) {
    if (options->outputs.count != 1)
        return usage_error("%s: give one -o OUT", options->command);
    Build *build = arena_new_of(options->session->arena, Build);
    build->options = options;
    build->n_targets = product_targets(options, build->targets, LEVELS_MAX);
    if (!build->n_targets)
        return EXIT_PROBLEM;
    build->program = pipeline_front(options->session, options->file);
    if (!build->program || !driver_may_write(options, options->outputs.at[0]))
        return EXIT_PROBLEM;
    ProductOptions about = {
        .kind = options->product,
        .output = options->outputs.at[0],
        .runtime_archive = ATTC_RUNTIME_ARCHIVE,
        .source = options->file,
    };
    const char *why = NULL;
    Product *product = NULL;
    bool lowered = lower_all(build);
    ProductEntry entry = {build->functions, build->n_programs, build->targets, build->n_targets};
    if (lowered)
        product = product_compile(options->session, &entry, &options->cache, &about, &why);
    free_lowerings(build); // they take more memory than what is left to do
    if (!lowered)
        return EXIT_PROBLEM;
    if (!product || !product_write(product, &why))
        return problem(options, "%s", why);
    return EXIT_FINE;
}
