// SPDX-License-Identifier: Apache-2.0
// attc fmt: source files in their canonical layout.
#include "driver/driver.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

// What the command does with a file whose layout is another: tells its name, prints it, or puts it
// in place of the file.
static bool use_layout(Options *options, const Source *source, const Text *text) {
    bool same = text->length == source->length && !memcmp(text->at, source->text, text->length);
    bool is_stdin = !strcmp(source->path, "<stdin>");
    if (options->check) {
        if (!same)
            printf("%s\n", source->path);
        return same;
    }
    if (is_stdin)
        fwrite(text->at, 1, text->length, stdout); // main tells when that fails
    else if (!same && !file_replace(options->session->arena, source->path, text))
        return problem(options, "cannot write %s: %s", source->path, strerror(errno)) == EXIT_FINE;
    return true;
}

// What cannot be replaced is not read either: a pipe would be written to.
static bool can_be_replaced(Options *options, const char *path) {
    struct stat status;
    if (!strcmp(path, "-") || options->check || stat(path, &status) || S_ISREG(status.st_mode))
        return true;
    problem(options, "cannot replace %s: not a regular file", path);
    return false;
}

static bool format_file(Options *options, const char *path) {
    Session *session = options->session;
    const char *why = NULL;
    uint32_t file = 0;
    if (can_be_replaced(options, path)) {
        file = sources_read(session->sources, path, &why);
        if (!file)
            problem(options, "%s", why);
    }
    Text text = {.arena = session->arena};
    return file && ast_format(session, file, &text) &&
           use_layout(options, sources_get(session->sources, file), &text);
}

int command_fmt(Options *options) {
    bool fine = true;
    for (uint32_t i = 0; i < options->files.count; i++)
        fine &= format_file(options, options->files.at[i]);
    return fine ? EXIT_FINE : EXIT_PROBLEM;
}
