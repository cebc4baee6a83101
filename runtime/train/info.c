// SPDX-License-Identifier: Apache-2.0
// The subcommand info: what the program holds.

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "train/loop/loop.h"

typedef struct {
    bool json;
} Values;
static const AttOption options_of_info[] = {
    {"json", ATT_OPTION_FLAG, offsetof(Values, json), NULL, "one JSON object", .least = 0}, {0}};
static const AttUsage usage = {
    "[--json]", "Tells what the program holds.", {options_of_info}, NULL};

static const AttTensor *param_tensor(const AttTrainer *trainer, int64_t i) {
    return &trainer->entry->tensors[trainer->params[i].input];
}

static int64_t count_parameters(const AttTrainer *trainer) {
    int64_t count = 0;
    for (int64_t i = 0; i < trainer->n_params; i++)
        count += att_elements_of(trainer->entry, param_tensor(trainer, i), NULL);
    return count;
}

// The level that training runs at here; -1: none.
static int find_level(const AttTrainer *trainer) {
    AttContext *ctx = att_context_new(1);
    int level = ctx ? att_module_level(ctx, trainer->gradient) : -1;
    att_context_free(ctx);
    return level;
}

// Multiplies of results and gradients of a batch, by the extents that a run tells; NULL: not known.
static const char *multiplies_text(const AttTrainer *trainer, int level) {
    return level < 0 ? NULL : trainer->multiplies[level].text;
}

// The part of them that masks by positions let kernels leave out.
static double masked_part(const AttTrainer *trainer, int level) {
    return (double)trainer->masked[level] / 1e6;
}

// Kernels that train --tune chooses schedules for, and how many schedules they have together.
static int64_t count_choices(const AttTrainer *trainer, int level, int64_t *schedules) {
    int64_t n = level < 0 ? 0 : trainer->gradient->n_choices[level];
    *schedules = 0;
    for (int64_t c = 0; c < n; c++)
        *schedules += trainer->gradient->n_alternatives[level][c];
    return n;
}

// ---- as JSON -----------------------------------------------------------------------------------
static json_t *json_tensor(const AttModule *module, const AttTensor *tensor) {
    json_t *made = json_object(), *dims = json_array(), *shape = json_array();
    for (int64_t i = 0; i < tensor->rank; i++) {
        const AttDim *dim = &module->dims[tensor->dims[i]];
        json_array_append_new(dims, json_string(dim->name));
        json_array_append_new(shape, dim->extent < 0 ? json_null() : json_integer(dim->extent));
    }
    json_object_set_new(made, "name", json_string(tensor->name));
    json_object_set_new(made, "elem", json_string(att_elem_name((AttElem)tensor->elem)));
    json_object_set_new(made, "dims", dims);
    json_object_set_new(made, "shape", shape);
    return made;
}

static json_t *json_optimizers(const AttTrainer *trainer) {
    json_t *list = json_array();
    for (int64_t i = 0; i < trainer->n_optimizers; i++) {
        const AttOptimizer *optimizer = &trainer->optimizers[i];
        json_t *made = json_object(), *settings = json_object();
        for (int64_t k = 0; k < optimizer->n_settings; k++)
            json_object_set_new(settings, optimizer->settings[k].name,
                                json_real(optimizer->settings[k].value));
        json_object_set_new(made, "name", json_string(optimizer->name));
        json_object_set_new(made, "settings", settings);
        json_array_append_new(list, made);
    }
    return list;
}

static void print_json(const AttTrainer *trainer, int level) {
    json_t *all = json_object(), *params = json_array(), *fields = json_array();
    json_t *choices = json_array();
    char name[ATT_CODE_ROOM];
    json_t *code =
        level < 0 ? json_null() : json_string(att_code_name(trainer->gradient, level, name));
    for (int64_t c = 0; level >= 0 && c < trainer->gradient->n_choices[level]; c++)
        json_array_append_new(choices, json_integer(trainer->gradient->n_alternatives[level][c]));
    for (int64_t i = 0; i < trainer->n_params; i++)
        json_array_append_new(params, json_tensor(trainer->entry, param_tensor(trainer, i)));
    for (int64_t i = 0; i < trainer->n_fields; i++)
        json_array_append_new(fields, json_tensor(trainer->entry, att_field_tensor(trainer, i)));
    json_object_set_new(all, "entry", json_string(trainer->entry->entry));
    json_object_set_new(all, "parameters", json_integer(count_parameters(trainer)));
    const char *multiplies = multiplies_text(trainer, level);
    json_object_set_new(all, "multiplies", multiplies ? json_string(multiplies) : json_null());
    json_object_set_new(all, "masked",
                        multiplies ? json_real(masked_part(trainer, level)) : json_null());
    json_object_set_new(all, "kernel_schedules", choices);
    json_object_set_new(all, "code", code);
    json_object_set_new(all, "data", fields);
    json_object_set_new(all, "optimizers", json_optimizers(trainer));
    json_object_set_new(all, "tensors", params);
    json_dumpf(all, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(all);
}

// ---- as text -----------------------------------------------------------------------------------
static void print_tensor(const AttModule *module, const AttTensor *tensor) {
    printf("  %s[", tensor->name);
    for (int64_t i = 0; i < tensor->rank; i++) {
        const AttDim *dim = &module->dims[tensor->dims[i]];
        printf("%s%s", i ? ", " : "", dim->name);
        if (dim->extent >= 0)
            printf("=%lld", (long long)dim->extent);
    }
    printf("]: %s\n", att_elem_name((AttElem)tensor->elem));
}

static void print_text(const AttTrainer *trainer, int level) {
    int64_t schedules, choices = count_choices(trainer, level, &schedules);
    const char *multiplies = multiplies_text(trainer, level);
    printf("entry       %s\nparameters  %lld\n", trainer->entry->entry,
           (long long)count_parameters(trainer));
    printf("multiplies  %s, of a batch with its gradients\n",
           multiplies ? multiplies : "not known");
    if (multiplies && masked_part(trainer, level) > 0)
        printf("masked      %.1f%% of them, which masks let kernels leave out\n",
               100 * masked_part(trainer, level));
    if (choices)
        printf("kernels     %lld schedules of %lld, for train --tune\n", (long long)schedules,
               (long long)choices);
    printf("\ndata:\n");
    for (int64_t i = 0; i < trainer->n_fields; i++)
        print_tensor(trainer->entry, att_field_tensor(trainer, i));
    printf("\noptimizers, with their settings:\n");
    for (int64_t i = 0; i < trainer->n_optimizers; i++) {
        const AttOptimizer *optimizer = &trainer->optimizers[i];
        printf("  %s", optimizer->name);
        for (int64_t k = 0; k < optimizer->n_settings; k++)
            printf("%s%s=%g", k ? "," : ":", optimizer->settings[k].name,
                   optimizer->settings[k].value);
        putchar('\n');
    }
    printf("\ntrained tensors:\n");
    for (int64_t i = 0; i < trainer->n_params; i++)
        print_tensor(trainer->entry, param_tensor(trainer, i));
}

int att_command_info(const AttTrainer *trainer, int argc, char **argv) {
    Values values = {0};
    AttOptions options = {.values = &values};
    int status;
    if (!att_options_read(&usage, argc, argv, &options, &status))
        return status;
    if (values.json)
        print_json(trainer, find_level(trainer));
    else
        print_text(trainer, find_level(trainer));
    att_options_free(&usage, &options);
    return fflush(stdout) ? att_command_fail(argv, ATT_EXIT_DATA, "%s", strerror(errno))
                          : ATT_EXIT_FINE;
}
