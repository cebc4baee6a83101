// SPDX-License-Identifier: Apache-2.0
// Stages that only store run along what lies side by side in what they store, where that is
// predicted to be faster. What is wanted in another layout than the nest's would be stored across
// the lanes, one number at a time:
//
//     compute Y = X + t    over d n  lanes=n    ->    compute Y = X + t    over n d  lanes=d
//
// with X[n d], Y[n d], and t[d n] in scratch, which is read across the lanes in blocks.
//
// Requires: the kernel is complete. Ensures: the same values.
#include "tile/lower/lower.h"

// Does it store every point it works on, each at a place of its own, and read nothing of that?
static bool only_stores(const Kernel *kernel, const Stage *stage) {
    if (stage->kind != STAGE_COMPUTE || stage->lanes == TILE_DIM_NONE || stage->pad ||
        stage_reads_own(kernel, stage))
        return false;
    for (uint32_t i = 0; i < stage->sinks.count; i++) {
        const Sink *sink = &stage->sinks.at[i];
        if (sink->mode != SINK_SET || kernel->buffers.at[sink->to.buffer].panel_width)
            return false;
        for (int d = 0; d < stage->n_dims; d++)
            if (!access_has_dim(&sink->to, stage->dims[d]))
                return false;
    }
    return true;
}

// With the lanes innermost, directly inside of the dim that was.
static Stage run_along(const Stage *stage, TileDimId lanes) {
    Stage out = *stage;
    out.lanes = lanes;
    int n = 0;
    for (int i = 0; i < stage->n_dims; i++)
        if (stage->dims[i] != lanes)
            out.dims[n++] = stage->dims[i];
    out.dims[n] = lanes;
    return out;
}

static double kernel_seconds(const Lowering *lower) {
    return tile_cost(NULL, lower->kernel, lower->typical.at, lower->machine).seconds;
}

static void try_along(const Lowering *lower, Stage *stage, TileDimId lanes) {
    Stage before = *stage;
    double seconds = kernel_seconds(lower);
    *stage = run_along(stage, lanes);
    if (kernel_seconds(lower) >= seconds)
        *stage = before;
}

static void visit(void *self, Stage *stage, const int64_t *length) {
    const Lowering *lower = self;
    int64_t vector = machine_lanes(lower->machine, sizeof(float));
    if (!only_stores(lower->kernel, stage))
        return;
    for (uint32_t i = 0; i < stage->sinks.count; i++) {
        const Access *to = &stage->sinks.at[i].to;
        TileDimId last = to->rank ? to->index[to->rank - 1].dim : TILE_DIM_NONE;
        if (last != TILE_DIM_NONE && last != stage->lanes && length[last] >= vector)
            try_along(lower, stage, last);
    }
}

void lower_along(Lowering *lower) {
    lower_each_stage(lower, visit, lower);
}
