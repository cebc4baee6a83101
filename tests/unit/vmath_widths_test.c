// SPDX-License-Identifier: Apache-2.0
// The vector math for any number of lanes and for the other element types, on every level that this
// machine runs.
#include "vmath_fixture.h"

#include <math.h>
#include <stdlib.h>

// The same bits for scalars and for vectors of any length, and on all levels if so told.
static void all_lengths(void **state) {
    enum { N = 4096 };
    static float x[N], reference[N], y[N];
    Suite *suite = *state;
    int special = vmath_special(x);
    att_random_normal(1, 2, N - special, x + special);
    for (int i = special; i < N; i++)
        x[i] *= i % 3 == 0 ? 1 : i % 3 == 1 ? 30 : 1e12f;
    for (int f = 0; f < N_FUNCTIONS; f++)
        for (int level = 0; level < suite->n_levels; level++)
            for (int lanes = 1; lanes <= 32; lanes *= 2) {
                Code code =
                    vmath_code(suite->machine[level], vmath_functions[f].op, ELEM_F32, lanes);
                bool first = lanes == 1 && (level == 0 || vmath_functions[f].symmetry == BY_LEVEL);
                float *found = first ? reference : y;
                bool saturates =
                    vmath_functions[f].op == OP_TANH || vmath_functions[f].op == OP_ERF;
                code(x, x, found, N);
                for (int i = 0; i < N; i++) {
                    assert_false(saturates && fabsf(found[i]) > 1);
                    double exact = vmath_functions[f].reference((double)x[i]);
                    if (first && ulps(reference[i], exact) > vmath_functions[f].bound)
                        fail_msg("%s(%a) is %a", op_name(vmath_functions[f].op), (double)x[i],
                                 (double)reference[i]);
                    if (!first && !alike(y[i], reference[i]))
                        fail_msg("%s(%a) is %a with %d lanes on %s, %a before",
                                 op_name(vmath_functions[f].op), (double)x[i], (double)y[i], lanes,
                                 suite->target[level]->name, (double)reference[i]);
                }
            }
}

// Double, for one lane and several, against long double.
static void doubles(void **state) {
    static const struct {
        Op op;
        long double (*reference)(long double);
    } table[] = {{OP_EXP, expl}, {OP_EXP2, exp2l}, {OP_LOG, logl}, {OP_TANH, tanhl},
                 {OP_ERF, erfl}, {OP_SQRT, sqrtl}, {OP_SIN, sinl}, {OP_COS, cosl}};
    enum { N = 4096 };
    static float start[N];
    static double x[N], y[N];
    Suite *suite = *state;
    att_random_normal(1, 2, N, start);
    for (int i = 0; i < N; i++)
        x[i] = (double)start[i] * (i % 2 ? 1 : 20);
    for (size_t f = 0; f < sizeof table / sizeof *table; f++)
        for (int lanes = 1; lanes <= 8; lanes *= 8) {
            vmath_code(suite->machine[0], table[f].op, ELEM_F64, lanes)(x, x, y, N);
            for (int i = 0; i < N; i++) {
                long double exact = table[f].reference((long double)x[i]);
                if (isnan(exact)) {
                    assert_true(isnan(y[i]));
                    continue;
                }
                double ulp = fabs(nextafter((double)exact, INFINITY) - (double)exact);
                if (fabsl((long double)y[i] - exact) > 2 * (long double)ulp)
                    fail_msg("%s(%a) is %a", op_name(table[f].op), x[i], y[i]);
            }
        }
    for (int i = 0; i < N; i++)
        x[i] = fabs(x[i]);
    vmath_code(suite->machine[0], OP_POW, ELEM_F64, 4)(x, x, y, N);
    for (int i = 0; i < N; i++)
        assert_true(fabsl((long double)y[i] / powl((long double)x[i], (long double)x[i]) - 1) <
                    0x1p-51L);
}

// f16 and bf16 are rounded once, after an f32 computation.
static void halves(void **state) {
    enum { N = 0x7C00 };
    static uint16_t x[N], y[N];
    Suite *suite = *state;
    for (int level = 0; level < suite->n_levels; level++) {
        for (int i = 0; i < N; i++)
            x[i] = (uint16_t)(0x8000 + i);
        vmath_code(suite->machine[level], OP_EXP, ELEM_F16, 16)(x, x, y, N);
        for (int i = 0; i < N; i++) {
            double exact = exp((double)att_f16_to_f32(x[i]));
            uint16_t right = att_f32_to_f16((float)exact);
            assert_true(abs(y[i] - right) <= 1);
        }
        vmath_code(suite->machine[level], OP_EXP, ELEM_BF16, 16)(x, x, y, N);
        for (int i = 0; i < N; i++) {
            double exact = exp((double)att_bf16_to_f32(x[i]));
            assert_true(abs(y[i] - att_f32_to_bf16((float)exact)) <= 1);
        }
    }
}

static void ops(void **state) {
    static const Op mine[] = {OP_EXP, OP_EXP2, OP_LOG, OP_SQRT, OP_RSQRT, OP_TANH,
                              OP_ERF, OP_SIN,  OP_COS, OP_POW,  OP_RANDOM};
    int count = 0;
    (void)state;
    for (int op = 0; op < N_OP; op++)
        count += vmath_has((Op)op);
    assert_int_equal(count, sizeof mine / sizeof *mine);
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        assert_true(vmath_has(mine[i]));
}

int main(void) {
    Suite suite = {0};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(all_lengths, &suite),
        cmocka_unit_test_prestate(doubles, &suite),
        cmocka_unit_test_prestate(halves, &suite),
        cmocka_unit_test_prestate(ops, &suite),
    };
    if (vmath_open(&suite))
        return 1;
    int failed = cmocka_run_group_tests_name("vmath_widths", tests, NULL, NULL);
    vmath_close(&suite);
    return failed;
}
