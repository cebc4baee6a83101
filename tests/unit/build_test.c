// SPDX-License-Identifier: Apache-2.0
// Graphs from programs: calls, loops, names, options, what only a call can show; and the round trip
// through text.
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

static Name name_of(Session *session, const char *text) {
    return names_find(session->names, text);
}

// ---- building ----------------------------------------------------------------------------------

typedef struct {
    const char *entry;
    const char *map_dim, *mapped;  // --map map_dim=mapped
    const char *inner_dim, *inner; // a second --map
    const char *data;              // --data
} BuildCase;

static void add_map(Session *session, EntryOptions *entry, const char *dim, const char *arg) {
    EntryMap map = {.dim = name_of(session, dim)};
    vec_push(session->arena, &map.args, name_of(session, arg));
    vec_push(session->arena, &entry->maps, map);
}

// The graph of a program's text; NULL after diagnostics.
static Graph *build(Session *session, const char *text, BuildCase options) {
    uint32_t file = sources_add(session->sources, "test.attn", text, strlen(text));
    Program *program = program_new(session->arena);
    ast_parse(session, program, file);
    ast_add_prelude(session, program);
    if (!ast_resolve(session, program))
        return NULL;
    EntryOptions entry = {0};
    if (options.entry)
        entry.entry = name_of(session, options.entry);
    if (options.data)
        vec_push(session->arena, &session->data, name_of(session, options.data));
    if (options.map_dim)
        add_map(session, &entry, options.map_dim, options.mapped);
    if (options.inner_dim)
        add_map(session, &entry, options.inner_dim, options.inner);
    Graph *graph = graph_build(session, program, &entry);
    if (graph)
        graph_verify(graph, "build");
    return graph;
}

static char *diagnostics(Session *session) {
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    diags_print(session->diags, stream, DIAGS_TEXT, false);
    fclose(stream);
    return text;
}

static Graph *build_fine(Session *session, const char *text, BuildCase options) {
    Graph *graph = build(session, text, options);
    if (!graph) {
        char *why = diagnostics(session);
        fail_msg("%s", why);
    }
    return graph;
}

// The printed graph, which has to read `want`.
static void expect_text(const char *source, BuildCase options, const char *want) {
    Session *session = session_new();
    Text text = {.arena = session->arena};
    graph_print(build_fine(session, source, options), &text);
    assert_string_equal(text.at, want);
    session_free(session);
}

static void expect_error(const char *source, BuildCase options, const char *part) {
    Session *session = session_new();
    assert_null(build(session, source, options));
    char *have = diagnostics(session);
    if (!strstr(have, part))
        fail_msg("said \"%s\", expected \"%s\"", have, part);
    free(have);
    session_free(session);
}

static void test_call_binds_dims_by_place(void **state) {
    (void)state;
    expect_text("def Inner(A[n, d], W[d]):\n"
                "    S[n] = einsum(A[n, d], W[d])\n"
                "    return S[n]\n"
                "def Main(X[b, t, d], V[d]):\n"
                "    Y[b, t] = Inner(X[b, t, d], V)\n"
                "    return Y[b, t]\n",
                (BuildCase){0},
                "def Main(\n"
                "        X[b, t, d],\n"
                "        V[d]):\n"
                "    Y[b, t] = einsum(X[b, t, d], V[d])\n"
                "    return Y[b, t]\n");
}

// A dim of the callee that is like a bound one follows it.
static void test_own_dim_follows_its_class(void **state) {
    (void)state;
    expect_text("dim m like n\n"
                "def Gram(A[n, d]):\n"
                "    return einsum(A[n, d], A[m, d] -> [n, m])\n"
                "def Main(X[t, d]):\n"
                "    Y[t] = sum(Gram(X), reduced_dim=m_t)\n"
                "    return Y[t]\n"
                "dim m_t like t\n",
                (BuildCase){0},
                "dim m_t like t\n"
                "def Main(\n"
                "        X[t, d]):\n"
                "    t1[m_t, d] = X[m_t, d]\n"
                "    t2[t, m_t] = einsum(X[t, d], t1[m_t, d])\n"
                "    Y[t] = sum(t2[t, m_t], reduced_dim=m_t)\n"
                "    return Y[t]\n");
}

static void test_extents_fold_where_the_call_knows_them(void **state) {
    (void)state;
    expect_text("dim d = 4, e = 16\n"
                "def Scale(A[n, d]):\n"
                "    return A[n, d] / sqrt(d)\n"
                "def Main(X[n, e], Y[n, d], Z[n, k]):\n"
                "    P[n, e] = Scale(X)\n"
                "    Q[n, d] = Scale(Y)\n"
                "    R[n, k] = Scale(Z)\n"
                "    return P[n, e], Q[n, d], R[n, k]\n",
                (BuildCase){0},
                "dim e = 16\n"
                "dim d = 4\n"
                "def Main(\n"
                "        X[n, e],\n"
                "        Y[n, d],\n"
                "        Z[n, k]):\n"
                "    P[n, e] = X[n, e] / 4\n"
                "    Q[n, d] = Y[n, d] / 2\n"
                "    t1 = f32(i64(k))\n"
                "    t2 = sqrt(t1)\n"
                "    R[n, k] = Z[n, k] / t2\n"
                "    return P[n, e], Q[n, d], R[n, k]\n");
}

static void test_names_of_trained_tensors(void **state) {
    (void)state;
    Session *session = session_new();
    Graph *graph = build_fine(session,
                              "dim layers = 2, d = 4\n"
                              "param scale[d]\n"
                              "def Unit(X[n, d]):\n"
                              "    param W[d]\n"
                              "    return X[n, d] * W[d] * scale[d]\n"
                              "def Main(X[n, d]):\n"
                              "    for layer in layers:\n"
                              "        X = Unit(Unit(X) as unit)\n"
                              "        X = Unit(Unit(X))\n"
                              "    for block in layers shared:\n"
                              "        X = Unit(X)\n"
                              "    param W[d]\n"
                              "    return X[n, d] + W[d]\n",
                              (BuildCase){0});
    static const char *const names[] = {
        "X",
        "layer.0.unit.W",
        "scale",
        "layer.0.Unit.W",
        "layer.0.Unit_1.W",
        "layer.0.Unit_2.W",
        "layer.1.unit.W",
        "layer.1.Unit.W",
        "layer.1.Unit_1.W",
        "layer.1.Unit_2.W",
        "block.Unit.W",
        "W",
    };
    assert_int_equal(graph->inputs.count, sizeof names / sizeof *names);
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *value = graph->inputs.at[i];
        assert_string_equal(value->name, names[i]);
        assert_int_equal(value->role, i ? ROLE_PARAM : ROLE_DATA);
        assert_non_null(value->declaration);
    }
    session_free(session);
}

// Written in the language the dots are gone, and only there names may have to give way.
static void test_names_that_are_written_alike(void **state) {
    (void)state;
    const char *source = "def Unit(X[n, d]):\n"
                         "    param W[d]\n"
                         "    return X[n, d] * W[d]\n"
                         "def Main(X[n, d], Unit__W[d]):\n"
                         "    Y[n, d] = Unit(X) + Unit__W[d]\n"
                         "    return Y[n, d]\n";
    Session *session = session_new();
    Graph *graph = build_fine(session, source, (BuildCase){0});
    assert_string_equal(graph->inputs.at[1]->name, "Unit__W");
    assert_string_equal(graph->inputs.at[2]->name, "Unit.W");
    session_free(session);
    expect_text(source, (BuildCase){0},
                "def Main(\n"
                "        X[n, d],\n"
                "        Unit__W[d],\n"
                "        param Unit__W_[d]):\n"
                "    t1[n, d] = X[n, d] * Unit__W_[d]\n"
                "    Y[n, d] = t1[n, d] + Unit__W[d]\n"
                "    return Y[n, d]\n");
}

// Whoever numbers calls and loops goes around what someone has written.
static void test_numbers_never_meet_labels(void **state) {
    (void)state;
    Session *session = session_new();
    Graph *graph = build_fine(session,
                              "dim i = 1\n"
                              "def Unit(X[i]):\n"
                              "    param W[i]\n"
                              "    return X * W\n"
                              "def Unit_2(X[i]):\n"
                              "    return Unit(X)\n"
                              "def Plain(X[i]):\n"
                              "    return X + 1\n"
                              "def Main(X[i]):\n"
                              "    X_1 = Unit(Unit(Unit(X)) as Unit_1)\n"
                              "    X_2 = Unit_2(Unit(Plain(X_1) as Unit)) + (Unit(X) as Plain)\n"
                              "    for Unit in i:\n"
                              "        X_2 = Unit(X_2)\n"
                              "    for other in i:\n"
                              "        X_2 = Plain(X_2)\n"
                              "    for other in i:\n"
                              "        X_2 = Unit(X_2) as Unit\n"
                              "    for other in i:\n"
                              "        X_2 = Unit(X_2) as Unit\n"
                              "    return X_2\n",
                              (BuildCase){0});
    static const char *const names[] = {
        "X",
        "Unit.W",
        "Unit_1.W",
        "Unit_3.W",
        "Unit_4.W",
        "Unit_2.Unit.W",
        "Plain.W",
        "Unit_5.0.Unit.W",
        "other.0.Unit.W",
        "other_1.0.Unit.W",
    };
    assert_int_equal(graph->inputs.count, sizeof names / sizeof *names);
    for (uint32_t k = 0; k < graph->inputs.count; k++)
        assert_string_equal(graph->inputs.at[k]->name, names[k]);
    session_free(session);
}

static InputRole role_of(const char *source, const char *data, uint32_t input_index) {
    Session *session = session_new();
    Graph *graph = build_fine(session, source, (BuildCase){.data = data});
    InputRole role = graph->inputs.at[input_index]->role;
    session_free(session);
    return role;
}

static void test_roles(void **state) {
    (void)state;
    const char *plain = "def F(X[n], W[n]):\n    return X[n] * W[n]\n";
    const char *marked = "def F(X[n], param W[n]):\n    return X[n] * W[n]\n";
    assert_int_equal(role_of(plain, NULL, 1), ROLE_DATA);
    assert_int_equal(role_of(plain, "X", 0), ROLE_DATA);
    assert_int_equal(role_of(plain, "X", 1), ROLE_PARAM);
    assert_int_equal(role_of(marked, NULL, 0), ROLE_DATA);
    assert_int_equal(role_of(marked, NULL, 1), ROLE_PARAM);
    expect_error(plain, (BuildCase){.data = "XX"},
                 "--data names 'XX', which is no argument of 'F'");
}

static void test_map_runs_the_entry_for_each(void **state) {
    (void)state;
    const char *source = "def F(X[n, d], W[d]):\n"
                         "    Y[d, n] = X[n, d] * W[d]\n"
                         "    return Y[d, n]\n";
    expect_text(source, (BuildCase){.map_dim = "b", .mapped = "X"},
                "def F(\n"
                "        X[b, n, d],\n"
                "        W[d]):\n"
                "    Y[b, n, d] = X[b, n, d] * W[d]\n"
                "    return Y[b, d, n]\n");
    expect_error(source, (BuildCase){.map_dim = "d", .mapped = "X"}, "'d' is one of its own");
    expect_error(source, (BuildCase){.map_dim = "b", .mapped = "Z"}, "--map names 'Z'");
}

static void test_maps_nest_in_the_order_written(void **state) {
    (void)state;
    const char *source = "def F(X[n], M[m]):\n"
                         "    return sum(X, reduced_dim=n) * M, X\n";
    expect_text(source, (BuildCase){.map_dim = "b", .mapped = "M", .inner_dim = "c", .inner = "X"},
                "def F(\n"
                "        X[c, n],\n"
                "        M[b, m]):\n"
                "    t1[c] = sum(X[c, n], reduced_dim=n)\n"
                "    result[c, b, m] = t1[c] * M[b, m]\n"
                "    t2[b] = index(b) == index(b)\n"
                "    X_out[b, c, n] = where(t2[b], X[c, n], X[c, n])\n"
                "    return result[b, c, m], X_out[b, c, n]\n");
    expect_text("def F(X[n], M[m]):\n    return X\n",
                (BuildCase){.map_dim = "b", .mapped = "X", .inner_dim = "c", .inner = "X"},
                "def F(\n"
                "        X[b, c, n],\n"
                "        M[m]):\n"
                "    return X[b, c, n]\n");
}

static void test_choice_of_entry(void **state) {
    (void)state;
    const char *source = "def First(X[n]):\n    return X[n]\n"
                         "def Second(X[n]):\n    return -X[n]\n"
                         "optimizer plain(W[i], dW[i]):\n    return W - dW\n";
    Session *session = session_new();
    assert_string_equal(build_fine(session, source, (BuildCase){0})->entry, "Second");
    session_free(session);
    session = session_new();
    assert_string_equal(build_fine(session, source, (BuildCase){.entry = "plain"})->entry, "plain");
    session_free(session);
    session = session_new();
    assert_string_equal(build_fine(session, source, (BuildCase){.entry = "First"})->entry, "First");
    session_free(session);
    expect_error(source, (BuildCase){.entry = "Secnod"}, "did you mean 'Second'?");
    expect_error("dim n = 4\n", (BuildCase){0}, "the file has no def");
}

static void test_what_only_a_call_can_show(void **state) {
    (void)state;
    expect_error("def F(X[n]):\n    for i in n:\n        X = X + 1\n    return X[n]\n",
                 (BuildCase){0}, "a loop runs over a dim of known extent, 'n' has none");
    expect_error("dim k = 2000000\n"
                 "def F(X[n]):\n    for i in k:\n        X = X + 1\n    return X[n]\n",
                 (BuildCase){0}, "more than 20000 statements and calls");
    expect_error("def F(X[n]):\n    Y[n] = shift(X, n, floor(sqrt(n)))\n    return Y[n]\n",
                 (BuildCase){0}, "this number has to be known when compiling");
    expect_error("dim a = 4, b = 6, h = 3\n"
                 "def Half(X[n]):\n    return slice(X, n, 0, n // 2 -> [h])\n"
                 "def F(X[a], Y[b]):\n    return Half(X), Half(Y)\n",
                 (BuildCase){0}, "the slice has 2 positions, 'h' has 3");
}

// Twelve defs that call each other below 180 signs each: more than the stack should be asked for.
static void test_depth_has_a_limit(void **state) {
    (void)state;
    Session *session = session_new();
    Text text = {.arena = session->arena};
    text_add(&text, "def call0(X[n]):\n    return X\n");
    for (int i = 1; i <= 12; i++) {
        text_printf(&text, "def call%d(X[n]):\n    return ", i);
        for (int k = 0; k < 180; k++)
            text_add(&text, "-(");
        text_printf(&text, "call%d(X)", i - 1);
        for (int k = 0; k < 180; k++)
            text_add(&text, ")");
        text_add(&text, "\n");
    }
    expect_error(text.at, (BuildCase){0}, "nest deeper than 2000 levels");
    session_free(session);
}

static void test_sixteen_dims_are_the_limit(void **state) {
    (void)state;
    const char *inner = "def In(X[a, b, c, d, e, f, g, h]):\n    return -X\n"
                        "def F(X[i, j, k, l, m, n, o, p, a, b, c, d, e, f, g, h]):\n"
                        "    return In(X)\n";
    Session *session = session_new();
    assert_int_equal(build_fine(session, inner, (BuildCase){0})->outputs.at[0].order.count, 16);
    session_free(session);
    expect_error(inner, (BuildCase){.map_dim = "z", .mapped = "X"}, "more than 16 dims");
    const char *einsum =
        "def F(X[a, b, c, d, e, f, g, h, s], Y[i, j, k, l, m, n, o, s]):\n"
        "    return einsum(X, Y -> [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o])\n";
    session = session_new();
    assert_int_equal(build_fine(session, einsum, (BuildCase){0})->outputs.at[0].order.count, 15);
    session_free(session);
    expect_error(einsum, (BuildCase){.map_dim = "z", .mapped = "X"},
                 "two operands over more than 16 dims");
}

// ---- the round trip ----------------------------------------------------------------------------

// Programs that together have every op; each entry is the last def.
static const char *const programs[] = {
    // attention, step by step
    "dim n = 5, d = 6, h = 2\n"
    "dim d_k = d / h\n"
    "dim m like n\n"
    "def Attention(X[n, d], param P_q[d, d_k, h], param P_k[d, d_k, h], param P_o[d, d_k, h]):\n"
    "    M[m, d] = X[m, d]\n"
    "    Q[n, d_k, h] = einsum(X[n, d], P_q[d, d_k, h]) / sqrt(d_k)\n"
    "    L[n, m, h] = 0.5 * einsum(Q[n, d_k, h], M[m, d], P_k[d, d_k, h])\n"
    "    C[n, m, h] = where(index(m) <= index(n), L[n, m, h], -inf)\n"
    "    W[n, m, h] = softmax(C, reduced_dim=m)\n"
    "    Y[n, d] = einsum(W[n, m, h], M[m, d], P_o[d, d_k, h])\n"
    "    return Y[n, d], W[n, m, h]\n",
    // pointwise functions and reductions
    "def Maps(X[n, d], Y[d], b[n, d]: bool):\n"
    "    A[n, d] = abs(X) + exp(X) - log(X) / sqrt(X) * rsqrt(X) ** 2\n"
    "    B[n, d] = tanh(exp2(X)) + erf(X) + sin(X) + cos(X) + floor(X) // 2 + X % 3\n"
    "    C[n, d] = sigmoid(A) + gelu(A) + silu(B) + softplus(B) + relu(-X)\n"
    "    D[n, d] = min(X, Y, C) + max(A, B) + where(b and not (X > 3) or X >= Y, X, -1.5)\n"
    "    E[n, d] = where(X == Y or X != 2 or X < Y, A, inf) * random(n, index(n), index(d))\n"
    "    F[n] = sum(E, reduced_dim=d) + prod(E, reduced_dim=d) + mean(E, reduced_dim=d)\n"
    "    G[n] = max(E, reduced_dim=d) * min(E, reduced_dim=d) + logsumexp(E, reduced_dim=d)\n"
    "    H[n, d] = log_softmax(D, reduced_dim=d) + cumsum(D, dim=n)\n"
    "    s = sum(D, reduced_dim=(n, d))\n"
    "    return F[n], G[n], H[n, d], s\n",
    // element types, positions, moves
    "dim v = 7, r = 2, s = 6, e = 4\n"
    "dim p like n\n"
    "dim q like n\n"
    "param E[v, e]\n"
    "def Moves(ids[n]: i32, X[n, e]: bf16, Z[n, p]):\n"
    "    A[n, e] = gather(E[v, e], ids[n], dim=v) + f32(X)\n"
    "    B[n, r] = slice(A, e, 1, 3)\n"
    "    C[n, s] = concat(A, B, dim=s)\n"
    "    D[n, s] = shift(C, n, -2) + shift(C, s, 1)\n"
    "    F[n, v] = one_hot(ids, v) * (index(v) + n)\n"
    "    G[n] = i64(argmax(F, reduced_dim=v)) // -3 + ids[n] % 2\n"
    "    H[n, p] = einsum(Z[n, q], Z[q, p]) + f32(n) * swap(Z, n, p)\n"
    "    I[n, e]: f16 = f16(A) * 0.1 + f16(bool(X))\n"
    "    J[q] = f32(index(q)) / n + Z[2, q] * Z[n - 1, 0]\n"
    "    K[v, e] = scatter_add(A, ids, dim=v, reduced_dim=n)\n"
    "    L[v, p] = scatter_add(A * Z, ids, dim=v, reduced_dim=(n, e))\n"
    "    return D[n, s], G[n], H[n, p], I[n, e], J[q], X[n, e], K, L\n",
    // orders
    "dim t = 3\n"
    "def Orders(X[n, m]):\n"
    "    V[n, t], I[n, t] = topk(X, t, dim=m)\n"
    "    J[n, t] = argsort(X, t, dim=m)\n"
    "    return V, I, J, argsort(X, dim=m, order=descending), sort(X, dim=n)\n",
    // one dim as several, several as one
    "dim h = 2, j = 3\n"
    "def Regrouped(X[n, d]):\n"
    "    S[n, h, j, k] = split(X, d -> h j k)\n"
    "    T[all, h] = merge(S, j n k -> all)\n"
    "    return split(T * 2, all -> j rest), S\n",
    // layers, names, a result named like an input
    "dim layers = 2, d = 3\n"
    "def Unit(X[n, d]):\n"
    "    param W[d, d_out], b[d] = 0\n"
    "    H[n, d_out] = einsum(X[n, d], W[d, d_out])\n"
    "    return einsum(H[n, d_out], W[d, d_out] -> [n, d]) + b[d]\n"
    "def Main(X[b, n, d]):\n"
    "    for layer in layers:\n"
    "        X = X + Unit(X) as unit\n"
    "        X = X * layer\n"
    "    return X[b, n, d]\n",
    // scans: an exchange, one inside another, positions, rows of a carry
    "dim m like n\n"
    "def Scans(X[n, d], A[d], Z[v, d]):\n"
    "    a[d] = A\n"
    "    b[d] = A * 2\n"
    "    scan t in n:\n"
    "        c[d] = a[d] + X[t, d] * t\n"
    "        a[d] = b[d]\n"
    "        b[d] = c[d] / 2\n"
    "        L[m] = einsum(X[m, d], b[d])\n"
    "        s[d] = c[d]\n"
    "        scan u in v:\n"
    "            s[d] = s[d] * Z[u, d] + X[t, d]\n"
    "            P[t, u] = sum(s[d], reduced_dim=d) + L[t]\n"
    "        Y[t, d] = s[d]\n"
    "    scan t in n:\n"
    "        a[d] = tanh(a[d] + Y[t, d])\n"
    "    return Y[n, d], a[d], P[n, v]\n",
    // dynamic parts
    "def Dynamic(X[n, d], Y[e]):\n"
    "    A[n, e] = slice(X, d, 1, 1 + e)\n"
    "    B[n] = mean(X, reduced_dim=d) * sqrt(d) + mean(Y, reduced_dim=e)\n"
    "    return A[n, e], B[n], 2 * n\n",
};

static void check_round_trip(const char *source, bool *seen) {
    Session *first = session_new(), *second = session_new();
    Graph *graph = build_fine(first, source, (BuildCase){0});
    for (uint32_t i = 0; i < graph->values.count; i++)
        seen[graph->values.at[i]->op] = true;
    Text text = {.arena = first->arena}, again = {.arena = second->arena};
    graph_print(graph, &text);
    Graph *copy = build_fine(second, text.at, (BuildCase){0});
    graph_print(copy, &again);
    assert_string_equal(again.at, text.at);
    if (graph_hash(graph) != graph_hash(copy))
        fail_msg("the hash changed on the way through\n%s", text.at);
    session_free(first);
    session_free(second);
}

static void test_text_builds_to_the_same_hash(void **state) {
    (void)state;
    // made by graph_fuse and by the lowering only
    bool seen[N_OP] = {[OP_COPY] = true, [OP_REDUCE_TOP] = true};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        check_round_trip(programs[i], seen);
    for (int op = 0; op < N_OP; op++)
        if (!seen[op])
            fail_msg("no program prints '%s'", op_name((Op)op));
}

// Values that no program builds as they are: copies, numbers only, odd constants.
static void test_text_of_made_up_values(void **state) {
    (void)state;
    Session *first = session_new(), *second = session_new();
    Graph *g = graph_new(first, name_of(first, "Test"));
    DimId n = graph_dim(g, name_of(first, "n"), 4), m = graph_dim(g, name_of(first, "m"), 4);
    DimId d = graph_dim(g, name_of(first, "d"), 3);
    g->dims.at[m].like = n;
    DimList nd = {2, {n, d}}, dn = {2, {d, n}}, only_d = {1, {d}}, only_n = {1, {n}};
    Value *x = graph_input(g, name_of(first, "X"), ELEM_F32, nd, ROLE_DATA);
    Value *i = graph_input(g, name_of(first, "I"), ELEM_I32, only_n, ROLE_DATA);
    Value *two = graph_const(g, 2, ELEM_F32), *nan_value = graph_const(g, NAN, ELEM_F32);
    Value *sum = graph_map2(g, OP_ADD, two, graph_const(g, -0.0, ELEM_F32));
    Value *copy = graph_map1(g, OP_COPY, graph_map2(g, OP_MUL, x, sum));
    Value *odd = graph_map2(g, OP_POW, graph_map2(g, OP_ADD, copy, nan_value),
                            graph_const(g, -INFINITY, ELEM_F32));
    Value *big =
        graph_map2(g, OP_ADD, graph_cast(g, i, ELEM_I64), graph_const(g, -0x1p53, ELEM_I64));
    Value *renamed = graph_rename(g, graph_index(g, n), n, m);
    Value *scaled = graph_einsum(g, -0.1, (Value *[]){odd, two}, 2, only_d);
    graph_output(g, name_of(first, "A"), odd, odd->dims);
    graph_output(g, name_of(first, "B"), big, big->dims);
    graph_output(g, name_of(first, "C"), renamed, renamed->dims);
    graph_output(g, name_of(first, "D"), scaled, scaled->dims);
    graph_output(g, name_of(first, "E"), two, two->dims);
    graph_output(g, name_of(first, "X"), x, dn);
    graph_verify(g, "test");
    Text text = {.arena = first->arena};
    graph_print(g, &text);
    Graph *again = build_fine(second, text.at, (BuildCase){0});
    if (graph_hash(again) != graph_hash(g))
        fail_msg("the hash changed on the way through\n%s", text.at);
    session_free(first);
    session_free(second);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_call_binds_dims_by_place),
        cmocka_unit_test(test_own_dim_follows_its_class),
        cmocka_unit_test(test_extents_fold_where_the_call_knows_them),
        cmocka_unit_test(test_names_of_trained_tensors),
        cmocka_unit_test(test_names_that_are_written_alike),
        cmocka_unit_test(test_numbers_never_meet_labels),
        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_map_runs_the_entry_for_each),
        cmocka_unit_test(test_maps_nest_in_the_order_written),
        cmocka_unit_test(test_choice_of_entry),
        cmocka_unit_test(test_what_only_a_call_can_show),
        cmocka_unit_test(test_depth_has_a_limit),
        cmocka_unit_test(test_sixteen_dims_are_the_limit),
        cmocka_unit_test(test_text_builds_to_the_same_hash),
        cmocka_unit_test(test_text_of_made_up_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
