// SPDX-License-Identifier: Apache-2.0
// graph_simplify: sweeps of rewriting until nothing changes.
//
//     before  K[m, d_k, h] = einsum(X[m, d], P_k[d, d_k, h]) * 2
//             J[n, m, h] = einsum(Q[n, d_k, h], K[m, d_k, h]) / sqrt(d_k)
//             L[n, m, h] = einsum(J[n, m, h_k], P_l[h_k, h]) + einsum(J[n, m, h_k], R[n, h_k, h])
//     after   L[n, m, h] = 0.25 * einsum(Q[n, d_k, h_k], X[m, d], P_k[d, d_k, h_k], A[n, h_k, h])
//             with A = P_l + R
//
// Requires: a graph that passes graph_verify. Ensures: the same outputs and inputs; no dead values;
// no einsum with one use as the operand of another (unless that would exceed ORDER_EXACT_MAX
// operands or DIMS_MAX dims), no constant operand in an einsum, no einsum of one operand. Results
// differ from the original by the rounding of reordered sums and products only. Dims may be added
// at the end of the list, each `like` one that was there.
#include "graph/rewrite/simplify.h"

#include <string.h>

enum { ROUNDS_MAX = 64 };

int64_t *graph_typical_extents(const Graph *graph, Arena *arena) {
    enum { TYPICAL_DYNAMIC = 512 };
    int64_t *extents = arena_array(arena, int64_t, graph->dims.count + 1);
    for (uint32_t i = 0; i < graph->dims.count; i++) {
        int64_t extent = graph->dims.at[i].extent;
        extents[i] = extent == EXTENT_DYNAMIC ? TYPICAL_DYNAMIC : extent;
    }
    return extents;
}

bool dimids_has(const DimIds *set, DimId dim) {
    for (uint32_t i = 0; i < set->count; i++)
        if (set->at[i] == dim)
            return true;
    return false;
}

// ---- dims that stand in for others -------------------------------------------------------------

static DimId dim_named(const Graph *graph, Name name) {
    for (uint32_t i = 0; i < graph->dims.count; i++)
        if (graph->dims.at[i].name == name)
            return (DimId)i;
    return DIM_NONE;
}

// Aliases of d are called d_2, d_3, ...; an alias of d_2 is again one of d.
static Name alias_base(const Graph *graph, Name name) {
    const char *cut = strrchr(name, '_');
    if (!cut || cut == name || !cut[1] || strspn(cut + 1, "0123456789") != strlen(cut + 1))
        return name;
    Name base = names_intern(graph->session->names, name, (size_t)(cut - name));
    DimId dim = dim_named(graph, base), self = dim_named(graph, name);
    return dim != DIM_NONE && graph->dims.at[dim].like == graph->dims.at[self].like ? base : name;
}

DimId sweep_alias(Sweep *sweep, DimId dim, const DimIds *taken) {
    Graph *graph = sweep->to;
    Dim original = graph->dims.at[dim];
    Name base = alias_base(graph, original.name);
    for (uint32_t number = 2;; number++) {
        Name name =
            names_find(graph->session->names, arena_printf(sweep->arena, "%s_%u", base, number));
        DimId alias = dim_named(graph, name);
        if (alias == DIM_NONE) {
            alias = graph_dim(graph, name, original.extent);
            graph->dims.at[alias].like = original.like;
            vec_push(graph->arena, sweep->extents, sweep->extents->at[dim]);
            return alias;
        }
        if (graph->dims.at[alias].like == original.like && !dimids_has(taken, alias))
            return alias;
    }
}

// ---- one sweep ---------------------------------------------------------------------------------

Value *sweep_rebuild(Sweep *sweep, const Value *value, Value **args) {
    if (op_kind(value->op) != KIND_MAP)
        return graph_rebuild(sweep->to, value, args);
    Value *out = graph_map(sweep->to, value->op, value->elem, args, value->n_args);
    return out;
}

static void sweep_count(Sweep *sweep, const bool *live) {
    const Graph *from = sweep->from;
    for (uint32_t i = 0; i < from->values.count; i++) {
        const Value *value = from->values.at[i];
        for (uint32_t k = 0; live[i] && k < value->n_args; k++) {
            sweep->uses[value->args[k]->id]++;
            sweep->user[value->args[k]->id] = value;
        }
    }
    for (uint32_t i = 0; i < from->outputs.count; i++)
        sweep->uses[from->outputs.at[i].value->id]++;
}

static Graph *sweep_run(const Graph *from, SweepRule rule, ExtentList *extents,
                        const Machine *machine) {
    Arena *arena = arena_new();
    uint32_t count = from->values.count;
    Sweep sweep = {
        .arena = arena,
        .from = from,
        .to = graph_new_like(from),
        .now = arena_array(arena, Value *, count),
        .uses = arena_array(arena, uint32_t, count),
        .user = arena_array(arena, const Value *, count),
        .extents = extents,
        .machine = machine,
    };
    const bool *live = graph_live(from, arena);
    sweep_count(&sweep, live);
    for (uint32_t i = 0; i < from->inputs.count; i++)
        sweep.now[from->inputs.at[i]->id] = graph_rebuild(sweep.to, from->inputs.at[i], NULL);
    for (uint32_t i = 0; i < count; i++) {
        const Value *value = from->values.at[i];
        if (!live[i] || sweep.now[i])
            continue;
        Value **args = arena_array(arena, Value *, value->n_args);
        for (uint32_t k = 0; k < value->n_args; k++)
            args[k] = sweep.now[value->args[k]->id];
        Value *now = rule(&sweep, value, args);
        if (now->elem != value->elem || !dims_equal(&now->dims, &value->dims))
            ice("simplify: a rule changed the type of value %u (%s)", value->id,
                op_name(value->op));
        if (!now->hint && value->hint) {
            now->hint = value->hint;
            now->origin = value->origin;
        }
        sweep.now[i] = now;
    }
    for (uint32_t i = 0; i < from->outputs.count; i++) {
        const Output *output = &from->outputs.at[i];
        graph_output(sweep.to, output->name, sweep.now[output->value->id], output->order);
    }
    Graph *to = sweep.to;
    arena_free(arena);
    return to;
}

static Value *keep_value(Sweep *sweep, const Value *value, Value **args) {
    return graph_rebuild(sweep->to, value, args);
}

Graph *graph_simplify(const Graph *graph, const int64_t *extents, const Machine *machine) {
    static const SweepRule rules[] = {simplify_fold, simplify_flatten, simplify_factor};
    ExtentList sizes = {0};
    for (uint32_t i = 0; i < graph->dims.count; i++)
        vec_push(graph->arena, &sizes, extents[i]);
    Graph *now = sweep_run(graph, simplify_fold, &sizes, machine);
    for (uint32_t round = 0; round < ROUNDS_MAX; round++) {
        uint64_t before = graph_hash(now);
        for (uint32_t i = 0; i < sizeof rules / sizeof *rules; i++)
            now = sweep_run(now, rules[i], &sizes, machine);
        if (graph_hash(now) == before)
            break;
    }
    return sweep_run(now, keep_value, &sizes,
                     machine); // leaves what the last rules built in vain behind
}
