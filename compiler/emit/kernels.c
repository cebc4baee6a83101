// SPDX-License-Identifier: Apache-2.0
// All kernels of some programs as objects: from the cache, or compiled on all cores.
//
// LLVM code generation is most of a cold compile, and kernels know nothing of each other: each is
// made in an LLVM context of its own, so the ones the cache lacks are jobs for all cores.
#include "emit/emit.h"

#include <stdlib.h>
#include <string.h>

char *emit_kernel_symbol(Arena *arena, const Kernel *kernel, const Target *target) {
    const char *dash = strrchr(target->name, '-');
    return arena_printf(arena, "attc_%016llx_%s", (unsigned long long)kernel_canonical_hash(kernel),
                        dash ? dash + 1 : target->name);
}

// Two libraries in one program may hold the same kernel: any one of the copies will do, and none is
// visible outside.
static void hide_functions(LLVMModuleRef module) {
    for (LLVMValueRef fn = LLVMGetFirstFunction(module); fn; fn = LLVMGetNextFunction(fn))
        if (!LLVMIsDeclaration(fn) && LLVMGetLinkage(fn) == LLVMExternalLinkage) {
            LLVMSetLinkage(fn, LLVMWeakODRLinkage);
            LLVMSetVisibility(fn, LLVMHiddenVisibility);
        }
}

EmitModule *emit_kernel_module(Arena *arena, const Kernel *kernel, const Target *target) {
    const char *symbol = emit_kernel_symbol(arena, kernel, target);
    EmitModule *module = emit_module_new(arena, symbol, target);
    target->emit_kernel(module, kernel, target, symbol);
    hide_functions(module->module);
    return module;
}

// ---- compiling what the cache lacks ----

typedef struct {
    Arena *arena; // of this job alone, since arenas are not shared between threads
    KernelObject *object;
    const Target *target;
    const char *key, *why;
    uint32_t size; // of the kernel's form
    bool ok;
} KernelJob;

static void run_job(void *jobs, uint32_t i) {
    KernelJob *job = (KernelJob *)jobs + i;
    job->arena = arena_new();
    EmitModule *module = emit_kernel_module(job->arena, job->object->kernel, job->target);
    job->ok = emit_compile(module, EMIT_OBJECT, &job->object->object, &job->why);
    emit_module_free(module);
}

// The largest first, so that none is left for one thread alone at the end.
static int compare_jobs(const void *a, const void *b) {
    const KernelJob *x = a, *y = b;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return x->object < y->object ? -1 : 1;
}

// Moves what a job made into the session's arena, and into the cache: not from a thread of its own,
// since files are written where signals are held (see cache.c).
static bool collect_job(Arena *arena, const CacheOptions *cache, KernelJob *job, const char **why) {
    Blob *object = &job->object->object;
    if (job->ok) {
        cache_store(cache, job->key, object);
        object->bytes = arena_copy(arena, object->bytes, object->length);
    } else if (!*why) {
        *why = arena_printf(arena, "kernel %s: %s", job->object->kernel->name, job->why);
    }
    arena_free(job->arena);
    return job->ok;
}

static uint32_t form_size(const Kernel *kernel) {
    Arena *arena = arena_new();
    uint32_t size = kernel_form(arena, kernel).count;
    arena_free(arena);
    return size;
}

typedef struct {
    Arena *arena;
    const CacheOptions *cache;
    VEC(KernelJob) jobs;
} Missing;

// Of one program: out gets what the cache has, missing the rest.
static void load_kernels(Missing *missing, const TileProgram *program, const Target *target,
                         KernelObject *out) {
    Arena *arena = missing->arena;
    const char *flags = emit_flags_text(arena, target);
    for (uint32_t i = 0; i < program->kernels.count; i++) {
        const Kernel *kernel = program->kernels.at[i];
        out[i] = (KernelObject){kernel, emit_kernel_symbol(arena, kernel, target), {0}, false};
        const char *key = arena_printf(arena, "symbol=%s %s", out[i].symbol, flags);
        out[i].from_cache = cache_load(missing->cache, arena, key, &out[i].object);
        if (!out[i].from_cache)
            vec_push(
                arena, &missing->jobs,
                (KernelJob){
                    .object = &out[i], .target = target, .key = key, .size = form_size(kernel)});
    }
}

bool emit_kernels(Session *session, TileProgram *const *programs, const Target *const *targets,
                  uint32_t n, const CacheOptions *cache, KernelObject *out, const char **why) {
    Missing missing = {.arena = session->arena, .cache = cache};
    for (uint32_t i = 0; i < n; out += programs[i++]->kernels.count)
        load_kernels(&missing, programs[i], targets[i], out);
    KernelJob *jobs = missing.jobs.at;
    uint32_t n_jobs = missing.jobs.count;
    if (n_jobs)
        qsort(jobs, n_jobs, sizeof *jobs, compare_jobs);
    jobs_run(n_jobs, run_job, jobs);
    bool ok = true;
    *why = NULL;
    for (uint32_t i = 0; i < n_jobs; i++)
        ok &= collect_job(session->arena, cache, &jobs[i], why);
    return ok;
}
