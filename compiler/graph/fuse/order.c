// SPDX-License-Identifier: Apache-2.0
// Which cluster needs which, while clusters grow, and the order in which they run in the end.
//
// A cluster's depth is larger than that of any cluster it needs, so a search for one cluster among
// those that another needs goes no deeper than that: in a chain of layers it ends in its own layer.
#include "graph/fuse/fuse.h"

uint32_t fuse_new_cluster(Fuser *fuser, GroupKind kind) {
    vec_push(fuser->arena, &fuser->clusters,
             (Cluster){.kind = kind, .cut = DIM_NONE, .parts = DIM_NONE});
    return fuser->clusters.count - 1;
}

ValueList fuse_stored(const Fuser *fuser, const Value *arg) {
    uint32_t owner = fuser->owner[arg->id];
    if (owner == CLUSTER_INLINE)
        return fuser->inlined[arg->id].reads;
    if (owner == CLUSTER_NONE)
        return (ValueList){0};
    return (ValueList){.at = &fuser->graph->values.at[arg->id], .count = 1};
}

bool fuse_needs(Fuser *fuser, uint32_t cluster, uint32_t needed) {
    uint32_t depth = fuser->clusters.at[needed].depth, search = ++fuser->searches;
    ClusterNumbers open = {0};
    vec_push(fuser->arena, &open, cluster);
    while (open.count) {
        const Cluster *next = &fuser->clusters.at[open.at[--open.count]];
        for (uint32_t i = 0; i < next->needs.count; i++) {
            Cluster *other = &fuser->clusters.at[next->needs.at[i]];
            if (next->needs.at[i] == needed)
                return true;
            if (other->searched == search || other->depth <= depth)
                continue;
            other->searched = search;
            vec_push(fuser->arena, &open, next->needs.at[i]);
        }
    }
    return false;
}

// Those that need the cluster become deeper than it.
static void deepen_users(Fuser *fuser, uint32_t cluster) {
    ClusterNumbers open = {0};
    vec_push(fuser->arena, &open, cluster);
    while (open.count) {
        const Cluster *next = &fuser->clusters.at[open.at[--open.count]];
        if (next->depth > fuser->clusters.count)
            ice("fuse: clusters that need each other");
        for (uint32_t i = 0; i < next->users.count; i++) {
            Cluster *user = &fuser->clusters.at[next->users.at[i]];
            if (user->depth > next->depth)
                continue;
            user->depth = next->depth + 1;
            vec_push(fuser->arena, &open, next->users.at[i]);
        }
    }
}

void fuse_add_need(Fuser *fuser, uint32_t cluster, uint32_t needed) {
    uint64_t pair = (uint64_t)cluster << 32 | needed;
    if (cluster == needed || map_get(fuser->needs, pair))
        return;
    map_put(fuser->needs, pair, fuser);
    vec_push(fuser->arena, &fuser->clusters.at[cluster].needs, needed);
    vec_push(fuser->arena, &fuser->clusters.at[needed].users, cluster);
    deepen_users(fuser, needed);
}

bool fuse_turn_fits(const Cluster *cluster, uint32_t turn) {
    return !cluster->forward || !turn;
}

bool fuse_waits(const Value *value, const Value *arg) {
    return value->made_for.turn && !arg->made_for.turn && !arg->made_for.backward;
}

// ---- the order of groups -----------------------------------------------------------------------

typedef VEC(uint64_t) Heap; // no number is larger than those at twice its place, counted from 1

static void heap_push(Arena *arena, Heap *heap, uint64_t number) {
    vec_push(arena, heap, number);
    uint32_t at = heap->count;
    for (; at > 1 && heap->at[at / 2 - 1] > number; at /= 2)
        heap->at[at - 1] = heap->at[at / 2 - 1];
    heap->at[at - 1] = number;
}

static uint64_t heap_pop(Heap *heap) {
    uint64_t first = heap->at[0], last = heap->at[--heap->count];
    uint32_t at = 1;
    for (uint32_t below; (below = 2 * at) <= heap->count; at = below) {
        if (below < heap->count && heap->at[below] < heap->at[below - 1])
            below++;
        if (heap->at[below - 1] >= last)
            break;
        heap->at[at - 1] = heap->at[below - 1];
    }
    heap->at[at - 1] = last;
    return first;
}

typedef struct {
    ClusterNumbers users; // one for each read of a value, so the same may come twice
    uint32_t missing;     // reads of values that are not stored so far
} Waiting;

static void wait_for_reads(const Fuser *fuser, uint32_t number, Waiting *waiting) {
    const Cluster *cluster = &fuser->clusters.at[number];
    for (uint32_t i = 0; i < cluster->owned.count; i++)
        for (uint32_t k = 0; k < cluster->owned.at[i]->n_args; k++) {
            ValueList reads = fuse_stored(fuser, cluster->owned.at[i]->args[k]);
            for (uint32_t r = 0; r < reads.count; r++) {
                uint32_t needed = fuser->owner[reads.at[r]->id];
                if (needed == number)
                    continue;
                vec_push(fuser->arena, &waiting[needed].users, number);
                waiting[number].missing++;
            }
        }
}

// Those of earlier turns come first.
static uint64_t place_of(const Fuser *fuser, uint32_t cluster) {
    return (uint64_t)fuser->clusters.at[cluster].turn << 32 | cluster;
}

// The first that may run, but one that writes over what others have still to read only where there
// is nothing else.
static uint32_t pop_ready(const Fuser *fuser, Heap *ready, const bool *done) {
    Heap held = {0};
    uint64_t first = heap_pop(ready);
    while (fuse_writes_over(fuser, (uint32_t)first, done)) {
        heap_push(fuser->arena, &held, first);
        if (!ready->count) {
            first = heap_pop(&held);
            break;
        }
        first = heap_pop(ready);
    }
    while (held.count)
        heap_push(fuser->arena, ready, heap_pop(&held));
    return (uint32_t)first;
}

ClusterNumbers fuse_order_clusters(const Fuser *fuser) {
    uint32_t left = 0, count = fuser->clusters.count;
    Waiting *waiting = arena_array(fuser->arena, Waiting, count + 1);
    bool *done = arena_array(fuser->arena, bool, count + 1);
    ClusterNumbers order = {0};
    Heap ready = {0};
    for (uint32_t i = 0; i < count; i++)
        if (!fuser->clusters.at[i].dead) {
            wait_for_reads(fuser, i, waiting);
            left++;
        }
    for (uint32_t i = 0; i < count; i++)
        if (!fuser->clusters.at[i].dead && !waiting[i].missing)
            heap_push(fuser->arena, &ready, place_of(fuser, i));
    while (ready.count) {
        uint32_t next = pop_ready(fuser, &ready, done);
        done[next] = true;
        vec_push(fuser->arena, &order, next);
        const ClusterNumbers *users = &waiting[next].users;
        for (uint32_t i = 0; i < users->count; i++)
            if (!--waiting[users->at[i]].missing)
                heap_push(fuser->arena, &ready, place_of(fuser, users->at[i]));
    }
    if (order.count != left)
        ice("fuse: groups that need each other");
    return order;
}
