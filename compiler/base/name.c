// SPDX-License-Identifier: Apache-2.0
// Interned strings: one table per session, so that names compare by pointer; and the distance
// between two names, for hints.
#include "base/base.h"

#include <string.h>

typedef struct {
    uint64_t hash;
    size_t length;
    const char *text; // NULL: free
} NameSlot;

struct Names {
    Arena *arena;
    NameSlot *slots;
    uint32_t count, room; // room is a power of two, at most half full
};

Names *names_new(Arena *arena) {
    Names *names = arena_new_of(arena, Names);
    names->arena = arena;
    names->room = 256;
    names->slots = arena_array(arena, NameSlot, names->room);
    return names;
}

static NameSlot *names_slot(const Names *names, uint64_t hash, const char *text, size_t length) {
    uint32_t i = (uint32_t)hash & (names->room - 1);
    for (;; i = (i + 1) & (names->room - 1)) {
        NameSlot *slot = &names->slots[i];
        if (!slot->text)
            return slot;
        if (slot->hash == hash && slot->length == length && !memcmp(slot->text, text, length))
            return slot;
    }
}

static void names_double(Names *names) {
    NameSlot *old = names->slots;
    uint32_t n_old = names->room;
    names->room *= 2;
    names->slots = arena_array(names->arena, NameSlot, names->room);
    for (uint32_t i = 0; i < n_old; i++)
        if (old[i].text)
            *names_slot(names, old[i].hash, old[i].text, old[i].length) = old[i];
}

Name names_intern(Names *names, const char *text, size_t length) {
    uint64_t hash = hash_bytes(0, text, length);
    NameSlot *slot = names_slot(names, hash, text, length);
    if (slot->text)
        return slot->text;
    const char *copy = arena_strndup(names->arena, text, length);
    *slot = (NameSlot){.hash = hash, .length = length, .text = copy};
    if (++names->count > names->room / 2)
        names_double(names);
    return copy;
}

Name names_find(Names *names, const char *text) {
    return names_intern(names, text, strlen(text));
}

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

// Three rows of the table of distances between prefixes are enough. Names too long to be a slip of
// the other count as wholly different.
uint32_t name_distance(const char *a, const char *b) {
    enum { LONGEST = 64 };
    size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST)
        return strcmp(a, b) ? (uint32_t)least(UINT32_MAX, n + m) : 0;
    uint32_t rows[3][LONGEST + 1];
    uint32_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++)
        above[j] = before[j] = (uint32_t)j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = (uint32_t)i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = least(above[j] + 1, row[j - 1] + 1);
            row[j] = least(row[j], above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        uint32_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[m];
}
