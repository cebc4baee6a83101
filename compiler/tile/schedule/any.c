// SPDX-License-Identifier: Apache-2.0
// Schedules of any kind: the space of a shape, and which of them are the same.
#include "tile/schedule/schedule.h"

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

bool schedule_same_numbers(const Schedule *a, const Schedule *b) {
    const ContractSchedule *x = &a->contract, *y = &b->contract;
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case SCHEDULE_TASKS:
        return a->tasks.tasks == b->tasks.tasks && a->tasks.step_points == b->tasks.step_points;
    case SCHEDULE_CONTRACT:
        return x->axes.transposed == y->axes.transposed &&
               x->axes.contiguous_rows == y->axes.contiguous_rows &&
               x->task_batch == y->task_batch && x->task_rows == y->task_rows &&
               x->task_lanes == y->task_lanes && x->block_k == y->block_k &&
               x->block_rows == y->block_rows && x->row_block == y->row_block &&
               x->lane_block == y->lane_block && x->pack_a == y->pack_a && x->pack_b == y->pack_b;
    case SCHEDULE_STREAM:
        return a->stream.plan == b->stream.plan && a->stream.rows == b->stream.rows &&
               a->stream.piece == b->stream.piece;
    case SCHEDULE_PROGRAM:
        return schedule_same_program(&a->program, &b->program);
    case SCHEDULE_NONE:
        break;
    }
    return true;
}

bool schedule_same_blocks(const StageBlocks *a, const StageBlocks *b) {
    return a->rows == b->rows && a->cols == b->cols && a->lanes == b->lanes && a->sum == b->sum;
}

bool schedule_same(const Schedule *a, const Schedule *b) {
    if (!schedule_same_numbers(a, b) || a->blocks.count != b->blocks.count)
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
