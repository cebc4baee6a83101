// SPDX-License-Identifier: Apache-2.0
// Stages over fewer numbers than a vector has run one number at a time, where vectors of them would
// stall (tile/forwarding.h), and so would a number out of a vector that is stored under a mask.
//
//     loop n:4                                          loop n:4
//       compute t += x       over n m  lanes=m            compute t += x       over n m  lanes=m
//       compute t = t / 768  over n    lanes=n    ->      compute t = t / 768  over n
//       compute y = x - t    over n m  lanes=m            compute y = x - t    over n m  lanes=m
//
// What takes many cycles for each number goes in vectors all the same.
// Ensures: the same values.
#include "tile/forwarding.h"
#include "tile/lower/lower.h"

// Times its weight that a number alone takes. Measured on an Intel Xeon (6.167.1): layer norms in
// blocks of 2 and 4 rows take 5 to 18% less time than in vectors, of 8 rows 1 to 4%; logarithms of
// 4 rows 0 to 5% more, of 8 rows 2 to 16%.
static const double ALONE = 2;

typedef struct {
    const Machine *machine;
    Forwarding forwarding;
} Pass;

// Less than a vector of numbers, and computed before a vector of them would be there.
static bool is_short(const Pass *p, const Stage *stage, const int64_t *length) {
    double points = 1, cycles = 0;
    for (int i = 0; i < stage->n_dims; i++)
        points *= (double)length[stage->dims[i]];
    for (uint32_t i = 0; i < stage->terms.count; i++)
        if (stage->terms.at[i].kind == TERM_OP)
            cycles += op_cycles_of_one(stage->terms.at[i].op, p->machine);
    return points < machine_lanes(p->machine, sizeof(float)) &&
           ALONE * points * cycles <= FORWARDING_STALL;
}

static void visit(void *self, Stage *stage, const int64_t *length) {
    Pass *p = self;
    if (forwarding_stalls(&p->forwarding, stage) && is_short(p, stage, length))
        stage->lanes = TILE_DIM_NONE;
    forwarding_note(&p->forwarding, stage);
}

void lower_scalars(Lowering *lower) {
    Pass p = {lower->machine, forwarding_new(lower->arena, lower->kernel)};
    lower_each_stage(lower, visit, &p);
}
