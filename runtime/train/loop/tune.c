// SPDX-License-Identifier: Apache-2.0
// A program that tunes itself. It was built with alternatives of launches (module.h): the same
// kernels with other schedules. Which are the fastest is found by running the whole call, so that
// caches are as they will be; alternative k of all choices is tried at one time, in turns with the
// first of all.
//
// What counts is the ratio of two runs next to each other, since others use the machine, too. An
// alternative wins by the median of its ratios, if it is also below 1 beyond doubt (sign test). In
// the end all winners together run in turns with the default, and what does not hold up is none.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/loop/loop.h"
#include "train/statistics.h"

enum { PAIRS_LEAST = 7, PAIRS_MOST = 41 };
static const double SEARCH = 0.67;   // of the time, the rest is for the winners together
static const double DOUBT = 0.05;    // that the winner of a choice is none
static const double HOPELESS = 1.05; // times the default's time, for all choices of an alternative

typedef struct {
    AttContext *ctx;
    AttCall *call;
    const AttTuning *tuning;
    AttTuned *out;
    double end;      // of the time that there is
    int64_t n, most; // choices, and alternatives of one at most
    int64_t tried;   // of these; those that are predicted to be slower are left out
    int64_t n_launches;
    const AttLaunch *launches;
    const int64_t *n_alternatives; // by choice
    double *of_launch;             // seconds of a run
    double *ours, *theirs;         // by choice, of the last pair
    double *ratios;                // of pair p of alternative k of choice c
    double *before, *after;        // seconds of pairs of whole calls
    int64_t *pairs;                // by alternative
    int64_t *first, *choices;      // by choice: zeros, and those that are tried
} Tuner;

static double *ratios_of(const Tuner *t, int64_t choice, int64_t alternative) {
    return t->ratios + (choice * t->most + alternative) * PAIRS_MOST;
}

static bool is_over(const Tuner *t, double share) {
    double begun = t->end - t->tuning->seconds;
    return att_seconds() > begun + share * t->tuning->seconds || t->tuning->ended(t->tuning->self);
}

// ---- runs --------------------------------------------------------------------------------------
static AttStatus run(Tuner *t, const int64_t *choices, double *by_choice, double *all) {
    memset(t->of_launch, 0, (size_t)t->n_launches * sizeof *t->of_launch);
    memset(by_choice, 0, (size_t)t->n * sizeof *by_choice);
    t->call->choices = choices;
    t->call->seconds = t->of_launch;
    double begun = att_seconds();
    AttStatus status = att_call_run(t->ctx, t->call);
    *all = att_seconds() - begun;
    t->call->choices = NULL;
    t->call->seconds = NULL;
    for (int64_t i = 0; i < t->n_launches; i++)
        if (t->launches[i].choice != ATT_NO_CHOICE)
            by_choice[t->launches[i].choice] += t->of_launch[i];
    return status;
}

// t->choices in turns with the first of all. Ratios are noted as those of alternative k, or of that
// which is chosen where k is negative.
static AttStatus run_pair(Tuner *t, int64_t k, int64_t pair) {
    double *before = &t->before[pair], *after = &t->after[pair];
    AttStatus status = pair % 2 ? ATT_OK : run(t, t->first, t->theirs, before);
    if (!status)
        status = run(t, t->choices, t->ours, after);
    if (!status && pair % 2)
        status = run(t, t->first, t->theirs, before);
    for (int64_t c = 0; c < t->n && !status; c++)
        ratios_of(t, c, k < 0 ? t->choices[c] : k)[pair] =
            t->theirs[c] > 0 ? t->ours[c] / t->theirs[c] : 1;
    return status;
}

// ---- the search --------------------------------------------------------------------------------
static bool is_hopeless(const Tuner *t, int64_t k) {
    for (int64_t c = 0; c < t->n; c++)
        for (int64_t p = 0; k < t->n_alternatives[c] && p < t->pairs[k]; p++)
            if (ratios_of(t, c, k)[p] < HOPELESS)
                return false;
    return t->pairs[k] >= 2;
}

static AttStatus try_alternative(Tuner *t, int64_t k) {
    for (int64_t c = 0; c < t->n; c++)
        t->choices[c] = k < t->n_alternatives[c] ? k : 0;
    AttStatus status = run_pair(t, k, t->pairs[k]);
    t->pairs[k] += !status;
    return status;
}

// As many as there is time for. false: there is too little for one.
static bool find_tried(Tuner *t, double seconds_of_run) {
    double pairs = 2 * seconds_of_run * PAIRS_LEAST, fit = SEARCH * t->tuning->seconds / pairs;
    t->out->least = pairs / (1 - SEARCH);
    t->tried = 1 + (int64_t)fmin(fit, (double)(t->most - 1));
    t->out->enough = t->tuning->seconds >= t->out->least;
    return t->out->enough;
}

static AttStatus search(Tuner *t) {
    double seconds;
    AttStatus status = run(t, t->first, t->theirs, &seconds); // pages and caches are as later
    if (!status)
        status = run(t, t->first, t->theirs, &seconds);
    if (status || !find_tried(t, seconds))
        return status;
    for (int64_t p = 0; p < PAIRS_MOST && !status && !is_over(t, SEARCH); p++)
        for (int64_t k = 1; k < t->tried && !status && !is_over(t, SEARCH); k++)
            if (!is_hopeless(t, k))
                status = try_alternative(t, k);
    return status;
}

static void choose(Tuner *t, int64_t c) {
    double least = ATT_WORTH, doubt = DOUBT / (double)(t->n_alternatives[c] - 1);
    t->choices[c] = 0;
    for (int64_t k = 1; k < t->n_alternatives[c]; k++) {
        double *ratios = ratios_of(t, c, k);
        if (t->pairs[k] < PAIRS_LEAST || 1 - att_confidence(ratios, t->pairs[k], 1) > doubt)
            continue;
        double median = att_quantile(ratios, t->pairs[k], 0.5);
        t->choices[c] = median <= least ? k : t->choices[c];
        least = fmin(median, least);
    }
}

// ---- the winners -------------------------------------------------------------------------------
static bool any_chosen(const Tuner *t) {
    int64_t c = 0;
    while (c < t->n && !t->choices[c])
        c++;
    return c < t->n;
}

static AttStatus confirm(Tuner *t) {
    int64_t pairs = 0;
    AttStatus status = ATT_OK;
    for (; pairs < PAIRS_MOST && !status && !is_over(t, 1); pairs++)
        status = run_pair(t, -1, pairs);
    for (int64_t c = 0; c < t->n; c++)
        if (pairs < PAIRS_LEAST ||
            att_quantile(ratios_of(t, c, t->choices[c]), pairs, 0.5) > ATT_WORTH)
            t->choices[c] = 0;
    if (status || pairs < PAIRS_LEAST)
        return status;
    double before = att_quantile(t->before, pairs, 0.5), after = att_quantile(t->after, pairs, 0.5);
    if (after < before && any_chosen(t)) {
        t->out->before = before;
        t->out->after = after;
    } else
        memset(t->choices, 0, (size_t)t->n * sizeof *t->choices);
    return ATT_OK;
}

static AttStatus tune(Tuner *t) {
    AttStatus status = search(t);
    for (int64_t c = 0; c < t->n && !status; c++)
        choose(t, c);
    for (int64_t k = 1; k < t->tried; k++)
        for (int64_t c = 0; c < t->n; c++)
            t->out->tried += t->pairs[k] && k < t->n_alternatives[c];
    if (!status && any_chosen(t))
        status = confirm(t);
    for (int64_t c = 0; c < t->n && !status; c++) {
        t->out->choices[c] = t->choices[c];
        t->out->n_changed += t->choices[c] > 0;
    }
    return status;
}

static AttStatus tune_level(Tuner *t) {
    size_t n = (size_t)t->n + 1, most = (size_t)t->most + 1;
    double *room = calloc((size_t)t->n_launches + 2 * n + n * most * PAIRS_MOST + 2 * PAIRS_MOST,
                          sizeof *room);
    int64_t *numbers = calloc(most + 2 * n, sizeof *numbers);
    AttStatus status = room && numbers ? ATT_OK : att_no_memory(t->ctx);
    if (!status) {
        t->of_launch = room;
        t->ours = t->of_launch + t->n_launches;
        t->theirs = t->ours + n;
        t->before = t->theirs + n;
        t->after = t->before + PAIRS_MOST;
        t->ratios = t->after + PAIRS_MOST;
        t->pairs = numbers;
        t->first = t->pairs + most;
        t->choices = t->first + n;
        status = tune(t);
    }
    free(room);
    free(numbers);
    return status;
}

AttStatus att_tune(AttContext *ctx, AttCall *call, const AttTuning *tuning, AttTuned *out) {
    const AttModule *module = call->module;
    int level = att_module_level(ctx, module);
    *out = (AttTuned){0};
    if (level < 0)
        return ATT_UNSUPPORTED;
    Tuner t = {.ctx = ctx,
               .call = call,
               .tuning = tuning,
               .out = out,
               .end = att_seconds() + tuning->seconds,
               .n = module->n_choices[level],
               .n_launches = module->n_launches[level],
               .launches = module->launches[level],
               .n_alternatives = module->n_alternatives[level]};
    for (int64_t c = 0; c < t.n; c++)
        t.most = t.n_alternatives[c] > t.most ? t.n_alternatives[c] : t.most;
    out->n_choices = t.n;
    out->choices = calloc((size_t)t.n + 1, sizeof *out->choices);
    return out->choices ? tune_level(&t) : att_no_memory(ctx);
}

// ---- as text -----------------------------------------------------------------------------------
char *att_choices_text(AttContext *ctx, const AttCall *call) {
    int level = att_module_level(ctx, call->module);
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    if (!file)
        return NULL;
    if (level >= 0 && call->choices)
        fprintf(file, "%s:", att_level_name(level));
    for (int64_t c = 0; level >= 0 && call->choices && c < call->module->n_choices[level]; c++)
        fprintf(file, " %lld", (long long)call->choices[c]);
    if (fclose(file)) {
        free(text);
        return NULL;
    }
    return text;
}

// The numbers behind the level's name, each one of an alternative, and nothing else.
static bool read_choices(const AttModule *module, int level, const char *text, int64_t *choices) {
    const char *name = att_level_name(level);
    size_t length = strlen(name);
    if (strncmp(text, name, length) != 0 || text[length] != ':')
        return false;
    text += length + 1;
    for (int64_t c = 0; c < module->n_choices[level]; c++) {
        char *end;
        long long number = strtoll(text, &end, 10);
        if (end == text || number < 0 || number >= module->n_alternatives[level][c])
            return false;
        choices[c] = number;
        text = end;
    }
    return !*text;
}

AttStatus att_choices_read(AttContext *ctx, const AttModule *module, const char *text,
                           int64_t **out) {
    int level = att_module_level(ctx, module);
    *out = NULL;
    if (level < 0)
        return ATT_UNSUPPORTED;
    int64_t *choices = calloc((size_t)module->n_choices[level] + 1, sizeof *choices);
    if (!choices)
        return att_no_memory(ctx);
    if (read_choices(module, level, text, choices))
        *out = choices;
    else
        free(choices);
    return ATT_OK;
}
