// SPDX-License-Identifier: Apache-2.0
// The oracle's derivatives of every pointwise op, against differences of what it evaluates.
#include <math.h>

#include "eval_fixture.h"
#include "support.h"

static const double at[] = {0.7, 1.3, 0.4}; // no kink and no jump is near

static Elem elem_of_arg(Op op, int arg) {
    bool logical = op == OP_NOT || op == OP_AND || op == OP_OR || (op == OP_SELECT && arg == 0);
    return logical ? ELEM_BOOL : op == OP_RANDOM ? ELEM_I64 : ELEM_F64;
}

// `moved` is added to one argument. slope: along that argument.
static double evaluate(World *world, uint32_t arg, double moved, double *slope) {
    const Graph *graph = world->graph;
    double numbers[3], *direction[3] = {0}, one = 1;
    EvalRun run = {.extents = (int64_t[]){0}, .inputs = world->inputs};
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        numbers[i] = graph->inputs.at[i]->elem == ELEM_BOOL ? 1 : at[i] + (i == arg ? moved : 0);
        world->inputs[i] = &numbers[i];
    }
    direction[arg] = &one;
    run.direction = slope ? direction : NULL;
    graph_eval(graph, EVAL_F64, &run, world->session->arena);
    if (slope)
        *slope = run.slopes[0][0];
    return run.outputs[0][0];
}

static void check_op(void **state, Op op) {
    static const char *const names[] = {"A", "B", "C"};
    static const double STEP = 0x1p-17;
    World *world = world_new(state);
    Graph *graph = world->graph;
    Value *args[3];
    for (int i = 0; i < op_arity(op); i++)
        args[i] = world_input(world, names[i], elem_of_arg(op, i), (DimList){0}, NULL);
    bool compares = op == OP_EQ || op == OP_NE || op == OP_LT || op == OP_LE;
    bool narrows = op == OP_CAST || op == OP_RANDOM;
    Elem elem = narrows ? ELEM_F32 : compares ? ELEM_BOOL : args[op_arity(op) - 1]->elem;
    Value *value = graph_map(graph, op, elem, args, (uint32_t)op_arity(op));
    graph_output(graph, world_name(world, "out"), value, value->dims);
    graph_verify(graph, "test");
    for (uint32_t k = 0; k < graph->inputs.count; k++) {
        double slope;
        evaluate(world, k, 0, &slope);
        double above = evaluate(world, k, STEP, NULL);
        double below = evaluate(world, k, -STEP, NULL);
        double want = op == OP_STOP_GRADIENT ? 0 : (above - below) / (2 * STEP);
        if (!(fabs(slope - want) <= 1e-8 * (1 + fabs(want))))
            fail_msg("%s has slope %.17g along argument %u, expected %.17g", op_name(op), slope, k,
                     want);
    }
    world_free(world);
}

static void test_every_pointwise_op_has_its_slope(void **state) {
    for (int op = 0; op < N_OP; op++)
        if (op_kind((Op)op) == KIND_MAP)
            check_op(state, (Op)op);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pointwise_op_has_its_slope),
    };
    return cmocka_run_group_tests(tests, world_prepare, world_clean_up);
}
