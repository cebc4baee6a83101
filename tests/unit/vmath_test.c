// SPDX-License-Identifier: Apache-2.0
// Accuracy of the vector math against the C library's double functions, for every level that this
// machine runs: of every 1021st float and the special ones, or of every Nth with the argument
// `--every N` (`make accuracy`: 1, all 2^32). The argument --time prints nanoseconds per 16 floats.
//
// Results are the same bits on all levels but for those marked BY_LEVEL, so errors are measured
// once; for odd and even functions negative arguments are compared with positive ones instead of
// the reference.
#include "vmath_fixture.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK = 4096, SAMPLE_STRIDE = 1021 };

typedef struct {
    double ulps;
    uint32_t bits; // of the argument
} Worst;

static void report(const Suite *suite, const Function *function, Worst worst) {
    double at = (double)float_of(worst.bits);
    if (suite->stride < SAMPLE_STRIDE)
        printf("%-6s %.4f ulp at %a\n", op_name(function->op), worst.ulps, at);
    if (worst.ulps > function->bound)
        fail_msg("%s is wrong by %.4f ulp at %a", op_name(function->op), worst.ulps, at);
}

// ---- all floats --------------------------------------------------------------------------------

typedef struct {
    const Function *function;
    Code code[N_LEVELS_MAX];
    int n_levels;
    uint32_t stride;
    int64_t below;         // arguments are the bit patterns under this
    Worst *worst;          // per task
    atomic_uint different; // an argument whose results should be alike and are not, 0: none
} Sweep;

// One task takes 2^20 arguments, stride apart.
enum { TASK_BLOCKS = 256 };

// Room of one thread.
typedef struct {
    float x[BLOCK], y[BLOCK], other[BLOCK];
} Room;

static void measure(const Sweep *sweep, int level, Room *room, Worst *worst) {
    sweep->code[level](room->x, room->x, room->y, BLOCK);
    for (int64_t i = 0; i < BLOCK; i++) {
        double error = ulps(room->y[i], sweep->function->reference((double)room->x[i]));
        if (error > worst->ulps)
            *worst = (Worst){error, bits_of(room->x[i])};
    }
}

// The other levels give what room->y holds, and all give its mirror image for mirrored arguments.
static void compare(Sweep *sweep, Room *room) {
    bool mirrors = sweep->function->symmetry == ODD || sweep->function->symmetry == EVEN;
    for (int mirrored = 0; mirrored <= mirrors; mirrored++) {
        for (int i = 0; mirrored && i < BLOCK; i++)
            room->x[i] = -room->x[i];
        for (int i = 0; mirrored && sweep->function->symmetry == ODD && i < BLOCK; i++)
            room->y[i] = -room->y[i];
        for (int level = !mirrored; level < sweep->n_levels; level++) {
            sweep->code[level](room->x, room->x, room->other, BLOCK);
            if (memcmp(room->y, room->other, sizeof room->y) == 0)
                continue;
            for (int i = 0; i < BLOCK; i++)
                if (!alike(room->y[i], room->other[i]))
                    atomic_store(&sweep->different, bits_of(room->x[i]));
        }
    }
}

static void sweep_task(void *arg, void *scratch, int64_t task) {
    Sweep *sweep = arg;
    Room *room = scratch;
    for (int64_t block = task * TASK_BLOCKS; block < (task + 1) * TASK_BLOCKS; block++) {
        for (int64_t i = 0; i < BLOCK; i++) {
            int64_t bits = (block * BLOCK + i) * sweep->stride;
            room->x[i] = float_of(bits >= sweep->below ? 0 : (uint32_t)bits);
        }
        bool by_level = sweep->function->symmetry == BY_LEVEL;
        for (int level = by_level ? sweep->n_levels - 1 : 0; level >= 0; level--)
            measure(sweep, level, room, &sweep->worst[task]);
        if (!by_level)
            compare(sweep, room);
    }
}

static void all_floats(void **state) {
    Suite *suite = *state;
    for (int f = 0; f < N_FUNCTIONS; f++) {
        Sweep sweep = {.function = &vmath_functions[f], .n_levels = suite->n_levels};
        sweep.stride = suite->stride;
        Symmetry symmetry = vmath_functions[f].symmetry;
        sweep.below = INT64_C(1) << (symmetry == ODD || symmetry == EVEN ? 31 : 32);
        int64_t per_task = (int64_t)TASK_BLOCKS * BLOCK * sweep.stride;
        int64_t tasks = (sweep.below + per_task - 1) / per_task;
        sweep.worst = calloc((size_t)tasks, sizeof *sweep.worst);
        assert_non_null(sweep.worst);
        for (int level = 0; level < suite->n_levels; level++)
            sweep.code[level] = vmath_code(suite->machine[level], vmath_functions[f].op, ELEM_F32,
                                           suite->target[level]->machine.vector_bytes / 4);
        assert_int_equal(att_parallel(suite->ctx, sweep_task, &sweep, tasks, sizeof(Room)), ATT_OK);
        Worst worst = {0};
        for (int64_t task = 0; task < tasks; task++)
            if (sweep.worst[task].ulps > worst.ulps)
                worst = sweep.worst[task];
        uint32_t different = atomic_load(&sweep.different);
        if (different)
            fail_msg("%s(%a) differs between levels, or from its mirror image",
                     op_name(vmath_functions[f].op), (double)float_of(different));
        report(suite, &vmath_functions[f], worst);
        free(sweep.worst);
    }
}

// ---- powers ------------------------------------------------------------------------------------

// pow over two arguments cannot be tried in full: all pairs of special values, and pairs whose
// result is in range.
static void powers(void **state) {
    enum { N = 1 << 16 };
    static float a[N], b[N], y[N], special[SPECIAL_MAX];
    Suite *suite = *state;
    int n = vmath_special(special);
    const int rounds = suite->stride < SAMPLE_STRIDE ? 1000 : 10;
    for (int level = 0; level < suite->n_levels; level++) {
        Function function = {OP_POW, NULL, 2, NO_SYMMETRY};
        Worst worst = {0};
        Code code = vmath_code(suite->machine[level], OP_POW, ELEM_F32,
                               suite->target[level]->machine.vector_bytes / 4);
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < n; j++)
                b[j] = special[i];
            code(special, b, y, n);
            for (int j = 0; j < n; j++)
                if (ulps(y[j], pow((double)special[j], (double)b[j])) > 2)
                    fail_msg("pow(%a, %a) is %a", (double)special[j], (double)b[j], (double)y[j]);
        }
        for (int round = 0; round < rounds; round++) {
            att_random_uniform(7, (uint64_t)round, N, a);
            att_random_uniform(8, (uint64_t)round, N, b);
            for (int i = 0; i < N; i++) {
                double log2_a = ((double)a[i] - 0.5) * (i % 2 ? 290 : 2);
                a[i] = (float)exp2(log2_a);
                b[i] = (float)(((double)b[i] - 0.5) * 300 / log2_a);
                if (i % 5 == 0) {
                    a[i] = -a[i];
                    b[i] = rintf(b[i]);
                }
            }
            code(a, b, y, N);
            for (int i = 0; i < N; i++) {
                double error = ulps(y[i], pow((double)a[i], (double)b[i]));
                if (error > worst.ulps)
                    worst = (Worst){error, bits_of(a[i])};
            }
        }
        report(suite, &function, worst);
    }
}

// ---- times -------------------------------------------------------------------------------------

static double seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

// Over an array in L1, the fastest of many runs. The arguments are in every function's range.
static void print_times(const Suite *suite) {
    enum { N = 2048, CALLS = 50, RUNS = 200 };
    static float x[N], y[N];
    att_random_uniform(1, 1, N, x);
    for (int i = 0; i < N; i++)
        x[i] = x[i] * 20 + 0.01f;
    for (int f = 0; f <= N_FUNCTIONS; f++) {
        Op op = f < N_FUNCTIONS ? vmath_functions[f].op : OP_POW;
        printf("%-6s", op_name(op));
        for (int level = 0; level < suite->n_levels; level++) {
            const Target *target = suite->target[level];
            Code code =
                vmath_code(suite->machine[level], op, ELEM_F32, target->machine.vector_bytes / 4);
            double best = INFINITY;
            for (int run = 0; run < RUNS; run++) {
                double start = seconds();
                for (int call = 0; call < CALLS; call++)
                    code(x, x, y, N);
                best = fmin(best, seconds() - start);
            }
            printf("  %s %.2f", target->name, best * 1e9 * 16 / CALLS / N);
        }
        printf("\n");
    }
}

int main(int argc, char **argv) {
    Suite suite = {.stride = SAMPLE_STRIDE};
    if (argc > 2 && strcmp(argv[1], "--every") == 0)
        suite.stride = (uint32_t)strtoul(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(all_floats, &suite),
        cmocka_unit_test_prestate(powers, &suite),
    };
    if (vmath_open(&suite))
        return 1;
    int failed = 0;
    if (argc > 1 && strcmp(argv[1], "--time") == 0)
        print_times(&suite);
    else
        failed = cmocka_run_group_tests_name("vmath", tests, NULL, NULL);
    vmath_close(&suite);
    return failed;
}
