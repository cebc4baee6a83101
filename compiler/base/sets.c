// SPDX-License-Identifier: Apache-2.0
// Sets that are only ever joined (union-find). Paths are halved on the way to the least number of a
// set, so that finding it takes a few steps.
#include "base/base.h"

uint32_t *sets_new(Arena *arena, uint32_t count) {
    uint32_t *sets = arena_array(arena, uint32_t, count);
    for (uint32_t i = 0; i < count; i++)
        sets[i] = i;
    return sets;
}

uint32_t sets_find(uint32_t *sets, uint32_t number) {
    while (sets[number] != number)
        number = sets[number] = sets[sets[number]];
    return number;
}

uint32_t sets_join(uint32_t *sets, uint32_t a, uint32_t b) {
    a = sets_find(sets, a);
    b = sets_find(sets, b);
    uint32_t low = a < b ? a : b;
    return sets[a] = sets[b] = low;
}
