// SPDX-License-Identifier: Apache-2.0
// Ordered loops: calls of the runtime around each piece (runtime/turns.c), and arguments that the
// first task begins for all that add to them.
#include "cpu/cpu.h"

_Static_assert((int)ORDERED_MAX <= (int)ATT_TURN_WORDS, "a word for each loop");
_Static_assert(ATT_TURN_WORDS * sizeof(int64_t) == MACHINE_LINE, "a cache line for each task");

static void call_runtime(CpuKernel *k, const char *name, int loop, LLVMValueRef end) {
    EmitModule *m = k->module;
    LLVMTypeRef pointer = LLVMPointerTypeInContext(m->context, 0);
    LLVMTypeRef word = LLVMInt64TypeInContext(m->context);
    LLVMTypeRef params[] = {pointer, word, word, word};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(m->context), params, 4, 0);
    LLVMValueRef function = LLVMGetNamedFunction(m->module, name);
    if (!function)
        function = LLVMAddFunction(m->module, name, type);
    LLVMValueRef args[] = {k->turns, k->task, index_const(m, loop), end};
    LLVMBuildCall2(m->builder, type, function, args, 4, "");
}

void cpu_await_turn(CpuKernel *k, int loop, LLVMValueRef end) {
    EmitModule *m = k->module;
    LLVMBasicBlockRef after = cpu_where_open(m, LLVMBuildNot(m->builder, k->is_first, ""));
    call_runtime(k, "att_turn_await", loop, end);
    cpu_where_close(m, after);
}

void cpu_end_turn(CpuKernel *k, int loop, LLVMValueRef end) {
    call_runtime(k, "att_turn_end", loop, end);
}

LLVMBasicBlockRef cpu_beginning_open(CpuKernel *k, uint16_t argument) {
    EmitModule *m = k->module;
    const TileBuffer *buffer = &k->kernel->buffers.at[argument];
    LLVMValueRef here = kernel_adds_in_turn(k->kernel, argument) ? k->is_first : NULL;
    if (buffer->kept_by >= 0) {
        LLVMTypeRef word = LLVMInt64TypeInContext(m->context);
        LLVMValueRef flag = LLVMBuildLoad2(m->builder, word, k->buffer[buffer->kept_by].base, "");
        LLVMValueRef none = LLVMBuildICmp(m->builder, LLVMIntEQ, flag, index_const(m, 0), "");
        here = here ? LLVMBuildAnd(m->builder, here, none, "") : none;
    }
    return here ? cpu_where_open(m, here) : NULL;
}
