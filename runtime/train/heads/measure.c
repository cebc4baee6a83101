// SPDX-License-Identifier: Apache-2.0
// How much heads matter: E|dLoss/dxi| of the factor xi of each head (Michel, Levy, Neubig 2019,
// section 4.1), and the loss where it is 0 for one head or for all others of the same value
// (sections 3.2, 3.3). Examples go through one by one, since the mean is of absolute values.
#include "train/heads/heads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    AttContext *ctx;
    const AttTrainer *trainer;
    const AttHeads *heads;
    const AttHeadSettings *settings;
    AttBatch *batch;
    AttData *data;
    AttCall masked, gradient;
    float **masks, **slopes; // by number
} Measure;

// ---- memory ------------------------------------------------------------------------------------

static void *zeros(AttContext *ctx, size_t bytes, AttStatus *status) {
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory && !*status)
        *status = att_no_memory(ctx);
    return memory;
}

int64_t att_heads_of(const AttHeads *heads, int64_t mask) {
    const AttModule *module = heads->masked;
    return att_elements_of(module, &module->tensors[heads->masks[mask].input], NULL);
}

// ---- functions ---------------------------------------------------------------------------------

// Params and fields stand where the entry has them.
static AttStatus open_function(Measure *m, const AttModule *module, AttCall *call) {
    AttStatus status =
        att_call_open(m->ctx, module, m->settings->model, m->batch, NULL, &m->settings->dims, call);
    for (int64_t i = 0; i < m->heads->n_masks && !status; i++)
        call->tensors[m->heads->masks[i].input] = m->masks[i];
    return status;
}

static AttStatus open_functions(Measure *m) {
    AttStatus status = open_function(m, m->heads->masked, &m->masked);
    if (!status)
        status = open_function(m, m->heads->gradient, &m->gradient);
    for (int64_t i = 0; i < m->heads->n_masks && !status; i++)
        m->gradient.tensors[m->heads->masks[i].gradient] = m->slopes[i];
    return status;
}

// The loss of the example that is in the batch.
static AttStatus run(Measure *m, AttCall *call, double *loss) {
    AttStatus status = att_call_run(m->ctx, call);
    *loss = status ? NAN : att_call_result(call, 0);
    return status;
}

// ---- examples ----------------------------------------------------------------------------------

// Where the batch is a constant, all of it is the same example: the mean is that of one.
static void repeat_example(const Measure *m) {
    const AttModule *entry = m->trainer->entry;
    int64_t copies = m->batch->n_examples;
    for (int64_t i = 0; i < m->trainer->n_fields && copies > 1; i++) {
        const AttTensor *tensor = att_field_tensor(m->trainer, i);
        char *first = m->batch->filled[i];
        if (!first || !tensor->rank ||
            entry->dims[tensor->dims[0]].like != att_batch_dim(m->trainer))
            continue;
        size_t bytes = att_elem_bytes((AttElem)tensor->elem);
        for (int64_t k = 1; k < tensor->rank; k++)
            bytes *= (size_t)m->batch->extents[tensor->dims[k]];
        for (int64_t k = 1; k < copies; k++)
            memcpy(first + (size_t)k * bytes, first, bytes);
    }
}

static void set_mask(const Measure *m, int64_t mask, float number) {
    for (int64_t i = 0; i < att_heads_of(m->heads, mask); i++)
        m->masks[mask][i] = number;
}

static AttStatus add_importance(Measure *m, AttHeadFigures *figures) {
    double loss = 0;
    AttStatus status = run(m, &m->gradient, &loss);
    figures->loss += loss;
    for (int64_t i = 0; i < figures->count && !status; i++) {
        AttHeadFigure *figure = &figures->at[i];
        figure->importance += fabs((double)m->slopes[figure->mask][figure->position]);
    }
    return status;
}

static AttStatus add_losses(Measure *m, AttHeadFigure *figure) {
    float *mask = m->masks[figure->mask];
    double without = 0, alone = 0;
    mask[figure->position] = 0;
    AttStatus status = run(m, &m->masked, &without);
    set_mask(m, figure->mask, 0);
    mask[figure->position] = 1;
    if (!status)
        status = run(m, &m->masked, &alone);
    set_mask(m, figure->mask, 1);
    figure->without += without;
    figure->alone += alone;
    return status;
}

static AttStatus add_example(Measure *m, int64_t example, AttHeadFigures *figures) {
    AttStatus status =
        att_data_batch(m->ctx, m->data, ATT_PART_TRAIN, example, 1, m->batch->filled);
    if (status)
        return status;
    repeat_example(m);
    status = add_importance(m, figures);
    for (int64_t i = 0; m->settings->losses && i < figures->count && !status; i++)
        status = add_losses(m, &figures->at[i]);
    return status;
}

// ---- all of them -------------------------------------------------------------------------------

static AttStatus make_figures(Measure *m, AttHeadFigures *figures) {
    AttStatus status = ATT_OK;
    figures->count = 0;
    for (int64_t i = 0; i < m->heads->n_masks; i++)
        figures->count += att_heads_of(m->heads, i);
    figures->at = zeros(m->ctx, sizeof *figures->at * (size_t)figures->count, &status);
    m->masks = zeros(m->ctx, sizeof *m->masks * (size_t)m->heads->n_masks, &status);
    m->slopes = zeros(m->ctx, sizeof *m->slopes * (size_t)m->heads->n_masks, &status);
    int64_t next = 0;
    for (int64_t i = 0; i < m->heads->n_masks && !status; i++) {
        int64_t count = att_heads_of(m->heads, i);
        m->masks[i] = zeros(m->ctx, sizeof(float) * (size_t)count, &status);
        m->slopes[i] = zeros(m->ctx, sizeof(float) * (size_t)count, &status);
        for (int64_t k = 0; k < count; k++)
            figures->at[next++] = (AttHeadFigure){.mask = i, .position = k};
        if (!status)
            set_mask(m, i, 1);
    }
    return status;
}

static void take_means(AttHeadFigures *figures, bool losses) {
    double count = (double)figures->examples;
    figures->loss /= count;
    for (int64_t i = 0; i < figures->count; i++) {
        AttHeadFigure *figure = &figures->at[i];
        figure->importance /= count;
        figure->without = losses ? figure->without / count : NAN;
        figure->alone = losses ? figure->alone / count : NAN;
    }
}

static void close_all(Measure *m) {
    att_call_close(&m->masked);
    att_call_close(&m->gradient);
    for (int64_t i = 0; m->masks && m->slopes && i < m->heads->n_masks; i++) {
        free(m->masks[i]);
        free(m->slopes[i]);
    }
    free(m->masks);
    free(m->slopes);
}

AttStatus att_heads_measure(AttContext *ctx, const AttHeadSettings *settings, AttData *data,
                            AttBatch *batch, AttHeadFigures *out) {
    const AttTrainer *trainer = settings->model->trainer;
    Measure m = {.ctx = ctx,
                 .trainer = trainer,
                 .heads = trainer->heads,
                 .settings = settings,
                 .batch = batch,
                 .data = data};
    *out = (AttHeadFigures){.examples = settings->examples};
    AttStatus status = make_figures(&m, out);
    if (!status)
        status = open_functions(&m);
    att_batch_seed(batch, ATT_SEED_NONE);
    for (int64_t i = 0; i < settings->examples && !status; i++) {
        status = add_example(&m, i, out);
        if (settings->progress)
            settings->progress(i + 1, settings->examples);
    }
    if (!status)
        take_means(out, settings->losses);
    close_all(&m);
    return status;
}

void att_heads_forget(AttHeadFigures *figures) {
    free(figures->at);
    *figures = (AttHeadFigures){0};
}
