// SPDX-License-Identifier: Apache-2.0
// Pieces of the training loop: learning rates, and logs that are cut where a run goes on.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"
#include "train/loop/loop.h"

// ---- schedules ----

static double rate_at(AttScheduleKind kind, int64_t step) {
    AttSchedule schedule = {.kind = kind, .rate = 2, .steps = 110, .warmup = 10};
    return att_learning_rate(&schedule, step);
}

static void assert_near(double a, double b) {
    if (fabs(a - b) > 1e-12 * fmax(1, fabs(b)))
        fail_msg("%.17g is not %.17g", a, b);
}

static void test_warm_up(void **state) {
    (void)state;
    const AttScheduleKind kinds[] = {ATT_SCHEDULE_LINEAR, ATT_SCHEDULE_COSINE,
                                     ATT_SCHEDULE_INVERSE_SQRT, ATT_SCHEDULE_CONSTANT};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        assert_near(rate_at(kinds[i], 1), 0.2);
        assert_near(rate_at(kinds[i], 5), 1);
        assert_near(rate_at(kinds[i], 10), 2);
    }
}

static void test_what_follows(void **state) {
    (void)state;
    assert_near(rate_at(ATT_SCHEDULE_CONSTANT, 77), 2);
    assert_near(rate_at(ATT_SCHEDULE_LINEAR, 11), 2);
    assert_near(rate_at(ATT_SCHEDULE_LINEAR, 61), 1);
    assert_near(rate_at(ATT_SCHEDULE_LINEAR, 110), 0.02);
    assert_near(rate_at(ATT_SCHEDULE_COSINE, 60), 2 * 0.55);
    assert_near(rate_at(ATT_SCHEDULE_COSINE, 110), 0.2);
    assert_near(rate_at(ATT_SCHEDULE_INVERSE_SQRT, 40), 1);
}

static void test_noam(void **state) {
    (void)state;
    assert_near(rate_at(ATT_SCHEDULE_NOAM, 5), 2 * 5 / pow(10, 1.5));
    assert_near(rate_at(ATT_SCHEDULE_NOAM, 10), 2 / sqrt(10));
    assert_near(rate_at(ATT_SCHEDULE_NOAM, 100), 0.2);
}

static void test_no_warm_up(void **state) {
    (void)state;
    AttSchedule schedule = {.rate = 1, .steps = 1};
    for (int kind = 0; att_schedule_names[kind]; kind++) {
        schedule.kind = (AttScheduleKind)kind;
        double rate = att_learning_rate(&schedule, 1);
        assert_true(isfinite(rate) && rate > 0 && rate <= 1);
    }
}

// ---- logs ----

static const char log_text[] = "step,loss\n1,5.5\n2,5.25\n3,nan\n4,5\n5,4.7";

static void write_log(const char *path) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(log_text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void assert_content(const char *path, const char *expected) {
    char text[200] = {0};
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_int_equal(length, strlen(expected));
    assert_string_equal(text, expected);
}

static void test_cut(void **state) {
    AttContext *ctx = att_context_new(1);
    write_log(*state);
    assert_int_equal(att_log_cut(ctx, *state, 2), ATT_OK);
    assert_content(*state, "step,loss\n1,5.5\n2,5.25\n");
    write_log(*state); // the last line was not written whole
    assert_int_equal(att_log_cut(ctx, *state, 9), ATT_OK);
    assert_content(*state, "step,loss\n1,5.5\n2,5.25\n3,nan\n4,5\n");
    assert_int_equal(att_log_cut(ctx, "/nowhere/log.csv", 2), ATT_OK); // there is none
    att_context_free(ctx);
}

static void test_append(void **state) {
    write_log(*state);
    FILE *file = att_log_open(*state, "another,header");
    assert_non_null(file);
    fputs("\n6,1\n", file);
    fclose(file);
    char expected[200];
    snprintf(expected, sizeof expected, "%s\n6,1\n", log_text);
    assert_content(*state, expected);
}

static void test_points(void **state) {
    int64_t count;
    write_log(*state);
    AttPoint *points = att_log_points(*state, &count);
    assert_int_equal(count, 4); // not what is not finite
    assert_true(points[1].x == 2 && points[1].y == 5.25);
    free(points);
    assert_null(att_log_points("/nowhere/log.csv", &count));
    assert_int_equal(count, 0);
}

static int setup(void **state) {
    static const char template[] = "/tmp/attc-log-XXXXXX";
    char *path = strdup(template);
    int file = mkstemp(path);
    close(file);
    *state = path;
    return file < 0;
}

static int teardown(void **state) {
    unlink(*state);
    free(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_warm_up),
        cmocka_unit_test(test_what_follows),
        cmocka_unit_test(test_noam),
        cmocka_unit_test(test_no_warm_up),
        cmocka_unit_test_setup_teardown(test_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_append, setup, teardown),
        cmocka_unit_test_setup_teardown(test_points, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
