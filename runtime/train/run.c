// SPDX-License-Identifier: Apache-2.0
// The subcommand run, and programs that do not train: the entry on files, with trained tensors from
// a checkpoint.

#include <stdlib.h>

#include "signals.h"
#include "train/model/model.h"

static bool is_wanted(const AttModule *module, int64_t i, const AttTensorData *tensors) {
    return module->tensors[i].role == ATT_INPUT && module->tensors[i].is_param && !tensors[i].data;
}

static AttStatus take_tensor(AttContext *ctx, const AttModule *module, int64_t i, const char *path,
                             const AttNamedTensor *found, AttTensorData *out) {
    const AttTensor *tensor = &module->tensors[i];
    if (!found)
        return att_fail(ctx, ATT_FORMAT, "%s: there is no tensor '%s', which %s needs", path,
                        tensor->name, module->entry);
    return att_safetensors_floats(ctx, path, found, (AttElem)tensor->elem, out);
}

static AttStatus take_all(AttContext *ctx, const AttModule *module, const char *path,
                          const AttTensorFile *file, AttTensorData *tensors) {
    const char **names = calloc((size_t)module->n_tensors + 1, sizeof *names);
    int64_t n_names = 0;
    if (!names)
        return att_fail(ctx, ATT_MEMORY, "out of memory");
    for (int64_t i = 0; i < module->n_tensors; i++)
        if (is_wanted(module, i, tensors))
            names[n_names++] = module->tensors[i].name;
    AttTensorPath under = att_safetensors_path(file, names, n_names);
    AttStatus status = ATT_OK;
    for (int64_t i = 0; i < module->n_tensors && !status; i++)
        if (is_wanted(module, i, tensors))
            status = take_tensor(ctx, module, i, path,
                                 att_safetensors_find_under(file, under, module->tensors[i].name),
                                 &tensors[i]);
    free(names);
    return status;
}

// Trained tensors that are not there yet.
static AttStatus take_weights(AttContext *ctx, const AttModule *module, const char *path,
                              AttTensorData *tensors) {
    AttTensorFile file;
    AttStatus status = att_safetensors_open(ctx, path, &file);
    if (!status)
        status = take_all(ctx, module, path, &file, tensors);
    att_safetensors_close(&file);
    return status;
}

int att_weights_main(const AttModule *module, int argc, char **argv) {
    att_signals_let_writing_fail();
    return att_program_main_with(module, take_weights, argc, argv);
}

int att_run_entry(const AttTrainer *trainer, int argc, char **argv) {
    return att_program_main_with(trainer->entry, take_weights, argc, argv);
}

int att_command_run(const AttTrainer *trainer, int argc, char **argv) {
    argv[1] = argv[0];
    return att_run_entry(trainer, argc - 1, argv + 1);
}
