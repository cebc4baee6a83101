// SPDX-License-Identifier: Apache-2.0
// The end of the process where work cannot go on. A program that wants another end than this (a
// test, a fuzzer) defines both functions itself: its own are linked before this file.
#include "base/base.h"

#include <inttypes.h>
#include <stdlib.h>

_Noreturn void ice(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("attc: internal error: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\n  hint: this is a bug in attc " ATTC_VERSION ", not in your program; please report it "
          "with the source and the command line\n",
          stderr);
    va_end(args);
    exit(EXIT_INTERNAL);
}

_Noreturn void no_memory(const char *what, uint64_t bytes) {
    fprintf(stderr, "attc: error: not enough memory for %s: %" PRIu64 " bytes\n", what, bytes);
    exit(EXIT_PROBLEM);
}
