// SPDX-License-Identifier: Apache-2.0
// Graph values as terms of a compute stage.
//
// A value that has a home (an argument, or scratch that an earlier stage filled) is a load; a move
// of an argument is a load with another index; everything else is computed from its arguments. Half
// types are worked on in f32: converted when loaded, rounded when stored or when the program casts.
#include "tile/lower/lower.h"

#include <math.h>

TermBuilder terms_open(Lowering *lower, Stage *stage) {
    return (TermBuilder){.lower = lower, .stage = stage, .known = map_new(lower->arena)};
}

static int32_t term_op(TermBuilder *t, Op op, Elem elem, int32_t a, int32_t b, int32_t c) {
    return stage_op(t->lower->kernel, t->stage, op, elem, a, b, c);
}

int32_t terms_cast(TermBuilder *t, int32_t term, Elem elem) {
    if (t->stage->terms.at[term].elem == elem)
        return term;
    return term_op(t, OP_CAST, elem, term, -1, -1);
}

static int32_t term_load(TermBuilder *t, Access access) {
    int32_t term = stage_load(t->lower->kernel, t->stage, access);
    return terms_cast(t, term, elem_work(t->stage->terms.at[term].elem));
}

void terms_store(TermBuilder *t, SinkMode mode, uint16_t buffer, int32_t term) {
    Kernel *kernel = t->lower->kernel;
    term = terms_cast(t, term, kernel->buffers.at[buffer].elem);
    stage_sink(kernel, t->stage, mode, access_plain(kernel, buffer), term);
}

// ---- moves ----

static Access argument_access(const Lowering *lower, const Value *stored) {
    int buffer = lower_buffer_of(lower, stored);
    if (buffer == NO_BUFFER)
        ice("tile lower: the argument of a move, value %u (%s), is not stored", stored->id,
            op_name(stored->op));
    return access_plain(lower->kernel, (uint16_t)buffer);
}

static int axis_of(const Lowering *lower, const Access *access, DimId dim) {
    const TileBuffer *buffer = &lower->kernel->buffers.at[access->buffer];
    for (int i = 0; i < access->rank; i++)
        if (buffer->dims[i] == lower->dim_of[dim] && access->index[i].dim == buffer->dims[i])
            return i;
    ice("tile lower: a move along %s of a value that lacks it", lower->graph->dims.at[dim].name);
}

// The index of `access` along a dim of the graph that no other dim was fused with.
static Index *index_along(const Lowering *lower, Access *access, DimId dim) {
    return &access->index[axis_of(lower, access, dim)];
}

static const Value *value_in_memory(const Lowering *lower, const Value *value) {
    while (op_is_reading(value->op) && lower_buffer_of(lower, value) == NO_BUFFER)
        value = value->args[0];
    return value;
}

// The place of a dim under which an access reads, whatever the buffer calls it.
static int place_read(const Lowering *lower, const Access *access, DimId dim) {
    for (int i = 0; i < access->rank; i++)
        if (access->index[i].dim == lower->dim_of[dim])
            return i;
    ice("tile lower: a value is read along %s, which it lacks", lower->graph->dims.at[dim].name);
}

// A value that is only another way to read what is stored. Of a position along a dynamic extent
// nothing is known here.
static Access read_access(const Lowering *lower, const Value *value) {
    const Value *stored = value_in_memory(lower, value);
    if (stored == value)
        return argument_access(lower, value);
    Access access = read_access(lower, value->args[0]), own = access;
    if (value->op == OP_TAKE) {
        access.index[place_read(lower, &own, value->dim)] =
            (Index){.dim = TILE_DIM_NONE, .offset = value->offset, .term = -1};
        access.checked |= lower->graph->dims.at[value->dim].extent == EXTENT_DYNAMIC;
        access.fill = elem_is_float(value->elem) ? NAN : 0;
        return access;
    }
    if (stored->id < lower->graph->values.count && lower->is_renamed[stored->id])
        return access;
    for (uint32_t i = 0; i < value->renames->count; i++)
        access.index[place_read(lower, &own, value->renames->from[i])].dim =
            lower->dim_of[value->renames->to[i]];
    return access;
}

static Access slice_access(const Lowering *lower, const Value *value) {
    Access access = argument_access(lower, value->args[0]);
    Index *index = index_along(lower, &access, value->dim);
    index->dim = lower->dim_of[value->dim2];
    index->offset = value->offset;
    return access;
}

static Access shift_access(const Lowering *lower, const Value *value) {
    Access access = argument_access(lower, value->args[0]);
    index_along(lower, &access, value->dim)->offset = -value->offset;
    access.checked = true;
    return access;
}

// index(dim) + rest that is computed here is no term but another place to begin at: what lies side
// by side is read so.
static Index gather_index(TermBuilder *t, const Value *ids) {
    DimId along;
    const Value *rest;
    if (lower_buffer_of(t->lower, ids) != NO_BUFFER || !value_is_moved_index(ids, &along, &rest))
        return (Index){.dim = TILE_DIM_NONE, .term = terms_value(t, ids)};
    return (Index){.dim = t->lower->dim_of[along], .term = terms_value(t, rest)};
}

static int32_t gather_term(TermBuilder *t, const Value *value) {
    Access access = argument_access(t->lower, value->args[0]);
    *index_along(t->lower, &access, value->dim) = gather_index(t, value->args[1]);
    access.checked = true;
    access.fill = elem_is_float(value->elem) ? NAN : 0;
    return term_load(t, access);
}

static int32_t extent_term(TermBuilder *t, DimId dim) {
    return stage_extent(t->lower->kernel, t->stage, t->lower->dim_of[dim]);
}

// Argument k covers the positions from the sum of the extents before it. Dynamic extents are terms,
// the constant ones add up to an offset.
static int32_t concat_term(TermBuilder *t, const Value *value) {
    Lowering *lower = t->lower;
    Kernel *kernel = lower->kernel;
    int32_t result = -1, start = -1; // start: sum of the dynamic extents so far
    int64_t offset = 0;
    int32_t position = stage_index(kernel, t->stage, lower->dim_of[value->dim2]);
    for (uint32_t k = 0; k < value->n_args; k++) {
        Access access = argument_access(lower, value->args[k]);
        Index *index = index_along(lower, &access, value->cats[k]);
        int32_t back = start < 0 ? -1 : term_op(t, OP_NEG, ELEM_I64, start, -1, -1);
        *index = (Index){.dim = lower->dim_of[value->dim2], .offset = -offset, .term = back};
        access.checked = true;
        int32_t load = term_load(t, access);
        int32_t begin = stage_const(kernel, t->stage, (double)offset, ELEM_I64);
        if (start >= 0)
            begin = term_op(t, OP_ADD, ELEM_I64, start, begin, -1);
        Elem elem = t->stage->terms.at[load].elem;
        result = k == 0 ? load
                        : term_op(t, OP_SELECT, elem,
                                  term_op(t, OP_LE, ELEM_BOOL, begin, position, -1), load, result);
        int64_t extent = lower->graph->dims.at[value->cats[k]].extent;
        if (extent != EXTENT_DYNAMIC)
            offset += extent;
        else if (start < 0)
            start = extent_term(t, value->cats[k]);
        else
            start = term_op(t, OP_ADD, ELEM_I64, start, extent_term(t, value->cats[k]), -1);
    }
    return result;
}

static int32_t integer_op(TermBuilder *t, Op op, int32_t a, int32_t b) {
    return term_op(t, op, ELEM_I64, a, b, -1);
}

static int32_t extent_or_number(TermBuilder *t, DimId dim) {
    int64_t extent = t->lower->graph->dims.at[dim].extent;
    if (extent == EXTENT_DYNAMIC)
        return extent_term(t, dim);
    return stage_const(t->lower->kernel, t->stage, (double)extent, ELEM_I64);
}

// dim at (h * K + k) * L + l for the digits h k l.
static int32_t split_term(TermBuilder *t, const Value *value) {
    const Lowering *lower = t->lower;
    Access access = argument_access(lower, value->args[0]);
    int32_t position = -1;
    for (uint32_t i = 0; i < value->digits->count; i++) {
        DimId digit = value->digits->at[i];
        int32_t index = stage_index(lower->kernel, t->stage, lower->dim_of[digit]);
        if (i)
            position = integer_op(t, OP_MUL, position, extent_or_number(t, digit));
        position = i ? integer_op(t, OP_ADD, position, index) : index;
    }
    *index_along(lower, &access, value->dim) = (Index){.dim = TILE_DIM_NONE, .term = position};
    access.checked = true;
    return term_load(t, access);
}

// The digits of the position along dim, the last one first.
static int32_t merge_term(TermBuilder *t, const Value *value) {
    const Lowering *lower = t->lower;
    Access access = argument_access(lower, value->args[0]), own = access;
    int32_t left = stage_index(lower->kernel, t->stage, lower->dim_of[value->dim]);
    for (uint32_t i = value->digits->count; i-- > 0;) {
        DimId digit = value->digits->at[i];
        int32_t extent = extent_or_number(t, digit);
        int32_t position = i ? integer_op(t, OP_MOD, left, extent) : left;
        access.index[axis_of(lower, &own, digit)] = (Index){.dim = TILE_DIM_NONE, .term = position};
        left = i ? integer_op(t, OP_FLOORDIV, left, extent) : left;
    }
    access.checked = true;
    return term_load(t, access);
}

static int32_t move_term(TermBuilder *t, const Value *value) {
    switch (value->op) {
    case OP_RENAME:
    case OP_TAKE:
        return term_load(t, read_access(t->lower, value));
    case OP_SLICE:
        return term_load(t, slice_access(t->lower, value));
    case OP_SHIFT:
        return term_load(t, shift_access(t->lower, value));
    case OP_GATHER:
        return gather_term(t, value);
    case OP_CONCAT:
        return concat_term(t, value);
    case OP_SPLIT:
        return split_term(t, value);
    case OP_MERGE:
        return merge_term(t, value);
    default:
        ice("tile lower: %s is no move", op_name(value->op));
    }
}

bool terms_plain_access(const Lowering *lower, const Value *value, Access *access) {
    const Value *stored = value_in_memory(lower, value);
    if (lower_buffer_of(lower, stored) == NO_BUFFER)
        return false;
    *access = read_access(lower, value);
    return stored == value || access_is_plain(access);
}

// ---- pointwise values ----

static int32_t cast_term(TermBuilder *t, const Value *value) {
    int32_t term = terms_value(t, value->args[0]);
    if (value->elem == value->args[0]->elem)
        return term;
    if (elem_work(value->elem) != value->elem) // rounds to a half type
        term = terms_cast(t, term, value->elem);
    return terms_cast(t, term, elem_work(value->elem));
}

static int32_t map_term(TermBuilder *t, const Value *value) {
    if (value->op == OP_COPY)
        return terms_value(t, value->args[0]);
    if (value->op == OP_CAST)
        return cast_term(t, value);
    if (value_is_repeat(value))
        return terms_value(t, value->args[1]);
    int32_t args[3] = {-1, -1, -1};
    for (uint32_t i = 0; i < value->n_args; i++)
        args[i] = terms_value(t, value->args[i]);
    return term_op(t, value->op, elem_work(value->elem), args[0], args[1], args[2]);
}

static int32_t value_term(TermBuilder *t, const Value *value) {
    Kernel *kernel = t->lower->kernel;
    int buffer = lower_buffer_of(t->lower, value);
    if (buffer != NO_BUFFER)
        return term_load(t, access_plain(kernel, (uint16_t)buffer));
    switch (value->op) {
    case OP_CONST:
        return stage_const(kernel, t->stage, value->number, elem_work(value->elem));
    case OP_INDEX:
        return stage_index(kernel, t->stage, t->lower->dim_of[value->dim]);
    case OP_EXTENT:
        return extent_term(t, value->dim);
    default:
        break;
    }
    if (op_kind(value->op) == KIND_MOVE)
        return move_term(t, value);
    if (op_kind(value->op) != KIND_MAP)
        ice("tile lower: value %u (%s) is needed before it is computed", value->id,
            op_name(value->op));
    return map_term(t, value);
}

static int32_t *known_term(const TermBuilder *t, const Value *value) {
    return map_get(t->known, (uint64_t)value->id + 1);
}

// The first value that value_term asks for and that has no term so far; NULL: none.
static const Value *missing_operand(const TermBuilder *t, const Value *value) {
    bool maps = op_kind(value->op) == KIND_MAP, gathers = value->op == OP_GATHER;
    if ((!maps && !gathers) || lower_buffer_of(t->lower, value) != NO_BUFFER)
        return NULL;
    for (uint32_t i = gathers ? 1 : 0; i < value->n_args; i++)
        if (!known_term(t, value->args[i]))
            return value->args[i];
    return NULL;
}

// Chains of values are as long as a program, so operands wait in a list and not on the stack.
int32_t terms_value(TermBuilder *t, const Value *value) {
    Arena *arena = t->lower->arena;
    VEC(const Value *) open = {0};
    const int32_t *known = known_term(t, value);
    for (const Value *next = known ? NULL : value; next;) {
        const Value *operand = missing_operand(t, next);
        if (operand) {
            vec_push(arena, &open, next);
            next = operand;
            continue;
        }
        int32_t term = value_term(t, next);
        map_put(t->known, (uint64_t)next->id + 1, arena_copy(arena, &term, sizeof term));
        next = open.count ? open.at[--open.count] : NULL;
    }
    return *known_term(t, value);
}

void terms_scale_sum(Lowering *lower, const Value *contraction, uint16_t buffer, NodeList *into) {
    Kernel *kernel = lower->kernel;
    Elem elem = kernel->buffers.at[buffer].elem;
    TileDimList dims = lower_buffer_dims(lower, buffer);
    Stage *stage = node_compute(kernel, into, dims, dims_last_of(&dims));
    int32_t sum = stage_load(kernel, stage, access_plain(kernel, buffer));
    int32_t factor = stage_const(kernel, stage, contraction->number, elem);
    stage_sink(kernel, stage, SINK_SET, access_plain(kernel, buffer),
               stage_op(kernel, stage, OP_MUL, elem, sum, factor, -1));
}

// ---- cost ----

// Of the value alone; its arguments are added to `open` when they are computed with it.
static double cost_of(const Lowering *lower, const Value *value, ValueList *open) {
    double cost = op_weight(value->op);
    OpKind kind = op_kind(value->op);
    if (lower_buffer_of(lower, value) != NO_BUFFER || kind == KIND_REDUCE || kind == KIND_ROW)
        return op_weight(OP_INPUT); // stored somewhere by the time it is used
    if (kind == KIND_MOVE)
        return cost + value->n_args * op_weight(OP_INPUT);
    for (uint32_t i = 0; i < value->n_args; i++)
        vec_push(lower->arena, open, value->args[i]);
    return cost;
}

double terms_cost(const Lowering *lower, const Value *value) {
    Map *seen = map_new(lower->arena);
    ValueList open = {0};
    double cost = cost_of(lower, value, &open);
    while (open.count) {
        const Value *next = open.at[--open.count];
        uint64_t key = (uint64_t)next->id + 1;
        if (map_get(seen, key))
            continue;
        map_put(seen, key, (void *)next);
        cost += cost_of(lower, next, &open);
    }
    return cost;
}
