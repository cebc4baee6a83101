// SPDX-License-Identifier: Apache-2.0
// First values of trained tensors. Element i depends on the seed, the tensor's name and i alone, so
// that a model begins the same on every machine and with any number of threads.

#include "train/train.h"

enum { ATTEMPTS = 64 }; // for which no number within two deviations comes once in 10^86

// Numbers beyond two deviations are drawn again, from a stream of their own for each attempt.
static float within_two(uint64_t seed, uint64_t stream, int64_t i, float number) {
    float pair[2];
    for (uint64_t k = 1; k < ATTEMPTS && !(number >= -2 && number <= 2); k++) {
        att_random_normal_from(seed, stream + k * 0x9E3779B97F4A7C15, i - i % 2, 2, pair);
        number = pair[i % 2];
    }
    return number;
}

void att_param_init(const AttParam *param, uint64_t seed, int64_t count, float *out) {
    uint64_t stream = att_stream_of(param->name);
    float a = (float)param->a, b = (float)param->b;
    if (param->init == ATT_INIT_UNIFORM)
        att_random_uniform(seed, stream, count, out);
    else if (param->init != ATT_INIT_VALUE)
        att_random_normal(seed, stream, count, out);
    for (int64_t i = 0; i < count; i++)
        switch (param->init) {
        case ATT_INIT_UNIFORM:
            out[i] = a + (b - a) * out[i];
            break;
        case ATT_INIT_NORMAL:
            out[i] *= a;
            break;
        case ATT_INIT_TRUNCATED_NORMAL:
            out[i] = a * within_two(seed, stream, i, out[i]);
            break;
        default:
            out[i] = a;
            break;
        }
}
