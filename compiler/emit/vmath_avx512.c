// SPDX-License-Identifier: Apache-2.0
// Instructions of AVX-512 that exponentials are made of, for any number of lanes: they exist for 4,
// 8 and 16, so fewer are widened and more are cut in halves.
#include "emit/vmath_parts.h"

enum { ARGUMENTS_MAX = 2, NO_IMMEDIATE = -1 };

typedef struct {
    const char *name; // between v and ps
    int n_args;
    int immediate;
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

static EmitValue run_whole(EmitModule *m, Instruction what, const EmitValue *args) {
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

static EmitValue run(EmitModule *m, Instruction what, const EmitValue *args) {
    int lanes = args[0].lanes;
    EmitValue part[ARGUMENTS_MAX];
    if (lanes < 4) {
        for (int i = 0; i < what.n_args; i++) {
            EmitValue wide = emit_splat(m, args[i], lanes == 1 ? 4 : lanes);
            part[i] = lanes == 1 ? wide : pick(m, wide, wide, 0, 4);
        }
        EmitValue whole = run_whole(m, what, part);
        if (lanes > 1)
            return pick(m, whole, whole, 0, lanes);
        LLVMValueRef first = LLVMConstNull(LLVMInt32TypeInContext(m->context));
        whole.ref = LLVMBuildExtractElement(m->builder, whole.ref, first, "");
        whole.lanes = 1;
        return whole;
    }
    if (lanes <= 16)
        return run_whole(m, what, args);
    EmitValue half[2];
    for (int h = 0; h < 2; h++) {
        for (int i = 0; i < what.n_args; i++)
            part[i] = pick(m, args[i], args[i], h * lanes / 2, lanes / 2);
        half[h] = run(m, what, part);
    }
    return pick(m, half[0], half[1], 0, lanes);
}

EmitValue vmath_scale_f(EmitModule *m, EmitValue p, EmitValue n) {
    EmitValue args[] = {p, n};
    return run(m, (Instruction){"scalef", 2, NO_IMMEDIATE}, args);
}

EmitValue vmath_fraction(EmitModule *m, EmitValue x) {
    enum { DOWN = 1 };
    return run(m, (Instruction){"reduce", 1, DOWN}, &x);
}

EmitValue vmath_smaller_size(EmitModule *m, EmitValue a, EmitValue b) {
    enum { SMALLER_SIZE = 2 };
    EmitValue args[] = {a, b};
    return run(m, (Instruction){"range", 2, SMALLER_SIZE}, args);
}
