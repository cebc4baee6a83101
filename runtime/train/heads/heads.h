// SPDX-License-Identifier: Apache-2.0
// The heads of a trained model: how much each matters, a model with fewer, and what mixes them.
//
//     measure.c        importance, and the loss without a head or with it alone
//     prune.c          a model without the least important heads
//     mixing.c         matrices that mix heads, spaces of heads
//     logits.c         effective ranks of logits
//     heat_map.c       pictures
//     svd.c, eigen.c   singular values, eigenvalues
#ifndef ATT_HEADS_H
#define ATT_HEADS_H

#include <stdio.h>

#include "train/model/model.h"

// ---- svd.c -------------------------------------------------------------------------------------
// Of a row-major matrix, in decreasing order; there are as many as the smaller of rows and columns.
// The matrix is worked on in place.
void att_singular_values(int64_t rows, int64_t columns, double *matrix, double *values);
// Orthonormal columns that span what those of the matrix do, in their place; 0 in those that it has
// no direction for.
void att_orthonormal_columns(int64_t rows, int64_t columns, double *matrix);
// The exponential of the entropy of the values over their sum: as many as there are where they are
// equal, 1 where one of them is all (Roy and Vetterli 2007).
double att_effective_rank(int64_t count, const double *values);

// ---- eigen.c -----------------------------------------------------------------------------------
// Of a symmetric matrix of n x n, in no order. It is worked on in place; work: 2 n numbers.
void att_symmetric_eigenvalues(int64_t n, double *matrix, double *values, double *work);

// ---- heat_map.c --------------------------------------------------------------------------------
typedef struct {
    const char *title;
    int64_t rows, columns;
    const double *cells;          // row-major; NaN: there is none
    const char *const *row_names; // NULL: numbers, as columns have
    const char *row_title, *column_title;
    bool has_signs; // colours from blue over white at 0 to red; else from white at 0 to blue
} AttHeatMap;
// An SVG of the maps, so many side by side.
AttStatus att_heat_maps_write(AttContext *ctx, const char *path, const AttHeatMap *maps,
                              int64_t count, int64_t abreast);

// ---- measure.c ---------------------------------------------------------------------------------
typedef struct {
    int64_t mask, position; // of trainer->heads; which of its heads, row-major
    double importance;      // mean over examples of |dLoss/dxi|
    double without, alone;  // mean losses; NaN where they were not asked for
} AttHeadFigure;
typedef struct {
    int64_t examples, count;
    double loss; // with all heads
    AttHeadFigure *at;
} AttHeadFigures;
typedef struct {
    const AttModel *model;
    AttWords dims;                               // of -D
    int64_t examples;                            // from the first on
    bool losses;                                 // also without each head, and with it alone
    void (*progress)(int64_t done, int64_t all); // examples; NULL: nobody is told
} AttHeadSettings;
// The batch has one example, or as many as the entry is built for.
AttStatus att_heads_measure(AttContext *ctx, const AttHeadSettings *settings, AttData *data,
                            AttBatch *batch, AttHeadFigures *out);
void att_heads_forget(AttHeadFigures *figures);
int64_t att_heads_of(const AttHeads *heads, int64_t mask); // how many heads it is over

// ---- logits.c ----------------------------------------------------------------------------------
// Effective ranks of each attention's logits on the first example, as lines of the report and a
// picture at a path (NULL: none). Nothing where the trainer has no logits.
AttStatus att_heads_logits(AttContext *ctx, const AttHeadSettings *settings, AttData *data,
                           AttBatch *batch, FILE *report, const char *path);

// ---- prune.c -----------------------------------------------------------------------------------
typedef struct {
    double share;                 // of the heads of each dim
    const char *weights, *source; // where to write
    FILE *report;
} AttHeadPruning;
AttStatus att_heads_prune(AttContext *ctx, const AttModel *model, const AttHeadFigures *figures,
                          const AttHeadPruning *wish);

// ---- mixing.c ----------------------------------------------------------------------------------
// Numbers as lines of the report and pictures at a path (NULL: none): of matrices that mix heads,
// and of what the spaces of heads have in common.
AttStatus att_heads_mixing(AttContext *ctx, const AttModel *model, FILE *report, const char *path);
AttStatus att_heads_spaces(AttContext *ctx, const AttModel *model, FILE *report, const char *path);

#endif
