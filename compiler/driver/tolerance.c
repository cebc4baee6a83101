// SPDX-License-Identifier: Apache-2.0
// The one tolerance table: how far compiled code may be from the double-precision oracle.
//
// limit = factor * (error of the naive evaluation in the element type) + floor * ulp of the largest
// value. The naive evaluation is the oracle itself with every operation rounded (EVAL_F32). The
// rule follows the tests of FlashAttention: an error counts relative to what plain code would have
// made.
#include "driver/driver.h"

#include <math.h>

typedef struct {
    double factor; // of the naive error
    double floor;  // in units of `ulp` times the largest reference value
    double ulp;
} Tolerance;

static const Tolerance tolerances[N_ELEM] = {
    [ELEM_F32] = {2, 2, 0x1p-23}, [ELEM_F64] = {2, 16, 0x1p-52}, [ELEM_F16] = {2, 2, 0x1p-10},
    [ELEM_BF16] = {2, 2, 0x1p-7}, [ELEM_I32] = {0, 0, 0},        [ELEM_I64] = {0, 0, 0},
    [ELEM_BOOL] = {0, 0, 0},
};

static double difference(double a, double b) {
    if (isnan(a) && isnan(b))
        return 0;
    if (isnan(a) || isnan(b) || isinf(a) || isinf(b))
        return a == b ? 0 : INFINITY;
    return fabs(a - b);
}

double tolerance_difference(const double *reference, const double *actual, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, difference(reference[i], actual[i]));
    return largest;
}

OutputError tolerance_measure(Elem elem, const double *reference, const double *actual,
                              int64_t count, double naive) {
    OutputError out = {.naive = naive, .error = tolerance_difference(reference, actual, count)};
    for (int64_t i = 0; i < count; i++)
        if (isfinite(reference[i]))
            out.largest = fmax(out.largest, fabs(reference[i]));
    const Tolerance *t = &tolerances[elem];
    out.limit = t->factor * naive + t->floor * t->ulp * out.largest;
    if (!isfinite(
            out.limit)) // plain code overflowed where the oracle did not: nothing to hold it to
        out.limit = INFINITY;
    return out;
}
