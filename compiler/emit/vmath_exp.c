// SPDX-License-Identifier: Apache-2.0
// exp and what is made of it: tanh, erf. exp2, log.
//
// exp: n = round(x / ln 2) by adding a large number, r = x - n ln 2 in two steps (Cody and Waite),
// a polynomial for e^r on |r| <= ln 2 / 2, and 2^n times that. The coefficients come from
// tests/accuracy/coefficients.py.
#include <math.h>

#include "emit/vmath_ops.h"
#include "emit/vmath_parts.h"

// Adding it leaves a number's nearest whole number in the low bits of the sum: 1.5 * 2^23, where
// one unit in the last place is 1, and 254 more, twice the bias of the exponent (see scale).
static const double magic = 0x1.8p23 + 254;

typedef struct {
    EmitValue n, r; // x = n ln 2 + r, for exp2 n + r
    EmitValue sum;  // magic + n
} Reduced;

static Reduced reduce(EmitModule *m, EmitValue x) {
    Reduced out;
    out.sum = v_fma(m, x, v_number(m, x, 0x1.715476p0), v_number(m, x, magic));
    out.n = v_sub(m, out.sum, v_number(m, x, magic));
    // The upper part of ln 2 has 15 bits, so n times it is exact.
    out.r = v_fma(m, out.n, v_number(m, x, -0x1.62e4p-1), x);
    out.r = v_fma(m, out.n, v_number(m, x, -0x1.7f7d1cp-20), out.r);
    return out;
}

// e^r for |r| <= ln 2 / 2.
static EmitValue exp_near_zero(EmitModule *m, EmitValue r) {
    static const double c[] = {
        1, 1, 0x1.fffffcp-2, 0x1.555492p-3, 0x1.5558b4p-5, 0x1.12399ap-7, 0x1.6a48ccp-10};
    return v_polynomial(m, r, c, 7);
}

// p * 2^n for -252 < n < 256, rounded once when the result is subnormal. In two factors,
// 2^floor(n/2) and 2^ceil(n/2), both normal. b = n + 254 stands in the low bits of sum; half of it
// is the exponent field of the first factor. The bits of magic above b are shifted out.
static EmitValue scale(EmitModule *m, EmitValue p, Reduced x) {
    EmitValue bits = v_bits(m, x.sum);
    EmitValue half = v_int_by(m, LLVMBuildLShr, bits, 1);
    EmitValue rest = v_int(m, LLVMBuildSub, bits, half);
    EmitValue first = v_float_of(m, v_int_by(m, LLVMBuildShl, half, 23));
    EmitValue second = v_float_of(m, v_int_by(m, LLVMBuildShl, rest, 23));
    return v_mul(m, v_mul(m, p, first), second);
}

// 2^n for -127 < n < 128.
static EmitValue power_of_two(EmitModule *m, Reduced x) {
    EmitValue biased = v_int_by(m, LLVMBuildSub, v_bits(m, x.sum), 127);
    return v_float_of(m, v_int_by(m, LLVMBuildShl, biased, 23));
}

EmitValue vmath_exp_f32(EmitModule *m, EmitValue x) {
    if (vmath_has_avx512(m)) {
        // An infinite, large or NaN n gives the right result for any positive factor.
        Reduced any = reduce(m, x);
        EmitValue r = vmath_smaller_size(m, any.r, v_number(m, x, 1));
        return vmath_scale_f(m, exp_near_zero(m, r), any.n);
    }
    // Beyond these the result is infinite, or 0, all the same.
    x = v_at_least(m, v_at_most(m, x, 89), -104);
    Reduced reduced = reduce(m, x);
    return scale(m, exp_near_zero(m, reduced.r), reduced);
}

// 2^x = 2^floor(x) p(x - floor(x)), where p is 1 at 0 and 2 at 1, exactly. AVX-512 rounds the
// fraction of -1/2 < x < 0 down and the others to nearest, so that the last bit may differ there.
EmitValue vmath_exp2_f32(EmitModule *m, EmitValue x) {
    static const double c[] = {1,
                               0x1.62e42cp-1,
                               0x1.ebfd4cp-3,
                               0x1.c689d4p-5,
                               0x1.3d064cp-7,
                               0x1.46f888p-10,
                               0x1.c4edaap-13};
    if (vmath_has_avx512(m))
        return vmath_scale_f(m, v_polynomial(m, vmath_fraction(m, x), c, 7), x);
    // Beyond these the result is infinite, or 0, all the same.
    x = v_at_least(m, v_at_most(m, x, 129), -151);
    Reduced reduced = {.n = v_unary(m, "llvm.floor", x)};
    reduced.r = v_sub(m, x, reduced.n);
    reduced.sum = v_add(m, reduced.n, v_number(m, x, magic));
    return scale(m, v_polynomial(m, reduced.r, c, 7), reduced);
}

// e^x for -80 < x < 80
static EmitValue exp_in_range(EmitModule *m, EmitValue x) {
    Reduced reduced = reduce(m, x);
    if (vmath_has_avx512(m))
        return vmath_scale_f(m, exp_near_zero(m, reduced.r), reduced.n);
    return v_mul(m, exp_near_zero(m, reduced.r), power_of_two(m, reduced));
}

// Below 0.625: x + x^3 p(x^2). Above: 1 - 2 / (e^(2|x|) + 1).
EmitValue vmath_tanh_f32(EmitModule *m, EmitValue x) {
    static const double low[] = {-0x1.555532p-2, 0x1.1106f6p-3, -0x1.b835a4p-5, 0x1.51f8cep-6,
                                 -0x1.750ce4p-8};
    EmitValue one = v_number(m, x, 1), size = v_abs(m, x), square = v_mul(m, x, x);
    EmitValue small = v_fma(m, v_mul(m, x, square), v_polynomial(m, square, low, 5), x);
    EmitValue half = v_at_most(m, size, 10); // tanh 9.02 rounds to 1
    EmitValue power = exp_in_range(m, v_add(m, half, half));
    EmitValue large = v_sub(m, one, v_div(m, v_number(m, x, 2), v_add(m, power, one)));
    large = v_copysign(m, large, x);
    return v_select(m, v_compare(m, LLVMRealOGE, size, v_number(m, x, 0.625)), large, small);
}

// With k = round(step |x|) and t = step |x| - k a polynomial in t for each k, whose coefficients
// are looked up: around 0 of (erf(x) - x) / t, so that the error is small beside the result. 3.95
// and more round to 1; from 7.5 / step on the columns would come again.
EmitValue vmath_erf_f32(EmitModule *m, EmitValue x) {
    static const double step = 0x1.e49ba6p+0; // 1.893
    static const double c[7][VMATH_TABLE] = {
        {0, 0x1.1707dep-1, 0x1.bacf6cp-1, 0x1.f331b4p-1, 0x1.fe904cp-1, 0x1.ffe76ep-1,
         0x1.ffff08p-1, 0x1.fffffap-1},
        {0x1.15c828p-4, 0x1.cdc0d8p-2, 0x1.8fd012p-3, 0x1.8c39fap-5, 0x1.c1709cp-8, 0x1.23bff8p-11,
         0x1.b1880ep-16, 0x1.70ac54p-21},
        {-0x1.925db4p-23, -0x1.01b6dep-3, -0x1.be4a2cp-4, -0x1.4bb94p-5, -0x1.f5954cp-8,
         -0x1.96451ep-11, -0x1.63e0eep-15, -0x1.7a47eap-21},
        {-0x1.c62d8ep-5, -0x1.2fc17p-6, 0x1.6e92fp-6, 0x1.289514p-6, 0x1.4b8cap-8, 0x1.5f7a46p-11,
         0x1.80b37p-15, 0x1.c2fd98p-20},
        {-0x1.d617b6p-15, 0x1.d43b34p-7, 0x1.fe8f6ep-9, -0x1.f21176p-9, -0x1.16c04cp-9,
         -0x1.af8a12p-12, -0x1.6a4b6ep-15, -0x1.1639d4p-17},
        {0x1.3f62cep-8, -0x1.6ae6f8p-18, -0x1.5f3d8ep-9, -0x1.11c318p-12, 0x1.0cd57cp-11,
         0x1.5d6fap-13, 0x1.4d526cp-16, 0x1.29c1cep-20},
        {-0x1.c7cc06p-12, -0x1.0fc136p-10, 0x1.9b3896p-13, 0x1.55a662p-12, 0x1.32ab3p-18,
         -0x1.785ee8p-18, 0x1.ecc22ep-17, 0x1.244cdp-16}};
    EmitValue size = v_at_most(m, v_abs(m, x), 3.95), by = v_number(m, x, step);
    EmitValue whole = v_number(m, x, 0x1.8p23), sum = v_fma(m, size, by, whole);
    EmitValue minus_k = v_sub(m, whole, sum), index = v_bits(m, sum);
    EmitValue t = v_fma(m, size, by, minus_k);
    EmitValue slope = vmath_look_up(m, c[6], index);
    for (int i = 5; i > 0; i--)
        slope = v_fma(m, slope, t, vmath_look_up(m, c[i], index));
    LLVMValueRef near = v_compare(m, LLVMRealOEQ, minus_k, v_number(m, x, 0));
    EmitValue first = v_select(m, near, size, vmath_look_up(m, c[0], index));
    return v_copysign(m, v_fma(m, slope, t, first), x);
}

// x = 2^e (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2); log(1 + f) = f - f^2/2 + f^3 p(f).
EmitValue vmath_log_f32(EmitModule *m, EmitValue x) {
    static const double tail[] = {-0.5,           0x1.555554p-2,  -0x1.000226p-2,
                                  0x1.99a01cp-3,  -0x1.54728cp-3, 0x1.22d93ap-3,
                                  -0x1.0d823cp-3, 0x1.055e3ap-3,  -0x1.38c84ap-4};
    enum { ROOT_HALF = 0x3F3504F3, EXPONENT = 0xFF800000 };
    EmitValue zero = v_number(m, x, 0);
    LLVMValueRef tiny = v_compare(m, LLVMRealOLT, x, v_number(m, x, 0x1p-126));
    EmitValue normal = v_select(m, tiny, v_mul(m, x, v_number(m, x, 0x1p23)), x);
    EmitValue bits = v_bits(m, normal);
    EmitValue above = v_int_by(m, LLVMBuildSub, bits, ROOT_HALF);
    EmitValue exponent = emit_cast(m, v_int_by(m, LLVMBuildAShr, above, 23), ELEM_F32);
    EmitValue steps = v_int_by(m, LLVMBuildAnd, above, EXPONENT);
    EmitValue f = v_float_of(m, v_int(m, LLVMBuildSub, bits, steps));
    f = v_sub(m, f, v_number(m, x, 1));
    exponent = v_sub(m, exponent, v_select(m, tiny, v_number(m, x, 23), zero));
    EmitValue sum = v_fma(m, v_mul(m, f, f), v_polynomial(m, f, tail, 9), f);
    sum = v_fma(m, exponent, v_number(m, x, 0x1.7f7d1cp-20), sum);
    sum = v_fma(m, exponent, v_number(m, x, 0x1.62e4p-1), sum);
    // Infinity gives itself, 0 gives -infinity, what is below 0 and NaN give NaN.
    EmitValue infinite = v_number(m, x, INFINITY);
    EmitValue bad = v_select(m, v_compare(m, LLVMRealOEQ, x, zero), v_number(m, x, -INFINITY),
                             v_number(m, x, NAN));
    sum = v_select(m, v_compare(m, LLVMRealOEQ, x, infinite), infinite, sum);
    return v_select(m, v_compare(m, LLVMRealOGT, x, zero), sum, bad);
}
