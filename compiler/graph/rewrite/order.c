// SPDX-License-Identifier: Apache-2.0
// The cheapest order of contraction of one n-ary einsum, by dynamic programming over subsets.
//
// best(S) = min over S = A + B of best(A) + best(B) + step(A, B), where a partial result keeps the
// dims that the einsum's result or an operand outside S still needs; all others are summed at once.
// Up to ORDER_EXACT_MAX operands this visits all 3^n/2 trees, outer products included, and is
// exact. Above, the pair with the cheapest step is joined (greedily, first pair on ties) until
// ORDER_EXACT_MAX parts are left, and these are ordered exactly.
//
// A step costs flops / rate + bytes / bandwidth of the level that holds its operands and result. A
// pointwise product with a value that a step has just made costs its flops and the reading of the
// smaller operand only, because fusion makes it an epilogue; with an operand it is a sweep of its
// own. A partial result above OVERSIZE bytes that is also above twice the largest
// operand or result is allowed only when no order avoids it. Costs within one part in 10^9 are
// equal; then fewer multiplies win, then the split found first, so that the order does not depend
// on rounding.
//
// Source: the dynamic program is opt_einsum's "optimal" (Smith and Gray, 2018) without its pruning,
// with time instead of flops.
#include "graph/rewrite/order.h"

#include <math.h>
#include <string.h>

static const double ELEM_SIZE = 4; // of f32, the usual element
static const double OVERSIZE = 1024.0 * 1024 * 1024;
static const double OVERSIZE_FACTOR = 1000;
static const double TOO_WIDE = 1e30; // of a step over more dims than a value may have: never taken
static const double POINTWISE_SHARE = 0.5; // of the multiply-add rate: one flop, not two

typedef struct {
    double seconds, multiplies;
} Cost;

typedef struct {
    DimBits dims;
    uint8_t node;
    bool is_step; // made by a step, not an operand
} Part;

typedef struct {
    DimTable dims; // of the einsum
    double extents[DIM_BITS];
    DimBits result;
    double largest_bytes; // of operands and result
    const Machine *machine;
    Part parts[ORDER_MAX];
    uint32_t n_parts;
    Order *order;
} OrderProblem;

typedef struct {
    DimBits *dims; // by subset
    Cost *best;
    uint16_t *split; // one side of the best split
} OrderTable;

const DimList *order_dims(const Order *order, uint32_t node) {
    return node < order->n_leaves ? &order->leaf_dims[node]
                                  : &order->steps[node - order->n_leaves].dims;
}

static DimBits order_bits(OrderProblem *problem, const DimList *dims, const int64_t *extents) {
    DimBits bits;
    uint32_t known = problem->dims.count;
    if (!dims_bits(&problem->dims, dims, &bits))
        ice("contract: an einsum over more than %d dims", DIM_BITS);
    for (uint32_t k = known; k < problem->dims.count; k++)
        problem->extents[k] = (double)extents[problem->dims.at[k]];
    return bits;
}

static double order_volume(const OrderProblem *problem, DimBits dims) {
    double volume = 1;
    for (; dims; dims &= dims - 1)
        volume *= problem->extents[__builtin_ctzll(dims)];
    return volume;
}

static Cost step_cost(const OrderProblem *problem, const Part *a, const Part *b, DimBits out) {
    DimBits space = a->dims | b->dims;
    bool contracts = space != out;
    double volume = order_volume(problem, space);
    double read_a = ELEM_SIZE * order_volume(problem, a->dims);
    double read_b = ELEM_SIZE * order_volume(problem, b->dims);
    double written = ELEM_SIZE * order_volume(problem, out);
    double bytes = read_a + read_b + written, sweep = problem->machine->launch_seconds;
    if (!contracts && ((a->is_step && a->dims == space) || (b->is_step && b->dims == space))) {
        bytes = fmin(read_a, read_b);
        sweep = 0;
    }
    double flops = contracts ? 2 * volume : volume / POINTWISE_SHARE;
    double seconds = machine_seconds(problem->machine, flops, bytes) + sweep;
    if (__builtin_popcountll(space) > DIMS_MAX)
        seconds += TOO_WIDE;
    if (written > OVERSIZE && written > 2 * problem->largest_bytes)
        seconds *= OVERSIZE_FACTOR;
    return (Cost){seconds, contracts ? volume : 0};
}

static bool cost_less(Cost a, Cost b) {
    double tolerance = 1e-9 * fmin(a.seconds, b.seconds);
    if (fabs(a.seconds - b.seconds) > tolerance || isinf(b.seconds))
        return a.seconds < b.seconds;
    return a.multiplies < b.multiplies;
}

static Cost cost_sum(Cost a, Cost b) {
    return (Cost){a.seconds + b.seconds, a.multiplies + b.multiplies};
}

static uint8_t order_add_step(OrderProblem *problem, const Part *a, const Part *b, DimBits out,
                              Cost cost) {
    Order *order = problem->order;
    OrderStep *step = &order->steps[order->n_steps++];
    step->left = a->node;
    step->right = b->node;
    step->contracts = (a->dims | b->dims) != out;
    for (DimBits bits = out; bits; bits &= bits - 1)
        dims_add(&step->dims, problem->dims.at[__builtin_ctzll(bits)]);
    order->seconds += cost.seconds;
    order->multiplies += cost.multiplies;
    return (uint8_t)(order->n_leaves + order->n_steps - 1);
}

// ---- joining pairs until the rest can be ordered exactly ---------------------------------------

static DimBits kept_dims(const OrderProblem *problem, uint32_t i, uint32_t j) {
    DimBits needed = problem->result;
    for (uint32_t k = 0; k < problem->n_parts; k++)
        if (k != i && k != j)
            needed |= problem->parts[k].dims;
    return (problem->parts[i].dims | problem->parts[j].dims) & needed;
}

static void join_cheapest_pair(OrderProblem *problem) {
    uint32_t best_i = 0, best_j = 1;
    Cost best = {INFINITY, INFINITY};
    for (uint32_t i = 0; i < problem->n_parts; i++)
        for (uint32_t j = i + 1; j < problem->n_parts; j++) {
            Cost cost = step_cost(problem, &problem->parts[i], &problem->parts[j],
                                  kept_dims(problem, i, j));
            if (cost_less(cost, best)) {
                best = cost;
                best_i = i;
                best_j = j;
            }
        }
    DimBits out = kept_dims(problem, best_i, best_j);
    Part *a = &problem->parts[best_i], *b = &problem->parts[best_j];
    *a = (Part){out, order_add_step(problem, a, b, out, best), true};
    memmove(b, b + 1, (problem->n_parts - best_j - 1) * sizeof *b);
    problem->n_parts--;
}

// ---- exact order of at most ORDER_EXACT_MAX parts ----------------------------------------------

static Part table_part(const OrderProblem *problem, const OrderTable *table, uint32_t subset) {
    bool one = (subset & (subset - 1)) == 0;
    return one ? problem->parts[__builtin_ctz(subset)] : (Part){table->dims[subset], 0, true};
}

static void table_fill_dims(const OrderProblem *problem, OrderTable *table) {
    uint32_t all = (1u << problem->n_parts) - 1;
    for (uint32_t subset = 1; subset <= all; subset++) {
        DimBits inside = 0, needed = problem->result;
        for (uint32_t i = 0; i < problem->n_parts; i++)
            *(subset >> i & 1 ? &inside : &needed) |= problem->parts[i].dims;
        table->dims[subset] = inside & needed;
    }
}

// Of the two sides of a split, the one with the subset's lowest part is enumerated: each pair once.
static void table_fill_subset(const OrderProblem *problem, OrderTable *table, uint32_t subset) {
    uint32_t lowest = subset & -subset;
    table->best[subset] = (Cost){INFINITY, INFINITY};
    for (uint32_t side = (subset - 1) & subset; side; side = (side - 1) & subset) {
        if (!(side & lowest))
            continue;
        uint32_t other = subset ^ side;
        Part a = table_part(problem, table, side), b = table_part(problem, table, other);
        Cost cost = cost_sum(table->best[side], table->best[other]);
        if (cost.seconds > table->best[subset].seconds * (1 + 1e-9))
            continue;
        cost = cost_sum(cost, step_cost(problem, &a, &b, table->dims[subset]));
        if (cost_less(cost, table->best[subset])) {
            table->best[subset] = cost;
            table->split[subset] = (uint16_t)side;
        }
    }
}

static Part table_emit(OrderProblem *problem, const OrderTable *table, uint32_t subset) {
    if ((subset & (subset - 1)) == 0)
        return problem->parts[__builtin_ctz(subset)];
    uint32_t side = table->split[subset];
    Part a = table_emit(problem, table, side);
    Part b = table_emit(problem, table, subset ^ side);
    DimBits out = table->dims[subset];
    Cost cost = step_cost(problem, &a, &b, out);
    return (Part){out, order_add_step(problem, &a, &b, out, cost), true};
}

static void order_exactly(OrderProblem *problem) {
    Arena *arena = arena_new();
    uint32_t size = 1u << problem->n_parts;
    OrderTable table = {arena_array(arena, DimBits, size), arena_array(arena, Cost, size),
                        arena_array(arena, uint16_t, size)};
    table_fill_dims(problem, &table);
    for (uint32_t subset = 1; subset < size; subset++)
        if (subset & (subset - 1))
            table_fill_subset(problem, &table, subset);
    table_emit(problem, &table, size - 1);
    arena_free(arena);
}

// Dims of one operand alone that the result lacks are summed before anything else.
static void order_take_operands(OrderProblem *problem, const DimList *operands, uint32_t n) {
    Order *order = problem->order;
    for (uint32_t i = 0; i < n; i++) {
        DimBits needed = problem->result;
        for (uint32_t k = 0; k < n; k++)
            if (k != i)
                needed |= problem->parts[k].dims;
        DimBits all = problem->parts[i].dims;
        for (uint32_t d = 0; d < operands[i].count; d++)
            for (uint32_t k = 0; k < problem->dims.count; k++)
                if (problem->dims.at[k] == operands[i].at[d] && (needed >> k & 1))
                    dims_add(&order->leaf_dims[i], operands[i].at[d]);
        problem->largest_bytes =
            fmax(problem->largest_bytes, ELEM_SIZE * order_volume(problem, all));
    }
    for (uint32_t i = 0; i < n; i++)
        (void)dims_bits(&problem->dims, &order->leaf_dims[i], &problem->parts[i].dims);
}

Order *order_find(Arena *arena, const DimList *operands, uint32_t n, const DimList *result,
                  const int64_t *extents, const Machine *machine) {
    if (n == 0 || n > ORDER_MAX)
        ice("contract: an einsum of %u operands", n);
    OrderProblem problem = {.machine = machine, .n_parts = n, .order = arena_new_of(arena, Order)};
    problem.order->n_leaves = n;
    problem.result = order_bits(&problem, result, extents);
    problem.largest_bytes = ELEM_SIZE * order_volume(&problem, problem.result);
    for (uint32_t i = 0; i < n; i++)
        problem.parts[i] = (Part){order_bits(&problem, &operands[i], extents), (uint8_t)i, false};
    order_take_operands(&problem, operands, n);
    while (problem.n_parts > ORDER_EXACT_MAX)
        join_cheapest_pair(&problem);
    if (problem.n_parts > 1)
        order_exactly(&problem);
    return problem.order;
}
