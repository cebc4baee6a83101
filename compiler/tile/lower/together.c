// SPDX-License-Identifier: Apache-2.0
// Contractions that follow each other and read one wide value, head by head: where all of the value
// is larger than a cache and a head of it is not, what the second one reads is still there.
//
//     contract O += U * V                     loop h:1
//     contract dV += U * dO         ->          contract O += U * V
//                                               contract dV += U * dO
#include "tile/lower/lower.h"

#include <string.h>

typedef struct {
    Lowering *lower;
    const int64_t *bytes; // by buffer, of scratch
} Together;

// The contraction that a node is, with plain dims alone, perhaps inside of loops of its own.
static const Stage *only_contraction(const NodeList *body, uint32_t at) {
    const Node *node = at < body->count ? body->at[at] : NULL;
    while (node && node->kind == NODE_LOOP && node->loop == LOOP_SEQUENTIAL)
        node = node->body.count == 1 ? node->body.at[0] : NULL;
    const Stage *stage = node && node->kind == NODE_STAGE ? node->stage : NULL;
    bool plain = stage && stage->kind == STAGE_CONTRACT && access_is_plain(&stage->a) &&
                 access_is_plain(&stage->b) && access_is_plain(&stage->c);
    return plain ? stage : NULL;
}

// Is it a stage, or one that runs for each position of the dim already?
static bool opens(const Node *node, TileDimId dim) {
    return node->kind == NODE_STAGE || (node->dim == dim && node->step == 1);
}

// Dims of which every position is computed by itself.
static bool is_batch(const Stage *stage, TileDimId dim) {
    return dim != stage->lanes && access_has_dim(&stage->a, dim) &&
           access_has_dim(&stage->b, dim) && access_has_dim(&stage->c, dim);
}

static bool reads(const Kernel *kernel, const Stage *stage, uint16_t memory) {
    return buffer_memory(kernel, stage->a.buffer) == memory ||
           buffer_memory(kernel, stage->b.buffer) == memory;
}

// Is what both read worth it, of scratch that has the dim?
static bool shares(const Together *t, const Stage *first, const Stage *second, const Access *access,
                   TileDimId dim) {
    const Kernel *kernel = t->lower->kernel;
    const TileBuffer *buffer = &kernel->buffers.at[access->buffer];
    int64_t cache = t->lower->machine->l2_bytes, bytes = t->bytes[access->buffer];
    uint16_t memory = buffer_memory(kernel, access->buffer);
    return buffer->place == PLACE_SCRATCH && bytes > cache &&
           bytes / t->lower->typical.at[dim] <= cache && reads(kernel, second, memory) &&
           !reads(kernel, second, buffer_memory(kernel, first->c.buffer)) &&
           !stage_writes(kernel, second, first->c.buffer) &&
           !stage_writes(kernel, second, first->a.buffer) &&
           !stage_writes(kernel, second, first->b.buffer);
}

static TileDimId shared_dim(const Together *t, const Stage *first, const Stage *second,
                            Node *const *nodes) {
    for (int i = 0; i < first->n_dims; i++) {
        TileDimId dim = first->dims[i];
        if (is_batch(first, dim) && is_batch(second, dim) && opens(nodes[0], dim) &&
            opens(nodes[1], dim) && t->lower->kernel->dims.at[dim].extent != 1 &&
            (shares(t, first, second, &first->a, dim) || shares(t, first, second, &first->b, dim)))
            return dim;
    }
    return TILE_DIM_NONE;
}

static void move_into(Arena *arena, NodeList *body, Node *node) {
    if (node->kind == NODE_STAGE)
        vec_push(arena, body, node);
    for (uint32_t i = 0; i < node->body.count; i++)
        vec_push(arena, body, node->body.at[i]);
}

static void join(Together *t, NodeList *body) {
    Kernel *kernel = t->lower->kernel;
    for (uint32_t i = 0; i < body->count; i++) {
        join(t, &body->at[i]->body);
        const Stage *first = only_contraction(body, i), *second = only_contraction(body, i + 1);
        TileDimId dim =
            first && second ? shared_dim(t, first, second, &body->at[i]) : TILE_DIM_NONE;
        if (dim == TILE_DIM_NONE)
            continue;
        NodeList rest = {0};
        Node *loop = node_loop(kernel, &rest, LOOP_SEQUENTIAL, dim, 1);
        move_into(kernel->arena, &loop->body, body->at[i]);
        move_into(kernel->arena, &loop->body, body->at[i + 1]);
        body->at[i] = loop;
        body->count--;
        memmove(&body->at[i + 1], &body->at[i + 2], (body->count - i - 1) * sizeof *body->at);
    }
}

void lower_together(Lowering *lower) {
    Kernel *kernel = lower->kernel;
    int64_t *bytes = arena_array(lower->arena, int64_t, kernel->buffers.count + 1);
    kernel_scratch_bytes(kernel, lower->typical.at, bytes);
    join(&(Together){lower, bytes}, &kernel->body);
}
