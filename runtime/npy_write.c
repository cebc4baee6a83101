// SPDX-License-Identifier: Apache-2.0
// Writes .npy files, in one stroke (file.c).

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npy.h"

enum { HEADER_ALIGN = 64, HEADER_ROOM = 1024, BLOCK_ELEMENTS = 1 << 14 };

static const char *const descr[ATT_N_ELEM] = {
    [ATT_F32] = "<f4", [ATT_F64] = "<f8", [ATT_F16] = "<f2",  [ATT_BF16] = "<f4",
    [ATT_I32] = "<i4", [ATT_I64] = "<i8", [ATT_BOOL] = "|b1",
};

// Prefix and text, padded with spaces so that the data is aligned; returns its length.
static size_t format_header(const AttTensorData *tensor, char *out) {
    enum { PREFIX = 10 };
    char shape[512] = "";
    size_t at = 0;
    for (int i = 0; i < tensor->rank; i++)
        at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%lld", i ? ", " : "",
                               (long long)tensor->shape[i]);
    int length = snprintf(out + PREFIX, HEADER_ROOM - PREFIX,
                          "{'descr': '%s', 'fortran_order': False, 'shape': (%s%s), }",
                          descr[tensor->elem], shape, tensor->rank == 1 ? "," : "");
    size_t used = PREFIX + (size_t)length + 1;
    size_t total = (used + HEADER_ALIGN - 1) / HEADER_ALIGN * HEADER_ALIGN;
    memset(out + PREFIX + length, ' ', total - PREFIX - (size_t)length);
    out[total - 1] = '\n';
    memcpy(out, NPY_MAGIC "\x01\x00", 8);
    out[8] = (char)((total - PREFIX) & 0xFF);
    out[9] = (char)((total - PREFIX) >> 8);
    return total;
}

static bool write_bf16(AttFile *file, const uint16_t *data, int64_t count) {
    float *block = malloc(BLOCK_ELEMENTS * sizeof *block);
    bool done = block != NULL;
    for (int64_t begin = 0; begin < count && done; begin += BLOCK_ELEMENTS) {
        int64_t rest = count - begin, n = rest < BLOCK_ELEMENTS ? rest : BLOCK_ELEMENTS;
        for (int64_t i = 0; i < n; i++)
            block[i] = att_bf16_to_f32(data[begin + i]);
        done = att_file_put(file, block, (size_t)n * sizeof *block);
    }
    free(block);
    return done;
}

static bool write_tensor(AttFile *file, const void *arg) {
    const AttTensorData *tensor = arg;
    char header[HEADER_ROOM];
    int64_t bytes = 0;
    size_t length = format_header(tensor, header);
    size_t size = att_elem_bytes(tensor->elem);
    if (!att_bytes_of(tensor->rank, tensor->shape, size, &bytes)) {
        errno = EOVERFLOW;
        return false;
    }
    if (!att_file_put(file, header, length))
        return false;
    if (tensor->elem == ATT_BF16)
        return write_bf16(file, tensor->data, bytes / (int64_t)size);
    return att_file_put(file, tensor->data, (size_t)bytes);
}

AttStatus att_npy_write(AttContext *ctx, const char *path, const AttTensorData *tensor) {
    if (tensor->elem >= ATT_N_ELEM || tensor->rank < 0 || tensor->rank > ATT_RANK_MAX)
        return att_fail(ctx, ATT_ARGUMENT, "%s: there is no tensor to write", path);
    return att_file_write(ctx, path, write_tensor, tensor);
}
