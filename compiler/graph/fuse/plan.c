// SPDX-License-Identifier: Apache-2.0
// Buffers of a fused graph: what is stored, where, and for how long.
//
//     before  groups  0: Q   1: K   2: L (reads Q K)   3: W (reads L)   4: Y (reads W), a result
//     after   Q slot 0 [0, 2]   K slot 1 [1, 2]   L slot 2 [2, 3]   W slot 0 [3, 4]   Y output
//
// A work buffer lives from the group that writes it to the last that reads it, both included, so
// what a group reads and what it writes never share memory. Slots are given to the largest buffers
// first, of one size in the order of writing: a buffer takes the smallest slot in which no other is
// alive at the same time, or else a new one. With run-time extents both must have the same size for
// every extent (the same product). So a slot is as large as the first buffer in it, and no large
// buffer has to find room among slots that small ones hold.
//
// Requires: graph_fuse, graph_layout. Ensures: plan_verify.
#include "graph/fuse/layout.h"

#include <stdlib.h>

// Size of a buffer: bytes for the constant extents, and the classes of the run-time ones, sorted.
typedef struct {
    int64_t bytes; // INT64_MAX: too large
    uint32_t n_symbols;
    DimId symbols[DIMS_MAX];
    DimId panel; // a run-time extent that is rounded up to whole panels, or DIM_NONE
    int32_t panel_width;
} Size;

static int compare_dims(const void *a, const void *b) {
    DimId x = *(const DimId *)a, y = *(const DimId *)b;
    return (x > y) - (x < y);
}

static int64_t whole_panels(int64_t extent, int64_t width) {
    return round_up(extent, width);
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

// ---- lives -------------------------------------------------------------------------------------

enum { NO_GROUP = UINT32_MAX };
typedef struct {
    uint32_t *written, *read; // by value id: the group that stores it and the last that reads it
} Lives;

// Marks a value that a group reads, and what it is only another way to read of.
static void mark_read(const Lives *lives, const Value *value, uint32_t group) {
    lives->read[value->id] = group;
    while (op_may_be_view(value->op) && lives->written[value->id] == NO_GROUP) {
        value = value->args[0];
        lives->read[value->id] = group;
    }
}

static Lives find_lives(const Fusion *fusion, Arena *arena) {
    uint32_t count = fusion->graph->values.count;
    Lives lives = {arena_array(arena, uint32_t, count + 1),
                   arena_array(arena, uint32_t, count + 1)};
    for (uint32_t i = 0; i < count; i++)
        lives.written[i] = NO_GROUP;
    for (uint32_t i = 0; i < fusion->groups.count; i++) {
        const Group *group = fusion->groups.at[i];
        for (uint32_t k = 0; k < group->outputs.count; k++) {
            uint32_t id = group->outputs.at[k]->id;
            const Value *around = fusion->lies_in[id];
            lives.written[id] = lives.written[id] == NO_GROUP ? i : lives.written[id];
            if (around)
                lives.written[around->id] = lives.written[id];
        }
        for (uint32_t m = 0; m < group->members.count; m++)
            for (uint32_t k = 0; k < group->members.at[m]->n_args; k++)
                mark_read(&lives, group->members.at[m]->args[k], i);
    }
    return lives;
}

static uint32_t writing_group(const Lives *lives, const Value *value) {
    if (lives->written[value->id] == NO_GROUP)
        ice("plan: value %u is stored by no group", value->id);
    return lives->written[value->id];
}

// ---- buffers -----------------------------------------------------------------------------------

const Buffer *plan_buffer(const Plan *plan, const Value *value) {
    uint32_t place = plan->buffer_of[value->id];
    return place && place <= plan->buffers.count ? &plan->buffers.at[place - 1] : NULL;
}

static void plan_add(Plan *plan, Buffer buffer) {
    vec_push(plan->fusion->graph->arena, &plan->buffers, buffer);
    plan->buffer_of[buffer.value->id] = plan->buffers.count;
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

static void plan_work_buffers(Plan *plan, const MemoryOrder *orders, const Lives *lives) {
    const Fusion *fusion = plan->fusion;
    for (uint32_t i = 0; i < fusion->groups.count; i++) {
        const Group *group = fusion->groups.at[i];
        for (uint32_t k = 0; k < group->outputs.count; k++) {
            const Value *value = group->outputs.at[k];
            if (plan_buffer(plan, value))
                continue; // a result of the entry, or in its memory
            uint32_t read = lives->read[value->id];
            plan_add(plan, (Buffer){.value = value,
                                    .memory = orders[value->id],
                                    .role = BUFFER_WORK,
                                    .first_group = i,
                                    .last_group = read > i ? read : i});
        }
    }
}

// ---- slots -------------------------------------------------------------------------------------

typedef struct {
    Buffer *buffer;
    Size size;
} Sized;
typedef struct {
    Size size; // of the first, which is the largest
    VEC(const Buffer *) buffers;
} Slot;
typedef VEC(Slot) SlotList;

// The largest first; of one size in the order of writing.
static int compare_sized(const void *a, const void *b) {
    const Sized *x = a, *y = b;
    if (x->size.bytes != y->size.bytes)
        return (x->size.bytes < y->size.bytes) - (x->size.bytes > y->size.bytes);
    return (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

static bool slot_takes(const Slot *slot, const Sized *sized) {
    if (!size_same_symbols(&slot->size, &sized->size) ||
        (sized->size.n_symbols && slot->size.bytes != sized->size.bytes))
        return false;
    for (uint32_t i = slot->buffers.count; i-- > 0;)
        if (sized->buffer->first_group <= slot->buffers.at[i]->last_group &&
            slot->buffers.at[i]->first_group <= sized->buffer->last_group)
            return false;
    return true;
}

static uint32_t slot_find(Arena *arena, SlotList *slots, const Sized *sized) {
    uint32_t best = slots->count;
    for (uint32_t i = 0; i < slots->count; i++)
        if (slot_takes(&slots->at[i], sized) &&
            (best == slots->count || slots->at[i].size.bytes < slots->at[best].size.bytes))
            best = i;
    if (best == slots->count)
        vec_push(arena, slots, (Slot){.size = sized->size});
    vec_push(arena, &slots->at[best].buffers, sized->buffer);
    return best;
}

static void plan_slots(Plan *plan, Arena *arena) {
    VEC(Sized) work = {0};
    SlotList slots = {0};
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        Buffer *buffer = &plan->buffers.at[i];
        if (buffer->role == BUFFER_WORK)
            vec_push(arena, &work,
                     (Sized){buffer, size_of(plan->fusion->graph, buffer->value, &buffer->memory)});
    }
    if (work.count)
        qsort(work.at, work.count, sizeof *work.at, compare_sized);
    for (uint32_t i = 0; i < work.count; i++)
        work.at[i].buffer->slot = slot_find(arena, &slots, &work.at[i]);
    plan->n_slots = slots.count;
}

static void plan_view(Plan *plan, const Value *value, MemoryOrder memory, const Buffer *of) {
    uint32_t index = (uint32_t)(of - plan->buffers.at);
    plan_add(plan, (Buffer){.value = value,
                            .memory = memory,
                            .role = BUFFER_VIEW,
                            .of = of->role == BUFFER_VIEW ? of->of : index,
                            .first_group = of->first_group,
                            .last_group = of->last_group});
}

// What is written in the memory of a result.
static void plan_views_of_results(Plan *plan, const MemoryOrder *orders) {
    const Fusion *fusion = plan->fusion;
    for (uint32_t i = 0; i < fusion->graph->values.count; i++)
        if (fusion->lies_in[i])
            plan_view(plan, fusion->graph->values.at[i], orders[i],
                      plan_buffer(plan, fusion->lies_in[i]));
}

// Splits and merges that no group stores, where memory allows.
static void plan_views(Plan *plan, const Lives *lives) {
    const Graph *graph = plan->fusion->graph;
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        const Buffer *of = op_regroups(value->op) ? plan_buffer(plan, value->args[0]) : NULL;
        MemoryOrder memory = {.panel = DIM_NONE};
        if (of && lives->written[i] == NO_GROUP && of->memory.panel == DIM_NONE &&
            regroup_order(value, &of->memory.order, &memory.order))
            plan_view(plan, value, memory, of);
    }
}

// Sizes are compared as products, so they hold for every extent.
Plan *graph_plan(const Fusion *fusion, const MemoryOrder *orders) {
    const Graph *graph = fusion->graph;
    Arena *arena = arena_new();
    Lives lives = find_lives(fusion, arena);
    Plan *plan = arena_new_of(graph->arena, Plan);
    plan->fusion = fusion;
    plan->buffer_of = arena_array(graph->arena, uint32_t, graph->values.count + 1);
    uint32_t last = fusion->groups.count ? fusion->groups.count - 1 : 0;
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *value = graph->inputs.at[i];
        plan_add(plan, (Buffer){.value = value,
                                .memory = orders[value->id],
                                .role = BUFFER_INPUT,
                                .last_group = lives.read[value->id]});
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const Value *value = graph->outputs.at[i].value;
        uint32_t written = writing_group(&lives, value);
        plan_add(plan, (Buffer){.value = value,
                                .memory = orders[value->id],
                                .role = BUFFER_OUTPUT,
                                .first_group = written,
                                .last_group = last});
    }
    plan_views_of_results(plan, orders);
    plan_work_buffers(plan, orders, &lives);
    plan_views(plan, &lives);
    plan_slots(plan, arena);
    arena_free(arena);
    return plan;
}

Plan *plan_in_arena(const Plan *plan, Arena *arena) {
    Graph *graph = arena_copy(arena, plan->fusion->graph, sizeof *graph);
    Fusion *fusion = arena_copy(arena, plan->fusion, sizeof *fusion);
    Plan *copy = arena_copy(arena, plan, sizeof *plan);
    graph->arena = arena;
    fusion->graph = graph;
    copy->fusion = fusion;
    return copy;
}

// ---- workspace ---------------------------------------------------------------------------------

enum { SLOT_ALIGN = 64 }; // as runtime/module.c has it

static int64_t buffer_bytes(const Buffer *buffer, const int64_t *extents) {
    int64_t bytes;
    return mul_i64(buffer_elements(buffer, extents), (int64_t)elem_bytes(buffer->value->elem),
                   &bytes) &&
                   bytes <= INT64_MAX - SLOT_ALIGN
               ? round_up(bytes, SLOT_ALIGN)
               : -1;
}

int64_t plans_workspace(const Plan *const *plans, const int64_t *const *extents, uint32_t count) {
    Arena *arena = arena_new();
    VEC(int64_t) slots = {0};
    int64_t total = 0;
    for (uint32_t p = 0; p < count; p++)
        for (uint32_t i = 0; i < plans[p]->buffers.count; i++) {
            const Buffer *buffer = &plans[p]->buffers.at[i];
            if (buffer->role != BUFFER_WORK)
                continue;
            while (slots.count <= buffer->slot)
                vec_push(arena, &slots, 0);
            int64_t bytes = buffer_bytes(buffer, extents[p]), *slot = &slots.at[buffer->slot];
            *slot = bytes < 0 || *slot < 0 ? -1 : bytes > *slot ? bytes : *slot;
        }
    for (uint32_t i = 0; i < slots.count && total >= 0; i++)
        if (slots.at[i] < 0 || !add_i64(total, slots.at[i], &total))
            total = -1;
    arena_free(arena);
    return total;
}

// ---- verifier ----------------------------------------------------------------------------------

static void verify_buffer(const Plan *plan, const Buffer *buffer, const Lives *lives) {
    const Value *value = buffer->value;
    if (!dims_equal(&buffer->memory.order, &value->dims))
        ice("plan: the order of value %u is no permutation of its dims", value->id);
    if (plan_buffer(plan, value) != buffer)
        ice("plan: value %u has two buffers", value->id);
    if (buffer->role == BUFFER_VIEW && plan->buffers.at[buffer->of].role == BUFFER_VIEW)
        ice("plan: value %u is a view of a view", value->id);
    if (buffer->role == BUFFER_INPUT || buffer->role == BUFFER_VIEW)
        return;
    if (buffer->first_group != writing_group(lives, value))
        ice("plan: value %u does not live from where it is written", value->id);
    if (buffer->role == BUFFER_WORK && buffer->slot >= plan->n_slots)
        ice("plan: value %u is in slot %u of %u", value->id, buffer->slot, plan->n_slots);
}

static void verify_reads(const Plan *plan, uint32_t number) {
    const Group *group = plan->fusion->groups.at[number];
    for (uint32_t i = 0; i < group->members.count; i++)
        for (uint32_t k = 0; k < group->members.at[i]->n_args; k++) {
            const Value *value = group->members.at[i]->args[k];
            while (op_may_be_view(value->op) && !plan_buffer(plan, value))
                value = value->args[0];
            const Buffer *buffer = plan_buffer(plan, value);
            if (buffer && buffer->role == BUFFER_VIEW)
                buffer = &plan->buffers.at[buffer->of];
            if (buffer && buffer->role != BUFFER_INPUT &&
                (number < buffer->first_group || number > buffer->last_group))
                ice("plan: value %u is read outside its life", buffer->value->id);
        }
}

// Work buffers are in the order in which they are written.
static void verify_slots(const Plan *plan, Arena *arena) {
    const Buffer **latest = arena_array(arena, const Buffer *, plan->n_slots + 1);
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        const Buffer *b = &plan->buffers.at[i];
        if (b->role != BUFFER_WORK)
            continue;
        const Buffer *a = latest[b->slot];
        if (a && b->first_group <= a->last_group)
            ice("plan: values %u and %u are alive in one slot", a->value->id, b->value->id);
        latest[b->slot] = b;
    }
}

void plan_verify(const Plan *plan) {
    const Fusion *fusion = plan->fusion;
    Arena *arena = fusion->graph->arena;
    Lives lives = find_lives(fusion, arena);
    for (uint32_t i = 0; i < plan->buffers.count; i++)
        verify_buffer(plan, &plan->buffers.at[i], &lives);
    verify_slots(plan, arena);
    for (uint32_t i = 0; i < fusion->groups.count; i++) {
        verify_reads(plan, i);
        for (uint32_t k = 0; k < fusion->groups.at[i]->outputs.count; k++)
            if (!plan_buffer(plan, fusion->groups.at[i]->outputs.at[k]))
                ice("plan: value %u has no buffer", fusion->groups.at[i]->outputs.at[k]->id);
    }
}
