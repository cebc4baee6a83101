// SPDX-License-Identifier: Apache-2.0
// What the files of graph_expand share.
#ifndef ATTC_GRAPH_REWRITE_EXPAND_H
#define ATTC_GRAPH_REWRITE_EXPAND_H

#include "graph/rewrite/rewrite.h"

// What such a power became, or what is linear in it: elements times a row factor.
typedef struct {
    Value *elements, *factor;
} Scaled;

typedef VEC(const Value *) Users;
typedef struct {
    const int64_t *extents;
    Users *users; // by value id of the old graph
    Map *scaled;  // value id + 1 of the new graph -> Scaled
    Arena *arena;
} Expand;

// ---- powers.c: softmaxes that are written out ---------------------------------------------------
// Rules for EXP and EXP2; for NEG, MUL and DIV; for SUM.
Value *expand_power(Rewrite *rewrite, const Value *value, Value **args);
Value *expand_linear(Rewrite *rewrite, const Value *value, Value **args);
Value *expand_sum(Rewrite *rewrite, const Value *value, Value **args);
Users *expand_users(const Graph *graph, Arena *arena); // by value id; NULL: an output
// Of a value of the new graph; NULL: it is no such product.
const Scaled *expand_scaled(const Rewrite *rewrite, const Value *value);

#endif
