// SPDX-License-Identifier: Apache-2.0
// An entry of the database: the order of keys, and what an entry may hold. Everything that comes
// from a file goes through tune_entry_problem, so that what is used is what could have been put.
#include "tune/tune.h"

#include <math.h>
#include <string.h>

#include "arguments.h"

enum { GROUP_DIGITS = 16, WORDS_MOST = 1000, NUMBER_DIGITS_MOST = 13 };
static const double seconds_most = 1e6;

int tune_key_compare(const TuneKey *a, const TuneKey *b) {
    int order = strcmp(a->group, b->group);
    order = order ? order : strcmp(a->extents, b->extents);
    order = order ? order : strcmp(a->target, b->target);
    order = order ? order : strcmp(a->machine, b->machine);
    return order ? order : (a->threads > b->threads) - (a->threads < b->threads);
}

double tune_gain(const TuneEntry *entry) {
    return entry->default_seconds / entry->seconds - 1;
}

// ---- what is wrong ------------------------------------------------------------------------------

static bool is_group(const char *text) {
    return strspn(text, "0123456789abcdef") == GROUP_DIGITS && !text[GROUP_DIGITS];
}

// "", or numbers with a blank between, each perhaps after a '~'.
static bool are_extents(const char *text) {
    for (const char *at = text; *text;) {
        at += *at == '~';
        size_t digits = strspn(at, "0123456789");
        if (!digits || digits > NUMBER_DIGITS_MOST || (*at == '0' && digits > 1))
            return false;
        at += digits;
        if (!*at)
            return true;
        if (*at++ != ' ')
            return false;
    }
    return true;
}

// UTF-8 of one line, not empty.
static bool are_words(const char *text) {
    size_t length = strlen(text);
    for (const char *at = text, *end = text + length; at < end;) {
        uint32_t code;
        size_t bytes = utf8_decode(at, end, &code);
        if (!bytes || code < ' ' || code == 0x7f)
            return false;
        at += bytes;
    }
    return length && length <= WORDS_MOST;
}

// A '0' stands for any digit.
static bool is_date(const char *text) {
    static const char form[] = "0000-00-00T00:00:00Z";
    size_t i = 0;
    for (; form[i] && text[i]; i++)
        if (form[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
            return false;
    return !form[i] && !text[i];
}

static bool are_seconds(double seconds) {
    return isfinite(seconds) && seconds > 0 && seconds <= seconds_most;
}

const char *tune_entry_problem(Arena *arena, const TuneEntry *entry) {
    const TuneKey *key = &entry->key;
    Schedule schedule;
    const char *why;
    if (!is_group(key->group))
        return "group: expected 16 hexadecimal digits";
    if (!are_extents(key->extents))
        return "extents: expected numbers such as \"512 ~64\"";
    if (!are_words(key->target) || !are_words(key->machine) || !are_words(entry->name))
        return arena_printf(arena, "%s: expected a text of one line, of 1 to %d bytes",
                            !are_words(key->target)    ? "target"
                            : !are_words(key->machine) ? "machine"
                                                       : "name",
                            WORDS_MOST);
    if (key->threads < 1 || key->threads > ATT_THREADS_MOST)
        return arena_printf(arena, "threads: expected a whole number from 1 to %d",
                            ATT_THREADS_MOST);
    if (!schedule_from_json(arena, entry->schedule, &schedule, &why))
        return arena_printf(arena, "schedule: %s", why);
    if (!are_seconds(entry->seconds) || !are_seconds(entry->default_seconds))
        return arena_printf(arena, "%s: expected a number above 0, at most %g",
                            are_seconds(entry->seconds) ? "default_seconds" : "seconds",
                            seconds_most);
    if (!(entry->confidence >= 0 && entry->confidence <= 1))
        return "confidence: expected a number from 0 to 1";
    if (!is_date(entry->date))
        return "date: expected such as \"2026-11-24T19:00:00Z\"";
    return NULL;
}
