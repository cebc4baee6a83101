// SPDX-License-Identifier: Apache-2.0
// Where the file of a path is, also one that is not there yet: for writing beside it, and for
// telling whether two paths are one file.

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

enum { LINKS_MOST = 40 };

// The folder of a path without links, and the last name of the path behind it. On failure errno.
static bool resolve_folder(const char *path, char out[PATH_MAX]) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    bool fits = length < sizeof folder;
    if (fits) {
        memcpy(folder, path, length);
        folder[length] = 0;
        if (!realpath(length ? folder : ".", out))
            return false;
    }
    if (!fits || strlen(out) + strlen(path + length) + 2 > PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcat(strcat(out, "/"), path + length);
    return true;
}

bool att_path_target(const char *path, char *target) {
    char link[PATH_MAX], next[PATH_MAX];
    if (realpath(path, target))
        return true;
    if (!resolve_folder(path, target))
        return false;
    // Links to what is not there yet.
    for (int i = 0; i < LINKS_MOST; i++) {
        ssize_t length = readlink(target, link, sizeof link);
        if (length < 0)
            return true;
        size_t folder = link[0] == '/' ? 0 : (size_t)(strrchr(target, '/') - target) + 1;
        if (folder + (size_t)length >= sizeof next) {
            errno = ENAMETOOLONG;
            return false;
        }
        memcpy(next, target, folder);
        memcpy(next + folder, link, (size_t)length);
        next[folder + (size_t)length] = 0;
        if (!resolve_folder(next, target))
            return false;
    }
    errno = ELOOP;
    return false;
}
