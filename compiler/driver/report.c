// SPDX-License-Identifier: Apache-2.0
// Figures of a compilation: parameters, multiplies, buffers and kernels at given extents.
#include "driver/driver.h"

#include <math.h>

json_t *report_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *report_dim_names(const Graph *graph, const DimList *dims) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < dims->count; i++)
        json_array_append_new(list, json_string(graph->dims.at[dims->at[i]].name));
    return list;
}

json_t *report_extents(const Graph *graph, const int64_t *extents) {
    json_t *dims = json_object();
    for (uint32_t d = 0; d < graph->dims.count; d++)
        if (!graph->dims.at[d].scan)
            json_object_set_new(dims, graph->dims.at[d].name, json_integer(extents[d]));
    return dims;
}

void report_print_json(json_t *object) {
    json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(object);
}

static int64_t bytes_of(const Buffer *buffer, const int64_t *extents) {
    int64_t bytes, elements = buffer_elements(buffer, extents);
    return mul_i64(elements, (int64_t)elem_bytes(buffer->value->elem), &bytes) ? bytes : -1;
}

// Figures that do not fit are -1, and so are sums with them.
int64_t report_sum(int64_t a, int64_t b) {
    int64_t sum;
    return a < 0 || b < 0 || !add_i64(a, b, &sum) ? -1 : sum;
}

static void add_plan_buffers(CostFigures *out, const Plan *plan, const char *const *names,
                             const int64_t *extents, Arena *arena) {
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        const Buffer *buffer = &plan->buffers.at[i];
        BufferFigure figure = {
            .name = names[buffer->value->id],
            .dims = buffer->memory.order,
            .bytes = bytes_of(buffer, extents),
            .placement = "workspace",
        };
        if (buffer->role == BUFFER_INPUT)
            figure.placement = buffer->value->role == ROLE_PARAM ? "parameter" : "input";
        else if (buffer->role == BUFFER_OUTPUT)
            figure.placement = "output";
        else if (buffer->role == BUFFER_VIEW)
            figure.placement =
                arena_printf(arena, "view of %s", names[plan->buffers.at[buffer->of].value->id]);
        if (buffer->role == BUFFER_INPUT)
            out->arguments = report_sum(out->arguments, figure.bytes);
        if (buffer->role == BUFFER_OUTPUT)
            out->results = report_sum(out->results, figure.bytes);
        vec_push(arena, &out->buffers, figure);
    }
    out->workspace = plans_workspace(&plan, &extents, 1);
    out->peak = report_sum(report_sum(out->arguments, out->results), out->workspace);
}

static KernelFigure group_figure(const Group *group, const char *const *names,
                                 const int64_t *extents, Arena *arena) {
    static const char *const kinds[] = {
        [GROUP_CONTRACT] = "contract", [GROUP_ROWS] = "rows", [GROUP_MAP] = "map",
        [GROUP_STREAM] = "stream",     [GROUP_SCAN] = "scan", [GROUP_ORDER] = "order",
        [GROUP_SCATTER] = "scatter"};
    KernelFigure figure = {
        .name = report_group_name(group, names, arena),
        .kind = kinds[group->kind],
    };
    const Value *main = group->contraction;
    figure.dims = main ? main->dims : dims_union(&group->rows, &group->reduced);
    for (uint32_t k = 0; main && k < main->n_args; k++)
        figure.dims = dims_union(&figure.dims, &main->args[k]->dims);
    for (uint32_t i = 0; i < group->members.count; i++) {
        const Value *value = group->members.at[i];
        figure.flops = report_sum(figure.flops, value_flops(value, extents));
        figure.multiplies = report_sum(figure.multiplies, value_multiplies(value, extents));
    }
    return figure;
}

// The dims of the entry that those of a scratch buffer are made of.
static DimList entry_dims(const Launch *launch, const TileBuffer *buffer) {
    DimList dims = {0};
    for (int i = 0; i < buffer->rank; i++)
        for (uint32_t k = 0; k < launch->dims[buffer->dims[i]].count; k++)
            dims_add(&dims, launch->dims[buffer->dims[i]].at[k]);
    return dims;
}

static void add_scratch(KernelFigure *figure, const Launch *launch, const Kernel *kernel,
                        const int64_t *bytes, Arena *arena) {
    for (uint32_t i = kernel->n_args; i < kernel->buffers.count; i++) {
        const TileBuffer *buffer = &kernel->buffers.at[i];
        if (buffer->takes < 0)
            vec_push(arena, &figure->in_scratch,
                     (BufferFigure){buffer->name, entry_dims(launch, buffer), bytes[i], "scratch"});
    }
}

static const char *misfit_of(const TileProgram *program, const Group *group, Arena *arena) {
    for (uint32_t i = 0; i < program->misfits.count; i++) {
        const PlanMisfit *misfit = &program->misfits.at[i];
        if (misfit->group == group)
            return arena_printf(arena, "plan %s does not fit: %s", plan_names[misfit->plan],
                                misfit->why);
    }
    return NULL;
}

static KernelFigure launch_figure(const TileProgram *program, uint32_t index,
                                  const char *const *names, const Machine *machine,
                                  const int64_t *extents, Arena *arena) {
    const Launch *launch = &program->launches.at[index];
    const Kernel *kernel = program->kernels.at[launch->kernel];
    KernelFigure figure = group_figure(launch->group, names, extents, arena);
    int64_t *own = launch_extents(launch, kernel, extents, arena);
    int64_t *each = arena_array(arena, int64_t, kernel->buffers.count + 1);
    figure.launch = index;
    figure.kernel = kernel;
    figure.cost = tile_cost(arena, kernel, own, machine);
    figure.seconds = machine->threads > 1 ? figure.cost.parallel_seconds : figure.cost.seconds;
    figure.scratch = kernel_scratch_bytes(kernel, own, each);
    figure.recompute = 1;
    figure.seen = kernel_seen(kernel, own);
    if (kernel->schedule.kind != SCHEDULE_STREAM)
        return figure;
    figure.kind = figure.plan = plan_names[kernel->schedule.stream.plan];
    figure.misfit = misfit_of(program, launch->group, arena);
    add_scratch(&figure, launch, kernel, each, arena);
    if (figure.multiplies > 0)
        figure.recompute = kernel_multiplies(kernel, own) / (double)figure.multiplies;
    return figure;
}

// Of a value and of what computes it again.
typedef struct {
    double seen; // the most that a kernel which makes it sees of it
    int64_t multiplies;
} Once;
typedef struct {
    Arena *arena;
    Map *known; // by hash: one of these
    VEC(Once *) all;
} OnceList;

static void note_once(OnceList *list, uint64_t hash, double seen, int64_t multiplies) {
    Once *once = map_get(list->known, hash);
    if (!once) {
        once = arena_new_of(list->arena, Once);
        *once = (Once){seen, multiplies};
        map_put(list->known, hash, once);
        vec_push(list->arena, &list->all, once);
    }
    once->seen = seen > once->seen ? seen : once->seen;
}

int64_t report_masked(const Compilation *compiled, const int64_t *extents) {
    Arena *arena = arena_new();
    const TileProgram *program = compiled->tile;
    uint64_t *hashes = graph_hashes_once(compiled->fusion->graph, arena);
    OnceList list = {.arena = arena, .known = map_new(arena)};
    for (uint32_t i = 0; i < program->launches.count; i++) {
        const Launch *launch = &program->launches.at[i];
        const Kernel *kernel = program->kernels.at[launch->kernel];
        if (!launch_runs(launch, extents))
            continue;
        double seen = kernel_seen(kernel, launch_extents(launch, kernel, extents, arena));
        for (uint32_t k = 0; k < launch->group->members.count; k++) {
            const Value *value = launch->group->members.at[k];
            int64_t multiplies = value_multiplies(value, extents);
            if (multiplies > 0)
                note_once(&list, hashes[value->id], seen, multiplies);
        }
    }
    double masked = 0;
    for (uint32_t i = 0; i < list.all.count; i++)
        masked += (1 - list.all.at[i]->seen) * (double)list.all.at[i]->multiplies;
    arena_free(arena);
    return masked < 0x1p62 ? llround(masked) : 0;
}

CostFigures report_figures(const Compilation *compiled, const Machine *machine, int threads,
                           const int64_t *extents, Arena *arena) {
    const Graph *graph = compiled->contracted;
    Machine used = machine_with_threads(machine, threads);
    CostFigures out = {
        .graph = compiled->fusion->graph,
        .parameters = graph_parameters(compiled->built, extents),
        .multiplies = graph_multiplies(graph, extents),
        .flops = graph_flops(graph, extents),
    };
    out.masked = out.multiplies > 0 ? report_masked(compiled, extents) : 0;
    const char **names = report_value_names(compiled->plan, arena);
    add_plan_buffers(&out, compiled->plan, names, extents, arena);
    for (uint32_t i = 0; i < compiled->tile->launches.count; i++)
        if (launch_runs(&compiled->tile->launches.at[i], extents))
            vec_push(arena, &out.kernels,
                     launch_figure(compiled->tile, i, names, &used, extents, arena));
    return out;
}
