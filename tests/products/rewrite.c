// SPDX-License-Identifier: Apache-2.0
// Reads a safetensors file and writes it to another path: rewrite IN OUT. For test_safetensors.py.
#include <stdio.h>

#include "train/train.h"

int main(int argc, char **argv) {
    AttContext *ctx = att_context_new(1);
    AttTensorFile file = {0};
    if (argc != 3 || !ctx)
        return 2;
    AttStatus status = att_safetensors_open(ctx, argv[1], &file);
    if (!status)
        status = att_safetensors_write(ctx, argv[2], file.tensors, file.n_tensors, file.notes,
                                       file.n_notes);
    if (status)
        fprintf(stderr, "%s\n", att_message(ctx));
    att_safetensors_close(&file);
    att_context_free(ctx);
    return status != ATT_OK;
}
