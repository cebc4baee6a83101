// SPDX-License-Identifier: Apache-2.0
// The context: threads, the message of the last failure, and memory that outlives single calls.

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

struct AttContext {
    AttPool *pool;
    _Atomic uintptr_t owner; // the thread whose call runs, 0: none
    atomic_bool memory_taken;
    AttMemory memory;
    pthread_mutex_t message_lock;      // tasks may fail side by side
    const char *missing[ATT_N_LEVELS]; // NULL: the machine runs the level
    char message[1024];
};

AttContext *att_context_new(int threads) {
    AttContext *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return NULL;
    ctx->pool = att_pool_new(threads);
    if (!ctx->pool) {
        free(ctx);
        return NULL;
    }
    pthread_mutex_init(&ctx->message_lock, NULL);
    for (int level = 0; level < ATT_N_LEVELS; level++)
        att_level_runs(level, &ctx->missing[level]);
    return ctx;
}

void att_context_free(AttContext *ctx) {
    if (!ctx)
        return;
    att_pool_free(ctx->pool);
    att_memory_free(&ctx->memory);
    pthread_mutex_destroy(&ctx->message_lock);
    free(ctx);
}

int att_context_threads(const AttContext *ctx) {
    return ctx ? att_pool_threads(ctx->pool) : 0;
}

const char *att_message(const AttContext *ctx) {
    return ctx ? ctx->message : "";
}

AttStatus att_fail(AttContext *ctx, AttStatus status, const char *format, ...) {
    if (!ctx)
        return status;
    // Formatted aside first: an argument may be the old message.
    char text[sizeof ctx->message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&ctx->message_lock);
    snprintf(ctx->message, sizeof ctx->message, "%s", text);
    pthread_mutex_unlock(&ctx->message_lock);
    return status;
}

AttStatus att_no_memory(AttContext *ctx) {
    return att_fail(ctx, ATT_MEMORY, "out of memory");
}

// ---- turns -------------------------------------------------------------------------------------
// Workers are in nobody's call but the owner's.
AttStatus att_context_enter(AttContext *ctx, bool *outermost) {
    uintptr_t self = (uintptr_t)pthread_self(), owner = 0;
    *outermost = atomic_compare_exchange_strong(&ctx->owner, &owner, self);
    if (*outermost || owner == self || att_pool_is_worker(ctx->pool))
        return ATT_OK;
    return att_fail(ctx, ATT_BUSY,
                    "a call of another thread runs on this context: threads that run side by side "
                    "need a context each");
}

void att_context_leave(AttContext *ctx, bool outermost) {
    if (outermost)
        atomic_store(&ctx->owner, 0);
}

AttMemory *att_context_take_memory(AttContext *ctx) {
    return atomic_exchange(&ctx->memory_taken, true) ? NULL : &ctx->memory;
}

void att_context_give_memory(AttContext *ctx) {
    atomic_store(&ctx->memory_taken, false);
}

void att_memory_free(AttMemory *memory) {
    att_block_free(&memory->workspace);
    att_block_free(&memory->tables);
    att_block_free(&memory->turns);
}

static AttStatus run_tasks(AttContext *ctx, AttTaskFn fn, void *arg, int64_t tasks, bool in_turn,
                           size_t scratch_bytes) {
    if (!ctx)
        return ATT_ARGUMENT;
    if (tasks < 0 || tasks > INT64_MAX / 2)
        return att_fail(ctx, ATT_ARGUMENT, "%lld tasks cannot be run", (long long)tasks);
    bool outermost;
    AttStatus status = att_context_enter(ctx, &outermost);
    if (status)
        return status;
    if (tasks && !att_pool_run(ctx->pool, fn, arg, tasks, in_turn, scratch_bytes))
        status =
            att_fail(ctx, ATT_MEMORY, "out of memory: %zu bytes of scratch memory", scratch_bytes);
    att_context_leave(ctx, outermost);
    return status;
}

AttStatus att_parallel(AttContext *ctx, AttTaskFn fn, void *arg, int64_t tasks,
                       size_t scratch_bytes) {
    return run_tasks(ctx, fn, arg, tasks, false, scratch_bytes);
}

AttStatus att_context_in_turn(AttContext *ctx, AttTaskFn fn, void *arg, int64_t tasks,
                              size_t scratch_bytes) {
    return run_tasks(ctx, fn, arg, tasks, true, scratch_bytes);
}

const char *att_context_missing(const AttContext *ctx, int level) {
    return ctx->missing[level];
}
