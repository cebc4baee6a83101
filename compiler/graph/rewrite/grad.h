// SPDX-License-Identifier: Apache-2.0
// Gradient rules, one for each op, and what they share.
//
//     grad.c         graph_gradient: cotangents in, adjoints from the last value to the first
//     grad_rules.c   the table; einsums, reductions, rows
//     grad_parts.c   what the rules share
//     grad_map.c     pointwise ops
//     grad_move.c    ops that move positions
//
// The adjoint of a value is the gradient of the sum of results times cotangents by that value. It
// may lack dims of its value: then it is the same at all positions of these, as that of `x` in
// sum(x, reduced_dim=n) is along n. Adjoints of halves are f32.
#ifndef ATTC_GRAPH_GRAD_H
#define ATTC_GRAPH_GRAD_H

#include "graph/rewrite/rewrite.h"

typedef struct {
    Rewrite rewrite; // copies the graph; now[] has each value's copy
    Value **adjoint; // by id in rewrite.from, in rewrite.to; NULL: none so far
    bool *wanted;    // by id in rewrite.from: depends on what is differentiated by
} Gradient;

// ---- grad_parts.c -------------------------------------------------------------------------------
bool gradient_wants(const Gradient *gradient, const Value *value, uint32_t arg);
// The copy of a value of the old graph, halves as f32.
Value *gradient_now(Gradient *gradient, const Value *value);
// Adds to the adjoint of an argument what each position of `over` contributes to it: positions
// along dims that the argument lacks are summed. `part` may lack dims of `over`.
void gradient_add(Gradient *gradient, const Value *value, uint32_t arg, Value *part,
                  const DimList *over);
// Sum over a dim that `part` may lack.
Value *gradient_total(Gradient *gradient, Value *part, DimId dim);
Value *gradient_number(Gradient *gradient, double number, const Value *like);

// ---- rules --------------------------------------------------------------------------------------
// Hands the adjoint `dy` of a value on to its arguments.
typedef void GradientRule(Gradient *gradient, const Value *value, Value *dy);
// NULL: the op has no rule; no_gradient: its derivative is zero or does not exist.
GradientRule *gradient_rule(Op op);
GradientRule no_gradient, gradient_of_map, gradient_of_rename, gradient_of_gather,
    gradient_of_scatter, gradient_of_take, gradient_of_slice, gradient_of_concat, gradient_of_shift,
    gradient_of_regroup;

#endif
