// SPDX-License-Identifier: Apache-2.0
// The subcommand eval: means of the entry's results over examples, with the tensors of a file.

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "arguments.h"
#include "train/model/model.h"

typedef struct {
    AttShared shared;
    const char *weights;
    int64_t batch, batches, seed;
    double held_out;
    bool json;
} Values;

static const AttOption options_of_eval[] = {
    {"weights", ATT_OPTION_TEXT, offsetof(Values, weights), "FILE", "a checkpoint", .needed = true},
    {"batch", ATT_OPTION_COUNT, offsetof(Values, batch), "B", "examples at a time", .least = 1,
     .most = 1e9},
    {"batches", ATT_OPTION_COUNT, offsetof(Values, batches), "N", "how many; 0: all", .most = 1e9},
    {"held-out", ATT_OPTION_NUMBER, offsetof(Values, held_out), "SHARE",
     "the share that train left out with this; 0: all examples", .most = 0.9},
    {"seed", ATT_OPTION_COUNT, offsetof(Values, seed), "S", "as train had it", .most = 9e18},
    {"json", ATT_OPTION_FLAG, offsetof(Values, json), NULL, "one JSON object", .least = 0},
    {0}};
static const AttUsage usage = {"--data FILE... --weights FILE [OPTION]...",
                               "Means of the results over examples.",
                               {att_options_of_data, options_of_eval, att_options_of_call},
                               NULL};

typedef struct {
    const AttTrainer *trainer;
    const Values *values;
    AttContext *ctx;
    AttModel model;
    AttData *data;
    AttBatch batch;
    AttCall call;
    AttMeans means;
} Eval;

static AttStatus open_eval(Eval *e) {
    const Values *v = e->values;
    AttDataOptions options = {.paths = v->shared.data.at,
                              .n_paths = v->shared.data.count,
                              .objective = (AttObjective)v->shared.objective,
                              .held_out = v->held_out,
                              .seed = (uint64_t)v->seed};
    AttStatus status = att_model_open(e->ctx, e->trainer, &e->model);
    if (!status)
        status = att_model_read(e->ctx, &e->model, v->weights);
    if (!status)
        status = att_batch_data(e->ctx, &options, e->trainer, &v->shared.dims, v->batch, &e->data);
    if (!status)
        status = att_batch_open(e->ctx, e->trainer, e->data, &v->shared.dims, v->batch, &e->batch);
    if (!status)
        status = att_call_open(e->ctx, e->trainer->entry, &e->model, &e->batch, NULL,
                               &v->shared.dims, &e->call);
    return status;
}

static AttPart part_of(const Values *values) {
    return values->held_out > 0 ? ATT_PART_HELD_OUT : ATT_PART_TRAIN;
}

static AttStatus evaluate(Eval *e) {
    const Values *v = e->values;
    AttEvaluation evaluation = {.call = &e->call,
                                .batch = &e->batch,
                                .data = e->data,
                                .part = part_of(v),
                                .batches = v->batches,
                                .dims = &v->shared.dims};
    return att_evaluate(e->ctx, &evaluation, &e->means);
}

// JSON has no NaN and no infinity: null.
static json_t *json_of(double number) {
    return isfinite(number) ? json_real(number) : json_null();
}

static void print_line(const char *key, const json_t *value) {
    printf("%-14s ", key);
    if (json_is_null(value))
        printf("not finite\n");
    else
        printf("%.*g\n", json_is_integer(value) ? 15 : 6, json_number_value(value));
}

// Further names of the loss, where it is a mean over tokens.
static void tell(const Eval *e) {
    double loss = e->means.results[0];
    json_t *all = json_object();
    json_object_set_new(all, "examples", json_integer(e->means.n_examples));
    json_object_set_new(all, "loss", json_of(loss));
    if (isfinite(exp(loss)))
        json_object_set_new(all, "perplexity", json_real(exp(loss)));
    if (att_data_is_bytes(e->data))
        json_object_set_new(all, "bits_per_byte", json_of(loss / M_LN2));
    for (int64_t k = 1; k < e->call.n_results; k++)
        json_object_set_new(all, att_call_result_name(&e->call, k), json_of(e->means.results[k]));
    const char *key;
    json_t *value;
    if (e->values->json)
        json_dumpf(all, stdout, JSON_INDENT(1));
    else
        json_object_foreach(all, key, value) print_line(key, value);
    if (e->values->json)
        putchar('\n');
    json_decref(all);
}

static AttStatus run(Eval *e) {
    size_t count = (size_t)e->trainer->entry->n_tensors + 1;
    e->means.results = calloc(count, sizeof *e->means.results);
    if (!e->means.results)
        return att_no_memory(e->ctx);
    AttStatus status = open_eval(e);
    return status ? status : evaluate(e);
}

static void close_eval(Eval *e) {
    if (e->call.module)
        att_call_close(&e->call);
    if (e->batch.fields)
        att_batch_close(&e->batch);
    if (e->data)
        att_data_close(e->data);
    if (e->model.params)
        att_model_close(&e->model);
    free(e->means.results);
    att_context_free(e->ctx);
}

// Of a program that is built for batches of one size, examples that fill none.
static void note_left(char **argv, const Eval *e) {
    int64_t size = e->values->batch, all = att_data_examples(e->data, part_of(e->values));
    int64_t left = all % size;
    if (att_batch_fixed(e->trainer) && !e->values->batches && left)
        att_command_note(argv,
                         "the last %lld of %lld examples are left out: the program is built for "
                         "batches of %lld",
                         (long long)left, (long long)all, (long long)size);
}

int att_command_eval(const AttTrainer *trainer, int argc, char **argv) {
    Values values = {.batch = 8};
    AttOptions options = {.values = &values};
    int status = ATT_EXIT_FINE;
    int64_t fixed = att_batch_fixed(trainer);
    if (fixed)
        values.batch = fixed;
    if (!att_options_read(&usage, argc, argv, &options, &status))
        return status;
    Eval eval = {.trainer = trainer, .values = &values};
    eval.ctx = att_context_new((int)values.shared.threads);
    if (!eval.ctx)
        status = att_command_fail(argv, ATT_EXIT_DATA, "out of memory");
    else if (run(&eval))
        status = att_command_report(argv, eval.ctx);
    if (!status) {
        note_left(argv, &eval);
        tell(&eval);
        if (fflush(stdout))
            status = att_command_fail(argv, ATT_EXIT_DATA, "%s", strerror(errno));
    }
    if (eval.ctx)
        close_eval(&eval);
    att_options_free(&usage, &options);
    return status;
}
