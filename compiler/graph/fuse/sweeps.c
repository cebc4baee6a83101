// SPDX-License-Identifier: Apache-2.0
// Which wide values are needed for more than what is reduced along the streamed dim, in how many
// phases, and in how many parts what tasks sum up over their rows is. See recompute.c.
#include "graph/fuse/sweeps.h"

// ---- which pairs -------------------------------------------------------------------------------

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

static WideRead reads_set(const SweptPair *pair, const Value *value, uint32_t set) {
    for (uint32_t k = 0; k < value->n_args; k++) {
        WideRead read = sweeps_read(pair, value->args[k]);
        if (read.value && pair->set[read.value->id] == set)
            return read;
    }
    return (WideRead){NULL, DIM_NONE, DIM_NONE};
}

bool sweeps_is_of_set(const SweptPair *pair, const Value *value, uint32_t set) {
    bool member = pair->wide[value->id] && pair->set[value->id] == set;
    return member || (value_is_reduction(value) && reads_set(pair, value, set).value);
}

static uint32_t end_of_phase(uint32_t level) {
    return (level + 1) & ~1u;
}

// Is it made of wide values of the set, by a sum over the rows?
static bool is_sum_over_rows(const SweptPair *pair, const Value *value, uint32_t set) {
    WideRead read = reads_set(pair, value, set);
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
        WideRead read = reads_set(pair, value, l->set);
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

// ---- sums over the rows of a sweep in parts of them --------------------------------------------

// Rows of a part, in all of its batch: fewer would be summed up for less time than writing the sums
// takes; and at each position of the batch, for blocks of the contractions. Bytes that
// the parts of all sums of a set may take, and those that they may take for more tasks than two.
// All chosen, not measured; that parts as such are faster than a second sweep was (12 heads of 64,
// 512 and 2048 rows, one thread: 38.7 -> 24.8 ms and 626 -> 402 ms).
enum { ROWS_OF_PART = 128, ROWS_OF_BLOCK = 32 };
static const double PARTS_BYTES = 256 << 20, FEW_PARTS_BYTES = 64 << 20;
// And of one sum, for each position of a batch that it goes over.
static const double KEPT_BYTES = 1 << 20;
// Tasks that add up in turn take longer than parts (the same heads, mixed, 2048 rows, two threads:
// 445 for 301 ms). They are worth it where one of so many threads would have a part; chosen.
static const double IN_TURN = 2;

// Is it a sum over x of what has it on both sides, which a sweep over x can add to?
static bool can_add_to(const SweptPair *pair, const Value *value, WideRead read) {
    DimList all;
    if (read.x != pair->x || read.y != pair->y || !sweeps_is_sum(value) ||
        !elem_is_float(value->elem) || !value_args_dims(value, &all) ||
        all.count == DIMS_MAX) // and that of the parts
        return false;
    for (uint32_t k = 0; k < value->n_args; k++)
        if (!dims_has(&value->args[k]->dims, read.x))
            return false;
    return value->op == OP_SUM || value->n_args == 2;
}

int64_t sweeps_parts(const SweptPair *pair, const Value *value, WideRead read) {
    ShiftedSum shifted;
    if (!can_add_to(pair, value, read))
        return 0;
    const RowSums *sums = &pair->sums[pair->set[read.value->id]];
    return value_is_shifted_sum(value, &shifted) ? sums->small : sums->parts;
}

bool sweeps_in_turn(const SweptPair *pair, const Value *value, WideRead read) {
    return can_add_to(pair, value, read) && dims_has(&value->dims, read.y) &&
           pair->sums[pair->set[read.value->id]].in_turn;
}

// What all wide values of a set have besides the pair: tasks for each of it.
static DimList batch_of_set(const SweptPair *pair, uint32_t set) {
    const ValueList *of = &pair->of[set];
    DimList batch = of->at[0]->dims, own = {2, {pair->x, pair->y}};
    for (uint32_t i = 0; i < of->count; i++)
        if (pair->wide[of->at[i]->id] && pair->set[of->at[i]->id] == set)
            batch = dims_intersect(&batch, &of->at[i]->dims);
    return dims_minus(&batch, &own);
}

static double sum_bytes(const Value *value, const DimList *dims, const int64_t *extents) {
    return (double)dims_volume(dims, extents) * (double)elem_bytes(elem_work(value->elem));
}

// A sum over the batch and what is streamed as well (of matrices that mix heads) is one for each of
// the batch first, where that is little. Others are as large as an operand, and contractions sum
// them over heads that share it.
static DimList kept_of_batch(const Value *value, DimId y, const DimList *batch,
                             const int64_t *extents) {
    DimList kept = dims_minus(batch, &value->dims), all = dims_union(&value->dims, &kept);
    bool fits = value->dims.count + kept.count < DIMS_MAX; // and that of the parts
    fits = fits && sum_bytes(value, &all, extents) <= KEPT_BYTES;
    return fits && !dims_has(&value->dims, y) ? kept : (DimList){0};
}

static RowSums sums_of_set(SweptPair *pair, uint32_t set, const int64_t *extents) {
    const ValueList *of = &pair->of[set];
    RowSums sums = {0};
    bool fits = true;
    DimList batch = batch_of_set(pair, set), tasks = batch;
    for (uint32_t i = 0; i < of->count; i++) {
        const Value *value = of->at[i];
        WideRead read = pair->wide[value->id] ? (WideRead){0} : reads_set(pair, value, set);
        if (!read.value || !value_is_reduction(value) || dims_has(&value->dims, read.x))
            continue;
        DimList all = value->dims;
        if (can_add_to(pair, value, read)) {
            pair->kept[value->id] = kept_of_batch(value, read.y, &batch, extents);
            all = dims_union(&all, &pair->kept[value->id]);
            tasks = dims_intersect(&tasks, &all);
        } else {
            fits = fits && !dims_has(&value->dims, read.y);
        }
        ShiftedSum shifted;
        sums.small |= value_is_shifted_sum(value, &shifted);
        sums.bytes += sum_bytes(value, &all, extents);
    }
    sums.tasks = dims_volume(&tasks, extents);
    sums.batch = dims_volume(&batch, extents) / sums.tasks;
    sums.bytes = fits ? sums.bytes : 0;
    return sums;
}

// As many as make a task for each thread of the plan, if a part has enough rows.
static int64_t wanted_parts(const SweptPair *pair, const RowSums *sums, const int64_t *extents,
                            int64_t threads) {
    int64_t rows = ceil_div(ROWS_OF_PART, sums->batch);
    int64_t limit = extents[pair->x] / (rows > ROWS_OF_BLOCK ? rows : ROWS_OF_BLOCK);
    int64_t wanted = ceil_div(threads, sums->tasks > 1 ? sums->tasks : 1);
    return wanted < limit ? wanted : limit > 1 ? limit : 1;
}

// Sums that are too large for parts of them are added up by tasks in turn, unless other sums over
// the same rows are in parts.
static void choose_turns(SweptPairs *pairs, const Graph *graph, Arena *arena) {
    bool *in_parts = arena_array(arena, bool, graph->dims.count + 1);
    for (uint32_t p = 0; p < pairs->count; p++)
        for (uint32_t i = 0; i < graph->values.count; i++) {
            const RowSums *sums = &pairs->at[p].sums[i];
            in_parts[pairs->at[p].x] |= sums->parts || sums->small;
        }
    for (uint32_t p = 0; p < pairs->count; p++)
        for (uint32_t i = 0; i < graph->values.count; i++) {
            RowSums *sums = &pairs->at[p].sums[i];
            sums->in_turn = sums->bytes > 0 && !in_parts[pairs->at[p].x];
        }
}

// By dim of rows: bytes for the parts of all sums of a set. Shifted sums are never added up in
// turn, and so nothing else over their rows is.
static double *room_of_parts(const SweptPairs *pairs, const Graph *graph, bool saves,
                             Arena *arena) {
    double *room = arena_array(arena, double, graph->dims.count + 1);
    for (uint32_t p = 0; p < pairs->count; p++)
        for (uint32_t i = 0; i < graph->values.count; i++)
            if (!saves || pairs->at[p].sums[i].small)
                room[pairs->at[p].x] = PARTS_BYTES;
    return room;
}

// All sets with the same rows have as many, since one group may hold several of them.
static void choose_parts(SweptPairs *pairs, const Graph *graph, const int64_t *extents,
                         int64_t threads, const double *room, Arena *arena) {
    int64_t *parts = arena_array(arena, int64_t, graph->dims.count + 1);
    double *most = arena_array(arena, double, graph->dims.count + 1);
    bool *small = arena_array(arena, bool, graph->dims.count + 1);
    for (uint32_t p = 0; p < pairs->count; p++)
        for (uint32_t i = 0; i < graph->values.count; i++) {
            const SweptPair *pair = &pairs->at[p];
            const RowSums *sums = &pair->sums[i];
            bool fits = sums->bytes > 0 && sums->bytes <= room[pair->x] / 2;
            if (!fits && !sums->small)
                continue;
            small[pair->x] |= sums->small > 0;
            int64_t wanted = wanted_parts(pair, sums, extents, threads);
            parts[pair->x] = wanted > parts[pair->x] ? wanted : parts[pair->x];
            if (fits)
                most[pair->x] = sums->bytes > most[pair->x] ? sums->bytes : most[pair->x];
        }
    for (uint32_t d = 0; d < graph->dims.count; d++) {
        int64_t wanted = parts[d];
        while (parts[d] > 2 && (double)parts[d] * most[d] > FEW_PARTS_BYTES)
            parts[d]--;
        if (!small[d] && (double)wanted > IN_TURN * (double)parts[d])
            parts[d] = 0;
    }
    for (uint32_t p = 0; p < pairs->count; p++)
        for (uint32_t i = 0; i < graph->values.count; i++) {
            RowSums *sums = &pairs->at[p].sums[i];
            int64_t chosen = parts[pairs->at[p].x];
            bool fits = sums->bytes > 0 && (double)chosen * sums->bytes <= room[pairs->at[p].x];
            sums->parts = fits ? chosen : 0;
            sums->small = sums->small ? chosen : 0;
        }
}

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
            pair->sums[i] = sums_of_set(pair, i, extents);
        }
    const double *room = room_of_parts(&swept, graph, saves, arena);
    choose_parts(&swept, graph, extents, machine->threads, room, arena);
    choose_turns(&swept, graph, arena);
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
