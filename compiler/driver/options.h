// SPDX-License-Identifier: Apache-2.0
// Between the files that read the command line: which options there are (option_table.c), what
// stands after them (option_values.c), and reading all of it (options.c).
#ifndef ATTC_DRIVER_OPTIONS_H
#define ATTC_DRIVER_OPTIONS_H

#include "driver/driver.h"

// Keys of the options that have no letter.
enum {
    KEY_ENTRY = 256,
    KEY_DATA,
    KEY_MAP,
    KEY_DYNAMIC,
    KEY_JSON,
    KEY_STAGE,
    KEY_SEED,
    KEY_ORACLE,
    KEY_THREADS,
    KEY_DIAGNOSTICS,
    KEY_TARGET,
    KEY_MACHINE,
    KEY_SHARED,
    KEY_STATIC,
    KEY_OBJECT,
    KEY_EXE,
    KEY_NO_CACHE,
    KEY_CACHE,
    KEY_TIME_PASSES,
    KEY_VERIFY_PASSES,
    KEY_PRINT_TARGETS,
    KEY_GRAD,
    KEY_DECODE,
    KEY_WRT,
    KEY_CHECKPOINT,
    KEY_MEMORY_LIMIT,
    KEY_COLOUR,
    KEY_INTERPRET,
    KEY_PLAN,
    KEY_NO_MATERIALIZE,
    KEY_CHECK,
    KEY_WEIGHTS,
    KEY_SPACE,
    KEY_DB,
    KEY_NO_DB,
    KEY_SCHEDULES,
    KEY_KERNELS,
    KEY_SHAPES,
    KEY_EFFORT,
    KEY_BUDGET,
    KEY_CALIBRATE,
    KEY_OLDER_THAN,
    KEY_ALTERNATIVES,
};

// ---- option_table.c ----
typedef struct {
    const char *name;  // NULL: it has a letter alone
    int key;           // its letter, or one of the above
    const char *value; // NULL: takes none
    int group;         // of --help
    unsigned uses;     // a set of uses of attc: those that it means something to
    int choice;        // a key: of the options with one, one may be given, once. 0: may repeat
    const char *help;  // "": not in --help
} Option;
typedef VEC(const Option *) OptionList;
uint32_t options_count(void);
const Option *options_get(uint32_t i);
const Option *option_find(int key);                                    // NULL: there is none
const char *option_text(const Options *options, const Option *option); // as it is written
CommandKind command_find(const char *name);                            // N_COMMANDS: no such one
const char *command_list(Arena *arena);                                // "check, cost, ..."
// Keeps that an option was given; not beside another of the same choice.
int options_note(const Options *options, OptionList *given, const Option *option);
// Everything given means something to what attc is asked for.
int options_check(const Options *options, const OptionList *given);

// ---- option_values.c: what stands after an option; a status, after a message ----
int option_input(Options *options, const char *text);  // X=x.npy
int option_output(Options *options, const char *text); // -o, NAME=FILE or FILE
int option_wrt(Options *options, const char *text);    // X,layer.0.W
int option_names(Options *options, const char *option, const char *text, NameList *out); // a,b,c
int option_extents(Options *options, const char *option, const char *text,
                   DimExtents *out);                         // n=5,m=7
int option_dynamic(Options *options, const char *text);      // n,m=7
int option_map(Options *options, const char *text);          // b=X,M
int option_plan(Options *options, const char *text);         // stream:12:64
int option_memory_limit(Options *options, const char *text); // 64M
int option_stage(Options *options, const char *text);
int option_effort(Options *options, const char *text);       // normal
int option_budget(Options *options, const char *text);       // 60s, 5m
int option_alternatives(Options *options, const char *text); // 3
int option_older_than(Options *options, const char *text);   // 30
int option_db_word(Options *options, const char *text);      // list, and what stands after it

#endif
