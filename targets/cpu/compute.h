// SPDX-License-Identifier: Apache-2.0
// Compute stages, shared by the files that emit them: the loop nest and what is alive in it.
#ifndef ATTC_CPU_COMPUTE_H
#define ATTC_CPU_COMPUTE_H

#include "cpu/cpu.h"

enum { UNROLL_MAX = 8 };
// BLOCKS: of as many positions as a vector has lanes; those of one come inside the loop over the
// lanes.
typedef enum { LEVEL_SCALAR, LEVEL_LANES, LEVEL_PANELS, LEVEL_BLOCKS } LevelKind;
typedef struct {
    LevelKind kind;
    TileDimId dim;
} Level;
typedef enum { SETTLES_NOT, SETTLES_TRUE, SETTLES_FALSE } Settles;
typedef struct {
    int depth; // loops that must be open: 0 is outside of all
    bool varies;
    Settles settles;    // to what, in the inner part of the lanes loop
    bool crosses;       // a load across the lanes:
    LLVMValueRef block; // where its blocks are
    EmitValue value[UNROLL_MAX];
    CpuAccess access;
} TermState;
typedef struct {
    int suffix; // first level of the innermost loops that are all reduced; n_levels: none
    bool reduces_lanes;
    bool varies; // sums are vectors
    CpuAccess to;
    EmitValue sum[UNROLL_MAX];   // while inside the suffix
    bool is_long;                // a sum of many floats: now and then the sums go
    EmitValue total[UNROLL_MAX]; // into these, in double: one for all lanes that are summed
} SinkState;
typedef struct {
    CpuKernel *k;
    EmitModule *m;
    const Stage *stage;
    Level level[TILE_RANK_MAX + 1];
    int n_levels, lanes_level;
    int width;               // lanes of a vector; 1 without lanes
    int unroll;              // vectors alive in the main part
    int panel_width;         // with LEVEL_PANELS
    int panels_at_once;      // of whole ones
    bool panels_even;        // they are a multiple of that
    LLVMValueRef panels_end; // where they end
    CpuRange panels;         // now: those that are filled side by side
    bool pads;               // the last panel is filled up with zeros on the way
    int vectors;             // now: `unroll`, or 1 outside of the lanes loop's main part
    LLVMValueRef mask;       // now: lanes that exist; NULL: all
    bool store_all;          // now: masked lanes are stored as zeros (padding),
    LLVMValueRef room;       // except those behind the panel; NULL: none are
    bool splits;             // the lanes loop has an inner part where masks are settled,
    bool settled;            // now: in it
    CpuRange lanes;          // range of the lanes dim, or of it within the panel
    LLVMValueRef left;       // now: lanes from here to the end; NULL: enough for all vectors
    TileDimId crossed;       // the dim of LEVEL_BLOCKS; TILE_DIM_NONE: there is none
    CpuRange positions;      // now: the block of it
    bool partial;            // now: in the last panel, which is not full
    int long_level;     // the outermost one inside which there are long sums; n_levels: none are
    LLVMValueRef turns; // now: of the innermost loop since their sums went into the totals
    TermState *terms;
    SinkState *sinks;
    bool *varies;      // per term
    EmitValue *values; // per term, for the vector at hand
} Compute;

// ---- compute_prepare.c: levels, depths of terms, suffixes of sinks ----
void compute_prepare(Compute *compute, CpuKernel *kernel, const Stage *stage);
int compute_level_of(const Compute *compute, TileDimId dim); // -1: not of the box

// ---- compute_crossed.c: loads across the lanes ----
bool compute_crosses(const Compute *compute, const CpuAccess *access);
// What the positions of the block have at the vectors at hand. Requires: the lanes were entered,
// the crossed dim was not.
void compute_fill_blocks(Compute *compute);
// The value of such a load for vector u at the position entered.
EmitValue compute_from_block(Compute *compute, const Term *term, const TermState *state, int u);

// ---- compute_settled.c: masks that have one value along many lanes ----
// Marks the terms that settle. Requires: levels, depths and what varies.
void compute_find_settled(Compute *compute);
// Narrows [first, end) to the positions where all that settle have their value.
void compute_settled_part(Compute *compute, LLVMValueRef *first, LLVMValueRef *end);

// ---- compute_terms.c: the scalar program ----
// Evaluates the terms that need exactly `depth` loops.
void compute_terms(Compute *compute, int depth);
// The value of a term for vector u, as wide as the lanes if `wide`.
EmitValue compute_term_value(Compute *compute, int32_t term, int u, bool wide);

// ---- compute_sinks.c: stores and sums ----
void compute_begin_sums(Compute *compute, int level);
void compute_end_sums(Compute *compute, int level);
void compute_point(Compute *compute); // all sinks, at a point of the innermost loop
// What a sink has summed so far as one value of vector u, its element type and all its lanes.
EmitValue compute_fold_sums(Compute *compute, uint32_t sink, int level, int u);
int compute_n_sums(const Compute *compute, const SinkState *state, int level);
// Zeros behind the end of the panels that were stored to, if the stage reached it.
void compute_pad(Compute *compute);
// What a loop at `level` carries, sums and totals in a fixed order: into refs, or with `set` from
// refs.
enum { COMPUTE_SUMS_MAX = 128 };
uint32_t compute_carried(Compute *compute, int level, LLVMValueRef *refs, bool set);

// ---- compute_long.c: sums of many floats ----
enum { LONG_TURNS = 32 }; // of the innermost loop, as many as their sums grow for
// Which sums are long. Requires: levels, the vectors alive, and suffixes.
void compute_find_long(Compute *compute);
int compute_n_totals(const Compute *compute, const SinkState *state, int level);
// Code that moves the sums into the totals, where they have grown for LONG_TURNS.
void compute_move_sums(Compute *compute, int level);
void compute_count_turns(Compute *compute, int level, int64_t turns); // of the loop at `level`
// The sum of sink number `sink` for vector u, all that it summed: of its element type.
EmitValue compute_whole_sum(Compute *compute, uint32_t sink, int level, int u);

#endif
