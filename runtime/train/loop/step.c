// SPDX-License-Identifier: Apache-2.0
// One step of training: gradients of the loss on some batches, added up in place, their norm, and
// new values of every tensor by the optimizer.
//
// Everything happens in a fixed order, so that a step has the same bits for any number of threads:
// batches follow each other, squares are summed tensor after tensor in double.

#include <math.h>
#include <stdlib.h>

#include "train/loop/loop.h"

static AttStatus new_floats(AttContext *ctx, int rank, const int64_t *shape, float **out) {
    AttTensorData data;
    AttStatus status = att_tensor_new(ctx, ATT_F32, rank, shape, &data);
    *out = data.data;
    return status;
}

static AttStatus open_tensor(AttContext *ctx, AttLearner *learner, int64_t i) {
    const AttModelTensor *param = &learner->model->params[i];
    const AttOptimizer *optimizer = learner->updater->optimizer;
    int64_t shape[ATT_RANK_MAX];
    learner->states[i] = calloc((size_t)optimizer->n_states + 1, sizeof *learner->states[i]);
    if (!learner->states[i])
        return att_no_memory(ctx);
    AttStatus status = new_floats(ctx, param->rank, param->shape, &learner->gradients[i]);
    for (int64_t k = 0; k < optimizer->n_states && !status; k++) {
        int rank = att_optimizer_state(optimizer, k, param->rank, param->shape, shape);
        status = new_floats(ctx, rank, shape, &learner->states[i][k]);
    }
    return status;
}

AttStatus att_learner_open(AttContext *ctx, AttLearner *learner, const AttWords *dims,
                           int64_t examples) {
    const AttTrainer *trainer = learner->model->trainer;
    size_t count = (size_t)trainer->n_params + 1;
    learner->gradients = calloc(count, sizeof *learner->gradients);
    learner->states = calloc(count, sizeof *learner->states);
    learner->results = calloc((size_t)trainer->gradient->n_tensors + 1, sizeof *learner->results);
    if (!learner->gradients || !learner->states || !learner->results)
        return att_no_memory(ctx);
    AttStatus status = ATT_OK;
    for (int64_t i = 0; i < trainer->n_params && !status; i++)
        status = open_tensor(ctx, learner, i);
    if (!status)
        status = att_batch_open(ctx, trainer, learner->data, dims, examples, &learner->batch);
    if (!status)
        status = att_call_open(ctx, trainer->gradient, learner->model, &learner->batch,
                               learner->gradients, dims, &learner->call);
    return status;
}

static void close_tensor(AttLearner *learner, int64_t i) {
    att_release(learner->gradients[i]);
    for (int64_t k = 0; learner->states[i] && k < learner->updater->optimizer->n_states; k++)
        att_release(learner->states[i][k]);
    free(learner->states[i]);
}

void att_learner_close(AttLearner *learner) {
    for (int64_t i = 0;
         learner->gradients && learner->states && i < learner->model->trainer->n_params; i++)
        close_tensor(learner, i);
    if (learner->batch.fields)
        att_batch_close(&learner->batch);
    if (learner->call.module)
        att_call_close(&learner->call);
    free(learner->gradients);
    free(learner->states);
    free(learner->results);
}

// What random numbers of a batch begin with: at least 0.
static int64_t batch_seed(const AttLearner *learner, int64_t number) {
    AttRandomBlock block = att_philox(learner->seed, att_stream_of("dropout"), (uint64_t)number);
    return (int64_t)(((uint64_t)block.word[1] << 32 | block.word[0]) >> 1);
}

AttStatus att_learner_fill(AttContext *ctx, AttLearner *learner, int64_t number) {
    int64_t examples = learner->batch.n_examples;
    att_batch_seed(&learner->batch, batch_seed(learner, number));
    return att_data_batch(ctx, learner->data, ATT_PART_TRAIN, number * examples, examples,
                          learner->batch.filled);
}

static AttStatus add_batch(AttContext *ctx, AttLearner *learner, int64_t number) {
    AttStatus status = att_learner_fill(ctx, learner, number);
    return status ? status : att_call_run(ctx, &learner->call);
}

static AttStatus find_norm(AttContext *ctx, AttLearner *learner) {
    const AttTrainer *trainer = learner->model->trainer;
    double sum = 0, one = 0;
    AttStatus status = ATT_OK;
    for (int64_t i = 0; i < trainer->n_params && !status; i++) {
        status = att_squares(ctx, trainer->squares, learner->model->params[i].count,
                             learner->gradients[i], &one);
        sum += one;
    }
    learner->norm = sqrt(sum) / (double)learner->accumulate;
    return status;
}

AttStatus att_learner_gradient(AttContext *ctx, AttLearner *learner, int64_t step) {
    AttStatus status = ATT_OK;
    for (int64_t k = 0; k < learner->call.n_results; k++)
        learner->results[k] = 0;
    for (int64_t i = 0; i < learner->accumulate && !status; i++) {
        learner->call.flag = i > 0;
        status = add_batch(ctx, learner, (step - 1) * learner->accumulate + i);
        for (int64_t k = 0; k < learner->call.n_results && !status; k++)
            learner->results[k] += att_call_result(&learner->call, k) / (double)learner->accumulate;
    }
    return status ? status : find_norm(ctx, learner);
}

bool att_learner_is_finite(const AttLearner *learner) {
    return isfinite(learner->results[0]) && isfinite(learner->norm);
}

const char *att_learner_first_wild(const AttLearner *learner) {
    for (int64_t i = 0; i < learner->model->trainer->n_params; i++)
        for (int64_t k = 0; k < learner->model->params[i].count; k++)
            if (!isfinite(learner->gradients[i][k]))
                return learner->model->params[i].name;
    return NULL;
}

AttStatus att_learner_update(AttContext *ctx, AttLearner *learner, int64_t step, double rate) {
    double scale = 1 / (double)learner->accumulate;
    if (learner->clip > 0 && learner->norm > learner->clip)
        scale *= learner->clip / learner->norm;
    AttUpdate update = {.step = (float)step, .learning_rate = (float)rate, .scale = (float)scale};
    AttStatus status = ATT_OK;
    for (int64_t i = 0; i < learner->model->trainer->n_params && !status; i++) {
        const AttModelTensor *param = &learner->model->params[i];
        update.settings =
            param->rank < 2 ? learner->updater->undecayed : learner->updater->settings;
        status =
            att_optimizer_update(ctx, learner->updater->optimizer, param->rank, param->shape,
                                 param->data, learner->gradients[i], learner->states[i], &update);
    }
    return status;
}
