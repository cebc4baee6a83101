// SPDX-License-Identifier: Apache-2.0
// Writes .npy files so that a reader sees the old file or the whole new one: a temporary file in
// the same directory is written, synced and renamed, and then the directory is synced. A process
// that is interrupted meanwhile removes the temporary file.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "npy.h"
#include "signals.h"

enum {
    HEADER_ALIGN = 64,
    HEADER_ROOM = 1024,
    BLOCK_ELEMENTS = 1 << 14,
    NAME_TRIES = 100,
    WRITE_BYTES = 1 << 26 // between looks at signals that wait
};

static const char *const descr[ATT_N_ELEM] = {
    [ATT_F32] = "<f4", [ATT_F64] = "<f8", [ATT_F16] = "<f2",  [ATT_BF16] = "<f4",
    [ATT_I32] = "<i4", [ATT_I64] = "<i8", [ATT_BOOL] = "|b1",
};

// Prefix and text, padded with spaces so that the data is aligned; returns its length.
static size_t format_header(const AttTensorData *tensor, char *out) {
    enum { PREFIX = 10 };
    char shape[512] = "";
    size_t at = 0;
    for (int i = 0; i < tensor->rank; i++)
        at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%lld", i ? ", " : "",
                               (long long)tensor->shape[i]);
    int length = snprintf(out + PREFIX, HEADER_ROOM - PREFIX,
                          "{'descr': '%s', 'fortran_order': False, 'shape': (%s%s), }",
                          descr[tensor->elem], shape, tensor->rank == 1 ? "," : "");
    size_t used = PREFIX + (size_t)length + 1;
    size_t total = (used + HEADER_ALIGN - 1) / HEADER_ALIGN * HEADER_ALIGN;
    memset(out + PREFIX + length, ' ', total - PREFIX - (size_t)length);
    out[total - 1] = '\n';
    memcpy(out, NPY_MAGIC "\x01\x00", 8);
    out[8] = (char)((total - PREFIX) & 0xFF);
    out[9] = (char)((total - PREFIX) >> 8);
    return total;
}

// held: NULL where nothing is to be removed when a signal comes.
static int write_all(int fd, const void *bytes, size_t length, const AttHeldSignals *held) {
    const char *at = bytes;
    while (length) {
        if (held && att_signals_came(held)) {
            errno = EINTR;
            return -1;
        }
        ssize_t put = write(fd, at, length < WRITE_BYTES ? length : WRITE_BYTES);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -1;
        at += put;
        length -= (size_t)put;
    }
    return 0;
}

static int write_bf16(int fd, const uint16_t *data, int64_t count, const AttHeldSignals *held) {
    float *block = malloc(BLOCK_ELEMENTS * sizeof *block);
    int failed = block ? 0 : -1;
    for (int64_t begin = 0; begin < count && !failed; begin += BLOCK_ELEMENTS) {
        int64_t rest = count - begin, n = rest < BLOCK_ELEMENTS ? rest : BLOCK_ELEMENTS;
        for (int64_t i = 0; i < n; i++)
            block[i] = att_bf16_to_f32(data[begin + i]);
        failed = write_all(fd, block, (size_t)n * sizeof *block, held);
    }
    free(block);
    return failed;
}

static int write_tensor(int fd, const AttTensorData *tensor, const AttHeldSignals *held) {
    char header[HEADER_ROOM];
    int64_t bytes = 0;
    size_t length = format_header(tensor, header);
    size_t size = att_elem_bytes(tensor->elem);
    if (!att_bytes_of(tensor->rank, tensor->shape, size, &bytes)) {
        errno = EOVERFLOW;
        return -1;
    }
    if (write_all(fd, header, length, held))
        return -1;
    if (tensor->elem == ATT_BF16)
        return write_bf16(fd, tensor->data, bytes / (int64_t)size, held);
    return write_all(fd, tensor->data, (size_t)bytes, held);
}

// ---- replacing a file --------------------------------------------------------------------------
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

// 0, or errno.
static int replace_file(const char *path, const struct stat *old, const AttTensorData *tensor,
                        const AttHeldSignals *held) {
    char target[PATH_MAX], name[PATH_MAX];
    // A link stays a link: what it points to is replaced.
    if (!att_path_target(path, target))
        return errno;
    int fd = open_beside(target, name, sizeof name);
    if (fd < 0)
        return errno;
    bool failed =
        (old && fchmod(fd, old->st_mode & 07777)) || write_tensor(fd, tensor, held) || fsync(fd);
    int why = errno;
    if (close(fd) && !failed) {
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

static int replace_uninterrupted(const char *path, const struct stat *old,
                                 const AttTensorData *tensor) {
    AttHeldSignals held;
    att_signals_hold(&held);
    int why = replace_file(path, old, tensor, &held);
    att_signals_release(&held);
    return why;
}

// For what cannot be renamed onto: a pipe, a terminal, /dev/null. 0, or errno.
static int write_in_place(const char *path, const AttTensorData *tensor) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int why = write_tensor(fd, tensor, NULL) ? errno : 0;
    if (close(fd) && !why)
        why = errno;
    return why;
}

AttStatus att_npy_write(AttContext *ctx, const char *path, const AttTensorData *tensor) {
    struct stat old;
    if (tensor->elem >= ATT_N_ELEM || tensor->rank < 0 || tensor->rank > ATT_RANK_MAX)
        return att_fail(ctx, ATT_ARGUMENT, "%s: there is no tensor to write", path);
    bool exists = stat(path, &old) == 0;
    int why = exists && !S_ISREG(old.st_mode)
                  ? write_in_place(path, tensor)
                  : replace_uninterrupted(path, exists ? &old : NULL, tensor);
    return why ? att_fail(ctx, ATT_IO, "%s: %s", path, strerror(why)) : ATT_OK;
}
