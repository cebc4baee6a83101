// SPDX-License-Identifier: Apache-2.0
// What the files of the cost model share: where the walk over a kernel's tree stands.
#ifndef ATTC_TILE_COST_H
#define ATTC_TILE_COST_H

#include "tile/forwarding.h"

// As fmin() and fmax() of numbers, which are calls: a walk asks for hundreds.
static inline double lesser(double a, double b) {
    return a < b ? a : b;
}

static inline double larger(double a, double b) {
    return a > b ? a : b;
}

// What a piece of the tree touches: bytes by buffer and by the dims under which it is accessed.
typedef struct {
    uint16_t memory; // the buffer, or the one in whose memory it lies
    uint64_t dims;   // one bit each
    double bytes;
    double sharers;  // threads that have it in common
    uint32_t visits; // by how many accesses, or nodes of a list
    bool passes;     // every turn brings other data: it goes through a cache and leaves
} Touch;
enum { TOUCHES_MAX = 64 };
typedef struct {
    Touch *at; // room for Walk.most_touches
    uint32_t count;
    double more; // bytes of what found no room above
} Footprint;

// Bytes that lie between two touches of the same data; negative: there was none before.
typedef struct {
    double bytes;
    double part; // of it, this thread's of what threads have in common
} Distance;

// A list of nodes around the current place, repeated by a loop or not. Loops inside a stage
// (blocks, points) are frames without siblings.
typedef struct {
    TileDimId dim; // TILE_DIM_NONE: no loop
    double turns;
    double piece;   // positions of dim in one of them
    Footprint turn; // what one turn touches; empty where there is one alone
    bool parallel;  // turns are tasks
    // Where the node that the walk is in has siblings: what it touches, and by place in that how
    // far back an earlier sibling touched the same, or a later one in the turn before.
    bool has_siblings;
    Footprint node;
    Distance *near, *near_before;
} Frame;

typedef struct {
    const Kernel *kernel;
    const int64_t *extents;
    const Machine *machine;
    Arena *arena;   // of one walk
    double *low;    // per dim: where the current range begins, on average
    double *length; // and how many positions it has
    double *inner;  // lengths further inside, for what is made there
    double *around; // lengths in one turn of a frame further outside,
    double *box;    // of the whole stage
    bool *known;    // per dim: is the length the same in all turns, and a number when compiling?
    double *room;   // per buffer: bytes that it was made with; negative: that it will be made with
    uint32_t *made; // per buffer: frames around the place where it is made
    Forwarding forwarding;       // by the stages so far
    VEC(Frame *) frames;         // outermost first; `depth` of them are in use
    uint32_t depth, stage_depth; // the latter: outside of the stage's own loops
    uint32_t most_touches;       // of a footprint: accesses of the kernel, TOUCHES_MAX at most
    Footprint between, other;    // of a look back
    double arguments;            // bytes of all of them
    double times;                // how often the current place is reached
    double seconds, flops;
    double cycles;       // of the seconds: writing initial values of scratch
    double initial;      // of the seconds: writing initial values of arguments
    double longest_task; // seconds
    double alone;        // of `initial`: by the first task of a chain, while the others wait
    // Seconds of one turn of each ordered loop, of all tasks.
    const Node *ordered[ORDERED_MAX];
    double turns[ORDERED_MAX];
    double one_set_parts[2][2]; // of a stage: [operand][further], see cost_find_one_set_parts
    bool in_l1;                 // all data is taken to lie in L1
    bool rough;                 // all pieces of a loop are taken to be equally long
    Arena *keep;                // for the list of stages; NULL: none
    TileCost *out;
} Walk;

// ---- arithmetic.c: cycles of one run of a stage on the current box, data in L1 ----
double cost_box_points(const Walk *w, const Stage *stage);
double cost_contract_cycles(const Walk *w, const Stage *stage);
double cost_compute_cycles(const Walk *w, const Stage *stage);
double cost_order_cycles(const Walk *w, const Stage *stage);
// Rows of a block of a microkernel with so many vectors.
double cost_block_rows(const Walk *w, const Stage *stage, double vectors);
// The summed dims of a contraction that its microkernel runs along, one bit each; the others are
// loops around it.
uint64_t cost_flat_dims(const Walk *w, const Stage *stage);
// To what the result holds, in parts of a sum. flat: those dims.
bool cost_adds_up(const Walk *w, const Stage *stage, uint64_t flat);

// ---- places.c: where the elements of an access lie ----
// In whole lines, of others as well.
bool cost_has_lines(const TileBuffer *buffer);
double cost_made_bytes(const TileBuffer *buffer, const double *length);
// Bytes that an access touches when its dims have these lengths, whole lines of arguments.
double cost_touched_bytes(const Walk *w, const Stage *stage, const Access *access,
                          const double *length);
// The parts of L1 and L2 that an access can use: rows of a matrix that lie a power of two apart
// meet in few sets.
void cost_find_usable_parts(const Walk *w, const Stage *stage, const Access *access,
                            const double *length, double parts[2]);
// Of the innermost piece of an access: pages that it lies in.
double cost_pages(const Walk *w, const Stage *stage, const Access *access);
// How many times as long as its bytes an access takes from L3, and from memory.
void cost_find_far_parts(const Walk *w, const Stage *stage, const Access *access, double parts[2]);
// Bytes of lines that a stage which writes panels comes back to when L1 has lost them, each time
// the stage runs; *from: where they are then.
double cost_lines_again(const Walk *w, const Stage *stage, const Access *access,
                        TrafficLevel *from);
// How many positions along a dim L1 keeps, where they fall in few sets; INFINITY: none is lost.
double cost_kept_along(const Walk *w, const Access *access, TileDimId dim);
// Of a microkernel: are its lanes a line of a row, each in a page of its own?
bool cost_lanes_apart(const Walk *w, const Stage *stage);
// Are they short pieces of rows that lie too far apart to be followed?
bool cost_lanes_scattered(const Walk *w, const Stage *stage);
// The least parts that a microkernel waits for beside its arithmetic of what an operand brings from
// L2 and from further away: of short pieces of rows apart that meet in few sets of L1.
void cost_find_one_set_parts(const Walk *w, const Stage *stage, const Access *operand,
                             double least[2]);
// Of a microkernel: do its rows lie side by side, so that all splats of a step are of a line?
bool cost_rows_beside(const Walk *w, const Stage *stage);
// Does it write short pieces of rows that lie apart, one after the other?
bool cost_result_scattered(const Walk *w, const Stage *stage);

// ---- traffic.c: bytes that come from beyond L1 ----
void cost_open_footprints(Walk *w); // before the first frame
Frame *cost_open_frame(Walk *w, TileDimId dim, double turns);
void cost_close_frame(Walk *w);
// What one turn of the innermost frame, which has several, touches. Requires: the current ranges
// are those inside.
void cost_measure_turn(Walk *w, const NodeList *body);
// Before the walk goes into body->at[index]: how long ago its siblings touched what it touches.
void cost_look_back(Walk *w, const NodeList *body, uint32_t index);
// How data comes: the operands of a contraction line by line, as its microkernel asks for them, a
// row's for some steps or all rows' for each, its lanes side by side, in panels, asked for ahead,
// or rows apart; what it adds to between two calls, which both wait; what it stores in bursts; what
// other stages touch along with their arithmetic.
typedef enum {
    FLOW_STEADY,
    FLOW_ROWS,
    FLOW_ROWS_BESIDE,
    FLOW_LANES,
    FLOW_LANES_PANELS,
    FLOW_LANES_ASKED,
    FLOW_LANES_SCATTERED,
    FLOW_SUMS,
    FLOW_SUMS_SCATTERED,
    FLOW_STORED,
    FLOW_STORED_SCATTERED,
    N_FLOWS
} FlowKind;
// Adds what all runs of a stage at the current place move, by the level that it comes from. Returns
// cycles that go into finding pages.
double cost_add_traffic(Walk *w, const Stage *stage, double bytes[N_FLOWS][N_FROM]);

// ---- rates.c: from what was counted to seconds ----
double cost_stage_seconds(const StageCost *stage, const Machine *machine);

#endif
