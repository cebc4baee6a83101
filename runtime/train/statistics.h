// SPDX-License-Identifier: Apache-2.0
// What measurements on a noisy machine tell, to attc tune and to programs that tune themselves.
#ifndef ATT_STATISTICS_H
#define ATT_STATISTICS_H

#include <stdint.h>

// A schedule is worth choosing that takes no more of the default's time: smaller gains are not told
// from noise, and age.
#define ATT_WORTH 0.99
// share: 0.5 for the median, between two of the values in their order, which they are sorted into.
// count: at least 1.
double att_quantile(double *values, int64_t count, double share);
// How sure it is that the values tend to be below a limit: one less the chance that a fair coin
// would put so many there (sign test).
double att_confidence(const double *values, int64_t count, double limit);

#endif
