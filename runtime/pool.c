// SPDX-License-Identifier: Apache-2.0
// A persistent pool of threads that take fixed pieces of work from an atomic counter.
//
// All coordination is one 64-bit word, the gate:
//
//     bit 0..15  threads now inside the job     bit 16  job open     bit 17  pool ends
//     bit 18..   number of the job
//
// The caller writes the job's fields, opens the gate with the next number, works along, closes the
// gate when no task is left, and waits until nobody is inside. A thread joins by counting itself in
// with compare-and-swap while the gate is open, so one that wakes late finds it closed and can
// neither take a task of a later job by mistake nor hold the caller up: the caller never waits for
// a thread that has not joined. Joining acquires the job's fields, leaving releases the results.
//
// Waiting is a short spin, then sleep on a condition variable. Both sides are sequentially
// consistent: a sleeper counts itself before it looks at the gate for the last time, and whoever
// changes the gate looks at that count afterwards, so no wake-up is lost.

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "arguments.h"
#include "internal.h"

enum { SPIN_NANOSECONDS = 40000, CHUNKS_PER_THREAD = 32, CHUNK_MAX = 256 };

static const uint64_t GATE_INSIDE = 0xFFFF;
static const uint64_t GATE_OPEN = (uint64_t)1 << 16;
static const uint64_t GATE_END = (uint64_t)1 << 17;
static const uint64_t GATE_JOB = (uint64_t)1 << 18;

typedef struct {
    AttPool *pool;
    pthread_t thread;
    int64_t index; // the caller is 0
    AttBlock scratch;
} Worker;

typedef struct {
    AttTaskFn fn;
    void *arg;
    int64_t tasks, chunk;
    bool backward; // the last task first
    size_t scratch_bytes;
} Job;

struct AttPool {
    int threads;
    double spin_seconds;
    Worker *workers;
    Job job;        // written while the gate is closed and nobody is inside
    int caller_cpu; // that sleepers are kept off, -1: none yet
    bool running;   // a job is open: a call from a task is to be run in place
    pthread_mutex_t lock;
    pthread_cond_t opened, left;
    atomic_int sleepers;     // threads that wait for the gate to open
    atomic_int caller_waits; // the caller sleeps until everybody has left
    _Alignas(128) _Atomic uint64_t gate;
    _Alignas(128) _Atomic int64_t next; // first task not yet taken
    char tail[120];                     // nothing else on the counter's cache lines
};

// Tasks in chunks until none is left. A chunk is at most 1/32 of a thread's share, so that the last
// ones are short, and small tasks do not all fight for the counter. The last task comes first where
// tasks may have any order: later rows of causal attention see more, and what takes longest should
// not be what one thread has left in the end.
static void work(AttPool *pool, void *scratch) {
    const Job *job = &pool->job;
    for (;;) {
        int64_t begin = atomic_fetch_add_explicit(&pool->next, job->chunk, memory_order_relaxed);
        if (begin >= job->tasks)
            return;
        int64_t end = job->tasks - begin < job->chunk ? job->tasks : begin + job->chunk;
        for (int64_t task = begin; task < end; task++)
            job->fn(job->arg, scratch, job->backward ? job->tasks - 1 - task : task);
    }
}

// ---- threads -----------------------------------------------------------------------------------
// The gate
// once its job number differs from `seen`, or once the pool ends.
static uint64_t wait_for_job(AttPool *pool, uint64_t seen) {
    double until = att_seconds() + pool->spin_seconds;
    do {
        for (int i = 0; i < 32; i++) {
            uint64_t gate = atomic_load(&pool->gate);
            if (gate / GATE_JOB != seen)
                return gate;
            att_relax();
        }
    } while (att_seconds() < until);
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    uint64_t gate;
    while (gate = atomic_load(&pool->gate), gate / GATE_JOB == seen)
        pthread_cond_wait(&pool->opened, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
    return gate;
}

static bool join(AttPool *pool, uint64_t gate) {
    uint64_t job = gate / GATE_JOB;
    while ((gate & GATE_OPEN) && gate / GATE_JOB == job)
        if (atomic_compare_exchange_weak(&pool->gate, &gate, gate + 1))
            return true;
    return false;
}

static void leave(AttPool *pool) {
    uint64_t gate = atomic_fetch_sub(&pool->gate, 1) - 1;
    if ((gate & (GATE_INSIDE | GATE_OPEN)) || !atomic_load(&pool->caller_waits))
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->left);
    pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *arg) {
    Worker *worker = arg;
    AttPool *pool = worker->pool;
    uint64_t seen = 0;
    for (;;) {
        uint64_t gate = wait_for_job(pool, seen);
        if (gate & GATE_END)
            return NULL;
        seen = gate / GATE_JOB;
        if (!join(pool, gate))
            continue;
        // Without memory of its own this thread leaves the tasks to the others.
        if (worker->index < pool->job.tasks &&
            att_block_reserve(&worker->scratch, pool->job.scratch_bytes))
            work(pool, worker->scratch.at);
        leave(pool);
    }
}

// ---- the caller --------------------------------------------------------------------------------
// A thread that is woken lands beside the one that wakes it, and waits there until the scheduler
// balances its load, some milliseconds later. So sleepers may use all of the caller's processors
// but the one that it is on, if these are enough for them.
static void keep_off_caller(AttPool *pool) {
    int cpu = sched_getcpu();
    cpu_set_t others;
    if (cpu == pool->caller_cpu || cpu < 0 || sched_getaffinity(0, sizeof others, &others))
        return;
    if (cpu < CPU_SETSIZE)
        CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) < pool->threads - 1)
        return;
    for (int i = 1; i < pool->threads; i++)
        (void)pthread_setaffinity_np(pool->workers[i].thread, sizeof others, &others);
    pool->caller_cpu = cpu;
}

static void open_gate(AttPool *pool, uint64_t flags) {
    if (atomic_load(&pool->sleepers))
        keep_off_caller(pool);
    uint64_t job = atomic_load(&pool->gate) / GATE_JOB + 1;
    atomic_store(&pool->gate, job * GATE_JOB | flags);
    if (!atomic_load(&pool->sleepers))
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->opened);
    pthread_mutex_unlock(&pool->lock);
}

static void close_gate(AttPool *pool) {
    atomic_fetch_and(&pool->gate, ~GATE_OPEN);
    double until = att_seconds() + pool->spin_seconds;
    do {
        for (int i = 0; i < 32; i++) {
            if (!(atomic_load(&pool->gate) & GATE_INSIDE))
                return;
            att_relax();
        }
    } while (att_seconds() < until);
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->caller_waits, 1);
    while (atomic_load(&pool->gate) & GATE_INSIDE)
        pthread_cond_wait(&pool->left, &pool->lock);
    atomic_store(&pool->caller_waits, 0);
    pthread_mutex_unlock(&pool->lock);
}

// A call from inside a task: its thread does all, with scratch beside the one in use.
static bool run_in_place(const Job *job) {
    AttBlock scratch = {0};
    if (!att_block_reserve(&scratch, job->scratch_bytes))
        return false;
    for (int64_t task = 0; task < job->tasks; task++)
        job->fn(job->arg, scratch.at, task);
    att_block_free(&scratch);
    return true;
}

bool att_pool_is_worker(const AttPool *pool) {
    pthread_t self = pthread_self();
    for (int i = 1; i < pool->threads; i++)
        if (pthread_equal(pool->workers[i].thread, self))
            return true;
    return false;
}

bool att_pool_run(AttPool *pool, AttTaskFn fn, void *arg, int64_t tasks, bool in_turn,
                  size_t scratch_bytes) {
    int64_t chunk = tasks / ((int64_t)pool->threads * CHUNKS_PER_THREAD);
    int64_t most = in_turn ? 1 : CHUNK_MAX;
    chunk = chunk < 1 ? 1 : chunk > most ? most : chunk;
    bool alone = pool->threads == 1 || tasks == 1;
    Job job = {fn, arg, tasks, chunk, !alone && !in_turn, scratch_bytes};
    if (pool->running)
        return run_in_place(&job);
    Worker *caller = &pool->workers[0];
    if (!att_block_reserve(&caller->scratch, scratch_bytes))
        return false;
    pool->job = job;
    pool->running = true;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    if (!alone)
        open_gate(pool, GATE_OPEN);
    work(pool, caller->scratch.at);
    if (!alone)
        close_gate(pool);
    pool->running = false;
    return true;
}

// ---- birth and death ---------------------------------------------------------------------------
// Signals stay
// with the threads of the program that the library is part of.
static void start_workers(AttPool *pool, int threads) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (pool->threads = 1; pool->threads < threads; pool->threads++) {
        Worker *worker = &pool->workers[pool->threads];
        *worker = (Worker){.pool = pool, .index = pool->threads};
        if (pthread_create(&worker->thread, NULL, worker_main, worker))
            break;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

AttPool *att_pool_new(int threads) {
    int cores = threads == 1 ? 1 : att_cores_usable();
    threads = threads < 1 ? cores : threads > ATT_THREADS_MOST ? ATT_THREADS_MOST : threads;
    AttPool *pool = aligned_alloc(128, sizeof *pool);
    if (!pool)
        return NULL;
    // More threads than cores: one that spins keeps another from its work.
    *pool =
        (AttPool){.caller_cpu = -1, .spin_seconds = threads <= cores ? SPIN_NANOSECONDS * 1e-9 : 0};
    pool->workers = calloc((size_t)threads, sizeof *pool->workers);
    if (!pool->workers) {
        free(pool);
        return NULL;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->opened, NULL);
    pthread_cond_init(&pool->left, NULL);
    start_workers(pool, threads);
    return pool;
}

void att_pool_free(AttPool *pool) {
    open_gate(pool, GATE_END);
    for (int i = 1; i < pool->threads; i++)
        pthread_join(pool->workers[i].thread, NULL);
    for (int i = 0; i < pool->threads; i++)
        att_block_free(&pool->workers[i].scratch);
    pthread_cond_destroy(&pool->left);
    pthread_cond_destroy(&pool->opened);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}

int att_pool_threads(const AttPool *pool) {
    return pool->threads;
}
