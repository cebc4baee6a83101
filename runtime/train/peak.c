// SPDX-License-Identifier: Apache-2.0
// The machine's peak: fused multiply-adds on registers alone, with as many threads as a measurement
// uses.
//
// Independent chains hide the latency of the unit (4 cycles times 2 units on today's machines),
// nothing touches memory, so the rate is what any kernel could reach at the clock of this very
// moment.

#include "peak.h"

#include "internal.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { CHAINS = 12, ROUNDS = 20000 };

// One step of every chain (they start apart, or a compiler would make them one). Named variables,
// since an array would only stay in registers by luck.
#define STEP(fma, x, y)                                                                            \
    (a0 = fma(a0, x, y), a1 = fma(a1, x, y), a2 = fma(a2, x, y), a3 = fma(a3, x, y),               \
     a4 = fma(a4, x, y), a5 = fma(a5, x, y), a6 = fma(a6, x, y), a7 = fma(a7, x, y),               \
     a8 = fma(a8, x, y), a9 = fma(a9, x, y), a10 = fma(a10, x, y), a11 = fma(a11, x, y))

__attribute__((target("avx512f"))) static float chains_v4(void) {
    __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f);
    __m512 a0 = x, a1 = a0 + x, a2 = a1 + x, a3 = a2 + x, a4 = a3 + x, a5 = a4 + x, a6 = a5 + x,
           a7 = a6 + x, a8 = a7 + x, a9 = a8 + x, a10 = a9 + x, a11 = a10 + x;
    for (int i = 0; i < ROUNDS; i++)
        STEP(_mm512_fmadd_ps, x, y);
    a0 += a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11;
    return _mm512_reduce_add_ps(a0);
}

__attribute__((target("avx2,fma"))) static float chains_v3(void) {
    __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f);
    __m256 a0 = x, a1 = a0 + x, a2 = a1 + x, a3 = a2 + x, a4 = a3 + x, a5 = a4 + x, a6 = a5 + x,
           a7 = a6 + x, a8 = a7 + x, a9 = a8 + x, a10 = a9 + x, a11 = a10 + x;
    for (int i = 0; i < ROUNDS; i++)
        STEP(_mm256_fmadd_ps, x, y);
    a0 += a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11;
    float lanes[8], total = 0;
    _mm256_storeu_ps(lanes, a0);
    for (int i = 0; i < 8; i++)
        total += lanes[i];
    return total;
}

typedef struct {
    int lanes;
    volatile float sink[64];
} PeakRun;

static void peak_task(void *arg, void *scratch, int64_t task) {
    (void)scratch;
    PeakRun *run = arg;
    run->sink[task & 63] = run->lanes == 16 ? chains_v4() : chains_v3();
}

double att_peak_flops(AttContext *ctx, int vector_bytes) {
    PeakRun run = {.lanes = vector_bytes / 4};
    int64_t tasks = 4 * (int64_t)att_context_threads(ctx);
    double begun = att_seconds();
    if (att_parallel(ctx, peak_task, &run, tasks, 0))
        return 0;
    return 2.0 * run.lanes * CHAINS * ROUNDS * (double)tasks / (att_seconds() - begun);
}

#else

double att_peak_flops(AttContext *ctx, int vector_bytes) {
    (void)ctx, (void)vector_bytes;
    return 0;
}

#endif
