// SPDX-License-Identifier: Apache-2.0
// Sums at positions that are computed, of what is worked off along a dim, so that it need not be
// stored. The gradient of a bias that is learned for each bucket of distances:
//
//     dB[b, h] = scatter_add(dL[n, m, h], bucket[n, m], dim=b, reduced_dim=(n, m))
// ->
//     dB[b, h] = sum over n, m of where(bucket[n, m] == index(b), dL, 0)
//
// That asks each element for every position of the table, which is cheaper than storing it where
// the table is small. Positions that depend on the distance m - n alone, as these do, are computed
// for each distance and not for each pair, and the table may be of any size: what is summed for
// each distance, ahead of the row or behind it, lies side by side and is added in vectors.
//
//     ahead[r, h] = sum over n, m of where(index(m) == index(r) + index(n), dL, 0)        r like m
//     behind[r, h] = sum over n, m of where(index(m) == index(r) + (index(n) - N), dL, 0) r like n
//     dB = scatter_add(ahead, bucket at distance r) + scatter_add(behind, bucket at distance r - N)
#include "graph/fuse/fuse.h"

#include <math.h>

// ---- sums of what lies shifted -----------------------------------------------------------------

// x where index(from) is index(to) + rest, summed over what `kept` lacks.
static Value *shifted_sum(Graph *graph, Value *x, DimId from, DimId to, Value *rest, DimList kept) {
    Value *place = graph_map2(graph, OP_ADD, graph_index(graph, to), rest);
    Value *hit = graph_map2(graph, OP_EQ, graph_index(graph, from), place);
    Value *only = graph_or_zero(graph, hit, x);
    dims_add(&kept, to);
    return graph_reduce(graph, OP_SUM, only, kept);
}

// ---- sums for each distance ---------------------------------------------------------------------

static Value *add_half(const Distances *d, const Value *scatter, Value *x, bool ahead,
                       ValueList *made) {
    Graph *graph = d->rewrite->to;
    DistanceTable table = distances_table(d, ahead);
    Value *rest = graph_index(graph, d->row);
    if (!ahead)
        rest = graph_map2(graph, OP_SUB, rest, graph_extent(graph, d->row));
    Value *sums = shifted_sum(graph, x, d->column, table.dim, rest, scatter->dims);
    vec_push(d->rewrite->arena, made, sums);
    Value *ids = distances_at(d, scatter->args[1], graph_const(graph, 0, ELEM_I64), table.distance);
    return graph_scatter_add(graph, sums, ids, scatter->dim, scatter->dims);
}

// NULL: the positions depend on more.
static Value *add_by_distance(Rewrite *rewrite, const Value *scatter, Value *x, DimId streamed,
                              ValueList *made) {
    const Value *ids = scatter->args[1];
    if (ids->dims.count != 2 || !dims_has(&ids->dims, streamed) ||
        !dims_subset(&ids->dims, &x->dims) || dims_has(&scatter->dims, ids->dims.at[0]) ||
        dims_has(&scatter->dims, ids->dims.at[1]))
        return NULL;
    DimId row = ids->dims.at[ids->dims.at[0] == streamed];
    Distances d = distances_open(rewrite, row, streamed, ids);
    if (!distances_alone(&d, ids))
        return NULL;
    Value *behind = add_half(&d, scatter, x, false, made);
    return graph_map2(rewrite->to, OP_ADD, add_half(&d, scatter, x, true, made), behind);
}

// ---- tables of few positions -------------------------------------------------------------------

// Of a vector of elements that is asked for one position, and of an element that is added to it.
static const double CYCLES_ASKED = 3, CYCLES_ADDED = 4.5;

static bool is_worth_asking(const Rewrite *rewrite, const Value *scatter,
                            const StreamCosts *costs) {
    const Machine *machine = costs->machine;
    const Value *x = scatter->args[0];
    double elements = (double)dims_volume(&x->dims, costs->extents);
    double bytes = elements * (double)elem_bytes(x->elem);
    double vectors = elements / machine_lanes(machine, elem_bytes(x->elem));
    double asking = vectors * (double)costs->extents[scatter->dim] * CYCLES_ASKED;
    // What it is made of is stored beside it: gradients of logits and weights.
    double moving = 2 * TIMES_MOVED * bytes / machine_bandwidth(machine, 2 * bytes);
    double storing = elements * CYCLES_ADDED * machine_cycle(machine) + moving * costs->wide_price;
    return rewrite->from->dims.at[scatter->dim].extent != EXTENT_DYNAMIC &&
           asking * machine_cycle(machine) <= storing;
}

static Value *sum_of_hits(Rewrite *rewrite, const Value *scatter, Value **args) {
    Graph *graph = rewrite->to;
    Value *x = args[0], *ids = args[1];
    Value *index = graph_cast(graph, graph_index(graph, scatter->dim), ids->elem);
    Value *hit = graph_map2(graph, OP_EQ, ids, index);
    return graph_reduce(graph, OP_SUM, graph_or_zero(graph, hit, x), scatter->dims);
}

Value *fuse_sums_at(Rewrite *rewrite, const Value *scatter, Value **args, DimId streamed,
                    const StreamCosts *costs, ValueList *made) {
    if (!elem_is_float(args[0]->elem))
        return NULL;
    Value *sums = add_by_distance(rewrite, scatter, args[0], streamed, made);
    if (sums || !is_worth_asking(rewrite, scatter, costs))
        return sums;
    sums = sum_of_hits(rewrite, scatter, args);
    vec_push(rewrite->arena, made, sums);
    return sums;
}
