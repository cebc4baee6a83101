// SPDX-License-Identifier: Apache-2.0
// Order of contraction of one n-ary einsum; shared by contract.c and factor.c.
#ifndef ATTC_GRAPH_ORDER_H
#define ATTC_GRAPH_ORDER_H

#include "graph/graph.h"

enum { ORDER_EXACT_MAX = 10, ORDER_MAX = 64 };

// Operands 0..n-1 are the leaves; node n+i is step i. The last step is the result.
typedef struct {
    uint8_t left, right; // nodes, both smaller than this one
    bool contracts;      // false: nothing is summed, a pointwise product
    DimList dims;        // of its result; for a step, everything not needed later is summed
} OrderStep;
typedef struct {
    uint32_t n_leaves, n_steps;   // n_steps == n_leaves - 1
    DimList leaf_dims[ORDER_MAX]; // what is left of each operand after summing its private dims
    OrderStep steps[ORDER_MAX];
    double seconds;
    double multiplies;
} Order;

// The cheapest order for operands with these dims (1 <= n <= ORDER_MAX).
Order *order_find(Arena *arena, const DimList *operands, uint32_t n, const DimList *result,
                  const int64_t *extents, const Machine *machine);
const DimList *order_dims(const Order *order, uint32_t node);

#endif
