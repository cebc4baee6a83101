// SPDX-License-Identifier: Apache-2.0
// What generated code hands to the training runtime: a model as a few entries that share tensors.
//
// The compiler emits one constant AttTrainer per program (compiler/product/trainer.c). All fields
// are 8 bytes wide, as those of module.h are.
#ifndef ATT_TRAINER_H
#define ATT_TRAINER_H

#include "module.h"

enum { ATT_TRAINER_ABI = 3 };

// First values of a trained tensor. `glorot` comes as UNIFORM.
enum {
    ATT_INIT_VALUE,           // a everywhere
    ATT_INIT_NORMAL,          // mean 0, deviation a
    ATT_INIT_UNIFORM,         // from a to b
    ATT_INIT_TRUNCATED_NORMAL // NORMAL, cut at two deviations
};
typedef struct {
    const char *name; // in checkpoints, layer.0.attend.P_q; that of the modules' inputs
    int64_t input;    // its place among entry->tensors
    int64_t init;     // ATT_INIT_*
    double a, b;
} AttParam;

// An argument of the entry that is data, or a number that the program tells.
typedef struct {
    const char *name;
    int64_t input; // its place among entry->tensors
    int64_t below; // ids of a table of so many positions; 0: no ids, or nothing is known
} AttField;

typedef struct {
    const char *name;
    double value; // unless the command line says another
} AttSetting;

// A rule that makes new values of one tensor from its gradient, in place (language.md 8.5). The
// module has run-time dims: it serves every tensor.
typedef struct {
    const char *name;        // adamw
    const AttModule *module; // see optimizer.c for how it is called
    int64_t rank;            // 1: a tensor is a row of numbers; 2: a matrix, see optimizer.c
    int64_t n_states;
    int64_t n_settings; // numbers besides step, learning_rate and the gradient's scale
    const AttSetting *settings;
} AttOptimizer;

// The logits of one more position of a sequence, with what earlier positions left: the step that
// language.md 11.5 tells of, with one sequence at a time. An input `seed` without dims drops
// nothing.
typedef struct {
    const AttModule *module;
    int64_t n_params;            // inputs of the module that are trained tensors,
    const int64_t *params;       // each the number of a trainer's param
    const int64_t *param_tensor; // and its place among module->tensors
    int64_t token, position;     // places among module->tensors
    int64_t logits;              // its last dim counts tokens
    int64_t n_caches;
    const int64_t *cache_input, *row_output; // places among module->tensors
    const int64_t *cache_dim; // the place of the position among the dims of the cache; -1: there is
                              // none, the row takes the place of the cache
    int64_t length;           // positions of a sequence; 0: known at run time only
} AttDecode;

// A factor xi for each head of an attention: an f32 input of the entry with masks, which is 1 where
// nothing is removed.
typedef struct {
    const char *name; // of the value that it masks: layer.0.attend.W
    int64_t input;    // its place among the tensors of both modules
    int64_t gradient; // the place of its gradient among those of the second
} AttHeadMask;
typedef struct {
    int64_t of, dim; // place among the masks, or among the entry's tensors; place among its dims
} AttHeadAxis;
// Heads that are removed together, each with its position of all of these.
typedef struct {
    const char *dim;   // its name in the source
    const char *fault; // why none can be removed, the end of a sentence; NULL: they can
    int64_t n_masks;
    const AttHeadAxis *masks;
    int64_t n_params;
    const AttHeadAxis *params;
} AttHeadGroup;
// The source text up to a place where a number stands: the extent of a dim of heads, or (dim NULL)
// what another dim had. value -1: the end of the text, without a number.
typedef struct {
    const char *before;
    const char *dim;
    int64_t value;
} AttSourcePiece;
typedef struct {
    const AttModule *masked;   // the entry's inputs, then masks: its results
    const AttModule *gradient; // the same: its results, then gradients of the loss by the masks
    // The entry's inputs: the logits of each attention, over batches, heads, queries and memory,
    // before positions are masked. NULL: there are none.
    const AttModule *logits;
    int64_t n_masks;
    const AttHeadMask *masks;
    int64_t n_groups;
    const AttHeadGroup *groups;
    int64_t n_source;
    const AttSourcePiece *source;
    const char *import; // a file that the source imports: it is no whole text; NULL: none
} AttHeads;

typedef struct {
    int64_t abi;               // ATT_TRAINER_ABI
    const AttModule *entry;    // results
    const AttModule *gradient; // results, and gradients by all params
    int64_t n_params;
    const AttParam *params;
    int64_t n_fields;
    const AttField *fields;
    int64_t n_optimizers; // the first is the default
    const AttOptimizer *optimizers;
    const AttModule *squares; // the sum of the squares of x[i], an f32 with run-time i
    const AttDecode *decode;  // NULL: there is none
    const AttHeads *heads;    // NULL: no attention
    // By ATT_LEVEL_*: multiplies of the contractions of a call of `gradient`, each value once. A
    // formula without words: not known.
    const AttFormula *multiplies;
    // By ATT_LEVEL_*: of a million of these, those that masks by positions let kernels leave out.
    const int64_t *masked;
} AttTrainer;

// main() of a program made by `attc build --exe` of an entry that can be trained.
int att_trainer_main(const AttTrainer *trainer, int argc, char **argv);
// The same of any other entry with trained tensors: att_program_main with --weights FILE.
int att_weights_main(const AttModule *module, int argc, char **argv);

#endif
