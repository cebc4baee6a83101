// SPDX-License-Identifier: Apache-2.0
// Rates fitted to measurements that were made up from rates: these are found again, what nothing
// depends on stays, and what tells nothing does no harm. Measurements and rates in the database.
#include "tune/tune.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

// One cycle is a nanosecond.
static const Machine plain = {
    .name = "plain",
    .vector_bytes = 64,
    .vector_registers = 32,
    .flops_per_second = 64e9,
    .splats_per_second = 2e9,
    .l1_bytes_per_second = 128e9,
    .l2_bytes_per_second = 64e9,
    .l3_bytes_per_second = 32e9,
    .memory_bytes_per_second = 16e9,
    .l2_write_cost = 2,
    .l3_write_cost = 2,
    .memory_write_cost = 2,
    .threads = 1,
};

static void assert_near(double value, double wanted, double part) {
    if (!(fabs(value - wanted) <= part * fabs(wanted)))
        fail_msg("%g is not within %g%% of %g", value, 100 * part, wanted);
}

// From 0 to 1.
static double draw(uint64_t a, uint64_t b) {
    return (double)(hash_u64(hash_u64(7, a), b) >> 11) * 0x1p-53;
}

// ---- measurements that are made up --------------------------------------------------------------

typedef struct {
    Arena *arena;
    TuneMeasurements list;
    Machine real; // what they are made up from
    double noise; // at most
    double bytes; // for each cycle, of all levels, at most
    int last;     // level that data comes from
} World;

static World world_open(void) {
    World w = {.arena = arena_new(), .real = plain, .noise = 0.05, .bytes = 80, .last = N_FROM};
    return w;
}

static TuneMeasurement measurement(Arena *arena, uint32_t kernel, const char *counts,
                                   double seconds) {
    return (TuneMeasurement){.key = {.group = arena_printf(arena, "%016x", kernel),
                                     .extents = "512 64",
                                     .target = "x86-64-v4",
                                     .machine = "plain",
                                     .threads = 1},
                             .name = "Y",
                             .schedule =
                                 "{\"kind\": \"none\", \"prefetch\": \"rule\", \"blocks\": []}",
                             .counts = counts,
                             .seconds = seconds,
                             .date = "2026-11-24T19:00:00Z"};
}

// Kernels of a few stages, some of which wait for arithmetic and some for bytes.
static void add_trial(World *w, uint32_t kernel, uint32_t trial) {
    TileCost cost = {.waited = 1, .outside_cycles = 1e4, .outside_seconds = 2e-6, .cycles = 1e5};
    uint64_t seed = kernel * 1000 + trial;
    for (uint64_t i = 0; i < 1 + kernel % 4; i++) {
        StageCost stage = {.cycles = 1e6 * (0.2 + draw(seed, 10 * i))};
        for (int level = FROM_L2; level < w->last; level++) {
            double share = pow(draw(seed, 10 * i + (uint64_t)level), 2) / level;
            stage.bytes[level] = stage.cycles * w->bytes * share;
            stage.exposed[level] = (i == 3 ? 1.5 : 0.3) * stage.bytes[level];
        }
        vec_push(w->arena, &cost.stages, stage);
    }
    double noise = 1 + w->noise * (2 * draw(seed, 99) - 1);
    double seconds = tile_cost_rated(&cost, &w->real).seconds * noise;
    const char *counts = tune_counts_to_text(w->arena, &cost);
    vec_push(w->arena, &w->list, measurement(w->arena, kernel, counts, seconds));
}

static void add_trials(World *w, uint32_t kernels, uint32_t trials) {
    for (uint32_t k = 0; k < kernels; k++)
        for (uint32_t i = 0; i < trials; i++)
            add_trial(w, k, i);
}

static TuneFit fit(const World *w) {
    TuneFit out;
    assert_true(tune_fit(&w->list, &plain, &plain, &out));
    return out;
}

static void assert_rates(TuneFit *out, Machine real, double part) {
    for (int level = 0; level < N_FROM; level++)
        assert_near(*tune_rate(&out->machine, level), *tune_rate(&real, level), part);
}

// ---- the fit ------------------------------------------------------------------------------------

static void test_rates_are_found_again(void **state) {
    (void)state;
    static const double factors[][N_FROM] = {
        {1.5, 1, 1, 1}, {1, 0.6, 1, 1}, {1, 1, 0.5, 1}, {0.8, 1.4, 0.7, 2}, {2, 2, 2, 2}};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        World w = world_open();
        for (int level = 0; level < N_FROM; level++)
            *tune_rate(&w.real, level) *= factors[i][level];
        add_trials(&w, 8, 12);
        TuneFit out = fit(&w);
        assert_true(out.better);
        assert_int_equal(out.measurements, 96);
        assert_int_equal(out.kernels, 8);
        assert_int_equal(out.ranked, 8);
        assert_rates(&out, w.real, 0.08);
        assert_true(out.after.error < 0.04 && out.before.error > out.after.error);
        assert_true(out.after.ranks > out.before.ranks - 0.011 && out.after.ranks > 0.9);
        TuneFit again;
        assert_true(tune_fit(&w.list, &out.machine, &out.machine, &again));
        assert_near(again.before.error, out.after.error, 1e-12);
        arena_free(w.arena);
    }
}

// Without noise what is left is what keeps rates near.
static void test_exact_measurements(void **state) {
    (void)state;
    World w = world_open();
    w.noise = 0;
    w.real.flops_per_second *= 0.7;
    w.real.l3_bytes_per_second *= 1.6;
    add_trials(&w, 8, 12);
    TuneFit out = fit(&w);
    assert_rates(&out, w.real, 0.03);
    assert_true(out.after.error < 0.005 && out.after.of_all > 0.999);
    arena_free(w.arena);
}

// Of disturbed measurements it takes many to be believed.
static void test_some_measurements_are_far_off(void **state) {
    (void)state;
    World w = world_open();
    w.real.flops_per_second *= 0.7;
    w.real.memory_bytes_per_second *= 1.6;
    add_trials(&w, 8, 12);
    for (uint32_t i = 0; i < w.list.count; i += 8)
        w.list.at[i].seconds *= 3;
    TuneFit out = fit(&w);
    assert_near(out.machine.flops_per_second, w.real.flops_per_second, 0.18);
    assert_near(out.machine.memory_bytes_per_second, w.real.memory_bytes_per_second, 0.18);
    arena_free(w.arena);
}

static void test_what_nothing_depends_on_stays(void **state) {
    (void)state;
    World w = world_open();
    w.last = FROM_L3;
    w.real.flops_per_second *= 1.3;
    w.real.l3_bytes_per_second *= 3;
    w.real.memory_bytes_per_second *= 3;
    add_trials(&w, 8, 12);
    TuneFit out = fit(&w);
    assert_near(out.machine.flops_per_second, w.real.flops_per_second, 0.03);
    assert_true(out.machine.l1_bytes_per_second == plain.l1_bytes_per_second);
    assert_true(out.machine.l3_bytes_per_second == plain.l3_bytes_per_second);
    assert_true(out.machine.memory_bytes_per_second == plain.memory_bytes_per_second);
    arena_free(w.arena);
}

static void test_rates_stay_within_bounds(void **state) {
    (void)state;
    World w = world_open();
    w.real.flops_per_second *= 50;
    w.real.memory_bytes_per_second /= 50;
    add_trials(&w, 8, 12);
    TuneFit out = fit(&w);
    for (int level = 0; level < N_FROM; level++) {
        Machine from = plain;
        double factor = *tune_rate(&out.machine, level) / *tune_rate(&from, level);
        assert_true(factor < 3.01 && factor > 0.332);
    }
    arena_free(w.arena);
}

// A second fit starts where the first did: it finds the same, and so nothing better.
static void test_a_fit_of_a_fit_is_the_same(void **state) {
    (void)state;
    World w = world_open();
    w.real.l2_bytes_per_second *= 0.5;
    add_trials(&w, 8, 12);
    TuneFit out = fit(&w), again;
    assert_true(tune_fit(&w.list, &plain, &out.machine, &again));
    assert_false(again.better);
    assert_rates(&again, out.machine, 1e-12);
    arena_free(w.arena);
}

static void test_right_rates_are_left_alone(void **state) {
    (void)state;
    World w = world_open();
    w.noise = 0;
    add_trials(&w, 8, 12);
    TuneFit out = fit(&w);
    assert_false(out.better);
    assert_rates(&out, plain, 1e-4);
    arena_free(w.arena);
}

// Rates that predict better on the whole, and order the schedules of kernels worse, are not better.
static void test_no_order_is_given_up(void **state) {
    (void)state;
    World w = world_open();
    w.noise = 0;
    add_trials(&w, 8, 12);
    for (uint32_t i = 0; i < w.list.count; i++)
        w.list.at[i].seconds *= w.list.at[i].key.group[15] % 4 == 0 ? 3 : 1;
    TuneFit out = fit(&w);
    assert_true(out.before.ranks > 0.9999);
    assert_true(!out.better || out.after.ranks > 0.9999);
    arena_free(w.arena);
}

// ---- what tells little --------------------------------------------------------------------------

static void test_too_few(void **state) {
    (void)state;
    World w = world_open();
    TuneFit out;
    assert_false(tune_fit(&w.list, &plain, &plain, &out));
    add_trials(&w, 1, TUNE_FIT_LEAST - 1);
    assert_false(tune_fit(&w.list, &plain, &plain, &out));
    assert_int_equal(out.measurements, TUNE_FIT_LEAST - 1);
    assert_false(out.better);
    arena_free(w.arena);
}

static void test_equal_measurements(void **state) {
    (void)state;
    World w = world_open();
    for (int i = 0; i < 40; i++)
        add_trial(&w, 3, 5);
    TuneFit out = fit(&w);
    assert_true(out.better); // of arithmetic, which all of them have
    assert_true(out.after.error < out.before.error);
    assert_true(isnan(out.after.ranks) && isnan(out.after.of_all));
    assert_int_equal(out.ranked, 0);
    arena_free(w.arena);
}

static void test_nothing_counted(void **state) {
    (void)state;
    World w = world_open();
    TileCost nothing = {0}, zeros = {.waited = 1};
    vec_push(w.arena, &zeros.stages, (StageCost){0});
    for (uint32_t i = 0; i < 40; i++)
        vec_push(w.arena, &w.list,
                 measurement(w.arena, i % 3,
                             tune_counts_to_text(w.arena, i % 2 ? &nothing : &zeros),
                             1e-3 + 1e-5 * i));
    TuneFit out = fit(&w);
    assert_false(out.better);
    assert_rates(&out, plain, 0);
    assert_near(out.after.error, 1, 1e-12);
    arena_free(w.arena);
}

// ---- counts as text -----------------------------------------------------------------------------

// Of one kernel with a schedule of its own: C = A B + 1. Databases hold this: where it changes,
// COUNTS_VERSION has to be raised.
static void test_what_is_counted_has_a_version(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Machine machine = plain;
    machine.rows_unpacked = 8, machine.rows_packed = 12;
    machine.l1_bytes = 32 << 10, machine.l2_bytes = 1 << 20, machine.l3_bytes = 8 << 20;
    machine.scattered_exposed = 0.25;
    machine.task_seconds = 1e-6, machine.launch_seconds = 2e-6;
    Kernel *kernel = kernel_new(arena, "product");
    TileDimId n = kernel_add_dim(kernel, "n", 512), d = kernel_add_dim(kernel, "d", 768),
              e = kernel_add_dim(kernel, "e", 1024);
    uint16_t a = kernel_add_argument(kernel, "A", ELEM_F32, PLACE_IN, TILE_DIMS(n, d));
    uint16_t b = kernel_add_argument(kernel, "B", ELEM_F32, PLACE_IN, TILE_DIMS(d, e));
    uint16_t c = kernel_add_argument(kernel, "C", ELEM_F32, PLACE_OUT, TILE_DIMS(n, e));
    NodeList *task = &node_loop(kernel, &kernel->body, LOOP_PARALLEL, n, 64)->body;
    NodeList *block = &node_loop(kernel, task, LOOP_SEQUENTIAL, d, 256)->body;
    uint16_t packed = node_scratch_panel(kernel, block, "P", ELEM_F32, TILE_DIMS(d, e), e, 32);
    Stage *copy = node_compute(kernel, block, TILE_DIMS(d, e), e);
    copy->pad = true;
    stage_sink(kernel, copy, SINK_SET, access_plain(kernel, packed),
               stage_load(kernel, copy, access_plain(kernel, b)));
    Stage *sums = node_contract(kernel, block, TILE_DIMS(e, n, d), access_plain(kernel, c),
                                access_plain(kernel, a), access_plain(kernel, packed));
    sums->rows = n, sums->lanes = e, sums->row_block = 8, sums->lane_block = 32;
    Stage *last = node_compute(kernel, task, TILE_DIMS(n, e), e);
    int32_t sum = stage_load(kernel, last, access_plain(kernel, c));
    int32_t one = stage_const(kernel, last, 1, ELEM_F32);
    stage_sink(kernel, last, SINK_SET, access_plain(kernel, c),
               stage_op(kernel, last, OP_ADD, ELEM_F32, sum, one, -1));
    kernel_verify(kernel, "the test");
    TileCost cost = tile_cost(arena, kernel, (int64_t[]){512, 768, 1024}, &machine);
    assert_int_equal(COUNTS_VERSION, 14);
    assert_string_equal(
        tune_counts_to_text(arena, &cost),
        "{\"waited\": 1, \"outside\": [0, 3.2e-07], \"cycles\": 0, \"stages\": ["
        "[626808, 1.69869e+07, 5.74523e+07, 986965, 1.69869e+06, 4.88345e+07, 838920], "
        "[1.29495e+07, 1.38438e+08, 2.71622e+07, 1.85139e+06, 3.21759e+07, 2.09691e+07, "
        "1.79241e+06], "
        "[52264, 340787, 3.82059e+06, 0, 34078.7, 3.2475e+06, 0]]}");
    arena_free(arena);
}

static void test_counts_as_text(void **state) {
    (void)state;
    Arena *arena = arena_new();
    TileCost cost = {.waited = 0.5, .cycles = 3, .outside_cycles = 7, .outside_seconds = 5e-7};
    vec_push(arena, &cost.stages, (StageCost){.cycles = 100});
    vec_push(arena, &cost.stages,
             (StageCost){.cycles = 1e6, .bytes = {9, 1e6, 0, 2}, .exposed = {9, 1e5, 0, 1}});
    const char *text = tune_counts_to_text(arena, &cost), *why;
    assert_string_equal(text, "{\"waited\": 0.5, \"outside\": [7, 5e-07], \"cycles\": 103, "
                              "\"stages\": [[1e+06, 1e+06, 0, 2, 100000, 0, 1]]}");
    TileCost read;
    assert_true(tune_counts_from_text(arena, text, &read, &why));
    assert_string_equal(tune_counts_to_text(arena, &read), text);
    assert_near(tile_cost_rated(&read, &plain).seconds, tile_cost_rated(&cost, &plain).seconds,
                1e-12);
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"waited\": 1, \"outside\": [1, 2], \"cycles\": 1}",
        "{\"waited\": 1, \"outside\": [1], \"cycles\": 1, \"stages\": []}",
        "{\"waited\": -1, \"outside\": [1, 2], \"cycles\": 1, \"stages\": []}",
        "{\"waited\": 1, \"outside\": [1, 2], \"cycles\": 1e300, \"stages\": []}",
        "{\"waited\": 1, \"outside\": [1, 2], \"cycles\": 1, \"stages\": [[1, 2]]}",
        "{\"waited\": 1, \"outside\": [1, 2], \"cycles\": 1, \"stages\": [[0,0,0,0,0,0,-7]]}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(tune_counts_from_text(arena, bad[i], &read, &why));
        assert_non_null(why);
    }
    arena_free(arena);
}

// ---- the database -------------------------------------------------------------------------------

typedef struct {
    World world;
    char *folder, *path;
    TuneDb *db;
    const char *why;
} Fixture;

static int open_fixture(void **state) {
    World world = world_open();
    Fixture *f = arena_new_of(world.arena, Fixture);
    f->world = world;
    f->folder = arena_printf(world.arena, "/tmp/attc-fit-test-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    f->path = arena_printf(world.arena, "%s/schedules.db", f->folder);
    f->db = tune_db_open(world.arena, f->path, TUNE_DB_WRITE, &f->why);
    assert_non_null(f->db);
    *state = f;
    return 0;
}

static int close_fixture(void **state) {
    Fixture *f = *state;
    tune_db_close(f->db);
    unlink(f->path);
    assert_int_equal(rmdir(f->folder), 0);
    arena_free(f->world.arena);
    return 0;
}

static void change(Fixture *f, const char *sql) {
    sqlite3 *handle;
    assert_int_equal(sqlite3_open(f->path, &handle), SQLITE_OK);
    assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(handle);
}

static TuneMeasurements list(Fixture *f) {
    TuneMeasurements out;
    assert_true(tune_db_list_measurements(f->db, f->world.arena, &out, &f->why));
    return out;
}

static const char *schedule_of(Arena *arena, int tasks) {
    return arena_printf(arena,
                        "{\"kind\": \"tasks\", \"tasks\": %d, \"step_points\": 0, \"rows\": 0, "
                        "\"prefetch\": \"rule\", \"blocks\": []}",
                        tasks);
}

static void put(Fixture *f, int from, int to) {
    TuneMeasurements some = {0};
    add_trial(&f->world, 1, 1);
    for (int i = from; i < to; i++) {
        TuneMeasurement one = f->world.list.at[0];
        one.schedule = schedule_of(f->world.arena, i);
        one.seconds = i;
        vec_push(f->world.arena, &some, one);
    }
    assert_true(tune_db_put_measurements(f->db, &some, &f->why));
}

static void test_measurements_are_kept(void **state) {
    Fixture *f = *state;
    put(f, 1, 11);
    put(f, 5, 7); // in the place of those of the same schedules
    TuneMeasurements all = list(f);
    assert_int_equal(all.count, 10);
    assert_string_equal(all.at[9].schedule, schedule_of(f->world.arena, 6));
    assert_string_equal(all.at[9].counts, f->world.list.at[0].counts);
    assert_int_equal(tune_key_compare(&all.at[9].key, &f->world.list.at[0].key), 0);
    TuneMeasurement bad = all.at[0];
    bad.counts = "{}";
    all = (TuneMeasurements){.at = &bad, .count = 1};
    assert_false(tune_db_put_measurements(f->db, &all, &f->why));
    assert_string_equal(f->why,
                        "cannot take a measurement: counts: expected numbers \"waited\" and "
                        "\"cycles\"");
    assert_int_equal(list(f).count, 10);
}

static void test_the_newest_of_a_key_stay(void **state) {
    Fixture *f = *state;
    put(f, 1, 2 * TUNE_MEASURED_MOST);
    put(f, 3, 4);
    TuneMeasurements all = list(f);
    assert_int_equal(all.count, TUNE_MEASURED_MOST);
    assert_true(all.at[0].seconds == TUNE_MEASURED_MOST + 1);
    assert_true(all.at[all.count - 1].seconds == 3);
}

static const TuneRates some_rates = {.target = "x86-64-v4",
                                     .machine = "plain",
                                     .threads = 1,
                                     .at = {64e9, 64e9, 32e9, 16e9},
                                     .date = "2026-11-24T19:00:00Z"};

static void test_rates_are_kept(void **state) {
    Fixture *f = *state;
    TuneRates rates = some_rates;
    assert_true(tune_db_put_rates(f->db, &rates, &f->why));
    rates.at[FROM_L2] = 1e10 / 3;
    assert_true(tune_db_put_rates(f->db, &rates, &f->why));
    rates.threads = 2;
    assert_true(tune_db_put_rates(f->db, &rates, &f->why));
    TuneRatesList all;
    uint32_t damaged;
    assert_true(tune_db_list_rates(f->db, f->world.arena, &all, &damaged, &f->why));
    assert_int_equal(damaged, 0);
    assert_int_equal(all.count, 2);
    assert_memory_equal(all.at[0].at, rates.at, sizeof rates.at);
    assert_string_equal(all.at[0].machine, "plain");
    rates.at[FROM_L3] = NAN;
    assert_false(tune_db_put_rates(f->db, &rates, &f->why));
    assert_non_null(strstr(f->why, "cannot take rates: rates: expected numbers from"));
}

static void test_damaged_rows_are_left_out(void **state) {
    Fixture *f = *state;
    Arena *arena = f->world.arena;
    put(f, 1, 7);
    assert_true(tune_db_put_rates(f->db, &some_rates, &f->why));
    change(f, "UPDATE measurements SET seconds = 9.5 WHERE id = 1;"
              "UPDATE measurements SET counts = 5 WHERE id = 2;"
              "UPDATE measurements SET version = 99 WHERE id = 3;"
              "UPDATE rates SET l3 = 1e10");
    assert_int_equal(list(f).count, 3);
    TuneRatesList rates;
    uint32_t damaged;
    assert_true(tune_db_list_rates(f->db, arena, &rates, &damaged, &f->why));
    assert_int_equal(damaged, 1);
    assert_int_equal(rates.count, 0);
    assert_string_equal(tune_db_check(f->db, arena),
                        "has a damaged measurement, number 1: its checksum is another\n"
                        "has a damaged measurement, number 2: its checksum is another\n"
                        "has a damaged measurement, number 3: its checksum is another\n"
                        "has a damaged row of rates, number 1: its checksum is another");
    TunePruned pruned;
    assert_true(tune_db_prune(f->db, NULL, &pruned, &f->why));
    assert_memory_equal(&pruned.measurements, &((TuneRows){3, 3}), sizeof(TuneRows));
    assert_memory_equal(&pruned.rates, &((TuneRows){1, 0}), sizeof(TuneRows));
    assert_int_equal(pruned.unusable.damaged, 0);
    assert_null(tune_db_check(f->db, arena));
    const char *oldest = "2026-11-25T00:00:00Z";
    assert_true(tune_db_prune(f->db, oldest, &pruned, &f->why));
    assert_memory_equal(&pruned.measurements, &((TuneRows){3, 0}), sizeof(TuneRows));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates_are_found_again),
        cmocka_unit_test(test_exact_measurements),
        cmocka_unit_test(test_some_measurements_are_far_off),
        cmocka_unit_test(test_what_nothing_depends_on_stays),
        cmocka_unit_test(test_rates_stay_within_bounds),
        cmocka_unit_test(test_a_fit_of_a_fit_is_the_same),
        cmocka_unit_test(test_right_rates_are_left_alone),
        cmocka_unit_test(test_no_order_is_given_up),
        cmocka_unit_test(test_too_few),
        cmocka_unit_test(test_equal_measurements),
        cmocka_unit_test(test_nothing_counted),
        cmocka_unit_test(test_what_is_counted_has_a_version),
        cmocka_unit_test(test_counts_as_text),
        cmocka_unit_test_setup_teardown(test_measurements_are_kept, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_the_newest_of_a_key_stay, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_rates_are_kept, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_damaged_rows_are_left_out, open_fixture,
                                        close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
