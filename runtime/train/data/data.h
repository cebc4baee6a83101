// SPDX-License-Identifier: Apache-2.0
// What the files that make examples share among themselves.
//
//     data.c      opens: which objective, which fields, how many examples; fills batches
//     masked.c    BERT's examples                 span.c    T5's examples
//     fields.c    arrays by name
//     tokens.c    files as one row of tokens: text, and the shards of shards.c
//     order.c     the order of an epoch, and draws        watch.c   files that become shorter
#ifndef ATT_TRAIN_DATA_H
#define ATT_TRAIN_DATA_H

#include "train/train.h"

// ---- order.c -----------------------------------------------------------------------------------
// The place of example i of an epoch among `count` examples: a permutation for each seed and epoch.
int64_t att_data_place(uint64_t seed, uint64_t epoch, int64_t count, int64_t i);
// Numbers of one example, one after another.
typedef struct {
    uint64_t seed, stream, next;
    AttRandomBlock block;
} AttDraws;
AttDraws att_draws(uint64_t seed, uint64_t stream);
int64_t att_draw_below(AttDraws *draws, int64_t below); // 0 .. below-1; below >= 1

// ---- watch.c -----------------------------------------------------------------------------------
typedef struct AttWatch AttWatch; // of each file; the last has no path
// arrays: paths may be NAME=FILE. What *out has is for att_watch_close, also on failure.
AttStatus att_watch_open(AttContext *ctx, const char *const *paths, int64_t n_paths, bool arrays,
                         AttWatch **out);
// Does what reads the files, and allocates nothing, in one thread at a time. Fails where one has
// become shorter, before or meanwhile, and where one can no longer be read; what was read is part
// of it then.
AttStatus att_watch_read(AttContext *ctx, const AttWatch *watches, void (*read)(void *),
                         void *argument);
void att_watch_close(AttWatch *watches);

// ---- shards.c ----------------------------------------------------------------------------------
// Where the tokens of a file are, and how wide: 1 byte, as it is text, or those of a shard.
typedef struct {
    const char *path; // for messages while it is opened
    AttMapped map;
    const uint8_t *tokens;
    int width;
    int64_t count;
} AttTokenFile;
// Is the mapped file one of llm.c's? Then tokens, width and count are set, or it is refused.
AttStatus att_shard_read(AttContext *ctx, AttTokenFile *file, bool *is_shard);

// ---- tokens.c ----------------------------------------------------------------------------------
typedef struct {
    int64_t n_files;
    AttTokenFile *files; // of one width
    int64_t count;       // of all of them
} AttTokens;
// paths: for messages while it opens. What *out has is for att_tokens_close, also on failure.
AttStatus att_tokens_open(AttContext *ctx, const char *const *paths, int64_t n_paths,
                          AttTokens *out);
void att_tokens_close(AttTokens *tokens);
bool att_tokens_are_bytes(const AttTokens *tokens);
// Every token is below `limit`; `reason` says in the message what the limit is.
AttStatus att_tokens_check(AttContext *ctx, const AttTokens *tokens, int64_t limit,
                           const char *reason);
// Requires: the tokens are there, each below 2^31.
void att_tokens_copy(const AttTokens *tokens, int64_t begin, int64_t count, int32_t *out);

// ---- masked.c, span.c --------------------------------------------------------------------------
// A field [b, length] of ids.
typedef struct {
    int64_t field;
    AttElem elem; // i32 or i64
    int64_t length;
    int64_t below; // ids of its table; 0: not known
    int32_t *row;  // of the example at hand
} AttIdField;
enum { ATT_ID_FIELDS = 3, ATT_NOTHING = -1 }; // ATT_NOTHING: the id of no token, the label of none

// Rows of the fields masked and labels from as many tokens. below: ids of the table; data_ids:
// those that tokens of the data may have.
void att_masked_example(const AttIdField *fields, const int32_t *tokens, int64_t below,
                        int64_t data_ids, AttDraws *draws);

typedef struct {
    int64_t tokens; // of an example
    int64_t noise;  // those of them that are asked for,
    int64_t spans;  // in so many spans
} AttSpanSizes;
// The longest examples that fit; false: none does.
bool att_span_sizes(int64_t source, int64_t target, AttSpanSizes *sizes);
// Rows of the fields source, target and labels. lengths: room for 2 sizes->spans numbers.
void att_span_example(const AttIdField *fields, const AttSpanSizes *sizes, const int32_t *tokens,
                      int64_t below, int64_t *lengths, AttDraws *draws);

// ---- fields.c ----------------------------------------------------------------------------------
typedef struct AttArrays AttArrays;
// For the fields that are `filled`. extents: by module dim, all but that of the batch known.
typedef struct {
    AttContext *ctx;
    const AttTrainer *trainer;
    const int64_t *extents;
    const bool *filled;
} AttArraysOf;
// Does every path name such a field, or is it one safetensors file?
bool att_arrays_are_meant(const AttArraysOf *of, const char *const *paths, int64_t n_paths);
// paths: for messages while it opens. What *out has is for att_arrays_close, also on failure.
AttStatus att_arrays_open(const AttArraysOf *of, const char *const *paths, int64_t n_paths,
                          AttArrays **out);
void att_arrays_close(AttArrays *arrays);
int64_t att_arrays_examples(const AttArrays *arrays);
// Copies one example to number `at` of a batch.
void att_arrays_example(const AttArrays *arrays, int64_t example, int64_t at, void *const *tensors);

#endif
