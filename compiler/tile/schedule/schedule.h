// SPDX-License-Identifier: Apache-2.0
// Between the files that schedules come from, and lowering, which asks them.
#ifndef ATTC_TILE_SCHEDULE_H
#define ATTC_TILE_SCHEDULE_H

#include "tile/tile.h"

// ---- the default of a shape, and what there is beside it ----
// The default of a streamed group is the cheapest that can be lowered, that of a contraction the
// cheapest of those that a model of it finds nearly as fast as the fastest, which comes first
// (lower/choose.c).
TaskSchedule schedule_tasks(const TaskShape *shape, const Machine *machine);
void schedule_nearest_contract(Arena *arena, const ContractShapes *shapes, const Machine *machine,
                               ScheduleList *into);
static inline bool schedule_has_default_axes(const ContractSchedule *schedule) {
    return !schedule->axes.transposed && !schedule->axes.contiguous_rows;
}
// In a fixed order; of all kinds: schedule_enumerate.
void schedule_enumerate_tasks(Arena *arena, const TaskShape *shape, const Machine *machine,
                              ScheduleList *into);
// The blocks of rows that there are, the one that L1 keeps first; how many they are.
enum { ROW_BLOCKS_MAX = 33 }; // as many as there are powers of two, and two more
int schedule_row_blocks(const RowBlocks *rows, int32_t blocks[ROW_BLOCKS_MAX]);
// The schedule with each of them.
void schedule_enumerate_rows(Arena *arena, const TaskShape *shape, Schedule of, ScheduleList *into);
// May a nest of the shape be cut so? Which numbers are the default depends on a machine's rates.
bool schedule_fits_tasks(const TaskShape *shape, const TaskSchedule *tasks);
void schedule_enumerate_contract(Arena *arena, const ContractShapes *shapes, const Machine *machine,
                                 ScheduleList *into);
void schedule_enumerate_stream(Arena *arena, const StreamSchedule *wanted, const StreamShape *shape,
                               ScheduleList *into);

// ---- fields.c: the numbers and words of schedules ----
typedef struct {
    const char *name;
    size_t offset, size; // in the record
    int64_t least, most;
    double apart;             // how far two values are from each other; 0: by steps of two
    const char *const *words; // by value; NULL: it is a number
} ScheduleField;
typedef struct {
    const ScheduleField *at;
    int count, numbers; // all of them; the first ones, which are what a space is made of
} ScheduleFields;
ScheduleFields schedule_fields(ScheduleKind kind); // of Schedule
ScheduleFields schedule_block_fields(void);        // of StageBlocks
int64_t schedule_field(const void *record, const ScheduleField *field);
void schedule_field_set(void *record, const ScheduleField *field, int64_t value);

// ---- contract_model.c ----
// Lanes that a task keeps when it is widened along a crossing dim: fewer make short packing loops.
enum { CROSSING_LANES = 64 };

// How many batches are packed at once of an operand that is contiguous along them: a line's worth
// (lower/contract.c does so, if there is room). Otherwise 1.
int64_t schedule_batches_at_once(const ContractShape *shape, ContractLast last);

// A contraction kernel as schedules make it, of which only the numbers change: what the search for
// them predicts the time of.
typedef struct ContractModel ContractModel;
ContractModel *contract_model_new(Arena *arena, const ContractShape *shape, const Machine *machine,
                                  bool pack_a, bool pack_b);
// What schedules of contractions are compared by: the mean of the time with all threads and of a
// thread's share of the work, since a kernel may be given fewer threads than it was planned for.
double schedule_mean_seconds(const TileCost *cost, const Machine *machine);
// By the machine's cost model.
double contract_model_seconds(ContractModel *model, const ContractSchedule *schedule);
// About the same, found faster; *same: not about, but the same.
double contract_model_rough(ContractModel *model, const ContractSchedule *schedule, bool *same);
// What the rough seconds do not fall below, found much faster.
double contract_model_floor(ContractModel *model, const ContractSchedule *schedule);

// ---- order.c ----
// Points of a stage that copies what lies in the order of `source`, in vectors along `lanes`: as it
// is read; when the lanes are not its contiguous dim they come inside of that one, and blocks of
// both are read across the lanes where they can (stage_crosses).
TileDimList schedule_copy_order(const TileDimList *source, TileDimId lanes);

// ---- tasks.c: how a nest is cut into tasks ----
enum { SCHEDULE_TASKS_MAX = 64 };
// Pieces of a loop nest of so many points that is worked off in tasks: steps per dim of `dims`
// (outermost first), filled from the innermost dim outwards.
void schedule_pieces(const TileDimList *dims, const int64_t *typical, int64_t points,
                     const TaskSchedule *schedule, int64_t *steps);

#endif
