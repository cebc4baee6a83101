// SPDX-License-Identifier: Apache-2.0
// Random graphs, a step at a time: each adds one value, or an attention, made of what is there.
//
// The numbers are kept tame (tanh after what grows, no comparisons of computed values), so that a
// difference far above rounding is a wrong rewrite.
#include "random_graph.h"

#include <math.h>

enum { STEPS = 40, POOL_MAX = 64 };

typedef struct {
    Graph *graph;
    uint64_t seed;
    DimId n, m, d, e, h, t; // m like n; d = 2 e; n, m and t are dynamic
    Value *ids;             // i32 over n, below 3
    Value *pool[POOL_MAX];
    uint32_t count;
} World;

static uint32_t roll(World *world, uint32_t sides) {
    world->seed = hash_u64(world->seed, 1);
    return (uint32_t)(world->seed % sides);
}

static void keep(World *world, Value *value) {
    if (world->count < POOL_MAX)
        world->pool[world->count++] = value;
}

// Half of the time one of the newest, so that graphs get deep.
static Value *pick(World *world) {
    uint32_t newest = roll(world, 2) ? 6 : world->count;
    return world->pool[world->count - 1 - roll(world, newest)];
}

static Value *number(World *world, double x) {
    return graph_const(world->graph, x, ELEM_F32);
}

static Value *tamed(World *world, Value *value) {
    return graph_map1(world->graph, OP_TANH, value);
}

static DimList some_dims(World *world, const DimList *all) {
    DimList out = {0};
    for (uint32_t i = 0; i < all->count; i++)
        if (roll(world, 5) < 3)
            dims_add(&out, all->at[i]);
    return out;
}

// ---- steps, each adding one value --------------------------------------------------------------

static Value *step_unary(World *world) {
    static const Op ops[] = {OP_NEG, OP_ABS, OP_TANH, OP_ERF, OP_SIN, OP_COS};
    Value *a = tamed(world, pick(world)); // one draw after the other: C leaves the order open
    return graph_map1(world->graph, ops[roll(world, 6)], a);
}

static Value *step_binary(World *world) {
    static const Op ops[] = {OP_ADD, OP_SUB, OP_MUL, OP_MIN, OP_MAX};
    Value *b = pick(world), *a = pick(world);
    return graph_map2(world->graph, ops[roll(world, 5)], a, b);
}

static Value *step_scale(World *world) {
    static const double factors[] = {2, -0.5, 1, 0, 3};
    static const Op ops[] = {OP_MUL, OP_ADD, OP_SUB, OP_DIV};
    Op op = ops[roll(world, 4)];
    double factor = factors[roll(world, 5)];
    if (op == OP_DIV && factor == 0)
        factor = 4;
    return graph_map2(world->graph, op, pick(world), number(world, factor));
}

static Value *step_quotient(World *world) {
    Value *divisor = graph_map1(world->graph, OP_ABS, pick(world));
    divisor = graph_map2(world->graph, OP_ADD, divisor, number(world, 1));
    return graph_map2(world->graph, OP_DIV, pick(world), divisor);
}

static Value *step_mask(World *world) {
    Graph *graph = world->graph;
    DimId dims[] = {world->n, world->m, world->d, world->h, world->t};
    Value *a = graph_index(graph, dims[roll(world, 5)]),
          *b = graph_index(graph, dims[roll(world, 5)]);
    Value *mask = graph_map2(graph, roll(world, 2) ? OP_LE : OP_LT, a, b);
    Value *then = pick(world), *other = roll(world, 2) ? pick(world) : number(world, 0);
    Value *args[] = {mask, then, other};
    return graph_map(graph, OP_SELECT, ELEM_F32, args, 3);
}

static Value *step_reduce(World *world) {
    static const Op ops[] = {OP_SUM, OP_SUM, OP_REDUCE_MAX, OP_REDUCE_MIN};
    Value *value = pick(world);
    return graph_reduce(world->graph, ops[roll(world, 4)], value, some_dims(world, &value->dims));
}

static Value *step_einsum(World *world) {
    Value *args[5];
    uint32_t n = 1 + roll(world, 5);
    DimList all = {0};
    for (uint32_t i = 0; i < n; i++) {
        args[i] = pick(world);
        all = dims_union(&all, &args[i]->dims);
    }
    static const double factors[] = {1, 1, 0.5, -2};
    Value *value =
        graph_einsum(world->graph, factors[roll(world, 4)], args, n, some_dims(world, &all));
    return roll(world, 2) ? tamed(world, value) : value;
}

static Value *step_row(World *world) {
    static const Op ops[] = {OP_SOFTMAX, OP_LOG_SOFTMAX, OP_CUMSUM};
    Value *value = tamed(world, pick(world));
    if (value->dims.count == 0)
        return value;
    return graph_row(world->graph, ops[roll(world, 3)], value,
                     value->dims.at[roll(world, value->dims.count)]);
}

static Value *step_rename(World *world) {
    Value *value = pick(world);
    bool forth = roll(world, 2);
    DimId from = forth ? world->n : world->m, to = forth ? world->m : world->n;
    if (!dims_has(&value->dims, from))
        return value;
    uint8_t count = dims_has(&value->dims, to) ? 2 : 1;
    return graph_rename_all(world->graph, value, &(DimMap){count, {from, to}, {to, from}});
}

static Value *step_move(World *world) {
    Graph *graph = world->graph;
    Value *value = pick(world);
    bool has_d = dims_has(&value->dims, world->d), has_e = dims_has(&value->dims, world->e);
    if (value->dims.count && roll(world, 4) == 0) {
        DimId dim = value->dims.at[roll(world, value->dims.count)];
        return graph_take(graph, value, dim, dim == world->d ? roll(world, 4) : 0);
    }
    if (has_d && !has_e)
        return graph_slice(graph, value, world->d, world->e, roll(world, 3));
    if (has_e && !has_d)
        return graph_concat(graph, (Value *[]){value, value}, (DimId[]){world->e, world->e}, 2,
                            world->d);
    if (dims_has(&value->dims, world->h) && !dims_has(&value->dims, world->n))
        return graph_gather(graph, value, world->ids, world->h);
    if (dims_has(&value->dims, world->n) && !dims_has(&value->dims, world->h)) {
        DimList kept = some_dims(world, &value->dims);
        kept = dims_minus(&kept, &(DimList){1, {world->n}});
        return graph_scatter_add(graph, value, world->ids, world->h, kept);
    }
    if (dims_has(&value->dims, world->t))
        return graph_shift(graph, value, world->t, (int64_t)roll(world, 3) - 1);
    return value;
}

static Value *step_sum_of_einsums(World *world) {
    Graph *graph = world->graph;
    Value *common = pick(world), *a = pick(world), *b = pick(world);
    DimList all = dims_union(&common->dims, &a->dims);
    DimList other = dims_union(&common->dims, &b->dims);
    DimList both = dims_intersect(&all, &other), result = some_dims(world, &both);
    Value *x = graph_einsum(graph, 1, (Value *[]){common, a}, 2, result);
    Value *y = graph_einsum(graph, 2, (Value *[]){b, common}, 2, result);
    Value *sum = graph_map2(graph, roll(world, 2) ? OP_ADD : OP_SUB, x, y);
    return roll(world, 3) ? tamed(world, sum) : sum;
}

// Some value with the one dim and without the other. NULL: none found.
static Value *pick_between(World *world, DimId with, DimId without) {
    for (int tries = 0; tries < 8; tries++) {
        Value *value = pick(world);
        if (dims_has(&value->dims, with) && !dims_has(&value->dims, without))
            return value;
    }
    return NULL;
}

static Value *contract_keeping(World *world, Value *a, Value *b, const DimList *always,
                               DimId never) {
    DimList all = dims_union(&a->dims, &b->dims), kept = some_dims(world, &all);
    kept = dims_union(&kept, always);
    kept = dims_minus(&kept, &(DimList){1, {never}});
    return graph_einsum(world->graph, 1, (Value *[]){a, b}, 2, kept);
}

static Value *masked(World *world, Value *logits, DimId x, DimId y, double hidden) {
    Graph *graph = world->graph;
    Value *seen = graph_map2(graph, OP_LE, graph_index(graph, y), graph_index(graph, x));
    Value *args[] = {seen, logits, number(world, hidden)};
    return graph_map(graph, OP_SELECT, ELEM_F32, args, 3);
}

static Value *weights_of(World *world, Value *logits, DimId y) {
    switch (roll(world, 4)) {
    case 0:
        return graph_map1(world->graph, OP_TANH, logits);
    case 1:
        return graph_row(world->graph, OP_LOG_SOFTMAX, logits, y);
    default:
        return graph_row(world->graph, OP_SOFTMAX, logits, y);
    }
}

// Attention of whatever has x to whatever has y, heads and what is mixed left to chance.
static Value *step_attention(World *world) {
    DimId dims[] = {world->n, world->m, world->t}, x = dims[roll(world, 3)];
    DimId y = dims[roll(world, 3)];
    Value *q = pick_between(world, x, y), *k = pick_between(world, y, x);
    Value *v = pick_between(world, y, x);
    if (!q || !k || !v)
        return pick(world);
    DimList pair = {2, {x, y}}, rows = {1, {x}};
    Value *logits = tamed(world, contract_keeping(world, q, k, &pair, DIM_NONE));
    if (roll(world, 4) == 0)
        keep(world, logits);
    bool softmax = roll(world, 3);
    Value *weights = softmax ? weights_of(world, logits, y) : logits;
    if (roll(world, 2))
        weights = masked(world, weights, x, y, 0);
    if (roll(world, 3) == 0)
        weights = contract_keeping(world, weights, pick(world), &pair, DIM_NONE);
    if (softmax && roll(world, 3) == 0)
        weights = graph_row(world->graph, OP_SOFTMAX,
                            masked(world, tamed(world, weights), x, y, -INFINITY), y);
    if (roll(world, 4) == 0)
        keep(world, weights);
    return tamed(world, contract_keeping(world, weights, v, &rows, y));
}

static Value *random_step(World *world) {
    static Value *(*const steps[])(World *) = {
        step_unary,  step_binary, step_binary,         step_scale,     step_quotient,  step_mask,
        step_reduce, step_einsum, step_einsum,         step_einsum,    step_row,       step_rename,
        step_rename, step_move,   step_sum_of_einsums, step_attention, step_attention,
    };
    return steps[roll(world, sizeof steps / sizeof *steps)](world);
}

// ---- graphs ------------------------------------------------------------------------------------

static DimId add_dim(World *world, const char *name, int64_t extent) {
    return graph_dim(world->graph, names_find(world->graph->session->names, name), extent);
}

static Value *add_input(World *world, const char *name, Elem elem, DimList order) {
    return graph_input(world->graph, names_find(world->graph->session->names, name), elem, order,
                       ROLE_DATA);
}

static void add_outputs(World *world) {
    static const char *const names[] = {"y_0", "y_1", "y_2", "y_3"};
    for (uint32_t i = 0; i < 1 + roll(world, 4); i++) {
        Value *value =
            roll(world, 4) ? world->pool[world->count - 1 - roll(world, 6)] : pick(world);
        DimList order = value->dims;
        for (uint32_t k = order.count; k > 1; k--) {
            uint32_t other = roll(world, k);
            DimId dim = order.at[k - 1];
            order.at[k - 1] = order.at[other];
            order.at[other] = dim;
        }
        if (world->graph->outputs.count < 4)
            graph_output(
                world->graph,
                names_find(world->graph->session->names, names[world->graph->outputs.count]), value,
                order);
    }
}

Graph *random_graph(Session *session, uint64_t seed) {
    World world = {.graph = graph_new(session, names_find(session->names, "Random")),
                   .seed = hash_u64(seed, 2)};
    world.n = add_dim(&world, "n", EXTENT_DYNAMIC);
    world.m = add_dim(&world, "m", EXTENT_DYNAMIC);
    world.d = add_dim(&world, "d", 4);
    world.e = add_dim(&world, "e", 2);
    world.h = add_dim(&world, "h", 3);
    world.t = add_dim(&world, "t", EXTENT_DYNAMIC);
    world.graph->dims.at[world.m].like = world.n;
    keep(&world, add_input(&world, "X", ELEM_F32, (DimList){2, {world.n, world.d}}));
    keep(&world, add_input(&world, "P", ELEM_F32, (DimList){3, {world.d, world.e, world.h}}));
    keep(&world, add_input(&world, "M", ELEM_F32, (DimList){2, {world.t, world.d}}));
    keep(&world, add_input(&world, "B", ELEM_F32, (DimList){2, {world.h, world.e}}));
    keep(&world, add_input(&world, "w", ELEM_F32, (DimList){1, {world.d}}));
    keep(&world, add_input(&world, "s", ELEM_F32, (DimList){0}));
    world.ids = add_input(&world, "ids", ELEM_I32, (DimList){1, {world.n}});
    for (uint32_t i = 0; i < STEPS; i++)
        keep(&world, random_step(&world));
    add_outputs(&world);
    return world.graph;
}
