// SPDX-License-Identifier: Apache-2.0
// Level tile: a kernel as a tree of loops over named dims with stages at the leaves.
//
// At any point of the tree every dim of the kernel has a current range [lo, hi). At the root it is
// the whole dim; inside `loop d:S` it is one piece of at most S of the enclosing range, so nested
// loops over one dim refine each other; inside `range` it is what lies between two bounds, perhaps
// nothing. A stage works on the box of the current ranges of its dims. That is the whole meaning:
// interp.c runs it with plain loops, the targets with vector code.
//
//     kernel gemm
//       dims n d f:3072
//       in A[n d], B[d f]  out C[n f]
//       parallel n:128 f:384
//         loop d:256
//           scratch P[d f%48]
//           compute P[d f] = B  over d f  lanes=f pad
//           contract C += A * P  over n f d  rows=n:8 lanes=f:48
//         compute C = max(C, 0)  over n f  lanes=f
//
// P is a panel buffer: f in groups of 48 (see TileBuffer). A causal softmax in one pass, O and z
// rescaled when the running maximum moves:
//
//     parallel n:64
//       scratch top[n] = -inf, z[n] = 0, O[n v] = 0
//       range m < end(n)
//         loop m:128
//           scratch S[n m], was[n], c[n]
//           contract S += Q * K         over n m d  rows=n:12 lanes=m:32
//           compute was = top           over n
//           compute top max= S          over n m    lanes=m
//           compute c = exp(was - top)  over n
//           compute z = z * c           over n
//           compute O = O * c           over n v    lanes=v
//           compute                     over n m    lanes=m
//             S = exp(S - top)
//             z += S
//           contract O += S * V         over n v m  rows=n:6 lanes=v:64
//       compute Y = O / z               over n v    lanes=v
//
// A sum over the rows of all tasks, which they add to in turn:
//
//     out E[v d] = 0
//     parallel n:64
//       ordered v:128
//         scratch P[n v]
//         ...
//         contract E += P * X         over v d n  rows=v:12 lanes=d:32
#ifndef ATTC_TILE_H
#define ATTC_TILE_H

#include "base/machine.h"
#include "tile/schedules.h"

typedef uint8_t TileDimId; // index into kernel->dims
enum { TILE_DIM_NONE = 0xFF, TILE_RANK_MAX = 16 };
typedef struct {
    Name name;
    int64_t extent; // EXTENT_DYNAMIC: read at run time
} TileDim;
typedef struct {
    uint8_t count;
    TileDimId at[TILE_RANK_MAX];
} TileDimList;
#define TILE_DIMS(...) ((TileDimList){sizeof((TileDimId[]){__VA_ARGS__}), {__VA_ARGS__}})

// ---- buffers ----
// Scratch exists below its NODE_SCRATCH: it is made there, element 0 of a dim is that dim's lo
// there, and there is room for the current range there. An argument is made where a task begins;
// one that tasks add to in turn (see LOOP_ORDERED), where the first of them does.
typedef enum {
    PLACE_IN,
    PLACE_OUT,
    PLACE_BOTH, // read and written: what combines, combines with what the caller gave
    PLACE_SCRATCH,
} Place;
typedef struct {
    Name name;
    Elem elem;
    Place place;
    uint8_t rank;
    TileDimId dims[TILE_RANK_MAX]; // memory order, last contiguous
    // The dim panel_dim is cut into groups of panel_width: the order is [panel][other dims...]
    // [within panel], and the last panel is whole; what lies behind the extent in it means nothing.
    TileDimId panel_dim; // TILE_DIM_NONE: plain
    int32_t panel_width;
    // OUT and SCRATCH. Every element that the current ranges reach begins with this number where
    // the buffer is made, and whatever combines, combines with it. Without one the first combining
    // store to an element since the buffer was made sets it (a range of what is combined over must
    // have known ends then, and one that begins later goes on with it); where a dim that stores
    // combine over has no positions, it begins with what a sum of nothing is (kernel_combines).
    bool has_initial;
    double initial;
    // OUT with an initial value: -1, or an argument, one number of i64. Where that is not 0, the
    // elements begin with what the caller gave.
    int32_t kept_by;
    // SCRATCH. Elements left free behind each run of the last dim, when it is plain.
    int32_t gap;
    // SCRATCH. -1, or the scratch, made before in the same body, in whose memory this one lies:
    // element [i j k] of one is element [i j k] of the other. They agree in elem, rank, gap and
    // panel, and position by position in the dim or in its constant extent, then of dims that
    // nothing around cuts.
    int32_t takes;
} TileBuffer;

// ---- scalar programs: what a compute stage does for one point of its box ----
typedef struct {
    TileDimId dim;  // TILE_DIM_NONE: index given by term alone, or 0
    int64_t offset; // added
    int32_t term;   // -1, or an integer term added (gather)
} Index;
typedef struct {
    uint16_t buffer;
    uint8_t rank;
    Index index[TILE_RANK_MAX]; // one per dim of the buffer
    bool checked;               // an index outside the dim's extent reads fill
    double fill;
} Access;
typedef enum { TERM_LOAD, TERM_CONST, TERM_INDEX, TERM_EXTENT, TERM_OP } TermKind;
typedef struct {
    TermKind kind;
    Elem elem;       // of the result
    Op op;           // TERM_OP: a MAP op of ops.def
    int32_t args[3]; // earlier terms
    double number;   // CONST
    TileDimId dim;   // INDEX, EXTENT
    Access load;     // LOAD
} Term;
// A stage may load a buffer that it stores to: each point's terms are computed before its sinks. A
// load at an earlier point of the order (cumsum: Y[m-1], checked) sees what that point stored, so
// such a shifted dim is never the lanes. A CAST to a half type rounds; other half terms are kept in
// f32.
typedef enum { SINK_SET, SINK_SUM, SINK_PROD, SINK_MAX, SINK_MIN, SINK_TOP } SinkMode;
// SET stores the term at each point. MAX and MIN give NaN where a term is NaN; TOP, of floats
// alone, is the largest that is no NaN, -inf if none is: cheaper, for what a NaN reaches in another
// way. All but SET combine it over the dims of the stage that `to` lacks, and from piece to piece
// with what the element holds (see TileBuffer for what it begins with). In what order is the
// target's affair: always the same, and such that the error of a SUM of floats does not grow with
// the points of a stage.
typedef struct {
    SinkMode mode;
    Access to; // no terms in its index
    int32_t term;
} Sink;

// ---- stages ----
typedef enum { STAGE_CONTRACT, STAGE_COMPUTE, STAGE_ORDER } StageKind;
enum { ORDER_WORK = 2 };
typedef struct {
    StageKind kind;
    uint8_t n_dims;
    // The box, outermost first. Points are visited in this order, or in another where the stage
    // only sets what it does not read.
    TileDimId dims[TILE_RANK_MAX];
    TileDimId lanes; // the dim in vectors (TILE_DIM_NONE: scalar)
    // CONTRACT: c += a * b over the dims that c lacks, like SINK_SUM; no summed position: nothing.
    // c is f32 or f64 and so are a and b, but those of an f32 may be halves, which are widened.
    // Indexes are plain dims. rows: a dim that a and c have and b lacks (or NONE).
    // Usually b and c are contiguous along lanes or have panels of it, and a lacks lanes. Panels of
    // rows are allowed in a. Panels are whole numbers of blocks wide.
    // With summed lanes, which c lacks, a and b are contiguous along them and nothing has panels.
    // With shared lanes, which all three have, all are contiguous along them or have panels.
    // cols: with these two, a dim that b and c have and a lacks (or NONE).
    Access a, b, c;
    // in_order: each sum is one chain over the summed positions, whatever the blocks are.
    bool in_order;
    TileDimId rows, cols;
    int32_t row_block, lane_block; // microkernel: rows x lanes (a multiple of the vector length);
    int32_t col_block;             // with summed lanes rows x cols, with shared ones x lanes
    // ORDER: c, of i32, gets the positions along `along` of a's elements, the smallest first or,
    // `descending`, the largest; of equal ones the lower position; NaN is larger than all. `places`
    // counts them, and has at most as many positions. Neither is cut by anything around. Indexes
    // are plain dims, and a is contiguous in `along`. work: scratch[along] of i64 with nothing in
    // it before and after.
    TileDimId along, places;
    bool descending;
    uint16_t work[ORDER_WORK];
    // COMPUTE
    VEC(Term) terms; // no two are the same
    Map *term_at;    // hash -> place in terms + 1; keys of another term are stepped over
    VEC(Sink) sinks;
    bool pad; // a panel buffer that is stored to up to its end has zeros behind it
} Stage;

// A target asks ahead for the blocks of b that come from arguments in panels: while the row blocks
// that share one are worked off, for the next, if it has so many summed positions and bytes. Longer
// sums are cut into pieces whose blocks are not larger.
enum { ASKED_BYTES_MAX = 64 << 10 };
bool stage_asks_ahead(double row_blocks, double steps, double bytes);
// And for the rows that come next, where rows are neighbours in a and steps so many bytes apart
// that no hardware follows them.
enum { ASKED_STRIDE_MIN = MACHINE_PAGE };

// Few sums are split over several steps, so that enough of them are in flight to keep two units of
// latency 4 busy; each into SPLITS_MAX at most, unless its lanes are summed, and into none of the
// sums that are in order.
enum { SUMS_IN_FLIGHT = 8, SPLITS_MAX = 4 };

// ---- ranges ----
// One step of the small program that tells where a range begins and ends.
typedef enum {
    BOUND_NUMBER,
    BOUND_LO, // the first position of dim's current range outside of this node
    BOUND_HI, // one past its last
    BOUND_EXTENT,
    BOUND_PART, // where a part of the range's dim begins, which is cut into as many as `dim` has
                // positions: that with the number where dim's current range begins
    BOUND_LOAD, // an element of integers, IN or SCRATCH, where the access's dims begin
    BOUND_MIN,  // of two earlier bounds, as MAX and ADD
    BOUND_MAX,
    BOUND_ADD,
    BOUND_ROUND, // args[0] rounded down to a multiple of number, >= 1
} BoundKind;
typedef struct {
    BoundKind kind;
    int64_t number;  // NUMBER; added in LO, HI, EXTENT, LOAD, to the part in PART
    TileDimId dim;   // LO, HI, EXTENT, PART
    Access load;     // LOAD: no terms, not checked; its dims are not empty here
    int32_t args[2]; // MIN, MAX, ADD, ROUND
} Bound;

// ---- the tree ----
// PARALLEL loops are the outermost ones and hold all else. BACKWARD: the last piece first. ORDERED:
// a piece begins when the task before is done with all that it has of the dim up to where the piece
// ends (a doacross loop). Before a task comes the one whose piece of the innermost parallel loop
// lies before; the first one of a kernel with such loops is there even where that dim has no
// positions. So tasks may add to arguments that lack the innermost parallel dim, in their order,
// whatever the number of threads. Outside of the tasks' own loops there are only ranges.
typedef enum { LOOP_PARALLEL, LOOP_SEQUENTIAL, LOOP_BACKWARD, LOOP_ORDERED } LoopKind;
enum { ORDERED_MAX = 8 }; // in a kernel
typedef enum { NODE_LOOP, NODE_RANGE, NODE_SCRATCH, NODE_STAGE } NodeKind;
typedef struct Node Node;
typedef VEC(Node *) NodeList;
struct Node {
    NodeKind kind;
    LoopKind loop; // LOOP
    TileDimId dim; // LOOP, RANGE
    int64_t step;  // LOOP, >= 1
    NodeList body; // LOOP, RANGE
    // RANGE: inside, dim goes from the larger of `lo` and where it began outside, rounded down to
    // a multiple of `align` counted from there, to the smaller of `hi` and where it ended. That may
    // be nothing: then what has the dim does nothing, and what lacks it still runs.
    VEC(Bound) bounds;
    int32_t lo, hi;  // indexes into bounds; -1: the end outside
    int64_t align;   // >= 1
    uint16_t buffer; // SCRATCH
    Stage *stage;    // STAGE
};

typedef struct Kernel {
    Arena *arena;
    Name name;
    VEC(TileDim) dims;
    VEC(TileBuffer) buffers; // arguments first, in calling order, then scratch
    uint32_t n_args;
    NodeList body;
    Schedule schedule; // that it was lowered with; of it targets read `prefetch` alone
} Kernel;

// ---- kernel.c: building, by hand and by lowering ----
Kernel *kernel_new(Arena *arena, Name name);
TileDimId kernel_add_dim(Kernel *kernel, Name name, int64_t extent);
// Arguments are added before any scratch.
uint16_t kernel_add_argument(Kernel *kernel, Name name, Elem elem, Place place, TileDimList dims);
uint16_t kernel_add_argument_panel(Kernel *kernel, Name name, Elem elem, Place place,
                                   TileDimList dims, TileDimId panel_dim, int32_t panel_width);
// Nodes are appended to a list: &kernel->body or &loop->body.
Node *node_loop(Kernel *kernel, NodeList *into, LoopKind kind, TileDimId dim, int64_t step);
// Without bounds and with align 1: then set lo, hi, align.
Node *node_range(Kernel *kernel, NodeList *into, TileDimId dim);
int32_t range_bound(Kernel *kernel, Node *range, Bound bound); // equal bounds are one
bool bound_of_two(const Bound *bound);                         // MIN, MAX or ADD
uint16_t node_scratch(Kernel *kernel, NodeList *into, Name name, Elem elem, TileDimList dims);
uint16_t node_scratch_panel(Kernel *kernel, NodeList *into, Name name, Elem elem, TileDimList dims,
                            TileDimId panel_dim, int32_t panel_width);
// A plain scratch buffer without initial value and memory of its own, to be changed and declared.
TileBuffer scratch_plain(Name name, Elem elem, TileDimList dims);
uint16_t node_scratch_with(Kernel *kernel, NodeList *into, TileBuffer like);
void buffer_begin_with(Kernel *kernel, uint16_t buffer, double initial);
// The scratch in whose memory a buffer lies: itself, or what it takes.
uint16_t buffer_memory(const Kernel *kernel, uint16_t buffer);
Stage *node_compute(Kernel *kernel, NodeList *into, TileDimList dims, TileDimId lanes);
Stage *node_contract(Kernel *kernel, NodeList *into, TileDimList dims, Access c, Access a,
                     Access b);
// (then set lanes, rows, cols and their blocks)
// Over the dims of c and `along`. Makes the scratch that it works with.
Stage *node_order(Kernel *kernel, NodeList *into, Access c, Access a, TileDimId along,
                  TileDimId places);
Access access_plain(const Kernel *kernel, uint16_t buffer); // every dim of the buffer by itself
Access access_at(uint16_t buffer, TileDimList dims);        // one dim per dim of the buffer
int32_t stage_load(Kernel *kernel, Stage *stage, Access access);
int32_t stage_const(Kernel *kernel, Stage *stage, double number, Elem elem);
int32_t stage_index(Kernel *kernel, Stage *stage, TileDimId dim);
int32_t stage_extent(Kernel *kernel, Stage *stage, TileDimId dim);
// Unused arguments are -1. Equal terms of one stage are one term.
int32_t stage_op(Kernel *kernel, Stage *stage, Op op, Elem elem, int32_t a, int32_t b, int32_t c);
void stage_sink(Kernel *kernel, Stage *stage, SinkMode mode, Access to, int32_t term);

// ---- stage.c: what stages and accesses are ----
bool stage_has_dim(const Stage *stage, TileDimId dim);
bool stage_writes(const Kernel *kernel, const Stage *stage, uint16_t buffer);
bool stage_reads_own(const Kernel *kernel, const Stage *stage); // a compute stage, what it writes
// Does a compute stage, whose points may be visited in any order, read the access across its lanes:
// contiguous in the dim directly outside of them, of which there are enough positions? A target
// reads vectors along that dim then, and transposes blocks of as many positions as a vector has
// lanes.
bool stage_crosses(const Kernel *kernel, const Stage *stage, const Access *access);
bool stage_sums_lanes(const Stage *stage);      // a contraction's
bool stage_shares_lanes(const Stage *stage);    // likewise: with both operands and the result
bool kernel_asks_ahead(const Kernel *kernel);   // may a target ask for anything before it is read?
bool stage_has_microkernel(const Stage *stage); // a contraction: neither of these
// Of a microkernel of so many vectors: rows that keep the units busy (more only save loads), and of
// the blocks that a target cuts a known number of rows into, of `most` at most.
int64_t stage_busy_rows(int vectors);
int64_t stage_even_rows(const Machine *machine, int64_t rows, int64_t most, int vectors);
bool access_has_dim(const Access *access, TileDimId dim);
bool access_is_plain(const Access *access); // plain dims only: no offsets, terms, checks
// The dim of the access that runs along the buffer's panels; TILE_DIM_NONE: there are none.
TileDimId access_panel_dim(const Kernel *kernel, const Access *access);
// Are its elements along dim side by side, in panels or as the last dim?
bool access_runs_along(const Kernel *kernel, const Access *access, TileDimId dim);

// ---- counts.c: what is asked of a whole kernel ----
// The dims of unknown extent that some stage combines over into a buffer without initial value, and
// what combining nothing gives. false: there are none.
bool kernel_combines(const Kernel *kernel, uint16_t buffer, TileDimList *over, double *nothing);
// The parallel loop that all of a body is; NULL: it is none. Those of a kernel's tasks lie around
// each other at its root.
const Node *nodes_parallel(const NodeList *body);
// Number of tasks: the product over the parallel loops of ceil(extent / step).
int64_t kernel_tasks(const Kernel *kernel, const int64_t *extents);
uint32_t kernel_ordered(const Kernel *kernel); // number of ORDERED loops
// NULL: the kernel has no parallel loop.
const Node *kernel_innermost_parallel(const Kernel *kernel);
// Do tasks add to the argument in turn? It lacks the innermost parallel dim.
bool kernel_adds_in_turn(const Kernel *kernel, uint16_t argument);
// Bytes of scratch that a task has at most; each: by buffer, the bytes of a scratch one, or NULL.
int64_t kernel_scratch_bytes(const Kernel *kernel, const int64_t *extents, int64_t *each);

// ---- multiplies.c ----
double kernel_multiplies(const Kernel *kernel, const int64_t *extents); // of sums of products
// The part of them that masks by positions leave, each position taken by itself.
double kernel_seen(const Kernel *kernel, const int64_t *extents);

// ---- a whole entry ----
typedef struct {
    uint8_t count;
    DimId at[DIMS_MAX]; // the kernel dim is the product of these dims of the entry
} DimProduct;
// What a schedule is for, whatever it is called and whichever layer it is of.
typedef struct {
    uint64_t group;      // XXH3 of what is computed and how it lies in memory, without extents
    const char *extents; // of its dims: "512 64"; "~1024": of run time, and planned for that
} ScheduleSite;
typedef struct {
    uint32_t kernel;   // index into program->kernels
    uint32_t *buffers; // per argument of the kernel: index into plan->buffers
    DimProduct *dims;  // per dim of the kernel
    const Group *group;
    ScheduleSite site;
    // Of several ways to work off a group, the one for these extents: it runs when least <= extent
    // of the entry's dim < most. most 0: always.
    DimId guard;
    int64_t least, most;
    // Of several schedules of the group that a run chooses among, an alternative, from 0. choice:
    // its number, from 1; 0: there is one schedule, which always runs.
    uint32_t choice, alternative;
} Launch;
// With the first alternative of each choice.
bool launch_runs(const Launch *launch, const int64_t *extents);
// By dim of its kernel, from those by DimId.
int64_t *launch_extents(const Launch *launch, const Kernel *kernel, const int64_t *extents,
                        Arena *arena);
// A streamed group that the forced plan cannot do, and has the cheapest one instead.
typedef struct {
    const Group *group;
    PlanKind plan;   // the forced one
    const char *why; // the end of a sentence for the user
    const Value *by; // the value to blame, NULL: none
} PlanMisfit;
typedef struct {
    const Plan *plan;
    VEC(Kernel *) kernels; // equal kernels once (XXH3 of the canonical form)
    VEC(Launch) launches;
    VEC(uint32_t) alternatives; // of each choice, of number 1, 2, .. : how many
    VEC(PlanMisfit) misfits;
    Schedule choice; // for all of it, of kind PROGRAM: by whoever made the plan
} TileProgram;

// ---- lower/, schedule/, cost/ ----
// Which of the schedules for a site, by index.
typedef uint32_t ScheduleChoice(void *self, const ScheduleSite *site, const ScheduleList *space);
// The schedule that is known for a site, in the arena; NULL: none. Called from several threads.
typedef const Schedule *ScheduleFind(const void *known, const ScheduleSite *site, Arena *arena);
// Told of each that was found and is none of its site's space. Called from several threads.
typedef void ScheduleRefuse(const void *known, const ScheduleSite *site);
typedef struct {
    ScheduleFind *find;     // NULL: none is known
    ScheduleRefuse *refuse; // NULL: nobody asks
    const void *known;
} ScheduleSource;
typedef struct {
    StreamSchedule forced; // the plan of every streamed group that it can do, and its numbers;
                           // PLAN_ANY and 0: any
    // NULL: the default of each. space: those that make different kernels, all of which hold, with
    // their predicted times; the default first. Asked for all but the blocks, which are the default
    // ones, then for the blocks of each place that has several, in order, and for prefetch.
    ScheduleChoice *choose;
    bool (*asks)(const void *self, const ScheduleSite *site); // is there a choice? NULL: for each
    void *self;
    // Asked first: what it gives is taken, if it is one of the space, and with a choice too only
    // blocks and prefetch are left to choose. Where a plan is forced it is not asked.
    ScheduleSource source;
} ScheduleWish;
// One kernel per group, scheduled for the machine at the typical extents. Adjacent
// dims that stay adjacent in every access become one kernel dim.
// NULL after a diagnostic: there are streamed groups, and the forced plan can do none.
TileProgram *tile_lower(const Plan *plan, const Machine *machine, const int64_t *extents,
                        const ScheduleWish *wish);
int64_t schedule_scratch_room(const Machine *machine); // bytes that a task may have by default
// schedule/: every schedule of a shape that is worth a thought, in a fixed order. wanted: the plan,
// and its numbers where they are not 0.
ScheduleList schedule_enumerate(Arena *arena, const ScheduleShape *shape, const Machine *machine,
                                const StreamSchedule *wanted);
// program.c: choices for a whole program, the default first, then what is known, and what differs
// from either in one decision. known: NULL: nothing is.
ScheduleList schedule_enumerate_programs(Arena *arena, const ProgramSchedule *known);
// What such a choice is for: a graph before groups are made of it, whatever its values and dims are
// called. Requires: typical extents. The text of extents lies in the arena.
ScheduleSite schedule_program_site(Arena *arena, const Graph *graph, const int64_t *extents);
bool programs_same_kernels(const TileProgram *a, const TileProgram *b); // launch by launch
bool schedule_same_site(const ScheduleSite *a, const ScheduleSite *b);
// fields.c, any.c: are all numbers the same? Neither blocks nor prefetch are any.
bool schedule_same_numbers(const Schedule *a, const Schedule *b);
bool schedule_same_program(const ProgramSchedule *a, const ProgramSchedule *b);
bool schedule_same_blocks(const StageBlocks *a, const StageBlocks *b); // of one place
bool schedule_same(const Schedule *a, const Schedule *b);              // in everything
// How many steps of two, or other words, the numbers of one are from those of another of its kind.
double schedule_distance(const Schedule *a, const Schedule *b);
Schedule schedule_copy(Arena *arena, const Schedule *schedule); // with its blocks
// json.c: a schedule as one line of JSON, and back. false with *why: it is none. Predicted seconds
// are not written.
char *schedule_to_json(Arena *arena, const Schedule *schedule);
bool schedule_from_json(Arena *arena, const char *text, Schedule *out, const char **why);
const char *schedule_kind_name(ScheduleKind kind); // "contract"
// The decisions that are not by cost, "plan unfused"; "by cost": there are none.
const char *schedule_program_text(Arena *arena, const ProgramSchedule *program);
// What a kernel costs on a machine, counted: the model that schedules are chosen by.
typedef enum { FROM_L1, FROM_L2, FROM_L3, FROM_MEMORY, N_FROM } TrafficLevel;
typedef struct {
    const Stage *stage;
    double times;           // how often it runs
    double cycles;          // arithmetic of all runs
    double bytes[N_FROM];   // moved to and from each level, or that take as long
    double exposed[N_FROM]; // those that take as long as is waited for, beside the arithmetic
    double seconds;         // of all runs, one thread
} StageCost;
typedef struct {
    double flops;            // of one run: 2 per multiply-add, 1 per float term and combining sink
    double seconds;          // one thread
    double parallel_seconds; // as many threads as the machine has: `outside`, and of what all tasks
                             // take (stages, and cycles for initial values) the part `waited`
    double cycles, waited;
    double outside_cycles, outside_seconds; // initial values of arguments; tasks and launches
    VEC(StageCost) stages; // in order; one whose loops leave a remainder comes more than once
    bool is_rough;         // pieces were taken to be as long as others, and are not
} TileCost;
// keep: for the list of stages; NULL: without it.
TileCost tile_cost(Arena *keep, const Kernel *kernel, const int64_t *extents,
                   const Machine *machine);
// Of a microkernel's call that adds up products of so many rows and vectors, its data being in L1.
double tile_block_cycles(const Machine *machine, double rows, double vectors, double steps);
// For the machine's threads, whether it runs at these extents, which are by DimId, or not.
double launch_seconds(const Launch *launch, const Kernel *kernel, const int64_t *extents,
                      const Machine *machine);
// The parallel seconds of what was counted on a machine whose rates are others, and how they depend
// on the rates: a rate that grows by a small part takes that part of its seconds away. FROM_L1:
// those of arithmetic.
typedef struct {
    double seconds, due[N_FROM];
} RatedCost;
RatedCost tile_cost_rated(const TileCost *counted, const Machine *machine);
// Seconds that tile_cost does not fall below, found much faster: as if all data lay in L1.
TileCost tile_cost_floor(const Kernel *kernel, const int64_t *extents, const Machine *machine);
// Either as if all pieces of a loop were equally long: a nest of uneven loops is walked once. The
// floor is that of the rough cost.
TileCost tile_cost_rough(const Kernel *kernel, const int64_t *extents, const Machine *machine,
                         bool floor);

// ---- canonical.c: which kernels are the same ----
// All of a kernel but its names: dims and buffers by number.
typedef VEC(uint64_t) KernelForm;
KernelForm kernel_form(Arena *arena, const Kernel *kernel);
uint64_t kernel_canonical_hash(const Kernel *kernel); // XXH3 of the form
// What a step keeps for each form; forms are compared, a hash only finds them.
typedef struct FormTable FormTable;
FormTable *form_table_new(Arena *arena);
void **form_table_at(FormTable *table, const KernelForm *form); // holds NULL at first

// ---- in_place.c ----
// An argument that may be written over, by the result that takes its place (USE_REPLACED), before
// all that reads it has run; NULL: there is none.
const Value *tile_in_place_problem(const TileProgram *program);

// ---- verify.c, print.c, interp.c ----
// Every rule of this level; false with the first broken one in *why.
bool kernel_check(const Kernel *kernel, Text *why);
void kernel_verify(const Kernel *kernel, const char *after); // kernel_check or ice()
void kernel_print(const Kernel *kernel, Text *out);
void tile_print(const TileProgram *program, Text *out);
// Runs one kernel in plain C, tasks in a shuffled order. buffers: per argument, elements of its
// elem in memory order.
void kernel_interpret(const Kernel *kernel, const int64_t *extents, void *const *buffers);
// Runs all launches; inputs and outputs by index in the graph, in float32/int32/... as declared.
void tile_interpret(const TileProgram *program, const int64_t *extents, void *const *inputs,
                    void *const *outputs);

#endif
