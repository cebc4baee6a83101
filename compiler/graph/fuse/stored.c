// SPDX-License-Identifier: Apache-2.0
// Which wide values are stored, where sweep after sweep would compute them again. Logits that are
// added up over layers:
//
//     S_1 = J_1;  S_2 = J_2 + S_1;  S_3 = J_3 + S_2        J_i = einsum(Q_i, K_i), in phase i
//     sweep 3, again:   S_3 = J_3 + (J_2' + J_1')          as many products as layers, for each
//     sweep 3, stored:  S_3 = J_3 + S_2                    S_2 is written once and read
//
// Phase by phase: what a sweep needs of earlier ones is either computed again from what it is made
// of, at the machine's rates, or stored and read, at the bandwidth of the level that holds what is
// made between its sweep and this one. The cheapest choice is a minimum cut (choice.c); what an
// earlier choice has stored is only read. A choice does not know the phases to come, so that all of
// them together take at most about twice the least time.
//
// A set of two phases at most is never stored, as one softmax and its gradient have: the arithmetic
// is bounded without, and memory that grows with the positions alone is what a sweep is for.
#include "graph/fuse/sweeps.h"

#include <math.h>

enum { LOAD = 1 };

typedef struct {
    const Graph *graph;
    const int64_t *extents;
    const Machine *machine;
    double wide_price; // see graph_recompute
    const bool *live;
    Arena *arena;
    SweptPair *pair;
    uint32_t set, phase;
    uint32_t begin;       // value id: the first of the phase
    ValueList open;       // what the phase needs of earlier ones, with what that is made of
    uint32_t *node;       // by value id: 1 + the place in open; 0: it is not there
    const double *before; // by value id: bytes that lie in memory, of values before it
} Choice;

// ---- what a phase needs ------------------------------------------------------------------------

static void note(Choice *c, const Value *value) {
    if (c->node[value->id])
        return;
    vec_push(c->arena, &c->open, (Value *)value);
    c->node[value->id] = c->open.count;
}

// The wide values of earlier phases that a value reads.
static void note_args(Choice *c, const Value *value) {
    for (uint32_t k = 0; k < value->n_args; k++) {
        const Value *read = sweeps_read(c->pair, value->args[k]).value;
        if (read && c->pair->set[read->id] == c->set && c->pair->phase[read->id] < c->phase)
            note(c, read);
    }
}

// ---- the cut -----------------------------------------------------------------------------------

static double seconds_to_move(const Choice *c, const Value *value) {
    double bytes = fuse_bytes(value, c->extents);
    double between = bytes + c->before[c->begin] - c->before[value->id];
    double times = LOAD;
    if (!c->pair->stored[value->id])
        times += (TIMES_MOVED - LOAD) * c->wide_price;
    return times * bytes / machine_bandwidth(c->machine, between);
}

static void choose_for_phase(Choice *c, uint32_t n_needed) {
    KeepChoice choice = choice_new(c->arena, c->open.count);
    for (uint32_t i = 0; i < c->open.count; i++) {
        const Value *value = c->open.at[i];
        choice_value(&choice, i, seconds_to_move(c, value),
                     fuse_seconds_to_compute(value, c->extents, c->machine));
        if (i < n_needed)
            choice_needs(&choice, i);
        for (uint32_t k = 0; k < value->n_args; k++) {
            const Value *read = sweeps_read(c->pair, value->args[k]).value;
            if (read && c->node[read->id])
                choice_reads(&choice, i, c->node[read->id] - 1);
        }
    }
    const bool *kept = choice_make(&choice, c->arena);
    if (!kept)
        ice("stored: a sweep needs a value that can be neither stored nor computed again");
    for (uint32_t i = 0; i < c->open.count; i++)
        if (kept[i])
            c->pair->stored[c->open.at[i]->id] = true;
}

// values: of the set, in this phase.
static void visit_phase(Choice *c, const ValueList *values) {
    for (uint32_t i = 0; i < values->count; i++)
        note_args(c, values->at[i]);
    uint32_t n_needed = c->open.count;
    for (uint32_t i = 0; i < c->open.count; i++)
        if (!c->pair->stored[c->open.at[i]->id])
            note_args(c, c->open.at[i]);
    choose_for_phase(c, n_needed);
    for (uint32_t i = 0; i < c->open.count; i++)
        c->node[c->open.at[i]->id] = 0;
    c->open.count = 0;
}

// What is not streamed lies in memory.
static double *find_bytes_before(const Choice *c) {
    const Graph *graph = c->graph;
    double *before = arena_array(c->arena, double, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        bool lies = c->live[i] && !c->pair->wide[i] && !fuse_is_free(value);
        before[i + 1] = before[i] + (lies ? fuse_bytes(value, c->extents) : 0);
    }
    return before;
}

static ValueList *values_by_phase(const Choice *c) {
    const ValueList *of = &c->pair->of[c->set];
    ValueList *values = arena_array(c->arena, ValueList, c->pair->phases[c->set]);
    for (uint32_t i = 0; i < of->count; i++) {
        uint32_t phase = c->pair->phase[of->at[i]->id]; // of a later set that it reads as well
        if (sweeps_is_of_set(c->pair, of->at[i], c->set) && phase < c->pair->phases[c->set])
            vec_push(c->arena, &values[phase], of->at[i]);
    }
    return values;
}

static void choose_for_set(Choice *c, uint32_t set) {
    c->set = c->begin = set;
    const ValueList *values = values_by_phase(c);
    for (c->phase = 1; c->phase < c->pair->phases[set]; c->phase++) {
        while (c->begin < c->pair->end[set] && c->pair->phase[c->begin] < c->phase)
            c->begin++;
        visit_phase(c, &values[c->phase]);
    }
}

void sweeps_choose_stored(SweptPairs *pairs, const Graph *graph, const int64_t *extents,
                          const Machine *machine, double wide_price, Arena *arena) {
    Choice c = {graph, extents, machine, wide_price, .arena = arena};
    c.live = graph_live(graph, arena);
    c.node = arena_array(arena, uint32_t, graph->values.count + 1);
    for (uint32_t p = 0; p < pairs->count && !isinf(wide_price); p++) {
        c.pair = &pairs->at[p];
        c.before = find_bytes_before(&c);
        for (uint32_t i = 0; i < graph->values.count; i++)
            if (c.pair->twice[i] && c.pair->phases[i] > FEW_PHASES)
                choose_for_set(&c, i);
    }
}
