// SPDX-License-Identifier: Apache-2.0
// Subcommands of a program that trains: their options, what they print and how they end.
//
// This level stands on train.h. Its files print; none ends the process.
#ifndef ATT_TRAIN_COMMANDS_H
#define ATT_TRAIN_COMMANDS_H

#include "train/train.h"

enum { ATT_EXIT_FINE = 0, ATT_EXIT_DATA = 1, ATT_EXIT_USAGE = 2 };

// argv as it is of main: argv[0] the program, argv[1] the subcommand. Returns the exit status.
typedef int (*AttCommandFn)(const AttTrainer *trainer, int argc, char **argv);
int att_command_train(const AttTrainer *trainer, int argc, char **argv);
int att_command_eval(const AttTrainer *trainer, int argc, char **argv);
int att_command_generate(const AttTrainer *trainer, int argc, char **argv);
int att_command_run(const AttTrainer *trainer, int argc, char **argv);
int att_command_heads(const AttTrainer *trainer, int argc, char **argv);
int att_command_info(const AttTrainer *trainer, int argc, char **argv);
// What `run` does, without the word.
int att_run_entry(const AttTrainer *trainer, int argc, char **argv);

// ---- options.c ---------------------------------------------------------------------------------
typedef struct {
    const char **at;
    int64_t count;
} AttWords;
typedef enum {
    ATT_OPTION_FLAG,   // bool
    ATT_OPTION_COUNT,  // int64_t, from least to most
    ATT_OPTION_NUMBER, // double, from least to most
    ATT_OPTION_TIME,   // double, seconds; 0: it was not given
    ATT_OPTION_TEXT,   // const char *
    ATT_OPTION_CHOICE, // int: the place among choices
    ATT_OPTION_EACH,   // AttWords: a word each time that it is given
    ATT_OPTION_WORDS   // AttWords: all words up to the next option
} AttOptionKind;
// A line of a table of options; the table ends with a line without a name.
typedef struct {
    const char *name; // "steps" of --steps
    AttOptionKind kind;
    size_t at;         // offsetof the struct of values
    const char *value; // for --help: "N"; NULL of a flag
    const char *help;  // a line
    double least, most;
    const char *const *choices; // ended by NULL
    bool needed;
    bool completes;     // with it, those that are needed may be missing, but for is_of_call
    bool may_change;    // when training goes on (settings.c)
    bool is_of_call;    // how it is called, not a setting
    char letter;        // also -D; 0: there is none
    const char *unless; // for --help: the default where `values` does not say it
} AttOption;
enum { ATT_OPTIONS_MOST = 40 };
// What the values of subcommands begin with that have options of these.
typedef struct {
    AttWords data, dims;
    int64_t threads;
    int objective; // AttObjective
} AttShared;
extern const AttOption att_options_of_data[]; // --data, --objective
extern const AttOption att_options_of_call[]; // -D, --threads
enum { ATT_TABLES_MOST = 3 };
typedef struct {
    const char *usage;                            // "--data FILE... --out DIR [OPTION]..."
    const char *does;                             // "Trains the model."
    const AttOption *tables[ATT_TABLES_MOST + 1]; // one after another, ended by NULL
    const char *notes;                            // behind the options in --help; NULL: nothing
} AttUsage;
const AttOption *att_option_line(const AttUsage *usage, int i); // NULL: behind the last
// Values of options: those that are not given stay as they are, so they are the defaults before.
typedef struct {
    void *values;
    bool given[ATT_OPTIONS_MOST]; // by line
} AttOptions;
// false: there is nothing more to do, *status is the exit status (--help, or a wrong command line,
// which is told of).
bool att_options_read(const AttUsage *usage, int argc, char **argv, AttOptions *options,
                      int *status);
void att_options_free(const AttUsage *usage, AttOptions *options); // the words
// "lm train: error: ..." on standard error. Returns status.
int att_command_fail(char **argv, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// The same with the message of the context, and ATT_EXIT_DATA.
int att_command_report(char **argv, const AttContext *ctx);
// "lm train: ..." on standard error.
void att_command_note(char **argv, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *att_command_program(char **argv); // argv[0] without folders

#endif
