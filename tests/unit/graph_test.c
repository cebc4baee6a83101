// SPDX-License-Identifier: Apache-2.0
// The graph level's core: hash-consing, the verifier on broken graphs, building from programs, and
// the round trip through text.
#include "support.h"

#include <math.h>

#include "graph/cons.h"
#include "graph/graph.h"

#define DIMS(...) ((DimList){sizeof((DimId[]){__VA_ARGS__}) / sizeof(DimId), {__VA_ARGS__}})
#define ARGS(...) ((Value *[]){__VA_ARGS__})

// ---- a small graph to play with ----------------------------------------------------------------

typedef struct {
    Session *session;
    Graph *graph;
    DimId n, m, d, e; // m is like n
    Value *x, *w, *i; // X[n, d] and W[d, e] f32, I[n] i32
} World;

static Name name_of(Session *session, const char *text) {
    return names_find(session->names, text);
}

static DimId dim(World *world, const char *name, int64_t extent) {
    return graph_dim(world->graph, name_of(world->session, name), extent);
}

static Value *input(World *world, const char *name, Elem elem, DimList dims) {
    return graph_input(world->graph, name_of(world->session, name), elem, dims, ROLE_DATA);
}

static World world_new(void) {
    World world = {.session = session_new()};
    world.graph = graph_new(world.session, name_of(world.session, "Test"));
    world.n = dim(&world, "n", 4);
    world.m = dim(&world, "m", 4);
    world.d = dim(&world, "d", 3);
    world.e = dim(&world, "e", 2);
    world.graph->dims.at[world.m].like = world.n;
    world.x = input(&world, "X", ELEM_F32, DIMS(world.n, world.d));
    world.w = input(&world, "W", ELEM_F32, DIMS(world.d, world.e));
    world.i = input(&world, "I", ELEM_I32, DIMS(world.n));
    return world;
}

static void output(World *world, Value *value) {
    graph_output(world->graph, name_of(world->session, "out"), value, value->dims);
}

// ---- hash-consing ------------------------------------------------------------------------------

static void test_inputs_of_one_name_are_no_one_value(void **state) {
    (void)state;
    World w = world_new();
    expect_ice("two inputs are named X", input(&w, "X", ELEM_F32, DIMS(w.n, w.d)));
    session_free(w.session);
}

static void test_same_thing_is_same_value(void **state) {
    (void)state;
    World w = world_new();
    Graph *g = w.graph;
    assert_ptr_equal(graph_map1(g, OP_EXP, w.x), graph_map1(g, OP_EXP, w.x));
    assert_ptr_not_equal(graph_map1(g, OP_EXP, w.x), graph_map1(g, OP_LOG, w.x));
    Value *c = graph_const(g, 2, ELEM_F32);
    assert_ptr_equal(c, graph_const(g, 2, ELEM_F32));
    assert_ptr_not_equal(c, graph_const(g, 2, ELEM_F16));
    assert_ptr_not_equal(graph_const(g, 0.0, ELEM_F32), graph_const(g, -0.0, ELEM_F32));
    assert_ptr_equal(graph_const(g, NAN, ELEM_F32), graph_const(g, -(double)NAN, ELEM_F32));
    assert_ptr_equal(graph_map2(g, OP_ADD, w.x, c), graph_map2(g, OP_ADD, c, w.x));
    assert_ptr_not_equal(graph_map2(g, OP_SUB, w.x, c), graph_map2(g, OP_SUB, c, w.x));
    Value *einsum = graph_einsum(g, 1, ARGS(w.x, w.w), 2, DIMS(w.n, w.e));
    assert_ptr_equal(einsum, graph_einsum(g, 1, ARGS(w.w, w.x), 2, DIMS(w.e, w.n)));
    assert_ptr_not_equal(einsum, graph_einsum(g, 2, ARGS(w.x, w.w), 2, DIMS(w.n, w.e)));
    assert_ptr_not_equal(einsum, graph_einsum(g, 1, ARGS(w.x, w.w), 2, DIMS(w.n)));
    assert_ptr_not_equal(graph_einsum(g, 1, ARGS(w.x, w.x, w.w), 3, DIMS(w.n)),
                         graph_einsum(g, 1, ARGS(w.x, w.w, w.w), 3, DIMS(w.n)));
    assert_ptr_not_equal(graph_shift(g, w.x, w.n, 1), graph_shift(g, w.x, w.n, 2));
    assert_ptr_not_equal(graph_row(g, OP_CUMSUM, w.x, w.n), graph_row(g, OP_CUMSUM, w.x, w.d));
    session_free(w.session);
}

// n, m -> m, k -> k, n is n and m exchanged, read over k and n: one rename of what lies in memory.
static void test_renames_are_one(void **state) {
    (void)state;
    World w = world_new();
    Graph *g = w.graph;
    DimId k = dim(&w, "k", 4);
    g->dims.at[k].like = w.n;
    Value *s = input(&w, "S", ELEM_F32, DIMS(w.n, w.m));
    DimMap along = {2, {w.n, w.m}, {w.m, k}}, swap = {2, {w.m, k}, {k, w.m}};
    Value *value = graph_rename_all(g, graph_rename_all(g, s, &along), &swap);
    assert_ptr_equal(value->args[0], s);
    assert_int_equal(dimmap_get(value->renames, w.n), k);
    assert_int_equal(dimmap_get(value->renames, w.m), w.m);
    assert_int_equal(value->renames->count, 1);
    assert_ptr_equal(value, graph_rename(g, s, w.n, k));
    session_free(w.session);
}

static void test_nothing_to_do_gives_the_argument(void **state) {
    (void)state;
    World w = world_new();
    Graph *g = w.graph;
    assert_ptr_equal(graph_rename(g, w.x, w.n, w.n), w.x);
    assert_ptr_equal(graph_rename(g, graph_rename(g, w.x, w.n, w.m), w.m, w.n), w.x);
    assert_ptr_equal(graph_cast(g, w.x, ELEM_F32), w.x);
    assert_ptr_equal(graph_reduce(g, OP_SUM, w.x, DIMS(w.d, w.n)), w.x);
    assert_ptr_equal(graph_einsum(g, 1, ARGS(w.x), 1, DIMS(w.d, w.n)), w.x);
    assert_ptr_equal(graph_shift(g, w.x, w.n, 0), w.x);
    assert_int_equal(graph_extent(g, w.n)->op, OP_CONST);
    session_free(w.session);
}

// Values of one hash that differ stay two values.
static void test_collision_is_stepped_over(void **state) {
    (void)state;
    World w = world_new();
    Value *real = graph_map1(w.graph, OP_EXP, w.x);
    Graph *other = graph_new_like(w.graph, w.graph->arena);
    Value *x = graph_rebuild(other, w.x, NULL);
    map_put(other->cons, real->hash, x); // something else sits where exp(X) belongs
    Value *exp1 = graph_map1(other, OP_EXP, x);
    assert_ptr_not_equal(exp1, x);
    assert_int_equal(exp1->op, OP_EXP);
    assert_ptr_equal(graph_map1(other, OP_EXP, x), exp1);
    session_free(w.session);
}

// exp(X) W + I built with other dim ids, another order of dims and of creation.
static uint64_t hash_of_one_meaning(bool reversed) {
    Session *session = session_new();
    Graph *g = graph_new(session, name_of(session, "Test"));
    static const char *const names[] = {"n", "d", "e"};
    DimId ids[3];
    for (int i = 0; i < 3; i++) {
        int k = reversed ? 2 - i : i;
        ids[k] = graph_dim(g, name_of(session, names[k]), k + 2);
    }
    DimId n = ids[0], d = ids[1], e = ids[2];
    Value *x, *y;
    if (reversed) {
        y = graph_input(g, name_of(session, "Y"), ELEM_F32, DIMS(e), ROLE_PARAM);
        x = graph_input(g, name_of(session, "X"), ELEM_F32, DIMS(n, d), ROLE_DATA);
    } else {
        x = graph_input(g, name_of(session, "X"), ELEM_F32, DIMS(n, d), ROLE_DATA);
        y = graph_input(g, name_of(session, "Y"), ELEM_F32, DIMS(e), ROLE_PARAM);
    }
    Value *outer = reversed ? graph_einsum(g, 1, ARGS(y, x), 2, DIMS(e, n))
                            : graph_einsum(g, 1, ARGS(x, y), 2, DIMS(n, e));
    Value *sum = reversed ? graph_map2(g, OP_ADD, y, outer) : graph_map2(g, OP_ADD, outer, y);
    graph_output(g, name_of(session, "out"), sum, DIMS(n, e));
    uint64_t hash = graph_hash(g);
    session_free(session);
    return hash;
}

static void test_hash_is_of_the_meaning(void **state) {
    (void)state;
    assert_true(hash_of_one_meaning(false) == hash_of_one_meaning(true));
}

static void test_hash_sees_every_attribute(void **state) {
    (void)state;
    World w = world_new();
    Graph *g = w.graph;
    DimId k = dim(&w, "k", 5), j = dim(&w, "j", 1);
    Value *s = input(&w, "S", ELEM_F32, DIMS(w.n, w.m));
    World others[3]; // one graph has one input of a name
    for (int i = 0; i < 3; i++) {
        others[i] = w;
        others[i].graph = graph_new_like(g, g->arena);
    }
    Value *values[] = {
        w.x,
        s,
        graph_rename_all(g, s, &(DimMap){2, {w.n, w.m}, {w.m, w.n}}),
        input(&others[0], "X", ELEM_F32, DIMS(w.d, w.n)), // memory order counts for inputs
        input(&others[1], "X", ELEM_F16, DIMS(w.n, w.d)),
        graph_input(others[2].graph, w.x->name, ELEM_F32, DIMS(w.n, w.d), ROLE_PARAM),
        graph_rename(g, w.x, w.n, w.m),
        graph_row(g, OP_SOFTMAX, w.x, w.d),
        graph_row(g, OP_SOFTMAX, w.x, w.n),
        graph_row(g, OP_LOG_SOFTMAX, w.x, w.n),
        graph_take(g, w.x, w.d, 0),
        graph_take(g, w.x, w.d, 1),
        graph_take(g, graph_rename(g, w.x, w.n, w.m), w.d, 0),
        graph_slice(g, w.x, w.d, w.e, 0),
        graph_slice(g, w.x, w.d, w.e, 1),
        graph_slice(g, w.x, w.d, j, 1),
        graph_concat(g, ARGS(w.x, graph_slice(g, w.x, w.d, w.e, 0)), (DimId[]){w.d, w.e}, 2, k),
        graph_concat(g, ARGS(graph_slice(g, w.x, w.d, w.e, 0), w.x), (DimId[]){w.e, w.d}, 2, k),
        graph_cast(g, w.x, ELEM_F16),
        graph_cast(g, w.x, ELEM_BF16),
        graph_index(g, w.n),
        graph_index(g, w.m),
        graph_const(g, 1, ELEM_F32),
    };
    size_t n = sizeof values / sizeof *values;
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < a; b++)
            if (values[a]->hash == values[b]->hash)
                fail_msg("values %zu and %zu have one hash", a, b);
    session_free(w.session);
}

static void test_copy_means_its_argument(void **state) {
    (void)state;
    World w = world_new();
    Value *copy = graph_map1(w.graph, OP_COPY, w.x);
    assert_ptr_not_equal(copy, w.x);
    assert_true(copy->hash == w.x->hash);
    assert_ptr_equal(copy, graph_map1(w.graph, OP_COPY, w.x));
    session_free(w.session);
}

// Fusion, lowering and the cost model stand on this order.
static void test_every_op_has_its_weight(void **state) {
    (void)state;
    for (int op = 0; op < N_OP; op++) {
        OpKind kind = op_kind((Op)op);
        bool named = op == OP_COPY || op == OP_STOP_GRADIENT;
        bool free = named || kind == KIND_LEAF || kind == KIND_MOVE || kind == KIND_SCAN;
        assert_true(op_weight((Op)op) >= (free ? 0 : 0.5) && op_weight((Op)op) <= 100);
    }
    assert_true(op_weight(OP_INPUT) > 0 && op_weight(OP_GATHER) > op_weight(OP_INPUT));
    assert_true(op_weight(OP_EXP) > 8 * op_weight(OP_ADD));
    assert_true(op_weight(OP_DIV) > op_weight(OP_EXP) && op_weight(OP_TANH) > op_weight(OP_DIV));
    assert_true(op_weight(OP_POW) > op_weight(OP_ERF));
    double softmax = op_weight(OP_EXP) + op_weight(OP_SUB) + op_weight(OP_MUL) +
                     op_weight(OP_REDUCE_MAX) + op_weight(OP_SUM);
    assert_true(op_weight(OP_SOFTMAX) >= softmax);
}

// Without masks a vector is half as long: a division takes half the time, an exponential longer.
static void test_a_machine_has_its_cycles(void **state) {
    (void)state;
    Machine masks = {.has_masks = true, .vector_bytes = 64}, none = {.vector_bytes = 32};
    for (int op = 0; op < N_OP; op++)
        assert_true(op_cycles((Op)op, &masks) == op_weight((Op)op));
    assert_true(op_cycles(OP_ADD, &none) == op_weight(OP_ADD));
    assert_true(op_cycles(OP_DIV, &none) == op_weight(OP_DIV) / 2);
    assert_true(op_cycles(OP_EXP, &none) > op_weight(OP_EXP));
    // A divider takes a vector in parts, which are as long everywhere.
    assert_true(op_cycles_of_one(OP_DIV, &none) == op_cycles_of_one(OP_DIV, &masks));
    assert_true(op_cycles_of_one(OP_DIV, &none) == op_cycles(OP_DIV, &none) / 2);
    assert_true(op_cycles_of_one(OP_EXP, &none) == op_cycles(OP_EXP, &none));
}

static void test_uses_and_life(void **state) {
    (void)state;
    World w = world_new();
    Value *dead = graph_map1(w.graph, OP_EXP, w.x);
    Value *square = graph_map2(w.graph, OP_MUL, w.x, w.x);
    output(&w, square);
    uint32_t *uses = graph_count_uses(w.graph, w.session->arena);
    bool *live = graph_live(w.graph, w.session->arena);
    assert_int_equal(uses[w.x->id], 3);
    assert_int_equal(uses[square->id], 1);
    assert_true(live[w.x->id] && live[square->id] && !live[dead->id] && !live[w.w->id]);
    session_free(w.session);
}

// ---- the verifier: each rule broken once -------------------------------------------------------

typedef struct {
    const char *rule; // part of the message
    void (*make)(World *world);
} Broken;

static void broken_order(World *w) {
    Value *value = graph_map1(w->graph, OP_EXP, w->x);
    value->args[0] = value;
    output(w, value);
}

static void broken_foreign_argument(World *w) {
    Value *x = graph_rebuild(graph_new_like(w->graph, w->graph->arena), w->x, NULL);
    output(w, graph_map1(w->graph, OP_EXP, x));
    w->graph->values.at[0] = w->graph->values.at[1];
}

static void broken_arity(World *w) {
    output(w, graph_map(w->graph, OP_ADD, ELEM_F32, ARGS(w->x), 1));
}

static void broken_map_dims(World *w) {
    Value *value = graph_map1(w->graph, OP_EXP, w->x);
    value->dims = DIMS(w->n);
    output(w, value);
}

static void broken_map_elems(World *w) {
    output(w, graph_map2(w->graph, OP_ADD, w->x, w->i));
}

static void broken_float_function_of_ints(World *w) {
    output(w, graph_map1(w->graph, OP_EXP, w->i));
}

static void broken_bool_sum(World *w) {
    Value *b = graph_map2(w->graph, OP_LT, w->x, w->x);
    output(w, graph_map2(w->graph, OP_ADD, b, b));
}

static void broken_top_of_ints(World *w) {
    output(w, graph_reduce(w->graph, OP_REDUCE_TOP, w->i, (DimList){0}));
}

static void broken_comparison(World *w) {
    output(w, graph_map(w->graph, OP_LT, ELEM_F32, ARGS(w->x, w->x), 2));
}

static void broken_condition(World *w) {
    output(w, graph_map(w->graph, OP_SELECT, ELEM_F32, ARGS(w->x, w->x, w->x), 3));
}

static void broken_reduction(World *w) {
    Value *value = graph_reduce(w->graph, OP_SUM, w->x, DIMS(w->n));
    value->dims = DIMS(w->e);
    output(w, value);
}

static void broken_einsum_dim(World *w) {
    output(w, graph_einsum(w->graph, 1, ARGS(w->x, w->w), 2, DIMS(w->n, w->m)));
}

static void broken_einsum_elems(World *w) {
    output(w, graph_einsum(w->graph, 1, ARGS(w->x, w->i), 2, DIMS(w->n)));
}

static void broken_softmax_dim(World *w) {
    output(w, graph_row(w->graph, OP_SOFTMAX, w->x, w->e));
}

static void broken_softmax_of_ints(World *w) {
    output(w, graph_row(w->graph, OP_SOFTMAX, w->i, w->n));
}

static void broken_rename(World *w) {
    output(w, graph_rename(w->graph, w->x, w->n, w->e));
}

static void broken_rename_onto(World *w) {
    Value *both = graph_map2(w->graph, OP_ADD, w->x, graph_rename(w->graph, w->x, w->n, w->m));
    Value *value = graph_rename(w->graph, both, w->n, w->m);
    value->dims = DIMS(w->m, w->d);
    output(w, value);
}

static void broken_rename_chain(World *w) {
    Value *value = graph_rename(w->graph, w->x, w->n, w->m);
    Value *outer = graph_rename(w->graph, graph_map1(w->graph, OP_EXP, value), w->m, w->n);
    outer->args[0] = value;
    output(w, outer);
}

static void broken_rename_of_nothing(World *w) {
    static const DimMap nothing;
    Value *value = graph_rename(w->graph, w->x, w->n, w->m);
    value->renames = &nothing;
    output(w, value);
}

static void broken_gather_ids(World *w) {
    output(w, graph_gather(w->graph, w->w, w->x, w->e));
}

static void broken_take_position(World *w) {
    output(w, graph_take(w->graph, w->x, w->d, w->graph->dims.at[w->d].extent));
}

static void broken_take_dims(World *w) {
    Value *value = graph_take(w->graph, w->x, w->d, 0);
    value->dims = w->x->dims;
    output(w, value);
}

static void broken_slice_range(World *w) {
    output(w, graph_slice(w->graph, w->x, w->d, w->e, 2));
}

static void broken_slice_begin(World *w) {
    output(w, graph_slice(w->graph, w->x, w->d, w->e, -1));
}

static void broken_concat_sum(World *w) {
    Value *parts[] = {w->x, graph_slice(w->graph, w->x, w->d, w->e, 0)};
    output(w, graph_concat(w->graph, parts, (DimId[]){w->d, w->e}, 2, dim(w, "k", 6)));
}

static void broken_concat_part(World *w) {
    DimId k = dim(w, "k", 2);
    Value *value = graph_concat(w->graph, ARGS(w->x), (DimId[]){w->e}, 1, k);
    value->dims = DIMS(w->n, w->d, k);
    output(w, value);
}

static void broken_order_dims(World *w) {
    Value *order = graph_order(w->graph, w->x, w->n, w->n, true);
    order->dim2 = w->m;
    output(w, order);
}

static void broken_order_elem(World *w) {
    Value *order = graph_order(w->graph, w->x, w->n, w->n, true);
    order->elem = ELEM_I64;
    output(w, order);
}

static void broken_index(World *w) {
    Value *value = graph_index(w->graph, w->n);
    value->elem = ELEM_F32;
    output(w, value);
}

static void broken_int_constant(World *w) {
    output(w, graph_const(w->graph, 0.5, ELEM_I32));
}

static void broken_in_place(World *w) {
    Value *value = graph_shift(w->graph, w->x, w->n, 1);
    value->offset = 2;
    output(w, value);
}

static void broken_repeated_dim(World *w) {
    Value *value = graph_map1(w->graph, OP_EXP, w->x);
    value->dims = DIMS(w->n, w->n);
    output(w, value);
}

static void broken_two_inputs(World *w) {
    input(w, "Y", ELEM_F32, DIMS(w->n))->name = w->x->name;
    output(w, w->x);
}

static void broken_written_names(World *w) {
    Value *first = input(w, "a__b", ELEM_F32, DIMS(w->n));
    Value *second = input(w, "a.b", ELEM_F32, DIMS(w->n));
    assert_string_equal(second->written, "a__b_");
    second->written = first->written;
    second->hash = graph_value_hash(w->graph, second);
    output(w, w->x);
}

static void broken_input_list(World *w) {
    w->graph->inputs.count--;
    output(w, w->x);
}

static void broken_no_output(World *w) {
    w->graph->outputs.count = 0;
}

static void broken_output_order(World *w) {
    graph_output(w->graph, name_of(w->session, "Y"), w->x, DIMS(w->n));
}

static void broken_output_names(World *w) {
    output(w, w->x);
    output(w, w->w);
}

static void broken_like(World *w) {
    w->graph->dims.at[w->d].like = w->n;
    output(w, w->x);
}

static void broken_like_chain(World *w) {
    w->graph->dims.at[w->n].like = w->m;
    output(w, w->x);
}

static void broken_extent(World *w) {
    w->graph->dims.at[w->n].extent = 0;
    output(w, w->x);
}

static const Broken broken_graphs[] = {
    {"no earlier value", broken_order},
    {"the id is not the place", broken_foreign_argument},
    {"wrong number of arguments", broken_arity},
    {"dims are not those of the arguments", broken_map_dims},
    {"arguments differ in elem", broken_map_elems},
    {"arguments of this elem", broken_float_function_of_ints},
    {"arguments of this elem", broken_bool_sum},
    {"arguments of this elem", broken_top_of_ints},
    {"a comparison gives bool", broken_comparison},
    {"the condition is no bool", broken_condition},
    {"dims that its argument lacks", broken_reduction},
    {"a dim of the result is in no operand", broken_einsum_dim},
    {"operands differ in elem", broken_einsum_elems},
    {"the argument lacks the dim", broken_softmax_dim},
    {"arguments of this elem", broken_softmax_of_ints},
    {"not alike", broken_rename},
    {"the argument has a new dim already", broken_rename_onto},
    {"a rename of a rename", broken_rename_chain},
    {"it renames nothing", broken_rename_of_nothing},
    {"the positions are no integers", broken_gather_ids},
    {"a position is outside of its dim", broken_take_position},
    {"dims are not the argument's without one", broken_take_dims},
    {"ends after the last position", broken_slice_range},
    {"begins before the first position", broken_slice_begin},
    {"the extents do not add up", broken_concat_sum},
    {"an argument lacks its dim", broken_concat_part},
    {"dims are not the argument's with one replaced", broken_order_dims},
    {"a position is i32", broken_order_elem},
    {"an index is i64", broken_index},
    {"no whole number", broken_int_constant},
    {"changed in place", broken_in_place},
    {"dims repeat", broken_repeated_dim},
    {"two inputs have one name", broken_two_inputs},
    {"two inputs have one name", broken_written_names},
    {"the list of inputs is not complete", broken_input_list},
    {"there is no output", broken_no_output},
    {"memory order is not of its dims", broken_output_order},
    {"two outputs have one name", broken_output_names},
    {"alike differ in extent", broken_like},
    {"like a dim that is like another", broken_like_chain},
    {"a dim has a bad extent", broken_extent},
};

static void test_verifier_names_broken_rules(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof broken_graphs / sizeof *broken_graphs; i++) {
        World w = world_new();
        broken_graphs[i].make(&w);
        expect_ice(broken_graphs[i].rule, graph_verify(w.graph, "some pass"));
        session_free(w.session);
    }
}

static void test_verifier_names_pass_and_value(void **state) {
    (void)state;
    World w = world_new();
    broken_map_elems(&w);
    expect_ice("graph after some pass: value 3 (add)", graph_verify(w.graph, "some pass"));
    session_free(w.session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_thing_is_same_value),
        cmocka_unit_test(test_inputs_of_one_name_are_no_one_value),
        cmocka_unit_test(test_renames_are_one),
        cmocka_unit_test(test_nothing_to_do_gives_the_argument),
        cmocka_unit_test(test_collision_is_stepped_over),
        cmocka_unit_test(test_hash_is_of_the_meaning),
        cmocka_unit_test(test_hash_sees_every_attribute),
        cmocka_unit_test(test_copy_means_its_argument),
        cmocka_unit_test(test_every_op_has_its_weight),
        cmocka_unit_test(test_a_machine_has_its_cycles),
        cmocka_unit_test(test_uses_and_life),
        cmocka_unit_test(test_verifier_names_broken_rules),
        cmocka_unit_test(test_verifier_names_pass_and_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
