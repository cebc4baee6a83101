// SPDX-License-Identifier: Apache-2.0
// A C program that calls a library made by attc, and checks it against loops of its own.
//
// At the top of the project, after `make`:
//
//     build/attc build examples/talking_heads.attn --static -o build/libtalking_heads.a
//     cc -Ibuild examples/c/talking_heads.c build/libtalking_heads.a -lm -lpthread -o build/heads
//     build/heads
//
// One library serves every number of queries and memory vectors; the other extents are constants of
// the compiled code, and of the header.
#include "libtalking_heads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    D_X = TalkingHeadsAttention_dim_d_X,
    D_M = TalkingHeadsAttention_dim_d_M,
    D_Y = TalkingHeadsAttention_dim_d_Y,
    D_K = TalkingHeadsAttention_dim_d_k,
    D_V = TalkingHeadsAttention_dim_d_v,
    H_K = TalkingHeadsAttention_dim_h_k,
    H = TalkingHeadsAttention_dim_h,
    H_V = TalkingHeadsAttention_dim_h_v
};

static void *must(void *memory) {
    if (memory)
        return memory;
    fprintf(stderr, "out of memory\n");
    exit(1);
}

static float *draw(uint64_t stream, double scale, int64_t count) {
    float *values = must(malloc((size_t)count * sizeof *values));
    att_random_normal(1, stream, count, values);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)(values[i] * scale);
    return values;
}

static double *zeros(int64_t count) {
    return must(calloc((size_t)count, sizeof(double)));
}

// out[i, c] = sum_d x[i, d] p[d, c]
static double *project(const float *x, int64_t rows, const float *p, int64_t depth,
                       int64_t columns) {
    double *out = zeros(rows * columns);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t d = 0; d < depth; d++)
            for (int64_t c = 0; c < columns; c++)
                out[i * columns + c] += (double)x[i * depth + d] * p[d * columns + c];
    return out;
}

// One query: logits[h_k], mixed and put through a softmax over m, mixed again, times the values.
// q[d_k, h_k], k[m, d_k, h_k], v[m, d_v, h_v] -> o[d_v, h_v]
static void attend(const TalkingHeadsAttention_args *a, const double *q, const double *k,
                   const double *v, double *weights, double *o) {
    int64_t m = a->m;
    double largest[H], total[H] = {0};
    for (int h = 0; h < H; h++)
        largest[h] = -INFINITY;
    for (int64_t j = 0; j < m; j++) {
        double logits[H_K] = {0};
        for (int d = 0; d < D_K; d++)
            for (int h = 0; h < H_K; h++)
                logits[h] += q[d * H_K + h] * k[(j * D_K + d) * H_K + h];
        for (int h = 0; h < H; h++) {
            double mixed = 0;
            for (int g = 0; g < H_K; g++)
                mixed += logits[g] * a->P_l[g * H + h];
            weights[j * H + h] = mixed;
            largest[h] = fmax(largest[h], mixed);
        }
    }
    for (int64_t j = 0; j < m; j++)
        for (int h = 0; h < H; h++)
            total[h] += weights[j * H + h] = exp(weights[j * H + h] - largest[h]);
    for (int i = 0; i < D_V * H_V; i++)
        o[i] = 0;
    for (int64_t j = 0; j < m; j++)
        for (int g = 0; g < H_V; g++) {
            double mixed = 0;
            for (int h = 0; h < H; h++)
                mixed += weights[j * H + h] / total[h] * a->P_w[h * H_V + g];
            for (int d = 0; d < D_V; d++)
                o[d * H_V + g] += mixed * v[(j * D_V + d) * H_V + g];
        }
}

// Y[n, d_Y] in double precision, straight from the formula.
static double *naive(const TalkingHeadsAttention_args *a) {
    double *q = project(a->X, a->n, a->P_q, D_X, D_K * H_K);
    double *k = project(a->M, a->m, a->P_k, D_M, D_K * H_K);
    double *v = project(a->M, a->m, a->P_v, D_M, D_V * H_V);
    double *weights = zeros(a->m * H), *o = zeros(D_V * H_V), *y = zeros(a->n * D_Y);
    for (int64_t i = 0; i < a->n; i++) {
        attend(a, q + i * D_K * H_K, k, v, weights, o);
        for (int64_t d = 0; d < D_Y; d++)
            for (int c = 0; c < D_V * H_V; c++)
                y[i * D_Y + d] += o[c] * a->P_o[d * D_V * H_V + c];
    }
    free(q), free(k), free(v), free(weights), free(o);
    return y;
}

// Largest error over largest value.
static double compare(const float *y, const double *expected, int64_t count) {
    double error = 0, largest = 0;
    for (int64_t i = 0; i < count; i++) {
        double off = fabs(y[i] - expected[i]);
        error = off > error || isnan(off) ? off : error;
        largest = fmax(largest, fabs(expected[i]));
    }
    return error / largest;
}

static int check(AttContext *ctx, TalkingHeadsAttention_args *args) {
    args->workspace_bytes = TalkingHeadsAttention_workspace(args->n, args->m);
    size_t rounded = ((size_t)args->workspace_bytes + 64) / 64 * 64;
    args->workspace = must(aligned_alloc(64, rounded));
    AttStatus status = TalkingHeadsAttention(ctx, args);
    free(args->workspace);
    if (status) {
        fprintf(stderr, "TalkingHeadsAttention: %s\n", att_message(ctx));
        return 1;
    }
    double *expected = naive(args);
    double error = compare(args->Y, expected, args->n * D_Y);
    free(expected);
    int good = error < 1e-5;
    printf("n = %3lld, m = %3lld: relative error %.1e%s\n", (long long)args->n, (long long)args->m,
           error, good ? "" : " is too large");
    return !good;
}

int main(void) {
    static const int64_t sizes[][2] = {{1, 1}, {3, 50}, {37, 19}};
    enum { N_MAX = 37, M_MAX = 50 };
    AttContext *ctx = must(att_context_new(0));
    TalkingHeadsAttention_args args = {
        .struct_size = sizeof args,
        .X = draw(1, 1, (int64_t)N_MAX * D_X),
        .M = draw(2, 1, (int64_t)M_MAX * D_M),
        .P_q = draw(3, pow(D_X, -0.5) * pow(D_K, -0.25), (int64_t)D_X * D_K * H_K),
        .P_k = draw(4, pow(D_M, -0.5) * pow(D_K, -0.25), (int64_t)D_M * D_K * H_K),
        .P_v = draw(5, pow(D_M, -0.5), (int64_t)D_M * D_V * H_V),
        .P_o = draw(6, pow((double)D_V * H_V, -0.5), (int64_t)D_Y * D_V * H_V),
        .P_l = draw(7, pow(H_K, -0.5), (int64_t)H_K * H),
        .P_w = draw(8, pow(H, -0.5), (int64_t)H * H_V),
        .Y = must(malloc((size_t)N_MAX * D_Y * sizeof(float))),
    };
    int failures = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        args.n = sizes[i][0];
        args.m = sizes[i][1];
        failures += check(ctx, &args);
    }
    free((void *)args.X), free((void *)args.M), free((void *)args.P_q), free((void *)args.P_k);
    free((void *)args.P_v), free((void *)args.P_o), free((void *)args.P_l), free((void *)args.P_w);
    free(args.Y);
    att_context_free(ctx);
    return failures != 0;
}
