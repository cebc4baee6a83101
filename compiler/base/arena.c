// SPDX-License-Identifier: Apache-2.0
// Arenas: memory that is freed as a whole. Chunks come zeroed from calloc and grow with the arena;
// what does not fit well into a chunk gets one of its own. Under AddressSanitizer the unused part
// of a chunk is poisoned, so that running over the end of an object is still found.
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_CHECKED 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ARENA_CHECKED 1
#endif

#ifdef ARENA_CHECKED
#include <sanitizer/asan_interface.h>
enum { RED_ZONE = 16 };
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
enum { RED_ZONE = 0 };
#endif

enum { ALIGN = 16, FIRST_CHUNK = 16 << 10, LARGEST_CHUNK = 1 << 20 };

typedef struct Chunk Chunk;
struct Chunk {
    Chunk *next;
    size_t used, room;
    _Alignas(ALIGN) char at[];
};

struct Arena {
    Chunk *chunks; // the one being filled comes first
    size_t next_room;
    Arena *adopted; // freed with this one
    Arena *sibling; // adopted before it by the same one
};

static Chunk *chunk_new(size_t room) {
    Chunk *chunk = calloc(1, sizeof(Chunk) + room);
    if (!chunk)
        no_memory("the compiler's own data", room);
    chunk->room = room;
    ASAN_POISON_MEMORY_REGION(chunk->at, room);
    return chunk;
}

Arena *arena_new(void) {
    Arena *arena = calloc(1, sizeof *arena);
    if (!arena)
        no_memory("the compiler's own data", sizeof *arena);
    arena->next_room = FIRST_CHUNK;
    return arena;
}

void arena_free(Arena *arena) {
    if (!arena)
        return;
    for (Arena *child = arena->adopted, *sibling; child; child = sibling) {
        sibling = child->sibling;
        arena_free(child);
    }
    for (Chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        ASAN_UNPOISON_MEMORY_REGION(chunk->at, chunk->room);
        free(chunk);
    }
    free(arena);
}

void arena_adopt(Arena *arena, Arena *child) {
    child->sibling = arena->adopted;
    arena->adopted = child;
}

// A chunk with at least `bytes` unused. A large object does not end the chunk being filled.
static Chunk *chunk_with_room(Arena *arena, size_t bytes) {
    Chunk *first = arena->chunks;
    if (first && first->room - first->used >= bytes)
        return first;
    if (first && bytes > arena->next_room / 4) {
        Chunk *own = chunk_new(bytes);
        own->next = first->next;
        first->next = own;
        return own;
    }
    Chunk *chunk = chunk_new(bytes > arena->next_room ? bytes : arena->next_room);
    chunk->next = first;
    arena->chunks = chunk;
    if (arena->next_room < LARGEST_CHUNK)
        arena->next_room *= 2;
    return chunk;
}

void *arena_alloc(Arena *arena, size_t bytes) {
    if (bytes > SIZE_MAX / 2)
        ice("request for %zu bytes", bytes);
    size_t rounded = (bytes + RED_ZONE + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (rounded == 0)
        rounded = ALIGN;
    Chunk *chunk = chunk_with_room(arena, rounded);
    char *at = chunk->at + chunk->used;
    chunk->used += rounded;
    ASAN_UNPOISON_MEMORY_REGION(at, bytes);
    return at;
}

void *arena_copy(Arena *arena, const void *from, size_t bytes) {
    void *copy = arena_alloc(arena, bytes);
    if (bytes)
        memcpy(copy, from, bytes);
    return copy;
}

char *arena_strndup(Arena *arena, const char *text, size_t length) {
    char *copy = arena_alloc(arena, length + 1);
    if (length)
        memcpy(copy, text, length);
    return copy;
}
