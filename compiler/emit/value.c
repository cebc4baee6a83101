// SPDX-License-Identifier: Apache-2.0
// Typed values: what each op of ops.def means for registers, and conversions.
//
// LLVM's own bfloat conversions call library functions on machines without the instructions, so
// bf16 is converted here with integer operations; f16 uses the conversions every x86-64-v3 machine
// has.
#include "emit/emit.h"

// No contraction either: a value that is computed twice must come out the same, or x - max(x) would
// be the rounding error of x where it should be 0. Multiply-adds are asked for by name.
static const LLVMFastMathFlags float_flags = LLVMFastMathNoSignedZeros;

static LLVMTypeRef widen(LLVMTypeRef type, int lanes) {
    return lanes == 1 ? type : LLVMVectorType(type, (unsigned)lanes);
}

static LLVMTypeRef int_type(EmitModule *module, unsigned bits, int lanes) {
    return widen(LLVMIntTypeInContext(module->context, bits), lanes);
}

LLVMTypeRef emit_type(EmitModule *module, Elem elem, int lanes) {
    switch (elem) {
    case ELEM_F64:
        return widen(LLVMDoubleTypeInContext(module->context), lanes);
    case ELEM_I32:
        return int_type(module, 32, lanes);
    case ELEM_I64:
        return int_type(module, 64, lanes);
    case ELEM_BOOL:
        return int_type(module, 1, lanes);
    default:
        return widen(LLVMFloatTypeInContext(module->context), lanes);
    }
}

LLVMTypeRef emit_memory_type(EmitModule *module, Elem elem, int lanes) {
    switch (elem) {
    case ELEM_F16:
        return widen(LLVMHalfTypeInContext(module->context), lanes);
    case ELEM_BF16:
        return int_type(module, 16, lanes);
    case ELEM_BOOL:
        return int_type(module, 8, lanes);
    default:
        return emit_type(module, elem, lanes);
    }
}

static EmitValue value_of(LLVMValueRef ref, Elem elem, int lanes) {
    return (EmitValue){ref, elem, lanes};
}

static bool float_register(Elem elem) {
    return elem_is_float(elem);
}

static EmitValue floating(EmitValue value) {
    if (LLVMIsAInstruction(value.ref) && LLVMCanValueUseFastMathFlags(value.ref))
        LLVMSetFastMathFlags(value.ref, float_flags);
    return value;
}

static LLVMValueRef splat_constant(LLVMValueRef scalar, int lanes) {
    if (lanes == 1)
        return scalar;
    LLVMValueRef parts[256];
    for (int i = 0; i < lanes; i++)
        parts[i] = scalar;
    return LLVMConstVector(parts, (unsigned)lanes);
}

EmitValue emit_number(EmitModule *module, Elem elem, double number, int lanes) {
    LLVMTypeRef type = emit_type(module, elem, 1);
    LLVMValueRef scalar =
        float_register(elem)
            ? LLVMConstReal(type, number)
            : LLVMConstInt(type, (unsigned long long)elem_whole(elem, number), elem != ELEM_BOOL);
    return value_of(splat_constant(scalar, lanes), elem, lanes);
}

EmitValue emit_iota(EmitModule *module, Elem elem, int lanes) {
    LLVMTypeRef type = emit_type(module, elem, 1);
    LLVMValueRef parts[256];
    for (int i = 0; i < lanes; i++)
        parts[i] = LLVMConstInt(type, (unsigned long long)i, 0);
    return value_of(lanes == 1 ? parts[0] : LLVMConstVector(parts, (unsigned)lanes), elem, lanes);
}

EmitValue emit_splat(EmitModule *module, EmitValue value, int lanes) {
    if (value.lanes == lanes)
        return value;
    if (LLVMIsConstant(value.ref))
        return value_of(splat_constant(value.ref, lanes), value.elem, lanes);
    LLVMValueRef poison = LLVMGetPoison(emit_type(module, value.elem, lanes));
    LLVMValueRef zero = LLVMConstNull(int_type(module, 32, 1));
    LLVMValueRef first = LLVMBuildInsertElement(module->builder, poison, value.ref, zero, "");
    LLVMValueRef order = LLVMConstNull(int_type(module, 32, lanes));
    return value_of(LLVMBuildShuffleVector(module->builder, first, poison, order, ""), value.elem,
                    lanes);
}

LLVMValueRef emit_first_lanes(EmitModule *module, LLVMValueRef count, int lanes) {
    EmitValue n = emit_cast(module, (EmitValue){count, ELEM_I64, 1}, ELEM_I32);
    n = emit_splat(module, n, lanes);
    LLVMValueRef iota = emit_iota(module, ELEM_I32, lanes).ref;
    if (module->target->machine.has_masks)
        return LLVMBuildICmp(module->builder, LLVMIntSLT, iota, n.ref, "");
    // The back end compares where a mask is used, in a loop in each turn; signs are a mask without.
    LLVMValueRef signs = LLVMBuildSub(module->builder, iota, n.ref, "");
    return LLVMBuildICmp(module->builder, LLVMIntSLT, signs, LLVMConstNull(LLVMTypeOf(signs)), "");
}

EmitValue emit_shuffle(EmitModule *module, EmitValue a, EmitValue b, const int *picks, int lanes) {
    LLVMValueRef index[LANES_MAX];
    if (lanes > LANES_MAX)
        ice("emit: %d lanes in a shuffle", lanes);
    for (int i = 0; i < lanes; i++)
        index[i] = LLVMConstInt(int_type(module, 32, 1), (unsigned)picks[i], 0);
    LLVMValueRef picked = LLVMBuildShuffleVector(module->builder, a.ref, b.ref,
                                                 LLVMConstVector(index, (unsigned)lanes), "");
    if (lanes == 1) // one-lane vectors become scalars
        picked = LLVMBuildExtractElement(module->builder, picked,
                                         LLVMConstNull(int_type(module, 32, 1)), "");
    return value_of(picked, a.elem, lanes);
}

// ---- arithmetic ----

static EmitValue call1(EmitModule *module, const char *name, EmitValue a) {
    LLVMTypeRef type = LLVMTypeOf(a.ref);
    return floating(value_of(emit_intrinsic(module, name, &type, 1, &a.ref, 1), a.elem, a.lanes));
}

static EmitValue compare(EmitModule *module, LLVMRealPredicate real, LLVMIntPredicate integer,
                         EmitValue a, EmitValue b) {
    LLVMValueRef ref = float_register(a.elem)
                           ? LLVMBuildFCmp(module->builder, real, a.ref, b.ref, "")
                           : LLVMBuildICmp(module->builder, integer, a.ref, b.ref, "");
    return value_of(ref, ELEM_BOOL, a.lanes);
}

EmitValue emit_select(EmitModule *module, LLVMValueRef mask, EmitValue a, EmitValue b) {
    return floating(
        value_of(LLVMBuildSelect(module->builder, mask, a.ref, b.ref, ""), a.elem, a.lanes));
}

typedef LLVMValueRef (*BuildFn)(LLVMBuilderRef, LLVMValueRef, LLVMValueRef, const char *);

static EmitValue arith(EmitModule *module, BuildFn real, BuildFn integer, EmitValue a,
                       EmitValue b) {
    BuildFn build = float_register(a.elem) ? real : integer;
    return floating(value_of(build(module->builder, a.ref, b.ref, ""), a.elem, a.lanes));
}

EmitValue emit_add(EmitModule *module, EmitValue a, EmitValue b) {
    return arith(module, LLVMBuildFAdd, LLVMBuildAdd, a, b);
}

static EmitValue emit_sub(EmitModule *module, EmitValue a, EmitValue b) {
    return arith(module, LLVMBuildFSub, LLVMBuildSub, a, b);
}

EmitValue emit_mul(EmitModule *module, EmitValue a, EmitValue b) {
    return arith(module, LLVMBuildFMul, LLVMBuildMul, a, b);
}

EmitValue emit_multiply_add(EmitModule *module, EmitValue a, EmitValue b, EmitValue c) {
    if (!float_register(a.elem))
        return emit_add(module, emit_mul(module, a, b), c);
    LLVMTypeRef type = LLVMTypeOf(a.ref);
    LLVMValueRef args[] = {a.ref, b.ref, c.ref};
    return floating(
        value_of(emit_intrinsic(module, "llvm.fma", &type, 1, args, 3), a.elem, a.lanes));
}

static EmitValue call2(EmitModule *module, const char *name, EmitValue a, EmitValue b) {
    LLVMTypeRef type = LLVMTypeOf(a.ref);
    LLVMValueRef args[] = {a.ref, b.ref};
    return floating(value_of(emit_intrinsic(module, name, &type, 1, args, 2), a.elem, a.lanes));
}

EmitValue emit_max(EmitModule *module, EmitValue a, EmitValue b) {
    return call2(module, float_register(a.elem) ? "llvm.maximum" : "llvm.smax", a, b);
}

EmitValue emit_min(EmitModule *module, EmitValue a, EmitValue b) {
    return call2(module, float_register(a.elem) ? "llvm.minimum" : "llvm.smin", a, b);
}

EmitValue emit_larger(EmitModule *module, EmitValue a, EmitValue b) {
    LLVMValueRef larger = LLVMBuildFCmp(module->builder, LLVMRealOGT, a.ref, b.ref, "");
    return emit_select(module, larger, a, b);
}

// floor(a / b) and 0 for b = 0. The divisor is made harmless first: neither 0 nor -1 reaches the
// division (the smallest integer divided by -1 traps).
static EmitValue floor_div_int(EmitModule *module, EmitValue a, EmitValue b) {
    LLVMBuilderRef builder = module->builder;
    EmitValue zero = emit_number(module, a.elem, 0, a.lanes);
    EmitValue one = emit_number(module, a.elem, 1, a.lanes);
    EmitValue minus = emit_number(module, a.elem, -1, a.lanes);
    LLVMValueRef by_zero = LLVMBuildICmp(builder, LLVMIntEQ, b.ref, zero.ref, "");
    LLVMValueRef by_minus = LLVMBuildICmp(builder, LLVMIntEQ, b.ref, minus.ref, "");
    LLVMValueRef harmful = LLVMBuildOr(builder, by_zero, by_minus, "");
    EmitValue safe = emit_select(module, harmful, one, b);
    EmitValue q = value_of(LLVMBuildSDiv(builder, a.ref, safe.ref, ""), a.elem, a.lanes);
    EmitValue r = emit_sub(module, a, emit_mul(module, q, safe));
    LLVMValueRef inexact = LLVMBuildICmp(builder, LLVMIntNE, r.ref, zero.ref, "");
    LLVMValueRef signs = LLVMBuildXor(builder, r.ref, safe.ref, "");
    LLVMValueRef differ = LLVMBuildICmp(builder, LLVMIntSLT, signs, zero.ref, "");
    LLVMValueRef down = LLVMBuildAnd(builder, inexact, differ, "");
    q = emit_select(module, down, emit_sub(module, q, one), q);
    q = emit_select(module, by_minus, emit_sub(module, zero, a), q);
    return emit_select(module, by_zero, zero, q);
}

static EmitValue floor_div(EmitModule *module, EmitValue a, EmitValue b) {
    if (!float_register(a.elem))
        return floor_div_int(module, a, b);
    return call1(module, "llvm.floor", arith(module, LLVMBuildFDiv, LLVMBuildSDiv, a, b));
}

static EmitValue absolute(EmitModule *module, EmitValue a) {
    if (float_register(a.elem))
        return call1(module, "llvm.fabs", a);
    LLVMTypeRef type = LLVMTypeOf(a.ref);
    LLVMValueRef args[] = {a.ref, LLVMConstNull(int_type(module, 1, 1))};
    return value_of(emit_intrinsic(module, "llvm.abs", &type, 1, args, 2), a.elem, a.lanes);
}

static EmitValue negate(EmitModule *module, EmitValue a) {
    LLVMValueRef ref = float_register(a.elem) ? LLVMBuildFNeg(module->builder, a.ref, "")
                                              : LLVMBuildNeg(module->builder, a.ref, "");
    return floating(value_of(ref, a.elem, a.lanes));
}

EmitValue emit_map(EmitModule *module, Op op, Elem elem, EmitValue *args, uint32_t n_args) {
    EmitValue a = args[0], b = args[n_args > 1 ? 1 : 0];
    switch (op) {
    case OP_COPY:
    case OP_CAST:
        return emit_cast(module, a, elem);
    case OP_NEG:
        return negate(module, a);
    case OP_ABS:
        return absolute(module, a);
    case OP_FLOOR:
        return float_register(a.elem) ? call1(module, "llvm.floor", a) : a;
    case OP_NOT:
        return value_of(LLVMBuildNot(module->builder, a.ref, ""), ELEM_BOOL, a.lanes);
    case OP_ADD:
        return emit_add(module, a, b);
    case OP_SUB:
        return emit_sub(module, a, b);
    case OP_MUL:
        return emit_mul(module, a, b);
    case OP_DIV:
        return float_register(a.elem) ? arith(module, LLVMBuildFDiv, LLVMBuildSDiv, a, b)
                                      : floor_div_int(module, a, b);
    case OP_FLOORDIV:
        return floor_div(module, a, b);
    case OP_MOD:
        return emit_sub(module, a, emit_mul(module, b, floor_div(module, a, b)));
    case OP_MIN:
        return emit_min(module, a, b);
    case OP_MAX:
        return emit_max(module, a, b);
    case OP_EQ:
        return compare(module, LLVMRealOEQ, LLVMIntEQ, a, b);
    case OP_NE:
        return compare(module, LLVMRealUNE, LLVMIntNE, a, b);
    case OP_LT:
        return compare(module, LLVMRealOLT, LLVMIntSLT, a, b);
    case OP_LE:
        return compare(module, LLVMRealOLE, LLVMIntSLE, a, b);
    case OP_AND:
        return value_of(LLVMBuildAnd(module->builder, a.ref, b.ref, ""), ELEM_BOOL, a.lanes);
    case OP_OR:
        return value_of(LLVMBuildOr(module->builder, a.ref, b.ref, ""), ELEM_BOOL, a.lanes);
    case OP_SELECT:
        return emit_select(module, a.ref, b, args[2]);
    default:
        ice("emit_map: no code for %s", op_name(op));
    }
}

// ---- conversions ----

// f32 register -> the 16 bits of a bf16, to nearest even; a NaN stays a quiet NaN.
static LLVMValueRef bf16_bits(EmitModule *module, EmitValue value) {
    LLVMBuilderRef builder = module->builder;
    LLVMTypeRef i32 = int_type(module, 32, value.lanes);
    LLVMValueRef sixteen =
        splat_constant(LLVMConstInt(int_type(module, 32, 1), 16, 0), value.lanes);
    LLVMValueRef half =
        splat_constant(LLVMConstInt(int_type(module, 32, 1), 0x7FFF, 0), value.lanes);
    LLVMValueRef one = splat_constant(LLVMConstInt(int_type(module, 32, 1), 1, 0), value.lanes);
    LLVMValueRef quiet =
        splat_constant(LLVMConstInt(int_type(module, 32, 1), 0x7FC0, 0), value.lanes);
    LLVMValueRef bits = LLVMBuildBitCast(builder, value.ref, i32, "");
    LLVMValueRef odd = LLVMBuildAnd(builder, LLVMBuildLShr(builder, bits, sixteen, ""), one, "");
    LLVMValueRef sum = LLVMBuildAdd(builder, LLVMBuildAdd(builder, bits, half, ""), odd, "");
    LLVMValueRef rounded = LLVMBuildLShr(builder, sum, sixteen, "");
    LLVMValueRef nan = LLVMBuildFCmp(builder, LLVMRealUNO, value.ref, value.ref, "");
    rounded = LLVMBuildSelect(builder, nan, quiet, rounded, "");
    return LLVMBuildTrunc(builder, rounded, int_type(module, 16, value.lanes), "");
}

static EmitValue bf16_value(EmitModule *module, LLVMValueRef bits, int lanes) {
    LLVMTypeRef i32 = int_type(module, 32, lanes);
    LLVMValueRef wide = LLVMBuildZExt(module->builder, bits, i32, "");
    LLVMValueRef sixteen = splat_constant(LLVMConstInt(int_type(module, 32, 1), 16, 0), lanes);
    wide = LLVMBuildShl(module->builder, wide, sixteen, "");
    LLVMTypeRef type = emit_type(module, ELEM_BF16, lanes);
    return value_of(LLVMBuildBitCast(module->builder, wide, type, ""), ELEM_BF16, lanes);
}

LLVMValueRef emit_to_memory(EmitModule *module, EmitValue value) {
    LLVMTypeRef type = emit_memory_type(module, value.elem, value.lanes);
    switch (value.elem) {
    case ELEM_F16:
        return LLVMBuildFPTrunc(module->builder, value.ref, type, "");
    case ELEM_BF16:
        return bf16_bits(module, value);
    case ELEM_BOOL:
        return LLVMBuildZExt(module->builder, value.ref, type, "");
    default:
        return value.ref;
    }
}

EmitValue emit_from_memory(EmitModule *module, LLVMValueRef raw, Elem elem, int lanes) {
    switch (elem) {
    case ELEM_F16:
        raw = LLVMBuildFPExt(module->builder, raw, emit_type(module, elem, lanes), "");
        return value_of(raw, elem, lanes);
    case ELEM_BF16:
        return bf16_value(module, raw, lanes);
    case ELEM_BOOL: {
        LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(raw));
        return value_of(LLVMBuildICmp(module->builder, LLVMIntNE, raw, zero, ""), elem, lanes);
    }
    default:
        return value_of(raw, elem, lanes);
    }
}

static EmitValue float_to_int(EmitModule *module, EmitValue value, Elem elem) {
    LLVMTypeRef types[] = {emit_type(module, elem, value.lanes), LLVMTypeOf(value.ref)};
    LLVMValueRef ref = emit_intrinsic(module, "llvm.fptosi.sat", types, 2, &value.ref, 1);
    return value_of(ref, elem, value.lanes);
}

static EmitValue float_to_float(EmitModule *module, EmitValue value, Elem elem) {
    LLVMTypeRef type = emit_type(module, elem, value.lanes);
    if (value.elem == ELEM_F64 && elem != ELEM_F64)
        value.ref = LLVMBuildFPTrunc(module->builder, value.ref, type, "");
    else if (value.elem != ELEM_F64 && elem == ELEM_F64)
        value.ref = LLVMBuildFPExt(module->builder, value.ref, type, "");
    value.elem = elem;
    if (elem == ELEM_F16 || elem == ELEM_BF16) // to the precision of elem
        return emit_from_memory(module, emit_to_memory(module, value), elem, value.lanes);
    return value;
}

EmitValue emit_cast(EmitModule *module, EmitValue value, Elem elem) {
    LLVMBuilderRef builder = module->builder;
    LLVMTypeRef type = emit_type(module, elem, value.lanes);
    if (value.elem == elem)
        return value;
    if (elem == ELEM_BOOL) {
        EmitValue zero = emit_number(module, value.elem, 0, value.lanes);
        return compare(module, LLVMRealUNE, LLVMIntNE, value, zero);
    }
    if (float_register(value.elem))
        return float_register(elem) ? float_to_float(module, value, elem)
                                    : float_to_int(module, value, elem);
    if (float_register(elem)) {
        LLVMValueRef ref = value.elem == ELEM_BOOL ? LLVMBuildUIToFP(builder, value.ref, type, "")
                                                   : LLVMBuildSIToFP(builder, value.ref, type, "");
        EmitValue out = value_of(ref, elem, value.lanes);
        if (elem == ELEM_F16 || elem == ELEM_BF16)
            return emit_from_memory(module, emit_to_memory(module, out), elem, value.lanes);
        return out;
    }
    if (value.elem == ELEM_BOOL)
        return value_of(LLVMBuildZExt(builder, value.ref, type, ""), elem, value.lanes);
    LLVMValueRef ref = elem == ELEM_I64 ? LLVMBuildSExt(builder, value.ref, type, "")
                                        : LLVMBuildTrunc(builder, value.ref, type, "");
    return value_of(ref, elem, value.lanes);
}
