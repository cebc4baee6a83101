// SPDX-License-Identifier: Apache-2.0
// What measurements on a noisy machine tell: medians and ranks.
#include <math.h>

#include "tune/tune.h"

double tune_quantile(const double *values, uint32_t count, double share) {
    if (!count)
        return NAN;
    Arena *arena = arena_new();
    double *sorted = arena_copy(arena, values, count * sizeof *values);
    double quantile = att_quantile(sorted, count, share);
    arena_free(arena);
    return quantile;
}

double tune_median(const double *values, uint32_t count) {
    return tune_quantile(values, count, 0.5);
}

// 1 for the least; equal ones have the mean of their places.
static void find_ranks(const double *values, uint32_t count, double *ranks) {
    for (uint32_t i = 0; i < count; i++) {
        double below = 0, equal = 0;
        for (uint32_t k = 0; k < count; k++) {
            below += values[k] < values[i];
            equal += values[k] == values[i];
        }
        ranks[i] = below + 0.5 * (equal + 1);
    }
}

double tune_rank_correlation(const double *a, const double *b, uint32_t count) {
    Arena *arena = arena_new();
    double *x = arena_array(arena, double, count + 1), *y = arena_array(arena, double, count + 1);
    find_ranks(a, count, x);
    find_ranks(b, count, y);
    double mean = 0.5 * (count + 1), xy = 0, xx = 0, yy = 0;
    for (uint32_t i = 0; i < count; i++) {
        xy += (x[i] - mean) * (y[i] - mean);
        xx += (x[i] - mean) * (x[i] - mean);
        yy += (y[i] - mean) * (y[i] - mean);
    }
    arena_free(arena);
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}
