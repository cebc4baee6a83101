// SPDX-License-Identifier: Apache-2.0
// The parts of the vector math: each computes a function of f32 or f64 registers as its name says,
// random numbers those of i64.
#ifndef ATTC_VMATH_PARTS_H
#define ATTC_VMATH_PARTS_H

#include "emit/emit.h"

EmitValue vmath_exp_f32(EmitModule *m, EmitValue x);
EmitValue vmath_exp2_f32(EmitModule *m, EmitValue x);
EmitValue vmath_tanh_f32(EmitModule *m, EmitValue x);
EmitValue vmath_erf_f32(EmitModule *m, EmitValue x);
EmitValue vmath_log_f32(EmitModule *m, EmitValue x);
// vmath_trig.c
EmitValue vmath_sine_f32(EmitModule *m, EmitValue x, bool cosine);
// vmath_pow.c
EmitValue vmath_pow_f32(EmitModule *m, EmitValue a, EmitValue b);
// vmath_random.c: number args[2] of stream args[1] of seed args[0], all i64, as f32 in [0, 1).
EmitValue vmath_random(EmitModule *m, const EmitValue args[3]);
// vmath_x86.c
// table[index & 7] of each lane of an i32, as f32.
enum { VMATH_TABLE = 8 };
EmitValue vmath_look_up(EmitModule *m, const double table[VMATH_TABLE], EmitValue index);
// All others where vmath_has_avx512.
bool vmath_has_avx512(const EmitModule *m);
// p * 2^floor(n), rounded once: infinite or 0 beyond all exponents, NaN when n is.
EmitValue vmath_scale_f(EmitModule *m, EmitValue p, EmitValue n);
// x - floor(x), rounded down to a float below 1; 0 for an infinite x.
EmitValue vmath_fraction(EmitModule *m, EmitValue x);
// a where |a| < |b|; else, and where a is NaN, a number as large as b.
EmitValue vmath_smaller_size(EmitModule *m, EmitValue a, EmitValue b);

#endif
