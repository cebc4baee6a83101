// SPDX-License-Identifier: Apache-2.0
// The thread pool: every task once, for any numbers of tasks and threads, also nested and without
// pause. `make SAN=1 SANITIZERS=thread BUILD=build/tsan build/tsan/unit/pool_test` looks for races.

#include "support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cores.h"
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

enum { ORDERED = 12 };
typedef struct {
    int place[ORDERED]; // by task: how many had begun before it
    atomic_int begun;
} Order;

// Two threads go from pair to pair of tasks: none takes another before both have one.
static void note_place(void *arg, void *scratch, int64_t task) {
    (void)scratch;
    Order *order = arg;
    int place = atomic_fetch_add(&order->begun, 1);
    order->place[task] = place;
    while (atomic_load(&order->begun) < place / 2 * 2 + 2)
        sched_yield();
}

// Where tasks do not wait for each other the last one is taken first, else the first one.
static void from_the_last_on(void **state) {
    (void)state;
    AttContext *ctx = att_context_new(2);
    assert_non_null(ctx);
    for (int round = 0; round < 100; round++) {
        Order any = {0}, in_turn = {0};
        assert_int_equal(att_parallel(ctx, note_place, &any, ORDERED, 0), ATT_OK);
        assert_int_equal(att_context_in_turn(ctx, note_place, &in_turn, ORDERED, 0), ATT_OK);
        for (int task = 0; task < ORDERED; task++) {
            assert_int_equal(any.place[task] / 2, (ORDERED - 1 - task) / 2);
            assert_int_equal(in_turn.place[task] / 2, task / 2);
        }
    }
    att_context_free(ctx);
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

static void pause_for(long nanoseconds) {
    struct timespec pause = {0, nanoseconds};
    nanosleep(&pause, NULL);
}

// With pauses, the threads fall asleep and must be woken.
static void jobs_with_pauses(void **state) {
    AttContext *ctx = att_context_new(3);
    (void)state;
    assert_non_null(ctx);
    for (int job = 0; job < 40; job++) {
        pause_for(300000);
        run_counted(ctx, 50, 128);
    }
    att_context_free(ctx);
}

// ---- where threads may run ---------------------------------------------------------------------
typedef struct {
    pthread_t caller, worker;
    atomic_int found; // worker is a thread other than the caller
    atomic_int came;
} Meeting;

// The caller's task waits, so that the other one is a worker's.
static void meet_task(void *arg, void *scratch, int64_t task) {
    Meeting *meeting = arg;
    (void)scratch;
    (void)task;
    if (!pthread_equal(pthread_self(), meeting->caller) && !atomic_exchange(&meeting->found, 1))
        meeting->worker = pthread_self();
    atomic_fetch_add(&meeting->came, 1);
    for (int turn = 0; turn < 5000 && atomic_load(&meeting->came) < 2; turn++)
        pause_for(1000000);
}

static pthread_t worker_of(AttContext *ctx) {
    Meeting meeting = {.caller = pthread_self()};
    assert_int_equal(att_parallel(ctx, meet_task, &meeting, 2, 0), ATT_OK);
    assert_int_equal(atomic_load(&meeting.found), 1);
    return meeting.worker;
}

// Runs a job after the worker had time to fall asleep. true: it may use all processors of the
// caller but the one that the caller was on all the while.
static bool is_kept_off_after_pause(AttContext *ctx, pthread_t worker) {
    cpu_set_t mine, its;
    pause_for(5000000);
    int cpu = sched_getcpu();
    run_counted(ctx, 8, 0);
    assert_int_equal(sched_getaffinity(0, sizeof mine, &mine), 0);
    assert_int_equal(pthread_getaffinity_np(worker, sizeof its, &its), 0);
    if (cpu != sched_getcpu() || cpu < 0 || cpu >= CPU_SETSIZE)
        return false;
    CPU_CLR(cpu, &mine);
    return CPU_EQUAL(&mine, &its);
}

// On a busy machine the caller may be moved, or the worker be late to sleep: there are many turns.
static void woken_threads_keep_off_the_caller(void **state) {
    cpu_set_t mine;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof mine, &mine), 0);
    if (CPU_COUNT(&mine) < 2)
        skip();
    AttContext *ctx = att_context_new(2);
    assert_non_null(ctx);
    pthread_t worker = worker_of(ctx);
    bool kept_off = false;
    for (int turn = 0; turn < 400 && !kept_off; turn++)
        kept_off = is_kept_off_after_pause(ctx, worker);
    assert_true(kept_off);
    att_context_free(ctx);
}

// Where threads need the caller's processor they may use it.
static void threads_without_room_stay(void **state) {
    cpu_set_t mine, its;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof mine, &mine), 0);
    AttContext *ctx = att_context_new(CPU_COUNT(&mine) + 1);
    assert_non_null(ctx);
    pthread_t worker = worker_of(ctx);
    for (int turn = 0; turn < 5; turn++)
        is_kept_off_after_pause(ctx, worker);
    assert_int_equal(pthread_getaffinity_np(worker, sizeof its, &its), 0);
    assert_true(CPU_EQUAL(&mine, &its));
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

// ---- two callers of one context ----------------------------------------------------------------
typedef struct {
    AttContext *ctx;
    atomic_int begun, released;
    AttStatus status;
} Holder;

static void hold_task(void *arg, void *scratch, int64_t task) {
    Holder *holder = arg;
    (void)scratch;
    (void)task;
    atomic_store(&holder->begun, 1);
    while (!atomic_load(&holder->released))
        pause_for(100000);
}

static void *hold_context(void *arg) {
    Holder *holder = arg;
    holder->status = att_parallel(holder->ctx, hold_task, holder, 2, 0);
    return NULL;
}

static void second_callers_are_refused(void **state) {
    Holder holder = {.ctx = att_context_new(2), .status = ATT_IO};
    pthread_t host;
    atomic_uchar done[4] = {0};
    Count count = {.ctx = holder.ctx, .done = done};
    (void)state;
    assert_non_null(holder.ctx);
    assert_int_equal(pthread_create(&host, NULL, hold_context, &holder), 0);
    while (!atomic_load(&holder.begun))
        pause_for(100000);
    AttStatus status = att_parallel(holder.ctx, count_task, &count, 4, 0);
    atomic_store(&holder.released, 1);
    assert_int_equal(pthread_join(host, NULL), 0);
    assert_int_equal(status, ATT_BUSY);
    assert_non_null(strstr(att_message(holder.ctx), "another thread"));
    assert_int_equal(atomic_load(&done[0]), 0);
    assert_int_equal(holder.status, ATT_OK);
    run_counted(holder.ctx, 100, 64);
    att_context_free(holder.ctx);
}

enum { CROWD_TASKS = 20 };
typedef struct {
    AttContext *ctx;
    int ran, refused, wrong;
} Crowd;

static void *crowd_in(void *arg) {
    Crowd *crowd = arg;
    for (int job = 0; job < 2000; job++) {
        atomic_uchar done[CROWD_TASKS] = {0};
        Count count = {.ctx = crowd->ctx, .done = done, .scratch_bytes = 64};
        AttStatus status = att_parallel(crowd->ctx, count_task, &count, CROWD_TASKS, 64);
        crowd->ran += status == ATT_OK;
        crowd->refused += status == ATT_BUSY;
        for (int i = 0; i < CROWD_TASKS; i++)
            crowd->wrong += atomic_load(&done[i]) != (status == ATT_OK);
        crowd->wrong += atomic_load(&count.wrong);
    }
    return NULL;
}

// Every job runs whole or not at all.
static void crowds_do_no_harm(void **state) {
    Crowd crowds[3] = {0};
    pthread_t hosts[3];
    AttContext *ctx = att_context_new(2);
    int ran = 0;
    (void)state;
    assert_non_null(ctx);
    for (int i = 0; i < 3; i++) {
        crowds[i].ctx = ctx;
        assert_int_equal(pthread_create(&hosts[i], NULL, crowd_in, &crowds[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(hosts[i], NULL), 0);
        assert_int_equal(crowds[i].ran + crowds[i].refused, 2000);
        assert_int_equal(crowds[i].wrong, 0);
        ran += crowds[i].ran;
    }
    assert_true(ran > 0);
    att_context_free(ctx);
}

// ---- turns -------------------------------------------------------------------------------------
// Tasks of chains of CHAIN, each of which notes that it was at every position of a loop, without
// any lock: the turns are what keeps the notes apart.
enum { CHAIN = 40, CHAINS = 3, POSITIONS = 64 };
typedef struct {
    int64_t turns[CHAIN * CHAINS * ATT_TURN_WORDS];
    int64_t met[CHAINS][POSITIONS][CHAIN], count[CHAINS][POSITIONS];
} Notes;

static void note_task(void *arg, void *scratch, int64_t task) {
    Notes *notes = arg;
    int64_t chain = task / CHAIN, number = task % CHAIN, last = POSITIONS - task % 5;
    (void)scratch;
    for (int64_t at = 0; at < last; at++) {
        if (number)
            att_turn_await(notes->turns, task, 3, at + 1);
        notes->met[chain][at][notes->count[chain][at]++] = number;
        att_turn_end(notes->turns, task, 3, at + 1);
    }
    if (number)
        att_turn_await(notes->turns, task, 3, INT64_MAX);
    att_turn_end(notes->turns, task, 3, INT64_MAX);
}

static void check_notes(const Notes *notes) {
    for (int64_t chain = 0; chain < CHAINS; chain++)
        for (int64_t at = 0; at < POSITIONS; at++) {
            int64_t count = 0;
            for (int64_t number = 0; number < CHAIN; number++)
                if (at < POSITIONS - (chain * CHAIN + number) % 5)
                    assert_int_equal(notes->met[chain][at][count++], number);
            assert_int_equal(notes->count[chain][at], count);
        }
}

// Also with more threads than processors.
static void tasks_take_turns(void **state) {
    static const int threads[] = {1, 2, 3, 16};
    (void)state;
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        AttContext *ctx = att_context_new(threads[t]);
        assert_non_null(ctx);
        for (int round = 0; round < 20; round++) {
            Notes *notes = calloc(1, sizeof *notes);
            assert_non_null(notes);
            assert_int_equal(att_context_in_turn(ctx, note_task, notes, CHAIN * CHAINS, 0), ATT_OK);
            check_notes(notes);
            free(notes);
        }
        att_context_free(ctx);
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

static void hardware_threads_of_a_core_have_one_leader(void **state) {
    (void)state;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        int leader = att_core_leader(cpu); // itself, where there is no such thread
        assert_true(leader >= 0 && leader <= cpu);
        assert_int_equal(att_core_leader(leader), leader);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_once),
        cmocka_unit_test(hardware_threads_of_a_core_have_one_leader),
        cmocka_unit_test(from_the_last_on),
        cmocka_unit_test(jobs_without_pause),
        cmocka_unit_test(jobs_with_pauses),
        cmocka_unit_test(nested_jobs),
        cmocka_unit_test(impossible_jobs),
        cmocka_unit_test(failing_tasks),
        cmocka_unit_test(contexts_side_by_side),
        cmocka_unit_test(second_callers_are_refused),
        cmocka_unit_test(crowds_do_no_harm),
        cmocka_unit_test(tasks_take_turns),
        cmocka_unit_test(default_threads),
        cmocka_unit_test(woken_threads_keep_off_the_caller),
        cmocka_unit_test(threads_without_room_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
