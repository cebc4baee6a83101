// SPDX-License-Identifier: Apache-2.0
// Vector math of the CPU targets, emitted inline so that it fuses with the code around it.
#ifndef ATTC_VMATH_H
#define ATTC_VMATH_H

#include "emit/emit.h"

// Is this MAP op computed here and not by emit_map()?
bool vmath_has(Op op);
// op of arguments with equal elems and lanes (a float elem; lanes 1 is a scalar).
EmitValue vmath_call(EmitModule *module, Op op, EmitValue *args, uint32_t n_args);

#endif
