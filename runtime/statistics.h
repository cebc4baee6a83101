// SPDX-License-Identifier: Apache-2.0
// What measurements on a noisy machine tell, to attc tune and to programs that tune themselves.
// Nothing here leaves the library.
#ifndef ATT_STATISTICS_H
#define ATT_STATISTICS_H

#include <stdint.h>

// What is to be chosen in another's place takes no more of its time: smaller gains are not told
// from noise, and age.
#define ATT_WORTH 0.99
// Nor of fewer seconds: where code happens to lie in memory makes as much (measured: entries of one
// task, with the same code twice).
#define ATT_WORTH_SECONDS 5e-8
// Pairs of runs of a candidate and of what it is compared with: so many at most, an odd number,
// whose median is one of them; and so many tell what is far slower.
enum { ATT_PAIRS_MOST = 41, ATT_PAIRS_HOPELESS = 2 };
// share: 0.5 for the median, between two of the values in their order, which they are sorted into.
// count: at least 1.
double att_quantile(double *values, int64_t count, double share);
// How sure it is that the values tend to be below a limit: one less the chance that a fair coin
// would put so many there (sign test).
double att_confidence(const double *values, int64_t count, double limit);
// How sure it has to be of the best of so many candidates: one of them may be lucky (Bonferroni).
double att_confidence_wanted(int64_t candidates);
// So many values, all of them below the limit, make it as sure.
int64_t att_values_wanted(int64_t candidates);

#endif
