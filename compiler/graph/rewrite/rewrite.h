// SPDX-License-Identifier: Apache-2.0
// Passes that make a new graph out of an old one, and the engine that they share.
//
//     rewrite.c    the engine: copies the live part of a graph by a rule
//     simplify.c   graph_simplify, with its rules in fold.c, repeats.c, moves.c, flatten.c and
//                  factor.c (simplify.h)
//     contract.c   graph_contract, with the order of one einsum in order.c (order.h)
//     unify.c      graph_unify
//     totals.c     graph_totals
//     expand.c     graph_expand, with softmaxes that are written out in powers.c (expand.h)
//     cut.c        graph_cut
//     accumulate.c graph_accumulate
//     in_place.c   graph_in_place
//     grad.c       graph_gradient, with a rule for each op in grad_*.c (grad.h)
#ifndef ATTC_GRAPH_REWRITE_H
#define ATTC_GRAPH_REWRITE_H

#include "graph/graph.h"

// ---- rewrite.c ----------------------------------------------------------------------------------
// A rule puts a value of `to` in the place of each live value of `from`, in order of id. It decides
// on the old graph, where uses are counted, and builds from the new values of the arguments. The
// result has the elem and the dims of what it replaces, and takes over its name unless it has one.
typedef struct {
    const char *pass; // for messages
    Arena *arena;     // of this pass alone
    const Graph *from;
    Graph *to;      // begins with the dims and inputs of from
    Value **now;    // by id in from: its value in to, for every live value before the current one
    uint32_t *uses; // by id in from: by live users, outputs count too
    const Value **user; // by id in from: one of its live users, NULL when only outputs use it
    uint32_t *taken;    // by id in from: by how many users that take a position where `user` does
    void *data;         // the rule's own
} Rewrite;
typedef Value *RewriteRule(Rewrite *rewrite, const Value *value, Value **args);

// The new graph lives in `to_arena`, what only the pass needs in `arena`.
Rewrite rewrite_begin(const char *pass, const Graph *from, Arena *to_arena, Arena *arena);
void rewrite_values(Rewrite *rewrite, RewriteRule *rule);
void rewrite_outputs(Rewrite *rewrite); // the same as in from, by now
// All three, for a rule with its data. Frees `arena`.
Graph *rewrite_graph(const char *pass, const Graph *from, Arena *to_arena, Arena *arena,
                     RewriteRule *rule, void *data);
// The rule that changes nothing: what comes of it has no dead values.
Value *rewrite_keep(Rewrite *rewrite, const Value *value, Value **args);
// The same with other dims: those of a map follow its arguments.
Value *rewrite_rebuild(Rewrite *rewrite, const Value *value, Value **args);
Value *rewrite_times_extents(Graph *graph, Value *a,
                             const DimList *dims); // a sum over dims it lacks

#endif
