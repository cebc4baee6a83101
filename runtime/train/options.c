// SPDX-License-Identifier: Apache-2.0
// Reads the options of a subcommand by its tables, into a struct that holds the defaults before.
//
//     {"steps", ATT_OPTION_COUNT, offsetof(Values, steps), "N", "steps to take", .least = 1, ..}

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "train/commands.h"

enum { CODE_WORD = 1, CODE_HELP = 'h', CODE_FIRST = 256, NONE = -1, HELP_COLUMN = 27 };

typedef struct {
    const AttUsage *usage;
    char **argv;
    AttOptions *options;
    int last; // line of the option that words belong to
    bool help;
} Reader;

// ---- tables ------------------------------------------------------------------------------------
const AttOption att_options_of_data[] = {
    {"data", ATT_OPTION_WORDS, offsetof(AttShared, data), "FILE...",
     "text, token shards, or NAME=FILE of arrays", .needed = true},
    {"objective", ATT_OPTION_CHOICE, offsetof(AttShared, objective), "NAME",
     "what examples are made of tokens", .choices = att_objective_names},
    {0}};
const AttOption att_options_of_call[] = {{"dims", ATT_OPTION_EACH, offsetof(AttShared, dims),
                                          "DIM=N,...", "extents of run-time dims", .letter = 'D'},
                                         {"threads", ATT_OPTION_COUNT, offsetof(AttShared, threads),
                                          "T", "0: one per core", .most = ATT_THREADS_MOST,
                                          .may_change = true},
                                         {0}};

const AttOption *att_option_line(const AttUsage *usage, int i) {
    for (const AttOption *const *table = usage->tables; *table; table++)
        for (const AttOption *option = *table; option->name; option++)
            if (i-- == 0)
                return option;
    return NULL;
}

// ---- messages ----------------------------------------------------------------------------------
const char *att_command_program(char **argv) {
    const char *slash = strrchr(argv[0], '/');
    return slash ? slash + 1 : argv[0];
}

static void say(char **argv, const char *kind, const char *format, va_list args) {
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    for (char *at = text; at && *at; at++) // of names, which may have anything in them
        if ((unsigned char)*at < ' ' || *at == 0x7F)
            *at = '?';
    fprintf(stderr, "%s %s: %s%s\n", att_command_program(argv), argv[1], kind,
            text ? text : "out of memory");
    free(text);
}

int att_command_fail(char **argv, int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(argv, "error: ", format, args);
    va_end(args);
    return status;
}

int att_command_report(char **argv, const AttContext *ctx) {
    return att_command_fail(argv, ATT_EXIT_DATA, "%s", att_message(ctx));
}

void att_command_note(char **argv, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(argv, "", format, args);
    va_end(args);
}

// ---- values ------------------------------------------------------------------------------------
static void *value_at(const AttOptions *options, const AttOption *option) {
    return (char *)options->values + option->at;
}

static int fail_value(const Reader *r, const AttOption *option, const char *text,
                      const char *expected) {
    return att_command_fail(r->argv, ATT_EXIT_USAGE, "--%s %s: expected %s", option->name, text,
                            expected);
}

static int take_count(const Reader *r, const AttOption *option, const char *text) {
    char expected[80];
    if (att_argument_count(text, (int64_t)option->least, (int64_t)option->most,
                           value_at(r->options, option)))
        return ATT_EXIT_FINE;
    snprintf(expected, sizeof expected, "a whole number from %lld to %lld",
             (long long)option->least, (long long)option->most);
    return fail_value(r, option, text, expected);
}

static int take_number(const Reader *r, const AttOption *option, const char *text) {
    char expected[80], *end;
    double number = strtod(text, &end);
    if (end != text && !*end && number >= option->least && number <= option->most) {
        *(double *)value_at(r->options, option) = number;
        return ATT_EXIT_FINE;
    }
    snprintf(expected, sizeof expected, "a number from %g to %g", option->least, option->most);
    return fail_value(r, option, text, expected);
}

static int take_time(const Reader *r, const AttOption *option, const char *text) {
    return att_argument_seconds(text, value_at(r->options, option))
               ? ATT_EXIT_FINE
               : fail_value(r, option, text, ATT_SECONDS_EXPECTED);
}

static int take_choice(const Reader *r, const AttOption *option, const char *text) {
    char expected[200] = "one of";
    size_t at = strlen(expected);
    for (int i = 0; option->choices[i]; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            *(int *)value_at(r->options, option) = i;
            return ATT_EXIT_FINE;
        }
        if (at < sizeof expected)
            at += (size_t)snprintf(expected + at, sizeof expected - at, "%s %s", i ? "," : "",
                                   option->choices[i]);
    }
    return fail_value(r, option, text, expected);
}

static int take_word(const Reader *r, const AttOption *option, const char *text) {
    AttWords *words = value_at(r->options, option);
    const char **more = realloc(words->at, ((size_t)words->count + 1) * sizeof *more);
    if (!more)
        return att_command_fail(r->argv, ATT_EXIT_DATA, "out of memory");
    words->at = more;
    words->at[words->count++] = text;
    return ATT_EXIT_FINE;
}

static bool is_list(const AttOption *option) {
    return option->kind == ATT_OPTION_EACH || option->kind == ATT_OPTION_WORDS;
}

static int take_value(Reader *r, int line, const char *text) {
    const AttOption *option = att_option_line(r->usage, line);
    if (r->options->given[line] && !is_list(option) && option->kind != ATT_OPTION_FLAG)
        return att_command_fail(r->argv, ATT_EXIT_USAGE, "--%s is given twice", option->name);
    r->options->given[line] = true;
    r->last = option->kind == ATT_OPTION_WORDS ? line : NONE;
    switch (option->kind) {
    case ATT_OPTION_FLAG:
        *(bool *)value_at(r->options, option) = true;
        return ATT_EXIT_FINE;
    case ATT_OPTION_COUNT:
        return take_count(r, option, text);
    case ATT_OPTION_NUMBER:
        return take_number(r, option, text);
    case ATT_OPTION_TIME:
        return take_time(r, option, text);
    case ATT_OPTION_TEXT:
        *(const char **)value_at(r->options, option) = text;
        return *text ? ATT_EXIT_FINE : fail_value(r, option, "''", option->value);
    case ATT_OPTION_CHOICE:
        return take_choice(r, option, text);
    case ATT_OPTION_EACH:
    case ATT_OPTION_WORDS:
        return take_word(r, option, text);
    }
    return ATT_EXIT_USAGE;
}

// ---- help --------------------------------------------------------------------------------------
static void print_default(const AttOptions *options, const AttOption *option) {
    const void *value = value_at(options, option);
    const char *text = option->kind == ATT_OPTION_TEXT ? *(const char *const *)value : NULL;
    if (option->unless)
        printf("; default: %s", option->unless);
    else if (option->kind == ATT_OPTION_COUNT && !option->needed)
        printf("; default: %lld", (long long)*(const int64_t *)value);
    else if (option->kind == ATT_OPTION_NUMBER && !option->needed)
        printf("; default: %g", *(const double *)value);
    else if (option->kind == ATT_OPTION_CHOICE)
        printf("; default: %s", option->choices[*(const int *)value]);
    else if (text)
        printf("; default: %s", text);
}

static void print_option(const AttOptions *options, const AttOption *option) {
    int width = option->letter ? printf("  -%c", option->letter) : printf("  --%s", option->name);
    if (option->value)
        width += printf(" %s", option->value);
    if (width >= HELP_COLUMN - 1) {
        putchar('\n');
        width = 0;
    }
    printf("%*s%s", HELP_COLUMN - width, "", option->help);
    print_default(options, option);
    putchar('\n');
    for (int i = 0; option->kind == ATT_OPTION_CHOICE && option->choices[i]; i++)
        printf("%s%s", i ? ", " : "                           ", option->choices[i]);
    if (option->kind == ATT_OPTION_CHOICE)
        putchar('\n');
}

static int print_help(const Reader *r) {
    printf("Usage: %s %s %s\n%s\n\nOptions:\n", att_command_program(r->argv), r->argv[1],
           r->usage->usage, r->usage->does);
    const AttOption *option;
    for (int i = 0; (option = att_option_line(r->usage, i)); i++)
        print_option(r->options, option);
    printf("  -h, --help%*sthis text\n", HELP_COLUMN - 12, "");
    if (r->usage->notes)
        printf("\n%s", r->usage->notes);
    printf("\nExit status: 0 fine, 1 errors in the data, 2 wrong command line.\n");
    return fflush(stdout) ? att_command_fail(r->argv, ATT_EXIT_DATA, "%s", strerror(errno))
                          : ATT_EXIT_FINE;
}

// ---- the command line --------------------------------------------------------------------------
static void describe(const AttUsage *usage, struct option *longs, char *letters) {
    const AttOption *option;
    int count = 0;
    letters += sprintf(letters, "-:h");
    for (; count < ATT_OPTIONS_MOST && (option = att_option_line(usage, count)); count++) {
        int argument = option->kind == ATT_OPTION_FLAG ? no_argument : required_argument;
        longs[count] = (struct option){option->name, argument, NULL, CODE_FIRST + count};
        if (option->letter)
            letters += sprintf(letters, "%c%s", option->letter, argument ? ":" : "");
    }
    longs[count] = (struct option){"help", no_argument, NULL, CODE_HELP};
    longs[count + 1] = (struct option){0};
}

static int line_of_letter(const AttUsage *usage, int letter) {
    const AttOption *option;
    for (int i = 0; (option = att_option_line(usage, i)); i++)
        if (letter && option->letter == letter)
            return i;
    return NONE;
}

static int take_option(Reader *r, int code) {
    int line = code >= CODE_FIRST ? code - CODE_FIRST : line_of_letter(r->usage, code);
    if (code == CODE_WORD && r->last == NONE)
        return att_command_fail(r->argv, ATT_EXIT_USAGE, "unexpected '%s'; see --help", optarg);
    if (code == CODE_WORD)
        return take_value(r, r->last, optarg);
    if (code == CODE_HELP)
        r->help = true;
    if (code == CODE_HELP)
        return ATT_EXIT_FINE;
    if (code == ':')
        return att_command_fail(r->argv, ATT_EXIT_USAGE, "%s: expected a value",
                                r->argv[optind - 1]);
    if (line == NONE)
        return att_command_fail(r->argv, ATT_EXIT_USAGE, "unknown option '%s'; see --help",
                                r->argv[optind - 1]);
    return take_value(r, line, optarg);
}

static bool is_completed(const Reader *r) {
    const AttOption *option;
    for (int i = 0; (option = att_option_line(r->usage, i)); i++)
        if (option->completes && r->options->given[i])
            return true;
    return false;
}

static int check_needed(const Reader *r) {
    const AttOption *option;
    bool completed = is_completed(r);
    for (int i = 0; (option = att_option_line(r->usage, i)); i++)
        if (option->needed && !r->options->given[i] && !(completed && !option->is_of_call))
            return att_command_fail(r->argv, ATT_EXIT_USAGE, "--%s %s is missing; see --help",
                                    option->name, option->value);
    return ATT_EXIT_FINE;
}

bool att_options_read(const AttUsage *usage, int argc, char **argv, AttOptions *options,
                      int *status) {
    struct option longs[ATT_OPTIONS_MOST + 2];
    char letters[2 * ATT_OPTIONS_MOST + 4];
    Reader reader = {usage, argv, options, NONE, false};
    int code;
    describe(usage, longs, letters);
    *status = ATT_EXIT_FINE;
    opterr = 0;
    optind = 2; // behind the subcommand
    while (!*status && (code = getopt_long(argc, argv, letters, longs, NULL)) != -1)
        *status = take_option(&reader, code);
    for (; optind < argc && !*status; optind++) // behind "--"
        *status = reader.last == NONE
                      ? att_command_fail(argv, ATT_EXIT_USAGE, "unexpected '%s'; see --help",
                                         argv[optind])
                      : take_value(&reader, reader.last, argv[optind]);
    if (!*status && reader.help)
        *status = print_help(&reader);
    else if (!*status)
        *status = check_needed(&reader);
    bool go_on = !*status && !reader.help;
    if (!go_on)
        att_options_free(usage, options);
    return go_on;
}

void att_options_free(const AttUsage *usage, AttOptions *options) {
    const AttOption *option;
    for (int i = 0; (option = att_option_line(usage, i)); i++) {
        if (!is_list(option))
            continue;
        AttWords *words = value_at(options, option);
        free(words->at);
        *words = (AttWords){0};
    }
}
