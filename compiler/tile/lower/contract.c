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
// Where a task works off its rows in smaller pieces, the epilogue follows each of them while it is
// near: inside the loop over them if all is summed in one block, else the last block stands apart,
// if one summed dim is cut, of known extent.
//
// Dims are batch (in both operands and the result), rows (result and operand a), lanes (result and
// operand b) or summed. Which operand is b, and which of several row or lane dims the microkernel
// runs along, says ContractAxes; the others are loops. Where the lanes are not the result's
// contiguous dim, or the elem differs, the tile of the result is kept in scratch and copied out by
// the epilogue.
//
// Requires: outputs depend on the contraction. Declines what has no reuse that blocking could use:
// dot products, matrix times vector with the summed dim contiguous, and products along a batch dim;
// these are rows.
#include "tile/lower/contract.h"

#include "tile/schedule/schedule.h"

enum { DYNAMIC_BATCH = 4 };

// ---- operands ----

// Takes over the memory order of a stored value that is larger than any before.
static void offer_source(const Lowering *lower, const Access *access, int64_t *most,
                         TileDimList *order) {
    TileDimList dims = {.count = access->rank};
    DimSet set = 0;
    for (int i = 0; i < access->rank; i++) {
        dims.at[i] = access->index[i].dim;
        set |= set_of(dims.at[i]);
    }
    int64_t volume = lower_volume(lower, set);
    if (volume > *most) {
        *most = volume;
        *order = dims;
    }
}

// The memory order of the largest stored value that a value is computed from, the first of several.
static TileDimList source_order(const Lowering *lower, const Value *value) {
    TileDimList order = {0};
    int64_t most = 0;
    Map *seen = map_new(lower->arena);
    VEC(const Value *) open = {0};
    vec_push(lower->arena, &open, value);
    while (open.count) {
        const Value *next = open.at[--open.count];
        Access access;
        if (map_get(seen, (uint64_t)next->id + 1))
            continue;
        map_put(seen, (uint64_t)next->id + 1, (void *)next);
        if (terms_plain_access(lower, next, &access))
            offer_source(lower, &access, &most, &order);
        else
            for (uint32_t i = next->n_args; i-- > 0;)
                vec_push(lower->arena, &open, next->args[i]);
    }
    return lower_order(lower_dim_set(lower, &value->dims), &order);
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

// Does the epilogue read what is in the memory of a result?
static bool reads_before(const Group *group) {
    for (uint32_t i = 0; i < group->members.count; i++)
        for (uint32_t k = 0; k < group->members.at[i]->n_args; k++) {
            const Value *arg = group->members.at[i]->args[k];
            if (arg->op == OP_INPUT && use_is_in_result(arg->use))
                return true;
        }
    return false;
}

// Do all results have the dims of the contraction, so that one stage computes them?
static bool are_alike(const Group *group, const Value *c) {
    bool alike = true;
    for (uint32_t i = 0; i < group->outputs.count; i++)
        alike = alike && dims_equal(&group->outputs.at[i]->dims, &c->dims);
    return alike;
}

// The argument that can hold the sums: the contraction itself, or a result when all have the same
// dims and nothing is read from there.
static void find_result(Contract *x) {
    const Lowering *lower = x->lower;
    const Group *group = lower->group;
    bool stored = false; // itself
    for (uint32_t i = 0; i < group->outputs.count; i++)
        stored = stored || (group->outputs.at[i] == x->c && x->c->elem == x->elem);
    bool takes = !stored && are_alike(group, x->c) && !reads_before(group);
    x->result = NO_BUFFER;
    x->result_order = (TileDimList){0};
    uint32_t first = lower->kernel->n_args - group->outputs.count;
    for (uint32_t i = 0; i < group->outputs.count; i++) {
        const Value *output = group->outputs.at[i];
        bool fits = output == x->c || takes;
        bool holds = fits && output->elem == x->elem && x->result == NO_BUFFER;
        if (i == 0 || holds)
            x->result_order = lower_buffer_dims(lower, (uint16_t)(first + i));
        if (holds)
            x->result = (int)(first + i);
    }
}

// A matrix against next to nothing is read once: worth a kernel of this kind only when its own
// contiguous dim can be the lanes.
static bool choose_skinny(Contract *x) {
    if (lower_volume(x->lower, x->lanes_all) < lower_volume(x->lower, x->rows_all))
        swap_operands(x);
    TileDimList source = source_order(x->lower, x->b);
    TileDimId last = dims_last_of(&source);
    Access access;
    if (last == TILE_DIM_NONE || !set_has(x->lanes_all, last) || !is_in_place(x, x->b, &access))
        return false;
    x->lanes = last;
    return true;
}

static double lanes_worth(const Contract *x, TileDimId dim, int64_t width) {
    const Lowering *lower = x->lower;
    double extent = (double)lower->typical.at[dim];
    double use = extent / (double)round_up(lower->typical.at[dim], width);
    TileDimList source = source_order(lower, set_has(x->lanes_all, dim) ? x->b : x->a);
    return use + (dims_last_of(&source) == dim ? 0.5 : 0) + (extent > 64 ? 0.1 : 0);
}

// A result and operands that are all contiguous along one batch dim (head mixing with a matrix for
// each memory position): sums of elementwise products, with that dim in the vectors.
static bool is_elementwise(const Contract *x) {
    TileDimList a = source_order(x->lower, x->a), b = source_order(x->lower, x->b);
    TileDimId last = dims_last_of(&x->result_order);
    return last != TILE_DIM_NONE && set_has(x->batch, last) && dims_last_of(&a) == last &&
           dims_last_of(&b) == last;
}

// The dim of these that is worth most as lanes; TILE_DIM_NONE: there is none.
static TileDimId worthiest_lanes(const Contract *x, DimSet possible, int64_t width) {
    TileDimId best = TILE_DIM_NONE;
    double most = 0;
    for (TileDimId d = 0; d < x->lower->kernel->dims.count; d++) {
        if (!set_has(possible, d) || lanes_worth(x, d, width) <= most)
            continue;
        most = lanes_worth(x, d, width);
        best = d;
    }
    return best;
}

// The operand that would have the lanes by default has the rows.
static bool transpose(Contract *x, int64_t width) {
    swap_operands(x);
    x->lanes = worthiest_lanes(x, x->lanes_all, width);
    return x->lanes != TILE_DIM_NONE;
}

static bool choose_lanes(Contract *x) {
    const Lowering *lower = x->lower;
    if (is_elementwise(x))
        return false;
    int64_t rows = lower_volume(lower, x->rows_all), lanes = lower_volume(lower, x->lanes_all);
    if ((rows < lanes ? rows : lanes) <= 2)
        return !x->schedule.axes.transposed && choose_skinny(x);
    int64_t width = lower->machine->vector_bytes / (int64_t)elem_bytes(x->elem);
    x->lanes = dims_last_of(&x->result_order);
    DimSet possible = x->rows_all | x->lanes_all;
    if (!set_has(possible, x->lanes) || lower->typical.at[x->lanes] * 2 < width)
        x->lanes = worthiest_lanes(x, possible, width);
    if (set_has(x->rows_all, x->lanes))
        swap_operands(x);
    return !x->schedule.axes.transposed || transpose(x, width);
}

static TileDimId longest_dim(const Lowering *lower, DimSet dims) {
    TileDimId best = TILE_DIM_NONE;
    for (TileDimId d = 0; d < lower->kernel->dims.count; d++)
        if (set_has(dims, d) &&
            (best == TILE_DIM_NONE || lower->typical.at[d] > lower->typical.at[best]))
            best = d;
    return best;
}

static bool choose_rows(Contract *x) {
    enum { ROWS_LEAST = 4 }; // that a microkernel along a short dim has; chosen
    TileDimId longest = longest_dim(x->lower, x->rows_all), last = dims_last_of(&x->a_source);
    bool other = last != TILE_DIM_NONE && last != longest && set_has(x->rows_all, last) &&
                 x->lower->typical.at[last] >= ROWS_LEAST;
    x->rows = x->schedule.axes.contiguous_rows ? last : longest;
    return other || !x->schedule.axes.contiguous_rows;
}

// false: it is none, or has no such axes.
static bool analyse(Lowering *lower, ContractAxes axes, Contract *x) {
    *x = (Contract){.lower = lower, .schedule.axes = axes};
    x->c = lower->group->contraction;
    x->elem = elem_work(x->c->elem);
    if (x->c->n_args != 2 || !elem_is_float(x->elem) || !classify(x, x->c->args[0], x->c->args[1]))
        return false;
    find_result(x);
    if (!choose_lanes(x))
        return false;
    if (x->result != NO_BUFFER && dims_last_of(&x->result_order) != x->lanes)
        x->result = NO_BUFFER;
    x->a_in_place = is_in_place(x, x->a, &x->a_access);
    x->b_in_place = is_in_place(x, x->b, &x->b_access);
    x->a_source = source_order(lower, x->a);
    x->b_source = source_order(lower, x->b);
    x->k = lower_order(x->summed, x->a_in_place ? &x->a_source : &x->b_source);
    return choose_rows(x);
}

// ---- schedule ----

// Dynamic batches may be few: tasks must not count on them.
static int64_t batch_to_count_on(const Contract *x) {
    const Lowering *lower = x->lower;
    int64_t batch = 1;
    for (TileDimId d = 0; d < lower->kernel->dims.count; d++) {
        if (!set_has(x->batch, d))
            continue;
        bool dynamic = lower->kernel->dims.at[d].extent == EXTENT_DYNAMIC;
        int64_t extent = lower->typical.at[d];
        batch *= dynamic && extent > DYNAMIC_BATCH ? DYNAMIC_BATCH : extent;
    }
    return batch;
}

// The contiguous dim of what is packed when it is another dim of its class than the main one: a
// task that has only a part of it would use only a part of each line.
static TileDimId crossing_dim(const TileDimList *source, DimSet dims, TileDimId main_dim,
                              bool packed) {
    TileDimId last = dims_last_of(source);
    return packed && last != TILE_DIM_NONE && set_has(dims, last) && last != main_dim
               ? last
               : TILE_DIM_NONE;
}

static ContractLast role_of_last(const Contract *x, const TileDimList *source, TileDimId main_dim) {
    TileDimId last = dims_last_of(source);
    return last == TILE_DIM_NONE || last == main_dim ? LAST_MAIN
           : set_has(x->summed, last)                ? LAST_SUMMED
           : set_has(x->batch, last)                 ? LAST_BATCH
                                                     : LAST_OTHER;
}

static int64_t shape_extent(const Lowering *lower, DimSet dims) {
    int64_t volume = lower_volume(lower, dims);
    return volume < EXTENT_MAX ? volume : EXTENT_MAX;
}

static int64_t batch_extent(const Contract *x, TileDimId dim) {
    bool batch = dim != TILE_DIM_NONE && set_has(x->batch, dim);
    return batch ? x->lower->typical.at[dim] : 1;
}

// Of the batch dim that an operand has contiguous, of two the longer one.
static int64_t last_batch(const Contract *x) {
    int64_t a = batch_extent(x, dims_last_of(&x->a_source));
    int64_t b = batch_extent(x, dims_last_of(&x->b_source));
    return a > b ? a : b;
}

static ContractShape shape_of(const Contract *x) {
    const Lowering *lower = x->lower;
    bool tile = x->result == NO_BUFFER;
    return (ContractShape){
        .axes = x->schedule.axes,
        .batch = batch_to_count_on(x),
        .rows = shape_extent(lower, x->rows_all),
        .lanes = shape_extent(lower, x->lanes_all),
        .k = shape_extent(lower, x->summed),
        .main_rows = x->rows == TILE_DIM_NONE ? 1 : lower->typical.at[x->rows],
        .rows_known =
            x->rows == TILE_DIM_NONE || lower->kernel->dims.at[x->rows].extent != EXTENT_DYNAMIC,
        .main_lanes = lower->typical.at[x->lanes],
        .last_batch = last_batch(x),
        .a_in_place = x->a_in_place && lies_flat(&x->a_source, &x->k),
        .a_last = role_of_last(x, &x->a_source, x->rows),
        .b_in_place = x->b_in_place && lies_flat(&x->b_source, &x->k) &&
                      dims_last_of(&x->b_source) == x->lanes,
        .b_last = role_of_last(x, &x->b_source, x->lanes),
        .panel = tile ? 0 : lower->kernel->buffers.at[x->result].panel_width,
        .tile = tile,
        .turned = tile && dims_last_of(&x->result_order) != x->lanes,
        .elem_bytes = elem_bytes(x->elem),
        .in_order = x->c->made_for.twice,
    };
}

// Those of all axes that there are; none: it is no contraction.
static ContractShapes find_shapes(Lowering *lower) {
    static const ContractAxes all[CONTRACT_AXES_MAX] = {
        {0}, {.contiguous_rows = true}, {.transposed = true}, {true, true}};
    ContractShapes shapes = {0};
    Contract x;
    for (int i = 0; i < CONTRACT_AXES_MAX && (!i || shapes.count); i++)
        if (analyse(lower, all[i], &x))
            shapes.at[shapes.count++] = shape_of(&x);
    return shapes;
}

// What the model finds fastest. false: it is no contraction.
static bool find_schedule(Lowering *lower, ContractSchedule *out) {
    lower->shape = (ScheduleShape){.kind = SCHEDULE_CONTRACT, .contract = find_shapes(lower)};
    bool contracts = lower->shape.contract.count > 0;
    if (contracts)
        *out = lower_near(lower, &lower->shape.contract)->at[0].contract;
    return contracts;
}

// Steps of one class of dims, for pieces of about `piece` points: the crossing dim is filled first,
// as long as `unit` positions of the main dim are left, then the main dim, then the others. Pieces
// of a main dim that is stored in panels begin at whole units, whatever its typical extent is.
static void choose_steps(Contract *x, DimSet dims, TileDimId main_dim, TileDimId crossing,
                         int64_t unit, int64_t piece) {
    const Lowering *lower = x->lower;
    if (crossing != TILE_DIM_NONE) {
        int64_t extent = lower->typical.at[crossing];
        int64_t most = clamp(piece / unit, 1, extent), parts = ceil_div(extent, most);
        x->steps[crossing] = ceil_div(extent, parts);
        piece = round_up(ceil_div(piece, x->steps[crossing]), unit);
        dims &= ~set_of(crossing);
    }
    TileDimId panel =
        x->result == NO_BUFFER ? TILE_DIM_NONE : lower->kernel->buffers.at[x->result].panel_dim;
    TileDimList order = lower_order(dims, &x->result_order);
    if (main_dim != TILE_DIM_NONE) {
        order = lower_order(dims & ~set_of(main_dim), &x->result_order);
        order.at[order.count++] = main_dim;
    }
    for (int i = order.count; i-- > 0;) {
        int64_t extent = lower->typical.at[order.at[i]];
        int64_t *step = &x->steps[order.at[i]];
        *step = piece < extent ? piece : extent;
        if (order.at[i] == main_dim && panel == main_dim)
            *step = round_up(*step, unit);
        piece = piece > extent ? piece / extent : 1;
    }
}

static int64_t steps_volume(const Contract *x, DimSet dims) {
    int64_t volume = 1;
    for (TileDimId d = 0; d < x->lower->kernel->dims.count; d++)
        volume = mul_capped(volume, set_has(dims, d) ? x->steps[d] : 1);
    return volume;
}

// Packs an operand that is contiguous along a batch dim for up to a line's worth of batches at
// once, if that fits in a quarter of L2. others: the operand's rows or lanes.
static bool choose_early(Contract *x, const TileDimList *source, DimSet others, bool packed) {
    TileDimId last = dims_last_of(source);
    if (!packed || last == TILE_DIM_NONE || !set_has(x->batch, last))
        return false;
    int64_t line = 64 / (int64_t)elem_bytes(x->elem);
    int64_t room = x->lower->machine->l2_bytes / 4 / (int64_t)elem_bytes(x->elem) /
                   mul_capped(steps_volume(x, others), x->schedule.block_k);
    int64_t wanted = clamp(x->lower->typical.at[last], 1, line);
    if (x->steps[last] < wanted && wanted <= room)
        x->steps[last] = wanted;
    return x->steps[last] > 1 && x->steps[last] <= room;
}

static void halve_longest(Contract *x, DimSet dims) {
    TileDimId longest = TILE_DIM_NONE;
    for (TileDimId d = 0; d < x->lower->kernel->dims.count; d++)
        if (set_has(dims, d) && (longest == TILE_DIM_NONE || x->steps[d] > x->steps[longest]))
            longest = d;
    if (longest != TILE_DIM_NONE)
        x->steps[longest] = (x->steps[longest] + 1) / 2;
}

// Halves the longer of the two dims that the microkernel runs along, in whole blocks; where both
// are one block long, another one.
static void halve_tile(Contract *x, DimSet dims) {
    bool has_rows = x->rows != TILE_DIM_NONE;
    bool cuts_rows = has_rows && x->steps[x->rows] >= x->steps[x->lanes];
    TileDimId main_dim = cuts_rows ? x->rows : x->lanes;
    int64_t block = cuts_rows ? x->schedule.row_block : x->schedule.lane_block;
    int64_t half = round_up(x->steps[main_dim] / 2, block);
    if (half < x->steps[main_dim]) {
        x->steps[main_dim] = half;
        return;
    }
    DimSet mains = set_of(x->lanes) | (has_rows ? set_of(x->rows) : 0);
    halve_longest(x, dims & ~mains);
}

// A tile in scratch is copied out along the result's contiguous dim: a task has a line's worth of
// it. And the tile should stay in half of L2, as far as whole blocks allow.
static void fit_tile(Contract *x) {
    enum { HALVINGS_MAX = 64 };
    TileDimId last = dims_last_of(&x->result_order);
    DimSet dims = x->batch | x->rows_all | x->lanes_all;
    int64_t line = 64 / (int64_t)elem_bytes(x->elem);
    int64_t room = x->lower->machine->l2_bytes / 2 / (int64_t)elem_bytes(x->elem);
    if (last != TILE_DIM_NONE && set_has(dims, last) && x->steps[last] < line)
        x->steps[last] = clamp(x->lower->typical.at[last], 1, line);
    for (int i = 0; steps_volume(x, dims) > room && i < HALVINGS_MAX; i++)
        halve_tile(x, dims);
}

static void choose_pieces(Contract *x) {
    const ContractSchedule *s = &x->schedule;
    choose_steps(x, x->batch, TILE_DIM_NONE, TILE_DIM_NONE, 1, s->task_batch);
    choose_steps(x, x->lanes_all, x->lanes,
                 crossing_dim(&x->b_source, x->lanes_all, x->lanes, s->pack_b),
                 s->lane_block > CROSSING_LANES ? s->lane_block : CROSSING_LANES, s->task_lanes);
    choose_steps(x, x->rows_all, x->rows,
                 crossing_dim(&x->a_source, x->rows_all, x->rows, s->pack_a), s->row_block,
                 s->task_rows);
    if (x->result == NO_BUFFER)
        fit_tile(x);
    x->b_early = choose_early(x, &x->b_source, x->lanes_all, s->pack_b);
    x->a_early = choose_early(x, &x->a_source, x->rows_all, s->pack_a);
    x->a_crossing = crossing_dim(&x->a_source, x->rows_all, x->rows, s->pack_a) != TILE_DIM_NONE;
}

// How much of k sums a turn has: by default what the other numbers leave room for in caches; a
// place of its own, with half and twice as much.
static int64_t choose_block_k(Lowering *lower, int64_t by_default, int64_t k) {
    enum { UNIT = 8 };
    int64_t own = by_default < k ? by_default : k, twice = 2 * own < k ? 2 * own : k;
    const int64_t others[] = {round_up(own / 2, UNIT), twice};
    StageBlocksList choices = {0};
    vec_push(lower->arena, &choices, (StageBlocks){.sum = by_default});
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i] > 0 && others[i] <= k && others[i] != own)
            vec_push(lower->arena, &choices, (StageBlocks){.sum = others[i]});
    return choices.count > 1 ? lower_blocks(lower, &choices).sum : by_default;
}

bool lower_contract(Lowering *lower, const ContractSchedule *schedule) {
    Contract x;
    ContractSchedule chosen;
    if (!schedule && !find_schedule(lower, &chosen))
        return false;
    if (schedule)
        chosen = *schedule;
    if (!analyse(lower, chosen.axes, &x))
        return false;
    x.schedule = chosen;
    lower->kernel->schedule = (Schedule){.kind = SCHEDULE_CONTRACT, .contract = chosen};
    x.schedule.block_k = choose_block_k(lower, chosen.block_k, shape_extent(lower, x.summed));
    choose_pieces(&x);
    contract_emit(&x);
    return true;
}
