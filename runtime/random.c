// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: any element can be computed alone, in any order, on any thread.
//
// Philox 4x32-10 of Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC
// 2011). The key is the seed; the counter is (block, stream); each block is four 32-bit words.

#include <math.h>
#include <string.h>

#include "internal.h"

enum { ROUNDS = 10 };

AttRandomBlock att_philox(uint64_t seed, uint64_t stream, uint64_t block) {
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    AttRandomBlock c = {
        {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)}};
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t a = (uint64_t)0xD2511F53 * c.word[0];
        uint64_t b = (uint64_t)0xCD9E8D57 * c.word[2];
        c = (AttRandomBlock){{(uint32_t)(b >> 32) ^ c.word[1] ^ key[0], (uint32_t)b,
                              (uint32_t)(a >> 32) ^ c.word[3] ^ key[1], (uint32_t)a}};
        key[0] += 0x9E3779B9; // golden ratio
        key[1] += 0xBB67AE85; // sqrt(3) - 1
    }
    return c;
}

static uint64_t word64(const AttRandomBlock *block, int half) {
    return (uint64_t)block->word[2 * half + 1] << 32 | block->word[2 * half];
}

void att_random_normal_from(uint64_t seed, uint64_t stream, int64_t begin, int64_t count,
                            float *out) {
    for (int64_t i = 0; i < count; i += 2) { // a block is one pair
        AttRandomBlock block = att_philox(seed, stream, (uint64_t)(begin + i) / 2);
        // Both in (0, 1), in the middle of intervals of 2^-53.
        double u = ((double)(word64(&block, 0) >> 11) + 0.5) * 0x1p-53;
        double v = ((double)(word64(&block, 1) >> 11) + 0.5) * 0x1p-53;
        double radius = sqrt(-2 * log(u)), angle = 2 * M_PI * v;
        out[i] = (float)(radius * cos(angle));
        if (i + 1 < count)
            out[i + 1] = (float)(radius * sin(angle));
    }
}

void att_random_normal(uint64_t seed, uint64_t stream, int64_t count, float *out) {
    att_random_normal_from(seed, stream, 0, count, out);
}

static float uniform_of(uint32_t word) {
    return (float)(word >> 8) * 0x1p-24f;
}

float att_random_uniform_at(uint64_t seed, uint64_t stream, uint64_t i) {
    return uniform_of(att_philox(seed, stream, i / 4).word[i % 4]);
}

void att_random_uniform(uint64_t seed, uint64_t stream, int64_t count, float *out) {
    AttRandomBlock block = {{0}};
    for (int64_t i = 0; i < count; i++) {
        if (i % 4 == 0)
            block = att_philox(seed, stream, (uint64_t)i / 4);
        out[i] = uniform_of(block.word[i % 4]);
    }
}

void att_random_integers_from(uint64_t seed, uint64_t stream, int64_t begin, int64_t count,
                              int64_t below, int64_t *out) {
    uint64_t range = below > 0 ? (uint64_t)below : 1;
    AttRandomBlock block = {{0}};
    for (int64_t i = 0; i < count; i++) {
        if (i % 2 == 0)
            block = att_philox(seed, stream, (uint64_t)(begin + i) / 2);
        // The top of a 128-bit product: biased by less than below / 2^64.
        unsigned __int128 wide = (unsigned __int128)word64(&block, i % 2) * range;
        out[i] = (int64_t)(uint64_t)(wide >> 64);
    }
}

void att_random_integers(uint64_t seed, uint64_t stream, int64_t count, int64_t below,
                         int64_t *out) {
    att_random_integers_from(seed, stream, 0, count, below, out);
}

uint64_t att_stream_of(const char *name) {
    uint64_t hash = 0xCBF29CE484222325; // FNV-1a, then the finaliser of SplitMix64
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001B3;
    hash = (hash ^ hash >> 30) * 0xBF58476D1CE4E5B9;
    hash = (hash ^ hash >> 27) * 0x94D049BB133111EB;
    return hash ^ hash >> 31;
}
