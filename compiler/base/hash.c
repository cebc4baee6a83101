// SPDX-License-Identifier: Apache-2.0
// XXH3, 64 bits. Chains by passing the last hash as the next seed.
#include "base/base.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash_bytes(uint64_t seed, const void *data, size_t bytes) {
    return XXH3_64bits_withSeed(data, bytes, seed);
}

uint64_t hash_u64(uint64_t seed, uint64_t value) {
    return XXH3_64bits_withSeed(&value, sizeof value, seed);
}

uint64_t hash_text(uint64_t seed, const char *text) {
    return XXH3_64bits_withSeed(text, text ? strlen(text) : 0, seed);
}
