// SPDX-License-Identifier: Apache-2.0
// Reductions and pointwise values along rows, as a few stages over each row:
//
//     top = max x; e = exp(x - top); z = sum e; y = e / z        # x[n m], rows n, reduced m
//
//     parallel n:64
//       loop n:8
//         scratch top[n], e[n m], z[n], inv[n]
//         compute top max= x           over n m  lanes=m         # level 0
//         compute e = exp(x - top)     over n m  lanes=m         # level 1
//                 z += e
//         compute inv = 1 / z          over n    lanes=n         # level 2
//         compute y = e * inv          over n m  lanes=m
//
// One nest (nest.h): a contraction that comes here has no reuse that blocking could use. Dot
// products of arguments with one vector are a contraction stage with summed lanes, all others sums
// of products.
//
// In parts, a task is one part, whose sums begin with nothing:
//
//     parallel part:1
//       range n from part(part) up to part(part+1)
//         compute p += x               over part n  lanes=n
//
// Requires: row dims (those that every output has) are never reduced. Ensures: tasks are pieces of
// the row dims; without such dims there is one task.
#include "tile/lower/nest.h"
#include "tile/schedule/schedule.h"

// Rows of a turn at most. Measured on an AMD EPYC (25.1.1): norms of 8192 x 32 and 2048 x 64 take
// 4% less in 32 rows than in 16, as they do in 64.
enum { ROWS_MAX = 64 };

// Stages along rows take about twice their weight: waiting for loads and for reductions.
static const double STALLS = 2;

static TileDimId contiguous_dim(const Lowering *lower, uint32_t buffer) {
    const TileBuffer *b = &lower->kernel->buffers.at[buffer];
    return b->rank ? b->dims[b->rank - 1] : TILE_DIM_NONE;
}

// Dims of the boxes that the members work on.
static DimSet worked_dims(const Lowering *lower) {
    DimSet dims = 0;
    for (uint32_t i = 0; i < lower->group->members.count; i++) {
        const Value *member = lower->group->members.at[i];
        dims |= lower_dim_set(lower, &member->dims);
        for (uint32_t a = 0; value_reduces(member) && a < member->n_args; a++)
            dims |= lower_dim_set(lower, &member->args[a]->dims);
    }
    return dims;
}

// The dim along which most elements lie side by side; results count twice, a strided store is
// worse.
static TileDimId choose_lanes(const Lowering *lower) {
    TileDimId best = TILE_DIM_NONE;
    double most = 0;
    DimSet all = worked_dims(lower);
    for (TileDimId d = 0; d < lower->kernel->dims.count; d++) {
        double weight = 0;
        for (uint32_t b = 0; b < lower->kernel->n_args && set_has(all, d); b++)
            if (contiguous_dim(lower, b) == d)
                weight += (double)lower_volume(lower, lower_buffer_set(lower, (uint16_t)b)) *
                          (lower->kernel->buffers.at[b].place == PLACE_OUT ? 2 : 1);
        // a dim too short for vectors is only good when there is nothing else
        int64_t extent = lower->typical.at[d];
        weight *= extent >= 8 ? 1 : (double)extent / 16;
        if (weight > most) {
            most = weight;
            best = d;
        }
    }
    return best;
}

static uint32_t largest_buffer(const Lowering *lower) {
    uint32_t best = 0;
    int64_t most = 0;
    for (uint32_t b = 0; b < lower->kernel->n_args; b++) {
        int64_t volume = lower_volume(lower, lower_buffer_set(lower, (uint16_t)b));
        if (volume >= most) {
            most = volume;
            best = b;
        }
    }
    return best;
}

static void choose_order(Nest *nest) {
    const Lowering *lower = nest->lower;
    nest->lanes = choose_lanes(lower);
    TileDimList memory = {0};
    if (lower->kernel->n_args)
        memory = lower_buffer_dims(lower, (uint16_t)largest_buffer(lower));
    DimSet lanes = nest->lanes == TILE_DIM_NONE ? 0 : set_of(nest->lanes);
    nest->order = lower_order(nest->rows & ~lanes, &memory);
    lower_order_rest(lower, lower_all_dims(lower) & ~nest->rows & ~lanes, &memory, &nest->order);
    if (lanes)
        nest->order.at[nest->order.count++] = nest->lanes;
}

// Seconds that all rows take: vector operations of every stored value, and memory traffic.
static double rows_seconds(const Nest *nest) {
    const Lowering *lower = nest->lower;
    const Machine *machine = lower->machine;
    double lanes = machine_lanes(machine, sizeof(float)), cycles = 0;
    for (uint32_t i = 0; i < nest->members.count; i++) {
        const Member *m = &nest->members.at[i];
        if (m->stored)
            cycles += (double)lower_volume(lower, m->box) * (STALLS * m->cost + 1) / lanes;
    }
    double seconds = cycles * machine_cycle(machine);
    for (uint32_t b = 0; b < lower->kernel->n_args; b++)
        seconds += (double)lower_volume(lower, lower_buffer_set(lower, (uint16_t)b)) *
                   (double)elem_bytes(lower->kernel->buffers.at[b].elem) /
                   machine->l3_bytes_per_second;
    return seconds;
}

static void choose_pieces(Nest *nest, const TileDimList *rows) {
    Lowering *lower = nest->lower;
    int64_t steps[TILE_RANK_MAX];
    TaskShape shape = {.seconds = rows_seconds(nest)};
    if (rows->count)
        shape.rows = nest_row_blocks(nest, 0, ROWS_MAX);
    TaskSchedule tasks = lower_tasks(lower, &shape);
    schedule_pieces(rows, lower->typical.at, lower_volume(lower, nest->rows), &tasks, steps);
    nest->block = tasks.rows;
    for (int i = 0; i < rows->count; i++) {
        TileDimId d = rows->at[i];
        int64_t step = steps[i], typical = lower->typical.at[d];
        if (d == nest->block_dim && step < typical) {
            int64_t block = nest->block < typical ? nest->block : typical;
            step = round_up(step, block);
        }
        nest->steps[d] = step;
    }
}

static NodeList *open_pieces(Nest *nest, const TileDimList *rows) {
    Kernel *kernel = nest->lower->kernel;
    NodeList *into = &kernel->body;
    choose_pieces(nest, rows);
    for (int i = 0; i < rows->count; i++) {
        TileDimId d = rows->at[i];
        if (nest->steps[d] != kernel->dims.at[d].extent)
            into = &node_loop(kernel, into, LOOP_PARALLEL, d, nest->steps[d])->body;
    }
    return into;
}

// Row dims that every result has.
static DimSet common_rows(const Lowering *lower) {
    DimSet rows = ~(DimSet)0, reduced = 0;
    for (uint32_t i = 0; i < lower->group->outputs.count; i++)
        rows &= lower_dim_set(lower, &lower->group->outputs.at[i]->dims);
    for (uint32_t i = 0; i < lower->group->members.count; i++) {
        const Value *member = lower->group->members.at[i];
        if (op_kind(member->op) == KIND_ROW)
            reduced |= set_of(lower->dim_of[member->dim]);
        for (uint32_t a = 0; value_reduces(member) && a < member->n_args; a++)
            reduced |=
                lower_dim_set(lower, &member->args[a]->dims) & ~lower_dim_set(lower, &member->dims);
    }
    return rows & ~reduced;
}

// Few rows: a task has all of them, of one part.
static NodeList *open_part(Nest *nest, const TileDimList *rows) {
    const Lowering *lower = nest->lower;
    for (int i = 0; i < rows->count; i++)
        nest->steps[rows->at[i]] = lower->typical.at[rows->at[i]];
    return nest_open_part(nest, &lower->kernel->body);
}

void lower_rows(Lowering *lower) {
    Nest nest = {.lower = lower, .plain = true, .dots = true, .block_dim = TILE_DIM_NONE};
    nest.rows = common_rows(lower);
    choose_order(&nest);
    DimSet lanes = nest.lanes == TILE_DIM_NONE ? 0 : set_of(nest.lanes) & nest.rows;
    TileDimList rows = lower_order(nest.rows & ~lanes, &nest.order);
    if (lanes)
        rows.at[rows.count++] = nest.lanes;
    nest.block_dim = dims_last_of(&rows);
    for (int i = 0; i < rows.count; i++)
        nest.steps[rows.at[i]] = lower->typical.at[rows.at[i]];
    for (uint32_t i = 0; i < lower->group->outputs.count; i++)
        vec_push(lower->arena, &nest.wanted, lower->group->outputs.at[i]);
    lower_designate_outputs(lower);
    bool parts = lower_cut_dim(lower) != TILE_DIM_NONE;
    if (parts)
        nest.narrowed = set_of(lower_cut_dim(lower));
    nest_analyse(&nest);
    nest_emit(&nest, parts ? open_part(&nest, &rows) : open_pieces(&nest, &rows));
    lower_along(lower);
    lower_scalars(lower);
}
