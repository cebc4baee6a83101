// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as a safetensors file. Tensors that come out must fill the file behind its
// header, one after another, and have the size of their shape; floats are then read as narrower
// ones.
#include <stdlib.h>
#include <string.h>

#include "train/train.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds) {
    if (!holds)
        abort();
}

// A number that is too large for them is refused.
static void check_floats(AttContext *ctx, const AttNamedTensor *tensor) {
    AttTensorData narrow;
    AttStatus status = att_safetensors_floats(ctx, "fuzz.safetensors", tensor, ATT_F16, &narrow);
    check(status == ATT_OK || status == ATT_FORMAT);
    check(status ? !narrow.data : !narrow.data == !tensor->bytes);
    att_tensor_free(&narrow);
}

static void check_tensors(AttContext *ctx, const AttTensorFile *file, const uint8_t *data,
                          size_t size) {
    const uint8_t *at = file->n_tensors ? file->tensors[0].data : data + size;
    check(at >= data + 8);
    for (int64_t i = 0; i < file->n_tensors; i++) {
        const AttNamedTensor *tensor = &file->tensors[i];
        int64_t bytes;
        check(tensor->data == at && tensor->bytes >= 0 && tensor->type);
        check(att_bytes_of(tensor->rank, tensor->shape, 1, &bytes));
        check(bytes ? tensor->bytes % bytes == 0 : tensor->bytes == 0);
        check(att_safetensors_find(file, tensor->name) == tensor);
        check_floats(ctx, tensor);
        at += tensor->bytes;
    }
    check(at == data + size);
    for (int64_t i = 0; i < file->n_notes; i++)
        check(att_safetensors_note(file, file->notes[i].key) == file->notes[i].value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    AttContext *ctx = att_context_new(1);
    AttTensorFile file;
    check(ctx != NULL);
    AttStatus status = att_safetensors_parse(ctx, "fuzz.safetensors", data, size, &file);
    if (status)
        check(!file.owner && !strncmp(att_message(ctx), "fuzz.safetensors: ", 18));
    else
        check_tensors(ctx, &file, data, size);
    att_safetensors_close(&file);
    att_context_free(ctx);
    return 0;
}
