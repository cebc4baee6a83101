// SPDX-License-Identifier: Apache-2.0
// attc: subcommands and exit statuses.
#include "driver/driver.h"

#include <string.h>

static const struct {
    const char *name;
    int (*run)(Options *options);
} commands[] = {
    {"check", command_check}, {"cost", command_cost},       {"emit", command_emit},
    {"run", command_run},     {"verify", command_verify},   {"build", command_build},
    {"bench", command_bench}, {"machine", command_machine},
};

static int run_command(Options *options) {
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(options->command, commands[i].name))
            return commands[i].run(options);
    return usage_error("unknown command '%s'", options->command);
}

int main(int argc, char **argv) {
    Session *session = session_new();
    Options options = {.session = session};
    bool stop = false;
    int status = options_parse(&options, argc, argv, &stop);
    if (status == EXIT_FINE && !stop)
        status = run_command(&options);
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
