// SPDX-License-Identifier: Apache-2.0
// sweeps_find: which wide values are computed again in sweeps, in which phases, and in how many
// parts sums over their rows are.
#include "passes_fixture.h"

#include "graph/fuse/sweeps.h"

static int setup(void **state) {
    *state = session_new();
    return 0;
}

static int teardown(void **state) {
    session_free(*state);
    return 0;
}

static const char attention_text[] = "dim n = 4096, d = 32, k = 16, m like n\n"
                                     "def Main(X[n, d], M[m, d], param P[d, k], param R[d, k]):\n"
                                     "    Q[n, k] = einsum(X, P)\n"
                                     "    K[m, k] = einsum(M, R)\n"
                                     "    A[n, m] = softmax(einsum(Q, K), reduced_dim=m)\n"
                                     "    return einsum(A, M -> [n, d])\n";
// Sums over the rows of 32 MiB, and of 256 MiB.
#define TEXT_OF_WIDTH(d)                                                                           \
    "dim n = 4096, d = " d ", k = 16, m = 32768\n"                                                 \
    "def Main(Q[n, k], K[m, k], V[m, d]):\n"                                                       \
    "    A[n, m] = softmax(einsum(Q, K), reduced_dim=m)\n"                                         \
    "    return einsum(A, V -> [n, d])\n"
static const char wide_text[] = TEXT_OF_WIDTH("240"), widest_text[] = TEXT_OF_WIDTH("2032");
// Weights that are divided by what they add up to over the rows as well.
static const char both_ways_text[] = "dim n = 256, d = 32, k = 16, m like n\n"
                                     "def Main(X[n, d], param P[d, k], param R[d, k]):\n"
                                     "    Q[n, k] = einsum(X, P)\n"
                                     "    K[m, k] = einsum(X[m, d], R)\n"
                                     "    A[n, m] = softmax(einsum(Q, K), reduced_dim=m)\n"
                                     "    B[n, m] = A / sum(A, reduced_dim=n)\n"
                                     "    return einsum(B, X[m, d] -> [n, d])\n";

typedef struct {
    const Graph *graph;
    SweptPairs pairs;
} Found;

static Found find(Session *session, const Graph *graph, const Machine *machine) {
    int64_t *extents = graph_typical_extents(graph, session->arena);
    return (Found){graph, sweeps_find(graph, extents, machine, false, session->arena)};
}

static Found find_in_gradient(Session *session, const char *text) {
    return find(session, passes_expand_gradient(passes_build(session, text)), &passes_machine);
}

// The only pair of the program.
static const SweptPair *pair_of(const Found *found) {
    assert_int_equal(found->pairs.count, 1);
    return &found->pairs.at[0];
}

static void gradients_of_weights_need_them_again(void **state) {
    Session *session = *state;
    assert_int_equal(
        find(session, passes_expand(session, attention_text), &passes_machine).pairs.count,
        0); // the forward pass alone is one sweep
    Found found = find_in_gradient(session, attention_text);
    const SweptPair *pair = pair_of(&found);
    const Value *weights = find_named(found.graph, "A");
    assert_int_equal(pair->x, find_dim(found.graph, "n"));
    assert_int_equal(pair->y, find_dim(found.graph, "m"));
    assert_true(pair->wide[weights->id] && pair->twice[pair->set[weights->id]]);
}

static void wide_values_are_of_one_set(void **state) {
    Found found = find_in_gradient(*state, attention_text);
    const SweptPair *pair = pair_of(&found);
    uint32_t set = pair->set[find_named(found.graph, "A")->id], wide = 0, sums = 0;
    for (uint32_t i = 0; i < found.graph->values.count; i++) {
        const Value *value = found.graph->values.at[i];
        bool over_both = dims_has(&value->dims, pair->x) && dims_has(&value->dims, pair->y);
        assert_true(over_both || !pair->wide[i]);
        if (pair->wide[i]) {
            wide++;
            assert_int_equal(pair->set[i], set);
            assert_true(sweeps_is_of_set(pair, value, set));
            assert_in_range(i, set, pair->end[set] - 1);
        } else if (sweeps_is_of_set(pair, value, set)) {
            sums++;
            assert_true(value_is_reduction(value));
            assert_true(!over_both && i < pair->end[set]);
        }
    }
    assert_true(wide > 3 && sums > 3);
}

// Of what is summed over y for the rows, first what the forward pass sums, then what is of that.
static void later_phases_are_of_earlier_ones(void **state) {
    Found found = find_in_gradient(*state, attention_text);
    const SweptPair *pair = pair_of(&found);
    uint32_t set = pair->set[find_named(found.graph, "A")->id], last = 0;
    for (uint32_t i = 0; i < found.graph->values.count; i++) {
        const Value *value = found.graph->values.at[i];
        if (!sweeps_is_of_set(pair, value, set))
            continue;
        assert_true(pair->phase[i] < pair->phases[set]);
        last = pair->phase[i] > last ? pair->phase[i] : last;
        for (uint32_t k = 0; k < value->n_args; k++)
            if (sweeps_is_of_set(pair, value->args[k], set))
                assert_true(pair->phase[value->args[k]->id] <= pair->phase[i]);
    }
    assert_int_equal(last, pair->phases[set] - 1);
}

static void weights_normalised_both_ways_are_stored(void **state) {
    Session *session = *state;
    const Graph *graph = passes_expand(session, both_ways_text);
    assert_int_equal(find(session, graph, &passes_machine).pairs.count, 0);
}

// Are all sums over the rows in so many parts, and in turn where these are 0?
static void check_sums(const Found *found, int64_t parts) {
    const SweptPair *pair = pair_of(found);
    uint32_t sums = 0;
    for (uint32_t i = 0; i < found->graph->values.count; i++) {
        const Value *value = found->graph->values.at[i];
        WideRead read = sweeps_reads_twice(pair, value);
        if (!read.value || !sweeps_is_sum(value) || dims_has(&value->dims, pair->x))
            continue;
        sums++;
        assert_int_equal(sweeps_parts(pair, value, read), parts);
        assert_int_equal(sweeps_in_turn(pair, value, read),
                         !parts && dims_has(&value->dims, pair->y));
    }
    assert_true(sums > 0);
}

// A part for each thread, of a whole number of rows that are worth it.
static void sums_over_rows_are_in_parts(void **state) {
    Session *session = *state;
    const Graph *graph = passes_expand_gradient(passes_build(session, attention_text));
    for (int threads = 1; threads <= 64; threads *= 8) {
        Machine machine = passes_machine;
        machine.threads = threads;
        Found found = find(session, graph, &machine);
        check_sums(&found, threads < 32 ? threads : 32);
    }
}

// Where memory is to be saved, where one part is too large, and where there would be parts for few
// of the threads.
static void sums_over_rows_are_in_turn(void **state) {
    Session *session = *state;
    Machine machine = passes_machine;
    Graph *graph = passes_expand_gradient(passes_build(session, attention_text));
    int64_t *extents = graph_typical_extents(graph, session->arena);
    Found saved = {graph, sweeps_find(graph, extents, &machine, true, session->arena)};
    check_sums(&saved, 0);
    graph = passes_expand_gradient(passes_build(session, wide_text));
    for (machine.threads = 1; machine.threads <= 16; machine.threads *= 4) {
        Found found = find(session, graph, &machine);
        check_sums(&found, machine.threads == 16 ? 0 : machine.threads == 4 ? 2 : 1);
    }
    graph = passes_expand_gradient(passes_build(session, widest_text));
    Found widest = find(session, graph, &passes_machine);
    check_sums(&widest, 0);
}

#define sweeps_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        sweeps_test(gradients_of_weights_need_them_again),
        sweeps_test(wide_values_are_of_one_set),
        sweeps_test(later_phases_are_of_earlier_ones),
        sweeps_test(weights_normalised_both_ways_are_stored),
        sweeps_test(sums_over_rows_are_in_parts),
        sweeps_test(sums_over_rows_are_in_turn),
    };
    return cmocka_run_group_tests_name("sweeps", tests, NULL, NULL);
}
