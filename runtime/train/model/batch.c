// SPDX-License-Identifier: Apache-2.0
// Memory for the data arguments of a batch, and the argument `seed` that the program tells.

#include "train/model/model.h"

#include <stdlib.h>
#include <string.h>

static bool is_seed(const AttTrainer *trainer, int64_t field) {
    const AttTensor *tensor = att_field_tensor(trainer, field);
    return strcmp(trainer->fields[field].name, "seed") == 0 && tensor->rank == 0 &&
           (tensor->elem == ATT_I64 || tensor->elem == ATT_I32);
}

// The extents are the caller's to free, also on failure.
static AttStatus find_extents(AttContext *ctx, const AttTrainer *trainer, const AttWords *dims,
                              int64_t n_examples, int64_t **out) {
    *out = calloc((size_t)trainer->entry->n_dims + 1, sizeof **out);
    if (!*out)
        return att_no_memory(ctx);
    return att_extents(ctx, trainer, trainer->entry, dims, n_examples, *out);
}

AttStatus att_batch_data(AttContext *ctx, const AttDataOptions *options, const AttTrainer *trainer,
                         const AttWords *dims, int64_t n_examples, AttData **out) {
    int64_t *extents;
    AttStatus status = find_extents(ctx, trainer, dims, n_examples, &extents);
    if (!status)
        status = att_data_open(ctx, options, trainer, extents, att_batch_dim(trainer), out);
    free(extents);
    return status;
}

static AttStatus open_field(AttContext *ctx, int64_t field, AttBatch *b) {
    const AttModule *entry = b->trainer->entry;
    const AttTensor *tensor = att_field_tensor(b->trainer, field);
    int64_t shape[ATT_RANK_MAX];
    AttTensorData data;
    bool fills = att_data_fills(b->data, field);
    if (!fills && !is_seed(b->trainer, field))
        return att_fail(ctx, ATT_ARGUMENT, "the data has nothing for the argument %s of %s",
                        tensor->name, entry->entry);
    att_shape_of(entry, tensor, b->extents, shape);
    AttStatus status = att_tensor_new(ctx, (AttElem)tensor->elem, (int)tensor->rank, shape, &data);
    if (status)
        return status;
    b->fields[field] = data.data;
    b->filled[field] = fills ? data.data : NULL;
    return ATT_OK;
}

static int64_t tokens_of_example(const AttBatch *b) {
    int64_t first = 0;
    while (first < b->trainer->n_fields && !b->filled[first])
        first++;
    if (first == b->trainer->n_fields)
        return 0;
    const AttTensor *tensor = att_field_tensor(b->trainer, first);
    bool ids = tensor->elem == ATT_I32 || tensor->elem == ATT_I64;
    return ids ? att_elements_of(b->trainer->entry, tensor, b->extents) / b->n_examples : 0;
}

AttStatus att_batch_open(AttContext *ctx, const AttTrainer *trainer, const AttData *data,
                         const AttWords *dims, int64_t n_examples, AttBatch *out) {
    size_t count = (size_t)trainer->n_fields + 1;
    *out = (AttBatch){
        .trainer = trainer,
        .data = data,
        .fields = calloc(count, sizeof *out->fields),
        .filled = calloc(count, sizeof *out->filled),
        .n_examples = n_examples,
    };
    AttStatus status = out->fields && out->filled ? ATT_OK : att_no_memory(ctx);
    if (!status)
        status = find_extents(ctx, trainer, dims, n_examples, &out->extents);
    for (int64_t i = 0; i < trainer->n_fields && !status; i++)
        status = open_field(ctx, i, out);
    if (!status)
        out->tokens = tokens_of_example(out);
    return status;
}

void att_batch_close(AttBatch *batch) {
    for (int64_t i = 0; batch->fields && i < batch->trainer->n_fields; i++)
        att_release(batch->fields[i]);
    free(batch->fields);
    free(batch->filled);
    free(batch->extents);
    *batch = (AttBatch){0};
}

void att_batch_seed(AttBatch *batch, int64_t seed) {
    for (int64_t i = 0; i < batch->trainer->n_fields; i++) {
        if (batch->filled[i] || !is_seed(batch->trainer, i))
            continue;
        if (att_field_tensor(batch->trainer, i)->elem == ATT_I64)
            *(int64_t *)batch->fields[i] = seed;
        else
            *(int32_t *)batch->fields[i] = (int32_t)(seed < 0 ? seed : seed & INT32_MAX);
    }
}
