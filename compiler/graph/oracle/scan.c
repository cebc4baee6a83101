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
    Body body;      // in order of id
    double **state; // by carry
    Arena *arena;
} Run;

static Body find_body(const Graph *graph, const Value *end, Arena *arena) {
    Body body = {0};
    bool *needed = arena_array(arena, bool, graph->values.count + 1);
    needed[end->id] = true;
    for (uint32_t v = end->id + 1; v-- > 0;) {
        const Value *value = graph->values.at[v];
        for (uint32_t i = 0; needed[v] && i < value->n_args; i++)
            if (dims_has(&value->args[i]->dims, end->dim))
                needed[value->args[i]->id] = true;
    }
    for (uint32_t v = 0; v < end->id; v++)
        if (needed[v])
            vec_push(arena, &body, graph->values.at[v]);
    return body;
}

// Copies an array under the axes `from` into one over all of `to`.
static void copy_over(double *out, const DimList *to, const double *in, const DimList *from,
                      const int64_t *extents) {
    Axes over = axes_of(to), read = axes_of(from);
    Walk walk = walk_over(&over, (const Axes *[]){&over, &read}, 2, extents);
    eval_copy(&walk, out, in);
}

static double *state_from(const Run *run, const Value *carry, const Value *value,
                          const double *array) {
    Axes axes = axes_of(&carry->dims);
    double *state = eval_buffer(&axes, run->inner.extents);
    copy_over(state, &carry->dims, array, &value->dims, run->inner.extents);
    return state;
}

// Position `step` of what the scan reads: the strides are those of the whole.
static double *read_step(const Run *run, const Value *value, int64_t step) {
    const Value *arg = value->args[0];
    Axes out = axes_of(&value->dims), read = axes_of(&arg->dims);
    for (uint32_t i = 0; i < read.count; i++)
        read.at[i] = dimmap_get(value->renames, read.at[i]);
    double *array = eval_buffer(&out, run->inner.extents);
    Walk walk = walk_over(&out, (const Axes *[]){&out, &read}, 2, run->inner.extents);
    for (uint32_t i = 0; i < out.count; i++)
        walk.strides[i][1] = axes_stride(&read, run->outer->extents, out.at[i]);
    int64_t begin = step * axes_stride(&read, run->outer->extents, run->end->dim);
    eval_copy(&walk, array, run->inner.arrays[arg->id] + begin);
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

static void eval_body_value(Run *run, const Value *value, int64_t step) {
    DimId dim = run->end->dim;
    double **array = &run->inner.arrays[value->id];
    if (value->op == OP_CARRY && value->dim == dim)
        *array = state_from(run, value, value, run->state[number_of_carry(run, value)]);
    else if (value->op == OP_INDEX && value->dim == dim)
        *array = one_number((double)step);
    else if (value->op == OP_RENAME && !dims_has(&value->args[0]->dims, dim))
        *array = read_step(run, value, step);
    else if (eval_is_ready(&run->inner, value))
        eval_one(&run->inner, value, NULL);
}

static void carry_on(Run *run) {
    uint32_t n = graph_scan_carries(run->end);
    for (uint32_t i = 0; i < n; i++)
        free(run->state[i]);
    for (uint32_t i = 0; i < n; i++) {
        ScanCarry c = graph_scan_carry(run->end, i);
        run->state[i] = state_from(run, c.carry, c.update, run->inner.arrays[c.update->id]);
    }
}

// Writes position `step` of the result.
static void stack_step(const Run *run, double *out, int64_t step) {
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
    eval_copy(&walk, out + begin, run->inner.arrays[value->id]);
}

static void run_step(Run *run, double *out, int64_t step) {
    for (uint32_t i = 0; i < run->body.count; i++)
        eval_body_value(run, run->body.at[i], step);
    if (run->end->op == OP_STACK)
        stack_step(run, out, step);
    carry_on(run);
    for (uint32_t i = 0; i < run->body.count; i++) {
        free(run->inner.arrays[run->body.at[i]->id]);
        run->inner.arrays[run->body.at[i]->id] = NULL;
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
    run->inner.arrays =
        arena_copy(run->arena, run->outer->arrays, graph->values.count * sizeof(double *));
    dims_add(&run->inner.open, run->end->dim);
    run->state = arena_array(run->arena, double *, n_carries);
    for (uint32_t i = 0; i < n_carries; i++) {
        ScanCarry c = graph_scan_carry(run->end, i);
        run->state[i] = state_from(run, c.carry, c.first, run->outer->arrays[c.first->id]);
    }
}

void eval_scan(Eval *eval, const Value *end, double *out) {
    Run run = {.outer = eval, .end = end, .arena = arena_new()};
    open_run(&run);
    for (int64_t step = 0; step < eval->extents[end->dim]; step++)
        run_step(&run, out, step);
    if (end->op == OP_LAST)
        copy_over(out, &end->dims, run.state[0], &graph_scan_carry(end, 0).carry->dims,
                  run.inner.extents);
    for (uint32_t i = 0; i < graph_scan_carries(end); i++)
        free(run.state[i]);
    arena_free(run.arena);
}

bool eval_is_ready(const Eval *eval, const Value *value) {
    for (uint32_t i = 0; i < value->dims.count; i++)
        if (eval->graph->dims.at[value->dims.at[i]].scan &&
            !dims_has(&eval->open, value->dims.at[i]))
            return false;
    return true;
}
