// SPDX-License-Identifier: Apache-2.0
// The caches of a machine, from how fast one core reads ranges of growing size again and again.
//
// The rates fall in steps where a range no longer fits a level; the four flat pieces that fit the
// curve best are L1, L2, L3 and memory. Virtual machines tell sizes that their tenants do not have;
// what is told says how many cores share L3, and the size of a level that is measured about as
// large.
#include "cpu/measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RANGES = CPU_RANGES,
    N_LEVELS = 4,     // L1, L2, L3, memory
    LEVEL_LEAST = 2,  // ranges of a level
    BETWEEN_MOST = 2, // ranges between two
};
static const double STEP_LEAST = 1.4, BETWEEN_ERROR = 0.05;

size_t measure_range_bytes(int i) {
    return ((size_t)(i % 2 ? 12 : 8) << i / 2) << 10;
}

_Static_assert((int)RANGES <= MEASURE_RATES_MOST, "rates to rank");

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double measure_ranked(const double *rates, int from, int to, double share) {
    double sorted[MEASURE_RATES_MOST];
    int count = to - from;
    memcpy(sorted, rates + from, sizeof *rates * (size_t)count);
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    return sorted[(int)(share * count)];
}

double measure_median(const double *rates, int from, int to) {
    return measure_ranked(rates, from, to, 0.5);
}

// ---- levels ----

// How far the ranges [from, to) are from one rate, in logarithms, so that levels count alike.
static double unevenness(const double *rates, int from, int to) {
    double level = measure_median(rates, from, to), sum = 0;
    for (int i = from; i < to; i++)
        sum += fabs(log(rates[i] / level));
    return sum;
}

// Ranges [from, to) are of one level.
typedef struct {
    int from, to;
} Level;

typedef struct {
    double rate[RANGES][RANGES + 1], uneven[RANGES][RANGES + 1]; // [from][to]
    int l2_end;                                                  // L2 goes so far at least
    double best;
    Level levels[N_LEVELS], best_levels[N_LEVELS];
} Fit;

// Are these levels, one slower than the other? L3 and memory may be alike, as tenants of one
// machine see them.
static bool is_step(const Fit *fit, int level, int to) {
    const Level *before = &fit->levels[level - 1], *here = &fit->levels[level];
    return level == N_LEVELS - 1 ||
           fit->rate[before->from][before->to] > STEP_LEAST * fit->rate[here->from][to];
}

// All ways to put level number `level` and those after it into the ranges from `from` on. Ranges
// between two levels, which partly fit the first, may belong to none.
static void fit_from(Fit *fit, int level, int from, double error) {
    if (level == N_LEVELS - 1) {
        fit->levels[level] = (Level){from, RANGES};
        if (RANGES - from >= LEVEL_LEAST && error + fit->uneven[from][RANGES] < fit->best) {
            fit->best = error + fit->uneven[from][RANGES];
            memcpy(fit->best_levels, fit->levels, sizeof fit->levels);
        }
        return;
    }
    for (int to = from + LEVEL_LEAST; to < RANGES; to++) {
        double here = error + fit->uneven[from][to];
        fit->levels[level] = (Level){from, to};
        if ((level && !is_step(fit, level, to)) || (level == 1 && to < fit->l2_end))
            continue;
        for (int between = 0; between <= BETWEEN_MOST && here < fit->best; between++)
            if (to + between < RANGES)
                fit_from(fit, level + 1, to + between, here + between * BETWEEN_ERROR);
    }
}

// false: no way has a step where L1 and L2 end.
static bool fit_levels(const double *rates, int l2_end, Level *levels) {
    Fit fit = {.l2_end = l2_end, .best = INFINITY};
    for (int from = 0; from < RANGES; from++)
        for (int to = from + 1; to <= RANGES; to++) {
            fit.uneven[from][to] = unevenness(rates, from, to);
            fit.rate[from][to] = measure_median(rates, from, to);
        }
    fit_from(&fit, 0, 0, 0);
    if (isfinite(fit.best))
        memcpy(levels, fit.best_levels, sizeof fit.best_levels);
    return isfinite(fit.best);
}

// ---- what the system tells ----

// Cores that share the last cache, at least one.
static int l3_sharers(void) {
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", "re");
    int count = 0, from, to;
    char after = ',';
    while (file && after == ',' && fscanf(file, "%d", &from) == 1) {
        to = from;
        if (fscanf(file, "%c", &after) == 1 && after == '-' &&
            fscanf(file, "%d%c", &to, &after) < 1)
            break;
        count += to - from + 1;
    }
    if (file)
        fclose(file);
    return count < 1 ? 1 : count;
}
// A step that ends before L2 does, as it is told, is none: what others have of L2, or pages that
// meet in few sets, make larger ranges slower. No L3 is so small.
static bool find_levels(const double *rates, int64_t told_l2, Level *levels) {
    if (!fit_levels(rates, 0, levels))
        return false;
    int end = levels[2].to;
    if ((int64_t)measure_range_bytes(end - 1) <= told_l2)
        (void)fit_levels(rates, end, levels);
    return true;
}

// ---- facts ----

// The largest range that is nearer to its level's rate than to the next one's.
static int64_t level_size(const double *rates, const Level *level) {
    double here = measure_median(rates, level[0].from, level[0].to);
    double next = measure_median(rates, level[1].from, level[1].to);
    int last = level[0].to - 1;
    while (last + 1 < level[1].from && rates[last + 1] > sqrt(here * next))
        last++;
    return (int64_t)measure_range_bytes(last);
}

// Of a core's own caches what is told, where that is up to twice what is measured: the last ranges
// of a level share it with all else that the core does, on its other thread too.
static int64_t own_size(const double *rates, const Level *level, int64_t told) {
    int64_t measured = level_size(rates, level);
    return measured < told && 2 * measured >= told ? told : measured;
}

bool cpu_set_caches(Machine *machine, const double rates[CPU_RANGES], const int64_t told[2]) {
    Level levels[N_LEVELS];
    if (!find_levels(rates, told[1], levels))
        return false;
    double *found[] = {&machine->l1_bytes_per_second, &machine->l2_bytes_per_second,
                       &machine->l3_bytes_per_second, &machine->memory_bytes_per_second};
    int64_t last = level_size(rates, &levels[2]);
    // Between L3 and memory the rates fall slowly: only the last ranges are memory's for sure.
    levels[N_LEVELS - 1].from = RANGES - LEVEL_LEAST;
    for (int i = 0; i < N_LEVELS; i++)
        *found[i] = measure_median(rates, levels[i].from, levels[i].to);
    machine->l1_bytes = own_size(rates, &levels[0], told[0]);
    machine->l2_bytes = own_size(rates, &levels[1], told[1]);
    // No step behind L2's: all larger ranges are in L3, and memory is a guess for now.
    bool guessed = *found[2] < STEP_LEAST * *found[3];
    if (guessed) {
        *found[2] = measure_median(rates, levels[2].from, RANGES);
        *found[3] = *found[2] / 2;
        last = (int64_t)measure_range_bytes(RANGES - 1);
    }
    // Of L3 others have a share that changes: a power of two of it can be counted on.
    last -= last & (last - 1) ? last / 3 : 0; // ranges are 2 or 3 times such a power
    int sharers = l3_sharers();
    last /= sharers < machine->threads ? sharers : machine->threads;
    machine->l3_bytes = last > machine->l2_bytes ? last : machine->l2_bytes;
    return guessed;
}

// Where two levels are written equally fast, the further one is measured now slower, now faster: no
// level is written faster than one that is nearer.
void cpu_set_write_costs(Machine *machine, const CpuStream streams[CPU_STREAMS]) {
    static const double MOST = 4; // times as long as reading; more is a disturbed measurement
    double *costs[CPU_STREAMS] = {&machine->l2_write_cost, &machine->l3_write_cost,
                                  &machine->memory_write_cost};
    const size_t l1 = (size_t)machine->l1_bytes, l2 = (size_t)machine->l2_bytes;
    const size_t l3 = (size_t)machine->l3_bytes * (size_t)machine->threads; // for one core alone
    const bool there[CPU_STREAMS] = {
        streams[0].bytes > l1 && streams[0].bytes <= l2,
        2 * streams[1].bytes >= 3 * l2 && streams[1].bytes <= l3,
        streams[2].bytes > l3,
    };
    double slowest = 0; // seconds of a byte
    for (int i = 0; i < CPU_STREAMS; i++) {
        if (!there[i])
            continue;
        slowest = fmax(slowest, 1 / streams[i].written);
        *costs[i] = fmin(fmax(streams[i].read * slowest, 1), MOST);
    }
}
