// SPDX-License-Identifier: Apache-2.0
// The canonical layout: blanks, rows, blocks, comments. Every layout is laid out again and must
// stay as it is.
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ast/ast.h"

static char *format(const char *text, size_t length, bool *ok) {
    Session *session = session_new();
    Text out = {.arena = session->arena};
    *ok = ast_format(session, sources_add(session->sources, "test.attn", text, length), &out);
    char *copy = strdup(out.at ? out.at : "");
    session_free(session);
    return copy;
}

// before: what is laid out, after: what comes of it.
static void expect(const char *before, const char *after) {
    bool ok;
    char *once = format(before, strlen(before), &ok);
    if (!ok)
        fail_msg("a syntax error in:\n%s", before);
    if (strcmp(once, after) != 0)
        fail_msg("laid out:\n%s-- expected:\n%s-- found:\n%s", before, after, once);
    char *twice = format(once, strlen(once), &ok);
    if (!ok || strcmp(once, twice) != 0)
        fail_msg("laid out:\n%s-- and again:\n%s", once, twice);
    free(once);
    free(twice);
}

static void expect_same(const char *text) {
    expect(text, text);
}

// In a def, as its only line.
static void expect_line(const char *before, const char *after) {
    Session *session = session_new();
    const char *head = "def F(X[n, d]):\n";
    expect(arena_printf(session->arena, "%s    %s\n", head, before),
           arena_printf(session->arena, "%s    %s\n", head, after));
    session_free(session);
}

// ---- blanks

static void test_blanks(void **state) {
    (void)state;
    expect_line("Y [n,d]=X[ n,d ]", "Y[n, d] = X[n, d]");
    expect_line("Y[n , d] : i32=i32 (X)", "Y[n, d]: i32 = i32(X)");
    expect_line("Y=-X+-X-(- X)", "Y = -X + -X - (-X)");
    expect_line("Y = X*-1//2%3", "Y = X * -1 // 2 % 3");
    expect_line("Y=not(X>0)and X<=1 or(X!=2)", "Y = not (X > 0) and X <= 1 or (X != 2)");
    expect_line("Y=X**2", "Y = X ** 2");
    expect_line("Y=sum( X,reduced_dim = (n,d) )", "Y = sum(X, reduced_dim=(n, d))");
    expect_line("Y=concat(X,X,dim = e->[n,e])", "Y = concat(X, X, dim=e -> [n, e])");
    expect_line("Y=F(X)as  label", "Y = F(X) as label");
    expect_line("Y=F( )", "Y = F()");
    expect_line("Y=(X,)", "Y = (X,)");
    expect_line("return X,-X", "return X, -X");
    expect_line("return-X", "return -X");
    expect_line("return(X)", "return (X)");
    expect_line("param W[d,f]~normal(std = 1/d),b[f]=-1,g[]~glorot",
                "param W[d, f] ~ normal(std=1 / d), b[f] = -1, g[] ~ glorot");
    expect_line("Y = slice(X,d,-1,like)", "Y = slice(X, d, -1, like)");
    expect_line("in = shared(like[n],as)", "in = shared(like[n], as)");
    expect("dim  n=5,m  like n\nimport\"x.attn\"\n", "dim n = 5, m like n\nimport \"x.attn\"\n");
    expect("def  F( X[ ],Y:f16,param Z [n] ) :\n return X\n",
           "def F(X[], Y: f16, param Z[n]):\n    return X\n");
    expect("def F(X[n]):\n for  i  in  n  shared :\n  X=X\n return X\n",
           "def F(X[n]):\n    for i in n shared:\n        X = X\n    return X\n");
}

static void test_ends_of_lines(void **state) {
    (void)state;
    expect("", "");
    expect("\n\n", "");
    expect("dim n", "dim n\n");
    expect("\n\n\ndim n  \t \n\n\n", "dim n\n");
    expect("dim n\r\ndim m  # a \r\n", "dim n\ndim m  # a\n");
    expect("\xEF\xBB\xBF"
           "dim n\n",
           "dim n\n");
    expect("# only a comment", "# only a comment\n");
}

// ---- blocks and empty rows

static void test_blocks_are_indented_by_four(void **state) {
    (void)state;
    expect("def F(X[n]):\n"
           "  for i in a:\n"
           "        for k in b:\n"
           "         X = X\n"
           "        X = X + 1\n"
           "  return X\n",
           "def F(X[n]):\n"
           "    for i in a:\n"
           "        for k in b:\n"
           "            X = X\n"
           "        X = X + 1\n"
           "    return X\n");
}

static void test_empty_rows(void **state) {
    (void)state;
    expect("dim n\n\n\ndim m\ndim k\n"
           "def F(X[n]):\n\n\n    Y = X\n\n\n    Z = Y\n    return Z\ndef G(X[n]):\n    return "
           "X\ndim z\n",
           "dim n\n\ndim m\ndim k\n\n"
           "def F(X[n]):\n    Y = X\n\n    Z = Y\n    return Z\n\n"
           "def G(X[n]):\n    return X\n\ndim z\n");
}

static void test_comments_keep_their_blocks(void **state) {
    (void)state;
    expect("#!first\n"
           "# of F\n"
           "def F(X[n]):\n"
           "        # of the body\n"
           "  for i in a:\n"
           "  # of the loop's first line\n"
           "     X = X\n"
           "     # end of the loop\n"
           "    # a little less: of the body\n"
           "  return X\n"
           "  # end of the body\n"
           "# of G\n"
           "def G(X[n]):\n"
           "# not of the block by its column\n"
           "    return X\n"
           "# end",
           "#!first\n"
           "# of F\n"
           "def F(X[n]):\n"
           "    # of the body\n"
           "    for i in a:\n"
           "        # of the loop's first line\n"
           "        X = X\n"
           "        # end of the loop\n"
           "    # a little less: of the body\n"
           "    return X\n"
           "    # end of the body\n"
           "\n"
           "# of G\n"
           "def G(X[n]):\n"
           "    # not of the block by its column\n"
           "    return X\n"
           "\n"
           "# end\n");
}

static void test_an_empty_row_stands_above_the_comments_of_a_def(void **state) {
    (void)state;
    const char *after = "dim n\n\n# of F\n# and more\ndef F(X[n]):\n    return X\n";
    expect("dim n\n# of F\n# and more\ndef F(X[n]):\n    return X\n", after);
    expect("dim n\n\n# of F\n# and more\ndef F(X[n]):\n    return X\n", after);
    expect_same("dim n\n# of n\n\n# of F\ndef F(X[n]):\n    return X\n");
    expect_same("dim n\n# of n\n\ndef F(X[n]):\n    return X\n");
    expect("def F(X[n]):\n    return X\n    # of the body\ndef G(X[n]):\n    return X\n",
           "def F(X[n]):\n    return X\n    # of the body\n\ndef G(X[n]):\n    return X\n");
}

static void test_comments_behind_rows_are_aligned(void **state) {
    (void)state;
    expect("dim n = 5 # a\ndim d_k = 64# b\n\ndim m   # c\ndim k\ndim long_name    # d\n",
           "dim n = 5     # a\ndim d_k = 64  # b\n\n"
           "dim m          # c\ndim k\ndim long_name  # d\n");
    expect("def F(   # the def\n  X[n], # a\n    Long[n, m]): # b\n  Y = X # c\n  return Y # d\n",
           "def F(                # the def\n"
           "        X[n],         # a\n"
           "        Long[n, m]):  # b\n"
           "    Y = X     # c\n"
           "    return Y  # d\n");
}

static void test_comments_that_would_not_fit_stay_with_their_rows(void **state) {
    (void)state;
    expect(
        "dim n # short\n"
        "dim a_rather_long_name_for_a_dim_that_takes_room = 5 # a comment that would not fit if\n",
        "dim n                                                 # short\n"
        "dim a_rather_long_name_for_a_dim_that_takes_room = 5  # a comment that would not fit "
        "if\n");
    expect(
        "dim n # a comment that is too long to stand so far to the right as the other one does\n"
        "dim a_rather_long_name_for_a_dim_that_takes_room = 5 # b\n",
        "dim n  # a comment that is too long to stand so far to the right as the other one does\n"
        "dim a_rather_long_name_for_a_dim_that_takes_room = 5  # b\n");
}

// ---- rows

static void test_rows_end_where_they_did(void **state) {
    (void)state;
    expect("def F(\n  X[n, d],\n      M[m, d], P[d,\n k]):\n"
           "  L[n, m] = einsum(X[n, d], M[m, d],\n  P[d, k])\n"
           "  Y = where(\n   X > 0,\n     (X +\n  1), 0\n   )\n"
           "  Z = F(X\n+ Y\n  -> [n])\n  return Z\n",
           "def F(\n        X[n, d],\n        M[m, d], P[d, k]):\n"
           "    L[n, m] = einsum(X[n, d], M[m, d],\n                     P[d, k])\n"
           "    Y = where(\n        X > 0,\n        (X +\n         1), 0\n    )\n"
           "    Z = F(X\n          + Y\n          -> [n])\n    return Z\n");
}

static void test_rows_end_at_sensible_places(void **state) {
    (void)state;
    expect_line("Y[n,\n d] = F(X\n, X[n\n, d], G(\n)\n, dim\n=\nd)",
                "Y[n, d] = F(X,\n"
                "                X[n, d], G(),\n                dim=d)");
    expect_line("Y = F(-\nX, not\nX, X **\n2, X[\nn])", "Y = F(-X, not X, X ** 2, X[n])");
}

static void test_wide_rows_end_at_commas_and_operators(void **state) {
    (void)state;
    expect("def LongNameOfAnyAttention(X[n, d_X], M[m, d_M], param P_q[d_X, d_k, h_k], param "
           "P_k[d_M, d_k, h_k]):\n    return X\n",
           "def LongNameOfAnyAttention(\n"
           "        X[n, d_X], M[m, d_M], param P_q[d_X, d_k, h_k], param P_k[d_M, d_k, h_k]):\n"
           "    return X\n");
    expect_line(
        "L[n, m, h] = einsum(X[n, d_X], M[m, d_M], P_q[d_X, d_k, h_k], P_k[d_M, d_k, h_k], "
        "P_logits[h_k, h])",
        "L[n, m, h] = einsum(X[n, d_X], M[m, d_M], P_q[d_X, d_k, h_k], P_k[d_M, d_k, h_k],\n"
        "                        P_logits[h_k, h])");
    expect_line(
        "Y = (first_of_the_terms(X, M, P_q) + second_of_the_terms_of_it(X, M) * third_of_them(X) - "
        "fourth(X))",
        "Y = (first_of_the_terms(X, M, P_q) + second_of_the_terms_of_it(X, M) * third_of_them(X) "
        "-\n"
        "         fourth(X))");
    expect_line("a_result_with_a_very_long_name[n, d_X] = a_function_with_a_very_long_name("
                "an_argument_with_a_very_long_name[n, d_X])",
                "a_result_with_a_very_long_name[n, d_X] = a_function_with_a_very_long_name(\n"
                "        an_argument_with_a_very_long_name[n, d_X])");
}

static void test_what_cannot_end_stays_wide(void **state) {
    (void)state;
    expect_same("dim a_rather_long_name_for_a_dim = 1, another_rather_long_name_for_a_dim = 2, "
                "a_third_one_of_that_kind = 3\n");
}

static void test_comments_inside_brackets(void **state) {
    (void)state;
    expect("def F(X[n], # queries\n"
           "\n\n # memory\n  M[m], P # and\n,\n"
           " # last\n):\n  return (X + # a\n M # b\n + P)\n",
           "def F(X[n],  # queries\n"
           "\n"
           "      # memory\n"
           "      M[m], P  # and\n"
           "      ,\n"
           "      # last\n"
           "     ):\n"
           "    return (X +  # a\n"
           "            M    # b\n"
           "            + P)\n");
    expect("def F(\n\n   # queries\n\n   X[n],\n\n   M[m]\n\n):\n  return X\n",
           "def F(\n        # queries\n\n        X[n],\n\n        M[m]\n):\n    return X\n");
}

// ---- what is no program

static void test_a_text_with_errors_has_no_layout(void **state) {
    (void)state;
    static const char *const texts[] = {"def F(X[n]:\n    return X\n", "dim\n", "Y = X\n",
                                        "def F(X):\n\treturn X\n", "dim n = $\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bool ok;
        char *text = format(texts[i], strlen(texts[i]), &ok);
        assert_false(ok);
        assert_string_equal(text, "");
        free(text);
    }
}

static void test_comments_may_hold_anything(void **state) {
    (void)state;
    static const char text[] = "# a\0b\ndim n  # c\0\n";
    bool ok;
    Session *session = session_new();
    Text out = {.arena = session->arena};
    uint32_t file = sources_add(session->sources, "test.attn", text, sizeof text - 1);
    assert_true(ast_format(session, file, &out));
    assert_int_equal(out.length, sizeof text - 1);
    assert_memory_equal(out.at, text, out.length);
    session_free(session);
    char *bad = format("# \xFF\n", 4, &ok);
    assert_false(ok);
    free(bad);
}

static void test_imports_are_not_read(void **state) {
    (void)state;
    expect_same("import \"no/such/file.attn\"\n");
}

// Long lists and deep nests are laid out in little time.
static void test_large_lines(void **state) {
    (void)state;
    Session *session = session_new();
    Text text = {.arena = session->arena};
    text_add(&text, "def F(X[n]):\n    return G(X");
    for (int i = 0; i < 20000; i++)
        text_printf(&text, ",%d", i);
    text_add(&text, ")\n");
    bool ok;
    free(format(text.at, text.length, &ok));
    assert_true(ok);
    text.length = 0;
    text_add(&text, "def F(X[n]):\n    return ");
    for (int i = 0; i < 150; i++)
        text_add(&text, "a_function_with_a_long_name(X, ");
    text_add(&text, "X");
    for (int i = 0; i < 150; i++)
        text_add(&text, ")");
    text_add(&text, "\n");
    char *once = format(text.at, text.length, &ok);
    assert_true(ok);
    char *twice = format(once, strlen(once), &ok);
    assert_string_equal(once, twice);
    free(once);
    free(twice);
    session_free(session);
}

// A row ends behind a bracket for each of them: once the whole line was placed again for every try.
static void test_many_wide_arguments(void **state) {
    (void)state;
    Session *session = session_new();
    Text before = {.arena = session->arena}, after = {.arena = session->arena};
    text_add(&before, "def F(X[n]):\n    return F(");
    text_add(&after, "def F(X[n]):\n    return F(\n");
    const char *outer = "the_first_of_two_functions_with_long_names";
    const char *inner = "the_second_of_two_functions_with_long_names";
    for (int i = 0; i < 2000; i++) {
        text_printf(&before, "%s%s(%s(an_argument_of_it, another_one))", i ? ", " : "", outer,
                    inner);
        text_printf(&after, "%s        %s(\n            %s(an_argument_of_it, another_one))",
                    i ? ",\n" : "", outer, inner);
    }
    text_add(&before, ")\n");
    text_add(&after, ")\n");
    clock_t start = clock();
    expect(before.at, after.at);
    assert_true(clock() - start < 20 * CLOCKS_PER_SEC);
    session_free(session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blanks),
        cmocka_unit_test(test_ends_of_lines),
        cmocka_unit_test(test_blocks_are_indented_by_four),
        cmocka_unit_test(test_empty_rows),
        cmocka_unit_test(test_comments_keep_their_blocks),
        cmocka_unit_test(test_an_empty_row_stands_above_the_comments_of_a_def),
        cmocka_unit_test(test_comments_behind_rows_are_aligned),
        cmocka_unit_test(test_comments_that_would_not_fit_stay_with_their_rows),
        cmocka_unit_test(test_rows_end_where_they_did),
        cmocka_unit_test(test_rows_end_at_sensible_places),
        cmocka_unit_test(test_wide_rows_end_at_commas_and_operators),
        cmocka_unit_test(test_what_cannot_end_stays_wide),
        cmocka_unit_test(test_comments_inside_brackets),
        cmocka_unit_test(test_a_text_with_errors_has_no_layout),
        cmocka_unit_test(test_comments_may_hold_anything),
        cmocka_unit_test(test_imports_are_not_read),
        cmocka_unit_test(test_large_lines),
        cmocka_unit_test(test_many_wide_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
