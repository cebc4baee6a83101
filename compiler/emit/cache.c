// SPDX-License-Identifier: Apache-2.0
// Objects kept between runs, one file per object, named by the XXH3 of everything it depends on.
//
// A file is the object itself followed by its key as text and a fixed trailer, so `objdump -d`
// reads it as it is:
//
//     object | key text | Trailer { object bytes, key bytes, XXH3 of both, magic }
//
// Any number of processes may share a directory. A writer makes a temporary file and renames it, so
// a reader sees a whole file or none; whatever else happens to a file (a full disk, an editor, a
// crash of the machine) is found by the lengths, the checksum and the key, and then the object is
// made again. A writer that is interrupted removes its temporary file first. Every 32nd new entry
// sweeps the directory: the files that were used longest ago are removed until it holds three
// quarters of its room. Entries that belong to another user are not trusted.
#include "emit/emit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "signals.h"

enum { ENTRIES_PER_SWEEP = 32, ORPHAN_SECONDS = 3600 };

typedef struct {
    uint64_t object_bytes, key_bytes, checksum, magic;
} Trailer;
static const uint64_t trailer_magic = 0x316a626f63747461; // "attcobj1"

// What the compiler itself is: a checksum of its sources.
static const char build_id[] =
#include "build_id.inc"
    ;

CacheOptions cache_default(Arena *arena) {
    const char *own = getenv("ATTC_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    CacheOptions cache = {.enabled = true};
    if (own && *own)
        cache.directory = arena_printf(arena, "%s", own);
    else if (xdg && *xdg == '/')
        cache.directory = arena_printf(arena, "%s/attc", xdg);
    else if (home && *home)
        cache.directory = arena_printf(arena, "%s/.cache/attc", home);
    else
        cache.enabled = false;
    return cache;
}

static bool is_usable(const CacheOptions *cache) {
    return cache && cache->enabled && cache->directory;
}

static char *full_key(Arena *arena, const char *key) {
    return arena_printf(arena, "attc=%s build=%s %s", ATTC_VERSION, build_id, key);
}

static char *entry_path(Arena *arena, const CacheOptions *cache, const char *key) {
    uint64_t hash = hash_text(0, key);
    return arena_printf(arena, "%s/%016llx.o", cache->directory, (unsigned long long)hash);
}

static uint64_t checksum_of(const char *object, size_t bytes, const char *key, size_t key_bytes) {
    return hash_bytes(hash_bytes(0, object, bytes), key, key_bytes);
}

// ---- reading ----

static bool read_all(int file, char *to, size_t bytes) {
    while (bytes) {
        ssize_t got = read(file, to, bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        to += got;
        bytes -= (size_t)got;
    }
    return true;
}

static bool is_intact(const char *bytes, size_t length, const char *key, size_t *object_bytes) {
    Trailer trailer;
    if (length < sizeof trailer)
        return false;
    size_t room = length - sizeof trailer, key_bytes = strlen(key);
    memcpy(&trailer, bytes + room, sizeof trailer);
    if (trailer.magic != trailer_magic || trailer.key_bytes != key_bytes || key_bytes > room ||
        trailer.object_bytes != room - key_bytes)
        return false;
    const char *kept_key = bytes + trailer.object_bytes;
    *object_bytes = (size_t)trailer.object_bytes;
    return memcmp(kept_key, key, key_bytes) == 0 &&
           checksum_of(bytes, *object_bytes, key, key_bytes) == trailer.checksum;
}

// A regular file of this user, NULL otherwise.
static char *load_file(int file, Arena *arena, size_t *length) {
    struct stat about;
    if (fstat(file, &about) || !S_ISREG(about.st_mode) || about.st_uid != geteuid())
        return NULL;
    if (about.st_size <= 0 || about.st_size > CACHE_ROOM)
        return NULL;
    *length = (size_t)about.st_size;
    char *bytes = arena_alloc(arena, *length + 1);
    return read_all(file, bytes, *length) ? bytes : NULL;
}

static bool load_object(int file, Arena *arena, const char *key, Blob *out) {
    size_t length;
    char *bytes = load_file(file, arena, &length);
    if (!bytes || !is_intact(bytes, length, key, &out->length))
        return false;
    out->bytes = bytes;
    futimens(file, (struct timespec[2]){{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}});
    return true;
}

static int open_for_reading(const char *path) {
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

bool cache_load(const CacheOptions *cache, Arena *arena, const char *key, Blob *out) {
    if (!is_usable(cache))
        return false;
    key = full_key(arena, key);
    int file = open_for_reading(entry_path(arena, cache, key));
    if (file < 0)
        return false;
    bool ok = load_object(file, arena, key, out);
    close(file);
    return ok;
}

char *cache_read_text(const CacheOptions *cache, Arena *arena, const char *name) {
    if (!is_usable(cache))
        return NULL;
    int file = open_for_reading(arena_printf(arena, "%s/%s", cache->directory, name));
    if (file < 0)
        return NULL;
    size_t length;
    char *text = load_file(file, arena, &length);
    close(file);
    return text;
}

// ---- keeping to the room ----

typedef struct {
    char name[32]; // 16 hex digits and ".o", or a temporary file's name
    struct timespec used;
    uint64_t bytes;
} Entry;
typedef struct {
    Arena *arena;
    VEC(Entry) entries;
    uint64_t bytes;
} CacheSweep;

static int compare_age(const void *a, const void *b) {
    const Entry *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec)
        return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

// Only files that look like ours are counted and ever removed.
static void sweep_note(CacheSweep *sweep, int directory, const char *name, time_t now) {
    size_t stem = strspn(name, "0123456789abcdef"), length = strlen(name);
    bool entry = stem == 16 && strcmp(name + stem, ".o") == 0;
    bool temporary = stem == 16 && length == 16 + 7 && name[stem] == '-';
    struct stat about;
    if (!(entry || temporary) || fstatat(directory, name, &about, AT_SYMLINK_NOFOLLOW) ||
        !S_ISREG(about.st_mode))
        return;
    if (temporary) {
        if (now - about.st_mtim.tv_sec > ORPHAN_SECONDS)
            unlinkat(directory, name, 0);
        return;
    }
    Entry found = {.used = about.st_mtim, .bytes = (uint64_t)about.st_size};
    memcpy(found.name, name, length + 1);
    vec_push(sweep->arena, &sweep->entries, found);
    sweep->bytes += found.bytes;
}

static void sweep_directory(const char *path, uint64_t room) {
    DIR *listing = opendir(path);
    if (!listing)
        return;
    CacheSweep sweep = {.arena = arena_new()};
    time_t now = time(NULL);
    for (struct dirent *item; (item = readdir(listing));)
        sweep_note(&sweep, dirfd(listing), item->d_name, now);
    if (sweep.bytes > room) {
        qsort(sweep.entries.at, sweep.entries.count, sizeof(Entry), compare_age);
        for (uint32_t i = 0; i < sweep.entries.count && sweep.bytes > room / 4 * 3; i++) {
            unlinkat(dirfd(listing), sweep.entries.at[i].name, 0);
            sweep.bytes -= sweep.entries.at[i].bytes;
        }
    }
    closedir(listing);
    arena_free(sweep.arena);
}

// ---- writing ----

// mkdir -p, private to the user.
static void make_directory(Arena *arena, const char *path) {
    char *parent = arena_printf(arena, "%s", path);
    for (char *at = parent + 1; *at; at++)
        if (*at == '/') {
            *at = '\0';
            mkdir(parent, 0700);
            *at = '/';
        }
    mkdir(parent, 0700);
}

static bool write_all(int file, const void *from, size_t bytes) {
    const char *at = from;
    while (bytes) {
        ssize_t put = write(file, at, bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        at += put;
        bytes -= (size_t)put;
    }
    return true;
}

static bool write_entry(int file, const char *key, const Blob *object) {
    size_t key_bytes = strlen(key);
    Trailer trailer = {object->length, key_bytes,
                       checksum_of(object->bytes, object->length, key, key_bytes), trailer_magic};
    return write_all(file, object->bytes, object->length) && write_all(file, key, key_bytes) &&
           write_all(file, &trailer, sizeof trailer);
}

static int open_temporary(Arena *arena, const CacheOptions *cache, char *path) {
    size_t suffix = strlen(path) - 6;
    int file = mkostemp(path, O_CLOEXEC);
    if (file >= 0 || errno != ENOENT)
        return file;
    make_directory(arena, cache->directory);
    memcpy(path + suffix, "XXXXXX", 6);
    return mkostemp(path, O_CLOEXEC);
}

// Closes the file and gives it its name.
static bool publish(int file, const char *temporary, const char *path, bool written) {
    bool ok = close(file) == 0 && written && rename(temporary, path) == 0;
    if (!ok)
        unlink(temporary);
    return ok;
}

static bool store_in(const CacheOptions *cache, Arena *arena, const char *key, const Blob *object) {
    AttHeldSignals held;
    char *path = entry_path(arena, cache, key);
    char *temporary = arena_printf(arena, "%.*s-XXXXXX", (int)strlen(path) - 2, path);
    att_signals_hold(&held);
    int file = open_temporary(arena, cache, temporary);
    bool ok = file >= 0 && publish(file, temporary, path, write_entry(file, key, object));
    att_signals_release(&held);
    if (ok && hash_text(0, key) % ENTRIES_PER_SWEEP == 0)
        sweep_directory(cache->directory, cache->room ? cache->room : CACHE_ROOM);
    return ok;
}

bool cache_store(const CacheOptions *cache, const char *key, const Blob *object) {
    if (!is_usable(cache) || cache->only_read)
        return false;
    Arena *arena = arena_new();
    bool ok = store_in(cache, arena, full_key(arena, key), object);
    arena_free(arena);
    return ok;
}

bool cache_write_text(const CacheOptions *cache, const char *name, const char *text) {
    if (!is_usable(cache))
        return false;
    Arena *arena = arena_new();
    char *path = arena_printf(arena, "%s/%s", cache->directory, name);
    char *temporary = arena_printf(arena, "%s/%016llx-XXXXXX", cache->directory,
                                   (unsigned long long)hash_text(0, name));
    AttHeldSignals held;
    att_signals_hold(&held);
    int file = open_temporary(arena, cache, temporary);
    bool ok = file >= 0 && publish(file, temporary, path, write_all(file, text, strlen(text)));
    att_signals_release(&held);
    arena_free(arena);
    return ok;
}

const char *cache_build_id(void) {
    return build_id;
}
