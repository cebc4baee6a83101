// SPDX-License-Identifier: Apache-2.0
// graph_partition: that both parts together are the whole, and what is saved between them.
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

typedef struct {
    Graph *whole, *forward, *backward;
} Parts;

// All zero where the program has no gradient.
static Parts partition(Session *session, const Graph *plain) {
    Parts parts = {.whole = passes_expand_gradient(plain)};
    if (!parts.whole)
        return parts;
    int64_t *typical = graph_typical_extents(parts.whole, session->arena);
    const Partition *cut = graph_partition(parts.whole, typical, &passes_machine, (Saving){0});
    parts.forward = partition_forward(cut);
    graph_verify(parts.forward, "forward");
    for (uint32_t i = 0; i < parts.forward->outputs.count; i++) {
        Output *output = &parts.forward->outputs.at[i];
        if (output->use == USE_SAVED)
            output->order = output->value->dims; // as a layout would
    }
    parts.backward = partition_backward(cut, parts.forward);
    graph_verify(parts.backward, "backward");
    return parts;
}

static Parts partition_text(Session *session, const char *text) {
    return partition(session, passes_build(session, text));
}

// ---- the whole ---------------------------------------------------------------------------------

static Value *input_of(Graph *graph, Name name) {
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.at[i]->name == name)
            return graph->inputs.at[i];
    return NULL;
}

// The values of a part in the whole; its inputs are there, or are outputs of the other part.
static Value **copy_part(Graph *to, const Graph *part, const Graph *before, Value *const *made) {
    Value **now = arena_array(to->arena, Value *, part->values.count);
    for (uint32_t i = 0; i < part->values.count; i++) {
        const Value *value = part->values.at[i];
        if (value->op == OP_INPUT) {
            bool held = value->use == USE_SAVED || value->use == USE_RESULT;
            now[i] = held ? made[before->outputs.at[value->output].value->id]
                          : input_of(to, value->name);
            assert_non_null(now[i]);
            continue;
        }
        Value **args = arena_array(to->arena, Value *, value->n_args + 1);
        for (uint32_t k = 0; k < value->n_args; k++)
            args[k] = now[value->args[k]->id];
        now[i] = graph_rebuild(to, value, args);
    }
    return now;
}

static Graph *put_together(const Parts *parts) {
    Graph *to = graph_new_like(parts->whole, parts->whole->arena);
    for (uint32_t i = 0; i < parts->whole->inputs.count; i++)
        graph_rebuild(to, parts->whole->inputs.at[i], NULL);
    Value **first = copy_part(to, parts->forward, NULL, NULL);
    Value **then = copy_part(to, parts->backward, parts->forward, first);
    for (uint32_t i = 0; i < parts->forward->outputs.count; i++)
        if (parts->forward->outputs.at[i].use == USE_PLAIN)
            graph_output_like(to, &parts->forward->outputs.at[i],
                              first[parts->forward->outputs.at[i].value->id]);
    for (uint32_t i = 0; i < parts->backward->outputs.count; i++)
        graph_output_like(to, &parts->backward->outputs.at[i],
                          then[parts->backward->outputs.at[i].value->id]);
    return to;
}

static void both_parts_are_the_whole(void **state) {
    Session *session = *state;
    uint32_t count = 0, saved = 0;
    for (const char *const *text = passes_programs; *text; text++) {
        Parts parts = partition_text(session, *text);
        if (!parts.whole)
            continue;
        count++;
        for (uint32_t i = 0; i < parts.forward->outputs.count; i++)
            saved += parts.forward->outputs.at[i].use == USE_SAVED;
        if (graph_hash(put_together(&parts)) != graph_hash(parts.whole))
            fail_msg("both parts of this are not the whole:\n%s", *text);
    }
    assert_true(count > 5 && saved > count);
}

static void what_is_computed_again_is_the_whole(void **state) {
    Session *session = *state;
    uint32_t count = 0;
    for (const char *const *text = passes_programs; *text; text++) {
        Parts parts = partition_text(session, *text);
        if (!parts.whole)
            continue;
        int64_t *typical = graph_typical_extents(parts.whole, session->arena);
        Graph *again = graph_again(parts.whole, typical, &passes_machine, (Saving){0});
        if (!again)
            continue;
        count++;
        graph_verify(again, "again");
        assert_true(graph_hash(again) != graph_hash(parts.whole));
        // Values of two turns are one where there are no turns.
        Parts once = {.whole = parts.whole, .forward = graph_new_like(again, again->arena)};
        once.backward = again;
        if (graph_hash(put_together(&once)) != graph_hash(parts.whole))
            fail_msg("with what is computed again this is not the whole:\n%s", *text);
    }
    assert_true(count > 2);
}

// ---- what is saved -----------------------------------------------------------------------------

// "Q[n d] ..." of all outputs or inputs of a use.
static const char *listed(const Graph *graph, TensorUse use) {
    Text text = {.arena = graph->arena};
    text_add(&text, "");
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        if (graph->outputs.at[i].use == use)
            text_printf(&text, "%s[%s] ", graph->outputs.at[i].name,
                        dims_text(graph, &graph->outputs.at[i].value->dims));
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.at[i]->use == use)
            text_printf(&text, "%s[%s] ", graph->inputs.at[i]->name,
                        dims_text(graph, &graph->inputs.at[i]->dims));
    return text.at;
}

static void of_attention_one_maximum_and_sum_of_each_row(void **state) {
    Parts parts = partition_text(*state, "def F(Q[n, d], K[m, d], V[m, e]):\n"
                                         "    S[n, m] = where(index(m) <= index(n), "
                                         "einsum(Q[n, d], K[m, d] -> [n, m]), -inf)\n"
                                         "    W[n, m] = softmax(S, reduced_dim=m)\n"
                                         "    O[n, e] = einsum(W[n, m], V[m, e])\n"
                                         "    return O\n");
    assert_string_equal(listed(parts.forward, USE_SAVED), "saved_W_max[n] ");
    assert_string_equal(listed(parts.backward, USE_SAVED), "saved_W_max[n] ");
    assert_string_equal(listed(parts.backward, USE_PLAIN), "Q[n d] K[m d] V[m e] ");
    assert_string_equal(listed(parts.backward, USE_COTANGENT), "dO[n e] ");
    assert_string_equal(listed(parts.backward, USE_GRADIENT), "dQ[n d] dK[m d] dV[e m] ");
}

static int computed_again(const Graph *graph) {
    int count = 0;
    for (uint32_t i = 0; i < graph->values.count; i++)
        count += graph->values.at[i]->op == OP_CONTRACT && graph->values.at[i]->made_for.twice;
    return count;
}

// The logits, and not the output.
static void what_both_compute_is_marked(void **state) {
    Parts parts = partition_text(*state, "def F(Q[n, d], K[m, d], V[m, e]):\n"
                                         "    S[n, m] = einsum(Q[n, d], K[m, d])\n"
                                         "    W[n, m] = softmax(S, reduced_dim=m)\n"
                                         "    O[n, e] = einsum(W[n, m], V[m, e])\n"
                                         "    return O\n");
    assert_int_equal(computed_again(parts.whole), 0);
    assert_int_equal(computed_again(parts.forward), 1);
    assert_int_equal(computed_again(parts.backward), 1);
}

static void few_bytes_rather_than_many(void **state) {
    Session *session = *state;
    // What is pointwise is computed again: of the einsum, not of both that are made of it.
    Parts parts = partition_text(session, "dim k = 8, d = 8\n"
                                          "def F(X[n, d], param W[d, k]):\n"
                                          "    A[n, k] = einsum(X[n, d], W[d, k])\n"
                                          "    return gelu(A) * tanh(A)\n");
    assert_string_equal(listed(parts.forward, USE_SAVED), "saved_A[n k] ");
    // The sum is smaller than what it is a sum of, and is needed alone.
    parts = partition_text(session, "def F(X[n, d], Y[n]):\n"
                                    "    s[n] = sum(exp(X), reduced_dim=d)\n"
                                    "    return s * Y\n");
    assert_string_equal(listed(parts.forward, USE_SAVED), "saved_s[n] ");
}

static void results_are_read_and_not_saved(void **state) {
    Parts parts = partition_text(*state, "def F(X[n, d], W[d, k]):\n"
                                         "    Y[n, k] = exp(einsum(X[n, d], W[d, k]))\n"
                                         "    return Y\n");
    assert_string_equal(listed(parts.forward, USE_SAVED), "");
    assert_string_equal(listed(parts.backward, USE_RESULT), "Y[n k] ");
}

static void a_scan_leaves_what_it_carried(void **state) {
    Parts parts = partition_text(*state, "def F(X[n, d], G[n, d]):\n"
                                         "    s[d] = zeros[d]\n"
                                         "    scan t in n:\n"
                                         "        s[d] = s * G[t, d] + X[t, d]\n"
                                         "        Y[t, d] = tanh(s)\n"
                                         "    return Y[n, d]\n");
    for (uint32_t i = 0; i < parts.forward->outputs.count; i++) {
        const Value *value = parts.forward->outputs.at[i].value;
        for (uint32_t d = 0; d < value->dims.count; d++)
            assert_false(parts.forward->dims.at[value->dims.at[d]].scan);
    }
    assert_string_equal(listed(parts.backward, USE_GRADIENT), "dX[n d] dG[n d] ");
}

static void saved_tensors_have_names_of_their_own(void **state) {
    Parts parts = partition_text(*state, "def F(X[n, d], saved_A[d, k], U[k, d]):\n"
                                         "    A[n, k] = einsum(X[n, d], saved_A[d, k])\n"
                                         "    return einsum(A * A, U -> [n, d])\n");
    assert_string_equal(listed(parts.forward, USE_SAVED), "saved_A_2[n k] ");
}

// What an argument is called is no result's name, nor what stands for another result.
static void results_have_names_of_their_own(void **state) {
    Parts parts = partition_text(*state, "dim layers = 1\n"
                                         "def F(X[n], A[n], A_out[n]):\n"
                                         "    for layer in layers:\n"
                                         "        A[n] = exp(X * A * A_out)\n"
                                         "        X[n] = tanh(A)\n"
                                         "    X_out[n] = sigmoid(X)\n"
                                         "    return X, X_out, A\n");
    assert_string_equal(listed(parts.forward, USE_PLAIN), "X[n] X_out[n] A[n] X[n] A[n] A_out[n] ");
    assert_string_equal(listed(parts.backward, USE_RESULT), "A_out_2[n] X_out_2[n] X_out[n] ");
    const char *const of[] = {"A", "X", "X_out"};
    for (uint32_t i = 0, k = 0; i < parts.backward->inputs.count; i++) {
        const Value *input = parts.backward->inputs.at[i];
        if (input->use == USE_RESULT)
            assert_string_equal(parts.forward->outputs.at[input->output].name, of[k++]);
    }
}

// A cotangent and a gradient dX: what the gradient is added to is neither.
static void a_rebound_argument_has_a_cotangent(void **state) {
    Parts parts = partition_text(*state, "dim layers = 2\n"
                                         "def F(X[n], A[n]):\n"
                                         "    for layer in layers:\n"
                                         "        X[n] = tanh(X * A)\n"
                                         "    return X[n]\n");
    Graph *adds = graph_accumulate(parts.backward);
    graph_verify(adds, "accumulate");
    assert_string_equal(listed(adds, USE_COTANGENT), "dX[n] ");
    assert_string_equal(listed(adds, USE_GRADIENT), "dX[n] dA[n] ");
    assert_string_equal(listed(adds, USE_BEFORE), "before_dX[n] before_dA[n] ");
}

// ---- gradients that are added ------------------------------------------------------------------

static void a_gradient_is_added_or_written(void **state) {
    Parts parts = partition_text(*state, "def F(X[n]):\n"
                                         "    return X * X\n");
    Graph *adds = graph_accumulate(parts.backward);
    graph_verify(adds, "accumulate");
    assert_string_equal(listed(adds, USE_BEFORE), "before_dX[n] ");
    assert_string_equal(listed(adds, USE_FLAG), "accumulate_dX[] ");
    const Value *chosen = adds->outputs.at[0].value;
    assert_int_equal(chosen->op, OP_SELECT);
    assert_int_equal(chosen->args[1]->op, OP_ADD);
    const Value *before = chosen->args[1]->args[0];
    assert_int_equal(before->use, USE_BEFORE);
    assert_int_equal(before->output, 0);
    assert_ptr_equal(chosen->args[1]->args[1], chosen->args[2]);
}

#define partition_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        partition_test(both_parts_are_the_whole),
        partition_test(what_is_computed_again_is_the_whole),
        partition_test(of_attention_one_maximum_and_sum_of_each_row),
        partition_test(what_both_compute_is_marked),
        partition_test(few_bytes_rather_than_many),
        partition_test(results_are_read_and_not_saved),
        partition_test(a_scan_leaves_what_it_carried),
        partition_test(saved_tensors_have_names_of_their_own),
        partition_test(results_have_names_of_their_own),
        partition_test(a_rebound_argument_has_a_cotangent),
        partition_test(a_gradient_is_added_or_written),
    };
    return cmocka_run_group_tests_name("partition", tests, NULL, NULL);
}
