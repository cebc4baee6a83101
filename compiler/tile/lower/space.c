// SPDX-License-Identifier: Apache-2.0
// The space of a group: the schedules that make different kernels of it, all of which hold. Each
// candidate of its kind is lowered in an arena of its own, so that thousands take no memory.
#include "tile/lower/lower.h"

typedef struct {
    const LowerRequest *request;
    Group *part;
    FormTable *kernels; // of the space so far
    Arena *arena;       // of the space
    ScheduleList *space;
} Space;

// Lowers the part with a schedule (NULL: the default), and adds it unless there is such a kernel.
static ScheduleShape offer(const Space *s, const Schedule *schedule) {
    Arena *arena = arena_new();
    Lowering lower;
    Text why = {.arena = arena};
    lower_open(&lower, s->request, s->part, arena, arena);
    lower_arguments(&lower);
    lower.wanted = schedule;
    if (lower_kind(&lower) && kernel_check(lower.kernel, &why)) {
        KernelForm form = kernel_form(arena, lower.kernel);
        void **known = form_table_at(s->kernels, &form);
        if (!*known)
            vec_push(s->arena, s->space, lower.kernel->schedule);
        *known = s->space;
    }
    ScheduleShape shape = lower.shape;
    arena_free(arena);
    return shape;
}

static ScheduleList candidates(const Space *s, const ScheduleShape *shape, Arena *arena) {
    ScheduleList list = {0};
    const Machine *machine = s->request->machine;
    if (shape->kind == SCHEDULE_TASKS)
        schedule_enumerate_tasks(arena, &shape->tasks, machine, &list);
    else if (shape->kind == SCHEDULE_CONTRACT)
        schedule_enumerate_contract(arena, &shape->contract, machine, &list);
    else if (shape->kind == SCHEDULE_STREAM)
        schedule_enumerate_stream(arena, &s->request->wish.forced, &shape->stream, &list);
    return list;
}

const Schedule *lower_wanted(Arena *arena, const LowerRequest *request, const Group *group,
                             Group *part) {
    if (!request->wish.choose)
        return NULL;
    ScheduleList space = {0};
    Arena *own = arena_new();
    Space s = {request, part, form_table_new(own), arena, &space};
    ScheduleShape shape = offer(&s, NULL);
    ScheduleList list = candidates(&s, &shape, own);
    for (uint32_t i = 0; i < list.count; i++)
        offer(&s, &list.at[i]);
    arena_free(own);
    uint32_t chosen = request->wish.choose(request->wish.self, group, &space);
    if (chosen >= space.count)
        ice("schedule: %u of %u was chosen", chosen, space.count);
    return &space.at[chosen];
}
