// SPDX-License-Identifier: Apache-2.0
// The default schedule of a streamed group: every plan and every number that schedule/stream.c
// gives is lowered and costed, and the cheapest wins. Candidates live in an arena of their own.
//
// Groups that are equal as one canonical kernel share the choice, so that a layer that is repeated
// is searched once.
#include "tile/lower/lower.h"

// Bytes of scratch that the tasks of all threads may have together, and what a task may have in any
// case: what is larger streams.
enum { SCRATCH_OF_ALL = 48 << 20, SCRATCH_OF_TASK = 8 << 20 };

typedef struct {
    const LowerRequest *request;
    Group *group;
    int64_t room;    // bytes of scratch that a task may have
    int64_t scratch; // of the best so far
} Chooser;

static Kernel *lower_candidate(const Chooser *c, const StreamSchedule *schedule, Lowering *lower,
                               Arena *arena) {
    lower_open(lower, c->request, c->group, arena, arena);
    lower_arguments(lower);
    return lower_stream(lower, schedule) ? lower->kernel : NULL;
}

// Faster, as long as the scratch has room; smaller where it has not.
static bool is_better(const Chooser *c, const StreamSchedule *schedule, int64_t scratch,
                      const StreamSchedule *best) {
    if (best->plan == PLAN_ANY)
        return true;
    if (scratch > c->room || c->scratch > c->room)
        return scratch < c->scratch;
    return schedule->seconds < best->seconds;
}

static void try_schedule(Chooser *c, StreamSchedule schedule, StreamSchedule *best) {
    Arena *arena = arena_new();
    Lowering lower;
    const Machine *machine = c->request->machine;
    Kernel *kernel = lower_candidate(c, &schedule, &lower, arena);
    if (kernel) {
        const int64_t *extents = lower.typical.at;
        int64_t scratch = kernel_scratch_bytes(kernel, extents, NULL);
        schedule.seconds = tile_cost_floor(kernel, extents, machine).parallel_seconds;
        if (is_better(c, &schedule, scratch, best))
            schedule.seconds = tile_cost(NULL, kernel, extents, machine).parallel_seconds;
        if (is_better(c, &schedule, scratch, best)) {
            *best = schedule;
            c->scratch = scratch;
        }
    }
    arena_free(arena);
}

static StreamSchedule search(Chooser *c, const StreamShape *shape) {
    StreamSchedule best = {.plan = PLAN_ANY};
    ScheduleList list = {0};
    Arena *arena = arena_new();
    schedule_enumerate_stream(arena, &c->request->wish.forced, shape, &list);
    for (uint32_t i = 0; i < list.count; i++)
        try_schedule(c, list.at[i].stream, &best);
    arena_free(arena);
    return best;
}

// Of the forced plan, or of all when it is PLAN_ANY; plan PLAN_ANY when the forced one cannot do
// it.
static StreamSchedule cheapest(const LowerRequest *request, Group *group) {
    int64_t share = SCRATCH_OF_ALL / request->machine->threads;
    Chooser c = {.request = request, .group = group};
    c.room = share > SCRATCH_OF_TASK ? share : SCRATCH_OF_TASK;
    const StreamSchedule *forced = &request->wish.forced;
    Arena *arena = arena_new();
    Lowering lower;
    StreamShape shape;
    StreamSchedule canonical = {.plan = PLAN_RESIDENT, .rows = 8};
    Kernel *kernel = lower_candidate(&c, &canonical, &lower, arena);
    stream_shape(&lower, &shape);
    KernelForm key = kernel_form(arena, kernel);
    vec_push(arena, &key, (uint64_t)shape.rows);
    vec_push(arena, &key, (uint64_t)shape.streamed);
    vec_push(arena, &key, forced->plan);
    vec_push(arena, &key, (uint64_t)forced->rows);
    vec_push(arena, &key, (uint64_t)forced->piece);
    void **chosen = form_table_at(request->streams, &key);
    arena_free(arena);
    if (!*chosen) {
        StreamSchedule best = search(&c, &shape);
        *chosen = arena_copy(request->plan->fusion->graph->arena, &best, sizeof best);
    }
    return *(StreamSchedule *)*chosen;
}

StreamSchedule lower_streaming(Lowering *lower) {
    lower->shape.kind = SCHEDULE_STREAM;
    stream_shape(lower, &lower->shape.stream);
    return lower->wanted ? lower->wanted->stream : cheapest(lower->request, lower->group);
}
