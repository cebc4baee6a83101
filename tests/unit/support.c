// SPDX-License-Identifier: Apache-2.0
// ice() for unit tests, linked instead of base/ice.c: jumps back to an armed test, otherwise fails
// the run with status 70.
#include "support.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static struct {
    bool armed;
    jmp_buf back;
    char message[512];
} expected;

jmp_buf *ice_arm(void) {
    expected.armed = true;
    expected.message[0] = '\0';
    return &expected.back;
}

void ice_disarm(void) {
    expected.armed = false;
}

void ice_check(const char *part) {
    expected.armed = false;
    if (!strstr(expected.message, part))
        fail_msg("ice() said \"%s\", expected \"%s\"", expected.message, part);
}

_Noreturn void ice(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(expected.message, sizeof expected.message, format, args);
    va_end(args);
    if (expected.armed)
        longjmp(expected.back, 1);
    fprintf(stderr, "internal error: %s\n", expected.message);
    exit(EXIT_INTERNAL);
}

_Noreturn void no_memory(const char *what, uint64_t bytes) {
    ice("no memory for %s: %llu bytes", what, (unsigned long long)bytes);
}
