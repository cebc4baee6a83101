// SPDX-License-Identifier: Apache-2.0
// Names of stored values, and of the kernels that make them, for tables that people read.
//
// A value is called as in the source. Where two are, as in the rounds of a loop, the calls and
// loops on the way are told as well (`layer.0.attend.K`), and where that is not enough, a number.
#include "driver/driver.h"

typedef struct {
    Arena *arena;
    Names *interned;
    Map *uses;  // Name -> uint32_t: how many values are called so in the source
    Map *taken; // Name -> the value that is shown so
    const char **shown;
} Naming;

static uint64_t key_of(Name name) {
    return (uint64_t)(uintptr_t)name;
}

static Name source_name(const Naming *naming, const Value *value) {
    return names_find(naming->interned, value_label(naming->arena, value));
}

static void count_use(Naming *naming, const Value *value) {
    Name name = source_name(naming, value);
    uint32_t *uses = map_get(naming->uses, key_of(name));
    if (!uses)
        map_put(naming->uses, key_of(name), uses = arena_new_of(naming->arena, uint32_t));
    ++*uses;
}

static void take_name(Naming *naming, const Value *value, Name wanted) {
    Name name = wanted;
    for (uint32_t number = 1; map_get(naming->taken, key_of(name)); number++)
        name = names_find(naming->interned, arena_printf(naming->arena, "%s_%u", wanted, number));
    map_put(naming->taken, key_of(name), (Value *)value);
    naming->shown[value->id] = name;
}

static void name_value(Naming *naming, const Value *value) {
    Name name = source_name(naming, value);
    const uint32_t *uses = map_get(naming->uses, key_of(name));
    if (*uses > 1 && value->hint && value->path)
        name = names_find(naming->interned,
                          arena_printf(naming->arena, "%s%s", value->path, value->hint));
    take_name(naming, value, name);
}

const char **report_value_names(const Plan *plan, Arena *arena) {
    const Graph *graph = plan->fusion->graph;
    Naming naming = {
        .arena = arena,
        .interned = graph->session->names,
        .uses = map_new(arena),
        .taken = map_new(arena),
        .shown = arena_array(arena, const char *, graph->values.count + 1),
    };
    bool *stored = arena_array(arena, bool, graph->values.count + 1);
    for (uint32_t i = 0; i < plan->buffers.count; i++)
        stored[plan->buffers.at[i].value->id] = true;
    for (uint32_t v = 0; v < graph->values.count; v++)
        if (stored[v])
            count_use(&naming, graph->values.at[v]);
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        take_name(&naming, graph->inputs.at[i], graph->inputs.at[i]->name);
    for (uint32_t v = 0; v < graph->values.count; v++)
        if (stored[v] && !naming.shown[v])
            name_value(&naming, graph->values.at[v]);
    return naming.shown;
}

const char *report_group_name(const Group *group, const char *const *names, Arena *arena) {
    Text text = {.arena = arena};
    for (uint32_t i = 0; i < group->outputs.count; i++)
        text_printf(&text, "%s%s", i ? "+" : "", names[group->outputs.at[i]->id]);
    return text.at ? text.at : "(nothing)";
}
