// SPDX-License-Identifier: Apache-2.0
// Running a compiled entry in this process.
#include "driver/driver.h"

#include <string.h>

static AttTensorData *input_named(const Tensors *tensors, const char *name) {
    for (uint32_t i = 0; i < tensors->graph->inputs.count; i++)
        if (strcmp(tensors->graph->inputs.at[i]->name, name) == 0)
            return &tensors->inputs[i];
    return NULL;
}

static AttTensorData *output_named(const Tensors *tensors, const char *name) {
    for (uint32_t i = 0; i < tensors->graph->outputs.count; i++)
        if (strcmp(tensors->graph->outputs.at[i].name, name) == 0)
            return &tensors->outputs[i];
    return NULL;
}

// No gradient is added to what is there, and the cotangent of a scalar is 1 where none is.
static void *pointer_to(const Tensors *tensors, const AttTensor *tensor, Arena *arena) {
    if (tensor->use == ATT_USE_FLAG)
        return arena_new_of(arena, int64_t);
    const AttTensorData *found = tensor->role == ATT_INPUT ? input_named(tensors, tensor->name)
                                                           : output_named(tensors, tensor->name);
    if (!found && tensor->use != ATT_USE_COTANGENT)
        ice("execute_load: no tensor is called %s", tensor->name);
    return found ? found->data : NULL;
}

static bool make_workspace(Options *options, const Tensors *tensors, Loaded *out) {
    int64_t bytes = att_module_workspace(out->parts, out->extents);
    if (!att_tensor_new(tensors->context, ATT_BOOL, 1, &bytes, &out->workspace))
        return true;
    problem(options, "%s", att_message(tensors->context));
    return false;
}

LoadedProduct *execute_compile(Session *session, const Options *options, TileProgram *const *parts,
                               uint32_t n_parts, const Target *target, const char **why) {
    double begun = pipeline_seconds();
    ProductFunction function = {.suffix = "", .programs = parts, .n_parts = n_parts};
    LoadedProduct *product = product_load(session, &function, target, &options->cache, why);
    if (product && options->time_passes)
        pipeline_print_time("load", begun, true);
    return product;
}

bool execute_bind(Options *options, LoadedProduct *product, TileProgram *const *parts,
                  uint32_t n_parts, const Target *target, const Tensors *tensors, Loaded *out) {
    Arena *arena = options->session->arena;
    *out = (Loaded){.product = product};
    const AttModule *module = product_module(product);
    const AttLaunch *launches = module->launches[target->level];
    for (uint32_t i = 0; i < n_parts; i++) {
        out->parts[i] = *module;
        out->parts[i].launches[target->level] = launches;
        out->parts[i].n_launches[target->level] = parts[i]->launches.count;
        launches += parts[i]->launches.count;
    }
    out->extents = product_extents(arena, module, tensors->graph, tensors->extents);
    out->pointers = arena_array(arena, void *, module->n_tensors + 1);
    for (int64_t i = 0; i < module->n_tensors && module->tensors[i].role != ATT_WORK; i++)
        out->pointers[i] = pointer_to(tensors, &module->tensors[i], arena);
    return n_parts == 1 || make_workspace(options, tensors, out);
}

bool execute_load(Options *options, TileProgram *const *parts, uint32_t n_parts,
                  const Target *target, const Tensors *tensors, Loaded *out) {
    const char *why = NULL;
    *out = (Loaded){0};
    LoadedProduct *product =
        execute_compile(options->session, options, parts, n_parts, target, &why);
    if (!product)
        problem(options, "%s", why);
    return product && execute_bind(options, product, parts, n_parts, target, tensors, out);
}

void execute_unload(Loaded *loaded) {
    product_unload(loaded->product);
    att_tensor_free(&loaded->workspace);
}

bool execute_run(Options *options, const Loaded *loaded, uint32_t part, const Tensors *tensors,
                 double *seconds) {
    AttRun run = {.extents = loaded->extents,
                  .tensors = loaded->pointers,
                  .workspace = loaded->workspace.data,
                  .seconds = seconds};
    if (!att_module_run(tensors->context, &loaded->parts[part], &run))
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
    bool fine =
        execute_load(options, &compiled->tile, 1, driver_target(options), tensors, &loaded) &&
        execute_run(options, &loaded, 0, tensors, NULL);
    execute_unload(&loaded);
    return fine;
}
