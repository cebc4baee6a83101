// SPDX-License-Identifier: Apache-2.0
// From tile programs to the tables of runtime/module.h, which say everything the runtime needs to
// know about an entry: its dims, its tensors, and which kernel runs when on which of them.
//
// There is one program per feature level. They agree on inputs, outputs and dims, which are matched
// by name; kernels, launches and intermediates are each level's own. Intermediates of different
// levels share slots (only one level runs), so the workspace is that of the hungriest level.
#include "product/product.h"

#include <string.h>

// The tables copy what ast.h and elem.def number on their own.
#define ELEM(NAME, name, bytes, kind)                                                              \
    _Static_assert((int)ELEM_##NAME == (int)ATT_##NAME, "element " #name);
#include "base/elem.def"
#undef ELEM
_Static_assert((int)N_ELEM == (int)ATT_N_ELEM, "elements of base and runtime");

enum { UNMAPPED = -1 };

// One level's numbers -> the module's.
typedef struct {
    const TileProgram *program;
    const Graph *graph;
    int level;
    int64_t *dims;    // by DimId
    int64_t *tensors; // by index into plan->buffers
    int64_t first_kernel;
} TableLevel;
typedef struct {
    Arena *arena;
    ModuleTables *tables;
    VEC(AttDim) dims;
    VEC(const char *) classes; // by module dim: name of its `like` root
    VEC(AttTensor) tensors;
    VEC(AttKernel) kernels;
    VEC(const char *) symbols;
    VEC(int64_t) levels;
} TableBuilder;

static const char *copy_text(TableBuilder *build, const char *text) {
    return arena_strndup(build->arena, text, strlen(text));
}

// ---- dims ----

static int64_t add_dim(TableBuilder *build, TableLevel *level, DimId id) {
    const Dim *dim = &level->graph->dims.at[id];
    int64_t at = 0;
    while (at < build->dims.count && strcmp(build->dims.at[at].name, dim->name) != 0)
        at++;
    if (at == build->dims.count) {
        const char *class = level->graph->dims.at[dim->like].name;
        AttDim new = {.name = copy_text(build, dim->name),
                      .extent = dim->extent,
                      .like = at,
                      .computed = graph_is_computed(level->graph, id),
                      .hidden = dim->made};
        vec_push(build->arena, &build->dims, new);
        vec_push(build->arena, &build->classes, copy_text(build, class));
        for (int64_t first = at; first-- > 0;)
            if (strcmp(build->classes.at[first], class) == 0)
                build->dims.at[at].like = first;
    }
    if (build->dims.at[at].extent != dim->extent)
        ice("product_tables: levels disagree on the extent of %s", dim->name);
    return level->dims[id] = at;
}

// A dim that only intermediates have stands for the one it is like, so that callers never see it.
static int64_t map_dim(TableBuilder *build, TableLevel *level, DimId id) {
    if (level->dims[id] != UNMAPPED)
        return level->dims[id];
    DimId root = level->graph->dims.at[id].like;
    if (root == id)
        return add_dim(build, level, id);
    return level->dims[id] = map_dim(build, level, root);
}

// A rule is about a class; another dim of it may be the one that callers see.
static void map_rule_dim(TableBuilder *build, TableLevel *level, DimId id) {
    for (uint32_t d = 0; d < level->graph->dims.count && level->dims[id] == UNMAPPED; d++)
        if (graph_dims_alike(level->graph, (DimId)d, id))
            level->dims[id] = level->dims[d];
    map_dim(build, level, id);
}

static void add_interface_dims(TableBuilder *build, TableLevel *level) {
    const Plan *plan = level->program->plan;
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        const Buffer *buffer = &plan->buffers.at[i];
        bool seen = buffer->role == BUFFER_INPUT || buffer->role == BUFFER_OUTPUT;
        for (uint8_t d = 0; seen && d < buffer->memory.order.count; d++)
            if (level->dims[buffer->memory.order.at[d]] == UNMAPPED)
                add_dim(build, level, buffer->memory.order.at[d]);
    }
}

// The rules are those of the source, the same in every level.
static void add_rules(TableBuilder *build, TableLevel *level) {
    const Graph *graph = level->graph;
    bool *needed = arena_array(build->arena, bool, graph->dims.count + 1);
    for (uint32_t i = 0; i < graph->rules.count; i++) {
        needed[graph->rules.at[i].dim] = true;
        product_formula_dims(graph->rules.at[i].formula, needed);
    }
    for (uint32_t d = 0; d < graph->dims.count; d++)
        if (needed[d])
            map_rule_dim(build, level, (DimId)d);
    build->tables->module.n_rules = graph->rules.count;
    build->tables->module.rules = product_rules(build->arena, graph, level->dims);
}

// ---- tensors ----

static const char *tensor_name(TableBuilder *build, const TableLevel *level, const Buffer *buffer) {
    const Value *value = buffer->value;
    if (buffer->role == BUFFER_INPUT)
        return copy_text(build, value->name);
    for (uint32_t i = 0; buffer->role == BUFFER_OUTPUT && i < level->graph->outputs.count; i++)
        if (level->graph->outputs.at[i].value == value)
            return copy_text(build, level->graph->outputs.at[i].name);
    return value->hint ? copy_text(build, value->hint)
                       : arena_printf(build->arena, "v%u", value->id);
}

static void add_tensor(TableBuilder *build, TableLevel *level, uint32_t index) {
    static const int64_t roles[] = {ATT_INPUT, ATT_OUTPUT, ATT_WORK}; // by BufferRole
    const Buffer *buffer = &level->program->plan->buffers.at[index];
    int64_t *dims = arena_array(build->arena, int64_t, buffer->memory.order.count + 1);
    for (uint8_t d = 0; d < buffer->memory.order.count; d++)
        dims[d] = map_dim(build, level, buffer->memory.order.at[d]);
    int64_t panel = 0;
    for (uint8_t d = 0; d < buffer->memory.order.count; d++)
        if (buffer->memory.order.at[d] == buffer->memory.panel)
            panel = d;
    AttTensor tensor = {
        .name = tensor_name(build, level, buffer),
        .elem = buffer->value->elem,
        .role = roles[buffer->role],
        .slot = buffer->role == BUFFER_WORK ? buffer->slot : 0,
        .rank = buffer->memory.order.count,
        .dims = dims,
        .is_param = buffer->role == BUFFER_INPUT && buffer->value->role == ROLE_PARAM,
        .panel = panel,
        .panel_width = buffer->memory.panel == DIM_NONE ? 0 : buffer->memory.panel_width,
    };
    level->tensors[index] = build->tensors.count;
    vec_push(build->arena, &build->tensors, tensor);
}

// Inputs and outputs are the same in every level: the first adds them, the others find them.
static void add_tensors(TableBuilder *build, TableLevel *level, bool work) {
    const Plan *plan = level->program->plan;
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        const Buffer *buffer = &plan->buffers.at[i];
        if (buffer->role == BUFFER_VIEW || (buffer->role == BUFFER_WORK) != work)
            continue;
        if (work || level->first_kernel == 0) {
            add_tensor(build, level, i);
            continue;
        }
        const char *name = tensor_name(build, level, buffer);
        if (i >= build->tensors.count || strcmp(build->tensors.at[i].name, name) != 0)
            ice("product_tables: levels disagree on tensor %s", name);
        level->tensors[i] = i;
    }
    if (work && plan->n_slots > build->tables->module.n_slots)
        build->tables->module.n_slots = plan->n_slots;
}

// ---- kernels and launches ----

static void add_kernel(TableBuilder *build, TableLevel *level, const Kernel *kernel,
                       const Target *target) {
    VEC(int64_t) dims = {0};
    VEC(int64_t) steps = {0};
    Node *const *body = kernel->body.at;
    uint32_t n_body = kernel->body.count;
    while (n_body && body[0]->kind == NODE_LOOP && body[0]->loop == LOOP_PARALLEL) {
        vec_push(build->arena, &dims, body[0]->dim);
        vec_push(build->arena, &steps, body[0]->step);
        n_body = body[0]->body.count;
        body = body[0]->body.at;
    }
    AttKernel made = {
        .name = copy_text(build, kernel->name),
        .n_parallel = dims.count,
        .parallel_dims = dims.at,
        .n_args = kernel->n_args,
        .n_dims = kernel->dims.count,
    };
    made.parallel_steps[level->level] = steps.at;
    vec_push(build->arena, &build->kernels, made);
    vec_push(build->arena, &build->symbols, emit_kernel_symbol(build->arena, kernel, target));
    vec_push(build->arena, &build->levels, level->level);
}

static AttLaunch make_launch(TableBuilder *build, TableLevel *level, const Launch *launch) {
    const Kernel *kernel = level->program->kernels.at[launch->kernel];
    int64_t *tensors = arena_array(build->arena, int64_t, kernel->n_args);
    for (uint32_t i = 0; i < kernel->n_args; i++) {
        const Buffer *buffer = &level->program->plan->buffers.at[launch->buffers[i]];
        tensors[i] = level->tensors[buffer->role == BUFFER_VIEW ? buffer->of : launch->buffers[i]];
    }
    VEC(int64_t) factors = {0};
    for (uint32_t d = 0; d < kernel->dims.count; d++) {
        const DimProduct *product = &launch->dims[d];
        vec_push(build->arena, &factors, product->count);
        for (uint8_t f = 0; f < product->count; f++)
            vec_push(build->arena, &factors, map_dim(build, level, product->at[f]));
    }
    return (AttLaunch){level->first_kernel + launch->kernel,
                       tensors,
                       factors.at,
                       launch->most ? map_dim(build, level, launch->guard) : 0,
                       launch->least,
                       launch->most};
}

static void add_launches(TableBuilder *build, TableLevel *level) {
    uint32_t n = level->program->launches.count;
    AttLaunch *launches = arena_array(build->arena, AttLaunch, n);
    for (uint32_t i = 0; i < n; i++)
        launches[i] = make_launch(build, level, &level->program->launches.at[i]);
    build->tables->module.n_launches[level->level] = n;
    build->tables->module.launches[level->level] = launches;
}

static TableLevel open_level(TableBuilder *build, const TileProgram *program,
                             const Target *target) {
    const Graph *graph = program->plan->fusion->graph;
    TableLevel level = {program, graph, target->level, .first_kernel = build->kernels.count};
    level.dims = arena_array(build->arena, int64_t, graph->dims.count);
    for (uint32_t i = 0; i < graph->dims.count; i++)
        level.dims[i] = UNMAPPED;
    level.tensors = arena_array(build->arena, int64_t, program->plan->buffers.count);
    return level;
}

ModuleTables *product_tables(Arena *arena, TileProgram *const *programs,
                             const Target *const *targets, uint32_t n) {
    ModuleTables *tables = arena_new_of(arena, ModuleTables);
    TableBuilder build = {.arena = arena, .tables = tables};
    TableLevel *levels = arena_array(arena, TableLevel, n);
    for (uint32_t i = 0; i < n; i++) {
        levels[i] = open_level(&build, programs[i], targets[i]);
        add_interface_dims(&build, &levels[i]);
        add_tensors(&build, &levels[i], false);
        for (uint32_t k = 0; k < programs[i]->kernels.count; k++)
            add_kernel(&build, &levels[i], programs[i]->kernels.at[k], targets[i]);
    }
    add_rules(&build, &levels[0]);
    for (uint32_t i = 0; i < n; i++) {
        add_tensors(&build, &levels[i], true);
        add_launches(&build, &levels[i]);
    }
    tables->kernels = build.kernels.at;
    tables->symbols = build.symbols.at;
    tables->levels = build.levels.at;
    AttModule *module = &tables->module;
    module->abi = ATT_MODULE_ABI;
    module->entry = copy_text(&build, levels[0].graph->entry);
    module->n_dims = build.dims.count;
    module->dims = build.dims.at;
    module->n_tensors = build.tensors.count;
    module->tensors = build.tensors.at;
    module->n_kernels = build.kernels.count;
    module->kernels = build.kernels.at;
    return tables;
}

int64_t *product_extents(Arena *arena, const AttModule *module, const Graph *graph,
                         const int64_t *extents) {
    int64_t *found = arena_array(arena, int64_t, module->n_dims + 1);
    for (int64_t i = 0; i < module->n_dims; i++) {
        uint32_t d = 0;
        while (d < graph->dims.count && strcmp(graph->dims.at[d].name, module->dims[i].name) != 0)
            d++;
        if (d == graph->dims.count && module->dims[i].extent >= 0) { // made by a pass
            found[i] = module->dims[i].extent;
            continue;
        }
        if (d == graph->dims.count)
            ice("product_extents: the graph has no dim %s", module->dims[i].name);
        found[i] = extents[d];
    }
    return found;
}
