// SPDX-License-Identifier: Apache-2.0
// What is timed: an entry alone, in one call; or with --grad three calls: the parts that
// `attc build --grad` makes, forward and then backward on what that saved, and all in one call, as
// `attc run --grad` has it. With --exe it is what a program does most: of one that trains the step
// to results and gradients.
#include "driver/driver.h"
#include "graph/model.h"

enum { FORWARD, BACKWARD, BOTH };

static bool lower_part(const Options *options, const GradientGraphs *graphs, const Graph *part,
                       const PipelineOptions *passes, Call *call, const char *name) {
    call->name = name;
    call->passes = *passes;
    call->graphs = graphs;
    call->part = part;
    return pipeline_lower_part(options->session, graphs, part, passes, &call->compiled);
}

// So that the workspace fits; from what was built.
static bool lower_whole(Options *options, const Target *target, PipelineOptions *passes,
                        Call *call) {
    bool fine = driver_lower(options, target, passes, &call->compiled, NULL);
    call->passes = *passes;
    return fine;
}

bool call_lower(Session *session, const Call *call, const ProgramSchedule *choice,
                Compilation *out) {
    PipelineOptions passes = call->passes;
    passes.choice = choice;
    passes.time_passes = false;
    if (call->part)
        return pipeline_lower_part(session, call->graphs, call->part, &passes, out);
    *out = call->compiled;
    return pipeline_lower(session, &passes, out);
}

static bool compile_entry(Calls *calls, Options *options, const Program *program) {
    PipelineOptions passes = driver_passes(options, calls->target, AFTER_TILE);
    Compilation *compiled = &calls->at[0].compiled;
    calls->count = 1;
    return pipeline_build(options->session, program, &passes, compiled) &&
           lower_whole(options, calls->target, &passes, &calls->at[0]);
}

// The results and gradients that a program trains with. false without a word: it does not train.
static bool compile_step(Calls *calls, Options *options, const Program *program) {
    Session *session = options->session;
    PipelineOptions passes = driver_passes(options, calls->target, AFTER_TILE);
    Compilation *compiled = &calls->at[0].compiled;
    passes.gradient = NULL;
    if (!pipeline_build(session, program, &passes, compiled) ||
        graph_trains(compiled->built).kind != TRAINS)
        return false;
    GradientOptions *wrt = arena_new_of(session->arena, GradientOptions);
    *wrt =
        (GradientOptions){.of_first = true, .wrt = graph_trained(compiled->built, session->arena)};
    passes.gradient = wrt;
    passes.accumulate = true;
    calls->count = 1;
    return pipeline_build(session, program, &passes, compiled) &&
           lower_whole(options, calls->target, &passes, &calls->at[0]);
}

// As `attc build --exe` makes it: in one call, with --grad, too.
static bool compile_program(Calls *calls, Options *options, const Program *program) {
    return compile_step(calls, options, program) ||
           (!diags_errors(options->session->diags) && compile_entry(calls, options, program));
}

static bool compile_gradient(Calls *calls, Options *options, const Program *program) {
    PipelineOptions whole = driver_passes(options, calls->target, AFTER_TILE), parts = whole;
    Call *at = calls->at;
    GradientGraphs *graphs = &calls->graphs;
    calls->count = BOTH + 1;
    at[BOTH].name = "both";
    return pipeline_build(options->session, program, &whole, &at[BOTH].compiled) &&
           lower_whole(options, calls->target, &whole, &at[BOTH]) &&
           driver_partition(options, options->session, program, &calls->target, 1, &parts,
                            graphs) &&
           lower_part(options, graphs, graphs->forward, &parts, &at[FORWARD], "forward") &&
           lower_part(options, graphs, graphs->backward, &parts, &at[BACKWARD], "backward");
}

// The work of the backward part is what gradients need beyond the forward part.
static void count_work(Calls *calls, Options *options) {
    Arena *arena = options->session->arena;
    Call *at = calls->at;
    const Compilation *whole = &at[calls->count - 1].compiled;
    int64_t *extents = tensors_extents(&calls->tensors, whole->fusion->graph, arena);
    at[calls->count - 1].multiplies = graph_multiplies(whole->contracted, extents);
    at[calls->count - 1].masked = report_masked(whole, extents);
    if (calls->count == 1)
        return;
    const Compilation *forward = &at[FORWARD].compiled;
    extents = tensors_extents(&calls->tensors, calls->graphs.forward, arena);
    at[FORWARD].multiplies = graph_multiplies(calls->graphs.forward, extents);
    extents = tensors_extents(&calls->tensors, forward->fusion->graph, arena);
    at[FORWARD].masked = report_masked(forward, extents);
    at[BACKWARD].multiplies = at[BOTH].multiplies - at[FORWARD].multiplies;
    at[BACKWARD].masked =
        at[BOTH].masked > at[FORWARD].masked ? at[BOTH].masked - at[FORWARD].masked : 0;
}

int64_t calls_seen(const Call *call) {
    return call->multiplies - call->masked;
}

// parts: with those of --grad, not the whole alone.
static bool compile_calls(Calls *calls, Options *options, bool parts) {
    const Program *program = driver_front(options);
    if (!program)
        return false;
    if (options->product == PRODUCT_EXE)
        return compile_program(calls, options, program);
    return options->grad && parts ? compile_gradient(calls, options, program)
                                  : compile_entry(calls, options, program);
}

bool calls_compile_whole(Options *options, const Target *target, Compilation *out) {
    Calls calls = {.target = target};
    bool fine = compile_calls(&calls, options, false);
    *out = calls.at[0].compiled;
    return fine;
}

bool calls_open(Options *options, const Target *target, Calls *calls) {
    *calls = (Calls){.target = target};
    if (!compile_calls(calls, options, true))
        return false;
    const Compilation *whole = &calls->at[calls->count - 1].compiled;
    if (!tensors_open(options, whole, true, &calls->tensors) ||
        !tensors_fill(options, &calls->tensors))
        return false;
    count_work(calls, options);
    return true;
}

void calls_close(Calls *calls) {
    if (calls->tensors.graph)
        tensors_close(&calls->tensors);
}

// ---- loaded ------------------------------------------------------------------------------------

bool calls_compile(Session *session, const Options *options, const Calls *calls,
                   TileProgram *const *programs, LoadedCalls *out, const char **why) {
    const Target *target = calls->target;
    uint32_t whole = calls->count - 1;
    *out = (LoadedCalls){0};
    out->whole.product = execute_compile(session, options, &programs[whole], 1, target, why);
    if (!out->whole.product || !whole)
        return out->whole.product;
    out->parts.product = execute_compile(session, options, programs, BOTH, target, why);
    return out->parts.product;
}

bool calls_bind(Options *options, const Calls *calls, TileProgram *const *programs,
                LoadedCalls *out) {
    const Target *target = calls->target;
    uint32_t whole = calls->count - 1;
    return execute_bind(options, out->whole.product, &programs[whole], 1, target, &calls->tensors,
                        &out->whole) &&
           (!whole || execute_bind(options, out->parts.product, programs, BOTH, target,
                                   &calls->tensors, &out->parts));
}

bool calls_load(Options *options, const Calls *calls, LoadedCalls *out) {
    TileProgram *programs[CALLS_MAX];
    const char *why = NULL;
    for (uint32_t i = 0; i < calls->count; i++)
        programs[i] = calls->at[i].compiled.tile;
    if (calls_compile(options->session, options, calls, programs, out, &why))
        return calls_bind(options, calls, programs, out);
    problem(options, "%s", why);
    return false;
}

void calls_unload(LoadedCalls *loaded) {
    execute_unload(&loaded->parts);
    execute_unload(&loaded->whole);
}

bool calls_run(Options *options, const Calls *calls, const LoadedCalls *loaded, uint32_t call,
               double *seconds) {
    bool part = call + 1 < calls->count;
    return execute_run(options, part ? &loaded->parts : &loaded->whole, part ? call : 0,
                       &calls->tensors, seconds);
}
