// SPDX-License-Identifier: Apache-2.0
// What the tests of the vector math share: code of one function for every level that this machine
// runs, what its results should be, and their errors.
#ifndef ATTC_TESTS_VMATH_FIXTURE_H
#define ATTC_TESTS_VMATH_FIXTURE_H

#include "support.h"

#include "cpu/cpu.h"
#include "emit/vmath.h"
#include "internal.h"

enum { N_LEVELS_MAX = 2 };

// out[i] = op(a[i], b[i])
typedef void (*Code)(const void *a, const void *b, void *out, int64_t count);
typedef struct Compiled Compiled;
typedef struct {
    AttContext *ctx;
    Compiled *machine[N_LEVELS_MAX];
    const Target *target[N_LEVELS_MAX];
    int n_levels;
    uint32_t stride; // one float of so many is tried
} Suite;
int vmath_open(Suite *suite); // not 0: this machine runs no level
void vmath_close(Suite *suite);
// lanes must divide the counts that the code is called with.
Code vmath_code(Compiled *machine, Op op, Elem elem, int lanes);

// BY_LEVEL: no symmetry, and levels give different bits
typedef enum { NO_SYMMETRY, ODD, EVEN, BY_LEVEL } Symmetry;
typedef struct {
    Op op;
    double (*reference)(double);
    double bound; // in ulp
    Symmetry symmetry;
} Function;
enum { N_FUNCTIONS = 9 };
extern const Function vmath_functions[N_FUNCTIONS];

// Error of `got` in units of the last place that a float as large as `exact` has. Infinity counts
// as 2^128.
double ulps(float got, double exact);
float float_of(uint32_t bits);
uint32_t bits_of(float value);
bool alike(float a, float b); // up to the sign of a zero, which the compiler does not keep
// Borders of ranges, of rounding, of reduction, and what is not finite: both signs of each, padded
// to a multiple of 64.
enum { SPECIAL_MAX = 1024 };
int vmath_special(float out[SPECIAL_MAX]);

#endif
