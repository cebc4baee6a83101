// SPDX-License-Identifier: Apache-2.0
// Examples for the data arguments of an entry (language.md 14.4): what is opened decides how many
// there are, and every one can be made alone.
//
// Which objective makes them follows from the files and the arguments' names, see `arguments`:
// NAME=FILE with the name of an argument, or one safetensors file, are arrays; else files are
// tokens. What the program tells, arguments without dims, is no data.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/data/data.h"

const char *const att_objective_names[] = {
    [ATT_OBJECTIVE_AUTO] = "auto",     [ATT_OBJECTIVE_LANGUAGE] = "language",
    [ATT_OBJECTIVE_MASKED] = "masked", [ATT_OBJECTIVE_SPAN] = "span",
    [ATT_OBJECTIVE_FIELDS] = "fields", [ATT_OBJECTIVE_FIELDS + 1] = NULL,
};

// [b, n]; of SPAN, the last two are [b, m].
static const char *const arguments[][ATT_ID_FIELDS] = {
    [ATT_OBJECTIVE_LANGUAGE] = {"tokens", "labels"},
    [ATT_OBJECTIVE_MASKED] = {"masked", "labels"},
    [ATT_OBJECTIVE_SPAN] = {"source", "target", "labels"},
    [ATT_OBJECTIVE_FIELDS] = {NULL},
};

enum { ID_MOST = INT32_MAX }; // ids below this are known to the objectives

struct AttData {
    AttObjective objective;
    uint64_t seed;
    int64_t examples, held_out;
    bool *filled; // by field
    AttWatch *watches;
    AttArrays *arrays;
    // Of tokens: example i begins at token i * stride and needs `needed` of them.
    AttTokens tokens;
    int n_ids;
    AttIdField ids[ATT_ID_FIELDS];
    int64_t stride, needed;
    int64_t below;    // the least of those of the fields, 0: none has one
    int64_t data_ids; // ids that tokens of the files may have
    AttSpanSizes sizes;
    int32_t *row;
    int64_t *lengths; // of spans
};

typedef struct {
    AttContext *ctx;
    const AttTrainer *trainer;
    const AttDataOptions *options;
    int64_t *extents; // by module dim, those that are like others as they are
    int64_t batch;    // the dim that others of the batch are like
    AttData *data;
} Opening;

static int64_t find_field(const Opening *o, const char *name) {
    for (int64_t f = 0; f < o->trainer->n_fields; f++)
        if (o->data->filled[f] && strcmp(o->trainer->fields[f].name, name) == 0)
            return f;
    return -1;
}

// ---- arguments ---------------------------------------------------------------------------------
static AttStatus check_field(const Opening *o, int64_t field) {
    const AttModule *entry = o->trainer->entry;
    const AttTensor *tensor = att_field_tensor(o->trainer, field);
    for (int64_t i = 0; i < tensor->rank; i++) {
        const AttDim *dim = &entry->dims[tensor->dims[i]];
        bool is_batch = dim->like == o->batch;
        if (is_batch != (i == 0))
            return att_fail(o->ctx, ATT_ARGUMENT,
                            "%s must have the dim of the batch, %s, as its first, and once",
                            tensor->name, entry->dims[o->batch].name);
        if (!is_batch && o->extents[tensor->dims[i]] < 0)
            return att_fail(o->ctx, ATT_ARGUMENT,
                            "how long %s of %s is must be known: give -D %s=EXTENT", dim->name,
                            tensor->name, dim->name);
    }
    return ATT_OK;
}

static AttStatus check_fields(const Opening *o) {
    bool any = false;
    AttStatus status = ATT_OK;
    for (int64_t f = 0; f < o->trainer->n_fields && !status; f++)
        if (o->data->filled[f]) {
            any = true;
            status = check_field(o, f);
        }
    if (!status && !any)
        return att_fail(o->ctx, ATT_ARGUMENT, "%s has no argument that data fills: one with dims",
                        o->trainer->entry->entry);
    return status;
}

// ---- the objective -----------------------------------------------------------------------------
static int count_names(AttObjective objective) {
    int n = 0;
    while (n < ATT_ID_FIELDS && arguments[objective][n])
        n++;
    return n;
}

// Are its arguments those of the entry?
static bool names_fit(const Opening *o, AttObjective objective) {
    int n_names = count_names(objective), n_filled = 0;
    for (int64_t f = 0; f < o->trainer->n_fields; f++)
        n_filled += o->data->filled[f];
    for (int i = 0; i < n_names; i++)
        if (find_field(o, arguments[objective][i]) < 0)
            return false;
    return n_filled == n_names;
}

static AttObjective choose_objective(const Opening *o, const AttArraysOf *of) {
    const AttDataOptions *options = o->options;
    if (options->objective != ATT_OBJECTIVE_AUTO)
        return options->objective;
    if (att_arrays_are_meant(of, options->paths, options->n_paths))
        return ATT_OBJECTIVE_FIELDS;
    for (int k = ATT_OBJECTIVE_LANGUAGE; k < ATT_OBJECTIVE_FIELDS; k++)
        if (names_fit(o, (AttObjective)k))
            return (AttObjective)k;
    return ATT_OBJECTIVE_FIELDS;
}

// ---- tokens ------------------------------------------------------------------------------------
static AttStatus set_id_field(const Opening *o, int i) {
    AttData *data = o->data;
    const char *name = arguments[data->objective][i];
    int64_t field = find_field(o, name);
    const AttTensor *tensor = field < 0 ? NULL : att_field_tensor(o->trainer, field);
    if (!tensor)
        return att_fail(o->ctx, ATT_ARGUMENT,
                        "the %s objective fills an argument %s, and %s has "
                        "none",
                        att_objective_names[data->objective], name, o->trainer->entry->entry);
    if (tensor->rank != 2 || (tensor->elem != ATT_I32 && tensor->elem != ATT_I64))
        return att_fail(o->ctx, ATT_ARGUMENT,
                        "%s must be ids, i32 or i64, with two dims: the batch and places of a "
                        "sequence",
                        name);
    AttIdField *id = &data->ids[i];
    int64_t below = o->trainer->fields[field].below;
    *id = (AttIdField){field, (AttElem)tensor->elem, o->extents[tensor->dims[1]],
                       below < ID_MOST ? below : ID_MOST, NULL};
    if (id->length < 1)
        return att_fail(o->ctx, ATT_ARGUMENT, "%s has sequences without a place", name);
    if (id->below && (!data->below || id->below < data->below))
        data->below = id->below;
    return ATT_OK;
}

static AttStatus set_id_fields(const Opening *o) {
    AttData *data = o->data;
    AttStatus status = ATT_OK;
    data->n_ids = count_names(data->objective);
    for (int i = 0; i < data->n_ids && !status; i++)
        status = set_id_field(o, i);
    if (status)
        return status;
    for (int64_t f = 0; f < o->trainer->n_fields; f++) {
        bool known = !data->filled[f];
        for (int i = 0; i < data->n_ids; i++)
            known |= data->ids[i].field == f;
        if (!known)
            return att_fail(o->ctx, ATT_ARGUMENT,
                            "nothing fills the argument %s: the %s objective "
                            "has no such field",
                            o->trainer->fields[f].name, att_objective_names[data->objective]);
    }
    const AttIdField *last = &data->ids[data->n_ids - 1], *beside = last - 1;
    if (last->length != beside->length)
        return att_fail(o->ctx, ATT_ARGUMENT, "%s and %s must have sequences of one length",
                        o->trainer->fields[beside->field].name,
                        o->trainer->fields[last->field].name);
    return ATT_OK;
}

// How many tokens an example takes, and how many ids of the table are not for tokens.
static AttStatus size_examples(const Opening *o, int64_t *n_special) {
    AttData *data = o->data;
    const AttIdField *ids = data->ids;
    *n_special = 0;
    data->stride = data->needed = ids[0].length;
    if (data->objective == ATT_OBJECTIVE_LANGUAGE) {
        data->needed++; // the label of the last
        return ATT_OK;
    }
    if (!data->below)
        return att_fail(o->ctx, ATT_ARGUMENT,
                        "the %s objective takes ids from the top of the table of tokens, and %s of "
                        "%s does not gather from one",
                        att_objective_names[data->objective], o->trainer->fields[ids[0].field].name,
                        o->trainer->entry->entry);
    *n_special = 1;
    if (data->objective == ATT_OBJECTIVE_MASKED)
        return ATT_OK;
    if (!att_span_sizes(ids[0].length, ids[1].length, &data->sizes))
        return att_fail(o->ctx, ATT_ARGUMENT,
                        "a source of %lld places and a target of %lld have no room for a span: "
                        "2 and 3 are the least",
                        (long long)ids[0].length, (long long)ids[1].length);
    data->stride = data->needed = data->sizes.tokens;
    *n_special = data->sizes.spans + 2; // the start, a sentinel for each, and the last
    return ATT_OK;
}

static AttStatus check_tokens(const Opening *o, int64_t n_special) {
    AttData *data = o->data;
    char reason[200];
    data->data_ids = data->below ? data->below - n_special : ID_MOST;
    snprintf(reason, sizeof reason, "the table of %lld ids has %lld of its last for the objective",
             (long long)data->below, (long long)n_special);
    if (data->below && data->data_ids < 1)
        return att_fail(o->ctx, ATT_ARGUMENT, "%s, which leaves none for tokens", reason);
    if (!n_special)
        snprintf(reason, sizeof reason, "ids must be below %lld",
                 (long long)(data->below ? data->below : data->data_ids));
    AttStatus status = att_tokens_check(o->ctx, &data->tokens, data->data_ids, reason);
    if (att_tokens_are_bytes(&data->tokens) && data->data_ids > 256)
        data->data_ids = 256;
    return status;
}

static AttStatus open_tokens(const Opening *o) {
    AttData *data = o->data;
    const AttDataOptions *options = o->options;
    int64_t n_special = 0;
    AttStatus status = set_id_fields(o);
    if (!status)
        status = size_examples(o, &n_special);
    if (!status)
        status = att_tokens_open(o->ctx, options->paths, options->n_paths, &data->tokens);
    if (!status)
        status = check_tokens(o, n_special);
    if (status)
        return status;
    if (data->tokens.count < data->needed)
        return att_fail(o->ctx, ATT_ARGUMENT, "%s%s: %lld tokens, and an example takes %lld",
                        options->paths[0], options->n_paths > 1 ? " and those behind it" : "",
                        (long long)data->tokens.count, (long long)data->needed);
    data->examples = (data->tokens.count - data->needed) / data->stride + 1;
    data->row = calloc((size_t)data->needed, sizeof *data->row);
    data->lengths = calloc(2 * (size_t)data->sizes.spans + 1, sizeof *data->lengths);
    bool fine = data->row && data->lengths;
    for (int i = 0; i < data->n_ids; i++) {
        data->ids[i].row = calloc((size_t)data->ids[i].length, sizeof *data->ids[i].row);
        fine &= data->ids[i].row != NULL;
    }
    return fine ? ATT_OK : att_no_memory(o->ctx);
}

// ---- opening -----------------------------------------------------------------------------------
// Examples held out are the last of the files: the share of them, rounded down, but at least one.
static AttStatus hold_out(const Opening *o) {
    AttData *data = o->data;
    double share = o->options->held_out;
    if (!data->examples)
        return att_fail(o->ctx, ATT_ARGUMENT, "%s: there is no example", o->options->paths[0]);
    data->held_out = (int64_t)(share * (double)data->examples);
    if (share > 0 && !data->held_out)
        data->held_out = 1;
    if (share < 1 && data->held_out >= data->examples)
        return att_fail(
            o->ctx, ATT_ARGUMENT,
            "%s: of %lld example%s %lld held out leave none to train with; --held-out 0 "
            "holds out none",
            o->options->paths[0], (long long)data->examples, data->examples == 1 ? "" : "s",
            (long long)data->held_out);
    return ATT_OK;
}

static AttStatus open_data(const Opening *o) {
    AttData *data = o->data;
    AttArraysOf of = {o->ctx, o->trainer, o->extents, data->filled};
    AttStatus status = check_fields(o);
    if (status)
        return status;
    data->objective = choose_objective(o, &of);
    if (data->objective == ATT_OBJECTIVE_FIELDS) {
        status = att_arrays_open(&of, o->options->paths, o->options->n_paths, &data->arrays);
        data->examples = status ? 0 : att_arrays_examples(data->arrays);
    } else
        status = open_tokens(o);
    if (!status)
        status = att_watch_open(o->ctx, o->options->paths, o->options->n_paths,
                                data->arrays != NULL, &data->watches);
    return status ? status : hold_out(o);
}

static AttStatus begin(Opening *o, const int64_t *extents, int64_t batch_dim) {
    const AttModule *entry = o->trainer->entry;
    const AttDataOptions *options = o->options;
    if (!(options->held_out >= 0 && options->held_out <= 1))
        return att_fail(o->ctx, ATT_ARGUMENT, "the share held out must be from 0 to 1");
    if (!options->n_paths)
        return att_fail(o->ctx, ATT_ARGUMENT, "no file of data is given");
    if (batch_dim < 0 || batch_dim >= entry->n_dims)
        return att_fail(o->ctx, ATT_ARGUMENT, "%s has no dim for the batch", entry->entry);
    o->batch = entry->dims[batch_dim].like;
    for (int64_t d = 0; d < entry->n_dims; d++)
        o->extents[d] = extents[d] < 0 ? extents[entry->dims[d].like] : extents[d];
    for (int64_t f = 0; f < o->trainer->n_fields; f++)
        o->data->filled[f] = att_field_tensor(o->trainer, f)->rank > 0;
    o->data->seed = options->seed;
    return ATT_OK;
}

AttStatus att_data_open(AttContext *ctx, const AttDataOptions *options, const AttTrainer *trainer,
                        const int64_t *extents, int64_t batch_dim, AttData **out) {
    Opening o = {.ctx = ctx, .trainer = trainer, .options = options};
    AttStatus status;
    *out = o.data = calloc(1, sizeof *o.data);
    o.extents = calloc((size_t)trainer->entry->n_dims + 1, sizeof *o.extents);
    if (o.data)
        o.data->filled = calloc((size_t)trainer->n_fields + 1, sizeof *o.data->filled);
    if (!o.extents || !o.data || !o.data->filled)
        status = att_no_memory(ctx);
    else
        status = begin(&o, extents, batch_dim);
    if (!status)
        status = open_data(&o);
    free(o.extents);
    if (status) {
        att_data_close(o.data);
        *out = NULL;
    }
    return status;
}

void att_data_close(AttData *data) {
    if (!data)
        return;
    att_arrays_close(data->arrays);
    att_tokens_close(&data->tokens);
    att_watch_close(data->watches);
    for (int i = 0; i < ATT_ID_FIELDS; i++)
        free(data->ids[i].row);
    free(data->row);
    free(data->lengths);
    free(data->filled);
    free(data);
}

int64_t att_data_examples(const AttData *data, AttPart part) {
    return part == ATT_PART_HELD_OUT ? data->held_out : data->examples - data->held_out;
}

bool att_data_is_bytes(const AttData *data) {
    return data->objective == ATT_OBJECTIVE_LANGUAGE && att_tokens_are_bytes(&data->tokens);
}

const char *att_data_objective(const AttData *data) {
    return att_objective_names[data->objective];
}

bool att_data_fills(const AttData *data, int64_t field) {
    return data->filled[field];
}

// ---- batches -----------------------------------------------------------------------------------
static void store_row(const AttIdField *id, int64_t at, void *tensor) {
    if (id->elem == ATT_I32) {
        memcpy((int32_t *)tensor + at * id->length, id->row, (size_t)id->length * sizeof *id->row);
        return;
    }
    int64_t *out = (int64_t *)tensor + at * id->length;
    for (int64_t i = 0; i < id->length; i++)
        out[i] = id->row[i];
}

static void make_language(AttData *data) {
    size_t bytes = (size_t)data->ids[0].length * sizeof *data->row;
    memcpy(data->ids[0].row, data->row, bytes);
    memcpy(data->ids[1].row, data->row + 1, bytes);
}

// Example `example` of the files as row `at` of the batch. draws: what is drawn for it.
static void make_example(AttData *data, int64_t example, AttDraws *draws, int64_t at,
                         void *const *tensors) {
    att_tokens_copy(&data->tokens, example * data->stride, data->needed, data->row);
    if (data->objective == ATT_OBJECTIVE_LANGUAGE)
        make_language(data);
    else if (data->objective == ATT_OBJECTIVE_MASKED)
        att_masked_example(data->ids, data->row, data->below, data->data_ids, draws);
    else
        att_span_example(data->ids, &data->sizes, data->row, data->below, data->lengths, draws);
    for (int i = 0; i < data->n_ids; i++)
        store_row(&data->ids[i], at, tensors[data->ids[i].field]);
}

typedef struct {
    AttData *data;
    bool train;
    int64_t first, count;
    void *const *tensors;
} Batch;

static void make_batch(void *argument) {
    const Batch *batch = argument;
    AttData *data = batch->data;
    int64_t trained = data->examples - data->held_out;
    int64_t examples = batch->train ? trained : data->held_out;
    uint64_t stream = att_stream_of(batch->train ? "data.train" : "data.held_out");
    for (int64_t i = 0; i < batch->count; i++) {
        int64_t number = batch->first + i, place = number % examples;
        // Trained ones are drawn for anew in each epoch; held out ones are always the same.
        AttDraws draws = att_draws(data->seed, stream + (uint64_t)(batch->train ? number : place));
        if (batch->train)
            place = att_data_place(data->seed, (uint64_t)(number / examples), examples, place);
        else
            place += trained;
        if (data->arrays)
            att_arrays_example(data->arrays, place, i, batch->tensors);
        else
            make_example(data, place, &draws, i, batch->tensors);
    }
}

AttStatus att_data_batch(AttContext *ctx, AttData *data, AttPart part, int64_t first, int64_t count,
                         void *const *tensors) {
    bool train = part == ATT_PART_TRAIN;
    if (!att_data_examples(data, part))
        return att_fail(ctx, ATT_ARGUMENT, "no example is %s",
                        train ? "left to train with" : "held out");
    Batch batch = {data, train, first, count, tensors};
    return att_watch_read(ctx, data->watches, make_batch, &batch);
}
