// SPDX-License-Identifier: Apache-2.0
// attc cost --space: the schedules that each kernel of an entry has to choose from.
#include "driver/driver.h"

#include <stdlib.h>

SpaceFigures report_spaces(const Compilation *compiled, const Machine *machine, Arena *arena) {
    SpaceFigures out = {.spaces.arena = arena};
    tune_spaces_add(&out.spaces, compiled->plan, machine, compiled->typical);
    uint32_t n = out.spaces.at.count;
    const Schedule **defaults = arena_array(arena, const Schedule *, n + 1);
    for (uint32_t i = 0; i < n; i++)
        defaults[i] = &out.spaces.at.at[i].numbers.at[0];
    out.blocks = arena_array(arena, ScheduleList, n + 1);
    tune_spaces_blocks(&out.spaces, compiled->plan, machine, compiled->typical, defaults,
                       out.blocks, arena);
    return out;
}

static double best_seconds(const TuneSpace *space) {
    double best = space->numbers.at[0].seconds;
    for (uint32_t i = 1; i < space->numbers.count; i++)
        if (space->numbers.at[i].seconds < best)
            best = space->numbers.at[i].seconds;
    return best;
}

void report_print_spaces(const SpaceFigures *figures, Arena *arena) {
    static const char *const heads[] = {"kernel", "kind",    "schedules",
                                        "blocks", "default", "least predicted"};
    Table table = table_open(arena, "llrrrr");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, "%s", heads[i]);
    for (uint32_t i = 0; i < figures->spaces.at.count; i++) {
        const TuneSpace *space = &figures->spaces.at.at[i];
        table_cell(&table, "%s", space->name);
        table_cell(&table, "%s", schedule_kind_name(space->numbers.at[0].kind));
        table_cell(&table, "%u", space->numbers.count);
        table_cell(&table, "%u", figures->blocks[i].count);
        table_seconds(&table, space->numbers.at[0].seconds);
        table_seconds(&table, best_seconds(space));
    }
    printf("\n");
    table_print(&table);
}

static json_t *schedules_json(const ScheduleList *list, Arena *arena) {
    json_t *all = json_array();
    for (uint32_t i = 0; i < list->count; i++) {
        const Schedule *schedule = &list->at[i];
        json_t *text = json_loads(schedule_to_json(arena, schedule), 0, NULL);
        json_array_append_new(all, json_pack("{s:o, s:o}", "schedule", text, "predicted_seconds",
                                             report_number(schedule->seconds)));
    }
    return all;
}

json_t *report_spaces_json(const SpaceFigures *figures, Arena *arena) {
    json_t *all = json_array();
    for (uint32_t i = 0; i < figures->spaces.at.count; i++) {
        const TuneSpace *space = &figures->spaces.at.at[i];
        json_array_append_new(
            all,
            json_pack("{s:s, s:o, s:s, s:o, s:o}", "kernel", space->name, "group",
                      json_sprintf("%016llx", (unsigned long long)space->site.group), "extents",
                      space->site.extents, "schedules", schedules_json(&space->numbers, arena),
                      "blocks", schedules_json(&figures->blocks[i], arena)));
    }
    return all;
}
