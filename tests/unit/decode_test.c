// SPDX-License-Identifier: Apache-2.0
// graph_decode: steps in turn give what the whole graph gives, and what it refuses.
#include "passes_fixture.h"

#include <math.h>
#include <string.h>

#include "graph/model.h"

enum { LENGTH = 5 };

static int setup(void **state) {
    *state = session_new();
    return 0;
}

static int teardown(void **state) {
    session_free(*state);
    return 0;
}

// ---- the oracle, step by step ------------------------------------------------------------------

typedef struct {
    const Graph *whole;
    Decoding step;
    DimId n;
    int64_t *extents;
    double **inputs; // of the whole
    Arena *arena;
} Steps;

static double drawn(Elem elem, uint64_t seed) {
    uint64_t bits = hash_u64(seed, 1);
    if (elem_is_int(elem))
        return (double)(bits % 3);
    return (double)(bits >> 11) / (double)(1ull << 52) - 1;
}

static double **arrays(const Steps *s, const Graph *graph, bool draw) {
    double **out = arena_array(s->arena, double *, graph->inputs.count + 1);
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *input = graph->inputs.at[i];
        int64_t count = dims_volume(&input->dims, s->extents);
        out[i] = arena_array(s->arena, double, count + 1);
        for (int64_t k = 0; k < count && draw; k++)
            out[i][k] = drawn(input->elem, hash_u64(hash_text(1, input->name), (uint64_t)k));
    }
    return out;
}

// Moves what a tensor over `dims` has at one position along dim from or to where it is without it.
static void move_row(const Steps *s, const DimList *dims, DimId dim, int64_t at, double *tensor,
                     double *row, bool store) {
    uint32_t place = 0;
    while (dim != DIM_NONE && dims->at[place] != dim)
        place++;
    int64_t inner = 1, outer = 1, extent = dim == DIM_NONE ? 1 : s->extents[dim];
    for (uint32_t i = 0; i < dims->count; i++)
        if (dim == DIM_NONE || i > place)
            inner *= s->extents[dims->at[i]];
        else if (i < place)
            outer *= s->extents[dims->at[i]];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            double *there = &tensor[(o * extent + at) * inner + i], *here = &row[o * inner + i];
            *(store ? there : here) = store ? *here : *there;
        }
}

static void tell_inputs(const Steps *s, int64_t position, double **inputs) {
    for (uint32_t i = 0; i < s->whole->inputs.count; i++) {
        const Value *input = s->whole->inputs.at[i];
        bool told = input->dims.count != s->step.graph->inputs.at[i]->dims.count;
        if (told)
            move_row(s, &input->dims, s->n, position, s->inputs[i], inputs[i], false);
        else
            inputs[i] = s->inputs[i];
    }
    inputs[s->step.position][0] = (double)position;
}

static void store_rows(const Steps *s, int64_t position, double **inputs, double **outputs) {
    for (uint32_t i = 0; i < s->step.caches.count; i++) {
        const DecodeCache *cache = &s->step.caches.at[i];
        move_row(s, &s->step.graph->inputs.at[cache->input]->dims, cache->dim,
                 cache->dim == DIM_NONE ? 0 : position, inputs[cache->input],
                 outputs[cache->output], true);
    }
}

static void compare_row(const Steps *s, const Output *output, int64_t position, double *whole,
                        const double *step) {
    DimList rest = dims_minus(&output->order, &(DimList){1, {s->n}});
    int64_t count = dims_volume(&rest, s->extents);
    double *row = arena_array(s->arena, double, count + 1);
    move_row(s, &output->order, s->n, position, whole, row, false);
    for (int64_t k = 0; k < count; k++)
        if (!(fabs(row[k] - step[k]) <= 1e-12 * (1 + fabs(row[k]))))
            fail_msg("%s at position %lld, element %lld: %.17g is %.17g step by step", output->name,
                     (long long)position, (long long)k, row[k], step[k]);
}

static void compare_steps(const Steps *s) {
    EvalRun whole = {.extents = s->extents, .inputs = s->inputs};
    whole.outputs = arena_array(s->arena, double *, s->whole->outputs.count + 1);
    graph_eval(s->whole, EVAL_F64, &whole, s->arena);
    EvalRun step = {.extents = s->extents, .inputs = arrays(s, s->step.graph, false)};
    step.outputs = arena_array(s->arena, double *, s->step.graph->outputs.count + 1);
    for (int64_t position = 0; position < LENGTH; position++) {
        tell_inputs(s, position, step.inputs);
        graph_eval(s->step.graph, EVAL_F64, &step, s->arena);
        for (uint32_t i = 0; i < s->whole->outputs.count; i++)
            compare_row(s, &s->whole->outputs.at[i], position, whole.outputs[i], step.outputs[i]);
        store_rows(s, position, step.inputs, step.outputs);
    }
}

static Decoding decode(Session *session, const char *text, const Graph **whole) {
    *whole = passes_build(session, text);
    return graph_decode(*whole, find_dim(*whole, "n"));
}

// The number of caches.
static uint32_t check_steps(Session *session, const char *text) {
    Steps s = {.arena = session->arena};
    s.step = decode(session, text, &s.whole);
    if (!s.step.graph)
        fail_msg("it is refused: %s\n%s", s.step.why, text);
    graph_verify(s.step.graph, "decode");
    s.n = find_dim(s.whole, "n");
    s.extents = graph_typical_extents(s.whole, s.arena);
    for (uint32_t i = 0; i < s.whole->dims.count; i++)
        if (s.whole->dims.at[i].extent == EXTENT_DYNAMIC)
            s.extents[i] = LENGTH;
    s.inputs = arrays(&s, s.whole, true);
    compare_steps(&s);
    return s.step.caches.count;
}

static void check_refused(Session *session, const char *text, const char *why) {
    const Graph *whole;
    Decoding step = decode(session, text, &whole);
    if (step.graph)
        fail_msg("it is not refused:\n%s", text);
    assert_string_equal(step.why, why);
}

#define DIMS "dim d = 3, h = 2, k = 4, v = 3, layers = 2\ndim m like n\n"
#define HEADS                                                                                      \
    DIMS "def F(X[n, d], P_q[d, k, h], P_k[d, k, h], P_v[d, k, h]):\n"                             \
         "    Q[n, k, h] = einsum(X[n, d], P_q[d, k, h])\n"                                        \
         "    K[m, k, h] = einsum(X[m, d], P_k[d, k, h])\n"                                        \
         "    V[m, k, h] = einsum(X[m, d], P_v[d, k, h])\n"                                        \
         "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h])\n"
#define ATTEND(mask)                                                                               \
    HEADS "    W[n, m, h] = softmax(" mask ", reduced_dim=m)\n"                                    \
          "    return einsum(W[n, m, h], V[m, k, h] -> [n, k, h])\n"

// ---- tests -------------------------------------------------------------------------------------

static void test_masks(void **state) {
    static const char *const programs[] = {
        ATTEND("causal(L)"),
        ATTEND("causal_window(L, 2)"),
        ATTEND("where(index(n) - index(m) >= 0, L, -inf)"),
        ATTEND("where(index(m) < index(n) + 1, L, -inf)"),
        ATTEND("where(not (index(m) > index(n)), L, -inf)"),
        ATTEND("where(index(m) > index(n), -inf, L)"),
        ATTEND("where(2 * index(m) <= 2 * index(n) and index(m) // 2 == index(n) // 2, L, -inf)"),
        ATTEND("where(index(m) == index(n) or index(m) == index(n) - 2, L, -inf)"),
        ATTEND("L + where(index(m) <= index(n), 0.0, -inf)"),
        ATTEND("alibi(causal(L))"),
        ATTEND("causal(causal_relative_bias(L))"),
        ATTEND("causal(tanh(L / 3) * 3)"),
    };
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        assert_int_equal(check_steps(*state, programs[i]), 2);
}
static void test_heads_that_talk(void **state) {
    check_steps(*state, DIMS "dim h_k = 2, h_v = 3\n"
                             "def F(X[n, d], P_q[d, k, h_k], P_k[d, k, h_k], P_v[d, k, h_v],\n"
                             "      P_l[h_k, h], P_w[h, h_v], A[d, h_k, h], B[d, h, h_v]):\n"
                             "    J[n, m, h_k] = einsum(X[n, d], P_q[d, k, h_k], X[m, d'],"
                             " P_k[d', k, h_k])\n"
                             "    M[m, h_k, h] = einsum(X[m, d], A[d, h_k, h])\n"
                             "    L[n, m, h] = einsum(J[n, m, h_k], P_l[h_k, h] + M[m, h_k, h])\n"
                             "    W[n, m, h] = softmax(causal(L), reduced_dim=m)\n"
                             "    R[n, h, h_v] = P_w[h, h_v] + einsum(X[n, d], B[d, h, h_v])\n"
                             "    return einsum(W[n, m, h], R[n, h, h_v], X[m, d], P_v[d, k, h_v]"
                             " -> [n, k, h_v])\n");
}

// Keys are kept with their positions in them, and what is read twice is kept once.
static void test_what_is_kept(void **state) {
    assert_int_equal(check_steps(*state,
                                 "dim d = 4, k = 2\ndim m like n\n"
                                 "def F(X[b, n, d], P[d, k], param E[n, d]):\n"
                                 "    Z[b, n, d] = X[b, n, d] + E[n, d]\n"
                                 "    K[b, n, k] = rotary(einsum(standardize(Z), P -> [b, n, k]))\n"
                                 "    L = einsum(Z[b, n, d], P[d, k], K[b, m, k] -> [b, n, m])\n"
                                 "    W[b, n, m] = softmax(causal(L), reduced_dim=m)\n"
                                 "    Y[b, n, k] = einsum(W, K[b, m, k])\n"
                                 "    S = einsum(Y[b, n, k], K[b, n', k] -> [b, n, n'])\n"
                                 "    A[b, n, n'] = softmax(causal(S), reduced_dim=n')\n"
                                 "    return einsum(A, Z[b, n', d] -> [b, n, d])\n"),
                     2);
}

static void test_sums_of_the_past(void **state) {
    check_steps(*state, DIMS "def F(X[n, d], P[d, k]):\n"
                             "    K[m, k] = exp(einsum(X[m, d], P[d, k] -> [m, k]))\n"
                             "    mask[n, m] = where(index(m) <= index(n), 1.0, 0.0)\n"
                             "    N = einsum(K[n, k], K[m, k], mask[n, m], X[m, d] -> [n, d])\n"
                             "    Z = einsum(K[n, k], K[m, k], mask[n, m] -> [n])\n"
                             "    return N / Z, cumsum(N, dim=n)\n");
    check_steps(*state, DIMS "def F(X[n, d]):\n"
                             "    A[n'] = einsum(where(index(n) <= index(n'), 1.0, 0.0), X[n, 0])\n"
                             "    return A[n] + 1\n");
}

// Of each running sum one row is kept, whatever it is of; of what sums over positions that another
// dim of the sequence goes along, what it is made of.
static void test_running_sums(void **state) {
    assert_int_equal(check_steps(*state,
                                 DIMS "def F(X[b, n, d], P[d, k]):\n"
                                      "    G = exp(einsum(X, P -> [b, n, k]))\n"
                                      "    S = cumsum(einsum(G, X -> [b, n, k, d]), dim=n)\n"
                                      "    Z = cumsum(G, dim=n)\n"
                                      "    c = cumsum(i32(X[b, n, 0] > 0), dim=n)\n"
                                      "    Y = einsum(G, S -> [b, n, d]) / einsum(G, Z -> [b, n])\n"
                                      "    return Y * c[b, n]\n"),
                     3);
    assert_int_equal(check_steps(*state, DIMS
                                 "def F(X[n, d]):\n"
                                 "    L = where(index(m) <= index(n), einsum(X[n, d], X[m, d] "
                                 "-> [n, m]), -inf)\n"
                                 "    W = softmax(L, reduced_dim=m)\n"
                                 "    return einsum(cumsum(W, dim=m), W, X[m, d] -> [n, d])\n"),
                     1);
    assert_int_equal(check_steps(*state, DIMS "def F(X[n, d]):\n"
                                              "    return cumsum(bf16(X), dim=n)\n"),
                     1);
}

static void test_short_convolution(void **state) {
    assert_int_equal(check_steps(*state,
                                 DIMS "dim taps = 3\n"
                                      "def F(X[b, n, d], w[taps]):\n"
                                      "    Y = 2 * X\n"
                                      "    return w[0] * Y + w[1] * shift(Y, n, 1) + w[2] * "
                                      "shift(Y, n, 2)\n"),
                     1);
}

static void test_scan(void **state) {
    const char *program = DIMS "def F(X[b, n, d], S0[b, d, k], P[d, k]):\n"
                               "    K[b, n, k] = einsum(X, P)\n"
                               "    S = S0\n"
                               "    c = 0.0 * S0[b, 0, 0]\n"
                               "    scan t in n:\n"
                               "        S[b, d, k] = S / 2 + X[b, t, d] * K[b, t, k]\n"
                               "        c = c + K[b, t, 0]\n"
                               "        Y[b, t, d] = einsum(S, K[b, t, k]) * t + c\n"
                               "    return Y[b, n, d]\n";
    assert_int_equal(check_steps(*state, program), 2);
}

// Of one einsum with its projections, keys and values are kept, not what they are made of; unless
// that is less.
static void test_projections(void **state) {
    static const char *const program =
        "dim d = 8, k = 2, h = 3, e = 4\n"
        "def F(X[b, n, d], P_q[d, k, h], P_k[d, k, h], P_v[d, k, h], P_o[e, k, h], B[d, d', h]):\n"
        "    L = einsum(X[b, n, d], X[b, n', d'], P_q[d, k, h], P_k[d', k, h] -> [b, n, n', h])\n"
        "    W[b, n, n', h] = softmax(causal(L, m=n'), reduced_dim=n')\n"
        "    Y = einsum(W, X[b, n', d], P_v[d, k, h], P_o[e, k, h] -> [b, n, e])\n"
        "    A = einsum(X[b, n, d], X[b, n', d'], B[d, d', h] -> [b, n, n', h])\n"
        "    return Y, einsum(where(index(n') <= index(n), exp(A), 0), W -> [b, n, h])\n";
    const Graph *whole;
    Decoding step = decode(*state, program, &whole);
    static const char *const kept[] = {"b n' d'", "b k n' h", "b k n' h"};
    assert_int_equal(step.caches.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const Value *cache = step.graph->inputs.at[step.caches.at[i].input];
        assert_string_equal(dims_text(step.graph, &cache->dims), kept[i]);
    }
    check_steps(*state, program);
}

// Data of each position, of a memory, and what depends on no position at all.
static void test_other_arguments(void **state) {
    check_steps(*state,
                DIMS "def F(X[n, d], doc[n]: i32, M[s, d], G[m, d], scale[]):\n"
                     "    L = where(doc[n] == doc[m] and index(m) <= index(n), "
                     "einsum(X[n, d], X[m, d] -> [n, m]), -inf)\n"
                     "    Y = einsum(softmax(L, reduced_dim=m), X[m, d] -> [n, d]) * scale\n"
                     "    Z = einsum(X[n, d], M[s, d] -> [n, s]) + sum(G, reduced_dim=(m, "
                     "d))\n"
                     "    U = einsum(softmax(Z, reduced_dim=s), M[s, d] -> [n, d])\n"
                     "    return U + gather(M, doc, dim=s), Y\n");
}

static void test_refuses_what_sees_later_positions(void **state) {
    static const struct {
        const char *why, *text;
    } refused[] = {
        {"the softmax over m sees positions after n", ATTEND("L")},
        {"the softmax over m sees positions after n", ATTEND("window(L, 2)")},
        {"the softmax over m sees positions after n", ATTEND("prefix(L, 3)")},
        {"the softmax over m sees positions after n",
         ATTEND("where(index(m) <= index(n) + 1, L, -inf)")},
        {"the softmax over m sees positions after n",
         ATTEND("where(index(m) // 2 <= index(n) // 2, L, -inf)")},
        {"the softmax over m sees positions after n",
         ATTEND("where(bf16(index(m)) <= bf16(index(n)), L, -inf)")},
        {"the softmax over m sees positions after n", ATTEND("max(causal(L), L)")},
        {"the einsum over m sees positions after n",
         ATTEND("where(index(m) <= index(n), L, -1e9)")},
        // Which of several hidden logits is the largest is a position, not one of them.
        {"the einsum over m sees positions after n",
         HEADS "    A[n, m] = argmax(causal(L), reduced_dim=h)\n"
               "    return einsum(where(A == 0, 1.0, 0.0), X[m, d] -> [n, d])\n"},
        {"the softmax over n sees positions after n",
         HEADS "    return softmax(causal(L), reduced_dim=n)\n"},
        {"the sum over n sees positions after n", "def F(X[n]):\n    return X / sum(X, "
                                                  "reduced_dim=n)\n"},
        {"the sort over n sees positions after n", "def F(X[n]):\n    return sort(X, dim=n)\n"},
        {"the shift over n sees positions after n", "def F(X[n]):\n    return shift(X, n, -1)\n"},
        {"the take over n sees positions after n", "def F(X[n]):\n    return X * X[0]\n"},
        {"the gather over n sees positions after n",
         "def F(X[n], i[n]: i32):\n    return gather(X, i, dim=n)\n"},
        {"the result result is not over n", "def F(X[n]):\n    return sum(X, reduced_dim=n)\n"},
        {"no data of F is over n", "def F(param X[n]):\n    return 2 * X\n"},
        {"a reversed scan reads later positions first",
         "def F(X[n]):\n    S = 0.0\n    scan t in n reversed:\n        S = S + X[t]\n"
         "        Y[t] = S\n    return Y\n"},
        {"what a scan leaves is read at other positions than that of its step",
         "def F(X[n]):\n    S = 0.0\n    scan t in n:\n        S = S + X[t]\n"
         "    return X + S\n"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        check_refused(*state, refused[i].text, refused[i].why);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_masks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_heads_that_talk, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sums_of_the_past, setup, teardown),
        cmocka_unit_test_setup_teardown(test_running_sums, setup, teardown),
        cmocka_unit_test_setup_teardown(test_short_convolution, setup, teardown),
        cmocka_unit_test_setup_teardown(test_scan, setup, teardown),
        cmocka_unit_test_setup_teardown(test_projections, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_arguments, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refuses_what_sees_later_positions, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
