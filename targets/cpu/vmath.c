// SPDX-License-Identifier: Apache-2.0
// Vector exp, square root and its inverse as LLVM IR.
//
// exp: n = round(x / ln 2), r = x - n ln 2 in two steps (Cody and Waite), a polynomial for e**r on
// [-ln 2 / 2, ln 2 / 2] (the coefficients of SLEEF's expf, 1 ulp), and a scaling by 2**n.
#include "cpu/vmath.h"

bool vmath_has(Op op) {
    return op == OP_EXP || op == OP_LOG || op == OP_SQRT || op == OP_RSQRT || op == OP_TANH ||
           op == OP_ERF || op == OP_SIN || op == OP_COS || op == OP_POW;
}

static EmitValue number(EmitModule *m, EmitValue like, double value) {
    return emit_number(m, like.elem, value, like.lanes);
}

static EmitValue unary(EmitModule *m, const char *name, EmitValue a) {
    LLVMTypeRef type = LLVMTypeOf(a.ref);
    return (EmitValue){emit_intrinsic(m, name, &type, 1, &a.ref, 1), a.elem, a.lanes};
}

// 2**n for a whole n in [-126, 127], by its exponent bits.
static EmitValue power_of_two(EmitModule *m, EmitValue n) {
    LLVMTypeRef type = emit_type(m, ELEM_I32, n.lanes);
    EmitValue whole = {LLVMBuildFPToSI(m->builder, n.ref, type, ""), ELEM_I32, n.lanes};
    EmitValue biased = emit_add(m, whole, emit_number(m, ELEM_I32, 127, n.lanes));
    EmitValue shift = emit_number(m, ELEM_I32, 23, n.lanes);
    LLVMValueRef bits = LLVMBuildShl(m->builder, biased.ref, shift.ref, "");
    LLVMValueRef power = LLVMBuildBitCast(m->builder, bits, LLVMTypeOf(n.ref), "");
    return (EmitValue){power, n.elem, n.lanes};
}

// p * 2**n with gradual underflow: n is split in two halves that are both in range.
static EmitValue scale(EmitModule *m, EmitValue p, EmitValue n) {
    EmitValue half = unary(m, "llvm.rint", emit_mul(m, n, number(m, n, 0.5)));
    EmitValue rest = emit_add(m, n, emit_mul(m, half, number(m, n, -1)));
    return emit_mul(m, emit_mul(m, p, power_of_two(m, half)), power_of_two(m, rest));
}

static EmitValue exp_f32(EmitModule *m, EmitValue x) {
    static const double poly[] = {0.000198527617612853646278381, 0.00139304355252534151077271,
                                  0.00833336077630519866943359,  0.0416664853692054748535156,
                                  0.166666671633720397949219,    0.5};
    // Beyond these the result is 0 or infinite all the same. A NaN stays one.
    EmitValue clamped = emit_max(m, x, number(m, x, -104.0));
    clamped = emit_min(m, clamped, number(m, x, 89.0));
    EmitValue n = unary(m, "llvm.rint", emit_mul(m, clamped, number(m, x, 0x1.715476p+0)));
    EmitValue r = emit_multiply_add(m, n, number(m, x, -0x1.62e4p-1), clamped);
    r = emit_multiply_add(m, n, number(m, x, -0x1.7f7d1cp-20), r);
    EmitValue p = number(m, x, poly[0]);
    for (int i = 1; i < 6; i++)
        p = emit_multiply_add(m, p, r, number(m, x, poly[i]));
    p = emit_multiply_add(m, emit_mul(m, r, r), p, r);
    p = emit_add(m, p, number(m, x, 1));
    return scale(m, p, n);
}

EmitValue vmath_call(EmitModule *m, Op op, EmitValue *args, uint32_t n_args) {
    EmitValue x = args[0];
    (void)n_args;
    if (op == OP_EXP && x.elem != ELEM_F64)
        return exp_f32(m, x);
    if (op == OP_SQRT)
        return unary(m, "llvm.sqrt", x);
    if (op == OP_RSQRT) {
        EmitValue parts[] = {number(m, x, 1), unary(m, "llvm.sqrt", x)};
        return emit_map(m, OP_DIV, x.elem, parts, 2);
    }
    if (op == OP_EXP)
        return unary(m, "llvm.exp", x);
    ice("vmath: no code for %s", op_name(op));
}
