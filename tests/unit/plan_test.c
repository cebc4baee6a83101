// SPDX-License-Identifier: Apache-2.0
// graph_layout and graph_plan: memory orders that the kernels want, and memory that is shared
// safely.
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

static const Buffer *find_buffer(const Plan *plan, const Value *value) {
    const Buffer *buffer = plan_buffer(plan, value);
    if (!buffer)
        fail_msg("value %u has no buffer", value->id);
    return buffer;
}

static const char *order_text(const Plan *plan, const Value *value) {
    return dims_text(plan->fusion->graph, &find_buffer(plan, value)->memory.order);
}

// ---- layout ------------------------------------------------------------------------------------

#define SIZES "dim n = 512, m = 512, d = 768, h = 12, k = 64, h_k = 12, h_v = 12\n"

static const char multi_head[] =
    SIZES "def F(X[n, d], M[m, d], P_q[d, k, h], P_k[d, k, h], P_v[d, k, h], P_o[d, k, h]):\n"
          "    Q[n, k, h] = einsum(X[n, d], P_q[d, k, h])\n"
          "    K[m, k, h] = einsum(M[m, d], P_k[d, k, h])\n"
          "    V[m, k, h] = einsum(M[m, d], P_v[d, k, h])\n"
          "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h])\n"
          "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
          "    O[n, k, h] = einsum(W[n, m, h], V[m, k, h])\n"
          "    return einsum(O[n, k, h], P_o[d, k, h] -> [n, d])\n";
static const char talking_heads[] =
    SIZES "def F(Q[h_k, n, k], K[h_k, m, k], P_l[h_k, h], P_w[h, h_v], V[h_v, m, k]):\n"
          "    J[n, m, h_k] = einsum(Q[n, k, h_k], K[m, k, h_k])\n"
          "    L[n, m, h] = einsum(J[n, m, h_k], P_l[h_k, h])\n"
          "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
          "    U[n, m, h_v] = einsum(W[n, m, h], P_w[h, h_v])\n"
          "    O[n, h_v, k] = einsum(U[n, m, h_v], V[m, k, h_v])\n"
          "    return O[n, h_v, k]\n";

static const char *named_order(const Plan *plan, const char *name) {
    return order_text(plan, find_named(plan->fusion->graph, name));
}

static void test_orders_of_multi_head_attention(void **state) {
    Plan *plan = passes_plan_unstreamed(*state, multi_head);
    const Graph *graph = plan->fusion->graph;
    assert_string_equal(named_order(plan, "Q"), "h n k");
    assert_string_equal(named_order(plan, "K"), "h k m");
    assert_string_equal(order_text(plan, find_live(graph, OP_REDUCE_TOP)->args[0]), "h n m");
    assert_string_equal(order_text(plan, find_live(graph, OP_EXP2)), "h n m");
    assert_string_equal(named_order(plan, "V"), "h m k");
    assert_string_equal(named_order(plan, "O"), "n h k");
}

// K is streamed past along its lanes, V along its rows.
static void test_orders_of_streamed_attention(void **state) {
    Plan *plan = passes_plan(*state, multi_head);
    const Graph *graph = plan->fusion->graph;
    const Value *logits = find_live(graph, OP_REDUCE_TOP)->args[0];
    const Value *keys = find_named(graph, "K");
    const Value *queries = logits->args[0] == keys ? logits->args[1] : logits->args[0];
    assert_string_equal(order_text(plan, queries), "h n k");
    assert_string_equal(order_text(plan, keys), "h k m");
    assert_int_equal(find_buffer(plan, keys)->memory.panel, find_dim(graph, "m"));
    assert_int_equal(find_buffer(plan, keys)->memory.panel_width, 32);
    assert_string_equal(named_order(plan, "V"), "h m k");
    assert_int_equal(find_buffer(plan, find_named(graph, "V"))->memory.panel, find_dim(graph, "k"));
    assert_null(plan_buffer(plan, logits));
}

static void test_heads_that_are_mixed_lie_beside_the_lanes(void **state) {
    Plan *plan = passes_plan_unstreamed(*state, talking_heads);
    const Graph *graph = plan->fusion->graph;
    assert_string_equal(order_text(plan, find_live(graph, OP_EXP2)), "n h m");
    assert_string_equal(order_text(plan, find_live(graph, OP_REDUCE_TOP)->args[0]), "n h m");
    assert_string_equal(named_order(plan, "J"), "n h_k m");
}

// The matrix that mixes the heads differs for each memory position: products along the positions.
static void test_mixing_per_position_runs_along_the_positions(void **state) {
    Plan *plan = passes_plan_unstreamed(
        *state, SIZES "def F(Q[h_k, n, k], K[h_k, m, k], X[n, d], M[m, d], A[d, h_k, h],\n"
                      "        B[d, h_k, h]):\n"
                      "    J[n, m, h_k] = einsum(Q[n, k, h_k], K[m, k, h_k])\n"
                      "    R[n, h_k, h] = einsum(X[n, d], A[d, h_k, h])\n"
                      "    S[m, h_k, h] = einsum(M[m, d], B[d, h_k, h])\n"
                      "    L[n, m, h] = (einsum(J[n, m, h_k], R[n, h_k, h])\n"
                      "        + einsum(J[n, m, h_k], S[m, h_k, h]))\n"
                      "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
                      "    return W[n, h, m]\n");
    const Graph *graph = plan->fusion->graph;
    uint32_t with_positions = 0;
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        const Buffer *buffer = &plan->buffers.at[i];
        DimId last = buffer->memory.order.at[buffer->memory.order.count - 1];
        if (buffer->role != BUFFER_WORK || !dims_has(&buffer->memory.order, find_dim(graph, "m")))
            continue;
        with_positions++;
        assert_int_equal(last, find_dim(graph, "m"));
    }
    assert_true(with_positions >= 4);
}

static void test_inputs_and_results_keep_their_order(void **state) {
    Plan *plan = passes_plan(*state, "def F(A[k, n], B[m, k]):\n"
                                     "    C[n, m] = einsum(A[k, n], B[m, k])\n"
                                     "    return C[m, n]\n");
    const Graph *graph = plan->fusion->graph;
    assert_string_equal(order_text(plan, graph->inputs.at[0]), "k n");
    assert_string_equal(order_text(plan, graph->inputs.at[1]), "m k");
    assert_string_equal(order_text(plan, graph->outputs.at[0].value), "m n");
}

// Nothing else decides: rows of a reduction are contiguous in the reduced dim.
static void test_rows_are_contiguous(void **state) {
    Plan *plan =
        passes_plan(*state, "dim m = 64, n = 64, k = 64\n"
                            "def F(A[k, n], B[m, k]):\n"
                            "    C[n, m] = einsum(A[k, n], B[m, k])\n"
                            "    return sum(softmax(C[n, m], reduced_dim=n), reduced_dim=n)\n");
    const Value *c = find_live(plan->fusion->graph, OP_CONTRACT);
    assert_string_equal(order_text(plan, c), "m n");
}

static void test_all_that_a_group_writes_has_one_order(void **state) {
    Plan *plan = passes_plan(*state, "def F(X[n, d], W[d, f], V[f, d]):\n"
                                     "    A[n, f] = einsum(X[n, d], W[d, f])\n"
                                     "    B[n, f] = max(A[n, f], 0)\n"
                                     "    Y[n, d] = einsum(B[n, f], V[f, d])\n"
                                     "    Z[n, d] = einsum(A[n, f], V[f, d])\n"
                                     "    return Y[n, d], Z[n, d]\n");
    const Group *group = plan->fusion->groups.at[0];
    assert_int_equal(group->outputs.count, 2);
    assert_string_equal(order_text(plan, group->outputs.at[0]),
                        order_text(plan, group->outputs.at[1]));
}

// ---- buffers -----------------------------------------------------------------------------------

static void test_dead_buffers_are_used_again(void **state) {
    Plan *plan = passes_plan(*state, "def F(X[n, d]):\n"
                                     "    A[n, d] = softmax(X[n, d], reduced_dim=d)\n"
                                     "    B[n, d] = softmax(A[n, d], reduced_dim=n)\n"
                                     "    C[n, d] = softmax(B[n, d], reduced_dim=d)\n"
                                     "    D[n, d] = softmax(C[n, d], reduced_dim=n)\n"
                                     "    return softmax(D[n, d], reduced_dim=d)\n");
    assert_int_equal(plan->fusion->groups.count, 5);
    assert_int_equal(plan->n_slots, 2);
}

// C is written when A is dead, and alive when D needs as much memory as that had.
static void test_small_buffers_leave_room_for_large_ones(void **state) {
    Plan *plan =
        passes_plan_unstreamed(*state, "dim n = 64, d = 16, e = 16, f = 256\n"
                                       "def F(X[n, d], W[d, f], V[f, d], P[d, e], Q[e, f]):\n"
                                       "    A[n, f] = tanh(einsum(X[n, d], W[d, f] -> [n, f]))\n"
                                       "    B[n, d] = tanh(einsum(A[n, f], V[f, d] -> [n, d]))\n"
                                       "    C[n, e] = tanh(einsum(B[n, d], P[d, e] -> [n, e]))\n"
                                       "    D[n, f] = tanh(einsum(C[n, e], Q[e, f] -> [n, f]))\n"
                                       "    return einsum(D[n, f], V[f, d] -> [n, d])\n");
    const Graph *graph = plan->fusion->graph;
    uint32_t large = find_buffer(plan, find_named(graph, "A"))->slot;
    assert_int_equal(find_buffer(plan, find_named(graph, "D"))->slot, large);
    assert_int_not_equal(find_buffer(plan, find_named(graph, "C"))->slot, large);
}

static void test_sizes_that_may_differ_do_not_share(void **state) {
    Plan *plan = passes_plan(
        *state, "def F(X[n, d], P[d, e], Q[e, d]):\n"
                "    A[n, d] = softmax(X[n, d], reduced_dim=d)\n"
                "    B[n, e] = softmax(einsum(A[n, d], P[d, e] -> [n, e]), reduced_dim=e)\n"
                "    C[n, d] = softmax(einsum(B[n, e], Q[e, d] -> [n, d]), reduced_dim=d)\n"
                "    return C[n, d]\n");
    for (uint32_t i = 0; i < plan->buffers.count; i++)
        for (uint32_t k = 0; k < i; k++) {
            const Buffer *a = &plan->buffers.at[i], *b = &plan->buffers.at[k];
            if (a->role == BUFFER_WORK && b->role == BUFFER_WORK && a->slot == b->slot)
                assert_true(dims_equal(&a->value->dims, &b->value->dims));
        }
    assert_int_equal(plan->n_slots, 4);
}

static void test_dims_that_are_alike_share(void **state) {
    Plan *plan = passes_plan(
        *state, "dim m like n\n"
                "def F(X[n, d], Y[m, d]):\n"
                "    A[n, d] = softmax(X[n, d], reduced_dim=d)\n"
                "    B[n, d] = softmax(A[n, d], reduced_dim=n)\n"
                "    C[n, m] = softmax(einsum(B[n, d], Y[m, d] -> [n, m]), reduced_dim=m)\n"
                "    D[m, d] = softmax(einsum(C[n, m], B[n, d] -> [m, d]), reduced_dim=d)\n"
                "    return D[m, d]\n");
    const Value *c = find_named(plan->fusion->graph, "C");
    assert_non_null(plan_buffer(plan, c));
    uint32_t work = 0;
    for (uint32_t i = 0; i < plan->buffers.count; i++)
        work += plan->buffers.at[i].role == BUFFER_WORK;
    assert_true(plan->n_slots < work);
}

static const Buffer *buffer_in_panels(const Plan *plan) {
    for (uint32_t i = 0; i < plan->buffers.count; i++)
        if (plan->buffers.at[i].memory.panel != DIM_NONE)
            return &plan->buffers.at[i];
    fail_msg("nothing lies in panels");
    return NULL;
}

static void test_the_last_panel_is_whole(void **state) {
    Plan *plan =
        passes_plan(*state, "dim k = 8, e = 8\n"
                            "def F(Q[n, k], K[m, k], V[m, e]):\n"
                            "    W[n, m] = softmax(einsum(Q[n, k], K[m, k]), reduced_dim=m)\n"
                            "    return einsum(W[n, m], V[m, e] -> [n, e])\n");
    const Buffer *buffer = buffer_in_panels(plan);
    DimId m = find_dim(plan->fusion->graph, "m");
    int64_t *extents = graph_typical_extents(plan->fusion->graph, plan->fusion->graph->arena);
    assert_int_equal(buffer->memory.panel, m);
    extents[m] = 1;
    assert_int_equal(buffer_elements(buffer, extents), 8 * 32);
    extents[m] = 70;
    assert_int_equal(buffer_elements(buffer, extents), 8 * 96);
    extents[m] = 96;
    assert_int_equal(buffer_elements(buffer, extents), 8 * 96);
}

// A, B and the copy of C in panels have m * 8 elements each, but panels are whole: the slot of A,
// dead by then, is too small for the copy.
static void test_panels_share_with_panels_alone(void **state) {
    Plan *plan =
        passes_plan(*state, "dim d = 8\n"
                            "def F(X[n, d], M[m, d]):\n"
                            "    A[m, d] = softmax(M[m, d], reduced_dim=m)\n"
                            "    B[m, d] = softmax(A[m, d], reduced_dim=d)\n"
                            "    C[m, d] = softmax(B[m, d], reduced_dim=m)\n"
                            "    W[n, m] = softmax(einsum(X[n, d], C[m, d]), reduced_dim=m)\n"
                            "    return einsum(W[n, m], M[m, d] -> [n, d])\n");
    bool panels = false;
    for (uint32_t i = 0; i < plan->buffers.count; i++)
        for (uint32_t k = 0; k < plan->buffers.count; k++) {
            const Buffer *a = &plan->buffers.at[i], *b = &plan->buffers.at[k];
            if (a->role != BUFFER_WORK || b->role != BUFFER_WORK || a->slot != b->slot)
                continue;
            panels |= a->memory.panel != DIM_NONE;
            assert_int_equal(a->memory.panel == DIM_NONE, b->memory.panel == DIM_NONE);
        }
    assert_true(panels);
}

static void test_plans_of_all_programs_hold(void **state) {
    for (uint32_t i = 0; passes_programs[i]; i++) {
        Plan *plan = passes_plan(*state, passes_programs[i]);
        const Graph *graph = plan->fusion->graph;
        for (uint32_t k = 0; k < graph->inputs.count; k++)
            assert_int_equal(plan->buffers.at[k].role, BUFFER_INPUT);
        for (uint32_t k = 0; k < graph->outputs.count; k++)
            assert_ptr_equal(plan->buffers.at[graph->inputs.count + k].value,
                             graph->outputs.at[k].value);
    }
}

// ---- views -------------------------------------------------------------------------------------

static const Buffer *find_view(const Plan *plan, Op op) {
    const Buffer *view = find_buffer(plan, find_live(plan->fusion->graph, op));
    assert_int_equal(view->role, BUFFER_VIEW);
    return view;
}

static void test_a_split_is_a_view(void **state) {
    Plan *plan = passes_plan(*state, "dim e = 12, h = 3, k = 4\n"
                                     "def F(X[n, e]):\n"
                                     "    A[n, e] = softmax(X[n, e], reduced_dim=e)\n"
                                     "    B[n, h, k] = split(A, e -> h k)\n"
                                     "    return softmax(B[n, h, k], reduced_dim=h)\n");
    const Buffer *view = find_view(plan, OP_SPLIT);
    assert_string_equal(order_text(plan, view->value), "n h k");
    assert_ptr_equal(plan->buffers.at[view->of].value, view->value->args[0]);
    assert_int_equal(plan->fusion->groups.count, 2);
}

static void test_moves_read_through_views(void **state) {
    Plan *plan = passes_plan(*state, "dim e = 12, h = 3, k = 4\n"
                                     "def F(X[n, e]):\n"
                                     "    A[n, e] = softmax(X[n, e], reduced_dim=e)\n"
                                     "    B[n, h, k] = split(A, e -> h k)\n"
                                     "    return shift(B, k, 1)\n");
    assert_string_equal(order_text(plan, find_view(plan, OP_SPLIT)->value), "n h k");
    assert_int_equal(plan->fusion->groups.count, 2);
}

// Left to itself the writer would have h, over which it sums, contiguous.
static void test_a_merge_of_what_is_computed_is_a_view(void **state) {
    Plan *plan = passes_plan(*state, "dim e = 12, h = 3, k = 4\n"
                                     "def F(X[n, h, k]):\n"
                                     "    A[n, h, k] = softmax(X[n, h, k], reduced_dim=h)\n"
                                     "    B[n, e] = merge(A, h k -> e)\n"
                                     "    return softmax(B[n, e], reduced_dim=e)\n");
    const Buffer *view = find_view(plan, OP_MERGE);
    assert_string_equal(order_text(plan, view->value), "n e");
    assert_string_equal(order_text(plan, view->value->args[0]), "n h k");
    assert_int_equal(plan->fusion->groups.count, 2);
}

static void test_a_merge_of_an_input_is_a_view_where_its_parts_follow_each_other(void **state) {
    Plan *plan = passes_plan(*state, "dim e = 12, h = 3, k = 4\n"
                                     "def F(X[n, h, k]):\n"
                                     "    B[n, e] = merge(X, h k -> e)\n"
                                     "    return softmax(B[n, e], reduced_dim=e)\n");
    assert_string_equal(order_text(plan, find_view(plan, OP_MERGE)->value), "n e");
    assert_int_equal(plan->fusion->groups.count, 1);
    plan = passes_plan(*state, "dim e = 12, h = 3, k = 4\n"
                               "def F(X[h, n, k]):\n"
                               "    B[n, e] = merge(X, h k -> e)\n"
                               "    return softmax(B[n, e], reduced_dim=e)\n");
    for (uint32_t i = 0; i < plan->buffers.count; i++)
        assert_int_not_equal(plan->buffers.at[i].role, BUFFER_VIEW);
}

static void test_a_result_that_is_a_view_is_written_at_once(void **state) {
    Plan *plan = passes_plan(*state, "dim e = 12, h = 3, k = 4\n"
                                     "def F(X[n, h, k]):\n"
                                     "    A[n, h, k] = softmax(X[n, h, k], reduced_dim=k)\n"
                                     "    B[n, e] = merge(A, h k -> e)\n"
                                     "    return B[e, n]\n");
    const Value *merge = find_live(plan->fusion->graph, OP_MERGE);
    const Buffer *view = find_buffer(plan, merge->args[0]);
    assert_int_equal(view->role, BUFFER_VIEW);
    assert_ptr_equal(plan->buffers.at[view->of].value, merge);
    assert_string_equal(order_text(plan, view->value), "h k n");
    assert_int_equal(plan->fusion->groups.count, 1);
    plan = passes_plan(*state, "dim e = 12, h = 3, k = 4\n"
                               "def F(X[n, e]):\n"
                               "    A[n, e] = softmax(X[n, e], reduced_dim=e)\n"
                               "    B[n, h, k] = split(A, e -> h k)\n"
                               "    return B[h, n, k]\n"); // parts that n lies between
    assert_int_equal(plan->fusion->groups.count, 2);
}

static void test_a_matrix_for_several_projections_is_read_where_it_is(void **state) {
    Plan *plan = passes_plan(*state, "dim n = 64, d = 96, c = 3, h = 4, k = 8, e = 96\n"
                                     "def F(X[n, d], W[d, e]):\n"
                                     "    T[n, e] = einsum(X[n, d], W[d, e])\n"
                                     "    S[n, c, h, k] = split(T, e -> c h k)\n"
                                     "    A[n, h] = einsum(S[n, 0, h, k], S[n, 1, h, k])\n"
                                     "    return einsum(A[n, h], S[n, 2, h, k] -> [n, k])\n");
    const Buffer *view = find_view(plan, OP_SPLIT);
    assert_ptr_equal(plan->buffers.at[view->of].value, plan->fusion->graph->inputs.at[1]);
    for (uint32_t i = 0; i < plan->buffers.count; i++) // three projections, each as it is wanted
        assert_true(plan->buffers.at[i].role != BUFFER_WORK ||
                    plan->buffers.at[i].value->dims.count < 4);
}

// ---- the verifier ------------------------------------------------------------------------------

static const char chain[] = "def F(X[n, d]):\n"
                            "    A[n, d] = softmax(X[n, d], reduced_dim=d)\n"
                            "    B[n, d] = softmax(A[n, d], reduced_dim=n)\n"
                            "    return softmax(B[n, d], reduced_dim=d)\n";

static Buffer *work_buffer(Plan *plan, uint32_t number) {
    for (uint32_t i = 0; i < plan->buffers.count; i++)
        if (plan->buffers.at[i].role == BUFFER_WORK && number-- == 0)
            return &plan->buffers.at[i];
    fail_msg("too few work buffers");
    return NULL;
}

static void test_verifier_sees_shared_memory(void **state) {
    Plan *plan = passes_plan(*state, chain);
    work_buffer(plan, 1)->slot = work_buffer(plan, 0)->slot;
    expect_ice("alive in one slot", plan_verify(plan));
}

static void test_verifier_sees_short_life(void **state) {
    Plan *plan = passes_plan(*state, chain);
    work_buffer(plan, 0)->last_group = 0;
    expect_ice("outside its life", plan_verify(plan));
}

static void test_verifier_sees_wrong_order(void **state) {
    Plan *plan = passes_plan(*state, chain);
    work_buffer(plan, 0)->memory.order.count--;
    expect_ice("no permutation", plan_verify(plan));
}

static void test_verifier_sees_missing_buffer(void **state) {
    Plan *plan = passes_plan(*state, chain);
    plan->buffers.count--;
    expect_ice("has no buffer", plan_verify(plan));
}

static void test_verifier_sees_views_of_views(void **state) {
    Plan *plan = passes_plan(*state, "dim e = 12, h = 3, k = 4\n"
                                     "def F(X[n, e]):\n"
                                     "    B[n, h, k] = split(X, e -> h k)\n"
                                     "    return softmax(B[n, h, k], reduced_dim=h)\n");
    Buffer *view = &plan->buffers.at[find_view(plan, OP_SPLIT) - plan->buffers.at];
    view->of = (uint32_t)(view - plan->buffers.at);
    expect_ice("a view of a view", plan_verify(plan));
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(orders_of_multi_head_attention),
        TEST(orders_of_streamed_attention),
        TEST(heads_that_are_mixed_lie_beside_the_lanes),
        TEST(mixing_per_position_runs_along_the_positions),
        TEST(inputs_and_results_keep_their_order),
        TEST(rows_are_contiguous),
        TEST(all_that_a_group_writes_has_one_order),
        TEST(dead_buffers_are_used_again),
        TEST(small_buffers_leave_room_for_large_ones),
        TEST(sizes_that_may_differ_do_not_share),
        TEST(dims_that_are_alike_share),
        TEST(the_last_panel_is_whole),
        TEST(panels_share_with_panels_alone),
        TEST(plans_of_all_programs_hold),
        TEST(a_split_is_a_view),
        TEST(moves_read_through_views),
        TEST(a_merge_of_what_is_computed_is_a_view),
        TEST(a_merge_of_an_input_is_a_view_where_its_parts_follow_each_other),
        TEST(a_result_that_is_a_view_is_written_at_once),
        TEST(a_matrix_for_several_projections_is_read_where_it_is),
        TEST(verifier_sees_shared_memory),
        TEST(verifier_sees_short_life),
        TEST(verifier_sees_wrong_order),
        TEST(verifier_sees_missing_buffer),
        TEST(verifier_sees_views_of_views),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
