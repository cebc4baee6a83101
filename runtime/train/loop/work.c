// SPDX-License-Identifier: Apache-2.0
// How much of what the machine can do a step does: twice the multiplies of its contractions, each
// value once and without what masks leave out, against a loop of multiply-adds on registers. What
// else a step does (maps, sums, the optimizer, kernels that compute a value again) takes time and
// counts as no work.

#include <math.h>

#include "train/loop/loop.h"
#include "train/peak.h"

// The best of some milliseconds: the clock rises in the first of them, and others may use the
// machine in between.
static double find_peak(AttContext *ctx, int level) {
    static const double seconds = 0.03;
    double begun = att_seconds(), peak = 0;
    do
        peak = fmax(peak, att_peak_flops(ctx, level == ATT_LEVEL_X86_64_V4 ? 64 : 32));
    while (peak > 0 && att_seconds() - begun < seconds);
    return peak;
}

AttWork att_work_open(AttContext *ctx, const AttTrainer *trainer, const AttCall *gradient,
                      int64_t batches) {
    int64_t multiplies;
    int level = att_module_level(ctx, gradient->module);
    if (level < 0 ||
        !att_formula_value(&trainer->multiplies[level], gradient->extents, &multiplies))
        return (AttWork){0};
    double seen = 1 - 1e-6 * (double)trainer->masked[level];
    return (AttWork){2 * seen * (double)multiplies * (double)batches, find_peak(ctx, level)};
}

double att_work_share(const AttWork *work, double seconds) {
    return work->peak > 0 ? work->flops / (seconds * work->peak) : NAN;
}
