// SPDX-License-Identifier: Apache-2.0
// The schedule of a streamed group: every plan and every number that schedule/stream.c gives is
// lowered and costed, and the cheapest wins. Candidates live in an arena of their own.
//
// Groups that are equal as one canonical kernel share the choice, so that a layer that is repeated
// is searched once.
#include "tile/lower/lower.h"

typedef struct {
    const LowerRequest *request;
    Group *group;
} Chooser;

static Kernel *lower_candidate(const Chooser *c, const StreamSchedule *schedule, Lowering *lower,
                               Arena *arena) {
    lower_open(lower, c->request, c->group, arena, arena);
    lower_arguments(lower);
    return lower_stream(lower, schedule) ? lower->kernel : NULL;
}

static void try_schedule(const Chooser *c, StreamSchedule schedule, StreamSchedule *best) {
    Arena *arena = arena_new();
    Lowering lower;
    Kernel *kernel = lower_candidate(c, &schedule, &lower, arena);
    if (kernel) {
        TileCost cost = tile_cost(NULL, kernel, lower.typical.at, c->request->machine);
        schedule.seconds = cost.parallel_seconds;
        if (best->plan == PLAN_ANY || schedule.seconds < best->seconds)
            *best = schedule;
    }
    arena_free(arena);
}

static StreamSchedule search(const Chooser *c, const StreamShape *shape) {
    StreamSchedule best = {.plan = PLAN_ANY};
    StreamScheduleList list = {0};
    Arena *arena = arena_new();
    for (PlanKind plan = PLAN_RESIDENT; plan < N_PLANS; plan++)
        if (c->request->forced == PLAN_ANY || c->request->forced == plan)
            schedule_stream(arena, plan, shape, &list);
    for (uint32_t i = 0; i < list.count; i++)
        try_schedule(c, list.at[i], &best);
    arena_free(arena);
    return best;
}

StreamSchedule lower_choose(const LowerRequest *request, Group *group, Map *known) {
    Chooser c = {request, group};
    Arena *arena = arena_new();
    Lowering lower;
    StreamShape shape;
    StreamSchedule canonical = {.plan = PLAN_RESIDENT, .rows = 8};
    Kernel *kernel = lower_candidate(&c, &canonical, &lower, arena);
    stream_shape(&lower, &shape);
    uint64_t key = hash_u64(kernel_canonical_hash(kernel), (uint64_t)shape.rows);
    key = hash_u64(key, (uint64_t)shape.streamed);
    arena_free(arena);
    StreamSchedule *chosen = map_get(known, key);
    if (chosen)
        return *chosen;
    StreamSchedule best = search(&c, &shape);
    map_put(known, key, arena_copy(request->plan->fusion->graph->arena, &best, sizeof best));
    return best;
}
