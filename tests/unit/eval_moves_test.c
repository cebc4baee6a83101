// SPDX-License-Identifier: Apache-2.0
// The oracle: what moves elements, and scans, against numbers worked out by hand.
#include "support.h"

#include <math.h>
#include <string.h>

#include "eval_fixture.h"

// ---- moves -------------------------------------------------------------------------------------

static void test_rename(void **state) {
    World *world = world_new(state);
    DimId n = world_dim(world, "n", 2), m = world_dim(world, "m", 2), d = world_dim(world, "d", 2);
    world->graph->dims.at[m].like = n;
    Value *x = world_input(world, "X", ELEM_F32, DIMS(n, d), NUMBERS(1, 2, 3, 4));
    Value *y = graph_rename(world->graph, x, n, m);
    expect(world, y, 1, 2, 3, 4);
    Value *products = graph_einsum(world->graph, 1, (Value *[]){x, y}, 2, DIMS(n, m));
    expect(world, products, 5, 11, 11, 25);
    world_free(world);
}

static void test_rename_of_two_dims_into_each_other(void **state) {
    World *world = world_new(state);
    DimId n = world_dim(world, "n", 2), m = world_dim(world, "m", 2);
    world->graph->dims.at[m].like = n;
    Value *x = world_input(world, "X", ELEM_F32, DIMS(n, m), NUMBERS(1, 2, 3, 4));
    Value *y = graph_rename_all(world->graph, x, &(DimMap){2, {n, m}, {m, n}});
    expect(world, graph_map2(world->graph, OP_SUB, x, y), 0, -1, 1, 0);
    world_free(world);
}

static void test_regroup(void **state) {
    World *world = world_new(state);
    Graph *graph = world->graph;
    DimId d = world_dim(world, "d", 6), h = world_dim(world, "h", 2), k = world_dim(world, "k", 3);
    Value *x = world_input(world, "X", ELEM_F32, DIMS(d), NUMBERS(0, 1, 2, 3, 4, 5));
    Value *digits = graph_split(graph, x, d, &DIMS(h, k));
    assert_ptr_equal(graph_merge(graph, digits, &DIMS(h, k), d), x);
    expect(world, graph_take(graph, digits, h, 1), 3, 4, 5);
    expect(world, graph_take(graph, digits, k, 1), 1, 4);
    expect(world, graph_merge(graph, digits, &DIMS(k, h), d), 0, 3, 1, 4, 2, 5);
    expect(world, graph_split(graph, graph_index(graph, d), d, &DIMS(h, k)), 0, 1, 2, 3, 4, 5);
    world_free(world);
}

static void test_gather(void **state) {
    World *world = world_new(state);
    DimId v = world_dim(world, "v", 3), d = world_dim(world, "d", 2), n = world_dim(world, "n", 4);
    Value *table = world_input(world, "E", ELEM_F32, DIMS(v, d), NUMBERS(1, 2, 3, 4, 5, 6));
    Value *ids = world_input(world, "ids", ELEM_I32, DIMS(n), NUMBERS(2, 0, 3, -1));
    expect(world, graph_gather(world->graph, table, ids, v), 5, 6, 1, 2, NAN, NAN, NAN, NAN);
    Value *whole = graph_cast(world->graph, table, ELEM_I32);
    expect(world, graph_gather(world->graph, whole, ids, v), 5, 6, 1, 2, 0, 0, 0, 0);
    // table and ids meet in d, and the ids are over the dim that they index
    Value *picks = world_input(world, "picks", ELEM_I64, DIMS(v, d), NUMBERS(0, 1, 1, 2, 2, 0));
    expect(world, graph_gather(world->graph, table, picks, v), 1, 4, 3, 6, 5, 2);
    world_free(world);
}

static void test_scatter_add(void **state) {
    World *world = world_new(state);
    Graph *graph = world->graph;
    DimId v = world_dim(world, "v", 3), d = world_dim(world, "d", 2), n = world_dim(world, "n", 4);
    Value *x = world_input(world, "X", ELEM_F32, DIMS(n, d), NUMBERS(1, 2, 3, 4, 5, 6, 7, 8));
    Value *ids = world_input(world, "ids", ELEM_I32, DIMS(n), NUMBERS(2, 0, 3, 2));
    expect(world, graph_scatter_add(graph, x, ids, v, DIMS(d)), 3, 4, 0, 0, 8, 10);
    expect(world, graph_scatter_add(graph, x, ids, v, (DimList){0}), 7, 0, 18);
    Value *each =
        world_input(world, "each", ELEM_I64, DIMS(n, d), NUMBERS(0, 1, 1, -1, 2, 2, 0, 0));
    expect(world, graph_scatter_add(graph, x, each, v, DIMS(d)), 8, 8, 3, 2, 5, 6);
    Value *one = graph_const(graph, 1, ELEM_I32); // counts
    expect(world, graph_scatter_add(graph, one, ids, v, (DimList){0}), 1, 0, 2);
    world_free(world);
}

static void test_take(void **state) {
    World *world = world_new(state);
    Graph *graph = world->graph;
    DimId n = world_dim(world, "n", 2), d = world_dim(world, "d", 3);
    Value *x = world_input(world, "X", ELEM_F32, DIMS(n, d), NUMBERS(1, 2, 3, 4, 5, 6));
    expect(world, graph_take(graph, x, d, 1), 2, 5);
    expect(world, graph_take(graph, x, n, 1), 4, 5, 6);
    expect(world, graph_take(graph, graph_take(graph, x, n, 1), d, 2), 6);
    assert_ptr_equal(graph_take(graph, graph_index(graph, d), d, 2),
                     graph_const(graph, 2, ELEM_I64));
    DimId open = world_dim(world, "open", EXTENT_DYNAMIC); // 3 positions
    Value *y = world_input(world, "Y", ELEM_F32, DIMS(open, n), NUMBERS(1, 2, 3, 4, 5, 6));
    expect(world, graph_take(graph, y, open, 2), 5, 6);
    expect(world, graph_take(graph, y, open, 3), NAN, NAN);
    expect(world, graph_take(graph, graph_cast(graph, y, ELEM_I32), open, 3), 0, 0);
    world_free(world);
}

static void test_slice_concat_shift(void **state) {
    World *world = world_new(state);
    Graph *graph = world->graph;
    DimId n = world_dim(world, "n", 2), d = world_dim(world, "d", 3), e = world_dim(world, "e", 2);
    DimId f = world_dim(world, "f", 5);
    Value *x = world_input(world, "X", ELEM_F32, DIMS(n, d), NUMBERS(1, 2, 3, 4, 5, 6));
    Value *part = graph_slice(graph, x, d, e, 1);
    expect(world, part, 2, 3, 5, 6);
    Value *joined = graph_concat(graph, (Value *[]){part, x}, (DimId[]){e, d}, 2, f);
    expect(world, joined, 2, 3, 1, 2, 3, 5, 6, 4, 5, 6);
    expect(world, graph_shift(graph, x, d, 1), 0, 1, 2, 0, 4, 5);
    expect(world, graph_shift(graph, x, d, -2), 3, 0, 0, 6, 0, 0);
    expect(world, graph_shift(graph, x, d, 7), 0, 0, 0, 0, 0, 0);
    expect(world, graph_shift(graph, x, n, -1), 4, 5, 6, 0, 0, 0);
    world_free(world);
}

// Two carries, one of which the other needs; rows and last values.
static void test_scan(void **state) {
    World *world = world_new(state);
    Graph *graph = world->graph;
    DimId n = world_dim(world, "n", 3), d = world_dim(world, "d", 2);
    Value *x = world_input(world, "X", ELEM_F32, DIMS(n, d), NUMBERS(1, 2, 3, 4, 5, 6));
    Value *first = world_input(world, "A", ELEM_F32, DIMS(d), NUMBERS(10, 20));
    DimId t = graph_scan_dim(graph, world_name(world, "t"), n, false);
    Value *a = graph_carry(graph, 0, ELEM_F32, DIMS(t, d), t);
    Value *b = graph_carry(graph, 1, ELEM_F32, DIMS(t, d), t);
    Value *sum = graph_map2(graph, OP_ADD, a, graph_rename(graph, x, n, t));
    Value *step = graph_cast(graph, graph_index(graph, t), ELEM_F32);
    ScanCarry carries[] = {{a, first, sum}, {b, first, graph_map2(graph, OP_MUL, a, step)}};
    ScanCarries all = {.at = carries, .count = 2, .room = 2};
    expect(world, graph_stack(graph, sum, t, n, &all), 11, 22, 14, 26, 19, 32);
    expect(world, graph_stack(graph, b, t, n, &all), 10, 20, 0, 0, 11, 22);
    expect(world, graph_last(graph, 0, t, &all), 19, 32);
    expect(world, graph_last(graph, 1, t, &all), 28, 52);
    world_free(world);
}

static void test_order_is_stable_and_nan_is_largest(void **state) {
    World *world = world_new(state);
    Graph *graph = world->graph;
    DimId n = world_dim(world, "n", 2), m = world_dim(world, "m", 4), t = world_dim(world, "t", 2);
    Value *x =
        world_input(world, "X", ELEM_F32, DIMS(n, m), NUMBERS(1, 3, 1, 3, NAN, 0, -0.0, NAN));
    expect(world, graph_order(graph, x, m, m, false), 0, 2, 1, 3, 1, 2, 0, 3);
    expect(world, graph_order(graph, x, m, m, true), 1, 3, 0, 2, 0, 3, 1, 2);
    expect(world, graph_order(graph, x, m, t, true), 1, 3, 0, 3);
    expect(world, graph_order(graph, x, n, n, false), 0, 1, 1, 0, 1, 0, 0, 1);
    world_free(world);
}

static void test_every_op_was_evaluated(void **state) {
    world_expect_seen(state, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rename),
        cmocka_unit_test(test_rename_of_two_dims_into_each_other),
        cmocka_unit_test(test_regroup),
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_scatter_add),
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_slice_concat_shift),
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_order_is_stable_and_nan_is_largest),
        cmocka_unit_test(test_every_op_was_evaluated),
    };
    return cmocka_run_group_tests(tests, world_prepare, world_clean_up);
}
