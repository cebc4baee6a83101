// SPDX-License-Identifier: Apache-2.0
// What verify lets pass: errors of outputs and of their rows, and elements that nothing is held to.
#include "support.h"

#include <math.h>

#include "driver/driver.h"

enum { ROWS = 8, ROW = 64, COUNT = ROWS * ROW };

// Rows of values from 1000 down to 1e-4; plain code is wrong by 1e-7 of them, and so is ours.
typedef struct {
    Arena *arena;
    AttTensorData output;
    double reference[COUNT], plain[COUNT], actual[COUNT];
} Case;

static double size_of_row(int row) {
    return pow(10, 3 - row);
}

static int make_case(void **state) {
    Arena *arena = arena_new();
    Case *c = arena_array(arena, Case, 1);
    c->arena = arena;
    c->output = (AttTensorData){.elem = ATT_F32, .rank = 2, .shape = {ROWS, ROW}};
    for (int i = 0; i < COUNT; i++) {
        c->reference[i] = size_of_row(i / ROW) * sin(i + 1);
        c->plain[i] = c->reference[i] * (1 + 1e-7 * (i % 2 ? 1 : -1));
        c->actual[i] = c->reference[i] * (1 + 1e-7 * (i % 3 ? 1 : -1));
    }
    *state = c;
    return 0;
}

static int free_case(void **state) {
    Case *c = *state;
    arena_free(c->arena);
    return 0;
}

static OutputError judge(const Case *c) {
    NaiveErrors naive = tolerance_open(&c->output, c->reference, c->arena);
    tolerance_add_naive(&naive, c->plain);
    return tolerance_judge((ErrorUnit){(Elem)c->output.elem, false}, &naive, c->actual);
}

static void plain_errors_pass(void **state) {
    OutputError e = judge(*state);
    assert_true(e.fine && e.row_fine && e.n_skipped == 0);
    assert_true(e.error <= e.limit && e.row_error <= e.row_limit);
    assert_true(e.largest > 990 && e.largest < 1000 && isfinite(e.limit));
}

static void large_errors_do_not_pass(void **state) {
    Case *c = *state;
    c->actual[3] += 1;
    OutputError e = judge(c);
    assert_true(!e.fine && e.error > e.limit);
}

static void one_overflow_lifts_no_limit(void **state) {
    Case *c = *state;
    c->plain[7] = INFINITY;
    c->actual[7] = 12345; // whatever it is
    OutputError e = judge(c);
    assert_true(e.fine && e.n_skipped == 1 && e.limit < 1e-2);
    c->actual[8] += 1;
    assert_false(judge(c).fine);
}

static void one_large_naive_error_does_not_hide_other_rows(void **state) {
    Case *c = *state;
    c->plain[7] += 1e6;
    assert_true(judge(c).fine);
    c->actual[3 * ROW] += 1;
    OutputError e = judge(c);
    assert_true(e.error <= e.limit && !e.row_fine && !e.fine);
    assert_int_equal(e.row, 3 * ROW);
}

static void wrong_rows_of_small_values_are_seen(void **state) {
    Case *c = *state;
    for (int i = 7 * ROW; i < 8 * ROW; i++)
        c->actual[i] = -c->reference[i];
    OutputError e = judge(c);
    assert_true(e.error <= e.limit); // all of the row is less than an error of the first one
    assert_true(!e.row_fine && !e.fine);
    assert_int_equal(e.row, 7 * ROW);
}

static void errors_all_over_a_row_are_seen_by_their_mean(void **state) {
    Case *c = *state;
    for (int i = 0; i < COUNT; i++)
        c->plain[i] = c->reference[i] * (1 + (i % ROW ? 1e-9 : 1e-6) * (i % 2 ? 1 : -1));
    for (int i = 5 * ROW; i < 6 * ROW; i++)
        c->actual[i] = c->reference[i] * (1 + 3e-6);
    OutputError e = judge(c);
    assert_true(e.error <= e.limit && !e.row_fine);
    assert_int_equal(e.row, 5 * ROW);
}

static void luck_of_a_naive_row_is_no_limit(void **state) {
    Case *c = *state;
    for (int i = 2 * ROW; i < 3 * ROW; i++)
        c->plain[i] = c->reference[i];
    assert_true(judge(c).fine);
}

// Thousands and more, cut to whole numbers; one float in `often` is next to a whole number.
static OutputError judge_cut(Case *c, int often) {
    for (int i = 0; i < COUNT; i++) {
        c->reference[i] = floor(1e4 * (i + 1.5));
        c->plain[i] = c->reference[i];
        c->actual[i] = c->reference[i] - (i % often == 0);
    }
    NaiveErrors naive = tolerance_open(&c->output, c->reference, c->arena);
    tolerance_add_naive(&naive, c->plain);
    return tolerance_judge((ErrorUnit){ELEM_F64, true}, &naive, c->actual);
}

static void floats_that_are_cut_may_be_one_off_now_and_then(void **state) {
    OutputError e = judge_cut(*state, 20);
    assert_true(e.fine && e.error == 1);
    e = judge_cut(*state, 2);
    assert_true(e.error <= e.limit && !e.row_fine && !e.fine);
}

static void whole_numbers_are_exact_as_far_as_doubles_are(void **state) {
    Case *c = *state;
    c->output.elem = ATT_I64;
    for (int i = 0; i < COUNT; i++)
        c->plain[i] = c->actual[i] = c->reference[i] = 0x1p51 + i;
    assert_true(judge(c).fine);
    c->actual[5] += 1;
    assert_false(judge(c).fine);
    c->reference[9] = c->plain[9] = c->actual[9] = 0x1p60;
    assert_true(judge(c).fine);
}

static void every_naive_evaluation_counts(void **state) {
    Case *c = *state;
    for (int i = 4 * ROW; i < 5 * ROW; i++)
        c->actual[i] = c->reference[i] * (1 + 1e-5);
    NaiveErrors naive = tolerance_open(&c->output, c->reference, c->arena);
    tolerance_add_naive(&naive, c->plain);
    assert_false(tolerance_judge((ErrorUnit){ELEM_F32, false}, &naive, c->actual).fine);
    tolerance_add_naive(&naive, c->actual);
    tolerance_add_naive(&naive, c->plain);
    assert_true(tolerance_judge((ErrorUnit){ELEM_F32, false}, &naive, c->actual).fine);
}

static void few_large_errors_are_told_of_by_few_elements(void **state) {
    Case *c = *state;
    NaiveErrors naive = tolerance_open(&c->output, c->reference, c->arena);
    assert_true(tolerance_telling(&naive) == COUNT); // no error yet
    tolerance_add_naive(&naive, c->plain);
    assert_true(tolerance_telling(&naive) > ROW / 4.0 && tolerance_telling(&naive) < ROW);
    c->plain[3] += 1;
    tolerance_add_naive(&naive, c->plain);
    assert_true(fabs(tolerance_telling(&naive) - 1) < 1e-3);
    naive = tolerance_open(&c->output, c->reference, c->arena);
    for (int i = 0; i < COUNT; i++)
        c->plain[i] = c->reference[i] + 1e-3;
    tolerance_add_naive(&naive, c->plain);
    assert_true(fabs(tolerance_telling(&naive) - COUNT) < 1e-3 * COUNT);
}

static void rows_of_zeros_are_judged_with_the_output(void **state) {
    Case *c = *state;
    for (int i = 6 * ROW; i < 7 * ROW; i++) {
        c->reference[i] = c->plain[i] = 0;
        c->actual[i] = 1e-6;
    }
    assert_true(judge(c).fine);
    c->actual[6 * ROW] = 1;
    assert_false(judge(c).fine);
}

static void subnormal_numbers_may_be_zero(void **state) {
    Case *c = *state;
    for (int i = 7 * ROW; i < 8 * ROW; i++) {
        c->reference[i] = c->plain[i] = 1e-39;
        c->actual[i] = 0;
    }
    assert_true(judge(c).fine);
}

static void nothing_to_judge_is_not_fine(void **state) {
    Case *c = *state;
    for (int i = 0; i < COUNT; i++)
        c->plain[i] = i % 2 ? INFINITY : NAN;
    OutputError e = judge(c);
    assert_int_equal(e.n_skipped, COUNT);
    assert_false(e.fine);
}

static void infinities_and_nans_are_to_be_the_same(void **state) {
    Case *c = *state;
    c->reference[5] = c->plain[5] = c->actual[5] = INFINITY;
    c->reference[6] = c->plain[6] = c->actual[6] = NAN;
    assert_true(judge(c).fine);
    c->actual[5] = -INFINITY;
    assert_false(judge(c).fine);
    c->actual[5] = INFINITY;
    c->actual[6] = 0;
    assert_false(judge(c).fine);
    c->actual[6] = NAN;
    c->actual[9] = NAN;
    assert_false(judge(c).fine);
}

static void whole_numbers_are_exact(void **state) {
    Case *c = *state;
    c->output.elem = ATT_I32;
    for (int i = 0; i < COUNT; i++)
        c->reference[i] = c->plain[i] = c->actual[i] = i;
    assert_true(judge(c).fine);
    c->actual[COUNT - 1] += 1;
    assert_false(judge(c).fine);
}

// As many of the last dims as a mean needs.
static void rows_have_enough_elements(void **state) {
    static const struct {
        int rank;
        int64_t shape[3], row, rows;
    } cases[] = {{0, {0}, 1, 1},        {1, {64}, 64, 1},       {1, {3}, 3, 1},
                 {2, {8, 64}, 64, 8},   {2, {100, 2}, 32, 6},   {3, {10, 20, 2}, 32, 12},
                 {3, {2, 3, 5}, 30, 1}, {3, {2, 3, 33}, 33, 6}, {2, {4, 0}, 0, 0},
                 {2, {40, 5}, 35, 5},   {2, {9, 31}, 62, 4},    {2, {64, 1}, 64, 1}};
    Case *c = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AttTensorData output = {.elem = ATT_F32, .rank = cases[i].rank};
        for (int k = 0; k < output.rank; k++)
            output.shape[k] = cases[i].shape[k];
        NaiveErrors naive = tolerance_open(&output, c->reference, c->arena);
        assert_int_equal(naive.row, cases[i].row);
        assert_int_equal(naive.rows, cases[i].rows);
        tolerance_add_naive(&naive, c->plain);
        OutputError e = tolerance_judge((ErrorUnit){ELEM_F32, false}, &naive, c->actual);
        assert_true(e.fine && (e.row >= 0) == (cases[i].rows > 1));
    }
}

static bool alike(Case *c, Elem elem) {
    return tolerance_alike(elem, c->reference, c->actual, COUNT, 0);
}

// Errors of `share` of the largest value, which is nearly 1000.
static void set_apart(Case *c, double share) {
    for (int i = 0; i < COUNT; i++)
        c->actual[i] = c->reference[i];
    c->actual[5] += 1000 * share;
}

static void other_orders_of_sums_are_alike_in_the_elements_digits(void **state) {
    static const struct {
        Elem elem;
        double fine, wrong; // shares of the largest value
    } cases[] = {{ELEM_F32, 1e-4, 2e-4},
                 {ELEM_F64, 1e-13, 3e-13},
                 {ELEM_F16, 1e-3, 3e-3},
                 {ELEM_BF16, 1e-2, 2e-2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set_apart(*state, cases[i].fine);
        assert_true(alike(*state, cases[i].elem));
        set_apart(*state, cases[i].wrong);
        assert_false(alike(*state, cases[i].elem));
    }
}

// Rounding of the largest of all results, and more.
static void what_cancels_is_alike_beside_large_results(void **state) {
    const double none[] = {2e-6, -1e-6, 0}, other[] = {-1e-6, 3e-6, 5e-7}, large[] = {28, -3, 1};
    const double apart[] = {1e-3, -1e-6, 0};
    double largest = tolerance_largest(large, 3);
    (void)state;
    assert_true(largest == 28);
    assert_true(tolerance_alike(ELEM_F32, none, other, 3, largest));
    assert_false(tolerance_alike(ELEM_F32, none, other, 3, 0));
    assert_false(tolerance_alike(ELEM_F32, none, apart, 3, largest));
    assert_false(tolerance_alike(ELEM_I32, none, other, 3, largest));
}

static void whole_numbers_are_alike_when_equal(void **state) {
    Case *c = *state;
    for (Elem elem = ELEM_I32; elem <= ELEM_BOOL; elem++) {
        set_apart(c, 0);
        assert_true(alike(c, elem));
        c->actual[7] += 1;
        assert_false(alike(c, elem));
    }
}

static void infinities_and_nans_are_alike_in_the_same_places(void **state) {
    Case *c = *state;
    set_apart(c, 0);
    c->reference[1] = c->actual[1] = NAN;
    c->reference[2] = c->actual[2] = -INFINITY;
    assert_true(alike(c, ELEM_F32));
    c->actual[2] = INFINITY;
    assert_false(alike(c, ELEM_F32));
    c->actual[2] = -INFINITY;
    c->actual[3] = NAN;
    assert_false(alike(c, ELEM_F32));
    c->actual[3] = c->reference[3];
    c->actual[1] = 0;
    assert_false(alike(c, ELEM_F32));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_case, free_case)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(plain_errors_pass),
        TEST(large_errors_do_not_pass),
        TEST(one_overflow_lifts_no_limit),
        TEST(one_large_naive_error_does_not_hide_other_rows),
        TEST(wrong_rows_of_small_values_are_seen),
        TEST(errors_all_over_a_row_are_seen_by_their_mean),
        TEST(luck_of_a_naive_row_is_no_limit),
        TEST(floats_that_are_cut_may_be_one_off_now_and_then),
        TEST(whole_numbers_are_exact_as_far_as_doubles_are),
        TEST(every_naive_evaluation_counts),
        TEST(few_large_errors_are_told_of_by_few_elements),
        TEST(rows_of_zeros_are_judged_with_the_output),
        TEST(subnormal_numbers_may_be_zero),
        TEST(nothing_to_judge_is_not_fine),
        TEST(infinities_and_nans_are_to_be_the_same),
        TEST(whole_numbers_are_exact),
        TEST(rows_have_enough_elements),
        TEST(other_orders_of_sums_are_alike_in_the_elements_digits),
        TEST(what_cancels_is_alike_beside_large_results),
        TEST(whole_numbers_are_alike_when_equal),
        TEST(infinities_and_nans_are_alike_in_the_same_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
