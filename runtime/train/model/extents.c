// SPDX-License-Identifier: Apache-2.0
// Extents of the modules of a trainer: constants, what -D says, and the batch. Modules have tables
// of dims of their own; what is one dim has one name.

#include "train/model/model.h"

#include <stdlib.h>
#include <string.h>

#include "arguments.h"

int64_t att_batch_dim(const AttTrainer *trainer) {
    for (int64_t i = 0; i < trainer->n_fields; i++) {
        const AttTensor *tensor = &trainer->entry->tensors[trainer->fields[i].input];
        if (tensor->rank)
            return trainer->entry->dims[tensor->dims[0]].like;
    }
    return -1;
}

int64_t att_batch_fixed(const AttTrainer *trainer) {
    int64_t dim = att_batch_dim(trainer);
    int64_t extent = dim < 0 ? 1 : trainer->entry->dims[dim].extent;
    return extent > 0 ? extent : 0;
}

static int64_t find_dim(const AttModule *module, const char *name, size_t length) {
    for (int64_t d = 0; d < module->n_dims; d++)
        if (strlen(module->dims[d].name) == length &&
            memcmp(module->dims[d].name, name, length) == 0)
            return d;
    return -1;
}

// One of -D. A dim that this module has not may be another's.
static AttStatus set_dim(AttContext *ctx, const AttTrainer *trainer, const AttModule *module,
                         const AttDimArgument *item, int64_t *known) {
    if (item->problem)
        return att_fail(ctx, ATT_ARGUMENT, "-D %.*s: %s", item->length, item->text, item->problem);
    int64_t of_entry = find_dim(trainer->entry, item->text, (size_t)item->name_length);
    if (of_entry < 0)
        return att_fail(ctx, ATT_ARGUMENT, "-D %.*s: %s has no dim named '%.*s'", item->length,
                        item->text, trainer->entry->entry, item->name_length, item->text);
    if (trainer->entry->dims[of_entry].like == att_batch_dim(trainer))
        return att_fail(ctx, ATT_ARGUMENT,
                        "-D %.*s: %.*s is the dim of the batch: give --batch %lld", item->length,
                        item->text, item->name_length, item->text, (long long)item->extent);
    int64_t dim = find_dim(module, item->text, (size_t)item->name_length);
    if (dim >= 0 && known[dim] != ATT_EXTENT_UNKNOWN && known[dim] != item->extent)
        return att_fail(ctx, ATT_ARGUMENT, "-D %.*s: %s has %lld positions already", item->length,
                        item->text, module->dims[dim].name, (long long)known[dim]);
    if (dim >= 0)
        known[dim] = item->extent;
    return ATT_OK;
}

static AttStatus set_dims(AttContext *ctx, const AttTrainer *trainer, const AttModule *module,
                          const AttWords *dims, int64_t *known) {
    AttStatus status = ATT_OK;
    AttDimArgument item;
    for (int64_t i = 0; i < dims->count; i++)
        for (const char *at = dims->at[i]; !status && att_argument_dim(&at, &item);)
            status = set_dim(ctx, trainer, module, &item, known);
    return status;
}

static AttStatus check_known(AttContext *ctx, const AttModule *module, const int64_t *extents) {
    for (int64_t d = 0; d < module->n_dims; d++)
        if (extents[d] == ATT_EXTENT_UNKNOWN)
            return att_fail(ctx, ATT_ARGUMENT, "the extent of %s is not known: set it with -D %s=N",
                            module->dims[d].name, module->dims[d].name);
    return ATT_OK;
}

AttStatus att_extents(AttContext *ctx, const AttTrainer *trainer, const AttModule *module,
                      const AttWords *dims, int64_t batch, int64_t *extents) {
    size_t count = (size_t)(module->n_dims + module->n_tensors + 1);
    int64_t *known = malloc(count * sizeof *known), entry_dim = att_batch_dim(trainer);
    const AttTensorData **inputs = calloc(count, sizeof *inputs);
    AttStatus status = ATT_OK;
    if (!known || !inputs)
        status = att_no_memory(ctx);
    for (size_t d = 0; d < count && !status; d++)
        known[d] = ATT_EXTENT_UNKNOWN;
    if (!status && entry_dim >= 0) {
        const char *name = trainer->entry->dims[entry_dim].name;
        int64_t dim = find_dim(module, name, strlen(name));
        if (dim >= 0)
            known[dim] = batch;
    }
    if (!status)
        status = set_dims(ctx, trainer, module, dims, known);
    if (!status)
        status = att_module_extents(ctx, module, inputs, known, extents);
    if (!status)
        status = check_known(ctx, module, extents);
    free(known);
    free(inputs);
    return status;
}
