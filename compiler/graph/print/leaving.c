// SPDX-License-Identifier: Apache-2.0
// What leaves a scan beside its ends: values of the body that need no carry.
//
//     R = sum(X[t, d])                      over t; outside Y = R with t renamed to n
//
// In the text the body writes such a value at each position, `Y[t] = R`, like a stack, and the
// graph that is built of the text has the rename again. Where the only renames say more than that,
// what is written has a name of its own.
#include "graph/print/print.h"

// The dims of scans that an argument has and the value has not.
static DimList left_by(const GraphPrinter *print, const Value *value, const Value *arg) {
    DimList left = {0};
    for (uint32_t i = 0; i < arg->dims.count; i++) {
        DimId dim = arg->dims.at[i];
        bool ends = op_kind(value->op) == KIND_SCAN && value->dim == dim;
        if (print_is_scan(print, dim) && !ends && !dims_has(&value->dims, dim))
            dims_add(&left, dim);
    }
    return left;
}

// By DimId: the scans that a scan is inside of, of what some value of its body is over.
static DimList *find_nesting(const GraphPrinter *print) {
    const Graph *graph = print->graph;
    DimList *outer = arena_array(print->arena, DimList, graph->dims.count + 1);
    for (uint32_t v = 0; v < graph->values.count; v++) {
        const DimList *dims = &graph->values.at[v]->dims;
        for (uint32_t i = 0; print->live[v] && i < dims->count; i++)
            for (uint32_t k = 0; k < dims->count; k++)
                if (print_is_scan(print, dims->at[i]) && print_is_scan(print, dims->at[k]) &&
                    dims->at[k] < dims->at[i]) // outer scans have the smaller ids
                    dims_add(&outer[dims->at[i]], dims->at[k]);
    }
    return outer;
}

// A value belongs into the body of a scan that it is over, of those around that, and of those whose
// bodies have what it is made of.
static void find_around(GraphPrinter *print) {
    const Graph *graph = print->graph;
    const DimList *outer = find_nesting(print);
    for (uint32_t v = 0; v < graph->values.count; v++) {
        const Value *value = graph->values.at[v];
        DimList around = {0}, left = {0};
        if (op_kind(value->op) == KIND_SCAN) {
            dims_add(&left, value->dim);
            around = outer[value->dim];
        }
        for (uint32_t i = 0; i < value->dims.count; i++)
            if (print_is_scan(print, value->dims.at[i])) {
                around = dims_union(&around, &outer[value->dims.at[i]]);
                dims_add(&around, value->dims.at[i]);
            }
        for (uint32_t k = 0; k < value->n_args; k++) {
            DimList by = left_by(print, value, value->args[k]);
            left = dims_union(&left, &by);
            around = dims_union(&around, &print->around[value->args[k]->id]);
        }
        print->around[v] = dims_minus(&around, &left);
    }
}

// Would a dim stand twice in what a scan's body writes, or in what is left of a scan?
static bool is_taken(const GraphPrinter *print, DimId scan, DimId dim) {
    for (uint32_t i = 0; i < print->leaving.count; i++) {
        const Leaving *leaving = &print->leaving.at[i];
        bool taken = dims_has(&leaving->value->dims, dim);
        for (uint32_t k = 0; k < leaving->scans.count; k++)
            taken = taken ||
                    (leaving->scans.at[k] != scan && print->scanned[leaving->scans.at[k]] == dim);
        if (taken && dims_has(&leaving->scans, scan))
            return true;
    }
    return false;
}

static void offer_scanned(GraphPrinter *print, DimId scan, DimId dim) {
    if (print_is_scan(print, scan) && !print_is_scan(print, dim) &&
        print->scanned[scan] == DIM_NONE && !is_taken(print, scan, dim))
        print->scanned[scan] = dim;
}

// What ends say that their scan runs over; where there are none, what leaves it; else any dim that
// is alike.
static void find_scanned(GraphPrinter *print) {
    const Graph *graph = print->graph;
    for (uint32_t d = 0; d < graph->dims.count; d++)
        print->scanned[d] = DIM_NONE;
    for (uint32_t v = 0; v < graph->values.count; v++)
        if (print->live[v] && graph->values.at[v]->op == OP_STACK)
            print->scanned[graph->values.at[v]->dim] = graph->values.at[v]->dim2;
    for (uint32_t v = 0; v < graph->values.count; v++) {
        const DimMap *renames = graph->values.at[v]->renames;
        for (uint32_t i = 0; print->live[v] && renames && i < renames->count; i++)
            offer_scanned(print, renames->from[i], renames->to[i]);
    }
    for (uint32_t d = 0; d < graph->dims.count; d++) {
        for (uint32_t i = 0; print_is_scan(print, (DimId)d) && i < print->dims.count; i++)
            if (graph_dims_alike(graph, print->dims.at[i], (DimId)d))
                offer_scanned(print, (DimId)d, print->dims.at[i]);
        if (print->scanned[d] == DIM_NONE)
            print->scanned[d] = graph->dims.at[d].like;
    }
}

static bool is_stack_of(const GraphPrinter *print, const Value *value, const DimList *left) {
    bool stacks = value->op == OP_RENAME && value->renames->count == left->count;
    for (uint32_t i = 0; stacks && i < left->count; i++) {
        DimId from = value->renames->from[i];
        stacks = dims_has(left, from) && value->renames->to[i] == print->scanned[from];
    }
    return stacks;
}

static Leaving *find_leaving(const GraphPrinter *print, const Value *value, const DimList *left) {
    for (uint32_t i = 0; i < print->leaving.count; i++) {
        Leaving *leaving = &print->leaving.at[i];
        if (leaving->value == value && dims_equal(&leaving->scans, left))
            return leaving;
    }
    return NULL;
}

static void note_leaving(GraphPrinter *print, const Value *value, const Value *arg) {
    DimList left = left_by(print, value, arg);
    if (!left.count || find_leaving(print, arg, &left))
        return;
    print->is_inline[arg->id] = false;
    vec_push(print->arena, &print->leaving, (Leaving){.value = arg, .scans = left});
}

static void note_stack(GraphPrinter *print, const Value *value) {
    DimList left = left_by(print, value, value->args[0]);
    Leaving *leaving = left.count ? find_leaving(print, value->args[0], &left) : NULL;
    if (leaving && !leaving->stack && is_stack_of(print, value, &left))
        leaving->stack = value;
}

void print_find_leaving(GraphPrinter *print) {
    const Graph *graph = print->graph;
    for (uint32_t v = 0; v < graph->values.count; v++)
        for (uint32_t k = 0; print->live[v] && k < graph->values.at[v]->n_args; k++)
            note_leaving(print, graph->values.at[v], graph->values.at[v]->args[k]);
    find_scanned(print);
    find_around(print);
    for (uint32_t v = 0; v < graph->values.count; v++)
        if (print->live[v] && graph->values.at[v]->op == OP_RENAME)
            note_stack(print, graph->values.at[v]);
}

bool print_is_stack(const GraphPrinter *print, const Value *value) {
    for (uint32_t i = 0; i < print->leaving.count; i++)
        if (print->leaving.at[i].stack == value)
            return true;
    return false;
}

static const Leaving *leaving_here(const GraphPrinter *print, const Value *value) {
    DimList left = {0};
    for (uint32_t i = 0; i < value->dims.count; i++)
        if (print_is_scan(print, value->dims.at[i]) && !dims_has(&print->open, value->dims.at[i]))
            dims_add(&left, value->dims.at[i]);
    return left.count ? find_leaving(print, value, &left) : NULL;
}

const char *print_name_here(const GraphPrinter *print, const Value *value) {
    const Leaving *leaving = leaving_here(print, value);
    return leaving ? leaving->name : print->name[value->id];
}

DimId print_dim_here(const GraphPrinter *print, DimId dim) {
    return print_is_scan(print, dim) && !dims_has(&print->open, dim) ? print->scanned[dim] : dim;
}

void print_choose_leaving_names(GraphPrinter *print, uint32_t *unnamed) {
    for (uint32_t i = 0; i < print->leaving.count; i++) {
        Leaving *leaving = &print->leaving.at[i];
        Name hint = names_find(print->graph->session->names, print->name[leaving->value->id]);
        leaving->name = leaving->stack ? print->name[leaving->stack->id]
                                       : print_unique_name(print, hint, unnamed);
    }
}

// ---- the statements in a body -------------------------------------------------------------------

static bool is_last_of(const DimList *dims, DimId dim) {
    for (uint32_t i = 0; i < dims->count; i++)
        if (dims->at[i] > dim) // of scans inside of others the ids are larger
            return false;
    return dims_has(dims, dim);
}

static void print_leaving(GraphPrinter *print, const Leaving *leaving) {
    const Value *value = leaving->value;
    bool begun = false;
    if (leaving->stack)
        print_note(print, leaving->stack);
    text_printf(print->out, "%*s", print->indent, "");
    text_add(print->out, leaving->name);
    DimMap back = {0};
    for (uint32_t i = 0; i < leaving->scans.count; i++)
        dimmap_add(&back, print->scanned[leaving->scans.at[i]], leaving->scans.at[i]);
    DimList dims = leaving->stack ? dims_renamed(&leaving->stack->dims, &back) : value->dims;
    for (uint32_t i = 0; i < dims.count; i++) {
        DimId dim = dims.at[i];
        if (print_is_scan(print, dim) && !dims_has(&leaving->scans, dim))
            continue;
        text_printf(print->out, "%s%s", begun ? ", " : "[",
                    print_is_scan(print, dim) ? print->variable[dim]
                                              : print->graph->dims.at[dim].name);
        begun = true;
    }
    text_add(print->out, "] = ");
    print_operand(print, value, NUMBER_TYPED);
    text_add(print->out, "\n");
}

void print_leavings(GraphPrinter *print, DimId dim) {
    for (uint32_t i = 0; i < print->leaving.count; i++)
        if (is_last_of(&print->leaving.at[i].scans, dim))
            print_leaving(print, &print->leaving.at[i]);
}
