// SPDX-License-Identifier: Apache-2.0
// Files of data are mapped, and one that somebody makes shorter would end the process where it is
// read. So it is looked at before each batch: what remains is the time of a batch.

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "arguments.h"
#include "train/data/data.h"

struct AttWatch {
    char *path;
    struct stat seen;
};

// NAME=FILE of arrays is the file.
static const char *file_of(const char *path, bool arrays) {
    size_t name = arrays ? att_argument_input(path) : 0;
    return name ? path + name + 1 : path;
}

AttStatus att_watch_open(AttContext *ctx, const char *const *paths, int64_t n_paths, bool arrays,
                         AttWatch **out) {
    AttWatch *watches = *out = calloc((size_t)n_paths + 1, sizeof *watches);
    for (int64_t i = 0, n = 0; watches && i < n_paths; i++) {
        AttWatch *watch = &watches[n];
        const char *path = file_of(paths[i], arrays);
        if (stat(path, &watch->seen))
            continue; // renamed meanwhile: the one that is mapped is nobody's to shorten by it
        watch->path = strdup(path);
        if (!watch->path)
            return att_no_memory(ctx);
        n++;
    }
    return watches ? ATT_OK : att_no_memory(ctx);
}

AttStatus att_watch_check(AttContext *ctx, const AttWatch *watches) {
    struct stat now;
    for (const AttWatch *watch = watches; watch->path; watch++)
        if (!stat(watch->path, &now) && now.st_dev == watch->seen.st_dev &&
            now.st_ino == watch->seen.st_ino && now.st_size < watch->seen.st_size)
            return att_fail(ctx, ATT_IO, "%s: has become shorter while examples are read of it",
                            watch->path);
    return ATT_OK;
}

void att_watch_close(AttWatch *watches) {
    for (AttWatch *watch = watches; watch && watch->path; watch++)
        free(watch->path);
    free(watches);
}
