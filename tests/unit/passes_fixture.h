// SPDX-License-Identifier: Apache-2.0
// What the tests of the graph passes share: graphs from source text, and the oracle as a judge.
#ifndef ATTC_TESTS_PASSES_FIXTURE_H
#define ATTC_TESTS_PASSES_FIXTURE_H

#include "support.h"

#include "graph/plan.h"

// The entry of a source text (its last def), built and verified. The test fails on a diagnostic.
Graph *passes_build(Session *session, const char *text);
Graph *passes_build_file(Session *session, const char *path);
// The same with all passes up to the one in the name.
Graph *passes_simplify(Session *session, const char *text);
Graph *passes_contract(Session *session, const char *text);
Graph *passes_expand(Session *session, const char *text);
// What graph_build makes with its gradients, expanded. NULL: it has none.
Graph *passes_expand_gradient(const Graph *plain);
Fusion *passes_fuse(Session *session, const char *text);
Plan *passes_plan(Session *session, const char *text);
// The same without streamed groups.
Fusion *passes_fuse_unstreamed(Session *session, const char *text);
Plan *passes_plan_unstreamed(Session *session, const char *text);
// Of what graph_build makes, in the memory orders that this machine wants.
Plan *passes_plan_for(const Machine *machine, const Graph *graph, bool streams);

extern const Machine passes_machine;

// Both graphs have the same inputs and results: evaluates them on the same random numbers, dynamic
// dims having this extent, and compares to 1e-11 of the largest result.
void assert_same_results(const Graph *a, const Graph *b, int64_t dynamic, uint64_t seed);
void assert_results_within(double tolerance, const Graph *a, const Graph *b, int64_t dynamic,
                           uint64_t seed);

uint32_t count_live(const Graph *graph, Op op);
const Value *find_live(const Graph *graph, Op op); // the first of them; the test fails without one
// By the name in the source or of a result; the test fails when there is none.
const Value *find_named(const Graph *graph, const char *name);
const Group *find_group(const Fusion *fusion, const Value *member); // the first that has it
DimId find_dim(const Graph *graph, const char *name);
const char *dims_text(const Graph *graph, const DimList *dims); // "n m h"
int64_t multiplies(const Graph *graph);

// Programs that between them use every op and every rule of the passes; NULL-terminated.
extern const char *const passes_programs[];

#endif
