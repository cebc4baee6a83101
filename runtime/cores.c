// SPDX-License-Identifier: Apache-2.0
// How many threads are worth starting: one per physical core that this process may run on.
//
// Two hardware threads of one core share its multiply-add units, so a second one gains nothing for
// code that keeps them busy. A container's CPU quota (cgroup v2) counts too: more threads than it
// pays for are stopped in the middle of their work.

#include <sched.h>
#include <stdio.h>

#include "cores.h"
#include "internal.h"

int att_core_leader(int cpu) {
    char path[128];
    int leader = cpu;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *file = fopen(path, "re");
    if (!file)
        return cpu;
    if (fscanf(file, "%d", &leader) != 1 || leader < 0)
        leader = cpu;
    fclose(file);
    return leader;
}

// Cores that the quota of this process's control group pays for; 0 when there is no limit.
static int cores_of_quota(void) {
    long long quota, period;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!file)
        return 0;
    int found = fscanf(file, "%lld %lld", &quota, &period);
    fclose(file);
    if (found != 2 || quota <= 0 || period <= 0)
        return 0;
    long long cores = (quota + period - 1) / period;
    return cores < CPU_SETSIZE ? (int)cores : 0;
}

int att_cores_usable(void) {
    cpu_set_t usable, leaders;
    CPU_ZERO(&usable);
    CPU_ZERO(&leaders);
    if (sched_getaffinity(0, sizeof usable, &usable))
        return 1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        int leader = CPU_ISSET(cpu, &usable) ? att_core_leader(cpu) : -1;
        if (leader >= 0 && leader < CPU_SETSIZE)
            CPU_SET(leader, &leaders);
    }
    int cores = CPU_COUNT(&leaders);
    int paid = cores_of_quota();
    if (paid && paid < cores)
        cores = paid;
    return cores > 0 ? cores : 1;
}
