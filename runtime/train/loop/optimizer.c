// SPDX-License-Identifier: Apache-2.0
// Calls the compiled update of an optimizer (language.md 8.5).
//
// A tensor of any dims is a row of numbers, W[i], or a matrix, W[r, c], for which its shape is cut
// in two where r + c is least, of equal cuts the first:
//
//     [768]             1 x 768
//     [256, 32, 8]      256 x 256      r: [256]   c: [32, 8]
//
// The module's inputs are the gradient, the optimizer's numbers in their order, and last what the
// gradient is multiplied with; its outputs are the tensor and the states, which it also reads.
#include <stdlib.h>
#include <string.h>

#include "train/model/model.h"

typedef struct {
    int at;          // leading dims of the shape are rows, the others columns
    int64_t r, c, i; // i: of all elements
} Cut;

// false: more elements than memory can hold.
static bool cut_shape(int rank, const int64_t *shape, Cut *out) {
    int64_t bytes;
    if (!att_bytes_of(rank, shape, sizeof(float), &bytes))
        return false;
    *out = (Cut){.i = bytes / (int64_t)sizeof(float)};
    for (int at = 0; at <= rank; at++) {
        int64_t r = 1, c = 1;
        for (int k = 0; k < rank; k++)
            *(k < at ? &r : &c) *= shape[k];
        if (at == 0 || r + c < out->r + out->c)
            *out = (Cut){at, r, c, out->i};
    }
    return true;
}

static int64_t n_inputs(const AttModule *module) {
    int64_t n = 0;
    while (n < module->n_tensors && module->tensors[n].role == ATT_INPUT)
        n++;
    return n;
}

static const AttTensor *result_of(const AttOptimizer *optimizer, int64_t number) {
    return &optimizer->module->tensors[n_inputs(optimizer->module) + number];
}

// ---- states ------------------------------------------------------------------------------------
int att_optimizer_state(const AttOptimizer *optimizer, int64_t k, int rank, const int64_t *shape,
                        int64_t *state_shape) {
    const AttTensor *tensor = result_of(optimizer, 0), *state = result_of(optimizer, k + 1);
    Cut cut;
    int n = 0;
    if (!cut_shape(rank, shape, &cut))
        return 0;
    for (int64_t d = 0; d < state->rank; d++) {
        bool first = state->dims[d] == tensor->dims[0], all = tensor->rank == 1;
        int begin = all || first ? 0 : cut.at, end = all || !first ? rank : cut.at;
        for (int i = begin; i < end; i++)
            state_shape[n++] = shape[i];
    }
    return n;
}

const char *att_optimizer_state_name(const AttOptimizer *optimizer, int64_t k) {
    return result_of(optimizer, k + 1)->name;
}

// ---- calls -------------------------------------------------------------------------------------
// Extents of the dims of a tensor, and of all that follow from them.
static AttStatus find_extents(AttContext *ctx, const AttModule *module, const AttTensor *tensor,
                              const int64_t *of_tensor, int64_t *extents) {
    for (int64_t d = 0; d < module->n_dims; d++) {
        extents[d] = module->dims[d].extent;
        for (int64_t k = 0; k < tensor->rank; k++)
            if (module->dims[d].like == module->dims[tensor->dims[k]].like)
                extents[d] = of_tensor[k];
    }
    return att_module_compute(ctx, module, extents);
}

static void fill_numbers(const AttOptimizer *optimizer, int64_t inputs, const AttUpdate *update,
                         float *numbers) {
    const AttTensor *tensors = optimizer->module->tensors;
    int64_t setting = 0;
    for (int64_t i = 1; i + 1 < inputs; i++) {
        if (!strcmp(tensors[i].name, "step"))
            numbers[i] = update->step;
        else if (!strcmp(tensors[i].name, "learning_rate"))
            numbers[i] = update->learning_rate;
        else if (update->settings)
            numbers[i] = update->settings[setting++];
        else
            numbers[i] = (float)optimizer->settings[setting++].value;
    }
    numbers[inputs - 1] = update->scale;
}

AttStatus att_optimizer_update(AttContext *ctx, const AttOptimizer *optimizer, int rank,
                               const int64_t *shape, float *tensor, const float *gradient,
                               float *const *states, const AttUpdate *update) {
    const AttModule *module = optimizer->module;
    int64_t inputs = n_inputs(module);
    Cut cut;
    AttCall call;
    if (!cut_shape(rank, shape, &cut))
        return att_fail(ctx, ATT_ARGUMENT, "a tensor has more bytes than memory can hold");
    if (cut.i == 0)
        return ATT_OK;
    int64_t matrix[] = {cut.r, cut.c};
    AttStatus status = att_call_new(ctx, module, &call);
    if (!status)
        status = find_extents(ctx, module, result_of(optimizer, 0),
                              optimizer->rank == 1 ? &cut.i : matrix, call.extents);
    if (!status) {
        float *numbers = call.numbers;
        fill_numbers(optimizer, inputs, update, numbers);
        call.tensors[0] = (void *)gradient;
        for (int64_t i = 1; i < inputs; i++)
            call.tensors[i] = &numbers[i];
        call.tensors[inputs] = tensor;
        for (int64_t k = 0; k < optimizer->n_states; k++)
            call.tensors[inputs + 1 + k] = states[k];
        status = att_call_run(ctx, &call);
    }
    att_call_close(&call);
    return status;
}

AttStatus att_squares(AttContext *ctx, const AttModule *squares, int64_t count, const float *x,
                      double *sum) {
    AttCall call;
    AttStatus status = att_call_new(ctx, squares, &call);
    if (!status)
        status = find_extents(ctx, squares, &squares->tensors[0], &count, call.extents);
    if (!status) {
        call.tensors[0] = (void *)x;
        call.tensors[1] = sum;
        status = att_call_run(ctx, &call);
    }
    att_call_close(&call);
    return status;
}
