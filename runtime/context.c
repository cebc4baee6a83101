// SPDX-License-Identifier: Apache-2.0
// The context: threads, the message of the last failure, and memory that outlives single calls.

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

struct AttContext {
    AttPool *pool;
    AttBlock workspace, tables;
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
    att_block_free(&ctx->workspace);
    att_block_free(&ctx->tables);
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

AttStatus att_parallel(AttContext *ctx, AttTaskFn fn, void *arg, int64_t tasks,
                       size_t scratch_bytes) {
    if (!ctx)
        return ATT_ARGUMENT;
    if (tasks < 0 || tasks > INT64_MAX / 2)
        return att_fail(ctx, ATT_ARGUMENT, "%lld tasks cannot be run", (long long)tasks);
    if (tasks && !att_pool_run(ctx->pool, fn, arg, tasks, scratch_bytes))
        return att_fail(ctx, ATT_MEMORY, "out of memory: %zu bytes of scratch memory",
                        scratch_bytes);
    return ATT_OK;
}

AttBlock *att_context_workspace(AttContext *ctx) {
    return &ctx->workspace;
}

AttBlock *att_context_tables(AttContext *ctx) {
    return &ctx->tables;
}

const char *att_context_missing(const AttContext *ctx, int level) {
    return ctx->missing[level];
}
