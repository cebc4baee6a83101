// SPDX-License-Identifier: Apache-2.0
// The oracle's arithmetic on single numbers, all held in doubles.
#include <math.h>

#include "attc.h"
#include "graph/oracle/eval.h"

// Nearest float with `bits` bits of significand and exponents from `least` (of the smallest normal,
// as frexp counts) up to `most`; ties to even.
static double round_float(double x, int bits, int least, int most) {
    if (x == 0 || !isfinite(x))
        return x;
    int exponent;
    frexp(x, &exponent);
    int unit = (exponent < least ? least : exponent) - bits;
    double rounded = ldexp(rint(ldexp(x, -unit)), unit);
    return fabs(rounded) >= ldexp(1, most) ? copysign(INFINITY, x) : rounded;
}

// Two's complement of `bits` bits. 2**63 stands for the largest i64, which no double can hold.
// There is no negative zero.
static double wrap_int(double x, int bits) {
    double half = ldexp(1, bits - 1);
    if (x >= -half && (x < half || (bits == 64 && x == half)))
        return x + 0.0;
    double rest = fmod(x, 2 * half);
    if (rest >= half)
        rest -= 2 * half;
    else if (rest < -half)
        rest += 2 * half;
    return rest;
}

double eval_round(Elem elem, EvalMode mode, double x) {
    switch (elem) {
    case ELEM_BOOL:
        return x != 0;
    case ELEM_I32:
        return wrap_int(x, 32);
    case ELEM_I64:
        return wrap_int(x, 64);
    default:
        break;
    }
    if (mode == EVAL_F64)
        return x;
    switch (elem) {
    case ELEM_F32:
        return (float)x;
    case ELEM_F16:
        return round_float(x, 11, -13, 16);
    case ELEM_BF16:
        return round_float(x, 8, -125, 128);
    default:
        return x;
    }
}

// Floats saturate; whole numbers are left for eval_round to wrap.
static double cast(Elem from, Elem to, double x) {
    if (to == ELEM_BOOL)
        return x != 0;
    if (!elem_is_int(to) || !elem_is_float(from))
        return x;
    if (isnan(x))
        return 0;
    double half = ldexp(1, to == ELEM_I32 ? 31 : 63);
    double whole = trunc(x);
    return whole < -half ? -half : whole >= half ? half - 1 : whole;
}

// Whole numbers wrap before the product becomes a double, which would lose its low bits.
static double multiply(Elem elem, double a, double b) {
    if (elem == ELEM_I32)
        return (int32_t)((uint32_t)(int32_t)a * (uint32_t)(int32_t)b);
    if (elem == ELEM_I64 && fabs(a) < 0x1p63 && fabs(b) < 0x1p63)
        return (double)(int64_t)((uint64_t)(int64_t)a * (uint64_t)(int64_t)b);
    return a * b;
}

static double floor_divide(Elem elem, double a, double b) {
    if (elem_is_float(elem))
        return floor(a / b);
    if (b == 0)
        return 0;
    double rest = fmod(a, b); // exact, unlike a / b of large integers
    double quotient = nearbyint((a - rest) / b);
    return rest != 0 && (rest < 0) != (b < 0) ? quotient - 1 : quotient;
}

static double modulo(Elem elem, double a, double b) {
    if (elem_is_float(elem))
        return a - b * floor(a / b);
    if (b == 0)
        return a;
    double rest = fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static double eval_scalar1(Op op, Elem from, Elem to, double a) {
    switch (op) {
    case OP_COPY:
    case OP_STOP_GRADIENT:
        return a;
    case OP_CAST:
        return cast(from, to, a);
    case OP_NEG:
        return -a;
    case OP_ABS:
        return fabs(a);
    case OP_EXP:
        return exp(a);
    case OP_EXP2:
        return exp2(a);
    case OP_LOG:
        return log(a);
    case OP_SQRT:
        return sqrt(a);
    case OP_RSQRT:
        return 1 / sqrt(a);
    case OP_TANH:
        return tanh(a);
    case OP_SIGMOID:
        return 1 / (1 + exp(-a));
    case OP_ERF:
        return erf(a);
    case OP_SIN:
        return sin(a);
    case OP_COS:
        return cos(a);
    case OP_FLOOR:
        return floor(a);
    case OP_NOT:
        return a == 0;
    default:
        ice("eval: %s is not a map of one argument", op_name(op));
    }
}

// The smaller or larger; NaN when either is.
static double choose(bool larger, double a, double b) {
    if (isnan(a) || isnan(b))
        return NAN;
    return larger == (a > b) ? a : b;
}

static double eval_scalar2(Op op, Elem from, double a, double b) {
    switch (op) {
    case OP_ADD:
        return a + b;
    case OP_SUB:
        return a - b;
    case OP_MUL:
        return multiply(from, a, b);
    case OP_DIV:
        return a / b;
    case OP_FLOORDIV:
        return floor_divide(from, a, b);
    case OP_MOD:
        return modulo(from, a, b);
    case OP_POW:
        return pow(a, b);
    case OP_MIN:
    case OP_MAX:
        return choose(op == OP_MAX, a, b);
    case OP_EQ:
        return a == b;
    case OP_NE:
        return a != b;
    case OP_LT:
        return a < b;
    case OP_LE:
        return a <= b;
    case OP_AND:
        return a != 0 && b != 0;
    case OP_OR:
        return a != 0 || b != 0;
    default:
        ice("eval: %s is not a map of two arguments", op_name(op));
    }
}

static uint64_t word_of(double whole) {
    return (uint64_t)elem_whole(ELEM_I64, whole);
}

double eval_scalar(Op op, Elem from, Elem to, const double *args) {
    if (op == OP_SELECT)
        return args[0] != 0 ? args[1] : args[2];
    if (op == OP_RANDOM)
        return att_random_uniform_at(word_of(args[0]), word_of(args[1]), word_of(args[2]));
    if (op_arity(op) == 1)
        return eval_scalar1(op, from, to, args[0]);
    return eval_scalar2(op, from, args[0], args[1]);
}
