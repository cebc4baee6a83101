// SPDX-License-Identifier: Apache-2.0
// Running the system's compiler driver, linker and archiver: no shell, a working directory of their
// own, and what they say kept for the message when they fail.
#include "product/product.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { COMPLAINT_MAX = 2000 };

// A tool's lines as one line of text: a message has no line ends in it.
static const char *one_line(Arena *arena, const char *at) {
    Text text = {.arena = arena};
    text_add(&text, "");
    const char *gap = "";
    for (; *at; at++) {
        if ((unsigned char)*at > ' ' && *at != 0x7F) {
            text_add(&text, text.length ? gap : "");
            text_addn(&text, at, 1);
            gap = "";
        } else if (*at == '\n' || !*gap) {
            gap = *at == '\n' ? "; " : " ";
        }
    }
    return text.at;
}

static const char *read_complaint(Arena *arena, const char *log) {
    char text[COMPLAINT_MAX + 1];
    int file = open(log, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, text, COMPLAINT_MAX);
    if (file >= 0)
        close(file);
    while (length > 0 && text[length - 1] == '\n')
        length--;
    return one_line(arena, arena_strndup(arena, text, length < 0 ? 0 : (size_t)length));
}

static int spawn(const char *const *argv, const char *directory, const char *log, pid_t *child) {
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!error)
        error =
            posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (!error)
        error = posix_spawn_file_actions_addchdir_np(&actions, directory);
    if (!error)
        error = posix_spawnp(child, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

bool tool_run(Arena *arena, const char *const *argv, const char *directory, const char **why) {
    const char *log = arena_printf(arena, "%s/tool.log", directory);
    pid_t child;
    int error = spawn(argv, directory, log, &child), status = 0;
    if (error) {
        *why = arena_printf(arena, "cannot run %s: %s%s", argv[0], strerror(error),
                            error == ENOENT ? " (install a C compiler and binutils)" : "");
        return false;
    }
    pid_t ended;
    do
        ended = waitpid(child, &status, 0);
    while (ended < 0 && errno == EINTR);
    if (ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    const char *complaint = read_complaint(arena, log);
    if (ended != child)
        *why = arena_printf(arena, "cannot wait for %s: %s", argv[0], strerror(errno));
    else if (WIFSIGNALED(status))
        *why = arena_printf(arena, "%s was killed by signal %d: %s", argv[0], WTERMSIG(status),
                            complaint);
    else
        *why = arena_printf(arena, "%s failed with status %d: %s", argv[0], WEXITSTATUS(status),
                            complaint);
    return false;
}
