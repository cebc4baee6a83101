// SPDX-License-Identifier: Apache-2.0
// Stages that only store run along what lies side by side in most of what they touch. What another
// layout than the nest's is wanted in would be stored across the lanes, one number at a time:
//
//     compute Y = X + t    over d n  lanes=n    ->    compute Y = X + t    over n d  lanes=d
//
// with X[n d], Y[n d], and t[d n] in scratch, which is read across the lanes in blocks.
#include "tile/lower/lower.h"

// Cycles of a vector: side by side, of a block that is read across the lanes, number by number.
static const double BESIDE = 1, CROSSED = 4, APART = 16;

static double access_cycles(const Lowering *lower, const Stage *stage, const Access *access,
                            bool store) {
    const TileBuffer *buffer = &lower->kernel->buffers.at[access->buffer];
    if (!access_has_dim(access, stage->lanes))
        return 0;
    if (access->index[access->rank - 1].dim == stage->lanes ||
        access_panel_dim(lower->kernel, access) == stage->lanes)
        return BESIDE;
    bool crossed = !store && stage_crosses(lower->kernel, stage, access);
    return (crossed ? CROSSED : APART) * (double)elem_bytes(buffer->elem) / sizeof(float);
}

static double stage_cycles(const Lowering *lower, const Stage *stage) {
    double cycles = 0;
    for (uint32_t i = 0; i < stage->terms.count; i++)
        if (stage->terms.at[i].kind == TERM_LOAD)
            cycles += access_cycles(lower, stage, &stage->terms.at[i].load, false);
    for (uint32_t i = 0; i < stage->sinks.count; i++)
        cycles += access_cycles(lower, stage, &stage->sinks.at[i].to, true);
    return cycles;
}

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

static void visit(const Lowering *lower, const NodeList *body) {
    for (uint32_t i = 0; i < body->count; i++) {
        visit(lower, &body->at[i]->body);
        Stage *stage = body->at[i]->stage;
        if (body->at[i]->kind != NODE_STAGE || !only_stores(lower->kernel, stage))
            continue;
        const Access *to = &stage->sinks.at[0].to;
        TileDimId last = to->rank ? to->index[to->rank - 1].dim : TILE_DIM_NONE;
        int64_t lanes = machine_lanes(lower->machine, sizeof(float));
        if (last == TILE_DIM_NONE || last == stage->lanes || lower->typical.at[last] < lanes)
            continue;
        Stage other = run_along(stage, last);
        if (stage_cycles(lower, &other) < stage_cycles(lower, stage))
            *stage = other;
    }
}

void lower_along(const Lowering *lower) {
    visit(lower, &lower->kernel->body);
}
