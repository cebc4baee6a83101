// SPDX-License-Identifier: Apache-2.0
// graph_simplify: each rule where it applies and where it must not, and results that stay the same.
#include "passes_fixture.h"

#include <math.h>
#include <string.h>

#include "graph/rewrite/order.h"

static int setup(void **state) {
    *state = session_new();
    return 0;
}

static int teardown(void **state) {
    session_free(*state);
    return 0;
}

static const Value *result(const Graph *graph) {
    return graph->outputs.at[0].value;
}

// ---- constants and identities ------------------------------------------------------------------

static void test_maps_of_constants_are_constants(void **state) {
    Graph *graph = passes_simplify(*state, "dim d = 9\n"
                                           "def F(x[n]):\n"
                                           "    return x[n] * (2 + sqrt(d) * (7 // 2) % 5 - 1)\n");
    const Value *y = result(graph);
    assert_int_equal(y->op, OP_MUL);
    assert_int_equal(y->args[1]->op, OP_CONST);
    assert_true(fabs(y->args[1]->number - (2 + fmod(3 * 3, 5) - 1)) < 1e-12);
}

static void test_identities_vanish(void **state) {
    Graph *graph = passes_simplify(*state, "def F(x[n]):\n"
                                           "    a[n] = (x[n] + 0) * 1 / 1 - 0\n"
                                           "    b[n] = -(-a[n])\n"
                                           "    c[n] = where(1 < 2, b[n], exp(b[n]))\n"
                                           "    return c[n] ** 1\n");
    assert_int_equal(result(graph)->op, OP_INPUT);
}

static void test_zero_times_is_not_zero(void **state) {
    Graph *graph = passes_simplify(*state, "def F(x[n]):\n    return x[n] * 0\n");
    assert_int_equal(result(graph)->op, OP_MUL); // infinity and NaN
}

static void test_identity_keeps_broadcast(void **state) {
    Graph *graph = passes_simplify(*state, "def F(x[n], y[m]):\n"
                                           "    return where(1 < 2, x[n], y[m])\n");
    assert_int_equal(result(graph)->dims.count, 2);
    assert_int_equal(result(graph)->op, OP_SELECT);
}

static void test_square_is_a_product(void **state) {
    Graph *graph = passes_simplify(*state, "def F(x[n]):\n    return x[n] ** 2\n");
    assert_int_equal(result(graph)->op, OP_MUL);
}

static void test_what_is_the_same_is_not_repeated(void **state) {
    Graph *graph = passes_simplify(*state, "def F(x[n, d], y[m]):\n"
                                           "    a[n, d] = (x + zeros[n, d]) * ones[d]\n"
                                           "    b[n, d] = einsum(a[n, d], full(1 -> [n, d]))\n"
                                           "    return where(ones[n] > 0, b, -b)\n");
    assert_int_equal(result(graph)->op, OP_INPUT);
}

static void test_sum_of_what_is_the_same_is_a_product(void **state) {
    Graph *graph =
        passes_simplify(*state, "dim d = 6\n"
                                "def F(x[n, m]):\n"
                                "    a[n] = einsum(x[n, m], ones[n], full(2 -> [m, d]))\n"
                                "    return a[n] * sum(ones[d, m], reduced_dim=(d, m))\n");
    assert_int_equal(count_live(graph, OP_SELECT), 0);
    assert_int_equal(count_live(graph, OP_EXTENT), 1);
    assert_true(result(graph)->op == OP_CONTRACT && result(graph)->number == 72);
}

// Over no position at all they are not what they are over one.
static void test_what_is_the_same_over_a_dynamic_dim_may_be_over_none(void **state) {
    Graph *graph =
        passes_simplify(*state, "def F(x[n], y[m]):\n"
                                "    a = max(full(x -> [n, m]), reduced_dim=m)\n"
                                "    return a + sum(full(x -> [n, m]), reduced_dim=m)\n");
    assert_int_equal(count_live(graph, OP_REDUCE_MAX), 1);
    assert_int_equal(count_live(graph, OP_SUM), 1);
    graph = passes_simplify(*state, "dim m = 5\n"
                                    "def F(x[n]):\n"
                                    "    return max(full(x -> [n, m]), reduced_dim=m)\n");
    assert_int_equal(result(graph)->op, OP_INPUT);
}

static void test_number_of_an_array_is_known(void **state) {
    Graph *graph = passes_simplify(*state, "dim t = 5\n"
                                           "def F(x[n]):\n"
                                           "    w = [1, 0.5, 0, 3, 7] -> [t]\n"
                                           "    return w[3] * x + w[0] * x + w[2]\n");
    assert_int_equal(count_live(graph, OP_TAKE), 0);
    assert_int_equal(count_live(graph, OP_SELECT), 0);
    assert_int_equal(count_live(graph, OP_MUL), 1);
}

// ---- flattening --------------------------------------------------------------------------------

#define HEADS "def F(X[n, d], M[m, e], P_q[d, k, h], P_k[e, k, h], P_v[e, k, h], P_o[d, k, h]):\n"

static const char step_by_step[] = HEADS "    Q[n, k, h] = einsum(X[n, d], P_q[d, k, h])\n"
                                         "    K[m, k, h] = einsum(M[m, e], P_k[e, k, h])\n"
                                         "    V[m, k, h] = einsum(M[m, e], P_v[e, k, h])\n"
                                         "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h])\n"
                                         "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
                                         "    O[n, k, h] = einsum(W[n, m, h], V[m, k, h])\n"
                                         "    Y[n, d] = einsum(O[n, k, h], P_o[d, k, h])\n"
                                         "    return Y[n, d]\n";
static const char multi_way[] =
    HEADS "    L[n, m, h] = einsum(X[n, d], P_q[d, k, h], M[m, e], P_k[e, k, h])\n"
          "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
          "    Y[n, d] = einsum(W[n, m, h], M[m, e], P_v[e, k, h], P_o[d, k, h])\n"
          "    return Y[n, d]\n";
static const char bilinear[] = HEADS "    P[d, e, h] = einsum(P_q[d, k, h], P_k[e, k, h])\n"
                                     "    Q[e, d, h] = einsum(P_v[e, k, h], P_o[d, k, h])\n"
                                     "    L[n, m, h] = einsum(X[n, d], M[m, e], P[d, e, h])\n"
                                     "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
                                     "    Y[n, d] = einsum(W[n, m, h], M[m, e], Q[e, d, h])\n"
                                     "    return Y[n, d]\n";

static void test_three_ways_of_writing_are_one_graph(void **state) {
    uint64_t hash = graph_hash(passes_simplify(*state, multi_way));
    assert_true(graph_hash(passes_simplify(*state, step_by_step)) == hash);
    assert_true(graph_hash(passes_simplify(*state, bilinear)) == hash);
}

static void test_summed_dim_that_occurs_outside_gets_a_fresh_name(void **state) {
    Graph *graph = passes_simplify(*state, "def F(X[n, d], P[d, f], Q[f, d]):\n"
                                           "    H[n, f] = einsum(X[n, d], P[d, f])\n"
                                           "    Y[n, d] = einsum(H[n, f], Q[f, d])\n"
                                           "    return Y[n, d]\n");
    const Value *y = result(graph);
    assert_int_equal(y->op, OP_CONTRACT);
    assert_int_equal(y->n_args, 3);
    DimId alias = find_dim(graph, "d_2");
    assert_int_equal(graph->dims.at[alias].like, find_dim(graph, "d"));
    assert_true(dims_has(&y->args[0]->dims, alias));
    assert_true(dims_has(&y->args[1]->dims, alias));
    assert_false(dims_has(&y->args[2]->dims, alias));
}

static void test_several_uses_are_a_barrier(void **state) {
    Graph *graph =
        passes_simplify(*state, "def F(X[n, d], P[d, f], Q[f, g]):\n"
                                "    H[n, f] = einsum(X[n, d], P[d, f])\n"
                                "    return einsum(H[n, f], Q[f, g] -> [n, g]), H[n, f]\n");
    assert_int_equal(count_live(graph, OP_CONTRACT), 2);
    assert_int_equal(result(graph)->n_args, 2);
}

static void test_constant_scale_is_the_factor(void **state) {
    Graph *graph = passes_simplify(*state, "dim k = 64\n"
                                           "def F(Q[n, k], K[m, k]):\n"
                                           "    L[n, m] = -einsum(Q[n, k] / sqrt(k), K[m, k]) * 2\n"
                                           "    return L[n, m]\n");
    const Value *y = result(graph);
    assert_int_equal(y->op, OP_CONTRACT);
    assert_int_equal(y->n_args, 2);
    assert_true(y->number == -0.25);
}

static void test_run_time_scale_is_one_scalar_operand(void **state) {
    Graph *graph = passes_simplify(*state, "def F(Q[n, k], K[m, k], t[]):\n"
                                           "    L[n, m] = einsum(Q[n, k], K[m, k]) / sqrt(k) * t\n"
                                           "    return L[n, m]\n");
    const Value *y = result(graph);
    assert_int_equal(y->op, OP_CONTRACT);
    assert_int_equal(y->n_args, 3);
    assert_int_equal(y->args[2]->dims.count, 0);
}

static void test_head_mask_is_an_operand(void **state) {
    Graph *graph = passes_simplify(
        *state, "def F(L[n, m, h], V[m, k, h], P[d, k, h], xi[h]):\n"
                "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
                "    O[n, k, h] = xi[h] * einsum(W[n, m, h], V[m, k, h] -> [n, k, h])\n"
                "    return einsum(O[n, k, h], P[d, k, h] -> [n, d])\n");
    assert_int_equal(result(graph)->op, OP_CONTRACT);
    assert_int_equal(result(graph)->n_args, 4);
}

static void test_full_size_factor_stays_a_product(void **state) {
    Graph *graph =
        passes_simplify(*state, "def F(X[n, d], P[d, f], G[n, f]):\n"
                                "    H[n, f] = einsum(X[n, d], P[d, f] -> [n, f]) * G[n, f]\n"
                                "    return H[n, f]\n");
    assert_int_equal(result(graph)->op, OP_MUL);
}

static void test_sum_of_product_is_an_einsum(void **state) {
    Graph *graph = passes_simplify(*state, "def F(A[n, d], B[d, m]):\n"
                                           "    return sum(A[n, d] * B[d, m], reduced_dim=d)\n");
    assert_int_equal(result(graph)->op, OP_CONTRACT);
}

static void test_sum_along_rows_stays_a_reduction(void **state) {
    Graph *graph = passes_simplify(*state, "def F(A[n, d], w[d]):\n"
                                           "    s[n] = sum(A[n, d] * A[n, d], reduced_dim=d)\n"
                                           "    t[n] = sum(A[n, d] * w[d], reduced_dim=d)\n"
                                           "    return s[n], t[n]\n");
    assert_int_equal(count_live(graph, OP_SUM), 2);
    assert_int_equal(count_live(graph, OP_CONTRACT), 0);
}

static void test_einsum_of_one_operand_is_a_sum_or_nothing(void **state) {
    Graph *graph = passes_simplify(*state, "def F(A[n, d]):\n"
                                           "    s[n] = 3 * einsum(A[n, d])\n"
                                           "    T[d, n] = einsum(A[n, d])\n"
                                           "    return s[n], T[d, n]\n");
    assert_int_equal(count_live(graph, OP_CONTRACT), 0);
    assert_int_equal(graph->outputs.at[0].value->op, OP_MUL);
    assert_int_equal(graph->outputs.at[1].value->op, OP_INPUT);
}

static void test_rename_moves_to_the_operands(void **state) {
    Graph *graph = passes_simplify(*state, "dim m like n\n"
                                           "def F(X[n, d], P[d, k], Q[n, k]):\n"
                                           "    K[n, k] = einsum(X[n, d], P[d, k])\n"
                                           "    return einsum(Q[n, k], K[m, k] -> [n, m])\n");
    assert_int_equal(result(graph)->op, OP_CONTRACT);
    assert_int_equal(result(graph)->n_args, 3);
    assert_int_equal(find_live(graph, OP_RENAME)->args[0]->op, OP_INPUT);
}

static void test_rename_of_a_shared_value_stays(void **state) {
    Graph *graph = passes_simplify(*state, "dim m like n\n"
                                           "def F(X[n, d], P[d, k]):\n"
                                           "    K[n, k] = einsum(X[n, d], P[d, k])\n"
                                           "    return einsum(K[n, k], K[m, k] -> [n, m])\n");
    assert_int_equal(count_live(graph, OP_CONTRACT), 2);
    assert_int_equal(find_live(graph, OP_RENAME)->args[0]->op, OP_CONTRACT);
}

// n and m of the inner sum both need other names, and not the same one.
static void test_two_alike_dims_get_two_fresh_names(void **state) {
    const char *text = "dim n = 3, m like n\n"
                       "def F(A[n, m, k], B[n, m, j]):\n"
                       "    C[k, j] = einsum(A[n, m, k], B[n, m, j])\n"
                       "    return einsum(A[n, m, k], C[k, j], swap(B, n, m) -> [n, m])\n";
    Graph *graph = passes_simplify(*state, text);
    assert_int_equal(count_live(graph, OP_CONTRACT), 1);
    assert_same_results(passes_build(*state, text), graph, 4, 1);
}

static void test_rename_does_not_enter_a_sum_over_its_new_dim(void **state) {
    const char *text = "dim n = 3, m like n\n"
                       "def F(A[n, m], B[n, m]):\n"
                       "    s[n] = sum(tanh(A[n, m]), reduced_dim=m)\n"
                       "    return B[n, m] + s[m]\n";
    Graph *graph = passes_simplify(*state, text);
    assert_int_equal(find_live(graph, OP_RENAME)->args[0]->op, OP_SUM);
    assert_same_results(passes_build(*state, text), graph, 4, 1);
}

static void test_renames_one_after_another(void **state) {
    const char *text = "dim n = 3, m like n, d = 4, e like d\n"
                       "def F(X[n, d], Y[n, d]):\n"
                       "    A[m, d] = X[m, d]\n"
                       "    B[m, e] = A[m, e]\n"
                       "    C[n, e] = B[n, e]\n"
                       "    return C[n, d] - Y[n, d], B[m, e] * Y[n, d]\n";
    Graph *graph = passes_simplify(*state, text);
    assert_int_equal(graph->outputs.at[0].value->args[0]->op, OP_INPUT);
    assert_same_results(passes_build(*state, text), graph, 4, 1);
}

static void test_no_more_operands_than_can_be_ordered(void **state) {
    Text text = {.arena = ((Session *)*state)->arena};
    text_add(&text, "def F(x_0[i_0]");
    for (int i = 0; i < 14; i++)
        text_printf(&text, ", A_%d[i_%d, i_%d]", i, i, i + 1);
    text_add(&text, "):\n");
    for (int i = 0; i < 14; i++)
        text_printf(&text, "    x_%d[i_%d] = einsum(x_%d[i_%d], A_%d[i_%d, i_%d])\n", i + 1, i + 1,
                    i, i, i, i, i + 1);
    text_add(&text, "    return x_14[i_14]\n");
    Graph *graph = passes_simplify(*state, text.at);
    for (uint32_t i = 0; i < graph->values.count; i++)
        if (graph->values.at[i]->op == OP_CONTRACT)
            assert_true(graph->values.at[i]->n_args <= 10);
    assert_same_results(passes_build(*state, text.at), graph, 3, 7);
}

// ---- common operands ---------------------------------------------------------------------------

static void test_common_operand_of_small_rests_is_factored_out(void **state) {
    Graph *graph = passes_simplify(
        *state,
        "dim n = 512, m = 512, g = 12, h = 12\n"
        "def F(J[n, m, g], P[g, h], R[n, g, h]):\n"
        "    L[n, m, h] = einsum(J[n, m, g], P[g, h]) - 2 * einsum(J[n, m, g], R[n, g, h])\n"
        "    return L[n, m, h]\n");
    assert_int_equal(count_live(graph, OP_CONTRACT), 1);
    assert_int_equal(result(graph)->op, OP_CONTRACT);
}

// P + R + S would have the dims n, m, g and h.
static void test_rest_that_would_grow_stays_apart(void **state) {
    Graph *graph = passes_simplify(
        *state, "dim n = 512, m = 512, g = 12, h = 12\n"
                "def F(J[n, m, g], P[g, h], R[n, g, h], S[m, g, h]):\n"
                "    L[n, m, h] = (einsum(J[n, m, g], P[g, h]) + einsum(J[n, m, g], R[n, g, h])\n"
                "        + einsum(J[n, m, g], S[m, g, h]))\n"
                "    return L[n, m, h]\n");
    assert_int_equal(count_live(graph, OP_CONTRACT), 2);
    assert_int_equal(count_live(graph, OP_ADD), 2); // of the rests, of the two einsums
}

static void test_several_common_operands_are_contracted_once(void **state) {
    const char *text =
        "dim n = 512, m = 512, d = 768, k = 64, g = 12, h = 12\n"
        "def F(X[n, d], M[m, d], P_q[d, k, g], P_k[d, k, g], R[n, g, h], S[m, g, h]):\n"
        "    Q[n, k, g] = einsum(X[n, d], P_q[d, k, g])\n"
        "    K[m, k, g] = einsum(M[m, d], P_k[d, k, g])\n"
        "    L[n, m, h] = (einsum(Q[n, k, g], K[m, k, g], R[n, g, h])\n"
        "        + einsum(Q[n, k, g], K[m, k, g], S[m, g, h]))\n"
        "    return L[n, m, h]\n";
    int64_t n = 512, projections = 2 * n * 768 * 768, logits = n * n * 768;
    assert_int_equal(multiplies(passes_contract(*state, text)),
                     projections + logits + 2 * n * n * 12 * 12);
}

static void test_terms_of_other_dims_are_left_alone(void **state) {
    Graph *graph = passes_simplify(*state, "def F(A[n, k], B[k, m], C[k]):\n"
                                           "    u[n] = einsum(A[n, k], C[k])\n"
                                           "    L[n, m] = einsum(A[n, k], B[k, m]) + u[n]\n"
                                           "    return L[n, m]\n");
    assert_int_equal(count_live(graph, OP_CONTRACT), 2);
}

// ---- everything --------------------------------------------------------------------------------

static void test_results_stay_the_same(void **state) {
    for (uint32_t i = 0; passes_programs[i]; i++) {
        Graph *graph = passes_build(*state, passes_programs[i]);
        assert_same_results(graph, passes_simplify(*state, passes_programs[i]), 4, i);
    }
}

static void test_simplifying_again_changes_nothing(void **state) {
    Session *session = *state;
    for (uint32_t i = 0; passes_programs[i]; i++) {
        Graph *once = passes_simplify(session, passes_programs[i]);
        Graph *twice =
            graph_simplify(once, graph_typical_extents(once, session->arena), &passes_machine);
        assert_true(graph_hash(once) == graph_hash(twice));
        assert_int_equal(once->dims.count, twice->dims.count);
    }
}

static void test_no_value_is_dead(void **state) {
    Session *session = *state;
    for (uint32_t i = 0; passes_programs[i]; i++) {
        Graph *graph = passes_simplify(session, passes_programs[i]);
        const bool *live = graph_live(graph, session->arena);
        for (uint32_t k = 0; k < graph->values.count; k++)
            assert_true(live[k] || graph->values.at[k]->op == OP_INPUT);
    }
}

// ---- long programs -----------------------------------------------------------------------------

// An einsum with room for no more operands is not entered at all: otherwise each of the layers
// would be tried inside each that follows, and every trial makes new dims.
static void test_many_linear_layers_take_no_more_dims_than_one_einsum(void **state) {
    Graph *graph = passes_simplify(*state, "dim layers = 2000, e like d\n"
                                           "def F(X[n, d], P[d, e]):\n"
                                           "    for i in layers:\n"
                                           "        T[n, e] = einsum(X, P)\n"
                                           "        X[n, d] = T[n, d]\n"
                                           "    return X\n");
    graph_verify(graph, "simplify");
    assert_in_range(graph->dims.count, 4, DIMS_MAX + 4);
    assert_in_range(count_live(graph, OP_CONTRACT), 2000 / ORDER_EXACT_MAX, 2000 / 5);
}

static void test_long_sums_and_signs_are_taken_apart(void **state) {
    Graph *graph = passes_simplify(*state, "dim steps = 9000\n"
                                           "def F(X[n], P[n, d]):\n"
                                           "    S = X\n"
                                           "    for i in steps:\n"
                                           "        S = S + exp(X) * i\n"
                                           "    return einsum(S, P -> [d])\n");
    assert_int_equal(count_live(graph, OP_ADD), 9000);
    graph = passes_simplify(*state, "dim steps = 4000\n"
                                    "def F(X[n], P[n, d]):\n"
                                    "    for i in steps:\n"
                                    "        X = -(X * 1.001)\n"
                                    "    return einsum(X, P -> [d])\n");
    const Value *einsum = find_live(graph, OP_CONTRACT);
    assert_int_equal(graph->outputs.at[0].value->op, OP_CONTRACT);
    assert_true(fabs(einsum->number / pow(1.001, 4000) - 1) < 1e-9);
    assert_int_equal(count_live(graph, OP_MUL) + count_live(graph, OP_NEG), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(maps_of_constants_are_constants),
        TEST(identities_vanish),
        TEST(zero_times_is_not_zero),
        TEST(identity_keeps_broadcast),
        TEST(square_is_a_product),
        TEST(what_is_the_same_is_not_repeated),
        TEST(sum_of_what_is_the_same_is_a_product),
        TEST(what_is_the_same_over_a_dynamic_dim_may_be_over_none),
        TEST(number_of_an_array_is_known),
        TEST(three_ways_of_writing_are_one_graph),
        TEST(summed_dim_that_occurs_outside_gets_a_fresh_name),
        TEST(several_uses_are_a_barrier),
        TEST(constant_scale_is_the_factor),
        TEST(run_time_scale_is_one_scalar_operand),
        TEST(head_mask_is_an_operand),
        TEST(full_size_factor_stays_a_product),
        TEST(sum_of_product_is_an_einsum),
        TEST(sum_along_rows_stays_a_reduction),
        TEST(einsum_of_one_operand_is_a_sum_or_nothing),
        TEST(rename_moves_to_the_operands),
        TEST(rename_of_a_shared_value_stays),
        TEST(two_alike_dims_get_two_fresh_names),
        TEST(rename_does_not_enter_a_sum_over_its_new_dim),
        TEST(renames_one_after_another),
        TEST(no_more_operands_than_can_be_ordered),
        TEST(common_operand_of_small_rests_is_factored_out),
        TEST(rest_that_would_grow_stays_apart),
        TEST(several_common_operands_are_contracted_once),
        TEST(terms_of_other_dims_are_left_alone),
        TEST(results_stay_the_same),
        TEST(simplifying_again_changes_nothing),
        TEST(no_value_is_dead),
        TEST(many_linear_layers_take_no_more_dims_than_one_einsum),
        TEST(long_sums_and_signs_are_taken_apart),
    };
    return cmocka_run_group_tests_name("simplify", tests, NULL, NULL);
}
