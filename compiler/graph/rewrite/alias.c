// SPDX-License-Identifier: Apache-2.0
// Dims that stand in for others, where one name would mean two things.
//
//     einsum(einsum(X[n, d], P[d, e]), Q[e, d])     einsum(X[n, d_2], P[d_2, e], Q[e, d])
#include "graph/rewrite/simplify.h"

#include <string.h>

// Aliases of d are called d_2, d_3, ...; an alias of d_2 or d' is again one of d.
static Name alias_base(const Graph *graph, Name name) {
    if (name_primes(name))
        return name_unprimed(graph->session->names, name);
    const char *cut = strrchr(name, '_');
    if (!cut || cut == name || !cut[1] || strspn(cut + 1, "0123456789") != strlen(cut + 1))
        return name;
    Name base = names_intern(graph->session->names, name, (size_t)(cut - name));
    DimId dim = graph_find_dim(graph, base), self = graph_find_dim(graph, name);
    return dim != DIM_NONE && graph->dims.at[dim].like == graph->dims.at[self].like ? base : name;
}

DimId simplify_alias(Rewrite *rewrite, DimId dim, const DimIds *taken) {
    Graph *graph = rewrite->to;
    SimplifyFacts *facts = simplify_facts(rewrite);
    Dim original = graph->dims.at[dim];
    Name base = alias_base(graph, original.name);
    for (uint32_t number = 2;; number++) {
        Name name =
            names_find(graph->session->names, arena_printf(rewrite->arena, "%s_%u", base, number));
        DimId alias = graph_find_dim(graph, name);
        if (alias == DIM_NONE) {
            alias = graph_dim(graph, name, original.extent);
            graph->dims.at[alias].like = original.like;
            vec_push(facts->arena, &facts->extents, facts->extents.at[dim]);
            return alias;
        }
        if (graph->dims.at[alias].like == original.like && !dimids_has(taken, alias))
            return alias;
    }
}

bool dimids_has(const DimIds *set, DimId dim) {
    for (uint32_t i = 0; i < set->count; i++)
        if (set->at[i] == dim)
            return true;
    return false;
}
