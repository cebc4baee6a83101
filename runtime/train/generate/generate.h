// SPDX-License-Identifier: Apache-2.0
// Generation: a model position by position, and the choice of the next token.
#ifndef ATT_TRAIN_GENERATE_H
#define ATT_TRAIN_GENERATE_H

#include "train/model/model.h"

// ---- decoder.c: one sequence with its caches ---------------------------------------------------
typedef struct {
    const AttDecode *decode;
    AttCall call;
    AttTensorData *owned; // by number of the module's tensors; none of those that are the model's
    int64_t position;     // of the next step
    int64_t length;       // positions that there is room for
    int64_t vocabulary;
    const float *logits; // of the last step, one per token
} AttDecoder;
// The model's tensors are read where they are. dims: the words of -D.
AttStatus att_decoder_open(AttContext *ctx, const AttModel *model, const AttWords *dims,
                           AttDecoder *out);
void att_decoder_close(AttDecoder *decoder);
// The next step is the first one.
void att_decoder_rewind(AttDecoder *decoder);
// Requires: position < length, and 0 <= token < vocabulary.
AttStatus att_decoder_step(AttContext *ctx, AttDecoder *decoder, int64_t token);

// ---- sample.c ----------------------------------------------------------------------------------
typedef struct {
    double temperature; // 0: the most likely token
    int64_t top_k;      // only so many of the most likely; 0: all
    double top_p;       // only the most likely that have this probability together
    uint64_t seed;
} AttSampling;
typedef struct {
    int64_t token;
    double weight;
} AttCandidate;
// The token number `number` of a text: a function of the logits, the sampling and the number alone.
// room: for `count` candidates. -1: no logit is a number that one could go by.
int64_t att_sample(const AttSampling *sampling, const float *logits, int64_t count, int64_t number,
                   AttCandidate *room);

#endif
