// SPDX-License-Identifier: Apache-2.0
// The thread pool: every task once, for any numbers of tasks and threads, also nested and without
// pause. Run under ThreadSanitizer by `make tsan`.

#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

typedef struct {
    AttContext *ctx;
    atomic_uchar *done; // per task
    size_t scratch_bytes;
    atomic_int wrong;
} Count;

static void count_task(void *arg, void *scratch, int64_t task) {
    Count *count = arg;
    char *bytes = scratch;
    if ((uintptr_t)scratch % 64)
        atomic_fetch_add(&count->wrong, 1);
    // Two threads that share scratch would see each other's number.
    for (size_t i = 0; i < count->scratch_bytes; i += 64)
        bytes[i] = (char)task;
    atomic_fetch_add(&count->done[task], 1);
    for (size_t i = 0; i < count->scratch_bytes; i += 64)
        if (bytes[i] != (char)task)
            atomic_fetch_add(&count->wrong, 1);
}

static void run_counted(AttContext *ctx, int64_t tasks, size_t scratch_bytes) {
    Count count = {.ctx = ctx, .scratch_bytes = scratch_bytes};
    count.done = calloc((size_t)tasks + 1, 1);
    assert_non_null(count.done);
    assert_int_equal(att_parallel(ctx, count_task, &count, tasks, scratch_bytes), ATT_OK);
    for (int64_t i = 0; i < tasks; i++)
        assert_int_equal(atomic_load(&count.done[i]), 1);
    assert_int_equal(atomic_load(&count.done[tasks]), 0);
    assert_int_equal(atomic_load(&count.wrong), 0);
    free(count.done);
}

static void every_task_once(void **state) {
    static const int threads[] = {1, 2, 3, 8, 33};
    static const int64_t tasks[] = {0, 1, 2, 3, 7, 64, 1000, 100003};
    static const size_t scratch[] = {0, 1, 5000, 100000, 64};
    (void)state;
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        AttContext *ctx = att_context_new(threads[t]);
        assert_non_null(ctx);
        assert_int_equal(att_context_threads(ctx), threads[t]);
        for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
            run_counted(ctx, tasks[i], scratch[i % 5]);
        att_context_free(ctx);
    }
}

// Short jobs one after another: threads that wake late meet the next job, or none.
static void jobs_without_pause(void **state) {
    (void)state;
    for (int threads = 2; threads <= 6; threads += 2) {
        AttContext *ctx = att_context_new(threads);
        assert_non_null(ctx);
        for (int job = 0; job < 3000; job++)
            run_counted(ctx, job % 9, (size_t)(job % 3) * 64);
        att_context_free(ctx);
    }
}

// With pauses, the threads fall asleep and must be woken.
static void jobs_with_pauses(void **state) {
    AttContext *ctx = att_context_new(3);
    (void)state;
    assert_non_null(ctx);
    for (int job = 0; job < 40; job++) {
        struct timespec pause = {0, 300000};
        nanosleep(&pause, NULL);
        run_counted(ctx, 50, 128);
    }
    att_context_free(ctx);
}

static void outer_task(void *arg, void *scratch, int64_t task) {
    Count *outer = arg;
    atomic_uchar done[10] = {0};
    Count inner = {.ctx = outer->ctx, .done = done, .scratch_bytes = 256};
    *(int64_t *)scratch = task;
    if (att_parallel(outer->ctx, count_task, &inner, 10, 256))
        atomic_fetch_add(&outer->wrong, 1);
    for (int i = 0; i < 10; i++)
        if (atomic_load(&done[i]) != 1)
            atomic_fetch_add(&outer->wrong, 1);
    if (*(int64_t *)scratch != task)
        atomic_fetch_add(&outer->wrong, 1);
    atomic_fetch_add(&outer->done[task], 1);
}

static void nested_jobs(void **state) {
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        AttContext *ctx = att_context_new(threads);
        assert_non_null(ctx);
        atomic_uchar done[200] = {0};
        Count count = {.ctx = ctx, .done = done};
        assert_int_equal(att_parallel(ctx, outer_task, &count, 200, 8), ATT_OK);
        for (int i = 0; i < 200; i++)
            assert_int_equal(atomic_load(&done[i]), 1);
        assert_int_equal(atomic_load(&count.wrong), 0);
        att_context_free(ctx);
    }
}

static void impossible_jobs(void **state) {
    AttContext *ctx = att_context_new(2);
    atomic_uchar done[4] = {0};
    Count count = {.ctx = ctx, .done = done};
    (void)state;
    assert_non_null(ctx);
    assert_int_equal(att_parallel(ctx, count_task, &count, -1, 0), ATT_ARGUMENT);
    assert_int_equal(att_parallel(ctx, count_task, &count, INT64_MAX, 0), ATT_ARGUMENT);
    assert_int_equal(att_parallel(ctx, count_task, &count, 4, SIZE_MAX - 5), ATT_MEMORY);
    assert_int_equal(atomic_load(&done[0]), 0);
    run_counted(ctx, 100, 64); // and the context still works
    att_context_free(ctx);
}

static void fail_task(void *arg, void *scratch, int64_t task) {
    (void)scratch;
    att_fail(arg, ATT_IO, "task %lld failed", (long long)task);
}

static void failing_tasks(void **state) {
    AttContext *ctx = att_context_new(4);
    (void)state;
    assert_non_null(ctx);
    assert_int_equal(att_parallel(ctx, fail_task, ctx, 100, 0), ATT_OK);
    assert_non_null(strstr(att_message(ctx), " failed"));
    att_context_free(ctx);
}

// One context per thread of the host program.
static void *run_own_context(void *arg) {
    AttContext *ctx = att_context_new(2);
    (void)arg;
    if (ctx)
        for (int job = 0; job < 200; job++)
            run_counted(ctx, 20, 64);
    att_context_free(ctx);
    return ctx;
}

static void contexts_side_by_side(void **state) {
    pthread_t hosts[4];
    void *result;
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&hosts[i], NULL, run_own_context, NULL), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(hosts[i], &result), 0);
        assert_non_null(result);
    }
}

static void default_threads(void **state) {
    AttContext *ctx = att_context_new(0);
    (void)state;
    assert_non_null(ctx);
    assert_int_equal(att_context_threads(ctx), att_cores_usable());
    assert_true(att_cores_usable() >= 1);
    att_context_free(ctx);
    att_context_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_once),       cmocka_unit_test(jobs_without_pause),
        cmocka_unit_test(jobs_with_pauses),      cmocka_unit_test(nested_jobs),
        cmocka_unit_test(impossible_jobs),       cmocka_unit_test(failing_tasks),
        cmocka_unit_test(contexts_side_by_side), cmocka_unit_test(default_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
