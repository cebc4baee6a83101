// SPDX-License-Identifier: Apache-2.0
// Compute stages over two dims of many sizes, known and read at run time, for tests that compare
// what the CPU makes of them with the tile interpreter.
#ifndef ATTC_CPU_GRID_H
#define ATTC_CPU_GRID_H

#include "cpu_fixture.h"

static const int64_t sizes[] = {1, 2, 3, 5, 7, 13, 17, 31, 33, 64, 65, 127, 200};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static inline int64_t extent_of(int64_t extent, bool dynamic) {
    return dynamic ? EXTENT_DYNAMIC : extent;
}

// A kernel over n and d whose body a test fills in.
typedef struct {
    Arena *arena;
    Kernel *k;
    TileDimId n, d;
    int64_t extents[4];
} Grid;

typedef void (*Build)(Grid *grid);

// every: 1 for all sizes, more where a kernel of many ops takes long to compile.
static inline void compare_grid(Build build, double tolerance, int every) {
    for (int i = 0; i < N_SIZES; i += every)
        for (int dynamic = 0; dynamic < 2; dynamic++) {
            Grid grid = {.arena = arena_new()};
            grid.k = kernel_new(grid.arena, "grid");
            grid.extents[0] = sizes[(i * 5 + 1) % 9];
            grid.extents[1] = sizes[i];
            grid.n = kernel_add_dim(grid.k, "n", extent_of(grid.extents[0], dynamic));
            grid.d = kernel_add_dim(grid.k, "d", extent_of(grid.extents[1], dynamic));
            build(&grid);
            cpu_compare(grid.k, grid.extents, tolerance);
            arena_free(grid.arena);
        }
}

static inline uint16_t in(Grid *g, const char *name, Elem elem, TileDimList dims) {
    return kernel_add_argument(g->k, name, elem, PLACE_IN, dims);
}

static inline uint16_t out(Grid *g, const char *name, Elem elem, TileDimList dims) {
    return kernel_add_argument(g->k, name, elem, PLACE_OUT, dims);
}

static inline int32_t load(Grid *g, Stage *stage, uint16_t buffer) {
    return stage_load(g->k, stage, access_plain(g->k, buffer));
}

static inline void set(Grid *g, Stage *stage, uint16_t buffer, int32_t term) {
    stage_sink(g->k, stage, SINK_SET, access_plain(g->k, buffer), term);
}

#endif
