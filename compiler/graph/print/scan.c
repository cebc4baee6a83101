// SPDX-License-Identifier: Apache-2.0
// A scan as a block of the language.
//
//     S[d] = first[d]                         carries with their first values
//     scan t in n:
//         U[d] = S[d] * G[t, d]               what is over t, without it
//         Y[t] = sum(U[d], ...)               ends: stacks; a LAST is the carry's name after it
//         S[d] = U[d]                         updates, when all that reads S is written
//
// What no carry is needed for is over t as well, and leaves the body by a rename of t: in the text
// it is written at each position like a stack.
#include <string.h>

#include "graph/print/print.h"

bool print_is_scan(const GraphPrinter *print, DimId dim) {
    return print->graph->dims.at[dim].scan;
}

DimList print_visible(const GraphPrinter *print, const DimList *dims) {
    DimList visible = {0};
    for (uint32_t i = 0; i < dims->count; i++)
        if (!dims_has(&print->open, dims->at[i]))
            dims_add(&visible, dims->at[i]);
    return visible;
}

bool print_is_in_scan(const GraphPrinter *print, const Value *value) {
    return !dims_subset(&print->around[value->id], &print->open);
}

static bool is_end(const GraphPrinter *print, uint32_t v, DimId dim) {
    const Value *value = print->graph->values.at[v];
    return print->live[v] && op_kind(value->op) == KIND_SCAN && value->dim == dim;
}

// Carries have names, also those whose steps nothing reads, and what is left of them has the same.
void print_choose_scan_names(GraphPrinter *print, uint32_t *unnamed) {
    const Graph *graph = print->graph;
    for (uint32_t d = 0; d < graph->dims.count; d++) {
        if (!print_is_scan(print, (DimId)d))
            continue;
        Name name = graph->dims.at[d].name;
        name = names_intern(graph->session->names, name, strcspn(name, "."));
        print->variable[d] = print_unique_name(print, name, unnamed);
    }
    for (uint32_t v = 0; v < graph->values.count; v++) {
        const Value *end = graph->values.at[v];
        for (uint32_t i = 0; is_end(print, v, end->dim) && i < graph_scan_carries(end); i++) {
            const Value *carry = graph_scan_carry(end, i).carry;
            if (!print->name[carry->id])
                print->name[carry->id] = print_unique_name(print, carry->hint, unnamed);
        }
        if (print->live[v] && end->op == OP_LAST)
            print->name[v] = print->name[graph_scan_carry(end, 0).carry->id];
    }
}

// ---- the block ----------------------------------------------------------------------------------

static ScanCarries find_carries(const GraphPrinter *print, DimId dim) {
    ScanCarries carries = {0};
    for (uint32_t v = 0; v < print->graph->values.count; v++) {
        const Value *end = print->graph->values.at[v];
        for (uint32_t i = 0; is_end(print, v, dim) && i < graph_scan_carries(end); i++) {
            ScanCarry c = graph_scan_carry(end, i);
            uint32_t at = 0;
            while (at < carries.count && carries.at[at].carry->offset < c.carry->offset)
                at++;
            if (at < carries.count && carries.at[at].carry == c.carry)
                continue;
            vec_push(print->arena, &carries, c);
            for (uint32_t k = carries.count - 1; k > at; k--)
                carries.at[k] = carries.at[k - 1];
            carries.at[at] = c;
        }
    }
    return carries;
}

static void print_line_begin(GraphPrinter *print) {
    text_printf(print->out, "%*s", print->indent, "");
}

static void print_carry(GraphPrinter *print, const Value *carry, const Value *value) {
    DimList dims = dims_minus(&carry->dims, &(DimList){1, {carry->dim}});
    print_line_begin(print);
    print_reference(print, print->name[carry->id], &dims);
    text_add(print->out, " = ");
    print_operand(print, value, NUMBER_TYPED);
    text_add(print->out, "\n");
}

void print_note(GraphPrinter *print, const Value *value) {
    if (print->note[value->id])
        text_printf(print->out, "%*s# %s\n", print->indent, "", print->note[value->id]);
    print->note[value->id] = NULL;
}

static bool is_inside(const GraphPrinter *print, uint32_t v, DimId dim) {
    return print->live[v] && dims_has(&print->around[v], dim);
}

// What the block reads from outside comes before it.
static void print_outside(GraphPrinter *print, DimId dim) {
    const Graph *graph = print->graph;
    for (uint32_t v = 0; v < graph->values.count; v++) {
        const Value *value = graph->values.at[v];
        if (!is_inside(print, v, dim) && !is_end(print, v, dim))
            continue;
        for (uint32_t i = 0; i < value->n_args; i++)
            if (!dims_has(&print->around[value->args[i]->id], dim))
                print_argument(print, value->args[i]);
    }
}

// An update that is what another carry was before the step is kept under a name of its own: by
// carry, that name or NULL.
static const char **save_exchanged(GraphPrinter *print, const ScanCarries *carries) {
    const char **kept = arena_array(print->arena, const char *, carries->count + 1);
    for (uint32_t i = 0; i < carries->count; i++) {
        const Value *update = carries->at[i].update, *own = carries->at[i].carry;
        if (update->op != OP_CARRY || update->dim != own->dim || update == own)
            continue;
        uint32_t unnamed = 0;
        kept[i] = print_unique_name(print, print->name[update->id], &unnamed);
        DimList dims = print_visible(print, &update->dims);
        print_line_begin(print);
        print_reference(print, kept[i], &dims);
        text_printf(print->out, " = %s\n", print->name[update->id]);
    }
    return kept;
}

static void print_updates(GraphPrinter *print, const ScanCarries *carries, const char **kept) {
    for (uint32_t i = 0; i < carries->count; i++) {
        const Value *update = carries->at[i].update;
        const char *own = print->name[update->id];
        print->name[update->id] = kept[i] ? kept[i] : own;
        print_carry(print, carries->at[i].carry, update);
        print->name[update->id] = own;
    }
}

static void print_stack(GraphPrinter *print, const Value *stack) {
    const Graph *graph = print->graph;
    DimList dims = print_visible(print, &stack->dims);
    print_statement(print, stack->args[0]);
    print_note(print, stack);
    print_line_begin(print);
    text_printf(print->out, "%s[", print->name[stack->id]);
    for (uint32_t i = 0; i < dims.count; i++)
        text_printf(print->out, "%s%s", i ? ", " : "",
                    dims.at[i] == stack->dim2 ? print->variable[stack->dim]
                                              : graph->dims.at[dims.at[i]].name);
    text_add(print->out, "] = ");
    print_operand(print, stack->args[0], NUMBER_TYPED);
    text_add(print->out, "\n");
}

static void print_body(GraphPrinter *print, DimId dim) {
    const Graph *graph = print->graph;
    for (uint32_t v = 0; v < graph->values.count; v++) {
        if (is_inside(print, v, dim))
            print_statement(print, graph->values.at[v]);
        if (!is_end(print, v, dim))
            continue;
        print->written[v] = true;
        if (graph->values.at[v]->op == OP_STACK)
            print_stack(print, graph->values.at[v]);
    }
    for (uint32_t v = 0; v < graph->values.count; v++)
        if (is_inside(print, v, dim)) // of scans inside that nothing of this one reads
            print_argument(print, graph->values.at[v]);
    print_leavings(print, dim);
}

void print_argument(GraphPrinter *print, const Value *value) {
    DimList closed = dims_minus(&print->around[value->id], &print->open);
    DimId outer = DIM_NONE;
    for (uint32_t i = 0; i < closed.count; i++)
        outer = outer == DIM_NONE || closed.at[i] < outer ? closed.at[i] : outer;
    if (outer == DIM_NONE)
        print_statement(print, value);
    else
        print_scan(print, outer);
}

void print_scan(GraphPrinter *print, DimId dim) {
    if (print->opened[dim])
        return;
    print->opened[dim] = true;
    ScanCarries carries = find_carries(print, dim);
    print_outside(print, dim);
    for (uint32_t i = 0; i < carries.count; i++) {
        print_note(print, carries.at[i].carry);
        print_carry(print, carries.at[i].carry, carries.at[i].first);
    }
    print_line_begin(print);
    text_printf(print->out, "scan %s in %s%s:\n", print->variable[dim],
                print->graph->dims.at[print->scanned[dim]].name,
                print->graph->dims.at[dim].reversed ? " reversed" : "");
    DimList around = print->open;
    print->indent += 4;
    dims_add(&print->open, dim);
    const char **kept = save_exchanged(print, &carries);
    print_body(print, dim);
    print_updates(print, &carries, kept);
    print->indent -= 4;
    print->open = around;
}
