// SPDX-License-Identifier: Apache-2.0
// Files, and places in them as line and column.
#include "base/base.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

// Spans are 32-bit byte offsets; a program is nowhere near this long.
enum { LARGEST_FILE = 256 << 20 };

struct Sources {
    Arena *arena;
    VEC(Source *) files; // file k is at[k - 1]
    Map *by_inode;       // of those that were read: the Source
};

Sources *sources_new(Arena *arena) {
    Sources *sources = arena_new_of(arena, Sources);
    sources->arena = arena;
    sources->by_inode = map_new(arena);
    return sources;
}

static void source_find_lines(Arena *arena, Source *source) {
    uint32_t n = 1;
    for (size_t i = 0; i < source->length; i++)
        n += source->text[i] == '\n';
    source->line_begin = arena_array(arena, uint32_t, n);
    source->n_lines = n;
    uint32_t line = 1;
    for (size_t i = 0; i < source->length; i++)
        if (source->text[i] == '\n')
            source->line_begin[line++] = (uint32_t)i + 1;
}

static uint64_t inode_key(uint64_t device, uint64_t inode) {
    return hash_u64(hash_u64(0, device), inode);
}

static uint32_t sources_adopt(Sources *sources, const char *path, const char *text, size_t length) {
    Source *source = arena_new_of(sources->arena, Source);
    source->number = sources->files.count + 1;
    source->path = arena_strndup(sources->arena, path, strlen(path));
    source->text = text;
    source->length = length;
    source_find_lines(sources->arena, source);
    vec_push(sources->arena, &sources->files, source);
    return source->number;
}

uint32_t sources_add(Sources *sources, const char *path, const char *text, size_t length) {
    if (length > LARGEST_FILE)
        ice("source text of %zu bytes", length);
    return sources_adopt(sources, path, arena_strndup(sources->arena, text, length), length);
}

static bool read_all(FILE *in, Text *text) {
    char block[16 << 10];
    size_t n;
    while ((n = fread(block, 1, sizeof block, in)) > 0) {
        text_addn(text, block, n);
        if (text->length > LARGEST_FILE) {
            errno = EFBIG;
            return false;
        }
    }
    return !ferror(in);
}

static const char *errno_text(Arena *arena, const char *path) {
    char buffer[128];
    const char *reason = strerror_r(errno, buffer, sizeof buffer);
    return arena_printf(arena, "cannot read '%s': %s", path, reason);
}

uint32_t sources_read(Sources *sources, const char *path, const char **why) {
    bool is_stdin = !strcmp(path, "-");
    errno = 0;
    FILE *in = is_stdin ? stdin : fopen(path, "rb");
    if (!in) {
        *why = errno_text(sources->arena, path);
        return 0;
    }
    Text text = {.arena = sources->arena};
    text_add(&text, "");
    struct stat status;
    bool fine = fstat(fileno(in), &status) == 0 && read_all(in, &text);
    if (!fine)
        *why = errno_text(sources->arena, path);
    if (!is_stdin)
        fclose(in);
    if (!fine)
        return 0;
    uint32_t file = sources_adopt(sources, is_stdin ? "<stdin>" : path, text.at, text.length);
    Source *source = sources->files.at[file - 1];
    source->device = status.st_dev;
    source->inode = status.st_ino;
    map_put(sources->by_inode, inode_key(source->device, source->inode), source);
    return file;
}

uint32_t sources_find(const Sources *sources, const char *path) {
    struct stat status;
    if (stat(path, &status))
        return 0;
    const Source *source = map_get(sources->by_inode, inode_key(status.st_dev, status.st_ino));
    bool same = source && source->device == status.st_dev && source->inode == status.st_ino;
    return same ? source->number : 0;
}

const Source *sources_get(const Sources *sources, uint32_t file) {
    if (file == 0 || file > sources->files.count)
        return NULL;
    return sources->files.at[file - 1];
}

uint32_t sources_count(const Sources *sources) {
    return sources->files.count;
}

const char *span_text(const Sources *sources, Span span, Arena *arena) {
    const Source *source = sources_get(sources, span.file);
    return arena_strndup(arena, source->text + span.begin, span.end - span.begin);
}

void span_locate(const Sources *sources, Span span, uint32_t *line, uint32_t *column) {
    const Source *source = sources_get(sources, span.file);
    *line = *column = 0;
    if (!source)
        return;
    uint32_t low = 0, high = source->n_lines; // line_begin[low] <= begin < line_begin[high]
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (source->line_begin[middle] <= span.begin)
            low = middle;
        else
            high = middle;
    }
    *line = low + 1;
    *column = span.begin - source->line_begin[low] + 1;
}

Span span_join(Span a, Span b) {
    if (a.file == 0)
        return b;
    if (b.file != a.file)
        return a;
    if (b.begin < a.begin)
        a.begin = b.begin;
    if (b.end > a.end)
        a.end = b.end;
    return a;
}

bool span_same(Span a, Span b) {
    return a.file == b.file && a.begin == b.begin && a.end == b.end;
}
