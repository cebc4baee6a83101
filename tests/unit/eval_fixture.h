// SPDX-License-Identifier: Apache-2.0
// Graphs of a few values, and the numbers that the oracle makes of them.
#ifndef ATTC_TESTS_EVAL_FIXTURE_H
#define ATTC_TESTS_EVAL_FIXTURE_H

#include "graph/graph.h"

// One session, graph and set of input arrays per test.
typedef struct {
    Session *session;
    Graph *graph;
    double *inputs[8];
    bool *seen; // by Op: evaluated by some test
} World;

// The state of a group of tests is the list of ops seen.
int world_prepare(void **state);
int world_clean_up(void **state);
void world_expect_seen(void **state, bool moves); // all ops that move or scan; or all the others

World *world_new(void **state);
void world_free(World *world);
Name world_name(World *world, const char *text);
DimId world_dim(World *world, const char *name, int64_t extent);
Value *world_input(World *world, const char *name, Elem elem, DimList dims, double *numbers);
const double *world_evaluate(World *world, Value *value, EvalMode mode);
void world_expect_number(double have, double want);
void world_expect(World *world, Value *value, EvalMode mode, const double *want, size_t n);

#define DIMS(...) ((DimList){sizeof((DimId[]){__VA_ARGS__}) / sizeof(DimId), {__VA_ARGS__}})
#define NUMBERS(...) ((double[]){__VA_ARGS__})

#define expect(world, value, ...)                                                                  \
    world_expect(world, value, EVAL_F64, NUMBERS(__VA_ARGS__),                                     \
                 sizeof NUMBERS(__VA_ARGS__) / sizeof(double))
#define expect_f32(world, value, ...)                                                              \
    world_expect(world, value, EVAL_F32, NUMBERS(__VA_ARGS__),                                     \
                 sizeof NUMBERS(__VA_ARGS__) / sizeof(double))

#endif
