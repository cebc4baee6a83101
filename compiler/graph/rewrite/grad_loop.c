// SPDX-License-Identifier: Apache-2.0
// Scans backwards: the adjoint of what a scan carries is carried by a scan from the other end.
//
//     scan t in n:                        dC = dS
//         Y[t] = einsum(Q[t], C)          scan t in n reversed:
//         C = C * G[t] + X[t]                 dX[t] = dC;  dG[t] = dC * C[t]
//     S = C                                   dC = dC * G[t] + einsum(dY[t], Q[t])
//                                         dC is the gradient by the first C
//
// dC is the adjoint of what the step left behind: it meets the contributions of the body, value by
// value as anywhere else, and what arrives at the carry is handed to the step before. What the body
// contributes to a value outside of it leaves the loop (grad_leave.c).
//
// (Griewank and Walther, Evaluating Derivatives, ch. 10 and 12: store all.)
#include "graph/rewrite/grad.h"

// ---- a reversed scan ---------------------------------------------------------------------------

static bool is_wanted_in(const Gradient *gradient, const ScanCarry *carry, const DimList *home) {
    DimList own = gradient_home(gradient, &carry->carry->dims);
    return gradient->wanted[carry->carry->id] && dims_equal(&own, home);
}

// The wanted carries of the old graph that are reversed here.
static ScanCarries carries_here(const Gradient *gradient, const DimList *home) {
    const ScanCarries *all = &gradient->carries[home->at[home->count - 1]];
    ScanCarries here = {0};
    for (uint32_t i = 0; i < all->count; i++)
        if (is_wanted_in(gradient, &all->at[i], home))
            vec_push(gradient->rewrite.arena, &here, all->at[i]);
    return here;
}

static Value *or_zeros(Gradient *gradient, Value *value, const Value *carry, const DimList *over) {
    Graph *graph = gradient->rewrite.to;
    value = value ? value : graph_const(graph, 0, carry->elem);
    return graph_over(graph, value, over);
}

static void reverse_scan(Gradient *gradient, GradientScan *scan) {
    Graph *graph = gradient->rewrite.to;
    Arena *arena = gradient->rewrite.arena;
    ScanCarries old = carries_here(gradient, &scan->home);
    for (uint32_t i = 0; i < old.count; i++) {
        const Value *carry = old.at[i].carry;
        DimList dims = gradient_dims(gradient, &carry->dims);
        Value *adjoint = graph_carry(graph, i, elem_work(carry->elem), dims, scan->back);
        vec_push(arena, &scan->carries, (ScanCarry){.carry = adjoint});
        scan->common = i ? dims_intersect(&scan->common, &dims) : dims;
    }
    scan->common = dims_minus(&scan->common, &(DimList){1, {scan->back}});
    for (uint32_t i = 0; i < old.count; i++)
        gradient_leave(
            gradient,
            (Leaving){.to = old.at[i].update, .part = scan->carries.at[i].carry, .dim = DIM_NONE});
    gradient_sweep(gradient, &scan->home, &scan->inside);
    for (uint32_t i = 0; i < old.count; i++) {
        ScanCarry *c = &scan->carries.at[i];
        uint32_t id = old.at[i].carry->id;
        DimList rest = dims_minus(&c->carry->dims, &(DimList){1, {scan->back}});
        c->first = or_zeros(gradient, gradient->last[id], c->carry, &rest);
        c->update = or_zeros(gradient, gradient->adjoint[id], c->carry, &c->carry->dims);
    }
    gradient_leave_scan(gradient, scan);
    for (uint32_t i = 0; i < old.count; i++)
        if (gradient->wanted[old.at[i].first->id])
            gradient_leave(gradient,
                           (Leaving){.to = old.at[i].first,
                                     .part = graph_last(graph, i, scan->back, &scan->carries),
                                     .dim = DIM_NONE});
}

// ---- the sweep ---------------------------------------------------------------------------------

static void hand_on(Gradient *gradient, const Value *value) {
    Graph *graph = gradient->rewrite.to;
    uint32_t before = graph->values.count;
    gradient->home = gradient_home(gradient, &value->dims);
    gradient_rule(value->op)(gradient, value, gradient->adjoint[value->id]);
    for (uint32_t i = before; i < graph->values.count; i++)
        if (!graph->values.at[i]->origin.file)
            graph->values.at[i]->origin = value->origin;
}

static bool begins_with(const DimList *home, const DimList *with) {
    for (uint32_t i = 0; i < with->count; i++)
        if (i >= home->count || home->at[i] != with->at[i])
            return false;
    return true;
}

static void reverse_once(Gradient *gradient, const DimList *home) {
    GradientScan *scan = gradient_scan(gradient, home);
    if (scan->done)
        return;
    scan->done = true;
    reverse_scan(gradient, scan);
}

// The scans, directly inside of this home, that begin with the value.
static void reverse_begun(Gradient *gradient, const Value *value, const DimList *home) {
    const ScanCarries *begun = &gradient->begun[value->id];
    for (uint32_t i = 0; i < begun->count; i++) {
        DimList own = gradient_home(gradient, &begun->at[i].carry->dims);
        if (own.count == home->count + 1 && begins_with(&own, home))
            reverse_once(gradient, &own);
    }
}

// What is left of a scan hands its adjoint to the body, which is not reversed so far.
static void check_end(const Gradient *gradient, const Value *end) {
    DimList body = gradient_home(gradient, &end->args[0]->dims);
    const GradientScan *scan = gradient_known_scan(gradient, &body);
    if (scan && scan->done)
        ice("grad: value %u (%s) is left of a scan and comes before the end of its body", end->id,
            op_name(end->op));
}

// What is left of a scan comes after its body and what it begins with: when the last value of these
// is met, all adjoints that come from outside are there.
void gradient_sweep(Gradient *gradient, const DimList *home, const ValueList *values) {
    for (uint32_t i = values->count; i-- > 0;) {
        const Value *value = values->at[i];
        if (!gradient->wanted[value->id] || !gradient->rewrite.now[value->id])
            continue;
        DimList own = gradient_home(gradient, &value->dims);
        if (own.count > home->count) {
            own.count = (uint8_t)(home->count + 1);
            reverse_once(gradient, &own);
            continue;
        }
        reverse_begun(gradient, value, home);
        if (!gradient->adjoint[value->id])
            continue;
        if (op_kind(value->op) == KIND_SCAN)
            check_end(gradient, value);
        hand_on(gradient, value);
    }
}
