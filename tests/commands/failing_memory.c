// SPDX-License-Identifier: Apache-2.0
// For LD_PRELOAD: there is no memory for aligned blocks of MEMORY_FAILS_FROM bytes and more.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

int posix_memalign(void **out, size_t alignment, size_t bytes) {
    const char *from = getenv("MEMORY_FAILS_FROM");
    if (from && bytes >= strtoull(from, NULL, 10))
        return ENOMEM;
    int (*real)(void **, size_t, size_t) =
        (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
    return real(out, alignment, bytes);
}
