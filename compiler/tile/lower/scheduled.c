// SPDX-License-Identifier: Apache-2.0
// The schedule of a kernel that is being lowered: the one that is wanted, or the default of what it
// is chosen from. The kernel notes it.
#include "tile/lower/lower.h"

// Is one wanted, and one of those that the shape leaves? What was looked up may be of another
// machine, or of an earlier compiler.
bool lower_takes_wanted(Lowering *lower) {
    const Schedule *wanted = lower->wanted;
    if (!wanted || !wanted->found)
        return wanted && wanted->kind == lower->shape.kind;
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

static ContractSchedule known_contraction(const Lowering *lower, const ContractShape *s) {
    uint64_t words[] = {(uint64_t)s->batch, (uint64_t)s->rows,      (uint64_t)s->lanes,
                        (uint64_t)s->k,     (uint64_t)s->main_rows, (uint64_t)s->main_lanes,
                        s->a_in_place,      s->b_in_place,          s->a_last,
                        s->b_last,          (uint64_t)s->panel,     s->elem_bytes,
                        s->in_order};
    KernelForm form = {.at = words, .count = sizeof words / sizeof *words};
    void **known = form_table_at(lower->request->contractions, &form);
    if (!*known) {
        ContractSchedule schedule = schedule_contract(s, lower->machine);
        *known = arena_copy(lower->graph->arena, &schedule, sizeof schedule);
    }
    return *(ContractSchedule *)*known;
}

ContractSchedule lower_contraction(Lowering *lower, const ContractShape *shape) {
    lower->shape = (ScheduleShape){.kind = SCHEDULE_CONTRACT, .contract = *shape};
    bool wanted = lower_takes_wanted(lower);
    ContractSchedule schedule = wanted ? lower->wanted->contract : known_contraction(lower, shape);
    lower->kernel->schedule = (Schedule){.kind = SCHEDULE_CONTRACT, .contract = schedule};
    return schedule;
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
