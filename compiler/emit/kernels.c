// SPDX-License-Identifier: Apache-2.0
// All kernels of a program as objects: from the cache, or compiled on all cores.
//
// LLVM code generation is most of a cold compile, and kernels know nothing of each other: each is
// made in an LLVM context of its own, so the ones the cache lacks are shared out to threads by a
// counter.
#include "emit/emit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { WORKERS_MAX = 16 };

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
    const char *key, *why;
    bool ok;
} KernelJob;
typedef struct {
    KernelJob *jobs;
    uint32_t n_jobs;
    atomic_uint next;
    const Target *target;
} Jobs;

static void run_job(const Jobs *jobs, KernelJob *job) {
    job->arena = arena_new();
    EmitModule *module = emit_kernel_module(job->arena, job->object->kernel, jobs->target);
    job->ok = emit_compile(module, EMIT_OBJECT, &job->object->object, &job->why);
    emit_module_free(module);
}

static void *work_off(void *shared) {
    Jobs *jobs = shared;
    for (uint32_t i; (i = atomic_fetch_add(&jobs->next, 1)) < jobs->n_jobs;)
        run_job(jobs, &jobs->jobs[i]);
    return NULL;
}

static uint32_t count_cores(void) {
    cpu_set_t usable;
    if (sched_getaffinity(0, sizeof usable, &usable))
        return 1;
    int cores = CPU_COUNT(&usable);
    return cores < 1 ? 1 : (uint32_t)cores;
}

static void run_jobs(Jobs *jobs) {
    uint32_t wanted = count_cores(), started = 0;
    if (wanted > jobs->n_jobs)
        wanted = jobs->n_jobs;
    if (wanted > WORKERS_MAX)
        wanted = WORKERS_MAX;
    pthread_t threads[WORKERS_MAX];
    while (started + 1 < wanted && !pthread_create(&threads[started], NULL, work_off, jobs))
        started++;
    work_off(jobs);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
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

bool emit_kernels(Session *session, const TileProgram *program, const Target *target,
                  const CacheOptions *cache, KernelObject *out, const char **why) {
    Arena *arena = session->arena;
    const char *flags = emit_flags_text(arena, target);
    Jobs jobs = {.target = target};
    jobs.jobs = arena_array(arena, KernelJob, program->kernels.count);
    for (uint32_t i = 0; i < program->kernels.count; i++) {
        const Kernel *kernel = program->kernels.at[i];
        out[i] = (KernelObject){kernel, emit_kernel_symbol(arena, kernel, target), {0}, false};
        const char *key = arena_printf(arena, "symbol=%s %s", out[i].symbol, flags);
        out[i].from_cache = cache_load(cache, arena, key, &out[i].object);
        if (!out[i].from_cache)
            jobs.jobs[jobs.n_jobs++] = (KernelJob){.object = &out[i], .key = key};
    }
    if (jobs.n_jobs)
        run_jobs(&jobs);
    bool ok = true;
    *why = NULL;
    for (uint32_t i = 0; i < jobs.n_jobs; i++)
        ok &= collect_job(arena, cache, &jobs.jobs[i], why);
    return ok;
}
