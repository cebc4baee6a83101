// SPDX-License-Identifier: Apache-2.0
// Streamed groups: which programs have one, what is in it, and how many loops over the streamed dim
// it needs.
#include "passes_fixture.h"

#include <string.h>

#include "tile/lower/stream.h"

static int setup(void **state) {
    *state = session_new();
    return 0;
}

static int teardown(void **state) {
    session_free(*state);
    return 0;
}

static const Value *output(const Fusion *fusion, uint32_t number) {
    return fusion->graph->outputs.at[number].value;
}

static uint32_t count_streams(const Fusion *fusion) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < fusion->groups.count; i++)
        count += fusion->groups.at[i]->kind == GROUP_STREAM;
    return count;
}

static Group *stream_number(const Fusion *fusion, uint32_t number) {
    for (uint32_t i = 0; i < fusion->groups.count; i++)
        if (fusion->groups.at[i]->kind == GROUP_STREAM && number-- == 0)
            return fusion->groups.at[i];
    fail_msg("there are too few streamed groups");
    return NULL;
}

static uint32_t count_members(const Group *group, Op op) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < group->members.count; i++)
        count += group->members.at[i]->op == op;
    return count;
}

static bool has_member(const Group *group, const Value *value) {
    for (uint32_t i = 0; i < group->members.count; i++)
        if (group->members.at[i] == value)
            return true;
    return false;
}

static DimList named_dims(const Graph *graph, const char *names) {
    DimList dims = {0};
    char text[64];
    snprintf(text, sizeof text, "%s", names);
    for (char *name = strtok(text, " "); name; name = strtok(NULL, " "))
        dims_add(&dims, find_dim(graph, name));
    return dims;
}

// The only streamed group of a program, with these rows and this streamed dim. Nothing that has
// both and comes out of a contraction is stored by any group, results excepted.
static Group *assert_one_stream(const Fusion *fusion, const char *rows, const char *streamed) {
    const Graph *graph = fusion->graph;
    assert_int_equal(count_streams(fusion), 1);
    Group *group = stream_number(fusion, 0);
    DimList expected = named_dims(graph, rows);
    if (!dims_equal(&group->rows, &expected))
        assert_string_equal(dims_text(graph, &group->rows), rows);
    assert_string_equal(dims_text(graph, &group->reduced), streamed);
    for (uint32_t i = 0; i < fusion->groups.count; i++)
        for (uint32_t k = 0; k < fusion->groups.at[i]->outputs.count; k++) {
            const Value *stored = fusion->groups.at[i]->outputs.at[k];
            bool result = false;
            for (uint32_t o = 0; o < graph->outputs.count; o++)
                result = result || output(fusion, o) == stored;
            if (!result && dims_subset(&group->rows, &stored->dims))
                assert_false(dims_has(&stored->dims, group->reduced.at[0]));
        }
    return group;
}

static Group *one_stream(Session *session, const char *text, const char *rows,
                         const char *streamed) {
    return assert_one_stream(passes_fuse(session, text), rows, streamed);
}

static void assert_no_stream(Session *session, const char *text) {
    Fusion *fusion = passes_fuse(session, text);
    if (count_streams(fusion) == 0)
        return;
    Text printed = {.arena = session->arena};
    fusion_print(fusion, &printed);
    fail_msg("streamed:\n%s", printed.at);
}

// ---- one group for an attention ----------------------------------------------------------------

#define LARGEST "3.4028234663852886e+38"
#define SIZES "dim k = 64, e = 64, h = 8, g = 8\n"

static const char multi_head[] = SIZES "def F(Q[n, k, h], K[m, k, h], V[m, e, h]):\n"
                                       "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h])\n"
                                       "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
                                       "    O[n, e, h] = einsum(W[n, m, h], V[m, e, h])\n"
                                       "    return O[n, e, h]\n";
static const char talking_heads[] =
    SIZES "def F(Q[n, k, g], K[m, k, g], V[m, e, g], P_l[g, h], P_w[h, g]):\n"
          "    J[n, m, g] = einsum(Q[n, k, g], K[m, k, g])\n"
          "    L[n, m, h] = einsum(J[n, m, g], P_l[g, h])\n"
          "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
          "    U[n, m, g] = einsum(W[n, m, h], P_w[h, g])\n"
          "    O[n, e, g] = einsum(U[n, m, g], V[m, e, g])\n"
          "    return O[n, e, g]\n";

static void test_multi_head(void **state) {
    Group *group = one_stream(*state, multi_head, "n h", "m");
    assert_int_equal(count_members(group, OP_CONTRACT), 2);
    assert_int_equal(count_members(group, OP_REDUCE_TOP), 1);
    assert_int_equal(group->outputs.count, 1);
}

static void test_talking_heads(void **state) {
    Group *group = one_stream(*state, talking_heads, "n", "m");
    assert_int_equal(count_members(group, OP_CONTRACT), 4);
    assert_int_equal(group->outputs.count, 1);
}

// Keys and values of the full width; what makes the queries from X is a contraction before.
static void test_general_bilinear(void **state) {
    Group *group = one_stream(*state,
                              "dim d = 768, c = 768, h = 12\n"
                              "def F(X[n, d], M[m, c], param P[d, c, h], param Q[d, c, h]):\n"
                              "    L[n, m, h] = einsum(X[n, d], M[m, c], P[d, c, h] -> [n, m, h])\n"
                              "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
                              "    Y[n, d] = einsum(W[n, m, h], M[m, c], Q[d, c, h])\n"
                              "    return Y[n, d]\n",
                              "n h", "m");
    assert_int_equal(count_members(group, OP_CONTRACT), 2);
}

static void test_grouped_heads(void **state) {
    Group *group = one_stream(*state,
                              "dim k = 64, g = 4, q = 3\n"
                              "def F(Q[n, k, g, q], K[m, k, g], V[m, k, g]):\n"
                              "    L[n, m, g, q] = einsum(Q[n, k, g, q], K[m, k, g])\n"
                              "    W[n, m, g, q] = softmax(L[n, m, g, q], reduced_dim=m)\n"
                              "    return einsum(W[n, m, g, q], V[m, k, g] -> [n, k, g, q])\n",
                              "n g q", "m");
    assert_int_equal(count_members(group, OP_CONTRACT), 2);
}

// Mixing matrices for each query and for each memory position.
static void test_dynamic_projections(void **state) {
    Group *group = one_stream(
        *state,
        SIZES "def F(Q[n, k, g], K[m, k, g], V[m, e, g], P_l[g, h], P_w[h, g],\n"
              "        R_q[n, g, h], R_m[m, g, h], S_q[n, h, g], S_m[m, h, g]):\n"
              "    J[n, m, g] = einsum(Q[n, k, g], K[m, k, g])\n"
              "    L[n, m, h] = (einsum(J[n, m, g], P_l[g, h]) + einsum(J[n, m, g], R_q[n, g, h])\n"
              "        + einsum(J[n, m, g], R_m[m, g, h]))\n"
              "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
              "    U[n, m, g] = (einsum(W[n, m, h], P_w[h, g]) + einsum(W[n, m, h], S_q[n, h, g])\n"
              "        + einsum(W[n, m, h], S_m[m, h, g]))\n"
              "    O[n, e, g] = einsum(U[n, m, g], V[m, e, g])\n"
              "    return O[n, e, g]\n",
        "n", "m");
    assert_int_equal(group->outputs.count, 1);
}

static void test_difference_of_two_softmaxes(void **state) {
    Group *group =
        one_stream(*state,
                   SIZES "def F(Q[n, k, h], K[m, k, h], R[n, k, h], S[m, k, h], V[m, e, h], a[]):\n"
                         "    A[n, m, h] = softmax(einsum(Q[n, k, h], K[m, k, h]), reduced_dim=m)\n"
                         "    B[n, m, h] = softmax(einsum(R[n, k, h], S[m, k, h]), reduced_dim=m)\n"
                         "    W[n, m, h] = A[n, m, h] - a * B[n, m, h]\n"
                         "    return einsum(W[n, m, h], V[m, e, h] -> [n, e, h])\n",
                   "n h", "m");
    assert_int_equal(count_members(group, OP_REDUCE_TOP), 2);
}

// Nothing but contractions reduces along m: only worth it where the wide values outweigh the rest.
static void test_sigmoid_attention(void **state) {
    static const char text[] = "dim k = 64, e = 64, h = 8, n = %d, m = %d\n"
                               "def F(Q[n, k, h], K[m, k, h], V[m, e, h]):\n"
                               "    W[n, m, h] = sigmoid(einsum(Q[n, k, h], K[m, k, h]))\n"
                               "    return einsum(W[n, m, h], V[m, e, h] -> [n, e, h])\n";
    char sized[400];
    snprintf(sized, sizeof sized, text, 2048, 2048);
    Group *group = one_stream(*state, sized, "n h", "m");
    assert_int_equal(count_members(group, OP_CONTRACT), 2);
    snprintf(sized, sizeof sized, text, 64, 64);
    assert_no_stream(*state, sized);
}

static void test_softmax_over_the_queries(void **state) {
    one_stream(*state,
               SIZES "def F(Q[n, k, h], K[m, k, h], V[n, e, h]):\n"
                     "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h])\n"
                     "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=n)\n"
                     "    return einsum(W[n, m, h], V[n, e, h] -> [m, e, h])\n",
               "m h", "n");
}

static void test_self_attention_reads_one_input_twice(void **state) {
    one_stream(*state,
               "dim m like n\n"
               "dim d = 64\n"
               "def F(X[b, n, d]):\n"
               "    L[b, n, m] = einsum(X[b, n, d], X[b, m, d])\n"
               "    W[b, n, m] = softmax(L[b, n, m], reduced_dim=m)\n"
               "    return einsum(W[b, n, m], X[b, m, d] -> [b, n, d])\n",
               "b n", "m");
}

// Halves are widened once, before the group; the logits are never rounded. A cast that has nothing
// to do with it stays what the user wrote.
static void test_halves_are_widened_ahead_of_the_group(void **state) {
    Fusion *fusion =
        passes_fuse(*state, SIZES "def F(Q[n, k, h]: bf16, K[m, k, h]: bf16, V[m, e, h]: bf16):\n"
                                  "    L[n, m, h] = f32(einsum(Q[n, k, h], K[m, k, h])) * 0.5\n"
                                  "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
                                  "    wide[m, e, h] = f32(V[m, e, h])\n"
                                  "    O[n, e, h] = einsum(W[n, m, h], wide[m, e, h])\n"
                                  "    return O[n, e, h]\n");
    Group *group = assert_one_stream(fusion, "n h", "m");
    for (uint32_t i = 0; i < group->members.count; i++) {
        const Value *value = group->members.at[i];
        assert_true(value->op != OP_CAST || value->args[0]->op == OP_INPUT);
        assert_true(value->elem != ELEM_BF16);
    }
    assert_int_equal(find_live(fusion->graph, OP_COPY)->elem, ELEM_F32);
    assert_int_equal(find_named(fusion->graph, "wide")->op, OP_CAST);
}

// ---- no group ----------------------------------------------------------------------------------

static void test_one_query_is_not_streamed(void **state) {
    assert_no_stream(*state, SIZES "def F(q[k, h], K[m, k, h], V[m, e, h]):\n"
                                   "    l[m, h] = einsum(q[k, h], K[m, k, h])\n"
                                   "    w[m, h] = softmax(l[m, h], reduced_dim=m)\n"
                                   "    return einsum(w[m, h], V[m, e, h] -> [e, h])\n");
}

static void test_few_queries_are_not_streamed(void **state) {
    Text text = {.arena = ((Session *)*state)->arena};
    text_printf(&text, "dim n = 4\n%s", multi_head);
    assert_no_stream(*state, text.at);
}

static void test_feed_forward_is_not_streamed(void **state) {
    assert_no_stream(*state, "dim n = 512, d = 768, f = 3072\n"
                             "def F(X[n, d], param A[d, f], param b[f], param B[f, d]):\n"
                             "    H[n, f] = gelu(einsum(X[n, d], A[d, f]) + b[f])\n"
                             "    return X[n, d] + einsum(H[n, f], B[f, d] -> [n, d])\n");
}

// What is streamed past would be a parameter: logits over a vocabulary, a norm after a projection.
static void test_dims_of_parameters_are_not_streamed(void **state) {
    assert_no_stream(*state, "dim d = 768, v = 32000\n"
                             "def F(X[n, d], param E[v, d]):\n"
                             "    L[n, v] = einsum(X[n, d], E[v, d])\n"
                             "    return logsumexp(L[n, v], reduced_dim=v)\n");
    assert_no_stream(*state, "dim d = 768, f = 64\n"
                             "def F(X[n, d], H[n, f], param P[f, d]):\n"
                             "    Y[n, d] = X[n, d] + einsum(H[n, f], P[f, d])\n"
                             "    return Y[n, d] - mean(Y[n, d], reduced_dim=d)\n");
}

// A running sum along the memory, a position of the largest, a shift: one needs more than a piece.
static void test_what_cannot_be_cut_bars_its_group(void **state) {
    static const char *const between[] = {"cumsum(L[n, m, h], dim=m)", "cumsum(L[n, m, h], dim=n)"};
    for (int i = 0; i < 2; i++) {
        Text text = {.arena = ((Session *)*state)->arena};
        text_printf(&text,
                    SIZES "def F(Q[n, k, h], K[m, k, h], V[m, e, h]):\n"
                          "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h])\n"
                          "    W[n, m, h] = softmax(%s, reduced_dim=m)\n"
                          "    return einsum(W[n, m, h], V[m, e, h] -> [n, e, h])\n",
                    between[i]);
        assert_no_stream(*state, text.at);
    }
}

// The running sum over the queries leads out of the group and back: no task could wait for it.
static void test_groups_are_convex(void **state) {
    static const char text[] =
        SIZES "def F(Q[n, k, h], K[m, k, h], V[m, e, h]):\n"
              "    E[n, m, h] = exp(tanh(einsum(Q[n, k, h], K[m, k, h])))\n"
              "    z[n, h] = cumsum(sum(E[n, m, h], reduced_dim=m), dim=n)\n"
              "    return einsum(E[n, m, h] / z[n, h], V[m, e, h] -> [n, e, h])\n";
    assert_no_stream(*state, text);
    // without the detour
    Text straight = {.arena = ((Session *)*state)->arena};
    const char *detour = strstr(text, "cumsum("), *end = strstr(text, ", dim=n)");
    text_printf(&straight, "%.*s%.*s%s", (int)(detour - text), text, (int)(end - detour) - 7,
                detour + 7, end + strlen(", dim=n)"));
    one_stream(*state, straight.at, "n h", "m");
}

// ---- several groups, several results -----------------------------------------------------------

// Two attentions under one mask; the queries of the second are made from the results of the first.
#define TWO_LAYERS(queries)                                                                        \
    SIZES                                                                                          \
    "dim f = 64\n"                                                                                 \
    "def F(Q[n, k, h], K[m, k, h], V[m, e, h], P[e, f], R[m, f, h], S[m, e, h], U[m, k, h],\n"     \
    "        doc[n]: i32, memory[m]: i32):\n"                                                      \
    "    seen[n, m] = index(m) <= index(n) and doc[n] == memory[m]\n"                              \
    "    L[n, m, h] = where(seen[n, m], einsum(Q[n, k, h], K[m, k, h]), -inf)\n"                   \
    "    O[n, e, h] = einsum(softmax(L[n, m, h], reduced_dim=m), V[m, e, h])\n"                    \
    "    T[n, m, h] = where(seen[n, m], einsum(" queries "), -inf)\n"                              \
    "    B[n, k, h] = einsum(softmax(T[n, m, h], reduced_dim=m), U[m, k, h])\n"                    \
    "    return B[n, k, h]\n"
static const char two_layers[] =
    TWO_LAYERS("tanh(einsum(O[n, e, h], P[e, f] -> [n, f, h])), R[m, f, h]");
static const char two_layers_at_once[] = TWO_LAYERS("tanh(O[n, e, h]), S[m, e, h]");

// A projection between them sums over what the tasks have of their own.
static void test_two_layers_are_two_groups(void **state) {
    Fusion *fusion = passes_fuse(*state, two_layers);
    assert_int_equal(count_streams(fusion), 2);
    Group *first = stream_number(fusion, 0), *second = stream_number(fusion, 1);
    assert_int_equal(count_members(first, OP_CONTRACT), 2);
    assert_int_equal(count_members(second, OP_CONTRACT), 2);
    assert_int_equal(first->outputs.count, 1);
}

// With pointwise values alone between them a task has all that it needs for the second.
static void test_layers_without_a_projection_are_one_group(void **state) {
    Group *group = one_stream(*state, two_layers_at_once, "n h", "m");
    assert_int_equal(count_members(group, OP_CONTRACT), 4);
    assert_int_equal(group->outputs.count, 1);
}

static void test_mask_of_two_layers_is_computed_in_both(void **state) {
    Fusion *fusion = passes_fuse(*state, two_layers);
    const Value *mask = find_live(fusion->graph, OP_AND);
    for (uint32_t i = 0; i < 2; i++)
        assert_true(has_member(stream_number(fusion, i), mask));
    for (uint32_t i = 0; i < fusion->groups.count; i++)
        assert_false(group_stores(fusion->groups.at[i], mask));
}

// Relative positions: a table looked up for each pair is no tensor over the pairs.
static void test_bias_looked_up_by_position_is_in_the_group(void **state) {
    Fusion *fusion =
        passes_fuse(*state, SIZES "def F(Q[n, k, h], K[m, k, h], V[m, e, h], T[r, h]):\n"
                                  "    at[n, m] = i32(min(max(index(m) - index(n) + 16, 0), 31))\n"
                                  "    B[n, m, h] = gather(T[r, h], at[n, m], dim=r)\n"
                                  "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h]) + B[n, m, h]\n"
                                  "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
                                  "    return einsum(W[n, m, h], V[m, e, h] -> [n, e, h])\n");
    Group *group = assert_one_stream(fusion, "n h", "m");
    assert_true(has_member(group, find_live(fusion->graph, OP_GATHER)));
}

static void test_weights_returned_are_stored_by_the_group(void **state) {
    Fusion *fusion = passes_fuse(
        *state, SIZES "def F(Q[n, k, h], K[m, k, h], V[m, e, h]):\n"
                      "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h])\n"
                      "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
                      "    return einsum(W[n, m, h], V[m, e, h] -> [n, e, h]), W[n, m, h]\n");
    Group *group = assert_one_stream(fusion, "n h", "m");
    assert_int_equal(group->outputs.count, 2);
    assert_true(group_stores(group, output(fusion, 0)));
    assert_true(group_stores(group, output(fusion, 1)));
}

static const char with_logsumexp[] =
    SIZES "def F(Q[n, k, h], K[m, k, h], V[m, e, h]):\n"
          "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h])\n"
          "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
          "    z[n, h] = logsumexp(L[n, m, h], reduced_dim=m)\n"
          "    return einsum(W[n, m, h], V[m, e, h] -> [n, e, h]), z[n, h]\n";

static void test_logsumexp_returned_is_stored_by_the_group(void **state) {
    Fusion *fusion = passes_fuse(*state, with_logsumexp);
    Group *group = assert_one_stream(fusion, "n h", "m");
    assert_true(group_stores(group, output(fusion, 0)));
    assert_true(group_stores(group, output(fusion, 1)));
    assert_int_equal(count_members(group, OP_EXP), 1); // one row of powers for both
}

// ---- loops -------------------------------------------------------------------------------------

typedef struct {
    const Fusion *fusion;
    Group *group;
    StreamLoops *loops;
} Loops;

static Loops loops_of(Session *session, const char *text, bool rescales) {
    Plan *plan = passes_plan(session, text);
    const int64_t *extents = graph_typical_extents(plan->fusion->graph, session->arena);
    LowerRequest request = {.plan = plan, .machine = &passes_machine, .extents = extents};
    Group *group = stream_number(plan->fusion, 0);
    Lowering *lower = arena_new_of(session->arena, Lowering);
    lower_open(lower, &request, group, session->arena, session->arena);
    lower_arguments(lower);
    return (Loops){plan->fusion, group, stream_loops(lower, rescales)};
}

static uint32_t loop_of(const Loops *l, const Value *value) {
    return l->loops->done[value->id];
}

static void test_online_softmax_is_one_loop(void **state) {
    Loops l = loops_of(*state, multi_head, true);
    assert_int_equal(l.loops->n_loops, 1);
    for (uint32_t i = 0; i < l.group->members.count; i++) {
        const Value *value = l.group->members.at[i];
        bool summed = value->op == OP_SUM ||
                      (value->op == OP_CONTRACT && !dims_has(&value->dims, l.group->reduced.at[0]));
        assert_int_equal(l.loops->power[value->id] != NULL, summed);
    }
}

static void test_without_rescaling_the_maximum_comes_first(void **state) {
    Loops l = loops_of(*state, multi_head, false);
    assert_int_equal(l.loops->n_loops, 2);
    assert_int_equal(loop_of(&l, find_live(l.fusion->graph, OP_REDUCE_TOP)), 1);
    assert_int_equal(loop_of(&l, find_live(l.fusion->graph, OP_SUM)), 2);
}

// Each source head has a maximum of its own: mixed weights cannot be rescaled.
static void test_heads_that_are_mixed_need_a_second_loop(void **state) {
    Loops l = loops_of(*state, talking_heads, true);
    assert_int_equal(l.loops->n_loops, 2);
    assert_int_equal(loop_of(&l, find_live(l.fusion->graph, OP_REDUCE_TOP)), 1);
    assert_int_equal(loop_of(&l, find_live(l.fusion->graph, OP_SUM)), 1);
    assert_int_equal(loops_of(*state, talking_heads, false).loops->n_loops, 3);
}

// Mixing before the softmax changes nothing.
static void test_mixed_logits_need_one_loop(void **state) {
    Loops l = loops_of(*state,
                       SIZES "def F(Q[n, k, g], K[m, k, g], V[m, e, h], P_l[g, h]):\n"
                             "    J[n, m, g] = einsum(Q[n, k, g], K[m, k, g])\n"
                             "    L[n, m, h] = einsum(J[n, m, g], P_l[g, h])\n"
                             "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
                             "    return einsum(W[n, m, h], V[m, e, h] -> [n, e, h])\n",
                       true);
    assert_int_equal(l.loops->n_loops, 1);
}

// The powers are all that counts: what is zero, negated or multiplied is linear in them.
static void test_what_is_linear_in_the_powers_needs_one_loop(void **state) {
    Loops l = loops_of(*state,
                       SIZES "def F(Q[n, k, h], K[m, k, h], V[m, e, h], a[m]):\n"
                             "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h])\n"
                             "    top[n, h] = max(max(L[n, m, h], reduced_dim=m), -" LARGEST ")\n"
                             "    E[n, m, h] = exp(L[n, m, h] - min(top[n, h], " LARGEST "))\n"
                             "    U[n, m, h] = where(index(m) < index(n), -E[n, m, h] * a[m], 0)\n"
                             "    return einsum(U[n, m, h], V[m, e, h] -> [n, e, h])\n",
                       true);
    assert_int_equal(l.loops->n_loops, 1);
}

// An unbounded maximum is -inf before the first element, and powers relative to that are NaN.
static void test_shifts_that_may_be_infinite_are_not_rescaled_by(void **state) {
    Loops l = loops_of(*state,
                       SIZES "def F(Q[n, k, h], K[m, k, h], V[m, e, h]):\n"
                             "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h])\n"
                             "    E[n, m, h] = exp(L[n, m, h] - max(L[n, m, h], reduced_dim=m))\n"
                             "    U[n, m, h] = where(index(m) < index(n), E[n, m, h], 0)\n"
                             "    return einsum(U[n, m, h], V[m, e, h] -> [n, e, h])\n",
                       true);
    assert_int_equal(l.loops->n_loops, 2);
}

// But those of a softmax that is written out have a bounded one, and a factor.
static void test_softmaxes_that_are_written_out_need_one_loop(void **state) {
    Loops l = loops_of(*state,
                       SIZES "def F(Q[n, k, h], K[m, k, h], V[m, e, h], s[h]):\n"
                             "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h])\n"
                             "    top[n, h] = max(max(L[n, m, h], reduced_dim=m), s[h])\n"
                             "    E[n, m, h] = exp(L[n, m, h] - top[n, h])\n"
                             "    W = E / (exp(s - top) + sum(E[n, m, h], reduced_dim=m))\n"
                             "    return einsum(W, V[m, e, h] -> [n, e, h])\n",
                       true);
    assert_int_equal(l.loops->n_loops, 1);
}

// Mixed and mixed back, the weights have the dims of the maxima again, but not one maximum each.
static void test_heads_that_are_mixed_back_need_a_second_loop(void **state) {
    Loops l = loops_of(*state,
                       SIZES "def F(Q[n, k, h], K[m, k, h], V[m, e, h], A[h, g], B[g, h]):\n"
                             "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h])\n"
                             "    E[n, m, h] = exp(L[n, m, h] - max(L[n, m, h], reduced_dim=m))\n"
                             "    U[n, m, g] = einsum(E[n, m, h], A[h, g])\n"
                             "    T[n, m, g] = where(index(m) <= index(n), U[n, m, g], 0)\n"
                             "    S[n, m, h] = einsum(T[n, m, g], B[g, h])\n"
                             "    return einsum(S[n, m, h], V[m, e, h] -> [n, e, h])\n",
                       true);
    assert_int_equal(l.loops->n_loops, 2);
}

static void test_weights_returned_need_a_second_loop(void **state) {
    Loops l = loops_of(*state,
                       SIZES "def F(Q[n, k, h], K[m, k, h], V[m, e, h]):\n"
                             "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h])\n"
                             "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
                             "    return einsum(W[n, m, h], V[m, e, h] -> [n, e, h]), W[n, m, h]\n",
                       true);
    assert_int_equal(l.loops->n_loops, 2);
}

static void test_logsumexp_returned_needs_one_loop(void **state) {
    assert_int_equal(loops_of(*state, with_logsumexp, true).loops->n_loops, 1);
}

static void test_sigmoid_attention_is_one_loop(void **state) {
    Loops l = loops_of(*state,
                       "dim k = 64, e = 64, h = 8, n = 2048, m = 2048\n"
                       "def F(Q[n, k, h], K[m, k, h], V[m, e, h]):\n"
                       "    W[n, m, h] = sigmoid(einsum(Q[n, k, h], K[m, k, h]))\n"
                       "    return einsum(W[n, m, h], V[m, e, h] -> [n, e, h])\n",
                       false);
    assert_int_equal(l.loops->n_loops, 1);
}

// Linear in no power: the powers are bent before they are summed.
static void test_bent_weights_need_a_second_loop(void **state) {
    Loops l = loops_of(*state,
                       SIZES "def F(Q[n, k, h], K[m, k, h], V[m, e, h]):\n"
                             "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h])\n"
                             "    W[n, m, h] = tanh(softmax(L[n, m, h], reduced_dim=m))\n"
                             "    return einsum(W[n, m, h], V[m, e, h] -> [n, e, h])\n",
                       true);
    assert_int_equal(l.loops->n_loops, 2);
}

static void test_softmax_of_a_softmax(void **state) {
    Loops l = loops_of(*state,
                       SIZES "def F(Q[n, k, h], K[m, k, h], V[m, e, h]):\n"
                             "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h])\n"
                             "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
                             "    U[n, m, h] = softmax(W[n, m, h], reduced_dim=m)\n"
                             "    return einsum(U[n, m, h], V[m, e, h] -> [n, e, h])\n",
                       true);
    assert_int_equal(l.loops->n_loops, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(multi_head),
        TEST(talking_heads),
        TEST(general_bilinear),
        TEST(grouped_heads),
        TEST(dynamic_projections),
        TEST(difference_of_two_softmaxes),
        TEST(sigmoid_attention),
        TEST(softmax_over_the_queries),
        TEST(self_attention_reads_one_input_twice),
        TEST(halves_are_widened_ahead_of_the_group),
        TEST(one_query_is_not_streamed),
        TEST(few_queries_are_not_streamed),
        TEST(feed_forward_is_not_streamed),
        TEST(dims_of_parameters_are_not_streamed),
        TEST(what_cannot_be_cut_bars_its_group),
        TEST(groups_are_convex),
        TEST(two_layers_are_two_groups),
        TEST(layers_without_a_projection_are_one_group),
        TEST(mask_of_two_layers_is_computed_in_both),
        TEST(bias_looked_up_by_position_is_in_the_group),
        TEST(weights_returned_are_stored_by_the_group),
        TEST(logsumexp_returned_is_stored_by_the_group),
        TEST(online_softmax_is_one_loop),
        TEST(without_rescaling_the_maximum_comes_first),
        TEST(heads_that_are_mixed_need_a_second_loop),
        TEST(mixed_logits_need_one_loop),
        TEST(what_is_linear_in_the_powers_needs_one_loop),
        TEST(shifts_that_may_be_infinite_are_not_rescaled_by),
        TEST(softmaxes_that_are_written_out_need_one_loop),
        TEST(heads_that_are_mixed_back_need_a_second_loop),
        TEST(weights_returned_need_a_second_loop),
        TEST(logsumexp_returned_needs_one_loop),
        TEST(sigmoid_attention_is_one_loop),
        TEST(bent_weights_need_a_second_loop),
        TEST(softmax_of_a_softmax),
    };
    return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
