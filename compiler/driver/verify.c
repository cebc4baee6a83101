// SPDX-License-Identifier: Apache-2.0
// attc verify: compiled code against the double-precision oracle on seeded random input.
#include "driver/driver.h"

#include <math.h>

// Y[3, 0, 16] of the element at a place.
static const char *place_text(const AttTensorData *output, int64_t at, Arena *arena) {
    const char *text = "";
    for (int k = output->rank; k-- > 0; at /= output->shape[k])
        text = arena_printf(arena, "%lld%s%s", (long long)(at % output->shape[k]),
                            *text ? ", " : "", text);
    return text;
}

static void print_error(const Tensors *tensors, uint32_t i, const OutputError *e, Arena *arena) {
    const Output *output = &tensors->graph->outputs.at[i];
    const char *elem = elem_name(output->value->elem);
    int64_t count = tensor_count(&tensors->outputs[i]);
    printf("%s[%s]  error %.3g of %.3g, naive %s %.3g, limit %.3g  %s\n", output->name,
           dims_text(tensors->graph, &output->order, arena), e->error, e->largest, elem, e->naive,
           e->limit,
           e->error > e->limit                     ? "TOO LARGE"
           : e->n_skipped && e->n_skipped == count ? "NOT JUDGED"
                                                   : "ok");
    if (!e->row_fine)
        printf("  row from [%s]: error %.3g, limit %.3g for values of its size  TOO LARGE\n",
               place_text(&tensors->outputs[i], e->row, arena), e->row_error, e->row_limit);
    if (e->n_skipped)
        printf("  %lld of %lld elements not judged: naive %s overflows there\n",
               (long long)e->n_skipped, (long long)count, elem);
    if (e->n_wild)
        printf("  %lld of %lld elements are NaN or infinite, as they have to be\n",
               (long long)e->n_wild, (long long)count);
}

static json_t *error_json(const Graph *graph, uint32_t i, const OutputError *e) {
    json_t *row = json_null();
    if (e->row >= 0)
        row = json_pack("{s:I, s:o, s:o}", "first", (json_int_t)e->row, "error",
                        report_number(e->row_error), "limit", report_number(e->row_limit));
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:b}", "name",
                     graph->outputs.at[i].name, "error", report_number(e->error), "largest",
                     report_number(e->largest), "naive", report_number(e->naive), "limit",
                     report_number(e->limit), "row", row, "not_judged", (json_int_t)e->n_skipped,
                     "not_finite", (json_int_t)e->n_wild, "ok", e->fine);
}

static bool is_cut(const Value *value) {
    bool whole = value->elem == ELEM_I32 || value->elem == ELEM_I64;
    return value->op == OP_CAST && whole && elem_is_float(value->args[0]->elem);
}

// What an output's error is measured in: the coarsest of its own element type and those of the
// floats that were computed for it, or the floats that its whole numbers were cut from. Inputs that
// are drawn again by one unit in the last place seldom move what is rounded to a coarser type.
static ErrorUnit error_unit(const Graph *graph, const Value *output, Arena *arena) {
    bool *needed = arena_array(arena, bool, graph->values.count);
    Elem coarsest = output->elem;
    needed[output->id] = true;
    for (uint32_t i = output->id + 1; i-- > 0;) {
        const Value *value = graph->values.at[i];
        if (!needed[i])
            continue;
        if (elem_is_float(output->elem) && op_kind(value->op) != KIND_LEAF)
            coarsest = tolerance_coarser(coarsest, value->elem);
        if (!elem_is_float(output->elem) && output->elem != ELEM_BOOL && is_cut(value))
            return (ErrorUnit){value->args[0]->elem, true};
        for (uint32_t k = 0; k < value->n_args; k++)
            needed[value->args[k]->id] = true;
    }
    return (ErrorUnit){coarsest, false};
}

typedef struct {
    const Tensors *tensors;
    NaiveErrors *naive;    // by output
    const double **actual; // likewise
    OutputError *errors;
    int draws; // of inputs, beyond the first
    bool fine;
} Comparison;

static void judge(Comparison *c, Arena *arena) {
    const Graph *graph = c->tensors->graph;
    c->fine = true;
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        ErrorUnit unit = error_unit(graph, graph->outputs.at[i].value, arena);
        c->errors[i] = tolerance_judge(unit, &c->naive[i], c->actual[i]);
        c->fine &= c->errors[i].fine;
    }
}

static void add_naive(Comparison *c, EvalMode mode) {
    Arena *scratch = arena_new();
    double **plain = oracle_run(c->tensors, mode, scratch);
    for (uint32_t i = 0; i < c->tensors->graph->outputs.count; i++)
        tolerance_add_naive(&c->naive[i], plain[i]);
    arena_free(scratch);
}

// One naive evaluation is one draw of its rounding errors, and may be a lucky one where an output
// has few elements. Before an error counts as too large, more are drawn, each on inputs moved by
// one unit in the last place: no code can be asked for more than such inputs tell. Every other one
// adds up sums in the other order, which is no less naive: a sum less a running sum of the same
// numbers is exact at its end only as long as both are added up alike. The fewer elements have
// errors like the largest, the more draws.
static int draws_wanted(const Comparison *c) {
    enum { FEWEST = 2, ELEMENTS = 1024 };
    double smallest = INFINITY;
    for (uint32_t i = 0; i < c->tensors->graph->outputs.count; i++) {
        const NaiveErrors *naive = &c->naive[i];
        double count = c->errors[i].row_fine ? tolerance_telling(naive) : (double)naive->row;
        if (!c->errors[i].fine && naive->n_skipped < naive->count && count < smallest)
            smallest = count;
    }
    if (isinf(smallest))
        return 0; // nothing to judge, which more of the same does not mend
    return (int)fmin(fmax(ELEMENTS / smallest, FEWEST), NAIVE_DRAWS);
}

static Comparison compare(Options *options, const Tensors *tensors) {
    Arena *arena = options->session->arena;
    uint32_t n = tensors->graph->outputs.count;
    Comparison c = {.tensors = tensors,
                    .naive = arena_array(arena, NaiveErrors, n + 1),
                    .actual = arena_array(arena, const double *, n + 1),
                    .errors = arena_array(arena, OutputError, n + 1)};
    double **reference = oracle_run(tensors, EVAL_F64, arena);
    for (uint32_t i = 0; i < n; i++) {
        c.naive[i] = tolerance_open(&tensors->outputs[i], reference[i], arena);
        c.actual[i] = tensor_to_doubles(&tensors->outputs[i], arena);
    }
    add_naive(&c, EVAL_F32);
    judge(&c, arena);
    int wanted = c.fine ? 0 : draws_wanted(&c);
    for (; c.draws < wanted && !c.fine; c.draws++) {
        tensors_nudge(tensors, options->seed + (uint64_t)c.draws);
        add_naive(&c, c.draws % 2 ? EVAL_F32 : EVAL_F32_BACKWARD);
        judge(&c, arena);
    }
    return c;
}

// Of gradients: the oracle's and the compiled ones against derivatives along random directions.
typedef struct {
    Directions directions;
    DirectionalError oracle, compiled;
    uint64_t seed; // of what inputs are moved by
    bool asked, fine;
} Witness;

static void judge_witness(Witness *w, const Comparison *c, Arena *arena) {
    uint32_t n = c->tensors->graph->outputs.count;
    const double **reference = arena_array(arena, const double *, n + 1);
    double *limits = arena_array(arena, double, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        reference[i] = c->naive[i].reference;
        limits[i] = c->errors[i].limit;
    }
    for (int noise = 0; noise < 2 && !w->fine; noise++) {
        if (noise)
            directions_find_noise(&w->directions, reference, w->seed);
        w->oracle = directions_judge(&w->directions, reference, NULL, arena);
        w->compiled = directions_judge(&w->directions, c->actual, limits, arena);
        w->fine = w->oracle.error <= w->oracle.limit && w->compiled.error <= w->compiled.limit;
    }
    w->fine = w->fine && w->oracle.judged;
}

static void print_witness(const Witness *w) {
    printf("along random directions  error %.3g of the oracle's gradients, limit %.3g, %.3g of the "
           "compiled ones, limit %.3g  %s\n",
           w->oracle.error, w->oracle.limit, w->compiled.error, w->compiled.limit,
           !w->oracle.judged ? "NOT JUDGED"
           : w->fine         ? "ok"
                             : "TOO LARGE");
    if (w->oracle.judged < N_DIRECTIONS)
        printf("  %d of %d directions not judged: derivatives are NaN or infinite there\n",
               N_DIRECTIONS - w->oracle.judged, N_DIRECTIONS);
    if (w->compiled.judged < w->oracle.judged)
        printf("  %d of %d directions not judged of the compiled ones: they are NaN or infinite "
               "there\n",
               w->oracle.judged - w->compiled.judged, N_DIRECTIONS);
}

static json_t *witness_json(const Witness *w) {
    if (!w->asked)
        return json_null();
    return json_pack(
        "{s:o, s:o, s:i, s:o, s:o, s:i, s:b}", "oracle", report_number(w->oracle.error),
        "oracle_limit", report_number(w->oracle.limit), "oracle_judged", w->oracle.judged,
        "compiled", report_number(w->compiled.error), "compiled_limit",
        report_number(w->compiled.limit), "compiled_judged", w->compiled.judged, "ok", w->fine);
}

static void report(const Options *options, const Comparison *c, const Witness *w) {
    const Graph *graph = c->tensors->graph;
    json_t *list = json_array();
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        if (options->json)
            json_array_append_new(list, error_json(graph, i, &c->errors[i]));
        else
            print_error(c->tensors, i, &c->errors[i], options->session->arena);
    if (options->json)
        report_print_json(json_pack("{s:s, s:o, s:i, s:O, s:o}", "entry", graph->entry, "dims",
                                    report_extents(graph, c->tensors->extents), "draws", c->draws,
                                    "outputs", list, "directions", witness_json(w)));
    else if (c->draws)
        printf("inputs drawn again%s: naive errors were too small to judge by\n",
               c->draws == 1 ? "" : arena_printf(options->session->arena, " %d times", c->draws));
    json_decref(list);
}

static Verdict judge_entry(Options *options, const Compilation *compiled, Tensors *tensors,
                           bool quiet) {
    if (!tensors_fill(options, tensors) || !execute_compiled(options, compiled, tensors))
        return VERDICT_NONE;
    Witness witness = {
        .seed = options->seed, .asked = compiled->plain != NULL, .fine = !compiled->plain};
    if (witness.asked) // before inputs are moved
        witness.directions = directions_open(options, compiled, tensors);
    Comparison c = compare(options, tensors);
    if (witness.asked)
        judge_witness(&witness, &c, options->session->arena);
    if (!quiet)
        report(options, &c, &witness);
    if (witness.asked && !options->json && !quiet)
        print_witness(&witness);
    return c.fine && witness.fine ? VERDICT_FINE : VERDICT_WRONG;
}

Verdict verify_entry(Options *options, const Compilation *compiled) {
    Tensors tensors;
    Verdict verdict = VERDICT_NONE;
    if (tensors_open(options, compiled, false, &tensors) &&
        oracle_fits(options, &tensors, compiled))
        verdict = judge_entry(options, compiled, &tensors, false);
    tensors_close(&tensors);
    return verdict;
}

Verdict verify_quickly(Options *options, const Compilation *compiled, double most) {
    Tensors tensors;
    Verdict verdict = VERDICT_NONE;
    if (tensors_open(options, compiled, false, &tensors) &&
        oracle_seconds(&tensors, compiled) <= most)
        verdict = judge_entry(options, compiled, &tensors, true);
    tensors_close(&tensors);
    return verdict;
}

int command_verify(Options *options) {
    const Target *target = driver_target(options);
    Compilation compiled;
    if (!target || !driver_compile(options, target, AFTER_TILE, &compiled))
        return EXIT_PROBLEM;
    driver_tell_entry(options, &compiled);
    return verify_entry(options, &compiled) == VERDICT_FINE ? EXIT_FINE : EXIT_PROBLEM;
}
