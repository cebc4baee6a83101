// SPDX-License-Identifier: Apache-2.0
// Between the files of the oracle only.
#ifndef ATTC_GRAPH_EVAL_H
#define ATTC_GRAPH_EVAL_H

#include "graph/graph.h"

// ---- math.c: single numbers --------------------------------------------------------------------
// x as an element can hold it: integers wrap, booleans are 0 or 1; floats are rounded to nearest
// even in EVAL_F32 and EVAL_F32_BACKWARD and left alone in EVAL_F64.
double eval_round(Elem elem, EvalMode mode, double x);
// One MAP op, not rounded. from: elem of the arguments; to: of the result.
double eval_scalar(Op op, Elem from, Elem to, const double *args);

// ---- walk.c: nested loops ----------------------------------------------------------------------
// Loops over a list of dims with a stride in each operand, the last dim innermost. An operand is a
// tensor in the row-major order of its dims; it has stride 0 along dims that it lacks.
enum { WALK_RANK = 64, WALK_OPERANDS = 4 };
typedef struct {
    uint32_t rank, n_operands;
    int64_t extents[WALK_RANK];
    int64_t strides[WALK_RANK][WALK_OPERANDS];
    int64_t starts[WALK_OPERANDS]; // offsets of the first position
} Walk;
// One run of the innermost loop: n steps from these offsets.
typedef void WalkInner(void *context, int64_t n, const int64_t *offsets, const int64_t *strides);
// Turns the loops over dims that the first operand lacks: from the last position to the first.
void walk_sum_backward(Walk *walk);
void walk_run(const Walk *walk, WalkInner *inner, void *context);

// The dims of a tensor for the oracle: unlike a DimList it may be longer than DIMS_MAX.
typedef struct {
    uint32_t count;
    DimId at[WALK_RANK];
} Axes;
Axes axes_of(const DimList *dims);
Axes axes_of_arg(const Value *value, uint32_t arg);
Axes axes_without(Axes axes, DimId dim);
bool axes_has(const Axes *axes, DimId dim);
int64_t axes_stride(const Axes *axes, const int64_t *extents, DimId dim); // 0: lacks it
// Loops over `over` with one operand for each of `operands`.
Walk walk_over(const Axes *over, const Axes *const *operands, uint32_t n, const int64_t *extents);

// ---- memory: from malloc, since intermediates are large and short-lived -------------------------
double *eval_buffer(const Axes *axes, const int64_t *extents);

// ---- eval.c, scan.c: values ---------------------------------------------------------------------
typedef struct {
    const Graph *graph;
    EvalMode mode;
    const int64_t *extents;
    double **arrays; // by value id
    double **slopes; // by value id: derivatives along a direction, NULL where they are zero;
                     // NULL: they are not asked for
    // In the body of scans:
    DimList open;   // theirs, which have one position
    int64_t *own;   // the extents
    int64_t *steps; // by DimId: which position that is
} Eval;
void eval_one(Eval *eval, const Value *value, const double *input); // into a new array
// Of a value that is neither a leaf nor left of a scan. args: arrays of its arguments.
void eval_with(const Eval *eval, const Value *value, double *const *args, double *out);
// What the body of a scan reads that is not over its dim, each once.
ValueList eval_read_by(const Value *end, Arena *arena);
// By id: what has to be evaluated with one position of `dim` for `root`, a value over it or what is
// left after its scan; with DIM_NONE, what has to be evaluated as a whole for any output. Bodies of
// scans further in are not among it, what they read is.
bool *eval_needed(const Graph *graph, DimId dim, const Value *root, Arena *arena);
void eval_scan(Eval *eval, const Value *end, double *out); // of a STACK or LAST

// One value under way, as the inner loops see it.
typedef struct {
    const Eval *eval;
    const Value *value;
    double *out;
    double *const *arrays;         // of all arguments
    const double *args[3];         // of the first ones
    int64_t length;                // ROW, ARGMAX, GATHER, SCATTER_ADD, ORDER: extent of the dim
    int64_t out_stride, in_stride; // likewise: strides along the dim
} EvalJob;
double eval_job_round(const EvalJob *job, double x); // as the value's elem can hold it

// ---- moves.c ------------------------------------------------------------------------------------
void eval_move(EvalJob *job); // of a MOVE
void eval_copy(const Walk *walk, double *out, const double *in);

// ---- slope.c ------------------------------------------------------------------------------------
// The derivative of a value that has been evaluated, unless it is a leaf or of a scan, into a new
// array; NULL when it is zero.
double *eval_slope(Eval *eval, const Value *value);

// ---- contract.c --------------------------------------------------------------------------------
// One product of an einsum: the running one, which is the first argument at first, and another.
typedef struct {
    uint32_t operand; // index of that argument
    Axes running, axes, out;
} Pair;
// All of them in their order, to be freed. An einsum of one argument has one, without the other.
Pair *eval_pairs(const Value *value, const int64_t *extents);
static inline uint32_t eval_n_pairs(const Value *value) {
    return value->n_args > 1 ? value->n_args - 1 : 1;
}
// arrays: of the value's arguments, each in the order of its dims.
void eval_contract(const Value *value, double *const *arrays, double *out, const int64_t *extents,
                   EvalMode mode);

#endif
