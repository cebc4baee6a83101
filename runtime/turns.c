// SPDX-License-Identifier: Apache-2.0
// Turns of tasks in ordered loops: what lets tasks add to the same memory in an order that does not
// depend on the number of threads.
//
// A word of a task tells how far it is in one loop. Threads take tasks in their order, so the task
// before has always been begun, and the first one waits for none.

#include <sched.h>
#include <stdatomic.h>

#include "internal.h"

enum { SPINS = 1000 }; // until other threads of this processor are let on

static _Atomic int64_t *turn_of(const int64_t *turns, int64_t task, int64_t loop) {
    return (_Atomic int64_t *)(uintptr_t)&turns[task * ATT_TURN_WORDS + loop];
}

void att_turn_await(const int64_t *turns, int64_t task, int64_t loop, int64_t end) {
    const _Atomic int64_t *before = turn_of(turns, task - 1, loop);
    int spins = 0;
    while (atomic_load_explicit(before, memory_order_acquire) < end) {
        if (spins == SPINS) {
            sched_yield();
            continue;
        }
        att_relax();
        spins++;
    }
}

void att_turn_end(int64_t *turns, int64_t task, int64_t loop, int64_t end) {
    atomic_store_explicit(turn_of(turns, task, loop), end, memory_order_release);
}
