// SPDX-License-Identifier: Apache-2.0
// A program with a projection and attention, on a machine that is made up, and its spaces.
#ifndef ATTC_TESTS_SEARCH_FIXTURE_H
#define ATTC_TESTS_SEARCH_FIXTURE_H

#include "passes_fixture.h"

#include "tune/tune.h"

typedef struct {
    const char *text;
    Session *session;
    Plan *plan;
    int64_t *extents;
    TuneSpaces spaces;
    const Schedule *fastest; // of the last site: others are slower the farther they are from it
    double noise;
    uint64_t seed; // of the noise
} SearchWorld;
SearchWorld search_world(void);                           // whose session is to be freed
const TuneSpace *search_last_space(const SearchWorld *w); // that of attention
// TuneBlocks of a world.
void search_blocks(void *of_world, const Schedule *const *picks, ScheduleList *lists, Arena *arena);

#endif
