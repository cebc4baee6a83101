// SPDX-License-Identifier: Apache-2.0
// settings.json: the options of a run by their names, from the table of options, so that a run that
// is gone on with is the same run.

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "train/loop.h"

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

static AttStatus settings_path(AttContext *ctx, const char *folder, char path[ATT_PATH_ROOM]) {
    if (att_path_in(folder, "settings.json", path))
        return ATT_OK;
    return att_fail(ctx, ATT_ARGUMENT, "the path %.100s... is too long", folder);
}

char *att_settings_text(const AttUsage *usage, const void *values, const char *const (*facts)[2],
                        bool fixed) {
    json_t *all = json_object();
    for (; (*facts)[0]; facts++)
        json_object_set_new_nocheck(all, (*facts)[0], json_string_nocheck((*facts)[1]));
    for (const AttOption *option = usage->options; option->name; option++)
        if (!option->is_of_call && !(fixed && option->may_change))
            json_object_set_new_nocheck(all, option->name, json_of(option, values));
    char *text = json_dumps(all, JSON_INDENT(1));
    json_decref(all);
    return text;
}

AttStatus att_settings_write(AttContext *ctx, const char *folder, const char *text) {
    char path[ATT_PATH_ROOM];
    AttStatus status = settings_path(ctx, folder, path);
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

AttStatus att_settings_agree(AttContext *ctx, const char *folder, const AttUsage *usage,
                             const void *values) {
    char path[ATT_PATH_ROOM];
    json_error_t error;
    AttStatus status = settings_path(ctx, folder, path);
    if (status)
        return status;
    json_t *all = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(all)) {
        json_decref(all);
        return att_fail(ctx, ATT_FORMAT, "%s: %s", path, error.text);
    }
    for (const AttOption *option = usage->options; option->name && !status; option++) {
        if (option->is_of_call || option->may_change)
            continue;
        json_t *is = json_of(option, values), *was = json_object_get(all, option->name);
        if (!was || !json_equal(was, is))
            status = fail_other(ctx, path, option, was, is);
        json_decref(is);
    }
    json_decref(all);
    return status;
}
