// SPDX-License-Identifier: Apache-2.0
// Objects in this process, through ORC's LLJIT.
//
// LLJIT is told its target machine, because otherwise it probes the host. Objects need the C
// library and libm, which a generator looks up in the process, and what kernels call of the
// runtime.
#include "emit/emit.h"

#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>

struct Jit {
    Arena *arena; // of messages
    LLVMOrcLLJITRef lljit;
};

static bool failed(Arena *arena, LLVMErrorRef error, const char *doing, const char **why) {
    if (!error)
        return false;
    char *text = LLVMGetErrorMessage(error);
    *why = arena_printf(arena, "%s: %s", doing, text);
    LLVMDisposeErrorMessage(text);
    return true;
}

// What kernels call of the runtime, whose functions are hidden in what they are linked into: here
// they are told by address.
static bool define_runtime(Jit *jit, const char **why) {
    const struct {
        const char *name;
        uintptr_t address;
    } functions[] = {{"att_order", (uintptr_t)att_order},
                     {"att_turn_await", (uintptr_t)att_turn_await},
                     {"att_turn_end", (uintptr_t)att_turn_end}};
    enum { N_FUNCTIONS = sizeof functions / sizeof *functions };
    LLVMOrcCSymbolMapPair symbols[N_FUNCTIONS];
    for (int i = 0; i < N_FUNCTIONS; i++) {
        symbols[i].Name = LLVMOrcLLJITMangleAndIntern(jit->lljit, functions[i].name);
        symbols[i].Sym.Address = functions[i].address;
        symbols[i].Sym.Flags = (LLVMJITSymbolFlags){
            LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable, 0};
    }
    return !failed(jit->arena,
                   LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(jit->lljit),
                                         LLVMOrcAbsoluteSymbols(symbols, N_FUNCTIONS)),
                   "cannot define the runtime's functions", why);
}

static bool open_lljit(Jit *jit, const Target *target, const char **why) {
    LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
    LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(
        builder,
        LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(emit_target_machine(target)));
    if (failed(jit->arena, LLVMOrcCreateLLJIT(&jit->lljit, builder), "cannot start the JIT", why))
        return false;
    LLVMOrcDefinitionGeneratorRef process;
    char prefix = LLVMOrcLLJITGetGlobalPrefix(jit->lljit);
    if (failed(jit->arena,
               LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(&process, prefix, NULL, NULL),
               "cannot look up symbols of the process", why))
        return false;
    LLVMOrcJITDylibAddGenerator(LLVMOrcLLJITGetMainJITDylib(jit->lljit), process);
    return define_runtime(jit, why);
}

Jit *jit_new(Arena *arena, const Target *target, const char **why) {
    Jit *jit = arena_new_of(arena, Jit);
    jit->arena = arena;
    if (open_lljit(jit, target, why))
        return jit;
    jit_free(jit);
    return NULL;
}

bool jit_add(Jit *jit, const KernelObject *kernel, const char **why) {
    LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(
        kernel->object.bytes, kernel->object.length, kernel->symbol);
    LLVMErrorRef error =
        LLVMOrcLLJITAddObjectFile(jit->lljit, LLVMOrcLLJITGetMainJITDylib(jit->lljit), buffer);
    return !failed(jit->arena, error, "cannot load a kernel", why);
}

bool jit_find(Jit *jit, const char *symbol, uintptr_t *address, const char **why) {
    LLVMOrcExecutorAddress code = 0;
    LLVMErrorRef error = LLVMOrcLLJITLookup(jit->lljit, &code, symbol);
    *address = (uintptr_t)code;
    return !failed(jit->arena, error, "cannot load a kernel", why);
}

void jit_free(Jit *jit) {
    if (jit->lljit)
        LLVMConsumeError(LLVMOrcDisposeLLJIT(jit->lljit));
}
