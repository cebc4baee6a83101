// SPDX-License-Identifier: Apache-2.0
// A recurrence: a loop over the positions of a scan's dim inside each task.
//
//     scan t in n:                           parallel h:1
//         S[d] = S * G[t, d] + X[t, d]         scratch S[d]
//         Y[t] = sum(S[d])                     compute S = first         over d    lanes=d
//     for each h                               loop t:1
//                                                compute S = S * G + X   over t d  lanes=d
//                                                compute Y += S          over t d  lanes=d
//                                              compute L = S             over d    lanes=d
//
// What is carried lies in scratch memory of the task. A step is a nest (nest.h) of what the updates
// and results need. An update takes the place of what was carried when nothing reads that any more;
// otherwise it is copied when the step is done. What a move reads is stored by a nest of its own
// before, and a scan inside is a loop between two nests. scan_tasks.c cuts tasks.
//
// Requires: a SCAN group. Ensures: one kernel that stores all its outputs.
#include "tile/lower/scan.h"
#include "tile/lower/nest.h"

typedef struct {
    ScanCarry values;
    uint16_t state;
} Carried;
typedef VEC(Carried) CarriedList;

typedef struct {
    int home, designated; // buffers, or NO_BUFFER
} Places;

// ---- small questions ----------------------------------------------------------------------------

static const ValueList *members_of(const ScanLowering *s) {
    return &s->lower->group->members;
}

static bool is_end_of(const Value *value, DimId dim) {
    return op_kind(value->op) == KIND_SCAN && value->dim == dim;
}

static bool is_there(const ScanLowering *s, const Value *value) {
    return !s->lower->is_member[value->id] || lower_buffer_of(s->lower, value) != NO_BUFFER;
}

// Only another way to read what is not of the group.
static bool reads_outside(const ScanLowering *s, const Value *value) {
    while (op_is_reading(value->op) && s->lower->is_member[value->id])
        value = value->args[0];
    return !s->lower->is_member[value->id];
}

static DimSet dim_set(const ScanLowering *s, const DimList *dims) {
    return lower_dim_set(s->lower, dims);
}

static int output_of(const ScanLowering *s, const Value *value) {
    for (uint32_t i = 0; i < s->lower->group->outputs.count; i++)
        if (s->lower->group->outputs.at[i] == value)
            return lower_argument_of(s->lower, i);
    return NO_BUFFER;
}

// What the ends of a scan carry, each once.
static CarriedList find_carried(const ScanLowering *s, DimId dim) {
    CarriedList carried = {0};
    for (uint32_t i = 0; i < members_of(s)->count; i++) {
        const Value *end = members_of(s)->at[i];
        for (uint32_t k = 0; is_end_of(end, dim) && k < graph_scan_carries(end); k++) {
            ScanCarry values = graph_scan_carry(end, k);
            bool known = false;
            for (uint32_t c = 0; c < carried.count; c++)
                known = known || carried.at[c].values.carry == values.carry;
            if (!known)
                vec_push(s->lower->arena, &carried, (Carried){.values = values});
        }
    }
    return carried;
}

// ---- stages -------------------------------------------------------------------------------------

// buffer = value, over the buffer's dims and the present positions of scans.
static void emit_store(const ScanLowering *s, uint16_t buffer, const Value *value, NodeList *into) {
    TileDimList own = lower_buffer_dims(s->lower, buffer), dims;
    DimSet steps = dim_set(s, &value->dims) & ~lower_buffer_set(s->lower, buffer);
    dims = lower_order(steps, &s->order);
    dims_append(&dims, &own);
    Stage *stage = node_compute(s->lower->kernel, into, dims, dims_last_of(&own));
    TermBuilder terms = terms_open(s->lower, stage);
    terms_store(&terms, SINK_SET, buffer, terms_value(&terms, value));
}

static uint16_t make_scratch(const ScanLowering *s, const Value *value, DimSet dims,
                             NodeList *into) {
    return node_scratch(s->lower->kernel, into, lower_label(s->lower, value),
                        elem_work(value->elem), lower_order(dims, &s->order));
}

// ---- updates in place ---------------------------------------------------------------------------

typedef enum { READS_NOT, READS_POINT, READS_OTHERS } Reading;

// How the stage of a stored value reads a carry: through what is computed with it.
static Reading reading_of(const Nest *nest, const Value *value, const Value *carry) {
    Arena *arena = nest->lower->arena;
    ValueList open = {0};
    Map *moved = map_new(arena), *seen = map_new(arena);
    Reading reading = READS_NOT;
    vec_push(arena, &open, (Value *)value);
    while (open.count) {
        const Value *next = open.at[--open.count];
        bool elsewhere = op_kind(next->op) == KIND_MOVE || map_get(moved, next->id + 1ull);
        for (uint32_t k = 0; k < next->n_args; k++) {
            Value *arg = next->args[k];
            const Member *member = nest_member(nest, arg);
            Reading own = elsewhere ? READS_OTHERS : READS_POINT;
            if (arg == carry)
                reading = own > reading ? own : reading;
            if (!member || member->stored || map_get(elsewhere ? moved : seen, arg->id + 1ull))
                continue;
            map_put(elsewhere ? moved : seen, arg->id + 1ull, arg);
            vec_push(arena, &open, arg);
        }
    }
    return reading;
}

static bool is_read_when_done(const ScanLowering *s, const CarriedList *carried,
                              const Value *carry) {
    bool read = false;
    for (uint32_t i = 0; i < carried->count; i++)
        read = read || carried->at[i].values.update == carry;
    for (uint32_t i = 0; i < members_of(s)->count; i++) {
        const Value *end = members_of(s)->at[i];
        read = read || (is_end_of(end, carry->dim) && end->op == OP_STACK && end->args[0] == carry);
    }
    return read;
}

static uint32_t position_of(const Nest *nest, uint32_t stage) {
    uint32_t at = 0;
    while (nest->sequence[at] != stage)
        at++;
    return at;
}

static bool fits_in_place(const ScanLowering *s, const Nest *nest, const CarriedList *carried,
                          const ScanCarry *values) {
    const Member *update = nest_member(nest, values->update);
    if (!update || !update->stored || update->reduces || !(update->box & ~scan_dims(s->lower)) ||
        is_read_when_done(s, carried, values->carry) ||
        lower_designated(s->lower, values->update) != NO_BUFFER)
        return false;
    uint32_t at = position_of(nest, update->stage);
    for (uint32_t i = 0; i < nest->members.count; i++) {
        const Member *m = &nest->members.at[i];
        Reading reading = m->stored ? reading_of(nest, m->value, values->carry) : READS_NOT;
        uint32_t own = m->stored ? position_of(nest, m->stage) : 0;
        if (own > at ? reading != READS_NOT : own == at && reading == READS_OTHERS)
            return false;
    }
    return true;
}

static void place_updates(const ScanLowering *s, const Nest *nest, const CarriedList *carried) {
    for (uint32_t i = 0; i < carried->count; i++)
        if (fits_in_place(s, nest, carried, &carried->at[i].values))
            lower_designate(s->lower, carried->at[i].values.update, carried->at[i].state);
}

// What another value took the place of is there no more.
static void forget_replaced(const ScanLowering *s, const Nest *nest) {
    Lowering *lower = s->lower;
    uint32_t *held = arena_array(lower->arena, uint32_t, lower->kernel->buffers.count + 1);
    for (uint32_t i = 0; i < nest->members.count; i++) {
        int home = lower_buffer_of(lower, nest->members.at[i].value);
        held[home == NO_BUFFER ? lower->kernel->buffers.count : (uint32_t)home]++;
    }
    for (uint32_t i = 0; i < nest->members.count; i++) {
        const Member *m = &nest->members.at[i];
        int home = lower_buffer_of(lower, m->value);
        if (!m->wanted && home != NO_BUFFER && held[home] > 1)
            lower_set_home(lower, m->value, NO_BUFFER);
    }
}

// carried: of the scan whose step the nest completes, or NULL.
static void emit_nest(const ScanLowering *s, const ValueList *wanted, const CarriedList *carried,
                      NodeList *into) {
    Nest nest = {.lower = s->lower,
                 .plain = true,
                 .sums_apart = true,
                 .block_dim = TILE_DIM_NONE,
                 .order = s->order,
                 .lanes = s->lanes};
    for (uint32_t i = 0; i < wanted->count; i++)
        if (!is_there(s, wanted->at[i]))
            vec_push(s->lower->arena, &nest.wanted, wanted->at[i]);
    if (!nest.wanted.count)
        return;
    nest_analyse(&nest);
    if (carried)
        place_updates(s, &nest, carried);
    nest_emit(&nest, into);
    forget_replaced(s, &nest);
}

// ---- values in the order in which they can be computed ------------------------------------------

static void emit_scan(const ScanLowering *s, DimId dim, NodeList *into);

// What the wanted values are made of and is not there, by value id; not the bodies of scans inside.
static bool *find_needed(const ScanLowering *s, const ValueList *wanted) {
    bool *needed = arena_array(s->lower->arena, bool, s->lower->graph->values.count + 1);
    for (uint32_t i = 0; i < wanted->count; i++)
        needed[wanted->at[i]->id] = true;
    for (uint32_t i = members_of(s)->count; i-- > 0;) {
        const Value *value = members_of(s)->at[i];
        needed[value->id] = needed[value->id] && !is_there(s, value);
        bool ends = op_kind(value->op) == KIND_SCAN; // emit_step asks for what its loop computes
        for (uint32_t k = 0; needed[value->id] && k < value->n_args; k++)
            needed[value->args[k]->id] |= !ends || !dims_has(&value->args[k]->dims, value->dim);
    }
    return needed;
}

static void emit_values(const ScanLowering *s, const ValueList *wanted, const CarriedList *carried,
                        NodeList *into);

// What a move reads must lie in memory, but the positions of a gather.
static void emit_moved(const ScanLowering *s, const Value *move, NodeList *into) {
    ValueList read = {0};
    for (uint32_t k = 0; k < move->n_args; k++)
        if (!(move->op == OP_GATHER && k == 1) && !reads_outside(s, move->args[k]))
            vec_push(s->lower->arena, &read, move->args[k]);
    if (read.count)
        emit_values(s, &read, NULL, into);
}

// Positions in order, of rows that are copied to lie in one piece.
static void emit_order(const ScanLowering *s, const Value *value, NodeList *into) {
    Lowering *lower = s->lower;
    const Value *arg = value->args[0];
    TileDimId along = lower->dim_of[value->dim], places = lower->dim_of[value->dim2];
    TileDimList dims = lower_order(dim_set(s, &arg->dims) & ~set_of(along), &s->order);
    dims.at[dims.count++] = along;
    uint16_t row = node_scratch(lower->kernel, into, "row", elem_work(arg->elem), dims);
    emit_store(s, row, arg, into);
    uint16_t out = make_scratch(s, value, dim_set(s, &value->dims), into);
    Stage *stage = node_order(lower->kernel, into, access_plain(lower->kernel, out),
                              access_plain(lower->kernel, row), along, places);
    stage->descending = value->offset != 0;
    lower_set_home(lower, value, out);
    if (lower_designated(lower, value) != NO_BUFFER)
        emit_store(s, (uint16_t)lower_designated(lower, value), value, into);
}

static void emit_scatter(const ScanLowering *s, const Value *value, NodeList *into) {
    Lowering *lower = s->lower;
    uint16_t sums = make_scratch(s, value, dim_set(s, &value->dims), into);
    buffer_begin_with(lower->kernel, sums, 0);
    lower_sums_at(lower, value, sums, into);
    lower_set_home(lower, value, sums);
    if (lower_designated(lower, value) != NO_BUFFER)
        emit_store(s, (uint16_t)lower_designated(lower, value), value, into);
}

// By value id: a scan's ends and what its loop computes, in loops inside also what lacks its dim.
static bool *find_body(const ScanLowering *s, DimId dim) {
    bool *body = arena_array(s->lower->arena, bool, s->lower->graph->values.count + 1);
    DimSet loops = set_of(s->lower->dim_of[dim]);
    for (uint32_t i = members_of(s)->count; i-- > 0;) { // inner ends come before outer ones
        const Value *end = members_of(s)->at[i];
        if (op_kind(end->op) == KIND_SCAN && (dim_set(s, &end->dims) & loops))
            loops |= set_of(s->lower->dim_of[end->dim]);
    }
    for (uint32_t i = 0; i < members_of(s)->count; i++) {
        const Value *value = members_of(s)->at[i];
        bool scans = value->op == OP_CARRY || op_kind(value->op) == KIND_SCAN;
        body[value->id] =
            dims_has(&value->dims, dim) || (scans && set_has(loops, s->lower->dim_of[value->dim]));
        for (uint32_t k = 0; k < value->n_args; k++) {
            const Value *arg = value->args[k];
            bool leaves = dims_has(&arg->dims, dim) && !dims_has(&value->dims, dim);
            body[value->id] |= body[arg->id] && !leaves && !is_end_of(arg, dim);
        }
    }
    return body;
}

// What the body of a scan inside reads of the bodies around it.
static ValueList read_by_scan(const ScanLowering *s, DimId dim) {
    ValueList read = {0};
    const bool *body = find_body(s, dim);
    for (uint32_t i = 0; i < members_of(s)->count; i++) {
        const Value *value = members_of(s)->at[i];
        for (uint32_t k = 0; body[value->id] && k < value->n_args; k++) {
            Value *arg = value->args[k];
            if (!body[arg->id] && !op_is_immediate(arg->op) && !reads_outside(s, arg))
                vec_push(s->lower->arena, &read, arg);
        }
    }
    return read;
}

static void emit_inner_scan(const ScanLowering *s, DimId dim, NodeList *into) {
    ValueList read = read_by_scan(s, dim);
    if (read.count)
        emit_values(s, &read, NULL, into);
    emit_scan(s, dim, into);
}

static void emit_values(const ScanLowering *s, const ValueList *wanted, const CarriedList *carried,
                        NodeList *into) {
    const bool *needed = find_needed(s, wanted);
    // Moves first: what they read of a loop inside needs none of its carries, and it finds it
    // there.
    for (uint32_t i = 0; i < members_of(s)->count; i++) {
        const Value *value = members_of(s)->at[i];
        if (op_kind(value->op) == KIND_MOVE && needed[value->id] && !is_there(s, value))
            emit_moved(s, value, into);
    }
    for (uint32_t i = 0; i < members_of(s)->count; i++) {
        const Value *value = members_of(s)->at[i];
        if (!needed[value->id] || is_there(s, value))
            continue;
        if (op_kind(value->op) == KIND_SCAN)
            emit_inner_scan(s, value->dim, into);
        else if (value->op == OP_ORDER)
            emit_order(s, value, into);
        else if (value->op == OP_SCATTER_ADD)
            emit_scatter(s, value, into);
    }
    emit_nest(s, wanted, carried, into);
}

// ---- one scan -----------------------------------------------------------------------------------

// Where the rows of a STACK are collected: an argument, or scratch under the scan's dim.
static uint16_t make_rows(const ScanLowering *s, const Value *stack, NodeList *into) {
    int output = output_of(s, stack);
    if (output != NO_BUFFER && !dims_has(&s->lower->group->reduced, stack->dim))
        ice("tile lower: a stack along no scan of its group");
    if (output != NO_BUFFER)
        return (uint16_t)output;
    return make_scratch(s, stack, dim_set(s, &stack->args[0]->dims), into);
}

static bool has_inner_scan(const ScanLowering *s, const Value *value, DimId dim) {
    const DimList *scans = &s->lower->group->reduced;
    bool behind = false;
    for (uint32_t i = 0; i < scans->count; i++) {
        if (behind && dims_has(&value->dims, scans->at[i]))
            return true;
        behind = behind || scans->at[i] == dim;
    }
    return false;
}

// What a step has to give: updates, rows of stacks, and what is stored at every position.
static ValueList step_wanted(const ScanLowering *s, DimId dim, const CarriedList *carried) {
    ValueList wanted = {0};
    for (uint32_t i = 0; i < carried->count; i++)
        vec_push(s->lower->arena, &wanted, carried->at[i].values.update);
    for (uint32_t i = 0; i < members_of(s)->count; i++) {
        Value *value = members_of(s)->at[i];
        if (is_end_of(value, dim) && value->op == OP_STACK)
            vec_push(s->lower->arena, &wanted, value->args[0]);
        else if (output_of(s, value) != NO_BUFFER && dims_has(&value->dims, dim) &&
                 op_kind(value->op) != KIND_SCAN && !has_inner_scan(s, value, dim)) {
            lower_designate(s->lower, value, output_of(s, value));
            vec_push(s->lower->arena, &wanted, value);
        }
    }
    return wanted;
}

// An update that is what another carry was: kept before that one changes.
static void save_exchanged(const ScanLowering *s, const CarriedList *carried, NodeList *into) {
    for (uint32_t i = 0; i < carried->count; i++) {
        const Value *update = carried->at[i].values.update;
        bool exchanged = false;
        for (uint32_t k = 0; k < carried->count; k++)
            exchanged = exchanged || (k != i && carried->at[k].values.carry == update);
        if (!exchanged || update == carried->at[i].values.carry)
            continue;
        uint16_t kept = make_scratch(s, update, dim_set(s, &update->dims), into);
        emit_store(s, kept, update, into);
        lower_set_home(s->lower, update, kept);
    }
}

// Rows that the nest can store where they are collected: those that nothing else has a place for.
static bool *place_rows(const ScanLowering *s, DimId dim, const CarriedList *carried,
                        const uint16_t *rows) {
    bool *placed = arena_array(s->lower->arena, bool, members_of(s)->count + 1);
    for (uint32_t i = 0; i < members_of(s)->count; i++) {
        const Value *end = members_of(s)->at[i];
        if (!is_end_of(end, dim) || end->op != OP_STACK)
            continue;
        const Value *row = end->args[0];
        bool has_place = is_there(s, row) || op_kind(row->op) == KIND_SCAN ||
                         lower_designated(s->lower, row) != NO_BUFFER;
        for (uint32_t k = 0; k < carried->count; k++)
            has_place = has_place || carried->at[k].values.update == row;
        placed[i] = !has_place;
        if (placed[i])
            lower_designate(s->lower, row, rows[i]);
    }
    return placed;
}

static void emit_step(const ScanLowering *s, DimId dim, CarriedList *carried, const uint16_t *rows,
                      NodeList *body) {
    Lowering *lower = s->lower;
    for (uint32_t i = 0; i < carried->count; i++)
        lower_set_home(lower, carried->at[i].values.carry, carried->at[i].state);
    ValueList wanted = step_wanted(s, dim, carried);
    bool *placed = place_rows(s, dim, carried, rows);
    emit_values(s, &wanted, carried, body);
    for (uint32_t i = 0; i < members_of(s)->count; i++) {
        const Value *end = members_of(s)->at[i];
        if (is_end_of(end, dim) && end->op == OP_STACK && !placed[i])
            emit_store(s, rows[i], end->args[0], body);
    }
    save_exchanged(s, carried, body);
    for (uint32_t i = 0; i < carried->count; i++)
        if (lower_buffer_of(lower, carried->at[i].values.update) != carried->at[i].state)
            emit_store(s, carried->at[i].state, carried->at[i].values.update, body);
}

static int32_t load_rows(TermBuilder *terms, const Value *stack, uint16_t rows) {
    const Lowering *lower = terms->lower;
    Access access = access_plain(lower->kernel, rows);
    for (int i = 0; i < access.rank; i++)
        if (access.index[i].dim == lower->dim_of[stack->dim])
            access.index[i].dim = lower->dim_of[stack->dim2];
    int32_t term = stage_load(lower->kernel, terms->stage, access);
    return terms_cast(terms, term, elem_work(stack->elem));
}

// The rows of a scan inside, under the dim that they are over after it.
static void rename_rows(const ScanLowering *s, const Value *stack, uint16_t rows, NodeList *into) {
    uint16_t whole = make_scratch(s, stack, dim_set(s, &stack->dims), into);
    TileDimList dims = lower_buffer_dims(s->lower, whole);
    Stage *stage = node_compute(s->lower->kernel, into, dims, dims_last_of(&dims));
    TermBuilder terms = terms_open(s->lower, stage);
    terms_store(&terms, SINK_SET, whole, load_rows(&terms, stack, rows));
    lower_set_home(s->lower, stack, whole);
}

// What is left after the scan.
static void emit_end(const ScanLowering *s, const Value *end, const CarriedList *carried,
                     uint16_t rows, NodeList *into) {
    int output = output_of(s, end);
    if (end->op == OP_STACK) {
        if (output == NO_BUFFER || rows != output)
            rename_rows(s, end, rows, into);
        return;
    }
    for (uint32_t i = 0; i < carried->count; i++)
        if (carried->at[i].values.carry == graph_scan_carry(end, 0).carry)
            lower_set_home(s->lower, end, carried->at[i].state);
    if (output != NO_BUFFER)
        emit_store(s, (uint16_t)output, end, into);
}

// Where members lie and are wanted, to be set back after a loop: what its body made ends with it,
// and what is read of it outside, under another name, is not at one position.
static Places *save_places(const ScanLowering *s) {
    Places *places = arena_array(s->lower->arena, Places, members_of(s)->count + 1);
    for (uint32_t i = 0; i < members_of(s)->count; i++)
        places[i] = (Places){lower_buffer_of(s->lower, members_of(s)->at[i]),
                             lower_designated(s->lower, members_of(s)->at[i])};
    return places;
}

static void restore_places(const ScanLowering *s, const Places *places) {
    for (uint32_t i = 0; i < members_of(s)->count; i++) {
        lower_set_home(s->lower, members_of(s)->at[i], places[i].home);
        lower_designate(s->lower, members_of(s)->at[i], places[i].designated);
    }
}

static void emit_scan(const ScanLowering *s, DimId dim, NodeList *into) {
    Lowering *lower = s->lower;
    const ValueList *members = members_of(s);
    TileDimId t = lower->dim_of[dim];
    CarriedList carried = find_carried(s, dim);
    for (uint32_t i = 0; i < carried.count; i++) {
        const Value *carry = carried.at[i].values.carry;
        carried.at[i].state = make_scratch(s, carry, dim_set(s, &carry->dims) & ~set_of(t), into);
        emit_store(s, carried.at[i].state, carried.at[i].values.first, into);
    }
    uint16_t *rows = arena_array(lower->arena, uint16_t, members->count + 1);
    for (uint32_t i = 0; i < members->count; i++)
        if (is_end_of(members->at[i], dim) && members->at[i]->op == OP_STACK)
            rows[i] = make_rows(s, members->at[i], into);
    LoopKind kind = lower->graph->dims.at[dim].reversed ? LOOP_BACKWARD : LOOP_SEQUENTIAL;
    Node *loop = node_loop(lower->kernel, into, kind, t, 1);
    const Places *places = save_places(s);
    emit_step(s, dim, &carried, rows, &loop->body);
    restore_places(s, places);
    for (uint32_t i = 0; i < members->count; i++)
        if (is_end_of(members->at[i], dim))
            emit_end(s, members->at[i], &carried, rows[i], into);
}

void lower_scan(Lowering *lower) {
    ScanLowering s = scan_choose(lower);
    emit_scan(&s, lower->group->reduced.at[0], scan_open_tasks(&s));
}
