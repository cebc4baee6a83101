// SPDX-License-Identifier: Apache-2.0
// main() of a program that trains: its subcommands.

#include "signals.h"
#include "train/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const char *name;
    AttCommandFn fn;
    const char *does;
} Command;
static const Command commands[] = {
    {"train", att_command_train, "train the model on data"},
    {"eval", att_command_eval, "the loss of a checkpoint on data"},
    {"generate", att_command_generate, "text that goes on from a prompt"},
    {"run", att_command_run, "results for inputs from .npy files"},
    {"heads", att_command_heads, "how much each head of attention matters; a model with fewer"},
    {"info", att_command_info, "what the program holds"},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static int print_help(const AttTrainer *trainer, char **argv, FILE *out) {
    fprintf(out, "Usage: %s COMMAND [OPTION]...\nTrains and runs %s.\n\nCommands:\n",
            att_command_program(argv), trainer->entry->entry);
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].does);
    fprintf(out,
            "\n%s COMMAND --help tells the options of a command. Without a command it is run.\n",
            att_command_program(argv));
    return fflush(out) ? ATT_EXIT_DATA : ATT_EXIT_FINE;
}

static bool is_help(const char *word) {
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

int att_trainer_main(const AttTrainer *trainer, int argc, char **argv) {
    att_signals_let_writing_fail();
    if (trainer->abi != ATT_TRAINER_ABI) {
        fprintf(stderr, "%s: error: built for another version of the training runtime\n", argv[0]);
        return ATT_EXIT_DATA;
    }
    if (argc < 2) {
        print_help(trainer, argv, stderr);
        return ATT_EXIT_USAGE;
    }
    if (is_help(argv[1]))
        return print_help(trainer, argv, stdout);
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].fn(trainer, argc, argv);
    if (argv[1][0] != '-' && !strchr(argv[1], '=')) {
        fprintf(stderr, "%s: error: there is no command '%s'; see --help\n",
                att_command_program(argv), argv[1]);
        return ATT_EXIT_USAGE;
    }
    return att_run_entry(trainer, argc, argv);
}
