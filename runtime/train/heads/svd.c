// SPDX-License-Identifier: Apache-2.0
// Singular values of small matrices: one-sided Jacobi (Hestenes 1958; Golub and Van Loan, Matrix
// Computations, 8.6.3).
//
// Rotates pairs of vectors (the columns, or the rows where these are fewer) until all are
// orthogonal; their lengths are the singular values then, and what they span is as before, so that
// an orthonormal basis falls out as well. Small values have a small relative error (Demmel and
// Veselic 1992), which condition numbers need.
#include "train/heads/heads.h"

#include <math.h>
#include <stdlib.h>

enum { SWEEPS_MOST = 60 }; // ten are enough for almost all

// The vectors of a matrix: number i, element k is at[i * step + k * stride].
typedef struct {
    double *at;
    int64_t count, length, step, stride;
} Vectors;

static double dot(const Vectors *v, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t k = 0; k < v->length; k++)
        sum += v->at[i * v->step + k * v->stride] * v->at[j * v->step + k * v->stride];
    return sum;
}

// Makes two of them orthogonal; false where they are so already.
static bool rotate(const Vectors *v, int64_t i, int64_t j) {
    double a = dot(v, i, i), b = dot(v, j, j), c = dot(v, i, j);
    if (!(fabs(c) > 1e-15 * sqrt(a) * sqrt(b)))
        return false;
    double zeta = (b - a) / (2 * c);
    double t = copysign(1, zeta) / (fabs(zeta) + hypot(1, zeta));
    double cosine = 1 / hypot(1, t), sine = cosine * t;
    for (int64_t k = 0; k < v->length; k++) {
        double *p = &v->at[i * v->step + k * v->stride], *q = &v->at[j * v->step + k * v->stride];
        double old = *p;
        *p = cosine * old - sine * *q;
        *q = sine * old + cosine * *q;
    }
    return true;
}

static void make_orthogonal(const Vectors *v) {
    bool changed = true;
    for (int sweep = 0; changed && sweep < SWEEPS_MOST; sweep++) {
        changed = false;
        for (int64_t i = 0; i < v->count; i++)
            for (int64_t j = i + 1; j < v->count; j++)
                changed |= rotate(v, i, j);
    }
}

static int larger_first(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

void att_singular_values(int64_t rows, int64_t columns, double *matrix, double *values) {
    Vectors v = rows < columns ? (Vectors){matrix, rows, columns, columns, 1}
                               : (Vectors){matrix, columns, rows, 1, columns};
    make_orthogonal(&v);
    for (int64_t i = 0; i < v.count; i++)
        values[i] = sqrt(dot(&v, i, i));
    qsort(values, (size_t)v.count, sizeof *values, larger_first);
}

void att_orthonormal_columns(int64_t rows, int64_t columns, double *matrix) {
    Vectors v = {matrix, columns, rows, 1, columns};
    make_orthogonal(&v);
    double largest = 0;
    for (int64_t i = 0; i < columns; i++)
        largest = fmax(largest, dot(&v, i, i));
    for (int64_t i = 0; i < columns; i++) {
        double square = dot(&v, i, i);
        // A direction that rounding alone has made is none of the space.
        double factor = square > 1e-24 * largest ? 1 / sqrt(square) : 0;
        for (int64_t k = 0; k < rows; k++)
            matrix[k * columns + i] *= factor;
    }
}

double att_effective_rank(int64_t count, const double *values) {
    double sum = 0, entropy = 0;
    for (int64_t i = 0; i < count; i++)
        sum += values[i];
    for (int64_t i = 0; i < count && sum > 0; i++)
        if (values[i] > 0)
            entropy -= values[i] / sum * log(values[i] / sum);
    return sum > 0 ? exp(entropy) : 0;
}
