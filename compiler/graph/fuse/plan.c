// SPDX-License-Identifier: Apache-2.0
// Buffers of a fused graph: what is stored, where, and for how long.
//
//     before  groups  0: Q   1: K   2: L (reads Q K)   3: W (reads L)   4: Y (reads W), a result
//     after   Q slot 0 [0, 2]   K slot 1 [1, 2]   L slot 2 [2, 3]   W slot 0 [3, 4]   Y output
//
// A work buffer lives from the group that writes it to the last that reads it, both included, so
// what a group reads and what it writes never share memory. Slots are given in the order of
// writing: a slot whose last buffer is dead is taken when both have the same size for every extent
// (the same product of run-time extents), the best fit by constant part first; a constant-size
// buffer may take a smaller constant slot, which then grows. Otherwise a new slot is made.
//
// Requires: graph_fuse, graph_layout. Ensures: plan_verify.
#include "graph/graph.h"

#include <stdlib.h>

// Size of a buffer: bytes for the constant extents, and the classes of the run-time ones, sorted.
typedef struct {
    int64_t bytes; // INT64_MAX: too large
    uint32_t n_symbols;
    DimId symbols[DIMS_MAX];
    DimId panel; // a run-time extent that is rounded up to whole panels, or DIM_NONE
    int32_t panel_width;
} Size;

typedef struct {
    Size size;
    uint32_t last_group;
} Slot;
typedef VEC(Slot) SlotList;

static int compare_dims(const void *a, const void *b) {
    DimId x = *(const DimId *)a, y = *(const DimId *)b;
    return (x > y) - (x < y);
}

static int64_t whole_panels(int64_t extent, int64_t width) {
    return (extent + width - 1) / width * width;
}

static Size size_of(const Graph *graph, const Value *value, const MemoryOrder *memory) {
    Size size = {.bytes = (int64_t)elem_bytes(value->elem), .panel = DIM_NONE};
    for (uint32_t i = 0; i < value->dims.count; i++) {
        const Dim *dim = &graph->dims.at[value->dims.at[i]];
        bool panel = value->dims.at[i] == memory->panel;
        int64_t extent = panel ? whole_panels(dim->extent, memory->panel_width) : dim->extent;
        if (dim->extent == EXTENT_DYNAMIC)
            size.symbols[size.n_symbols++] = dim->like;
        else if (!mul_i64(size.bytes, extent, &size.bytes))
            size.bytes = INT64_MAX;
        if (dim->extent == EXTENT_DYNAMIC && panel) {
            size.panel = dim->like;
            size.panel_width = memory->panel_width;
        }
    }
    qsort(size.symbols, size.n_symbols, sizeof *size.symbols, compare_dims);
    return size;
}

static bool size_same_symbols(const Size *a, const Size *b) {
    if (a->n_symbols != b->n_symbols || a->panel != b->panel || a->panel_width != b->panel_width)
        return false;
    for (uint32_t i = 0; i < a->n_symbols; i++)
        if (a->symbols[i] != b->symbols[i])
            return false;
    return true;
}

// What the slot would be larger than needed, or would have to grow; -1: not to be shared.
static int64_t slot_misfit(const Slot *slot, const Size *size) {
    if (!size_same_symbols(&slot->size, size))
        return -1;
    if (size->n_symbols && slot->size.bytes != size->bytes)
        return -1;
    return slot->size.bytes > size->bytes ? slot->size.bytes - size->bytes
                                          : size->bytes - slot->size.bytes;
}

static uint32_t slot_find(Arena *arena, SlotList *slots, const Size *size, uint32_t first_group) {
    uint32_t best = slots->count;
    int64_t best_misfit = INT64_MAX;
    for (uint32_t i = 0; i < slots->count; i++) {
        int64_t misfit = slot_misfit(&slots->at[i], size);
        bool dead = slots->at[i].last_group < first_group;
        if (dead && misfit >= 0 && misfit < best_misfit) {
            best = i;
            best_misfit = misfit;
        }
    }
    if (best == slots->count)
        vec_push(arena, slots, (Slot){*size, 0});
    Slot *slot = &slots->at[best];
    if (size->bytes > slot->size.bytes)
        slot->size.bytes = size->bytes;
    return best;
}

static bool group_reads(const Group *group, const Value *value) {
    for (uint32_t i = 0; i < group->members.count; i++)
        for (uint32_t k = 0; k < group->members.at[i]->n_args; k++)
            if (group->members.at[i]->args[k] == value)
                return true;
    return false;
}

static uint32_t last_reader(const Fusion *fusion, const Value *value, uint32_t first) {
    for (uint32_t i = fusion->groups.count; i-- > first;)
        if (group_reads(fusion->groups.at[i], value))
            return i;
    return first;
}

static uint32_t writing_group(const Fusion *fusion, const Value *value) {
    for (uint32_t i = 0; i < fusion->groups.count; i++)
        for (uint32_t k = 0; k < fusion->groups.at[i]->outputs.count; k++)
            if (fusion->groups.at[i]->outputs.at[k] == value)
                return i;
    ice("plan: value %u is stored by no group", value->id);
}

const Buffer *plan_buffer(const Plan *plan, const Value *value) {
    for (uint32_t i = 0; i < plan->buffers.count; i++)
        if (plan->buffers.at[i].value == value)
            return &plan->buffers.at[i];
    return NULL;
}

int64_t buffer_elements(const Buffer *buffer, const int64_t *extents) {
    int64_t product = 1;
    for (uint32_t i = 0; i < buffer->memory.order.count; i++) {
        DimId dim = buffer->memory.order.at[i];
        product = mul_capped(product, dim == buffer->memory.panel
                                          ? whole_panels(extents[dim], buffer->memory.panel_width)
                                          : extents[dim]);
    }
    return product;
}

static void plan_work_buffers(Plan *plan, const MemoryOrder *orders) {
    const Fusion *fusion = plan->fusion;
    Arena *arena = fusion->graph->arena;
    SlotList slots = {0};
    for (uint32_t i = 0; i < fusion->groups.count; i++) {
        const Group *group = fusion->groups.at[i];
        for (uint32_t k = 0; k < group->outputs.count; k++) {
            const Value *value = group->outputs.at[k];
            if (plan_buffer(plan, value))
                continue; // a result of the entry
            Size size = size_of(fusion->graph, value, &orders[value->id]);
            uint32_t slot = slot_find(arena, &slots, &size, i);
            uint32_t last = last_reader(fusion, value, i);
            slots.at[slot].last_group = last;
            vec_push(arena, &plan->buffers,
                     (Buffer){value, orders[value->id], BUFFER_WORK, slot, i, last});
        }
    }
    plan->n_slots = slots.count;
}

// Sizes are compared as products, so they hold for every extent.
Plan *graph_plan(const Fusion *fusion, const MemoryOrder *orders) {
    const Graph *graph = fusion->graph;
    Plan *plan = arena_new_of(graph->arena, Plan);
    plan->fusion = fusion;
    uint32_t last = fusion->groups.count ? fusion->groups.count - 1 : 0;
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *value = graph->inputs.at[i];
        vec_push(
            graph->arena, &plan->buffers,
            (Buffer){value, orders[value->id], BUFFER_INPUT, 0, 0, last_reader(fusion, value, 0)});
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const Value *value = graph->outputs.at[i].value;
        vec_push(graph->arena, &plan->buffers,
                 (Buffer){value, orders[value->id], BUFFER_OUTPUT, 0, writing_group(fusion, value),
                          last});
    }
    plan_work_buffers(plan, orders);
    return plan;
}

// ---- verifier ----------------------------------------------------------------------------------

static void verify_buffer(const Plan *plan, const Buffer *buffer) {
    const Value *value = buffer->value;
    if (!dims_equal(&buffer->memory.order, &value->dims))
        ice("plan: the order of value %u is no permutation of its dims", value->id);
    if (plan_buffer(plan, value) != buffer)
        ice("plan: value %u has two buffers", value->id);
    if (buffer->role == BUFFER_INPUT)
        return;
    if (buffer->first_group != writing_group(plan->fusion, value))
        ice("plan: value %u does not live from where it is written", value->id);
    for (uint32_t i = 0; i < plan->fusion->groups.count; i++)
        if (group_reads(plan->fusion->groups.at[i], value) &&
            (i < buffer->first_group || i > buffer->last_group))
            ice("plan: value %u is read outside its life", value->id);
    if (buffer->role == BUFFER_WORK && buffer->slot >= plan->n_slots)
        ice("plan: value %u is in slot %u of %u", value->id, buffer->slot, plan->n_slots);
}

void plan_verify(const Plan *plan) {
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        const Buffer *a = &plan->buffers.at[i];
        verify_buffer(plan, a);
        for (uint32_t k = 0; a->role == BUFFER_WORK && k < i; k++) {
            const Buffer *b = &plan->buffers.at[k];
            bool apart = a->first_group > b->last_group || b->first_group > a->last_group;
            if (b->role == BUFFER_WORK && a->slot == b->slot && !apart)
                ice("plan: values %u and %u are alive in one slot", b->value->id, a->value->id);
        }
    }
    for (uint32_t i = 0; i < plan->fusion->groups.count; i++)
        for (uint32_t k = 0; k < plan->fusion->groups.at[i]->outputs.count; k++)
            if (!plan_buffer(plan, plan->fusion->groups.at[i]->outputs.at[k]))
                ice("plan: value %u has no buffer", plan->fusion->groups.at[i]->outputs.at[k]->id);
}
