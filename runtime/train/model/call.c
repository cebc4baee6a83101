// SPDX-License-Identifier: Apache-2.0
// A module with all of its pointers, which are found by the names of tensors once.

#include "train/model/model.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    AttContext *ctx;
    const AttModel *model;
    const AttBatch *batch;
    float *const *gradients; // NULL: there are none
    AttCall *call;
    int64_t n_gradients; // that have been bound
    bool has_cotangent;
} Binder;

// Room for a number of any element.
enum { NUMBER_BYTES = 8 };

// Of results other than the loss: the gradient is not theirs.
static const int64_t zero;

static void *find_input(const Binder *b, const char *name) {
    const AttTrainer *trainer = b->model->trainer;
    for (int64_t i = 0; i < trainer->n_params; i++)
        if (strcmp(trainer->params[i].name, name) == 0)
            return b->model->params[i].data;
    for (int64_t i = 0; i < trainer->n_fields; i++)
        if (strcmp(trainer->fields[i].name, name) == 0)
            return b->batch->fields[i];
    return NULL;
}

static void bind_input(Binder *b, int64_t i) {
    const AttTensor *tensor = &b->call->module->tensors[i];
    if (tensor->use == ATT_USE_FLAG)
        b->call->tensors[i] = &b->call->flag;
    else if (tensor->use == ATT_USE_COTANGENT) {
        // NULL stands for 1.
        b->call->tensors[i] = b->has_cotangent ? (void *)&zero : NULL;
        b->has_cotangent = true;
    } else
        b->call->tensors[i] = find_input(b, tensor->name);
}

// Gradients come in the order of the params.
static AttStatus bind_output(Binder *b, int64_t i) {
    const AttTensor *tensor = &b->call->module->tensors[i];
    AttCall *call = b->call;
    if (tensor->use == ATT_USE_GRADIENT && b->gradients) {
        if (b->n_gradients == b->model->trainer->n_params)
            return att_fail(b->ctx, ATT_ARGUMENT, "%s has more gradients than trained tensors",
                            call->module->entry);
        call->tensors[i] = b->gradients[b->n_gradients++];
        return ATT_OK;
    }
    call->outputs[call->n_results] = i;
    call->tensors[i] = (char *)call->numbers + NUMBER_BYTES * call->n_results++;
    return ATT_OK;
}

static AttStatus bind(Binder *b) {
    const AttModule *module = b->call->module;
    AttStatus status = ATT_OK;
    for (int64_t i = 0; i < module->n_tensors && !status; i++) {
        if (module->tensors[i].role == ATT_INPUT)
            bind_input(b, i);
        else if (module->tensors[i].role == ATT_OUTPUT)
            status = bind_output(b, i);
    }
    if (!status && b->gradients && b->n_gradients < b->model->trainer->n_params)
        status = att_fail(b->ctx, ATT_ARGUMENT, "%s has fewer gradients than trained tensors",
                          module->entry);
    return status;
}

AttStatus att_call_new(AttContext *ctx, const AttModule *module, AttCall *out) {
    size_t tensors = (size_t)module->n_tensors + 1;
    *out = (AttCall){
        .module = module,
        .extents = calloc((size_t)module->n_dims + 1, sizeof *out->extents),
        .tensors = calloc(tensors, sizeof *out->tensors),
        .numbers = calloc(tensors, NUMBER_BYTES),
        .outputs = calloc(tensors, sizeof *out->outputs),
    };
    bool ok = out->extents && out->tensors && out->numbers && out->outputs;
    return ok ? ATT_OK : att_no_memory(ctx);
}

AttStatus att_call_open(AttContext *ctx, const AttModule *module, const AttModel *model,
                        const AttBatch *batch, float *const *gradients, const AttWords *dims,
                        AttCall *out) {
    AttStatus status = att_call_new(ctx, module, out);
    if (!status)
        status = att_extents(ctx, model->trainer, module, dims, batch->n_examples, out->extents);
    Binder binder = {ctx, model, batch, gradients, out, 0, false};
    return status ? status : bind(&binder);
}

void att_call_close(AttCall *call) {
    free(call->extents);
    free(call->tensors);
    free(call->numbers);
    free(call->outputs);
    *call = (AttCall){0};
}

AttStatus att_call_run(AttContext *ctx, AttCall *call) {
    AttRun run = {.extents = call->extents,
                  .tensors = call->tensors,
                  .choices = call->choices,
                  .seconds = call->seconds};
    return att_module_run(ctx, call->module, &run);
}

double att_call_element(const AttCall *call, int64_t tensor, int64_t i) {
    const void *at = call->tensors[tensor];
    switch ((AttElem)call->module->tensors[tensor].elem) {
    case ATT_F32:
        return ((const float *)at)[i];
    case ATT_F64:
        return ((const double *)at)[i];
    case ATT_F16:
        return att_f16_to_f32(((const uint16_t *)at)[i]);
    case ATT_BF16:
        return att_bf16_to_f32(((const uint16_t *)at)[i]);
    case ATT_I32:
        return ((const int32_t *)at)[i];
    case ATT_I64:
        return (double)((const int64_t *)at)[i];
    case ATT_BOOL:
        return ((const uint8_t *)at)[i];
    case ATT_N_ELEM:
        break;
    }
    return 0;
}

double att_call_result(const AttCall *call, int64_t k) {
    return att_call_element(call, call->outputs[k], 0);
}

const char *att_call_result_name(const AttCall *call, int64_t k) {
    return call->module->tensors[call->outputs[k]].name;
}
