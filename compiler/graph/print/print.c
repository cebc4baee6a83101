// SPDX-License-Identifier: Apache-2.0
// A graph as source text of the language: parsed, resolved and built again it has the same hash.
//
//     dim d = 768                                   known extents, `like` classes
//     dim m like n
//     def Entry(
//             X[n, d],                              all inputs; dotted names are written with __
//             param layer__0__W[d]):
//         Y[n, d] = X[n, d] * layer__0__W[d]        one value a line, constants inline
//         return Y[n, d]
#include <math.h>
#include <string.h>

#include "graph/print/print.h"

// ---- what is to be written ---------------------------------------------------------------------

static void mark_dims(GraphPrinter *print, const Value *value) {
    for (uint32_t i = 0; i < value->dims.count; i++)
        print_mark_dim(print, value->dims.at[i]);
    print_mark_dim(print, value->dim);
    print_mark_dim(print, value->dim2);
    for (uint32_t i = 0; value->cats && i < value->n_args; i++)
        print_mark_dim(print, value->cats[i]);
    for (uint32_t i = 0; value->digits && i < value->digits->count; i++)
        print_mark_dim(print, value->digits->at[i]);
}

// Numbers are written inline, and positions unless they are renamed, which only a name can be.
static void mark_values(GraphPrinter *print) {
    const Graph *graph = print->graph;
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        mark_dims(print, graph->inputs.at[i]);
    for (uint32_t v = 0; v < graph->values.count; v++) {
        const Value *value = graph->values.at[v];
        if (!print->live[v])
            continue;
        mark_dims(print, value);
        print->is_inline[v] =
            value->op == OP_CONST || value->op == OP_EXTENT || value->op == OP_INDEX;
        if (value->op == OP_RENAME)
            print->is_inline[value->args[0]->id] = false;
    }
    print_find_leaving(print);
}

Name print_dim_name(const GraphPrinter *print, DimId dim) {
    return print->graph->dims.at[print_dim_here(print, dim)].name;
}

// ---- names -------------------------------------------------------------------------------------

static bool name_take(GraphPrinter *print, Name name) {
    uint64_t key = (uint64_t)(uintptr_t)name;
    if (map_get(print->taken, key))
        return false;
    uint32_t *number = arena_new_of(print->arena, uint32_t);
    *number = 1;
    map_put(print->taken, key, number);
    return true;
}

static Name name_numbered(GraphPrinter *print, Name name, const char *separator, uint32_t number) {
    return names_find(print->graph->session->names,
                      arena_printf(print->arena, "%s%s%u", name, separator, number));
}

Name print_unique_name(GraphPrinter *print, Name hint, uint32_t *unnamed) {
    Name name = hint;
    if (!hint) {
        do
            name = name_numbered(print, "t", "", ++*unnamed);
        while (!name_take(print, name));
        return name;
    }
    if (name_take(print, hint))
        return hint;
    uint32_t *number = map_get(print->taken, (uint64_t)(uintptr_t)hint);
    do
        name = name_numbered(print, hint, "_", ++*number);
    while (!name_take(print, name));
    return name;
}

// Names of inputs and outputs are given, then hints are used as far as they go.
static void choose_names(GraphPrinter *print) {
    const Graph *graph = print->graph;
    for (uint32_t i = 0; i < print->dims.count; i++)
        name_take(print, print_declared_name(print, print->dims.at[i]));
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *input = graph->inputs.at[i];
        print->name[input->id] = input->written;
        name_take(print, print->name[input->id]);
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        uint32_t id = graph->outputs.at[i].value->id;
        Name name = graph_output_source_name(graph, i);
        name_take(print, name);
        if (!print->name[id] && !print->is_inline[id])
            print->name[id] = name;
    }
    uint32_t unnamed = 0;
    print_choose_scan_names(print, &unnamed);
    for (uint32_t v = 0; v < graph->values.count; v++) {
        Name hint = graph->values.at[v]->hint;
        if (print->live[v] && !print->is_inline[v] && !print->name[v])
            print->name[v] =
                print_unique_name(print, hint ? graph_source_name(graph, hint) : NULL, &unnamed);
    }
    print_choose_leaving_names(print, &unnamed);
}

// ---- operands ----------------------------------------------------------------------------------

static void print_dims(GraphPrinter *print, const DimList *dims, const char *open,
                       const char *close) {
    text_add(print->out, open);
    for (uint32_t i = 0; i < dims->count; i++)
        text_printf(print->out, "%s%s", i ? ", " : "", print_dim_name(print, dims->at[i]));
    text_add(print->out, close);
}

void print_reference(GraphPrinter *print, const char *name, const DimList *dims) {
    DimList visible = print_visible(print, dims);
    text_add(print->out, name);
    if (visible.count)
        print_dims(print, &visible, "[", "]");
}

// beside: an operator stands next to it, so a sign needs parentheses.
static void print_number(GraphPrinter *print, double number, Elem elem, bool beside) {
    bool sign = signbit(number) && !isnan(number) && beside;
    text_add(print->out, sign ? "(" : "");
    if (isnan(number))
        text_add(print->out, "(inf - inf)");
    else if (!elem_is_float(elem))
        text_printf(print->out, "%.0f", number);
    else
        text_double(print->out, number);
    text_add(print->out, sign ? ")" : "");
}

static bool is_literal(const Value *value) {
    return value->op == OP_CONST || value->op == OP_EXTENT;
}

static void print_position(GraphPrinter *print, DimId dim) {
    if (print->variable[dim])
        text_add(print->out, print->variable[dim]);
    else
        text_printf(print->out, "index(%s)", print_dim_name(print, dim));
}

void print_operand(GraphPrinter *print, const Value *value, NumberForm form) {
    if (!print->is_inline[value->id]) {
        print_reference(print, print_name_here(print, value), &value->dims);
    } else if (value->op == OP_INDEX) {
        print_position(print, value->dim);
    } else {
        if (form == NUMBER_TYPED)
            text_printf(print->out, "%s(", elem_name(value->elem));
        const Formula *extent = value->op == OP_EXTENT ? print_formula(print, value->dim) : NULL;
        if (value->op == OP_CONST)
            print_number(print, value->number, value->elem, form == NUMBER_BESIDE);
        else if (extent && extent->op == FORMULA_NUMBER)
            text_printf(print->out, "%lld", (long long)extent->number);
        else
            text_add(print->out, print_dim_name(print, value->dim));
        text_add(print->out, form == NUMBER_TYPED ? ")" : "");
    }
}

static void print_operands(GraphPrinter *print, const Value *value, const char *separator) {
    bool literals = true;
    uint32_t first = value->op == OP_SELECT; // the condition has an elem of its own
    for (uint32_t i = first; i < value->n_args; i++)
        literals = literals && is_literal(value->args[i]);
    for (uint32_t i = 0; i < value->n_args; i++) {
        bool typed = literals || value->args[i]->elem == ELEM_BOOL;
        NumberForm plain = separator[0] == ',' ? NUMBER_PLAIN : NUMBER_BESIDE;
        text_add(print->out, i ? separator : "");
        print_operand(print, value->args[i], typed ? NUMBER_TYPED : plain);
    }
}

// ---- expressions -------------------------------------------------------------------------------

static const char *const infix[N_OP] = {
    [OP_ADD] = " + ",       [OP_SUB] = " - ", [OP_MUL] = " * ",  [OP_DIV] = " / ",
    [OP_FLOORDIV] = " // ", [OP_MOD] = " % ", [OP_POW] = " ** ", [OP_EQ] = " == ",
    [OP_NE] = " != ",       [OP_LT] = " < ",  [OP_LE] = " <= ",  [OP_AND] = " and ",
    [OP_OR] = " or ",
};

static void print_map(GraphPrinter *print, const Value *value) {
    if (infix[value->op]) {
        print_operands(print, value, infix[value->op]);
        return;
    }
    const char *name = op_name(value->op);
    if (value->op == OP_CAST)
        name = elem_name(value->elem);
    else if (value->op == OP_SELECT)
        name = "where";
    else if (value->op == OP_NEG || value->op == OP_COPY)
        name = value->op == OP_NEG ? "-" : "";
    bool prefix = value->op == OP_NEG || value->op == OP_COPY;
    text_printf(print->out, "%s%s", name, prefix ? "" : value->op == OP_NOT ? " " : "(");
    print_operands(print, value, ", ");
    text_add(print->out, prefix || value->op == OP_NOT ? "" : ")");
}

// What a reduction of nothing is.
static const char *neutral_text(Op op, Elem elem) {
    if (!elem_is_float(elem) && op == OP_REDUCE_MAX)
        return elem == ELEM_I32 ? "-2147483648" : "-9223372036854775807";
    if (!elem_is_float(elem) && op == OP_REDUCE_MIN)
        return elem == ELEM_I32 ? "2147483647" : "9223372036854775807";
    return op == OP_SUM ? "0" : op == OP_PROD ? "1" : op == OP_REDUCE_MIN ? "inf" : "-inf";
}

// index(n) * part // n == index(part): is the position of the value's part?
static void print_in_part(GraphPrinter *print, const Value *value) {
    const char *dim = print_dim_name(print, value->dim),
               *parts = print_dim_name(print, value->dim2);
    text_printf(print->out, "index(%s) * %s // %s == index(%s)", dim, parts, dim, parts);
}

// In parts: what is of another part plays no role.
static void print_reduced(GraphPrinter *print, const Value *value) {
    if (!value_in_parts(value)) {
        print_operands(print, value, ", ");
        return;
    }
    text_add(print->out, "where(");
    print_in_part(print, value);
    text_add(print->out, ", ");
    print_operands(print, value, ", ");
    text_printf(print->out, ", %s)", neutral_text(value->op, value->elem));
}

static void print_reduce(GraphPrinter *print, const Value *value) {
    DimList over = dims_minus(&value->args[0]->dims, &value->dims);
    const char *name = value->op == OP_REDUCE_MAX   ? "max"
                       : value->op == OP_REDUCE_MIN ? "min"
                                                    : op_name(value->op);
    text_printf(print->out, "%s(", name);
    print_reduced(print, value);
    text_add(print->out, ", reduced_dim=");
    print_dims(print, &over, over.count > 1 ? "(" : "", over.count > 1 ? "))" : ")");
}

static void print_contract(GraphPrinter *print, const Value *value) {
    if (value->number != 1) {
        print_number(print, value->number, value->elem, true);
        text_add(print->out, " * ");
    }
    text_add(print->out, "einsum(");
    for (uint32_t i = 0; i < value->n_args; i++) {
        text_add(print->out, i ? ", " : "");
        print_operand(print, value->args[i], NUMBER_TYPED);
    }
    if (value_in_parts(value)) {
        text_printf(print->out, ", %s(", elem_name(value->elem));
        print_in_part(print, value);
        text_add(print->out, ")");
    }
    // A scalar is assigned without brackets, which tell nothing.
    text_add(print->out, print_visible(print, &value->dims).count ? ")" : " -> [])");
}

static void print_slice_end(GraphPrinter *print, const Value *value) {
    const Formula *formula = print_formula(print, value->dim2);
    int64_t extent = print->graph->dims.at[value->dim2].extent;
    if (formula && formula->op == FORMULA_NUMBER) // what this slice says of an argument's dim
        extent = formula->number;
    if (extent != EXTENT_DYNAMIC)
        text_printf(print->out, "%lld)", (long long)(value->offset + extent));
    else if (value->offset)
        text_printf(print->out, "%lld + %s)", (long long)value->offset,
                    print_dim_name(print, value->dim2));
    else
        text_printf(print->out, "%s)", print_dim_name(print, value->dim2));
}

static void print_take(GraphPrinter *print, const Value *value) {
    DimList visible = print_visible(print, &value->args[0]->dims), *dims = &visible;
    text_printf(print->out, "%s[", print_name_here(print, value->args[0]));
    for (uint32_t i = 0; i < dims->count; i++) {
        text_add(print->out, i ? ", " : "");
        if (dims->at[i] == value->dim)
            text_printf(print->out, "%lld", (long long)value->offset);
        else
            text_add(print->out, print_dim_name(print, dims->at[i]));
    }
    text_add(print->out, "]");
}

// split(X[n, d], d -> h k)
static void print_regroup(GraphPrinter *print, const Value *value) {
    text_printf(print->out, "%s(", op_name(value->op));
    print_operand(print, value->args[0], NUMBER_TYPED);
    text_add(print->out, ",");
    if (value->op == OP_SPLIT)
        text_printf(print->out, " %s ->", print_dim_name(print, value->dim));
    for (uint32_t i = 0; i < value->digits->count; i++)
        text_printf(print->out, " %s", print_dim_name(print, value->digits->at[i]));
    if (value->op == OP_MERGE)
        text_printf(print->out, " -> %s", print_dim_name(print, value->dim));
    text_add(print->out, ")");
}

// scatter_add(X[n, d], ids[n], dim=v, reduced_dim=n)
static void print_scatter_dims(GraphPrinter *print, const Value *value) {
    DimList all = dims_union(&value->args[1]->dims, &value->args[0]->dims);
    DimList summed = dims_minus(&all, &value->dims);
    text_printf(print->out, ", dim=%s, reduced_dim=", print_dim_name(print, value->dim));
    print_dims(print, &summed, summed.count > 1 ? "(" : "", summed.count > 1 ? "))" : ")");
}

static void print_move(GraphPrinter *print, const Value *value) {
    if (value->op == OP_TAKE) {
        print_take(print, value);
        return;
    }
    if (value->op == OP_RENAME) {
        print_rename(print, value);
        return;
    }
    if (value->op == OP_SPLIT || value->op == OP_MERGE) {
        print_regroup(print, value);
        return;
    }
    text_printf(print->out, "%s(", op_name(value->op));
    for (uint32_t i = 0; i < value->n_args; i++) {
        text_add(print->out, i ? ", " : "");
        print_operand(print, value->args[i], NUMBER_TYPED);
    }
    if (value->op == OP_SLICE) {
        text_printf(print->out, ", %s, %lld, ", print_dim_name(print, value->dim),
                    (long long)value->offset);
        print_slice_end(print, value);
    } else if (value->op == OP_SCATTER_ADD) {
        print_scatter_dims(print, value);
    } else if (value->op == OP_SHIFT) {
        text_printf(print->out, ", %s, %lld)", print_dim_name(print, value->dim),
                    (long long)value->offset);
    } else if (value->op == OP_ORDER) {
        if (value->dim2 != value->dim)
            text_printf(print->out, ", %s", print_dim_name(print, value->dim2));
        text_printf(print->out, ", dim=%s%s)", print_dim_name(print, value->dim),
                    value->offset ? ", order=descending" : "");
    } else {
        DimId dim = value->op == OP_CONCAT ? value->dim2 : value->dim;
        text_printf(print->out, ", dim=%s)", print_dim_name(print, dim));
    }
}

static void print_row(GraphPrinter *print, const Value *value) {
    text_printf(print->out, "%s(", op_name(value->op));
    print_operand(print, value->args[0], NUMBER_TYPED);
    text_printf(print->out, ", %s=%s)", value->op == OP_CUMSUM ? "dim" : "reduced_dim",
                print_dim_name(print, value->dim));
}

static void print_expression(GraphPrinter *print, const Value *value) {
    switch (op_kind(value->op)) {
    case KIND_LEAF: // a position that is renamed
        print_position(print, value->dim);
        break;
    case KIND_MAP:
        print_map(print, value);
        break;
    case KIND_REDUCE:
        print_reduce(print, value);
        break;
    case KIND_CONTRACT:
        print_contract(print, value);
        break;
    case KIND_ROW:
        print_row(print, value);
        break;
    case KIND_MOVE:
        print_move(print, value);
        break;
    case KIND_SCAN: // a block of its own
        break;
    }
}

// ---- signature, body ---------------------------------------------------------------------------

static void print_signature(GraphPrinter *print) {
    const Graph *graph = print->graph;
    text_printf(print->out, "def %s(", graph->entry);
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *input = graph->inputs.at[i];
        text_printf(print->out, "%s\n        %s%s", i ? "," : "",
                    input->role == ROLE_PARAM ? "param " : "", print->name[input->id]);
        print_dims(print, &input->dims, "[", "]");
        if (input->elem != ELEM_F32)
            text_printf(print->out, ": %s", elem_name(input->elem));
    }
    text_add(print->out, "):\n");
}

void print_statement(GraphPrinter *print, const Value *value) {
    if (print->written[value->id] || print_is_in_scan(print, value))
        return;
    print->written[value->id] = true;
    if (op_kind(value->op) == KIND_SCAN) {
        print_scan(print, value->dim);
        return;
    }
    if (value->op == OP_INPUT || value->op == OP_CARRY || print->is_inline[value->id])
        return;
    for (uint32_t i = 0; i < value->n_args; i++)
        print_argument(print, value->args[i]);
    if (print_is_stack(print, value))
        return;
    if (print->note[value->id])
        text_printf(print->out, "%*s# %s\n", print->indent, "", print->note[value->id]);
    text_printf(print->out, "%*s", print->indent, "");
    print_reference(print, print->name[value->id], &value->dims);
    text_add(print->out, " = ");
    print_expression(print, value);
    text_add(print->out, "\n");
}

// Results that are not the only name of their value get a statement of their own.
static void print_results(GraphPrinter *print) {
    const Graph *graph = print->graph;
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const Output *output = &graph->outputs.at[i];
        Name name = graph_output_source_name(graph, i);
        if (print->name[output->value->id] == name)
            continue;
        text_add(print->out, "    ");
        print_reference(print, name, &output->order);
        text_add(print->out, " = ");
        print_operand(print, output->value, NUMBER_TYPED);
        text_add(print->out, "\n");
    }
    text_add(print->out, "    return ");
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        text_add(print->out, i ? ", " : "");
        print_reference(print, graph_output_source_name(graph, i), &graph->outputs.at[i].order);
    }
    text_add(print->out, "\n");
}

void graph_print_listing(const Graph *graph, const GraphListing *listing, Text *out) {
    Arena *arena = arena_new();
    uint32_t n = graph->values.count;
    GraphPrinter print = {.graph = graph,
                          .arena = arena,
                          .out = out,
                          .live = graph_live(graph, arena),
                          .is_inline = arena_array(arena, bool, n),
                          .written = arena_array(arena, bool, n),
                          .name = arena_array(arena, const char *, n),
                          .note = arena_array(arena, const char *, n),
                          .variable = arena_array(arena, Name, graph->dims.count + 1),
                          .scanned = arena_array(arena, DimId, graph->dims.count + 1),
                          .opened = arena_array(arena, bool, graph->dims.count + 1),
                          .marked = arena_array(arena, bool, graph->dims.count + 1),
                          .root = arena_array(arena, uint32_t, graph->dims.count + 1),
                          .around = arena_array(arena, DimList, n),
                          .indent = 4,
                          .taken = map_new(arena)};
    mark_values(&print);
    print_mark_formulas(&print);
    choose_names(&print);
    print_declarations(&print);
    print_signature(&print);
    for (uint32_t i = 0; listing->notes && i < listing->count; i++)
        print.note[listing->values[i]->id] = listing->notes[i];
    for (uint32_t i = 0; i < listing->count; i++) {
        const Value *value = listing->values[i];
        if (print.live[value->id])
            print_statement(&print, value);
    }
    print_results(&print);
    arena_free(arena);
}

void graph_print(const Graph *graph, Text *out) {
    GraphListing all = {(const Value *const *)graph->values.at, NULL, graph->values.count};
    graph_print_listing(graph, &all, out);
}
