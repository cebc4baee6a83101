// SPDX-License-Identifier: Apache-2.0
// Growing arrays: room doubles, the old array stays behind in the arena.
#include "base/base.h"

#include <string.h>

void *vec_grow(Arena *arena, void *at, uint32_t *count, uint32_t *room, size_t size) {
    if (*count == *room) {
        if (*room > UINT32_MAX / 2)
            ice("array of more than %u elements", *room);
        *room = *room ? *room * 2 : 4;
        void *larger = arena_alloc(arena, size * *room);
        if (*count)
            memcpy(larger, at, size * *count);
        at = larger;
    }
    ++*count;
    return at;
}
