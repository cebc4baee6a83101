// SPDX-License-Identifier: Apache-2.0
// How far schedules are from each other.
#include <math.h>

#include "tune/tune.h"

static double log_ratio(int64_t a, int64_t b) {
    return fabs(log2((double)(a > 0 ? a : 1) / (double)(b > 0 ? b : 1)));
}

double tune_distance(const Schedule *a, const Schedule *b) {
    const ContractSchedule *x = &a->contract, *y = &b->contract;
    switch (a->kind) {
    case SCHEDULE_TASKS:
        return log_ratio(a->tasks.tasks, b->tasks.tasks) +
               (a->tasks.step_points != b->tasks.step_points);
    case SCHEDULE_CONTRACT:
        return (x->axes.transposed != y->axes.transposed) +
               (x->axes.contiguous_rows != y->axes.contiguous_rows) +
               log_ratio(x->task_batch, y->task_batch) + log_ratio(x->task_rows, y->task_rows) +
               log_ratio(x->task_lanes, y->task_lanes) + log_ratio(x->block_k, y->block_k) +
               log_ratio(x->block_rows, y->block_rows) + log_ratio(x->row_block, y->row_block) +
               log_ratio(x->lane_block, y->lane_block) + (x->pack_a != y->pack_a) +
               (x->pack_b != y->pack_b);
    case SCHEDULE_STREAM:
        return log_ratio(a->stream.rows, b->stream.rows) +
               log_ratio(a->stream.piece, b->stream.piece) + 2 * (a->stream.plan != b->stream.plan);
    case SCHEDULE_PROGRAM:
        return !schedule_same_program(&a->program, &b->program);
    case SCHEDULE_NONE:
        break;
    }
    return 0;
}

// Places whose blocks differ, after those that both have.
static double differing_blocks(const Schedule *a, const Schedule *b) {
    double count = 0;
    for (uint32_t i = 0; i < a->blocks.count && i < b->blocks.count; i++)
        count += !schedule_same_blocks(&a->blocks.at[i], &b->blocks.at[i]);
    return count;
}

uint32_t tune_nearest(const ScheduleList *space, const Schedule *wanted) {
    uint32_t nearest = 0;
    double least = INFINITY;
    for (uint32_t i = 0; i < space->count; i++) {
        const Schedule *s = &space->at[i];
        double far = s->kind == wanted->kind
                         ? tune_distance(s, wanted) + differing_blocks(s, wanted)
                         : INFINITY;
        if (far < least) {
            least = far;
            nearest = i;
        }
    }
    return nearest;
}
