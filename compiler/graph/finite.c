// SPDX-License-Identifier: Apache-2.0
// Numbers between the largest ones: what powers are taken relative to, so that a row of infinities
// is none of NaN.
#include "graph/graph.h"

Value *graph_finite(Graph *graph, Value *a) {
    double largest = elem_largest(a->elem);
    a = graph_map2(graph, OP_MAX, a, graph_const(graph, -largest, a->elem));
    return graph_map2(graph, OP_MIN, a, graph_const(graph, largest, a->elem));
}

// What is bounded by the number, by an operation of this kind. NULL: it is no such value.
static Value *bounded(const Value *value, Op op, double bound) {
    for (uint32_t k = 0; value->op == op && k < 2; k++)
        if (value->args[k]->op == OP_CONST && value->args[k]->number == bound)
            return value->args[1 - k];
    return NULL;
}

Value *value_made_finite(const Value *value) {
    if (!elem_is_float(value->elem))
        return NULL;
    double largest = elem_largest(value->elem);
    Value *below = bounded(value, OP_MIN, largest);
    return below ? bounded(below, OP_MAX, -largest) : NULL;
}

Value *value_as_largest(Value *value, const Value *x) {
    Value *unbounded = value_made_finite(value);
    Value *largest = unbounded ? unbounded : value;
    bool is_largest = largest->op == OP_REDUCE_TOP || largest->op == OP_REDUCE_MAX;
    return is_largest && largest->args[0] == x ? largest : NULL;
}
