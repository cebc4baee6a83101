// SPDX-License-Identifier: Apache-2.0
// The oracle: evaluates a graph value by value with nested loops, in doubles.
//
// It is naive on purpose and shares nothing with the passes: no fusion, no reordering, no tiling. A
// value is an array in the row-major order of its dims, and is freed after its last use.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/oracle/eval.h"

double eval_job_round(const EvalJob *job, double x) {
    return eval_round(job->value->elem, job->eval->mode, x);
}

// ---- leaves -------------------------------------------------------------------------------------

static void eval_leaf(const EvalJob *job, const double *input) {
    const Value *value = job->value;
    int64_t volume = dims_volume(&value->dims, job->eval->extents);
    for (int64_t i = 0; i < volume; i++) {
        double x = value->op == OP_INPUT   ? input[i]
                   : value->op == OP_CONST ? value->number
                   : value->op == OP_INDEX ? (double)i
                                           : (double)job->eval->extents[value->dim];
        job->out[i] = eval_job_round(job, x);
    }
}

// ---- map ----------------------------------------------------------------------------------------

static void map_inner(void *context, int64_t n, const int64_t *at, const int64_t *step) {
    const EvalJob *job = context;
    const Value *value = job->value;
    Elem from = value->args[0]->elem;
    for (int64_t i = 0; i < n; i++) {
        double args[3];
        for (uint32_t k = 0; k < value->n_args; k++)
            args[k] = job->args[k][at[k + 1] + i * step[k + 1]];
        double x = eval_scalar(value->op, from, value->elem, args);
        job->out[at[0] + i * step[0]] = eval_job_round(job, x);
    }
}

static void eval_map(EvalJob *job) {
    const Value *value = job->value;
    Axes over = axes_of(&value->dims), args[3];
    const Axes *operands[4] = {&over};
    for (uint32_t k = 0; k < value->n_args; k++) {
        args[k] = axes_of_arg(value, k);
        operands[k + 1] = &args[k];
    }
    Walk walk = walk_over(&over, operands, value->n_args + 1, job->eval->extents);
    walk_run(&walk, map_inner, job);
}

// ---- reduce -------------------------------------------------------------------------------------

// What the function of no elements is; whole numbers have no infinity.
static double reduce_start(Op op, Elem elem) {
    double start = op == OP_PROD                                ? 1
                   : op == OP_REDUCE_MAX || op == OP_REDUCE_TOP ? -INFINITY
                   : op == OP_REDUCE_MIN                        ? INFINITY
                                                                : 0;
    return elem_is_float(elem) ? start : (double)elem_whole(elem, start);
}

static double reduce_step(Op op, Elem elem, double a, double b) {
    if (op == OP_REDUCE_TOP)
        return b > a ? b : a;
    Op map = op == OP_SUM ? OP_ADD : op == OP_PROD ? OP_MUL : op == OP_REDUCE_MAX ? OP_MAX : OP_MIN;
    return eval_scalar(map, elem, elem, (double[]){a, b});
}

static void reduce_inner(void *context, int64_t n, const int64_t *at, const int64_t *step) {
    const EvalJob *job = context;
    for (int64_t i = 0; i < n; i++) {
        double *out = &job->out[at[0] + i * step[0]];
        double x = job->args[0][at[1] + i * step[1]];
        *out = eval_job_round(job, reduce_step(job->value->op, job->value->elem, *out, x));
    }
}

// Part after part, each over its positions of the dim.
static void eval_reduce_parts(EvalJob *job) {
    const Value *value = job->value;
    const int64_t *extents = job->eval->extents;
    Axes out = axes_of(&value->dims), in = axes_of_arg(value, 0),
         over = axes_without(out, value->dim2);
    int64_t count = extents[value->dim2], length = extents[value->dim];
    for (uint32_t i = 0; i < in.count; i++)
        if (!axes_has(&out, in.at[i]) && in.at[i] != value->dim)
            over.at[over.count++] = in.at[i];
    for (int64_t i = 0; i < dims_volume(&value->dims, extents); i++)
        job->out[i] = reduce_start(value->op, value->elem);
    for (int64_t part = 0; part < count; part++) {
        Walk walk = walk_over(&over, (const Axes *[]){&out, &in}, 2, extents);
        int64_t from = part_begin(part, count, length), to = part_begin(part + 1, count, length);
        EvalJob own = *job;
        uint32_t last = walk.rank++;
        walk.extents[last] = to - from;
        walk.strides[last][0] = 0;
        walk.strides[last][1] = axes_stride(&in, extents, value->dim);
        own.out += part * axes_stride(&out, extents, value->dim2);
        own.args[0] += from * walk.strides[last][1];
        if (to > from)
            walk_run(&walk, reduce_inner, &own);
    }
}

static void eval_reduce(EvalJob *job) {
    const Value *value = job->value;
    if (value_in_parts(value)) {
        eval_reduce_parts(job);
        return;
    }
    Axes out = axes_of(&value->dims), in = axes_of_arg(value, 0), over = out;
    for (uint32_t i = 0; i < in.count; i++)
        if (!axes_has(&out, in.at[i]))
            over.at[over.count++] = in.at[i];
    int64_t volume = dims_volume(&value->dims, job->eval->extents);
    for (int64_t i = 0; i < volume; i++)
        job->out[i] = reduce_start(value->op, value->elem);
    Walk walk = walk_over(&over, (const Axes *[]){&out, &in}, 2, job->eval->extents);
    if (job->eval->mode == EVAL_F32_BACKWARD)
        walk_sum_backward(&walk);
    walk_run(&walk, reduce_inner, job);
}

// ---- rows: functions of a whole line along one dim ----------------------------------------------

static double row_max(const EvalJob *job, const double *in) {
    double max = -INFINITY;
    for (int64_t i = 0; i < job->length; i++)
        max = eval_scalar(OP_MAX, ELEM_F64, ELEM_F64, (double[]){max, in[i * job->in_stride]});
    return max;
}

static void row_softmax(const EvalJob *job, double *out, const double *in) {
    double max = row_max(job, in), sum = 0;
    for (int64_t i = 0; i < job->length; i++) {
        double shifted = eval_job_round(job, in[i * job->in_stride] - max);
        double e = max == -INFINITY ? 0 : eval_job_round(job, exp(shifted));
        out[i * job->out_stride] = e;
        sum = eval_job_round(job, sum + e);
    }
    for (int64_t i = 0; i < job->length; i++) {
        double *x = &out[i * job->out_stride];
        *x = sum == 0 ? 0 : eval_job_round(job, *x / sum);
    }
}

static void row_log_softmax(const EvalJob *job, double *out, const double *in) {
    double max = row_max(job, in), sum = 0;
    for (int64_t i = 0; i < job->length; i++) {
        double shifted = eval_job_round(job, in[i * job->in_stride] - max);
        out[i * job->out_stride] = shifted;
        sum = eval_job_round(job, sum + eval_job_round(job, exp(shifted)));
    }
    double log_sum = eval_job_round(job, log(sum));
    for (int64_t i = 0; i < job->length; i++) {
        double *x = &out[i * job->out_stride];
        *x = max == -INFINITY ? -INFINITY : eval_job_round(job, *x - log_sum);
    }
}

static void row_cumsum(const EvalJob *job, double *out, const double *in) {
    double sum = 0;
    for (int64_t i = 0; i < job->length; i++) {
        sum = eval_job_round(job, sum + in[i * job->in_stride]);
        out[i * job->out_stride] = sum;
    }
}

static void row_argmax(const EvalJob *job, double *out, const double *in) {
    int64_t best = 0; // the first NaN when there is one
    for (int64_t i = 1; i < job->length && !isnan(in[best * job->in_stride]); i++)
        if (!(in[i * job->in_stride] <= in[best * job->in_stride]))
            best = i;
    *out = (double)best;
}

static void row_inner(void *context, int64_t n, const int64_t *at, const int64_t *step) {
    const EvalJob *job = context;
    for (int64_t i = 0; i < n; i++) {
        double *out = &job->out[at[0] + i * step[0]];
        const double *in = &job->args[0][at[1] + i * step[1]];
        switch (job->value->op) {
        case OP_SOFTMAX:
            row_softmax(job, out, in);
            break;
        case OP_LOG_SOFTMAX:
            row_log_softmax(job, out, in);
            break;
        case OP_CUMSUM:
            row_cumsum(job, out, in);
            break;
        case OP_ARGMAX:
            row_argmax(job, out, in);
            break;
        default:
            ice("eval: %s is not a row function", op_name(job->value->op));
        }
    }
}

static void eval_row(EvalJob *job) {
    const Value *value = job->value;
    const int64_t *extents = job->eval->extents;
    Axes out = axes_of(&value->dims), in = axes_of_arg(value, 0);
    Axes over = axes_without(out, value->dim);
    job->length = extents[value->dim];
    job->out_stride = axes_stride(&out, extents, value->dim);
    job->in_stride = axes_stride(&in, extents, value->dim);
    Walk walk = walk_over(&over, (const Axes *[]){&out, &in}, 2, extents);
    walk_run(&walk, row_inner, job);
}

// ---- the whole graph ----------------------------------------------------------------------------

void eval_with(const Eval *eval, const Value *value, double *const *args, double *out) {
    EvalJob job = {.eval = eval, .value = value, .out = out, .arrays = args};
    for (uint32_t k = 0; k < value->n_args && k < 3; k++)
        job.args[k] = args[k];
    switch (op_kind(value->op)) {
    case KIND_MAP:
        eval_map(&job);
        break;
    case KIND_REDUCE:
        if (value->op == OP_ARGMAX)
            eval_row(&job);
        else
            eval_reduce(&job);
        break;
    case KIND_ROW:
        eval_row(&job);
        break;
    case KIND_CONTRACT:
        eval_contract(value, args, out, eval->extents, eval->mode);
        break;
    case KIND_MOVE:
        eval_move(&job);
        break;
    case KIND_LEAF:
    case KIND_SCAN:
        break; // without arguments, and with those of all its body
    }
}

static void eval_of_args(const Eval *eval, const Value *value, double *out) {
    double **args = calloc(value->n_args + 1, sizeof *args);
    if (!args)
        no_memory("the oracle", (value->n_args + 1) * sizeof *args);
    for (uint32_t k = 0; k < value->n_args; k++)
        args[k] = eval->arrays[value->args[k]->id];
    eval_with(eval, value, args, out);
    free(args);
}

void eval_one(Eval *eval, const Value *value, const double *input) {
    Axes axes = axes_of(&value->dims);
    double *out = eval_buffer(&axes, eval->extents);
    OpKind kind = op_kind(value->op);
    if (kind == KIND_SCAN)
        eval_scan(eval, value, out);
    else if (kind == KIND_LEAF)
        eval_leaf(&(EvalJob){.eval = eval, .value = value, .out = out}, input);
    else
        eval_of_args(eval, value, out);
    eval->arrays[value->id] = out;
    if (eval->slopes && kind != KIND_LEAF && kind != KIND_SCAN)
        eval->slopes[value->id] = eval_slope(eval, value);
}

static double *input_of(const Graph *graph, double *const *inputs, const Value *value) {
    for (uint32_t i = 0; value->op == OP_INPUT && i < graph->inputs.count; i++)
        if (graph->inputs.at[i] == value)
            return inputs[i];
    return NULL;
}

// A direction is given as inputs are.
static void take_direction(Eval *eval, const EvalRun *run, const Value *value) {
    const double *slope = input_of(eval->graph, run->direction, value);
    if (!slope)
        return;
    Axes axes = axes_of(&value->dims);
    eval->slopes[value->id] = eval_buffer(&axes, eval->extents);
    memcpy(eval->slopes[value->id], slope,
           (size_t)dims_volume(&value->dims, eval->extents) * sizeof *slope);
}

static double *output_in_order(const Eval *eval, const Output *output, const double *array,
                               Arena *arena) {
    int64_t volume = dims_volume(&output->order, eval->extents);
    double *out = arena_array(arena, double, volume);
    Axes to = axes_of(&output->order), from = axes_of(&output->value->dims);
    Walk walk = walk_over(&to, (const Axes *[]){&to, &from}, 2, eval->extents);
    if (array)
        eval_copy(&walk, out, array);
    return out;
}

// Uses of what a body reads are never over: it is evaluated again in each step.
static void hold_for_bodies(const Graph *graph, const bool *live, uint32_t *uses, Arena *scratch) {
    for (uint32_t v = 0; v < graph->values.count; v++) {
        const Value *value = graph->values.at[v];
        if (!live[v] || op_kind(value->op) != KIND_SCAN)
            continue;
        ValueList read = eval_read_by(value, scratch);
        for (uint32_t i = 0; i < read.count; i++)
            uses[read.at[i]->id]++;
    }
}

static double **by_value(uint32_t n) {
    double **arrays = calloc(n ? n : 1, sizeof *arrays);
    if (!arrays)
        no_memory("the oracle", n * sizeof *arrays);
    return arrays;
}

static void release(Eval *eval, uint32_t id) {
    free(eval->arrays[id]);
    eval->arrays[id] = NULL;
    if (!eval->slopes)
        return;
    free(eval->slopes[id]);
    eval->slopes[id] = NULL;
}

static void take_outputs(const Eval *eval, EvalRun *run, Arena *arena) {
    const Graph *graph = eval->graph;
    run->outputs = arena_array(arena, double *, graph->outputs.count);
    run->slopes = arena_array(arena, double *, graph->outputs.count);
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const Output *output = &graph->outputs.at[i];
        uint32_t id = output->value->id;
        run->outputs[i] = output_in_order(eval, output, eval->arrays[id], arena);
        if (eval->slopes)
            run->slopes[i] = output_in_order(eval, output, eval->slopes[id], arena);
    }
}

void graph_eval(const Graph *graph, EvalMode mode, EvalRun *run, Arena *arena) {
    uint32_t n = graph->values.count;
    Eval eval = {.graph = graph, .mode = mode, .extents = run->extents, .arrays = by_value(n)};
    eval.slopes = run->direction ? by_value(n) : NULL;
    Arena *scratch = arena_new();
    bool *live = graph_live(graph, scratch);
    bool *needed = eval_needed(graph, DIM_NONE, NULL, scratch);
    uint32_t *uses = graph_count_uses(graph, scratch);
    hold_for_bodies(graph, live, uses, scratch);
    for (uint32_t v = 0; v < n; v++) {
        const Value *value = graph->values.at[v];
        if (needed[v])
            eval_one(&eval, value, input_of(graph, run->inputs, value));
        else if (live[v])
            continue; // of a scan, which reads its arguments in each step
        if (needed[v] && eval.slopes && value->op == OP_INPUT)
            take_direction(&eval, run, value);
        for (uint32_t k = 0; k < value->n_args; k++)
            if (--uses[value->args[k]->id] == 0)
                release(&eval, value->args[k]->id);
    }
    take_outputs(&eval, run, arena);
    for (uint32_t v = 0; v < n; v++)
        release(&eval, v);
    free(eval.arrays);
    free(eval.slopes);
    arena_free(scratch);
}
