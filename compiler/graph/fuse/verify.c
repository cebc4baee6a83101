// SPDX-License-Identifier: Apache-2.0
// The rules that groups keep, checked after graph_fuse; graph.h states them.
#include "graph/plan.h"

#include <stdarg.h>

typedef struct {
    const Fusion *fusion;
    const char *after;
    uint32_t number;       // of the group under check
    uint32_t *stored_by;   // by value id: number of the group + 1, 0: not stored so far
    uint32_t *feeds;       // likewise, groups that compute it for an operand of their contraction
    uint32_t *computed_by; // likewise, of what reduces: only what is pointwise is computed again
} FusionCheck;

__attribute__((format(printf, 3, 4))) static void must(const FusionCheck *check, bool holds,
                                                       const char *format, ...) {
    if (holds)
        return;
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ice("fusion after %s: group %u: %s", check->after, check->number, text);
}

// A split or merge that the group does not store is a way to read what is in memory.
static bool is_only_read(const Group *group, const Value *member) {
    return op_regroups(member->op) && !group_stores(group, member);
}

// Is it there for a member that is another way to read it?
static bool is_in_memory(const FusionCheck *check, const Value *value) {
    while (op_may_be_view(value->op) && !check->stored_by[value->id])
        value = value->args[0];
    return value->op == OP_INPUT || check->stored_by[value->id];
}

static void verify_args(const FusionCheck *check, const Group *group, const Value *member) {
    bool moves = op_kind(member->op) == KIND_MOVE;
    for (uint32_t i = 0; i < member->n_args; i++) {
        const Value *arg = member->args[i];
        bool in_memory = op_is_reading(member->op) || op_regroups(arg->op)
                             ? is_in_memory(check, arg)
                             : arg->op == OP_INPUT || check->stored_by[arg->id];
        bool anywhere = group->kind == GROUP_SCAN || (member->op == OP_GATHER && i == 1) ||
                        (group->kind == GROUP_SCATTER && op_is_immediate(arg->op));
        if (moves && !anywhere)
            must(check, in_memory, "%s %u reads value %u, which is not in memory",
                 op_name(member->op), member->id, arg->id);
        else
            must(check, in_memory || op_is_immediate(arg->op) || group_has(group, arg),
                 "value %u needs %u, which is not there yet", member->id, arg->id);
    }
}

static bool is_row_op(const Value *value) {
    return op_kind(value->op) == KIND_REDUCE || op_kind(value->op) == KIND_ROW;
}

static void verify_row_dims(const FusionCheck *check, const Group *group, const Value *member) {
    const DimList *all = &member->args[0]->dims;
    DimList reduced = op_kind(member->op) == KIND_ROW ? (DimList){1, {member->dim}}
                                                      : dims_minus(all, &member->dims);
    DimList rows = dims_minus(all, &reduced);
    must(check, dims_equal(&reduced, &group->reduced) && dims_equal(&rows, &group->rows),
         "%s %u runs over other rows than the group", op_name(member->op), member->id);
}

static void find_feeds(const FusionCheck *check, const Group *group) {
    for (uint32_t i = group->contraction ? group->members.count : 0; i-- > 0;) {
        const Value *value = group->members.at[i];
        bool feeds = value == group->contraction || check->feeds[value->id] == check->number + 1;
        for (uint32_t k = 0; feeds && k < value->n_args; k++)
            check->feeds[value->args[k]->id] = check->number + 1;
    }
}

static bool reduces(const Value *value) {
    return is_row_op(value) || value->op == OP_CONTRACT;
}

static bool reduces_over(const Value *value, DimId dim) {
    bool has = false;
    for (uint32_t i = 0; reduces(value) && i < value->n_args; i++)
        has = has || dims_has(&value->args[i]->dims, dim);
    return has && !dims_has(&value->dims, dim);
}

static void verify_stream(const FusionCheck *check, const Group *group) {
    must(check, group->reduced.count == 1, "it has %u streamed dims", group->reduced.count);
    DimId streamed = group->reduced.at[0];
    must(check, group->rows.count > 0, "it has no rows to cut into tasks");
    must(check, !dims_has(&group->rows, streamed), "its tasks are cut along the streamed dim");
    bool reduced = false;
    for (uint32_t i = 0; i < group->members.count; i++)
        reduced = reduced || reduces_over(group->members.at[i], streamed) ||
                  value_adds_rows(group->members.at[i]);
    must(check, reduced, "nothing is reduced over its streamed dim or its rows");
}

// A task knows its rows and nothing of the others.
static void verify_streamed(const FusionCheck *check, const Group *group, const Value *member) {
    must(check, op_kind(member->op) != KIND_ROW, "value %u is for a rows group", member->id);
    must(check,
         op_kind(member->op) != KIND_MOVE || op_may_be_view(member->op) || member->op == OP_GATHER,
         "value %u moves elements between pieces", member->id);
    DimList own = member->dims, cut = {1, {member->dim}};
    if (value_adds_rows(member)) {
        must(check, member->dim == group->cut && member->dim2 == group->parts,
             "value %u is in other parts", member->id);
        own = dims_union(&own, &cut);
    }
    bool all_rows = dims_subset(&group->rows, &own);
    must(check, !reduces(member) || all_rows, "value %u reduces a dim of the tasks", member->id);
    must(check, !group_stores(group, member) || all_rows, "value %u is stored by every task",
         member->id);
}

static void verify_member(const FusionCheck *check, const Group *group, const Value *member) {
    DimList space = group->kind == GROUP_CONTRACT ? group->contraction->dims
                                                  : dims_union(&group->rows, &group->reduced);
    OpKind kind = op_kind(member->op);
    if (group->kind == GROUP_SCAN) {
        must(check, kind != KIND_LEAF || member->op == OP_CARRY, "value %u is a leaf", member->id);
        return;
    }
    if (is_only_read(group, member))
        return; // whatever the group runs over
    must(check, kind != KIND_LEAF && kind != KIND_SCAN, "value %u is for a scan", member->id);
    must(check,
         (member->op == OP_ORDER) == (group->kind == GROUP_ORDER) &&
             (member->op == OP_SCATTER_ADD) == (group->kind == GROUP_SCATTER),
         "value %u is for a group of its own", member->id);
    if (group->kind == GROUP_ORDER || group->kind == GROUP_SCATTER)
        return;
    if (group->kind == GROUP_STREAM) {
        verify_streamed(check, group, member);
        return;
    }
    must(check,
         kind != KIND_CONTRACT || member == group->contraction ||
             (group->kind == GROUP_ROWS && value_in_parts(member)),
         "value %u is a second contraction", member->id);
    must(check, !is_row_op(member) || group->kind == GROUP_ROWS, "value %u is for a rows group",
         member->id);
    if (is_row_op(member))
        verify_row_dims(check, group, member);
    if (value_in_parts(member)) {
        must(check, member->dim == group->cut && member->dim2 == group->parts,
             "value %u is in other parts", member->id);
        return;
    }
    must(check, group->parts == DIM_NONE || !group_stores(group, member),
         "value %u is stored by every part", member->id);
    bool inside = dims_subset(&member->dims, &space);
    must(check, inside || check->feeds[member->id] == check->number + 1,
         "value %u has dims that the group does not run over", member->id);
    if (!group_stores(group, member))
        return;
    must(check,
         dims_equal(&member->dims, &space) ||
             (group->kind == GROUP_ROWS && dims_equal(&member->dims, &group->rows)),
         "value %u is stored, but has not all dims of the group", member->id);
}

static void verify_once(FusionCheck *check, const Value *member) {
    if (!reduces(member))
        return;
    must(check, !check->computed_by[member->id], "value %u is computed by group %u, too",
         member->id, check->computed_by[member->id] - 1);
    check->computed_by[member->id] = check->number + 1;
}

static void verify_group(FusionCheck *check, const Group *group) {
    must(check, group->members.count > 0 && group->outputs.count > 0, "it stores nothing");
    must(check, (group->kind == GROUP_CONTRACT) == (group->contraction != NULL),
         "its kind and its contraction disagree");
    if (group->contraction)
        must(check, group_has(group, group->contraction) && group->contraction->n_args == 2,
             "its contraction is no member or has not two arguments");
    if (group->kind == GROUP_STREAM)
        verify_stream(check, group);
    uint32_t alone = 0;
    for (uint32_t i = 0; i < group->members.count; i++)
        alone += !is_only_read(group, group->members.at[i]);
    if (group->kind == GROUP_ORDER || group->kind == GROUP_SCATTER)
        must(check, alone == 1, "its member is not alone");
    for (int i = 1; group->kind == GROUP_SCAN && i < group->reduced.count; i++)
        must(check, group->reduced.at[i - 1] < group->reduced.at[i],
             "an inner scan stands before that around it");
    find_feeds(check, group);
    for (uint32_t i = 0; i < group->members.count; i++) {
        must(check, i == 0 || group->members.at[i - 1]->id < group->members.at[i]->id,
             "members are not in order of id");
        verify_args(check, group, group->members.at[i]);
        verify_member(check, group, group->members.at[i]);
    }
    for (uint32_t i = 0; i < group->outputs.count; i++) {
        const Value *output = group->outputs.at[i];
        must(check, group_has(group, output), "it stores value %u, which is no member", output->id);
        must(check, !check->stored_by[output->id], "value %u is stored twice", output->id);
    }
    for (uint32_t i = 0; i < group->outputs.count; i++) {
        const Value *output = group->outputs.at[i], *around = check->fusion->lies_in[output->id];
        check->stored_by[output->id] = check->number + 1;
        if (around)
            check->stored_by[around->id] = check->number + 1;
    }
    for (uint32_t i = 0; i < group->members.count; i++)
        verify_once(check, group->members.at[i]);
}

void fusion_verify(const Fusion *fusion, const char *after_pass) {
    const Graph *graph = fusion->graph;
    FusionCheck check = {.fusion = fusion, .after = after_pass};
    check.stored_by = arena_array(graph->arena, uint32_t, graph->values.count + 1);
    check.feeds = arena_array(graph->arena, uint32_t, graph->values.count + 1);
    check.computed_by = arena_array(graph->arena, uint32_t, graph->values.count + 1);
    graph_verify(graph, after_pass);
    for (uint32_t i = 0; i < fusion->groups.count; i++) {
        check.number = i;
        verify_group(&check, fusion->groups.at[i]);
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const Output *output = &graph->outputs.at[i];
        if (!check.stored_by[output->value->id])
            ice("fusion after %s: result %s is stored by no group", after_pass, output->name);
        for (uint32_t k = 0; k < i; k++)
            if (graph->outputs.at[k].value == output->value)
                ice("fusion after %s: result %s shares its value", after_pass, output->name);
    }
}
