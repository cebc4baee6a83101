// SPDX-License-Identifier: Apache-2.0
// i64 arithmetic of loops and addresses. LLVM's builder folds constants; the identities (x+0, x*1,
// x*0) are folded here, so that code for constant extents comes out as if written for them.
#include "emit/emit.h"

LLVMValueRef index_const(EmitModule *module, int64_t value) {
    return LLVMConstInt(LLVMInt64TypeInContext(module->context), (unsigned long long)value, 1);
}

bool index_known(LLVMValueRef value, int64_t *out) {
    if (!LLVMIsAConstantInt(value))
        return false;
    *out = LLVMConstIntGetSExtValue(value);
    return true;
}

static bool is(LLVMValueRef value, int64_t number) {
    int64_t known;
    return index_known(value, &known) && known == number;
}

LLVMValueRef index_add(EmitModule *module, LLVMValueRef a, LLVMValueRef b) {
    if (is(a, 0))
        return b;
    return is(b, 0) ? a : LLVMBuildNSWAdd(module->builder, a, b, "");
}

// (base + rest) - base is what the length of a range comes from.
static bool is_sum_with(LLVMValueRef sum, LLVMValueRef base) {
    return LLVMIsABinaryOperator(sum) && LLVMGetInstructionOpcode(sum) == LLVMAdd &&
           LLVMGetOperand(sum, 0) == base;
}

LLVMValueRef index_sub(EmitModule *module, LLVMValueRef a, LLVMValueRef b) {
    if (a == b)
        return index_const(module, 0);
    if (is_sum_with(a, b))
        return LLVMGetOperand(a, 1);
    return is(b, 0) ? a : LLVMBuildNSWSub(module->builder, a, b, "");
}

LLVMValueRef index_mul(EmitModule *module, LLVMValueRef a, LLVMValueRef b) {
    if (is(a, 0) || is(b, 1))
        return a;
    return is(b, 0) || is(a, 1) ? b : LLVMBuildNSWMul(module->builder, a, b, "");
}

LLVMValueRef index_min(EmitModule *module, LLVMValueRef a, LLVMValueRef b) {
    int64_t x, y;
    if (a == b)
        return a;
    if (index_known(a, &x) && index_known(b, &y))
        return x < y ? a : b;
    LLVMTypeRef type = LLVMTypeOf(a);
    return emit_intrinsic(module, "llvm.smin", &type, 1, (LLVMValueRef[]){a, b}, 2);
}

LLVMValueRef index_max(EmitModule *module, LLVMValueRef a, LLVMValueRef b) {
    int64_t x, y;
    if (a == b)
        return a;
    if (index_known(a, &x) && index_known(b, &y))
        return x > y ? a : b;
    LLVMTypeRef type = LLVMTypeOf(a);
    return emit_intrinsic(module, "llvm.smax", &type, 1, (LLVMValueRef[]){a, b}, 2);
}

LLVMValueRef index_div(EmitModule *module, LLVMValueRef a, int64_t by) {
    if (by == 1)
        return a;
    return LLVMBuildUDiv(module->builder, a, index_const(module, by), "");
}

LLVMValueRef index_rem(EmitModule *module, LLVMValueRef a, int64_t by) {
    if (by == 1)
        return index_const(module, 0);
    return LLVMBuildURem(module->builder, a, index_const(module, by), "");
}

LLVMValueRef index_round_up(EmitModule *module, LLVMValueRef a, int64_t to) {
    LLVMValueRef up = index_add(module, a, index_const(module, to - 1));
    return index_mul(module, index_div(module, up, to), index_const(module, to));
}
