// SPDX-License-Identifier: Apache-2.0
// graph_decode: the step of a sequence that is made position by position.
//
//     before  K[m, k] = einsum(X[m, d], P_k[d, k])                 m like n; tokens and X over n
//             L[n, m] = where(index(m) <= index(n), einsum(Q[n, k], K[m, k]), -inf)
//     after   row_K[k] = einsum(X[d], P_k[d, k])                   another result
//             K[m, k] = where(index(m) == position, row_K[k], cache_K[m, k])
//             L[m] = where(index(m) <= position, einsum(Q[k], K[m, k]), -inf)
//
// A value is wanted at the position of the step, then it is computed without the dim, or whole.
// What depends on the sequence and is wanted whole is remembered: its row at the position is
// computed, and other rows are those of earlier steps, from a cache. So the last value over m that
// is computed position by position is the one that is kept: keys with rotary positions rather than
// what they are made of. What a scan along the sequence carries is kept from step to step, and so
// is what a running sum has come to.
//
// Requires: what graph_build makes. Ensures: a step at each position in turn, from the first on,
// with rows stored in the caches in between, gives the results that the whole graph has there. Rows
// of later positions may hold anything finite.
#include "graph/decode/decode.h"

// Where a value is wanted: a bit for each place in its dims (at the position along that dim,
// without the dim), and one for all of it.
enum { WHOLE = DIMS_MAX, FORMS };

// A cache while the step is made.
typedef struct {
    DecodeCache cache;
    Value *row;             // what the step adds to it
    const ScanCarry *carry; // of a scan; NULL: rows
} Kept;
typedef struct {
    const Graph *from;
    DimId n;
    Arena *arena; // of this pass alone
    Graph *to;
    Value *position;
    bool *varies;         // by id in from: along the sequence
    DimId *along;         // by id: of what is remembered, the dim of its positions; or DIM_NONE
    uint32_t *wanted;     // by id: bits of FORMS
    Value *(*now)[FORMS]; // by id: what is wanted of it, in `to`
    const ScanCarry **carries; // by id of a CARRY that is wanted
    VEC(Kept) kept;
    Decoding out;
} Decode;

static void refuse(Decode *decode, const Value *value, const char *why) {
    if (decode->out.why)
        return;
    decode->out.why = why;
    decode->out.origin = value->origin;
}

static const char *dim_name(const Decode *decode, DimId dim) {
    return decode->from->dims.at[dim].name;
}

static bool in_sequence(const Decode *decode, DimId dim) {
    return graph_dims_alike(decode->from, dim, decode->n);
}

static uint32_t place_of(const Value *value, DimId dim) {
    uint32_t place = 0;
    while (value->dims.at[place] != dim)
        place++;
    return place;
}

// ---- what depends on the sequence ---------------------------------------------------------------

// Data that comes position by position.
static bool is_told(const Decode *decode, const Value *input) {
    return input->op == OP_INPUT && input->role == ROLE_DATA && dims_has(&input->dims, decode->n);
}

// ---- positions of values and of what they are made of -------------------------------------------

// Is what a value is at one position along dim made of other positions of what it is made of?
static bool mixes(const Value *value, DimId dim) {
    switch (value->op) {
    case OP_SOFTMAX:
    case OP_LOG_SOFTMAX:
    case OP_CUMSUM:
    case OP_SCATTER_ADD:
    case OP_SHIFT:
    case OP_MERGE:
        return value->dim == dim;
    case OP_SLICE:
    case OP_CONCAT:
    case OP_ORDER:
    case OP_STACK:
        return value->dim2 == dim;
    case OP_SPLIT:
        return dims_has(value->digits, dim);
    default:
        return false;
    }
}

// The dim of argument k that `dim` of a value is; DIM_NONE: all of it is needed. Requires: !mixes.
static DimId dim_of_arg(const Value *value, uint32_t k, DimId dim) {
    const Value *arg = value->args[k];
    if (value->op == OP_RENAME)
        for (uint32_t i = 0; i < value->renames->count; i++)
            if (value->renames->to[i] == dim)
                return value->renames->from[i];
    bool looked_up = value->op == OP_GATHER && k == 0 && value->dim == dim;
    return looked_up || !dims_has(&arg->dims, dim) ? DIM_NONE : dim;
}

// The dims of the sequence that a value has, if one; DIM_NONE: none or several.
static DimId only_dim(const Decode *decode, const Value *value) {
    DimId only = DIM_NONE;
    for (uint32_t i = 0; i < value->dims.count; i++) {
        if (!in_sequence(decode, value->dims.at[i]))
            continue;
        if (only != DIM_NONE)
            return DIM_NONE;
        only = value->dims.at[i];
    }
    return only;
}

// That of an argument which depends on the sequence, under the value's name for it.
static DimId dim_from_args(const Decode *decode, const Value *value) {
    DimId dim = DIM_NONE;
    for (uint32_t k = 0; k < value->n_args; k++) {
        DimId one = decode->along[value->args[k]->id];
        if (one == DIM_NONE)
            continue;
        one = value->op == OP_RENAME ? dimmap_get(value->renames, one) : one;
        if (!dims_has(&value->dims, one) || (dim != DIM_NONE && dim != one))
            return DIM_NONE;
        dim = one;
    }
    return dim;
}

// Along which dim a value would be remembered if it were wanted whole.
static DimId dim_to_remember(const Decode *decode, const Value *value) {
    if (!decode->varies[value->id] || op_kind(value->op) == KIND_SCAN || value->op == OP_CARRY)
        return DIM_NONE;
    DimId dim = decode->n;
    if (!dims_has(&value->dims, dim))
        dim = only_dim(decode, value);
    if (dim == DIM_NONE)
        dim = dim_from_args(decode, value);
    return dim == DIM_NONE || mixes(value, dim) ? DIM_NONE : dim;
}

// ---- what is wanted of each value ---------------------------------------------------------------

static void want(Decode *decode, const Value *value, DimId dim) {
    decode->wanted[value->id] |= 1u << (dim == DIM_NONE ? WHOLE : place_of(value, dim));
}

static void want_whole_args(Decode *decode, const Value *value) {
    for (uint32_t k = 0; k < value->n_args; k++)
        want(decode, value->args[k], DIM_NONE);
}

// A step of a scan: its row, and with it the next values of what it carries.
static void want_step(Decode *decode, const Value *stack) {
    want(decode, stack->args[0], stack->dim);
    for (uint32_t i = 0; i < graph_scan_carries(stack); i++) {
        ScanCarry *c = arena_new_of(decode->arena, ScanCarry);
        *c = graph_scan_carry(stack, i);
        decode->carries[c->carry->id] = c;
        want(decode, c->update, stack->dim);
        want(decode, c->first, DIM_NONE);
        if (decode->varies[c->first->id])
            refuse(decode, stack, "what a scan begins with has to be the same in every sequence");
    }
    if (decode->from->dims.at[stack->dim].reversed)
        refuse(decode, stack, "a reversed scan reads later positions first");
}

// Is it at a position what it was at an earlier one?
static bool looks_back(const Value *value, DimId dim) {
    return value->op == OP_SHIFT && value->dim == dim && value->offset > 0;
}

// Is it the sum of its row and of what it was at the position before? Not where it has a position
// of the sequence besides: its part of earlier positions changes then.
static bool goes_on(const Decode *decode, const Value *value, DimId dim) {
    return value->op == OP_CUMSUM && value->dim == dim && decode->varies[value->args[0]->id] &&
           only_dim(decode, value) == dim;
}

static void want_row(Decode *decode, const Value *value, DimId dim) {
    if (goes_on(decode, value, dim))
        want(decode, value->args[0], dim);
    else if (value->op == OP_STACK && value->dim2 == dim && decode->varies[value->id])
        want_step(decode, value);
    else if (looks_back(value, dim))
        want(decode, value->args[0], DIM_NONE);
    else if (mixes(value, dim) || (value->op == OP_INPUT && dim != decode->n))
        want(decode, value, DIM_NONE);
    else
        for (uint32_t k = 0; k < value->n_args; k++)
            want(decode, value->args[k], dim_of_arg(value, k, dim));
}

static void want_whole(Decode *decode, const Value *value) {
    if (!decode->varies[value->id])
        want_whole_args(decode, value);
    else if (op_kind(value->op) == KIND_SCAN || value->op == OP_CARRY)
        refuse(decode, value,
               "what a scan leaves is read at other positions than that of its step");
    else if (decode->along[value->id] != DIM_NONE)
        want(decode, value, decode->along[value->id]);
    else
        want_whole_args(decode, value);
}

// A value's own wants come first: it may be wanted whole for a row, or its row for all of it.
static void want_args(Decode *decode, const Value *value) {
    uint32_t done = 0, *wanted = &decode->wanted[value->id];
    while (*wanted & ~done) {
        uint32_t form = (uint32_t)__builtin_ctz(*wanted & ~done);
        done |= 1u << form;
        if (form == WHOLE)
            want_whole(decode, value);
        else
            want_row(decode, value, value->dims.at[form]);
    }
}

static void want_all(Decode *decode) {
    const Graph *from = decode->from;
    for (uint32_t i = 0; i < from->outputs.count; i++) {
        const Output *output = &from->outputs.at[i];
        if (dims_has(&output->value->dims, decode->n))
            want(decode, output->value, decode->n);
        else
            refuse(decode, output->value,
                   arena_printf(from->arena, "the result %s is not over %s", output->name,
                                dim_name(decode, decode->n)));
    }
    for (uint32_t i = from->values.count; i-- > 0 && !decode->out.why;)
        want_args(decode, from->values.at[i]);
}

// ---- inputs -------------------------------------------------------------------------------------

// Those of the graph, what is told at each position without the dim, and the position.
static void add_inputs(Decode *decode) {
    const Graph *from = decode->from;
    for (uint32_t i = 0; i < from->inputs.count; i++) {
        const Value *input = from->inputs.at[i];
        Value step = *input;
        bool told = is_told(decode, input);
        if (told)
            step.dims = dims_minus(&input->dims, &(DimList){1, {decode->n}});
        uint32_t form = told ? place_of(input, decode->n) : WHOLE;
        decode->now[input->id][form] = graph_rebuild(decode->to, &step, NULL);
    }
    decode->out.position = decode->to->inputs.count;
    decode->position = graph_input(decode->to, graph_new_name(decode->to, "position"), ELEM_I64,
                                   (DimList){0}, ROLE_DATA);
}

// ---- caches -------------------------------------------------------------------------------------

// What a cache and its rows are called after: `layer.0.attend.K`, or a number.
static const char *name_for(const Decode *decode, const Value *value) {
    const Value *named = value->hint ? value : value_unrenamed(value);
    if (!named->hint)
        return arena_printf(decode->arena, "%u", decode->kept.count);
    return arena_printf(decode->arena, "%s%s", named->path ? named->path : "", named->hint);
}

static Value *add_cache(Decode *decode, const Value *of, Elem elem, DimList dims, Kept kept) {
    Graph *to = decode->to;
    kept.cache.input = to->inputs.count;
    const char *name = arena_printf(decode->arena, "cache_%s", name_for(decode, of));
    vec_push(decode->arena, &decode->kept, kept);
    return graph_input(to, graph_new_name(to, name), elem, dims, ROLE_DATA);
}

// Positions are before the last dim, the row of a vector: so rows are stored and read.
static DimList cache_dims(const DimList *row, DimId along) {
    DimList dims = {0};
    for (uint32_t i = 0; i < row->count; i++) {
        if (i + 1 == row->count)
            dims_add(&dims, along);
        dims_add(&dims, row->at[i]);
    }
    dims_add(&dims, along);
    return dims;
}

static Value *row(Decode *decode, const Value *value, DimId dim);
static Value *whole(Decode *decode, const Value *value);

// The rows of earlier steps. One cache serves values that have the same rows.
static Value *earlier(Decode *decode, const Value *value) {
    DimId along = decode->along[value->id];
    Value *now = row(decode, value, along);
    for (uint32_t i = 0; i < decode->kept.count; i++) {
        const Kept *kept = &decode->kept.at[i];
        if (kept->row == now && kept->cache.dim != DIM_NONE)
            return graph_rename(decode->to, decode->to->inputs.at[kept->cache.input],
                                kept->cache.dim, along);
    }
    Kept kept = {.cache.dim = along, .row = now};
    return add_cache(decode, value, now->elem, cache_dims(&now->dims, along), kept);
}

static Value *remember(Decode *decode, const Value *value) {
    DimId along = decode->along[value->id];
    Value *here = graph_map2(decode->to, OP_EQ, graph_index(decode->to, along), decode->position);
    return graph_select(decode->to, here, row(decode, value, along), earlier(decode, value));
}

// ---- values -------------------------------------------------------------------------------------

// dim: the position of the step along it, DIM_NONE: whole.
static Value *rebuild(Decode *decode, const Value *value, DimId dim) {
    Value **args = arena_array(decode->arena, Value *, value->n_args + 1);
    Value step = *value;
    for (uint32_t k = 0; k < value->n_args; k++) {
        DimId own = dim == DIM_NONE ? DIM_NONE : dim_of_arg(value, k, dim);
        args[k] =
            own == DIM_NONE ? whole(decode, value->args[k]) : row(decode, value->args[k], own);
    }
    if (dim != DIM_NONE)
        step.dims = dims_minus(&value->dims, &(DimList){1, {dim}});
    return graph_rebuild(decode->to, &step, args);
}

static Value *at_position(Decode *decode, Value *value, DimId dim, int64_t back) {
    Graph *to = decode->to;
    Value *place = decode->position;
    if (back)
        place = graph_map2(to, OP_SUB, place, graph_const(to, (double)back, ELEM_I64));
    return graph_gather(to, value, place, dim);
}

// The row of a shift: the one of `offset` positions before, zero before the first.
static Value *look_back(Decode *decode, const Value *value, DimId dim) {
    Graph *to = decode->to;
    const Value *arg = value->args[0];
    bool kept = decode->varies[arg->id] && decode->along[arg->id] == dim;
    Value *rows = kept ? earlier(decode, arg) : whole(decode, arg);
    Value *offset = graph_const(to, (double)value->offset, ELEM_I64);
    return graph_or_zero(to, graph_map2(to, OP_LE, offset, decode->position),
                         at_position(decode, rows, dim, value->offset));
}

// At the first position what a carry begins with, then what the step before left.
static Value *left_before(Decode *decode, Value *first, Value *cache) {
    Graph *to = decode->to;
    Value *begins = graph_map2(to, OP_EQ, decode->position, graph_const(to, 0, ELEM_I64));
    return graph_select(to, begins, first, cache);
}

static Value *carried(Decode *decode, const Value *carry) {
    Kept kept = {.cache.dim = DIM_NONE, .carry = decode->carries[carry->id]};
    DimList dims = dims_minus(&carry->dims, &(DimList){1, {carry->dim}});
    Value *first = whole(decode, kept.carry->first);
    return left_before(decode, first, add_cache(decode, carry, carry->elem, dims, kept));
}

// The row of a sum, which is also what the next step begins with: of floats in double precision, in
// which all of it would be carried.
static Value *go_on(Decode *decode, const Value *value, DimId dim) {
    Graph *to = decode->to;
    Elem elem = elem_is_float(value->elem) ? ELEM_F64 : value->elem;
    Value *here = graph_cast(to, row(decode, value->args[0], dim), elem);
    Value *cache = add_cache(decode, value, elem, here->dims, (Kept){.cache.dim = DIM_NONE});
    uint32_t number = decode->kept.count - 1;
    Value *sum = graph_map2(to, OP_ADD, left_before(decode, graph_const(to, 0, elem), cache), here);
    decode->kept.at[number].row = sum;
    return graph_cast(to, sum, value->elem);
}

static Value *make_row(Decode *decode, const Value *value, DimId dim) {
    if (goes_on(decode, value, dim))
        return go_on(decode, value, dim);
    if (value->op == OP_INDEX)
        return decode->position;
    if (value->op == OP_CARRY)
        return carried(decode, value);
    if (value->op == OP_STACK && value->dim2 == dim && decode->varies[value->id])
        return row(decode, value->args[0], value->dim);
    if (looks_back(value, dim))
        return look_back(decode, value, dim);
    if (mixes(value, dim) || value->op == OP_INPUT)
        return at_position(decode, whole(decode, value), dim, 0);
    return rebuild(decode, value, dim);
}

// Both are made at the value's turn, when its arguments are there, but for what scans begin with.
static Value *row(Decode *decode, const Value *value, DimId dim) {
    uint32_t place = place_of(value, dim);
    if (!decode->now[value->id][place])
        decode->now[value->id][place] = make_row(decode, value, dim);
    return decode->now[value->id][place];
}

static Value *whole(Decode *decode, const Value *value) {
    bool kept = decode->varies[value->id] && decode->along[value->id] != DIM_NONE;
    Value **now = &decode->now[value->id][WHOLE];
    if (!*now)
        *now = kept ? remember(decode, value) : rebuild(decode, value, DIM_NONE);
    return *now;
}

static void make_value(Decode *decode, const Value *value) {
    uint32_t before = decode->to->values.count, wanted = decode->wanted[value->id];
    decode->to->made_for = value->made_for;
    for (uint32_t form = 0; form < value->dims.count; form++)
        if (wanted & (1u << form))
            row(decode, value, value->dims.at[form]);
    if (wanted & (1u << WHOLE))
        whole(decode, value);
    decode->to->made_for = (MadeFor){0};
    for (uint32_t i = before; i < decode->to->values.count; i++)
        if (!decode->to->values.at[i]->origin.file)
            decode->to->values.at[i]->origin = value->origin;
}

// ---- results ------------------------------------------------------------------------------------

static void add_cached(Decode *decode, Kept *kept) {
    Graph *to = decode->to;
    if (kept->carry) // known after the body
        kept->row = row(decode, kept->carry->update, kept->carry->carry->dim);
    const Value *input = to->inputs.at[kept->cache.input];
    const char *name = arena_printf(decode->arena, "row_%s", input->name + sizeof "cache");
    kept->cache.output = to->outputs.count;
    graph_output(to, graph_new_name(to, name), kept->row,
                 dims_minus(&input->dims, &(DimList){1, {kept->cache.dim}}));
    vec_push(to->arena, &decode->out.caches, kept->cache);
}

static void add_outputs(Decode *decode) {
    for (uint32_t i = 0; i < decode->from->outputs.count; i++) {
        Output output = decode->from->outputs.at[i];
        output.order = dims_minus(&output.order, &(DimList){1, {decode->n}});
        graph_output_like(decode->to, &output, row(decode, output.value, decode->n));
    }
    for (uint32_t i = 0; i < decode->kept.count; i++)
        add_cached(decode, &decode->kept.at[i]);
}

static void make_step(Decode *decode) {
    add_inputs(decode);
    for (uint32_t i = 0; i < decode->from->values.count; i++)
        make_value(decode, decode->from->values.at[i]);
    add_outputs(decode);
    decode->out.graph = decode->to;
    decode->out.why = decode_problem(&decode->out, decode->n, &decode->out.origin);
    if (decode->out.why)
        decode->out.graph = NULL;
}

static bool is_over_data(const Decode *decode) {
    bool any = false;
    for (uint32_t i = 0; i < decode->from->inputs.count; i++)
        any |= is_told(decode, decode->from->inputs.at[i]);
    return any;
}

Decoding graph_decode(const Graph *whole_graph, DimId n) {
    const Graph *graph = decode_project(whole_graph, n);
    Arena *arena = arena_new();
    uint32_t count = graph->values.count;
    Decode decode = {.from = graph,
                     .n = n,
                     .arena = arena,
                     .to = graph_new_like(graph, graph->arena),
                     .varies = arena_array(arena, bool, count + 1),
                     .along = arena_array(arena, DimId, count + 1),
                     .wanted = arena_array(arena, uint32_t, count + 1),
                     .now = (Value * (*)[FORMS]) arena_array(arena, Value *, (count + 1) * FORMS),
                     .carries = arena_array(arena, const ScanCarry *, count + 1)};
    for (uint32_t i = 0; i < count; i++)
        decode.varies[i] = is_told(&decode, graph->values.at[i]);
    graph_spread(graph, decode.varies);
    for (uint32_t i = 0; i < count; i++)
        decode.along[i] = dim_to_remember(&decode, graph->values.at[i]);
    if (!is_over_data(&decode))
        refuse(&decode, graph->outputs.at[0].value,
               arena_printf(graph->arena, "no data of %s is over %s", graph->entry,
                            dim_name(&decode, n)));
    else
        want_all(&decode);
    if (!decode.out.why)
        make_step(&decode);
    arena_free(arena);
    return decode.out;
}
