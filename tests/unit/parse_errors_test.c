// SPDX-License-Identifier: Apache-2.0
// Parsing: every syntax mistake is told once where it is. Golden files in tests/ast show the
// messages in full.
#include "parse_fixture.h"

#include <string.h>

// One statement of a def, with its errors; lines are counted from the statement.
static void check_statement(const char *statement, const char *expected) {
    Arena *arena = arena_new();
    const char *text =
        arena_printf(arena, "def F(X): # comment\n    %s\n    return X\n", statement);
    check_errors(text, expected);
    arena_free(arena);
}

static void a_missing_colon_is_told_at_its_place(void **state) {
    (void)state;
    const char *text = "def F(X[n, d],\n      M[m])   # comment\n"
                       "  for a in b\n    Y = X +\n  return Y\n";
    Parsed p = parse_bytes(text, strlen(text));
    assert_string_equal(p.errors, "2:12 expected ':', found the end of the line | add ':'\n"
                                  "3:13 expected ':', found the end of the line | add ':'\n"
                                  "4:12 expected an expression, found the end of the line\n");
    assert_string_equal(p.printed, "def F(X[n, d], M[m]):\n    for a in b:\n"
                                   "        Y = <error>\n    return Y\n");
    assert_false(p.program->incomplete || p.program->defs.at[0]->incomplete);
    parsed_free(&p);
}

static void what_is_lost_is_marked(void **state) {
    (void)state;
    const char *text = "def F(X, 3, Y):\n  return X\n"
                       "def G(X):\n  + 3\n  return X\n"
                       "def H X:\n  return X\n"
                       "def I(X):\n  Y = 3 3\n  return $\n";
    Parsed p = parse_bytes(text, strlen(text));
    count_lines(p.errors, 5);
    assert_int_equal(p.program->defs.count, 4);
    assert_true(p.program->defs.at[0]->incomplete);
    assert_int_equal(p.program->defs.at[0]->params.count, 2);
    assert_true(p.program->defs.at[2]->incomplete);
    assert_false(p.program->defs.at[3]->incomplete);
    assert_false(p.program->incomplete);
    parsed_free(&p);
    p = parse_bytes("dim = 3\n", 8);
    assert_true(p.program->incomplete);
    parsed_free(&p);
}

static void statements_fail_alone(void **state) {
    (void)state;
    check_statement("Y = X + + 3", "2:13 expected an expression, found '+'\n");
    check_statement("Y = foo X",
                    "2:13 expected an operator or the end of the line, found 'X' | '*' multiplies "
                    "two values, einsum(A[n, m], B[m, k] -> [n, k]) sums up products\n");
    check_statement("Y[n] 1 + 2", "2:10 expected '=', found '1'\n");
    check_statement("retrun X", "2:12 expected '=', found 'X' | did you mean 'return'?\n");
    check_statement("foo(X)", "2:8 expected '=', found '(' | give the result a name: Y = ...\n");
    check_statement("Y = a = b", "2:11 expected an operator or the end of the line, found '=' | on "
                                 "lines of their own: 'a = b', 'Y = a'\n");
    check_statement("Y = a + b = c", "2:15 expected an operator or the end of the line, found '=' "
                                     "| '==' compares\n");
    check_statement("Y = a < b < c", "2:15 expected an operator or the end of the line, found '<'"
                                     " | comparisons are joined by 'and'\n");
    check_statement("Y[n, 3] = X", "2:10 expected a name or ']', found '3' | dims are named; give "
                                   "the extent with 'dim name = 3'\n");
    check_statement("Y = f(X Z)", "2:13 expected ')' or ',', found 'Z' | add ','\n");
    check_statement("Y = X[n m] + Z[n k]", "2:13 expected ',' before 'm' | add ','\n"
                                           "2:22 expected ',' before 'k' | add ','\n");
    check_statement("Y = X[+] + Z[*]", "2:11 expected an expression or ']', found '+'\n"
                                       "2:18 expected an expression or ']', found '*'\n");
    check_statement("return = 3", "2:12 expected an expression, found '='\n");
    check_statement("dim n = 3",
                    "2:5 expected a statement, found 'dim' | dims are declared outside defs\n");
    check_statement("Y = param", "2:9 expected an expression, found 'param'"
                                 " | this word is a keyword\n");
    check_statement("for a of b:\n        Y = X", "2:11 expected 'in', found 'of'\n");
    check_statement("while a < 3:\n        Y = X",
                    "2:5 there is no 'while' | a loop runs over a dim: for layer in layers\n");
    check_statement("Y[0] = X",
                    "2:7 expected a name or ']', found '0' | brackets hold the names of "
                    "dims\n");
    check_statement("Y = a if b", "2:11 there is no 'if' | where(condition, a, b) chooses\n");
    check_statement("\"\"\"text\"\"\"", "2:5 expected a statement, found the string \"\" | "
                                        "comments begin with '#'\n");
    check_statement("Y: i31 = 3", "2:8 unknown element type 'i31' | there are f32, f64, f16, bf16, "
                                  "i32, i64, bool\n");
    check_statement("Y: f32: f32 = 3", "2:13 'Y' has two element types\n");
    check_statement("param a ~ normall(std=1)",
                    "2:15 unknown initialiser 'normall' | did you mean 'normal'?\n");
    check_statement("param a ~ ones",
                    "2:15 unknown initialiser 'ones' | a number is written '= 1'\n");
    check_statement("param a ~ orthogonal", "2:15 unknown initialiser 'orthogonal' | there are "
                                            "normal, truncated_normal, uniform and glorot\n");
    check_statement("param a ~ normal(0.1)", "2:15 wrong arguments of initialiser 'normal'"
                                             " | write it as in '~ normal(std=0.02)'\n");
    check_statement("param a ~ uniform(1)", "2:15 wrong arguments of initialiser 'uniform'"
                                            " | write it as in '~ uniform(-0.1, 0.1)'\n");
}

static void odd_characters_and_numbers(void **state) {
    (void)state;
    check_statement("Y = a $ b", "2:11 unexpected character '$'\n");
    check_statement("Y = a @ b",
                    "2:11 there is no operator '@' | write einsum with the dims of each operand\n");
    check_statement("Y = a && b", "2:11 unexpected character '&&' | write 'and'\n");
    check_statement("Y = a \xE2\x88\x92 b",
                    "2:11 unexpected character '\xE2\x88\x92' | write '-'\n");
    check_statement("Y =\xC2\xA0"
                    "a",
                    "2:8 unexpected character U+00A0 | this is a no-break "
                    "space; write a plain one\n");
    check_statement("Y = a # \xC3\xA4\xFF\xFE", "2:15 byte 0xff is no UTF-8\n");
    check_statement("Y = a \xFF\xFE b", "2:11 unexpected byte 0xff\n");
    check_statement("Y = a \r b", "2:11 unexpected byte 0x0d\n");
    check_statement("Y = 12ab",
                    "2:9 '12ab' is not a number | a name begins with a letter, a number "
                    "is written in decimal\n");
    check_statement("Y = 1.2.3", "2:9 '1.2.3' is not a number\n");
    check_statement("Y = 1e+", "2:9 '1e+' is not a number | a name begins with a letter, a number "
                               "is written in decimal\n");
    check_statement("Y = 1e999", "2:9 number is too large (at most 1.7976931348623157e+308)\n");
    check_statement("Y = 9007199254740992", "");
    check_statement("Y = 9007199254740993", "2:9 number is too large (at most 9007199254740992)\n");
    check_statement("Y = 9007199254740994", "2:9 number is too large (at most 9007199254740992)\n");
    check_statement("Y = 1e-999", "2:9 number is too small (at least 5e-324)\n");
    check_statement("Y = \"a", "2:9 string is not closed on its line\n");
    check_statement("Y = \"a\"", "2:9 a string does not stand for a value | dims are names in "
                                 "brackets, not letters of a string\n");
}

static void brackets_are_mended(void **state) {
    (void)state;
    check_statement("Y = exp(X[n, d]\n    Z = X", "2:12 '(' is never closed | add ')' before it\n");
    check_statement("Y = exp(X[n, d", "2:14 '[' is never closed | add '])' before it\n");
    check_statement("Y = exp(X[n, d]))", "2:21 unmatched ')'\n");
    check_statement("Y = f(X[n, d, W[d, h])", "2:12 '[' is never closed | add ']'\n");
    check_statement("Y[n, d = exp(X[n, d])", "2:6 '[' is never closed | add ']'\n");
    check_statement("Y = X[n, d) + 3", "2:15 '[' is closed by ')' | write ']'\n");
    check_statement("Y = f(X[n, d), W[d])", "2:17 '[' is closed by ')' | write ']'\n");
    check_statement("Y = f(a(b, c)", "2:10 '(' is never closed | add ')' before it\n");
    check_statement("Y = X[n], d]", "2:16 unmatched ']'\n");
    check_statement("Y = f(X[(n, d])", "2:13 unexpected '('\n");
    check_errors("def F(X[n, d], M[m, d]:\n  return X\n",
                 "1:6 '(' is never closed | add ')' before ':'\n");
    check_errors("def F(X[n, d],\n   M[m, d]\n  Y[n] = M\n  return X\ndef G(X):\n  return\n",
                 "1:6 '(' is never closed | add ')' before it\n"
                 "6:9 expected an expression, found the end of the line | write what the def "
                 "gives: return Y[n, d]\n");
    check_errors("def F X[n, d]):\n  return X\n",
                 "1:5 a parameter list follows the name of a def\n");
    check_errors("def F(X[n, d]),\n  M[m]):\n  return X\n", "1:14 unmatched ')'\n");
    check_errors("dim n = (3\ndim m = 4 4\n",
                 "1:9 '(' is never closed | add ')' before it\n"
                 "2:11 expected ',' or the end of the line, found '4' | add ','\n");
    check_errors("dim n = (3 + [", "1:14 '[' is never closed | add '])'\n");
}

// What was mended is the program that was meant.
static void mended_brackets_lose_nothing(void **state) {
    (void)state;
    const char *text = "def F(X[n, d, M[m, d]:\n"
                       "  A = f(X[n, d, W[d, h])\n"
                       "  B[n, d = exp(X[n d)\n"
                       "  C = exp(X[n, d] # comment\n"
                       "  return C)\n";
    Parsed p = parse_bytes(text, strlen(text));
    assert_string_equal(p.printed, "def F(X[n, d], M[m, d]):\n"
                                   "    A = f(X[n, d], W[d, h])\n"
                                   "    B[n, d] = exp(X[n, d])\n"
                                   "    C = exp(X[n, d])\n"
                                   "    return C\n");
    parsed_free(&p);
}

static void parameter_lists_recover_at_commas(void **state) {
    (void)state;
    check_errors("def F(X[n d]\n  M[m], = Y[n, k], A[n], 3, Z):\n  return X\n",
                 "1:11 expected ',' before 'd' | add ','\n"
                 "2:3 expected ',' before 'M[m]' | add ','\n"
                 "2:9 expected a name, 'param' or ')', found '='\n"
                 "2:26 expected a name, 'param' or ')', found '3'\n");
}

static void indentation_is_checked(void **state) {
    (void)state;
    check_errors("def F(X):\n\tY = X\n\tZ = X\n\treturn Y\ndef G(X):\n \tY = X\n  return Y\n",
                 "2:1 tab in indentation | indent with spaces\n"
                 "6:1 tab in indentation | indent with spaces\n");
    check_errors("def F(X):\n    Y = X\n  Z = X\n  A = X\n    return X\n",
                 "3:3 indentation does not match any block | the lines of this block begin in "
                 "column 5\n");
    check_errors("def F(X):\n    Y = X\n      Z = X\n      A = X\n    return X\n",
                 "3:7 unexpected indentation | the lines of this block begin in column 5\n");
    check_errors("def F(X):\nY = X\nreturn Y\ndef G(X):\n  return X\n",
                 "2:1 expected an indented block | indent the lines of the body\n");
    check_errors("def F(X):\n  Y = X\nZ = X\nA = X\n  return A\n",
                 "3:1 statement is not indented | the lines of this block begin in column 3\n");
    check_errors("def F(X):\n  for a in b:\n  X = X\n  return X\n",
                 "3:3 expected an indented block | indent the lines of the body\n");
    check_errors("def F(X):\n\ndef G(X)\n", "1:5 def 'F' has no body\n3:5 def 'G' has no body\n");
    check_errors("def F(X):\n  for a in b:\n", "2:3 this block has no lines\n");
    check_errors("def F(X):\n  Y = X\n  def G(X):\n    return X\n",
                 "3:3 'def' inside another item | begin it in column 1\n");
    check_errors("  dim n\ndim m\ndef F(X):\n  return X\n",
                 "1:3 unexpected indentation | the first line begins in column 1\n");
    check_errors("def F(X): return X\ndef G(X):\n  return X\n",
                 "1:11 expected the end of the line, found 'return'"
                 " | write the body on lines of its own, indented\n");
}

static void expressions_over_lines_are_joined(void **state) {
    (void)state;
    const char *hint = " | put an expression over several lines in parentheses\n";
    Arena *arena = arena_new();
    const char *expected = arena_printf(arena,
                                        "3:5 this line carries on the one before%s"
                                        "5:3 this line carries on the one before%s",
                                        hint, hint);
    const char *text = "def F(X):\n  Y = X\n    + X\n  Z = X +\n  X\n  return Y\n";
    Parsed p = parse_bytes(text, strlen(text));
    assert_string_equal(p.errors, expected);
    assert_string_equal(p.printed, "def F(X):\n    Y = X + X\n    Z = X + X\n    return Y\n");
    parsed_free(&p);
    arena_free(arena);
    check_errors("dim a = 1,\n    b = 2\n",
                 "2:5 this line carries on the one before | begin it with 'dim' again\n");
    check_errors("def F(X):\n  Y = X + \\\n    X\n  return Y\n",
                 "2:11 unexpected character '\\' | put an expression that goes on over several "
                 "lines in parentheses\n");
}

static void items_are_told_from_statements(void **state) {
    (void)state;
    check_errors("deff F(X):\n  Y = X X\n",
                 "1:1 expected 'dim', 'param', 'def', 'optimizer' or 'import', found 'deff' | "
                 "did you mean 'def'?\n"
                 "2:9 expected an operator or the end of the line, found 'X' | '*' multiplies two "
                 "values, einsum(A[n, m], B[m, k] -> [n, k]) sums up products\n");
    check_errors("x = 3\ny = 4\ndim n\nz = f(5)\n",
                 "1:1 expected 'dim', 'param', 'def', 'optimizer' or 'import', found 'x' | "
                 "write 'dim x = 3'\n"
                 "4:1 expected 'dim', 'param', 'def', 'optimizer' or 'import', found 'z' | "
                 "statements belong in a def\n");
    check_errors("dim 3 = 4, n\ndim n = , m\nimport foo\n",
                 "1:5 expected a name, found '3'\n2:9 expected an expression, found ','\n"
                 "3:8 expected a string, found 'foo' | a path is written in double quotes\n");
}

// Whichever one token is left out of a program or written twice, there is one message at most.
static void one_slip_gives_one_message(void **state) {
    (void)state;
    const char *text = "dim n = 512, h = 12\n"
                       "dim m like n\n"
                       "\n"
                       "def Attention(\n"
                       "        X[n, d],  # comment\n"
                       "        M[m, d]: f32, param P[d, d_k, h],\n"
                       "        Q):\n"
                       "    W[n, m, h] = softmax(einsum(X[n, d], P[d, d_k, h]), reduced_dim=m)\n"
                       "    for layer in layers shared:\n"
                       "        X = X + f(norm(X)) as attend\n"
                       "    Y[n, d] = einsum(W[n, m, h], M[m, d] -> [n, d]) / sqrt(d_k)\n"
                       "    return Y[n, d]\n"
                       "\n"
                       "def Other(X[n, d], param b[d]):\n"
                       "    param W[d, f] ~ normal(std=1 / d), c[f] = 0\n"
                       "    Z[n, f] = where(X[n, d] <= 3, b[d], -inf) * (c[f] + 1)\n"
                       "    return Z[n, f]\n";
    check_errors(text, "");
    size_t length = strlen(text);
    Arena *arena = arena_new();
    for (size_t i = 0, end; i < length; i = end) {
        end = i + 1;
        if (text[i] == ' ' || text[i] == '\n' || text[i] == '#') {
            while (text[i] == '#' && text[end] != '\n')
                end++;
            continue;
        }
        size_t word =
            strspn(text + i, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        if (word)
            end = i + word;
        int token = (int)(end - i), before = (int)i;
        bool spaced = before > 0 && text[i - 1] == ' ' && text[end] == ' ';
        const char *without = arena_printf(arena, "%.*s%s", before, text, text + end + spaced);
        const char *twice =
            arena_printf(arena, "%.*s %.*s%s", before + token, text, token, text + i, text + end);
        const char *const slips[] = {without, twice};
        for (int k = 0; k < 2; k++) {
            Parsed p = parse_bytes(slips[k], strlen(slips[k]));
            uint32_t n = 0;
            for (const char *c = p.errors; *c; c++)
                n += *c == '\n';
            if (n > 1)
                fail_msg("%u messages:\n%s\nfor\n%s", n, p.errors, slips[k]);
            parsed_free(&p);
        }
    }
    arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_colon_is_told_at_its_place),
        cmocka_unit_test(what_is_lost_is_marked),
        cmocka_unit_test(statements_fail_alone),
        cmocka_unit_test(odd_characters_and_numbers),
        cmocka_unit_test(brackets_are_mended),
        cmocka_unit_test(mended_brackets_lose_nothing),
        cmocka_unit_test(parameter_lists_recover_at_commas),
        cmocka_unit_test(indentation_is_checked),
        cmocka_unit_test(expressions_over_lines_are_joined),
        cmocka_unit_test(items_are_told_from_statements),
        cmocka_unit_test(one_slip_gives_one_message),
    };
    return cmocka_run_group_tests_name("parse_errors", tests, NULL, NULL);
}
