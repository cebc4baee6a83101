// SPDX-License-Identifier: Apache-2.0
// Runs a compiled entry in this process: ORC's LLJIT links the kernels' objects, and the tables of
// runtime/module.h are built in memory around the addresses it gives.
//
// LLJIT is told its target machine, because otherwise it probes the host. Objects need nothing but
// the C library and libm, which a generator looks up in the process.
#include "product/product.h"

#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <string.h>

struct Jit {
    Arena *arena; // of the tables and of this struct
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

static bool open_lljit(Arena *arena, const Target *target, LLVMOrcLLJITRef *out, const char **why) {
    LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
    LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(
        builder,
        LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(emit_target_machine(target)));
    if (failed(arena, LLVMOrcCreateLLJIT(out, builder), "cannot start the JIT", why))
        return false;
    LLVMOrcDefinitionGeneratorRef process;
    char prefix = LLVMOrcLLJITGetGlobalPrefix(*out);
    if (failed(arena,
               LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(&process, prefix, NULL, NULL),
               "cannot look up symbols of the process", why))
        return false;
    LLVMOrcJITDylibAddGenerator(LLVMOrcLLJITGetMainJITDylib(*out), process);
    return true;
}

static bool add_object(Jit *jit, Arena *arena, const KernelObject *kernel, const char **why) {
    LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(
        kernel->object.bytes, kernel->object.length, kernel->symbol);
    LLVMErrorRef error =
        LLVMOrcLLJITAddObjectFile(jit->lljit, LLVMOrcLLJITGetMainJITDylib(jit->lljit), buffer);
    return !failed(arena, error, "cannot load a kernel", why);
}

static bool find_kernel(Jit *jit, Arena *arena, const char *symbol, AttKernelFn *fn,
                        AttScratchFn *scratch, const char **why) {
    const char *scratch_symbol = arena_printf(arena, "%s_scratch", symbol);
    LLVMOrcExecutorAddress code = 0, scratch_code = 0;
    if (failed(arena, LLVMOrcLLJITLookup(jit->lljit, &code, symbol), "cannot load a kernel", why) ||
        failed(arena, LLVMOrcLLJITLookup(jit->lljit, &scratch_code, scratch_symbol),
               "cannot load a kernel", why))
        return false;
    *fn = (AttKernelFn)(uintptr_t)code;
    *scratch = (AttScratchFn)(uintptr_t)scratch_code;
    return true;
}

static bool load_kernels(Jit *jit, Session *session, const TileProgram *program,
                         const Target *target, const CacheOptions *cache, ModuleTables *tables,
                         const char **why) {
    Arena *arena = session->arena;
    KernelObject *objects = arena_array(arena, KernelObject, program->kernels.count);
    if (!emit_kernels(session, program, target, cache, objects, why))
        return false;
    for (uint32_t i = 0; i < program->kernels.count; i++)
        if (!add_object(jit, arena, &objects[i], why))
            return false;
    for (uint32_t i = 0; i < program->kernels.count; i++) {
        AttKernel *kernel = &tables->kernels[i];
        if (!find_kernel(jit, arena, tables->symbols[i], &kernel->fn[target->level],
                         &kernel->scratch[target->level], why))
            return false;
    }
    return true;
}

Jit *jit_new(Session *session, const TileProgram *program, const Target *target,
             const CacheOptions *cache, const AttModule **module, const char **why) {
    Arena *arena = arena_new();
    Jit *jit = arena_new_of(arena, Jit);
    jit->arena = arena;
    TileProgram *programs[] = {(TileProgram *)program};
    ModuleTables *tables = emit_tables(arena, programs, &target, 1);
    tables->module.manifest = emit_manifest(arena, tables, NULL);
    if (!open_lljit(session->arena, target, &jit->lljit, why) ||
        !load_kernels(jit, session, program, target, cache, tables, why)) {
        jit_free(jit);
        return NULL;
    }
    *module = &tables->module;
    return jit;
}

void jit_free(Jit *jit) {
    if (!jit)
        return;
    if (jit->lljit)
        LLVMConsumeError(LLVMOrcDisposeLLJIT(jit->lljit));
    arena_free(jit->arena);
}
