// SPDX-License-Identifier: Apache-2.0
// The dims of a graph's text: which appear, in which order, and how each is declared.
#include "graph/print/print.h"

// ---- formulas ----------------------------------------------------------------------------------

// With numbers for what is computed from numbers alone, as a reader of the text would have it.
static const Formula *folded(const GraphPrinter *print, const Formula *formula) {
    if (formula->op == FORMULA_NUMBER)
        return formula;
    if (formula->op == FORMULA_DIM) {
        const Formula *own = print_formula(print, formula->dim);
        return own && own->op == FORMULA_NUMBER ? own : formula;
    }
    return formula_of(print->arena, formula->op, folded(print, formula->a),
                      folded(print, formula->b));
}

static bool has_class(const GraphPrinter *print, DimId dim) {
    return print->root[print->graph->dims.at[dim].like] != 0;
}

// What is as long as a dim that appears nowhere is as long as that one is computed to be.
static const Formula *resolved(const GraphPrinter *print, const Formula *formula) {
    bool hidden = formula->op == FORMULA_DIM && !has_class(print, formula->dim);
    const Formula *own = hidden ? print_formula(print, formula->dim) : NULL;
    return own ? own : formula;
}

// Rules come in the order in which extents are computed.
static void find_formulas(GraphPrinter *print) {
    const Graph *graph = print->graph;
    print->formula = arena_array(print->arena, const Formula *, graph->dims.count + 1);
    for (uint32_t i = 0; i < graph->rules.count; i++) {
        const ExtentRule *rule = &graph->rules.at[i];
        if (rule->kind == RULE_COMPUTES)
            print->formula[rule->dim] = resolved(print, folded(print, rule->formula));
    }
}

const Formula *print_formula(const GraphPrinter *print, DimId dim) {
    return print->formula[print->graph->dims.at[dim].like];
}

// ---- which appear ------------------------------------------------------------------------------

void print_mark_dim(GraphPrinter *print, DimId dim) {
    if (dim == DIM_NONE || print->marked[dim])
        return;
    DimId like = print->graph->dims.at[dim].like;
    if (print->graph->dims.at[dim].scan) {
        print_mark_dim(print, like);
        return;
    }
    print->marked[dim] = true;
    vec_push(print->arena, &print->dims, dim);
    if (!print->root[like])
        print->root[like] = print->dims.count;
}

static void mark_formula(GraphPrinter *print, const Formula *formula) {
    if (formula->op == FORMULA_DIM && !has_class(print, formula->dim))
        print_mark_dim(print, formula->dim);
    if (formula->a)
        mark_formula(print, formula->a);
    if (formula->b)
        mark_formula(print, formula->b);
}

// Dims that others are computed from, and so on.
void print_mark_formulas(GraphPrinter *print) {
    find_formulas(print);
    for (uint32_t i = 0; i < print->dims.count; i++) {
        const Formula *formula = print_formula(print, print->dims.at[i]);
        if (formula)
            mark_formula(print, formula);
    }
}

// ---- declarations ------------------------------------------------------------------------------

Name print_declared_name(const GraphPrinter *print, DimId dim) {
    return name_unprimed(print->graph->session->names, print_dim_name(print, dim));
}

// The dim that stands for a class in the text: the first one to appear.
static DimId class_root(const GraphPrinter *print, DimId dim) {
    return print->dims.at[print->root[print->graph->dims.at[dim].like] - 1];
}

// A formula over the names of the text.
static const Formula *formula_here(const GraphPrinter *print, const Formula *formula) {
    Formula *here = arena_copy(print->arena, formula, sizeof *here);
    if (here->op == FORMULA_DIM)
        here->dim = class_root(print, here->dim);
    here->a = here->a ? formula_here(print, here->a) : NULL;
    here->b = here->b ? formula_here(print, here->b) : NULL;
    return here;
}

void print_declarations(GraphPrinter *print) {
    Map *declared = map_new(print->arena); // names, by their interned pointer
    for (uint32_t i = 0; i < print->dims.count; i++) {
        DimId dim = print->dims.at[i];
        int64_t extent = print->graph->dims.at[dim].extent;
        const Formula *formula = print_formula(print, dim);
        Name name = print_declared_name(print, dim);
        Name root = print_declared_name(print, class_root(print, dim));
        uint64_t key = (uint64_t)(uintptr_t)name;
        if (map_get(declared, key))
            continue;
        map_put(declared, key, (void *)name);
        if (root != name)
            text_printf(print->out, "dim %s like %s\n", name, root);
        else if (extent != EXTENT_DYNAMIC)
            text_printf(print->out, "dim %s = %lld\n", name, (long long)extent);
        else if (formula && (formula->op != FORMULA_NUMBER || formula->number > 0))
            text_printf(print->out, "dim %s = %s\n", name,
                        formula_text(print->graph, formula_here(print, formula), print->arena));
    }
}
