// SPDX-License-Identifier: Apache-2.0
// A contraction kernel as schedules make it, of which only the numbers change: what the search for
// them predicts the time of.
#ifndef ATTC_TILE_SCHEDULE_H
#define ATTC_TILE_SCHEDULE_H

#include "tile/tile.h"

// Lanes that a task keeps when it is widened along a crossing dim: fewer make short packing loops.
enum { CROSSING_LANES = 64 };

// How many batches are packed at once of an operand that is contiguous along them: a line's worth
// (lower/contract.c does so, if there is room). Otherwise 1.
int64_t schedule_batches_at_once(const ContractShape *shape, ContractLast last);

typedef struct ContractModel ContractModel;
ContractModel *contract_model_new(Arena *arena, const ContractShape *shape, const Machine *machine,
                                  bool pack_a, bool pack_b);
// What schedules of contractions are compared by: the mean of the time with all threads and of a
// thread's share of the work, since a kernel may be given fewer threads than it was planned for.
double schedule_mean_seconds(const TileCost *cost, const Machine *machine);
// By the machine's cost model.
double contract_model_seconds(ContractModel *model, const ContractSchedule *schedule);
// Seconds that it does not fall below, found much faster.
double contract_model_floor(ContractModel *model, const ContractSchedule *schedule);

// ---- order.c ----
// Points of a stage that copies what lies in the order of `source`, in vectors along `lanes`: as it
// is read; when the lanes are not its contiguous dim they come inside of that one, and blocks of
// both are read across the lanes where they can (stage_crosses).
TileDimList schedule_copy_order(const TileDimList *source, TileDimId lanes);

// ---- schedule.c: how a nest is cut into tasks ----
enum { SCHEDULE_TASKS_MAX = 64 };
// The piece when `extent` is cut into equal parts of at most `most`, in multiples of unit.
static inline int64_t schedule_equal_piece(int64_t extent, int64_t most, int64_t unit) {
    if (most >= extent)
        return extent;
    return round_up(ceil_div(extent, ceil_div(extent, most)), unit);
}
// Pieces of a loop nest of so many points that is worked off in tasks: steps per dim of `dims`
// (outermost first), filled from the innermost dim outwards.
void schedule_pieces(const TileDimList *dims, const int64_t *typical, int64_t points,
                     const TaskSchedule *schedule, int64_t *steps);

#endif
