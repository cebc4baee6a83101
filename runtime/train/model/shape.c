// SPDX-License-Identifier: Apache-2.0
// Shapes of the tensors of a module.

#include <stdio.h>

#include "train/train.h"

const AttTensor *att_field_tensor(const AttTrainer *trainer, int64_t field) {
    return &trainer->entry->tensors[trainer->fields[field].input];
}

void att_shape_of(const AttModule *module, const AttTensor *tensor, const int64_t *extents,
                  int64_t *shape) {
    for (int64_t i = 0; i < tensor->rank; i++)
        shape[i] = extents ? extents[tensor->dims[i]] : module->dims[tensor->dims[i]].extent;
}

int64_t att_elements_of(const AttModule *module, const AttTensor *tensor, const int64_t *extents) {
    int64_t shape[ATT_RANK_MAX], count = 1;
    att_shape_of(module, tensor, extents, shape);
    for (int64_t i = 0; i < tensor->rank; i++)
        count *= shape[i];
    return count;
}

const char *att_shape_text(const char *first, int rank, const int64_t *shape,
                           char out[ATT_SHAPE_ROOM]) {
    size_t at = (size_t)snprintf(out, ATT_SHAPE_ROOM, "[%s", first);
    for (int i = 0; i < rank; i++)
        at += (size_t)snprintf(out + at, ATT_SHAPE_ROOM - at, "%s%lld", i || *first ? ", " : "",
                               (long long)shape[i]);
    snprintf(out + at, ATT_SHAPE_ROOM - at, "]");
    return out;
}
