// SPDX-License-Identifier: Apache-2.0
// Entries as text, to be kept beside a model under version control and to go to other machines:
//
//     {"attc_schedules": 1, "schedule_version": 4}
//     {"group": "00d1..", "extents": "512 64", "target": "x86-64-v4", "machine": "..", ..}
//
// One entry a line, keys of objects in one order, entries by key, numbers as short as they can be:
// equal entries are equal texts, and an entry that changes is one line of a diff. The reader takes
// entries in any order, as they are after lines were merged by hand, and nothing else that the
// writer would not write.
#include "tune/tune.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { FORM = 1 };

typedef enum {
    FIELD_GROUP,
    FIELD_EXTENTS,
    FIELD_TARGET,
    FIELD_MACHINE,
    FIELD_THREADS,
    FIELD_NAME,
    FIELD_SCHEDULE,
    FIELD_SECONDS,
    FIELD_DEFAULT_SECONDS,
    FIELD_CONFIDENCE,
    FIELD_DATE,
    N_FIELDS
} Field;
static const char *const field_names[N_FIELDS] = {
    "group",    "extents", "target",          "machine",    "threads", "name",
    "schedule", "seconds", "default_seconds", "confidence", "date",
};

// ---- writing ------------------------------------------------------------------------------------

static void write_name(Text *text, Field field) {
    text_printf(text, "%s\"%s\": ", field ? ", " : "{", field_names[field]);
}

static void write_text(Text *text, Field field, const char *value) {
    json_t *string = json_string(value);
    char *quoted = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    if (!quoted)
        ice("schedules: %s of an entry is no text", field_names[field]);
    write_name(text, field);
    text_add(text, quoted);
    free(quoted);
    json_decref(string);
}

static void write_number(Text *text, Field field, double value) {
    write_name(text, field);
    text_double(text, value);
}

static void write_entry(Text *text, const TuneEntry *entry) {
    write_text(text, FIELD_GROUP, entry->key.group);
    write_text(text, FIELD_EXTENTS, entry->key.extents);
    write_text(text, FIELD_TARGET, entry->key.target);
    write_text(text, FIELD_MACHINE, entry->key.machine);
    write_number(text, FIELD_THREADS, entry->key.threads);
    write_text(text, FIELD_NAME, entry->name);
    write_name(text, FIELD_SCHEDULE);
    text_add(text, entry->schedule);
    write_number(text, FIELD_SECONDS, entry->seconds);
    write_number(text, FIELD_DEFAULT_SECONDS, entry->default_seconds);
    write_number(text, FIELD_CONFIDENCE, entry->confidence);
    write_text(text, FIELD_DATE, entry->date);
    text_add(text, "}");
}

char *tune_entry_to_text(Arena *arena, const TuneEntry *entry) {
    Text text = {.arena = arena};
    write_entry(&text, entry);
    return text.at;
}

static int by_key(const void *a, const void *b) {
    return tune_key_compare(&((const TuneEntry *)a)->key, &((const TuneEntry *)b)->key);
}

char *tune_entries_to_text(Arena *arena, const TuneEntries *entries) {
    Text text = {.arena = arena};
    text_printf(&text, "{\"attc_schedules\": %d, \"schedule_version\": %d}\n", FORM,
                SCHEDULE_VERSION);
    TuneEntry *sorted = arena_array(arena, TuneEntry, entries->count);
    for (uint32_t i = 0; i < entries->count; i++)
        sorted[i] = entries->at[i];
    qsort(sorted, entries->count, sizeof *sorted, by_key);
    for (uint32_t i = 0; i < entries->count; i++) {
        write_entry(&text, &sorted[i]);
        text_add(&text, "\n");
    }
    return text.at;
}

// ---- reading ------------------------------------------------------------------------------------

typedef struct {
    Arena *arena;
    const char *why; // the first mistake of the line; NULL: none
} Reader;

static void complain(Reader *r, const char *why) {
    r->why = r->why ? r->why : why;
}

static const json_t *value_of(Reader *r, const json_t *object, Field field) {
    const json_t *value = json_object_get(object, field_names[field]);
    if (!value)
        complain(r, arena_printf(r->arena, "\"%s\" is missing", field_names[field]));
    return value;
}

static const char *read_text(Reader *r, const json_t *object, Field field) {
    const json_t *value = value_of(r, object, field);
    if (!json_is_string(value))
        complain(r, arena_printf(r->arena, "\"%s\" has to be a text", field_names[field]));
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    return arena_strndup(r->arena, text, strlen(text));
}

static double read_number(Reader *r, const json_t *object, Field field) {
    const json_t *value = value_of(r, object, field);
    if (!json_is_number(value))
        complain(r, arena_printf(r->arena, "\"%s\" has to be a number", field_names[field]));
    return json_number_value(value);
}

// Outside of what an int can be is 0, which no entry has.
static int read_whole(Reader *r, const json_t *object, Field field) {
    const json_t *value = value_of(r, object, field);
    if (!json_is_integer(value))
        complain(r, arena_printf(r->arena, "\"%s\" has to be a whole number", field_names[field]));
    json_int_t whole = json_integer_value(value);
    return whole > 0 && whole <= INT32_MAX ? (int)whole : 0;
}

// As it would be written, whatever the order of its keys.
static const char *read_schedule(Reader *r, const json_t *object) {
    const json_t *value = value_of(r, object, FIELD_SCHEDULE);
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    Schedule schedule;
    const char *why;
    bool ok = text && schedule_from_json(r->arena, text, &schedule, &why);
    if (text && !ok)
        complain(r, arena_printf(r->arena, "schedule: %s", why));
    free(text);
    return ok ? schedule_to_json(r->arena, &schedule) : "";
}

static bool is_field(const char *name) {
    int field = 0;
    while (field < N_FIELDS && strcmp(name, field_names[field]) != 0)
        field++;
    return field < N_FIELDS;
}

static TuneEntry read_entry(Reader *r, json_t *object) {
    if (json_object_get(object, "attc_schedules"))
        complain(r, "this is the first line of another text: leave it out");
    TuneEntry entry = {.key = {.group = read_text(r, object, FIELD_GROUP),
                               .extents = read_text(r, object, FIELD_EXTENTS),
                               .target = read_text(r, object, FIELD_TARGET),
                               .machine = read_text(r, object, FIELD_MACHINE),
                               .threads = read_whole(r, object, FIELD_THREADS)},
                       .name = read_text(r, object, FIELD_NAME),
                       .schedule = read_schedule(r, object),
                       .seconds = read_number(r, object, FIELD_SECONDS),
                       .default_seconds = read_number(r, object, FIELD_DEFAULT_SECONDS),
                       .confidence = read_number(r, object, FIELD_CONFIDENCE),
                       .date = read_text(r, object, FIELD_DATE)};
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) if (!is_field(name))
        complain(r, arena_printf(r->arena, "there is no key \"%s\"", name));
    if (!r->why)
        r->why = tune_entry_problem(r->arena, &entry);
    return entry;
}

static void read_head(Reader *r, const json_t *object) {
    const json_t *form = json_object_get(object, "attc_schedules"),
                 *version = json_object_get(object, "schedule_version");
    if (!json_is_integer(form) || !json_is_integer(version) || json_object_size(object) != 2)
        complain(r, arena_printf(r->arena,
                                 "this is no text of schedules, which begins with "
                                 "{\"attc_schedules\": %d, \"schedule_version\": %d}",
                                 FORM, SCHEDULE_VERSION));
    else if (json_integer_value(form) != FORM)
        complain(r, arena_printf(r->arena, "the text is in form %lld; this attc reads form %d",
                                 (long long)json_integer_value(form), FORM));
    else if (json_integer_value(version) != SCHEDULE_VERSION)
        complain(r, arena_printf(r->arena,
                                 "the schedules are of version %lld; this attc has version %d",
                                 (long long)json_integer_value(version), SCHEDULE_VERSION));
}

// An object of one line; NULL after a complaint.
static json_t *load_line(Reader *r, const char *text, size_t length) {
    json_error_t error;
    if (!length)
        complain(r, "the line is empty");
    json_t *object = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        complain(r, arena_printf(r->arena, "column %d: %s", error.column, error.text));
    else if (!json_is_object(object))
        complain(r, "expected an object");
    return object;
}

typedef struct {
    TuneEntry entry;
    uint32_t line;
} Line;
typedef VEC(Line) Lines;

static int by_key_and_line(const void *a, const void *b) {
    const Line *left = a, *right = b;
    int order = tune_key_compare(&left->entry.key, &right->entry.key);
    return order ? order : (left->line > right->line) - (left->line < right->line);
}

// Sorts them; two of one key are a mistake of the later one.
static void take_lines(Reader *r, Lines *lines, TuneEntries *out, uint32_t *line) {
    if (lines->count)
        qsort(lines->at, lines->count, sizeof *lines->at, by_key_and_line);
    for (uint32_t i = 0; i < lines->count && !r->why; i++) {
        const Line *before = i ? &lines->at[i - 1] : NULL, *at = &lines->at[i];
        *line = at->line;
        if (before && !tune_key_compare(&before->entry.key, &at->entry.key))
            complain(r,
                     arena_printf(r->arena, "the entry of line %u has the same key", before->line));
        vec_push(r->arena, out, at->entry);
    }
}

bool tune_entries_from_text(Arena *arena, const char *text, size_t length, TuneEntries *out,
                            uint32_t *line, const char **why) {
    Reader r = {.arena = arena};
    Lines lines = {0};
    const char *end = text + length;
    *line = 0;
    while ((text < end || !*line) && !r.why) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop ? stop : end;
        ++*line;
        json_t *object = load_line(&r, text, (size_t)(stop - text));
        if (!r.why && *line == 1)
            read_head(&r, object);
        else if (!r.why)
            vec_push(arena, &lines, (Line){read_entry(&r, object), *line});
        json_decref(object);
        text = stop < end ? stop + 1 : end;
    }
    if (!r.why)
        take_lines(&r, &lines, out, line);
    *why = r.why;
    return !r.why;
}
