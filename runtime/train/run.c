// SPDX-License-Identifier: Apache-2.0
// The subcommand run: the entry on files, as a program that does not train has it, with trained
// tensors from a checkpoint.

#include <string.h>

#include "train/model/model.h"

static AttStatus take_tensor(AttContext *ctx, const AttModule *module, int64_t i, const char *path,
                             const AttTensorFile *file, AttTensorData *out) {
    const AttTensor *tensor = &module->tensors[i];
    const AttNamedTensor *found = att_safetensors_find(file, tensor->name);
    int64_t shape[ATT_RANK_MAX];
    if (!found)
        return att_fail(ctx, ATT_FORMAT, "%s: there is no tensor '%s', which %s needs", path,
                        tensor->name, module->entry);
    att_shape_of(module, tensor, NULL, shape);
    AttStatus status = att_tensor_expect(ctx, path, found, (int)tensor->rank, shape);
    if (!status)
        status = att_tensor_new(ctx, ATT_F32, (int)tensor->rank, shape, out);
    if (!status && found->bytes)
        memcpy(out->data, found->data, (size_t)found->bytes);
    return status;
}

// Trained tensors that are not there yet.
static AttStatus take_weights(AttContext *ctx, const AttModule *module, const char *path,
                              AttTensorData *tensors) {
    AttTensorFile file;
    AttStatus status = att_safetensors_open(ctx, path, &file);
    for (int64_t i = 0; i < module->n_tensors && !status; i++)
        if (module->tensors[i].role == ATT_INPUT && module->tensors[i].is_param && !tensors[i].data)
            status = take_tensor(ctx, module, i, path, &file, &tensors[i]);
    att_safetensors_close(&file);
    return status;
}

int att_run_entry(const AttTrainer *trainer, int argc, char **argv) {
    return att_program_main_with(trainer->entry, take_weights, argc, argv);
}

int att_command_run(const AttTrainer *trainer, int argc, char **argv) {
    argv[1] = argv[0];
    return att_run_entry(trainer, argc - 1, argv + 1);
}
