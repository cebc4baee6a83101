// SPDX-License-Identifier: Apache-2.0
// Vector math of the CPU targets, emitted inline so that it fuses with the code around it.
//
// Largest error over all 2^32 floats against the C library's double functions, from
// tests/unit/vmath_test.c --full; results are the same bits on x86-64-v3 and v4, for any number of
// lanes. The sign of a zero is not kept. Time per 16 floats from L1, Zen 5 at about 4 GHz.
//
//     f32     bound     measured   ns, AVX-512   ns, AVX2
//     exp     1.5 ulp   0.892 ulp      1.5          3.7
//     log     2         0.931          3.0          6.0
//     tanh    2         1.363          3.2          6.7
//     erf     2         1.106          4.3          8.9
//     sqrt    0.5       0.500          1.1          2.3
//     rsqrt   2         1.491          1.8          3.5
//     sin     2         0.501          4.9          9.9
//     cos     2         0.501          5.3         10.1
//     pow     2         0.504         17           35     (65 million pairs and all special values)
//
// f16 and bf16 are computed in f32 and rounded when stored. f64 calls the C library for every lane
// (within 2 ulp with glibc); sqrt and rsqrt are vectors there too.
#ifndef ATTC_VMATH_H
#define ATTC_VMATH_H

#include "emit/emit.h"

// Is this MAP op computed here and not by emit_map()?
bool vmath_has(Op op);
// op of arguments with equal elems and lanes (a float elem; lanes 1 is a scalar).
EmitValue vmath_call(EmitModule *module, Op op, EmitValue *args, uint32_t n_args);

#endif
