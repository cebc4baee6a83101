// SPDX-License-Identifier: Apache-2.0
// What can be chosen for a whole program, before it has kernels, and what such a choice is for.
//
// A program is told from others by its graph as it is before groups are made. Values and dims are
// numbered as they are first met on the way from the results to what they are made of, arguments
// first, so that neither names nor the order of definitions matter:
//
//     Q = X P;  W = softmax(Q K);  O = W V        0: X  1: P  2: Q  3: K  4: Q K  5: W  6: V  7: O
#include <string.h>

#include "tile/schedule/schedule.h"

// ---- what can be chosen -------------------------------------------------------------------------

static void add_choice(Arena *arena, const ProgramSchedule *choice, ScheduleList *list) {
    uint32_t i = 0;
    while (i < list->count && !schedule_same_program(&list->at[i].program, choice))
        i++;
    if (i == list->count)
        vec_push(arena, list, (Schedule){.kind = SCHEDULE_PROGRAM, .program = *choice});
}

// What differs from it in one word of one decision, or in one kind of values that lies in panels.
static void add_neighbours(Arena *arena, const ProgramSchedule *choice, ScheduleList *list) {
    enum { KINDS = 4 }; // chosen: layers and their gradients have no more
    ScheduleFields fields = schedule_fields(SCHEDULE_PROGRAM);
    for (int i = 0; i < fields.count; i++) {
        const ScheduleField *field = &fields.at[i];
        Schedule other = {.kind = SCHEDULE_PROGRAM, .program = *choice};
        int64_t own = schedule_field(&other, field);
        int64_t count = field->words ? field->most + 1 : KINDS;
        for (int64_t k = 0; k < count; k++) {
            schedule_field_set(&other, field, field->words ? k : own ^ (int64_t)1 << k);
            add_choice(arena, &other.program, list);
        }
    }
}

ScheduleList schedule_enumerate_programs(Arena *arena, const ProgramSchedule *known) {
    static const ProgramSchedule by_cost = {0};
    ScheduleList list = {0};
    add_choice(arena, &by_cost, &list);
    if (known)
        add_choice(arena, known, &list);
    add_neighbours(arena, &by_cost, &list);
    if (known)
        add_neighbours(arena, known, &list);
    return list;
}

// ---- what it is for -----------------------------------------------------------------------------

typedef struct {
    const Graph *graph;
    Arena *arena;
    uint32_t *numbers; // by value id: from 1; 0: it was not met
    uint32_t count;
    VEC(DimId) dims;               // by number
    VEC(const CodeBlock *) blocks; // checkpointed ones, likewise
    VEC(uint64_t) form;
} Numbering;

static void add_word(Numbering *n, uint64_t word) {
    vec_push(n->arena, &n->form, word);
}

static void add_dim(Numbering *n, DimId dim) {
    uint32_t i = 0;
    while (i < n->dims.count && n->dims.at[i] != dim)
        i++;
    if (i == n->dims.count && dim != DIM_NONE)
        vec_push(n->arena, &n->dims, dim);
    add_word(n, dim == DIM_NONE ? UINT64_MAX : i);
}

static void add_dims(Numbering *n, const DimList *dims) {
    add_word(n, dims ? dims->count : 0);
    for (uint32_t i = 0; dims && i < dims->count; i++)
        add_dim(n, dims->at[i]);
}

static void add_renames(Numbering *n, const DimMap *renames) {
    add_word(n, renames ? renames->count : 0);
    for (uint32_t i = 0; renames && i < renames->count; i++) {
        add_dim(n, renames->from[i]);
        add_dim(n, renames->to[i]);
    }
}

// The outermost checkpointed block that it is of: what is kept depends on it.
static void add_block(Numbering *n, const CodeBlock *block) {
    const CodeBlock *outermost = NULL;
    for (; block; block = block->around)
        outermost = block->checkpointed ? block : outermost;
    uint32_t i = 0;
    while (i < n->blocks.count && n->blocks.at[i] != outermost)
        i++;
    if (i == n->blocks.count && outermost)
        vec_push(n->arena, &n->blocks, outermost);
    add_word(n, outermost ? i + 1 : 0);
}

// Requires: its arguments have numbers.
static void add_value(Numbering *n, const Value *value) {
    uint64_t number;
    memcpy(&number, &value->number, sizeof number);
    n->numbers[value->id] = ++n->count;
    add_word(n, (uint64_t)value->op << 32 | value->elem);
    add_word(n, number);
    add_word(n, (uint64_t)value->offset);
    add_word(n, (uint64_t)value->made_for.turn << 32 | value->made_for.backward << 2 |
                    value->made_for.twice << 1 |
                    (value->op == OP_INPUT && value->role == ROLE_PARAM));
    add_word(n, value->op == OP_INPUT ? value->use : 0);
    add_block(n, value->made_for.block);
    add_dims(n, &value->dims);
    add_dim(n, value->dim);
    add_dim(n, value->dim2);
    add_dims(n, value->digits);
    add_renames(n, value->renames);
    add_word(n, value->n_args);
    for (uint32_t i = 0; i < value->n_args; i++) {
        add_word(n, n->numbers[value->args[i]->id]);
        if (value->cats)
            add_dim(n, value->cats[i]);
    }
}

static const Value *first_unmet(const Numbering *n, const Value *value) {
    for (uint32_t i = 0; i < value->n_args; i++)
        if (!n->numbers[value->args[i]->id])
            return value->args[i];
    return NULL;
}

// The value, after all that it is made of: graphs are too deep for a function that calls itself.
static void meet(Numbering *n, const Value *value) {
    VEC(const Value *) open = {0};
    vec_push(n->arena, &open, value);
    while (open.count) {
        const Value *last = open.at[open.count - 1];
        const Value *before = n->numbers[last->id] ? NULL : first_unmet(n, last);
        if (before) {
            vec_push(n->arena, &open, before);
            continue;
        }
        if (!n->numbers[last->id])
            add_value(n, last);
        open.count--;
    }
}

// What decisions depend on beside its extent.
static void add_dim_facts(Numbering *n, uint32_t number) {
    const Dim *dim = &n->graph->dims.at[n->dims.at[number]];
    uint32_t like = number;
    for (uint32_t i = number; i-- > 0;)
        if (graph_dims_alike(n->graph, n->dims.at[i], n->dims.at[number]))
            like = i;
    add_word(n, (uint64_t)like << 32 | dim->reversed << 1 | dim->table);
}

ScheduleSite schedule_program_site(Arena *arena, const Graph *graph, const int64_t *extents) {
    enum { PROGRAMS = 1 }; // a seed of their own
    Arena *own = arena_new();
    Numbering n = {.graph = graph, .arena = own};
    Text text = {.arena = own};
    n.numbers = arena_array(own, uint32_t, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const Output *output = &graph->outputs.at[i];
        meet(&n, output->value);
        add_word(&n, (uint64_t)n.numbers[output->value->id] << 32 | output->use);
        add_dims(&n, &output->order);
    }
    text_add(&text, "");
    for (uint32_t i = 0; i < n.dims.count; i++) {
        bool dynamic = graph->dims.at[n.dims.at[i]].extent == EXTENT_DYNAMIC;
        add_dim_facts(&n, i);
        text_printf(&text, "%s%s%lld", i ? " " : "", dynamic ? "~" : "",
                    (long long)extents[n.dims.at[i]]);
    }
    ScheduleSite site = {hash_bytes(PROGRAMS, n.form.at, n.form.count * sizeof *n.form.at),
                         arena_strndup(arena, text.at, text.length)};
    arena_free(own);
    return site;
}

// ---- which programs are the same ----------------------------------------------------------------

static bool same_form(const KernelForm *a, const KernelForm *b) {
    return a->count == b->count && !memcmp(a->at, b->at, a->count * sizeof *a->at);
}

bool programs_same_kernels(const TileProgram *a, const TileProgram *b) {
    bool same = a->launches.count == b->launches.count;
    for (uint32_t i = 0; i < a->launches.count && same; i++) {
        Arena *arena = arena_new();
        KernelForm left = kernel_form(arena, a->kernels.at[a->launches.at[i].kernel]);
        KernelForm right = kernel_form(arena, b->kernels.at[b->launches.at[i].kernel]);
        same = same_form(&left, &right);
        arena_free(arena);
    }
    return same;
}
