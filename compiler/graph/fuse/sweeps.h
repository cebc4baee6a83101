// SPDX-License-Identifier: Apache-2.0
// What graph_recompute works off in sweeps over a pair of dims: which values (sweeps.c), which
// of them are stored after all (stored.c), and how the graph is written that says so (recompute.c).
#ifndef ATTC_GRAPH_FUSE_SWEEPS_H
#define ATTC_GRAPH_FUSE_SWEEPS_H

#include "graph/fuse/fuse.h"

// Sets of more phases weigh storing against computing again, see stored.c.
enum { FEW_PHASES = 2 };

// What is summed over the rows of a set.
typedef struct {
    double bytes;  // of one part; 0: nothing, or not all can be in parts
    int64_t tasks; // of one part
    int64_t batch; // positions that such a task has, for each of its rows
    int64_t parts; // chosen; 0: in turn or in another sweep
    bool in_turn;
    int64_t small; // of shifted sums: they are short, and for each row they would be quadratic
} RowSums;

// x: rows; y: streamed.
typedef struct {
    DimId x, y;
    bool *wide;       // by value id: over both, and made of a contraction that is
    uint32_t *set;    // by value id: the first of the wide values that it leads to or comes from
    uint32_t *end;    // by set: behind its members and the last value that reads one
    ValueList *of;    // by set: its members and the live values that read one, in order of id
    bool *twice;      // by set: its values are needed for more than what is reduced over y
    RowSums *sums;    // by set
    DimList *kept;    // by value id, of a sum in parts: dims of tasks that each part has besides
    uint32_t *phases; // by set: in how many it is computed
    uint32_t *phase;  // by value id, of what is computed in a sweep: how many come before it
    bool *stored;     // by value id: other sweeps read it instead of computing it again
} SweptPair;

typedef VEC(SweptPair) SweptPairs;

// A wide value as it is read, itself or under other names.
typedef struct {
    const Value *value; // NULL: the argument is none
    DimId x, y;         // what the pair is called
} WideRead;

// sweep_reads.c: how the wide values of pairs are read.
WideRead sweeps_read(const SweptPair *pair, const Value *arg);
// What the wide values that a value reads are called, all of them; value NULL: none, in several
// ways, or of sets that are computed once.
WideRead sweeps_reads_twice(const SweptPair *pair, const Value *value);
bool sweeps_is_sum(const Value *value);
// What the wide values of the set that a value reads are called, the first of them.
WideRead sweeps_reads_set(const SweptPair *pair, const Value *value, uint32_t set);
// Is the value one of the set's wide values, or reduced from them?
bool sweeps_is_of_set(const SweptPair *pair, const Value *value, uint32_t set);

// sweeps.c: pairs with sets that are needed for more than what is reduced over y, the best first.
// saves: no memory for parts of sums.
SweptPairs sweeps_find(const Graph *graph, const int64_t *extents, const Machine *machine,
                       bool saves, Arena *arena);

// row_sums.c: what tasks add up over the rows. saves: no memory for parts of sums.
void sweeps_choose_sums(SweptPairs *pairs, const Graph *graph, const int64_t *extents,
                        int64_t threads, bool saves, Arena *arena);
// In how many parts of x a sweep over it adds up the value; 0: it does not.
int64_t sweeps_parts(const SweptPair *pair, const Value *value, WideRead read);
// Do the tasks of a sweep over x add up the value in turn?
bool sweeps_in_turn(const SweptPair *pair, const Value *value, WideRead read);

// stored.c: what sweeps store for later ones.
void sweeps_choose_stored(SweptPairs *pairs, const Graph *graph, const int64_t *extents,
                          const Machine *machine, double wide_price, Arena *arena);

#endif
