// SPDX-License-Identifier: Apache-2.0
// Results that take the place of arguments (graph_in_place): the groups that make them.
//
//     before  map  m_1[i] = decay * m[i] + g[i]          after  map  m_1[i] = decay * m[i] + g[i]
//             map  W_1[i] = W[i] - rate * m_1[i]                     W_1[i] = W[i] - rate * m_1[i]
//
// Pointwise clusters over one space, of which one reads the other, become one also where a result
// is among what is read: an update of a tensor and its states is one sweep over memory.
//
// Requires: fuse_merge_producers. Ensures: no cluster needs itself through others.
#include "graph/fuse/fuse.h"

static bool is_update(const Fuser *fuser, const Value *value) {
    for (uint32_t i = 0; fuser->result[value->id] && i < fuser->graph->inputs.count; i++) {
        const Value *input = fuser->graph->inputs.at[i];
        if (input->use == USE_REPLACED && fuser->graph->outputs.at[input->output].value == value)
            return true;
    }
    return false;
}

static bool holds_update(const Fuser *fuser, const Cluster *cluster) {
    for (uint32_t i = 0; i < cluster->owned.count; i++)
        if (is_update(fuser, cluster->owned.at[i]))
            return true;
    return false;
}

static bool reads_directly(const Fuser *fuser, uint32_t reader, uint32_t number) {
    const ValueList *owned = &fuser->clusters.at[reader].owned;
    for (uint32_t i = 0; i < owned->count; i++)
        for (uint32_t k = 0; k < owned->at[i]->n_args; k++)
            if (fuser->owner[owned->at[i]->args[k]->id] == number)
                return true;
    return false;
}

// Does it read what one of these stores?
static bool reads_any(const Fuser *fuser, uint32_t reader, const bool *of) {
    const ValueList *owned = &fuser->clusters.at[reader].owned;
    for (uint32_t i = 0; i < owned->count; i++)
        for (uint32_t k = 0; k < owned->at[i]->n_args; k++) {
            ValueList reads = fuse_stored(fuser, owned->at[i]->args[k]);
            for (uint32_t r = 0; r < reads.count; r++)
                if (of[fuser->owner[reads.at[r]->id]])
                    return true;
        }
    return false;
}

// Does the reader need the other through third ones?
static bool needs_through_others(const Fuser *fuser, uint32_t reader, uint32_t number) {
    uint32_t count = fuser->clusters.count;
    bool *of = arena_array(fuser->arena, bool, count + 1);
    bool grown = true;
    of[number] = true;
    while (grown) {
        grown = false;
        for (uint32_t i = 0; i < count; i++) {
            if (of[i] || i == reader || fuser->clusters.at[i].dead || !reads_any(fuser, i, of))
                continue;
            of[i] = grown = true;
        }
    }
    of[number] = false;
    return reads_any(fuser, reader, of);
}

static bool may_join(const Fuser *fuser, uint32_t number, uint32_t reader) {
    const Cluster *a = &fuser->clusters.at[number], *b = &fuser->clusters.at[reader];
    return number != reader && !b->dead && b->kind == GROUP_MAP && dims_equal(&a->rows, &b->rows) &&
           fuse_turn_fits(a, b->turn) && fuse_has_room(b, a->owned.count, &a->dims) &&
           reads_directly(fuser, reader, number) && !needs_through_others(fuser, reader, number);
}

static bool has_updates(const Graph *graph) {
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.at[i]->use == USE_REPLACED)
            return true;
    return false;
}

void fuse_merge_updates(Fuser *fuser) {
    bool changed = has_updates(fuser->graph);
    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < fuser->clusters.count; i++) {
            const Cluster *cluster = &fuser->clusters.at[i];
            if (cluster->dead || cluster->kind != GROUP_MAP || !holds_update(fuser, cluster))
                continue;
            uint32_t reader = 0;
            while (reader < fuser->clusters.count && !may_join(fuser, i, reader))
                reader++;
            if (reader == fuser->clusters.count)
                continue;
            fuse_join_clusters(fuser, i, reader);
            changed = true;
        }
    }
}
