// SPDX-License-Identifier: Apache-2.0
// Finds the extents of an entry's dims from the shapes of its inputs, and says which two places
// disagree when they do.

#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

// Who set an extent first: a tensor, or the source text or the caller (NULL).
typedef struct {
    const AttTensor *by;
} Origin;

static void name_dims(const AttModule *module, const AttTensor *tensor, char *out, size_t room) {
    size_t at = (size_t)snprintf(out, room, "[");
    for (int64_t i = 0; i < tensor->rank && at < room; i++)
        at += (size_t)snprintf(out + at, room - at, "%s%s", i ? ", " : "",
                               module->dims[tensor->dims[i]].name);
    if (at < room)
        snprintf(out + at, room - at, "]");
}

static AttStatus check_input(AttContext *ctx, const AttModule *module, const AttTensor *tensor,
                             const AttTensorData *data) {
    char dims[256];
    if ((int64_t)data->elem != tensor->elem)
        return att_fail(ctx, ATT_ARGUMENT, "%s holds %s where %s is needed", tensor->name,
                        att_elem_name(data->elem), att_elem_name((AttElem)tensor->elem));
    if (data->rank == tensor->rank)
        return ATT_OK;
    name_dims(module, tensor, dims, sizeof dims);
    return att_fail(ctx, ATT_ARGUMENT, "%s must have %lld dims, %s, but has %d", tensor->name,
                    (long long)tensor->rank, dims, data->rank);
}

// One dim of one input. root: the dim that all its likes follow.
static AttStatus set_extent(AttContext *ctx, const AttModule *module, const AttTensor *tensor,
                            int64_t dim, int64_t extent, Origin *origins, int64_t *extents) {
    int64_t root = module->dims[dim].like;
    const char *name = module->dims[dim].name;
    if (extents[root] == ATT_EXTENT_UNKNOWN) {
        extents[root] = extent;
        origins[root].by = tensor;
        return ATT_OK;
    }
    if (extents[root] == extent)
        return ATT_OK;
    if (!origins[root].by)
        return att_fail(ctx, ATT_ARGUMENT, "%s is %lld in %s but must be %lld", name,
                        (long long)extent, tensor->name, (long long)extents[root]);
    if (root != dim)
        return att_fail(ctx, ATT_ARGUMENT,
                        "%s is %lld in %s but %s, which it is like, is %lld in %s", name,
                        (long long)extent, tensor->name, module->dims[root].name,
                        (long long)extents[root], origins[root].by->name);
    return att_fail(ctx, ATT_ARGUMENT, "%s is %lld in %s but %lld in %s", name, (long long)extent,
                    tensor->name, (long long)extents[root], origins[root].by->name);
}

// Constants of the source text, and what the caller knows.
static AttStatus set_known(AttContext *ctx, const AttModule *module, const int64_t *known,
                           int64_t *extents) {
    for (int64_t d = 0; d < module->n_dims; d++)
        extents[d] = module->dims[d].extent;
    for (int64_t d = 0; d < module->n_dims; d++) {
        int64_t root = module->dims[d].like, extent = known ? known[d] : ATT_EXTENT_UNKNOWN;
        if (extents[root] == ATT_EXTENT_UNKNOWN)
            extents[root] = extents[d];
        if (extent == ATT_EXTENT_UNKNOWN)
            continue;
        if (extents[root] != ATT_EXTENT_UNKNOWN && extents[root] != extent)
            return att_fail(ctx, ATT_ARGUMENT, "%s is set to %lld but must be %lld",
                            module->dims[d].name, (long long)extent, (long long)extents[root]);
        extents[root] = extent;
    }
    return ATT_OK;
}

static AttStatus read_inputs(AttContext *ctx, const AttModule *module,
                             const AttTensorData *const *inputs, Origin *origins,
                             int64_t *extents) {
    for (int64_t i = 0; i < module->n_tensors && module->tensors[i].role == ATT_INPUT; i++) {
        const AttTensor *tensor = &module->tensors[i];
        if (!inputs[i])
            continue;
        AttStatus status = check_input(ctx, module, tensor, inputs[i]);
        for (int64_t k = 0; k < tensor->rank && !status; k++)
            status = set_extent(ctx, module, tensor, tensor->dims[k], inputs[i]->shape[k], origins,
                                extents);
        if (status)
            return status;
    }
    return ATT_OK;
}

AttStatus att_module_extents(AttContext *ctx, const AttModule *module,
                             const AttTensorData *const *inputs, const int64_t *known,
                             int64_t *extents) {
    Origin *origins = calloc((size_t)module->n_dims + 1, sizeof *origins);
    if (!origins)
        return att_no_memory(ctx);
    AttStatus status = set_known(ctx, module, known, extents);
    if (!status)
        status = read_inputs(ctx, module, inputs, origins, extents);
    for (int64_t d = 0; d < module->n_dims; d++)
        extents[d] = extents[module->dims[d].like];
    free(origins);
    return status ? status : att_module_compute(ctx, module, extents);
}
