// SPDX-License-Identifier: Apache-2.0
// Lowering: programs through all passes to tile programs, which the tile interpreter runs and the
// oracle judges; then what schedules must keep to.
#include <math.h>

#include "lower_fixture.h"
#include "random_graph.h"
#include "tile/schedule/schedule.h"

enum { GRAPHS = 1500 };
// Of the largest result of a random graph: rounding in float32, deep down, or a wrong result?
static const double DEEP = 2e-3;

static void check_program(const char *text, const Machine *machine, int64_t typical,
                          int64_t dynamic) {
    Session *session = session_new();
    LowerCheck check = {.machine = machine, .typical = typical, .dynamic = {dynamic}};
    lower_check(passes_build(session, text), &check);
    session_free(session);
}

static void check_everywhere(const char *text) {
    check_program(text, &lower_small, 512, 5);
    check_program(text, &lower_small, 7, 7);
    check_program(text, &lower_large, 512, 3);
    check_program(text, &lower_large, 512, 1);
    check_program(text, &lower_small, 2, 17);
}

// ---- programs ----

static void test_programs_of_the_passes(void **state) {
    (void)state;
    for (int i = 0; passes_programs[i]; i++) {
        check_program(passes_programs[i], &lower_small, 512, 5);
        check_program(passes_programs[i], &lower_small, 6, 6);
        check_program(passes_programs[i], &lower_large, 512, 3);
    }
}

// Each plan of streamed groups, as far as it is one: pieces of t, which is longer than they are.
static void test_random_graphs(void **state) {
    (void)state;
    uint32_t checked[N_PLANS] = {0};
    for (uint64_t seed = 0; seed < GRAPHS; seed += SWEEP_STEP) {
        PlanKind plan = (PlanKind)(seed % N_PLANS);
        Session *session = session_new();
        LowerCheck check = {.machine = seed / N_PLANS % 2 ? &lower_small : &lower_large,
                            .typical = 512,
                            .dynamic = {5},
                            .t = 70,
                            .plan = plan,
                            .within = DEEP};
        checked[plan] += lower_check(random_graph(session, seed), &check);
        session_free(session);
    }
    for (PlanKind plan = PLAN_ANY; plan < N_PLANS; plan++)
        assert_true(checked[plan] > 0);
}

// Every order of the result and of the operands of one contraction.
static void test_contraction_layouts(void **state) {
    (void)state;
    static const char *const a[] = {"b, n, d", "d, b, n", "n, d, b", "d, n, b"};
    static const char *const b[] = {"b, d, f", "f, d, b", "d, b, f"};
    static const char *const c[] = {"b, n, f", "f, b, n", "n, f, b", "f, n, b"};
    for (int i = 0; i < 4 * 3 * 4; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "def F(A[%s], B[%s]):\n    C[b, n, f] = einsum(A[b, n, d], B[b, d, f])\n"
                 "    return C[%s]\n",
                 a[i % 4], b[i / 4 % 3], c[i / 12]);
        check_program(text, &lower_small, 512, 5);
        check_program(text, &lower_large, 512, 19);
        check_program(text, &lower_large, 4, 4); // several batches in one task
    }
}

static void test_contractions(void **state) {
    (void)state;
    // several summed dims, in the same and in another order
    check_everywhere("def F(A[n, h, d], B[f, d, h]):\n"
                     "    C[n, f] = einsum(A[n, h, d], B[f, d, h])\n    return C[n, f]\n");
    // several rows and lanes, constants and epilogue
    check_everywhere("dim h = 3, e = 5\n"
                     "def F(A[n, d], B[d, e, h], c[e, h]):\n"
                     "    C[n, e, h] = max(einsum(A[n, d], B[d, e, h]) / 3 + c[e, h], 0)\n"
                     "    return C[h, n, e]\n");
    // the contraction and values after it, all returned
    check_everywhere("def F(A[n, d], B[d, f], r[n, f, g]):\n"
                     "    C[n, f] = einsum(A[n, d], B[d, f])\n"
                     "    D[n, f] = tanh(C[n, f])\n"
                     "    E[n, f, g] = C[n, f] * r[n, f, g]\n"
                     "    return C[n, f], D[f, n], E[g, n, f]\n");
    // prologue on both operands
    check_everywhere("def F(A[n, d], B[d, f], s[d]):\n"
                     "    R[n, d] = max(A[n, d], 0)\n"
                     "    T[d, f] = B[d, f] * s[d] - 1\n"
                     "    C[n, f] = einsum(R[n, d], T[d, f])\n    return C[n, f]\n");
}

static void test_no_blocking_possible(void **state) {
    (void)state;
    // dot product, matrix times vector both ways, outer product, batch only
    check_everywhere("def F(a[d], b[d]):\n    return einsum(a[d], b[d] -> []) + 0\n");
    check_everywhere("def F(A[n, d], b[d]):\n    c[n] = einsum(A[n, d], b[d])\n    return c[n]\n");
    check_everywhere("def F(A[d, n], b[d]):\n    c[n] = einsum(A[d, n], b[d])\n    return c[n]\n");
    check_everywhere("def F(a[n], b[f]):\n    C[n, f] = einsum(a[n], b[f])\n    return C[f, n]\n");
    check_everywhere("def F(A[n, d], B[n, d]):\n    c[n] = einsum(A[n, d], B[n, d])\n"
                     "    return c[n]\n");
}

static void test_element_types(void **state) {
    (void)state;
    static const char *const elems[] = {"f32", "f64", "f16", "bf16", "i32", "i64"};
    for (int i = 0; i < 6; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "def F(A[n, d]: %s, B[d, f]: %s):\n    C[n, f] = einsum(A[n, d], B[d, f])\n"
                 "    s[n] = sum(C[n, f], reduced_dim=f)\n    return C[n, f], s[n]\n",
                 elems[i], elems[i]);
        check_everywhere(text);
    }
    check_everywhere("def F(A[n, m]: f16):\n    return softmax(A[n, m], reduced_dim=m)\n");
    check_everywhere("def F(A[n, m]: f64):\n    return softmax(A[n, m], reduced_dim=n)\n");
}

// What is stored last lies in another order than what it is made of.
static void test_rows_in_another_order(void **state) {
    (void)state;
    static const char *const elems[] = {"f32", "f64", "f16", "bf16", "i32"};
    for (int i = 0; i < 5; i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "def F(A[d, n]: %s, B[d, n]: %s, C[d, n]: %s, R[n, d]: %s):\n"
                 "    x[d, n] = A[d, n] * B[d, n] + C[d, n]\n"
                 "    c[d, n] = x[d, n] - max(x[d, n], reduced_dim=d)\n"
                 "    return R[n, d] + c[d, n]\n",
                 elems[i], elems[i], elems[i], elems[i]);
        check_everywhere(text);
    }
    // along a dim of which a piece has one position; two results in two orders
    check_everywhere("dim b = 3\n"
                     "def F(A[n, b, d], B[n, b, d], R[n, d, b]):\n"
                     "    x[n, b, d] = A[n, b, d] * B[n, b, d]\n"
                     "    Y[n, d, b] = R[n, d, b] + x[n, b, d] - max(x[n, b, d], reduced_dim=d)\n"
                     "    return Y[n, d, b]\n");
    check_everywhere("def F(A[d, n], B[d, n], R[n, d]):\n"
                     "    c[d, n] = A[d, n] * B[d, n] - max(A[d, n], reduced_dim=d)\n"
                     "    Y[n, d] = R[n, d] + c[d, n]\n"
                     "    Z[d, n] = R[n, d] * c[d, n]\n"
                     "    return Y, Z\n");
}

static void test_rows(void **state) {
    (void)state;
    // rows contiguous along the reduced dim, along a row dim, reduced dim in the middle
    check_everywhere("def F(A[n, m]):\n    return softmax(A[n, m] * 2, reduced_dim=m)\n");
    check_everywhere("def F(A[m, n]):\n    W[n, m] = softmax(A[m, n], reduced_dim=m)\n"
                     "    return W[m, n]\n");
    check_everywhere("def F(A[n, m, h]):\n    return log_softmax(A[n, m, h], reduced_dim=m)\n");
    // rows that are masked everywhere
    check_everywhere("def F(A[n, m]):\n"
                     "    L[n, m] = where(index(m) < index(n), A[n, m], -inf)\n"
                     "    return softmax(L[n, m], reduced_dim=m)\n");
    check_everywhere("def F(X[n, d], g[d], b[d]):\n"
                     "    mu[n] = mean(X[n, d], reduced_dim=d)\n"
                     "    c[n, d] = X[n, d] - mu[n]\n"
                     "    v[n] = mean(c[n, d] ** 2, reduced_dim=d)\n"
                     "    return c[n, d] * rsqrt(v[n] + 0.001) * g[d] + b[d]\n");
    check_everywhere("def F(X[n, m]):\n"
                     "    k[n] = argmax(X[n, m], reduced_dim=m)\n"
                     "    c[n, m] = cumsum(X[n, m], dim=m)\n"
                     "    p[m] = prod(X[n, m], reduced_dim=n)\n"
                     "    return k[n], c[m, n], p[m], cumsum(X[n, m], dim=n)\n");
}

static void test_moves(void **state) {
    (void)state;
    check_everywhere("def F(E[v, d], ids[n]: i32):\n    return gather(E[v, d], ids[n], dim=v)\n");
    check_everywhere("dim e = 5, p = 3\ndef F(A[n, d], C[n, e]):\n"
                     "    X[n, p] = slice(C[n, e], e, 1, 4)\n"
                     "    return shift(A[n, d], n, 2), shift(X[n, p] + 1, p, -1)\n");
    check_everywhere("dim d = 6, e = 4\ndef F(A[n, d], C[n, e]):\n"
                     "    Z[n, f] = concat(A[n, d], C[n, e], A[n, d], dim=f)\n"
                     "    return Z[n, f]\n");
    // self attention: one input under two names
    check_everywhere("dim m like n\ndef F(X[b, n, d]):\n"
                     "    L[b, n, m] = einsum(X[b, n, d], X[b, m, d])\n"
                     "    return softmax(L[b, n, m], reduced_dim=m)\n");
}

static void test_transposed_results(void **state) {
    (void)state;
    check_everywhere(
        "def F(A[a, b, c]):\n    T[a, b, c] = A[a, b, c] + 1\n    return T[c, a, b]\n");
    check_everywhere("def F(A[a, b], B[b]):\n    return A[a, b] * B[b], B[b] + 1, A[a, b] - 1\n");
}

// ---- structure ----

static TileProgram *lower_text(Session *session, const char *text, const Machine *machine) {
    Plan *plan = passes_plan(session, text);
    int64_t *extents = graph_typical_extents(plan->fusion->graph, session->arena);
    return tile_lower(plan, machine, extents, &(ScheduleWish){0});
}

static void test_equal_kernels_are_kept_once(void **state) {
    (void)state;
    Session *session = session_new();
    TileProgram *program = lower_text(session,
                                      "dim d = 8, e = 8\n"
                                      "def F(X[n, d], P[d, e], Q[d, e]):\n"
                                      "    A[n, e] = max(einsum(X[n, d], P[d, e]), 0)\n"
                                      "    B[n, e] = max(einsum(X[n, d], Q[d, e]), 0)\n"
                                      "    return A[n, e], B[n, e]\n",
                                      &lower_large);
    assert_int_equal(program->launches.count, 2);
    assert_int_equal(program->kernels.count, 1);
    session_free(session);
}

static void test_adjacent_dims_are_fused(void **state) {
    (void)state;
    Session *session = session_new();
    TileProgram *program = lower_text(session,
                                      "def F(X[b, n, d], P[d, f]):\n"
                                      "    return einsum(X[b, n, d], P[d, f] -> [b, n, f]) + 1\n",
                                      &lower_large);
    assert_int_equal(program->kernels.count, 1);
    assert_int_equal(program->kernels.at[0]->dims.count, 3);
    assert_string_equal(program->kernels.at[0]->dims.at[0].name, "b_n");
    assert_int_equal(program->launches.at[0].dims[0].count, 2);
    session_free(session);
}

static void check_contraction(const ContractSchedule *s, const ContractShape *shape,
                              const Machine *t) {
    int width = t->vector_bytes / (int)shape->elem_bytes;
    int vectors = s->lane_block / width;
    assert_int_equal(s->lane_block % width, 0);
    assert_true(s->row_block >= 1 && s->lane_block >= 1 && s->block_k >= 1);
    assert_true(s->row_block * vectors + vectors + 1 <= t->vector_registers || s->row_block == 1);
    assert_true(s->row_block <= (s->pack_a ? t->rows_packed : t->rows_unpacked));
    assert_true(s->task_rows >= 1 && s->task_lanes >= 1 && s->task_batch >= 1);
    assert_true(s->block_rows >= 1);
    assert_true(s->pack_a || shape->a_in_place);
    assert_true(s->pack_b || shape->b_in_place);
    assert_true(s->seconds > 0);
}

static const ContractShape *shape_of(const ContractShapes *shapes, const ContractAxes *axes) {
    int i = 0;
    while (i < shapes->count && shapes->at[i].axes.transposed != axes->transposed)
        i++;
    assert_true(i < shapes->count && !axes->contiguous_rows);
    return &shapes->at[i];
}

// The fastest first, none of the axes, the packing and the width of another, and none far slower
// but the fastest with the default axes, which is always there.
static void check_nearest(const ScheduleList *near, const ContractShapes *shapes,
                          const Machine *t) {
    assert_true(near->count > 0);
    int far = 0, by_default = 0;
    for (uint32_t i = 0; i < near->count; i++) {
        const ContractSchedule *s = &near->at[i].contract;
        check_contraction(s, shape_of(shapes, &s->axes), t);
        by_default += !s->axes.transposed;
        if (s->seconds > 1.25 * near->at[0].contract.seconds) {
            assert_true(!s->axes.transposed && by_default == 1);
            far++;
        }
        for (uint32_t k = 0; k < i; k++) {
            const ContractSchedule *other = &near->at[k].contract;
            assert_true(other->seconds <= s->seconds);
            assert_true(other->lane_block != s->lane_block || other->pack_a != s->pack_a ||
                        other->pack_b != s->pack_b || other->axes.transposed != s->axes.transposed);
        }
    }
    assert_true(by_default > 0 && far <= 1);
}

// Hundreds are compared by rough walks: what is found is about the fastest of the whole space.
static void check_fastest(const ScheduleList *near, const ContractShapes *shapes, const Machine *t,
                          Arena *arena) {
    ScheduleList all = {0};
    double least = INFINITY;
    schedule_enumerate_contract(arena, shapes, t, &all);
    for (uint32_t i = 0; i < all.count; i++) {
        const ContractSchedule *s = &all.at[i].contract;
        ContractModel *model =
            contract_model_new(arena, shape_of(shapes, &s->axes), t, s->pack_a, s->pack_b);
        double seconds = contract_model_seconds(model, s);
        bool same;
        double rough = contract_model_rough(model, s, &same);
        assert_true(!same || rough == seconds);
        least = fmin(least, seconds);
    }
    if (near->at[0].contract.seconds > 1.02 * least)
        fail_msg("%ld x %ld x %ld: found %g s, there is %g s", (long)shapes->at[0].rows,
                 (long)shapes->at[0].lanes, (long)shapes->at[0].k, near->at[0].contract.seconds,
                 least);
}

// With the operands in each other's place, and a result that is copied out.
static ContractShape transposed(const ContractShape *shape) {
    ContractShape out = *shape;
    out.axes.transposed = out.tile = out.turned = true;
    out.rows = out.main_rows = shape->lanes;
    out.lanes = out.main_lanes = shape->rows;
    out.a_in_place = shape->b_in_place;
    out.b_in_place = false;
    out.a_last = shape->b_last == LAST_MAIN ? LAST_MAIN : LAST_SUMMED;
    out.b_last = LAST_SUMMED;
    return out;
}

static void test_schedules_respect_the_machine(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 7, 16, 64, 100, 511, 768, 3072, 50257};
    enum { N = sizeof sizes / sizeof sizes[0] };
    const Machine *machines[] = {&lower_small, &lower_large};
    const int step = INSTRUMENTED ? 13 : 1; // has no factor of what shapes are taken by
    for (int i = 0; i < N * N * N * 2; i += step) {
        const Machine *t = machines[i % 2];
        ContractShape shape = {.batch = 1 + i % 3,
                               .rows = sizes[i / 2 % N],
                               .lanes = sizes[i / 2 / N % N],
                               .k = sizes[i / 2 / N / N],
                               .a_in_place = i % 5 != 0,
                               .a_last = (ContractLast)(i % 3),
                               .b_last = (ContractLast)(i % 7 % 4),
                               .elem_bytes = i % 11 ? 4 : 8};
        shape.b_in_place = shape.b_last == LAST_MAIN;
        shape.main_rows = shape.rows;
        shape.main_lanes = shape.lanes;
        shape.last_batch = shape.batch;
        Arena *arena = arena_new();
        ScheduleList near = {0};
        ContractShapes shapes = {1 + i % 2, {shape, transposed(&shape)}};
        schedule_nearest_contract(arena, &shapes, t, &near);
        check_nearest(&near, &shapes, t);
        if (i % 97 == 0)
            check_fastest(&near, &shapes, t, arena);
        arena_free(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs_of_the_passes),
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_contraction_layouts),
        cmocka_unit_test(test_contractions),
        cmocka_unit_test(test_no_blocking_possible),
        cmocka_unit_test(test_element_types),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_rows_in_another_order),
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_transposed_results),
        cmocka_unit_test(test_equal_kernels_are_kept_once),
        cmocka_unit_test(test_adjacent_dims_are_fused),
        cmocka_unit_test(test_schedules_respect_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
