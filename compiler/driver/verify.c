// SPDX-License-Identifier: Apache-2.0
// attc verify: compiled code against the double-precision oracle on seeded random input.
#include "driver/driver.h"

static void print_error(const Graph *graph, uint32_t i, const OutputError *e, Arena *arena) {
    printf("%s[%s]  error %.3g of %.3g, naive %s %.3g, limit %.3g  %s\n",
           graph->outputs.at[i].name, dims_text(graph, &graph->outputs.at[i].order, arena),
           e->error, e->largest, elem_name(graph->outputs.at[i].value->elem), e->naive, e->limit,
           e->error <= e->limit ? "ok" : "TOO LARGE");
}

static json_t *error_json(const Graph *graph, uint32_t i, const OutputError *e) {
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:b}", "name", graph->outputs.at[i].name, "error",
                     report_number(e->error), "largest", report_number(e->largest), "naive",
                     report_number(e->naive), "limit", report_number(e->limit), "ok",
                     e->error <= e->limit);
}

static int compare(Options *options, const Tensors *tensors) {
    const Graph *graph = tensors->graph;
    Arena *arena = options->session->arena;
    double **reference = execute_oracle(tensors, EVAL_F64, arena);
    double **naive = execute_oracle(tensors, EVAL_F32, arena);
    json_t *list = json_array();
    int status = EXIT_FINE;
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const AttTensorData *output = &tensors->outputs[i];
        OutputError error =
            tolerance_measure(graph->outputs.at[i].value->elem, reference[i], naive[i],
                              tensor_to_doubles(output, arena), tensor_count(output));
        if (!(error.error <= error.limit))
            status = EXIT_PROBLEM;
        if (options->json)
            json_array_append_new(list, error_json(graph, i, &error));
        else
            print_error(graph, i, &error, arena);
    }
    if (options->json) {
        report_print_json(json_pack("{s:s, s:o, s:o}", "entry", graph->entry, "dims",
                                    report_dims(graph, tensors->extents), "outputs", list));
    } else {
        json_decref(list);
    }
    return status;
}

int command_verify(Options *options) {
    const Target *target = driver_target(options);
    Compilation compiled;
    if (!target || !driver_compile(options, target, AFTER_TILE, &compiled))
        return EXIT_PROBLEM;
    Tensors tensors;
    int status = EXIT_PROBLEM;
    if (tensors_open(options, compiled.built, false, &tensors) &&
        execute_compiled(options, &compiled, &tensors))
        status = compare(options, &tensors);
    tensors_close(&tensors);
    return status;
}
