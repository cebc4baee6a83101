// SPDX-License-Identifier: Apache-2.0
// What is kept in memory, of values that are needed later and that can be computed again from each
// other: the choice that takes least, as a minimum cut.
//
//     source --again--> computed --to keep--> there --> sink, where it is needed
//                       there (of what it is made of) --> computed
//
// Two nodes for each value, that it is computed and that it is there: what keeping it costs is the
// edge between them, what computing it again costs that from the source.
#include "graph/fuse/fuse.h"

#include <math.h>

static uint32_t computed(uint32_t value) {
    return 2 * value;
}

static uint32_t there(uint32_t value) {
    return 2 * value + 1;
}

KeepChoice choice_new(Arena *arena, uint32_t count) {
    return (KeepChoice){network_new(arena, 2 * count + 2), count, 2 * count, 2 * count + 1};
}

void choice_value(KeepChoice *choice, uint32_t value, double to_keep, double again) {
    network_edge(choice->network, computed(value), there(value), to_keep);
    network_edge(choice->network, choice->source, computed(value), again);
}

void choice_needs(KeepChoice *choice, uint32_t value) {
    network_edge(choice->network, there(value), choice->sink, INFINITY);
}

void choice_reads(KeepChoice *choice, uint32_t value, uint32_t arg) {
    network_edge(choice->network, there(arg), computed(value), INFINITY);
}

bool *choice_make(KeepChoice *choice, Arena *arena) {
    const bool *side = network_cut(choice->network, choice->source, choice->sink);
    bool *kept = side ? arena_array(arena, bool, choice->count + 1) : NULL;
    for (uint32_t i = 0; kept && i < choice->count; i++)
        kept[i] = side[there(i)] && !side[computed(i)];
    return kept;
}
