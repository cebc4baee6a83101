// SPDX-License-Identifier: Apache-2.0
// The folder of a run belongs to one process at a time. The lock ends with the process, whatever
// ends it.

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "train/loop/loop.h"

AttStatus att_folder_lock(AttContext *ctx, const char *folder, AttFolderLock *out) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return att_fail(ctx, ATT_IO, "--out %s: %s", folder, strerror(errno));
    *out = (AttFolderLock){fd, true};
    // Some file systems have no locks: no matter.
    if (!flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
        return ATT_OK;
    return att_fail(ctx, ATT_ARGUMENT,
                    "another process trains in %s: wait for its end, or give another --out",
                    folder);
}

void att_folder_unlock(AttFolderLock *lock) {
    if (lock->open)
        close(lock->fd);
    *lock = (AttFolderLock){0};
}
