// SPDX-License-Identifier: Apache-2.0
// The oracle's nested loops.
#include <stdlib.h>
#include <string.h>

#include "graph/oracle/eval.h"

Axes axes_of(const DimList *dims) {
    Axes axes = {.count = dims->count};
    for (uint32_t i = 0; i < dims->count; i++)
        axes.at[i] = dims->at[i];
    return axes;
}

Axes axes_of_arg(const Value *value, uint32_t arg) {
    return axes_of(&value->args[arg]->dims);
}

Axes axes_without(Axes axes, DimId dim) {
    Axes out = {0};
    for (uint32_t i = 0; i < axes.count; i++)
        if (axes.at[i] != dim)
            out.at[out.count++] = axes.at[i];
    return out;
}

bool axes_has(const Axes *axes, DimId dim) {
    for (uint32_t i = 0; i < axes->count; i++)
        if (axes->at[i] == dim)
            return true;
    return false;
}

int64_t axes_stride(const Axes *axes, const int64_t *extents, DimId dim) {
    int64_t stride = 1;
    for (uint32_t i = axes->count; i-- > 0; stride *= extents[axes->at[i]])
        if (axes->at[i] == dim)
            return stride;
    return 0;
}

Walk walk_over(const Axes *over, const Axes *const *operands, uint32_t n, const int64_t *extents) {
    Walk walk = {.rank = over->count, .n_operands = n};
    for (uint32_t i = 0; i < over->count; i++) {
        walk.extents[i] = extents[over->at[i]];
        for (uint32_t k = 0; k < n; k++)
            walk.strides[i][k] = axes_stride(operands[k], extents, over->at[i]);
    }
    return walk;
}

// Advances the position in all loops but the innermost. False when it went round.
static bool walk_step(const Walk *walk, int64_t *at, int64_t *offsets) {
    for (uint32_t i = walk->rank - 1; i-- > 0;) {
        at[i]++;
        bool over = at[i] == walk->extents[i];
        for (uint32_t k = 0; k < walk->n_operands; k++)
            offsets[k] += over ? -(at[i] - 1) * walk->strides[i][k] : walk->strides[i][k];
        if (!over)
            return true;
        at[i] = 0;
    }
    return false;
}

void walk_sum_backward(Walk *walk) {
    for (uint32_t i = 0; i < walk->rank; i++)
        for (uint32_t k = 1; walk->strides[i][0] == 0 && k < walk->n_operands; k++) {
            walk->starts[k] += (walk->extents[i] - 1) * walk->strides[i][k];
            walk->strides[i][k] = -walk->strides[i][k];
        }
}

void walk_run(const Walk *walk, WalkInner *inner, void *context) {
    int64_t at[WALK_RANK] = {0}, offsets[WALK_OPERANDS];
    memcpy(offsets, walk->starts, sizeof offsets);
    static const int64_t still[WALK_OPERANDS];
    for (uint32_t i = 0; i < walk->rank; i++)
        if (walk->extents[i] == 0)
            return;
    if (walk->rank == 0) {
        inner(context, 1, offsets, still);
        return;
    }
    uint32_t last = walk->rank - 1;
    do
        inner(context, walk->extents[last], offsets, walk->strides[last]);
    while (walk_step(walk, at, offsets));
}

double *eval_buffer(const Axes *axes, const int64_t *extents) {
    int64_t bytes = sizeof(double);
    for (uint32_t i = 0; i < axes->count; i++)
        bytes = mul_capped(bytes, extents[axes->at[i]]);
    double *buffer = calloc(1, bytes ? (size_t)bytes : 1);
    if (!buffer)
        no_memory("a tensor of the oracle, in double precision", (uint64_t)bytes);
    return buffer;
}
