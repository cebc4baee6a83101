// SPDX-License-Identifier: Apache-2.0
// Programs through all passes to tile programs, which the tile interpreter runs and the oracle
// judges on the same numbers.
#ifndef ATTC_TESTS_LOWER_FIXTURE_H
#define ATTC_TESTS_LOWER_FIXTURE_H

#include "passes_fixture.h"

#include "tile/tile.h"

// A machine with tiny caches, so that small tensors are cut into many blocks, and a usual one.
extern const Machine lower_small, lower_large;

enum { LOWER_EXTENTS = 4 };
typedef struct {
    const Machine *machine;
    int64_t typical;                // what dynamic dims are scheduled for,
    int64_t dynamic[LOWER_EXTENTS]; // and what they are, one after the other, up to a 0,
    int64_t t;                      // a dim called t excepted; 0: no exception
    PlanKind plan;                  // of streamed groups
    double within;                  // of the largest result; 0: what its element type allows
    ScheduleChoice *choose;         // NULL: the default schedules
    void *self;
} LowerCheck;
// `built` is what graph_build makes. false: the plan is none for it.
bool lower_check(const Graph *built, const LowerCheck *check);

#endif
