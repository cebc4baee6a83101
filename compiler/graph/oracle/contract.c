// SPDX-License-Identifier: Apache-2.0
// The oracle's einsum.
//
// The naive rule: operands are worked off pairwise, from left to right. The running product meets
// the first operand left that shares a dim with it (the next one when none does), and a dim is
// summed as soon as neither an operand left nor the result has it. Elements are added up one by
// one.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/oracle/eval.h"

typedef struct {
    const double *a, *b; // b NULL: a plain sum
    double *out;
    Elem elem;
    EvalMode mode;
} PairProduct;

// ---- inner loops --------------------------------------------------------------------------------

static void inner_exact(void *context, int64_t n, const int64_t *at, const int64_t *step) {
    const PairProduct *p = context;
    double *out = p->out + at[0];
    const double *a = p->a + at[1], *b = p->b + at[2];
    if (step[0] == 0) {
        double sum = *out;
        for (int64_t i = 0; i < n; i++)
            sum += a[i * step[1]] * b[i * step[2]];
        *out = sum;
    } else if (step[0] == 1 && step[1] == 0 && step[2] == 1) {
        for (int64_t i = 0; i < n; i++)
            out[i] += *a * b[i];
    } else {
        for (int64_t i = 0; i < n; i++)
            out[i * step[0]] += a[i * step[1]] * b[i * step[2]];
    }
}

static void inner_f32(void *context, int64_t n, const int64_t *at, const int64_t *step) {
    const PairProduct *p = context;
    double *out = p->out + at[0];
    const double *a = p->a + at[1], *b = p->b + at[2];
    if (step[0] == 0) {
        float sum = (float)*out;
        for (int64_t i = 0; i < n; i++) {
            float product = (float)(a[i * step[1]] * b[i * step[2]]);
            sum += product;
        }
        *out = sum;
    } else {
        for (int64_t i = 0; i < n; i++) {
            float product = (float)(a[i * step[1]] * b[i * step[2]]);
            out[i * step[0]] = (float)out[i * step[0]] + product;
        }
    }
}

static void inner_rounded(void *context, int64_t n, const int64_t *at, const int64_t *step) {
    const PairProduct *p = context;
    for (int64_t i = 0; i < n; i++) {
        double term = p->a[at[1] + i * step[1]];
        if (p->b) {
            double factors[] = {term, p->b[at[2] + i * step[2]]};
            term = eval_round(p->elem, p->mode, eval_scalar(OP_MUL, p->elem, p->elem, factors));
        }
        double *out = &p->out[at[0] + i * step[0]];
        *out = eval_round(p->elem, p->mode, *out + term);
    }
}

static WalkInner *inner_for(const PairProduct *product) {
    if (!product->b || !elem_is_float(product->elem))
        return inner_rounded;
    if (product->mode == EVAL_F64 || product->elem == ELEM_F64)
        return inner_exact;
    return product->elem == ELEM_F32 ? inner_f32 : inner_rounded;
}

// ---- loop order: any order gives the naive sum; this only keeps the oracle from crawling --------

static void walk_drop(Walk *walk, uint32_t i) {
    walk->rank--;
    memmove(&walk->extents[i], &walk->extents[i + 1], (walk->rank - i) * sizeof *walk->extents);
    memmove(&walk->strides[i], &walk->strides[i + 1], (walk->rank - i) * sizeof *walk->strides);
}

static bool walk_can_join(const Walk *walk, uint32_t i) {
    for (uint32_t k = 0; k < walk->n_operands; k++)
        if (walk->strides[i][k] != walk->strides[i + 1][k] * walk->extents[i + 1])
            return false;
    return true;
}

static void walk_join_neighbours(Walk *walk) {
    for (uint32_t i = walk->rank; i-- > 0;) {
        if (i + 1 >= walk->rank || !walk_can_join(walk, i))
            continue;
        walk->extents[i + 1] *= walk->extents[i];
        walk_drop(walk, i);
    }
}

static void walk_choose_innermost(Walk *walk) {
    uint32_t best = 0;
    double best_cost = INFINITY;
    for (uint32_t i = 0; i < walk->rank; i++) {
        double cost = 10.0 / (double)walk->extents[i];
        for (uint32_t k = 0; k < walk->n_operands; k++)
            cost += 0.2 * fmin((double)walk->strides[i][k], 8);
        if (cost < best_cost) {
            best = i;
            best_cost = cost;
        }
    }
    if (walk->rank == 0)
        return;
    uint32_t last = walk->rank;
    walk->extents[last] = walk->extents[best];
    memcpy(walk->strides[last], walk->strides[best], sizeof walk->strides[last]);
    walk->rank++;
    walk_drop(walk, best);
}

// ---- one pair -----------------------------------------------------------------------------------

static void axes_add_missing(Axes *axes, const Axes *more) {
    for (uint32_t i = 0; i < more->count; i++)
        if (!axes_has(axes, more->at[i])) {
            if (axes->count == WALK_RANK - 1)
                ice("the oracle met an einsum of more than %d dims at once", WALK_RANK - 1);
            axes->at[axes->count++] = more->at[i];
        }
}

// out (zeros) += a * b, summed over the dims that out lacks; without b just the sum of a.
static void contract_pair(const Axes *out_axes, const Axes *a, const Axes *b,
                          const PairProduct *product, const int64_t *extents) {
    Axes over = *out_axes;
    axes_add_missing(&over, a);
    if (b)
        axes_add_missing(&over, b);
    const Axes *operands[] = {out_axes, a, b};
    Walk walk = walk_over(&over, operands, b ? 3 : 2, extents);
    for (uint32_t i = 0; i < walk.rank; i++)
        if (walk.extents[i] == 0)
            return;
    walk_join_neighbours(&walk);
    walk_choose_innermost(&walk);
    if (product->mode == EVAL_F32_BACKWARD)
        walk_sum_backward(&walk);
    PairProduct copy = *product;
    walk_run(&walk, inner_for(product), &copy);
}

// Part after part, each over its positions of the dim.
static void contract_parts(const Value *value, const PairProduct *product, const int64_t *extents) {
    DimId dim = value->dim;
    Axes axes[] = {axes_of(&value->dims), axes_of_arg(value, 0), axes_of_arg(value, 1)};
    Axes over = axes_without(axes[0], value->dim2);
    axes_add_missing(&over, &axes[1]);
    axes_add_missing(&over, &axes[2]);
    over = axes_without(over, dim);
    over.at[over.count++] = dim;
    int64_t count = extents[value->dim2], length = extents[dim];
    for (int64_t part = 0; part < count; part++) {
        int64_t from = part_begin(part, count, length), to = part_begin(part + 1, count, length);
        Walk walk = walk_over(&over, (const Axes *[]){&axes[0], &axes[1], &axes[2]}, 3, extents);
        walk.extents[walk.rank - 1] = to - from;
        PairProduct own = *product;
        own.out += part * axes_stride(&axes[0], extents, value->dim2);
        own.a += from * axes_stride(&axes[1], extents, dim);
        own.b += from * axes_stride(&axes[2], extents, dim);
        bool any = true;
        for (uint32_t i = 0; i < walk.rank; i++)
            any = any && walk.extents[i] > 0;
        if (any)
            walk_run(&walk, inner_for(product), &own);
    }
}

// ---- all operands -------------------------------------------------------------------------------

// Dims of extent 1 carry nothing; without them even a long einsum stays within WALK_RANK dims.
static Axes axes_that_matter(const DimList *dims, const int64_t *extents) {
    Axes axes = {0};
    for (uint32_t i = 0; i < dims->count; i++)
        if (extents[dims->at[i]] != 1)
            axes.at[axes.count++] = dims->at[i];
    return axes;
}

static bool axes_meet(const Axes *a, const Axes *b) {
    for (uint32_t i = 0; i < a->count; i++)
        if (axes_has(b, a->at[i]))
            return true;
    return false;
}

static uint32_t next_operand(const Axes *running, const Axes *operands, const bool *done,
                             uint32_t n) {
    uint32_t first = n;
    for (uint32_t i = 0; i < n; i++) {
        if (done[i])
            continue;
        if (axes_meet(running, &operands[i]))
            return i;
        if (first == n)
            first = i;
    }
    return first;
}

static bool needed_later(DimId dim, const Axes *result, const Axes *operands, const bool *done,
                         uint32_t n) {
    if (axes_has(result, dim))
        return true;
    for (uint32_t i = 0; i < n; i++)
        if (!done[i] && axes_has(&operands[i], dim))
            return true;
    return false;
}

static Axes axes_kept(const Axes *a, const Axes *b, const Axes *result, const Axes *operands,
                      const bool *done, uint32_t n) {
    Axes both = *a, kept = {0};
    axes_add_missing(&both, b);
    for (uint32_t i = 0; i < both.count; i++)
        if (needed_later(both.at[i], result, operands, done, n))
            kept.at[kept.count++] = both.at[i];
    return kept;
}

Pair *eval_pairs(const Value *value, const int64_t *extents) {
    uint32_t n = value->n_args;
    Axes result = axes_that_matter(&value->dims, extents);
    Axes *operands = calloc(n, sizeof *operands);
    bool *done = calloc(n, sizeof *done);
    Pair *pairs = calloc(n, sizeof *pairs);
    if (!operands || !done || !pairs)
        no_memory("the oracle", n * sizeof *pairs);
    for (uint32_t i = 0; i < n; i++)
        operands[i] = axes_that_matter(&value->args[i]->dims, extents);
    Axes running = operands[0];
    done[0] = true;
    for (uint32_t step = 1; step < n; step++) {
        uint32_t i = next_operand(&running, operands, done, n);
        done[i] = true;
        bool last = step + 1 == n;
        Axes kept = last ? result : axes_kept(&running, &operands[i], &result, operands, done, n);
        pairs[step - 1] = (Pair){i, running, operands[i], kept};
        running = kept;
    }
    if (n == 1)
        pairs[0] = (Pair){0, running, (Axes){0}, result};
    free(operands);
    free(done);
    return pairs;
}

static void contract_pairs(const Value *value, double *const *arrays, double *out,
                           const int64_t *extents, EvalMode mode) {
    uint32_t n = eval_n_pairs(value);
    Pair *pairs = eval_pairs(value, extents);
    const double *array = arrays[0];
    double *owned = NULL;
    for (uint32_t step = 0; step < n; step++) {
        const Pair *pair = &pairs[step];
        bool last = step + 1 == n, alone = value->n_args == 1;
        double *next = last ? out : eval_buffer(&pair->out, extents);
        PairProduct product = {array, alone ? NULL : arrays[pair->operand], next, value->elem,
                               mode};
        contract_pair(&pair->out, &pair->running, alone ? NULL : &pair->axes, &product, extents);
        free(owned);
        owned = last ? NULL : next;
        array = next;
    }
    free(pairs);
}

void eval_contract(const Value *value, double *const *arrays, double *out, const int64_t *extents,
                   EvalMode mode) {
    if (value_in_parts(value)) {
        PairProduct product = {arrays[0], arrays[1], out, value->elem, mode};
        contract_parts(value, &product, extents);
    } else {
        contract_pairs(value, arrays, out, extents, mode);
    }
    int64_t volume = dims_volume(&value->dims, extents);
    double factor = eval_round(value->elem, mode, value->number);
    for (int64_t i = 0; i < volume && factor != 1; i++)
        out[i] = eval_round(value->elem, mode, out[i] * factor);
}
