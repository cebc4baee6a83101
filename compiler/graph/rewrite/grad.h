// SPDX-License-Identifier: Apache-2.0
// Gradient rules, one for each op, and what they share.
//
//     grad.c         graph_gradient: cotangents in, adjoints from the last value to the first
//     grad_rules.c   the table; einsums, reductions, rows
//     grad_loop.c    the sweep over the values, and the scans that it reverses
//     grad_shared.c  what the rules share
//     grad_leave.c   what leaves reversed scans
//     grad_scan.c    which values of a reversed scan stand for those of the scan's body
//     grad_map.c     pointwise ops
//     grad_move.c    ops that move positions
//
// The adjoint of a value is the gradient of the sum of results times cotangents by that value. It
// may lack dims of its value: then it is the same at all positions of these, as that of `x` in
// sum(x, reduced_dim=n) is along n. Adjoints of halves are f32.
#ifndef ATTC_GRAPH_GRAD_H
#define ATTC_GRAPH_GRAD_H

#include "graph/rewrite/rewrite.h"

// A part of an adjoint on its way out of reversed scans, the innermost first: at the positions of
// each it is kept under another dim, or summed.
typedef struct {
    const Value *to; // whose adjoint it is a part of
    Value *part;
    DimList exits; // dims of the reversed scans, outermost first
    DimMap kept;   // exit -> the dim under which its positions are kept
    DimMap after;  // other names, in the end
    Value *ids;    // NULL, or in the end it is summed at these positions of `dim`
    DimId dim;
} Leaving;

// One scan, in those scans around it that its carries depend on.
typedef struct GradientScan GradientScan;
struct GradientScan {
    DimList home;        // in rewrite.from: dims of the scans around, outermost first, and its own
    GradientScan *next;  // of the same dim, in other scans
    ValueList inside;    // likewise: of its body and of those of scans inside, in order of id
    DimId back;          // of the reversed scan
    DimId rows;          // stands for the positions of both scans outside of them
    ScanCarries carries; // of the reversed scan
    DimList common;      // dims of all adjoints that it carries
    VEC(Leaving) leaving;
    bool done;
};

typedef struct {
    Rewrite rewrite;      // copies the graph; now[] has each value's copy
    Value **adjoint;      // by id in rewrite.from, in rewrite.to; NULL: none so far
    Value **last;         // likewise, of carries: of what they are after the last step
    Value **copy;         // likewise: what stands for a value of a body in reversed scans
    bool *wanted;         // by id in rewrite.from: depends on what is differentiated by
    Map *scans;           // 1 + DimId in rewrite.from -> the first of its GradientScans
    Map *reversed;        // 1 + `back` -> its GradientScan
    ScanCarries *carries; // by DimId in rewrite.from: of a scan of which something is left
    ScanCarries *begun;   // by id in rewrite.from: the carries that begin with a value
    DimList home;         // of the value whose rule or copy is being made: where others are read
} Gradient;

// ---- grad_shared.c -----------------------------------------------------------------------------
bool gradient_wants(const Gradient *gradient, const Value *value, uint32_t arg);
// Adds to the adjoint of an argument what each position of `over` contributes to it: positions
// along dims that the argument lacks are summed. `part` may lack dims of `over`.
void gradient_add(Gradient *gradient, const Value *value, uint32_t arg, Value *part,
                  const DimList *over);
// The dims that a contribution to an argument is wanted over: others are summed.
DimList gradient_wanted_dims(Gradient *gradient, const Value *value, uint32_t arg);
// Sum over a dim that `part` may lack.
Value *gradient_total(Gradient *gradient, Value *part, DimId dim);

// ---- grad_scan.c -------------------------------------------------------------------------------
// Dims of the old graph as adjoints have them: reversed scans in the place of scans.
DimList gradient_dims(Gradient *gradient, const DimList *dims);
DimId gradient_dim(Gradient *gradient, const DimList *dims, DimId dim); // one of the dims
// The scans that a value is in the body of, outermost first.
DimList gradient_home(const Gradient *gradient, const DimList *dims);
GradientScan *gradient_scan(Gradient *gradient, const DimList *home);
GradientScan *gradient_known_scan(const Gradient *gradient, const DimList *home); // NULL: not yet
GradientScan *gradient_reversed(const Gradient *gradient, DimId back); // the one over that dim
// The copy of a value of the old graph, that of a scan's body in the reversed scan; halves as f32.
Value *gradient_now(Gradient *gradient, const Value *value);
Value *gradient_copy(Gradient *gradient, const Value *value); // with its own elem
// Fills in gradient->carries, begun and copy, and what is inside of scans. Requires: the copied
// graph.
void gradient_copy_bodies(Gradient *gradient);

// ---- grad_leave.c ------------------------------------------------------------------------------
// Sum of a part over the dims that are not kept.
Value *gradient_summed(Gradient *gradient, Value *part, const DimList *kept);
// The reversed scans that a contribution of a value to another leaves.
Leaving gradient_leaving(Gradient *gradient, const Value *value, const Value *to, Value *part);
// Requires: the part is over no dims but those of `to`, of the exits and those that are common.
void gradient_leave(Gradient *gradient, Leaving leaving);
DimMap gradient_rows(const Gradient *gradient, const DimList *exits); // exit -> its rows
// What waits for the scan, whose carries are complete, goes on.
void gradient_leave_scan(Gradient *gradient, GradientScan *scan);

// ---- grad_loop.c -------------------------------------------------------------------------------
// Hands adjoints on, from the last of the values to the first: all of rewrite.from, or with a home
// what is inside of its scan.
void gradient_sweep(Gradient *gradient, const DimList *home, const ValueList *values);

// ---- rules -------------------------------------------------------------------------------------
// Hands the adjoint `dy` of a value on to its arguments.
typedef void GradientRule(Gradient *gradient, const Value *value, Value *dy);
// NULL: the op has no rule; no_gradient: its derivative is zero or does not exist.
GradientRule *gradient_rule(Op op);
GradientRule no_gradient, gradient_of_map, gradient_of_rename, gradient_of_gather,
    gradient_of_scatter, gradient_of_take, gradient_of_slice, gradient_of_concat, gradient_of_shift,
    gradient_of_regroup, gradient_of_stack, gradient_of_last;

#endif
