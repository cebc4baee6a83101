// SPDX-License-Identifier: Apache-2.0
// Singular values and eigenvalues, against matrices whose values are known.
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/heads/heads.h"

static void assert_near(double a, double b, double relative) {
    if (!(fabs(a - b) <= relative * fabs(b)))
        fail_msg("%.17g is not %.17g", a, b);
}

static void test_known_values(void **state) {
    (void)state;
    double matrix[] = {3, 0, 4, 5}, values[2]; // sqrt 45 and sqrt 5
    att_singular_values(2, 2, matrix, values);
    assert_near(values[0], sqrt(45), 1e-14);
    assert_near(values[1], sqrt(5), 1e-14);
}

// Wide and tall matrices have the same values as their transposes.
static void test_shapes(void **state) {
    (void)state;
    double wide[] = {1, 2, 2, 0, 3, 0}, tall[] = {1, 0, 2, 3, 2, 0}, a[2], b[2];
    att_singular_values(2, 3, wide, a);
    att_singular_values(3, 2, tall, b);
    // Of {{9, 6}, {6, 9}}: 15 and 3.
    assert_near(a[0], sqrt(15), 1e-14);
    assert_near(a[1], sqrt(3), 1e-14);
    assert_near(b[0], a[0], 1e-14);
    assert_near(b[1], a[1], 1e-14);
}

// The Hilbert matrix of order 6: condition number 1.4951058642254665e7.
static void test_a_bad_condition_is_found(void **state) {
    (void)state;
    double matrix[36], values[6];
    for (int i = 0; i < 36; i++)
        matrix[i] = 1.0 / (i / 6 + i % 6 + 1);
    att_singular_values(6, 6, matrix, values);
    assert_near(values[0] / values[5], 1.4951058642254665e7, 1e-8);
}

static void test_a_missing_rank(void **state) {
    (void)state;
    double matrix[] = {1, 2, 2, 4}, values[2];
    att_singular_values(2, 2, matrix, values);
    assert_near(values[0], 5, 1e-14);
    assert_true(values[1] < 1e-15);
    double nothing[4] = {0};
    att_singular_values(2, 2, nothing, values);
    assert_true(values[0] == 0 && values[1] == 0);
}

static void test_orthonormal_columns(void **state) {
    (void)state;
    double matrix[12], dot[4] = {0};
    for (int i = 0; i < 12; i++)
        matrix[i] = sin(i * i + 1);
    double first[12];
    memcpy(first, matrix, sizeof matrix);
    att_orthonormal_columns(6, 2, matrix);
    for (int k = 0; k < 6; k++)
        for (int i = 0; i < 4; i++)
            dot[i] += matrix[2 * k + i / 2] * matrix[2 * k + i % 2];
    assert_near(dot[0], 1, 1e-14);
    assert_near(dot[3], 1, 1e-14);
    assert_true(fabs(dot[1]) < 1e-14);
    for (int column = 0; column < 2; column++) { // what they spanned is left by taking it away
        double along[2] = {0}, rest = 0;
        for (int k = 0; k < 6; k++)
            for (int i = 0; i < 2; i++)
                along[i] += first[2 * k + column] * matrix[2 * k + i];
        for (int k = 0; k < 6; k++)
            rest += fabs(first[2 * k + column] - along[0] * matrix[2 * k] -
                         along[1] * matrix[2 * k + 1]);
        assert_true(rest < 1e-13);
    }
}

static void test_a_column_too_many_is_zero(void **state) {
    (void)state;
    double matrix[] = {1, 1, 2, 2, 2, 2};
    att_orthonormal_columns(3, 2, matrix);
    double a = 0, b = 0;
    for (int k = 0; k < 3; k++) {
        a += matrix[2 * k] * matrix[2 * k];
        b += matrix[2 * k + 1] * matrix[2 * k + 1];
    }
    assert_near(a + b, 1, 1e-14);
    assert_true(a == 0 || b == 0);
}

// L transpose(L) has the squares of the singular values, whatever the size.
static void test_eigenvalues_are_squares(void **state) {
    (void)state;
    for (int n = 1; n <= 40; n += 3) {
        double matrix[1600], square[1600], values[40], roots[40], work[80];
        for (int i = 0; i < n * n; i++)
            matrix[i] = sin(i * i + n);
        for (int i = 0; i < n * n; i++) {
            square[i] = 0;
            for (int k = 0; k < n; k++)
                square[i] += matrix[i / n * n + k] * matrix[i % n * n + k];
        }
        att_symmetric_eigenvalues(n, square, values, work);
        att_singular_values(n, n, matrix, roots);
        for (int i = 0; i < n; i++) { // one of them is that of each
            double nearest = INFINITY;
            for (int k = 0; k < n; k++)
                nearest = fmin(nearest, fabs(values[k] - roots[i] * roots[i]));
            assert_true(nearest < 1e-12 * roots[0] * roots[0]);
        }
    }
}

static void test_eigenvalues_with_signs(void **state) {
    (void)state;
    double matrix[] = {0, 1, 0, 1, 0, 0, 0, 0, -3}, values[3], work[6]; // 1, -1, -3
    att_symmetric_eigenvalues(3, matrix, values, work);
    assert_near(values[0] + values[1] + values[2], -3, 1e-14);
    assert_near(values[0] * values[1] * values[2], 3, 1e-14);
    assert_near(values[0] * values[0] + values[1] * values[1] + values[2] * values[2], 11, 1e-14);
}

static void test_effective_rank(void **state) {
    (void)state;
    assert_near(att_effective_rank(4, (double[]){2, 2, 2, 2}), 4, 1e-14);
    assert_near(att_effective_rank(3, (double[]){5, 0, 0}), 1, 1e-14);
    assert_true(att_effective_rank(2, (double[]){0, 0}) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_a_bad_condition_is_found),
        cmocka_unit_test(test_a_missing_rank),
        cmocka_unit_test(test_orthonormal_columns),
        cmocka_unit_test(test_a_column_too_many_is_zero),
        cmocka_unit_test(test_eigenvalues_are_squares),
        cmocka_unit_test(test_eigenvalues_with_signs),
        cmocka_unit_test(test_effective_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
