// SPDX-License-Identifier: Apache-2.0
// Reading the command line, with argp.
#include "driver/options.h"

#include <argp.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arguments.h"

typedef struct {
    Options *options;
    OptionList given;
    bool stop;
    int status;
} ParseState;

int problem(Options *options, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char message[1024];
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    diag_error(options->session->diags, (Span){0}, "%s", message);
    return EXIT_PROBLEM;
}

static int parse_choice(const char *option, const char *text, const char *const *choices) {
    for (int i = 0; choices[i]; i++)
        if (!strcmp(text, choices[i]))
            return i;
    usage_error("%s: '%s' is not one of its values", option, text);
    return -1;
}

static int parse_target(Options *options, const char *name) {
    options->target = target_find(name);
    return options->target
               ? EXIT_FINE
               : usage_error("--target: unknown target '%s' (see --print-targets)", name);
}

static void print_targets(void) {
    for (const Target *const *t = targets_all(); *t; t++)
        printf("%-14s %s, %d-bit vectors\n", (*t)->name, (*t)->triple,
               8 * (*t)->machine.vector_bytes);
}

// The command, the source file, X=x.npy
static int parse_positional(Options *options, const char *text) {
    if (!options->command) {
        options->command = text;
        options->kind = command_find(text);
        return options->kind == N_COMMANDS ? usage_error("unknown command '%s'", text) : EXIT_FINE;
    }
    if (options->kind == COMMAND_DB)
        return option_db_word(options, text);
    if (options->kind == COMMAND_FMT)
        vec_push(options->session->arena, &options->files, text);
    if (!options->file || options->kind == COMMAND_FMT) {
        options->file = text;
        return EXIT_FINE;
    }
    return option_input(options, text);
}

static int parse_report_option(Options *options, int key, char *arg) {
    static const char *const forms[] = {"text", "json", NULL};
    static const char *const whens[] = {"auto", "always", "never", NULL};
    int choice;
    switch (key) {
    case 'W':
        return diags_warning_option(options->session->diags, arg)
                   ? EXIT_FINE
                   : usage_error("-W%s: there is no such warning", arg);
    case 'w':
        diags_warning_option(options->session->diags, "w");
        return EXIT_FINE;
    case KEY_DIAGNOSTICS:
        choice = parse_choice("--diagnostics", arg, forms);
        options->diagnostics = choice == 1 ? DIAGS_JSON : DIAGS_TEXT;
        return choice < 0 ? EXIT_USAGE : EXIT_FINE;
    default: // KEY_COLOUR
        choice = parse_choice("--color", arg, whens);
        if (choice > 0)
            options->colour = choice == 1;
        return choice < 0 ? EXIT_USAGE : EXIT_FINE;
    }
}

static int parse_number_option(Options *options, int key, const char *arg) {
    int64_t value;
    if (key == KEY_THREADS) {
        if (!att_argument_count(arg, 0, ATT_THREADS_MOST, &value))
            return usage_error("--threads %s: expected a whole number from 0 to %d", arg,
                               ATT_THREADS_MOST);
        options->threads = (int)value;
        return EXIT_FINE;
    }
    if (!att_argument_count(arg, 0, INT64_MAX, &value))
        return usage_error("--seed %s: expected a whole number from 0 to %lld", arg,
                           (long long)INT64_MAX);
    options->seed = (uint64_t)value;
    return EXIT_FINE;
}

static int parse_entry_option(Options *options, int key, char *arg) {
    Session *session = options->session;
    switch (key) {
    case KEY_ENTRY:
        options->entry.entry = names_find(session->names, arg);
        return EXIT_FINE;
    case 'D':
        return option_extents(options, "-D", arg, &session->overrides);
    case KEY_DATA:
        return option_names(options, "--data", arg, &session->data);
    case KEY_MAP:
        return option_map(options, arg);
    case KEY_WRT:
        return option_wrt(options, arg);
    case KEY_DECODE:
        options->decode = names_find(session->names, arg);
        return EXIT_FINE;
    case KEY_CHECKPOINT:
        return option_names(options, "--checkpoint", arg, &options->entry.checkpoints);
    default:
        return option_dynamic(options, arg);
    }
}

// Is it a folder, or can it become one?
static bool may_be_folder(const char *path) {
    struct stat about;
    return stat(path, &about) || S_ISDIR(about.st_mode);
}

// What an option that takes no value sets to true; NULL: it is no such option.
static bool *flag_of(Options *options, int key) {
    switch (key) {
    case KEY_JSON:
        return &options->json;
    case KEY_ORACLE:
        return &options->oracle;
    case KEY_INTERPRET:
        return &options->interpret;
    case KEY_TIME_PASSES:
        return &options->time_passes;
    case KEY_VERIFY_PASSES:
        return &options->verify_passes;
    case KEY_NO_MATERIALIZE:
        return &options->no_materialize;
    case KEY_SPACE:
        return &options->space;
    case KEY_CHECK:
        return &options->check;
    case KEY_GRAD:
        return &options->grad;
    case KEY_NO_DB:
        return &options->no_db;
    case KEY_CALIBRATE:
        return &options->calibrate;
    default:
        return NULL;
    }
}

static int parse_product(Options *options, int key) {
    options->product = key == KEY_STATIC   ? PRODUCT_STATIC
                       : key == KEY_OBJECT ? PRODUCT_OBJECT
                       : key == KEY_EXE    ? PRODUCT_EXE
                                           : PRODUCT_SHARED;
    return EXIT_FINE;
}

static int parse_cache(Options *options, const char *arg) {
    if (!*arg)
        return usage_error("--cache: expected a folder");
    if (!may_be_folder(arg))
        return usage_error("--cache %s: there is a file of this name, and no folder", arg);
    options->cache.directory = arg;
    return EXIT_FINE;
}

static int parse_file(Options *options, int key, const char *arg, const char **out) {
    bool has_stdin = key == KEY_WEIGHTS || key == KEY_SHAPES || key == KEY_SCHEDULES;
    if (!*arg || (has_stdin && !strcmp(arg, "-"))) // which is the source's
        return usage_error("%s: expected the name of a file",
                           option_text(options, option_find(key)));
    *out = arg;
    return EXIT_FINE;
}

static int parse_flag(ParseState *state, int key, char *arg) {
    Options *options = state->options;
    bool *flag = flag_of(options, key);
    if (flag) {
        *flag = true;
        return EXIT_FINE;
    }
    switch (key) {
    case KEY_STAGE:
        return option_stage(options, arg);
    case KEY_SHARED:
    case KEY_STATIC:
    case KEY_OBJECT:
    case KEY_EXE:
        return parse_product(options, key);
    case KEY_NO_CACHE:
        options->cache.enabled = false;
        return EXIT_FINE;
    case KEY_CACHE:
        return parse_cache(options, arg);
    case KEY_TARGET:
        return parse_target(options, arg);
    case KEY_PLAN:
        return option_plan(options, arg);
    case KEY_MEMORY_LIMIT:
        return option_memory_limit(options, arg);
    case KEY_MACHINE:
        return parse_file(options, key, arg, &options->machine);
    case KEY_WEIGHTS:
        return parse_file(options, key, arg, &options->weights);
    case KEY_DB:
        return parse_file(options, key, arg, &options->db);
    case KEY_SCHEDULES:
        return parse_file(options, key, arg, &options->schedules);
    case KEY_SHAPES:
        return parse_file(options, key, arg, &options->shapes);
    case KEY_KERNELS:
        return option_names(options, "--kernels", arg, &options->kernels);
    case KEY_EFFORT:
        return option_effort(options, arg);
    case KEY_BUDGET:
        return option_budget(options, arg);
    case KEY_OLDER_THAN:
        return option_older_than(options, arg);
    case KEY_ALTERNATIVES:
        return option_alternatives(options, arg);
    case KEY_PRINT_TARGETS:
        print_targets();
        state->stop = true;
        return EXIT_FINE;
    case 'o':
        return option_output(options, arg);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_option(int key, char *arg, struct argp_state *argp) {
    ParseState *state = argp->input;
    const Option *option = option_find(key);
    if (state->status == EXIT_FINE && option)
        state->status = options_note(state->options, &state->given, option);
    if (state->status != EXIT_FINE)
        return 0;
    switch (key) {
    case ARGP_KEY_ARG:
        state->status = parse_positional(state->options, arg);
        return 0;
    case KEY_ENTRY:
    case 'D':
    case KEY_DATA:
    case KEY_MAP:
    case KEY_WRT:
    case KEY_DECODE:
    case KEY_CHECKPOINT:
    case KEY_DYNAMIC:
        state->status = parse_entry_option(state->options, key, arg);
        return 0;
    case 'W':
    case 'w':
    case KEY_DIAGNOSTICS:
    case KEY_COLOUR:
        state->status = parse_report_option(state->options, key, arg);
        return 0;
    case KEY_SEED:
    case KEY_THREADS:
        state->status = parse_number_option(state->options, key, arg);
        return 0;
    default: {
        int status = parse_flag(state, key, arg);
        if (status == ARGP_ERR_UNKNOWN)
            return ARGP_ERR_UNKNOWN;
        state->status = status;
        return 0;
    }
    }
}

static const char doc[] =
    "Compiler for attention architectures written as einsums over named dimensions.\v"
    "Commands:\n"
    "  check   names, dims and types; prints nothing when all is well\n"
    "  cost    parameters, multiplies, buffers and kernels of an entry\n"
    "  emit    the program at one stage of compilation\n"
    "  run     runs an entry on .npy files\n"
    "  verify  runs compiled code and the double-precision oracle, prints the errors\n"
    "  build   a library, object or program\n"
    "  bench   time and share of the machine's peak\n"
    "  machine the facts of the machine that code is planned for; takes no FILE\n"
    "  tune    looks for schedules that are faster on this machine, for the database;\n"
    "          --calibrate and no FILE: fits the machine's rates to what it has measured\n"
    "  fmt     source files in their canonical layout; takes several FILEs\n"
    "  db      the database of tuned schedules; takes an action, and no FILE:\n"
    "          list, show KERNEL, export [-o TEXT], import TEXT, merge DATABASE-OR-TEXT,\n"
    "          prune [--older-than DAYS], check\n"
    "\nFILE may be - for standard input. Inputs that are not given are drawn from the seed.\n";

const char *argp_program_version = "attc " ATTC_VERSION;

// Tells of what argp would tell of in a form of its own: options that do not exist, values that
// are missing or too much. argp's own options end the program, so nothing after them counts.
static int check_spelling(Arena *arena, int argc, char **argv) {
    enum { ARGPS_OWN = 2 };
    static const char *const argps[] = {"help", "usage", "version"};
    VEC(struct option) longs = {0};
    Text shorts = {.arena = arena};
    text_add(&shorts, "-:V"); // '-': in order, ':': tells missing values apart
    for (size_t i = 0; i < sizeof argps / sizeof *argps; i++)
        vec_push(arena, &longs, (struct option){argps[i], no_argument, NULL, ARGPS_OWN});
    for (uint32_t i = 0; i < options_count(); i++) {
        const Option *o = options_get(i);
        int takes = o->value ? required_argument : no_argument;
        if (o->name)
            vec_push(arena, &longs, (struct option){o->name, takes, NULL, o->key});
        if (o->key < KEY_ENTRY)
            text_printf(&shorts, "%c%s", o->key, o->value ? ":" : "");
    }
    vec_push(arena, &longs, (struct option){0});
    opterr = optind = optopt = 0;
    for (int found; (found = getopt_long(argc, argv, shorts.at, longs.at, NULL)) != -1;
         optopt = 0) {
        if (found == ARGPS_OWN || found == 'V' || optopt == '?')
            break;
        if (found == ':')
            return usage_error("%s: expected a value", argv[optind - 1]);
        if (found == '?' && (optopt == ARGPS_OWN || optopt >= KEY_ENTRY))
            return usage_error("%s: takes no value", argv[optind - 1]);
        if (found == '?' && optopt)
            return usage_error("unknown option '-%c'", optopt);
        if (found == '?')
            return usage_error("unknown option '%s'", argv[optind - 1]);
    }
    return EXIT_FINE;
}

int options_parse(Options *options, int argc, char **argv, bool *stop) {
    const char *no_colour = getenv("NO_COLOR");
    options->colour = isatty(STDERR_FILENO) && !(no_colour && *no_colour);
    options->product = PRODUCT_SHARED;
    options->effort = EFFORT_NORMAL;
    options->db_action = N_DB_ACTIONS;
    Arena *arena = options->session->arena;
    options->cache = cache_default(arena);
    if (check_spelling(arena, argc, argv) != EXIT_FINE)
        return EXIT_USAGE;
    struct argp_option *table = arena_array(arena, struct argp_option, options_count() + 1);
    for (uint32_t i = 0; i < options_count(); i++) {
        const Option *o = options_get(i);
        table[i] = (struct argp_option){o->name, o->key,  o->value, *o->help ? 0 : OPTION_HIDDEN,
                                        o->help, o->group};
    }
    const struct argp argp = {table, parse_option, "COMMAND FILE [NAME=FILE.npy ...]", doc, NULL,
                              NULL,  NULL};
    argp_err_exit_status = EXIT_USAGE;
    ParseState state = {.options = options};
    argp_parse(&argp, argc, argv, 0, NULL, &state);
    *stop = state.stop;
    if (state.status == EXIT_FINE && !state.stop)
        state.status = options->command
                           ? options_check(options, &state.given)
                           : usage_error("expected a command: one of %s", command_list(arena));
    return state.status;
}
