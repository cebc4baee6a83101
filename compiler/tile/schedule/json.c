// SPDX-License-Identifier: Apache-2.0
// Schedules as JSON, for people and for files: one object of one line.
//
//     {"kind": "contract", "transposed": 0, .., "task_rows": 64, .., "prefetch": "rule",
//      "blocks": []}
//     {"kind": "stream", "plan": "resident", "rows": 24, "piece": 512, "prefetch": "none",
//      "blocks": [{"rows": 12, "cols": 0, "lanes": 32, "sum": 0}]}
//     {"kind": "program", "plan": "unfused", "wide": "cost", "kept": "cost", "layout": "cost",
//      "copies": "size", "plain": 0}
//
// The text of a schedule is always the same, so that equal schedules are equal texts. What is read
// may come from anywhere: only whole numbers in their ranges are taken, and whether a kernel can be
// made so is not known here.
#include <jansson.h>
#include <string.h>

#include "tile/schedule/schedule.h"

enum { PLACES_MAX = 256 };

static const char *const kind_names[] = {[SCHEDULE_NONE] = "none",
                                         [SCHEDULE_TASKS] = "tasks",
                                         [SCHEDULE_CONTRACT] = "contract",
                                         [SCHEDULE_STREAM] = "stream",
                                         [SCHEDULE_PROGRAM] = "program"};
enum { N_KINDS = sizeof kind_names / sizeof *kind_names };

const char *schedule_kind_name(ScheduleKind kind) {
    return kind_names[kind];
}

// ---- writing ------------------------------------------------------------------------------------

static void write_fields(Text *text, const void *record, ScheduleFields fields, bool first) {
    for (int i = 0; i < fields.count; i++) {
        const ScheduleField *field = &fields.at[i];
        int64_t value = schedule_field(record, field);
        text_printf(text, "%s\"%s\": ", first && !i ? "" : ", ", field->name);
        if (field->words)
            text_printf(text, "\"%s\"", field->words[value]);
        else
            text_printf(text, "%lld", (long long)value);
    }
}

const char *schedule_program_text(Arena *arena, const ProgramSchedule *program) {
    Schedule schedule = {.kind = SCHEDULE_PROGRAM, .program = *program};
    ScheduleFields fields = schedule_fields(SCHEDULE_PROGRAM);
    Text text = {.arena = arena};
    for (int i = 0; i < fields.count; i++) {
        const ScheduleField *field = &fields.at[i];
        int64_t chosen = schedule_field(&schedule, field);
        if (chosen)
            text_printf(&text, "%s%s %s", text.length ? ", " : "", field->name,
                        field->words ? field->words[chosen]
                                     : arena_printf(arena, "%lld", (long long)chosen));
    }
    return text.length ? text.at : "by cost";
}

char *schedule_to_json(Arena *arena, const Schedule *schedule) {
    Text text = {.arena = arena};
    text_printf(&text, "{\"kind\": \"%s\"", kind_names[schedule->kind]);
    write_fields(&text, schedule, schedule_fields(schedule->kind), false);
    if (schedule->kind == SCHEDULE_PROGRAM) { // which has no blocks
        text_add(&text, "}");
        return text.at;
    }
    text_add(&text, ", \"blocks\": [");
    for (uint32_t i = 0; i < schedule->blocks.count; i++) {
        text_add(&text, i ? ", {" : "{");
        write_fields(&text, &schedule->blocks.at[i], schedule_block_fields(), true);
        text_add(&text, "}");
    }
    text_add(&text, "]}");
    return text.at;
}

// ---- reading ------------------------------------------------------------------------------------

typedef struct {
    Arena *arena;
    const char *why; // the first thing that is wrong; NULL: nothing
} Reader;

static void complain(Reader *r, const char *why) {
    r->why = r->why ? r->why : why;
}

static const char *keys_text(Reader *r, ScheduleFields fields) {
    Text text = {.arena = r->arena};
    for (int i = 0; i < fields.count; i++)
        text_printf(&text, "%s\"%s\"",
                    !i                     ? ""
                    : i + 1 < fields.count ? ", "
                                           : " and ",
                    fields.at[i].name);
    return text.at;
}

static int64_t read_word(Reader *r, const json_t *value, const ScheduleField *field) {
    const char *word = json_string_value(value);
    Text all = {.arena = r->arena};
    for (int64_t i = field->least; i <= field->most; i++) {
        if (word && !strcmp(word, field->words[i]))
            return i;
        text_printf(&all, "%s%s", i > field->least ? " or " : "", field->words[i]);
    }
    complain(r, arena_printf(r->arena, "\"%s\" has to be %s", field->name, all.at));
    return field->least;
}

static int64_t read_number(Reader *r, const json_t *value, const ScheduleField *field) {
    int64_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < field->least || number > field->most)
        complain(r, arena_printf(r->arena, "\"%s\" has to be a whole number from %lld to %lld",
                                 field->name, (long long)field->least, (long long)field->most));
    return number;
}

static bool is_field(ScheduleFields fields, const char *name) {
    int i = 0;
    while (i < fields.count && strcmp(fields.at[i].name, name) != 0)
        i++;
    return i < fields.count;
}

// Of a schedule that has a key too many, or no blocks.
static void complain_of_key(Reader *r, const json_t *object, ScheduleFields fields, bool blocks) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value) if (!is_field(fields, name) &&
                                                           strcmp(name, "kind") != 0 &&
                                                           !(blocks && !strcmp(name, "blocks")))
        complain(r, arena_printf(r->arena, "there is no key \"%s\" in it", name));
    complain(r, "\"blocks\" is missing");
}

// others: of keys that the object has besides the fields, the kind and perhaps blocks.
static void read_fields(Reader *r, const json_t *object, ScheduleFields fields, size_t others,
                        void *record) {
    size_t keys = (size_t)fields.count + others;
    for (int i = 0; i < fields.count && json_is_object(object); i++)
        if (!json_object_get(object, fields.at[i].name))
            complain(r, arena_printf(r->arena, "\"%s\" is missing", fields.at[i].name));
    bool fits = json_is_object(object) && json_object_size(object) == keys;
    if (!fits && !others)
        complain(
            r, arena_printf(r->arena, "expected an object with the keys %s", keys_text(r, fields)));
    else if (!fits)
        complain_of_key(r, object, fields, others > 1);
    for (int i = 0; i < fields.count && !r->why; i++) {
        const ScheduleField *field = &fields.at[i];
        const json_t *value = json_object_get(object, field->name);
        schedule_field_set(record, field,
                           field->words ? read_word(r, value, field)
                                        : read_number(r, value, field));
    }
}

static void read_numbers(Reader *r, const json_t *object, Schedule *out) {
    const char *name = json_string_value(json_object_get(object, "kind"));
    int kind = 0;
    while (kind < N_KINDS && (!name || strcmp(name, kind_names[kind]) != 0))
        kind++;
    *out = (Schedule){.kind = (ScheduleKind)kind};
    if (kind == N_KINDS)
        complain(r, "\"kind\" has to be none, tasks, contract, stream or program");
    else
        read_fields(r, object, schedule_fields(out->kind), kind == SCHEDULE_PROGRAM ? 1 : 2, out);
}

static void read_blocks(Reader *r, const json_t *list, Schedule *out) {
    if (!json_is_array(list) || json_array_size(list) > PLACES_MAX)
        complain(r, arena_printf(r->arena, "\"blocks\" has to be a list of at most %d objects",
                                 PLACES_MAX));
    for (size_t i = 0; i < json_array_size(list) && !r->why; i++) {
        StageBlocks blocks = {0};
        read_fields(r, json_array_get(list, i), schedule_block_fields(), 0, &blocks);
        if (r->why)
            r->why = arena_printf(r->arena, "block %zu: %s", i + 1, r->why);
        vec_push(r->arena, &out->blocks, blocks);
    }
}

bool schedule_from_json(Arena *arena, const char *text, Schedule *out, const char **why) {
    json_error_t error;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    Reader r = {.arena = arena};
    *out = (Schedule){0};
    if (!json_is_object(object))
        complain(&r, object ? "expected an object" : arena_printf(arena, "%s", error.text));
    if (!r.why)
        read_numbers(&r, object, out);
    if (!r.why && out->kind != SCHEDULE_PROGRAM)
        read_blocks(&r, json_object_get(object, "blocks"), out);
    json_decref(object);
    *why = r.why;
    return !r.why;
}
