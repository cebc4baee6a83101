// SPDX-License-Identifier: Apache-2.0
// What depends on the distance of two positions alone is computed for each distance and not for
// each pair: buckets of relative positions, and what a table has for them.
//
//     bias[n, m, h] = gather(B[b, h], bucket(index(m) - index(n)), dim=b)
// ->
//     ahead[r, h] = gather(B, bucket(index(r)), dim=b)                    r like m
//     behind[r, h] = gather(B, bucket(index(r) - N), dim=b)               r like n
//     bias[n, m, h] = where(index(n) <= index(m), gather(ahead, index(m) - index(n), dim=r),
//                                                 gather(behind, index(m) - index(n) + N, dim=r))
//
// Both are read side by side along m.
#include "graph/fuse/fuse.h"

// How a value changes with the positions along the two dims: as these multiples of them and a
// function of their distance. Where the multiples cancel each other, it is such a function.
struct Slope {
    bool known;
    bool linear; // the function is a number
    int rows, columns;
};

static bool is_of_distance(const Slope *slope) {
    return slope->known && slope->rows + slope->columns == 0;
}

static bool has_either(const Distances *d, const Value *value) {
    return dims_has(&value->dims, d->row) || dims_has(&value->dims, d->column);
}

static bool is_exact(const Value *value) { // of positions
    return elem_is_int(value->elem) || value->elem == ELEM_F32 || value->elem == ELEM_F64;
}

static Slope slope_of(const Distances *d, const Value *value) {
    if (!has_either(d, value))
        return (Slope){.known = true, .linear = true};
    if (value->op == OP_INDEX)
        return (Slope){true, true, value->dim == d->row, value->dim == d->column};
    if (op_kind(value->op) != KIND_MAP)
        return (Slope){0};
    bool adds = value->op == OP_ADD || value->op == OP_SUB || value->op == OP_NEG ||
                value->op == OP_COPY || value->op == OP_CAST;
    Slope sum = {.known = true, .linear = adds && elem_is_int(value->elem)};
    for (uint32_t k = 0; k < value->n_args; k++) {
        const Slope *arg = &d->slope[value->args[k]->id];
        int sign = value->op == OP_NEG || (value->op == OP_SUB && k == 1) ? -1 : 1;
        sum.known = sum.known && (is_of_distance(arg) || (arg->known && adds && is_exact(value)));
        sum.linear = sum.linear && arg->linear && elem_is_int(value->args[k]->elem);
        sum.rows += adds ? sign * arg->rows : 0;
        sum.columns += adds ? sign * arg->columns : 0;
    }
    return sum;
}

Distances distances_open(Rewrite *rewrite, DimId row, DimId column, const Value *last) {
    Distances d = {.rewrite = rewrite, .row = row, .column = column};
    d.slope = arena_array(rewrite->arena, Slope, last->id + 1);
    for (uint32_t i = 0; i <= last->id; i++)
        d.slope[i] = slope_of(&d, rewrite->from->values.at[i]);
    return d;
}

bool distances_alone(const Distances *d, const Value *value) {
    return is_of_distance(&d->slope[value->id]);
}

// ---- at other positions ------------------------------------------------------------------------

static const bool *find_needed(const Distances *d, const Value *value) {
    bool *needed = arena_array(d->rewrite->arena, bool, value->id + 1);
    needed[value->id] = true;
    for (uint32_t i = value->id + 1; i-- > 0;) {
        const Value *user = d->rewrite->from->values.at[i];
        for (uint32_t k = 0; needed[i] && has_either(d, user) && k < user->n_args; k++)
            needed[user->args[k]->id] = true;
    }
    return needed;
}

Value *distances_at(const Distances *d, const Value *value, Value *row, Value *column) {
    Rewrite *rewrite = d->rewrite;
    const bool *needed = find_needed(d, value);
    Value **at = arena_array(rewrite->arena, Value *, value->id + 1);
    for (uint32_t i = 0; i <= value->id; i++) {
        const Value *old = rewrite->from->values.at[i];
        if (!needed[i])
            continue;
        if (!has_either(d, old)) {
            at[i] = rewrite->now[i];
        } else if (old->op == OP_INDEX) {
            at[i] = old->dim == d->column ? column : row;
        } else {
            Value **args = arena_array(rewrite->arena, Value *, old->n_args);
            for (uint32_t k = 0; k < old->n_args; k++)
                args[k] = at[old->args[k]->id];
            at[i] = graph_map(rewrite->to, old->op, old->elem, args, old->n_args);
        }
    }
    return at[value->id];
}

DistanceTable distances_table(const Distances *d, bool ahead) {
    Graph *graph = d->rewrite->to;
    DimId like = ahead ? d->column : d->row;
    const char *base = arena_printf(d->rewrite->arena, "%s_", graph->dims.at[like].name);
    DistanceTable table = {.dim = graph_new_dim_like(graph, base, 2, like)};
    graph->dims.at[table.dim].made = true;
    table.distance = graph_index(graph, table.dim);
    if (!ahead)
        table.distance = graph_map2(graph, OP_SUB, table.distance, graph_extent(graph, d->row));
    return table;
}

// ---- biases ------------------------------------------------------------------------------------

// index(column) + rest
static Value *column_plus(const Distances *d, Value *rest) {
    return graph_map2(d->rewrite->to, OP_ADD, graph_index(d->rewrite->to, d->column), rest);
}

static Value *gather_half(const Distances *d, const Value *gather, Value *from, bool ahead) {
    Graph *graph = d->rewrite->to;
    DistanceTable table = distances_table(d, ahead);
    Value *ids = distances_at(d, gather->args[1], graph_const(graph, 0, ELEM_I64), table.distance);
    Value *entries = graph_gather(graph, from, ids, gather->dim), *row = graph_index(graph, d->row);
    Value *rest = ahead ? graph_map1(graph, OP_NEG, row)
                        : graph_map2(graph, OP_SUB, graph_extent(graph, d->row), row);
    return graph_gather(graph, entries, column_plus(d, rest), table.dim);
}

Value *fuse_gather_by_distance(Rewrite *rewrite, const Value *gather, Value *from, DimId row,
                               DimId column) {
    const Value *ids = gather->args[1];
    Graph *graph = rewrite->to;
    if (ids->dims.count != 2 || !dims_has(&ids->dims, row) || !dims_has(&ids->dims, column) ||
        dims_has(&from->dims, row) || dims_has(&from->dims, column))
        return NULL;
    Distances d = distances_open(rewrite, row, column, ids);
    const Slope *slope = &d.slope[ids->id];
    if (!is_of_distance(slope))
        return NULL;
    if (slope->linear && slope->columns == 1) {
        Value *zero = graph_const(graph, 0, ELEM_I64);
        Value *rest = distances_at(&d, ids, graph_index(graph, row), zero);
        return graph_gather(graph, from, column_plus(&d, graph_cast(graph, rest, ELEM_I64)),
                            gather->dim);
    }
    Value *place = graph_index(graph, column);
    Value *is_ahead = graph_map2(graph, OP_LE, graph_index(graph, row), place);
    Value *ahead = gather_half(&d, gather, from, true);
    Value *behind = gather_half(&d, gather, from, false);
    return graph_select(graph, is_ahead, ahead, behind);
}
