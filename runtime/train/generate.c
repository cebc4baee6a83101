// SPDX-License-Identifier: Apache-2.0
// The subcommand generate: a text that goes on from a prompt, token by token as it comes.
//
// Where the vocabulary has the 256 bytes and at most as many special tokens, tokens are text:
// others than bytes are shown as <256>. Of other vocabularies they are numbers.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "train/generate/generate.h"

typedef struct {
    AttShared shared;
    const char *weights, *prompt;
    int64_t tokens, top_k, seed;
    double temperature, top_p;
    int form;
} Values;

enum { FORM_AUTO, FORM_TEXT, FORM_NUMBERS };
static const char *const forms[] = {"auto", "text", "numbers", NULL};
static const AttOption options_of_generate[] = {
    {"weights", ATT_OPTION_TEXT, offsetof(Values, weights), "FILE", "a checkpoint", .needed = true},
    {"tokens", ATT_OPTION_COUNT, offsetof(Values, tokens), "N", "how many to make", .most = 1e12},
    {"prompt", ATT_OPTION_TEXT, offsetof(Values, prompt), "TEXT", "what the text begins with",
     .unless = "the end of a line, which is not shown"},
    {"temperature", ATT_OPTION_NUMBER, offsetof(Values, temperature), "T",
     "what logits are divided by; 0: the most likely token", .most = 1e6},
    {"top-k", ATT_OPTION_COUNT, offsetof(Values, top_k), "K",
     "only the K most likely tokens; 0: all", .most = 1e9},
    {"top-p", ATT_OPTION_NUMBER, offsetof(Values, top_p), "P",
     "only the most likely tokens that have this probability together", .most = 1},
    {"seed", ATT_OPTION_COUNT, offsetof(Values, seed), "S", "of the draws", .most = 9e18},
    {"form", ATT_OPTION_CHOICE, offsetof(Values, form), "FORM",
     "what tokens are in prompt and output", .choices = forms},
    {0}};
static const AttUsage usage = {
    "--weights FILE [OPTION]...",
    "Makes text that goes on from a prompt.",
    {options_of_generate, att_options_of_call},
    "Where there is no room for more positions, as the dim of positions or -D has it, it starts\n"
    "again from the last half of the text.\n"};

typedef struct {
    const Values *values;
    AttContext *ctx;
    AttModel model;
    AttDecoder decoder;
    bool is_text;
    int64_t *text; // the prompt and what was made
    int64_t count;
    AttCandidate *room;
    double seconds; // that making took
} Generate;

// ---- tokens ------------------------------------------------------------------------------------

static AttStatus add_token(Generate *g, int64_t token) {
    if (token >= g->decoder.vocabulary)
        return att_fail(g->ctx, ATT_ARGUMENT, "the prompt has token %lld, the vocabulary has %lld",
                        (long long)token, (long long)g->decoder.vocabulary);
    g->text[g->count++] = token;
    return ATT_OK;
}

static AttStatus read_numbers(Generate *g, const char *text) {
    AttStatus status = ATT_OK;
    char word[24];
    for (size_t length; !status && *(text += strspn(text, " ,\n")); text += length) {
        int64_t token;
        length = strcspn(text, " ,\n");
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        if (length >= sizeof word || !att_argument_count(word, 0, INT32_MAX, &token))
            return att_fail(g->ctx, ATT_ARGUMENT, "--prompt: '%s' is no token: expected numbers",
                            word);
        status = add_token(g, token);
    }
    return status;
}

static AttStatus read_prompt(Generate *g) {
    const char *prompt = g->values->prompt;
    AttStatus status = ATT_OK;
    if (!g->is_text && prompt)
        status = read_numbers(g, prompt);
    for (const char *c = prompt; g->is_text && c && *c && !status; c++)
        status = add_token(g, (unsigned char)*c);
    if (!status && !g->count)
        status = add_token(g, g->is_text ? '\n' : 0);
    return status;
}

static AttStatus print_token(Generate *g, int64_t token) {
    if (!g->is_text)
        printf("%lld\n", (long long)token);
    else if (token < 256)
        putchar((int)token);
    else
        printf("<%lld>", (long long)token);
    return fflush(stdout) ? att_fail(g->ctx, ATT_IO, "cannot write: %s", strerror(errno)) : ATT_OK;
}

// ---- the text ----------------------------------------------------------------------------------

// A step with number i of the text; with the last half of the text before it where it has no room.
static AttStatus step(Generate *g, int64_t i) {
    AttDecoder *decoder = &g->decoder;
    AttStatus status = ATT_OK;
    if (decoder->position == decoder->length) {
        att_decoder_rewind(decoder);
        for (int64_t k = i - decoder->length / 2; k < i && !status; k++)
            status = att_decoder_step(g->ctx, decoder, g->text[k]);
    }
    return status ? status : att_decoder_step(g->ctx, decoder, g->text[i]);
}

static AttStatus make_token(Generate *g, int64_t number) {
    const Values *v = g->values;
    AttSampling sampling = {v->temperature, v->top_k, v->top_p, (uint64_t)v->seed};
    AttStatus status = number ? step(g, g->count - 1) : ATT_OK;
    if (status)
        return status;
    int64_t token =
        att_sample(&sampling, g->decoder.logits, g->decoder.vocabulary, number, g->room);
    if (token < 0)
        return att_fail(g->ctx, ATT_ARGUMENT,
                        "the logits after %lld tokens are NaN or infinite: the model is of no use",
                        (long long)g->count);
    g->text[g->count++] = token;
    return print_token(g, token);
}

static AttStatus make_text(Generate *g) {
    AttStatus status = read_prompt(g);
    for (int64_t i = 0; i < g->count && !status; i++)
        status = step(g, i);
    for (int64_t i = 0; g->values->prompt && i < g->count && !status; i++)
        status = print_token(g, g->text[i]);
    double begun = att_seconds();
    for (int64_t number = 0; number < g->values->tokens && !status; number++)
        status = make_token(g, number);
    g->seconds = att_seconds() - begun;
    if (!status && g->is_text && isatty(STDOUT_FILENO))
        status = print_token(g, '\n');
    return status;
}

static AttStatus open_text(Generate *g) {
    size_t prompt = g->values->prompt ? strlen(g->values->prompt) : 0;
    int64_t vocabulary = g->decoder.vocabulary;
    g->is_text = g->values->form == FORM_TEXT ||
                 (g->values->form == FORM_AUTO && vocabulary >= 256 && vocabulary <= 512);
    g->text = calloc(prompt + (size_t)g->values->tokens + 1, sizeof *g->text);
    g->room = calloc((size_t)vocabulary, sizeof *g->room);
    return g->text && g->room ? ATT_OK : att_no_memory(g->ctx);
}

static AttStatus generate(Generate *g, const AttTrainer *trainer) {
    AttStatus status = att_model_open(g->ctx, trainer, &g->model);
    if (!status)
        status = att_model_read(g->ctx, &g->model, g->values->weights);
    if (!status)
        status = att_decoder_open(g->ctx, &g->model, &g->values->shared.dims, &g->decoder);
    if (!status)
        status = open_text(g);
    return status ? status : make_text(g);
}

static void close_generate(Generate *g) {
    att_decoder_close(&g->decoder);
    att_model_close(&g->model);
    free(g->text);
    free(g->room);
    att_context_free(g->ctx);
}

static int run(const AttTrainer *trainer, char **argv, const Values *values) {
    Generate g = {.values = values, .ctx = att_context_new((int)values->shared.threads)};
    int status = ATT_EXIT_FINE;
    if (!g.ctx)
        return att_command_fail(argv, ATT_EXIT_DATA, "out of memory");
    if (generate(&g, trainer))
        status = att_command_report(argv, g.ctx);
    else if (values->tokens)
        att_command_note(argv, "%lld tokens in %.3f s, %.0f tokens/s", (long long)values->tokens,
                         g.seconds, (double)values->tokens / g.seconds);
    close_generate(&g);
    return status;
}

int att_command_generate(const AttTrainer *trainer, int argc, char **argv) {
    Values values = {.tokens = 200, .temperature = 1, .top_p = 1};
    AttOptions options = {.values = &values};
    int status = ATT_EXIT_FINE;
    if (!att_options_read(&usage, argc, argv, &options, &status))
        return status;
    if (trainer->decode)
        status = run(trainer, argv, &values);
    else
        status =
            att_command_fail(argv, ATT_EXIT_DATA,
                             "%s has no step to generate with: attc build said why, or its file "
                             "has no def Logits(tokens[b, n]: i32)",
                             trainer->entry->entry);
    att_options_free(&usage, &options);
    return status;
}
