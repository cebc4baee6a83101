// SPDX-License-Identifier: Apache-2.0
// graph_gradient: reverse-mode differentiation of an entry.
//
//     before  Y[n, k] = einsum(X[n, d], W[d, k])                              returned: Y
//     after   the same, with the new argument dY[n, k] and the further results
//             dX[n, d] = einsum(dY[n, k], W[d, k]);  dW[d, k] = einsum(dY[n, k], X[n, d])
//
// One sweep from the last value to the first hands each adjoint on to the arguments, by the op's
// rule; einsums become einsums, so that all that follows (order of contraction, fusion) treats the
// backward pass like any other program (Griewank and Walther, Evaluating Derivatives, ch. 3).
//
// Requires: a graph as graph_build makes it. Ensures: the results of the graph, then for each input
// asked for a result `dX` over its dims. New inputs `dY`: of each result of floats with dims.
#include "graph/rewrite/grad.h"

// ---- what is asked for -------------------------------------------------------------------------

Name gradient_name(const Graph *graph, Name name, Arena *arena) {
    return names_find(graph->session->names, arena_printf(arena, "d%s", name));
}

static bool is_asked_for(const GradientOptions *options, const Value *input) {
    return elem_is_float(input->elem) &&
           (!options->wrt.count || namelist_has(&options->wrt, input->name));
}

static const char *float_inputs(const Graph *graph) {
    Text text = {.arena = graph->arena};
    uint32_t shown = 0;
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        if (elem_is_float(graph->inputs.at[i]->elem))
            text_list(&text, shown++, graph->inputs.at[i]->name);
    return shown ? text.at : "none";
}

static bool wrt_makes_sense(const Graph *graph, Name name) {
    Diags *diags = graph->session->diags;
    Near near = near_to(name);
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *input = graph->inputs.at[i];
        near_offer(&near, input->name);
        if (input->name == name && !elem_is_float(input->elem))
            diag_hint(diag_error(diags, input->origin, "%s is of %s: only floats have gradients",
                                 name, elem_name(input->elem)),
                      "leave it out of --wrt");
        if (input->name == name)
            return elem_is_float(input->elem);
    }
    Diag *diag = diag_error(diags, (Span){0}, "%s has no argument %s to differentiate by",
                            graph->entry, name);
    if (near.best)
        diag_hint(diag, "did you mean '%s'?", near.best);
    else
        diag_hint(diag, "its arguments of floats: %s", float_inputs(graph));
    return false;
}

static bool has_cotangent(const Output *output) {
    return elem_is_float(output->value->elem);
}

// The argument or result of this name; NULL: there is none.
static const Value *find_tensor(const Graph *graph, Name name) {
    const Value *input = graph_find_input(graph, name);
    for (uint32_t i = 0; !input && i < graph->outputs.count; i++)
        if (graph->outputs.at[i].name == name)
            return graph->outputs.at[i].value;
    return input;
}

// Names of cotangents and gradients are those of no argument or result.
static bool name_is_free(const Graph *graph, Name of) {
    Name name = gradient_name(graph, of, graph->arena);
    const Value *taken = find_tensor(graph, name);
    if (taken)
        diag_error(graph->session->diags, taken->origin,
                   "%s has a tensor %s, which is what the gradient by %s is called; rename it",
                   graph->entry, name, of);
    return !taken;
}

// results: or arguments; none of them is of floats.
static void tell_no_floats(const Graph *graph, bool results) {
    const Value *first = results               ? graph->outputs.at[0].value
                         : graph->inputs.count ? graph->inputs.at[0]
                                               : NULL;
    Diag *diag = diag_error(graph->session->diags, first ? first->origin : (Span){0},
                            "%s has no %s of floats: no gradient", graph->entry,
                            results ? "result" : "argument");
    if (first)
        diag_hint(diag, "%s is of %s; whole numbers and bool have no gradient",
                  results ? graph->outputs.at[0].name : first->name, elem_name(first->elem));
}

static bool request_makes_sense(const Graph *graph, const GradientOptions *options) {
    bool fine = true, floats = false, asked = false;
    for (uint32_t i = 0; i < options->wrt.count; i++)
        fine &= wrt_makes_sense(graph, options->wrt.at[i]);
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        if (is_asked_for(options, graph->inputs.at[i]))
            fine &= name_is_free(graph, graph->inputs.at[i]->name);
        asked |= is_asked_for(options, graph->inputs.at[i]);
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        floats |= has_cotangent(&graph->outputs.at[i]);
        if (has_cotangent(&graph->outputs.at[i]))
            fine &= name_is_free(graph, graph->outputs.at[i].name);
    }
    if (fine && (!floats || !asked))
        tell_no_floats(graph, !floats);
    return fine && floats && asked;
}

// ---- what depends on it ------------------------------------------------------------------------

typedef struct {
    bool *wanted;       // by id
    ValueList *readers; // by id: that have gradients where the value has
    ValueList open;     // wanted, with readers that nobody looked at
    Arena *arena;
} Search;

static bool may_be_wanted(const Value *value) {
    bool carried = value->op == OP_CARRY; // without a rule, but its reversed scan has its adjoint
    return elem_is_float(value->elem) && (carried || gradient_rule(value->op) != no_gradient);
}

static void add_reader(Search *search, const Value *arg, Value *reader) {
    if (may_be_wanted(reader))
        vec_push(search->arena, &search->readers[arg->id], reader);
}

// What is left of a scan is of a row, or of what it carries itself.
static void find_readers(Search *search, const Graph *graph) {
    for (uint32_t i = 0; i < graph->values.count; i++) {
        Value *value = graph->values.at[i];
        bool end = op_kind(value->op) == KIND_SCAN;
        for (uint32_t k = 0; k < (end ? 1 : value->n_args); k++)
            add_reader(search, value->args[k], value);
        for (uint32_t k = 0; end && k < graph_scan_carries(value); k++) {
            ScanCarry c = graph_scan_carry(value, k);
            add_reader(search, c.first, c.carry);
            add_reader(search, c.update, c.carry);
        }
    }
}

static void want(Search *search, Value *value) {
    if (search->wanted[value->id])
        return;
    search->wanted[value->id] = true;
    vec_push(search->arena, &search->open, value);
}

// By id: does it depend on an input that is asked for? Only floats carry gradients.
static bool *mark_wanted(const Graph *graph, const GradientOptions *options, Arena *arena) {
    uint32_t count = graph->values.count;
    Search search = {.wanted = arena_array(arena, bool, count),
                     .readers = arena_array(arena, ValueList, count),
                     .arena = arena};
    find_readers(&search, graph);
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        if (is_asked_for(options, graph->inputs.at[i]))
            want(&search, graph->inputs.at[i]);
    while (search.open.count) {
        const ValueList *readers = &search.readers[search.open.at[--search.open.count]->id];
        for (uint32_t i = 0; i < readers->count; i++)
            want(&search, readers->at[i]);
    }
    return search.wanted;
}

// ---- cotangents and results --------------------------------------------------------------------

// A scalar's cotangent is 1 unless one is given.
static Value *cotangent(Graph *graph, const Output *output, const GradientOptions *options) {
    Elem elem = output->value->elem;
    Name name = gradient_name(graph, output->name, graph->arena);
    bool given = options->all_given || namelist_has(&options->given, name);
    if (!output->order.count && !given)
        return graph_const(graph, 1, elem);
    Value *input = graph_input(graph, name, elem, output->order, ROLE_DATA);
    input->use = USE_COTANGENT;
    return input;
}

static void seed_adjoints(Gradient *gradient, const GradientOptions *options) {
    Graph *graph = gradient->rewrite.to;
    const Graph *from = gradient->rewrite.from;
    for (uint32_t i = 0; i < from->outputs.count; i++) {
        const Output *output = &from->outputs.at[i];
        if (!has_cotangent(output))
            continue;
        Value *seed = cotangent(graph, output, options);
        seed = graph_cast(graph, seed, elem_work(seed->elem));
        Value **adjoint = &gradient->adjoint[output->value->id];
        *adjoint = *adjoint ? graph_map2(graph, OP_ADD, *adjoint, seed) : seed;
        if (options->of_first)
            return;
    }
}

static void return_gradients(Gradient *gradient, const GradientOptions *options) {
    Graph *graph = gradient->rewrite.to;
    const Graph *from = gradient->rewrite.from;
    for (uint32_t i = 0; i < from->inputs.count; i++) {
        const Value *input = from->inputs.at[i];
        if (!is_asked_for(options, input))
            continue;
        Value *adjoint = gradient->adjoint[input->id];
        if (!adjoint)
            adjoint = graph_const(graph, 0, elem_work(input->elem));
        adjoint = graph_over(graph, adjoint, &input->dims);
        Output output = {.name = gradient_name(graph, input->name, graph->arena),
                         .order = input->dims,
                         .use = USE_GRADIENT};
        graph_output_like(graph, &output, graph_cast(graph, adjoint, input->elem));
    }
}

Graph *graph_gradient(const Graph *graph, const GradientOptions *options) {
    if (!request_makes_sense(graph, options))
        return NULL;
    Arena *arena = arena_new();
    uint32_t count = graph->values.count;
    Gradient gradient = {.rewrite = rewrite_begin("gradient", graph, graph->arena, arena),
                         .adjoint = arena_array(arena, Value *, count),
                         .last = arena_array(arena, Value *, count),
                         .copy = arena_array(arena, Value *, count),
                         .wanted = mark_wanted(graph, options, arena),
                         .scans = map_new(arena),
                         .reversed = map_new(arena)};
    rewrite_values(&gradient.rewrite, rewrite_keep);
    rewrite_outputs(&gradient.rewrite);
    gradient.rewrite.to->made_for.backward = true;
    gradient_copy_bodies(&gradient);
    seed_adjoints(&gradient, options);
    gradient_sweep(&gradient, &(DimList){0}, &graph->values);
    return_gradients(&gradient, options);
    gradient.rewrite.to->made_for = (MadeFor){0};
    arena_free(arena);
    return gradient.rewrite.to;
}
