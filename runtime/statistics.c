// SPDX-License-Identifier: Apache-2.0
// Quantiles and a sign test.

#include "statistics.h"

#include <math.h>
#include <stdlib.h>

static const double DOUBT = 0.05; // that what is chosen is no better

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double att_quantile(double *values, int64_t count, double share) {
    qsort(values, (size_t)count, sizeof *values, compare);
    double place = share * (double)(count - 1);
    int64_t below = (int64_t)place, above = below + 1 < count ? below + 1 : below;
    return values[below] + (place - (double)below) * (values[above] - values[below]);
}

// The chance of a fair coin to show heads at least `heads` times of `count`.
static double chance(int64_t heads, int64_t count) {
    double sum = 0, n = (double)count;
    for (int64_t i = heads; i <= count; i++) {
        double k = (double)i;
        sum += exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2));
    }
    return sum > 1 ? 1 : sum;
}

double att_confidence(const double *values, int64_t count, double limit) {
    int64_t below = 0;
    for (int64_t i = 0; i < count; i++)
        below += values[i] < limit;
    return count ? 1 - chance(below, count) : 0;
}

double att_confidence_wanted(int64_t candidates) {
    return 1 - DOUBT / (double)candidates;
}

int64_t att_values_wanted(int64_t candidates) {
    return (int64_t)ceil(-log2(DOUBT / (double)candidates));
}
