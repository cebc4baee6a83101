// SPDX-License-Identifier: Apache-2.0
// The schedule of a kernel that is being lowered: the one that is wanted, or the default of what it
// is chosen from. The kernel notes it.
#include "tile/lower/lower.h"

static bool wants(const Lowering *lower, ScheduleKind kind) {
    return lower->wanted && lower->wanted->kind == kind;
}

TaskSchedule lower_tasks(Lowering *lower, const TaskShape *shape) {
    bool wanted = wants(lower, SCHEDULE_TASKS);
    TaskSchedule tasks = wanted ? lower->wanted->tasks : schedule_tasks(shape, lower->machine);
    lower->shape = (ScheduleShape){.kind = SCHEDULE_TASKS, .tasks = *shape};
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
    bool wanted = wants(lower, SCHEDULE_CONTRACT);
    ContractSchedule schedule = wanted ? lower->wanted->contract : known_contraction(lower, shape);
    lower->shape = (ScheduleShape){.kind = SCHEDULE_CONTRACT, .contract = *shape};
    lower->kernel->schedule = (Schedule){.kind = SCHEDULE_CONTRACT, .contract = schedule};
    return schedule;
}

StageBlocks lower_blocks(Lowering *lower, const StageBlocksList *choices) {
    uint32_t place = lower->choices.count, chosen = 0;
    vec_push(lower->arena, &lower->choices, *choices);
    if (lower->wanted && place < lower->wanted->blocks.count)
        for (uint32_t i = choices->count; i-- > 0;)
            chosen = blocks_equal(choices->at[i], lower->wanted->blocks.at[place]) ? i : chosen;
    Kernel *kernel = lower->kernel;
    vec_push(kernel->arena, &kernel->schedule.blocks, choices->at[chosen]);
    return choices->at[chosen];
}
