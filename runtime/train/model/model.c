// SPDX-License-Identifier: Apache-2.0
// The trained tensors of a program, and reading them from a file by their names.

#include "train/model/model.h"

#include <stdlib.h>
#include <string.h>

// ---- tensors -----------------------------------------------------------------------------------
static AttStatus open_param(AttContext *ctx, const AttTrainer *trainer, const AttParam *param,
                            AttModelTensor *out) {
    const AttTensor *tensor = &trainer->entry->tensors[param->input];
    AttTensorData data;
    out->name = param->name;
    out->rank = (int)tensor->rank;
    att_shape_of(trainer->entry, tensor, NULL, out->shape);
    out->count = att_elements_of(trainer->entry, tensor, NULL);
    AttStatus status = att_tensor_new(ctx, ATT_F32, out->rank, out->shape, &data);
    out->data = data.data;
    return status;
}

AttStatus att_model_open(AttContext *ctx, const AttTrainer *trainer, AttModel *out) {
    AttStatus status = ATT_OK;
    *out = (AttModel){trainer, calloc((size_t)trainer->n_params + 1, sizeof *out->params)};
    if (!out->params)
        return att_no_memory(ctx);
    for (int64_t i = 0; i < trainer->n_params && !status; i++)
        status = open_param(ctx, trainer, &trainer->params[i], &out->params[i]);
    return status;
}

void att_model_close(AttModel *model) {
    for (int64_t i = 0; model->params && i < model->trainer->n_params; i++)
        att_release(model->params[i].data);
    free(model->params);
    *model = (AttModel){0};
}

void att_model_init(AttModel *model, uint64_t seed) {
    for (int64_t i = 0; i < model->trainer->n_params; i++)
        att_param_init(&model->trainer->params[i], seed, model->params[i].count,
                       model->params[i].data);
}

int64_t att_model_parameters(const AttModel *model) {
    int64_t count = 0;
    for (int64_t i = 0; i < model->trainer->n_params; i++)
        count += model->params[i].count;
    return count;
}

// ---- from a file -------------------------------------------------------------------------------
bool att_is_state_name(const char *name) {
    return strncmp(name, ATT_STATE_PREFIX, strlen(ATT_STATE_PREFIX)) == 0;
}

AttStatus att_tensor_expect(AttContext *ctx, const char *path, const AttNamedTensor *tensor,
                            int rank, const int64_t *shape) {
    char has[ATT_SHAPE_ROOM], needs[ATT_SHAPE_ROOM], shown[ATT_SHOWN_ROOM];
    if (tensor->elem != ATT_F32)
        return att_fail(ctx, ATT_FORMAT, "%s: tensor '%s' is of %s where F32 is needed", path,
                        att_shown(tensor->name, shown), tensor->type);
    if (tensor->rank == rank && memcmp(tensor->shape, shape, (size_t)rank * sizeof *shape) == 0)
        return ATT_OK;
    return att_fail(ctx, ATT_FORMAT, "%s: tensor '%s' has the shape %s where %s is needed", path,
                    att_shown(tensor->name, shown),
                    att_shape_text("", tensor->rank, tensor->shape, has),
                    att_shape_text("", rank, shape, needs));
}

static bool model_has(const AttModel *model, const char *name) {
    for (int64_t i = 0; i < model->trainer->n_params; i++)
        if (strcmp(model->params[i].name, name) == 0)
            return true;
    return false;
}

static AttStatus list_names(AttContext *ctx, const AttModel *model, const AttTensorFile *file,
                            AttMatch *match) {
    *match = (AttMatch){
        .missing = calloc((size_t)model->trainer->n_params + 1, sizeof *match->missing),
        .extra = calloc((size_t)file->n_tensors + 1, sizeof *match->extra),
    };
    if (!match->missing || !match->extra)
        return att_no_memory(ctx);
    for (int64_t i = 0; i < model->trainer->n_params; i++)
        if (!att_safetensors_find(file, model->params[i].name))
            match->missing[match->n_missing++] = model->params[i].name;
    for (int64_t i = 0; i < file->n_tensors; i++)
        if (!att_is_state_name(file->tensors[i].name) && !model_has(model, file->tensors[i].name))
            match->extra[match->n_extra++] = file->tensors[i].name;
    return ATT_OK;
}

AttStatus att_model_take(AttContext *ctx, AttModel *model, const char *path,
                         const AttTensorFile *file, AttMatch *match) {
    AttStatus status = list_names(ctx, model, file, match);
    for (int64_t i = 0; i < model->trainer->n_params && !status; i++) {
        const AttModelTensor *param = &model->params[i];
        const AttNamedTensor *tensor = att_safetensors_find(file, param->name);
        if (!tensor)
            continue;
        status = att_tensor_expect(ctx, path, tensor, param->rank, param->shape);
        if (!status && tensor->bytes)
            memcpy(param->data, tensor->data, (size_t)tensor->bytes);
    }
    return status;
}

void att_match_free(AttMatch *match) {
    free(match->missing);
    free(match->extra);
    *match = (AttMatch){0};
}

AttStatus att_model_read(AttContext *ctx, AttModel *model, const char *path) {
    AttTensorFile file;
    AttMatch match = {0};
    AttStatus status = att_safetensors_open(ctx, path, &file);
    if (!status)
        status = att_model_take(ctx, model, path, &file, &match);
    if (!status && match.n_missing)
        status = att_fail(ctx, ATT_FORMAT, "%s: there is no tensor '%s', which %s needs", path,
                          match.missing[0], model->trainer->entry->entry);
    att_match_free(&match);
    att_safetensors_close(&file);
    return status;
}
