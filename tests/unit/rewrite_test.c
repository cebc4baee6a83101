// SPDX-License-Identifier: Apache-2.0
// The engine that copies a graph by a rule: what it copies, what a rule is given, what it may do.
#include "passes_fixture.h"

#include "graph/rewrite/rewrite.h"

static int setup(void **state) {
    *state = session_new();
    return 0;
}

static int teardown(void **state) {
    session_free(*state);
    return 0;
}

static Graph *rewrite_by(const Graph *graph, RewriteRule *rule, void *data) {
    Rewrite rewrite = rewrite_begin("test", graph, graph->arena, graph->arena);
    rewrite.data = data;
    rewrite_values(&rewrite, rule);
    rewrite_outputs(&rewrite);
    return rewrite.to;
}

static void test_a_copy_is_the_live_part_of_the_graph(void **state) {
    Graph *graph = passes_build(*state, "def F(x[n], unused[n]):\n"
                                        "    dead[n] = exp(x[n])\n"
                                        "    y[n] = tanh(x[n])\n"
                                        "    return y[n], y[n] + x[n]\n");
    assert_int_equal(graph->values.count, 5);
    Graph *copy = rewrite_by(graph, rewrite_keep, NULL);
    assert_int_equal(copy->values.count, 4); // without `dead`; inputs are the caller's, used or not
    assert_int_equal(copy->inputs.count, 2);
    assert_true(graph_hash(copy) == graph_hash(graph));
    graph_verify(copy, "rewrite");
}

// exp(x) becomes 1 / exp(-x).
static Value *invert_exp(Rewrite *rewrite, const Value *value, Value **args) {
    if (value->op != OP_EXP)
        return rewrite_rebuild(rewrite, value, args);
    Graph *to = rewrite->to;
    Value *below = graph_map1(to, OP_EXP, graph_map1(to, OP_NEG, args[0]));
    return graph_map2(to, OP_DIV, graph_const(to, 1, value->elem), below);
}

static void test_what_takes_a_values_place_has_its_name_and_users(void **state) {
    Graph *graph = passes_build(*state, "def F(x[n]):\n"
                                        "    e[n] = exp(x[n])\n"
                                        "    return e[n] * e[n] + x[n]\n");
    Graph *copy = rewrite_by(graph, invert_exp, NULL);
    graph_verify(copy, "rewrite");
    const Value *e = find_named(copy, "e");
    assert_int_equal(e->op, OP_DIV);
    const Value *square = find_live(copy, OP_MUL);
    assert_ptr_equal(square->args[0], e);
    assert_ptr_equal(square->args[1], e);
    assert_same_results(graph, copy, 5, 1);
}

typedef struct {
    uint32_t uses_of_exp;
    const Value *user_of_exp, *user_of_sum;
} Seen;

static Value *look(Rewrite *rewrite, const Value *value, Value **args) {
    Seen *seen = rewrite->data;
    for (uint32_t i = 0; i < value->n_args; i++)
        assert_ptr_equal(rewrite->now[value->args[i]->id], args[i]);
    if (value->op == OP_EXP) {
        seen->uses_of_exp = rewrite->uses[value->id];
        seen->user_of_exp = rewrite->user[value->id];
    }
    if (value->op == OP_ADD)
        seen->user_of_sum = rewrite->user[value->id];
    return rewrite_keep(rewrite, value, args);
}

static void test_a_rule_sees_the_users_of_a_value(void **state) {
    Graph *graph = passes_build(*state, "def F(x[n]):\n"
                                        "    e[n] = exp(x[n])\n"
                                        "    dead[n] = e[n] * 2\n"
                                        "    return e[n] + e[n]\n");
    Seen seen = {0};
    rewrite_by(graph, look, &seen);
    assert_int_equal(seen.uses_of_exp, 2); // `dead` does not count
    assert_int_equal(seen.user_of_exp->op, OP_ADD);
    assert_null(seen.user_of_sum);
}

static Value *make_integers(Rewrite *rewrite, const Value *value, Value **args) {
    Value *same = rewrite_keep(rewrite, value, args);
    return graph_cast(rewrite->to, same, ELEM_I32);
}

static Value *drop_dims(Rewrite *rewrite, const Value *value, Value **args) {
    (void)args;
    return graph_const(rewrite->to, 1, value->elem);
}

static void test_a_rule_must_keep_elem_and_dims(void **state) {
    Graph *graph = passes_build(*state, "def F(x[n]):\n    return exp(x[n])\n");
    expect_ice("test: a rule changed the type of value 1 (exp)",
               rewrite_by(graph, make_integers, NULL));
    expect_ice("test: a rule changed the type", rewrite_by(graph, drop_dims, NULL));
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_copy_is_the_live_part_of_the_graph),
        TEST(what_takes_a_values_place_has_its_name_and_users),
        TEST(a_rule_sees_the_users_of_a_value),
        TEST(a_rule_must_keep_elem_and_dims),
    };
    return cmocka_run_group_tests_name("rewrite", tests, NULL, NULL);
}
