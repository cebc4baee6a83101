// SPDX-License-Identifier: Apache-2.0
// Nests that are cut into tasks: how many by default, which other numbers there are, and the
// pieces.
#include "tile/schedule/schedule.h"

static const double task_seconds = 40e-6; // worth handing to a thread: chosen

// Points that a step of a recurrence works on at least, so that what a step costs beside them does
// not count: chosen.
enum { STEP_POINTS = 512, STEP_TASKS_PER_THREAD = 4 };

TaskSchedule schedule_tasks(const TaskShape *shape, const Machine *machine) {
    double tasks =
        shape->steps ? STEP_TASKS_PER_THREAD * machine->threads : shape->seconds / task_seconds;
    return (TaskSchedule){.tasks = tasks < 1                    ? 1
                                   : tasks > SCHEDULE_TASKS_MAX ? SCHEDULE_TASKS_MAX
                                                                : (int64_t)tasks,
                          .step_points = shape->steps ? STEP_POINTS : 0,
                          .rows = shape->steps ? 0 : shape->rows.kept};
}

// Beside as many rows as L1 keeps: the fewest times powers of two, and the most.
int schedule_row_blocks(const RowBlocks *rows, int32_t blocks[ROW_BLOCKS_MAX]) {
    int count = 0;
    blocks[count++] = rows->kept;
    for (int32_t block = rows->least; block < rows->most; block *= 2)
        if (block != rows->kept)
            blocks[count++] = block;
    if (rows->most != rows->kept)
        blocks[count++] = rows->most;
    return count;
}

void schedule_enumerate_rows(Arena *arena, const TaskShape *shape, Schedule of,
                             ScheduleList *into) {
    int32_t blocks[ROW_BLOCKS_MAX];
    int count = schedule_row_blocks(&shape->rows, blocks);
    for (int i = 0; i < count; i++) {
        of.tasks.rows = blocks[i];
        vec_push(arena, into, of);
    }
}

bool schedule_fits_tasks(const TaskShape *shape, const TaskSchedule *tasks) {
    const RowBlocks *rows = &shape->rows;
    bool steps = shape->steps ? tasks->step_points == STEP_POINTS || tasks->step_points == INT64_MAX
                              : tasks->step_points == 0;
    bool block = rows->kept ? tasks->rows >= rows->least && tasks->rows <= rows->most &&
                                  tasks->rows % rows->least == 0
                            : tasks->rows == 0;
    return steps && block && tasks->tasks >= 1 && tasks->tasks <= SCHEDULE_TASKS_MAX;
}

void schedule_enumerate_tasks(Arena *arena, const TaskShape *shape, const Machine *machine,
                              ScheduleList *into) {
    Schedule candidate = {.kind = SCHEDULE_TASKS, .tasks = schedule_tasks(shape, machine)};
    int64_t step_points = candidate.tasks.step_points;
    schedule_enumerate_rows(arena, shape, candidate, into);
    for (int64_t tasks = 1; tasks <= SCHEDULE_TASKS_MAX; tasks *= 2) {
        candidate.tasks.tasks = tasks;
        candidate.tasks.step_points = step_points;
        schedule_enumerate_rows(arena, shape, candidate, into);
        candidate.tasks.step_points = INT64_MAX;
        if (shape->steps)
            schedule_enumerate_rows(arena, shape, candidate, into);
    }
}

void schedule_pieces(const TileDimList *dims, const int64_t *typical, int64_t points,
                     const TaskSchedule *schedule, int64_t *steps) {
    int64_t chunk = ceil_div(points, schedule->tasks);
    chunk = chunk < 1 ? 1 : chunk;
    for (int i = dims->count; i-- > 0;) {
        int64_t extent = typical[dims->at[i]];
        steps[i] = equal_piece(extent, chunk, i == dims->count - 1 ? 16 : 1);
        chunk = chunk > extent ? chunk / extent : 1;
    }
}
