// SPDX-License-Identifier: Apache-2.0
// Which wide values are needed for more than what is reduced along the streamed dim, and in how
// many phases. See recompute.c.
#include "graph/fuse/sweeps.h"

// ---- which pairs -------------------------------------------------------------------------------

// Wide values that lead to each other, or that one sum is made of, are worked off together: their
// sets, by the least id.
static uint32_t *find_sets(const Graph *graph, const SweptPair *pair, Arena *arena) {
    uint32_t *sets = sets_new(arena, graph->values.count);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        bool sums = !pair->wide[i] && value->n_args == 2 && pair->wide[value->args[0]->id];
        if (sums && value_is_reduction(value) && pair->wide[value->args[1]->id])
            sets_join(sets, value->args[0]->id, value->args[1]->id);
        for (uint32_t k = 0; pair->wide[i] && k < value->n_args; k++)
            if (pair->wide[value->args[k]->id])
                sets_join(sets, i, value->args[k]->id);
    }
    for (uint32_t i = 0; i < graph->values.count; i++)
        sets[i] = sets_find(sets, i);
    return sets;
}

static uint32_t *find_ends(const Graph *graph, const SweptPair *pair, Arena *arena) {
    uint32_t *end = arena_array(arena, uint32_t, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        if (pair->wide[i])
            end[pair->set[i]] = i + 1;
        for (uint32_t k = 0; k < value->n_args; k++) {
            WideRead read = sweeps_read(pair, value->args[k]);
            if (read.value)
                end[pair->set[read.value->id]] = i + 1;
        }
    }
    return end;
}

static void note_of(ValueList *of, Value *value, Arena *arena) {
    if (!of->count || of->at[of->count - 1] != value)
        vec_push(arena, of, value);
}

static ValueList *find_of(const Graph *graph, const SweptPair *pair, const bool *live,
                          Arena *arena) {
    ValueList *of = arena_array(arena, ValueList, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        Value *value = graph->values.at[i];
        if (pair->wide[i])
            note_of(&of[pair->set[i]], value, arena);
        for (uint32_t k = 0; live[i] && k < value->n_args; k++) {
            WideRead read = sweeps_read(pair, value->args[k]);
            if (read.value)
                note_of(&of[pair->set[read.value->id]], value, arena);
        }
    }
    return of;
}

static uint32_t end_of_phase(uint32_t level) {
    return (level + 1) & ~1u;
}

// Is it made of wide values of the set, by a sum over the rows?
static bool is_sum_over_rows(const SweptPair *pair, const Value *value, uint32_t set) {
    WideRead read = sweeps_reads_set(pair, value, set);
    return value_is_reduction(value) && read.value && !dims_has(&value->dims, read.x);
}

// ---- levels ------------------------------------------------------------------------------------

// A value whose arguments are being asked for their levels.
typedef struct {
    const Value *value;
    bool of_set, begun;
    uint32_t next, most, limit;
} Asked;

// From this value on, those of the set have been so far.
typedef struct {
    uint32_t id, level;
} Reached;

// How far the set's wide values have to be before a value can be computed: twice the phases that
// are over, and 1 more inside of a phase; 0 is before all. What is pointwise of a row's results is
// computed inside, everything else after the phase.
//
// The values of the set are asked in their order, others only where those need them: between a
// layer and its gradient lie all layers behind it, and most of what they compute is as far as it
// can be by the first of its arguments.
typedef struct {
    const ValueList *maps; // by value id: live pointwise values that read it
    Arena *arena;
    const SweptPair *pair;
    uint32_t set;
    uint32_t *level, *known; // by value id; known: the last search that asked for it, from 1
    uint32_t *seen;          // by value id: the last walk that met it, likewise
    uint32_t searches, walks;
    VEC(Reached) reached;
    VEC(Asked) asked;
} Levels;

// Of the set's values before this one.
static uint32_t level_before(const Levels *l, uint32_t id) {
    uint32_t low = 0, high = l->reached.count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (l->reached.at[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? l->reached.at[low - 1].level : 0;
}

static void ask(Levels *l, const Value *value) {
    bool of_set = sweeps_is_of_set(l->pair, value, l->set);
    uint32_t limit = end_of_phase(level_before(l, value->id));
    vec_push(l->arena, &l->asked,
             (Asked){.value = value, .of_set = of_set, .limit = limit | (of_set ? 1 : 0)});
}

static uint32_t level_so_far(const Asked *asked) {
    if (asked->of_set)
        return asked->most | 1;
    return op_kind(asked->value->op) == KIND_MAP ? asked->most : end_of_phase(asked->most);
}

static bool is_known(const Levels *l, const Value *value) {
    return value->id < l->set || l->known[value->id] == l->searches;
}

static void take_level(const Levels *l, Asked *asked, const Value *arg) {
    uint32_t from = arg->id < l->set ? 0 : l->level[arg->id];
    if (from % 2 && is_sum_over_rows(l->pair, arg, l->set))
        from = end_of_phase(from);
    asked->most = from > asked->most ? from : asked->most;
}

// The next argument to ask: the earliest first, which is likelier to be of the forward pass. NULL:
// all are known.
static const Value *next_open(const Levels *l, Asked *asked) {
    const Value *first = NULL;
    for (; asked->next < asked->value->n_args; asked->next++) {
        const Value *arg = asked->value->args[asked->next];
        if (is_known(l, arg))
            take_level(l, asked, arg);
        else if (asked->begun)
            return arg;
        else if (!first || arg->id < first->id)
            first = arg;
    }
    asked->next = asked->begun ? asked->next : 0;
    asked->begun = true;
    return first;
}

static uint32_t level_of(Levels *l, const Value *value) {
    if (!is_known(l, value))
        ask(l, value);
    while (l->asked.count) {
        Asked *asked = &l->asked.at[l->asked.count - 1];
        const Value *open = next_open(l, asked);
        if (open && level_so_far(asked) < asked->limit) {
            ask(l, open);
            continue;
        }
        l->level[asked->value->id] = level_so_far(asked);
        l->known[asked->value->id] = l->searches;
        l->asked.count--;
    }
    return l->level[value->id];
}

// Of the set's values; returns the largest.
static uint32_t find_levels(Levels *l, const SweptPair *pair, uint32_t set) {
    const ValueList *of = &pair->of[set];
    uint32_t most = 0;
    l->pair = pair;
    l->set = set;
    l->searches++;
    l->reached.count = 0;
    for (uint32_t i = 0; i < of->count; i++) {
        const Value *value = of->at[i];
        if (!sweeps_is_of_set(pair, value, set) || level_of(l, value) <= most)
            continue;
        most = l->level[value->id];
        vec_push(l->arena, &l->reached, (Reached){value->id, most});
    }
    return most;
}

// Products of products are cheaper in another order, or stored.
static bool is_linear(const Value *value) {
    return op_kind(value->op) != KIND_MAP || value->op == OP_ADD || value->op == OP_SUB ||
           value->op == OP_NEG || value->op == OP_MUL || value->op == OP_CAST ||
           value->op == OP_COPY;
}

// Are the wide values of the set reduced over y, as weights are, and needed again over both: is
// something summed over x, which none of them needs, or has it several phases?
static bool is_worth_it(const Levels *l) {
    const SweptPair *pair = l->pair;
    const ValueList *of = &pair->of[l->set];
    bool rows = false, others = false, reduces = false, linear = true;
    for (uint32_t i = 0; i < of->count; i++) {
        const Value *value = of->at[i];
        if (pair->wide[value->id] && pair->set[value->id] == l->set) {
            others = others || l->level[value->id] > 1;
            linear = linear && is_linear(value);
            continue;
        }
        if (value->op == OP_RENAME)
            continue;
        if (!value_is_reduction(value))
            return false; // it reads them from memory
        WideRead read = sweeps_reads_set(pair, value, l->set);
        if (dims_has(&value->dims, read.x)) {
            rows = rows || !dims_has(&value->dims, read.y);
            reduces =
                reduces || (op_kind(value->op) == KIND_REDUCE && !dims_has(&value->dims, read.y));
            continue;
        }
        if (!sweeps_is_sum(value))
            return false;
        others = true;
    }
    return rows && (reduces || !linear) && others;
}

static void walk_to(Levels *l, ValueList *open, Value *value) {
    if (l->seen[value->id] == l->walks)
        return;
    l->seen[value->id] = l->walks;
    vec_push(l->arena, open, value);
}

// first: the first sum over the rows of the set. Finds nothing where an earlier call on this walk
// has been.
static bool reaches_sum(Levels *l, Value *value, const Value *first) {
    ValueList open = {0};
    walk_to(l, &open, value);
    for (uint32_t i = 0; i < open.count; i++) {
        if (is_sum_over_rows(l->pair, open.at[i], l->set))
            return true;
        for (uint32_t k = 0; k < open.at[i]->n_args; k++)
            if (open.at[i]->args[k]->id >= first->id)
                walk_to(l, &open, open.at[i]->args[k]);
    }
    return false;
}

// Does a wide value depend on what is summed over the rows of others?
static bool depends_on_sums(Levels *l) {
    const ValueList *of = &l->pair->of[l->set];
    const Value *first = NULL;
    l->walks++;
    for (uint32_t i = 0; i < of->count; i++) {
        Value *value = of->at[i];
        if (!first && is_sum_over_rows(l->pair, value, l->set))
            first = value;
        if (first && l->pair->wide[value->id] && l->pair->set[value->id] == l->set &&
            reaches_sum(l, value, first))
            return true;
    }
    return false;
}

// Is the set computed more than once, and in how many phases? Weights that are normalised both ways
// are stored: the second of two sweeps would take as long as all that storing saves.
static void weigh_set(Levels *l, SweptPair *pair, uint32_t set) {
    pair->phases[set] = find_levels(l, pair, set) / 2 + 1;
    pair->twice[set] = is_worth_it(l);
    if (pair->twice[set] && pair->phases[set] <= FEW_PHASES)
        pair->twice[set] = !depends_on_sums(l);
}

// Of the set's values, and of what is pointwise of them inside of a phase.
static void note_phases(Levels *l, SweptPair *pair, uint32_t set) {
    ValueList open = {0};
    find_levels(l, pair, set);
    l->walks++;
    for (uint32_t i = 0; i < pair->of[set].count; i++)
        if (sweeps_is_of_set(pair, pair->of[set].at[i], set))
            walk_to(l, &open, pair->of[set].at[i]);
    for (uint32_t i = 0; i < open.count; i++) {
        uint32_t level = level_of(l, open.at[i]);
        if (level % 2 == 0)
            continue;
        pair->phase[open.at[i]->id] = level / 2;
        const ValueList *maps = &l->maps[open.at[i]->id];
        for (uint32_t k = 0; k < maps->count; k++)
            if (maps->at[k]->id < pair->end[set])
                walk_to(l, &open, maps->at[k]);
    }
}

// Either dim of a pair may be its rows: where both would do, the one with fewer phases is.
static void choose_rows(const Graph *graph, SweptPair *a, SweptPair *b) {
    bool turned = a->x == b->y && a->y == b->x;
    for (uint32_t i = 0; turned && i < graph->values.count; i++)
        if (a->twice[i] && b->twice[i])
            (a->phases[i] > b->phases[i] ? a : b)->twice[i] = false;
}

// ---- all pairs ---------------------------------------------------------------------------------

static SweptPair open_pair(const Graph *graph, const FusePair *pair, bool *wide, const bool *live,
                           Arena *arena) {
    uint32_t count = graph->values.count + 1;
    SweptPair swept = {.x = pair->x, .y = pair->y, .wide = wide};
    swept.set = find_sets(graph, &swept, arena);
    swept.end = find_ends(graph, &swept, arena);
    swept.of = find_of(graph, &swept, live, arena);
    swept.twice = arena_array(arena, bool, count);
    swept.phase = arena_array(arena, uint32_t, count);
    swept.phases = arena_array(arena, uint32_t, count);
    swept.stored = arena_array(arena, bool, count);
    swept.sums = arena_array(arena, RowSums, count);
    swept.kept = arena_array(arena, DimList, count);
    return swept;
}

static bool has_any(const Graph *graph, const SweptPair *pair) {
    for (uint32_t i = 0; i < graph->values.count; i++)
        if (pair->twice[i])
            return true;
    return false;
}

// With what is known of their sets before rows are chosen.
static SweptPairs weigh_pairs(PairSearch *search, Levels *levels) {
    const Fuser *fuser = &search->fuser;
    const Graph *graph = fuser->graph;
    SweptPairs swept = {0};
    for (uint32_t p = 0; p < search->pairs.count; p++) {
        const FusePair *by = &search->pairs.at[p];
        bool *wide = fuse_claim_wide(search, by);
        if (!wide || !by->positions)
            continue;
        SweptPair pair = open_pair(graph, by, wide, fuser->live, fuser->arena);
        for (uint32_t i = 0; i < graph->values.count; i++)
            if (wide[i] && pair.set[i] == i)
                weigh_set(levels, &pair, i);
        if (!has_any(graph, &pair))
            continue;
        for (uint32_t k = 0; k < swept.count; k++)
            choose_rows(graph, &swept.at[k], &pair);
        vec_push(fuser->arena, &swept, pair);
    }
    return swept;
}

static ValueList *find_maps(const Graph *graph, const bool *live, Arena *arena) {
    ValueList *maps = arena_array(arena, ValueList, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        Value *value = graph->values.at[i];
        bool map = live[i] && op_kind(value->op) == KIND_MAP;
        for (uint32_t k = 0; map && k < value->n_args; k++)
            vec_push(arena, &maps[value->args[k]->id], value);
    }
    return maps;
}

SweptPairs sweeps_find(const Graph *graph, const int64_t *extents, const Machine *machine,
                       bool saves, Arena *arena) {
    uint32_t count = graph->values.count + 1;
    PairSearch search = fuse_search_pairs(graph, extents, arena);
    Levels levels = {.maps = find_maps(graph, search.fuser.live, arena),
                     .arena = arena,
                     .level = arena_array(arena, uint32_t, count),
                     .known = arena_array(arena, uint32_t, count),
                     .seen = arena_array(arena, uint32_t, count)};
    SweptPairs swept = weigh_pairs(&search, &levels);
    for (uint32_t p = 0; p < swept.count; p++)
        for (uint32_t i = 0; i < graph->values.count; i++) {
            SweptPair *pair = &swept.at[p];
            if (!pair->twice[i])
                continue;
            note_phases(&levels, pair, i);
        }
    sweeps_choose_sums(&swept, graph, extents, machine->threads, saves, arena);
    return swept;
}

static bool adds_in_sweep(const SweptPairs *pairs, const Value *sum) {
    ShiftedSum shifted;
    for (uint32_t p = 0; p < pairs->count; p++) {
        WideRead read = sweeps_reads_twice(&pairs->at[p], sum);
        if (read.value &&
            (sweeps_parts(&pairs->at[p], sum, read) || !value_is_shifted_sum(sum, &shifted)))
            return true;
    }
    return false;
}

bool fuse_adds_in_sweeps(const Graph *graph, const ValueList *sums, const Machine *machine) {
    Arena *arena = arena_new();
    SweptPairs pairs =
        sweeps_find(graph, graph_typical_extents(graph, arena), machine, false, arena);
    bool all = true;
    for (uint32_t i = 0; i < sums->count; i++)
        all = all && adds_in_sweep(&pairs, sums->at[i]);
    arena_free(arena);
    return all;
}
