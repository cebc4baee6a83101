// SPDX-License-Identifier: Apache-2.0
// The passes in their order. A pass is one line of pipeline_run; what stands between two passes
// (verifier, clock) is in pass_done.
#include "pipeline.h"

#include <time.h>

typedef struct {
    const PipelineOptions *options;
    double begun;
} PassClock;

double pipeline_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void pipeline_print_time(const char *pass, double begun, bool changed) {
    fprintf(stderr, "%-10s %8.3f ms%s\n", pass, 1e3 * (pipeline_seconds() - begun),
            changed ? "" : "  (unchanged)");
}

static void pass_done(PassClock *clock, const char *pass, bool changed) {
    if (clock->options->time_passes)
        pipeline_print_time(pass, clock->begun, changed);
    clock->begun = pipeline_seconds();
}

static void graph_done(PassClock *clock, const char *pass, const Graph *graph,
                       const Graph *before) {
    if (clock->options->verify)
        graph_verify(graph, pass);
    bool changed =
        !clock->options->time_passes || !before || graph_hash(graph) != graph_hash(before);
    pass_done(clock, pass, changed);
}

Program *pipeline_front(Session *session, const char *path) {
    const char *why = NULL;
    uint32_t file = sources_read(session->sources, path, &why);
    if (!file) {
        diag_error(session->diags, (Span){0}, "%s", why);
        return NULL;
    }
    Program *program = program_new(session->arena);
    ast_parse(session, program, file);
    ast_add_prelude(session, program);
    bool resolved = ast_resolve(session, program);
    return resolved && !diags_errors(session->diags) ? program : NULL;
}

// A session like this one, whose graphs are freed together before the others.
static Session *early_session(Session *session, const PipelineOptions *options) {
    if (!options->only_tile || options->stop != AFTER_TILE)
        return session;
    Session *early = arena_copy(session->arena, session, sizeof *session);
    early->arena = arena_new();
    return early;
}

// The fused graph, and what it is made of, belongs to the session again.
static void leave_early(Session *session, Graph *last) {
    if (last->session == session)
        return;
    last->session = session;
    last->arena = session->arena;
    for (uint32_t i = 0; i < last->rules.count; i++)
        last->rules.at[i].formula = formula_copy(session->arena, last->rules.at[i].formula);
}

static void free_early(Session *session, Session *early, Compilation *out) {
    if (early == session)
        return;
    arena_free(early->arena);
    out->plain = out->built = out->simplified = out->contracted = out->expanded = NULL;
}

static bool fuse(Session *session, PassClock *clock, Compilation *out) {
    const PipelineOptions *options = clock->options;
    leave_early(session, out->expanded);
    out->fusion = graph_fuse(out->expanded, out->typical, options->plan != PLAN_UNFUSED);
    if (options->verify)
        fusion_verify(out->fusion, "fuse");
    pass_done(clock, "fuse", true);
    return !options->no_materialize || fusion_check_quadratic(out->fusion, out->contracted);
}

bool pipeline_run(Session *session, const Program *program, const PipelineOptions *options,
                  Compilation *out) {
    PassClock clock = {options, pipeline_seconds()};
    Arena *arena = session->arena;
    Session *early = early_session(session, options);
    const Machine *machine = options->machine;
    *out = (Compilation){.program = program};

    out->built = graph_build(early, program, &options->entry);
    if (!out->built || diags_errors(session->diags)) {
        free_early(session, early, out);
        return false;
    }
    graph_done(&clock, "build", out->built, NULL);
    if (options->gradient) {
        Graph *before = out->plain = out->built;
        out->built = graph_gradient(before, options->gradient);
        if (!out->built) {
            free_early(session, early, out);
            return false;
        }
        graph_done(&clock, "gradient", out->built, before);
    }
    out->typical = options->typical ? options->typical : graph_typical_extents(out->built, arena);
    if (options->stop == AFTER_GRAPH)
        return true;

    out->simplified = graph_simplify(out->built, out->typical, machine);
    graph_done(&clock, "simplify", out->simplified, out->built);
    // Passes may add dims that stand in for others (aliases of summed dims).
    out->typical =
        options->typical ? options->typical : graph_typical_extents(out->simplified, arena);
    if (options->stop == AFTER_SIMPLIFIED)
        return true;

    out->contracted = graph_contract(out->simplified, out->typical, machine);
    graph_done(&clock, "contract", out->contracted, out->simplified);
    Graph *contracted = out->contracted;
    out->contracted = graph_unify(contracted);
    graph_done(&clock, "unify", out->contracted, contracted);
    if (options->stop == AFTER_CONTRACTED)
        return true;

    out->expanded = graph_expand(out->contracted, out->typical);
    graph_done(&clock, "expand", out->expanded, out->contracted);
    if (options->plan != PLAN_UNFUSED) {
        Graph *once = out->expanded, *twice = graph_recompute(once, out->typical);
        out->expanded = twice ? twice : once;
        graph_done(&clock, "recompute", out->expanded, once);
        if (twice && !options->typical)
            out->typical = graph_typical_extents(out->expanded, arena);
    }
    Graph *whole = out->expanded;
    out->expanded = graph_cut(whole, out->typical);
    graph_done(&clock, "cut", out->expanded, whole);
    if (!options->typical)
        out->typical = graph_typical_extents(out->expanded, arena);
    bool fused = fuse(session, &clock, out);
    free_early(session, early, out);
    if (!fused || options->stop == AFTER_FUSED)
        return fused;

    MemoryOrder *orders = graph_layout(out->fusion, out->typical, machine);
    pass_done(&clock, "layout", true);
    out->plan = graph_plan(out->fusion, orders);
    if (options->verify)
        plan_verify(out->plan);
    pass_done(&clock, "plan", true);

    out->tile = tile_lower(
        out->plan, machine, out->typical,
        (StreamSchedule){.plan = options->plan, .rows = options->rows, .piece = options->piece});
    if (!out->tile)
        return false;
    if (options->verify)
        for (uint32_t i = 0; i < out->tile->kernels.count; i++)
            kernel_verify(out->tile->kernels.at[i], "lower");
    pass_done(&clock, "lower", true);
    return true;
}
