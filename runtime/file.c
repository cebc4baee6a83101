// SPDX-License-Identifier: Apache-2.0
// Writes a file so that a reader sees the old file or the whole new one: a temporary file in the
// same directory is written, synced and renamed, and then the directory is synced. A process that
// is interrupted meanwhile removes the temporary file.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "signals.h"

enum {
    NAME_TRIES = 100,
    WRITE_BYTES = 1 << 26 // between looks at signals that wait
};

struct AttFile {
    int fd;
    const AttHeldSignals *held; // NULL where nothing is to be removed when a signal comes
};

bool att_file_put(AttFile *file, const void *bytes, size_t length) {
    const char *at = bytes;
    while (length) {
        if (file->held && att_signals_came(file->held)) {
            errno = EINTR;
            return false;
        }
        ssize_t put = write(file->fd, at, length < WRITE_BYTES ? length : WRITE_BYTES);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        at += put;
        length -= (size_t)put;
    }
    return true;
}

// Opens a new file beside `path` under a name of its own.
static int open_beside(const char *path, char *name, size_t room) {
    for (unsigned try = 0; try < NAME_TRIES; try++) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        int length = snprintf(name, room, "%s.%ld-%lx.tmp", path, (long)getpid(),
                              (unsigned long)now.tv_nsec + try);
        if (length < 0 || (size_t)length >= room) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

// The new name is durable only when the directory is. Some file systems cannot sync one: no matter.
static void sync_directory_of(char *path) {
    char *slash = strrchr(path, '/');
    if (slash)
        slash[slash == path] = 0;
    int fd = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

typedef struct {
    const char *path;
    const struct stat *old; // NULL: there is none
    AttFileWriter writer;
    const void *arg;
} Job;

// 0, or errno.
static int replace_file(const Job *job, const AttHeldSignals *held) {
    char target[PATH_MAX], name[PATH_MAX];
    // A link stays a link: what it points to is replaced.
    if (!att_path_target(job->path, target))
        return errno;
    AttFile file = {open_beside(target, name, sizeof name), held};
    if (file.fd < 0)
        return errno;
    bool failed = (job->old && fchmod(file.fd, job->old->st_mode & 07777)) ||
                  !job->writer(&file, job->arg) || fsync(file.fd);
    int why = errno;
    if (close(file.fd) && !failed) {
        failed = true;
        why = errno;
    }
    if (!failed && rename(name, target)) {
        failed = true;
        why = errno;
    }
    if (failed)
        unlink(name);
    else
        sync_directory_of(target);
    return failed ? why : 0;
}

static int replace_uninterrupted(const Job *job) {
    AttHeldSignals held;
    att_signals_hold(&held);
    int why = replace_file(job, &held);
    att_signals_release(&held);
    return why;
}

// For what cannot be renamed onto: a pipe, a terminal, /dev/null. 0, or errno.
static int write_in_place(const Job *job) {
    AttFile file = {open(job->path, O_WRONLY | O_CLOEXEC), NULL};
    if (file.fd < 0)
        return errno;
    int why = job->writer(&file, job->arg) ? 0 : errno;
    if (close(file.fd) && !why)
        why = errno;
    return why;
}

AttStatus att_file_write(AttContext *ctx, const char *path, AttFileWriter writer, const void *arg) {
    struct stat old;
    bool exists = stat(path, &old) == 0;
    Job job = {path, exists ? &old : NULL, writer, arg};
    int why = exists && !S_ISREG(old.st_mode) ? write_in_place(&job) : replace_uninterrupted(&job);
    return why ? att_fail(ctx, ATT_IO, "%s: %s", path, strerror(why)) : ATT_OK;
}
