// SPDX-License-Identifier: Apache-2.0
// One contraction with its pointwise prologue and epilogue as a blocked kernel:
//
//     C[n f] = max(einsum(A[n d], B[d f]), 0)
//
//     parallel n:128 f:384                    tasks: pieces of the result
//       loop d:256                            block of the summed dims
//         scratch P[d f%48]
//         compute P = B                       packing, computes the prologue
//         contract C += A * P                 microkernel, rows=n lanes=f
//       compute C = max(C, 0)                 epilogue
//
// Dims are batch (in both operands and the result), rows (result and operand a), lanes (result and
// operand b) or summed. The operand that has the result's contiguous dim is b. When neither has it,
// or the elem differs, the tile of the result is kept in scratch and copied out by the epilogue. Of
// several row, lane or batch dims one is worked along, the others are loops.
//
// Requires: outputs depend on the contraction. Declines what has no reuse that blocking could use:
// dot products, and matrix times vector with the summed dim contiguous; these are rows.
#include "tile/lower.h"

typedef struct {
    Lowering *lower;
    const Value *c, *a, *b;
    DimSet batch, rows_all, lanes_all, summed;
    TileDimId rows, lanes;
    TileDimList k; // summed dims, outermost first
    Elem elem;
    Access a_access, b_access, c_access;
    bool a_in_place, b_in_place;    // as far as values go; the schedule decides
    TileDimList a_source, b_source; // memory order of what is read
    int result;                     // argument that the sums are kept in, or NO_BUFFER: scratch
    TileDimList result_order;
    ContractSchedule schedule;
    int64_t steps[64]; // of parallel loops, per kernel dim
    bool scaled;       // the factor is already in an operand
} Contract;

// ---- operands ----

// The memory order of the largest stored value that a value is computed from.
static void find_source(const Lowering *lower, const Value *value, int64_t *most,
                        TileDimList *order) {
    Access access;
    if (terms_plain_access(lower, value, &access)) {
        TileDimList dims = {.count = access.rank};
        DimSet set = 0;
        for (int i = 0; i < access.rank; i++) {
            dims.at[i] = access.index[i].dim;
            set |= set_of(dims.at[i]);
        }
        int64_t volume = lower_volume(lower, set);
        if (volume > *most) {
            *most = volume;
            *order = dims;
        }
        return;
    }
    for (uint32_t i = 0; i < value->n_args; i++)
        find_source(lower, value->args[i], most, order);
}

static TileDimList source_order(const Lowering *lower, const Value *value) {
    TileDimList order = {0};
    int64_t most = 0;
    find_source(lower, value, &most, &order);
    return lower_order(lower_dim_set(lower, &value->dims), &order);
}

static TileDimId last_of(const TileDimList *dims) {
    return dims->count ? dims->at[dims->count - 1] : TILE_DIM_NONE;
}

// Do the dims lie side by side in this order, so that one stride walks through them?
static bool lies_flat(const TileDimList *memory, const TileDimList *dims) {
    for (int i = 0; i + dims->count <= memory->count; i++) {
        bool same = true;
        for (int k = 0; k < dims->count && same; k++)
            same = memory->at[i + k] == dims->at[k];
        if (same)
            return true;
    }
    return false;
}

static bool is_in_place(const Contract *x, const Value *value, Access *access) {
    const Lowering *lower = x->lower;
    if (!terms_plain_access(lower, value, access))
        return false;
    if (lower->kernel->buffers.at[access->buffer].elem != x->elem)
        return false;
    DimSet seen = 0;
    for (int i = 0; i < access->rank; i++) {
        if (set_has(seen, access->index[i].dim))
            return false; // a diagonal
        seen |= set_of(access->index[i].dim);
    }
    return true;
}

// ---- classes of dims, and which operand has the lanes ----

static bool classify(Contract *x, const Value *a, const Value *b) {
    const Lowering *lower = x->lower;
    DimSet in_a = lower_dim_set(lower, &a->dims), in_b = lower_dim_set(lower, &b->dims);
    DimSet in_c = lower_dim_set(lower, &x->c->dims);
    x->a = a;
    x->b = b;
    x->batch = in_a & in_b & in_c;
    x->rows_all = in_a & ~in_b & in_c;
    x->lanes_all = in_b & ~in_a & in_c;
    x->summed = in_a & in_b & ~in_c;
    return x->summed && !((in_a ^ in_b) & ~in_c);
}

static void swap_operands(Contract *x) {
    const Value *value = x->a;
    DimSet set = x->rows_all;
    x->a = x->b;
    x->b = value;
    x->rows_all = x->lanes_all;
    x->lanes_all = set;
}

// The argument that can hold the sums: the contraction itself, or the only result when it has the
// same dims.
static void find_result(Contract *x) {
    const Lowering *lower = x->lower;
    const Group *group = lower->group;
    x->result = NO_BUFFER;
    x->result_order = (TileDimList){0};
    uint32_t first = lower->kernel->n_args - group->outputs.count;
    for (uint32_t i = 0; i < group->outputs.count; i++) {
        const Value *output = group->outputs.at[i];
        bool fits =
            output == x->c || (group->outputs.count == 1 && dims_equal(&output->dims, &x->c->dims));
        if (fits && output->elem == x->elem)
            x->result = (int)(first + i);
        if (i == 0 || fits)
            x->result_order = lower_buffer_dims(lower, (uint16_t)(first + i));
    }
}

// A matrix against next to nothing is read once: worth a kernel of this kind only when its own
// contiguous dim can be the lanes.
static bool choose_skinny(Contract *x) {
    if (lower_volume(x->lower, x->lanes_all) < lower_volume(x->lower, x->rows_all))
        swap_operands(x);
    TileDimList source = source_order(x->lower, x->b);
    TileDimId last = last_of(&source);
    Access access;
    if (last == TILE_DIM_NONE || !set_has(x->lanes_all, last) || !is_in_place(x, x->b, &access))
        return false;
    x->lanes = last;
    return true;
}

static double lanes_worth(const Contract *x, TileDimId dim, int64_t width) {
    const Lowering *lower = x->lower;
    double extent = (double)lower->typical.at[dim];
    double use = extent / ((double)((lower->typical.at[dim] + width - 1) / width * width));
    TileDimList source = source_order(lower, set_has(x->lanes_all, dim) ? x->b : x->a);
    return use + (last_of(&source) == dim ? 0.5 : 0) + (extent > 64 ? 0.1 : 0);
}

static bool choose_lanes(Contract *x) {
    const Lowering *lower = x->lower;
    int64_t rows = lower_volume(lower, x->rows_all), lanes = lower_volume(lower, x->lanes_all);
    if ((rows < lanes ? rows : lanes) <= 2)
        return choose_skinny(x);
    int64_t width = lower->target->vector_bytes / (int64_t)elem_bytes(x->elem);
    x->lanes = last_of(&x->result_order);
    DimSet possible = x->rows_all | x->lanes_all;
    if (!set_has(possible, x->lanes) || lower->typical.at[x->lanes] * 2 < width) {
        double most = 0;
        for (TileDimId d = 0; d < lower->kernel->dims.count; d++) {
            if (!set_has(possible, d) || lanes_worth(x, d, width) <= most)
                continue;
            most = lanes_worth(x, d, width);
            x->lanes = d;
        }
    }
    if (set_has(x->rows_all, x->lanes))
        swap_operands(x);
    return true;
}

static TileDimId longest_dim(const Lowering *lower, DimSet dims) {
    TileDimId best = TILE_DIM_NONE;
    for (TileDimId d = 0; d < lower->kernel->dims.count; d++)
        if (set_has(dims, d) &&
            (best == TILE_DIM_NONE || lower->typical.at[d] > lower->typical.at[best]))
            best = d;
    return best;
}

static bool analyse(Contract *x) {
    Lowering *lower = x->lower;
    x->c = lower->group->contraction;
    x->elem = terms_work_elem(x->c->elem);
    if (x->c->n_args != 2 || !elem_is_float(x->elem) || !classify(x, x->c->args[0], x->c->args[1]))
        return false;
    find_result(x);
    if (!choose_lanes(x))
        return false;
    if (x->result != NO_BUFFER && last_of(&x->result_order) != x->lanes)
        x->result = NO_BUFFER;
    x->rows = longest_dim(lower, x->rows_all);
    x->a_in_place = is_in_place(x, x->a, &x->a_access);
    x->b_in_place = is_in_place(x, x->b, &x->b_access);
    x->a_source = source_order(lower, x->a);
    x->b_source = source_order(lower, x->b);
    x->k = lower_order(x->summed, x->a_in_place ? &x->a_source : &x->b_source);
    return true;
}

// ---- schedule ----

static void choose_schedule(Contract *x) {
    const Lowering *lower = x->lower;
    ContractShape shape = {
        .batch = lower_volume(lower, x->batch),
        .rows = lower_volume(lower, x->rows_all),
        .lanes = lower_volume(lower, x->lanes_all),
        .k = lower_volume(lower, x->summed),
        .main_rows = x->rows == TILE_DIM_NONE ? 1 : lower->typical.at[x->rows],
        .main_lanes = lower->typical.at[x->lanes],
        .a_in_place = x->a_in_place && lies_flat(&x->a_source, &x->k),
        .a_k_contiguous = set_has(x->summed, last_of(&x->a_source)),
        .b_in_place =
            x->b_in_place && lies_flat(&x->b_source, &x->k) && last_of(&x->b_source) == x->lanes,
        .b_lanes_contiguous = last_of(&x->b_source) == x->lanes,
        .elem_bytes = elem_bytes(x->elem),
    };
    x->schedule = schedule_contract(&shape, lower->target);
}

// Steps of one class of dims: its main dim is filled first, the others from the innermost outwards.
static void choose_steps(Contract *x, DimSet dims, TileDimId main_dim, int64_t piece) {
    const Lowering *lower = x->lower;
    DimSet rest = main_dim == TILE_DIM_NONE ? dims : dims & ~set_of(main_dim);
    if (main_dim != TILE_DIM_NONE) {
        int64_t extent = lower->typical.at[main_dim];
        x->steps[main_dim] = piece < extent ? piece : extent;
        piece = piece > extent ? piece / extent : 1;
    }
    TileDimList order = lower_order(rest, &x->result_order);
    int64_t steps[TILE_RANK_MAX];
    for (int i = order.count; i-- > 0;) {
        int64_t extent = lower->typical.at[order.at[i]];
        steps[i] = piece < extent ? piece : extent;
        piece = piece > extent ? piece / extent : 1;
        x->steps[order.at[i]] = steps[i];
    }
}

// ---- nodes ----

static bool is_whole(const Contract *x, TileDimId dim, int64_t step) {
    return x->lower->kernel->dims.at[dim].extent == step;
}

static NodeList *open_parallel(Contract *x, NodeList *into) {
    const ContractSchedule *s = &x->schedule;
    choose_steps(x, x->batch, TILE_DIM_NONE, s->task_batch);
    choose_steps(x, x->lanes_all, x->lanes, s->task_lanes);
    choose_steps(x, x->rows_all, x->rows, s->task_rows);
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
// then one in blocks, then the outer ones one by one.
static NodeList *open_blocks(Contract *x, NodeList *into) {
    const Kernel *kernel = x->lower->kernel;
    int64_t room = x->schedule.block_k, steps[TILE_RANK_MAX];
    for (int i = x->k.count; i-- > 0;) {
        int64_t extent = kernel->dims.at[x->k.at[i]].extent;
        if (extent != EXTENT_DYNAMIC && extent <= room) {
            steps[i] = extent;
            room /= extent;
            continue;
        }
        int64_t parts = extent == EXTENT_DYNAMIC ? 1 : (extent + room - 1) / room;
        steps[i] = extent == EXTENT_DYNAMIC ? room : (extent + parts - 1) / parts;
        if (i == x->k.count - 1 && parts > 1)
            steps[i] = (steps[i] + 7) / 8 * 8;
        room = 1;
    }
    for (int i = 0; i < x->k.count; i++)
        if (!is_whole(x, x->k.at[i], steps[i]))
            into = &node_loop(x->lower->kernel, into, LOOP_SEQUENTIAL, x->k.at[i], steps[i])->body;
    return into;
}

// Points of a packing stage in the order of what is read; when the lanes are not its contiguous dim
// they come just outside it, so that a line that was fetched for one point is used for its
// neighbours.
static TileDimList pack_order(DimSet dims, TileDimId lanes, const TileDimList *source) {
    TileDimList order = lower_order(dims, source);
    TileDimId last = last_of(&order);
    if (last == lanes)
        return order;
    order = lower_order(dims & ~set_of(lanes) & ~set_of(last), source);
    order.at[order.count++] = lanes;
    order.at[order.count++] = last;
    return order;
}

static void pack_operand(Contract *x, NodeList *into, const Value *value, const TileDimList *source,
                         uint16_t scratch, TileDimId lanes, bool pad) {
    Lowering *lower = x->lower;
    DimSet dims =
        lower_buffer_set(lower, scratch) | (lower_dim_set(lower, &value->dims) & x->batch);
    Stage *stage = node_compute(lower->kernel, into, pack_order(dims, lanes, source), lanes);
    TermBuilder terms = terms_open(lower, stage);
    int32_t term = terms_cast(&terms, terms_value(&terms, value), x->elem);
    if (x->c->number != 1 && !x->scaled) {
        int32_t factor = stage_const(lower->kernel, stage, x->c->number, x->elem);
        term = stage_op(lower->kernel, stage, OP_MUL, x->elem, term, factor, -1);
    }
    terms_store(&terms, SINK_SET, scratch, term);
    stage->pad = pad;
}

static void append(TileDimList *dims, const TileDimList *more) {
    for (int i = 0; i < more->count; i++)
        dims->at[dims->count++] = more->at[i];
}

static void pack_b(Contract *x, NodeList *into) {
    Lowering *lower = x->lower;
    TileDimList dims = lower_order(x->lanes_all & ~set_of(x->lanes), &x->result_order);
    append(&dims, &x->k);
    append(&dims, &TILE_DIMS(x->lanes));
    uint16_t scratch = node_scratch_panel(lower->kernel, into, "packed_b", x->elem, dims, x->lanes,
                                          x->schedule.lane_block);
    pack_operand(x, into, x->b, &x->b_source, scratch, x->lanes, true);
    x->b_access = access_plain(lower->kernel, scratch);
    x->scaled = true;
}

// A row operand that is contiguous along the summed dims is copied as it lies (the copy converts or
// computes the prologue); any other is packed in panels of rows.
static void pack_a(Contract *x, NodeList *into) {
    Lowering *lower = x->lower;
    DimSet others = x->rows == TILE_DIM_NONE ? 0 : x->rows_all & ~set_of(x->rows);
    bool panels = x->rows != TILE_DIM_NONE && !set_has(x->summed, last_of(&x->a_source));
    TileDimList dims = lower_order(others, &x->result_order);
    uint16_t scratch;
    if (panels) {
        append(&dims, &x->k);
        append(&dims, &TILE_DIMS(x->rows));
        scratch = node_scratch_panel(lower->kernel, into, "packed_a", x->elem, dims, x->rows,
                                     x->schedule.row_block);
    } else {
        if (x->rows != TILE_DIM_NONE)
            append(&dims, &TILE_DIMS(x->rows));
        append(&dims, &x->k);
        scratch = node_scratch(lower->kernel, into, "packed_a", x->elem, dims);
    }
    pack_operand(x, into, x->a, &x->a_source, scratch, last_of(&dims), panels);
    x->a_access = access_plain(lower->kernel, scratch);
    x->scaled = true;
}

static void emit_contract(Contract *x, NodeList *into) {
    Kernel *kernel = x->lower->kernel;
    TileDimList dims = lower_order(x->batch | (x->lanes_all & ~set_of(x->lanes)), &x->result_order);
    append(&dims, &TILE_DIMS(x->lanes));
    TileDimList rows = lower_order(x->rows == TILE_DIM_NONE ? 0 : x->rows_all & ~set_of(x->rows),
                                   &x->result_order);
    append(&dims, &rows);
    if (x->rows != TILE_DIM_NONE)
        append(&dims, &TILE_DIMS(x->rows));
    append(&dims, &x->k);
    Stage *stage = node_contract(kernel, into, dims, x->c_access, x->a_access, x->b_access);
    stage->lanes = x->lanes;
    stage->rows = x->rows;
    stage->row_block = x->schedule.row_block;
    stage->lane_block = x->schedule.lane_block;
}

static void emit_blocks(Contract *x, NodeList *into) {
    into = open_single(x, x->batch, into);
    into = open_blocks(x, into);
    if (x->schedule.pack_b)
        pack_b(x, into);
    if (x->rows != TILE_DIM_NONE) {
        into = open_single(x, x->rows_all & ~set_of(x->rows), into);
        if (x->schedule.block_rows < x->steps[x->rows])
            into =
                &node_loop(x->lower->kernel, into, LOOP_SEQUENTIAL, x->rows, x->schedule.block_rows)
                     ->body;
    }
    if (x->schedule.pack_a)
        pack_a(x, into);
    emit_contract(x, into);
}

// ---- epilogue ----

static void emit_scale(Contract *x, NodeList *into) {
    Lowering *lower = x->lower;
    uint16_t buffer = x->c_access.buffer;
    TileDimList dims = lower_buffer_dims(lower, buffer);
    Stage *stage = node_compute(lower->kernel, into, dims, last_of(&dims));
    TermBuilder terms = terms_open(lower, stage);
    int32_t c = stage_load(lower->kernel, stage, x->c_access);
    int32_t factor = stage_const(lower->kernel, stage, x->c->number, x->elem);
    terms_store(&terms, SINK_SET, buffer,
                stage_op(lower->kernel, stage, OP_MUL, x->elem, c, factor, -1));
}

// Results of the same dims are computed by one stage, in the memory order of the first.
static void emit_epilogue(Contract *x, NodeList *into) {
    Lowering *lower = x->lower;
    const Group *group = lower->group;
    uint32_t first = lower->kernel->n_args - group->outputs.count;
    bool *done = arena_array(lower->arena, bool, group->outputs.count + 1);
    for (uint32_t i = 0; i < group->outputs.count; i++)
        done[i] = group->outputs.at[i] == x->c && x->result == (int)(first + i);
    for (uint32_t i = 0; i < group->outputs.count; i++) {
        if (done[i])
            continue;
        TileDimList dims = lower_buffer_dims(lower, (uint16_t)(first + i));
        DimSet box = lower_buffer_set(lower, (uint16_t)(first + i));
        Stage *stage = node_compute(lower->kernel, into, dims, last_of(&dims));
        TermBuilder terms = terms_open(lower, stage);
        for (uint32_t k = i; k < group->outputs.count; k++) {
            if (done[k] || lower_buffer_set(lower, (uint16_t)(first + k)) != box)
                continue;
            terms_store(&terms, SINK_SET, (uint16_t)(first + k),
                        terms_value(&terms, group->outputs.at[k]));
            done[k] = true;
        }
    }
}

bool lower_contract(Lowering *lower) {
    Contract x = {.lower = lower};
    if (!analyse(&x))
        return false;
    choose_schedule(&x);
    NodeList *into = open_parallel(&x, &lower->kernel->body);
    int home = x.result;
    if (home == NO_BUFFER) {
        DimSet dims = lower_dim_set(lower, &x.c->dims) & ~set_of(x.lanes);
        TileDimList order = lower_order(dims, &x.result_order);
        append(&order, &TILE_DIMS(x.lanes));
        home = node_scratch(lower->kernel, into, "tile", x.elem, order);
    }
    x.c_access = access_plain(lower->kernel, (uint16_t)home);
    emit_blocks(&x, into);
    if (x.c->number != 1 && !x.scaled)
        emit_scale(&x, into);
    lower_set_home(lower, x.c, home);
    emit_epilogue(&x, into);
    return true;
}
