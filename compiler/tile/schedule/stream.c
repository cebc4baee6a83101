// SPDX-License-Identifier: Apache-2.0
// Schedules of streamed groups: rows of a task and pieces of the streamed dim.
//
// More rows read what is streamed past (K and V) less often, and want more cache for the wide
// values; pieces bound what these want. Row counts are multiples of what microkernels like: 8 and
// 12; the others, and pieces, are about a factor of two apart. Nothing depends on the number of
// threads, so results do not either.
#include "tile/schedule/schedule.h"

static const int64_t row_counts[] = {1, 2, 4, 8, 12, 24, 36, 48, 72, 96, 144, 192};
static const int64_t pieces[] = {64, 128, 256, 512, 1024};
enum { N_ROWS = sizeof row_counts / sizeof *row_counts, N_PIECES = sizeof pieces / sizeof *pieces };

static void add_schedule(Arena *arena, PlanKind plan, int64_t rows, int64_t piece,
                         ScheduleList *into) {
    for (uint32_t i = 0; i < into->count; i++) {
        const StreamSchedule *known = &into->at[i].stream;
        if (known->plan == plan && known->rows == rows && known->piece == piece)
            return;
    }
    StreamSchedule stream = {.plan = plan, .rows = rows, .piece = piece};
    vec_push(arena, into, (Schedule){.kind = SCHEDULE_STREAM, .stream = stream});
}

static void enumerate_plan(Arena *arena, const StreamSchedule *wanted, const StreamShape *shape,
                           ScheduleList *into) {
    const int64_t *rows_of = wanted->rows ? &wanted->rows : row_counts;
    const int64_t *piece_of = wanted->piece ? &wanted->piece : pieces;
    for (int r = 0; r < (wanted->rows ? 1 : N_ROWS); r++) {
        int64_t rows = rows_of[r] < shape->rows ? rows_of[r] : shape->rows;
        if (wanted->plan == PLAN_RESIDENT) {
            add_schedule(arena, wanted->plan, rows, shape->streamed, into);
            continue;
        }
        for (int p = 0; p < (wanted->piece ? 1 : N_PIECES); p++) {
            int64_t piece = piece_of[p] < shape->unit ? shape->unit : piece_of[p];
            add_schedule(arena, wanted->plan, rows,
                         piece < shape->streamed ? piece : shape->streamed, into);
        }
        if (!wanted->piece)
            add_schedule(arena, wanted->plan, rows, shape->streamed, into);
    }
}

void schedule_enumerate_stream(Arena *arena, const StreamSchedule *wanted, const StreamShape *shape,
                               ScheduleList *into) {
    for (PlanKind plan = PLAN_RESIDENT; plan < N_PLANS; plan++)
        if (wanted->plan == PLAN_ANY || wanted->plan == plan) {
            StreamSchedule of_plan = {plan, wanted->rows, wanted->piece, 0};
            enumerate_plan(arena, &of_plan, shape, into);
        }
}
