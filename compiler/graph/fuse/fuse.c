// SPDX-License-Identifier: Apache-2.0
// Values -> groups, one kernel each.
//
//     H[n, f] = relu(einsum(X[n, d], W[d, f]) + b[f])      contract H, bias and relu inside
//     Y[n, d] = einsum(H[n, f], W2[f, d]) + X[n, d]        contract Y, the residual sum inside
//     mu[n] = sum(Y[n, d]) / d                             rows n, over d: mu c s and Z,
//     c[n, d] = Y[n, d] - mu[n]                              one row at a time
//     s[n] = sum(c[n, d] * c[n, d])
//     Z[n, d] = c[n, d] * rsqrt(s[n] / d + eps)
//
// One pass in order of id. A contraction or a whole-row value begins a cluster; so does a move,
// whose arguments must lie in memory. A whole-row value joins the cluster of its argument when it
// has the same rows and reduced dims, or takes over a pointwise cluster. A pointwise value joins
// the cluster of one of its arguments with the same iteration space: contractions and rows before
// pointwise clusters, the latest first, and only where no cluster would come to need itself. A
// cluster that has enough takes no more (rules.c). What is cheap to compute from inputs and
// positions is inline (rules.c). Then pointwise clusters with one reader join it (merge.c), which
// makes prologues.
//
// Requires: graph_expand. Ensures: see graph.h; fusion_verify checks it.
#include "graph/fuse/fuse.h"
#include "graph/rewrite/rewrite.h"

#include <string.h>

enum { FEW_ROWS = 4 }; // positions of all rows of a group, see space_fits; chosen

// Bytes of a forward pass's copies that are stored unless something else is asked for; chosen.
// Tasks that make their own mostly take up to 15% longer: talking heads of 16 x 64 at 16384
// positions 4%, with 55 MiB of scratch in place of 25 MiB and 128 MiB of copies.
static const int64_t COPIES_MOST = (int64_t)96 << 20;

// ---- the graph that is fused: what moves and results need lies in memory -----------------------

static bool move_reads_memory(const Value *value) {
    return op_kind(value->op) == KIND_MOVE;
}

static Value *copy_value(Rewrite *rewrite, const Value *value, Value **args) {
    Graph *out = rewrite->to;
    if (value->op == OP_RENAME && args[0]->op == OP_INDEX)
        return graph_index(out, value->dims.at[0]);
    for (uint32_t i = 0; move_reads_memory(value) && i < value->n_args; i++)
        if (op_is_immediate(args[i]->op))
            args[i] = graph_map1(out, OP_COPY, args[i]);
    return rewrite_keep(rewrite, value, args);
}

// The live part of the graph. Results that are inputs, leaves or returned before become copies.
static Graph *fuse_copy_graph(const Graph *graph, Arena *arena) {
    Rewrite rewrite = rewrite_begin("fuse", graph, graph->arena, arena);
    Graph *out = rewrite.to;
    rewrite_values(&rewrite, copy_value);
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const Output *output = &graph->outputs.at[i];
        Value *value = rewrite.now[output->value->id];
        while (fuse_is_free(value) || graph_returns(out, value))
            value = graph_map1(out, OP_COPY, value);
        graph_output_like(out, output, value);
    }
    return out;
}

// ---- clusters ----------------------------------------------------------------------------------

const char *const plan_names[N_PLANS] = {
    [PLAN_ANY] = "any",       [PLAN_UNFUSED] = "unfused",   [PLAN_RESIDENT] = "resident",
    [PLAN_STREAM] = "stream", [PLAN_TWO_PASS] = "two-pass", [PLAN_SPILL] = "spill"};

PlanKind plan_find(const char *name) {
    PlanKind plan = PLAN_ANY;
    while (plan < N_PLANS && strcmp(plan_names[plan], name) != 0)
        plan++;
    return plan;
}

static bool join_is_legal(Fuser *fuser, const Value *value, uint32_t cluster) {
    for (uint32_t i = 0; i < value->n_args; i++) {
        ValueList reads = fuse_stored(fuser, value->args[i]);
        bool is_inline = fuser->owner[value->args[i]->id] == CLUSTER_INLINE;
        for (uint32_t k = 0; k < reads.count; k++) {
            uint32_t needed = fuser->owner[reads.at[k]->id];
            // An inline rename reads memory that the cluster itself must not be writing.
            if (needed == cluster ? is_inline : fuse_needs(fuser, needed, cluster))
                return false;
        }
    }
    return true;
}

static void cluster_add(Fuser *fuser, uint32_t cluster, Value *value) {
    const MadeFor *made_for = &value->made_for;
    Cluster *to = &fuser->clusters.at[cluster];
    to->turn = made_for->turn > to->turn ? made_for->turn : to->turn;
    to->forward = to->forward || (!made_for->backward && !made_for->turn);
    vec_push(fuser->arena, &to->owned, value);
    DimIds dims = fuse_dims_of(fuser, value);
    fuse_add_dims(fuser, &to->dims, &dims);
    fuser->owner[value->id] = cluster;
    for (uint32_t i = 0; i < value->n_args; i++) {
        ValueList reads = fuse_stored(fuser, value->args[i]);
        for (uint32_t k = 0; k < reads.count; k++)
            fuse_add_need(fuser, cluster, fuser->owner[reads.at[k]->id]);
    }
}

// ---- pointwise values and moves ----------------------------------------------------------------

// A streamed group takes what is pointwise on its reduced values.
static bool stream_fits(const Fuser *fuser, const Cluster *cluster, const Value *value) {
    if (!dims_subset(&cluster->rows, &value->dims) ||
        dims_has(&value->dims, cluster->reduced.at[0]))
        return false;
    for (uint32_t i = 0; i < value->n_args; i++) {
        uint32_t owner = fuser->owner[value->args[i]->id];
        if (owner < CLUSTER_INLINE && &fuser->clusters.at[owner] == cluster &&
            dims_equal(&value->args[i]->dims, &value->dims))
            return true;
    }
    return false;
}

static bool has_room(const Fuser *fuser, const Cluster *cluster, const Value *value) {
    DimIds dims = fuse_dims_of(fuser, value);
    return fuse_has_room(cluster, 1, &dims);
}

static bool space_fits(const Fuser *fuser, const Cluster *cluster, const Value *value) {
    if (!fuse_turn_fits(cluster, value->made_for.turn) || !has_room(fuser, cluster, value) ||
        cluster->kind == GROUP_SCAN || cluster->kind == GROUP_ORDER ||
        cluster->kind == GROUP_SCATTER)
        return false;
    if (cluster->kind == GROUP_STREAM)
        return stream_fits(fuser, cluster, value);
    if (cluster->parts != DIM_NONE)
        return false;
    DimList space = cluster_space(cluster);
    if (cluster->kind != GROUP_ROWS)
        return dims_equal(&value->dims, &space);
    if (dims_equal(&value->dims, &cluster->rows))
        return true;
    // With few rows there are few tasks; a sweep over all elements is better off on its own.
    return dims_equal(&value->dims, &space) &&
           dims_volume(&cluster->rows, fuser->extents) >= FEW_ROWS;
}

static bool better_home(const Fuser *fuser, uint32_t cluster, uint32_t than) {
    if (than == CLUSTER_NONE)
        return true;
    bool map = fuser->clusters.at[cluster].kind == GROUP_MAP;
    bool than_map = fuser->clusters.at[than].kind == GROUP_MAP;
    return map != than_map ? than_map : cluster > than;
}

// The best cluster of an argument that has the value's space, of those worse than `than`.
static uint32_t next_home(const Fuser *fuser, const Value *value, uint32_t than) {
    uint32_t home = CLUSTER_NONE;
    for (uint32_t i = 0; op_kind(value->op) == KIND_MAP && i < value->n_args; i++) {
        uint32_t cluster = fuser->owner[value->args[i]->id];
        if (cluster < CLUSTER_INLINE && space_fits(fuser, &fuser->clusters.at[cluster], value) &&
            better_home(fuser, cluster, home) &&
            (than == CLUSTER_NONE || better_home(fuser, than, cluster)))
            home = cluster;
    }
    return home;
}

// What a copy for streamed contractions copies is stored, too, and in another order: all that a
// cluster stores has one.
static bool is_in_another_order(const Fuser *fuser, const Value *value) {
    const Value *copied = value->op == OP_COPY ? value->args[0] : NULL;
    const Value **users = copied ? fuser->users[copied->id] : NULL;
    return copied && users[0] && (users[1] || fuser->result[copied->id]) &&
           fuse_is_streamed_operand(fuser, value);
}

static void place_pointwise(Fuser *fuser, Value *value) {
    bool alone = is_in_another_order(fuser, value);
    uint32_t home = alone ? CLUSTER_NONE : next_home(fuser, value, CLUSTER_NONE);
    while (home != CLUSTER_NONE && !join_is_legal(fuser, value, home))
        home = next_home(fuser, value, home);
    if (home == CLUSTER_NONE) {
        home = fuse_new_cluster(fuser, GROUP_MAP);
        fuser->clusters.at[home].rows = value->dims;
    }
    cluster_add(fuser, home, value);
}

// ---- whole rows and contractions ---------------------------------------------------------------

static void row_dims(const Value *value, DimList *rows, DimList *reduced) {
    DimList all = value->args[0]->dims;
    if (value->op == OP_CONTRACT)
        all = dims_union(&all, &value->args[1]->dims);
    if (op_kind(value->op) == KIND_ROW)
        *reduced = (DimList){1, {value->dim}};
    else
        *reduced = dims_minus(&all, &value->dims);
    *rows = dims_minus(&all, reduced);
}

static void place_row(Fuser *fuser, Value *value) {
    DimList rows, reduced;
    row_dims(value, &rows, &reduced);
    DimId parts = value_in_parts(value) ? value->dim2 : DIM_NONE;
    uint32_t home = fuser->owner[value->args[0]->id];
    if (home < CLUSTER_INLINE) {
        Cluster *cluster = &fuser->clusters.at[home];
        DimList space = cluster_space(cluster);
        bool same = cluster->kind == GROUP_ROWS && dims_equal(&cluster->rows, &rows) &&
                    dims_equal(&cluster->reduced, &reduced) && cluster->parts == parts &&
                    (parts == DIM_NONE || cluster->cut == value->dim);
        bool takes_over = cluster->kind == GROUP_MAP && dims_equal(&space, &value->args[0]->dims) &&
                          parts == DIM_NONE;
        if ((!same && !takes_over) || !has_room(fuser, cluster, value) ||
            !fuse_turn_fits(cluster, value->made_for.turn))
            home = CLUSTER_NONE;
    }
    if (home >= CLUSTER_INLINE)
        home = fuse_new_cluster(fuser, GROUP_ROWS);
    Cluster *cluster = &fuser->clusters.at[home];
    cluster->kind = GROUP_ROWS;
    cluster->rows = rows;
    cluster->reduced = reduced;
    cluster->cut = parts == DIM_NONE ? DIM_NONE : value->dim;
    cluster->parts = parts;
    cluster_add(fuser, home, value);
}

static void place_order(Fuser *fuser, Value *value) {
    uint32_t home = fuse_new_cluster(fuser, GROUP_ORDER);
    Cluster *cluster = &fuser->clusters.at[home];
    cluster->reduced = (DimList){1, {value->dim}};
    cluster->rows = dims_minus(&value->args[0]->dims, &cluster->reduced);
    cluster_add(fuser, home, value);
}

static void place_scatter(Fuser *fuser, Value *value) {
    uint32_t home = fuse_new_cluster(fuser, GROUP_SCATTER);
    Cluster *cluster = &fuser->clusters.at[home];
    DimList all = dims_union(&value->args[0]->dims, &value->args[1]->dims);
    cluster->rows = value->dims;
    cluster->reduced = dims_minus(&all, &value->dims);
    cluster_add(fuser, home, value);
}

static void place_move(Fuser *fuser, Value *value) {
    if (value->op == OP_ORDER)
        place_order(fuser, value);
    else if (value->op == OP_SCATTER_ADD)
        place_scatter(fuser, value);
    else
        place_pointwise(fuser, value);
}

static void place_value(Fuser *fuser, Value *value) {
    if (fuser->owner[value->id] < CLUSTER_INLINE) {
        cluster_add(fuser, fuser->owner[value->id], value);
        return;
    }
    switch (op_kind(value->op)) {
    case KIND_LEAF:
    case KIND_SCAN: // in a cluster from the beginning
        break;
    case KIND_MAP:
        place_pointwise(fuser, value);
        break;
    case KIND_MOVE:
        place_move(fuser, value);
        break;
    case KIND_REDUCE:
    case KIND_ROW:
        place_row(fuser, value);
        break;
    case KIND_CONTRACT: {
        if (value_in_parts(value)) {
            place_row(fuser, value); // the streamed group that it was for was dissolved
            break;
        }
        uint32_t cluster = fuse_new_cluster(fuser, GROUP_CONTRACT);
        fuser->clusters.at[cluster].contraction = value;
        cluster_add(fuser, cluster, value);
    }
    }
}

// ---- streamed groups ---------------------------------------------------------------------------

static bool is_streamed_user(const Fuser *fuser, const Value *source, const Value *user) {
    uint32_t owner = fuser->owner[user->id];
    if (user->op == OP_GATHER && user->args[0] == source)
        return false; // in memory
    if (owner >= CLUSTER_INLINE)
        return owner == CLUSTER_INLINE;
    const Cluster *cluster = &fuser->clusters.at[owner];
    return cluster->kind == GROUP_STREAM && dims_has(&source->dims, cluster->reduced.at[0]);
}

// Is it a copy along the streamed dim for streamed groups alone, see pack.c?
static bool is_streamed_copy(const Fuser *fuser, const Value *value) {
    bool streamed = value->op == OP_COPY && fuser->owner[value->id] == CLUSTER_NONE &&
                    *fuser->users[value->id] && !fuser->result[value->id];
    for (const Value **user = fuser->users[value->id]; *user && streamed; user++)
        streamed = (*user)->op == OP_CONTRACT && is_streamed_user(fuser, value, *user);
    return streamed;
}

static bool has_known_size(const Fuser *fuser, const Value *value) {
    bool known = true;
    for (uint32_t i = 0; i < value->dims.count; i++)
        known = known && fuser->graph->dims.at[value->dims.at[i]].extent != EXTENT_DYNAMIC;
    return known;
}

// Copies become members of the groups that read them: all, or, by size, those of the forward pass
// whose extents do not wait for the caller.
static void leave_copies_to_tasks(Fuser *fuser, CopyChoice choice) {
    ValueList left = {0};
    double bytes = 0;
    for (uint32_t i = 0; i < fuser->graph->values.count && choice != COPIES_ONCE; i++) {
        Value *value = fuser->graph->values.at[i];
        bool may =
            choice == COPIES_EACH || (!value->made_for.backward && has_known_size(fuser, value));
        if (!may || !fuser->live[i] || !is_streamed_copy(fuser, value))
            continue;
        vec_push(fuser->arena, &left, value);
        bytes += fuse_bytes(value, fuser->extents);
    }
    bool leaves = choice == COPIES_EACH || bytes > (double)COPIES_MOST;
    for (uint32_t i = 0; i < left.count && leaves; i++)
        fuser->owner[left.at[i]->id] = CLUSTER_INLINE;
}

// What streamed groups alone read along their streamed dim and is made of inputs and positions
// (masks, biases) is computed again in each of them.
static void find_stream_sources(Fuser *fuser) {
    const bool *given = fuse_find_given(fuser->graph, fuser->arena);
    for (uint32_t i = fuser->graph->values.count; i-- > 0;) {
        const Value *value = fuser->graph->values.at[i];
        bool gathers = value->op == OP_GATHER && given[value->args[0]->id];
        if (!fuser->live[i] || fuser->result[i] || fuser->owner[i] != CLUSTER_NONE ||
            value->dims.count < 2 || (op_kind(value->op) != KIND_MAP && !gathers))
            continue;
        bool streamed = *fuser->users[i] != NULL;
        for (const Value **user = fuser->users[i]; *user && streamed; user++)
            streamed = is_streamed_user(fuser, value, *user) && (*user)->op != OP_CONTRACT;
        if (streamed)
            fuser->owner[i] = CLUSTER_INLINE;
    }
}

// Are all values placed that this one, or the streamed group that it completes, reads?
static bool is_ready(const Fuser *fuser, const Value *value, const bool *placed) {
    uint32_t owner = fuser->owner[value->id];
    for (uint32_t k = 0; k < value->n_args; k++) {
        const Value *arg = value->args[k];
        bool inside = owner < CLUSTER_INLINE && fuser->owner[arg->id] == owner;
        if (!inside && !placed[arg->id])
            return false;
    }
    return true;
}

static bool stream_is_ready(const Fuser *fuser, const ValueList *members, const bool *placed) {
    for (uint32_t i = 0; i < members->count; i++)
        if (!is_ready(fuser, members->at[i], placed))
            return false;
    return true;
}

static void append_value(const Fuser *fuser, ValueList *order, Value *value, bool *placed) {
    vec_push(fuser->arena, order, value);
    placed[value->id] = true;
}

static void append_stream(const Fuser *fuser, ValueList *order, const ValueList *members,
                          bool *placed) {
    for (uint32_t i = 0; i < members->count; i++)
        append_value(fuser, order, members->at[i], placed);
}

static ValueList *stream_members(const Fuser *fuser) {
    ValueList *members = arena_array(fuser->arena, ValueList, fuser->clusters.count + 1);
    for (uint32_t i = 0; i < fuser->graph->values.count; i++)
        if (fuser->owner[i] < CLUSTER_INLINE)
            vec_push(fuser->arena, &members[fuser->owner[i]], fuser->graph->values.at[i]);
    return members;
}

// Streamed groups that need each other: the later one is no group after all.
static void dissolve_last_stream(Fuser *fuser, ValueList *members, const bool *placed) {
    for (uint32_t c = fuser->clusters.count; c-- > 0;) {
        ValueList *list = &members[c];
        if (!list->count || placed[list->at[0]->id] || fuser->clusters.at[c].kind == GROUP_SCAN)
            continue;
        for (uint32_t i = 0; i < list->count; i++) {
            fuser->owner[list->at[i]->id] = CLUSTER_NONE;
            fuse_forget_result_view(fuser, list->at[i]);
            fuse_refuse(fuser, list->at[i],
                        (Refusal){.x = DIM_NONE,
                                  .why = "its kernel and another would need each other's results"});
        }
        list->count = 0;
        fuser->clusters.at[c].dead = true;
        return;
    }
    ice("fuse: values that need each other");
}

// Live values that are computed, arguments first, the members of a streamed group side by side; by
// id otherwise.
static ValueList order_values(Fuser *fuser) {
    const Graph *graph = fuser->graph;
    ValueList order = {0}, *members = stream_members(fuser);
    bool *placed = arena_array(fuser->arena, bool, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++)
        placed[i] = !fuser->live[i] || fuse_is_free(graph->values.at[i]);
    for (bool done = false; !done;) {
        uint32_t before = order.count;
        done = true;
        for (uint32_t i = 0; i < graph->values.count; i++) {
            Value *value = graph->values.at[i];
            uint32_t owner = fuser->owner[i];
            if (placed[i])
                continue;
            if (owner >= CLUSTER_INLINE && is_ready(fuser, value, placed)) {
                append_value(fuser, &order, value, placed);
            } else if (owner < CLUSTER_INLINE &&
                       value == members[owner].at[members[owner].count - 1] &&
                       stream_is_ready(fuser, &members[owner], placed)) {
                append_stream(fuser, &order, &members[owner], placed);
            } else {
                done = false;
            }
        }
        if (!done && order.count == before)
            dissolve_last_stream(fuser, members, placed);
    }
    return order;
}

// ---- groups ------------------------------------------------------------------------------------

// The values that a cluster owns and the inline ones that they need, in order of id; of ways to
// read that follow each other the last one. taken: by value id, the last cluster that the value was
// taken for.
static ValueList collect_members(const Fuser *fuser, uint32_t cluster, uint32_t *taken) {
    ValueList members = {0};
    const ValueList *owned = &fuser->clusters.at[cluster].owned;
    for (uint32_t i = 0; i < owned->count; i++)
        vec_push(fuser->graph->arena, &members, owned->at[i]);
    for (uint32_t i = 0; i < members.count; i++)
        for (uint32_t k = 0; k < members.at[i]->n_args; k++) {
            Value *arg = members.at[i]->args[k];
            bool reading = op_is_reading(members.at[i]->op) && op_may_be_view(arg->op);
            if (fuser->owner[arg->id] != CLUSTER_INLINE || taken[arg->id] == cluster || reading)
                continue;
            taken[arg->id] = cluster;
            vec_push(fuser->graph->arena, &members, arg);
        }
    fuse_sort_values(&members);
    return members;
}

static bool read_outside(const Fuser *fuser, const Value *value) {
    uint32_t home = fuser->owner[value->id];
    for (const Value **user = fuser->users[value->id]; *user; user++)
        if (fuser->owner[(*user)->id] != home)
            return true;
    return false;
}

static Group *group_of(const Fuser *fuser, uint32_t number, uint32_t *taken) {
    const Cluster *cluster = &fuser->clusters.at[number];
    Group *group = arena_new_of(fuser->graph->arena, Group);
    group->kind = cluster->kind;
    group->contraction = cluster->contraction;
    group->rows = cluster->rows;
    group->reduced = cluster->reduced;
    group->cut = cluster->cut;
    group->parts = cluster->parts;
    group->members = collect_members(fuser, number, taken);
    for (uint32_t i = 0; i < group->members.count; i++) {
        Value *value = group->members.at[i];
        if (fuser->owner[value->id] != CLUSTER_INLINE &&
            (fuser->result[value->id] || read_outside(fuser, value)))
            vec_push(fuser->graph->arena, &group->outputs, value);
    }
    return group;
}

static void make_groups(const Fuser *fuser, Fusion *fusion) {
    ClusterNumbers order = fuse_order_clusters(fuser);
    uint32_t *taken = arena_array(fuser->arena, uint32_t, fuser->graph->values.count);
    memset(taken, 0xFF, fuser->graph->values.count * sizeof *taken); // CLUSTER_NONE
    for (uint32_t i = 0; i < order.count; i++)
        vec_push(fusion->graph->arena, &fusion->groups, group_of(fuser, order.at[i], taken));
}

static void fuser_find_users(Fuser *fuser) {
    const Graph *graph = fuser->graph;
    uint32_t count = graph->values.count;
    uint32_t *uses = graph_count_uses(graph, fuser->arena);
    uint32_t *filled = arena_array(fuser->arena, uint32_t, count);
    fuser->users = arena_array(fuser->arena, const Value **, count);
    for (uint32_t i = 0; i < count; i++)
        fuser->users[i] = arena_array(fuser->arena, const Value *, uses[i] + 1);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; fuser->live[i] && k < graph->values.at[i]->n_args; k++) {
            uint32_t arg = graph->values.at[i]->args[k]->id;
            fuser->users[arg][filled[arg]++] = graph->values.at[i];
        }
}

static void open_fuser(Fuser *fuser, Graph *graph, bool streams) {
    uint32_t count = graph->values.count;
    fuser->graph = graph;
    fuse_note_dims(fuser);
    fuser->needs = map_new(fuser->arena);
    fuser->inlined = arena_array(fuser->arena, Inlined, count);
    fuser->seen = arena_array(fuser->arena, uint32_t, count);
    fuser->owner = arena_array(fuser->arena, uint32_t, count);
    fuser->result = arena_array(fuser->arena, bool, count);
    fuser->clusters.count = 0;
    for (uint32_t i = 0; i < count; i++)
        fuser->owner[i] = CLUSTER_NONE;
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        fuser->result[graph->outputs.at[i].value->id] = true;
    fuser_find_users(fuser);
    fuser->refused = arena_array(graph->arena, const Refusal *, count + 1);
    fuser->lies_in = arena_array(graph->arena, const Value *, count + 1);
    fuse_find_scans(fuser);
    if (streams)
        fuse_find_streams(fuser);
    for (uint32_t i = 0; i < count && !streams; i++)
        fuse_refuse(fuser, graph->values.at[i],
                    (Refusal){.x = DIM_NONE,
                              .why = "plan unfused stores what one kernel hands to another"});
}

bool group_has(const Group *group, const Value *value) {
    for (uint32_t i = 0; i < group->members.count; i++)
        if (group->members.at[i] == value)
            return true;
    return false;
}

bool group_stores(const Group *group, const Value *value) {
    for (uint32_t i = 0; i < group->outputs.count; i++)
        if (group->outputs.at[i] == value)
            return true;
    return false;
}

Fusion *graph_fuse(const Graph *graph, const int64_t *extents, bool streams, CopyChoice copies) {
    Arena *arena = arena_new();
    Fuser fuser = {.arena = arena, .extents = extents};
    open_fuser(&fuser, fuse_copy_graph(graph, arena), streams);
    Graph *packed = fuse_pack_operands(&fuser);
    if (packed)
        open_fuser(&fuser, packed, streams);
    find_stream_sources(&fuser);
    leave_copies_to_tasks(&fuser, copies);
    fuse_find_result_views(&fuser);
    ValueList order = order_values(&fuser);
    for (uint32_t i = 0; i < order.count; i++) {
        Value *value = order.at[i];
        uint32_t *owner = &fuser.owner[value->id];
        if (*owner == CLUSTER_NONE && fuse_is_inline(&fuser, value))
            *owner = CLUSTER_INLINE;
        if (*owner == CLUSTER_INLINE)
            fuse_note_inline(&fuser, value);
        else
            place_value(&fuser, value);
    }
    fuse_merge_producers(&fuser);
    fuse_merge_updates(&fuser);
    Fusion *fusion = arena_new_of(fuser.graph->arena, Fusion);
    fusion->graph = fuser.graph;
    fusion->refused = fuser.refused;
    fusion->lies_in = fuser.lies_in;
    fusion->streams = streams;
    make_groups(&fuser, fusion);
    arena_free(arena);
    return fusion;
}
