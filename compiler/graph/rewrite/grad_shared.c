// SPDX-License-Identifier: Apache-2.0
// What gradient rules share: values of the forward pass, and adding up what they contribute.
#include "graph/rewrite/grad.h"

bool gradient_wants(const Gradient *gradient, const Value *value, uint32_t arg) {
    return gradient->wanted[value->args[arg]->id];
}

// ---- sums --------------------------------------------------------------------------------------

Value *gradient_total(Gradient *gradient, Value *part, DimId dim) {
    if (!dims_has(&part->dims, dim))
        return rewrite_times_extents(gradient->rewrite.to, part, &(DimList){1, {dim}});
    DimList kept = dims_minus(&part->dims, &(DimList){1, {dim}});
    return gradient_summed(gradient, part, &kept);
}

// What all adjoints are over that the reversed scans of some exits carry: tasks may be cut along
// it.
static DimList common_dims(const Gradient *gradient, const DimList *exits) {
    DimList common = {0};
    for (uint32_t i = 0; i < exits->count; i++) {
        const GradientScan *scan = gradient_reversed(gradient, exits->at[i]);
        common = i ? dims_intersect(&common, &scan->common) : scan->common;
    }
    return common;
}

DimList gradient_wanted_dims(Gradient *gradient, const Value *value, uint32_t arg) {
    const Value *to = value->args[arg];
    DimList dims = gradient_dims(gradient, &to->dims);
    Leaving leaving = gradient_leaving(gradient, value, to, NULL);
    DimList common = common_dims(gradient, &leaving.exits);
    dims = dims_union(&dims, &leaving.exits);
    return dims_union(&dims, &common);
}

void gradient_add(Gradient *gradient, const Value *value, uint32_t arg, Value *part,
                  const DimList *over) {
    Graph *graph = gradient->rewrite.to;
    const Value *to = value->args[arg];
    DimList kept = gradient_wanted_dims(gradient, value, arg);
    DimList own = gradient_dims(gradient, &to->dims), missing = gradient_dims(gradient, over);
    missing = dims_minus(&missing, &part->dims);
    missing = dims_minus(&missing, &own);
    Leaving leaving = gradient_leaving(gradient, value, to, NULL);
    DimList positions = {0}; // of a scan that the argument is of as well, under another name
    for (uint32_t i = 0; i < leaving.kept.count; i++)
        dims_add(&positions, leaving.kept.from[i]);
    missing = dims_minus(&missing, &positions);
    leaving.part = rewrite_times_extents(graph, gradient_summed(gradient, part, &kept), &missing);
    gradient_leave(gradient, leaving);
}
