// SPDX-License-Identifier: Apache-2.0
// The learning rate of a step. All schedules rise from 0 to `rate` along the first `warmup` steps
// W, in equal pieces, and then, with N steps in all:
//
//     linear        down in a line, to rate / (N - W) in the last step
//     cosine        down along a cosine to a tenth of it (Brown et al. 2020)
//     constant      as it is
//     inverse-sqrt  rate * sqrt(W / step)
//     noam          rate * min(step ** -0.5, step * W ** -1.5)
//
// With noam the rate is a factor and not what it rises to: of d ** -0.5 it is the schedule of
// "Attention is all you need", 5.3.

#include <math.h>

#include "train/loop/loop.h"

const char *const att_schedule_names[] = {"linear",       "cosine",   "noam",
                                          "inverse-sqrt", "constant", NULL};

static double cosine(double share) {
    const double least = 0.1;
    return least + (1 - least) * 0.5 * (1 + cos(M_PI * share));
}

double att_learning_rate(const AttSchedule *s, int64_t step) {
    double at = (double)step, warmup = s->warmup > 0 ? (double)s->warmup : 1;
    double left = (double)(s->steps - s->warmup); // steps after the warm-up
    if (s->kind == ATT_SCHEDULE_NOAM)
        return s->rate * fmin(1 / sqrt(at), at / (warmup * sqrt(warmup)));
    if (step <= s->warmup)
        return s->rate * at / warmup;
    double done = at - (double)s->warmup;
    switch (s->kind) {
    case ATT_SCHEDULE_LINEAR:
        return s->rate * fmax(left - done + 1, 0) / fmax(left, 1);
    case ATT_SCHEDULE_COSINE:
        return s->rate * cosine(fmin(done / fmax(left, 1), 1));
    case ATT_SCHEDULE_INVERSE_SQRT:
        return s->rate * sqrt(warmup / at);
    default:
        return s->rate;
    }
}
