// SPDX-License-Identifier: Apache-2.0
// What moves elements: every position of the result is one of an argument, or the sum of some.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/oracle/eval.h"

// The same positions, under other names.
static Axes axes_renamed(Axes axes, const DimMap *names) {
    for (uint32_t i = 0; i < axes.count; i++)
        axes.at[i] = dimmap_get(names, axes.at[i]);
    return axes;
}

// ---- moves --------------------------------------------------------------------------------------

static void copy_inner(void *context, int64_t n, const int64_t *at, const int64_t *step) {
    const EvalJob *job = context;
    for (int64_t i = 0; i < n; i++)
        job->out[at[0] + i * step[0]] = job->args[0][at[1] + i * step[1]];
}

void eval_copy(const Walk *walk, double *out, const double *in) {
    EvalJob job = {.out = out, .args = {in}};
    walk_run(walk, copy_inner, &job);
}

static void gather_inner(void *context, int64_t n, const int64_t *at, const int64_t *step) {
    const EvalJob *job = context;
    double outside = elem_is_float(job->value->elem) ? NAN : 0;
    for (int64_t i = 0; i < n; i++) {
        double id = job->args[1][at[2] + i * step[2]];
        bool inside = id >= 0 && id < (double)job->length;
        int64_t from = at[1] + i * step[1] + (inside ? (int64_t)id * job->in_stride : 0);
        job->out[at[0] + i * step[0]] = inside ? job->args[0][from] : outside;
    }
}

static void move_gather(EvalJob *job) {
    const Value *value = job->value;
    const int64_t *extents = job->eval->extents;
    Axes out = axes_of(&value->dims), table = axes_of_arg(value, 0), ids = axes_of_arg(value, 1);
    job->length = extents[value->dim];
    job->in_stride = axes_stride(&table, extents, value->dim);
    Walk walk = walk_over(&out, (const Axes *[]){&out, &table, &ids}, 3, extents);
    // ids may have the dim that it indexes: there the table's place comes from the id alone.
    for (uint32_t i = 0; i < walk.rank; i++)
        if (out.at[i] == value->dim)
            walk.strides[i][1] = 0;
    walk_run(&walk, gather_inner, job);
}

// One element after the other, in the order of the positions.
static void scatter_inner(void *context, int64_t n, const int64_t *at, const int64_t *step) {
    const EvalJob *job = context;
    for (int64_t i = 0; i < n; i++) {
        double id = job->args[1][at[2] + i * step[2]];
        if (!(id >= 0 && id < (double)job->length))
            continue;
        double *out = &job->out[at[0] + i * step[0] + (int64_t)id * job->out_stride];
        *out = eval_job_round(job, *out + job->args[0][at[1] + i * step[1]]);
    }
}

static void move_scatter(EvalJob *job) {
    const Value *value = job->value;
    const int64_t *extents = job->eval->extents;
    DimList all = dims_union(&value->args[0]->dims, &value->args[1]->dims);
    Axes out = axes_of(&value->dims), a = axes_of_arg(value, 0), ids = axes_of_arg(value, 1),
         over = axes_of(&all);
    job->length = extents[value->dim];
    job->out_stride = axes_stride(&out, extents, value->dim);
    Walk walk = walk_over(&over, (const Axes *[]){&out, &a, &ids}, 3, extents);
    walk_run(&walk, scatter_inner, job);
}

// Copies in[begin + i] to out[i + at] along one dim of each for count positions, for all other
// dims.
typedef struct {
    DimId out_dim, in_dim;
    int64_t out_begin, in_begin, count;
} Piece;

static void copy_piece(EvalJob *job, const double *array, Axes in, Piece piece) {
    const int64_t *extents = job->eval->extents;
    if (piece.count <= 0)
        return;
    Axes out = axes_of(&job->value->dims);
    Axes over = axes_without(out, piece.out_dim);
    Walk walk = walk_over(&over, (const Axes *[]){&out, &in}, 2, extents);
    uint32_t last = walk.rank++;
    walk.extents[last] = piece.count;
    walk.strides[last][0] = axes_stride(&out, extents, piece.out_dim);
    walk.strides[last][1] = axes_stride(&in, extents, piece.in_dim);
    EvalJob part = *job;
    part.out += piece.out_begin * walk.strides[last][0];
    part.args[0] = array + piece.in_begin * walk.strides[last][1];
    walk_run(&walk, copy_inner, &part);
}

static int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void move_take(EvalJob *job) {
    const Value *value = job->value;
    const int64_t *extents = job->eval->extents;
    Axes out = axes_of(&value->dims), in = axes_of_arg(value, 0);
    double none = elem_is_float(value->elem) ? NAN : 0;
    bool inside = value->offset < extents[value->dim];
    Walk walk = walk_over(&out, (const Axes *[]){&out, &in}, 2, extents);
    EvalJob taken = *job;
    taken.args[0] =
        inside ? job->args[0] + value->offset * axes_stride(&in, extents, value->dim) : &none;
    for (uint32_t i = 0; i < walk.rank && !inside; i++)
        walk.strides[i][1] = 0;
    walk_run(&walk, copy_inner, &taken);
}

// The axis of a digit steps over all positions of those behind it.
static void move_regroup(EvalJob *job) {
    const Value *value = job->value;
    const int64_t *extents = job->eval->extents;
    bool splits = value->op == OP_SPLIT;
    Axes out = axes_of(&value->dims), in = axes_of_arg(value, 0);
    const Axes *apart = splits ? &out : &in, *whole = splits ? &in : &out;
    Walk walk = walk_over(apart, (const Axes *[]){&out, &in}, 2, extents);
    int64_t stride = axes_stride(whole, extents, value->dim);
    for (uint32_t k = value->digits->count; k-- > 0;) {
        for (uint32_t i = 0; i < walk.rank; i++)
            if (apart->at[i] == value->digits->at[k])
                walk.strides[i][splits ? 1 : 0] = stride;
        stride *= extents[value->digits->at[k]];
    }
    walk_run(&walk, copy_inner, job);
}

static void move_whole(EvalJob *job) {
    const Value *value = job->value;
    const int64_t *extents = job->eval->extents;
    Axes in = axes_of_arg(value, 0);
    if (value->op == OP_RENAME) {
        Axes out = axes_of(&value->dims), read = axes_renamed(in, value->renames);
        Walk walk = walk_over(&out, (const Axes *[]){&out, &read}, 2, extents);
        walk_run(&walk, copy_inner, job);
    } else if (value->op == OP_SLICE) {
        int64_t n = min_i64(extents[value->dim2], extents[value->dim] - value->offset);
        Piece piece = {value->dim2, value->dim, 0, value->offset, n};
        copy_piece(job, job->args[0], in, piece);
    } else { // SHIFT: out[i] = in[i - offset]
        int64_t by = value->offset, n = extents[value->dim];
        Piece piece = {value->dim, value->dim, by > 0 ? by : 0, by > 0 ? 0 : -by, n - llabs(by)};
        copy_piece(job, job->args[0], in, piece);
    }
}

static void move_concat(EvalJob *job) {
    const Value *value = job->value;
    const int64_t *extents = job->eval->extents;
    int64_t begin = 0, room = extents[value->dim2];
    for (uint32_t k = 0; k < value->n_args; k++) {
        int64_t n = min_i64(extents[value->cats[k]], room - begin);
        Piece piece = {value->dim2, value->cats[k], begin, 0, n};
        copy_piece(job, job->arrays[k], axes_of_arg(value, k), piece);
        begin += n;
    }
}

// ---- order --------------------------------------------------------------------------------------

// Does x come before y, the earlier of the two, although it is later? NaN is larger than all.
static bool comes_before(const Value *value, double x, double y) {
    if (value->offset) // the largest first
        return isnan(x) ? !isnan(y) : x > y;
    return isnan(y) ? !isnan(x) : x < y;
}

// The next of the order is the first of the best that are left.
static void order_inner(void *context, int64_t n, const int64_t *at, const int64_t *step) {
    const EvalJob *job = context;
    int64_t all = job->length, kept = job->eval->extents[job->value->dim2];
    bool *taken = malloc((size_t)all + 1);
    if (!taken)
        no_memory("the oracle", (size_t)all + 1);
    for (int64_t i = 0; i < n; i++) {
        double *out = &job->out[at[0] + i * step[0]];
        const double *in = &job->args[0][at[1] + i * step[1]];
        memset(taken, 0, (size_t)all);
        for (int64_t k = 0; k < kept && k < all; k++) {
            int64_t best = -1;
            for (int64_t j = 0; j < all; j++)
                if (!taken[j] && (best < 0 || comes_before(job->value, in[j * job->in_stride],
                                                           in[best * job->in_stride])))
                    best = j;
            taken[best] = true;
            out[k * job->out_stride] = (double)best;
        }
    }
    free(taken);
}

static void move_order(EvalJob *job) {
    const Value *value = job->value;
    const int64_t *extents = job->eval->extents;
    Axes out = axes_of(&value->dims), in = axes_of_arg(value, 0);
    Axes over = axes_without(out, value->dim2);
    job->length = extents[value->dim];
    job->out_stride = axes_stride(&out, extents, value->dim2);
    job->in_stride = axes_stride(&in, extents, value->dim);
    Walk walk = walk_over(&over, (const Axes *[]){&out, &in}, 2, extents);
    walk_run(&walk, order_inner, job);
}

// ---- all of them --------------------------------------------------------------------------------

void eval_move(EvalJob *job) {
    const Value *value = job->value;
    if (value->op == OP_GATHER)
        move_gather(job);
    else if (value->op == OP_SCATTER_ADD)
        move_scatter(job);
    else if (value->op == OP_CONCAT)
        move_concat(job);
    else if (value->op == OP_TAKE)
        move_take(job);
    else if (value->op == OP_ORDER)
        move_order(job);
    else if (value->op == OP_SPLIT || value->op == OP_MERGE)
        move_regroup(job);
    else
        move_whole(job);
}
