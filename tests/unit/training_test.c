// SPDX-License-Identifier: Apache-2.0
// What training needs to know of an entry: whether it trains, first values, how large tables are.
#include "passes_fixture.h"

#include <math.h>
#include <string.h>

#include "graph/model.h"

static int setup(void **state) {
    *state = session_new();
    return 0;
}

static int teardown(void **state) {
    session_free(*state);
    return 0;
}

static const Value *input_named(const Graph *graph, const char *name) {
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        if (strcmp(graph->inputs.at[i]->name, name) == 0)
            return graph->inputs.at[i];
    fail_msg("there is no input %s", name);
    return NULL;
}

static void assert_first(const Graph *graph, const char *name, InitKind kind, double a, double b) {
    FirstValue first = graph_first_value(graph, input_named(graph, name));
    assert_int_equal(first.kind, kind);
    assert_true(fabs(first.a - a) < 1e-12 && fabs(first.b - b) < 1e-12);
}

// ---- whether it trains ----

static Trains trains(void **state, const char *text) {
    return graph_trains(passes_build(*state, text));
}

static void test_trains(void **state) {
    Trains loss = trains(state, "dim d = 4\n"
                                "def Loss(X[b, d]):\n"
                                "    param w[d]\n"
                                "    n[b] = sum(X * w, reduced_dim=d)\n"
                                "    return sum(n * n, reduced_dim=b), 3 // 2\n");
    assert_int_equal(loss.kind, TRAINS);
}

static int64_t planned(const Graph *graph, Session *session, const char *name) {
    return dim_planned(&graph->dims.at[graph_find_dim(graph, names_find(session->names, name))]);
}

// Sequences that nobody tells of are planned for as a few; all else is as in a library.
static void test_batch(void **state) {
    const Graph *loss = passes_build(
        *state, "dim d = 4\n"
                "def Loss(scale[], X[b, n, d], Y[n]):\n"
                "    param w[d]\n"
                "    return scale * sum(sum(X * w, reduced_dim=d) * Y, reduced_dim=(b, n))\n");
    assert_int_equal(graph_batch(loss), input_named(loss, "X")->dims.at[0]);
    assert_int_equal(planned(loss, *state, "b"), 8);
    assert_int_equal(planned(loss, *state, "n"), 512);
    const Graph *ids = passes_build(*state, "dim v = 9\n"
                                            "def Loss(tokens[b, n]: i32, param E[v]):\n"
                                            "    return sum(gather(E, tokens, dim=v), "
                                            "reduced_dim=(b, n))\n");
    assert_int_equal(planned(ids, *state, "b"), 8);
}

static void assert_no_batch(Session *session, const char *text, const char *dim) {
    const Graph *graph = passes_build(session, text);
    assert_int_equal(graph_batch(graph), DIM_NONE);
    assert_int_equal(planned(graph, session, dim), 512);
}

static void test_no_batch(void **state) {
    assert_no_batch(*state,
                    "dim d = 4\n"
                    "def Rows(X[b, n, d], param w[d]):\n"
                    "    return sum(X * w, reduced_dim=d)\n",
                    "b");
    assert_no_batch(*state,
                    "dim d = 4\n"
                    "def Vectors(X[b, d], param w[d]):\n"
                    "    return sum(X * w, reduced_dim=(b, d))\n",
                    "b");
    assert_no_batch(*state,
                    "dim d = 4\n"
                    "def Pairs(X[b, n, d], param w[d]):\n"
                    "    Y[b, n] = sum(X * w, reduced_dim=d)\n"
                    "    return sum(Y[b, n] * Y[b', n], reduced_dim=(b, b', n))\n",
                    "b");
}

static void test_no_loss(void **state) {
    Trains rows = trains(state, "dim d = 4\n"
                                "def F(X[b, d]):\n"
                                "    param w[d]\n"
                                "    return sum(X * w, reduced_dim=d)\n");
    Trains data = trains(state, "dim d = 4\n"
                                "def F(X[b, d]):\n"
                                "    return sum(X, reduced_dim=(b, d))\n");
    Trains whole = trains(state, "dim d = 4\n"
                                 "def F(X[b, d]):\n"
                                 "    param w[d]\n"
                                 "    return 3 // 2, sum(X * w, reduced_dim=(b, d))\n");
    assert_int_equal(rows.kind, TRAINS_NOT);  // results have dims
    assert_int_equal(data.kind, TRAINS_NOT);  // nothing to learn
    assert_int_equal(whole.kind, TRAINS_NOT); // the first result is no float
}

static void test_what_is_in_the_way(void **state) {
    Trains open = trains(state, "def F(X[b, d]):\n"
                                "    param w[d]\n"
                                "    return sum(X * w, reduced_dim=(b, d))\n");
    assert_int_equal(open.kind, TRAINS_BUT);
    assert_string_equal(open.why, "the extent of 'd' in 'w' is not known");
    assert_string_equal(open.hint, "give it with -D d=N");
    Trains wide = trains(state, "dim d = 4\n"
                                "def F(X[b, d]: f64):\n"
                                "    param w[d]: f64\n"
                                "    return sum(X * w, reduced_dim=(b, d))\n");
    assert_int_equal(wide.kind, TRAINS_BUT);
    assert_string_equal(wide.why, "'w' is f64: trained tensors are f32");
}

// ---- first values ----

static void test_first_values(void **state) {
    const Graph *graph =
        passes_build(*state, "dim d = 16, k = 4, h = 5, rounds = 2\n"
                             "def F(X[b, d], param A[d, k, h], param c[d]):\n"
                             "    param B[d, k, h] ~ glorot, N[d] ~ normal(std=1/sqrt(d))\n"
                             "    param T[d] ~ truncated_normal(std=0.02), U[d] ~ uniform(-1, k)\n"
                             "    for i in rounds:\n"
                             "        param g[d] = i + 1\n"
                             "        X = X * g\n"
                             "    Y = sum(X * (N + T + U + c), reduced_dim=(b, d))\n"
                             "    return Y + sum(A * B, reduced_dim=(d, k, h))\n");
    assert_first(graph, "A", INIT_NORMAL, 0.25, 0);
    assert_first(graph, "c", INIT_VALUE, 0, 0);
    assert_first(graph, "B", INIT_UNIFORM, -sqrt(6.0 / 36), sqrt(6.0 / 36));
    assert_first(graph, "N", INIT_NORMAL, 0.25, 0);
    assert_first(graph, "T", INIT_TRUNCATED_NORMAL, 0.02, 0);
    assert_first(graph, "U", INIT_UNIFORM, -1, 4);
    assert_first(graph, "i.0.g", INIT_VALUE, 1, 0);
    assert_first(graph, "i.1.g", INIT_VALUE, 2, 0);
}

// ---- ids ----

static void test_ids_below(void **state) {
    const Graph *graph = passes_build(
        *state, "dim v = 100, w = 50, d = 8\n"
                "def F(a[n]: i32, b[n]: i32, c[n]: i32, e[n]: i32, f[n]: i32, param E[v, d],\n"
                "      param G[w, d]):\n"
                "    X = gather(E[v, d], a[n], dim=v) + gather(G[w, d], b[n], dim=w)\n"
                "    Y = X + gather(E[v, d], b[n], dim=v)\n"
                "    L[n, v] = einsum(Y[n, d], E[v, d])\n"
                "    safe = where(c >= 0, c, 0)\n"
                "    Z = where(c >= 0, cross_entropy(L, safe), 0)\n"
                "    O[n, w] = f32(one_hot(e[n], w))\n"
                "    return sum(Z, reduced_dim=n) + sum(O, reduced_dim=(n, w)) + f32(sum(f, "
                "reduced_dim=n))\n");
    assert_int_equal(graph_ids_below(graph, input_named(graph, "a")), 100);
    assert_int_equal(graph_ids_below(graph, input_named(graph, "b")), 50);
    assert_int_equal(graph_ids_below(graph, input_named(graph, "c")), 100);
    assert_int_equal(graph_ids_below(graph, input_named(graph, "e")), 50);
    assert_int_equal(graph_ids_below(graph, input_named(graph, "f")), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_trains, setup, teardown),
        cmocka_unit_test_setup_teardown(test_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_loss, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_in_the_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_first_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ids_below, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
