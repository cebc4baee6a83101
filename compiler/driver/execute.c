// SPDX-License-Identifier: Apache-2.0
// Running a compiled entry in this process.
#include "driver/driver.h"

bool execute_load(Options *options, const Compilation *compiled, const Target *target,
                  const Tensors *tensors, Loaded *out) {
    Session *session = options->session;
    const char *why = NULL;
    *out = (Loaded){0};
    double begun = pipeline_seconds();
    out->product = product_load(session, compiled->tile, target, &options->cache, &why);
    if (!out->product) {
        problem(options, "%s", why);
        return false;
    }
    if (options->time_passes)
        pipeline_print_time("load", begun, true);
    const Graph *graph = compiled->fusion->graph;
    out->module = product_module(out->product);
    out->extents = product_extents(session->arena, out->module, tensors->graph, tensors->extents);
    uint32_t n_inputs = graph->inputs.count, n_outputs = graph->outputs.count;
    out->pointers = arena_array(session->arena, void *, n_inputs + n_outputs + 1);
    for (uint32_t i = 0; i < n_inputs; i++)
        out->pointers[i] = tensors->inputs[i].data;
    for (uint32_t i = 0; i < n_outputs; i++)
        out->pointers[n_inputs + i] = tensors->outputs[i].data;
    return true;
}

void execute_unload(Loaded *loaded) {
    product_unload(loaded->product);
}

bool execute_run(Options *options, const Loaded *loaded, const Tensors *tensors, double *seconds) {
    if (!att_module_run(tensors->context, loaded->module, loaded->extents, loaded->pointers, NULL,
                        seconds))
        return true;
    problem(options, "%s", att_message(tensors->context));
    return false;
}

static void interpret(const Compilation *compiled, const Tensors *tensors, Arena *arena) {
    const Graph *graph = compiled->fusion->graph;
    void **inputs = arena_array(arena, void *, graph->inputs.count + 1);
    void **outputs = arena_array(arena, void *, graph->outputs.count + 1);
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        inputs[i] = tensors->inputs[i].data;
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        outputs[i] = tensors->outputs[i].data;
    tile_interpret(compiled->tile, tensors_extents(tensors, graph, arena), inputs, outputs);
}

bool execute_compiled(Options *options, const Compilation *compiled, const Tensors *tensors) {
    if (options->interpret) {
        interpret(compiled, tensors, options->session->arena);
        return true;
    }
    Loaded loaded;
    bool fine = execute_load(options, compiled, driver_target(options), tensors, &loaded) &&
                execute_run(options, &loaded, tensors, NULL);
    execute_unload(&loaded);
    return fine;
}
