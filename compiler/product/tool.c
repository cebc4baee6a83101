// SPDX-License-Identifier: Apache-2.0
// Running the system's compiler driver, linker and archiver: no shell, a working directory and a
// process group of their own, and what they say kept for the message when they fail.
#include "product/product.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { COMPLAINT_MAX = 2000, PATIENCE_SECONDS = 5 };

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

// The environment with temporary files in a folder that is removed in any case.
static char **tool_environment(Arena *arena, const char *directory) {
    VEC(char *) variables = {0};
    for (char **at = environ; *at; at++)
        if (strncmp(*at, "TMPDIR=", 7) != 0)
            vec_push(arena, &variables, *at);
    vec_push(arena, &variables, arena_printf(arena, "TMPDIR=%s", directory));
    vec_push(arena, &variables, NULL);
    return variables.at;
}

// A group of its own, so that what the tool starts can be ended with it; signals as they were.
static int set_attributes(posix_spawnattr_t *attributes, const sigset_t *mask) {
    int error =
        posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    if (!error)
        error = posix_spawnattr_setpgroup(attributes, 0);
    return error ? error : posix_spawnattr_setsigmask(attributes, mask);
}

static int set_files(posix_spawn_file_actions_t *actions, const char *directory, const char *log) {
    int error = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    if (!error)
        error =
            posix_spawn_file_actions_addopen(actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (!error)
        error = posix_spawn_file_actions_adddup2(actions, 1, 2);
    return error ? error : posix_spawn_file_actions_addchdir_np(actions, directory);
}

static int spawn(Arena *arena, const char *const *argv, const char *directory, const char *log,
                 const sigset_t *mask, pid_t *child) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        error = set_attributes(&attributes, mask);
        if (!error)
            error = set_files(&actions, directory, log);
        if (!error)
            error = posix_spawnp(child, argv[0], &actions, &attributes, (char *const *)argv,
                                 tool_environment(arena, directory));
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

// Waits for the child; a signal that comes ends it first. What waitpid says.
static pid_t wait_for(pid_t child, const AttHeldSignals *held, int *status, bool *interrupted) {
    sigset_t child_ends, awaited, before;
    sigemptyset(&child_ends);
    sigaddset(&child_ends, SIGCHLD);
    sigorset(&awaited, &child_ends, &held->ending);
    pthread_sigmask(SIG_BLOCK, &child_ends, &before);
    pid_t ended;
    int seconds = 0;
    while ((ended = waitpid(child, status, WNOHANG)) == 0) {
        struct timespec second = {.tv_sec = 1};
        int came = sigtimedwait(&awaited, NULL, &second);
        if (came > 0 && came != SIGCHLD) {
            raise(came); // it is held again, and ends this process once all is removed
            awaited = child_ends;
            *interrupted = true;
            kill(-child, SIGTERM);
        } else if (*interrupted && came < 0 && ++seconds == PATIENCE_SECONDS) {
            kill(-child, SIGKILL);
        }
    }
    if (*interrupted)
        kill(-child, SIGKILL); // what the tool has left running
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ended;
}

static const char *failure(Arena *arena, const char *tool, int status, const char *log) {
    const char *complaint = read_complaint(arena, log);
    if (WIFSIGNALED(status))
        return arena_printf(arena, "%s was killed by signal %d: %s", tool, WTERMSIG(status),
                            complaint);
    return arena_printf(arena, "%s failed with status %d: %s", tool, WEXITSTATUS(status),
                        complaint);
}

bool tool_run(Arena *arena, const char *const *argv, const char *directory,
              const AttHeldSignals *held, const char **why) {
    const char *log = arena_printf(arena, "%s/tool.log", directory);
    pid_t child;
    int error = spawn(arena, argv, directory, log, &held->before, &child), status = 0;
    if (error) {
        *why = arena_printf(arena, "cannot run %s: %s%s", argv[0], strerror(error),
                            error == ENOENT ? " (install a C compiler and binutils)" : "");
        return false;
    }
    bool interrupted = false;
    pid_t ended = wait_for(child, held, &status, &interrupted);
    if (!interrupted && ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (interrupted)
        *why = "interrupted";
    else if (ended != child)
        *why = arena_printf(arena, "cannot wait for %s: %s", argv[0], strerror(errno));
    else
        *why = failure(arena, argv[0], status, log);
    return false;
}
