// SPDX-License-Identifier: Apache-2.0
// How a program chooses among alternatives, on kernels that sleep.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support.h"
#include "train/loop/loop.h"
#include "train/statistics.h"

static void nap(int64_t microseconds) {
    struct timespec time = {0, microseconds * 1000};
    nanosleep(&time, NULL);
}

static void slow(void *const *buffers, const int64_t *extents, void *scratch, int64_t task) {
    (void)buffers, (void)extents, (void)scratch, (void)task;
    nap(6000);
}

static void usual(void *const *buffers, const int64_t *extents, void *scratch, int64_t task) {
    (void)buffers, (void)extents, (void)scratch, (void)task;
    nap(2000);
}

static void fast(void *const *buffers, const int64_t *extents, void *scratch, int64_t task) {
    (void)buffers, (void)extents, (void)scratch, (void)task;
    nap(500);
}

#define EVERY_LEVEL(value) {value, value, value}
static const AttKernel kernels[] = {
    {"slow", EVERY_LEVEL(slow), EVERY_LEVEL(NULL), 0, NULL, EVERY_LEVEL(NULL), 0, 0, 0},
    {"usual", EVERY_LEVEL(usual), EVERY_LEVEL(NULL), 0, NULL, EVERY_LEVEL(NULL), 0, 0, 0},
    {"fast", EVERY_LEVEL(fast), EVERY_LEVEL(NULL), 0, NULL, EVERY_LEVEL(NULL), 0, 0, 0},
};
enum { SLOW, USUAL, FAST };
// The second alternative of the first choice is the fastest, the first of the second, and a kernel
// without a choice runs in between. Layers have one choice twice.
static const AttLaunch launches[] = {
    {USUAL, NULL, NULL, 0, NULL, 0, 0}, {SLOW, NULL, NULL, 0, NULL, 0, 1},
    {FAST, NULL, NULL, 0, NULL, 0, 2},  {USUAL, NULL, NULL, 0, NULL, ATT_NO_CHOICE, 0},
    {USUAL, NULL, NULL, 0, NULL, 0, 0}, {SLOW, NULL, NULL, 0, NULL, 0, 1},
    {FAST, NULL, NULL, 0, NULL, 0, 2},  {FAST, NULL, NULL, 0, NULL, 1, 0},
    {SLOW, NULL, NULL, 0, NULL, 1, 1},
};
static const int64_t n_alternatives[] = {3, 2};
static const AttModule module = {
    .abi = ATT_MODULE_ABI,
    .entry = "Sleep",
    .n_kernels = 3,
    .kernels = kernels,
    .n_launches = EVERY_LEVEL(sizeof launches / sizeof *launches),
    .launches = EVERY_LEVEL(launches),
    .n_choices = EVERY_LEVEL(2),
    .n_alternatives = EVERY_LEVEL(n_alternatives),
};

static bool never(void *self) {
    (void)self;
    return false;
}

static bool at_once(void *self) {
    (void)self;
    return true;
}

static AttTuned tune(AttContext *ctx, AttCall *call, double seconds, bool (*ended)(void *)) {
    AttTuned tuned;
    AttTuning tuning = {.seconds = seconds, .ended = ended};
    assert_int_equal(att_call_new(ctx, &module, call), ATT_OK);
    assert_int_equal(att_tune(ctx, call, &tuning, &tuned), ATT_OK);
    assert_int_equal(tuned.n_choices, 2);
    assert_null(call->choices);
    return tuned;
}

static void test_the_fastest_is_chosen(void **state) {
    AttCall call;
    AttTuned tuned = tune(*state, &call, 3, never);
    assert_true(tuned.enough && tuned.tried == 3);
    assert_int_equal(tuned.n_changed, 1);
    assert_int_equal(tuned.choices[0], 2);
    assert_int_equal(tuned.choices[1], 0);
    assert_true(tuned.after > 0 && tuned.after < 0.9 * tuned.before);
    free(tuned.choices);
    att_call_close(&call);
}

static void test_too_little_time(void **state) {
    AttCall call;
    AttTuned tuned = tune(*state, &call, 0.01, never);
    assert_true(!tuned.enough && tuned.least > 0.1 && tuned.n_changed == 0 && tuned.tried == 0);
    free(tuned.choices);
    att_call_close(&call);
    tuned = tune(*state, &call, 3, at_once);
    assert_true(tuned.enough && tuned.n_changed == 0 && tuned.after == 0);
    free(tuned.choices);
    att_call_close(&call);
}

static void test_choices_as_text(void **state) {
    AttCall call;
    int64_t chosen[] = {2, 1}, *read;
    assert_int_equal(att_call_new(*state, &module, &call), ATT_OK);
    char *text = att_choices_text(*state, &call);
    assert_string_equal(text, "");
    free(text);
    call.choices = chosen;
    text = att_choices_text(*state, &call);
    assert_string_equal(strchr(text, ':'), ": 2 1");
    assert_int_equal(att_choices_read(*state, &module, text, &read), ATT_OK);
    assert_memory_equal(read, chosen, sizeof chosen);
    free(read);
    strchr(text, ':')[2] = '3'; // there is none
    assert_int_equal(att_choices_read(*state, &module, text, &read), ATT_OK);
    assert_null(read);
    free(text);
    const char *const others[] = {"",
                                  "x86-64-v1: 2 1",
                                  "2 1",
                                  "x86-64-v4:",
                                  "x86-64-v4: 2",
                                  "x86-64-v4: 2 1 0",
                                  "x86-64-v4: 2 -1",
                                  "x86-64-v4: a b"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(att_choices_read(*state, &module, others[i], &read), ATT_OK);
        assert_null(read);
    }
    call.choices = NULL;
    att_call_close(&call);
}

static void test_statistics(void **state) {
    (void)state;
    double values[] = {4, 1, 3, 2}, faster[] = {0.8, 0.9, 0.7, 0.9, 0.95};
    assert_true(att_quantile(values, 4, 0.5) == 2.5 && values[0] == 1 && values[3] == 4);
    assert_true(att_quantile(values, 4, 1) == 4 && att_quantile(values, 1, 0.3) == 1);
    assert_true(att_confidence(faster, 5, 1) > 0.96 && att_confidence(faster, 5, 0.85) < 0.6);
    assert_true(att_confidence(faster, 0, 1) == 0);
}

static int setup(void **state) {
    *state = att_context_new(1);
    return *state ? 0 : -1;
}

static int teardown(void **state) {
    att_context_free(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_fastest_is_chosen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_little_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_choices_as_text, setup, teardown),
        cmocka_unit_test(test_statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
