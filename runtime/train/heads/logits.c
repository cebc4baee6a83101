// SPDX-License-Identifier: Apache-2.0
// The effective rank of each head's logits on one example (Bhojanapalli, Yun, Rawat, Reddi, Kumar
// 2020, "Low-Rank Bottleneck in Multi-head Attention Models"): a head of width d_k has logits of
// rank d_k at most, whatever the number of positions.
//
// Singular values come as roots of the eigenvalues of L transpose(L): small ones are lost, of which
// the entropy has nothing.
#include "train/heads/heads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// More queries and memory positions are left out: the work grows with their third power.
enum { POSITIONS_MOST = 512 };
// All logits are there at once; larger ones have no ranks.
#define BYTES_MOST (INT64_C(1) << 30)

typedef struct {
    AttContext *ctx;
    const AttHeadSettings *settings;
    AttBatch *batch;
    AttCall call;
    double *ranks; // by number of the result and head
    const char **names;
    int64_t count, heads; // results, and the most heads of one
} Logits;

static const AttTensor *result_of(const Logits *l, int64_t i) {
    return &l->call.module->tensors[l->call.outputs[i]];
}

static int64_t extent_of(const Logits *l, const AttTensor *tensor, int64_t dim) {
    return l->call.extents[tensor->dims[dim]];
}

// All dims but those of queries and memory, and that of batches.
static int64_t heads_of(const Logits *l, const AttTensor *tensor) {
    const AttModule *entry = l->batch->trainer->entry;
    int64_t batch = att_batch_dim(l->batch->trainer), count = 1;
    for (int64_t i = 0; i < tensor->rank - 2; i++) {
        const char *name = l->call.module->dims[tensor->dims[i]].name;
        if (i > 0 || batch < 0 || strcmp(name, entry->dims[batch].name) != 0)
            count *= extent_of(l, tensor, i);
    }
    return count;
}

static int64_t bytes_of(const Logits *l) {
    int64_t sum = 0;
    for (int64_t i = 0; i < l->count; i++) {
        const AttTensor *tensor = result_of(l, i);
        int64_t shape[ATT_RANK_MAX], bytes;
        att_shape_of(l->call.module, tensor, l->call.extents, shape);
        if (!att_bytes_of((int)tensor->rank, shape, att_elem_bytes((AttElem)tensor->elem), &bytes))
            return BYTES_MOST + 1;
        sum = bytes < BYTES_MOST && sum <= BYTES_MOST ? sum + bytes : BYTES_MOST + 1;
    }
    return sum;
}

// The call writes results with dims, which it has no memory for.
static AttStatus add_memory(Logits *l) {
    for (int64_t i = 0; i < l->count; i++) {
        const AttTensor *tensor = result_of(l, i);
        int64_t shape[ATT_RANK_MAX];
        AttTensorData data;
        att_shape_of(l->call.module, tensor, l->call.extents, shape);
        AttStatus status =
            att_tensor_new(l->ctx, (AttElem)tensor->elem, (int)tensor->rank, shape, &data);
        l->call.tensors[l->call.outputs[i]] = data.data;
        if (status)
            return status;
        int64_t heads = heads_of(l, tensor);
        l->heads = heads > l->heads ? heads : l->heads;
    }
    return ATT_OK;
}

// ---- ranks -------------------------------------------------------------------------------------

// L transpose(L) of n x m logits with rows `stride` apart.
static void square(const float *logits, int64_t stride, int64_t n, int64_t m, double *out) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0;
            for (int64_t k = 0; k < m; k++)
                sum += (double)logits[i * stride + k] * logits[j * stride + k];
            out[i * n + j] = out[j * n + i] = sum;
        }
}

// NaN where logits are not finite.
static double rank_of(const float *logits, int64_t stride, int64_t n, int64_t m, double *room) {
    double *values = room + n * n, *work = values + n;
    square(logits, stride, n, m, room);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(room[i * n + i]))
            return NAN;
    att_symmetric_eigenvalues(n, room, values, work);
    for (int64_t i = 0; i < n; i++)
        values[i] = values[i] > 0 ? sqrt(values[i]) : 0;
    return att_effective_rank(n, values);
}

static AttStatus find_ranks(Logits *l, int64_t i) {
    const AttTensor *tensor = result_of(l, i);
    int64_t n = extent_of(l, tensor, tensor->rank - 2), m = extent_of(l, tensor, tensor->rank - 1);
    const float *logits = l->call.tensors[l->call.outputs[i]];
    int64_t rows = n < POSITIONS_MOST ? n : POSITIONS_MOST;
    int64_t columns = m < POSITIONS_MOST ? m : POSITIONS_MOST;
    double *room = malloc(sizeof *room * (size_t)(rows * rows + 3 * rows));
    if (!room)
        return att_no_memory(l->ctx);
    for (int64_t h = 0; h < heads_of(l, tensor) && tensor->elem == ATT_F32; h++)
        l->ranks[i * l->heads + h] = rank_of(logits + h * n * m, m, rows, columns, room);
    free(room);
    return ATT_OK;
}

static AttStatus find_all(Logits *l) {
    size_t cells = (size_t)(l->count * l->heads);
    l->ranks = malloc(sizeof *l->ranks * cells);
    l->names = malloc(sizeof *l->names * (size_t)l->count);
    if (!l->ranks || !l->names)
        return att_no_memory(l->ctx);
    for (size_t i = 0; i < cells; i++)
        l->ranks[i] = NAN;
    AttStatus status = ATT_OK;
    for (int64_t i = 0; i < l->count && !status; i++) {
        l->names[i] = result_of(l, i)->name;
        status = find_ranks(l, i);
    }
    return status;
}

static void tell(const Logits *l, FILE *out) {
    for (int64_t i = 0; i < l->count; i++) {
        const AttTensor *tensor = result_of(l, i);
        int64_t n = extent_of(l, tensor, tensor->rank - 2);
        int64_t m = extent_of(l, tensor, tensor->rank - 1), least = n < m ? n : m;
        fprintf(out, "%s: effective ranks of logits", l->names[i]);
        for (int64_t h = 0; h < heads_of(l, tensor); h++)
            fprintf(out, " %.3g", l->ranks[i * l->heads + h]);
        fprintf(out, " of %lld\n", (long long)(least < POSITIONS_MOST ? least : POSITIONS_MOST));
    }
}

static AttStatus work(Logits *l, AttData *data, FILE *report, const char *path) {
    AttStatus status = att_data_batch(l->ctx, data, ATT_PART_TRAIN, 0, 1, l->batch->filled);
    att_batch_seed(l->batch, ATT_SEED_NONE);
    if (!status)
        status = add_memory(l);
    if (!status)
        status = att_call_run(l->ctx, &l->call);
    if (!status)
        status = find_all(l);
    if (status)
        return status;
    tell(l, report);
    AttHeatMap map = {.title = "effective rank of logits",
                      .rows = l->count,
                      .columns = l->heads,
                      .cells = l->ranks,
                      .row_names = l->names,
                      .row_title = "attention",
                      .column_title = "head"};
    return path ? att_heat_maps_write(l->ctx, path, &map, 1, 1) : ATT_OK;
}

AttStatus att_heads_logits(AttContext *ctx, const AttHeadSettings *settings, AttData *data,
                           AttBatch *batch, FILE *report, const char *path) {
    const AttModule *module = batch->trainer->heads->logits;
    Logits l = {.ctx = ctx, .settings = settings, .batch = batch};
    if (!module)
        return ATT_OK;
    AttStatus status =
        att_call_open(ctx, module, settings->model, batch, NULL, &settings->dims, &l.call);
    l.count = status ? 0 : l.call.n_results;
    for (int64_t i = 0; i < l.count; i++)
        l.call.tensors[l.call.outputs[i]] = NULL;
    if (!status && bytes_of(&l) > BYTES_MOST)
        fprintf(report,
                "effective ranks of logits are left out: all logits take more than 1 GiB\n");
    else if (!status)
        status = work(&l, data, report, path);
    for (int64_t i = 0; i < l.count; i++)
        att_release(l.call.tensors[l.call.outputs[i]]);
    if (l.call.module)
        att_call_close(&l.call);
    free(l.ranks);
    free(l.names);
    return status;
}
