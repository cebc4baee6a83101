// SPDX-License-Identifier: Apache-2.0
// Do two ways to compute a call give the same, but for rounding?
//
// Results and gradients may be as large as the model, so what is kept of each is a sketch: how
// large it is, and its sums under a few patterns of signs, which are drawn by position. The sums of
// two tensors are about as far apart as the tensors are.
//
// Source: sums of random signs, Alon, Matias, Szegedy, "The space complexity of approximating the
// frequency moments", 1996.
#include <math.h>
#include <stdlib.h>

#include "train/loop/loop.h"

// Of how large a tensor is, and of the largest: what is smaller than that is rounding of others.
static const double ALIKE = 0.02, NOISE = 1e-5;

static uint64_t signs_of(int64_t position) {
    uint64_t bits = (uint64_t)position + UINT64_C(0x9e3779b97f4a7c15); // splitmix64
    bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
    return bits ^ bits >> 31;
}

static int64_t length_of(const AttCall *call, const AttTensor *tensor) {
    int64_t length = 1;
    for (int64_t k = 0; k < tensor->rank; k++)
        length *= call->extents[tensor->dims[k]];
    return length;
}

static AttSketch sketch_of(const AttCall *call, int64_t tensor) {
    AttSketch sketch = {.length = length_of(call, &call->module->tensors[tensor])};
    for (int64_t i = 0; i < sketch.length; i++) {
        double value = att_call_element(call, tensor, i);
        uint64_t signs = signs_of(i);
        sketch.squares += value * value;
        for (int k = 0; k < ATT_SKETCH_SUMS; k++)
            sketch.sums[k] += signs >> k & 1 ? value : -value;
    }
    return sketch;
}

AttStatus att_sketch(AttContext *ctx, const AttCall *call, AttSketch **out) {
    int64_t n = call->module->n_tensors;
    AttSketch *all = *out = calloc((size_t)n + 1, sizeof *all);
    if (!all)
        return att_no_memory(ctx);
    for (int64_t i = 0; i < n; i++)
        if (call->module->tensors[i].role == ATT_OUTPUT)
            all[i] = sketch_of(call, i);
    return ATT_OK;
}

static double largest_of(const AttSketch *all, int64_t n) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        if (all[i].length && isfinite(all[i].squares))
            largest = fmax(largest, sqrt(all[i].squares / (double)all[i].length));
    return largest;
}

static bool is_alike(const AttSketch *a, const AttSketch *b, double largest) {
    if (!isfinite(a->squares))
        return !isfinite(b->squares);
    double apart = 0, least = NOISE * largest * sqrt((double)a->length);
    for (int k = 0; k < ATT_SKETCH_SUMS; k++)
        apart += (a->sums[k] - b->sums[k]) * (a->sums[k] - b->sums[k]) / ATT_SKETCH_SUMS;
    return sqrt(apart) <= ALIKE * fmax(sqrt(a->squares), least);
}

bool att_sketches_alike(const AttCall *call, const AttSketch *a, const AttSketch *b) {
    int64_t n = call->module->n_tensors;
    double largest = largest_of(a, n);
    bool alike = true;
    for (int64_t i = 0; i < n && alike; i++)
        alike = is_alike(&a[i], &b[i], largest);
    return alike;
}
