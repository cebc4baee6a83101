// SPDX-License-Identifier: Apache-2.0
// Values of number expressions: sizes of initialisers, bounds of slices, distances, rates.
#include "ast/ast.h"

#include <math.h>

typedef struct {
    const Session *session;
    const Program *program;
    const LoopValue *loop;
    uint32_t n_loop;
} Evaluation;

static bool value_of_name(const Evaluation *e, const Expr *expr, double *value) {
    for (uint32_t i = 0; i < e->n_loop; i++)
        if (e->loop[i].name == expr->name.name) {
            *value = (double)e->loop[i].value;
            return true;
        }
    int64_t extent = program_extent(e->session, e->program, expr->name.name);
    *value = (double)extent;
    return expr->name_kind == NAME_EXTENT && extent > 0;
}

static bool value_of_operator(Oper oper, double a, double b, double *value) {
    switch (oper) {
    case OPER_NEG:
        *value = -a;
        return true;
    case OPER_NOT:
        *value = a == 0;
        return true;
    case OPER_ADD:
        *value = a + b;
        return true;
    case OPER_SUB:
        *value = a - b;
        return true;
    case OPER_MUL:
        *value = a * b;
        return true;
    case OPER_DIV:
        *value = a / b;
        return true;
    case OPER_FLOORDIV:
        *value = floor(a / b);
        return true;
    case OPER_MOD:
        *value = a - b * floor(a / b);
        return true;
    case OPER_POW:
        *value = pow(a, b);
        return true;
    case OPER_EQ:
        *value = a == b;
        return true;
    case OPER_NE:
        *value = a != b;
        return true;
    case OPER_LT:
        *value = a < b;
        return true;
    case OPER_LE:
        *value = a <= b;
        return true;
    case OPER_GT:
        *value = a > b;
        return true;
    case OPER_GE:
        *value = a >= b;
        return true;
    case OPER_AND:
        *value = a != 0 && b != 0;
        return true;
    case OPER_OR:
        *value = a != 0 || b != 0;
        return true;
    default:
        return false;
    }
}

static bool value_of_function(Builtin builtin, double a, double *value) {
    switch (builtin) {
    case BUILTIN_ABS:
        *value = fabs(a);
        return true;
    case BUILTIN_EXP:
        *value = exp(a);
        return true;
    case BUILTIN_EXP2:
        *value = exp2(a);
        return true;
    case BUILTIN_LOG:
        *value = log(a);
        return true;
    case BUILTIN_SQRT:
        *value = sqrt(a);
        return true;
    case BUILTIN_RSQRT:
        *value = 1 / sqrt(a);
        return true;
    case BUILTIN_TANH:
        *value = tanh(a);
        return true;
    case BUILTIN_SIGMOID:
        *value = 1 / (1 + exp(-a));
        return true;
    case BUILTIN_ERF:
        *value = erf(a);
        return true;
    case BUILTIN_SIN:
        *value = sin(a);
        return true;
    case BUILTIN_COS:
        *value = cos(a);
        return true;
    case BUILTIN_RELU:
        *value = fmax(a, 0);
        return true;
    case BUILTIN_GELU:
        *value = 0.5 * a * (1 + erf(a / sqrt(2)));
        return true;
    case BUILTIN_SILU:
        *value = a / (1 + exp(-a));
        return true;
    case BUILTIN_SOFTPLUS:
        *value = log1p(exp(-fabs(a))) + fmax(a, 0);
        return true;
    case BUILTIN_FLOOR:
        *value = floor(a);
        return true;
    default:
        return false;
    }
}

// Of whole numbers, a // 0 is 0 and leaves a.
static bool value_of_two(const Expr *expr, double a, double b, double *value) {
    bool divides = expr->oper == OPER_FLOORDIV || expr->oper == OPER_MOD;
    if (divides && b == 0 && elem_is_int(expr->elem)) {
        *value = expr->oper == OPER_MOD ? a : 0;
        return true;
    }
    return value_of_operator(expr->oper, a, b, value);
}

static bool value_of(const Evaluation *e, const Expr *expr, double *value);

static bool value_of_call(const Evaluation *e, const Expr *expr, double *value) {
    double first;
    if (expr->builtin == BUILTIN_WHERE)
        return value_of(e, expr->args.at[0], &first) &&
               value_of(e, expr->args.at[first != 0 ? 1 : 2], value);
    if (!value_of(e, expr->args.at[0], &first))
        return false;
    if (expr->builtin != BUILTIN_MIN && expr->builtin != BUILTIN_MAX)
        return value_of_function(expr->builtin, first, value);
    *value = first;
    for (uint32_t i = 1; i < expr->args.count; i++) {
        double next;
        if (!value_of(e, expr->args.at[i], &next))
            return false;
        *value = expr->builtin == BUILTIN_MIN ? fmin(*value, next) : fmax(*value, next);
    }
    return true;
}

static bool value_of(const Evaluation *e, const Expr *expr, double *value) {
    if (!expr->ok || !expr->is_literal)
        return false;
    double a = 0, b = 0;
    switch (expr->kind) {
    case EXPR_NUMBER:
        *value = expr->number;
        return true;
    case EXPR_NAME:
        return value_of_name(e, expr, value);
    case EXPR_UNARY:
        return value_of(e, expr->args.at[0], &a) && value_of_operator(expr->oper, a, b, value);
    case EXPR_BINARY:
        return value_of(e, expr->args.at[0], &a) && value_of(e, expr->args.at[1], &b) &&
               value_of_two(expr, a, b, value);
    case EXPR_CALL:
        return value_of_call(e, expr, value);
    default:
        return false;
    }
}

bool expr_evaluate(const Session *session, const Program *program, const Expr *expr,
                   const LoopValue *loop, uint32_t n_loop, double *value) {
    Evaluation evaluation = {session, program, loop, n_loop};
    return value_of(&evaluation, expr, value);
}

// ---- first values ------------------------------------------------------------------------------

static const char *number_text(Arena *arena, double number) {
    return isnan(number) ? "no number" : arena_printf(arena, "%g", number);
}

const char *tensor_init_problem(Arena *arena, const Tensor *tensor, const double *numbers,
                                Span *at) {
    bool is_deviation = tensor->init == INIT_NORMAL || tensor->init == INIT_TRUNCATED_NORMAL;
    for (int i = 0; i < 2 && tensor->init_args[i]; i++) {
        *at = tensor->init_args[i]->span;
        if (is_deviation && !(numbers[i] >= 0 && isfinite(numbers[i])))
            return arena_printf(arena, "a standard deviation is finite and from 0, this is %s",
                                number_text(arena, numbers[i]));
        if (!isfinite(numbers[i]))
            return arena_printf(arena, "%s is finite, this is %s",
                                tensor->init == INIT_UNIFORM ? "a bound" : "an initial value",
                                number_text(arena, numbers[i]));
    }
    if (tensor->init != INIT_UNIFORM || numbers[0] <= numbers[1])
        return NULL;
    *at = span_join(tensor->init_args[0]->span, tensor->init_args[1]->span);
    return arena_printf(arena, "the lower bound %g is above the upper bound %g", numbers[0],
                        numbers[1]);
}
