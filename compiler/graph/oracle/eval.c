// SPDX-License-Identifier: Apache-2.0
// The oracle: evaluates a graph value by value with nested loops, in doubles.
//
// It is naive on purpose and shares nothing with the passes: no fusion, no reordering, no tiling. A
// value is an array in the row-major order of its dims, and is freed after its last use.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/oracle/eval.h"

// One value under way, as the inner loops see it.
typedef struct {
    const Eval *eval;
    const Value *value;
    double *out;
    const double *args[3];
    int64_t length;                // ROW, ARGMAX, GATHER, SCATTER_ADD, ORDER: extent of the dim
    int64_t out_stride, in_stride; // likewise: strides along the dim
} Job;

static Axes arg_axes(const Value *value, uint32_t i) {
    return axes_of(&value->args[i]->dims);
}

static double job_round(const Job *job, double x) {
    return eval_round(job->value->elem, job->eval->mode, x);
}

static Axes axes_without(Axes axes, DimId dim) {
    Axes out = {0};
    for (uint32_t i = 0; i < axes.count; i++)
        if (axes.at[i] != dim)
            out.at[out.count++] = axes.at[i];
    return out;
}

// The same positions, under other names.
static Axes axes_renamed(Axes axes, const DimMap *names) {
    for (uint32_t i = 0; i < axes.count; i++)
        axes.at[i] = dimmap_get(names, axes.at[i]);
    return axes;
}

// ---- leaves -------------------------------------------------------------------------------------

static void eval_leaf(const Job *job, const double *input) {
    const Value *value = job->value;
    int64_t volume = dims_volume(&value->dims, job->eval->extents);
    for (int64_t i = 0; i < volume; i++) {
        double x = value->op == OP_INPUT   ? input[i]
                   : value->op == OP_CONST ? value->number
                   : value->op == OP_INDEX ? (double)i
                                           : (double)job->eval->extents[value->dim];
        job->out[i] = job_round(job, x);
    }
}

// ---- map ----------------------------------------------------------------------------------------

static void map_inner(void *context, int64_t n, const int64_t *at, const int64_t *step) {
    const Job *job = context;
    const Value *value = job->value;
    Elem from = value->args[0]->elem;
    for (int64_t i = 0; i < n; i++) {
        double args[3];
        for (uint32_t k = 0; k < value->n_args; k++)
            args[k] = job->args[k][at[k + 1] + i * step[k + 1]];
        double x = eval_scalar(value->op, from, value->elem, args);
        job->out[at[0] + i * step[0]] = job_round(job, x);
    }
}

static void eval_map(Job *job) {
    const Value *value = job->value;
    Axes over = axes_of(&value->dims), args[3];
    const Axes *operands[4] = {&over};
    for (uint32_t k = 0; k < value->n_args; k++) {
        args[k] = arg_axes(value, k);
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
    const Job *job = context;
    for (int64_t i = 0; i < n; i++) {
        double *out = &job->out[at[0] + i * step[0]];
        double x = job->args[0][at[1] + i * step[1]];
        *out = job_round(job, reduce_step(job->value->op, job->value->elem, *out, x));
    }
}

// Part after part, each over its positions of the dim.
static void eval_reduce_parts(Job *job) {
    const Value *value = job->value;
    const int64_t *extents = job->eval->extents;
    Axes out = axes_of(&value->dims), in = arg_axes(value, 0),
         over = axes_without(out, value->dim2);
    int64_t count = extents[value->dim2], length = extents[value->dim];
    for (uint32_t i = 0; i < in.count; i++)
        if (!axes_has(&out, in.at[i]) && in.at[i] != value->dim)
            over.at[over.count++] = in.at[i];
    for (int64_t i = 0; i < dims_volume(&value->dims, extents); i++)
        job->out[i] = reduce_start(value->op, value->elem);
    for (int64_t part = 0, from = 0; part < count; part++) {
        Walk walk = walk_over(&over, (const Axes *[]){&out, &in}, 2, extents);
        int64_t to = from;
        while (to < length && to * count / length == part)
            to++;
        Job own = *job;
        uint32_t last = walk.rank++;
        walk.extents[last] = to - from;
        walk.strides[last][0] = 0;
        walk.strides[last][1] = axes_stride(&in, extents, value->dim);
        own.out += part * axes_stride(&out, extents, value->dim2);
        own.args[0] += from * walk.strides[last][1];
        if (to > from)
            walk_run(&walk, reduce_inner, &own);
        from = to;
    }
}

static void eval_reduce(Job *job) {
    const Value *value = job->value;
    if (value_in_parts(value)) {
        eval_reduce_parts(job);
        return;
    }
    Axes out = axes_of(&value->dims), in = arg_axes(value, 0), over = out;
    for (uint32_t i = 0; i < in.count; i++)
        if (!axes_has(&out, in.at[i]))
            over.at[over.count++] = in.at[i];
    int64_t volume = dims_volume(&value->dims, job->eval->extents);
    for (int64_t i = 0; i < volume; i++)
        job->out[i] = reduce_start(value->op, value->elem);
    Walk walk = walk_over(&over, (const Axes *[]){&out, &in}, 2, job->eval->extents);
    walk_run(&walk, reduce_inner, job);
}

// ---- rows: functions of a whole line along one dim ----------------------------------------------

static double row_max(const Job *job, const double *in) {
    double max = -INFINITY;
    for (int64_t i = 0; i < job->length; i++)
        max = eval_scalar(OP_MAX, ELEM_F64, ELEM_F64, (double[]){max, in[i * job->in_stride]});
    return max;
}

static void row_softmax(const Job *job, double *out, const double *in) {
    double max = row_max(job, in), sum = 0;
    for (int64_t i = 0; i < job->length; i++) {
        double shifted = job_round(job, in[i * job->in_stride] - max);
        double e = max == -INFINITY ? 0 : job_round(job, exp(shifted));
        out[i * job->out_stride] = e;
        sum = job_round(job, sum + e);
    }
    for (int64_t i = 0; i < job->length; i++) {
        double *x = &out[i * job->out_stride];
        *x = sum == 0 ? 0 : job_round(job, *x / sum);
    }
}

static void row_log_softmax(const Job *job, double *out, const double *in) {
    double max = row_max(job, in), sum = 0;
    for (int64_t i = 0; i < job->length; i++) {
        double shifted = job_round(job, in[i * job->in_stride] - max);
        out[i * job->out_stride] = shifted;
        sum = job_round(job, sum + job_round(job, exp(shifted)));
    }
    double log_sum = job_round(job, log(sum));
    for (int64_t i = 0; i < job->length; i++) {
        double *x = &out[i * job->out_stride];
        *x = max == -INFINITY ? -INFINITY : job_round(job, *x - log_sum);
    }
}

static void row_cumsum(const Job *job, double *out, const double *in) {
    double sum = 0;
    for (int64_t i = 0; i < job->length; i++) {
        sum = job_round(job, sum + in[i * job->in_stride]);
        out[i * job->out_stride] = sum;
    }
}

static void row_argmax(const Job *job, double *out, const double *in) {
    int64_t best = 0; // the first NaN when there is one
    for (int64_t i = 1; i < job->length && !isnan(in[best * job->in_stride]); i++)
        if (!(in[i * job->in_stride] <= in[best * job->in_stride]))
            best = i;
    *out = (double)best;
}

static void row_inner(void *context, int64_t n, const int64_t *at, const int64_t *step) {
    const Job *job = context;
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

static void eval_row(Job *job) {
    const Value *value = job->value;
    const int64_t *extents = job->eval->extents;
    Axes out = axes_of(&value->dims), in = arg_axes(value, 0);
    Axes over = axes_without(out, value->dim);
    job->length = extents[value->dim];
    job->out_stride = axes_stride(&out, extents, value->dim);
    job->in_stride = axes_stride(&in, extents, value->dim);
    Walk walk = walk_over(&over, (const Axes *[]){&out, &in}, 2, extents);
    walk_run(&walk, row_inner, job);
}

// ---- moves --------------------------------------------------------------------------------------

static void copy_inner(void *context, int64_t n, const int64_t *at, const int64_t *step) {
    const Job *job = context;
    for (int64_t i = 0; i < n; i++)
        job->out[at[0] + i * step[0]] = job->args[0][at[1] + i * step[1]];
}

void eval_copy(const Walk *walk, double *out, const double *in) {
    Job job = {.out = out, .args = {in}};
    walk_run(walk, copy_inner, &job);
}

static void gather_inner(void *context, int64_t n, const int64_t *at, const int64_t *step) {
    const Job *job = context;
    double outside = elem_is_float(job->value->elem) ? NAN : 0;
    for (int64_t i = 0; i < n; i++) {
        double id = job->args[1][at[2] + i * step[2]];
        bool inside = id >= 0 && id < (double)job->length;
        int64_t from = at[1] + i * step[1] + (inside ? (int64_t)id * job->in_stride : 0);
        job->out[at[0] + i * step[0]] = inside ? job->args[0][from] : outside;
    }
}

static void eval_gather(Job *job) {
    const Value *value = job->value;
    const int64_t *extents = job->eval->extents;
    Axes out = axes_of(&value->dims), table = arg_axes(value, 0), ids = arg_axes(value, 1);
    job->length = extents[value->dim];
    job->in_stride = axes_stride(&table, extents, value->dim);
    Walk walk = walk_over(&out, (const Axes *[]){&out, &table, &ids}, 3, extents);
    // ids may have the dim that it indexes: there the table's place comes from the id alone.
    for (uint32_t i = 0; i < walk.rank; i++)
        if (out.at[i] == value->dim)
            walk.strides[i][1] = 0;
    walk_run(&walk, gather_inner, job);
}

// One element after the other, in the order of the positions.
static void scatter_inner(void *context, int64_t n, const int64_t *at, const int64_t *step) {
    const Job *job = context;
    for (int64_t i = 0; i < n; i++) {
        double id = job->args[1][at[2] + i * step[2]];
        if (!(id >= 0 && id < (double)job->length))
            continue;
        double *out = &job->out[at[0] + i * step[0] + (int64_t)id * job->out_stride];
        *out = job_round(job, *out + job->args[0][at[1] + i * step[1]]);
    }
}

static void eval_scatter(Job *job) {
    const Value *value = job->value;
    const int64_t *extents = job->eval->extents;
    DimList all = dims_union(&value->args[0]->dims, &value->args[1]->dims);
    Axes out = axes_of(&value->dims), a = arg_axes(value, 0), ids = arg_axes(value, 1),
         over = axes_of(&all);
    job->length = extents[value->dim];
    job->out_stride = axes_stride(&out, extents, value->dim);
    Walk walk = walk_over(&over, (const Axes *[]){&out, &a, &ids}, 3, extents);
    walk_run(&walk, scatter_inner, job);
}

// Copies in[begin + i] to out[i + at] along one dim of each for count positions, for all other
// dims.
typedef struct {
    DimId out_dim, in_dim;
    int64_t out_begin, in_begin, count;
} Piece;

static void copy_piece(Job *job, const double *array, Axes in, Piece piece) {
    const int64_t *extents = job->eval->extents;
    if (piece.count <= 0)
        return;
    Axes out = axes_of(&job->value->dims);
    Axes over = axes_without(out, piece.out_dim);
    Walk walk = walk_over(&over, (const Axes *[]){&out, &in}, 2, extents);
    uint32_t last = walk.rank++;
    walk.extents[last] = piece.count;
    walk.strides[last][0] = axes_stride(&out, extents, piece.out_dim);
    walk.strides[last][1] = axes_stride(&in, extents, piece.in_dim);
    Job part = *job;
    part.out += piece.out_begin * walk.strides[last][0];
    part.args[0] = array + piece.in_begin * walk.strides[last][1];
    walk_run(&walk, copy_inner, &part);
}

static int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void eval_take(Job *job) {
    const Value *value = job->value;
    const int64_t *extents = job->eval->extents;
    Axes out = axes_of(&value->dims), in = arg_axes(value, 0);
    double none = elem_is_float(value->elem) ? NAN : 0;
    bool inside = value->offset < extents[value->dim];
    Walk walk = walk_over(&out, (const Axes *[]){&out, &in}, 2, extents);
    Job taken = *job;
    taken.args[0] =
        inside ? job->args[0] + value->offset * axes_stride(&in, extents, value->dim) : &none;
    for (uint32_t i = 0; i < walk.rank && !inside; i++)
        walk.strides[i][1] = 0;
    walk_run(&walk, copy_inner, &taken);
}

// The axis of a digit steps over all positions of those behind it.
static void eval_regroup(Job *job) {
    const Value *value = job->value;
    const int64_t *extents = job->eval->extents;
    bool splits = value->op == OP_SPLIT;
    Axes out = axes_of(&value->dims), in = arg_axes(value, 0);
    const Axes *apart = splits ? &out : &in, *whole = splits ? &in : &out;
    Walk walk = walk_over(apart, (const Axes *[]){&out, &in}, 2, extents);
    int64_t stride = axes_stride(whole, extents, value->dim);
    for (uint32_t k = value->digits->count; k-- > 0;) {
        for (uint32_t i = 0; i < walk.rank; i++)
            if (apart->at[i] == value->digits->at[k])
                walk.strides[i][splits ? 1 : 0] = stride;
        stride *= extents[value->digits->at[k]];
    }
    walk_run(&walk, copy_inner, job);
}

static void eval_move(Job *job) {
    const Value *value = job->value;
    const int64_t *extents = job->eval->extents;
    Axes in = arg_axes(value, 0);
    if (value->op == OP_RENAME) {
        Axes out = axes_of(&value->dims), read = axes_renamed(in, value->renames);
        Walk walk = walk_over(&out, (const Axes *[]){&out, &read}, 2, extents);
        walk_run(&walk, copy_inner, job);
    } else if (value->op == OP_SLICE) {
        int64_t n = min_i64(extents[value->dim2], extents[value->dim] - value->offset);
        Piece piece = {value->dim2, value->dim, 0, value->offset, n};
        copy_piece(job, job->args[0], in, piece);
    } else { // SHIFT: out[i] = in[i - offset]
        int64_t by = value->offset, n = extents[value->dim];
        Piece piece = {value->dim, value->dim, by > 0 ? by : 0, by > 0 ? 0 : -by, n - llabs(by)};
        copy_piece(job, job->args[0], in, piece);
    }
}

static void eval_concat(Job *job) {
    const Value *value = job->value;
    const int64_t *extents = job->eval->extents;
    int64_t begin = 0, room = extents[value->dim2];
    for (uint32_t k = 0; k < value->n_args; k++) {
        int64_t n = min_i64(extents[value->cats[k]], room - begin);
        Piece piece = {value->dim2, value->cats[k], begin, 0, n};
        copy_piece(job, job->eval->arrays[value->args[k]->id], arg_axes(value, k), piece);
        begin += n;
    }
}

// ---- order --------------------------------------------------------------------------------------

// Does x come before y, the earlier of the two, although it is later? NaN is larger than all.
static bool comes_before(const Value *value, double x, double y) {
    if (value->offset) // the largest first
        return isnan(x) ? !isnan(y) : x > y;
    return isnan(y) ? !isnan(x) : x < y;
}

// The next of the order is the first of the best that are left.
static void order_inner(void *context, int64_t n, const int64_t *at, const int64_t *step) {
    const Job *job = context;
    int64_t all = job->length, kept = job->eval->extents[job->value->dim2];
    bool *taken = malloc((size_t)all + 1);
    if (!taken)
        no_memory("the oracle", (size_t)all + 1);
    for (int64_t i = 0; i < n; i++) {
        double *out = &job->out[at[0] + i * step[0]];
        const double *in = &job->args[0][at[1] + i * step[1]];
        memset(taken, 0, (size_t)all);
        for (int64_t k = 0; k < kept && k < all; k++) {
            int64_t best = -1;
            for (int64_t j = 0; j < all; j++)
                if (!taken[j] && (best < 0 || comes_before(job->value, in[j * job->in_stride],
                                                           in[best * job->in_stride])))
                    best = j;
            taken[best] = true;
            out[k * job->out_stride] = (double)best;
        }
    }
    free(taken);
}

static void eval_order(Job *job) {
    const Value *value = job->value;
    const int64_t *extents = job->eval->extents;
    Axes out = axes_of(&value->dims), in = arg_axes(value, 0);
    Axes over = axes_without(out, value->dim2);
    job->length = extents[value->dim];
    job->out_stride = axes_stride(&out, extents, value->dim2);
    job->in_stride = axes_stride(&in, extents, value->dim);
    Walk walk = walk_over(&over, (const Axes *[]){&out, &in}, 2, extents);
    walk_run(&walk, order_inner, job);
}

// ---- the whole graph ----------------------------------------------------------------------------

static void eval_value(Job *job, const double *input) {
    const Value *value = job->value;
    switch (op_kind(value->op)) {
    case KIND_LEAF:
        eval_leaf(job, input);
        break;
    case KIND_MAP:
        eval_map(job);
        break;
    case KIND_REDUCE:
        if (value->op == OP_ARGMAX)
            eval_row(job);
        else
            eval_reduce(job);
        break;
    case KIND_ROW:
        eval_row(job);
        break;
    case KIND_CONTRACT:
    case KIND_SCAN:
        break; // by eval_one, which has all arrays at hand
    case KIND_MOVE:
        if (value->op == OP_GATHER)
            eval_gather(job);
        else if (value->op == OP_SCATTER_ADD)
            eval_scatter(job);
        else if (value->op == OP_CONCAT)
            eval_concat(job);
        else if (value->op == OP_TAKE)
            eval_take(job);
        else if (value->op == OP_ORDER)
            eval_order(job);
        else if (value->op == OP_SPLIT || value->op == OP_MERGE)
            eval_regroup(job);
        else
            eval_move(job);
        break;
    }
}

void eval_into(Eval *eval, const Value *value, const double *input, double *out) {
    double **args = calloc(value->n_args + 3, sizeof *args);
    if (!args)
        no_memory("the oracle", (value->n_args + 3) * sizeof *args);
    for (uint32_t k = 0; k < value->n_args; k++)
        args[k] = eval->arrays[value->args[k]->id];
    Job job = {.eval = eval, .value = value, .out = out, .args = {args[0], args[1], args[2]}};
    if (op_kind(value->op) == KIND_SCAN)
        eval_scan(eval, value, out);
    else if (value->op == OP_CONTRACT)
        eval_contract(value, args, out, eval->extents, eval->mode);
    else
        eval_value(&job, input);
    free(args);
}

void eval_one(Eval *eval, const Value *value, const double *input) {
    Axes axes = axes_of(&value->dims);
    double *out = eval_buffer(&axes, eval->extents);
    eval_into(eval, value, input, out);
    eval->arrays[value->id] = out;
    if (eval->slopes && op_kind(value->op) != KIND_LEAF && op_kind(value->op) != KIND_SCAN)
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
        const bool *read = eval_read_by(graph, value, scratch);
        for (uint32_t i = 0; i < v; i++)
            uses[i] += read[i];
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
