// SPDX-License-Identifier: Apache-2.0
// Words of a command line: names, counts, extents of dims, outputs, and whether two paths are one
// file.

#include "arguments.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "internal.h"
#include "module.h"

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool att_argument_count(const char *text, int64_t least, int64_t most, int64_t *out) {
    errno = 0;
    char *end = NULL;
    long long value = is_digit(text[0]) ? strtoll(text, &end, 10) : 0;
    if (!end || *end || errno || value < least || value > most)
        return false;
    *out = value;
    return true;
}

bool att_argument_seconds(const char *text, double *out) {
    enum { DAY = 86400 };
    char *end;
    double value = strtod(text, &end);
    double unit = !strcmp(end, "m") ? 60 : !strcmp(end, "h") ? 3600 : 1;
    bool known = unit != 1 || !*end || !strcmp(end, "s");
    if (end == text || !known || !(value * unit >= 1) || !(value * unit <= DAY))
        return false;
    *out = value * unit;
    return true;
}

bool att_argument_is_name(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && (i == 0 || (!is_digit(c) && c != '.')))
            return false;
    }
    return length > 0;
}

size_t att_argument_plain(const char *text, size_t length) {
    while (length > 0 && text[length - 1] == '\'')
        length--;
    return att_argument_is_name(text, length) ? length : 0;
}

size_t att_argument_input(const char *text) {
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : 0;
    return equals && equals[1] && att_argument_is_name(text, length) ? length : 0;
}

// ---- -D ----------------------------------------------------------------------------------------
static const char *read_dim(AttDimArgument *item) {
    char digits[32];
    const char *equals = memchr(item->text, '=', (size_t)item->length);
    item->name_length = equals ? (int)(equals - item->text) : 0;
    item->plain_length = (int)att_argument_plain(item->text, (size_t)item->name_length);
    if (!item->plain_length)
        return "expected DIM=EXTENT, such as -D n=512";
    size_t length = (size_t)(item->length - item->name_length - 1);
    bool fits = length < sizeof digits;
    memcpy(digits, equals + 1, fits ? length : 0);
    digits[fits ? length : 0] = 0;
    if (!att_argument_count(digits, 0, ATT_EXTENT_MOST, &item->extent))
        return "the extent must be a whole number from 0 to 1099511627776";
    if (digits[0] == '0' && digits[1]) // 8 for 010 in C, and no number of the language
        return "a number does not begin with 0";
    return NULL;
}

bool att_argument_dim(const char **at, AttDimArgument *out) {
    if (!*at)
        return false;
    size_t length = strcspn(*at, ",");
    *out = (AttDimArgument){.text = *at, .length = length < INT_MAX ? (int)length : INT_MAX};
    bool ends = !(*at)[length] || !(*at)[length + 1]; // a comma may stand at the end
    *at = ends ? NULL : *at + length + 1;
    out->problem = read_dim(out);
    return true;
}

// ---- files -------------------------------------------------------------------------------------
AttOutputArgument att_argument_output(const char *text) {
    const char *equals = strchr(text, '=');
    if (!equals)
        return (AttOutputArgument){.path = text};
    return (AttOutputArgument){text, (int)(equals - text), equals + 1};
}

const char *att_argument_input_path(const char *path) {
    return strcmp(path, "-") == 0 ? "/dev/stdin" : path;
}

const char *att_argument_output_path(const char *path) {
    return strcmp(path, "-") == 0 ? "/dev/stdout" : path;
}

bool att_argument_same_file(const char *a, const char *b) {
    struct stat at, bt;
    char target_a[PATH_MAX], target_b[PATH_MAX];
    a = att_argument_output_path(a);
    b = att_argument_output_path(b);
    if (strcmp(a, b) == 0)
        return true;
    bool is_a = stat(a, &at) == 0, is_b = stat(b, &bt) == 0;
    if (is_a || is_b)
        return is_a && is_b && at.st_dev == bt.st_dev && at.st_ino == bt.st_ino;
    return att_path_target(a, target_a) && att_path_target(b, target_b) &&
           strcmp(target_a, target_b) == 0;
}
