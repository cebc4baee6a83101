// SPDX-License-Identifier: Apache-2.0
// Interned strings: one table per session, so that names compare by pointer.
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

Names *names_copy(const Names *names, Arena *arena) {
    Names *copy = arena_copy(arena, names, sizeof *names);
    copy->arena = arena;
    copy->slots = arena_copy(arena, names->slots, names->room * sizeof *names->slots);
    return copy;
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

uint32_t name_primes(Name name) {
    size_t length = strlen(name), primes = 0;
    while (primes < length && name[length - 1 - primes] == '\'')
        primes++;
    return (uint32_t)primes;
}

Name name_unprimed(Names *names, Name name) {
    uint32_t primes = name_primes(name);
    return primes ? names_intern(names, name, strlen(name) - primes) : name;
}

Name name_primed(Names *names, Name name, uint32_t primes) {
    size_t length = strlen(name);
    char *text = arena_alloc(names->arena, length + primes + 1);
    memcpy(text, name, length);
    memset(text + length, '\'', primes);
    return names_intern(names, text, length + primes);
}

bool namelist_has(const NameList *list, Name name) {
    for (uint32_t i = 0; i < list->count; i++)
        if (list->at[i] == name)
            return true;
    return false;
}

const char *quoted_text(Arena *arena, const NameList *list) {
    Text text = {.arena = arena};
    text_add(&text, "");
    for (uint32_t i = 0; i < list->count; i++) {
        const char *before = i == 0 ? "" : i + 1 < list->count ? ", " : " and ";
        text_printf(&text, "%s'%s'", before, list->at[i]);
    }
    return text.at;
}
