// SPDX-License-Identifier: Apache-2.0
// A rename as a reference: `T[m, d]` reads T[n, d] over m, and what dims in brackets cannot say is
// said by swaps.
#include "graph/print/print.h"

static const char *name_or_variable(const GraphPrinter *print, DimId dim) {
    return print->variable[dim] ? print->variable[dim] : print_dim_name(print, dim);
}

// New names in the places of the argument's dims, but those that are its own and alike in the order
// in which it has them: what `T[..]` can say.
static DimList names_in_order(const Graph *graph, const DimList *own, const DimMap *renames) {
    DimList names = dims_renamed(own, renames), kept = dims_intersect(own, &names);
    for (uint32_t i = 0; i < names.count; i++) {
        uint32_t next = 0;
        if (!dims_has(own, names.at[i]))
            continue;
        while (!graph_dims_alike(graph, kept.at[next], names.at[i]))
            next++;
        names.at[i] = kept.at[next];
        kept = dims_minus(&kept, &(DimList){1, {names.at[i]}});
    }
    return names;
}

// swap(swap(S[n, m, k], n, m), m, k): the rest of a rename, one exchange after the other.
void print_rename(GraphPrinter *print, const Value *value) {
    DimList visible = print_visible(print, &value->args[0]->dims), own = {0};
    for (uint32_t i = 0; i < visible.count; i++)
        own.at[own.count++] = print_dim_here(print, visible.at[i]);
    DimMap renames = {0};
    for (uint32_t i = 0; i < value->renames->count; i++)
        dimmap_add(&renames, print_dim_here(print, value->renames->from[i]), value->renames->to[i]);
    DimList to = dims_renamed(&own, &renames);
    DimList now = names_in_order(print->graph, &own, &renames);
    DimMap swaps = {0};
    for (uint32_t i = 0; i < now.count; i++) {
        DimId a = now.at[i], b = to.at[i];
        if (a == b)
            continue;
        dimmap_add(&swaps, a, b);
        now = dims_renamed(&now, &(DimMap){2, {a, b}, {b, a}});
    }
    for (uint32_t i = 0; i < swaps.count; i++)
        text_add(print->out, "swap(");
    now = names_in_order(print->graph, &own, &renames);
    text_add(print->out, print_name_here(print, value->args[0]));
    for (uint32_t i = 0; i < now.count; i++)
        text_printf(print->out, "%s%s", i ? ", " : "[", name_or_variable(print, now.at[i]));
    text_add(print->out, now.count ? "]" : "");
    for (uint32_t i = 0; i < swaps.count; i++)
        text_printf(print->out, ", %s, %s)", print_dim_name(print, swaps.from[i]),
                    print_dim_name(print, swaps.to[i]));
}
