// SPDX-License-Identifier: Apache-2.0
// Means of an entry's results over the examples of a part of the data. Batches are summed in their
// order, each by its number of examples, in double.

#include "train/model/model.h"

static AttStatus add_batch(AttContext *ctx, const AttEvaluation *e, int64_t count,
                           AttMeans *means) {
    AttStatus status =
        att_data_batch(ctx, e->data, e->part, means->n_examples, count, e->batch->filled);
    if (!status)
        status =
            att_extents(ctx, e->batch->trainer, e->call->module, e->dims, count, e->call->extents);
    if (!status)
        status = att_call_run(ctx, e->call);
    for (int64_t k = 0; k < e->call->n_results && !status; k++)
        means->results[k] += att_call_result(e->call, k) * (double)count;
    means->n_examples += status ? 0 : count;
    return status;
}

AttStatus att_evaluate(AttContext *ctx, const AttEvaluation *e, AttMeans *means) {
    int64_t most = att_data_examples(e->data, e->part), size = e->batch->n_examples;
    AttStatus status = ATT_OK;
    if (att_batch_fixed(e->batch->trainer))
        most -= most % size;
    if (e->batches && e->batches <= most / size)
        most = e->batches * size;
    if (most < 1)
        return att_fail(ctx, ATT_ARGUMENT,
                        "there are %lld examples to evaluate, and the program is built for batches "
                        "of %lld: build it without -D of their dim",
                        (long long)att_data_examples(e->data, e->part), (long long)size);
    means->n_examples = 0;
    for (int64_t k = 0; k < e->call->n_results; k++)
        means->results[k] = 0;
    att_batch_seed(e->batch, ATT_SEED_NONE);
    while (means->n_examples < most && !status) {
        int64_t left = most - means->n_examples;
        status = add_batch(ctx, e, left < size ? left : size, means);
    }
    for (int64_t k = 0; k < e->call->n_results && !status; k++)
        means->results[k] /= (double)means->n_examples;
    return status;
}
