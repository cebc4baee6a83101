// SPDX-License-Identifier: Apache-2.0
// What the tests of data share: an entry by hand, files that are given, and what becomes of them.
#ifndef ATTC_TESTS_DATA_FIXTURE_H
#define ATTC_TESTS_DATA_FIXTURE_H

#include "support.h"

#include "train/data/data.h"

enum { B, N, M, D, TABLE, N_DIMS, FIELDS_MOST = 4, BATCH = 8 };

// A field: tokens[b, n]: i32 is {"tokens", ATT_I32, "bn", ids}.
typedef struct {
    const char *name;
    AttElem elem;
    const char *dims;
    int64_t below;
} FieldSpec;

typedef struct {
    AttContext *ctx;
    char folder[32], paths[6][64];
    const char *data[8]; // what is given as files
    int n_data;
    int64_t extents[N_DIMS];
    AttDim dims[N_DIMS];
    int64_t tensor_dims[FIELDS_MOST][4];
    AttTensor tensors[FIELDS_MOST];
    AttField fields[FIELDS_MOST];
    AttModule entry;
    AttTrainer trainer;
    AttDataOptions options;
    AttData *opened;
    void *batch[FIELDS_MOST];
} World;

void data_set_fields(World *w, const FieldSpec *specs, int n);
int data_make_world(void **state);
void data_close(World *w);
void data_forget_files(World *w);
int data_free_world(void **state);
void data_give(World *w, const char *name, const char *ending, const void *bytes, size_t length);
void data_give_text(World *w, const char *text);
void data_give_shard(World *w, uint32_t magic, uint32_t version, int32_t count, const void *tokens,
                     size_t bytes);
void data_give_npy(World *w, const char *name, const char *type, const char *shape,
                   const void *data, size_t bytes);
void data_give_safetensors(World *w, const AttNamedTensor *tensors, int n);
void data_open_fine(World *w);
void data_open_refused(World *w, const char *message);
void data_fill(World *w, AttPart part, int64_t first, int64_t count);
const int32_t *data_ids(const World *w, int field);

extern const FieldSpec data_language[2];
extern const FieldSpec data_masked[2];
extern const FieldSpec data_span[3];
extern const FieldSpec data_arrays[3];
extern const char data_text[];

#endif
