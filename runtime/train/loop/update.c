// SPDX-License-Identifier: Apache-2.0
// An optimizer with its settings, as the command line has it: adamw:beta_2=0.95,weight_decay=0.1.

#include <stdlib.h>
#include <string.h>

#include "train/loop/loop.h"

static const AttOptimizer *find_optimizer(const AttTrainer *trainer, const char *name,
                                          size_t length) {
    for (int64_t i = 0; i < trainer->n_optimizers; i++)
        if (strlen(trainer->optimizers[i].name) == length &&
            memcmp(trainer->optimizers[i].name, name, length) == 0)
            return &trainer->optimizers[i];
    return NULL;
}

typedef struct {
    char text[400];
    size_t length;
} Names;

static void add_name(Names *names, const char *name) {
    size_t length = strlen(name), gap = names->length ? 2 : 0;
    if (names->length + gap + length >= sizeof names->text)
        return;
    memcpy(names->text + names->length, ", ", gap);
    memcpy(names->text + names->length + gap, name, length + 1);
    names->length += gap + length;
}

static AttStatus fail_optimizer(AttContext *ctx, const AttTrainer *trainer, const char *text) {
    Names names = {{0}, 0};
    for (int64_t i = 0; i < trainer->n_optimizers; i++)
        add_name(&names, trainer->optimizers[i].name);
    return att_fail(ctx, ATT_ARGUMENT, "--optimizer %s: there are %s", text, names.text);
}

static AttStatus fail_setting(AttContext *ctx, const AttOptimizer *optimizer, const char *text,
                              int length) {
    Names names = {{0}, 0};
    for (int64_t i = 0; i < optimizer->n_settings; i++)
        add_name(&names, optimizer->settings[i].name);
    return att_fail(ctx, ATT_ARGUMENT,
                    "--optimizer: '%.*s' is no SETTING=NUMBER of %s, which has %s", length, text,
                    optimizer->name, names.length ? names.text : "none");
}

// NAME=NUMBER of so many bytes.
static AttStatus set(AttContext *ctx, AttUpdater *updater, const char *text, int length) {
    const char *equals = memchr(text, '=', (size_t)length);
    char number[64], *end;
    size_t name = equals ? (size_t)(equals - text) : 0;
    size_t digits = equals ? (size_t)length - name - 1 : 0;
    if (!digits || digits >= sizeof number)
        return fail_setting(ctx, updater->optimizer, text, length);
    memcpy(number, equals + 1, digits);
    number[digits] = 0;
    float value = strtof(number, &end);
    for (int64_t i = 0; i < updater->optimizer->n_settings; i++) {
        const char *known = updater->optimizer->settings[i].name;
        if (strlen(known) != name || memcmp(known, text, name) != 0 || *end ||
            !(value - value == 0))
            continue;
        updater->settings[i] = value;
        return ATT_OK;
    }
    return fail_setting(ctx, updater->optimizer, text, length);
}

static AttStatus set_all(AttContext *ctx, AttUpdater *updater, const char *text) {
    AttStatus status = ATT_OK;
    while (*text && !status) {
        size_t length = strcspn(text, ",");
        status = set(ctx, updater, text, (int)length);
        text += length + (text[length] == ',');
    }
    return status;
}

AttStatus att_updater_open(AttContext *ctx, const AttTrainer *trainer, const char *text,
                           AttUpdater *out) {
    size_t name = text ? strcspn(text, ":") : 0;
    *out =
        (AttUpdater){.optimizer = text ? find_optimizer(trainer, text, name) : trainer->optimizers};
    if (!out->optimizer || !trainer->n_optimizers)
        return fail_optimizer(ctx, trainer, text ? text : "");
    size_t count = (size_t)out->optimizer->n_settings + 1;
    out->settings = calloc(count, sizeof *out->settings);
    out->undecayed = calloc(count, sizeof *out->undecayed);
    if (!out->settings || !out->undecayed)
        return att_no_memory(ctx);
    for (int64_t i = 0; i < out->optimizer->n_settings; i++)
        out->settings[i] = (float)out->optimizer->settings[i].value;
    AttStatus status = text && text[name] ? set_all(ctx, out, text + name + 1) : ATT_OK;
    for (int64_t i = 0; i < out->optimizer->n_settings; i++)
        if (strcmp(out->optimizer->settings[i].name, "weight_decay") != 0)
            out->undecayed[i] = out->settings[i];
    return status;
}

void att_updater_close(AttUpdater *updater) {
    free(updater->settings);
    free(updater->undecayed);
    *updater = (AttUpdater){0};
}
