// SPDX-License-Identifier: Apache-2.0
// Built-in functions. Those without an op of their own are written out here, in forms that are
// stable in float32:
//
//     mean(x)        sum(x) / count            gelu(x)       0.5 x (1 + erf(x/sqrt 2))
//     relu(x)        max(x, 0)                 silu(x)       x * sigmoid(x)
//     softplus(x)    max(x, 0) + log(1 + exp(min(x, 0) - max(x, 0))), whose gradient at 0 is 1/2
//     logsumexp(x)   m + log(sum(exp(x - m))), m the largest x, made finite: the sum of a row that
//                    has infinity is infinity, log(0) that of a row of -inf. m has no gradient
#include <math.h>

#include "graph/build/build.h"

static Value *argument(Frame *frame, const Expr *call, uint32_t i) {
    return build_expr_as(frame, call->args.at[i], call->elem);
}

// ---- pointwise ---------------------------------------------------------------------------------

static Value *relu_of(Graph *graph, Value *x) {
    return graph_map2(graph, OP_MAX, x, graph_number(graph, 0, x));
}

static Value *gelu_of(Graph *graph, Value *x) {
    Value *scaled = graph_map2(graph, OP_MUL, x, graph_number(graph, sqrt(0.5), x));
    Value *erf = graph_map1(graph, OP_ERF, scaled);
    Value *erf1 = graph_map2(graph, OP_ADD, graph_number(graph, 1, x), erf);
    Value *half = graph_map2(graph, OP_MUL, graph_number(graph, 0.5, x), x);
    return graph_map2(graph, OP_MUL, half, erf1);
}

static Value *softplus_of(Graph *graph, Value *x) {
    Value *above = relu_of(graph, x),
          *below = graph_map2(graph, OP_MIN, x, graph_number(graph, 0, x));
    Value *e = graph_map1(graph, OP_EXP, graph_map2(graph, OP_SUB, below, above));
    Value *sum = graph_map2(graph, OP_ADD, graph_number(graph, 1, x), e);
    return graph_map2(graph, OP_ADD, above, graph_map1(graph, OP_LOG, sum));
}

static const Op function_ops[N_BUILTIN] = {
    [BUILTIN_ABS] = OP_ABS,     [BUILTIN_EXP] = OP_EXP,     [BUILTIN_LOG] = OP_LOG,
    [BUILTIN_EXP2] = OP_EXP2,   [BUILTIN_SQRT] = OP_SQRT,   [BUILTIN_TANH] = OP_TANH,
    [BUILTIN_RSQRT] = OP_RSQRT, [BUILTIN_ERF] = OP_ERF,     [BUILTIN_SIN] = OP_SIN,
    [BUILTIN_COS] = OP_COS,     [BUILTIN_FLOOR] = OP_FLOOR, [BUILTIN_SIGMOID] = OP_SIGMOID,
};

// Whole numbers are their own floor, and |x| needs no float either.
static Value *build_function(Frame *frame, const Expr *call) {
    Value *x = argument(frame, call, 0);
    if (call->builtin == BUILTIN_FLOOR && !elem_is_float(x->elem))
        return x;
    return graph_map1(frame->build->graph, function_ops[call->builtin], x);
}

static Value *build_where(Frame *frame, const Expr *call) {
    Value *condition = build_expr_as(frame, call->args.at[0], ELEM_BOOL);
    Value *args[] = {condition, argument(frame, call, 1), argument(frame, call, 2)};
    return graph_map(frame->build->graph, OP_SELECT, call->elem, args, 3);
}

static Value *build_cast(Frame *frame, const Expr *call) {
    const Expr *arg = call->args.at[0];
    double number;
    if (!build_number(frame, arg, &number))
        return graph_cast(frame->build->graph, build_expr(frame, arg), call->elem);
    if (call->elem == ELEM_BOOL)
        number = number != 0;
    else if (elem_is_int(call->elem))
        number = isnan(number) ? 0 : (double)elem_whole(call->elem, number);
    return graph_const(frame->build->graph, number, call->elem);
}

// ---- random numbers ----------------------------------------------------------------------------

static Value *random_of(Graph *graph, Value *seed, Value *stream, Value *at) {
    return graph_map(graph, OP_RANDOM, ELEM_F32, (Value *[]){seed, stream, at}, 3);
}

static Value *build_random(Frame *frame, const Expr *call) {
    Value *args[3];
    for (uint32_t i = 0; i < 3; i++)
        args[i] = build_expr_as(frame, call->args.at[i], ELEM_I64);
    return random_of(frame->build->graph, args[0], args[1], args[2]);
}

// The positions of dims numbered through, the last fastest.
static Value *numbered(Graph *graph, const DimList *dims) {
    Value *sum = graph_const(graph, 0, ELEM_I64), *step = graph_const(graph, 1, ELEM_I64);
    for (uint32_t i = dims->count; i-- > 0;) {
        Value *part = graph_map2(graph, OP_MUL, graph_index(graph, dims->at[i]), step);
        sum = graph_map2(graph, OP_ADD, part, sum);
        step = graph_map2(graph, OP_MUL, graph_extent(graph, dims->at[i]), step);
    }
    return sum;
}

// The dims of x in the order that its positions are numbered in: first the scans around, whose
// steps draw anew, then what calls are mapped over, then those that the def names, in their order.
static DimList drawn_dims(Frame *frame, const Expr *expr, const Value *x) {
    DimList dims = {0};
    for (uint32_t i = 0; i < frame->hidden.count; i++)
        if (frame->build->graph->dims.at[frame->hidden.at[i]].scan)
            dims_add(&dims, frame->hidden.at[i]);
    DimList mapped = dims_intersect(&frame->hidden, &x->dims);
    DimList own = frame_dims(frame, &expr->result, expr->span);
    dims = dims_union(&dims, &mapped);
    return dims_union(&dims, &own);
}

// As the float that it is compared as, so that the factor is one over the share that is kept.
static Value *dropout_rate(Frame *frame, const Expr *expr) {
    double rate;
    if (!build_number(frame, expr, &rate))
        return build_expr_as(frame, expr, ELEM_F32);
    const char *problem = dropout_rate_problem(rate);
    if (problem)
        frame_note_calls(frame,
                         diag_error(frame->build->session->diags, expr->span, "%s", problem));
    return graph_const(frame->build->graph, (float)rate, ELEM_F32);
}

// where(rate <= random, x * 1 / (1 - rate), 0), each call with a stream of its own.
static Value *dropped_out(Frame *frame, Value *x, const DimList *dims, Value *rate, Value *seed) {
    Graph *graph = frame->build->graph;
    Value *stream = graph_const(graph, frame->build->n_dropouts++, ELEM_I64);
    Value *drawn = random_of(graph, seed, stream, numbered(graph, dims));
    Value *one = graph_const(graph, 1, ELEM_F32), *none = graph_const(graph, 0, ELEM_F32);
    Value *off = graph_map2(graph, OP_LT, seed, graph_const(graph, 0, ELEM_I64));
    rate = graph_select(graph, off, none, rate);
    Value *kept = graph_map2(graph, OP_LE, rate, drawn), *zero = graph_number(graph, 0, x);
    Value *factor = graph_map2(graph, OP_DIV, one, graph_map2(graph, OP_SUB, one, rate));
    Value *scaled = graph_map2(graph, OP_MUL, x, graph_cast(graph, factor, x->elem));
    return graph_select(graph, kept, scaled, zero);
}

static Value *build_dropout(Frame *frame, const Expr *call) {
    Value *x = argument(frame, call, 0);
    const KeyArg *key = call_key(call, "seed");
    if (!key)
        return x;
    Value *rate = dropout_rate(frame, call_key(call, "rate")->value);
    Value *seed = build_expr_as(frame, key->value, ELEM_I64);
    bool off = seed->op == OP_CONST && seed->number < 0;
    if (off)
        return x;
    DimList dims = drawn_dims(frame, call->args.at[0], x);
    return dropped_out(frame, x, &dims, rate, seed);
}

// ---- reductions --------------------------------------------------------------------------------

static Value *reduced(Graph *graph, Op op, Value *x, const DimList *over) {
    return graph_reduce(graph, op, x, dims_minus(&x->dims, over));
}

// The number of positions of all dims together, as an elem.
static Value *count_of(Graph *graph, const DimList *dims, Elem elem) {
    double known = 1;
    Value *count = NULL;
    for (uint32_t i = 0; i < dims->count; i++) {
        graph_note_counted(graph, graph->dims.at[dims->at[i]].name);
        if (graph->dims.at[dims->at[i]].extent != EXTENT_DYNAMIC) {
            known *= (double)graph->dims.at[dims->at[i]].extent;
            continue;
        }
        Value *extent = graph_cast(graph, graph_extent(graph, dims->at[i]), elem);
        count = count ? graph_map2(graph, OP_MUL, count, extent) : extent;
    }
    if (!count)
        return graph_const(graph, known, elem);
    return known == 1 ? count : graph_map2(graph, OP_MUL, count, graph_const(graph, known, elem));
}

static Value *logsumexp_of(Graph *graph, Value *x, const DimList *over) {
    Value *top = reduced(graph, OP_REDUCE_TOP, x, over);
    Value *max = graph_map1(graph, OP_STOP_GRADIENT, graph_finite(graph, top));
    Value *e = graph_map1(graph, OP_EXP, graph_map2(graph, OP_SUB, x, max));
    Value *log_sum = graph_map1(graph, OP_LOG, reduced(graph, OP_SUM, e, over));
    return graph_map2(graph, OP_ADD, max, log_sum);
}

static Value *build_reduction(Frame *frame, const Expr *call) {
    Graph *graph = frame->build->graph;
    DimList over = frame_dims(frame, &call->reduced, call->span);
    if (call->builtin == BUILTIN_ARGMAX) {
        const Formula *one = formula_number(frame->build->arena, 1);
        build_claim(frame, RULE_CHOOSES, over.at[0], one, call->span);
        return graph_row(graph, OP_ARGMAX, build_expr(frame, call->args.at[0]), over.at[0]);
    }
    Value *x = argument(frame, call, 0);
    switch (call->builtin) {
    case BUILTIN_SUM:
        return reduced(graph, OP_SUM, x, &over);
    case BUILTIN_PROD:
        return reduced(graph, OP_PROD, x, &over);
    case BUILTIN_MIN:
        return reduced(graph, OP_REDUCE_MIN, x, &over);
    case BUILTIN_MAX:
        return reduced(graph, OP_REDUCE_MAX, x, &over);
    case BUILTIN_MAX_NUMBER:
        return reduced(graph, OP_REDUCE_TOP, x, &over);
    case BUILTIN_LOGSUMEXP:
        return logsumexp_of(graph, x, &over);
    default: { // mean. One after the other, so that ids do not depend on the C compiler
        Value *count = count_of(graph, &over, x->elem);
        return graph_map2(graph, OP_DIV, reduced(graph, OP_SUM, x, &over), count);
    }
    }
}

// min and max of two or more, from the left; over a dim when one is named.
static Value *build_extremum(Frame *frame, const Expr *call) {
    if (call->reduced.count)
        return build_reduction(frame, call);
    Op op = call->builtin == BUILTIN_MIN ? OP_MIN : OP_MAX;
    Value *value = argument(frame, call, 0);
    for (uint32_t i = 1; i < call->args.count; i++)
        value = graph_map2(frame->build->graph, op, value, argument(frame, call, i));
    return value;
}

static Value *build_row(Frame *frame, const Expr *call) {
    Op op = call->builtin == BUILTIN_SOFTMAX       ? OP_SOFTMAX
            : call->builtin == BUILTIN_LOG_SOFTMAX ? OP_LOG_SOFTMAX
                                                   : OP_CUMSUM;
    Value *x = argument(frame, call, 0);
    return graph_row(frame->build->graph, op, x, frame_dim(frame, call->reduced.at[0]));
}

// ---- dispatch ----------------------------------------------------------------------------------

static Value *build_checkpoint(Frame *frame, const Expr *call) {
    const CodeBlock *around = build_open_block(frame->build, 0, true);
    Value *value = argument(frame, call, 0);
    frame->build->graph->made_for.block = around;
    return value;
}

Value *build_builtin(Frame *frame, const Expr *call) {
    Graph *graph = frame->build->graph;
    switch (call->builtin) {
    case BUILTIN_EINSUM:
        return build_einsum(frame, call, 1);
    case BUILTIN_SUM:
    case BUILTIN_MEAN:
    case BUILTIN_MAX_NUMBER:
    case BUILTIN_PROD:
    case BUILTIN_ARGMAX:
    case BUILTIN_LOGSUMEXP:
        return build_reduction(frame, call);
    case BUILTIN_SOFTMAX:
    case BUILTIN_LOG_SOFTMAX:
    case BUILTIN_CUMSUM:
        return build_row(frame, call);
    case BUILTIN_MIN:
    case BUILTIN_MAX:
        return build_extremum(frame, call);
    case BUILTIN_SILU: {
        Value *x = argument(frame, call, 0);
        return graph_map2(graph, OP_MUL, x, graph_map1(graph, OP_SIGMOID, x));
    }
    case BUILTIN_RELU:
        return relu_of(graph, argument(frame, call, 0));
    case BUILTIN_GELU:
        return gelu_of(graph, argument(frame, call, 0));
    case BUILTIN_SOFTPLUS:
        return softplus_of(graph, argument(frame, call, 0));
    case BUILTIN_WHERE:
        return build_where(frame, call);
    case BUILTIN_INDEX:
        return graph_index(graph, frame_dim(frame, call->reduced.at[0]));
    case BUILTIN_GATHER:
    case BUILTIN_SCATTER_ADD:
    case BUILTIN_ONE_HOT:
    case BUILTIN_CONCAT:
    case BUILTIN_SLICE:
    case BUILTIN_SHIFT:
    case BUILTIN_SWAP:
    case BUILTIN_SORT:
    case BUILTIN_ARGSORT:
        return build_move(frame, call);
    case BUILTIN_SPLIT:
    case BUILTIN_MERGE:
        return build_regroup(frame, call);
    case BUILTIN_RANDOM:
        return build_random(frame, call);
    case BUILTIN_DROPOUT:
        return build_dropout(frame, call);
    case BUILTIN_STOP_GRADIENT:
        return graph_map1(graph, OP_STOP_GRADIENT, argument(frame, call, 0));
    case BUILTIN_CHECKPOINT:
        return build_checkpoint(frame, call);
    case BUILTIN_F32:
    case BUILTIN_F64:
    case BUILTIN_F16:
    case BUILTIN_BF16:
    case BUILTIN_I32:
    case BUILTIN_I64:
    case BUILTIN_BOOL:
        return build_cast(frame, call);
    default:
        return build_function(frame, call);
    }
}
