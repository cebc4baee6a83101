// SPDX-License-Identifier: Apache-2.0
// Facts of each operation, straight from ops.def.
#include "graph/graph.h"

typedef struct {
    const char *name;
    OpKind kind;
    int arity;
    int traits;
} OpInfo;

enum { TRAIT_0 = 0 };

static const OpInfo op_table[N_OP] = {
#define OP(NAME, name, kind, arity, traits, formula)                                               \
    [OP_##NAME] = {#name, KIND_##kind, arity, TRAIT_##traits},
#include "graph/ops.def"
#undef OP
};

const char *op_name(Op op) {
    return op_table[op].name;
}

OpKind op_kind(Op op) {
    return op_table[op].kind;
}

int op_arity(Op op) {
    return op_table[op].arity;
}

bool op_commutes(Op op) {
    return (op_table[op].traits & TRAIT_COMMUTES) != 0;
}
