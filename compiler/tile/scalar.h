// SPDX-License-Identifier: Apache-2.0
// One number of a scalar program, as interp.c computes with it. Floats live in f (already rounded
// to float unless the elem is f64), integers and bools in i.
#ifndef ATTC_TILE_SCALAR_H
#define ATTC_TILE_SCALAR_H

#include "graph/graph.h"

typedef struct {
    double f;
    int64_t i;
} Scalar;

Scalar scalar_of(double number, Elem elem);
Scalar scalar_load(Elem elem, const void *array, int64_t at);
void scalar_store(Elem elem, void *array, int64_t at, Scalar value); // halves are rounded
// args: of elem `from`; the condition of SELECT is args[0].
Scalar scalar_op(Op op, Elem elem, Elem from, const Scalar args[3]);
// NaN, or for integers a number that no program means: memory that nobody wrote.
void scalar_poison(Elem elem, void *array, int64_t count);

#endif
