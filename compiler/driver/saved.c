// SPDX-License-Identifier: Apache-2.0
// What a plan with gradients keeps in memory for the backward pass, and what it computes again.
//
// A saved tensor is a stored value of the forward pass that a value of the backward pass is made
// of, itself or through what is computed where it is read. Arguments are there anyway, and what is
// copied into another order for a kernel (graph/fuse/pack.c) is saved as far as it is itself.
#include "driver/driver.h"

// A value's arguments stand before it: one walk from the last to the first finds what is read.
static bool *find_saved(const Fusion *fusion, Arena *arena) {
    const Graph *graph = fusion->graph;
    uint32_t count = graph->values.count;
    const bool *backward = graph_backward(graph, arena);
    bool *stored = arena_array(arena, bool, count + 1), // by value id: by a group
        *read = arena_array(arena, bool, count + 1),    // likewise: where the backward pass is
            *saved = arena_array(arena, bool, count + 1);
    for (uint32_t i = 0; i < fusion->groups.count; i++) {
        const Group *group = fusion->groups.at[i];
        for (uint32_t k = 0; k < group->outputs.count; k++)
            stored[group->outputs.at[k]->id] = group->outputs.at[k]->op != OP_COPY;
        for (uint32_t m = 0; m < group->members.count; m++)
            read[group->members.at[m]->id] = backward[group->members.at[m]->id];
    }
    for (uint32_t v = count; v-- > 0;) {
        const Value *value = graph->values.at[v];
        saved[v] = read[v] && stored[v] && !backward[v];
        bool passes = read[v] && (backward[v] || !stored[v]);
        for (uint32_t k = 0; passes && k < value->n_args; k++)
            read[value->args[k]->id] |= !backward[value->args[k]->id];
    }
    return saved;
}

// Of a kernel that multiplies more than once; -1 where they do not fit.
static int64_t flops_again(const KernelFigure *kernel) {
    double again = 2 * (kernel->recompute - 1) * (double)kernel->multiplies;
    if (kernel->recompute <= 1)
        return 0;
    return kernel->multiplies >= 0 && again < 0x1p63 ? (int64_t)again : -1;
}

// Of all groups, each value as often as it is computed, and of kernels that multiply more than
// once.
static int64_t flops_done(const Compilation *compiled, const CostFigures *figures,
                          const int64_t *extents) {
    int64_t flops = 0;
    for (uint32_t i = 0; i < figures->kernels.count; i++) {
        const KernelFigure *kernel = &figures->kernels.at[i];
        const Group *group = compiled->tile->launches.at[kernel->launch].group;
        for (uint32_t m = 0; m < group->members.count; m++)
            flops = report_sum(flops, value_flops(group->members.at[m], extents));
        flops = report_sum(flops, flops_again(kernel));
    }
    return flops;
}

// With sums in parts, as the plan has them.
static int64_t flops_needed(const Compilation *compiled, const int64_t *extents) {
    const Graph *cut = graph_cut(compiled->once, compiled->typical);
    return graph_flops(cut ? cut : compiled->once, extents);
}

const GradientFigures *report_gradient(const Compilation *compiled, const CostFigures *figures,
                                       const int64_t *extents, Arena *arena) {
    GradientFigures *out = arena_new_of(arena, GradientFigures);
    const bool *saved = find_saved(compiled->fusion, arena);
    for (uint32_t i = 0; i < compiled->plan->buffers.count; i++)
        if (saved[compiled->plan->buffers.at[i].value->id]) {
            vec_push(arena, &out->saved, figures->buffers.at[i]);
            out->saved_bytes = report_sum(out->saved_bytes, figures->buffers.at[i].bytes);
        }
    int64_t done = flops_done(compiled, figures, extents);
    int64_t needed = flops_needed(compiled, extents);
    out->recomputed_flops = done < 0 || needed < 0 ? -1 : done - needed;
    return out;
}
