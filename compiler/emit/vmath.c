// SPDX-License-Identifier: Apache-2.0
// Vector math as LLVM IR: which function is computed how. Bounds and measured errors are in
// vmath.h.
//
// f32 functions are straight-line code, with tables in registers at most, the same for scalars and
// for vectors of any length, so that a remainder gives the same bits as a full vector. f64 ones
// call the C library for every lane: within 1 ulp with glibc, but slow; nothing that has to be fast
// is in f64.
#include "emit/vmath.h"

#include "emit/vmath_ops.h"
#include "emit/vmath_parts.h"

bool vmath_has(Op op) {
    switch (op) {
    case OP_EXP:
    case OP_EXP2:
    case OP_LOG:
    case OP_SQRT:
    case OP_RSQRT:
    case OP_TANH:
    case OP_ERF:
    case OP_SIN:
    case OP_COS:
    case OP_POW:
    case OP_RANDOM:
        return true;
    default:
        return false;
    }
}

// A function of the C library, lane by lane.
static EmitValue library_call(EmitModule *m, const char *name, EmitValue *args, uint32_t n_args) {
    LLVMTypeRef scalar = emit_type(m, ELEM_F64, 1), types[] = {scalar, scalar};
    LLVMTypeRef type = LLVMFunctionType(scalar, types, n_args, 0);
    LLVMValueRef function = LLVMGetNamedFunction(m->module, name);
    if (!function)
        function = LLVMAddFunction(m->module, name, type);
    int lanes = args[0].lanes;
    LLVMValueRef result = LLVMGetPoison(emit_type(m, ELEM_F64, lanes));
    for (int lane = 0; lane < lanes; lane++) {
        LLVMValueRef index = LLVMConstInt(LLVMInt32TypeInContext(m->context), (unsigned)lane, 0);
        LLVMValueRef parts[2];
        for (uint32_t i = 0; i < n_args; i++)
            parts[i] = lanes == 1 ? args[i].ref
                                  : LLVMBuildExtractElement(m->builder, args[i].ref, index, "");
        LLVMValueRef call = LLVMBuildCall2(m->builder, type, function, parts, n_args, "");
        result = lanes == 1 ? call : LLVMBuildInsertElement(m->builder, result, call, index, "");
    }
    return (EmitValue){result, ELEM_F64, lanes};
}

static EmitValue call_f64(EmitModule *m, Op op, EmitValue *args, uint32_t n_args) {
    static const char *const names[N_OP] = {
        [OP_EXP] = "exp", [OP_EXP2] = "exp2", [OP_LOG] = "log", [OP_TANH] = "tanh",
        [OP_ERF] = "erf", [OP_SIN] = "sin",   [OP_COS] = "cos", [OP_POW] = "pow",
    };
    if (!names[op])
        ice("vmath: no f64 code for %s", op_name(op));
    return library_call(m, names[op], args, n_args);
}

static EmitValue call_f32(EmitModule *m, Op op, EmitValue *args) {
    switch (op) {
    case OP_EXP:
        return vmath_exp_f32(m, args[0]);
    case OP_EXP2:
        return vmath_exp2_f32(m, args[0]);
    case OP_LOG:
        return vmath_log_f32(m, args[0]);
    case OP_TANH:
        return vmath_tanh_f32(m, args[0]);
    case OP_ERF:
        return vmath_erf_f32(m, args[0]);
    case OP_SIN:
    case OP_COS:
        return vmath_sine_f32(m, args[0], op == OP_COS);
    case OP_POW:
        return vmath_pow_f32(m, args[0], args[1]);
    default:
        ice("vmath: no code for %s", op_name(op));
    }
}

EmitValue vmath_call(EmitModule *module, Op op, EmitValue *args, uint32_t n_args) {
    Elem elem = args[0].elem;
    EmitValue wide[2];
    if (op == OP_RANDOM)
        return vmath_random(module, args);
    for (uint32_t i = 0; i < n_args; i++) {
        wide[i] = args[i];
        if (elem != ELEM_F64) // f16 and bf16 are f32 in registers
            wide[i].elem = ELEM_F32;
    }
    EmitValue result;
    if (op == OP_SQRT) // rounded correctly by the machine
        result = v_unary(module, "llvm.sqrt", wide[0]);
    else if (op == OP_RSQRT) // two roundings; estimates differ between makers of processors
        result = v_div(module, v_number(module, wide[0], 1), v_unary(module, "llvm.sqrt", wide[0]));
    else if (elem == ELEM_F64)
        result = call_f64(module, op, wide, n_args);
    else
        result = call_f32(module, op, wide);
    result.elem = elem;
    return result;
}
