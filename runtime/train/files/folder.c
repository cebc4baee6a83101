// SPDX-License-Identifier: Apache-2.0
// Folders that subcommands leave files in.

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "train/train.h"

static AttStatus fail_path(AttContext *ctx, const char *folder) {
    return att_fail(ctx, ATT_ARGUMENT, "the path %.100s... is too long", folder);
}

AttStatus att_path_in(AttContext *ctx, const char *folder, const char *name,
                      char path[ATT_PATH_ROOM]) {
    int length = snprintf(path, ATT_PATH_ROOM, "%s/%s", folder, name);
    return length >= 0 && length < ATT_PATH_ROOM ? ATT_OK : fail_path(ctx, folder);
}

AttStatus att_folder_make(AttContext *ctx, const char *folder) {
    if (strlen(folder) + NAME_MAX + 1 >= ATT_PATH_ROOM)
        return fail_path(ctx, folder);
    if (mkdir(folder, 0777) == 0 || errno == EEXIST)
        return ATT_OK;
    return att_fail(ctx, ATT_IO, "cannot create %s: %s", folder, strerror(errno));
}

bool att_folder_has(AttContext *ctx, const char *folder, const char *name) {
    char path[ATT_PATH_ROOM];
    struct stat found;
    return !att_path_in(ctx, folder, name, path) && lstat(path, &found) == 0;
}
