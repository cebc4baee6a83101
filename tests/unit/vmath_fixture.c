// SPDX-License-Identifier: Apache-2.0
// See vmath_fixture.h.
#include "vmath_fixture.h"

#include <float.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- code --------------------------------------------------------------------------------------

struct Compiled {
    Session *session;
    LLVMOrcLLJITRef jit;
    const Target *target;
    int made;
};

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

Code vmath_code(Compiled *machine, Op op, Elem elem, int lanes) {
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

int vmath_open(Suite *suite) {
    suite->ctx = att_context_new(0);
    for (const Target *const *at = targets_all(); *at; at++)
        if (att_level_runs((*at)->level, NULL)) {
            suite->target[suite->n_levels] = *at;
            suite->machine[suite->n_levels++] = machine_new(*at);
        }
    return suite->ctx && suite->n_levels ? 0 : -1;
}

void vmath_close(Suite *suite) {
    for (int level = 0; level < suite->n_levels; level++)
        machine_free(suite->machine[level]);
    att_context_free(suite->ctx);
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

const Function vmath_functions[N_FUNCTIONS] = {
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

// ---- errors ------------------------------------------------------------------------------------

static double power_of_two(int n) {
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double ulps(float got, double exact) {
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

float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

bool alike(float a, float b) {
    return a == b || (isnan(a) && isnan(b));
}

static const float special_values[] = {0,
                                       0x1p-149f,
                                       0x1.8p-148f,
                                       0x1p-127f,
                                       0x1.fffffcp-127f,
                                       0x1p-126f,
                                       0x1p-24f,
                                       0x1p-13f,
                                       0.2641310f,
                                       0.2641311f,
                                       0.3f,
                                       0.5f,
                                       0.75f,
                                       0.7923930f,
                                       0x1.6a09e6p-1f,
                                       0x1.6a09e8p-1f,
                                       0.9f,
                                       0.90000004f,
                                       0x1.fffffep-1f,
                                       1,
                                       0x1.000002p0f,
                                       1.3206550f,
                                       1.5f,
                                       1.8489170f,
                                       2,
                                       2.3771790f,
                                       2.9054410f,
                                       3,
                                       3.4337030f,
                                       3.9f,
                                       3.95f,
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

int vmath_special(float out[SPECIAL_MAX]) {
    int n = 0;
    for (size_t i = 0; i < sizeof special_values / sizeof *special_values; i++) {
        out[n++] = special_values[i];
        out[n++] = -special_values[i];
    }
    while (n % 64)
        out[n++] = 1;
    return n;
}
