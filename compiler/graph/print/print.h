// SPDX-License-Identifier: Apache-2.0
// Between the files of the graph's printer only.
#ifndef ATTC_GRAPH_PRINT_H
#define ATTC_GRAPH_PRINT_H

#include "graph/graph.h"

typedef struct {
    const Graph *graph;
    Arena *arena;
    Text *out;
    bool *live;        // by value id
    bool *is_inline;   // by value id: written where it is used
    bool *written;     // by value id
    VEC(DimId) dims;   // in order of appearance, so that the text prints the same again
    const char **name; // by value id
    const char **note; // by value id: a comment line before it, or NULL
    Name *variable;    // by DimId, of scans
    Map *taken;        // names in use, by their interned pointer: the last number added to them
    int indent;
    DimList open; // of the scans around
} GraphPrinter;

// ---- print.c ----
// How a number is written: plain between operators, plain between commas, or, where nothing else in
// the expression says which elem it has, with its type.
typedef enum { NUMBER_BESIDE, NUMBER_PLAIN, NUMBER_TYPED } NumberForm;
Name print_unique_name(GraphPrinter *print, Name hint, uint32_t *unnamed);
void print_operand(GraphPrinter *print, const Value *value, NumberForm form);
// A name with its dims; numbers go without brackets.
void print_reference(GraphPrinter *print, const char *name, const DimList *dims);
void print_statement(GraphPrinter *print, const Value *value); // once, and what it needs before

// ---- scan.c ----
// Dims as the text knows them: those of the scans around are left out.
DimList print_visible(const GraphPrinter *print, const DimList *dims);
bool print_is_in_scan(const GraphPrinter *print, const Value *value); // one that is not open
void print_choose_scan_names(GraphPrinter *print, uint32_t *unnamed);
void print_scan(GraphPrinter *print, const Value *end); // the block that a STACK or LAST ends

#endif
