// SPDX-License-Identifier: Apache-2.0
// The numbers and words of schedules: what they are called, where they are, and what they may be.
// JSON, equality and distance go through these lists.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "tile/schedule/schedule.h"

#define OF(record, member) offsetof(record, member), sizeof((record *)0)->member
#define NUMBER(member, name, least, most) {name, OF(Schedule, member), least, most, 0, NULL}
#define FLAG(member, name) {name, OF(Schedule, member), 0, 1, 1, NULL}
#define BLOCK(member, most) {#member, OF(StageBlocks, member), 0, most, 0, NULL}
#define COUNT(list) (sizeof(list) / sizeof *(list))
#define WORDS(member, name, list) {name, OF(Schedule, member), 0, COUNT(list) - 1, 1, list}

static const char *const prefetch_words[N_PREFETCHES] = {
    [PREFETCH_BY_RULE] = "rule", [PREFETCH_NONE] = "none"};
// Of kernels of all kinds, chosen with blocks: the last one, and no number.
#define PREFETCH WORDS(prefetch, "prefetch", prefetch_words)
static const ScheduleField of_none[] = {PREFETCH};
static const ScheduleField of_tasks[] = {
    NUMBER(tasks.tasks, "tasks", 1, 1 << 20),
    {"step_points", OF(Schedule, tasks.step_points), 0, INT64_MAX, 1, NULL},
    NUMBER(tasks.rows, "rows", 0, 1024),
    PREFETCH,
};
static const ScheduleField of_contract[] = {
    FLAG(contract.axes.transposed, "transposed"),
    FLAG(contract.axes.contiguous_rows, "contiguous_rows"),
    NUMBER(contract.task_batch, "task_batch", 1, EXTENT_MAX),
    NUMBER(contract.task_rows, "task_rows", 1, EXTENT_MAX),
    NUMBER(contract.task_lanes, "task_lanes", 1, EXTENT_MAX),
    NUMBER(contract.block_k, "block_k", 1, EXTENT_MAX),
    NUMBER(contract.block_rows, "block_rows", 1, EXTENT_MAX),
    NUMBER(contract.row_block, "row_block", 1, 1024),
    NUMBER(contract.lane_block, "lane_block", 1, 4096),
    FLAG(contract.pack_a, "pack_a"),
    FLAG(contract.pack_b, "pack_b"),
    PREFETCH,
};
static const ScheduleField of_stream[] = {
    {"plan", OF(Schedule, stream.plan), PLAN_RESIDENT, N_PLANS - 1, 2, plan_names},
    NUMBER(stream.rows, "rows", 1, EXTENT_MAX),
    NUMBER(stream.piece, "piece", 1, EXTENT_MAX),
    PREFETCH,
};
static const char *const wide_words[N_WIDES] = {
    [WIDE_BY_COST] = "cost", [WIDE_AGAIN] = "again", [WIDE_STORED] = "stored"};
static const char *const kept_words[N_KEPTS] = {[KEPT_BY_COST] = "cost", [KEPT_ALL] = "all"};
static const char *const layout_words[N_LAYOUTS] = {
    [LAYOUT_BY_COST] = "cost", [LAYOUT_PLAIN] = "plain"};
static const char *const copy_words[N_COPIES] = {
    [COPIES_BY_SIZE] = "size", [COPIES_ONCE] = "once", [COPIES_EACH] = "each"};
static const ScheduleField of_program[] = {
    {"plan", OF(Schedule, program.plan), PLAN_ANY, PLAN_UNFUSED, 1, plan_names},
    WORDS(program.wide, "wide", wide_words),
    WORDS(program.kept, "kept", kept_words),
    WORDS(program.layout, "layout", layout_words),
    WORDS(program.copies, "copies", copy_words),
    NUMBER(program.plain, "plain", 0, (1 << PLAIN_MOST) - 1),
};
static const ScheduleField of_blocks[] = {
    BLOCK(rows, 1024),
    BLOCK(cols, 1024),
    BLOCK(lanes, 4096),
    BLOCK(sum, EXTENT_MAX),
};

#define LIST(of) ((ScheduleFields){of, COUNT(of), COUNT(of)})
#define LIST_OF_KERNEL(of) ((ScheduleFields){of, COUNT(of), COUNT(of) - 1})

ScheduleFields schedule_fields(ScheduleKind kind) {
    switch (kind) {
    case SCHEDULE_TASKS:
        return LIST_OF_KERNEL(of_tasks);
    case SCHEDULE_CONTRACT:
        return LIST_OF_KERNEL(of_contract);
    case SCHEDULE_STREAM:
        return LIST_OF_KERNEL(of_stream);
    case SCHEDULE_PROGRAM:
        return LIST(of_program);
    case SCHEDULE_NONE:
        break;
    }
    return LIST_OF_KERNEL(of_none);
}

ScheduleFields schedule_block_fields(void) {
    return LIST(of_blocks);
}

// ---- values: of integers, flags and enumerations ------------------------------------------------

int64_t schedule_field(const void *record, const ScheduleField *field) {
    const char *at = (const char *)record + field->offset;
    int64_t value = 0;
    int32_t narrow = 0;
    if (field->size == sizeof value)
        return memcpy(&value, at, sizeof value), value;
    if (field->size == sizeof narrow)
        return memcpy(&narrow, at, sizeof narrow), narrow;
    return *(const bool *)at;
}

void schedule_field_set(void *record, const ScheduleField *field, int64_t value) {
    char *at = (char *)record + field->offset;
    int32_t narrow = (int32_t)value;
    if (field->size == sizeof value)
        memcpy(at, &value, sizeof value);
    else if (field->size == sizeof narrow)
        memcpy(at, &narrow, sizeof narrow);
    else
        *(bool *)at = value;
}

// ---- what is the same, and how far others are apart ---------------------------------------------

static bool same_fields(const void *a, const void *b, ScheduleFields fields) {
    int i = 0;
    while (i < fields.numbers &&
           schedule_field(a, &fields.at[i]) == schedule_field(b, &fields.at[i]))
        i++;
    return i == fields.numbers;
}

bool schedule_same_numbers(const Schedule *a, const Schedule *b) {
    return a->kind == b->kind && same_fields(a, b, schedule_fields(a->kind));
}

bool schedule_same_program(const ProgramSchedule *a, const ProgramSchedule *b) {
    Schedule x = {.kind = SCHEDULE_PROGRAM, .program = *a}, y = {x.kind, .program = *b};
    return schedule_same_numbers(&x, &y);
}

bool schedule_same_blocks(const StageBlocks *a, const StageBlocks *b) {
    return same_fields(a, b, LIST(of_blocks));
}

double schedule_distance(const Schedule *a, const Schedule *b) {
    ScheduleFields fields = schedule_fields(a->kind);
    double far = 0;
    for (int i = 0; i < fields.numbers; i++) {
        const ScheduleField *field = &fields.at[i];
        int64_t x = schedule_field(a, field), y = schedule_field(b, field);
        if (field->apart)
            far += x != y ? field->apart : 0;
        else
            far += fabs(log2((double)(x > 0 ? x : 1) / (double)(y > 0 ? y : 1)));
    }
    return far;
}
