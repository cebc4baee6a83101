// SPDX-License-Identifier: Apache-2.0
// A walk over the stages of a kernel, with how many positions of each dim they work on at a time.
#include "tile/lower/lower.h"

typedef struct {
    StageVisit *visit;
    void *self;
    int64_t *length;
} Pieces;

static void walk(Pieces *p, const NodeList *body) {
    for (uint32_t i = 0; i < body->count; i++) {
        const Node *node = body->at[i];
        bool loop = node->kind == NODE_LOOP;
        int64_t whole = loop ? p->length[node->dim] : 0;
        if (node->kind == NODE_STAGE)
            p->visit(p->self, node->stage, p->length);
        if (loop && node->step < whole)
            p->length[node->dim] = node->step;
        walk(p, &node->body);
        if (loop)
            p->length[node->dim] = whole;
    }
}

void lower_each_stage(Lowering *lower, StageVisit *visit, void *self) {
    size_t bytes = lower->typical.count * sizeof *lower->typical.at;
    Pieces p = {visit, self, arena_copy(lower->arena, lower->typical.at, bytes)};
    walk(&p, &lower->kernel->body);
}
