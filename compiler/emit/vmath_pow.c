// SPDX-License-Identifier: Apache-2.0
// a**b of f32 through f64: 2^(b log2 |a|), right to 0.51 ulp, with the special cases of C's pow.
//
// log2 |a| is wanted to a relative 2^-33, since b log2 |a| may be 150 before it is the exponent of
// a result of 24 bits. |a| = 2^e m with sqrt(1/2) <= m < sqrt(2), s = (m - 1)/(m + 1), log2 m = s
// p(s^2).
#include <math.h>

#include "emit/vmath_ops.h"
#include "emit/vmath_parts.h"

static const double magic = 0x1.8p52; // the last bits of magic + n are the whole number n

// log2 x for a normal double x > 0 (any float > 0 is one).
static EmitValue log2_f64(EmitModule *m, EmitValue x) {
    static const double c[] = {0x1.71547652b82ffp+1, 0x1.ec709dc39c98bp-1, 0x1.2776c516b347cp-1,
                               0x1.a617566a5f3c7p-2, 0x1.484fafc093e54p-2, 0x1.0bb7457aa738cp-2,
                               0x1.f19063f3ffdbfp-3};
    const uint64_t root_half = 0x3FE6A09E667F3BCD, exponent = (uint64_t)0xFFF << 52;
    EmitValue one = v_number(m, x, 1), bits = v_bits(m, x);
    EmitValue above = v_int_by(m, LLVMBuildSub, bits, root_half);
    EmitValue steps = v_int_by(m, LLVMBuildAnd, above, exponent);
    EmitValue mantissa = v_float_of(m, v_int(m, LLVMBuildSub, bits, steps));
    EmitValue e = v_int(m, LLVMBuildAdd, v_int_by(m, LLVMBuildAShr, above, 52),
                        v_bits(m, v_number(m, x, magic)));
    e = v_sub(m, v_float_of(m, e), v_number(m, x, magic));
    EmitValue s = v_div(m, v_sub(m, mantissa, one), v_add(m, mantissa, one));
    return v_fma(m, s, v_polynomial(m, v_mul(m, s, s), c, 7), e);
}

// 2^y for |y| <= 300.
static EmitValue exp2_f64(EmitModule *m, EmitValue y) {
    static const double c[] = {1,
                               0x1.62e4300ba64ddp-1,
                               0x1.ebfbe04588186p-3,
                               0x1.c6b05511afe33p-5,
                               0x1.3b2a1bd5f56d8p-7,
                               0x1.5dc0572c9f54ap-10,
                               0x1.443fb5b82880ap-13,
                               0x1.c048081029a2ap-17};
    EmitValue sum = v_add(m, y, v_number(m, y, magic));
    EmitValue rest = v_sub(m, y, v_sub(m, sum, v_number(m, y, magic)));
    EmitValue p = v_polynomial(m, rest, c, 8);
    EmitValue exponent = v_int_by(m, LLVMBuildShl, v_bits(m, sum), 52);
    return v_float_of(m, v_int(m, LLVMBuildAdd, v_bits(m, p), exponent));
}

static LLVMValueRef either(EmitModule *m, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildOr(m->builder, a, b, "");
}

static LLVMValueRef both(EmitModule *m, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildAnd(m->builder, a, b, "");
}

// log2 of 0 and infinity, and no product of 0 and infinity.
static EmitValue exponent_of(EmitModule *m, EmitValue size, EmitValue b) {
    EmitValue zero = v_number(m, size, 0), infinite = v_number(m, size, INFINITY);
    EmitValue log = log2_f64(m, size);
    log = v_select(m, v_compare(m, LLVMRealOEQ, size, infinite), infinite, log);
    log = v_select(m, v_compare(m, LLVMRealOEQ, size, zero), v_number(m, size, -INFINITY), log);
    EmitValue y = v_mul(m, b, log);
    y = v_select(m, v_compare(m, LLVMRealOEQ, log, zero), zero, y);
    return v_at_least(m, v_at_most(m, y, 300), -300);
}

EmitValue vmath_pow_f32(EmitModule *m, EmitValue a, EmitValue b) {
    EmitValue zero = v_number(m, a, 0), one = v_number(m, a, 1);
    EmitValue y = exponent_of(m, emit_cast(m, v_abs(m, a), ELEM_F64), emit_cast(m, b, ELEM_F64));
    EmitValue power = emit_cast(m, exp2_f64(m, y), ELEM_F32);
    // A negative base: whole exponents only, odd ones keep the sign.
    EmitValue half = v_mul(m, b, v_number(m, b, 0.5));
    LLVMValueRef whole = v_compare(m, LLVMRealOEQ, b, v_unary(m, "llvm.floor", b));
    LLVMValueRef odd =
        both(m, whole, v_compare(m, LLVMRealONE, half, v_unary(m, "llvm.floor", half)));
    power = v_select(m, odd, v_copysign(m, power, a), power);
    LLVMValueRef below = both(m, v_compare(m, LLVMRealOLT, a, zero),
                              v_compare(m, LLVMRealONE, a, v_number(m, a, -INFINITY)));
    LLVMValueRef nan = both(m, below, LLVMBuildNot(m->builder, whole, ""));
    nan = either(m, nan, v_compare(m, LLVMRealUNO, a, b));
    power = v_select(m, nan, v_number(m, a, NAN), power);
    LLVMValueRef unit =
        either(m, v_compare(m, LLVMRealOEQ, b, zero), v_compare(m, LLVMRealOEQ, a, one));
    return v_select(m, unit, one, power);
}
