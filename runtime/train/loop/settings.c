// SPDX-License-Identifier: Apache-2.0
// settings.json: the options of a run by their names, from the table of options, so that a run that
// is gone on with is the same run.

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "train/loop/loop.h"

#define FILE_NAME "settings.json"

static json_t *list_of(const AttWords *words) {
    json_t *list = json_array();
    for (int64_t i = 0; i < words->count; i++)
        json_array_append_new(list, json_stringn_nocheck(words->at[i], strlen(words->at[i])));
    return list;
}

static json_t *json_of(const AttOption *option, const void *values) {
    const void *at = (const char *)values + option->at;
    switch (option->kind) {
    case ATT_OPTION_FLAG:
        return json_boolean(*(const bool *)at);
    case ATT_OPTION_COUNT:
        return json_integer(*(const int64_t *)at);
    case ATT_OPTION_NUMBER:
    case ATT_OPTION_TIME:
        return json_real(*(const double *)at);
    case ATT_OPTION_TEXT:
        return *(const char *const *)at ? json_string_nocheck(*(const char *const *)at)
                                        : json_null();
    case ATT_OPTION_CHOICE:
        return json_string(option->choices[*(const int *)at]);
    default:
        return list_of(at);
    }
}

static bool put_text(AttFile *file, const void *text) {
    return att_file_put(file, text, strlen(text)) && att_file_put(file, "\n", 1);
}

char *att_settings_text(const AttUsage *usage, const void *values, const char *const (*facts)[2],
                        bool fixed) {
    json_t *all = json_object();
    for (; (*facts)[0]; facts++)
        json_object_set_new_nocheck(all, (*facts)[0], json_string_nocheck((*facts)[1]));
    const AttOption *option;
    for (int i = 0; (option = att_option_line(usage, i)); i++)
        if (!option->is_of_call && !(fixed && option->may_change))
            json_object_set_new_nocheck(all, option->name, json_of(option, values));
    char *text = json_dumps(all, JSON_INDENT(1));
    json_decref(all);
    return text;
}

AttStatus att_settings_write(AttContext *ctx, const char *folder, const char *text) {
    char path[ATT_PATH_ROOM];
    AttStatus status = att_path_in(ctx, folder, FILE_NAME, path);
    return status ? status : att_file_write(ctx, path, put_text, text);
}

// What an option was and is, as texts.
static AttStatus fail_other(AttContext *ctx, const char *path, const AttOption *option,
                            const json_t *was, const json_t *is) {
    char *before = was ? json_dumps(was, JSON_ENCODE_ANY) : NULL;
    char *now = json_dumps(is, JSON_ENCODE_ANY);
    AttStatus status =
        att_fail(ctx, ATT_ARGUMENT, "--resume: --%s was %s and is %s; give it as it was (%s)",
                 option->name, before ? before : "not there", now ? now : "another", path);
    free(before);
    free(now);
    return status;
}

static bool take_choice(const AttOption *option, const json_t *was, int *out) {
    for (int i = 0; json_is_string(was) && option->choices[i]; i++)
        if (strcmp(option->choices[i], json_string_value(was)) == 0) {
            *out = i;
            return true;
        }
    return false;
}

static bool take_words(const json_t *was, AttWords *out) {
    size_t count = json_array_size(was);
    bool ok = json_is_array(was);
    out->at = ok ? calloc(count + 1, sizeof *out->at) : NULL;
    for (size_t i = 0; out->at && i < count; i++) {
        out->at[i] = json_string_value(json_array_get(was, i));
        ok = ok && out->at[i];
    }
    out->count = ok && out->at ? (int64_t)count : 0;
    return ok && out->at;
}

static bool is_in_range(const AttOption *option, const json_t *was) {
    double number = json_number_value(was);
    return number >= option->least && number <= option->most;
}

// false: it is no value of the option.
static bool take(const AttOption *option, const json_t *was, void *values) {
    void *at = (char *)values + option->at;
    switch (option->kind) {
    case ATT_OPTION_FLAG:
        *(bool *)at = json_is_true(was);
        return json_is_boolean(was);
    case ATT_OPTION_COUNT:
        *(int64_t *)at = json_integer_value(was);
        return json_is_integer(was) && is_in_range(option, was);
    case ATT_OPTION_TIME:
    case ATT_OPTION_NUMBER:
        *(double *)at = json_number_value(was);
        return json_is_number(was) && is_in_range(option, was);
    case ATT_OPTION_TEXT:
        *(const char **)at = json_string_value(was);
        return json_is_string(was) || json_is_null(was);
    case ATT_OPTION_CHOICE:
        return take_choice(option, was, at);
    default:
        return take_words(was, at);
    }
}

static AttStatus take_or_compare(AttContext *ctx, const char *path, const AttOption *option,
                                 bool given, const json_t *was, void *values) {
    if (!given && (!was || !take(option, was, values)))
        return att_fail(ctx, ATT_FORMAT, "%s: '%s' is missing or no value of --%s", path,
                        option->name, option->name);
    if (!given || option->may_change)
        return ATT_OK;
    json_t *is = json_of(option, values);
    AttStatus status = was && json_equal(was, is) ? ATT_OK : fail_other(ctx, path, option, was, is);
    json_decref(is);
    return status;
}

AttStatus att_settings_take(AttContext *ctx, const char *folder, const AttUsage *usage,
                            AttOptions *options, void **owner) {
    char path[ATT_PATH_ROOM];
    json_error_t error;
    AttStatus status = att_path_in(ctx, folder, FILE_NAME, path);
    *owner = NULL;
    if (status)
        return status;
    json_t *all = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    *owner = all;
    if (!json_is_object(all))
        return att_fail(ctx, ATT_FORMAT, "%s: %s", path,
                        *error.text ? error.text : "is no JSON object");
    const AttOption *option;
    for (int i = 0; !status && (option = att_option_line(usage, i)); i++)
        if (!option->is_of_call)
            status = take_or_compare(ctx, path, option, options->given[i],
                                     json_object_get(all, option->name), options->values);
    return status;
}

const char *att_settings_fact(const void *owner, const char *name) {
    return json_string_value(json_object_get(owner, name));
}

void att_settings_free(void *owner) {
    json_decref(owner);
}
