// SPDX-License-Identifier: Apache-2.0
// Counting a graph's work and parameters, exactly.
//
// Multiplies are those of the paper ("Talking-Heads Attention", tables 1 and 4): every pairwise
// contraction costs the product of all dims that take part in it. Pointwise products are not
// counted there. Everything is 64-bit and checked: a count that does not fit is -1, never a wrong
// number. As a formula it is a sum of products of dims, each product once:
//
//     einsum(X[b, n, d], P[d, k]), twice over, of n = 16, d = 4, k = 2     256 * b
#include "graph/graph.h"

static bool count_product(const DimList *dims, const int64_t *extents, int64_t *out) {
    int64_t product = 1;
    for (uint32_t i = 0; i < dims->count; i++)
        if (!mul_i64(product, extents[dims->at[i]], &product))
            return false;
    *out = product;
    return true;
}

// All dims of the arguments: the iteration space of a contraction or a reduction.
static DimList count_space(const Value *value) {
    DimList space = value->dims;
    for (uint32_t i = 0; i < value->n_args; i++)
        space = dims_union(&space, &value->args[i]->dims);
    if (value_in_parts(value)) // each position is of one part
        space = dims_minus(&space, &(DimList){1, {value->dim2}});
    ShiftedSum shifted;
    if (value_is_shifted_sum(value, &shifted)) // and at one distance
        space = dims_minus(&space, &(DimList){1, {shifted.to}});
    return space;
}

static bool count_multiplies(const Value *value, const int64_t *extents, int64_t *out) {
    *out = 0;
    if (value->op != OP_CONTRACT)
        return true;
    DimList space = count_space(value);
    return count_product(&space, extents, out);
}

// Operations per element of a whole-row function: its reductions and maps, each counted once.
static int64_t count_row_weight(Op op) {
    switch (op) {
    case OP_SOFTMAX:     // max, subtract, exp, sum, divide
    case OP_LOG_SOFTMAX: // max, subtract, exp, sum, subtract
        return 5;
    default:
        return 1;
    }
}

static bool count_flops(const Value *value, const int64_t *extents, int64_t *out) {
    DimList space = count_space(value);
    int64_t weight = 0;
    switch (op_kind(value->op)) {
    case KIND_MAP:
        weight = value->op != OP_COPY && !value_is_shift(value);
        break;
    case KIND_REDUCE:
        weight = 1;
        break;
    case KIND_CONTRACT:
        weight = 2;
        break;
    case KIND_ROW:
        weight = count_row_weight(value->op);
        break;
    case KIND_LEAF:
    case KIND_MOVE:
    case KIND_SCAN:
        break;
    }
    *out = 0;
    return weight == 0 || (count_product(&space, extents, out) && mul_i64(*out, weight, out));
}

int64_t value_multiplies(const Value *value, const int64_t *extents) {
    int64_t multiplies;
    return count_multiplies(value, extents, &multiplies) ? multiplies : -1;
}

int64_t value_flops(const Value *value, const int64_t *extents) {
    int64_t flops;
    return count_flops(value, extents, &flops) ? flops : -1;
}

static int64_t count_live(const Graph *graph, const int64_t *extents,
                          bool (*count)(const Value *, const int64_t *, int64_t *)) {
    Arena *arena = arena_new();
    const bool *live = graph_live(graph, arena);
    int64_t total = 0, one;
    for (uint32_t i = 0; i < graph->values.count && total >= 0; i++)
        if (live[i])
            if (!count(graph->values.at[i], extents, &one) || !add_i64(total, one, &total))
                total = -1;
    arena_free(arena);
    return total;
}

int64_t graph_multiplies(const Graph *graph, const int64_t *extents) {
    return count_live(graph, extents, count_multiplies);
}

int64_t graph_flops(const Graph *graph, const int64_t *extents) {
    return count_live(graph, extents, count_flops);
}

// ---- values that are computed again ----

// In any order, and a dim for all that are like it: what is computed again may have other names.
static uint64_t hash_of_dims(const Graph *graph, const DimList *dims) {
    uint64_t hash = 0;
    for (uint32_t i = 0; i < dims->count; i++)
        hash += hash_u64(1, graph->dims.at[dims->at[i]].like);
    return hash;
}

static uint64_t hash_once(const Graph *graph, const Value *value, const uint64_t *hashes) {
    if (value->op == OP_COPY || value->op == OP_RENAME)
        return hashes[value->args[0]->id];
    uint64_t hash =
        hash_u64(hash_of_dims(graph, &value->dims), (uint64_t)value->op << 32 | value->elem);
    hash = hash_bytes(hash, &value->number, sizeof value->number);
    hash = hash_u64(hash, (uint64_t)value->offset);
    if (value->op == OP_INPUT)
        hash = hash_text(hash, value->written);
    bool any_order = value->op == OP_CONTRACT || op_commutes(value->op);
    for (uint32_t k = 0; k < value->n_args; k++) {
        uint64_t arg = hash_u64(2, hashes[value->args[k]->id]);
        hash = any_order ? hash + arg : hash_u64(hash, arg);
    }
    return hash_u64(3, hash);
}

uint64_t *graph_hashes_once(const Graph *graph, Arena *arena) {
    uint64_t *hashes = arena_array(arena, uint64_t, graph->values.count + 1);
    for (uint32_t i = 0; i < graph->values.count; i++)
        hashes[i] = hash_once(graph, graph->values.at[i], hashes);
    return hashes;
}

// ---- as a formula of the dims of run time ----

typedef struct {
    int64_t factor;
    DimList dims; // the first of their classes, sorted; one may be there twice
} Product;
typedef VEC(Product) Products;

static bool count_as_product(const Graph *graph, const Value *value, Product *out) {
    DimList space = count_space(value);
    *out = (Product){.factor = 1};
    for (uint32_t i = 0; i < space.count; i++) {
        const Dim *root = &graph->dims.at[graph->dims.at[space.at[i]].like];
        uint8_t at = out->dims.count;
        if (root->extent != EXTENT_DYNAMIC) {
            if (!mul_i64(out->factor, root->extent, &out->factor))
                return false;
            continue;
        }
        for (out->dims.count++; at > 0 && out->dims.at[at - 1] > root->like; at--)
            out->dims.at[at] = out->dims.at[at - 1];
        out->dims.at[at] = root->like;
    }
    return true;
}

static bool add_product(Arena *arena, Products *sum, const Product *product) {
    for (uint32_t i = 0; i < sum->count; i++)
        if (dims_same_order(&sum->at[i].dims, &product->dims))
            return add_i64(sum->at[i].factor, product->factor, &sum->at[i].factor);
    vec_push(arena, sum, *product);
    return true;
}

static const Formula *formula_of_product(Arena *arena, const Product *product) {
    const Formula *formula = formula_number(arena, product->factor);
    for (uint8_t i = 0; i < product->dims.count; i++) {
        Formula dim = {.op = FORMULA_DIM, .dim = product->dims.at[i]};
        formula = formula_of(arena, FORMULA_MUL, formula, arena_copy(arena, &dim, sizeof dim));
    }
    return formula;
}

const Formula *graph_multiplies_formula(const Graph *graph, Arena *arena) {
    const bool *live = graph_live(graph, arena);
    Products sum = {0};
    Product product;
    for (uint32_t i = 0; i < graph->values.count; i++)
        if (live[i] && graph->values.at[i]->op == OP_CONTRACT &&
            !(count_as_product(graph, graph->values.at[i], &product) &&
              add_product(arena, &sum, &product)))
            return NULL;
    const Formula *formula = formula_number(arena, 0);
    for (uint32_t i = 0; i < sum.count; i++)
        formula = formula_of(arena, FORMULA_ADD, formula, formula_of_product(arena, &sum.at[i]));
    return formula;
}

// Also parameters that never take part: they are stored and shipped all the same.
int64_t graph_parameters(const Graph *graph, const int64_t *extents) {
    int64_t total = 0, one;
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *input = graph->inputs.at[i];
        if (input->role != ROLE_PARAM)
            continue;
        if (!count_product(&input->dims, extents, &one) || !add_i64(total, one, &total))
            return -1;
    }
    return total;
}
