// SPDX-License-Identifier: Apache-2.0
// The dims and arguments of a group's kernel.
//
// Dims x, y of the graph become one kernel dim when every access of the group that has one of them
// has x directly followed by y in memory, every value of the group has both or neither, and nothing
// looks at one of them alone (index, extent, row functions, moves):
//
//     Q[b n f] = X[b n d] P[d f]     ->  kernel dims  b_n d f
//
// A renamed argument (M[m d] = X over m) is declared under its new dim when the group reads it in
// no other way, so that it looks like any other argument.
#include "tile/lower/lower.h"

#include <string.h>

// ---- an empty kernel ----

void lower_open(Lowering *lower, const LowerRequest *request, Group *part, Arena *arena,
                Arena *kernel_arena) {
    const Graph *graph = request->plan->fusion->graph;
    *lower = (Lowering){.request = request,
                        .plan = request->plan,
                        .graph = graph,
                        .machine = request->machine,
                        .extents = request->extents,
                        .arena = arena,
                        .group = part};
    lower->kernel = kernel_new(kernel_arena, value_label(kernel_arena, part->outputs.at[0]));
    lower->dim_of = arena_array(arena, TileDimId, graph->dims.count + 1);
    memset(lower->dim_of, TILE_DIM_NONE, graph->dims.count);
    lower->is_member = arena_array(arena, bool, graph->values.count + 1);
    lower->is_renamed = arena_array(arena, bool, graph->values.count + 1);
    lower->home = arena_array(arena, int32_t, graph->values.count + 1);
    lower->designated = arena_array(arena, int32_t, graph->values.count + 1);
    for (uint32_t i = 0; i < part->members.count; i++)
        lower->is_member[part->members.at[i]->id] = true;
}

// ---- what the group reads and writes ----

typedef struct {
    const Value *value; // stored
    DimList order;      // its memory order, with the dims under which it is accessed
} MemoryUse;

typedef struct {
    Lowering *lower;
    VEC(MemoryUse) uses;       // reads in order of first appearance, then writes
    VEC(const Value *) values; // members and what they read
    bool *pinned;              // by DimId: a kernel dim of its own
    VEC(DimId) needed;         // dims that no access shows
    uint32_t n_reads;          // of the uses
    bool too_many;             // there are more than GROUP_DIMS_MAX kernel dims
} Survey;

static const DimList *stored_order(const Lowering *lower, const Value *value) {
    const Buffer *buffer = plan_buffer(lower->plan, value);
    if (!buffer)
        ice("tile lower: value %u (%s) is read but not stored", value->id, op_name(value->op));
    return &buffer->memory.order;
}

// Panels are cut along one dim of its own.
static void pin_panel(Survey *s, const MemoryUse *use) {
    const Buffer *buffer = plan_buffer(s->lower->plan, use->value);
    if (buffer->memory.panel != DIM_NONE)
        s->pinned[use->order.at[use->order.count - 1]] = true;
}

// What lies in memory under a value that may be only another way to read it.
static MemoryUse use_of(Survey *s, const Value *value) {
    if (plan_buffer(s->lower->plan, value) || !op_is_reading(value->op))
        return (MemoryUse){value, *stored_order(s->lower, value)};
    MemoryUse use = use_of(s, value->args[0]);
    if (value->op == OP_RENAME)
        use.order = dims_renamed(&use.order, value->renames);
    else
        s->pinned[value->dim] = true;
    return use;
}

// names: other ones for its dims, or NULL.
static void survey_use(Survey *s, const Value *value, const DimMap *names) {
    MemoryUse use = use_of(s, value);
    if (names)
        use.order = dims_renamed(&use.order, names);
    pin_panel(s, &use);
    vec_push(s->lower->arena, &s->uses, use);
    vec_push(s->lower->arena, &s->values, use.value);
}

// What a scan leaves is written position by position of the scan's dim.
static void survey_output(Survey *s, const Value *value) {
    DimMap step = {1, {value->dim2}, {value->dim}};
    survey_use(s, value, value->op == OP_STACK ? &step : NULL);
}

static void survey_leaf(Survey *s, const Value *leaf) {
    if (leaf->op == OP_INDEX || leaf->op == OP_EXTENT) {
        s->pinned[leaf->dim] = true;
        vec_push(s->lower->arena, &s->needed, leaf->dim);
    }
}

static void survey_argument(Survey *s, const Value *arg, const DimMap *names) {
    if (op_is_immediate(arg->op))
        survey_leaf(s, arg);
    else if (!s->lower->is_member[arg->id])
        survey_use(s, arg, names);
}

// Dims that change places in what is computed here, as those of a carried matrix that is swapped.
static void survey_swaps(Survey *s, const DimMap *renames) {
    for (uint32_t i = 0; i < renames->count; i++)
        for (uint32_t k = 0; k < renames->count; k++)
            if (renames->from[i] == renames->to[k]) {
                s->pinned[renames->from[i]] = true;
                s->pinned[renames->to[i]] = true;
            }
}

static void survey_member(Survey *s, const Value *member) {
    vec_push(s->lower->arena, &s->values, member);
    if (op_is_immediate(member->op))
        survey_leaf(s, member);
    if (s->lower->group->kind == GROUP_STREAM)
        s->pinned[s->lower->group->reduced.at[0]] = true;
    if (member->dim != DIM_NONE && op_kind(member->op) >= KIND_REDUCE)
        s->pinned[member->dim] = true;
    if (member->dim2 != DIM_NONE)
        s->pinned[member->dim2] = true;
    for (uint32_t i = 0; member->digits && i < member->digits->count; i++) {
        s->pinned[member->digits->at[i]] = true;
        vec_push(s->lower->arena, &s->needed, member->digits->at[i]);
    }
    for (uint32_t i = 0; i < member->n_args; i++) {
        if (member->op == OP_CONCAT) {
            s->pinned[member->cats[i]] = true;
            vec_push(s->lower->arena, &s->needed, member->cats[i]);
        }
        survey_argument(s, member->args[i], member->renames);
    }
    if (member->op == OP_RENAME && s->lower->is_member[member->args[0]->id])
        survey_swaps(s, member->renames);
}

// The values that are read under several lists of dims, by id + 1.
static Map *find_disagreeing(const Survey *s) {
    Arena *arena = s->lower->arena;
    Map *first = map_new(arena), *disagreeing = map_new(arena);
    for (uint32_t i = 0; i < s->uses.count; i++) {
        MemoryUse *use = &s->uses.at[i];
        uint64_t key = (uint64_t)use->value->id + 1;
        const MemoryUse *other = map_get(first, key);
        if (!other)
            map_put(first, key, use);
        else if (!dims_same_order(&use->order, &other->order))
            map_put(disagreeing, key, use);
    }
    return disagreeing;
}

// At one position of m and over m: S[n, m] as S[m, 0].
static bool has_dim_twice(const DimList *order) {
    for (int i = 0; i < order->count; i++)
        for (int k = 0; k < i; k++)
            if (order->at[i] == order->at[k])
                return true;
    return false;
}

// An argument that is read under two lists of dims keeps its own, and they stay single.
static void survey_renames(Survey *s) {
    Lowering *lower = s->lower;
    const Map *disagreeing = find_disagreeing(s);
    for (uint32_t i = 0; i < s->uses.count; i++) {
        const MemoryUse *use = &s->uses.at[i];
        bool agree =
            !map_get(disagreeing, (uint64_t)use->value->id + 1) && !has_dim_twice(&use->order);
        const DimList *own = stored_order(lower, use->value);
        lower->is_renamed[use->value->id] = agree && !dims_same_order(own, &use->order);
        if (agree)
            continue;
        for (int d = 0; d < own->count; d++) {
            if (own->at[d] == use->order.at[d])
                continue;
            s->pinned[own->at[d]] = true;
            s->pinned[use->order.at[d]] = true;
        }
        for (int d = 0; d < own->count; d++)
            vec_push(s->lower->arena, &s->needed, own->at[d]);
    }
}

// ---- fusing ----

static int position(const DimList *order, DimId dim) {
    for (int i = 0; i < order->count; i++)
        if (order->at[i] == dim)
            return i;
    return -1;
}

static bool dims_stay_adjacent(const Survey *s, DimId x, DimId y) {
    if (s->pinned[x] || s->pinned[y])
        return false;
    for (uint32_t i = 0; i < s->uses.count; i++) {
        int px = position(&s->uses.at[i].order, x), py = position(&s->uses.at[i].order, y);
        if (px < 0 ? py >= 0 : py != px + 1)
            return false;
    }
    for (uint32_t i = 0; i < s->values.count; i++) {
        // A stored value counts by its uses: it may be accessed under other dims.
        const Value *value = s->values.at[i];
        if (s->lower->is_member[value->id] &&
            dims_has(&value->dims, x) != dims_has(&value->dims, y))
            return false;
    }
    return true;
}

// The dim that x is fused with and that follows it; DIM_NONE: none.
static DimId dim_after(const Survey *s, DimId x) {
    for (uint32_t i = 0; i < s->uses.count; i++) {
        const DimList *order = &s->uses.at[i].order;
        int at = position(order, x);
        if (at < 0)
            continue;
        if (at + 1 < order->count && dims_stay_adjacent(s, x, order->at[at + 1]))
            return order->at[at + 1];
        return DIM_NONE;
    }
    return DIM_NONE;
}

static DimId dim_before(const Survey *s, DimId y) {
    for (uint32_t i = 0; i < s->uses.count; i++) {
        const DimList *order = &s->uses.at[i].order;
        int at = position(order, y);
        if (at < 0)
            continue;
        if (at > 0 && dims_stay_adjacent(s, order->at[at - 1], y))
            return order->at[at - 1];
        return DIM_NONE;
    }
    return DIM_NONE;
}

// What a fused dim is scheduled for when it is dynamic: the product of several typical extents is
// rarely typical, and too large a guess leaves small calls with one task.
enum { DYNAMIC_TYPICAL_MAX = 2048 };

// No larger than the largest extent: what has more positions fits no memory.
static int64_t extents_product(int64_t a, int64_t b) {
    int64_t product = mul_capped(a, b);
    return product < EXTENT_MAX ? product : EXTENT_MAX;
}

static void add_kernel_dim(Survey *s, DimId dim) {
    Lowering *lower = s->lower;
    if (lower->dim_of[dim] != TILE_DIM_NONE)
        return;
    for (DimId before; (before = dim_before(s, dim)) != DIM_NONE;)
        dim = before;
    DimProduct product = {0};
    int64_t extent = 1, typical = 1;
    Text name = {.arena = lower->kernel->arena};
    TileDimId id = (TileDimId)lower->kernel->dims.count;
    s->too_many |= id == GROUP_DIMS_MAX;
    if (s->too_many)
        return;
    for (; dim != DIM_NONE; dim = dim_after(s, dim)) {
        const Dim *d = &lower->graph->dims.at[dim];
        product.at[product.count++] = dim;
        lower->dim_of[dim] = id;
        typical = extents_product(typical, lower->extents[dim]);
        if (d->extent == EXTENT_DYNAMIC || extent == EXTENT_DYNAMIC)
            extent = EXTENT_DYNAMIC;
        else
            extent = extents_product(extent, d->extent);
        text_printf(&name, "%s%s", product.count > 1 ? "_" : "", d->name);
    }
    kernel_add_dim(lower->kernel, name.at, extent);
    if (extent == EXTENT_DYNAMIC && product.count > 1 && typical > DYNAMIC_TYPICAL_MAX)
        typical = DYNAMIC_TYPICAL_MAX;
    vec_push(lower->arena, &lower->products, product);
    vec_push(lower->arena, &lower->typical, typical);
}

static void add_kernel_dims(Survey *s) {
    for (uint32_t i = s->uses.count; i-- > 0;) // outputs first: their dims are the loops
        for (int d = 0; d < s->uses.at[i].order.count; d++)
            add_kernel_dim(s, s->uses.at[i].order.at[d]);
    for (uint32_t i = 0; i < s->values.count; i++)
        if (s->lower->is_member[s->values.at[i]->id])
            for (int d = 0; d < s->values.at[i]->dims.count; d++)
                add_kernel_dim(s, s->values.at[i]->dims.at[d]);
    for (uint32_t d = 0; d < s->needed.count; d++)
        add_kernel_dim(s, s->needed.at[d]);
}

// ---- arguments ----

static void add_argument(Lowering *lower, const Value *value, const DimList *order, Place place) {
    TileDimList dims = {0};
    for (int i = 0; i < order->count; i++) {
        TileDimId dim = lower->dim_of[order->at[i]];
        if (lower->products.at[dim].at[0] == order->at[i])
            dims.at[dims.count++] = dim;
    }
    const Buffer *planned = plan_buffer(lower->plan, value);
    TileDimId panel = TILE_DIM_NONE;
    if (planned->memory.panel != DIM_NONE)
        panel = dims.at[dims.count - 1]; // contiguous, perhaps under another name
    uint16_t buffer =
        kernel_add_argument_panel(lower->kernel, lower_label(lower, value), value->elem, place,
                                  dims, panel, planned->memory.panel_width);
    vec_push(lower->arena, &lower->launch_buffers, (uint32_t)(planned - lower->plan->buffers.at));
    if (place == PLACE_IN)
        lower_set_home(lower, value, buffer);
}

static Survey survey_group(Lowering *lower) {
    Survey s = {.lower = lower,
                .pinned = arena_array(lower->arena, bool, lower->graph->dims.count + 1)};
    Group *group = lower->group;
    for (uint32_t i = 0; i < group->members.count; i++)
        survey_member(&s, group->members.at[i]);
    s.n_reads = s.uses.count;
    survey_renames(&s);
    for (uint32_t i = 0; i < group->outputs.count; i++)
        survey_output(&s, group->outputs.at[i]);
    add_kernel_dims(&s);
    return s;
}

bool lower_dims_fit(Lowering *lower) {
    return !survey_group(lower).too_many;
}

void lower_arguments(Lowering *lower) {
    Survey s = survey_group(lower);
    Group *group = lower->group;
    if (s.too_many)
        ice("tile lower: a group with more than %d dims", GROUP_DIMS_MAX);
    for (uint32_t i = 0; i < s.n_reads; i++) {
        const Value *value = s.uses.at[i].value;
        if (lower_buffer_of(lower, value) == NO_BUFFER)
            add_argument(lower, value,
                         lower->is_renamed[value->id] ? &s.uses.at[i].order
                                                      : stored_order(lower, value),
                         PLACE_IN);
    }
    for (uint32_t i = 0; i < group->outputs.count; i++) {
        const Value *flag = lower_kept_by(lower->plan, group->outputs.at[i]);
        if (flag && lower_buffer_of(lower, flag) == NO_BUFFER)
            add_argument(lower, flag, &(DimList){0}, PLACE_IN);
    }
    for (uint32_t i = 0; i < group->outputs.count; i++) {
        const Value *flag = lower_kept_by(lower->plan, group->outputs.at[i]);
        add_argument(lower, group->outputs.at[i], &s.uses.at[s.n_reads + i].order, PLACE_OUT);
        if (flag)
            lower->kernel->buffers.at[lower->kernel->n_args - 1].kept_by =
                lower_buffer_of(lower, flag);
    }
}

// ---- small questions ----

DimSet lower_dim_set(const Lowering *lower, const DimList *dims) {
    DimSet set = 0;
    for (int i = 0; i < dims->count; i++)
        set |= set_of(lower->dim_of[dims->at[i]]);
    return set;
}

DimSet lower_all_dims(const Lowering *lower) {
    uint32_t count = lower->kernel->dims.count;
    return count == 8 * sizeof(DimSet) ? ~(DimSet)0 : ((DimSet)1 << count) - 1;
}

DimSet lower_buffer_set(const Lowering *lower, uint16_t buffer) {
    const TileBuffer *b = &lower->kernel->buffers.at[buffer];
    DimSet set = 0;
    for (int i = 0; i < b->rank; i++)
        set |= set_of(b->dims[i]);
    return set;
}

TileDimList lower_buffer_dims(const Lowering *lower, uint16_t buffer) {
    const TileBuffer *b = &lower->kernel->buffers.at[buffer];
    TileDimList dims = {.count = b->rank};
    memcpy(dims.at, b->dims, sizeof dims.at);
    return dims;
}

Name lower_label(const Lowering *lower, const Value *value) {
    return value_label(lower->kernel->arena, value);
}

int64_t lower_volume(const Lowering *lower, DimSet dims) {
    int64_t volume = 1;
    for (uint32_t d = 0; d < lower->typical.count; d++)
        if (set_has(dims, (TileDimId)d))
            volume = mul_capped(volume, lower->typical.at[d]);
    return volume;
}

int lower_designated(const Lowering *lower, const Value *value) {
    return lower->designated[value->id] - 1;
}

void lower_designate(Lowering *lower, const Value *value, int buffer) {
    lower->designated[value->id] = buffer + 1;
}

uint16_t lower_argument_of(const Lowering *lower, uint32_t output) {
    return (uint16_t)(lower->kernel->n_args - lower->group->outputs.count + output);
}

void lower_designate_outputs(Lowering *lower) {
    for (uint32_t i = 0; i < lower->group->outputs.count; i++)
        lower_designate(lower, lower->group->outputs.at[i], lower_argument_of(lower, i));
}

int lower_buffer_of(const Lowering *lower, const Value *value) {
    return lower->home[value->id] - 1;
}

void lower_set_home(Lowering *lower, const Value *value, int buffer) {
    lower->home[value->id] = buffer + 1;
}

TileDimList lower_order(DimSet dims, const TileDimList *first) {
    TileDimList order = {0};
    for (int i = 0; i < first->count; i++) {
        if (!set_has(dims, first->at[i]))
            continue;
        order.at[order.count++] = first->at[i];
        dims &= ~set_of(first->at[i]);
    }
    for (TileDimId d = 0; dims; d++, dims >>= 1) {
        if (!(dims & 1))
            continue;
        if (order.count == TILE_RANK_MAX)
            ice("tile lower: more than %d dims in one place", TILE_RANK_MAX);
        order.at[order.count++] = d;
    }
    return order;
}

void lower_order_rest(const Lowering *lower, DimSet dims, const TileDimList *first,
                      TileDimList *order) {
    for (int i = 0; i < first->count && order->count < TILE_RANK_MAX - 1; i++)
        if (set_has(dims, first->at[i]))
            order->at[order->count++] = first->at[i];
    for (int i = 0; i < first->count; i++)
        dims &= ~set_of(first->at[i]);
    uint32_t count = lower->kernel->dims.count;
    for (TileDimId d = 0; d < count && order->count < TILE_RANK_MAX - 1; d++)
        if (set_has(dims, d))
            order->at[order->count++] = d;
}

TileDimId lower_cut_dim(const Lowering *lower) {
    const Group *group = lower->group;
    return group->parts == DIM_NONE ? TILE_DIM_NONE : lower->dim_of[group->cut];
}

TileDimId lower_chain_dim(const Lowering *lower) {
    const Group *group = lower->group;
    bool in_turn = group->cut != DIM_NONE && group->parts == DIM_NONE;
    return in_turn ? lower->dim_of[group->cut] : TILE_DIM_NONE;
}

const Value *lower_kept_by(const Plan *plan, const Value *output) {
    const Value *result = plan->fusion->lies_in[output->id];
    Accumulated accumulated;
    return result && value_is_accumulated(result, &accumulated) ? accumulated.flag : NULL;
}
