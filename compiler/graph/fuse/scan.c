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
    const ValueList *own; // by DimId: live carries and ends of the scan
    DimList dims;         // of the scans of this group: the outer one first
    ValueList members;    // of the group
    uint32_t asked;       // of these, whose users have been looked at
    uint32_t first;       // the least id of them
    bool *inside;         // by value id: a member
    bool *met, *follows;  // by value id, for claim_between
} Claim;

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

static void add_member(Claim *claim, Value *value) {
    if (claim->inside[value->id])
        return;
    claim->inside[value->id] = true;
    claim->first = value->id < claim->first ? value->id : claim->first;
    vec_push(claim->fuser->arena, &claim->members, value);
}

// With another scan more users of the members belong to the group.
static void add_scan(Claim *claim, DimId dim) {
    if (dims_has(&claim->dims, dim))
        return;
    dims_add(&claim->dims, dim);
    for (uint32_t i = 0; i < claim->own[dim].count; i++)
        add_member(claim, claim->own[dim].at[i]);
    claim->asked = 0;
}

// What depends on members and is of their scans; adds those that it meets inside.
static void claim_dependents(Claim *claim) {
    const Fuser *fuser = claim->fuser;
    while (claim->asked < claim->members.count) {
        const Value **user = fuser->users[claim->members.at[claim->asked++]->id];
        for (; *user; user++) {
            if (claim->inside[(*user)->id] || !has_any(*user, &claim->dims))
                continue;
            add_member(claim, fuser->graph->values.at[(*user)->id]);
            if (op_kind((*user)->op) == KIND_SCAN)
                add_scan(claim, (*user)->dim);
        }
    }
}

static void meet_args(Claim *claim, const Value *value, ValueList *met) {
    for (uint32_t k = 0; k < value->n_args; k++) {
        Value *arg = value->args[k];
        if (arg->id < claim->first || claim->inside[arg->id] || claim->met[arg->id])
            continue;
        claim->met[arg->id] = true;
        vec_push(claim->fuser->arena, met, arg);
    }
}

// What depends on members and is needed by others. true: something new.
static bool claim_between(Claim *claim) {
    ValueList needed = {0};
    for (uint32_t i = 0; i < claim->members.count; i++)
        meet_args(claim, claim->members.at[i], &needed);
    for (uint32_t i = 0; i < needed.count; i++)
        meet_args(claim, needed.at[i], &needed);
    fuse_sort_values(&needed);
    for (uint32_t i = 0; i < needed.count; i++) {
        const Value *value = needed.at[i];
        claim->follows[value->id] = any_arg(value, claim->inside) || any_arg(value, claim->follows);
    }
    uint32_t before = claim->members.count;
    for (uint32_t i = 0; i < needed.count; i++) {
        Value *value = needed.at[i];
        if (claim->follows[value->id])
            add_member(claim, value);
        claim->met[value->id] = claim->follows[value->id] = false;
    }
    return claim->members.count > before;
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

static bool is_taken_along(const Fuser *fuser, const Value *value, uint32_t cluster, DimId dim,
                           const bool *of_numbers) {
    bool expanding = dims_has(&value->dims, dim) && expands(fuser, value);
    return fuser->owner[value->id] == CLUSTER_NONE && !fuse_is_free(value) &&
           (expanding || of_numbers[value->id]) && only_used_by(fuser, value, cluster);
}

// With the members what they alone need of such values. Pointwise arguments of these that only they
// need stay before the loop.
static void take_claim(Claim *claim, uint32_t cluster, DimId dim, const bool *of_numbers) {
    Fuser *fuser = claim->fuser;
    for (uint32_t i = 0; i < claim->members.count; i++)
        fuser->owner[claim->members.at[i]->id] = cluster;
    for (uint32_t i = 0; i < claim->members.count; i++)
        for (uint32_t k = 0; k < claim->members.at[i]->n_args; k++) {
            Value *arg = claim->members.at[i]->args[k];
            if (!is_taken_along(fuser, arg, cluster, dim, of_numbers))
                continue;
            fuser->owner[arg->id] = cluster;
            vec_push(fuser->arena, &claim->members, arg);
        }
}

// ---- all scans ----------------------------------------------------------------------------------

static ValueList *find_own(const Fuser *fuser) {
    const Graph *graph = fuser->graph;
    ValueList *own = arena_array(fuser->arena, ValueList, graph->dims.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        Value *value = graph->values.at[i];
        bool scans = value->op == OP_CARRY || op_kind(value->op) == KIND_SCAN;
        if (fuser->live[i] && scans)
            vec_push(fuser->arena, &own[value->dim], value);
    }
    return own;
}

// Is something left of the scan, and in no group?
static bool is_open(const Fuser *fuser, const ValueList *own) {
    for (uint32_t i = 0; i < own->count; i++)
        if (op_kind(own->at[i]->op) == KIND_SCAN)
            return fuser->owner[own->at[i]->id] == CLUSTER_NONE;
    return false;
}

void fuse_find_scans(Fuser *fuser) {
    const Graph *graph = fuser->graph;
    uint32_t count = graph->values.count + 1;
    const bool *of_numbers = find_made_of_numbers(fuser);
    Claim claim = {.fuser = fuser,
                   .own = find_own(fuser),
                   .inside = arena_array(fuser->arena, bool, count),
                   .met = arena_array(fuser->arena, bool, count),
                   .follows = arena_array(fuser->arena, bool, count)};
    for (uint32_t d = 0; d < graph->dims.count; d++) { // outer scans have the smaller ids
        if (!graph->dims.at[d].scan || !is_open(fuser, &claim.own[d]))
            continue;
        claim.dims.count = 0;
        claim.members.count = 0;
        claim.first = UINT32_MAX;
        add_scan(&claim, (DimId)d);
        do
            claim_dependents(&claim);
        while (claim_between(&claim));
        order_scans(&claim.dims);
        uint32_t cluster = fuse_new_cluster(fuser, GROUP_SCAN);
        fuser->clusters.at[cluster].reduced = claim.dims;
        take_claim(&claim, cluster, (DimId)d, of_numbers);
        for (uint32_t i = 0; i < claim.members.count; i++)
            claim.inside[claim.members.at[i]->id] = false;
    }
}
