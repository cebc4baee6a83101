// SPDX-License-Identifier: Apache-2.0
// Eigenvalues of symmetric matrices: Householder reflections to a tridiagonal matrix, then QL steps
// with implicit shifts (Bowdler, Martin, Reinsch, Wilkinson 1968; Golub and Van Loan, Matrix
// Computations, 8.3). About 4/3 n^3 multiplies, where Jacobi (svd.c) takes tens of n^3.
#include "train/heads/heads.h"

#include <math.h>

enum { STEPS_MOST = 60 }; // for an eigenvalue; two or three are enough for almost all

// Row and column k become zero but for `diagonal` and `beside`, by a reflection of what is behind.
static void reflect(int64_t n, double *a, int64_t k, double *diagonal, double *beside,
                    double *work) {
    double norm = 0, square = 0, mixed = 0;
    diagonal[k] = a[k * n + k];
    for (int64_t i = k + 1; i < n; i++)
        norm = hypot(norm, a[i * n + k]);
    beside[k] = a[(k + 1) * n + k] > 0 ? -norm : norm;
    a[(k + 1) * n + k] -= beside[k];
    for (int64_t i = k + 1; i < n; i++)
        square += a[i * n + k] * a[i * n + k];
    if (square == 0)
        return;
    for (int64_t i = k + 1; i < n; i++) {
        double sum = 0;
        for (int64_t j = k + 1; j < n; j++)
            sum += a[i * n + j] * a[j * n + k];
        work[i] = 2 * sum / square;
        mixed += work[i] * a[i * n + k] / square;
    }
    for (int64_t i = k + 1; i < n; i++)
        work[i] -= mixed * a[i * n + k];
    for (int64_t i = k + 1; i < n; i++)
        for (int64_t j = k + 1; j < n; j++)
            a[i * n + j] -= a[i * n + k] * work[j] + work[i] * a[j * n + k];
}

// One QL step on first .. last of a tridiagonal matrix.
static void step(double *diagonal, double *beside, int64_t first, int64_t last) {
    double g = (diagonal[first + 1] - diagonal[first]) / (2 * beside[first]);
    double sine = 1, cosine = 1, shift = 0;
    g = diagonal[last] - diagonal[first] + beside[first] / (g + copysign(hypot(g, 1), g));
    for (int64_t i = last - 1; i >= first; i--) {
        double f = sine * beside[i], b = cosine * beside[i], r = hypot(f, g);
        beside[i + 1] = r;
        if (r == 0) {
            diagonal[i + 1] -= shift;
            beside[last] = 0;
            return;
        }
        sine = f / r;
        cosine = g / r;
        g = diagonal[i + 1] - shift;
        r = (diagonal[i] - g) * sine + 2 * cosine * b;
        shift = sine * r;
        diagonal[i + 1] = g + shift;
        g = cosine * r - b;
    }
    diagonal[first] -= shift;
    beside[first] = g;
    beside[last] = 0;
}

// Where the matrix falls apart, at or behind `first`.
static int64_t find_end(const double *diagonal, const double *beside, int64_t n, int64_t first) {
    int64_t last = first;
    while (last < n - 1 &&
           fabs(beside[last]) > 0x1p-52 * (fabs(diagonal[last]) + fabs(diagonal[last + 1])))
        last++;
    return last;
}

void att_symmetric_eigenvalues(int64_t n, double *matrix, double *values, double *work) {
    double *beside = work, *more = work + n;
    for (int64_t k = 0; k + 2 < n; k++)
        reflect(n, matrix, k, values, beside, more);
    if (n > 1) {
        values[n - 2] = matrix[(n - 2) * n + n - 2];
        beside[n - 2] = matrix[(n - 1) * n + n - 2];
    }
    values[n - 1] = matrix[n * n - 1];
    beside[n - 1] = 0;
    for (int64_t first = 0; first < n; first++)
        for (int steps = 0; steps < STEPS_MOST; steps++) {
            int64_t last = find_end(values, beside, n, first);
            if (last == first)
                break;
            step(values, beside, first, last);
        }
}
