// SPDX-License-Identifier: Apache-2.0
// Operands of streamed contractions, made ready once instead of for every block of rows.
//
//     J[n, m, h] = 0.18 * einsum(Q[n, h, d], K[m, h, d])    # K and V are inputs
//     O[n, h, e] = einsum(W[n, m, h], V[m, e, h])
// ->
//     J[n, m, h] = einsum(0.18 * Q, copy(K))                # K' in panels along m,
//     O[n, h, e] = einsum(W, copy(V))                       # V' head by head, contiguous in e
//
// The operand that is streamed past gets a copy in the order that graph_layout then chooses, or
// in that of the task where each makes its own (see fuse.c), unless it is the result of a
// contraction, which is written in that order. The factor goes to the operand of the rows or to
// a copy of one that is no row, or to the result where that one is wide or has to keep its bits
// (see value_factor_moves). An operand of the rows whose summed dim is not contiguous, or whose
// rows are pages apart, is copied, too: by the task, for its own rows.
//
// Contraction stages have operands of the type of their sums: einsums of halves become einsums of
// their widened operands, rounded afterwards, which is what they mean.
//
// Requires: the streamed groups of the fuser's graph. Ensures: their contractions have factor 1 and
// no halves, and no contraction is in parts elsewhere.
#include "graph/fuse/fuse.h"
#include "graph/rewrite/rewrite.h"

enum { NEITHER = 2 }; // of the two operands of a contraction

typedef struct {
    const Fuser *fuser;
    Rewrite *rewrite;
    bool changed;
} Packer;

static const Cluster *stream_of(const Fuser *fuser, const Value *value) {
    uint32_t owner = fuser->owner[value->id];
    if (owner >= CLUSTER_INLINE || fuser->clusters.at[owner].kind != GROUP_STREAM)
        return NULL;
    return &fuser->clusters.at[owner];
}

static DimId streamed_dim(const Cluster *cluster) {
    return cluster->reduced.at[0];
}

static DimId last_dim(const Value *value) {
    return value->dims.count ? value->dims.at[value->dims.count - 1] : DIM_NONE;
}

// Which operand of the contraction gives the lanes: the one with the streamed dim if the result
// keeps it, the one without the rows if not.
static int lane_operand(const Cluster *cluster, const Value *value) {
    DimId streamed = streamed_dim(cluster);
    bool wide = dims_has(&value->dims, streamed);
    for (int k = 0; k < 2; k++) {
        const DimList *own = &value->args[k]->dims, *other = &value->args[1 - k]->dims;
        if (wide ? dims_has(own, streamed) && !dims_has(other, streamed)
                 : !dims_subset(&cluster->rows, own) && dims_subset(&cluster->rows, other))
            return k;
    }
    return NEITHER;
}

// Is the value written by a contraction, and read in no other way than in panels?
static bool can_be_made_packed(const Fuser *fuser, const Value *value, DimId streamed) {
    bool computed = value->op == OP_CONTRACT;
    for (uint32_t k = 0; k < value->n_args && op_kind(value->op) == KIND_MAP; k++)
        computed = computed || (value->args[k]->op == OP_CONTRACT &&
                                dims_equal(&value->args[k]->dims, &value->dims));
    for (const Value **user = fuser->users[value->id]; *user; user++) {
        const Cluster *cluster = stream_of(fuser, *user);
        computed = computed && cluster && (*user)->op == OP_CONTRACT &&
                   streamed_dim(cluster) == streamed && dims_has(&(*user)->dims, streamed);
    }
    return computed && !fuser->result[value->id] && !stream_of(fuser, value);
}

// How an operand is wanted: one that is read in several ways has a copy for each.
typedef enum { FOR_PANELS, FOR_SUMS, FOR_ROWS, FOR_LANES, FOR_PRODUCTS } Purpose;

static Value *copied(Packer *p, Value *value, Purpose purpose) {
    p->changed = true;
    return graph_copy(p->rewrite->to, value, purpose);
}

static Value *scaled(Packer *p, Value *value, double factor) {
    p->changed = true;
    return graph_map2(p->rewrite->to, OP_MUL, value,
                      graph_const(p->rewrite->to, factor, value->elem));
}

static bool is_half(const Value *value) {
    return value->elem != elem_work(value->elem);
}

// The sum of a contraction of halves before it is rounded; NULL: the value is none.
static Value *widened_sum(const Packer *p, const Value *value) {
    const Value *now = p->rewrite->now[value->id];
    return value->op == OP_CONTRACT && now->op == OP_CAST ? now->args[0] : NULL;
}

// The value as wide as arithmetic has it: what is never stored never has to be rounded.
static Value *unrounded(Packer *p, const Value *value) {
    Value *sum = widened_sum(p, value);
    return sum ? sum
               : graph_cast(p->rewrite->to, p->rewrite->now[value->id], elem_work(value->elem));
}

// Are the lanes contiguous in the operand and its summed positions next to each other? Elsewhere a
// row of lanes lies between those of other heads, and few of them fit the sets of a cache.
static bool runs_past(const Value *value, int k) {
    const DimList *dims = &value->args[k]->dims, *other = &value->args[1 - k]->dims;
    if (dims->count < 2 || dims_has(other, dims->at[dims->count - 1]))
        return false;
    DimId outer = dims->at[dims->count - 2];
    return dims_has(other, outer) && !dims_has(&value->dims, outer);
}

static Value *pack_lanes(Packer *p, const Cluster *cluster, const Value *value, int k) {
    const Value *operand = value->args[k];
    Value *now = unrounded(p, operand);
    if (stream_of(p->fuser, operand) == cluster)
        return now;
    bool wide = dims_has(&value->dims, streamed_dim(cluster));
    if (is_half(operand))
        return copied(p, now, wide ? FOR_PANELS : FOR_SUMS);
    if (operand->op == OP_COPY)
        return now;
    if (wide)
        return can_be_made_packed(p->fuser, operand, streamed_dim(cluster))
                   ? now
                   : copied(p, now, FOR_PANELS);
    return fuse_is_of_input(operand) && !runs_past(value, k) ? copied(p, now, FOR_SUMS) : now;
}

// Are rows of the operand pages apart? Those of a block share few sets of a cache then.
static bool rows_are_pages_apart(const Fuser *fuser, const Cluster *cluster, const Value *operand) {
    const DimList *dims = &operand->dims;
    int64_t stride = (int64_t)elem_bytes(operand->elem);
    uint32_t i = dims->count;
    for (; i && !dims_has(&cluster->rows, dims->at[i - 1]); i--)
        if (!mul_i64(stride, fuser->extents[dims->at[i - 1]], &stride))
            return false;
    return i && stride % MACHINE_PAGE == 0;
}

// What is scaled or widened is written by the task anyway, in the order that it wants.
static Value *pack_rows(Packer *p, const Cluster *cluster, const Value *value, int k) {
    const Value *operand = value->args[k];
    bool scales = value_factor_moves(value) && dims_has(&value->dims, streamed_dim(cluster));
    bool summed_last = !dims_has(&value->dims, last_dim(operand));
    bool rows = dims_subset(&cluster->rows, &operand->dims);
    bool table = p->fuser->table[streamed_dim(cluster)] && value_adds_rows(value);
    bool lies_badly = !summed_last || rows_are_pages_apart(p->fuser, cluster, operand);
    bool copies =
        rows && fuse_is_of_input(operand) && lies_badly && !scales && !is_half(operand) && !table;
    Value *now = unrounded(p, operand);
    return copies ? copied(p, now, FOR_ROWS) : now;
}

// Products of two operands that both have the streamed dim (a matrix for each position) run along
// it: an input that has another dim contiguous gets a copy that has not, and so does what is
// pointwise of such. The first copy takes the factor; *factor is what is left of it.
static Value *pack_product(Packer *p, const Cluster *cluster, const Value *value, int k,
                           double *factor) {
    DimId streamed = streamed_dim(cluster);
    const Value *operand = value->args[k];
    bool along = dims_has(&value->dims, streamed) && dims_has(&operand->dims, streamed) &&
                 dims_has(&value->args[1 - k]->dims, streamed);
    bool computed = op_kind(operand->op) == KIND_MAP && !stream_of(p->fuser, operand);
    bool lies_across = fuse_is_of_input(operand) && last_dim(operand) != streamed;
    Value *now = unrounded(p, operand);
    if (!along || !(lies_across || computed))
        return now;
    if (*factor != 1 && value_factor_moves(value)) {
        now = scaled(p, now, *factor);
        *factor = 1;
    }
    return copied(p, now, FOR_PRODUCTS);
}

// Rows of a table against those of the group: a table, which may be too large to be copied, is read
// as it lies if what is summed lies side by side in it. The lanes are rows of the task then, which
// copies them.
static bool reads_table(const Packer *p, const Cluster *cluster, const Value *value, int lanes) {
    DimId streamed = streamed_dim(cluster);
    return lanes != NEITHER && p->fuser->table[streamed] && dims_has(&value->dims, streamed) &&
           !value_adds_rows(value) && fuse_is_of_input(value->args[lanes]) &&
           !is_half(value->args[lanes]) && !dims_has(&value->dims, last_dim(value->args[lanes]));
}

static Value *pack_beside_table(Packer *p, const Value *value, int k) {
    Value *now = unrounded(p, value->args[k]);
    return value_factor_moves(value) ? scaled(p, now, value->number) : copied(p, now, FOR_LANES);
}

static Value *pack_contraction(Packer *p, const Cluster *cluster, const Value *value) {
    Graph *to = p->rewrite->to;
    int lanes = lane_operand(cluster, value);
    bool wide = dims_has(&value->dims, streamed_dim(cluster));
    bool table = reads_table(p, cluster, value, lanes);
    double factor = value->number;
    Value *pair[2];
    for (int k = 0; k < 2; k++)
        pair[k] = table ? k == lanes ? unrounded(p, value->args[k]) : pack_beside_table(p, value, k)
                  : lanes == NEITHER ? pack_product(p, cluster, value, k, &factor)
                  : k != lanes       ? pack_rows(p, cluster, value, k)
                                     : pack_lanes(p, cluster, value, k);
    if (lanes != NEITHER && wide && factor != 1 && value_factor_moves(value)) {
        if (!table) // whose rows have it
            pair[1 - lanes] = scaled(p, pair[1 - lanes], factor);
        factor = 1;
    }
    Value *sum = value_adds_rows(value)
                     ? graph_einsum_parts(to, pair, value->dims, value->dim, value->dim2)
                     : graph_einsum(to, 1, pair, 2, value->dims);
    if (factor != 1)
        sum = scaled(p, sum, factor);
    p->changed = p->changed || is_half(value);
    return graph_cast(to, sum, value->elem);
}

// Sums in parts of wide values are for the tasks of a streamed group: outside of one they are
// whole. What adds them up may itself be in parts, of a batch that each of them is for.
static Value *whole_sum(Packer *p, const Value *value) {
    const Value *parts = value->args[0];
    Graph *to = p->rewrite->to;
    if (parts->op != OP_CONTRACT || !value_in_parts(parts) || stream_of(p->fuser, parts))
        return NULL;
    p->changed = true;
    DimList part = {1, {parts->dim2}}, each = dims_minus(&parts->dims, &part);
    Value *args[] = {p->rewrite->now[parts->args[0]->id], p->rewrite->now[parts->args[1]->id]};
    if (!value_in_parts(value))
        return graph_einsum(to, 1, args, 2, value->dims);
    return graph_reduce_parts(to, OP_SUM, graph_einsum(to, 1, args, 2, each), value->dims,
                              value->dim, value->dim2);
}

static Value *pack_value(Rewrite *rewrite, const Value *value, Value **args) {
    Packer *p = rewrite->data;
    const Cluster *cluster = stream_of(p->fuser, value);
    Value *packed = NULL;
    if (cluster && value->op == OP_CONTRACT && value->n_args == 2)
        packed = pack_contraction(p, cluster, value);
    if (value->op == OP_SUM)
        packed = whole_sum(p, value);
    if (value->op == OP_CAST && value->elem == elem_work(value->args[0]->elem))
        packed = widened_sum(p, value->args[0]);
    return packed ? packed : rewrite_keep(rewrite, value, args);
}

Graph *fuse_pack_operands(const Fuser *fuser) {
    Rewrite rewrite = rewrite_begin("fuse", fuser->graph, fuser->graph->arena, fuser->arena);
    Packer p = {.fuser = fuser, .rewrite = &rewrite};
    rewrite.data = &p;
    rewrite_values(&rewrite, pack_value);
    rewrite_outputs(&rewrite);
    return p.changed ? rewrite.to : NULL;
}
