// SPDX-License-Identifier: Apache-2.0
// The caches and rates of the machine that this runs on, measured in less than half a second.
//
// Multiply-adds are those of a microkernel with its data in L1, splats those of its rows alone. For
// the caches, one core reads ranges of growing size again and again (caches.c), and writes one of
// each.
//
// Others may use the machine for some of that time, and what is measured is kept: everything is
// measured in turns, on one core after the other, so that no rate is taken from one moment or
// beside one neighbour, and the better ones count: others make a turn slower, never faster. A core
// whose other thread is busy has half of L1 and L2 for tens of turns.
#include <immintrin.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "attc.h"
#include "cpu/measure.h"

enum {
    RANGES = CPU_RANGES,
    TURNS_LEAST = 5, // the best of which counts for reading
    TURNS_MOST = 100,
    FLOATS_PER_STEP = 128,
    STEPS = 256, // of a call of the microkernel
    CALLS = 100,
    RUNS = 12,                // of so many calls in a turn
    PANELS_BYTES = 128 << 10, // more than L1 has, less than L2
    MORE_THAN_L2 = 6 << 20,   // bytes
    APART = 1040,             // floats: rows in pages of their own, whose lines meet in no set
    ONE_SET_APART = 1024,     // floats: lines that meet in one set of L1
    ONE_SET_STEPS = 64,       // of them, more than it has ways, and L2 keeps them
    RATES_MOST = RUNS * TURNS_MOST,
    PAIRS_KEPT = 10, // one of so many
};
_Static_assert((int)RATES_MOST <= (int)MEASURE_RATES_MOST, "rates to rank");
static const size_t HUGE_PAGE = 2 << 20;     // of which the largest range is a multiple
static const double SECONDS = 0.2;           // no turn begins later, but for the least
static const double FAR_SECONDS = 0.05;      // likewise
static const size_t READ_AT_LEAST = 2 << 20; // bytes for one clock reading
static const size_t FAR_BYTES = 128 << 20;   // for memory, where L3 is larger than all ranges
// The share of runs that may be disturbed: a neighbour on the core's other thread slows all of them
// down for as long as it works, often for most of the time.
static const double SLOWER = 0.97;

// ---- reading ----

__attribute__((target("avx512f"))) static float read_v4(const float *at, size_t count) {
    __m512 a = _mm512_setzero_ps(), b = a, c = a, d = a;
    for (size_t i = 0; i < count; i += FLOATS_PER_STEP) {
        a += _mm512_load_ps(at + i) + _mm512_load_ps(at + i + 16);
        b += _mm512_load_ps(at + i + 32) + _mm512_load_ps(at + i + 48);
        c += _mm512_load_ps(at + i + 64) + _mm512_load_ps(at + i + 80);
        d += _mm512_load_ps(at + i + 96) + _mm512_load_ps(at + i + 112);
    }
    return _mm512_reduce_add_ps((a + b) + (c + d));
}

__attribute__((target("avx2"))) static float sum_of_lanes(__m256 x) {
    float lanes[8], total = 0;
    _mm256_storeu_ps(lanes, x);
    for (int i = 0; i < 8; i++)
        total += lanes[i];
    return total;
}

__attribute__((target("avx2"))) static float read_v3(const float *at, size_t count) {
    __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
    for (size_t i = 0; i < count; i += FLOATS_PER_STEP / 2) {
        a += _mm256_load_ps(at + i) + _mm256_load_ps(at + i + 8);
        b += _mm256_load_ps(at + i + 16) + _mm256_load_ps(at + i + 24);
        c += _mm256_load_ps(at + i + 32) + _mm256_load_ps(at + i + 40);
        d += _mm256_load_ps(at + i + 48) + _mm256_load_ps(at + i + 56);
    }
    return sum_of_lanes((a + b) + (c + d));
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Where a range lies in a turn. Pages are given out by chance, and where many of them meet in the
// same sets a cache holds less: the best place counts, like the best turn.
static float *range_place(float *memory, size_t bytes, int turn) {
    size_t places = (measure_range_bytes(RANGES - 1) - bytes) / HUGE_PAGE + 1;
    return memory + (size_t)turn % places * (HUGE_PAGE / sizeof(float));
}

// Raises the rates of ranges, bytes per second, to what they are read with now.
static void read_ranges(float *memory, int vector_bytes, int turn, double *rates) {
    float (*read)(const float *, size_t) = vector_bytes >= 64 ? read_v4 : read_v3;
    volatile float sink = 0;
    for (int i = 0; i < RANGES; i++) {
        size_t bytes = measure_range_bytes(i), times = 1 + READ_AT_LEAST / bytes;
        const float *range = range_place(memory, bytes, turn);
        sink += read(range, bytes / sizeof(float));
        double begun = seconds_now();
        for (size_t k = 0; k < times; k++)
            sink += read(range, bytes / sizeof(float));
        rates[i] = fmax(rates[i], (double)(bytes * times) / (seconds_now() - begun));
    }
}

// ---- writing ----

__attribute__((target("avx512f"), noinline)) static void write_v4(float *at, size_t count,
                                                                  float number) {
    __m512 x = _mm512_set1_ps(number);
    for (size_t i = 0; i < count; i += FLOATS_PER_STEP)
        for (int k = 0; k < FLOATS_PER_STEP; k += 16)
            _mm512_store_ps(at + i + k, x);
}

__attribute__((target("avx2"), noinline)) static void write_v3(float *at, size_t count,
                                                               float number) {
    __m256 x = _mm256_set1_ps(number);
    for (size_t i = 0; i < count; i += FLOATS_PER_STEP)
        for (int k = 0; k < FLOATS_PER_STEP; k += 8)
            _mm256_store_ps(at + i + k, x);
}

// Raises both to what they are now. It is long enough that what was written goes back while more
// is; the first reading, which does not count, sends back what an earlier turn wrote.
static void read_and_write(float *memory, int vector_bytes, int turn, CpuStream *stream) {
    float (*read)(const float *, size_t) = vector_bytes >= 64 ? read_v4 : read_v3;
    void (*write)(float *, size_t, float) = vector_bytes >= 64 ? write_v4 : write_v3;
    float *range = range_place(memory, stream->bytes, turn);
    size_t count = stream->bytes / sizeof(float), times = 1 + READ_AT_LEAST / stream->bytes;
    volatile float sink = read(range, count);
    double begun = seconds_now();
    for (size_t k = 0; k < times; k++)
        sink += read(range, count);
    double between = seconds_now();
    for (size_t k = 0; k < times; k++)
        write(range, count, (float)turn + 0.5F);
    double ended = seconds_now(), all = (double)(stream->bytes * times);
    stream->read = fmax(stream->read, all / (between - begun));
    stream->written = fmax(stream->written, all / (ended - between));
}

// ---- multiply-adds ----

// One step of a microkernel: a vector and 6 splats of L1 make 12 sums longer, two for each splat.
// Less power goes into multiply-adds on registers alone, which run at a higher clock than
// contractions.
#define STEP(splat, fma, at, x, y)                                                                 \
    (s = splat(at[0]), a0 = fma(s, x, a0), a1 = fma(s, y, a1), s = splat(at[1]),                   \
     a2 = fma(s, x, a2), a3 = fma(s, y, a3), s = splat(at[2]), a4 = fma(s, x, a4),                 \
     a5 = fma(s, y, a5), s = splat(at[3]), a6 = fma(s, x, a6), a7 = fma(s, y, a7),                 \
     s = splat(at[4]), a8 = fma(s, x, a8), a9 = fma(s, y, a9), s = splat(at[5]),                   \
     a10 = fma(s, x, a10), a11 = fma(s, y, a11))

// Steps over `count` rows of 6 splats and two vectors; the latter `stride` floats apart.
__attribute__((target("avx512f"))) static float steps_v4(const float *splats, const float *vectors,
                                                         size_t stride, int count) {
    __m512 s, a0 = _mm512_setzero_ps(), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0,
              a7 = a0, a8 = a0, a9 = a0, a10 = a0, a11 = a0;
    for (int i = 0; i < count; i++, splats += 6, vectors += stride) {
        __m512 x = _mm512_load_ps(vectors), y = _mm512_load_ps(vectors + 16);
        STEP(_mm512_set1_ps, _mm512_fmadd_ps, splats, x, y);
    }
    return _mm512_reduce_add_ps(a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11);
}

__attribute__((target("avx2,fma"))) static float steps_v3(const float *splats, const float *vectors,
                                                          size_t stride, int count) {
    __m256 s, a0 = _mm256_setzero_ps(), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0,
              a7 = a0, a8 = a0, a9 = a0, a10 = a0, a11 = a0;
    for (int i = 0; i < count; i++, splats += 6, vectors += stride) {
        __m256 x = _mm256_load_ps(vectors), y = _mm256_load_ps(vectors + 8);
        STEP(_mm256_set1_ps, _mm256_fmadd_ps, splats, x, y);
    }
    return sum_of_lanes(a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11);
}

typedef float (*Steps)(const float *, const float *, size_t, int);

static Steps steps_of(int vector_bytes) {
    return vector_bytes >= 64 ? steps_v4 : steps_v3;
}

// Floating-point operations per second of short runs.
static void contract(const float *memory, int vector_bytes, double *rates) {
    Steps steps = steps_of(vector_bytes);
    volatile float sink = 0;
    for (int i = 0; i < RUNS; i++) {
        double begun = seconds_now();
        for (int k = 0; k < CALLS; k++)
            sink += steps(memory, memory + 4096, (size_t)vector_bytes / 2, STEPS);
        rates[i] = 2.0 * 12 * (vector_bytes / 4) * STEPS * CALLS / (seconds_now() - begun);
    }
}

// ---- lines of L2 and L3 ----

// Panels of two vectors that a microkernel reads, side by side; the rows of one lie `stride` floats
// apart. Where that is a row's length, the panels lie one behind the other.
typedef struct {
    size_t rows, stride, bytes; // rows of a panel, bytes of all panels
    size_t from;                // floats of the memory before the first
} Panels;

// Seconds of a step in a short run over the next panels. *next: the number of the first; it goes
// on.
static double take_panels(const float *memory, int vector_bytes, Panels panels, size_t *next) {
    Steps steps = steps_of(vector_bytes);
    size_t row = (size_t)vector_bytes / 2, beside = panels.stride / row;
    size_t group = panels.rows * panels.stride, count = panels.bytes / (4 * row * panels.rows);
    const float *first = memory + 4096 + panels.from;
    volatile float sink = 0;
    double begun = seconds_now();
    for (int k = 0; k < CALLS; k++) {
        const float *panel = first + *next / beside * group + *next % beside * row;
        sink += steps(memory, panel, panels.stride, (int)panels.rows);
        *next = (*next + 1) % count;
    }
    return (seconds_now() - begun) / ((double)panels.rows * CALLS);
}

typedef struct {
    double in_a_row, apart;
} Pair;

// apart: against as many panels one behind the other.
static void take_pairs(const float *memory, int vector_bytes, Panels apart, Pair *pairs) {
    Panels in_a_row = {apart.rows, (size_t)vector_bytes / 2, apart.bytes, 0};
    size_t next[2] = {0, 0};
    for (int i = 0; i < RUNS; i++)
        pairs[i] = (Pair){take_panels(memory, vector_bytes, in_a_row, &next[0]),
                          take_panels(memory, vector_bytes, apart, &next[1])};
}

static int by_sum(const void *a, const void *b) {
    const Pair *x = a, *y = b;
    double difference = x->in_a_row + x->apart - (y->in_a_row + y->apart);
    return (difference > 0) - (difference < 0);
}

// The part of `brought`, seconds that a step's lines take to come, that a step takes longer with
// its lines apart: by the median of the pairs that took the least, which nobody disturbed.
static double part_exposed(Pair *pairs, int count, double brought) {
    double longer[RATES_MOST];
    int kept = count / PAIRS_KEPT;
    qsort(pairs, (size_t)count, sizeof *pairs, by_sum);
    for (int i = 0; i < kept; i++)
        longer[i] = pairs[i].apart - pairs[i].in_a_row;
    return fmin(fmax(measure_median(longer, 0, kept) / brought, 0), 1);
}

// ---- splats ----

enum { SPLATS = 8 }; // of a step, each into bits of its own

#define SPLAT_STEP(xor, splat, from)                                                               \
    (a0 = xor(a0, splat(from[0])), a1 = xor(a1, splat(from[1])), a2 = xor(a2, splat(from[2])),     \
     a3 = xor(a3, splat(from[3])), a4 = xor(a4, splat(from[4])), a5 = xor(a5, splat(from[5])),     \
     a6 = xor(a6, splat(from[6])), a7 = xor(a7, splat(from[7])))

__attribute__((target("avx512f"))) static int splats_v4(const int *from, int count) {
    __m512i a0 = _mm512_setzero_si512(), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0,
            a7 = a0;
    for (int i = 0; i < count; i++, from += SPLATS)
        SPLAT_STEP(_mm512_xor_si512, _mm512_set1_epi32, from);
    return _mm512_reduce_add_epi32(a0 ^ a1 ^ a2 ^ a3 ^ a4 ^ a5 ^ a6 ^ a7);
}

__attribute__((target("avx2"))) static int splats_v3(const int *from, int count) {
    __m256i a0 = _mm256_setzero_si256(), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0,
            a7 = a0;
    for (int i = 0; i < count; i++, from += SPLATS)
        SPLAT_STEP(_mm256_xor_si256, _mm256_set1_epi32, from);
    return _mm256_extract_epi32(a0 ^ a1 ^ a2 ^ a3 ^ a4 ^ a5 ^ a6 ^ a7, 0);
}

// Per second, of short runs.
static void splat(const float *memory, int vector_bytes, double *rates) {
    int (*splats)(const int *, int) = vector_bytes >= 64 ? splats_v4 : splats_v3;
    volatile int sink = 0;
    for (int i = 0; i < RUNS; i++) {
        double begun = seconds_now();
        for (int k = 0; k < CALLS; k++)
            sink ^= splats((const int *)memory, STEPS);
        rates[i] = (double)SPLATS * STEPS * CALLS / (seconds_now() - begun);
    }
}

// Bytes of L1 and L2, 0 where nothing is told.
static int64_t told_size(int level) {
    const int names[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE};
    long bytes = sysconf(names[level]);
    return bytes > 0 ? bytes : 0;
}

static float *make_range(size_t bytes) {
    float *memory = aligned_alloc(HUGE_PAGE, bytes);
    if (!memory)
        return NULL;
#ifdef MADV_HUGEPAGE
    (void)madvise(memory, bytes, MADV_HUGEPAGE); // as what kernels read
#endif
    for (size_t i = 0; i < bytes / sizeof(float); i += 1024)
        memory[i] = 1; // a page of its own
    return memory;
}

// How fast more is read than the ranges have, bytes per second, in the best of a few turns; 0:
// there is no memory for it.
static double far_rate(int vector_bytes) {
    float (*read)(const float *, size_t) = vector_bytes >= 64 ? read_v4 : read_v3;
    float *range = make_range(FAR_BYTES);
    double least = INFINITY;
    volatile float sink = 0;
    for (int turn = 0; range && turn < TURNS_LEAST; turn++) {
        double begun = seconds_now();
        sink += read(range, FAR_BYTES / sizeof(float));
        least = fmin(least, seconds_now() - begun);
    }
    free(range);
    return (double)FAR_BYTES / least;
}

// Goes on to the next core of these.
static void change_core(const cpu_set_t *usable, int *core) {
    cpu_set_t next;
    CPU_ZERO(&next);
    do
        *core = (*core + 1) % CPU_SETSIZE;
    while (!CPU_ISSET(*core, usable));
    CPU_SET(*core, &next);
    (void)sched_setaffinity(0, sizeof next, &next);
}

// What is measured in turns; of each part of a machine that is exposed its panels.
typedef enum { SCATTERED, ONE_SET, FAR, PARTS } Part;
typedef struct {
    float *memory, *written; // what is written has memory of its own
    int vector_bytes;
    double rates[RANGES], flops[RATES_MOST], splats[RATES_MOST];
    Panels panels[PARTS];
    Pair pairs[PARTS][RATES_MOST];
    CpuStream streams[CPU_STREAMS];
} Measured;

// Memory in the first turns only, which take it long.
static void turn_writing(Measured *to, int turn) {
    for (int i = 0; i < (turn < TURNS_LEAST ? CPU_STREAMS : CPU_STREAMS - 1); i++)
        read_and_write(to->written, to->vector_bytes, turn, &to->streams[i]);
}

static void turn_near(Measured *to, int turn) {
    read_ranges(to->memory, to->vector_bytes, turn, to->rates);
    contract(to->memory, to->vector_bytes, to->flops + turn * RUNS);
    splat(to->memory, to->vector_bytes, to->splats + turn * RUNS);
    for (int part = SCATTERED; part <= ONE_SET; part++)
        take_pairs(to->memory, to->vector_bytes, to->panels[part], to->pairs[part] + turn * RUNS);
    turn_writing(to, turn);
}

static void turn_far(Measured *to, int turn) {
    take_pairs(to->memory, to->vector_bytes, to->panels[FAR], to->pairs[FAR] + turn * RUNS);
}

// Everything in turns, on all cores that this may run on. Returns the number of runs.
static int in_turns(void (*one_turn)(Measured *, int), double seconds, Measured *to) {
    double begun = seconds_now();
    int turns = 0, core = -1;
    cpu_set_t usable;
    bool known = !sched_getaffinity(0, sizeof usable, &usable) && CPU_COUNT(&usable) > 0;
    for (; turns < TURNS_LEAST || (turns < TURNS_MOST && seconds_now() < begun + seconds);
         turns++) {
        if (known)
            change_core(&usable, &core);
        one_turn(to, turns);
    }
    if (known)
        (void)sched_setaffinity(0, sizeof usable, &usable);
    return turns * RUNS;
}

// As much of L3 as L2 does not keep; 0 where it has no more than L2.
static int64_t far_bytes(const Machine *machine) {
    int64_t most = (int64_t)measure_range_bytes(RANGES - 1) / 3, bytes = 4 * machine->l2_bytes;
    int64_t l3 = machine->l3_bytes * machine->threads; // one core alone has all of it
    bytes = bytes < l3 / 4 ? bytes : l3 / 4;
    bytes = bytes < most ? bytes : most;
    return 2 * bytes < 3 * machine->l2_bytes ? 0 : bytes;
}

// The panels of a pair have memory of their own each: what one brings to L2 the other must not find
// there.
static void measure_far(Measured *measured, Machine *machine) {
    int64_t bytes = far_bytes(machine);
    machine->one_set_far_exposed = 0;
    if (!bytes)
        return;
    int64_t group = 4 * STEPS * ONE_SET_APART;
    size_t from = (size_t)((bytes + group - 1) / group * group) / sizeof(float);
    measured->panels[FAR] = (Panels){STEPS, ONE_SET_APART, (size_t)bytes, from};
    int runs = in_turns(turn_far, FAR_SECONDS, measured);
    double brought = 2.0 * machine->vector_bytes / machine->l3_bytes_per_second;
    machine->one_set_far_exposed = part_exposed(measured->pairs[FAR], runs, brought);
}

static void measure_all(Measured *measured, Machine *machine) {
    int runs = in_turns(turn_near, SECONDS, measured);
    machine->flops_per_second = measure_ranked(measured->flops, 0, runs, SLOWER);
    machine->splats_per_second = measure_ranked(measured->splats, 0, runs, SLOWER);
    machine->threads = att_cores_usable();
    double *memory_rate = &machine->memory_bytes_per_second;
    bool guessed =
        cpu_set_caches(machine, measured->rates, (int64_t[]){told_size(0), told_size(1)});
    if (guessed)
        *memory_rate =
            fmin(fmax(*memory_rate, far_rate(machine->vector_bytes)), machine->l3_bytes_per_second);
    double brought = 2.0 * machine->vector_bytes / machine->l2_bytes_per_second;
    machine->scattered_exposed = part_exposed(measured->pairs[SCATTERED], runs, brought);
    machine->one_set_exposed = part_exposed(measured->pairs[ONE_SET], runs, brought);
    measure_far(measured, machine);
    if (guessed) // nothing that was written is in memory for sure
        measured->streams[CPU_STREAMS - 1].bytes = 0;
    cpu_set_write_costs(machine, measured->streams);
}

bool cpu_measure(Machine *machine) {
    size_t most = measure_range_bytes(RANGES - 1);
    float *memory = make_range(most), *written = make_range(most);
    Measured *measured = calloc(1, sizeof *measured);
    bool found = memory && written && measured;
    if (found) {
        for (int i = 0; i < 16384; i++)
            memory[i] = (float)(i * 7 % 64) / 64; // bits that change
        measured->memory = memory;
        measured->written = written;
        measured->vector_bytes = machine->vector_bytes;
        measured->panels[SCATTERED] = (Panels){STEPS, APART, PANELS_BYTES, 0};
        measured->panels[ONE_SET] = (Panels){ONE_SET_STEPS, ONE_SET_APART, PANELS_BYTES, 0};
        measured->streams[0].bytes = PANELS_BYTES;
        measured->streams[1].bytes = MORE_THAN_L2;
        measured->streams[2].bytes = most;
        measure_all(measured, machine);
    }
    free(memory);
    free(written);
    free(measured);
    return found;
}
