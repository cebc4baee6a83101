// SPDX-License-Identifier: Apache-2.0
// Jobs that know nothing of each other, on all cores that this process may use: threads take the
// next one by a counter, this thread among them.
#include "base/base.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { WORKERS_MAX = 16 };

typedef struct {
    JobRun *run;
    void *shared;
    uint32_t count;
    atomic_uint next;
} Jobs;

static void *work_off(void *of_jobs) {
    Jobs *jobs = of_jobs;
    for (uint32_t i; (i = atomic_fetch_add(&jobs->next, 1)) < jobs->count;)
        jobs->run(jobs->shared, i);
    return NULL;
}

static uint32_t count_cores(void) {
    cpu_set_t usable;
    if (sched_getaffinity(0, sizeof usable, &usable))
        return 1;
    int cores = CPU_COUNT(&usable);
    return cores < 1 ? 1 : (uint32_t)cores;
}

void jobs_run(uint32_t count, JobRun *run, void *shared) {
    Jobs jobs = {.run = run, .shared = shared, .count = count};
    uint32_t wanted = count_cores(), started = 0;
    if (wanted > count)
        wanted = count;
    if (wanted > WORKERS_MAX)
        wanted = WORKERS_MAX;
    pthread_t threads[WORKERS_MAX];
    while (started + 1 < wanted && !pthread_create(&threads[started], NULL, work_off, &jobs))
        started++;
    work_off(&jobs);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}
