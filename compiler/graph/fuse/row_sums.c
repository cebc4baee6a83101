// SPDX-License-Identifier: Apache-2.0
// What the tasks of a sweep sum up over its rows: in how many parts of them, for which dims of the
// tasks each, or in turn. See recompute.c.
//
//     dP[h, g] = sum over b, n, m of dL[b, n, m, g] J[b, n, m, h]     (b: a batch, n: rows)
// ->
//     part[p, b, h, g] = sum over m and those n that part p has       each b and p is a task
//     dP = sum over p, b of part
#include "graph/fuse/sweeps.h"

#include <math.h>

// Rows of a part, in all of its batch: fewer would be summed up for less time than writing the sums
// takes. And at each position of the batch: blocks of the contractions, two of them. Chosen; that
// parts as such are faster than a second sweep was measured (12 heads of 64, 512 and 2048 rows, one
// thread: 38.7 -> 24.8 ms and 626 -> 402 ms).
enum { ROWS_OF_PART = 128, ROWS_OF_BLOCK = 32 };
// Bytes that the parts of all sums of a set may take, and those that they may take for more tasks
// than two; chosen.
static const double PARTS_BYTES = 256 << 20, FEW_PARTS_BYTES = 64 << 20;
// Bytes that a sum may have that is one for each position of a batch first: next to nothing beside
// the batch itself; chosen.
static const double KEPT_BYTES = 1 << 20;
// Tasks that add up in turn take longer than parts (the same heads, mixed, 2048 rows, two threads:
// 445 for 301 ms). They are worth it where one of so many threads would have a part; chosen.
static const double IN_TURN = 2;
// Parts for each thread where one row may see more than another. Causal, mixed heads, two
// threads: parts of 1, 3, 5 and 7 sixteenths of the work, from the last one on, are halves of it.
enum { UNEVEN = 2 };

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

// How a sum over the rows reads the wide values of the set; value NULL: it is none.
static WideRead sum_of_set(const SweptPair *pair, const Value *value, uint32_t set) {
    WideRead read = sweeps_reads_set(pair, value, set), none = {NULL, DIM_NONE, DIM_NONE};
    bool sums = !pair->wide[value->id] && read.value && value_is_reduction(value);
    return sums && !dims_has(&value->dims, read.x) ? read : none;
}

// May a sum be one for each position of the batch first? Matrices that mix heads are small. What is
// streamed as well is as large as an operand, and contractions sum it over heads that share it.
static bool can_be_kept(const Value *value, DimId y, const DimList *batch, const int64_t *extents) {
    DimList all = dims_union(&value->dims, batch);
    return all.count < DIMS_MAX && !dims_has(&value->dims, y) && // and the dim of the parts
           sum_bytes(value, &all, extents) <= KEPT_BYTES;
}

// The dims of the batch that tasks may have one position of each: all that large sums have. Small
// ones are one for each of these.
static DimList choose_kept(SweptPair *pair, uint32_t set, const int64_t *extents) {
    const ValueList *of = &pair->of[set];
    DimList batch = batch_of_set(pair, set), tasks = batch;
    for (int small = 0; small < 2; small++)
        for (uint32_t i = 0; i < of->count; i++) {
            const Value *value = of->at[i];
            WideRead read = sum_of_set(pair, value, set);
            if (!read.value || !can_add_to(pair, value, read) ||
                can_be_kept(value, read.y, &batch, extents) != small)
                continue;
            if (small)
                pair->kept[value->id] = dims_minus(&tasks, &value->dims);
            else
                tasks = dims_intersect(&tasks, &value->dims);
        }
    return tasks;
}

static RowSums sums_of_set(const SweptPair *pair, uint32_t set, const DimList *tasks,
                           const int64_t *extents) {
    const ValueList *of = &pair->of[set];
    RowSums sums = {0};
    bool fits = true;
    for (uint32_t i = 0; i < of->count; i++) {
        const Value *value = of->at[i];
        WideRead read = sum_of_set(pair, value, set);
        if (!read.value)
            continue;
        fits = fits && (!dims_has(&value->dims, read.y) || can_add_to(pair, value, read));
        ShiftedSum shifted;
        sums.small |= value_is_shifted_sum(value, &shifted);
        DimList all = dims_union(&value->dims, &pair->kept[value->id]);
        sums.bytes += sum_bytes(value, &all, extents);
    }
    DimList batch = batch_of_set(pair, set), inside = dims_minus(&batch, tasks);
    sums.tasks = dims_volume(tasks, extents);
    sums.batch = dims_volume(&inside, extents);
    sums.bytes = fits ? sums.bytes : 0;
    return sums;
}

// Are some positions hidden from some rows alone? Then one row may see more than another, as under
// a causal mask.
static bool is_uneven(const SweptPair *pair, uint32_t set) {
    for (uint32_t i = 0; i < pair->of[set].count; i++) {
        const Value *value = pair->of[set].at[i];
        if (value->op != OP_SELECT || !dims_has(&value->args[0]->dims, pair->x) ||
            !dims_has(&value->args[0]->dims, pair->y))
            continue;
        for (int k = 1; k < 3; k++)
            if (value->args[k]->op == OP_CONST && value->args[k]->number == -INFINITY)
                return true;
    }
    return false;
}

// Those that have enough rows.
static int64_t most_parts(const SweptPair *pair, const RowSums *sums, const int64_t *extents) {
    int64_t rows = ceil_div(ROWS_OF_PART, sums->batch > 1 ? sums->batch : 1);
    int64_t parts = extents[pair->x] / (rows > ROWS_OF_BLOCK ? rows : ROWS_OF_BLOCK);
    return parts > 1 ? parts : 1;
}

// As many as make a task for each thread of the plan.
static int64_t wanted_parts(const SweptPair *pair, const RowSums *sums, const int64_t *extents,
                            int64_t threads) {
    int64_t wanted = ceil_div(threads, sums->tasks > 1 ? sums->tasks : 1),
            most = most_parts(pair, sums, extents);
    return wanted < most ? wanted : most;
}

// A thread that is done with a short part of uneven ones takes another.
static int64_t uneven_parts(const SweptPair *pair, const RowSums *sums, const int64_t *extents,
                            int64_t wanted) {
    int64_t parts = UNEVEN * wanted, most = most_parts(pair, sums, extents);
    return wanted == 1 ? 1 : parts < most ? parts : most;
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
    int64_t *needed = arena_array(arena, int64_t, graph->dims.count + 1);
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
            int64_t wanted = wanted_parts(pair, sums, extents, threads), goal = wanted;
            if (is_uneven(pair, i))
                goal = uneven_parts(pair, sums, extents, wanted);
            needed[pair->x] = wanted > needed[pair->x] ? wanted : needed[pair->x];
            parts[pair->x] = goal > parts[pair->x] ? goal : parts[pair->x];
            if (fits)
                most[pair->x] = sums->bytes > most[pair->x] ? sums->bytes : most[pair->x];
        }
    for (uint32_t d = 0; d < graph->dims.count; d++) {
        while (parts[d] > 2 && (double)parts[d] * most[d] > FEW_PARTS_BYTES)
            parts[d]--;
        if (!small[d] && (double)needed[d] > IN_TURN * (double)parts[d])
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

void sweeps_choose_sums(SweptPairs *pairs, const Graph *graph, const int64_t *extents,
                        int64_t threads, bool saves, Arena *arena) {
    for (uint32_t p = 0; p < pairs->count; p++)
        for (uint32_t i = 0; i < graph->values.count; i++)
            if (pairs->at[p].twice[i]) {
                DimList tasks = choose_kept(&pairs->at[p], i, extents);
                pairs->at[p].sums[i] = sums_of_set(&pairs->at[p], i, &tasks, extents);
            }
    const double *room = room_of_parts(pairs, graph, saves, arena);
    choose_parts(pairs, graph, extents, threads, room, arena);
    choose_turns(pairs, graph, arena);
}
