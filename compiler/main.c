// SPDX-License-Identifier: Apache-2.0
// attc: one command and its exit status.
#include "driver/driver.h"
#include "signals.h"

#include <malloc.h>

static int (*const commands[N_COMMANDS])(Options *options) = {
    [COMMAND_CHECK] = command_check,   [COMMAND_COST] = command_cost,
    [COMMAND_EMIT] = command_emit,     [COMMAND_RUN] = command_run,
    [COMMAND_VERIFY] = command_verify, [COMMAND_BUILD] = command_build,
    [COMMAND_BENCH] = command_bench,   [COMMAND_MACHINE] = command_machine,
    [COMMAND_TUNE] = command_tune,     [COMMAND_FMT] = command_fmt,
    [COMMAND_DB] = command_db,
};

// Compiling a kernel takes and frees tens of MiB. Given back, and asked for again in small steps
// with the next one, they were a tenth of the time of compiling a layer.
static void keep_freed_memory(void) {
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    mallopt(M_TOP_PAD, 64 << 20);
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
}

int main(int argc, char **argv) {
    keep_freed_memory();
    att_signals_let_writing_fail();
    Session *session = session_new();
    Options options = {.session = session};
    bool stop = false;
    int status = options_parse(&options, argc, argv, &stop);
    if (status == EXIT_FINE && !stop)
        status = commands[options.kind](&options);
    if (status == EXIT_FINE)
        schedules_tell(&options);
    diags_print(session->diags, stderr, options.diagnostics, options.colour);
    if (status == EXIT_FINE && diags_errors(session->diags))
        status = EXIT_PROBLEM;
    if (fflush(stdout) || ferror(stdout)) {
        fputs("attc: error: cannot write standard output\n", stderr);
        status = status == EXIT_FINE ? EXIT_PROBLEM : status;
    }
    session_free(session);
    return status;
}
