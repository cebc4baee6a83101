// SPDX-License-Identifier: Apache-2.0
// From tile programs to the tables of runtime/module.h, which say everything the runtime needs to
// know about an entry: its dims, its tensors, and which kernel runs when on which of them.
//
// There is one program per feature level. They agree on inputs, outputs and dims, which are matched
// by name; kernels, launches and intermediates are each level's own. Intermediates of different
// levels share slots (only one level runs), so the workspace is that of the hungriest level.
//
// Where some extents have programs of their own, all of these are in the tables, with guards.
//
// A function may have several programs for each level, its parts, which run one after the other and
// share slots likewise. What one saves for the next is an intermediate with a slot of its own.
#include "product/product.h"

#include <string.h>

// The tables copy what ast.h and elem.def number on their own.
#define ELEM(NAME, name, bytes, kind)                                                              \
    _Static_assert((int)ELEM_##NAME == (int)ATT_##NAME, "element " #name);
#include "base/elem.def"
#undef ELEM
_Static_assert((int)N_ELEM == (int)ATT_N_ELEM, "elements of base and runtime");

static const int64_t uses[] = {
    [USE_PLAIN] = ATT_USE_PLAIN, [USE_COTANGENT] = ATT_USE_COTANGENT,
    [USE_SAVED] = ATT_USE_SAVED, [USE_GRADIENT] = ATT_USE_GRADIENT,
    [USE_FLAG] = ATT_USE_FLAG,   [USE_RESULT] = ATT_USE_RESULT,
};

enum { UNMAPPED = -1 };

// One level's part: its numbers -> the module's.
typedef struct TableLevel {
    const TileProgram *program;
    const Graph *graph;
    int level;
    const struct TableLevel *before; // the part before it; NULL: it is the first
    bool last;                       // of the parts
    const ExtentRanges *ranges;      // that the program is for; NULL: of all extents
    AttGuard *guards;                // likewise
    int64_t *dims;                   // by DimId
    int64_t *tensors;                // by index into plan->buffers
    int64_t first_kernel;
    int64_t first_choice;
} TableLevel;
typedef struct {
    Arena *arena;
    ModuleTables *tables;
    VEC(AttDim) dims;
    VEC(const char *) classes; // by module dim: name of its `like` root
    VEC(AttTensor) tensors;
    VEC(AttKernel) kernels;
    VEC(const char *) symbols;
    VEC(ScheduleOrigin) origins;
    VEC(int64_t) levels;
} TableBuilder;

static const char *copy_text(TableBuilder *build, const char *text) {
    return arena_strndup(build->arena, text, strlen(text));
}

// ---- dims ----

// What passes make may have one name and different extents in programs for different extents, and
// for different machines.
static bool extents_agree(const AttDim *known, const Dim *dim) {
    return !dim->made || known->extent == dim->extent;
}

static bool is_same_dim(const AttDim *known, const Dim *dim) {
    return strcmp(known->name, dim->name) == 0 && extents_agree(known, dim);
}

static int64_t add_dim(TableBuilder *build, TableLevel *level, DimId id) {
    const Dim *dim = &level->graph->dims.at[id];
    int64_t at = 0;
    while (at < build->dims.count && !is_same_dim(&build->dims.at[at], dim))
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
            if (strcmp(build->classes.at[first], class) == 0 &&
                extents_agree(&build->dims.at[first], dim))
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

static TensorUse use_of(const TableLevel *level, const Buffer *buffer) {
    if (buffer->role == BUFFER_INPUT)
        return buffer->value->use;
    for (uint32_t i = 0; buffer->role == BUFFER_OUTPUT && i < level->graph->outputs.count; i++)
        if (level->graph->outputs.at[i].value == buffer->value)
            return level->graph->outputs.at[i].use;
    return USE_PLAIN;
}

// Saved tensors are over the dims that callers see anyway, as far as these are alike.
static void add_interface_dims(TableBuilder *build, TableLevel *level) {
    const Plan *plan = level->program->plan;
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        const Buffer *buffer = &plan->buffers.at[i];
        bool seen = (buffer->role == BUFFER_INPUT || buffer->role == BUFFER_OUTPUT) &&
                    use_of(level, buffer) != USE_SAVED;
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

static void find_guards(TableBuilder *build, TableLevel *level) {
    uint32_t n = level->ranges ? level->ranges->count : 0;
    level->guards = arena_array(build->arena, AttGuard, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const ExtentRange *range = &level->ranges->at[i];
        DimId dim = graph_find_dim(level->graph, range->dim);
        if (dim == DIM_NONE)
            ice("product_tables: programs for ranges of %s, which they do not have", range->dim);
        map_rule_dim(build, level, dim);
        level->guards[i] = (AttGuard){level->dims[dim], range->least, range->below};
    }
}

static void add_multiplies(TableBuilder *build, TableLevel *level, const Formula *multiplies,
                           int64_t masked) {
    const Graph *graph = level->graph;
    bool *needed = arena_array(build->arena, bool, graph->dims.count + 1);
    product_formula_dims(multiplies, needed);
    for (uint32_t d = 0; d < graph->dims.count; d++)
        if (needed[d])
            map_rule_dim(build, level, (DimId)d);
    build->tables->multiplies[level->level] =
        product_formula(build->arena, graph, multiplies, level->dims);
    build->tables->masked[level->level] = masked;
}

// ---- tensors ----

static const char *tensor_name(TableBuilder *build, const TableLevel *level, const Buffer *buffer) {
    const Value *value = buffer->value;
    if (buffer->role == BUFFER_INPUT)
        return copy_text(build, value->name);
    for (uint32_t i = 0; buffer->role == BUFFER_OUTPUT && i < level->graph->outputs.count; i++)
        if (level->graph->outputs.at[i].value == value)
            return copy_text(build, level->graph->outputs.at[i].name);
    return copy_text(build, value_label(build->arena, value));
}

static void add_tensor(TableBuilder *build, TableLevel *level, uint32_t index, int64_t role,
                       int64_t slot) {
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
        .role = role,
        .slot = slot,
        .rank = buffer->memory.order.count,
        .dims = dims,
        .is_param = buffer->role == BUFFER_INPUT && buffer->value->role == ROLE_PARAM &&
                    use_of(level, buffer) != USE_SAVED,
        .panel = panel,
        .panel_width = buffer->memory.panel == DIM_NONE ? 0 : buffer->memory.panel_width,
        .use = uses[use_of(level, buffer)],
    };
    if (role == ATT_WORK && level->ranges) {
        tensor.n_guards = level->ranges->count;
        tensor.guards = level->guards;
    }
    level->tensors[index] = build->tensors.count;
    vec_push(build->arena, &build->tensors, tensor);
}

static int64_t find_tensor(const TableBuilder *build, const char *name, int64_t role) {
    for (int64_t i = 0; i < build->tensors.count; i++)
        if (build->tensors.at[i].role == role && strcmp(build->tensors.at[i].name, name) == 0)
            return i;
    return UNMAPPED;
}

// Where an output of a part is.
static int64_t find_output(const TableLevel *level, uint32_t output) {
    const Plan *plan = level->program->plan;
    for (uint32_t i = 0; i < plan->buffers.count; i++)
        if (plan->buffers.at[i].role == BUFFER_OUTPUT &&
            plan->buffers.at[i].value == level->graph->outputs.at[output].value)
            return level->tensors[i];
    ice("product_tables: nothing writes %s", level->graph->outputs.at[output].name);
}

static bool is_written_inside(const TableLevel *level, const Buffer *buffer) {
    TensorUse use = use_of(level, buffer);
    bool earlier = level->before && (use == USE_SAVED || use == USE_RESULT);
    return buffer->role == BUFFER_INPUT && (earlier || use_is_in_result(use));
}

// Inputs and outputs are the same in every level: the first adds them, the others find them.
static void add_interface(TableBuilder *build, TableLevel *level, BufferRole role) {
    const Plan *plan = level->program->plan;
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        const Buffer *buffer = &plan->buffers.at[i];
        bool inside = is_written_inside(level, buffer) ||
                      (role == BUFFER_OUTPUT && !level->last && use_of(level, buffer) == USE_SAVED);
        if (buffer->role != role || inside)
            continue;
        int64_t as = role == BUFFER_INPUT ? ATT_INPUT : ATT_OUTPUT;
        level->tensors[i] = find_tensor(build, tensor_name(build, level, buffer), as);
        if (level->tensors[i] == UNMAPPED && level->first_kernel != 0 && !level->before)
            ice("product_tables: levels disagree on tensor %s", tensor_name(build, level, buffer));
        if (level->tensors[i] == UNMAPPED)
            add_tensor(build, level, i, as, 0);
    }
}

// What an earlier part saves for a later one.
static void add_saved(TableBuilder *build, TableLevel *level) {
    const Plan *plan = level->program->plan;
    AttModule *module = &build->tables->module;
    for (uint32_t i = 0; i < plan->buffers.count && !level->last; i++) {
        const Buffer *buffer = &plan->buffers.at[i];
        if (buffer->role != BUFFER_OUTPUT || use_of(level, buffer) != USE_SAVED)
            continue;
        level->tensors[i] = find_tensor(build, tensor_name(build, level, buffer), ATT_WORK);
        if (level->tensors[i] == UNMAPPED)
            add_tensor(build, level, i, ATT_WORK, module->n_slots++);
    }
}

static void add_work(TableBuilder *build, TableLevel *level) {
    const Plan *plan = level->program->plan;
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        const Buffer *buffer = &plan->buffers.at[i];
        if (buffer->role == BUFFER_WORK)
            add_tensor(build, level, i, ATT_WORK, buffer->slot);
        else if (is_written_inside(level, buffer))
            level->tensors[i] =
                find_output(use_is_in_result(buffer->value->use) ? level : level->before,
                            buffer->value->output);
    }
}

// ---- kernels and launches ----

// Of one level.
typedef struct {
    VEC(AttLaunch) at;
    VEC(int64_t) n_alternatives; // by choice
} AttLaunches;

static ScheduleOrigin origin_of(TableBuilder *build, const Schedule *schedule) {
    const char *from = schedule->found ? copy_text(build, schedule->found) : "predicted";
    return (ScheduleOrigin){schedule_to_json(build->arena, schedule), from};
}

static void add_kernel(TableBuilder *build, TableLevel *level, const Kernel *kernel,
                       const Target *target) {
    VEC(int64_t) dims = {0};
    VEC(int64_t) steps = {0};
    const Node *loop = nodes_parallel(&kernel->body);
    for (; loop; loop = nodes_parallel(&loop->body)) {
        vec_push(build->arena, &dims, loop->dim);
        vec_push(build->arena, &steps, loop->step);
    }
    AttKernel made = {
        .name = copy_text(build, kernel->name),
        .n_parallel = dims.count,
        .parallel_dims = dims.at,
        .n_args = kernel->n_args,
        .n_dims = kernel->dims.count,
        .is_ordered = kernel_ordered(kernel) > 0,
    };
    made.parallel_steps[level->level] = steps.at;
    vec_push(build->arena, &build->kernels, made);
    vec_push(build->arena, &build->symbols, emit_kernel_symbol(build->arena, kernel, target));
    vec_push(build->arena, &build->origins, origin_of(build, &kernel->schedule));
    vec_push(build->arena, &build->levels, level->level);
}

// Those of the program, and the launch's own.
static void add_launch_guards(TableBuilder *build, TableLevel *level, const Launch *launch,
                              AttLaunch *out) {
    VEC(AttGuard) guards = {0};
    for (uint32_t i = 0; level->ranges && i < level->ranges->count; i++)
        vec_push(build->arena, &guards, level->guards[i]);
    AttGuard own = {.least = launch->least, .below = launch->most};
    if (launch->most) {
        own.dim = map_dim(build, level, launch->guard);
        vec_push(build->arena, &guards, own);
    }
    out->n_guards = guards.count;
    out->guards = guards.at;
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
    AttLaunch made = {
        .kernel = level->first_kernel + launch->kernel,
        .tensors = tensors,
        .dim_factors = factors.at,
        .choice = launch->choice ? level->first_choice + launch->choice - 1 : ATT_NO_CHOICE,
        .alternative = launch->alternative,
    };
    add_launch_guards(build, level, launch, &made);
    return made;
}

// After those of the parts before it.
static void add_launches(TableBuilder *build, TableLevel *level, AttLaunches *launches) {
    const TileProgram *program = level->program;
    AttModule *module = &build->tables->module;
    level->first_choice = launches->n_alternatives.count;
    for (uint32_t i = 0; i < program->alternatives.count; i++)
        vec_push(build->arena, &launches->n_alternatives, program->alternatives.at[i]);
    for (uint32_t i = 0; i < program->launches.count; i++)
        vec_push(build->arena, &launches->at, make_launch(build, level, &program->launches.at[i]));
    module->n_launches[level->level] = launches->at.count;
    module->launches[level->level] = launches->at.at;
    module->n_choices[level->level] = launches->n_alternatives.count;
    module->n_alternatives[level->level] = launches->n_alternatives.at;
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

static void add_program(TableBuilder *build, TableLevel *level, const Target *target) {
    const TileProgram *program = level->program;
    add_interface_dims(build, level);
    for (uint32_t k = 0; k < program->kernels.count; k++)
        add_kernel(build, level, program->kernels.at[k], target);
    vec_push(build->arena, &build->tables->programs[level->level],
             origin_of(build, &program->choice));
    if (program->plan->n_slots > build->tables->module.n_slots)
        build->tables->module.n_slots = program->plan->n_slots;
}

uint32_t product_level_programs(const ProductFunction *function) {
    return function->n_parts * (function->n_ranges ? function->n_ranges : 1);
}

static TableLevel *open_levels(TableBuilder *build, const ProductFunction *function,
                               const Target *const *targets, uint32_t count) {
    uint32_t parts = function->n_parts, of_level = product_level_programs(function);
    TableLevel *levels = arena_array(build->arena, TableLevel, count);
    for (uint32_t i = 0; i < count; i++) {
        levels[i] = open_level(build, function->programs[i], targets[i / of_level]);
        levels[i].before = i % parts == 0 ? NULL : &levels[i - 1];
        levels[i].last = i % parts == parts - 1;
        if (function->n_ranges)
            levels[i].ranges = &function->ranges[i % of_level / parts];
        add_program(build, &levels[i], targets[i / of_level]);
    }
    return levels;
}

// Of each level: what runs when, by the names of code, which are hashes.
static void find_identities(TableBuilder *build) {
    AttModule *module = &build->tables->module;
    for (int64_t level = 0; level < ATT_N_LEVELS; level++) {
        uint64_t hash = 0;
        for (int64_t i = 0; i < module->n_launches[level]; i++) {
            const AttLaunch *launch = &module->launches[level][i];
            hash = hash_text(hash, build->symbols.at[launch->kernel]);
            hash =
                hash_u64(hash_u64(hash, (uint64_t)launch->choice), (uint64_t)launch->alternative);
        }
        module->identity[level] = (int64_t)hash;
    }
}

static void add_all_launches(TableBuilder *build, TableLevel *levels, uint32_t count,
                             uint32_t of_level) {
    AttLaunches launches = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (i % of_level == 0)
            launches = (AttLaunches){0};
        add_work(build, &levels[i]);
        add_launches(build, &levels[i], &launches);
    }
}

ModuleTables *product_tables(Arena *arena, const ProductFunction *function,
                             const Target *const *targets, uint32_t n) {
    ModuleTables *tables = arena_new_of(arena, ModuleTables);
    TableBuilder build = {.arena = arena, .tables = tables};
    uint32_t of_level = product_level_programs(function), count = n * of_level;
    TableLevel *levels = open_levels(&build, function, targets, count);
    for (uint32_t i = 0; i < count; i++)
        add_interface(&build, &levels[i], BUFFER_INPUT);
    for (uint32_t i = 0; i < count; i++)
        add_interface(&build, &levels[i], BUFFER_OUTPUT);
    add_rules(&build, &levels[0]);
    for (uint32_t i = 0; i < count; i++)
        find_guards(&build, &levels[i]);
    for (uint32_t i = 0; i < count; i++)
        add_saved(&build, &levels[i]);
    for (uint32_t i = 0; i < count; i++)
        if (function->multiplies && function->multiplies[i])
            add_multiplies(&build, &levels[i], function->multiplies[i], function->masked[i]);
    add_all_launches(&build, levels, count, of_level);
    find_identities(&build);
    const char *entry = levels[0].graph->entry;
    tables->symbol =
        arena_printf(arena, "%s%s", product_entry_symbol(arena, entry), function->suffix);
    tables->kernels = build.kernels.at;
    tables->symbols = build.symbols.at;
    tables->origins = build.origins.at;
    tables->levels = build.levels.at;
    AttModule *module = &tables->module;
    module->abi = ATT_MODULE_ABI;
    module->entry = arena_printf(arena, "%s%s", entry, function->suffix);
    module->n_dims = build.dims.count;
    module->dims = build.dims.at;
    module->n_tensors = build.tensors.count;
    module->tensors = build.tensors.at;
    module->n_kernels = build.kernels.count;
    module->kernels = build.kernels.at;
    return tables;
}

const char *product_bytes(Arena *arena, const AttModule *module, const AttTensor *tensor) {
    Text text = {.arena = arena};
    int64_t bytes = (int64_t)elem_bytes((Elem)tensor->elem);
    for (int64_t d = 0; d < tensor->rank; d++)
        if (module->dims[tensor->dims[d]].extent >= 0)
            bytes = mul_capped(bytes, module->dims[tensor->dims[d]].extent);
    text_printf(&text, "%lld", (long long)bytes);
    for (int64_t d = 0; d < tensor->rank; d++)
        if (module->dims[tensor->dims[d]].extent < 0)
            text_printf(&text, " * %s", module->dims[tensor->dims[d]].name);
    return text.at;
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
