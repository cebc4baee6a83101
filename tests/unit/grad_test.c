// SPDX-License-Identifier: Apache-2.0
// graph_gradient: its table, what it asks for and what it refuses.
#include "passes_fixture.h"

#include "graph/rewrite/grad.h"

static int setup(void **state) {
    *state = session_new();
    return 0;
}

static int teardown(void **state) {
    session_free(*state);
    return 0;
}

static Graph *differentiate(Session *session, const char *text, const char *wrt) {
    GradientOptions options = {0};
    if (wrt)
        vec_push(session->arena, &options.wrt, names_find(session->names, wrt));
    Graph *graph = graph_gradient(passes_build(session, text), &options);
    if (graph)
        graph_verify(graph, "gradient");
    return graph;
}

static void test_every_op_has_a_rule(void **state) {
    (void)state;
    for (int op = 0; op < N_OP; op++)
        if (!gradient_rule((Op)op))
            fail_msg("%s has neither a gradient rule nor no_gradient", op_name((Op)op));
}

static void test_results_then_gradients(void **state) {
    Graph *graph = differentiate(*state,
                                 "def F(X[n, d], ids[n]: i32, W[d, k]):\n"
                                 "    Y[n, k] = einsum(X[n, d], W[d, k])\n"
                                 "    return Y[n, k], ids[n]\n",
                                 NULL);
    assert_int_equal(graph->outputs.count, 4);
    assert_string_equal(graph->outputs.at[0].name, "Y");
    assert_string_equal(graph->outputs.at[2].name, "dX");
    assert_string_equal(graph->outputs.at[3].name, "dW");
    assert_int_equal(graph->inputs.count, 4); // and dY
    assert_string_equal(graph->inputs.at[3]->name, "dY");
    assert_string_equal(dims_text(graph, &graph->outputs.at[3].order), "d k");
}

static void test_a_number_needs_no_cotangent(void **state) {
    Graph *graph = differentiate(*state,
                                 "def F(X[n], Y[n]):\n"
                                 "    return sum(X * Y, reduced_dim=n)\n",
                                 "X");
    assert_int_equal(graph->inputs.count, 2);
    assert_int_equal(graph->outputs.count, 2);
    int64_t *typical = graph_typical_extents(graph, graph->arena);
    Graph *simple = graph_simplify(graph, typical, &passes_machine);
    assert_ptr_equal(simple->outputs.at[1].value, simple->inputs.at[1]); // dX = Y
}

// Nothing is computed for what is not asked for.
static void test_only_what_is_asked_for(void **state) {
    Graph *graph = differentiate(*state,
                                 "def F(X[n, d], W[d, k]):\n"
                                 "    return einsum(exp(X[n, d]), W[d, k] -> [n, k])\n",
                                 "W");
    assert_int_equal(count_live(graph, OP_CONTRACT), 2);
    assert_int_equal(count_live(graph, OP_MUL), 0);
}

// Of a loss: what else is returned has no part in it.
static void test_of_the_first_result(void **state) {
    Session *session = *state;
    GradientOptions options = {.of_first = true};
    Graph *graph = graph_gradient(passes_build(session, "def F(X[n], Y[n]):\n"
                                                        "    loss = sum(X * Y, reduced_dim=n)\n"
                                                        "    return loss, 3 * loss\n"),
                                  &options);
    graph_verify(graph, "gradient");
    int64_t *typical = graph_typical_extents(graph, graph->arena);
    Graph *simple = graph_simplify(graph, typical, &passes_machine);
    assert_ptr_equal(simple->outputs.at[2].value, simple->inputs.at[1]); // dX = Y
}

static void refuse(Session *session, const char *text, const char *wrt) {
    assert_null(differentiate(session, text, wrt));
    assert_true(diags_errors(session->diags) > 0);
}

static void test_unknown_argument(void **state) {
    refuse(*state, "def F(X[n]):\n    return X * X\n", "x1");
}

static void test_whole_numbers_have_no_gradient(void **state) {
    refuse(*state, "def F(X[n], ids[n]: i32):\n    return X * X, ids\n", "ids");
}

static void test_result_without_gradient(void **state) {
    refuse(*state, "def F(X[n]):\n    return argmax(X, reduced_dim=n)\n", NULL);
}

static void test_names_that_are_taken(void **state) {
    refuse(*state, "def F(X[n], dX[n]):\n    return X * dX\n", NULL);
}

// One scan from the other end: what is carried is a stack of the first, X and s have gradients.
static void test_scans_are_reversed(void **state) {
    const char *text = "def F(X[n], s[], Z[n]):\n"
                       "    scan t in n:\n"
                       "        s = s * X[t]\n"
                       "    return s * Z\n";
    Graph *graph = differentiate(*state, text, "X");
    assert_int_equal(count_live(graph, OP_LAST), 1);
    assert_int_equal(count_live(graph, OP_STACK), 2);
    assert_int_equal(count_live(graph, OP_CARRY), 2);
    int reversed = 0;
    for (uint32_t i = 0; i < graph->dims.count; i++)
        reversed += graph->dims.at[i].reversed;
    assert_int_equal(reversed, 1);
}

static void test_scans_that_are_not_asked_for(void **state) {
    Graph *graph = differentiate(*state,
                                 "def F(X[n], s[], Z[n]):\n"
                                 "    scan t in n:\n"
                                 "        s = s * X[t]\n"
                                 "    return s * Z\n",
                                 "Z");
    assert_int_equal(count_live(graph, OP_LAST), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_op_has_a_rule),
        cmocka_unit_test_setup_teardown(test_results_then_gradients, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_number_needs_no_cotangent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_of_the_first_result, setup, teardown),
        cmocka_unit_test_setup_teardown(test_only_what_is_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown_argument, setup, teardown),
        cmocka_unit_test_setup_teardown(test_whole_numbers_have_no_gradient, setup, teardown),
        cmocka_unit_test_setup_teardown(test_result_without_gradient, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_that_are_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(test_scans_are_reversed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_scans_that_are_not_asked_for, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
