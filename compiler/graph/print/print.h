// SPDX-License-Identifier: Apache-2.0
// Between the files of the graph's printer only.
#ifndef ATTC_GRAPH_PRINT_H
#define ATTC_GRAPH_PRINT_H

#include "graph/graph.h"

// A value of a scan's body that is read outside of the scan and depends on nothing that the scan
// carries: the body writes it at each position.
typedef struct {
    const Value *value;
    DimList scans;      // of its dims, those that are left
    const Value *stack; // renames these to what their scans run over and nothing else; or NULL
    const char *name;   // of what is written
} Leaving;

typedef struct {
    const Graph *graph;
    Arena *arena;
    Text *out;
    bool *live;              // by value id
    bool *is_inline;         // by value id: written where it is used
    bool *written;           // by value id
    VEC(DimId) dims;         // in order of appearance, so that the text prints the same again
    bool *marked;            // by DimId: it is among dims
    uint32_t *root;          // by DimId of a class: 1 + its first place in dims; 0: it has none
    const Formula **formula; // by DimId of a class: computes it; NULL: none does
    const char **name;       // by value id
    const char **note;       // by value id: a comment line before it, or NULL
    Name *variable;          // by DimId, of scans
    DimId *scanned;          // by DimId, of scans: what they run over
    bool *opened;            // by DimId, of scans: written, or begun
    DimList *around;         // by value id: the scans in whose bodies it is written
    VEC(Leaving) leaving;
    Map *taken; // names in use, by their interned pointer: the last number added to them
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

Name print_dim_name(const GraphPrinter *print, DimId dim); // in the text

// ---- dims.c ----
const Formula *print_formula(const GraphPrinter *print, DimId dim); // that computes it, or NULL
void print_mark_dim(GraphPrinter *print, DimId dim);
void print_mark_formulas(GraphPrinter *print); // the dims that those marked are computed from
Name print_declared_name(const GraphPrinter *print, DimId dim); // n for n', also if n is none
void print_declarations(GraphPrinter *print);

// ---- rename.c ----
void print_rename(GraphPrinter *print, const Value *value);

// ---- scan.c ----
// Dims as the text knows them: those of the scans around are left out.
DimList print_visible(const GraphPrinter *print, const DimList *dims);
bool print_is_scan(const GraphPrinter *print, DimId dim);
bool print_is_in_scan(const GraphPrinter *print, const Value *value); // one that is not open
void print_choose_scan_names(GraphPrinter *print, uint32_t *unnamed);
void print_scan(GraphPrinter *print, DimId dim);              // its block, once
void print_argument(GraphPrinter *print, const Value *value); // what a statement needs first
void print_note(GraphPrinter *print, const Value *value);

// ---- leaving.c ----
void print_find_leaving(GraphPrinter *print);
void print_choose_leaving_names(GraphPrinter *print, uint32_t *unnamed); // requires: all others
bool print_is_stack(const GraphPrinter *print, const Value *value);      // written in a body
void print_leavings(GraphPrinter *print, DimId dim);                     // in the body of that scan
const char *print_name_here(const GraphPrinter *print, const Value *value);
DimId print_dim_here(const GraphPrinter *print,
                     DimId dim); // of a scan that ended: what it ran over

#endif
