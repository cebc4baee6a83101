// SPDX-License-Identifier: Apache-2.0
// A fusion as source text: the values group by group, each group under a comment that says what it
// is and which of its values are stored.
//
//     # group 1: contract n f over d; stores H
//     t1[n, f] = einsum(X[n, d], W[d, f])
//     H[n, f] = max(t1[n, f], 0)
//     # group 2: stream n over m; stores O; never whole: J, W and 3 more
//
// A value that several groups compute for themselves (a mask, a rename) is written where it is
// needed first. The text parses back to a graph with the same hash.
#include "graph/plan.h"

static void add_dims(const Graph *graph, const DimList *dims, Text *text) {
    for (uint32_t i = 0; i < dims->count; i++)
        text_printf(text, " %s", graph->dims.at[dims->at[i]].name);
}

static void add_kind(const Graph *graph, const Group *group, Text *text) {
    if (group->kind == GROUP_CONTRACT) {
        const Value *contraction = group->contraction;
        DimList summed = dims_union(&contraction->args[0]->dims, &contraction->args[1]->dims);
        summed = dims_minus(&summed, &contraction->dims);
        text_add(text, "contract");
        add_dims(graph, &contraction->dims, text);
        text_add(text, " over");
        add_dims(graph, &summed, text);
    } else if (group->kind == GROUP_SCAN) {
        text_add(text, "scan");
        add_dims(graph, &group->reduced, text);
    } else if (group->kind != GROUP_MAP) {
        text_add(text, group->kind == GROUP_ROWS     ? "rows"
                       : group->kind == GROUP_STREAM ? "stream"
                                                     : "order");
        add_dims(graph, &group->rows, text);
        text_add(text, " over");
        add_dims(graph, &group->reduced, text);
    } else {
        text_add(text, "map");
        add_dims(graph, &group->rows, text);
    }
}

// By the names of the source; a value that has none there by its op.
static void add_stored(const Group *group, Text *text) {
    text_add(text, "; stores");
    for (uint32_t i = 0; i < group->outputs.count; i++) {
        const Value *output = group->outputs.at[i];
        text_printf(text, "%s %s%s", i ? "," : "",
                    output->hint ? output->hint : op_name(output->op),
                    value_in_turn(output) ? " in turn" : "");
    }
}

// Of a streamed group: what has the streamed dim and is not stored.
static void add_never_whole(const Group *group, Text *text) {
    uint32_t named = 0, unnamed = 0;
    for (uint32_t i = 0; i < group->members.count; i++) {
        const Value *value = group->members.at[i];
        bool stored = op_kind(value->op) == KIND_LEAF;
        for (uint32_t k = 0; k < group->outputs.count; k++)
            stored = stored || group->outputs.at[k] == value;
        if (stored || !dims_has(&value->dims, group->reduced.at[0]) ||
            !dims_subset(&group->rows, &value->dims))
            continue;
        if (value->hint)
            text_printf(text, "%s %s", named ? "," : "; never whole:", value->hint);
        named += value->hint != NULL;
        unnamed += !value->hint;
    }
    if (unnamed)
        text_printf(text, named ? " and %u more" : "; never whole: %u values", unnamed);
}

static const char *group_note(const Fusion *fusion, uint32_t number, Arena *arena) {
    Text text = {.arena = arena};
    text_printf(&text, "group %u: ", number);
    add_kind(fusion->graph, fusion->groups.at[number], &text);
    add_stored(fusion->groups.at[number], &text);
    if (fusion->groups.at[number]->kind == GROUP_STREAM)
        add_never_whole(fusion->groups.at[number], &text);
    return text.at;
}

typedef struct {
    bool *written; // by value id
    const Value **values;
    const char **notes;
    uint32_t count;
} Writing;

// Ways to read that lead to a member are of its group, too.
static void write_value(Writing *to, const Value *value, const char **note) {
    if (to->written[value->id])
        return;
    to->written[value->id] = true;
    const Value *arg = op_kind(value->op) == KIND_MOVE ? value->args[0] : NULL;
    if (arg && op_is_reading(value->op) && op_may_be_view(arg->op))
        write_value(to, arg, note);
    to->notes[to->count] = *note;
    to->values[to->count++] = value;
    *note = NULL;
}

void fusion_print(const Fusion *fusion, Text *out) {
    const Graph *graph = fusion->graph;
    Arena *arena = arena_new();
    uint32_t n = graph->values.count + 1;
    Writing to = {arena_array(arena, bool, n), arena_array(arena, const Value *, n),
                  arena_array(arena, const char *, n), 0};
    for (uint32_t i = 0; i < fusion->groups.count; i++) {
        const Group *group = fusion->groups.at[i];
        const char *note = group_note(fusion, i, arena);
        for (uint32_t k = 0; k < group->members.count; k++)
            write_value(&to, group->members.at[k], &note);
    }
    GraphListing listing = {to.values, to.notes, to.count};
    graph_print_listing(graph, &listing, out);
    arena_free(arena);
}
