// SPDX-License-Identifier: Apache-2.0
// attc bench: time of an entry and its share of the machine's peak, both measured in one run.
//
// Rounds alternate between the peak loop and the entry, so that a change of clock hits both alike.
// Medians are reported. gflops counts two per multiply of the contractions, nothing else, and each
// value once: what is computed again is told apart.
//
// With --grad a round has three calls: the parts that `attc build --grad` makes, forward and then
// backward on what that saved, and all in one call, as `attc run --grad` has it. The work of the
// backward part is what gradients need beyond the forward part.
#include "driver/driver.h"

#include <stdlib.h>

#include "train/loop/peak.h"

enum { ROUNDS_MIN = 11, ROUNDS_MAX = 400, WARM_UP = 2, CALLS_MAX = 3 };
static const double SECONDS_WANTED = 1.0; // of each call

// What is timed: an entry, or a part of one.
typedef struct {
    const char *name; // "forward"; NULL: it is the entry alone
    Compilation compiled;
    const Loaded *loaded;
    uint32_t part;                   // of what is loaded
    int64_t multiplies;              // of the graph, each value once
    CostFigures figures;             // of which the kernels are used, and the workspace
    double *times, *kernel_times;    // by round; by launch and round
    double seconds, *kernel_seconds; // medians; by launch
} Call;

typedef struct {
    Options *options;
    const Target *target;
    Tensors tensors; // of the whole
    Call calls[CALLS_MAX];
    uint32_t n_calls;
    Loaded whole, parts;
    double peak_flops;
    uint32_t rounds;
} Bench;

// ---- what is timed -----------------------------------------------------------------------------

static bool lower_part(const Options *options, const GradientGraphs *graphs, const Graph *part,
                       const PipelineOptions *passes, Call *call, const char *name) {
    call->name = name;
    return pipeline_lower_part(options->session, graphs, part, passes, &call->compiled);
}

static bool compile_entry(Bench *bench, const Program *program) {
    Options *options = bench->options;
    PipelineOptions passes = driver_passes(options, bench->target, AFTER_TILE);
    Compilation *compiled = &bench->calls[0].compiled;
    return pipeline_build(options->session, program, &passes, compiled) &&
           driver_lower(options, bench->target, &passes, compiled, NULL);
}

enum { FORWARD, BACKWARD, BOTH };

static bool compile_gradient(Bench *bench, const Program *program, GradientGraphs *graphs) {
    Options *options = bench->options;
    PipelineOptions whole = driver_passes(options, bench->target, AFTER_TILE), parts = whole;
    Call *calls = bench->calls;
    bench->n_calls = BOTH + 1;
    calls[BOTH].name = "both";
    return pipeline_build(options->session, program, &whole, &calls[BOTH].compiled) &&
           driver_lower(options, bench->target, &whole, &calls[BOTH].compiled, NULL) &&
           driver_partition(options, options->session, program, &bench->target, 1, &parts,
                            graphs) &&
           lower_part(options, graphs, graphs->forward, &parts, &calls[FORWARD], "forward") &&
           lower_part(options, graphs, graphs->backward, &parts, &calls[BACKWARD], "backward");
}

static bool load_gradient(Bench *bench, const GradientGraphs *graphs) {
    Call *calls = bench->calls;
    Arena *arena = bench->options->session->arena;
    int64_t *extents = tensors_extents(&bench->tensors, graphs->forward, arena);
    calls[FORWARD].multiplies = graph_multiplies(graphs->forward, extents);
    calls[BACKWARD].multiplies = calls[BOTH].multiplies - calls[FORWARD].multiplies;
    TileProgram *programs[] = {calls[FORWARD].compiled.tile, calls[BACKWARD].compiled.tile};
    for (uint32_t part = 0; part < BOTH; part++) {
        calls[part].loaded = &bench->parts;
        calls[part].part = part;
    }
    return execute_load(bench->options, programs, BOTH, bench->target, &bench->tensors,
                        &bench->parts);
}

static void take_figures(Bench *bench, Call *call) {
    Arena *arena = bench->options->session->arena;
    int64_t *extents = tensors_extents(&bench->tensors, call->compiled.fusion->graph, arena);
    call->figures = report_figures(&call->compiled, &bench->target->machine,
                                   att_context_threads(bench->tensors.context), extents, arena);
}

// Compiles, draws tensors and loads. false after diagnostics.
static bool prepare(Bench *bench) {
    Options *options = bench->options;
    const Program *program = driver_front(options);
    GradientGraphs graphs = {0};
    bench->n_calls = 1;
    if (!program || !(options->grad ? compile_gradient(bench, program, &graphs)
                                    : compile_entry(bench, program)))
        return false;
    Call *whole = &bench->calls[bench->n_calls - 1];
    whole->loaded = &bench->whole;
    if (!tensors_open(options, &whole->compiled, true, &bench->tensors) ||
        !tensors_fill(options, &bench->tensors) ||
        !execute_load(options, &whole->compiled.tile, 1, bench->target, &bench->tensors,
                      &bench->whole))
        return false;
    for (uint32_t i = 0; i < bench->n_calls; i++)
        take_figures(bench, &bench->calls[i]);
    whole->multiplies = whole->figures.multiplies;
    return !options->grad || load_gradient(bench, &graphs);
}

// ---- measuring ---------------------------------------------------------------------------------

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, uint32_t count) {
    qsort(values, count, sizeof *values, compare_doubles);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

static bool run_call(const Bench *bench, const Call *call, double *seconds) {
    return execute_run(bench->options, call->loaded, call->part, &bench->tensors, seconds);
}

static bool time_call(const Bench *bench, Call *call, uint32_t round) {
    uint32_t n_launches = call->compiled.tile->launches.count;
    double *seconds = arena_array(bench->options->session->arena, double, n_launches + 1);
    double start = pipeline_seconds();
    if (!run_call(bench, call, seconds))
        return false;
    call->times[round] = pipeline_seconds() - start;
    for (uint32_t k = 0; k < n_launches; k++)
        call->kernel_times[k * ROUNDS_MAX + round] = seconds[k];
    return true;
}

static void take_medians(Call *call, uint32_t rounds) {
    call->seconds = median(call->times, rounds);
    for (uint32_t k = 0; k < call->compiled.tile->launches.count; k++)
        call->kernel_seconds[k] = median(call->kernel_times + (size_t)k * ROUNDS_MAX, rounds);
}

static bool measure(Bench *bench) {
    Arena *arena = bench->options->session->arena;
    double *peaks = arena_array(arena, double, ROUNDS_MAX);
    for (uint32_t i = 0; i < bench->n_calls; i++) {
        Call *call = &bench->calls[i];
        size_t n_launches = call->compiled.tile->launches.count;
        call->times = arena_array(arena, double, ROUNDS_MAX);
        call->kernel_times = arena_array(arena, double, ROUNDS_MAX *(n_launches + 1));
        call->kernel_seconds = arena_array(arena, double, n_launches + 1);
    }
    for (uint32_t i = 0; i < WARM_UP * bench->n_calls; i++)
        if (!run_call(bench, &bench->calls[i % bench->n_calls], NULL))
            return false;
    double begun = pipeline_seconds(), wanted = SECONDS_WANTED * bench->n_calls;
    uint32_t n = 0;
    for (; n < ROUNDS_MAX && (n < ROUNDS_MIN || pipeline_seconds() - begun < wanted); n++) {
        peaks[n] = att_peak_flops(bench->tensors.context, bench->target->machine.vector_bytes);
        for (uint32_t i = 0; i < bench->n_calls; i++)
            if (!time_call(bench, &bench->calls[i], n))
                return false;
    }
    for (uint32_t i = 0; i < bench->n_calls; i++)
        take_medians(&bench->calls[i], n);
    bench->peak_flops = median(peaks, n);
    bench->rounds = n;
    return true;
}

// ---- reports -----------------------------------------------------------------------------------

static double gflop_of(int64_t multiplies) {
    return 2e-9 * (double)multiplies;
}

static double share_of_peak(const Bench *bench, int64_t multiplies, double seconds) {
    return 1e9 * gflop_of(multiplies) / (seconds * bench->peak_flops);
}

// Beyond those of the graph: by the kernels of all groups that need a value, and by kernels that
// compute one several times.
static int64_t multiplies_again(const Call *call) {
    double done = 0;
    for (uint32_t k = 0; k < call->figures.kernels.count; k++) {
        const KernelFigure *kernel = &call->figures.kernels.at[k];
        done += (double)kernel->multiplies * (kernel->recompute > 1 ? kernel->recompute : 1);
    }
    return done > (double)call->multiplies ? (int64_t)(done - (double)call->multiplies) : 0;
}

static void print_kernels(const Bench *bench, const Call *call) {
    const CostFigures *f = &call->figures;
    Table table = table_open(f->graph->arena, "lllrrr");
    static const char *const heads[] = {"kernel", "kind", "over", "time", "share", "of peak"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, "%s", heads[i]);
    for (uint32_t k = 0; k < f->kernels.count; k++) {
        const KernelFigure *kernel = &f->kernels.at[k];
        double seconds = call->kernel_seconds[kernel->launch];
        table_cell(&table, "%s", kernel->name);
        table_cell(&table, "%s", kernel->kind);
        table_cell(&table, "%s", dims_text(f->graph, &kernel->dims, f->graph->arena));
        table_seconds(&table, seconds);
        table_cell(&table, "%.1f%%", 100 * seconds / call->seconds);
        if (kernel->multiplies)
            table_cell(&table, "%.1f%%", 100 * share_of_peak(bench, kernel->multiplies, seconds));
        else
            table_cell(&table, "-");
    }
    table_print(&table);
}

static void print_head(const Bench *bench) {
    int threads = att_context_threads(bench->tensors.context);
    printf("%s%s with %d thread%s: ", bench->tensors.graph->entry,
           bench->n_calls > 1 ? " and its gradients" : "", threads, threads > 1 ? "s" : "");
}

static void print_calls(const Bench *bench) {
    printf("peak %.1f GFLOP/s (medians of %u)\n\n", 1e-9 * bench->peak_flops, bench->rounds);
    Table table = table_open(bench->options->session->arena, "lrrrrr");
    static const char *const heads[] = {"call",    "time",    "work",
                                        "GFLOP/s", "of peak", "computed again"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, "%s", heads[i]);
    for (uint32_t i = 0; i < bench->n_calls; i++) {
        const Call *call = &bench->calls[i];
        table_cell(&table, "%s", call->name);
        table_seconds(&table, call->seconds);
        table_cell(&table, "%.3g GFLOP", gflop_of(call->multiplies));
        table_cell(&table, "%.1f", gflop_of(call->multiplies) / call->seconds);
        table_cell(&table, "%.1f%%", 100 * share_of_peak(bench, call->multiplies, call->seconds));
        table_cell(&table, "%.3g GFLOP", gflop_of(multiplies_again(call)));
    }
    table_print(&table);
}

static void print_text(const Bench *bench) {
    const Call *first = &bench->calls[0];
    print_head(bench);
    if (first->name)
        print_calls(bench);
    else
        printf("%.3f ms, %.1f GFLOP/s, %.1f%% of the peak %.1f GFLOP/s (median of %u)\n",
               1e3 * first->seconds, gflop_of(first->multiplies) / first->seconds,
               100 * share_of_peak(bench, first->multiplies, first->seconds),
               1e-9 * bench->peak_flops, bench->rounds);
    for (uint32_t i = 0; i < bench->n_calls; i++) {
        printf(bench->calls[i].name ? "\n%s\n" : "\n", bench->calls[i].name);
        print_kernels(bench, &bench->calls[i]);
    }
}

static json_t *call_json(const Bench *bench, const Call *call) {
    json_t *kernels = json_array();
    for (uint32_t k = 0; k < call->figures.kernels.count; k++) {
        const KernelFigure *kernel = &call->figures.kernels.at[k];
        double seconds = call->kernel_seconds[kernel->launch];
        json_array_append_new(kernels, json_pack("{s:s, s:s, s:f, s:f, s:f, s:f}", "name",
                                                 kernel->name, "kind", kernel->kind, "seconds",
                                                 seconds, "share", seconds / call->seconds,
                                                 "gflops", gflop_of(kernel->multiplies) / seconds,
                                                 "predicted_seconds", kernel->seconds));
    }
    return json_pack("{s:f, s:f, s:f, s:I, s:I, s:I, s:o}", "seconds", call->seconds, "gflops",
                     gflop_of(call->multiplies) / call->seconds, "share_of_peak",
                     share_of_peak(bench, call->multiplies, call->seconds), "workspace_bytes",
                     (json_int_t)call->figures.workspace, "multiplies",
                     (json_int_t)call->multiplies, "recomputed_multiplies",
                     (json_int_t)multiplies_again(call), "kernels", kernels);
}

// The call of all, and beside it those of the parts.
static void print_json(const Bench *bench) {
    const Tensors *t = &bench->tensors;
    json_t *object =
        json_pack("{s:s, s:o, s:i, s:f, s:i}", "entry", t->graph->entry, "dims",
                  report_extents(t->graph, t->extents), "threads", att_context_threads(t->context),
                  "peak_gflops", 1e-9 * bench->peak_flops, "rounds", (int)bench->rounds);
    const Call *calls = bench->calls;
    json_object_update_new(object, call_json(bench, &calls[bench->n_calls - 1]));
    for (uint32_t i = 0; i + 1 < bench->n_calls; i++) {
        const char *seconds = arena_printf(t->graph->arena, "%s_seconds", calls[i].name);
        json_object_set_new(object, seconds, json_real(calls[i].seconds));
        json_object_set_new(object, calls[i].name, call_json(bench, &calls[i]));
    }
    report_print_json(object);
}

int command_bench(Options *options) {
    Bench *bench = arena_new_of(options->session->arena, Bench);
    bench->options = options;
    bench->target = driver_target(options);
    bool fine = bench->target && prepare(bench) && measure(bench);
    if (fine && options->json)
        print_json(bench);
    else if (fine)
        print_text(bench);
    execute_unload(&bench->parts);
    execute_unload(&bench->whole);
    if (bench->tensors.graph)
        tensors_close(&bench->tensors);
    return fine ? EXIT_FINE : EXIT_PROBLEM;
}
