// SPDX-License-Identifier: Apache-2.0
// Vector math of the CPU targets, emitted inline so that it fuses with the code around it.
//
// Largest error over all 2^32 floats against the C library's double functions, from
// tests/unit/vmath_test.c --every 1; results are the same bits for any number of lanes, and on
// x86-64-v3 and v4 except for exp2 (see vmath_exp.c). The sign of a zero is not kept. Time per 16
// floats from L1, from its --time: an Intel server core with AVX-512 at 3.3 GHz.
//
//     f32     bound     measured   ns, AVX-512   ns, AVX2
//     exp     1.5 ulp   0.892 ulp      1.9          5.1
//     exp2    1.5       1.418          1.3          5.0
//     log     2         0.931          4.4          9.2
//     tanh    2         1.363          5.3          8.6
//     erf     2         1.460          2.3 *       5.3 *
//     sqrt    0.5       0.500          3.5          3.3
//     rsqrt   2         1.491          6.5          6.1
//     sin     2         0.501          7.2         12.1
//     cos     2         0.501          7.8         12.1
//     pow     2         0.504         25           45     (65 million pairs and all special values)
//     random  exact
//
// * by llvm-mca-19, not measured; an AMD EPYC (25.1.1, AVX2) takes 9.4 ns.
//
// f16 and bf16 are computed in f32 and rounded when stored. f64 calls the C library for every lane
// (within 2 ulp with glibc); sqrt and rsqrt are vectors there too.
#ifndef ATTC_VMATH_H
#define ATTC_VMATH_H

#include "emit/emit.h"

// Is this MAP op computed here and not by emit_map()?
bool vmath_has(Op op);
// op of arguments with equal elems and lanes (a float elem, i64 for RANDOM; lanes 1 is a scalar).
EmitValue vmath_call(EmitModule *module, Op op, EmitValue *args, uint32_t n_args);

#endif
