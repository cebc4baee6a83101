// SPDX-License-Identifier: Apache-2.0
// graph_head_masks: which attentions get masks, under which names, and that masks of 1 change
// nothing while 0 takes a head away.
#include "passes_fixture.h"

#include <string.h>

#include "graph/model.h"
#include "graph/rewrite/rewrite.h"

static int setup(void **state) {
    *state = session_new();
    return 0;
}

static int teardown(void **state) {
    session_free(*state);
    return 0;
}

static HeadMasks mask(Session *session, const char *text) {
    HeadMasks masks = graph_head_masks(passes_build(session, text));
    graph_verify(masks.graph, "heads");
    return masks;
}

// The names of all masks, each with its value's name: "heads.W.h=W".
static const char *names_text(const HeadMasks *masks) {
    Text text = {.arena = masks->graph->arena};
    for (uint32_t i = 0; i < masks->masks.count; i++)
        text_printf(&text, "%s%s=%s", i ? " " : "", masks->masks.at[i].input->name,
                    masks->masks.at[i].of);
    return text.at ? text.at : "";
}

#define ATTEND                                                                                     \
    "    Q[n, k, h] = einsum(X[n, d], P_q[d, k, h])\n"                                             \
    "    K[m, k, h] = einsum(X[m, d], P_k[d, k, h])\n"                                             \
    "    V[m, k, h] = einsum(X[m, d], P_v[d, k, h])\n"                                             \
    "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h])\n"                                            \
    "    W[n, m, h] = softmax(causal(L), reduced_dim=m)\n"                                         \
    "    O[n, k, h] = einsum(W[n, m, h], V[m, k, h])\n"
#define MULTI_HEAD ATTEND "    return einsum(O[n, k, h], P_o[d, k, h] -> [n, d])\n"

#define PARAMS "param P_q[d, k, h], param P_k[d, k, h], param P_v[d, k, h], param P_o[d, k, h]"
#define DIMS "dim d = 6, k = 2, h = 3, h_k = 4, h_v = 2\ndim m like n\n"

static void test_weights_of_multi_head(void **state) {
    HeadMasks masks = mask(*state, DIMS "def F(X[n, d], " PARAMS "):\n" MULTI_HEAD);
    assert_string_equal(names_text(&masks), "heads.W.h=W");
}

static void test_layers_have_masks_of_their_own(void **state) {
    HeadMasks masks =
        mask(*state, DIMS "dim layers = 2\n"
                          "def Attend(X[n, d]):\n"
                          "    param P_q[d, k, h], P_k[d, k, h]\n"
                          "    param P_v[d, k, h], P_o[d, k, h]\n" MULTI_HEAD "def F(X[b, n, d]):\n"
                          "    for layer in layers:\n"
                          "        X = X + Attend(X) as attend\n"
                          "    return X\n");
    assert_string_equal(names_text(&masks), "heads.layer.0.attend.W.h=layer.0.attend.W "
                                            "heads.layer.1.attend.W.h=layer.1.attend.W");
}

// The batch is no head, a shared key has none.
static void test_groups_of_heads(void **state) {
    HeadMasks masks =
        mask(*state, "dim d = 6, k = 2, g = 2, r = 3\ndim m like n\n"
                     "def F(X[b, n, d], param P_q[d, k, g, r], param P_k[d, k, g]):\n"
                     "    Q[b, n, k, g, r] = einsum(X[b, n, d], P_q[d, k, g, r])\n"
                     "    K[b, m, k, g] = einsum(X[b, m, d], P_k[d, k, g])\n"
                     "    W = softmax(einsum(Q[b, n, k, g, r], K[b, m, k, g] ->\n"
                     "        [b, n, m, g, r]), reduced_dim=m)\n"
                     "    return einsum(W[b, n, m, g, r], K[b, m, k, g] -> [b, n, k, g, r])\n");
    assert_string_equal(names_text(&masks), "heads.W.g.r=W");
}

static const char talking_steps[] =
    DIMS "def F(X[n, d], param P_q[d, k, h_k], param P_k[d, k, h_k], param P_v[d, k, h_v],\n"
         "      param P_o[d, k, h_v], param P_l[h_k, h], param P_w[h, h_v]):\n"
         "    J[n, m, h_k] = einsum(X[n, d], P_q[d, k, h_k], X[m, d'], P_k[d', k, h_k])\n"
         "    L[n, m, h] = einsum(J[n, m, h_k], P_l[h_k, h])\n"
         "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
         "    U[n, m, h_v] = einsum(W[n, m, h], P_w[h, h_v])\n"
         "    O[n, k, h_v] = einsum(U[n, m, h_v], X[m, d], P_v[d, k, h_v])\n"
         "    return einsum(O[n, k, h_v], P_o[d, k, h_v] -> [n, d])\n";
static const char talking_at_once[] =
    DIMS "def F(X[n, d], param P_q[d, k, h_k], param P_k[d, k, h_k], param P_v[d, k, h_v],\n"
         "      param P_o[d, k, h_v], param P_l[h_k, h], param P_w[h, h_v]):\n"
         "    L[n, m, h] = einsum(X[n, d], P_q[d, k, h_k], X[m, d'], P_k[d', k, h_k],\n"
         "        P_l[h_k, h])\n"
         "    W[n, m, h] = softmax(L[n, m, h], reduced_dim=m)\n"
         "    O[n, k, h_v] = einsum(W[n, m, h], P_w[h, h_v], X[m, d], P_v[d, k, h_v])\n"
         "    return einsum(O[n, k, h_v], P_o[d, k, h_v] -> [n, d])\n";

static void test_talking_heads_have_three(void **state) {
    HeadMasks steps = mask(*state, talking_steps);
    assert_string_equal(names_text(&steps), "heads.J.h_k=J heads.W.h=W heads.U.h_v=U");
    HeadMasks at_once = mask(*state, talking_at_once);
    assert_string_equal(names_text(&at_once), "heads.L.h_k=L heads.W.h=W heads.O.h_v=O");
}

// A factor for each head and number mixes nothing.
static void test_gains_are_no_mixing(void **state) {
    HeadMasks masks = mask(
        *state, DIMS "def F(X[n, d], param P_q[d, k, h], param P_k[d, k, h], param g[h, k]):\n"
                     "    Q[n, k, h] = einsum(X[n, d], P_q[d, k, h])\n"
                     "    K[m, k, h] = einsum(X[m, d], P_k[d, k, h])\n"
                     "    L[n, m, h] = einsum(Q[n, k, h], K[m, k, h], g[h, k])\n"
                     "    return einsum(softmax(L, reduced_dim=m), K[m, k, h] -> [n, k, h])\n");
    assert_string_equal(names_text(&masks), "heads.L.h=L");
}

static void test_no_attention_no_mask(void **state) {
    HeadMasks masks = mask(*state, DIMS "def F(X[n, d], param P[d, h]):\n"
                                        "    return einsum(X[n, d], P[d, h] -> [n, h])\n");
    assert_int_equal(masks.masks.count, 0);
}

// A weight of a softmax that the user wrote is summed over the memory positions by what divides.
static void test_sums_of_rows_take_nothing_in(void **state) {
    HeadMasks masks =
        mask(*state, DIMS "def F(X[n, d], param P_q[d, k, h], param P_k[d, k, h]):\n"
                          "    K[m, k, h] = einsum(X[m, d], P_k[d, k, h])\n"
                          "    E = exp(einsum(X[n, d], P_q[d, k, h], K[m, k, h] -> [n, m, h]))\n"
                          "    W = E / sum(E, reduced_dim=m)\n"
                          "    return einsum(W[n, m, h], K[m, k, h] -> [n, k, h])\n");
    assert_string_equal(names_text(&masks), "heads.W.h=W");
}

// ---- logits ------------------------------------------------------------------------------------

static void test_logits_before_they_are_masked(void **state) {
    const char *text = DIMS "def F(X[b, n, d], " PARAMS "):\n"
                            "    Q[b, n, k, h] = einsum(X[b, n, d], P_q[d, k, h])\n"
                            "    K[b, m, k, h] = einsum(X[b, m, d], P_k[d, k, h])\n"
                            "    L[b, n, m, h] = einsum(Q[b, n, k, h], K[b, m, k, h])\n"
                            "    W[b, n, m, h] = softmax(causal(L), reduced_dim=m)\n"
                            "    V[b, m, k, h] = einsum(X[b, m, d], P_v[d, k, h])\n"
                            "    O[b, n, k, h] = einsum(W[b, n, m, h], V[b, m, k, h])\n"
                            "    Y[b, n, d] = einsum(O[b, n, k, h], P_o[d, k, h])\n"
                            "    return Y[b, n, d]\n";
    Graph *logits = graph_head_logits(passes_build(*state, text));
    graph_verify(logits, "logits");
    assert_int_equal(logits->outputs.count, 1);
    assert_string_equal(logits->outputs.at[0].name, "W");
    assert_string_equal(dims_text(logits, &logits->outputs.at[0].order), "b h n m");
    assert_string_equal(logits->outputs.at[0].value->hint, "L");
}

// A loss over a vocabulary has a softmax, and no heads of attention.
static void test_logits_of_attention_alone(void **state) {
    const char *text =
        DIMS "def F(X[n, d], param E[v, d]):\n"
             "    return softmax(einsum(X[n, d], E[v, d] -> [n, v]), reduced_dim=v)\n";
    assert_int_equal(graph_head_logits(passes_build(*state, text))->outputs.count, 0);
}

// ---- what is removed together ------------------------------------------------------------------

// Each group: its dim, masks and parameters with the places of the dim, or why nothing is removed.
static const char *groups_text(const HeadMasks *masks) {
    Graph *graph = masks->graph;
    HeadGroups groups = graph_head_groups(masks, graph->arena);
    Text text = {.arena = graph->arena};
    for (uint32_t i = 0; i < groups.count; i++) {
        const HeadGroup *group = &groups.at[i];
        text_printf(&text, "%s%s:", i ? "; " : "", graph->dims.at[group->dim].name);
        for (uint32_t k = 0; k < group->masks.count && !group->fault; k++)
            text_printf(&text, " %s/%u", masks->masks.at[group->masks.at[k].of].of,
                        group->masks.at[k].dim);
        for (uint32_t k = 0; k < group->params.count && !group->fault; k++)
            text_printf(&text, " %s/%u", graph->inputs.at[group->params.at[k].of]->name,
                        group->params.at[k].dim);
        text_printf(&text, "%s%s", group->fault ? " " : "", group->fault ? group->fault : "");
    }
    return text.at ? text.at : "";
}

static void assert_groups(Session *session, const char *text, const char *expected) {
    HeadMasks masks = mask(session, text);
    assert_string_equal(groups_text(&masks), expected);
}

static void test_a_head_is_a_position_of_its_parameters(void **state) {
    assert_groups(*state, DIMS "def F(X[n, d], " PARAMS "):\n" MULTI_HEAD,
                  "h: W/0 P_q/2 P_k/2 P_v/2 P_o/2");
    assert_groups(*state, talking_steps,
                  "h_k: J/0 P_q/2 P_k/2 P_l/0; h: W/0 P_l/1 P_w/0; h_v: U/0 P_v/2 P_o/2 P_w/1");
    assert_groups(*state, talking_at_once,
                  "h_k: L/0 P_q/2 P_k/2 P_l/0; h: W/0 P_l/1 P_w/0; h_v: O/0 P_v/2 P_o/2 P_w/1");
}

static void test_layers_are_groups_of_their_own(void **state) {
    const char *const calls[] = {"for layer in layers:", "for layer in layers shared:"};
    const char *const expected[] = {
        "h: layer.0.Attend.W/0 layer.0.Attend.P_q/2 layer.0.Attend.P_k/2 layer.0.Attend.P_v/2 "
        "layer.0.Attend.P_o/2; "
        "h: layer.1.Attend.W/0 layer.1.Attend.P_q/2 layer.1.Attend.P_k/2 layer.1.Attend.P_v/2 "
        "layer.1.Attend.P_o/2",
        "h: layer.0.Attend.W/0 layer.1.Attend.W/0 layer.Attend.P_q/2 layer.Attend.P_k/2 "
        "layer.Attend.P_v/2 layer.Attend.P_o/2"};
    for (uint32_t i = 0; i < 2; i++) {
        Session *session = *state;
        const char *text = arena_printf(session->arena,
                                        DIMS "dim layers = 2\n"
                                             "def Attend(X[n, d]):\n"
                                             "    param P_q[d, k, h], P_k[d, k, h]\n"
                                             "    param P_v[d, k, h], P_o[d, k, h]\n" MULTI_HEAD
                                             "def F(X[n, d]):\n"
                                             "    %s\n"
                                             "        X = X + Attend(X)\n"
                                             "    return sum(X, reduced_dim=(n, d))\n",
                                        calls[i]);
        assert_groups(session, text, expected[i]);
    }
}

#define BEFORE_RETURN DIMS "def F(X[n, d], " PARAMS ", param c[h]):\n" ATTEND
#define AFTER "    return einsum(Z[n, k, h], P_o[d, k, h] -> [n, d])\n"

// A root mean square of each head is 0 where the head is, and gates are multiplied with it.
static void test_what_keeps_zero(void **state) {
    assert_groups(*state, BEFORE_RETURN "    Z = rms_norm(O, d=k) * sigmoid(c[h])\n" AFTER,
                  "h: W/0 P_q/2 P_k/2 P_v/2 P_o/2 c/0");
    assert_groups(*state,
                  DIMS "def F(X[n, d], " PARAMS ", seed[]: i64):\n"
                       "    L[n, m, h] = einsum(X[n, d], P_q[d, k, h], X[m, d'], P_k[d', k, h])\n"
                       "    W[n, m, h] = dropout(softmax(L, reduced_dim=m), rate=0.1, seed=seed)\n"
                       "    O[n, k, h] = einsum(W[n, m, h], X[m, d], P_v[d, k, h])\n"
                       "    return einsum(O[n, k, h], P_o[d, k, h] -> [n, d])\n",
                  "h: W/0 P_q/2 P_k/2 P_v/2 P_o/2");
}

static void test_first_values_count_nothing(void **state) {
    assert_groups(*state,
                  DIMS "def F(X[n, d]):\n"
                       "    param P_q[d, k, h] ~ normal(std=1 / h), P_k[d, k, h] = 1 / h\n"
                       "    param P_v[d, k, h], P_o[d, k, h]\n" MULTI_HEAD,
                  "h: W/0 P_q/2 P_k/2 P_v/2 P_o/2");
}

static void test_what_does_not(void **state) {
    assert_groups(*state, BEFORE_RETURN "    Z = O + c[h]\n" AFTER,
                  "h: a value (einsum) adds up what is not 0 without the head's weights");
    assert_groups(*state, BEFORE_RETURN "    Z = O * c / 3 ** h\n" AFTER,
                  "h: their number is used as a number");
    assert_groups(*state, BEFORE_RETURN "    Z = O * c * f32(index(h))\n" AFTER,
                  "h: a value (cast) depends on their numbers");
    assert_groups(*state, BEFORE_RETURN "    Z = O * softmax(c, reduced_dim=h)\n" AFTER,
                  "h: a value (softmax) works along them; h: a value (softmax) works along them");
    assert_groups(*state, BEFORE_RETURN "    Z = O * c * max(c, reduced_dim=h)\n" AFTER,
                  "h: a value (reduce_max) is over all of them");
    assert_groups(*state,
                  DIMS "def F(X[n, d], " PARAMS ", param c[d, h], param e[d, h]):\n" ATTEND
                       "    Y[n, d] = einsum(O[n, k, h], P_o[d, k, h])\n"
                       "    return Y + einsum(c[d, h], e[d, h] -> [d])\n",
                  "h: W/0 P_q/2 P_k/2 P_v/2 P_o/2; "
                  "h: a value (einsum) adds up what is not 0 without the head's weights");
    assert_groups(*state, BEFORE_RETURN "    Z = O\n" AFTER,
                  "h: W/0 P_q/2 P_k/2 P_v/2 P_o/2; h: 'c' has them outside of attention");
}

// ---- what they do ------------------------------------------------------------------------------

// The graph with the masks as numbers.
typedef struct {
    const HeadMasks *masks;
    double number; // at position `at`, else 1
    int64_t at;
} Fixed;

static Value *fix(Rewrite *rewrite, const Value *value, Value **args) {
    const Fixed *fixed = rewrite->data;
    Graph *graph = rewrite->to;
    if (value->op != OP_MUL && value->op != OP_CONTRACT)
        return rewrite_keep(rewrite, value, args);
    for (uint32_t k = 0; k < value->n_args; k++)
        for (uint32_t i = 0; i < fixed->masks->masks.count; i++) {
            if (value->args[k] != fixed->masks->masks.at[i].input)
                continue;
            Value *one = graph_const(graph, 1, ELEM_F32);
            Value *at = graph_const(graph, (double)fixed->at, ELEM_I64);
            Value *here = graph_map2(graph, OP_EQ, graph_index(graph, args[k]->dims.at[0]), at);
            args[k] = graph_select(graph, here, graph_const(graph, fixed->number, ELEM_F32), one);
        }
    return rewrite_keep(rewrite, value, args);
}

static Graph *with_numbers(const HeadMasks *masks, double number, int64_t at) {
    Fixed fixed = {masks, number, at};
    Graph *graph =
        rewrite_graph("fix", masks->graph, masks->graph->arena, arena_new(), fix, &fixed);
    graph->inputs.count -= masks->masks.count;
    return graph;
}

static void test_ones_change_nothing(void **state) {
    const char *const texts[] = {talking_steps, talking_at_once,
                                 DIMS "def F(X[n, d], " PARAMS "):\n" MULTI_HEAD};
    for (uint32_t i = 0; i < 3; i++) {
        HeadMasks masks = mask(*state, texts[i]);
        assert_same_results(passes_build(*state, texts[i]), with_numbers(&masks, 1, 0), 5, i);
    }
}

// Whatever the program: masks of 1 change nothing, and its heads have groups.
static void test_any_program(void **state) {
    for (uint32_t i = 0; passes_programs[i]; i++) {
        Session *session = session_new();
        HeadMasks masks = mask(session, passes_programs[i]);
        HeadGroups groups = graph_head_groups(&masks, session->arena);
        assert_int_equal(groups.count > 0, masks.masks.count > 0);
        assert_same_results(passes_build(session, passes_programs[i]), with_numbers(&masks, 1, 0),
                            5, i);
        session_free(session);
    }
    (void)state;
}

// Head 1 of the weights is nothing, as with parameters that are 0 there.
static void test_zero_takes_a_head_away(void **state) {
    HeadMasks masks = mask(*state, DIMS "def F(X[n, d], " PARAMS "):\n" MULTI_HEAD);
    Graph *without = passes_build(*state, DIMS "def G(X[n, d], " PARAMS "):\n" ATTEND
                                               "    kept = where(index(h) == 1, 0, O[n, k, h])\n"
                                               "    return einsum(kept, P_o[d, k, h] -> [n, d])\n");
    assert_same_results(with_numbers(&masks, 0, 1), without, 5, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_weights_of_multi_head, setup, teardown),
        cmocka_unit_test_setup_teardown(test_layers_have_masks_of_their_own, setup, teardown),
        cmocka_unit_test_setup_teardown(test_groups_of_heads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_talking_heads_have_three, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gains_are_no_mixing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_attention_no_mask, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sums_of_rows_take_nothing_in, setup, teardown),
        cmocka_unit_test_setup_teardown(test_logits_before_they_are_masked, setup, teardown),
        cmocka_unit_test_setup_teardown(test_logits_of_attention_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_head_is_a_position_of_its_parameters, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_layers_are_groups_of_their_own, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_keeps_zero, setup, teardown),
        cmocka_unit_test_setup_teardown(test_first_values_count_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_does_not, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ones_change_nothing, setup, teardown),
        cmocka_unit_test(test_any_program),
        cmocka_unit_test_setup_teardown(test_zero_takes_a_head_away, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
