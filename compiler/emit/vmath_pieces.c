// SPDX-License-Identifier: Apache-2.0
// tanh and erf: a polynomial for each of eight pieces of |x|, whose coefficients are looked up. The
// coefficients come from tests/accuracy/coefficients.py.
#include "emit/vmath_ops.h"
#include "emit/vmath_parts.h"

// c[0] + t (c[1] + t (c[2] + ...)) in each lane with its column of c, and near 0 size in the place
// of c[0], so that the error is small beside a small result.
static EmitValue piecewise(EmitModule *m, const double c[][VMATH_TABLE], int n, EmitValue column,
                           EmitValue t, LLVMValueRef near, EmitValue size) {
    EmitValue slope = vmath_look_up(m, c[n - 1], column);
    for (int i = n - 2; i > 0; i--)
        slope = v_fma(m, slope, t, vmath_look_up(m, c[i], column));
    return v_fma(m, slope, t, v_select(m, near, size, vmath_look_up(m, c[0], column)));
}

// Pieces begin where |x| + 0.75 has another exponent or another upper bit of the mantissa: the
// lowest bits of these are the column, that of 2, from 1.25 on, being the first. t is counted from
// the begin of the piece. 9.1 and more round to 1; from 11.25 on the columns would come again.
EmitValue vmath_tanh_f32(EmitModule *m, EmitValue x) {
    enum { MANTISSA_BELOW = 22 };
    static const double c[8][VMATH_TABLE] = {
        {0x1.b2523ap-1, 0x1.f4bfd6p-1, 0x1.fe767ap-1, 0x1.fff8c8p-1, 0x1.ffffdep-1, 0,
         0x1.f597eap-3, 0x1.45323ep-1},
        {0x1.1f2634p-2, 0x1.641214p-5, 0x1.88d82cp-8, 0x1.ce125p-14, 0x1.1931ccp-19, 0x1.43a356p-33,
         0x1.e149aep-1, 0x1.3173c2p-1},
        {-0x1.e75336p-3, -0x1.5c4d98p-5, -0x1.86bb5cp-8, -0x1.cdbbbp-14, -0x1.46c1c8p-19,
         -0x1.dee71ap-25, -0x1.d78938p-3, -0x1.84052cp-2},
        {0x1.be271ep-4, 0x1.bc6bacp-6, 0x1.fe684p-9, 0x1.30cab8p-14, 0x1.3deaeep-19, -0x1.55546ep-2,
         -0x1.06df4ap-2, 0x1.565ffp-5},
        {-0x1.e9ef4ep-7, -0x1.973d74p-7, -0x1.db4fep-10, -0x1.2180e8p-15, -0x1.09c95ap-19,
         -0x1.4bc62ap-14, 0x1.19f11ap-3, 0x1.9adeaap-4},
        {-0x1.d1ee02p-7, 0x1.1193fep-8, 0x1.36425ap-11, 0x1.851c64p-17, 0x1.37a704p-20,
         0x1.12ccc8p-3, 0x1.4f5ccp-4, -0x1.157246p-4},
        {0x1.39d338p-7, -0x1.fb6404p-11, -0x1.fadeap-14, -0x1.491fap-19, -0x1.9fb1f8p-22,
         -0x1.21cffep-8, -0x1.88aab4p-4, 0x1.545e44p-7},
        {-0x1.0d6d16p-9, 0x1.f4a55ep-14, 0x1.7f60e8p-17, 0x1.021f84p-22, 0x1.cfe3fap-25,
         -0x1.6a8236p-5, 0x1.b290fp-6, 0x1.1c6174p-8}};
    EmitValue size = v_at_most(m, v_abs(m, x), 9.1), offset = v_number(m, x, 0.75);
    EmitValue bits = v_bits(m, v_add(m, size, offset));
    EmitValue column = v_int_by(m, LLVMBuildLShr, bits, MANTISSA_BELOW);
    EmitValue upper = v_int_by(m, LLVMBuildShl, column, MANTISSA_BELOW);
    EmitValue begin = v_sub(m, v_float_of(m, upper), offset);
    LLVMValueRef near = v_compare(m, LLVMRealOEQ, begin, v_number(m, x, 0));
    EmitValue y = piecewise(m, c, 8, column, v_sub(m, size, begin), near, size);
    return v_copysign(m, y, x);
}

// Pieces around k / step, with k = round(step |x|) and t = step |x| - k. 3.95 and more round to 1;
// from 7.5 / step on the columns would come again.
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
    LLVMValueRef near = v_compare(m, LLVMRealOEQ, minus_k, v_number(m, x, 0));
    return v_copysign(m, piecewise(m, c, 7, index, t, near, size), x);
}
