// SPDX-License-Identifier: Apache-2.0
// attc bench: time of an entry and its share of the machine's peak, both measured in one run.
//
// Rounds alternate between the peak loop and the entry, so that a change of clock hits both alike.
// Medians are reported. gflops counts two per multiply of the contractions, nothing else, and each
// value once: what is computed again is told apart.
//
// With --grad a round has three calls, see calls.c.
#include "driver/driver.h"
#include "train/peak.h"

enum { ROUNDS_MIN = 11, ROUNDS_MAX = 400, WARM_UP = 2 };
static const double SECONDS_WANTED = 1.0; // of each call

// Of one call.
typedef struct {
    CostFigures figures;             // of which the kernels are used, and the workspace
    double *times, *kernel_times;    // by round; by launch and round
    double seconds, *kernel_seconds; // medians; by launch
} Times;

typedef struct {
    Options *options;
    Calls calls;
    LoadedCalls loaded;
    Times times[CALLS_MAX];
    double peak_flops;
    uint32_t rounds;
} Bench;

// Compiles, draws tensors and loads. false after diagnostics.
static bool prepare(Bench *bench, const Target *target) {
    Options *options = bench->options;
    Calls *calls = &bench->calls;
    Arena *arena = options->session->arena;
    if (!calls_open(options, target, calls) || !calls_load(options, calls, &bench->loaded))
        return false;
    for (uint32_t i = 0; i < calls->count; i++) {
        const Compilation *compiled = &calls->at[i].compiled;
        int64_t *extents = tensors_extents(&calls->tensors, compiled->fusion->graph, arena);
        bench->times[i].figures =
            report_figures(compiled, &target->machine, att_context_threads(calls->tensors.context),
                           extents, arena);
    }
    return true;
}

// ---- measuring ---------------------------------------------------------------------------------

static bool run_call(Bench *bench, uint32_t call, double *seconds) {
    return calls_run(bench->options, &bench->calls, &bench->loaded, call, seconds);
}

static uint32_t launches_of(const Bench *bench, uint32_t call) {
    return bench->calls.at[call].compiled.tile->launches.count;
}

static bool time_call(Bench *bench, uint32_t call, uint32_t round) {
    Times *times = &bench->times[call];
    uint32_t n_launches = launches_of(bench, call);
    double *seconds = arena_array(bench->options->session->arena, double, n_launches + 1);
    double start = pipeline_seconds();
    if (!run_call(bench, call, seconds))
        return false;
    times->times[round] = pipeline_seconds() - start;
    for (uint32_t k = 0; k < n_launches; k++)
        times->kernel_times[k * ROUNDS_MAX + round] = seconds[k];
    return true;
}

static void take_medians(Times *times, uint32_t n_launches, uint32_t rounds) {
    times->seconds = tune_median(times->times, rounds);
    for (uint32_t k = 0; k < n_launches; k++)
        times->kernel_seconds[k] =
            tune_median(times->kernel_times + (size_t)k * ROUNDS_MAX, rounds);
}

static bool measure(Bench *bench) {
    Arena *arena = bench->options->session->arena;
    const Calls *calls = &bench->calls;
    double *peaks = arena_array(arena, double, ROUNDS_MAX);
    for (uint32_t i = 0; i < calls->count; i++) {
        Times *times = &bench->times[i];
        size_t n_launches = launches_of(bench, i);
        times->times = arena_array(arena, double, ROUNDS_MAX);
        times->kernel_times = arena_array(arena, double, ROUNDS_MAX *(n_launches + 1));
        times->kernel_seconds = arena_array(arena, double, n_launches + 1);
    }
    for (uint32_t i = 0; i < WARM_UP * calls->count; i++)
        if (!run_call(bench, i % calls->count, NULL))
            return false;
    double begun = pipeline_seconds(), wanted = SECONDS_WANTED * calls->count;
    uint32_t n = 0;
    for (; n < ROUNDS_MAX && (n < ROUNDS_MIN || pipeline_seconds() - begun < wanted); n++) {
        peaks[n] = att_peak_flops(calls->tensors.context, calls->target->machine.vector_bytes);
        for (uint32_t i = 0; i < calls->count; i++)
            if (!time_call(bench, i, n))
                return false;
    }
    for (uint32_t i = 0; i < calls->count; i++)
        take_medians(&bench->times[i], launches_of(bench, i), n);
    bench->peak_flops = tune_median(peaks, n);
    bench->rounds = n;
    return true;
}

// ---- reports -----------------------------------------------------------------------------------

// Of a kernel, without what masks leave out.
static int64_t kernel_work(const KernelFigure *kernel) {
    return (int64_t)((double)kernel->multiplies * kernel->seen);
}

static double gflop_of(int64_t multiplies) {
    return 2e-9 * (double)multiplies;
}

static double share_of_peak(const Bench *bench, int64_t multiplies, double seconds) {
    return 1e9 * gflop_of(multiplies) / (seconds * bench->peak_flops);
}

// Beyond those of the graph: by the kernels of all groups that need a value, and by kernels that
// compute one several times.
static int64_t multiplies_again(const Call *call, const Times *times) {
    double done = 0;
    for (uint32_t k = 0; k < times->figures.kernels.count; k++) {
        const KernelFigure *kernel = &times->figures.kernels.at[k];
        done += (double)kernel_work(kernel) * (kernel->recompute > 1 ? kernel->recompute : 1);
    }
    double once = (double)calls_seen(call);
    return done > once ? (int64_t)(done - once) : 0;
}

static void print_kernels(const Bench *bench, const Times *times) {
    const CostFigures *f = &times->figures;
    Table table = table_open(f->graph->arena, "lllrrr");
    static const char *const heads[] = {"kernel", "kind", "over", "time", "share", "of peak"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, "%s", heads[i]);
    for (uint32_t k = 0; k < f->kernels.count; k++) {
        const KernelFigure *kernel = &f->kernels.at[k];
        double seconds = times->kernel_seconds[kernel->launch];
        table_cell(&table, "%s", kernel->name);
        table_cell(&table, "%s", kernel->kind);
        table_cell(&table, "%s", dims_text(f->graph, &kernel->dims, f->graph->arena));
        table_seconds(&table, seconds);
        table_cell(&table, "%.1f%%", 100 * seconds / times->seconds);
        if (kernel->multiplies)
            table_cell(&table, "%.1f%%", 100 * share_of_peak(bench, kernel_work(kernel), seconds));
        else
            table_cell(&table, "-");
    }
    table_print(&table);
}

static void print_head(const Bench *bench) {
    const Tensors *tensors = &bench->calls.tensors;
    int threads = att_context_threads(tensors->context);
    printf("%s%s with %d thread%s: ", tensors->graph->entry,
           bench->calls.count > 1 ? " and its gradients" : "", threads, threads > 1 ? "s" : "");
}

static void print_calls(const Bench *bench) {
    printf("peak %.1f GFLOP/s (medians of %u)\n\n", 1e-9 * bench->peak_flops, bench->rounds);
    Table table = table_open(bench->options->session->arena, "lrrrrr");
    static const char *const heads[] = {"call",    "time",    "work",
                                        "GFLOP/s", "of peak", "computed again"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, "%s", heads[i]);
    for (uint32_t i = 0; i < bench->calls.count; i++) {
        const Call *call = &bench->calls.at[i];
        const Times *times = &bench->times[i];
        table_cell(&table, "%s", call->name);
        table_seconds(&table, times->seconds);
        table_cell(&table, "%.3g GFLOP", gflop_of(calls_seen(call)));
        table_cell(&table, "%.1f", gflop_of(calls_seen(call)) / times->seconds);
        table_cell(&table, "%.1f%%", 100 * share_of_peak(bench, calls_seen(call), times->seconds));
        table_cell(&table, "%.3g GFLOP", gflop_of(multiplies_again(call, times)));
    }
    table_print(&table);
}

static void print_text(const Bench *bench) {
    const Call *first = &bench->calls.at[0];
    double seconds = bench->times[0].seconds;
    print_head(bench);
    if (first->name)
        print_calls(bench);
    else
        printf("%.3f ms, %.1f GFLOP/s, %.1f%% of the peak %.1f GFLOP/s (median of %u)\n",
               1e3 * seconds, gflop_of(calls_seen(first)) / seconds,
               100 * share_of_peak(bench, calls_seen(first), seconds), 1e-9 * bench->peak_flops,
               bench->rounds);
    for (uint32_t i = 0; i < bench->calls.count; i++) {
        const char *name = bench->calls.at[i].name;
        printf(name ? "\n%s\n" : "\n", name);
        print_kernels(bench, &bench->times[i]);
    }
}

static json_t *call_json(const Bench *bench, const Call *call, const Times *times) {
    json_t *kernels = json_array();
    for (uint32_t k = 0; k < times->figures.kernels.count; k++) {
        const KernelFigure *kernel = &times->figures.kernels.at[k];
        double seconds = times->kernel_seconds[kernel->launch];
        json_array_append_new(kernels, json_pack("{s:s, s:s, s:f, s:f, s:f, s:f}", "name",
                                                 kernel->name, "kind", kernel->kind, "seconds",
                                                 seconds, "share", seconds / times->seconds,
                                                 "gflops", gflop_of(kernel_work(kernel)) / seconds,
                                                 "predicted_seconds", kernel->seconds));
    }
    return json_pack("{s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:o}", "seconds", times->seconds,
                     "gflops", gflop_of(calls_seen(call)) / times->seconds, "share_of_peak",
                     share_of_peak(bench, calls_seen(call), times->seconds), "workspace_bytes",
                     (json_int_t)times->figures.workspace, "multiplies",
                     (json_int_t)call->multiplies, "masked_multiplies", (json_int_t)call->masked,
                     "recomputed_multiplies", (json_int_t)multiplies_again(call, times), "kernels",
                     kernels);
}

// The call of all, and beside it those of the parts.
static void print_json(const Bench *bench) {
    const Calls *calls = &bench->calls;
    const Tensors *t = &calls->tensors;
    uint32_t whole = calls->count - 1;
    json_t *object =
        json_pack("{s:s, s:o, s:i, s:f, s:i}", "entry", t->graph->entry, "dims",
                  report_extents(t->graph, t->extents), "threads", att_context_threads(t->context),
                  "peak_gflops", 1e-9 * bench->peak_flops, "rounds", (int)bench->rounds);
    json_object_update_new(object, call_json(bench, &calls->at[whole], &bench->times[whole]));
    for (uint32_t i = 0; i < whole; i++) {
        const char *name = calls->at[i].name;
        json_object_set_new(object, arena_printf(t->graph->arena, "%s_seconds", name),
                            json_real(bench->times[i].seconds));
        json_object_set_new(object, name, call_json(bench, &calls->at[i], &bench->times[i]));
    }
    report_print_json(object);
}

int command_bench(Options *options) {
    Bench *bench = arena_new_of(options->session->arena, Bench);
    bench->options = options;
    const Target *target = driver_target(options);
    bool fine = target && prepare(bench, target) && measure(bench);
    if (fine && options->json)
        print_json(bench);
    else if (fine)
        print_text(bench);
    calls_unload(&bench->loaded);
    calls_close(&bench->calls);
    return fine ? EXIT_FINE : EXIT_PROBLEM;
}
