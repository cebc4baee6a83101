// SPDX-License-Identifier: Apache-2.0
// graph_expand: row functions as pointwise values and reductions that are shared, powers of two
// where they are free, and where the row factor of a softmax ends up.
#include "passes_fixture.h"

#include <float.h>
#include <math.h>
#include <string.h>

static int setup(void **state) {
    *state = session_new();
    return 0;
}

static int teardown(void **state) {
    session_free(*state);
    return 0;
}

static const Value *output(const Graph *graph, uint32_t number) {
    return graph->outputs.at[number].value;
}

static Graph *expand_and_compare(Session *session, const char *text) {
    Graph *expanded = passes_expand(session, text);
    assert_same_results(passes_build(session, text), expanded, 5, 3);
    return expanded;
}

// The argument of an einsum or a product with these dims ("n h"); the test fails without one.
static const Value *argument_over(const Graph *graph, const Value *value, const char *dims) {
    for (uint32_t i = 0; i < value->n_args; i++)
        if (strcmp(dims_text(graph, &value->args[i]->dims), dims) == 0)
            return value->args[i];
    fail_msg("%s %u has no argument over %s", op_name(value->op), value->id, dims);
    return NULL;
}

static bool depends_on(const Value *value, Op op) {
    bool found = value->op == op;
    for (uint32_t i = 0; i < value->n_args && !found; i++)
        found = depends_on(value->args[i], op);
    return found;
}

// ---- row functions -----------------------------------------------------------------------------

static void test_no_row_function_is_left(void **state) {
    for (uint32_t i = 0; passes_programs[i]; i++) {
        Graph *graph = expand_and_compare(*state, passes_programs[i]);
        assert_int_equal(count_live(graph, OP_SOFTMAX), 0);
        assert_int_equal(count_live(graph, OP_LOG_SOFTMAX), 0);
        assert_int_equal(count_live(graph, OP_ARGMAX), 0);
    }
}

static void test_softmax_is_one_maximum_and_one_sum(void **state) {
    Graph *graph = expand_and_compare(*state, "def F(X[n, m]):\n"
                                              "    return softmax(X[n, m], reduced_dim=m)\n");
    assert_int_equal(count_live(graph, OP_REDUCE_TOP), 1);
    assert_int_equal(count_live(graph, OP_SUM), 1);
    assert_int_equal(count_live(graph, OP_EXP), 1);
    // the inverse is taken once for each row
    assert_string_equal(dims_text(graph, &find_live(graph, OP_DIV)->dims), "n");
}

static void test_softmax_and_logsumexp_share_maximum_and_sum(void **state) {
    Graph *graph = expand_and_compare(*state, "def F(X[n, m]):\n"
                                              "    W[n, m] = softmax(X[n, m], reduced_dim=m)\n"
                                              "    z[n] = logsumexp(X[n, m], reduced_dim=m)\n"
                                              "    return W[n, m], z[n]\n");
    assert_int_equal(count_live(graph, OP_REDUCE_TOP), 1);
    assert_int_equal(count_live(graph, OP_EXP), 1);
    assert_int_equal(count_live(graph, OP_SUM), 1);
}

static void test_softmax_and_log_softmax_share_maximum_and_sum(void **state) {
    Graph *graph =
        expand_and_compare(*state, "def F(X[n, m]):\n"
                                   "    W[n, m] = softmax(X[n, m], reduced_dim=m)\n"
                                   "    return W[n, m], log_softmax(X[n, m], reduced_dim=m)\n");
    assert_int_equal(count_live(graph, OP_REDUCE_TOP), 1);
    assert_int_equal(count_live(graph, OP_EXP), 1);
    assert_int_equal(count_live(graph, OP_SUM), 1);
}

// Rows along another dim have other maxima.
static void test_other_rows_share_nothing(void **state) {
    Graph *graph =
        expand_and_compare(*state, "def F(X[n, m]):\n"
                                   "    W[n, m] = softmax(X[n, m], reduced_dim=m)\n"
                                   "    return W[n, m], softmax(X[n, m], reduced_dim=n)\n");
    assert_int_equal(count_live(graph, OP_REDUCE_TOP), 2);
    assert_int_equal(count_live(graph, OP_SUM), 2);
}

static void test_half_types_are_widened_for_the_row(void **state) {
    Graph *graph = passes_expand(*state, "def F(X[n, m]: bf16):\n"
                                         "    return softmax(X[n, m], reduced_dim=m)\n");
    assert_int_equal(find_live(graph, OP_EXP)->elem, ELEM_F32);
    assert_int_equal(find_live(graph, OP_SUM)->elem, ELEM_F32);
    assert_int_equal(output(graph, 0)->elem, ELEM_BF16);
}

// ---- rows of special numbers -------------------------------------------------------------------

// The results of a program whose only input is one row x[m].
static double **results_of_row(const Graph *graph, const double *row, int64_t n, Arena *arena) {
    int64_t *extents = arena_array(arena, int64_t, graph->dims.count + 1);
    for (uint32_t i = 0; i < graph->dims.count; i++)
        extents[i] = n;
    EvalRun run = {.extents = extents};
    run.inputs = arena_array(arena, double *, 1);
    run.outputs = arena_array(arena, double *, graph->outputs.count + 1);
    run.inputs[0] = arena_copy(arena, row, (size_t)n * sizeof *row);
    graph_eval(graph, EVAL_F64, &run, arena);
    return run.outputs;
}

static void assert_row_kept(Session *session, const char *text, const double *row, int64_t n) {
    double **want = results_of_row(passes_build(session, text), row, n, session->arena);
    double **got = results_of_row(passes_expand(session, text), row, n, session->arena);
    for (int64_t i = 0; i < n; i++)
        if (!(isnan(want[0][i]) && isnan(got[0][i])) && want[0][i] != got[0][i] &&
            !(fabs(want[0][i] - got[0][i]) < 1e-12))
            fail_msg("element %d: %g became %g in\n%s", (int)i, want[0][i], got[0][i], text);
}

static void test_rows_of_special_numbers(void **state) {
    static const char *const programs[] = {
        "def F(x[m]):\n    return softmax(x[m], reduced_dim=m)\n",
        "def F(x[m]):\n    return log_softmax(x[m], reduced_dim=m)\n",
        "def F(x[m]):\n    return softmax(x[m], reduced_dim=m) * argmax(x[m], reduced_dim=m)\n",
        "def F(x[m]):\n    return x[m] * 0 + argmax(x[m], reduced_dim=m)\n",
    };
    static const double rows[][4] = {
        {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, // masked everywhere
        {-INFINITY, 1, -INFINITY, 2},
        {NAN, 1, 2, 3},
        {1, NAN, 2, NAN},
        {NAN, NAN, NAN, NAN},
        {1e30, -1e30, 1e30, 0},
        {3, 3, 3, 3},
        {INFINITY, 1, 2, 3},
        {1, INFINITY, -INFINITY, INFINITY},
        {NAN, INFINITY, 0, 1},
        {-FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX},
    };
    for (size_t p = 0; p < sizeof programs / sizeof *programs; p++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            assert_row_kept(*state, programs[p], rows[r], 4);
}

// ---- powers of two -----------------------------------------------------------------------------

static void test_power_of_two_where_an_einsum_takes_the_factor(void **state) {
    Graph *graph = expand_and_compare(
        *state, "dim k = 4\n"
                "def F(Q[n, k], K[m, k]):\n"
                "    S[n, m] = einsum(Q[n, k], K[m, k]) / sqrt(k)\n"
                "    return softmax(where(index(m) <= index(n), S[n, m], -inf), reduced_dim=m)\n");
    assert_int_equal(count_live(graph, OP_EXP2), 1);
    assert_int_equal(count_live(graph, OP_EXP), 0);
    assert_float_equal(find_live(graph, OP_CONTRACT)->number, 0.5 * M_LOG2E, 1e-12);
}

// A number that takes the place of masked logits is one of logits, too.
static void test_masking_number_takes_the_factor(void **state) {
    Graph *graph = expand_and_compare(
        *state, "def F(Q[n, k], K[m, k]):\n"
                "    S[n, m] = einsum(Q[n, k], K[m, k])\n"
                "    return softmax(where(index(m) <= index(n), S[n, m], -1), reduced_dim=m)\n");
    assert_int_equal(count_live(graph, OP_EXP2), 1);
    const Value *masked = find_live(graph, OP_REDUCE_TOP)->args[0];
    assert_int_equal(masked->op, OP_SELECT);
    assert_float_equal(masked->args[2]->number, -M_LOG2E, 1e-12);
}

static void assert_stays_exp(Session *session, const char *text) {
    Graph *graph = expand_and_compare(session, text);
    assert_int_equal(count_live(graph, OP_EXP2), 0);
    assert_true(count_live(graph, OP_EXP) > 0);
}

static void test_no_power_of_two_where_the_factor_costs(void **state) {
    // an input, whose elements would have to be multiplied one by one
    assert_stays_exp(*state, "def F(S[n, m]):\n    return softmax(S[n, m], reduced_dim=m)\n");
    // logits that are wanted as they are: a result, another reader, a log-sum-exp
    assert_stays_exp(*state, "def F(Q[n, k], K[m, k]):\n"
                             "    S[n, m] = einsum(Q[n, k], K[m, k])\n"
                             "    return softmax(S[n, m], reduced_dim=m), S[n, m]\n");
    assert_stays_exp(*state, "def F(Q[n, k], K[m, k]):\n"
                             "    S[n, m] = einsum(Q[n, k], K[m, k])\n"
                             "    return softmax(S[n, m], reduced_dim=m) * S[n, m]\n");
    assert_stays_exp(*state, "def F(Q[n, k], K[m, k]):\n"
                             "    S[n, m] = einsum(Q[n, k], K[m, k])\n"
                             "    z[n] = logsumexp(S[n, m], reduced_dim=m)\n"
                             "    return softmax(S[n, m], reduced_dim=m), z[n]\n");
    // a bias, which would have to be multiplied as well
    assert_stays_exp(*state, "def F(Q[n, k], K[m, k], B[n, m]):\n"
                             "    S[n, m] = einsum(Q[n, k], K[m, k]) + B[n, m]\n"
                             "    return softmax(S[n, m], reduced_dim=m)\n");
}

// A half type would round the factor with the logits.
static void test_no_power_of_two_after_a_half_type(void **state) {
    Graph *graph = passes_expand(*state, "def F(Q[n, k]: bf16, K[m, k]: bf16):\n"
                                         "    S[n, m] = einsum(Q[n, k], K[m, k])\n"
                                         "    return softmax(S[n, m], reduced_dim=m)\n");
    assert_int_equal(count_live(graph, OP_EXP2), 0);
}

// ---- row factors -------------------------------------------------------------------------------

#define SIZES "dim n = 64, m = 64, h = 4, g = 4, k = 8\n"

static void test_row_factor_goes_to_the_result(void **state) {
    Graph *graph =
        expand_and_compare(*state, SIZES "def F(L[n, m, h], V[m, k, h]):\n"
                                         "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
                                         "    O[n, k, h] = einsum(W[n, m, h], V[m, k, h])\n"
                                         "    return O[n, k, h]\n");
    const Value *product = output(graph, 0);
    assert_int_equal(product->op, OP_MUL);
    argument_over(graph, product, "n h");
    const Value *sum = find_live(graph, OP_CONTRACT);
    assert_int_equal(argument_over(graph, sum, "n m h")->op, OP_EXP);
    assert_int_equal(argument_over(graph, sum, "m k h")->op, OP_INPUT);
}

static void test_row_factor_goes_to_the_matrix_that_mixes_heads(void **state) {
    Graph *graph =
        expand_and_compare(*state, SIZES "def F(L[n, m, h], P_w[h, g]):\n"
                                         "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
                                         "    U[n, m, g] = einsum(W[n, m, h], P_w[h, g])\n"
                                         "    return U[n, m, g]\n");
    const Value *sum = output(graph, 0);
    assert_int_equal(sum->op, OP_CONTRACT);
    assert_int_equal(argument_over(graph, sum, "n m h")->op, OP_EXP);
    const Value *matrix = argument_over(graph, sum, "h g n"); // one for each row
    assert_int_equal(matrix->op, OP_MUL);
    assert_true(depends_on(matrix, OP_SUM));
}

// Summed over all rows it would be in the sum, and a copy of the other operand for each row is
// larger.
static void test_row_factor_stays_where_nothing_is_gained(void **state) {
    Graph *graph = expand_and_compare(*state, "dim n = 64, m = 4, e = 512\n"
                                              "def F(L[n, m], V[n, m, e]):\n"
                                              "    W[n, m] = softmax(L[n, m], reduced_dim=m)\n"
                                              "    o[e] = einsum(W[n, m], V[n, m, e])\n"
                                              "    return o[e]\n");
    const Value *sum = output(graph, 0);
    assert_int_equal(sum->op, OP_CONTRACT);
    const Value *weights = argument_over(graph, sum, "n m");
    assert_int_equal(weights->op, OP_MUL);
    argument_over(graph, weights, "n");
}

// Weights that something else reads are needed whole.
static void test_row_factor_of_shared_weights_stays(void **state) {
    Graph *graph =
        expand_and_compare(*state, SIZES "def F(L[n, m, h], V[m, k, h]):\n"
                                         "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
                                         "    O[n, k, h] = einsum(W[n, m, h], V[m, k, h])\n"
                                         "    return O[n, k, h], W[n, m, h]\n");
    assert_int_equal(output(graph, 0)->op, OP_CONTRACT);
    assert_int_equal(argument_over(graph, output(graph, 0), "n m h")->op, OP_MUL);
}

// The factor of the einsum stays with it, wherever the row factor goes.
static void test_row_factor_leaves_the_einsums_factor(void **state) {
    Graph *graph =
        expand_and_compare(*state, SIZES "def F(L[n, m, h], V[m, k, h]):\n"
                                         "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
                                         "    O[n, k, h] = einsum(W[n, m, h], V[m, k, h]) * 3\n"
                                         "    return O[n, k, h]\n");
    assert_float_equal(find_live(graph, OP_CONTRACT)->number, 3, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(no_row_function_is_left),
        TEST(softmax_is_one_maximum_and_one_sum),
        TEST(softmax_and_logsumexp_share_maximum_and_sum),
        TEST(softmax_and_log_softmax_share_maximum_and_sum),
        TEST(other_rows_share_nothing),
        TEST(half_types_are_widened_for_the_row),
        TEST(rows_of_special_numbers),
        TEST(power_of_two_where_an_einsum_takes_the_factor),
        TEST(masking_number_takes_the_factor),
        TEST(no_power_of_two_where_the_factor_costs),
        TEST(no_power_of_two_after_a_half_type),
        TEST(row_factor_goes_to_the_result),
        TEST(row_factor_goes_to_the_matrix_that_mixes_heads),
        TEST(row_factor_stays_where_nothing_is_gained),
        TEST(row_factor_of_shared_weights_stays),
        TEST(row_factor_leaves_the_einsums_factor),
    };
    return cmocka_run_group_tests_name("expand", tests, NULL, NULL);
}
