// SPDX-License-Identifier: Apache-2.0
// Nests that are cut into tasks: how many by default, which other numbers there are, and the
// pieces.
#include "tile/schedule/schedule.h"

static const double task_seconds = 40e-6; // worth handing to a thread: chosen

// Points that a step of a recurrence works on at least, so that what a step costs beside them does
// not count: chosen.
enum { STEP_POINTS = 512, STEP_TASKS_PER_THREAD = 4 };

TaskSchedule schedule_tasks(const TaskShape *shape, const Machine *machine) {
    if (shape->steps)
        return (TaskSchedule){STEP_TASKS_PER_THREAD * machine->threads, STEP_POINTS};
    double tasks = shape->seconds / task_seconds;
    return (TaskSchedule){.tasks = tasks < 1                    ? 1
                                   : tasks > SCHEDULE_TASKS_MAX ? SCHEDULE_TASKS_MAX
                                                                : (int64_t)tasks};
}

void schedule_enumerate_tasks(Arena *arena, const TaskShape *shape, const Machine *machine,
                              ScheduleList *into) {
    TaskSchedule schedule = schedule_tasks(shape, machine);
    for (schedule.tasks = 1; schedule.tasks <= SCHEDULE_TASKS_MAX; schedule.tasks *= 2) {
        Schedule candidate = {.kind = SCHEDULE_TASKS, .tasks = schedule};
        vec_push(arena, into, candidate);
        candidate.tasks.step_points = INT64_MAX;
        if (shape->steps)
            vec_push(arena, into, candidate);
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
