// SPDX-License-Identifier: Apache-2.0
// A streamed group as one kernel. The plan says how the streamed dim (m) is worked off:
//
// resident    all of it at once; wide values stay in cache for all rows of the task
//
//     parallel n:24 { J; loop n:1 { L, top, e, z, X, U }; O }
//
// stream      in pieces, in one loop (online softmax)
//
//     parallel n:96 { loop m:512 { J, top, e, z, O } }
//
// two-pass    in pieces, in several loops that compute the wide values they need again
//
//     parallel n:96 { loop m:128 { J, L, top, e, z }; X; loop m:128 { J, L, e, U, O } }
//
// spill       in pieces; what a later loop needs again is kept for the whole of m
//
//     parallel n:16 { loop m:256 { J, L, top }; { e, z }; X; loop m:256 { U, O } }
//
// What all tasks sum up over their rows (values in turn) they add to in ordered loops, or one task
// has all of the rows, where there are tasks enough without cutting them:
//
//     parallel n:96 { loop m:128 { J, top, e, z }; ordered m:128 { J, L, dV, dK } }
//
// Tasks are pieces of the rows, dims that every member has. Rows are worked off in blocks along the
// one that contractions have in one operand only; of the others a task has one position, or all of
// them where they are few and read the same of the streamed dim.
//
// Source: Dao et al. 2022 (FlashAttention) for one loop; the others are the same with what mixing
// of heads after the softmax forbids left out.
#include "tile/lower/stream.h"

typedef struct {
    Lowering *lower;
    const StreamSchedule *schedule;
    StreamLoops *loops;
    TileDimId streamed;
    Nest nest; // what all nests of the kernel have in common
    NodeList *task;
    bool *whole;      // by value id: wide, and kept for the whole of the streamed dim
    bool takes_turns; // are there too few tasks without those that add to sums in turn?
} Stream;

// ---- rows and order of dims --------------------------------------------------------------------

static bool is_wide(const Stream *s, const Value *value) {
    return dims_has(&value->dims, s->lower->group->reduced.at[0]);
}

// The dims of the operands of a member that is a contraction of two. false: it is none.
static bool find_operands(const Lowering *lower, uint32_t member, DimSet dims[2]) {
    const Value *value = lower->group->members.at[member];
    bool contracts = value->op == OP_CONTRACT && value->n_args == 2;
    for (int k = 0; k < 2 && contracts; k++)
        dims[k] = lower_dim_set(lower, &value->args[k]->dims);
    return contracts;
}

// Multiply-adds of the contractions that have the dim in one operand only.
static double rows_worth(const Lowering *lower, TileDimId dim) {
    double worth = 0;
    DimSet of[2];
    for (uint32_t i = 0; i < lower->group->members.count; i++)
        if (find_operands(lower, i, of) && set_has(of[0] ^ of[1], dim))
            worth += (double)lower_volume(lower, of[0] | of[1]);
    return worth;
}

static TileDimId choose_block_dim(const Lowering *lower, DimSet rows) {
    TileDimId best = TILE_DIM_NONE;
    double most = -1;
    for (TileDimId d = 0; d < lower->kernel->dims.count; d++) {
        double worth = set_has(rows, d) ? rows_worth(lower, d) : -1;
        worth = worth > 0 ? worth + (double)lower->typical.at[d] : worth;
        if (worth > most) {
            most = worth;
            best = d;
        }
    }
    return best;
}

// Rows are worked off in blocks along this dim.
static TileDimId block_dim_of(const Lowering *lower) {
    DimId cut = lower->group->cut;
    return cut != DIM_NONE ? lower->dim_of[cut]
                           : choose_block_dim(lower, lower_dim_set(lower, &lower->group->rows));
}

// Has a contraction an operand along the streamed dim that is the same for all of this one? Keys
// for the queries of one key head, and not for a batch.
static bool shares_streamed(const Lowering *lower, TileDimId dim, TileDimId streamed) {
    DimSet of[2];
    for (uint32_t i = 0; i < lower->group->members.count; i++)
        if (find_operands(lower, i, of))
            for (int k = 0; k < 2; k++)
                if (set_has(of[k] & ~of[1 - k], dim) && set_has(of[1 - k], streamed))
                    return true;
    return false;
}

static bool is_few(const Lowering *lower, TileDimId dim) {
    enum { FEW = 16 }; // positions; chosen
    int64_t extent = lower->kernel->dims.at[dim].extent;
    return extent != EXTENT_DYNAMIC && extent <= FEW;
}

// Are the wide values made of an operand that is read as it lies, not along the streamed dim? Then
// the lanes are rows of the task.
static bool lanes_are_rows(const Lowering *lower, TileDimId streamed) {
    DimSet of[2];
    for (uint32_t i = 0; i < lower->group->members.count; i++) {
        const Value *value = lower->group->members.at[i];
        if (!find_operands(lower, i, of) || value_adds_rows(value) ||
            !set_has(lower_dim_set(lower, &value->dims), streamed))
            continue;
        for (int k = 0; k < 2; k++) {
            Access access;
            if (set_has(of[k] & ~of[1 - k], streamed) &&
                terms_plain_access(lower, value->args[k], &access) &&
                !access_runs_along(lower->kernel, &access, streamed))
                return true;
        }
    }
    return false;
}

static void choose_order(Stream *s) {
    Lowering *lower = s->lower;
    Nest *nest = &s->nest;
    TileDimList none = {0};
    TileDimId last = nest->lanes, first = last == s->streamed ? nest->block_dim : s->streamed;
    nest->order = lower_order(nest->rows & ~set_of(nest->block_dim), &none);
    nest->order.at[nest->order.count++] = first;
    DimSet rest = lower_all_dims(lower) & ~nest->rows & ~nest->streamed;
    lower_order_rest(lower, rest, &none, &nest->order);
    nest->order.at[nest->order.count++] = last;
}

static DimSet chain_set(const Stream *s) {
    TileDimId chain = lower_chain_dim(s->lower);
    return chain == TILE_DIM_NONE ? 0 : set_of(chain);
}

static bool is_cut(const Stream *s, TileDimId dim) {
    return s->nest.steps[dim] != s->lower->kernel->dims.at[dim].extent;
}

static bool find_turns(const Stream *s) {
    DimSet chain = chain_set(s);
    int64_t tasks = 1;
    if (!chain || !is_cut(s, lower_chain_dim(s->lower)))
        return false;
    for (TileDimId d = 0; d < s->lower->kernel->dims.count; d++)
        if (set_has(s->nest.rows & ~chain, d))
            tasks = mul_capped(tasks, ceil_div(s->lower->typical.at[d], s->nest.steps[d]));
    return tasks < s->lower->machine->threads;
}

static void open_nest(Stream *s) {
    Lowering *lower = s->lower;
    Nest *nest = &s->nest;
    nest->lower = lower;
    nest->rows = lower_dim_set(lower, &lower->group->rows);
    nest->streamed = set_of(s->streamed);
    nest->block_dim = block_dim_of(lower);
    nest->lanes = lanes_are_rows(lower, s->streamed) ? nest->block_dim : s->streamed;
    nest->piece = lower->typical.at[s->streamed];
    for (TileDimId d = 0; d < lower->kernel->dims.count; d++) {
        int64_t typical = lower->typical.at[d], rows = s->schedule->rows;
        if (d == nest->block_dim)
            nest->steps[d] = rows < typical ? rows : typical;
        else
            nest->steps[d] =
                is_few(lower, d) && shares_streamed(lower, d, s->streamed) ? typical : 1;
    }
    if (lower_cut_dim(lower) != TILE_DIM_NONE) {
        TileDimId part = lower->dim_of[lower->group->parts];
        nest->rows |= set_of(part);
        nest->steps[part] = 1; // lengths are asked for before tasks are opened
        nest->narrowed |= set_of(nest->block_dim);
    }
    // A turn is a piece of the streamed dim.
    s->takes_turns = s->schedule->plan != PLAN_RESIDENT && find_turns(s);
    choose_order(s);
}

// With parts, a task has all rows of one, block after block; and all rows that would take turns
// where there are tasks enough without them.
static NodeList *open_tasks(Stream *s) {
    NodeList *into = &s->lower->kernel->body;
    TileDimId cut = lower_cut_dim(s->lower);
    DimSet of_part =
        cut == TILE_DIM_NONE ? 0 : set_of(cut) | set_of(s->lower->dim_of[s->lower->group->parts]);
    TileDimList rows = lower_order(s->nest.rows, &s->nest.order);
    DimSet apart = of_part | (s->takes_turns ? 0 : chain_set(s));
    for (int i = 0; i < rows.count; i++) {
        int64_t step = s->nest.steps[rows.at[i]];
        if (!set_has(apart, rows.at[i]) && step != s->lower->kernel->dims.at[rows.at[i]].extent)
            into = &node_loop(s->lower->kernel, into, LOOP_PARALLEL, rows.at[i], step)->body;
    }
    TileDimId chain = lower_chain_dim(s->lower);
    if (chain != TILE_DIM_NONE && !s->takes_turns && is_cut(s, chain))
        return &node_loop(s->lower->kernel, into, LOOP_SEQUENTIAL, chain, s->nest.steps[chain])
                    ->body;
    if (cut == TILE_DIM_NONE)
        return into;
    into = nest_open_part(&s->nest, into);
    return &node_loop(s->lower->kernel, into, LOOP_SEQUENTIAL, cut, s->nest.steps[cut])->body;
}

// ---- what a loop computes ----------------------------------------------------------------------

typedef struct {
    ValueList hoisted; // without the streamed dim, known before: computed ahead of the loop
    bool contracts;
} LoopBody;

static ValueList loop_wanted(const Stream *s, uint32_t loop) {
    ValueList wanted = {0};
    const Group *group = s->lower->group;
    for (uint32_t i = 0; i < group->members.count; i++) {
        Value *value = group->members.at[i];
        bool kept = s->whole[value->id] && s->loops->first[value->id] == loop;
        if (kept || stream_reduces_in(s->loops, value, loop))
            vec_push(s->lower->arena, &wanted, value);
    }
    return wanted;
}

static LoopBody loop_body(Stream *s, uint32_t loop, const ValueList *wanted) {
    const Lowering *lower = s->lower;
    LoopBody body = {0};
    bool *needed = arena_array(lower->arena, bool, lower->graph->values.count);
    for (uint32_t i = 0; i < wanted->count; i++)
        needed[wanted->at[i]->id] = true;
    for (uint32_t i = lower->group->members.count; i-- > 0;) {
        Value *value = lower->group->members.at[i];
        if (!needed[value->id] || lower_buffer_of(lower, value) != NO_BUFFER)
            continue;
        bool ahead = !is_wide(s, value) && s->loops->done[value->id] < loop;
        if (ahead && op_kind(value->op) != KIND_LEAF && !op_is_reading(value->op))
            vec_push(lower->arena, &body.hoisted, value);
        if (ahead)
            continue;
        body.contracts = body.contracts || value->op == OP_CONTRACT;
        for (uint32_t k = 0; k < value->n_args; k++)
            needed[value->args[k]->id] = true;
    }
    return body;
}

// By value id: wide members that are made of contractions, through wide members alone.
static bool *find_contracted(const Stream *s) {
    const Lowering *lower = s->lower;
    bool *contracted = arena_array(lower->arena, bool, lower->graph->values.count);
    for (uint32_t i = 0; i < lower->group->members.count; i++) {
        const Value *value = lower->group->members.at[i];
        bool comes = value->op == OP_CONTRACT;
        for (uint32_t k = 0; k < value->n_args; k++)
            comes = comes || contracted[value->args[k]->id];
        contracted[value->id] = comes && is_wide(s, value);
    }
    return contracted;
}

typedef struct {
    const Value *value;
    uint32_t loop; // that computes it
} Computed;
typedef VEC(Computed) ComputedList;

// Spilling: a wide value that a loop needs and an earlier loop could compute is kept. seen: pairs
// of a value and a loop.
static void keep_for(Stream *s, Computed reduction, const bool *contracted, Map *seen) {
    Arena *arena = s->lower->arena;
    ComputedList open = {0};
    vec_push(arena, &open, reduction);
    while (open.count) {
        Computed next = open.at[--open.count];
        uint64_t key = (uint64_t)next.loop << 32 | next.value->id;
        if (map_get(seen, key))
            continue;
        map_put(seen, key, s);
        for (uint32_t k = 0; k < next.value->n_args; k++) {
            const Value *arg = next.value->args[k];
            if (!s->lower->is_member[arg->id] || !is_wide(s, arg) || s->whole[arg->id])
                continue;
            uint32_t first = s->loops->first[arg->id];
            s->whole[arg->id] = first < next.loop && contracted[arg->id];
            vec_push(arena, &open, (Computed){arg, s->whole[arg->id] ? first : next.loop});
        }
    }
}

static void find_whole(Stream *s) {
    const Group *group = s->lower->group;
    for (uint32_t i = 0; i < group->outputs.count; i++)
        if (is_wide(s, group->outputs.at[i]))
            s->whole[group->outputs.at[i]->id] = true;
    if (s->schedule->plan != PLAN_SPILL)
        return;
    const bool *contracted = find_contracted(s);
    Map *seen = map_new(s->lower->arena);
    for (uint32_t i = group->members.count; i-- > 0;) {
        const Value *value = group->members.at[i];
        if (!is_wide(s, value) && s->loops->done[value->id])
            for (uint32_t loop = 1; loop <= s->loops->n_loops; loop++)
                if (stream_reduces_in(s->loops, value, loop))
                    keep_for(s, (Computed){value, loop}, contracted, seen);
    }
}

// ---- nests -------------------------------------------------------------------------------------

static void emit_straight(Stream *s, ValueList wanted) {
    Nest nest = s->nest;
    nest.streamed = 0;
    nest.wanted = wanted;
    nest_analyse(&nest);
    nest_emit(&nest, s->task);
    for (uint32_t i = 0; i < nest.members.count; i++) // what is not wanted lay in loops over rows
        if (!nest.members.at[i].wanted)
            lower_set_home(s->lower, nest.members.at[i].value, NO_BUFFER);
}

// Memory for a reduction that goes through all pieces.
static uint16_t make_carry(Stream *s, const Nest *nest, const Value *value) {
    Lowering *lower = s->lower;
    int designated = lower_designated(lower, value);
    const Member *member = nest_member(nest, value);
    Elem elem = elem_work(value->elem);
    if (designated != NO_BUFFER) {
        const TileBuffer *buffer = &lower->kernel->buffers.at[designated];
        bool fits = buffer->elem == elem && buffer->panel_dim == TILE_DIM_NONE &&
                    !nest_shares_rows(nest, (uint16_t)designated) &&
                    (!member->contracts || member->last == TILE_DIM_NONE ||
                     (buffer->rank && buffer->dims[buffer->rank - 1] == member->last));
        if (fits) {
            buffer_begin_with(lower->kernel, (uint16_t)designated, nest_neutral(value->op));
            return (uint16_t)designated;
        }
    }
    TileDimList dims = nest_scratch_dims(nest, member);
    TileBuffer buffer = scratch_plain(lower_label(lower, value), elem, dims);
    buffer.has_initial = true;
    buffer.initial = nest_neutral(value->op);
    return node_scratch_with(lower->kernel, s->task, buffer);
}

static void add_carries(Stream *s, Nest *nest, uint32_t loop) {
    for (uint32_t i = 0; i < nest->wanted.count; i++) {
        Value *value = nest->wanted.at[i];
        if (!stream_reduces_in(s->loops, value, loop))
            continue;
        Carry carry = {.value = value, .buffer = make_carry(s, nest, value)};
        const Value *power = s->loops->power[value->id];
        if (power) {
            carry.shift = power->args[0]->args[1];
            carry.power = power->op;
        }
        lower_designate(s->lower, value, carry.buffer);
        vec_push(s->lower->arena, &nest->carries, carry);
    }
}

// After the loop that computes `other`, is it read for `value` alone? What is wide and not kept is
// computed again from it in whichever loop needs that, also when its first one is this.
static bool only_leads_to(const Stream *s, const Value *other, const Value *value, uint32_t loop) {
    const Group *group = s->lower->group;
    bool *from = arena_array(s->lower->arena, bool, s->lower->graph->values.count);
    from[other->id] = true;
    for (uint32_t i = 0; i < group->members.count; i++) {
        const Value *user = group->members.at[i];
        bool reads = false;
        for (uint32_t k = 0; k < user->n_args; k++)
            reads = reads || from[user->args[k]->id];
        if (!reads || user == value)
            continue;
        bool wide = is_wide(s, user);
        from[user->id] = wide && !s->whole[user->id];
        if (!from[user->id] && (wide ? s->loops->first[user->id] : s->loops->done[user->id]) > loop)
            return false;
    }
    return true;
}

// Kept values lie in scratch of the task; one takes the place of another that only it reads.
static void make_whole_homes(Stream *s, const ValueList *wanted, NodeList *into) {
    Lowering *lower = s->lower;
    for (uint32_t i = 0; i < wanted->count; i++) {
        const Value *value = wanted->at[i];
        if (!s->whole[value->id] || lower_designated(lower, value) != NO_BUFFER)
            continue;
        int home = NO_BUFFER;
        for (uint32_t k = 0; k < lower->group->members.count && home == NO_BUFFER; k++) {
            const Value *other = lower->group->members.at[k];
            bool replaced =
                s->whole[other->id] && lower_buffer_of(lower, other) != NO_BUFFER &&
                dims_equal(&other->dims, &value->dims) &&
                elem_work(other->elem) == elem_work(value->elem) &&
                s->loops->first[other->id] < s->loops->first[value->id] &&
                only_leads_to(s, other, value, s->loops->first[other->id]) &&
                lower->kernel->buffers.at[lower_buffer_of(lower, other)].place == PLACE_SCRATCH;
            if (replaced)
                home = lower_buffer_of(lower, other);
        }
        if (home == NO_BUFFER) {
            TileDimList dims = lower_order(lower_dim_set(lower, &value->dims), &s->nest.order);
            home = node_scratch(lower->kernel, into, lower_label(lower, value),
                                elem_work(value->elem), dims);
        }
        lower_designate(lower, value, home);
    }
}

// What lay in a piece is gone after the loop; carries and what is kept stay.
static void close_loop(Stream *s, const Nest *nest) {
    for (uint32_t i = 0; i < nest->members.count; i++) {
        const Value *value = nest->members.at[i].value;
        int kept = nest->members.at[i].wanted ? lower_designated(s->lower, value) : NO_BUFFER;
        lower_set_home(s->lower, value, kept);
    }
    for (uint32_t i = 0; i < nest->carries.count; i++)
        lower_set_home(s->lower, nest->carries.at[i].value, nest->carries.at[i].buffer);
}

// Is something among them that all tasks add to?
static bool adds_in_turn(const ValueList *values) {
    for (uint32_t i = 0; i < values->count; i++)
        if (value_in_turn(values->at[i]))
            return true;
    return false;
}

static void emit_loop(Stream *s, uint32_t loop) {
    ValueList wanted = loop_wanted(s, loop);
    if (!wanted.count)
        return;
    LoopBody body = loop_body(s, loop, &wanted);
    if (body.hoisted.count)
        emit_straight(s, body.hoisted);
    make_whole_homes(s, &wanted, s->task);
    if (!body.contracts && !adds_in_turn(&wanted)) {
        emit_straight(s, wanted);
        return;
    }
    Nest nest = s->nest;
    nest.wanted = wanted;
    int64_t unit = machine_panel_lanes(s->lower->machine, sizeof(float));
    nest.piece = round_up(s->schedule->piece, unit); // whole panels
    nest_analyse(&nest);
    add_carries(s, &nest, loop);
    nest_analyse(&nest);
    LoopKind kind = adds_in_turn(&wanted) && s->takes_turns ? LOOP_ORDERED : LOOP_SEQUENTIAL;
    Node *node = node_loop(s->lower->kernel, s->task, kind, s->streamed, nest.piece);
    nest_emit(&nest, &node->body);
    close_loop(s, &nest);
}

// What was carried in scratch and is a result, too.
static void store_result(Stream *s, uint32_t index) {
    Lowering *lower = s->lower;
    uint16_t argument = lower_argument_of(lower, index);
    TileDimList dims = lower_buffer_dims(lower, argument);
    Stage *stage = node_compute(lower->kernel, s->task, dims, dims_last_of(&dims));
    TermBuilder terms = terms_open(lower, stage);
    terms_store(&terms, SINK_SET, argument, terms_value(&terms, lower->group->outputs.at[index]));
}

static void emit_results(Stream *s) {
    const Group *group = s->lower->group;
    ValueList left = {0};
    for (uint32_t i = 0; i < group->outputs.count; i++) {
        Value *output = group->outputs.at[i];
        int home = lower_buffer_of(s->lower, output);
        if (home == NO_BUFFER)
            vec_push(s->lower->arena, &left, output);
        else if (home != lower_argument_of(s->lower, i))
            store_result(s, i);
    }
    if (left.count)
        emit_straight(s, left);
}

static bool keeps_any(const Stream *s) {
    for (uint32_t i = 0; i < s->lower->group->members.count; i++)
        if (s->whole[s->lower->group->members.at[i]->id])
            return true;
    return false;
}

// Does the group have as many loops as the plan says?
static bool fits_plan(const Stream *s) {
    switch (s->schedule->plan) {
    case PLAN_STREAM:
        return s->loops->n_loops == 1;
    case PLAN_TWO_PASS:
        return s->loops->n_loops > 1;
    case PLAN_SPILL:
        return keeps_any(s);
    default:
        return true;
    }
}

void stream_shape(const Lowering *lower, StreamShape *shape) {
    shape->rows = lower->typical.at[block_dim_of(lower)];
    if (lower_cut_dim(lower) != TILE_DIM_NONE)
        shape->rows = ceil_div(shape->rows, lower->typical.at[lower->dim_of[lower->group->parts]]);
    shape->streamed = lower->typical.at[lower->dim_of[lower->group->reduced.at[0]]];
    shape->unit = machine_panel_lanes(lower->machine, sizeof(float));
}

bool lower_stream(Lowering *lower, const StreamSchedule *schedule) {
    Stream s = {.lower = lower, .schedule = schedule};
    s.streamed = lower->dim_of[lower->group->reduced.at[0]];
    s.whole = arena_array(lower->arena, bool, lower->graph->values.count + 1);
    lower->kernel->schedule = (Schedule){.kind = SCHEDULE_STREAM, .stream = *schedule};
    open_nest(&s);
    lower_designate_outputs(lower);
    if (schedule->plan != PLAN_RESIDENT) {
        s.loops = stream_loops(lower, schedule->plan != PLAN_SPILL);
        find_whole(&s);
        if (!fits_plan(&s))
            return false;
    }
    s.task = open_tasks(&s);
    NodeList *outside = s.task;
    s.task = stream_open_range(lower, &s.nest, s.streamed, s.task);
    s.nest.narrowed |= s.task == outside ? 0 : set_of(s.streamed);
    if (schedule->plan != PLAN_RESIDENT) {
        for (uint32_t loop = 1; loop <= s.loops->n_loops; loop++)
            emit_loop(&s, loop);
    }
    emit_results(&s);
    lower_together(lower);
    lower_scalars(lower);
    return true;
}
