// SPDX-License-Identifier: Apache-2.0
// Every n-ary einsum becomes a tree of pairwise contractions and products, in its cheapest order.
//
//     before  Y[n, d] = einsum(W[n, m, h], X[m, d_2], P_v[d_2, d_k, h], P_o[d, d_k, h])
//     after   V[m, d_k, h] = einsum(X[m, d], P_v[d, d_k, h])
//             O[n, d_k, h] = einsum(W[n, m, h], V[m, d_k, h])
//             Y[n, d] = einsum(O[n, d_k, h], P_o[d, d_k, h])
//
// The order comes from order.c. Nothing moves across a value that is not an einsum, so
// softmax and values with several users are barriers; a mixing of heads after the softmax is part
// of the einsum with V and goes to whichever side of V is cheaper. Equal partial results of
// different einsums become one value by hash-consing. Flattening (graph_simplify) gave summed dims
// fresh names where they clashed; a step whose operands are such renames takes the original names
// back when they do not clash inside the step, so that no rename is left in the usual projections.
//
// Requires: any graph. Ensures: every CONTRACT has two arguments and sums at least one dim, which
// both arguments have; products without a sum are MUL, sums of one operand SUM; the factor of an
// einsum is at the contraction with the smallest result.
#include "graph/rewrite/order.h"
#include "graph/rewrite/rewrite.h"

typedef struct {
    DimId alias, original;
} DimSwap;

typedef struct {
    Graph *graph;
    const Value *einsum;
    Value **leaves;
    const Order *order;
    uint32_t factor_step; // n_steps: none of them
    VEC(DimSwap) swaps;   // in force at the node being emitted
} Emission;

// ---- taking back original names ----------------------------------------------------------------

// The dim that was renamed to `alias` in this value, DIM_NONE when none was.
static DimId alias_original(const Value *value, DimId alias) {
    for (uint32_t i = 0; value->op == OP_RENAME && i < value->renames->count; i++)
        if (value->renames->to[i] == alias)
            return value->renames->from[i];
    return DIM_NONE;
}

static DimId swap_dim(const Emission *emission, DimId dim) {
    for (uint32_t i = emission->swaps.count; i-- > 0;)
        if (emission->swaps.at[i].alias == dim)
            return emission->swaps.at[i].original;
    return dim;
}

static DimList swap_dims(const Emission *emission, const DimList *dims) {
    DimList out = {0};
    for (uint32_t i = 0; i < dims->count; i++)
        dims_add(&out, swap_dim(emission, dims->at[i]));
    return out;
}

// Every leaf below the node: does it allow calling `alias` by the name `original` in there?
static bool swap_allowed(const Emission *emission, uint32_t node, DimId alias, DimId *original) {
    const Order *order = emission->order;
    if (node >= order->n_leaves) {
        const OrderStep *step = &order->steps[node - order->n_leaves];
        return swap_allowed(emission, step->left, alias, original) &&
               swap_allowed(emission, step->right, alias, original);
    }
    const Value *leaf = emission->leaves[node];
    if (!dims_has(&leaf->dims, alias))
        return true;
    DimId here = alias_original(leaf, alias);
    if (*original == DIM_NONE)
        *original = here;
    return here != DIM_NONE && here == *original;
}

static bool node_has_dim(const Emission *emission, uint32_t node, DimId dim) {
    const Order *order = emission->order;
    if (node >= order->n_leaves) {
        const OrderStep *step = &order->steps[node - order->n_leaves];
        return node_has_dim(emission, step->left, dim) || node_has_dim(emission, step->right, dim);
    }
    const DimList *dims = &emission->leaves[node]->dims;
    for (uint32_t i = 0; i < dims->count; i++)
        if (swap_dim(emission, dims->at[i]) == dim)
            return true;
    return false;
}

static void swap_summed_dims(Emission *emission, uint32_t node, const DimList *space,
                             const DimList *kept) {
    DimList summed = dims_minus(space, kept);
    for (uint32_t i = 0; i < summed.count; i++) {
        DimId alias = summed.at[i], original = DIM_NONE;
        if (swap_allowed(emission, node, alias, &original) && original != DIM_NONE &&
            !node_has_dim(emission, node, original))
            vec_push(emission->graph->arena, &emission->swaps, (DimSwap){alias, original});
    }
}

// ---- emission ----------------------------------------------------------------------------------

static Value *emit_leaf(Emission *emission, uint32_t node) {
    Value *value = emission->leaves[node];
    const DimList *kept = &emission->order->leaf_dims[node];
    uint32_t outer = emission->swaps.count;
    swap_summed_dims(emission, node, &value->dims, kept);
    DimMap back = {0};
    for (uint32_t i = 0; i < value->dims.count; i++)
        dimmap_add(&back, value->dims.at[i], swap_dim(emission, value->dims.at[i]));
    value = graph_rename_all(emission->graph, value, &back);
    value = graph_reduce(emission->graph, OP_SUM, value, swap_dims(emission, kept));
    emission->swaps.count = outer;
    return value;
}

// The operands below a node, scalars left out as in the parts.
static uint64_t node_operands(const Emission *emission, uint32_t node) {
    const Order *order = emission->order;
    if (node < order->n_leaves)
        return emission->leaves[node]->dims.count ? (uint64_t)1 << node : 0;
    const OrderStep *step = &order->steps[node - order->n_leaves];
    return node_operands(emission, step->left) | node_operands(emission, step->right);
}

// A partial result of the same operands as a value of the source gets its name; the outermost, when
// there are several.
static void name_step(const Emission *emission, const OrderStep *step, Value *value) {
    uint64_t left = node_operands(emission, step->left);
    uint64_t right = node_operands(emission, step->right);
    const Value *einsum = emission->einsum;
    for (uint32_t i = einsum->n_parts; i-- > 0 && left && right && !value->hint;)
        if (einsum->parts[i].args == (left | right)) {
            value->hint = einsum->parts[i].hint;
            value->path = einsum->parts[i].path;
            value->origin = einsum->parts[i].origin;
        }
}

static Value *emit_step(Emission *emission, uint32_t number, Value **pair) {
    const Order *order = emission->order;
    const OrderStep *step = &order->steps[number];
    if (!step->contracts)
        return graph_map2(emission->graph, OP_MUL, pair[0], pair[1]);
    DimList dims =
        number + 1 == order->n_steps ? emission->einsum->dims : swap_dims(emission, &step->dims);
    double factor = number == emission->factor_step ? emission->einsum->number : 1;
    return graph_einsum(emission->graph, factor, pair, 2, dims);
}

static Value *emit_node(Emission *emission, uint32_t node) {
    const Order *order = emission->order;
    if (node < order->n_leaves)
        return emit_leaf(emission, node);
    uint32_t number = node - order->n_leaves;
    const OrderStep *step = &order->steps[number];
    uint32_t outer = emission->swaps.count;
    DimList space = dims_union(order_dims(order, step->left), order_dims(order, step->right));
    swap_summed_dims(emission, node, &space, &step->dims);
    Value *pair[2] = {emit_node(emission, step->left), emit_node(emission, step->right)};
    emission->swaps.count = outer;
    Value *value = emit_step(emission, number, pair);
    if (number + 1 < order->n_steps)
        name_step(emission, step, value);
    return value;
}

static uint32_t smallest_contraction(const Order *order, const int64_t *extents) {
    uint32_t best = order->n_steps;
    int64_t best_volume = INT64_MAX;
    for (uint32_t i = 0; i < order->n_steps; i++) {
        int64_t volume = dims_volume(&order->steps[i].dims, extents);
        if (order->steps[i].contracts && (volume < best_volume || best == order->n_steps)) {
            best = i;
            best_volume = volume;
        }
    }
    return best;
}

// ---- the pass ----------------------------------------------------------------------------------

typedef struct {
    const int64_t *extents;
    const Machine *machine;
} ContractFacts;

static Value *contract_einsum(Rewrite *rewrite, const Value *einsum, Value **leaves) {
    const ContractFacts *facts = rewrite->data;
    Graph *graph = rewrite->to;
    DimList dims[ORDER_MAX];
    if (einsum->n_args > ORDER_MAX)
        ice("contract: an einsum of %u operands", einsum->n_args);
    for (uint32_t i = 0; i < einsum->n_args; i++)
        dims[i] = leaves[i]->dims;
    Emission emission = {.graph = graph, .einsum = einsum, .leaves = leaves};
    emission.order = order_find(rewrite->arena, dims, einsum->n_args, &einsum->dims, facts->extents,
                                facts->machine);
    emission.factor_step = smallest_contraction(emission.order, facts->extents);
    const Order *order = emission.order;
    Value *out = emit_node(&emission, order->n_leaves + order->n_steps - 1);
    if (emission.factor_step == order->n_steps && einsum->number != 1)
        out = graph_map2(graph, OP_MUL, out, graph_const(graph, einsum->number, einsum->elem));
    return out;
}

static Value *contract_value(Rewrite *rewrite, const Value *value, Value **args) {
    return value->op == OP_CONTRACT ? contract_einsum(rewrite, value, args)
                                    : rewrite_keep(rewrite, value, args);
}

Graph *graph_contract(const Graph *graph, const int64_t *extents, const Machine *machine) {
    Arena *arena = arena_new();
    return rewrite_graph("contract", graph, graph->arena, arena, contract_value,
                         &(ContractFacts){extents, machine});
}
