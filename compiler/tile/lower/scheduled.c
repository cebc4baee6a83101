// SPDX-License-Identifier: Apache-2.0
// The schedule of a kernel that is being lowered: the one that is wanted, or the default of what it
// is chosen from (of contractions and streamed groups: choose.c). The kernel notes it.
#include "tile/lower/lower.h"
#include "tile/schedule/schedule.h"

// Is one wanted, and one of those that the shape leaves? What was looked up may be of another
// machine, or of an earlier compiler.
bool lower_takes_wanted(Lowering *lower) {
    const Schedule *wanted = lower->wanted;
    if (!wanted || !wanted->found)
        return wanted && wanted->kind == lower->shape.kind;
    if (lower->shape.kind == SCHEDULE_TASKS)
        return wanted->kind == SCHEDULE_TASKS &&
               schedule_fits_tasks(&lower->shape.tasks, &wanted->tasks);
    const StreamSchedule any = {0};
    Arena *arena = arena_new();
    ScheduleList all = schedule_enumerate(arena, &lower->shape, lower->machine, &any);
    uint32_t i = 0;
    while (i < all.count && !schedule_same_numbers(&all.at[i], wanted))
        i++;
    bool takes = i < all.count;
    arena_free(arena);
    return takes;
}

TaskSchedule lower_tasks(Lowering *lower, const TaskShape *shape) {
    lower->shape = (ScheduleShape){.kind = SCHEDULE_TASKS, .tasks = *shape};
    bool wanted = lower_takes_wanted(lower);
    TaskSchedule tasks = wanted ? lower->wanted->tasks : schedule_tasks(shape, lower->machine);
    lower->kernel->schedule = (Schedule){.kind = SCHEDULE_TASKS, .tasks = tasks};
    return tasks;
}

static void add_shape(KernelForm *form, const ContractShape *s, Arena *arena) {
    const uint64_t words[] = {s->axes.transposed,
                              s->axes.contiguous_rows,
                              (uint64_t)s->batch,
                              (uint64_t)s->rows,
                              (uint64_t)s->lanes,
                              (uint64_t)s->k,
                              (uint64_t)s->main_rows,
                              (uint64_t)s->main_lanes,
                              s->rows_known,
                              s->a_in_place,
                              s->b_in_place,
                              s->a_last,
                              s->b_last,
                              (uint64_t)s->panel,
                              s->tile,
                              s->turned,
                              s->elem_bytes,
                              s->in_order,
                              (uint64_t)s->last_batch};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        vec_push(arena, form, words[i]);
}

KernelForm lower_shape_form(const ContractShapes *shapes, Arena *arena) {
    KernelForm form = {0};
    for (int i = 0; i < shapes->count; i++)
        add_shape(&form, &shapes->at[i], arena);
    return form;
}

const ScheduleList *lower_near(const Lowering *lower, const ContractShapes *shapes) {
    Arena *arena = arena_new(), *own = lower->graph->arena;
    KernelForm form = lower_shape_form(shapes, arena);
    void **known = form_table_at(lower->request->near, &form);
    arena_free(arena);
    if (!*known) {
        ScheduleList *list = arena_new_of(own, ScheduleList);
        schedule_nearest_contract(own, shapes, lower->machine, list);
        *known = list;
    }
    return *known;
}

StageBlocks lower_blocks(Lowering *lower, const StageBlocksList *choices) {
    uint32_t place = lower->choices.count, chosen = 0;
    vec_push(lower->arena, &lower->choices, *choices);
    if (lower->wanted && place < lower->wanted->blocks.count)
        for (uint32_t i = choices->count; i-- > 0;)
            chosen = schedule_same_blocks(&choices->at[i], &lower->wanted->blocks.at[place])
                         ? i
                         : chosen;
    Kernel *kernel = lower->kernel;
    vec_push(kernel->arena, &kernel->schedule.blocks, choices->at[chosen]);
    return choices->at[chosen];
}
