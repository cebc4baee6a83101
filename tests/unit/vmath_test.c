// SPDX-License-Identifier: Apache-2.0
// Accuracy of the vector math against the C library's double functions, for every level that this
// machine runs: of every 1021st float and the special ones, or of every Nth with the argument
// `--every N` (`make accuracy`: 1, all 2^32). The argument --time prints nanoseconds per 16 floats.
//
// Results are the same bits on all levels but for those marked BY_LEVEL, so errors are measured
// once; for odd and even functions negative arguments are compared with positive ones instead of
// the reference.

#include "support.h"

#include <float.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu/cpu.h"
#include "emit/vmath.h"
#include "internal.h"

enum { BLOCK = 4096, N_LEVELS_MAX = 2, SAMPLE_STRIDE = 1021 };

// ---- code of one function: out[i] = op(a[i], b[i]) ---------------------------------------------
typedef void (*Code)(const void *a, const void *b, void *out, int64_t count);

typedef struct {
    Session *session;
    LLVMOrcLLJITRef jit;
    const Target *target;
    int made;
} Compiled;

static void check_error(LLVMErrorRef error) {
    if (error)
        fail_msg("%s", LLVMGetErrorMessage(error));
}

static Compiled *machine_new(const Target *target) {
    Compiled *machine = calloc(1, sizeof *machine);
    assert_non_null(machine);
    machine->session = session_new();
    machine->target = target;
    LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
    LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(
        builder,
        LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(emit_target_machine(target)));
    check_error(LLVMOrcCreateLLJIT(&machine->jit, builder));
    LLVMOrcDefinitionGeneratorRef process;
    check_error(LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(
        &process, LLVMOrcLLJITGetGlobalPrefix(machine->jit), NULL, NULL));
    LLVMOrcJITDylibAddGenerator(LLVMOrcLLJITGetMainJITDylib(machine->jit), process);
    return machine;
}

static void machine_free(Compiled *machine) {
    check_error(LLVMOrcDisposeLLJIT(machine->jit));
    session_free(machine->session);
    free(machine);
}

static void emit_each_block(EmitModule *m, LLVMValueRef function, Op op, Elem elem, int lanes) {
    EmitLoop loop;
    LLVMValueRef count = LLVMGetParam(function, 3);
    emit_loop_open(m, &loop, index_const(m, 0), count, index_const(m, lanes), false, NULL, 0);
    EmitValue args[2];
    for (unsigned i = 0; i < 2; i++)
        args[i] =
            emit_load(m, elem, lanes, emit_element(m, elem, LLVMGetParam(function, i), loop.at));
    EmitValue result = vmath_call(m, op, args, op == OP_POW ? 2 : 1);
    assert_int_equal(result.elem, elem);
    assert_int_equal(result.lanes, lanes);
    emit_store(m, result, emit_element(m, elem, LLVMGetParam(function, 2), loop.at));
    emit_loop_close(m, &loop, NULL, NULL);
    LLVMBuildRetVoid(m->builder);
}

// lanes must divide the counts that the code is called with.
static Code make_code(Compiled *machine, Op op, Elem elem, int lanes) {
    char name[32];
    snprintf(name, sizeof name, "f%d", machine->made++);
    EmitModule *m = emit_module_new(machine->session->arena, name, machine->target);
    LLVMTypeRef pointer = LLVMPointerTypeInContext(m->context, 0);
    LLVMTypeRef types[] = {pointer, pointer, pointer, LLVMInt64TypeInContext(m->context)};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(m->context), types, 4, 0);
    emit_each_block(m, emit_function(m, name, type, false), op, elem, lanes);
    Blob object;
    const char *why = "";
    if (!emit_compile(m, EMIT_OBJECT, &object, &why))
        fail_msg("%s", why);
    emit_module_free(m);
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRangeCopy(object.bytes, object.length, name);
    check_error(
        LLVMOrcLLJITAddObjectFile(machine->jit, LLVMOrcLLJITGetMainJITDylib(machine->jit), buffer));
    LLVMOrcExecutorAddress address = 0;
    check_error(LLVMOrcLLJITLookup(machine->jit, &address, name));
    return (Code)(uintptr_t)address;
}

// ---- references: the C library, and short series where its result is known beforehand ----------
static double ref_exp(double x) {
    return fabs(x) < 0x1p-28 ? 1 + x : x > 100 ? INFINITY : x < -120 ? 0 : exp(x);
}

static double ref_exp2(double x) {
    return x > 200 ? INFINITY : x < -200 ? 0 : exp2(x);
}

static double ref_tanh(double x) {
    return fabs(x) < 0x1p-13 ? x - x * x * x / 3 : fabs(x) > 20 ? copysign(1, x) : tanh(x);
}

static double ref_erf(double x) {
    return fabs(x) < 0x1p-13 ? M_2_SQRTPI * (x - x * x * x / 3)
           : fabs(x) > 6     ? copysign(1, x)
                             : erf(x);
}

static double ref_sin(double x) {
    return fabs(x) < 0x1p-13 ? x - x * x * x / 6 : sin(x);
}

static double ref_cos(double x) {
    return fabs(x) < 0x1p-13 ? 1 - x * x / 2 : cos(x);
}

static double ref_rsqrt(double x) {
    return 1 / sqrt(x);
}

// BY_LEVEL: no symmetry, and levels give different bits
typedef enum { NO_SYMMETRY, ODD, EVEN, BY_LEVEL } Symmetry;
typedef struct {
    Op op;
    double (*reference)(double);
    double bound; // in ulp
    Symmetry symmetry;
} Function;
static const Function functions[] = {
    {OP_EXP, ref_exp, 1.5, NO_SYMMETRY},
    {OP_EXP2, ref_exp2, 1.5, BY_LEVEL},
    {OP_LOG, log, 2, NO_SYMMETRY},
    {OP_TANH, ref_tanh, 2, ODD},
    {OP_ERF, ref_erf, 2, ODD},
    {OP_SQRT, sqrt, 0.5, NO_SYMMETRY},
    {OP_RSQRT, ref_rsqrt, 2, NO_SYMMETRY},
    {OP_SIN, ref_sin, 2, ODD},
    {OP_COS, ref_cos, 2, EVEN},
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

// ---- errors ------------------------------------------------------------------------------------
static double power_of_two(int n) {
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// Error of `got` in units of the last place that a float as large as `exact` has. Infinity counts
// as 2^128.
static double ulps(float got, double exact) {
    if (isnan(exact) || isnan(got))
        return isnan(exact) && isnan(got) ? 0 : INFINITY;
    double value = (double)got, limit = 0x1p128;
    value = value > limit ? limit : value < -limit ? -limit : value;
    exact = exact > limit ? limit : exact < -limit ? -limit : exact;
    uint64_t bits;
    memcpy(&bits, &exact, sizeof bits);
    int exponent = (int)(bits >> 52 & 0x7FF) - 1023;
    exponent = exponent < -126 ? -126 : exponent > 127 ? 127 : exponent;
    return fabs(value - exact) * power_of_two(23 - exponent);
}

typedef struct {
    double ulps;
    uint32_t bits; // of the argument
} Worst;

typedef struct {
    const Function *function;
    Code code[N_LEVELS_MAX];
    int n_levels;
    uint32_t stride;
    int64_t below;         // arguments are the bit patterns under this
    Worst *worst;          // per task
    atomic_uint different; // an argument whose results should be alike and are not, 0: none
} Sweep;

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// Up to the sign of a zero, which the compiler does not keep.
static bool alike(float a, float b) {
    return a == b || (isnan(a) && isnan(b));
}

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

// ---- tests -------------------------------------------------------------------------------------
typedef struct {
    AttContext *ctx;
    Compiled *machine[N_LEVELS_MAX];
    int n_levels;
    uint32_t stride; // one float of so many is tried
} Suite;

static int open_suite(void **state) {
    Suite *suite = *state;
    suite->ctx = att_context_new(0);
    for (const Target *const *at = targets_all(); *at; at++)
        if (att_level_runs((*at)->level, NULL))
            suite->machine[suite->n_levels++] = machine_new(*at);
    return suite->ctx && suite->n_levels ? 0 : -1;
}

static int close_suite(void **state) {
    Suite *suite = *state;
    for (int level = 0; level < suite->n_levels; level++)
        machine_free(suite->machine[level]);
    att_context_free(suite->ctx);
    return 0;
}

static void report(const Suite *suite, const Function *function, Worst worst) {
    double at = (double)float_of(worst.bits);
    if (suite->stride < SAMPLE_STRIDE)
        printf("%-6s %.4f ulp at %a\n", op_name(function->op), worst.ulps, at);
    if (worst.ulps > function->bound)
        fail_msg("%s is wrong by %.4f ulp at %a", op_name(function->op), worst.ulps, at);
}

static void all_floats(void **state) {
    Suite *suite = *state;
    for (int f = 0; f < N_FUNCTIONS; f++) {
        Sweep sweep = {.function = &functions[f], .n_levels = suite->n_levels};
        sweep.stride = suite->stride;
        Symmetry symmetry = functions[f].symmetry;
        sweep.below = INT64_C(1) << (symmetry == ODD || symmetry == EVEN ? 31 : 32);
        int64_t per_task = (int64_t)TASK_BLOCKS * BLOCK * sweep.stride;
        int64_t tasks = (sweep.below + per_task - 1) / per_task;
        sweep.worst = calloc((size_t)tasks, sizeof *sweep.worst);
        assert_non_null(sweep.worst);
        for (int level = 0; level < suite->n_levels; level++)
            sweep.code[level] = make_code(suite->machine[level], functions[f].op, ELEM_F32,
                                          suite->machine[level]->target->machine.vector_bytes / 4);
        assert_int_equal(att_parallel(suite->ctx, sweep_task, &sweep, tasks, sizeof(Room)), ATT_OK);
        Worst worst = {0};
        for (int64_t task = 0; task < tasks; task++)
            if (sweep.worst[task].ulps > worst.ulps)
                worst = sweep.worst[task];
        uint32_t different = atomic_load(&sweep.different);
        if (different)
            fail_msg("%s(%a) differs between levels, or from its mirror image",
                     op_name(functions[f].op), (double)float_of(different));
        report(suite, &functions[f], worst);
        free(sweep.worst);
    }
}

// Borders of ranges, of rounding, of reduction, and what is not finite.
static const float special_values[] = {0,
                                       0x1p-149f,
                                       0x1.8p-148f,
                                       0x1p-127f,
                                       0x1.fffffcp-127f,
                                       0x1p-126f,
                                       0x1p-24f,
                                       0x1p-13f,
                                       0.3f,
                                       0.5f,
                                       0.75f,
                                       0x1.6a09e6p-1f,
                                       0x1.6a09e8p-1f,
                                       0.9f,
                                       0.90000004f,
                                       0x1.fffffep-1f,
                                       1,
                                       0x1.000002p0f,
                                       1.5f,
                                       2,
                                       3,
                                       3.9f,
                                       4,
                                       4.1f,
                                       9,
                                       9.5f,
                                       10,
                                       11,
                                       64,
                                       87,
                                       125.99999f,
                                       126,
                                       126.00001f,
                                       127.99999f,
                                       128,
                                       128.5f,
                                       129,
                                       130,
                                       148.99999f,
                                       149,
                                       149.00002f,
                                       149.99998f,
                                       150.00002f,
                                       151,
                                       152,
                                       87.33654f,
                                       87.33655f,
                                       88,
                                       88.722839f,
                                       88.72284f,
                                       89,
                                       90,
                                       102,
                                       103.27893f,
                                       103.97f,
                                       103.97208f,
                                       103.97209f,
                                       104,
                                       105,
                                       150,
                                       1e10f,
                                       0x1.921fb6p0f,
                                       0x1.921fb6p1f,
                                       0x1.fffffep29f,
                                       0x1p30f,
                                       0x1.000002p30f,
                                       0x1.6ac5b2p103f,
                                       0x1p127f,
                                       FLT_MAX,
                                       INFINITY,
                                       NAN,
                                       16367173 * 0x1p72f,
                                       0x1.47d0fep34f,
                                       0x1.2d97c8p1f,
                                       0x1.5fdbbep40f,
                                       0x1p23f,
                                       0x1.000002p23f,
                                       8388609.0f,
                                       16777216.0f};

// Both signs of each, padded to a multiple of 64.
static int special_floats(float *out) {
    int n = 0;
    for (size_t i = 0; i < sizeof special_values / sizeof *special_values; i++) {
        out[n++] = special_values[i];
        out[n++] = -special_values[i];
    }
    while (n % 64)
        out[n++] = 1;
    return n;
}

// The same bits for scalars and for vectors of any length, and on all levels if so told.
static void all_lengths(void **state) {
    enum { N = 4096 };
    static float x[N], reference[N], y[N];
    Suite *suite = *state;
    int special = special_floats(x);
    att_random_normal(1, 2, N - special, x + special);
    for (int i = special; i < N; i++)
        x[i] *= i % 3 == 0 ? 1 : i % 3 == 1 ? 30 : 1e12f;
    for (int f = 0; f < N_FUNCTIONS; f++)
        for (int level = 0; level < suite->n_levels; level++)
            for (int lanes = 1; lanes <= 32; lanes *= 2) {
                Code code = make_code(suite->machine[level], functions[f].op, ELEM_F32, lanes);
                bool first = lanes == 1 && (level == 0 || functions[f].symmetry == BY_LEVEL);
                code(x, x, first ? reference : y, N);
                for (int i = 0; i < N; i++) {
                    double exact = functions[f].reference((double)x[i]);
                    if (first && ulps(reference[i], exact) > functions[f].bound)
                        fail_msg("%s(%a) is %a", op_name(functions[f].op), (double)x[i],
                                 (double)reference[i]);
                    if (!first && !alike(y[i], reference[i]))
                        fail_msg("%s(%a) is %a with %d lanes on %s, %a before",
                                 op_name(functions[f].op), (double)x[i], (double)y[i], lanes,
                                 suite->machine[level]->target->name, (double)reference[i]);
                }
            }
}

// pow over two arguments cannot be tried in full: all pairs of special values, and pairs whose
// result is in range.
static void powers(void **state) {
    enum { N = 1 << 16 };
    static float a[N], b[N], y[N], special[1024];
    Suite *suite = *state;
    int n = special_floats(special);
    const int rounds = suite->stride < SAMPLE_STRIDE ? 1000 : 10;
    for (int level = 0; level < suite->n_levels; level++) {
        Function function = {OP_POW, NULL, 2, NO_SYMMETRY};
        Worst worst = {0};
        Code code = make_code(suite->machine[level], OP_POW, ELEM_F32,
                              suite->machine[level]->target->machine.vector_bytes / 4);
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

// Double, for one lane and several, against long double.
static void doubles(void **state) {
    static const struct {
        Op op;
        long double (*reference)(long double);
    } table[] = {{OP_EXP, expl}, {OP_EXP2, exp2l}, {OP_LOG, logl}, {OP_TANH, tanhl},
                 {OP_ERF, erfl}, {OP_SQRT, sqrtl}, {OP_SIN, sinl}, {OP_COS, cosl}};
    enum { N = 4096 };
    static float start[N];
    static double x[N], y[N];
    Suite *suite = *state;
    att_random_normal(1, 2, N, start);
    for (int i = 0; i < N; i++)
        x[i] = (double)start[i] * (i % 2 ? 1 : 20);
    for (size_t f = 0; f < sizeof table / sizeof *table; f++)
        for (int lanes = 1; lanes <= 8; lanes *= 8) {
            make_code(suite->machine[0], table[f].op, ELEM_F64, lanes)(x, x, y, N);
            for (int i = 0; i < N; i++) {
                long double exact = table[f].reference((long double)x[i]);
                if (isnan(exact)) {
                    assert_true(isnan(y[i]));
                    continue;
                }
                double ulp = fabs(nextafter((double)exact, INFINITY) - (double)exact);
                if (fabsl((long double)y[i] - exact) > 2 * (long double)ulp)
                    fail_msg("%s(%a) is %a", op_name(table[f].op), x[i], y[i]);
            }
        }
    for (int i = 0; i < N; i++)
        x[i] = fabs(x[i]);
    make_code(suite->machine[0], OP_POW, ELEM_F64, 4)(x, x, y, N);
    for (int i = 0; i < N; i++)
        assert_true(fabsl((long double)y[i] / powl((long double)x[i], (long double)x[i]) - 1) <
                    0x1p-51L);
}

// f16 and bf16 are rounded once, after an f32 computation.
static void halves(void **state) {
    enum { N = 0x7C00 };
    static uint16_t x[N], y[N];
    Suite *suite = *state;
    for (int level = 0; level < suite->n_levels; level++) {
        for (int i = 0; i < N; i++)
            x[i] = (uint16_t)(0x8000 + i);
        make_code(suite->machine[level], OP_EXP, ELEM_F16, 16)(x, x, y, N);
        for (int i = 0; i < N; i++) {
            double exact = exp((double)att_f16_to_f32(x[i]));
            uint16_t right = att_f32_to_f16((float)exact);
            assert_true(abs(y[i] - right) <= 1);
        }
        make_code(suite->machine[level], OP_EXP, ELEM_BF16, 16)(x, x, y, N);
        for (int i = 0; i < N; i++) {
            double exact = exp((double)att_bf16_to_f32(x[i]));
            assert_true(abs(y[i] - att_f32_to_bf16((float)exact)) <= 1);
        }
    }
}

static void ops(void **state) {
    static const Op mine[] = {OP_EXP,  OP_EXP2, OP_LOG, OP_SQRT, OP_RSQRT,
                              OP_TANH, OP_ERF,  OP_SIN, OP_COS,  OP_POW};
    int count = 0;
    (void)state;
    for (int op = 0; op < N_OP; op++)
        count += vmath_has((Op)op);
    assert_int_equal(count, sizeof mine / sizeof *mine);
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        assert_true(vmath_has(mine[i]));
}

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
        Op op = f < N_FUNCTIONS ? functions[f].op : OP_POW;
        printf("%-6s", op_name(op));
        for (int level = 0; level < suite->n_levels; level++) {
            const Target *target = suite->machine[level]->target;
            Code code =
                make_code(suite->machine[level], op, ELEM_F32, target->machine.vector_bytes / 4);
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
        cmocka_unit_test_prestate(ops, &suite),    cmocka_unit_test_prestate(all_lengths, &suite),
        cmocka_unit_test_prestate(powers, &suite), cmocka_unit_test_prestate(doubles, &suite),
        cmocka_unit_test_prestate(halves, &suite), cmocka_unit_test_prestate(all_floats, &suite),
    };
    void *state = &suite;
    if (open_suite(&state))
        return 1;
    if (argc > 1 && strcmp(argv[1], "--time") == 0) {
        print_times(&suite);
        return close_suite(&state);
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    close_suite(&state);
    return failed;
}
