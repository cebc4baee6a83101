// SPDX-License-Identifier: Apache-2.0
// Tables of numbers as text, a line for each step. Lines are written whole, so that what is there
// when a process ends can be read.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "train/loop/loop.h"

FILE *att_log_open(const char *path, const char *header) {
    FILE *file = fopen(path, "ae");
    if (!file)
        return NULL;
    setvbuf(file, NULL, _IOLBF, 0);
    if (ftell(file) == 0 && fprintf(file, "%s\n", header) < 0) {
        fclose(file);
        return NULL;
    }
    return file;
}

// ---- cutting -----------------------------------------------------------------------------------
typedef struct {
    FILE *from;
    int64_t last;
} Cut;

static bool keep_lines(AttFile *file, const void *arg) {
    const Cut *cut = arg;
    char *line = NULL, *end;
    size_t room = 0;
    bool ok = true, head = true;
    for (ssize_t length; ok && (length = getline(&line, &room, cut->from)) > 0; head = false) {
        long long step = strtoll(line, &end, 10);
        if (line[length - 1] == '\n' && (head || (end != line && step <= cut->last)))
            ok = att_file_put(file, line, (size_t)length);
    }
    ok = ok && !ferror(cut->from);
    free(line);
    return ok;
}

AttStatus att_log_cut(AttContext *ctx, const char *path, int64_t last) {
    Cut cut = {fopen(path, "re"), last};
    if (!cut.from && errno == ENOENT)
        return ATT_OK;
    if (!cut.from)
        return att_fail(ctx, ATT_IO, "cannot read %s: %s", path, strerror(errno));
    AttStatus status = att_file_write(ctx, path, keep_lines, &cut);
    fclose(cut.from);
    return status;
}

// ---- reading -----------------------------------------------------------------------------------
static bool add_point(AttPoint **points, int64_t *count, int64_t *room, AttPoint point) {
    if (*count == *room) {
        int64_t more = *room ? 2 * *room : 256;
        AttPoint *grown = realloc(*points, (size_t)more * sizeof *grown);
        if (!grown)
            return false;
        *points = grown;
        *room = more;
    }
    (*points)[(*count)++] = point;
    return true;
}

AttPoint *att_log_points(const char *path, int64_t *count) {
    FILE *file = fopen(path, "re");
    AttPoint *points = NULL, point;
    int64_t room = 0;
    char *line = NULL;
    size_t size = 0;
    *count = 0;
    while (file && getline(&line, &size, file) > 0)
        if (sscanf(line, "%lf,%lf", &point.x, &point.y) == 2 && point.y - point.y == 0 &&
            !add_point(&points, count, &room, point))
            break;
    free(line);
    if (file)
        fclose(file);
    return points;
}
