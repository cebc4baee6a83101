// SPDX-License-Identifier: Apache-2.0
// What there is to choose from: for each kernel of an entry, as attc cost --space tells, and for a
// whole program.
#include "driver/driver.h"

#include <stdlib.h>

SpaceFigures report_spaces(const Options *options, const Call *call, const Tensors *tensors) {
    Arena *arena = options->session->arena;
    const Compilation *compiled = &call->compiled;
    const Machine *machine = call->passes.machine;
    SpaceFigures out = {.spaces.arena = arena, .site = compiled->site};
    out.programs = call_space(options, call, tensors, NULL);
    tune_spaces_add(&out.spaces, compiled->plan, machine, compiled->typical);
    uint32_t n = out.spaces.at.count;
    const Schedule **defaults = arena_array(arena, const Schedule *, n + 1);
    for (uint32_t i = 0; i < n; i++)
        defaults[i] = &out.spaces.at.at[i].numbers.at[0];
    out.blocks = arena_array(arena, ScheduleList, n + 1);
    tune_spaces_blocks(&out.spaces, compiled->plan, machine, compiled->typical, defaults,
                       out.blocks, arena);
    return out;
}

// ---- whole programs ----------------------------------------------------------------------------

static double predicted_seconds(const Compilation *compiled, const Machine *machine,
                                const Tensors *tensors, Arena *arena) {
    double seconds = 0;
    const int64_t *extents = tensors_extents(tensors, compiled->fusion->graph, arena);
    for (uint32_t i = 0; i < compiled->tile->launches.count; i++) {
        const Launch *launch = &compiled->tile->launches.at[i];
        const Kernel *kernel = compiled->tile->kernels.at[launch->kernel];
        if (launch_runs(launch, extents))
            seconds += launch_seconds(launch, kernel, extents, machine);
    }
    return seconds;
}

static bool makes_new_kernels(const TileProgram *program, TileProgram *const *before,
                              uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (programs_same_kernels(program, before[i]))
            return false;
    return true;
}

// The power of extents of run time that the largest buffer grows with, arguments and results
// included.
static uint32_t growth_of(const Plan *plan) {
    const Graph *graph = plan->fusion->graph;
    uint32_t most = 0;
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        const Buffer *buffer = &plan->buffers.at[i];
        uint32_t power = 0;
        for (uint32_t d = 0; d < buffer->memory.order.count; d++)
            power += graph->dims.at[buffer->memory.order.at[d]].extent == EXTENT_DYNAMIC;
        most = power > most ? power : most;
    }
    return most;
}

// Of all that it needs; capped.
static int64_t bytes_of(const Compilation *compiled, const Tensors *tensors, Arena *arena) {
    const Plan *plan = compiled->plan;
    const int64_t *extents = tensors_extents(tensors, plan->fusion->graph, arena);
    int64_t bytes = plans_workspace(&plan, &extents, 1);
    for (uint32_t i = 0; i < plan->buffers.count && bytes >= 0; i++) {
        const Buffer *buffer = &plan->buffers.at[i];
        int64_t own =
            mul_capped(buffer_elements(buffer, extents), (int64_t)elem_bytes(buffer->value->elem));
        if (buffer->role == BUFFER_INPUT || buffer->role == BUFFER_OUTPUT)
            bytes = report_sum(bytes, own);
    }
    return bytes < 0 ? INT64_MAX : bytes;
}

// A choice is offered that needs at most so many times the memory of the default, or so many bytes.
enum { MEMORY_TIMES = 4, MEMORY_ALWAYS = 256 << 20 };

static bool is_modest(const Compilation *compiled, int64_t of_default, const Tensors *tensors,
                      Arena *arena) {
    int64_t most = mul_capped(MEMORY_TIMES, of_default);
    return bytes_of(compiled, tensors, arena) <= (most > MEMORY_ALWAYS ? most : MEMORY_ALWAYS);
}

// What is forced or fitted is not chosen, and alone. known: see schedule_enumerate_programs.
static ScheduleList choices_of(const Options *options, const Call *call,
                               const ProgramSchedule *known, Arena *arena) {
    ScheduleList all = {0};
    if (call->passes.plan != PLAN_ANY || options->memory_limit) {
        vec_push(arena, &all, call->compiled.choice);
        return all;
    }
    return schedule_enumerate_programs(arena, known);
}

// With predicted schedules of all kernels.
ScheduleList call_space(const Options *options, const Call *call, const Tensors *tensors,
                        const ProgramSchedule *known) {
    ScheduleList space = {0};
    Session *session = session_fork(options->session);
    Arena *arena = session->arena;
    ScheduleList all = choices_of(options, call, known, arena);
    TileProgram **programs = arena_array(arena, TileProgram *, all.count);
    Call plain = *call;
    uint32_t growth = 0; // by default
    int64_t bytes = 0;
    plain.passes.wish = (ScheduleWish){0};
    for (uint32_t i = 0; i < all.count; i++) {
        Compilation compiled;
        if (!call_lower(session, &plain, &all.at[i].program, &compiled) ||
            !makes_new_kernels(compiled.tile, programs, space.count))
            continue;
        if (!space.count) {
            growth = growth_of(compiled.plan);
            bytes = bytes_of(&compiled, tensors, arena);
        } else if (growth_of(compiled.plan) > growth ||
                   !is_modest(&compiled, bytes, tensors, arena))
            continue;
        programs[space.count] = compiled.tile;
        all.at[i].seconds = predicted_seconds(&compiled, call->passes.machine, tensors, arena);
        vec_push(options->session->arena, &space, all.at[i]);
    }
    session_free(session);
    return space;
}

static double best_seconds(const TuneSpace *space) {
    double best = space->numbers.at[0].seconds;
    for (uint32_t i = 1; i < space->numbers.count; i++)
        if (space->numbers.at[i].seconds < best)
            best = space->numbers.at[i].seconds;
    return best;
}

static void print_programs(const ScheduleList *programs, Arena *arena) {
    Table table = table_open(arena, "lr");
    table_cell(&table, "program");
    table_cell(&table, "predicted");
    for (uint32_t i = 0; i < programs->count; i++) {
        table_cell(&table, "%s", schedule_program_text(arena, &programs->at[i].program));
        table_seconds(&table, programs->at[i].seconds);
    }
    printf("\n");
    table_print(&table);
}

void report_print_spaces(const SpaceFigures *figures, Arena *arena) {
    static const char *const heads[] = {"kernel", "kind",    "schedules",
                                        "blocks", "default", "least predicted"};
    Table table = table_open(arena, "llrrrr");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, "%s", heads[i]);
    for (uint32_t i = 0; i < figures->spaces.at.count; i++) {
        const TuneSpace *space = &figures->spaces.at.at[i];
        table_cell(&table, "%s", space->name);
        table_cell(&table, "%s", schedule_kind_name(space->numbers.at[0].kind));
        table_cell(&table, "%u", space->numbers.count);
        table_cell(&table, "%u", figures->blocks[i].count);
        table_seconds(&table, space->numbers.at[0].seconds);
        table_seconds(&table, best_seconds(space));
    }
    printf("\n");
    table_print(&table);
    print_programs(&figures->programs, arena);
}

static json_t *schedules_json(const ScheduleList *list, Arena *arena) {
    json_t *all = json_array();
    for (uint32_t i = 0; i < list->count; i++) {
        const Schedule *schedule = &list->at[i];
        json_t *text = json_loads(schedule_to_json(arena, schedule), 0, NULL);
        json_array_append_new(all, json_pack("{s:o, s:o}", "schedule", text, "predicted_seconds",
                                             report_number(schedule->seconds)));
    }
    return all;
}

json_t *report_spaces_json(const SpaceFigures *figures, Arena *arena) {
    json_t *all = json_array();
    for (uint32_t i = 0; i < figures->spaces.at.count; i++) {
        const TuneSpace *space = &figures->spaces.at.at[i];
        json_array_append_new(
            all,
            json_pack("{s:s, s:o, s:s, s:o, s:o}", "kernel", space->name, "group",
                      json_sprintf("%016llx", (unsigned long long)space->site.group), "extents",
                      space->site.extents, "schedules", schedules_json(&space->numbers, arena),
                      "blocks", schedules_json(&figures->blocks[i], arena)));
    }
    return all;
}

json_t *report_programs_json(const SpaceFigures *figures, Arena *arena) {
    return json_pack("{s:o, s:s, s:o}", "group",
                     json_sprintf("%016llx", (unsigned long long)figures->site.group), "extents",
                     figures->site.extents, "schedules", schedules_json(&figures->programs, arena));
}
