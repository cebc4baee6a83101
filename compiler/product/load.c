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

// Kernels of two parts may be one.
static bool add_kernels(Jit *jit, const KernelObject *objects, uint32_t count, const char **why) {
    Arena *arena = arena_new();
    Map *known = map_new(arena);
    bool ok = true;
    for (uint32_t i = 0; i < count && ok; i++) {
        uint64_t key = hash_text(0, objects[i].symbol);
        ok = map_get(known, key) || jit_add(jit, &objects[i], why);
        map_put(known, key, (void *)&objects[i]);
    }
    arena_free(arena);
    return ok;
}

static bool load_kernels(LoadedProduct *loaded, Session *session, const ProductFunction *function,
                         const Target *target, const CacheOptions *cache, const char **why) {
    ModuleTables *tables = loaded->tables;
    uint32_t count = (uint32_t)tables->module.n_kernels;
    KernelObject *objects = arena_array(session->arena, KernelObject, count);
    const Target **targets = arena_array(session->arena, const Target *, function->n_parts);
    for (uint32_t i = 0; i < function->n_parts; i++)
        targets[i] = target;
    if (!emit_kernels(session, function->programs, targets, function->n_parts, cache, objects,
                      why) ||
        !add_kernels(loaded->jit, objects, count, why))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        AttKernel *kernel = &tables->kernels[i];
        if (!find_kernel(loaded->jit, tables->symbols[i], &kernel->fn[target->level],
                         &kernel->scratch[target->level], loaded->arena, why))
            return false;
    }
    return true;
}

LoadedProduct *product_load(Session *session, const ProductFunction *function, const Target *target,
                            const CacheOptions *cache, const char **why) {
    Arena *arena = arena_new();
    LoadedProduct *loaded = arena_new_of(arena, LoadedProduct);
    loaded->arena = arena;
    loaded->tables = product_tables(arena, function, &target, 1);
    TablesList list = {&loaded->tables, 1};
    loaded->tables->module.manifest = product_manifest(arena, &list, NULL);
    loaded->jit = jit_new(arena, target, why);
    if (loaded->jit && load_kernels(loaded, session, function, target, cache, why))
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
