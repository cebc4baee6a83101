// SPDX-License-Identifier: Apache-2.0
// What a plan with gradients keeps in memory for the backward pass, and what it computes again.
//
// A saved tensor is a stored value of the forward pass that a value of the backward pass is made
// of, itself or through what is computed where it is read. Arguments are there anyway.
#include "driver/driver.h"

typedef struct {
    const Fusion *fusion;
    const bool *backward; // by value id
    const bool *stored;   // likewise: by a group
    bool *saved, *seen;   // likewise
} Search;

static void visit(Search *s, const Value *value) {
    if (s->seen[value->id] || s->backward[value->id])
        return;
    s->seen[value->id] = true;
    s->saved[value->id] = s->stored[value->id];
    for (uint32_t k = 0; !s->stored[value->id] && k < value->n_args; k++)
        visit(s, value->args[k]);
}

static bool *find_saved(const Fusion *fusion, Arena *arena) {
    uint32_t count = fusion->graph->values.count;
    bool *stored = arena_array(arena, bool, count + 1);
    Search s = {.fusion = fusion,
                .backward = graph_backward(fusion->graph, arena),
                .stored = stored,
                .saved = arena_array(arena, bool, count + 1),
                .seen = arena_array(arena, bool, count + 1)};
    for (uint32_t i = 0; i < fusion->groups.count; i++)
        for (uint32_t k = 0; k < fusion->groups.at[i]->outputs.count; k++)
            stored[fusion->groups.at[i]->outputs.at[k]->id] = true;
    for (uint32_t i = 0; i < fusion->groups.count; i++)
        for (uint32_t m = 0; m < fusion->groups.at[i]->members.count; m++) {
            const Value *member = fusion->groups.at[i]->members.at[m];
            for (uint32_t k = 0; s.backward[member->id] && k < member->n_args; k++)
                visit(&s, member->args[k]);
        }
    return s.saved;
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
        if (kernel->recompute > 1 && flops >= 0)
            flops += (int64_t)(2 * (kernel->recompute - 1) * (double)kernel->multiplies);
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
