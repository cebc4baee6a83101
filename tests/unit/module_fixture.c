// SPDX-License-Identifier: Apache-2.0
#include "module_fixture.h"

#include "support.h"

#include <stdlib.h>
#include <string.h>

// Kernel dims: rows, columns, k. Two rows and one column a task.
static void product(void *const *buffers, const int64_t *extents, void *scratch, int64_t task) {
    const float *x = buffers[0], *p = buffers[1];
    float *w = buffers[2], *row = scratch;
    int64_t column = task % extents[1], first = task / extents[1] * 2;
    for (int64_t n = first; n < first + 2 && n < extents[0]; n++) {
        memcpy(row, x + n * extents[2], (size_t)extents[2] * sizeof *row);
        float sum = 0;
        for (int64_t k = 0; k < extents[2]; k++)
            sum += row[k] * p[k * extents[1] + column];
        w[n * extents[1] + column] = sum;
    }
}

static int64_t product_scratch(const int64_t *extents) {
    return extents[2] * (int64_t)sizeof(float);
}

// Kernel dims: n, h. One row a task.
static void row_sum(void *const *buffers, const int64_t *extents, void *scratch, int64_t task) {
    const float *w = buffers[0];
    const uint8_t *mask = buffers[1];
    float sum = 0;
    (void)scratch;
    for (int64_t h = 0; h < extents[1]; h++)
        sum += w[task * extents[1] + h];
    ((float *)buffers[2])[task] = mask[task] ? sum : 0;
}

// Kernel dims: m, n * h together, h. No parallel dims: one task.
static void spread(void *const *buffers, const int64_t *extents, void *scratch, int64_t task) {
    const float *w = buffers[0];
    float *t = buffers[1];
    (void)scratch;
    (void)task;
    for (int64_t m = 0; m < extents[0]; m++)
        for (int64_t nh = 0; nh < extents[1]; nh++)
            t[m * extents[1] + nh] = w[m * extents[2] + nh % extents[2]] + (float)(nh / extents[2]);
}

static const AttDim dims[N_DIMS] = {
    {"n", -1, DIM_N, 0, 0}, {"d", D, DIM_D, 0, 0}, {"h", -1, DIM_H, 0, 0}, {"m", -1, DIM_N, 0, 0}};
static const int64_t dims_x[] = {DIM_N, DIM_D}, dims_p[] = {DIM_D, DIM_H},
                     dims_w[] = {DIM_N, DIM_H}, dims_t[] = {DIM_M, DIM_N, DIM_H};
static const AttTensor tensors[] = {
    {"X", ATT_F32, ATT_INPUT, 0, 2, dims_x, 0, 0, 0, ATT_USE_PLAIN, 0, NULL},
    {"P", ATT_F32, ATT_INPUT, 0, 2, dims_p, 1, 0, 0, ATT_USE_PLAIN, 0, NULL},
    {"mask", ATT_BOOL, ATT_INPUT, 0, 1, dims_x, 0, 0, 0, ATT_USE_PLAIN, 0, NULL},
    {"Y", ATT_F32, ATT_OUTPUT, 0, 1, dims_x, 0, 0, 0, ATT_USE_PLAIN, 0, NULL},
    {"T", ATT_F32, ATT_OUTPUT, 0, 3, dims_t, 0, 0, 0, ATT_USE_PLAIN, 0, NULL},
    {"W", ATT_F32, ATT_WORK, 0, 2, dims_w, 0, 0, 0, ATT_USE_PLAIN, 0, NULL},
};
static const int64_t parallel_product[] = {0, 1}, steps_product[] = {2, 1}, parallel_row[] = {0},
                     steps_row[] = {1};
#define EVERY_LEVEL(value) {value, value, value}
static const AttKernel kernels[] = {
    {"product", EVERY_LEVEL(product), EVERY_LEVEL(product_scratch), 2, parallel_product,
     EVERY_LEVEL(steps_product), 3, 3, 0},
    {"row_sum", EVERY_LEVEL(row_sum), EVERY_LEVEL(NULL), 1, parallel_row, EVERY_LEVEL(steps_row), 3,
     2, 0},
    {"spread", EVERY_LEVEL(spread), EVERY_LEVEL(NULL), 0, NULL, EVERY_LEVEL(NULL), 2, 3, 0},
};
static const int64_t args_product[] = {0, 1, 5}, args_row[] = {5, 2, 3}, args_spread[] = {5, 4};
static const int64_t factors_product[] = {1, DIM_N, 1, DIM_H, 1, DIM_D},
                     factors_row[] = {1, DIM_N, 1, DIM_H},
                     factors_spread[] = {1, DIM_M, 2, DIM_N, DIM_H, 1, DIM_H};
static const AttLaunch launches[] = {{0, args_product, factors_product, 0, NULL, ATT_NO_CHOICE, 0},
                                     {1, args_row, factors_row, 0, NULL, ATT_NO_CHOICE, 0},
                                     {2, args_spread, factors_spread, 0, NULL, ATT_NO_CHOICE, 0}};
const AttModule module_scores = {
    .abi = ATT_MODULE_ABI,
    .entry = "Scores",
    .manifest = "{\"entry\": \"Scores\"}",
    .n_dims = N_DIMS,
    .dims = dims,
    .n_tensors = 6,
    .tensors = tensors,
    .n_slots = 1,
    .n_kernels = 3,
    .kernels = kernels,
    .n_launches = EVERY_LEVEL(3),
    .launches = EVERY_LEVEL(launches),
};

Case *module_case_new(int64_t n, int64_t h) {
    Case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->n = n;
    c->h = h;
    for (int64_t i = 0; i < n * D; i++)
        c->x[i] = (float)(i % 17 - 8);
    for (int64_t i = 0; i < D * h; i++)
        c->p[i] = (float)(i % 5 - 2);
    for (int64_t i = 0; i < n; i++)
        c->mask[i] = i % 3 != 0;
    c->y[n] = c->t[n * n * h] = 12345;
    return c;
}

void module_case_check(const Case *c) {
    for (int64_t n = 0; n < c->n; n++) {
        float sum = 0;
        for (int64_t h = 0; h < c->h; h++) {
            float w = 0;
            for (int64_t d = 0; d < D; d++)
                w += c->x[n * D + d] * c->p[d * c->h + h];
            sum += w;
            for (int64_t k = 0; k < c->n; k++)
                assert_true(c->t[(n * c->n + k) * c->h + h] == w + (float)k);
        }
        assert_true(c->y[n] == (c->mask[n] ? sum : 0));
    }
    assert_true(c->y[c->n] == 12345 && c->t[c->n * c->n * c->h] == 12345);
}

Args module_case_args(Case *c) {
    return (Args){sizeof(Args), c->n, c->h, c->n, c->x, c->p, c->mask, c->y, c->t, NULL, 0};
}

int module_prepare(void **state) {
    *state = att_context_new(3);
    return *state ? 0 : -1;
}

int module_clean_up(void **state) {
    att_context_free(*state);
    return 0;
}
