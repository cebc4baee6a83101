// SPDX-License-Identifier: Apache-2.0
// Construction of graphs with hash-consing: building the same thing twice gives the same value (see
// cons.c). Only what needs no thought is put into normal form here (a rename of a dim to itself, a
// cast to the same elem, a reduction over nothing); algebra is graph_simplify's.
#include <math.h>
#include <string.h>

#include "graph/cons.h"

// ---- adding -------------------------------------------------------------------------------------

static uint64_t name_key(Name name) {
    return (uint64_t)(uintptr_t)name;
}

static Value value_draft(Op op, Elem elem) {
    return (Value){.op = op, .elem = elem, .dim = DIM_NONE, .dim2 = DIM_NONE};
}

static uint32_t turn_of(const Graph *graph, const Value *draft) {
    uint32_t turn = op_kind(draft->op) == KIND_LEAF ? 0 : graph->made_for.turn;
    for (uint32_t i = 0; i < draft->n_args; i++)
        if (draft->args[i]->made_for.turn > turn)
            turn = draft->args[i]->made_for.turn;
    return turn;
}

// The value of the graph that is the same as the draft; made from it when there is none yet. Keys
// taken by another value of the same hash are stepped over.
static Value *graph_add(Graph *graph, Value *draft) {
    draft->made_for = graph->made_for;
    draft->made_for.turn = turn_of(graph, draft);
    uint64_t hash = graph_value_hash(graph, draft), key = hash;
    for (Value *old; (old = map_get(graph->cons, key)); key = hash_u64(key, 1))
        if (graph_value_same(old, draft))
            return old;
    Value *value = arena_copy(graph->arena, draft, sizeof *draft);
    value->id = graph->values.count;
    value->hash = hash;
    value->args = arena_copy(graph->arena, draft->args, draft->n_args * sizeof *draft->args);
    if (draft->cats)
        value->cats = arena_copy(graph->arena, draft->cats, draft->n_args * sizeof *draft->cats);
    if (draft->digits)
        value->digits = arena_copy(graph->arena, draft->digits, sizeof *draft->digits);
    if (draft->renames)
        value->renames = arena_copy(graph->arena, draft->renames, sizeof *draft->renames);
    if (draft->n_parts)
        value->parts =
            arena_copy(graph->arena, draft->parts, draft->n_parts * sizeof *draft->parts);
    map_put(graph->cons, key, value);
    vec_push(graph->arena, &graph->values, value);
    if (value->op == OP_INPUT) {
        vec_push(graph->arena, &graph->inputs, value);
        map_put(graph->written, name_key(value->written), value);
    }
    return value;
}

static Graph *graph_new_for(Session *session, Arena *arena, Name entry, uint32_t n_values) {
    Graph *graph = arena_new_of(arena, Graph);
    graph->session = session;
    graph->arena = arena;
    graph->entry = entry;
    graph->cons = map_new_for(arena, n_values);
    graph->written = map_new(arena);
    graph->named = map_new(arena);
    graph->numbers = map_new(arena);
    return graph;
}

static void add_dim(Graph *graph, Dim dim) {
    vec_push(graph->arena, &graph->dims, dim);
    map_put(graph->named, name_key(dim.name), (void *)(uintptr_t)graph->dims.count);
}

Graph *graph_new(Session *session, Name entry) {
    return graph_new_for(session, session->arena, entry, 0);
}

Graph *graph_new_like(const Graph *graph, Arena *arena) {
    Graph *out = graph_new_for(graph->session, arena, graph->entry, graph->values.count);
    for (uint32_t i = 0; i < graph->dims.count; i++)
        add_dim(out, graph->dims.at[i]);
    for (uint32_t i = 0; i < graph->rules.count; i++)
        vec_push(out->arena, &out->rules, graph->rules.at[i]);
    for (uint32_t i = 0; i < graph->counted.count; i++)
        vec_push(out->arena, &out->counted, graph->counted.at[i]);
    return out;
}

DimId graph_find_dim(const Graph *graph, Name name) {
    uintptr_t after = (uintptr_t)map_get(graph->named, name_key(name));
    return after ? (DimId)(after - 1) : DIM_NONE;
}

DimId graph_dim(Graph *graph, Name name, int64_t extent) {
    DimId known = graph_find_dim(graph, name);
    if (known != DIM_NONE && graph->dims.at[known].extent != extent)
        ice("graph_dim: %s has two extents", name);
    if (known != DIM_NONE)
        return known;
    if (graph->dims.count >= DIM_NONE)
        ice("graph_dim: more than %d dims", DIM_NONE);
    DimId id = (DimId)graph->dims.count;
    uint64_t hash = hash_u64(hash_text(1, name), (uint64_t)extent);
    add_dim(graph, (Dim){.name = name, .extent = extent, .hash = hash, .like = id});
    return id;
}

static Name numbered(Graph *graph, const char *base, uint32_t number) {
    return names_find(graph->session->names, arena_printf(graph->arena, "%s%u", base, number));
}

// A name that is taken stays so: none is tried twice.
DimId graph_new_dim(Graph *graph, const char *base, uint32_t number, int64_t extent) {
    Name name = numbered(graph, base, number);
    uint32_t *next = map_get(graph->numbers, name_key(name));
    if (!next) {
        next = arena_copy(graph->arena, &number, sizeof number);
        map_put(graph->numbers, name_key(name), next);
    }
    do
        name = numbered(graph, base, (*next)++);
    while (graph_find_dim(graph, name) != DIM_NONE);
    return graph_dim(graph, name, extent);
}

DimId graph_new_dim_like(Graph *graph, const char *base, uint32_t number, DimId like) {
    DimId dim = graph_new_dim(graph, base, number, graph->dims.at[like].extent);
    graph->dims.at[dim].like = graph->dims.at[like].like;
    graph->dims.at[dim].planned = graph->dims.at[like].planned;
    return dim;
}

DimId graph_scan_dim(Graph *graph, Name variable, DimId over, bool reversed) {
    DimId dim = graph_new_dim_like(graph, arena_printf(graph->arena, "%s.", variable), 0, over);
    graph->dims.at[dim].scan = true;
    graph->dims.at[dim].reversed = reversed;
    return dim;
}

bool graph_dims_alike(const Graph *graph, DimId a, DimId b) {
    return graph->dims.at[a].like == graph->dims.at[b].like;
}

// ---- leaves -------------------------------------------------------------------------------------

const Value *graph_input_written(const Graph *graph, Name written) {
    return map_get(graph->written, name_key(written));
}

Name graph_source_name(const Graph *graph, Name name) {
    if (!strchr(name, '.'))
        return name;
    Text text = {.arena = graph->arena};
    for (const char *c = name; *c; c++)
        text_addn(&text, *c == '.' ? "__" : c, *c == '.' ? 2 : 1);
    return names_intern(graph->session->names, text.at, text.length);
}

// `layer.W` is layer__W, or layer__W_ beside another input that is called so.
static Name written_name(const Graph *graph, Name name) {
    Name written = graph_source_name(graph, name);
    for (const Value *other; (other = graph_input_written(graph, written)) && other->name != name;)
        written = names_find(graph->session->names, arena_printf(graph->arena, "%s_", written));
    return written;
}

Value *graph_find_input(const Graph *graph, Name name) {
    for (uint32_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.at[i]->name == name)
            return graph->inputs.at[i];
    return NULL;
}

Name graph_new_name(const Graph *graph, const char *name) {
    Name made = names_find(graph->session->names, name);
    bool taken = graph_find_input(graph, made) != NULL;
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        taken |= graph->outputs.at[i].name == made;
    return taken ? graph_new_name(graph, arena_printf(graph->arena, "%s_", name)) : made;
}

Value *graph_input(Graph *graph, Name name, Elem elem, DimList order, InputRole role) {
    if (graph_find_input(graph, name))
        ice("graph_input: two inputs are named %s", name);
    Value draft = value_draft(OP_INPUT, elem);
    draft.name = draft.hint = name;
    draft.written = written_name(graph, name);
    draft.dims = order;
    draft.role = role;
    return graph_add(graph, &draft);
}

Value *graph_const(Graph *graph, double number, Elem elem) {
    Value draft = value_draft(OP_CONST, elem);
    draft.number = isnan(number) ? (double)NAN : number; // one NaN, so that equal means equal bits
    return graph_add(graph, &draft);
}

Value *graph_number(Graph *graph, double number, const Value *like) {
    return graph_const(graph, number, like->elem);
}

Value *graph_index(Graph *graph, DimId dim) {
    Value draft = value_draft(OP_INDEX, ELEM_I64);
    draft.dim = dim;
    dims_add(&draft.dims, dim);
    return graph_add(graph, &draft);
}

Value *graph_extent(Graph *graph, DimId dim) {
    if (graph->dims.at[dim].extent != EXTENT_DYNAMIC)
        return graph_const(graph, (double)graph->dims.at[dim].extent, ELEM_I64);
    Value draft = value_draft(OP_EXTENT, ELEM_I64);
    draft.dim = dim;
    return graph_add(graph, &draft);
}

// ---- map, reduce, contract ----------------------------------------------------------------------

bool value_args_dims(const Value *value, DimList *dims) {
    *dims = (DimList){0};
    for (uint32_t i = 0; i < value->n_args; i++)
        for (uint32_t k = 0; k < value->args[i]->dims.count; k++) {
            DimId dim = value->args[i]->dims.at[k];
            if (dims->count == DIMS_MAX && !dims_has(dims, dim))
                return false;
            dims_add(dims, dim);
        }
    return true;
}

Value *graph_map(Graph *graph, Op op, Elem elem, Value **args, uint32_t n_args) {
    Value draft = value_draft(op, elem);
    draft.args = args;
    draft.n_args = n_args;
    if (!value_args_dims(&draft, &draft.dims))
        ice("%s of more than %d dims", op_name(op), DIMS_MAX);
    return graph_add(graph, &draft);
}

Value *graph_map1(Graph *graph, Op op, Value *a) {
    return graph_map(graph, op, op == OP_NOT ? ELEM_BOOL : a->elem, &a, 1);
}

Value *graph_copy(Graph *graph, Value *a, uint32_t which) {
    Value draft = value_draft(OP_COPY, a->elem);
    draft.args = &a;
    draft.n_args = 1;
    draft.dims = a->dims;
    draft.offset = which;
    return graph_add(graph, &draft);
}

Value *graph_map2(Graph *graph, Op op, Value *a, Value *b) {
    bool compares = op == OP_EQ || op == OP_NE || op == OP_LT || op == OP_LE;
    return graph_map(graph, op, compares ? ELEM_BOOL : a->elem, (Value *[]){a, b}, 2);
}

Value *graph_select(Graph *graph, Value *condition, Value *a, Value *b) {
    return graph_map(graph, OP_SELECT, a->elem, (Value *[]){condition, a, b}, 3);
}

Value *graph_or_zero(Graph *graph, Value *condition, Value *a) {
    return graph_select(graph, condition, a, graph_number(graph, 0, a));
}

Value *graph_cast(Graph *graph, Value *a, Elem elem) {
    return a->elem == elem ? a : graph_map(graph, OP_CAST, elem, &a, 1);
}

// where(index == index, a, a), which graph_simplify knows.
Value *graph_over(Graph *graph, Value *a, const DimList *dims) {
    for (uint32_t i = 0; i < dims->count; i++) {
        if (dims_has(&a->dims, dims->at[i]))
            continue;
        Value *index = graph_index(graph, dims->at[i]);
        Value *everywhere = graph_map2(graph, OP_EQ, index, index);
        a = graph_select(graph, everywhere, a, a);
    }
    return a;
}

Value *graph_reduce(Graph *graph, Op op, Value *a, DimList kept) {
    if (dims_subset(&a->dims, &kept))
        return a;
    Value draft = value_draft(op, a->elem);
    draft.args = &a;
    draft.n_args = 1;
    draft.dims = dims_intersect(&a->dims, &kept);
    return graph_add(graph, &draft);
}

// What tasks add up over their rows `dim`: in parts, or, where parts is DIM_NONE, in turn.
static Value *add_up_rows(Graph *graph, Value draft, DimList kept, DimId dim, DimId parts) {
    draft.number = draft.op == OP_CONTRACT ? 1 : draft.number;
    draft.dim = dim;
    draft.dim2 = parts;
    draft.dims = (DimList){parts != DIM_NONE, {parts}};
    draft.dims = dims_union(&draft.dims, &kept);
    return graph_add(graph, &draft);
}

Value *graph_reduce_parts(Graph *graph, Op op, Value *a, DimList kept, DimId dim, DimId parts) {
    Value draft = value_draft(op, a->elem);
    draft.args = &a;
    draft.n_args = 1;
    return add_up_rows(graph, draft, dims_intersect(&a->dims, &kept), dim, parts);
}

Value *graph_sum_in_turn(Graph *graph, Value *a, DimList kept, DimId dim) {
    return graph_reduce_parts(graph, OP_SUM, a, kept, dim, DIM_NONE);
}

static bool value_sums(const Value *value) {
    return op_kind(value->op) == KIND_REDUCE || value->op == OP_CONTRACT;
}

bool value_in_parts(const Value *value) {
    return value_sums(value) && value->dim2 != DIM_NONE;
}

bool value_in_turn(const Value *value) {
    return (value->op == OP_SUM || value->op == OP_CONTRACT) && value->dim != DIM_NONE &&
           value->dim2 == DIM_NONE;
}

bool value_adds_rows(const Value *value) {
    return value_in_parts(value) || value_in_turn(value);
}

bool value_is_repeat(const Value *value) {
    return value->op == OP_SELECT && value->args[1] == value->args[2];
}

bool value_is_zero(const Value *value) {
    return value->op == OP_CONST && value->number == 0;
}

bool value_is_reduction(const Value *value) {
    return value_sums(value) && !value_in_parts(value);
}

bool value_factor_moves(const Value *value) {
    int exponent;
    bool exact = frexp(fabs(value->number), &exponent) == 0.5;
    return value->number != 1 && (exact || !value->made_for.twice);
}

bool use_is_in_result(TensorUse use) {
    return use == USE_BEFORE || use == USE_REPLACED;
}

Value *value_unrenamed(const Value *value) {
    return value->op == OP_RENAME ? value->args[0] : (Value *)value;
}

Value *graph_einsum(Graph *graph, double factor, Value **args, uint32_t n_args, DimList result) {
    if (n_args == 1 && factor == 1 && dims_equal(&args[0]->dims, &result))
        return args[0];
    Value draft = value_draft(OP_CONTRACT, args[0]->elem);
    draft.number = factor;
    draft.args = args;
    draft.n_args = n_args;
    draft.dims = result;
    return graph_add(graph, &draft);
}

Value *graph_einsum_parts(Graph *graph, Value **args, DimList kept, DimId dim, DimId parts) {
    Value draft = value_draft(OP_CONTRACT, args[0]->elem);
    draft.args = args;
    draft.n_args = 2;
    return add_up_rows(graph, draft, kept, dim, parts);
}

Value *graph_einsum_in_turn(Graph *graph, Value **args, DimList kept, DimId dim) {
    return graph_einsum_parts(graph, args, kept, dim, DIM_NONE);
}

// ---- rows and moves -----------------------------------------------------------------------------

Value *graph_reduce_like(Graph *graph, const Value *value, Value **args, DimList dims) {
    return value->op == OP_CONTRACT ? graph_einsum(graph, value->number, args, value->n_args, dims)
                                    : graph_reduce(graph, value->op, args[0], dims);
}

Value *graph_row(Graph *graph, Op op, Value *a, DimId dim) {
    Value draft = value_draft(op, op == OP_ARGMAX ? ELEM_I32 : a->elem);
    draft.args = &a;
    draft.n_args = 1;
    draft.dim = dim;
    draft.dims = a->dims;
    if (op == OP_ARGMAX)
        draft.dims = dims_minus(&a->dims, &(DimList){1, {dim}});
    return graph_add(graph, &draft);
}

Value *graph_rename_all(Graph *graph, Value *a, const DimMap *map) {
    Value *source = value_unrenamed(a);
    DimMap all = {0};
    for (uint32_t i = 0; i < source->dims.count; i++) {
        DimId own = source->dims.at[i], now = source == a ? own : dimmap_get(a->renames, own);
        if (dimmap_get(map, now) != own)
            dimmap_add(&all, own, dimmap_get(map, now));
    }
    if (!all.count)
        return source;
    Value draft = value_draft(OP_RENAME, a->elem);
    draft.args = &source;
    draft.n_args = 1;
    draft.renames = &all;
    draft.dims = dims_renamed(&source->dims, &all);
    return graph_add(graph, &draft);
}

Value *graph_rename(Graph *graph, Value *a, DimId from, DimId to) {
    return graph_rename_all(graph, a, &(DimMap){1, {from}, {to}});
}

Value *graph_gather(Graph *graph, Value *table, Value *ids, DimId dim) {
    Value draft = value_draft(OP_GATHER, table->elem);
    draft.args = (Value *[]){table, ids};
    draft.n_args = 2;
    draft.dim = dim;
    DimList rest = dims_minus(&table->dims, &(DimList){1, {dim}});
    draft.dims = dims_union(&ids->dims, &rest);
    return graph_add(graph, &draft);
}

Value *graph_scatter_add(Graph *graph, Value *a, Value *ids, DimId dim, DimList kept) {
    DimList all = dims_union(&ids->dims, &a->dims);
    if (dims_subset(&all, &kept)) { // it sums nothing
        Value *index = graph_index(graph, dim);
        Value *here = graph_map2(graph, OP_EQ, graph_cast(graph, ids, ELEM_I64), index);
        return graph_or_zero(graph, here, a);
    }
    Value draft = value_draft(OP_SCATTER_ADD, a->elem);
    draft.args = (Value *[]){a, ids};
    draft.n_args = 2;
    draft.dim = dim;
    DimList others = dims_intersect(&all, &kept);
    draft.dims = dims_union(&(DimList){1, {dim}}, &others);
    return graph_add(graph, &draft);
}

// The position of a position is a number.
Value *graph_take(Graph *graph, Value *a, DimId dim, int64_t position) {
    if (a->op == OP_INDEX)
        return graph_const(graph, (double)position, a->elem);
    Value draft = value_draft(OP_TAKE, a->elem);
    draft.args = &a;
    draft.n_args = 1;
    draft.dim = dim;
    draft.offset = position;
    draft.dims = dims_minus(&a->dims, &(DimList){1, {dim}});
    return graph_add(graph, &draft);
}

Value *graph_slice(Graph *graph, Value *a, DimId from, DimId to, int64_t offset) {
    Value draft = value_draft(OP_SLICE, a->elem);
    draft.args = &a;
    draft.n_args = 1;
    draft.dim = from;
    draft.dim2 = to;
    draft.offset = offset;
    draft.dims = dims_renamed(&a->dims, &(DimMap){1, {from}, {to}});
    return graph_add(graph, &draft);
}

Value *graph_concat(Graph *graph, Value **args, const DimId *cats, uint32_t n_args, DimId dim) {
    Value draft = value_draft(OP_CONCAT, args[0]->elem);
    draft.args = args;
    draft.n_args = n_args;
    draft.cats = (DimId *)cats; // graph_add copies it
    draft.dim2 = dim;
    for (uint32_t i = 0; i < n_args; i++) {
        DimList one = dims_renamed(&args[i]->dims, &(DimMap){1, {cats[i]}, {dim}});
        draft.dims = dims_union(&draft.dims, &one);
    }
    return graph_add(graph, &draft);
}

Value *graph_shift(Graph *graph, Value *a, DimId dim, int64_t offset) {
    if (offset == 0)
        return a;
    Value draft = value_draft(OP_SHIFT, a->elem);
    draft.args = &a;
    draft.n_args = 1;
    draft.dim = dim;
    draft.offset = offset;
    draft.dims = a->dims;
    return graph_add(graph, &draft);
}

Value *graph_carry(Graph *graph, uint32_t number, Elem elem, DimList dims, DimId dim) {
    Value draft = value_draft(OP_CARRY, elem);
    draft.dim = dim;
    draft.offset = number;
    draft.dims = dims;
    return graph_add(graph, &draft);
}

Value *graph_stack(Graph *graph, Value *value, DimId dim, DimId to, const ScanCarries *carries) {
    ValueList args = graph_stack_args(graph, value, dim, carries);
    if (args.count == 1)
        return graph_rename(graph, value, dim, to);
    Value draft = value_draft(OP_STACK, value->elem);
    draft.args = args.at;
    draft.n_args = args.count;
    draft.dim = dim;
    draft.dim2 = to;
    draft.dims = dims_renamed(&value->dims, &(DimMap){1, {dim}, {to}});
    return graph_add(graph, &draft);
}

Value *graph_last(Graph *graph, uint32_t which, DimId dim, const ScanCarries *carries) {
    const Value *carry = carries->at[which].carry;
    ValueList args = graph_last_args(graph, which, dim, carries);
    Value draft = value_draft(OP_LAST, carry->elem);
    draft.args = args.at;
    draft.n_args = args.count;
    draft.dim = dim;
    draft.dims = dims_minus(&carry->dims, &(DimList){1, {dim}});
    return graph_add(graph, &draft);
}

Value *graph_order(Graph *graph, Value *a, DimId dim, DimId kept, bool descending) {
    Value draft = value_draft(OP_ORDER, ELEM_I32);
    draft.args = &a;
    draft.n_args = 1;
    draft.dim = dim;
    draft.dim2 = kept;
    draft.offset = descending;
    draft.dims = dims_renamed(&a->dims, &(DimMap){1, {dim}, {kept}});
    return graph_add(graph, &draft);
}

Value *graph_split(Graph *graph, Value *a, DimId dim, const DimList *parts) {
    if (a->op == OP_MERGE && a->dim == dim && dims_same_order(parts, a->digits))
        return a->args[0];
    Value draft = value_draft(OP_SPLIT, a->elem);
    draft.args = &a;
    draft.n_args = 1;
    draft.dim = dim;
    draft.digits = parts;
    for (uint32_t i = 0; i < a->dims.count; i++) {
        DimList here = {1, {a->dims.at[i]}};
        draft.dims = dims_union(&draft.dims, a->dims.at[i] == dim ? parts : &here);
    }
    return graph_add(graph, &draft);
}

Value *graph_merge(Graph *graph, Value *a, const DimList *parts, DimId dim) {
    if (a->op == OP_SPLIT && a->dim == dim && dims_same_order(parts, a->digits))
        return a->args[0];
    Value draft = value_draft(OP_MERGE, a->elem);
    draft.args = &a;
    draft.n_args = 1;
    draft.dim = dim;
    draft.digits = parts;
    for (uint32_t i = 0; i < a->dims.count; i++)
        if (a->dims.at[i] == parts->at[0])
            dims_add(&draft.dims, dim);
        else if (!dims_has(parts, a->dims.at[i]))
            dims_add(&draft.dims, a->dims.at[i]);
    return graph_add(graph, &draft);
}

Value *graph_rebuild(Graph *graph, const Value *like, Value **args) {
    if (like->op == OP_RENAME)
        return graph_rename_all(graph, args[0], like->renames);
    Value draft = *like;
    draft.args = args;
    return graph_add(graph, &draft);
}

// ---- whole graphs -------------------------------------------------------------------------------

uint32_t *graph_count_uses(const Graph *graph, Arena *arena) {
    uint32_t *uses = arena_array(arena, uint32_t, graph->values.count);
    for (uint32_t v = 0; v < graph->values.count; v++)
        for (uint32_t i = 0; i < graph->values.at[v]->n_args; i++)
            uses[graph->values.at[v]->args[i]->id]++;
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        uses[graph->outputs.at[i].value->id]++;
    return uses;
}

// Arguments have smaller ids than users, so one sweep down the ids is enough.
bool *graph_live(const Graph *graph, Arena *arena) {
    bool *live = arena_array(arena, bool, graph->values.count);
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        live[graph->outputs.at[i].value->id] = true;
    for (uint32_t v = graph->values.count; v-- > 0;)
        if (live[v])
            for (uint32_t i = 0; i < graph->values.at[v]->n_args; i++)
                live[graph->values.at[v]->args[i]->id] = true;
    return live;
}
