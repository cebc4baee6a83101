// SPDX-License-Identifier: Apache-2.0
// What resolution leaves in the tree: dims, bindings, types and extents that later levels read. The
// messages are tested in tests/diag.
#include "ast/ast.h"
#include "support.h"

#include <math.h>
#include <string.h>

static Session *session;
static Program *program;

static bool resolve_text(const char *text) {
    program = program_new(session->arena);
    ast_parse(session, program, sources_add(session->sources, "test.attn", text, strlen(text)));
    ast_add_prelude(session, program);
    return ast_resolve(session, program);
}

static void set_extent(const char *dim, int64_t extent) {
    vec_push(session->arena, &session->overrides,
             (DimExtent){names_find(session->names, dim), extent});
}

static int64_t extent_of(const char *dim) {
    return program_extent(session, program, names_find(session->names, dim));
}

static Def *def_of(const char *name) {
    Def *def = program_find_def(program, names_find(session->names, name));
    assert_non_null(def);
    return def;
}

// "n d_k" for [n, d_k]
static void assert_dims(const NameList *dims, const char *expected) {
    Text text = {.arena = session->arena};
    text_add(&text, "");
    for (uint32_t i = 0; i < dims->count; i++)
        text_printf(&text, "%s%s", i ? " " : "", dims->at[i]);
    assert_string_equal(text.at, expected);
}

static void assert_binding(const Expr *expr, const char *expected) {
    Text text = {.arena = session->arena};
    text_add(&text, "");
    for (uint32_t i = 0; i < expr->binding.count; i++)
        text_printf(&text, "%s%s=%s", i ? " " : "", expr->binding.at[i].formal,
                    expr->binding.at[i].actual);
    assert_string_equal(text.at, expected);
}

static Stmt *stmt_of(const char *def, uint32_t i) {
    Def *found = def_of(def);
    assert_true(i < found->body.count);
    return found->body.at[i];
}

static int set_up(void **state) {
    (void)state;
    session = session_new();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    session_free(session);
    return 0;
}

// ---- extents ------------------------------------------------------------------------------------

static void extents_follow_declarations(void **state) {
    (void)state;
    assert_true(resolve_text("dim d_k = d / h, d = 768, h = 12, x = (d - 3) // 2 % 100 * 2 ** 3\n"
                             "dim m like n, s like m, t = u * 2\n"
                             "def F(X[n, u]):\n    return X\n"));
    assert_int_equal(extent_of("d_k"), 64);
    assert_int_equal(extent_of("x"), 382 % 100 * 8);
    assert_int_equal(extent_of("m"), -1);
    assert_int_equal(extent_of("t"), -1);
    assert_int_equal(extent_of("nobody"), -1);
    assert_int_equal(program_find_dim(program, names_find(session->names, "d_k"))->value, 64);
    assert_null(program_find_dim(program, names_find(session->names, "n")));
}

static void overrides_replace_and_spread(void **state) {
    (void)state;
    set_extent("h", 8);
    set_extent("s", 99);
    set_extent("free", 7);
    assert_true(resolve_text("dim d = 768, h = 12, d_k = d / h\n"
                             "dim m like n, s like m, n = 5\n"
                             "def F(X[n, free]):\n    return X\n"));
    assert_int_equal(extent_of("d_k"), 96);
    assert_int_equal(extent_of("n"), 99); // one class, one extent
    assert_int_equal(extent_of("m"), 99);
    assert_int_equal(extent_of("s"), 99);
    assert_int_equal(extent_of("free"), 7);
    assert_int_equal(program_find_dim(program, names_find(session->names, "n"))->value, 99);
}

static void classes_are_transitive(void **state) {
    (void)state;
    assert_true(resolve_text("dim m like n, s like m, q like r\ndef F(X[n]):\n    return X[s]\n"));
    const char *alike[][2] = {{"n", "s"}, {"m", "s"}, {"n", "n"}, {"q", "r"}};
    for (int i = 0; i < 4; i++)
        assert_true(program_dims_alike(program, names_find(session->names, alike[i][0]),
                                       names_find(session->names, alike[i][1])));
    assert_false(program_dims_alike(program, names_find(session->names, "n"),
                                    names_find(session->names, "r")));
}

static void extents_must_not_be_negative(void **state) {
    (void)state;
    set_extent("n", -1);
    assert_false(resolve_text("def F(X[n]):\n    return X\n"));
    assert_int_equal(diags_errors(session->diags), 1);
}

static void an_extent_of_zero_is_of_run_time(void **state) {
    (void)state;
    set_extent("n", 0);
    assert_true(resolve_text("dim m = n / 2\ndef F(X[n, m]):\n    return X\n"));
    assert_int_equal(program_find_dim(program, names_find(session->names, "m"))->value, -1);
}

static void chains_are_as_long_as_a_file(void **state) {
    (void)state;
    Text text = {.arena = session->arena};
    for (int i = 0; i < 20000; i++)
        text_printf(&text, "dim a%d = a%d + 1\ndim b%d like b%d\n", i, i + 1, i, i + 1);
    text_add(&text, "dim a20000 = 1, b20000 = 3\ndef F(X[b0]):\n    return X[b10000]\n");
    assert_true(resolve_text(text.at));
    assert_int_equal(extent_of("a0"), 20001);
    assert_int_equal(extent_of("b0"), 3);
}

// ---- numbers ------------------------------------------------------------------------------------

static void numbers_are_evaluated(void **state) {
    (void)state;
    assert_true(resolve_text(
        "dim d = 64, layers = 3\n"
        "def F(X[n, d]):\n"
        "    for i in layers:\n"
        "        X = X * (sqrt(d) - 2 ** -1 * max(i, 2, -i) + where(i == 2, 100, 7 // 2 % 2))\n"
        "        X = X / n\n"
        "    return X\n"));
    const Stmt *loop = stmt_of("F", 0);
    const Expr *number = loop->body.at[0]->value->args.at[1];
    Name i = names_find(session->names, "i");
    assert_true(number->is_literal);
    double value = 0;
    assert_false(expr_evaluate(session, program, number, NULL, 0, &value));
    LoopValue loop_value = {i, 1};
    assert_true(expr_evaluate(session, program, number, &loop_value, 1, &value));
    assert_true(value == 8 - 0.5 * 2 + 1);
    loop_value.value = 2;
    assert_true(expr_evaluate(session, program, number, &loop_value, 1, &value));
    assert_true(value == 8 - 0.5 * 2 + 100);
    // Extents of the place where a def is inlined go before the program's.
    LoopValue inlined[] = {{i, 1}, {names_find(session->names, "d"), 4}};
    assert_true(expr_evaluate(session, program, number, inlined, 2, &value));
    assert_true(value == 2 - 0.5 * 2 + 1);
    const Expr *dynamic = loop->body.at[1]->value->args.at[1];
    assert_false(expr_evaluate(session, program, dynamic, NULL, 0, &value));
}

static double number_of(const char *text) {
    const char *file = arena_printf(session->arena, "param P[d] = %s\n", text);
    double value = NAN;
    assert_true(resolve_text(file));
    assert_true(
        expr_evaluate(session, program, program->params.at[0]->init_args[0], NULL, 0, &value));
    return value;
}

static void functions_of_numbers(void **state) {
    (void)state;
    assert_true(number_of("abs(-3) + floor(2.7) + relu(-1) + rsqrt(4)") == 5.5);
    assert_true(number_of("exp2(-3) + exp2(0.5) ** 2") == 0.125 + sqrt(2) * sqrt(2));
    assert_true(number_of("-7 // 2") == -4);
    assert_true(number_of("-7 % 3") == 2);
    assert_true(number_of("2 ** 3 ** 2") == 512);
    assert_true(fabs(number_of("exp(1) - log(2) + sin(pi) + cos(0) + tanh(0.5) + erf(0.25)") -
                     (exp(1) - log(2) + 1 + tanh(0.5) + erf(0.25))) < 1e-12);
    assert_true(fabs(number_of("sigmoid(0.5) + silu(2) + softplus(-3) + gelu(1)") -
                     (1 / (1 + exp(-0.5)) + 2 / (1 + exp(-2)) + log1p(exp(-3)) +
                      0.5 * (1 + erf(sqrt(0.5))))) < 1e-12);
    assert_true(number_of("min(3, 2 / 4, 1)") == 0.5);
    assert_true(number_of("exp(-inf)") == 0);
    assert_true(number_of("where(1 < 2 and not 2 <= 1 or 3 != 3, 4, 5)") == 4);
    assert_true(number_of("where(2 > 1 and 1 >= 2, 4, 5)") == 5);
}

// ---- references and dims ------------------------------------------------------------------------

static void parameters_without_brackets(void **state) {
    (void)state;
    assert_true(resolve_text("def F(X, M, P):\n"
                             "    Y[n, k] = einsum(X[n, d], P[d, k])\n"
                             "    return G(Y, M)\n"
                             "def G(A[t, e], B[s, e]):\n"
                             "    return einsum(A[t, e], B[s, e] -> [t, s])\n"));
    const Def *def = def_of("F");
    assert_dims(&def->params.at[0].result, "n d");
    assert_dims(&def->params.at[1].result, "s k"); // as in G, with e bound to k by Y
    assert_dims(&def->params.at[2].result, "d k");
    assert_true(def->ok);
}

static void references_read_over_alike_dims(void **state) {
    (void)state;
    assert_true(resolve_text("dim m like n, e like d\n"
                             "def F(X[n, d, n2]):\n"
                             "    A[m, n2, d] = X[n2, m, d]\n"
                             "    B[m, n2, e] = X[e, m, n2]\n"
                             "    return A, B\n"));
    const Expr *a = stmt_of("F", 0)->value, *b = stmt_of("F", 1)->value;
    assert_dims(&a->result, "n2 m d");
    assert_binding(a, "n=m");
    assert_binding(b, "d=e n=m");
    assert_dims(&stmt_of("F", 1)->target.result, "m n2 e");
}

static void order_of_broadcast_dims(void **state) {
    (void)state;
    assert_true(resolve_text("def F(X[n, d], b[d], c[h]):\n"
                             "    A = b + X\n"
                             "    B = c * X\n"
                             "    C = where(index(d) < index(n), X, 0)\n"
                             "    return A, B, C\n"));
    assert_dims(&stmt_of("F", 0)->target.result, "n d"); // that of the operand with all dims
    assert_dims(&stmt_of("F", 1)->target.result, "h n d");
    assert_dims(&stmt_of("F", 2)->target.result, "n d");
}

static void moved_dims_are_recorded(void **state) {
    (void)state;
    assert_true(resolve_text("def F(X[n, d], E[v, d], ids[b]: i32):\n"
                             "    A[n, part] = slice(X, d, 1, 3)\n"
                             "    B[whole, n] = concat(A, X, dim=whole)\n"
                             "    C = gather(E, ids, dim=v)\n"
                             "    D = one_hot(ids, v)\n"
                             "    G = logsumexp(X, reduced_dim=(d, n))\n"
                             "    return A, B, C, D, G\n"));
    const char *reduced[] = {"d part", "whole part d", "v", "v", "d n"};
    const char *dims[] = {"n part", "whole n", "b d", "b v", ""};
    for (uint32_t i = 0; i < 5; i++) {
        assert_dims(&stmt_of("F", i)->value->reduced, reduced[i]);
        assert_dims(&stmt_of("F", i)->target.result, dims[i]);
    }
    assert_int_equal(stmt_of("F", 3)->value->elem, ELEM_F32);
}

// ---- calls --------------------------------------------------------------------------------------

static void calls_bind_by_place(void **state) {
    (void)state;
    assert_true(resolve_text("def G(A[t, e], B[s, e]):\n"
                             "    param W[e, f] ~ glorot\n"
                             "    return einsum(A[t, e], B[s, e], W[e, f] -> [s, f, t])\n"
                             "def F(X[b, g, n, d], M[b, m, d]):\n"
                             "    return G(X[b, g, n, d], M[b, m, d])\n"));
    const Expr *call = stmt_of("F", 0)->results.at[0];
    assert_ptr_equal(call->callee, def_of("G"));
    assert_binding(call, "t=n e=d s=m");
    assert_dims(&call->mapped, "b g");
    assert_dims(&call->result, "b g m f n");
    assert_dims(&def_of("F")->result_dims.at[0], "b g m f n");
    assert_dims(&def_of("F")->dims, "b g n d m f");
    assert_true(def_of("F")->owns_params && def_of("G")->owns_params);
    assert_string_equal(def_of("F")->result_names.at[0], "result");
}

static void calls_bind_by_hand_then_by_name_then_by_place(void **state) {
    (void)state;
    assert_true(resolve_text("def G(A[n, d], s[d]):\n    return A * s\n"
                             "def F(X[d, b, n], s[d], Y[h, n, k], t[k], Z[n, u], v[u]):\n"
                             "    return G(X, s), G(Y, t, d=k), G(Z, v)\n"));
    const ExprList *calls = &stmt_of("F", 0)->results;
    assert_binding(calls->at[0], "n=n d=d");
    assert_dims(&calls->at[0]->mapped, "b");
    assert_binding(calls->at[1], "d=k n=n");
    assert_dims(&calls->at[1]->mapped, "h");
    assert_binding(calls->at[2], "n=n d=u");
}

static void own_dims_follow_the_dims_they_are_like(void **state) {
    (void)state;
    assert_true(resolve_text("dim m like n, t = 5\n"
                             "def G(X[n, d]):\n    return einsum(X[n, d], X[m, d] -> [n, m])\n"
                             "def F(X[t, d]):\n    return G(X)\n"
                             "def H(X[u, d]):\n    return F(X)\n"));
    assert_binding(stmt_of("F", 0)->results.at[0], "n=t d=d m=m_t");
    assert_dims(&def_of("F")->result_dims.at[0], "t m_t");
    assert_int_equal(extent_of("m_t"), 5);
    assert_dims(&def_of("H")->result_dims.at[0], "u m_t_u");
    assert_int_equal(extent_of("m_t_u"), -1);
}

static void a_programs_def_replaces_the_preludes(void **state) {
    (void)state;
    assert_true(resolve_text("def standardize(x[d]):\n    return x * 2\n"
                             "def F(X[n, d]):\n    return standardize(X) + norm(X)\n"));
    const Expr *sum = stmt_of("F", 0)->results.at[0];
    assert_false(sum->args.at[0]->callee->from_prelude);
    const Def *norm = sum->args.at[1]->callee;
    assert_true(norm->from_prelude);
    const Expr *product = norm->body.at[norm->body.count - 1]->results.at[0]->args.at[0];
    assert_true(product->args.at[0]->callee->from_prelude); // it keeps its own helpers
}

static void calls_nest_as_deep_as_a_file_has_defs(void **state) {
    (void)state;
    Text text = {.arena = session->arena};
    for (int i = 0; i < 5000; i++)
        text_printf(&text, "def F%d(X[n]):\n    return F%d(X)\n", i, i + 1);
    text_add(&text, "def F5000(X[n]):\n    return X\n");
    assert_true(resolve_text(text.at));
    assert_dims(&def_of("F0")->result_dims.at[0], "n");
}

// ---- element types ------------------------------------------------------------------------------

static void types_meet_symmetrically(void **state) {
    (void)state;
    for (Elem a = 0; a < N_ELEM; a++)
        for (Elem b = 0; b < N_ELEM; b++) {
            assert_int_equal(elem_promote(a, b), elem_promote(b, a));
            assert_int_equal(elem_promote(a, a), a);
        }
    assert_int_equal(elem_promote(ELEM_F16, ELEM_BF16), ELEM_F32);
    assert_int_equal(elem_promote(ELEM_I64, ELEM_BF16), ELEM_BF16);
    assert_int_equal(elem_promote(ELEM_I32, ELEM_I64), ELEM_I64);
    assert_int_equal(elem_promote(ELEM_F64, ELEM_F32), ELEM_F64);
}

static void literals_adapt(void **state) {
    (void)state;
    assert_true(resolve_text("def F(a[n]: bf16, i[n]: i32):\n"
                             "    A = a * 2 + n\n"
                             "    B = i * 2\n"
                             "    C = i * 2.5\n"
                             "    D = i < 3\n"
                             "    E[]: bf16 = 2 / 3\n"
                             "    return A, B, C, D, E\n"));
    const Elem expected[] = {ELEM_BF16, ELEM_I32, ELEM_F32, ELEM_BOOL, ELEM_BF16};
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(stmt_of("F", i)->target.elem, expected[i]);
    assert_true(stmt_of("F", 4)->value->is_literal);
    const Expr *comparison = stmt_of("F", 3)->value;
    assert_int_equal(expr_common_elem(comparison->args.at[0], comparison->args.at[1]), ELEM_I32);
}

// ---- mistakes -----------------------------------------------------------------------------------

static void a_mistake_poisons_what_depends_on_it(void **state) {
    (void)state;
    assert_false(resolve_text("def F(X[n, d]):\n"
                              "    A = X + Z\n"
                              "    B[n, d] = A * 2\n"
                              "    C = B + softmax(A, reduced_dim=q) + G(A, B)\n"
                              "    return C\n"
                              "def G(x[], y[]):\n    return x\n"));
    assert_int_equal(diags_errors(session->diags), 1);
    const Def *def = def_of("F");
    assert_false(def->ok);
    assert_int_equal(def->result_dims.count, 0);
    assert_false(stmt_of("F", 2)->value->ok);
    assert_true(def_of("G")->ok);
}

static void prelude_has_no_mistakes(void **state) {
    (void)state;
    assert_true(resolve_text("def F(X[n]):\n    return X\n"));
    for (uint32_t i = 0; i < program->defs.count; i++)
        assert_true(program->defs.at[i]->ok);
    assert_true(program->defs.count > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
        TEST(extents_follow_declarations),
        TEST(overrides_replace_and_spread),
        TEST(classes_are_transitive),
        TEST(extents_must_not_be_negative),
        TEST(an_extent_of_zero_is_of_run_time),
        TEST(chains_are_as_long_as_a_file),
        TEST(numbers_are_evaluated),
        TEST(functions_of_numbers),
        TEST(parameters_without_brackets),
        TEST(references_read_over_alike_dims),
        TEST(order_of_broadcast_dims),
        TEST(moved_dims_are_recorded),
        TEST(calls_bind_by_place),
        TEST(calls_bind_by_hand_then_by_name_then_by_place),
        TEST(own_dims_follow_the_dims_they_are_like),
        TEST(a_programs_def_replaces_the_preludes),
        TEST(calls_nest_as_deep_as_a_file_has_defs),
        TEST(types_meet_symmetrically),
        TEST(literals_adapt),
        TEST(a_mistake_poisons_what_depends_on_it),
        TEST(prelude_has_no_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
