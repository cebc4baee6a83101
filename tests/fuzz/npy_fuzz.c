// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as an .npy file, read as every element type. A tensor that comes out must
// lie in its memory, and what both the natural type and f64 can hold must be the same numbers.
#include <math.h>
#include <stdlib.h>

#include "attc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds) {
    if (!holds)
        abort();
}

static int64_t count_of(const AttTensorData *tensor) {
    int64_t count = 1;
    check(tensor->rank >= 0 && tensor->rank <= ATT_RANK_MAX);
    for (int i = 0; i < tensor->rank; i++) {
        check(tensor->shape[i] >= 0);
        count *= tensor->shape[i];
    }
    check((tensor->data != NULL) == (count != 0));
    return count;
}

static double number_at(const AttTensorData *tensor, int64_t i) {
    switch (tensor->elem) {
    case ATT_F32:
        return (double)((const float *)tensor->data)[i];
    case ATT_F64:
        return ((const double *)tensor->data)[i];
    case ATT_F16:
        return (double)att_f16_to_f32(((const uint16_t *)tensor->data)[i]);
    case ATT_BF16:
        return (double)att_bf16_to_f32(((const uint16_t *)tensor->data)[i]);
    case ATT_I32:
        return ((const int32_t *)tensor->data)[i];
    case ATT_I64:
        return (double)((const int64_t *)tensor->data)[i];
    default:
        check(((const uint8_t *)tensor->data)[i] <= 1);
        return ((const uint8_t *)tensor->data)[i];
    }
}

static void compare(const AttTensorData *a, const AttTensorData *b) {
    int64_t count = count_of(a);
    check(count_of(b) == count && a->rank == b->rank);
    for (int64_t i = 0; i < count; i++) {
        double x = number_at(a, i), y = number_at(b, i);
        check(x == y || (isnan(x) && isnan(y)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    AttContext *ctx = att_context_new(1);
    AttTensorData natural, tensor;
    check(ctx != NULL);
    AttStatus status = att_npy_parse(ctx, "fuzz.npy", data, size, ATT_N_ELEM, &natural);
    check(status == ATT_OK || (att_message(ctx)[0] && !natural.data));
    for (int elem = 0; elem < ATT_N_ELEM; elem++) {
        AttStatus other = att_npy_parse(ctx, "fuzz.npy", data, size, (AttElem)elem, &tensor);
        check(other == ATT_OK || !tensor.data);
        if (other == ATT_OK)
            check(tensor.elem == (AttElem)elem && count_of(&tensor) >= 0);
        if (status == ATT_OK && elem == ATT_F64) {
            check(other == ATT_OK); // f64 takes whatever there is
            compare(&natural, &tensor);
        }
        att_tensor_free(&tensor);
    }
    att_tensor_free(&natural);
    att_context_free(ctx);
    return 0;
}
