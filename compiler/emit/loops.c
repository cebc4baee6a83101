// SPDX-License-Identifier: Apache-2.0
// Counted loops with carried values, made in the form that LLVM wants them: one test at the end,
// phis at the head, and no loop at all when it is known to run once.
#include "emit/emit.h"

static LLVMValueRef phi(EmitModule *module, LLVMValueRef from, LLVMBasicBlockRef block) {
    LLVMValueRef node = LLVMBuildPhi(module->builder, LLVMTypeOf(from), "");
    LLVMAddIncoming(node, &from, &block, 1);
    return node;
}

LLVMValueRef emit_either(EmitModule *module, LLVMValueRef a, LLVMBasicBlockRef from_a,
                         LLVMValueRef b, LLVMBasicBlockRef from_b) {
    LLVMValueRef node = phi(module, a, from_a);
    LLVMAddIncoming(node, &b, &from_b, 1);
    return node;
}

static bool runs_once(LLVMValueRef low, LLVMValueRef high, LLVMValueRef step) {
    int64_t from, to, by;
    return index_known(low, &from) && index_known(high, &to) && index_known(step, &by) &&
           to > from && to - from <= by;
}

void emit_loop_open(EmitModule *module, EmitLoop *loop, LLVMValueRef low, LLVMValueRef high,
                    LLVMValueRef step, bool nonempty, LLVMValueRef *start, uint32_t n_carried) {
    int64_t from, to;
    bool known = index_known(low, &from) && index_known(high, &to) && from < to;
    *loop = (EmitLoop){.low = low, .high = high, .step = step, .n_carried = n_carried};
    loop->start = arena_copy(module->arena, start, sizeof *start * n_carried);
    loop->carried = arena_array(module->arena, LLVMValueRef, n_carried);
    loop->once = runs_once(low, high, step);
    if (loop->once) {
        loop->at = low;
        for (uint32_t i = 0; i < n_carried; i++)
            loop->carried[i] = start[i];
        return;
    }
    loop->guarded = !nonempty && !known;
    loop->before = LLVMGetInsertBlock(module->builder);
    loop->body = emit_block(module, "loop");
    loop->after = emit_block(module, "done");
    if (loop->guarded) {
        LLVMValueRef any = LLVMBuildICmp(module->builder, LLVMIntSLT, low, high, "");
        LLVMBuildCondBr(module->builder, any, loop->body, loop->after);
    } else {
        LLVMBuildBr(module->builder, loop->body);
    }
    LLVMPositionBuilderAtEnd(module->builder, loop->body);
    loop->at = phi(module, low, loop->before);
    for (uint32_t i = 0; i < n_carried; i++)
        loop->carried[i] = phi(module, start[i], loop->before);
}

void emit_loop_close(EmitModule *module, EmitLoop *loop, LLVMValueRef *next, LLVMValueRef *out) {
    if (loop->once) {
        for (uint32_t i = 0; i < loop->n_carried; i++)
            out[i] = next[i];
        return;
    }
    LLVMBasicBlockRef end = LLVMGetInsertBlock(module->builder);
    LLVMValueRef at = index_add(module, loop->at, loop->step);
    LLVMAddIncoming(loop->at, &at, &end, 1);
    for (uint32_t i = 0; i < loop->n_carried; i++)
        LLVMAddIncoming(loop->carried[i], &next[i], &end, 1);
    LLVMValueRef more = LLVMBuildICmp(module->builder, LLVMIntSLT, at, loop->high, "");
    LLVMBuildCondBr(module->builder, more, loop->body, loop->after);
    LLVMMoveBasicBlockAfter(loop->after, end);
    LLVMPositionBuilderAtEnd(module->builder, loop->after);
    for (uint32_t i = 0; i < loop->n_carried; i++) {
        LLVMValueRef value = next[i];
        if (loop->guarded) {
            value = phi(module, loop->start[i], loop->before);
            LLVMAddIncoming(value, &next[i], &end, 1);
        }
        out[i] = value;
    }
}
