// SPDX-License-Identifier: Apache-2.0
// graph_fuse: which values share a kernel, what is stored, and the verifier that guards it.
#include "passes_fixture.h"

#include <string.h>

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

static void assert_groups(const Fusion *fusion, const char *kinds) {
    Text text = {.arena = fusion->graph->arena};
    static const char letters[] = {
        [GROUP_CONTRACT] = 'C', [GROUP_ROWS] = 'R',  [GROUP_MAP] = 'M',
        [GROUP_STREAM] = 'S',   [GROUP_ORDER] = 'O', [GROUP_SCATTER] = '+'};
    text_add(&text, "");
    for (uint32_t i = 0; i < fusion->groups.count; i++)
        text_addn(&text, &letters[fusion->groups.at[i]->kind], 1);
    assert_string_equal(text.at, kinds);
}

// ---- contractions ------------------------------------------------------------------------------

static void test_bias_activation_residual_are_an_epilogue(void **state) {
    Fusion *fusion = passes_fuse(*state, "def F(X[n, d], W[d, d_2], b[d_2], R[n, d_2]):\n"
                                         "    H[n, d_2] = einsum(X[n, d], W[d, d_2]) + b[d_2]\n"
                                         "    return gelu(H[n, d_2]) + R[n, d_2]\n");
    assert_groups(fusion, "C");
    assert_int_equal(fusion->groups.at[0]->outputs.count, 1);
}

static void test_residual_of_another_contraction(void **state) {
    Fusion *fusion = passes_fuse(*state, "def F(X[n, d], V[d, f], W[d, f]):\n"
                                         "    A[n, f] = einsum(X[n, d], V[d, f])\n"
                                         "    B[n, f] = einsum(X[n, d], W[d, f])\n"
                                         "    return A[n, f] * sigmoid(B[n, f])\n");
    assert_groups(fusion, "CC");
    assert_int_equal(fusion->groups.at[1]->outputs.count, 1);
    assert_int_equal(fusion->groups.at[1]->outputs.at[0]->op, output(fusion, 0)->op);
}

// The sum cannot be an epilogue of A: it needs B, which needs A.
static void test_no_group_needs_itself(void **state) {
    Fusion *fusion = passes_fuse(*state, "def F(X[n, d], V[d, f], W[f, g], U[g, f]):\n"
                                         "    A[n, f] = einsum(X[n, d], V[d, f])\n"
                                         "    B[n, g] = exp(einsum(A[n, f], W[f, g]))\n"
                                         "    C[n, f] = einsum(B[n, g], U[g, f])\n"
                                         "    return A[n, f] + C[n, f]\n");
    assert_groups(fusion, "CCC");
    assert_ptr_equal(find_group(fusion, output(fusion, 0)), fusion->groups.at[2]);
}

static void test_cheap_prologue_is_in_the_contraction(void **state) {
    Fusion *fusion = passes_fuse(*state, "def F(X[n, d]: bf16, W[d, f]):\n"
                                         "    return einsum(f32(X[n, d]), W[d, f] -> [n, f])\n");
    assert_groups(fusion, "C");
    assert_int_equal(fusion->groups.at[0]->members.count, 2);
}

static void test_costly_prologue_is_stored(void **state) {
    Fusion *fusion = passes_fuse(*state, "def F(X[n, d], W[d, f]):\n"
                                         "    return einsum(tanh(X[n, d]), W[d, f] -> [n, f])\n");
    assert_groups(fusion, "MC");
}

static void test_value_with_other_readers_is_stored_too(void **state) {
    Fusion *fusion = passes_fuse(*state, "def F(X[n, d], W[d, f], V[f, d]):\n"
                                         "    A[n, f] = einsum(X[n, d], W[d, f])\n"
                                         "    B[n, f] = max(A[n, f], 0)\n"
                                         "    Y[n, d] = einsum(B[n, f], V[f, d])\n"
                                         "    Z[n, d] = einsum(A[n, f], V[f, d])\n"
                                         "    return Y[n, d], Z[n, d]\n");
    assert_groups(fusion, "CCC");
    assert_int_equal(fusion->groups.at[0]->outputs.count, 2);
}

// ---- masks and positions -----------------------------------------------------------------------

static void test_mask_is_computed_where_it_is_needed(void **state) {
    Fusion *fusion = passes_fuse(
        *state,
        "def F(Q[n, k, h], K[m, k, h], doc[n]: i32, memory[m]: i32):\n"
        "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h])\n"
        "    A[n, m, h] = where(index(m) <= index(n) and doc[n] == memory[m], L[n, m, h], -inf)\n"
        "    return softmax(A[n, m, h], reduced_dim=m)\n");
    assert_groups(fusion, "CR");
}

static void test_mask_scale_softmax_of_an_input_are_one_group(void **state) {
    Fusion *fusion = passes_fuse(
        *state, "def F(S[n, m, h], k[]):\n"
                "    A[n, m, h] = where(index(m) <= index(n), S[n, m, h] / sqrt(k), -inf)\n"
                "    return softmax(A[n, m, h], reduced_dim=m)\n");
    assert_groups(fusion, "R");
    assert_int_equal(fusion->groups.at[0]->outputs.count, 1);
}

static void test_mask_of_two_softmaxes_is_in_both(void **state) {
    Fusion *fusion = passes_fuse(
        *state,
        "def F(S[n, m, h], T[n, m, h]):\n"
        "    A[n, m, h] = softmax(where(index(m) <= index(n), S[n, m, h], -inf), reduced_dim=m)\n"
        "    B[n, m, h] = softmax(where(index(m) <= index(n), T[n, m, h], -inf), reduced_dim=m)\n"
        "    return A[n, m, h], B[n, m, h]\n");
    assert_groups(fusion, "RR");
    const Value *mask = find_live(fusion->graph, OP_LE);
    for (uint32_t i = 0; i < 2; i++) {
        const Group *group = fusion->groups.at[i];
        uint32_t found = 0;
        for (uint32_t k = 0; k < group->members.count; k++)
            found += group->members.at[k] == mask;
        assert_int_equal(found, 1);
        assert_false(group_stores(group, mask));
    }
}

static void test_costly_table_is_stored_once(void **state) {
    Fusion *fusion = passes_fuse(*state, "dim n = 64, d = 64\n"
                                         "def F(X[b, n, d], Y[b, n, d]):\n"
                                         "    P[n, d] = sin(index(n) / (1.0 + index(d)))\n"
                                         "    A[b, n, d] = X[b, n, d] + P[n, d]\n"
                                         "    B[b, n, d] = Y[b, n, d] + P[n, d]\n"
                                         "    return A[b, n, d], B[b, n, d]\n");
    assert_groups(fusion, "MMM");
}

// ---- rows --------------------------------------------------------------------------------------

static void test_layer_norm_is_one_group(void **state) {
    Fusion *fusion = passes_fuse(*state, "def F(X[n, d], gain[d], bias[d]):\n"
                                         "    c[n, d] = X[n, d] - mean(X[n, d], reduced_dim=d)\n"
                                         "    v[n] = mean(c[n, d] ** 2, reduced_dim=d)\n"
                                         "    Z[n, d] = c[n, d] * rsqrt(v[n] + 1e-5) * gain[d]\n"
                                         "    return Z[n, d] + bias[d]\n");
    assert_groups(fusion, "R");
    assert_string_equal(dims_text(fusion->graph, &fusion->groups.at[0]->rows), "n");
    assert_string_equal(dims_text(fusion->graph, &fusion->groups.at[0]->reduced), "d");
    assert_int_equal(fusion->groups.at[0]->outputs.count, 1);
}

static void test_softmax_written_out_is_one_group(void **state) {
    Fusion *fusion =
        passes_fuse(*state, "def F(X[n, m, h]):\n"
                            "    E[n, m, h] = exp(X[n, m, h] - max(X[n, m, h], reduced_dim=m))\n"
                            "    return E[n, m, h] / sum(E[n, m, h], reduced_dim=m)\n");
    assert_groups(fusion, "R");
}

static void test_other_rows_are_another_group(void **state) {
    Fusion *fusion = passes_fuse(*state, "def F(X[n, m]):\n"
                                         "    A[n, m] = softmax(X[n, m], reduced_dim=m)\n"
                                         "    return softmax(A[n, m], reduced_dim=n)\n");
    assert_groups(fusion, "RR");
}

static void test_norm_after_a_residual(void **state) {
    Fusion *fusion =
        passes_fuse(*state, "def F(X[n, d], H[n, f], W[f, d]):\n"
                            "    Y[n, d] = X[n, d] + einsum(H[n, f], W[f, d] -> [n, d])\n"
                            "    Z[n, d] = Y[n, d] - mean(Y[n, d], reduced_dim=d)\n"
                            "    return Y[n, d], Z[n, d]\n");
    assert_groups(fusion, "CR");
    assert_true(group_stores(fusion->groups.at[0], output(fusion, 0)));
}

// One task would do all the work of the second sweep.
static void test_sweep_after_a_total_is_a_group_of_its_own(void **state) {
    Fusion *fusion =
        passes_fuse(*state, "def F(X[n, d]):\n"
                            "    return X[n, d] / sum(X[n, d] * X[n, d], reduced_dim=(n, d))\n");
    assert_groups(fusion, "RM");
}

// ---- moves -------------------------------------------------------------------------------------

static void test_embedding_and_positions_are_one_group(void **state) {
    Fusion *fusion =
        passes_fuse(*state, "def F(E[v, d], P[n, d], ids[b, n]: i32):\n"
                            "    return gather(E[v, d], ids[b, n], dim=v) * 2 + P[n, d]\n");
    assert_groups(fusion, "M");
}

static void test_what_a_move_reads_is_stored(void **state) {
    Fusion *fusion = passes_fuse(*state, "dim d = 8, e = 4\n"
                                         "def F(X[n, d]):\n"
                                         "    A[n, d] = X[n, d] * 2\n"
                                         "    B[n, e] = slice(A[n, d], d, 2, 6)\n"
                                         "    return B[n, e] + 1\n");
    assert_groups(fusion, "MM");
    assert_int_equal(fusion->groups.at[0]->outputs.count, 1);
}

static void test_rename_is_another_way_to_read(void **state) {
    Fusion *fusion = passes_fuse(*state, "dim m like n\n"
                                         "def F(X[n, d]):\n"
                                         "    A[n, d] = exp(X[n, d])\n"
                                         "    return einsum(A[n, d], A[m, d] -> [n, m])\n");
    assert_groups(fusion, "MC");
    assert_int_equal(fusion->groups.at[1]->members.count, 2);
}

static void test_renames_one_after_another_are_one(void **state) {
    const char *text = "dim m like n, e like d\n"
                       "def F(X[n, d]):\n"
                       "    A[m, d] = X[m, d]\n"
                       "    return einsum(X[n, d], A[m, e] -> [n, m, d, e])\n";
    Fusion *fusion = passes_fuse(*state, text);
    assert_groups(fusion, "M");
    assert_same_results(passes_build(*state, text), fusion->graph, 3, 1);
}

// A position of a position, renamed; what is computed for it alone is computed at it.
static void test_positions_are_part_of_the_access(void **state) {
    const char *text = "dim d = 4, m like n\n"
                       "def F(S[n, m, d], X[n, d]):\n"
                       "    A[m] = S[0, m, 1]\n"
                       "    T[n, d] = tanh(X[n, d] * X[n, d])\n"
                       "    B[n] = A[n] + T[n, 3]\n"
                       "    return B[n] * X[n, 2]\n";
    Fusion *fusion = passes_fuse(*state, text);
    assert_groups(fusion, "M");
    for (uint32_t i = 0; i < fusion->groups.at[0]->members.count; i++)
        assert_int_equal(fusion->groups.at[0]->members.at[i]->dims.count, 1);
    assert_same_results(passes_build(*state, text), fusion->graph, 3, 1);
}

// s is read at other rows than the one that is worked off.
static void test_rename_of_a_row_value_is_read_after_all_rows(void **state) {
    Fusion *fusion = passes_fuse(*state, "dim m like n\n"
                                         "def F(X[n, m]):\n"
                                         "    s[n] = sum(exp(X[n, m]), reduced_dim=m)\n"
                                         "    return X[n, m] / s[n] - s[m]\n");
    assert_groups(fusion, "RM");
}

// ---- results -----------------------------------------------------------------------------------

static void test_results_that_have_no_buffer_of_their_own_are_copies(void **state) {
    Fusion *fusion = passes_fuse(*state, "def F(X[n, d]):\n"
                                         "    A[n, d] = exp(X[n, d])\n"
                                         "    B[n, d] = A[n, d]\n"
                                         "    C[n, d] = A[n, d]\n"
                                         "    D[n, d] = X[n, d]\n"
                                         "    one = 1.0\n"
                                         "    return A[n, d], B[n, d], C[n, d], D[n, d], one\n");
    for (uint32_t i = 0; i < 5; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_ptr_not_equal(output(fusion, i), output(fusion, k));
    assert_int_equal(output(fusion, 1)->op, OP_COPY);
    assert_int_equal(output(fusion, 3)->op, OP_COPY);
    assert_int_equal(output(fusion, 4)->op, OP_COPY);
}

static void test_scalars_work(void **state) {
    Fusion *fusion = passes_fuse(*state, "def F(X[n], s[], t[]):\n"
                                         "    total = sum(X[n], reduced_dim=n)\n"
                                         "    return total * s + t, s * t\n");
    assert_groups(fusion, "RM");
    assert_int_equal(fusion->groups.at[0]->outputs.count, 1);
}

static void test_programs_fuse_and_keep_their_results(void **state) {
    for (uint32_t i = 0; passes_programs[i]; i++)
        assert_same_results(passes_build(*state, passes_programs[i]),
                            passes_fuse(*state, passes_programs[i])->graph, 4, i);
}

// Text of the groups builds to the same graph.
static void test_printed_groups_parse_back(void **state) {
    Session *session = *state;
    for (uint32_t i = 0; passes_programs[i]; i++) {
        Fusion *fusion = passes_fuse(session, passes_programs[i]);
        Text text = {.arena = session->arena};
        fusion_print(fusion, &text);
        assert_non_null(strstr(text.at, "# group 0: "));
        Graph *again = passes_build(session, text.at);
        assert_true(graph_hash(again) == graph_hash(fusion->graph));
    }
}

// ---- the verifier ------------------------------------------------------------------------------

static const char two_groups[] =
    "def F(X[n, d], W[d, f], V[f, g]):\n"
    "    A[n, f] = max(einsum(X[n, d], W[d, f] -> [n, f]), 0)\n"
    "    return softmax(einsum(A[n, f], V[f, g] -> [n, g]), reduced_dim=g)\n";

static void test_verifier_sees_wrong_order(void **state) {
    Fusion *fusion = passes_fuse(*state, two_groups);
    Group *first = fusion->groups.at[0];
    fusion->groups.at[0] = fusion->groups.at[1];
    fusion->groups.at[1] = first;
    expect_ice("not there yet", fusion_verify(fusion, "test"));
}

static void test_verifier_sees_missing_output(void **state) {
    Fusion *fusion = passes_fuse(*state, two_groups);
    fusion->groups.at[0]->outputs.count = 0;
    expect_ice("stores nothing", fusion_verify(fusion, "test"));
}

static void test_verifier_sees_missing_result(void **state) {
    Fusion *fusion = passes_fuse(*state, two_groups);
    fusion->groups.count--;
    expect_ice("stored by no group", fusion_verify(fusion, "test"));
}

static void test_verifier_sees_value_stored_twice(void **state) {
    Fusion *fusion = passes_fuse(*state, two_groups);
    vec_push(fusion->graph->arena, &fusion->groups, fusion->groups.at[2]);
    expect_ice("stored twice", fusion_verify(fusion, "test"));
}

static void test_verifier_sees_other_rows(void **state) {
    Fusion *fusion = passes_fuse(*state, two_groups);
    Group *rows = fusion->groups.at[2];
    DimList swapped = rows->rows;
    rows->rows = rows->reduced;
    rows->reduced = swapped;
    expect_ice("other rows", fusion_verify(fusion, "test"));
}

static void test_verifier_sees_second_contraction(void **state) {
    Fusion *fusion = passes_fuse(*state, two_groups);
    Group *first = fusion->groups.at[0];
    vec_push(fusion->graph->arena, &first->members, fusion->groups.at[1]->members.at[0]);
    expect_ice("second contraction", fusion_verify(fusion, "test"));
}

static void test_verifier_sees_move_of_a_member(void **state) {
    Fusion *fusion = passes_fuse(*state, "def F(X[n, d]):\n"
                                         "    A[n, d] = X[n, d] * 2\n"
                                         "    return shift(A[n, d], n, 1)\n");
    Group *first = fusion->groups.at[0], *second = fusion->groups.at[1];
    vec_push(fusion->graph->arena, &first->members, second->members.at[0]);
    first->outputs = second->outputs;
    fusion->groups.count = 1;
    expect_ice("not in memory", fusion_verify(fusion, "test"));
}

static void test_verifier_sees_members_out_of_order(void **state) {
    Fusion *fusion = passes_fuse(*state, two_groups);
    Value **members = fusion->groups.at[0]->members.at, *first = members[0];
    members[0] = members[1];
    members[1] = first;
    expect_ice("not in order", fusion_verify(fusion, "test"));
}

// ---- the verifier, on streamed groups ----------------------------------------------------------

// Two streamed groups, one after the other.
static const char attention[] =
    "dim k = 64, e = 64, h = 8, g = 8\n"
    "def F(Q[n, k, h], K[m, k, h], V[m, e, g], P_w[h, g], P_r[e, k], R[m, k, g]):\n"
    "    W[n, m, h] = softmax(einsum(Q[n, k, h], K[m, k, h]), reduced_dim=m)\n"
    "    U[n, m, g] = einsum(W[n, m, h], P_w[h, g])\n"
    "    O[n, e, g] = einsum(U[n, m, g], V[m, e, g])\n"
    "    A[n, k, g] = tanh(einsum(tanh(O[n, e, g]), P_r[e, k] -> [n, k, g]))\n"
    "    T[n, m, g] = softmax(einsum(A[n, k, g], R[m, k, g]), reduced_dim=m)\n"
    "    Y[n, e, g] = einsum(T[n, m, g], V[m, e, g])\n"
    "    return Y[n, e, g]\n";

static Group *stream_number(const Fusion *fusion, uint32_t number) {
    for (uint32_t i = 0; i < fusion->groups.count; i++)
        if (fusion->groups.at[i]->kind == GROUP_STREAM && number-- == 0)
            return fusion->groups.at[i];
    fail_msg("there are too few streamed groups");
    return NULL;
}

static void insert_member(const Fusion *fusion, Group *group, Value *value) {
    vec_push(fusion->graph->arena, &group->members, value);
    for (uint32_t i = group->members.count - 1; i > 0; i--)
        if (group->members.at[i - 1]->id > value->id) {
            group->members.at[i] = group->members.at[i - 1];
            group->members.at[i - 1] = value;
        }
}

static void test_verifier_sees_several_streamed_dims(void **state) {
    Fusion *fusion = passes_fuse(*state, attention);
    dims_add(&stream_number(fusion, 0)->reduced, find_dim(fusion->graph, "e"));
    expect_ice("2 streamed dims", fusion_verify(fusion, "test"));
}

static void test_verifier_sees_no_rows(void **state) {
    Fusion *fusion = passes_fuse(*state, attention);
    stream_number(fusion, 0)->rows.count = 0;
    expect_ice("no rows", fusion_verify(fusion, "test"));
}

static void test_verifier_sees_tasks_along_the_streamed_dim(void **state) {
    Fusion *fusion = passes_fuse(*state, attention);
    dims_add(&stream_number(fusion, 0)->rows, find_dim(fusion->graph, "m"));
    expect_ice("cut along the streamed dim", fusion_verify(fusion, "test"));
}

static void test_verifier_sees_nothing_streamed(void **state) {
    Fusion *fusion = passes_fuse(*state, attention);
    stream_number(fusion, 0)->reduced.at[0] = find_dim(fusion->graph, "e");
    expect_ice("nothing is reduced over its streamed dim", fusion_verify(fusion, "test"));
}

// Weights are mixed over the heads, which are no rows therefore.
static void test_verifier_sees_reduced_rows(void **state) {
    Fusion *fusion = passes_fuse(*state, attention);
    dims_add(&stream_number(fusion, 0)->rows, find_dim(fusion->graph, "h"));
    expect_ice("reduces a dim of the tasks", fusion_verify(fusion, "test"));
}

// A product of parameters is a member of the group, for each task to compute.
static void test_verifier_sees_what_every_task_stores(void **state) {
    Fusion *fusion =
        passes_fuse(*state, "dim k = 64, h = 8, g = 8\n"
                            "def F(Q[n, k, g], K[m, k, g], V[m, k, h], P[g, h]):\n"
                            "    J[n, m, g] = einsum(Q[n, k, g], K[m, k, g])\n"
                            "    L[n, m, h] = einsum(J[n, m, g], P[g, h])\n"
                            "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
                            "    return einsum(W[n, m, h], V[m, k, h] -> [n, k, h])\n");
    Group *group = stream_number(fusion, 0);
    Value *matrix = NULL;
    for (uint32_t i = 0; i < group->members.count; i++)
        if (!dims_has(&group->members.at[i]->dims, find_dim(fusion->graph, "n")))
            matrix = group->members.at[i];
    assert_non_null(matrix);
    vec_push(fusion->graph->arena, &group->outputs, matrix);
    expect_ice("stored by every task", fusion_verify(fusion, "test"));
}

static void test_verifier_sees_a_wide_value_read_outside(void **state) {
    Fusion *fusion = passes_fuse(*state, "dim k = 64, h = 8\n"
                                         "def F(Q[n, k, h], K[m, k, h], V[m, k, h]):\n"
                                         "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h])\n"
                                         "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
                                         "    O[n, k, h] = einsum(W[n, m, h], V[m, k, h])\n"
                                         "    c[m, h] = sum(W[n, m, h], reduced_dim=n)\n"
                                         "    return O[n, k, h], c[m, h]\n");
    Group *group = stream_number(fusion, 0);
    assert_int_equal(group->outputs.count, 2);
    const Value *weights = output(fusion, 1)->args[0];
    if (group->outputs.at[0] == weights)
        group->outputs.at[0] = group->outputs.at[1];
    group->outputs.count = 1;
    expect_ice("not there yet", fusion_verify(fusion, "test"));
}

static void test_verifier_sees_a_running_sum_in_pieces(void **state) {
    Fusion *fusion =
        passes_fuse(*state, "dim k = 64\n"
                            "def F(Q[n, k], K[m, k], V[m, k], B[n, m]: f64):\n"
                            "    W[n, m] = softmax(einsum(Q[n, k], K[m, k]), reduced_dim=m)\n"
                            "    O[n, k] = einsum(W[n, m], V[m, k])\n"
                            "    return O[n, k], cumsum(B[n, m], dim=m)\n");
    insert_member(fusion, stream_number(fusion, 0), (Value *)output(fusion, 1));
    expect_ice("for a rows group", fusion_verify(fusion, "test"));
}

static void test_verifier_sees_moves_between_pieces(void **state) {
    Fusion *fusion =
        passes_fuse(*state, "dim k = 64\n"
                            "def F(Q[n, k], K[m, k], V[m, k], B[n, m]):\n"
                            "    W[n, m] = softmax(einsum(Q[n, k], K[m, k]), reduced_dim=m)\n"
                            "    O[n, k] = einsum(W[n, m], V[m, k])\n"
                            "    return O[n, k], shift(B[n, m], m, 1)\n");
    insert_member(fusion, stream_number(fusion, 0), (Value *)output(fusion, 1));
    expect_ice("moves elements between pieces", fusion_verify(fusion, "test"));
}

// What is pointwise may be computed again; a sum over a row is computed once.
static void test_verifier_sees_a_reduction_in_two_groups(void **state) {
    Fusion *fusion = passes_fuse(*state, "def F(S[n, m], T[n, m]):\n"
                                         "    A[n, m] = softmax(S[n, m], reduced_dim=m)\n"
                                         "    B[n, m] = softmax(T[n, m], reduced_dim=m)\n"
                                         "    return A[n, m], B[n, m]\n");
    assert_groups(fusion, "RR");
    Value *top = fusion->groups.at[0]->members.at[0];
    assert_int_equal(top->op, OP_REDUCE_TOP);
    insert_member(fusion, fusion->groups.at[1], top);
    expect_ice("is computed by group 0", fusion_verify(fusion, "test"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(bias_activation_residual_are_an_epilogue),
        TEST(residual_of_another_contraction),
        TEST(no_group_needs_itself),
        TEST(cheap_prologue_is_in_the_contraction),
        TEST(costly_prologue_is_stored),
        TEST(value_with_other_readers_is_stored_too),
        TEST(mask_is_computed_where_it_is_needed),
        TEST(mask_scale_softmax_of_an_input_are_one_group),
        TEST(mask_of_two_softmaxes_is_in_both),
        TEST(costly_table_is_stored_once),
        TEST(layer_norm_is_one_group),
        TEST(softmax_written_out_is_one_group),
        TEST(other_rows_are_another_group),
        TEST(norm_after_a_residual),
        TEST(sweep_after_a_total_is_a_group_of_its_own),
        TEST(embedding_and_positions_are_one_group),
        TEST(what_a_move_reads_is_stored),
        TEST(rename_is_another_way_to_read),
        TEST(renames_one_after_another_are_one),
        TEST(positions_are_part_of_the_access),
        TEST(rename_of_a_row_value_is_read_after_all_rows),
        TEST(results_that_have_no_buffer_of_their_own_are_copies),
        TEST(scalars_work),
        TEST(programs_fuse_and_keep_their_results),
        TEST(printed_groups_parse_back),
        TEST(verifier_sees_wrong_order),
        TEST(verifier_sees_missing_output),
        TEST(verifier_sees_missing_result),
        TEST(verifier_sees_value_stored_twice),
        TEST(verifier_sees_other_rows),
        TEST(verifier_sees_second_contraction),
        TEST(verifier_sees_move_of_a_member),
        TEST(verifier_sees_members_out_of_order),
        TEST(verifier_sees_several_streamed_dims),
        TEST(verifier_sees_no_rows),
        TEST(verifier_sees_tasks_along_the_streamed_dim),
        TEST(verifier_sees_nothing_streamed),
        TEST(verifier_sees_reduced_rows),
        TEST(verifier_sees_what_every_task_stores),
        TEST(verifier_sees_a_wide_value_read_outside),
        TEST(verifier_sees_a_running_sum_in_pieces),
        TEST(verifier_sees_moves_between_pieces),
        TEST(verifier_sees_a_reduction_in_two_groups),
    };
    return cmocka_run_group_tests_name("fuse", tests, NULL, NULL);
}
