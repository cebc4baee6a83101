// SPDX-License-Identifier: Apache-2.0
// sin and cos of f32 over the whole range, through f64: right to 0.51 ulp.
//
// x = q pi/2 + r with |r| <= pi/4, and r in double. Up to 2^30, q is a rounded product and pi/2 is
// taken in two parts (Cody and Waite). Above, which hardly ever happens, a branch taken when any
// lane needs it works in fixed point (Payne and Hanek, 1983): x is m 2^e with a whole m of 24 bits,
// and
//
//     x 2/pi mod 4 = m (2/pi 2^e mod 4) mod 4
//
// so that of the digits of 2/pi only 96 matter, from a place that e tells. No float of 24 bits
// comes closer to a multiple of pi/2 than 2^-30, so these leave more than 24 good bits.
#include <math.h>

#include "emit/vmath_ops.h"
#include "emit/vmath_parts.h"

enum { EXPONENT_MIN = 7, EXPONENT_MAX = 104 }; // of e: from 2^30 to the largest float

// 0.A2F9836E4E44... = 2/pi
static const uint32_t two_over_pi[] = {0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0,
                                       0xDB629599, 0x3C439041, 0xFE5163AB};

// 32 bits of 2/pi from bit `at` on (0: the first one after the point).
static uint32_t digits(unsigned at) {
    uint64_t word = (uint64_t)two_over_pi[at / 32] << 32;
    if (at % 32)
        word |= two_over_pi[at / 32 + 1];
    return (uint32_t)(word >> (32 - at % 32));
}

// Words of 2/pi 2^e mod 4 for every e: the upper 64 bits (in units of 2^-62), or the 32 bits after
// them.
static LLVMValueRef digit_table(EmitModule *m, bool upper) {
    enum { N = EXPONENT_MAX - EXPONENT_MIN + 1 };
    const char *name = upper ? "two_over_pi_upper" : "two_over_pi_lower";
    LLVMValueRef table = LLVMGetNamedGlobal(m->module, name), entries[N];
    if (table)
        return table;
    LLVMTypeRef word = LLVMInt64TypeInContext(m->context);
    for (unsigned i = 0; i < N; i++) {
        unsigned at = i + EXPONENT_MIN - 2;
        uint64_t bits = upper ? (uint64_t)digits(at) << 32 | digits(at + 32) : digits(at + 64);
        entries[i] = LLVMConstInt(word, bits, 0);
    }
    LLVMValueRef content = LLVMConstArray2(word, entries, N);
    table = LLVMAddGlobal(m->module, LLVMTypeOf(content), name);
    LLVMSetInitializer(table, content);
    LLVMSetGlobalConstant(table, 1);
    LLVMSetLinkage(table, LLVMPrivateLinkage);
    return table;
}

static EmitValue look_up(EmitModule *m, bool upper, EmitValue index) {
    LLVMValueRef table = digit_table(m, upper);
    if (index.lanes > 1)
        return emit_gather(m, ELEM_I64, table, index.ref, NULL, 0);
    return emit_load(m, ELEM_I64, 1, emit_element(m, ELEM_I64, table, index.ref));
}

typedef struct {
    EmitValue r; // f64, |r| <= pi/4
    EmitValue q; // i64, only its last two bits count
} Quadrant;

// |x| < 2^30
static Quadrant reduce(EmitModule *m, EmitValue x) {
    EmitValue magic = v_number(m, x, 0x1.8p52); // the sum's last bits are the whole number
    EmitValue sum = v_fma(m, x, v_number(m, x, 0x1.45f306dc9c883p-1), magic);
    EmitValue q = v_sub(m, sum, magic);
    EmitValue r = v_fma(m, q, v_number(m, x, -0x1.921fb54442d18p0), x);
    r = v_fma(m, q, v_number(m, x, -0x1.1a62633145c07p-54), r);
    return (Quadrant){r, v_bits(m, sum)};
}

// |x| >= 2^30; anything finite for other lanes, NaN for infinity and NaN.
static Quadrant reduce_huge(EmitModule *m, EmitValue single) {
    EmitValue bits = v_bits(m, single), least = v_whole(m, bits, 0),
              most = v_whole(m, bits, EXPONENT_MAX - EXPONENT_MIN);
    EmitValue index = v_int_by(m, LLVMBuildAnd, v_int_by(m, LLVMBuildLShr, bits, 23), 0xFF);
    index = v_int_by(m, LLVMBuildSub, index, 150 + EXPONENT_MIN);
    index = emit_cast(m, emit_min(m, emit_max(m, index, least), most), ELEM_I64);
    EmitValue whole = v_int_by(m, LLVMBuildAnd, bits, 0x7FFFFF);
    whole = emit_cast(m, v_int_by(m, LLVMBuildOr, whole, 0x800000), ELEM_I64);
    EmitValue lower = v_int(m, LLVMBuildMul, whole, look_up(m, false, index));
    EmitValue turns = v_int(m, LLVMBuildMul, whole, look_up(m, true, index));
    turns = v_int(m, LLVMBuildAdd, turns, v_int_by(m, LLVMBuildLShr, lower, 32));
    EmitValue q = v_int_by(m, LLVMBuildAdd, turns, (uint64_t)1 << 61);
    q = v_int_by(m, LLVMBuildLShr, q, 62);
    EmitValue rest = v_int(m, LLVMBuildSub, turns, v_int_by(m, LLVMBuildShl, q, 62));
    EmitValue r = emit_cast(m, rest, ELEM_F64);
    r = v_mul(m, r, v_number(m, r, 0x1.921fb54442d18p-62));
    // sin(-x) = -sin(x): r and q change their signs. And x - x is 0, or NaN.
    EmitValue sign = emit_cast(m, v_int_by(m, LLVMBuildAShr, bits, 31), ELEM_I64);
    EmitValue flip = v_int_by(m, LLVMBuildShl, sign, 63);
    r = v_float_of(m, v_int(m, LLVMBuildXor, v_bits(m, r), flip));
    q = v_int(m, LLVMBuildSub, v_int(m, LLVMBuildXor, q, sign), sign);
    EmitValue nothing = emit_cast(m, v_sub(m, single, single), ELEM_F64);
    return (Quadrant){v_add(m, r, nothing), q};
}

static LLVMValueRef any_lane(EmitModule *m, LLVMValueRef mask, int lanes) {
    LLVMTypeRef type = LLVMTypeOf(mask);
    return lanes == 1 ? mask : emit_intrinsic(m, "llvm.vector.reduce.or", &type, 1, &mask, 1);
}

static EmitValue merge(EmitModule *m, EmitValue a, LLVMBasicBlockRef from_a, EmitValue b,
                       LLVMBasicBlockRef from_b) {
    return (EmitValue){emit_either(m, a.ref, from_a, b.ref, from_b), a.elem, a.lanes};
}

// Both reductions: the second only when a lane asks for it.
static Quadrant reduce_any(EmitModule *m, EmitValue single) {
    Quadrant near = reduce(m, emit_cast(m, single, ELEM_F64));
    LLVMValueRef huge = v_compare(m, LLVMRealOGE, v_abs(m, single), v_number(m, single, 0x1p30));
    LLVMBasicBlockRef before = LLVMGetInsertBlock(m->builder);
    LLVMBasicBlockRef slow = emit_block(m, "huge"), after = emit_block(m, "reduced");
    LLVMBuildCondBr(m->builder, any_lane(m, huge, single.lanes), slow, after);
    LLVMPositionBuilderAtEnd(m->builder, slow);
    Quadrant far = reduce_huge(m, single);
    far.r = v_select(m, huge, far.r, near.r);
    far.q = v_select(m, huge, far.q, near.q);
    LLVMBuildBr(m->builder, after);
    LLVMPositionBuilderAtEnd(m->builder, after);
    return (Quadrant){merge(m, near.r, before, far.r, slow), merge(m, near.q, before, far.q, slow)};
}

EmitValue vmath_sine_f32(EmitModule *m, EmitValue x, bool cosine) {
    static const double sine[] = {1, -0x1.5555554c6ffbep-3, 0x1.111108690b9b4p-7,
                                  -0x1.a00f7e1498501p-13, 0x1.6cd1b090dfa82p-19};
    static const double co[] = {1, -0x1.ffffffcb77e1cp-2, 0x1.55553c74b3ac6p-5,
                                -0x1.6c07efded03e9p-10, 0x1.991642e1be252p-16};
    Quadrant at = reduce_any(m, x);
    EmitValue q = cosine ? v_int_by(m, LLVMBuildAdd, at.q, 1) : at.q;
    EmitValue square = v_mul(m, at.r, at.r);
    EmitValue s = v_mul(m, at.r, v_polynomial(m, square, sine, 5));
    EmitValue c = v_polynomial(m, square, co, 5);
    EmitValue odd = v_int_by(m, LLVMBuildAnd, q, 1);
    LLVMValueRef even = LLVMBuildICmp(m->builder, LLVMIntEQ, odd.ref, v_whole(m, q, 0).ref, "");
    EmitValue sign = v_int_by(m, LLVMBuildShl, v_int_by(m, LLVMBuildAnd, q, 2), 62);
    EmitValue result = v_int(m, LLVMBuildXor, v_bits(m, v_select(m, even, s, c)), sign);
    return emit_cast(m, v_float_of(m, result), ELEM_F32);
}
