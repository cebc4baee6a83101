// SPDX-License-Identifier: Apache-2.0
// What tasks may store to an argument: elements of their own, of a part of their own, or in turn.
#include "tile/verify.h"

static bool indexes_by(const Access *access, const TileBuffer *buffer, TileDimId dim) {
    for (int i = 0; i < access->rank; i++)
        if (access->index[i].dim == dim && buffer->dims[i] == dim && !access->index[i].offset &&
            access->index[i].term < 0)
            return true;
    return false;
}

// Is it the range of one part, of those that tasks along the dim have?
static bool is_one_part(const Node *range, TileDimId parts) {
    if (range->kind != NODE_RANGE || range->lo < 0 || range->hi < 0 || range->align != 1)
        return false;
    const Bound *lo = &range->bounds.at[range->lo], *hi = &range->bounds.at[range->hi];
    return lo->kind == BOUND_PART && hi->kind == BOUND_PART && lo->dim == parts &&
           hi->dim == parts && lo->number == 0 && hi->number == 1;
}

// Tasks that have one part each share nothing along the dim that is in parts. What begins with a
// number begins with it for the whole dim.
static bool is_apart(const Checker *c, const Access *access, const Node *task) {
    const TileBuffer *buffer = &c->kernel->buffers.at[access->buffer];
    for (uint32_t l = c->n_parallel; l < c->n_around && task->step == 1; l++)
        if (is_one_part(c->around[l], task->dim) && !buffer->has_initial &&
            indexes_by(access, buffer, c->around[l]->dim))
            return true;
    return false;
}

// Is the access in an ordered loop along the argument, so that its positions belong to one task
// after another? It is the same loop for all that is added to the argument.
static bool is_in_turn(const Checker *c, const Access *access) {
    const TileBuffer *buffer = &c->kernel->buffers.at[access->buffer];
    for (uint32_t l = c->n_parallel; l < c->n_around; l++) {
        const Node *node = c->around[l], **ordered = &c->ordered[access->buffer];
        if (node->kind != NODE_LOOP || node->loop != LOOP_ORDERED ||
            !indexes_by(access, buffer, node->dim) || (*ordered && *ordered != node))
            continue;
        *ordered = node;
        return true;
    }
    return false;
}

bool verify_races(Checker *c, const Access *access) {
    const TileBuffer *buffer = &c->kernel->buffers.at[access->buffer];
    if (buffer->place != PLACE_OUT && buffer->place != PLACE_BOTH)
        return true;
    for (uint32_t l = 0; l < c->n_parallel; l++) {
        TileDimId dim = c->around[l]->dim;
        bool apart = indexes_by(access, buffer, dim) || is_apart(c, access, c->around[l]);
        if (!apart && !(l + 1 == c->n_parallel && is_in_turn(c, access)))
            return verify_broken(c, "tasks along %s would meet in %s", verify_dim_name(c, dim),
                                 buffer->name);
    }
    return true;
}
