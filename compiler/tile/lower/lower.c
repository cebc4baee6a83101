// SPDX-License-Identifier: Apache-2.0
// Plan -> tile program: each group of the plan becomes a kernel, or several when its results differ
// in shape, equal kernels are kept once.
//
//     def F(A[n, d], B[d, f]):                    kernel C          launch C(A, B, C) with n d f
//         C[n, f] = relu(einsum(A, B))      ->      ...
//         D[n, g] = relu(einsum(A, E))            launch C(A, E, D) with n d g
//
// Requires: a plan (every value that a group reads is stored by then). Ensures: kernels pass
// kernel_verify; every buffer that the plan gives to a group is written by one of its launches.
#include "tile/lower/repeat.h"

#include <string.h>

typedef struct {
    const LowerRequest *request;
    Arena *arena;
    TileProgram *program;
    FormTable *kernels; // -> index in program
    FormTable *groups;  // -> KnownGroup
    Map *names;         // hash of a kernel's name -> the number of kernels that wanted it
    bool fits;          // the forced plan, some group
    bool refused;       // a group, which no kernel computes
    uint32_t *place;    // by value id: see place_of
} Lowerer;

// ---- parts of a group ----

static void find_places(Lowerer *p, const Group *group) {
    for (uint32_t i = 0; i < group->members.count; i++)
        p->place[group->members.at[i]->id] = i;
}

// The place of a value among the members of the group that places were found for, or their number.
static uint32_t place_of(const Lowerer *p, const Group *group, const Value *value) {
    uint32_t place = p->place[value->id], count = group->members.count;
    return place < count && group->members.at[place] == value ? place : count;
}

// By place in the members, and of all other values: is it needed for one of the outputs?
static bool *find_needed(Lowerer *p, const Group *group, Value *const *outputs, uint32_t n) {
    bool *needed = arena_array(p->arena, bool, group->members.count + 1);
    for (uint32_t i = 0; i < n; i++)
        needed[place_of(p, group, outputs[i])] = true;
    for (uint32_t i = group->members.count; i-- > 0;) {
        const Value *value = group->members.at[i];
        for (uint32_t a = 0; needed[i] && a < value->n_args; a++)
            needed[place_of(p, group, value->args[a])] = true;
    }
    return needed;
}

// A split or merge that the group reads from memory under its own dims.
static bool is_view(const Plan *plan, const Group *group, const Value *member) {
    return op_regroups(member->op) && plan_buffer(plan, member) && !group_stores(group, member);
}

// The group with some of its outputs and what they need.
static Group *group_part(Lowerer *p, const Group *group, Value *const *outputs, uint32_t n) {
    Group *part = arena_new_of(p->arena, Group);
    part->kind = group->kind;
    part->rows = group->rows;
    part->reduced = group->reduced;
    part->cut = group->cut;
    part->parts = group->parts;
    const bool *needed = find_needed(p, group, outputs, n);
    for (uint32_t i = 0; i < n; i++)
        vec_push(p->arena, &part->outputs, outputs[i]);
    for (uint32_t i = 0; i < group->members.count; i++)
        if (needed[i] && !is_view(p->request->plan, group, group->members.at[i]))
            vec_push(p->arena, &part->members, group->members.at[i]);
    if (group->contraction && needed[place_of(p, group, group->contraction)])
        part->contraction = group->contraction;
    return part;
}

// Results that one kernel computes together: those after the contraction, those along the same
// rows, or pointwise ones of the same dims. is_after: does it depend on the contraction?
static bool go_together(const Group *group, const Value *a, const Value *b, bool a_is_after,
                        bool b_is_after) {
    if (group->kind != GROUP_CONTRACT && group->kind != GROUP_MAP)
        return true;
    if (a_is_after || b_is_after)
        return a_is_after && b_is_after;
    return dims_equal(&a->dims, &b->dims);
}

// By output: does it depend on the contraction? Members are in order of id, arguments first.
static bool *find_after(Lowerer *p, const Group *group) {
    bool *member = arena_array(p->arena, bool, group->members.count + 1);
    for (uint32_t i = 0; i < group->members.count; i++) {
        const Value *value = group->members.at[i];
        member[i] = value == group->contraction;
        for (uint32_t a = 0; a < value->n_args; a++)
            member[i] = member[i] || member[place_of(p, group, value->args[a])];
    }
    bool *after = arena_array(p->arena, bool, group->outputs.count + 1);
    for (uint32_t o = 0; o < group->outputs.count; o++)
        after[o] = member[place_of(p, group, group->outputs.at[o])];
    return after;
}

// ---- one part -> one launch ----

// Kernels are called after what they make; of those that make things of one name, as in the rounds
// of a loop, all but the first have a number.
static void name_apart(Lowerer *p, Kernel *kernel) {
    Name wanted = kernel->name;
    uint32_t *count = map_get(p->names, hash_text(0, wanted)), *other = count;
    if (!count)
        map_put(p->names, hash_text(0, wanted), arena_new_of(p->arena, uint32_t));
    while (other) {
        kernel->name = arena_printf(kernel->arena, "%s_%u", wanted, ++*count);
        other = map_get(p->names, hash_text(0, kernel->name));
        if (!other)
            map_put(p->names, hash_text(0, kernel->name), arena_new_of(p->arena, uint32_t));
    }
}

// The kernel, which has an arena of its own, or one that is equal.
static uint32_t add_kernel(Lowerer *p, Kernel *kernel) {
    Arena *arena = arena_new();
    KernelForm form = kernel_form(arena, kernel);
    void **index = form_table_at(p->kernels, &form);
    arena_free(arena);
    if (!*index) {
        *index = arena_copy(p->arena, &p->program->kernels.count, sizeof(uint32_t));
        name_apart(p, kernel);
        vec_push(p->arena, &p->program->kernels, kernel);
        arena_adopt(p->arena, kernel->arena);
    } else {
        arena_free(kernel->arena);
    }
    return *(uint32_t *)*index;
}

// The forced plan fits no group: the first one says why.
static void tell_misfit(const Lowerer *p) {
    const Graph *graph = p->request->plan->fusion->graph;
    const PlanMisfit *misfit = &p->program->misfits.at[0];
    const Value *output = misfit->group->outputs.at[0];
    Diag *diag =
        diag_error(graph->session->diags, output->origin, "plan %s does not fit %s%s%s: %s",
                   plan_names[p->request->wish.forced.plan], output->hint ? "'" : "",
                   output->hint ? output->hint : "this", output->hint ? "'" : "", misfit->why);
    diag_hint(diag, "the sums of gradients count too; without --plan the cheapest one that fits is "
                    "taken");
    if (misfit->by && !span_same(misfit->by->origin, output->origin))
        diag_note(diag, misfit->by->origin, misfit->by->hint ? "'%s' is computed here" : "here",
                  misfit->by->hint);
}

static bool dims_fit(Lowerer *p, Group *part) {
    if (p->request->plan->fusion->graph->dims.count <= GROUP_DIMS_MAX)
        return true;
    Arena *arena = arena_new();
    Lowering lower;
    lower_open(&lower, p->request, part, arena, arena);
    bool fit = lower_dims_fit(&lower);
    arena_free(arena);
    return fit;
}

// What is one value, or one scan, cannot be several kernels; all else was not joined (graph_fuse).
typedef struct {
    const char *what, *hint;
} DimsProblem;
static const DimsProblem too_many_in_scan = {
    "this scan", "states that do not read each other can be carried by scans of their own"};
static const DimsProblem too_many_in_concat = {
    "this concat", "put some parts together first: A = concat(..), B = concat(..), concat(A, B)"};
static const DimsProblem too_many = {"this", "what has a name can be computed by itself"};

static void refuse_dims(Lowerer *p, const Group *part) {
    Diags *diags = p->request->plan->fusion->graph->session->diags;
    const Value *to_blame = NULL, *concat = NULL;
    bool backward = false;
    for (uint32_t i = 0; i < part->members.count; i++) {
        const Value *member = part->members.at[i];
        to_blame = member->origin.file ? member : to_blame;
        concat = member->op == OP_CONCAT ? member : concat;
        backward = backward || member->made_for.backward;
    }
    const DimsProblem *problem = part->kind == GROUP_SCAN ? &too_many_in_scan
                                 : concat                 ? &too_many_in_concat
                                                          : &too_many;
    if (problem == &too_many_in_concat)
        to_blame = concat;
    diag_hint(diag_error(diags, to_blame ? to_blame->origin : (Span){0},
                         "%s%s takes more than the %d dims that one kernel has",
                         backward ? "the gradient of " : "", problem->what, GROUP_DIMS_MAX),
              "%s", problem->hint);
    p->refused = true;
}

static void finish_kernel(Lowerer *p, Lowering *lower, Launch launch) {
    Kernel *kernel = lower->kernel;
    kernel_verify(kernel, "lower");
    launch.buffers = arena_copy(p->arena, lower->launch_buffers.at,
                                lower->launch_buffers.count * sizeof *lower->launch_buffers.at);
    launch.dims = arena_copy(p->arena, lower->products.at,
                             lower->products.count * sizeof *lower->products.at);
    launch.kernel = add_kernel(p, kernel);
    vec_push(p->arena, &p->program->launches, launch);
}

// Extents up to which one schedule serves, and what it is made for.
static const struct {
    int64_t typical, most;
} sizes[] = {{256, 768}, {1024, 1536}, {2048, 5000}, {8192, INT64_MAX}};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

// The typical extents when the group's run-time dims that are streamed or rows have this one.
static int64_t *extents_of_size(const Lowerer *p, const Group *part, int64_t size) {
    const Graph *graph = p->request->plan->fusion->graph;
    uint32_t count = graph->dims.count;
    int64_t *extents = arena_copy(p->arena, p->request->extents, count * sizeof *extents);
    DimId streamed = part->reduced.at[0];
    for (uint32_t d = 0; d < count; d++)
        if (graph_dims_alike(graph, (DimId)d, streamed))
            extents[d] = size;
    return extents;
}

// The plan for a group: the forced one, unless that cannot do it.
static PlanKind plan_for(Lowerer *p, const Group *group, Group *part) {
    PlanKind forced = p->request->wish.forced.plan;
    if (forced == PLAN_ANY)
        return forced;
    Arena *arena = arena_new();
    Lowering lower;
    lower_open(&lower, p->request, part, arena, arena);
    lower_arguments(&lower);
    bool fits = lower_stream(&lower, &(StreamSchedule){.plan = forced, .rows = 8, .piece = 1});
    if (!fits) {
        PlanMisfit misfit = lower_misfit(&lower, forced);
        misfit.group = group;
        misfit.plan = forced;
        misfit.why = arena_strndup(p->arena, misfit.why, strlen(misfit.why));
        vec_push(p->arena, &p->program->misfits, misfit);
    }
    p->fits |= fits;
    arena_free(arena);
    return fits ? forced : PLAN_ANY;
}

// With the schedule, or with the default one (NULL). false: it does not hold for the part. What was
// looked up is taken whole or not at all.
static bool try_kernel(const LowerRequest *request, Group *part, const Schedule *wanted,
                       Lowering *lower, Arena *arena) {
    Text why = {.arena = arena};
    lower_open(lower, request, part, arena, arena_new());
    lower_arguments(lower);
    lower->wanted = wanted;
    bool fits = lower_kind(lower) && (!wanted || kernel_check(lower->kernel, &why));
    if (fits && (!wanted || !wanted->found || schedule_same(wanted, &lower->kernel->schedule)))
        return true;
    arena_free(lower->kernel->arena);
    return false;
}

static void make_kernel(Lowerer *p, const LowerRequest *request, Group *part, Launch launch) {
    Lowering lower;
    Arena *arena = arena_new();
    launch.site = repeat_site(request, part, p->arena);
    const Schedule *wanted = lower_wanted(arena, request, &launch.site, part);
    const ScheduleSource *source = &request->wish.source;
    bool taken = try_kernel(request, part, wanted, &lower, arena);
    if (!taken && wanted && wanted->found && source->refuse)
        source->refuse(source->known, &launch.site);
    if (!taken && !try_kernel(request, part, NULL, &lower, arena))
        ice("lower: '%s' has no plan", part->outputs.at[0]->hint);
    lower.kernel->schedule.found = lower.wanted ? wanted->found : NULL;
    finish_kernel(p, &lower, launch);
    arena_free(arena);
}

// One kernel when the streamed dim's extent is known, otherwise one for each size that wants
// another.
static void lower_streamed(Lowerer *p, const Group *group, Group *part) {
    const Graph *graph = p->request->plan->fusion->graph;
    DimId streamed = part->reduced.at[0];
    bool fixed = graph->dims.at[streamed].extent != EXTENT_DYNAMIC;
    LowerRequest request = *p->request;
    request.wish.forced.plan = plan_for(p, group, part);
    if (request.wish.forced.plan == PLAN_ANY)
        request.wish.forced = (StreamSchedule){0};
    else
        request.wish.source = (ScheduleSource){0};
    Launch launch = {.group = group, .guard = streamed, .least = 0};
    for (uint32_t i = 0; i < (fixed ? 1 : N_SIZES); i++) {
        if (!fixed)
            request.extents = extents_of_size(p, part, sizes[i].typical);
        launch.most = fixed ? 0 : sizes[i].most;
        make_kernel(p, &request, part, launch);
        Launch *last = &p->program->launches.at[p->program->launches.count - 1];
        if (i > 0 && last[-1].kernel == last->kernel) { // the one before serves these extents, too
            last[-1].most = last->most;
            p->program->launches.count--;
        }
        launch.least = sizes[i].most;
    }
}

static void lower_part(Lowerer *p, const Group *group, Group *part) {
    if (!dims_fit(p, part))
        refuse_dims(p, part);
    else if (part->kind == GROUP_STREAM)
        lower_streamed(p, group, part);
    else
        make_kernel(p, p->request, part, (Launch){.group = group});
}

static void lower_new_group(Lowerer *p, const Group *group) {
    uint32_t n = group->outputs.count;
    find_places(p, group);
    bool *done = arena_array(p->arena, bool, n + 1), *after = find_after(p, group);
    Value **outputs = arena_array(p->arena, Value *, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        if (done[i])
            continue;
        uint32_t count = 0;
        for (uint32_t k = i; k < n; k++) {
            if (done[k] ||
                !go_together(group, group->outputs.at[i], group->outputs.at[k], after[i], after[k]))
                continue;
            outputs[count++] = group->outputs.at[k];
            done[k] = true;
        }
        lower_part(p, group, group_part(p, group, outputs, count));
    }
}

static void lower_group(Lowerer *p, const Group *group) {
    KnownGroup *open;
    if (p->request->wish.forced.plan != PLAN_ANY) { // misfits are told of by group
        lower_new_group(p, group);
    } else if (!repeat_group(p->request, p->groups, p->program, group, &open)) {
        lower_new_group(p, group);
        repeat_close(open, p->program);
    }
}

TileProgram *tile_lower(const Plan *plan, const Machine *machine, const int64_t *extents,
                        const ScheduleWish *wish) {
    Arena *arena = plan->fusion->graph->arena;
    LowerRequest request = {.plan = plan,
                            .machine = machine,
                            .extents = extents,
                            .wish = *wish,
                            .streams = form_table_new(arena),
                            .contractions = form_table_new(arena),
                            .rows = form_table_new(arena),
                            .near = form_table_new(arena)};
    Lowerer p = {.request = &request,
                 .arena = arena,
                 .program = arena_new_of(arena, TileProgram),
                 .kernels = form_table_new(arena),
                 .groups = form_table_new(arena),
                 .names = map_new(arena),
                 .place = arena_array(arena, uint32_t, plan->fusion->graph->values.count + 1)};
    p.program->plan = plan;
    for (uint32_t i = 0; i < plan->fusion->groups.count; i++)
        lower_group(&p, plan->fusion->groups.at[i]);
    if (p.refused)
        return NULL;
    if (!p.program->misfits.count || p.fits)
        return p.program;
    tell_misfit(&p);
    return NULL;
}
