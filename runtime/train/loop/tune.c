// SPDX-License-Identifier: Apache-2.0
// A program that tunes itself. It was built with alternatives of launches (module.h): the same
// kernels with other schedules. Which are the fastest is found by running the whole call, so that
// caches are as they will be. What the call has is the base: the first alternatives, or what an
// earlier search has chosen. Number k of the others of all choices is tried at one time, in turns
// with the base.
//
// What counts is the ratio of two runs next to each other, since others use the machine, too. An
// alternative wins by the median of its ratios, if it is sure that it is faster (sign test). Then
// all winners together run in turns with the base, and what does not hold up is none; if
// something was none, what is left runs once more, and is kept only if the whole call is faster.
// At the end both run once on the same data and have to make the same (alike.c).

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "statistics.h"
#include "train/loop/loop.h"

// Shares of the time at which phases end. Each has time for the pairs that make something sure.
static const double SEARCHED = 0.5, CONFIRMED = 0.75;
// Times the time of the base: tried no more (chosen; that of attc tune is of the best so far).
static const double HOPELESS = 1.1;

// Of one of the others of a choice.
typedef struct {
    int64_t pairs; // of runs
    bool given_up;
    double ratios[ATT_PAIRS_MOST];
} Trial;

typedef struct {
    AttContext *ctx;
    AttCall *call;
    AttEnding *ending;
    AttTuned *out;
    double begun, seconds; // seconds: that there are
    int64_t n, most;       // choices, and alternatives of one at most
    int64_t tried;         // so many of the others there is time for
    int64_t n_launches;
    const AttLaunch *launches;
    const int64_t *n_alternatives; // by choice
    Trial *trials;                 // by choice and number, from 1; 0: of all winners
    double *of_launch;             // seconds of a run
    double *ours, *theirs;         // by choice, of the last pair
    double wholes[ATT_PAIRS_MOST],
        before[ATT_PAIRS_MOST]; // ratios of whole calls, and the base's seconds
    double of_pair;             // seconds of a pair, about
    int64_t *base, *choices;    // by choice, and what is tried
} Search;

static Trial *trial_of(const Search *s, int64_t choice, int64_t number) {
    return &s->trials[choice * s->most + number];
}

// Number k of those that are not the base's.
static int64_t other_of(const Search *s, int64_t choice, int64_t k) {
    return k <= s->base[choice] ? k - 1 : k;
}

static double time_left(const Search *s, double share) {
    return s->begun + share * s->seconds - att_seconds();
}

static bool is_over(const Search *s, double share) {
    return time_left(s, share) < s->of_pair || att_ending_came(s->ending);
}

// ---- runs --------------------------------------------------------------------------------------
static AttStatus run(Search *s, const int64_t *choices, double *by_choice, double *all) {
    memset(s->of_launch, 0, (size_t)s->n_launches * sizeof *s->of_launch);
    memset(by_choice, 0, (size_t)s->n * sizeof *by_choice);
    const int64_t *before = s->call->choices;
    s->call->choices = choices;
    s->call->seconds = s->of_launch;
    double begun = att_seconds();
    AttStatus status = att_call_run(s->ctx, s->call);
    *all = att_seconds() - begun;
    s->call->choices = before;
    s->call->seconds = NULL;
    for (int64_t i = 0; i < s->n_launches; i++)
        if (s->launches[i].choice != ATT_NO_CHOICE)
            by_choice[s->launches[i].choice] += s->of_launch[i];
    return status;
}

// s->choices in turns with the base; `odd` pairs begin with the latter. *ratio: of the
// whole calls.
static AttStatus run_pair(Search *s, bool odd, double *ratio, double *before) {
    double after;
    AttStatus status = odd ? run(s, s->base, s->theirs, before) : ATT_OK;
    if (!status)
        status = run(s, s->choices, s->ours, &after);
    if (!status && !odd)
        status = run(s, s->base, s->theirs, before);
    if (!status)
        *ratio = after / *before;
    return status;
}

static double ratio_of(const Search *s, int64_t choice) {
    return s->theirs[choice] > 0 ? s->ours[choice] / s->theirs[choice] : 1;
}

// Twice, as pages and caches are as later then. What takes no time does not run at these extents.
static AttStatus run_base(Search *s) {
    double once, twice;
    AttStatus status = run(s, s->base, s->theirs, &once);
    if (!status)
        status = run(s, s->base, s->theirs, &twice);
    if (!status)
        s->of_pair = 2 * fmin(once, twice);
    for (int64_t c = 0; c < s->n && !status; c++)
        s->out->n_choices += s->theirs[c] > 0;
    return status;
}

// ---- the search --------------------------------------------------------------------------------
static int64_t candidates_of(const Search *s, int64_t choice) {
    int64_t n = s->n_alternatives[choice] - 1;
    return n < s->tried ? n : s->tried;
}

static bool is_tried(const Search *s, int64_t choice, int64_t k) {
    return k <= candidates_of(s, choice) && !trial_of(s, choice, k)->given_up;
}

static bool any_tried(const Search *s, int64_t k) {
    int64_t c = 0;
    while (c < s->n && !is_tried(s, c, k))
        c++;
    return c < s->n;
}

static void note_ratio(Trial *trial, double ratio) {
    trial->ratios[trial->pairs++] = ratio;
    bool hopeless = trial->pairs == ATT_PAIRS_HOPELESS;
    for (int64_t p = 0; p < trial->pairs && hopeless; p++)
        hopeless = trial->ratios[p] > HOPELESS;
    trial->given_up = hopeless;
}

// What wants more memory than there is is given up as what is slow.
static AttStatus try_alternative(Search *s, int64_t k, bool odd) {
    double ratio, before;
    for (int64_t c = 0; c < s->n; c++)
        s->choices[c] = is_tried(s, c, k) ? other_of(s, c, k) : s->base[c];
    double begun = att_seconds();
    AttStatus status = run_pair(s, odd, &ratio, &before);
    s->of_pair = 0.5 * (s->of_pair + att_seconds() - begun);
    for (int64_t c = 0; c < s->n && (!status || status == ATT_MEMORY); c++) {
        if (s->choices[c] == s->base[c])
            continue;
        if (status)
            trial_of(s, c, k)->given_up = true;
        else
            note_ratio(trial_of(s, c, k), ratio_of(s, c));
    }
    return status == ATT_MEMORY ? ATT_OK : status;
}

// The last alternatives are left out that there is no time for: those of which each choice has
// more, and which were predicted to be the slowest. None: there is too little for one.
static void fit_into_time(Search *s, int64_t rounds) {
    int64_t active = 0;
    for (int64_t k = 1; k <= s->tried; k++)
        active += any_tried(s, k);
    while (s->tried > (rounds ? 1 : 0)) {
        int64_t missing = att_values_wanted(s->tried) - rounds;
        if (missing <= 0 || (double)(missing * active) * s->of_pair <= time_left(s, SEARCHED))
            return;
        active -= any_tried(s, s->tried--);
    }
}

static AttStatus search(Search *s) {
    AttStatus status = ATT_OK;
    for (int64_t p = 0; p < ATT_PAIRS_MOST && !status && !is_over(s, SEARCHED); p++) {
        fit_into_time(s, p);
        for (int64_t k = 1; k <= s->tried && !status && !is_over(s, SEARCHED); k++)
            if (any_tried(s, k))
                status = try_alternative(s, k, p % 2);
    }
    return status;
}

static void choose(Search *s, int64_t c) {
    double least = ATT_WORTH, sure = att_confidence_wanted(candidates_of(s, c));
    s->choices[c] = s->base[c];
    for (int64_t k = 1; k <= candidates_of(s, c); k++) {
        Trial *trial = trial_of(s, c, k);
        if (trial->given_up || att_confidence(trial->ratios, trial->pairs, ATT_WORTH) < sure)
            continue;
        s->out->n_compared++;
        double median = att_quantile(trial->ratios, trial->pairs, 0.5);
        s->choices[c] = median <= least ? other_of(s, c, k) : s->choices[c];
        least = fmin(median, least);
    }
}

// ---- the winners -------------------------------------------------------------------------------
static int64_t count_chosen(const Search *s) {
    int64_t count = 0;
    for (int64_t c = 0; c < s->n; c++)
        count += s->choices[c] != s->base[c];
    return count;
}

// Runs all that is chosen up to a share of the time; *pairs: how many times.
static AttStatus run_winners(Search *s, double share, int64_t *pairs) {
    AttStatus status = ATT_OK;
    for (*pairs = 0; *pairs < ATT_PAIRS_MOST && !status && !is_over(s, share);) {
        status = run_pair(s, *pairs % 2, &s->wholes[*pairs], &s->before[*pairs]);
        for (int64_t c = 0; c < s->n && !status; c++)
            trial_of(s, c, 0)->ratios[*pairs] = ratio_of(s, c);
        *pairs += !status;
    }
    return status;
}

// Returns whether all hold up.
static bool drop_losers(Search *s, int64_t pairs) {
    bool all = true;
    for (int64_t c = 0; c < s->n; c++)
        if (s->choices[c] != s->base[c] &&
            att_quantile(trial_of(s, c, 0)->ratios, pairs, 0.5) > ATT_WORTH) {
            s->choices[c] = s->base[c];
            all = false;
        }
    return all;
}

// Do the winners make what the base does? What is faster because it is wrong is none.
static AttStatus compare_results(Search *s, bool *alike) {
    AttSketch *expected = NULL, *made = NULL;
    double seconds;
    AttStatus status = run(s, s->base, s->theirs, &seconds);
    if (!status)
        status = att_sketch(s->ctx, s->call, &expected);
    if (!status)
        status = run(s, s->choices, s->ours, &seconds);
    if (!status)
        status = att_sketch(s->ctx, s->call, &made);
    *alike = !status && att_sketches_alike(s->call, expected, made);
    free(expected);
    free(made);
    return status;
}

static AttStatus confirm(Search *s) {
    int64_t pairs, wanted = att_values_wanted(1);
    AttStatus status = run_winners(s, CONFIRMED, &pairs);
    if (!status && pairs >= wanted && !drop_losers(s, pairs) && count_chosen(s))
        status = run_winners(s, 1, &pairs);
    bool alike = false, faster = !status && pairs >= wanted && count_chosen(s) &&
                                 att_confidence(s->wholes, pairs, 1) >= att_confidence_wanted(1);
    if (faster)
        status = compare_results(s, &alike);
    s->out->differs = faster && !status && !alike;
    if (faster && alike) {
        s->out->before = att_quantile(s->before, pairs, 0.5);
        s->out->after = s->out->before * att_quantile(s->wholes, pairs, 0.5);
        s->out->n_changed = count_chosen(s);
        memcpy(s->out->choices, s->choices, (size_t)s->n * sizeof *s->choices);
    }
    return status;
}

static AttStatus search_and_confirm(Search *s) {
    AttStatus status = run_base(s);
    fit_into_time(s, 0);
    s->out->least = s->of_pair * (double)att_values_wanted(1) / (CONFIRMED - SEARCHED);
    if (status || !s->tried || s->out->least > s->seconds)
        return status;
    s->out->enough = true;
    status = search(s);
    for (int64_t c = 0; c < s->n && !status; c++)
        choose(s, c);
    if (!status && count_chosen(s))
        status = confirm(s);
    s->out->ended = att_ending_came(s->ending);
    return status;
}

static AttStatus tune_level(Search *s) {
    size_t n = (size_t)s->n + 1;
    double *room = calloc((size_t)s->n_launches + 2 * n, sizeof *room);
    int64_t *numbers = calloc(2 * n, sizeof *numbers);
    s->trials = calloc(n * (size_t)(s->most + 1), sizeof *s->trials);
    AttStatus status = room && numbers && s->trials ? ATT_OK : att_no_memory(s->ctx);
    if (!status) {
        s->of_launch = room;
        s->ours = s->of_launch + s->n_launches;
        s->theirs = s->ours + n;
        s->base = numbers;
        s->choices = s->base + n;
        if (s->call->choices)
            memcpy(s->base, s->call->choices, (size_t)s->n * sizeof *s->base);
        status = search_and_confirm(s);
    }
    free(room);
    free(numbers);
    free(s->trials);
    return status;
}

AttStatus att_tune(AttContext *ctx, AttCall *call, double seconds, AttEnding *ending,
                   AttTuned *out) {
    const AttModule *module = call->module;
    int level = att_module_level(ctx, module);
    *out = (AttTuned){0};
    if (level < 0)
        return ATT_UNSUPPORTED;
    Search s = {.ctx = ctx,
                .call = call,
                .ending = ending,
                .out = out,
                .begun = att_seconds(),
                .seconds = seconds,
                .n = module->n_choices[level],
                .n_launches = module->n_launches[level],
                .launches = module->launches[level],
                .n_alternatives = module->n_alternatives[level]};
    for (int64_t c = 0; c < s.n; c++)
        s.most = s.n_alternatives[c] > s.most ? s.n_alternatives[c] : s.most;
    s.tried = s.most - 1;
    out->choices = calloc((size_t)s.n + 1, sizeof *out->choices);
    return out->choices ? tune_level(&s) : att_no_memory(ctx);
}

// ---- as text -----------------------------------------------------------------------------------
const char *att_code_name(const AttModule *module, int level, char name[ATT_CODE_ROOM]) {
    snprintf(name, ATT_CODE_ROOM, "%s %016" PRIx64, att_level_name(level),
             (uint64_t)module->identity[level]);
    return name;
}

char *att_choices_text(AttContext *ctx, const AttCall *call) {
    int level = att_module_level(ctx, call->module);
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    if (!file)
        return NULL;
    bool any = level >= 0 && call->choices;
    char code[ATT_CODE_ROOM];
    if (any)
        fprintf(file, "%s:", att_code_name(call->module, level, code));
    for (int64_t c = 0; any && c < call->module->n_choices[level]; c++)
        fprintf(file, " %" PRId64, call->choices[c]);
    if (fclose(file)) {
        free(text);
        return NULL;
    }
    return text;
}

// " 0 2 1" and nothing else: an alternative of each choice.
static bool read_numbers(const AttModule *module, int level, const char *text, int64_t *choices) {
    for (int64_t c = 0; c < module->n_choices[level]; c++) {
        char number[24] = {0};
        size_t length = *text == ' ' ? strcspn(text + 1, " ") : 0;
        if (!length || length >= sizeof number)
            return false;
        memcpy(number, text + 1, length);
        if (!att_argument_count(number, 0, module->n_alternatives[level][c] - 1, &choices[c]))
            return false;
        text += 1 + length;
    }
    return !*text;
}

AttStatus att_choices_read(AttContext *ctx, const AttModule *module, const char *text,
                           int64_t **out) {
    char code[ATT_CODE_ROOM];
    int level = att_module_level(ctx, module);
    *out = NULL;
    if (level < 0)
        return ATT_UNSUPPORTED;
    int64_t *choices = calloc((size_t)module->n_choices[level] + 1, sizeof *choices);
    if (!choices)
        return att_no_memory(ctx);
    size_t length = strlen(att_code_name(module, level, code));
    if (!strncmp(text, code, length) && text[length] == ':' &&
        read_numbers(module, level, text + length + 1, choices))
        *out = choices;
    else
        free(choices);
    return ATT_OK;
}
