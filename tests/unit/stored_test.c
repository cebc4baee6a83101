// SPDX-License-Identifier: Apache-2.0
// sweeps_choose_stored: which wide values later sweeps read instead of computing them again.
#include "passes_fixture.h"

#include <math.h>

#include "graph/fuse/sweeps.h"

static int setup(void **state) {
    *state = session_new();
    return 0;
}

static int teardown(void **state) {
    session_free(*state);
    return 0;
}

// Logits that are added up over layers: k numbers of each row make one of them.
static const char *layers_text(Arena *arena, int layers, int k) {
    return arena_printf(
        arena,
        "dim layers = %d, n = 256, d = 256, k = %d, m like n\n"
        "def Layer(X[n, d], L[n, m], P_q[d, k], P_k[d, k]):\n"
        "    S[n, m] = einsum(X, P_q, X[m, d'], P_k[d', k]) + L\n"
        "    W = softmax(S, reduced_dim=m)\n"
        "    return X + einsum(W, X[m, d] -> [n, d]), S\n"
        "def Main(X[n, d], slope[], param P_q[layers, d, k], param P_k[layers, d, k]):\n"
        "    L[n, m] = slope * abs(index(n) - index(m))\n"
        "    for layer in layers:\n"
        "        X, L = Layer(X, L, P_q[layer, d, k], P_k[layer, d, k])\n"
        "    return X\n",
        layers, k);
}

typedef struct {
    const Graph *graph;
    SweptPairs pairs;
} Found;

static Found choose(Session *session, const Graph *graph, double wide_price) {
    int64_t *extents = graph_typical_extents(graph, session->arena);
    Found found = {graph, sweeps_find(graph, extents, &passes_machine, false, session->arena)};
    assert_true(found.pairs.count > 0);
    sweeps_choose_stored(&found.pairs, graph, extents, &passes_machine, wide_price, session->arena);
    return found;
}

static uint32_t count_stored(const Found *found) {
    uint32_t count = 0;
    for (uint32_t p = 0; p < found->pairs.count; p++)
        for (uint32_t i = 0; i < found->graph->values.count; i++)
            count += found->pairs.at[p].stored[i];
    return count;
}

static uint32_t most_phases(const Found *found) {
    uint32_t most = 0;
    for (uint32_t p = 0; p < found->pairs.count; p++)
        for (uint32_t i = 0; i < found->graph->values.count; i++) {
            const SweptPair *pair = &found->pairs.at[p];
            most = pair->twice[i] && pair->phases[i] > most ? pair->phases[i] : most;
        }
    return most;
}

static const Graph *layers(Session *session, int count, int k) {
    return passes_expand(session, layers_text(session->arena, count, k));
}

static void logits_are_stored_where_products_take_longer(void **state) {
    Session *session = *state;
    Found dear = choose(session, layers(session, 4, 64), 1);
    Found cheap = choose(session, layers(session, 4, 1), 1);
    assert_true(most_phases(&dear) > FEW_PHASES && most_phases(&cheap) > FEW_PHASES);
    assert_true(count_stored(&dear) > 0);
    assert_int_equal(count_stored(&cheap), 0);
}

static void only_wide_values_that_later_phases_read_are_stored(void **state) {
    Session *session = *state;
    Found found = choose(session, layers(session, 5, 64), 1);
    for (uint32_t p = 0; p < found.pairs.count; p++) {
        const SweptPair *pair = &found.pairs.at[p];
        for (uint32_t i = 0; i < found.graph->values.count; i++) {
            if (!pair->stored[i])
                continue;
            bool later = false;
            const ValueList *of = &pair->of[pair->set[i]];
            for (uint32_t u = 0; u < of->count; u++)
                for (uint32_t k = 0; k < of->at[u]->n_args; k++)
                    later = later || (sweeps_read(pair, of->at[u]->args[k]).value ==
                                          found.graph->values.at[i] &&
                                      pair->phase[of->at[u]->id] > pair->phase[i]);
            assert_true(pair->wide[i] && later);
        }
    }
}

static void the_price_of_a_byte_decides(void **state) {
    Session *session = *state;
    const Graph *graph = layers(session, 4, 64);
    Found free = choose(session, graph, 1), dear = choose(session, graph, 1e6),
          never = choose(session, graph, INFINITY);
    assert_true(count_stored(&free) > 0);
    assert_int_equal(count_stored(&dear), 0);
    assert_int_equal(count_stored(&never), 0);
}

// One softmax and its gradient.
static void of_two_phases_nothing_is_stored(void **state) {
    Session *session = *state;
    const Graph *graph =
        passes_expand_gradient(passes_build(session, layers_text(session->arena, 1, 512)));
    Found found = choose(session, graph, 1);
    assert_int_equal(most_phases(&found), FEW_PHASES);
    assert_int_equal(count_stored(&found), 0);
}

#define stored_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        stored_test(logits_are_stored_where_products_take_longer),
        stored_test(only_wide_values_that_later_phases_read_are_stored),
        stored_test(the_price_of_a_byte_decides),
        stored_test(of_two_phases_nothing_is_stored),
    };
    return cmocka_run_group_tests_name("stored", tests, NULL, NULL);
}
