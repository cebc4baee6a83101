// SPDX-License-Identifier: Apache-2.0
// First values of trained tensors: their moments and bounds, and that each is what its place says.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "train/train.h"

enum { COUNT = 100000 };

static float *values_of(const char *name, int64_t init, double a, double b, uint64_t seed) {
    AttParam param = {.name = name, .init = init, .a = a, .b = b};
    float *values = calloc(COUNT, sizeof *values);
    assert_non_null(values);
    att_param_init(&param, seed, COUNT, values);
    return values;
}

static void moments(const float *values, double *mean, double *deviation, double *largest) {
    double sum = 0, squares = 0;
    *largest = 0;
    for (int i = 0; i < COUNT; i++) {
        sum += values[i];
        squares += (double)values[i] * values[i];
        *largest = fmax(*largest, fabs((double)values[i]));
    }
    *mean = sum / COUNT;
    *deviation = sqrt(squares / COUNT - *mean * *mean);
}

static void test_value(void **state) {
    (void)state;
    float *values = values_of("gain", ATT_INIT_VALUE, 1.5, 0, 3);
    for (int i = 0; i < COUNT; i++)
        assert_true(values[i] == 1.5f);
    free(values);
}

static void test_normal(void **state) {
    (void)state;
    double mean, deviation, largest;
    float *values = values_of("W", ATT_INIT_NORMAL, 0.02, 0, 3);
    moments(values, &mean, &deviation, &largest);
    assert_true(fabs(mean) < 0.0003 && fabs(deviation - 0.02) < 0.0002);
    assert_true(largest > 0.06); // it is not cut
    free(values);
}

// The deviation of a normal number within two deviations is 0.8796.
static void test_truncated(void **state) {
    (void)state;
    double mean, deviation, largest;
    float *values = values_of("W", ATT_INIT_TRUNCATED_NORMAL, 0.5, 0, 3);
    moments(values, &mean, &deviation, &largest);
    assert_true(fabs(mean) < 0.006 && fabs(deviation - 0.5 * 0.8796) < 0.004);
    assert_true(largest <= 1 && largest > 0.99);
    free(values);
}

static void test_uniform(void **state) {
    (void)state;
    double mean, deviation, largest;
    float *values = values_of("W", ATT_INIT_UNIFORM, -3, 1, 3);
    moments(values, &mean, &deviation, &largest);
    assert_true(fabs(mean + 1) < 0.02 && fabs(deviation - 4 / sqrt(12)) < 0.02);
    for (int i = 0; i < COUNT; i++)
        assert_true(values[i] >= -3 && values[i] <= 1);
    free(values);
}

static void test_seed_and_name(void **state) {
    (void)state;
    float *a = values_of("W", ATT_INIT_NORMAL, 1, 0, 3),
          *b = values_of("V", ATT_INIT_NORMAL, 1, 0, 3),
          *c = values_of("W", ATT_INIT_NORMAL, 1, 0, 4),
          *d = values_of("W", ATT_INIT_NORMAL, 1, 0, 3);
    assert_true(memcmp(a, b, COUNT * sizeof *a) != 0);
    assert_true(memcmp(a, c, COUNT * sizeof *a) != 0);
    assert_memory_equal(a, d, COUNT * sizeof *a);
    free(a);
    free(b);
    free(c);
    free(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_value),         cmocka_unit_test(test_normal),
        cmocka_unit_test(test_truncated),     cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_seed_and_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
