// SPDX-License-Identifier: Apache-2.0
// The subcommand train: steps until there are enough, a signal comes or a number is not finite;
// evaluations and checkpoints in between.

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "train/loop/loop.h"

typedef struct {
    AttShared shared;
    AttWords eval_data;
    int64_t steps, batch, seed, warmup, eval_every, eval_batches, save_every, keep, accumulate;
    double rate, held_out, clip;
    int schedule;
    const char *out, *optimizer, *init;
    bool resume;
    double tune;
} Values;

static const AttOption options_of_train[] = {
    {"out", ATT_OPTION_TEXT, offsetof(Values, out), "DIR",
     "the folder for logs, pictures and checkpoints", .needed = true, .is_of_call = true},
    {"steps", ATT_OPTION_COUNT, offsetof(Values, steps), "N", "steps to take in all", .most = 1e9,
     .needed = true, .may_change = true},
    {"batch", ATT_OPTION_COUNT, offsetof(Values, batch), "B", "examples at a time", .least = 1,
     .most = 1e9},
    {"accumulate", ATT_OPTION_COUNT, offsetof(Values, accumulate), "A", "batches of a step",
     .least = 1, .most = 1e9},
    {"seed", ATT_OPTION_COUNT, offsetof(Values, seed), "S",
     "of first values, the order of examples and dropout", .most = 9e18},
    {"lr", ATT_OPTION_NUMBER, offsetof(Values, rate), "R", "the learning rate", .most = 1e6},
    {"schedule", ATT_OPTION_CHOICE, offsetof(Values, schedule), "NAME",
     "how it goes on after the warm-up", .choices = att_schedule_names},
    {"warmup", ATT_OPTION_COUNT, offsetof(Values, warmup), "W", "steps in which it rises",
     .most = 1e9, .unless = "a tenth of --steps, at most 100"},
    {"optimizer", ATT_OPTION_TEXT, offsetof(Values, optimizer), "NAME[:SETTING=NUMBER,...]",
     "how tensors are updated, see info", .least = 0},
    {"clip", ATT_OPTION_NUMBER, offsetof(Values, clip), "C",
     "the largest norm of a gradient; 0: any", .most = 1e30},
    {"held-out", ATT_OPTION_NUMBER, offsetof(Values, held_out), "SHARE",
     "of the examples, for evaluation alone", .most = 0.9},
    {"eval-data", ATT_OPTION_WORDS, offsetof(Values, eval_data), "FILE...",
     "evaluate on these instead", .may_change = true},
    {"eval-every", ATT_OPTION_COUNT, offsetof(Values, eval_every), "N",
     "steps between evaluations; 0: none", .most = 1e9, .may_change = true},
    {"eval-batches", ATT_OPTION_COUNT, offsetof(Values, eval_batches), "N",
     "batches of an evaluation; 0: all", .most = 1e9, .may_change = true},
    {"save-every", ATT_OPTION_COUNT, offsetof(Values, save_every), "N",
     "steps between checkpoints; 0: at the end", .most = 1e9, .may_change = true},
    {"keep", ATT_OPTION_COUNT, offsetof(Values, keep), "K", "checkpoints to keep", .least = 1,
     .most = 1e9, .may_change = true},
    {"resume", ATT_OPTION_FLAG, offsetof(Values, resume), NULL,
     "go on from the last checkpoint in DIR, as it was", .is_of_call = true, .completes = true},
    {"tune", ATT_OPTION_TIME, offsetof(Values, tune), "TIME",
     "first look, for so long at most (60s, 5m), for the fastest schedules that are compiled in",
     .most = 86400, .is_of_call = true},
    {"init", ATT_OPTION_TEXT, offsetof(Values, init), "FILE",
     "begin with the tensors of this file, as far as it has them", .least = 0},
    {0}};
static const AttUsage usage = {
    "--data FILE... --steps N --out DIR [OPTION]...",
    "Trains the model.",
    {att_options_of_data, options_of_train, att_options_of_call},
    "DIR gets log.csv, eval.csv, loss.svg, settings.json, step-*.safetensors and the link latest.\n"
    "An interrupt or SIGTERM ends training after the step, with a checkpoint.\n"};

enum { WARMUP_BY_STEPS = -1 };
#define FACT_KERNELS "chosen-kernels"

static const Values defaults = {
    .batch = 8,
    .accumulate = 1,
    .rate = 1e-3,
    .schedule = ATT_SCHEDULE_COSINE,
    .warmup = WARMUP_BY_STEPS,
    .clip = 1,
    .held_out = 0.05,
    .eval_every = 100,
    .eval_batches = 16,
    .save_every = 200,
    .keep = 3,
};

// All of a run, to be closed as one.
typedef struct {
    char **argv;
    const AttTrainer *trainer;
    const Values *values;
    const char *chosen; // alternatives of kernels of the run that is gone on with; NULL: not told
    AttContext *ctx;
    AttModel model;
    AttUpdater updater;
    AttData *data, *eval_data; // eval_data: NULL: data's own part
    AttLearner learner;
    AttBatch eval_batch;
    AttCall eval_call;
    double *means;
    char *settings, *fixed; // JSON; fixed: without what may change
    int64_t *choices;       // of the learner's call; NULL: the default ones
    FILE *log, *eval_log;
    AttProgress progress;
    AttWork work;
    AttSchedule schedule;
    int64_t step, saved; // last step taken; of the last checkpoint, -1: none
    AttEnding ending;
    AttFolderLock lock;
} Run;

// ---- opening -----------------------------------------------------------------------------------
static AttStatus open_data(Run *r, const AttWords *files, double held_out, AttData **out) {
    const Values *v = r->values;
    AttDataOptions options = {.paths = files->at,
                              .n_paths = files->count,
                              .objective = (AttObjective)v->shared.objective,
                              .held_out = held_out,
                              .seed = (uint64_t)v->seed};
    return att_batch_data(r->ctx, &options, r->trainer, &v->shared.dims, v->batch, out);
}

static AttStatus open_learner(Run *r) {
    const Values *v = r->values;
    r->learner = (AttLearner){.model = &r->model,
                              .data = r->data,
                              .updater = &r->updater,
                              .accumulate = v->accumulate,
                              .clip = v->clip,
                              .seed = (uint64_t)v->seed};
    return att_learner_open(r->ctx, &r->learner, &v->shared.dims, v->batch);
}

// An epoch is shorter than a step then, which takes some examples again.
static void note_few_examples(const Run *r) {
    int64_t examples = att_data_examples(r->data, ATT_PART_TRAIN);
    int64_t taken = r->values->batch * r->values->accumulate;
    if (examples < taken)
        att_command_note(r->argv, "a step takes %lld examples of %lld: some more than once",
                         (long long)taken, (long long)examples);
}

// Are there examples to evaluate? Where the entry is of so many, as many as a batch has.
static bool evaluates(const Run *r) {
    int64_t count = r->eval_data ? att_data_examples(r->eval_data, ATT_PART_TRAIN)
                                 : att_data_examples(r->data, ATT_PART_HELD_OUT);
    return count >= (att_batch_fixed(r->trainer) ? r->values->batch : 1);
}

static AttStatus open_evaluation(Run *r) {
    const Values *v = r->values;
    const AttModule *entry = r->trainer->entry;
    const AttData *data = r->eval_data ? r->eval_data : r->data;
    r->means = calloc((size_t)entry->n_tensors + 1, sizeof *r->means);
    if (!r->means)
        return att_no_memory(r->ctx);
    AttStatus status =
        att_batch_open(r->ctx, r->trainer, data, &v->shared.dims, v->batch, &r->eval_batch);
    if (!status)
        status = att_call_open(r->ctx, entry, &r->model, &r->eval_batch, NULL, &v->shared.dims,
                               &r->eval_call);
    return status;
}

static void list_names(Run *r, const char *what, int64_t count, const char *const *names) {
    for (int64_t i = 0; i < count; i++)
        att_command_note(r->argv, "%s '%s'", what, names[i]);
}

static AttStatus take_init(Run *r) {
    AttTensorFile file;
    AttMatch match = {0};
    AttStatus status = att_safetensors_open(r->ctx, r->values->init, &file);
    if (!status)
        status = att_model_take(r->ctx, &r->model, r->values->init, &file, &match);
    if (!status && match.n_missing == r->trainer->n_params)
        status = att_fail(r->ctx, ATT_FORMAT, "--init %s: it has no tensor of this model",
                          r->values->init);
    if (!status) {
        list_names(r, "begins anew, as the file lacks it:", match.n_missing, match.missing);
        list_names(r, "is not of this model:", match.n_extra, match.extra);
    }
    att_match_free(&match);
    att_safetensors_close(&file);
    return status;
}

// ---- the folder --------------------------------------------------------------------------------
static AttStatus open_folder(Run *r) {
    const Values *v = r->values;
    AttStatus status = v->resume ? ATT_OK : att_folder_make(r->ctx, v->out);
    if (!status)
        status = att_folder_lock(r->ctx, v->out, &r->lock);
    if (status || v->resume)
        return status; // go_on looked into it
    bool checkpoint = att_folder_has(r->ctx, v->out, "latest");
    bool run = checkpoint || att_folder_has(r->ctx, v->out, "log.csv");
    if (checkpoint)
        return att_fail(r->ctx, ATT_ARGUMENT,
                        "%s has a run in it: go on with --resume, or give another --out", v->out);
    if (run)
        return att_fail(r->ctx, ATT_ARGUMENT,
                        "%s has a run in it that ended before its first checkpoint: remove it, or "
                        "give another --out",
                        v->out);
    return ATT_OK;
}

// The settings of the run that --resume goes on with.
static int go_on(char **argv, AttOptions *options, void **owner) {
    const Values *v = options->values;
    AttContext *ctx = att_context_new(1);
    if (!ctx)
        return att_command_fail(argv, ATT_EXIT_DATA, "out of memory");
    AttStatus status =
        att_folder_has(ctx, v->out, "latest")
            ? att_settings_take(ctx, v->out, &usage, options, owner)
            : att_fail(ctx, ATT_ARGUMENT,
                       "--resume: %s has no checkpoint to go on from: begin anew without "
                       "--resume, after removing the folder if a run ended in it",
                       v->out);
    int exit_status = status ? att_command_report(argv, ctx) : ATT_EXIT_FINE;
    att_context_free(ctx);
    return exit_status;
}

static AttStatus open_log(Run *r, const char *name, const char *head, const AttCall *call,
                          FILE **out) {
    char path[ATT_PATH_ROOM], header[ATT_PATH_ROOM];
    size_t at = (size_t)snprintf(header, sizeof header, "%s", head);
    for (int64_t k = 1; k < call->n_results && at < sizeof header; k++)
        at +=
            (size_t)snprintf(header + at, sizeof header - at, ",%s", att_call_result_name(call, k));
    if (at >= sizeof header)
        return att_fail(r->ctx, ATT_ARGUMENT, "the names of the results are too long for %s", name);
    AttStatus status = att_path_in(r->ctx, r->values->out, name, path);
    if (!status)
        status = att_log_cut(r->ctx, path, r->step);
    if (status)
        return status;
    *out = att_log_open(path, header);
    return *out ? ATT_OK : att_fail(r->ctx, ATT_IO, "cannot write %s: %s", path, strerror(errno));
}

static AttStatus open_logs(Run *r) {
    AttStatus status = open_log(r, "log.csv",
                                "step,loss,learning_rate,gradient_norm,seconds,tokens_per_second,"
                                "gflops,share_of_peak",
                                &r->learner.call, &r->log);
    if (!status && evaluates(r))
        status = open_log(r, "eval.csv", "step,loss,perplexity,bits_per_byte", &r->eval_call,
                          &r->eval_log);
    return status;
}

// Texts of what was asked for and chosen, and the file of it.
static AttStatus write_settings(Run *r) {
    char *kernels = att_choices_text(r->ctx, &r->learner.call);
    if (!kernels)
        return att_no_memory(r->ctx);
    const char *facts[][2] = {{"entry", r->trainer->entry->entry},
                              {"chosen-objective", att_data_objective(r->data)},
                              {FACT_KERNELS, kernels},
                              {NULL, NULL}};
    free(r->settings);
    free(r->fixed);
    r->settings = att_settings_text(&usage, r->values, facts, false);
    r->fixed = att_settings_text(&usage, r->values, facts, true);
    free(kernels);
    if (!r->settings || !r->fixed)
        return att_fail(r->ctx, ATT_ARGUMENT, "a path among the options is not UTF-8");
    r->learner.settings = r->fixed;
    return att_settings_write(r->ctx, r->values->out, r->settings);
}

// ---- kernels ------------------------------------------------------------------------------------
// Before there is a folder.
static AttStatus check_tune(Run *r) {
    const AttModule *gradient = r->trainer->gradient;
    int level = r->values->tune ? att_module_level(r->ctx, gradient) : 0;
    if (level < 0)
        return ATT_UNSUPPORTED;
    if (!r->values->tune || gradient->n_choices[level])
        return ATT_OK;
    return att_fail(r->ctx, ATT_ARGUMENT,
                    "--tune: the program has one schedule for each kernel; attc build --exe "
                    "--alternatives 3 compiles others in");
}

// Those of a run that is gone on with, so that it has the same bits.
static AttStatus take_chosen(Run *r) {
    if (!r->chosen)
        att_command_note(r->argv, "its settings do not tell which schedules the run was tuned to; "
                                  "it goes on with the default ones");
    if (!r->chosen || !*r->chosen)
        return ATT_OK;
    AttStatus status = att_choices_read(r->ctx, r->trainer->gradient, r->chosen, &r->choices);
    if (!status && !r->choices)
        att_command_note(r->argv, "the run was tuned with other code than the program has for this "
                                  "machine; it goes on with the default schedules");
    r->learner.call.choices = r->choices;
    return status;
}

// What is surely faster takes the place of what the run has.
static AttStatus tune(Run *r) {
    AttTuned tuned = {0};
    att_command_note(r->argv, "tuning for %g s at most", r->values->tune);
    AttStatus status = att_learner_fill(r->ctx, &r->learner, 0);
    if (!status)
        status = att_tune(r->ctx, &r->learner.call, r->values->tune, &r->ending, &tuned);
    if (!status)
        att_progress_tuned(r->argv, &tuned);
    if (!tuned.n_changed) {
        free(tuned.choices);
        return status;
    }
    free(r->choices);
    r->learner.call.choices = r->choices = tuned.choices;
    return status ? status : write_settings(r);
}

static AttStatus begin(Run *r) {
    const Values *v = r->values;
    r->saved = -1;
    AttStatus status = take_chosen(r);
    if (!status && v->resume)
        status = att_checkpoint_read(r->ctx, &r->learner, v->out, &r->step);
    if (!status && v->resume)
        r->saved = r->step;
    if (!status)
        status = open_logs(r);
    if (!status)
        status = write_settings(r);
    return status || !v->tune || r->step >= v->steps ? status : tune(r);
}

static AttStatus open_run(Run *r) {
    const Values *v = r->values;
    AttStatus status = check_tune(r);
    if (!status)
        status = att_updater_open(r->ctx, r->trainer, v->optimizer, &r->updater);
    if (!status)
        status = att_model_open(r->ctx, r->trainer, &r->model);
    if (!status)
        status = open_data(r, &v->shared.data, v->held_out, &r->data);
    if (!status && v->eval_data.count)
        status = open_data(r, &v->eval_data, 0, &r->eval_data);
    if (!status)
        status = open_learner(r);
    if (!status && evaluates(r))
        status = open_evaluation(r);
    else if (!status && (v->held_out > 0 || r->eval_data) && v->eval_every)
        att_command_note(r->argv, "no evaluations: there are fewer examples than a batch has");
    if (!status)
        note_few_examples(r);
    if (!status)
        att_model_init(&r->model, (uint64_t)v->seed);
    if (!status && v->init && !v->resume)
        status = take_init(r);
    if (!status)
        status = open_folder(r);
    return status ? status : begin(r);
}

static void close_run(Run *r) {
    att_learner_close(&r->learner);
    if (r->eval_call.module)
        att_call_close(&r->eval_call);
    if (r->eval_batch.fields)
        att_batch_close(&r->eval_batch);
    if (r->data)
        att_data_close(r->data);
    if (r->eval_data)
        att_data_close(r->eval_data);
    if (r->model.params)
        att_model_close(&r->model);
    att_updater_close(&r->updater);
    free(r->means);
    free(r->settings);
    free(r->fixed);
    free(r->choices);
    if (r->log)
        fclose(r->log);
    if (r->eval_log)
        fclose(r->eval_log);
    att_folder_unlock(&r->lock);
    att_context_free(r->ctx);
}

// ---- running -----------------------------------------------------------------------------------
static AttStatus check_logs(Run *r) {
    if (!ferror(r->log) && (!r->eval_log || !ferror(r->eval_log)))
        return ATT_OK;
    return att_fail(r->ctx, ATT_IO, "cannot write the logs in %s: %s", r->values->out,
                    strerror(errno));
}

// A checkpoint that is there has its lines in the logs. Some file systems cannot sync: no matter.
static AttStatus sync_logs(Run *r) {
    (void)fdatasync(fileno(r->log));
    if (r->eval_log)
        (void)fdatasync(fileno(r->eval_log));
    return check_logs(r);
}

static AttStatus save(Run *r) {
    if (r->saved == r->step)
        return ATT_OK;
    AttStatus status = sync_logs(r);
    if (!status)
        status =
            att_checkpoint_write(r->ctx, &r->learner, r->values->out, r->step, r->values->keep);
    if (status)
        return status;
    r->saved = r->step;
    return att_chart_loss(r->ctx, r->values->out, r->trainer->entry->entry);
}

// Data or an evaluation that fails takes no steps with it. What failed first is told first, and a
// checkpoint that cannot be written as well.
static AttStatus keep_steps(Run *r, AttStatus failed) {
    char *why = strdup(att_message(r->ctx));
    bool lost = r->step > 0 && save(r) && r->saved != r->step;
    if (why && lost)
        att_fail(r->ctx, failed, "%s; and then: %s", why, att_message(r->ctx));
    else if (why)
        att_fail(r->ctx, failed, "%s", why);
    free(why);
    return failed;
}

static AttStatus evaluate(Run *r) {
    AttMeans means = {0, r->means};
    AttEvaluation evaluation = {.call = &r->eval_call,
                                .batch = &r->eval_batch,
                                .data = r->eval_data ? r->eval_data : r->data,
                                .part = r->eval_data ? ATT_PART_TRAIN : ATT_PART_HELD_OUT,
                                .batches = r->values->eval_batches,
                                .dims = &r->values->shared.dims};
    AttStatus status = att_evaluate(r->ctx, &evaluation, &means);
    if (status)
        return keep_steps(r, status);
    fprintf(r->eval_log, "%lld,%.9g,%.9g,", (long long)r->step, r->means[0], exp(r->means[0]));
    if (att_data_is_bytes(evaluation.data))
        fprintf(r->eval_log, "%.9g", r->means[0] / M_LN2);
    for (int64_t k = 1; k < r->eval_call.n_results; k++)
        fprintf(r->eval_log, ",%.9g", r->means[k]);
    fputc('\n', r->eval_log);
    att_progress_break(&r->progress);
    fprintf(stderr, "evaluation after step %lld: loss %.4f  perplexity %.4g", (long long)r->step,
            r->means[0], exp(r->means[0]));
    if (att_data_is_bytes(evaluation.data))
        fprintf(stderr, "  bits per byte %.4f", r->means[0] / M_LN2);
    fputc('\n', stderr);
    status = att_chart_loss(r->ctx, r->values->out, r->trainer->entry->entry);
    return status ? keep_steps(r, status) : ATT_OK;
}

static void note_step(Run *r, double rate, double seconds) {
    int64_t tokens = r->learner.batch.tokens, examples = r->values->batch * r->values->accumulate;
    AttProgressLine line = {.step = r->step,
                            .loss = r->learner.results[0],
                            .rate = rate,
                            .norm = r->learner.norm,
                            .per_second = (double)(tokens ? tokens * examples : examples) / seconds,
                            .what = tokens ? "tokens" : "examples",
                            .share = att_work_share(&r->work, seconds)};
    fprintf(r->log, "%lld,%.9g,%.9g,%.9g,%.6g,%.6g,", (long long)r->step, line.loss, line.rate,
            line.norm, seconds, line.per_second);
    if (r->work.flops > 0)
        fprintf(r->log, "%.6g", 1e-9 * r->work.flops / seconds);
    fputc(',', r->log);
    if (isfinite(line.share))
        fprintf(r->log, "%.4g", line.share);
    for (int64_t k = 1; k < r->learner.call.n_results; k++)
        fprintf(r->log, ",%.9g", r->learner.results[k]);
    fputc('\n', r->log);
    att_progress_tell(&r->progress, &line);
}

// What is not finite stops training before it reaches a tensor. Nothing is written: the steps
// before have likely gone astray already, and older checkpoints would make room.
static AttStatus stop_wild(Run *r) {
    const char *tensor = att_learner_first_wild(&r->learner);
    double loss = isnan(r->learner.results[0]) ? NAN : r->learner.results[0]; // without a sign
    const char *way_out = r->step ? "Try a smaller --lr or another --clip"
                                  : "No step was taken before: look at the data, ids and lengths "
                                    "among them, and at what tensors begin with";
    char last[80] = "there is no checkpoint yet";
    if (r->saved >= 0)
        snprintf(last, sizeof last, "the last checkpoint is of step %lld", (long long)r->saved);
    return att_fail(r->ctx, ATT_ARGUMENT,
                    "step %lld: the loss is %g and the norm of the gradient %g; %s%s; %s. %s",
                    (long long)r->step + 1, loss, r->learner.norm,
                    tensor ? "the first tensor whose gradient is not finite is "
                           : "every gradient is finite",
                    tensor ? tensor : "", last, way_out);
}

static AttStatus take_step(Run *r) {
    double begun = att_seconds(), rate = att_learning_rate(&r->schedule, r->step + 1);
    AttStatus status = att_learner_gradient(r->ctx, &r->learner, r->step + 1);
    if (status)
        return keep_steps(r, status);
    if (!att_learner_is_finite(&r->learner))
        return stop_wild(r);
    status = att_learner_update(r->ctx, &r->learner, r->step + 1, rate);
    if (status)
        return status;
    r->step++;
    note_step(r, rate, att_seconds() - begun);
    return check_logs(r);
}

static bool is_due(int64_t step, int64_t every, int64_t steps) {
    return every && (step % every == 0 || step == steps);
}

static AttStatus train(Run *r) {
    const Values *v = r->values;
    AttStatus status = v->steps == 0 ? save(r) : ATT_OK;
    if (v->resume && r->step >= v->steps)
        att_command_note(r->argv, "%lld steps are taken already; a larger --steps goes on",
                         (long long)r->step);
    while (r->step < v->steps && !status && !att_ending_came(&r->ending)) {
        status = take_step(r);
        if (!status && r->eval_log && is_due(r->step, v->eval_every, v->steps))
            status = evaluate(r);
        if (!status && v->save_every && r->step % v->save_every == 0)
            status = save(r);
    }
    att_progress_break(&r->progress);
    if (!status)
        status = save(r);
    if (!status && r->ending.came)
        att_command_note(r->argv, "ended by a signal after step %lld; --resume goes on",
                         (long long)r->step);
    return status;
}

static int run_with(const AttTrainer *trainer, char **argv, const Values *values,
                    const char *chosen) {
    int status = ATT_EXIT_FINE;
    Run run = {.argv = argv, .trainer = trainer, .values = values, .chosen = chosen};
    run.schedule = (AttSchedule){(AttScheduleKind)values->schedule, values->rate, values->steps,
                                 values->warmup};
    att_ending_await();
    run.ctx = att_context_new((int)values->shared.threads);
    if (!run.ctx)
        return att_command_fail(argv, ATT_EXIT_DATA, "out of memory");
    if (open_run(&run))
        status = att_command_report(argv, run.ctx);
    if (!status) {
        run.work = att_work_open(run.ctx, trainer, &run.learner.call, values->accumulate);
        run.progress = att_progress_open(argv, values->steps, run.step);
        if (train(&run))
            status = att_command_report(argv, run.ctx);
    }
    close_run(&run);
    return status;
}

// Of a run that begins. One that takes no steps yet may take many when it goes on.
static int64_t choose_warmup(int64_t steps) {
    enum { MOST = 100 };
    return steps == 0 || steps / 10 > MOST ? MOST : steps / 10;
}

int att_command_train(const AttTrainer *trainer, int argc, char **argv) {
    Values values = defaults;
    AttOptions options = {.values = &values};
    void *owner = NULL;
    int status = ATT_EXIT_FINE;
    int64_t fixed = att_batch_fixed(trainer);
    if (fixed)
        values.batch = fixed;
    if (trainer->n_optimizers)
        values.optimizer = trainer->optimizers[0].name;
    if (!att_options_read(&usage, argc, argv, &options, &status))
        return status;
    if (values.warmup == WARMUP_BY_STEPS && !values.resume)
        values.warmup = choose_warmup(values.steps);
    if (values.resume)
        status = go_on(argv, &options, &owner);
    else if (values.eval_data.count)
        values.held_out = 0; // all of --data is to be learned
    if (!status)
        status =
            run_with(trainer, argv, &values, owner ? att_settings_fact(owner, FACT_KERNELS) : "");
    att_options_free(&usage, &options);
    att_settings_free(owner);
    return status;
}
