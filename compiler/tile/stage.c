// SPDX-License-Identifier: Apache-2.0
// What stages and accesses are, as far as more than one pass asks for it: what a stage writes, how
// its lanes lie in what it reads, how a target cuts its rows.
#include "tile/tile.h"

bool stage_has_dim(const Stage *stage, TileDimId dim) {
    for (int i = 0; i < stage->n_dims; i++)
        if (stage->dims[i] == dim)
            return true;
    return false;
}

bool stage_writes(const Kernel *kernel, const Stage *stage, uint16_t buffer) {
    uint16_t memory = buffer_memory(kernel, buffer);
    if (stage->kind != STAGE_COMPUTE && buffer_memory(kernel, stage->c.buffer) == memory)
        return true;
    for (int i = 0; stage->kind == STAGE_ORDER && i < ORDER_WORK; i++)
        if (buffer_memory(kernel, stage->work[i]) == memory)
            return true;
    for (uint32_t i = 0; i < stage->sinks.count; i++)
        if (buffer_memory(kernel, stage->sinks.at[i].to.buffer) == memory)
            return true;
    return false;
}

bool stage_reads_own(const Kernel *kernel, const Stage *stage) {
    for (uint32_t i = 0; i < stage->terms.count; i++)
        if (stage->terms.at[i].kind == TERM_LOAD &&
            stage_writes(kernel, stage, stage->terms.at[i].load.buffer))
            return true;
    return false;
}

static bool only_sets(const Stage *stage) {
    for (uint32_t i = 0; i < stage->sinks.count; i++)
        if (stage->sinks.at[i].mode != SINK_SET)
            return false;
    return true;
}

static bool fits_transposing(const TileBuffer *buffer) {
    return buffer->panel_dim == TILE_DIM_NONE &&
           (buffer->elem == ELEM_F32 || buffer->elem == ELEM_F16 || buffer->elem == ELEM_BF16 ||
            buffer->elem == ELEM_I32);
}

bool stage_crosses(const Kernel *kernel, const Stage *stage, const Access *access) {
    enum { FEW = 8 }; // positions, for which a block is not worth it; measured
    if (stage->n_dims < 2 || stage->lanes == TILE_DIM_NONE ||
        stage->lanes != stage->dims[stage->n_dims - 1] || access->rank < 2 || access->checked)
        return false;
    TileDimId outside = stage->dims[stage->n_dims - 2];
    int64_t extent = kernel->dims.at[outside].extent;
    if (access->index[access->rank - 1].dim != outside ||
        (extent != EXTENT_DYNAMIC && extent < FEW) ||
        !fits_transposing(&kernel->buffers.at[access->buffer]) || !only_sets(stage) ||
        stage_reads_own(kernel, stage))
        return false;
    int of_lanes = 0, of_outside = 0;
    for (int i = 0; i < access->rank; i++) {
        if (access->index[i].term >= 0)
            return false;
        of_lanes += access->index[i].dim == stage->lanes;
        of_outside += access->index[i].dim == outside;
    }
    return of_lanes == 1 && of_outside == 1;
}

bool stage_sums_lanes(const Stage *stage) {
    return stage->kind == STAGE_CONTRACT && stage->lanes != TILE_DIM_NONE &&
           !access_has_dim(&stage->c, stage->lanes);
}

bool stage_shares_lanes(const Stage *stage) {
    return stage->kind == STAGE_CONTRACT && stage->lanes != TILE_DIM_NONE &&
           access_has_dim(&stage->a, stage->lanes) && access_has_dim(&stage->b, stage->lanes) &&
           access_has_dim(&stage->c, stage->lanes);
}

bool stage_has_microkernel(const Stage *stage) {
    return stage->kind == STAGE_CONTRACT && !stage_sums_lanes(stage) && !stage_shares_lanes(stage);
}

int64_t stage_busy_rows(int vectors) {
    return ceil_div(SUMS_IN_FLIGHT, vectors);
}

// Beyond so many row blocks the wait is small next to their work, and large blocks of b would drive
// out what else is kept.
bool stage_asks_ahead(double row_blocks, double steps, double bytes) {
    enum { ROW_BLOCKS_MAX = 16, STEPS_MIN = 32 };
    return row_blocks <= ROW_BLOCKS_MAX && steps >= STEPS_MIN && bytes <= ASKED_BYTES_MAX;
}

// Somewhat smaller blocks of one size are better than two sizes, since each is a function to
// compile. But a step of k reads vector_bytes of b per rows / 2 cycles, and 16 bytes a cycle are
// what L2 can be expected to deliver.
int64_t stage_even_rows(const Machine *machine, int64_t rows, int64_t most, int vectors) {
    int64_t busy = stage_busy_rows(vectors), fed = machine->vector_bytes / 8, least = most * 2 / 3;
    least = least < busy ? busy : least;
    least = least < fed ? fed : least;
    for (int64_t even = most; even >= least; even--)
        if (rows % even == 0)
            return even;
    return most;
}

bool access_has_dim(const Access *access, TileDimId dim) {
    for (int i = 0; i < access->rank; i++)
        if (access->index[i].dim == dim)
            return true;
    return false;
}

bool access_is_plain(const Access *access) {
    for (int i = 0; i < access->rank; i++) {
        const Index *index = &access->index[i];
        if (index->dim == TILE_DIM_NONE || index->offset || index->term >= 0)
            return false;
    }
    return !access->checked;
}

TileDimId access_panel_dim(const Kernel *kernel, const Access *access) {
    const TileBuffer *buffer = &kernel->buffers.at[access->buffer];
    for (int i = 0; i < access->rank && buffer->panel_dim != TILE_DIM_NONE; i++)
        if (buffer->dims[i] == buffer->panel_dim)
            return access->index[i].dim;
    return TILE_DIM_NONE;
}

bool access_runs_along(const Kernel *kernel, const Access *access, TileDimId dim) {
    TileDimId panel = access_panel_dim(kernel, access);
    if (panel != TILE_DIM_NONE)
        return panel == dim;
    return access->rank && access->index[access->rank - 1].dim == dim;
}

static bool stage_asks(const Kernel *kernel, const Stage *stage) {
    for (uint32_t i = 0; i < stage->terms.count; i++)
        if (stage->terms.at[i].kind == TERM_LOAD &&
            stage_crosses(kernel, stage, &stage->terms.at[i].load))
            return true;
    return stage_has_microkernel(stage);
}

// In microkernels, and for copies across lanes.
static bool nodes_ask(const Kernel *kernel, const NodeList *body) {
    bool ask = false;
    for (uint32_t i = 0; i < body->count && !ask; i++)
        ask = body->at[i]->kind == NODE_STAGE ? stage_asks(kernel, body->at[i]->stage)
                                              : nodes_ask(kernel, &body->at[i]->body);
    return ask;
}

bool kernel_asks_ahead(const Kernel *kernel) {
    return nodes_ask(kernel, &kernel->body);
}
