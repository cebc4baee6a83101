// SPDX-License-Identifier: Apache-2.0
// Which values of a graph with gradients belong to its backward pass.
//
//     Y = einsum(X, W)                     dW = einsum(X, dY)
//     Z = tanh(Y)                          dY = dZ * (1 - Z * Z), and Z * Z alone as well
//
// What was made for gradients or again for them (fuse/again.c), and whatever is made of it: also
// what would not have to wait for a cotangent, since it is read in the backward pass alone. What
// equals a value of the forward pass is that value.
#include "graph/graph.h"

static bool note(bool *flag, bool now) {
    bool changed = now && !*flag;
    *flag = *flag || now;
    return changed;
}

// What a scan carries depends on what its first value and its update do.
static bool mark_carries(bool *marked, const Value *end) {
    bool changed = false;
    for (uint32_t i = 0; op_kind(end->op) == KIND_SCAN && i < graph_scan_carries(end); i++) {
        ScanCarry carry = graph_scan_carry(end, i);
        changed |=
            note(&marked[carry.carry->id], marked[carry.first->id] || marked[carry.update->id]);
    }
    return changed;
}

void graph_spread(const Graph *graph, bool *marked) {
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = 0; i < graph->values.count; i++) {
            const Value *value = graph->values.at[i];
            for (uint32_t k = 0; k < value->n_args; k++)
                note(&marked[i], marked[value->args[k]->id]);
            more |= mark_carries(marked, value);
        }
    }
}

static bool is_root(const Value *value) {
    bool made = value->made_for.backward || value->made_for.turn;
    return !op_is_immediate(value->op) &&
           (value->op == OP_INPUT ? value->use == USE_COTANGENT : made);
}

bool *graph_backward(const Graph *graph, Arena *arena) {
    bool *backward = arena_array(arena, bool, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++)
        backward[i] = is_root(graph->values.at[i]);
    graph_spread(graph, backward);
    return backward;
}
