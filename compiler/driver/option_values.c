// SPDX-License-Identifier: Apache-2.0
// What stands after an option: extents, names, counts, plans.
#include "driver/driver.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int usage_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("attc: error: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\n  hint: 'attc --help' lists commands and options\n", stderr);
    va_end(args);
    return EXIT_USAGE;
}

bool option_is_name(const char *s, size_t length) {
    if (!length || (s[0] >= '0' && s[0] <= '9'))
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = s[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(c >= '0' && c <= '9') && c != '.')
            return false;
    }
    return true;
}

bool option_count(const char *text, int64_t low, int64_t high, int64_t *out) {
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < low || value > high)
        return false;
    *out = value;
    return true;
}

// "a,b,c" -> names
int option_names(Options *options, const char *option, const char *text, NameList *out) {
    while (*text) {
        size_t length = strcspn(text, ",");
        if (!option_is_name(text, length))
            return usage_error("%s: '%.*s' is not a name", option, (int)length, text);
        vec_push(options->session->arena, out, names_intern(options->session->names, text, length));
        text += length + (text[length] == ',');
    }
    return EXIT_FINE;
}

static int parse_extent(Options *options, const char *item, size_t length) {
    Session *session = options->session;
    const char *equals = memchr(item, '=', length);
    if (!equals || !option_is_name(item, (size_t)(equals - item)))
        return usage_error("-D %.*s: expected DIM=EXTENT, such as -D n=512", (int)length, item);
    char *digits = arena_strndup(session->arena, equals + 1, length - (size_t)(equals + 1 - item));
    DimOverride extent = {names_intern(session->names, item, (size_t)(equals - item)), 0};
    if (!option_count(digits, 1, EXTENT_MAX, &extent.extent))
        return usage_error("-D %.*s: the extent must be a whole number from 1 to %lld", (int)length,
                           item, (long long)EXTENT_MAX);
    for (uint32_t i = 0; i < session->overrides.count; i++)
        if (session->overrides.at[i].dim == extent.dim)
            return usage_error("-D %.*s: %s is given twice", (int)length, item, extent.dim);
    vec_push(session->arena, &session->overrides, extent);
    return EXIT_FINE;
}

int option_extents(Options *options, const char *text) {
    if (!*text)
        return usage_error("-D: expected DIM=EXTENT, such as -D n=512");
    int status = EXIT_FINE;
    while (*text && status == EXIT_FINE) {
        size_t length = strcspn(text, ",");
        status = parse_extent(options, text, length);
        text += length + (text[length] == ',');
    }
    return status;
}

int option_map(Options *options, const char *text) {
    const char *equals = strchr(text, '=');
    if (!equals || !option_is_name(text, (size_t)(equals - text)) || !equals[1])
        return usage_error("--map %s: expected DIM=ARG,ARG, such as --map b=X,M", text);
    Session *session = options->session;
    EntryMap map = {names_intern(session->names, text, (size_t)(equals - text)), {0}};
    for (uint32_t i = 0; i < session->map_dims.count; i++)
        if (session->map_dims.at[i] == map.dim)
            return usage_error("--map %s: %s is given twice", text, map.dim);
    int status = option_names(options, "--map", equals + 1, &map.args);
    for (uint32_t i = 0; i < map.args.count; i++)
        for (uint32_t k = 0; k < i && status == EXIT_FINE; k++)
            if (map.args.at[k] == map.args.at[i])
                status = usage_error("--map %s: %s is given twice", text, map.args.at[i]);
    vec_push(session->arena, &session->map_dims, map.dim);
    vec_push(session->arena, &options->entry.maps, map);
    return status;
}

// NAME[:ROWS[:PIECE]]
int option_plan(Options *options, const char *text) {
    enum { ROWS, PIECE, N_NUMBERS };
    static const char *const takes[] = {"no numbers", "rows alone", "rows and a piece"};
    int64_t numbers[N_NUMBERS] = {0};
    char *words = arena_strndup(options->session->arena, text, strlen(text)), *rest = words;
    options->plan = plan_find(strsep(&rest, ":"));
    if (options->plan == N_PLANS || options->plan == PLAN_ANY)
        return usage_error("--plan %s: expected resident, stream, two-pass, spill or unfused",
                           words);
    int most = options->plan == PLAN_UNFUSED ? 0 : options->plan == PLAN_RESIDENT ? 1 : N_NUMBERS;
    for (int i = 0; rest; i++) {
        const char *number = strsep(&rest, ":");
        if (i == most)
            return usage_error("--plan %s: plan %s has %s", text, words, takes[most]);
        if (!option_count(number, 1, EXTENT_MAX, &numbers[i]))
            return usage_error("--plan %s: expected a whole number from 1 after %s:", text, words);
    }
    options->rows = numbers[ROWS];
    options->piece = numbers[PIECE];
    return EXIT_FINE;
}
