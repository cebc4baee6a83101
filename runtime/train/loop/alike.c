// SPDX-License-Identifier: Apache-2.0
// Do two ways to compute a call give the same, but for rounding?
//
// Results and gradients may be as large as the model, so what is kept of each is a sketch: of each
// of its pieces how large it is, and its sums under a few patterns of signs, which are drawn by
// position. The sums of two pieces are about as far apart as the pieces are, so that what is wrong
// in a part of a tensor, as at the end of a tile, is seen in its piece.
//
// Source: sums of random signs, Alon, Matias, Szegedy, "The space complexity of approximating the
// frequency moments", 1996.
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "train/loop/loop.h"

// Chosen. Apart, of how large a piece is: halves in between differ by a step of 0.004 or 0.0005.
// And of the elements of the largest gradient: where terms cancel, as those of the gradient of a
// bias of keys do, what is left is their rounding.
static const double ALIKE = 5e-3, BESIDE = 64 * FLT_EPSILON;

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
    int64_t piece = (sketch.length + ATT_SKETCH_PIECES - 1) / ATT_SKETCH_PIECES;
    for (int64_t i = 0; i < sketch.length; i++) {
        double value = att_call_element(call, tensor, i);
        AttSketchPiece *of = &sketch.pieces[i / piece];
        uint64_t signs = signs_of(i);
        of->length++;
        of->squares += value * value;
        for (int k = 0; k < ATT_SKETCH_SUMS; k++)
            of->sums[k] += signs >> k & 1 ? value : -value;
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

// The size of an element of the largest gradient, or of the largest output where there are none.
static double largest_of(const AttCall *call, const AttSketch *all) {
    double largest = 0, of_gradients = 0;
    for (int64_t i = 0; i < call->module->n_tensors; i++) {
        double squares = 0;
        for (int k = 0; k < ATT_SKETCH_PIECES; k++)
            squares += isfinite(all[i].pieces[k].squares) ? all[i].pieces[k].squares : 0;
        double size = all[i].length ? sqrt(squares / (double)all[i].length) : 0;
        largest = fmax(largest, size);
        if (call->module->tensors[i].use == ATT_USE_GRADIENT)
            of_gradients = fmax(of_gradients, size);
    }
    return of_gradients > 0 ? of_gradients : largest;
}

static bool is_alike(const AttSketchPiece *a, const AttSketchPiece *b, double largest) {
    if (!isfinite(a->squares))
        return !isfinite(b->squares);
    double apart = 0;
    for (int k = 0; k < ATT_SKETCH_SUMS; k++)
        apart += (a->sums[k] - b->sums[k]) * (a->sums[k] - b->sums[k]) / ATT_SKETCH_SUMS;
    return sqrt(apart) <= ALIKE * sqrt(a->squares) + BESIDE * largest * sqrt((double)a->length);
}

bool att_sketches_alike(const AttCall *call, const AttSketch *a, const AttSketch *b) {
    double largest = largest_of(call, a);
    bool alike = true;
    for (int64_t i = 0; i < call->module->n_tensors && alike; i++)
        for (int k = 0; k < ATT_SKETCH_PIECES && alike; k++)
            alike = is_alike(&a[i].pieces[k], &b[i].pieces[k], largest);
    return alike;
}
