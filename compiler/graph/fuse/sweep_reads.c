// SPDX-License-Identifier: Apache-2.0
// How values read the wide values of a pair: themselves or under other names, of which set.
#include "graph/fuse/sweeps.h"

WideRead sweeps_read(const SweptPair *pair, const Value *arg) {
    if (pair->wide[arg->id])
        return (WideRead){arg, pair->x, pair->y};
    if (arg->op != OP_RENAME || !pair->wide[arg->args[0]->id])
        return (WideRead){NULL, DIM_NONE, DIM_NONE};
    return (WideRead){arg->args[0], dimmap_get(arg->renames, pair->x),
                      dimmap_get(arg->renames, pair->y)};
}

WideRead sweeps_reads_twice(const SweptPair *pair, const Value *value) {
    WideRead all = {NULL, DIM_NONE, DIM_NONE}, none = all;
    for (uint32_t k = 0; k < value->n_args; k++) {
        WideRead read = sweeps_read(pair, value->args[k]);
        if (!read.value)
            continue;
        if (!pair->twice[pair->set[read.value->id]] ||
            (all.value && (all.x != read.x || all.y != read.y)))
            return none;
        all = read;
    }
    return all;
}

bool sweeps_is_sum(const Value *value) {
    return (value->op == OP_CONTRACT || value->op == OP_SUM) && !value_in_parts(value);
}

WideRead sweeps_reads_set(const SweptPair *pair, const Value *value, uint32_t set) {
    for (uint32_t k = 0; k < value->n_args; k++) {
        WideRead read = sweeps_read(pair, value->args[k]);
        if (read.value && pair->set[read.value->id] == set)
            return read;
    }
    return (WideRead){NULL, DIM_NONE, DIM_NONE};
}

bool sweeps_is_of_set(const SweptPair *pair, const Value *value, uint32_t set) {
    bool member = pair->wide[value->id] && pair->set[value->id] == set;
    return member || (value_is_reduction(value) && sweeps_reads_set(pair, value, set).value);
}
