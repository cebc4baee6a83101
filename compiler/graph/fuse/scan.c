// SPDX-License-Identifier: Apache-2.0
// Scans become one group each: a loop whose steps wait for each other is one kernel.
//
//     K[t, d] = einsum(X[t, m], W[m, d])        # of no carry: before the loop, for all t
//     D[t, d, e] = K[t, d] * V[t, e]            # larger than what it is made of: in the loop
//     U[t, d, e] = C[t, d, e] * g[t] + D        # C: a carry
//     Y[n, e] = stack of einsum(Q[t, d], U)     # the loop ends: a value over n
//
// In the group of t is what depends on a carry of t up to the ends of t, scans inside of it whole,
// whatever lies between such values, and what it alone needs of values that are larger than what
// they are made of, or made of numbers alone.
//
// Requires: live, users and result of the fuser. Ensures: no group needs itself through others.
#include "graph/fuse/fuse.h"

typedef struct {
    Fuser *fuser;
    DimList dims;  // of the scans of this group: the outer one first
    bool *inside;  // by value id
    bool *follows; // by value id: depends on what is inside
} Claim;

static bool is_of_scan(const Value *value, const DimList *dims) {
    bool scans = value->op == OP_CARRY || op_kind(value->op) == KIND_SCAN;
    return scans && dims_has(dims, value->dim);
}

static bool any_arg(const Value *value, const bool *marked) {
    for (uint32_t i = 0; i < value->n_args; i++)
        if (marked[value->args[i]->id])
            return true;
    return false;
}

static bool has_any(const Value *value, const DimList *dims) {
    for (uint32_t i = 0; i < dims->count; i++)
        if (dims_has(&value->dims, dims->at[i]))
            return true;
    return false;
}

// Marks what belongs to the scans; adds to dims those that it meets inside. true: something new.
static bool claim_dependents(Claim *claim) {
    const Graph *graph = claim->fuser->graph;
    bool changed = false;
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        if (!claim->fuser->live[i] || claim->inside[i])
            continue;
        bool end = op_kind(value->op) == KIND_SCAN;
        bool own = is_of_scan(value, &claim->dims);
        bool depends = any_arg(value, claim->inside) && (own || has_any(value, &claim->dims));
        claim->inside[i] = own || depends;
        changed |= claim->inside[i];
        if (depends && end)
            dims_add(&claim->dims, value->dim);
    }
    return changed;
}

// What depends on values inside and is needed by others inside.
static bool claim_between(Claim *claim) {
    const Graph *graph = claim->fuser->graph;
    bool changed = false;
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        claim->follows[i] =
            !claim->inside[i] && (any_arg(value, claim->inside) || any_arg(value, claim->follows));
    }
    for (uint32_t i = graph->values.count; i-- > 0;) {
        const Value *value = graph->values.at[i];
        for (uint32_t k = 0; claim->inside[i] && k < value->n_args; k++) {
            uint32_t arg = value->args[k]->id;
            changed |= claim->follows[arg] && !claim->inside[arg];
            claim->inside[arg] |= claim->follows[arg];
        }
    }
    return changed;
}

// The outer scans first: an inner one may have been met before that around it.
static void order_scans(DimList *dims) {
    for (uint8_t i = 1; i < dims->count; i++)
        for (uint8_t k = i; k > 0 && dims->at[k] < dims->at[k - 1]; k--) {
            DimId outer = dims->at[k];
            dims->at[k] = dims->at[k - 1];
            dims->at[k - 1] = outer;
        }
}

static void take_claim(const Claim *claim, uint32_t cluster) {
    Fuser *fuser = claim->fuser;
    for (uint32_t i = 0; i < fuser->graph->values.count; i++)
        if (claim->inside[i] && fuser->live[i])
            fuser->owner[i] = cluster;
}

// ---- values that are larger than what they are made of ------------------------------------------

static bool expands(const Fuser *fuser, const Value *value) {
    int64_t own = dims_volume(&value->dims, fuser->extents);
    for (uint32_t i = 0; i < value->n_args; i++)
        if (dims_volume(&value->args[i]->dims, fuser->extents) >= own)
            return false;
    return op_kind(value->op) == KIND_MAP && value->n_args > 1;
}

static bool only_used_by(const Fuser *fuser, const Value *value, uint32_t cluster) {
    const Value **user = fuser->users[value->id];
    bool only = *user != NULL && !fuser->result[value->id];
    for (; *user && only; user++)
        only = fuser->owner[(*user)->id] == cluster;
    return only;
}

// By value id: pointwise on numbers and positions, such as zeros over some dims.
static bool *find_made_of_numbers(const Fuser *fuser) {
    bool *made = arena_array(fuser->arena, bool, fuser->graph->values.count + 1);
    for (uint32_t i = 0; i < fuser->graph->values.count; i++) {
        const Value *value = fuser->graph->values.at[i];
        made[i] = op_is_immediate(value->op) || op_kind(value->op) == KIND_MAP;
        for (uint32_t k = 0; k < value->n_args; k++)
            made[i] = made[i] && made[value->args[k]->id];
    }
    return made;
}

// Pointwise arguments of such values that only they need stay before the loop.
static void take_expanding(Fuser *fuser, uint32_t cluster, DimId dim) {
    const bool *of_numbers = find_made_of_numbers(fuser);
    for (uint32_t i = fuser->graph->values.count; i-- > 0;) {
        const Value *value = fuser->graph->values.at[i];
        bool expanding = dims_has(&value->dims, dim) && expands(fuser, value);
        if (fuser->live[i] && fuser->owner[i] == CLUSTER_NONE && !fuse_is_free(value) &&
            (expanding || of_numbers[i]) && only_used_by(fuser, value, cluster))
            fuser->owner[i] = cluster;
    }
}

// ---- all scans ----------------------------------------------------------------------------------

static bool is_open(const Fuser *fuser, DimId dim) {
    for (uint32_t i = 0; i < fuser->graph->values.count; i++) {
        const Value *value = fuser->graph->values.at[i];
        if (fuser->live[i] && op_kind(value->op) == KIND_SCAN && value->dim == dim)
            return fuser->owner[i] == CLUSTER_NONE;
    }
    return false;
}

void fuse_find_scans(Fuser *fuser) {
    const Graph *graph = fuser->graph;
    for (uint32_t d = 0; d < graph->dims.count; d++) { // outer scans have the smaller ids
        if (!graph->dims.at[d].scan || !is_open(fuser, (DimId)d))
            continue;
        Claim claim = {.fuser = fuser,
                       .dims = {1, {(DimId)d}},
                       .inside = arena_array(fuser->arena, bool, graph->values.count + 1),
                       .follows = arena_array(fuser->arena, bool, graph->values.count + 1)};
        while (claim_dependents(&claim) || claim_between(&claim))
            continue;
        order_scans(&claim.dims);
        uint32_t cluster = fuse_new_cluster(fuser, GROUP_SCAN);
        fuser->clusters.at[cluster].reduced = claim.dims;
        take_claim(&claim, cluster);
        take_expanding(fuser, cluster, (DimId)d);
    }
}
