// SPDX-License-Identifier: Apache-2.0
// Files of data are mapped, and where one has become shorter or cannot be read, reading it raises
// SIGBUS, which would end the process. So what reads a batch is left where that happens.

#include <setjmp.h>
#include <signal.h>
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

// Where to go on from when what a thread reads is lost; NULL: it reads nothing of the kind.
static _Thread_local sigjmp_buf *reading;

// Of anything else the process ends, once the handler returns.
static void on_lost(int number) {
    if (reading)
        siglongjmp(*reading, 1);
    signal(number, SIG_DFL);
    raise(number);
}

// false: it did not come to its end.
static bool read_all(void (*read)(void *), void *argument) {
    struct sigaction action = {.sa_handler = on_lost}, before;
    volatile bool whole = false;
    sigjmp_buf lost;
    sigaction(SIGBUS, &action, &before);
    if (sigsetjmp(lost, 1) == 0) {
        reading = &lost;
        read(argument);
        whole = true;
    }
    reading = NULL;
    sigaction(SIGBUS, &before, NULL);
    return whole;
}

static AttStatus check_lengths(AttContext *ctx, const AttWatch *watches) {
    struct stat now;
    for (const AttWatch *watch = watches; watch->path; watch++)
        if (!stat(watch->path, &now) && now.st_dev == watch->seen.st_dev &&
            now.st_ino == watch->seen.st_ino && now.st_size < watch->seen.st_size)
            return att_fail(ctx, ATT_IO, "%s: has become shorter while examples are read of it",
                            watch->path);
    return ATT_OK;
}

AttStatus att_watch_read(AttContext *ctx, const AttWatch *watches, void (*read)(void *),
                         void *argument) {
    AttStatus status = check_lengths(ctx, watches);
    if (status)
        return status;
    bool whole = read_all(read, argument);
    status = check_lengths(ctx, watches); // behind the end of a file the last page holds zeros
    return status || whole ? status : att_fail(ctx, ATT_IO, "the data can no longer be read");
}

void att_watch_close(AttWatch *watches) {
    for (AttWatch *watch = watches; watch && watch->path; watch++)
        free(watch->path);
    free(watches);
}
