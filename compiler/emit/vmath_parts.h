// SPDX-License-Identifier: Apache-2.0
// The parts of the vector math: each computes a function of f32 or f64 registers as its name says.
#ifndef ATTC_VMATH_PARTS_H
#define ATTC_VMATH_PARTS_H

#include "emit/emit.h"

EmitValue vmath_exp_f32(EmitModule *m, EmitValue x);
EmitValue vmath_tanh_f32(EmitModule *m, EmitValue x);
EmitValue vmath_erf_f32(EmitModule *m, EmitValue x);
EmitValue vmath_log_f32(EmitModule *m, EmitValue x);
// vmath_trig.c
EmitValue vmath_sine_f32(EmitModule *m, EmitValue x, bool cosine);
// vmath_pow.c
EmitValue vmath_pow_f32(EmitModule *m, EmitValue a, EmitValue b);

#endif
