// SPDX-License-Identifier: Apache-2.0
// Schedules of any kind: the space of a shape, and which of them are the same.
#include "tile/schedule/schedule.h"

#include <string.h>

ScheduleList schedule_enumerate(Arena *arena, const ScheduleShape *shape, const Machine *machine,
                                const StreamSchedule *wanted) {
    ScheduleList list = {0};
    if (shape->kind == SCHEDULE_TASKS)
        schedule_enumerate_tasks(arena, &shape->tasks, machine, &list);
    else if (shape->kind == SCHEDULE_CONTRACT)
        schedule_enumerate_contract(arena, &shape->contract, machine, &list);
    else if (shape->kind == SCHEDULE_STREAM)
        schedule_enumerate_stream(arena, wanted, &shape->stream, &list);
    return list;
}

bool schedule_same_site(const ScheduleSite *a, const ScheduleSite *b) {
    return a->group == b->group && !strcmp(a->extents, b->extents);
}

bool schedule_same(const Schedule *a, const Schedule *b) {
    if (!schedule_same_numbers(a, b) || a->prefetch != b->prefetch ||
        a->blocks.count != b->blocks.count)
        return false;
    for (uint32_t i = 0; i < a->blocks.count; i++)
        if (!schedule_same_blocks(&a->blocks.at[i], &b->blocks.at[i]))
            return false;
    return true;
}

Schedule schedule_copy(Arena *arena, const Schedule *schedule) {
    Schedule out = *schedule;
    out.blocks = (StageBlocksList){0};
    for (uint32_t i = 0; i < schedule->blocks.count; i++)
        vec_push(arena, &out.blocks, schedule->blocks.at[i]);
    return out;
}
