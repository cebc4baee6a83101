// SPDX-License-Identifier: Apache-2.0
// What training, evaluation and generation share: the tensors of a model, extents, batches, and
// calls of modules whose pointers are found by name.
#ifndef ATT_TRAIN_MODEL_H
#define ATT_TRAIN_MODEL_H

#include "train/commands.h"

// ---- model.c: the trained tensors --------------------------------------------------------------
typedef struct {
    const char *name;
    int rank;
    int64_t shape[ATT_RANK_MAX];
    int64_t count;
    float *data; // 64-byte aligned
} AttModelTensor;
typedef struct {
    const AttTrainer *trainer;
    AttModelTensor *params; // by number of the trainer's
} AttModel;
AttStatus att_model_open(AttContext *ctx, const AttTrainer *trainer, AttModel *out); // all zeros
void att_model_close(AttModel *model);
void att_model_init(AttModel *model, uint64_t seed); // first values
int64_t att_model_parameters(const AttModel *model);
// What a file of tensors has for a model.
typedef struct {
    int64_t n_missing, n_extra;
    const char **missing, **extra; // of the model and of the file; live as long as both
} AttMatch;
// Copies what the file has by name; other shapes and elements are errors. Tensors of optimizers are
// none that are extra.
AttStatus att_model_take(AttContext *ctx, AttModel *model, const char *path,
                         const AttTensorFile *file, AttMatch *match);
void att_match_free(AttMatch *match);
// From a checkpoint: one that is missing is an error, what is extra is passed over.
AttStatus att_model_read(AttContext *ctx, AttModel *model, const char *path);
enum { ATT_STATE_NAME_ROOM = 600 };
#define ATT_STATE_PREFIX "optimizer." // of optimizer.STATE.NAME
bool att_is_state_name(const char *name);
AttStatus att_tensor_expect(AttContext *ctx, const char *path, const AttNamedTensor *tensor,
                            int rank, const int64_t *shape);

// ---- extents.c ---------------------------------------------------------------------------------
// The first dim of the data arguments that have any, as a dim of the entry; -1: there is none.
int64_t att_batch_dim(const AttTrainer *trainer);
// The number of examples that the entry is built for; 0: any.
int64_t att_batch_fixed(const AttTrainer *trainer);
// Extents of a module of the trainer, by the names of dims. dims: the words of -D; the batch dim
// has `batch` positions, where it is not a constant.
AttStatus att_extents(AttContext *ctx, const AttTrainer *trainer, const AttModule *module,
                      const AttWords *dims, int64_t batch, int64_t *extents);

// ---- batch.c: data arguments -------------------------------------------------------------------
typedef struct {
    const AttTrainer *trainer;
    const AttData *data;
    void **fields;      // by number of the trainer's: memory for a batch
    void **filled;      // the same; NULL where the data does not fill it
    int64_t *extents;   // of the entry's dims
    int64_t n_examples; // that there is memory for
    int64_t tokens;     // of an example: elements of the first data argument; 0: it is of floats
} AttBatch;
// att_data_open of the data of batches. dims: the words of -D.
AttStatus att_batch_data(AttContext *ctx, const AttDataOptions *options, const AttTrainer *trainer,
                         const AttWords *dims, int64_t n_examples, AttData **out);
// Refuses arguments that nothing fills.
AttStatus att_batch_open(AttContext *ctx, const AttTrainer *trainer, const AttData *data,
                         const AttWords *dims, int64_t n_examples, AttBatch *out);
void att_batch_close(AttBatch *batch); // also one that could not be opened, or is all zeros
void att_batch_seed(AttBatch *batch, int64_t seed); // the argument `seed`, where there is one
enum { ATT_SEED_NONE = -1 };                        // evaluation: nothing is dropped

// ---- call.c: a module with its pointers --------------------------------------------------------
typedef struct {
    const AttModule *module;
    int64_t *extents;
    void **tensors; // by number of the module's, of inputs and outputs
    void *numbers;  // memory for those without dims: 8 bytes for each tensor
    int64_t n_results;
    int64_t *outputs;       // places of results among module->tensors
    int64_t flag;           // what flags say: gradients are added to what is there
    const int64_t *choices; // of alternatives, see AttRun; NULL: the first of each
    double *seconds;        // likewise; NULL: nobody asks
} AttCall;
// All NULL and zero, of which the caller sets extents and tensors. A call that failed here or in
// att_call_open is to be closed, too.
AttStatus att_call_new(AttContext *ctx, const AttModule *module, AttCall *out);
// Inputs are params and fields by name; plain outputs are results; those that are gradients go into
// `gradients`, by number of the trainer's params (NULL: there are none). The gradient is that of
// the first result.
AttStatus att_call_open(AttContext *ctx, const AttModule *module, const AttModel *model,
                        const AttBatch *batch, float *const *gradients, const AttWords *dims,
                        AttCall *out);
void att_call_close(AttCall *call);
AttStatus att_call_run(AttContext *ctx, AttCall *call);
double att_call_result(const AttCall *call, int64_t k);
// Element number i of a tensor of the module, as it lies in memory.
double att_call_element(const AttCall *call, int64_t tensor, int64_t i);
const char *att_call_result_name(const AttCall *call, int64_t k);

// ---- evaluate.c --------------------------------------------------------------------------------
typedef struct {
    int64_t n_examples;
    double *results; // means over the examples, by number of the call's results
} AttMeans;
// Over the examples of a part, at most so many batches of them (0: all). The call is one of
// `batch`. What does not fill a batch is left out where the batch is fixed.
typedef struct {
    AttCall *call;
    AttBatch *batch;
    AttData *data;
    AttPart part;
    int64_t batches;
    const AttWords *dims;
} AttEvaluation;
AttStatus att_evaluate(AttContext *ctx, const AttEvaluation *evaluation, AttMeans *means);

#endif
