// SPDX-License-Identifier: Apache-2.0
// The schedule of a space that is the nearest to another.
#include <math.h>

#include "tune/tune.h"

// Places whose blocks differ, of those that both have, and prefetch.
static double differing_blocks(const Schedule *a, const Schedule *b) {
    double count = a->prefetch != b->prefetch;
    for (uint32_t i = 0; i < a->blocks.count && i < b->blocks.count; i++)
        count += !schedule_same_blocks(&a->blocks.at[i], &b->blocks.at[i]);
    return count;
}

uint32_t tune_nearest(const ScheduleList *space, const Schedule *wanted) {
    uint32_t nearest = 0;
    double least = INFINITY;
    for (uint32_t i = 0; i < space->count; i++) {
        const Schedule *s = &space->at[i];
        double far = s->kind == wanted->kind
                         ? schedule_distance(s, wanted) + differing_blocks(s, wanted)
                         : INFINITY;
        if (far < least) {
            least = far;
            nearest = i;
        }
    }
    return nearest;
}
