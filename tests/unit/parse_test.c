// SPDX-License-Identifier: Apache-2.0
// Parsing: what is accepted and how it prints, every syntax mistake told once where it is, and
// inputs made to hurt. Golden files in tests/ast show the messages in full.
#include "support.h"

#include "ast/ast.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

// ---- helpers

typedef struct {
    Session *session;
    Program *program;
    char *printed; // the program as source text
    char *errors;  // "line:column message | hint\n" for each
} Parsed;

// Keeps the headings and hints of the printed diagnostics.
static char *short_errors(const Session *session) {
    char *text = NULL, *kept = NULL;
    size_t length = 0, kept_length = 0;
    FILE *out = open_memstream(&text, &length);
    diags_print(session->diags, out, DIAGS_TEXT, false);
    fclose(out);
    FILE *keep = open_memstream(&kept, &kept_length);
    const char *end = "";
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char *message = strstr(line, ": error: ");
        if (message && line[0] != ' ') {
            *message = '\0';
            const char *place = strchr(line, ':');
            fprintf(keep, "%s%s %s", end, place ? place + 1 : line, message + 9);
            end = "\n";
        } else if (!strncmp(line, "  hint: ", 8)) {
            fprintf(keep, " | %s", line + 8);
        }
    }
    fputs(end, keep);
    fclose(keep);
    free(text);
    return kept;
}

static Parsed parse_bytes(const char *text, size_t length) {
    Parsed p = {.session = session_new()};
    p.program = program_new(p.session->arena);
    ast_parse(p.session, p.program, sources_add(p.session->sources, "t.attn", text, length));
    Text printed = {.arena = p.session->arena};
    text_add(&printed, "");
    ast_print(p.program, &printed);
    p.printed = printed.at;
    p.errors = short_errors(p.session);
    return p;
}

static void parsed_free(Parsed *p) {
    free(p->errors);
    session_free(p->session);
}

// The text has no mistakes, prints as expected, and what is printed prints the same.
static void check_prints(const char *text, const char *expected) {
    Parsed p = parse_bytes(text, strlen(text));
    assert_string_equal(p.errors, "");
    assert_string_equal(p.printed, expected);
    Parsed again = parse_bytes(p.printed, strlen(p.printed));
    assert_string_equal(again.errors, "");
    assert_string_equal(again.printed, expected);
    parsed_free(&again);
    parsed_free(&p);
}

static void check_errors(const char *text, const char *expected) {
    Parsed p = parse_bytes(text, strlen(text));
    assert_string_equal(p.errors, expected);
    parsed_free(&p);
}

// One statement of a def, with its errors; lines are counted from the statement.
static void check_statement(const char *statement, const char *expected) {
    Arena *arena = arena_new();
    const char *text =
        arena_printf(arena, "def F(X): # comment\n    %s\n    return X\n", statement);
    check_errors(text, expected);
    arena_free(arena);
}

static void check_expr(const char *text, const char *expected) {
    Arena *arena = arena_new();
    check_prints(arena_printf(arena, "def F(X):\n  Y = %s\n", text),
                 arena_printf(arena, "def F(X):\n    Y = %s\n", expected));
    arena_free(arena);
}

static void count_lines(const char *text, uint32_t expected) {
    uint32_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    assert_int_equal(n, expected);
}

// ---- what is accepted

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

// ---- mistakes

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
    check_statement("Y = foo X", "2:13 expected an operator or the end of the line, found 'X'\n");
    check_statement("Y[n] 1 + 2", "2:10 expected '=', found '1'\n");
    check_statement("retrun X", "2:12 expected '=', found 'X' | did you mean 'return'?\n");
    check_statement("foo(X)", "2:8 expected '=', found '(' | give the result a name: Y = ...\n");
    check_statement(
        "Y = a = b",
        "2:11 expected an operator or the end of the line, found '=' | '==' compares\n");
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
                    "2:11 expected '=', found 'a' | a loop runs over a dim: for layer "
                    "in layers\n");
    check_statement("Y[0] = X",
                    "2:7 expected a name or ']', found '0' | brackets hold the names of "
                    "dims\n");
    check_statement("Y = a if b", "2:11 expected an operator or the end of the line, found 'if' | "
                                  "there is no 'if': where(condition, a, b) chooses\n");
    check_statement("\"\"\"text\"\"\"", "2:5 expected a statement, found the string \"\" | "
                                        "comments begin with '#'\n");
    check_statement("Y: i31 = 3", "2:8 unknown element type 'i31' | there are f32, f64, f16, bf16, "
                                  "i32, i64, bool\n");
    check_statement("Y: f32: f32 = 3", "2:13 'Y' has two element types\n");
    check_statement("param a ~ normall(std=1)",
                    "2:15 unknown initialiser 'normall' | did you mean 'normal'?\n");
    check_statement("param a ~ ones", "2:15 unknown initialiser 'ones' | there are normal, "
                                      "truncated_normal, uniform and glorot\n");
    check_statement("param a ~ normal(0.1)", "2:15 wrong arguments of initialiser 'normal'"
                                             " | write it as in '~ normal(std=0.02)'\n");
    check_statement("param a ~ uniform(1)", "2:15 wrong arguments of initialiser 'uniform'"
                                            " | write it as in '~ uniform(-0.1, 0.1)'\n");
}

static void odd_characters_and_numbers(void **state) {
    (void)state;
    check_statement("Y = a $ b", "2:11 unexpected character '$'\n");
    check_statement("Y = a @ b",
                    "2:11 unexpected character '@' | write einsum with the dims of each operand\n");
    check_statement("Y = a && b", "2:11 unexpected character '&&' | write 'and'\n");
    check_statement("Y = a \xE2\x88\x92 b",
                    "2:11 unexpected character '\xE2\x88\x92' | write '-'\n");
    check_statement("Y =\xC2\xA0"
                    "a",
                    "2:8 unexpected character '\xC2\xA0' | this is a no-break "
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
    check_statement("Y = 9007199254740993", "");
    check_statement("Y = 9007199254740994", "2:9 number is too large (at most 9007199254740992)\n");
    check_statement("Y = 1e-999", "2:9 number is too small (at least 5e-324)\n");
    check_statement("Y = \"a", "2:9 string is not closed on its line\n");
    check_statement("Y = \"a\"", "2:9 expected an expression, found the string \"a\"\n");
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
                 "6:9 expected an expression, found the end of the line\n");
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
                 "1:1 expected 'dim', 'param', 'def' or 'import', found 'deff' | did you mean "
                 "'def'?\n2:9 expected an operator or the end of the line, found 'X'\n");
    check_errors("x = 3\ny = 4\ndim n\nz = 5\n",
                 "1:1 expected 'dim', 'param', 'def' or 'import', found 'x' | statements belong in "
                 "a def\n4:1 expected 'dim', 'param', 'def' or 'import', found 'z' | statements "
                 "belong in a def\n");
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

// ---- inputs made to hurt

static char *repeated(Arena *arena, const char *before, const char *middle, size_t times,
                      const char *after) {
    Text text = {.arena = arena};
    text_add(&text, before);
    for (size_t i = 0; i < times; i++)
        text_add(&text, middle);
    text_add(&text, after);
    return text.at;
}

static void deep_nesting_is_refused(void **state) {
    (void)state;
    Arena *arena = arena_new();
    struct {
        const char *before, *middle, *after, *expected;
    } cases[] = {
        {"def F(X):\n  Y = ", "(", "\n  return X\n", "2:207 brackets nested more than 200 deep\n"},
        {"def F(X):\n  Y = ", "f(", "\n  return X\n", "brackets nested more than 200 deep"},
        {"def F(X):\n  Y = X", "[", "\n  return X\n", "2:8 '[' is never closed | add ']'\n"},
        {"def F(X):\n  Y = ", "-", "X\n  return X\n",
         "2:207 operators nested more than 200 deep\n"},
        {"def F(X):\n  Y = ", "not ", "X\n  return X\n", "operators nested more than 200 deep\n"},
        {"def F(X):\n  Y = X", " ** X", "\n  return X\n", "operators nested more than 200 deep\n"},
        {"def F(X):\n  Y = X", " + X", "\n  return X\n",
         "2:7 expression nested more than 500 deep | give parts of it names of their own\n"},
        {"def F(X):\n  Y = X", " + not X", "\n  return X\n", "nested more than"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *text = repeated(arena, cases[i].before, cases[i].middle, 20000, cases[i].after);
        Parsed p = parse_bytes(text, strlen(text));
        if (!strstr(p.errors, cases[i].expected))
            fail_msg("\"%s\" lacks \"%s\"", p.errors, cases[i].expected);
        assert_non_null(strstr(p.printed, "return X"));
        parsed_free(&p);
    }
    arena_free(arena);
}

static void a_tower_of_operators_is_told_once(void **state) {
    (void)state;
    Arena *arena = arena_new();
    check_errors(repeated(arena, "def F(X):\n  Y = ", "-", 1000, "X - -X\n  return X\n"),
                 "2:207 operators nested more than 200 deep\n");
    arena_free(arena);
}

// Each of these once took time that grew with the square of the length.
static void long_inputs_take_linear_time(void **state) {
    (void)state;
    Arena *arena = arena_new();
    static const struct {
        const char *before, *middle, *after;
    } cases[] = {
        {"", "\x01\xFF", ""},
        {"def F(X):\n  Y = ", ")]", ""},
        {"def F(X):\n  Y = ", "([)]", ""},
        {"def F(X):\n  Y = X[", "+ ", "])"},
        {"", "x = 3\n", ""},
        {"def F(", "X[n d]\n", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = repeated(arena, cases[i].before, cases[i].middle, 200000, cases[i].after);
        size_t length = strlen(text);
        for (size_t k = 0; i == 0 && k < length; k += 2)
            text[k] = '\0';
        clock_t start = clock();
        Parsed p = parse_bytes(text, length);
        assert_true(clock() - start < 20 * CLOCKS_PER_SEC);
        assert_true(strlen(p.errors) > 0);
        parsed_free(&p);
    }
    arena_free(arena);
}

static void limits_are_allowed(void **state) {
    (void)state;
    Arena *arena = arena_new();
    const char *open = repeated(arena, "def F(X):\n  Y = ", "(", 200, "X");
    check_errors(repeated(arena, open, ")", 200, "\n  return X\n"), "");
    check_errors(repeated(arena, "def F(X):\n  Y = ", "-", 200, "X\n  return X\n"), "");
    check_errors(repeated(arena, "def F(X):\n  Y = X", " + X", 500, "\n  return X\n"), "");
    check_errors(repeated(arena, "def F(X):\n  Y = f(a", ", a", 100000, ")\n  return X\n"), "");
    check_errors(repeated(arena, "dim ", "x", 255, "\n"), "");
    check_errors(repeated(arena, "dim ", "x", 256, "\n"),
                 "1:5 a name of 256 characters; at most 255 are allowed\n");
    arena_free(arena);
}

static void blocks_have_a_limit(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Text text = {.arena = arena};
    text_add(&text, "def F(X):\n");
    for (int i = 1; i < 150; i++)
        text_printf(&text, "%*sfor a in b:\n", i, "");
    text_printf(&text, "%*sX = X\n return X\n", 150, "");
    Parsed p = parse_bytes(text.at, text.length);
    assert_non_null(strstr(p.errors, "102:102 blocks nested more than 100 deep\n"));
    parsed_free(&p);
    arena_free(arena);
}

static void errors_stop_being_told(void **state) {
    (void)state;
    Arena *arena = arena_new();
    const char *text = repeated(arena, "def F(X):\n", "  Y = X X\n", 5000, "");
    Parsed p = parse_bytes(text, strlen(text));
    count_lines(p.errors, 101);
    assert_non_null(strstr(p.errors, "too many errors; the rest of this file is not reported\n"));
    parsed_free(&p);
    arena_free(arena);
}

static void any_bytes_are_handled(void **state) {
    (void)state;
    check_errors("\x01\x02", "1:1 unexpected byte 0x01\n");
    Parsed p = parse_bytes("dim n\0m\n", 8);
    assert_string_equal(p.errors, "1:6 unexpected byte 0x00\n");
    parsed_free(&p);
    p = parse_bytes("import \"a\0b\"\n", 13);
    assert_string_equal(p.errors, "1:8 a zero byte in a string\n");
    parsed_free(&p);
    Arena *arena = arena_new();
    char *line = repeated(arena, "def F(X):\n  Y = \"", "x", 1 << 20, "");
    p = parse_bytes(line, strlen(line));
    assert_string_equal(p.errors, "2:7 string is not closed on its line\n");
    parsed_free(&p);
    uint64_t seed = 1;
    for (int round = 0; round < 200; round++) {
        char bytes[300];
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (char)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 56);
        p = parse_bytes(bytes, sizeof bytes);
        assert_true(strlen(p.errors) > 0);
        parsed_free(&p);
    }
    arena_free(arena);
}

// Every beginning of a program, as an editor sees it.
static void every_prefix_parses(void **state) {
    (void)state;
    const char *text = "dim n = 2\ndef F(X[n, d], param W[d]: f32):\n  for a in b shared:\n"
                       "    X[n] = f(X[n, d], k=(1, 2)) as l\n  return X ** -3, \"s\"\n";
    for (size_t length = 0; length <= strlen(text); length++) {
        Parsed p = parse_bytes(text, length);
        parsed_free(&p);
    }
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
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(a_tower_of_operators_is_told_once),
        cmocka_unit_test(long_inputs_take_linear_time),
        cmocka_unit_test(limits_are_allowed),
        cmocka_unit_test(blocks_have_a_limit),
        cmocka_unit_test(errors_stop_being_told),
        cmocka_unit_test(any_bytes_are_handled),
        cmocka_unit_test(every_prefix_parses),
    };
    return cmocka_run_group_tests_name("parse", tests, NULL, NULL);
}
