// SPDX-License-Identifier: Apache-2.0
// The command line: one table of options (argp) for all commands.
#include "driver/driver.h"

#include <argp.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    KEY_COLOUR,
    KEY_INTERPRET,
    KEY_PLAN,
    KEY_NO_MATERIALIZE,
};

static const char *const command_names[N_COMMANDS] = {
    [COMMAND_CHECK] = "check", [COMMAND_COST] = "cost",       [COMMAND_EMIT] = "emit",
    [COMMAND_RUN] = "run",     [COMMAND_VERIFY] = "verify",   [COMMAND_BUILD] = "build",
    [COMMAND_BENCH] = "bench", [COMMAND_MACHINE] = "machine",
};

// Sets of commands: those that an option means something to.
enum {
    COST = 1 << COMMAND_COST,
    EMIT = 1 << COMMAND_EMIT,
    RUN = 1 << COMMAND_RUN,
    VERIFY = 1 << COMMAND_VERIFY,
    BUILD = 1 << COMMAND_BUILD,
    BENCH = 1 << COMMAND_BENCH,
    MACHINE = 1 << COMMAND_MACHINE,
    COMPILED = COST | EMIT | RUN | VERIFY | BUILD | BENCH,
    SOURCE = 1 << COMMAND_CHECK | COMPILED,
    ANY = SOURCE | MACHINE,
};

typedef struct {
    const char *name; // NULL: the key is its letter
    int key;
    const char *value; // NULL: takes none
    int group;         // of --help
    int commands;
    int choice;       // a key: of the options with one, one may be given, once. 0: may repeat
    const char *help; // "": not in --help
} Option;

static const Option option_table[] = {
    {"entry", KEY_ENTRY, "DEF", 1, SOURCE, KEY_ENTRY,
     "the def to compile (default: the file's only or last one)"},
    {NULL, 'D', "DIM=N[,DIM=N]", 1, SOURCE, 0,
     "extents of dims, over the file's defaults; may repeat"},
    {"data", KEY_DATA, "X,M", 1, SOURCE, 0,
     "arguments that are data; all others count as parameters"},
    {"map", KEY_MAP, "B=X,M", 1, SOURCE, 0,
     "run the entry for each position b of these arguments; may repeat, outermost first"},
    {"dynamic", KEY_DYNAMIC, "N,M", 1, SOURCE, 0,
     "dims whose -D is a run-time extent, not compiled in"},
    {NULL, 'o', "OUT", 2, EMIT | RUN | BUILD, 0,
     "output file, - for standard output; for run also NAME=FILE.npy"},
    {"stage", KEY_STAGE, "STAGE", 2, EMIT, KEY_STAGE,
     "for emit: ast, graph, simplified, contracted, fused, tile, llvm, asm or obj"},
    {"json", KEY_JSON, NULL, 2, COST | VERIFY | BENCH | MACHINE, 0,
     "one JSON object instead of a table"},
    {"shared", KEY_SHARED, NULL, 3, BUILD, KEY_SHARED, "build a shared library (default)"},
    {"static", KEY_STATIC, NULL, 3, BUILD, KEY_SHARED, "build a static library"},
    {"object", KEY_OBJECT, NULL, 3, BUILD, KEY_SHARED, "build a relocatable object"},
    {"exe", KEY_EXE, NULL, 3, BUILD, KEY_SHARED,
     "build a program that reads and writes .npy files"},
    {"plan", KEY_PLAN, "PLAN[:ROWS[:PIECE]]", 3, COMPILED, KEY_PLAN,
     "how attention is fused where that fits: resident, stream, two-pass, spill or unfused, and "
     "the rows of a task and the piece of the streamed dim (default: the cheapest)"},
    {"no-materialize", KEY_NO_MATERIALIZE, NULL, 3, COMPILED, 0,
     "fail when a value over pairs of positions would be stored"},
    {"target", KEY_TARGET, "NAME", 3, COMPILED | MACHINE, KEY_TARGET,
     "compile for this machine level (see --print-targets)"},
    {"machine", KEY_MACHINE, "FILE", 3, COMPILED | MACHINE, KEY_MACHINE,
     "plan for the machine in this file, not for this one (see attc machine)"},
    {"print-targets", KEY_PRINT_TARGETS, NULL, 3, ANY, 0, "list the targets"},
    {"seed", KEY_SEED, "S", 4, RUN | VERIFY | BENCH, KEY_SEED,
     "seed of the inputs that are not given (default 0)"},
    {"threads", KEY_THREADS, "T", 4, COMPILED, KEY_THREADS,
     "threads (default: one per core); build, bench, cost and emit plan for so many"},
    {"oracle", KEY_ORACLE, NULL, 4, RUN, KEY_ORACLE, "for run: the double-precision interpreter"},
    {"interpret", KEY_INTERPRET, NULL, 4, RUN | VERIFY, KEY_ORACLE,
     "for run and verify: the tile programs in plain loops"},
    {"no-cache", KEY_NO_CACHE, NULL, 4, ANY, 0, "compile afresh, keep nothing"},
    {"cache", KEY_CACHE, "DIR", 4, ANY, KEY_CACHE, "where compiled kernels are kept"},
    {NULL, 'W', "WARNING", 5, ANY, 0, "-Wname, -Wno-name, -Werror"},
    {NULL, 'w', NULL, 5, ANY, 0, "no warnings"},
    {"diagnostics", KEY_DIAGNOSTICS, "text|json", 5, ANY, 0, "form of messages on standard error"},
    {"color", KEY_COLOUR, "auto|always|never", 5, ANY, 0, "colour in messages"},
    {"time-passes", KEY_TIME_PASSES, NULL, 6, ANY, 0, "a line per pass on standard error"},
    {"verify-passes", KEY_VERIFY_PASSES, NULL, 6, ANY, 0,
     "run every level's verifier after each pass"},
    {"grad", KEY_GRAD, NULL, 6, ANY, 0, ""},
};
enum { N_OPTIONS = sizeof option_table / sizeof *option_table };

typedef struct {
    Options *options;
    VEC(const Option *) given;
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

// X=x.npy, or the source file
static int parse_positional(Options *options, const char *text) {
    Session *session = options->session;
    if (!options->command) {
        options->command = text;
        return EXIT_FINE;
    }
    if (!options->file) {
        options->file = text;
        return EXIT_FINE;
    }
    const char *equals = strchr(text, '=');
    if (!equals || !option_is_name(text, (size_t)(equals - text)) || !equals[1])
        return usage_error("'%s': expected NAME=FILE.npy after the source file", text);
    Name name = names_intern(session->names, text, (size_t)(equals - text));
    for (uint32_t i = 0; i < options->inputs.count; i++)
        if (options->inputs.at[i].name == name)
            return usage_error("%s is given twice", name);
    vec_push(session->arena, &options->inputs, (NamedPath){name, equals + 1});
    return EXIT_FINE;
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
        if (!option_count(arg, 1, 1024, &value))
            return usage_error("--threads %s: expected a whole number from 1 to 1024", arg);
        options->threads = (int)value;
        return EXIT_FINE;
    }
    if (!option_count(arg, 0, INT64_MAX, &value))
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
        return option_extents(options, arg);
    case KEY_DATA:
        return option_names(options, "--data", arg, &session->data);
    case KEY_MAP:
        return option_map(options, arg);
    default:
        return option_names(options, "--dynamic", arg, &session->dynamic);
    }
}

static int parse_flag(ParseState *state, int key, char *arg) {
    Options *options = state->options;
    switch (key) {
    case KEY_STAGE:
        options->stage = arg;
        break;
    case KEY_JSON:
        options->json = true;
        break;
    case KEY_ORACLE:
        options->oracle = true;
        break;
    case KEY_INTERPRET:
        options->interpret = true;
        break;
    case KEY_SHARED:
        options->product = PRODUCT_SHARED;
        break;
    case KEY_STATIC:
        options->product = PRODUCT_STATIC;
        break;
    case KEY_OBJECT:
        options->product = PRODUCT_OBJECT;
        break;
    case KEY_EXE:
        options->product = PRODUCT_EXE;
        break;
    case KEY_NO_CACHE:
        options->cache.enabled = false;
        break;
    case KEY_CACHE:
        if (!*arg)
            return usage_error("--cache: expected a folder");
        options->cache.directory = arg;
        break;
    case KEY_TIME_PASSES:
        options->time_passes = true;
        break;
    case KEY_VERIFY_PASSES:
        options->verify_passes = true;
        break;
    case KEY_TARGET:
        return parse_target(options, arg);
    case KEY_PLAN:
        return option_plan(options, arg);
    case KEY_NO_MATERIALIZE:
        options->no_materialize = true;
        break;
    case KEY_MACHINE:
        if (!*arg)
            return usage_error("--machine: expected the name of a file");
        options->machine = arg;
        break;
    case KEY_GRAD:
        return usage_error("--grad: this version compiles forward passes only");
    case KEY_PRINT_TARGETS:
        print_targets();
        state->stop = true;
        break;
    case 'o':
        if (!*arg)
            return usage_error("-o: expected the name of a file");
        vec_push(options->session->arena, &options->outputs, arg);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return EXIT_FINE;
}

// ---- which options fit together, and the command ----

static const Option *find_option(int key) {
    for (int i = 0; i < N_OPTIONS; i++)
        if (option_table[i].key == key)
            return &option_table[i];
    return NULL;
}

static const char *option_text(const Options *options, const Option *option) {
    if (option->name)
        return arena_printf(options->session->arena, "--%s", option->name);
    return arena_printf(options->session->arena, "-%c", option->key);
}

// Keeps that an option was given; not beside another of the same choice.
static int note_given(ParseState *state, const Option *option) {
    const Options *options = state->options;
    const char *text = option_text(options, option);
    for (uint32_t i = 0; i < state->given.count && option->choice; i++) {
        const Option *before = state->given.at[i];
        if (before == option)
            return usage_error("%s is given twice", text);
        if (before->choice == option->choice)
            return usage_error("%s and %s exclude each other", option_text(options, before), text);
    }
    vec_push(options->session->arena, &state->given, option);
    return EXIT_FINE;
}

// The command exists, and everything given means something to it.
static int check_command(const ParseState *state) {
    Options *options = state->options;
    const char *name = options->command;
    int kind = 0;
    if (!name)
        return usage_error(
            "expected a command: check, cost, emit, run, verify, build, bench or machine");
    while (kind < N_COMMANDS && strcmp(name, command_names[kind]) != 0)
        kind++;
    if (kind == N_COMMANDS)
        return usage_error("unknown command '%s'", name);
    options->kind = kind;
    int bit = 1 << kind;
    bool takes_file = bit & SOURCE;
    if (takes_file != (options->file != NULL))
        return usage_error(takes_file ? "%s: expected a source file" : "%s: takes no source file",
                           name);
    for (uint32_t k = 0; k < state->given.count; k++)
        if (!(state->given.at[k]->commands & bit))
            return usage_error("%s: takes no %s", name, option_text(options, state->given.at[k]));
    if (options->inputs.count && !(bit & (RUN | VERIFY | BENCH)))
        return usage_error("%s: takes no %s=%s", name, options->inputs.at[0].name,
                           options->inputs.at[0].path);
    return EXIT_FINE;
}

static error_t parse_option(int key, char *arg, struct argp_state *argp) {
    ParseState *state = argp->input;
    const Option *option = find_option(key);
    if (state->status == EXIT_FINE && option)
        state->status = note_given(state, option);
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
    "\nFILE may be - for standard input. Inputs that are not given are drawn from the seed.\n";

const char *argp_program_version = "attc " ATTC_VERSION;

// Tells of what argp would tell of in a form of its own: options that do not exist, values that
// are missing or too much. argp's own options end the program, so nothing after them counts.
static int check_spelling(int argc, char **argv) {
    enum { ARGPS_OWN = 2 };
    struct option longs[N_OPTIONS + 4] = {{"help", no_argument, NULL, ARGPS_OWN},
                                          {"usage", no_argument, NULL, ARGPS_OWN},
                                          {"version", no_argument, NULL, ARGPS_OWN}};
    char shorts[2 * N_OPTIONS + 4] = "-:V"; // '-': in order, ':': tells missing values apart
    for (int i = 0, n = 3; i < N_OPTIONS; i++) {
        const Option *o = &option_table[i];
        int takes = o->value ? required_argument : no_argument;
        if (o->name)
            longs[n++] = (struct option){o->name, takes, NULL, o->key};
        else
            sprintf(shorts + strlen(shorts), "%c%s", o->key, o->value ? ":" : "");
    }
    opterr = optind = optopt = 0;
    for (int found; (found = getopt_long(argc, argv, shorts, longs, NULL)) != -1; optopt = 0) {
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
    options->cache = cache_default(options->session->arena);
    if (check_spelling(argc, argv) != EXIT_FINE)
        return EXIT_USAGE;
    struct argp_option table[N_OPTIONS + 1] = {0};
    for (int i = 0; i < N_OPTIONS; i++) {
        const Option *o = &option_table[i];
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
        state.status = check_command(&state);
    return state.status;
}
