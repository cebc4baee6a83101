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
// pointwise clusters, the latest first, and only where no cluster would come to need itself. What
// is cheap to compute from inputs and positions is inline (rules.c). Then pointwise clusters
// with one reader join it (merge.c), which makes prologues.
//
// Requires: graph_contract. Ensures: see graph.h; fusion_verify checks it.
#include "graph/fuse/fuse.h"
#include "graph/rewrite/rewrite.h"

enum { FEW_ROWS = 4 };

// ---- the graph that is fused: what moves and results need lies in memory -----------------------

static bool move_reads_memory(const Value *value) {
    return op_kind(value->op) == KIND_MOVE;
}

static Value *copy_value(Rewrite *rewrite, const Value *value, Value **args) {
    Graph *out = rewrite->to;
    if (value->op == OP_RENAME && args[0]->op == OP_INDEX)
        return graph_index(out, value->dim2);
    for (uint32_t i = 0; move_reads_memory(value) && i < value->n_args; i++)
        if (op_is_immediate(args[i]->op))
            args[i] = graph_map1(out, OP_COPY, args[i]);
    return rewrite_keep(rewrite, value, args);
}

static bool is_returned(const Graph *graph, const Value *value) {
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        if (graph->outputs.at[i].value == value)
            return true;
    return false;
}

// The live part of the graph. Results that are inputs, leaves or returned before become copies.
static Graph *fuse_copy_graph(const Graph *graph, Arena *arena) {
    Rewrite rewrite = rewrite_begin("fuse", graph, arena);
    Graph *out = rewrite.to;
    rewrite_values(&rewrite, copy_value);
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const Output *output = &graph->outputs.at[i];
        Value *value = rewrite.now[output->value->id];
        while (fuse_is_free(value) || is_returned(out, value))
            value = graph_map1(out, OP_COPY, value);
        graph_output(out, output->name, value, output->order);
    }
    return out;
}

// ---- clusters ----------------------------------------------------------------------------------

static uint32_t cluster_new(Fuser *fuser, GroupKind kind) {
    Cluster cluster = {.kind = kind, .reach = arena_array(fuser->arena, uint64_t, fuser->words)};
    vec_push(fuser->arena, &fuser->clusters, cluster);
    return fuser->clusters.count - 1;
}

// Calls visit(cluster) for the cluster that stores each value the argument reads, through inline
// ones.
static void each_needed(const Fuser *fuser, const Value *arg,
                        void (*visit)(uint32_t cluster, void *), void *data) {
    uint32_t owner = fuser->owner[arg->id];
    if (owner == CLUSTER_INLINE) {
        for (uint32_t i = 0; i < arg->n_args; i++)
            each_needed(fuser, arg->args[i], visit, data);
    } else if (owner != CLUSTER_NONE) {
        visit(owner, data);
    }
}

typedef struct {
    const Fuser *fuser;
    uint32_t cluster;
    bool cyclic;
} CycleCheck;

static void check_cycle(uint32_t needed, void *data) {
    CycleCheck *check = data;
    if (needed != check->cluster && fuse_reaches(check->fuser, needed, check->cluster))
        check->cyclic = true;
}

// An inline rename among the arguments reads memory that the cluster itself must not be writing.
static bool reads_through_inline(const Fuser *fuser, const Value *arg, uint32_t cluster) {
    if (fuser->owner[arg->id] != CLUSTER_INLINE)
        return false;
    for (uint32_t i = 0; i < arg->n_args; i++)
        if (fuser->owner[arg->args[i]->id] == cluster ||
            reads_through_inline(fuser, arg->args[i], cluster))
            return true;
    return false;
}

static bool join_is_legal(const Fuser *fuser, const Value *value, uint32_t cluster) {
    CycleCheck check = {fuser, cluster, false};
    for (uint32_t i = 0; i < value->n_args; i++) {
        if (reads_through_inline(fuser, value->args[i], cluster))
            return false;
        each_needed(fuser, value->args[i], check_cycle, &check);
    }
    return !check.cyclic;
}

typedef struct {
    Fuser *fuser;
    uint32_t cluster;
} ReachUpdate;

static void update_reach(uint32_t needed, void *data) {
    ReachUpdate *update = data;
    fuse_add_reach(update->fuser, update->cluster, needed);
}

static void cluster_add(Fuser *fuser, uint32_t cluster, Value *value) {
    vec_push(fuser->arena, &fuser->clusters.at[cluster].owned, value);
    fuser->owner[value->id] = cluster;
    ReachUpdate update = {fuser, cluster};
    for (uint32_t i = 0; i < value->n_args; i++)
        each_needed(fuser, value->args[i], update_reach, &update);
}

// ---- pointwise values and moves ----------------------------------------------------------------

static bool space_fits(const Fuser *fuser, const Cluster *cluster, const Value *value) {
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

static void place_pointwise(Fuser *fuser, Value *value) {
    uint32_t home = CLUSTER_NONE;
    for (uint32_t i = 0; op_kind(value->op) == KIND_MAP && i < value->n_args; i++) {
        uint32_t cluster = fuser->owner[value->args[i]->id];
        if (cluster < CLUSTER_INLINE && space_fits(fuser, &fuser->clusters.at[cluster], value) &&
            better_home(fuser, cluster, home) && join_is_legal(fuser, value, cluster))
            home = cluster;
    }
    if (home == CLUSTER_NONE) {
        home = cluster_new(fuser, GROUP_MAP);
        fuser->clusters.at[home].rows = value->dims;
    }
    cluster_add(fuser, home, value);
}

// ---- whole rows and contractions ---------------------------------------------------------------

static void row_dims(const Value *value, DimList *rows, DimList *reduced) {
    const DimList *all = &value->args[0]->dims;
    if (op_kind(value->op) == KIND_ROW || value->op == OP_ARGMAX)
        *reduced = (DimList){1, {value->dim}};
    else
        *reduced = dims_minus(all, &value->dims);
    *rows = dims_minus(all, reduced);
}

static void place_row(Fuser *fuser, Value *value) {
    DimList rows, reduced;
    row_dims(value, &rows, &reduced);
    uint32_t home = fuser->owner[value->args[0]->id];
    if (home < CLUSTER_INLINE) {
        Cluster *cluster = &fuser->clusters.at[home];
        DimList space = cluster_space(cluster);
        bool same = cluster->kind == GROUP_ROWS && dims_equal(&cluster->rows, &rows) &&
                    dims_equal(&cluster->reduced, &reduced);
        bool takes_over = cluster->kind == GROUP_MAP && dims_equal(&space, &value->args[0]->dims);
        if (!same && !takes_over)
            home = CLUSTER_NONE;
    }
    if (home >= CLUSTER_INLINE)
        home = cluster_new(fuser, GROUP_ROWS);
    Cluster *cluster = &fuser->clusters.at[home];
    cluster->kind = GROUP_ROWS;
    cluster->rows = rows;
    cluster->reduced = reduced;
    cluster_add(fuser, home, value);
}

static void place_value(Fuser *fuser, Value *value) {
    switch (op_kind(value->op)) {
    case KIND_LEAF:
        break;
    case KIND_MAP:
    case KIND_MOVE:
        place_pointwise(fuser, value);
        break;
    case KIND_REDUCE:
    case KIND_ROW:
        place_row(fuser, value);
        break;
    case KIND_CONTRACT: {
        uint32_t cluster = cluster_new(fuser, GROUP_CONTRACT);
        fuser->clusters.at[cluster].contraction = value;
        cluster_add(fuser, cluster, value);
    }
    }
}

// ---- groups ------------------------------------------------------------------------------------

static void collect_members(const Fuser *fuser, Value *value, bool *member) {
    member[value->id] = true;
    for (uint32_t i = 0; i < value->n_args; i++)
        if (fuser->owner[value->args[i]->id] == CLUSTER_INLINE && !member[value->args[i]->id])
            collect_members(fuser, value->args[i], member);
}

static bool read_outside(const Fuser *fuser, const Value *value) {
    uint32_t home = fuser->owner[value->id];
    for (const Value **user = fuser->users[value->id]; *user; user++)
        if (fuser->owner[(*user)->id] != home)
            return true;
    return false;
}

static Group *group_of(const Fuser *fuser, const Cluster *cluster) {
    Arena *arena = fuser->graph->arena;
    Group *group = arena_new_of(arena, Group);
    group->kind = cluster->kind;
    group->contraction = cluster->contraction;
    group->rows = cluster->rows;
    group->reduced = cluster->reduced;
    bool *member = arena_array(fuser->arena, bool, fuser->graph->values.count);
    for (uint32_t i = 0; i < cluster->owned.count; i++)
        collect_members(fuser, cluster->owned.at[i], member);
    for (uint32_t i = 0; i < fuser->graph->values.count; i++) {
        Value *value = fuser->graph->values.at[i];
        if (!member[i])
            continue;
        vec_push(arena, &group->members, value);
        if (fuser->owner[i] != CLUSTER_INLINE && (fuser->result[i] || read_outside(fuser, value)))
            vec_push(arena, &group->outputs, value);
    }
    return group;
}

typedef struct {
    const Fuser *fuser;
    const bool *done; // by cluster
    uint32_t self;
    bool ready;
} ReadyCheck;

static void check_ready(uint32_t needed, void *data) {
    ReadyCheck *check = data;
    if (needed != check->self && !check->done[needed])
        check->ready = false;
}

static bool cluster_ready(const Fuser *fuser, uint32_t number, const bool *done) {
    ReadyCheck check = {fuser, done, number, true};
    const Cluster *cluster = &fuser->clusters.at[number];
    for (uint32_t i = 0; i < cluster->owned.count && check.ready; i++)
        for (uint32_t k = 0; k < cluster->owned.at[i]->n_args; k++)
            each_needed(fuser, cluster->owned.at[i]->args[k], check_ready, &check);
    return check.ready;
}

// Of the clusters that can run next, the one that was begun first.
static void order_groups(const Fuser *fuser, Fusion *fusion) {
    bool *done = arena_array(fuser->arena, bool, fuser->clusters.count);
    uint32_t left = 0;
    for (uint32_t i = 0; i < fuser->clusters.count; i++)
        left += !fuser->clusters.at[i].dead;
    for (; left; left--) {
        uint32_t next = 0;
        while (next < fuser->clusters.count &&
               (done[next] || fuser->clusters.at[next].dead || !cluster_ready(fuser, next, done)))
            next++;
        if (next == fuser->clusters.count)
            ice("fuse: groups that need each other");
        done[next] = true;
        vec_push(fuser->graph->arena, &fusion->groups, group_of(fuser, &fuser->clusters.at[next]));
    }
}

static void fuser_find_users(Fuser *fuser, const bool *live) {
    const Graph *graph = fuser->graph;
    uint32_t count = graph->values.count;
    uint32_t *uses = graph_count_uses(graph, fuser->arena);
    uint32_t *filled = arena_array(fuser->arena, uint32_t, count);
    fuser->users = arena_array(fuser->arena, const Value **, count);
    for (uint32_t i = 0; i < count; i++)
        fuser->users[i] = arena_array(fuser->arena, const Value *, uses[i] + 1);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; live[i] && k < graph->values.at[i]->n_args; k++) {
            uint32_t arg = graph->values.at[i]->args[k]->id;
            fuser->users[arg][filled[arg]++] = graph->values.at[i];
        }
}

Fusion *graph_fuse(const Graph *graph, const int64_t *extents) {
    Arena *arena = arena_new();
    Fuser fuser = {.arena = arena, .graph = fuse_copy_graph(graph, arena), .extents = extents};
    uint32_t count = fuser.graph->values.count;
    const bool *live = graph_live(fuser.graph, arena);
    fuser.words = count / 64 + 1;
    fuser.owner = arena_array(arena, uint32_t, count);
    fuser.result = arena_array(arena, bool, count);
    for (uint32_t i = 0; i < count; i++)
        fuser.owner[i] = CLUSTER_NONE;
    for (uint32_t i = 0; i < fuser.graph->outputs.count; i++)
        fuser.result[fuser.graph->outputs.at[i].value->id] = true;
    fuser_find_users(&fuser, live);
    for (uint32_t i = 0; i < count; i++) {
        Value *value = fuser.graph->values.at[i];
        if (!live[i] || fuse_is_free(value))
            continue;
        if (fuse_is_inline(&fuser, value))
            fuser.owner[i] = CLUSTER_INLINE;
        else
            place_value(&fuser, value);
    }
    fuse_merge_producers(&fuser);
    Fusion *fusion = arena_new_of(fuser.graph->arena, Fusion);
    fusion->graph = fuser.graph;
    order_groups(&fuser, fusion);
    arena_free(arena);
    return fusion;
}
