// SPDX-License-Identifier: Apache-2.0
// Looks for vector registers on the stack in the contraction loops of an x86-64 object.
#ifndef ATTC_TESTS_SPILLS_H
#define ATTC_TESTS_SPILLS_H

#include "emit/emit.h"

typedef struct {
    int loops;         // contraction loops found: innermost, with multiply-adds of splat elements
    int spills;        // instructions in them that move a vector from or to the stack
    int multiply_adds; // in them, all together
    char first[128];   // the first such instruction
} Spills;
Spills spills_find(Blob object);

#endif
