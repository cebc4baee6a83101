// SPDX-License-Identifier: Apache-2.0
// Hash table from a 64-bit key to a pointer: open addressing, linear probing, at most half full.
// Entries are never removed. A key may be anything, also a pointer or a small integer.
#include "base/base.h"

typedef struct {
    uint64_t key;
    void *value;
    bool used;
} MapSlot;

struct Map {
    Arena *arena;
    MapSlot *slots;
    uint32_t count, bits; // 1 << bits slots
};

Map *map_new(Arena *arena) {
    return map_new_for(arena, 0);
}

Map *map_new_for(Arena *arena, uint32_t count) {
    Map *map = arena_new_of(arena, Map);
    map->arena = arena;
    map->bits = 4;
    while (map->bits < 31 && 1u << (map->bits - 1) < count)
        map->bits++;
    map->slots = arena_array(arena, MapSlot, 1u << map->bits);
    return map;
}

// The slot that holds the key, or the empty one where it belongs.
static MapSlot *map_slot(const Map *map, uint64_t key) {
    uint32_t mask = (1u << map->bits) - 1;
    uint32_t i = (uint32_t)(key * 0x9e3779b97f4a7c15u >> (64 - map->bits));
    while (map->slots[i].used && map->slots[i].key != key)
        i = (i + 1) & mask;
    return &map->slots[i];
}

void *map_get(const Map *map, uint64_t key) {
    return map_slot(map, key)->value;
}

static void map_double(Map *map) {
    MapSlot *old = map->slots;
    uint32_t n_old = 1u << map->bits;
    if (map->bits == 31)
        ice("map of more than 2^30 entries");
    map->bits++;
    map->slots = arena_array(map->arena, MapSlot, 1u << map->bits);
    for (uint32_t i = 0; i < n_old; i++)
        if (old[i].used)
            *map_slot(map, old[i].key) = old[i];
}

void map_put(Map *map, uint64_t key, void *value) {
    MapSlot *slot = map_slot(map, key);
    if (!slot->used && ++map->count > 1u << (map->bits - 1)) {
        map_double(map);
        slot = map_slot(map, key);
    }
    *slot = (MapSlot){.key = key, .value = value, .used = true};
}
