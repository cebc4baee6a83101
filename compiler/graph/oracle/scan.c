// SPDX-License-Identifier: Apache-2.0
// The oracle's scans: one step after the other.
//
// For each value that is left after a scan, its body is evaluated with a single position of the
// scan's dim: reads of the scanned dim take that position, carries what the updates of the step
// before gave. Scans inside of it run once in each step.
#include <stdlib.h>
#include <string.h>

#include "graph/oracle/eval.h"

typedef VEC(const Value *) Body;

typedef struct {
    Eval *outer;
    Eval inner;
    const Value *end;
    Body body;               // in order of id
    double **state, **slope; // by carry
    Arena *arena;
} Run;

// ---- what belongs to a body ---------------------------------------------------------------------

typedef struct {
    const Graph *graph;
    DimId dim;
    bool *needed;
} Search;

static void need(Search *search, const Value *value) {
    if (search->dim == DIM_NONE || dims_has(&value->dims, search->dim))
        search->needed[value->id] = true;
}

ValueList eval_read_by(const Value *end, Arena *arena) {
    Map *met = map_new(arena); // value id + 1
    ValueList inside = {0}, read = {0};
    vec_push(arena, &inside, (Value *)end);
    for (uint32_t i = 0; i < inside.count; i++)
        for (uint32_t k = 0; k < inside.at[i]->n_args; k++) {
            Value *arg = inside.at[i]->args[k];
            if (map_get(met, (uint64_t)arg->id + 1))
                continue;
            map_put(met, (uint64_t)arg->id + 1, arg);
            vec_push(arena, dims_has(&arg->dims, end->dim) ? &inside : &read, arg);
        }
    return read;
}

static void need_around_body(Search *search, const Value *end) {
    Arena *arena = arena_new();
    ValueList read = eval_read_by(end, arena);
    for (uint32_t i = 0; i < read.count; i++)
        need(search, read.at[i]);
    arena_free(arena);
}

bool *eval_needed(const Graph *graph, DimId dim, const Value *root, Arena *arena) {
    uint32_t n = root ? root->id + 1 : graph->values.count;
    Search search = {graph, dim, arena_array(arena, bool, graph->values.count + 1)};
    for (uint32_t i = 0; i < graph->outputs.count && !root; i++)
        need(&search, graph->outputs.at[i].value);
    for (uint32_t v = n; v-- > 0;) {
        const Value *value = graph->values.at[v];
        if (value != root && !search.needed[v])
            continue;
        if (value != root && op_kind(value->op) == KIND_SCAN)
            need_around_body(&search, value);
        for (uint32_t i = 0; i < value->n_args; i++)
            if (value == root || op_kind(value->op) != KIND_SCAN)
                need(&search, value->args[i]);
    }
    return search.needed;
}

static Body find_body(const Graph *graph, const Value *end, Arena *arena) {
    Body body = {0};
    const bool *needed = eval_needed(graph, end->dim, end, arena);
    for (uint32_t v = 0; v < end->id; v++)
        if (needed[v])
            vec_push(arena, &body, graph->values.at[v]);
    return body;
}

// ---- one step -----------------------------------------------------------------------------------

// Copies an array under the axes `from` into one over all of `to`.
static void copy_over(double *out, const DimList *to, const double *in, const DimList *from,
                      const int64_t *extents) {
    Axes over = axes_of(to), read = axes_of(from);
    Walk walk = walk_over(&over, (const Axes *[]){&over, &read}, 2, extents);
    eval_copy(&walk, out, in);
}

// Zeros without an array.
static double *state_from(const Run *run, const Value *carry, const Value *value,
                          const double *array) {
    Axes axes = axes_of(&carry->dims);
    double *state = eval_buffer(&axes, run->inner.extents);
    if (array)
        copy_over(state, &carry->dims, array, &value->dims, run->inner.extents);
    return state;
}

// What the scans read: along dims that the value has and its argument lacks, the positions of now.
static double *read_step(const Run *run, const Value *value, const double *of) {
    const Value *arg = value->args[0];
    Axes out = axes_of(&value->dims), in = axes_of(&arg->dims), still = {0};
    double *array = eval_buffer(&out, run->inner.extents);
    Walk walk = walk_over(&out, (const Axes *[]){&out, &still}, 2, run->inner.extents);
    int64_t begin = 0;
    for (uint32_t i = 0; i < in.count; i++) {
        DimId now = dimmap_get(value->renames, in.at[i]);
        int64_t stride = axes_stride(&in, run->inner.extents, in.at[i]);
        if (dims_has(&run->inner.open, now) && now != in.at[i])
            begin += run->inner.steps[now] * stride;
        else
            for (uint32_t k = 0; k < out.count; k++)
                if (out.at[k] == now)
                    walk.strides[k][1] = stride;
    }
    eval_copy(&walk, array, of + begin);
    return array;
}

static double *one_number(double number) {
    double *array = eval_buffer(&(Axes){0}, NULL);
    *array = number;
    return array;
}

static uint32_t number_of_carry(const Run *run, const Value *carry) {
    uint32_t i = 0;
    while (graph_scan_carry(run->end, i).carry != carry)
        i++;
    return i;
}

static void eval_body_value(Run *run, const Value *value) {
    DimId dim = run->end->dim;
    double **array = &run->inner.arrays[value->id];
    const Value *arg = value->n_args ? value->args[0] : NULL;
    double **slopes = run->inner.slopes;
    if (value->op == OP_CARRY && value->dim == dim)
        *array = state_from(run, value, value, run->state[number_of_carry(run, value)]);
    else if (value->op == OP_INDEX)
        *array = one_number((double)run->inner.steps[dim]);
    else if (value->op == OP_RENAME)
        *array = read_step(run, value, run->inner.arrays[arg->id]);
    else
        eval_one(&run->inner, value, NULL);
    if (slopes && value->op == OP_CARRY && value->dim == dim)
        slopes[value->id] = state_from(run, value, value, run->slope[number_of_carry(run, value)]);
    else if (slopes && value->op == OP_RENAME && slopes[arg->id])
        slopes[value->id] = read_step(run, value, slopes[arg->id]);
}

static void carry_on(Run *run, double **state, double *const *arrays) {
    uint32_t n = graph_scan_carries(run->end);
    for (uint32_t i = 0; i < n; i++)
        free(state[i]);
    for (uint32_t i = 0; i < n; i++) {
        ScanCarry c = graph_scan_carry(run->end, i);
        state[i] = state_from(run, c.carry, c.update, arrays[c.update->id]);
    }
}

// Writes position `step` of the result.
static void stack_step(const Run *run, double *out, const double *row, int64_t step) {
    const Value *end = run->end, *value = end->args[0];
    Axes to = axes_of(&end->dims), from = axes_of(&value->dims);
    for (uint32_t i = 0; i < from.count; i++)
        from.at[i] = from.at[i] == end->dim ? end->dim2 : from.at[i];
    Axes over = {0};
    for (uint32_t i = 0; i < to.count; i++)
        if (to.at[i] != end->dim2)
            over.at[over.count++] = to.at[i];
    Walk walk = walk_over(&over, (const Axes *[]){&to, &from}, 2, run->outer->extents);
    int64_t *extents = run->inner.own;
    int64_t whole = extents[end->dim2];
    extents[end->dim2] = 1; // it has one position
    for (uint32_t i = 0; i < over.count; i++)
        walk.strides[i][1] = axes_stride(&from, extents, over.at[i]);
    extents[end->dim2] = whole;
    int64_t begin = step * axes_stride(&to, run->outer->extents, end->dim2);
    eval_copy(&walk, out + begin, row);
}

static void run_step(Run *run, double *out, double *slope, int64_t step) {
    double **arrays = run->inner.arrays, **slopes = run->inner.slopes;
    uint32_t row = run->end->args[0]->id;
    run->inner.steps[run->end->dim] = step;
    for (uint32_t i = 0; i < run->body.count; i++)
        eval_body_value(run, run->body.at[i]);
    if (run->end->op == OP_STACK)
        stack_step(run, out, arrays[row], step);
    if (run->end->op == OP_STACK && slopes && slopes[row])
        stack_step(run, slope, slopes[row], step);
    carry_on(run, run->state, arrays);
    if (slopes)
        carry_on(run, run->slope, slopes);
    for (uint32_t i = 0; i < run->body.count; i++) {
        uint32_t id = run->body.at[i]->id;
        free(arrays[id]);
        arrays[id] = NULL;
        if (slopes) {
            free(slopes[id]);
            slopes[id] = NULL;
        }
    }
}

static void open_run(Run *run) {
    const Graph *graph = run->outer->graph;
    uint32_t n_carries = graph_scan_carries(run->end);
    run->body = find_body(graph, run->end, run->arena);
    run->inner = *run->outer;
    run->inner.own = arena_copy(run->arena, run->outer->extents,
                                graph->dims.count * sizeof *run->outer->extents);
    run->inner.own[run->end->dim] = 1;
    run->inner.extents = run->inner.own;
    run->inner.steps = arena_array(run->arena, int64_t, graph->dims.count);
    for (uint32_t i = 0; i < run->outer->open.count; i++)
        run->inner.steps[run->outer->open.at[i]] = run->outer->steps[run->outer->open.at[i]];
    run->inner.arrays =
        arena_copy(run->arena, run->outer->arrays, graph->values.count * sizeof(double *));
    if (run->outer->slopes)
        run->inner.slopes =
            arena_copy(run->arena, run->outer->slopes, graph->values.count * sizeof(double *));
    dims_add(&run->inner.open, run->end->dim);
    run->slope = arena_array(run->arena, double *, n_carries);
    run->state = arena_array(run->arena, double *, n_carries);
    for (uint32_t i = 0; i < n_carries; i++) {
        ScanCarry c = graph_scan_carry(run->end, i);
        run->state[i] = state_from(run, c.carry, c.first, run->outer->arrays[c.first->id]);
        if (run->outer->slopes)
            run->slope[i] = state_from(run, c.carry, c.first, run->outer->slopes[c.first->id]);
    }
}

void eval_scan(Eval *eval, const Value *end, double *out) {
    Run run = {.outer = eval, .end = end, .arena = arena_new()};
    Axes axes = axes_of(&end->dims);
    double *slope = eval->slopes ? eval_buffer(&axes, eval->extents) : NULL;
    open_run(&run);
    bool reversed = eval->graph->dims.at[end->dim].reversed;
    for (int64_t i = 0, count = eval->extents[end->dim]; i < count; i++)
        run_step(&run, out, slope, reversed ? count - 1 - i : i);
    const DimList *carried = &graph_scan_carry(end, 0).carry->dims;
    if (end->op == OP_LAST)
        copy_over(out, &end->dims, run.state[0], carried, run.inner.extents);
    if (end->op == OP_LAST && slope)
        copy_over(slope, &end->dims, run.slope[0], carried, run.inner.extents);
    if (slope)
        eval->slopes[end->id] = slope;
    for (uint32_t i = 0; i < graph_scan_carries(end); i++) {
        free(run.state[i]);
        free(run.slope[i]);
    }
    arena_free(run.arena);
}
