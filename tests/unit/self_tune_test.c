// SPDX-License-Identifier: Apache-2.0
// How a program chooses among alternatives, on kernels that sleep.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "statistics.h"
#include "support.h"
#include "train/loop/loop.h"

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

// Fast at first, then slow.
enum { FAST_RUNS = 42 };
static int runs_of_fading;

static void fading(void *const *buffers, const int64_t *extents, void *scratch, int64_t task) {
    (void)buffers, (void)extents, (void)scratch, (void)task;
    nap(runs_of_fading++ < FAST_RUNS ? 500 : 6000);
}

#define EVERY_LEVEL(value) {value, value, value}
static const AttKernel kernels[] = {
    {"slow", EVERY_LEVEL(slow), EVERY_LEVEL(NULL), 0, NULL, EVERY_LEVEL(NULL), 0, 0, 0},
    {"usual", EVERY_LEVEL(usual), EVERY_LEVEL(NULL), 0, NULL, EVERY_LEVEL(NULL), 0, 0, 0},
    {"fast", EVERY_LEVEL(fast), EVERY_LEVEL(NULL), 0, NULL, EVERY_LEVEL(NULL), 0, 0, 0},
    {"fading", EVERY_LEVEL(fading), EVERY_LEVEL(NULL), 0, NULL, EVERY_LEVEL(NULL), 0, 0, 0},
};
enum { SLOW, USUAL, FAST, FADING, N_KERNELS };
// The second alternative of the first choice is the fastest, the first of the second, and a kernel
// without a choice runs in between. Layers have one choice twice. The third choice does not run.
static const AttGuard never_holds = {0, 2, 3};
static const AttLaunch launches[] = {
    {USUAL, NULL, NULL, 0, NULL, 0, 0},        {SLOW, NULL, NULL, 0, NULL, 0, 1},
    {FAST, NULL, NULL, 0, NULL, 0, 2},         {USUAL, NULL, NULL, 0, NULL, ATT_NO_CHOICE, 0},
    {USUAL, NULL, NULL, 0, NULL, 0, 0},        {SLOW, NULL, NULL, 0, NULL, 0, 1},
    {FAST, NULL, NULL, 0, NULL, 0, 2},         {FAST, NULL, NULL, 0, NULL, 1, 0},
    {SLOW, NULL, NULL, 0, NULL, 1, 1},         {SLOW, NULL, NULL, 1, &never_holds, 2, 0},
    {FAST, NULL, NULL, 1, &never_holds, 2, 1},
};
static const AttDim dims[] = {{"n", 1, 0, 0, 0}};
static const int64_t n_alternatives[] = {3, 2, 2};
static const AttModule module = {
    .abi = ATT_MODULE_ABI,
    .entry = "Sleep",
    .n_dims = 1,
    .dims = dims,
    .n_kernels = N_KERNELS,
    .kernels = kernels,
    .n_launches = EVERY_LEVEL(sizeof launches / sizeof *launches),
    .launches = EVERY_LEVEL(launches),
    .n_choices = EVERY_LEVEL(3),
    .n_alternatives = EVERY_LEVEL(n_alternatives),
    .identity = EVERY_LEVEL(0x1234),
};

static AttTuned tune_from(AttContext *ctx, const AttModule *of, const int64_t *base, double seconds,
                          AttEnding *ending) {
    AttCall call;
    AttTuned tuned;
    assert_int_equal(att_call_new(ctx, of, &call), ATT_OK);
    call.extents[0] = 1;
    call.choices = base;
    assert_int_equal(att_tune(ctx, &call, seconds, ending, &tuned), ATT_OK);
    assert_ptr_equal(call.choices, base);
    assert_null(call.seconds);
    att_call_close(&call);
    return tuned;
}

static AttTuned tune(AttContext *ctx, const AttModule *of, double seconds, AttEnding *ending) {
    return tune_from(ctx, of, NULL, seconds, ending);
}

// What the call has is what others have to be faster than.
static void test_what_was_chosen_is_the_base(void **state) {
    static const int64_t fastest[] = {2, 0, 1}, slowest[] = {1, 1, 1};
    AttEnding ending = {0};
    AttTuned tuned = tune_from(*state, &module, fastest, 3, &ending);
    assert_true(tuned.enough && tuned.n_changed == 0);
    free(tuned.choices);
    tuned = tune_from(*state, &module, slowest, 6, &ending);
    assert_int_equal(tuned.n_changed, 2);
    assert_true(tuned.choices[0] == 2 && tuned.choices[1] == 0 && tuned.choices[2] == 1);
    free(tuned.choices);
}

static void test_the_fastest_is_chosen(void **state) {
    AttEnding ending = {0};
    AttTuned tuned = tune(*state, &module, 3, &ending);
    assert_true(tuned.enough && !tuned.ended);
    assert_int_equal(tuned.n_choices, 2);
    assert_int_equal(tuned.n_changed, 1);
    assert_int_equal(tuned.choices[0], 2);
    assert_int_equal(tuned.choices[1], 0);
    assert_true(tuned.after > 0 && tuned.after < 0.9 * tuned.before);
    free(tuned.choices);
}

// There are eight alternatives, and time for few of them.
static void test_a_slow_one_takes_no_time_from_others(void **state) {
    enum { N = 9 };
    AttLaunch own[2 * N];
    const int64_t counts[] = {N, N};
    AttModule many = module;
    AttEnding ending = {0};
    for (int i = 0; i < 2 * N; i++) {
        int64_t fastest = i < N ? 1 : 3;
        own[i] = (AttLaunch){.kernel = i % N == 0         ? USUAL
                                       : i % N == fastest ? FAST
                                                          : SLOW,
                             .choice = i / N,
                             .alternative = i % N};
    }
    for (int level = 0; level < ATT_N_LEVELS; level++) {
        many.launches[level] = own;
        many.n_launches[level] = 2 * N;
        many.n_choices[level] = 2;
        many.n_alternatives[level] = counts;
    }
    AttTuned tuned = tune(*state, &many, 1, &ending);
    assert_int_equal(tuned.n_changed, 1);
    assert_int_equal(tuned.choices[0], 1);
    free(tuned.choices);
    tuned = tune(*state, &many, 8, &ending);
    assert_int_equal(tuned.n_changed, 2);
    assert_true(tuned.choices[0] == 1 && tuned.choices[1] == 3);
    free(tuned.choices);
}

// An alternative is faster as long as the other kernels have theirs: together nothing is.
static void test_what_does_not_hold_up_together_is_none(void **state) {
    static const AttLaunch own[] = {{USUAL, NULL, NULL, 0, NULL, 0, 0},
                                    {FADING, NULL, NULL, 0, NULL, 0, 1}};
    static const int64_t counts[] = {2};
    AttModule fading = module;
    AttEnding ending = {0};
    for (int level = 0; level < ATT_N_LEVELS; level++) {
        fading.launches[level] = own;
        fading.n_launches[level] = 2;
        fading.n_choices[level] = 1;
        fading.n_alternatives[level] = counts;
    }
    runs_of_fading = 0;
    AttTuned tuned = tune(*state, &fading, 60, &ending);
    assert_true(tuned.enough && tuned.n_compared == 1 && tuned.n_changed == 0);
    assert_true(runs_of_fading > FAST_RUNS);
    free(tuned.choices);
}

// The output of two elements, and kernels that make it, up to its rounding or not.
static float made[2];

static void makes(void *const *buffers, const int64_t *extents, void *scratch, int64_t task) {
    usual(buffers, extents, scratch, task);
    made[0] = 3, made[1] = -1;
}

static void rounds(void *const *buffers, const int64_t *extents, void *scratch, int64_t task) {
    fast(buffers, extents, scratch, task);
    made[0] = 3.0001F, made[1] = -0.9999F;
}

static void errs(void *const *buffers, const int64_t *extents, void *scratch, int64_t task) {
    fast(buffers, extents, scratch, task);
    made[0] = 3, made[1] = -1.5F;
}

static AttTuned tune_of_two(AttContext *ctx, AttKernelFn other) {
    const AttKernel own[] = {
        {"makes", EVERY_LEVEL(makes), EVERY_LEVEL(NULL), 0, NULL, EVERY_LEVEL(NULL), 0, 0, 0},
        {"other", EVERY_LEVEL(other), EVERY_LEVEL(NULL), 0, NULL, EVERY_LEVEL(NULL), 0, 0, 0}};
    static const AttLaunch both[] = {{0, NULL, NULL, 0, NULL, 0, 0},
                                     {1, NULL, NULL, 0, NULL, 0, 1}};
    static const AttDim two = {"n", 2, 0, 0, 0};
    static const int64_t counts[] = {2}, shape[] = {0};
    const AttTensor output = {
        .name = "dW", .elem = ATT_F32, .role = ATT_OUTPUT, .rank = 1, .dims = shape};
    AttModule of = module;
    of.dims = &two;
    of.tensors = &output;
    of.n_tensors = 1;
    of.kernels = own;
    of.n_kernels = 2;
    for (int level = 0; level < ATT_N_LEVELS; level++) {
        of.launches[level] = both;
        of.n_launches[level] = 2;
        of.n_choices[level] = 1;
        of.n_alternatives[level] = counts;
    }
    AttCall call;
    AttTuned tuned;
    AttEnding ending = {0};
    assert_int_equal(att_call_new(ctx, &of, &call), ATT_OK);
    call.extents[0] = 2;
    call.tensors[0] = made;
    assert_int_equal(att_tune(ctx, &call, 1, &ending, &tuned), ATT_OK);
    att_call_close(&call);
    free(tuned.choices);
    return tuned;
}

static void test_what_makes_other_results_is_none(void **state) {
    AttTuned right = tune_of_two(*state, rounds), wrong = tune_of_two(*state, errs);
    assert_true(right.n_changed == 1 && !right.differs);
    assert_true(wrong.n_changed == 0 && wrong.differs);
}

// A large gradient, a small one, one that cancels to its rounding, and the loss, larger than all.
enum { OUTPUTS = 4, N_OF_OUTPUT = 1000 };

static void fill_outputs(float outputs[OUTPUTS][N_OF_OUTPUT]) {
    for (int i = 0; i < N_OF_OUTPUT; i++) {
        outputs[0][i] = (float)(i % 7 - 3);
        outputs[1][i] = 1e-3F * (float)(i % 5 - 2);
        outputs[2][i] = 1e-6F * (float)(i % 3 - 1);
        outputs[3][i] = 1e4F;
    }
}

// What changes: from an element of an output on, by a factor and a number.
static void test_what_is_alike(void **state) {
    static const struct {
        int output, from;
        float by, more;
        bool alike;
    } changes[] = {
        {0, 0, 1, 0, true},      {0, 0, 1.001F, 0, true},
        {0, 0, 1.02F, 0, false}, {0, N_OF_OUTPUT - 20, 1.1F, 0, false}, // a fiftieth of it
        {0, 0, -1, 0, false},    {0, N_OF_OUTPUT - 1, NAN, 0, false},
        {1, 0, 1.1F, 0, false},  {2, 0, -1, 0, true},
        {2, 0, 0, 0, true},      {2, 0, 1, 1e-4F, false},
        {3, 0, 1.02F, 0, false}};
    static const int64_t shape[] = {0};
    float outputs[OUTPUTS][N_OF_OUTPUT];
    AttTensor tensors[OUTPUTS];
    AttModule of = module;
    AttCall call;
    for (int k = 0; k < OUTPUTS; k++)
        tensors[k] = (AttTensor){.name = "dW",
                                 .elem = ATT_F32,
                                 .role = ATT_OUTPUT,
                                 .rank = 1,
                                 .dims = shape,
                                 .use = k < 3 ? ATT_USE_GRADIENT : ATT_USE_PLAIN};
    of.tensors = tensors;
    of.n_tensors = OUTPUTS;
    assert_int_equal(att_call_new(*state, &of, &call), ATT_OK);
    call.extents[0] = N_OF_OUTPUT;
    for (int k = 0; k < OUTPUTS; k++)
        call.tensors[k] = outputs[k];
    for (size_t c = 0; c < sizeof changes / sizeof *changes; c++) {
        AttSketch *before, *after;
        fill_outputs(outputs);
        assert_int_equal(att_sketch(*state, &call, &before), ATT_OK);
        for (int i = changes[c].from; i < N_OF_OUTPUT; i++)
            outputs[changes[c].output][i] =
                outputs[changes[c].output][i] * changes[c].by + changes[c].more;
        assert_int_equal(att_sketch(*state, &call, &after), ATT_OK);
        assert_int_equal(att_sketches_alike(&call, before, after), changes[c].alike);
        assert_true(att_sketches_alike(&call, after, after));
        free(before);
        free(after);
    }
    att_call_close(&call);
}

static void test_too_little_time(void **state) {
    AttEnding ending = {0};
    AttTuned tuned = tune(*state, &module, 0.01, &ending);
    assert_true(!tuned.enough && tuned.least > 0.1 && tuned.n_changed == 0);
    free(tuned.choices);
    ending.came = true;
    tuned = tune(*state, &module, 3, &ending);
    assert_true(tuned.enough && tuned.ended && tuned.n_changed == 0);
    free(tuned.choices);
}

// The second alternative wants more memory than there is.
static int64_t no_room(const int64_t *extents) {
    (void)extents;
    return INT64_C(1) << 60;
}

static void test_what_does_not_fit_is_given_up(void **state) {
    AttKernel own[N_KERNELS];
    AttModule hungry = module;
    AttEnding ending = {0};
    memcpy(own, kernels, sizeof own);
    for (int level = 0; level < ATT_N_LEVELS; level++)
        own[SLOW].scratch[level] = no_room;
    hungry.kernels = own;
    AttTuned tuned = tune(*state, &hungry, 2, &ending);
    assert_int_equal(tuned.n_changed, 1);
    assert_int_equal(tuned.choices[0], 2);
    free(tuned.choices);
}

static void assert_none(AttContext *ctx, const char *text) {
    int64_t *read;
    assert_int_equal(att_choices_read(ctx, &module, text, &read), ATT_OK);
    assert_null(read);
}

static void test_choices_as_text(void **state) {
    AttCall call;
    AttModule other = module;
    int64_t chosen[] = {2, 1, 0}, *read;
    assert_int_equal(att_call_new(*state, &module, &call), ATT_OK);
    char *text = att_choices_text(*state, &call);
    assert_string_equal(text, "");
    free(text);
    call.choices = chosen;
    text = att_choices_text(*state, &call);
    char *numbers = strchr(text, ':');
    assert_string_equal(numbers, ": 2 1 0");
    assert_int_equal(att_choices_read(*state, &module, text, &read), ATT_OK);
    assert_memory_equal(read, chosen, sizeof chosen);
    free(read);
    for (int level = 0; level < ATT_N_LEVELS; level++)
        other.identity[level] = 0x1235;
    assert_int_equal(att_choices_read(*state, &other, text, &read), ATT_OK);
    assert_null(read);
    const char *const others[] = {": 3 1 0",
                                  ": 2 1",
                                  ": 2 1 0 0",
                                  ": 2 -1 0",
                                  ": 2 +1 0",
                                  ": 2  1 0",
                                  ":2 1 0",
                                  ": 2 1 0 ",
                                  ": a b c",
                                  ": 2 1 0x0",
                                  ": 2 1 99999999999999999999999999999999",
                                  ":",
                                  ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char wrong[100];
        snprintf(wrong, sizeof wrong, "%.*s%s", (int)(numbers - text), text, others[i]);
        assert_none(*state, wrong);
    }
    text[0] = 'y';
    assert_none(*state, text);
    assert_none(*state, "");
    free(text);
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
    for (int64_t n = 1; n < 20; n++) {
        int64_t wanted = att_values_wanted(n);
        double all[20] = {0};
        assert_true(att_confidence(all, wanted, 1) >= att_confidence_wanted(n));
        assert_true(att_confidence(all, wanted - 1, 1) < att_confidence_wanted(n));
    }
}

static int setup(void **state) {
    att_ending_await();
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
        cmocka_unit_test_setup_teardown(test_a_slow_one_takes_no_time_from_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_does_not_hold_up_together_is_none, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_what_was_chosen_is_the_base, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_makes_other_results_is_none, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_alike, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_little_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_does_not_fit_is_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(test_choices_as_text, setup, teardown),
        cmocka_unit_test(test_statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
