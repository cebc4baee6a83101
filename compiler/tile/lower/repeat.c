// SPDX-License-Identifier: Apache-2.0
// Groups that are equal but for the values and dims that they are about are lowered once: layers
// that repeat cost next to nothing after the first.
//
//     t1 = X + Y;  A = exp(t1)    over n d      launches: kernel 3 with (X, Y, A), n = n, d = d
//     t2 = Z + A;  B = exp(t2)    over n f      the same:  kernel 3 with (Z, A, B), n = n, d = f
//
// A group's form is what lowering sees of it, with values and dims numbered as they first appear.
// Groups of one form have the same launches once numbers stand for the other group's values.
#include "tile/lower/repeat.h"

#include <string.h>

typedef VEC(const Value *) Values;
typedef VEC(DimId) Dims;

typedef struct {
    const LowerRequest *request;
    const Group *group;
    Arena *arena;
    Values values;
    Dims dims;
    KernelForm form;
} Numbering;

struct KnownGroup {
    Values values; // by number
    Dims dims;
    uint32_t first, count; // its launches
};

// ---- form ---------------------------------------------------------------------------------------

static void add_word(Numbering *n, uint64_t word) {
    vec_push(n->arena, &n->form, word);
}

static uint32_t number_of_dim(Numbering *n, DimId dim) {
    for (uint32_t i = 0; i < n->dims.count; i++)
        if (n->dims.at[i] == dim)
            return i;
    vec_push(n->arena, &n->dims, dim);
    return n->dims.count - 1;
}

static void add_dim(Numbering *n, DimId dim) {
    add_word(n, dim == DIM_NONE ? UINT64_MAX : number_of_dim(n, dim));
}

static void add_dims(Numbering *n, const DimList *dims) {
    add_word(n, dims->count);
    for (uint32_t i = 0; i < dims->count; i++)
        add_dim(n, dims->at[i]);
}

static void add_memory(Numbering *n, const Value *value) {
    const Buffer *buffer = plan_buffer(n->request->plan, value);
    add_word(n, buffer != NULL);
    if (!buffer)
        return;
    add_dims(n, &buffer->memory.order);
    add_dim(n, buffer->memory.panel);
    add_word(n, (uint64_t)buffer->memory.panel_width);
}

static uint32_t number_of_value(const Numbering *n, const Value *value) {
    uint32_t i = 0;
    while (i < n->values.count && n->values.at[i] != value)
        i++;
    return i;
}

static void add_value(Numbering *n, const Value *value, bool member);

static void add_arg(Numbering *n, const Value *arg) {
    uint32_t number = number_of_value(n, arg);
    add_word(n, number);
    if (number == n->values.count) // not a member: those come before their users
        add_value(n, arg, false);
}

static void add_attributes(Numbering *n, const Value *value) {
    uint64_t number;
    memcpy(&number, &value->number, sizeof number);
    add_word(n, value->op | (uint64_t)value->made_for.twice << 32);
    add_word(n, number);
    add_word(n, (uint64_t)value->offset);
    add_dim(n, value->dim);
    add_dim(n, value->dim2);
    const Graph *graph = n->request->plan->fusion->graph;
    add_word(n, value->dim != DIM_NONE && graph->dims.at[value->dim].reversed);
    for (uint32_t i = 0; value->digits && i < value->digits->count; i++)
        add_dim(n, value->digits->at[i]);
    for (uint32_t i = 0; value->renames && i < value->renames->count; i++) {
        add_dim(n, value->renames->from[i]);
        add_dim(n, value->renames->to[i]);
    }
}

// Sums of a contraction lie in the memory of its result unless the group reads something there.
static bool is_in_result(const Numbering *n, const Value *value) {
    return n->group->contraction && value->op == OP_INPUT && use_is_in_result(value->use);
}

// A value that is stored elsewhere is its type and place alone, and whether a result lies there.
static void add_value(Numbering *n, const Value *value, bool member) {
    bool stored = !member && plan_buffer(n->request->plan, value);
    if (!member)
        vec_push(n->arena, &n->values, value);
    add_word(n, (uint64_t)is_in_result(n, value) << 33 | (uint64_t)stored << 32 | value->elem);
    add_dims(n, &value->dims);
    if (stored) {
        add_memory(n, value);
        return;
    }
    add_attributes(n, value);
    add_word(n, value->n_args);
    for (uint32_t i = 0; i < value->n_args; i++) {
        add_arg(n, value->args[i]);
        if (value->cats)
            add_dim(n, value->cats[i]);
    }
    if (member)
        vec_push(n->arena, &n->values, value);
}

// What lowering knows of a dim besides its extent, its place among the others by id included.
static void add_dim_facts(Numbering *n, uint32_t number) {
    const Graph *graph = n->request->plan->fusion->graph;
    DimId dim = n->dims.at[number];
    uint32_t rank = 0, like = number;
    for (uint32_t i = 0; i < n->dims.count; i++)
        rank += n->dims.at[i] < dim;
    for (uint32_t i = number; i-- > 0;)
        if (graph_dims_alike(graph, n->dims.at[i], dim))
            like = i;
    add_word(n, (uint64_t)rank << 32 | like);
}

static void add_extents(Numbering *n) {
    const Graph *graph = n->request->plan->fusion->graph;
    for (uint32_t i = 0; i < n->dims.count; i++) {
        add_word(n, (uint64_t)graph->dims.at[n->dims.at[i]].extent);
        add_word(n, (uint64_t)n->request->extents[n->dims.at[i]]);
    }
}

// But for extents.
static Numbering number_group(const LowerRequest *request, const Group *group, Arena *arena) {
    Numbering n = {.request = request, .group = group, .arena = arena};
    add_word(&n, group->kind);
    add_dims(&n, &group->rows);
    add_dims(&n, &group->reduced);
    add_dim(&n, group->cut);
    add_dim(&n, group->parts);
    for (uint32_t i = 0; i < group->members.count; i++)
        add_value(&n, group->members.at[i], true);
    add_word(&n, group->contraction ? number_of_value(&n, group->contraction) : UINT64_MAX);
    for (uint32_t i = 0; i < group->outputs.count; i++) {
        add_word(&n, number_of_value(&n, group->outputs.at[i]));
        add_memory(&n, group->outputs.at[i]);
        const Value *flag = lower_kept_by(request->plan, group->outputs.at[i]);
        add_word(&n, flag != NULL);
        if (flag)
            add_arg(&n, flag);
    }
    for (uint32_t i = 0; i < n.dims.count; i++)
        add_dim_facts(&n, i);
    return n;
}

ScheduleSite repeat_site(const LowerRequest *request, const Group *group, Arena *arena) {
    Arena *own = arena_new();
    const Graph *graph = request->plan->fusion->graph;
    Numbering n = number_group(request, group, own);
    Text extents = {.arena = own};
    text_add(&extents, "");
    for (uint32_t i = 0; i < n.dims.count; i++) {
        DimId dim = n.dims.at[i];
        bool dynamic = graph->dims.at[dim].extent == EXTENT_DYNAMIC;
        text_printf(&extents, "%s%s%lld", i ? " " : "", dynamic ? "~" : "",
                    (long long)request->extents[dim]);
    }
    ScheduleSite site = {hash_bytes(0, n.form.at, n.form.count * sizeof *n.form.at),
                         arena_strndup(arena, extents.at, extents.length)};
    arena_free(own);
    return site;
}

// ---- launches -----------------------------------------------------------------------------------

static DimId dim_here(const KnownGroup *known, const Numbering *n, DimId dim) {
    for (uint32_t i = 0; i < known->dims.count; i++)
        if (known->dims.at[i] == dim)
            return n->dims.at[i];
    ice("lower: a launch is over a dim that its group lacks");
}

static uint32_t buffer_here(const KnownGroup *known, const Numbering *n, uint32_t buffer) {
    const Plan *plan = n->request->plan;
    for (uint32_t i = 0; i < known->values.count; i++)
        if (known->values.at[i] == plan->buffers.at[buffer].value)
            return (uint32_t)(plan_buffer(plan, n->values.at[i]) - plan->buffers.at);
    ice("lower: a launch has a buffer that its group lacks");
}

static Launch launch_here(const TileProgram *program, const KnownGroup *known, const Numbering *n,
                          const Launch *launch, Arena *arena) {
    const Kernel *kernel = program->kernels.at[launch->kernel];
    Launch here = *launch;
    here.buffers = arena_array(arena, uint32_t, kernel->n_args);
    for (uint32_t i = 0; i < kernel->n_args; i++)
        here.buffers[i] = buffer_here(known, n, launch->buffers[i]);
    here.dims = arena_copy(arena, launch->dims, kernel->dims.count * sizeof *launch->dims);
    for (uint32_t d = 0; d < kernel->dims.count; d++)
        for (uint32_t i = 0; i < here.dims[d].count; i++)
            here.dims[d].at[i] = dim_here(known, n, here.dims[d].at[i]);
    if (launch->most)
        here.guard = dim_here(known, n, launch->guard);
    return here;
}

// ---- the table ----------------------------------------------------------------------------------

bool repeat_group(const LowerRequest *request, FormTable *known_groups, TileProgram *program,
                  const Group *group, KnownGroup **open) {
    Arena *lasting = request->plan->fusion->graph->arena, *arena = arena_new();
    Numbering n = number_group(request, group, arena);
    add_extents(&n);
    void **slot = form_table_at(known_groups, &n.form);
    KnownGroup *known = *slot;
    for (uint32_t i = 0; known && i < known->count; i++) {
        Launch here =
            launch_here(program, known, &n, &program->launches.at[known->first + i], lasting);
        here.group = group;
        vec_push(lasting, &program->launches, here);
    }
    if (!known) {
        *slot = *open = arena_new_of(lasting, KnownGroup);
        (*open)->first = program->launches.count;
        for (uint32_t i = 0; i < n.values.count; i++)
            vec_push(lasting, &(*open)->values, n.values.at[i]);
        for (uint32_t i = 0; i < n.dims.count; i++)
            vec_push(lasting, &(*open)->dims, n.dims.at[i]);
    }
    arena_free(arena);
    return known != NULL;
}

void repeat_close(KnownGroup *open, const TileProgram *program) {
    open->count = program->launches.count - open->first;
}
