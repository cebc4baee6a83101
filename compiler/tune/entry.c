// SPDX-License-Identifier: Apache-2.0
// Entries, measurements and rates of the database: the order of keys, and what they may hold.
// Everything that comes from a file goes through these checks, so that what is used is what could
// have been put.
#include "tune/tune.h"

#include <math.h>
#include <string.h>

#include "arguments.h"

enum { GROUP_DIGITS = 16, WORDS_MOST = 1000, NUMBER_DIGITS_MOST = 13 };
static const double seconds_most = 1e6;
static const char date_form[] = "%Y-%m-%dT%H:%M:%SZ";
enum { DATE_BYTES = sizeof "0000-00-00T00:00:00Z" };
static const double rate_least = 1e6, rate_most = 1e18; // in a second

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

bool tune_is_worth(double seconds, double of_default) {
    return seconds <= ATT_WORTH * of_default && of_default - seconds >= ATT_WORTH_SECONDS;
}

const char *tune_date(Arena *arena, time_t at) {
    char text[DATE_BYTES];
    struct tm parts;
    gmtime_r(&at, &parts);
    strftime(text, sizeof text, date_form, &parts);
    return arena_strndup(arena, text, DATE_BYTES - 1);
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

// A day that there is, as tune_date writes it.
static bool is_date(const char *text) {
    struct tm parts = {0}, same;
    char again[DATE_BYTES];
    if (strlen(text) != DATE_BYTES - 1 || !strptime(text, date_form, &parts))
        return false;
    time_t at = timegm(&parts);
    return gmtime_r(&at, &same) && strftime(again, sizeof again, date_form, &same) &&
           !strcmp(text, again);
}

static const char *words_problem(Arena *arena, const char *field, const char *text) {
    return are_words(text)
               ? NULL
               : arena_printf(arena, "%s: expected a text of one line, of 1 to %d bytes", field,
                              WORDS_MOST);
}

static const char *machine_problem(Arena *arena, const char *target, const char *machine,
                                   int threads) {
    const char *problem = words_problem(arena, "target", target);
    problem = problem ? problem : words_problem(arena, "machine", machine);
    if (!problem && (threads < 1 || threads > ATT_THREADS_MOST))
        problem =
            arena_printf(arena, "threads: expected a whole number from 1 to %d", ATT_THREADS_MOST);
    return problem;
}

static const char *key_problem(Arena *arena, const TuneKey *key) {
    if (!is_group(key->group))
        return "group: expected 16 hexadecimal digits";
    if (!are_extents(key->extents))
        return "extents: expected numbers such as \"512 ~64\"";
    return machine_problem(arena, key->target, key->machine, key->threads);
}

static const char *schedule_problem(Arena *arena, const char *text) {
    Schedule schedule;
    const char *why;
    return schedule_from_json(arena, text, &schedule, &why)
               ? NULL
               : arena_printf(arena, "schedule: %s", why);
}

static const char *seconds_problem(Arena *arena, const char *field, double seconds) {
    bool fine = isfinite(seconds) && seconds > 0 && seconds <= seconds_most;
    return fine ? NULL
                : arena_printf(arena, "%s: expected a number above 0, at most %g", field,
                               seconds_most);
}

static const char *date_problem(const char *date) {
    return is_date(date) ? NULL : "date: expected such as \"2026-11-24T19:00:00Z\"";
}

const char *tune_entry_problem(Arena *arena, const TuneEntry *entry) {
    const char *problem = key_problem(arena, &entry->key);
    problem = problem ? problem : words_problem(arena, "name", entry->name);
    problem = problem ? problem : schedule_problem(arena, entry->schedule);
    problem = problem ? problem : seconds_problem(arena, "seconds", entry->seconds);
    problem = problem ? problem : seconds_problem(arena, "default_seconds", entry->default_seconds);
    if (!problem && !(entry->confidence >= 0 && entry->confidence <= 1))
        problem = "confidence: expected a number from 0 to 1";
    return problem ? problem : date_problem(entry->date);
}

const char *tune_measurement_problem(Arena *arena, const TuneMeasurement *measurement) {
    TileCost counted;
    const char *why, *problem = key_problem(arena, &measurement->key);
    problem = problem ? problem : words_problem(arena, "name", measurement->name);
    problem = problem ? problem : schedule_problem(arena, measurement->schedule);
    problem = problem ? problem : seconds_problem(arena, "seconds", measurement->seconds);
    if (!problem && !tune_counts_from_text(arena, measurement->counts, &counted, &why))
        problem = arena_printf(arena, "counts: %s", why);
    return problem ? problem : date_problem(measurement->date);
}

const char *tune_rates_problem(Arena *arena, const TuneRates *rates) {
    const char *problem = machine_problem(arena, rates->target, rates->machine, rates->threads);
    for (int level = 0; level < N_FROM && !problem; level++)
        if (!(rates->at[level] >= rate_least && rates->at[level] <= rate_most))
            problem =
                arena_printf(arena, "rates: expected numbers from %g to %g", rate_least, rate_most);
    return problem ? problem : date_problem(rates->date);
}
