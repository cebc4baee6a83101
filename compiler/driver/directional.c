// SPDX-License-Identifier: Apache-2.0
// Gradients against derivatives along random directions v, which the oracle finds the other way
// (forward mode, graph/oracle/slope.c):
//
//     sum(dY * Y'(v)) over all results  =  sum(dX * v) over all gradients
//
// The oracle's own evaluation of the gradients has to agree to almost all digits of a double. Of
// compiled code the errors of single elements, which have limits, have random signs in the sum.
// Derivatives that are zero but for rounding (of what a softmax sums to) have no digits: where the
// two disagree, inputs that are moved by one unit in the last place tell how many either has. Sums
// of numbers that count as zero (tolerance.c) are not told from zero.
#include "driver/driver.h"

#include <math.h>

// What is allowed, added up: a share of the sum of absolute terms; so many standard deviations of a
// sum of errors that are as large as their limits; so many times what terms change by with the last
// digit of inputs. All three chosen.
static const double ROUNDING = 1e-9, SPREAD = 6, NOISE = 64;

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

// What the results change by, weighed with their cotangents. slopes: by result.
static DirectionalSum forward_sum(const Directions *d, double *const *slopes, Arena *arena) {
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
            add_term(&sum, weight ? weight[k] : 1, slopes[i][k]);
        if (d->of_first)
            break;
    }
    return sum;
}

// Of the results along direction n.
static double **forward_slopes(const Directions *d, int n, double **inputs, Arena *arena) {
    EvalRun run = {.extents = d->tensors->extents, .inputs = inputs, .direction = d->at[n]};
    graph_eval(d->plain, EVAL_F64, &run, arena);
    return run.slopes;
}

Directions directions_open(const Options *options, const Compilation *compiled,
                           const Tensors *tensors) {
    Arena *arena = options->session->arena;
    const Graph *plain = compiled->plain;
    uint32_t n_inputs = tensors->graph->inputs.count; // those of the plain graph are the first
    Directions d = {.plain = plain,
                    .of_first = compiled->of_first,
                    .tensors = tensors,
                    .inputs = arena_array(arena, double *, n_inputs + 1)};
    Arena *scratch = arena_new();
    for (uint32_t i = 0; i < n_inputs; i++)
        d.inputs[i] = tensor_to_doubles(&tensors->inputs[i], arena);
    for (int n = 0; n < N_DIRECTIONS; n++) {
        d.at[n] = arena_array(arena, double *, plain->inputs.count + 1);
        for (uint32_t o = 0; o < tensors->graph->outputs.count; o++) {
            int by = gradient_by(&d, o, arena);
            if (by >= 0)
                d.at[n][by] = draw_direction(&tensors->inputs[by], plain->inputs.at[by]->name,
                                             options->seed + 1 + (uint64_t)n, arena);
        }
        d.forward[n] = forward_sum(&d, forward_slopes(&d, n, d.inputs, scratch), scratch);
    }
    arena_free(scratch);
    return d;
}

// ---- derivatives without digits ----------------------------------------------------------------

static double **nudged_inputs(const Directions *d, uint64_t seed, Arena *arena) {
    const Graph *graph = d->tensors->graph;
    double **out = arena_array(arena, double *, graph->inputs.count + 1);
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const AttTensorData *input = &d->tensors->inputs[i];
        int64_t count = tensor_count(input);
        out[i] = arena_copy(arena, d->inputs[i], (size_t)count * sizeof *out[i]);
        double *signs = draw_direction(input, graph->inputs.at[i]->name, seed, arena);
        for (int64_t k = 0; k < count && elem_is_float(graph->inputs.at[i]->elem); k++)
            out[i][k] = nextafter(out[i][k], signs[k] * (double)INFINITY);
    }
    return out;
}

// What the derivatives of results along direction n change by.
static double forward_noise(const Directions *d, int n, double **nudged, Arena *arena) {
    double **slopes = forward_slopes(d, n, d->inputs, arena);
    double **others = forward_slopes(d, n, nudged, arena);
    for (uint32_t i = 0; i < d->plain->outputs.count; i++) {
        bool floats = elem_is_float(d->plain->outputs.at[i].value->elem);
        for (int64_t k = 0; floats && k < tensor_count(&d->tensors->outputs[i]); k++)
            others[i][k] -= slopes[i][k];
    }
    return forward_sum(d, others, arena).size;
}

// What the oracle's gradients change by, weighed with direction n.
static double backward_noise(const Directions *d, int n, const double *const *gradients,
                             double *const *others, Arena *arena) {
    DirectionalSum sum = {0};
    for (uint32_t o = d->plain->outputs.count; o < d->tensors->graph->outputs.count; o++) {
        int by = gradient_by(d, o, arena);
        for (int64_t k = 0; by >= 0 && k < tensor_count(&d->tensors->outputs[o]); k++)
            add_term(&sum, others[o][k] - gradients[o][k], d->at[n][by][k]);
    }
    return sum.size;
}

// One draw may happen to change nothing.
void directions_find_noise(Directions *d, const double *const *gradients, uint64_t seed) {
    for (uint64_t draw = 0; draw < NOISE_DRAWS; draw++) {
        Arena *arena = arena_new();
        double **nudged = nudged_inputs(d, seed + draw, arena);
        EvalRun run = {.extents = d->tensors->extents, .inputs = nudged};
        graph_eval(d->tensors->graph, EVAL_F64, &run, arena);
        for (int n = 0; n < N_DIRECTIONS; n++)
            d->noise[n] =
                fmax(d->noise[n], forward_noise(d, n, nudged, arena) +
                                      backward_noise(d, n, gradients, run.outputs, arena));
        arena_free(arena);
    }
}

// gradients: of all outputs, by index. limits: likewise what their errors may be.
static DirectionalError judge(const Directions *d, int n, const double *const *gradients,
                              const double *limits, Arena *arena) {
    DirectionalSum sum = {0};
    double spread = 0, zero = 0;
    for (uint32_t o = d->plain->outputs.count; o < d->tensors->graph->outputs.count; o++) {
        int by = gradient_by(d, o, arena);
        int64_t count = tensor_count(&d->tensors->outputs[o]);
        for (int64_t k = 0; by >= 0 && k < count; k++)
            add_term(&sum, gradients[o][k], d->at[n][by][k]);
        spread += limits ? (double)count * limits[o] * limits[o] : 0;
        zero += (double)count * tolerance_least(d->tensors->graph->outputs.at[o].value->elem);
    }
    const DirectionalSum *forward = &d->forward[n];
    double limit = ROUNDING * forward->size + SPREAD * sqrt(spread) + NOISE * d->noise[n] + zero;
    if (!isfinite(sum.size))
        return (DirectionalError){.error = INFINITY, .limit = limit};
    return (DirectionalError){.error = fabs(sum.value - forward->value),
                              .limit = limit + ROUNDING * sum.size};
}

DirectionalError directions_judge(const Directions *d, const double *const *gradients,
                                  const double *limits, Arena *arena) {
    DirectionalError worst = {.limit = 1};
    for (int n = 0; n < N_DIRECTIONS; n++) {
        DirectionalError e = judge(d, n, gradients, limits, arena);
        if (!isfinite(d->forward[n].size) || (limits && isinf(e.error)))
            continue;
        e.judged = worst.judged + 1;
        worst.judged = e.judged;
        if (e.error * worst.limit >= worst.error * e.limit)
            worst = e;
    }
    return worst;
}
