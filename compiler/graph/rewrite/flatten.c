// SPDX-License-Identifier: Apache-2.0
// What is a sum of products all the way down becomes one n-ary einsum.
//
//     before  Q[n, d_k, h] = einsum(X[n, d], P_q[d, d_k, h]) / sqrt(d_k)      # d_k = 64
//             K[m, d_k, h] = einsum(X[m, d], P_k[d, d_k, h])
//             J[n, m, h] = einsum(Q[n, d_k, h], K[m, d_k, h]) * xi[h]
//     after   J[n, m, h] = 0.125 * einsum(X[n, d], P_q[d, d_k, h],
//                                         X[m, d_2], P_k[d_2, d_k, h], xi[h])
//
// This is what makes step-by-step, multi-way and general bilinear forms of a layer equal: the order
// of contraction is chosen afterwards, for all of them alike. Taken in are operands with a single
// use that are einsums, sums, products, negations, quotients by a scalar, and renames of these. A
// summed dim that also occurs outside gets a fresh name (d_2 above), which graph_contract takes
// back where it can. A product or quotient around an einsum joins it when the other side is a
// number, a scalar or a tensor with fewer dims than the einsum (head masks, gates per channel):
// then the order decides where it is cheapest. A full-size factor stays a pointwise product, there
// is nothing to gain.
//
// Also here: a rename moves from a value with a single use to its arguments, so that it ends at
// inputs and at values with several users, where it is only another way to read them.
//
// The names of what was taken in are kept with the einsum, for graph_contract to give to partial
// results that are the same again.
//
// Requires: simplify_fold. Ensures: the einsum part of graph_simplify's postcondition.
#include "graph/rewrite/order.h"
#include "graph/rewrite/simplify.h"

#include <math.h>

// Deeper ones become operands, and have their turn in the next round.
enum { DEPTH_MAX = 200 };

typedef struct {
    Rewrite *rewrite;
    Elem elem;
    double factor;
    VEC(Value *) operands; // in the new graph
    VEC(NamedPart) parts;  // by place in operands
    DimIds taken;          // names that a summed dim of an inner product must not have
    uint32_t pending;      // arguments entered and not collected yet
    uint32_t room;         // operands that the einsum may have
    uint32_t depth;        // of inner products entered, at most DEPTH_MAX
} Product;

static bool is_scalar(const Value *value) {
    return value->dims.count == 0;
}

// A sum of a product in which one factor has all the dims is a row-wise reduction (a norm, a dot
// product): faster as that than as a contraction.
static bool sum_is_reduction(const Value *sum) {
    const Value *arg = sum->args[0];
    while (arg->op == OP_NEG || arg->op == OP_RENAME)
        arg = arg->args[0];
    if (arg->op == OP_CONTRACT || arg->op == OP_SUM)
        return false;
    for (uint32_t i = 0; i < arg->n_args; i++)
        if (arg->args[i]->op != OP_CONTRACT && dims_equal(&arg->args[i]->dims, &arg->dims))
            return true;
    return arg->op != OP_MUL;
}

static bool is_product(const Rewrite *rewrite, const Value *value) {
    if (!elem_is_float(value->elem))
        return false;
    if (value->op == OP_RENAME && rewrite->uses[value->args[0]->id] != 1)
        return false;
    if (value->op == OP_RENAME)
        value = value->args[0];
    switch (value->op) {
    case OP_CONTRACT:
    case OP_MUL:
    case OP_NEG:
        return true;
    case OP_SUM:
        return !sum_is_reduction(value);
    case OP_DIV:
        return is_scalar(value->args[1]);
    default:
        return false;
    }
}

// ---- collecting --------------------------------------------------------------------------------

static void product_take_dims(Product *product, const DimList *dims) {
    for (uint32_t i = 0; i < dims->count; i++)
        if (!dimids_has(&product->taken, dims->at[i]))
            vec_push(product->rewrite->arena, &product->taken, dims->at[i]);
}

static void product_push(Product *product, Value *operand) {
    vec_push(product->rewrite->arena, &product->operands, operand);
}

static void product_rename(Product *product, uint32_t first, const DimMap *names) {
    for (uint32_t i = first; i < product->operands.count; i++)
        product->operands.at[i] =
            graph_rename_all(product->rewrite->to, product->operands.at[i], names);
}

// The einsum's dims all together must fit a DimList.
static bool product_fits(const Product *product, uint32_t first) {
    DimIds all = {0};
    for (uint32_t i = 0; i < product->operands.count; i++)
        for (uint32_t k = 0; k < product->operands.at[i]->dims.count; k++)
            if (!dimids_has(&all, product->operands.at[i]->dims.at[k]))
                vec_push(product->rewrite->arena, &all, product->operands.at[i]->dims.at[k]);
    bool one = product->operands.count <= first + 1;
    return one ||
           (all.count <= DIMS_MAX && product->operands.count + product->pending <= product->room);
}

static void product_collect(Product *product, const Value *value);

static void product_divide(Product *product, const Value *divisor) {
    Rewrite *rewrite = product->rewrite;
    Value *now = rewrite->now[divisor->id];
    if (now->op == OP_CONST && isfinite(now->number) && now->number != 0)
        product->factor /= now->number;
    else
        product_push(product, graph_map2(rewrite->to, OP_DIV,
                                         graph_const(rewrite->to, 1, product->elem), now));
}

// One bit for each operand from `first` on.
static uint64_t operand_bits(const Product *product, uint32_t first) {
    uint64_t bits = 0;
    for (uint32_t i = first; i < product->operands.count && i < 64; i++)
        bits |= (uint64_t)1 << i;
    return bits;
}

static void product_add_part(Product *product, NamedPart part) {
    if (part.hint && part.args)
        vec_push(product->rewrite->arena, &product->parts, part);
}

// Parts of an inner einsum, whose arguments are the operands from began[i] to before began[i + 1].
static void product_take_parts(Product *product, const Value *value, const uint32_t *began) {
    for (uint32_t p = 0; p < value->n_parts; p++) {
        uint64_t bits = 0;
        for (uint32_t i = 0; i < value->n_args && i < 64; i++)
            if (value->parts[p].args >> i & 1)
                bits |= operand_bits(product, began[i]) & ~operand_bits(product, began[i + 1]);
        NamedPart part = value->parts[p];
        part.args = bits;
        product_add_part(product, part);
    }
}

// The arguments of a product, without the naming of summed dims.
static void product_enter(Product *product, const Value *value) {
    uint32_t first = product->operands.count;
    uint32_t n_args = value->op == OP_DIV ? 1 : value->n_args;
    if (value->op == OP_CONTRACT)
        product->factor *= value->number;
    if (value->op == OP_NEG)
        product->factor = -product->factor;
    for (uint32_t i = 0; i < value->n_args; i++)
        product_take_dims(product, &value->args[i]->dims);
    uint32_t *began = arena_array(product->rewrite->arena, uint32_t, n_args + 1);
    product->pending += n_args;
    for (uint32_t i = 0; i < n_args; i++) {
        product->pending--;
        began[i] = product->operands.count;
        product_collect(product, value->args[i]);
    }
    began[n_args] = product->operands.count;
    product_take_parts(product, value, began);
    if (value->op == OP_DIV)
        product_divide(product, value->args[1]);
    if (value->op == OP_RENAME)
        product_rename(product, first, value->renames);
}

// An inner product: its summed dims that are taken are named anew, in its own operands only.
static void product_enter_inner(Product *product, const Value *value) {
    DimList space;
    value_args_dims(value, &space);
    DimList summed = dims_minus(&space, &value->dims);
    if (value->op == OP_RENAME)
        summed.count = 0;
    DimList fresh = summed;
    uint32_t first = product->operands.count;
    DimIds taken = {0};
    for (uint32_t i = 0; i < product->taken.count; i++)
        vec_push(product->rewrite->arena, &taken, product->taken.at[i]);
    for (uint32_t i = 0; i < space.count; i++)
        vec_push(product->rewrite->arena, &taken, space.at[i]);
    for (uint32_t i = 0; i < summed.count; i++)
        if (dimids_has(&product->taken, summed.at[i])) {
            fresh.at[i] = simplify_alias(product->rewrite, summed.at[i], &taken);
            vec_push(product->rewrite->arena, &taken, fresh.at[i]);
        }
    product_take_dims(product, &fresh);
    product_enter(product, value);
    DimMap names = {0};
    for (uint32_t i = 0; i < summed.count; i++)
        dimmap_add(&names, summed.at[i], fresh.at[i]);
    product_rename(product, first, &names);
    product_add_part(product, (NamedPart){value->hint, value->path, value->origin,
                                          operand_bits(product, first)});
}

// Whether an inner product may fit. Each argument that is no number gives an operand or more, and a
// product that gives only one always fits.
static bool product_may_fit(const Product *product, const Value *value) {
    uint32_t least = 1;
    if (value->op == OP_CONTRACT || value->op == OP_MUL) {
        least = 0;
        for (uint32_t i = 0; i < value->n_args; i++)
            least += product->rewrite->now[value->args[i]->id]->op != OP_CONST;
    }
    return product->depth < DEPTH_MAX &&
           (least < 2 || product->operands.count + product->pending + least <= product->room);
}

static void product_collect(Product *product, const Value *value) {
    Rewrite *rewrite = product->rewrite;
    Value *now = rewrite->now[value->id];
    if (now->op == OP_CONST && isfinite(now->number)) {
        product->factor *= now->number;
        return;
    }
    uint32_t first = product->operands.count, parts = product->parts.count;
    double factor = product->factor;
    if (rewrite->uses[value->id] == 1 && value->elem == product->elem &&
        is_product(rewrite, value) && product_may_fit(product, value)) {
        product->depth++;
        product_enter_inner(product, value);
        product->depth--;
        if (product_fits(product, first))
            return;
    }
    product->operands.count = first;
    product->parts.count = parts;
    product->factor = factor;
    product_push(product, now);
}

static Product product_new(Rewrite *rewrite, const Value *root) {
    Product product = {
        .rewrite = rewrite, .elem = root->elem, .factor = 1, .room = ORDER_EXACT_MAX};
    if (root->n_args > product.room)
        product.room = root->n_args;
    product_take_dims(&product, &root->dims);
    return product;
}

// Scalars are multiplied into one, so that they count as one operand. Parts do without them.
static void product_join_scalars(Product *product) {
    uint32_t kept = 0;
    Value *scalar = NULL;
    uint64_t *parts = arena_array(product->rewrite->arena, uint64_t, product->parts.count);
    for (uint32_t i = 0; i < product->operands.count; i++) {
        Value *operand = product->operands.at[i];
        if (is_scalar(operand)) {
            scalar = scalar ? graph_map2(product->rewrite->to, OP_MUL, scalar, operand) : operand;
            continue;
        }
        for (uint32_t p = 0; p < product->parts.count && i < 64; p++)
            parts[p] |= (product->parts.at[p].args >> i & 1) << kept;
        product->operands.at[kept++] = operand;
    }
    product->operands.count = kept;
    for (uint32_t p = 0; p < product->parts.count; p++)
        product->parts.at[p].args = parts[p];
    if (scalar)
        product_push(product, scalar);
}

// An equal einsum that was there before may have its arguments in another order.
static void einsum_set_parts(const Product *product, Value *einsum) {
    for (uint32_t i = 0; i < einsum->n_args; i++)
        if (einsum->op != OP_CONTRACT || einsum->args[i] != product->operands.at[i])
            return;
    einsum->n_parts = product->parts.count;
    einsum->parts = arena_copy(product->rewrite->to->arena, product->parts.at,
                               product->parts.count * sizeof *product->parts.at);
}

static Value *product_finish(Product *product, const DimList *dims) {
    Graph *graph = product->rewrite->to;
    product_join_scalars(product);
    if (product->operands.count == 0)
        return graph_const(graph, product->factor, product->elem);
    if (product->operands.count > 1) {
        Value *einsum = graph_einsum(graph, product->factor, product->operands.at,
                                     product->operands.count, *dims);
        einsum_set_parts(product, einsum);
        return einsum;
    }
    Value *one = graph_reduce(graph, OP_SUM, product->operands.at[0], *dims);
    if (product->factor == 1)
        return one;
    return graph_map2(graph, OP_MUL, one, graph_const(graph, product->factor, product->elem));
}

// ---- rules -------------------------------------------------------------------------------------

static Value *flatten_einsum(Rewrite *rewrite, const Value *value) {
    Product product = product_new(rewrite, value);
    product_enter(&product, value);
    return product_finish(&product, &value->dims);
}

// sum(A * B) over a dim is a contraction.
static Value *flatten_sum(Rewrite *rewrite, const Value *value) {
    const Value *arg = value->args[0];
    if (rewrite->uses[arg->id] != 1 || !is_product(rewrite, arg) || sum_is_reduction(value))
        return NULL;
    Product product = product_new(rewrite, value);
    product_enter(&product, value);
    return product.operands.count > 1 ? product_finish(&product, &value->dims) : NULL;
}

static bool is_inner_einsum(const Rewrite *rewrite, const Value *value) {
    return value->op == OP_CONTRACT && rewrite->uses[value->id] == 1;
}

// A factor around an einsum joins it when it is smaller than the einsum's result.
static Value *flatten_scale(Rewrite *rewrite, const Value *value) {
    const Value *a = value->args[0], *b = value->op == OP_NEG ? NULL : value->args[1];
    bool joins = is_inner_einsum(rewrite, a) && dims_equal(&a->dims, &value->dims) &&
                 (!b || is_scalar(b) || (value->op == OP_MUL && b->dims.count < a->dims.count));
    if (!joins && value->op == OP_MUL)
        joins = is_inner_einsum(rewrite, b) && dims_equal(&b->dims, &value->dims) &&
                a->dims.count < b->dims.count;
    if (!joins || !elem_is_float(value->elem))
        return NULL;
    Product product = product_new(rewrite, value);
    product_enter(&product, value);
    return product_finish(&product, &value->dims);
}

// No new name is one that the arguments have already and keep.
static bool rename_passes(const Value *inner, const DimMap *names) {
    OpKind kind = op_kind(inner->op);
    if (kind != KIND_MAP && kind != KIND_REDUCE && kind != KIND_ROW)
        return false;
    DimList space;
    value_args_dims(inner, &space);
    for (uint32_t i = 0; i < names->count; i++)
        if (dims_has(&space, names->to[i]) && dimmap_get(names, names->to[i]) == names->to[i])
            return false;
    return true;
}

static Value *flatten_rename(Rewrite *rewrite, const Value *value) {
    const Value *inner = value->args[0];
    if (rewrite->uses[inner->id] != 1)
        return NULL;
    if (inner->op == OP_CONTRACT) {
        Product product = product_new(rewrite, value);
        product_enter(&product, value);
        return product_finish(&product, &value->dims);
    }
    if (!rename_passes(inner, value->renames))
        return NULL;
    Value **args = arena_array(rewrite->arena, Value *, inner->n_args);
    for (uint32_t i = 0; i < inner->n_args; i++)
        args[i] = graph_rename_all(rewrite->to, rewrite->now[inner->args[i]->id], value->renames);
    Value like = *inner;
    like.dim = dimmap_get(value->renames, like.dim);
    like.dims = value->dims;
    return graph_rebuild(rewrite->to, &like, args);
}

Value *simplify_flatten(Rewrite *rewrite, const Value *value, Value **args) {
    Value *out = simplify_move(rewrite, value);
    if (out)
        return out;
    switch (value->op) {
    case OP_CONTRACT:
        out = flatten_einsum(rewrite, value);
        break;
    case OP_SUM:
        out = flatten_sum(rewrite, value);
        break;
    case OP_MUL:
    case OP_DIV:
    case OP_NEG:
        out = flatten_scale(rewrite, value);
        break;
    case OP_RENAME:
        out = flatten_rename(rewrite, value);
        break;
    default:
        break;
    }
    return out ? out : rewrite_rebuild(rewrite, value, args);
}
