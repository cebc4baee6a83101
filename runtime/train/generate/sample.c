// SPDX-License-Identifier: Apache-2.0
// The next token by its probability, which temperature, top-k (Fan et al. 2018) and top-p (Holtzman
// et al. 2019) change. Equally likely tokens are in the order of their numbers.

#include "train/generate/generate.h"

#include <math.h>
#include <stdlib.h>

static int more_likely(const void *a, const void *b) {
    const AttCandidate *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

static double sum_of(const AttCandidate *room, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += room[i].weight;
    return sum;
}

// The most likely ones first, as many as count.
static int64_t keep_likely(const AttSampling *sampling, AttCandidate *room, int64_t count) {
    double sum = 0;
    int64_t kept = 0;
    qsort(room, (size_t)count, sizeof *room, more_likely);
    if (sampling->top_k && sampling->top_k < count)
        count = sampling->top_k;
    double enough = sampling->top_p * sum_of(room, count);
    while (kept < count && (kept == 0 || sum < enough))
        sum += room[kept++].weight;
    return kept;
}

static int64_t largest(const float *logits, int64_t count) {
    int64_t best = -1;
    for (int64_t i = 0; i < count; i++) {
        if (isnan(logits[i]))
            return -1;
        if (best < 0 || logits[i] > logits[best])
            best = i;
    }
    return best >= 0 && isinf(logits[best]) ? -1 : best;
}

int64_t att_sample(const AttSampling *sampling, const float *logits, int64_t count, int64_t number,
                   AttCandidate *room) {
    enum { STREAM = 0x746f6b };
    int64_t best = largest(logits, count);
    if (best < 0 || sampling->temperature == 0)
        return best;
    for (int64_t i = 0; i < count; i++) {
        double below = (double)logits[i] - (double)logits[best];
        room[i] = (AttCandidate){i, exp(below / sampling->temperature)};
    }
    if (sampling->top_k || sampling->top_p < 1)
        count = keep_likely(sampling, room, count);
    double left = (double)att_random_uniform_at(sampling->seed, STREAM, (uint64_t)number) *
                  sum_of(room, count);
    int64_t chosen = best; // where rounding leaves nothing
    for (int64_t i = 0; i < count && left >= 0; i++) {
        if (room[i].weight > 0)
            chosen = room[i].token;
        left -= room[i].weight;
    }
    return chosen;
}
