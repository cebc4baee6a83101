// SPDX-License-Identifier: Apache-2.0
// Recompute or store: what of the forward pass is in memory for the backward pass.
//
//     H = gelu(einsum(X, W));  Y = einsum(H, V)         for dV: H;  for dX: what gelu was made of
//
// Each value of the forward pass that the backward pass is made of is either kept or computed
// again from what it is made of. Keeping it moves its bytes to memory and back at the machine's
// bandwidth; computing it again takes its arithmetic at the machine's rates, and what it is made of
// has to be there. What an einsum reads lies in memory anyway, if it is no light prologue: if one
// of the forward pass does, it is only read again when it is kept; if one of the backward pass
// does, it is stored when it is computed again. The cheapest choice is a minimum cut. Results and
// arguments are there anyway. What scans leave is always kept, and values over pairs of positions
// (the wide values of fuse.h) never are, unless they are results.
//
// In a block that is checkpointed only the values that others than itself read are kept, whatever
// they cost. A saving may have the rounds of loops checkpointed, too.
//
// Where memory is short a byte that is kept has a price besides, in steps that double, the last of
// them without end. A price alone would not do: with nothing kept all of the forward pass is
// computed again at once, and all of it lies there. So what crosses the seams of the forward pass
// (seams.c) has no price, and what is computed again is at most a stretch between two of them. The
// stretches are priced from the first on, as they are computed again last, when what the others
// kept is gone.
//
// Source: minimum-cut rematerialisation as in PyTorch's AOTAutograd; saved row statistics in place
// of weights: Dao et al. 2022; checkpoints: Chen et al. 2016.
#include "graph/fuse/fuse.h"

#include <math.h>

typedef struct {
    const Graph *graph;
    const int64_t *extents;
    const Machine *machine;
    Arena *arena; // of the pass alone
    const bool *live;
    const bool *after; // by value id: of the backward pass
    bool *again;       // by value id: computed again in any case
    uint32_t *result;  // by value id: 1 + the place among the outputs; 0: it is no result
    bool *crosses;     // by value id: read outside of its block
    bool *read_forward, *read_backward; // by value id: by an einsum of that pass, from memory
    Saving saving;
    Seams seams; // where memory is saved
} Keeper;

// ---- which values are computed again in any case -----------------------------------------------

static bool has_parameters(const Graph *graph) {
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.at[i]->role == ROLE_PARAM)
            return true;
    return false;
}

// Is it larger than what it is made of, with the pair?
static bool expands(const Keeper *p, const FusePair *pair, const Value *value) {
    return fuse_makes_pair(value, pair->x, pair->y) &&
           dims_volume(&value->dims, p->extents) >
               add_capped(dims_volume(&value->args[0]->dims, p->extents),
                          dims_volume(&value->args[1]->dims, p->extents));
}

// Is it the sum of a softmax over one dim of the pair?
static bool normalises(const FusePair *pair, const Value *value) {
    const Value *power = value->op == OP_SUM ? value->args[0] : NULL;
    return power && (power->op == OP_EXP || power->op == OP_EXP2) &&
           dims_has(&power->dims, pair->x) && dims_has(&power->dims, pair->y) &&
           dims_has(&value->dims, pair->x) != dims_has(&value->dims, pair->y);
}

// Where nothing tells parameters from data, any product of an argument with a matrix makes a pair.
static bool is_of_positions(const Keeper *p, const FusePair *pair) {
    for (uint32_t i = 0; i < p->graph->values.count; i++)
        if (expands(p, pair, p->graph->values.at[i]) || normalises(pair, p->graph->values.at[i]))
            return true;
    return has_parameters(p->graph);
}

static bool keeps_all(const Value *value) {
    return op_kind(value->op) == KIND_MAP || value->op == OP_RENAME || op_regroups(value->op) ||
           value->op == OP_SLICE || value->op == OP_CONCAT || value->op == OP_SHIFT;
}

// Wide values, and masks and biases over the same pair.
static void mark_wide(Keeper *p) {
    const Graph *graph = p->graph;
    PairSearch search = fuse_search_pairs(graph, p->extents, p->arena);
    const bool *given = fuse_find_given(graph, p->arena);
    for (uint32_t k = 0; k < search.pairs.count && search.pairs.at[k].positions; k++) {
        const FusePair *pair = &search.pairs.at[k];
        if (!is_of_positions(p, pair))
            continue;
        bool *wide = fuse_claim_wide(&search, pair);
        for (uint32_t i = 0; wide && i < graph->values.count; i++) {
            const DimList *dims = &graph->values.at[i]->dims;
            bool over_both = dims_has(dims, pair->x) && dims_has(dims, pair->y);
            p->again[i] = p->again[i] || wide[i] || (given[i] && over_both);
        }
    }
}

static bool is_of_step(const Graph *graph, const Value *value) {
    for (uint32_t i = 0; i < value->dims.count; i++)
        if (graph->dims.at[value->dims.at[i]].scan)
            return true;
    return false;
}

// Is it the sum of powers that are computed again, or made of such sums alone?
static bool is_of_norms(const Keeper *p, const bool *norm, const Value *value) {
    const Value *power = value->op == OP_SUM ? value->args[0] : NULL;
    if (power)
        return (power->op == OP_EXP || power->op == OP_EXP2) && p->again[power->id];
    bool any = false;
    for (uint32_t k = 0; k < value->n_args; k++) {
        if (!norm[value->args[k]->id] && !fuse_is_free(value->args[k]))
            return false;
        any = any || norm[value->args[k]->id];
    }
    return any && op_kind(value->op) == KIND_MAP;
}

// What is computed again may differ in its last bits, and its sum with it: weights add up to one
// only with a sum of their own, and where logits are large the rest is all that a gradient is.
static void mark_norms(Keeper *p) {
    bool *norm = arena_array(p->arena, bool, p->graph->values.count + 1);
    for (uint32_t i = 0; i < p->graph->values.count; i++)
        norm[i] = is_of_norms(p, norm, p->graph->values.at[i]);
    for (uint32_t i = 0; i < p->graph->values.count; i++)
        p->again[i] = p->again[i] || norm[i];
}

// Wide values under other names, and those of single steps of a scan.
static void mark_again(Keeper *p) {
    mark_wide(p);
    for (uint32_t i = 0; i < p->graph->values.count; i++) {
        const Value *value = p->graph->values.at[i];
        for (uint32_t k = 0; keeps_all(value) && k < value->n_args; k++)
            p->again[i] = p->again[i] || p->again[value->args[k]->id];
        p->again[i] = p->again[i] || is_of_step(p->graph, value);
    }
    mark_norms(p);
}

// ---- blocks ------------------------------------------------------------------------------------

// The outermost that is checkpointed; NULL: the value is in none.
static const CodeBlock *block_of(const Keeper *p, const Value *value) {
    const CodeBlock *found = NULL;
    for (const CodeBlock *block = value->made_for.block; block; block = block->around)
        if (block->checkpointed || (p->saving.rounds && block->depth == p->saving.rounds))
            found = block;
    return found;
}

static void mark_crossing(Keeper *p) {
    for (uint32_t i = 0; i < p->graph->values.count; i++) {
        const Value *user = p->graph->values.at[i];
        for (uint32_t k = 0; p->live[i] && !p->after[i] && k < user->n_args; k++)
            if (block_of(p, user->args[k]) != block_of(p, user))
                p->crosses[user->args[k]->id] = true;
    }
}

// ---- operands ----------------------------------------------------------------------------------

// Not of what is computed again in any case, as in tiles that are never stored. Taken to be so:
// operands of einsums that turn out to be computed along rows or in a sweep do not lie in memory.
static void mark_operands(Keeper *p) {
    const bool *prologue = fuse_find_prologues(p->graph, p->after, p->arena);
    for (uint32_t i = 0; i < p->graph->values.count; i++) {
        const Value *value = p->graph->values.at[i];
        bool reads = value->op == OP_CONTRACT && p->live[i] && !p->again[i];
        for (uint32_t k = 0; reads && k < value->n_args; k++) {
            const Value *arg = value->args[k];
            while (op_may_be_view(arg->op) && arg->op != OP_TAKE)
                arg = arg->args[0];
            (p->after[i] ? p->read_backward : p->read_forward)[arg->id] = !prologue[arg->id];
        }
    }
}

// ---- the cut -----------------------------------------------------------------------------------

// What is pointwise or moves is computed where it is read, if that is no einsum; all else is stored
// for that, too.
static double seconds_again(const Keeper *p, const Value *value) {
    if (p->again[value->id])
        return 0;
    if (op_kind(value->op) == KIND_SCAN)
        return INFINITY;
    bool stored = fuse_is_alone(value) || p->read_backward[value->id];
    double bytes = stored ? TIMES_MOVED * fuse_bytes(value, p->extents) : 0;
    for (uint32_t k = 0; fuse_is_alone(value) && k < value->n_args; k++)
        bytes += fuse_bytes(value->args[k], p->extents);
    return bytes / p->machine->memory_bytes_per_second +
           fuse_seconds_to_compute(value, p->extents, p->machine);
}

double saving_price(uint32_t step) {
    return step == 0 ? 0 : step < SAVING_STEPS ? ldexp(1, (int)step - 1) : INFINITY;
}

uint32_t saving_last(uint32_t stretches) {
    return SAVING_STEPS * stretches;
}

Saving saving_numbered(uint32_t seams, uint32_t stretches, uint32_t number) {
    return (Saving){.seams = seams,
                    .step = 1 + (number - 1) / stretches,
                    .stretches = 1 + (number - 1) % stretches};
}

bool saving_any(Saving saving) {
    return saving.step || saving.rounds;
}

bool saving_same(Saving a, Saving b) {
    return a.rounds == b.rounds && a.seams == b.seams && a.step == b.step &&
           a.stretches == b.stretches && a.keep_all == b.keep_all && a.copies_each == b.copies_each;
}

// Of keeping a byte, with that of moving it as the unit. What crosses a seam is there.
static double price_to_keep(const Keeper *p, const Value *value) {
    if (p->saving.keep_all)
        return 0;
    if (!p->saving.step || op_kind(value->op) == KIND_SCAN)
        return 1;
    if (p->seams.crosses[value->id])
        return 0;
    bool dear = p->seams.stretch[value->id] < p->saving.stretches;
    return 1 + saving_price(dear ? p->saving.step : p->saving.step - 1);
}

// A copy that only moves would have to be made before it could be kept: the least of differences.
static double seconds_to_keep(const Keeper *p, const Value *value) {
    bool inside = block_of(p, value) && !p->crosses[value->id];
    if (p->result[value->id])
        return 0;
    if (p->again[value->id] || (inside && op_kind(value->op) != KIND_SCAN))
        return INFINITY;
    double bytes = TIMES_MOVED * fuse_bytes(value, p->extents) + (op_kind(value->op) == KIND_MOVE);
    double price = price_to_keep(p, value);
    if (price > 0 && p->read_forward[value->id])
        price -= 1 - 1.0 / TIMES_MOVED; // it is there, and is read again
    return bytes * price / p->machine->memory_bytes_per_second;
}

bool *fuse_find_outputs(const Graph *graph, TensorUse use, Arena *arena) {
    bool *found = arena_array(arena, bool, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        if (graph->outputs.at[i].use == use)
            found[graph->outputs.at[i].value->id] = true;
    return found;
}

static bool *find_kept(const Keeper *p) {
    const Graph *graph = p->graph;
    KeepChoice choice = choice_new(p->arena, graph->values.count);
    bool *needed = fuse_find_outputs(graph, USE_GRADIENT, p->arena);
    for (uint32_t i = graph->values.count; i-- > 0;) {
        const Value *value = graph->values.at[i];
        bool before = !p->after[i] && !fuse_is_free(value);
        if (before && needed[i])
            choice_needs(&choice, i);
        if (before)
            choice_value(&choice, i, seconds_to_keep(p, value), seconds_again(p, value));
        for (uint32_t k = 0; k < value->n_args; k++) {
            uint32_t arg = value->args[k]->id;
            needed[arg] = needed[arg] || (p->after[i] && needed[i]);
            if (before)
                choice_reads(&choice, i, arg);
        }
    }
    bool *kept = choice_make(&choice, graph->arena);
    if (!kept)
        ice("keep: the backward part needs a value that cannot be kept");
    for (uint32_t i = 0; i < graph->values.count; i++)
        kept[i] = kept[i] && !p->after[i] && !fuse_is_free(graph->values.at[i]);
    return kept;
}

static bool *find_needed(const Keeper *p, const bool *kept) {
    bool *needed = fuse_find_outputs(p->graph, USE_GRADIENT, p->graph->arena);
    for (uint32_t i = p->graph->values.count; i-- > 0;) {
        const Value *value = p->graph->values.at[i];
        for (uint32_t k = 0; needed[i] && !kept[i] && k < value->n_args; k++)
            needed[value->args[k]->id] = true;
    }
    return needed;
}

// into: where what Kept has of it lies.
static Keeper open_keeper(const Graph *graph, const int64_t *extents, const Machine *machine,
                          Saving saving, Arena *into, Arena *arena) {
    uint32_t count = graph->values.count + 1;
    Keeper p = {.graph = graph, .extents = extents, .machine = machine, .arena = arena};
    p.live = graph_live(graph, arena);
    p.saving = saving;
    p.after = graph_backward(graph, into);
    p.again = arena_array(into, bool, count);
    p.result = arena_array(into, uint32_t, count);
    p.crosses = arena_array(arena, bool, count);
    p.read_forward = arena_array(arena, bool, count);
    p.read_backward = arena_array(arena, bool, count);
    for (uint32_t i = graph->outputs.count; i-- > 0;)
        if (graph->outputs.at[i].use == USE_PLAIN)
            p.result[graph->outputs.at[i].value->id] = i + 1;
    mark_again(&p);
    mark_crossing(&p);
    mark_operands(&p);
    return p;
}

static SeamChoices find_seams(const Keeper *p) {
    ForwardPass pass = {p->graph, p->extents, p->live, p->after, p->again, p->result};
    return fuse_find_seams(&pass, p->arena);
}

// The graph of another target may have fewer choices.
static Seams choose_seams(const Keeper *p) {
    SeamChoices choices = find_seams(p);
    uint32_t last = choices.count - 1;
    return choices.at[p->saving.seams < last ? p->saving.seams : last];
}

StretchCounts graph_stretches(const Graph *graph, const int64_t *extents, const Machine *machine,
                              Arena *arena) {
    Arena *own = arena_new();
    Keeper p = open_keeper(graph, extents, machine, (Saving){0}, own, own);
    SeamChoices choices = find_seams(&p);
    StretchCounts counts = {0};
    for (uint32_t i = 0; i < choices.count; i++)
        vec_push(arena, &counts, choices.at[i].count);
    arena_free(own);
    return counts;
}

uint32_t graph_loop_depth(const Graph *graph) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const CodeBlock *block = graph->values.at[i]->made_for.block;
        most = block && block->depth > most ? block->depth : most;
    }
    return most;
}

Kept fuse_keep(const Graph *graph, const int64_t *extents, const Machine *machine, Saving saving) {
    Arena *arena = arena_new();
    Keeper p = open_keeper(graph, extents, machine, saving, graph->arena, arena);
    if (saving.step)
        p.seams = choose_seams(&p);
    const bool *kept = find_kept(&p);
    const bool *needed = find_needed(&p, kept);
    arena_free(arena);
    return (Kept){graph, p.after, p.again, kept, needed, p.result};
}
