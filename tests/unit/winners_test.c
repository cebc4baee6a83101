// SPDX-License-Identifier: Apache-2.0
// What attc tune checks of winners, and what it keeps. A compiler that is wrong with some is played
// by one that compiles another text of the same arguments.
#include "support.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "driver/tune/tuning.h"

static const char right[] = "dim n = 40, m = 48\n"
                            "def F(X[n, m], P[m, k]):\n"
                            "    return einsum(X[n, m], P[m, k] -> [n, k])\n";
static const char wrong[] = "dim n = 40, m = 48\n"
                            "def F(X[n, m], P[m, k]):\n"
                            "    return einsum(2 * X[n, m], P[m, k] -> [n, k])\n";

// Two streamed kernels of one group, each behind one that moves keys: at small extents the same.
enum { MOVE, FIRST, OTHER_MOVE, SECOND, N_OF_TWO };
static const char two[] =
    "dim n = 40, d = 16\n"
    "def Attend(Q[n, d], K[m, d], V[m, d]):\n"
    "    W[n, m] = softmax(einsum(Q[n, d], K[m, d] -> [n, m]), reduced_dim=m)\n"
    "    return einsum(W[n, m], V[m, d] -> [n, d])\n"
    "def F(Q[n, d], K[m, d], V[m, d], L[k, d], W[k, d]):\n"
    "    return Attend(Q, K, V), Attend(Q, L, W)\n";

static const char attention[] =
    "dim n = 40, d = 16\n"
    "def F(Q[n, d], K[m, d], V[m, d]):\n"
    "    W[n, m] = softmax(einsum(Q[n, d], K[m, d] -> [n, m]), reduced_dim=m)\n"
    "    return einsum(W[n, m], V[m, d] -> [n, d])\n";
// Some keys are computed, and lie in panels; others are copied.
static const char of_memory[] =
    "dim n = 40, d = 16\n"
    "def Attend(Q[n, d], K[m, d], V[m, d]):\n"
    "    W[n, m] = softmax(einsum(Q[n, d], K[m, d] -> [n, m]), reduced_dim=m)\n"
    "    return einsum(W[n, m], V[m, d] -> [n, d])\n"
    "def F(Q[n, d], M[m, c], P[c, d], V[m, d], K[m, d]):\n"
    "    return Attend(Attend(Q, tanh(einsum(M[m, c], P[c, d] -> [m, d])), V), K, V)\n";
static const char attention_wrong[] =
    "dim n = 40, d = 16\n"
    "def F(Q[n, d], K[m, d], V[m, d]):\n"
    "    W[n, m] = softmax(einsum(Q[n, d], K[m, d] -> [n, m]), reduced_dim=m)\n"
    "    return 2 * einsum(W[n, m], V[m, d] -> [n, d])\n";

typedef struct {
    char folder[64];
    Session *session;
    Options options;
    Tuner tuner;
} World;

static const char *write_text(World *w, const char *name, const char *text) {
    const char *path = arena_printf(w->session->arena, "%s/%s", w->folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    return path;
}

static Options options_for(World *w, const char *path, const char *extents, const char *effort) {
    Arena *arena = w->session->arena;
    const char *const given[] = {
        "attc", "tune",  path,
        "-D",   extents, "--threads=1",
        effort, "--db",  arena_printf(arena, "%s/schedules.db", w->folder)};
    enum { COUNT = sizeof given / sizeof *given };
    char **words = arena_array(arena, char *, COUNT + 1);
    for (int i = 0; i < COUNT; i++)
        words[i] = arena_printf(arena, "%s", given[i]);
    bool stop = false;
    Options options = {.session = w->session};
    assert_int_equal(options_parse(&options, COUNT, words, &stop), EXIT_FINE);
    options.cache.enabled = false;
    return options;
}

// With the first trial as the winner of each site that has one.
static int open_with(void **state, const char *text, const char *extents, const char *effort,
                     uint32_t sites) {
    World *w = calloc(1, sizeof *w);
    assert_non_null(w);
    strcpy(w->folder, "/tmp/attc-winners-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    w->session = session_new();
    w->options = options_for(w, write_text(w, "right.attn", text), extents, effort);
    w->tuner = (Tuner){.options = &w->options, .target = driver_target(&w->options)};
    w->tuner.machine = driver_machine(&w->options, w->tuner.target);
    assert_true(tuner_open(&w->tuner));
    assert_int_equal(w->tuner.spaces.at.count, sites);
    for (uint32_t i = 0; i < sites; i++)
        w->tuner.results[i].winner = tune_search_site(w->tuner.search, i)->trials.count > 1;
    *state = w;
    return 0;
}

static int open_world(void **state) {
    return open_with(state, right, "k=32", "--effort=quick", 1);
}

static int open_exhaustive(void **state) {
    return open_with(state, right, "k=320", "--effort=exhaustive", 1);
}

static int open_two(void **state) {
    return open_with(state, two, "m=96,k=112", "--effort=quick", N_OF_TWO);
}

static int open_attention(void **state) {
    return open_with(state, attention, "m=96", "--effort=quick", 2);
}

static int open_memory(void **state) {
    return open_with(state, of_memory, "m=96,c=16", "--effort=quick", 4);
}

static int close_world(void **state) {
    World *w = *state;
    char command[128];
    tuner_close(&w->tuner);
    session_free(w->session);
    snprintf(command, sizeof command, "rm -r %s", w->folder);
    int status = system(command);
    free(w);
    return status;
}

static const char *told(const World *w) {
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    diags_print(w->session->diags, out, DIAGS_TEXT, false);
    fclose(out);
    const char *copy = arena_printf(w->session->arena, "%s", text);
    free(text);
    return copy;
}

static void winners_that_are_right_stay(void **state) {
    World *w = *state;
    tuner_check(&w->tuner);
    assert_int_equal(w->tuner.results[0].winner, 1);
    assert_true(w->tuner.results[0].by_oracle);
    assert_string_equal(told(w), "");
}

static void winners_that_compute_something_else_are_dropped(void **state) {
    World *w = *state;
    Options options = w->options;
    options.file = write_text(w, "wrong.attn", wrong);
    Calls calls;
    assert_true(calls_open(&options, w->tuner.target, &calls));
    w->tuner.calls.at[0].compiled = calls.at[0].compiled;
    w->tuner.results[0].of_default = 3;
    w->tuner.results[0].seconds = 1;
    tuner_check(&w->tuner);
    assert_int_equal(w->tuner.results[0].winner, TUNE_DEFAULT);
    assert_true(w->tuner.results[0].seconds == 3 && !w->tuner.results[0].by_oracle);
    assert_non_null(strstr(told(w), "computes something else; it is not kept"));
    calls_close(&calls);
}

// One kernel stands for both, and has the schedule of one of them, whatever it is asked for.
static void a_small_kernel_stands_for_one_winner(void **state) {
    World *w = *state;
    tuner_check(&w->tuner);
    assert_true(w->tuner.results[FIRST].winner == 1 && w->tuner.results[SECOND].winner == 1);
    assert_true(w->tuner.results[FIRST].by_oracle && !w->tuner.results[SECOND].by_oracle);
    assert_non_null(strstr(told(w), w->tuner.spaces.at.at[SECOND].name));
}

// ---- what becomes of the database ---------------------------------------------------------------

// By an entry of this machine.
static void put_known(World *w, const Schedule *schedule) {
    Arena *arena = w->session->arena;
    const TuneSpace *space = &w->tuner.spaces.at.at[0];
    TuneEntry entry = {
        .key = schedules_key(arena, &space->site, w->tuner.target, &w->tuner.machine),
        .name = space->name,
        .schedule = schedule_to_json(arena, schedule),
        .seconds = 1,
        .default_seconds = 2,
        .confidence = 1,
        .date = tune_date(arena, 0),
    };
    const char *why;
    assert_true(tune_db_put_all(w->tuner.db, &(TuneEntries){.at = &entry, .count = 1}, &why));
}

static uint32_t count_known(World *w) {
    TuneEntries entries;
    const char *why;
    assert_true(tune_db_list(w->tuner.db, w->session->arena, &entries, NULL, &why));
    return entries.count;
}

// The whole search on a clock that is made up: all are a tenth slower than the default but for one,
// whose first pair of runs is another than the rest.
static void search_with_first(World *w, const Schedule *one, double its_first, double its_ratio) {
    enum { PAIRS = 9 };
    TuneRound round;
    while (tune_search_next(w->tuner.search, &round)) {
        const TuneSite *site = tune_search_site(w->tuner.search, 0);
        bool is_one = schedule_same(&site->trials.at[round.trials[0]].schedule, one);
        double ratios[PAIRS];
        for (int i = 0; i < PAIRS; i++)
            ratios[i] = !is_one ? 1.1 : i ? its_ratio : its_first;
        tune_search_note(w->tuner.search, 0, round.trials[0], ratios, PAIRS);
    }
    w->tuner.results[0] = (TuneResult){.winner = tune_search_winner(w->tuner.search, 0)};
}

static void search_with(World *w, const Schedule *one, double its_ratio) {
    search_with_first(w, one, its_ratio, its_ratio);
}

static const Schedule *known_schedule(const World *w) {
    return &tune_search_site(w->tuner.search, 0)->trials.at[2].schedule;
}

// Of all sizes that the kernel serves, and as little faster as counts; attc db prune leaves them.
static void winners_are_kept(void **state) {
    World *w = *state;
    const Schedule *won = known_schedule(w);
    TuneSpace *space = &w->tuner.spaces.at.at[0];
    ScheduleSite other = {space->site.group, "~1 ~2"};
    vec_push(w->session->arena, &space->others, other);
    search_with(w, won, 0.9);
    TuneResult *result = &w->tuner.results[0];
    result->schedule = *known_schedule(w);
    result->of_default = 0.003;
    result->seconds = ATT_WORTH * result->of_default;
    result->confidence = 0.999;
    assert_int_not_equal(result->winner, TUNE_DEFAULT);
    assert_true(tuner_keep(&w->tuner) && result->kept);
    TunePruned pruned;
    const char *why;
    assert_true(tune_db_prune(w->tuner.db, NULL, &pruned, &why));
    assert_int_equal(pruned.left, 2);
    const ScheduleSite *sites[] = {&space->site, &other};
    for (int i = 0; i < 2; i++) {
        TuneKey key =
            schedules_key(w->session->arena, sites[i], w->tuner.target, &w->tuner.machine);
        TuneEntry entry;
        bool found;
        assert_true(tune_db_find(w->tuner.db, w->session->arena, &key, &entry, &found, &why));
        assert_true(found && entry.seconds == result->seconds);
        assert_string_equal(entry.schedule, schedule_to_json(w->session->arena, won));
    }
}

// What the database has is suggested, and takes so much of the default's time.
static void search_with_known(World *w, double ratio) {
    Schedule known = *known_schedule(w);
    put_known(w, &known);
    tune_search_suggest(w->tuner.search, 0, &known);
    search_with(w, &known, ratio);
}

static void what_is_no_faster_leaves_the_database(void **state) {
    World *w = *state;
    search_with_known(w, 1.2);
    assert_int_equal(w->tuner.results[0].winner, TUNE_DEFAULT);
    assert_true(tuner_keep(&w->tuner));
    assert_int_equal(count_known(w), 0);
}

// The last trials have what is known on another machine, and not what is known on this one.
static void search_without_last(World *w, double its_first) {
    Schedule known = *known_schedule(w);
    put_known(w, &known);
    tune_search_suggest(w->tuner.search, 0,
                        &tune_search_site(w->tuner.search, 0)->trials.at[1].schedule);
    search_with_first(w, &known, its_first, 1.5);
    assert_int_equal(w->tuner.results[0].winner, TUNE_DEFAULT);
    assert_true(tuner_keep(&w->tuner));
}

static void what_lost_each_run_leaves_the_database(void **state) {
    World *w = *state;
    search_without_last(w, 1.01);
    assert_int_equal(count_known(w), 0);
}

static void what_nobody_can_tell_stays_in_the_database(void **state) {
    World *w = *state;
    search_without_last(w, 0.98);
    assert_int_equal(count_known(w), 1);
}

static void emit_under_another_name(struct EmitModule *module, const struct Kernel *kernel,
                                    const Target *target, const char *symbol) {
    (void)symbol;
    target_find(target->name)->emit_kernel(module, kernel, target, "another");
}

// It is neither kept nor taken for one that computes something else.
static void a_winner_that_cannot_be_run_stays_in_the_database(void **state) {
    World *w = *state;
    search_with_known(w, 0.5);
    assert_int_not_equal(w->tuner.results[0].winner, TUNE_DEFAULT);
    const Target *own = w->tuner.calls.target;
    Target broken = *own;
    broken.emit_kernel = emit_under_another_name;
    w->tuner.calls.target = &broken;
    tuner_check(&w->tuner);
    w->tuner.calls.target = own;
    assert_int_equal(w->tuner.results[0].winner, TUNE_DEFAULT);
    const char *why = strstr(told(w), "cannot load a kernel");
    assert_true(why && !strstr(why + 1, "cannot load a kernel")); // once
    assert_non_null(strstr(told(w), "could not be compiled or run; it is not kept"));
    assert_null(strstr(told(w), "something else"));
    assert_true(tuner_keep(&w->tuner));
    assert_int_equal(count_known(w), 1);
}

// They are told of as little as they are kept.
static void winners_that_cannot_be_confirmed_are_none(void **state) {
    World *w = *state;
    const Target *own = w->tuner.calls.target;
    Target broken = *own;
    broken.emit_kernel = emit_under_another_name;
    w->tuner.calls.target = &broken;
    w->tuner.results[0].of_default = w->tuner.results[0].seconds = 1;
    assert_false(tuner_confirm(&w->tuner));
    w->tuner.calls.target = own;
    assert_int_equal(w->tuner.results[0].winner, TUNE_DEFAULT);
    assert_true(w->tuner.speed == 1);
    assert_true(tuner_keep(&w->tuner) && !w->tuner.results[0].kept);
    assert_int_equal(count_known(w), 0);
    assert_non_null(strstr(told(w), "could not be measured; none is kept"));
}

// Nothing is compiled or run any more, and what was not compared is not kept.
static void a_second_signal_ends_everything(void **state) {
    World *w = *state;
    w->tuner.signals = 2;
    w->tuner.calls.target = NULL;
    tuner_check(&w->tuner);
    assert_true(tuner_confirm(&w->tuner));
    assert_int_equal(w->tuner.results[0].winner, TUNE_DEFAULT);
    assert_non_null(strstr(told(w), "interrupted before all schedules were compared"));
    assert_true(tuner_keep(&w->tuner));
    assert_int_equal(count_known(w), 0);
}

// Also where nothing had won by then, but looked faster.
static void what_was_not_compared_is_told_of(void **state) {
    World *w = *state;
    w->tuner.signals = 2;
    w->tuner.results[0].winner = TUNE_DEFAULT;
    assert_true(tuner_confirm(&w->tuner));
    assert_string_equal(told(w), "");
    const double fast[] = {0.5, 0.5, 0.5};
    tune_search_note(w->tuner.search, 0, 1, fast, 3);
    assert_true(tuner_confirm(&w->tuner));
    assert_non_null(strstr(told(w), "interrupted before all schedules were compared"));
}

// What tuner_keep writes to standard error.
static const char *written_by_keep(World *w, bool *kept) {
    const char *path = arena_printf(w->session->arena, "%s/stderr", w->folder);
    int own = dup(STDERR_FILENO), file = open(path, O_CREAT | O_RDWR, 0666);
    assert_true(own >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    *kept = tuner_keep(&w->tuner);
    dup2(own, STDERR_FILENO);
    close(own);
    char *text = arena_array(w->session->arena, char, 1 << 16);
    assert_true(pread(file, text, (1 << 16) - 1, 0) >= 0);
    close(file);
    return text;
}

// The file is gone when the search ends: what was found is told as a text.
static void what_cannot_be_kept_is_told(void **state) {
    World *w = *state;
    TuneResult *result = &w->tuner.results[0];
    result->schedule = tune_search_site(w->tuner.search, 0)->trials.at[1].schedule;
    result->seconds = 1, result->of_default = 2, result->confidence = 1;
    assert_int_equal(unlink(w->tuner.path), 0);
    bool kept;
    const char *text = written_by_keep(w, &kept);
    assert_false(kept);
    assert_non_null(strstr(told(w), "what was found is not kept, but written to standard error"));
    TuneEntries entries = {0};
    uint32_t line;
    const char *why;
    assert_true(
        tune_entries_from_text(w->session->arena, text, strlen(text), &entries, &line, &why));
    assert_int_equal(entries.count, 1);
    assert_true(entries.at[0].seconds == 1);
}

// ---- programs -----------------------------------------------------------------------------------

// A search for programs whose winner is the plan unfused.
static void open_programs(World *w, Tuner *programs) {
    *programs = (Tuner){.options = &w->options,
                        .target = w->tuner.target,
                        .of_programs = true,
                        .path = w->tuner.path};
    programs->machine = w->tuner.machine;
    programs->calls = w->tuner.calls;
    programs->spaces.arena = w->session->arena;
    const Call *call = &programs->calls.at[0];
    TuneSpace space = {.site = call->compiled.site, .name = "F"};
    space.numbers = call_space(&w->options, call, &programs->calls.tensors, NULL);
    vec_push(w->session->arena, &programs->spaces.at, space);
    assert_true(tuner_begin(programs));
    const TuneSite *site = tune_search_site(programs->search, 0);
    uint32_t winner = 1;
    while (site->trials.at[winner].schedule.program.plan != PLAN_UNFUSED)
        winner++;
    programs->results[0] = (TuneResult){.winner = winner,
                                        .schedule = site->trials.at[winner].schedule,
                                        .seconds = 1,
                                        .of_default = 2,
                                        .confidence = 1};
}

// How many trials have nothing in panels, where each of these takes so many times the default's
// time, and all others more.
static uint32_t trials_without_panels(World *w, double ratio) {
    Tuner programs;
    open_programs(w, &programs);
    TuneRound round;
    uint32_t count = 0;
    const TuneSite *site = tune_search_site(programs.search, 0);
    while (tune_search_next(programs.search, &round)) {
        uint32_t trial = round.trials[0];
        bool plain = site->trials.at[trial].schedule.program.layout == LAYOUT_PLAIN;
        double ratios[9];
        for (uint32_t i = 0; i < 9; i++)
            ratios[i] = plain ? ratio : 1.5;
        tune_search_note(programs.search, 0, trial, ratios, 9);
        count += plain && !round.last;
    }
    tuner_end(&programs);
    return count;
}

// Once, and once more as the best; with others where that pays.
static void to_what_pays_other_decisions_are_added(void **state) {
    World *w = *state;
    assert_int_equal(trials_without_panels(w, 1.1), 2);
    assert_true(trials_without_panels(w, 0.9) > 2);
}

static PlanKind plan_now(World *w) {
    Tuner *tuner = &w->tuner;
    assert_true(tuner_choose_programs(tuner));
    return tuner->calls.at[0].compiled.choice.program.plan;
}

static void a_program_that_wins_is_what_kernels_are_searched_of(void **state) {
    World *w = *state;
    Tuner programs;
    open_programs(w, &programs);
    assert_int_equal(plan_now(w), PLAN_ANY);
    tuner_check(&programs);
    assert_true(programs.results[0].winner != TUNE_DEFAULT && programs.results[0].by_oracle);
    assert_true(tuner_keep(&programs) && programs.results[0].kept);
    assert_int_equal(plan_now(w), PLAN_UNFUSED);
    TuneEntries entries;
    const char *why;
    assert_true(tune_db_list(programs.db, w->session->arena, &entries, NULL, &why));
    assert_int_equal(entries.count, 1);
    assert_string_equal(entries.at[0].name, "F");
    assert_non_null(
        strstr(entries.at[0].schedule, "{\"kind\": \"program\", \"plan\": \"unfused\""));
    assert_string_equal(told(w), "");
    tuner_end(&programs);
}

static void a_program_that_computes_something_else_is_dropped(void **state) {
    World *w = *state;
    Tuner programs;
    open_programs(w, &programs);
    Options options = w->options;
    options.file = write_text(w, "wrong.attn", attention_wrong);
    Calls calls;
    assert_true(calls_open(&options, w->tuner.target, &calls));
    programs.calls.at[0] = calls.at[0];
    tuner_check(&programs);
    assert_int_equal(programs.results[0].winner, TUNE_DEFAULT);
    assert_non_null(strstr(told(w), "F: the schedule {\"kind\": \"program\", "));
    assert_non_null(strstr(told(w), "computes something else; it is not kept"));
    assert_true(tuner_keep(&programs));
    assert_int_equal(plan_now(w), PLAN_ANY);
    calls_close(&calls);
    tuner_end(&programs);
}

// ---- measurements -------------------------------------------------------------------------------

static TuneMeasurements keep_measurements(World *w) {
    TuneMeasurements all;
    const char *why;
    assert_true(tuner_keep_measurements(&w->tuner));
    assert_true(tune_db_list_measurements(w->tuner.db, w->session->arena, &all, &why));
    return all;
}

// As if what was counted of the default were counted of the trial.
static void count_trial(World *w, uint32_t trial) {
    const char *counts = w->tuner.counted[0].at[0].counts;
    CountedTrial counted = {trial, counts};
    vec_push(w->session->arena, &w->tuner.counted[0], counted);
}

// Trials that are asked for are none that were measured.
static void sites_that_were_not_searched_are_not_kept(void **state) {
    World *w = *state;
    assert_true(tune_search_site(w->tuner.search, 0)->trials.count > 1);
    assert_int_equal(keep_measurements(w).count, 0);
}

// From the first to the last of those that were predicted, not the last ones; each with the median
// of its ratios.
static void measurements_are_spread_over_what_was_tried(void **state) {
    World *w = *state;
    TuneRound round;
    const TuneSite *site = tune_search_site(w->tuner.search, 0);
    uint32_t trials = site->trials.count;
    assert_true(trials > TUNE_MEASURED_MOST);
    for (uint32_t i = 1; i < trials; i++) {
        double ratios[] = {2, 2, 9};
        assert_true(tune_search_next(w->tuner.search, &round));
        tune_search_note(w->tuner.search, 0, round.trials[0], ratios, 3);
        count_trial(w, round.trials[0]);
    }
    TuneMeasurements all = keep_measurements(w);
    assert_int_equal(all.count, TUNE_MEASURED_MOST);
    Arena *arena = w->session->arena;
    const char *by_default = schedule_to_json(arena, &site->trials.at[TUNE_DEFAULT].schedule);
    const char *slowest = schedule_to_json(arena, &site->trials.at[trials - 1].schedule);
    const char *fastest = schedule_to_json(arena, &site->trials.at[1].schedule);
    assert_string_equal(all.at[0].schedule, by_default);
    assert_string_equal(all.at[1].schedule, fastest);
    assert_string_equal(all.at[all.count - 1].schedule, slowest);
    for (uint32_t i = 1; i < all.count; i++)
        assert_true(fabs(all.at[i].seconds / all.at[0].seconds - 2) < 1e-9);
}

// ---- without the oracle -------------------------------------------------------------------------

static void a_small_kernel_stands_for_a_winner_before_others(void **state) {
    World *w = *state;
    w->tuner.results[FIRST].winner = TUNE_DEFAULT;
    tuner_check(&w->tuner);
    assert_int_equal(w->tuner.results[SECOND].winner, 1);
    assert_true(w->tuner.results[SECOND].by_oracle);
}

static void winners_are_judged_without_the_oracle_where_it_cannot_read(void **state) {
    World *w = *state;
    w->options.file = "-";
    tuner_check(&w->tuner);
    assert_int_equal(w->tuner.results[0].winner, 1);
    assert_false(w->tuner.results[0].by_oracle);
    assert_non_null(strstr(told(w), "standard input cannot be read a second time"));
}

#define TEST_ALL(name) cmocka_unit_test_setup_teardown(name, open_exhaustive, close_world)
#define TEST_TWO(name) cmocka_unit_test_setup_teardown(name, open_two, close_world)
#define TEST_ATTENTION(name) cmocka_unit_test_setup_teardown(name, open_attention, close_world)
#define TEST_MEMORY(name) cmocka_unit_test_setup_teardown(name, open_memory, close_world)
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(winners_that_are_right_stay),
        TEST(winners_that_compute_something_else_are_dropped),
        TEST_TWO(a_small_kernel_stands_for_one_winner),
        TEST_TWO(a_small_kernel_stands_for_a_winner_before_others),
        TEST(winners_are_kept),
        TEST(what_is_no_faster_leaves_the_database),
        TEST(what_lost_each_run_leaves_the_database),
        TEST(what_nobody_can_tell_stays_in_the_database),
        TEST(a_winner_that_cannot_be_run_stays_in_the_database),
        TEST(winners_that_cannot_be_confirmed_are_none),
        TEST(a_second_signal_ends_everything),
        TEST(what_was_not_compared_is_told_of),
        TEST(what_cannot_be_kept_is_told),
        TEST_MEMORY(to_what_pays_other_decisions_are_added),
        TEST_ATTENTION(a_program_that_wins_is_what_kernels_are_searched_of),
        TEST_ATTENTION(a_program_that_computes_something_else_is_dropped),
        TEST(sites_that_were_not_searched_are_not_kept),
        TEST_ALL(measurements_are_spread_over_what_was_tried),
        TEST(winners_are_judged_without_the_oracle_where_it_cannot_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
