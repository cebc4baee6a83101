// SPDX-License-Identifier: Apache-2.0
// graph_head_masks: a factor for each head of each attention, of which the loss has a gradient.
//
//     before  J[n, m, h_k] = einsum(Q[n, d, h_k], K[m, d, h_k])                       returned: O
//             W[n, m, h] = softmax(einsum(J[n, m, h_k], P_l[h_k, h]), reduced_dim=m)
//             O[n, e, h_v] = einsum(W[n, m, h], P_w[h, h_v], V[m, e, h_v])
//     after   the same, with the new arguments xi: heads.J.h_k, heads.W.h and heads.O.h_v:
//             ... einsum(J[n, m, h_k] * xi[h_k], P_l[h_k, h]) ...
//             O[n, e, h_v] = einsum(W[n, m, h] * xi[h], P_w[h, h_v], V[m, e, h_v], xi[h_v])
//
// With 1 in all of them the results are those without, with 0 at a head they are those without that
// head, and E|dLoss/dxi| is its importance (Michel, Levy, Neubig 2019, "Are Sixteen Heads Really
// Better than One?", section 4). A pair is that of a query and a memory position: dims that no
// parameter multiplies along, made by an einsum that has one from each operand. Heads are the dims
// of such a value that are learned. A value gets a mask where an einsum takes it in and does not
// keep its heads apart for each pair: the product with the values, or a mixing of heads. Heads that
// are mixed within one einsum, and are in no value over the pair, get theirs as an operand of it.
//
// Requires: what graph_build makes. Ensures: the results with the masks as further inputs of f32,
// the last ones.
#include "graph/fuse/fuse.h"
#include "graph/model.h"
#include "graph/rewrite/rewrite.h"

#include <math.h>
#include <string.h>

typedef struct {
    const bool *live, *data, *param; // by value id: see fuse_depends_on
    bool *learned;                   // by DimId
    DimPair *pair;                   // by value id
    DimList *on_value;               // by value id: dims of its mask
    DimList *on_einsum;              // by value id: dims of masks that are operands
    HeadMasks *masks;
    Arena *arena; // of the pass alone
} HeadSearch;

// ---- which dims are heads ----------------------------------------------------------------------

static bool all_learned(const HeadSearch *search, const DimList *dims) {
    for (uint32_t i = 0; i < dims->count; i++)
        if (!search->learned[dims->at[i]])
            return false;
    return true;
}

// What a learned dim is called after moves is learned, too.
static void follow_learned(HeadSearch *search, const Value *value) {
    bool *learned = search->learned;
    if (value->op == OP_SPLIT && learned[value->dim])
        for (uint32_t i = 0; i < value->digits->count; i++)
            learned[value->digits->at[i]] = true;
    if (value->op == OP_MERGE && all_learned(search, value->digits))
        learned[value->dim] = true;
    for (uint32_t k = 0; k < value->n_args; k++)
        for (uint32_t i = 0; i < value->args[k]->dims.count; i++) {
            DimId dim = value->args[k]->dims.at[i];
            if (learned[dim])
                learned[value_moved_dim(value, k, dim)] = true;
        }
}

static DimList heads_of(const HeadSearch *search, const Value *value) {
    DimList heads = {0};
    for (uint32_t i = 0; i < value->dims.count; i++)
        if (search->learned[value->dims.at[i]])
            dims_add(&heads, value->dims.at[i]);
    return heads;
}

// ---- pairs -------------------------------------------------------------------------------------

// Does some argument made of data have x and not y, and none have both?
static bool comes_alone(const HeadSearch *search, const Value *value, DimId x, DimId y) {
    bool found = false;
    for (uint32_t k = 0; k < value->n_args; k++) {
        const Value *arg = value->args[k];
        if (dims_has(&arg->dims, x) && dims_has(&arg->dims, y))
            return false;
        found = found || (search->data[arg->id] && dims_has(&arg->dims, x));
    }
    return found;
}

static DimPair pair_made(const HeadSearch *search, const Value *value) {
    for (uint32_t i = 0; value->op == OP_CONTRACT && i < value->dims.count; i++)
        for (uint32_t k = i + 1; k < value->dims.count; k++) {
            DimId x = value->dims.at[i], y = value->dims.at[k];
            if (!search->learned[x] && !search->learned[y] && comes_alone(search, value, x, y) &&
                comes_alone(search, value, y, x))
                return (DimPair){x, y};
        }
    return dim_pair_none;
}

static void find_pairs(HeadSearch *search, const Graph *graph) {
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        search->pair[i] = search->live[i] ? pair_made(search, value) : dim_pair_none;
        for (uint32_t k = 0; search->live[i] && search->pair[i].x == DIM_NONE && k < value->n_args;
             k++)
            search->pair[i] = value_kept_pair(value, k, search->pair[value->args[k]->id]);
    }
}

// ---- where masks are ---------------------------------------------------------------------------

// Is it multiplied by something made of data at one of the positions?
static bool meets_data(const HeadSearch *search, const Value *einsum, uint32_t arg) {
    DimPair pair = search->pair[einsum->args[arg]->id];
    for (uint32_t k = 0; k < einsum->n_args; k++) {
        const Value *other = einsum->args[k];
        if (k != arg && search->data[other->id] &&
            (dims_has(&other->dims, pair.x) || dims_has(&other->dims, pair.y)))
            return true;
    }
    return false;
}

// Does the einsum no longer keep the heads of the argument apart for each pair?
static bool takes_in(const HeadSearch *search, const Value *einsum, uint32_t arg) {
    DimList heads = heads_of(search, einsum->args[arg]);
    if (search->pair[einsum->args[arg]->id].x == DIM_NONE || !heads.count)
        return false;
    if (value_kept_pair(einsum, arg, search->pair[einsum->args[arg]->id]).x == DIM_NONE)
        return meets_data(search, einsum, arg);
    return !dims_subset(&heads, &einsum->dims);
}

// Head dims that the einsum has of values over the pair: its own, or those of its arguments.
static DimList known_heads(const HeadSearch *search, const Value *einsum) {
    DimList known = {0};
    if (search->pair[einsum->id].x != DIM_NONE)
        known = heads_of(search, einsum);
    for (uint32_t k = 0; k < einsum->n_args; k++) {
        DimList heads = heads_of(search, einsum->args[k]);
        if (search->pair[einsum->args[k]->id].x != DIM_NONE)
            known = dims_union(&known, &heads);
    }
    return known;
}

// Does no operand but this one have the dim, and those over the pair?
static bool is_its_own(const HeadSearch *search, const Value *einsum, uint32_t arg, DimId dim) {
    for (uint32_t k = 0; k < einsum->n_args; k++)
        if (k != arg && dims_has(&einsum->args[k]->dims, dim) &&
            search->pair[einsum->args[k]->id].x == DIM_NONE)
            return false;
    return true;
}

// Other heads that a matrix of parameters, P_l[h_k, h], mixes those with.
static DimList mixed_heads(const HeadSearch *search, const Value *einsum) {
    DimList known = known_heads(search, einsum), mixed = {0};
    for (uint32_t k = 0; k < einsum->n_args; k++) {
        const Value *arg = einsum->args[k];
        DimList other = dims_minus(&arg->dims, &known);
        DimList own = dims_intersect(&arg->dims, &known);
        if (own.count == 1 && other.count == 1 && search->param[arg->id] &&
            !search->data[arg->id] && search->learned[other.at[0]] &&
            is_its_own(search, einsum, k, own.at[0]))
            dims_add(&mixed, other.at[0]);
    }
    return mixed;
}

static void find_places(HeadSearch *search, const Graph *graph) {
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *value = graph->values.at[i];
        if (!search->live[i] || value->op != OP_CONTRACT || !elem_is_float(value->elem))
            continue;
        search->on_einsum[i] = mixed_heads(search, value);
        for (uint32_t k = 0; k < value->n_args; k++)
            if (takes_in(search, value, k))
                search->on_value[value->args[k]->id] = heads_of(search, value->args[k]);
    }
}

// ---- masks -------------------------------------------------------------------------------------

// A value that has no name is called after the nearest of those that it is made of.
static const Value *named_after(const HeadSearch *search, const Value *value) {
    for (uint32_t k = 0; !value->hint && k < value->n_args; k++)
        if (search->pair[value->args[k]->id].x != DIM_NONE) {
            const Value *named = named_after(search, value->args[k]);
            if (named->hint)
                return named;
        }
    return value;
}

static const char *full_name(Arena *arena, const Value *value) {
    return arena_printf(arena, "%s%s", value->path ? value->path : "",
                        value->hint ? value->hint : "attention");
}

static Value *new_mask(HeadSearch *search, Graph *graph, const Value *value, DimList dims) {
    const Value *named = named_after(search, value);
    const char *of = full_name(graph->arena, named);
    Text name = {.arena = search->arena};
    text_printf(&name, "heads.%s", of);
    for (uint32_t i = 0; i < dims.count; i++)
        text_printf(&name, ".%s", graph->dims.at[dims.at[i]].name);
    Value *mask = graph_input(graph, graph_new_name(graph, name.at), ELEM_F32, dims, ROLE_DATA);
    HeadMask made = {mask, names_find(graph->session->names, of)};
    vec_push(graph->arena, &search->masks->masks, made);
    return mask;
}

static Value *with_operands(Rewrite *rewrite, const Value *value, Value **args) {
    HeadSearch *search = rewrite->data;
    const DimList *dims = &search->on_einsum[value->id];
    Value **all = arena_array(rewrite->arena, Value *, value->n_args + dims->count);
    for (uint32_t k = 0; k < value->n_args; k++)
        all[k] = args[k];
    for (uint32_t i = 0; i < dims->count; i++) {
        Value *mask = new_mask(search, rewrite->to, value, (DimList){1, {dims->at[i]}});
        all[value->n_args + i] = graph_cast(rewrite->to, mask, value->elem);
    }
    return graph_einsum(rewrite->to, value->number, all, value->n_args + dims->count, value->dims);
}

static Value *masked(Rewrite *rewrite, const Value *value, Value **args) {
    HeadSearch *search = rewrite->data;
    Value *now = search->on_einsum[value->id].count ? with_operands(rewrite, value, args)
                                                    : rewrite_keep(rewrite, value, args);
    const DimList *dims = &search->on_value[value->id];
    if (!dims->count)
        return now;
    Value *mask = new_mask(search, rewrite->to, value, *dims);
    return graph_map2(rewrite->to, OP_MUL, now, graph_cast(rewrite->to, mask, now->elem));
}

static void open_search(HeadSearch *search, const Graph *graph, Arena *arena) {
    uint32_t count = graph->values.count + 1;
    *search = (HeadSearch){.live = graph_live(graph, arena),
                           .data = fuse_depends_on(graph, ROLE_DATA, arena),
                           .param = fuse_depends_on(graph, ROLE_PARAM, arena),
                           .learned = fuse_learned_dims(graph, arena),
                           .pair = arena_array(arena, DimPair, count),
                           .on_value = arena_array(arena, DimList, count),
                           .on_einsum = arena_array(arena, DimList, count),
                           .arena = arena};
    for (uint32_t i = 0; i < graph->values.count; i++)
        follow_learned(search, graph->values.at[i]);
    find_pairs(search, graph);
}

HeadMasks graph_head_masks(const Graph *graph) {
    Arena *arena = arena_new();
    HeadMasks masks = {0};
    HeadSearch search;
    open_search(&search, graph, arena);
    search.masks = &masks;
    find_places(&search, graph);
    masks.graph = rewrite_graph("heads", graph, graph->arena, arena, masked, &search);
    return masks;
}

// ---- logits ------------------------------------------------------------------------------------

static bool is_minus_infinity(const Value *value) {
    return value->op == OP_CONST && isinf(value->number) && value->number < 0;
}

// What a softmax is of, before positions are masked.
static Value *logits_of(const Value *softmax) {
    Value *logits = softmax->args[0];
    for (;;) {
        if (logits->op == OP_SELECT && is_minus_infinity(logits->args[2]))
            logits = logits->args[1];
        else if (logits->op == OP_SELECT && is_minus_infinity(logits->args[1]))
            logits = logits->args[2];
        else
            return logits;
    }
}

// Batches, heads, then the pair with what the softmax goes along last.
static DimList logits_order(const HeadSearch *search, const Value *logits, DimId along) {
    DimPair pair = search->pair[logits->id];
    DimList heads = heads_of(search, logits), order = {0};
    for (uint32_t i = 0; i < logits->dims.count; i++)
        if (logits->dims.at[i] != pair.x && logits->dims.at[i] != pair.y)
            dims_add(&order, logits->dims.at[i]);
    order = dims_minus(&order, &heads);
    order = dims_union(&order, &heads);
    dims_add(&order, along == pair.x ? pair.y : pair.x);
    dims_add(&order, along);
    return order;
}

static bool has_logits(const HeadSearch *search, const Value *value) {
    if (!search->live[value->id] || value->op != OP_SOFTMAX)
        return false;
    const Value *logits = logits_of(value);
    DimPair pair = search->pair[logits->id];
    return pair.x != DIM_NONE && (value->dim == pair.x || value->dim == pair.y);
}

static bool is_output(const void *graph, const char *name) {
    const Graph *of = graph;
    for (uint32_t i = 0; i < of->outputs.count; i++)
        if (strcmp(of->outputs.at[i].name, name) == 0)
            return true;
    return false;
}

static Name logits_name(const Graph *graph, const Value *named) {
    const char *name = full_name(graph->arena, named);
    if (is_output(graph, name))
        name = text_numbered(graph->arena, name, is_output, graph);
    return names_find(graph->session->names, name);
}

Graph *graph_head_logits(const Graph *graph) {
    Arena *arena = arena_new();
    HeadSearch search;
    open_search(&search, graph, arena);
    Rewrite rewrite = rewrite_begin("logits", graph, graph->arena, arena);
    rewrite_values(&rewrite, rewrite_keep);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const Value *softmax = graph->values.at[i];
        if (!has_logits(&search, softmax))
            continue;
        const Value *logits = logits_of(softmax);
        graph_output(rewrite.to, logits_name(rewrite.to, softmax->hint ? softmax : logits),
                     rewrite.now[logits->id], logits_order(&search, logits, softmax->dim));
    }
    arena_free(arena);
    return rewrite.to;
}
