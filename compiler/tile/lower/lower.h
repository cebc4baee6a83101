// SPDX-License-Identifier: Apache-2.0
// What the files of the lowering share: one group of the plan on its way to one kernel.
#ifndef ATTC_TILE_LOWER_H
#define ATTC_TILE_LOWER_H

#include "tile/tile.h"

typedef uint64_t DimSet; // kernel dims, one bit each
_Static_assert(GROUP_DIMS_MAX <= 64, "a dim of a kernel without a bit");
enum { NO_BUFFER = -1 };

// What is to be lowered, and for what.
typedef struct {
    const Plan *plan;
    const Machine *machine;
    const int64_t *extents; // typical, by DimId
    ScheduleWish wish;
    // Schedules by what they were searched for, so that layers that repeat are searched once. near:
    // by the shapes of a contraction, see lower_near.
    FormTable *streams, *contractions, *rows, *near;
} LowerRequest;

// A part of a group that becomes one kernel: all of it, or the outputs of one shape.
typedef struct {
    const LowerRequest *request;
    const Plan *plan;
    const Graph *graph;
    const Machine *machine;
    const int64_t *extents; // typical, by DimId
    Arena *arena;           // of this lowering; the kernel has its own
    Group *group;           // members in order of id and outputs, of this part
    Kernel *kernel;
    const Schedule *wanted;       // NULL: the default
    ScheduleShape shape;          // what the kernel's schedule was chosen from
    VEC(StageBlocksList) choices; // likewise its blocks, by place
    VEC(DimProduct) products;     // per kernel dim
    VEC(int64_t) typical;         // per kernel dim
    VEC(uint32_t) launch_buffers; // per argument: index into plan->buffers
    TileDimId *dim_of;            // by DimId; TILE_DIM_NONE: not in the kernel
    bool *is_member;              // by value id
    bool *is_renamed;             // by value id: the argument buffer is declared under its new dim
    int32_t *home;                // by value id: 1 + the kernel buffer that holds it by now
    int32_t *designated;          // by value id: 1 + the kernel buffer it is wanted in
} Lowering;

static inline TileDimId dims_last_of(const TileDimList *dims) {
    return dims->count ? dims->at[dims->count - 1] : TILE_DIM_NONE;
}
static inline void dims_append(TileDimList *dims, const TileDimList *more) {
    for (int i = 0; i < more->count; i++)
        dims->at[dims->count++] = more->at[i];
}

// dims.c: a lowering of the part, with an empty kernel.
void lower_open(Lowering *lower, const LowerRequest *request, Group *part, Arena *arena,
                Arena *kernel_arena);

// ---- dims.c: kernel dims and argument buffers of a group ----
// Fills kernel dims (adjacent ones that stay adjacent are one); false: more than GROUP_DIMS_MAX.
bool lower_dims_fit(Lowering *lower);
// Fills kernel dims and arguments. Requires: the dims fit.
void lower_arguments(Lowering *lower);
DimSet lower_dim_set(const Lowering *lower, const DimList *dims);
DimSet lower_buffer_set(const Lowering *lower, uint16_t buffer);
// What a buffer in the kernel is called that holds the value.
Name lower_label(const Lowering *lower, const Value *value);
int64_t lower_volume(const Lowering *lower, DimSet dims);       // typical
int lower_buffer_of(const Lowering *lower, const Value *value); // NO_BUFFER
void lower_set_home(Lowering *lower, const Value *value, int buffer);
int lower_designated(const Lowering *lower, const Value *value); // NO_BUFFER
void lower_designate(Lowering *lower, const Value *value, int buffer);
uint16_t lower_argument_of(const Lowering *lower, uint32_t output); // of the group
void lower_designate_outputs(Lowering *lower);                      // each in its argument
// The dim that the group's parts are parts of; TILE_DIM_NONE: there are none.
TileDimId lower_cut_dim(const Lowering *lower);
// The dim of the tasks that add to sums in turn; TILE_DIM_NONE: there are none.
TileDimId lower_chain_dim(const Lowering *lower);
// The argument that tells whether an output begins with what is in its memory; NULL: it does not.
const Value *lower_kept_by(const Plan *plan, const Value *output);
// The dims of the set, in the order of `first` and then by number.
TileDimList lower_order(DimSet dims, const TileDimList *first);
// Adds those of the set to an order, likewise, as far as one more finds room after them: of dims
// that are nowhere at once there may be any number.
void lower_order_rest(const Lowering *lower, DimSet dims, const TileDimList *first,
                      TileDimList *order);
DimSet lower_all_dims(const Lowering *lower); // of the kernel
TileDimList lower_buffer_dims(const Lowering *lower, uint16_t buffer);
static inline bool set_has(DimSet dims, TileDimId dim) {
    return dims >> dim & 1;
}
static inline DimSet set_of(TileDimId dim) {
    return (DimSet)1 << dim;
}

// ---- terms.c: values -> terms of a stage ----
typedef struct {
    Lowering *lower;
    Stage *stage;
    Map *known; // value id + 1 -> term + 1
} TermBuilder;
TermBuilder terms_open(Lowering *lower, Stage *stage);
// A value at the stage's point: loaded when it has a home, else computed. Of its work elem.
int32_t terms_value(TermBuilder *terms, const Value *value);
int32_t terms_cast(TermBuilder *terms, int32_t term, Elem elem);
void terms_store(TermBuilder *terms, SinkMode mode, uint16_t buffer, int32_t term);
// A stage of its own that multiplies the sum of a contraction, which lies in the buffer, with the
// contraction's factor.
void terms_scale_sum(Lowering *lower, const Value *contraction, uint16_t buffer, NodeList *into);
// A value that is one load with plain dims: an argument, perhaps under another dim.
bool terms_plain_access(const Lowering *lower, const Value *value, Access *access);
// What computing a value at one point from what has a home costs, in the unit of op_weight.
double terms_cost(const Lowering *lower, const Value *value);

// ---- the kinds of kernels ----
void lower_rows(Lowering *lower);    // reductions and pointwise values along rows
void lower_map(Lowering *lower);     // pointwise values of one shape
void lower_scan(Lowering *lower);    // a recurrence
void lower_argsort(Lowering *lower); // an ORDER value
void lower_scatter(Lowering *lower); // a SCATTER_ADD value
// scatter.c: adds what a SCATTER_ADD value sums to the buffer, which begins with zeros.
// Requires: its arguments have homes, or are immediate.
void lower_sums_at(Lowering *lower, const Value *value, uint16_t sums, NodeList *into);
// schedule NULL: the one that the model of it finds fastest. false: better lowered as rows.
bool lower_contract(Lowering *lower, const ContractSchedule *schedule);
// A streamed group. false: the plan cannot do it.
bool lower_stream(Lowering *lower, const StreamSchedule *schedule);
void stream_shape(const Lowering *lower, StreamShape *shape);
// together.c: contractions of the kernel that read one wide value run head by head.
void lower_together(Lowering *lower);
// pieces.c: calls for each stage of the complete kernel, in running order; length: by kernel dim,
// typical of the piece that the stage works on.
typedef void StageVisit(void *self, Stage *stage, const int64_t *length);
void lower_each_stage(Lowering *lower, StageVisit *visit, void *self);
// along.c: stages that only store run along what they store.
void lower_along(Lowering *lower);
// scalars.c: stages over few numbers that were stored one by one run without lanes.
void lower_scalars(Lowering *lower);
// misfit.c: why lower_stream is false for this plan.
PlanMisfit lower_misfit(const Lowering *lower, PlanKind plan);
// kinds.c: any of them, with the schedule that is wanted. false: its plan cannot do a streamed one.
bool lower_kind(Lowering *lower);

// ---- schedules: the one that is wanted, or the default ----
TaskSchedule lower_tasks(Lowering *lower, const TaskShape *shape); // scheduled.c
// What a model of the shapes finds nearly as fast as the fastest, which is the first (scheduled.c).
// Found once for some shapes; their form is what tells them apart.
const ScheduleList *lower_near(const Lowering *lower, const ContractShapes *shapes);
KernelForm lower_shape_form(const ContractShapes *shapes, Arena *arena);
// choose.c. contracting: false: better lowered as rows.
StreamSchedule lower_streaming(Lowering *lower);
bool lower_contracting(Lowering *lower, ContractSchedule *schedule);
void lower_rows_by_cost(Lowering *lower); // lower_rows, in blocks of as many rows as take least
bool lower_takes_wanted(Lowering *lower); // scheduled.c; requires: the shape is set
// scheduled.c: one of these, for the next place. The first is the default.
StageBlocks lower_blocks(Lowering *lower, const StageBlocksList *choices);
// space.c: what the request's choice takes of the part's space, or what it knows for the site; it
// lies in the arena. NULL: neither.
const Schedule *lower_wanted(Arena *arena, const LowerRequest *request, const ScheduleSite *site,
                             Group *part);

#endif
