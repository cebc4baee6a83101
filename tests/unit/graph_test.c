// SPDX-License-Identifier: Apache-2.0
// The graph level's core: hash-consing, the verifier on broken graphs, building from programs, and
// the round trip through text.
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

static void test_nothing_to_do_gives_the_argument(void **state) {
    (void)state;
    World w = world_new();
    Graph *g = w.graph;
    assert_ptr_equal(graph_rename(g, w.x, w.n, w.n), w.x);
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
    Graph *other = graph_new_like(w.graph);
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
    Value *values[] = {
        w.x,
        input(&w, "X", ELEM_F32, DIMS(w.d, w.n)), // memory order counts for inputs
        input(&w, "X", ELEM_F16, DIMS(w.n, w.d)),
        graph_input(g, w.x->name, ELEM_F32, DIMS(w.n, w.d), ROLE_PARAM),
        graph_rename(g, w.x, w.n, w.m),
        graph_row(g, OP_SOFTMAX, w.x, w.d),
        graph_row(g, OP_SOFTMAX, w.x, w.n),
        graph_row(g, OP_LOG_SOFTMAX, w.x, w.n),
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
    Value *x = graph_rebuild(graph_new_like(w->graph), w->x, NULL);
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

static void broken_gather_ids(World *w) {
    output(w, graph_gather(w->graph, w->w, w->x, w->e));
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
    input(w, "X", ELEM_F32, DIMS(w->n));
    output(w, w->x);
}

static void broken_written_names(World *w) {
    input(w, "a.b", ELEM_F32, DIMS(w->n));
    input(w, "a__b", ELEM_F32, DIMS(w->n));
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
    {"a comparison gives bool", broken_comparison},
    {"the condition is no bool", broken_condition},
    {"dims that its argument lacks", broken_reduction},
    {"a dim of the result is in no operand", broken_einsum_dim},
    {"operands differ in elem", broken_einsum_elems},
    {"the argument lacks the dim", broken_softmax_dim},
    {"arguments of this elem", broken_softmax_of_ints},
    {"not alike", broken_rename},
    {"the argument has the new dim already", broken_rename_onto},
    {"the positions are no integers", broken_gather_ids},
    {"ends after the last position", broken_slice_range},
    {"begins before the first position", broken_slice_begin},
    {"the extents do not add up", broken_concat_sum},
    {"an argument lacks its dim", broken_concat_part},
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

// ---- building ----------------------------------------------------------------------------------

typedef struct {
    const char *entry;
    const char *map_dim, *mapped; // --map map_dim=mapped
    const char *data;             // --data
} BuildCase;

// The graph of a program's text; NULL after diagnostics.
static Graph *build(Session *session, const char *text, BuildCase options) {
    uint32_t file = sources_add(session->sources, "test.attn", text, strlen(text));
    Program *program = program_new(session->arena);
    ast_parse(session, program, file);
    ast_add_prelude(session, program);
    if (!ast_resolve(session, program))
        return NULL;
    EntryOptions entry = {0};
    if (options.entry)
        entry.entry = name_of(session, options.entry);
    if (options.data)
        vec_push(session->arena, &session->data, name_of(session, options.data));
    if (options.map_dim) {
        entry.map_dim = name_of(session, options.map_dim);
        vec_push(session->arena, &entry.mapped_args, name_of(session, options.mapped));
    }
    Graph *graph = graph_build(session, program, &entry);
    if (graph)
        graph_verify(graph, "build");
    return graph;
}

static char *diagnostics(Session *session) {
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    diags_print(session->diags, stream, DIAGS_TEXT, false);
    fclose(stream);
    return text;
}

static Graph *build_fine(Session *session, const char *text, BuildCase options) {
    Graph *graph = build(session, text, options);
    if (!graph) {
        char *why = diagnostics(session);
        fail_msg("%s", why);
    }
    return graph;
}

// The printed graph, which has to read `want`.
static void expect_text(const char *source, BuildCase options, const char *want) {
    Session *session = session_new();
    Text text = {.arena = session->arena};
    graph_print(build_fine(session, source, options), &text);
    assert_string_equal(text.at, want);
    session_free(session);
}

static void expect_error(const char *source, BuildCase options, const char *part) {
    Session *session = session_new();
    assert_null(build(session, source, options));
    char *have = diagnostics(session);
    if (!strstr(have, part))
        fail_msg("said \"%s\", expected \"%s\"", have, part);
    free(have);
    session_free(session);
}

static void test_call_binds_dims_from_the_right(void **state) {
    (void)state;
    expect_text("def Inner(A[n, d], W[d]):\n"
                "    S[n] = einsum(A[n, d], W[d])\n"
                "    return S[n]\n"
                "def Main(X[b, t, e], V[e]):\n"
                "    Y[b, t] = Inner(X, V)\n"
                "    return Y[b, t]\n",
                (BuildCase){0},
                "def Main(\n"
                "        X[b, t, e],\n"
                "        V[e]):\n"
                "    Y[b, t] = einsum(X[b, t, e], V[e])\n"
                "    return Y[b, t]\n");
}

// A dim of the callee that is like a bound one follows it.
static void test_own_dim_follows_its_class(void **state) {
    (void)state;
    expect_text("dim m like n\n"
                "def Gram(A[n, d]):\n"
                "    return einsum(A[n, d], A[m, d] -> [n, m])\n"
                "def Main(X[t, d]):\n"
                "    Y[t] = sum(Gram(X), reduced_dim=m_t)\n"
                "    return Y[t]\n"
                "dim m_t like t\n",
                (BuildCase){0},
                "dim m_t like t\n"
                "def Main(\n"
                "        X[t, d]):\n"
                "    t1[m_t, d] = X[m_t, d]\n"
                "    t2[t, m_t] = einsum(X[t, d], t1[m_t, d])\n"
                "    Y[t] = sum(t2[t, m_t], reduced_dim=m_t)\n"
                "    return Y[t]\n");
}

static void test_extents_fold_where_the_call_knows_them(void **state) {
    (void)state;
    expect_text("dim d = 4, e = 16\n"
                "def Scale(A[n, d]):\n"
                "    return A[n, d] / sqrt(d)\n"
                "def Main(X[n, e], Y[n, d], Z[n, k]):\n"
                "    P[n, e] = Scale(X)\n"
                "    Q[n, d] = Scale(Y)\n"
                "    R[n, k] = Scale(Z)\n"
                "    return P[n, e], Q[n, d], R[n, k]\n",
                (BuildCase){0},
                "dim e = 16\n"
                "dim d = 4\n"
                "def Main(\n"
                "        X[n, e],\n"
                "        Y[n, d],\n"
                "        Z[n, k]):\n"
                "    P[n, e] = X[n, e] / 4\n"
                "    Q[n, d] = Y[n, d] / 2\n"
                "    t1 = f32(i64(k))\n"
                "    t2 = sqrt(t1)\n"
                "    R[n, k] = Z[n, k] / t2\n"
                "    return P[n, e], Q[n, d], R[n, k]\n");
}

static void test_names_of_trained_tensors(void **state) {
    (void)state;
    Session *session = session_new();
    Graph *graph = build_fine(session,
                              "dim layers = 2, d = 4\n"
                              "param scale[d]\n"
                              "def Unit(X[n, d]):\n"
                              "    param W[d]\n"
                              "    return X[n, d] * W[d] * scale[d]\n"
                              "def Main(X[n, d]):\n"
                              "    for layer in layers:\n"
                              "        X = Unit(Unit(X) as unit)\n"
                              "        X = Unit(Unit(X))\n"
                              "    for block in layers shared:\n"
                              "        X = Unit(X)\n"
                              "    param W[d]\n"
                              "    return X[n, d] + W[d]\n",
                              (BuildCase){0});
    static const char *const names[] = {
        "X",
        "layer.0.unit.W",
        "scale",
        "layer.0.Unit.W",
        "layer.0.Unit_1.W",
        "layer.0.Unit_2.W",
        "layer.1.unit.W",
        "layer.1.Unit.W",
        "layer.1.Unit_1.W",
        "layer.1.Unit_2.W",
        "block.Unit.W",
        "W",
    };
    assert_int_equal(graph->inputs.count, sizeof names / sizeof *names);
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        const Value *value = graph->inputs.at[i];
        assert_string_equal(value->name, names[i]);
        assert_int_equal(value->role, i ? ROLE_PARAM : ROLE_DATA);
        assert_non_null(value->declaration);
    }
    session_free(session);
}

static void test_trained_names_never_meet(void **state) {
    (void)state;
    Session *session = session_new();
    Graph *graph = build_fine(session,
                              "def Unit(X[n, d]):\n"
                              "    param W[d]\n"
                              "    return X[n, d] * W[d]\n"
                              "def Main(X[n, d], Unit__W[d]):\n"
                              "    return Unit(X) + Unit__W[d]\n",
                              (BuildCase){0});
    assert_string_equal(graph->inputs.at[1]->name, "Unit__W");
    assert_string_equal(graph->inputs.at[2]->name, "Unit.W_1");
    session_free(session);
}

static InputRole role_of(const char *source, const char *data, uint32_t input_index) {
    Session *session = session_new();
    Graph *graph = build_fine(session, source, (BuildCase){.data = data});
    InputRole role = graph->inputs.at[input_index]->role;
    session_free(session);
    return role;
}

static void test_roles(void **state) {
    (void)state;
    const char *plain = "def F(X[n], W[n]):\n    return X[n] * W[n]\n";
    const char *marked = "def F(X[n], param W[n]):\n    return X[n] * W[n]\n";
    assert_int_equal(role_of(plain, NULL, 1), ROLE_DATA);
    assert_int_equal(role_of(plain, "X", 0), ROLE_DATA);
    assert_int_equal(role_of(plain, "X", 1), ROLE_PARAM);
    assert_int_equal(role_of(marked, NULL, 0), ROLE_DATA);
    assert_int_equal(role_of(marked, NULL, 1), ROLE_PARAM);
    expect_error(plain, (BuildCase){.data = "XX"},
                 "--data names 'XX', which is no argument of 'F'");
}

static void test_map_runs_the_entry_for_each(void **state) {
    (void)state;
    const char *source = "def F(X[n, d], W[d]):\n"
                         "    Y[d, n] = X[n, d] * W[d]\n"
                         "    return Y[d, n]\n";
    expect_text(source, (BuildCase){.map_dim = "b", .mapped = "X"},
                "def F(\n"
                "        X[b, n, d],\n"
                "        W[d]):\n"
                "    Y[b, n, d] = X[b, n, d] * W[d]\n"
                "    return Y[b, d, n]\n");
    expect_error(source, (BuildCase){.map_dim = "d", .mapped = "X"}, "'d' is one of its own");
    expect_error(source, (BuildCase){.map_dim = "b", .mapped = "Z"}, "--map names 'Z'");
}

static void test_choice_of_entry(void **state) {
    (void)state;
    const char *source = "def First(X[n]):\n    return X[n]\n"
                         "def Second(X[n]):\n    return -X[n]\n";
    Session *session = session_new();
    assert_string_equal(build_fine(session, source, (BuildCase){0})->entry, "Second");
    session_free(session);
    session = session_new();
    assert_string_equal(build_fine(session, source, (BuildCase){.entry = "First"})->entry, "First");
    session_free(session);
    expect_error(source, (BuildCase){.entry = "Secnod"}, "did you mean 'Second'?");
    expect_error("dim n = 4\n", (BuildCase){0}, "the file has no def");
}

static void test_what_only_a_call_can_show(void **state) {
    (void)state;
    expect_error("def F(X[n]):\n    for i in n:\n        X = X + 1\n    return X[n]\n",
                 (BuildCase){0}, "a loop runs over a dim of known extent, 'n' has none");
    expect_error("dim k = 2000000\n"
                 "def F(X[n]):\n    for i in k:\n        X = X + 1\n    return X[n]\n",
                 (BuildCase){0}, "more than 1000000 statements and calls");
    expect_error("def F(X[n]):\n    Y[n] = shift(X, n, n // 2)\n    return Y[n]\n", (BuildCase){0},
                 "this number has to be known when compiling");
    expect_error("dim a = 4, b = 6, h = 3\n"
                 "def Half(X[n]):\n    return slice(X, n, 0, n // 2 -> [h])\n"
                 "def F(X[a], Y[b]):\n    return Half(X), Half(Y)\n",
                 (BuildCase){0}, "the slice has 2 positions, 'h' has 3");
}

static void test_sixteen_dims_are_the_limit(void **state) {
    (void)state;
    const char *inner = "def In(X[a, b, c, d, e, f, g, h]):\n    return -X\n"
                        "def F(X[i, j, k, l, m, n, o, p, a, b, c, d, e, f, g, h]):\n"
                        "    return In(X)\n";
    Session *session = session_new();
    assert_int_equal(build_fine(session, inner, (BuildCase){0})->outputs.at[0].order.count, 16);
    session_free(session);
    expect_error(inner, (BuildCase){.map_dim = "z", .mapped = "X"}, "more than 16 dims");
}

// ---- the round trip ----------------------------------------------------------------------------

// Programs that together have every op; each entry is the last def.
static const char *const programs[] = {
    // attention, step by step
    "dim n = 5, d = 6, h = 2\n"
    "dim d_k = d / h\n"
    "dim m like n\n"
    "def Attention(X[n, d], param P_q[d, d_k, h], param P_k[d, d_k, h], param P_o[d, d_k, h]):\n"
    "    M[m, d] = X[m, d]\n"
    "    Q[n, d_k, h] = einsum(X[n, d], P_q[d, d_k, h]) / sqrt(d_k)\n"
    "    L[n, m, h] = 0.5 * einsum(Q[n, d_k, h], M[m, d], P_k[d, d_k, h])\n"
    "    C[n, m, h] = where(index(m) <= index(n), L[n, m, h], -inf)\n"
    "    W[n, m, h] = softmax(C, reduced_dim=m)\n"
    "    Y[n, d] = einsum(W[n, m, h], M[m, d], P_o[d, d_k, h])\n"
    "    return Y[n, d], W[n, m, h]\n",
    // pointwise functions and reductions
    "def Maps(X[n, d], Y[d], b[n, d]: bool):\n"
    "    A[n, d] = abs(X) + exp(X) - log(X) / sqrt(X) * rsqrt(X) ** 2\n"
    "    B[n, d] = tanh(X) + erf(X) + sin(X) + cos(X) + floor(X) // 2 + X % 3\n"
    "    C[n, d] = sigmoid(A) + gelu(A) + silu(B) + softplus(B) + relu(-X)\n"
    "    D[n, d] = min(X, Y, C) + max(A, B) + where(b and not (X > 3) or X >= Y, X, -1.5)\n"
    "    E[n, d] = where(X == Y or X != 2 or X < Y, A, inf)\n"
    "    F[n] = sum(E, reduced_dim=d) + prod(E, reduced_dim=d) + mean(E, reduced_dim=d)\n"
    "    G[n] = max(E, reduced_dim=d) * min(E, reduced_dim=d) + logsumexp(E, reduced_dim=d)\n"
    "    H[n, d] = log_softmax(D, reduced_dim=d) + cumsum(D, dim=n)\n"
    "    s = sum(D, reduced_dim=(n, d))\n"
    "    return F[n], G[n], H[n, d], s\n",
    // element types, positions, moves
    "dim v = 7, r = 2, s = 6, e = 4\n"
    "dim p like n\n"
    "dim q like n\n"
    "param E[v, e]\n"
    "def Moves(ids[n]: i32, X[n, e]: bf16, Z[n, p]):\n"
    "    A[n, e] = gather(E[v, e], ids[n], dim=v) + f32(X)\n"
    "    B[n, r] = slice(A, e, 1, 3)\n"
    "    C[n, s] = concat(A, B, dim=s)\n"
    "    D[n, s] = shift(C, n, -2) + shift(C, s, 1)\n"
    "    F[n, v] = one_hot(ids, v) * (index(v) + n)\n"
    "    G[n] = i64(argmax(F, reduced_dim=v)) // -3 + ids[n] % 2\n"
    "    H[n, p] = einsum(Z[n, q], Z[q, p]) + f32(n) * Z[p, n]\n"
    "    I[n, e]: f16 = f16(A) * 0.1 + f16(bool(X))\n"
    "    J[q] = f32(index(q)) / n\n"
    "    return D[n, s], G[n], H[n, p], I[n, e], J[q], X[n, e]\n",
    // layers, names, a result named like an input
    "dim layers = 2, d = 3\n"
    "def Unit(X[n, d]):\n"
    "    param W[d, d_out], b[d] = 0\n"
    "    H[n, d_out] = einsum(X[n, d], W[d, d_out])\n"
    "    return einsum(H[n, d_out], W[d, d_out] -> [n, d]) + b[d]\n"
    "def Main(X[b, n, d]):\n"
    "    for layer in layers:\n"
    "        X = X + Unit(X) as unit\n"
    "        X = X * layer\n"
    "    return X[b, n, d]\n",
    // dynamic parts
    "def Dynamic(X[n, d], Y[e]):\n"
    "    A[n, e] = slice(X, d, 1, 1 + e)\n"
    "    B[n] = mean(X, reduced_dim=d) * sqrt(d) + mean(Y, reduced_dim=e)\n"
    "    return A[n, e], B[n], 2 * n\n",
};

static void check_round_trip(const char *source, bool *seen) {
    Session *first = session_new(), *second = session_new();
    Graph *graph = build_fine(first, source, (BuildCase){0});
    for (uint32_t i = 0; i < graph->values.count; i++)
        seen[graph->values.at[i]->op] = true;
    Text text = {.arena = first->arena}, again = {.arena = second->arena};
    graph_print(graph, &text);
    Graph *copy = build_fine(second, text.at, (BuildCase){0});
    graph_print(copy, &again);
    assert_string_equal(again.at, text.at);
    if (graph_hash(graph) != graph_hash(copy))
        fail_msg("the hash changed on the way through\n%s", text.at);
    session_free(first);
    session_free(second);
}

static void test_text_builds_to_the_same_hash(void **state) {
    (void)state;
    bool seen[N_OP] = {[OP_COPY] = true}; // made by graph_fuse only
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        check_round_trip(programs[i], seen);
    for (int op = 0; op < N_OP; op++)
        if (!seen[op])
            fail_msg("no program prints '%s'", op_name((Op)op));
}

// Values that no program builds as they are: copies, numbers only, odd constants.
static void test_text_of_made_up_values(void **state) {
    (void)state;
    World w = world_new();
    Graph *g = w.graph;
    Value *two = graph_const(g, 2, ELEM_F32), *nan_value = graph_const(g, NAN, ELEM_F32);
    Value *sum = graph_map2(g, OP_ADD, two, graph_const(g, -0.0, ELEM_F32));
    Value *copy = graph_map1(g, OP_COPY, graph_map2(g, OP_MUL, w.x, sum));
    Value *odd = graph_map2(g, OP_POW, graph_map2(g, OP_ADD, copy, nan_value),
                            graph_const(g, -INFINITY, ELEM_F32));
    Value *big =
        graph_map2(g, OP_ADD, graph_cast(g, w.i, ELEM_I64), graph_const(g, -0x1p53, ELEM_I64));
    Value *renamed = graph_rename(g, graph_index(g, w.n), w.n, w.m);
    Value *scaled = graph_einsum(g, -0.1, ARGS(odd, two), 2, DIMS(w.d));
    graph_output(g, name_of(w.session, "A"), odd, odd->dims);
    graph_output(g, name_of(w.session, "B"), big, big->dims);
    graph_output(g, name_of(w.session, "C"), renamed, renamed->dims);
    graph_output(g, name_of(w.session, "D"), scaled, scaled->dims);
    graph_output(g, name_of(w.session, "E"), two, two->dims);
    graph_output(g, name_of(w.session, "X"), w.x, DIMS(w.d, w.n));
    graph_verify(g, "test");
    Text text = {.arena = w.session->arena};
    graph_print(g, &text);
    Session *session = session_new();
    Graph *again = build_fine(session, text.at, (BuildCase){0});
    if (graph_hash(again) != graph_hash(g))
        fail_msg("the hash changed on the way through\n%s", text.at);
    session_free(session);
    session_free(w.session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_thing_is_same_value),
        cmocka_unit_test(test_nothing_to_do_gives_the_argument),
        cmocka_unit_test(test_collision_is_stepped_over),
        cmocka_unit_test(test_hash_is_of_the_meaning),
        cmocka_unit_test(test_hash_sees_every_attribute),
        cmocka_unit_test(test_copy_means_its_argument),
        cmocka_unit_test(test_uses_and_life),
        cmocka_unit_test(test_verifier_names_broken_rules),
        cmocka_unit_test(test_verifier_names_pass_and_value),
        cmocka_unit_test(test_call_binds_dims_from_the_right),
        cmocka_unit_test(test_own_dim_follows_its_class),
        cmocka_unit_test(test_extents_fold_where_the_call_knows_them),
        cmocka_unit_test(test_names_of_trained_tensors),
        cmocka_unit_test(test_trained_names_never_meet),
        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_map_runs_the_entry_for_each),
        cmocka_unit_test(test_choice_of_entry),
        cmocka_unit_test(test_what_only_a_call_can_show),
        cmocka_unit_test(test_sixteen_dims_are_the_limit),
        cmocka_unit_test(test_text_builds_to_the_same_hash),
        cmocka_unit_test(test_text_of_made_up_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
