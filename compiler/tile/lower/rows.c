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
// The level of a value is the number of reductions on the longest path to it. Everything that is
// stored and has the same level and the same dims is stored by one stage. A pointwise value is
// stored when it is a result, or when computing it again in each stage that needs it would cost
// more than a load, or when a stage would compute it again for every point of a dim that it lacks.
//
// Requires: row dims (those that every output has) are never reduced. Ensures: tasks are pieces of
// the row dims; without such dims there is one task.
#include "tile/lower/lower.h"

enum { NO_STAGE = 0xFFFFFFFF, MANY_STAGES = 0xFFFFFFFE, ROWS_MAX = 16 };

// In the unit of op_weight: storing a value and loading it again.
static const double COST_OF_STORING = 2.5;
// Stages along rows take about twice their weight: waiting for loads and for reductions.
static const double STALLS = 2;

typedef struct {
    Value *value;
    uint32_t level; // of the stage that computes it; a reduction is there for the next level
    DimSet dims;
    double cost;
    bool stored;
    int32_t output;     // of the group, or -1
    uint32_t needed_by; // stage, NO_STAGE or MANY_STAGES
    bool needed_wider;  // by a stage with dims that this value lacks
    uint32_t stage;
} RowValue;

typedef struct {
    uint32_t level;
    DimSet dims;
} RowStage;

typedef struct {
    Lowering *lower;
    Expansion *expansion;
    RowValue *values; // by place in expansion->values
    Map *place;       // value id + 1 -> RowValue
    VEC(RowStage) stages;
    DimSet rows;         // parallel
    TileDimId lanes;     // of stages that have it
    TileDimList order;   // of dims, outermost first
    TileDimId block_dim; // rows are worked off in blocks along this dim
    int64_t block;
    int64_t steps[64]; // of the parallel loops
} Rows;

static bool is_reduction(const Value *value) {
    return op_kind(value->op) == KIND_REDUCE || op_kind(value->op) == KIND_ROW;
}

static RowValue *row_value(const Rows *r, const Value *value) {
    return map_get(r->place, (uint64_t)value->id + 1);
}

// ---- levels and stages ----

// The box of the stage that computes a value.
static DimSet value_box(const Rows *r, const Value *value) {
    DimSet box = lower_dim_set(r->lower, &value->dims);
    return is_reduction(value) ? box | lower_dim_set(r->lower, &value->args[0]->dims) : box;
}

// What computing a value again at one point costs: a load for what is stored, and for what lacks
// dims of the value, because that is stored when it is expensive.
static double value_cost(const Rows *r, const RowValue *v) {
    double cost = op_weight(v->value->op);
    for (uint32_t a = 0; a < v->value->n_args; a++) {
        const RowValue *arg = row_value(r, v->value->args[a]);
        if (!arg)
            cost += terms_cost(r->lower, v->value->args[a]);
        else if (is_reduction(arg->value) ||
                 (v->dims & ~arg->dims && arg->cost > op_weight(OP_INPUT)))
            cost += op_weight(OP_INPUT);
        else
            cost += arg->cost;
    }
    return cost;
}

static void find_levels(Rows *r) {
    for (uint32_t i = 0; i < r->expansion->values.count; i++) {
        RowValue *v = &r->values[i];
        for (uint32_t a = 0; a < v->value->n_args; a++) {
            const RowValue *arg = row_value(r, v->value->args[a]);
            uint32_t level = arg ? arg->level + is_reduction(arg->value) : 0;
            v->level = level > v->level ? level : v->level;
        }
        v->dims = value_box(r, v->value);
        v->cost = value_cost(r, v);
    }
}

static uint32_t find_stage(Rows *r, const RowValue *v) {
    for (uint32_t i = 0; i < r->stages.count; i++)
        if (r->stages.at[i].level == v->level && r->stages.at[i].dims == v->dims)
            return i;
    vec_push(r->lower->arena, &r->stages, (RowStage){.level = v->level, .dims = v->dims});
    return r->stages.count - 1;
}

static void need(RowValue *v, uint32_t stage) {
    if (v->needed_by == NO_STAGE)
        v->needed_by = stage;
    else if (v->needed_by != stage)
        v->needed_by = MANY_STAGES;
}

static bool is_worth_storing(const RowValue *v) {
    if (v->output >= 0 || is_reduction(v->value))
        return true;
    if (op_kind(v->value->op) == KIND_LEAF)
        return false;
    return v->cost > COST_OF_STORING && (v->needed_by == MANY_STAGES || v->needed_wider);
}

// From the results back to what they need: every user of a value is settled before the value is.
static void find_stages(Rows *r) {
    for (uint32_t i = r->expansion->values.count; i-- > 0;) {
        RowValue *v = &r->values[i];
        if (v->needed_by == NO_STAGE && v->output < 0)
            continue; // nobody wants it
        v->stored = is_worth_storing(v);
        v->stage = v->stored ? find_stage(r, v) : v->needed_by;
        for (uint32_t a = 0; a < v->value->n_args; a++) {
            RowValue *arg = row_value(r, v->value->args[a]);
            if (!arg)
                continue;
            need(arg, v->stage);
            if ((v->dims & ~arg->dims) || (!v->stored && v->needed_wider))
                arg->needed_wider = true;
        }
    }
}

static bool runs_before(const RowStage *a, const RowStage *b) {
    if (a->level != b->level)
        return a->level < b->level;
    int na = __builtin_popcountll(a->dims), nb = __builtin_popcountll(b->dims);
    return na != nb ? na < nb : a->dims < b->dims;
}

// Stages in the order in which they run: by level, and small boxes first, because what has fewer
// dims cannot depend on what has more at the same level.
static uint32_t *order_stages(const Rows *r) {
    uint32_t *order = arena_array(r->lower->arena, uint32_t, r->stages.count + 1);
    for (uint32_t i = 0; i < r->stages.count; i++) {
        uint32_t at = i;
        for (; at > 0 && runs_before(&r->stages.at[i], &r->stages.at[order[at - 1]]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return order;
}

// ---- lanes, order of dims, blocks ----

static TileDimId contiguous_dim(const Lowering *lower, uint32_t buffer) {
    const TileBuffer *b = &lower->kernel->buffers.at[buffer];
    return b->rank ? b->dims[b->rank - 1] : TILE_DIM_NONE;
}

// The dim along which most elements lie side by side; results count twice, a strided store is
// worse.
static TileDimId choose_lanes(const Rows *r) {
    const Lowering *lower = r->lower;
    TileDimId best = TILE_DIM_NONE;
    double most = 0;
    DimSet all = 0;
    for (uint32_t i = 0; i < r->stages.count; i++)
        all |= r->stages.at[i].dims;
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

static void choose_order(Rows *r) {
    Lowering *lower = r->lower;
    r->lanes = choose_lanes(r);
    TileDimList memory = {0};
    if (lower->kernel->n_args)
        memory = lower_buffer_dims(lower, (uint16_t)largest_buffer(lower));
    DimSet all =
        lower->kernel->dims.count == 64 ? ~(DimSet)0 : ((DimSet)1 << lower->kernel->dims.count) - 1;
    DimSet lanes = r->lanes == TILE_DIM_NONE ? 0 : set_of(r->lanes);
    r->order = lower_order(r->rows & ~lanes, &memory);
    TileDimList rest = lower_order(all & ~r->rows & ~lanes, &memory);
    for (int i = 0; i < rest.count && r->order.count < TILE_RANK_MAX - 1; i++)
        r->order.at[r->order.count++] = rest.at[i];
    if (lanes)
        r->order.at[r->order.count++] = r->lanes;
}

// Seconds that all rows take: vector operations of every stored value, and memory traffic.
static double rows_seconds(const Rows *r) {
    const Machine *machine = r->lower->machine;
    double lanes = machine_lanes(machine, sizeof(float)), cycles = 0;
    for (uint32_t i = 0; i < r->expansion->values.count; i++)
        if (r->values[i].stored)
            cycles += (double)lower_volume(r->lower, r->values[i].dims) *
                      (STALLS * r->values[i].cost + 1) / lanes;
    double seconds = cycles * machine_cycle(machine);
    for (uint32_t b = 0; b < r->lower->kernel->n_args; b++)
        seconds += (double)lower_volume(r->lower, lower_buffer_set(r->lower, (uint16_t)b)) *
                   (double)elem_bytes(r->lower->kernel->buffers.at[b].elem) /
                   machine->l3_bytes_per_second;
    return seconds;
}

// Bytes of scratch and arguments that one row touches.
static double row_bytes(const Rows *r) {
    double bytes = 0;
    for (uint32_t i = 0; i < r->expansion->values.count; i++) {
        const RowValue *v = &r->values[i];
        if (v->stored)
            bytes += 4 * (double)lower_volume(r->lower,
                                              lower_dim_set(r->lower, &v->value->dims) & ~r->rows);
    }
    return bytes;
}

// Rows are worked off in blocks that keep the row's values in L1; when the lanes run along a row
// dim, a block is a few vectors of them.
static void choose_block(Rows *r, const TileDimList *rows) {
    const Machine *machine = r->lower->machine;
    int64_t vector = machine->vector_bytes / 4;
    r->block_dim = TILE_DIM_NONE;
    if (!rows->count)
        return;
    double fits = (double)machine->l1_bytes / 2 / (row_bytes(r) + 1);
    if (r->lanes != TILE_DIM_NONE && set_has(r->rows, r->lanes)) {
        r->block_dim = r->lanes;
        r->block = fits >= 4 * (double)vector ? 4 * vector : vector;
        return;
    }
    r->block_dim = rows->at[rows->count - 1];
    r->block = fits >= ROWS_MAX ? ROWS_MAX : fits > 1 ? (int64_t)fits : 1;
}

static void choose_pieces(Rows *r, const TileDimList *rows) {
    const Lowering *lower = r->lower;
    int64_t typical[TILE_RANK_MAX], steps[TILE_RANK_MAX];
    for (int i = 0; i < rows->count; i++)
        typical[i] = lower->typical.at[rows->at[i]];
    int64_t chunk = schedule_chunk(rows_seconds(r), lower_volume(lower, r->rows));
    schedule_pieces(rows, lower->typical.at, chunk, steps);
    for (int i = 0; i < rows->count; i++) {
        TileDimId d = rows->at[i];
        int64_t step = steps[i];
        if (d == r->block_dim && step < typical[i]) {
            int64_t block = r->block < typical[i] ? r->block : typical[i];
            step = (step + block - 1) / block * block;
        }
        r->steps[d] = step;
    }
}

// ---- nodes ----

static Elem home_elem(const Value *value) {
    return terms_work_elem(value->elem);
}

// A value's scratch lies in the order of the dims, so that its lanes are contiguous.
static int make_home(Rows *r, const RowValue *v, NodeList *into) {
    const Lowering *lower = r->lower;
    int argument = NO_BUFFER;
    if (v->output >= 0)
        argument = (int)(lower->kernel->n_args - lower->group->outputs.count) + v->output;
    // A result in a half type is combined and read in f32; the rounded copy is stored beside it.
    if (argument != NO_BUFFER && lower->kernel->buffers.at[argument].elem == home_elem(v->value))
        return argument;
    if (argument != NO_BUFFER && !is_reduction(v->value) && v->needed_by == NO_STAGE)
        return argument;
    Name name = v->value->hint
                    ? v->value->hint
                    : arena_printf(lower->arena, "t%u", v->value->id - lower->graph->values.count);
    DimSet dims = lower_dim_set(lower, &v->value->dims);
    return node_scratch(lower->kernel, into, name, home_elem(v->value),
                        lower_order(dims, &r->order));
}

static void store_cumsum(Rows *r, TermBuilder *terms, const Value *value, uint16_t home) {
    Kernel *kernel = r->lower->kernel;
    TileDimId along = r->lower->dim_of[value->dim];
    Access before = access_plain(kernel, home);
    before.checked = true;
    for (int i = 0; i < before.rank; i++)
        if (before.index[i].dim == along)
            before.index[i].offset = -1;
    int32_t sum = stage_load(kernel, terms->stage, before);
    int32_t one = terms_value(terms, value->args[0]);
    sum = stage_op(kernel, terms->stage, OP_ADD, terms->stage->terms.at[one].elem, sum, one, -1);
    terms_store(terms, SINK_SET, home, sum);
}

static void store_value(Rows *r, TermBuilder *terms, const RowValue *v, uint16_t home) {
    switch (v->value->op) {
    case OP_SUM:
        terms_store(terms, SINK_SUM, home, terms_value(terms, v->value->args[0]));
        break;
    case OP_PROD:
        terms_store(terms, SINK_PROD, home, terms_value(terms, v->value->args[0]));
        break;
    case OP_REDUCE_MAX:
        terms_store(terms, SINK_MAX, home, terms_value(terms, v->value->args[0]));
        break;
    case OP_REDUCE_TOP:
        terms_store(terms, SINK_TOP, home, terms_value(terms, v->value->args[0]));
        break;
    case OP_REDUCE_MIN:
        terms_store(terms, SINK_MIN, home, terms_value(terms, v->value->args[0]));
        break;
    case OP_CUMSUM:
        store_cumsum(r, terms, v->value, home);
        break;
    default:
        terms_store(terms, SINK_SET, home, terms_value(terms, v->value));
    }
}

// Reductions keep their sums in registers when the reduced dims are innermost; stages that only
// store walk memory in order. A running sum cannot have its dim in vectors.
static Stage *open_stage(Rows *r, const RowStage *at, uint32_t index, NodeList *into) {
    const Lowering *lower = r->lower;
    TileDimId lanes = r->lanes, cumsum = TILE_DIM_NONE;
    bool reduces = false;
    for (uint32_t i = 0; i < r->expansion->values.count; i++) {
        const RowValue *v = &r->values[i];
        if (!v->stored || v->stage != index)
            continue;
        if (v->value->op == OP_CUMSUM)
            cumsum = lower->dim_of[v->value->dim];
        else
            reduces = reduces || is_reduction(v->value);
    }
    TileDimList dims = lower_order(at->dims, &r->order);
    if (lanes == TILE_DIM_NONE || !set_has(at->dims, lanes))
        lanes = dims.count ? dims.at[dims.count - 1] : TILE_DIM_NONE;
    if (lanes == cumsum)
        lanes = TILE_DIM_NONE;
    if (reduces && lanes != TILE_DIM_NONE && set_has(r->rows, lanes)) {
        TileDimList first = lower_order(at->dims & r->rows, &r->order);
        dims = lower_order(at->dims, &first);
    }
    return node_compute(lower->kernel, into, dims, lanes);
}

// The rounded copy of a result that is kept in f32.
static void store_rounded(Rows *r, const RowValue *v, NodeList *into) {
    const Lowering *lower = r->lower;
    int argument = (int)(lower->kernel->n_args - lower->group->outputs.count) + v->output;
    if (lower_buffer_of(lower, v->value) == argument)
        return;
    TileDimList dims = lower_order(lower_dim_set(lower, &v->value->dims), &r->order);
    TileDimId lanes = dims.count ? dims.at[dims.count - 1] : TILE_DIM_NONE;
    Stage *stage = node_compute(lower->kernel, into, dims, lanes);
    TermBuilder terms = terms_open(r->lower, stage);
    terms_store(&terms, SINK_SET, (uint16_t)argument, terms_value(&terms, v->value));
}

static void emit_stage(Rows *r, uint32_t index, NodeList *into) {
    uint32_t n = r->expansion->values.count;
    int *homes = arena_array(r->lower->arena, int, n + 1);
    for (uint32_t i = 0; i < n; i++)
        if (r->values[i].stored && r->values[i].stage == index)
            homes[i] = make_home(r, &r->values[i], into);
    Stage *stage = open_stage(r, &r->stages.at[index], index, into);
    TermBuilder terms = terms_open(r->lower, stage);
    for (uint32_t i = 0; i < n; i++)
        if (r->values[i].stored && r->values[i].stage == index)
            store_value(r, &terms, &r->values[i], (uint16_t)homes[i]);
    for (uint32_t i = 0; i < n; i++)
        if (r->values[i].stored && r->values[i].stage == index)
            lower_set_home(r->lower, r->values[i].value, homes[i]);
    for (uint32_t i = 0; i < n; i++)
        if (r->values[i].stored && r->values[i].stage == index && r->values[i].output >= 0)
            store_rounded(r, &r->values[i], into);
}

// Stages without row dims are worked off once per task, the others once per block of rows.
static void emit(Rows *r, const TileDimList *rows) {
    Kernel *kernel = r->lower->kernel;
    NodeList *into = &kernel->body;
    for (int i = 0; i < rows->count; i++) {
        TileDimId d = rows->at[i];
        if (r->steps[d] != kernel->dims.at[d].extent)
            into = &node_loop(kernel, into, LOOP_PARALLEL, d, r->steps[d])->body;
    }
    uint32_t *order = order_stages(r);
    for (uint32_t i = 0; i < r->stages.count; i++)
        if (!(r->stages.at[order[i]].dims & r->rows))
            emit_stage(r, order[i], into);
    for (int i = 0; i < rows->count; i++) {
        TileDimId d = rows->at[i];
        int64_t block = d == r->block_dim ? r->block : 1;
        if (block < r->steps[d])
            into = &node_loop(kernel, into, LOOP_SEQUENTIAL, d, block)->body;
    }
    for (uint32_t i = 0; i < r->stages.count; i++)
        if (r->stages.at[order[i]].dims & r->rows)
            emit_stage(r, order[i], into);
}

static void open_values(Rows *r) {
    Lowering *lower = r->lower;
    uint32_t n = r->expansion->values.count;
    r->values = arena_array(lower->arena, RowValue, n + 1);
    r->place = map_new(lower->arena);
    for (uint32_t i = 0; i < n; i++) {
        Value *value = r->expansion->values.at[i];
        r->values[i] = (RowValue){.value = value, .output = -1, .needed_by = NO_STAGE};
        map_put(r->place, (uint64_t)value->id + 1, &r->values[i]);
    }
    for (uint32_t i = 0; i < lower->group->outputs.count; i++)
        row_value(r, r->expansion->outputs[i])->output = (int32_t)i;
}

// Row dims that every result has.
static DimSet common_rows(const Lowering *lower) {
    DimSet rows = ~(DimSet)0, reduced = 0;
    for (uint32_t i = 0; i < lower->group->outputs.count; i++)
        rows &= lower_dim_set(lower, &lower->group->outputs.at[i]->dims);
    for (uint32_t i = 0; i < lower->group->members.count; i++) {
        const Value *member = lower->group->members.at[i];
        if (op_kind(member->op) == KIND_ROW || member->op == OP_ARGMAX)
            reduced |= set_of(lower->dim_of[member->dim]);
        if (op_kind(member->op) != KIND_REDUCE && op_kind(member->op) != KIND_CONTRACT)
            continue;
        for (uint32_t a = 0; a < member->n_args; a++)
            reduced |=
                lower_dim_set(lower, &member->args[a]->dims) & ~lower_dim_set(lower, &member->dims);
    }
    return rows & ~reduced;
}

void lower_rows(Lowering *lower) {
    Rows r = {.lower = lower, .expansion = lower_expand(lower), .block = 1};
    open_values(&r);
    r.rows = common_rows(lower);
    find_levels(&r);
    find_stages(&r);
    choose_order(&r);
    DimSet lanes = r.lanes == TILE_DIM_NONE ? 0 : set_of(r.lanes) & r.rows;
    TileDimList rows = lower_order(r.rows & ~lanes, &r.order);
    if (lanes)
        rows.at[rows.count++] = r.lanes;
    choose_block(&r, &rows);
    choose_pieces(&r, &rows);
    emit(&r, &rows);
}
