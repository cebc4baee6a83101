// SPDX-License-Identifier: Apache-2.0
// Stages over fewer numbers than a vector has run one number at a time where those were stored so
// (tile/singles.h), or a number out of a vector that was stored under a mask would wait as well.
//
//     loop n:4                                          loop n:4
//       compute t += x       over n m  lanes=m            compute t += x       over n m  lanes=m
//       compute t = t / 768  over n    lanes=n    ->      compute t = t / 768  over n
//       compute y = x - t    over n m  lanes=m            compute y = x - t    over n m  lanes=m
//
// What takes many cycles for each number goes in vectors all the same.
#include "tile/singles.h"
#include "tile/lower/lower.h"

// Cycles of all numbers of a stage that are worth not to wait. Measured on an Intel Xeon (6.167.1):
// layer norms in blocks of 2 and 4 rows take 5 to 18% less time than in vectors, of 8 rows 1 to 4%;
// logarithms of 4 rows 0 to 5% more, of 8 rows 2 to 16%.
static const double WORTH = 52;

typedef struct {
    Singles singles;
    int64_t *length; // of a piece, by dim
    int lanes;       // of a vector
} Pass;

// Less than a vector of numbers, and soon computed.
static bool is_short(const Pass *p, const Stage *stage) {
    double points = 1, cycles = 0;
    for (int i = 0; i < stage->n_dims; i++)
        points *= (double)p->length[stage->dims[i]];
    for (uint32_t i = 0; i < stage->terms.count; i++)
        if (stage->terms.at[i].kind == TERM_OP)
            cycles += op_weight_of_one(stage->terms.at[i].op);
    return points < p->lanes && points * cycles <= WORTH;
}

static void visit(Pass *p, const NodeList *body) {
    for (uint32_t i = 0; i < body->count; i++) {
        const Node *node = body->at[i];
        if (node->kind == NODE_STAGE) {
            if (singles_gathered(&p->singles, node->stage) && is_short(p, node->stage))
                node->stage->lanes = TILE_DIM_NONE;
            singles_note(&p->singles, node->stage);
        }
        int64_t whole = node->kind == NODE_LOOP ? p->length[node->dim] : 0;
        if (node->kind == NODE_LOOP && node->step < whole)
            p->length[node->dim] = node->step;
        visit(p, &node->body);
        if (node->kind == NODE_LOOP)
            p->length[node->dim] = whole;
    }
}

void lower_singles(Lowering *lower) {
    const Kernel *kernel = lower->kernel;
    Pass p = {.singles = singles_new(lower->arena, kernel),
              .length = arena_copy(lower->arena, lower->typical.at,
                                   lower->typical.count * sizeof *lower->typical.at),
              .lanes = machine_lanes(lower->machine, sizeof(float))};
    visit(&p, &kernel->body);
}
