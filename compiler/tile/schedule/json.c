// SPDX-License-Identifier: Apache-2.0
// Schedules as JSON, for people and for files: one object of one line.
//
//     {"kind": "contract", "transposed": 0, .., "task_rows": 64, .., "blocks": []}
//     {"kind": "stream", "plan": "resident", "rows": 24, "piece": 512,
//      "blocks": [{"rows": 12, "cols": 0, "lanes": 32, "sum": 0}]}
//     {"kind": "program", "plan": "unfused", "wide": "cost", "kept": "cost", "layout": "cost",
//      "copies": "size"}
//
// The text of a schedule is always the same, so that equal schedules are equal texts. What is read
// may come from anywhere: only whole numbers in their ranges are taken, and whether a kernel can be
// made so is not known here.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tile/tile.h"

typedef struct {
    const char *name;
    int64_t least, most;
} Field;

enum {
    TASK_FIELDS = 2,
    CONTRACT_FIELDS = 11,
    STREAM_FIELDS = 2,
    BLOCK_FIELDS = 4,
    FIELDS_MAX = 11
};
static const Field task_fields[TASK_FIELDS] = {{"tasks", 1, 1 << 20},
                                               {"step_points", 0, INT64_MAX}};
static const Field contract_fields[CONTRACT_FIELDS] = {{"transposed", 0, 1},
                                                       {"contiguous_rows", 0, 1},
                                                       {"task_batch", 1, EXTENT_MAX},
                                                       {"task_rows", 1, EXTENT_MAX},
                                                       {"task_lanes", 1, EXTENT_MAX},
                                                       {"block_k", 1, EXTENT_MAX},
                                                       {"block_rows", 1, EXTENT_MAX},
                                                       {"row_block", 1, 1024},
                                                       {"lane_block", 1, 4096},
                                                       {"pack_a", 0, 1},
                                                       {"pack_b", 0, 1}};
static const Field stream_fields[STREAM_FIELDS] = {{"rows", 1, EXTENT_MAX},
                                                   {"piece", 1, EXTENT_MAX}};
static const Field block_fields[BLOCK_FIELDS] = {
    {"rows", 0, 1024}, {"cols", 0, 1024}, {"lanes", 0, 4096}, {"sum", 0, EXTENT_MAX}};
enum { PLACES_MAX = 256 };

static const char *const kind_names[] = {[SCHEDULE_NONE] = "none",
                                         [SCHEDULE_TASKS] = "tasks",
                                         [SCHEDULE_CONTRACT] = "contract",
                                         [SCHEDULE_STREAM] = "stream",
                                         [SCHEDULE_PROGRAM] = "program"};
enum { N_KINDS = sizeof kind_names / sizeof *kind_names };

// The decisions of a program, each one of some words. Texts from before the last one lack it, and
// mean its first word.
enum { WORDS_MAX = 3, PROGRAM_FIELDS = 5 };
typedef struct {
    const char *name, *words[WORDS_MAX + 1];
} WordField;
static const WordField program_fields[PROGRAM_FIELDS] = {
    {"plan", {[PLAN_ANY] = "any", [PLAN_UNFUSED] = "unfused"}},
    {"wide", {[WIDE_BY_COST] = "cost", [WIDE_AGAIN] = "again", [WIDE_STORED] = "stored"}},
    {"kept", {[KEPT_BY_COST] = "cost", [KEPT_ALL] = "all"}},
    {"layout", {[LAYOUT_BY_COST] = "cost", [LAYOUT_PLAIN] = "plain"}},
    {"copies", {[COPIES_BY_SIZE] = "size", [COPIES_ONCE] = "once", [COPIES_EACH] = "each"}},
};

const char *schedule_kind_name(ScheduleKind kind) {
    return kind_names[kind];
}

// ---- writing ------------------------------------------------------------------------------------

static void write_fields(Text *text, const Field *fields, const int64_t *values, int count) {
    for (int i = 0; i < count; i++)
        text_printf(text, "%s\"%s\": %lld", i ? ", " : "", fields[i].name, (long long)values[i]);
}

static int chosen_word(const ProgramSchedule *p, int field) {
    return (const int[PROGRAM_FIELDS]){p->plan, p->wide, p->kept, p->layout, p->copies}[field];
}

static void write_program(Text *text, const ProgramSchedule *p) {
    for (int i = 0; i < PROGRAM_FIELDS; i++)
        text_printf(text, ", \"%s\": \"%s\"", program_fields[i].name,
                    program_fields[i].words[chosen_word(p, i)]);
}

const char *schedule_program_text(Arena *arena, const ProgramSchedule *program) {
    Text text = {.arena = arena};
    for (int i = 0; i < PROGRAM_FIELDS; i++)
        if (chosen_word(program, i))
            text_printf(&text, "%s%s %s", text.length ? ", " : "", program_fields[i].name,
                        program_fields[i].words[chosen_word(program, i)]);
    return text.length ? text.at : "by cost";
}

static void write_numbers(Text *text, const Schedule *s) {
    const ContractSchedule *c = &s->contract;
    switch (s->kind) {
    case SCHEDULE_NONE:
        return;
    case SCHEDULE_TASKS:
        text_add(text, ", ");
        write_fields(text, task_fields, (int64_t[]){s->tasks.tasks, s->tasks.step_points},
                     TASK_FIELDS);
        return;
    case SCHEDULE_CONTRACT:
        text_add(text, ", ");
        write_fields(text, contract_fields,
                     (int64_t[]){c->axes.transposed, c->axes.contiguous_rows, c->task_batch,
                                 c->task_rows, c->task_lanes, c->block_k, c->block_rows,
                                 c->row_block, c->lane_block, c->pack_a, c->pack_b},
                     CONTRACT_FIELDS);
        return;
    case SCHEDULE_STREAM:
        text_printf(text, ", \"plan\": \"%s\", ", plan_name(s->stream.plan));
        write_fields(text, stream_fields, (int64_t[]){s->stream.rows, s->stream.piece},
                     STREAM_FIELDS);
        return;
    case SCHEDULE_PROGRAM:
        write_program(text, &s->program);
        return;
    }
}

char *schedule_to_json(Arena *arena, const Schedule *schedule) {
    Text text = {.arena = arena};
    text_printf(&text, "{\"kind\": \"%s\"", kind_names[schedule->kind]);
    write_numbers(&text, schedule);
    if (schedule->kind == SCHEDULE_PROGRAM) { // which has no blocks
        text_add(&text, "}");
        return text.at;
    }
    text_add(&text, ", \"blocks\": [");
    for (uint32_t i = 0; i < schedule->blocks.count; i++) {
        const StageBlocks *b = &schedule->blocks.at[i];
        text_add(&text, i ? ", {" : "{");
        write_fields(&text, block_fields, (int64_t[]){b->rows, b->cols, b->lanes, b->sum},
                     BLOCK_FIELDS);
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

static const char *keys_text(Reader *r, const Field *fields, int count) {
    Text text = {.arena = r->arena};
    for (int i = 0; i < count; i++)
        text_printf(&text, "%s\"%s\"", !i ? "" : i + 1 < count ? ", " : " and ", fields[i].name);
    return text.at;
}

// others: of keys that the object has besides the fields.
static void read_fields(Reader *r, const json_t *object, const Field *fields, int count,
                        size_t others, int64_t *values) {
    for (int i = 0; i < count && json_is_object(object); i++)
        if (!json_object_get(object, fields[i].name))
            complain(r, arena_printf(r->arena, "\"%s\" is missing", fields[i].name));
    bool fits = json_is_object(object) && json_object_size(object) == (size_t)count + others;
    if (!fits && !others)
        complain(r, arena_printf(r->arena, "expected an object with the keys %s",
                                 keys_text(r, fields, count)));
    else if (!fits)
        complain(r, arena_printf(r->arena, "expected an object with %zu keys", count + others));
    for (int i = 0; i < count && !r->why; i++) {
        const json_t *value = json_object_get(object, fields[i].name);
        values[i] = json_integer_value(value);
        if (!json_is_integer(value) || values[i] < fields[i].least || values[i] > fields[i].most)
            complain(r, arena_printf(r->arena, "\"%s\" has to be a whole number from %lld to %lld",
                                     fields[i].name, (long long)fields[i].least,
                                     (long long)fields[i].most));
    }
}

static void read_stream(Reader *r, const json_t *object, Schedule *out) {
    int64_t v[FIELDS_MAX] = {0};
    const char *name = json_string_value(json_object_get(object, "plan"));
    PlanKind plan = PLAN_RESIDENT;
    while (plan < N_PLANS && (!name || strcmp(name, plan_name(plan)) != 0))
        plan++;
    if (plan == N_PLANS)
        complain(r, "\"plan\" has to be the name of a plan");
    read_fields(r, object, stream_fields, STREAM_FIELDS, 3, v);
    out->stream = (StreamSchedule){.plan = plan, .rows = v[0], .piece = v[1]};
}

static int read_word(Reader *r, const json_t *object, const WordField *field) {
    const char *word = json_string_value(json_object_get(object, field->name));
    Text all = {.arena = r->arena};
    for (int i = 0; field->words[i]; i++) {
        if (word && !strcmp(word, field->words[i]))
            return i;
        text_printf(&all, "%s%s", i ? " or " : "", field->words[i]);
    }
    complain(r, arena_printf(r->arena, "\"%s\" has to be %s", field->name, all.at));
    return 0;
}

static void read_program(Reader *r, const json_t *object, Schedule *out) {
    bool older = json_object_size(object) == PROGRAM_FIELDS; // with the kind
    int v[PROGRAM_FIELDS] = {0}, count = older ? PROGRAM_FIELDS - 1 : PROGRAM_FIELDS;
    read_fields(r, object, NULL, 0, (size_t)count + 1, NULL);
    for (int i = 0; i < count; i++)
        v[i] = read_word(r, object, &program_fields[i]);
    out->program = (ProgramSchedule){(PlanKind)v[0], (WideChoice)v[1], (KeptChoice)v[2],
                                     (LayoutChoice)v[3], (CopyChoice)v[4]};
}

static void read_contract(Reader *r, const json_t *object, Schedule *out) {
    int64_t v[FIELDS_MAX] = {0};
    read_fields(r, object, contract_fields, CONTRACT_FIELDS, 2, v);
    out->contract = (ContractSchedule){.axes = {v[0], v[1]},
                                       .task_batch = v[2],
                                       .task_rows = v[3],
                                       .task_lanes = v[4],
                                       .block_k = v[5],
                                       .block_rows = v[6],
                                       .row_block = (int32_t)v[7],
                                       .lane_block = (int32_t)v[8],
                                       .pack_a = v[9],
                                       .pack_b = v[10]};
}

static void read_numbers(Reader *r, const json_t *object, Schedule *out) {
    int64_t v[FIELDS_MAX] = {0};
    const char *name = json_string_value(json_object_get(object, "kind"));
    int kind = 0;
    while (kind < N_KINDS && (!name || strcmp(name, kind_names[kind]) != 0))
        kind++;
    *out = (Schedule){.kind = (ScheduleKind)kind};
    switch (kind) {
    case SCHEDULE_NONE:
        read_fields(r, object, NULL, 0, 2, v);
        return;
    case SCHEDULE_TASKS:
        read_fields(r, object, task_fields, TASK_FIELDS, 2, v);
        out->tasks = (TaskSchedule){v[0], v[1]};
        return;
    case SCHEDULE_CONTRACT:
        read_contract(r, object, out);
        return;
    case SCHEDULE_STREAM:
        read_stream(r, object, out);
        return;
    case SCHEDULE_PROGRAM:
        read_program(r, object, out);
        return;
    default:
        complain(r, "\"kind\" has to be none, tasks, contract, stream or program");
    }
}

static void read_blocks(Reader *r, const json_t *list, Schedule *out) {
    if (!json_is_array(list) || json_array_size(list) > PLACES_MAX)
        complain(r, arena_printf(r->arena, "\"blocks\" has to be a list of at most %d objects",
                                 PLACES_MAX));
    for (size_t i = 0; i < json_array_size(list) && !r->why; i++) {
        int64_t v[FIELDS_MAX] = {0};
        read_fields(r, json_array_get(list, i), block_fields, BLOCK_FIELDS, 0, v);
        StageBlocks blocks = {(int32_t)v[0], (int32_t)v[1], (int32_t)v[2], v[3]};
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
