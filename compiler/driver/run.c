// SPDX-License-Identifier: Apache-2.0
// attc run: an entry on .npy files, compiled or through the oracle.
#include "driver/driver.h"

#include <string.h>

#include "arguments.h"

// -o Y=y.npy, or -o y.npy when there is one result. Index of the output, -1 after a message.
static int output_index(Options *options, const Compilation *compiled, const char *given) {
    const Graph *graph = compiled->built;
    AttOutputArgument output = att_argument_output(given);
    if (!output.name) {
        if (graph->outputs.count == 1)
            return 0;
        problem(options, "-o %s: %s has %u results; say which, as in -o %s=%s", given, graph->entry,
                graph->outputs.count, graph->outputs.at[0].name, given);
        return -1;
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        if (strlen(graph->outputs.at[i].name) == (size_t)output.name_length &&
            !strncmp(graph->outputs.at[i].name, output.name, (size_t)output.name_length))
            return (int)i;
    Text names = {.arena = options->session->arena};
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        text_printf(&names, "%s%s", i ? ", " : "", graph->outputs.at[i].name);
    const Session *session = options->session;
    Name name = names_find(session->names,
                           arena_printf(session->arena, "%.*s", output.name_length, output.name));
    Diag *diag =
        diag_error(session->diags, (Span){0}, "-o %s: %s has no result '%s'; its results: %s",
                   given, graph->entry, name, names.at);
    driver_hint_entry(options, compiled, name, true, diag);
    return -1;
}

static void print_summary(const Graph *graph, const Tensors *tensors, Arena *arena) {
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const AttTensorData *tensor = &tensors->outputs[i];
        const double *values = tensor_to_doubles(tensor, arena);
        int64_t count = tensor_count(tensor);
        printf("%s[%s]: %s, shape (", graph->outputs.at[i].name,
               dims_text(graph, &graph->outputs.at[i].order, arena), att_elem_name(tensor->elem));
        for (int k = 0; k < tensor->rank; k++)
            printf("%s%lld", k ? ", " : "", (long long)tensor->shape[k]);
        printf("), begins");
        for (int64_t k = 0; k < count && k < 6; k++)
            printf(" %.6g", values[k]);
        printf("%s\n", count > 6 ? " ..." : "");
    }
}

// Of the sizes that --dynamic tells, the nearest to what files have.
static void choose_sizes(const Options *options, Compilation *compiled, int64_t *extents) {
    Graph *graph = compiled->built;
    for (uint32_t d = 0; d < graph->dims.count; d++) {
        Dim *dim = &graph->dims.at[d];
        DimExtents sizes =
            program_sizes(options->session, compiled->program, dim->name, options->session->arena);
        if (!sizes.count)
            continue;
        extents[d] = sizes_nearest(&sizes, extents[d]);
        dim->planned = 0;
    }
}

// Code for tensors of about these extents, unless --dynamic tells others.
static bool lower_for(Options *options, const Target *target, PipelineOptions *passes,
                      Compilation *compiled, const Tensors *tensors) {
    Arena *arena = options->session->arena;
    int64_t *extents = tensors_extents(tensors, compiled->built, arena);
    choose_sizes(options, compiled, extents);
    graph_plan_for(compiled->built, extents);
    return driver_lower(options, target, passes, compiled, NULL);
}

static bool compute(Options *options, const Compilation *compiled, Tensors *tensors) {
    if (options->oracle) {
        double **results = oracle_run(tensors, EVAL_F64, options->session->arena);
        for (uint32_t i = 0; i < tensors->graph->outputs.count; i++)
            tensor_from_doubles(&tensors->outputs[i], results[i]);
        return true;
    }
    return execute_compiled(options, compiled, tensors);
}

// The oracle's results are written in double precision, so that nothing of it is lost.
static bool widen_outputs(Options *options, Tensors *tensors) {
    for (uint32_t i = 0; i < tensors->graph->outputs.count; i++) {
        AttTensorData *tensor = &tensors->outputs[i];
        if (!elem_is_float((Elem)tensor->elem))
            continue;
        AttTensorData wide;
        if (att_tensor_new(tensors->context, ATT_F64, tensor->rank, tensor->shape, &wide)) {
            problem(options, "%s", att_message(tensors->context));
            return false;
        }
        att_tensor_free(tensor);
        *tensor = wide;
    }
    return true;
}

// Told before anything is computed. Returns an exit status.
static int check_outputs(Options *options, const Compilation *compiled) {
    const Graph *graph = compiled->built;
    int status = EXIT_FINE;
    bool *given = arena_array(options->session->arena, bool, graph->outputs.count);
    for (uint32_t i = 0; i < options->outputs.count; i++) {
        int index = output_index(options, compiled, options->outputs.at[i]);
        if (index >= 0 && given[index])
            return usage_error("-o %s: %s is given twice", options->outputs.at[i],
                               graph->outputs.at[index].name);
        if (index < 0 ||
            !driver_may_write(options, att_argument_output(options->outputs.at[i]).path))
            status = EXIT_PROBLEM;
        else
            given[index] = true;
    }
    return status;
}

static bool write_outputs(Options *options, const Compilation *compiled, Tensors *tensors) {
    for (uint32_t i = 0; i < options->outputs.count; i++) {
        int index = output_index(options, compiled, options->outputs.at[i]);
        const char *path = att_argument_output(options->outputs.at[i]).path;
        if (att_npy_write(tensors->context, att_argument_output_path(path),
                          &tensors->outputs[index])) {
            problem(options, "%s", att_message(tensors->context));
            return false;
        }
    }
    return true;
}

int command_run(Options *options) {
    const Target *target = options->oracle ? NULL : driver_target(options);
    if (!target && !options->oracle)
        return EXIT_PROBLEM;
    Compilation compiled;
    PipelineOptions passes =
        driver_passes(options, target, options->oracle ? AFTER_GRAPH : AFTER_TILE);
    const Program *program = driver_front(options);
    if (!program || !pipeline_build(options->session, program, &passes, &compiled))
        return EXIT_PROBLEM;
    int status = check_outputs(options, &compiled);
    if (status != EXIT_FINE)
        return status;
    driver_tell_entry(options, &compiled);
    Tensors tensors;
    bool fine =
        tensors_open(options, &compiled, true, &tensors) &&
        lower_for(options, target, &passes, &compiled, &tensors) &&
        (!options->oracle || oracle_fits(options, &tensors, NULL)) &&
        tensors_fill(options, &tensors) && (!options->oracle || widen_outputs(options, &tensors)) &&
        compute(options, &compiled, &tensors) && write_outputs(options, &compiled, &tensors);
    if (fine && !options->outputs.count)
        print_summary(compiled.built, &tensors, options->session->arena);
    tensors_close(&tensors);
    return fine ? EXIT_FINE : EXIT_PROBLEM;
}
