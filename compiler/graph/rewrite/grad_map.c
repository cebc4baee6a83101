// SPDX-License-Identifier: Apache-2.0
// Derivatives of pointwise ops: what of `dy` each argument gets, position by position.
//
//     y = a * b      da = dy * b,  db = dy * a
//     y = exp(a)     da = dy * y
//
// Where a derivative does not exist: |a| at 0 gives 0; max and min of two equal values give half to
// each, but where one of them is a number, max gives the other nothing (as relu at 0) and min all.
// Where one is NaN, all to each, but of min beside a number nothing. a ** b with b = 0 gives a
// nothing, with a = 0 <= b gives b nothing.
#include "graph/rewrite/grad.h"

#include <math.h>

typedef struct {
    Gradient *gradient;
    Graph *graph;
    const Value *value;
    Value *dy, *y, *a, *b; // b: the second argument, NULL if there is none
} MapRule;

static Value *num(const MapRule *m, double number) {
    return graph_const(m->graph, number, m->dy->elem);
}

static Value *neg(const MapRule *m, Value *a) {
    return graph_map1(m->graph, OP_NEG, a);
}

static Value *mul(const MapRule *m, Value *a, Value *b) {
    return graph_map2(m->graph, OP_MUL, a, b);
}

static Value *divide(const MapRule *m, Value *a, Value *b) {
    return graph_map2(m->graph, OP_DIV, a, b);
}

static Value *where(const MapRule *m, Value *condition, Value *a, Value *b) {
    return graph_select(m->graph, condition, a, b);
}

static Value *less(const MapRule *m, Value *a, Value *b) {
    return graph_map2(m->graph, OP_LT, a, b);
}

static Value *equal(const MapRule *m, Value *a, Value *b) {
    return graph_map2(m->graph, OP_EQ, a, b);
}

// ---- of one argument ---------------------------------------------------------------------------

static Value *of_abs(const MapRule *m) {
    Value *zero = num(m, 0);
    Value *turned = neg(m, m->dy);
    Value *below = where(m, less(m, m->a, zero), turned, zero);
    return where(m, less(m, zero, m->a), m->dy, below);
}

// 1 - y ** 2
static Value *of_tanh(const MapRule *m) {
    Value *square = mul(m, m->y, m->y);
    return mul(m, m->dy, graph_map2(m->graph, OP_SUB, num(m, 1), square));
}

// y * (1 - y)
static Value *of_sigmoid(const MapRule *m) {
    Value *slope = mul(m, m->y, graph_map2(m->graph, OP_SUB, num(m, 1), m->y));
    return mul(m, m->dy, slope);
}

static Value *of_erf(const MapRule *m) {
    Value *e = graph_map1(m->graph, OP_EXP, neg(m, mul(m, m->a, m->a)));
    return mul(m, m->dy, mul(m, num(m, M_2_SQRTPI), e));
}

static Value *of_rsqrt(const MapRule *m) {
    Value *cube = mul(m, m->y, mul(m, m->y, m->y));
    return mul(m, m->dy, mul(m, num(m, -0.5), cube));
}

static Value *of_first(const MapRule *m) {
    switch (m->value->op) {
    case OP_NEG:
        return neg(m, m->dy);
    case OP_ABS:
        return of_abs(m);
    case OP_EXP:
        return mul(m, m->dy, m->y);
    case OP_EXP2:
        return mul(m, m->dy, mul(m, num(m, M_LN2), m->y));
    case OP_LOG:
        return divide(m, m->dy, m->a);
    case OP_SQRT:
        return divide(m, m->dy, mul(m, num(m, 2), m->y));
    case OP_RSQRT:
        return of_rsqrt(m);
    case OP_TANH:
        return of_tanh(m);
    case OP_SIGMOID:
        return of_sigmoid(m);
    case OP_ERF:
        return of_erf(m);
    case OP_SIN:
        return mul(m, m->dy, graph_map1(m->graph, OP_COS, m->a));
    case OP_COS:
        return neg(m, mul(m, m->dy, graph_map1(m->graph, OP_SIN, m->a)));
    default: // COPY CAST
        return m->dy;
    }
}

// ---- of two ------------------------------------------------------------------------------------

// What gets nothing is chosen, not multiplied by 0: `dy` may be infinite.
static Value *of_extremum(const MapRule *m, uint32_t arg) {
    Value *own = arg ? m->b : m->a, *other = arg ? m->a : m->b, *zero = num(m, 0);
    bool is_max = m->value->op == OP_MAX;
    if (other->op == OP_CONST) {
        Value *below = graph_map2(m->graph, OP_LE, own, other);
        return is_max ? where(m, below, zero, m->dy) : graph_or_zero(m->graph, below, m->dy);
    }
    Value *loses = is_max ? less(m, own, other) : less(m, other, own);
    Value *half = mul(m, num(m, 0.5), m->dy);
    return where(m, loses, zero, where(m, equal(m, own, other), half, m->dy));
}

static Value *of_power(const MapRule *m, uint32_t arg) {
    Value *zero = num(m, 0);
    if (arg == 0) {
        Value *less_one = graph_map2(m->graph, OP_SUB, m->b, num(m, 1));
        Value *slope = mul(m, m->b, graph_map2(m->graph, OP_POW, m->a, less_one));
        Value *part = mul(m, m->dy, slope);
        return where(m, equal(m, m->b, zero), zero, part);
    }
    Value *risen = graph_map2(m->graph, OP_LE, zero, m->b);
    Value *flat = graph_map2(m->graph, OP_AND, equal(m, m->a, zero), risen);
    Value *slope = mul(m, m->y, graph_map1(m->graph, OP_LOG, m->a));
    return where(m, flat, zero, mul(m, m->dy, slope));
}

static Value *of_second(const MapRule *m) {
    switch (m->value->op) {
    case OP_SUB:
        return neg(m, m->dy);
    case OP_MUL:
        return mul(m, m->dy, m->a);
    case OP_DIV:
        return neg(m, mul(m, m->dy, divide(m, m->y, m->b)));
    case OP_MOD: // a - b * floor(a / b)
        return neg(m, mul(m, m->dy, graph_map1(m->graph, OP_FLOOR, divide(m, m->a, m->b))));
    case OP_POW:
        return of_power(m, 1);
    case OP_MIN:
    case OP_MAX:
        return of_extremum(m, 1);
    default: // ADD
        return m->dy;
    }
}

static Value *of_first_of_two(const MapRule *m) {
    switch (m->value->op) {
    case OP_MUL:
        return mul(m, m->dy, m->b);
    case OP_DIV:
        return divide(m, m->dy, m->b);
    case OP_POW:
        return of_power(m, 0);
    case OP_MIN:
    case OP_MAX:
        return of_extremum(m, 0);
    default: // ADD SUB MOD
        return m->dy;
    }
}

static Value *of_select(const MapRule *m, uint32_t arg) {
    Value *condition = gradient_copy(m->gradient, m->value->args[0]), *zero = num(m, 0);
    return arg == 1 ? where(m, condition, m->dy, zero) : where(m, condition, zero, m->dy);
}

void gradient_of_map(Gradient *gradient, const Value *value, Value *dy) {
    MapRule m = {.gradient = gradient,
                 .graph = gradient->rewrite.to,
                 .value = value,
                 .dy = dy,
                 .y = gradient_now(gradient, value),
                 .a = gradient_now(gradient, value->args[0])};
    if (value->n_args > 1)
        m.b = gradient_now(gradient, value->args[1]);
    bool repeats = value_is_repeat(value);
    if (repeats && gradient_wants(gradient, value, 1))
        gradient_add(gradient, value, 1, dy, &value->dims);
    for (uint32_t k = 0; k < value->n_args && !repeats; k++) {
        if (!gradient_wants(gradient, value, k) || !elem_is_float(value->args[k]->elem))
            continue;
        Value *part = value->op == OP_SELECT ? of_select(&m, k)
                      : value->n_args == 1   ? of_first(&m)
                      : k == 0               ? of_first_of_two(&m)
                                             : of_second(&m);
        gradient_add(gradient, value, k, part, &value->dims);
    }
}
