// SPDX-License-Identifier: Apache-2.0
// What `attc run` and programs of `attc build --exe` read from their command lines alike, so that
// one option has one meaning. Nothing here leaves the library.
#ifndef ATT_ARGUMENTS_H
#define ATT_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ATT_THREADS_MOST = 4096 }; // --threads; from 0, which is one per core

// The whole text is a number of decimal digits in range.
bool att_argument_count(const char *text, int64_t least, int64_t most, int64_t *out);

// The whole text is a time, 90, 60s, 5m or 2h, of the seconds that ATT_SECONDS_EXPECTED says.
bool att_argument_seconds(const char *text, double *out);
#define ATT_SECONDS_EXPECTED "a time from 1s to 24h, such as 60s or 5m"

// Letters, digits, `_` and the points of a trained tensor's name.
bool att_argument_is_name(const char *text, size_t length);

// The length of a name without its primes, n' -> n; 0 where it is none.
size_t att_argument_plain(const char *text, size_t length);

// NAME=FILE: the length of NAME; 0 where it is none, or nothing follows.
size_t att_argument_input(const char *text);

// An item of -D n=512,m=512.
typedef struct {
    const char *text; // what was written, of this length
    int length, name_length;
    int plain_length; // of the name without primes
    int64_t extent;
    const char *problem; // NULL: it is fine
} AttDimArgument;
// The item at *at, which then is at the next; false when there is none left. An empty list has one
// item, which is not fine.
bool att_argument_dim(const char **at, AttDimArgument *out);

// -o NAME=FILE, or FILE.
typedef struct {
    const char *name; // of this length; NULL: not given
    int name_length;
    const char *path; // "" when there is none
} AttOutputArgument;
AttOutputArgument att_argument_output(const char *text);

// What to open for a path that may be "-": standard input or output.
const char *att_argument_input_path(const char *path);
const char *att_argument_output_path(const char *path);

// Would writing to both be writing to one file?
bool att_argument_same_file(const char *a, const char *b);

#endif
