// SPDX-License-Identifier: Apache-2.0
// Writing a file so that a reader sees the old one or the whole new one: beside it under a name of
// its own, then renamed. A link stays a link; what is no regular file is written to.
#include "driver/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "signals.h"

static bool write_all(int file, const Text *text) {
    size_t written = 0;
    while (written < text->length) {
        ssize_t put = write(file, text->at + written, text->length - written);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        written += (size_t)put;
    }
    return true;
}

static bool close_written(int file, bool written) {
    int why = errno;
    bool closed = close(file) == 0;
    if (!written)
        errno = why;
    return written && closed;
}

static bool write_in_place(const char *path, const Text *text) {
    int file = open(path, O_WRONLY | O_CLOEXEC);
    return file >= 0 && close_written(file, write_all(file, text));
}

// old: NULL when there is none.
static bool write_beside(Arena *arena, const char *path, const struct stat *old, const Text *text) {
    char *temporary = arena_printf(arena, "%s.XXXXXX", path);
    int file = mkostemp(temporary, O_CLOEXEC);
    if (file < 0)
        return false;
    mode_t mask = umask(0);
    umask(mask);
    bool ok = fchmod(file, old ? old->st_mode & 07777 : 0666 & ~mask) == 0 && write_all(file, text);
    ok = close_written(file, ok) && rename(temporary, path) == 0;
    int why = errno;
    if (!ok)
        unlink(temporary);
    errno = why;
    return ok;
}

bool file_replace(Arena *arena, const char *path, const Text *text) {
    struct stat old;
    bool exists = stat(path, &old) == 0;
    if (exists && !S_ISREG(old.st_mode))
        return write_in_place(path, text);
    char *target = exists ? realpath(path, NULL) : NULL;
    AttHeldSignals held;
    att_signals_hold(&held);
    bool ok = write_beside(arena, target ? target : path, exists ? &old : NULL, text);
    att_signals_release(&held);
    free(target);
    return ok;
}
