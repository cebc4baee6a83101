// SPDX-License-Identifier: Apache-2.0
// A library to preload: of the calls that write files, number CALL_AT from 1 fails with ENOSPC
// (CALL_HOW=fail), or the process ends there (CALL_HOW=end), before the call or, of a write, half
// way through; or every write takes half of its bytes (CALL_HOW=half). "hit" on standard error
// tells that the number was reached. For test_safetensors.py.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int calls;

static bool how(const char *name) {
    const char *set = getenv("CALL_HOW");
    return set && strcmp(set, name) == 0;
}

// Is this the call that fails?
static bool hit(void) {
    const char *at = getenv("CALL_AT");
    if (!at || ++calls != atoi(at))
        return false;
    syscall(SYS_write, 2, "hit\n", 4);
    return true;
}

static int fails(void) {
    if (how("end"))
        _exit(9);
    errno = ENOSPC;
    return -1;
}

int open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    return hit() ? fails() : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t write(int fd, const void *bytes, size_t length) {
    bool is_hit = hit(), half = is_hit || how("half");
    ssize_t put = 0;
    if (!is_hit || how("end"))
        put = syscall(SYS_write, fd, bytes, half ? (length + 1) / 2 : length);
    return is_hit ? fails() : put;
}

int fchmod(int fd, mode_t mode) {
    return hit() ? fails() : (int)syscall(SYS_fchmod, fd, mode);
}

int fsync(int fd) {
    return hit() ? fails() : (int)syscall(SYS_fsync, fd);
}

// What fails has closed the file all the same.
int close(int fd) {
    bool is_hit = hit();
    int closed = (int)syscall(SYS_close, fd);
    return is_hit ? fails() : closed;
}

int rename(const char *from, const char *to) {
    return hit() ? fails() : (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}
