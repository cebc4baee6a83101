// SPDX-License-Identifier: Apache-2.0
// The rules that graph_simplify is made of, and what they share.
#ifndef ATTC_GRAPH_SIMPLIFY_H
#define ATTC_GRAPH_SIMPLIFY_H

#include "graph/rewrite/rewrite.h"

typedef VEC(DimId) DimIds;
typedef struct {
    Arena *arena;         // of graph_simplify alone
    VEC(int64_t) extents; // by DimId; grows with the aliases that rules add
    const Machine *machine;
} SimplifyFacts;
static inline SimplifyFacts *simplify_facts(const Rewrite *rewrite) {
    return rewrite->data;
}

// fold.c: constants, exact identities of single values.
RewriteRule simplify_fold;
// repeats.c: what is the same over a dim. drop: arguments of a map, where others have the dims.
void simplify_drop_repeats(Rewrite *rewrite, const Value *value, Value **args);
Value *simplify_repeats(Rewrite *rewrite, const Value *value, Value **args); // or NULL
// moves.c: splits and positions taken from results of einsums go to their operands; or NULL.
Value *simplify_move(Rewrite *rewrite, const Value *value);
// flatten.c: nested einsums, products, scales and renames become one n-ary einsum; moves.c.
RewriteRule simplify_flatten;
// factor.c: common operands in sums of einsums.
RewriteRule simplify_factor;

// alias.c: a dim like `dim` that is not in `taken`, an earlier alias or a new dim of the new graph.
DimId simplify_alias(Rewrite *rewrite, DimId dim, const DimIds *taken);
bool dimids_has(const DimIds *set, DimId dim);

#endif
