// SPDX-License-Identifier: Apache-2.0
// A contraction kernel with its packing, without prologue and epilogue, built once for a shape:
//
//     parallel batch lanes rows
//       scratch T[rows lanes]           (where the sums are not made in the result)
//       loop k
//         loop batch:1
//           scratch P[k lanes%]   compute P = B
//           loop rows             (block_rows)
//             scratch R[rows k]   compute R = A
//             contract T += R * P
//       compute C = T
//
// Of several row or lane dims all but the main one are taken together as one dim. A schedule is
// written into its steps and blocks, and the cost model does the rest: hundreds are compared by
// rough walks, and few of them with all their remainders.
#include "tile/schedule/schedule.h"

struct ContractModel {
    const ContractShape *shape;
    const Machine *machine;
    Kernel *kernel;
    int64_t extents[6];
    Node *tasks[6]; // by dim
    Node *block_k, *block_rows;
    Stage *contract;
    int packed_a, packed_b; // buffers, or -1
};

enum { BATCH, LANES_OUTER, LANES, ROWS_OUTER, ROWS, SUMMED };

static void add_dims(ContractModel *x) {
    static const char *const names[] = {"batch", "lanes_outer", "lanes", "rows_outer", "rows", "k"};
    const ContractShape *shape = x->shape;
    const int64_t extents[] = {
        shape->batch,      (shape->lanes + shape->main_lanes - 1) / shape->main_lanes,
        shape->main_lanes, (shape->rows + shape->main_rows - 1) / shape->main_rows,
        shape->main_rows,  shape->k};
    for (int i = 0; i < 6; i++) {
        bool known = i != ROWS || shape->rows_known;
        x->extents[i] = extents[i];
        kernel_add_dim(x->kernel, names[i], known ? extents[i] : EXTENT_DYNAMIC);
    }
}

// Memory order of an operand: `outer` and `main_dim` are its own dims.
static TileDimList order_of(ContractLast last, TileDimId outer, TileDimId main_dim) {
    switch (last) {
    case LAST_SUMMED:
        return TILE_DIMS(BATCH, outer, main_dim, SUMMED);
    case LAST_MAIN:
        return TILE_DIMS(BATCH, outer, SUMMED, main_dim);
    case LAST_OTHER:
        return TILE_DIMS(BATCH, SUMMED, main_dim, outer);
    case LAST_BATCH:
        return TILE_DIMS(outer, main_dim, SUMMED, BATCH);
    }
    ice("contract model: operand of order %d", last);
}

// A copy of an operand, made in the order of what is read: in panels, unless rows of k are copied
// as they lie. What is contiguous along the batches is packed for all of a task's at once.
static int add_packing(ContractModel *x, NodeList *into, uint16_t from, ContractLast last,
                       TileDimId outer, TileDimId main_dim, bool panels) {
    Elem elem = x->kernel->buffers.at[from].elem;
    TileDimList dims =
        panels ? TILE_DIMS(outer, SUMMED, main_dim) : TILE_DIMS(outer, main_dim, SUMMED);
    if (last == LAST_BATCH)
        dims = panels ? TILE_DIMS(BATCH, outer, SUMMED, main_dim)
                      : TILE_DIMS(BATCH, outer, main_dim, SUMMED);
    uint16_t to = panels ? node_scratch_panel(x->kernel, into, "packed", elem, dims, main_dim, 1)
                         : node_scratch(x->kernel, into, "packed", elem, dims);
    TileDimId lanes = panels ? main_dim : (TileDimId)SUMMED;
    TileDimList read = order_of(last, outer, main_dim);
    Stage *stage = node_compute(x->kernel, into, schedule_copy_order(&read, lanes), lanes);
    int32_t term = stage_load(x->kernel, stage, access_plain(x->kernel, from));
    stage_sink(x->kernel, stage, SINK_SET, access_plain(x->kernel, to), term);
    return to;
}

static void pack_b(ContractModel *x, NodeList *into, uint16_t b) {
    x->packed_b = add_packing(x, into, b, x->shape->b_last, LANES_OUTER, LANES, true);
}

static void pack_a(ContractModel *x, NodeList *into, uint16_t a) {
    ContractLast last = x->shape->a_last;
    x->packed_a = add_packing(x, into, a, last, ROWS_OUTER, ROWS, last != LAST_SUMMED);
}

static void add_contract(ContractModel *x, NodeList *into, uint16_t a, uint16_t b, uint16_t c) {
    Kernel *kernel = x->kernel;
    TileDimList dims = TILE_DIMS(BATCH, LANES_OUTER, LANES, ROWS_OUTER, ROWS, SUMMED);
    uint16_t from_a = x->packed_a < 0 ? a : (uint16_t)x->packed_a;
    uint16_t from_b = x->packed_b < 0 ? b : (uint16_t)x->packed_b;
    x->contract = node_contract(kernel, into, dims, access_plain(kernel, c),
                                access_plain(kernel, from_a), access_plain(kernel, from_b));
    x->contract->rows = ROWS;
    x->contract->lanes = LANES;
    x->contract->in_order = x->shape->in_order;
}

static void copy_tile(ContractModel *x, NodeList *into, uint16_t tile, uint16_t c) {
    TileDimList read = TILE_DIMS(BATCH, ROWS_OUTER, ROWS, LANES_OUTER, LANES);
    TileDimId lanes = x->shape->turned ? (TileDimId)ROWS : (TileDimId)LANES;
    Stage *stage = node_compute(x->kernel, into, schedule_copy_order(&read, lanes), lanes);
    int32_t term = stage_load(x->kernel, stage, access_plain(x->kernel, tile));
    stage_sink(x->kernel, stage, SINK_SET, access_plain(x->kernel, c), term);
}

static void add_blocks(ContractModel *x, NodeList *into, uint16_t a, uint16_t b, uint16_t c,
                       bool packs_a, bool packs_b) {
    const ContractShape *shape = x->shape;
    Kernel *kernel = x->kernel;
    x->block_k = node_loop(kernel, into, LOOP_SEQUENTIAL, SUMMED, 1);
    into = &x->block_k->body;
    bool b_early = shape->b_last == LAST_BATCH, a_early = shape->a_last == LAST_BATCH;
    if (packs_b && b_early)
        pack_b(x, into, b);
    if (packs_a && a_early)
        pack_a(x, into, a);
    into = &node_loop(kernel, into, LOOP_SEQUENTIAL, BATCH, 1)->body;
    if (packs_b && !b_early)
        pack_b(x, into, b);
    bool crossing = packs_a && shape->a_last == LAST_OTHER;
    if (!crossing)
        into = &node_loop(kernel, into, LOOP_SEQUENTIAL, ROWS_OUTER, 1)->body;
    x->block_rows = node_loop(kernel, into, LOOP_SEQUENTIAL, ROWS, 1);
    into = &x->block_rows->body;
    if (packs_a && !a_early)
        pack_a(x, into, a);
    if (crossing)
        into = &node_loop(kernel, into, LOOP_SEQUENTIAL, ROWS_OUTER, 1)->body;
    add_contract(x, into, a, b, c);
}

ContractModel *contract_model_new(Arena *arena, const ContractShape *shape, const Machine *machine,
                                  bool packs_a, bool packs_b) {
    ContractModel *x = arena_new_of(arena, ContractModel);
    *x = (ContractModel){.shape = shape, .machine = machine, .packed_a = -1, .packed_b = -1};
    Kernel *kernel = x->kernel = kernel_new(arena, "contract");
    Elem elem = shape->elem_bytes == 8 ? ELEM_F64 : ELEM_F32;
    add_dims(x);
    uint16_t a =
        kernel_add_argument(kernel, "A", elem, PLACE_IN, order_of(shape->a_last, ROWS_OUTER, ROWS));
    uint16_t b = kernel_add_argument(kernel, "B", elem, PLACE_IN,
                                     order_of(shape->b_last, LANES_OUTER, LANES));
    TileDimList made = TILE_DIMS(BATCH, ROWS_OUTER, ROWS, LANES_OUTER, LANES);
    TileDimList turned = TILE_DIMS(BATCH, LANES_OUTER, LANES, ROWS_OUTER, ROWS);
    uint16_t c = kernel_add_argument(kernel, "C", elem, PLACE_OUT, shape->turned ? turned : made);
    NodeList *into = &kernel->body;
    for (TileDimId d = BATCH; d < SUMMED; d++) {
        x->tasks[d] = node_loop(kernel, into, LOOP_PARALLEL, d, 1);
        into = &x->tasks[d]->body;
    }
    uint16_t sums = shape->tile ? node_scratch(kernel, into, "tile", elem, made) : c;
    add_blocks(x, into, a, b, sums, packs_a, packs_b);
    if (shape->tile)
        copy_tile(x, into, sums, c);
    return x;
}

// Tasks of `piece` positions of a class: the main dim is filled first, or where b is contiguous
// along another one, that one as long as `unit` positions of the main dim are left.
static void set_tasks(ContractModel *x, int outer, int main_dim, int64_t piece, int64_t unit) {
    int64_t least = unit ? unit : x->extents[main_dim];
    int64_t cover = clamp(piece / clamp(least, 1, piece), 1, x->extents[outer]);
    x->tasks[outer]->step = cover;
    x->tasks[main_dim]->step = clamp(ceil_div(piece, cover), 1, x->extents[main_dim]);
}

int64_t schedule_batches_at_once(const ContractShape *shape, ContractLast last) {
    int64_t line = MACHINE_LINE / (int64_t)shape->elem_bytes;
    return last == LAST_BATCH ? clamp(shape->last_batch, 1, line) : 1;
}

static void set_schedule(ContractModel *x, const ContractSchedule *s) {
    bool packs_a = x->packed_a >= 0, packs_b = x->packed_b >= 0;
    int64_t of_a = packs_a ? schedule_batches_at_once(x->shape, x->shape->a_last) : 1;
    int64_t of_b = packs_b ? schedule_batches_at_once(x->shape, x->shape->b_last) : 1;
    int64_t at_once = of_a > of_b ? of_a : of_b;
    int64_t unit = s->lane_block > CROSSING_LANES ? s->lane_block : CROSSING_LANES;
    x->tasks[BATCH]->step = s->task_batch > at_once ? s->task_batch : at_once;
    set_tasks(x, LANES_OUTER, LANES, s->task_lanes,
              x->shape->b_last == LAST_OTHER && packs_b ? unit : 0);
    set_tasks(x, ROWS_OUTER, ROWS, s->task_rows,
              x->shape->a_last == LAST_OTHER && packs_a ? s->row_block : 0);
    x->block_k->step = s->block_k;
    x->block_rows->step = s->block_rows;
    x->contract->row_block = s->row_block;
    x->contract->lane_block = s->lane_block;
    if (packs_b)
        x->kernel->buffers.at[x->packed_b].panel_width = s->lane_block;
    if (packs_a && x->kernel->buffers.at[x->packed_a].panel_dim != TILE_DIM_NONE)
        x->kernel->buffers.at[x->packed_a].panel_width = s->row_block;
}

double schedule_mean_seconds(const TileCost *cost, const Machine *machine) {
    return (cost->parallel_seconds + cost->seconds / machine->threads) / 2;
}

double contract_model_seconds(ContractModel *x, const ContractSchedule *s) {
    set_schedule(x, s);
    TileCost cost = tile_cost(NULL, x->kernel, x->extents, x->machine);
    return schedule_mean_seconds(&cost, x->machine);
}

static TileCost rough_cost(ContractModel *x, const ContractSchedule *s, bool floor) {
    set_schedule(x, s);
    return tile_cost_rough(x->kernel, x->extents, x->machine, floor);
}

double contract_model_rough(ContractModel *x, const ContractSchedule *s, bool *same) {
    TileCost cost = rough_cost(x, s, false);
    *same = !cost.is_rough;
    return schedule_mean_seconds(&cost, x->machine);
}

double contract_model_floor(ContractModel *x, const ContractSchedule *s) {
    TileCost cost = rough_cost(x, s, true);
    return schedule_mean_seconds(&cost, x->machine);
}
