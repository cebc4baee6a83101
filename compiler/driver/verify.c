// SPDX-License-Identifier: Apache-2.0
// attc verify: compiled code against the double-precision oracle on seeded random input.
#include "driver/driver.h"

static void print_error(const Graph *graph, uint32_t i, const OutputError *e, Arena *arena) {
    printf("%s[%s]  error %.3g of %.3g, naive %s %.3g, limit %.3g  %s\n", graph->outputs.at[i].name,
           dims_text(graph, &graph->outputs.at[i].order, arena), e->error, e->largest,
           elem_name(graph->outputs.at[i].value->elem), e->naive, e->limit,
           e->error <= e->limit ? "ok" : "TOO LARGE");
}

static json_t *error_json(const Graph *graph, uint32_t i, const OutputError *e) {
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:b}", "name", graph->outputs.at[i].name, "error",
                     report_number(e->error), "largest", report_number(e->largest), "naive",
                     report_number(e->naive), "limit", report_number(e->limit), "ok",
                     e->error <= e->limit);
}

// Errors of the naive evaluation, by output: the largest so far.
static void add_naive(const Tensors *tensors, double **reference, double *naive, Arena *arena) {
    double **plain = oracle_run(tensors, EVAL_F32, arena);
    for (uint32_t i = 0; i < tensors->graph->outputs.count; i++) {
        double error =
            tolerance_difference(reference[i], plain[i], tensor_count(&tensors->outputs[i]));
        naive[i] = error > naive[i] ? error : naive[i];
    }
}

// The element type that an output's error is in the units of: its own, or f32 for an f64 that
// narrower floats were computed for.
static Elem error_elem(const Graph *graph, const Value *output, Arena *arena) {
    bool *needed = arena_array(arena, bool, graph->values.count);
    needed[output->id] = true;
    for (uint32_t i = output->id + 1; i-- > 0;) {
        const Value *value = graph->values.at[i];
        if (!needed[i])
            continue;
        if (output->elem == ELEM_F64 && op_kind(value->op) != KIND_LEAF &&
            elem_is_float(value->elem) && value->elem != ELEM_F64)
            return ELEM_F32;
        for (uint32_t k = 0; k < value->n_args; k++)
            needed[value->args[k]->id] = true;
    }
    return output->elem;
}

static bool measure(const Tensors *tensors, double **reference, const double *naive,
                    OutputError *errors, Arena *arena) {
    const Graph *graph = tensors->graph;
    bool fine = true;
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const AttTensorData *output = &tensors->outputs[i];
        errors[i] =
            tolerance_measure(error_elem(graph, graph->outputs.at[i].value, arena), reference[i],
                              tensor_to_doubles(output, arena), tensor_count(output), naive[i]);
        fine &= errors[i].error <= errors[i].limit;
    }
    return fine;
}

// One naive evaluation is one draw of its rounding errors, and may be a lucky one where an output
// has few elements. Before an error counts as too large, more are drawn, each on inputs moved by
// one unit in the last place: no code can be asked for more than such inputs tell. The fewer
// elements, the more draws.
static int draws_wanted(const Tensors *tensors, const OutputError *errors) {
    enum { FEWEST = 2, MOST = 24, ELEMENTS = 1024 };
    int64_t smallest = ELEMENTS;
    for (uint32_t i = 0; i < tensors->graph->outputs.count; i++) {
        int64_t count = tensor_count(&tensors->outputs[i]);
        if (!(errors[i].error <= errors[i].limit) && count > 0 && count < smallest)
            smallest = count;
    }
    int64_t wanted = ELEMENTS / smallest;
    return (int)(wanted < FEWEST ? FEWEST : wanted > MOST ? MOST : wanted);
}

static OutputError *compare(Options *options, const Tensors *tensors, bool *fine) {
    Arena *arena = options->session->arena;
    uint32_t n = tensors->graph->outputs.count;
    OutputError *errors = arena_array(arena, OutputError, n + 1);
    double *naive = arena_array(arena, double, n + 1);
    double **reference = oracle_run(tensors, EVAL_F64, arena);
    add_naive(tensors, reference, naive, arena);
    *fine = measure(tensors, reference, naive, errors, arena);
    int draws = *fine ? 0 : draws_wanted(tensors, errors);
    for (int i = 0; i < draws && !*fine; i++) {
        tensors_nudge(tensors, options->seed + (uint64_t)i);
        add_naive(tensors, reference, naive, arena);
        *fine = measure(tensors, reference, naive, errors, arena);
    }
    return errors;
}

static void report(const Options *options, const Tensors *tensors, const OutputError *errors) {
    const Graph *graph = tensors->graph;
    json_t *list = json_array();
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        if (options->json)
            json_array_append_new(list, error_json(graph, i, &errors[i]));
        else
            print_error(graph, i, &errors[i], options->session->arena);
    if (options->json)
        report_print_json(json_pack("{s:s, s:o, s:O}", "entry", graph->entry, "dims",
                                    report_extents(graph, tensors->extents), "outputs", list));
    json_decref(list);
}

int command_verify(Options *options) {
    const Target *target = driver_target(options);
    Compilation compiled;
    if (!target || !driver_compile(options, target, AFTER_TILE, &compiled))
        return EXIT_PROBLEM;
    driver_tell_entry(options, &compiled);
    Tensors tensors;
    int status = EXIT_PROBLEM;
    if (tensors_open(options, &compiled, false, &tensors) && oracle_fits(options, &tensors, true) &&
        tensors_fill(options, &tensors) && execute_compiled(options, &compiled, &tensors)) {
        bool fine;
        const OutputError *errors = compare(options, &tensors, &fine);
        report(options, &tensors, errors);
        status = fine ? EXIT_FINE : EXIT_PROBLEM;
    }
    tensors_close(&tensors);
    return status;
}
