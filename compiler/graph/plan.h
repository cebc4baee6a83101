// SPDX-License-Identifier: Apache-2.0
// Level graph: what a graph becomes before it is lowered. Groups of values, one kernel each, and
// where the values that these store lie in memory.
#ifndef ATTC_GRAPH_PLAN_H
#define ATTC_GRAPH_PLAN_H

#include "graph/graph.h"

// ---- fuse/: values -> groups, one kernel each --------------------------------------------------
// How a streamed group is worked off; UNFUSED: not as one.
typedef enum {
    PLAN_ANY,
    PLAN_UNFUSED,
    PLAN_RESIDENT,
    PLAN_STREAM,
    PLAN_TWO_PASS,
    PLAN_SPILL,
    N_PLANS
} PlanKind;
extern const char *const plan_names[N_PLANS]; // "two-pass"
PlanKind plan_find(const char *name);         // N_PLANS: there is none
// What is decided for a whole program before it has kernels. Zeros: by what it is predicted to
// cost.
typedef enum { WIDE_BY_COST, WIDE_AGAIN, WIDE_STORED, N_WIDES } WideChoice;
typedef enum { KEPT_BY_COST, KEPT_ALL, N_KEPTS } KeptChoice;
typedef enum { LAYOUT_BY_COST, LAYOUT_PLAIN, N_LAYOUTS } LayoutChoice;
typedef enum { COPIES_BY_SIZE, COPIES_ONCE, COPIES_EACH, N_COPIES } CopyChoice;
typedef struct {
    PlanKind plan;   // ANY or UNFUSED
    WideChoice wide; // values over pairs of positions that several sweeps need; STORED: as if
                     // storing them were free
    KeptChoice kept; // what the backward pass of a whole reads of the forward pass; ALL: what it
                     // may, as if keeping were free
    LayoutChoice layout; // of stored values; PLAIN: none lies in panels
    CopyChoice copies; // of what streamed groups read past, in the order of their microkernels: are
                       // they stored, by a group of their own, or does each task make its own?
    int64_t plain; // of the values that would lie in panels, those that do not: bits, the lowest
                   // the kind of them that layout comes by first; those of equal layers are one
} ProgramSchedule;
enum { PLAIN_MOST = 16 }; // kinds of them
// CONTRACT: one contraction with pointwise prologue on its operands and pointwise epilogue.
// ROWS: reductions, softmax, cumsum and pointwise values over the same rows: all members have dims
//       within rows + reduced, and each row is worked off by one task.
// MAP: pointwise values of one iteration space (moves included).
// STREAM: any number of contractions, reductions and pointwise values whose rows are tasks and
//       whose reduced dim (one) is streamed through cache: values with that dim are never stored,
//       unless they are outputs. With parts, a task has the rows of one part, and outputs in parts
//       are what it sums up over them. Outputs in turn are what all tasks sum up over their rows.
// Members that are cheap to compute from inputs and positions (masks, renames, scalars) may be
// members of several groups and are stored by none. Outputs have all dims of the contraction, of
// rows (and perhaps reduced), or of the iteration space; other members may have fewer.
// SCAN: a recurrence along a dim, or several inside each other: any values; outputs are what is
//       left after the scan.
// ORDER: one ORDER value, each row worked off by one task.
// SCATTER: one SCATTER_ADD value, each element summed by one task.
enum { GROUP_DIMS_MAX = 64 }; // of a kernel: the bits of a word are a set of them
typedef enum {
    GROUP_CONTRACT,
    GROUP_ROWS,
    GROUP_MAP,
    GROUP_STREAM,
    GROUP_SCAN,
    GROUP_ORDER,
    GROUP_SCATTER
} GroupKind;
typedef struct {
    GroupKind kind;
    ValueList members;  // in order of id. A member that is not an output is never stored
    ValueList outputs;  // members that are stored: read by other groups, or results of the entry
    Value *contraction; // CONTRACT
    // ROWS, ORDER, SCATTER: kept and reduced dims; MAP: rows is the iteration space; STREAM: tasks,
    // streamed dim; SCAN: reduced: dims of the scans, that around the others first
    DimList rows, reduced;
    // ROWS, STREAM: sums over `cut` are in parts along `parts`, or (STREAM) in turn where that is
    // DIM_NONE. cut DIM_NONE: neither
    DimId cut, parts;
} Group;
bool group_has(const Group *group, const Value *value);    // is it one of the members?
bool group_stores(const Group *group, const Value *value); // is it one of the outputs?
// Why a set of values over the pair x, y (see fuse/stream.c) became no streamed group.
typedef struct Refusal Refusal;
struct Refusal {
    DimId x, y;      // DIM_NONE: whatever the pair
    const Value *by; // the value to blame, NULL: none
    const char *why; // the end of a sentence for the user
    const Refusal *next;
};
typedef struct {
    const Graph *graph;  // may hold COPY values added for results that are inputs or returned twice
    VEC(Group *) groups; // in an order in which they can run
    const Refusal **refused; // by value id: a list, NULL when it is in a group or is not wide
    // By value id: the result in whose memory it is: a SPLIT or MERGE of it, or what
    // graph_accumulate makes of a sum in turn.
    const Value **lies_in;
    bool streams; // false: a plan that makes no STREAM groups was asked for
} Fusion;
// Requires: graph_expand done. Ensures: the argument of a RENAME GATHER SCATTER_ADD TAKE SLICE
// CONCAT SHIFT ORDER is an INPUT or an output of an earlier group, and so is every argument that is
// not a member or a CONST/INDEX/EXTENT leaf. The positions of a GATHER may be a member; in a SCAN
// whatever a move reads. Between a RENAME or TAKE and what lies in memory there may be others,
// which are no members, and a SPLIT or MERGE that is a view. streams: false makes no STREAM groups.
Fusion *graph_fuse(const Graph *graph, const int64_t *extents, bool streams, CopyChoice copies);
void fusion_verify(const Fusion *fusion, const char *after_pass);
void fusion_print(const Fusion *fusion, Text *out); // source language, a comment before each group
// quadratic.c: does no group store a quadratic value that is no result of the entry? false after
// an error for each, with the reason. contracted: the graph that was fused, before graph_expand.
bool fusion_check_quadratic(const Fusion *fusion, const Graph *contracted);

// ---- fuse/layout.c, fuse/plan.c: memory --------------------------------------------------------
// How a stored value lies in memory. With a panel, that dim is cut into groups of panel_width: the
// order is [panel][other dims...][within panel], and the last panel is whole.
typedef struct {
    DimList order; // last contiguous
    DimId panel;   // DIM_NONE: plain
    int32_t panel_width;
} MemoryOrder;
typedef enum { BUFFER_INPUT, BUFFER_OUTPUT, BUFFER_WORK, BUFFER_VIEW } BufferRole;
typedef struct {
    const Value *value;
    MemoryOrder memory;
    BufferRole role;
    uint32_t slot; // WORK: buffers of one slot share memory, a slot is as large as its largest
    uint32_t of;   // VIEW: the buffer, none itself, whose elements these are under other dims
    uint32_t first_group, last_group; // live from writing to last reading
} Buffer;
typedef struct {
    const Fusion *fusion;
    VEC(Buffer) buffers; // inputs, outputs, then workspace
    uint32_t *buffer_of; // by value id: place in buffers + 1; 0: none
    uint32_t n_slots;
} Plan;
// Chooses the memory order of every stored value, by value id: what the consumers' microkernels
// read fastest. chosen: NULL: all by cost.
MemoryOrder *graph_layout(const Fusion *fusion, const int64_t *extents, const Machine *machine,
                          const ProgramSchedule *chosen);
Plan *graph_plan(const Fusion *fusion, const MemoryOrder *orders);
int64_t buffer_elements(const Buffer *buffer, const int64_t *extents); // padding of panels included
const Buffer *plan_buffer(const Plan *plan, const Value *value);
// Bytes that the slots of plans take which share memory, as no two run at one time; extents: of
// each. -1: more than 2^63.
int64_t plans_workspace(const Plan *const *plans, const int64_t *const *extents, uint32_t count);
void plan_verify(const Plan *plan);
// The same plan, of which what is made lies in the arena.
Plan *plan_in_arena(const Plan *plan, Arena *arena);

#endif
