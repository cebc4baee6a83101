// SPDX-License-Identifier: Apache-2.0
// A nest: some values of a group on their way to stages, in one place of the tree. rows.c and
// stream.c say which values and where; members.c finds levels, stages, what is stored and how,
// roles.c how a contraction runs, nest.c makes the nodes.
//
// The level of a value is the number of reductions on the longest path to it, contractions
// included. What is stored and has the same level and the same dims is stored by one stage; every
// contraction is a stage of its own. Stages run by level.
#ifndef ATTC_TILE_LOWER_NEST_H
#define ATTC_TILE_LOWER_NEST_H

#include "tile/lower/lower.h"

enum { NO_STAGE = 0xFFFFFFFF, MANY_STAGES = 0xFFFFFFFE };

// How a contraction stage works: c[rows, lanes] += a[rows, k] * b[k, lanes], with summed lanes
// c[rows, cols] += a[rows, lanes] * b[cols, lanes] (without cols: dot products), or with lanes that
// are among the batch dims c[rows, cols, lanes] += a[rows, k, lanes] * b[k, cols, lanes].
typedef struct {
    const Value *a, *b;
    DimSet batch, own_a, own_b, summed;
    TileDimId rows, cols; // of own_a (or NONE); of own_b (or NONE)
    TileDimId lanes;      // of own_b, summed (roles_sum_lanes) or batch (roles_share_lanes)
} ContractRoles;

static inline bool roles_sum_lanes(const ContractRoles *roles) {
    return set_has(roles->summed, roles->lanes);
}

// Of rows with one vector.
static inline bool roles_are_dots(const ContractRoles *roles) {
    return roles_sum_lanes(roles) && roles->cols == TILE_DIM_NONE;
}

static inline bool roles_share_lanes(const ContractRoles *roles) {
    return set_has(roles->batch, roles->lanes);
}

typedef struct {
    Value *value;
    uint32_t level; // of the stage that computes it; a reduction is there for the next level
    DimSet box;     // of the stage that computes it
    double cost;    // of computing it again at one point, from what is stored
    bool reduces, stored, wanted;
    bool is_operand;           // of a contraction stage
    bool contracts;            // by a contraction stage
    const ShiftedSum *shifted; // by a stage of its own; NULL: it is none
    bool needed_wider;         // by a stage with dims that this value lacks
    uint32_t needed_by;        // stage, NO_STAGE or MANY_STAGES
    uint32_t stage;
    uint32_t first_run, last_run; // of the row loops that touch it
    uint32_t last_stage;          // in running order: the last that reads it
    TileDimId last;               // its contiguous dim when it lies in scratch,
    DimSet outer;                 // and those outside of all others,
    bool placed;                  // which a contraction has told
    int home;                     // made ahead of its run, or NO_BUFFER
    ContractRoles roles;
    StageBlocks blocks; // of the contraction stage, from nest_emit on
} Member;

// A value that goes on from piece to piece of the streamed loop, in memory that begins with the
// neutral element. When `shift`, a running maximum that the elements are relative to, has moved,
// what was summed so far is multiplied with base**(shift before - shift now).
typedef struct {
    Value *value;
    uint16_t buffer;
    Value *shift; // NULL: none
    Op power;     // OP_EXP or OP_EXP2
} Carry;
typedef VEC(Carry) CarryList;

// A compute stage, one contraction, or the rescaling of carries whose shift has moved.
typedef enum { NEST_RESCALE, NEST_COMPUTE, NEST_CONTRACT } NestStageKind;
typedef struct {
    NestStageKind kind;
    uint32_t level;
    DimSet box;
    Member *contraction; // CONTRACT
    Value *shift;        // RESCALE
    bool sums;           // COMPUTE, where sums are apart: it reduces
    bool by_rows;        // may run row by row
    uint32_t run;
} NestStage;

typedef struct {
    Lowering *lower;
    ValueList wanted;    // to be stored where lower_designate says, or in scratch
    bool plain;          // without contraction stages: contractions are sums of products
    bool dots;           // but for dot products of arguments with one vector
    bool sums_apart;     // in stages of their own: sums stay in registers, as nothing is stored
    DimSet rows;         // dims of the task's rows
    TileDimId block_dim; // rows are worked off in blocks along this dim,
    int64_t block;       // of so many; 0: as many as keep their values in L1
    int64_t steps[64];   // of the parallel loops, per row dim
    DimSet streamed;     // the dim in pieces around this nest, or none,
    int64_t piece;       // and how long they are
    DimSet narrowed;     // dims whose range may be empty: sums over them begin with a number
    TileDimList order;   // of dims in scratch and boxes, outermost first
    TileDimId lanes;     // of compute stages that have it
    CarryList carries;   // among the wanted values, when the nest is inside the loop over pieces
    // members.c:
    VEC(Member) members; // in order of id
    Map *place;          // value id + 1 -> Member
    VEC(NestStage) stages;
    uint32_t *sequence; // stages in the order in which they run
} Nest;

// ---- members.c ----
// Fills in members, stages and their order. Requires everything above them.
void nest_analyse(Nest *nest);

// ---- roles.c ----
// false: no contraction stage can compute this value; it is a sum of products.
bool roles_find(const Nest *nest, const Value *c, ContractRoles *roles);
// Likewise of a nest with dots: arguments that lie along its lanes, one of which has no dims of its
// own. Not where each sum has to be one chain (Stage.in_order): they are added up in parts.
bool roles_find_dots(const Nest *nest, const Value *c, ContractRoles *roles);
// The summed dim of which a turn has a part.
TileDimId roles_longest_sum(const Nest *nest, const ContractRoles *roles);
void roles_emit(const Nest *nest, const Member *member, uint16_t buffer, NodeList *into);

// ---- shifted.c ----
// Adds a member that is a shifted sum to the buffer, which begins with zeros.
void shifted_emit(const Nest *nest, const Member *member, uint16_t buffer, NodeList *into);

// ---- blocks.c: what is chosen for each place of the nest ----
// Rows that a run may work off at a time, `most` at most: `kept` are as many as keep what they
// touch in half of L1.
RowBlocks nest_row_blocks(const Nest *nest, uint32_t run, int32_t most);
// Rows that a run works off at a time, as a place of its own; by default as many as L1 keeps.
int64_t nest_block(const Nest *nest, uint32_t run);
// The blocks of all contraction stages.
void nest_choose_blocks(Nest *nest);

// ---- nest.c ----
// The order of a member's dims where it lies in scratch.
TileDimList nest_scratch_dims(const Nest *nest, const Member *member);
// What a reduction of nothing is.
double nest_neutral(Op op);
// A task for each of the group's parts, and the range of its rows.
NodeList *nest_open_part(Nest *nest, NodeList *into);
// Is it an argument with the dim that is in parts? Tasks share it.
bool nest_shares_rows(const Nest *nest, uint16_t buffer);
// Requires nest_analyse. Afterwards what is stored has a home (lower_buffer_of).
void nest_emit(Nest *nest, NodeList *into);
// Does the stage run once, ahead of all rows of the task: are none of its dims worked off row by
// row?
bool nest_is_ahead(const Nest *nest, const NestStage *stage);

static inline Member *nest_member(const Nest *nest, const Value *value) { // NULL: not one
    return map_get(nest->place, (uint64_t)value->id + 1);
}
// Positions of the dim in a piece, typically.
static inline int64_t nest_length(const Nest *nest, TileDimId dim) {
    int64_t typical = nest->lower->typical.at[dim];
    int64_t piece = set_has(nest->rows, dim)       ? nest->steps[dim]
                    : set_has(nest->streamed, dim) ? nest->piece
                                                   : typical;
    return piece < typical ? piece : typical;
}
static inline bool value_reduces(const Value *value) {
    OpKind kind = op_kind(value->op);
    return kind == KIND_REDUCE || kind == KIND_ROW || kind == KIND_CONTRACT;
}

#endif
