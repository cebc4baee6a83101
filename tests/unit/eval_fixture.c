// SPDX-License-Identifier: Apache-2.0
#include "eval_fixture.h"

#include <math.h>

#include "support.h"

World *world_new(void **state) {
    World *world = test_calloc(1, sizeof *world);
    world->session = session_new();
    world->seen = *state;
    world->graph = graph_new(world->session, names_find(world->session->names, "Test"));
    return world;
}

void world_free(World *world) {
    session_free(world->session);
    test_free(world);
}

Name world_name(World *world, const char *text) {
    return names_find(world->session->names, text);
}

DimId world_dim(World *world, const char *name, int64_t extent) {
    return graph_dim(world->graph, world_name(world, name), extent);
}

Value *world_input(World *world, const char *name, Elem elem, DimList dims, double *numbers) {
    Value *value = graph_input(world->graph, world_name(world, name), elem, dims, ROLE_DATA);
    world->inputs[world->graph->inputs.count - 1] = numbers;
    return value;
}

const double *world_evaluate(World *world, Value *value, EvalMode mode) {
    Graph *graph = world->graph;
    graph->outputs.count = 0;
    graph_output(graph, world_name(world, "out"), value, value->dims);
    graph_verify(graph, "test");
    int64_t extents[16];
    for (uint32_t i = 0; i < graph->dims.count; i++)
        extents[i] = graph->dims.at[i].extent < 0 ? 3 : graph->dims.at[i].extent;
    for (uint32_t i = 0; i < graph->values.count; i++)
        world->seen[graph->values.at[i]->op] = true;
    EvalRun run = {.extents = extents, .inputs = world->inputs};
    graph_eval(graph, mode, &run, world->session->arena);
    return run.outputs[0];
}

void world_expect_number(double have, double want) {
    if (isnan(want) ? isnan(have) : have == want)
        return;
    if (isinf(want) || fabs(have - want) > 1e-14 * fabs(want))
        fail_msg("evaluated to %.17g, expected %.17g", have, want);
}

void world_expect(World *world, Value *value, EvalMode mode, const double *want, size_t n) {
    const double *have = world_evaluate(world, value, mode);
    for (size_t i = 0; i < n; i++)
        world_expect_number(have[i], want[i]);
}

int world_prepare(void **state) {
    *state = test_calloc(N_OP, sizeof(bool));
    return 0;
}

int world_clean_up(void **state) {
    test_free(*state);
    return 0;
}

void world_expect_seen(void **state, bool moves) {
    const bool *seen = *state;
    for (int op = 0; op < N_OP; op++) {
        OpKind kind = op_kind((Op)op);
        bool moved = kind == KIND_MOVE || kind == KIND_SCAN || op == OP_CARRY;
        if (moved == moves && !seen[op])
            fail_msg("no test evaluates '%s'", op_name((Op)op));
    }
}
