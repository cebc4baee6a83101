// SPDX-License-Identifier: Apache-2.0
// A module made by hand whose kernels are C functions.
//
//     def Scores(X[n, d], param P[d, h], mask[n]: bool):   d = 3, n and h dynamic, m like n
//         W[n, h] = einsum(X, P)                            workspace
//         Y[n] = mask ? sum(W, h) : 0
//         T[m, n, h] = W[m, h] + n
#ifndef ATTC_TESTS_MODULE_FIXTURE_H
#define ATTC_TESTS_MODULE_FIXTURE_H

#include "module.h"

enum { D = 3 };
enum { DIM_N, DIM_D, DIM_H, DIM_M, N_DIMS };

// What a generated header declares for this entry.
typedef struct {
    size_t struct_size;
    int64_t n, h, m;
    const float *X, *P;
    const uint8_t *mask;
    float *Y, *T;
    void *workspace;
    size_t workspace_bytes;
} Args;

// Input and output of one call, with room behind each that must stay as it is.
typedef struct {
    int64_t n, h;
    float x[64 * D], p[D * 8], y[65], t[64 * 64 * 8 + 1];
    uint8_t mask[64];
} Case;

extern const AttModule module_scores;

Case *module_case_new(int64_t n, int64_t h);
void module_case_check(const Case *c); // of what a call has made of it
Args module_case_args(Case *c);
int module_prepare(void **state); // the state is a context
int module_clean_up(void **state);

#endif
