// SPDX-License-Identifier: Apache-2.0
// att_sample: which tokens may be drawn, and logits that none can be drawn by.
#include "support.h"

#include "train/generate/generate.h"

#include <math.h>

enum { COUNT = 4 };
static const float logits[COUNT] = {1, 3, 3, -INFINITY};

// How often each token is drawn of a thousand.
static void draw(AttSampling sampling, int drawn[COUNT]) {
    AttCandidate room[COUNT];
    for (int i = 0; i < COUNT; i++)
        drawn[i] = 0;
    for (int64_t number = 0; number < 1000; number++)
        drawn[att_sample(&sampling, logits, COUNT, number, room)]++;
}

static void expect_near(int drawn, double share) {
    if (fabs(drawn - 1000 * share) > 60)
        fail_msg("%d of 1000 where %.0f are likely", drawn, 1000 * share);
}

static void test_draws_follow_the_logits(void **state) {
    (void)state;
    int drawn[COUNT];
    double likely = 1 / (2 + exp(-2)), flat = 1 / (2 + exp(-1));
    draw((AttSampling){.temperature = 1, .top_p = 1}, drawn);
    expect_near(drawn[1], likely);
    expect_near(drawn[2], likely);
    assert_true(drawn[0] > 0);
    assert_int_equal(drawn[3], 0);
    draw((AttSampling){.temperature = 2, .top_p = 1}, drawn);
    expect_near(drawn[1], flat);
}

static void test_only_the_most_likely(void **state) {
    (void)state;
    int drawn[COUNT];
    draw((AttSampling){.temperature = 1, .top_p = 1, .top_k = 2}, drawn);
    expect_near(drawn[1], 0.5);
    assert_int_equal(drawn[1] + drawn[2], 1000);
    draw((AttSampling){.temperature = 1, .top_p = 0.6}, drawn);
    assert_int_equal(drawn[1] + drawn[2], 1000);
    draw((AttSampling){.temperature = 1, .top_p = 0.4}, drawn);
    assert_int_equal(drawn[1], 1000); // of equals the first
    draw((AttSampling){.top_p = 1}, drawn);
    assert_int_equal(drawn[1], 1000);
}

static void test_logits_of_no_use(void **state) {
    (void)state;
    static const float broken[][2] = {{0, NAN}, {NAN, NAN}, {INFINITY, 0}, {-INFINITY, -INFINITY}};
    AttSampling sampling = {.temperature = 1, .top_p = 1};
    AttCandidate room[2];
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        assert_int_equal(att_sample(&sampling, broken[i], 2, 0, room), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draws_follow_the_logits),
        cmocka_unit_test(test_only_the_most_likely),
        cmocka_unit_test(test_logits_of_no_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
