// SPDX-License-Identifier: Apache-2.0
// Arithmetic of the tile interpreter: f32 (halves too) in float, f64 in double, integers in i64
// with wrap-around. Plain on purpose: it is what compiled kernels are compared with.
#include "tile/scalar.h"

#include <math.h>
#include <string.h>

#include "attc.h"

static float f16_widen(uint16_t bits) {
    _Float16 half;
    memcpy(&half, &bits, sizeof half);
    return (float)half;
}

static uint16_t f16_round(float value) {
    _Float16 half = (_Float16)value;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

static float bf16_widen(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static uint16_t bf16_round(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16); // nearest, ties to even
}

static Scalar of_float(double f, Elem elem) {
    return (Scalar){.f = elem == ELEM_F64 ? f : (double)(float)f};
}

Scalar scalar_of(double number, Elem elem) {
    if (elem_is_float(elem))
        return of_float(number, elem);
    return (Scalar){.i = elem_whole(elem, number)};
}

Scalar scalar_load(Elem elem, const void *array, int64_t at) {
    switch (elem) {
    case ELEM_F32:
        return (Scalar){.f = ((const float *)array)[at]};
    case ELEM_F64:
        return (Scalar){.f = ((const double *)array)[at]};
    case ELEM_F16:
        return (Scalar){.f = f16_widen(((const uint16_t *)array)[at])};
    case ELEM_BF16:
        return (Scalar){.f = bf16_widen(((const uint16_t *)array)[at])};
    case ELEM_I32:
        return (Scalar){.i = ((const int32_t *)array)[at]};
    case ELEM_I64:
        return (Scalar){.i = ((const int64_t *)array)[at]};
    case ELEM_BOOL:
        return (Scalar){.i = ((const uint8_t *)array)[at] != 0};
    case N_ELEM:
        break;
    }
    ice("tile interp: load of elem %d", elem);
}

void scalar_store(Elem elem, void *array, int64_t at, Scalar value) {
    switch (elem) {
    case ELEM_F32:
        ((float *)array)[at] = (float)value.f;
        return;
    case ELEM_F64:
        ((double *)array)[at] = value.f;
        return;
    case ELEM_F16:
        ((uint16_t *)array)[at] = f16_round((float)value.f);
        return;
    case ELEM_BF16:
        ((uint16_t *)array)[at] = bf16_round((float)value.f);
        return;
    case ELEM_I32:
        ((int32_t *)array)[at] = (int32_t)value.i;
        return;
    case ELEM_I64:
        ((int64_t *)array)[at] = value.i;
        return;
    case ELEM_BOOL:
        ((uint8_t *)array)[at] = value.i != 0;
        return;
    case N_ELEM:
        break;
    }
    ice("tile interp: store of elem %d", elem);
}

void scalar_poison(Elem elem, void *array, int64_t count) {
    Scalar poison = {.f = NAN, .i = INT64_C(0x2BADF00D2BADF00D)};
    for (int64_t i = 0; i < count; i++)
        scalar_store(elem, array, i, poison);
}

static int64_t saturate(double f, Elem elem) {
    if (isnan(f))
        return 0;
    double low = elem == ELEM_I32 ? (double)INT32_MIN : -0x1p63;
    double high = elem == ELEM_I32 ? (double)INT32_MAX : 0x1p63;
    if (f <= low)
        return elem == ELEM_I32 ? INT32_MIN : INT64_MIN;
    if (f >= high)
        return elem == ELEM_I32 ? INT32_MAX : INT64_MAX;
    return (int64_t)f;
}

static Scalar scalar_cast(Elem to, Elem from, Scalar a) {
    if (elem_is_float(from) && elem_is_float(to)) {
        if (to == ELEM_F16)
            return (Scalar){.f = f16_widen(f16_round((float)a.f))};
        if (to == ELEM_BF16)
            return (Scalar){.f = bf16_widen(bf16_round((float)a.f))};
        return of_float(a.f, to);
    }
    if (elem_is_float(from))
        return (Scalar){.i = to == ELEM_BOOL ? a.f != 0 : saturate(a.f, to)};
    if (elem_is_float(to))
        return scalar_cast(to, ELEM_F64, (Scalar){.f = (double)a.i});
    if (to == ELEM_I32)
        return (Scalar){.i = (int32_t)a.i};
    return (Scalar){.i = to == ELEM_BOOL ? a.i != 0 : a.i};
}

static bool int_compare(Op op, int64_t a, int64_t b) {
    switch (op) {
    case OP_EQ:
        return a == b;
    case OP_NE:
        return a != b;
    case OP_LT:
        return a < b;
    default:
        return a <= b;
    }
}

static double float_binary(Op op, Elem elem, double a, double b) {
    switch (op) {
    case OP_FLOORDIV:
        return floor(of_float(a / b, elem).f);
    case OP_MOD:
        return a - of_float(b * floor(of_float(a / b, elem).f), elem).f;
    default:
        return op_apply2(op, a, b);
    }
}

static int64_t int_floor_div(int64_t a, int64_t b) {
    if (b == 0)
        return 0;
    if (b == -1)
        return (int64_t)(0 - (uint64_t)a);
    int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t int_binary(Op op, int64_t a, int64_t b) {
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (op) {
    case OP_ADD:
        return (int64_t)(x + y);
    case OP_SUB:
        return (int64_t)(x - y);
    case OP_MUL:
        return (int64_t)(x * y);
    case OP_FLOORDIV:
        return int_floor_div(a, b);
    case OP_MOD:
        return (int64_t)(x - y * (uint64_t)int_floor_div(a, b));
    case OP_MIN:
        return a < b ? a : b;
    case OP_MAX:
        return a > b ? a : b;
    case OP_AND:
        return a && b;
    case OP_OR:
        return a || b;
    default:
        ice("tile interp: %s is no integer operation of two arguments", op_name(op));
    }
}

Scalar scalar_op(Op op, Elem elem, Elem from, const Scalar args[3]) {
    bool is_float = elem_is_float(from);
    switch (op) {
    case OP_COPY:
        return args[0];
    case OP_CAST:
        return scalar_cast(elem, from, args[0]);
    case OP_SELECT:
        return args[0].i ? args[1] : args[2];
    case OP_RANDOM:
        return (Scalar){.f = att_random_uniform_at((uint64_t)args[0].i, (uint64_t)args[1].i,
                                                   (uint64_t)args[2].i)};
    case OP_NOT:
        return (Scalar){.i = !args[0].i};
    case OP_EQ:
    case OP_NE:
    case OP_LT:
    case OP_LE:
        return (Scalar){.i = is_float ? op_apply2(op, args[0].f, args[1].f) != 0
                                      : int_compare(op, args[0].i, args[1].i)};
    default:
        break;
    }
    if (is_float)
        return of_float(op_arity(op) == 1 ? op_apply1(op, args[0].f)
                                          : float_binary(op, elem, args[0].f, args[1].f),
                        elem);
    Scalar r = {0};
    if (op == OP_NEG)
        r.i = (int64_t)(0 - (uint64_t)args[0].i);
    else if (op == OP_ABS)
        r.i = args[0].i < 0 ? (int64_t)(0 - (uint64_t)args[0].i) : args[0].i;
    else if (op == OP_FLOOR)
        r.i = args[0].i;
    else
        r.i = int_binary(op, args[0].i, args[1].i);
    if (elem == ELEM_I32)
        r.i = (int32_t)r.i;
    return r;
}
