// SPDX-License-Identifier: Apache-2.0
// Instructions of x86 that vector math is made of, for any number of lanes: each exists for some
// numbers, so fewer are widened and more are cut in halves.
#include "emit/vmath_parts.h"

enum { ARGUMENTS_MAX = 2, NO_IMMEDIATE = -1 };

typedef struct {
    const char *name; // between v and ps; NULL: a look-up
    int n_args;
    int immediate;
    const double *table;
} Instruction;

bool vmath_has_avx512(const EmitModule *m) {
    return m->target->level == ATT_LEVEL_X86_64_V4;
}

// `lanes` lanes of the vectors a and b, one after the other, from lane `from` on.
static EmitValue pick(EmitModule *m, EmitValue a, EmitValue b, int from, int lanes) {
    int picks[LANES_MAX];
    for (int i = 0; i < lanes; i++)
        picks[i] = from + i;
    return emit_shuffle(m, a, b, picks, lanes);
}

// The lanes of a over and over.
static EmitValue widen(EmitModule *m, EmitValue a, int lanes) {
    if (a.lanes == 1)
        return emit_splat(m, a, lanes);
    int picks[LANES_MAX];
    for (int i = 0; i < lanes; i++)
        picks[i] = i % a.lanes;
    return emit_shuffle(m, a, a, picks, lanes);
}

static EmitValue run_avx512(EmitModule *m, Instruction what, const EmitValue *args) {
    LLVMTypeRef i32 = LLVMInt32TypeInContext(m->context);
    int lanes = args[0].lanes;
    char *name = arena_printf(m->arena, "llvm.x86.avx512.mask.%s.ps.%d", what.name, lanes * 32);
    LLVMValueRef all[ARGUMENTS_MAX + 4];
    uint32_t n = 0;
    for (int i = 0; i < what.n_args; i++)
        all[n++] = args[i].ref;
    if (what.immediate != NO_IMMEDIATE)
        all[n++] = LLVMConstInt(i32, (unsigned)what.immediate, 0);
    all[n++] = LLVMConstNull(LLVMTypeOf(args[0].ref)); // of lanes that are off: there are none
    all[n++] = LLVMConstAllOnes(LLVMIntTypeInContext(m->context, lanes == 16 ? 16 : 8));
    if (lanes == 16) // rounding as set for all arithmetic
        all[n++] = LLVMConstInt(i32, 4, 0);
    return (EmitValue){emit_intrinsic(m, name, NULL, 0, all, n), args[0].elem, lanes};
}

// A permutation of the table, which heeds as many low bits as it has lanes to choose from.
static EmitValue run_look_up(EmitModule *m, const double *table, EmitValue index) {
    int lanes = index.lanes;
    LLVMValueRef numbers[LANES_MAX];
    for (int i = 0; i < lanes; i++)
        numbers[i] = emit_number(m, ELEM_F32, table[i % VMATH_TABLE], 1).ref;
    const char *name = lanes == 16 ? "llvm.x86.avx512.permvar.sf.512" : "llvm.x86.avx2.permps";
    LLVMValueRef args[] = {LLVMConstVector(numbers, (unsigned)lanes), index.ref};
    return (EmitValue){emit_intrinsic(m, name, NULL, 0, args, 2), ELEM_F32, lanes};
}

// The lanes are a power of two.
static EmitValue run(EmitModule *m, Instruction what, const EmitValue *args) {
    int lanes = args[0].lanes, least = what.table ? VMATH_TABLE : 4;
    EmitValue part[ARGUMENTS_MAX];
    if (lanes < least) {
        for (int i = 0; i < what.n_args; i++)
            part[i] = widen(m, args[i], least);
        EmitValue whole = run(m, what, part);
        return pick(m, whole, whole, 0, lanes);
    }
    if (lanes <= (vmath_has_avx512(m) ? 16 : 8))
        return what.table ? run_look_up(m, what.table, args[0]) : run_avx512(m, what, args);
    EmitValue half[2];
    for (int h = 0; h < 2; h++) {
        for (int i = 0; i < what.n_args; i++)
            part[i] = pick(m, args[i], args[i], h * lanes / 2, lanes / 2);
        half[h] = run(m, what, part);
    }
    return pick(m, half[0], half[1], 0, lanes);
}

EmitValue vmath_look_up(EmitModule *m, const double table[VMATH_TABLE], EmitValue index) {
    return run(m, (Instruction){NULL, 1, NO_IMMEDIATE, table}, &index);
}

EmitValue vmath_scale_f(EmitModule *m, EmitValue p, EmitValue n) {
    EmitValue args[] = {p, n};
    return run(m, (Instruction){"scalef", 2, NO_IMMEDIATE, NULL}, args);
}

EmitValue vmath_fraction(EmitModule *m, EmitValue x) {
    enum { DOWN = 1 };
    return run(m, (Instruction){"reduce", 1, DOWN, NULL}, &x);
}

EmitValue vmath_smaller_size(EmitModule *m, EmitValue a, EmitValue b) {
    enum { SMALLER_SIZE = 2 };
    EmitValue args[] = {a, b};
    return run(m, (Instruction){"range", 2, SMALLER_SIZE, NULL}, args);
}
