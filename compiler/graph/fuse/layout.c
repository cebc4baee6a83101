// SPDX-License-Identifier: Apache-2.0
// Memory order of every stored value.
//
//     Q[n, d_k, h] = einsum(X[n, d], P_q[d, d_k, h])     # Q in memory: h n d_k
//     K[m, d_k, h] = einsum(X[m, d], P_k[d, d_k, h])     # K in memory: h d_k m
//     L[n, m, h] = einsum(Q[n, d_k, h], K[m, d_k, h])    # L in memory: h n m   (softmax over m)
//
// Inputs and results have the order that was declared, if they have one. The others are chosen last
// group first, so that the orders of what a group writes are known when those of what it reads are
// chosen. Every access votes on the dim that is contiguous, by what an element costs it in cycles:
// a copy into a panel, a transposing copy, or a gather. The group that writes the value votes too,
// and pays for lanes that do not fill vectors. The other dims follow the most important access:
//
//     lane operand of a contraction    batch, other dims, k, lanes     (panels are plain copies)
//     row operand                      batch, rows, k                  (rows of k)
//     result                           batch, outer, rows, lanes       (outer: of the lane operand,
//                                                                       n in the mixing of heads)
//     rows group                       as its largest result, or rows, reduced
//     pointwise                        as the result
//     order                            rows, what is put in order
//
// A streamed group reads what it streams past (K, V) in panels of its lanes, two vectors wide, so
// that each block of the microkernel is one piece of memory.
//
// A contraction whose result is contiguous in a batch dim (head mixing with a matrix for each
// memory position) is a sum of elementwise products; its operands are contiguous in the same dim.
//
// Source: packing costs of BLIS-like kernels (Van Zee, van de Geijn 2015); the lanes of a
// contraction are the dim that its result has contiguous.
//
// Requires: graph_fuse. Ensures: a permutation of the dims for every input and every group output.
#include "graph/fuse/layout.h"

#include <math.h>

// One way in which a group reads the value.
typedef struct {
    const Group *group;
    const Value *contraction; // of the group; NULL: read pointwise or row-wise
    int operand;              // of the contraction
    DimList as;               // the dims under which it is read, in the places of value->dims
} Use;
typedef VEC(Use) UseList;

static DimList dims_join(DimList a, DimList b) {
    return dims_union(&a, &b);
}

// `part` in the order that `like` has them, what `like` lacks first.
static DimList dims_ordered(const DimList *part, const DimList *like) {
    DimList first = dims_minus(part, like), then = dims_intersect(like, part);
    return dims_join(first, then);
}

// ---- uses --------------------------------------------------------------------------------------

static void add_read(Arena *arena, ReadList *reads, Read read) {
    const Value *arg = read.user->args[read.arg];
    vec_push(arena, &reads[arg->id], read);
    if (op_is_reading(read.user->op) && op_may_be_view(arg->op)) // one access, see graph_fuse
        add_read(arena, reads, (Read){read.group, arg, 0});
}

static ReadList *find_reads(const Fusion *fusion, Arena *arena) {
    ReadList *reads = arena_array(arena, ReadList, fusion->graph->values.count + 1);
    for (uint32_t g = 0; g < fusion->groups.count; g++) {
        const ValueList *members = &fusion->groups.at[g]->members;
        for (uint32_t i = 0; i < members->count; i++)
            for (uint32_t k = 0; k < members->at[i]->n_args; k++)
                add_read(arena, reads, (Read){g, members->at[i], k});
    }
    return reads;
}

static uint64_t member_key(uint32_t group, const Value *value) {
    return (uint64_t)group << 32 | value->id;
}

// What is computed in a group for an operand of its contraction: a set of member_key. Slices and
// concats read memory in an order of their own, so nothing leads through them.
static Map *find_feeds(const Fusion *fusion, Arena *arena) {
    Map *feeds = map_new(arena);
    for (uint32_t g = 0; g < fusion->groups.count; g++) {
        const Group *group = fusion->groups.at[g];
        for (uint32_t i = group->contraction ? group->members.count : 0; i-- > 0;) {
            const Value *value = group->members.at[i];
            bool cuts = value->op == OP_SLICE || value->op == OP_CONCAT;
            if (value != group->contraction && (cuts || !map_get(feeds, member_key(g, value))))
                continue;
            for (uint32_t k = 0; k < value->n_args; k++)
                map_put(feeds, member_key(g, value->args[k]), value->args[k]);
        }
    }
    return feeds;
}

static void find_uses_in(Layout *layout, uint32_t group, const Value *x, DimList as, UseList *uses);

// The dims of what a split or merge reads, as it names them: the fastest part goes with the whole,
// and of the others none is ever contiguous.
static void regroup_as(const Value *user, DimList *as) {
    for (uint32_t i = 0; i < as->count; i++)
        if (user->op == OP_SPLIT && as->at[i] == user->dim)
            as->at[i] = regroup_last(user);
        else if (user->op == OP_MERGE && dims_has(user->digits, as->at[i]))
            as->at[i] = as->at[i] == regroup_last(user) ? user->dim : DIM_NONE;
}

// Follows a value, read under the dims `as` (DIM_NONE: at one position), through other ways to read
// it and operand prologues of the group.
static void follow_read(Layout *layout, const Read *read, DimList as, UseList *uses) {
    const Group *group = layout->fusion->groups.at[read->group];
    const Value *user = read->user;
    Use use = {group, NULL, 0, as};
    bool pairs = user == group->contraction || group->kind == GROUP_STREAM;
    if (user->op == OP_CONTRACT && pairs) {
        use.contraction = user;
        use.operand = (int)read->arg;
    } else if (op_is_reading(user->op)) {
        const DimMap taken = {1, {user->dim}, {DIM_NONE}};
        const DimMap *names = user->op == OP_RENAME ? user->renames : &taken;
        find_uses_in(layout, read->group, user, dims_renamed(&as, names), uses);
        return;
    } else if (op_regroups(user->op)) {
        regroup_as(user, &use.as);
        if (!group_stores(group, user)) {
            find_uses_in(layout, read->group, user, use.as, uses);
            return;
        }
    } else if (user->op == OP_SLICE || user->op == OP_CONCAT) {
        DimId from = user->op == OP_SLICE ? user->dim : user->cats[read->arg];
        use.as = dims_renamed(&as, &(DimMap){1, {from}, {user->dim2}});
    } else if (map_get(layout->feeds, member_key(read->group, user))) {
        find_uses_in(layout, read->group, user, as, uses);
        return;
    }
    vec_push(layout->arena, uses, use);
}

static void find_uses_in(Layout *layout, uint32_t group, const Value *x, DimList as,
                         UseList *uses) {
    const ReadList *reads = &layout->reads[x->id];
    for (uint32_t i = 0; i < reads->count; i++)
        if (reads->at[i].group == group)
            follow_read(layout, &reads->at[i], as, uses);
}

// The order of the group's result with these dims, or of any larger one; empty when none is chosen.
static DimList group_order(const Layout *layout, const Group *group, const DimList *as) {
    DimList dims = dims_minus(as, &(DimList){1, {DIM_NONE}});
    for (uint32_t i = 0; i < group->outputs.count; i++) {
        const Value *output = group->outputs.at[i];
        const DimList *order = &layout->orders[output->id];
        if (order->count && dims_subset(&dims, &output->dims))
            return dims_intersect(order, &dims);
    }
    return (DimList){0};
}

// ---- costs of a contiguous dim -----------------------------------------------------------------

static DimId use_dim(const Use *use, const Value *value, DimId dim) {
    for (uint32_t i = 0; i < value->dims.count; i++)
        if (value->dims.at[i] == dim)
            return use->as.at[i];
    return DIM_NONE;
}

// The lanes of a contraction in a streamed group: the streamed dim as long as the result has it,
// afterwards a dim of the operand that is streamed past; in parts a dim of the rows' own operand,
// unless both operands are streamed.
static DimId stream_lane(const Layout *layout, const Group *group, const Value *contraction) {
    DimId streamed = group->reduced.at[0];
    bool both = dims_has(&contraction->args[0]->dims, streamed) &&
                dims_has(&contraction->args[1]->dims, streamed);
    bool parts = value_adds_rows(contraction) && !both;
    if (dims_has(&contraction->dims, streamed) && !parts)
        return streamed;
    DimList order = group_order(layout, group, &contraction->dims);
    DimId last = dims_last(&order);
    for (int i = 0; i < 2; i++) {
        DimList own = layout_roles(contraction, i).own;
        const DimList *dims = &contraction->args[i]->dims;
        if (parts ? dims_has(dims, streamed) : dims_subset(&group->rows, dims))
            continue; // the operand of the other lanes, or of the rows
        DimId best = dims_has(&own, last) ? last : dims_last(&own);
        for (uint32_t k = 0; k < own.count && best != last; k++)
            if (layout->extents[own.at[k]] > layout->extents[best])
                best = own.at[k];
        return best;
    }
    return last;
}

// The lanes of a use's contraction when its result has the order chosen for it.
static DimId use_lane(const Layout *layout, const Use *use) {
    if (use->group->kind == GROUP_STREAM)
        return stream_lane(layout, use->group, use->contraction);
    DimList order = group_order(layout, use->group, &use->contraction->dims);
    DimId lane;
    layout_contraction_cost(layout, use->contraction, dims_last(&order), &lane);
    return lane;
}

static double contraction_use_cost(const Layout *layout, const Use *use, const Value *value,
                                   DimId read) {
    DimId lane = use_lane(layout, use);
    double cost = layout_operand_cost(use->contraction, use->operand, read, lane);
    if (use->group->kind != GROUP_CONTRACT)
        return cost;
    DimList result = group_order(layout, use->group, &use->contraction->dims);
    return cost + layout_lost_lanes(layout, use->contraction, use->operand, read, lane, &result) /
                      volume(layout, &value->dims);
}

static double use_cost(const Layout *layout, const Use *use, const Value *value, DimId last) {
    const Group *group = use->group;
    DimId read = use_dim(use, value, last);
    if (use->contraction)
        return contraction_use_cost(layout, use, value, read);
    if (group->kind == GROUP_SCAN) // a position at a time
        return dims_has(&group->reduced, read) ? STRIDED : COPY;
    if (group->kind == GROUP_ORDER)
        return dims_has(&group->reduced, read) ? COPY : STRIDED;
    if (group->kind == GROUP_SCATTER) // what positions are the same for is added in one piece
        return dims_has(&group->outputs.at[0]->args[1]->dims, read) ? STRIDED : COPY;
    DimList order = group_order(layout, group, &use->as);
    if (order.count)
        return dims_last(&order) == read ? COPY : STRIDED;
    return dims_has(&group->reduced, read) ? COPY : ROWS_LAST;
}

// The contraction that a value of the same dims is made of, pointwise; NULL: there is none.
static const Value *made_of(const Value *value) {
    if (value->op == OP_CONTRACT)
        return value->n_args == 2 ? value : NULL;
    for (uint32_t k = 0; k < value->n_args && op_kind(value->op) == KIND_MAP; k++) {
        const Value *arg = value->args[k];
        if (arg->op == OP_CONTRACT && arg->n_args == 2 && dims_equal(&arg->dims, &value->dims))
            return arg;
    }
    return NULL;
}

// What a task sums up is stored along its lanes, or put in another order.
static double stream_cost(const Layout *layout, const Group *group, const Value *value,
                          DimId last) {
    const Value *contraction = made_of(value);
    bool parts = contraction && value_adds_rows(contraction);
    ShiftedSum shifted;
    if (value_is_shifted_sum(value, &shifted))
        return volume(layout, &value->dims) * (shifted.to == last ? COPY : STRIDED);
    if (!contraction || (dims_has(&value->dims, group->reduced.at[0]) && !parts))
        return 0;
    if (parts && contraction->dim2 == last) // tasks would write between each other, too
        return 2 * STRIDED * volume(layout, &value->dims);
    bool along = stream_lane(layout, group, contraction) == last;
    return volume(layout, &value->dims) * (along ? COPY : STRIDED);
}

static double producer_cost(const Layout *layout, const Group *group, const Value *value,
                            DimId last) {
    DimId lane;
    if (group->kind == GROUP_CONTRACT)
        return layout_contraction_cost(layout, group->contraction, last, &lane);
    if (group->kind == GROUP_STREAM) // its operands are read in their own order
        return stream_cost(layout, group, value, last);
    double cost = 0;
    if (group->kind == GROUP_SCAN && value->op == OP_STACK && value->dim2 == last)
        cost = STRIDED * volume(layout, &value->dims);
    if (group->kind == GROUP_ORDER)
        return volume(layout, &value->dims) * (last == value->dim2 ? COPY : ROWS_LAST);
    if (group->kind == GROUP_SCATTER) {
        bool apart = last == value->dim || dims_has(&value->args[1]->dims, last);
        return volume(layout, &value->dims) * (apart ? STRIDED : COPY);
    }
    if (group->kind == GROUP_ROWS)
        cost = volume(layout, &value->dims) * (dims_has(&group->reduced, last) ? COPY : ROWS_LAST);
    for (uint32_t i = 0; i < group->members.count; i++)
        for (uint32_t k = 0; k < group->members.at[i]->n_args; k++) {
            const Value *arg = group->members.at[i]->args[k];
            if (arg->op == OP_INPUT && dims_has(&arg->dims, last))
                cost +=
                    volume(layout, &arg->dims) * (dims_last(&arg->dims) == last ? COPY : STRIDED);
        }
    return cost;
}

// ---- the order of all dims ---------------------------------------------------------------------

// Order of a contraction's operand that its kernel reads best, lanes or k last.
static DimList operand_wish(const Layout *layout, const Use *use, bool *is_lane_operand) {
    const Value *contraction = use->contraction;
    Roles roles = layout_roles(contraction, use->operand);
    DimList result = group_order(layout, use->group, &contraction->dims);
    const Value *other = contraction->args[1 - use->operand];
    const DimList *other_order = &layout->orders[other->id];
    DimList k = dims_ordered(&roles.k, other_order->count ? other_order : &other->dims);
    DimList batch = dims_ordered(&roles.batch, &result), own = dims_ordered(&roles.own, &result);
    DimId lane = use_lane(layout, use);
    *is_lane_operand =
        !dims_has(&contraction->args[1 - use->operand]->dims, lane) || dims_has(&roles.batch, lane);
    if (!*is_lane_operand)
        return dims_join(dims_join(batch, own), k);
    if (dims_has(&roles.batch, lane)) { // elementwise along the lanes
        DimList one = {1, {lane}};
        return dims_join(dims_join(dims_minus(&batch, &one), own), dims_join(k, one));
    }
    DimList lanes = layout_run(&roles.own, &result);
    dims_add(&lanes, lane);
    DimList outer = dims_minus(&own, &lanes);
    lanes = dims_ordered(&lanes, &result);
    return dims_join(dims_join(dims_join(batch, outer), k), lanes);
}

// Order in which a contraction writes best when `lane` is contiguous. few_rows: the lane operand
// has other dims, too, and the row operand is small beside them (a mixing of heads).
static DimList result_wish(const Layout *layout, const Value *contraction, DimId lane,
                           bool *few_rows) {
    DimList one = {1, {lane}};
    int lanes_in = dims_has(&contraction->args[1]->dims, lane);
    Roles roles = layout_roles(contraction, lanes_in),
          others = layout_roles(contraction, 1 - lanes_in);
    DimList outer = dims_minus(&roles.own, &one);
    *few_rows = outer.count > 0 && dims_has(&roles.own, lane) &&
                volume(layout, &others.own) < volume(layout, &outer);
    return dims_join(dims_join(roles.batch, outer), dims_join(others.own, one));
}

typedef struct {
    DimList order;
    double weight;
} Wish;

static void wish_take(Wish *best, DimList order, double weight) {
    if (weight > best->weight)
        *best = (Wish){order, weight};
}

// Back from the names under which a use reads the value.
static DimList wish_named_back(const Use *use, const Value *value, const DimList *wish) {
    DimList out = {0};
    for (uint32_t i = 0; i < wish->count; i++)
        for (uint32_t k = 0; k < value->dims.count; k++)
            if (use->as.at[k] == wish->at[i])
                dims_add(&out, value->dims.at[k]);
    return out;
}

static DimList wish_of_value(const Layout *layout, const Group *group, const Value *value,
                             const UseList *uses, DimId last) {
    enum { NATURAL = 1, WRITTEN, READ, ROW_OPERAND, WRITTEN_FEW_ROWS, LANE_OPERAND };
    Wish best = {value->dims, NATURAL};
    for (uint32_t i = 0; i < uses->count; i++) {
        const Use *use = &uses->at[i];
        bool lanes = false;
        DimList wish = use->contraction ? operand_wish(layout, use, &lanes)
                                        : group_order(layout, use->group, &use->as);
        if (wish.count)
            wish_take(&best, wish_named_back(use, value, &wish),
                      !use->contraction ? READ
                      : lanes           ? LANE_OPERAND
                                        : ROW_OPERAND);
    }
    if (group->kind == GROUP_CONTRACT) {
        bool few_rows;
        DimList wish = result_wish(layout, group->contraction, last, &few_rows);
        wish_take(&best, wish, few_rows ? WRITTEN_FEW_ROWS : WRITTEN);
    } else if (group->kind == GROUP_ROWS) {
        DimList wish = dims_join(group->rows, group->reduced);
        wish_take(&best, dims_intersect(&wish, &value->dims), WRITTEN);
    }
    return best.order;
}

// Panels are padded to whole ones: along the streamed dim, which is long, or along a dim that is
// several of them.
static bool fills_panels(const Layout *layout, const Use *use, DimId dim, int width) {
    int64_t extent = layout->fusion->graph->dims.at[dim].extent;
    return dim == use->group->reduced.at[0] || (extent > width && extent % width == 0);
}

// Of what a value is, but for its name and place: how it is stored, and which ops read it.
static uint64_t kind_of(const Layout *layout, const Value *value) {
    const DimList *order = &layout->memory[value->id].order;
    const ReadList *reads = &layout->reads[value->id];
    uint64_t kind = hash_u64((uint64_t)value->op << 32 | value->elem, value->made_for.backward);
    for (uint32_t i = 0; i < order->count; i++) {
        uint32_t place = 0;
        while (value->dims.at[place] != order->at[i])
            place++;
        kind = hash_u64(hash_u64(kind, (uint64_t)layout->extents[order->at[i]]), place);
    }
    for (uint32_t i = 0; i < reads->count; i++)
        kind = hash_u64(kind, (uint64_t)reads->at[i].user->op << 32 | reads->at[i].arg);
    return kind;
}

static uint32_t number_of_kind(Layout *layout, const Value *value) {
    uint64_t kind = kind_of(layout, value);
    uint32_t i = 0;
    while (i < layout->paneled.count && layout->paneled.at[i] != kind)
        i++;
    if (i == layout->paneled.count)
        vec_push(layout->arena, &layout->paneled, kind);
    return i;
}

// Two vectors along the lanes of streamed contractions, when these are all that read the value.
static void choose_panel(Layout *layout, uint32_t group_number, const Value *value,
                         const UseList *uses) {
    MemoryOrder *memory = &layout->memory[value->id];
    DimId last = dims_last(&memory->order);
    int width = machine_panel_lanes(layout->machine, elem_bytes(value->elem));
    for (uint32_t i = 0; i < uses->count; i++) {
        const Use *use = &uses->at[i];
        if (use->group->kind != GROUP_STREAM || !use->contraction ||
            !dims_has(&use->as, use->group->reduced.at[0]))
            return;
        DimId lane = use_lane(layout, use);
        if (use_dim(use, value, last) != lane || !fills_panels(layout, use, lane, width))
            return;
    }
    const ReadList *reads = &layout->reads[value->id];
    for (uint32_t i = 0; i < reads->count; i++)
        if (op_regroups(reads->at[i].user->op) ||
            (reads->at[i].group == group_number && reads->at[i].user->op == OP_CONTRACT))
            return;
    if (!uses->count || value->dims.count < 2 || graph_returns(layout->fusion->graph, value) ||
        value_in_turn(value)) // tasks add to it where it lies
        return;
    uint32_t number = number_of_kind(layout, value);
    if (number < PLAIN_MOST && layout->chosen->plain >> number & 1)
        return;
    memory->panel = last;
    memory->panel_width = width;
}

// The dim that a streamed contraction reads in vectors: without it there is no contraction stage.
static DimId stream_wish(const Layout *layout, const Value *value, const UseList *uses) {
    for (uint32_t i = 0; i < uses->count; i++) {
        const Use *use = &uses->at[i];
        if (use->group->kind != GROUP_STREAM || !use->contraction)
            continue;
        DimId lane = use_lane(layout, use);
        for (uint32_t k = 0; k < value->dims.count; k++)
            if (use->as.at[k] == lane)
                return value->dims.at[k];
    }
    return DIM_NONE;
}

// The merge that wants to be a view of the value; NULL: there is none.
static const Value *merged_by(const Layout *layout, const Value *value) {
    const ReadList *reads = &layout->reads[value->id];
    for (uint32_t i = 0; i < reads->count; i++) {
        const Value *user = reads->at[i].user;
        if (user->op == OP_MERGE &&
            !group_stores(layout->fusion->groups.at[reads->at[i].group], user))
            return user;
    }
    return NULL;
}

static DimList order_of_value(Layout *layout, uint32_t group_number, const Value *value) {
    const Group *group = layout->fusion->groups.at[group_number];
    DimList same = group_order(layout, group, &value->dims);
    ShiftedSum shifted;
    bool apart = group->kind == GROUP_STREAM && // a stage of its own writes it
                 (made_of(value) || value_is_shifted_sum(value, &shifted));
    if (value->dims.count == 0 || (same.count && !apart))
        return same; // all else that a group writes is written in one order
    UseList uses = {0};
    const ReadList *reads = &layout->reads[value->id];
    for (uint32_t i = 0; i < reads->count; i++)
        if (reads->at[i].group > group_number)
            follow_read(layout, &reads->at[i], value->dims, &uses);
    DimId best = stream_wish(layout, value, &uses), settled = best;
    double best_cost = INFINITY;
    const Value *merge = merged_by(layout, value);
    for (uint32_t i = value->dims.count; i-- > 0 && settled == DIM_NONE;) {
        DimId last = value->dims.at[i];
        if (merge && dims_has(merge->digits, last) && last != regroup_last(merge))
            continue;
        double cost = producer_cost(layout, group, value, last);
        for (uint32_t u = 0; u < uses.count; u++)
            cost += volume(layout, &value->dims) * use_cost(layout, &uses.at[u], value, last);
        if (cost < best_cost || best == DIM_NONE) {
            best_cost = cost;
            best = last;
        }
    }
    DimList one = {1, {best}}, wish = wish_of_value(layout, group, value, &uses, best);
    wish = dims_join(wish, value->dims); // in case that a wish names only some
    wish = dims_join(dims_minus(&wish, &one), one);
    layout->memory[value->id].order = merge ? regroup_glued(merge, &wish) : wish;
    if (group->kind != GROUP_SCAN && layout->chosen->layout != LAYOUT_PLAIN)
        choose_panel(layout, group_number, value, &uses);
    return layout->memory[value->id].order;
}

// Of what lies in the memory of a result.
static DimList order_in_result(const Value *result, const DimList *orders) {
    DimList order = orders[result->id];
    if (op_regroups(result->op))
        regroup_argument_order(result, &orders[result->id], &order);
    return order;
}

MemoryOrder *graph_layout(const Fusion *fusion, const int64_t *extents, const Machine *machine,
                          const ProgramSchedule *chosen) {
    static const ProgramSchedule by_cost = {0};
    const Graph *graph = fusion->graph;
    uint32_t count = graph->values.count;
    Arena *arena = arena_new();
    Layout layout = {.fusion = fusion,
                     .extents = extents,
                     .reads = find_reads(fusion, arena),
                     .feeds = find_feeds(fusion, arena),
                     .orders = arena_array(arena, DimList, count + 1),
                     .memory = arena_array(graph->arena, MemoryOrder, count + 1),
                     .arena = arena,
                     .machine = machine,
                     .chosen = chosen ? chosen : &by_cost,
                     .lanes = machine_lanes(machine, sizeof(float))};
    DimList *orders = layout.orders;
    for (uint32_t i = 0; i < count; i++)
        layout.memory[i].panel = DIM_NONE;
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        orders[graph->inputs.at[i]->id] = graph->inputs.at[i]->dims;
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        orders[graph->outputs.at[i].value->id] = graph->outputs.at[i].order;
    for (uint32_t i = 0; i < count; i++)
        if (fusion->lies_in[i])
            orders[i] = order_in_result(fusion->lies_in[i], orders);
    for (uint32_t i = fusion->groups.count; i-- > 0;)
        for (uint32_t k = 0; k < fusion->groups.at[i]->outputs.count; k++) {
            const Value *value = fusion->groups.at[i]->outputs.at[k];
            if (orders[value->id].count == 0)
                orders[value->id] = order_of_value(&layout, i, value);
        }
    for (uint32_t i = 0; i < count; i++)
        layout.memory[i].order = orders[i];
    arena_free(arena);
    return layout.memory;
}
