// SPDX-License-Identifier: Apache-2.0
// Short names for the operations that vmath*.c is written in. All values have equal lanes.
#ifndef ATTC_VMATH_OPS_H
#define ATTC_VMATH_OPS_H

#include "emit/emit.h"

static inline EmitValue v_number(EmitModule *m, EmitValue like, double number) {
    return emit_number(m, like.elem, number, like.lanes);
}

static inline EmitValue v_add(EmitModule *m, EmitValue a, EmitValue b) {
    return emit_add(m, a, b);
}

static inline EmitValue v_sub(EmitModule *m, EmitValue a, EmitValue b) {
    EmitValue args[] = {a, b};
    return emit_map(m, OP_SUB, a.elem, args, 2);
}

static inline EmitValue v_mul(EmitModule *m, EmitValue a, EmitValue b) {
    return emit_mul(m, a, b);
}

static inline EmitValue v_div(EmitModule *m, EmitValue a, EmitValue b) {
    EmitValue args[] = {a, b};
    return emit_map(m, OP_DIV, a.elem, args, 2);
}

static inline EmitValue v_fma(EmitModule *m, EmitValue a, EmitValue b, EmitValue c) {
    return emit_multiply_add(m, a, b, c);
}

static inline EmitValue v_unary(EmitModule *m, const char *intrinsic, EmitValue a) {
    LLVMTypeRef type = LLVMTypeOf(a.ref);
    return (EmitValue){emit_intrinsic(m, intrinsic, &type, 1, &a.ref, 1), a.elem, a.lanes};
}

static inline EmitValue v_abs(EmitModule *m, EmitValue a) {
    return v_unary(m, "llvm.fabs", a);
}

static inline EmitValue v_copysign(EmitModule *m, EmitValue size, EmitValue sign) {
    LLVMTypeRef type = LLVMTypeOf(size.ref);
    LLVMValueRef args[] = {size.ref, sign.ref};
    return (EmitValue){emit_intrinsic(m, "llvm.copysign", &type, 1, args, 2), size.elem,
                       size.lanes};
}

// Ordered comparisons are false for NaN; LLVMRealUN* are true.
static inline LLVMValueRef v_compare(EmitModule *m, LLVMRealPredicate how, EmitValue a,
                                     EmitValue b) {
    return LLVMBuildFCmp(m->builder, how, a.ref, b.ref, "");
}

static inline EmitValue v_select(EmitModule *m, LLVMValueRef mask, EmitValue a, EmitValue b) {
    return emit_select(m, mask, a, b);
}

// The smaller of a and a constant, the larger of them; a NaN in a stays. One instruction each.
static inline EmitValue v_at_most(EmitModule *m, EmitValue a, double most) {
    EmitValue limit = v_number(m, a, most);
    return emit_select(m, v_compare(m, LLVMRealOGT, a, limit), limit, a);
}

static inline EmitValue v_at_least(EmitModule *m, EmitValue a, double least) {
    EmitValue limit = v_number(m, a, least);
    return emit_select(m, v_compare(m, LLVMRealOLT, a, limit), limit, a);
}

// c[0] + x (c[1] + x (c[2] + ...)), Horner's way.
static inline EmitValue v_polynomial(EmitModule *m, EmitValue x, const double *c, int n) {
    EmitValue sum = v_number(m, x, c[n - 1]);
    for (int i = n - 2; i >= 0; i--)
        sum = v_fma(m, sum, x, v_number(m, x, c[i]));
    return sum;
}

// ---- bits: integers as wide as the float -------------------------------------------------------
static inline Elem v_bits_elem(EmitValue a) {
    return a.elem == ELEM_F64 || a.elem == ELEM_I64 ? ELEM_I64 : ELEM_I32;
}

static inline EmitValue v_bits(EmitModule *m, EmitValue a) {
    Elem elem = v_bits_elem(a);
    LLVMTypeRef type = emit_type(m, elem, a.lanes);
    return (EmitValue){LLVMBuildBitCast(m->builder, a.ref, type, ""), elem, a.lanes};
}

static inline EmitValue v_float_of(EmitModule *m, EmitValue bits) {
    Elem elem = bits.elem == ELEM_I64 ? ELEM_F64 : ELEM_F32;
    LLVMTypeRef type = emit_type(m, elem, bits.lanes);
    return (EmitValue){LLVMBuildBitCast(m->builder, bits.ref, type, ""), elem, bits.lanes};
}

// An integer constant; its 64 bits may not pass through a double.
static inline EmitValue v_whole(EmitModule *m, EmitValue like, uint64_t number) {
    LLVMTypeRef type = emit_type(m, v_bits_elem(like), 1);
    EmitValue scalar = {LLVMConstInt(type, number, 0), v_bits_elem(like), 1};
    return emit_splat(m, scalar, like.lanes);
}

typedef LLVMValueRef (*VBuild)(LLVMBuilderRef, LLVMValueRef, LLVMValueRef, const char *);

static inline EmitValue v_int(EmitModule *m, VBuild build, EmitValue a, EmitValue b) {
    return (EmitValue){build(m->builder, a.ref, b.ref, ""), a.elem, a.lanes};
}

static inline EmitValue v_int_by(EmitModule *m, VBuild build, EmitValue a, uint64_t b) {
    return v_int(m, build, a, v_whole(m, a, b));
}

#endif
