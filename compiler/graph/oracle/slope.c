// SPDX-License-Identifier: Apache-2.0
// The oracle's derivatives: with each value its slope along a direction, by forward mode.
//
//     y = a * b         y' = a' * b + a * b'
//     y = sum(a)        y' = sum(a')
//
// What moves or adds up is linear: the same evaluation of the slopes. It shares nothing with
// graph_gradient, which goes the other way; <dY, Y'> = <dX, X'> holds for what both find (Griewank
// and Walther, Evaluating Derivatives, ch. 3). Where no derivative exists, the reference (12.2)
// says which is taken.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/oracle/eval.h"

// ---- arrays -------------------------------------------------------------------------------------

static double *new_array(const Eval *eval, const Value *value) {
    Axes axes = axes_of(&value->dims);
    return eval_buffer(&axes, eval->extents);
}

// An argument, or its slope, over the dims of the value.
static double *spread(const Eval *eval, const Value *value, uint32_t arg, const double *array) {
    double *out = new_array(eval, value);
    Axes over = axes_of(&value->dims), own = axes_of(&value->args[arg]->dims);
    Walk walk = walk_over(&over, (const Axes *[]){&over, &own}, 2, eval->extents);
    if (array)
        eval_copy(&walk, out, array);
    return out;
}

// The same op of slopes in the place of some arguments: of argument k alone, or of all floats.
static double *linear(const Eval *eval, const Value *value, uint32_t only) {
    double **args = calloc(value->n_args + 1, sizeof *args);
    double **owned = calloc(value->n_args + 1, sizeof *owned), *out = new_array(eval, value);
    if (!args || !owned)
        no_memory("the oracle", (value->n_args + 1) * sizeof *args);
    for (uint32_t k = 0; k < value->n_args; k++) {
        const Value *arg = value->args[k];
        bool slopes = elem_is_float(arg->elem) && (only == UINT32_MAX || only == k);
        double *slope = eval->slopes[arg->id];
        if (slopes && !slope)
            slope = owned[k] = new_array(eval, arg);
        args[k] = slopes ? slope : eval->arrays[arg->id];
    }
    eval_with(eval, value, args, out);
    for (uint32_t k = 0; k < value->n_args; k++)
        free(owned[k]);
    free(owned);
    free(args);
    return out;
}

// ---- pointwise ----------------------------------------------------------------------------------

static double of_one(Op op, double a, double y) {
    switch (op) {
    case OP_NEG:
        return -1;
    case OP_ABS:
        return (a > 0) - (a < 0);
    case OP_EXP:
        return exp(a);
    case OP_EXP2:
        return M_LN2 * exp2(a);
    case OP_LOG:
        return 1 / a;
    case OP_SQRT:
        return 0.5 / y;
    case OP_RSQRT:
        return -0.5 * pow(a, -1.5);
    case OP_TANH:
        return 1 - y * y;
    case OP_SIGMOID:
        return y * (1 - y);
    case OP_ERF:
        return M_2_SQRTPI * exp(-a * a);
    case OP_SIN:
        return cos(a);
    case OP_COS:
        return -sin(a);
    case OP_COPY:
    case OP_CAST:
        return 1;
    default:
        ice("the oracle has no slope of '%s'", op_name(op));
    }
}

// Of two equal values half each, and all of NaN and what is beside it; a number's neighbour takes
// nothing of max where both are equal and nothing of min where it is NaN.
static double of_extremum(const Value *value, uint32_t arg, double own, double other) {
    bool is_max = value->op == OP_MAX, number = value->args[1 - arg]->op == OP_CONST;
    bool at_most = own <= other;
    if (number)
        return is_max != at_most;
    if (own == other)
        return 0.5;
    return isnan(own) || isnan(other) || is_max == (own > other);
}

static double of_two(const Value *value, uint32_t arg, const double *x) {
    double own = x[arg], other = x[1 - arg];
    switch (value->op) {
    case OP_SUB:
        return arg ? -1 : 1;
    case OP_MUL:
        return other;
    case OP_DIV:
        return arg ? -x[0] / (x[1] * x[1]) : 1 / x[1];
    case OP_MOD:
        return arg ? -floor(x[0] / x[1]) : 1;
    case OP_POW:
        if (arg)
            return x[0] == 0 && x[1] >= 0 ? 0 : pow(x[0], x[1]) * log(x[0]);
        return x[1] == 0 ? 0 : x[1] * pow(x[0], x[1] - 1);
    case OP_MIN:
    case OP_MAX:
        return of_extremum(value, arg, own, other);
    case OP_ADD:
        return 1;
    default:
        ice("the oracle has no slope of '%s'", op_name(value->op));
    }
}

static double partial(const Value *value, uint32_t arg, const double *x, double y) {
    if (value->op == OP_SELECT)
        return arg == (x[0] != 0 ? 1u : 2u);
    return value->n_args == 1 ? of_one(value->op, x[0], y) : of_two(value, arg, x);
}

static double *map_slope(const Eval *eval, const Value *value) {
    double *out = new_array(eval, value), *x[3] = {0};
    const double *y = eval->arrays[value->id];
    int64_t volume = dims_volume(&value->dims, eval->extents);
    for (uint32_t k = 0; k < value->n_args; k++)
        x[k] = spread(eval, value, k, eval->arrays[value->args[k]->id]);
    for (uint32_t k = 0; k < value->n_args; k++) {
        if (!eval->slopes[value->args[k]->id])
            continue;
        double *slope = spread(eval, value, k, eval->slopes[value->args[k]->id]);
        for (int64_t i = 0; i < volume; i++) {
            double at[3] = {0};
            for (uint32_t j = 0; j < value->n_args; j++)
                at[j] = x[j][i];
            if (slope[i] != 0) // what does not move has no part, whatever it is multiplied with
                out[i] += partial(value, k, at, y[i]) * slope[i];
        }
        free(slope);
    }
    for (uint32_t k = 0; k < value->n_args; k++)
        free(x[k]);
    return out;
}

// ---- reductions and rows ------------------------------------------------------------------------

typedef struct {
    const Value *value;
    double *y, *out;      // of the reduction so far
    bool *begun;          // likewise
    const double *x, *dx; // of the argument
    int64_t length, step; // of rows
} SlopeJob;

static bool is_better(Op op, double x, double best) {
    if (op == OP_REDUCE_TOP)
        return !isnan(x) && (isnan(best) || x > best);
    if (isnan(x) || isnan(best))
        return isnan(x) && !isnan(best);
    return op == OP_REDUCE_MIN ? x < best : x > best;
}

static void reduce_inner(void *context, int64_t n, const int64_t *at, const int64_t *step) {
    const SlopeJob *job = context;
    for (int64_t i = 0; i < n; i++) {
        int64_t to = at[0] + i * step[0], from = at[1] + i * step[1];
        double x = job->x[from], dx = job->dx[from];
        if (job->value->op == OP_PROD) {
            double before = job->begun[to] ? job->y[to] : 1;
            job->out[to] = job->out[to] * x + before * dx;
            job->y[to] = before * x;
        } else if (!job->begun[to] || is_better(job->value->op, x, job->y[to])) {
            job->out[to] = dx;
            job->y[to] = x;
        }
        job->begun[to] = true;
    }
}

// Of equal ones the first along the last dim, of these the first along the one before.
static double *reduce_slope(const Eval *eval, const Value *value) {
    const Value *arg = value->args[0];
    int64_t volume = dims_volume(&value->dims, eval->extents);
    SlopeJob job = {.value = value,
                    .y = new_array(eval, value),
                    .out = new_array(eval, value),
                    .begun = calloc((size_t)volume + 1, sizeof(bool)),
                    .x = eval->arrays[arg->id],
                    .dx = eval->slopes[arg->id]};
    if (!job.begun)
        no_memory("the oracle", (size_t)volume + 1);
    Axes out = axes_of(&value->dims), in = axes_of(&arg->dims), over = out;
    for (uint32_t i = in.count; i-- > 0;)
        if (!axes_has(&out, in.at[i]))
            over.at[over.count++] = in.at[i];
    Walk walk = walk_over(&over, (const Axes *[]){&out, &in}, 2, eval->extents);
    walk_run(&walk, reduce_inner, &job);
    free(job.y);
    free(job.begun);
    return job.out;
}

static void row_inner(void *context, int64_t n, const int64_t *at, const int64_t *step) {
    const SlopeJob *job = context;
    for (int64_t i = 0; i < n; i++) {
        int64_t row = at[0] + i * step[0];
        bool log = job->value->op == OP_LOG_SOFTMAX;
        double sum = 0;
        for (int64_t k = row; k < row + job->length * job->step; k += job->step)
            sum += job->dx[k] == 0 ? 0 : (log ? exp(job->y[k]) : job->y[k]) * job->dx[k];
        for (int64_t k = row; k < row + job->length * job->step; k += job->step)
            job->out[k] = log ? job->dx[k] - sum : job->y[k] * (job->dx[k] - sum);
    }
}

static double *row_slope(const Eval *eval, const Value *value) {
    Axes own = axes_of(&value->dims), over = axes_without(own, value->dim);
    SlopeJob job = {.value = value,
                    .y = eval->arrays[value->id],
                    .out = new_array(eval, value),
                    .length = eval->extents[value->dim],
                    .step = axes_stride(&own, eval->extents, value->dim)};
    double *dx = spread(eval, value, 0, eval->slopes[value->args[0]->id]);
    job.dx = dx;
    Walk walk = walk_over(&over, (const Axes *[]){&own}, 1, eval->extents);
    walk_run(&walk, row_inner, &job);
    free(dx);
    return job.out;
}

// ---- products and moves -------------------------------------------------------------------------

// One term for each factor that moves; what is there twice moves twice.
static double *contract_slope(Eval *eval, const Value *value) {
    int64_t volume = dims_volume(&value->dims, eval->extents);
    double *out = new_array(eval, value), **args = calloc(value->n_args + 1, sizeof *args);
    if (!args)
        no_memory("the oracle", (value->n_args + 1) * sizeof *args);
    for (uint32_t k = 0; k < value->n_args; k++) {
        if (!eval->slopes[value->args[k]->id])
            continue;
        for (uint32_t i = 0; i < value->n_args; i++)
            args[i] = (i == k ? eval->slopes : eval->arrays)[value->args[i]->id];
        double *term = new_array(eval, value);
        eval_contract(value, args, term, eval->extents, eval->mode);
        for (int64_t i = 0; i < volume; i++)
            out[i] += term[i];
        free(term);
    }
    free(args);
    return out;
}

// A position outside of the dim, where the value is NaN, does not move.
static double *moved_slope(Eval *eval, const Value *value) {
    double *out = linear(eval, value, value->op == OP_CONCAT ? UINT32_MAX : 0);
    const double *y = eval->arrays[value->id];
    int64_t volume = dims_volume(&value->dims, eval->extents);
    for (int64_t i = 0; i < volume; i++)
        out[i] = isnan(y[i]) ? 0 : out[i];
    return out;
}

double *eval_slope(Eval *eval, const Value *value) {
    bool moves = false, whole = value->op == OP_STOP_GRADIENT || value->op == OP_FLOOR ||
                                value->op == OP_FLOORDIV || value->op == OP_RANDOM;
    for (uint32_t k = 0; k < value->n_args; k++)
        moves = moves || eval->slopes[value->args[k]->id];
    if (!moves || whole || !elem_is_float(value->elem))
        return NULL;
    switch (op_kind(value->op)) {
    case KIND_MAP:
        return map_slope(eval, value);
    case KIND_REDUCE:
        return value->op == OP_SUM ? linear(eval, value, 0) : reduce_slope(eval, value);
    case KIND_ROW:
        return value->op == OP_CUMSUM ? linear(eval, value, 0) : row_slope(eval, value);
    case KIND_CONTRACT:
        return contract_slope(eval, value);
    default:
        return moved_slope(eval, value);
    }
}
