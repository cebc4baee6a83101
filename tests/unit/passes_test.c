// SPDX-License-Identifier: Apache-2.0
// Random graphs through all passes: every level verified, results compared with the oracle's.
#include "passes_fixture.h"
#include "random_graph.h"

static const double TOLERANCE = 1e-8;
enum { GRAPHS = 3000 };

static uint32_t count_groups(const Fusion *fusion, GroupKind kind) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < fusion->groups.count; i++)
        count += fusion->groups.at[i]->kind == kind;
    return count;
}

// The number of streamed groups.
static uint32_t run_all_passes(uint64_t seed) {
    Session *session = session_new();
    Graph *graph = random_graph(session, seed);
    graph_verify(graph, "build");
    Graph *simple =
        graph_simplify(graph, graph_typical_extents(graph, session->arena), &passes_machine);
    graph_verify(simple, "simplify");
    int64_t *extents = graph_typical_extents(simple, session->arena);
    Graph *pairs = graph_contract(simple, extents, &passes_machine);
    graph_verify(pairs, "contract");
    Graph *expanded = graph_expand(pairs, extents);
    graph_verify(expanded, "expand");
    Fusion *fusion = graph_fuse(expanded, extents, true, COPIES_BY_SIZE);
    fusion_verify(fusion, "fuse");
    Plan *plan = graph_plan(fusion, graph_layout(fusion, extents, &passes_machine, NULL));
    plan_verify(plan);
    assert_results_within(TOLERANCE, graph, simple, 5, seed);
    assert_results_within(TOLERANCE, graph, pairs, 5, seed);
    assert_results_within(TOLERANCE, graph, expanded, 5, seed);
    assert_results_within(TOLERANCE, graph, fusion->graph, 1, seed);
    assert_results_within(TOLERANCE, graph, fusion->graph, 5, seed);
    uint32_t streams = count_groups(fusion, GROUP_STREAM);
    session_free(session);
    return streams;
}

static void test_random_graphs(void **state) {
    (void)state;
    uint32_t streams = 0;
    for (uint64_t seed = 0; seed < GRAPHS; seed++)
        streams += run_all_passes(seed);
    assert_true(streams >= GRAPHS / 20); // the graphs are such as to have some
}

// The same graph twice gives the same text at every level: nothing hangs on addresses.
static void test_passes_are_deterministic(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        char *texts[2];
        Session *sessions[2];
        for (int i = 0; i < 2; i++) {
            sessions[i] = session_new();
            arena_alloc(sessions[i]->arena, (size_t)(1 + i) * 4096);
            Graph *graph = random_graph(sessions[i], seed);
            int64_t *extents = graph_typical_extents(graph, sessions[i]->arena);
            graph = graph_simplify(graph, extents, &passes_machine);
            extents = graph_typical_extents(graph, sessions[i]->arena);
            graph = graph_contract(graph, extents, &passes_machine);
            graph = graph_expand(graph, extents);
            Text text = {.arena = sessions[i]->arena};
            fusion_print(graph_fuse(graph, extents, true, COPIES_BY_SIZE), &text);
            texts[i] = text.at;
        }
        assert_string_equal(texts[0], texts[1]);
        session_free(sessions[0]);
        session_free(sessions[1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_passes_are_deterministic),
    };
    return cmocka_run_group_tests_name("passes", tests, NULL, NULL);
}
