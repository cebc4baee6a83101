// SPDX-License-Identifier: Apache-2.0
// attc cost: what an entry costs at given extents, before anything runs.
#include "driver/driver.h"

#include <string.h>

static const char *count_text(int64_t count, Arena *arena) {
    if (count < 0)
        return "more than 9.2e18";
    if (count < 10000000)
        return arena_printf(arena, "%lld", (long long)count);
    return arena_printf(arena, "%lld (%.4g)", (long long)count, (double)count);
}

static void print_text(const Compilation *compiled, const CostFigures *f, const int64_t *extents,
                       Arena *arena) {
    const Graph *graph = compiled->built;
    printf("entry       %s\ndims       ", graph->entry);
    for (uint32_t d = 0; d < graph->dims.count; d++)
        printf(" %s=%lld", graph->dims.at[d].name, (long long)extents[d]);
    printf("\nparameters  %s\nmultiplies  %s\nflops       %s\nworkspace   %s\n",
           count_text(f->parameters, arena), count_text(f->multiplies, arena),
           count_text(f->flops, arena), bytes_text(f->workspace, arena));
    printf("\n%-24s %-9s %-28s %12s %12s\n", "kernel", "kind", "over", "multiplies", "predicted");
    for (uint32_t i = 0; i < f->kernels.count; i++) {
        const KernelFigure *k = &f->kernels.at[i];
        printf("%-24s %-9s %-28s %12s %9.3f ms\n", k->name, k->kind,
               dims_text(f->graph, &k->dims, arena),
               k->multiplies < 0 ? "too many"
                                 : arena_printf(arena, "%lld", (long long)k->multiplies),
               1e3 * k->seconds);
    }
    printf("\n%-24s %-28s %12s  %s\n", "buffer", "dims", "size", "placement");
    for (uint32_t i = 0; i < f->buffers.count; i++) {
        const BufferFigure *b = &f->buffers.at[i];
        printf("%-24s %-28s %12s  %s\n", b->name, dims_text(f->graph, &b->dims, arena),
               bytes_text(b->bytes, arena), b->placement);
    }
}

// What the time of a kernel is made of: one object for each stage.
static json_t *stages_json(const KernelFigure *figure) {
    json_t *stages = json_array();
    for (uint32_t i = 0; i < figure->cost.stages.count; i++) {
        const StageCost *cost = &figure->cost.stages.at[i];
        json_t *over = json_array();
        for (int d = 0; d < cost->stage->n_dims; d++)
            json_array_append_new(over,
                                  json_string(figure->kernel->dims.at[cost->stage->dims[d]].name));
        json_t *bytes = json_pack("{s:o, s:o, s:o}", "l2", report_number(cost->bytes[FROM_L2]),
                                  "l3", report_number(cost->bytes[FROM_L3]), "memory",
                                  report_number(cost->bytes[FROM_MEMORY]));
        json_array_append_new(
            stages,
            json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "kind",
                      cost->stage->kind == STAGE_CONTRACT ? "contract" : "compute", "over", over,
                      "times", report_number(cost->times), "cycles", report_number(cost->cycles),
                      "bytes", bytes, "seconds", report_number(cost->seconds)));
    }
    return stages;
}

static void print_json(const Compilation *compiled, const CostFigures *f, int threads,
                       const int64_t *extents) {
    json_t *buffers = json_array(), *kernels = json_array();
    for (uint32_t i = 0; i < f->buffers.count; i++) {
        const BufferFigure *b = &f->buffers.at[i];
        json_array_append_new(buffers, json_pack("{s:s, s:o, s:I, s:s}", "name", b->name, "dims",
                                                 report_dim_names(f->graph, &b->dims), "bytes",
                                                 (json_int_t)b->bytes, "placement", b->placement));
    }
    for (uint32_t i = 0; i < f->kernels.count; i++) {
        const KernelFigure *k = &f->kernels.at[i];
        json_array_append_new(
            kernels,
            json_pack("{s:s, s:s, s:o, s:I, s:I, s:o, s:o}", "name", k->name, "kind", k->kind,
                      "dims", report_dim_names(f->graph, &k->dims), "multiplies",
                      (json_int_t)k->multiplies, "flops", (json_int_t)k->flops, "predicted_seconds",
                      report_number(k->seconds), "stages", stages_json(k)));
    }
    report_print_json(json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:i, s:o, s:o, s:o}", "entry", compiled->built->entry,
        "parameters", (json_int_t)f->parameters, "multiplies", (json_int_t)f->multiplies, "flops",
        (json_int_t)f->flops, "workspace_bytes", (json_int_t)f->workspace, "threads", threads,
        "dims", report_extents(compiled->built, extents), "buffers", buffers, "kernels", kernels));
}

// Every dim that counts must have an extent.
static bool extents_known(Options *options, const Graph *graph) {
    bool fine = true;
    for (uint32_t d = 0; d < graph->dims.count; d++) {
        const Dim *dim = &graph->dims.at[d];
        if (dim->extent != EXTENT_DYNAMIC || dim->like != d)
            continue;
        problem(options, "the cost needs the extent of %s: give -D %s=N", dim->name, dim->name);
        fine = false;
    }
    return fine;
}

int command_cost(Options *options) {
    Compilation compiled;
    const Target *target = driver_target(options);
    if (!target || !driver_compile(options, target, AFTER_TILE, &compiled) ||
        !extents_known(options, compiled.built))
        return EXIT_PROBLEM;
    Arena *arena = options->session->arena;
    int threads = options->threads ? options->threads : 1;
    CostFigures figures =
        report_figures(&compiled, &target->machine, threads, compiled.typical, arena);
    if (options->json)
        print_json(&compiled, &figures, threads, compiled.typical);
    else
        print_text(&compiled, &figures, compiled.typical, arena);
    return EXIT_FINE;
}
