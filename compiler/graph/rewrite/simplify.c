// SPDX-License-Identifier: Apache-2.0
// graph_simplify: sweeps of rewriting, one rule after the other, until none changes anything.
//
//     before  K[m, d_k, h] = einsum(X[m, d], P_k[d, d_k, h]) * 2
//             J[n, m, h] = einsum(Q[n, d_k, h], K[m, d_k, h]) / sqrt(d_k)
//             L[n, m, h] = einsum(J[n, m, h_k], P_l[h_k, h]) + einsum(J[n, m, h_k], R[n, h_k, h])
//     after   L[n, m, h] = 0.25 * einsum(Q[n, d_k, h_k], X[m, d], P_k[d, d_k, h_k], A[n, h_k, h])
//             with A = P_l + R
//
// Requires: a graph that passes graph_verify. Ensures: the same outputs and inputs; no dead values;
// no einsum with one use as the operand of another (unless that would exceed ORDER_EXACT_MAX
// operands or DIMS_MAX dims), no constant operand in an einsum, no einsum of one operand. Results
// differ from the original by the rounding of reordered sums and products only. Dims may be added
// at the end of the list, each `like` one that was there.
#include "graph/rewrite/simplify.h"

static RewriteRule *const rules[] = {simplify_fold, simplify_flatten, simplify_factor};
enum { N_RULES = sizeof rules / sizeof *rules, SWEEPS_MAX = 64 * N_RULES };

static Graph *run_rule(const Graph *from, RewriteRule *rule, SimplifyFacts *facts, Arena *to) {
    Arena *arena = arena_new();
    return rewrite_graph("simplify", from, to, arena, rule, facts);
}

// The next graph of a sweep. Each lives in an arena of its own, in *in, until the next is there.
static Graph *next_graph(const Graph *from, RewriteRule *rule, SimplifyFacts *facts, Arena **in) {
    Arena *arena = arena_new();
    Graph *next = run_rule(from, rule, facts, arena);
    arena_free(*in);
    *in = arena;
    return next;
}

Graph *graph_simplify(const Graph *graph, const int64_t *extents, const Machine *machine) {
    SimplifyFacts facts = {.arena = arena_new(), .machine = machine};
    for (uint32_t i = 0; i < graph->dims.count; i++)
        vec_push(facts.arena, &facts.extents, extents[i]);
    Arena *in = NULL;
    const Graph *now = graph;
    uint32_t in_vain = 0; // rules in turn that changed nothing
    for (uint32_t sweep = 0; sweep < SWEEPS_MAX && in_vain < N_RULES; sweep++) {
        uint64_t before = graph_hash(now);
        now = next_graph(now, rules[sweep % N_RULES], &facts, &in);
        in_vain = graph_hash(now) == before ? in_vain + 1 : 0;
    }
    // Without what the last rules built in vain.
    Graph *kept = run_rule(now, rewrite_keep, &facts, graph->arena);
    arena_free(in);
    arena_free(facts.arena);
    return kept;
}
