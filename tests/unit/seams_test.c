// SPDX-License-Identifier: Apache-2.0
// fuse_find_seams: where the forward pass is cut, and what crosses.
#include "passes_fixture.h"

#include <string.h>

#include "graph/fuse/fuse.h"

static int setup(void **state) {
    *state = session_new();
    return 0;
}

static int teardown(void **state) {
    session_free(*state);
    return 0;
}

// A narrow value between two wide ones of each layer.
static const char layers_text[] =
    "dim layers = 6, n = 256, d = 128, f = 256\n"
    "def Main(X[n, d], param W[layers, d, f], param V[layers, f, d]):\n"
    "    for layer in layers:\n"
    "        H[n, f] = tanh(einsum(X, W[layer, d, f] -> [n, f]))\n"
    "        X[n, d] = X + einsum(H, V[layer, f, d] -> [n, d])\n"
    "    return sum(X * X, reduced_dim=(n, d))\n";
static const char attention_text[] =
    "dim layers = 3, n = 128, d = 32, k = 32, m like n\n"
    "def Main(X[n, d], param P[layers, d, k], param R[layers, d, k]):\n"
    "    for layer in layers:\n"
    "        Q[n, k] = einsum(X, P[layer, d, k] -> [n, k])\n"
    "        K[m, k] = einsum(X[m, d], R[layer, d, k] -> [m, k])\n"
    "        A[n, m] = softmax(einsum(Q, K -> [n, m]), reduced_dim=m)\n"
    "        X[n, d] = X + einsum(A, X[m, d] -> [n, d])\n"
    "    return sum(X * X, reduced_dim=(n, d))\n";

typedef struct {
    const Graph *graph;
    ForwardPass pass;
    SeamChoices choices;
} Found;

static Found find(Session *session, const char *text) {
    Graph *graph = passes_expand_gradient(passes_build(session, text));
    int64_t *extents = graph_typical_extents(graph, session->arena);
    Kept kept = fuse_keep(graph, extents, &passes_machine, (Saving){0});
    Found found = {.graph = graph};
    found.pass = (ForwardPass){graph,      extents,    graph_live(graph, session->arena),
                               kept.after, kept.again, kept.result};
    found.choices = fuse_find_seams(&found.pass, session->arena);
    assert_true(found.choices.count > 0);
    return found;
}

static bool is_forward(const Found *found, uint32_t id) {
    return found->pass.live[id] && !found->pass.after[id];
}

static bool is_move(const Value *value) {
    return op_kind(value->op) == KIND_MOVE;
}

// The last stretch in which the forward pass reads the value, under other names, too.
static uint32_t last_reading(const Found *found, const Seams *seams, uint32_t id) {
    uint32_t last = seams->stretch[id];
    for (uint32_t i = id + 1; i < found->graph->values.count; i++) {
        const Value *user = found->graph->values.at[i];
        for (uint32_t k = 0; is_forward(found, i) && k < user->n_args; k++) {
            if (user->args[k]->id != id)
                continue;
            uint32_t here = is_move(user) ? last_reading(found, seams, i) : seams->stretch[i];
            last = here > last ? here : last;
        }
    }
    return last;
}

static void stretches_follow_one_another(void **state) {
    Found found = find(*state, layers_text);
    for (uint32_t c = 0; c < found.choices.count; c++) {
        const Seams *seams = &found.choices.at[c];
        assert_int_equal(seams->stretch[0], 0);
        assert_int_equal(seams->stretch[found.graph->values.count - 1], seams->count - 1);
        for (uint32_t i = 1; i < found.graph->values.count; i++)
            assert_in_range(seams->stretch[i] - seams->stretch[i - 1], 0, 1);
    }
}

static void what_crosses_is_what_later_stretches_read(void **state) {
    Found found = find(*state, layers_text);
    uint32_t crossing = 0;
    for (uint32_t c = 0; c < found.choices.count; c++) {
        const Seams *seams = &found.choices.at[c];
        for (uint32_t i = 0; i < found.graph->values.count; i++) {
            const Value *value = found.graph->values.at[i];
            bool stored = value_is_reduction(value) && is_forward(&found, i);
            bool later = last_reading(&found, seams, i) > seams->stretch[i];
            if (stored)
                assert_int_equal(seams->crosses[i], later);
            assert_true(later || !seams->crosses[i]);
            crossing += seams->crosses[i];
        }
    }
    assert_true(crossing > 0);
}

// One of the choices has a stretch for each layer, which only what is narrow leaves.
static void layers_are_stretches(void **state) {
    Found found = find(*state, layers_text);
    DimId wide = find_dim(found.graph, "f");
    bool any = false;
    for (uint32_t c = 0; c < found.choices.count; c++) {
        const Seams *seams = &found.choices.at[c];
        bool narrow = true;
        for (uint32_t i = 0; i < found.graph->values.count; i++)
            narrow =
                narrow && !(seams->crosses[i] && dims_has(&found.graph->values.at[i]->dims, wide));
        any = any || (narrow && seams->count == 6);
    }
    assert_true(any);
}

static void choices_differ(void **state) {
    Found found = find(*state, layers_text);
    size_t bytes = found.graph->values.count * sizeof *found.choices.at[0].stretch;
    assert_true(found.choices.count > 1);
    for (uint32_t a = 0; a < found.choices.count; a++)
        for (uint32_t b = 0; b < a; b++)
            assert_memory_not_equal(found.choices.at[a].stretch, found.choices.at[b].stretch,
                                    bytes);
}

// What is never kept is computed where it is read: no seam may come between.
static void values_over_pairs_cross_no_seam(void **state) {
    Found found = find(*state, attention_text);
    uint32_t wide = 0, most = 0;
    for (uint32_t c = 0; c < found.choices.count; c++) {
        const Seams *seams = &found.choices.at[c];
        most = seams->count > most ? seams->count : most;
        for (uint32_t i = 0; i < found.graph->values.count; i++) {
            if (!is_forward(&found, i) || !found.pass.again[i])
                continue;
            wide++;
            assert_false(seams->crosses[i]);
            assert_int_equal(last_reading(&found, seams, i), seams->stretch[i]);
        }
    }
    assert_true(wide > 0 && most > 1);
}

#define seams_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        seams_test(stretches_follow_one_another),
        seams_test(what_crosses_is_what_later_stretches_read),
        seams_test(layers_are_stretches),
        seams_test(choices_differ),
        seams_test(values_over_pairs_cross_no_seam),
    };
    return cmocka_run_group_tests_name("seams", tests, NULL, NULL);
}
