// SPDX-License-Identifier: Apache-2.0
// attc bench: time of an entry and its share of the machine's peak, both measured in one run.
//
// Rounds alternate between the peak loop and the entry, so that a change of clock hits both alike.
// Medians are reported. gflops counts two per multiply of the contractions, nothing else.
#include "driver/driver.h"

#include <stdlib.h>

#include "peak.h"

enum { ROUNDS_MIN = 11, ROUNDS_MAX = 400, WARM_UP = 2 };
static const double SECONDS_WANTED = 1.0;

typedef struct {
    double seconds, peak_flops;
    double *kernel_seconds; // by launch
    uint32_t rounds;
} BenchResult;

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, uint32_t count) {
    qsort(values, count, sizeof *values, compare_doubles);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

static bool measure(Options *options, const Loaded *loaded, const Tensors *tensors,
                    const Target *target, uint32_t n_launches, BenchResult *out) {
    Arena *arena = options->session->arena;
    double *times = arena_array(arena, double, ROUNDS_MAX);
    double *peaks = arena_array(arena, double, ROUNDS_MAX);
    double *kernels = arena_array(arena, double, ROUNDS_MAX *(size_t)(n_launches + 1));
    for (int i = 0; i < WARM_UP; i++)
        if (!execute_run(options, loaded, tensors, NULL))
            return false;
    double begun = pipeline_seconds();
    uint32_t n = 0;
    while (n < ROUNDS_MAX && (n < ROUNDS_MIN || pipeline_seconds() - begun < SECONDS_WANTED)) {
        peaks[n] = cpu_peak_flops(tensors->context, target->machine.vector_bytes);
        double *seconds = arena_array(arena, double, n_launches + 1);
        double start = pipeline_seconds();
        if (!execute_run(options, loaded, tensors, seconds))
            return false;
        times[n] = pipeline_seconds() - start;
        for (uint32_t k = 0; k < n_launches; k++)
            kernels[k * ROUNDS_MAX + n] = seconds[k];
        n++;
    }
    *out = (BenchResult){
        .seconds = median(times, n),
        .peak_flops = median(peaks, n),
        .kernel_seconds = arena_array(arena, double, n_launches + 1),
        .rounds = n,
    };
    for (uint32_t k = 0; k < n_launches; k++)
        out->kernel_seconds[k] = median(kernels + (size_t)k * ROUNDS_MAX, n);
    return true;
}

static double gflops_of(int64_t multiplies, double seconds) {
    return 2e-9 * (double)multiplies / seconds;
}

static void print_text(const Tensors *t, const CostFigures *f, const BenchResult *r) {
    double gflops = gflops_of(f->multiplies, r->seconds), peak = 1e-9 * r->peak_flops;
    printf("%s with %d thread%s: %.3f ms, %.1f GFLOP/s, %.1f%% of the peak %.1f GFLOP/s"
           " (median of %u)\n\n",
           t->graph->entry, att_context_threads(t->context),
           att_context_threads(t->context) > 1 ? "s" : "", 1e3 * r->seconds, gflops,
           100 * gflops / peak, peak, r->rounds);
    Table table = table_open(f->graph->arena, "lllrrr");
    static const char *const heads[] = {"kernel", "kind", "over", "time", "share", "of peak"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, "%s", heads[i]);
    for (uint32_t k = 0; k < f->kernels.count; k++) {
        const KernelFigure *kernel = &f->kernels.at[k];
        double seconds = r->kernel_seconds[kernel->launch];
        table_cell(&table, "%s", kernel->name);
        table_cell(&table, "%s", kernel->kind);
        table_cell(&table, "%s", dims_text(f->graph, &kernel->dims, f->graph->arena));
        table_cell(&table, "%.3f ms", 1e3 * seconds);
        table_cell(&table, "%.1f%%", 100 * seconds / r->seconds);
        if (kernel->multiplies)
            table_cell(&table, "%.1f%%", 100 * gflops_of(kernel->multiplies, seconds) / peak);
        else
            table_cell(&table, "-");
    }
    table_print(&table);
}

static void print_json(const Tensors *t, const CostFigures *f, const BenchResult *r) {
    double gflops = gflops_of(f->multiplies, r->seconds), peak = 1e-9 * r->peak_flops;
    json_t *kernels = json_array();
    for (uint32_t k = 0; k < f->kernels.count; k++) {
        const KernelFigure *kernel = &f->kernels.at[k];
        double seconds = r->kernel_seconds[kernel->launch];
        json_array_append_new(kernels, json_pack("{s:s, s:s, s:f, s:f, s:f, s:f}", "name",
                                                 kernel->name, "kind", kernel->kind, "seconds",
                                                 seconds, "share", seconds / r->seconds, "gflops",
                                                 gflops_of(kernel->multiplies, seconds),
                                                 "predicted_seconds", kernel->seconds));
    }
    report_print_json(json_pack(
        "{s:s, s:o, s:i, s:f, s:f, s:f, s:f, s:I, s:I, s:i, s:o}", "entry", t->graph->entry, "dims",
        report_extents(t->graph, t->extents), "threads", att_context_threads(t->context), "seconds",
        r->seconds, "gflops", gflops, "peak_gflops", peak, "share_of_peak", gflops / peak,
        "workspace_bytes", (json_int_t)f->workspace, "multiplies", (json_int_t)f->multiplies,
        "rounds", (int)r->rounds, "kernels", kernels));
}

int command_bench(Options *options) {
    const Target *target = driver_target(options);
    Compilation compiled;
    if (!target || !driver_compile(options, target, AFTER_TILE, &compiled))
        return EXIT_PROBLEM;
    Arena *arena = options->session->arena;
    Tensors tensors;
    Loaded loaded = {0};
    BenchResult result;
    bool fine = tensors_open(options, &compiled, true, &tensors) &&
                tensors_fill(options, &tensors) &&
                execute_load(options, &compiled, target, &tensors, &loaded) &&
                measure(options, &loaded, &tensors, target, compiled.tile->launches.count, &result);
    if (fine) {
        int64_t *extents = tensors_extents(&tensors, compiled.fusion->graph, arena);
        CostFigures figures = report_figures(&compiled, &target->machine,
                                             att_context_threads(tensors.context), extents, arena);
        if (options->json)
            print_json(&tensors, &figures, &result);
        else
            print_text(&tensors, &figures, &result);
    }
    execute_unload(&loaded);
    tensors_close(&tensors);
    return fine ? EXIT_FINE : EXIT_PROBLEM;
}
