// SPDX-License-Identifier: Apache-2.0
// Facts of each operation, straight from ops.def.
#include "graph/graph.h"

#include <math.h>

typedef struct {
    const char *name;
    OpKind kind;
    int arity;
    double weight, weight_avx2;
    int traits;
} OpInfo;

enum { TRAIT_0 = 0 };

static const OpInfo op_table[N_OP] = {
#define OP(NAME, name, kind, arity, cycles, cycles_avx2, traits, formula)                          \
    [OP_##NAME] = {#name, KIND_##kind, arity, cycles, cycles_avx2, TRAIT_##traits},
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

double op_weight(Op op) {
    return op_table[op].weight;
}

double op_cycles(Op op, const Machine *machine) {
    return machine->has_masks ? op_table[op].weight : op_table[op].weight_avx2;
}

double op_cycles_of_one(Op op, const Machine *machine) {
    static const double DIVIDER = 16; // bytes that it takes at a time: chosen
    bool divides = op_table[op].traits & TRAIT_DIVIDES;
    return op_cycles(op, machine) / (divides ? machine->vector_bytes / DIVIDER : 1);
}

bool op_commutes(Op op) {
    return (op_table[op].traits & TRAIT_COMMUTES) != 0;
}

bool op_is_immediate(Op op) {
    return op == OP_CONST || op == OP_INDEX || op == OP_EXTENT;
}

bool op_is_reading(Op op) {
    return op == OP_RENAME || op == OP_TAKE;
}

bool op_regroups(Op op) {
    return op == OP_SPLIT || op == OP_MERGE;
}

bool op_may_be_view(Op op) {
    return op_is_reading(op) || op_regroups(op);
}

double op_apply1(Op op, double a) {
    switch (op) {
    case OP_COPY:
    case OP_STOP_GRADIENT:
        return a;
    case OP_NEG:
        return -a;
    case OP_ABS:
        return fabs(a);
    case OP_EXP:
        return exp(a);
    case OP_EXP2:
        return exp2(a);
    case OP_LOG:
        return log(a);
    case OP_SQRT:
        return sqrt(a);
    case OP_RSQRT:
        return 1 / sqrt(a);
    case OP_TANH:
        return tanh(a);
    case OP_SIGMOID:
        return 1 / (1 + exp(-a));
    case OP_ERF:
        return erf(a);
    case OP_SIN:
        return sin(a);
    case OP_COS:
        return cos(a);
    case OP_FLOOR:
        return floor(a);
    case OP_NOT:
        return a == 0;
    default:
        return NAN;
    }
}

double op_apply2(Op op, double a, double b) {
    switch (op) {
    case OP_ADD:
        return a + b;
    case OP_SUB:
        return a - b;
    case OP_MUL:
        return a * b;
    case OP_DIV:
        return a / b;
    case OP_POW:
        return pow(a, b);
    case OP_MIN:
        return isnan(a) || a < b ? a : b; // NaN when either is
    case OP_MAX:
        return isnan(a) || a > b ? a : b;
    case OP_EQ:
        return a == b;
    case OP_NE:
        return a != b;
    case OP_LT:
        return a < b;
    case OP_LE:
        return a <= b;
    case OP_AND:
        return a != 0 && b != 0;
    case OP_OR:
        return a != 0 || b != 0;
    default:
        return NAN;
    }
}
