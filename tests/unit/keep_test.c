// SPDX-License-Identifier: Apache-2.0
// fuse_keep: what of the forward pass is kept for the backward pass, without a saving and with one.
#include "passes_fixture.h"

#include <math.h>

#include "graph/fuse/fuse.h"

static int setup(void **state) {
    *state = session_new();
    return 0;
}

static int teardown(void **state) {
    session_free(*state);
    return 0;
}

static const char gelu_text[] = "dim n = 256, d = 256, f = 256\n"
                                "def Main(X[n, d], param W[d, f], param V[f, d]):\n"
                                "    A[n, f] = einsum(X, W)\n"
                                "    H[n, f] = gelu(A)\n"
                                "    Y[n, d] = einsum(H, V)\n"
                                "    return sum(Y * Y, reduced_dim=(n, d))\n";
static const char attention_text[] = "dim n = 128, d = 32, k = 32, m like n\n"
                                     "def Main(X[n, d], param P[d, k], param R[d, k]):\n"
                                     "    Q[n, k] = einsum(X, P)\n"
                                     "    K[m, k] = einsum(X[m, d], R)\n"
                                     "    A[n, m] = softmax(einsum(Q, K), reduced_dim=m)\n"
                                     "    O[n, d] = einsum(A, X[m, d])\n"
                                     "    return sum(O * O, reduced_dim=(n, d))\n";
static const char nested_text[] =
    "dim stages = 2, layers = 3, n = 256, d = 64, f = 256\n"
    "def Main(X[n, d], param W[stages, layers, d, f],\n"
    "         param V[stages, layers, f, d]):\n"
    "    for stage in stages:\n"
    "        for layer in layers:\n"
    "            H[n, f] = tanh(einsum(X, W[stage, layer, d, f] -> [n, f]))\n"
    "            X[n, d] = X + einsum(H, V[stage, layer, f, d] -> [n, d])\n"
    "    return sum(X * X, reduced_dim=(n, d))\n";

typedef struct {
    const Graph *graph;
    int64_t *extents;
} Tried;

static Tried read(Session *session, const char *text) {
    Tried tried = {.graph = passes_expand_gradient(passes_build(session, text))};
    tried.extents = graph_typical_extents(tried.graph, session->arena);
    return tried;
}

static Kept keep(const Tried *tried, Saving saving) {
    return fuse_keep(tried->graph, tried->extents, &passes_machine, saving);
}

static double kept_bytes(const Tried *tried, const Kept *kept) {
    double bytes = 0;
    for (uint32_t i = 0; i < tried->graph->values.count; i++)
        if (kept->kept[i] && !kept->result[i])
            bytes += fuse_bytes(tried->graph->values.at[i], tried->extents);
    return bytes;
}

// ---- without a saving --------------------------------------------------------------------------

// H is what both einsums read that it is an operand of: it lies in memory anyway.
static void products_and_operands_are_kept_and_what_is_pointwise_is_not(void **state) {
    Tried tried = read(*state, gelu_text);
    Kept kept = keep(&tried, (Saving){0});
    assert_true(kept.kept[find_named(tried.graph, "A")->id]);
    assert_true(kept.kept[find_named(tried.graph, "H")->id]);
    uint32_t again = 0;
    for (uint32_t i = 0; i < tried.graph->values.count; i++) {
        bool erf = tried.graph->values.at[i]->op == OP_ERF && !kept.after[i];
        assert_false(erf && kept.kept[i]);
        again += erf && kept.needed[i];
    }
    assert_true(again > 0);
}

// What is as soon computed as read is a prologue of the einsum.
static void a_prologue_is_not_kept(void **state) {
    Tried tried = read(*state, "dim n = 512, d = 256, f = 1024\n"
                               "def Main(X[n, d], param W[d, f], param V[f, d]):\n"
                               "    A[n, f] = einsum(X, W)\n"
                               "    H[n, f] = A * A\n"
                               "    Y[n, d] = einsum(H, V)\n"
                               "    return sum(Y * Y, reduced_dim=(n, d))\n");
    Kept kept = keep(&tried, (Saving){0});
    assert_true(kept.kept[find_named(tried.graph, "A")->id]);
    assert_false(kept.kept[find_named(tried.graph, "H")->id]);
    assert_true(kept.needed[find_named(tried.graph, "H")->id]);
}

static void what_is_over_pairs_is_not_kept(void **state) {
    Tried tried = read(*state, attention_text);
    Kept kept = keep(&tried, (Saving){0});
    DimId n = find_dim(tried.graph, "n"), m = find_dim(tried.graph, "m");
    const bool *live = graph_live(tried.graph, tried.graph->arena);
    uint32_t wide = 0;
    for (uint32_t i = 0; i < tried.graph->values.count; i++) {
        const DimList *dims = &tried.graph->values.at[i]->dims;
        if (!live[i] || kept.after[i] || !dims_has(dims, n) || !dims_has(dims, m))
            continue;
        wide++;
        assert_true(kept.again[i] || fuse_is_free(tried.graph->values.at[i]));
        assert_false(kept.kept[i]);
    }
    assert_true(wide > 0 && kept.kept[find_named(tried.graph, "Q")->id]);
}

static void what_is_needed_is_kept_or_made_of_what_is(void **state) {
    Session *session = *state;
    const char *const texts[] = {gelu_text, attention_text, nested_text};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        Tried tried = read(session, texts[t]);
        for (uint32_t step = 0; step <= SAVING_STEPS; step++) {
            Kept kept = keep(&tried, (Saving){.step = step, .stretches = 1});
            for (uint32_t i = 0; i < tried.graph->values.count; i++) {
                const Value *value = tried.graph->values.at[i];
                assert_false(kept.kept[i] && (kept.after[i] || fuse_is_free(value)));
                for (uint32_t k = 0; kept.needed[i] && !kept.kept[i] && k < value->n_args; k++)
                    assert_true(kept.needed[value->args[k]->id]);
            }
        }
    }
}

// But for what is over pairs, and in the rounds of a loop that is checkpointed.
static void all_that_may_be_is_kept_where_that_is_free(void **state) {
    Tried tried = read(*state, gelu_text), pairs = read(*state, attention_text),
          rounds = read(*state, nested_text);
    Kept all = keep(&tried, (Saving){.keep_all = true}), by_time = keep(&tried, (Saving){0});
    assert_true(all.kept[find_named(tried.graph, "H")->id]);
    assert_true(kept_bytes(&tried, &all) > kept_bytes(&tried, &by_time));
    all = keep(&pairs, (Saving){.keep_all = true});
    for (uint32_t i = 0; i < pairs.graph->values.count; i++)
        assert_false(all.again[i] && all.kept[i]);
    all = keep(&rounds, (Saving){.rounds = 1, .keep_all = true});
    by_time = keep(&rounds, (Saving){.rounds = 1});
    assert_true(kept_bytes(&rounds, &all) == kept_bytes(&rounds, &by_time));
    assert_false(saving_any((Saving){.keep_all = true}));
}

// ---- with one ----------------------------------------------------------------------------------

static void savings_are_numbered_up_to_the_last(void **state) {
    (void)state;
    Saving first = saving_numbered(2, 5, 1), last = saving_numbered(2, 5, saving_last(5));
    assert_true(first.seams == 2 && first.step == 1 && first.stretches == 1);
    assert_true(last.seams == 2 && last.step == SAVING_STEPS && last.stretches == 5);
    assert_true(saving_price(0) == 0 && saving_price(1) == 1 && saving_price(2) == 2);
    assert_true(isinf(saving_price(last.step)) && !isinf(saving_price(last.step - 1)));
    assert_true(saving_any(first) && saving_any((Saving){.rounds = 1}) && !saving_any((Saving){0}));
}

static void the_last_saving_keeps_what_crosses_seams(void **state) {
    Session *session = *state;
    Tried tried = read(session, nested_text);
    StretchCounts counts =
        graph_stretches(tried.graph, tried.extents, &passes_machine, session->arena);
    Kept all = keep(&tried, (Saving){0});
    ForwardPass pass = {tried.graph, tried.extents, graph_live(tried.graph, session->arena),
                        all.after,   all.again,     all.result};
    SeamChoices choices = fuse_find_seams(&pass, session->arena);
    assert_int_equal(counts.count, choices.count);
    for (uint32_t c = 0; c < counts.count; c++) {
        assert_int_equal(counts.at[c], choices.at[c].count);
        Kept kept = keep(&tried, saving_numbered(c, counts.at[c], saving_last(counts.at[c])));
        for (uint32_t i = 0; i < tried.graph->values.count; i++)
            assert_true(!kept.kept[i] || kept.result[i] || choices.at[c].crosses[i]);
        if (counts.at[c] > 1)
            assert_true(kept_bytes(&tried, &kept) > 0);
        assert_true(kept_bytes(&tried, &kept) < kept_bytes(&tried, &all));
    }
}

// The others have the price of the step before.
static void the_first_stretches_are_priced(void **state) {
    Session *session = *state;
    Tried tried = read(session, nested_text);
    uint32_t stretches =
        graph_stretches(tried.graph, tried.extents, &passes_machine, session->arena).at[0];
    Kept all = keep(&tried, (Saving){0});
    ForwardPass pass = {tried.graph, tried.extents, graph_live(tried.graph, session->arena),
                        all.after,   all.again,     all.result};
    const uint32_t *stretch = fuse_find_seams(&pass, session->arena).at[0].stretch;
    uint32_t changes = 0;
    for (uint32_t step = 2; step <= SAVING_STEPS; step++) {
        Kept before = keep(&tried, (Saving){.step = step - 1, .stretches = stretches});
        Kept first = keep(&tried, (Saving){.step = step, .stretches = 1});
        for (uint32_t i = 0; i < tried.graph->values.count; i++) {
            assert_true(stretch[i] == 0 || first.kept[i] == before.kept[i]);
            changes += first.kept[i] != before.kept[i];
        }
    }
    assert_true(stretches > 1 && changes > 0);
}

// Of the block of the loop at this depth; NULL: none.
static const CodeBlock *block_at(const Value *value, uint32_t depth) {
    const CodeBlock *block = value->made_for.block;
    while (block && block->depth != depth)
        block = block->around;
    return block;
}

static bool is_read_outside(const Tried *tried, const Kept *kept, const Value *value,
                            uint32_t depth) {
    for (uint32_t i = value->id + 1; i < tried->graph->values.count; i++) {
        const Value *user = tried->graph->values.at[i];
        for (uint32_t k = 0; !kept->after[i] && k < user->n_args; k++)
            if (user->args[k] == value && block_at(user, depth) != block_at(value, depth))
                return true;
    }
    return false;
}

static void rounds_keep_what_others_read(void **state) {
    Tried tried = read(*state, nested_text);
    assert_int_equal(graph_loop_depth(tried.graph), 2);
    double bytes[3] = {0};
    for (uint32_t depth = 0; depth <= 2; depth++) {
        Kept kept = keep(&tried, (Saving){.rounds = depth});
        bytes[depth] = kept_bytes(&tried, &kept);
        for (uint32_t i = 0; i < tried.graph->values.count && depth; i++) {
            const Value *value = tried.graph->values.at[i];
            if (kept.kept[i] && !kept.result[i] && block_at(value, depth))
                assert_true(is_read_outside(&tried, &kept, value, depth));
        }
    }
    assert_true(0 < bytes[1] && bytes[1] < bytes[2] && bytes[2] < bytes[0]);
}

#define keep_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        keep_test(products_and_operands_are_kept_and_what_is_pointwise_is_not),
        keep_test(a_prologue_is_not_kept),
        keep_test(what_is_over_pairs_is_not_kept),
        keep_test(what_is_needed_is_kept_or_made_of_what_is),
        keep_test(all_that_may_be_is_kept_where_that_is_free),
        keep_test(savings_are_numbered_up_to_the_last),
        keep_test(the_last_saving_keeps_what_crosses_seams),
        keep_test(the_first_stretches_are_priced),
        keep_test(rounds_keep_what_others_read),
    };
    return cmocka_run_group_tests_name("keep", tests, NULL, NULL);
}
