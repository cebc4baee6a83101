// SPDX-License-Identifier: Apache-2.0
// The training loop: a step, its learning rate, what it leaves in a folder, and going on from that.
//
//     FOLDER/log.csv, eval.csv, loss.svg, settings.json, step-00000200.safetensors, latest
#ifndef ATT_TRAIN_LOOP_H
#define ATT_TRAIN_LOOP_H

#include <stdio.h>

#include "train/model/model.h"

// ---- schedule.c --------------------------------------------------------------------------------
typedef enum {
    ATT_SCHEDULE_LINEAR,
    ATT_SCHEDULE_COSINE,
    ATT_SCHEDULE_NOAM,
    ATT_SCHEDULE_INVERSE_SQRT,
    ATT_SCHEDULE_CONSTANT
} AttScheduleKind;
extern const char *const att_schedule_names[]; // by kind, ended by NULL
typedef struct {
    AttScheduleKind kind;
    double rate;
    int64_t steps, warmup;
} AttSchedule;
double att_learning_rate(const AttSchedule *schedule, int64_t step); // step: from 1

// ---- update.c: which optimizer, and with which numbers -----------------------------------------
typedef struct {
    const AttOptimizer *optimizer;
    float *settings;  // by number of the optimizer's
    float *undecayed; // the same with weight_decay 0, for tensors of fewer than two dims
} AttUpdater;
// From adamw:beta_2=0.95,weight_decay=0.1; NULL: the first. Messages name what there is.
AttStatus att_updater_open(AttContext *ctx, const AttTrainer *trainer, const char *text,
                           AttUpdater *out);
void att_updater_close(AttUpdater *updater);

// ---- step.c ------------------------------------------------------------------------------------
typedef struct {
    AttModel *model;
    AttData *data;
    const AttUpdater *updater;
    AttBatch batch;
    AttCall call;       // of the gradient
    float **gradients;  // by number of the trainer's params
    float ***states;    // likewise, then by number of the optimizer's
    double *results;    // of the last step: means over its batches
    double norm;        // of the gradient of the last step
    int64_t accumulate; // batches of a step
    double clip;        // the largest norm; 0: any
    uint64_t seed;
    const char *settings; // fixed ones as JSON, for the notes of checkpoints
} AttLearner;
// Requires: model, data, updater, accumulate, clip and seed are set.
AttStatus att_learner_open(AttContext *ctx, AttLearner *learner, const AttWords *dims,
                           int64_t examples);
void att_learner_close(AttLearner *learner);
// Makes the call one of a batch, from 0 on.
AttStatus att_learner_fill(AttContext *ctx, AttLearner *learner, int64_t number);
// Gradients of the batches of a step, from 1, their mean loss and norm.
AttStatus att_learner_gradient(AttContext *ctx, AttLearner *learner, int64_t step);
bool att_learner_is_finite(const AttLearner *learner);
// The first tensor whose gradient is not finite; NULL: all are.
const char *att_learner_first_wild(const AttLearner *learner);
AttStatus att_learner_update(AttContext *ctx, AttLearner *learner, int64_t step, double rate);

// ---- work.c ------------------------------------------------------------------------------------
typedef struct {
    double flops; // of a step
    double peak;  // of the machine, per second; 0: one of the two is not known
} AttWork;
// Of steps of so many batches. Measures the peak, in some milliseconds.
AttWork att_work_open(AttContext *ctx, const AttTrainer *trainer, const AttCall *gradient,
                      int64_t batches);
double att_work_share(const AttWork *work, double seconds); // of a step; NAN: not known

// ---- ending.c: signals that end training after a step -------------------------------------------
typedef struct {
    bool came;
} AttEnding;
void att_ending_await(void);
bool att_ending_came(AttEnding *ending); // since they were awaited

// ---- alike.c: do two ways to compute a call give the same, but for rounding? --------------------
enum { ATT_SKETCH_PIECES = 64, ATT_SKETCH_SUMS = 8 };
typedef struct {
    int64_t length; // elements
    double squares, sums[ATT_SKETCH_SUMS];
} AttSketchPiece;
typedef struct {
    int64_t length; // elements of the tensor; 0: it is no output
    AttSketchPiece pieces[ATT_SKETCH_PIECES];
} AttSketch;
// Of what the last run made, by number of the module's tensors. *out: the caller's to free.
AttStatus att_sketch(AttContext *ctx, const AttCall *call, AttSketch **out);
bool att_sketches_alike(const AttCall *call, const AttSketch *a, const AttSketch *b);

// ---- tune.c: the fastest schedules of those that are compiled in -------------------------------
typedef struct {
    double least;         // seconds that it takes, about
    bool enough;          // else nothing was tried
    bool ended;           // before its time
    bool differs;         // what was faster made other results, and was not taken
    int64_t n_choices;    // that run at these extents
    int64_t n_changed;    // to another than the call had; 0: nothing is surely faster
    int64_t n_compared;   // alternatives that are surely faster while all others stay
    int64_t *choices;     // for AttCall, the caller's to free, also on failure
    double before, after; // seconds of a call, where something has changed
} AttTuned;
// Runs the call again and again for so many seconds at most, on the data that it has; what it makes
// is of no meaning.
AttStatus att_tune(AttContext *ctx, AttCall *call, double seconds, AttEnding *ending,
                   AttTuned *out);
// "x86-64-v4 1f2e3d4c5b6a7988": of a level, what is launched when. Returns name.
enum { ATT_CODE_ROOM = 64 };
const char *att_code_name(const AttModule *module, int level, char name[ATT_CODE_ROOM]);
// "x86-64-v4 1f2e3d4c5b6a7988: 0 2 1"; empty where nothing is chosen. The caller's to free; NULL:
// out of memory.
char *att_choices_text(AttContext *ctx, const AttCall *call);
// *out: the caller's to free; NULL: they are none of this module on this machine.
AttStatus att_choices_read(AttContext *ctx, const AttModule *module, const char *text,
                           int64_t **out);

// ---- checkpoint.c ------------------------------------------------------------------------------
// Writes FOLDER/step-N.safetensors, points `latest` at it, and removes all but the newest `keep`.
AttStatus att_checkpoint_write(AttContext *ctx, const AttLearner *learner, const char *folder,
                               int64_t step, int64_t keep);
// The trained tensors, states and step of FOLDER/latest.
AttStatus att_checkpoint_read(AttContext *ctx, AttLearner *learner, const char *folder,
                              int64_t *step);

// ---- lock.c ------------------------------------------------------------------------------------
typedef struct {
    int fd;
    bool open;
} AttFolderLock;
// Fails where another process has it. What *out has is for att_folder_unlock, also on failure.
AttStatus att_folder_lock(AttContext *ctx, const char *folder, AttFolderLock *out);
void att_folder_unlock(AttFolderLock *lock); // also one that is all zeros

// ---- log.c -------------------------------------------------------------------------------------
// A table of numbers that grows by lines. NULL where it failed: errno says why.
FILE *att_log_open(const char *path, const char *header); // a new one, or at its end
// Leaves the header and the lines whose first number is at most `last`.
AttStatus att_log_cut(AttContext *ctx, const char *path, int64_t last);
typedef struct {
    double x, y;
} AttPoint;
// The first two columns of what is there. The points are the caller's to free; NULL: none.
AttPoint *att_log_points(const char *path, int64_t *count);

// ---- chart.c -----------------------------------------------------------------------------------
// FOLDER/loss.svg of FOLDER/log.csv and FOLDER/eval.csv.
AttStatus att_chart_loss(AttContext *ctx, const char *folder, const char *title);

// ---- settings.c --------------------------------------------------------------------------------
// What was asked for, by name, as JSON; the caller's to free, NULL where it is not UTF-8. facts:
// lines of further names and texts, ended by NULL. fixed: without what may change.
char *att_settings_text(const AttUsage *usage, const void *values, const char *const (*facts)[2],
                        bool fixed);
AttStatus att_settings_write(AttContext *ctx, const char *folder, const char *text);
// Options that are not given become those of FOLDER/settings.json; what may not differ is told of.
// owner: of texts among them, for att_settings_free; also set on failure.
AttStatus att_settings_take(AttContext *ctx, const char *folder, const AttUsage *usage,
                            AttOptions *options, void **owner);
// A fact of those settings; NULL: it is not there.
const char *att_settings_fact(const void *owner, const char *name);
void att_settings_free(void *owner);

// ---- progress.c --------------------------------------------------------------------------------
typedef struct {
    char **argv;
    int64_t steps, begun; // of all; what was done before
    double start, told;   // seconds: of the first step, of the last line
    bool terminal, open;  // a line is there that renews itself
} AttProgress;
typedef struct {
    int64_t step;
    double loss, rate, norm, per_second;
    const char *what; // that is counted: "tokens", or "examples" of floats
    double share;     // of the machine's peak; NAN: not known
} AttProgressLine;
AttProgress att_progress_open(char **argv, int64_t steps, int64_t begun);
void att_progress_tell(AttProgress *progress, const AttProgressLine *line);
void att_progress_break(AttProgress *progress); // before another line
void att_progress_tuned(char **argv, const AttTuned *tuned);

#endif
