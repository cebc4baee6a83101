// SPDX-License-Identifier: Apache-2.0
// Does a step of graph_decode read what later steps write?
//
//     K[m, k] = where(index(m) == position, row_K[k], cache_K[m, k])    beyond it: anything finite
//     S[m] = where(index(m) <= position, einsum(Q[k], K[m, k]), -inf)   beyond it: -inf
//     W[m] = softmax(S[m], reduced_dim=m)                               beyond it: 0
//     Y[k] = einsum(W[m], K[m, k])                                      right: 0 times anything
//
// Of each value and each of its dims that run along the sequence it is found what the value is at
// positions beyond that of the step, where caches hold what means nothing. Sums, softmax and
// whatever else goes over such a dim must not see that. What a comparison of positions gives beyond
// is found where its sides are sums of positions and numbers; of all else that is unknown it is
// thought that it may be anything, so that a program which hides later positions in another way is
// refused.
#include "graph/decode/decode.h"

#include <math.h>

typedef enum {
    BEYOND_RIGHT,  // what the whole graph has there
    BEYOND_NUMBER, // that, and it is one number
    BEYOND_FINITE, // it means nothing, but is finite
    BEYOND_ANY
} BeyondKind;
typedef struct {
    BeyondKind kind;
    double number;
} Beyond;
static const Beyond right = {BEYOND_RIGHT, 0};
static const Beyond meaningless = {BEYOND_FINITE, 0};
static const Beyond any = {BEYOND_ANY, 0};

typedef struct {
    const Graph *graph;
    const Value *position;
    DimId n;
    Arena *arena;
    Beyond **beyond; // by id and place among the value's dims
    const char *why; // the first that is wrong, or NULL
    Span origin;
} Check;

static bool is_right(Beyond beyond) {
    return beyond.kind <= BEYOND_NUMBER;
}

static bool is_zero(Beyond beyond) {
    return beyond.kind == BEYOND_NUMBER && beyond.number == 0;
}

static bool is_finite(Beyond beyond) {
    return beyond.kind == BEYOND_NUMBER ? isfinite(beyond.number) : beyond.kind != BEYOND_ANY;
}

static Beyond number(double value) {
    return (Beyond){BEYOND_NUMBER, value};
}

static Beyond along(const Check *check, const Value *value, DimId dim) {
    if (value->op == OP_CONST)
        return number(value->number);
    for (uint32_t i = 0; i < value->dims.count; i++)
        if (value->dims.at[i] == dim)
            return check->beyond[value->id][i];
    return right;
}

// Worst of the arguments.
static Beyond joined(const Check *check, const Value *value, DimId dim) {
    Beyond worst = right;
    for (uint32_t k = 0; k < value->n_args; k++) {
        Beyond arg = along(check, value->args[k], dim);
        if (!is_right(arg))
            worst = arg.kind > worst.kind ? arg : worst;
    }
    return worst;
}

// ---- comparisons of positions -------------------------------------------------------------------

// at * index(dim) + now * position + rest
typedef struct {
    double at, now, rest;
    bool known;
} Line;

static Line line_times(Line line, double factor) {
    return (Line){line.at * factor, line.now * factor, line.rest * factor, line.known};
}

static Line line_plus(Line a, Line b) {
    return (Line){a.at + b.at, a.now + b.now, a.rest + b.rest, a.known && b.known};
}

static bool keeps_order(Elem elem) {
    return elem_is_int(elem) || elem == ELEM_F32 || elem == ELEM_F64;
}

static Line line_of(const Check *check, const Value *value, DimId dim, int depth) {
    enum { DEPTH_MAX = 8 };
    Line unknown = {0}, a = {0}, b = {0};
    if (value == check->position)
        return (Line){.now = 1, .known = true};
    if (value->op == OP_INDEX && value->dim == dim)
        return (Line){.at = 1, .known = true};
    if (value->op == OP_CONST)
        return (Line){.rest = value->number, .known = true};
    if (depth == DEPTH_MAX || op_kind(value->op) != KIND_MAP || !keeps_order(value->elem))
        return unknown;
    a = line_of(check, value->args[0], dim, depth + 1);
    if (value->n_args > 1)
        b = line_of(check, value->args[1], dim, depth + 1);
    switch (value->op) {
    case OP_CAST:
        return elem_is_int(value->args[0]->elem) ? a : unknown;
    case OP_NEG:
        return line_times(a, -1);
    case OP_ADD:
        return line_plus(a, b);
    case OP_SUB:
        return line_plus(a, line_times(b, -1));
    case OP_MUL:
        if (a.known && !a.at && !a.now)
            return line_times(b, a.rest);
        return b.known && !b.at && !b.now ? line_times(a, b.rest) : unknown;
    default:
        return unknown;
    }
}

// The least that it is with index(dim) > position >= 0; -INFINITY: it has none, or is unknown.
static double least_beyond(Line line) {
    bool falls = line.at < 0 || line.at + line.now < 0;
    return !line.known || falls ? -INFINITY : line.at + line.rest;
}

// What a comparison gives beyond the step, where that is one answer.
static Beyond compared(const Check *check, const Value *value, DimId dim) {
    Line a = line_of(check, value->args[0], dim, 0), b = line_of(check, value->args[1], dim, 0);
    Line more = line_plus(b, line_times(a, -1)), less = line_times(more, -1);
    double least = least_beyond(more), over = least_beyond(less); // of b - a, of a - b
    bool equals = value->op == OP_EQ || value->op == OP_NE;
    if (equals && (least > 0 || over > 0))
        return number(value->op == OP_NE);
    if (value->op == OP_LE && (least >= 0 || over > 0))
        return number(least >= 0);
    if (value->op == OP_LT && (least > 0 || over >= 0))
        return number(least > 0);
    return meaningless;
}

// ---- pointwise values ---------------------------------------------------------------------------

static bool stays_finite(Op op) {
    switch (op) {
    case OP_COPY:
    case OP_STOP_GRADIENT:
    case OP_CAST:
    case OP_NEG:
    case OP_ABS:
    case OP_TANH:
    case OP_SIGMOID:
    case OP_ERF:
    case OP_SIN:
    case OP_COS:
    case OP_FLOOR:
    case OP_NOT:
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_MIN:
    case OP_MAX:
    case OP_EQ:
    case OP_NE:
    case OP_LT:
    case OP_LE:
    case OP_AND:
    case OP_OR:
    case OP_RANDOM:
        return true;
    default:
        return false;
    }
}

// Whatever the other argument is, as long as it is finite.
static bool decides(Op op, Beyond arg) {
    if (arg.kind != BEYOND_NUMBER)
        return false;
    switch (op) {
    case OP_MUL:
    case OP_AND:
        return arg.number == 0;
    case OP_OR:
        return arg.number != 0;
    case OP_ADD:
        return isinf(arg.number);
    default:
        return false;
    }
}

static Beyond of_numbers(const Value *value, double a, double b) {
    switch (value->op) {
    case OP_AND:
        return number(a != 0 && b != 0);
    case OP_OR:
        return number(a != 0 || b != 0);
    case OP_NOT:
        return number(a == 0);
    case OP_CAST:
    case OP_COPY:
    case OP_STOP_GRADIENT:
        return number(a);
    default:
        return number(value->n_args == 1 ? op_apply1(value->op, a) : op_apply2(value->op, a, b));
    }
}

static Beyond chosen(const Check *check, const Value *value, DimId dim) {
    Beyond condition = along(check, value->args[0], dim);
    Beyond a = along(check, value->args[1], dim), b = along(check, value->args[2], dim);
    if (condition.kind == BEYOND_NUMBER)
        return condition.number != 0 ? a : b;
    if (a.kind == BEYOND_NUMBER && b.kind == BEYOND_NUMBER && a.number == b.number)
        return a;
    if (is_right(condition) && is_right(a) && is_right(b))
        return right;
    return is_finite(a) && is_finite(b) ? meaningless : any;
}

static Beyond computed(Op op, Beyond a, Beyond b) {
    if (decides(op, a) && is_finite(b))
        return a;
    if (decides(op, b) && is_finite(a))
        return b;
    if (op == OP_SUB && a.kind == BEYOND_NUMBER && isinf(a.number) && is_finite(b))
        return a;
    if (op == OP_DIV && is_zero(a) && b.kind == BEYOND_RIGHT)
        return a;
    if (is_right(a) && is_right(b))
        return right;
    return stays_finite(op) && is_finite(a) && is_finite(b) ? meaningless : any;
}

static Beyond mapped(const Check *check, const Value *value, DimId dim) {
    bool compares =
        value->op == OP_EQ || value->op == OP_NE || value->op == OP_LT || value->op == OP_LE;
    Beyond answer = compares ? compared(check, value, dim) : any;
    if (answer.kind == BEYOND_NUMBER)
        return answer;
    if (value->n_args > 2)
        return value->op == OP_SELECT ? chosen(check, value, dim) : joined(check, value, dim);
    Beyond a = along(check, value->args[0], dim);
    Beyond b = value->n_args == 1 ? a : along(check, value->args[1], dim);
    if (a.kind == BEYOND_NUMBER && b.kind == BEYOND_NUMBER)
        answer = of_numbers(value, a.number, b.number);
    return answer.kind == BEYOND_NUMBER && !isnan(answer.number) ? answer
                                                                 : computed(value->op, a, b);
}

// ---- all others ---------------------------------------------------------------------------------

// Of the arguments of an einsum, at the same positions.
static Beyond multiplied(const Check *check, const Value *value, DimId dim) {
    bool zero = false, all_right = true, all_finite = true;
    for (uint32_t k = 0; k < value->n_args; k++) {
        Beyond arg = along(check, value->args[k], dim);
        zero |= is_zero(arg);
        all_right &= is_right(arg);
        all_finite &= is_finite(arg);
    }
    if (zero && all_finite)
        return number(0);
    return all_right ? right : all_finite ? meaningless : any;
}

// What remains of one number over a dim that is summed or reduced, with another dim kept.
static Beyond reduced(const Value *value, Beyond arg) {
    bool extremum =
        value->op == OP_REDUCE_MAX || value->op == OP_REDUCE_MIN || value->op == OP_REDUCE_TOP;
    if (arg.kind == BEYOND_NUMBER)
        return extremum || (value->op == OP_SUM && arg.number == 0) ? arg : right;
    return value->op == OP_PROD && arg.kind == BEYOND_FINITE ? any : arg;
}

static Beyond normalised(const Value *value, Beyond arg, DimId dim) {
    bool hidden = value->dim == dim && arg.kind == BEYOND_NUMBER && arg.number == -INFINITY;
    if (hidden)
        return value->op == OP_SOFTMAX ? number(0) : arg;
    return arg.kind == BEYOND_NUMBER ? right : arg;
}

static DimId renamed_from(const Value *value, DimId dim) {
    for (uint32_t i = 0; i < value->renames->count; i++)
        if (value->renames->to[i] == dim)
            return value->renames->from[i];
    return dim;
}

static Beyond find_beyond(const Check *check, const Value *value, DimId dim) {
    switch (value->op) {
    case OP_CONTRACT:
        return multiplied(check, value, dim);
    case OP_SOFTMAX:
    case OP_LOG_SOFTMAX:
        return normalised(value, along(check, value->args[0], dim), dim);
    case OP_RENAME:
        return along(check, value->args[0], renamed_from(value, dim));
    case OP_GATHER: // positions that mean nothing may be outside of the table
        return is_right(joined(check, value, dim)) ? right : any;
    default:
        break;
    }
    if (op_kind(value->op) == KIND_MAP)
        return mapped(check, value, dim);
    if (op_kind(value->op) == KIND_REDUCE)
        return reduced(value, along(check, value->args[0], dim));
    return joined(check, value, dim);
}

// ---- what goes over positions -------------------------------------------------------------------

// Is it a position up to that of the step?
static bool is_reached(const Check *check, const Value *ids) {
    Line line = line_of(check, ids, DIM_NONE, 0);
    return line.known && line.now <= 1 && line.rest <= 0;
}

// Does a value read all positions that argument k has along dim, each of its own positions several?
static bool goes_over(const Check *check, const Value *value, uint32_t k, DimId dim) {
    switch (value->op) {
    case OP_SOFTMAX:
    case OP_LOG_SOFTMAX:
    case OP_SHIFT:
    case OP_SLICE:
    case OP_TAKE:
    case OP_ORDER:
    case OP_SPLIT:
        return value->dim == dim;
    case OP_CONCAT:
        return value->cats[k] == dim;
    case OP_MERGE:
        return dims_has(value->digits, dim);
    case OP_GATHER:
        return k == 0 && value->dim == dim && !is_reached(check, value->args[1]);
    case OP_RENAME:
        return false;
    case OP_CUMSUM: // up to each position
        return false;
    default:
        return !dims_has(&value->dims, dim) && value->op != OP_GATHER;
    }
}

static const char *word(Op op) {
    switch (op) {
    case OP_REDUCE_MAX:
        return "max";
    case OP_REDUCE_MIN:
        return "min";
    case OP_ORDER:
        return "sort";
    default:
        return op_name(op);
    }
}

static void blame(Check *check, const Value *value, const char *what, DimId dim) {
    const Dim *dims = check->graph->dims.at;
    if (check->why)
        return;
    check->why = arena_printf(check->graph->arena, "the %s over %s sees positions after %s", what,
                              dims[dim].name, dims[check->n].name);
    check->origin = value->origin;
}

static void check_args(Check *check, const Value *value) {
    for (uint32_t k = 0; k < value->n_args; k++) {
        const Value *arg = value->args[k];
        for (uint32_t i = 0; i < arg->dims.count; i++) {
            DimId dim = arg->dims.at[i];
            Beyond seen = value->op == OP_CONTRACT ? multiplied(check, value, dim)
                                                   : check->beyond[arg->id][i];
            if (!is_right(seen) && goes_over(check, value, k, dim))
                blame(check, value, word(value->op), dim);
        }
    }
}

static void check_value(Check *check, const Value *value) {
    if (check->beyond[value->id]) // a cache
        return;
    Beyond *beyond = arena_array(check->arena, Beyond, value->dims.count + 1);
    check->beyond[value->id] = beyond;
    check_args(check, value);
    for (uint32_t i = 0; i < value->dims.count; i++)
        if (graph_dims_alike(check->graph, value->dims.at[i], check->n))
            beyond[i] = find_beyond(check, value, value->dims.at[i]);
}

static void begin_cache(Check *check, const Value *input, DimId along) {
    Beyond *beyond = arena_array(check->arena, Beyond, input->dims.count + 1);
    for (uint32_t i = 0; i < input->dims.count; i++)
        beyond[i] = input->dims.at[i] == along ? meaningless : right;
    check->beyond[input->id] = beyond;
}

// Results, and what is kept, are the whole graph's.
static void check_output(Check *check, const Output *output) {
    const Value *value = output->value;
    for (uint32_t i = 0; i < value->dims.count && !check->why; i++)
        if (!is_right(check->beyond[value->id][i]))
            blame(check, value, output->name, value->dims.at[i]);
}

const char *decode_problem(const Decoding *decoding, DimId n, Span *origin) {
    const Graph *graph = decoding->graph;
    Check check = {.graph = graph,
                   .position = graph->inputs.at[decoding->position],
                   .n = n,
                   .arena = arena_new()};
    check.beyond = arena_array(check.arena, Beyond *, graph->values.count + 1);
    for (uint32_t i = 0; i < decoding->caches.count; i++)
        begin_cache(&check, graph->inputs.at[decoding->caches.at[i].input],
                    decoding->caches.at[i].dim);
    for (uint32_t i = 0; i < graph->values.count && !check.why; i++)
        check_value(&check, graph->values.at[i]);
    for (uint32_t i = 0; i < graph->outputs.count && !check.why; i++)
        check_output(&check, &graph->outputs.at[i]);
    arena_free(check.arena);
    *origin = check.origin;
    return check.why;
}
