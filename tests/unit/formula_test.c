// SPDX-License-Identifier: Apache-2.0
// Formulas of extents: their text, their values when compiling and at run time, and what is wrong.

#include "support.h"

#include <string.h>

#include "graph/graph.h"
#include "internal.h"
#include "module.h"
#include "product/product.h"

typedef struct {
    Session *session;
    Graph *graph;
    DimId n, p, t;
} World;

static World world_new(void) {
    World w = {.session = session_new()};
    Names *names = w.session->names;
    w.graph = graph_new(w.session, names_find(names, "Test"));
    w.n = graph_dim(w.graph, names_find(names, "n"), EXTENT_DYNAMIC);
    w.p = graph_dim(w.graph, names_find(names, "p"), EXTENT_DYNAMIC);
    w.t = graph_dim(w.graph, names_find(names, "t"), EXTENT_DYNAMIC);
    return w;
}

static const Formula *number(const World *w, int64_t value) {
    return formula_number(w->graph->arena, value);
}

static const Formula *dim(const World *w, DimId id) {
    return formula_dim(w->graph, id);
}

static const Formula *of(const World *w, FormulaOp op, const Formula *a, const Formula *b) {
    return formula_of(w->graph->arena, op, a, b);
}

static void test_numbers_are_folded(void **state) {
    (void)state;
    World w = world_new();
    const Formula *n = dim(&w, w.n);
    assert_int_equal(of(&w, FORMULA_POW, number(&w, 3), number(&w, 4))->number, 81);
    assert_int_equal(of(&w, FORMULA_FLOORDIV, number(&w, -7), number(&w, 2))->number, -4);
    assert_int_equal(of(&w, FORMULA_MOD, number(&w, -7), number(&w, 2))->number, 1);
    assert_int_equal(of(&w, FORMULA_DIV, number(&w, 7), number(&w, 2))->op, FORMULA_DIV);
    assert_ptr_equal(of(&w, FORMULA_ADD, number(&w, 0), n), n);
    assert_int_equal(of(&w, FORMULA_SUB, n, dim(&w, w.n))->number, 0);
    const Formula *sum = of(&w, FORMULA_ADD, n, dim(&w, w.p));
    assert_ptr_equal(of(&w, FORMULA_SUB, sum, dim(&w, w.p)), n);
    assert_true(formula_same(sum, of(&w, FORMULA_ADD, dim(&w, w.n), dim(&w, w.p))));
    assert_false(formula_same(sum, of(&w, FORMULA_ADD, dim(&w, w.p), dim(&w, w.n))));
    session_free(w.session);
}

// What compiler and runtime make of `t = formula` at n = 7, p = -3, and the formula's text.
static void expect(const World *w, const Formula *formula, const char *text, int64_t value,
                   const char *why) {
    Graph *graph = w->graph;
    int64_t extents[] = {7, -3, ATT_EXTENT_UNKNOWN}, dims[] = {0, 1, 2};
    const AttDim table[] = {{"n", -1, 0, 0, 0}, {"p", -1, 1, 0, 0}, {"t", -1, 2, 1, 0}};
    graph->rules.count = 0;
    vec_push(graph->arena, &graph->rules, (ExtentRule){RULE_COMPUTES, w->t, formula, {0}});
    AttModule module = {.n_dims = 3, .dims = table, .n_rules = 1};
    module.rules = product_rules(graph->arena, graph, dims);
    assert_string_equal(module.rules[0].formula.text, text);
    AttContext *ctx = att_context_new(1);
    AttStatus status = att_module_compute(ctx, &module, extents);
    assert_int_equal(status, why ? ATT_ARGUMENT : ATT_OK);
    assert_string_equal(att_message(ctx), why ? why : "");
    assert_int_equal(extents[2], why ? ATT_EXTENT_UNKNOWN : value);
    att_context_free(ctx);
    extents[2] = EXTENT_DYNAMIC;
    const char *found = graph_apply_rules(graph, extents, graph->arena).why;
    assert_string_equal(found ? found : "", why ? why : "");
    assert_int_equal(extents[2], why ? EXTENT_DYNAMIC : value);
}

static void test_values_and_texts(void **state) {
    (void)state;
    World w = world_new();
    const Formula *n = dim(&w, w.n), *p = dim(&w, w.p), *two = number(&w, 2);
    expect(&w, of(&w, FORMULA_ADD, p, n), "p + n", 4, NULL);
    expect(&w, of(&w, FORMULA_SUB, n, of(&w, FORMULA_SUB, p, two)), "n - (p - 2)", 12, NULL);
    expect(&w, of(&w, FORMULA_MUL, of(&w, FORMULA_ADD, p, n), two), "(p + n) * 2", 8, NULL);
    expect(&w, of(&w, FORMULA_FLOORDIV, of(&w, FORMULA_MUL, n, two), number(&w, 3)), "n * 2 // 3",
           4, NULL);
    expect(&w, of(&w, FORMULA_MOD, p, two), "p % 2", 1, NULL);
    expect(&w, of(&w, FORMULA_POW, p, two), "p ** 2", 9, NULL);
    expect(&w, of(&w, FORMULA_POW, of(&w, FORMULA_SUB, of(&w, FORMULA_ADD, p, two), p), n),
           "2 ** n", 128, NULL);
    expect(&w, of(&w, FORMULA_POW, of(&w, FORMULA_MOD, p, two), number(&w, INT64_MAX)),
           "(p % 2) ** 9223372036854775807", 1, NULL);
    expect(&w, of(&w, FORMULA_MIN, n, of(&w, FORMULA_MAX, p, two)), "min(n, max(p, 2))", 2, NULL);
    expect(&w, of(&w, FORMULA_DIV, of(&w, FORMULA_ADD, n, p), two), "(n + p) / 2", 2, NULL);
    const Formula *one = number(&w, 1);
    expect(&w, of(&w, FORMULA_MUL, of(&w, FORMULA_MUL, one, n), one), "n", 7, NULL);
    expect(&w, of(&w, FORMULA_FLOORDIV, of(&w, FORMULA_DIV, n, one), one), "n", 7, NULL);
    session_free(w.session);
}

static void test_what_is_wrong(void **state) {
    (void)state;
    World w = world_new();
    const Formula *n = dim(&w, w.n), *p = dim(&w, w.p), *two = number(&w, 2);
    const Formula *zero = of(&w, FORMULA_ADD, p, number(&w, 3));
    expect(&w, of(&w, FORMULA_DIV, n, two), "n / 2", 0, "t = n / 2: 7 is not divisible by 2");
    expect(&w, of(&w, FORMULA_MOD, n, zero), "n % (p + 3)", 0,
           "t = n % (p + 3): a division by zero");
    expect(&w, of(&w, FORMULA_POW, n, p), "n ** p", 0, "t = n ** p: a negative power");
    expect(&w, of(&w, FORMULA_POW, n, number(&w, 99)), "n ** 99", 0,
           "t = n ** 99: a number that does not fit in 63 bits");
    expect(&w, of(&w, FORMULA_SUB, p, n), "p - n", 0,
           "t = p - n is -10 with p = -3, n = 7; extents are from 0 to 1099511627776");
    expect(&w, of(&w, FORMULA_POW, two, of(&w, FORMULA_MUL, n, n)), "2 ** (n * n)", 0,
           "t = 2 ** (n * n) is 562949953421312 with n = 7; extents are from 0 to 1099511627776");
    session_free(w.session);
}

// A formula by itself: 3 * n * n + p, as of the work of a step.
static void test_a_value_or_none(void **state) {
    (void)state;
    World w = world_new();
    const Formula *n = dim(&w, w.n), *p = dim(&w, w.p);
    const Formula *square = of(&w, FORMULA_MUL, of(&w, FORMULA_MUL, number(&w, 3), n), n);
    const int64_t dims[] = {0, 1, 2}, known[] = {7, 5, ATT_EXTENT_UNKNOWN},
                  lacks[] = {7, ATT_EXTENT_UNKNOWN, 0}, large[] = {INT64_C(1) << 40, 5, 0};
    AttFormula made =
        product_formula(w.graph->arena, w.graph, of(&w, FORMULA_ADD, square, p), dims);
    int64_t value = 0;
    assert_string_equal(made.text, "3 * n * n + p");
    assert_true(att_formula_value(&made, known, &value));
    assert_int_equal(value, 152);
    assert_false(att_formula_value(&made, lacks, &value));
    assert_false(att_formula_value(&made, large, &value));
    assert_false(att_formula_value(&(AttFormula){0}, known, &value));
    session_free(w.session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_folded),
        cmocka_unit_test(test_values_and_texts),
        cmocka_unit_test(test_what_is_wrong),
        cmocka_unit_test(test_a_value_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
