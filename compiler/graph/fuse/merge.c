// SPDX-License-Identifier: Apache-2.0
// Pointwise clusters join the one cluster that reads them.
//
//     before  map   A[n, d] = exp(X[n, d])            after  rows  A[n, d] = exp(X[n, d])
//             rows  s[n] = sum(A[n, d])                            s[n] = sum(A[n, d])
//
// Requires: every computed value owned or inline. Ensures: no cluster needs itself through others.
#include "graph/fuse/fuse.h"

// The one cluster that reads values of this one from outside; NONE when there are more, when a
// result of the entry is among the values, or when one is read through a rename and must be stored
// for it.
static uint32_t cluster_only_reader(const Fuser *fuser, uint32_t number) {
    const Cluster *cluster = &fuser->clusters.at[number];
    uint32_t found = CLUSTER_NONE;
    for (uint32_t i = 0; i < cluster->owned.count; i++) {
        const Value *value = cluster->owned.at[i];
        if (fuser->result[value->id])
            return CLUSTER_NONE;
        for (const Value **user = fuser->users[value->id]; *user; user++) {
            uint32_t reader = fuser->owner[(*user)->id];
            if (reader == number)
                continue;
            if (reader == CLUSTER_INLINE || (found != CLUSTER_NONE && reader != found))
                return CLUSTER_NONE;
            found = reader;
        }
    }
    return found;
}

void fuse_join_clusters(Fuser *fuser, uint32_t from, uint32_t to) {
    Cluster *a = &fuser->clusters.at[from], *b = &fuser->clusters.at[to];
    for (uint32_t i = 0; i < a->owned.count; i++) {
        vec_push(fuser->arena, &b->owned, a->owned.at[i]);
        fuser->owner[a->owned.at[i]->id] = to;
    }
    fuse_add_dims(fuser, &b->dims, &a->dims);
    b->forward = b->forward || a->forward;
    b->turn = a->turn > b->turn ? a->turn : b->turn;
    a->dead = true;
}

void fuse_merge_producers(Fuser *fuser) {
    bool changed = true;
    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < fuser->clusters.count; i++) {
            Cluster *cluster = &fuser->clusters.at[i];
            if (cluster->dead || cluster->kind != GROUP_MAP)
                continue;
            uint32_t reader = cluster_only_reader(fuser, i);
            if (reader == CLUSTER_NONE || !fuse_prologue_fits(fuser, i, reader) ||
                !fuse_turn_fits(cluster, fuser->clusters.at[reader].turn))
                continue;
            fuse_join_clusters(fuser, i, reader);
            changed = true;
        }
    }
}
