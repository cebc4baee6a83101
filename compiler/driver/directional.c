// SPDX-License-Identifier: Apache-2.0
// Gradients against derivatives along random directions v, which the oracle finds the other way
// (forward mode, graph/oracle/slope.c):
//
//     sum(dY * Y'(v)) over all results  =  sum(dX * v) over all gradients
//
// The oracle's own evaluation of the gradients has to agree to almost all digits of a double. Of
// compiled code the errors of single elements, which have limits, have random signs in the sum.
#include "driver/driver.h"

#include <math.h>

// Of a sum's terms; and of the spread of a sum of errors at their limits.
static const double ROUNDING = 1e-9, SPREAD = 6;

static double sign_at(const int64_t *bits, int64_t i) {
    return bits[i] ? 1 : -1;
}

static double *draw_direction(const AttTensorData *input, Name name, uint64_t seed, Arena *arena) {
    int64_t count = tensor_count(input), *bits = arena_array(arena, int64_t, count + 1);
    double *direction = arena_array(arena, double, count + 1);
    att_random_integers(seed, att_stream_of(name), count, 2, bits);
    for (int64_t i = 0; i < count; i++)
        direction[i] = sign_at(bits, i);
    return direction;
}

static int input_named(const Graph *graph, Name name) {
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.at[i]->name == name)
            return (int)i;
    return -1;
}

static Name gradient_name(const Graph *graph, Name of, Arena *arena) {
    return names_find(graph->session->names, arena_printf(arena, "d%s", of));
}

// The input that an output is the gradient by; -1: it is a result.
static int gradient_by(const Directions *d, uint32_t output, Arena *arena) {
    const Graph *graph = d->tensors->graph;
    for (uint32_t i = 0; output >= d->plain->outputs.count && i < d->plain->inputs.count; i++)
        if (gradient_name(graph, graph->inputs.at[i]->name, arena) ==
            graph->outputs.at[output].name)
            return (int)i;
    return -1;
}

static void add_term(DirectionalSum *sum, double a, double b) {
    if (a == 0 || b == 0)
        return;
    sum->value += a * b;
    sum->size += fabs(a * b);
}

// What the results change by, weighed with their cotangents.
static DirectionalSum forward_sum(const Directions *d, EvalRun *run, Arena *arena) {
    const Graph *graph = d->tensors->graph;
    DirectionalSum sum = {0};
    for (uint32_t i = 0; i < d->plain->outputs.count; i++) {
        const Output *output = &d->plain->outputs.at[i];
        if (!elem_is_float(output->value->elem))
            continue;
        int given = input_named(graph, gradient_name(graph, output->name, arena));
        const double *weight =
            given < 0 ? NULL : tensor_to_doubles(&d->tensors->inputs[given], arena);
        for (int64_t k = 0; k < tensor_count(&d->tensors->outputs[i]); k++)
            add_term(&sum, weight ? weight[k] : 1, run->slopes[i][k]);
    }
    return sum;
}

Directions directions_open(const Options *options, const Graph *plain, const Tensors *tensors) {
    Arena *arena = options->session->arena;
    Directions d = {.plain = plain, .tensors = tensors};
    Arena *scratch = arena_new();
    EvalRun run = {.extents = tensors->extents,
                   .inputs = arena_array(scratch, double *, plain->inputs.count + 1)};
    for (uint32_t i = 0; i < plain->inputs.count; i++)
        run.inputs[i] = tensor_to_doubles(&tensors->inputs[i], scratch);
    for (int n = 0; n < N_DIRECTIONS; n++) {
        run.direction = d.at[n] = arena_array(arena, double *, plain->inputs.count + 1);
        for (uint32_t o = 0; o < tensors->graph->outputs.count; o++) {
            int by = gradient_by(&d, o, arena);
            if (by >= 0)
                run.direction[by] = draw_direction(&tensors->inputs[by], plain->inputs.at[by]->name,
                                                   options->seed + 1 + (uint64_t)n, arena);
        }
        graph_eval(plain, EVAL_F64, &run, scratch);
        d.forward[n] = forward_sum(&d, &run, scratch);
    }
    arena_free(scratch);
    return d;
}

// gradients: of all outputs, by index. limits: likewise what their errors may be.
static DirectionalError judge(const Directions *d, int n, const double *const *gradients,
                              const double *limits, Arena *arena) {
    DirectionalSum sum = {0};
    double spread = 0;
    for (uint32_t o = d->plain->outputs.count; o < d->tensors->graph->outputs.count; o++) {
        int by = gradient_by(d, o, arena);
        int64_t count = tensor_count(&d->tensors->outputs[o]);
        for (int64_t k = 0; by >= 0 && k < count; k++)
            add_term(&sum, gradients[o][k], d->at[n][by][k]);
        spread += limits ? (double)count * limits[o] * limits[o] : 0;
    }
    const DirectionalSum *forward = &d->forward[n];
    double limit = ROUNDING * (sum.size + forward->size) + SPREAD * sqrt(spread);
    return (DirectionalError){fabs(sum.value - forward->value), limit};
}

DirectionalError directions_judge(const Directions *d, const double *const *gradients,
                                  const double *limits, Arena *arena) {
    DirectionalError worst = {0, 1};
    for (int n = 0; n < N_DIRECTIONS; n++) {
        DirectionalError e = judge(d, n, gradients, limits, arena);
        if (isfinite(d->forward[n].size) && isfinite(e.error) &&
            e.error * worst.limit >= worst.error * e.limit)
            worst = e;
    }
    return worst;
}
