// SPDX-License-Identifier: Apache-2.0
// Contraction kernels of many shapes against the machine's multiply-add peak, measured in turns.
// Prints a table; judges nothing. It is how the numbers in targets/cpu/x86_64.c were found:
//
//     gemm_bench [v3|v4] N F D                      a sweep over blocks and microkernels
//     gemm_bench [v3|v4] N F D task_rows task_lanes block_k block_rows rows lanes pack_a pack_b
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../unit/support.h"

#include "../unit/cpu_fixture.h"
#include "train/peak.h"

typedef struct {
    int64_t n, f, d;
    const Target *target;
    AttContext *context;
    void *buffers[3];
} Bench;

static double clock_seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Time of this thread alone, so that other work on the machine does not count.
static double now(void) {
    return clock_seconds(CLOCK_THREAD_CPUTIME_ID);
}

static double peak_flops(const Bench *bench) {
    double wall = clock_seconds(CLOCK_MONOTONIC), own = now();
    double rate = att_peak_flops(bench->context, bench->target->machine.vector_bytes);
    return rate * (clock_seconds(CLOCK_MONOTONIC) - wall) / (now() - own);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Median share of the peak over `turns` pairs of (peak, kernel); the best one in *best.
static double share(const Bench *bench, CpuCode *code, int turns, double *best) {
    int64_t extents[] = {bench->n, bench->f, bench->d};
    double flops = 2.0 * (double)(bench->n * bench->f * bench->d), shares[64];
    cpu_code_run(code, extents, bench->buffers);
    for (int i = 0; i < turns; i++) {
        double peak = peak_flops(bench);
        double start = now();
        cpu_code_run(code, extents, bench->buffers);
        shares[i] = flops / (now() - start) / peak;
    }
    qsort(shares, (size_t)turns, sizeof *shares, by_value);
    *best = shares[turns - 1];
    return shares[turns / 2];
}

static void measure(const Bench *bench, GemmPlan plan, int turns) {
    Arena *arena = arena_new();
    CpuCode *code = cpu_code_new(arena, cpu_gemm(arena, &plan), bench->target);
    double best, median = share(bench, code, turns, &best);
    printf("%5.1f%% %5.1f%%  %5.1f ms   task %4ldx%-4ld k %4ld rows %4ld  %2dx%-2d %s%s\n",
           100 * median, 100 * best, 1e3 * cpu_code_seconds(code), (long)plan.task_rows,
           (long)plan.task_lanes, (long)plan.block_k, (long)plan.block_rows, plan.row_block,
           plan.lane_block, plan.pack_a ? "A" : "-", plan.pack_b ? "B" : "-");
    fflush(stdout);
    cpu_code_free(code);
    arena_free(arena);
}

static void sweep(const Bench *bench) {
    bool wide = bench->target->machine.vector_bytes == 64;
    static const int shapes_v4[][2] = {{6, 64}, {8, 48}, {9, 48}, {12, 32}, {13, 32}, {14, 32}};
    static const int shapes_v3[][2] = {{6, 16}, {4, 24}, {5, 16}};
    int n = wide ? 6 : 3;
    for (int i = 0; i < n; i++)
        for (int pack = 0; pack < 2; pack++)
            for (int64_t k = 192; k <= 384; k += 64) {
                const int *shape = wide ? shapes_v4[i] : shapes_v3[i];
                if (bench->d % k && k != 320)
                    continue;
                GemmPlan plan = {bench->n, bench->f, bench->d, bench->n, 384, k,
                                 0,        shape[0], shape[1], pack,     true};
                plan.task_rows = bench->n > 512 ? 512 : bench->n;
                plan.block_rows = pack ? shape[0] * 12 : 0;
                measure(bench, plan, 9);
            }
}

int main(int argc, char **argv) {
    if (argc < 5)
        return 2;
    Bench bench = {.n = atoll(argv[2]), .f = atoll(argv[3]), .d = atoll(argv[4])};
    bench.target = strcmp(argv[1], "v3") ? &x86_64_v4 : &x86_64_v3;
    bench.context = att_context_new(1);
    int64_t sizes[] = {bench.n * bench.d, bench.d * bench.f, bench.n * bench.f};
    for (int i = 0; i < 3; i++) {
        bench.buffers[i] = aligned_alloc(64, (size_t)(sizes[i] * 4 + 63) / 64 * 64);
        for (int64_t j = 0; j < sizes[i]; j++)
            ((float *)bench.buffers[i])[j] = (float)(j % 17) / 17 - 0.5f;
    }
    printf("median  best   compile\n");
    if (argc >= 13)
        measure(&bench,
                (GemmPlan){bench.n, bench.f, bench.d, atoll(argv[5]), atoll(argv[6]),
                           atoll(argv[7]), atoll(argv[8]), atoi(argv[9]), atoi(argv[10]),
                           atoi(argv[11]) != 0, atoi(argv[12]) != 0},
                21);
    else
        sweep(&bench);
    for (int i = 0; i < 3; i++)
        free(bench.buffers[i]);
    att_context_free(bench.context);
    return 0;
}
