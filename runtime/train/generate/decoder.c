// SPDX-License-Identifier: Apache-2.0
// A sequence position by position: each step reads the caches, and its rows are stored in them.

#include "train/generate/generate.h"

#include <stdlib.h>
#include <string.h>

static void put_number(AttElem elem, void *out, int64_t number) {
    if (elem == ATT_I64)
        *(int64_t *)out = number;
    else
        *(int32_t *)out = (int32_t)number;
}

static int64_t elements(const AttTensorData *tensor) {
    int64_t count = 1;
    for (int i = 0; i < tensor->rank; i++)
        count *= tensor->shape[i];
    return count;
}

// ---- opening -----------------------------------------------------------------------------------

static AttStatus own_tensor(AttContext *ctx, AttDecoder *d, int64_t i) {
    const AttTensor *tensor = &d->decode->module->tensors[i];
    int64_t shape[ATT_RANK_MAX];
    att_shape_of(d->decode->module, tensor, d->call.extents, shape);
    AttTensorData *own = &d->owned[i];
    AttStatus status = att_tensor_new(ctx, (AttElem)tensor->elem, (int)tensor->rank, shape, own);
    if (status)
        return status;
    memset(own->data, 0, (size_t)elements(own) * att_elem_bytes(own->elem));
    if (strcmp(tensor->name, "seed") == 0 && !tensor->rank && tensor->role == ATT_INPUT)
        put_number(own->elem, own->data, ATT_SEED_NONE);
    d->call.tensors[i] = own->data;
    return ATT_OK;
}

static AttStatus own_tensors(AttContext *ctx, AttDecoder *d, const AttModel *model) {
    const AttModule *module = d->decode->module;
    AttStatus status = ATT_OK;
    for (int64_t i = 0; i < d->decode->n_params; i++)
        d->call.tensors[d->decode->param_tensor[i]] = model->params[d->decode->params[i]].data;
    for (int64_t i = 0; i < module->n_tensors && !status; i++)
        if (module->tensors[i].role != ATT_WORK && !d->call.tensors[i])
            status = own_tensor(ctx, d, i);
    return status;
}

static int64_t find_length(const AttDecoder *d) {
    const AttDecode *decode = d->decode;
    for (int64_t i = 0; i < decode->n_caches; i++)
        if (decode->cache_dim[i] >= 0)
            return d->owned[decode->cache_input[i]].shape[decode->cache_dim[i]];
    return decode->length ? decode->length : INT64_MAX;
}

AttStatus att_decoder_open(AttContext *ctx, const AttModel *model, const AttWords *dims,
                           AttDecoder *out) {
    const AttDecode *decode = model->trainer->decode;
    const AttModule *module = decode->module;
    *out = (AttDecoder){.decode = decode,
                        .owned = calloc((size_t)module->n_tensors + 1, sizeof *out->owned)};
    AttStatus status = att_call_new(ctx, module, &out->call);
    if (!status && !out->owned)
        status = att_no_memory(ctx);
    if (!status)
        status = att_extents(ctx, model->trainer, module, dims, 1, out->call.extents);
    if (!status)
        status = own_tensors(ctx, out, model);
    if (status)
        return status;
    const AttTensorData *logits = &out->owned[decode->logits];
    out->logits = logits->data;
    out->vocabulary = logits->shape[logits->rank - 1];
    out->length = find_length(out);
    return out->length ? ATT_OK : att_fail(ctx, ATT_ARGUMENT, "there is no room for a position");
}

void att_decoder_close(AttDecoder *decoder) {
    for (int64_t i = 0; decoder->owned && i < decoder->decode->module->n_tensors; i++)
        att_tensor_free(&decoder->owned[i]);
    free(decoder->owned);
    att_call_close(&decoder->call);
    *decoder = (AttDecoder){0};
}

// ---- steps -------------------------------------------------------------------------------------

// What the step adds goes to its position of the cache.
static void store_row(AttDecoder *d, int64_t i) {
    const AttTensorData *cache = &d->owned[d->decode->cache_input[i]];
    const AttTensorData *row = &d->owned[d->decode->row_output[i]];
    int64_t place = d->decode->cache_dim[i], times = 1;
    size_t bytes = att_elem_bytes(cache->elem);
    for (int k = 0; k < cache->rank; k++)
        if (k < place)
            times *= cache->shape[k];
        else if (k > place)
            bytes *= (size_t)cache->shape[k];
    size_t stride = place < 0 ? 0 : bytes * (size_t)cache->shape[place];
    size_t begin = place < 0 ? 0 : bytes * (size_t)d->position;
    for (int64_t k = 0; k < times; k++)
        memcpy((char *)cache->data + begin + (size_t)k * stride,
               (const char *)row->data + (size_t)k * bytes, bytes);
}

AttStatus att_decoder_step(AttContext *ctx, AttDecoder *decoder, int64_t token) {
    const AttDecode *decode = decoder->decode;
    const AttTensorData *tokens = &decoder->owned[decode->token];
    const AttTensorData *position = &decoder->owned[decode->position];
    put_number(position->elem, position->data, decoder->position);
    for (int64_t i = 0; i < elements(tokens); i++)
        ((int32_t *)tokens->data)[i] = (int32_t)token;
    AttStatus status = att_call_run(ctx, &decoder->call);
    for (int64_t i = 0; i < decode->n_caches && !status; i++)
        store_row(decoder, i);
    decoder->position += !status;
    return status;
}

void att_decoder_rewind(AttDecoder *decoder) {
    decoder->position = 0;
}
