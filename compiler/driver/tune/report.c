// SPDX-License-Identifier: Apache-2.0
// What attc tune tells: how it gets on, a table at the end, or JSON.
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "driver/tune/tuning.h"

static const double seconds_between[] = {10, 0.2}; // lines; of a terminal

// ---- progress -----------------------------------------------------------------------------------

static double peak_of(const Tuner *tuner) {
    return tune_median(tuner->peaks.at, tuner->peaks.count);
}

// Of all calls together, with the best schedules so far.
static double share_of_peak(const Tuner *tuner) {
    double seconds = 0, multiplies = 0;
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
        seconds += tune_median(tuner->of_default[i].at, tuner->of_default[i].count);
    for (uint32_t i = 0; i < tuner->calls.count; i++)
        multiplies += (double)calls_seen(&tuner->calls.at[i]);
    double speed = tuner->points.count ? tuner->points.at[tuner->points.count - 1].speed : 1;
    return 2 * multiplies * speed / (seconds * peak_of(tuner));
}

// Of the budget, or as long as trials took so far for each that is still to come; NAN: nobody can
// tell yet.
static double seconds_left(const Tuner *tuner, double now) {
    enum { ENOUGH = 4 };
    uint32_t count = tuner->points.count;
    if (tuner->budget)
        return fmax(tuner->budget - now, 0);
    if (count < ENOUGH)
        return NAN;
    double took = tuner->points.at[count - 1].seconds - tuner->points.at[0].seconds;
    return took / (count - 1) * tune_search_left(tuner->search);
}

static void tell_progress(Tuner *tuner) {
    bool terminal = isatty(STDERR_FILENO);
    double now = tuner_seconds(tuner), left = seconds_left(tuner, now);
    tuner->told = now;
    Text text = {.arena = arena_new()};
    text_printf(&text, "%.0f s  %u tried  %.3fx of the default's speed  %.0f%% of peak", now,
                tuner->tried, tuner->points.at[tuner->points.count - 1].speed,
                100 * share_of_peak(tuner));
    if (!isnan(left))
        text_printf(&text, "  %s%.0f s left", tuner->budget ? "" : "about ", left);
    if (terminal)
        fprintf(stderr, "\r%-78s", text.at);
    else
        fprintf(stderr, "%s\n", text.at);
    tuner->line_open = terminal;
    arena_free(text.arena);
}

void tuner_progress(Tuner *tuner) {
    double since = tuner_seconds(tuner) - tuner->told;
    if (!tuner->told || since >= seconds_between[isatty(STDERR_FILENO)])
        tell_progress(tuner);
}

void tuner_end_progress(Tuner *tuner) {
    if (tuner->points.count)
        tell_progress(tuner);
    if (tuner->line_open)
        fputc('\n', stderr);
    tuner->line_open = false;
}

// ---- results ------------------------------------------------------------------------------------

// Those with the default blocks, or with others.
static uint32_t measured_trials(const TuneSite *site, bool default_blocks) {
    uint32_t count = 0;
    for (uint32_t i = 1; i < site->trials.count; i++)
        count += site->trials.at[i].ratios.count > 0 &&
                 site->trials.at[i].default_blocks == default_blocks;
    return count;
}

static const Schedule *schedule_of(const Tuner *tuner, uint32_t site) {
    const TuneResult *result = &tuner->results[site];
    return result->winner ? &result->schedule : &tuner->spaces.at.at[site].numbers.at[TUNE_DEFAULT];
}

static void add_rows(const Tuner *tuner, Table *table) {
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++) {
        const TuneSpace *space = &tuner->spaces.at.at[i];
        const TuneResult *result = &tuner->results[i];
        double ranks = tune_search_correlation(tuner->search, i);
        table_cell(table, "%s", space->name);
        table_cell(table, "%s", schedule_kind_name(space->numbers.at[0].kind));
        const TuneSite *site = tune_search_site(tuner->search, i);
        table_cell(table, "%u", tuner->launches[i]);
        table_cell(table, "%u", measured_trials(site, true));
        table_cell(table, "%u", space->numbers.count - 1);
        table_cell(table, "%u", measured_trials(site, false));
        table_seconds(table, result->of_default);
        table_seconds(table, result->seconds);
        table_cell(table, result->winner ? "%.3fx" : "-", result->of_default / result->seconds);
        table_cell(table, result->winner ? "%.1f%%" : "-", 100 * result->confidence);
        table_cell(table, isnan(ranks) ? "-" : "%.2f", ranks);
    }
}

static void print_kept(const Tuner *tuner, Arena *arena) {
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
        if (tuner->results[i].kept)
            printf("%s: %s\n", tuner->spaces.at.at[i].name,
                   schedule_to_json(arena, &tuner->results[i].schedule));
}

// Of what is chosen for programs, and of their kernels.
static double speed_of_all(const Tuner *tuner) {
    return tuner->speed * (tuner->programs ? tuner->programs->speed : 1);
}

void tuner_print(const Tuner *tuner) {
    Arena *arena = tuner->options->session->arena;
    static const char *const heads[] = {"kernel",  "kind",  "times", "tried", "of",   "blocks",
                                        "default", "tuned", "speed", "sure",  "ranks"};
    Table table = table_open(arena, "llrrrrrrrrr");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, "%s", heads[i]);
    if (tuner->programs)
        add_rows(tuner->programs, &table);
    add_rows(tuner, &table);
    table_print(&table);
    printf("\n%u candidates in %.0f s%s: %.3fx of the default's speed, all together\n",
           tuner->tried, tuner_seconds(tuner), tuner->signals ? ", interrupted" : "",
           speed_of_all(tuner));
    if (tuner->failed)
        printf("%u candidates could not be compiled, loaded or run%s%s\n", tuner->failed,
               tuner->failure ? "; the first: " : "", tuner->failure ? tuner->failure : "");
    if (tuner->programs)
        print_kept(tuner->programs, arena);
    print_kept(tuner, arena);
}

// ---- JSON ---------------------------------------------------------------------------------------

static json_t *trials_json(const TuneSite *site, Arena *arena) {
    json_t *list = json_array();
    for (uint32_t i = 1; i < site->trials.count; i++) {
        const TuneTrial *trial = &site->trials.at[i];
        double predicted = trial->schedule.seconds > 0 ? trial->schedule.seconds : NAN;
        if (trial->ratios.count)
            json_array_append_new(
                list, json_pack("{s:o, s:b, s:o, s:o, s:o, s:i, s:b, s:o}", "schedule",
                                json_loads(schedule_to_json(arena, &trial->schedule), 0, NULL),
                                "default_blocks", trial->default_blocks, "predicted_seconds",
                                report_number(predicted), "ratio", report_number(trial->ratio),
                                "median", report_number(tune_trial_median(trial)), "pairs",
                                (int)trial->ratios.count, "last", trial->last, "confidence",
                                report_number(trial->last ? tune_trial_confidence(trial) : NAN)));
    }
    return list;
}

static json_t *site_json(const Tuner *tuner, uint32_t i, const char *what, Arena *arena) {
    const TuneSpace *space = &tuner->spaces.at.at[i];
    const TuneResult *result = &tuner->results[i];
    return json_pack(
        "{s:s, s:o, s:s, s:s, s:i, s:o, s:o, s:o, s:b, s:b, s:o, s:o, s:o}", what, space->name,
        "group", json_sprintf("%016llx", (unsigned long long)space->site.group), "kind",
        schedule_kind_name(space->numbers.at[0].kind), "extents", space->site.extents, "schedules",
        (int)space->numbers.count, "default_seconds", report_number(result->of_default), "seconds",
        report_number(result->seconds), "confidence", report_number(result->confidence),
        "by_oracle", result->by_oracle, "kept", result->kept, "rank_correlation",
        report_number(tune_search_correlation(tuner->search, i)), "schedule",
        json_loads(schedule_to_json(arena, schedule_of(tuner, i)), 0, NULL), "trials",
        trials_json(tune_search_site(tuner->search, i), arena));
}

json_t *tuner_json(const Tuner *tuner) {
    Arena *arena = tuner->options->session->arena;
    const Tensors *tensors = &tuner->calls.tensors;
    json_t *kernels = json_array(), *programs = json_array();
    for (uint32_t i = 0; i < tuner->spaces.at.count; i++)
        json_array_append_new(kernels, site_json(tuner, i, "kernel", arena));
    for (uint32_t i = 0; tuner->programs && i < tuner->programs->spaces.at.count; i++)
        json_array_append_new(programs, site_json(tuner->programs, i, "program", arena));
    return json_pack(
        "{s:s, s:o, s:i, s:s, s:i, s:f, s:o, s:b, s:f, s:i, s:s?, s:o, s:o}", "entry",
        tensors->graph->entry, "dims", report_extents(tensors->graph, tensors->extents), "threads",
        tuner->machine.threads, "machine", tuner->machine.name, "candidates", (int)tuner->tried,
        "seconds", tuner_seconds(tuner), "peak_gflops", report_number(1e-9 * peak_of(tuner)),
        "interrupted", tuner->signals > 0, "speed", speed_of_all(tuner), "failed",
        (int)tuner->failed, "failure", tuner->failure, "programs", programs, "kernels", kernels);
}
