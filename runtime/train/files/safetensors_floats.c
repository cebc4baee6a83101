// SPDX-License-Identifier: Apache-2.0
// A tensor of floats out of a safetensors file, in the elements that are wanted.

#include <math.h>
#include <string.h>

#include "train/train.h"

static bool is_float(AttElem elem) {
    return elem == ATT_F32 || elem == ATT_F64 || elem == ATT_F16 || elem == ATT_BF16;
}

// Elements of a file may lie anywhere, also across what their type is aligned to.
static double float_at(AttElem elem, const void *data, int64_t i) {
    const uint8_t *at = (const uint8_t *)data + i * (int64_t)att_elem_bytes(elem);
    double wide;
    float single;
    uint16_t half;
    memcpy(&half, at, sizeof half);
    if (elem == ATT_F16)
        return att_f16_to_f32(half);
    if (elem == ATT_BF16)
        return att_bf16_to_f32(half);
    memcpy(&single, at, sizeof single);
    if (elem == ATT_F32)
        return single;
    memcpy(&wide, at, sizeof wide);
    return wide;
}

static AttStatus convert(AttContext *ctx, const char *path, const AttNamedTensor *tensor,
                         AttTensorData *out) {
    char shown[ATT_SHOWN_ROOM];
    int64_t count = tensor->bytes / (int64_t)att_elem_bytes(tensor->elem);
    for (int64_t i = 0; i < count; i++) {
        double value = float_at(tensor->elem, tensor->data, i);
        if (!att_float_store(out->elem, out->data, i, value))
            return att_fail(
                ctx, ATT_FORMAT, "%s: tensor '%s': element %lld is %g, which %s cannot hold", path,
                att_shown(tensor->name, shown), (long long)i, value, att_elem_name(out->elem));
    }
    return ATT_OK;
}

AttStatus att_safetensors_floats(AttContext *ctx, const char *path, const AttNamedTensor *tensor,
                                 AttElem elem, AttTensorData *out) {
    char shown[ATT_SHOWN_ROOM];
    *out = (AttTensorData){0};
    if (!is_float(tensor->elem) || !is_float(elem))
        return att_fail(ctx, ATT_FORMAT, "%s: tensor '%s' holds %s where %s is needed", path,
                        att_shown(tensor->name, shown), tensor->type, att_elem_name(elem));
    AttStatus status = att_tensor_new(ctx, elem, tensor->rank, tensor->shape, out);
    if (!status && tensor->bytes && tensor->elem == elem)
        memcpy(out->data, tensor->data, (size_t)tensor->bytes);
    else if (!status)
        status = convert(ctx, path, tensor, out);
    if (status)
        att_tensor_free(out);
    return status;
}
