// SPDX-License-Identifier: Apache-2.0
// attc tune --calibrate: fits the rates that this machine is planned for to what attc tune has
// measured on it, and keeps them in the database when they predict better.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "driver/tune/tuning.h"

typedef struct {
    Options *options;
    const char *path;   // of the database
    Machine used;       // with the threads that are planned for
    const char *target; // its name
    TuneMeasurements measurements;
    TuneFit fit;
} Calibration;

static const char *const rate_names[N_FROM] = {
    [FROM_L1] = "flops_per_second",
    [FROM_L2] = "l2_bytes_per_second",
    [FROM_L3] = "l3_bytes_per_second",
    [FROM_MEMORY] = "memory_bytes_per_second",
};

// ---- what there is ------------------------------------------------------------------------------

// Of this machine, target and number of threads.
static void keep_own(Calibration *c, const TuneMeasurements *all) {
    for (uint32_t i = 0; i < all->count; i++) {
        const TuneKey *key = &all->at[i].key;
        if (!strcmp(key->machine, c->used.name) && !strcmp(key->target, c->target) &&
            key->threads == c->used.threads)
            vec_push(c->options->session->arena, &c->measurements, all->at[i]);
    }
}

static bool read_measurements(Calibration *c) {
    Arena *arena = c->options->session->arena;
    TuneMeasurements all = {0};
    const char *why = NULL;
    TuneDb *db = tune_db_open(arena, c->path, TUNE_DB_READ, &why);
    bool fine = !why && (!db || tune_db_list_measurements(db, arena, &all, &why));
    if (fine)
        keep_own(c, &all);
    else
        database_problem(c->options, c->path, why);
    tune_db_close(db);
    return fine;
}

// false after a message.
static bool fit(Calibration *c, const Target *target) {
    Options without = *c->options;
    without.rates.count = 0;
    const Target *as_measured = driver_with_machine(&without, target);
    if (!as_measured)
        return false;
    Machine measured = driver_machine(c->options, as_measured);
    if (tune_fit(&c->measurements, &measured, &c->used, &c->fit))
        return true;
    problem(c->options,
            "database %s has %u measurements of %s for %s with %d thread%s, and a fit takes %d: "
            "attc tune FILE measures more",
            c->path, c->measurements.count, c->used.name, c->target, c->used.threads,
            c->used.threads == 1 ? "" : "s", TUNE_FIT_LEAST);
    return false;
}

static bool keep(Calibration *c) {
    Arena *arena = c->options->session->arena;
    TuneRates rates = {.target = c->target,
                       .machine = c->used.name,
                       .threads = c->used.threads,
                       .date = tune_date(arena, time(NULL))};
    const char *why = NULL;
    for (int level = 0; level < N_FROM; level++)
        rates.at[level] = *tune_rate(&c->fit.machine, level);
    TuneDb *db = database_open(c->options, c->path, TUNE_DB_WRITE);
    bool fine = db && tune_db_put_rates(db, &rates, &why);
    if (db && !fine)
        database_problem(c->options, c->path, why);
    tune_db_close(db);
    return fine;
}

// ---- what is told -------------------------------------------------------------------------------

static void print_rates(Calibration *c) {
    static const char *const names[N_FROM] = {
        [FROM_L1] = "arithmetic, Gflop/s",
        [FROM_L2] = "L2, GB/s",
        [FROM_L3] = "L3, GB/s",
        [FROM_MEMORY] = "memory, GB/s",
    };
    Table table = table_open(c->options->session->arena, "lrrr");
    table_cell(&table, "rate of a core");
    table_cell(&table, "in use");
    table_cell(&table, "fitted");
    table_cell(&table, "%s", "");
    for (int level = 0; level < N_FROM; level++) {
        double before = *tune_rate(&c->used, level), after = *tune_rate(&c->fit.machine, level);
        table_cell(&table, "%s", names[level]);
        table_cell(&table, "%.4g", 1e-9 * before);
        table_cell(&table, "%.4g", 1e-9 * after);
        table_cell(&table, after == before ? "-" : "%+.0f%%", 100 * (after / before - 1));
    }
    table_print(&table);
}

static void fitness_cell(Table *table, const char *form, double value) {
    if (isnan(value))
        table_cell(table, "-");
    else
        table_cell(table, form, value);
}

static void fitness_row(Table *table, const char *name, const char *form, double before,
                        double after) {
    table_cell(table, "%s", name);
    fitness_cell(table, form, before);
    fitness_cell(table, form, after);
}

static void print_text(Calibration *c) {
    const TuneFit *f = &c->fit;
    Arena *arena = c->options->session->arena;
    print_rates(c);
    printf("\n");
    Table table = table_open(arena, "lrr");
    fitness_row(&table, "mean error of a prediction", "%.1f%%", 100 * f->before.error,
                100 * f->after.error);
    fitness_row(&table, arena_printf(arena, "rank correlation, mean of %u kernels", f->ranked),
                "%.3f", f->before.ranks, f->after.ranks);
    fitness_row(&table, "rank correlation of all", "%.3f", f->before.of_all, f->after.of_all);
    table_print(&table);
    printf("\n%u measurements of %u kernels, %s for %s, threads: %d\n%s\n", f->measurements,
           f->kernels, c->used.name, c->target, c->used.threads,
           f->better ? "these rates are used from now on"
                     : "the fitted rates predict no better in all of this: nothing was changed");
}

static json_t *pair_json(double before, double after) {
    return json_pack("{s:o, s:o}", "before", report_number(before), "after", report_number(after));
}

static json_t *calibration_json(Calibration *c) {
    const TuneFit *f = &c->fit;
    json_t *rates = json_object();
    for (int level = 0; level < N_FROM; level++)
        json_object_set_new(
            rates, rate_names[level],
            pair_json(*tune_rate(&c->used, level), *tune_rate(&c->fit.machine, level)));
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:b}", "database",
                     c->path, "machine", c->used.name, "target", c->target, "threads",
                     c->used.threads, "measurements", (int)f->measurements, "kernels",
                     (int)f->kernels, "ranked_kernels", (int)f->ranked, "rates", rates,
                     "mean_error", pair_json(f->before.error, f->after.error), "rank_correlation",
                     pair_json(f->before.ranks, f->after.ranks), "rank_correlation_of_all",
                     pair_json(f->before.of_all, f->after.of_all), "kept", f->better);
}

// ---- the command --------------------------------------------------------------------------------

int tune_calibrate(Options *options) {
    const char *other = getenv("ATTC_MACHINE");
    const Target *target = driver_target(options);
    if (!target)
        return EXIT_PROBLEM;
    Calibration c = {.options = options, .target = target->name};
    c.used = driver_machine(options, target);
    if (other && *other)
        return problem(options,
                       "this machine is what is calibrated, and ATTC_MACHINE names another");
    c.path = database_path(options);
    if (!c.path || !read_measurements(&c) || !fit(&c, target))
        return EXIT_PROBLEM;
    if (c.fit.better && !keep(&c))
        return EXIT_PROBLEM;
    if (options->json)
        report_print_json(calibration_json(&c));
    else
        print_text(&c);
    return EXIT_FINE;
}
