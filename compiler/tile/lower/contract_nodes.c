// SPDX-License-Identifier: Apache-2.0
// The nodes of a contraction kernel, outermost first: tasks, blocks of the summed dims, packing,
// batches, blocks of rows, the contract stage; after them, or after each block of rows of the last
// block of the sum, the epilogue. contract.c shows the whole.
#include "tile/lower/contract.h"

#include "tile/schedule/schedule.h"

static DimSet other_rows(const Contract *x) {
    return x->rows == TILE_DIM_NONE ? 0 : x->rows_all & ~set_of(x->rows);
}

static bool is_whole(const Contract *x, TileDimId dim, int64_t step) {
    return x->lower->kernel->dims.at[dim].extent == step;
}

static NodeList *open_parallel(Contract *x, NodeList *into) {
    DimSet classes[] = {x->batch, x->lanes_all, x->rows_all};
    for (int c = 0; c < 3; c++) {
        TileDimList order = lower_order(classes[c], &x->result_order);
        for (int i = 0; i < order.count; i++)
            if (!is_whole(x, order.at[i], x->steps[order.at[i]]))
                into = &node_loop(x->lower->kernel, into, LOOP_PARALLEL, order.at[i],
                                  x->steps[order.at[i]])
                            ->body;
    }
    return into;
}

// Loops that leave one position of each dim, unless its task piece is one already.
static NodeList *open_single(Contract *x, DimSet dims, NodeList *into) {
    TileDimList order = lower_order(dims, &x->result_order);
    for (int i = 0; i < order.count; i++)
        if (x->steps[order.at[i]] != 1)
            into = &node_loop(x->lower->kernel, into, LOOP_SEQUENTIAL, order.at[i], 1)->body;
    return into;
}

// Blocks of the summed dims: the inner ones whole as long as they fit and their extent is known,
// then one in blocks, then the outer ones one by one. Returns how many are not whole.
static int block_steps(const Contract *x, int64_t *steps) {
    const Kernel *kernel = x->lower->kernel;
    int64_t room = x->schedule.block_k;
    int cut = 0;
    for (int i = x->k.count; i-- > 0;) {
        int64_t extent = kernel->dims.at[x->k.at[i]].extent;
        if (extent != EXTENT_DYNAMIC && extent <= room) {
            steps[i] = extent;
            room /= extent;
            continue;
        }
        int64_t parts = extent == EXTENT_DYNAMIC ? 1 : ceil_div(extent, room);
        steps[i] = extent == EXTENT_DYNAMIC ? room : ceil_div(extent, parts);
        if (i == x->k.count - 1 && parts > 1)
            steps[i] = (steps[i] + 7) / 8 * 8;
        room = 1;
    }
    for (int i = 0; i < x->k.count; i++)
        cut += !is_whole(x, x->k.at[i], steps[i]);
    return cut;
}

static NodeList *open_blocks(Contract *x, const int64_t *steps, NodeList *into) {
    for (int i = 0; i < x->k.count; i++)
        if (!is_whole(x, x->k.at[i], steps[i]))
            into = &node_loop(x->lower->kernel, into, LOOP_SEQUENTIAL, x->k.at[i], steps[i])->body;
    return into;
}

static void pack_operand(Contract *x, NodeList *into, const Value *value, const TileDimList *source,
                         uint16_t scratch, TileDimId lanes, bool pad) {
    Lowering *lower = x->lower;
    DimSet dims =
        lower_buffer_set(lower, scratch) | (lower_dim_set(lower, &value->dims) & x->batch);
    TileDimList read = lower_order(dims, source);
    Stage *stage = node_compute(lower->kernel, into, schedule_copy_order(&read, lanes), lanes);
    TermBuilder terms = terms_open(lower, stage);
    int32_t term = terms_cast(&terms, terms_value(&terms, value), x->elem);
    if (value_factor_moves(x->c) && !x->scaled) {
        int32_t factor = stage_const(lower->kernel, stage, x->c->number, x->elem);
        term = stage_op(lower->kernel, stage, OP_MUL, x->elem, term, factor, -1);
    }
    terms_store(&terms, SINK_SET, scratch, term);
    stage->pad = pad;
}

static void pack_b(Contract *x, NodeList *into) {
    Lowering *lower = x->lower;
    TileDimList dims = lower_order(x->b_early ? x->batch : 0, &x->result_order);
    TileDimList others = lower_order(x->lanes_all & ~set_of(x->lanes), &x->result_order);
    dims_append(&dims, &others);
    dims_append(&dims, &x->k);
    dims_append(&dims, &TILE_DIMS(x->lanes));
    uint16_t scratch = node_scratch_panel(lower->kernel, into, "packed_b", x->elem, dims, x->lanes,
                                          x->schedule.lane_block);
    pack_operand(x, into, x->b, &x->b_source, scratch, x->lanes, true);
    x->b_access = access_plain(lower->kernel, scratch);
    x->scaled = value_factor_moves(x->c);
}

// A row operand that is contiguous along the summed dims is copied as it lies (the copy converts or
// computes the prologue); any other is packed in panels of rows.
static void pack_a(Contract *x, NodeList *into) {
    Lowering *lower = x->lower;
    bool panels = x->rows != TILE_DIM_NONE && !set_has(x->summed, dims_last_of(&x->a_source));
    TileDimList dims = lower_order(x->a_early ? x->batch : 0, &x->result_order);
    TileDimList others = lower_order(other_rows(x), &x->result_order);
    dims_append(&dims, &others);
    uint16_t scratch;
    if (panels) {
        dims_append(&dims, &x->k);
        dims_append(&dims, &TILE_DIMS(x->rows));
        scratch = node_scratch_panel(lower->kernel, into, "packed_a", x->elem, dims, x->rows,
                                     x->schedule.row_block);
    } else {
        if (x->rows != TILE_DIM_NONE)
            dims_append(&dims, &TILE_DIMS(x->rows));
        dims_append(&dims, &x->k);
        scratch = node_scratch(lower->kernel, into, "packed_a", x->elem, dims);
    }
    pack_operand(x, into, x->a, &x->a_source, scratch, dims_last_of(&dims), panels);
    x->a_access = access_plain(lower->kernel, scratch);
    x->scaled = value_factor_moves(x->c);
}

static void emit_contract(Contract *x, NodeList *into) {
    Kernel *kernel = x->lower->kernel;
    TileDimList dims = lower_order(x->batch | (x->lanes_all & ~set_of(x->lanes)), &x->result_order);
    dims_append(&dims, &TILE_DIMS(x->lanes));
    TileDimList rows = lower_order(other_rows(x), &x->result_order);
    dims_append(&dims, &rows);
    if (x->rows != TILE_DIM_NONE)
        dims_append(&dims, &TILE_DIMS(x->rows));
    dims_append(&dims, &x->k);
    Stage *stage = node_contract(kernel, into, dims, x->c_access, x->a_access, x->b_access);
    stage->lanes = x->lanes;
    stage->rows = x->rows;
    stage->row_block = x->schedule.row_block;
    stage->lane_block = x->schedule.lane_block;
    stage->in_order = x->c->made_for.twice;
}

// Of one block of the summed dims: packing, batches and blocks of rows. Returns where these are.
static NodeList *open_pieces(Contract *x, NodeList *into) {
    const ContractSchedule *s = &x->schedule;
    x->scaled = false;
    if (x->b_early)
        pack_b(x, into);
    if (x->a_early)
        pack_a(x, into);
    into = open_single(x, x->batch, into);
    if (s->pack_b && !x->b_early)
        pack_b(x, into);
    if (x->rows != TILE_DIM_NONE && !x->a_early) {
        if (!x->a_crossing)
            into = open_single(x, other_rows(x), into);
        if (s->block_rows < x->steps[x->rows])
            into =
                &node_loop(x->lower->kernel, into, LOOP_SEQUENTIAL, x->rows, s->block_rows)->body;
    }
    if (s->pack_a && !x->a_early)
        pack_a(x, into);
    return x->a_crossing ? open_single(x, other_rows(x), into) : into;
}

// ---- epilogue ----

// A copy holds the same numbers.
static bool is_same(const Value *value, const Value *c) {
    while (value->op == OP_COPY)
        value = value->args[0];
    return value == c;
}

// Results of the same dims are computed by one stage, in the memory order of the first.
static void emit_epilogue(Contract *x, NodeList *into) {
    Lowering *lower = x->lower;
    const Group *group = lower->group;
    uint32_t first = lower->kernel->n_args - group->outputs.count;
    bool *done = arena_array(lower->arena, bool, group->outputs.count + 1);
    for (uint32_t i = 0; i < group->outputs.count; i++)
        done[i] = is_same(group->outputs.at[i], x->c) && x->result == (int)(first + i);
    for (uint32_t i = 0; i < group->outputs.count; i++) {
        if (done[i])
            continue;
        TileDimList dims = lower_buffer_dims(lower, (uint16_t)(first + i));
        DimSet box = lower_buffer_set(lower, (uint16_t)(first + i));
        Stage *stage = node_compute(lower->kernel, into, dims, dims_last_of(&dims));
        TermBuilder terms = terms_open(lower, stage);
        for (uint32_t k = i; k < group->outputs.count; k++) {
            if (done[k] || lower_buffer_set(lower, (uint16_t)(first + k)) != box)
                continue;
            terms_store(&terms, SINK_SET, (uint16_t)(first + k),
                        terms_value(&terms, group->outputs.at[k]));
            stage->pad |= lower->kernel->buffers.at[first + k].panel_dim != TILE_DIM_NONE;
            done[k] = true;
        }
    }
}

// The place of the sums, where it is not a result's.
static void make_tile(Contract *x, NodeList *into) {
    Lowering *lower = x->lower;
    DimSet dims = lower_dim_set(lower, &x->c->dims) & ~set_of(x->lanes);
    TileDimList order = lower_order(dims, &x->result_order);
    dims_append(&order, &TILE_DIMS(x->lanes));
    uint16_t tile = node_scratch(lower->kernel, into, "tile", x->elem, order);
    x->c_access = access_plain(lower->kernel, tile);
}

// What follows once the sums are whole.
static void finish(Contract *x, NodeList *into) {
    if (x->c->number != 1 && !x->scaled)
        terms_scale_sum(x->lower, x->c, x->c_access.buffer, into);
    lower_set_home(x->lower, x->c, x->c_access.buffer);
    emit_epilogue(x, into);
}

static bool has_epilogue(const Contract *x) {
    const Group *group = x->lower->group;
    bool packs = x->schedule.pack_a || x->schedule.pack_b;
    bool scales = x->c->number != 1 && !(packs && value_factor_moves(x->c));
    return x->result == NO_BUFFER || group->outputs.count > 1 || group->outputs.at[0] != x->c ||
           scales;
}

// Does a task work off its piece of the result in smaller ones?
static bool has_pieces(const Contract *x) {
    DimSet single = x->batch | (x->a_early || x->rows == TILE_DIM_NONE ? 0 : other_rows(x));
    bool any =
        x->rows != TILE_DIM_NONE && !x->a_early && x->schedule.block_rows < x->steps[x->rows];
    for (TileDimId d = 0; d < x->lower->kernel->dims.count; d++)
        any = any || (set_has(single, d) && x->steps[d] != 1);
    return any;
}

// The only summed dim that comes in blocks, of `cut` of them, if its extent is known. -1: there is
// none.
static int only_cut(const Contract *x, const int64_t *steps, int cut) {
    int i = 0;
    while (i < x->k.count && is_whole(x, x->k.at[i], steps[i]))
        i++;
    bool known = cut == 1 && x->lower->kernel->dims.at[x->k.at[i]].extent != EXTENT_DYNAMIC;
    return known ? i : -1;
}

// The last block apart from those before it (a loop of one turn, which gives what is packed the
// room of a block): each piece goes on to the epilogue while it is near, where a task that is swept
// once more lies in L3 or in memory. Measured on an Intel Xeon (6.167.1), 2048 x 768 x 3072: a bias
// 1% and a residual 3% faster, and a fifth and more while other programs use the memory.
static void emit_last_apart(Contract *x, TileDimId dim, int64_t step, NodeList *into) {
    Kernel *kernel = x->lower->kernel;
    int64_t last = (kernel->dims.at[dim].extent - 1) / step * step;
    Bound bound = {.kind = BOUND_NUMBER, .number = last};
    Node *before = node_range(kernel, into, dim), *behind;
    before->hi = range_bound(kernel, before, bound);
    emit_contract(
        x, open_pieces(x, &node_loop(kernel, &before->body, LOOP_SEQUENTIAL, dim, step)->body));
    behind = node_range(kernel, into, dim);
    behind->lo = range_bound(kernel, behind, bound);
    NodeList *piece =
        open_pieces(x, &node_loop(kernel, &behind->body, LOOP_SEQUENTIAL, dim, step)->body);
    emit_contract(x, piece);
    finish(x, piece);
}

void contract_emit(Contract *x) {
    NodeList *into = open_parallel(x, &x->lower->kernel->body), *piece;
    int64_t steps[TILE_RANK_MAX];
    int cut = block_steps(x, steps), only = only_cut(x, steps, cut);
    // What is turned on its way out of the tile is turned in blocks, which pieces would cut.
    bool along = dims_last_of(&x->result_order) == x->lanes;
    if (!cut && along)
        into = open_pieces(x, into);
    if (x->result == NO_BUFFER)
        make_tile(x, into);
    else
        x->c_access = access_plain(x->lower->kernel, (uint16_t)x->result);
    if (only >= 0 && along && has_epilogue(x) && has_pieces(x)) {
        emit_last_apart(x, x->k.at[only], steps[only], into);
        return;
    }
    piece = !cut && along ? into : open_pieces(x, open_blocks(x, steps, into));
    emit_contract(x, piece);
    finish(x, into);
}
