// SPDX-License-Identifier: Apache-2.0
// Level train: the training runtime, linked into programs that train (trainer.h says what the
// compiler hands to it). It stands on the runtime library; nothing of it is in other products.
//
//     commands.h, and the files here   subcommands: what is printed and how they end
//     files/, data/                    files of tensors, folders and pictures; examples
//     model/                           tensors, batches, and calls of modules
//     loop/, generate/, heads/         what train, generate and heads do
//
// Files in folders never print but for loop/progress.c; none ends the process.
#ifndef ATT_TRAIN_H
#define ATT_TRAIN_H

#include "internal.h"
#include "train/trainer.h"

// ---- mapped.c: a file as memory ----------------------------------------------------------------
// Regular files that are not empty. Who maps one must be sure that nobody makes it shorter.
typedef struct {
    const uint8_t *bytes;
    size_t length;
} AttMapped;
AttStatus att_map_file(AttContext *ctx, const char *path, AttMapped *out);
void att_unmap(AttMapped *map); // also one that is all zeros
// A name of a file for a message: without control characters, at most so long.
enum { ATT_SHOWN_ROOM = 160 };
const char *att_shown(const char *name, char shown[ATT_SHOWN_ROOM]);

// ---- folder.c: where subcommands leave files ---------------------------------------------------
enum { ATT_PATH_ROOM = 4096 };
// FOLDER/name; one that is too long is refused.
AttStatus att_path_in(AttContext *ctx, const char *folder, const char *name,
                      char path[ATT_PATH_ROOM]);
// Unless it is there. Refuses one whose path leaves no room for the name of a file.
AttStatus att_folder_make(AttContext *ctx, const char *folder);
bool att_folder_has(AttContext *ctx, const char *folder,
                    const char *name); // a link that leads nowhere, too

// ---- shape.c: tensors of a module --------------------------------------------------------------
const AttTensor *att_field_tensor(const AttTrainer *trainer, int64_t field); // of the entry
// extents: by dim of the module; NULL: all of the tensor's are constants.
void att_shape_of(const AttModule *module, const AttTensor *tensor, const int64_t *extents,
                  int64_t *shape);
int64_t att_elements_of(const AttModule *module, const AttTensor *tensor, const int64_t *extents);
// "[2, 3]" for a message; first: what comes before the extents, or "". Returns out.
enum { ATT_SHAPE_ROOM = 400 };
const char *att_shape_text(const char *first, int rank, const int64_t *shape,
                           char out[ATT_SHAPE_ROOM]);

// ---- safetensors_read.c, _floats.c, _write.c: a file of named tensors ---------------------------
// A strict reader: everything that the format asks for is checked, and what is wrong is told with
// the tensor's name. The file is mapped; data is that of the file, row-major, of the file's life.
typedef struct {
    const char *name;
    AttElem elem;     // ATT_N_ELEM: the format knows the type, the runtime has no such elements
    const char *type; // the format's name of it, "F32"; not looked at by writing
    int rank;
    int64_t shape[ATT_RANK_MAX];
    const void *data; // aligned to its element where the file has it so
    int64_t bytes;    // not looked at by writing
} AttNamedTensor;
typedef struct {
    const char *key, *value;
} AttNote; // of __metadata__
typedef struct {
    int64_t n_tensors, n_notes;
    AttNamedTensor *tensors; // in the order of the file
    AttNote *notes;
    void *owner; // of all of it
} AttTensorFile;
AttStatus att_safetensors_open(AttContext *ctx, const char *path, AttTensorFile *out);
// The same of a file in memory, which stays the caller's; label stands for its name in messages.
AttStatus att_safetensors_parse(AttContext *ctx, const char *label, const void *bytes,
                                size_t length, AttTensorFile *out);
void att_safetensors_close(AttTensorFile *file); // also one that could not be opened
const AttNamedTensor *att_safetensors_find(const AttTensorFile *file, const char *name); // or NULL
// Where a file of a larger entry has the tensors of a def that it calls: of `names` those that it
// lacks, but all of them under one path ("Logits" where "E" is "Logits.E"). Of length 0 where it
// lacks none, or some are under no path, or under several.
typedef struct {
    const char *at; // in a name of the file
    size_t length;
} AttTensorPath;
AttTensorPath att_safetensors_path(const AttTensorFile *file, const char *const *names, int64_t n);
// By its name, else by path and name; NULL: neither is there.
const AttNamedTensor *att_safetensors_find_under(const AttTensorFile *file, AttTensorPath path,
                                                 const char *name);
const char *att_safetensors_note(const AttTensorFile *file, const char *key); // or NULL
// A copy of a tensor of floats in such elements, where that loses nothing but precision: numbers
// that become infinite, and tensors of other than floats, are ATT_FORMAT. path: of the file, for
// messages. On failure out holds no memory.
AttStatus att_safetensors_floats(AttContext *ctx, const char *path, const AttNamedTensor *tensor,
                                 AttElem elem, AttTensorData *out);
// Writes in one stroke (file.c): the path has the old file or the new one, whole, whatever happens.
// In the file, tensors of wide elements come before those of narrow ones, else in their order.
AttStatus att_safetensors_write(AttContext *ctx, const char *path, const AttNamedTensor *tensors,
                                int64_t n_tensors, const AttNote *notes, int64_t n_notes);

// ---- data.c ------------------------------------------------------------------------------------
// Examples for the data arguments of an entry. Example i of a part is a function of the files, the
// options and i alone; the order of training is a permutation of each epoch that is computed from
// the seed, so that any step can be gone on from. data.h: the files that make them.
typedef enum {
    ATT_OBJECTIVE_AUTO,     // by the names of the fields, see data.c
    ATT_OBJECTIVE_LANGUAGE, // the next token
    ATT_OBJECTIVE_MASKED,   // BERT: 15%, of which 80% masked, 10% another token, 10% as they are
    ATT_OBJECTIVE_SPAN,     // T5: 15% in spans of mean length 3
    ATT_OBJECTIVE_FIELDS    // arrays by name
} AttObjective;
extern const char *const att_objective_names[]; // by objective, ended by NULL
typedef struct {
    // Files of tokens: text, or shards of llm.c; for FIELDS NAME=FILE.npy, or one safetensors file.
    const char *const *paths; // not kept
    int64_t n_paths;
    AttObjective objective;
    double held_out; // share of the examples that training does not see, 0 .. 1: the last ones
    uint64_t seed;
} AttDataOptions;
typedef enum { ATT_PART_TRAIN, ATT_PART_HELD_OUT } AttPart;
typedef struct AttData AttData;
// fields: the data arguments of the entry that examples fill, with their shapes: extents by module
// dim, that of the batch aside, must be known. Messages name the file, and in it the place. All ids
// are checked here. On failure *out is NULL.
AttStatus att_data_open(AttContext *ctx, const AttDataOptions *options, const AttTrainer *trainer,
                        const int64_t *extents, int64_t batch_dim, AttData **out);
void att_data_close(AttData *data);
int64_t att_data_examples(const AttData *data, AttPart part);
bool att_data_is_bytes(const AttData *data);         // is each byte of a text asked for, once?
const char *att_data_objective(const AttData *data); // its name
// Does the data fill a field, or does the program tell it (a seed)? Fields with dims are filled.
bool att_data_fills(const AttData *data, int64_t field);
// Fills count examples from number `first` on (of all epochs, one after another, in TRAIN; modulo
// their number in HELD_OUT) into tensors, one per field, NULL for those that it does not fill.
AttStatus att_data_batch(AttContext *ctx, AttData *data, AttPart part, int64_t first, int64_t count,
                         void *const *tensors);

// ---- init.c ------------------------------------------------------------------------------------
// First values, from the seed and the tensor's name.
void att_param_init(const AttParam *param, uint64_t seed, int64_t count, float *out);

// ---- optimizer.c -------------------------------------------------------------------------------
// State k of a tensor: its shape. States begin at 0.
int att_optimizer_state(const AttOptimizer *optimizer, int64_t k, int rank, const int64_t *shape,
                        int64_t *state_shape); // returns the state's rank
const char *att_optimizer_state_name(const AttOptimizer *optimizer, int64_t k);
typedef struct {
    float step; // from 1
    float learning_rate;
    float scale;           // what gradients are multiplied with first
    const float *settings; // by number of the optimizer's; NULL: all as they are
} AttUpdate;
// New values of a tensor and its states, in place. Same bits for any number of threads.
AttStatus att_optimizer_update(AttContext *ctx, const AttOptimizer *optimizer, int rank,
                               const int64_t *shape, float *tensor, const float *gradient,
                               float *const *states, const AttUpdate *update);
// Sum of the squares of a gradient.
AttStatus att_squares(AttContext *ctx, const AttModule *squares, int64_t count, const float *x,
                      double *sum);

#endif
