// SPDX-License-Identifier: Apache-2.0
// The order of an epoch without a table of it, and draws for one example: both are functions of the
// seed and of numbers, so that training goes on anywhere as if it had never stopped.
//
// A permutation of 2^(2h) numbers is a Feistel network (Luby and Rackoff, "How to construct
// pseudorandom permutations from pseudorandom functions", 1988) whose rounds are Philox; one of
// fewer numbers walks along its cycles until it is among them again (Black and Rogaway, "Ciphers
// with arbitrary finite domains", CT-RSA 2002). That is about 4 steps at most on average, but for
// the smallest counts.

#include "train/data/data.h"

enum { ROUNDS = 8, HALF_LEAST = 3 };

static uint64_t feistel(uint64_t seed, uint64_t stream, int half, uint64_t x) {
    uint64_t mask = (UINT64_C(1) << half) - 1, left = x >> half, right = x & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        AttRandomBlock block = att_philox(seed, stream, round << 32 | right);
        uint64_t next = left ^ (block.word[0] & mask);
        left = right;
        right = next;
    }
    return left << half | right;
}

int64_t att_data_place(uint64_t seed, uint64_t epoch, int64_t count, int64_t i) {
    uint64_t stream = att_stream_of("data.order") + epoch, x = (uint64_t)i;
    int half = HALF_LEAST;
    while (half < 31 && UINT64_C(1) << 2 * half < (uint64_t)count)
        half++;
    do
        x = feistel(seed, stream, half, x);
    while (x >= (uint64_t)count);
    return (int64_t)x;
}

AttDraws att_draws(uint64_t seed, uint64_t stream) {
    return (AttDraws){.seed = seed, .stream = stream};
}

static uint64_t next_word(AttDraws *draws) {
    uint64_t number = draws->next++;
    if (number % 4 == 0)
        draws->block = att_philox(draws->seed, draws->stream, number / 4);
    return draws->block.word[number % 4];
}

// The top of a product of `below` and 32 bits, biased by less than 2^-16, or of 64 where that would
// be more.
int64_t att_draw_below(AttDraws *draws, int64_t below) {
    uint64_t word = next_word(draws);
    if (below <= 1 << 16)
        return (int64_t)(word * (uint64_t)below >> 32);
    word |= next_word(draws) << 32;
    return (int64_t)((unsigned __int128)word * (uint64_t)below >> 64);
}
