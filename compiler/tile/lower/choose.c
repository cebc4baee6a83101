// SPDX-License-Identifier: Apache-2.0
// The default schedule of a streamed group: every plan and every number that schedule/stream.c
// gives is lowered and costed, and the cheapest wins; where it wants much scratch, the cheapest of
// those that want far less, if that costs about as much. Candidates live in an arena of their own.
//
// That of a contraction kernel: likewise of those that the model of schedule/contract_model.c finds
// nearly as fast as its fastest. The model knows one summed dim and no prologue.
//
// That of rows: the cheapest of all blocks of them, with the default tasks.
//
// Groups that are equal as one canonical kernel share the choice, so that a layer that is repeated
// is searched once.
#include "tile/lower/lower.h"

#include <math.h>

#include "tile/schedule/schedule.h"

// Bytes of scratch that the tasks of all threads may have together, what a task may have in any
// case, and what it may have at most: what is larger streams. A schedule of FAR_LESS than the
// fastest wants is preferred to that, if FAR_LESS of it is still MUCH and times differ by no more
// than ABOUT, which is what predictions are good for. Chosen.
enum {
    SCRATCH_OF_ALL = 128 << 20,
    SCRATCH_OF_TASK = 8 << 20,
    TASK_MOST = 64 << 20,
    MUCH_OF_ALL = 24 << 20
};
static const double ABOUT = 1.015, FAR_LESS = 0.75;

int64_t schedule_scratch_room(const Machine *machine) {
    int64_t share = SCRATCH_OF_ALL / machine->threads;
    return clamp(share, SCRATCH_OF_TASK, TASK_MOST);
}

// Of run time those are not in a kernel's form.
static void add_typical(KernelForm *form, const Lowering *lower, Arena *arena) {
    for (uint32_t d = 0; d < lower->typical.count; d++)
        vec_push(arena, form, (uint64_t)lower->typical.at[d]);
}

typedef struct {
    StreamSchedule schedule; // with its time; plan PLAN_ANY: none
    int64_t scratch;         // bytes of a task
} Costed;

typedef struct {
    const LowerRequest *request;
    Group *group;
    Arena *arena;
    int64_t room, much;  // bytes of scratch that a task may have, and that are not counted
    Costed fastest;      // of those that fit, or else the smallest
    VEC(Costed) further; // may be about as fast
} Chooser;

static Kernel *lower_candidate(const Chooser *c, const StreamSchedule *schedule, Lowering *lower,
                               Arena *arena) {
    lower_open(lower, c->request, c->group, arena, arena);
    lower_arguments(lower);
    return lower_stream(lower, schedule) ? lower->kernel : NULL;
}

// Faster, as long as the scratch has room; smaller where it has not. tolerance: how much longer it
// may take all the same.
static bool is_better(const Chooser *c, const Costed *candidate, double tolerance) {
    const Costed *fastest = &c->fastest;
    if (fastest->schedule.plan == PLAN_ANY)
        return true;
    if (candidate->scratch > c->room || fastest->scratch > c->room)
        return candidate->scratch < fastest->scratch;
    return candidate->schedule.seconds < fastest->schedule.seconds * tolerance;
}

static void try_schedule(Chooser *c, StreamSchedule schedule) {
    Arena *arena = arena_new();
    Lowering lower;
    const Machine *machine = c->request->machine;
    Kernel *kernel = lower_candidate(c, &schedule, &lower, arena);
    if (kernel) {
        const int64_t *extents = lower.typical.at;
        Costed candidate = {schedule, kernel_scratch_bytes(kernel, extents, NULL)};
        double *seconds = &candidate.schedule.seconds;
        *seconds = tile_cost_floor(kernel, extents, machine).parallel_seconds;
        if (is_better(c, &candidate, ABOUT))
            *seconds = tile_cost(NULL, kernel, extents, machine).parallel_seconds;
        if (is_better(c, &candidate, ABOUT))
            vec_push(c->arena, &c->further, candidate);
        if (is_better(c, &candidate, 1))
            c->fastest = candidate;
    }
    arena_free(arena);
}

static StreamSchedule search(Chooser *c, const StreamShape *shape) {
    ScheduleList list = {0};
    c->arena = arena_new();
    schedule_enumerate_stream(c->arena, &c->request->wish.forced, shape, &list);
    for (uint32_t i = 0; i < list.count; i++)
        try_schedule(c, list.at[i].stream);
    const Costed *best = &c->fastest;
    int64_t far_less = (int64_t)(FAR_LESS * (double)c->fastest.scratch);
    for (uint32_t i = 0; i < c->further.count && far_less >= c->much; i++) {
        const Costed *other = &c->further.at[i];
        bool first = best == &c->fastest;
        if (other->scratch <= far_less && is_better(c, other, ABOUT) &&
            (first || other->schedule.seconds < best->schedule.seconds))
            best = other;
    }
    StreamSchedule found = best->schedule;
    arena_free(c->arena);
    return found;
}

// Of the forced plan, or of all when it is PLAN_ANY; plan PLAN_ANY when the forced one cannot do
// it.
static StreamSchedule cheapest(const LowerRequest *request, Group *group) {
    Chooser c = {.request = request, .group = group, .fastest.schedule.plan = PLAN_ANY};
    c.room = schedule_scratch_room(request->machine);
    c.much = MUCH_OF_ALL / request->machine->threads;
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
    add_typical(&key, &lower, arena);
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
    return lower_takes_wanted(lower) ? lower->wanted->stream
                                     : cheapest(lower->request, lower->group);
}

// ---- the fastest of a list ----

// What it is compared by. Other axes than the default ones are taken where they promise more than
// predictions of both differ by (layers of 512 positions: 2 to 4%).
static double rated_seconds(const Lowering *lower) {
    static const double PROMISE = 1.04;
    const Schedule *schedule = &lower->kernel->schedule;
    bool by_default =
        schedule->kind != SCHEDULE_CONTRACT || schedule_has_default_axes(&schedule->contract);
    TileCost cost = tile_cost(NULL, lower->kernel, lower->typical.at, lower->machine);
    return schedule_mean_seconds(&cost, lower->machine) * (by_default ? 1 : PROMISE);
}

typedef bool LowerWith(const Lowering *like, const Schedule *schedule, Lowering *lower,
                       Arena *arena);

// first: lowered with the first of them.
static const Schedule *fastest_of(const Lowering *first, const ScheduleList *list,
                                  LowerWith *lower_with) {
    const Schedule *best = &list->at[0];
    double least = rated_seconds(first);
    for (uint32_t i = 1; i < list->count; i++) {
        Arena *arena = arena_new();
        Lowering lower;
        if (!lower_with(first, &list->at[i], &lower, arena))
            ice("lower: a kernel has another schedule, and is none");
        double seconds = rated_seconds(&lower);
        best = seconds < least ? &list->at[i] : best;
        least = fmin(seconds, least);
        arena_free(arena);
    }
    return best;
}

// ---- contractions ----

// schedule NULL: the first that its model finds.
static bool contract_with(const Lowering *like, const Schedule *schedule, Lowering *lower,
                          Arena *arena) {
    lower_open(lower, like->request, like->group, arena, arena);
    lower_arguments(lower);
    return lower_contract(lower, schedule ? &schedule->contract : NULL);
}

// Equal kernels of one shape share the choice.
static const Schedule *known_fastest(const Lowering *first, Arena *arena) {
    const ContractShapes *shapes = &first->shape.contract;
    const ScheduleList *near = lower_near(first, shapes);
    if (near->count == 1)
        return &near->at[0];
    KernelForm form = kernel_form(arena, first->kernel), sizes = lower_shape_form(shapes, arena);
    for (uint32_t i = 0; i < sizes.count; i++)
        vec_push(arena, &form, sizes.at[i]);
    void **known = form_table_at(first->request->contractions, &form);
    if (!*known)
        *known = (void *)fastest_of(first, near, contract_with);
    return *known;
}

bool lower_contracting(Lowering *lower, ContractSchedule *schedule) {
    const Schedule *wanted = lower->wanted;
    if (wanted && !wanted->found && wanted->kind == SCHEDULE_CONTRACT) { // of its own space
        *schedule = wanted->contract;
        return true;
    }
    Arena *arena = arena_new();
    Lowering first;
    bool contracts = contract_with(lower, NULL, &first, arena);
    if (contracts) {
        lower->shape = first.shape;
        *schedule =
            lower_takes_wanted(lower) ? wanted->contract : known_fastest(&first, arena)->contract;
    }
    arena_free(arena);
    return contracts;
}

// ---- rows ----

static bool rows_with(const Lowering *like, const Schedule *schedule, Lowering *lower,
                      Arena *arena) {
    lower_open(lower, like->request, like->group, arena, arena);
    lower_arguments(lower);
    lower->wanted = schedule;
    lower_rows(lower);
    return true;
}

// first: lowered with as many rows as L1 keeps. Equal kernels share the choice.
static const Schedule *known_cheapest_rows(const Lowering *first, Arena *arena) {
    KernelForm form = kernel_form(arena, first->kernel);
    add_typical(&form, first, arena);
    void **known = form_table_at(first->request->rows, &form);
    if (!*known) {
        Schedule numbers = first->kernel->schedule;
        numbers.blocks = (StageBlocksList){0};
        ScheduleList list = {0};
        schedule_enumerate_rows(arena, &first->shape.tasks, numbers, &list);
        *known =
            arena_copy(first->graph->arena, fastest_of(first, &list, rows_with), sizeof numbers);
    }
    return *known;
}

void lower_rows_by_cost(Lowering *lower) {
    const Schedule *wanted = lower->wanted;
    if (wanted && !wanted->found && wanted->kind == SCHEDULE_TASKS) { // of its own space
        lower_rows(lower);
        return;
    }
    Arena *arena = arena_new();
    Lowering first;
    rows_with(lower, NULL, &first, arena);
    lower->shape = first.shape;
    bool chooses = first.shape.kind == SCHEDULE_TASKS && first.shape.tasks.rows.kept > 0;
    if (chooses && !lower_takes_wanted(lower))
        lower->wanted = known_cheapest_rows(&first, arena);
    lower_rows(lower);
    lower->wanted = wanted;
    arena_free(arena);
}
