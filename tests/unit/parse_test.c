// SPDX-License-Identifier: Apache-2.0
// Parsing: what is accepted and how it prints.
#include "parse_fixture.h"

#include <string.h>

static void check_expr(const char *text, const char *expected) {
    Arena *arena = arena_new();
    check_prints(arena_printf(arena, "def F(X):\n  Y = %s\n", text),
                 arena_printf(arena, "def F(X):\n    Y = %s\n", expected));
    arena_free(arena);
}

static void expressions_keep_their_tree(void **state) {
    (void)state;
    check_expr("a + b * c - d", "a + b * c - d");
    check_expr("(a + b) * c", "(a + b) * c");
    check_expr("a - (b - c)", "a - (b - c)");
    check_expr("(a - b) - c", "a - b - c");
    check_expr("a / b / c * d // e % f", "a / b / c * d // e % f");
    check_expr("a ** b ** c", "a ** b ** c");
    check_expr("(a ** b) ** c", "(a ** b) ** c");
    check_expr("-a ** b", "-a ** b");
    check_expr("(-a) ** b", "(-a) ** b");
    check_expr("a ** -b ** c", "a ** -b ** c");
    check_expr("a ** (-b) * c", "a ** -b * c");
    check_expr("--a - -b", "--a - -b");
    check_expr("-(a * b)", "-(a * b)");
    check_expr("-a * b", "-a * b");
    check_expr("not not a", "not not a");
    check_expr("not (a and b) or c", "not (a and b) or c");
    check_expr("a and (b or c) and d", "a and (b or c) and d");
    check_expr("not a == b", "not a == b");
    check_expr("(not a) == b", "(not a) == b");
    check_expr("(a < b) == (c >= d)", "(a < b) == (c >= d)");
    check_expr("a != b + 1 and c <= d or e > f", "a != b + 1 and c <= d or e > f");
    check_expr("((a))", "a");
}

static void numbers_keep_value_and_kind(void **state) {
    (void)state;
    check_expr("2 + 2.0 + 2. + .5", "2 + 2.0 + 2.0 + 0.5");
    check_expr("1e3 + 1E-3 + 2.5e+10", "1e+03 + 0.001 + 2.5e+10");
    check_expr("9007199254740992", "9007199254740992");
    check_expr("0.1 + 1.7976931348623157e308 + 5e-324", "0.1 + 1.7976931348623157e+308 + 5e-324");
    check_expr("-inf + pi", "-inf + pi");
    check_expr("000", "0");
    check_expr("0e-999", "0.0");
}

static void calls_take_keys_arrows_and_labels(void **state) {
    (void)state;
    check_expr("einsum(A[n, d], B[d, h] -> [n, h])", "einsum(A[n, d], B[d, h] -> [n, h])");
    check_expr("einsum(A, B -> [])", "einsum(A, B -> [])");
    check_expr("softmax(x, reduced_dim=m)", "softmax(x, reduced_dim=m)");
    check_expr("sum(x, reduced_dim=(n, m),)", "sum(x, reduced_dim=(n, m))");
    check_expr("sum(x, reduced_dim=(n,))", "sum(x, reduced_dim=(n,))");
    check_expr("gather(E[v, d,], ids[b], dim=v)", "gather(E[v, d], ids[b], dim=v)");
    check_expr("F()", "F()");
    check_expr("X + Attend(norm(X) as pre) as attend + Y[]",
               "X + Attend(norm(X) as pre) as attend + Y[]");
}

static void words_of_the_grammar_may_be_names(void **state) {
    (void)state;
    check_prints("dim in, shared = 2, like like as\n"
                 "def as(in[like, shared]):\n"
                 "  for in in in shared:\n"
                 "    as = f(in[as], shared=like) as like\n"
                 "  return as\n",
                 "dim in\ndim shared = 2\ndim like like as\n\n"
                 "def as(in[like, shared]):\n"
                 "    for in in in shared:\n"
                 "        as = f(in[as], shared=like) as like\n"
                 "    return as\n");
}

static void items_print_in_order(void **state) {
    (void)state;
    check_prints("def G(X): # comment\n return X, X[n]\n"
                 "param W[d, f]: bf16 ~ normal(std=1/sqrt(d)), b = 0\n"
                 "param c[] ~ glorot, e[f] ~ uniform(-1, d), g ~ truncated_normal(std=2)\n"
                 "dim n = 512, m like n, k\n",
                 "dim n = 512\ndim m like n\ndim k\n\n"
                 "param W[d, f]: bf16 ~ normal(std=1 / sqrt(d))\nparam b = 0\n"
                 "param c[] ~ glorot\nparam e[f] ~ uniform(-1, d)\n"
                 "param g ~ truncated_normal(std=2)\n\n"
                 "def G(X):\n    return X, X[n]\n");
}

// A parameter list in the way papers print it.
static void layout_means_nothing_in_brackets(void **state) {
    (void)state;
    check_prints(
        "def TalkingHeads(   # begins\n"
        "\tX[n, d_X],   # n vectors\n"
        "# a line of its own\n"
        "\n"
        "      M[m,\nd_M], tokens[b]: i32, bare, param\nP_w[h, h_v],)   :   # ends\n"
        "   # odd\n"
        "  J = (a(X[n, d_X],\n"
        "b) +       # static\n"
        " \t # odd\n"
        "      c)   # dynamic\n"
        "\n"
        "                # odder\n"
        "# not indented\n"
        "  return J",
        "def TalkingHeads(X[n, d_X], M[m, d_M], tokens[b]: i32, bare, param P_w[h, h_v]):\n"
        "    J = a(X[n, d_X], b) + c\n"
        "    return J\n");
}

static void long_headers_are_broken(void **state) {
    (void)state;
    check_prints("def F(aaaaaaaaaaaaaaaaaaaaaaaaaa[n], bbbbbbbbbbbbbbbbbbbbbbbbbb[n], "
                 "cccccccccccccccccccccccccccccc, d):\n return d\n",
                 "def F(\n        aaaaaaaaaaaaaaaaaaaaaaaaaa[n],\n"
                 "        bbbbbbbbbbbbbbbbbbbbbbbbbb[n],\n"
                 "        cccccccccccccccccccccccccccccc,\n        d):\n    return d\n");
}

static void line_ends_and_marks_of_any_system(void **state) {
    (void)state;
    const char *expected = "dim n\n\ndef F(X):\n    return X\n";
    check_prints("dim n\r\ndef F(X):\r\n\r\n  return X\r\n", expected);
    check_prints("\xEF\xBB\xBF"
                 "dim n\ndef F(X):\n  return X",
                 expected);
    check_prints("dim n # c\xC3\xA4\ndef F(X):\n  return X  #", expected);
    check_prints("", "");
    check_prints("\n\n   \n# only comments", "");
    check_prints("   # only a comment", "");
}

static void blocks_nest(void **state) {
    (void)state;
    check_prints("def F(X):\n"
                 " for a in b:\n"
                 "    for c in d shared:\n"
                 "     X = X\n"
                 "\n"
                 "    X = Y\n"
                 " return X\n"
                 "def G(X):\n"
                 "        return X\n",
                 "def F(X):\n"
                 "    for a in b:\n"
                 "        for c in d shared:\n"
                 "            X = X\n"
                 "        X = Y\n"
                 "    return X\n\n"
                 "def G(X):\n"
                 "    return X\n");
}

static void spans_cover_what_was_written(void **state) {
    (void)state;
    const char *text = "def F(X):\n  Y[n] = (a + b) * g(c,\n d) as e\n";
    Parsed p = parse_bytes(text, strlen(text));
    const Stmt *stmt = p.program->defs.at[0]->body.at[0];
    assert_int_equal(stmt->target.span.begin, 12);
    assert_int_equal(stmt->target.span.end, 16);
    assert_int_equal(stmt->value->span.begin, 19);
    assert_int_equal(stmt->value->span.end, 42);
    const Expr *sum = stmt->value->args.at[0], *call = stmt->value->args.at[1];
    assert_memory_equal(text + sum->span.begin, "(a + b)", sum->span.end - sum->span.begin);
    assert_memory_equal(text + call->span.begin, "g(c,\n d) as e",
                        call->span.end - call->span.begin);
    assert_memory_equal(text + call->name.span.begin, "g", 1);
    assert_int_equal(call->depth, 1);
    assert_int_equal(stmt->value->depth, 2);
    parsed_free(&p);
}

static void operators_have_texts(void **state) {
    (void)state;
    for (Oper oper = 0; oper < N_OPER; oper++)
        assert_non_null(oper_text(oper));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions_keep_their_tree),
        cmocka_unit_test(numbers_keep_value_and_kind),
        cmocka_unit_test(calls_take_keys_arrows_and_labels),
        cmocka_unit_test(words_of_the_grammar_may_be_names),
        cmocka_unit_test(items_print_in_order),
        cmocka_unit_test(layout_means_nothing_in_brackets),
        cmocka_unit_test(long_headers_are_broken),
        cmocka_unit_test(line_ends_and_marks_of_any_system),
        cmocka_unit_test(blocks_nest),
        cmocka_unit_test(spans_cover_what_was_written),
        cmocka_unit_test(operators_have_texts),
    };
    return cmocka_run_group_tests_name("parse", tests, NULL, NULL);
}
