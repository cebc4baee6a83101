// SPDX-License-Identifier: Apache-2.0
// A compiled entry in this process: the tables of runtime/module.h in memory, around the addresses
// that the JIT gives.
#include "product/product.h"

struct LoadedProduct {
    Arena *arena; // of the tables and of this struct
    Jit *jit;
    ModuleTables *tables;
};

static bool find_kernel(Jit *jit, const char *symbol, AttKernelFn *fn, AttScratchFn *scratch,
                        Arena *arena, const char **why) {
    uintptr_t code, scratch_code;
    if (!jit_find(jit, symbol, &code, why) ||
        !jit_find(jit, arena_printf(arena, "%s_scratch", symbol), &scratch_code, why))
        return false;
    *fn = (AttKernelFn)code;
    *scratch = (AttScratchFn)scratch_code;
    return true;
}

static bool load_kernels(LoadedProduct *loaded, Session *session, TileProgram *program,
                         const Target *target, const CacheOptions *cache, const char **why) {
    ModuleTables *tables = loaded->tables;
    uint32_t count = program->kernels.count;
    KernelObject *objects = arena_array(session->arena, KernelObject, count);
    if (!emit_kernels(session, &program, &target, 1, cache, objects, why))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!jit_add(loaded->jit, &objects[i], why))
            return false;
    for (uint32_t i = 0; i < count; i++) {
        AttKernel *kernel = &tables->kernels[i];
        if (!find_kernel(loaded->jit, tables->symbols[i], &kernel->fn[target->level],
                         &kernel->scratch[target->level], loaded->arena, why))
            return false;
    }
    return true;
}

LoadedProduct *product_load(Session *session, TileProgram *program, const Target *target,
                            const CacheOptions *cache, const char **why) {
    Arena *arena = arena_new();
    LoadedProduct *loaded = arena_new_of(arena, LoadedProduct);
    loaded->arena = arena;
    ProductFunction function = {"", &program, 1};
    loaded->tables = product_tables(arena, &function, &target, 1);
    TablesList list = {&loaded->tables, 1};
    loaded->tables->module.manifest = product_manifest(arena, &list, NULL);
    loaded->jit = jit_new(arena, target, why);
    if (loaded->jit && load_kernels(loaded, session, program, target, cache, why))
        return loaded;
    *why = arena_printf(session->arena, "%s", *why); // it outlives the arena of the tables
    product_unload(loaded);
    return NULL;
}

const AttModule *product_module(const LoadedProduct *loaded) {
    return &loaded->tables->module;
}

void product_unload(LoadedProduct *loaded) {
    if (!loaded)
        return;
    if (loaded->jit)
        jit_free(loaded->jit);
    arena_free(loaded->arena);
}
