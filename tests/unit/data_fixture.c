// SPDX-License-Identifier: Apache-2.0
// See data_fixture.h.
#include "data_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const FieldSpec data_language[] = {{"tokens", ATT_I32, "bn", 300}, {"labels", ATT_I32, "bn", 300}};
const FieldSpec data_masked[] = {{"masked", ATT_I32, "bn", 300}, {"labels", ATT_I32, "bn", 300}};
const FieldSpec data_span[] = {
    {"source", ATT_I32, "bn", 300}, {"target", ATT_I32, "bm", 300}, {"labels", ATT_I32, "bm", 300}};
const FieldSpec data_arrays[] = {
    {"X", ATT_F32, "bnd", 0}, {"labels", ATT_I32, "b", 10}, {"seed", ATT_I64, "", 0}};
const char data_text[] = "The quick brown fox jumps over the lazy dog. Twice, as it is told.";

static int64_t dim_of(char letter) {
    return letter == 'b' ? B : letter == 'n' ? N : letter == 'm' ? M : D;
}

void data_set_fields(World *w, const FieldSpec *specs, int n) {
    for (int f = 0; f < n; f++) {
        int64_t rank = (int64_t)strlen(specs[f].dims);
        for (int64_t i = 0; i < rank; i++)
            w->tensor_dims[f][i] = dim_of(specs[f].dims[i]);
        w->tensors[f] = (AttTensor){
            .name = specs[f].name, .elem = specs[f].elem, .rank = rank, .dims = w->tensor_dims[f]};
        w->fields[f] = (AttField){specs[f].name, f, specs[f].below};
    }
    w->trainer.n_fields = w->entry.n_tensors = n;
}

int data_make_world(void **state) {
    static const char *const names[] = {"b", "n", "m", "d"};
    World *w = *state = calloc(1, sizeof *w);
    w->ctx = att_context_new(1);
    strcpy(w->folder, "/tmp/attc-data-XXXXXX");
    if (!w->ctx || !mkdtemp(w->folder))
        return -1;
    for (int d = 0; d < TABLE; d++)
        w->dims[d] = (AttDim){.name = names[d], .extent = -1, .like = d};
    w->entry =
        (AttModule){.entry = "Loss", .n_dims = TABLE, .dims = w->dims, .tensors = w->tensors};
    w->trainer = (AttTrainer){.entry = &w->entry, .fields = w->fields};
    memcpy(w->extents, (int64_t[]){-1, 4, 6, 3, 0}, sizeof w->extents);
    w->options = (AttDataOptions){.paths = w->data, .seed = 5};
    for (int f = 0; f < FIELDS_MOST; f++)
        w->batch[f] = calloc(1 << 16, 8);
    return 0;
}

void data_close(World *w) {
    att_data_close(w->opened);
    w->opened = NULL;
}

void data_forget_files(World *w) {
    for (int i = 0; i < w->n_data; i++) {
        unlink(w->paths[i]);
        free((char *)w->data[i]);
    }
    w->n_data = 0;
    w->options.n_paths = 0;
}

int data_free_world(void **state) {
    World *w = *state;
    data_close(w);
    data_forget_files(w);
    rmdir(w->folder);
    for (int f = 0; f < FIELDS_MOST; f++)
        free(w->batch[f]);
    att_context_free(w->ctx);
    free(w);
    return 0;
}

// Adds a file of these bytes to what is given. name: of an argument, or "".
void data_give(World *w, const char *name, const char *ending, const void *bytes, size_t length) {
    static const char *const equals[] = {"", "="};
    char text[160];
    snprintf(w->paths[w->n_data], sizeof w->paths[0], "%s/%d%s", w->folder, w->n_data, ending);
    FILE *out = fopen(w->paths[w->n_data], "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, length, out), length);
    fclose(out);
    snprintf(text, sizeof text, "%s%s%s", name, equals[*name != 0], w->paths[w->n_data]);
    w->data[w->n_data++] = strdup(text);
    w->options.n_paths = w->n_data;
}

void data_give_text(World *w, const char *text) {
    data_give(w, "", "", text, strlen(text));
}

void data_give_shard(World *w, uint32_t magic, uint32_t version, int32_t count, const void *tokens,
                     size_t bytes) {
    static uint8_t file[1 << 12];
    memset(file, 0, 1024);
    memcpy(file, (uint32_t[]){magic, version, (uint32_t)count}, 12);
    memcpy(file + 1024, tokens, bytes);
    data_give(w, "", ".bin", file, 1024 + bytes);
}

void data_give_npy(World *w, const char *name, const char *type, const char *shape,
                   const void *data, size_t bytes) {
    static uint8_t file[1 << 12];
    int n = snprintf((char *)file + 10, 500,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n", type, shape);
    memcpy(file, "\x93NUMPY\x01\0", 8);
    file[8] = (uint8_t)n;
    file[9] = (uint8_t)(n >> 8);
    memcpy(file + 10 + n, data, bytes);
    data_give(w, name, ".npy", file, 10 + (size_t)n + bytes);
}

void data_open_fine(World *w) {
    data_close(w);
    if (att_data_open(w->ctx, &w->options, &w->trainer, w->extents, B, &w->opened))
        fail_msg("%s", att_message(w->ctx));
}

void data_open_refused(World *w, const char *message) {
    data_close(w);
    AttStatus status = att_data_open(w->ctx, &w->options, &w->trainer, w->extents, B, &w->opened);
    if (!status || !strstr(att_message(w->ctx), message))
        fail_msg("\"%s\" was expected, status %d: %s", message, status, att_message(w->ctx));
    assert_null(w->opened);
    data_forget_files(w);
}

void data_fill(World *w, AttPart part, int64_t first, int64_t count) {
    if (att_data_batch(w->ctx, w->opened, part, first, count, w->batch))
        fail_msg("%s", att_message(w->ctx));
}

const int32_t *data_ids(const World *w, int field) {
    return w->batch[field];
}

void data_give_safetensors(World *w, const AttNamedTensor *tensors, int n) {
    data_give(w, "", ".safetensors", "", 0);
    assert_int_equal(att_safetensors_write(w->ctx, w->paths[w->n_data - 1], tensors, n, NULL, 0),
                     ATT_OK);
}
