// SPDX-License-Identifier: Apache-2.0
// Files as memory: what is read here and there of large files is mapped.

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/train.h"

static AttStatus map_open_file(AttContext *ctx, const char *path, int fd, AttMapped *out) {
    struct stat info;
    if (fstat(fd, &info))
        return att_fail(ctx, ATT_IO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return att_fail(ctx, ATT_IO, "%s: %s", path, strerror(EISDIR));
    if (!S_ISREG(info.st_mode))
        return att_fail(ctx, ATT_IO, "%s: is no regular file, which it must be to be mapped", path);
    if (info.st_size == 0)
        return att_fail(ctx, ATT_FORMAT, "%s: is empty", path);
    void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return att_fail(ctx, ATT_IO, "%s: %s", path, strerror(errno));
    *out = (AttMapped){bytes, (size_t)info.st_size};
    return ATT_OK;
}

AttStatus att_map_file(AttContext *ctx, const char *path, AttMapped *out) {
    *out = (AttMapped){0};
    // What is no regular file is not waited for.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return att_fail(ctx, ATT_IO, "%s: %s", path, strerror(errno));
    AttStatus status = map_open_file(ctx, path, fd, out);
    close(fd);
    return status;
}

void att_unmap(AttMapped *map) {
    if (map->bytes)
        munmap((void *)map->bytes, map->length);
    *map = (AttMapped){0};
}

const char *att_shown(const char *name, char shown[ATT_SHOWN_ROOM]) {
    static const char cut[] = "...";
    size_t length = strlen(name), room = ATT_SHOWN_ROOM - sizeof cut;
    bool is_cut = length > room;
    for (length = is_cut ? room : length; is_cut && length && (name[length] & 0xC0) == 0x80;)
        length--; // not within a character
    for (size_t i = 0; i < length; i++)
        shown[i] = (unsigned char)name[i] < ' ' || name[i] == 0x7F ? '?' : name[i];
    strcpy(shown + length, is_cut ? cut : "");
    return shown;
}
