// SPDX-License-Identifier: Apache-2.0
// Element types and tensors that own their memory.

#include <math.h>
#include <string.h>

#include "internal.h"

static const struct {
    const char *name;
    size_t bytes;
} elems[ATT_N_ELEM] = {
    [ATT_F32] = {"f32", 4},   [ATT_F64] = {"f64", 8}, [ATT_F16] = {"f16", 2},
    [ATT_BF16] = {"bf16", 2}, [ATT_I32] = {"i32", 4}, [ATT_I64] = {"i64", 8},
    [ATT_BOOL] = {"bool", 1},
};

size_t att_elem_bytes(AttElem elem) {
    return elem < ATT_N_ELEM ? elems[elem].bytes : 0;
}

const char *att_elem_name(AttElem elem) {
    return elem < ATT_N_ELEM ? elems[elem].name : "unknown";
}

// To float with an odd last bit unless exact, so that rounding once more to 16 bits is right.
static float round_to_odd(double x) {
    float near = (float)x;
    uint32_t bits;
    memcpy(&bits, &near, sizeof bits);
    if (isnan(x) || isinf(near) || (double)near == x || (bits & 1))
        return near;
    bits = fabs((double)near) < fabs(x) ? bits + 1 : bits - 1;
    memcpy(&near, &bits, sizeof near);
    return near;
}

bool att_float_store(AttElem elem, void *data, int64_t i, double x) {
    bool finite = isfinite(x);
    switch (elem) {
    case ATT_F64:
        ((double *)data)[i] = x;
        return true;
    case ATT_F32:
        ((float *)data)[i] = (float)x;
        return !finite || isfinite((float)x);
    case ATT_F16:
        ((uint16_t *)data)[i] = att_f32_to_f16(round_to_odd(x));
        return !finite || (((uint16_t *)data)[i] & 0x7C00) != 0x7C00;
    case ATT_BF16:
        ((uint16_t *)data)[i] = att_f32_to_bf16(round_to_odd(x));
        return !finite || (((uint16_t *)data)[i] & 0x7F80) != 0x7F80;
    default:
        return false;
    }
}

AttStatus att_tensor_new(AttContext *ctx, AttElem elem, int rank, const int64_t *shape,
                         AttTensorData *out) {
    int64_t bytes;
    *out = (AttTensorData){.elem = elem, .rank = rank};
    if (elem >= ATT_N_ELEM)
        return att_fail(ctx, ATT_ARGUMENT, "there is no element type %d", (int)elem);
    if (rank < 0 || rank > ATT_RANK_MAX)
        return att_fail(ctx, ATT_ARGUMENT, "a tensor cannot have %d dims, at most %d", rank,
                        ATT_RANK_MAX);
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 0)
            return att_fail(ctx, ATT_ARGUMENT, "dim %d of a tensor has the extent %lld", i,
                            (long long)shape[i]);
        out->shape[i] = shape[i];
    }
    if (!att_bytes_of(rank, shape, elems[elem].bytes, &bytes))
        return att_fail(ctx, ATT_ARGUMENT, "a tensor has more bytes than memory can hold");
    if (bytes == 0)
        return ATT_OK;
    out->data = att_alloc((size_t)bytes);
    if (!out->data)
        return att_fail(ctx, ATT_MEMORY, "out of memory: %lld bytes for a tensor",
                        (long long)bytes);
    memset(out->data, 0, (size_t)bytes);
    return ATT_OK;
}

void att_tensor_free(AttTensorData *tensor) {
    att_release(tensor->data);
    tensor->data = NULL;
}
