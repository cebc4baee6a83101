// SPDX-License-Identifier: Apache-2.0
// What a kernel multiplies, and how much of that its ranges leave:
//
//     range m < end(n)  align 32
//       contract S += Q * K          of 512 x 512 positions 513 / 1024
//
// Each position of the dims that a bound depends on is taken by itself: this is what a mask leaves,
// whatever the pieces are that tasks work off and what their ends are rounded to. What a bound
// loads (lengths, numbers of documents) is not known here and leaves all.
#include "tile/tile.h"

// A range around a stage.
typedef struct Around {
    const struct Around *outer;
    TileDimId dim, part; // part: whose positions number the parts of dim, or TILE_DIM_NONE
    double left;         // of the positions of dim
} Around;

// ---- what a range leaves ------------------------------------------------------------------------

// Adds the dims whose positions decide; false: they do not decide alone.
static bool find_deciding(const Node *range, int32_t at, TileDimList *dims) {
    if (at < 0)
        return true;
    const Bound *bound = &range->bounds.at[at];
    if (bound->kind == BOUND_LOAD || bound->kind == BOUND_PART)
        return false;
    if (bound_of_two(bound) || bound->kind == BOUND_ROUND)
        return find_deciding(range, bound->args[0], dims) &&
               (!bound_of_two(bound) || find_deciding(range, bound->args[1], dims));
    if ((bound->kind != BOUND_LO && bound->kind != BOUND_HI) || bound->dim == range->dim)
        return true;
    for (int i = 0; i < dims->count; i++)
        if (dims->at[i] == bound->dim)
            return true;
    if (dims->count == TILE_RANK_MAX)
        return false;
    dims->at[dims->count++] = bound->dim;
    return true;
}

// Not rounded. position: of each dim that decides; extents.
static double bound_at(const Node *range, int32_t at, const TileDimList *dims,
                       const int64_t *position, const int64_t *extents) {
    const Bound *bound = &range->bounds.at[at];
    double number = (double)bound->number;
    int i = 0;
    switch (bound->kind) {
    case BOUND_LO:
    case BOUND_HI:
        while (i < dims->count && dims->at[i] != bound->dim)
            i++;
        if (i == dims->count) // the range's own dim
            return number + (bound->kind == BOUND_HI ? (double)extents[bound->dim] : 0);
        return number + (double)position[i] + (bound->kind == BOUND_HI);
    case BOUND_EXTENT:
        return number + (double)extents[bound->dim];
    case BOUND_ROUND:
        return bound_at(range, bound->args[0], dims, position, extents);
    case BOUND_MIN:
    case BOUND_MAX:
    case BOUND_ADD: {
        double a = bound_at(range, bound->args[0], dims, position, extents);
        double b = bound_at(range, bound->args[1], dims, position, extents);
        return bound->kind == BOUND_ADD ? a + b : (bound->kind == BOUND_MIN) == (a < b) ? a : b;
    }
    default:
        return number;
    }
}

static double positions_left(const Node *range, const TileDimList *dims, const int64_t *position,
                             const int64_t *extents) {
    double from = 0, to = (double)extents[range->dim];
    if (range->lo >= 0) {
        double lo = bound_at(range, range->lo, dims, position, extents);
        from = lo > from ? lo : from;
    }
    if (range->hi >= 0) {
        double hi = bound_at(range, range->hi, dims, position, extents);
        to = hi < to ? hi : to;
    }
    return to > from ? to - from : 0;
}

// The mean over all positions that decide; of dims that together have too many, over some of them
// at equal distances.
static double part_left(const Node *range, const int64_t *extents) {
    static const int64_t most[] = {1, 1 << 20, 1 << 10, 1 << 6};
    enum { DECIDING_MAX = sizeof most / sizeof *most - 1 };
    TileDimList dims = {0};
    if (!find_deciding(range, range->lo, &dims) || !find_deciding(range, range->hi, &dims) ||
        dims.count > DECIDING_MAX || extents[range->dim] <= 0)
        return 1;
    int64_t step[DECIDING_MAX], position[DECIDING_MAX], count = 1;
    for (int i = 0; i < dims.count; i++) {
        step[i] = ceil_div(extents[dims.at[i]], most[dims.count]);
        count *= step[i] ? ceil_div(extents[dims.at[i]], step[i]) : 0;
    }
    double sum = 0;
    for (int64_t n = 0; n < count; n++) {
        int64_t left = n;
        for (int i = 0; i < dims.count; i++) {
            int64_t turns = ceil_div(extents[dims.at[i]], step[i]);
            position[i] = left % turns * step[i] + (step[i] - 1) / 2;
            left /= turns;
        }
        sum += positions_left(range, &dims, position, extents);
    }
    return count ? sum / (double)count / (double)extents[range->dim] : 1;
}

// ---- stages -------------------------------------------------------------------------------------

// Sums of products over a dim of the box, one multiply a point each.
static int stage_sums(const Stage *stage) {
    int sums = stage->kind == STAGE_CONTRACT;
    for (uint32_t i = 0; i < stage->sinks.count; i++) {
        const Sink *sink = &stage->sinks.at[i];
        const Term *term = &stage->terms.at[sink->term];
        sums += sink->mode == SINK_SUM && sink->to.rank < stage->n_dims && term->kind == TERM_OP &&
                term->op == OP_MUL;
    }
    return sums;
}

static bool is_part(const Around *around, TileDimId dim) {
    while (around && around->part != dim)
        around = around->outer;
    return around != NULL;
}

// Loops over a dim cover it once, however it is cut, and all parts of one do together.
static double stage_multiplies(const Stage *stage, const Around *around, const int64_t *extents) {
    double points = stage_sums(stage);
    for (int i = 0; i < stage->n_dims; i++)
        if (!is_part(around, stage->dims[i]))
            points *= (double)extents[stage->dims[i]];
    for (; around; around = around->outer)
        if (stage_has_dim(stage, around->dim))
            points *= around->left;
    return points;
}

static double nodes_multiplies(const NodeList *body, const Around *around, const int64_t *extents,
                               bool leaves) {
    double sum = 0;
    for (uint32_t i = 0; i < body->count; i++) {
        const Node *node = body->at[i];
        if (node->kind == NODE_STAGE) {
            sum += stage_multiplies(node->stage, around, extents);
            continue;
        }
        Around range = {around, node->dim, TILE_DIM_NONE, 1};
        if (node->kind == NODE_RANGE && node->lo >= 0 &&
            node->bounds.at[node->lo].kind == BOUND_PART)
            range.part = node->bounds.at[node->lo].dim;
        if (node->kind == NODE_RANGE && leaves)
            range.left = part_left(node, extents);
        sum += nodes_multiplies(&node->body, node->kind == NODE_RANGE ? &range : around, extents,
                                leaves);
    }
    return sum;
}

double kernel_multiplies(const Kernel *kernel, const int64_t *extents) {
    bool cuts = kernel->schedule.kind == SCHEDULE_CONTRACT; // its ranges are parts of a sum
    return nodes_multiplies(&kernel->body, NULL, extents, cuts);
}

// The ranges of a contraction kernel cut its sums and leave nothing out.
double kernel_seen(const Kernel *kernel, const int64_t *extents) {
    if (kernel->schedule.kind == SCHEDULE_CONTRACT)
        return 1;
    double all = kernel_multiplies(kernel, extents);
    return all > 0 ? nodes_multiplies(&kernel->body, NULL, extents, true) / all : 1;
}
