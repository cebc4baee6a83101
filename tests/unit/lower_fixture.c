// SPDX-License-Identifier: Apache-2.0
#include "lower_fixture.h"

#include <math.h>
#include <string.h>

const Machine lower_small = {
    .name = "small",
    .vector_bytes = 16,
    .vector_registers = 16,
    .rows_unpacked = 3,
    .rows_packed = 5,
    .l1_bytes = 256,
    .l2_bytes = 2048,
    .l3_bytes = 1 << 14,
    .flops_per_second = 1e6,
    .splats_per_second = 125e3,
    .l1_bytes_per_second = 4e6,
    .l2_bytes_per_second = 2e6,
    .l3_bytes_per_second = 1e6,
    .memory_bytes_per_second = 5e5,
    .l2_write_cost = 2,
    .l3_write_cost = 2,
    .memory_write_cost = 2,
    .threads = 4,
    .task_seconds = 1e-4,
    .launch_seconds = 1e-4,
};
const Machine lower_large = {
    .name = "large",
    .vector_bytes = 64,
    .vector_registers = 32,
    .rows_unpacked = 9,
    .rows_packed = 14,
    .l1_bytes = 48 << 10,
    .l2_bytes = 1 << 20,
    .l3_bytes = 4 << 20,
    .flops_per_second = 160e9,
    .splats_per_second = 5e9,
    .l1_bytes_per_second = 200e9,
    .l2_bytes_per_second = 120e9,
    .l3_bytes_per_second = 30e9,
    .memory_bytes_per_second = 18e9,
    .l2_write_cost = 2,
    .l3_write_cost = 2,
    .memory_write_cost = 2,
    .threads = 8,
    .task_seconds = 5e-7,
    .launch_seconds = 5e-6,
};

// ---- tensors ----

static double random_number(Elem elem, uint64_t seed, int64_t at) {
    uint64_t bits = hash_u64(seed, (uint64_t)at);
    if (elem == ELEM_BOOL)
        return (double)(bits & 1);
    if (elem_is_int(elem))
        return (double)(bits % 3);
    // whole numbers of 1/64 below 1: exact in every float type
    return (double)(int64_t)(bits % 127) / 64 - 63.0 / 64;
}

static uint16_t bf16_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static void put(Elem elem, void *array, int64_t at, double value) {
    switch (elem) {
    case ELEM_F32:
        ((float *)array)[at] = (float)value;
        break;
    case ELEM_F64:
        ((double *)array)[at] = value;
        break;
    case ELEM_F16:
        ((_Float16 *)array)[at] = (_Float16)value;
        break;
    case ELEM_BF16:
        ((uint16_t *)array)[at] = bf16_of((float)value);
        break;
    case ELEM_I32:
        ((int32_t *)array)[at] = (int32_t)value;
        break;
    case ELEM_I64:
        ((int64_t *)array)[at] = (int64_t)value;
        break;
    default:
        ((uint8_t *)array)[at] = value != 0;
    }
}

static double get(Elem elem, const void *array, int64_t at) {
    switch (elem) {
    case ELEM_F32:
        return ((const float *)array)[at];
    case ELEM_F64:
        return ((const double *)array)[at];
    case ELEM_F16:
        return (double)((const _Float16 *)array)[at];
    case ELEM_BF16: {
        uint32_t bits = (uint32_t)((const uint16_t *)array)[at] << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    case ELEM_I32:
        return ((const int32_t *)array)[at];
    case ELEM_I64:
        return (double)((const int64_t *)array)[at];
    default:
        return ((const uint8_t *)array)[at];
    }
}

static double tolerance(Elem elem) {
    switch (elem) {
    case ELEM_F64:
        return 1e-11;
    case ELEM_F32:
        return 2e-5;
    case ELEM_F16:
        return 4e-3;
    case ELEM_BF16:
        return 3e-2;
    default:
        return 0;
    }
}

// ---- a program, its oracle and its tiles on the same numbers ----

static int64_t *extents_with(const Graph *graph, int64_t dynamic, int64_t t, Arena *arena) {
    int64_t *extents = graph_typical_extents(graph, arena);
    for (uint32_t i = 0; i < graph->dims.count; i++) {
        const Dim *dim = &graph->dims.at[i];
        if (dim->extent == EXTENT_DYNAMIC)
            extents[i] = t && graph->dims.at[dim->like].name[0] == 't' ? t : dynamic;
    }
    return extents;
}

static double **oracle(const Graph *graph, const int64_t *extents, uint64_t seed, Arena *arena) {
    EvalRun run = {.extents = extents};
    run.inputs = arena_array(arena, double *, graph->inputs.count + 1);
    run.outputs = arena_array(arena, double *, graph->outputs.count + 1);
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *input = graph->inputs.at[i];
        int64_t volume = dims_volume(&input->dims, extents);
        run.inputs[i] = arena_array(arena, double, volume + 1);
        for (int64_t k = 0; k < volume; k++)
            run.inputs[i][k] = random_number(input->elem, hash_text(seed, input->name), k);
    }
    graph_eval(graph, EVAL_F64, &run, arena);
    return run.outputs;
}

static void **interpret(const TileProgram *program, const int64_t *extents, uint64_t seed,
                        Arena *arena) {
    const Graph *graph = program->plan->fusion->graph;
    void **inputs = arena_array(arena, void *, graph->inputs.count + 1);
    void **outputs = arena_array(arena, void *, graph->outputs.count + 1);
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *input = graph->inputs.at[i];
        int64_t volume = dims_volume(&input->dims, extents);
        inputs[i] = arena_array(arena, double, volume + 1);
        for (int64_t k = 0; k < volume; k++)
            put(input->elem, inputs[i], k,
                random_number(input->elem, hash_text(seed, input->name), k));
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        outputs[i] =
            arena_array(arena, double, dims_volume(&graph->outputs.at[i].order, extents) + 1);
    tile_interpret(program, extents, inputs, outputs);
    return outputs;
}

static const char *source_of(const Graph *graph) {
    Text text = {.arena = graph->arena};
    graph_print(graph, &text);
    return text.at;
}

// within: of the largest result.
static void compare(const Output *output, const double *want, const void *got, int64_t n,
                    double within, const Graph *graph) {
    double largest = 1;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(want[i]))
            largest = fmax(largest, fabs(want[i]));
    for (int64_t i = 0; i < n; i++) {
        double x = get(output->value->elem, got, i);
        bool same = x == want[i] || (isnan(x) && isnan(want[i]));
        if (!same && !(fabs(x - want[i]) <= within * largest))
            fail_msg("%s, element %lld: %.9g became %.9g in\n%s", output->name, (long long)i,
                     want[i], x, source_of(graph));
    }
}

static void check_extents(const Graph *built, const TileProgram *program, const LowerCheck *check,
                          int64_t dynamic) {
    Arena *arena = arena_new();
    const Graph *graph = program->plan->fusion->graph;
    int64_t *built_extents = extents_with(built, dynamic, check->t, arena);
    double **want = oracle(built, built_extents, 7, arena);
    void **got = interpret(program, extents_with(graph, dynamic, check->t, arena), 7, arena);
    for (uint32_t i = 0; i < built->outputs.count; i++) {
        const Output *output = &graph->outputs.at[i];
        compare(output, want[i], got[i], dims_volume(&built->outputs.at[i].order, built_extents),
                check->within ? check->within : tolerance(output->value->elem), built);
    }
    arena_free(arena);
}

bool lower_check(const Graph *built, const LowerCheck *check) {
    Arena *arena = arena_new();
    Plan *plan = passes_plan_for(check->machine, built, check->plan != PLAN_UNFUSED);
    int64_t *typical = extents_with(plan->fusion->graph, check->typical, 0, arena);
    ScheduleWish wish = {.forced.plan = check->plan, .choose = check->choose, .self = check->self};
    TileProgram *program = tile_lower(plan, check->machine, typical, &wish);
    for (int i = 0; program && i < LOWER_EXTENTS && check->dynamic[i]; i++)
        check_extents(built, program, check, check->dynamic[i]);
    arena_free(arena);
    return program != NULL;
}
