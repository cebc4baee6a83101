// SPDX-License-Identifier: Apache-2.0
// What the files of the tile verifier share: where in the tree it is, and what happened before.
#ifndef ATTC_TILE_VERIFY_H
#define ATTC_TILE_VERIFY_H

#include "tile/tile.h"

enum { AROUND_MAX = 64 };
// What has combined into a buffer without an initial value.
typedef struct {
    bool any;
    SinkMode mode;
    const Node *part; // the range of known ends in which it did, of what is combined over; or NULL
} Combined;
typedef struct {
    const Kernel *kernel;
    Text *why;
    // Loops and ranges around the current node, outermost first; the first are the parallel ones.
    const Node *around[AROUND_MAX];
    uint32_t n_around, n_parallel;
    // Per buffer: how many nodes were around where it was made; -1: not yet, -2: no more. Arguments
    // are made inside the parallel loops.
    int *scope;
    bool *stored;         // per buffer: a stage before this one stores to it
    Combined *combined;   // per buffer: by a stage before this one
    const Node **ordered; // per buffer: the ordered loop in which tasks add to it
    uint32_t n_ordered;   // such loops so far
    bool counts_on_rows;  // that each task has a position of the innermost parallel dim
} Checker;

// ---- verify_checker.c ----
// Notes why the kernel is broken; false.
bool verify_broken(Checker *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *verify_dim_name(const Checker *c, TileDimId dim);
// Has dim at least one position here? Not directly inside a range of it.
bool verify_nonempty(Checker *c, TileDimId dim);
// How many nodes were around where the buffer was made.
uint32_t verify_made(const Checker *c, uint16_t buffer);

// ---- verify_races.c ----
// What is stored to or loaded from an argument must not meet what another task stores.
bool verify_races(Checker *c, const Access *access);

// ---- verify_stage.c ----
// Is there something to read in the buffer of an access, as far as the order of the tree shows?
bool verify_is_filled(Checker *c, const Access *access);
bool verify_stage(Checker *c, const Stage *stage);

#endif
